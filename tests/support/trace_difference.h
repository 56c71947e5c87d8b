/* Compares the rows that remain in a trace after syn_forget with those of the full trace. */
#ifndef TESTS_TRACE_DIFFERENCE_H
#define TESTS_TRACE_DIFFERENCE_H

#include "syntorch/trace.h"

/* The number of the first node that differs between `part` and `all`; if no node does, that of the
   first tensor; 0: none. No rows may have been dropped from `all`. For a tensor without a producer
   in `part`, producers are not compared. */
uint32_t trace_difference(const syn_trace *part, const syn_trace *all);

#endif
