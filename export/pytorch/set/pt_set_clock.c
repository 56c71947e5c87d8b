/* Puts the device traces of a trace set on one clock. Kineto's times are microseconds since
   "baseTimeNanoseconds", which counts from the epoch. Ranks may have different base times: Kineto
   changes its base every three months, and other tools choose their own. */
#include "export/pytorch/set/pt_set_clock.h"
#include "export/pytorch/read/pt_events.h"
#include "export/pytorch/read/pt_notes.h"

#define FAR_NS INT64_C(1000000000) /* the clocks of synchronized machines differ by less */

static bool has_time(const syn__pt_event *e) {
    return (e->flags & SYN__PT_EVENT_TS) != 0;
}

static void shift(syn__pt_device *d, int64_t ns) {
    for (size_t i = 0; i < d->n_events; i++) {
        syn__pt_event *e = &d->events[i];
        if (!has_time(e) || e->ts_ns > INT64_MAX - ns) continue;
        e->ts_ns += ns;
        e->ts += (double)ns / 1000;
        if (ns % 1000 != 0) e->flags &= (uint8_t)~SYN__PT_EVENT_TS_INT;
    }
}

/* Finds the start and end of a trace. Returns false if it has no times. */
static bool span_of(const syn__pt_device *d, int64_t *first, int64_t *last) {
    *first = INT64_MAX;
    *last = INT64_MIN;
    for (size_t i = 0; i < d->n_events; i++) {
        const syn__pt_event *e = &d->events[i];
        if (!has_time(e)) continue;
        const int64_t end = syn__pt_event_end(e);
        if (e->ts_ns < *first) *first = e->ts_ns;
        if (end > *last) *last = end;
    }
    return *first <= *last;
}

static void note(const syn__pt_rank *r, syn_pytorch_note *notes) {
    syn__pt_note_at(notes, SYN_PYTORCH_ANOMALY_CLOCKS_DIFFER, r->device_input.name,
                    SYN_PYTORCH_NO_PLACE, SYN_PYTORCH_NO_PLACE);
}

/* Whether b_ns is later than a_ns by more than FAR_NS. */
static bool is_far_behind(int64_t a_ns, int64_t b_ns) {
    return b_ns > a_ns && (uint64_t)b_ns - (uint64_t)a_ns > FAR_NS;
}

/* Notes ranks whose traces do not overlap in time with the first trace. They should overlap,
   because ranks that communicate run at the same time. */
static void compare_spans(const syn__pt_rank *ranks, size_t n_ranks, syn_pytorch_note *notes) {
    int64_t first = 0, last = 0, a, b;
    bool known = false;
    for (size_t i = 0; i < n_ranks; i++) {
        if (!ranks[i].has_device || !span_of(&ranks[i].device, &a, &b)) continue;
        if (known && (is_far_behind(last, a) || is_far_behind(b, first))) note(&ranks[i], notes);
        if (known) continue;
        known = true;
        first = a;
        last = b;
    }
}

void syn__pt_set_clock(syn__pt_rank *ranks, size_t n_ranks, syn_pytorch_note *notes) {
    int64_t base = -1;
    size_t n_without = 0;
    for (size_t i = 0; i < n_ranks; i++) {
        const int64_t own = ranks[i].has_device ? ranks[i].device.base_ns : -1;
        if (own >= 0 && (base < 0 || own < base)) base = own;
        n_without += ranks[i].has_device && own < 0;
    }
    for (size_t i = 0; i < n_ranks && base >= 0; i++) {
        if (!ranks[i].has_device) continue;
        if (ranks[i].device.base_ns >= 0) shift(&ranks[i].device, ranks[i].device.base_ns - base);
        else note(&ranks[i], notes);
    }
    if (base < 0 || n_without == 0) compare_spans(ranks, n_ranks, notes);
}
