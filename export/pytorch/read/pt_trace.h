/* PyTorch's own traces in memory: the host trace of ExecutionTraceObserver (also with what a linker
   added), the device trace of Kineto. Texts stay in the files: records hold slices of them. The
   formats: docs/pytorch.md. */
#ifndef EXPORT_PT_TRACE_H
#define EXPORT_PT_TRACE_H

#include "export/pytorch/read/pt_report.h"
#include "export/text/loose_json.h"
#include "syntorch/intern.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__PT_NONE UINT32_MAX /* no index */

/* ---- A file's text (pt_input.c) ---- */

/* The content of a file, unpacked if it is gzip (by its first bytes, whatever the name), followed
   by SYN__LOOSE_PADDING bytes of NUL. A plain file is mapped, so its text costs no memory once
   given back. */
typedef struct syn__pt_input {
    const char *name; /* the caller's, in sentences */
    const char *data;
    size_t bytes;
    size_t mapped_bytes; /* 0: data is allocated */
    size_t given_back;
    bool packed;
    bool cut; /* packed, and damaged or ending too early: data is what could be unpacked */
} syn__pt_input;

/* Gzip may unpack to 200 times its size (a megabyte in any case), and to 16 GiB: recordings are far
   from either. */
syn_status syn__pt_input_open(syn__pt_input *input, const char *path, syn_error *err) SYN_MUST_USE;
/* Gzip may unpack to so many bytes instead; 0: as above. */
syn_status syn__pt_input_open_limited(syn__pt_input *input, const char *path,
                                      uint64_t max_unpacked_bytes, syn_error *err) SYN_MUST_USE;
/* A copy of memory, for tests. */
syn_status syn__pt_input_memory(syn__pt_input *input, const char *name, const char *data,
                                size_t bytes, syn_error *err) SYN_MUST_USE;
/* The text before `upto` is not needed soon: its pages are given back; they return when touched.
   `upto` at the text's begin: another pass over it starts. */
void syn__pt_input_done(syn__pt_input *input, const char *upto);
void syn__pt_input_close(syn__pt_input *input);

/* ---- A table from 64-bit keys to indices (pt_map.c) ---- */

typedef struct syn__pt_map {
    uint64_t *keys;
    uint32_t *values; /* SYN__PT_NONE: the slot is free */
    size_t n, slots;  /* slots: a power of two */
} syn__pt_map;

/* The value of a key, or SYN__PT_NONE. */
uint32_t syn__pt_map_get(const syn__pt_map *map, uint64_t key);
/* Where the key's value stands (SYN__PT_NONE in a new one, to be set at once); NULL when memory is
   out. Stable until the next call. */
uint32_t *syn__pt_map_put(syn__pt_map *map, uint64_t key);
void syn__pt_map_free(syn__pt_map *map);

/* ---- Host trace (pt_host.c) ---- */

enum { /* which fields a node had */
       SYN__PT_HAS_PARENT = 1,
       SYN__PT_HAS_RF_ID = 2,
       SYN__PT_HAS_FW_PARENT = 4,
       SYN__PT_HAS_SEQ_ID = 8,
       SYN__PT_HAS_SCOPE = 16,
       SYN__PT_HAS_TID = 32,
       SYN__PT_HAS_FW_TID = 64,
       SYN__PT_HAS_OP_SCHEMA = 128,
       SYN__PT_HAS_ALL_ATTRS = 254,
       SYN__PT_HAS_FLAT = 256 /* schema 1.0.1: fields beside the id, none in "attrs" */
};

/* What a linker wrote into a node. */
typedef struct syn__pt_linked {
    double inclusive_dur, exclusive_dur, ts; /* µs */
    uint64_t inter_thread_dep;               /* 0: none */
    syn__et_str sync_dep;                    /* the array's text; bytes 0: none */
    syn__et_str cat;                         /* bytes 0 and text NULL: a CPU node */
    syn__et_str pg_name;                     /* string's text */
    int64_t stream;
    bool stream_null;
} syn__pt_linked;

typedef struct syn__pt_host_node {
    uint64_t id, parent; /* as written; negative ones in two's complement */
    uint64_t rf_id, fw_parent, scope, tid, fw_tid;
    int64_t seq_id;
    const char *text; /* the whole object */
    uint32_t text_bytes;
    uint32_t inputs, inputs_bytes; /* the values: offset within text; bytes 0: absent */
    uint32_t outputs, outputs_bytes;
    uint32_t attrs, attrs_bytes; /* "attrs", the array */
    uint32_t name, op_schema;    /* in syn__pt_host.names: text between the quotes, undecoded */
    uint32_t has;                /* SYN__PT_HAS_... */
    uint32_t linked;             /* index into syn__pt_host.linked, or SYN__PT_NONE */
} syn__pt_host_node;

