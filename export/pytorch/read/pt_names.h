/* Interprets the names of calls and dtypes in all spellings that PyTorch has used. */
#ifndef EXPORT_PT_NAMES_H
#define EXPORT_PT_NAMES_H

#include "export/chakra/wire/et_numbers.h"
#include "export/text/bytes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of calls. The first ones are the values of CollectiveCommType (0 to 9). */
enum {
    SYN__PT_CALL_ALL_REDUCE = SYN__ET_ALL_REDUCE,
    SYN__PT_CALL_REDUCE = SYN__ET_REDUCE,
    SYN__PT_CALL_ALL_GATHER = SYN__ET_ALL_GATHER,
    SYN__PT_CALL_GATHER = SYN__ET_GATHER,
    SYN__PT_CALL_SCATTER = SYN__ET_SCATTER,
    SYN__PT_CALL_BROADCAST = SYN__ET_BROADCAST,
    SYN__PT_CALL_ALL_TO_ALL = SYN__ET_ALL_TO_ALL,
    SYN__PT_CALL_REDUCE_SCATTER = SYN__ET_REDUCE_SCATTER,
    SYN__PT_CALL_BARRIER = SYN__ET_BARRIER,
    SYN__PT_CALL_SEND = 16,
    SYN__PT_CALL_RECV = 17,
    SYN__PT_CALL_UNKNOWN = -1,
    SYN__PT_CALL_NONE = -2 /* the call does not communicate: wait, init, coalesced */
};

/* The kind of the call that has this name, such as "allreduce", "nccl:_all_gather_base",
   "c10d::alltoall_base_" or "nccl:send 0->1". */
int syn__pt_call_kind(syn__str name);
/* Whether this is the name of an op of a communication library, such as "nccl:all_reduce" or
   "gloo:send". */
bool syn__pt_is_library_call(syn__str name);
/* Whether this is the name of an op that communicates, or that calls such an op: a library's op,
   c10d::*, _c10d_functional::*, record_param_comms. Ops that wait are not included. */
bool syn__pt_is_call(syn__str name);
/* Whether a node of this name describes process groups. */
static inline bool syn__pt_describes_groups(syn__str name) {
    return syn__str_has(name, "process_group:init");
}
/* Bytes per element of a ScalarType ("BFloat16", "c10::Half", "long int"); 0: unknown. */
int64_t syn__pt_dtype_bytes(syn__str name);

#ifdef __cplusplus
}
#endif
#endif
