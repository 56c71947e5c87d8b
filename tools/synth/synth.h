/* The program synth, which writes the traces of a cluster's ranks. It records one rank of each
   pipeline stage with the code of pretrain (tools/pretrain/). main is in examples/synth.c. */
#ifndef TOOLS_SYNTH_H
#define TOOLS_SYNTH_H

#include "tools/pretrain/pretrain.h"

extern const cli_option synth_options[];
/* Called after cli_parse. Sets run->args, and device and ranks of run->launch. Returns CLI_RUN, or
   the exit code after a message. */
int synth_check_options(pretrain *run, int argc, char **argv);
/* Sets device and ranks of run->launch from the options. Returns as synth_check_options. */
int synth_begin(pretrain *run);
/* Whether --ranks asks for one rank of each program. */
bool synth_one_each(const pretrain *run);
/* Sets *wanted to a list that says for each rank whether --ranks names it, or
   to NULL if all files are written. The caller frees it with syn_free. Fails if --ranks is
   malformed or names a rank that does not exist. */
syn_status synth_ranks(const pretrain *run, bool **wanted, syn_error *err) SYN_MUST_USE;

#endif
