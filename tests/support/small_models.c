/* Implements small_models.h: the two configurations, and text generation on a rank. */
#include "tests/support/small_models.h"

#include <stdio.h>
#include <stdlib.h>

#include "models/generate.h"
#include "syntorch/base/memory.h"

const syn_model_config small_gpt = {.family = &syn_gpt_family,
                                    .name = "small",
                                    .n_layer = 2,
                                    .n_embd = 32,
                                    .n_head = 8,
                                    .n_positions = 24,
                                    .n_inner = 96,
                                    .vocab_size = 257,
                                    .norm_epsilon = 1e-5,
                                    .initializer_range = 0.3,
                                    .activation = SYN_GELU_TANH,
                                    .tied = true};

const syn_model_config small_bert = {.family = &syn_bert_family,
                                     .name = "small",
                                     .n_layer = 2,
                                     .n_embd = 32,
                                     .n_head = 8,
                                     .n_positions = 24,
                                     .n_inner = 96,
                                     .vocab_size = 131,
                                     .n_types = 3,
                                     .norm_epsilon = 1e-12,
                                     .initializer_range = 0.3,
                                     .tied = true};

syn_model *model_alone(syn_device device, const syn_model_config *config,
                       const syn_model_options *how) {
    syn_error err = {0};
    syn_ctx *ctx = NULL;
    syn_model *model = NULL;
    if (syn_ctx_new(&ctx, device, NULL, &err) == SYN_OK &&
        syn_model_new(&model, ctx, config, how, &err) == SYN_OK)
        return model;
    fprintf(stderr, "no model: %s\n", err.text);
    abort();
}

syn_status model_end(syn_model *model, syn_error *err) {
    syn_ctx *ctx = syn_model_ctx(model);
    const syn_status s = syn_ctx_check(ctx, err);
    syn_model_free(model);
    syn_ctx_free(ctx);
    return s;
}

void model_drop(syn_model *model) {
    syn_error ignored = {0};
    (void)model_end(model, &ignored);
}

syn_status generation_rank(const test_rank *me, void *arg, syn_error *err) {
    const generation_job *job = arg;
    syn_model *model = NULL;
    const syn_model_options how = {.tp = me->tp, .fused_attention = job->fused, .seed = job->seed};
    SYN_TRY(syn_model_new(&model, me->ctx, &job->config, &how, err));
    syn_generation g = {.batch = job->batch,
                        .prompt_tokens = job->prompt,
                        .new_tokens = job->new_tokens,
                        .sampling = {0.8, 5, 0.9, job->seed, 0},
                        .want_logits = me->index == 0};
    const syn_status s = syn_generate(model, &g, err);
    syn_free(g.tokens);
    syn_free(g.logits);
    syn_model_free(model);
    return s;
}
