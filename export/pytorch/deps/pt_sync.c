/* Finds synchronization: calls that make the host wait for a device, or one stream wait for
   another.

   If the trace has cuda_sync events (torch.profiler's enable_cuda_sync_events), these events name
   the stream or the recorded event for which the call waited. Otherwise the runtime calls are
   interpreted:
   - A device-wide wait waits for the last work of every stream, and a blocking copy waits for
     itself.
   - If the host waits for a stream or an event, the trace does not name the stream. A wait for a
     stream is assumed to wait for the last work that the thread launched before the wait. A wait
     for an event is assumed to wait for the last work that the thread launched before its last
     cudaEventRecord.
   - After a cudaStreamWaitEvent, the thread's next launch is assumed to wait for the last work on
     the other streams of the device.

   An edge that contradicts the measured times is not added. */
#include "export/pytorch/deps/pt_edge_finders.h"
#include "export/pytorch/read/pt_events.h"
#include "export/pytorch/read/pt_sort.h"
#include "syntorch/base/memory.h"

#define CLOCK_SLACK_NS 1000 /* by how much the clocks of host and device may differ */
#define MAX_BACK       64   /* launches that are searched for one by the same thread */

typedef enum call {
    CALL_OTHER,
    CALL_DEVICE_SYNC,
    CALL_STREAM_SYNC,
    CALL_EVENT_SYNC,
    CALL_RECORD,
    CALL_WAIT_EVENT,
    CALL_COPY /* a copy that blocks */
} call;

typedef struct syncer {
    syn__pt_connector *c;
    const syn__pt_rank *r;
    uint8_t *calls;             /* per name id: 1 + its `call`; 0: not determined yet */
    syn__pt_map by_correlation; /* correlation id -> runtime event */
    uint8_t *settled;           /* per event: 1 if a cuda_sync event shows for what the call
                                   waited */
    uint32_t *launched;         /* device ops in launch order */
    int64_t *launched_ns;
    size_t n_launched;
    uint32_t *recorded; /* per host thread: its last cudaEventRecord so far */
    bool has_sync_events;
} syncer;

static call call_of(syncer *s, const syn__pt_event *e) {
    static const struct {
        const char *name;
        call what;
    } names[] = {{"DeviceSynchronize", CALL_DEVICE_SYNC},
                 {"CtxSynchronize", CALL_DEVICE_SYNC},
                 {"StreamSynchronize", CALL_STREAM_SYNC},
                 {"EventSynchronize", CALL_EVENT_SYNC},
                 {"EventRecord", CALL_RECORD},
                 {"EventRecordWithFlags", CALL_RECORD},
                 {"StreamWaitEvent", CALL_WAIT_EVENT},
                 {"Memcpy", CALL_COPY},
                 {"MemcpyWithStream", CALL_COPY},
                 {"MemcpyFromSymbol", CALL_COPY},
                 {"MemcpyToSymbol", CALL_COPY}};
    uint8_t *known = &s->calls[e->name];
    if (*known == 0) {
        syn__str name = syn__pt_device_name(&s->r->device, e->name);
        *known = CALL_OTHER + 1;
        const size_t skip = name.bytes > 4 && memcmp(name.text, "cuda", 4) == 0  ? 4
                            : name.bytes > 3 && memcmp(name.text, "hip", 3) == 0 ? 3
                            : name.bytes > 2 && memcmp(name.text, "cu", 2) == 0  ? 2
                                                                                 : name.bytes;
        name.text += skip;
        name.bytes -= skip;
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
            if (syn__str_is(name, names[i].name)) *known = (uint8_t)(names[i].what + 1);
    }
    return (call)(*known - 1);
}

static int64_t launch_ns(const syn__pt_rank *r, uint32_t op) {
    const uint32_t e = r->ops[op].launch;
    return e != SYN__PT_NONE ? r->device.events[e].ts_ns : r->ops[op].start_ns;
}

