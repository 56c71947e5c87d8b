/* Makes timelines: selects the source of the times, matches messages, and reads measured times. If
   there are no measured times, timeline_simulate.c computes the times. */
#include "export/walk/timeline.h"

#include "syntorch/base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *syn__clock_name(syn__clock clock) {
    return clock == SYN__CLOCK_MEASURED    ? "measured"
           : clock == SYN__CLOCK_PREDICTED ? "predicted"
           : clock == SYN__CLOCK_DURATIONS ? "durations"
                                           : "order";
}

syn__span *syn__timeline_span(const syn__timeline *t, uint32_t rank_index, uint32_t node) {
    return &t->spans[t->span_first[t->place[rank_index]] + node];
}

syn__course *syn__timeline_course(const syn__timeline *t, uint32_t rank_index, uint32_t node) {
    return &t->courses[t->span_first[t->place[rank_index]] + node];
}

/* A send or receive before matching. */
typedef struct endpoint {
    int32_t from, to, tag; /* global ranks of the sender and the receiver, and the tag */
    uint32_t rank, node;   /* indices of the endpoint's own rank and node */
} endpoint;

typedef struct endpoints {
    endpoint *at;
    size_t n, cap;
} endpoints;

typedef struct scan {
    syn__timeline *timeline;
    syn__walk walk;
    endpoints sends, recvs;
    bool measured, predicted, lasting;
    syn_error *err;
} scan;

static bool known_time(double ns) {
    return ns >= 0 && ns <= SYN__MAX_NS; /* false for NaN */
}

static bool is_shown(const syn_node *node) {
    return (node->flags & SYN_NODE_VIRTUAL) == 0 && node->kind != SYN_NODE_METADATA;
}

static syn_status scan_node(scan *s, uint32_t rank_index, uint32_t index, const syn_node *node) {
    if (known_time(node->start_ns) && known_time(node->wall_ns) && is_shown(node))
        s->measured = true;
    if (known_time(node->predicted_ns)) s->predicted = true;
    if (known_time(node->wall_ns) && node->wall_ns > 0 && is_shown(node)) s->lasting = true;
    if (node->kind != SYN_NODE_SEND && node->kind != SYN_NODE_RECV) return SYN_OK;
    const bool send = node->kind == SYN_NODE_SEND;
    const int32_t self = s->timeline->graph->ranks[rank_index].rank;
    endpoints *list = send ? &s->sends : &s->recvs;
    SYN_TRY(syn_grow(&list->at, &list->cap, list->n + 1, sizeof *list->at, s->err));
    list->at[list->n++] = (endpoint){send ? self : node->peer, send ? node->peer : self, node->tag,
                                     rank_index, index};
    return SYN_OK;
}

static syn_status scan_ranks(scan *s) {
    const syn__timeline *t = s->timeline;
    for (uint32_t k = 0; k < t->n_ranks; k++) {
        const uint32_t r = t->ranks[k];
        syn__walk_select(&s->walk, r);
        for (uint32_t i = 0; i < t->graph->ranks[r].n_nodes; i++) {
            const syn_node *node;
            SYN_TRY(syn__walk_node(&s->walk, i, &node, s->err));
            SYN_TRY(scan_node(s, r, i, node));
        }
    }
    return SYN_OK;
}

/* ---- Messages ---- */

static int compare_channels(const endpoint *x, const endpoint *y) {
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    if (x->to != y->to) return x->to < y->to ? -1 : 1;
    if (x->tag != y->tag) return x->tag < y->tag ? -1 : 1;
    return 0;
}

/* Sorts by channel, then by node: all sends of a channel are on one rank, and so are all its
   receives. */
static int compare_endpoints(const void *a, const void *b) {
    const endpoint *x = a, *y = b;
    const int channel = compare_channels(x, y);
    if (channel != 0) return channel;
    return x->node < y->node ? -1 : x->node > y->node;
}

static int compare_receivers(const void *a, const void *b) {
    const syn__timeline_message *x = a, *y = b;
    if (x->to_rank != y->to_rank) return x->to_rank < y->to_rank ? -1 : 1;
    return x->to_node < y->to_node ? -1 : x->to_node > y->to_node;
}

