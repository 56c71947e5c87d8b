/* Implements bert_reference.h: the parameters of BERT and its forward pass in double. */
#include "tests/support/bert_reference.h"

static void bref_add_norm(ref_model *w, const char *layer, int64_t width) {
    char name[64];
    snprintf(name, sizeof name, "%s.weight", layer);
    ref_add(w, name, 1, width, REF_WHOLE);
    snprintf(name, sizeof name, "%s.bias", layer);
    ref_add(w, name, 1, width, REF_WHOLE);
}

/* Adds a weight of shape (out, in) and its bias. cut: REF_ROWS shards the output dimension,
   REF_COLUMNS the input dimension. */
static void bref_add_dense(ref_model *w, const char *layer, int64_t out, int64_t in, ref_cut cut) {
    char name[64];
    snprintf(name, sizeof name, "%s.weight", layer);
    ref_add(w, name, out, in, cut);
    snprintf(name, sizeof name, "%s.bias", layer);
    ref_add(w, name, 1, out, cut == REF_ROWS ? REF_COLUMNS : REF_WHOLE);
}

ref_model bref_new(const syn_model_config *c) {
    ref_model m = {.config = *c}, *w = &m;
    const int64_t h = c->n_embd, f = c->n_inner;
    char name[56];
    ref_add(w, "embeddings.word_embeddings.weight", c->vocab_size, h, REF_VOCAB);
    ref_add(w, "embeddings.position_embeddings.weight", c->n_positions, h, REF_WHOLE);
    ref_add(w, "embeddings.token_type_embeddings.weight", c->n_types, h, REF_WHOLE);
    bref_add_norm(w, "embeddings.LayerNorm", h);
#define BREF_LAYER(part) (snprintf(name, sizeof name, "encoder.layer.%d." part, i), name)
    for (int i = 0; i < c->n_layer; i++) {
        bref_add_dense(w, BREF_LAYER("attention.self.query"), h, h, REF_ROWS);
        bref_add_dense(w, BREF_LAYER("attention.self.key"), h, h, REF_ROWS);
        bref_add_dense(w, BREF_LAYER("attention.self.value"), h, h, REF_ROWS);
        bref_add_dense(w, BREF_LAYER("attention.output.dense"), h, h, REF_COLUMNS);
        bref_add_norm(w, BREF_LAYER("attention.output.LayerNorm"), h);
        bref_add_dense(w, BREF_LAYER("intermediate.dense"), f, h, REF_ROWS);
        bref_add_dense(w, BREF_LAYER("output.dense"), h, f, REF_COLUMNS);
        bref_add_norm(w, BREF_LAYER("output.LayerNorm"), h);
    }
#undef BREF_LAYER
    bref_add_dense(w, "pooler.dense", h, h, REF_WHOLE);
    bref_add_dense(w, "cls.predictions.transform.dense", h, h, REF_WHOLE);
    bref_add_norm(w, "cls.predictions.transform.LayerNorm", h);
    ref_add(w, "cls.predictions.bias", c->vocab_size, 1, REF_VOCAB);
    bref_add_dense(w, "cls.seq_relationship", 2, h, REF_WHOLE);
    return m;
}

ref_model bref_filled(const syn_model_config *c) {
    ref_model m = bref_new(c);
    for (int p = 0; p < m.n_params; p++) {
        ref_param *q = &m.params[p];
        const bool norm = strstr(q->name, "LayerNorm.weight") != NULL;
        const double scale = strstr(q->name, "word_embeddings") ? 0.5
                             : ref_ends(q->name, ".bias")       ? 0.125
                                                                : 0.25;
        for (int64_t i = 0; i < q->rows * q->columns; i++)
            q->data[i] = (norm ? 1.0f : 0.0f) + ref_value(p, i, scale);
    }
    return m;
}

/* ---- The forward pass ---- */

double *bref_alloc(int64_t n) {
    double *x = (double *)calloc((size_t)n, sizeof *x);
    if (!x) abort();
    return x;
}

/* The data of a parameter of a layer, or of the model itself if layer < 0. */
static const float *bref_data(const ref_model *m, int layer, const char *part) {
    char name[96];
    if (layer < 0) snprintf(name, sizeof name, "%s", part);
    else snprintf(name, sizeof name, "encoder.layer.%d.%s", layer, part);
    return ref_data(m, name);
}

static void bref_norm(const ref_model *m, int layer, const char *part, double *x) {
    char name[64];
    double *y = bref_alloc(m->config.n_embd);
    snprintf(name, sizeof name, "%s.weight", part);
    const float *weight = bref_data(m, layer, name);
    snprintf(name, sizeof name, "%s.bias", part);
    ref_norm(x, weight, bref_data(m, layer, name), m->config.n_embd, m->config.norm_epsilon, y);
    memcpy(x, y, (size_t)m->config.n_embd * sizeof *x);
    free(y);
}

/* y (out) = weight (out, in) x + bias */
static void bref_dense(const ref_model *m, int layer, const char *part, const double *x, int64_t in,
                       int64_t out, double *y) {
    char name[64];
    snprintf(name, sizeof name, "%s.weight", part);
    const float *weight = bref_data(m, layer, name);
    snprintf(name, sizeof name, "%s.bias", part);
    const float *bias = bref_data(m, layer, name);
    for (int64_t o = 0; o < out; o++) {
        y[o] = (double)bias[o];
        for (int64_t i = 0; i < in; i++) y[o] += (double)weight[o * in + i] * x[i];
    }
}

