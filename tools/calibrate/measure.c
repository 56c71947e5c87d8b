/* Measures a CPU: runs small models on one rank and on several, and all-reduces over threads or
   MPI. */
#include "tools/calibrate/measure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/blas.h"
#include "syntorch/base/clock.h"
#include "tools/calibrate/quiet.h"
#include "tools/cli.h"
#include "tools/memory_check.h"

/* The models that are run. Their weights do not fit in the caches, as in any model that is worth
   predicting, so each step reads them from memory. The tiny model has so little work that its steps
   measure launch overhead. */
static const job models[] = {
    {.layers = 8,
     .hidden = 1024,
     .vocabulary = 16384,
     .shapes = {{1, 256, 6}, {4, 32, 4}, {16, 16, 4}, {1, 64, 4}}},
    {.layers = 2,
     .hidden = 1024,
     .vocabulary = 16384,
     .paged = true,
     .shapes = {{2, 32, 6}, {8, 32, 6}, {32, 8, 6}, {1, 512, 4}, {4, 256, 6}}},
    {.layers = 2,
     .hidden = 1024,
     .vocabulary = 16384,
     .shapes = {{1, 64, 0}, {4, 64, 0}, {1, 512, 0}}},
};
static const job tiny = {.layers = 4, .hidden = 64, .vocabulary = 64, .shapes = {{1, 4, 32}}};
static const syn_dtype types[] = {SYN_F32, SYN_BF16};

enum { MODELS = sizeof models / sizeof models[0], STEPS = 1, ROUNDS = 4, TRIES = 3, SUMS = 20 };
enum { SMALLEST = 12, LARGEST = 26 }; /* numbers of elements of an addition, as exponents of 2 */
#define QUIET    0.03                 /* fraction of the cores that may be busy with other work */
#define RETRY_NS 45000000000          /* no job is repeated after this time */
#define ALL_NS   100000000000         /* no round begins that would end after this time */
#define SPOILED  0.1                  /* rates are useless if more cores did other work */

/* Returns the number of ranks to measure. It is a power of two, because the heads are divided among
   the ranks. It is at most 8, because with more ranks each rank would read too few bytes to
   measure. */
static int32_t most_ranks(void) {
    int32_t ranks = 1;
    while (2 * ranks <= cli_cores() && 2 * ranks <= 8) ranks *= 2;
    return ranks;
}

/* Returns a job with concurrent ranks, each with its share of the cores. */
static job shared_by(const job *what, int32_t ranks, syn_dtype dtype) {
    job j = *what;
    const int threads = cli_cores() / ranks;
    j.dtype = dtype;
    j.device = SYN_DEVICE_CPU;
    j.ranks = ranks;
    j.threads = threads > 1 ? threads : 1;
    j.steps = STEPS;
    return j;
}

/* State of a measurement. */
typedef struct measuring {
    uint64_t begun_ns;
    double background_load; /* highest fraction of the cores that other processes used during any of
                         the jobs whose times count */
    double own_ns;          /* measured duration of an op with almost no work */
} measuring;

/* Runs a job. While there is time, repeats it if other processes used the cores. */
static syn_status run_quietly(measuring *m, const job *what, timed_ops *ops, job_times *times,
                              syn_error *err) {
    double others = 1;
    timed_ops fresh = {0};
    syn_status s = SYN_OK;
    for (int tries = 0; tries < TRIES && others > QUIET && s == SYN_OK; tries++) {
        if (tries > 0 && syn__clock_ns() - m->begun_ns > RETRY_NS) break;
        timed_ops_free(&fresh);
        const idle_mark mark = idle_begin();
        s = job_run(what, &fresh, times, err);
        others = idle_others(&mark);
    }
    m->background_load = fmax(m->background_load, others);
    if (s == SYN_OK) s = timed_ops_add(ops, &fresh, err);
    timed_ops_free(&fresh);
    return s;
}

/* ---- Launches and memory ---- */

static double time_of(timed_ops *ops, const char *op) {
    timed_ops_settle(ops);
    for (size_t i = 0; i < ops->n; i++)
        if (strcmp(ops->at[i].node.op, op) == 0) return ops->at[i].ns;
    return 0;
}

