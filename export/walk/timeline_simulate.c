/* Simulates a timeline without measured times. Each rank runs through its nodes until one has to
   wait. Open receives and views do not stop a rank; any other waiting node stops it until the node
   can end. If no rank can continue, all ranks look ahead for nodes that do not wait for anything.
   The cost is therefore linear in the number of nodes and edges, and few nodes are pending at any
   time. The order in which nodes are visited does not affect the result, which depends only on what
   the nodes wait for. */
#include "export/walk/streams.h"
#include "export/walk/timeline.h"
#include "export/walk/timeline_pending.h"
#include "syntorch/base/memory.h"

#include <math.h>
#include <stdlib.h>

#define NONE       UINT32_MAX
#define NO_MESSAGE SYN__NO_MESSAGE

typedef struct sim_rank {
    syn__streams streams; /* index of the last node on each stream, plus one */
    uint32_t next;        /* next node to visit */
    uint32_t pause;       /* index of the node that stopped the rank, plus one; 0: none */
    bool queued;
} sim_rank;

typedef struct gathering {
    uint32_t n_members; /* number of the group's ranks in the timeline */
    uint32_t n_arrived;
    uint32_t arrivals; /* list of the pending entries of ranks that have arrived */
    uint32_t n_before; /* number of the group's finished collectives */
    syn_comm_kind comm;
    bool has_source;
    double latest, longest; /* latest arrival and longest duration of the current collective, in
                               ns */
} gathering;

typedef struct sender {
    uint32_t rank, node; /* indices */
    size_t message;
} sender;

typedef struct simulation {
    syn__timeline *t;
    syn__walk walk;
    sim_rank *ranks; /* per position in the timeline; this position is called `index` below */
    gathering *groups;
    int32_t *held;        /* global ranks in the timeline, ascending */
    sender *senders;      /* senders of all messages, sorted by rank and node */
    uint32_t *pending_of; /* indexed like spans: index of the node's entry in `pendings`, plus one;
                             0: not pending */
    syn__pendings pendings;
    uint32_t *queue; /* ring buffer; each rank is in it at most once */
    uint32_t n_ranks, queue_first, queue_n;
    syn_error *err;
} simulation;

static void enqueue(simulation *s, uint32_t index) {
    if (s->ranks[index].queued) return;
    s->ranks[index].queued = true;
    s->queue[(s->queue_first + s->queue_n++) % s->n_ranks] = index;
}

static int compare_ranks(const void *a, const void *b) {
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return x < y ? -1 : x > y;
}

static double duration(const simulation *s, const syn_node *node) {
    if (s->t->clock == SYN__CLOCK_ORDER) return SYN__CLOCK_ORDER_NS;
    const bool predicted = s->t->clock == SYN__CLOCK_PREDICTED;
    const double ns = predicted ? node->predicted_ns : syn_node_busy_ns(node);
    return ns > 0 ? fmin(ns, SYN__MAX_NS) : 0;
}

static bool is_shown(const syn_node *node) {
    return (node->flags & SYN_NODE_VIRTUAL) == 0 && node->kind != SYN_NODE_METADATA;
}

static syn__course *course_of(const simulation *s, uint32_t index, uint32_t node) {
    return &s->t->courses[s->t->span_first[index] + node];
}

static syn__span *span_of(const simulation *s, uint32_t index, uint32_t node) {
    return &s->t->spans[s->t->span_first[index] + node];
}

static uint32_t *pending_of(const simulation *s, uint32_t index, uint32_t node) {
    return &s->pending_of[s->t->span_first[index] + node];
}

static bool is_done(const simulation *s, uint32_t index, uint32_t node) {
    return node < s->ranks[index].next && *pending_of(s, index, node) == 0;
}

static void note_course(simulation *s, uint32_t index, uint32_t number, const syn_node *node) {
    syn__course *course = course_of(s, index, number);
    course->duration_ns = is_shown(node) ? duration(s, node) : 0;
    course->is_last = node->n_outputs == 0 && is_shown(node);
    for (uint32_t i = 0; i < node->n_deps; i++)
        course_of(s, index, node->deps[i].node)->is_last = false;
}

