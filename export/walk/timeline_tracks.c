/* Assigns nodes to tracks: sorts the slices of a rank by lane, moves overlapping slices to
   additional tracks, and nests the ops of host threads. */
#include "export/walk/timeline_tracks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "syntorch/base/memory.h"

#define LAST_STREAM 1000 /* higher streams share one lane */
#define LAST_THREAD 1000000
#define NO_SLICE    UINT32_MAX
#define MAX_COPIES  32 /* maximum number of tracks of a host thread */
/* Times in PyTorch traces are whole us, so an op may seem to end later than its caller by up to
   this time. */
#define ROUNDED_NS 2000

int64_t syn__whole_ns(double ns) {
    return (int64_t)((ns < SYN__MAX_NS ? ns : SYN__MAX_NS) + 0.5);
}

/* ---- Lanes ---- */

bool syn__is_host_op(const syn_node *node, syn__host_op *op) {
    *op = (syn__host_op){-1, -1};
    for (uint32_t i = 0; i < node->n_attributes; i++) {
        const syn_attribute *a = &node->attributes[i];
        if (strcmp(a->name, "stream") == 0) return false;
        if (a->type != SYN_VALUE_I64) continue;
        if (strcmp(a->name, "tid") == 0) op->tid = a->i64;
        if (strcmp(a->name, "inclusive_dur") == 0) op->inclusive_us = a->i64;
    }
    return op->tid >= 0 && op->inclusive_us >= 0 && op->inclusive_us < (int64_t)(SYN__MAX_NS / 1e3);
}

static uint32_t cut(int64_t number, uint32_t most) {
    return number < most ? (uint32_t)number : most;
}

/* Lanes are numbered in this order: computation, groups, sends, receives, streams from 1 on, host
   threads from 0 on. */
uint32_t syn__tracks_first_host(const syn_graph *graph) {
    return graph->n_groups + 3 + LAST_STREAM;
}

/* The sort key of a group. Groups of the device mesh are sorted by kind, then number, so that they
   have the same order on all ranks. The other groups follow in the graph's order. */
typedef struct group_place {
    uint32_t kind, number, index;
} group_place;

static group_place place_of(const syn_graph *graph, uint32_t index) {
    static const char *const kinds[] = {"tp", "cp", "pp", "dp"};
    const uint32_t n = sizeof kinds / sizeof *kinds;
    const char *name = graph->groups[index].name;
    for (uint32_t k = 0; k < n && name != NULL; k++) {
        char *end;
        if (strncmp(name, kinds[k], 2) != 0 || name[2] < '0' || name[2] > '9') continue;
        const unsigned long number = strtoul(name + 2, &end, 10);
        if (*end == '\0') return (group_place){k, cut((int64_t)number, UINT32_MAX), index};
    }
    return (group_place){n, 0, index};
}

#define COMPARE(x, y) \
    if ((x) != (y)) return (x) < (y) ? -1 : 1

static int compare_places(const void *a, const void *b) {
    const group_place *x = a, *y = b;
    COMPARE(x->kind, y->kind);
    COMPARE(x->number, y->number);
    COMPARE(x->index, y->index);
    return 0;
}

static syn_status order_groups(syn__tracks *l, const syn_graph *graph, syn_error *err) {
    const uint32_t n = graph->n_groups;
    if (l->lanes != NULL) return SYN_OK;
    group_place *places = syn_calloc((size_t)n + 1, sizeof *places);
    l->groups = syn_calloc((size_t)n + 1, sizeof *l->groups);
    l->lanes = syn_calloc((size_t)n + 1, sizeof *l->lanes);
    if (places == NULL || l->groups == NULL || l->lanes == NULL) {
        syn_free(places);
        return SYN_FAIL_NOMEM(err, n * sizeof *places, "a timeline");
    }
    for (uint32_t g = 0; g < n; g++) places[g] = place_of(graph, g);
    qsort(places, n, sizeof *places, compare_places);
    for (uint32_t i = 0; i < n; i++) {
        l->groups[i] = places[i].index;
        l->lanes[places[i].index] = i;
    }
    syn_free(places);
    return SYN_OK;
}

