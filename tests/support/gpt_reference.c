/* Implements gpt_reference.h: the parameters of GPT-2, their shards, and the forward pass in
   double. */
#include "tests/support/gpt_reference.h"

#include "syntorch/base/half.h"
#include "tests/support/small_models.h"

void ref_add(ref_model *m, const char *name, int64_t rows, int64_t columns, ref_cut cut) {
    ref_param *p = &m->params[m->n_params++];
    snprintf(p->name, sizeof p->name, "%s", name);
    p->rows = rows;
    p->columns = columns;
    p->cut = cut;
    p->data = (float *)calloc((size_t)(rows * columns), sizeof *p->data);
    if (!p->data || m->n_params == REF_MAX_PARAMS) abort();
}

ref_model ref_new(const syn_model_config *c) {
    ref_model m;
    memset(&m, 0, sizeof m);
    m.config = *c;
    char name[64];
    ref_add(&m, "wte.weight", c->vocab_size, c->n_embd, REF_VOCAB);
    ref_add(&m, "wpe.weight", c->n_positions, c->n_embd, REF_WHOLE);
#define REF_LAYER(part, rows, columns, cut) \
    (snprintf(name, sizeof name, "h.%d." part, i), ref_add(&m, name, (rows), (columns), (cut)))
    for (int i = 0; i < c->n_layer; i++) {
        REF_LAYER("ln_1.weight", 1, c->n_embd, REF_WHOLE);
        REF_LAYER("ln_1.bias", 1, c->n_embd, REF_WHOLE);
        REF_LAYER("attn.c_attn.weight", c->n_embd, 3 * c->n_embd, REF_QKV);
        REF_LAYER("attn.c_attn.bias", 1, 3 * c->n_embd, REF_QKV);
        REF_LAYER("attn.c_proj.weight", c->n_embd, c->n_embd, REF_ROWS);
        REF_LAYER("attn.c_proj.bias", 1, c->n_embd, REF_WHOLE);
        REF_LAYER("ln_2.weight", 1, c->n_embd, REF_WHOLE);
        REF_LAYER("ln_2.bias", 1, c->n_embd, REF_WHOLE);
        REF_LAYER("mlp.c_fc.weight", c->n_embd, c->n_inner, REF_COLUMNS);
        REF_LAYER("mlp.c_fc.bias", 1, c->n_inner, REF_COLUMNS);
        REF_LAYER("mlp.c_proj.weight", c->n_inner, c->n_embd, REF_ROWS);
        REF_LAYER("mlp.c_proj.bias", 1, c->n_embd, REF_WHOLE);
    }
#undef REF_LAYER
    ref_add(&m, "ln_f.weight", 1, c->n_embd, REF_WHOLE);
    ref_add(&m, "ln_f.bias", 1, c->n_embd, REF_WHOLE);
    if (!c->tied) ref_add(&m, "lm_head.weight", c->vocab_size, c->n_embd, REF_VOCAB);
    return m;
}

void ref_free(ref_model *m) {
    for (int i = 0; i < m->n_params; i++) free(m->params[i].data);
    m->n_params = 0;
}

const float *ref_data(const ref_model *m, const char *name) {
    for (int i = 0; i < m->n_params; i++)
        if (strcmp(m->params[i].name, name) == 0) return m->params[i].data;
    fprintf(stderr, "no parameter %s\n", name);
    abort();
}

float ref_value(int p, int64_t i, double scale) {
    uint32_t x = (uint32_t)i * 2654435761u + (uint32_t)p * 40503u + 12345u;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return (float)(((int)(x % 2049u) - 1024) / 1024.0 * scale);
}

bool ref_ends(const char *name, const char *end) {
    const size_t n = strlen(name), k = strlen(end);
    return n >= k && strcmp(name + n - k, end) == 0;
}

ref_model ref_filled(const syn_model_config *c) {
    ref_model m = ref_new(c);
    for (int p = 0; p < m.n_params; p++) {
        ref_param *q = &m.params[p];
        const bool norm = strstr(q->name, "ln_") && ref_ends(q->name, ".weight");
        const double scale = strstr(q->name, "wte") ? 0.5
                             : norm                 ? 0.25
                             : q->rows == 1         ? 0.125
                                                    : 0.25;
        for (int64_t i = 0; i < q->rows * q->columns; i++)
            q->data[i] = (norm ? 1.0f : 0.0f) + ref_value(p, i, scale);
    }
    return m;
}

void ref_from_model(ref_model *m, unsigned heads, uint64_t seed) {
    const syn_model_options how = {.heads = heads, .seed = seed};
    syn_model *model = model_alone(SYN_DEVICE_CPU, &m->config, &how);
    syn_ctx *ctx = syn_model_ctx(model);
    for (int i = 0; i < m->n_params; i++) {
        const ref_param *p = &m->params[i];
        const size_t bytes = (size_t)(p->rows * p->columns) * sizeof *p->data;
        if (syn_tensor_read(ctx, syn_find_param(ctx, p->name), p->data, bytes) != SYN_OK) abort();
    }
    model_drop(model);
}

