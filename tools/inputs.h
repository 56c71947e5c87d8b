/* The files that a command reads, so that it never writes over one of them, under whatever name. */
#ifndef TOOLS_INPUTS_H
#define TOOLS_INPUTS_H

#include <sys/types.h>

#include "syntorch/status.h"

typedef struct cli_input {
    dev_t device;
    ino_t file;
} cli_input;

typedef struct cli_inputs {
    cli_input *list;
    size_t n, cap;
} cli_inputs;

/* A file, "-" for standard input; what is not there, or no file, counts for nothing. NULL is
 * allowed. */
syn_status cli_inputs_add(cli_inputs *inputs, const char *path, syn_error *err) SYN_MUST_USE;
/* The files of a set of execution traces, or the one file of that name. */
syn_status cli_inputs_add_set(cli_inputs *inputs, const char *prefix, syn_error *err) SYN_MUST_USE;
/* Fails if `output` is one of them, also through a link. */
syn_status cli_inputs_keep(const cli_inputs *inputs, const char *output,
                           syn_error *err) SYN_MUST_USE;
/* For commands with one input. */
syn_status cli_keep_input(const char *input, const char *output, syn_error *err) SYN_MUST_USE;
/* Likewise for the set that would be written: <prefix>.<rank>.et of each rank, the groups, and the
 * files of further ranks, which a new set removes. */
syn_status cli_inputs_keep_set(const cli_inputs *inputs, const char *prefix, int64_t n_ranks,
                               syn_error *err) SYN_MUST_USE;
void cli_inputs_free(cli_inputs *inputs);

#endif
