/* The simulation behind a timeline without measured times. Each rank runs through its nodes until
   it must wait for others; a queue holds the ranks that can go on, so that the whole costs no more
   than the nodes and edges. */
#include "export/walk/timeline.h"
#include "syntorch/memory.h"

#include <math.h>
#include <stdlib.h>

#define MAX_STREAMS 64 /* higher streams share the last */
#define NO_GROUP    UINT32_MAX
#define NO_MESSAGE  SIZE_MAX
#define NO_RANK     UINT32_MAX

typedef struct sim_rank {
    double stream_end[MAX_STREAMS];
    uint32_t next;       /* node */
    size_t next_message; /* to this rank, not before `next` */
    /* while it waits */
    uint32_t group;
    uint32_t also_waiting; /* next rank of the group's list; NO_RANK ends it */
    size_t message;
    double arrived;
    uint64_t id; /* of the collective */
    bool queued;
} sim_rank;

typedef struct gathering {
    uint32_t n_members; /* that the timeline holds */
    uint32_t n_arrived;
    uint32_t waiting;  /* the list of ranks that have arrived */
    uint32_t n_before; /* collectives of the group that are done */
    syn_comm_kind comm;
    bool has_source;
    double latest, longest; /* arrival and duration */
} gathering;

typedef struct rank_at {
    int32_t rank;
    uint32_t index;
} rank_at;

typedef struct simulation {
    syn__timeline *t;
    syn__walk walk;
    sim_rank *ranks; /* per place in the timeline; so `index` below */
    gathering *groups;
    rank_at *by_rank; /* sorted by global number */
    uint32_t *queue;  /* a ring: a rank is in it at most once */
    uint32_t n_ranks, queue_first, queue_n;
    syn_error *err;
} simulation;

static void enqueue(simulation *s, uint32_t index) {
    if (s->ranks[index].queued) return;
    s->ranks[index].queued = true;
    s->queue[(s->queue_first + s->queue_n++) % s->n_ranks] = index;
}

