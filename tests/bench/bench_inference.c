/* ./dev bench inference: compares GPT-2 and BERT with the limits of the machine, which are the time
 * of their matrix products in OpenBLAS and the time of reading their weights with its sgemv. Both
 * use all cores and alternate with our runs. Reports medians. The exit status is 1 if a limit is
 * missed. With a name as argument, only this part runs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "comm/comm.h"
#include "models/bert.h"
#include "models/causal.h"
#include "ops/blas.h"
#include "ops/simd.h"
#include "syntorch/base/memory.h"
#include "syntorch/mesh.h"
#include "tests/support/bench.h"
#include "tools/cli.h"
#include "tools/inference/footprint.h"

enum { RUNS = 5, DECODE = 24, CONTEXT = 128 };

/* After a product, OpenBLAS's threads keep polling for work for a while. This function waits until
 * they sleep, so that they do not compete with ours. */
static void rest(void) {
    const struct timespec pause = {0, 150000000};
    syn_blas_set_threads(1);
    nanosleep(&pause, NULL);
}

/* ---- What the machine allows ---- */

/* Multiplies the same matrices x (m, k) and w (k, n) `times` times. */
typedef struct product {
    int64_t m, n, k;
    bool transpose; /* w is stored as (n, k) */
    int times;
} product;

static float *numbers(int64_t n) {
    float *x = syn_aligned_malloc((size_t)n * sizeof *x);
    if (!x) exit(1);
    for (int64_t i = 0; i < n; i++) x[i] = (float)(i % 1021) / 1021.0f - 0.5f;
    return x;
}

static double products_s(const product *list, int n) {
    double seconds = 0;
    for (int i = 0; i < n; i++) {
        const product *p = &list[i];
        float *x = numbers(p->m * p->k), *w = numbers(p->k * p->n), *y = numbers(p->m * p->n);
        syn_blas_set_threads(cli_cores());
        syn_blas_gemm(false, p->transpose, p->m, p->n, p->k, x, p->k, w, p->transpose ? p->k : p->n,
                      0, y, p->n);
        const double begin = now_s();
        for (int t = 0; t < p->times; t++)
            syn_blas_gemm(false, p->transpose, p->m, p->n, p->k, x, p->k, w,
                          p->transpose ? p->k : p->n, 0, y, p->n);
        seconds += now_s() - begin;
        syn_aligned_free(x);
        syn_aligned_free(w);
        syn_aligned_free(y);
    }
    rest();
    return seconds;
}

/* Reads all weights of gpt2 one after the other, like a decode step. */
static struct weights { float *layer[12][4], *head, *x, *y; } all;
static const int64_t shapes[4][2] = {{768, 2304}, {768, 768}, {768, 3072}, {3072, 768}};

static void make_weights(void) {
    for (int l = 0; l < 12; l++)
        for (int i = 0; i < 4; i++) all.layer[l][i] = numbers(shapes[i][0] * shapes[i][1]);
    all.head = numbers((int64_t)50257 * 768);
    all.x = numbers(4096);
    all.y = numbers(50257);
}

static void free_weights(void) {
    for (int l = 0; l < 12; l++)
        for (int i = 0; i < 4; i++) syn_aligned_free(all.layer[l][i]);
    syn_aligned_free(all.head);
    syn_aligned_free(all.x);
    syn_aligned_free(all.y);
}

static double sgemv_s(int steps) {
    syn_blas_set_threads(cli_cores());
    double begin = 0;
    for (int s = -1; s < steps; s++) {
        if (s == 0) begin = now_s();
        for (int l = 0; l < 12; l++)
            for (int i = 0; i < 4; i++)
                syn_blas_gemm(false, false, 1, shapes[i][1], shapes[i][0], all.x, shapes[i][0],
                              all.layer[l][i], shapes[i][1], 0, all.y, shapes[i][1]);
        syn_blas_gemm(false, true, 1, 50257, 768, all.x, 768, all.head, 768, 0, all.y, 50257);
    }
    const double seconds = (now_s() - begin) / steps;
    rest();
    return seconds;
}

/* ---- Ours: GPT ---- */

typedef struct rank_model {
    syn_ctx *ctx;
    syn_model *gpt;
    int32_t *tokens;
} rank_model;

