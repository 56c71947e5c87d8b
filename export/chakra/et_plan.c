/* Decides which nodes of a rank appear in its execution trace, and which nodes each of them waits
   for. The rules are in et_plan.h. */
#include <assert.h>
#include <stdlib.h>

#include "export/chakra/et_plan.h"
#include "syntorch/base/memory.h"

#define PASSED             0x80000000u /* flag in place[]: the node does not appear */
#define MAX_NODES          0x7FFFFFFEu /* an id shifted left by one bit must fit in 32 bits */
#define MAX_INHERITED_DEPS 64          /* longer lists are shortened by drop_implied_deps */

syn_status syn__et_plan_open(syn__et_plan *plan, const syn_graph *graph, uint32_t rank,
                             syn_error *err) {
    const size_t n = graph->ranks[rank].n_nodes;
    *plan = (syn__et_plan){.graph = graph, .rank = rank};
    if (n > MAX_NODES)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "rank %d has %zu nodes, which is too many for an execution trace",
                        (int)graph->ranks[rank].rank, n);
    plan->place = (uint32_t *)syn_calloc(n + 1, sizeof(uint32_t));
    plan->stream_of = (uint32_t *)syn_malloc((n + 1) * sizeof(uint32_t));
    if (plan->place != NULL && plan->stream_of != NULL) return SYN_OK;
    syn__et_plan_close(plan);
    return SYN_FAIL_NOMEM(err, 2 * n * sizeof(uint32_t), "the plan of an execution trace");
}

void syn__et_plan_close(syn__et_plan *plan) {
    void *const all[] = {plan->place, plan->stream_of, plan->lists,   plan->pool,
                         plan->work,  plan->gate,      plan->streams, plan->senders,
                         plan->ctrl,  plan->data,      plan->order,   plan->active};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) syn_free(all[i]);
    syn__streams_free(&plan->numbers);
    *plan = (syn__et_plan){0};
}

/* ---- Helpers ---- */

static syn_status push(uint32_t **array, size_t *n, size_t *cap, uint32_t value, syn_error *err) {
    if (*n == *cap) SYN_TRY(syn_grow(array, cap, *n + 1, sizeof **array, err));
    (*array)[(*n)++] = value;
    return SYN_OK;
}

static syn_status add_dep(syn__et_plan *plan, uint32_t id, bool ctrl, syn_error *err) {
    return push(&plan->work, &plan->n_work, &plan->work_cap, id << 1 | ctrl, err);
}

static syn_status find_stream(syn__et_plan *plan, const syn_node *node, uint32_t *out,
                              syn_error *err) {
    uint32_t *number; /* index of the stream, plus one */
    SYN_TRY(syn__streams_at(&plan->numbers, syn__stream_of(node), &number, err));
    if (*number == 0) {
        SYN_TRY(syn_grow(&plan->streams, &plan->streams_cap, plan->n_streams + 1,
                         sizeof *plan->streams, err));
        plan->streams[plan->n_streams] = (syn__et_stream){0};
        *number = (uint32_t)++plan->n_streams;
    }
    *out = *number - 1;
    return SYN_OK;
}

