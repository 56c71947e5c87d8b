/* A syn_graph that owns its rows, for readers and converters. Rows have a fixed size. Each rank has
   an array of inputs and outputs and an array of dependencies. A row has a slice of each array,
   which ends where the slice of the next row begins. Texts, specs and attribute lists are interned.
   Adding a row may move the arrays, so pointers from a cursor are valid only until a row is
   added. */
#include <string.h>

#include "syntorch/base/intern.h"
#include "syntorch/base/memory.h"
#include "syntorch/graph/graph.h"

#define NO_ROW UINT32_MAX

typedef struct node_row {
    uint64_t id, flops, bytes_read, bytes_written;
    uint32_t op, label, scope; /* ids in texts */
    uint32_t attributes;       /* id in blobs */
    uint32_t first_ref;        /* index into refs, where the inputs and then the outputs are */
    uint32_t n_inputs;
    uint32_t first_dep;
    uint32_t comm, time; /* rows of the other tables; NO_ROW: none */
    uint32_t extents;    /* id in blobs */
    uint32_t flags, step;
    int32_t stream;
    uint8_t kind, category, phase;
} node_row;

typedef struct comm_row {
    uint64_t comm_bytes;
    uint32_t group, comm_index;
    int32_t peer, tag, root;
    int16_t comm, reduce;
} comm_row;

typedef struct time_row {
    double start_ns, wall_ns, cpu_ns, wait_ns, predicted_ns;
} time_row;

typedef struct tensor_row {
    uint32_t name, spec, flags, producer, base, shard;
} tensor_row;

/* One attribute in a blob. The struct has no padding, so that equal lists have equal bytes. */
typedef struct packed_attribute {
    uint32_t name, type;
    uint64_t bits; /* the bits of the value; for a text, its id */
} packed_attribute;

typedef struct rank_rows {
    node_row *nodes;
    tensor_row *tensors;
    uint32_t *refs;
    syn_dep *deps;
    comm_row *comms;
    time_row *times;
    size_t n_refs, n_deps, n_comms, n_times;
    size_t nodes_cap, tensors_cap, refs_cap, deps_cap, comms_cap, times_cap;
    syn_work work;
} rank_rows;

typedef struct store {
    rank_rows *ranks;
    syn_intern texts, specs, blobs;
    packed_attribute *packed;
    size_t packed_cap, groups_cap;
} store;

static const char *text_at(const store *s, uint32_t id) {
    return (const char *)syn_intern_get(&s->texts, id);
}

static syn_status put_text(store *s, const char *text, uint32_t *id, syn_error *err) {
    return syn_intern_put(&s->texts, text, strlen(text), id, err);
}

/* ---- Reading ---- */

/* Unpacks the attributes of a node into the cursor's array. If the array is too small, unpacks them
   into cursor->deps, the cursor's growable buffer for dependencies. This kind of graph does not use
   that buffer otherwise. */
static const syn_attribute *read_attributes(const store *s, const node_row *row, syn_cursor *cursor,
                                            uint32_t *n) {
    const size_t bytes = syn_intern_entry_bytes(&s->blobs, row->attributes);
    const packed_attribute *packed =
        (const packed_attribute *)syn_intern_get(&s->blobs, row->attributes);
    *n = (uint32_t)(bytes / sizeof *packed);
    syn_attribute *out = cursor->attributes;
    if (*n > sizeof cursor->attributes / sizeof cursor->attributes[0]) {
        const size_t want = *n * (sizeof *out / sizeof *cursor->deps);
        if (syn_grow(&cursor->deps, &cursor->deps_cap, want, sizeof *cursor->deps,
                     &cursor->error) != SYN_OK)
            return NULL;
        out = (syn_attribute *)(void *)cursor->deps;
    }
    for (uint32_t i = 0; i < *n; i++) {
        const syn_value_type type = (syn_value_type)packed[i].type;
        out[i] = (syn_attribute){.name = text_at(s, packed[i].name), .type = type};
        if (type == SYN_VALUE_TEXT) out[i].text = text_at(s, (uint32_t)packed[i].bits);
        else if (type == SYN_VALUE_F64) memcpy(&out[i].f64, &packed[i].bits, sizeof out[i].f64);
        else out[i].i64 = (int64_t)packed[i].bits;
    }
    return out;
}

