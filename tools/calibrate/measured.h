/* Measured times, and what the same run takes by prediction: each row of a CSV file is recorded on
   meta once, its distinct ops are counted, and then evaluated for any hardware. */
#ifndef TOOLS_MEASURED_H
#define TOOLS_MEASURED_H

#include "syntorch/graph/graph.h"
#include "syntorch/hardware/hardware.h"
#include "tools/extrapolation.h"

#define MEASURED_RANKS 1024

typedef enum measured_kind {
    MEASURED_INFERENCE, /* prefill and decode */
    MEASURED_TRAINING,  /* a step */
    MEASURED_COLLECTIVE
} measured_kind;

/* Ops of a rank that cost the same, and how many they are. */
typedef struct tally_row {
    syn_node node;                      /* without deps, tensors and attributes */
    uint32_t group_ranks, group_stride; /* 0: no group; ranks 0, stride, 2 * stride, ... */
    uint64_t count;
} tally_row;

typedef struct measured_row {
    measured_kind kind;
    char model[64], stack[32]; /* "": none was given */
    int64_t layers, heads, hidden, batch, tokens, new_tokens, passes, tp, dp;
    syn_comm_kind comm; /* of a collective, with the bytes of its whole buffer */
    uint64_t bytes;
    const char *path; /* the caller's */
    int64_t line;
    double ns;
    double beside; /* part of the sum of its ops' times, for some run beside others */
    tally_row *ops;
    size_t n_ops, cap_ops;
} measured_row;

typedef struct measured {
    measured_row *rows;
    size_t n, cap;
    size_t n_skipped; /* rows with pipelines, which are not predicted yet */
} measured;

/* Three kinds of files, told by their first line (docs/hardware.md); the line of a failure is in
   its sentence. stack: only rows of this one; NULL: all. Appends. */
syn_status measured_read(measured *m, const char *path, const char *stack,
                         syn_error *err) SYN_MUST_USE;
void measured_free(measured *m);

/* Records the row's run and counts its ops; hw: which ran beside others is found with its times,
   and taken to be so with other constants as well. */
syn_status measured_record(measured_row *row, const syn_hardware *hw, syn_error *err) SYN_MUST_USE;
/* Adds what of the row's ops lies beyond what hw was fitted to. */
void measured_extrapolate(const measured_row *row, const syn_hardware *hw, extrapolation *beyond);
/* Widens the ranges to the row's ops. */
void measured_fitted_to(const measured_row *row, const syn_hardware *hw, syn_hw_fitted *fitted);
/* Whether two nodes of one device take the same time by all that predictions know. */
bool measured_same_cost(const syn_node *a, const syn_node *b);
double measured_predict_ns(const measured_row *row, const syn_hardware *hw);

#endif