static uint32_t lane_of(const syn__tracks *l, const syn_graph *graph, const syn_node *node) {
    const uint32_t n_groups = graph->n_groups;
    if (node->kind == SYN_NODE_SEND) return n_groups + 1;
    if (node->kind == SYN_NODE_RECV) return n_groups + 2;
    if (node->kind == SYN_NODE_COLLECTIVE) {
        const syn_graph_group *group = syn_graph_group_by_id(graph, node->group);
        if (group != NULL) return 1 + l->lanes[group - graph->groups];
    }
    return node->stream <= 0 ? 0 : n_groups + 2 + cut(node->stream, LAST_STREAM);
}

void syn__track_name(const syn__tracks *l, const syn_graph *graph, const syn__track_thread *t,
                     char *text, size_t bytes) {
    const uint32_t n = graph->n_groups;
    const char *name = t->lane == 0       ? (l->foreign ? "stream 0" : "compute")
                       : t->lane == n + 1 ? "send"
                                          : "recv";
    if (t->lane >= 1 && t->lane <= n) name = graph->groups[l->groups[t->lane - 1]].name;
    if (t->host)
        snprintf(text, bytes, "thread %u", (unsigned)(t->lane - syn__tracks_first_host(graph)));
    else if (t->lane > n + 2) snprintf(text, bytes, "stream %u", (unsigned)(t->lane - n - 2));
    else snprintf(text, bytes, "%s", name);
}

/* ---- Slices ---- */

static int compare_slices(const void *a, const void *b) {
    const syn__slice *x = a, *y = b;
    COMPARE(x->lane, y->lane);
    COMPARE(x->start, y->start);
    if (x->host) COMPARE(y->end, x->end);
    COMPARE(x->node, y->node);
    return 0;
}

static syn_status collect_slices(syn__tracks *l, const syn__timeline *timeline, syn__walk *walk,
                                 uint32_t rank_index, syn_error *err) {
    const syn_graph *graph = timeline->graph;
    const uint32_t n_nodes = graph->ranks[rank_index].n_nodes;
    bool sorted = true;
    l->n_slices = 0;
    SYN_TRY(syn_grow(&l->slices, &l->slices_cap, n_nodes, sizeof *l->slices, err));
    for (uint32_t i = 0; i < n_nodes; i++) {
        const syn__span *span = syn__timeline_span(timeline, rank_index, i);
        const syn_node *node;
        syn__host_op op;
        if (span->start_ns < 0) continue;
        SYN_TRY(syn__walk_node(walk, i, &node, err));
        syn__slice *s = &l->slices[l->n_slices++];
        *s = (syn__slice){.start = syn__whole_ns(span->start_ns),
                          .end = syn__whole_ns(span->end_ns),
                          .wait = syn__whole_ns(span->wait_ns),
                          .node = i,
                          .lane = lane_of(l, graph, node)};
        if (timeline->clock == SYN__CLOCK_MEASURED && syn__is_host_op(node, &op)) {
            s->host = true;
            s->lane = syn__tracks_first_host(graph) + cut(op.tid, LAST_THREAD);
            s->end = syn__whole_ns(span->start_ns + 1e3 * (double)op.inclusive_us);
        }
        if (l->n_slices > 1 && compare_slices(s - 1, s) > 0) sorted = false;
    }
    if (!sorted) qsort(l->slices, l->n_slices, sizeof *l->slices, compare_slices);
    return SYN_OK;
}

/* ---- Threads ---- */

static bool free_earlier(const syn__tracks *l, uint32_t a, uint32_t b) {
    const syn__track_thread *x = &l->threads[a], *y = &l->threads[b];
    return x->free_at != y->free_at ? x->free_at < y->free_at : a < b;
}

/* Restores the heap after the thread of heap[0] was given a slice. */
static void sift_down(syn__tracks *l) {
    const uint32_t moved = l->heap[0];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < l->n_heap; i = child) {
        if (child + 1 < l->n_heap && free_earlier(l, l->heap[child + 1], l->heap[child])) child++;
        if (!free_earlier(l, l->heap[child], moved)) break;
        l->heap[i] = l->heap[child];
    }
    l->heap[i] = moved;
}

