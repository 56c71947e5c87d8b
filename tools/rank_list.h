/* Reads lists of ranks such as "0-7,16". */
#ifndef TOOLS_RANK_LIST_H
#define TOOLS_RANK_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "syntorch/base/status.h"

/* Sets *ranks to the *n ranks of a list, in its order. The caller frees *ranks with syn_free. Fails
   if the text is no list, or has a rank of n_ranks or more. */
syn_status rank_list(int32_t **ranks, size_t *n, const char *text, int32_t n_ranks,
                     syn_error *err) SYN_MUST_USE;

#endif
