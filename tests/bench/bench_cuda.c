/* ./dev bench cuda: compares GPT-2 124M and BERT-base on a CUDA device with the device's limits.
   cuda_limits.cu measures them alternately with our runs: the rate of cuBLASLt for the same shapes,
   and the bandwidth of a copy.

   Also measures the cost of recording and, with several devices, compares all-reduce with NCCL's.
   If SYN_PEER_PYTHON names a Python that has torch and transformers, PyTorch's steps are measured,
   eager and compiled. Reports medians. The exit status is 1 if a limit is missed, and 77 without a
   device. The argument "dry" runs tiny models without limits, to test that the benchmark runs. Any
   other argument runs the parts whose names contain it. */
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"
#include "models/bert.h"
#include "models/causal.h"
#include "models/training/optimizer.h"
#include "syntorch/gradient.h"
#include "tests/support/bench.h"
#include "tests/support/device.h"

enum { RUNS = 5, STEPS = 5 };

static bool dry;
static peer limits; /* measures the device's limits; with "dry" no such process is started */

/* ---- what the device allows ---- */

static double limit_of(const char *question) {
    double rate = 1;
    if (limits.to) ask_peer(&limits, question, &rate, 1);
    return rate;
}

/* Seconds of `times` products of (m, k) by (k, n). */
static double product_s(const char *type, int64_t m, int64_t n, int64_t k, double times) {
    char question[96];
    snprintf(question, sizeof question, "%s %lld %lld %lld", type, (long long)m, (long long)n,
             (long long)k);
    return times * 2.0 * (double)m * (double)n * (double)k / (limit_of(question) * 1e12);
}

/* Seconds of y = x w and, in training, also of dx = dy w' and dw = x' dy. */
static double products_s(int64_t m, int64_t n, int64_t k, double times, bool training) {
    double s = product_s("bf16", m, n, k, times);
    if (training) s += product_s("bf16", m, k, n, times) + product_s("bf16", k, n, m, times);
    return s;
}

/* Seconds of all products with weights for `tokens` tokens, of which `head` go through the head.
   The function after this one counts their flops. */
static double model_s(const syn_model_config *c, int64_t tokens, int64_t head, bool training) {
    const int64_t h = c->n_embd, f = c->n_inner;
    const double layers = (double)c->n_layer;
    double s = products_s(tokens, 3 * h, h, layers, training);
    s += products_s(tokens, h, h, layers, training);
    s += products_s(tokens, f, h, layers, training) + products_s(tokens, h, f, layers, training);
    return s + products_s(head, c->vocab_size, h, 1, training);
}

static double model_flops(const syn_model_config *c, int64_t tokens, int64_t head, bool training) {
    const double h = (double)c->n_embd, layer = h * (4 * h + 2 * (double)c->n_inner);
    const double once = 2 * ((double)tokens * (double)c->n_layer * layer +
                             (double)head * (double)c->vocab_size * h);
    return training ? 3 * once : once;
}

/* ---- models ---- */

typedef struct runner {
    syn_ctx *ctx;
    syn_model_config config;
    syn_model *model;
    syn_optimizer *optimizer;
    int32_t *ids;
    int64_t batch, tokens;
    bool gpt;
    syn_mark mark;
} runner;

static void need(syn_status s, const syn_error *err) {
    if (s != SYN_OK) die(err->text);
}

static runner open_runner(syn_device device, const char *preset, int64_t batch, int64_t tokens,
                          bool training) {
    const syn_optimizer_options how = {.weight_decay = 0.01, .unchecked = true};
    const syn_model_options options = {
        .fused_attention = true, .seed = 1, .heads = SYN_BERT_MLM, .dtype = SYN_BF16};
    runner r = {.batch = dry ? 2 : batch, .tokens = dry ? 8 : tokens};
    syn_error err = {0};
    need(syn_model_config_preset(&r.config, preset, &err), &err);
    if (dry) {
        r.config.n_layer = 2;
        r.config.n_head = 2;
        r.config.n_embd = 16;
        r.config.n_inner = 64;
        r.config.vocab_size = 64;
    }
    r.gpt = syn_model_is_causal(&r.config);
    need(syn_ctx_new(&r.ctx, device, NULL, &err), &err);
    need(syn_model_new(&r.model, r.ctx, &r.config, &options, &err), &err);
    if (training) need(syn_optimizer_new(&r.optimizer, r.ctx, &how, &err), &err);
    r.ids = calloc((size_t)(r.batch * r.tokens), sizeof *r.ids);
    if (!r.ids) die("out of memory");
    for (int64_t i = 0; i < r.batch * r.tokens; i++)
        r.ids[i] = (int32_t)(i * 7919 % r.config.vocab_size);
    r.mark = syn_ctx_mark(r.ctx);
    return r;
}

