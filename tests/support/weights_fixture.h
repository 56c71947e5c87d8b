/* Shared by the tests of weights: the checkpoints of tests/reference (see its README.md), decoded
   here a second time, and contexts whose parameters come from a checkpoint. */
#ifndef TESTS_WEIGHTS_FIXTURE_H
#define TESTS_WEIGHTS_FIXTURE_H

#include "comm/comm.h"
#include "models/weights_private.h"
#include "syntorch/half.h"
#include "syntorch/memory.h"
#include "syntorch/mesh.h"
#include "tests/support/bert_reference.h"
#include "tests/support/safetensors_fixture.h"

#define ALL_HEADS (SYN_BERT_POOLER | SYN_BERT_MLM | SYN_BERT_NSP)

typedef struct checkpoint {
    const char *folder;
    syn_weights_kind kind;
    syn_dtype dtype;
    const char *prefix;
    bool old_names;
    unsigned heads;
} checkpoint;

static const checkpoint checkpoints[] = {
    {"tiny_gpt2_f32", SYN_WEIGHTS_GPT2, SYN_F32, "transformer.", false, 0},
    {"tiny_gpt2_f32_untied", SYN_WEIGHTS_GPT2, SYN_F32, "transformer.", false, 0},
    {"tiny_gpt2_bf16", SYN_WEIGHTS_GPT2, SYN_BF16, "transformer.", false, 0},
    {"tiny_gpt2_f16", SYN_WEIGHTS_GPT2, SYN_F16, "transformer.", false, 0},
    {"tiny_gpt2_f16_shards", SYN_WEIGHTS_GPT2, SYN_F16, "transformer.", false, 0},
    {"tiny_gpt2_f16_old", SYN_WEIGHTS_GPT2, SYN_F16, "", false, 0},
    {"tiny_bert_f32", SYN_WEIGHTS_BERT, SYN_F32, "bert.", false, ALL_HEADS},
    {"tiny_bert_bf16", SYN_WEIGHTS_BERT, SYN_BF16, "bert.", false, ALL_HEADS},
    {"tiny_bert_bf16_bare", SYN_WEIGHTS_BERT, SYN_BF16, "", false, SYN_BERT_POOLER},
    {"tiny_bert_f16", SYN_WEIGHTS_BERT, SYN_F16, "bert.", false, SYN_BERT_MLM},
    {"tiny_bert_f16_old", SYN_WEIGHTS_BERT, SYN_F16, "bert.", true, ALL_HEADS},
};
enum { CHECKPOINTS = sizeof checkpoints / sizeof checkpoints[0] };

static inline const char *checkpoint_path(const checkpoint *c, const char *file) {
    static _Thread_local char paths[4][600]; /* ranks call this */
    static _Thread_local int next;
    char *path = paths[next++ % 4];
    const char *source = getenv("SYN_SOURCE");
    snprintf(path, sizeof paths[0], "%.400s/tests/reference/%s%s", source ? source : ".", c->folder,
             file);
    return path;
}

/* Element i of a tensor of a file: by the definitions of binary32, binary16 and bfloat16. */
static inline float decode(const syn_safetensors_tensor *t, int64_t i) {
    const unsigned char *p = (const unsigned char *)t->data + i * (t->dtype == SYN_F32 ? 4 : 2);
    float f;
    if (t->dtype == SYN_F32) {
        memcpy(&f, p, 4);
        return f;
    }
    const uint32_t h = p[0] + 256u * p[1];
    if (t->dtype == SYN_BF16) {
        const uint32_t bits = h << 16;
        memcpy(&f, &bits, 4);
        return f;
    }
    const int exponent = (int)(h >> 10 & 31), fraction = (int)(h & 1023);
    const double magnitude =
        exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return (float)(h >> 15 ? -magnitude : magnitude);
}

/* The name that a parameter has in the file. */
static inline void file_name(const checkpoint *c, const char *parameter, char out[160]) {
    const bool bare = strncmp(parameter, "cls.", 4) == 0 || strncmp(parameter, "lm_head", 7) == 0;
    snprintf(out, 160, "%s%s", bare ? "" : c->prefix, parameter);
    char *norm = c->old_names ? strstr(out, "LayerNorm.") : NULL;
    if (norm) strcpy(norm + 10, ref_ends(parameter, "weight") ? "gamma" : "beta");
}

/* Fills a model's parameters from the file; false if one is not there as it should be. */
static inline bool decode_all(const checkpoint *c, const syn_safetensors *st, ref_model *m) {
    for (int i = 0; i < m->n_params; i++) {
        ref_param *p = &m->params[i];
        char name[160];
        file_name(c, p->name, name);
        const syn_safetensors_tensor *t = syn_safetensors_find(st, name);
        if (!t || t->elems != p->rows * p->columns) return false;
        for (int64_t k = 0; k < t->elems; k++) p->data[k] = decode(t, k);
    }
    return true;
}

/* Either model in one type. */
typedef struct any_model {
    syn_weights_kind kind;
    syn_gpt_config gpt_config;
    syn_bert_config bert_config;
    unsigned heads;
    syn_gpt *gpt;
    syn_bert *bert;
} any_model;

static inline syn_status any_configure(any_model *m, const checkpoint *c, syn_error *err) {
    const char *path = checkpoint_path(c, "/config.json");
    *m = (any_model){.kind = c->kind, .heads = c->heads};
    return c->kind == SYN_WEIGHTS_GPT2 ? syn_gpt_config_load(&m->gpt_config, path, err)
                                       : syn_bert_config_load(&m->bert_config, path, err);
}

static inline syn_status any_new(any_model *m, syn_ctx *ctx, const syn_group *tp, syn_dtype dtype,
                                 syn_error *err) {
    const syn_gpt_options gpt = {.tp = tp, .seed = 3, .weight_dtype = dtype};
    const syn_bert_options bert = {.tp = tp, .seed = 3, .weight_dtype = dtype, .heads = m->heads};
    return m->kind == SYN_WEIGHTS_GPT2 ? syn_gpt_new(&m->gpt, ctx, &m->gpt_config, &gpt, err)
                                       : syn_bert_new(&m->bert, ctx, &m->bert_config, &bert, err);
}

static inline void any_free(any_model *m) {
    syn_gpt_free(m->gpt);
    syn_bert_free(m->bert);
    m->gpt = NULL;
    m->bert = NULL;
}

/* Makes a model in a context of its own with the parameters of `weights` (NULL: random). */
static inline syn_status any_load(any_model *m, syn_ctx **ctx, syn_comm *comm,
                                  const syn_weights *weights, syn_dtype dtype, syn_error *err) {
    syn_weights_reader *reader = NULL;
    syn_param_source source = {NULL, NULL};
    syn_mesh mesh;
    SYN_TRY(syn_mesh_open(&mesh, comm, &(syn_mesh_shape){.tp = comm->size}, err));
    SYN_TRY(syn_ctx_new(ctx, SYN_DEVICE_CPU, comm, err));
    if (weights) {
        SYN_TRY(syn_weights_reader_new(&reader, weights, err));
        source = syn_weights_source(reader);
    }
    syn_ctx_set_param_source(*ctx, &source);
    syn_status s = any_new(m, *ctx, mesh.group[SYN_AXIS_TP], dtype, err);
    if (s == SYN_OK && weights) s = syn_weights_finish(reader, NULL, err);
    syn_ctx_set_param_source(*ctx, NULL);
    syn_weights_reader_free(reader);
    return s;
}

#endif
