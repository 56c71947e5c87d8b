/* Reads the nodes of a file for expansion, and writes sets with messages instead of collectives. */
#include "export/chakra/simulate/et_expand.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "export/chakra/wire/et_files.h"
#include "export/chakra/wire/et_frames.h"
#include "syntorch/base/memory.h"

/* ---- Reading ---- */

/* Fails if the set does not run to its end, because its messages would not, either. */
static syn_status check_runs(const syn__sim_set *set, syn_error *err) {
    syn__sim_folded folded = {.n_classes = 0};
    syn_simulation result = {.n_nodes = 0};
    const syn_simulate_options times_only = {.timeline = NULL};
    syn_status s = syn__sim_fold(&folded, set, err);
    if (s == SYN_OK && folded.n_absent > 0)
        s = SYN_FAIL(err, SYN_E_INVALID,
                     "%" PRIu32 " rank%s of the set's groups and messages %s no file",
                     folded.n_absent, folded.n_absent == 1 ? "" : "s",
                     folded.n_absent == 1 ? "has" : "have");
    if (s == SYN_OK) s = syn__sim_run(&result, set, &folded, &times_only, err);
    if (s == SYN_OK && result.deadlock != NULL)
        s = SYN_FAIL(err, SYN_E_FORMAT, "the set deadlocks: %s", result.deadlock);
    syn_simulation_free(&result);
    syn__sim_folded_close(&folded);
    return s;
}

syn_status syn__expand_load(syn__sim_set *set, syn__expand_plan *plan, syn_expanded *done,
                            const char *prefix, const syn_expand_options *options, syn_error *err) {
    const syn_simulate_options how = {.groups = options->groups,
                                      .max_unpacked_bytes = options->max_unpacked_bytes};
    *done = (syn_expanded){.n_ranks = 0};
    SYN_TRY(syn__sim_load(set, &prefix, 1, &how, err));
    done->n_ranks = (uint32_t)set->n_ranks;
    done->n_nodes = set->n_nodes;
    SYN_TRY(check_runs(set, err));
    SYN_TRY(syn__expand_levels(plan, set, options, err));
    done->n_uneven = plan->n_uneven;
    return SYN_OK;
}

static bool integer_of(const syn__et_node *node, const char *name, int64_t *out) {
    for (size_t i = 0; i < node->n_attrs; i++)
        if (syn__str_is(node->attrs[i].name, name))
            return syn__et_attr_integer(&node->attrs[i], out);
    return false;
}

/* The index of a collective's group in the set, which the loader has checked. */
static uint32_t group_of(const syn__expand_file *f, const syn__et_node *node) {
    syn__str name = syn__str_of(f->set->world);
    for (size_t i = 0; i < node->n_attrs; i++)
        if (syn__str_is(node->attrs[i].name, "pg_name") && node->attrs[i].data.bytes > 0)
            name = node->attrs[i].data;
    for (uint32_t i = 0; i < f->rank->n_groups; i++) {
        const uint32_t group = f->rank->groups[i];
        if (syn_intern_entry_bytes(&f->set->names, group) == name.bytes &&
            memcmp(syn_intern_get(&f->set->names, group), name.text, name.bytes) == 0)
            return group;
    }
    return 0;
}

static syn_status take_node(void *user, uint32_t index, uint64_t offset, const syn__et_node *node,
                            syn_error *err) {
    syn__expand_file *f = user;
    int64_t value = 0;
    (void)offset;
    SYN_TRY(syn_grow(&f->nodes, &f->cap, index + 1u, sizeof *f->nodes, err));
    syn__expand_node *n = &f->nodes[index];
    *n = (syn__expand_node){.kind = SYN__SIM_FREE, .root = -1};
    if (integer_of(node, "wall_ns", &value) || integer_of(node, "predicted_ns", &value))
        n->ns = value > 0 ? (uint64_t)value : 0;
    else n->ns = node->duration_micros * 1000;
    if (integer_of(node, "comm_size", &value)) n->bytes = (uint64_t)value;
    if (integer_of(node, "comm_tag", &value)) n->tag = (int32_t)value;
    if (node->type == SYN__ET_COMP_NODE) {
        n->kind = SYN__SIM_COMPUTE;
    } else if (node->type == SYN__ET_COMM_COLL_NODE) {
        n->kind = SYN__SIM_COLLECTIVE;
        if (integer_of(node, "comm_type", &value)) n->comm_type = (int)value;
        if (integer_of(node, "root", &value)) n->root = (int32_t)value;
        n->group = group_of(f, node);
        n->number = f->numbers[n->group]++;
    } else if (node->type == SYN__ET_COMM_SEND_NODE || node->type == SYN__ET_COMM_RECV_NODE) {
        const bool sends = node->type == SYN__ET_COMM_SEND_NODE;
        n->kind = sends ? SYN__SIM_SEND : SYN__SIM_RECV;
        if (integer_of(node, sends ? "comm_dst" : "comm_src", &value)) n->peer = (int32_t)value;
    }
    return SYN_OK;
}

