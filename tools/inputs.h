/* A command never writes over the files that it reads (export/text/input_files.h), nor over those
   of a set. */
#ifndef TOOLS_INPUTS_H
#define TOOLS_INPUTS_H

#include "export/text/input_files.h"

/* The files of a set of execution traces, or the one file of that name. */
syn_status cli_inputs_add_set(syn__input_files *inputs, const char *prefix,
                              syn_error *err) SYN_MUST_USE;
/* For commands with one input. */
syn_status cli_keep_input(const char *input, const char *output, syn_error *err) SYN_MUST_USE;
/* Likewise for the set that would be written: <prefix>.<rank>.et of each rank, the groups, and the
 * files of further ranks, which a new set removes. */
syn_status cli_inputs_keep_set(const syn__input_files *inputs, const char *prefix, int64_t n_ranks,
                               syn_error *err) SYN_MUST_USE;

#endif
