/* The delays of profile astra-sim: what pt_sim.c says of them, as one sweep through time. */
#include <stdlib.h>

#include "export/pt_sim.h"
#include "syntorch/memory.h"

/* What happens at a time: a node starts, or communication is launched. */
typedef struct item {
    uint32_t node;
    bool launch;
} item;

/* The end of a node; of_delay: of the delay before it. SYN__PT_NONE: the trace's beginning. */
typedef struct moment {
    uint32_t node;
    bool of_delay;
} moment;

typedef struct sweep {
    syn__pt_sim *sim;
    size_t n_real;  /* nodes of ops; delays before communication follow them */
    bool host_only; /* no device work: the host is busy with communication, too */
    item *items;
    int64_t *times; /* of items */
    uint32_t *order;
    size_t n_items, next_barrier;
    uint32_t *by_end; /* nodes that keep the host or the compute slot busy, by their ends */
    size_t n_ends, next_end;
    size_t *first_dep; /* dependencies so far */
    syn__pt_dep *deps;
    moment *bounds; /* per node: the delay or computation that its launch came after */
    moment last_end, last_delay;
    int64_t last_end_ns, last_delay_ns;
    int64_t busy_us;     /* until when */
    int64_t before_us;   /* host_only: idle before barriers */
    uint32_t busy_delay; /* the delay before communication that made it so; SYN__PT_NONE */
} sweep;

static int64_t end_ns(const sweep *s, uint32_t node) {
    const syn__pt_op *op = &s->sim->rank->ops[s->sim->nodes[node].op];
    const int64_t wall = op->wall_ns > 0 ? op->wall_ns : 0;
    return op->start_ns > INT64_MAX - wall ? INT64_MAX : op->start_ns + wall;
}

/* When a communication was launched; not after its start. */
static int64_t launched(const sweep *s, uint32_t node) {
    const uint32_t op = s->sim->nodes[node].op;
    const int64_t start = s->sim->rank->ops[op].start_ns;
    const int64_t launch = syn__pt_sim_launch(s->sim->rank, op);
    return launch == SYN__PT_NO_NS || launch > start ? start : launch;
}

static syn_status add_edge(sweep *s, moment from, uint32_t to, syn_error *err) {
    syn__pt_sim *sim = s->sim;
    if (from.node == SYN__PT_NONE) return SYN_OK;
    SYN_TRY(syn_grow(&sim->edges, &sim->edges_cap, sim->n_edges + 1, sizeof *sim->edges, err));
    sim->edges[sim->n_edges++] = (syn__pt_edge){
        from.node, to, SYN__PT_EDGE_LAUNCH | (from.of_delay ? SYN__PT_SIM_OF_DELAY : 0u)};
    return SYN_OK;
}

/* ---- What the host did ---- */

static void pass_barriers(sweep *s, int64_t until_us) {
    const syn__pt_sim *sim = s->sim;
    for (; s->next_barrier < sim->n_barriers; s->next_barrier++) {
        const syn__pt_sim_span *b = &sim->barriers[s->next_barrier];
        if (b->start_us > until_us) return;
        if (s->host_only && b->start_us > s->busy_us) s->before_us += b->start_us - s->busy_us;
        if (b->end_us <= s->busy_us) continue;
        s->busy_us = b->end_us;
        s->busy_delay = SYN__PT_NONE;
    }
}

/* When the host has nothing more to wait for that the node waits for. */
static int64_t free_at(const sweep *s, uint32_t node, moment *by) {
    int64_t free_us = s->busy_us;
    *by = (moment){SYN__PT_NONE, false};
    for (size_t k = s->first_dep[node]; k < s->first_dep[node + 1]; k++) {
        const syn__pt_sim_node *from = &s->sim->nodes[s->deps[k].from];
        if (!from->has_start || from->end_us <= free_us) continue;
        free_us = from->end_us;
        by->node = s->deps[k].from;
    }
    return free_us;
}

/* The computation, delay or, of a host alone, communication that ended last. */
static moment latest_end(sweep *s, int64_t until_ns) {
    while (s->next_end < s->n_ends && end_ns(s, s->by_end[s->next_end]) <= until_ns) {
        s->last_end = (moment){s->by_end[s->next_end++], false};
        s->last_end_ns = end_ns(s, s->last_end.node);
    }
    if (s->last_end.node == SYN__PT_NONE) return s->last_delay;
    return s->last_delay.node != SYN__PT_NONE && s->last_delay_ns > s->last_end_ns ? s->last_delay
                                                                                   : s->last_end;
}

/* ---- Communication ---- */