/* ---- Nodes that end ---- */

static syn_status put_aside(simulation *s, uint32_t index, uint32_t node, uint32_t before,
                            uint32_t *out) {
    SYN_TRY(syn__pendings_add(&s->pendings, index, node, before, out, s->err));
    *pending_of(s, index, node) = *out + 1;
    return SYN_OK;
}

/* Makes entry `who` wait for a node of its rank, unless that node has ended. */
static syn_status wait_for(simulation *s, uint32_t who, uint32_t node) {
    const uint32_t on = *pending_of(s, s->pendings.at[who].index, node);
    return on > 0 ? syn__pendings_wait(&s->pendings, who, on - 1, s->err) : SYN_OK;
}

/* Ends a node whose span is known: wakes up what waits for it. */
static void end_node(simulation *s, uint32_t index, uint32_t node) {
    uint32_t *own = pending_of(s, index, node);
    if (*own == 0) return;
    syn__pendings_end(&s->pendings, *own - 1);
    *own = 0;
    if (s->ranks[index].pause != node + 1) return;
    s->ranks[index].pause = 0;
    enqueue(s, index);
}

/* Ends a node that waited from `arrived` to `begin` and ran until `end`. */
static void finish(simulation *s, uint32_t index, uint32_t node, double arrived, double begin,
                   double end) {
    *span_of(s, index, node) = (syn__span){arrived, end, begin - arrived};
    end_node(s, index, node);
}

/* ---- Collectives ---- */