/* Adds a track for the slice to its lane. The track is busy until the slice ends. */
static syn_status add_thread(syn__tracks *l, const syn_graph *graph, syn__slice *s,
                             syn_error *err) {
    const uint32_t base = syn__tracks_first_host(graph) + LAST_THREAD + 1; /* greater than all
                                                                              lanes */
    const uint32_t index = (uint32_t)l->n_threads;
    SYN_TRY(syn_grow(&l->threads, &l->threads_cap, l->n_threads + 1, sizeof *l->threads, err));
    SYN_TRY(syn_grow(&l->heap, &l->heap_cap, l->n_heap + 1, sizeof *l->heap, err));
    const uint32_t copy = (uint32_t)l->n_heap;
    s->tid = copy == 0 ? s->lane : base + l->n_extra++;
    l->threads[l->n_threads++] = (syn__track_thread){.free_at = s->end,
                                                     .lane = s->lane,
                                                     .copy = copy,
                                                     .tid = s->tid,
                                                     .top = NO_SLICE,
                                                     .host = s->host};
    size_t i = l->n_heap++;
    for (; i > 0 && free_earlier(l, index, l->heap[(i - 1) / 2]); i = (i - 1) / 2)
        l->heap[i] = l->heap[(i - 1) / 2];
    l->heap[i] = index;
    return SYN_OK;
}

/* Assigns the slice to the track of the lane that is free first, or to a new track if none is
   free. */
static syn_status assign(syn__tracks *l, const syn_graph *graph, syn__slice *s, syn_error *err) {
    /* Clocks have a resolution of about 1 ns, so an overlap that small is ignored. */
    if (l->n_heap == 0 || l->threads[l->heap[0]].free_at > s->start + 1)
        return add_thread(l, graph, s, err);
    syn__track_thread *t = &l->threads[l->heap[0]];
    if (s->start < t->free_at) s->start = t->free_at;
    if (s->end < s->start) s->end = s->start;
    t->free_at = s->end;
    s->tid = t->tid;
    sift_down(l);
    return SYN_OK;
}

/* Puts the slice on the track, inside the track's open slices or after them. Returns false if it
   does not fit. force: shortens a slice that does not fit. */
static bool nest(syn__tracks *l, syn__track_thread *t, syn__slice *s, bool force) {
    while (t->top != NO_SLICE && l->slices[t->top].end <= s->start) t->top = l->outer[t->top];
    if (t->top != NO_SLICE && l->slices[t->top].end < s->end) {
        if (!force && s->end - l->slices[t->top].end > ROUNDED_NS) return false;
        s->end = l->slices[t->top].end;
    }
    const uint32_t index = (uint32_t)(s - l->slices);
    l->outer[index] = t->top;
    t->top = index;
    s->tid = t->tid;
    return true;
}

/* Assigns the slice to the first track of the lane on which it fits. The lane's tracks are the last
   n_heap tracks. */
static syn_status assign_host(syn__tracks *l, const syn_graph *graph, syn__slice *s,
                              syn_error *err) {
    const size_t first = l->n_threads - l->n_heap;
    for (size_t t = first; t < l->n_threads; t++)
        if (nest(l, &l->threads[t], s, t + 1 == first + MAX_COPIES)) return SYN_OK;
    SYN_TRY(add_thread(l, graph, s, err));
    (void)nest(l, &l->threads[l->n_threads - 1], s, true);
    return SYN_OK;
}

syn_status syn__tracks_fill(syn__tracks *l, const syn__timeline *timeline, syn__walk *walk,
                            uint32_t rank_index, syn_error *err) {
    SYN_TRY(order_groups(l, timeline->graph, err));
    SYN_TRY(collect_slices(l, timeline, walk, rank_index, err));
    SYN_TRY(syn_grow(&l->outer, &l->outer_cap, l->n_slices, sizeof *l->outer, err));
    l->n_extra = 0;
    l->foreign = syn__walk_is_foreign(timeline->graph);
    l->n_threads = l->n_heap = 0;
    for (size_t i = 0; i < l->n_slices; i++) {
        syn__slice *s = &l->slices[i];
        if (i > 0 && s->lane != s[-1].lane) l->n_heap = 0;
        SYN_TRY((s->host ? assign_host : assign)(l, timeline->graph, s, err));
    }
    return SYN_OK;
}

void syn__tracks_free(syn__tracks *l) {
    syn_free(l->groups);
    syn_free(l->lanes);
    syn_free(l->slices);
    syn_free(l->threads);
    syn_free(l->heap);
    syn_free(l->outer);
    memset(l, 0, sizeof *l);
}
