/* Causal language models: each token is predicted from the tokens before it, whose keys and values
   are cached. The same functions serve every causal family (syn_model_is_causal). */
#ifndef MODELS_CAUSAL_H
#define MODELS_CAUSAL_H

#include "models/model.h"
#include "ops/ops.h"

SYN_API_BEGIN

/* Begins a new batch of sequences at position 0: allocates zeroed KV caches (B, G/tp, max_tokens,
   D) for each layer, where G is the number of key/value heads, and frees the previous caches.
   max_tokens counts prompt and generated tokens together. Fails if it exceeds the model's
   positions. */
syn_status syn_causal_begin(syn_model *model, int64_t batch, int64_t max_tokens,
                            syn_error *err) SYN_MUST_USE;
/* Left padding, for sequences of different length in one batch: the first padding[b] tokens of
   sequence b are ignored, and its position 0 is the first token after them. Call it after
   syn_causal_begin and before the first syn_causal_forward. */
syn_status syn_causal_set_padding(syn_model *model, const int32_t *padding,
                                  syn_error *err) SYN_MUST_USE;
/* Computes the next T tokens of every sequence. x: the tokens, (B, T) i32. Returns the logits (B,
   V0) of each sequence's last token, in the model's dtype and the same on all ranks. A part of a
   model without the embedding gets the previous part's output, (B, T, C) in the same dtype. A part
   without the head returns the output of its last layer. The function releases its intermediate
   tensors; the caller releases the result. */
syn_tensor syn_causal_forward(syn_model *model, syn_tensor x);
/* Training loss of a whole model, a scalar. tokens and targets: (B, T) i32; each target is the
   token that follows, or SYN_IGNORED_TARGET. syn_cross_entropy defines the loss and `weight`.
   Neither needs nor changes the caches of syn_causal_begin. */
syn_tensor syn_causal_loss(syn_model *model, syn_tensor tokens, syn_tensor targets,
                           syn_tensor weight);
/* The same with masked tokens. mask: (B, T) f32, -infinity at tokens that other tokens must not
   attend to, else 0. Use it for padding before a sequence; padding after a sequence needs no mask,
   because causal attention hides it. */
syn_tensor syn_causal_loss_masked(syn_model *model, syn_tensor tokens, syn_tensor mask,
                                  syn_tensor targets, syn_tensor weight);
/* Training of a pipeline stage, which is a part of a model. x: the tokens if the part has the
   embedding, otherwise the output (B, T, C) of the previous stage. Returns the loss if the part has
   the head, otherwise (B, T, C) for the next stage. targets and weight are used only with the head.
   mask: as above, or SYN_NO_MASK. */
syn_tensor syn_causal_stage(syn_model *model, syn_tensor x, syn_tensor mask, syn_tensor targets,
                            syn_tensor weight);
/* The same for a part that may have layers for multi-token prediction (syn_model_part.mtp), which
   need the tokens (B, T) i32, whatever x is. Layer k predicts the token after the next k + 1
   tokens. Its loss is multiplied by 0.1 / mtp and added, as in Megatron-LM. */
syn_tensor syn_causal_stage_mtp(syn_model *model, syn_tensor x, syn_tensor tokens, syn_tensor mask,
                                syn_tensor targets, syn_tensor weight);
/* Number of tokens in the caches. */
int64_t syn_causal_position(const syn_model *model);

/* ---- serving: steps of a batch whose sequences come and go ---- */

/* One step. Each sequence in it gets one or more new tokens: one if it generates, or any part of
   its prompt. The caller divides the cache into sequences: it owns the list of free blocks, and
   says which blocks a sequence has. */
typedef struct syn_packed_step {
    int64_t n;              /* sequences, >= 1 */
    const int32_t *queries; /* (n): new tokens of each sequence, >= 1 */
    const int32_t *keys;    /* (n): tokens of each sequence after the step, >= queries */
    const int32_t *blocks;  /* (n, max_blocks): the cache blocks of each sequence, in order; entries
                               after the first ceil(keys / block_tokens) are ignored. NULL on
                               devices without data */
    int64_t max_blocks;     /* at least ceil(keys / block_tokens) of every sequence */
    const int32_t *rows; /* (n_rows): the packed tokens whose logits are returned, ascending; NULL
                            on devices without data */
    int64_t n_rows;      /* 0: none, for a step that only has parts of prompts */
} syn_packed_step;

/* Begins serving: allocates zeroed paged KV caches (1, G/tp, blocks * block_tokens, D) for each
   layer, which all sequences share (Kwon et al. 2023), and frees the previous caches. Until the
   next syn_causal_begin, steps must be packed. */
syn_status syn_causal_begin_paged(syn_model *model, int64_t blocks, int64_t block_tokens,
                                  syn_error *err) SYN_MUST_USE;
/* Computes a step: appends the keys and values of the new tokens to the blocks of their sequences,
   where those of the sequences' earlier tokens must be. x: the packed tokens (1, T) i32, T the sum
   of step->queries, the tokens of the first sequence first; or (1, T, C) for a part without the
   embedding. Returns the logits (n_rows, V0), in the model's dtype and the same on all ranks; a
   part without the head returns the output (1, T, C) of its last layer. Attention is always fused,
   and sequence parallelism is not used. Releases tensors like syn_causal_forward; *step is only
   used during the call. Ranks that share experts run their steps together. A rank without sequences
   then runs a step of one token in a block that it keeps for this purpose. Ranks with expert_dp
   (syn_model_options) must have the same T. */
syn_tensor syn_causal_forward_packed(syn_model *model, syn_tensor x, const syn_packed_step *step);

SYN_API_END
#endif
