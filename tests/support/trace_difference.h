/* Compares the remaining rows of a trace after syn_forget with those of the full trace. */
#ifndef TESTS_TRACE_DIFFERENCE_H
#define TESTS_TRACE_DIFFERENCE_H

#include "syntorch/trace.h"

/* The number of the first node, or else tensor, that differs between `part` and `all`, from which
   nothing was dropped; 0: none. Producers are not compared for tensors without a producer in
   `part`. */
uint32_t trace_difference(const syn_trace *part, const syn_trace *all);

#endif
