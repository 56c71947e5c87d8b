/* The modules of a forward pass, and of its layers when they are computed again, as PyTorch's
   profiler shows them with stacks: spans of the calls "nn.Module: Attn_3" around the ops of scope
   "h.3.attn", in the main thread. A number belongs to the word before it: the modules of that scope
   are h.3 and h.3.attn; "h" alone is a list, which is not called. Spans are no ops: an execution
   trace does not have them. */
#ifndef EXPORT_KINETO_MODULES_H
#define EXPORT_KINETO_MODULES_H

#include "syntorch/base/intern.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__kineto_module {
    int64_t start, end; /* ns */
    uint32_t path;      /* of `paths`: "h.3.attn" */
    uint32_t parent;    /* the span around it, plus one; 0: none */
} syn__kineto_module;

typedef struct syn__kineto_instance {
    uint32_t class_name; /* of `classes`: "Attn" */
    uint32_t number;     /* of its class, in the order of first calls */
} syn__kineto_instance;

typedef struct syn__kineto_modules {
    syn__kineto_module *spans; /* in the order in which they begin */
    size_t n_spans, spans_cap;
    uint32_t open; /* the innermost open span, plus one; 0: none */
    syn_intern paths, classes;
    syn__kineto_instance *instances; /* per path */
    size_t instances_cap;
    uint32_t *counts; /* instances per class */
    size_t counts_cap;
} syn__kineto_modules;

/* Bytes of the scope up to the end of the module behind `from` bytes of it, which are a module's or
   0. */
size_t syn__kineto_module_end(const char *scope, size_t from);

/* "layer_norm" -> "LayerNorm", without a NUL, cut where the room ends; the bytes written. */
size_t syn__kineto_class(const char *word, size_t bytes, char *out, size_t out_bytes);

/* Closes spans that the scope is not in and opens those that it is in, each taking 1 ns of *now, so
   that times say what is within. "" closes all. */
syn_status syn__kineto_modules_enter(syn__kineto_modules *modules, const char *scope, int64_t *now,
                                     syn_error *err) SYN_MUST_USE;
void syn__kineto_modules_free(syn__kineto_modules *modules);

#ifdef __cplusplus
}
#endif
#endif
