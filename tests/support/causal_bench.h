/* Shared by the benchmarks of causal models: prefill and decode steps of our model and of other
   programs that have a model of the same shape, and the time of matrix products in OpenBLAS. */
#ifndef TESTS_BENCH_CAUSAL_H
#define TESTS_BENCH_CAUSAL_H

#include "models/causal.h"
#include "tests/support/bench.h"

/* A prefill or a step has a wall-clock time and a CPU time, in seconds. */
enum { WALL, CPU, CLOCKS };
enum { ROUNDS = 5 };

/* The times of a work of one program in each round. */
typedef struct timings {
    double s[CLOCKS][ROUNDS];
} timings;

/* Different prompts of the same length, and the steps after them. */
typedef struct generation {
    int threads, sequences, length, steps;
} generation;

typedef struct generated {
    double prefill_s[CLOCKS], step_s[CLOCKS]; /* step_s: of one step */
    double peak_mib;                          /* of another program's process */
} generated;

/* The programs: ours, transformers (peer_inference.py) and the command in SYN_PEER_LLAMA. The
   command gets a dtype and the model's name as arguments and uses the protocol of
   peer_inference.py. */
enum { OURS, PYTHON, COMMAND, PROGRAMS };
extern const char *const program_names[PROGRAMS];

typedef struct programs {
    syn_ctx *ctx;
    syn_model *model; /* with random weights */
    int64_t vocabulary;
    peer peers[PROGRAMS]; /* OURS: none */
} programs;

/* Failures end the program, as in all functions here. */
void open_programs(programs *p, const syn_model_config *config, syn_dtype dtype);
void close_programs(programs *p);
bool has_program(const programs *p, int which);
/* Runs a generation, greedily. */
generated generate(const programs *p, int which, const generation *g);

/* x (m, k) times a w that is stored as (n, k). */
typedef struct blas_product {
    int64_t m, n, k;
} blas_product;

/* The time of products in OpenBLAS. Each has a w of its own, which is not in the cache. */
void blas_products_s(const blas_product *list, int n, int threads, double seconds[CLOCKS]);

/* Prints the medians of a work's times, and of the ratios to another program's. */
void show_timings(const char *name, const timings *t, const timings *ours);
/* The median of the ratios of two works' times. */
double ratio_of(const timings *a, const timings *b, int clock);

#endif
