/* Internal. The experts of a layer: a router chooses k of n MLPs for each token, and the token's
 * output is the weighted sum of theirs. */
#ifndef MODELS_EXPERTS_H
#define MODELS_EXPERTS_H

#include "models/family_private.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__experts {
    syn_layer_linear router;         /* (n, C), whole on every rank */
    syn_layer_linear gate, up, down; /* (n, F/tp, C) twice, (n, C, F/tp). If syn__model_dispatches:
                                      * (n/ep, F, C) twice, (n/ep, C, F) */
} syn__experts;

/* x (B, T, C), all tokens on every rank -> (B, T, C), this rank's partial sum of the experts'
 * outputs. If syn__model_dispatches: this rank's tokens -> the experts' outputs for them. */
syn_tensor syn__experts_run(syn_model *m, const syn__experts *experts, syn_tensor x);

#ifdef __cplusplus
}
#endif
#endif
