/* Runs the classes of a trace set as discrete events.

   A node is ready when its dependencies have ended. Ready nodes that need a lane wait in the lane's
   heap, and the one with the smallest number starts when the lane is free. With the times of the
   traces, each stream of computation and each group of a rank is a lane (one for groups with the
   same ranks), and messages need none.
   With a machine, lanes are as in ASTRA-sim: one for computation, and one for collectives and
   sends. Receives never need a lane. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/chakra/simulate/et_sim_run.h"
#include "export/chakra/wire/et_schema.h"
#include "syntorch/base/memory.h"

#define NONE    SYN__SIM_NONE
#define NO_TIME SYN__SIM_NO_TIME
#define MAX_NS  1000000000000000000u

/* ---- Heaps ---- */

static syn_status lane_push(syn__sim_run_state *s, syn__sim_lane *l, uint32_t node) {
    SYN_TRY(syn_grow(&l->heap, &l->cap, l->n + 1, sizeof *l->heap, s->err));
    size_t at = l->n++;
    for (; at > 0 && l->heap[(at - 1) / 2] > node; at = (at - 1) / 2)
        l->heap[at] = l->heap[(at - 1) / 2];
    l->heap[at] = node;
    return SYN_OK;
}

static uint32_t lane_pop(syn__sim_lane *l) {
    const uint32_t top = l->heap[0], last = l->heap[--l->n];
    size_t at = 0;
    for (;;) {
        size_t child = at * 2 + 1;
        if (child >= l->n) break;
        if (child + 1 < l->n && l->heap[child + 1] < l->heap[child]) child++;
        if (l->heap[child] >= last) break;
        l->heap[at] = l->heap[child];
        at = child;
    }
    l->heap[at] = last;
    return top;
}

static bool is_before(const syn__sim_event *a, const syn__sim_event *b) {
    return a->ns != b->ns ? a->ns < b->ns : a->number < b->number;
}

static syn_status add_event(syn__sim_run_state *s, uint32_t class, uint32_t node, uint64_t ns) {
    if (ns > MAX_NS)
        return SYN_FAIL(s->err, SYN_E_FORMAT,
                        "rank %" PRId32
                        " would run for more than 31 years (1e18 ns): the durations "
                        "in the traces, a factor or the machine's speed is out of range",
                        s->members[class].rank->rank);
    const syn__sim_event e = {ns, s->n_added++, class, node};
    SYN_TRY(syn_grow(&s->events, &s->events_cap, s->n_events + 1, sizeof e, s->err));
    size_t at = s->n_events++;
    for (; at > 0 && is_before(&e, &s->events[(at - 1) / 2]); at = (at - 1) / 2)
        s->events[at] = s->events[(at - 1) / 2];
    s->events[at] = e;
    return SYN_OK;
}

static syn__sim_event next_event(syn__sim_run_state *s) {
    const syn__sim_event top = s->events[0], last = s->events[--s->n_events];
    size_t at = 0;
    for (;;) {
        size_t child = at * 2 + 1;
        if (child >= s->n_events) break;
        if (child + 1 < s->n_events && is_before(&s->events[child + 1], &s->events[child])) child++;
        if (is_before(&last, &s->events[child])) break;
        s->events[at] = s->events[child];
        at = child;
    }
    s->events[at] = last;
    return top;
}

/* ---- Accounts ---- */

/* Makes parts twice as long, so that the run fits in all of them. */
static void widen_parts(syn__sim_run_state *s) {
    enum { HALF = SYN_SIMULATED_PARTS / 2 };
    for (size_t r = 0; r < s->folded->n_classes; r++) {
        syn_simulated_row *row = &s->out->rows[r];
        for (int i = 0; i < HALF; i++) {
            row->compute[i] = row->compute[2 * i] + row->compute[2 * i + 1];
            row->exposed[i] = row->exposed[2 * i] + row->exposed[2 * i + 1];
        }
        memset(row->compute + HALF, 0, HALF * sizeof *row->compute);
        memset(row->exposed + HALF, 0, HALF * sizeof *row->exposed);
    }
    s->out->part_ns *= 2;
}

/* Adds the times from m->since until now, in ns, to the parts of a row. */
static void add_to_parts(syn__sim_run_state *s, const syn__sim_member *m, float *parts) {
    while (s->now / s->out->part_ns >= SYN_SIMULATED_PARTS) widen_parts(s);
    const uint64_t width = s->out->part_ns;
    for (uint64_t at = m->since; at < s->now;) {
        const uint64_t i = at / width, next = (i + 1) * width < s->now ? (i + 1) * width : s->now;
        parts[i] += (float)(next - at);
        at = next;
    }
}

