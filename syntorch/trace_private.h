/* Internal functions of traces, for the files of the trace and of the context. */
#ifndef SYNTORCH_TRACE_PRIVATE_H
#define SYNTORCH_TRACE_PRIVATE_H

#include "syntorch/trace.h"

/* Sets *number to the index + 1 of a shard in trace->shards. Adds the shard if it is new. */
syn_status syn__shard_number(syn_trace *trace, syn_shard shard, uint16_t *number,
                             syn_error *err) SYN_MUST_USE;

/* The shard of each tensor row, as far as it can be derived from the shards of parameters. */
typedef struct syn__trace_shards {
    uint16_t *of; /* by row: index in shards + 1, 0 (not sharded) or SYN__PARTIAL; NULL if no
                     parameter is sharded */
    syn_shard *shards;
    size_t n, cap;
} syn__trace_shards;
#define SYN__PARTIAL 0x8000u /* a partial sum (SYN_TENSOR_PARTIAL) */
/* Finds the shards. The caller frees parts->of and parts->shards, even after a failure. */
syn_status syn__trace_shards_find(const syn_trace *trace, syn__trace_shards *parts,
                                  syn_error *err) SYN_MUST_USE;

/* The value that trace->hashed would have after hashing all rows. The trace does not change. */
struct syn_trace_hash_state syn__trace_hash_rows(const syn_trace *trace);

/* The first row whose number is `number` or higher; n_rows if there is none. */
uint32_t syn__first_row(const syn_trace_numbers *numbers, size_t n_rows, uint32_t number);
/* The slow path of the next two functions, for rows and numbers after the beginning of the first
   run and before the last run. */
uint32_t syn__number_in_runs(const syn_trace_numbers *numbers, uint32_t row);
uint32_t syn__row_in_runs(const syn_trace_numbers *numbers, uint32_t number);

/* The number of a row; for row n_rows, the number that the next appended row will get. The fast
   path is inline, because most rows are before the first run or in the last. */
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
    uint32_t first_node, first_tensor; /* rows from these to the ends of the tables are dropped */
    /* For each tensor row from first_tensor: whether it stays. If any tensor of a storage stays,
       the owner of the storage must stay, too. */
    const bool *stays;
    /* Text ids that the caller uses, such as those of open scopes. They are updated when texts are
       renumbered. */
    uint32_t *texts;
    size_t n_texts;
    bool hashed; /* hash all rows first */
} syn__drop_plan;
/* Drops rows. Tensors that stay keep their names and lose their producers. */
syn_status syn__trace_drop(syn_trace *trace, const syn__drop_plan *what,
                           syn_error *err) SYN_MUST_USE;

#endif
