/* ./dev bench llama: measures prefill, decode and memory of a model with the shape of Qwen2.5-0.5B
   and random weights in f32 and bf16, with one thread and with all cores. They are compared with
   the limits of the machine: the time of the model's products in OpenBLAS (f32), and the time of
   reading its weights with sgemv.

   If SYN_PEER_PYTHON names a Python that has torch and transformers, these are measured, too. So is
   the command in SYN_PEER_LLAMA, if set; it gets a dtype as argument and uses the protocol of
   peer_inference.py. All runs alternate. Reports medians. The exit status is 1 if a limit is
   missed. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "models/causal.h"
#include "ops/blas.h"
#include "ops/simd.h"
#include "syntorch/base/memory.h"
#include "tests/support/bench.h"
#include "tools/cli.h"
#include "tools/inference/footprint.h"

enum { ROUNDS = 5, STEPS = 16, SHORT = 128, LONG = 512 };
enum { VOCABULARY = 151936, HIDDEN = 896, KEYS = 128, INNER = 4864, LAYERS = 24 };

/* Each prefill or step has a wall-clock time and a CPU time, in seconds. */
enum { WALL, CPU, CLOCKS };
/* What is measured of each program in a round. */
enum { PREFILL_SHORT, PREFILL_LONG, DECODE, WORKS };
static const char *const work_names[WORKS] = {"prefill of 128", "prefill of 512",
                                              "decode from 128"};

typedef struct program {
    const char *name;
    double s[WORKS][CLOCKS][ROUNDS];
    double peak; /* in MiB */
} program;

/* ---- What the machine allows ---- */

/* The products of a layer, as rows and columns of the stored w. */
static const int64_t shapes[][2] = {{HIDDEN, HIDDEN}, {KEYS, HIDDEN},  {KEYS, HIDDEN},
                                    {HIDDEN, HIDDEN}, {INNER, HIDDEN}, {INNER, HIDDEN},
                                    {HIDDEN, INNER}};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* Measures the products of a layer for `rows` tokens, and the head's product for one token. */
static void products_s(int64_t rows, int threads, double *wall, double *cpu) {
    static float *w, *head, *x, *y;
    const int64_t layer = 2 * HIDDEN * (HIDDEN + KEYS) + 3 * HIDDEN * INNER;
    const struct timespec pause = {0, 150000000};
    if (!w) {
        w = filled(layer * LAYERS);
        head = filled((int64_t)VOCABULARY * HIDDEN);
        x = filled((int64_t)LONG * INNER);
        y = filled((int64_t)VOCABULARY + LONG * INNER);
    }
    syn_blas_set_threads(threads);
    *wall = now_s();
    *cpu = cpu_s();
    const float *at = w;
    for (int l = 0; l < LAYERS; l++)
        for (int i = 0; i < SHAPES; i++) {
            const int64_t n = shapes[i][0], k = shapes[i][1];
            syn_blas_gemm(false, true, rows, n, k, x, k, at, k, 0, y, n);
            at += n * k;
        }
    syn_blas_gemm(false, true, 1, VOCABULARY, HIDDEN, x, HIDDEN, head, HIDDEN, 0, y, VOCABULARY);
    *wall = now_s() - *wall;
    *cpu = cpu_s() - *cpu;
    /* After a product, OpenBLAS's threads keep polling for work for a while. Wait until they sleep,
       so that they do not compete with ours. */
    syn_blas_set_threads(1);
    if (threads > 1) nanosleep(&pause, NULL);
}

/* ---- Ours ---- */

typedef struct ours {
    syn_ctx *ctx;
    syn_model *model;
    int32_t tokens[LONG];
} ours;

static void open_model(ours *o, syn_dtype dtype) {
    syn_error err = {0};
    syn_model_config config;
    const syn_model_options how = {.fused_attention = true, .seed = 1, .dtype = dtype};
    if (syn_model_config_preset(&config, "qwen2.5-0.5b", &err) != SYN_OK ||
        syn_ctx_new(&o->ctx, SYN_DEVICE_CPU, NULL, &err) != SYN_OK ||
        syn_ctx_set_threads(o->ctx, cli_cores(), &err) != SYN_OK ||
        syn_model_new(&o->model, o->ctx, &config, &how, &err) != SYN_OK)
        die(err.text);
    for (int i = 0; i < LONG; i++) o->tokens[i] = (int32_t)((int64_t)i * 7919 % VOCABULARY);
}

