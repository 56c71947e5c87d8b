/* Runs the ranks of one tensor-parallel group. Each rank has its own context. */
#ifndef TESTS_RANKS_H
#define TESTS_RANKS_H

#include "comm/comm.h"
#include "ops/ops.h"
#include "syntorch/graph/graph.h"

/* A running rank. tp: its group, which has all ranks. */
typedef struct test_rank {
    int index;
    syn_comm *comm;
    syn_ctx *ctx;
    const syn_group *tp;
} test_rank;

/* The function that each rank runs. If it fails or its context has failed, the run fails. */
typedef syn_status rank_body(const test_rank *me, void *arg, syn_error *err);

/* Runs n ranks in threads on the CPU. */
syn_status run_ranks(int n, rank_body *body, void *arg, syn_error *err);

/* Like syn_local_run, but runs the ranks one after the other, with communicators that move no
   data. */
syn_status run_without_transport(int n, syn_rank_main *main, void *arg, syn_error *err);

enum { IN_THREADS, WITHOUT_TRANSPORT /* one rank after the other, for meta */ };
/* Runs n ranks, verifies their traces, and stores their contexts in ctx, which must have n entries
   that are NULL. Call drop_ranks to free them. If the run fails, prints a message and returns
   false. */
bool keep_ranks(int n, syn_device device, int how, rank_body *body, void *arg, syn_ctx **ctx);
void drop_ranks(int n, syn_ctx **ctx);
/* The graph of a context's trace. If it is invalid, prints a message and returns NULL. */
syn_graph *rank_graph(const syn_ctx *ctx);

/* Runs n ranks and stores the hashes of their traces. If the run fails, prints a message and
   returns false. */
bool trace_hashes(int n, syn_device device, int how, rank_body *body, void *arg, uint64_t *out);
/* The trace hashes of the first two ranks of each variant of a program. All must differ. */
typedef struct seen_traces {
    uint64_t hash[128];
    int n;
} seen_traces;
/* Whether the ranks have the same traces on the CPU, on meta in threads, on meta without transport,
   and with another *seed, and whether these traces differ from those in `seen`. Adds them to
   `seen`. */
bool new_trace_everywhere(seen_traces *seen, int n, rank_body *body, void *arg, uint64_t *seed);
#endif