static int compare_members(const void *a, const void *b) {
    const syn__member *x = a, *y = b;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static syn_status node_of(simulation *s, uint32_t index, uint32_t number, const syn_node **out) {
    syn__walk_select(&s->walk, s->t->ranks[index]);
    return syn__walk_node(&s->walk, number, out, s->err);
}

/* Records the group's current collective as a meeting, if at least two ranks have arrived. */
static syn_status note_meeting(simulation *s, uint32_t group) {
    syn__timeline *t = s->t;
    const gathering *g = &s->groups[group];
    if (t->courses == NULL || g->n_arrived < 2) return SYN_OK;
    SYN_TRY(
        syn_grow(&t->meetings, &t->meetings_cap, t->n_meetings + 1, sizeof *t->meetings, s->err));
    SYN_TRY(syn_grow(&t->members, &t->members_cap, t->n_members + g->n_arrived, sizeof *t->members,
                     s->err));
    syn__member *members = t->members + t->n_members;
    uint32_t n = 0;
    for (uint32_t at = g->arrivals; at != NONE; at = s->pendings.at[at].next_entry) {
        const syn__pending *p = &s->pendings.at[at];
        const syn_node *node;
        SYN_TRY(node_of(s, p->index, p->node, &node));
        syn__course *course = course_of(s, p->index, p->node);
        course->meeting = (uint32_t)t->n_meetings;
        members[n++] = (syn__member){t->ranks[p->index], course->duration_ns, node->id};
    }
    qsort(members, n, sizeof *members, compare_members);
    t->meetings[t->n_meetings++] =
        (syn__meeting){group, g->n_before, n, t->n_members, g->has_source, g->comm, g->longest};
    t->n_members += n;
    return SYN_OK;
}

/* Finishes the group's current collective for the ranks that have arrived. */
static syn_status release_group(simulation *s, uint32_t group) {
    gathering *g = &s->groups[group];
    SYN_TRY(note_meeting(s, group));
    const double begin = g->latest, end = g->latest + g->longest;
    g->n_before++;
    for (uint32_t at = g->arrivals, next; at != NONE; at = next) {
        const syn__pending p = s->pendings.at[at];
        next = p.next_entry;
        finish(s, p.index, p.node, p.arrived, begin, end);
    }
    g->n_arrived = 0;
    g->arrivals = NONE;
    g->latest = g->longest = 0;
    g->has_source = false;
    return SYN_OK;
}

/* Records that a rank has arrived at a collective. The collective finishes when all members have
   arrived. */
static syn_status arrive(simulation *s, uint32_t index, uint32_t number, const syn_node *node,
                         double ready) {
    const syn_graph_group *found = syn_graph_group_by_id(s->t->graph, node->group);
    if (found == NULL) {
        finish(s, index, number, ready, ready, ready + duration(s, node));
        return SYN_OK;
    }
    const uint32_t group = (uint32_t)(found - s->t->graph->groups);
    gathering *g = &s->groups[group];
    uint32_t own = *pending_of(s, index, number);
    if (own > 0) own--;
    else SYN_TRY(put_aside(s, index, number, 0, &own));
    s->pendings.at[own].arrived = ready;
    s->pendings.at[own].next_entry = g->arrivals;
    g->arrivals = own;
    g->latest = fmax(g->latest, ready);
    g->longest = fmax(g->longest, duration(s, node));
    g->comm = node->comm;
    g->has_source = g->has_source || node->n_deps > 0 || node->n_inputs > 0;
    return ++g->n_arrived >= g->n_members ? release_group(s, group) : SYN_OK;
}

/* ---- Messages ---- */

static int compare_at(uint32_t rank, uint32_t node, uint32_t other_rank, uint32_t other_node) {
    if (rank != other_rank) return rank < other_rank ? -1 : 1;
    return node < other_node ? -1 : node > other_node;
}

static int compare_senders(const void *a, const void *b) {
    const sender *x = a, *y = b;
    return compare_at(x->rank, x->node, y->rank, y->node);
}

static int compare_receiver(const void *key, const void *message) {
    const sender *x = key;
    const syn__timeline_message *m = message;
    return compare_at(x->rank, x->node, m->to_rank, m->to_node);
}

/* Returns the message that the rank's node receives; NO_MESSAGE if there is none. */
static size_t message_to(const simulation *s, uint32_t index, uint32_t node) {
    const syn__timeline *t = s->t;
    const sender key = {t->ranks[index], node, 0};
    if (t->n_messages == 0) return NO_MESSAGE;
    const syn__timeline_message *found =
        bsearch(&key, t->messages, t->n_messages, sizeof *t->messages, compare_receiver);
    return found != NULL ? (size_t)(found - t->messages) : NO_MESSAGE;
}

/* Returns the message that the rank's node sends; NO_MESSAGE if there is none. */
static size_t message_from(const simulation *s, uint32_t index, uint32_t node) {
    const sender key = {s->t->ranks[index], node, 0};
    if (s->t->n_messages == 0) return NO_MESSAGE;
    const sender *found =
        bsearch(&key, s->senders, s->t->n_messages, sizeof *s->senders, compare_senders);
    return found != NULL ? found->message : NO_MESSAGE;
}

/* Whether the message has a send that has not run yet. */
static bool is_in_transit(const simulation *s, size_t message) {
    if (message == NO_MESSAGE) return false;
    const syn__timeline_message *m = &s->t->messages[message];
    return !is_done(s, s->t->place[m->from_rank], m->from_node);
}

/* Runs a receive. If there is no send, or if the send has not run and force() has resolved a
   deadlock, the receive has only its own duration. */
static void receive(simulation *s, uint32_t index, uint32_t number, const syn_node *node,
                    double ready) {
    const size_t message = message_to(s, index, number);
    double begin = ready, end = ready + duration(s, node);
    if (message != NO_MESSAGE && !is_in_transit(s, message)) {
        syn__timeline_message *m = &s->t->messages[message];
        const syn__span *sent = span_of(s, s->t->place[m->from_rank], m->from_node);
        m->in_order = true;
        begin = fmax(ready, sent->start_ns);
        end = fmax(begin + duration(s, node), sent->end_ns);
    }
    finish(s, index, number, ready, begin, end);
}

/* Notifies the receive that waits for the message just sent. */
static void deliver(simulation *s, uint32_t index, uint32_t sent) {
    const size_t message = message_from(s, index, sent);
    if (message == NO_MESSAGE) return;
    const syn__timeline_message *m = &s->t->messages[message];
    const uint32_t there = *pending_of(s, s->t->place[m->to_rank], m->to_node);
    if (there == 0 || s->pendings.at[there - 1].message != message) return;
    s->pendings.at[there - 1].message = NO_MESSAGE;
    syn__pendings_close(&s->pendings, there - 1);
}

/* ---- Running ---- */

/* What a node waits for besides its dependencies. Each is a node's index plus one; 0: none. */
typedef struct earlier {
    uint32_t before; /* the previous node on its stream */
    uint32_t shared; /* the previous collective on the links that it shares with other groups */
    uint32_t call;   /* the previous call of its group, which must have ended */
} earlier;

/* Runs a node whose dependencies have all ended. */
static syn_status run_node(simulation *s, uint32_t index, uint32_t number, const syn_node *node,
                           uint32_t before, uint32_t shared) {
    double ready = 0;
    for (uint32_t i = 0; i < node->n_deps; i++)
        ready = fmax(ready, span_of(s, index, node->deps[i].node)->end_ns);
    if (!is_shown(node)) {
        *span_of(s, index, number) = (syn__span){-1, ready, 0};
        end_node(s, index, number);
        return SYN_OK;
    }
    if (before > 0) ready = fmax(ready, span_of(s, index, before - 1)->end_ns);
    if (shared > 0) ready = fmax(ready, span_of(s, index, shared - 1)->end_ns);
    if (node->kind == SYN_NODE_COLLECTIVE) return arrive(s, index, number, node, ready);
    if (node->kind == SYN_NODE_RECV) {
        receive(s, index, number, node, ready);
        return SYN_OK;
    }
    finish(s, index, number, ready, ready, ready + duration(s, node));
    if (node->kind == SYN_NODE_SEND) deliver(s, index, number);
    return SYN_OK;
}

/* Replaces the last node on a stream by this one. *before: the previous last node's index plus
   one. */
static syn_status enter(simulation *s, uint32_t index, uint32_t number, syn__stream_key key,
                        uint32_t *before) {
    uint32_t *last;
    SYN_TRY(syn__streams_at(&s->ranks[index].streams, key, &last, s->err));
    *before = *last;
    *last = number + 1;
    return SYN_OK;
}

static syn_status enter_streams(simulation *s, uint32_t index, uint32_t number,
                                const syn_node *node, earlier *out) {
    syn__stream_key shared;
    *out = (earlier){0};
    if (!is_shown(node)) return SYN_OK;
    SYN_TRY(enter(s, index, number, syn__stream_of(node), &out->before));
    if (node->kind != SYN_NODE_COLLECTIVE) return SYN_OK;
    if (syn__timeline_shares(s->t, node, &shared))
        SYN_TRY(enter(s, index, number, shared, &out->shared));
    return enter(s, index, number, syn__stream_of_group(node->group), &out->call);
}

static bool is_open(const simulation *s, uint32_t index, uint32_t node) {
    return node > 0 && *pending_of(s, index, node - 1) != 0;
}

static bool has_open(const simulation *s, uint32_t index, const syn_node *node, const earlier *e) {
    if (is_open(s, index, e->before) || is_open(s, index, e->shared) || is_open(s, index, e->call))
        return true;
    for (uint32_t i = 0; i < node->n_deps; i++)
        if (*pending_of(s, index, node->deps[i].node) != 0) return true;
    return false;
}

/* Adds a node that has to wait to the pending entries. */
static syn_status keep(simulation *s, uint32_t index, uint32_t number, const syn_node *node,
                       const earlier *e, size_t message) {
    const uint32_t nodes[3] = {e->before, e->shared, e->call};
    uint32_t own;
    SYN_TRY(put_aside(s, index, number, e->before, &own));
    s->pendings.at[own].shared = e->shared;
    for (uint32_t i = 0; i < node->n_deps; i++) SYN_TRY(wait_for(s, own, node->deps[i].node));
    for (int i = 0; i < 3; i++)
        if (nodes[i] > 0) SYN_TRY(wait_for(s, own, nodes[i] - 1));
    s->pendings.at[own].message = message;
    if (message != NO_MESSAGE) s->pendings.at[own].n_open++;
    return SYN_OK;
}

typedef enum visit { RAN, WAITS, PASSED } visit;

/* Visits the rank's next node. *out is RAN if it ran, WAITS if it stops the rank until it can end,
   and PASSED if it does neither. */
static syn_status step(simulation *s, uint32_t index, visit *out) {
    const syn_node *node;
    const uint32_t number = s->ranks[index].next;
    earlier e;
    SYN_TRY(node_of(s, index, number, &node));
    if (s->t->courses != NULL) note_course(s, index, number, node);
    SYN_TRY(enter_streams(s, index, number, node, &e));
    s->ranks[index].next++;
    const bool shown = is_shown(node), receives = shown && node->kind == SYN_NODE_RECV;
    size_t message = receives ? message_to(s, index, number) : NO_MESSAGE;
    if (!is_in_transit(s, message)) message = NO_MESSAGE;
    if (message != NO_MESSAGE || has_open(s, index, node, &e))
        SYN_TRY(keep(s, index, number, node, &e, message));
    else SYN_TRY(run_node(s, index, number, node, e.before, e.shared));
    *out = !shown ? PASSED : is_done(s, index, number) ? RAN : receives ? PASSED : WAITS;
    return SYN_OK;
}

/* Runs a rank until a node has to wait. look_ahead: continues beyond waiting nodes until one has
   run. */
static syn_status run_rank(simulation *s, uint32_t index, bool look_ahead) {
    sim_rank *rank = &s->ranks[index];
    const uint32_t n_nodes = s->t->graph->ranks[s->t->ranks[index]].n_nodes;
    rank->pause = 0;
    while (rank->next < n_nodes && rank->pause == 0) {
        visit done;
        SYN_TRY(step(s, index, &done));
        if (done == RAN) look_ahead = false;
        if (done == WAITS && !look_ahead) rank->pause = rank->next;
    }
    return SYN_OK;
}

static syn_status run_ready(simulation *s) {
    const uint32_t own = s->pendings.ready;
    const syn__pending p = s->pendings.at[own];
    const syn_node *node;
    s->pendings.ready = p.next_entry;
    SYN_TRY(node_of(s, p.index, p.node, &node));
    return run_node(s, p.index, p.node, node, p.before, p.shared);
}

static syn_status run_queue(simulation *s) {
    while (s->pendings.ready != NONE || s->queue_n > 0) {
        if (s->pendings.ready != NONE) {
            SYN_TRY(run_ready(s));
            continue;
        }
        const uint32_t index = s->queue[s->queue_first];
        s->queue_first = (s->queue_first + 1) % s->n_ranks;
        s->queue_n--;
        s->ranks[index].queued = false;
        SYN_TRY(run_rank(s, index, false));
    }
    return SYN_OK;
}

/* Lets each rank look ahead, when all ranks wait. */
static syn_status look_ahead(simulation *s, bool *any) {
    *any = false;
    for (uint32_t i = 0; i < s->n_ranks; i++) {
        const uint32_t n_nodes = s->t->graph->ranks[s->t->ranks[i]].n_nodes;
        if (s->ranks[i].next == n_nodes || s->ranks[i].queued) continue;
        *any = true;
        SYN_TRY(run_rank(s, i, true));
    }
    return SYN_OK;
}

/* Resolves a deadlock, which occurs if the graph's communication does not match. Ranks at a
   collective continue without the missing members. If no rank is at a collective, receivers
   continue without their messages. */
static syn_status force(simulation *s, bool *any) {
    *any = false;
    for (uint32_t g = 0; g < s->t->graph->n_groups; g++) {
        if (s->groups[g].n_arrived == 0) continue;
        *any = true;
        SYN_TRY(release_group(s, g));
    }
    if (*any) return SYN_OK;
    for (uint32_t i = 0; i < s->pendings.n; i++) {
        syn__pending *p = &s->pendings.at[i];
        if (p->index == NONE || p->message == NO_MESSAGE || p->n_open > 1) continue;
        *any = true;
        p->message = NO_MESSAGE;
        syn__pendings_close(&s->pendings, i);
    }
    return SYN_OK;
}

/* ---- Setup and cleanup ---- */

static syn_status sort_senders(simulation *s) {
    const size_t n = s->t->n_messages;
    if (n == 0) return SYN_OK;
    s->senders = syn_calloc(n, sizeof *s->senders);
    if (s->senders == NULL) return SYN_FAIL_NOMEM(s->err, n * sizeof *s->senders, "messages");
    for (size_t i = 0; i < n; i++) {
        const syn__timeline_message *m = &s->t->messages[i];
        s->senders[i] = (sender){m->from_rank, m->from_node, i};
    }
    qsort(s->senders, n, sizeof *s->senders, compare_senders);
    return SYN_OK;
}

static syn_status prepare(simulation *s) {
    const syn_graph *graph = s->t->graph;
    s->ranks = syn_calloc(s->n_ranks, sizeof *s->ranks);
    s->groups = syn_calloc(graph->n_groups, sizeof *s->groups);
    s->held = syn_calloc(s->n_ranks, sizeof *s->held);
    s->queue = syn_calloc(s->n_ranks, sizeof *s->queue);
    s->pending_of = syn_calloc(s->t->span_first[s->n_ranks], sizeof *s->pending_of);
    if (s->ranks == NULL || s->groups == NULL || s->held == NULL || s->queue == NULL ||
        s->pending_of == NULL)
        return SYN_FAIL(s->err, SYN_E_NOMEM, "out of memory for simulating %u ranks",
                        (unsigned)s->n_ranks);
    for (uint32_t i = 0; i < s->n_ranks; i++) {
        s->held[i] = graph->ranks[s->t->ranks[i]].rank;
        enqueue(s, i);
    }
    qsort(s->held, s->n_ranks, sizeof *s->held, compare_ranks);
    for (uint32_t g = 0; g < graph->n_groups; g++) {
        s->groups[g].arrivals = NONE;
        for (uint32_t i = 0; i < graph->groups[g].n_ranks; i++)
            s->groups[g].n_members += bsearch(&graph->groups[g].ranks[i], s->held, s->n_ranks,
                                              sizeof *s->held, compare_ranks) != NULL;
    }
    return sort_senders(s);
}

static void close_simulation(simulation *s) {
    for (uint32_t i = 0; s->ranks != NULL && i < s->n_ranks; i++)
        syn__streams_free(&s->ranks[i].streams);
    syn__walk_free(&s->walk);
    syn__pendings_free(&s->pendings);
    void *const all[] = {s->ranks, s->groups, s->held, s->queue, s->senders, s->pending_of};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) syn_free(all[i]);
}

syn_status syn__timeline_simulate(syn__timeline *timeline, syn_error *err) {
    simulation s = {.t = timeline, .n_ranks = timeline->n_ranks, .err = err};
    bool any = s.n_ranks > 0;
    syn__walk_init(&s.walk, timeline->graph);
    syn__pendings_init(&s.pendings);
    syn_status status = any ? prepare(&s) : SYN_OK;
    while (status == SYN_OK && any) {
        status = run_queue(&s);
        if (status == SYN_OK) status = look_ahead(&s, &any);
        if (status == SYN_OK && !any) status = force(&s, &any);
    }
    close_simulation(&s);
    return status;
}
