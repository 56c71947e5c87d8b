/* Reads the host trace of ExecutionTraceObserver into memory, including fields that
   chakra_trace_link or `syntorch link` added (linked traces). Strings stay in the file's text, and
   records point to them. docs/pytorch.md describes the format. */
#ifndef EXPORT_PT_HOST_H
#define EXPORT_PT_HOST_H

#include "export/pytorch.h"
#include "export/pytorch/read/pt_map.h"
#include "export/text/file_text.h"
#include "export/text/loose_json.h"
#include "syntorch/base/intern.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bits that say which fields a node has. */
enum {
    SYN__PT_HAS_PARENT = 1,
    SYN__PT_HAS_RF_ID = 2,
    SYN__PT_HAS_FW_PARENT = 4,
    SYN__PT_HAS_SEQ_ID = 8,
    SYN__PT_HAS_SCOPE = 16,
    SYN__PT_HAS_TID = 32,
    SYN__PT_HAS_FW_TID = 64,
    SYN__PT_HAS_OP_SCHEMA = 128,
    SYN__PT_HAS_ALL_ATTRS = 254,
    SYN__PT_HAS_FLAT = 256, /* schema 1.0.1: the fields are next to the id, not in "attrs" */
    SYN__PT_MADE = 512      /* the node was made from an event of the device trace */
};

/* Fields of a node that only linked traces have. */
typedef struct syn__pt_linked {
    double inclusive_dur, exclusive_dur, ts; /* µs */
    uint64_t inter_thread_dep;               /* 0: none */
    syn__str sync_dep;                       /* JSON text of the array; bytes 0: none */
    syn__str cat;                            /* bytes 0 and text NULL: a CPU node */
    syn__str pg_name;                        /* JSON text of the string */
    int64_t stream;
    bool stream_null;
} syn__pt_linked;

typedef struct syn__pt_host_node {
    uint64_t id, parent; /* as in the file; negative numbers are in two's complement */
    uint64_t rf_id, fw_parent, scope, tid, fw_tid;
    int64_t seq_id;
    const char *text; /* the node's whole JSON object */
    uint32_t text_bytes;
    uint32_t inputs, inputs_bytes; /* values of the inputs: offset in text, length; length 0:
                                      absent */
    uint32_t outputs, outputs_bytes;
    uint32_t attrs, attrs_bytes; /* the array "attrs": offset in text, length */
    uint32_t name, op_schema;    /* indices in syn__pt_host.names: the text between the quotes, not
                                    decoded */
    uint32_t has;                /* SYN__PT_HAS_... */
    uint32_t linked;             /* index into syn__pt_host.linked; SYN__PT_NONE: none */
} syn__pt_host_node;

typedef struct syn__pt_host {
    syn__file_text *input;    /* owned by the caller */
    syn__str document;        /* text of the JSON object that was read */
    syn__pt_host_node *nodes; /* in file order */
    size_t n_nodes, nodes_cap;
    syn__pt_linked *linked;
    size_t n_linked, linked_cap;
    uint32_t *from_event;    /* if there is no host trace: per node, the event from which it was
                                made; otherwise NULL */
    size_t n_made, made_cap; /* if there is a host trace: number of nodes at the end of `nodes` that
                                were made from events */
    uint32_t *made_of;       /* the event of each of these nodes */
    syn_intern names;
    /* Values of the top level, as in the file, including quotes. bytes 0: absent. */
    syn__str schema, pid, time, start_ts, finish_ts;
    syn__loose_count no_value; /* count of missing values, and of words that not even Python's json
                                  accepts as values */
} syn__pt_host;

/* Reads a host or linked trace. Fails with SYN_E_FORMAT only if no node could be read. */
syn_status syn__pt_host_read(syn__pt_host *host, syn__file_text *input, syn_pytorch_object object,
                             syn_pytorch_note *notes, syn_error *err) SYN_MUST_USE;
void syn__pt_host_free(syn__pt_host *host);
/* The event from which a node was made; SYN__PT_NONE: none. */
static inline uint32_t syn__pt_made_of(const syn__pt_host *host, uint32_t node) {
    const size_t n_read = host->n_nodes - host->n_made;
    if (host->from_event != NULL) return host->from_event[node];
    return node >= n_read ? host->made_of[node - n_read] : SYN__PT_NONE;
}
/* The name of a node, not decoded. */
static inline syn__str syn__pt_host_name(const syn__pt_host *host, uint32_t name) {
    const syn__str s = {(const char *)syn_intern_get(&host->names, name),
                        syn_intern_entry_bytes(&host->names, name)};
    return s;
}
/* The JSON text of the node's attribute `name`, which is in "attrs" or next to the id. */
syn__str syn__pt_attr(const syn__pt_host_node *node, const char *name);
static inline syn__str syn__pt_inputs(const syn__pt_host_node *node) {
    const syn__str s = {node->text + node->inputs, node->inputs_bytes};
    return s;
}
static inline syn__str syn__pt_outputs(const syn__pt_host_node *node) {
    const syn__str s = {node->text + node->outputs, node->outputs_bytes};
    return s;
}

#ifdef __cplusplus
}
#endif
#endif