static bool covers(const sweep *s, moment have, moment want) {
    const syn__pt_sim *sim = s->sim;
    if (have.node == SYN__PT_NONE) return false;
    if (have.node == want.node) return want.of_delay || !have.of_delay;
    if (have.node >= s->n_real || want.node >= s->n_real) return false;
    return sim->rank->ops[sim->nodes[have.node].op].lane ==
               sim->rank->ops[sim->nodes[want.node].op].lane &&
           have.node > want.node;
}

/* The node waits for it already: itself, for what comes later on its lane, or through the
   communication that it waits for. */
static bool is_implied(const sweep *s, uint32_t node, moment want) {
    for (size_t k = s->first_dep[node]; k < s->first_dep[node + 1]; k++) {
        const moment from = {s->deps[k].from, false};
        if (covers(s, from, want) || covers(s, s->bounds[from.node], want)) return true;
    }
    return false;
}

static syn_status add_delay(sweep *s, uint32_t op, int64_t start_us, int64_t us, uint32_t *out,
                            syn_error *err) {
    syn__pt_sim *sim = s->sim;
    SYN_TRY(syn_grow(&sim->nodes, &sim->nodes_cap, sim->n_nodes + 1, sizeof *sim->nodes, err));
    *out = (uint32_t)sim->n_nodes++;
    sim->nodes[*out] = (syn__pt_sim_node){.op = op,
                                          .role = SYN__PT_SIM_DELAY,
                                          .has_start = true,
                                          .start_us = start_us,
                                          .end_us = start_us + us};
    return SYN_OK;
}

static syn_status launch(sweep *s, uint32_t node, syn_error *err) {
    const uint32_t op = s->sim->nodes[node].op;
    const int64_t at_ns = launched(s, node), at_us = syn__pt_sim_micros(at_ns);
    pass_barriers(s, at_us);
    const moment last = latest_end(s, at_ns);
    moment by;
    const int64_t free_us = free_at(s, node, &by);
    s->bounds[node] = last;
    if (at_us <= free_us && s->before_us == 0)
        return is_implied(s, node, last) ? SYN_OK : add_edge(s, last, node, err);
    const int64_t us = (at_us > free_us ? at_us - free_us : 0) + s->before_us;
    moment delay = {SYN__PT_NONE, false};
    SYN_TRY(add_delay(s, op, at_us - us, us, &delay.node, err));
    SYN_TRY(add_edge(s, last, delay.node, err));
    if (by.node != last.node) SYN_TRY(add_edge(s, by, delay.node, err));
    SYN_TRY(add_edge(s, delay, node, err));
    s->bounds[node] = s->last_delay = delay;
    s->last_delay_ns = at_ns;
    s->before_us = 0;
    if (at_us < s->busy_us) return SYN_OK;
    s->busy_us = at_us;
    s->busy_delay = delay.node;
    return SYN_OK;
}

/* ---- Computation ---- */

static syn_status start(sweep *s, uint32_t index, syn_error *err) {
    syn__pt_sim_node *node = &s->sim->nodes[index];
    moment by;
    pass_barriers(s, node->start_us);
    const int64_t free_us = free_at(s, index, &by);
    if (node->role == SYN__PT_SIM_COMPUTE && node->start_us > free_us) {
        node->delay_us = node->start_us - free_us;
        s->last_delay = (moment){index, true};
        s->last_delay_ns = s->sim->rank->ops[node->op].start_ns;
        if (by.node == SYN__PT_NONE)
            SYN_TRY(add_edge(s, (moment){s->busy_delay, false}, index, err));
    }
    if (node->end_us > s->busy_us) {
        s->busy_us = node->end_us;
        s->busy_delay = SYN__PT_NONE;
    }
    return SYN_OK;
}

/* ---- All of it ---- */

static int by_start(const void *a, const void *b) {
    const syn__pt_sim_span *x = (const syn__pt_sim_span *)a, *y = (const syn__pt_sim_span *)b;
    return (x->start_us > y->start_us) - (x->start_us < y->start_us);
}

static void add_item(sweep *s, uint32_t node, bool is_launch) {
    s->times[s->n_items] =
        is_launch ? launched(s, node) : s->sim->rank->ops[s->sim->nodes[node].op].start_ns;
    s->items[s->n_items++] = (item){node, is_launch};
}