/* Attends from query q (h) to keys and values (T, h) of the visible tokens (NULL: all). */
static void bref_attend(const ref_model *m, const double *q, const double *k, const double *v,
                        const bool *visible, int64_t n_tokens, double *out) {
    const int64_t h = m->config.n_embd, depth = h / m->config.n_head;
    double *p = bref_alloc(n_tokens);
    for (int64_t a = 0; a < h; a += depth) {
        double sum = 0;
        for (int64_t s = 0; s < n_tokens; s++) {
            double dot = 0;
            for (int64_t d = a; d < a + depth; d++) dot += q[d] * k[s * h + d];
            p[s] = !visible || visible[s] ? exp(dot / sqrt((double)depth)) : 0;
            sum += p[s];
        }
        for (int64_t d = a; d < a + depth; d++) {
            out[d] = 0;
            for (int64_t s = 0; s < n_tokens; s++) out[d] += p[s] / sum * v[s * h + d];
        }
    }
    free(p);
}

static void bref_layer(const ref_model *m, int layer, double *x, const bool *visible,
                       int64_t n_tokens) {
    const int64_t h = m->config.n_embd, f = m->config.n_inner;
    double *q = bref_alloc(n_tokens * h), *k = bref_alloc(n_tokens * h);
    double *v = bref_alloc(n_tokens * h), *a = bref_alloc(h), *b = bref_alloc(h);
    double *inner = bref_alloc(f);
    for (int64_t t = 0; t < n_tokens; t++) {
        bref_dense(m, layer, "attention.self.query", x + t * h, h, h, q + t * h);
        bref_dense(m, layer, "attention.self.key", x + t * h, h, h, k + t * h);
        bref_dense(m, layer, "attention.self.value", x + t * h, h, h, v + t * h);
    }
    for (int64_t t = 0; t < n_tokens; t++, x += h) {
        bref_attend(m, q + t * h, k, v, visible, n_tokens, a);
        bref_dense(m, layer, "attention.output.dense", a, h, h, b);
        for (int64_t i = 0; i < h; i++) x[i] += b[i];
        bref_norm(m, layer, "attention.output.LayerNorm", x);
        bref_dense(m, layer, "intermediate.dense", x, h, f, inner);
        for (int64_t i = 0; i < f; i++)
            inner[i] = ref_gelu(inner[i], m->config.activation == SYN_GELU_TANH);
        bref_dense(m, layer, "output.dense", inner, f, h, b);
        for (int64_t i = 0; i < h; i++) x[i] += b[i];
        bref_norm(m, layer, "output.LayerNorm", x);
    }
    free(inner);
    free(b);
    free(a);
    free(v);
    free(k);
    free(q);
}

double *bref_forward(const ref_model *m, const int32_t *tokens, const int32_t *types,
                     const bool *visible, int64_t n_tokens) {
    const int64_t h = m->config.n_embd;
    const float *words = bref_data(m, -1, "embeddings.word_embeddings.weight");
    const float *positions = bref_data(m, -1, "embeddings.position_embeddings.weight");
    const float *kinds = bref_data(m, -1, "embeddings.token_type_embeddings.weight");
    double *x = bref_alloc(n_tokens * h);
    for (int64_t t = 0; t < n_tokens; t++) {
        for (int64_t i = 0; i < h; i++)
            x[t * h + i] = (double)words[tokens[t] * h + i] + (double)positions[t * h + i] +
                           (double)kinds[(types ? types[t] : 0) * h + i];
        bref_norm(m, -1, "embeddings.LayerNorm", x + t * h);
    }
    for (int i = 0; i < m->config.n_layer; i++) bref_layer(m, i, x, visible, n_tokens);
    return x;
}

void bref_pool(const ref_model *m, const double *hidden, double *pooled, double *follows) {
    const int64_t h = m->config.n_embd;
    bref_dense(m, -1, "pooler.dense", hidden, h, h, pooled);
    for (int64_t i = 0; i < h; i++) pooled[i] = tanh(pooled[i]);
    bref_dense(m, -1, "cls.seq_relationship", pooled, h, 2, follows);
}

void bref_words(const ref_model *m, const double *hidden, double *logits) {
    const int64_t h = m->config.n_embd;
    const float *words = bref_data(m, -1, "embeddings.word_embeddings.weight");
    const float *bias = bref_data(m, -1, "cls.predictions.bias");
    double *x = bref_alloc(h);
    bref_dense(m, -1, "cls.predictions.transform.dense", hidden, h, h, x);
    for (int64_t i = 0; i < h; i++) x[i] = ref_gelu(x[i], m->config.activation == SYN_GELU_TANH);
    bref_norm(m, -1, "cls.predictions.transform.LayerNorm", x);
    for (int64_t v = 0; v < m->config.vocab_size; v++) {
        logits[v] = (double)bias[v];
        for (int64_t i = 0; i < h; i++) logits[v] += (double)words[v * h + i] * x[i];
    }
    free(x);
}
