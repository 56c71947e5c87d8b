/* Finds the dependencies between the ops of a rank: calls, program order, launches, streams and
   groups. The finders of the other classes have their own files (pt_edge_finders.h). */
#include "export/pytorch/comm/pt_launch_order.h"
#include "export/pytorch/deps/pt_deps.h"
#include "export/pytorch/deps/pt_edge_finders.h"
#include "export/pytorch/read/pt_sort.h"
#include "syntorch/base/memory.h"

/* The time at which device work was launched. Work without a start cannot have begun earlier. */
static int64_t launched_at(const syn__pt_connector *c, const syn__pt_op *op) {
    if (op->launch != SYN__PT_NONE) return c->rank->device.events[op->launch].ts_ns;
    return op->parent != SYN__PT_NONE ? c->when[op->parent] : SYN__PT_NO_NS;
}

/* Fills c->when. An op without a start gets the start of the previous op of its thread or stream,
   or the time of its launch. */
static syn_status date_ops(syn__pt_connector *c) {
    const syn__pt_rank *r = c->rank;
    int64_t *last = syn_malloc((r->n_tracks + 1) * sizeof *last);
    c->when = syn_malloc(r->n_ops * sizeof *c->when);
    if (!last || !c->when) {
        syn_free(last);
        return SYN_FAIL_NOMEM(c->err, r->n_ops * sizeof *c->when, "the times of ops");
    }
    for (size_t i = 0; i < r->n_tracks; i++) last[i] = SYN__PT_NO_NS;
    for (size_t i = 0; i < r->n_ops; i++) {
        const syn__pt_op *op = &r->ops[i];
        if (op->start_ns != SYN__PT_NO_NS) last[op->track] = op->start_ns;
        c->when[i] = last[op->track];
        if (op->start_ns != SYN__PT_NO_NS || !syn__pt_is_device(op)) continue;
        const int64_t launch = launched_at(c, op);
        if (launch > c->when[i]) c->when[i] = launch;
    }
    syn_free(last);
    return SYN_OK;
}

static syn_status sort_tracks(syn__pt_connector *c) {
    const syn__pt_rank *r = c->rank;
    uint64_t *keys = syn_malloc(r->n_ops * sizeof *keys);
    uint32_t *by_time = NULL;
    c->track_first = syn_calloc(r->n_tracks + 2, sizeof *c->track_first);
    c->track_ops = syn_malloc(r->n_ops * sizeof *c->track_ops);
    syn_status s = SYN_OK;
    if (!keys || !c->track_first || !c->track_ops)
        s = SYN_FAIL_NOMEM(c->err, r->n_ops * sizeof *keys, "threads and streams");
    for (size_t i = 0; i < r->n_ops && s == SYN_OK; i++) keys[i] = syn__pt_i64_key(c->when[i]);
    if (s == SYN_OK) s = syn__pt_sort(keys, r->n_ops, &by_time, c->err);
    if (s == SYN_OK) {
        for (size_t i = 0; i < r->n_ops; i++) c->track_first[r->ops[i].track + 2]++;
        for (size_t i = 2; i <= r->n_tracks; i++) c->track_first[i] += c->track_first[i - 1];
        for (size_t i = 0; i < r->n_ops; i++)
            c->track_ops[c->track_first[r->ops[by_time[i]].track + 1]++] = by_time[i];
    }
    syn_free(by_time);
    syn_free(keys);
    return s;
}

static syn_status connect_tracks(syn__pt_connector *c) {
    const syn__pt_rank *r = c->rank;
    for (size_t track = 0; track < r->n_tracks; track++) {
        const syn_pytorch_edge_class class_ =
            r->tracks[track].device ? SYN_PYTORCH_EDGE_STREAM : SYN_PYTORCH_EDGE_PROGRAM;
        for (size_t i = c->track_first[track] + 1; i < c->track_first[track + 1]; i++)
            SYN_TRY(syn__pt_add_edge(c, c->track_ops[i - 1], c->track_ops[i], class_));
    }
    return SYN_OK;
}

static syn_status connect_parents(syn__pt_connector *c) {
    const syn__pt_rank *r = c->rank;
    for (uint32_t i = 0; i < r->n_ops; i++) {
        const syn_pytorch_edge_class class_ =
            syn__pt_is_launched(&r->ops[i]) ? SYN_PYTORCH_EDGE_LAUNCH : SYN_PYTORCH_EDGE_CALL;
        SYN_TRY(syn__pt_add_edge(c, r->ops[i].parent, i, class_));
    }
    return SYN_OK;
}

/* Connects the collectives of each group, which run one after the other in launch order. */
static syn_status connect_groups(syn__pt_connector *c) {
    const syn__pt_rank *r = c->rank;
    uint32_t *last = syn_malloc((r->n_groups + 1) * sizeof *last), *order = NULL;
    syn_status s = SYN_OK;
    if (!last) s = SYN_FAIL_NOMEM(c->err, r->n_groups * sizeof *last, "groups");
    else s = syn__pt_launch_order(r, c->when, &order, c->err);
    for (size_t g = 0; g <= r->n_groups && s == SYN_OK; g++) last[g] = SYN__PT_NONE;
    for (size_t i = 0; i < r->n_comms && s == SYN_OK; i++) {
        const syn__pt_comm *m = &r->comms[order[i]];
        const uint32_t group = syn__pt_group_of(r, m);
        if (group == SYN__PT_NONE) continue;
        s = syn__pt_add_edge(c, last[group], m->op, SYN_PYTORCH_EDGE_GROUP);
        last[group] = m->op;
    }
    syn_free(order);
    syn_free(last);
    return s;
}

static syn_status connect_all(syn__pt_connector *c) {
    SYN_TRY(date_ops(c));
    SYN_TRY(sort_tracks(c));
    SYN_TRY(connect_parents(c));
    SYN_TRY(connect_tracks(c));
    SYN_TRY(connect_groups(c));
    SYN_TRY(syn__pt_find_linked(c));
    SYN_TRY(syn__pt_find_syncs(c));
    SYN_TRY(syn__pt_find_waits(c));
    return syn__pt_find_wakes(c);
}

#define THREAD_GAP_NS 1000000 /* default of options->thread_gap_ns */

syn_status syn__pt_connect(syn__pt_rank *rank, const syn_pytorch_options *options, syn_error *err) {
    syn__pt_connector c = {.rank = rank, .options = options, .err = err};
    c.gap_ns = options->thread_gap_ns == 0 ? THREAD_GAP_NS : options->thread_gap_ns;
    const syn_status s = connect_all(&c);
    syn_free(c.when);
    syn_free(c.track_first);
    syn_free(c.track_ops);
    return s;
}
