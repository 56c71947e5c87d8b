/* Implements weights_fixture.h: decodes elements from their bytes and finds tensors by name. */
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

/* Writes the parameter's name in the file to `out`, with the checkpoint's prefix and old
   spelling. */
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

syn_status checkpoint_config(const checkpoint *c, syn_model_config *config, syn_error *err) {
    return syn_model_config_load(config, reference_path("%s/config.json", c->folder), err);
}

syn_status checkpoint_load(const checkpoint *c, syn_model **model, syn_ctx **ctx, syn_comm *comm,
                           const syn_weights *weights, syn_dtype dtype, syn_error *err) {
    syn_weights_reader *reader = NULL;
    syn_param_source source = {NULL, NULL};
    syn_model_config config;
    syn_mesh mesh;
    SYN_TRY(checkpoint_config(c, &config, err));
    SYN_TRY(syn_mesh_open(&mesh, comm, &(syn_plan){.tp = comm->size}, err));
    SYN_TRY(syn_ctx_new(ctx, SYN_DEVICE_CPU, comm, err));
    if (weights) {
        SYN_TRY(syn_weights_reader_new(&reader, weights, err));
        source = syn_weights_source(reader);
    }
    const syn_model_options how = {
        .tp = mesh.group[SYN_AXIS_TP], .seed = 3, .weight_dtype = dtype, .heads = c->heads};
    syn_ctx_set_param_source(*ctx, &source);
    syn_status s = syn_model_new(model, *ctx, &config, &how, err);
    if (s == SYN_OK && weights) s = syn_weights_finish(reader, NULL, NULL, err);
    syn_ctx_set_param_source(*ctx, NULL);
    syn_weights_reader_free(reader);
    return s;
}
