/* Runs small models, and single ops, on this machine and records how long each of their ops
   takes. */
#ifndef TOOLS_JOB_H
#define TOOLS_JOB_H

#include "models/config.h"
#include "syntorch/backend.h"
#include "tools/calibrate/timed_ops.h"

enum { JOB_SHAPES = 5 };

typedef struct job {
    int64_t layers, hidden, vocabulary; /* size of a GPT model whose head_dim is 64 */
    struct job_shape {
        int64_t batch, tokens, new_tokens; /* new_tokens 0: a training step */
    } shapes[JOB_SHAPES]; /* run one after another, either all as generation or all as training; an
                             entry with batch 0 ends the list */
    bool paged;           /* generation in packed steps with a paged KV cache, as servers run it */
    syn_dtype dtype;
    syn_device device;
    /* Ranks are data-parallel in training, otherwise tensor-parallel. Each has `threads`
       threads. */
    int32_t ranks, threads;
    int steps;        /* number of measured runs or training steps; one unmeasured run or step comes
                         first */
    bool record_work; /* count the kernels of each op, which slows the run down */
    /* Numbers of elements of the all-reduces, as exponents of 2: first, last, and increment. */
    int first_bits, last_bits, more_bits;
    syn_status before; /* over MPI: status of this rank's preparations, which job_all_reduce sends
                          to all ranks */
} job;

/* The shortest duration of each kind of step. Steps are measured as a whole, with no work of the
   measurement between them. 0: no such step ran. */
typedef struct job_times {
    double prefill_ns, decode_ns, training_ns;
} job_times;

/* Runs the model and adds the op times of rank 0 to *ops. times: may be NULL. */
syn_status job_run(const job *what, timed_ops *ops, job_times *times, syn_error *err) SYN_MUST_USE;
/* Runs y = a + b on f32 tensors with `elements` elements, and adds the times to *ops. */
syn_status job_add(const job *what, int64_t elements, timed_ops *ops, syn_error *err) SYN_MUST_USE;
/* Runs all-reduces in f32 at growing sizes, until the all-reduces of one size take more than 0.2 s
   in total. The ranks are `what->ranks` threads or, if a launcher started this process as one of
   several, the MPI processes. In that case every process must call it, and rank 0 gets the op times
   and *ranks. If `before` is a failure on any rank, nothing is measured: the lowest such rank
   returns its own `before` and does not change *err, and all other ranks return SYN_E_COMM. */
syn_status job_all_reduce(const job *what, timed_ops *ops, int32_t *ranks,
                          syn_error *err) SYN_MUST_USE;

#endif
