/* What names mean, in all of PyTorch's spellings: kinds of calls, dtypes. */
#ifndef EXPORT_PT_NAMES_H
#define EXPORT_PT_NAMES_H

#include "export/chakra/wire/et_numbers.h"
#include "export/text/bytes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of calls: the values of CollectiveCommType (0 to 9), and additional ones: */
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
    SYN__PT_CALL_NONE = -2 /* does not communicate: wait, init, coalesced */
};

/* The kind of call that a name means: "allreduce", "nccl:_all_gather_base", "c10d::alltoall_base_",
   "nccl:send 0->1". */
int syn__pt_call_kind(syn__str name);
/* Whether this is the name of a communication library's op: "nccl:all_reduce", "gloo:send". */
bool syn__pt_is_library_call(syn__str name);
/* Whether this is the name of an op that communicates or calls one that does: a library's op,
   c10d::*, _c10d_functional::*, record_param_comms; but not an op that waits. */
bool syn__pt_is_call(syn__str name);
/* Whether a node of that name describes process groups. */
static inline bool syn__pt_describes_groups(syn__str name) {
    return syn__str_has(name, "process_group:init");
}
/* Bytes per element of a ScalarType ("BFloat16", "c10::Half", "long int"); 0: unknown. */
int64_t syn__pt_dtype_bytes(syn__str name);

#ifdef __cplusplus
}
#endif
#endif
