/* Finding communications in a rank's ops: names and their kinds, what a kernel and a host op tell
   about one call, the groups of the rank. Shared by pt_comm*.c and pt_groups.c only. */
#ifndef EXPORT_PT_COMM_H
#define EXPORT_PT_COMM_H

#include "export/pytorch/rank/pt_rank.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Kinds and element types (pt_comm_kind.c) ---- */

/* Kinds of calls: the values of CollectiveCommType, 0..9, and beside them: */
enum {
    SYN__PT_CALL_ALL_REDUCE = 0,
    SYN__PT_CALL_REDUCE,
    SYN__PT_CALL_ALL_GATHER,
    SYN__PT_CALL_GATHER,
    SYN__PT_CALL_SCATTER,
    SYN__PT_CALL_BROADCAST,
    SYN__PT_CALL_ALL_TO_ALL,
    SYN__PT_CALL_REDUCE_SCATTER,
    SYN__PT_CALL_BARRIER = 9,
    SYN__PT_CALL_SEND = 16,
    SYN__PT_CALL_RECV = 17,
    SYN__PT_CALL_UNKNOWN = -1,
    SYN__PT_CALL_NONE = -2 /* communicates nothing: wait, init, coalesced */
};

/* The kind that a name stands for, in any of PyTorch's spellings: "allreduce",
   "nccl:_all_gather_base", "c10d::alltoall_base_", "nccl:send 0->1". */
int syn__pt_call_kind(syn__str name);
/* Whether a name is of a communication library's own op: "nccl:all_reduce", "gloo:send". */
bool syn__pt_is_library_call(syn__str name);
/* The kind that a kernel's name tells; SYN__PT_CALL_SEND for ncclDevKernel_SendRecv, which sends,
   receives, or does both. */
int syn__pt_kernel_kind(syn__str name);
/* Whether a kernel is one of NCCL or RCCL, by its name. */
bool syn__pt_is_nccl(syn__str name);
/* Bytes of an element of a ScalarType ("BFloat16", "c10::Half", "long int"); 0 unknown. */
int64_t syn__pt_dtype_bytes(syn__str name);
/* pt_cost.c, of a node made of a device trace's op: bytes of its first max_tensors tensors; -1
 * none. */
int64_t syn__file_text_bytes(const syn__pt_host_node *node, size_t max_tensors);

/* ---- A value's text in tokens (pt_scan.c) ---- */

/* Reads JSON and Python's repr of it alike, without nesting: commas, colons and space are passed
   over. */
typedef struct syn__pt_scan {
    const char *cur, *end;
    bool is_key; /* the last string or word stands before a colon */
} syn__pt_scan;

syn__pt_scan syn__pt_scan_of(syn__str text);
/* The next token: '[', ']', '{', '}', 's' a string (without quotes, undecoded), 'w' a number or
   word; 0 at the end. */
char syn__pt_scan_next(syn__pt_scan *scan, syn__str *text);
/* Over the rest of the bracket that was just read. */
void syn__pt_scan_leave(syn__pt_scan *scan);
/* The integer that a token is; false for anything else. */
bool syn__pt_scan_i64(syn__str text, int64_t *out);
/* Bytes of all tensors [id, storage, offset, elements, bytes each, "device"] within a value; -1 if
   there is none. Sticks at INT64_MAX. */
int64_t syn__pt_tensor_bytes(syn__str value);
/* a * b of sizes; INT64_MAX when too large. */
int64_t syn__pt_times(int64_t a, int64_t b);

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
