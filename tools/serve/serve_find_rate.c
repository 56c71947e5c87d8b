/* --find-rate of `syntorch serve`: finds the highest rate at which the limits of --slo hold. Each
   step simulates the same requests at another rate with the same recorded steps. */
#include <math.h>

#include "tools/cli_json.h"
#include "tools/progress.h"
#include "tools/requests/request_generate.h"
#include "tools/serve/serve_sweep.h"

/* The search ends when the next higher rate that misses the limits is at most 2 % higher. */
#define PRECISION 1.02
/* The --time-scale at which all requests of a file arrive at practically the same time. */
#define AT_ONCE 1e9
enum { MOST_TRIES = 24 };
/* The requests of an attempt must arrive for so many times as long as a request takes. */
enum { LATENCIES = 5 };

typedef struct attempt {
    double rate;
    serve_figures f; /* of an overloaded server: only f.rates */
    double excess;
    bool overloaded;
} attempt;

typedef struct search {
    serve_run *run;
    bool scaled;      /* arrival times of a file, which --time-scale changes */
    double file_rate; /* of the file; known after the first attempt */
    double capacity;  /* requests/s that finish, the lowest of all overloaded attempts */
    attempt tries[MOST_TRIES];
    int n;
    progress bar;
} search;

/* Opens the requests with arrivals at a rate. */
static syn_status open_requests(const search *s, double rate, syn_error *err) {
    request_options *how = &serve_given.requests;
    const char *const arrivals = how->arrivals;
    if (s->scaled) how->time_scale = isinf(rate) ? AT_ONCE : rate / s->file_rate;
    else how->rate = rate;
    if (isinf(rate)) how->arrivals = NULL;
    const syn_status opened = serve_reopen_requests(s->run, err);
    how->arrivals = arrivals;
    return opened;
}

/* Whether the limits are met, perhaps only because the run is too short for a long queue. */
static bool meets(const attempt *t) {
    return !t->overloaded && t->excess <= 1;
}

static bool holds(const search *s, const attempt *t) {
    return meets(t) && t->rate <= s->capacity;
}

/* Simulates the requests at a rate. A server that is overloaded does not meet the limits. */
static syn_status try_rate(search *s, double rate, const attempt **out, syn_error *err) {
    serve_run *run = s->run;
    syn_error why = {0};
    attempt *t = &s->tries[s->n++];
    *t = (attempt){.rate = rate};
    *out = t;
    progress_step(&s->bar, s->n, MOST_TRIES);
    SYN_TRY(open_requests(s, rate, err));
    run->sim.rate = isinf(rate) ? 0 : rate;
    const syn_status status = serve_simulate(&run->sim, run->source, &run->result, &why);
    if (status != SYN_OK && !run->result.rates.overloaded)
        return SYN_FAIL(err, status, "%s", why.text);
    t->f = serve_figures_of(run, serve_given.slo_percentile);
    /* Throughput is that of a server that runs on at this rate, without the time after the last
       arrival. */
    if (!isinf(rate)) t->f.duration_ns = 1e9 * (double)t->f.requests / rate;
    t->excess = serve_excess(&t->f, &run->slo);
    t->overloaded = run->result.rates.growing && !isinf(rate);
    if (t->overloaded) s->capacity = fmin(s->capacity, run->result.rates.finishing);
    return SYN_OK;
}

/* Fails because even requests that hardly meet miss the limits. */
static syn_status fail_alone(const search *s, const attempt *t, syn_error *err) {
    char missed[256];
    return SYN_FAIL(
        err, SYN_E_INVALID, "the limits hold at no rate; even with one request at a time, %s",
        serve_missed(&t->f, &s->run->slo, serve_given.slo_percentile, missed, sizeof missed));
}

/* Sets *next to the attempt at the lowest rate that does not hold, except that at once, and *best
   to the one at the highest rate below that holds. NULL: none. */
static void bracket(const search *s, const attempt **best, const attempt **next) {
    *best = *next = NULL;
    for (const attempt *t = s->tries; t < s->tries + s->n; t++)
        if (!holds(s, t) && !isinf(t->rate) && (!*next || t->rate < (*next)->rate)) *next = t;
    for (const attempt *t = s->tries; t < s->tries + s->n; t++)
        if (holds(s, t) && (!*next || t->rate < (*next)->rate) &&
            (!*best || t->rate > (*best)->rate))
            *best = t;
}

