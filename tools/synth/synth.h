/* The program synth, which writes the traces of a cluster's ranks. It records one rank of each
   pipeline stage with the code of pretrain (tools/pretrain/). main is in examples/synth.c. */
#ifndef TOOLS_SYNTH_H
#define TOOLS_SYNTH_H

#include "tools/pretrain/pretrain.h"

extern const cli_option synth_options[];
/* Called after cli_parse. Sets run->args, and device and ranks of run->launch. Returns CLI_RUN, or
   the exit code after a message. */
int synth_check_options(pretrain *run, int argc, char **argv);

#endif
