/* The nn.Module call in which each op ran, if the profiler used with_stack. */
#ifndef EXPORT_PT_MODULES_H
#define EXPORT_PT_MODULES_H

#include "export/pytorch/rank/pt_rank.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__pt_modules {
    uint32_t *of_op; /* per op: event of the innermost module; SYN__PT_NONE: none. NULL: there are
                        no modules */
    uint32_t *outer; /* per event of a module: the enclosing one */
} syn__pt_modules;

/* Finds modules by time, thread by thread. An op of the backward pass is in the module of its
   forward op, device work in the module of the op that launched it. Call syn__pt_modules_free in
   all cases. */
syn_status syn__pt_modules_find(syn__pt_modules *out, const syn__pt_rank *rank,
                                syn_error *err) SYN_MUST_USE;
void syn__pt_modules_free(syn__pt_modules *modules);
/* Writes "Net_0/Block_1/Linear_0" to `text`, which may be NULL. Returns its length; 0: in no
   module. */
size_t syn__pt_module_path(const syn__pt_rank *rank, const syn__pt_modules *modules, uint32_t op,
                           char *text);

#ifdef __cplusplus
}
#endif
#endif
