/* Converts begin and end events to complete events. Kineto writes complete events (phase X). Other
   tools write begin and end events (B and E), which nest within a thread. All other phases, such as
   instants, asynchronous events and counters, are never ops. */
#include "export/pytorch/read/pt_device.h"
#include "export/pytorch/read/pt_notes.h"
#include "syntorch/base/memory.h"

#define MAX_LOOK 64 /* maximum number of open events searched for the begin of an end event */

typedef struct pairing {
    syn__pt_device *device;
    syn_pytorch_note *notes;
    syn_error *err;
    syn__pt_map open; /* per thread: the open event that began last */
    uint32_t *below;  /* per begin event: the event that was open when it began; SYN__PT_NONE:
                         none */
    bool *left_out;
} pairing;

static void note(const pairing *p, syn_pytorch_anomaly kind, uint32_t event) {
    const syn__file_text *input = p->device->input;
    syn__pt_note_at(p->notes, kind, input->name,
                    (uint64_t)(p->device->events[event].text - input->data), SYN_PYTORCH_NO_PLACE);
}

static syn__str args_of(const syn__pt_event *e) {
    return syn__loose_find((syn__str){e->text, e->text_bytes}, "args");
}

/* Completes a begin event with its end event. If only the end event has a field, its value is
   used. */
static void join(syn__pt_event *begin, const syn__pt_event *end) {
    const uint64_t ns = (uint64_t)end->ts_ns - (uint64_t)begin->ts_ns;
    begin->dur_ns = end->ts_ns < begin->ts_ns ? 0 : ns > INT64_MAX ? INT64_MAX : (int64_t)ns;
    begin->dur = end->ts - begin->ts;
    begin->flags |= SYN__PT_EVENT_DUR;
    if (begin->flags & end->flags & SYN__PT_EVENT_TS_INT) begin->flags |= SYN__PT_EVENT_DUR_INT;
    begin->flags |= end->flags & (SYN__PT_EVENT_COLLECTIVE | SYN__PT_EVENT_STREAM);
    if (begin->external_id == -1) begin->external_id = end->external_id;
    if (begin->correlation == -1) begin->correlation = end->correlation;
    if (begin->stream == -1) begin->stream = end->stream;
    if (begin->device == -1) begin->device = end->device;
    if (!(begin->flags & SYN__PT_EVENT_RF_ID) && end->flags & SYN__PT_EVENT_RF_ID) {
        begin->rf_id = end->rf_id;
        begin->flags |= SYN__PT_EVENT_RF_ID;
    }
    if (args_of(begin).bytes == 0 && args_of(end).bytes != 0) {
        begin->text = end->text;
        begin->text_bytes = end->text_bytes;
    }
}

/* Finds the open event that `end` ends: the one that began last or, if `end` has a name, the last
   one with this name. Returns NULL if there is none. */
static uint32_t *find_begin(const pairing *p, uint32_t *top, const syn__pt_event *end) {
    const syn__pt_event *events = p->device->events;
    uint32_t *at = top;
    for (int n = 0; *at != SYN__PT_NONE && n < MAX_LOOK; n++, at = &p->below[*at])
        if (end->name == 0 || events[*at].name == end->name) return at;
    return NULL;
}

static syn_status take(pairing *p, uint32_t event) {
    syn__pt_event *e = &p->device->events[event];
    uint32_t *top = syn__pt_map_put(&p->open, (uint64_t)e->pid << 32 | e->tid);
    if (top == NULL) return SYN_FAIL_NOMEM(p->err, p->open.n * 16, "threads");
    if (e->phase == 'B') {
        p->below[event] = *top;
        *top = event;
        return SYN_OK;
    }
    p->left_out[event] = true;
    uint32_t *begin = find_begin(p, top, e);
    if (begin == NULL) {
        note(p, SYN_PYTORCH_ANOMALY_UNPAIRED, event);
        return SYN_OK;
    }
    join(&p->device->events[*begin], e);
    *begin = p->below[*begin]; /* events that began within it may end later */
    return SYN_OK;
}

/* Whether the list keeps an event. If so, the event becomes a complete event. */
static bool keep(const pairing *p, uint32_t event) {
    syn__pt_event *e = &p->device->events[event];
    if (p->left_out[event]) return false;
    if (e->phase == 'B' && !(e->flags & SYN__PT_EVENT_DUR))
        note(p, SYN_PYTORCH_ANOMALY_UNPAIRED, event);
    e->phase = 'X';
    return e->class_ != SYN__PT_OTHER || e->external_id != -1;
}

static syn_status complete(pairing *p) {
    syn__pt_device *d = p->device;
    size_t n = 0;
    for (uint32_t i = 0; i < d->n_events; i++) {
        const syn__pt_event *e = &d->events[i];
        const bool pairs = e->phase == 'B' || e->phase == 'E';
        p->below[i] = SYN__PT_NONE;
        if (pairs && e->flags & SYN__PT_EVENT_TS) {
            SYN_TRY(take(p, i));
        } else if (e->phase != 'X' && (e->phase != 'B' || e->class_ == SYN__PT_OTHER)) {
            p->left_out[i] = true;
            if (e->class_ != SYN__PT_OTHER)
                note(p, pairs ? SYN_PYTORCH_ANOMALY_UNPAIRED : SYN_PYTORCH_ANOMALY_ODD_PHASE, i);
        }
    }
    for (uint32_t i = 0; i < d->n_events; i++) {
        if (keep(p, i)) d->events[n++] = d->events[i];
        else d->n_class[d->events[i].class_]--;
    }
    d->n_events = n;
    return SYN_OK;
}

syn_status syn__pt_device_complete(syn__pt_device *device, syn_pytorch_note *notes,
                                   syn_error *err) {
    const size_t n = device->n_events;
    pairing p = {.device = device, .notes = notes, .err = err};
    size_t i = 0;
    while (i < n && device->events[i].phase == 'X') i++;
    if (i == n) return SYN_OK;
    p.below = syn_malloc(n * sizeof *p.below);
    p.left_out = syn_calloc(n, sizeof *p.left_out);
    syn_status s = SYN_OK;
    if (!p.below || !p.left_out) s = SYN_FAIL_NOMEM(err, n * sizeof *p.below, "pairs of events");
    if (s == SYN_OK) s = complete(&p);
    syn__pt_map_free(&p.open);
    syn_free(p.below);
    syn_free(p.left_out);
    return s;
}