static syn_status list_items(sweep *s, syn_error *err) {
    const syn__pt_sim *sim = s->sim;
    uint32_t *order;
    size_t n = 0;
    for (uint32_t i = 0; i < s->n_real; i++) {
        if (!sim->nodes[i].has_start) continue;
        if (!s->host_only && !syn__pt_sim_is_compute(&sim->nodes[i])) continue;
        s->times[s->n_ends] = end_ns(s, i);
        s->by_end[s->n_ends++] = i;
    }
    SYN_TRY(syn__pt_sim_by_time(s->times, s->n_ends, &order, err));
    for (; n < s->n_ends; n++) order[n] = s->by_end[order[n]];
    if (n > 0) memcpy(s->by_end, order, n * sizeof *order);
    syn_free(order);
    for (uint32_t i = 0; i < s->n_real; i++) {
        const bool compute = syn__pt_sim_is_compute(&sim->nodes[i]);
        if (!sim->nodes[i].has_start) continue;
        if (sim->nodes[i].role != SYN__PT_SIM_COMPUTE) add_item(s, i, true);
        if (s->host_only || compute) add_item(s, i, false);
    }
    return syn__pt_sim_by_time(s->times, s->n_items, &s->order, err);
}

/* What a host alone does after the last communication. */
static syn_status add_tail(sweep *s, syn_error *err) {
    const syn__pt_rank *rank = s->sim->rank;
    uint32_t last = SYN__PT_NONE, delay;
    int64_t end = INT64_MIN;
    for (uint32_t i = 0; i < rank->n_ops; i++) {
        const int64_t wall = rank->ops[i].wall_ns > 0 ? rank->ops[i].wall_ns : 0;
        const int64_t at = rank->ops[i].start_ns;
        if (at == SYN__PT_NO_NS ||
            (last != SYN__PT_NONE && (at > INT64_MAX - wall || at + wall <= end)))
            continue;
        end = at > INT64_MAX - wall ? INT64_MAX : at + wall;
        last = i;
    }
    if (last == SYN__PT_NONE) return SYN_OK;
    const int64_t end_us = syn__pt_sim_micros(end);
    pass_barriers(s, end_us);
    const int64_t us = (end_us > s->busy_us ? end_us - s->busy_us : 0) + s->before_us;
    if (us == 0) return SYN_OK;
    SYN_TRY(add_delay(s, last, end_us - us, us, &delay, err));
    return add_edge(s, latest_end(s, INT64_MAX), delay, err);
}

static syn_status run(sweep *s, syn_error *err) {
    syn__pt_sim *sim = s->sim;
    int64_t first = INT64_MAX;
    for (size_t i = 0; i < sim->rank->n_ops; i++) {
        const int64_t at = sim->rank->ops[i].start_ns;
        if (at != SYN__PT_NO_NS && at < first) first = at;
    }
    s->busy_us = syn__pt_sim_micros(first);
    for (size_t i = 0; i < s->n_real; i++) s->bounds[i] = (moment){SYN__PT_NONE, false};
    syn__pt_sim_list_edges(sim, true, s->first_dep, s->deps);
    if (sim->n_barriers > 1) qsort(sim->barriers, sim->n_barriers, sizeof *sim->barriers, by_start);
    SYN_TRY(list_items(s, err));
    for (size_t i = 0; i < s->n_items; i++) {
        const item *at = &s->items[s->order[i]];
        SYN_TRY(at->launch ? launch(s, at->node, err) : start(s, at->node, err));
    }
    return s->host_only ? add_tail(s, err) : SYN_OK;
}

static bool without_device(const syn__pt_rank *rank) {
    for (size_t i = 0; i < rank->n_ops; i++) {
        if (syn__pt_is_device(&rank->ops[i])) return false;
    }
    return true;
}

syn_status syn__pt_sim_delay(syn__pt_sim *sim, syn_error *err) {
    const moment none = {SYN__PT_NONE, false};
    const size_t n = sim->n_nodes + 2;
    sweep s = {.sim = sim,
               .n_real = sim->n_nodes,
               .host_only = without_device(sim->rank),
               .items = (item *)syn_malloc(2 * n * sizeof(item)),
               .times = (int64_t *)syn_malloc(2 * n * sizeof(int64_t)),
               .by_end = (uint32_t *)syn_malloc(n * sizeof(uint32_t)),
               .first_dep = (size_t *)syn_malloc(n * sizeof(size_t)),
               .deps = (syn__pt_dep *)syn_malloc((sim->n_edges + 1) * sizeof(syn__pt_dep)),
               .bounds = (moment *)syn_malloc(n * sizeof(moment)),
               .last_end = none,
               .last_delay = none,
               .busy_delay = SYN__PT_NONE};
    const bool complete = s.items != NULL && s.times != NULL && s.by_end != NULL &&
                          s.first_dep != NULL && s.deps != NULL && s.bounds != NULL;
    const syn_status status =
        complete ? run(&s, err) : SYN_FAIL_NOMEM(err, 2 * n * sizeof(item), "delays");
    syn_free(s.items);
    syn_free(s.times);
    syn_free(s.order);
    syn_free(s.by_end);
    syn_free(s.first_dep);
    syn_free(s.deps);
    syn_free(s.bounds);
    return status;
}
