/* What would make a predicted run faster, or fit its machine: other values of options, each
   tried. */
#ifndef TOOLS_LEVERS_H
#define TOOLS_LEVERS_H

#include "tools/sweep/sweep.h"

enum { LEVERS_MOST = 60, LEVERS_SHOWN = 3, LEVER_SETTINGS = 3, LEVER_BYTES = 64 };

typedef struct lever {
    struct lever_setting {
        const char *option;
        char value[LEVER_BYTES];
    } set[LEVER_SETTINGS]; /* the first, and others that go with it */
    int n;
    /* found: */
    double change; /* of the time a text; -0.41: 41 % less */
    sweep_times t;
} lever;

typedef struct levers {
    lever at[LEVERS_MOST];
    int n;
    sweep_times own; /* of the run as it is, once others were tried */
} levers;

/* Another value to try; more than LEVERS_MOST are left out. */
void levers_add(levers *l, const char *option, const char *value);
void levers_add_number(levers *l, const char *option, int64_t value);
/* Another option's value, which goes with the last one that was added. */
void levers_with(levers *l, const char *option, const char *value);
void levers_with_number(levers *l, const char *option, int64_t value);
/* --dtype: those of 16 bits that the machine has a peak of. bf16_only: the program has no f16. */
void levers_add_dtypes(levers *l, const syn_hardware *hw, syn_dtype own, bool bf16_only);

/* Tries each with all other options as they are; keeps of each option the best value that fits the
   machine, `own`, and takes 1 % less time a text at least. First come those that need neither more
   ranks nor more texts at a time, then those that need more ranks, then the others; most first.
   None if the run as it is cannot be run once more. */
void levers_find(levers *l, const cli_program *program, const syn_hardware *own, sweep_try *try,
                 void *user);
/* "levers: --dtype bf16 -41%, --tp 4 -12% on 4 ranks (time a text, each alone)"; nothing if there
   is none. */
void levers_print(const levers *l, FILE *out);

/* Of a run that does not fit: keeps of each option the first value with which it does. */
void levers_fit(levers *l, const cli_program *program, const syn_hardware *own, sweep_try *try,
                void *user);
/* "to fit:  --tp 16 --num_gpus 16 (61.2 GiB a rank), --batch_size 2 (75.0 GiB a rank)", or that
   nothing helps. */
void levers_fit_print(const levers *l, FILE *out);
/* "note:    each rank needs 82.1 GiB for bf16 weights and activations, but ...", with what the
   memory is for. */
void levers_print_need(const syn_hardware *hw, const sweep_times *t, const char *what, FILE *out);

#endif
