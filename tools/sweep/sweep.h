/* --sweep KEY=VALUE,... ...: predicts a run for every combination of option values on every
   machine. Each combination is recorded on meta, for one rank only, or for one rank of each
   pipeline stage. The times on each machine are then predicted from the recorded ops. */
#ifndef TOOLS_SWEEP_H
#define TOOLS_SWEEP_H

#include "syntorch/base/sink.h"
#include "syntorch/hardware/hardware.h"
#include "tools/cli.h"
#include "tools/limits.h"
#include "tools/output_lock.h"
#include "tools/residuals.h"

enum { SWEEP_AXES = 12 };

typedef struct sweep_axis {
    const cli_option *option;
    const char **values; /* the n values as text; they point into sweep.words */
    int n;
} sweep_axis;

/* The prediction for one combination on one machine. Times are in ns; 0: not applicable. */
typedef struct sweep_times {
    double ns;                                 /* total time */
    double forward_ns, prefill_ns, decode_ns;  /* the parts of ns for each phase */
    double tokens;                             /* number of tokens that are processed in ns */
    double rank_bytes;                         /* peak memory of the rank that needs most */
    int32_t stages, fullest;                   /* number of pipeline stages; stage of that rank */
    syn_dtype dtype;                           /* dtype of the run */
    int64_t ranks;                             /* number of GPUs */
    double shares[LIMITS_SHARES], utilisation; /* see limits_shares */
    run_error error;                           /* expected error */
    extrapolation extrapolated;                /* ops outside the ranges that the constants were
                                            fitted to */
} sweep_times;

typedef struct sweep_row {
    int at[SWEEP_AXES]; /* index of the value on each axis */
    int machine;        /* index into sweep.machines */
    sweep_times t;      /* also set if the combination is refused only because it is too large */
    char *refused;      /* reason why the combination is not possible, owned by the sweep; NULL: it
                           is possible */
    bool too_large;     /* refused because it does not fit the machine's memory */
    int front; /* position in the Pareto front of time and cost, from 1; 0: not in the front */
} sweep_row;

typedef struct sweep {
    const cli_program *program;
    bool training;                  /* compare times per token, because steps differ in size */
    char title[160], subtitle[200]; /* headings of the picture and the table */
    sweep_axis axes[SWEEP_AXES];
    int n_axes, machine_axis; /* machine_axis: index of the axis of --hw; -1: none */
    char *words;              /* copy of the arguments; the axes' values point into it */
    const char **machine_names;
    syn_hardware *machines; /* machines of --hw */
    int n_machines;
    int deciding;    /* during a try: index of the machine that determines the dtype of runs without
                        --dtype */
    sweep_row *rows; /* for each combination of the other values, one row per machine */
    size_t n, cap;
    output_lock lock; /* lock of the output files, held until sweep_free */
} sweep;

typedef struct sweep_options {
    const cli_program *program;
    bool training;
    const cli_texts *words;                   /* the arguments of --sweep */
    const char *const *keys, *const *useless; /* names of the options that may vary, and of the
                                                 options that have no effect in a sweep; both lists
                                                 end with NULL */
    const char *hw, *device;                  /* the values of --hw and --device; NULL: not given */
    const char *stack;                        /* stack of machines whose name has no stack */
} sweep_options;

#define SWEEP_ALONE "--sweep predicts all ranks in one process; start it without a launcher"
/* Parses the arguments of --sweep and loads the machines; call it after cli_parse. Returns CLI_RUN,
   or an exit code after an error message. */
int sweep_open(sweep *s, const sweep_options *how, int argc, char **argv);
void sweep_free(sweep *s);

/* Predicts one combination and sets times[i] for s->machines[i]. The caller has set the options to
   the combination's values. If the function fails, the combination is not possible, and *err has
   the reason. */
typedef syn_status sweep_try(void *user, const sweep *s, sweep_times *times, syn_error *err);
/* Tries all combinations. During the tries, the program's error messages are stored in the rows
   instead of printed. */
syn_status sweep_run(sweep *s, sweep_try *try, void *user, bool quiet, syn_error *err) SYN_MUST_USE;

/* Whether the peak memory of a rank fits in the machine's memory. */
bool sweep_fits(const syn_hardware *hw, const sweep_times *t);
/* sweep_time returns the ns that the run takes, in training the ns per million tokens. sweep_cost
   returns the rank-seconds (time times number of ranks) per thousand tokens. */
double sweep_time(const sweep *s, const sweep_row *row);
double sweep_cost(const sweep_row *row);
/* Returns the *n possible rows, sorted by time and then by cost. The caller frees the list with
   syn_free. NULL: out of memory. */
sweep_row **sweep_in_order(const sweep *s, size_t *n);
/* Writes the title, followed by the dtypes of the rows unless --dtype varies: "gpt2 in f32".
   Returns buf. */
const char *sweep_title(const sweep *s, char *buf, size_t bytes);
/* Writes the row's values on all axes that have more than one value: "tp 8, batch_size 64, hw
   h100". Returns buf. */
const char *sweep_label(const sweep *s, const sweep_row *row, char *buf, size_t bytes);

/* The row's value on an axis; and the width of the axis's column in the table. */
const char *sweep_value(const sweep *s, const sweep_row *row, int axis);
int sweep_width(const sweep_axis *axis);
/* Prints the reasons why combinations are not possible: each of the first 12 reasons once, with the
   first combination that it applies to and the number of other combinations. */
void sweep_print_refused(const sweep *s, FILE *out);
/* Fails if no combination is possible. */
syn_status sweep_check_possible(const sweep *s, syn_error *err) SYN_MUST_USE;
/* Writes a text as a field of a CSV file, with quotes if it needs them; or a number, without a
   fraction if it is whole. */
void sweep_csv_text(syn_sink *out, const char *text);
void sweep_put_figure(syn_sink *out, double value);

/* Returns the number of values of the option with this name; 1 if the option does not vary. */
int sweep_values(const sweep *s, const char *option);
/* Sets title and subtitle, unless they are set already. The title is `model`, or the number of
   models if the option `option`, which selects the model, varies. The subtitle is `all`, the
   properties that all combinations share. */
void sweep_name(sweep *s, const char *option, const char *model, const char *all);
/* Creates the folder, checks that files can be written there, and locks their names against other
   sweeps. `option` is the option that names the folder; error messages mention it. */
syn_status sweep_open_folder(sweep *s, const char *folder, const char *option,
                             syn_error *err) SYN_MUST_USE;
/* Writes sweep.csv and sweep.svg to the folder, and prints the table or, with `json`, the rows as a
   JSON object. Fails after that if no combination is possible. */
syn_status sweep_report(const sweep *s, const char *folder, bool json, bool quiet,
                        syn_error *err) SYN_MUST_USE;
/* Writes the picture: time against cost, or columns if only one option varies. */
syn_status sweep_draw(const sweep *s, const char *path, syn_error *err) SYN_MUST_USE;

#endif