static syn_status list_launches(syncer *s) {
    const syn__pt_rank *r = s->r;
    uint64_t *keys = syn_malloc(r->n_ops * sizeof *keys);
    uint32_t *work = syn_malloc(r->n_ops * sizeof *work), *order = NULL;
    s->launched = syn_malloc(r->n_ops * sizeof *s->launched);
    s->launched_ns = syn_malloc(r->n_ops * sizeof *s->launched_ns);
    syn_status status = SYN_OK;
    if (!keys || !work || !s->launched || !s->launched_ns)
        status = SYN_FAIL_NOMEM(s->c->err, r->n_ops * sizeof *keys, "synchronisation");
    for (uint32_t i = 0; i < r->n_ops && status == SYN_OK; i++) {
        if (!syn__pt_is_device(&r->ops[i]) || r->ops[i].start_ns == SYN__PT_NO_NS) continue;
        keys[s->n_launched] = syn__pt_i64_key(launch_ns(r, i));
        work[s->n_launched++] = i;
    }
    if (status == SYN_OK) status = syn__pt_sort(keys, s->n_launched, &order, s->c->err);
    for (size_t i = 0; i < s->n_launched && status == SYN_OK; i++) {
        s->launched[i] = work[order[i]];
        s->launched_ns[i] = launch_ns(r, s->launched[i]);
    }
    syn_free(order);
    syn_free(work);
    syn_free(keys);
    return status;
}

/* The last op of a stream that was launched before `ns`; SYN__PT_NONE: none. */
static uint32_t last_launched(const syncer *s, size_t track, int64_t ns) {
    const uint32_t *ops = s->c->track_ops;
    size_t low = s->c->track_first[track], high = s->c->track_first[track + 1];
    const size_t first = low;
    while (low < high) { /* binary search, because a stream runs its work in launch order */
        const size_t mid = low + (high - low) / 2;
        if (launch_ns(s->r, ops[mid]) < ns) low = mid + 1;
        else high = mid;
    }
    return low > first ? ops[low - 1] : SYN__PT_NONE;
}

/* The first op of a stream that was launched at `ns` or later, or the first op of a thread that
   began at `ns` or later. */
static uint32_t next_in_track(const syncer *s, size_t track, int64_t ns) {
    const uint32_t *ops = s->c->track_ops;
    const bool device = s->r->tracks[track].device;
    size_t low = s->c->track_first[track], high = s->c->track_first[track + 1];
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        const int64_t at = device ? launch_ns(s->r, ops[mid]) : s->c->when[ops[mid]];
        if (at < ns) low = mid + 1;
        else high = mid;
    }
    return low < s->c->track_first[track + 1] ? ops[low] : SYN__PT_NONE;
}

static size_t first_launched_at(const syncer *s, int64_t ns) {
    size_t low = 0, high = s->n_launched;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (s->launched_ns[mid] < ns) low = mid + 1;
        else high = mid;
    }
    return low;
}

static bool same_thread(const syncer *s, uint32_t work, uint32_t op) {
    const uint32_t parent = s->r->ops[work].parent;
    return parent != SYN__PT_NONE && s->r->ops[parent].track == s->r->ops[op].track;
}

/* The last device work that the thread of `op` launched before `ns` or, if `next`, the first that
   it launched at `ns` or later. SYN__PT_NONE: not found. */
static uint32_t own_launch(const syncer *s, uint32_t op, int64_t ns, bool next) {
    size_t at = first_launched_at(s, ns);
    for (int tries = 0; tries < MAX_BACK; tries++, at += next) {
        if (next ? at >= s->n_launched : at-- == 0) break;
        if (same_thread(s, s->launched[at], op)) return s->launched[at];
    }
    return SYN__PT_NONE;
}

/* Adds an edge from `work` to the op with which the host continues after the call `e`, because the
   call ends only when `work` is done. */
static syn_status host_waits(syncer *s, uint32_t work, const syn__pt_event *e) {
    const uint32_t event = (uint32_t)(e - s->r->device.events), caller = s->r->event_op[event];
    const int64_t end = syn__pt_event_end(e);
    if (work == SYN__PT_NONE || caller == SYN__PT_NONE) return SYN_OK;
    if (syn__pt_op_end(&s->r->ops[work]) > end + CLOCK_SLACK_NS) return SYN_OK;
    return syn__pt_add_edge(s->c, work, next_in_track(s, s->r->ops[caller].track, end),
                            SYN_PYTORCH_EDGE_SYNC);
}

