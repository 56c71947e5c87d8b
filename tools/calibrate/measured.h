/* Reads measured times from CSV files and predicts them. The run of each row is recorded on meta
   once and reduced to its distinct ops with their counts, so that it can be predicted quickly for
   any hardware. */
#ifndef TOOLS_MEASURED_H
#define TOOLS_MEASURED_H

#include "syntorch/graph/graph.h"
#include "syntorch/hardware/hardware.h"
#include "tools/extrapolation.h"

#define MEASURED_RANKS 1024

typedef enum measured_kind {
    MEASURED_INFERENCE, /* prefill and decode */
    MEASURED_TRAINING,  /* one step */
    MEASURED_COLLECTIVE
} measured_kind;

/* The ops of a run that have the same cost, and their number. */
typedef struct tally_row {
    syn_node node; /* without deps, tensors and attributes */
    /* A collective's group consists of group_ranks ranks: 0, group_stride, 2 * group_stride, ...
       group_ranks 0: the op is no collective. */
    uint32_t group_ranks, group_stride;
    uint64_t count; /* number of such ops */
} tally_row;

typedef struct measured_row {
    measured_kind kind;
    char model[64], stack[32]; /* "": not given */
    int64_t layers, heads, hidden, batch, tokens, new_tokens, passes, tp, dp, pp;
    bool sp;            /* sequence parallelism */
    syn_comm_kind comm; /* kind of collective; `bytes` is the size of the whole buffer */
    uint64_t bytes;
    const char *path;      /* path of the CSV file; owned by the caller */
    int64_t line;          /* line number in the file */
    double ns;             /* measured time */
    double overlap_factor; /* predicted duration / sum of the predicted op times. Without a pipeline
                              it is below 1 if ops overlap. With a pipeline the sum is over one rank
                              of each stage, and the duration includes messages and waiting. */
    tally_row *ops;        /* distinct ops with their counts; set by measured_record */
    size_t n_ops, cap_ops;
} measured_row;

typedef struct measured {
    measured_row *rows;
    size_t n, cap;
    size_t n_skipped; /* number of rows that were skipped because they are inference with pipeline
                         stages, which cannot be predicted */
} measured;

/* Reads a CSV file and appends its rows. The column names in the first line determine the kind of
   the rows (docs/hardware.md). Error messages contain the line number. stack: read only rows with
   this stack; NULL: read all rows. */
syn_status measured_read(measured *m, const char *path, const char *stack,
                         syn_error *err) SYN_MUST_USE;
void measured_free(measured *m);

/* Records the row's run and counts its ops. The overlap of ops (`overlap_factor`) is computed with
   the times that hw predicts; predictions with other constants assume the same overlap. */
syn_status measured_record(measured_row *row, const syn_hardware *hw, syn_error *err) SYN_MUST_USE;
/* Adds those ops of the row to *extrapolated that are outside the ranges that hw was fitted to. */
void measured_extrapolate(const measured_row *row, const syn_hardware *hw,
                          extrapolation *extrapolated);
/* Extends the ranges in *fitted to include the row's ops. */
void measured_fitted_to(const measured_row *row, const syn_hardware *hw, syn_hw_fit_ranges *fitted);
/* Whether two nodes have the same predicted time on any hardware. */
bool measured_same_cost(const syn_node *a, const syn_node *b);
double measured_predict_ns(const measured_row *row, const syn_hardware *hw);

#endif
