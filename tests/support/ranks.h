/* The ranks of one tensor-parallel group, each with a context of its own. */
#ifndef TESTS_RANKS_H
#define TESTS_RANKS_H

#include "comm/comm.h"
#include "ops/ops.h"
#include "syntorch/graph/graph.h"

typedef struct test_rank {
    int index;
    syn_comm *comm;
    syn_ctx *ctx;
    const syn_group *tp;
} test_rank;

/* What a rank does. If it fails, or leaves a context that has failed, so does the run. */
typedef syn_status rank_body(const test_rank *me, void *arg, syn_error *err);

/* Runs them on the CPU, in threads. */
syn_status run_ranks(int n, rank_body *body, void *arg, syn_error *err);

/* syn_local_run without threads or transport: one rank after the other. */
syn_status run_without_transport(int n, syn_rank_main *main, void *arg, syn_error *err);

enum { IN_THREADS, WITHOUT_TRANSPORT /* one after the other: for meta */ };
/* Keeps the contexts, whose traces must be sound, for drop_ranks; ctx has n entries, all NULL.
   False, after a complaint, if the run fails. */
bool keep_ranks(int n, syn_device device, int how, rank_body *body, void *arg, syn_ctx **ctx);
void drop_ranks(int n, syn_ctx **ctx);
/* What a context's rank did as a graph; NULL, after a complaint, if it is not sound. */
syn_graph *rank_graph(const syn_ctx *ctx);

/* The hashes of their traces; false, after a complaint, if the run fails. */
bool trace_hashes(int n, syn_device device, int how, rank_body *body, void *arg, uint64_t *out);
/* Hashes of the first two ranks' traces of variants of a program, which all differ. */
typedef struct seen_traces {
    uint64_t hash[128];
    int n;
} seen_traces;
/* Whether the ranks' traces are the same on the CPU, on meta in threads and on meta without
   transport, whatever *seed is, and others than those seen before. */
bool new_trace_everywhere(seen_traces *seen, int n, rank_body *body, void *arg, uint64_t *seed);
#endif