/* Matches the k-th send of a channel with its k-th receive. */
static syn_status match_messages(scan *s) {
    syn__timeline *t = s->timeline;
    const endpoints *sends = &s->sends, *recvs = &s->recvs;
    const size_t most = sends->n < recvs->n ? sends->n : recvs->n;
    if (most == 0) return SYN_OK;
    t->messages = syn_calloc(most, sizeof *t->messages);
    if (t->messages == NULL) return SYN_FAIL_NOMEM(s->err, most * sizeof *t->messages, "messages");
    qsort(sends->at, sends->n, sizeof *sends->at, compare_endpoints);
    qsort(recvs->at, recvs->n, sizeof *recvs->at, compare_endpoints);
    for (size_t i = 0, k = 0; i < sends->n && k < recvs->n;) {
        const endpoint *a = &sends->at[i], *b = &recvs->at[k];
        const int channel = compare_channels(a, b);
        if (channel <= 0) i++;
        if (channel >= 0) k++;
        if (channel == 0)
            t->messages[t->n_messages++] =
                (syn__timeline_message){a->rank, a->node, b->rank, b->node, false};
    }
    qsort(t->messages, t->n_messages, sizeof *t->messages, compare_receivers);
    return SYN_OK;
}

/* ---- Measured times ---- */

#define LATE_NS 1e15 /* 12 days; times above this limit count from the epoch */

/* Returns a time in ns since base_us. If base_us is set, times count from the epoch. They are then
   rounded to the whole microseconds of the file, because a double represents these exactly. */
static double since(const syn__timeline *t, double start_ns) {
    return t->base_us == 0 ? start_ns : 1e3 * (nearbyint(start_ns / 1e3) - (double)t->base_us);
}

static syn_status find_base(scan *s) {
    syn__timeline *t = s->timeline;
    double first_ns = SYN__MAX_NS;
    for (uint32_t k = 0; k < t->n_ranks; k++) {
        const uint32_t r = t->ranks[k];
        syn__walk_select(&s->walk, r);
        for (uint32_t i = 0; i < t->graph->ranks[r].n_nodes; i++) {
            const syn_node *node;
            SYN_TRY(syn__walk_node(&s->walk, i, &node, s->err));
            if (is_shown(node) && known_time(node->start_ns) && known_time(node->wall_ns))
                first_ns = fmin(first_ns, node->start_ns);
        }
    }
    if (first_ns >= LATE_NS && first_ns < SYN__MAX_NS)
        t->base_us = (int64_t)nearbyint(first_ns / 1e3);
    return SYN_OK;
}

static syn_status take_measured(scan *s) {
    syn__timeline *t = s->timeline;
    SYN_TRY(find_base(s));
    for (uint32_t k = 0; k < t->n_ranks; k++) {
        const uint32_t r = t->ranks[k];
        syn__walk_select(&s->walk, r);
        for (uint32_t i = 0; i < t->graph->ranks[r].n_nodes; i++) {
            const syn_node *node;
            SYN_TRY(syn__walk_node(&s->walk, i, &node, s->err));
            syn__span *span = syn__timeline_span(t, r, i);
            *span = (syn__span){-1, -1, 0};
            if (!is_shown(node)) continue;
            if (!known_time(node->start_ns) || !known_time(node->wall_ns)) {
                t->n_untimed++;
                continue;
            }
            span->start_ns = since(t, node->start_ns);
            span->end_ns = span->start_ns + node->wall_ns;
            if (known_time(node->wait_ns)) span->wait_ns = fmin(node->wait_ns, node->wall_ns);
        }
    }
    return SYN_OK;
}

static syn_status choose_ranks(syn__timeline *t, const syn_export_options *options,
                               const syn_copied_ranks *copies, syn_error *err) {
    uint32_t first, end;
    SYN_TRY(syn__walk_ranks(t->graph, options, &first, &end, err));
    t->ranks = syn_calloc(t->graph->n_ranks, sizeof *t->ranks);
    t->place = syn_calloc(t->graph->n_ranks, sizeof *t->place);
    if (t->ranks == NULL || t->place == NULL)
        return SYN_FAIL_NOMEM(err, t->graph->n_ranks * sizeof *t->ranks, "the ranks of a timeline");
    for (uint32_t r = 0; r < t->graph->n_ranks; r++) {
        const bool shown = r >= first && r < end && !syn__is_copy(copies, r);
        t->place[r] = shown ? t->n_ranks : UINT32_MAX;
        if (shown) t->ranks[t->n_ranks++] = r;
    }
    return SYN_OK;
}

static syn_status make_spans(syn__timeline *t, bool courses, syn_error *err) {
    size_t n = 0;
    t->span_first = syn_calloc((size_t)t->n_ranks + 1, sizeof *t->span_first);
    if (t->span_first == NULL)
        return SYN_FAIL_NOMEM(err, t->n_ranks * sizeof *t->span_first, "the ranks of a timeline");
    for (uint32_t i = 0; i < t->n_ranks; i++) {
        t->span_first[i] = n;
        n += t->graph->ranks[t->ranks[i]].n_nodes;
    }
    t->span_first[t->n_ranks] = n;
    t->spans = syn_calloc(n, sizeof *t->spans);
    if (t->spans == NULL) return SYN_FAIL_NOMEM(err, n * sizeof *t->spans, "a timeline");
    if (!courses) return SYN_OK;
    t->courses = syn_calloc(n, sizeof *t->courses);
    if (t->courses == NULL) return SYN_FAIL_NOMEM(err, n * sizeof *t->courses, "a timeline");
    for (size_t i = 0; i < n; i++) t->courses[i].meeting = SYN__NO_MEETING;
    return SYN_OK;
}

