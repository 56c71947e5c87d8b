/* Finds the critical path of PyTorch traces; see critical.h. */
#include "export/walk/critical.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "export/walk/timeline_tracks.h"
#include "syntorch/base/memory.h"

/* The bit of a lane's number that is set if the lane is a stream. The bits above it are the rank,
   and the bits below it are the number of the stream or thread. */
#define DEVICE_BIT     39
#define WAKE_NS        1e6 /* default of the conversion's --thread_gap */
#define STREAM_WAIT_NS 2e4 /* usual gaps before a kernel are shorter */

uint64_t syn__critical_track(uint32_t rank, bool is_device, uint64_t device, uint64_t number) {
    return ((uint64_t)rank << 1 | is_device) << DEVICE_BIT | (device & 0x7f) << 32 |
           (number & 0xffffffff);
}

/* ---- Segments: which op is innermost on a lane, over time ---- */

typedef struct segment {
    double begin_ns, end_ns;
    uint64_t track;
    uint32_t op;
} segment;

typedef struct segments {
    segment *at; /* ordered by lane, then time; segments of a lane do not overlap */
    size_t n, cap;
    size_t *tracks; /* first segment of each lane */
    size_t n_tracks, tracks_cap;
    segment *open; /* while segments are made: stack of open ops, innermost last */
    size_t n_open, open_cap;
} segments;

static int compare_segments(const void *a, const void *b) {
    const segment *x = a, *y = b;
    if (x->track != y->track) return x->track < y->track ? -1 : 1;
    if (x->begin_ns != y->begin_ns) return x->begin_ns < y->begin_ns ? -1 : 1;
    if (x->end_ns != y->end_ns) return x->end_ns > y->end_ns ? -1 : 1;
    return x->op < y->op ? -1 : x->op > y->op;
}

/* Closes the open ops that end by until_ns, and adds a segment for each op that was innermost for a
   time. The innermost op that remains open runs until until_ns. */
static syn_status close_open(segments *s, double *now_ns, double until_ns, syn_error *err) {
    while (s->n_open > 0) {
        const segment *top = &s->open[s->n_open - 1];
        const double end_ns = fmin(top->end_ns, until_ns);
        if (end_ns > *now_ns) {
            SYN_TRY(syn_grow(&s->at, &s->cap, s->n + 1, sizeof *s->at, err));
            s->at[s->n++] = (segment){*now_ns, end_ns, top->track, top->op};
            *now_ns = end_ns;
        }
        if (top->end_ns > until_ns) return SYN_OK;
        s->n_open--;
    }
    return SYN_OK;
}

/* Makes the segments from ops that are sorted by lane and time. */
static syn_status cut_segments(segments *s, const segment *ops, size_t n, syn_error *err) {
    double now_ns = 0;
    for (size_t i = 0; i < n; i++) {
        const bool new_track = i == 0 || ops[i].track != ops[i - 1].track;
        SYN_TRY(close_open(s, &now_ns, new_track ? INFINITY : ops[i].begin_ns, err));
        now_ns = ops[i].begin_ns;
        SYN_TRY(syn_grow(&s->open, &s->open_cap, s->n_open + 1, sizeof *s->open, err));
        s->open[s->n_open++] = ops[i];
    }
    return close_open(s, &now_ns, INFINITY, err);
}

static syn_status list_tracks(segments *s, syn_error *err) {
    for (size_t i = 0; i < s->n; i++) {
        if (i > 0 && s->at[i].track == s->at[i - 1].track) continue;
        SYN_TRY(syn_grow(&s->tracks, &s->tracks_cap, s->n_tracks + 1, sizeof *s->tracks, err));
        s->tracks[s->n_tracks++] = i;
    }
    return SYN_OK;
}

static syn_status make_segments(segments *s, const syn__critical_op *ops, uint32_t n,
                                syn_error *err) {
    segment *all = syn_malloc(((size_t)n + 1) * sizeof *all);
    size_t n_all = 0;
    if (!all) return SYN_FAIL_NOMEM(err, n * sizeof *all, "the critical path");
    for (uint32_t i = 0; i < n; i++)
        if (!ops[i].is_range && ops[i].end_ns > ops[i].begin_ns)
            all[n_all++] = (segment){ops[i].begin_ns, ops[i].end_ns, ops[i].track, i};
    qsort(all, n_all, sizeof *all, compare_segments);
    syn_status status = cut_segments(s, all, n_all, err);
    syn_free(all);
    if (status == SYN_OK) status = list_tracks(s, err);
    return status;
}

static void free_segments(segments *s) {
    syn_free(s->at);
    syn_free(s->open);
    syn_free(s->tracks);
}