/* The next rate of the search. Only a rate a little above the capacity is worthwhile: it shows
   whether the limits, too, end there. */
static double next_rate(const search *s, const attempt *best, const attempt *next) {
    if (!best) return next->rate / 2;
    if (!next) return 1.5 * best->rate;
    return sqrt(best->rate * fmin(next->rate, PRECISION * s->capacity));
}

/* Tries all requests at once. *rate: the requests per second that finish. *enough: whether a lower
   rate is to be found, because the limits are missed, or the server is overloaded at a rate that is
   much too high. */
static syn_status try_at_once(search *s, double *rate, bool *enough, syn_error *err) {
    const attempt *t;
    SYN_TRY(try_rate(s, INFINITY, &t, err));
    s->file_rate = t->f.rates.arriving / AT_ONCE;
    if (s->scaled && !(s->file_rate > 0))
        return SYN_FAIL(err, SYN_E_INVALID,
                        "--find-rate needs at least 16 requests that do not "
                        "all arrive at once");
    *rate = serve_per_s(&t->f, (double)t->f.requests);
    *enough = !holds(s, t);
    if (*enough) return SYN_OK;
    SYN_TRY(try_rate(s, 4 * *rate, &t, err));
    *enough = !holds(s, t);
    return SYN_OK;
}

/* Finds the highest rate. *best: the attempt at this rate. There are too few requests if the limits
   are also met just above it, or if the requests arrive in too short a time. */
static syn_status find(search *s, const attempt **best, serve_highest *found, syn_error *err) {
    const attempt *next;
    double rate = 0;
    bool enough = false;
    s->scaled = serve_given.requests.rate <= 0;
    s->capacity = INFINITY;
    SYN_TRY(try_at_once(s, &rate, &enough, err));
    *best = s->tries;
    while (enough) {
        const attempt *t;
        SYN_TRY(try_rate(s, rate, &t, err));
        bracket(s, best, &next);
        if (*best && next && next->rate <= PRECISION * (*best)->rate) break;
        if (!*best && s->n > 12) return fail_alone(s, t, err);
        if (s->n == MOST_TRIES) break;
        rate = next_rate(s, *best, next);
    }
    const serve_figures *f = &(*best)->f;
    *found = (serve_highest){.rate = (*best)->rate, .few = true};
    if (!enough) return SYN_OK;
    if (s->scaled) found->time_scale = found->rate / s->file_rate;
    found->few = (next && meets(next)) || f->duration_ns < LATENCIES * f->tail.latency_ns;
    return SYN_OK;
}

/* Why a rate does not hold, or "holds". */
static const char *outcome(const search *s, const attempt *t, char *buf, size_t bytes) {
    if (holds(s, t)) return "holds";
    if (!meets(t)) return serve_missed(&t->f, &s->run->slo, serve_given.slo_percentile, buf, bytes);
    snprintf(buf, bytes, "more than the %.4g requests/s that the server finishes", s->capacity);
    return buf;
}

static void print_try(const search *s, const attempt *t) {
    char ttft[32], tpot[32], latency[32], why[256], rate[32];
    if (isinf(t->rate)) snprintf(rate, sizeof rate, "all at once");
    else snprintf(rate, sizeof rate, "%.4g", t->rate);
    printf("  %11s", rate);
    if (t->overloaded) {
        printf("  overloaded: only %.4g requests/s finish\n", t->f.rates.finishing);
        return;
    }
    printf(" %11s %11s %11s  %s\n", cli_time_text(t->f.tail.ttft_ns, ttft, sizeof ttft),
           cli_time_text(t->f.tail.tpot_ns, tpot, sizeof tpot),
           cli_time_text(t->f.tail.latency_ns, latency, sizeof latency),
           outcome(s, t, why, sizeof why));
}

const char *serve_more_requests(void) {
    const request_options *how = &serve_given.requests;
    return how->num_requests > 0 || request_is_workload(how->requests) ? "more --num-requests"
                                                                       : "a longer file";
}

static void put_notes(const attempt *best, const serve_highest *found, cli_notes notes) {
    if (found->few)
        cli_note(&notes, "note",
                 "the rate is uncertain, because %lld request%s %s too few; give %s",
                 (long long)best->f.requests, cli_plural((uint64_t)best->f.requests),
                 best->f.requests == 1 ? "is" : "are", serve_more_requests());
    cli_notes_end(&notes);
}

