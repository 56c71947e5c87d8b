/* Observes the queue of a simulated server; see serve_load.h. */
#include "tools/serve/serve_load.h"

#include <math.h>
#include <stdio.h>

#include "tools/serve/serve.h"

enum { LEAST_WAITING = 32, LEAST_SPANS = 16, EARLY_ARRIVALS = 8192 };

static int64_t max2(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static void merge_spans(serve_load *l) {
    for (int32_t i = 0; i < SERVE_SPANS / 2; i++) {
        const struct serve_span *a = &l->spans[2 * i], *b = a + 1;
        l->spans[i] = *a;
        if (b->shortest < a->shortest) l->spans[i].shortest = b->shortest;
    }
    l->n = SERVE_SPANS / 2;
    l->each *= 2;
}

bool serve_load_see(serve_load *l, const serve_load_state *s) {
    const serve_moment *now = &s->now;
    bool merged = false;
    l->most_running = max2(l->most_running, s->running);
    if (s->waiting > 0) l->busy = *now;
    if (s->ended) return false;
    if (l->each == 0) l->each = 1;
    if (now->arrived > l->last_arrival.arrived) l->last_arrival = *now;
    /* Requests that arrive together may fill several spans. */
    while ((int64_t)l->n * l->each < now->arrived) {
        if (l->n == SERVE_SPANS) {
            merge_spans(l);
            merged = true;
        } else {
            l->spans[l->n++] = (struct serve_span){*now, s->waiting};
        }
    }
    struct serve_span *last = l->n > 0 ? &l->spans[l->n - 1] : NULL;
    if (last && s->waiting < last->shortest) last->shortest = s->waiting;
    return merged && now->arrived >= EARLY_ARRIVALS;
}

static int64_t shortest(const serve_load *l, int32_t from, int32_t to) {
    int64_t n = INT64_MAX;
    for (int32_t i = from; i < to; i++)
        if (l->spans[i].shortest < n) n = l->spans[i].shortest;
    return n;
}

static double rate(double requests, double ns) {
    return ns > 0 ? 1e9 * requests / ns : 0;
}

serve_rates serve_load_check(const serve_load *l) {
    const int32_t quarter = l->n / 4;
    const serve_moment *first = &l->spans[0].start, *middle = &l->spans[l->n / 2].start;
    serve_rates r = {0};
    if (l->n < LEAST_SPANS) return r;
    r.arriving =
        rate((double)(l->last_arrival.arrived - first->arrived), l->last_arrival.ns - first->ns);
    r.finishing = rate((double)(l->busy.finished - middle->finished), l->busy.ns - middle->ns);
    const int64_t seen = l->busy.finished - middle->finished;
    const int64_t q2 = shortest(l, quarter, 2 * quarter),
                  q3 = shortest(l, 2 * quarter, 3 * quarter), q4 = shortest(l, 3 * quarter, l->n);
    r.growing =
        q3 < q4 && q4 >= LEAST_WAITING && 2 * seen >= l->most_running && r.finishing < r.arriving;
    r.overloaded = r.growing && shortest(l, 0, quarter) < q2 && q2 < q3 && q4 > l->most_running;
    return r;
}

/* A rate a little below `most`, with two digits. */
static double below(double most) {
    const double digit = pow(10, floor(log10(most)) - 1);
    return floor(0.97 * most / digit) * digit;
}

syn_status serve_check_load(const serve_simulation *sim, const serve_load *load,
                            serve_result *result, syn_error *err) {
    const serve_layout *l = &serve_pool_get(sim->pools[0])->layout;
    const serve_rates r = result->rates = serve_load_check(load);
    char who[64] = "the server finishes", more[64] = "more ranks";
    if (!r.overloaded || r.finishing >= sim->rate) return SYN_OK;
    if (sim->n_pools == 1)
        snprintf(who, sizeof who, "%d replica%s", l->dp, l->dp == 1 ? " finishes" : "s finish");
    if (sim->n_pools == 1 && l->ep == 1)
        snprintf(more, sizeof more, "--dp %.0f", ceil(l->dp * sim->rate / (0.97 * r.finishing)));
    return SYN_FAIL(err, SYN_E_INVALID,
                    "%.4g requests/s arrive, but %s only %.3g requests/s; lower --rate to %.4g "
                    "or use %s, or give --allow-overload",
                    sim->rate, who, r.finishing, below(r.finishing), more);
}
