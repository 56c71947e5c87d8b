/* The table of ops that a run prints: calls, time, share of time, flop/s and bytes/s of each op. */
#ifndef TOOLS_REPORT_H
#define TOOLS_REPORT_H

#include <stdio.h>

#include "syntorch/base/sink.h"
#include "syntorch/graph/graph.h"
#include "tools/limits.h"

typedef struct report_row {
    const char *op;
    uint64_t calls, flops, bytes, comm_bytes;
    double busy_ns, wait_ns, predicted_ns; /* sums over the calls, 0 if unknown; wait_ns is the time
                                              spent waiting for other ranks, which busy_ns
                                              excludes */
    bool communication;
} report_row;

typedef struct report {
    report_row *rows; /* sorted by descending measured time, or predicted time, or flops: the first
                         that is known */
    uint32_t n_rows;
    report_row total;
    bool measured, predicted;
    double predicted_forward_ns, predicted_prefill_ns, predicted_decode_ns; /* sums by phase */
    limits limits;          /* what limits the predicted time */
    uint64_t largest_bytes; /* largest output that one op allocated */
    int32_t last_rank;      /* the rank that was added last */
    uint64_t last_id;       /* highest id of that rank's nodes added so far */
    size_t rows_cap;
} report;

/* Adds the nodes of one rank, except views and nodes that were added before. A zeroed report is
   empty. The stages of a pipeline are added one after the other, and their predicted times are
   added up, because only one of them runs at a time. The caller must add each step before its rows
   are forgotten. The names of ops must outlive
   the report. hw: the hardware whose predicted times the nodes have; NULL: none. */
syn_status report_add(report *r, const syn_graph *graph, uint32_t rank, const syn_hardware *hw,
                      syn_error *err) SYN_MUST_USE;
/* Sorts the rows. Call it before printing. */
void report_sort(report *r);
void report_print(const report *r, FILE *out);
/* Writes the rows as a JSON array of objects. Times are in ns; time_ns excludes wait_ns. */
void report_json(const report *r, syn_sink *out);
/* Prints the nodes of one rank, one per line: id, phase, scope, op, name, shapes, flops, time. */
void report_print_nodes(const syn_graph *graph, uint32_t rank, FILE *out);
void report_free(report *r);

#endif