static syn_status measure_launch(measuring *m, syn_hw_kernels *k, syn_error *err) {
    timed_ops ops = {0};
    job j = shared_by(&tiny, k->ranks, SYN_F32);
    job_times times = {0};
    double n = 0;
    j.steps = 10;
    j.ranks = 1; /* without collectives, whose time is no launch overhead */
    const syn_status s = run_quietly(m, &j, &ops, &times, err);
    for (size_t i = 0; i < ops.n; i++)
        if (ops.at[i].node.phase == SYN_PHASE_DECODE) n += (double)ops.at[i].n;
    m->own_ns = time_of(&ops, "add");
    if (n > 0)
        k->launch_ns = times.decode_ns * (double)(tiny.shapes[0].new_tokens - 1) * j.steps / n;
    timed_ops_free(&ops);
    return s;
}

static syn_status measure_memory(const measuring *m, syn_hw_kernels *k, syn_error *err) {
    for (int bits = SMALLEST; bits <= LARGEST; bits += 2) {
        timed_ops ops = {0};
        job j = shared_by(&tiny, k->ranks, SYN_F32);
        const int64_t elements = (int64_t)1 << bits;
        const double bytes = 3 * 4 * (double)elements;
        j.steps = bits < 18 ? 200 : bits < 23 ? 20 : 4;
        const syn_status s = job_add(&j, elements, &ops, err);
        const double ns = fmax(time_of(&ops, "add") - m->own_ns, 1);
        timed_ops_free(&ops);
        SYN_TRY(s);
        k->memory.points[k->memory.n++] = (struct syn_hw_point){bytes, bytes / ns};
    }
    return SYN_OK;
}

/* ---- Models ---- */

static syn_status run_models(measuring *m, timed_ops *ops, int32_t ranks, syn_error *err) {
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
        for (int i = 0; i < MODELS; i++) {
            const job j = shared_by(&models[i], ranks, types[t]);
            SYN_TRY(run_quietly(m, &j, ops, NULL, err));
        }
    return SYN_OK;
}

/* Runs the models with one rank and with several ranks. Does this ROUNDS times or until ALL_NS,
   because a slowdown of the machine may last for seconds. */
static syn_status run_all(measuring *m, timed_ops ops[2], int32_t ranks, syn_error *err) {
    for (uint64_t round = 0; round < ROUNDS; round++) {
        const uint64_t ns = syn__clock_ns() - m->begun_ns;
        if (round > 0 && ns + ns / round > ALL_NS) break;
        for (int i = 0; i < (ranks > 1 ? 2 : 1); i++)
            SYN_TRY(run_models(m, &ops[i], i == 0 ? 1 : ranks, err));
    }
    return SYN_OK;
}

static syn_status measure_ranks(measuring *m, syn_hw_kernels *k, timed_ops *ops, int32_t ranks,
                                syn_error *err) {
    k->ranks = ranks;
    SYN_TRY(measure_launch(m, k, err));
    SYN_TRY(measure_memory(m, k, err));
    timed_ops_settle(ops);
    measure_rates(k, ops, m->own_ns);
    return SYN_OK;
}

/* ---- Output ---- */

static void print_curve(const char *what, const syn_hw_curve *curve, double scale) {
    if (curve->n == 0) return;
    printf("    %-16s", what);
    for (int32_t i = 0; i < curve->n; i++)
        printf(" %.0f: %.3g%s", curve->points[i].at / scale, curve->points[i].rate,
               i + 1 < curve->n ? "," : "\n");
}

/* Prints each curve of flop rates on its own line. For ops that are measured in bytes, prints only
   the rate at the largest size, with several ops per line. */
static void print_width(const struct syn_hw_width *w, const char *name) {
    printf("  %s: GFLOP/s by rows or queries\n", name);
    for (int32_t i = 0; i < w->flops_per_ns.n; i++)
        print_curve(w->flops_per_ns.at[i].op, &w->flops_per_ns.at[i].curve, 1);
    printf("  %s: GB/s of other ops at the largest size", name);
    for (int32_t i = 0; i < w->bytes_per_ns.n; i++) {
        const struct syn_hw_rate *rate = &w->bytes_per_ns.at[i];
        printf("%s%s %.3g", i % 6 == 0 ? "\n    " : ", ", rate->op,
               rate->curve.points[rate->curve.n - 1].rate);
    }
    putchar('\n');
}

static void print_kernels(const syn_hw_kernels *k) {
    const uint64_t ranks = (uint64_t)k->ranks, threads = (uint64_t)cli_cores() / ranks;
    printf("%d rank%s with %d thread%s\n", k->ranks, cli_plural(ranks), (int)threads,
           cli_plural(threads));
    printf("  overhead per op: %.2f us; weights are read at %.1f GB/s (16-bit weights: %.1f)\n",
           k->launch_ns / 1e3, k->widths[0].read_bytes_per_ns, k->widths[1].read_bytes_per_ns);
    printf("  memory: GB/s by KiB read and written\n");
    print_curve("add, alone", &k->memory, 1024);
    print_width(&k->widths[0], "f32");
    print_width(&k->widths[1], "16 bits");
}

