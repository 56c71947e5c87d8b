/* Internal. Context parallelism: each rank of a group has some tokens of every sequence (ops.h:
 * syn_context_attention), so everything but attention and positions is the same as for whole
 * sequences. */
#ifndef MODELS_CONTEXT_PARALLEL_H
#define MODELS_CONTEXT_PARALLEL_H

#include "models/family_private.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Checks the options of a new model. */
syn_status syn__cp_check(const syn_model *m, syn_error *err);
/* The number of ranks that share the tokens of a sequence. */
int64_t syn__cp_ranks(const syn_model *m);
/* Whether this rank's T tokens of each sequence can be trained with this mask. If not, the context
 * fails. */
bool syn__cp_can_train(syn_model *m, int64_t tokens, syn_tensor mask);
/* Begins a forward pass. */
void syn__cp_count_pass(syn_model *m);
/* The positions (1, T) i32 of this rank's T tokens. */
syn_tensor syn__cp_positions(syn_model *m, int64_t tokens);
/* Attention of layer i: this rank's queries q (B, H, T, D) to all keys of their sequences, of which
 * this rank has k and v (B, G, T, D) -> (B, T, H D). how: attention of whole sequences. */
syn_tensor syn__cp_attend(syn_model *m, int64_t i, syn_tensor q, syn_tensor k, syn_tensor v,
                          const syn_heads_options *how);

#ifdef __cplusplus
}
#endif
#endif
