/* Reads one file of a trace set into a program. */
#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "export/chakra/check/et_scan.h"
#include "export/chakra/file_kind.h"
#include "export/chakra/simulate/et_sim_read.h"
#include "export/text/file_text.h"
#include "syntorch/base/checksum.h"
#include "syntorch/base/memory.h"

/* ---- Attributes ---- */

enum {
    COMM_TYPE,
    COMM_SIZE,
    COMM_TAG,
    COMM_SRC,
    COMM_DST,
    NUM_OPS,
    TENSOR_SIZE,
    IS_CPU_OP,
    STREAM,
    ROOT,
    WALL_NS,
    WAIT_NS,
    PREDICTED_NS,
    N_INTEGERS,
    PG_NAME = N_INTEGERS,
    ORDER_DEPS,
    N_KNOWN
};

static const syn__str known[N_KNOWN] = {{"comm_type", 9},     {"comm_size", 9}, {"comm_tag", 8},
                                        {"comm_src", 8},      {"comm_dst", 8},  {"num_ops", 7},
                                        {"tensor_size", 11},  {"is_cpu_op", 9}, {"stream", 6},
                                        {"root", 4},          {"wall_ns", 7},   {"wait_ns", 7},
                                        {"predicted_ns", 12}, {"pg_name", 7},   {"order_deps", 10}};

#define ABSENT INT64_MIN

typedef struct attributes {
    int64_t values[N_INTEGERS]; /* ABSENT if absent or not an integer */
    syn__str group;
    syn__str order; /* the wire form of the list order_deps */
} attributes;

static void read_attributes(const syn__et_node *node, const char *world, attributes *out) {
    for (int i = 0; i < N_INTEGERS; i++) out->values[i] = ABSENT;
    out->group = syn__str_of(world);
    out->order = (syn__str){NULL, 0};
    for (size_t i = 0; i < node->n_attrs; i++) {
        const syn__et_attr *a = &node->attrs[i];
        for (int k = 0; k < N_KNOWN; k++) {
            if (a->name.bytes != known[k].bytes || a->name.text[0] != known[k].text[0] ||
                memcmp(a->name.text, known[k].text, known[k].bytes) != 0)
                continue;
            if (k == PG_NAME && a->field == SYN__ET_STRING && a->data.bytes > 0)
                out->group = a->data;
            if (k == ORDER_DEPS && a->field == SYN__ET_UINT64_LIST) out->order = a->data;
            if (k < N_INTEGERS && !syn__et_attr_integer(a, &out->values[k]))
                out->values[k] = ABSENT;
            break;
        }
    }
}

/* ---- One file ---- */

#define MAX_BYTES ((int64_t)1 << 50) /* of a collective or message */

typedef struct reader {
    const syn__sim_machine *machine;
    const syn_simulate_options *options;
    const syn__sim_reading *with;
    const char *path;
    int32_t rank;
    syn__sim_file *out;
    size_t kinds_cap, values_cap, calls_cap;
    syn_graph_group *groups; /* per group slot, for options->to */
    size_t n_groups, groups_cap;
    int64_t streams[SYN__SIM_STREAMS];
    struct waived {
        uint32_t node; /* of the file */
        uint64_t id;
    } * waived; /* dependencies that are ignored, by ascending node */
    size_t n_waived, waived_cap;
    uint64_t *masks; /* for syn__sim_fuse, if options->n_fused > 0 */
    size_t masks_cap;
    syn_error *err;
} reader;

static syn_status refuse(const reader *r, uint64_t id, const char *what) {
    return SYN_FAIL(r->err, SYN_E_FORMAT,
                    "%.200s: node %" PRIu64
                    " %s, so it cannot be simulated; `syntorch validate` lists all problems",
                    r->path, id, what);
}

/* The duration of a node in the trace: without the time that it waited for other ranks. */
static uint64_t traced_ns(const attributes *a, uint64_t micros) {
    const int64_t wall = a->values[WALL_NS], wait = a->values[WAIT_NS];
    const int64_t predicted = a->values[PREDICTED_NS];
    if (wall >= 0) return (uint64_t)(wait > 0 ? (wait < wall ? wall - wait : 0) : wall);
    if (predicted >= 0) return (uint64_t)predicted;
    return micros <= INT64_MAX / 1000 ? micros * 1000 : (uint64_t)INT64_MAX;
}

