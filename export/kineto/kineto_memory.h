/* Memory used by a rank's tensors over time. A storage counts from the start of the op that first
   writes it to the end of the last op that uses it. Storages that no op writes count from the start
   of the run. Parameters, inputs, states and storages that no op reads count until the end of the
   run. Views and new versions use no memory. The result is what the step needs; an allocator that
   caches buffers uses more. */
#ifndef EXPORT_KINETO_MEMORY_H
#define EXPORT_KINETO_MEMORY_H

#include "export/kineto/kineto_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__kineto_change {
    int64_t ns, bytes; /* bytes < 0: released */
    uint32_t tensor;   /* the tensor that owns the storage */
    uint32_t event;    /* index of the event whose op begins (allocation) or has ended (release) */
} syn__kineto_change;

typedef struct syn__kineto_memory {
    int64_t before;              /* bytes in use at the start */
    syn__kineto_change *changes; /* ordered by time */
    size_t n_changes, changes_cap;
} syn__kineto_memory;

syn_status syn__kineto_memory_find(syn__kineto_memory *out, const syn__kineto_plan *plan,
                                   syn__walk *walk, syn_error *err) SYN_MUST_USE;
void syn__kineto_memory_free(syn__kineto_memory *memory);

#ifdef __cplusplus
}
#endif
#endif
