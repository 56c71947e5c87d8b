/* Reads device traces (Kineto's Chrome trace events), including damaged ones. */
#include <string.h>

#include "export/pytorch/read/pt_device.h"
#include "export/pytorch/read/pt_notes.h"
#include "export/pytorch/read/pt_reading.h"
#include "export/pytorch/read/pt_sort.h"
#include "syntorch/base/memory.h"

#define MAX_EVENTS ((size_t)1 << 31)

enum { NAME_KNOWN = 1, NAME_LAUNCH = 2, NAME_STEP = 4 };

typedef struct reader {
    syn__pt_device *device;
    syn_pytorch_note *notes;
    syn_error *err;
    syn__loose loose;
    const char *file;
    syn__str first_key;
    uint8_t *name_flags; /* flags of each name, NAME_... */
    size_t name_flags_cap, n_name_flags;
    syn__str last_tid, last_pid; /* tid and pid of the previous event, with their ids below */
    uint32_t last_tid_id, last_pid_id;
    int cuts;
    bool found; /* whether a list of events was found */
    bool has_nodes;
    bool of_autograd; /* whether an event has the format of the autograd profiler */
} reader;

/* The event being read. */
typedef struct draft {
    syn__pt_event event;
    syn__str name, tid, pid;
    bool has_args, named, bad_time;
} draft;

static void note(reader *r, syn_pytorch_anomaly kind, const char *at) {
    syn__pt_note_at(r->notes, kind, r->file, (uint64_t)(at - r->loose.begin), SYN_PYTORCH_NO_PLACE);
}

/* The class of a category that Kineto writes. The capitalized categories were written until
   2022. */
static syn__pt_class class_of(syn__str cat) {
    static const struct {
        const char *cat;
        uint8_t bytes, class_;
    } classes[] = {
        {"cpu_op", 6, SYN__PT_CPU_OP},           {"kernel", 6, SYN__PT_KERNEL},
        {"cuda_runtime", 12, SYN__PT_RUNTIME},   {"cuda_driver", 11, SYN__PT_RUNTIME},
        {"user_annotation", 15, SYN__PT_CPU_OP}, {"gpu_memcpy", 10, SYN__PT_MEMCPY},
        {"gpu_memset", 10, SYN__PT_MEMSET},      {"cuda_sync", 9, SYN__PT_SYNC},
        {"Operator", 8, SYN__PT_CPU_OP},         {"Kernel", 6, SYN__PT_KERNEL},
        {"Runtime", 7, SYN__PT_RUNTIME},         {"Memcpy", 6, SYN__PT_MEMCPY},
        {"Memset", 6, SYN__PT_MEMSET},           {"python_function", 15, SYN__PT_MODULE},
    };
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++)
        if (syn__pt_is(cat, classes[i].cat, classes[i].bytes))
            return (syn__pt_class)classes[i].class_;
    return SYN__PT_OTHER;
}

