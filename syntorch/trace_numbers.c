/* Converts between rows and numbers. The number of a row does not change when other rows are
   dropped. */
#include "syntorch/trace_private.h"

/* The last run that begins at or before row `at`, or with by_number, at or before number `at`. Such
   a run must exist. */
static const syn_trace_run *run_of(const syn_trace_numbers *numbers, uint32_t at, bool by_number) {
    size_t low = 0, n = numbers->n_runs;
    while (n - low > 1) { /* the result is one of low .. n - 1 */
        const size_t middle = low + (n - low) / 2;
        const syn_trace_run *run = &numbers->runs[middle];
        if ((by_number ? run->number : run->row) <= at) low = middle;
        else n = middle;
    }
    return &numbers->runs[low];
}

uint32_t syn__number_in_runs(const syn_trace_numbers *numbers, uint32_t row) {
    const syn_trace_run *run = run_of(numbers, row, false);
    return run->number + (row - run->row);
}

uint32_t syn__row_in_runs(const syn_trace_numbers *numbers, uint32_t number) {
    const syn_trace_run *run = run_of(numbers, number, true);
    const uint32_t row = run->row + (number - run->number);
    return row < run[1].row ? row : 0;
}

/* If the row with this number was dropped, the result is the next row that still exists. */
uint32_t syn__first_row(const syn_trace_numbers *numbers, size_t n_rows, uint32_t number) {
    const syn_trace_run *runs = numbers->runs, *run = NULL;
    const size_t n = numbers->n_runs;
    if (n && number >= runs->number) run = run_of(numbers, number, true);
    const size_t row = run ? (size_t)run->row + (number - run->number) : number;
    const syn_trace_run *next = run ? run + 1 : runs;
    const size_t end = next < runs + n ? next->row : n_rows;
    return (uint32_t)(row < end ? row : end);
}

uint32_t syn_trace_tensor_number(const syn_trace *trace, uint32_t row) {
    return syn__number_of(&trace->tensor_numbers, row);
}

uint32_t syn_trace_node_number(const syn_trace *trace, uint32_t row) {
    return syn__number_of(&trace->node_numbers, row);
}

uint32_t syn_trace_tensor_row(const syn_trace *trace, uint32_t number) {
    return syn__row_of(&trace->tensor_numbers, trace->n_tensors, number);
}

uint32_t syn_trace_node_row(const syn_trace *trace, uint32_t number) {
    return syn__row_of(&trace->node_numbers, trace->n_nodes, number);
}
