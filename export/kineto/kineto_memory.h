/* How much memory a rank's tensors take over time: a tensor's storage from the begin of the op that
   first writes it to the end of the last op that is given it; parameters, inputs, and what else is
   there before, from the begin, and what no op reads, to the end. Views and new versions take
   nothing. That is what the step needs: an allocator that keeps buffers takes more. */
#ifndef EXPORT_KINETO_MEMORY_H
#define EXPORT_KINETO_MEMORY_H

#include "export/kineto/kineto_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__kineto_change {
    int64_t ns, bytes; /* bytes < 0: given back */
    uint32_t tensor;   /* the one that owns the storage */
    uint32_t event;    /* index, of the op that begins or has ended */
} syn__kineto_change;

typedef struct syn__kineto_memory {
    int64_t before;              /* bytes that are there at the begin */
    syn__kineto_change *changes; /* by time */
    size_t n_changes, changes_cap;
} syn__kineto_memory;

syn_status syn__kineto_memory_find(syn__kineto_memory *out, const syn__kineto_plan *plan,
                                   syn__walk *walk, syn_error *err) SYN_MUST_USE;
void syn__kineto_memory_free(syn__kineto_memory *memory);

#ifdef __cplusplus
}
#endif
#endif
