/* Finds the nn.Module call in which each op ran. The profiler records these calls only with
   with_stack. */
#ifndef EXPORT_PT_MODULES_H
#define EXPORT_PT_MODULES_H

#include "export/pytorch/rank/pt_rank.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__pt_modules {
    uint32_t *of_op; /* per op: the event of the innermost module around it; SYN__PT_NONE: none.
                        NULL: the trace has no modules */
    uint32_t *outer; /* per event of a module: the event of the enclosing module; SYN__PT_NONE:
                        none */
} syn__pt_modules;

/* Finds the modules by time, separately for each thread. An op of the backward pass is in the
   module of its forward op, and device work is in the module of the op that launched it. The caller
   calls syn__pt_modules_free in all cases. */
syn_status syn__pt_modules_find(syn__pt_modules *out, const syn__pt_rank *rank,
                                syn_error *err) SYN_MUST_USE;
void syn__pt_modules_free(syn__pt_modules *modules);
/* Writes the path of the op's module, such as "Net_0/Block_1/Linear_0", to `text`, which may be
   NULL. Returns its length; 0: the op is in no module. */
size_t syn__pt_module_path(const syn__pt_rank *rank, const syn__pt_modules *modules, uint32_t op,
                           char *text);

#ifdef __cplusplus
}
#endif
#endif