static void close_model(ours *o) {
    syn_model_free(o->model);
    syn_ctx_free(o->ctx);
}

static syn_status run_model(ours *o, int threads, int64_t length, int steps,
                            double numbers[2 * CLOCKS], syn_error *err) {
    const syn_spec prompt = {SYN_I32, 2, {1, length}};
    const int64_t one[2] = {1, 1};
    SYN_TRY(syn_ctx_set_threads(o->ctx, threads, err));
    SYN_TRY(syn_causal_begin(o->model, 1, length + steps, err));
    const syn_mark mark = syn_ctx_mark(o->ctx);
    double wall = now_s(), cpu = cpu_s();
    syn_tensor next = syn_input(o->ctx, "prompt", &prompt, o->tokens);
    for (int s = -1; s < steps; s++) {
        const syn_tensor tokens = syn_argmax(o->ctx, syn_causal_forward(o->model, next));
        syn_release(o->ctx, mark, &tokens, 1);
        next = syn_reshape(o->ctx, tokens, one, 2);
        if (s >= 0) continue;
        numbers[0] = now_s() - wall;
        numbers[2] = cpu_s() - cpu;
        wall = now_s();
        cpu = cpu_s();
    }
    numbers[1] = (now_s() - wall) / (steps > 0 ? steps : 1);
    numbers[3] = (cpu_s() - cpu) / (steps > 0 ? steps : 1);
    syn_release(o->ctx, mark, NULL, 0);
    return syn_ctx_check(o->ctx, err);
}

/* ---- Rounds ---- */

enum { OURS, PYTHON, COMMAND, PROGRAMS };

/* Measures a program with this prompt length and number of decode steps. */
static bool ask(program *p, const peer *other, ours *o, int threads, int64_t length, int steps,
                double numbers[5]) {
    char question[96];
    syn_error err = {0};
    if (other) {
        if (!other->to) return false;
        snprintf(question, sizeof question, "%d %lld %d", threads, (long long)length, steps);
        ask_peer(other, question, numbers, 5);
        p->peak = numbers[4];
    } else if (run_model(o, threads, length, steps, numbers, &err) != SYN_OK) die(err.text);
    return true;
}

static void one_round(program *p, const peer *other, ours *o, int threads, int r) {
    double n[5];
    if (!ask(p, other, o, threads, SHORT, STEPS, n)) return;
    for (int c = 0; c < CLOCKS; c++) {
        p->s[PREFILL_SHORT][c][r] = n[2 * c];
        p->s[DECODE][c][r] = n[2 * c + 1];
    }
    if (!ask(p, other, o, threads, LONG, 0, n)) return;
    for (int c = 0; c < CLOCKS; c++) p->s[PREFILL_LONG][c][r] = n[2 * c];
}

static const char *const names[] = {"ours", "OpenBLAS, f32", "transformers", "SYN_PEER_LLAMA"};

/* Prints medians, and the medians of the ratios to our times. */
static void show(const char *name, const program *p, const program *of, int w) {
    double seconds[CLOCKS], ratios[CLOCKS];
    for (int c = 0; c < CLOCKS; c++) {
        double s[ROUNDS], ratio[ROUNDS];
        for (int r = 0; r < ROUNDS; r++) {
            s[r] = p->s[w][c][r];
            ratio[r] = s[r] / of->s[w][c][r];
        }
        seconds[c] = median(s, ROUNDS);
        ratios[c] = median(ratio, ROUNDS);
    }
    printf("    %-14s %8.1f ms, %5.2f times ours; processor %8.1f ms, %5.2f times ours\n", name,
           1e3 * seconds[WALL], ratios[WALL], 1e3 * seconds[CPU], ratios[CPU]);
}

/* Prints the median of the rounds' ratios with its limit. With one thread, the ratio is of CPU
   times, which other programs on the machine affect less. */
