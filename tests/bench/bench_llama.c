/* ./dev bench llama: measures prefill, decode and memory of a model with the shape of Qwen2.5-0.5B
   and random weights in f32 and bf16, with one thread and with all cores. They are compared with
   the limits of the machine: the time of the model's products in OpenBLAS (f32), and the time of
   reading its weights with sgemv.

   If SYN_PEER_PYTHON names a Python that has torch and transformers, these are measured, too. So is
   the command in SYN_PEER_LLAMA, if set (causal_bench.h). All runs alternate. Reports medians. The
   exit status is 1 if a limit is missed. */
#include <string.h>
#include <sys/resource.h>

#include "ops/blas.h"
#include "ops/simd.h"
#include "tests/support/causal_bench.h"
#include "tools/cli.h"
#include "tools/inference/footprint.h"

enum { STEPS = 16, SHORT = 128, LONG = 512 };
enum { VOCABULARY = 151936, HIDDEN = 896, KEYS = 128, INNER = 4864, LAYERS = 24 };

/* What is measured of each program in a round. */
enum { PREFILL_SHORT, PREFILL_LONG, DECODE, WORKS };
static const char *const work_names[WORKS] = {"prefill of 128", "prefill of 512",
                                              "decode from 128"};

typedef struct program {
    timings works[WORKS];
    double peak_mib;
} program;

/* ---- What the machine allows ---- */

/* The products of a layer, as rows and columns of the stored w. */
static const int64_t shapes[][2] = {{HIDDEN, HIDDEN}, {KEYS, HIDDEN},  {KEYS, HIDDEN},
                                    {HIDDEN, HIDDEN}, {INNER, HIDDEN}, {INNER, HIDDEN},
                                    {HIDDEN, INNER}};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* Measures the products of all layers for `rows` tokens, and the head's product for one token. */
static void products_s(int64_t rows, int threads, double seconds[CLOCKS]) {
    blas_product list[LAYERS * SHAPES + 1];
    int n = 0;
    for (int l = 0; l < LAYERS; l++)
        for (int i = 0; i < SHAPES; i++)
            list[n++] = (blas_product){rows, shapes[i][0], shapes[i][1]};
    list[n++] = (blas_product){1, VOCABULARY, HIDDEN};
    blas_products_s(list, n, threads, seconds);
}

/* ---- Rounds ---- */

static void one_round(program *p, const programs *all, int which, int threads, int r) {
    const generated a = generate(all, which, &(generation){threads, 1, SHORT, STEPS}),
                    b = generate(all, which, &(generation){threads, 1, LONG, 0});
    for (int c = 0; c < CLOCKS; c++) {
        p->works[PREFILL_SHORT].s[c][r] = a.prefill_s[c];
        p->works[DECODE].s[c][r] = a.step_s[c];
        p->works[PREFILL_LONG].s[c][r] = b.prefill_s[c];
    }
    p->peak_mib = b.peak_mib;
}

/* Prints the median of the rounds' ratios with its limit. With one thread, the ratio is of CPU
   times, which other programs on the machine affect less. */
static void limit_line(const timings *ours, const timings *blas, syn_dtype dtype, int w,
                       int threads) {
    static const double limits[3][WORKS] = {/* For bf16 if the CPU has no fast bf16 instructions. */
                                            {1.15, 1.15, 1.05},
                                            {0.7, 0.7, 0.65},
                                            {1.2, 1.2, 0.65}};
    const bool pairs = syn_simd_level() == SYN_SIMD_AVX512_BF16 && syn_simd_bf16_dot_is_faster();
    char what[96];
    snprintf(what, sizeof what, "%s, of the products' time in f32", work_names[w]);
    line(what, ratio_of(ours, blas, threads > 1 ? WALL : CPU), "",
         limits[dtype == SYN_F32 ? 0
                : pairs          ? 1
                                 : 2][w],
         true);
}

static void compare(const programs *all, syn_dtype dtype, int threads) {
    static program each[PROGRAMS];
    static timings blas[WORKS];
    const int64_t rows[WORKS] = {SHORT, LONG, 1};
    for (int r = -1; r < ROUNDS; r++) {
        const int at = r < 0 ? 0 : r; /* the first run is a warm-up */
        for (int w = 0; w < WORKS; w++) {
            double seconds[CLOCKS];
            products_s(rows[w], threads, seconds);
            for (int c = 0; c < CLOCKS; c++) blas[w].s[c][at] = seconds[c];
        }
        for (int i = 0; i < PROGRAMS; i++)
            if (has_program(all, i)) one_round(&each[i], all, i, threads, at);
    }
    for (int w = 0; w < WORKS; w++) {
        const timings *ours = &each[OURS].works[w];
        printf("  %s, %s, %d thread%s\n", work_names[w], syn_dtype_name(dtype), threads,
               threads > 1 ? "s" : "");
        limit_line(ours, &blas[w], dtype, w, threads);
        show_timings("OpenBLAS, f32", &blas[w], ours);
        for (int i = 0; i < PROGRAMS; i++)
            if (has_program(all, i)) show_timings(program_names[i], &each[i].works[w], ours);
    }
    for (int i = PYTHON; i < PROGRAMS; i++)
        if (has_program(all, i))
            printf("  %s: %.0f MiB at most\n", program_names[i], each[i].peak_mib);
}

/* Checks the memory of tensors and prints that of the process. The process must not have had
   another model before. */
static void memory(const programs *all, const char *name) {
    struct rusage usage; /* ru_maxrss is in KiB on Linux */
    generate(all, OURS, &(generation){cli_cores(), 1, LONG, 1});
    const footprint f = footprint_of(all->ctx);
    getrusage(RUSAGE_SELF, &usage);
    printf("%s: weights %.0f MiB, cache %.0f MiB, process at most %.0f MiB\n", name,
           (double)f.weights_bytes / 1048576, (double)f.cache_bytes / 1048576,
           (double)usage.ru_maxrss / 1024);
    line("peak of tensors, of weights and cache",
         (double)f.peak_bytes / (double)(f.weights_bytes + f.cache_bytes), "", 1.05, true);
}

static void run(syn_dtype dtype) {
    programs all;
    syn_model_config config;
    syn_error err = {0};
    if (syn_model_config_preset(&config, "qwen2.5-0.5b", &err) != SYN_OK) die(err.text);
    open_programs(&all, &config, dtype);
    memory(&all, syn_dtype_name(dtype));
    compare(&all, dtype, 1);
    if (cli_cores() > 1) compare(&all, dtype, cli_cores());
    close_programs(&all);
}

int main(int argc, char **argv) {
    static const syn_dtype dtypes[] = {SYN_BF16, SYN_F32};
    char text[128];
    printf("%d cores, %s, own kernels %s\n", cli_cores(), syn_blas_describe(text, sizeof text),
           syn_simd_name(syn_simd_level()));
    syn_blas_set_threads(1);
    for (int i = 0; i < 2; i++)
        if (argc < 2 || strcmp(syn_dtype_name(dtypes[i]), argv[1]) == 0) run(dtypes[i]);
    return missed ? 1 : 0;
}
