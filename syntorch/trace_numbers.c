/* Numbers of rows: they stay when other rows are dropped. */
#include "syntorch/trace_private.h"

/* The last run that begins at or before the row (or, of `by_number`, the number); NULL if all begin
   later. */
static const syn_trace_run *run_of(const syn_trace_numbers *numbers, uint32_t at, bool by_number) {
    size_t low = 0, n = numbers->n_runs;
    if (n && (by_number ? numbers->runs[n - 1].number : numbers->runs[n - 1].row) <= at)
        return &numbers->runs[n - 1];
    while (n > 0) {
        const size_t half = n / 2;
        const syn_trace_run *run = &numbers->runs[low + half];
        if ((by_number ? run->number : run->row) <= at) {
            low += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return low ? &numbers->runs[low - 1] : NULL;
}

uint32_t syn__number_in_runs(const syn_trace_numbers *numbers, uint32_t row) {
    const syn_trace_run *run = run_of(numbers, row, false);
    return run ? run->number + (row - run->row) : row;
}

uint32_t syn__first_row(const syn_trace_numbers *numbers, size_t n_rows, uint32_t number) {
    const syn_trace_run *run = run_of(numbers, number, true);
    const syn_trace_run *next = run ? run + 1 : numbers->runs;
    const bool last = numbers->n_runs == 0 || next == numbers->runs + numbers->n_runs;
    const size_t end = last ? n_rows : next->row;
    const size_t row = run ? (size_t)run->row + (number - run->number) : number;
    return (uint32_t)(row < end ? row : end);
}

uint32_t syn_trace_tensor_number(const syn_trace *trace, uint32_t row) {
    return syn__number_of(&trace->tensor_numbers, row);
}

uint32_t syn_trace_node_number(const syn_trace *trace, uint32_t row) {
    return syn__number_of(&trace->node_numbers, row);
}

static uint32_t row_of(const syn_trace_numbers *numbers, size_t n_rows, uint32_t number) {
    if (numbers->n_runs == 0) return number < n_rows ? number : 0;
    const uint32_t row = syn__first_row(numbers, n_rows, number);
    return row < n_rows && syn__number_of(numbers, row) == number ? row : 0;
}

uint32_t syn_trace_tensor_row(const syn_trace *trace, uint32_t number) {
    return row_of(&trace->tensor_numbers, trace->n_tensors, number);
}

uint32_t syn_trace_node_row(const syn_trace *trace, uint32_t number) {
    return row_of(&trace->node_numbers, trace->n_nodes, number);
}