static void limit_line(const program *p, const program *blas, syn_dtype dtype, int w, int threads) {
    static const double limits[3][WORKS] = {/* For bf16 if the CPU has no fast bf16 instructions. */
                                            {1.15, 1.15, 1.05},
                                            {0.7, 0.7, 0.65},
                                            {1.2, 1.2, 0.65}};
    const int clock = threads > 1 ? WALL : CPU;
    const bool pairs = syn_simd_level() == SYN_SIMD_AVX512_BF16 && syn_simd_bf16_dot_is_faster();
    double ratios[ROUNDS];
    char what[96];
    for (int r = 0; r < ROUNDS; r++) ratios[r] = p->s[w][clock][r] / blas->s[w][clock][r];
    snprintf(what, sizeof what, "%s, of the products' time in f32", work_names[w]);
    line(what, median(ratios, ROUNDS), "", limits[dtype == SYN_F32 ? 0 : pairs ? 1 : 2][w], true);
}

static void compare(ours *o, const peer peers[PROGRAMS], syn_dtype dtype, int threads) {
    static program programs[PROGRAMS], blas;
    const int64_t rows[WORKS] = {SHORT, LONG, 1};
    for (int r = -1; r < ROUNDS; r++) {
        const int at = r < 0 ? 0 : r; /* the first run is a warm-up */
        for (int w = 0; w < WORKS; w++)
            products_s(rows[w], threads, &blas.s[w][WALL][at], &blas.s[w][CPU][at]);
        for (int i = 0; i < PROGRAMS; i++)
            one_round(&programs[i], i == OURS ? NULL : &peers[i], o, threads, at);
    }
    for (int w = 0; w < WORKS; w++) {
        printf("  %s, %s, %d thread%s\n", work_names[w], syn_dtype_name(dtype), threads,
               threads > 1 ? "s" : "");
        limit_line(&programs[OURS], &blas, dtype, w, threads);
        const program *all[] = {&programs[OURS], &blas, &programs[PYTHON], &programs[COMMAND]};
        for (int i = 0; i < 4; i++)
            if (i < 2 || peers[i - 1].to) show(names[i], all[i], &programs[OURS], w);
    }
    for (int i = PYTHON; i < PROGRAMS; i++)
        if (peers[i].to) printf("  %s: %.0f MiB at most\n", names[i + 1], programs[i].peak);
}

/* Checks the memory of tensors and prints that of the process. The process must not have had
   another model before. */
static void memory(ours *o, const char *name) {
    double numbers[2 * CLOCKS];
    syn_error err = {0};
    struct rusage usage; /* ru_maxrss is in KiB on Linux */
    if (run_model(o, cli_cores(), LONG, 1, numbers, &err) != SYN_OK) die(err.text);
    const footprint f = footprint_of(o->ctx);
    getrusage(RUSAGE_SELF, &usage);
    printf("%s: weights %.0f MiB, cache %.0f MiB, process at most %.0f MiB\n", name,
           (double)f.weights_bytes / 1048576, (double)f.cache_bytes / 1048576,
           (double)usage.ru_maxrss / 1024);
    line("peak of tensors, of weights and cache",
         (double)f.peak_bytes / (double)(f.weights_bytes + f.cache_bytes), "", 1.05, true);
}

static void run(syn_dtype dtype) {
    static ours o;
    char command[1024];
    const char *llama = getenv("SYN_PEER_LLAMA"), *name = syn_dtype_name(dtype);
    if (llama) snprintf(command, sizeof command, "%s %s", llama, name);
    open_model(&o, dtype);
    memory(&o, name);
    const peer peers[PROGRAMS] = {
        [PYTHON] = open_python("peer_inference.py", (const char *const[]){name, NULL}),
        [COMMAND] = open_command(llama ? command : NULL)};
    compare(&o, peers, dtype, 1);
    if (cli_cores() > 1) compare(&o, peers, dtype, cli_cores());
    for (int i = PYTHON; i < PROGRAMS; i++) close_peer(&peers[i]);
    close_model(&o);
}

int main(int argc, char **argv) {
    static const syn_dtype dtypes[] = {SYN_BF16, SYN_F32};
    char text[128];
    cli_choose_blas(argv);
    printf("%d cores, %s, own kernels %s\n", cli_cores(), syn_blas_describe(text, sizeof text),
           syn_simd_name(syn_simd_level()));
    syn_blas_set_threads(1);
    for (int i = 0; i < 2; i++)
        if (argc < 2 || strcmp(syn_dtype_name(dtypes[i]), argv[1]) == 0) run(dtypes[i]);
    return missed ? 1 : 0;
}