/* ---- All measurements ---- */

static double highest(const syn_hw_kernels *k, int width) {
    const syn_hw_rates *rates = &k->widths[width].flops_per_ns;
    double most = 1e-3;
    for (int32_t i = 0; i < rates->n; i++)
        for (int32_t p = 0; p < rates->at[i].curve.n; p++)
            most = fmax(most, rates->at[i].curve.points[p].rate);
    return most;
}

/* Sets the remaining values that hardware files require, from the same measurements. */
static void fill_machine(syn_hardware *hw) {
    const syn_hw_kernels *k = &hw->alone;
    snprintf(hw->name, sizeof hw->name, "this-cpu");
    hw->peak_flops_per_ns[SYN_F32] = highest(k, 0);
    hw->peak_flops_per_ns[SYN_F16] = hw->peak_flops_per_ns[SYN_BF16] = highest(k, 1);
    hw->memory_bytes = memory_free_in_machine("").bytes;
    hw->memory_bytes_per_ns = k->widths[0].read_bytes_per_ns;
    hw->node_ranks = cli_cores();
    hw->stack = (syn_stack){.name = "syntorch",
                            .launch_ns = k->launch_ns,
                            .matmul_efficiency = 1,
                            .memory_efficiency = 1};
}

static void print_link(const syn_link *link, int32_t ranks, const char *what) {
    printf("all-reduces of %d %s: %.2f us per step, %.1f GB/s\n", ranks, what, link->alpha_ns / 1e3,
           link->bytes_per_ns);
}

static void print_machine(const syn_hardware *hw, const measuring *m) {
    print_kernels(&hw->alone);
    if (hw->shared.ranks > 0) {
        print_kernels(&hw->shared);
        print_link(&hw->intra, hw->shared.ranks, "threads");
    }
    printf("measured in %.0f s; other processes used up to %.0f %% of the cores%s\n",
           1e-9 * (double)(syn__clock_ns() - m->begun_ns), 100 * m->background_load,
           m->background_load > SPOILED ? "; measure again without them" : "");
}

static syn_status measure(syn_hardware *hw, measuring *m, timed_ops ops[2], syn_error *err) {
    const int32_t ranks = most_ranks();
    SYN_TRY(syn_blas_reserve(cli_cores(), err));
    syn_blas_set_threads(1); /* a rank's own threads call OpenBLAS concurrently */
    SYN_TRY(run_all(m, ops, ranks, err));
    SYN_TRY(measure_ranks(m, &hw->alone, &ops[0], 1, err));
    hw->intra = (syn_link){1000, 10, SYN_TOPOLOGY_FULLY_CONNECTED}; /* not used: a single rank
                                                                       has no links */
    if (ranks > 1) {
        SYN_TRY(measure_ranks(m, &hw->shared, &ops[1], ranks, err));
        measure_link(&hw->intra, &ops[1], ranks);
    }
    fill_machine(hw);
    if (ranks > 1) measure_link_ranges(hw, &ops[1], ranks);
    return SYN_OK;
}

syn_status measure_machine(syn_hardware *hw, bool quiet, syn_error *err) {
    timed_ops ops[2] = {{0}, {0}};
    measuring m = {.begun_ns = syn__clock_ns()};
    memset(hw, 0, sizeof *hw);
    const syn_status s = measure(hw, &m, ops, err);
    if (s == SYN_OK && !quiet) print_machine(hw, &m);
    timed_ops_free(&ops[0]);
    timed_ops_free(&ops[1]);
    return s;
}

syn_status measure_mpi(syn_hardware *hw, bool quiet, syn_status before, bool *is_first,
                       syn_error *err) {
    timed_ops ops = {0};
    int32_t ranks = 0;
    job j = shared_by(&tiny, 1, SYN_F32);
    j.steps = SUMS;
    j.first_bits = 8; /* 1 KiB */
    j.last_bits = 24;
    j.more_bits = 4;
    j.before = before;
    const syn_status s = job_all_reduce(&j, &ops, &ranks, err);
    *is_first = s == SYN_OK && ranks > 0;
    if (*is_first) {
        timed_ops_settle(&ops);
        measure_link(&hw->intra, &ops, ranks);
        measure_link_ranges(hw, &ops, ranks);
        if (!quiet) print_link(&hw->intra, ranks, "processes");
    }
    timed_ops_free(&ops);
    return s;
}