/* ---- The walk ---- */

typedef struct walk {
    const syn__critical_op *ops;
    const uint32_t *first_dep, *deps;
    segments segments;
    double *path_ns;
    uint64_t track; /* lane on which the path currently is */
    double now_ns;  /* the path is known from this time to the end */
    double late_ns; /* the value that now_ns had when the path last moved to another rank without
                       changing now_ns; -1: it never did */
} walk;

/* Returns the last segment of the lane that begins before `ns`; NULL if there is none. */
static const segment *segment_before(const walk *w, uint64_t track, double ns) {
    size_t low = 0, high = w->segments.n;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        const segment *s = &w->segments.at[mid];
        if (s->track < track || (s->track == track && s->begin_ns < ns)) low = mid + 1;
        else high = mid;
    }
    if (low == 0 || w->segments.at[low - 1].track != track) return NULL;
    return &w->segments.at[low - 1];
}

/* Returns the time until which a dependency on another lane kept the op from starting; -1 if it did
   not delay the start. may_run: see last_release. */
static double release_ns(const syn__critical_op *op, const syn__critical_op *dep, bool may_run) {
    if (dep->is_range || dep->track == op->track || dep->begin_ns >= op->begin_ns) return -1;
    if (dep->end_ns <= op->begin_ns) return dep->end_ns;
    return may_run ? op->begin_ns : -1;
}

/* Finds the dependency on another lane that released the op last. may_run: the dependency may still
   be running when the op starts, because it is the launch of a kernel or communication, or the
   caller of a thread's first op. */
static const syn__critical_op *last_release(const walk *w, uint32_t at, bool may_run, double *ns) {
    const syn__critical_op *last = NULL;
    *ns = -1;
    for (uint32_t k = w->first_dep[at]; k < w->first_dep[at + 1]; k++) {
        const syn__critical_op *dep = &w->ops[w->deps[k]];
        const double released_ns = release_ns(&w->ops[at], dep, may_run);
        if (released_ns <= *ns) continue;
        *ns = released_ns;
        last = dep;
    }
    return last;
}

/* Returns the index of the first lane whose number is not less than `lane`. The lanes are sorted by
   number. */
static size_t first_track(const segments *s, uint64_t track) {
    size_t low = 0, high = s->n_tracks;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (s->at[s->tracks[mid]].track < track) low = mid + 1;
        else high = mid;
    }
    return low;
}

/* Returns the segment that ended last before the op began, among the rank's other threads (for a
   host op) or other streams (for device work). NULL if none of them ended after after_ns. */
static const segment *last_elsewhere(const walk *w, const syn__critical_op *op, double after_ns) {
    const segments *s = &w->segments;
    const uint64_t kind = op->track >> DEVICE_BIT; /* threads of the rank, or streams of the rank */
    const segment *last = NULL;
    for (size_t i = first_track(s, kind << DEVICE_BIT); i < s->n_tracks; i++) {
        const segment *first = &s->at[s->tracks[i]];
        if (first->track >> DEVICE_BIT != kind) break;
        if (first->track == op->track) continue;
        const segment *one = segment_before(w, first->track, op->begin_ns);
        if (one && one->end_ns > op->begin_ns) one = one > first ? one - 1 : NULL;
        if (one && one->end_ns > after_ns && (!last || one->end_ns > last->end_ns)) last = one;
    }
    return last;
}

/* Continues the path on another thread or stream if the op's own was idle. A thread that was idle
   for long was woken up by another thread, and an idle stream waited for an event of another
   stream. PyTorch traces may not record which one, so the one that finished an op last is chosen.
   Returns false if the op's thread or stream was not idle, or if no other one ran in that time. */
static bool woken(walk *w, const syn__critical_op *op, double idle_since_ns) {
    if (op->begin_ns - idle_since_ns <= (op->is_device ? STREAM_WAIT_NS : WAKE_NS)) return false;
    const segment *last = last_elsewhere(w, op, idle_since_ns);
    if (!last) return false;
    w->track = last->track;
    w->now_ns = fmin(w->now_ns, last->end_ns);
    return true;
}

/* Moves the path from the start of an op to what came before it. Returns false if the path begins
   at the op. */
