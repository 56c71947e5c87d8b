/* The state of a simulation over time, in constant memory for any duration: sums over bins of equal
   width, of which pairs are joined when the run outgrows them. */
#ifndef TOOLS_SERVE_SERIES_H
#define TOOLS_SERVE_SERIES_H

#include "syntorch/base/sink.h"
#include "tools/serve/serve.h"

enum { SERVE_BINS = 1024 };

/* What happened in a bin. A step that lies in several bins counts in each for its fraction of time
   there. */
typedef struct serve_bin {
    double running_ns, waiting_ns; /* requests times ns */
    double usage_ns, most_usage; /* of the caches: fraction times ns, added up over the replicas */
    double steps, busy_ns;       /* busy: added up over the replicas */
    double step_ns, longest_ns;  /* durations of the steps */
    double prompt_tokens, output_tokens, sequences;
    int64_t ended, preemptions, hits; /* ended: steps that end in the bin */
} serve_bin;

typedef struct serve_series {
    int32_t n_pools, replicas[2]; /* replicas of each pool */
    double width_ns, end_ns;      /* of a bin; of the run so far */
    serve_bin *bins[2];           /* SERVE_BINS of each pool; owned */
    serve_state *states;          /* of each replica; owned */
} serve_series;

syn_status serve_series_new(serve_series *s, const serve_simulation *sim,
                            syn_error *err) SYN_MUST_USE;
void serve_series_free(serve_series *s);
/* The observer's functions; user: serve_series *. */
syn_status serve_series_step(void *user, const serve_step *step, syn_error *err);
syn_status serve_series_changed(void *user, const serve_state *state, syn_error *err);
/* Call once after the last event. */
void serve_series_end(serve_series *s);
/* Number of bins up to the end of the run. */
int32_t serve_series_bins(const serve_series *s);
/* Adds a bin to another one. */
void serve_bin_add(serve_bin *to, const serve_bin *from);
/* Writes a row for each bin of each pool. roles: names of the pools. */
void serve_series_csv(const serve_series *s, const char *const roles[2], syn_sink *csv);
/* The tokens of the prompts that a step computes. */
int64_t serve_prompt_tokens(const serving_step *step);

#endif