static void close_runner(runner *r) {
    free(r->ids);
    syn_optimizer_free(r->optimizer);
    syn_model_free(r->model);
    syn_ctx_free(r->ctx);
}

static syn_tensor tokens_of(runner *r) {
    const syn_spec spec = {SYN_I32, 2, {r->batch, r->tokens}};
    return syn_input(r->ctx, "tokens", &spec, r->ids);
}

static void train_step(runner *r) {
    syn_error err = {0};
    const syn_tensor tokens = tokens_of(r);
    syn_tensor x;
    if (r->gpt) x = syn_causal_loss(r->model, tokens, tokens, SYN_MEAN);
    else {
        x = syn_bert_forward(r->model, tokens, SYN_BERT_NO_TYPES, SYN_NO_MASK);
        x = syn_bert_mlm_loss(r->model, x, tokens, SYN_MEAN);
    }
    syn_backward(r->ctx, x);
    need(syn_optimizer_step(r->optimizer, 1e-4, &err), &err);
    syn_forget(r->ctx, r->mark, NULL, 0);
    syn_next_step(r->ctx); /* repeated steps are launched as a graph, as in our programs */
}

/* Seconds per step, measured over `steps` steps. The host waits only for the last step. */
static double steps_s(runner *r, void (*step)(runner *), int steps) {
    syn_error err = {0};
    need(syn_ctx_sync(r->ctx), syn_ctx_error(r->ctx));
    const double begin = now_s();
    for (int i = 0; i < steps; i++) step(r);
    need(syn_ctx_sync(r->ctx), syn_ctx_error(r->ctx));
    const double seconds = (now_s() - begin) / steps;
    need(syn_ctx_check(r->ctx, &err), &err);
    return seconds;
}

/* ---- parts ---- */

/* Checks that steps of a loop run as graphs, as in our programs. Only the emulated device counts
   graphs. */
static void expect_graphs(uint64_t before) {
    if (dry && ref_cuda_calls("cudaGraphLaunch") == before) die("no step was launched as a graph");
}

static void say_pytorch(const char *preset, const runner *r, double ours) {
    static const char *const modes[] = {"cuda", "compiled"};
    char batch[32], tokens[32];
    double seconds;
    snprintf(batch, sizeof batch, "%lld", (long long)r->batch);
    snprintf(tokens, sizeof tokens, "%lld", (long long)r->tokens);
    for (int i = 0; i < 2 && !dry; i++) {
        const peer p =
            open_python("peer_training.py",
                        (const char *const[]){preset, batch, tokens, "8", "bf16", modes[i], NULL});
        if (!p.to) return;
        for (int warm = 0; warm < 2; warm++) ask_peer(&p, "3", &seconds, 1);
        ask_peer(&p, "10", &seconds, 1);
        printf("  PyTorch, %s: %.2f ms a step, %.3f of its time is ours\n",
               i ? "compiled" : "eager", seconds * 1e3, ours / seconds);
        close_peer(&p);
    }
}

/* Measures the same steps on meta, which only records rows. Their time is part of the time of our
   steps. It includes the model code and is spent on the host, so the device need not wait for
   it. */
static void say_recording(const char *preset, int64_t batch, int64_t tokens, double ours) {
    runner r = open_runner(SYN_DEVICE_META, preset, batch, tokens, true);
    double seconds[RUNS];
    steps_s(&r, train_step, 3);
    for (int i = 0; i < RUNS; i++) seconds[i] = steps_s(&r, train_step, STEPS);
    line("recording, of the step's time", 100 * median(seconds, RUNS) / ours, "%", dry ? 1e6 : 1,
         true);
    close_runner(&r);
}