static bool leave(walk *w, uint32_t at) {
    const syn__critical_op *op = &w->ops[at];
    const segment *before = segment_before(w, op->track, op->begin_ns);
    double ns;
    const syn__critical_op *dep = last_release(w, at, op->is_device || op->is_comm || !before, &ns);
    w->track = op->track;
    if (woken(w, op, fmax(before ? before->end_ns : 0, ns))) return true;
    if (!dep) return before != NULL;
    const double ended_ns = before ? before->end_ns : -1;
    const bool called = before && !op->is_device && (dep->is_device || dep->is_comm);
    if (ns <= (called ? before->begin_ns : ended_ns)) return true;
    if (called && ns < ended_ns) w->path_ns[before->op] += ended_ns - ns; /* after the wait */
    w->track = dep->track;
    w->now_ns = fmin(w->now_ns, ns);
    return true;
}

/* Handles a host op that waited while it ran: continues the path with the kernel or communication
   that the op depends on and that ended last within the segment. Returns false if there is none. */
static bool waited_within(walk *w, const segment *s) {
    const syn__critical_op *op = &w->ops[s->op], *last = NULL;
    for (uint32_t k = w->first_dep[s->op]; k < w->first_dep[s->op + 1] && !op->is_device; k++) {
        const syn__critical_op *dep = &w->ops[w->deps[k]];
        const bool waits = (dep->is_device || dep->is_comm) && dep->track != op->track &&
                           dep->end_ns > s->begin_ns && dep->end_ns < w->now_ns;
        if (waits && (!last || dep->end_ns > last->end_ns)) last = dep;
    }
    if (!last) return false;
    w->path_ns[s->op] += w->now_ns - last->end_ns;
    w->track = last->track;
    w->now_ns = last->end_ns;
    return true;
}

/* Returns the start of the op of another rank for which this segment's op waited; -1 if it did not
   wait. If a message was received before it was sent, because the ranks' clocks differ, returns
   now_ns, the latest time that is possible. */
static double came_ns(const walk *w, const segment *s) {
    const syn__critical_op *op = &w->ops[s->op];
    if (op->last_member == SYN_NO_NODE || op->last_member == s->op) return -1;
    const double ns = w->ops[op->last_member].begin_ns;
    if (ns <= s->begin_ns) return -1;
    if (ns < w->now_ns) return ns;
    return op->is_receive && w->now_ns != w->late_ns ? w->now_ns : -1;
}

/* If the op of the segment waited for another rank, continues the path there. Returns false
   otherwise. */
static bool waited_for_rank(walk *w, const segment *s) {
    const double ns = came_ns(w, s);
    if (ns < 0) return false;
    /* The path may move to another rank without going back in time only once for each value of
       now_ns; otherwise it could loop forever. */
    if (ns == w->now_ns) w->late_ns = ns;
    w->path_ns[s->op] += w->now_ns - ns;
    w->now_ns = ns;
    return true;
}

static void go_back(walk *w) {
    for (const segment *s; (s = segment_before(w, w->track, w->now_ns)) != NULL;) {
        if (s->end_ns < w->now_ns) w->now_ns = s->end_ns;
        if (waited_for_rank(w, s)) {
            if (!leave(w, w->ops[s->op].last_member)) return;
            continue;
        }
        if (waited_within(w, s)) continue;
        w->path_ns[s->op] += w->now_ns - s->begin_ns;
        w->now_ns = s->begin_ns;
        if (s->begin_ns <= w->ops[s->op].begin_ns && !leave(w, s->op)) return;
    }
}

syn_status syn__critical_find(double *path_ns, const syn__critical_op *ops, uint32_t n,
                              const uint32_t *first_dep, const uint32_t *deps, syn_error *err) {
    walk w = {.ops = ops, .first_dep = first_dep, .deps = deps, .path_ns = path_ns, .late_ns = -1};
    const segment *last = NULL;
    memset(path_ns, 0, n * sizeof *path_ns);
    const syn_status status = make_segments(&w.segments, ops, n, err);
    for (size_t i = 0; i < w.segments.n && status == SYN_OK; i++)
        if (!last || w.segments.at[i].end_ns > last->end_ns) last = &w.segments.at[i];
    if (last && status == SYN_OK) {
        w.track = last->track;
        w.now_ns = last->end_ns;
        go_back(&w);
    }
    free_segments(&w.segments);
    return status;
}

/* ---- Graphs ---- */

/* A rank's op of a collective, and the number of the collective within its group. */
typedef struct member {
    uint32_t group, number;
    uint32_t op;
} member;

/* A rank's send or receive. A channel is a sender, a receiver and a tag; its k-th receive matches
   its k-th send. */
typedef struct message {
    int32_t from, to, tag;
    uint32_t op;
} message;

typedef struct messages {
    message *at;
    size_t n, cap;
} messages;

