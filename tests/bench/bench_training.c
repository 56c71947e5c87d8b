/* ./dev bench training: compares a training step of GPT-2 124M and BERT-base with the limits of the
   machine. The limit is the time of the step's matrix products in OpenBLAS, plus the time of
   copying 28 bytes per parameter (4 values are read: gradient, parameter and two moments; 3 are
   written: parameter and two moments). Both use all cores and alternate with our runs.

   If SYN_PEER_PYTHON names a Python that has torch and transformers, PyTorch's step is timed too,
   also alternating. Reports medians. The exit status is 1 if a limit is missed. With a name as
   argument, only this part runs. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "comm/comm.h"
#include "models/bert.h"
#include "models/causal.h"
#include "models/training/data_parallel.h"
#include "models/training/optimizer.h"
#include "ops/blas.h"
#include "syntorch/base/memory.h"
#include "syntorch/base/workers.h"
#include "syntorch/gradient.h"
#include "syntorch/mesh.h"
#include "tests/support/bench.h"
#include "tools/cli.h"

enum { RUNS = 5 };

typedef struct work {
    const char *name, *preset;
    int64_t batch, tokens;
    double limit;
    syn_dtype dtype;
} work;

static const work works[] = {{"gpt2 4x64", "gpt2", 4, 64, 1.15, SYN_F32},
                             {"gpt2 4x128", "gpt2", 4, 128, 1.15, SYN_F32},
                             {"bert 4x128", "bert-base-uncased", 4, 128, 1.15, SYN_F32},
                             {"gpt2 4x512", "gpt2", 4, 512, 1.08, SYN_F32},
                             {"bert 4x512", "bert-base-uncased", 4, 512, 1.08, SYN_F32}};

/* After a product, OpenBLAS's threads keep polling for work for a while. This function waits until
   they sleep, so that they do not compete with ours. */
static void rest(void) {
    const struct timespec pause = {0, 150000000};
    syn_blas_set_threads(1);
    nanosleep(&pause, NULL);
}

static float *numbers(int64_t n) {
    float *x = syn_aligned_malloc((size_t)n * sizeof *x);
    if (!x) die("out of memory");
    for (int64_t i = 0; i < n; i++) x[i] = (float)(i % 1021) / 1021.0f - 0.5f;
    return x;
}

/* Seconds of y = x w, dx = dy w' and dw = x' dy. */
static double three_products_s(int64_t m, int64_t n, int64_t k, int times) {
    float *x = numbers(m * k), *w = numbers(k * n), *y = numbers(m * n);
    syn_blas_set_threads(cli_cores());
    syn_blas_gemm(false, false, m, n, k, x, k, w, n, 0, y, n);
    const double begin = now_s();
    for (int t = 0; t < times; t++) {
        syn_blas_gemm(false, false, m, n, k, x, k, w, n, 0, y, n);
        syn_blas_gemm(false, true, m, k, n, y, n, w, n, 0, x, k);
        syn_blas_gemm(true, false, k, n, m, x, k, y, n, 0, w, n);
    }
    const double seconds = now_s() - begin;
    syn_aligned_free(x);
    syn_aligned_free(w);
    syn_aligned_free(y);
    return seconds;
}

static double products_s(const syn_model_config *c, int64_t rows, bool head_transform) {
    const int layers = (int)c->n_layer;
    const int64_t h = c->n_embd, f = c->n_inner;
    double s = three_products_s(rows, 3 * h, h, layers) + three_products_s(rows, h, h, layers);
    s += three_products_s(rows, f, h, layers) + three_products_s(rows, h, f, layers);
    if (head_transform) s += three_products_s(rows, h, h, 1);
    s += three_products_s(rows, c->vocab_size, h, 1);
    rest();
    return s;
}

struct copy {
    char *to, *from;
};

static void copy_some(void *arg, int64_t begin, int64_t end, int worker) {
    const struct copy *c = arg;
    (void)worker;
    memcpy(c->to + begin, c->from + begin, (size_t)(end - begin));
}