static int compare(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static int compare_ids(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Sorts work[] by id and removes duplicates. An id that is both a data_dep and a ctrl_dep remains a
   data_dep, which has the smaller code. */
static void sort_work(syn__et_plan *plan) {
    uint32_t *w = plan->work;
    size_t n = 0;
    bool sorted = true;
    for (size_t i = 1; i < plan->n_work && sorted; i++) sorted = w[i - 1] <= w[i];
    if (!sorted) qsort(w, plan->n_work, sizeof *w, compare);
    for (size_t i = 0; i < plan->n_work; i++) {
        if (n == 0 || w[n - 1] >> 1 != w[i] >> 1) w[n++] = w[i];
    }
    plan->n_work = n;
}

/* Sets `latest` of each stream to the greatest id of its nodes in work[]. */
static void mark_latest(syn__et_plan *plan) {
    for (size_t i = 0; i < plan->n_work; i++)
        plan->streams[plan->stream_of[plan->work[i] >> 1]].latest = 0;
    for (size_t i = 0; i < plan->n_work; i++) {
        syn__et_stream *s = &plan->streams[plan->stream_of[plan->work[i] >> 1]];
        if (plan->work[i] >> 1 > s->latest) s->latest = plan->work[i] >> 1;
    }
}

/* Removes dependencies that the order of the streams implies: all except the latest on each stream.
   data_too: also removes data_deps. */
static void drop_implied_deps(syn__et_plan *plan, bool data_too) {
    size_t n = 0;
    if (plan->n_work < 2) return;
    mark_latest(plan);
    for (size_t i = 0; i < plan->n_work; i++) {
        const uint32_t id = plan->work[i] >> 1;
        const bool may_drop = (plan->work[i] & 1) || data_too;
        if (may_drop && id != plan->streams[plan->stream_of[id]].latest) continue;
        plan->work[n++] = plan->work[i];
    }
    plan->n_work = n;
}

/* ---- Dependencies of the graph ---- */

static syn_status add_list(syn__et_plan *plan, uint32_t list, bool ctrl, syn_error *err) {
    const size_t end = list + 1 < plan->n_lists ? plan->lists[list + 1] : plan->n_pool;
    for (size_t i = plan->lists[list]; i < end; i++)
        SYN_TRY(push(&plan->work, &plan->n_work, &plan->work_cap, plan->pool[i] | ctrl, err));
    return SYN_OK;
}

/* Sets work[] to the node's dependencies. A dependency on a node that does not appear is replaced
   by the dependencies of that node. */
static syn_status collect(syn__et_plan *plan, uint32_t index, const syn_node *node, bool data_only,
                          syn_error *err) {
    plan->n_work = 0;
    for (uint32_t i = 0; i < node->n_deps; i++) {
        const bool ctrl = node->deps[i].dep_class != SYN_DEP_DATA;
        if (node->deps[i].node >= index)
            return SYN_FAIL(err, SYN_E_INVALID,
                            "rank %d: node %u depends on node %u, which is not earlier",
                            (int)plan->graph->ranks[plan->rank].rank, index, node->deps[i].node);
        if (ctrl && data_only) continue;
        const uint32_t place = plan->place[node->deps[i].node];
        if (place & PASSED) SYN_TRY(add_list(plan, place & ~PASSED, ctrl, err));
        else SYN_TRY(add_dep(plan, place, ctrl, err));
    }
    sort_work(plan);
    return SYN_OK;
}

/* For a node that does not appear: stores work[] as its list, which its dependents inherit. */
static syn_status pass_on(syn__et_plan *plan, uint32_t index, const syn_node *node, bool data_only,
                          syn_error *err) {
    uint32_t *place = &plan->place[index];
    /* The views of a chain share one list. */
    if (node->n_deps == 1 && !data_only && node->deps[0].dep_class == SYN_DEP_DATA &&
        node->deps[0].node < index && plan->place[node->deps[0].node] & PASSED) {
        *place = plan->place[node->deps[0].node];
        return SYN_OK;
    }
    SYN_TRY(collect(plan, index, node, data_only, err));
    if (plan->n_work > MAX_INHERITED_DEPS) drop_implied_deps(plan, true);
    if (plan->n_work > UINT32_MAX - plan->n_pool)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED, "rank %d has too many dependencies through views",
                        (int)plan->graph->ranks[plan->rank].rank);
    SYN_TRY(syn_grow(&plan->pool, &plan->pool_cap, plan->n_pool + plan->n_work + 1,
                     sizeof *plan->pool, err));
    SYN_TRY(push(&plan->lists, &plan->n_lists, &plan->lists_cap, (uint32_t)plan->n_pool, err));
    for (size_t i = 0; i < plan->n_work; i++) plan->pool[plan->n_pool++] = plan->work[i];
    *place = PASSED | (uint32_t)(plan->n_lists - 1);
    return SYN_OK;
}

/* ---- Barriers and order ---- */

/* Sets the gate to the last node of each stream that ran since the previous barrier. These nodes
   depend on all older nodes, directly or indirectly. Receives are excluded, because they may stay
   open across a barrier. */
static syn_status close_gate(syn__et_plan *plan, syn_error *err) {
    if (plan->n_active == 0)
        return SYN_OK; /* nothing ran since the previous barrier, so its gate is still valid */
    plan->n_gate = 0;
    for (size_t i = 0; i < plan->n_active; i++) {
        syn__et_stream *s = &plan->streams[plan->active[i]];
        s->active = false;
        SYN_TRY(push(&plan->gate, &plan->n_gate, &plan->gate_cap, s->tail, err));
    }
    plan->n_active = 0;
    plan->barrier++;
    return SYN_OK;
}

/* Adds a dependency on `before` that keeps the order of collectives, unless one on a later node of
   its stream implies it. `latest` of the streams in work[] must be marked. */
static syn_status add_order_dep(syn__et_plan *plan, uint32_t before, size_t n_work,
                                syn_error *err) {
    const uint32_t stream = plan->stream_of[before];
    bool marked = false;
    for (size_t i = 0; i < n_work && !marked; i++)
        marked = plan->stream_of[plan->work[i] >> 1] == stream;
    if (marked && plan->streams[stream].latest >= before) return SYN_OK;
    SYN_TRY(syn_grow(&plan->order, &plan->order_cap, plan->n_order + 1, sizeof *plan->order, err));
    plan->order[plan->n_order++] = before;
    return add_dep(plan, before, true, err);
}

/* Adds the dependencies that keep the order of collectives to those in work[]. */
static syn_status add_comm_order(syn__et_plan *plan, const syn_node *node, uint32_t stream,
                                 uint32_t id, syn_error *err) {
    syn__et_stream *own = &plan->streams[stream];
    const size_t n_work = plan->n_work;
    plan->n_order = 0;
    if (node->kind == SYN_NODE_SEND) {
        if (own->last_send == 0)
            SYN_TRY(push(&plan->senders, &plan->n_senders, &plan->senders_cap, stream, err));
        own->last_send = id;
    }
    if (node->kind != SYN_NODE_COLLECTIVE) return SYN_OK;
    mark_latest(plan);
    if (plan->last_coll != 0) SYN_TRY(add_order_dep(plan, plan->last_coll, n_work, err));
    for (size_t i = 0; i < plan->n_senders; i++) {
        syn__et_stream *s = &plan->streams[plan->senders[i]];
        SYN_TRY(add_order_dep(plan, s->last_send, n_work, err));
        s->last_send = 0;
    }
    plan->n_senders = 0;
    plan->last_coll = id;
    if (plan->n_order > 0) sort_work(plan);
    if (plan->n_order > 1) qsort(plan->order, plan->n_order, sizeof *plan->order, compare_ids);
    return SYN_OK;
}

static syn_status split_work(syn__et_plan *plan, syn_error *err) {
    plan->n_ctrl = plan->n_data = 0;
    SYN_TRY(syn_grow(&plan->ctrl, &plan->ctrl_cap, plan->n_work, sizeof *plan->ctrl, err));
    SYN_TRY(syn_grow(&plan->data, &plan->data_cap, plan->n_work, sizeof *plan->data, err));
    for (size_t i = 0; i < plan->n_work; i++) {
        if (plan->work[i] & 1) plan->ctrl[plan->n_ctrl++] = plan->work[i] >> 1;
        else plan->data[plan->n_data++] = plan->work[i] >> 1;
    }
    return SYN_OK;
}

static syn_status show(syn__et_plan *plan, uint32_t index, const syn_node *node, syn_error *err) {
    const uint32_t id = plan->n_ids + 1;
    uint32_t at = 0;
    SYN_TRY(find_stream(plan, node, &at, err));
    SYN_TRY(collect(plan, index, node, false, err));
    syn__et_stream *s = &plan->streams[at];
    if (s->tail != 0) SYN_TRY(add_dep(plan, s->tail, true, err));
    if (s->barrier != plan->barrier) {
        for (size_t i = 0; i < plan->n_gate; i++) SYN_TRY(add_dep(plan, plan->gate[i], true, err));
        s->barrier = plan->barrier;
    }
    sort_work(plan);
    drop_implied_deps(plan, false);
    SYN_TRY(add_comm_order(plan, node, at, id, err));
    SYN_TRY(split_work(plan, err));
    s->tail = id;
    if (node->kind != SYN_NODE_RECV && !s->active) {
        s->active = true;
        SYN_TRY(push(&plan->active, &plan->n_active, &plan->active_cap, at, err));
    }
    plan->n_ids = id;
    plan->place[index] = id;
    plan->stream_of[id] = at;
    return SYN_OK;
}

/* ---- The decision ---- */

static syn_status check_peer(const syn__et_plan *plan, uint32_t index, const syn_node *node,
                             syn_error *err) {
    const int rank = (int)plan->graph->ranks[plan->rank].rank;
    const char *verb = node->kind == SYN_NODE_SEND ? "sends to" : "receives from";
    if (node->peer < 0 || node->peer == rank)
        return SYN_FAIL(
            err, SYN_E_INVALID,
            "rank %d: node %u (%.80s) %s rank %d, which an execution trace cannot represent", rank,
            index, node->label, verb, (int)node->peer);
    if (node->tag < 0)
        return SYN_FAIL(err, SYN_E_INVALID, "rank %d: node %u (%.80s) has the negative tag %d",
                        rank, index, node->label, (int)node->tag);
    return SYN_OK;
}

/* Sets *out to whether the collective's group has more than one rank. Group 0 consists of all
   ranks. */
static syn_status has_several_ranks(const syn_graph *graph, uint32_t rank, uint32_t index,
                                    const syn_node *node, bool *out, syn_error *err) {
    *out = graph->world_size > 1;
    if (node->group == 0) return SYN_OK;
    const syn_graph_group *group = syn_graph_group_by_id(graph, node->group);
    if (group == NULL)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "rank %d: node %u (%.80s) has group %u, which does not exist",
                        (int)graph->ranks[rank].rank, index, node->label, node->group);
    *out = group->n_ranks > 1;
    return SYN_OK;
}

