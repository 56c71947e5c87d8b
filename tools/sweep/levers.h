/* What would make a predicted run faster: other values of single options, each tried. */
#ifndef TOOLS_LEVERS_H
#define TOOLS_LEVERS_H

#include "tools/sweep/sweep.h"

enum { LEVERS_MOST = 16, LEVERS_SHOWN = 3, LEVER_BYTES = 64 };

typedef struct lever {
    const char *option;
    char value[LEVER_BYTES];
    double change; /* of the time a token; -0.41: 41 % less */
} lever;

typedef struct levers {
    lever at[LEVERS_MOST];
    int n;
} levers;

/* Another value to try; more than LEVERS_MOST are left out. */
void levers_add(levers *l, const char *option, const char *value);
void levers_add_number(levers *l, const char *option, int64_t value);
/* The run's own machine, as --hw names it or NULL, with each stack but its own. */
void levers_add_stacks(levers *l, const syn_hardware *own, const char *hw);
/* Tries each with all other options as they are; keeps those that fit the machine, `own`, and take
   1 % less time at least, most first. None if the run as it is cannot be run once more. */
void levers_find(levers *l, const cli_program *program, const syn_hardware *own, sweep_try *try,
                 void *user);
/* "levers: --dtype bf16 -41%, --tp 4 -12% (time a token, each alone)"; nothing if there is none. */
void levers_print(const levers *l, FILE *out);

#endif
