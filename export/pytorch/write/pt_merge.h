/* A host trace and a device trace merged: the host's nodes, behind each the device work it
   launched, in the order of their new ids. How they were matched does not matter here. */
#ifndef EXPORT_PT_MERGE_H
#define EXPORT_PT_MERGE_H

#include "export/pytorch/read/pt_device.h"
#include "export/pytorch/read/pt_host.h"
#include "syntorch/base/sink.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Times that are written as integers. */
enum { SYN__PT_INCLUSIVE_INT = 1, SYN__PT_EXCLUSIVE_INT = 2, SYN__PT_TS_INT = 4 };

typedef struct syn__pt_merged {
    uint32_t id, parent;          /* new ones; parent SYN__PT_NONE: none is written */
    uint32_t host;                /* index of the host node; of device work that of its launcher */
    uint32_t event;               /* of device work: index of its event; else SYN__PT_NONE */
    uint32_t cpu_event;           /* that of the host node, SYN__PT_NONE: no times are known */
    uint32_t inter_thread_dep;    /* new id, SYN__PT_NONE */
    uint32_t first_sync, n_syncs; /* sync_dep: into the list's syncs; none: no such key */
    uint32_t ints;                /* SYN__PT_..._INT */
    double inclusive, exclusive, ts; /* µs, when cpu_event or event is there */
} syn__pt_merged;

typedef struct syn__pt_merged_list {
    syn__pt_merged *nodes; /* ascending by id */
    size_t n_nodes, nodes_cap;
    uint32_t *syncs; /* new ids */
    size_t n_syncs, syncs_cap;
} syn__pt_merged_list;

void syn__pt_merged_free(syn__pt_merged_list *list);
/* The linked trace as JSON, as json.dump(indent=4) writes it: the host's document with the list's
   nodes. `device` is needed if the list has device work. */
syn_status syn__pt_write_linked(const syn__pt_host *host, const syn__pt_device *device,
                                const syn__pt_merged_list *list, syn_sink *sink,
                                syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