syn_status syn__expand_open(syn__expand_file *f, const syn__sim_set *set,
                            const syn__expand_plan *plan, const syn__sim_rank *rank,
                            syn_error *err) {
    const syn__et_listener listener = {.user = f, .node = take_node};
    *f = (syn__expand_file){.set = set, .plan = plan, .rank = rank, .err = err};
    SYN_TRY(syn__file_text_open(&f->text, rank->path, set->max_unpacked_bytes, err));
    f->numbers = syn_calloc(set->names.n_entries + 1, sizeof *f->numbers);
    if (f->numbers == NULL)
        return SYN_FAIL_NOMEM(err, set->names.n_entries * sizeof *f->numbers, "groups");
    return syn__et_scan_open(&f->scan, f->text.data, f->text.bytes, &listener, err);
}

void syn__expand_close(syn__expand_file *f) {
    syn__et_scan_close(&f->scan);
    if (f->text.data != NULL) syn__file_text_close(&f->text);
    syn_free(f->nodes);
    syn_free(f->numbers);
}

syn_status syn__expand_steps(const syn__expand_file *f, const syn__expand_node *node,
                             syn__steps *out, syn_error *err) {
    const syn__sim_group *g = &f->set->groups[node->group];
    uint32_t own = 0, root = 0;
    for (uint32_t i = 0; i < g->n_ranks; i++) {
        if (g->ranks[i] == f->rank->rank) own = i;
        if (g->ranks[i] == node->root) root = i;
    }
    return syn__steps_make(out, f->plan, node->comm_type, g->ranks, g->n_ranks, own, root,
                           node->bytes, err);
}

int32_t syn__expand_tag(const syn__expand_node *node, uint32_t round, int32_t first, int32_t n) {
    /* Tags may repeat, as messages of a pair of ranks are received in the order in which they are
       sent. */
    const uint64_t number = ((uint64_t)node->group * 65536 + node->number) * 256 + round;
    return first + (int32_t)(number % (uint64_t)n);
}

/* ---- Writing trace sets ---- */

/* ASTRA-sim takes tags modulo 500,000,000; messages of the set usually have small tags. */
enum { FIRST_TAG = 250000000, N_TAGS = 249999999 };

typedef struct writer {
    const syn__expand_file *file;
    syn_sink *sink;
    syn__buf buf;
    syn__steps steps;
    uint64_t stride;       /* ids of the new nodes: old id * stride + number of the step */
    uint64_t *ctrl, *data; /* dependencies of the current node */
    size_t n_ctrl, n_data, ctrl_cap, data_cap;
    syn_expanded *done;
    syn_error *err;
} writer;

static syn_status push(writer *w, uint64_t **list, size_t *n, size_t *cap, uint64_t id) {
    SYN_TRY(syn_grow(list, cap, *n + 1, sizeof **list, w->err));
    (*list)[(*n)++] = id;
    return SYN_OK;
}

/* Appends what replaces a dependency: the last steps of a collective. */
static syn_status add_dep(writer *w, uint32_t dep, uint64_t **list, size_t *n, size_t *cap) {
    const syn__expand_node *node = &w->file->nodes[dep];
    const uint64_t id = w->file->scan.ids[dep] * w->stride;
    if (node->kind == SYN__SIM_COLLECTIVE) {
        SYN_TRY(syn__expand_steps(w->file, node, &w->steps, w->err));
        for (size_t i = 0; i < w->steps.n; i++)
            if (w->steps.list[i].is_last) SYN_TRY(push(w, list, n, cap, id + i));
        if (w->steps.n > 0) return SYN_OK;
    }
    return push(w, list, n, cap, id);
}

static uint32_t index_of(const syn__et_scan *scan, uint64_t id) {
    uint32_t low = 0, high = scan->n_nodes;
    while (low < high) {
        const uint32_t mid = (low + high) / 2;
        if (scan->ids[syn__et_scan_by_id(scan, mid)] < id) low = mid + 1;
        else high = mid;
    }
    return syn__et_scan_by_id(scan, low);
}

/* Whether a dependency only keeps the order of collectives, which messages do not need. */
static bool is_order(const syn__et_node *node, uint64_t dep) {
    uint64_t id;
    syn__str unused;
    for (size_t i = 0; i < node->n_attrs; i++) {
        const syn__et_attr *a = &node->attrs[i];
        if (a->field != SYN__ET_UINT64_LIST || !syn__str_is(a->name, "order_deps")) continue;
        syn__et_list list = syn__et_list_of(syn__et_type_of(a->field), a->data);
        while (syn__et_list_next(&list, &id, &unused))
            if (id == dep) return true;
    }
    return false;
}