static syn_status open_gpt(rank_model *m, syn_comm *comm, int tp, bool fused, syn_dtype dtype,
                           syn_error *err) {
    syn_model_config config;
    syn_mesh mesh = {0};
    SYN_TRY(syn_model_config_preset(&config, "gpt2", err));
    if (tp > 1) SYN_TRY(syn_mesh_open(&mesh, comm, &(syn_plan){.tp = tp}, err));
    SYN_TRY(syn_ctx_new(&m->ctx, SYN_DEVICE_CPU, comm, err));
    SYN_TRY(syn_ctx_set_threads(m->ctx, tp > 1 ? 1 : cli_cores(), err));
    const syn_model_options how = {
        .tp = mesh.group[SYN_AXIS_TP], .fused_attention = fused, .seed = 1, .weight_dtype = dtype};
    SYN_TRY(syn_model_new(&m->gpt, m->ctx, &config, &how, err));
    m->tokens = calloc(64 * 1024, sizeof *m->tokens);
    for (int i = 0; m->tokens && i < 64 * 1024; i++) m->tokens[i] = i * 7919 % 50257;
    return m->tokens ? SYN_OK : SYN_FAIL_NOMEM(err, 0, "tokens");
}

static void close_gpt(rank_model *m) {
    free(m->tokens);
    syn_model_free(m->gpt);
    syn_ctx_free(m->ctx);
}

/* Stores the seconds of a prefill of (batch, length), and of each of the `steps` decode steps after
 * it. */
static syn_status time_gpt(rank_model *m, int64_t batch, int64_t length, int steps, double *seconds,
                           syn_error *err) {
    const syn_spec prompt = {SYN_I32, 2, {batch, length}}, one = {SYN_I32, 2, {batch, 1}};
    SYN_TRY(syn_causal_begin(m->gpt, batch, length + steps, err));
    const syn_mark mark = syn_ctx_mark(m->ctx);
    syn_tensor next = syn_input(m->ctx, "prompt", &prompt, m->tokens);
    double begin = now_s();
    for (int s = -1; s < steps; s++) {
        const syn_tensor logits = syn_causal_forward(m->gpt, next);
        const syn_tensor tokens = syn_argmax(m->ctx, logits);
        syn_release(m->ctx, mark, &tokens, 1);
        next = syn_reshape(m->ctx, tokens, one.dims, 2);
        if (s == -1 && steps > 0) begin = now_s();
    }
    *seconds = (now_s() - begin) / (steps > 0 ? steps : 1);
    syn_release(m->ctx, mark, NULL, 0);
    return syn_ctx_check(m->ctx, err);
}

static double gpt_s(rank_model *m, int64_t batch, int64_t length, int steps) {
    syn_error err = {0};
    double seconds;
    if (time_gpt(m, batch, length, steps, &seconds, &err) != SYN_OK) die(err.text);
    return seconds;
}

static rank_model gpt2(bool fused, syn_dtype dtype) {
    syn_error err = {0};
    rank_model m = {0};
    if (open_gpt(&m, NULL, 1, fused, dtype, &err) != SYN_OK) die(err.text);
    return m;
}

static const product gpt2_linears[] = {{1024, 2304, 768, false, 12},
                                       {1024, 768, 768, false, 12},
                                       {1024, 3072, 768, false, 12},
                                       {1024, 768, 3072, false, 12}},
                     gpt2_attention[] = {{1024, 1024, 64, true, 144}, {1024, 64, 1024, false, 144}};

/* The bytes of the largest tensor that one op created. */
static uint64_t largest_activation(const syn_trace *t) {
    uint64_t largest = 0;
    for (uint32_t row = 1; row < t->n_tensors; row++) {
        const uint64_t bytes = syn_spec_bytes(syn_trace_spec(t, row));
        if (t->tensors[row].producer && t->tensors[row].base == row && bytes > largest)
            largest = bytes;
    }
    return largest;
}

/* Compares the peak of tensor data in the first run with the minimum that it needs. Counts the page
 * faults of a later run. */
static void memory(rank_model *m, const char *how) {
    char what[80];
    struct rusage before, after;
    gpt_s(m, 1, 1024, 0);
    const footprint f = footprint_of(m->ctx);
    gpt_s(m, 1, 1024, 0);
    getrusage(RUSAGE_SELF, &before);
    gpt_s(m, 1, 1024, 0);
    getrusage(RUSAGE_SELF, &after);
    snprintf(what, sizeof what, "%s, peak memory, of weights + cache + activation", how);
    const uint64_t needed =
        f.weights_bytes + f.cache_bytes + largest_activation(syn_ctx_trace(m->ctx));
    line(what, (double)f.peak_bytes / (double)needed, "", 1.2, true);
    snprintf(what, sizeof what, "%s, page faults of a prefill", how);
    line(what, (double)(after.ru_minflt - before.ru_minflt), "pages", 256, true);
}

