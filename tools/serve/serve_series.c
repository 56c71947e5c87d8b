/* Sums over bins of time; see serve_series.h. */
#include "tools/serve/serve_series.h"

#include <math.h>

#include "syntorch/base/memory.h"

/* The first width, 2^-14 s: after joining, widths are 1/4 s, 1/2 s, 1 s, 2 s, ... */
#define FIRST_NS (1e9 / 16384)

syn_status serve_series_new(serve_series *s, const serve_simulation *sim, syn_error *err) {
    int32_t n = 0;
    *s = (serve_series){.n_pools = sim->n_pools, .width_ns = FIRST_NS};
    for (int32_t p = 0; p < s->n_pools; p++) {
        n += s->replicas[p] = serve_pool_get(sim->pools[p])->layout.dp;
        s->bins[p] = syn_calloc(SERVE_BINS, sizeof *s->bins[p]);
        if (!s->bins[p]) return SYN_FAIL_NOMEM(err, SERVE_BINS * sizeof *s->bins[p], "a series");
    }
    s->states = syn_calloc((size_t)n, sizeof *s->states);
    if (!s->states) return SYN_FAIL_NOMEM(err, (size_t)n * sizeof *s->states, "a series");
    for (int32_t i = 0; i < n; i++) s->states[i].pool = i >= s->replicas[0];
    return SYN_OK;
}

void serve_series_free(serve_series *s) {
    syn_free(s->bins[0]);
    syn_free(s->bins[1]);
    syn_free(s->states);
    *s = (serve_series){.n_pools = 0};
}

void serve_bin_add(serve_bin *to, const serve_bin *from) {
    to->running_ns += from->running_ns;
    to->waiting_ns += from->waiting_ns;
    to->usage_ns += from->usage_ns;
    to->most_usage = fmax(to->most_usage, from->most_usage);
    to->steps += from->steps;
    to->busy_ns += from->busy_ns;
    to->step_ns += from->step_ns;
    to->longest_ns = fmax(to->longest_ns, from->longest_ns);
    to->prompt_tokens += from->prompt_tokens;
    to->output_tokens += from->output_tokens;
    to->sequences += from->sequences;
    to->ended += from->ended;
    to->preemptions += from->preemptions;
    to->hits += from->hits;
}

/* Joins bins until there is one for the time `ns`. */
static void extend(serve_series *s, double ns) {
    s->end_ns = fmax(s->end_ns, ns);
    while (s->end_ns >= SERVE_BINS * s->width_ns) {
        s->width_ns *= 2;
        for (int32_t p = 0; p < s->n_pools; p++) {
            serve_bin *b = s->bins[p];
            for (int32_t i = 0; i < SERVE_BINS / 2; i++) {
                b[i] = b[2 * i];
                serve_bin_add(&b[i], &b[2 * i + 1]);
            }
            for (int32_t i = SERVE_BINS / 2; i < SERVE_BINS; i++) b[i] = (serve_bin){0};
        }
    }
}

static int32_t bin_at(const serve_series *s, double ns) {
    return (int32_t)(ns / s->width_ns);
}

/* The part of from_ns .. to_ns that is in bin i. */
static double overlap(const serve_series *s, int32_t i, double from_ns, double to_ns) {
    return fmax(0, fmin(to_ns, (i + 1) * s->width_ns) - fmax(from_ns, i * s->width_ns));
}

/* ---- States ---- */

/* Adds the state of a replica from its last change until now. */
static void add_state(serve_series *s, const serve_state *old, double now_ns) {
    const int32_t last = bin_at(s, now_ns);
    for (int32_t i = bin_at(s, old->now_ns); i <= last; i++) {
        serve_bin *b = &s->bins[old->pool][i];
        const double ns = overlap(s, i, old->now_ns, now_ns);
        b->running_ns += ns * (double)old->running;
        b->waiting_ns += ns * (double)old->waiting;
        b->usage_ns += ns * old->cache_usage;
        if (ns > 0) b->most_usage = fmax(b->most_usage, old->cache_usage);
    }
}

syn_status serve_series_changed(void *user, const serve_state *state, syn_error *err) {
    serve_series *s = user;
    serve_state *old = &s->states[state->replica];
    (void)err;
    extend(s, state->now_ns);
    add_state(s, old, state->now_ns);
    serve_bin *b = &s->bins[state->pool][bin_at(s, state->now_ns)];
    b->preemptions += state->preemptions - old->preemptions;
    b->hits += state->hits - old->hits;
    *old = *state;
    return SYN_OK;
}

