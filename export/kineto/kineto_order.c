/* Where communications are launched and waited for: one pass over the rows. */
#include "export/kineto/kineto_plan.h"
#include "syntorch/memory.h"

/* What a node stands for to those that wait for it, each plus one, 0 nothing: the last node of the
   main thread, and the last communication of each sort. What does not appear passes on what it
   waits for. */
typedef struct latest {
    uint32_t main, comm[2];
} latest;

typedef struct finder {
    syn__kineto_order *order;
    syn__walk *walk;
    latest *of;       /* per node */
    latest waited;    /* what the main thread has done and waited for so far */
    uint32_t barrier; /* the next node of the main thread waits for this one, plus one */
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

static void raise_all(latest *to, const latest *by) {
    raise(&to->main, by->main);
    raise(&to->comm[0], by->comm[0]);
    raise(&to->comm[1], by->comm[1]);
}

static syn_status gather(const finder *f, uint32_t index, const syn_node *node, latest *out,
                         syn_error *err) {
    *out = (latest){0};
    for (uint32_t i = 0; i < node->n_deps; i++) {
        if (node->deps[i].node >= index)
            return SYN_FAIL(err, SYN_E_INVALID,
                            "rank %d: node %u waits for node %u, which does not come earlier",
                            (int)f->walk->rank, index, node->deps[i].node);
        raise_all(out, &f->of[node->deps[i].node]);
    }
    return SYN_OK;
}

/* Collectives are launched in the order of rows, each behind what the one before waited for. A
   barrier waits for all before it; what a device does is known to be launched there. */
static syn_status add_comm(finder *f, uint32_t index, const syn_node *node, latest *own,
                           syn_error *err) {
    syn__kineto_order *o = f->order;
    const bool message = node->kind != SYN_NODE_COLLECTIVE;
    const bool barrier = node->comm == SYN_COMM_BARRIER;
    const syn_node_work *work = syn_graph_work(f->walk->graph, f->walk->rank_index, node);
    const bool placed = barrier || (work && work->n_pieces > 0);
    uint32_t after = placed ? f->waited.main : own->main;
    if (o->n_comms > 0) raise(&after, o->comms[o->n_comms - 1].after);
    SYN_TRY(syn_grow(&o->comms, &o->comms_cap, o->n_comms + 1, sizeof *o->comms, err));
    o->comms[o->n_comms++] = (syn__kineto_comm){.node = index, .after = after};
    *own = (latest){0};
    own->comm[message] = (uint32_t)o->n_comms;
    if (barrier) f->barrier = (uint32_t)o->n_comms;
    return SYN_OK;
}

static void add_main(finder *f, uint32_t index, latest *own) {
    raise(&own->comm[0], f->barrier);
    f->barrier = 0;
    for (int sort = 0; sort < 2; sort++) {
        const bool is_new = own->comm[sort] > f->waited.comm[sort];
        f->order->waits[sort][index] = is_new ? own->comm[sort] : 0;
    }
    raise_all(&f->waited, own);
    f->waited.main = index + 1;
    *own = (latest){.main = index + 1};
}

static syn_status find(finder *f, syn_error *err) {
    const syn_graph *graph = f->walk->graph;
    const uint32_t n = graph->ranks[f->walk->rank_index].n_nodes;
    for (uint32_t i = 0; i < n; i++) {
        const syn_node *node;
        SYN_TRY(syn__walk_node(f->walk, i, &node, err));
        SYN_TRY(gather(f, i, node, &f->of[i], err));
        if (!syn__kineto_shows(graph, node)) continue;
        if (syn__walk_is_comm(node)) SYN_TRY(add_comm(f, i, node, &f->of[i], err));
        else add_main(f, i, &f->of[i]);
    }
    return SYN_OK;
}

syn_status syn__kineto_order_make(syn__kineto_order *out, syn__walk *walk, syn_error *err) {
    const size_t n = (size_t)walk->graph->ranks[walk->rank_index].n_nodes + 1;
    *out = (syn__kineto_order){0};
    finder f = {.order = out, .walk = walk, .of = syn_calloc(n, sizeof *f.of)};
    out->waits[0] = syn_calloc(n, sizeof *out->waits[0]);
    out->waits[1] = syn_calloc(n, sizeof *out->waits[1]);
    const syn_status status = f.of != NULL && out->waits[0] != NULL && out->waits[1] != NULL
                                  ? find(&f, err)
                                  : SYN_FAIL_NOMEM(err, n * 20, "the order of ops");
    syn_free(f.of);
    if (status != SYN_OK) syn__kineto_order_free(out);
    return status;
}

void syn__kineto_order_free(syn__kineto_order *order) {
    syn_free(order->comms);
    syn_free(order->waits[0]);
    syn_free(order->waits[1]);
    *order = (syn__kineto_order){0};
}
