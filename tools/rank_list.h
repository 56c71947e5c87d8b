/* Reads lists of ranks such as "0-7,16". */
#ifndef TOOLS_RANK_LIST_H
#define TOOLS_RANK_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "syntorch/base/status.h"

/* Reads a rank or a range of ranks ("7" or "0-7") at *at and moves *at behind it. Returns false if
   there is none. */
bool rank_range(const char **at, int32_t *first, int32_t *last);
/* Sets *ranks to the *n ranks of a list, in its order. The caller frees *ranks with syn_free. Fails
   if the text is no list, or has a rank of n_ranks or more. */
syn_status rank_list(int32_t **ranks, size_t *n, const char *text, int32_t n_ranks,
                     syn_error *err) SYN_MUST_USE;

#endif