static void train(const char *preset, int64_t batch, int64_t tokens) {
    runner r = open_runner(SYN_DEVICE_CUDA, preset, batch, tokens, true);
    double ours[RUNS], floors[RUNS], ratios[RUNS];
    const int64_t rows = r.batch * r.tokens;
    const uint64_t graphs = ref_cuda_calls("cudaGraphLaunch");
    steps_s(&r, train_step, 3);
    for (int i = 0; i < RUNS; i++) {
        floors[i] = model_s(&r.config, rows, rows, true);
        ours[i] = steps_s(&r, train_step, STEPS);
        ratios[i] = floors[i] / ours[i];
    }
    expect_graphs(graphs);
    const double step = median(ours, RUNS), flops = model_flops(&r.config, rows, rows, true);
    printf("%s, training, bf16, %lld x %lld:\n", preset, (long long)r.batch, (long long)r.tokens);
    printf(
        "  step %.2f ms, %.0f tokens/s, %.0f TFLOP/s in products with weights (cuBLASLt: %.0f)\n",
        step * 1e3, (double)rows / step, flops / step / 1e12, flops / median(floors, RUNS) / 1e12);
    line("time of its products by cuBLASLt / step", median(ratios, RUNS), "", dry ? 0 : 0.6, false);
    say_recording(preset, batch, tokens, step);
    say_pytorch(preset, &r, step);
    close_runner(&r);
}

static void train_gpt2(void) {
    train("gpt2", 64, 1024);
}

static void train_bert(void) {
    train("bert-base-uncased", 64, 512);
}

static void prefill_step(runner *r) {
    syn_error err = {0};
    need(syn_causal_begin(r->model, r->batch, r->tokens, &err), &err);
    syn_argmax(r->ctx, syn_causal_forward(r->model, tokens_of(r)));
    syn_forget(r->ctx, r->mark, NULL, 0);
    syn_next_step(r->ctx);
}

static void prefill(void) {
    runner r = open_runner(SYN_DEVICE_CUDA, "gpt2", 16, 1024, false);
    double ours[RUNS], ratios[RUNS];
    const int64_t rows = r.batch * r.tokens;
    steps_s(&r, prefill_step, 3);
    for (int i = 0; i < RUNS; i++) {
        const double floor = model_s(&r.config, rows, r.batch, false);
        ours[i] = steps_s(&r, prefill_step, STEPS);
        ratios[i] = floor / ours[i];
    }
    printf("gpt2, prefill, bf16, %lld x %lld: %.2f ms, %.0f tokens/s\n", (long long)r.batch,
           (long long)r.tokens, median(ours, RUNS) * 1e3, (double)rows / median(ours, RUNS));
    line("time of its products by cuBLASLt / prefill", median(ratios, RUNS), "", dry ? 0 : 0.7,
         false);
    close_runner(&r);
}

static void decode(void) {
    enum { BEFORE = 128, DECODED = 128 };
    runner r = open_runner(SYN_DEVICE_CUDA, "gpt2", 1, BEFORE, false);
    const syn_spec one = {SYN_I32, 2, {r.batch, 1}};
    const int steps = dry ? 3 : DECODED;
    double ours[RUNS], ratios[RUNS], weights = 0;
    syn_error err = {0};
    for (size_t i = 0; i < syn_ctx_param_count(r.ctx); i++)
        weights += (double)syn_spec_bytes(syn_tensor_spec(r.ctx, syn_ctx_param(r.ctx, i).tensor));
    const uint64_t graphs = ref_cuda_calls("cudaGraphLaunch");
    for (int i = -1; i < RUNS; i++) {
        const double copy = limit_of("copy 1073741824") * 1e9;
        need(syn_causal_begin(r.model, r.batch, r.tokens + steps, &err), &err);
        syn_tensor next = tokens_of(&r);
        double begin = 0;
        for (int s = -1; s < steps; s++) {
            const syn_tensor token = syn_argmax(r.ctx, syn_causal_forward(r.model, next));
            next = syn_reshape(r.ctx, token, one.dims, 2);
            syn_next_step(r.ctx);
            if (s >= 0) continue;
            need(syn_ctx_sync(r.ctx), syn_ctx_error(r.ctx));
            begin = now_s();
        }
        need(syn_ctx_sync(r.ctx), syn_ctx_error(r.ctx));
        const double seconds = (now_s() - begin) / steps;
        syn_forget(r.ctx, r.mark, NULL, 0);
        if (i < 0) continue;
        ours[i] = seconds;
        ratios[i] = weights / seconds / copy;
    }
    expect_graphs(graphs);
    printf("gpt2, decode, bf16, batch %lld: %.3f ms a token, %.0f MB of weights\n",
           (long long)r.batch, median(ours, RUNS) * 1e3, weights / 1e6);
    line("bytes of weights a second / copy", median(ratios, RUNS), "", dry ? 0 : 0.8, false);
    close_runner(&r);
}