_Static_assert(sizeof(syn_attribute) % sizeof(syn_dep) == 0,
               "the attributes are not a multiple of a dependency's size");

static void read_comm(const rank_rows *rows, uint32_t at, syn_node *out) {
    out->comm = SYN_COMM_NONE;
    out->reduce = out->peer = out->root = -1;
    if (at == NO_ROW) return;
    const comm_row *c = &rows->comms[at];
    out->comm = (syn_comm_kind)c->comm;
    out->reduce = c->reduce;
    out->group = c->group;
    out->comm_bytes = c->comm_bytes;
    out->comm_index = c->comm_index;
    out->peer = c->peer;
    out->tag = c->tag;
    out->root = c->root;
}

static void read_time(const rank_rows *rows, uint32_t at, syn_node *out) {
    static const time_row unknown = {SYN_NO_TIME, SYN_NO_TIME, SYN_NO_TIME, SYN_NO_TIME,
                                     SYN_NO_TIME};
    const time_row *t = at == NO_ROW ? &unknown : &rows->times[at];
    out->start_ns = t->start_ns;
    out->wall_ns = t->wall_ns;
    out->cpu_ns = t->cpu_ns;
    out->wait_ns = t->wait_ns;
    out->predicted_ns = t->predicted_ns;
}

static const syn_node *store_node(const syn_graph *graph, uint32_t rank, uint32_t node,
                                  syn_cursor *cursor) {
    const store *s = (const store *)graph->self;
    const rank_rows *rows = &s->ranks[rank];
    const node_row *row = &rows->nodes[node];
    const bool last = node + 1 == graph->ranks[rank].n_nodes;
    const size_t end_ref = last ? rows->n_refs : row[1].first_ref;
    const size_t end_dep = last ? rows->n_deps : row[1].first_dep;
    const uint32_t *refs = rows->refs + row->first_ref;
    cursor->node = (syn_node){
        .id = row->id,
        .kind = (syn_node_kind)row->kind,
        .category = (syn_category)row->category,
        .flags = row->flags,
        .phase = (syn_phase)row->phase,
        .step = row->step,
        .stream = row->stream,
        .op = text_at(s, row->op),
        .label = text_at(s, row->label),
        .scope = text_at(s, row->scope),
        .inputs = refs,
        .outputs = refs + row->n_inputs,
        .n_inputs = row->n_inputs,
        .n_outputs = (uint32_t)(end_ref - row->first_ref - row->n_inputs),
        .deps = rows->deps + row->first_dep,
        .n_deps = (uint32_t)(end_dep - row->first_dep),
        .flops = row->flops,
        .bytes_read = row->bytes_read,
        .bytes_written = row->bytes_written,
    };
    read_comm(rows, row->comm, &cursor->node);
    read_time(rows, row->time, &cursor->node);
    memcpy(&cursor->node.extents, syn_intern_get(&s->blobs, row->extents),
           sizeof cursor->node.extents);
    cursor->node.attributes = read_attributes(s, row, cursor, &cursor->node.n_attributes);
    return cursor->node.attributes != NULL ? &cursor->node : NULL;
}

static const syn_graph_tensor *store_tensor(const syn_graph *graph, uint32_t rank, uint32_t tensor,
                                            syn_cursor *cursor) {
    const store *s = (const store *)graph->self;
    const tensor_row *row = &s->ranks[rank].tensors[tensor];
    syn_graph_tensor *out = &cursor->tensor;
    out->name = text_at(s, row->name);
    memcpy(&out->spec, syn_intern_get(&s->specs, row->spec), sizeof out->spec);
    memcpy(&out->shard, syn_intern_get(&s->blobs, row->shard), sizeof out->shard);
    out->flags = row->flags;
    out->producer = row->producer;
    out->base = row->base;
    return out;
}

/* ---- Making and freeing ---- */

