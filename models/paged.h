/* Internal. Packed steps with a paged KV cache (causal.h, "serving"): how layers use the caches and
 * the lengths of the step that is running. */
#ifndef MODELS_PAGED_H
#define MODELS_PAGED_H

#include "models/family_private.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Appends keys or values x (1, G, T, D) of the packed tokens to a cache (1, G, N, D), and replaces
 *cache by its new version, which it returns. */
syn_tensor syn__paged_append(syn_model *m, syn_tensor *cache, syn_tensor x, const char *label);
/* Attention of the step's sequences: queries (1, H, T, D), caches (1, G, N, D) -> (1, T, H D). */
syn_tensor syn__paged_attend(syn_model *m, syn_tensor q, syn_tensor k, syn_tensor v,
                             const syn_heads_options *how);

#ifdef __cplusplus
}
#endif
#endif
