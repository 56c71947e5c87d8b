/* Finds out where communication is launched and where it is waited for, in one pass over a rank's
   nodes. Separate from kineto_plan.c, which assigns times. */
#include "export/kineto/kineto_plan.h"
#include "syntorch/base/memory.h"

#include <string.h>

/* Each node has a row that describes what has finished when the node has finished. The columns are
   those of syn__kineto_order. The first column has the last node of the main thread, as its index
   plus one; each other column has its last communication, as an index into comms plus one; 0: none.
   A node without an event has the combined rows of its dependencies. */
typedef struct finder {
    syn__kineto_order *order;
    syn__walk *walk;
    uint32_t width;
    uint32_t *rows;    /* per node */
    uint32_t *waited;  /* the row of the main thread: what it has run and waited for so far */
    uint32_t *streams; /* stream numbers, width - SYN__KINETO_AT_STREAMS of them */
    size_t streams_cap;
    uint32_t barrier; /* index plus one of a barrier for which the next node of the main thread
                         waits; 0: none */
} finder;

bool syn__kineto_shows(const syn_graph *graph, const syn_node *node) {
    if ((node->flags & SYN_NODE_VIRTUAL) || node->kind == SYN_NODE_METADATA) return false;
    if (node->kind != SYN_NODE_COLLECTIVE) return true;
    const syn_graph_group *group =
        node->group != 0 ? syn_graph_group_by_id(graph, node->group) : NULL;
    return (group != NULL ? (int64_t)group->n_ranks : graph->world_size) > 1;
}

syn__kineto_thread syn__kineto_thread_of(const syn_node *node) {
    return node->kind == SYN_NODE_COLLECTIVE ? SYN__KINETO_COLLECTIVES
           : node->kind == SYN_NODE_SEND     ? SYN__KINETO_SENDS
           : node->kind == SYN_NODE_RECV     ? SYN__KINETO_RECEIVES
                                             : SYN__KINETO_MAIN;
}

static void raise(uint32_t *to, uint32_t value) {
    if (value > *to) *to = value;
}

static void raise_all(const finder *f, uint32_t *to, const uint32_t *by) {
    for (uint32_t i = 0; i < f->width; i++) raise(&to[i], by[i]);
}

static uint32_t *row_of(const finder *f, uint32_t index) {
    return &f->rows[(size_t)index * f->width];
}

static syn_status gather(const finder *f, uint32_t index, const syn_node *node, syn_error *err) {
    for (uint32_t i = 0; i < node->n_deps; i++) {
        if (node->deps[i].node >= index)
            return SYN_FAIL(err, SYN_E_INVALID,
                            "rank %d: node %u depends on node %u, which is not earlier",
                            (int)f->walk->rank, index, node->deps[i].node);
        raise_all(f, row_of(f, index), row_of(f, node->deps[i].node));
    }
    return SYN_OK;
}

/* Returns the column of the communication. */
static uint32_t place_of(const finder *f, const syn_node *node, const syn_node_work *work) {
    uint32_t at = SYN__KINETO_AT_STREAMS;
    if (!work || work->n_pieces == 0)
        return node->kind == SYN_NODE_COLLECTIVE ? SYN__KINETO_AT_COLLECTIVES
                                                 : SYN__KINETO_AT_MESSAGES;
    const syn_work *all = f->walk->graph->ranks[f->walk->rank_index].work;
    while (f->streams[at - SYN__KINETO_AT_STREAMS] != all->pieces[work->first].stream) at++;
    return at;
}

/* Adds a communication. Communications are launched in program order. A barrier and a communication
   on the device are launched after all earlier nodes of the main thread, any other communication
   after the nodes of the main thread on which it depends. */
