/* GPT: the decoder-only transformer of GPT-2 (Radford et al. 2019) and GPT-3 (Brown et al. 2020),
   cut for tensor parallelism: heads of the attention, columns then rows of the MLP, rows of the
   vocabulary. Pre-layernorm, learned positions, KV cache. */
#ifndef MODELS_GPT_H
#define MODELS_GPT_H

#include "models/gpt_config.h"
#include "models/layers.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn_gpt syn_gpt;

typedef struct syn_gpt_options {
    const syn_group *tp;    /* ranks that share every layer; NULL: one holds all */
    bool fused_attention;   /* one op instead of product, mask, softmax, product */
    uint64_t seed;          /* of the random weights: the same full model for any tp */
    syn_dtype weight_dtype; /* of matrices and the token table: f32, f16 or bf16; all else is f32 */
    void (*progress)(void *user, int64_t done,
                     int64_t of); /* called as layers are made; NULL: not */
    void *progress_user;
} syn_gpt_options;

/* Makes the parameters (and on the CPU fills them). The context must outlive the model. */
syn_status syn_gpt_new(syn_gpt **out, syn_ctx *ctx, const syn_gpt_config *config,
                       const syn_gpt_options *options, syn_error *err) SYN_MUST_USE;
void syn_gpt_free(syn_gpt *gpt);
const syn_gpt_config *syn_gpt_get_config(const syn_gpt *gpt);
syn_ctx *syn_gpt_ctx(const syn_gpt *gpt);
const syn_group *syn_gpt_tp(const syn_gpt *gpt);

/* Begins new sequences: KV caches (B, H/tp, max_tokens, D) for each layer, position 0; the caches
   of earlier ones are given back. max_tokens is prompt and generated tokens together. Fails when it
   exceeds the model's positions. */
syn_status syn_gpt_begin(syn_gpt *gpt, int64_t batch, int64_t max_tokens,
                         syn_error *err) SYN_MUST_USE;
/* Sequences of different length in one batch, which end together: the first padding[b] tokens of
   sequence b count for nothing, and its positions from the first behind them. Call it after
   syn_gpt_begin. */
syn_status syn_gpt_set_padding(syn_gpt *gpt, const int32_t *padding, syn_error *err) SYN_MUST_USE;
/* tokens (B, T) i32, the next T of every sequence -> logits (B, V0) f32 of the last of them, the
   same on all ranks. Intermediate data are released, the logits stay until the caller releases
   them. */
syn_tensor syn_gpt_forward(syn_gpt *gpt, syn_tensor tokens);
/* Tokens in the caches. */
int64_t syn_gpt_position(const syn_gpt *gpt);

#ifdef __cplusplus
}
#endif
#endif