static uint64_t compute_ns(reader *r, const syn__et_node *node, const attributes *a) {
    const int64_t ops = a->values[NUM_OPS], bytes = a->values[TENSOR_SIZE];
    const uint64_t micros = node->duration_micros;
    if (r->options->to != NULL) {
        const syn__sim_timed timed = {node, ops, bytes, traced_ns(a, micros),
                                      a->values[WALL_NS] < 0 && a->values[PREDICTED_NS] >= 0};
        bool exact;
        const uint64_t ns = syn__sim_retime_compute(&timed, &r->out->meta, r->options->from,
                                                    r->options->to, &exact);
        r->out->n_compute++;
        r->out->n_predicted += exact;
        return ns;
    }
    if (r->machine == NULL) return traced_ns(a, micros);
    return syn__sim_compute_ns(r->machine, ops > 0 ? (uint64_t)ops : 0,
                               bytes > 0 ? (uint64_t)bytes : 0, micros);
}

/* Whether a node has no work from which the machine's roofline could compute a time. */
static bool lacks_work(const reader *r, const attributes *a) {
    return r->machine != NULL && r->machine->roofline && a->values[IS_CPU_OP] <= 0 &&
           (a->values[NUM_OPS] == ABSENT || a->values[TENSOR_SIZE] == ABSENT);
}

/* Whether a pattern matches a node. */
static bool matches(const char *pattern, const syn__et_node *node, const attributes *a) {
    char name[256];
    const bool message =
        node->type == SYN__ET_COMM_SEND_NODE || node->type == SYN__ET_COMM_RECV_NODE;
    const bool collective = node->type == SYN__ET_COMM_COLL_NODE;
    const char *kind = collective ? syn__et_collective_name(a->values[COMM_TYPE]) : NULL;
    if (strcmp(pattern, "COMPUTE") == 0) return node->type == SYN__ET_COMP_NODE;
    if (strcmp(pattern, "COLLECTIVES") == 0) return collective;
    if (strcmp(pattern, "MESSAGES") == 0) return message;
    if (kind != NULL && strcmp(pattern, kind) == 0) return true;
    const size_t n = node->name.bytes < sizeof name - 1 ? node->name.bytes : sizeof name - 1;
    if (n > 0) memcpy(name, node->name.text, n);
    name[n] = '\0';
    return fnmatch(pattern, name, 0) == 0;
}

/* The factor of a node's time. */
static double scale_of(reader *r, const syn__et_node *node, const attributes *a) {
    double scale = 1;
    bool any = false;
    for (size_t i = 0; i < r->options->n_scaled; i++)
        if (matches(r->options->scaled[i].pattern, node, a)) {
            scale *= r->options->scaled[i].factor;
            r->out->matched |= (uint64_t)1 << i;
            any = true;
        }
    r->out->n_scaled += any;
    return scale;
}

/* Notes which elements of options->fused match a node. */
static syn_status mark_fused(reader *r, const syn__et_node *node, const attributes *a,
                             uint32_t index) {
    const syn_fused_nodes *fused = r->options->fused;
    const bool is_kernel = node->type == SYN__ET_COMP_NODE && a->values[IS_CPU_OP] <= 0;
    uint64_t mask = 0;
    if (r->options->n_fused == 0) return SYN_OK;
    SYN_TRY(syn_grow(&r->masks, &r->masks_cap, index + 1u, sizeof *r->masks, r->err));
    for (size_t i = 0; i < r->options->n_fused && is_kernel; i++)
        for (size_t k = 0; k < fused[i].n_patterns; k++)
            if (matches(fused[i].patterns[k], node, a)) mask |= (uint64_t)1 << i;
    r->masks[index] = mask;
    return SYN_OK;
}

/* Streams are numbered in order of first use. */
static uint8_t stream_of(reader *r, int64_t stream) {
    syn__sim_program *p = &r->out->program;
    if (stream == ABSENT) stream = 0;
    for (uint32_t i = 0; i < p->n_streams; i++)
        if (r->streams[i] == stream) return (uint8_t)i;
    if (p->n_streams == SYN__SIM_STREAMS) return SYN__SIM_STREAMS - 1;
    r->streams[p->n_streams] = stream;
    return (uint8_t)p->n_streams++;
}

