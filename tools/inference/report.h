/* The table of a run: calls, time, share, flop/s and bytes/s by op. */
#ifndef TOOLS_REPORT_H
#define TOOLS_REPORT_H

#include <stdio.h>

#include "syntorch/base/sink.h"
#include "syntorch/graph/graph.h"
#include "tools/limits.h"

typedef struct report_row {
    const char *op;
    uint64_t calls, flops, bytes, comm_bytes;
    double busy_ns, wait_ns, predicted_ns; /* sums; 0 where unknown; busy_ns without the waiting for
                                              other ranks, which wait_ns has */
    bool communication;
} report_row;

typedef struct report {
    report_row *rows; /* most time (measured, else predicted, else flops) first */
    uint32_t n_rows;
    report_row total;
    bool measured, predicted;
    double predicted_forward_ns, predicted_prefill_ns, predicted_decode_ns; /* sums over phases */
    limits limits;                                                          /* of predicted times */
    uint64_t largest_bytes; /* of what one op made anew */
    uint64_t last_id;       /* of the nodes added */
    size_t rows_cap;
} report;

/* Adds one rank's nodes but views, those with higher ids than were added: a run's steps one by one,
   each before it is forgotten. Begins as all zeros. The ops' names must outlive the report. hw:
   what predicted their times, or NULL. */
syn_status report_add(report *r, const syn_graph *graph, uint32_t rank, const syn_hardware *hw,
                      syn_error *err) SYN_MUST_USE;
/* Sorts the rows, which are to be printed. */
void report_sort(report *r);
void report_print(const report *r, FILE *out);
/* The rows as a JSON array of objects; times in ns, time_ns without wait_ns. */
void report_json(const report *r, syn_sink *out);
/* Every node of one rank on a line: id, phase, scope, op, name, shapes, flops, time. */
void report_print_nodes(const syn_graph *graph, uint32_t rank, FILE *out);
void report_free(report *r);

#endif
