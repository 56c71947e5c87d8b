/* Collects what the traces record about one communication call. */
#ifndef EXPORT_PT_CALL_FACTS_H
#define EXPORT_PT_CALL_FACTS_H

#include "export/pytorch/rank/pt_rank.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__pt_properties {
    int kind;                                      /* kind of the call, SYN__PT_CALL_... */
    int64_t in_elems, out_elems, elem_bytes;       /* unknown: -1, elem_bytes 0 */
    int64_t sequence;                              /* -1: unknown */
    int64_t peer;                                  /* messages: index of the peer within the group;
                                                      -1: unknown */
    int64_t source, target;                        /* messages: global ranks; -1: unknown */
    int64_t tag;                                   /* messages: tag that the program passed; 0:
                                                      none */
    int64_t group_start, group_stride, group_size; /* -1: unknown */
    int64_t backend;                               /* a number that identifies the group; -1:
                                                      unknown */
    syn__str group, group_desc, group_ranks;       /* text of the JSON strings, not decoded; bytes
                                                      0: unknown */
    int64_t in_bytes, out_bytes;                   /* size of the input and output tensors; -1:
                                                      unknown */
    int64_t filled_elems; /* number of elements of the output tensors, for calls whose inputs are
                             not recorded; -1: unknown */
} syn__pt_properties;

/* Sets all fields to unknown. */
void syn__pt_properties_init(syn__pt_properties *properties);
/* The next three functions fill in fields that are still unknown. This one reads the args of a
   kernel or of a CPU event. */
void syn__pt_properties_from_event(syn__pt_properties *properties, const syn__pt_event *event);
/* Reads the inputs of a record_param_comms. */
void syn__pt_properties_from_record(syn__pt_properties *properties, const syn__pt_host_node *node);
/* Reads another op of the call: c10d::*, _c10d_functional::*, nccl:*, gloo:*, ... */
void syn__pt_properties_from_call(syn__pt_properties *properties, const syn__pt_host_node *node,
                                  syn__str name);
/* The kind of call of a record_param_comms op. */
int syn__pt_record_kind(const syn__pt_rank *rank, const syn__pt_op *op);

#ifdef __cplusplus
}
#endif
#endif
