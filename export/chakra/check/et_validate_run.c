/* Simulates a trace set to find deadlocks. Every rank has one communication slot, which a
   collective occupies until all members of its group have arrived. Of the ready nodes, the one with
   the smallest id gets the slot. Compute nodes, and receives of messages that were sent, finish
   immediately; a send never waits. If a node never runs in this simulation, simulators cannot run
   it either. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "export/chakra/check/et_validate.h"
#include "syntorch/base/memory.h"

#define NONE         UINT32_MAX
#define SHOWN_RANKS  6
#define FIRST_QUEUED 1024u

/* A call, given by its rank index and its index in the rank's calls. rank NONE: no call. */
typedef struct call_at {
    uint32_t rank, call;
} call_at;

/* A queue of calls that wait for the same event, first in, first out. */
typedef struct queue {
    call_at first, last;
    uint32_t n;
} queue;

typedef struct rank_run {
    const syn__checked_rank *of;
    uint32_t *left;        /* per node: number of dependencies that have not finished */
    uint32_t *call_of;     /* per node: its call, or NONE */
    uint32_t *heap;        /* ready sends and collectives, smallest id on top */
    uint32_t *n_issued;    /* at the index of a group's first call: number of the group's calls
                              issued so far */
    call_at *next;         /* per call: the next call in its queue */
    uint8_t *waiting;      /* per call: 1 while it waits, after it was issued (collective) or posted
                              (receive) */
    uint32_t n_heap, busy; /* busy: the collective in the slot, or NONE */
} rank_run;

typedef struct run {
    syn_validator *v;
    rank_run *ranks;
    uint32_t *base;  /* per group: index of its first collective in `meetings` */
    queue *meetings; /* per collective of a group: the calls of ranks that have arrived */
    queue *wanted;   /* per message key: receives that were posted before their send */
    uint32_t *sent;  /* per message key: number of sends issued before their receive */
    struct finished {
        uint32_t rank, node;
    } * work; /* ring buffer of finished nodes, in the order in which they finished */
    size_t work_cap, work_first, n_work;
    uint64_t n_done;
    bool no_memory;
} run;

/* ---- Queues ---- */

static void finish(run *s, uint32_t rank, uint32_t node) {
    if (s->n_work == s->work_cap) {
        const size_t cap = s->work_cap == 0 ? FIRST_QUEUED : s->work_cap * 2;
        struct finished *grown = (struct finished *)syn_malloc(cap * sizeof *grown);
        if (grown == NULL) {
            s->no_memory = true;
            return;
        }
        for (size_t i = 0; i < s->n_work; i++)
            grown[i] = s->work[(s->work_first + i) & (s->work_cap - 1)];
        syn_free(s->work);
        s->work = grown;
        s->work_cap = cap;
        s->work_first = 0;
    }
    s->work[(s->work_first + s->n_work++) & (s->work_cap - 1)] = (struct finished){rank, node};
}

static void put(run *s, queue *q, uint32_t rank, uint32_t call) {
    const call_at at = {rank, call};
    s->ranks[rank].waiting[call] = 1;
    if (q->n++ == 0) q->first = at;
    else s->ranks[q->last.rank].next[q->last.call] = at;
    q->last = at;
}

static call_at take(run *s, queue *q) {
    const call_at at = q->first;
    q->n--;
    s->ranks[at.rank].waiting[at.call] = 0;
    q->first = s->ranks[at.rank].next[at.call];
    return at;
}

static uint64_t id_of(const rank_run *r, uint32_t call) {
    return r->of->calls[call].id;
}

static void heap_push(rank_run *r, uint32_t call) {
    size_t at = r->n_heap++;
    for (; at > 0 && id_of(r, r->heap[(at - 1) / 2]) > id_of(r, call); at = (at - 1) / 2)
        r->heap[at] = r->heap[(at - 1) / 2];
    r->heap[at] = call;
}