/* Seconds per byte that is read or written. */
static double byte_s(void) {
    const int64_t n = 256 << 20;
    struct copy c = {(char *)numbers(n / 4), (char *)numbers(n / 4)};
    syn_workers *workers = NULL;
    syn_error err = {0};
    double times[RUNS];
    if (syn_workers_new(&workers, cli_cores(), &err) != SYN_OK) die(err.text);
    for (int r = 0; r < RUNS; r++) {
        const double begin = now_s();
        syn_workers_ranges(workers, n, 1, copy_some, &c);
        times[r] = now_s() - begin;
    }
    syn_workers_free(workers);
    syn_aligned_free(c.to);
    syn_aligned_free(c.from);
    return median(times, RUNS) / (2 * (double)n);
}

typedef struct trainer {
    syn_ctx *ctx;
    syn_model *m;
    syn_optimizer *optimizer;
    syn_data_parallel *parallel; /* NULL: one rank */
    int32_t *ids;
    bool gpt;
    syn_mark mark; /* set before the first step */
} trainer;

static syn_status open_trainer(trainer *t, const work *w, syn_model_config *config, syn_comm *comm,
                               int threads, syn_error *err) {
    const syn_optimizer_options how = {.weight_decay = 0.01, .unchecked = true};
    const syn_model_options options = {
        .fused_attention = true, .seed = 1, .heads = SYN_BERT_MLM, .dtype = w->dtype};
    SYN_TRY(syn_model_config_preset(config, w->preset, err));
    t->gpt = syn_model_is_causal(config);
    SYN_TRY(syn_ctx_new(&t->ctx, SYN_DEVICE_CPU, comm, err));
    SYN_TRY(syn_ctx_set_threads(t->ctx, threads, err));
    SYN_TRY(syn_model_new(&t->m, t->ctx, config, &options, err));
    SYN_TRY(syn_optimizer_new(&t->optimizer, t->ctx, &how, err));
    t->ids = calloc((size_t)(w->batch * w->tokens), sizeof *t->ids);
    if (!t->ids) return SYN_FAIL_NOMEM(err, 0, "tokens");
    for (int64_t i = 0; i < w->batch * w->tokens; i++)
        t->ids[i] = (int32_t)(i * 7919 % config->vocab_size);
    t->mark = syn_ctx_mark(t->ctx);
    return SYN_OK;
}

static void close_trainer(trainer *t) {
    free(t->ids);
    syn_optimizer_free(t->optimizer);
    syn_model_free(t->m);
    syn_ctx_free(t->ctx);
}

static syn_status step(trainer *t, const work *w, double *seconds, syn_error *err) {
    const syn_spec spec = {SYN_I32, 2, {w->batch, w->tokens}};
    const double begin = now_s();
    const syn_tensor tokens = syn_input(t->ctx, "tokens", &spec, t->ids);
    syn_tensor x;
    if (t->gpt) x = syn_causal_loss(t->m, tokens, tokens, SYN_MEAN);
    else {
        x = syn_bert_forward(t->m, tokens, SYN_BERT_NO_TYPES, SYN_NO_MASK);
        x = syn_bert_mlm_loss(t->m, x, tokens, SYN_MEAN);
    }
    syn_backward(t->ctx, x);
    if (t->parallel) SYN_TRY(syn_data_parallel_check(t->parallel, err));
    SYN_TRY(syn_optimizer_step(t->optimizer, 1e-4, err));
    syn_forget(t->ctx, t->mark, NULL, 0);
    *seconds = now_s() - begin;
    return syn_ctx_check(t->ctx, err);
}

/* ---- PyTorch: a process that runs one step per input line ---- */

static peer open_pytorch(const work *w) {
    char batch[32], tokens[32], threads[32];
    snprintf(batch, sizeof batch, "%lld", (long long)w->batch);
    snprintf(tokens, sizeof tokens, "%lld", (long long)w->tokens);
    snprintf(threads, sizeof threads, "%d", cli_cores());
    return open_python("peer_training.py", (const char *const[]){w->preset, batch, tokens, threads,
                                                                 syn_dtype_name(w->dtype), NULL});
}

static double peer_step(const peer *p) {
    double seconds;
    ask_peer(p, "step", &seconds, 1);
    return seconds;
}

/* ---- one rank ---- */