static syn_status host_waits_for_all(syncer *s, const syn__pt_event *e) {
    for (size_t track = 0; track < s->r->n_tracks; track++)
        if (s->r->tracks[track].device)
            SYN_TRY(host_waits(s, last_launched(s, track, e->ts_ns), e));
    return SYN_OK;
}

static syn_status work_waits(syncer *s, uint32_t from, uint32_t to) {
    if (from == SYN__PT_NONE || to == SYN__PT_NONE) return SYN_OK;
    if (s->r->ops[from].track == s->r->ops[to].track) return SYN_OK;
    if (syn__pt_op_end(&s->r->ops[from]) > s->r->ops[to].start_ns + CLOCK_SLACK_NS) return SYN_OK;
    return syn__pt_add_edge(s->c, from, to, SYN_PYTORCH_EDGE_SYNC);
}

/* ---- With cuda_sync events ---- */

static uint32_t find_track(const syncer *s, int32_t device, int64_t stream) {
    for (uint32_t i = 0; i < s->r->n_tracks; i++) {
        const syn__pt_track *l = &s->r->tracks[i];
        if (l->device && l->stream == stream && (l->device_id == device || device < 0)) return i;
    }
    return SYN__PT_NONE;
}

static uint32_t runtime_of(const syncer *s, int64_t correlation) {
    return correlation > 0 ? syn__pt_map_get(&s->by_correlation, (uint64_t)correlation)
                           : SYN__PT_NONE;
}

static int64_t argument(const syn__pt_event *e, const char *name) {
    const syn__str text = {e->text, e->text_bytes};
    const syn__str args = syn__loose_find(text, "args");
    int64_t v = -1;
    if (args.bytes > 0) (void)syn__loose_i64(syn__loose_find(args, name), &v);
    return v;
}

/* The last work that was launched before the call that recorded the event. */
static uint32_t recorded_work(const syncer *s, const syn__pt_event *sync) {
    const uint32_t record = runtime_of(s, argument(sync, "wait_on_cuda_event_record_corr_id"));
    const uint32_t track = find_track(s, sync->device, argument(sync, "wait_on_stream"));
    if (record == SYN__PT_NONE || track == SYN__PT_NONE) return SYN__PT_NONE;
    return last_launched(s, track, s->r->device.events[record].ts_ns);
}

static syn_status take_sync_event(syncer *s, const syn__pt_event *e) {
    const syn__str name = syn__pt_device_name(&s->r->device, e->name);
    const uint32_t at = runtime_of(s, e->correlation);
    if (at == SYN__PT_NONE) return SYN_OK;
    const syn__pt_event *call_event = &s->r->device.events[at];
    if (syn__str_begins(name, "Context Sync")) {
        s->settled[at] = 1;
        return host_waits_for_all(s, call_event);
    }
    if (syn__str_begins(name, "Stream Sync")) {
        const uint32_t track = find_track(s, e->device, e->stream);
        if (track == SYN__PT_NONE) return SYN_OK;
        s->settled[at] = 1;
        return host_waits(s, last_launched(s, track, call_event->ts_ns), call_event);
    }
    const uint32_t work = recorded_work(s, e);
    if (syn__str_begins(name, "Event Sync")) {
        s->settled[at] = work != SYN__PT_NONE;
        return host_waits(s, work, call_event);
    }
    if (!syn__str_begins(name, "Stream Wait")) return SYN_OK;
    s->settled[at] = 1;
    const uint32_t track = find_track(s, e->device, e->stream);
    if (track == SYN__PT_NONE) return SYN_OK;
    return work_waits(s, work, next_in_track(s, track, call_event->ts_ns));
}

/* ---- Without cuda_sync events ---- */

/* Adds edges that make the thread's next launch wait for the other streams of its device. */
static syn_status guess_wait(syncer *s, const syn__pt_event *e, uint32_t caller) {
    const uint32_t next = own_launch(s, caller, e->ts_ns, true);
    if (s->has_sync_events || next == SYN__PT_NONE) return SYN_OK;
    const syn__pt_track *own = &s->r->tracks[s->r->ops[next].track];
    for (size_t track = 0; track < s->r->n_tracks; track++) {
        const syn__pt_track *l = &s->r->tracks[track];
        if (l->device && l->device_id == own->device_id)
            SYN_TRY(work_waits(s, last_launched(s, track, e->ts_ns), next));
    }
    return SYN_OK;
}

