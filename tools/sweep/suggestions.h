/* Finds suggestions for a predicted run: option values that make it faster, or that make it fit its
   machine's memory. Each suggestion has been tried by predicting the changed run. */
#ifndef TOOLS_SUGGESTIONS_H
#define TOOLS_SUGGESTIONS_H

#include "tools/sweep/sweep.h"

enum {
    SUGGESTIONS_MAX = 60,
    SUGGESTIONS_SHOWN = 3,
    SUGGESTION_SETTINGS = 3,
    SUGGESTION_BYTES = 64
};

typedef struct suggestion {
    struct suggestion_setting {
        const char *option; /* name without "--" */
        char value[SUGGESTION_BYTES];
        bool is_flag;           /* printed without the value */
    } set[SUGGESTION_SETTINGS]; /* the suggested option first, then options that change with it */
    int n;
    /* set by suggestions_find; suggestions_fit sets only t */
    double change; /* relative change of the time per token; -0.41: 41 % less */
    sweep_times t;
} suggestion;

typedef struct suggestions {
    suggestion at[SUGGESTIONS_MAX];
    int n;
    sweep_times own; /* prediction for the unchanged run; set by suggestions_find */
} suggestions;

/* Adds a value to try; NULL: a flag. If there are SUGGESTIONS_MAX values already, it is ignored. */
void suggestions_add(suggestions *l, const char *option, const char *value);
void suggestions_add_number(suggestions *l, const char *option, int64_t value);
/* Adds an option that changes together with the last value added. */
void suggestions_with(suggestions *l, const char *option, const char *value);
void suggestions_with_number(suggestions *l, const char *option, int64_t value);
/* Adds values of --dtype: the 16-bit dtypes that the machine has a peak rate for, except `own`.
   bf16_only: the program does not support f16. */
void suggestions_add_dtypes(suggestions *l, const syn_hardware *hw, syn_dtype own, bool bf16_only);

/* Tries each added value with all other options unchanged. For each option, keeps the value with
   the least time per token, if the run then fits the machine `own` and takes at least 1 % less time
   per token. Sorts the suggestions: first those with the same number of ranks and the same batch,
   then those with more ranks, then those with larger batches; within each group, the largest gain
   first. Keeps the first SUGGESTIONS_SHOWN, or none if the unchanged run fails. */
void suggestions_find(suggestions *l, const cli_program *program, const syn_hardware *own,
                      sweep_try *try, void *user);
/* Prints "suggestions: --dtype bf16 -41%, --tp 4 -12% on 4 ranks (time per sequence; each change
   alone)", or nothing if there is no suggestion. */
void suggestions_print(const suggestions *l, FILE *out);

/* For a run that does not fit its machine's memory: keeps, for each option, the first added value
   with which the run fits. Keeps at most SUGGESTIONS_SHOWN suggestions. */
void suggestions_fit(suggestions *l, const cli_program *program, const syn_hardware *own,
                     sweep_try *try, void *user);
/* Prints "to fit: --tp 16 --num_gpus 16 (61.2 GiB per rank), --batch_size 2 (75.0 GiB per rank)",
   or that none of the tried values is enough. */
void suggestions_fit_print(const suggestions *l, FILE *out);
/* Prints "note: each rank needs 82.1 GiB for bf16 weights and activations, but ...". `what` names
   the contents of the memory: "bf16 weights and activations". */
void suggestions_print_need(const syn_hardware *hw, const sweep_times *t, const char *what,
                            FILE *out);

#endif
