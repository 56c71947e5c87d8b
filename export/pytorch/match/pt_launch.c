/* Finds out which host op ran when, and which op launched which device work. One sweep over the CPU
   ops of each thread gives the own time of each op, and the caller of each runtime call. Device
   work then finds the op that launched it by correlation id; if that fails, by External id; and if
   that fails, too, by time. */
#include "export/pytorch/match/pt_match_steps.h"
#include "export/pytorch/read/pt_events.h"
#include "syntorch/base/memory.h"

#define MAX_TRIES 16 /* maximum number of candidates if ids are not unique */
#define MAX_OUTER 64 /* maximum number of enclosing ops searched for an External id */

/* An op of a thread that is running. */
typedef struct frame {
    int64_t end_ns;
    uint32_t event;
    uint32_t node; /* its host node; if it has none, the host node of the enclosing op;
                      SYN__PT_NONE: none */
} frame;

typedef struct sweep {
    syn__pt_matcher *m;
    frame *stack;
    size_t depth, stack_cap;
    int64_t now_ns;     /* all time up to this moment was attributed to ops */
    uint32_t last_node; /* host node of the thread's last op that has one */
} sweep;

static void credit(sweep *s, int64_t until_ns) {
    const uint32_t node = s->stack[s->depth - 1].node;
    if (until_ns <= s->now_ns) return;
    if (node != SYN__PT_NONE) s->m->self_ns[node] += until_ns - s->now_ns;
    s->now_ns = until_ns;
}

/* Advances the time to `to_ns` and removes ops that have ended. If ops overlap partly, the time
   belongs to the op that began last. */
static void advance(sweep *s, int64_t to_ns) {
    while (s->depth > 0 && s->stack[s->depth - 1].end_ns <= to_ns) {
        credit(s, s->stack[s->depth - 1].end_ns);
        s->depth--;
    }
    if (s->depth > 0) credit(s, to_ns);
    if (s->now_ns < to_ns) s->now_ns = to_ns;
}

static syn_status push(sweep *s, uint32_t event) {
    const syn__pt_event *e = &s->m->rank->device.events[event];
    uint32_t node = s->m->event_node[event];
    if (s->depth > 0) {
        const frame *outer = &s->stack[s->depth - 1];
        const bool longer = outer->end_ns < syn__pt_event_end(e);
        if (node != SYN__PT_NONE &&
            syn__pt_runs_concurrently(&s->m->rank->device, e, outer->end_ns)) {
            s->m->detached[node] = true;
            s->m->around[node] = outer->node;
            s->m->self_ns[node] = e->dur_ns;
            return SYN_OK;
        }
        if (longer)
            syn__pt_note_event(s->m->rank, s->m->notes, SYN_PYTORCH_ANOMALY_NEGATIVE_TIME, event);
        if (node == SYN__PT_NONE) node = outer->node;
        else s->m->around[node] = outer->node;
    }
    if (node != SYN__PT_NONE) s->last_node = node;
    SYN_TRY(syn_grow(&s->stack, &s->stack_cap, s->depth + 1, sizeof *s->stack, s->m->err));
    const frame f = {syn__pt_event_end(e), event, node};
    s->stack[s->depth++] = f;
    return SYN_OK;
}

/* Returns the host node of the op that made a runtime call: the innermost open op, or an outer one
   if only that has the External id of the call. SYN__PT_NONE: no open op has a host node. */
static uint32_t caller(const sweep *s, const syn__pt_event *call) {
    const syn__pt_event *events = s->m->rank->device.events;
    if (s->depth == 0) return SYN__PT_NONE;
    const frame *top = &s->stack[s->depth - 1];
    if (call->external_id != -1 && events[top->event].external_id != call->external_id)
        for (size_t i = 1; i < s->depth && i < MAX_OUTER; i++)
            if (events[top[-(ptrdiff_t)i].event].external_id == call->external_id &&
                top[-(ptrdiff_t)i].node != SYN__PT_NONE)
                return top[-(ptrdiff_t)i].node;
    return top->node;
}

static syn_status sweep_thread(sweep *s, const uint32_t *events, size_t n) {
    syn__pt_matcher *m = s->m;
    s->depth = 0;
    s->now_ns = INT64_MIN;
    s->last_node = SYN__PT_NONE;
    for (size_t i = 0; i < n; i++) {
        const syn__pt_event *e = &m->rank->device.events[events[i]];
        advance(s, e->ts_ns);
        if (syn__pt_is_cpu(e)) {
            SYN_TRY(push(s, events[i]));
            continue;
        }
        const uint32_t node = caller(s, e); /* if there is none, the thread's previous op is used as
                                               a guess */
        m->event_node[events[i]] = node != SYN__PT_NONE ? node : s->last_node;
        m->guessed[events[i]] = node == SYN__PT_NONE;
    }
    if (n > 0) advance(s, INT64_MAX);
    return SYN_OK;
}

