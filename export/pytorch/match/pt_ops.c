/* Makes ops from host nodes and device events. Host nodes come in the order of their ids, each
   followed by the device work that it launched. Device work without a launcher comes last. Every
   parent comes before its children. */
#include "export/pytorch/match/pt_match_steps.h"
#include "export/pytorch/read/pt_events.h"
#include "export/pytorch/read/pt_notes.h"
#include "syntorch/base/memory.h"

#include <stdio.h>

#define MAX_TRACKS         ((size_t)1 << 24)
#define MAX_LIBRARY_TRACKS 256 /* maximum number of tracks (pt_rank.h) per thread of a library */

typedef struct maker {
    syn__pt_matcher *m;
    syn__pt_rank *rank;
    syn__pt_map host_tracks, library_tracks, device_tracks;
    int64_t *busy_until; /* per track: end of its last op, for tracks of libraries; other tracks:
                            INT64_MIN */
    size_t n_busy, busy_cap;
    uint32_t *roots; /* per track: the root op of the thread; SYN__PT_NONE: none */
    size_t roots_cap;
    uint32_t *node_op;      /* per host node */
    uint32_t *first, *work; /* device events, grouped by host node; events without a node are the
                               last group */
    uint32_t process_name, thread_name, process_op;
} maker;

static syn_status add_track(maker *k, const syn__pt_track *track, uint32_t *out) {
    syn__pt_rank *r = k->rank;
    if (r->n_tracks == MAX_TRACKS)
        return SYN_FAIL(k->m->err, SYN_E_UNSUPPORTED, "%.200s: more than %zu threads and streams",
                        r->host_input.name, MAX_TRACKS);
    SYN_TRY(syn_grow(&r->tracks, &r->tracks_cap, r->n_tracks + 1, sizeof *r->tracks, k->m->err));
    SYN_TRY(syn_grow(&k->roots, &k->roots_cap, r->n_tracks + 1, sizeof *k->roots, k->m->err));
    *out = (uint32_t)r->n_tracks;
    k->roots[*out] = SYN__PT_NONE;
    r->tracks[r->n_tracks++] = *track;
    return SYN_OK;
}

static syn_status track_of(maker *k, syn__pt_map *map, uint64_t key, const syn__pt_track *track,
                           uint32_t *out) {
    uint32_t *at = syn__pt_map_put(map, key);
    if (!at) return SYN_FAIL_NOMEM(k->m->err, map->n * 16, "threads and streams");
    if (*at == SYN__PT_NONE) SYN_TRY(add_track(k, track, at));
    *out = *at;
    return SYN_OK;
}

static syn_status host_track(maker *k, uint64_t tid, uint32_t *out) {
    const syn__pt_track track = {.tid = (uint32_t)tid, .device_id = -1, .stream = -1};
    return track_of(k, &k->host_tracks, tid, &track, out);
}

/* Finds the track of an op that runs concurrently with a thread. It is the track of the library's
   thread, which only the device trace knows. If ops of this thread overlap, they get additional
   tracks. */
static syn_status library_track(maker *k, uint32_t event, uint32_t *out) {
    const syn__pt_event *e = &k->rank->device.events[event];
    int64_t tid = 0;
    (void)syn__loose_i64(syn__pt_device_name(&k->rank->device, e->tid), &tid);
    const syn__pt_track track = {.tid = (uint32_t)tid, .device_id = -1, .stream = -1};
    for (uint64_t i = 0; i < MAX_LIBRARY_TRACKS; i++) {
        SYN_TRY(track_of(k, &k->library_tracks, i << 32 | e->tid, &track, out));
        SYN_TRY(syn_grow(&k->busy_until, &k->busy_cap, k->rank->n_tracks, sizeof *k->busy_until,
                         k->m->err));
        for (; k->n_busy < k->rank->n_tracks; k->n_busy++) k->busy_until[k->n_busy] = INT64_MIN;
        if (k->busy_until[*out] <= e->ts_ns) break;
    }
    k->busy_until[*out] = syn__pt_event_end(e);
    return SYN_OK;
}

static syn_status device_track(maker *k, const syn__pt_event *e, uint32_t *out) {
    const syn__pt_track track = {.device = true, .device_id = e->device, .stream = e->stream};
    const uint64_t key = ((uint64_t)(uint32_t)e->device << 32) ^ (uint64_t)e->stream;
    return track_of(k, &k->device_tracks, key, &track, out);
}

static syn_status add_op(maker *k, const syn__pt_op *op) {
    syn__pt_rank *r = k->rank;
    SYN_TRY(syn_grow(&r->ops, &r->ops_cap, r->n_ops + 1, sizeof *r->ops, k->m->err));
    r->ops[r->n_ops++] = *op;
    return SYN_OK;
}

