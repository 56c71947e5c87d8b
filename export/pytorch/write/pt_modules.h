/* Which call of an nn.Module each op was called in, where the profiler ran with_stack. */
#ifndef EXPORT_PT_MODULES_H
#define EXPORT_PT_MODULES_H

#include "export/pytorch/rank/pt_rank.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__pt_modules {
    uint32_t *of_op; /* per op: the event of the innermost module; SYN__PT_NONE. NULL: no modules */
    uint32_t *outer; /* per event of a module: the one around it */
} syn__pt_modules;

/* By time, thread by thread; an op of the backward pass is in the module of the op whose gradient
   it computes, device work in that of the op that launched it. Free *out in any case. */
syn_status syn__pt_modules_find(syn__pt_modules *out, const syn__pt_rank *rank,
                                syn_error *err) SYN_MUST_USE;
void syn__pt_modules_free(syn__pt_modules *modules);
/* Writes "Net_0/Block_1/Linear_0" to `text` unless it is NULL; gives the bytes, 0: in no module. */
size_t syn__pt_module_path(const syn__pt_rank *rank, const syn__pt_modules *modules, uint32_t op,
                           char *text);

#ifdef __cplusplus
}
#endif
#endif