double ref_deviation(const ref_param *p) {
    const int64_t n = p->rows * p->columns;
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)p->data[i] * (double)p->data[i];
    return sqrt(sum / (double)n);
}

/* ---- Sharding of parameters ---- */

/* Sets *rows and *columns to the shape of one shard. */
static void ref_shard_shape(const ref_param *p, int tp, int64_t *rows, int64_t *columns) {
    *rows = p->cut == REF_ROWS    ? p->rows / tp
            : p->cut == REF_VOCAB ? (p->rows + tp - 1) / tp
                                  : p->rows;
    *columns = p->cut == REF_COLUMNS || p->cut == REF_QKV ? p->columns / tp : p->columns;
}

float *ref_shard(const ref_param *p, int rank, int tp, size_t *bytes) {
    int64_t rows, columns;
    ref_shard_shape(p, tp, &rows, &columns);
    *bytes = (size_t)(rows * columns) * sizeof(float);
    float *out = (float *)malloc(*bytes);
    if (!out) abort();
    const int64_t third = p->columns / 3, part = third / tp;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) {
            int64_t from_row = r, from_column = c;
            if (p->cut == REF_ROWS || p->cut == REF_VOCAB) from_row = rank * rows + r;
            if (p->cut == REF_COLUMNS) from_column = rank * columns + c;
            if (p->cut == REF_QKV) from_column = c / part * third + rank * part + c % part;
            out[r * columns + c] =
                from_row < p->rows ? p->data[from_row * p->columns + from_column] : 0.0f;
        }
    return out;
}

syn_status ref_load(const ref_model *m, syn_ctx *ctx, int rank, int tp) {
    for (int i = 0; i < m->n_params; i++) {
        size_t bytes;
        float *shard = ref_shard(&m->params[i], rank, tp, &bytes);
        const syn_tensor t = syn_find_param(ctx, m->params[i].name);
        if (!t.id) { /* of another part of the model */
            free(shard);
            continue;
        }
        const syn_dtype dtype = (syn_dtype)syn_tensor_spec(ctx, t)->dtype;
        if (syn_dtype_is_half(dtype)) {
            const size_t n = bytes / sizeof *shard;
            uint16_t *half = malloc(bytes);
            if (!half) abort();
            syn_half_narrow(shard, half, n, dtype);
            bytes = n * sizeof *half;
            memcpy(shard, half, bytes);
            free(half);
        }
        const syn_status s = syn_tensor_write(ctx, t, shard, bytes);
        free(shard);
        if (s != SYN_OK) return s;
    }
    return SYN_OK;
}

bool ref_is_held(const ref_model *m, syn_ctx *ctx, int rank, int tp) {
    bool same = syn_ctx_param_count(ctx) == (size_t)m->n_params;
    for (int i = 0; i < m->n_params; i++) {
        size_t bytes;
        float *want = ref_shard(&m->params[i], rank, tp, &bytes), *got = malloc(bytes);
        const syn_tensor t = syn_find_param(ctx, m->params[i].name);
        same = same && got && syn_tensor_read(ctx, t, got, bytes) == SYN_OK &&
               memcmp(got, want, bytes) == 0;
        free(got);
        free(want);
    }
    return same;
}

/* ---- The forward pass ---- */

void ref_norm(const double *x, const float *weight, const float *bias, int64_t n, double eps,
              double *out) {
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < n; i++) mean += x[i] / (double)n;
    for (int64_t i = 0; i < n; i++) variance += (x[i] - mean) * (x[i] - mean) / (double)n;
    for (int64_t i = 0; i < n; i++)
        out[i] = (x[i] - mean) / sqrt(variance + eps) * (double)weight[i] + (double)bias[i];
}

/* out (columns) = x (rows) weight (rows, columns) + bias */
static void ref_linear(const double *x, const float *weight, const float *bias, int64_t rows,
                       int64_t columns, double *out) {
    for (int64_t c = 0; c < columns; c++) {
        out[c] = (double)bias[c];
        for (int64_t r = 0; r < rows; r++) out[c] += x[r] * (double)weight[r * columns + c];
    }
}

double ref_gelu(double x, bool tanh_form) {
    const double pi = 3.14159265358979323846;
    if (tanh_form) return 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x)));
    return 0.5 * x * (1 + erf(x / sqrt(2.0)));
}

