/* Arguments that are no options, for programs that take several files. */
#ifndef TOOLS_POSITIONAL_H
#define TOOLS_POSITIONAL_H

#include "tools/cli.h"

/* Moves the arguments that are neither options nor values of options to the end of argv and takes
   them off *argc; returns how many. argv[*argc] is then the first. Call before cli_parse. */
size_t cli_take_positional(const cli_program *program, int *argc, char **argv);

#endif