static void take_times(syn__pt_op *op, const syn__pt_event *e) {
    if (e->flags & SYN__PT_EVENT_TS) op->start_ns = e->ts_ns;
    if (e->flags & SYN__PT_EVENT_DUR) op->wall_ns = e->dur_ns > 0 ? e->dur_ns : 0;
}

static const syn__pt_op blank = {.host = SYN__PT_NONE,
                                 .event = SYN__PT_NONE,
                                 .parent = SYN__PT_NONE,
                                 .comm = SYN__PT_NONE,
                                 .around = SYN__PT_NONE,
                                 .launch = SYN__PT_NONE,
                                 .start_ns = SYN__PT_NO_NS,
                                 .wall_ns = SYN__PT_NO_NS};

/* ---- Host ops ---- */

static bool is_root(const maker *k, uint32_t node) {
    const uint32_t name = k->rank->host.nodes[node].name;
    return name == k->process_name || name == k->thread_name;
}

/* Sets the parent of an op. If the parent of its node is in the same thread or is a root, and the
   op is not detached, the op of that node becomes the parent. Otherwise it is the root of the
   thread or, if there is none, the root of the process. */
static void set_parent(maker *k, uint32_t node, syn__pt_op *op) {
    const uint32_t p = k->m->parent[node];
    const uint32_t root = k->roots[op->track];
    if (p != SYN__PT_NONE && !k->m->detached[node]) {
        const uint32_t parent = k->node_op[p];
        if (is_root(k, p) || k->rank->ops[parent].track == op->track) {
            op->parent = parent;
            return;
        }
        syn__pt_note_host(k->m->rank, k->m->notes, SYN_PYTORCH_ANOMALY_FOREIGN_PARENT, node);
    }
    op->parent = root != SYN__PT_NONE ? root : k->process_op;
}

static syn_status add_host(maker *k, uint32_t node) {
    syn__pt_rank *r = k->rank;
    const syn__pt_host_node *n = &r->host.nodes[node];
    const uint32_t event = k->m->node_event[node], p = k->m->parent[node];
    const uint32_t index = (uint32_t)r->n_ops;
    syn__pt_op op = blank;
    op.host = node;
    op.event = event;
    op.kind = syn__pt_describes_groups(syn__pt_host_name(&r->host, n->name))
                  ? SYN_PYTORCH_OP_METADATA
                  : SYN_PYTORCH_OP_HOST;
    op.self_ns = k->m->self_ns[node];
    const uint32_t around = k->m->around[node];
    if (p == SYN__PT_NONE && around != SYN__PT_NONE && k->m->place[around] < k->m->place[node])
        op.around = k->node_op[around];
    if (event != SYN__PT_NONE) take_times(&op, &r->device.events[event]);
    if (k->m->detached[node]) SYN_TRY(library_track(k, event, &op.track));
    else if (!(n->has & SYN__PT_HAS_TID) && p != SYN__PT_NONE)
        op.track = r->ops[k->node_op[p]].track;
    else SYN_TRY(host_track(k, n->has & SYN__PT_HAS_TID ? n->tid : 0, &op.track));
    if (n->name == k->process_name && k->process_op == SYN__PT_NONE) {
        k->process_op = index;
        SYN_TRY(add_op(k, &op));
    } else {
        set_parent(k, node, &op);
        if (n->name == k->thread_name && k->roots[op.track] == SYN__PT_NONE)
            k->roots[op.track] = index;
        SYN_TRY(add_op(k, &op));
    }
    k->node_op[node] = index;
    return SYN_OK;
}

/* ---- Device ops ---- */

static syn_status add_work(maker *k, uint32_t event) {
    syn__pt_rank *r = k->rank;
    const syn__pt_event *e = &r->device.events[event];
    const uint32_t node = k->m->event_node[event];
    syn__pt_op op = blank;
    op.event = event;
    op.host = node;
    op.launch = k->m->launch[event];
    op.by_time = k->m->guessed[event];
    op.kind = e->class_ == SYN__PT_KERNEL   ? SYN_PYTORCH_OP_KERNEL
              : e->class_ == SYN__PT_MEMCPY ? SYN_PYTORCH_OP_MEMCPY
                                            : SYN_PYTORCH_OP_MEMSET;
    if (node != SYN__PT_NONE) op.parent = k->node_op[node];
    take_times(&op, e);
    op.self_ns = op.wall_ns == SYN__PT_NO_NS ? 0 : op.wall_ns;
    SYN_TRY(device_track(k, e, &op.track));
    r->event_op[event] = (uint32_t)r->n_ops;
    return add_op(k, &op);
}