static uint32_t heap_pop(rank_run *r) {
    const uint32_t top = r->heap[0], last = r->heap[--r->n_heap];
    size_t at = 0;
    for (;;) {
        size_t child = at * 2 + 1;
        if (child >= r->n_heap) break;
        if (child + 1 < r->n_heap && id_of(r, r->heap[child + 1]) < id_of(r, r->heap[child]))
            child++;
        if (id_of(r, r->heap[child]) >= id_of(r, last)) break;
        r->heap[at] = r->heap[child];
        at = child;
    }
    r->heap[at] = last;
    return top;
}

/* ---- Steps ---- */

/* Handles a node whose dependencies have all finished. */
static void release(run *s, uint32_t rank, uint32_t node) {
    rank_run *r = &s->ranks[rank];
    const uint32_t call = r->call_of[node];
    if (call == NONE) {
        finish(s, rank, node);
        return;
    }
    const syn__checked_call *c = &r->of->calls[call];
    if (c->type != SYN__ET_COMM_RECV_NODE) {
        heap_push(r, call);
    } else if (s->sent[c->key] > 0) {
        s->sent[c->key]--;
        finish(s, rank, node);
    } else {
        put(s, &s->wanted[c->key], rank, call);
    }
}

/* Index of the first call of `group`, or of a later group. */
static uint32_t first_of_group(const rank_run *r, uint32_t group) {
    size_t low = 0, high = r->of->n_calls;
    while (low < high) {
        const size_t mid = (low + high) / 2;
        if (r->of->calls[mid].group < group) low = mid + 1;
        else high = mid;
    }
    return (uint32_t)low;
}

static void join(run *s, uint32_t rank, uint32_t call) {
    rank_run *r = &s->ranks[rank];
    const uint32_t group = r->of->calls[call].group;
    const uint32_t number = r->n_issued[first_of_group(r, group)]++;
    queue *meeting = &s->meetings[s->base[group] + number];
    r->busy = call;
    put(s, meeting, rank, call);
    if (meeting->n < syn__n_members(s->v, group)) return;
    while (meeting->n > 0) {
        const call_at at = take(s, meeting);
        s->ranks[at.rank].busy = NONE;
        finish(s, at.rank, s->ranks[at.rank].of->calls[at.call].node);
    }
}

static void start(run *s, uint32_t rank) {
    rank_run *r = &s->ranks[rank];
    if (r->busy != NONE || r->n_heap == 0) return;
    const uint32_t call = heap_pop(r);
    const syn__checked_call *c = &r->of->calls[call];
    /* In simulators a broadcast takes time but sends no messages, so it never waits. */
    if (c->type == SYN__ET_COMM_COLL_NODE && c->kind != SYN__ET_BROADCAST) {
        join(s, rank, call);
        return;
    }
    if (c->type == SYN__ET_COMM_SEND_NODE) {
        if (s->wanted[c->key].n > 0) {
            const call_at at = take(s, &s->wanted[c->key]);
            finish(s, at.rank, s->ranks[at.rank].of->calls[at.call].node);
        } else {
            s->sent[c->key]++;
        }
    }
    finish(s, rank, c->node);
}

static void process_finished(run *s) {
    while (s->n_work > 0) {
        const struct finished done = s->work[s->work_first];
        const rank_run *r = &s->ranks[done.rank];
        s->work_first = (s->work_first + 1) & (s->work_cap - 1);
        s->n_work--;
        s->n_done++;
        const uint32_t *children = r->of->children;
        for (uint32_t k = r->of->first_child[done.node]; k < r->of->first_child[done.node + 1]; k++)
            if (--r->left[children[k]] == 0) release(s, done.rank, children[k]);
        start(s, done.rank);
    }
}

static void run_through(run *s) {
    do {
        process_finished(s);
        for (uint32_t rank = 0; rank < s->v->n_ranks; rank++) start(s, rank);
    } while (s->n_work > 0);
}

/* ---- Deadlocks ---- */