static syn_status take_call(syncer *s, uint32_t event) {
    const syn__pt_event *e = &s->r->device.events[event];
    const uint32_t caller = s->r->event_op[event];
    const call what = call_of(s, e);
    if (what == CALL_OTHER || caller == SYN__PT_NONE) return SYN_OK;
    uint32_t *recorded = &s->recorded[s->r->ops[caller].track];
    if (what == CALL_RECORD) {
        *recorded = event;
        return SYN_OK;
    }
    if (s->settled[event]) return SYN_OK;
    if (what == CALL_DEVICE_SYNC) return host_waits_for_all(s, e);
    if (what == CALL_STREAM_SYNC) return host_waits(s, own_launch(s, caller, e->ts_ns, false), e);
    if (what == CALL_WAIT_EVENT) return guess_wait(s, e, caller);
    if (what != CALL_EVENT_SYNC || *recorded == SYN__PT_NONE) return SYN_OK;
    const int64_t then = s->r->device.events[*recorded].ts_ns;
    return host_waits(s, own_launch(s, caller, then, false), e);
}

static syn_status take_copies(syncer *s) {
    for (size_t i = 0; i < s->n_launched; i++) {
        const uint32_t launch = s->r->ops[s->launched[i]].launch;
        if (launch == SYN__PT_NONE) continue;
        const syn__pt_event *e = &s->r->device.events[launch];
        if (call_of(s, e) == CALL_COPY) SYN_TRY(host_waits(s, s->launched[i], e));
    }
    return SYN_OK;
}

static syn_status prepare(syncer *s) {
    const syn__pt_device *d = &s->r->device;
    s->calls = syn_calloc(d->names.n_entries, 1);
    s->settled = syn_calloc(d->n_events, 1);
    s->recorded = syn_malloc((s->r->n_tracks + 1) * sizeof *s->recorded);
    if (!s->calls || !s->settled || !s->recorded)
        return SYN_FAIL_NOMEM(s->c->err, d->n_events, "synchronisation");
    memset(s->recorded, 0xFF, (s->r->n_tracks + 1) * sizeof *s->recorded);
    for (uint32_t i = 0; i < d->n_events; i++) {
        const syn__pt_event *e = &d->events[i];
        s->has_sync_events = s->has_sync_events || e->class_ == SYN__PT_SYNC;
        if (e->class_ != SYN__PT_RUNTIME || e->correlation <= 0) continue;
        if (call_of(s, e) == CALL_OTHER) continue;
        uint32_t *at = syn__pt_map_put(&s->by_correlation, (uint64_t)e->correlation);
        if (!at) return SYN_FAIL_NOMEM(s->c->err, d->n_events * 16, "synchronisation");
        if (*at == SYN__PT_NONE) *at = i;
    }
    return list_launches(s);
}

static syn_status find_all(syncer *s) {
    const syn__pt_device *d = &s->r->device;
    SYN_TRY(prepare(s));
    for (size_t i = 0; i < d->n_events && s->has_sync_events; i++)
        if (d->events[i].class_ == SYN__PT_SYNC) SYN_TRY(take_sync_event(s, &d->events[i]));
    for (uint32_t i = 0; i < d->n_events; i++)
        if (d->events[i].class_ == SYN__PT_RUNTIME) SYN_TRY(take_call(s, i));
    return take_copies(s);
}

syn_status syn__pt_find_syncs(syn__pt_connector *c) {
    if (!syn__pt_wants(c, SYN_PYTORCH_EDGE_SYNC) || c->rank->device.n_events == 0) return SYN_OK;
    syncer s = {.c = c, .r = c->rank};
    const syn_status status = find_all(&s);
    syn__pt_map_free(&s.by_correlation);
    syn_free(s.calls);
    syn_free(s.settled);
    syn_free(s.recorded);
    syn_free(s.launched);
    syn_free(s.launched_ns);
    return status;
}
