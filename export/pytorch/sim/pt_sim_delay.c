/* Finds the delays of profile astra-sim in one sweep over time. pt_sim.c explains the delays. */
#include <stdlib.h>

#include "export/pytorch/sim/pt_sim_steps.h"
#include "syntorch/base/memory.h"

/* An event of the sweep: the end of a thread's wait (WAITED), the launch of a communication
   (LAUNCHED), the start of computation or of a communication that keeps the host busy (STARTED), or
   the start of a communication on a library's thread (TAKEN_UP). */
typedef struct item {
    uint32_t index; /* index of a node; for WAITED, index into the rank's waits; for TAKEN_UP, index
                       into the rank's comms */
    enum { WAITED, LAUNCHED, STARTED, TAKEN_UP } what;
} item;

/* The end of a node or, if of_delay, of the delay before it. SYN__PT_NONE: the start of the
   trace. */
typedef struct moment {
    uint32_t node;
    bool of_delay;
} moment;

typedef struct sweep {
    syn__pt_sim *sim;
    size_t n_real;  /* number of nodes made from ops; delays before communication follow them */
    bool host_only; /* the trace has no device work, so communication also keeps the host busy */
    item *items;
    int64_t *times; /* per item */
    uint32_t *order;
    size_t n_items, next_barrier;
    uint32_t *by_end; /* nodes that keep the host or the compute slot busy, ordered by end */
    size_t n_ends, next_end;
    size_t *first_dep; /* dependencies that were found before the sweep */
    syn__pt_dep *deps;
    moment *bounds; /* per node: the delay or computation that ended last before its launch */
    moment last_end, last_delay;
    int64_t last_end_ns, last_delay_ns;
    int64_t busy_us;     /* time until which the host or the compute slot is busy */
    int64_t before_us;   /* host_only: host work before barriers that has no delay yet */
    uint32_t busy_delay; /* if what ended at busy_us is the delay before a communication: this
                            delay; otherwise SYN__PT_NONE */
    uint32_t *node_of;   /* host_only: per communication, its node; SYN__PT_NONE: none */
    uint32_t *awaited;   /* host_only: communication that the host has waited for since the last
                            delay */
    size_t n_awaited;
    int64_t awaited_launch_ns; /* host_only: time of the last launch among the communications that
                                  the host has waited for */
    size_t next_wait;          /* index of the first of the rank's waits that has not ended */
    uint32_t *track_comm;      /* per track of a library: the communication that began last */
    moment last_taken;         /* the last delay of any library's thread */
    int64_t taken_us;          /* the end of last_taken */
} sweep;

static int64_t end_ns(const sweep *s, uint32_t node) {
    return syn__pt_op_end(&s->sim->rank->ops[s->sim->nodes[node].op]);
}

/* The time at which a communication was launched, but not later than its start. */
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
        from.node, to, SYN_PYTORCH_EDGE_LAUNCH | (from.of_delay ? SYN__PT_SIM_OF_DELAY : 0u)};
    return SYN_OK;
}

/* Whether the communication runs concurrently with the host, and so does not hold it up. */
static bool runs_concurrently(const sweep *s, uint32_t node) {
    return s->host_only && s->sim->rank->ops[s->sim->nodes[node].op].detached;
}

/* ---- Host work ---- */

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

/* The time from which the node waits only for the host. *by: the dependency that ended at that
   time; SYN__PT_NONE: none did. */
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

/* The computation, delay or (without device work) communication that ended last before until_ns. */
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
    return sim->rank->ops[sim->nodes[have.node].op].track ==
               sim->rank->ops[sim->nodes[want.node].op].track &&
           have.node > want.node;
}

/* Whether the node depends on `want` already: directly, on a later node of the same thread or
   stream, or through the communication on which it depends. */
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

static syn_status add_awaited(sweep *s, uint32_t to, syn_error *err) {
    for (size_t i = 0; i < s->n_awaited; i++)
        SYN_TRY(add_edge(s, (moment){s->awaited[i], false}, to, err));
    return SYN_OK;
}

/* Adds a delay of `us` that ends at until_ns and depends on whatever had ended last. */
static syn_status work_until(sweep *s, uint32_t op, int64_t until_ns, int64_t us, moment *delay,
                             syn_error *err) {
    const moment last = latest_end(s, until_ns);
    *delay = (moment){SYN__PT_NONE, false};
    SYN_TRY(add_delay(s, op, syn__pt_sim_micros(until_ns) - us, us, &delay->node, err));
    SYN_TRY(add_edge(s, last, delay->node, err));
    SYN_TRY(add_awaited(s, delay->node, err));
    s->n_awaited = 0;
    s->last_delay = *delay;
    s->last_delay_ns = until_ns;
    s->before_us = 0;
    return SYN_OK;
}

