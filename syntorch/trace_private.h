/* What the files of the trace and the context share. */
#ifndef SYNTORCH_TRACE_PRIVATE_H
#define SYNTORCH_TRACE_PRIVATE_H

#include "syntorch/trace.h"

/* Index + 1 of a shard in trace->shards, where it is added if it is new. */
syn_status syn__shard_number(syn_trace *trace, syn_shard shard, uint16_t *number,
                             syn_error *err) SYN_MUST_USE;

/* Which part of its whole each tensor row is, as far as it follows from how parameters are cut. */
typedef struct syn__trace_parts {
    uint16_t *of; /* by row: index in shards + 1 or 0, and SYN__TERM; NULL: nothing is cut */
    syn_shard *shards;
    size_t n, cap;
} syn__trace_parts;
#define SYN__TERM 0x8000u /* see SYN_TENSOR_TERM */
/* Free parts->of and ->shards, in any case. */
syn_status syn__trace_parts_find(const syn_trace *trace, syn__trace_parts *parts,
                                 syn_error *err) SYN_MUST_USE;

/* trace->hashed as it is when the hash has gone over all rows. */
struct syn_trace_hashed syn__trace_hash_rows(const syn_trace *trace);

/* The first row whose number is not below `number`; n_rows if there is none. */
uint32_t syn__first_row(const syn_trace_numbers *numbers, size_t n_rows, uint32_t number);
/* The same two, of what lies between the first run and the last. */
uint32_t syn__number_in_runs(const syn_trace_numbers *numbers, uint32_t row);
uint32_t syn__row_in_runs(const syn_trace_numbers *numbers, uint32_t number);

/* The number of a row, or, of n_rows, of the next to be made. Most that are asked for are before
   all gaps, or new. */
static inline uint32_t syn__number_of(const syn_trace_numbers *numbers, uint32_t row) {
    const size_t n = numbers->n_runs;
    if (n == 0 || row < numbers->runs[0].row) return row;
    const syn_trace_run *last = &numbers->runs[n - 1];
    return row >= last->row ? last->number + (row - last->row) : syn__number_in_runs(numbers, row);
}

/* The row with that number; 0 if there is none. */
static inline uint32_t syn__row_of(const syn_trace_numbers *numbers, size_t n_rows,
                                   uint32_t number) {
    const size_t n = numbers->n_runs;
    if (n == 0) return number < n_rows ? number : 0;
    if (number < numbers->runs[0].number) return number < numbers->runs[0].row ? number : 0;
    const syn_trace_run *last = &numbers->runs[n - 1];
    if (number < last->number) return syn__row_in_runs(numbers, number);
    const uint32_t row = last->row + (number - last->number);
    return row < n_rows ? row : 0;
}

/* What syn__trace_drop is to drop, and what of it not. */
typedef struct syn__dropping {
    uint32_t first_node, first_tensor; /* rows from here on */
    const bool *stays; /* of each tensor row from first_tensor on; owners of storages
                          that stay must */
    uint32_t *texts;   /* ids held elsewhere, which may change */
    size_t n_texts;
    bool hashed; /* the hash goes over all rows first */
} syn__dropping;
/* Drops rows. What stays of them is, for the trace, made by none of its nodes; its name stays. */
syn_status syn__trace_drop(syn_trace *trace, const syn__dropping *what,
                           syn_error *err) SYN_MUST_USE;

#endif
