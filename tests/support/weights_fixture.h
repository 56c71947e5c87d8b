/* Shared by the tests of weights: an independent decoder for the checkpoints of tests/reference
   (see README.md there), and models whose parameters come from a checkpoint. */
#ifndef TESTS_WEIGHTS_FIXTURE_H
#define TESTS_WEIGHTS_FIXTURE_H

#include "comm/comm.h"
#include "models/weights/weights_private.h"
#include "syntorch/base/half.h"
#include "syntorch/base/memory.h"
#include "syntorch/mesh.h"
#include "tests/support/bert_reference.h"
#include "tests/support/files.h"
#include "tests/support/small_models.h"
#include "tests/support/tensor_files.h"

/* A checkpoint in tests/reference. */
typedef struct checkpoint {
    const char *folder;
    const syn_model_family *family;
    syn_dtype dtype;
    const char *prefix; /* of the names in the file, except those of heads */
    bool old_names;     /* norms have gamma and beta instead of weight and bias */
    unsigned heads;     /* BERT's heads that the file has */
} checkpoint;

static const checkpoint checkpoints[] = {
    {"tiny_gpt2_f32", &syn_gpt_family, SYN_F32, "transformer.", false, 0},
    {"tiny_gpt2_f32_untied", &syn_gpt_family, SYN_F32, "transformer.", false, 0},
    {"tiny_gpt2_bf16", &syn_gpt_family, SYN_BF16, "transformer.", false, 0},
    {"tiny_gpt2_f16", &syn_gpt_family, SYN_F16, "transformer.", false, 0},
    {"tiny_gpt2_f16_shards", &syn_gpt_family, SYN_F16, "transformer.", false, 0},
    {"tiny_gpt2_f16_old", &syn_gpt_family, SYN_F16, "", false, 0},
    {"tiny_bert_f32", &syn_bert_family, SYN_F32, "bert.", false, ALL_HEADS},
    {"tiny_bert_bf16", &syn_bert_family, SYN_BF16, "bert.", false, ALL_HEADS},
    {"tiny_bert_bf16_bare", &syn_bert_family, SYN_BF16, "", false, SYN_BERT_POOLER},
    {"tiny_bert_f16", &syn_bert_family, SYN_F16, "bert.", false, SYN_BERT_MLM},
    {"tiny_bert_f16_old", &syn_bert_family, SYN_F16, "bert.", true, ALL_HEADS},
};

enum { CHECKPOINTS = sizeof checkpoints / sizeof checkpoints[0] };

/* Element i of a tensor in a file, by the definitions of binary32, binary16 and bfloat16. */
float decode(const syn_safetensors_tensor *t, int64_t i);

/* Fills the parameters of a model from the file. Returns false if a tensor is missing or has
   another number of elements. */
bool decode_all(const checkpoint *c, const syn_safetensors *st, ref_model *m);

/* Reads the checkpoint's config.json. */
syn_status checkpoint_config(const checkpoint *c, syn_model_config *config, syn_error *err);

/* Creates the checkpoint's model in a new context, with the parameters of `weights` (NULL: random
   parameters). The caller frees the model and the context, even after a failure. */
syn_status checkpoint_load(const checkpoint *c, syn_model **model, syn_ctx **ctx, syn_comm *comm,
                           const syn_weights *weights, syn_dtype dtype, syn_error *err);

#endif
