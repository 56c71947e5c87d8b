/* Internal. The experts of a layer: a router chooses k of n MLPs for each token, and the token's
 * output is the weighted sum of theirs, plus the output of a shared expert if there is one. */
#ifndef MODELS_EXPERTS_H
#define MODELS_EXPERTS_H

#include "models/family_private.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__experts {
    syn_layer_linear router;         /* (n, C), whole on every rank */
    syn_tensor bias;                 /* (n), added to the scores for the choice; or invalid */
    syn_layer_linear gate, up, down; /* (n, F/tp, C) twice, (n, C, F/tp). If syn__model_dispatches:
                                      * (n/ep, F, C) twice, (n/ep, C, F) */
    /* The shared expert: (S/tp, C) twice, (C, S/tp). shared_factor: (1, C). */
    syn_layer_linear shared_gate, shared_up, shared_down, shared_factor;
} syn__experts;

/* Rows of a layer. at: the offset of its syn__experts. Then the names in checkpoints: of the router
 * and the three matrices, and of the shared expert. */
#define SYN__EXPERTS_AT(at_, member) ((at_) + offsetof(syn__experts, member))
#define SYN__EXPERTS_ROWS(at_, router_, gate_, up_, down_)                                        \
    {router_,                                                                                     \
     SYN__REPLICATED_LINEAR,                                                                      \
     SYN__DIM_HIDDEN,                                                                             \
     SYN__DIM_EXPERTS,                                                                            \
     .at = SYN__EXPERTS_AT(at_, router),                                                          \
     .flags = SYN__SPARSE | SYN__NO_BIAS},                                                        \
        {gate_,                                                                                   \
         SYN__EXPERTS_COLUMN,                                                                     \
         SYN__DIM_HIDDEN,                                                                         \
         SYN__DIM_EXPERT_INNER,                                                                   \
         .at = SYN__EXPERTS_AT(at_, gate),                                                        \
         .flags = SYN__SPARSE | SYN__NO_BIAS},                                                    \
        {up_,                                                                                     \
         SYN__EXPERTS_COLUMN,                                                                     \
         SYN__DIM_HIDDEN,                                                                         \
         SYN__DIM_EXPERT_INNER,                                                                   \
         .at = SYN__EXPERTS_AT(at_, up),                                                          \
         .flags = SYN__SPARSE | SYN__NO_BIAS},                                                    \
    {                                                                                             \
        down_, SYN__EXPERTS_ROW, SYN__DIM_EXPERT_INNER, SYN__DIM_HIDDEN,                          \
            .at = SYN__EXPERTS_AT(at_, down), .flags = SYN__SPARSE | SYN__NO_BIAS | SYN__RESIDUAL \
    }
#define SYN__SHARED_EXPERT_ROWS(at_, name_)                                          \
    {name_ ".gate_proj",                                                             \
     SYN__COLUMN_LINEAR,                                                             \
     SYN__DIM_HIDDEN,                                                                \
     SYN__DIM_SHARED_INNER,                                                          \
     .at = SYN__EXPERTS_AT(at_, shared_gate),                                        \
     .flags = SYN__SPARSE | SYN__SHARED | SYN__NO_BIAS},                             \
        {name_ ".up_proj",                                                           \
         SYN__COLUMN_LINEAR,                                                         \
         SYN__DIM_HIDDEN,                                                            \
         SYN__DIM_SHARED_INNER,                                                      \
         .at = SYN__EXPERTS_AT(at_, shared_up),                                      \
         .flags = SYN__SPARSE | SYN__SHARED | SYN__NO_BIAS},                         \
    {                                                                                \
        name_ ".down_proj", SYN__ROW_LINEAR, SYN__DIM_SHARED_INNER, SYN__DIM_HIDDEN, \
            .at = SYN__EXPERTS_AT(at_, shared_down),                                 \
            .flags = SYN__SPARSE | SYN__SHARED | SYN__NO_BIAS | SYN__RESIDUAL        \
    }

/* Whether each rank that shares the experts has different tokens in this pass. With tp, this is so
 * only if sequence parallelism divides the tokens among the tp ranks. */
bool syn__experts_divide_tokens(const syn_model *m);
/* The inside of a branch (syn__branch) that has no `out`. x (B, T, C) -> (B, T, C). i: number of
 * the layer within the part. */
syn_tensor syn__experts_run(syn_model *m, const syn__experts *experts, int64_t i, syn_tensor x);

#ifdef __cplusplus
}
#endif
#endif