/* Adds the time since the last change to what the class did. */
static void account(syn__sim_run_state *s, syn__sim_member *m) {
    const uint64_t ns = s->now - m->since;
    syn_simulated_row *row = &s->out->rows[m - s->members];
    if (ns == 0) return;
    if (m->n_computing > 0) {
        m->compute_ns += ns;
        add_to_parts(s, m, row->compute);
    } else if (m->n_communicating > 0) {
        m->exposed_ns += ns;
        add_to_parts(s, m, row->exposed);
    }
    m->since = s->now;
}

/* Runs a node that started now until `end`. */
static syn_status run_until(syn__sim_run_state *s, uint32_t class, uint32_t node, uint64_t end) {
    syn__sim_member *m = &s->members[class];
    const syn__sim_kind kind = syn__sim_kind_of(m, node);
    account(s, m);
    if (m->begins != NULL) m->begins[node] = s->now;
    if (m->node_ends != NULL) m->node_ends[node] = end;
    if (kind == SYN__SIM_COMPUTE) m->n_computing++;
    else if (kind != SYN__SIM_FREE) m->n_communicating++;
    return add_event(s, class, node, end);
}

/* ---- Releases, for the critical path ---- */

/* Stores which call of which class released a call. */
static void note_release(const syn__sim_run_state *s, uint32_t class, uint32_t call,
                         syn__sim_release by) {
    const syn__sim_member *m = &s->members[class];
    if (m->released != NULL) m->released[call] = by;
}

static syn__sim_release release_of(const syn__sim_arrival *a, uint32_t place) {
    return (syn__sim_release){a->member, a->call, place};
}

/* ---- Collectives ---- */

/* Fails if the members of a group call different collectives. */
static syn_status check_equal(syn__sim_run_state *s, const syn__sim_meeting_state *g,
                              uint32_t group, uint32_t class, const syn__sim_call *call) {
    if (g->n_arrived == 0) return SYN_OK;
    const syn__sim_member *first = &s->members[g->arrived[g->first].member];
    const syn__sim_call *other = &first->program->calls[g->arrived[g->first].call];
    if (other->comm_type == call->comm_type && other->bytes == call->bytes) return SYN_OK;
    return SYN_FAIL(s->err, SYN_E_FORMAT,
                    "the ranks of group %.60s call different collectives: rank %" PRId32
                    " %s of %" PRIu64 " bytes (node %" PRIu64 "), rank %" PRId32 " %s of %" PRIu64
                    " bytes (node %" PRIu64 ")",
                    (const char *)syn_intern_get(&s->set->names, group), first->rank->rank,
                    syn__et_collective_name(other->comm_type), other->bytes, other->id,
                    s->members[class].rank->rank, syn__et_collective_name(call->comm_type),
                    call->bytes, call->id);
}

/* Runs a collective on the machine whose ranks arrived at different times, or whose ring is uneven:
   each rank ends when its last chunk arrives. Ranks of one member end together. */
static syn_status run_apart(syn__sim_run_state *s, syn__sim_meeting_state *g,
                            const syn__sim_meeting *folded, const syn__sim_call *call) {
    const syn__sim_group *of = &s->set->groups[folded->group];
    syn__sim_time *times = syn_malloc((of->n_ranks + 1u) * sizeof *times);
    syn__sim_time *ends = syn_calloc(folded->n_members + 1u, sizeof *ends);
    syn_status status = times != NULL && ends != NULL
                            ? SYN_OK
                            : SYN_FAIL_NOMEM(s->err, of->n_ranks * sizeof *times, "a collective");
    /* Times are relative to now, and none is later. Ranks without a file are never late. */
    for (uint32_t i = 0; i < of->n_ranks && status == SYN_OK; i++)
        times[i] = (syn__sim_time){folded->places[i] == NONE
                                       ? -1e18
                                       : -(double)(s->now - g->arrived[folded->places[i]].ns),
                                   i};
    if (status == SYN_OK)
        status = syn__sim_collective_ends(s->set->machine, of->ranks, of->n_ranks, call->comm_type,
                                          call->bytes, times, s->err);
    for (uint32_t i = 0; i < of->n_ranks && status == SYN_OK; i++)
        if (folded->places[i] != NONE && times[i].ns >= ends[folded->places[i]].ns)
            ends[folded->places[i]] = times[i];
    g->longest_ns = 0;
    for (uint32_t i = 0; i < folded->n_members && status == SYN_OK; i++) {
        const syn__sim_arrival a = g->arrived[i];
        const uint64_t ns =
            syn__sim_scaled((uint64_t)fmin(ends[i].ns, 2 * (double)MAX_NS), call->scale);
        if (ns > g->longest_ns) g->longest_ns = ns;
        note_release(s, a.member, a.call,
                     release_of(&g->arrived[folded->places[ends[i].by]], ends[i].by));
        status = run_until(s, a.member, s->members[a.member].program->calls[a.call].node,
                           syn__sim_sum(s->now, ns));
    }
    syn_free(times);
    syn_free(ends);
    return status;
}