/* The time of a collective or message. */
static syn_status call_ns(reader *r, const syn__et_node *node, const attributes *a, uint32_t slot,
                          uint64_t *out) {
    const syn_hardware *to = r->options->to;
    const uint64_t bytes = (uint64_t)a->values[COMM_SIZE];
    *out = traced_ns(a, node->duration_micros);
    if (to == NULL) return SYN_OK;
    if (node->type != SYN__ET_COMM_COLL_NODE) {
        const bool sends = node->type == SYN__ET_COMM_SEND_NODE;
        *out = syn__sim_retime_message(node, to, bytes, r->rank,
                                       (int32_t)a->values[sends ? COMM_DST : COMM_SRC]);
        return SYN_OK;
    }
    SYN_TRY(syn_grow(&r->groups, &r->groups_cap, slot + 1u, sizeof *r->groups, r->err));
    if (slot == r->n_groups) {
        SYN_TRY(r->with->group(r->with->user, a->group, &r->groups[slot], r->err));
        r->n_groups++;
    }
    *out = syn__sim_retime_collective(node, to, (int)a->values[COMM_TYPE], bytes, &r->groups[slot]);
    return SYN_OK;
}

static syn_status add_call(reader *r, const syn__et_node *node, const attributes *a, uint32_t index,
                           uint32_t slot) {
    const double scale = scale_of(r, node, a);
    r->out->predicted = r->out->predicted || a->values[PREDICTED_NS] != ABSENT;
    syn__sim_program *p = &r->out->program;
    const int64_t bytes = a->values[COMM_SIZE], type = a->values[COMM_TYPE];
    uint64_t ns;
    if (bytes == ABSENT || bytes < 0 || bytes > MAX_BYTES)
        return refuse(r, node->id, "has no valid comm_size");
    SYN_TRY(call_ns(r, node, a, slot, &ns));
    SYN_TRY(syn_grow(&p->calls, &r->calls_cap, p->n_calls + 1u, sizeof *p->calls, r->err));
    p->calls[p->n_calls] = (syn__sim_call){.id = node->id,
                                           .bytes = (uint64_t)bytes,
                                           .ns = syn__sim_scaled(ns, scale),
                                           .scale = scale,
                                           .node = index,
                                           .slot = slot,
                                           .comm_type = type < 0 ? 0 : (uint8_t)type};
    p->values[index] = p->n_calls++;
    return SYN_OK;
}

/* Sets the root of the last call. */
static syn_status add_root(reader *r, int64_t root) {
    syn__sim_program *p = &r->out->program;
    const int32_t rank = (int32_t)root;
    uint32_t slot;
    if (root < 0 || root > INT32_MAX || r->out->roots.n_entries == UINT16_MAX) return SYN_OK;
    SYN_TRY(syn_intern_put(&r->out->roots, &rank, sizeof rank, &slot, r->err));
    p->calls[p->n_calls - 1].root = (uint16_t)(slot + 1);
    return SYN_OK;
}

static syn_status add_collective(reader *r, const syn__et_node *node, const attributes *a,
                                 uint32_t index) {
    uint32_t slot;
    if (a->values[COMM_TYPE] < 0 || a->values[COMM_TYPE] > 31)
        return refuse(r, node->id, "has no valid comm_type");
    SYN_TRY(syn_intern_put(&r->out->groups, a->group.text, a->group.bytes, &slot, r->err));
    SYN_TRY(add_call(r, node, a, index, slot));
    return add_root(r, a->values[ROOT]);
}

static syn_status add_message(reader *r, const syn__et_node *node, const attributes *a,
                              uint32_t index, bool sends) {
    const int64_t peer = a->values[sends ? COMM_DST : COMM_SRC];
    const int64_t own = a->values[sends ? COMM_SRC : COMM_DST], tag = a->values[COMM_TAG];
    syn__sim_channel channel;
    uint32_t slot;
    if (peer < 0 || peer > INT32_MAX || peer == r->rank)
        return refuse(r, node->id, sends ? "has no valid comm_dst" : "has no valid comm_src");
    if (own != ABSENT && own != r->rank)
        return refuse(r, node->id, "is a message between two other ranks");
    if (tag < 0 || tag > INT32_MAX) return refuse(r, node->id, "has no valid comm_tag");
    memset(&channel, 0, sizeof channel); /* the padding, too: it is part of the key */
    channel.peer = (int32_t)peer;
    channel.tag = (int32_t)tag;
    channel.sends = sends;
    SYN_TRY(syn_intern_put(&r->out->channels, &channel, sizeof channel, &slot, r->err));
    return add_call(r, node, a, index, slot);
}