/* Returns a rank that has not arrived at the collective in which rank `r` waits, or -1. */
static int32_t missing_member(const run *s, const rank_run *r, uint32_t call) {
    const uint32_t group = r->of->calls[call].group;
    const uint32_t issued = r->n_issued[first_of_group(r, group)];
    for (size_t i = 0; i < syn__n_members(s->v, group); i++) {
        const int32_t member = syn__member(s->v, group, i);
        const rank_run *other = &s->ranks[member];
        if (other->n_issued[first_of_group(other, group)] < issued) return member;
    }
    return -1;
}

/* Writes to `text` what the rank waits for. Returns the rank for which it waits, or -1. */
static int32_t describe_wait(const run *s, int32_t rank, char *text, size_t capacity) {
    const rank_run *r = &s->ranks[rank];
    uint32_t call = r->busy;
    for (uint32_t i = 0; i < r->of->n_calls && call == NONE; i++)
        if (r->waiting[i]) call = i;
    if (call == NONE) {
        snprintf(text, capacity, "rank %" PRId32 " has nothing to issue", rank);
        return -1;
    }
    const syn__checked_call *c = &r->of->calls[call];
    const bool message = c->type == SYN__ET_COMM_RECV_NODE;
    const int32_t peer = message ? (int32_t)c->src : missing_member(s, r, call);
    if (message)
        snprintf(text, capacity,
                 "rank %" PRId32 " waits in receive %" PRIu64 " (tag %" PRId64
                 ") for rank %" PRId32,
                 rank, c->id, c->tag, peer);
    else
        snprintf(text, capacity,
                 "rank %" PRId32 " waits in collective %" PRIu64 " (group %.40s) for rank %" PRId32,
                 rank, c->id, syn__checked_group_name(s->v, c->group), peer);
    return peer;
}

static bool is_stuck(const rank_run *r) {
    bool stuck = r->busy != NONE;
    for (uint32_t i = 0; i < r->of->n_calls && !stuck; i++) stuck = r->waiting[i];
    return stuck;
}

static void report_deadlock(const run *s) {
    char text[SHOWN_RANKS * 128] = "";
    int32_t seen[SHOWN_RANKS], rank = 0;
    size_t used = 0;
    while ((size_t)rank + 1 < s->v->n_ranks && !is_stuck(&s->ranks[rank])) rank++;
    const int32_t first = rank;
    for (int n = 0; n < SHOWN_RANKS && rank >= 0; n++) {
        seen[n] = rank;
        if (n > 0) used += (size_t)snprintf(text + used, sizeof text - used, "; ");
        rank = describe_wait(s, rank, text + used, sizeof text - used);
        used += strlen(text + used);
        for (int i = 0; i <= n; i++)
            if (rank == seen[i]) rank = -1;
    }
    syn__report_finding(s->v, SYN_FINDING_DEADLOCK,
                        (syn__finding_location){first, false, 0, SYN__ET_NO_OFFSET},
                        "%" PRIu64 " of %" PRIu64 " nodes never run: %s",
                        s->v->result.n_nodes - s->n_done, s->v->result.n_nodes, text);
}

/* ---- Opening and closing ---- */

static bool open_rank(rank_run *r, const syn__checked_rank *of) {
    const size_t n = of->n_nodes, n_calls = of->n_calls + 1;
    *r = (rank_run){.of = of, .busy = NONE};
    r->left = (uint32_t *)syn_calloc(n + 1, sizeof(uint32_t));
    r->call_of = (uint32_t *)syn_malloc((n + 1) * sizeof(uint32_t));
    r->heap = (uint32_t *)syn_malloc(n_calls * sizeof(uint32_t));
    r->n_issued = (uint32_t *)syn_calloc(n_calls, sizeof(uint32_t));
    r->next = (call_at *)syn_calloc(n_calls, sizeof *r->next);
    r->waiting = (uint8_t *)syn_calloc(n_calls, 1);
    if (r->left == NULL || r->call_of == NULL || r->heap == NULL || r->n_issued == NULL ||
        r->next == NULL || r->waiting == NULL)
        return false;
    for (uint32_t i = 0; i < n; i++) r->call_of[i] = NONE;
    for (uint32_t i = 0; i < of->n_calls; i++) r->call_of[of->calls[i].node] = i;
    for (uint32_t k = 0; k < of->first_child[n]; k++) r->left[of->children[k]]++;
    return true;
}