static bool is_swept(const syn__pt_event *e) {
    return (syn__pt_is_cpu(e) || e->class_ == SYN__PT_RUNTIME) && (e->flags & SYN__PT_EVENT_TS);
}

static syn_status sweep_all(syn__pt_matcher *m, uint32_t *list) {
    const syn__pt_device *d = &m->rank->device;
    sweep s = {.m = m};
    size_t n = 0;
    for (uint32_t i = 0; i < d->n_events; i++)
        if (is_swept(&d->events[i])) list[n++] = i;
    SYN_TRY(syn__pt_sort_events(
        d, list, n, SYN__PT_OUTER_FIRST | SYN__PT_BY_START | SYN__PT_BY_THREAD, m->err));
    syn_status status = SYN_OK;
    for (size_t i = 0, end = 0; i < n && status == SYN_OK; i = end) {
        const uint32_t tid = d->events[list[i]].tid;
        while (end < n && d->events[list[end]].tid == tid) end++;
        status = sweep_thread(&s, list + i, end - i);
    }
    syn_free(s.stack);
    return status;
}

/* ---- Device work ---- */

typedef struct lookup {
    syn__pt_matcher *m;
    syn__pt_map by_correlation, by_external; /* id -> first event of a chain, which is ordered by
                                                ts */
    uint32_t *next;                          /* per event: the next event of its chain; each event
                                                is in at most one chain */
    uint32_t *started;                       /* CPU events with a host node, ordered by start */
    size_t n_started;
    int64_t first_ns, last_ns; /* first start and last end of these events */
} lookup;

static syn_status chain(lookup *l, syn__pt_map *map, int64_t key, uint32_t event, bool *twice) {
    uint32_t *head = syn__pt_map_put(map, (uint64_t)key);
    if (!head) return SYN_FAIL_NOMEM(l->m->err, map->n * 16, "correlation ids");
    *twice = *head != SYN__PT_NONE;
    l->next[event] = *head;
    *head = event;
    return SYN_OK;
}

static syn_status fill_lookup(lookup *l) {
    const syn__pt_device *d = &l->m->rank->device;
    bool twice = false;
    for (size_t i = d->n_events; i-- > 0;) {
        const syn__pt_event *e = &d->events[i];
        if (e->class_ == SYN__PT_RUNTIME && e->correlation > 0) {
            SYN_TRY(chain(l, &l->by_correlation, e->correlation, (uint32_t)i, &twice));
            if (twice)
                syn__pt_note_event(l->m->rank, l->m->notes,
                                   SYN_PYTORCH_ANOMALY_DUPLICATE_CORRELATION, (uint32_t)i);
        } else if (syn__pt_is_cpu(e) && e->external_id > 0 && l->m->event_node[i] != SYN__PT_NONE) {
            SYN_TRY(chain(l, &l->by_external, e->external_id, (uint32_t)i, &twice));
        }
    }
    for (uint32_t i = 0; i < d->n_events; i++)
        if (syn__pt_is_cpu(&d->events[i]) && (d->events[i].flags & SYN__PT_EVENT_TS) &&
            l->m->event_node[i] != SYN__PT_NONE)
            l->started[l->n_started++] = i;
    l->first_ns = INT64_MAX;
    l->last_ns = INT64_MIN;
    for (size_t i = 0; i < l->n_started; i++) {
        const syn__pt_event *e = &d->events[l->started[i]];
        const int64_t end_ns = syn__pt_event_end(e);
        if (e->ts_ns < l->first_ns) l->first_ns = e->ts_ns;
        if (end_ns > l->last_ns) l->last_ns = end_ns;
    }
    return SYN_OK;
}

/* Picks an event from a chain: the one with the External id of the work; otherwise the last one
   that began before the work; otherwise the first one. */