static syn_status launch(sweep *s, uint32_t node, syn_error *err) {
    const int64_t at_ns = launched(s, node), at_us = syn__pt_sim_micros(at_ns);
    pass_barriers(s, at_us);
    const moment last = latest_end(s, at_ns);
    moment by = {SYN__PT_NONE, false}, delay;
    const int64_t free_us = runs_concurrently(s, node) ? s->busy_us : free_at(s, node, &by);
    s->bounds[node] = last;
    if (at_us <= free_us && s->before_us == 0 && s->n_awaited == 0)
        return is_implied(s, node, last) ? SYN_OK : add_edge(s, last, node, err);
    const int64_t us = (at_us > free_us ? at_us - free_us : 0) + s->before_us;
    SYN_TRY(work_until(s, s->sim->nodes[node].op, at_ns, us, &delay, err));
    if (by.node != last.node) SYN_TRY(add_edge(s, by, delay.node, err));
    SYN_TRY(add_edge(s, delay, node, err));
    s->bounds[node] = delay;
    if (at_us < s->busy_us) return SYN_OK;
    s->busy_us = at_us;
    s->busy_delay = delay.node;
    return SYN_OK;
}

/* Adds a delay for the host's work before the start of a thread's wait. */
static syn_status work_before(sweep *s, const syn__pt_wait *wait, syn_error *err) {
    const int64_t start_us = syn__pt_sim_micros(wait->start_ns);
    moment delay;
    pass_barriers(s, start_us);
    const int64_t us = (start_us > s->busy_us ? start_us - s->busy_us : 0) + s->before_us;
    if (us == 0) return SYN_OK;
    SYN_TRY(work_until(s, wait->next != SYN__PT_NONE ? wait->next : wait->op, wait->start_ns, us,
                       &delay, err));
    if (start_us > s->busy_us) s->busy_us = start_us;
    return SYN_OK;
}

/* Handles the end of a thread's wait for concurrent communication: the next work of the thread
   depends on that communication. */
static syn_status wait_for(sweep *s, const syn__pt_wait *wait, syn_error *err) {
    const uint32_t node = s->node_of[s->sim->rank->ops[wait->op].comm];
    SYN_TRY(work_before(s, wait, err));
    const int64_t end_us = syn__pt_sim_micros(wait->end_ns);
    if (end_us > s->busy_us) s->busy_us = end_us;
    if (node == SYN__PT_NONE) return SYN_OK;
    s->awaited[s->n_awaited++] = node;
    if (launched(s, node) > s->awaited_launch_ns) s->awaited_launch_ns = launched(s, node);
    return SYN_OK;
}

/* Whether simulators run the communication for which the thread waits. If not, the wait counts as
   work. */
static bool is_simulated(const sweep *s, const syn__pt_wait *wait) {
    const char *why;
    (void)syn__pt_sim_role_of(s->sim->rank, &s->sim->rank->ops[wait->op], &why);
    return why == NULL;
}

/* The wait that is in progress at `ns`; NULL: none. */
static const syn__pt_wait *waiting_at(sweep *s, int64_t ns) {
    const syn__pt_wait *waits = s->sim->rank->waits;
    const size_t n = s->sim->rank->n_waits;
    while (s->next_wait < n &&
           (waits[s->next_wait].end_ns < ns || !is_simulated(s, &waits[s->next_wait])))
        s->next_wait++;
    return s->next_wait < n && waits[s->next_wait].start_ns < ns ? &waits[s->next_wait] : NULL;
}

/* The earliest time at which the library's thread could have begun the communication. *by: the node
   or delay whose end allowed it to begin. */
static int64_t could_begin(const sweep *s, uint32_t comm, uint32_t before, moment *by) {
    const syn__pt_rank *rank = s->sim->rank;
    const syn__pt_op *op = &rank->ops[rank->comms[comm].op];
    const int64_t launched_us = syn__pt_sim_micros(syn__pt_op_end(&rank->ops[op->parent]));
    *by = s->bounds[s->node_of[comm]];
    const uint32_t node = before != SYN__PT_NONE ? s->node_of[before] : SYN__PT_NONE;
    if (before == SYN__PT_NONE) return launched_us;
    const int64_t free_us = syn__pt_sim_micros(syn__pt_op_end(&rank->ops[rank->comms[before].op]));
    if (free_us <= launched_us) return launched_us;
    const bool in_order =
        node == SYN__PT_NONE || launched(s, node) <= launched(s, s->node_of[comm]);
    if (in_order) *by = (moment){node, false};
    return free_us;
}

