/* Modules of a forward pass and of recomputed layers, as PyTorch's profiler records them with the
   option with_stack: a call such as "nn.Module: Attn_3" is a span in the main thread around the ops
   of scope "h.3.attn". A number in a scope belongs to the word before it: the modules of that scope
   are h.3 and h.3.attn; "h" alone is a list, which is never called. Spans are not ops, so execution
   traces do not contain them. */
#ifndef EXPORT_KINETO_MODULES_H
#define EXPORT_KINETO_MODULES_H

#include "syntorch/base/intern.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__kineto_module {
    int64_t start, end; /* ns */
    uint32_t path;      /* index into `paths`: "h.3.attn" */
    uint32_t parent;    /* the enclosing span, plus one; 0: none */
} syn__kineto_module;

typedef struct syn__kineto_instance {
    uint32_t class_name; /* index into `classes`: "Attn" */
    uint32_t number;     /* number within its class, in order of first calls */
} syn__kineto_instance;

typedef struct syn__kineto_modules {
    syn__kineto_module *spans; /* ordered by start */
    size_t n_spans, spans_cap;
    uint32_t open; /* the innermost open span, plus one; 0: none */
    syn_intern paths, classes;
    syn__kineto_instance *instances; /* per path */
    size_t instances_cap;
    uint32_t *counts; /* per class: number of instances */
    size_t counts_cap;
} syn__kineto_modules;

/* Returns the length of the scope up to the end of the module that begins at `from`. `from` is 0 or
   the end of another module. */
size_t syn__kineto_module_end(const char *scope, size_t from);

/* Converts "layer_norm" to "LayerNorm" without a NUL, truncated to out_bytes. Returns the number of
   bytes written. */
size_t syn__kineto_class(const char *word, size_t bytes, char *out, size_t out_bytes);

/* Closes the open spans that do not contain `scope`, and opens the missing spans that do. Each of
   these steps adds 1 ns to *now, so that the nesting is visible in the times. The scope "" closes
   all spans. */
syn_status syn__kineto_modules_enter(syn__kineto_modules *modules, const char *scope, int64_t *now,
                                     syn_error *err) SYN_MUST_USE;
void syn__kineto_modules_free(syn__kineto_modules *modules);

#ifdef __cplusplus
}
#endif
#endif
