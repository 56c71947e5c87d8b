/* Compares flops, bytes and collectives of GPT traces with closed formulas (Narayanan et al. 2021,
   sec. 3; Korthikanti et al. 2022, app. A; vector ops are counted below). In the formulas, L is the
   number of layers, h the width, a the heads, V the vocabulary, b the batch, n the prompt, c the
   context, and t the number of ranks. */
#include "models/causal.h"
#include "tests/support/ops_program.h"
#include "tests/support/test.h"

typedef struct sums {
    uint64_t matrix, vector;   /* flops of matrix products, and of other ops */
    uint64_t linear_bytes;     /* bytes that linear ops read */
    uint64_t reduces, gathers; /* numbers of collectives */
    uint64_t reduce_bytes, gather_bytes;
    uint64_t param_elems, cache_bytes;
    uint64_t layer0; /* flops of matrix products in scope h.0 */
} sums;

static uint64_t elems(const syn_graph_tensor *x) {
    return (uint64_t)syn_spec_elems(&x->spec);
}

/* Sums over the nodes of one step. In fused attention, the scale, the mask and softmax are 5 flops
   per score. */
static sums sum(const syn_trace *t, uint32_t step) {
    sums s = {0};
    syn_error err = {0};
    syn_graph *g = NULL;
    syn_cursor cur = {0};
    if (syn_trace_graph(&g, &t, 1, NULL, &err) != SYN_OK || syn_graph_verify(g, &err) != SYN_OK) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    for (uint32_t i = 0; i < g->ranks[0].n_nodes; i++) {
        const syn_node *n = syn_graph_node(g, 0, i, &cur);
        if (n->step != step) continue;
        const bool linear = strcmp(n->op, "linear") == 0, fused = strcmp(n->op, "attention") == 0;
        uint64_t matrix = linear || strcmp(n->op, "matmul") == 0 ? n->flops : 0;
        if (fused) {
            const syn_spec q = syn_graph_tensor_at(g, 0, n->inputs[0], &cur)->spec;
            const syn_spec k = syn_graph_tensor_at(g, 0, n->inputs[1], &cur)->spec;
            matrix = n->flops - 5 * (uint64_t)(q.dims[0] * q.dims[1] * q.dims[2] * k.dims[2]);
        }
        s.matrix += matrix;
        s.vector += n->flops - matrix;
        if (strncmp(n->scope, "h.0.", 4) == 0) s.layer0 += matrix;
        if (linear) s.linear_bytes += n->bytes_read;
        if (n->comm == SYN_COMM_ALL_REDUCE) s.reduces++, s.reduce_bytes += n->comm_bytes;
        if (n->comm == SYN_COMM_ALL_GATHER) s.gathers++, s.gather_bytes += n->comm_bytes;
    }
    for (uint32_t i = 0; i < g->ranks[0].n_tensors; i++) {
        const syn_graph_tensor *x = syn_graph_tensor_at(g, 0, i, &cur);
        if (x->flags == SYN_TENSOR_PARAM) s.param_elems += elems(x);
        if (x->flags == SYN_TENSOR_STATE) s.cache_bytes += elems(x) * 4;
    }
    syn_cursor_free(&cur);
    syn_graph_free(g);
    return s;
}

/* Traces a prompt of n tokens and one decode step on the last of t ranks. */
static bool trace(const char *preset, int t, uint64_t b, uint64_t n, bool fused,
                  syn_model_config *config, sums *prefill, sums *decode) {
    syn_error err = {0};
    syn_comm *fake = NULL;
    syn_group *group = NULL;
    syn_model *gpt = NULL;
    int32_t ranks[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    if (syn_model_config_preset(config, preset, &err) != SYN_OK ||
        syn_comm_fake_new(&fake, t - 1, t, &err) != SYN_OK)
        return false;
    bool ok = t == 1 || syn_comm_open_group(fake, 1, "tp0", ranks, t, &group, &err) == SYN_OK;
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_META, fake);
    const syn_model_options options = {.tp = group, .fused_attention = fused};
    ok = ok && syn_model_new(&gpt, ctx, config, &options, &err) == SYN_OK &&
         syn_causal_begin(gpt, (int64_t)b, (int64_t)n + 1, &err) == SYN_OK;
    if (ok) {
        const syn_spec prompt = {SYN_I32, 2, {(int64_t)b, (int64_t)n}},
                       one = {SYN_I32, 2, {(int64_t)b, 1}};
        syn_causal_forward(gpt, syn_input(ctx, "prompt", &prompt, NULL));
        syn_next_step(ctx);
        syn_causal_forward(gpt, syn_input(ctx, "token", &one, NULL));
        ok = syn_ctx_status(ctx) == SYN_OK;
    }
    if (ok) {
        *prefill = sum(syn_ctx_trace(ctx), 0);
        *decode = sum(syn_ctx_trace(ctx), 1);
    } else {
        fprintf(stderr, "%s%s\n", err.text, syn_ctx_error(ctx)->text);
    }
    syn_model_free(gpt);
    syn_ctx_free(ctx);
    syn_comm_close(fake);
    return ok;
}

