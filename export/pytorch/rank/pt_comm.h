/* Finding communications in a rank's ops: names and their kinds, what a kernel and a host op tell
   about one call, the groups of the rank. Shared by pt_comm*.c and pt_groups.c only. */
#ifndef EXPORT_PT_COMM_H
#define EXPORT_PT_COMM_H

#include "export/pytorch/rank/pt_rank.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- What is told about one call (pt_told.c) ---- */

typedef struct syn__pt_told {
    int kind;                                      /* SYN__PT_CALL_... */
    int64_t in_elems, out_elems, elem_bytes;       /* -1, elem_bytes 0: not told */
    int64_t sequence;                              /* -1 */
    int64_t peer;                                  /* of a message: its rank within the group; -1 */
    int64_t source, target;                        /* ... global ranks; -1 */
    int64_t tag;                                   /* ... of the program; 0 */
    int64_t group_start, group_stride, group_size; /* -1 */
    int64_t backend;                               /* a number that stands for the group; -1 */
    syn__str group, group_desc, group_ranks;       /* undecoded; bytes 0: not told */
    int64_t in_bytes, out_bytes;                   /* of the tensors; -1 none */
} syn__pt_told;

void syn__pt_told_init(syn__pt_told *told);
/* Each adds what is not told yet. */
void syn__pt_told_event(syn__pt_told *told, const syn__pt_event *event);
void syn__pt_told_record(syn__pt_told *told, const syn__pt_host_node *node); /* ..._param_comms */
int syn__pt_record_kind(const syn__pt_rank *rank, const syn__pt_op *op);
/* c10d::*, _c10d_functional::*, nccl:*, gloo:*, ... */
void syn__pt_told_call(syn__pt_told *told, const syn__pt_host_node *node, syn__str name);

/* ---- Groups (pt_groups.c) ---- */

typedef struct syn__pt_group_finder {
    syn__pt_rank *rank;
    syn__pt_report *report;
    syn_error *err;
    syn__pt_map names;       /* hash of the name: index into groups */
    syn__pt_map backends;    /* number of a backend: index into groups */
    syn__str *last;          /* per group: the list of ranks seen last */
    uint8_t *source, *clash; /* per group: who told its ranks; a conflict was counted */
    size_t last_cap, source_cap, clash_cap;
} syn__pt_group_finder;

/* Groups of process_group:init nodes and of distributedInfo. */
syn_status syn__pt_groups_open(syn__pt_group_finder *finder, syn__pt_rank *rank,
                               syn__pt_report *report, syn_error *err) SYN_MUST_USE;
/* The group of a call: an index, or SYN__PT_NONE. */
syn_status syn__pt_groups_find(syn__pt_group_finder *finder, const syn__pt_told *told,
                               uint32_t *group) SYN_MUST_USE;
/* Lists of ranks that follow from the size of the world. */
syn_status syn__pt_groups_finish(syn__pt_group_finder *finder) SYN_MUST_USE;
void syn__pt_groups_close(syn__pt_group_finder *finder);

#ifdef __cplusplus
}
#endif
#endif