static void prefill(void) {
    double linears[RUNS], attention[RUNS], fused[RUNS], unfused[RUNS], half[RUNS];
    rank_model a = gpt2(true, SYN_F32), b = gpt2(false, SYN_F32), c = gpt2(true, SYN_BF16);
    printf("gpt2 prefill of 1 x 1024:\n");
    memory(&a, "fused");
    memory(&b, "unfused");
    gpt_s(&c, 1, 1024, 0);
    for (int r = 0; r < RUNS; r++) {
        linears[r] = products_s(gpt2_linears, 4);
        attention[r] = products_s(gpt2_attention, 2);
        fused[r] = gpt_s(&a, 1, 1024, 0);
        unfused[r] = gpt_s(&b, 1, 1024, 0);
        half[r] = gpt_s(&c, 1, 1024, 0);
    }
    const double limit = median(linears, RUNS) + median(attention, RUNS), ms = median(fused, RUNS);
    printf("  products by OpenBLAS %.1f ms, attention's "
           "%.1f ms of it\n",
           1e3 * limit, 1e3 * median(attention, RUNS));
    printf("  f32, fused %.1f ms, unfused %.1f ms; bf16 weights, fused %.1f ms\n", 1e3 * ms,
           1e3 * median(unfused, RUNS), 1e3 * median(half, RUNS));
    line("fused, of the products' time", ms / limit, "", 1.15, true);
    line("unfused, of the products' time", median(unfused, RUNS) / limit, "", 1.3, true);
    line("bf16 weights, of f32's time", median(half, RUNS) / ms, "", 1.1, true);
    close_gpt(&a);
    close_gpt(&b);
    close_gpt(&c);
}

static void decode(void) {
    static const int64_t batches[] = {1, 8, 32};
    double reference[RUNS], ours[3][3][RUNS];
    rank_model m[3] = {gpt2(true, SYN_F32), gpt2(true, SYN_F16), gpt2(true, SYN_BF16)};
    make_weights();
    for (int r = 0; r < RUNS; r++) {
        reference[r] = sgemv_s(10);
        for (int d = 0; d < 3; d++)
            for (int b = 0; b < 3; b++) ours[d][b][r] = gpt_s(&m[d], batches[b], CONTEXT, DECODE);
    }
    const double sgemv = median(reference, RUNS);
    double s[3][3];
    printf("gpt2 decode from position %d: sgemv over the weights %.2f ms, %.1f "
           "GB/s\n",
           CONTEXT, 1e3 * sgemv, 0.495 / sgemv);
    for (int d = 0; d < 3; d++)
        for (int b = 0; b < 3; b++) s[d][b] = median(ours[d][b], RUNS);
    for (int b = 0; b < 3; b++)
        printf("  batch %2d: %7.1f tokens/s f32, %7.1f f16, %7.1f bf16\n", (int)batches[b],
               (double)batches[b] / s[0][b], (double)batches[b] / s[1][b],
               (double)batches[b] / s[2][b]);
    line("rate of reading the weights, of sgemv's", sgemv / s[0][0], "", 0.95, false);
    line("f16, of f32's tokens/s", s[0][0] / s[1][0], "", 1.7, false);
    line("bf16, of f32's tokens/s", s[0][0] / s[2][0], "", 1.7, false);
    free_weights();
    for (int d = 0; d < 3; d++) close_gpt(&m[d]);
}

/* ---- Two ranks in one process ---- */

typedef struct pair_times {
    double prefill[RUNS], decode[RUNS];
} pair_times;

static syn_status pair_main(syn_comm *comm, void *arg, syn_error *err) {
    pair_times *times = arg;
    rank_model m = {0};
    SYN_TRY(open_gpt(&m, comm, 2, true, SYN_F32, err));
    for (int r = -1; r < RUNS; r++) {
        double seconds[2];
        SYN_TRY(time_gpt(&m, 1, 1024, 0, &seconds[0], err));
        SYN_TRY(time_gpt(&m, 1, CONTEXT, DECODE, &seconds[1], err));
        if (r < 0 || comm->rank != 0) continue;
        times->prefill[r] = seconds[0];
        times->decode[r] = seconds[1];
    }
    close_gpt(&m);
    return SYN_OK;
}