static syn_status add_deps(writer *w, const syn__et_node *node) {
    const syn__et_scan *scan = &w->file->scan;
    w->n_ctrl = w->n_data = 0;
    for (size_t i = 0; i < node->n_ctrl; i++)
        if (!is_order(node, node->ctrl[i]))
            SYN_TRY(add_dep(w, index_of(scan, node->ctrl[i]), &w->ctrl, &w->n_ctrl, &w->ctrl_cap));
    for (size_t i = 0; i < node->n_data; i++)
        SYN_TRY(add_dep(w, index_of(scan, node->data[i]), &w->data, &w->n_data, &w->data_cap));
    return SYN_OK;
}

static syn_status put(writer *w, const syn__et_node *node) {
    w->buf.bytes = 0;
    syn__et_put_node(&w->buf, node);
    if (w->buf.failed) return SYN_FAIL_NOMEM(w->err, w->buf.bytes, "a node");
    char length[10];
    syn__buf prefix = {.data = NULL};
    syn__et_put_varint(&prefix, w->buf.bytes);
    const size_t n = prefix.bytes;
    if (!prefix.failed) memcpy(length, prefix.data, n);
    syn__buf_free(&prefix);
    if (n == 0) return SYN_FAIL_NOMEM(w->err, sizeof length, "a node");
    syn_sink_write(w->sink, length, n);
    syn_sink_write(w->sink, w->buf.data, w->buf.bytes);
    w->done->n_written++;
    return SYN_OK;
}

/* Writes one message of a collective. The time of the collective is divided by its rounds. */
static syn_status put_step(writer *w, const syn__et_node *node, const syn__expand_node *from,
                           size_t i) {
    const syn__step *step = &w->steps.list[i];
    const uint64_t first = node->id * w->stride, own = (uint64_t)w->file->rank->rank;
    const uint64_t peer = (uint64_t)step->peer, ns = step->sends ? from->ns / w->steps.rounds : 0;
    const uint64_t tag = (uint64_t)syn__expand_tag(from, step->round, FIRST_TAG, N_TAGS);
    char name[256];
    const int shown = node->name.bytes < 200 ? (int)node->name.bytes : 200;
    snprintf(name, sizeof name, "%.*s/%s %zu", shown,
             node->name.text != NULL ? node->name.text : "", step->sends ? "send" : "receive", i);
    const syn__et_attr attrs[] = {
        syn__et_number("is_cpu_op", SYN__ET_BOOL, 0),
        syn__et_number("comm_src", SYN__ET_INT32, step->sends ? own : peer),
        syn__et_number("comm_dst", SYN__ET_INT32, step->sends ? peer : own),
        syn__et_number("comm_tag", SYN__ET_INT32, tag),
        syn__et_number("comm_size", SYN__ET_INT64, step->bytes),
        syn__et_number("predicted_ns", SYN__ET_INT64, ns)};
    uint64_t after[2];
    size_t n = 0;
    for (int k = 0; k < 2; k++)
        if (step->after[k] != SYN__SIM_NONE) after[n++] = first + step->after[k];
    const bool starts = n == 0;
    const syn__et_node out = {.id = first + i,
                              .name = syn__str_of(name),
                              .type = step->sends ? SYN__ET_COMM_SEND_NODE : SYN__ET_COMM_RECV_NODE,
                              .duration_micros = ns / 1000,
                              .ctrl = starts ? w->ctrl : after,
                              .n_ctrl = starts ? w->n_ctrl : n,
                              .data = w->data,
                              .n_data = starts ? w->n_data : 0,
                              .attrs = attrs,
                              .n_attrs = sizeof attrs / sizeof attrs[0]};
    if (step->sends) w->done->bytes = syn__sim_sum(w->done->bytes, step->bytes);
    return put(w, &out);
}

/* A collective of one rank becomes a computation without work, because others depend on it. */
static syn_status put_alone(writer *w, const syn__et_node *node) {
    const syn__et_attr attrs[] = {syn__et_number("is_cpu_op", SYN__ET_BOOL, 0),
                                  syn__et_number("num_ops", SYN__ET_INT64, 1),
                                  syn__et_number("tensor_size", SYN__ET_UINT64, 1)};
    const syn__et_node out = {.id = node->id * w->stride,
                              .name = node->name,
                              .type = SYN__ET_COMP_NODE,
                              .ctrl = w->ctrl,
                              .n_ctrl = w->n_ctrl,
                              .data = w->data,
                              .n_data = w->n_data,
                              .attrs = attrs,
                              .n_attrs = sizeof attrs / sizeof attrs[0]};
    return put(w, &out);
}