static void rank_free(rank_rows *rows) {
    syn_free(rows->nodes);
    syn_free(rows->tensors);
    syn_free(rows->refs);
    syn_free(rows->deps);
    syn_free(rows->comms);
    syn_free(rows->times);
    syn_work_free(&rows->work);
}

static void store_free(syn_graph *graph) {
    store *s = (store *)graph->self;
    for (uint32_t i = 0; s != NULL && s->ranks != NULL && i < graph->n_ranks; i++)
        rank_free(&s->ranks[i]);
    for (uint32_t i = 0; i < graph->n_groups; i++) {
        syn_free((void *)(uintptr_t)graph->groups[i].name);
        syn_free((void *)(uintptr_t)graph->groups[i].ranks);
    }
    syn_graph_free_meta(graph);
    if (s != NULL) {
        syn_intern_free(&s->texts);
        syn_intern_free(&s->specs);
        syn_intern_free(&s->blobs);
        syn_free(s->packed);
        syn_free(s->ranks);
    }
    syn_free(s);
    syn_free(graph->groups);
    syn_free(graph->ranks);
    syn_free(graph);
}

static const syn_graph_source store_source = {store_node, store_tensor, store_free};

syn_status syn_graph_new(syn_graph **out, const int32_t *ranks, uint32_t n_ranks,
                         int32_t world_size, syn_error *err) {
    *out = NULL;
    syn_graph *graph = (syn_graph *)syn_calloc(1, sizeof *graph);
    if (graph == NULL) return SYN_FAIL_NOMEM(err, sizeof *graph, "a graph");
    graph->source = &store_source;
    graph->n_ranks = n_ranks;
    graph->world_size = world_size;
    graph->ranks = (syn_graph_rank *)syn_calloc(n_ranks, sizeof *graph->ranks);
    store *s = (store *)syn_calloc(1, sizeof *s);
    graph->self = s;
    if (s != NULL) s->ranks = (rank_rows *)syn_calloc(n_ranks, sizeof *s->ranks);
    if (graph->ranks == NULL || s == NULL || s->ranks == NULL) {
        store_free(graph);
        return SYN_FAIL_NOMEM(err, n_ranks * sizeof(rank_rows), "a graph's ranks");
    }
    for (uint32_t i = 0; i < n_ranks; i++) {
        graph->ranks[i].rank = ranks[i];
        graph->ranks[i].self = &s->ranks[i];
    }
    *out = graph;
    return SYN_OK;
}

/* ---- Adding ---- */

/* Rejects values that do not fit in the narrow fields of a row. No consumer could use them
   either. */
static syn_status check_node(const syn_graph *graph, uint32_t rank, const syn_node *node,
                             syn_error *err) {
    const char *bad = NULL;
    if (node->op == NULL) bad = "has no op";
    if ((unsigned)node->kind >= SYN_NODE_KIND_COUNT) bad = "has an unknown kind";
    if ((unsigned)node->category >= SYN_CATEGORY_COUNT) bad = "has an unknown category";
    if ((unsigned)node->phase >= SYN_PHASE_COUNT) bad = "has an unknown phase";
    if (node->comm < 0 || (unsigned)node->comm >= SYN_COMM_KIND_COUNT)
        bad = "has an unknown kind of communication";
    if (node->reduce < -1 || node->reduce >= (int32_t)SYN_REDUCE_COUNT)
        bad = "has an unknown reduction";
    if (bad == NULL) return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID, "node %u of rank %d %s", graph->ranks[rank].n_nodes,
                    (int)graph->ranks[rank].rank, bad);
}

static syn_status pack_attributes(store *s, const syn_node *node, uint32_t *blob, syn_error *err) {
    const uint32_t n = node->n_attributes;
    SYN_TRY(syn_grow(&s->packed, &s->packed_cap, n, sizeof *s->packed, err));
    for (uint32_t i = 0; i < n; i++) {
        const syn_attribute *a = &node->attributes[i];
        packed_attribute *p = &s->packed[i];
        p->type = (uint32_t)a->type;
        SYN_TRY(put_text(s, a->name, &p->name, err));
        if (a->type == SYN_VALUE_TEXT) {
            uint32_t id;
            SYN_TRY(put_text(s, a->text != NULL ? a->text : "", &id, err));
            p->bits = id;
        } else if (a->type == SYN_VALUE_F64) {
            memcpy(&p->bits, &a->f64, sizeof p->bits);
        } else {
            p->bits = (uint64_t)a->i64;
        }
    }
    return syn_intern_put(&s->blobs, n != 0 ? (const void *)s->packed : "", n * sizeof *s->packed,
                          blob, err);
}

