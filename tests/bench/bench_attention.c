/* ./dev bench attention: compares fused attention with OpenBLAS's products over the full square
   matrix, and decoding with OpenBLAS's matrix-vector products. Training (forward and backward) is
   compared with all seven products. The two sides of a comparison run alternately. The exit status
   is 1 if a time misses its limit. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ops/blas.h"
#include "ops/ops.h"
#include "ops/rules.h"
#include "tests/support/bench.h"
#include "tools/cli.h"

enum { ROUNDS = 9 };

/* ---- Inference ---- */

struct shape {
    const char *name;
    int64_t layers, batch, heads, new_tokens, tokens, depth;
    bool causal;
    double limit; /* largest allowed time, relative to the time of OpenBLAS's products */
};

struct products {
    const struct shape *s;
    const float *q, *k, *v;
    float *scores, *out;
};

/* The two products of one head over the full square matrix. */
static void multiply_head(void *arg, int64_t head, int worker) {
    const struct products *p = arg;
    const struct shape *s = p->s;
    const int64_t square = s->new_tokens * s->tokens, at = head * s->tokens * s->depth;
    float *scores = p->scores + worker * square;
    syn_blas_gemm(false, true, s->new_tokens, s->tokens, s->depth, p->q + at, s->depth, p->k + at,
                  s->depth, 0.0f, scores, s->tokens);
    syn_blas_gemm(false, false, s->new_tokens, s->depth, s->tokens, scores, s->tokens, p->v + at,
                  s->depth, 0.0f, p->out + head * s->new_tokens * s->depth, s->depth);
}

enum { LAYERS = 12 }; /* largest number of layers */

struct attention {
    const struct shape *s;
    syn_ctx *ctx;
    syn_workers *w;
    syn_tensor q, k[LAYERS], v[LAYERS];
    float *qd, *kd[LAYERS], *vd[LAYERS], *scores, *out;
};

static void run_fused(const struct attention *a, int64_t layers) {
    const struct shape *s = a->s;
    const syn_mark mark = syn_ctx_mark(a->ctx);
    for (int64_t i = 0; i < layers; i++)
        syn_attention(a->ctx, a->q, a->k[i], a->v[i], SYN_NO_MASK, 0.125, s->causal,
                      s->tokens - s->new_tokens);
    syn_release(a->ctx, mark, NULL, 0);
}

static void run_products(const struct attention *a, int64_t layers) {
    for (int64_t i = 0; i < layers; i++) {
        struct products p = {a->s, a->qd, a->kd[i], a->vd[i], a->scores, a->out};
        syn_workers_run(a->w, a->s->batch * a->s->heads, multiply_head, &p);
    }
}

/* The seconds that all layers take, measured while OpenBLAS's threads sleep and ours are awake. */
static double timed(void (*run)(const struct attention *a, int64_t layers),
                    const struct attention *a) {
    const struct timespec pause = {0, 2000000};
    nanosleep(&pause, NULL);
    run(a, 1);
    const double begin = now_s();
    run(a, a->s->layers);
    return now_s() - begin;
}