static syn_status put_node(writer *w, const syn__et_node *node, const syn__expand_node *from) {
    SYN_TRY(add_deps(w, node));
    if (from->kind == SYN__SIM_COLLECTIVE) {
        w->done->n_collectives++;
        SYN_TRY(syn__expand_steps(w->file, from, &w->steps, w->err));
        for (size_t i = 0; i < w->steps.n; i++) SYN_TRY(put_step(w, node, from, i));
        return w->steps.n > 0 ? SYN_OK : put_alone(w, node);
    }
    syn__et_node out = *node;
    out.id = node->id * w->stride;
    out.ctrl = w->ctrl;
    out.n_ctrl = w->n_ctrl;
    out.data = w->data;
    out.n_data = w->n_data;
    if (from->kind == SYN__SIM_SEND) w->done->bytes = syn__sim_sum(w->done->bytes, from->bytes);
    return put(w, &out);
}

/* Ids have space for all steps of a collective, so that their order is that of the old ids. */
static syn_status find_stride(writer *w) {
    const syn__expand_file *f = w->file;
    w->stride = 1;
    for (uint32_t i = 0; i < f->scan.n_nodes; i++) {
        if (f->nodes[i].kind != SYN__SIM_COLLECTIVE) continue;
        SYN_TRY(syn__expand_steps(f, &f->nodes[i], &w->steps, w->err));
        if (w->steps.n > w->stride) w->stride = w->steps.n;
    }
    for (uint32_t i = 0; i < f->scan.n_nodes; i++)
        if (f->scan.ids[i] > UINT64_MAX / w->stride - 1)
            return SYN_FAIL(w->err, SYN_E_UNSUPPORTED, "%.300s: node ids are too large",
                            f->rank->path);
    return SYN_OK;
}

static syn_status put_nodes(writer *w) {
    const syn__expand_file *f = w->file;
    syn__et_frames frames = syn__et_frames_of(f->rank->path, f->text.data, f->text.bytes);
    syn__et_decoder decoder = {.why = NULL};
    syn__et_frame frame;
    bool more = true;
    SYN_TRY(find_stride(w));
    syn_status s = syn__et_frames_next(&frames, &frame, &more, w->err); /* the metadata */
    if (s == SYN_OK && more) syn_sink_write(w->sink, frame.all.text, frame.all.bytes);
    for (uint32_t i = 0; i < f->scan.n_nodes && s == SYN_OK; i++) {
        syn__et_node node;
        s = syn__et_frames_next(&frames, &frame, &more, w->err);
        if (s == SYN_OK && syn__et_decode_node(&decoder, frame.message, &node) != SYN_OK)
            s = SYN_FAIL_NOMEM(w->err, sizeof node, "a node"); /* the file was valid before */
        if (s == SYN_OK) s = put_node(w, &node, &f->nodes[i]);
    }
    syn__et_decoder_free(&decoder);
    return s;
}

static syn_status write_rank(writer *w, const char *path) {
    SYN_TRY(syn_sink_open_file(&w->sink, path, w->err));
    const syn_status s = put_nodes(w);
    const syn_status closed = syn_sink_close(w->sink, s == SYN_OK, w->err);
    return s != SYN_OK ? s : closed;
}

static syn_status write_ranks(const syn__sim_set *set, const syn__expand_plan *plan,
                              syn__et_names *names, syn_expanded *done, syn_error *err) {
    for (size_t i = 0; i < set->n_ranks; i++) {
        syn__expand_file file;
        syn_status s = syn__expand_open(&file, set, plan, &set->ranks[i], err);
        writer w = {.file = &file, .done = done, .err = err};
        if (s == SYN_OK) s = write_rank(&w, syn__et_rank_path(names, (uint32_t)set->ranks[i].rank));
        syn__buf_free(&w.buf);
        syn_free(w.steps.list);
        syn_free(w.ctrl);
        syn_free(w.data);
        syn__expand_close(&file);
        SYN_TRY(s);
    }
    return SYN_OK;
}

syn_status syn_expand_set(syn_expanded *done, const char *prefix, const char *out,
                          const syn_expand_options *options, syn_error *err) {
    syn__sim_set set = {.machine = NULL};
    syn__expand_plan plan;
    syn__et_names names = {.path = NULL};
    syn_status s = syn__expand_load(&set, &plan, done, prefix, options, err);
    if (s == SYN_OK) s = syn__et_names_open(&names, out, err);
    if (s == SYN_OK) s = syn__et_remove_old_set(&names, (uint32_t)set.n_ranks, err);
    if (s == SYN_OK) s = write_ranks(&set, &plan, &names, done, err);
    syn__et_names_close(&names);
    syn__sim_set_close(&set);
    return s;
}
