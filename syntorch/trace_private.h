/* Internal functions of the trace, for its own files and the context's. */
#ifndef SYNTORCH_TRACE_PRIVATE_H
#define SYNTORCH_TRACE_PRIVATE_H

#include "syntorch/trace.h"

/* Sets *number to the index + 1 of a shard in trace->shards. Adds the shard if it is new. */
syn_status syn__shard_number(syn_trace *trace, syn_shard shard, uint16_t *number,
                             syn_error *err) SYN_MUST_USE;

/* The shard of each tensor row, as far as it follows from the parameters' shards. */
typedef struct syn__trace_shards {
    uint16_t *of; /* by row: index in shards + 1, 0 (not sharded) or SYN__TERM; NULL: no parameter
                     is sharded */
    syn_shard *shards;
    size_t n, cap;
} syn__trace_shards;
#define SYN__TERM 0x8000u /* a partial sum: see SYN_TENSOR_PARTIAL */
/* The caller frees parts->of and parts->shards, also after a failure. */
syn_status syn__trace_shards_find(const syn_trace *trace, syn__trace_shards *parts,
                                  syn_error *err) SYN_MUST_USE;

/* trace->hashed after hashing all rows; the trace does not change. */
struct syn_trace_hash_state syn__trace_hash_rows(const syn_trace *trace);

/* The first row whose number is at least `number`; n_rows if there is none. */
uint32_t syn__first_row(const syn_trace_numbers *numbers, size_t n_rows, uint32_t number);
/* The slow path of the next two functions: rows and numbers between the first and the last run. */
uint32_t syn__number_in_runs(const syn_trace_numbers *numbers, uint32_t row);
uint32_t syn__row_in_runs(const syn_trace_numbers *numbers, uint32_t number);

/* The number of a row; for row n_rows, the number of the next row to be appended. Inline because
   most lookups are before the first gap or after the last. */
static inline uint32_t syn__number_of(const syn_trace_numbers *numbers, uint32_t row) {
    const size_t n = numbers->n_runs;
    if (n == 0 || row < numbers->runs[0].row) return row;
    const syn_trace_run *last = &numbers->runs[n - 1];
    return row >= last->row ? last->number + (row - last->row) : syn__number_in_runs(numbers, row);
}

/* The row with this number; 0 if there is none. */
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

/* Which rows syn__trace_drop drops. */
typedef struct syn__drop_plan {
    uint32_t first_node, first_tensor; /* drop from these rows to the ends */
    /* For each tensor row from first_tensor: true if it stays. The owner of a storage must stay if
       any other tensor of the storage does. */
    const bool *stays;
    /* Ids in `texts` that the caller holds, such as open scopes; updated when texts are
       renumbered. */
    uint32_t *texts;
    size_t n_texts;
    bool hashed; /* hash all rows first */
} syn__drop_plan;
/* Drops rows. Tensors that stay keep their names and lose their producers. */
syn_status syn__trace_drop(syn_trace *trace, const syn__drop_plan *what,
                           syn_error *err) SYN_MUST_USE;

#endif