static void ranks(void) {
    syn_error err = {0};
    pair_times two;
    double prefill[2 * RUNS], decode[2 * RUNS];
    if (cli_cores() < 2) return;
    rank_model m = gpt2(true, SYN_F32);
    gpt_s(&m, 1, 1024, 0);
    for (int r = 0; r < 2 * RUNS; r++) {
        if (r == RUNS && syn_local_run(2, pair_main, &two, &err) != SYN_OK) die(err.text);
        prefill[r] = gpt_s(&m, 1, 1024, 0);
        decode[r] = gpt_s(&m, 1, CONTEXT, DECODE);
    }
    const double p1 = median(prefill, 2 * RUNS), p2 = median(two.prefill, RUNS),
                 d1 = median(decode, 2 * RUNS), d2 = median(two.decode, RUNS);
    printf("gpt2 on two ranks of one process, one thread each: prefill %.1f ms, "
           "decode %.1f "
           "tokens/s; one rank of %d threads: %.1f ms, %.1f tokens/s\n",
           1e3 * p2, 1 / d2, cli_cores(), 1e3 * p1, 1 / d1);
    line("prefill, of one rank's time", p2 / p1, "", 1.1, true);
    line("decode, of one rank's time", d2 / d1, "", 1.1, true);
    close_gpt(&m);
}

/* ---- BERT ---- */

static double bert_s(syn_ctx *ctx, syn_model *bert, const int32_t *tokens, int64_t batch) {
    const syn_spec spec = {SYN_I32, 2, {batch, 128}};
    const syn_mark mark = syn_ctx_mark(ctx);
    const syn_tensor ids = syn_input(ctx, "tokens", &spec, tokens);
    const double begin = now_s();
    syn_bert_forward(bert, ids, (syn_tensor){0}, SYN_NO_MASK);
    const double seconds = now_s() - begin;
    syn_release(ctx, mark, NULL, 0);
    if (syn_ctx_status(ctx) != SYN_OK) die(syn_ctx_error(ctx)->text);
    return seconds;
}

static void bert(void) {
    static int32_t tokens[8 * 128];
    syn_error err = {0};
    syn_model_config config;
    syn_ctx *ctx;
    syn_model *model;
    const syn_model_options how = {.fused_attention = true, .seed = 1};
    for (int i = 0; i < 8 * 128; i++) tokens[i] = i * 7919 % 30522;
    if (syn_model_config_preset(&config, "bert-base-uncased", &err) != SYN_OK ||
        syn_ctx_new(&ctx, SYN_DEVICE_CPU, NULL, &err) != SYN_OK ||
        syn_ctx_set_threads(ctx, cli_cores(), &err) != SYN_OK ||
        syn_model_new(&model, ctx, &config, &how, &err) != SYN_OK)
        die(err.text);
    for (int64_t batch = 1; batch <= 8; batch += 7) {
        const int64_t rows = batch * 128;
        const int heads = 144 * (int)batch;
        const product list[] = {{rows, 768, 768, true, 48},
                                {rows, 3072, 768, true, 12},
                                {rows, 768, 3072, true, 12},
                                {128, 128, 64, true, heads},
                                {128, 64, 128, false, heads}};
        double limit[RUNS], ours[RUNS];
        bert_s(ctx, model, tokens, batch);
        for (int r = 0; r < RUNS; r++) {
            double some[8];
            const int times = batch == 1 ? 8 : 2;
            limit[r] = products_s(list, 5);
            for (int i = 0; i < times; i++) some[i] = bert_s(ctx, model, tokens, batch);
            ours[r] = median(some, times);
        }
        const double products = median(limit, RUNS), s = median(ours, RUNS);
        printf("bert-base-uncased, encoder, %lld x 128: %.2f ms, products by "
               "OpenBLAS %.2f ms\n",
               (long long)batch, 1e3 * s, 1e3 * products);
        line("of the products' time", s / products, "", 1.15, true);
    }
    syn_model_free(model);
    syn_ctx_free(ctx);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"prefill", prefill}, {"decode", decode}, {"ranks", ranks}, {"bert", bert}};
    char text[128];
    printf("%d cores, %s, own kernels %s\n", cli_cores(), syn_blas_describe(text, sizeof text),
           syn_simd_name(syn_simd_level()));
    syn_blas_set_threads(1);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (argc < 2 || strstr(parts[i].name, argv[1])) parts[i].run();
    return missed ? 1 : 0;
}
