/* Reads Kineto's device trace into memory. Strings stay in the file's text, and records point to
   them. docs/pytorch.md describes the format. */
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

/* The class of an event, which follows from its "cat". */
typedef enum syn__pt_class {
    SYN__PT_OTHER,
    SYN__PT_CPU_OP,  /* cpu_op and user_annotation, except ProfilerStep */
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
    SYN__PT_EVENT_TS = 1, /* flags: the event has the field */
    SYN__PT_EVENT_DUR = 2,
    SYN__PT_EVENT_RF_ID = 4,
    SYN__PT_EVENT_STREAM = 8,
    SYN__PT_EVENT_TS_INT = 16, /* flags: the field is written as an integer */
    SYN__PT_EVENT_DUR_INT = 32,
    SYN__PT_EVENT_LAUNCH = 64,     /* class RUNTIME: its name is the name of a call that launches
                                      device work */
    SYN__PT_EVENT_COLLECTIVE = 128 /* its args have a "Collective name" */
};

typedef struct syn__pt_event {
    double ts, dur; /* µs; 0 if absent */
    int64_t ts_ns, dur_ns;
    int64_t external_id, correlation; /* -1: none */
    uint64_t rf_id;
    const char *text;    /* the event's whole JSON object */
    uint32_t text_bytes; /* length of text; syn__loose_find finds members that have no field here,
                            such as "args" */
    uint32_t name;       /* index in syn__pt_device.names, not decoded */
    uint32_t tid;        /* index in syn__pt_device.names: "tid" as in the file, including quotes */
    uint32_t pid;        /* the same for "pid" */
    int64_t stream;      /* -1: none */
    int32_t device;      /* "device" of the args, otherwise the pid if it is a GPU event; -1:
                            none */
    uint8_t class_;      /* syn__pt_class */
    uint8_t flags;       /* SYN__PT_EVENT_... */
    char phase;          /* first character of "ph"; 'X' (complete) if absent */
} syn__pt_event;

typedef struct syn__pt_device {
    syn__file_text *input;
    syn__pt_event *events; /* ordered by ts; equal ts in file order */
    size_t n_events, events_cap;
    uint64_t n_class[SYN__PT_CLASSES]; /* number of events of each class in the file */
    uint64_t n_read;                   /* number of all events, whether stored or not */
    syn_intern names;
    syn__str distributed_info; /* text of "distributedInfo"; bytes 0: absent */
    int64_t base_ns;           /* "baseTimeNanoseconds", the origin of the times; -1: absent */
    syn__loose_count no_value; /* count of missing values, and of words that not even Python's json
                                  accepts as values */
} syn__pt_device;

/* Reads a device trace. Events of class OTHER are stored only if they have an "External id" or are
   begin or end events (phases B and E). Fails with SYN_E_FORMAT only if the file has no list of
   events at all, or has the list that the autograd profiler writes. */
syn_status syn__pt_device_read(syn__pt_device *device, syn__file_text *input,
                               syn_pytorch_note *notes, syn_error *err) SYN_MUST_USE;
/* Converts each pair of a begin event (B) and an end event (E) to one complete event (X), and
   removes the events of all other phases (pt_phases.c). */
syn_status syn__pt_device_complete(syn__pt_device *device, syn_pytorch_note *notes,
                                   syn_error *err) SYN_MUST_USE;
void syn__pt_device_free(syn__pt_device *device);
/* Prefix of the name of a module's call, such as "nn.Module: Linear_0", which Kineto records with
   with_stack. */
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
