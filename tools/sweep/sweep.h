/* --sweep KEY=VALUE,... ...: a run on meta for each combination of options' values, of which rank 0
   alone is recorded, and its time on each machine. */
#ifndef TOOLS_SWEEP_H
#define TOOLS_SWEEP_H

#include "syntorch/base/sink.h"
#include "syntorch/hardware/hardware.h"
#include "tools/cli.h"
#include "tools/extrapolation.h"
#include "tools/output_lock.h"
#include "tools/residuals.h"

enum { SWEEP_AXES = 12 };

typedef struct sweep_axis {
    const cli_option *option;
    const char **values;
    int n;
} sweep_axis;

/* What a program predicts for one combination on one machine; times in ns, 0: there is none. */
typedef struct sweep_times {
    double ns;                                /* all of it */
    double forward_ns, prefill_ns, decode_ns; /* of it */
    double tokens;                            /* that the time is for */
    double rank_bytes;                        /* most that a rank has at a time */
    syn_dtype dtype;
    int64_t ranks;
    double shares[SYN_LIMIT_COUNT], utilisation; /* see limits_shares */
    run_error error;                             /* to be expected */
    extrapolation beyond;
} sweep_times;

typedef struct sweep_row {
    int at[SWEEP_AXES]; /* which value of each axis */
    int machine;
    sweep_times t;  /* also of what is refused for its size alone */
    char *refused;  /* why this cannot be run; NULL: it can */
    bool too_large; /* that is why: for its machine's memory */
    int front; /* its number among those that none beats in both time and cost, from 1; else 0 */
} sweep_row;

typedef struct sweep {
    const cli_program *program;
    bool training;                  /* times are of steps of different sizes: by token */
    char title[160], subtitle[200]; /* of the picture */
    sweep_axis axes[SWEEP_AXES];
    int n_axes, machine_axis; /* that of --hw; -1: there is none */
    char *words;              /* what values point into */
    const char **machine_names;
    syn_hardware *machines;
    int n_machines;
    int deciding;    /* the one whose dtype a run has that names none, while one is tried */
    sweep_row *rows; /* machines vary fastest */
    size_t n, cap;
    output_lock lock; /* of the files, until sweep_free */
} sweep;

typedef struct sweep_how {
    const cli_program *program;
    bool training;
    const cli_texts *words;                   /* of --sweep */
    const char *const *keys, *const *useless; /* options that may vary; that mean nothing; each list
                                                 ended by NULL */
    const char *hw, *device;                  /* what these options say; NULL: nothing */
    const char *stack;                        /* of machines that name none */
} sweep_how;

#define SWEEP_ALONE "--sweep predicts all ranks in one process; start it without a launcher"
/* After cli_parse. CLI_RUN, or an exit code after a message about what makes no sense. */
int sweep_open(sweep *s, const sweep_how *how, int argc, char **argv);
void sweep_free(sweep *s);

/* One combination, for which the options have their values: fills times, one for each of
   s->machines. A failure is why it is refused. */
typedef syn_status sweep_try(void *user, const sweep *s, sweep_times *times, syn_error *err);
/* Tries all. The program's messages go into the rows meanwhile. */
syn_status sweep_run(sweep *s, sweep_try *try, void *user, bool quiet, syn_error *err) SYN_MUST_USE;

/* Whether what a rank has at a time fits the machine. */
bool sweep_fits(const syn_hardware *hw, const sweep_times *t);
/* Time of the run, or of a million tokens of training, ns; and seconds of all ranks together a
   thousand tokens. */
double sweep_time(const sweep *s, const sweep_row *row);
double sweep_cost(const sweep_row *row);
/* Rows that are not refused, fastest first, of equal ones the cheapest; *n of them. The caller
   frees the list with syn_free. NULL: there is no memory. */
sweep_row **sweep_in_order(const sweep *s, size_t *n);
/* What it is of, with the dtypes of its rows where --dtype does not vary: "gpt2 in f32"; returns
   buf. */
const char *sweep_title(const sweep *s, char *buf, size_t bytes);
/* "tp 8, batch_size 64, hw h100": of the axes with more than one value; returns buf. */
const char *sweep_label(const sweep *s, const sweep_row *row, char *buf, size_t bytes);

/* How many values the option of this name has; 1 if it does not vary. */
int sweep_values(const sweep *s, const char *option);
/* The title, of the first combination that was possible, and what all have in common; `option` says
   which model. */
void sweep_name(sweep *s, const char *option, const char *model, const char *all);
/* Makes the folder, tries whether files can be written there, and locks their names, so that no
   other sweep writes them; `option` names the folder. */
syn_status sweep_open_folder(sweep *s, const char *folder, const char *option,
                             syn_error *err) SYN_MUST_USE;
/* Writes sweep.csv and sweep.svg to the folder; prints the table, or the rows as a
   JSON array. Then fails if no combination is possible. */
syn_status sweep_tell(const sweep *s, const char *folder, bool json, bool quiet,
                      syn_error *err) SYN_MUST_USE;
/* The picture: time against cost. */
syn_status sweep_draw(const sweep *s, const char *path, syn_error *err) SYN_MUST_USE;

#endif