static void print(const search *s, const attempt *best, const serve_highest *found) {
    char slo[256], title[160], shown[CLI_SHOWN_BYTES];
    const double p = serve_given.slo_percentile;
    const serve_run *run = s->run;
    const serve_figures *f = &best->f;
    printf("%s on %lld GPU%s, %s\n", run->config.name, (long long)f->gpus,
           cli_plural((uint64_t)f->gpus),
           cli_shown(syn_hardware_title(&run->hw, title, sizeof title), shown, sizeof shown));
    printf("  %11s", "requests/s");
    for (int i = 0; i < SERVE_LIMITS; i++) {
        char head[32];
        snprintf(head, sizeof head, "%s p%g", serve_limit_names[i], p);
        printf(" %11s", head);
    }
    fputc('\n', stdout);
    for (int i = 0; i < s->n; i++) print_try(s, &s->tries[i]);
    if (isinf(best->rate))
        printf("the limits hold even if all requests arrive at once (%lld request%s)\n",
               (long long)f->requests, cli_plural((uint64_t)f->requests));
    else
        printf("highest rate with %s: %.4g requests/s (%.3g per GPU, %.4g output tokens/s)\n",
               serve_limits_text(&run->slo, p, slo, sizeof slo), best->rate,
               best->rate / (double)f->gpus, serve_per_s(f, f->output_tokens));
    if (found->time_scale > 0) printf("--time-scale of this rate: %.6g\n", found->time_scale);
    put_notes(best, found, cli_notes_begin(NULL, stdout));
}

static void put_try(const search *s, const attempt *t, syn_sink *json) {
    const bool known = !t->overloaded;
    syn_sink_text(json, "{\"rate\": ");
    syn_sink_double(json, t->rate);
    cli_json_bool(json, "holds", holds(s, t));
    cli_json_bool(json, "overloaded", t->overloaded);
    cli_json_real(json, "capacity_per_s", known ? NAN : t->f.rates.finishing);
    cli_json_real(json, "ttft_percentile_ns", known ? t->f.tail.ttft_ns : NAN);
    cli_json_real(json, "tpot_percentile_ns", known ? t->f.tail.tpot_ns : NAN);
    cli_json_real(json, "latency_percentile_ns", known ? t->f.tail.latency_ns : NAN);
    syn_sink_char(json, '}');
}

static syn_status print_json(const search *s, const attempt *best, const serve_highest *found,
                             syn_error *err) {
    syn_sink *json;
    const serve_figures *f = &best->f;
    SYN_TRY(cli_json_open_as(&json, "serve-rate", err));
    cli_json_text(json, "model", s->run->config.name);
    cli_json_text(json, "hardware", s->run->hw.name);
    cli_json_text(json, "stack", s->run->hw.stack.name);
    cli_json_count(json, "gpus", (uint64_t)f->gpus);
    cli_json_real(json, "slo_percentile", serve_given.slo_percentile);
    cli_json_real(json, "max_rate", best->rate);
    cli_json_real(json, "time_scale", found->time_scale > 0 ? found->time_scale : NAN);
    cli_json_real(json, "output_tokens_per_s", serve_per_s(f, f->output_tokens));
    syn_sink_text(json, ", \"tries\": [");
    for (int i = 0; i < s->n; i++) {
        syn_sink_text(json, i ? ",\n " : "\n ");
        put_try(s, &s->tries[i], json);
    }
    syn_sink_char(json, ']');
    put_notes(best, found, cli_notes_begin(json, NULL));
    return cli_json_close(json, SYN_OK, err);
}

syn_status serve_find_figures(serve_run *run, serve_highest *highest, serve_figures *f,
                              syn_error *err) {
    search s = {.run = run, .bar = {.quiet = true}};
    const attempt *best;
    SYN_TRY(find(&s, &best, highest, err));
    *f = best->f;
    return SYN_OK;
}

syn_status serve_find_rate(serve_run *run, syn_error *err) {
    search s = {.run = run,
                .bar = {.what = "searching",
                        .unit = "rates",
                        .quiet = serve_given.quiet,
                        .terminal_only = true}};
    const attempt *best;
    serve_highest found = {.rate = 0};
    const syn_status status = find(&s, &best, &found, err);
    progress_step(&s.bar, MOST_TRIES, MOST_TRIES);
    SYN_TRY(status);
    if (serve_given.json) return print_json(&s, best, &found, err);
    if (!serve_given.quiet) print(&s, best, &found);
    return SYN_OK;
}
