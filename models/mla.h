/* Internal. Multi-head latent attention (DeepSeek-AI 2024, "DeepSeek-V2", section 2.1). L is the
 * number of elements of a latent, R that of the rotary part of a head's queries and keys, N that of
 * the rest, and V that of a head's values. */
#ifndef MODELS_MLA_H
#define MODELS_MLA_H

#include "models/family_private.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__mla {
    syn_layer_linear q;        /* (H (N + R)/tp, C), if queries have no latent */
    syn_layer_linear q_a, q_b; /* (Q, C) and (H (N + R)/tp, Q), if they have one of Q elements */
    syn_layer_linear kv_a;     /* (L + R, C), whole on every rank like q_a */
    syn_layer_linear kv_b;     /* (H (N + V)/tp, L) */
    syn_layer_norm q_norm, kv_norm;
} syn__mla;

/* The inside of layer i's attention branch (syn__branch). Normalized x (B, T, C) -> (B, T, H
   V/tp). */
syn_tensor syn__mla_run(syn_model *m, const syn__mla *mla, int64_t i, syn_tensor x);
/* The factor of the scores in a model with latent attention. */
double syn__latent_scale(const syn_model_config *config);

#ifdef __cplusplus
}
#endif
#endif