/* ---- Steps ---- */

int64_t serve_prompt_tokens(const serving_step *step) {
    int64_t n = 0;
    for (int64_t i = 0; i < step->n; i++) {
        const serving_row *row = &step->rows[i];
        if (!row->request) continue;
        const int64_t first = row->keys - row->queries, prompt = row->request->prompt;
        if (first < prompt) n += (row->keys < prompt ? row->keys : prompt) - first;
    }
    return n;
}

syn_status serve_series_step(void *user, const serve_step *step, syn_error *err) {
    serve_series *s = user;
    const double ns = step->end_ns - step->start_ns;
    const double prompt = (double)serve_prompt_tokens(step->rows);
    (void)err;
    if (step->rows->n == 0) return SYN_OK; /* a dummy token for the other replicas' experts */
    extend(s, step->end_ns);
    const int32_t last = bin_at(s, step->end_ns);
    for (int32_t i = bin_at(s, step->start_ns); i <= last; i++) {
        serve_bin *b = &s->bins[step->pool][i];
        const double here = overlap(s, i, step->start_ns, step->end_ns);
        const double part = ns > 0 ? here / ns : 1;
        if (part == 0) continue;
        b->steps += part;
        b->busy_ns += here;
        b->step_ns += part * ns;
        b->longest_ns = fmax(b->longest_ns, ns);
        b->prompt_tokens += part * prompt;
        b->output_tokens += part * (double)step->output_tokens;
        b->sequences += part * (double)step->rows->n;
    }
    s->bins[step->pool][(int32_t)fmax(0, ceil(step->end_ns / s->width_ns) - 1)].ended++;
    return SYN_OK;
}

void serve_series_end(serve_series *s) {
    const int32_t n = s->replicas[0] + s->replicas[1];
    for (int32_t i = 0; i < n; i++) add_state(s, &s->states[i], s->end_ns);
}

int32_t serve_series_bins(const serve_series *s) {
    return (int32_t)ceil(s->end_ns / s->width_ns);
}

/* ---- The file ---- */

static void put_ratio(syn_sink *csv, double sum, double of, double unit) {
    syn_sink_char(csv, ',');
    if (of > 0) syn_sink_printf(csv, "%.9g", sum / of / unit);
}

static void put_bin(syn_sink *csv, const serve_series *s, int32_t pool, int32_t i) {
    const serve_bin *b = &s->bins[pool][i];
    const double start = i * s->width_ns, end = fmin(start + s->width_ns, s->end_ns);
    const double all = (end - start) * s->replicas[pool];
    syn_sink_printf(csv, ",%.9f,%.9f", start / 1e9, end / 1e9);
    put_ratio(csv, b->running_ns, end - start, 1);
    put_ratio(csv, b->waiting_ns, end - start, 1);
    put_ratio(csv, b->usage_ns, all, 1);
    syn_sink_printf(csv, ",%.9g", b->most_usage);
    put_ratio(csv, b->prompt_tokens, end - start, 1e-9);
    put_ratio(csv, b->output_tokens, end - start, 1e-9);
    syn_sink_printf(csv, ",%lld", (long long)b->ended);
    put_ratio(csv, b->busy_ns, all, 1);
    put_ratio(csv, b->sequences, b->steps, 1);
    put_ratio(csv, b->step_ns, b->steps, 1e6);
    syn_sink_char(csv, ',');
    if (b->steps > 0) syn_sink_printf(csv, "%.9g", b->longest_ns / 1e6);
    syn_sink_printf(csv, ",%lld,%lld\n", (long long)b->preemptions, (long long)b->hits);
}

void serve_series_csv(const serve_series *s, const char *const roles[2], syn_sink *csv) {
    const int32_t n = serve_series_bins(s);
    syn_sink_text(csv, "pool,start_s,end_s,running,waiting,cache_usage,cache_usage_max,"
                       "prompt_tokens_per_s,output_tokens_per_s,steps,busy,batch,step_ms,"
                       "step_ms_max,preemptions,prefix_hit_tokens\n");
    for (int32_t p = 0; p < s->n_pools; p++) {
        for (int32_t i = 0; i < n; i++) {
            syn_sink_text(csv, roles[p]);
            put_bin(csv, s, p, i);
        }
    }
}
