/* What commands read and write. A command never writes over the files that it reads
   (export/text/input_files.h), nor over those of a set. */
#ifndef TOOLS_INPUTS_H
#define TOOLS_INPUTS_H

#include "export/text/file_text.h"
#include "export/text/input_files.h"
#include "syntorch/base/sink.h"
#include "tools/cli.h"
#include "tools/output_lock.h"

/* The files of a set of execution traces, or the one file of that name. */
syn_status cli_inputs_add_set(syn__input_files *inputs, const char *prefix,
                              syn_error *err) SYN_MUST_USE;
/* For commands with one input: call it before cli_files_open. */
syn_status cli_keep_input(const char *input, const char *output, syn_error *err) SYN_MUST_USE;
/* Likewise for the set that would be written: <prefix>.<rank>.et of each rank, the groups, and the
   files of further ranks, which a new set removes. */
syn_status cli_inputs_keep_set(const syn__input_files *inputs, const char *prefix, int64_t n_ranks,
                               syn_error *err) SYN_MUST_USE;

/* For commands that write a set: makes the folder of PREFIX.<rank>.et and locks these names until
   output_lock_release. Refuses a prefix that ends in a folder, whose files would be hidden. */
syn_status cli_lock_set(output_lock *lock, const char *prefix, const cli_program *program,
                        syn_error *err) SYN_MUST_USE;

/* The file that a command reads and the one that it makes of it. */
typedef struct cli_files {
    syn__file_text in;
    syn_sink *out;
} cli_files;
/* max_unpacked_bytes: see syn__file_text_open. Close it if this succeeds. */
syn_status cli_files_open(cli_files *files, const char *input, const char *output,
                          uint64_t max_unpacked_bytes, syn_error *err) SYN_MUST_USE;
/* Unless `status` is SYN_OK nothing is written. Returns the first failure. */
syn_status cli_files_close(cli_files *files, syn_status status, syn_error *err) SYN_MUST_USE;

#endif