static uint32_t choose(const lookup *l, uint32_t head, const syn__pt_event *work) {
    const syn__pt_event *events = l->m->rank->device.events;
    uint32_t best = head;
    int tries = 0;
    if (head == SYN__PT_NONE || l->next[head] == SYN__PT_NONE) return head;
    for (uint32_t e = head; e != SYN__PT_NONE && tries < MAX_TRIES; e = l->next[e], tries++) {
        if (events[e].class_ == SYN__PT_RUNTIME && work->external_id != -1 &&
            events[e].external_id == work->external_id)
            return e;
        if (events[e].ts_ns <= work->ts_ns) best = e;
    }
    return best;
}

/* The last CPU event with a host node that had begun at that time. */
static uint32_t running_at(const lookup *l, int64_t ns) {
    size_t low = 0, high = l->n_started;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (l->m->rank->device.events[l->started[mid]].ts_ns <= ns) low = mid + 1;
        else high = mid;
    }
    return low > 0 ? l->started[low - 1] : SYN__PT_NONE;
}

static bool ran_at(const syn__pt_event *op, int64_t ns) {
    return op->ts_ns <= ns && ns <= syn__pt_event_end(op);
}

/* Whether a runtime call belongs to a step that the host trace does not cover. */
static bool is_outside(const lookup *l, const syn__pt_event *call) {
    return (call->flags & SYN__PT_EVENT_TS) != 0 &&
           (call->ts_ns < l->first_ns || call->ts_ns > l->last_ns);
}

static void link_work(const lookup *l, uint32_t work) {
    syn__pt_matcher *m = l->m;
    syn__pt_event *events = m->rank->device.events;
    const syn__pt_event *e = &events[work];
    syn_pytorch_matches *c = &m->rank->matches;
    uint32_t call = SYN__PT_NONE, from = SYN__PT_NONE;
    c->device_events++;
    if (e->correlation > 0)
        call = choose(l, syn__pt_map_get(&l->by_correlation, (uint64_t)e->correlation), e);
    m->launch[work] = call;
    if (call != SYN__PT_NONE && m->event_node[call] != SYN__PT_NONE && !m->guessed[call]) {
        m->event_node[work] = m->event_node[call];
        c->device_correlation++;
        return;
    }
    if (l->n_started > 0 && call != SYN__PT_NONE && is_outside(l, &events[call])) {
        c->device_outside++;
        if (m->options->trim) {
            events[work].class_ = SYN__PT_OTHER;
            c->device_events--;
            return;
        }
    }
    if (e->external_id > 0)
        from = choose(l, syn__pt_map_get(&l->by_external, (uint64_t)e->external_id), e);
    /* External ids may restart, so the op with the id must also have been running when the work was
       launched. */
    if (from != SYN__PT_NONE && (call == SYN__PT_NONE || !(events[call].flags & SYN__PT_EVENT_TS) ||
                                 ran_at(&events[from], events[call].ts_ns))) {
        m->event_node[work] = m->event_node[from];
        c->device_external++;
        return;
    }
    from = SYN__PT_NONE;
    if (call != SYN__PT_NONE && m->event_node[call] != SYN__PT_NONE) from = call;
    else if (e->flags & SYN__PT_EVENT_TS) from = running_at(l, e->ts_ns);
    if (from != SYN__PT_NONE) {
        m->event_node[work] = m->event_node[from];
        m->guessed[work] = 1;
        c->device_time++;
        syn__pt_note_event(m->rank, m->notes, SYN_PYTORCH_ANOMALY_TIME_ONLY, work);
        return;
    }
    c->device_none++;
    syn__pt_note_event(m->rank, m->notes, SYN_PYTORCH_ANOMALY_ORPHAN, work);
}

syn_status syn__pt_find_launches(syn__pt_matcher *m) {
    const size_t n = m->rank->device.n_events;
    lookup l = {.m = m, .next = m->scratch};
    l.started = syn_malloc(n * sizeof *l.started);
    syn_status s = SYN_OK;
    if (!l.started)
        s = SYN_FAIL_NOMEM(m->err, n * sizeof *l.started, "the match of host and device traces");
    if (s == SYN_OK) s = sweep_all(m, l.started);
    if (s == SYN_OK) s = fill_lookup(&l);
    if (s == SYN_OK) /* sorted by ts_ns, because the doubles may be rounded */
        s = syn__pt_sort_events(&m->rank->device, l.started, l.n_started, SYN__PT_BY_START, m->err);
    for (uint32_t i = 0; i < n && s == SYN_OK; i++)
        if (syn__pt_is_gpu(&m->rank->device.events[i])) link_work(&l, i);
    syn__pt_map_free(&l.by_correlation);
    syn__pt_map_free(&l.by_external);
    syn_free(l.started);
    return s;
}