static bool has_comm(const syn_node *node) {
    return node->kind == SYN_NODE_COLLECTIVE || node->kind == SYN_NODE_SEND ||
           node->kind == SYN_NODE_RECV;
}

static bool has_time(const syn_node *node) {
    return node->start_ns != SYN_NO_TIME || node->wall_ns != SYN_NO_TIME ||
           node->cpu_ns != SYN_NO_TIME || node->wait_ns != SYN_NO_TIME ||
           node->predicted_ns != SYN_NO_TIME;
}

/* Reserves space in all arrays of the rank, so that a failure leaves no incomplete row. */
static syn_status grow_tables(const syn_graph *graph, uint32_t rank, const syn_node *node,
                              syn_error *err) {
    rank_rows *rows = &((store *)graph->self)->ranks[rank];
    const size_t n_nodes = graph->ranks[rank].n_nodes;
    const uint64_t refs = (uint64_t)rows->n_refs + node->n_inputs + node->n_outputs;
    const uint64_t deps = (uint64_t)rows->n_deps + node->n_deps;
    if (n_nodes >= SYN_NO_NODE - 1 || refs >= UINT32_MAX || deps >= UINT32_MAX)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "rank %d has more nodes, inputs or dependencies than the limit of 2^32 - 2",
                        (int)graph->ranks[rank].rank);
    SYN_TRY(syn_grow(&rows->nodes, &rows->nodes_cap, n_nodes + 1, sizeof *rows->nodes, err));
    SYN_TRY(syn_grow(&rows->refs, &rows->refs_cap, (size_t)refs + 1, sizeof *rows->refs, err));
    SYN_TRY(syn_grow(&rows->deps, &rows->deps_cap, (size_t)deps + 1, sizeof *rows->deps, err));
    if (has_comm(node))
        SYN_TRY(
            syn_grow(&rows->comms, &rows->comms_cap, rows->n_comms + 1, sizeof *rows->comms, err));
    if (has_time(node))
        SYN_TRY(
            syn_grow(&rows->times, &rows->times_cap, rows->n_times + 1, sizeof *rows->times, err));
    return SYN_OK;
}

static void append_slices(rank_rows *rows, const syn_node *node) {
    if (node->n_inputs > 0)
        memcpy(rows->refs + rows->n_refs, node->inputs, node->n_inputs * sizeof *rows->refs);
    rows->n_refs += node->n_inputs;
    if (node->n_outputs > 0)
        memcpy(rows->refs + rows->n_refs, node->outputs, node->n_outputs * sizeof *rows->refs);
    rows->n_refs += node->n_outputs;
    if (node->n_deps > 0)
        memcpy(rows->deps + rows->n_deps, node->deps, node->n_deps * sizeof *rows->deps);
    rows->n_deps += node->n_deps;
}

static uint32_t append_comm(rank_rows *rows, const syn_node *node) {
    if (!has_comm(node)) return NO_ROW;
    rows->comms[rows->n_comms] = (comm_row){
        .comm_bytes = node->comm_bytes,
        .group = node->group,
        .comm_index = node->comm_index,
        .peer = node->peer,
        .tag = node->tag,
        .root = node->root,
        .comm = (int16_t)node->comm,
        .reduce = (int16_t)node->reduce,
    };
    return (uint32_t)rows->n_comms++;
}

static uint32_t append_time(rank_rows *rows, const syn_node *node) {
    if (!has_time(node)) return NO_ROW;
    rows->times[rows->n_times] =
        (time_row){node->start_ns, node->wall_ns, node->cpu_ns, node->wait_ns, node->predicted_ns};
    return (uint32_t)rows->n_times++;
}