static void attention(syn_workers *w, const struct shape *s) {
    struct attention a = {.s = s, .w = w};
    syn_error err = {0};
    if (syn_ctx_new(&a.ctx, SYN_DEVICE_CPU, NULL, &err) != SYN_OK ||
        syn_ctx_set_threads(a.ctx, syn_workers_count(w), &err) != SYN_OK)
        die(err.text);
    const int64_t heads = s->batch * s->heads, n = heads * s->tokens * s->depth;
    const syn_spec qs = {SYN_F32, 4, {s->batch, s->heads, s->new_tokens, s->depth}},
                   ks = {SYN_F32, 4, {s->batch, s->heads, s->tokens, s->depth}};
    a.qd = filled(n);
    a.scores = filled(s->new_tokens * s->tokens * syn_workers_count(w));
    a.out = filled(heads * s->new_tokens * s->depth);
    a.q = syn_input(a.ctx, "q", &qs, a.qd);
    for (int64_t i = 0; i < s->layers; i++) {
        a.kd[i] = filled(n), a.vd[i] = filled(n);
        a.k[i] = syn_input(a.ctx, "k", &ks, a.kd[i]), a.v[i] = syn_input(a.ctx, "v", &ks, a.vd[i]);
    }
    double fused[ROUNDS], products[ROUNDS], share[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        fused[round] = timed(run_fused, &a);
        products[round] = timed(run_products, &a);
        share[round] = fused[round] / products[round];
    }
    if (syn_ctx_status(a.ctx) != SYN_OK) die(syn_ctx_error(a.ctx)->text);
    const double square = 4e-9 * (double)(s->layers * heads * s->new_tokens * s->tokens * s->depth);
    const double ours = median(fused, ROUNDS), theirs = median(products, ROUNDS);
    printf("%s: %.2f ms, OpenBLAS's products %.2f ms (%.0f GFLOP/s), k and v at %.3g GB/s\n",
           s->name, 1e3 * ours, 1e3 * theirs, square / theirs,
           8e-9 * (double)(s->layers * n) / ours);
    line("time, of the products'", median(share, ROUNDS), "", s->limit, true);
    for (int64_t i = 0; i < s->layers; i++) free(a.kd[i]), free(a.vd[i]);
    free(a.qd);
    free(a.scores);
    free(a.out);
    syn_ctx_free(a.ctx);
}

/* ---- Training ---- */

struct training {
    const struct shape *s;
    syn_ctx *ctx;
    syn_workers *w;
    /* Queries, keys and values of all heads, (B, T, 3 H D), and the gradient of the result. */
    syn_tensor x, y;
    float *a, *b, *c, *small; /* matrices: (T, D) per head, (T, T) per thread, and (T, D) */
};

static syn_tensor part(const struct training *t, int64_t i) {
    const struct shape *s = t->s;
    const int64_t width = s->heads * s->depth, dims[4] = {s->batch, s->tokens, s->heads, s->depth};
    const int order[4] = {0, 2, 1, 3};
    const syn_tensor x = syn_slice(t->ctx, t->x, 2, i * width, width);
    return syn_permute(t->ctx, syn_reshape(t->ctx, x, dims, 4), order, 4);
}

/* Runs forward and backward with the ops that the gradient rules build. Stores the seconds of
   each. */
static void train(const struct training *t, double *forward, double *backward) {
    const syn_mark mark = syn_ctx_mark(t->ctx);
    const syn_tensor q = part(t, 0), k = part(t, 1), v = part(t, 2);
    const syn_attr attr[8] = {{.f = 0.125}, {.i = t->s->causal}, {.i = 0}};
    syn_tensor in[6] = {q, k, v, {0}, {0}, t->y}, d[3];
    const double begin = now_s();
    syn__call_op(t->ctx, SYN_OP_ATTENTION_TRAIN, in, 3, attr, 8, NULL, in + 3);
    *forward = now_s() - begin;
    syn__call_op(t->ctx, SYN_OP_ATTENTION_GRAD, in, 6, attr, 8, NULL, d);
    *backward = now_s() - begin - *forward;
    syn_release(t->ctx, mark, NULL, 0);
}

/* The two forward and five backward products of one head over the full square matrix. */
static void seven_products(void *arg, int64_t head, int worker) {
    const struct training *t = arg;
    const int64_t n = t->s->tokens, d = t->s->depth;
    float *square = t->small + worker * n * n, *a = t->a + head * n * d, *b = t->b + head * n * d,
          *c = t->c + head * n * d;
    for (int i = 0; i < 3; i++) syn_blas_gemm(false, true, n, n, d, a, d, b, d, 0, square, n);
    for (int i = 0; i < 2; i++) syn_blas_gemm(false, false, n, d, n, square, n, a, d, 0, c, d);
    for (int i = 0; i < 2; i++) syn_blas_gemm(true, false, n, d, n, square, n, b, d, 0, c, d);
}