static void run(const work *w) {
    trainer t = {0};
    syn_model_config config;
    syn_error err = {0};
    double ours[RUNS], theirs[RUNS], floors[RUNS], ratios[RUNS], their_ratios[RUNS], seconds;
    if (open_trainer(&t, w, &config, NULL, cli_cores(), &err) != SYN_OK) die(err.text);
    int64_t params = 0;
    for (size_t i = 0; i < syn_ctx_param_count(t.ctx); i++)
        params += syn_spec_elems(syn_tensor_spec(t.ctx, syn_ctx_param(t.ctx, i).tensor));
    const peer pytorch = open_pytorch(w);
    if (pytorch.to) peer_step(&pytorch);
    const double memory_s = 28 * (double)params * byte_s();
    if (step(&t, w, &seconds, &err) != SYN_OK) die(err.text);
    for (int r = 0; r < RUNS; r++) {
        floors[r] = products_s(&config, w->batch * w->tokens, !t.gpt) + memory_s;
        if (step(&t, w, &ours[r], &err) != SYN_OK) die(err.text);
        ratios[r] = ours[r] / floors[r];
        theirs[r] = pytorch.to ? peer_step(&pytorch) : 0;
        their_ratios[r] = theirs[r] / floors[r];
    }
    printf("%s: %lld parameters; memory %.1f ms\n", w->name, (long long)params, memory_s * 1e3);
    for (int r = 0; r < RUNS; r++)
        printf("  step %.1f ms, products and memory %.1f ms\n", ours[r] * 1e3, floors[r] * 1e3);
    line("step / (products and memory)", median(ratios, RUNS), "", w->limit, true);
    if (pytorch.to)
        printf("  PyTorch's step: %.1f ms, %.3f of products and memory\n",
               median(theirs, RUNS) * 1e3, median(their_ratios, RUNS));
    close_peer(&pytorch);
    close_trainer(&t);
}

/* Compares a step in bf16 with one in f32, alternating. */
static void run_half(const work *w) {
    enum { MOST = 1536 };
    work half = *w;
    trainer wide = {0}, narrow = {0};
    syn_model_config config;
    syn_error err = {0};
    double f32[RUNS], bf16[RUNS], ratios[RUNS], theirs[RUNS], seconds;
    half.dtype = SYN_BF16;
    rest();
    if (w->batch * w->tokens > MOST) return; /* two models with long sequences would take 20 GB */
    if (open_trainer(&wide, w, &config, NULL, cli_cores(), &err) != SYN_OK ||
        open_trainer(&narrow, &half, &config, NULL, cli_cores(), &err) != SYN_OK ||
        step(&wide, w, &seconds, &err) != SYN_OK || step(&narrow, &half, &seconds, &err) != SYN_OK)
        die(err.text);
    const peer pytorch = open_pytorch(&half);
    if (pytorch.to) peer_step(&pytorch);
    for (int r = 0; r < RUNS; r++) {
        theirs[r] = pytorch.to ? peer_step(&pytorch) : 0;
        if (step(&wide, w, &f32[r], &err) != SYN_OK || step(&narrow, w, &bf16[r], &err) != SYN_OK)
            die(err.text);
        ratios[r] = bf16[r] / f32[r];
    }
    printf("%s: f32 %.1f ms, bf16 %.1f ms\n", w->name, median(f32, RUNS) * 1e3,
           median(bf16, RUNS) * 1e3);
    line("step in bf16 / in f32", median(ratios, RUNS), "", 1 / 1.5, true);
    if (pytorch.to) printf("  PyTorch's step in bf16: %.1f ms\n", median(theirs, RUNS) * 1e3);
    close_peer(&pytorch);
    close_trainer(&wide);
    close_trainer(&narrow);
}

/* ---- two ranks compared with one rank with two threads ---- */

struct shared_run {
    double seconds[RUNS];
};

static syn_status half_of_it(syn_comm *comm, void *arg, syn_error *err) {
    struct shared_run *s = arg;
    const work w = {"", "gpt2", 2, 64, 0, SYN_F32};
    syn_model_config config;
    syn_mesh mesh;
    trainer t = {0};
    syn_data_parallel *parallel = NULL;
    SYN_TRY(syn_mesh_open(&mesh, comm, &(syn_plan){.dp = 2}, err));
    syn_status status = open_trainer(&t, &w, &config, comm, 1, err);
    if (status == SYN_OK) syn_ctx_set_overlap(t.ctx, true);
    if (status == SYN_OK)
        status = syn_data_parallel_new(
            &parallel, t.ctx, &(syn_data_parallel_options){.dp = mesh.group[SYN_AXIS_DP]}, err);
    t.parallel = parallel;
    for (int r = -1; r < RUNS && status == SYN_OK; r++) {
        double seconds;
        syn_barrier(t.ctx, mesh.group[SYN_AXIS_DP]);
        status = step(&t, &w, &seconds, err);
        if (r >= 0 && comm->rank == 0) s->seconds[r] = seconds;
    }
    syn_data_parallel_free(parallel);
    close_trainer(&t);
    return status;
}