/* last: the member that arrived last. */
static syn_status run_together(syn__sim_run_state *s, const syn__sim_meeting_state *g,
                               uint32_t n_members, uint32_t last) {
    const uint64_t end = syn__sim_sum(s->now, g->longest_ns);
    for (uint32_t i = 0; i < n_members; i++) {
        const syn__sim_arrival *a = &g->arrived[i];
        if (a->ns < s->now)
            note_release(s, a->member, a->call, release_of(&g->arrived[last], NONE));
        SYN_TRY(run_until(s, a->member, s->members[a->member].program->calls[a->call].node, end));
    }
    return SYN_OK;
}

static bool arrived_together(const syn__sim_run_state *s, const syn__sim_meeting_state *g,
                             uint32_t n_members) {
    for (uint32_t i = 0; i < n_members; i++)
        if (g->arrived[i].ns != s->now) return false;
    return true;
}

/* Runs a collective at which all members have arrived; last: the member that arrived last. */
static syn_status meet(syn__sim_run_state *s, syn__sim_meeting_state *g,
                       const syn__sim_meeting *folded, const syn__sim_call *call, uint32_t last) {
    const syn__sim_group *of = &s->set->groups[folded->group];
    const bool apart = s->set->machine != NULL &&
                       !syn__sim_has_algorithm(s->set->machine, call->comm_type, of->n_ranks) &&
                       (of->uneven || !arrived_together(s, g, folded->n_members));
    if (s->set->machine != NULL && !apart)
        SYN_TRY(syn__sim_price_of(s, folded->group, call, &g->longest_ns));
    SYN_TRY(apart ? run_apart(s, g, folded, call) : run_together(s, g, folded->n_members, last));
    g->n_calls++;
    g->bytes = syn__sim_sum(g->bytes, call->bytes);
    g->ns = syn__sim_sum(g->ns, g->longest_ns);
    for (uint32_t i = 0; i < folded->n_members; i++) g->arrived[i].member = NONE;
    g->n_arrived = 0;
    g->longest_ns = 0;
    return SYN_OK;
}

/* Lets a class arrive at a collective. */
static syn_status arrive(syn__sim_run_state *s, uint32_t class, uint32_t node) {
    const syn__sim_member *m = &s->members[class];
    const syn__sim_call *call = syn__sim_call_of(m, node);
    const uint32_t index = m->of->meetings[call->slot], own = m->of->members[call->slot];
    const syn__sim_meeting *folded = &s->folded->meetings[index];
    syn__sim_meeting_state *g = &s->meetings[index];
    /* In ASTRA-sim a broadcast takes the time in the trace and waits for nobody. */
    if (s->set->machine != NULL && call->comm_type == SYN__ET_BROADCAST)
        return run_until(s, class, node, syn__sim_sum(s->now, call->ns));
    SYN_TRY(check_equal(s, g, folded->group, class, call));
    if (call->ns > g->longest_ns) g->longest_ns = call->ns;
    g->arrived[own] = (syn__sim_arrival){class, (uint32_t)(call - m->program->calls), s->now};
    if (g->n_arrived++ == 0) g->first = own;
    return g->n_arrived < folded->n_members + folded->n_idle ? SYN_OK
                                                             : meet(s, g, folded, call, own);
}

/* ---- Messages ---- */

static uint32_t take(syn__sim_queue *q, const syn__sim_member *m) {
    const uint32_t call = q->first;
    q->first = m->next[call];
    return call;
}

static void put(syn__sim_queue *q, syn__sim_member *m, uint32_t call, bool is_send) {
    m->next[call] = NONE;
    if (q->first == NONE) q->first = call;
    else m->next[q->last] = call;
    q->last = call;
    q->of_sends = is_send;
}