/* ---- several devices ---- */

enum { MAX_RANKS = 64, REDUCTIONS = 10 };

typedef struct reducing {
    int64_t n;            /* number of elements */
    double seconds[RUNS]; /* time of one all-reduce */
} reducing;

static syn_status reduce_rank(syn_comm *comm, void *arg, syn_error *err) {
    reducing *all = arg;
    int32_t ranks[MAX_RANKS];
    syn_group *group = NULL;
    syn_ctx *ctx = NULL;
    for (int32_t i = 0; i < comm->size; i++) ranks[i] = i;
    SYN_TRY(syn_comm_open_group(comm, 1, "all", ranks, comm->size, &group, err));
    SYN_TRY(syn_ctx_new(&ctx, SYN_DEVICE_CUDA, comm, err));
    const syn_tensor x = syn_input(ctx, "x", &(syn_spec){SYN_BF16, 1, {all->n}}, NULL);
    const syn_mark mark = syn_ctx_mark(ctx);
    for (int run = -1; run < RUNS;
         run++) { /* each all-reduce waits for all ranks, so the ranks begin together */
        syn_all_reduce(ctx, x, SYN_REDUCE_SUM, group);
        if (syn_ctx_sync(ctx) != SYN_OK) break;
        const double begin = now_s();
        for (int i = 0; i < REDUCTIONS; i++) {
            syn_all_reduce(ctx, x, SYN_REDUCE_SUM, group);
            syn_forget(ctx, mark, NULL, 0);
        }
        if (syn_ctx_sync(ctx) != SYN_OK) break;
        if (comm->rank == 0 && run >= 0) all->seconds[run] = (now_s() - begin) / REDUCTIONS;
    }
    const syn_status s = syn_ctx_check(ctx, err);
    syn_ctx_free(ctx);
    return s;
}

/* The sizes are one bucket of data parallelism, and all gradients of GPT-2. The rate is computed as
   in nccl-tests: the bytes that a ring sends over each link, per second. */
static void reduce(void) {
    static const int64_t megabytes[] = {25, 256};
    const int devices = ref_cuda_devices(), n = devices < MAX_RANKS ? devices : MAX_RANKS;
    if (n < 2) {
        printf("all-reduce: not measured, for there is one device\n");
        return;
    }
    for (int i = 0; i < 2; i++) {
        const int64_t bytes = dry ? 4096 : megabytes[i] << 20;
        reducing all = {.n = bytes / 2};
        double nccl[RUNS];
        char question[96];
        syn_error err = {0};
        need(syn_local_run(n, reduce_rank, &all, &err), &err);
        snprintf(question, sizeof question, "all_reduce %lld %d", (long long)bytes, n);
        for (int k = 0; k < RUNS; k++) nccl[k] = limit_of(question);
        const double rate = 2.0 * (n - 1) / n * (double)bytes / median(all.seconds, RUNS) / 1e9;
        snprintf(question, sizeof question, "peer %lld", (long long)bytes);
        printf(
            "all-reduce, bf16, %d devices, %lld bytes: %.1f GB/s (NCCL: %.1f; a copy between two "
            "devices: %.1f)\n",
            n, (long long)bytes, rate, median(nccl, RUNS), limit_of(question));
        line("rate / NCCL's", rate / median(nccl, RUNS), "", dry ? 0 : 0.9, false);
    }
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"training gpt2", train_gpt2},
                 {"training bert", train_bert},
                 {"prefill", prefill},
                 {"decode", decode},
                 {"all-reduce", reduce}};
    const syn_backend *backend;
    syn_error err = {0};
    const char *build = getenv("SYN_BUILD");
    char command[1024];
    if (syn_backend_get(SYN_DEVICE_CUDA, &backend, &err) != SYN_OK) {
        printf("skipped: no CUDA device: %s\n", err.text);
        return 77;
    }
    dry = argc > 1 && strcmp(argv[1], "dry") == 0;
    snprintf(command, sizeof command, "%s/tests/cuda_limits", build ? build : "build");
    if (!dry) limits = open_command(command);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (argc < 2 || dry || strstr(parts[i].name, argv[1])) parts[i].run();
    close_peer(&limits);
    return missed > 0;
}