static void training(syn_workers *w, const struct shape *s) {
    struct training t = {.s = s, .w = w};
    syn_error err = {0};
    const int64_t heads = s->batch * s->heads, n = heads * s->tokens * s->depth;
    if (syn_ctx_new(&t.ctx, SYN_DEVICE_CPU, NULL, &err) != SYN_OK ||
        syn_ctx_set_threads(t.ctx, syn_workers_count(w), &err) != SYN_OK)
        die(err.text);
    const syn_spec xs = {SYN_F32, 3, {s->batch, s->tokens, 3 * s->heads * s->depth}},
                   ys = {SYN_F32, 4, {s->batch, s->tokens, s->heads, s->depth}};
    float *x = filled(3 * n);
    t.a = filled(n), t.b = filled(n), t.c = filled(n);
    t.small = filled(s->tokens * s->tokens * syn_workers_count(w));
    t.x = syn_input(t.ctx, "x", &xs, x);
    t.y = syn_input(t.ctx, "y", &ys, t.a);
    double forward[ROUNDS], backward[ROUNDS], products[ROUNDS], share[ROUNDS];
    const struct timespec pause = {0, 2000000};
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 2; i++) train(&t, &forward[round], &backward[round]);
        nanosleep(&pause, NULL);
        const double begin = now_s();
        syn_workers_run(t.w, heads, seven_products, &t);
        products[round] = now_s() - begin;
        nanosleep(&pause, NULL);
        share[round] = (forward[round] + backward[round]) / products[round];
    }
    if (syn_ctx_status(t.ctx) != SYN_OK) die(syn_ctx_error(t.ctx)->text);
    const double square = 14e-9 * (double)(n * s->tokens), theirs = median(products, ROUNDS);
    printf("%s: forward %.2f ms, backward %.2f ms, OpenBLAS's products %.2f ms (%.0f GFLOP/s)\n",
           s->name, 1e3 * median(forward, ROUNDS), 1e3 * median(backward, ROUNDS), 1e3 * theirs,
           square / theirs);
    line("time, of the products'", median(share, ROUNDS), "", s->limit, true);
    free(x);
    free(t.a);
    free(t.b);
    free(t.c);
    free(t.small);
    syn_ctx_free(t.ctx);
}

int main(void) {
    syn_blas_set_threads(1);
    syn_workers *w = NULL;
    syn_error err = {0};
    char text[64];
    if (syn_workers_new(&w, cli_cores(), &err) != SYN_OK) die(err.text);
    static const struct shape shapes[] = {
        {"gpt2 1 x 1024", 12, 1, 12, 1024, 1024, 64, true, 0.65},
        {"gpt2-xl's heads, 2 layers", 2, 1, 25, 1024, 1024, 64, true, 0.65},
        {"depth 80", 2, 1, 20, 1024, 1024, 80, true, 0.65},
        {"depth 96", 2, 1, 16, 1024, 1024, 96, true, 0.65},
        {"depth 128", 2, 1, 12, 1024, 1024, 128, true, 0.65},
        {"BERT base 1 x 128", 12, 1, 12, 128, 128, 64, false, 1.2},
        {"BERT base 8 x 128", 12, 8, 12, 128, 128, 64, false, 1.2},
        {"gpt2 decodes after 1023", 12, 1, 12, 1, 1024, 64, true, 1.2},
        {"gpt2 decodes after 4095", 12, 1, 12, 1, 4096, 64, true, 1.2},
        {"gpt2 decodes 32 sequences after 255", 12, 32, 12, 1, 256, 64, true, 1.2},
    };
    printf("fused attention, %d threads, products by %s in each:\n", syn_workers_count(w),
           syn_blas_describe(text, sizeof text));
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) attention(w, &shapes[i]);
    static const struct shape trained[] = {
        {"gpt2 4 x 512", 1, 4, 12, 512, 512, 64, true, 0.85},
        {"BERT base 4 x 512", 1, 4, 12, 512, 512, 64, false, 1.2},
        {"gpt2 4 x 64", 1, 4, 12, 64, 64, 64, true, 1.67},
    };
    printf("fused attention in training, forward and backward:\n");
    for (size_t i = 0; i < sizeof trained / sizeof *trained; i++) training(w, &trained[i]);
    syn_workers_free(w);
    return missed ? 1 : 0;
}
