/* A list that merges a host trace and a device trace: the nodes of the host trace, each followed by
   the device work that it launched. The nodes have new ids, and are ordered by them. Both compat
   mode and default mode make such lists, so the list does not depend on how the two traces were
   matched. */
#ifndef EXPORT_PT_MERGE_H
#define EXPORT_PT_MERGE_H

#include "export/pytorch/read/pt_device.h"
#include "export/pytorch/read/pt_host.h"
#include "syntorch/base/sink.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bits for the times that are written as integers. */
enum { SYN__PT_INCLUSIVE_INT = 1, SYN__PT_EXCLUSIVE_INT = 2, SYN__PT_TS_INT = 4 };

typedef struct syn__pt_merged {
    uint32_t id, parent;          /* new ids; parent SYN__PT_NONE: no parent is written */
    uint32_t host;                /* index of the host node; for device work, the host node that
                                     launched it */
    uint32_t event;               /* device work: index of its event; otherwise SYN__PT_NONE */
    uint32_t cpu_event;           /* CPU event of the host node; SYN__PT_NONE: no times known */
    uint32_t inter_thread_dep;    /* new id; SYN__PT_NONE: none */
    uint32_t first_sync, n_syncs; /* sync_dep: range of the list's syncs; if it is empty, the key is
                                     not written */
    uint32_t ints;                /* SYN__PT_..._INT */
    double inclusive, exclusive, ts; /* µs; set if there is a cpu_event or an event */
} syn__pt_merged;

typedef struct syn__pt_merged_list {
    syn__pt_merged *nodes; /* ordered by id */
    size_t n_nodes, nodes_cap;
    uint32_t *syncs; /* new ids */
    size_t n_syncs, syncs_cap;
} syn__pt_merged_list;

void syn__pt_merged_free(syn__pt_merged_list *list);
/* Writes the linked trace as JSON in the format of json.dump(indent=4): the document of the host
   trace, with the nodes of the list. `device` is required if the list has device work. */
syn_status syn__pt_write_linked(const syn__pt_host *host, const syn__pt_device *device,
                                const syn__pt_merged_list *list, syn_sink *sink,
                                syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