static void close_run(run *s) {
    for (size_t i = 0; s->ranks != NULL && i < s->v->n_ranks; i++) {
        rank_run *r = &s->ranks[i];
        syn_free(r->left);
        syn_free(r->call_of);
        syn_free(r->heap);
        syn_free(r->n_issued);
        syn_free(r->next);
        syn_free(r->waiting);
    }
    syn_free(s->ranks);
    syn_free(s->base);
    syn_free(s->meetings);
    syn_free(s->wanted);
    syn_free(s->sent);
    syn_free(s->work);
}

/* Allocates the queues. The number of collectives of a group is that of its first member: all
   members have the same number, because the check across ranks has found no problem. */
static bool open_meetings(run *s) {
    const syn_validator *v = s->v;
    const size_t n_groups = v->names.n_entries;
    const size_t n_keys = (size_t)(v->result.n_sends + v->result.n_recvs) + 1;
    size_t n = 0;
    s->base = (uint32_t *)syn_calloc(n_groups + 1, sizeof(uint32_t));
    s->wanted = (queue *)syn_calloc(n_keys, sizeof *s->wanted);
    s->sent = (uint32_t *)syn_calloc(n_keys, sizeof(uint32_t));
    if (s->base == NULL || s->wanted == NULL || s->sent == NULL) return false;
    for (uint32_t g = 0; g < n_groups; g++) {
        s->base[g] = (uint32_t)n;
        if (syn__n_members(v, g) == 0) continue;
        const rank_run *r = &s->ranks[syn__member(v, g, 0)];
        n += first_of_group(r, g + 1) - first_of_group(r, g);
    }
    s->meetings = (queue *)syn_calloc(n + 1, sizeof *s->meetings);
    return s->meetings != NULL;
}

static bool open_run(run *s) {
    s->ranks = (rank_run *)syn_calloc(s->v->n_ranks, sizeof *s->ranks);
    if (s->ranks == NULL) return false;
    for (size_t i = 0; i < s->v->n_ranks; i++)
        if (!open_rank(&s->ranks[i], &s->v->ranks[i])) return false;
    return open_meetings(s);
}

static int compare_u64(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Releases the nodes without dependencies, smallest id first. */
static void release_roots(run *s, uint32_t rank, uint64_t *roots) {
    const rank_run *r = &s->ranks[rank];
    const uint32_t *place = r->of->place;
    size_t n = 0;
    for (uint32_t i = 0; i < r->of->n_nodes; i++)
        if (r->left[i] == 0) roots[n++] = (uint64_t)(place == NULL ? i : place[i]) << 32 | i;
    if (place != NULL) qsort(roots, n, sizeof *roots, compare_u64);
    for (size_t i = 0; i < n; i++) release(s, rank, (uint32_t)roots[i]);
}

syn_status syn__check_deadlock(syn_validator *v, syn_error *err) {
    run s = {.v = v};
    size_t most = 0;
    for (size_t i = 0; i < v->n_ranks; i++)
        if (v->ranks[i].n_nodes > most) most = v->ranks[i].n_nodes;
    uint64_t *roots = (uint64_t *)syn_malloc((most + 1) * sizeof *roots);
    bool ok = roots != NULL && open_run(&s);
    for (uint32_t i = 0; i < v->n_ranks && ok; i++) release_roots(&s, i, roots);
    syn_free(roots);
    if (ok) run_through(&s);
    ok = ok && !s.no_memory;
    if (ok && s.n_done < v->result.n_nodes) report_deadlock(&s);
    close_run(&s);
    return ok ? SYN_OK : SYN_FAIL_NOMEM(err, v->result.n_nodes, "the simulation of a trace set");
}