/* Runs a receive now: its send ends at sent_ns. With the times of the traces, a receive also takes
   at least its own duration. late: the send started after the receive, now. */
static syn_status receive(syn__sim_run_state *s, uint32_t class, uint32_t call, uint64_t sent_ns,
                          syn__sim_release sender, bool late) {
    const syn__sim_call *c = &s->members[class].program->calls[call];
    uint64_t end = s->set->machine != NULL ? s->now : syn__sim_sum(s->now, c->ns);
    if (late || sent_ns > end) note_release(s, class, call, sender);
    if (sent_ns > end) end = sent_ns;
    return run_until(s, class, c->node, end);
}

static syn_status post_receive(syn__sim_run_state *s, uint32_t class, uint32_t node) {
    syn__sim_member *m = &s->members[class];
    const uint32_t call = (uint32_t)m->program->values[node];
    const uint32_t index = m->of->links[m->program->calls[call].slot];
    const syn__sim_link *link = &s->folded->links[index];
    syn__sim_queue *q = &s->links[index];
    const syn__sim_release nobody = {NONE, NONE, NONE};
    if (link->from == NONE && link->is_absent)
        return receive(s, class, call, s->now, nobody, false);
    if (q->first == NONE || !q->of_sends) {
        put(q, m, call, false);
        return SYN_OK;
    }
    const syn__sim_member *from = &s->members[link->from];
    const uint32_t sent = take(q, from);
    return receive(s, class, call, from->ends[sent], (syn__sim_release){link->from, sent, NONE},
                   false);
}

static syn_status send_now(syn__sim_run_state *s, uint32_t class, uint32_t node) {
    syn__sim_member *m = &s->members[class];
    const uint32_t call = (uint32_t)m->program->values[node];
    const syn__sim_call *c = &m->program->calls[call];
    const syn__sim_machine *machine = s->set->machine;
    const uint32_t index = m->of->links[c->slot];
    const syn__sim_link *link = &s->folded->links[index];
    syn__sim_queue *q = &s->links[index];
    const uint64_t ns =
        machine == NULL
            ? c->ns
            : syn__sim_scaled(syn__sim_message_ns(machine, m->rank->rank,
                                                  m->rank->channels[c->slot].peer, c->bytes),
                              c->scale);
    const uint64_t end = m->ends[call] = syn__sim_sum(s->now, ns);
    s->n_messages += m->of->n_ranks;
    s->message_bytes = syn__sim_sum(s->message_bytes, c->bytes * m->of->n_ranks);
    s->message_ns = syn__sim_sum(s->message_ns, ns * m->of->n_ranks);
    SYN_TRY(run_until(s, class, node, end));
    if (link->to == NONE) return SYN_OK; /* nobody receives it */
    if (q->first == NONE || q->of_sends) {
        put(q, m, call, true);
        return SYN_OK;
    }
    return receive(s, link->to, take(q, &s->members[link->to]), end,
                   (syn__sim_release){class, call, NONE}, true);
}

/* ---- Nodes ---- */

static syn_status start(syn__sim_run_state *s, uint32_t class, uint32_t node) {
    const syn__sim_member *m = &s->members[class];
    if (m->before != NULL) m->before[node] = s->ended;
    switch (syn__sim_kind_of(m, node)) {
    case SYN__SIM_COLLECTIVE:
        return arrive(s, class, node);
    case SYN__SIM_SEND:
        return send_now(s, class, node);
    case SYN__SIM_RECV:
        return post_receive(s, class, node);
    case SYN__SIM_COMPUTE:
        return run_until(
            s, class, node,
            syn__sim_sum(s->now, syn__sim_scaled(m->program->values[node], m->rank->slow)));
    default:
        return run_until(s, class, node, syn__sim_sum(s->now, m->program->values[node]));
    }
}

/* The lane that a node needs; NULL: none. */
static syn__sim_lane *lane_of(const syn__sim_run_state *s, syn__sim_member *m, uint32_t node) {
    const bool slots = s->set->machine != NULL;
    switch (syn__sim_kind_of(m, node)) {
    case SYN__SIM_COMPUTE:
        return &m->lanes[slots ? 0 : m->program->kinds[node] >> SYN__SIM_KIND_BITS];
    case SYN__SIM_COLLECTIVE:
        return &m->lanes[slots ? 1
                               : m->program->n_streams +
                                     m->rank->lanes[syn__sim_call_of(m, node)->slot]];
    case SYN__SIM_SEND:
        return slots ? &m->lanes[1] : NULL;
    default:
        return NULL;
    }
}