/* Position t attends to positions 0..t. qkv (T, 3h), out (h). */
static void ref_attend(const double *qkv, int64_t t, int64_t h, int64_t heads, double *out) {
    const int64_t depth = h / heads;
    double *p = (double *)malloc((size_t)(t + 1) * sizeof *p);
    if (!p) abort();
    for (int64_t a = 0; a < heads; a++) {
        double sum = 0;
        for (int64_t s = 0; s <= t; s++) {
            double dot = 0;
            for (int64_t d = 0; d < depth; d++)
                dot += qkv[t * 3 * h + a * depth + d] * qkv[s * 3 * h + h + a * depth + d];
            p[s] = exp(dot / sqrt((double)depth));
            sum += p[s];
        }
        for (int64_t d = 0; d < depth; d++) {
            out[a * depth + d] = 0;
            for (int64_t s = 0; s <= t; s++)
                out[a * depth + d] += p[s] / sum * qkv[s * 3 * h + 2 * h + a * depth + d];
        }
    }
    free(p);
}

static void ref_block(const ref_model *m, int layer, double *x, int64_t n_tokens) {
    const syn_model_config *c = &m->config;
    const int64_t h = c->n_embd, f = c->n_inner;
    char name[64];
    const float *w[12];
    static const char *const parts[12] = {
        "ln_1.weight",        "ln_1.bias",        "attn.c_attn.weight", "attn.c_attn.bias",
        "attn.c_proj.weight", "attn.c_proj.bias", "ln_2.weight",        "ln_2.bias",
        "mlp.c_fc.weight",    "mlp.c_fc.bias",    "mlp.c_proj.weight",  "mlp.c_proj.bias"};
    for (int i = 0; i < 12; i++) {
        snprintf(name, sizeof name, "h.%d.%s", layer, parts[i]);
        w[i] = ref_data(m, name);
    }
    double *qkv = (double *)malloc((size_t)(n_tokens * 3 * h) * sizeof *qkv);
    double *a = (double *)malloc((size_t)h * sizeof *a),
           *b = (double *)malloc((size_t)h * sizeof *b);
    double *inner = (double *)malloc((size_t)f * sizeof *inner);
    if (!qkv || !a || !b || !inner) abort();
    for (int64_t t = 0; t < n_tokens; t++) {
        ref_norm(x + t * h, w[0], w[1], h, c->norm_epsilon, a);
        ref_linear(a, w[2], w[3], h, 3 * h, qkv + t * 3 * h);
    }
    for (int64_t t = 0; t < n_tokens; t++) {
        ref_attend(qkv, t, h, c->n_head, a);
        ref_linear(a, w[4], w[5], h, h, b);
        for (int64_t i = 0; i < h; i++) x[t * h + i] += b[i];
        ref_norm(x + t * h, w[6], w[7], h, c->norm_epsilon, a);
        ref_linear(a, w[8], w[9], h, f, inner);
        for (int64_t i = 0; i < f; i++)
            inner[i] = ref_gelu(inner[i], c->activation == SYN_GELU_TANH);
        ref_linear(inner, w[10], w[11], f, h, b);
        for (int64_t i = 0; i < h; i++) x[t * h + i] += b[i];
    }
    free(inner);
    free(b);
    free(a);
    free(qkv);
}

double *ref_forward(const ref_model *m, const int32_t *tokens, int64_t n_tokens) {
    const syn_model_config *c = &m->config;
    const int64_t h = c->n_embd, v = c->vocab_size;
    double *x = (double *)malloc((size_t)(n_tokens * h) * sizeof *x);
    double *y = (double *)malloc((size_t)h * sizeof *y);
    double *logits = (double *)calloc((size_t)(n_tokens * v), sizeof *logits);
    if (!x || !y || !logits) abort();
    const float *wte = ref_data(m, "wte.weight"), *wpe = ref_data(m, "wpe.weight");
    const float *head = c->tied ? wte : ref_data(m, "lm_head.weight");
    for (int64_t t = 0; t < n_tokens; t++)
        for (int64_t i = 0; i < h; i++)
            x[t * h + i] = (double)wte[tokens[t] * h + i] + (double)wpe[t * h + i];
    for (int layer = 0; layer < c->n_layer; layer++) ref_block(m, layer, x, n_tokens);
    for (int64_t t = 0; t < n_tokens; t++) {
        ref_norm(x + t * h, ref_data(m, "ln_f.weight"), ref_data(m, "ln_f.bias"), h,
                 c->norm_epsilon, y);
        for (int64_t k = 0; k < v; k++)
            for (int64_t i = 0; i < h; i++) logits[t * v + k] += y[i] * (double)head[k * h + i];
    }
    free(y);
    free(x);
    return logits;
}

double ref_error(const float *got, const double *want, int64_t n) {
    double worst = 0, largest = 0;
    for (int64_t i = 0; i < n; i++) {
        const double d = fabs((double)got[i] - want[i]);
        if (isnan(d)) return d;
        if (d > worst) worst = d;
        if (fabs(want[i]) > largest) largest = fabs(want[i]);
    }
    return worst / largest;
}

int32_t ref_argmax(const double *x, int64_t n) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return (int32_t)best;
}
