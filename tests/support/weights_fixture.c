#include "tests/support/weights_fixture.h"

float decode(const syn_safetensors_tensor *t, int64_t i) {
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
static void file_name(const checkpoint *c, const char *parameter, char out[160]) {
    const bool bare = strncmp(parameter, "cls.", 4) == 0 || strncmp(parameter, "lm_head", 7) == 0;
    snprintf(out, 160, "%s%s", bare ? "" : c->prefix, parameter);
    char *norm = c->old_names ? strstr(out, "LayerNorm.") : NULL;
    if (norm) strcpy(norm + 10, ref_ends(parameter, "weight") ? "gamma" : "beta");
}

bool decode_all(const checkpoint *c, const syn_safetensors *st, ref_model *m) {
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

syn_status any_configure(any_model *m, const checkpoint *c, syn_error *err) {
    char name[64];
    snprintf(name, sizeof name, "%s/config.json", c->folder);
    const char *path = reference_path(name);
    *m = (any_model){.kind = c->kind, .heads = c->heads};
    return c->kind == SYN_WEIGHTS_GPT2 ? syn_gpt_config_load(&m->gpt_config, path, err)
                                       : syn_bert_config_load(&m->bert_config, path, err);
}

static syn_status any_new(any_model *m, syn_ctx *ctx, const syn_group *tp, syn_dtype dtype,
                          syn_error *err) {
    const syn_gpt_options gpt = {.tp = tp, .seed = 3, .weight_dtype = dtype};
    const syn_bert_options bert = {.tp = tp, .seed = 3, .weight_dtype = dtype, .heads = m->heads};
    return m->kind == SYN_WEIGHTS_GPT2 ? syn_gpt_new(&m->gpt, ctx, &m->gpt_config, &gpt, err)
                                       : syn_bert_new(&m->bert, ctx, &m->bert_config, &bert, err);
}

void any_free(any_model *m) {
    syn_gpt_free(m->gpt);
    syn_bert_free(m->bert);
    m->gpt = NULL;
    m->bert = NULL;
}

syn_status any_load(any_model *m, syn_ctx **ctx, syn_comm *comm, const syn_weights *weights,
                    syn_dtype dtype, syn_error *err) {
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