syn_status syn_graph_add_node(syn_graph *graph, uint32_t rank, const syn_node *node,
                              syn_error *err) {
    store *s = (store *)graph->self;
    rank_rows *rows = &s->ranks[rank];
    SYN_TRY(check_node(graph, rank, node, err));
    SYN_TRY(grow_tables(graph, rank, node, err));
    node_row row = {
        .id = node->id,
        .flops = node->flops,
        .bytes_read = node->bytes_read,
        .bytes_written = node->bytes_written,
        .first_ref = (uint32_t)rows->n_refs,
        .n_inputs = node->n_inputs,
        .first_dep = (uint32_t)rows->n_deps,
        .flags = node->flags,
        .step = node->step,
        .stream = node->stream,
        .kind = (uint8_t)node->kind,
        .category = (uint8_t)node->category,
        .phase = (uint8_t)node->phase,
    };
    SYN_TRY(put_text(s, node->op, &row.op, err));
    SYN_TRY(put_text(s, node->label != NULL ? node->label : node->op, &row.label, err));
    SYN_TRY(put_text(s, node->scope != NULL ? node->scope : "", &row.scope, err));
    SYN_TRY(pack_attributes(s, node, &row.attributes, err));
    SYN_TRY(syn_intern_put(&s->blobs, &node->extents, sizeof node->extents, &row.extents, err));
    /* Nothing below can fail. */
    append_slices(rows, node);
    row.comm = append_comm(rows, node);
    row.time = append_time(rows, node);
    rows->nodes[graph->ranks[rank].n_nodes++] = row;
    return SYN_OK;
}

syn_status syn_graph_add_tensor(syn_graph *graph, uint32_t rank, const syn_graph_tensor *tensor,
                                syn_error *err) {
    store *s = (store *)graph->self;
    rank_rows *rows = &s->ranks[rank];
    const uint32_t n = graph->ranks[rank].n_tensors;
    tensor_row row = {.flags = tensor->flags, .producer = tensor->producer, .base = tensor->base};
    if (n >= SYN_NO_TENSOR - 1)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "rank %d has more tensors than the limit of 2^32 - 2",
                        (int)graph->ranks[rank].rank);
    SYN_TRY(syn_grow(&rows->tensors, &rows->tensors_cap, (size_t)n + 1, sizeof row, err));
    SYN_TRY(put_text(s, tensor->name != NULL ? tensor->name : "", &row.name, err));
    SYN_TRY(syn_intern_put(&s->specs, &tensor->spec, sizeof tensor->spec, &row.spec, err));
    SYN_TRY(syn_intern_put(&s->blobs, &tensor->shard, sizeof tensor->shard, &row.shard, err));
    rows->tensors[n] = row;
    graph->ranks[rank].n_tensors = n + 1;
    return SYN_OK;
}

syn_status syn_graph_set_work(syn_graph *graph, uint32_t rank, syn_work *work, syn_error *err) {
    if (graph->source != &store_source || rank >= graph->n_ranks)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "device work was added to a graph that does not own its rows");
    rank_rows *rows = &((store *)graph->self)->ranks[rank];
    syn_work_free(&rows->work);
    rows->work = *work;
    *work = (syn_work){0};
    graph->ranks[rank].work = &rows->work;
    return SYN_OK;
}

syn_status syn_graph_add_group(syn_graph *graph, const syn_graph_group *group, syn_error *err) {
    store *s = (store *)graph->self;
    const size_t bytes = (size_t)group->n_ranks * sizeof *group->ranks;
    SYN_TRY(syn_grow(&graph->groups, &s->groups_cap, (size_t)graph->n_groups + 1,
                     sizeof *graph->groups, err));
    char *name = syn_strdup(group->name != NULL ? group->name : "");
    int32_t *ranks = (int32_t *)syn_malloc(bytes);
    if (name == NULL || ranks == NULL) {
        syn_free(ranks);
        syn_free(name);
        return SYN_FAIL_NOMEM(err, bytes, "a group's ranks");
    }
    if (bytes > 0) memcpy(ranks, group->ranks, bytes);
    graph->groups[graph->n_groups++] = (syn_graph_group){group->id, name, ranks, group->n_ranks};
    return SYN_OK;
}