static bool is_launch(syn__str name) {
    static const char *const names[] = {
        "cuLaunchKernel",        "cuLaunchKernelEx",    "cudaLaunchKernel",
        "cudaLaunchKernelExC",   "cudaMemcpy",          "cudaMemcpyAsync",
        "cudaMemcpyFromSymbol",  "cudaMemcpyToSymbol",  "cudaLaunchCooperativeKernel",
        "hipLaunchKernel",       "hipExtLaunchKernel",  "hipExtModuleLaunchKernel",
        "hipModuleLaunchKernel", "hipMemcpyWithStream", "hipMemcpyAsync"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (syn__str_is(name, names[i])) return true;
    return false;
}

/* Gets the flags of a name, which are determined on first use. */
static syn_status flags_of(reader *r, uint32_t name, uint8_t *out) {
    if (name >= r->n_name_flags) {
        SYN_TRY(syn_grow(&r->name_flags, &r->name_flags_cap, (size_t)name + 1, 1, r->err));
        memset(r->name_flags + r->n_name_flags, 0, r->name_flags_cap - r->n_name_flags);
        r->n_name_flags = r->name_flags_cap;
    }
    uint8_t *flags = &r->name_flags[name];
    if (*flags == 0) {
        const syn__str text = syn__pt_device_name(r->device, name);
        *flags = NAME_KNOWN;
        if (is_launch(text)) *flags |= NAME_LAUNCH;
        if (syn__str_has(text, "ProfilerStep")) *flags |= NAME_STEP;
    }
    *out = *flags;
    return SYN_OK;
}

/* ---- One event ---- */

/* Reads an integer, which may be in quotes or have a fraction. */
static bool take_i64(syn__loose *l, int64_t *out) {
    syn__str text;
    syn__loose_kind kind = syn__loose_skip(l, &text);
    if (kind == SYN__LOOSE_STRING) {
        text.text++;
        text.bytes -= 2;
    }
    double v = 0;
    bool integer = false;
    if (kind == SYN__LOOSE_NONE || kind == SYN__LOOSE_OBJECT || kind == SYN__LOOSE_ARRAY)
        return false;
    if (syn__loose_i64(text, out)) return true;
    uint64_t u = 0;
    if (syn__loose_u64(text, &u)) return *out = (int64_t)u, true;
    if (!syn__loose_double(text, &v, &integer) || !(v > -9e18 && v < 9e18)) return false;
    *out = (int64_t)v;
    return true;
}

/* Reads a time. Returns false if the number is not a valid time. */
static bool take_time(syn__loose *l, double *us, int64_t *ns, uint8_t *flags, unsigned has,
                      unsigned as_integer) {
    syn__str text;
    bool integer = false;
    const syn__loose_kind kind = syn__loose_skip(l, &text);
    if (kind == SYN__LOOSE_STRING) {
        text.text++;
        text.bytes -= 2;
    }
    if (!syn__loose_micros(text, us, ns, &integer)) {
        *us = 0;
        *ns = 0;
        return kind != SYN__LOOSE_NUMBER;
    }
    *flags |= (uint8_t)(has | (integer ? as_integer : 0));
    return true;
}

static void take_args(reader *r, draft *d) {
    syn__loose *l = &r->loose;
    syn__str key, text;
    syn__pt_event *e = &d->event;
    int64_t v = 0;
    if (syn__loose_peek(l) != '{') {
        syn__loose_skip(l, NULL);
        return;
    }
    d->has_args = true;
    (void)syn__loose_value(l, &text);
    while (syn__loose_member(l, &key)) {
        if (SYN__PT_IS(key, "External id") || SYN__PT_IS(key, "external id")) {
            if (take_i64(l, &v)) e->external_id = v;
        } else if (SYN__PT_IS(key, "correlation")) {
            if (take_i64(l, &v)) e->correlation = v;
        } else if (SYN__PT_IS(key, "Record function id")) {
            if (take_i64(l, &v)) {
                e->rf_id = (uint64_t)v;
                e->flags |= SYN__PT_EVENT_RF_ID;
            }
        } else if (SYN__PT_IS(key, "stream")) {
            if (take_i64(l, &v)) {
                e->stream = v;
                e->flags |= SYN__PT_EVENT_STREAM;
            }
        } else if (SYN__PT_IS(key, "Collective name") || SYN__PT_IS(key, "collective_name")) {
            e->flags |= SYN__PT_EVENT_COLLECTIVE;
            syn__loose_skip(l, NULL);
        } else if (SYN__PT_IS(key, "device")) {
            if (take_i64(l, &v) && v >= 0 && v <= INT32_MAX) e->device = (int32_t)v;
        } else {
            syn__loose_skip(l, NULL);
        }
    }
}

static void take_member(reader *r, draft *d, syn__str key) {
    syn__loose *l = &r->loose;
    syn__str text;
    syn__pt_event *e = &d->event;
    if (SYN__PT_IS(key, "ph")) {
        if (syn__loose_skip(l, &text) == SYN__LOOSE_STRING && text.bytes > 2)
            e->phase = text.text[1];
    } else if (SYN__PT_IS(key, "cat")) {
        if (syn__loose_value(l, &text) == SYN__LOOSE_STRING) e->class_ = (uint8_t)class_of(text);
    } else if (SYN__PT_IS(key, "name")) {
        d->named = syn__loose_value(l, &text) == SYN__LOOSE_STRING;
        if (d->named) d->name = text;
    } else if (SYN__PT_IS(key, "tid")) {
        syn__loose_skip(l, &d->tid);
    } else if (SYN__PT_IS(key, "pid")) {
        syn__loose_skip(l, &d->pid);
    } else if (SYN__PT_IS(key, "ts")) {
        d->bad_time |=
            !take_time(l, &e->ts, &e->ts_ns, &e->flags, SYN__PT_EVENT_TS, SYN__PT_EVENT_TS_INT);
    } else if (SYN__PT_IS(key, "dur")) {
        d->bad_time |=
            !take_time(l, &e->dur, &e->dur_ns, &e->flags, SYN__PT_EVENT_DUR, SYN__PT_EVENT_DUR_INT);
        d->bad_time |= e->dur_ns < 0;
    } else if (SYN__PT_IS(key, "args")) {
        take_args(r, d);
    } else {
        syn__loose_skip(l, NULL);
    }
}

static syn_status intern_key(reader *r, syn__str text, syn__str *last, uint32_t *last_id,
                             uint32_t *out) {
    if (last->text == NULL || last->bytes != text.bytes ||
        memcmp(last->text, text.text, text.bytes) != 0) {
        SYN_TRY(syn_intern_put(&r->device->names, text.text, text.bytes, last_id, r->err));
        *last = text;
    }
    *out = *last_id;
    return SYN_OK;
}

static bool is_gpu(unsigned class_) {
    return class_ == SYN__PT_KERNEL || class_ == SYN__PT_MEMCPY || class_ == SYN__PT_MEMSET;
}

/* Completes an event that will be stored: converts strings to ids, and notes what is missing. */
static syn_status finish_event(reader *r, draft *d) {
    syn__pt_event *e = &d->event;
    uint8_t flags = 0;
    int64_t pid = -1;
    SYN_TRY(syn_intern_put(&r->device->names, d->name.text, d->name.bytes, &e->name, r->err));
    SYN_TRY(intern_key(r, d->tid, &r->last_tid, &r->last_tid_id, &e->tid));
    SYN_TRY(intern_key(r, d->pid, &r->last_pid, &r->last_pid_id, &e->pid));
    SYN_TRY(flags_of(r, e->name, &flags));
    if (e->class_ == SYN__PT_CPU_OP && (flags & NAME_STEP)) e->class_ = SYN__PT_STEP;
    if (e->class_ == SYN__PT_RUNTIME && (flags & NAME_LAUNCH)) e->flags |= SYN__PT_EVENT_LAUNCH;
    if (is_gpu(e->class_) && e->device < 0 && syn__loose_i64(d->pid, &pid) && pid >= 0 &&
        pid <= INT32_MAX)
        e->device = (int32_t)pid;
    if (d->bad_time) note(r, SYN_PYTORCH_ANOMALY_BAD_TIME, e->text);
    else if (!(e->flags & SYN__PT_EVENT_TS)) note(r, SYN_PYTORCH_ANOMALY_NO_TIME, e->text);
    if (e->phase != 'X') return SYN_OK; /* the matching begin or end event may have the rest */
    if (!d->bad_time && (e->flags & (SYN__PT_EVENT_TS | SYN__PT_EVENT_DUR)) == SYN__PT_EVENT_TS)
        note(r, SYN_PYTORCH_ANOMALY_NO_DURATION, e->text);
    if (!d->has_args && is_gpu(e->class_)) note(r, SYN_PYTORCH_ANOMALY_NO_ARGS, e->text);
    if (!d->named) note(r, SYN_PYTORCH_ANOMALY_NO_NAME, e->text);
    return SYN_OK;
}

/* Whether an event was written by the autograd profiler. It writes "CPU functions", and until
   PyTorch 1.13 also "CUDA functions", in place of a process id. */
static bool is_of_autograd(const draft *d) {
    return d->event.class_ == SYN__PT_OTHER && d->pid.bytes > 12 &&
           memcmp(d->pid.text + d->pid.bytes - 11, " functions\"", 11) == 0;
}

static syn_status add_event(reader *r, draft *d) {
    syn__pt_device *v = r->device;
    v->n_read++;
    r->of_autograd = r->of_autograd || is_of_autograd(d);
    if (d->event.class_ == SYN__PT_MODULE &&
        (!syn__pt_is_module(d->name) || d->event.external_id != -1))
        d->event.class_ = SYN__PT_OTHER;
    const bool paired = d->event.phase == 'B' || d->event.phase == 'E';
    if (d->event.class_ == SYN__PT_OTHER && d->event.external_id == -1 && !paired) {
        v->n_class[SYN__PT_OTHER]++;
        return SYN_OK;
    }
    if (v->n_events == MAX_EVENTS)
        return SYN_FAIL(r->err, SYN_E_UNSUPPORTED, "%.200s: more than %zu events", r->file,
                        MAX_EVENTS);
    SYN_TRY(finish_event(r, d));
    v->n_class[d->event.class_]++;
    SYN_TRY(syn_grow(&v->events, &v->events_cap, v->n_events + 1, sizeof *v->events, r->err));
    v->events[v->n_events++] = d->event;
    return SYN_OK;
}

/* Reads an event, which may be damaged. Afterwards the parser is past it or at the next event. */
static syn_status take_event(reader *r) {
    syn__loose *l = &r->loose;
    syn__str text, key;
    if (syn__loose_peek(l) != '{') {
        const char *at = l->cur;
        note(r, SYN_PYTORCH_ANOMALY_BROKEN, at);
        syn__loose_skip(l, NULL);
        if (l->broken || l->cur == at) (void)syn__pt_resume(l, at, r->first_key, &r->cuts);
        return SYN_OK;
    }
    const syn__str none = {"", 0};
    draft d = {.event = {.text = l->cur,
                         .external_id = -1,
                         .correlation = -1,
                         .stream = -1,
                         .device = -1,
                         .phase = 'X'},
               .name = none,
               .tid = none,
               .pid = none};
    bool first = true;
    (void)syn__loose_value(l, &text);
    while (syn__loose_member(l, &key)) {
        if (first) r->first_key = key;
        first = false;
        take_member(r, &d, key);
    }
    if (l->broken || (size_t)(l->cur - d.event.text) > UINT32_MAX) {
        const bool cut = l->cut, more = syn__pt_resume(l, d.event.text, r->first_key, &r->cuts);
        if (more || !cut) note(r, SYN_PYTORCH_ANOMALY_BROKEN, d.event.text);
        if (!more) note(r, SYN_PYTORCH_ANOMALY_TRUNCATED, d.event.text);
        return SYN_OK;
    }
    d.event.text_bytes = (uint32_t)(l->cur - d.event.text);
    return add_event(r, &d);
}

/* ---- The document ---- */

static syn_status take_events(reader *r) {
    syn__loose *l = &r->loose;
    syn__str text;
    if (syn__loose_value(l, &text) != SYN__LOOSE_ARRAY) return SYN_OK;
    r->found = true;
    const char *kept = l->cur;
    while (syn__loose_element(l)) {
        SYN_TRY(take_event(r));
        if ((size_t)(l->cur - kept) > SYN__PT_RELEASE_BYTES) {
            syn__file_text_done(r->device->input, l->cur);
            kept = l->cur;
        }
    }
    return SYN_OK;
}

static void take_base(reader *r) {
    int64_t ns = 0;
    if (take_i64(&r->loose, &ns) && ns >= 0) r->device->base_ns = ns;
}

static syn_status take_document(reader *r) {
    syn__loose *l = &r->loose;
    syn__str text, key;
    const char first = syn__loose_peek(l);
    if (first == '[') return take_events(r);
    if (first != '{') return SYN_OK;
    (void)syn__loose_value(l, &text);
    for (;;) {
        while (syn__loose_member(l, &key)) {
            if (SYN__PT_IS(key, "traceEvents")) SYN_TRY(take_events(r));
            else if (SYN__PT_IS(key, "nodes")) r->has_nodes = true, syn__loose_skip(l, NULL);
            else if (SYN__PT_IS(key, "baseTimeNanoseconds")) take_base(r);
            else if (SYN__PT_IS(key, "distributedInfo"))
                syn__loose_skip(l, &r->device->distributed_info);
            else syn__loose_skip(l, NULL);
        }
        if (!l->broken || l->cut || ++r->cuts > SYN__PT_MAX_CUTS) break;
        note(r, SYN_PYTORCH_ANOMALY_BROKEN, l->cur);
        if (!syn__loose_resume_list(l, l->cur, syn__str_of("traceEvents")))
            l->broken = l->cut = true;
        else SYN_TRY(take_events(r));
    }
    return SYN_OK;
}

static void note_damage(reader *r) {
    syn__loose *l = &r->loose;
    if ((l->broken || r->device->input->cut) && r->notes &&
        r->notes[SYN_PYTORCH_ANOMALY_TRUNCATED].file != r->file)
        note(r, SYN_PYTORCH_ANOMALY_TRUNCATED, l->end);
    r->device->no_value = l->faults[SYN__LOOSE_NO_VALUE];
    syn__pt_note_faults(l, r->notes, r->file);
}

static syn_status check_found(const reader *r) {
    if (!r->found)
        return SYN_FAIL(r->err, SYN_E_FORMAT,
                        "%.200s has no list of events, \"traceEvents\"%s; write it with "
                        "torch.profiler's export_chrome_trace",
                        r->file, r->has_nodes ? " (it is a host trace)" : "");
    if (r->of_autograd && r->device->n_events == 0)
        return SYN_FAIL(
            r->err, SYN_E_FORMAT,
            "%.200s was written by torch.autograd.profiler: its events lack categories, streams "
            "and launches; record with torch.profiler.profile and its export_chrome_trace",
            r->file);
    return SYN_OK;
}

/* Sorts the events by ts, stably, unless the file is sorted already. */
static syn_status sort_events(reader *r) {
    syn__pt_device *v = r->device;
    size_t i = 1;
    while (i < v->n_events && v->events[i].ts >= v->events[i - 1].ts) i++;
    if (i >= v->n_events) return SYN_OK;
    uint64_t *keys = syn_malloc(v->n_events * sizeof *keys);
    uint32_t *order = NULL;
    syn_status s = SYN_OK;
    if (keys) {
        for (i = 0; i < v->n_events; i++) keys[i] = syn__pt_double_key(v->events[i].ts);
        s = syn__pt_sort(keys, v->n_events, &order, r->err);
    } else {
        s = SYN_FAIL_NOMEM(r->err, v->n_events * sizeof *keys, "the order of events");
    }
    if (s == SYN_OK) syn__pt_permute(v->events, sizeof *v->events, order, v->n_events);
    syn_free(order);
    syn_free(keys);
    return s;
}

syn_status syn__pt_device_read(syn__pt_device *device, syn__file_text *input,
                               syn_pytorch_note *notes, syn_error *err) {
    memset(device, 0, sizeof *device);
    device->input = input;
    device->base_ns = -1;
    reader r = {.device = device,
                .notes = notes,
                .err = err,
                .file = input->name,
                .first_key = syn__str_of("ph")};
    syn__loose_init(&r.loose, input->data, input->bytes);
    uint32_t empty = 0;
    SYN_TRY(syn_intern_put(&device->names, "", 0, &empty, err)); /* id 0: no name */
    syn_status s = take_document(&r);
    if (s == SYN_OK) {
        note_damage(&r);
        s = check_found(&r);
    }
    if (s == SYN_OK) s = sort_events(&r);
    syn_free(r.name_flags);
    return s;
}

void syn__pt_device_free(syn__pt_device *device) {
    syn_free(device->events);
    syn_intern_free(&device->names);
    memset(device, 0, sizeof *device);
}
