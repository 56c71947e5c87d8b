/* ./dev bench moe: measures prefill and decode of a model with the widths of Qwen3-30B-A3B and
   random weights in f32 and bf16, with all cores. It has two layers, and a vocabulary whose head
   is as large a part of a step as that of the whole model. They are compared with the limits of
   the machine: decode with the time of reading the weights that a step needs, of the experts only
   those that are used; prefill with the longer of the time of the same products in OpenBLAS (f32)
   and that of reading the weights.

   If SYN_PEER_PYTHON names a Python that has torch and transformers, these are measured, too. So is
   the command in SYN_PEER_LLAMA, if set (causal_bench.h). All runs alternate. Reports medians. The
   exit status is 1 if a limit is missed. With a dtype as argument, only this one is measured. */
#include <math.h>
#include <string.h>

#include "ops/blas.h"
#include "ops/simd.h"
#include "tests/support/causal_bench.h"
#include "tools/cli.h"

enum { LAYERS = 2, VOCABULARY = 8192, READ_BYTES = 1 << 30 };

/* What is measured of each program in a round: the prefill or a step of a generation. */
typedef struct work {
    const char *name;
    generation g;
} work;
static const work works[] = {
    {"prefill of 256", {.sequences = 1, .length = 256}},
    {"prefill of 512", {.sequences = 1, .length = 512}},
    {"a step of 1 sequence", {.sequences = 1, .length = 128, .steps = 24}},
    {"a step of 4 sequences", {.sequences = 4, .length = 32, .steps = 16}},
    {"a step of 8 sequences", {.sequences = 8, .length = 32, .steps = 16}},
};
enum { WORKS = sizeof works / sizeof works[0] };

static syn_model_config config;

/* ---- What the machine allows ---- */

/* Tokens of which the experts and the other layers compute something at a time. */
static int64_t rows_of(const work *w) {
    return w->g.steps > 0 ? w->g.sequences : (int64_t)w->g.sequences * w->g.length;
}

/* The products of all layers, and the head's product for one token of each sequence. The rows of
   all experts are multiplied by the matrices of one expert. */
static int products(const work *w, blas_product *list) {
    const int64_t rows = rows_of(w), c = config.n_embd, q = config.n_head * config.head_dim,
                  kv = config.n_kv_head * config.head_dim, e = config.experts.inner,
                  all = rows * config.experts.k;
    int n = 0;
    for (int l = 0; l < LAYERS; l++) {
        const blas_product layer[] = {
            {rows, q, c}, {rows, kv, c}, {rows, kv, c}, {rows, c, q}, {rows, config.experts.n, c},
            {all, e, c},  {all, e, c},   {all, c, e}};
        for (size_t i = 0; i < sizeof layer / sizeof layer[0]; i++) list[n++] = layer[i];
    }
    list[n++] = (blas_product){w->g.sequences, VOCABULARY, c};
    return n;
}

/* The bytes of the weights that these products need. Of the experts, these are the matrices of
   those that at least one token uses, if tokens choose experts at random. */
static double weight_bytes(const work *w, syn_dtype dtype) {
    blas_product list[LAYERS * 8 + 1];
    const int n = products(w, list);
    const double unused = 1 - (double)config.experts.k / (double)config.experts.n,
                 used = (double)config.experts.n * (1 - pow(unused, (double)rows_of(w)));
    double elems = 0;
    for (int i = 0; i < n; i++)
        elems += (double)(list[i].n * list[i].k) * (i < n - 1 && i % 8 >= 5 ? used : 1);
    return elems * (double)syn_dtype_bytes(dtype);
}

static void set(timings *t, int r, const double seconds[CLOCKS]) {
    for (int c = 0; c < CLOCKS; c++) t->s[c][r] = seconds[c];
}

/* Measures the time of reading a byte. */
static void reading_s(syn_workers *workers, double seconds[CLOCKS]) {
    static float *memory;
    if (!memory) memory = filled(READ_BYTES / sizeof *memory);
    read_bytes(workers, memory, READ_BYTES / 16); /* wakes up the threads */
    seconds[WALL] = now_s();
    seconds[CPU] = cpu_s();
    read_bytes(workers, memory, READ_BYTES);
    seconds[WALL] = (now_s() - seconds[WALL]) / READ_BYTES;
    seconds[CPU] = (cpu_s() - seconds[CPU]) / READ_BYTES;
}

