/* What the traces say about one call. */
#ifndef EXPORT_PT_CALL_FACTS_H
#define EXPORT_PT_CALL_FACTS_H

#include "export/pytorch/rank/pt_rank.h"

#ifdef __cplusplus
extern "C" {
#endif

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

#ifdef __cplusplus
}
#endif
#endif
