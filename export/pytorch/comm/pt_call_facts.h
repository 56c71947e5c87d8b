/* What the traces say about one call. */
#ifndef EXPORT_PT_CALL_FACTS_H
#define EXPORT_PT_CALL_FACTS_H

#include "export/pytorch/rank/pt_rank.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__pt_facts {
    int kind;                                      /* SYN__PT_CALL_... */
    int64_t in_elems, out_elems, elem_bytes;       /* -1, elem_bytes 0: not known */
    int64_t sequence;                              /* -1 */
    int64_t peer;                                  /* of a message: its rank within the group; -1 */
    int64_t source, target;                        /* ... global ranks; -1 */
    int64_t tag;                                   /* ... of the program; 0 */
    int64_t group_start, group_stride, group_size; /* -1 */
    int64_t backend;                               /* a number that stands for the group; -1 */
    syn__str group, group_desc, group_ranks;       /* undecoded; bytes 0: not known */
    int64_t in_bytes, out_bytes;                   /* of the tensors; -1 none */
    int64_t
        filled_elems; /* of the tensors that a call fills, where what it reads is not told; -1 */
} syn__pt_facts;

/* Nothing is known. */
void syn__pt_facts_init(syn__pt_facts *facts);
/* Each adds what is not known yet: from a kernel's args, or those of a CPU event; ... */
void syn__pt_facts_from_event(syn__pt_facts *facts, const syn__pt_event *event);
/* ... from a record_param_comms; ... */
void syn__pt_facts_from_record(syn__pt_facts *facts, const syn__pt_host_node *node);
/* ... from another op of the call: c10d::*, _c10d_functional::*, nccl:*, gloo:*, ... */
void syn__pt_facts_from_call(syn__pt_facts *facts, const syn__pt_host_node *node, syn__str name);
/* The kind of call that a record_param_comms is of. */
int syn__pt_record_kind(const syn__pt_rank *rank, const syn__pt_op *op);

#ifdef __cplusplus
}
#endif
#endif