typedef struct collector {
    syn__walk walk;
    syn__critical_op *ops;
    uint32_t *first_dep, *deps;
    uint32_t n, first_of_rank; /* number of ops so far; first op of the current rank */
    size_t n_deps, deps_cap;
    member *members;
    size_t n_members, members_cap;
    messages sends, receives;
    bool has_times;
    syn_status status;
    syn_error *err;
} collector;

static void add_dep(void *arg, uint32_t from, uint32_t classes) {
    collector *c = arg;
    (void)classes;
    if (c->status != SYN_OK) return;
    c->status = syn_grow(&c->deps, &c->deps_cap, c->n_deps + 1, sizeof *c->deps, c->err);
    if (c->status == SYN_OK) c->deps[c->n_deps++] = c->first_of_rank + from;
}

/* Returns the value of an integer attribute; 0 if the value is negative or the node does not have
   the attribute. */
static uint64_t number_of(const syn_node *node, const char *name) {
    for (uint32_t i = 0; i < node->n_attributes; i++) {
        const syn_attribute *a = &node->attributes[i];
        if (a->type == SYN_VALUE_I64 && strcmp(a->name, name) == 0)
            return a->i64 < 0 ? 0 : (uint64_t)a->i64;
    }
    return 0;
}

static syn__critical_op op_of(const syn_node *node, uint32_t rank) {
    syn__host_op host;
    syn__critical_op op = {.last_member = SYN_NO_NODE, .is_comm = syn__walk_is_comm(node)};
    op.is_device = !syn__is_host_op(node, &host);
    op.is_range = !op.is_device && syn__walk_is_idle_range(node);
    op.track = syn__critical_track(rank, op.is_device, op.is_device ? number_of(node, "device") : 0,
                                   op.is_device ? number_of(node, "stream") : (uint64_t)host.tid);
    if (node->start_ns == SYN_NO_TIME || !(node->start_ns >= 0)) return op;
    const double ns = op.is_device ? node->wall_ns : 1e3 * (double)host.inclusive_us;
    op.begin_ns = op.end_ns = fmin(node->start_ns, SYN__MAX_NS);
    if (ns > 0) op.end_ns += fmin(ns, SYN__MAX_NS);
    return op;
}

static bool is_launched(const syn_node *node) {
    for (uint32_t i = 0; i < node->n_deps; i++)
        if (node->deps[i].dep_class == SYN_DEP_LAUNCH) return true;
    return false;
}

static syn_status add_message(collector *c, const syn_node *node, int32_t rank, uint32_t op,
                              syn_error *err) {
    const bool send = node->kind == SYN_NODE_SEND;
    messages *list = send ? &c->sends : &c->receives;
    /* Messages that a thread launched but did not run itself do not wait for each other, so each
       gets its own lane. */
    if (!c->ops[op].is_device && is_launched(node))
        c->ops[op].track = syn__critical_track(c->walk.rank_index, false, 1, op);
    if (node->peer < 0) return SYN_OK;
    SYN_TRY(syn_grow(&list->at, &list->cap, list->n + 1, sizeof *list->at, err));
    list->at[list->n++] =
        (message){send ? rank : node->peer, send ? node->peer : rank, node->tag, op};
    return SYN_OK;
}

static syn_status add_node(collector *c, uint32_t rank, uint32_t index, syn_error *err) {
    const syn_node *node;
    SYN_TRY(syn__walk_node(&c->walk, index, &node, err));
    const uint32_t at = c->n++;
    c->ops[at] = op_of(node, rank);
    c->has_times = c->has_times || c->ops[at].end_ns > c->ops[at].begin_ns;
    c->first_dep[at] = (uint32_t)c->n_deps;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (c->walk.producers[node->inputs[i]] != SYN_NO_NODE)
            add_dep(c, c->walk.producers[node->inputs[i]], 0);
    if (node->kind == SYN_NODE_COLLECTIVE && node->group != 0 && c->status == SYN_OK) {
        SYN_TRY(syn_grow(&c->members, &c->members_cap, c->n_members + 1, sizeof *c->members, err));
        c->members[c->n_members++] = (member){node->group, (uint32_t)node->comm_index, at};
    }
    if (node->kind == SYN_NODE_SEND || node->kind == SYN_NODE_RECV)
        SYN_TRY(add_message(c, node, c->walk.graph->ranks[rank].rank, at, err));
    SYN_TRY(c->status);
    SYN_TRY(syn__walk_deps(&c->walk, node, add_dep, c, err));
    return c->status;
}

static int compare_members(const void *a, const void *b) {
    const member *x = a, *y = b;
    if (x->group != y->group) return x->group < y->group ? -1 : 1;
    if (x->number != y->number) return x->number < y->number ? -1 : 1;
    return x->op < y->op ? -1 : x->op > y->op;
}