/* The first collective from `call` on that uses the lane of group slot `slot`; the number of calls
   if there is none. */
static uint32_t next_on_lane(const syn__sim_member *m, uint32_t call, uint32_t slot) {
    const syn__sim_program *p = m->program;
    while (call < p->n_calls && (syn__sim_kind_of(m, p->calls[call].node) != SYN__SIM_COLLECTIVE ||
                                 m->rank->lanes[p->calls[call].slot] != slot))
        call++;
    return call;
}

static syn_status use_lane(syn__sim_run_state *s, uint32_t class, syn__sim_lane *l) {
    const syn__sim_member *m = &s->members[class];
    if (l->busy != NONE || l->n == 0) return SYN_OK;
    if (l->next != NONE) {
        if (l->next == m->program->n_calls || l->heap[0] != m->program->calls[l->next].node)
            return SYN_OK;
        const uint32_t slot = (uint32_t)(l - m->lanes) - m->program->n_streams;
        l->next = next_on_lane(m, l->next + 1, slot);
    }
    l->busy = lane_pop(l);
    return start(s, class, l->busy);
}

/* Groups with the same ranks run their collectives in program order, which is the same on all of
   these ranks. If each rank started the one that is ready first, they could wait for each other. */
static void order_lanes(const syn__sim_run_state *s, syn__sim_member *m) {
    if (s->set->machine != NULL) return;
    for (uint32_t i = 0; i < m->rank->n_groups; i++) {
        const uint32_t slot = m->rank->lanes[i];
        syn__sim_lane *l = &m->lanes[m->program->n_streams + slot];
        if (slot != i && l->next == NONE) l->next = next_on_lane(m, 0, slot);
    }
}

/* Handles a node whose dependencies have ended. */
static syn_status release(syn__sim_run_state *s, uint32_t class, uint32_t node) {
    syn__sim_lane *l = lane_of(s, &s->members[class], node);
    return l != NULL ? lane_push(s, l, node) : start(s, class, node);
}

static syn_status use_lanes(syn__sim_run_state *s, uint32_t class) {
    syn__sim_member *m = &s->members[class];
    for (uint32_t i = 0; i < m->n_lanes; i++) SYN_TRY(use_lane(s, class, &m->lanes[i]));
    return SYN_OK;
}

static syn_status end_node(syn__sim_run_state *s, uint32_t class, uint32_t node) {
    syn__sim_member *m = &s->members[class];
    const syn__sim_program *p = m->program;
    const syn__sim_kind kind = syn__sim_kind_of(m, node);
    syn__sim_lane *l = lane_of(s, m, node);
    account(s, m);
    if (kind == SYN__SIM_COMPUTE) m->n_computing--;
    else if (kind != SYN__SIM_FREE) m->n_communicating--;
    m->end_ns = s->now;
    m->n_done++;
    if (l != NULL) l->busy = NONE;
    for (uint32_t k = p->first_child[node]; k < p->first_child[node + 1]; k++)
        if (--m->left[p->children[k]] == 0) SYN_TRY(release(s, class, p->children[k]));
    return use_lanes(s, class);
}

static syn_status run_all(syn__sim_run_state *s) {
    s->ended = NONE;
    for (uint32_t i = 0; i < s->folded->n_classes; i++) {
        for (uint32_t node = 0; node < s->members[i].program->n_nodes; node++)
            if (s->members[i].left[node] == 0) SYN_TRY(release(s, i, node));
        SYN_TRY(use_lanes(s, i));
    }
    while (s->n_events > 0) {
        const syn__sim_event e = next_event(s);
        s->now = e.ns;
        s->ended = e.node;
        SYN_TRY(end_node(s, e.member, e.node));
    }
    return SYN_OK;
}

/* ---- Opening and closing ---- */

/* Allocates what a timeline and the critical path need. */
static syn_status open_records(const syn__sim_run_state *s, syn__sim_member *m) {
    const size_t n = m->program->n_nodes + 1u, n_calls = m->program->n_calls + 1u;
    const bool timeline = s->options->timeline != NULL, path = s->options->critical_path;
    if (timeline) m->begins = syn_malloc(n * sizeof *m->begins);
    if (timeline || path) m->node_ends = syn_malloc(n * sizeof *m->node_ends);
    if (path) m->before = syn_malloc(n * sizeof *m->before);
    if (path) m->released = syn_malloc(n_calls * sizeof *m->released);
    if ((timeline && m->begins == NULL) || ((timeline || path) && m->node_ends == NULL) ||
        (path && (m->before == NULL || m->released == NULL)))
        return SYN_FAIL_NOMEM(s->err, n * sizeof *m->node_ends, "the times of a rank's nodes");
    for (size_t i = 0; i < n && m->node_ends != NULL; i++) m->node_ends[i] = NO_TIME;
    for (size_t i = 0; i < n_calls && path; i++) m->released[i].member = NONE;
    return SYN_OK;
}

