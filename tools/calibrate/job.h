/* Small models that run on this machine: how long each of their ops took. */
#ifndef TOOLS_JOB_H
#define TOOLS_JOB_H

#include "models/config.h"
#include "syntorch/backend.h"
#include "syntorch/graph.h"

/* Ops of one cost. */
typedef struct timed_op {
    syn_node node; /* without deps, tensors and attributes */
    double *all;   /* what each took, ns */
    size_t n, cap;
    double ns; /* their median */
} timed_op;

typedef struct timed_ops {
    timed_op *at;
    size_t n, cap;
} timed_ops;

enum { JOB_SHAPES = 4 };

typedef struct job {
    int64_t layers, hidden, vocabulary;
    struct job_shape {
        int64_t batch, tokens, new_tokens; /* new_tokens 0: a training step */
    } shapes[JOB_SHAPES];                  /* one after the other, either kind; batch 0: no more */
    syn_dtype dtype;
    syn_device device;
    int32_t ranks, threads; /* threads of each rank; ranks share layers, in training texts */
    int steps;              /* measured, after one that is not: runs, or training steps */
} job;

/* Adds what rank 0's ops took. *decode_ns, unless NULL: the shortest decode step, all of it. */
syn_status job_run(const job *what, timed_ops *ops, double *decode_ns, syn_error *err) SYN_MUST_USE;
/* y = a + b of so many elements of f32: its op. */
syn_status job_add(const job *what, int64_t elements, timed_ops *ops, syn_error *err) SYN_MUST_USE;
/* All-reduces of f32, 1 KiB to 64 MiB, among `what->ranks` threads or, if a launcher started this
   process as one of several, over MPI; there every process calls it, and rank 0 has the ops. */
syn_status job_all_reduce(const job *what, timed_ops *ops, int32_t *ranks,
                          syn_error *err) SYN_MUST_USE;
/* Finds `ns` of all. */
void timed_ops_settle(timed_ops *ops);
syn_status timed_ops_add(timed_ops *to, const timed_ops *from, syn_error *err) SYN_MUST_USE;
void timed_ops_free(timed_ops *ops);

#endif