/* Sets last_member of each op of a collective to the op that began last. */
static void join_members(collector *c) {
    if (c->n_members > 0) qsort(c->members, c->n_members, sizeof *c->members, compare_members);
    for (size_t first = 0, end; first < c->n_members; first = end) {
        const member *m = &c->members[first];
        uint32_t last = m->op;
        for (end = first; end < c->n_members && c->members[end].group == m->group &&
                          c->members[end].number == m->number;
             end++)
            if (c->ops[c->members[end].op].begin_ns > c->ops[last].begin_ns)
                last = c->members[end].op;
        for (size_t i = first; i < end; i++) c->ops[c->members[i].op].last_member = last;
    }
}

static int compare_channels(const message *x, const message *y) {
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    if (x->to != y->to) return x->to < y->to ? -1 : 1;
    if (x->tag != y->tag) return x->tag < y->tag ? -1 : 1;
    return 0;
}

static int compare_messages(const void *a, const void *b) {
    const message *x = a, *y = b;
    const int channel = compare_channels(x, y);
    if (channel != 0) return channel;
    return x->op < y->op ? -1 : x->op > y->op;
}

/* Sets last_member of both ops of a message to the op that began last. The message is complete when
   the first of them ends; the other op may be recorded as running until the program waited for
   it. */
static void join_ends(syn__critical_op *ops, uint32_t send, uint32_t receive) {
    syn__critical_op *s = &ops[send], *r = &ops[receive];
    const double begin_ns = fmax(s->begin_ns, r->begin_ns), end_ns = fmin(s->end_ns, r->end_ns);
    r->is_receive = true;
    s->last_member = r->last_member = s->begin_ns > r->begin_ns ? send : receive;
    if (end_ns > begin_ns) s->end_ns = r->end_ns = end_ns;
}

static void join_messages(collector *c) {
    messages *s = &c->sends, *r = &c->receives;
    if (s->n == 0 || r->n == 0) return;
    qsort(s->at, s->n, sizeof *s->at, compare_messages);
    qsort(r->at, r->n, sizeof *r->at, compare_messages);
    for (size_t i = 0, k = 0; i < s->n && k < r->n;) {
        const message *send = &s->at[i], *receive = &r->at[k];
        const int channel = compare_channels(send, receive);
        if (channel == 0) join_ends(c->ops, send->op, receive->op);
        if (channel <= 0) i++;
        if (channel >= 0) k++;
    }
}

static syn_status collect(collector *c, const syn_graph *graph, syn_error *err) {
    size_t n = 0;
    for (uint32_t r = 0; r < graph->n_ranks; r++) n += graph->ranks[r].n_nodes;
    c->ops = syn_malloc((n + 1) * sizeof *c->ops);
    c->first_dep = syn_malloc((n + 1) * sizeof *c->first_dep);
    if (!c->ops || !c->first_dep)
        return SYN_FAIL_NOMEM(err, n * sizeof *c->ops, "the critical path");
    for (uint32_t r = 0; r < graph->n_ranks; r++) {
        SYN_TRY(syn__walk_load(&c->walk, r, err));
        c->first_of_rank = c->n;
        for (uint32_t i = 0; i < graph->ranks[r].n_nodes; i++) SYN_TRY(add_node(c, r, i, err));
    }
    c->first_dep[c->n] = (uint32_t)c->n_deps;
    join_members(c);
    join_messages(c);
    return SYN_OK;
}

syn_status syn__critical_of_graph(double **path_ns, const syn_graph *graph, syn_error *err) {
    collector c = {.err = err};
    *path_ns = NULL;
    if (!syn__walk_is_foreign(graph)) return SYN_OK;
    syn__walk_init(&c.walk, graph);
    syn_status s = collect(&c, graph, err);
    double *ns = s == SYN_OK && c.has_times ? syn_malloc(((size_t)c.n + 1) * sizeof *ns) : NULL;
    if (s == SYN_OK && c.has_times && !ns)
        s = SYN_FAIL_NOMEM(err, c.n * sizeof *ns, "the critical path");
    if (ns && s == SYN_OK) s = syn__critical_find(ns, c.ops, c.n, c.first_dep, c.deps, err);
    if (s == SYN_OK) *path_ns = ns;
    else syn_free(ns);
    syn__walk_free(&c.walk);
    syn_free(c.ops);
    syn_free(c.first_dep);
    syn_free(c.deps);
    syn_free(c.members);
    syn_free(c.sends.at);
    syn_free(c.receives.at);
    return s;
}