syn_status syn__et_plan_includes(const syn_graph *graph, uint32_t rank, uint32_t index,
                                 const syn_node *node, bool *shown, bool *barrier, syn_error *err) {
    *shown = !(node->flags & SYN_NODE_VIRTUAL) && node->kind != SYN_NODE_METADATA;
    *barrier = false;
    if (!*shown || node->kind != SYN_NODE_COLLECTIVE) return SYN_OK;
    SYN_TRY(has_several_ranks(graph, rank, index, node, shown, err));
    *barrier = *shown && node->comm == SYN_COMM_BARRIER;
    *shown = *shown && !*barrier;
    return SYN_OK;
}

syn_status syn__et_plan_node(syn__et_plan *plan, uint32_t index, const syn_node *node, uint32_t *id,
                             syn_error *err) {
    assert(index < plan->graph->ranks[plan->rank].n_nodes && plan->place[index] == 0);
    bool shown, barrier;
    SYN_TRY(syn__et_plan_includes(plan->graph, plan->rank, index, node, &shown, &barrier, err));
    if (barrier) SYN_TRY(close_gate(plan, err));
    if (shown && (node->kind == SYN_NODE_SEND || node->kind == SYN_NODE_RECV))
        SYN_TRY(check_peer(plan, index, node, err));
    if (shown) SYN_TRY(show(plan, index, node, err));
    else SYN_TRY(pass_on(plan, index, node, barrier, err));
    *id = shown ? plan->n_ids : 0;
    return SYN_OK;
}