static syn_status add_comm(finder *f, uint32_t index, const syn_node *node, syn_error *err) {
    syn__kineto_order *o = f->order;
    uint32_t *own = row_of(f, index);
    const bool barrier = node->comm == SYN_COMM_BARRIER;
    const uint32_t place =
        place_of(f, node, syn_graph_work(f->walk->graph, f->walk->rank_index, node));
    uint32_t after = barrier || place >= SYN__KINETO_AT_STREAMS ? f->waited[SYN__KINETO_AT_MAIN]
                                                                : own[SYN__KINETO_AT_MAIN];
    if (o->n_comms > 0) raise(&after, o->comms[o->n_comms - 1].after);
    SYN_TRY(syn_grow(&o->comms, &o->comms_cap, o->n_comms + 1, sizeof *o->comms, err));
    SYN_TRY(
        syn_grow(&o->inputs, &o->inputs_cap, (o->n_comms + 1) * f->width, sizeof *o->inputs, err));
    memcpy(&o->inputs[o->n_comms * f->width], own, f->width * sizeof *own);
    o->comms[o->n_comms++] = (syn__kineto_comm){.node = index, .after = after};
    memset(own, 0, f->width * sizeof *own);
    own[place] = (uint32_t)o->n_comms;
    if (barrier) f->barrier = (uint32_t)o->n_comms;
    return SYN_OK;
}

static void add_main(finder *f, uint32_t index) {
    uint32_t *own = row_of(f, index);
    raise(&own[SYN__KINETO_AT_COLLECTIVES], f->barrier);
    f->barrier = 0;
    for (uint32_t i = SYN__KINETO_AT_COLLECTIVES; i < f->width; i++)
        if (own[i] > f->waited[i]) f->order->waits[(size_t)index * f->width + i] = own[i];
    raise_all(f, f->waited, own);
    f->waited[SYN__KINETO_AT_MAIN] = index + 1;
    memset(own, 0, f->width * sizeof *own);
    own[SYN__KINETO_AT_MAIN] = index + 1;
}

static syn_status find(finder *f, syn_error *err) {
    const syn_graph *graph = f->walk->graph;
    const uint32_t n = graph->ranks[f->walk->rank_index].n_nodes;
    for (uint32_t i = 0; i < n; i++) {
        const syn_node *node;
        SYN_TRY(syn__walk_node(f->walk, i, &node, err));
        SYN_TRY(gather(f, i, node, err));
        if (!syn__kineto_shows(graph, node)) continue;
        if (syn__walk_is_comm(node)) SYN_TRY(add_comm(f, i, node, err));
        else add_main(f, i);
    }
    return SYN_OK;
}

/* Finds all streams; there are only a few. */
static syn_status find_streams(finder *f, syn_error *err) {
    const syn_work *work = f->walk->graph->ranks[f->walk->rank_index].work;
    uint32_t n = 0, at;
    for (size_t i = 0; work && i < work->n_pieces; i++) {
        for (at = 0; at < n && f->streams[at] != work->pieces[i].stream;) at++;
        if (at < n) continue;
        SYN_TRY(syn_grow(&f->streams, &f->streams_cap, (size_t)n + 1, sizeof *f->streams, err));
        f->streams[n++] = work->pieces[i].stream;
    }
    f->order->width = f->width = SYN__KINETO_AT_STREAMS + n;
    return SYN_OK;
}

static syn_status make(finder *f, syn_error *err) {
    SYN_TRY(find_streams(f, err));
    const size_t n = ((size_t)f->walk->graph->ranks[f->walk->rank_index].n_nodes + 1) * f->width;
    f->rows = syn_calloc(n, sizeof *f->rows);
    f->waited = syn_calloc(f->width, sizeof *f->waited);
    f->order->waits = syn_calloc(n, sizeof *f->order->waits);
    if (!f->rows || !f->waited || !f->order->waits)
        return SYN_FAIL_NOMEM(err, 2 * n * sizeof *f->rows, "the order of ops");
    return find(f, err);
}

syn_status syn__kineto_order_make(syn__kineto_order *out, syn__walk *walk, syn_error *err) {
    *out = (syn__kineto_order){0};
    finder f = {.order = out, .walk = walk};
    const syn_status status = make(&f, err);
    syn_free(f.rows);
    syn_free(f.waited);
    syn_free(f.streams);
    if (status != SYN_OK) syn__kineto_order_free(out);
    return status;
}

void syn__kineto_order_free(syn__kineto_order *order) {
    syn_free(order->comms);
    syn_free(order->waits);
    syn_free(order->inputs);
    *order = (syn__kineto_order){0};
}
