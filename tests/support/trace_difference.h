/* Whether what is left of a trace is what a trace without gaps has. */
#ifndef TESTS_TRACE_DIFFERENCE_H
#define TESTS_TRACE_DIFFERENCE_H

#include "syntorch/trace.h"

/* Number of the first node, else tensor, that `part` has otherwise than `all`, from which nothing
   was dropped; 0: none. What nothing of `part` made is compared without its maker. */
uint32_t trace_difference(const syn_trace *part, const syn_trace *all);

#endif
