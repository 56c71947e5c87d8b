/* The device trace of Kineto in memory. Texts stay in the file: records hold slices of them. The
   format: docs/pytorch.md. */
#ifndef EXPORT_PT_DEVICE_H
#define EXPORT_PT_DEVICE_H

#include <string.h>

#include "export/pytorch/read/pt_map.h"
#include "export/pytorch_notes.h"
#include "export/text/file_text.h"
#include "export/text/loose_json.h"
#include "syntorch/base/intern.h"

#ifdef __cplusplus
extern "C" {
#endif

/* By an event's "cat". */
typedef enum syn__pt_class {
    SYN__PT_OTHER,
    SYN__PT_CPU_OP,  /* cpu_op, user_annotation, no ProfilerStep */
    SYN__PT_STEP,    /* ProfilerStep annotations */
    SYN__PT_RUNTIME, /* cuda_runtime, cuda_driver */
    SYN__PT_KERNEL,  /* kernel */
    SYN__PT_MEMCPY,  /* gpu_memcpy */
    SYN__PT_MEMSET,  /* gpu_memset */
    SYN__PT_SYNC,    /* cuda_sync */
    SYN__PT_MODULE,  /* python_function of an nn.Module */
    SYN__PT_CLASSES
} syn__pt_class;

enum {
    SYN__PT_EVENT_TS = 1, /* has the field */
    SYN__PT_EVENT_DUR = 2,
    SYN__PT_EVENT_RF_ID = 4,
    SYN__PT_EVENT_STREAM = 8,
    SYN__PT_EVENT_TS_INT = 16, /* written as an integer */
    SYN__PT_EVENT_DUR_INT = 32,
    SYN__PT_EVENT_LAUNCH = 64,     /* RUNTIME: a name that launches device work (section 3.1) */
    SYN__PT_EVENT_COLLECTIVE = 128 /* args hold a "Collective name" */
};

typedef struct syn__pt_event {
    double ts, dur; /* µs, as doubles; 0 when absent */
    int64_t ts_ns, dur_ns;
    int64_t external_id, correlation; /* -1: none */
    uint64_t rf_id;
    const char *text;    /* the whole object */
    uint32_t text_bytes; /* syn__loose_find on it reads the rest: "args", ... */
    uint32_t name;       /* in syn__pt_device.names, undecoded */
    uint32_t tid;        /* in syn__pt_device.names: "tid" as written, quotes included */
    uint32_t pid;        /* likewise "pid" */
    int64_t stream;      /* -1: none */
    int32_t device;      /* args "device", else the pid of GPU events; -1: none */
    uint8_t class_;      /* syn__pt_class */
    uint8_t flags;       /* SYN__PT_EVENT_... */
    char phase;          /* the first character of "ph"; 'X', complete, where there is none */
} syn__pt_event;

typedef struct syn__pt_device {
    syn__file_text *input;
    syn__pt_event *events; /* by ts, those of equal ts in file order */
    size_t n_events, events_cap;
    uint64_t n_class[SYN__PT_CLASSES]; /* in the file */
    uint64_t n_read;                   /* all events, kept or not */
    syn_intern names;
    syn__str distributed_info; /* "distributedInfo"'s text; bytes 0: absent */
    int64_t base_ns;           /* "baseTimeNanoseconds", what times are counted from; -1: absent */
    syn__loose_count no_value; /* words that not even Python reads, and missing values */
} syn__pt_device;

/* Reads a device trace; of class OTHER only events with an "External id", and those that begin or
   end something (phases B and E), are kept. SYN_E_FORMAT only if the file holds no event list at
   all, or the autograd profiler's own. */
syn_status syn__pt_device_read(syn__pt_device *device, syn__file_text *input,
                               syn_pytorch_note *notes, syn_error *err) SYN_MUST_USE;
/* Makes each pair of events B and E a complete one, and leaves out what is of another phase than X
   (pt_phases.c). */
syn_status syn__pt_device_complete(syn__pt_device *device, syn_pytorch_note *notes,
                                   syn_error *err) SYN_MUST_USE;
void syn__pt_device_free(syn__pt_device *device);
/* "nn.Module: Linear_0": how with_stack names the call of a module. */
#define SYN__PT_MODULE_NAME "nn.Module: "
static inline bool syn__pt_is_module(syn__str name) {
    const size_t n = sizeof SYN__PT_MODULE_NAME - 1;
    return name.bytes > n && memcmp(name.text, SYN__PT_MODULE_NAME, n) == 0;
}
static inline syn__str syn__pt_device_name(const syn__pt_device *device, uint32_t name) {
    const syn__str s = {(const char *)syn_intern_get(&device->names, name),
                        syn_intern_entry_bytes(&device->names, name)};
    return s;
}

#ifdef __cplusplus
}
#endif
#endif