static int compare_rank_at(const void *a, const void *b) {
    const rank_at *x = a, *y = b;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* Index of a global rank, UINT32_MAX if the timeline does not hold it. */
static uint32_t find_rank(const simulation *s, int32_t rank) {
    const rank_at key = {rank, 0};
    const rank_at *found =
        bsearch(&key, s->by_rank, s->n_ranks, sizeof *s->by_rank, compare_rank_at);
    return found != NULL ? found->index : UINT32_MAX;
}

static double duration(const simulation *s, const syn_node *node) {
    if (s->t->clock == SYN__CLOCK_ORDER) return SYN__CLOCK_ORDER_NS;
    const bool predicted = s->t->clock == SYN__CLOCK_PREDICTED;
    const double ns = predicted ? node->predicted_ns : syn_node_busy_ns(node);
    return ns > 0 ? fmin(ns, SYN__MAX_NS) : 0;
}

static syn__course *course_of(const simulation *s, uint32_t index, uint32_t node) {
    return &s->t->courses[s->t->span_first[index] + node];
}

static void note_course(simulation *s, uint32_t index, const syn_node *node, bool shown) {
    syn__course *course = course_of(s, index, s->ranks[index].next);
    course->duration_ns = shown ? duration(s, node) : 0;
    course->is_last = node->n_outputs == 0 && shown;
    for (uint32_t i = 0; i < node->n_deps; i++)
        course_of(s, index, node->deps[i].node)->is_last = false;
}

static double *stream_end(simulation *s, uint32_t index, int32_t stream) {
    const int32_t last = MAX_STREAMS - 1;
    return &s->ranks[index].stream_end[stream < 0 ? 0 : stream < last ? stream : last];
}

static syn__span *span_of(const simulation *s, uint32_t index, uint32_t node) {
    return &s->t->spans[s->t->span_first[index] + node];
}

static double deps_end(const simulation *s, uint32_t index, const syn_node *node) {
    double end = 0;
    for (uint32_t i = 0; i < node->n_deps; i++)
        end = fmax(end, span_of(s, index, node->deps[i].node)->end_ns);
    return end;
}

/* The rank's next node ran from `arrived` to `end` and waited first. */
static void finish(simulation *s, uint32_t index, int32_t stream, double arrived, double begin,
                   double end) {
    sim_rank *rank = &s->ranks[index];
    *span_of(s, index, rank->next) = (syn__span){arrived, end, begin - arrived};
    double *busy = stream_end(s, index, stream);
    *busy = fmax(*busy, end);
    rank->next++;
    rank->group = NO_GROUP;
    rank->message = NO_MESSAGE;
}

static int compare_members(const void *a, const void *b) {
    const syn__member *x = a, *y = b;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* The ranks that wait at a group's collective as a meeting, if they are several. */
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
    for (uint32_t index = g->waiting; index != NO_RANK; index = s->ranks[index].also_waiting) {
        syn__course *course = course_of(s, index, s->ranks[index].next);
        course->meeting = (uint32_t)t->n_meetings;
        members[n++] = (syn__member){t->ranks[index], course->duration_ns, s->ranks[index].id};
    }
    qsort(members, n, sizeof *members, compare_members);
    t->meetings[t->n_meetings++] =
        (syn__meeting){group, g->n_before, n, t->n_members, g->has_source, g->comm, g->longest};
    t->n_members += n;
    return SYN_OK;
}

/* Lets the ranks that have arrived at a group's collective finish it. */
static syn_status release_group(simulation *s, uint32_t group) {
    gathering *g = &s->groups[group];
    SYN_TRY(note_meeting(s, group));
    g->n_before++;
    for (uint32_t index = g->waiting; index != NO_RANK; index = s->ranks[index].also_waiting) {
        const syn_node *node;
        syn__walk_select(&s->walk, s->t->ranks[index]);
        SYN_TRY(syn__walk_node(&s->walk, s->ranks[index].next, &node, s->err));
        finish(s, index, node->stream, s->ranks[index].arrived, g->latest, g->latest + g->longest);
        enqueue(s, index);
    }
    g->n_arrived = 0;
    g->waiting = NO_RANK;
    g->latest = g->longest = 0;
    g->has_source = false;
    return SYN_OK;
}

/* Arrives at a collective. False in *go_on: the rank waits for the others. */
static syn_status arrive(simulation *s, uint32_t index, const syn_node *node, double ready,
                         bool *go_on) {
    const syn_graph_group *found = syn_graph_group_by_id(s->t->graph, node->group);
    if (found == NULL) {
        finish(s, index, node->stream, ready, ready, ready + duration(s, node));
        return SYN_OK;
    }
    const uint32_t group = (uint32_t)(found - s->t->graph->groups);
    gathering *g = &s->groups[group];
    s->ranks[index].group = group;
    s->ranks[index].arrived = ready;
    s->ranks[index].id = node->id;
    s->ranks[index].also_waiting = g->waiting;
    g->waiting = index;
    g->latest = fmax(g->latest, ready);
    g->longest = fmax(g->longest, duration(s, node));
    g->comm = node->comm;
    g->has_source = g->has_source || node->n_deps > 0 || node->n_inputs > 0;
    *go_on = false;
    return ++g->n_arrived >= g->n_members ? release_group(s, group) : SYN_OK;
}

/* The message that the rank's node `node` receives, or NO_MESSAGE. */
static size_t message_to(simulation *s, uint32_t index, uint32_t node) {
    const uint32_t rank_index = s->t->ranks[index];
    size_t *next = &s->ranks[index].next_message;
    for (; *next < s->t->n_messages; (*next)++) {
        const syn__timeline_message *m = &s->t->messages[*next];
        if (m->to_rank != rank_index || m->to_node > node) break;
        if (m->to_node == node) return *next;
    }
    return NO_MESSAGE;
}

/* Receives, unless the send lies ahead (`alone`: even then). */
static void receive(simulation *s, uint32_t index, const syn_node *node, double ready, bool alone,
                    bool *go_on) {
    const size_t message = message_to(s, index, s->ranks[index].next);
    double begin = ready, end = ready + duration(s, node);
    if (message != NO_MESSAGE && !alone) {
        syn__timeline_message *m = &s->t->messages[message];
        const uint32_t from = s->t->place[m->from_rank];
        if (s->ranks[from].next <= m->from_node) {
            s->ranks[index].message = message;
            s->ranks[index].arrived = ready;
            *go_on = false;
            return;
        }
        m->in_order = true;
        const syn__span *sent = span_of(s, from, m->from_node);
        begin = fmax(ready, sent->start_ns);
        end = fmax(begin + duration(s, node), sent->end_ns);
    }
    finish(s, index, node->stream, ready, begin, end);
}

/* Wakes the rank that waits for what this rank has just sent. */
static void wake_receiver(simulation *s, uint32_t index, const syn_node *node, uint32_t sent) {
    const uint32_t to = find_rank(s, node->peer);
    if (to == UINT32_MAX || s->ranks[to].message == NO_MESSAGE) return;
    const syn__timeline_message *m = &s->t->messages[s->ranks[to].message];
    if (s->t->place[m->from_rank] == index && m->from_node == sent) enqueue(s, to);
}

static syn_status step(simulation *s, uint32_t index, bool alone, bool *go_on) {
    const syn_node *node;
    const uint32_t number = s->ranks[index].next;
    syn__walk_select(&s->walk, s->t->ranks[index]);
    SYN_TRY(syn__walk_node(&s->walk, number, &node, s->err));
    const double deps = deps_end(s, index, node);
    const bool shown = (node->flags & SYN_NODE_VIRTUAL) == 0 && node->kind != SYN_NODE_METADATA;
    if (s->t->courses != NULL) note_course(s, index, node, shown);
    if (!shown) {
        *span_of(s, index, number) = (syn__span){-1, deps, 0};
        s->ranks[index].next++;
        return SYN_OK;
    }
    const double ready = fmax(deps, *stream_end(s, index, node->stream));
    if (node->kind == SYN_NODE_COLLECTIVE) return arrive(s, index, node, ready, go_on);
    if (node->kind == SYN_NODE_RECV) {
        receive(s, index, node, ready, alone, go_on);
        return SYN_OK;
    }
    finish(s, index, node->stream, ready, ready, ready + duration(s, node));
    if (node->kind == SYN_NODE_SEND) wake_receiver(s, index, node, number);
    return SYN_OK;
}

/* Runs a rank until it waits or is done. */
static syn_status run_rank(simulation *s, uint32_t index, bool alone) {
    const uint32_t n_nodes = s->t->graph->ranks[s->t->ranks[index]].n_nodes;
    bool go_on = true;
    while (go_on && s->ranks[index].next < n_nodes) {
        SYN_TRY(step(s, index, alone, &go_on));
        alone = false;
    }
    return SYN_OK;
}

static syn_status run_queue(simulation *s) {
    while (s->queue_n > 0) {
        const uint32_t index = s->queue[s->queue_first];
        s->queue_first = (s->queue_first + 1) % s->n_ranks;
        s->queue_n--;
        s->ranks[index].queued = false;
        if (s->ranks[index].group == NO_GROUP) SYN_TRY(run_rank(s, index, false));
    }
    return SYN_OK;
}

/* Everybody waits: the graph's communications do not match. Lets the ranks at collectives go on
   without the missing ones; if there are none, the receivers without their messages. */
static syn_status force(simulation *s, bool *any) {
    *any = false;
    for (uint32_t i = 0; i < s->n_ranks; i++) {
        if (s->ranks[i].group == NO_GROUP) continue;
        *any = true;
        SYN_TRY(release_group(s, s->ranks[i].group));
    }
    for (uint32_t i = 0; i < s->n_ranks && !*any; i++) {
        if (s->ranks[i].message == NO_MESSAGE) continue;
        *any = true;
        SYN_TRY(run_rank(s, i, true));
    }
    return SYN_OK;
}

static syn_status prepare(simulation *s) {
    const syn_graph *graph = s->t->graph;
    s->ranks = syn_calloc(s->n_ranks, sizeof *s->ranks);
    s->groups = syn_calloc(graph->n_groups, sizeof *s->groups);
    s->by_rank = syn_calloc(s->n_ranks, sizeof *s->by_rank);
    s->queue = syn_calloc(s->n_ranks, sizeof *s->queue);
    if (s->ranks == NULL || s->groups == NULL || s->by_rank == NULL || s->queue == NULL)
        return SYN_FAIL(s->err, SYN_E_NOMEM, "out of memory for simulating %u ranks",
                        (unsigned)s->n_ranks);
    for (uint32_t i = 0; i < s->n_ranks; i++) {
        s->by_rank[i] = (rank_at){graph->ranks[s->t->ranks[i]].rank, i};
        s->ranks[i].group = NO_GROUP;
        s->ranks[i].message = NO_MESSAGE;
        s->ranks[i].next_message = s->t->n_messages;
        enqueue(s, i);
    }
    for (size_t m = s->t->n_messages; m-- > 0;)
        s->ranks[s->t->place[s->t->messages[m].to_rank]].next_message = m;
    qsort(s->by_rank, s->n_ranks, sizeof *s->by_rank, compare_rank_at);
    for (uint32_t g = 0; g < graph->n_groups; g++) {
        s->groups[g].waiting = NO_RANK;
        for (uint32_t i = 0; i < graph->groups[g].n_ranks; i++)
            s->groups[g].n_members += find_rank(s, graph->groups[g].ranks[i]) != UINT32_MAX;
    }
    return SYN_OK;
}

syn_status syn__timeline_simulate(syn__timeline *timeline, syn_error *err) {
    simulation s = {.t = timeline, .n_ranks = timeline->n_ranks, .err = err};
    bool any = s.n_ranks > 0;
    syn__walk_init(&s.walk, timeline->graph);
    syn_status status = any ? prepare(&s) : SYN_OK;
    while (status == SYN_OK && any) {
        status = run_queue(&s);
        if (status == SYN_OK) status = force(&s, &any);
    }
    syn__walk_free(&s.walk);
    syn_free(s.ranks);
    syn_free(s.groups);
    syn_free(s.by_rank);
    syn_free(s.queue);
    return status;
}
