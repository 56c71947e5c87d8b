/* Opens the input and output files of commands. A command never overwrites a file that it reads
   (export/text/input_files.h), or a file of a trace set that it reads. */
#ifndef TOOLS_INPUTS_H
#define TOOLS_INPUTS_H

#include "export/text/file_text.h"
#include "export/text/input_files.h"
#include "syntorch/base/sink.h"
#include "tools/cli.h"
#include "tools/output_lock.h"

/* cli_parse_inputs for commands that read a prefix or the files of a set. Returns CLI_USAGE after
   an error message if a file is given twice. */
int cli_parse_set(const cli_program *program, int argc, char **argv, const char **input,
                  const char *const **paths, size_t *n_paths);
/* If a path is "-", makes standard input readable several times, which pipes are not: copies it to
   a file that is deleted when the program ends. */
syn_status cli_take_standard_input(const char *const *paths, size_t n, syn_error *err) SYN_MUST_USE;
/* For commands that cannot read standard input: returns CLI_RUN, or CLI_USAGE after an error
   message if the path is "-". what: what the command reads, such as "a folder". */
int cli_refuse_standard_input(const cli_program *program, const char *path, const char *what);

/* Adds input files: the file named `prefix`, or the files of the trace set with this prefix. */
syn_status cli_inputs_add_set(syn__input_files *inputs, const char *prefix,
                              syn_error *err) SYN_MUST_USE;
/* Fails if output and input are the same file. Commands with one input call it before
   cli_files_open. */
syn_status cli_keep_input(const char *input, const char *output, syn_error *err) SYN_MUST_USE;
/* Fails if an input is one of the files <prefix>.<rank>.et or <prefix>.comm_group.json, because
   writing a trace set replaces or removes all of them. */
syn_status cli_inputs_keep_set(const syn__input_files *inputs, const char *prefix,
                               syn_error *err) SYN_MUST_USE;

/* For commands that write a trace set: creates the folder of PREFIX.<rank>.et and locks these names
   until output_lock_release. `option` is the option that gives the prefix, for messages. Rejects a
   prefix that ends in a folder name, because the names of the files would then begin with a dot,
   which hides them. */
syn_status cli_lock_set(output_lock *lock, const char *prefix, const char *option,
                        const cli_program *program, syn_error *err) SYN_MUST_USE;

/* The file that a command reads, and the file that it writes. */
typedef struct cli_files {
    syn__file_text in;
    syn_sink *out;
} cli_files;
/* Opens both files. max_unpacked_bytes: see syn__file_text_open. If it succeeds, the caller must
   call cli_files_close. */
syn_status cli_files_open(cli_files *files, const char *input, const char *output,
                          uint64_t max_unpacked_bytes, syn_error *err) SYN_MUST_USE;
/* Closes both files. The output file appears only if `status` is SYN_OK. Returns the first
   failure. */
syn_status cli_files_close(cli_files *files, syn_status status, syn_error *err) SYN_MUST_USE;

#endif