/* With the times of the traces, streams run beside each other, so dependencies that only keep the
   order of collectives do not count. */
static syn_status waive_order(reader *r, uint32_t index, syn__str order) {
    uint64_t id;
    syn__str unused;
    syn__et_list list = syn__et_list_of(syn__et_type_of(SYN__ET_UINT64_LIST), order);
    if (r->machine != NULL || order.bytes == 0) return SYN_OK;
    while (syn__et_list_next(&list, &id, &unused)) {
        SYN_TRY(syn_grow(&r->waived, &r->waived_cap, r->n_waived + 1, sizeof *r->waived, r->err));
        r->waived[r->n_waived++] = (struct waived){index, id};
    }
    return SYN_OK;
}

static syn_status take_node(void *user, uint32_t index, uint64_t offset, const syn__et_node *node,
                            syn_error *err) {
    reader *r = user;
    syn__sim_program *p = &r->out->program;
    attributes a;
    (void)offset;
    read_attributes(node, r->with->world, &a);
    SYN_TRY(syn_grow(&p->kinds, &r->kinds_cap, index + 1u, sizeof *p->kinds, err));
    SYN_TRY(syn_grow(&p->values, &r->values_cap, index + 1u, sizeof *p->values, err));
    p->n_nodes = index + 1;
    p->kinds[index] = SYN__SIM_FREE;
    p->values[index] = 0;
    SYN_TRY(waive_order(r, index, a.order));
    SYN_TRY(mark_fused(r, node, &a, index));
    switch (node->type) {
    case SYN__ET_COMP_NODE:
        if (lacks_work(r, &a))
            return refuse(r, node->id,
                          "has no num_ops or tensor_size, which roofline-enabled needs");
        p->values[index] =
            syn__sim_scaled(a.values[IS_CPU_OP] > 0 ? traced_ns(&a, node->duration_micros)
                                                    : compute_ns(r, node, &a),
                            scale_of(r, node, &a));
        if (a.values[IS_CPU_OP] > 0) return SYN_OK;
        p->kinds[index] =
            (uint8_t)(SYN__SIM_COMPUTE | stream_of(r, a.values[STREAM]) << SYN__SIM_KIND_BITS);
        return SYN_OK;
    case SYN__ET_COMM_COLL_NODE:
        p->kinds[index] = SYN__SIM_COLLECTIVE;
        return add_collective(r, node, &a, index);
    case SYN__ET_COMM_SEND_NODE:
    case SYN__ET_COMM_RECV_NODE:
        p->kinds[index] = node->type == SYN__ET_COMM_SEND_NODE ? SYN__SIM_SEND : SYN__SIM_RECV;
        return add_message(r, node, &a, index, node->type == SYN__ET_COMM_SEND_NODE);
    case SYN__ET_MEM_LOAD_NODE:
    case SYN__ET_MEM_STORE_NODE:
        p->values[index] = traced_ns(&a, node->duration_micros);
    }
    return SYN_OK;
}

typedef struct listening {
    reader *reader;
    bool faulty;
    syn__et_fault fault;
    uint64_t id;
} listening;

static syn_status hear_node(void *user, uint32_t index, uint64_t offset, const syn__et_node *node,
                            syn_error *err) {
    return take_node(((listening *)user)->reader, index, offset, node, err);
}

static void hear_fault(void *user, syn__et_fault what, uint32_t node, uint64_t offset, uint64_t id,
                       const char *why) {
    listening *l = user;
    (void)node;
    (void)offset;
    (void)why;
    if (what == SYN__ET_FAULT_EMPTY || l->faulty) return;
    *l = (listening){l->reader, true, what, id};
}

static syn_status refuse_fault(const reader *r, const listening *l) {
    static const char *const about_nodes[] = {[SYN__ET_FAULT_ID] = "occurs twice",
                                              [SYN__ET_FAULT_DANGLING] = "is not in the file, but "
                                                                         "other nodes depend on it",
                                              [SYN__ET_FAULT_SELF] = "depends on itself"};
    if (l->fault >= SYN__ET_FAULT_ID) return refuse(r, l->id, about_nodes[l->fault]);
    return SYN_FAIL(r->err, SYN_E_FORMAT,
                    "%.300s is damaged; `syntorch validate` lists all problems", r->path);
}