/* Checks one forward pass of `n` new tokens with context `s`. Numbers are per rank. */
static void check_pass(const syn_model_config *config, uint64_t t, uint64_t b, uint64_t n,
                       uint64_t s, const sums *got) {
    const uint64_t L = (uint64_t)config->n_layer, h = (uint64_t)config->n_embd,
                   a = (uint64_t)config->n_head;
    const uint64_t V = (uint64_t)syn_model_padded_vocab(config, (int)t, 1), T = b * n;
    CHECK_INT(got->matrix, L * (24 * T * h * h + 4 * b * n * s * h) / t + 2 * b * h * V / t);
    CHECK_INT(got->layer0, (24 * T * h * h + 4 * b * n * s * h) / t);
    const uint64_t attention = 5 * b * a * n * s / t, gelu = 8 * 4 * T * h / t,
                   norms = 2 * 8 * T * h;
    const uint64_t biases = t > 1 ? 2 * T * h : 0; /* added after the sum of row-parallel layers */
    CHECK_INT(got->vector, L * (attention + gelu + norms + 2 * T * h + biases) + 8 * b * h + T * h);
    const uint64_t weights = L * (12 * h * h + 7 * h) / t + (t == 1 ? L * 2 * h : 0) + V / t * h;
    /* The inputs of qkv and fc, those of proj and fc2, and that of the head. */
    const uint64_t activations = L * (2 * T * h + 5 * T * h / t) + b * h;
    CHECK_INT(got->linear_bytes, 4 * (weights + activations));
    CHECK_INT(got->reduces, t > 1 ? 2 * L + 1 : 0);
    CHECK_INT(got->reduce_bytes, got->reduces * T * h * 4);
    CHECK_INT(got->gathers, t > 1 ? 1 : 0);
    CHECK_INT(got->gather_bytes, t > 1 ? b * V / t * 4 : 0);
}

static void test_gpt(void) {
    static const struct {
        const char *preset;
        int t;
        uint64_t b, n;
    } runs[] = {{"gpt2", 1, 1, 1024 - 1},  {"gpt2", 2, 3, 17},          {"gpt2-xl", 5, 1, 100},
                {"gpt3-125m", 4, 2, 64},   {"gpt3-125m", 1, 1, 1},      {"gpt3-13b", 8, 1, 2047},
                {"gpt3-175b", 8, 2, 500},  {"megatron-1t", 8, 1, 2047}, {"megatron-22b", 4, 4, 9},
                {"gpt2-medium", 2, 1, 50}, {"gpt3-2.7b", 8, 16, 2}};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        for (int fused = 0; fused < 2; fused++) {
            syn_model_config config;
            sums prefill, decode;
            const uint64_t t = (uint64_t)runs[i].t;
            CHECK_MSG(trace(runs[i].preset, runs[i].t, runs[i].b, runs[i].n, fused, &config,
                            &prefill, &decode),
                      "%s", runs[i].preset);
            check_pass(&config, t, runs[i].b, runs[i].n, runs[i].n, &prefill);
            check_pass(&config, t, runs[i].b, 1, runs[i].n + 1, &decode);
            CHECK_MSG(!test_failures, "%s over %d ranks, fused %d", runs[i].preset, runs[i].t,
                      fused);
            const uint64_t h = (uint64_t)config.n_embd, L = (uint64_t)config.n_layer;
            CHECK_INT(prefill.cache_bytes, 2 * L * runs[i].b * (runs[i].n + 1) * h * 4 / t);
            CHECK_INT(prefill.param_elems,
                      L * (12 * h * h / t + 7 * h / t + 6 * h) + 2 * h +
                          (uint64_t)config.n_positions * h +
                          (uint64_t)syn_model_padded_vocab(&config, runs[i].t, 1) / t * h);
        }
}

/* Published numbers of whole models: parameters, and matrix flops of a layer at the full
   context. */
static void test_published_numbers(void) {
    static const struct {
        const char *preset;
        uint64_t n, layer, params;
    } models[] = {{"gpt2", 1024, 17716740096u, 124439808u},
                  {"gpt2-xl", 1024, 69625446400u, 1557611200u},
                  {"gpt3-175b", 2048, 7627861917696u, 0},
                  {"megatron-22b", 2048, 1958505086976u, 22074273792u},
                  {"megatron-530b", 2048, 20959440404480u, 529600819200u},
                  {"megatron-1t", 2048, 32641751449600u, 1008038758400u}};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        syn_model_config config;
        sums shorter, decode;
        /* The decode step uses the last position of the context, so the prompt is one token
           shorter. The flops that the last token adds to a full prompt are added below. */
        CHECK(trace(models[i].preset, 1, 1, models[i].n - 1, false, &config, &shorter, &decode));
        const uint64_t h = (uint64_t)config.n_embd, n = models[i].n;
        CHECK_INT(shorter.layer0 + 24 * h * h + 4 * h * (2 * n - 1), models[i].layer);
        if (models[i].params) CHECK_INT(shorter.param_elems, models[i].params);
    }
}

/* The matrix flops of a decode step of GPT-3 175B on 8 ranks at context 2048. */
static void test_decode_numbers(void) {
    syn_model_config config;
    sums prefill, decode;
    CHECK(trace("gpt3-175b", 8, 1, 2047, true, &config, &prefill, &decode));
    CHECK_INT(decode.layer0, 452984832 + 12582912);
}

static const test_case cases[] = {
    {"gpt", test_gpt},
    {"published numbers", test_published_numbers},
    {"decode numbers", test_decode_numbers},
};
TEST_MAIN(cases)