/* Groups device events by the node that launched them. Events without a node are the last group. */
static syn_status group_work(maker *k) {
    const syn__pt_device *d = &k->rank->device;
    const size_t n_nodes = k->rank->host.n_nodes;
    k->first = syn_calloc(n_nodes + 2, sizeof *k->first);
    k->work = syn_malloc(d->n_events * sizeof *k->work);
    if (!k->first || !k->work)
        return SYN_FAIL_NOMEM(k->m->err, (n_nodes + d->n_events) * 4, "device work");
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < d->n_events; i++) {
            if (!syn__pt_is_gpu(&d->events[i])) continue;
            const uint32_t node = k->m->event_node[i];
            const size_t slot = node == SYN__PT_NONE ? n_nodes : node;
            if (pass == 0) k->first[slot + 1]++;
            else k->work[k->first[slot]++] = i;
        }
        if (pass == 0)
            for (size_t s = 0; s <= n_nodes; s++) k->first[s + 1] += k->first[s];
    }
    return SYN_OK; /* first[s] is now the end of group s */
}

static syn_status add_slice(maker *k, size_t slot) {
    for (uint32_t i = slot > 0 ? k->first[slot - 1] : 0; i < k->first[slot]; i++)
        SYN_TRY(add_work(k, k->work[i]));
    return SYN_OK;
}

/* ---- The whole rank ---- */

/* The id of the name "[pytorch|profiler|execution_trace|ENDING]". Until schema 1.0.1 the name has
   "execution_graph" instead. */
static uint32_t find_root(const maker *k, const char *suffix) {
    static const char *const kinds[] = {"trace", "graph"};
    const syn_intern *names = &k->rank->host.names;
    char text[64];
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        snprintf(text, sizeof text, "[pytorch|profiler|execution_%s|%s]", kinds[i], suffix);
        for (uint32_t name = 0; name < names->n_entries; name++)
            if (syn__str_is(syn__pt_host_name(&k->rank->host, name), text)) return name;
    }
    return SYN__PT_NONE;
}

static bool has_process(const maker *k) {
    const syn__pt_host *h = &k->rank->host;
    for (size_t i = 0; i < h->n_nodes; i++)
        if (h->nodes[i].name == k->process_name) return true;
    return false;
}

/* Adds the calls whose parent has a later id to the dropped edges, which the report lists. */
static syn_status list_late_parents(maker *k) {
    syn__pt_rank *r = k->rank;
    for (size_t i = 0; i < k->m->n_late; i++) {
        const uint32_t node = k->m->late[i];
        const uint32_t parent = syn__pt_map_get(&k->m->by_id, r->host.nodes[node].parent);
        const syn__pt_edge e = {k->node_op[parent], k->node_op[node], SYN_PYTORCH_EDGE_CALL};
        SYN_TRY(syn_grow(&r->dropped, &r->dropped_cap, r->n_dropped + 1, sizeof e, k->m->err));
        r->dropped[r->n_dropped++] = e;
    }
    return SYN_OK;
}

static syn_status make(maker *k) {
    syn__pt_rank *r = k->rank;
    const size_t n_nodes = r->host.n_nodes, n_events = r->device.n_events;
    k->process_name = find_root(k, "process");
    k->thread_name = find_root(k, "thread");
    k->node_op = syn_malloc(n_nodes * sizeof *k->node_op);
    r->event_op = syn_malloc((n_events ? n_events : 1) * sizeof *r->event_op);
    if (!k->node_op || !r->event_op)
        return SYN_FAIL_NOMEM(k->m->err, (n_nodes + n_events) * 4, "ops");
    SYN_TRY(group_work(k));
    SYN_TRY(syn_grow(&r->ops, &r->ops_cap, n_nodes + r->matches.device_events + 1, sizeof *r->ops,
                     k->m->err));
    if (!has_process(k)) {
        syn__pt_op op = blank;
        if (!r->host.from_event)
            syn__pt_note_at(k->m->notes, SYN_PYTORCH_ANOMALY_NO_ROOT, r->host_input.name,
                            SYN_PYTORCH_NO_PLACE, 1);
        SYN_TRY(host_track(k, 0, &op.track));
        k->process_op = 0;
        SYN_TRY(add_op(k, &op));
    }
    for (size_t i = 0; i < n_nodes; i++) {
        SYN_TRY(add_host(k, k->m->order[i]));
        SYN_TRY(add_slice(k, k->m->order[i]));
    }
    SYN_TRY(add_slice(k, n_nodes));
    for (uint32_t i = 0; i < n_events; i++) {
        const uint32_t node = k->m->event_node[i];
        if (syn__pt_is_gpu(&r->device.events[i])) continue;
        r->event_op[i] = node == SYN__PT_NONE ? SYN__PT_NONE : k->node_op[node];
    }
    return list_late_parents(k);
}

syn_status syn__pt_make_ops(syn__pt_matcher *m) {
    maker k = {.m = m, .rank = m->rank, .process_op = SYN__PT_NONE};
    const syn_status s = make(&k);
    syn__pt_map_free(&k.host_tracks);
    syn__pt_map_free(&k.library_tracks);
    syn_free(k.busy_until);
    syn_free(k.roots);
    syn__pt_map_free(&k.device_tracks);
    syn_free(k.node_op);
    syn_free(k.first);
    syn_free(k.work);
    return s;
}