static bool is_waived(const reader *r, size_t from, uint32_t node, uint64_t id) {
    for (size_t i = from; i < r->n_waived && r->waived[i].node == node; i++)
        if (r->waived[i].id == id) return true;
    return false;
}

/* Removes the dependencies that are ignored. */
static void drop_waived(const reader *r, syn__et_scan *scan) {
    uint32_t n = 0, from = 0;
    size_t at = 0;
    if (r->n_waived == 0) return;
    for (uint32_t i = 0; i < scan->n_nodes; i++) {
        const uint32_t to = scan->first_dep[i + 1];
        scan->first_dep[i] = n;
        for (uint32_t k = from; k < to; k++)
            if (!is_waived(r, at, i, scan->ids[scan->deps[k]])) scan->deps[n++] = scan->deps[k];
        while (at < r->n_waived && r->waived[at].node == i) at++;
        from = to;
    }
    scan->first_dep[scan->n_nodes] = n;
}

/* Renumbers the nodes in the order of their ids, and fills in the dependencies. */
static syn_status connect(reader *r, const syn__et_scan *scan) {
    syn__sim_program *p = &r->out->program;
    const uint32_t n = p->n_nodes, n_deps = scan->first_dep[n];
    uint32_t *place = NULL; /* per node of the file: its number */
    p->n_deps = syn_calloc(n + 1u, sizeof *p->n_deps);
    p->first_child = syn_calloc(n + 2u, sizeof *p->first_child);
    p->children = syn_malloc((n_deps + 1u) * sizeof *p->children);
    if (scan->id_order != NULL) place = syn_malloc((n + 1u) * sizeof *place);
    if (p->n_deps == NULL || p->first_child == NULL || p->children == NULL ||
        (scan->id_order != NULL && place == NULL)) {
        syn_free(place);
        return SYN_FAIL_NOMEM(r->err, n_deps * sizeof *p->children, "the nodes of a trace");
    }
    for (uint32_t i = 0; place != NULL && i < n; i++) place[scan->id_order[i]] = i;
    for (uint32_t k = 0; k < n_deps; k++)
        p->first_child[(place != NULL ? place[scan->deps[k]] : scan->deps[k]) + 2]++;
    for (uint32_t i = 2; i < n + 2; i++) p->first_child[i] += p->first_child[i - 1];
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t at = syn__et_scan_by_id(scan, i); /* node of the file */
        for (uint32_t k = scan->first_dep[at]; k < scan->first_dep[at + 1]; k++) {
            const uint32_t dep = place != NULL ? place[scan->deps[k]] : scan->deps[k];
            p->children[p->first_child[dep + 1]++] = i;
        }
        p->n_deps[i] = scan->first_dep[at + 1] - scan->first_dep[at];
    }
    syn_free(place);
    return SYN_OK;
}

static int compare_calls(const void *a, const void *b) {
    const syn__sim_call *x = a, *y = b;
    return x->node < y->node ? -1 : x->node > y->node;
}

/* Brings kinds, values and calls into the order of ids. */
static syn_status sort_nodes(reader *r, const syn__et_scan *scan) {
    syn__sim_program *p = &r->out->program;
    const uint32_t n = p->n_nodes;
    if (scan->id_order == NULL) return SYN_OK;
    uint8_t *kinds = syn_malloc(n + 1u);
    uint64_t *values = syn_malloc((n + 1u) * sizeof *values);
    if (kinds == NULL || values == NULL) {
        syn_free(kinds);
        syn_free(values);
        return SYN_FAIL_NOMEM(r->err, n * sizeof *values, "the nodes of a trace");
    }
    for (uint32_t i = 0; i < n; i++) {
        kinds[i] = p->kinds[scan->id_order[i]];
        values[i] = p->values[scan->id_order[i]];
        if ((kinds[i] & ((1u << SYN__SIM_KIND_BITS) - 1)) >= SYN__SIM_COLLECTIVE)
            p->calls[values[i]].node = i;
    }
    syn_free(p->kinds);
    syn_free(p->values);
    p->kinds = kinds;
    p->values = values;
    if (p->n_calls > 0) qsort(p->calls, p->n_calls, sizeof *p->calls, compare_calls);
    for (uint32_t c = 0; c < p->n_calls; c++) values[p->calls[c].node] = c;
    return SYN_OK;
}

