/* Classifies device events, computes their ends, and sorts them. */
#ifndef EXPORT_PT_EVENTS_H
#define EXPORT_PT_EVENTS_H

#include "export/pytorch/read/pt_device.h"
#include "export/pytorch/read/pt_names.h"

#ifdef __cplusplus
extern "C" {
#endif

static inline bool syn__pt_is_cpu(const syn__pt_event *e) {
    return e->class_ == SYN__PT_CPU_OP || e->class_ == SYN__PT_STEP;
}
static inline bool syn__pt_is_gpu(const syn__pt_event *e) {
    return e->class_ == SYN__PT_KERNEL || e->class_ == SYN__PT_MEMCPY ||
           e->class_ == SYN__PT_MEMSET;
}
static inline int64_t syn__pt_event_end(const syn__pt_event *e) {
    return e->dur_ns > 0 && e->ts_ns <= INT64_MAX - e->dur_ns ? e->ts_ns + e->dur_ns : e->ts_ns;
}
/* PyTorch's RecordScope::USER_SCOPE: a range that the program or a library named. */
#define SYN__PT_USER_SCOPE 7
/* Whether a CPU event has that scope. Kineto calls such an event an annotation. */
bool syn__pt_is_annotation(const syn__pt_event *e);
/* Whether the event is an op of a communication library that ends later than outer_end_ns, the end
   of the op in which it began. The difference must be larger than the error of times that were
   rounded to whole microseconds. */
static inline bool syn__pt_runs_concurrently(const syn__pt_device *device, const syn__pt_event *e,
                                             int64_t outer_end_ns) {
    const int64_t end_ns = syn__pt_event_end(e);
    return end_ns > outer_end_ns && end_ns - outer_end_ns > 1000 &&
           syn__pt_is_library_call(syn__pt_device_name(device, e->name));
}

/* Sort keys, as bits. If several are set, the one that is later in this list takes precedence. */
enum {
    SYN__PT_OUTER_FIRST = 1, /* ops before runtime calls, then longer events before shorter ones */
    SYN__PT_BY_START = 2,
    SYN__PT_BY_THREAD = 4
};
/* Sorts a list of n event indices; the sort is stable. */
syn_status syn__pt_sort_events(const syn__pt_device *device, uint32_t *list, size_t n, unsigned by,
                               syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