/* Handles the start of a communication on a library's thread. If it could have begun earlier, the
   time in between is a delay, but only while another thread waits for communication. While the
   other threads compute, the late start costs nothing. */
static syn_status take_up(sweep *s, uint32_t comm, syn_error *err) {
    const syn__pt_rank *rank = s->sim->rank;
    const syn__pt_op *op = &rank->ops[rank->comms[comm].op];
    const syn__pt_wait *wait = waiting_at(s, op->start_ns);
    const uint32_t node = s->node_of[comm], before = s->track_comm[op->track];
    const int64_t start_us = syn__pt_sim_micros(op->start_ns);
    moment by, delay = {SYN__PT_NONE, false};
    s->track_comm[op->track] = comm;
    if (wait == NULL || node == SYN__PT_NONE || launched(s, node) < s->awaited_launch_ns)
        return SYN_OK;
    int64_t from_us = could_begin(s, comm, before, &by);
    SYN_TRY(work_before(s, wait, err));
    if (from_us < syn__pt_sim_micros(wait->start_ns)) {
        from_us = syn__pt_sim_micros(wait->start_ns);
        by = latest_end(s, wait->start_ns);
    }
    if (from_us < s->taken_us) {
        from_us = s->taken_us;
        by = s->last_taken;
    }
    if (from_us >= start_us) return SYN_OK;
    SYN_TRY(add_delay(s, rank->comms[comm].op, from_us, start_us - from_us, &delay.node, err));
    SYN_TRY(add_edge(s, by, delay.node, err));
    if (s->bounds[node].node != by.node) SYN_TRY(add_edge(s, s->bounds[node], delay.node, err));
    s->last_taken = delay;
    s->taken_us = start_us;
    return add_edge(s, delay, node, err);
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

/* ---- The whole sweep ---- */

static int by_start(const void *a, const void *b) {
    const syn__pt_sim_span *x = (const syn__pt_sim_span *)a, *y = (const syn__pt_sim_span *)b;
    return (x->start_us > y->start_us) - (x->start_us < y->start_us);
}

static void add_item(sweep *s, item what, int64_t at_ns) {
    s->times[s->n_items] = at_ns;
    s->items[s->n_items++] = what;
}

static syn_status list_ends(sweep *s, syn_error *err) {
    const syn__pt_sim *sim = s->sim;
    uint32_t *order;
    for (uint32_t i = 0; i < s->n_real; i++) {
        if (!sim->nodes[i].has_start || runs_concurrently(s, i)) continue;
        if (!s->host_only && !syn__pt_sim_is_compute(&sim->nodes[i])) continue;
        s->times[s->n_ends] = end_ns(s, i);
        s->by_end[s->n_ends++] = i;
    }
    SYN_TRY(syn__pt_sim_by_time(s->times, s->n_ends, &order, err));
    for (size_t n = 0; n < s->n_ends; n++) order[n] = s->by_end[order[n]];
    if (s->n_ends > 0) memcpy(s->by_end, order, s->n_ends * sizeof *order);
    syn_free(order);
    return SYN_OK;
}

static syn_status list_items(sweep *s, syn_error *err) {
    const syn__pt_sim *sim = s->sim;
    const syn__pt_rank *rank = sim->rank;
    for (uint32_t i = 0; s->host_only && i < rank->n_waits; i++) {
        if (is_simulated(s, &rank->waits[i])) add_item(s, (item){i, WAITED}, rank->waits[i].end_ns);
    }
    for (uint32_t i = 0; s->host_only && i < rank->n_comms; i++) {
        const syn__pt_op *op = &rank->ops[rank->comms[i].op];
        if (op->detached && op->start_ns != SYN__PT_NO_NS)
            add_item(s, (item){i, TAKEN_UP}, op->start_ns);
    }
    for (uint32_t i = 0; i < s->n_real; i++) {
        const bool compute = syn__pt_sim_is_compute(&sim->nodes[i]);
        if (!sim->nodes[i].has_start) continue;
        if (sim->nodes[i].role != SYN__PT_SIM_COMPUTE)
            add_item(s, (item){i, LAUNCHED}, launched(s, i));
        if ((s->host_only && !runs_concurrently(s, i)) || compute)
            add_item(s, (item){i, STARTED}, rank->ops[sim->nodes[i].op].start_ns);
    }
    return syn__pt_sim_by_time(s->times, s->n_items, &s->order, err);
}

/* Adds a delay for the host's work after the last communication. It is used if there is no device
   work. */
static syn_status add_tail(sweep *s, syn_error *err) {
    const syn__pt_rank *rank = s->sim->rank;
    uint32_t last = SYN__PT_NONE;
    int64_t end = INT64_MIN;
    moment delay;
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
    return us == 0 ? SYN_OK : work_until(s, last, end, us, &delay, err);
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
    for (uint32_t i = 0; i < s->n_real; i++) {
        const uint32_t comm = sim->rank->ops[sim->nodes[i].op].comm;
        if (comm != SYN__PT_NONE) s->node_of[comm] = i;
    }
    SYN_TRY(list_ends(s, err));
    SYN_TRY(list_items(s, err));
    for (size_t i = 0; i < s->n_items; i++) {
        const item *at = &s->items[s->order[i]];
        SYN_TRY(at->what == WAITED     ? wait_for(s, &sim->rank->waits[at->index], err)
                : at->what == TAKEN_UP ? take_up(s, at->index, err)
                : at->what == LAUNCHED ? launch(s, at->index, err)
                                       : start(s, at->index, err));
    }
    return s->host_only ? add_tail(s, err) : SYN_OK;
}

static bool without_device(const syn__pt_rank *rank) {
    for (size_t i = 0; i < rank->n_ops; i++) {
        if (syn__pt_is_device(&rank->ops[i])) return false;
    }
    return true;
}

static void close_sweep(sweep *s) {
    syn_free(s->items);
    syn_free(s->times);
    syn_free(s->order);
    syn_free(s->by_end);
    syn_free(s->first_dep);
    syn_free(s->deps);
    syn_free(s->bounds);
    syn_free(s->node_of);
    syn_free(s->awaited);
    syn_free(s->track_comm);
}

syn_status syn__pt_sim_delay(syn__pt_sim *sim, syn_error *err) {
    const moment none = {SYN__PT_NONE, false};
    const syn__pt_rank *rank = sim->rank;
    const size_t n = sim->n_nodes + 2, n_items = 2 * n + rank->n_waits + rank->n_comms;
    sweep s = {.sim = sim,
               .n_real = sim->n_nodes,
               .host_only = without_device(rank),
               .items = (item *)syn_malloc(n_items * sizeof(item)),
               .times = (int64_t *)syn_malloc(n_items * sizeof(int64_t)),
               .by_end = (uint32_t *)syn_malloc(n * sizeof(uint32_t)),
               .first_dep = (size_t *)syn_malloc(n * sizeof(size_t)),
               .deps = (syn__pt_dep *)syn_malloc((sim->n_edges + 1) * sizeof(syn__pt_dep)),
               .bounds = (moment *)syn_malloc(n * sizeof(moment)),
               .last_end = none,
               .last_delay = none,
               .busy_delay = SYN__PT_NONE,
               .node_of = (uint32_t *)syn_malloc((rank->n_comms + 1) * sizeof(uint32_t)),
               .awaited = (uint32_t *)syn_malloc((rank->n_waits + 1) * sizeof(uint32_t)),
               .awaited_launch_ns = INT64_MIN,
               .last_taken = none,
               .taken_us = INT64_MIN,
               .track_comm = (uint32_t *)syn_malloc((rank->n_tracks + 1) * sizeof(uint32_t))};
    const bool complete = s.items != NULL && s.times != NULL && s.by_end != NULL &&
                          s.first_dep != NULL && s.deps != NULL && s.bounds != NULL &&
                          s.node_of != NULL && s.awaited != NULL && s.track_comm != NULL;
    if (complete) { /* fills with SYN__PT_NONE */
        memset(s.node_of, 0xFF, rank->n_comms * sizeof *s.node_of);
        memset(s.track_comm, 0xFF, rank->n_tracks * sizeof *s.track_comm);
    }
    const syn_status status =
        complete ? run(&s, err) : SYN_FAIL_NOMEM(err, n_items * sizeof(item), "host delays");
    close_sweep(&s);
    return status;
}