static syn_status open_member(syn__sim_run_state *s, uint32_t class) {
    syn__sim_member *m = &s->members[class];
    m->of = &s->folded->classes[class];
    m->rank = &s->set->ranks[m->of->rank];
    const syn__sim_program *p = m->program = &s->set->programs[m->rank->program];
    m->n_lanes = s->set->machine != NULL ? 2 : p->n_streams + m->rank->n_groups;
    m->left = syn_malloc((p->n_nodes + 1u) * sizeof *m->left);
    m->next = syn_malloc((p->n_calls + 1u) * sizeof *m->next);
    m->ends = syn_malloc((p->n_calls + 1u) * sizeof *m->ends);
    m->lanes = syn_calloc(m->n_lanes + 1u, sizeof *m->lanes);
    if (m->left == NULL || m->next == NULL || m->ends == NULL || m->lanes == NULL)
        return SYN_FAIL_NOMEM(s->err, p->n_nodes * sizeof *m->left, "a simulated rank");
    memcpy(m->left, p->n_deps, p->n_nodes * sizeof *m->left);
    for (uint32_t i = 0; i < m->n_lanes; i++) m->lanes[i].busy = m->lanes[i].next = NONE;
    order_lanes(s, m);
    return open_records(s, m);
}

static syn_status open_run(syn__sim_run_state *s) {
    const syn__sim_folded *f = s->folded;
    s->members = syn_calloc(f->n_classes + 1, sizeof *s->members);
    s->meetings = syn_calloc(f->n_meetings + 1, sizeof *s->meetings);
    s->links = syn_calloc(f->n_links + 1, sizeof *s->links);
    s->out->rows = syn_calloc(f->n_classes + 1, sizeof *s->out->rows);
    s->out->part_ns = 1;
    if (s->members == NULL || s->meetings == NULL || s->links == NULL || s->out->rows == NULL)
        return SYN_FAIL_NOMEM(s->err, f->n_links * sizeof *s->links, "a simulation");
    for (uint32_t i = 0; i < f->n_classes; i++) SYN_TRY(open_member(s, i));
    for (size_t i = 0; i < f->n_links; i++) s->links[i].first = NONE;
    for (size_t i = 0; i < f->n_meetings; i++) {
        syn__sim_meeting_state *m = &s->meetings[i];
        m->arrived = syn_malloc((f->meetings[i].n_members + 1u) * sizeof *m->arrived);
        if (m->arrived == NULL)
            return SYN_FAIL_NOMEM(s->err, f->meetings[i].n_members * sizeof *m->arrived,
                                  "a group's collectives");
        for (uint32_t k = 0; k < f->meetings[i].n_members; k++) m->arrived[k].member = NONE;
    }
    return SYN_OK;
}

static void close_run(syn__sim_run_state *s) {
    for (size_t i = 0; i < s->folded->n_classes && s->members != NULL; i++) {
        syn__sim_member *m = &s->members[i];
        for (uint32_t k = 0; k < m->n_lanes && m->lanes != NULL; k++) syn_free(m->lanes[k].heap);
        void *const all[] = {m->left,   m->next,      m->ends,   m->lanes,
                             m->begins, m->node_ends, m->before, m->released};
        for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) syn_free(all[k]);
    }
    for (size_t i = 0; i < s->folded->n_meetings && s->meetings != NULL; i++)
        syn_free(s->meetings[i].arrived);
    void *const all[] = {s->members, s->meetings, s->links, s->events, s->prices};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) syn_free(all[i]);
}

syn_status syn__sim_run(syn_simulation *out, const syn__sim_set *set, const syn__sim_folded *folded,
                        const syn_simulate_options *options, syn_error *err) {
    syn__sim_run_state s = {
        .set = set, .folded = folded, .options = options, .out = out, .err = err};
    syn_status status = open_run(&s);
    if (status == SYN_OK) status = run_all(&s);
    if (status == SYN_OK) status = syn__sim_report(&s);
    close_run(&s);
    return status;
}