/* ---- Rounds ---- */

/* The times of each work: of the programs, of OpenBLAS, and of reading the weights. */
enum { BLAS = PROGRAMS, READING, LIMIT, COLUMNS };
static timings all[WORKS][COLUMNS];

static void one_round(const programs *p, syn_workers *workers, syn_dtype dtype, int r) {
    double byte_s[CLOCKS], seconds[CLOCKS];
    reading_s(workers, byte_s);
    for (int i = 0; i < WORKS; i++) {
        const work *w = &works[i];
        generation g = w->g;
        g.threads = cli_cores();
        for (int c = 0; c < CLOCKS; c++) seconds[c] = byte_s[c] * weight_bytes(w, dtype);
        set(&all[i][READING], r, seconds);
        set(&all[i][LIMIT], r, seconds);
        if (g.steps == 0) {
            blas_product list[LAYERS * 8 + 1];
            const int n = products(w, list);
            blas_products_s(list, n, g.threads, seconds);
            set(&all[i][BLAS], r, seconds);
            for (int c = 0; c < CLOCKS; c++)
                all[i][LIMIT].s[c][r] = fmax(all[i][LIMIT].s[c][r], seconds[c]);
        }
        for (int j = 0; j < PROGRAMS; j++) {
            if (!has_program(p, j)) continue;
            const generated out = generate(p, j, &g);
            set(&all[i][j], r, g.steps > 0 ? out.step_s : out.prefill_s);
        }
    }
}

static void report(const programs *p, syn_dtype dtype) {
    /* Of prefill and decode. Experts have few rows, whose products cannot be as fast as those of
       sgemm with the rows of all experts. */
    static const double limits[2][2] = {{1.7, 1.15}, {1.8, 1.15}};
    for (int i = 0; i < WORKS; i++) {
        const bool steps = works[i].g.steps > 0;
        const timings *t = all[i];
        char what[96];
        printf("  %s, %s\n", works[i].name, syn_dtype_name(dtype));
        snprintf(what, sizeof what, "time, of the limit's for %.0f MB",
                 1e-6 * weight_bytes(&works[i], dtype));
        line(what, ratio_of(&t[OURS], &t[LIMIT], WALL), "", limits[dtype != SYN_F32][steps], true);
        show_timings("reading", &t[READING], &t[OURS]);
        if (!steps) show_timings("OpenBLAS, f32", &t[BLAS], &t[OURS]);
        for (int j = 0; j < PROGRAMS; j++)
            if (has_program(p, j)) show_timings(program_names[j], &t[j], &t[OURS]);
    }
}

static void run(syn_dtype dtype) {
    programs p;
    syn_workers *workers;
    syn_error err = {0};
    if (syn_workers_new(&workers, cli_cores(), &err) != SYN_OK) die(err.text);
    open_programs(&p, &config, dtype);
    for (int r = -1; r < ROUNDS; r++) /* the first round is a warm-up */
        one_round(&p, workers, dtype, r < 0 ? 0 : r);
    report(&p, dtype);
    close_programs(&p);
    syn_workers_free(workers);
}

int main(int argc, char **argv) {
    static const syn_dtype dtypes[] = {SYN_BF16, SYN_F32};
    char text[128];
    syn_error err = {0};
    printf("%d cores, %s, own kernels %s\n", cli_cores(), syn_blas_describe(text, sizeof text),
           syn_simd_name(syn_simd_level()));
    if (syn_model_config_preset(&config, "qwen3-30b-a3b", &err) != SYN_OK) die(err.text);
    config.n_layer = LAYERS;
    config.vocab_size = VOCABULARY;
    for (int i = 0; i < 2; i++)
        if (argc < 2 || strcmp(syn_dtype_name(dtypes[i]), argv[1]) == 0) run(dtypes[i]);
    return missed ? 1 : 0;
}
