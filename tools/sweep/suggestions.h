/* Suggestions ("suggestions") for a predicted run: option values that make it faster, or make it
   fit its machine. Each suggestion has been tried by predicting the changed run. */
#ifndef TOOLS_LEVERS_H
#define TOOLS_LEVERS_H

#include "tools/sweep/sweep.h"

enum { LEVERS_MOST = 60, LEVERS_SHOWN = 3, LEVER_SETTINGS = 3, LEVER_BYTES = 64 };

typedef struct suggestion {
    struct suggestion_setting {
        const char *option; /* name without "--" */
        char value[LEVER_BYTES];
    } set[LEVER_SETTINGS]; /* the suggested option first, then options that change with it */
    int n;
    /* set by suggestions_find and suggestions_fit */
    double change; /* relative change of the time per sequence; -0.41: 41 % less */
    sweep_times t;
} suggestion;

typedef struct suggestions {
    suggestion at[LEVERS_MOST];
    int n;
    sweep_times own; /* times of the unchanged run; set by suggestions_find */
} suggestions;

/* Adds a value to try. Values past LEVERS_MOST are ignored. */
void suggestions_add(suggestions *l, const char *option, const char *value);
void suggestions_add_number(suggestions *l, const char *option, int64_t value);
/* Adds an option that changes together with the last value added. */
void suggestions_with(suggestions *l, const char *option, const char *value);
void suggestions_with_number(suggestions *l, const char *option, int64_t value);
/* Adds values of --dtype: the 16-bit types that the machine has a peak for, except `own`.
   bf16_only: the program does not support f16. */
void suggestions_add_dtypes(suggestions *l, const syn_hardware *hw, syn_dtype own, bool bf16_only);

/* Tries each value with all other options unchanged. Keeps the best value of each option, if it
   fits the machine `own` and takes at least 1 % less time per sequence. Sorts them: first those
   with the same number of ranks and the same batch, then those with more ranks, then those with
   larger batches; the largest gain first. Keeps at most LEVERS_SHOWN, and none if the unchanged run
   fails. */
void suggestions_find(suggestions *l, const cli_program *program, const syn_hardware *own,
                      sweep_try *try, void *user);
/* Prints "suggestions: --dtype bf16 -41%, --tp 4 -12% on 4 ranks (time a text, each alone)", or
   nothing if there is no suggestion. */
void suggestions_print(const suggestions *l, FILE *out);

/* For a run that does not fit: keeps the first value of each option with which it fits, at most
   LEVERS_SHOWN. */
void suggestions_fit(suggestions *l, const cli_program *program, const syn_hardware *own,
                     sweep_try *try, void *user);
/* Prints "to fit: --tp 16 --num_gpus 16 (61.2 GiB a rank), --batch_size 2 (75.0 GiB a rank)", or
   that no value is sufficient. */
void suggestions_fit_print(const suggestions *l, FILE *out);
/* Prints "note: each rank needs 82.1 GiB for bf16 weights and activations, but ...". `what` is what
   the memory is for. */
void suggestions_print_need(const syn_hardware *hw, const sweep_times *t, const char *what,
                            FILE *out);

#endif