/* The ids of calls are not hashed, because they do not change what a rank does. */
static void hash_program(syn__sim_program *p) {
    syn__checksum sum;
    const struct {
        const void *data;
        size_t bytes;
    } parts[] = {{&p->n_nodes, sizeof p->n_nodes},
                 {p->kinds, p->n_nodes},
                 {p->values, p->n_nodes * sizeof *p->values},
                 {p->first_child, (p->n_nodes + 1u) * sizeof *p->first_child},
                 {p->children, p->first_child[p->n_nodes] * sizeof *p->children}};
    p->hash[1] = 1;
    syn__checksum_begin(&sum);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        syn__checksum_add(&sum, parts[i].data, parts[i].bytes);
        p->hash[1] = syn_hash(parts[i].data, parts[i].bytes, p->hash[1]);
    }
    for (uint32_t i = 0; i < p->n_calls; i++) {
        const syn__sim_call *c = &p->calls[i];
        const uint64_t facts[] = {c->bytes, c->ns, (uint64_t)c->node << 32 | c->slot,
                                  (uint64_t)c->root << 8 | c->comm_type};
        syn__checksum_add(&sum, facts, sizeof facts);
        p->hash[1] = syn_hash(facts, sizeof facts, p->hash[1]);
    }
    p->hash[0] = syn__checksum_end(&sum);
}

void syn__sim_program_free(syn__sim_program *p) {
    void *const all[] = {p->kinds, p->values, p->n_deps, p->first_child, p->children, p->calls};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) syn_free(all[i]);
    *p = (syn__sim_program){0};
}

static void set_meta(reader *r, const syn__et_meta *meta) {
    syn__sim_meta_read(&r->out->meta, meta);
    if (r->options->to != NULL && r->options->dtype != SYN_DTYPE_COUNT)
        r->out->meta.dtype = r->options->dtype;
}

static syn_status hear_meta(void *user, const syn__et_meta *meta, syn_error *err) {
    (void)err;
    set_meta(((listening *)user)->reader, meta);
    return SYN_OK;
}

static syn_status read_nodes(reader *r, const char *data, size_t bytes) {
    syn__et_scan scan;
    listening l = {.reader = r};
    const syn__et_listener listener = {
        .user = &l, .meta = hear_meta, .node = hear_node, .fault = hear_fault};
    syn_status s = syn__et_scan_open(&scan, data, bytes, &listener, r->err);
    if (s == SYN_OK && l.faulty) s = refuse_fault(r, &l);
    if (s == SYN_OK && scan.n_nodes == 0)
        s = SYN_FAIL(r->err, SYN_E_FORMAT, "%.300s has no nodes", r->path);
    if (s == SYN_OK) drop_waived(r, &scan);
    if (s == SYN_OK) s = sort_nodes(r, &scan);
    if (s == SYN_OK) s = connect(r, &scan);
    if (s == SYN_OK && r->masks != NULL) s = syn__sim_fuse(r->out, &scan, r->masks, r->err);
    if (s == SYN_OK) hash_program(&r->out->program);
    syn__et_scan_close(&scan);
    return s;
}

static syn_status read_text(reader *r) {
    syn__file_text input;
    SYN_TRY(syn__file_text_open(&input, r->path, r->options->max_unpacked_bytes, r->err));
    r->path = input.name;
    syn_status s = syn__require_et(r->path, input.data, input.bytes, r->err);
    if (s == SYN_OK) s = read_nodes(r, input.data, input.bytes);
    syn__file_text_close(&input);
    return s;
}

syn_status syn__sim_file_read(syn__sim_file *out, const char *path, int32_t rank,
                              const syn__sim_reading *with, syn_error *err) {
    reader r = {.machine = with->machine,
                .options = with->options,
                .with = with,
                .path = path,
                .rank = rank,
                .out = out,
                .err = err};
    *out = (syn__sim_file){.predicted = false};
    set_meta(&r, &(syn__et_meta){.n_attrs = 0}); /* of files without metadata */
    const syn_status s = read_text(&r);
    syn_free(r.waived);
    syn_free(r.groups);
    syn_free(r.masks);
    return s;
}

void syn__sim_file_close(syn__sim_file *file) {
    syn__sim_program_free(&file->program);
    syn_intern_free(&file->groups);
    syn_intern_free(&file->channels);
    syn_intern_free(&file->roots);
}
