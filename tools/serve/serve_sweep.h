/* Several simulations of the same requests: --sweep compares combinations of options, and
   --find-rate finds the highest rate at which the limits of --slo hold. */
#ifndef TOOLS_SERVE_SWEEP_H
#define TOOLS_SERVE_SWEEP_H

#include "tools/cli_json.h"
#include "tools/serve/serve_run.h"
#include "tools/sweep/sweep.h"

/* What a user compares: throughput, cost and latencies of a simulation. */
typedef struct serve_figures {
    int64_t gpus, requests, good, most_running, most_waiting, preemptions;
    double output_tokens, prompt_tokens, duration_ns;
    serving_slo mean, tail; /* times; tail: at the percentile of --slo-percentile */
    serve_rates rates;
} serve_figures;
serve_figures serve_figures_of(const serve_run *run, double percentile);
double serve_per_s(const serve_figures *f, double count);
/* Generated tokens per second and GPU, and GPU seconds per 1000 generated tokens. */
double serve_tokens_per_gpu(const serve_figures *f);
double serve_cost(const serve_figures *f);

/* The limits of --slo. */
enum { SERVE_TTFT, SERVE_TPOT, SERVE_LATENCY, SERVE_LIMITS };
extern const char *const serve_limit_names[SERVE_LIMITS];
double serve_limit(const serving_slo *slo, int which);
/* The highest ratio of a time's tail to its limit: at most 1 if all limits hold. 0: no limits. */
double serve_excess(const serve_figures *f, const serving_slo *slo);
/* Writes the limits that do not hold: "TTFT p90 is 1.20 s, above 500 ms". Returns buf. */
const char *serve_missed(const serve_figures *f, const serving_slo *slo, double percentile,
                         char *buf, size_t bytes);
/* Writes the limits: "TTFT p90 <= 500 ms, TPOT p90 <= 40.0 ms". Returns buf. */
const char *serve_limits_text(const serving_slo *slo, double percentile, char *buf, size_t bytes);

/* The answer of --find-rate. */
typedef struct serve_highest {
    double rate;       /* INFINITY: the limits hold even if all requests arrive at once */
    double time_scale; /* --time-scale at which a file has this rate; 0: it has no arrival times, or
                          the rate is INFINITY */
    bool few;          /* there are too few requests to be sure */
} serve_highest;

/* ---- --sweep (serve_sweep.c) ---- */

typedef struct serve_row {
    sweep_row *of; /* its combination, without times; the front is that of throughput per
                      GPU and mean TPOT */
    serve_figures f;
    char *hardware, *stack; /* owned; NULL: refused before the machine was known */
    serve_highest highest;  /* with --find-rate: f is at this rate; else 0 */
    double excess;          /* serve_excess; INFINITY: the server is overloaded */
} serve_row;

typedef struct serve_sweep {
    sweep all;
    serving_slo slo;
    double percentile;
    serve_row *rows; /* as many as all.rows, in their order */
} serve_sweep;

/* Parses the arguments of --sweep and checks the options of --sweep and --find-rate. Call it after
   cli_parse. Returns CLI_RUN, or an exit code after a message. */
int serve_sweep_check(int argc, char **argv);
/* Whether --sweep varies the option with this name. */
bool serve_sweep_varies(const char *option);
syn_status serve_sweep_run(serve_run *run, syn_error *err) SYN_MUST_USE;
void serve_sweep_free(void);

/* The possible rows with the highest throughput per GPU first, and then with the lowest TPOT. The
   caller frees the list with syn_free. NULL: out of memory. */
serve_row **serve_sweep_in_order(const serve_sweep *s, size_t *n);
bool serve_sweep_overloads(const serve_row *row);
/* The row that costs least among those of `machine` (-1: any) that meet the limits; NULL: none. */
const serve_row *serve_sweep_cheapest(const serve_sweep *s, int machine);
/* The row that is closest to meeting the limits; NULL: no combination is possible. */
const serve_row *serve_sweep_closest(const serve_sweep *s);

/* serve_sweep_table.c: the printed table, PREFIX.sweep.csv and the members of the JSON object. */
syn_status serve_sweep_print(const serve_sweep *s, FILE *out, syn_error *err) SYN_MUST_USE;
void serve_sweep_csv(const serve_sweep *s, syn_sink *out);
void serve_sweep_json(const serve_sweep *s, syn_sink *out);
void serve_sweep_notes(const serve_sweep *s, cli_notes notes);
/* serve_sweep_picture.c: throughput per GPU against TPOT. */
syn_status serve_sweep_draw(const serve_sweep *s, const char *path, syn_error *err) SYN_MUST_USE;

/* ---- --find-rate (serve_find_rate.c) ---- */

/* Finds and prints the highest rate. */
syn_status serve_find_rate(serve_run *run, syn_error *err) SYN_MUST_USE;
/* Finds the highest rate. *f: the figures at this rate. */
syn_status serve_find_figures(serve_run *run, serve_highest *highest, serve_figures *f,
                              syn_error *err) SYN_MUST_USE;
/* What to give if there are too few requests: "more --num-requests", or "a longer file". */
const char *serve_more_requests(void);

#endif