static void run_ranks_of_data(void) {
    struct shared_run s = {{0}};
    const work w = {"", "gpt2", 4, 64, 0, SYN_F32};
    double alone[RUNS];
    trainer t = {0};
    syn_model_config config;
    syn_error err = {0};
    rest();
    if (syn_local_run(2, half_of_it, &s, &err) != SYN_OK ||
        open_trainer(&t, &w, &config, NULL, 2, &err) != SYN_OK)
        die(err.text);
    for (int r = -1; r < RUNS; r++) {
        double seconds;
        if (step(&t, &w, &seconds, &err) != SYN_OK) die(err.text);
        if (r >= 0) alone[r] = seconds;
    }
    close_trainer(&t);
    printf("gpt2 4x64: two ranks of 2x64 %.1f ms, one with two threads %.1f ms\n",
           median(s.seconds, RUNS) * 1e3, median(alone, RUNS) * 1e3);
    line("two ranks / one with two threads", median(s.seconds, RUNS) / median(alone, RUNS), "", 1.1,
         true);
}

/* Records one rank of GPT-3 175B with 8-way tensor parallelism on meta, with one sequence of 2,048
   tokens. */
static void run_symbolic(void) {
    const syn_spec spec = {SYN_I32, 2, {1, 2048}};
    double times[RUNS];
    size_t rows = 0;
    for (int r = 0; r < RUNS; r++) {
        syn_model_config config;
        syn_comm *comm;
        syn_mesh mesh;
        trainer t = {0};
        syn_error err = {0};
        if (syn_comm_fake_new(&comm, 0, 8, &err) != SYN_OK ||
            syn_mesh_open(&mesh, comm, &(syn_plan){.tp = 8}, &err) != SYN_OK ||
            syn_model_config_preset(&config, "gpt3-175b", &err) != SYN_OK ||
            syn_ctx_new(&t.ctx, SYN_DEVICE_META, comm, &err) != SYN_OK)
            die(err.text);
        const syn_model_options options = {.tp = mesh.group[SYN_AXIS_TP], .fused_attention = true};
        const syn_optimizer_options how = {.max_grad_norm = 1, .tp = options.tp};
        if (syn_model_new(&t.m, t.ctx, &config, &options, &err) != SYN_OK ||
            syn_optimizer_new(&t.optimizer, t.ctx, &how, &err) != SYN_OK)
            die(err.text);
        const double begin = now_s();
        const syn_tensor tokens = syn_input(t.ctx, "tokens", &spec, NULL);
        syn_backward(t.ctx, syn_causal_loss(t.m, tokens, tokens, SYN_MEAN));
        if (syn_optimizer_step(t.optimizer, 1e-4, &err) != SYN_OK) die(err.text);
        times[r] = now_s() - begin;
        rows = syn_trace_memory_bytes(syn_ctx_trace(t.ctx));
        if (r == 0)
            printf("gpt3-175b, a rank of 8: %zu nodes, predicted peak %.1f GiB\n",
                   syn_ctx_trace(t.ctx)->n_nodes, (double)syn_ctx_peak_bytes(t.ctx) / 1073741824.0);
        close_trainer(&t);
        syn_comm_close(comm);
    }
    line("its training step on meta", median(times, RUNS) * 1e3, "ms", 20, true);
    line("memory of its rows", (double)rows / 1e6, "MB", 50, true);
}

int main(int argc, char **argv) {
    if (argc < 2 || strstr("symbolic", argv[1])) run_symbolic();

    if (argc < 2 || strstr("ranks", argv[1])) run_ranks_of_data();
    for (size_t i = 0; i < sizeof works / sizeof *works; i++)
        if (argc < 2 || strstr(works[i].name, argv[1])) run(&works[i]);
    for (size_t i = 0; i < sizeof works / sizeof *works; i++)
        if (argc < 2 || strcmp("bf16", argv[1]) == 0) run_half(&works[i]);
    return missed > 0;
}