/* Orders groups by their ranks, and equal ones by their id. */
static int compare_groups(const void *a, const void *b) {
    const syn_graph_group *x = *(const syn_graph_group *const *)a;
    const syn_graph_group *y = *(const syn_graph_group *const *)b;
    if (x->n_ranks != y->n_ranks) return x->n_ranks < y->n_ranks ? -1 : 1;
    const int ranks = memcmp(x->ranks, y->ranks, x->n_ranks * sizeof *x->ranks);
    return ranks != 0 ? ranks : (x->id > y->id) - (x->id < y->id);
}

/* Fills t->links. */
static syn_status find_links(syn__timeline *t, syn_error *err) {
    const size_t n = t->graph->n_groups;
    if (t->clock != SYN__CLOCK_PREDICTED || n < 2) return SYN_OK;
    const syn_graph_group **order = syn_calloc(n, sizeof *order);
    uint32_t *links = syn_calloc(n, sizeof *links);
    bool any = false;
    for (size_t i = 0; order && i < n; i++) order[i] = &t->graph->groups[i];
    if (order && links) qsort(order, n, sizeof *order, compare_groups);
    for (size_t i = 1; order && links && i < n; i++) {
        const syn_graph_group *x = order[i - 1], *y = order[i];
        if (x->n_ranks != y->n_ranks || memcmp(x->ranks, y->ranks, x->n_ranks * sizeof *x->ranks))
            continue;
        uint32_t *first = &links[x - t->graph->groups];
        if (*first == 0) *first = x->id;
        links[y - t->graph->groups] = *first;
        any = true;
    }
    if (any) t->links = links;
    else syn_free(links);
    const bool made = order && links;
    syn_free(order);
    return made ? SYN_OK : SYN_FAIL_NOMEM(err, n * sizeof *links, "groups");
}

bool syn__timeline_shares(const syn__timeline *t, const syn_node *node, syn__stream_key *key) {
    if (!t->links || node->kind != SYN_NODE_COLLECTIVE || (node->flags & SYN_NODE_BLOCKING) != 0)
        return false;
    const syn_graph_group *group = syn_graph_group_by_id(t->graph, node->group);
    const uint32_t id = group ? t->links[group - t->graph->groups] : 0;
    *key = syn__stream_of_links(id);
    return id > 0;
}

static syn_status make(syn__timeline *out, const syn_graph *graph,
                       const syn_export_options *options, const syn_copied_ranks *copies, bool run,
                       syn_error *err) {
    memset(out, 0, sizeof *out);
    out->graph = graph;
    scan s = {.timeline = out, .err = err};
    syn__walk_init(&s.walk, graph);
    syn_status status = choose_ranks(out, options, copies, err);
    if (status == SYN_OK) status = make_spans(out, run, err);
    if (status == SYN_OK) status = scan_ranks(&s);
    if (status == SYN_OK) status = match_messages(&s);
    out->clock = s.measured    ? SYN__CLOCK_MEASURED
                 : s.predicted ? SYN__CLOCK_PREDICTED
                 : s.lasting   ? SYN__CLOCK_DURATIONS
                               : SYN__CLOCK_ORDER;
    if (status == SYN_OK) status = find_links(out, err);
    if (status == SYN_OK)
        status = s.measured && !run ? take_measured(&s) : syn__timeline_simulate(out, err);
    syn__walk_free(&s.walk);
    syn_free(s.sends.at);
    syn_free(s.recvs.at);
    if (status != SYN_OK) syn__timeline_free(out);
    return status;
}

syn_status syn__timeline_make(syn__timeline *out, const syn_graph *graph,
                              const syn_export_options *options, const syn_copied_ranks *copies,
                              syn_error *err) {
    return make(out, graph, options, copies, false, err);
}

syn_status syn__timeline_run(syn__timeline *out, const syn_graph *graph,
                             const syn_export_options *options, const syn_copied_ranks *copies,
                             syn_error *err) {
    return make(out, graph, options, copies, true, err);
}

void syn__timeline_free(syn__timeline *timeline) {
    syn_free(timeline->ranks);
    syn_free(timeline->place);
    syn_free(timeline->spans);
    syn_free(timeline->span_first);
    syn_free(timeline->messages);
    syn_free(timeline->courses);
    syn_free(timeline->meetings);
    syn_free(timeline->members);
    syn_free(timeline->links);
    memset(timeline, 0, sizeof *timeline);
}