typedef struct syn__pt_host {
    syn__pt_input *input;     /* the caller's */
    syn__et_str document;     /* the JSON object that was read */
    syn__pt_host_node *nodes; /* in file order */
    size_t n_nodes, nodes_cap;
    syn__pt_linked *linked;
    size_t n_linked, linked_cap;
    uint32_t *made_of; /* no host trace: per node the device event that it was made of; else NULL */
    syn_intern names;
    /* Values at the top as written, quotes included; bytes 0: absent. */
    syn__et_str schema, pid, time, start_ts, finish_ts;
} syn__pt_host;

typedef enum syn__pt_objects { /* which of several JSON objects in one file */
                               SYN__PT_OBJECT_LAST = -1,
                               SYN__PT_OBJECT_ALL = -2
} syn__pt_objects;

/* Reads a host or linked trace. object: a number from 0, or one of syn__pt_objects. SYN_E_FORMAT
   only if no node could be read. */
syn_status syn__pt_host_read(syn__pt_host *host, syn__pt_input *input, int64_t object,
                             syn__pt_report *report, syn_error *err) SYN_MUST_USE;
void syn__pt_host_free(syn__pt_host *host);
/* A node's name, undecoded. */
static inline syn__et_str syn__pt_host_name(const syn__pt_host *host, uint32_t name) {
    const syn__et_str s = {(const char *)syn_intern_get(&host->names, name),
                           syn_intern_entry_bytes(&host->names, name)};
    return s;
}
/* The member `key` of an object's text, quotes included; bytes 0 if it has none. */
syn__et_str syn__pt_find(syn__et_str object, const char *key);
/* The value of the node's attribute `name` (in "attrs", or beside the id), as written. */
syn__et_str syn__pt_attr(const syn__pt_host_node *node, const char *name);
static inline syn__et_str syn__pt_inputs(const syn__pt_host_node *node) {
    const syn__et_str s = {node->text + node->inputs, node->inputs_bytes};
    return s;
}
static inline syn__et_str syn__pt_outputs(const syn__pt_host_node *node) {
    const syn__et_str s = {node->text + node->outputs, node->outputs_bytes};
    return s;
}

/* ---- Device trace (pt_device.c) ---- */

typedef enum syn__pt_class { /* by "cat" */
                             SYN__PT_OTHER,
                             SYN__PT_CPU_OP,  /* cpu_op, user_annotation, no ProfilerStep */
                             SYN__PT_STEP,    /* ProfilerStep annotations */
                             SYN__PT_RUNTIME, /* cuda_runtime, cuda_driver */
                             SYN__PT_KERNEL,  /* kernel */
                             SYN__PT_MEMCPY,  /* gpu_memcpy */
                             SYN__PT_MEMSET,  /* gpu_memset */
                             SYN__PT_SYNC,    /* cuda_sync */
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
    uint32_t text_bytes; /* syn__pt_find on it reads the rest: "args", ... */
    uint32_t name;       /* in syn__pt_device.names, undecoded */
    uint32_t tid;        /* in syn__pt_device.names: "tid" as written, quotes included */
    uint32_t pid;        /* likewise "pid" */
    int64_t stream;      /* -1: none */
    int32_t device;      /* args "device", else the pid of GPU events; -1: none */
    uint8_t class_;      /* syn__pt_class */
    uint8_t flags;       /* SYN__PT_EVENT_... */
} syn__pt_event;

typedef struct syn__pt_device {
    syn__pt_input *input;
    syn__pt_event *events; /* by ts, those of equal ts in file order */
    size_t n_events, events_cap;
    uint64_t n_class[SYN__PT_CLASSES]; /* in the file */
    uint64_t n_read;                   /* all events, kept or not */
    syn_intern names;
    syn__et_str distributed_info; /* "distributedInfo"'s text; bytes 0: absent */
} syn__pt_device;

/* Reads a device trace; of class OTHER only events with an "External id" are kept. SYN_E_FORMAT
   only if the file holds no event list at all. */
syn_status syn__pt_device_read(syn__pt_device *device, syn__pt_input *input, syn__pt_report *report,
                               syn_error *err) SYN_MUST_USE;
void syn__pt_device_free(syn__pt_device *device);
static inline syn__et_str syn__pt_device_name(const syn__pt_device *device, uint32_t name) {
    const syn__et_str s = {(const char *)syn_intern_get(&device->names, name),
                           syn_intern_entry_bytes(&device->names, name)};
    return s;
}

#ifdef __cplusplus
}
#endif
#endif
