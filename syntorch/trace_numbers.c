/* Numbers of rows: they stay when other rows are dropped. */
#include "syntorch/trace_private.h"

/* The last run that begins at or before the row (or, of `by_number`, the number); NULL if all begin
   later. Most rows that are asked for are new, or come before all gaps. */
static const syn_trace_run *run_of(const syn_trace_numbers *numbers, uint32_t at, bool by_number) {
    size_t low = 0, n = numbers->n_runs;
    if (n == 0 || (by_number ? numbers->runs->number : numbers->runs->row) > at) return NULL;
    if ((by_number ? numbers->runs[n - 1].number : numbers->runs[n - 1].row) <= at) low = n - 1;
    while (n - low > 1) { /* it is one of low .. n - 1 */
        const size_t middle = low + (n - low) / 2;
        const syn_trace_run *run = &numbers->runs[middle];
        if ((by_number ? run->number : run->row) <= at) low = middle;
        else n = middle;
    }
    return &numbers->runs[low];
}

uint32_t syn__number_in_runs(const syn_trace_numbers *numbers, uint32_t row) {
    const syn_trace_run *run = run_of(numbers, row, false);
    return run ? run->number + (row - run->row) : row;
}

/* Where the row with that number is if it is there, and the first row behind its run. */
static size_t place_of(const syn_trace_numbers *numbers, size_t n_rows, uint32_t number,
                       size_t *end) {
    *end = n_rows;
    if (numbers->n_runs == 0) return number;
    const syn_trace_run *run = run_of(numbers, number, true);
    const syn_trace_run *next = run ? run + 1 : numbers->runs;
    if (next < numbers->runs + numbers->n_runs) *end = next->row;
    return run ? (size_t)run->row + (number - run->number) : number;
}

uint32_t syn__first_row(const syn_trace_numbers *numbers, size_t n_rows, uint32_t number) {
    size_t end;
    const size_t row = place_of(numbers, n_rows, number, &end);
    return (uint32_t)(row < end ? row : end);
}

static uint32_t row_of(const syn_trace_numbers *numbers, size_t n_rows, uint32_t number) {
    size_t end;
    const size_t row = place_of(numbers, n_rows, number, &end);
    return row < end ? (uint32_t)row : 0;
}

uint32_t syn_trace_tensor_number(const syn_trace *trace, uint32_t row) {
    return syn__number_of(&trace->tensor_numbers, row);
}

uint32_t syn_trace_node_number(const syn_trace *trace, uint32_t row) {
    return syn__number_of(&trace->node_numbers, row);
}

uint32_t syn_trace_tensor_row(const syn_trace *trace, uint32_t number) {
    return row_of(&trace->tensor_numbers, trace->n_tensors, number);
}

uint32_t syn_trace_node_row(const syn_trace *trace, uint32_t number) {
    return row_of(&trace->node_numbers, trace->n_nodes, number);
}
