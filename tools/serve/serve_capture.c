/* Chooses the steps of a simulation that get traces, and copies the lengths of their sequences.
   Only chosen steps are held, so memory does not depend on the length of the simulation. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "syntorch/base/memory.h"
#include "tools/serve/serve_traces.h"

typedef struct best {
    captured_step with, without; /* prompt tokens; n 0: none yet */
} best;

struct serve_capture {
    const serve_simulation *sim;
    serve_trace_choice choice;
    captured_unit *units;
    int32_t n_units, *unit_of; /* by replica of all pools */
    best *best;                /* by unit, for SERVE_TRACE_FULLEST */
    captured_step now;         /* the step of a unit whose replicas are being observed */
    captured_step *steps;
    size_t n, cap;
    int64_t chosen, limit;
    int64_t most;   /* steps of a unit */
    double last_ns; /* when the last step began */
};

/* ---- Options ---- */

/* Reads two numbers such as "3-20". */
static bool read_range(const char *text, double *a, double *b) {
    char *end;
    *a = strtod(text, &end);
    if (end == text || *end != '-') return false;
    text = end + 1;
    *b = strtod(text, &end);
    return end != text && *end == '\0' && *a >= 0 && *b >= *a && *b < 1e15;
}

bool serve_trace_read(serve_trace_choice *out, const char *text) {
    static const char *const words[] = {"none", "fullest", "steps:", "time:", "all"};
    double a = 0, b = 0;
    for (int k = 0; k < 5; k++) {
        const bool range = k == SERVE_TRACE_STEPS || k == SERVE_TRACE_TIME;
        const size_t n = strlen(words[k]);
        if (range ? strncmp(text, words[k], n) != 0 : strcmp(text, words[k]) != 0) continue;
        if (range && !read_range(text + n, &a, &b)) return false;
        if (k == SERVE_TRACE_STEPS && (a != floor(a) || b != floor(b))) return false;
        *out = (serve_trace_choice){(serve_trace_kind)k, (int64_t)a, (int64_t)b, 1e9 * a, 1e9 * b};
        return true;
    }
    return false;
}

/* ---- Copies ---- */

static bool is_divided(const serve_capture *c) {
    return c->sim->n_pools == 2;
}

static captured_row copy_row(const serve_capture *c, const serve_step *step, int64_t i) {
    const serving_row *row = &step->rows->rows[i];
    const serve_request *r = (const serve_request *)row->request;
    captured_row out = {.request = -1, .queries = row->queries, .keys = row->keys};
    if (row->samples) out.sampled = 1 + row->drafts;
    if (!r) return out;
    out.request = r->q.id;
    out.prompt = r->given.prompt;
    if (!is_divided(c) || r->given.output < 2) return out;
    out.completes = step->pool == 0 && row->samples;
    out.begins = step->pool == 1 && row->queries == 1 + row->drafts &&
                 row->keys - row->queries == r->given.prompt;
    return out;
}

/* Adds a replica's part to the current step of its unit. */
static syn_status add_rows(serve_capture *c, const serve_step *step, int32_t replica,
                           syn_error *err) {
    captured_step *now = &c->now;
    const size_t more = (size_t)step->rows->n;
    SYN_TRY(syn_grow(&now->rows, &now->cap, now->n + more, sizeof *now->rows, err));
    for (size_t i = 0; i < more; i++) {
        const serving_row *row = &step->rows->rows[i];
        captured_row *to = &now->rows[now->n++];
        *to = copy_row(c, step, (int64_t)i);
        to->replica = replica;
        now->prompt = now->prompt || row->queries > 1 + row->drafts;
    }
    now->tokens += step->rows->tokens;
    return SYN_OK;
}

static syn_status copy_step(captured_step *to, const captured_step *from, syn_error *err) {
    captured_row *rows = to->rows;
    size_t cap = to->cap;
    SYN_TRY(syn_grow(&rows, &cap, from->n, sizeof *rows, err));
    *to = *from;
    to->rows = rows;
    to->cap = cap;
    memcpy(rows, from->rows, from->n * sizeof *rows);
    return SYN_OK;
}

static syn_status keep(serve_capture *c, const captured_step *step, syn_error *err) {
    SYN_TRY(syn_grow(&c->steps, &c->cap, c->n + 1, sizeof *c->steps, err));
    captured_step *to = &c->steps[c->n++];
    *to = (captured_step){.n = 0};
    return copy_step(to, step, err);
}

/* ---- The fullest steps ---- */

static bool completes_prompts(const captured_step *s) {
    for (size_t i = 0; i < s->n; i++)
        if (s->rows[i].completes) return true;
    return false;
}

/* Whether the request's prompt is completed in the fullest step of a unit. */
static bool is_awaited(const serve_capture *c, int64_t id) {
    for (int32_t u = 0; u < c->n_units; u++) {
        const captured_step *s = &c->best[u].with;
        for (size_t i = 0; c->units[u].pool == 0 && i < s->n; i++)
            if (s->rows[i].completes && s->rows[i].request == id) return true;
    }
    return false;
}

static bool begins_awaited(const serve_capture *c, const captured_step *s) {
    for (size_t i = 0; i < s->n; i++)
        if (s->rows[i].begins && is_awaited(c, s->rows[i].request)) return true;
    return false;
}

/* Forgets the steps that begin requests of a step that was fullest until now. */
static void forget_begun(serve_capture *c) {
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++) {
        if (begins_awaited(c, &c->steps[i])) c->steps[n++] = c->steps[i];
        else syn_free(c->steps[i].rows);
    }
    c->n = n;
}

static syn_status compare(serve_capture *c, const captured_step *s, syn_error *err) {
    const bool prefills = is_divided(c) && c->units[s->unit].pool == 0;
    best *b = &c->best[s->unit];
    captured_step *to = s->prompt || prefills ? &b->with : &b->without;
    if (is_divided(c) && !prefills && begins_awaited(c, s)) SYN_TRY(keep(c, s, err));
    if (prefills && !completes_prompts(s)) return SYN_OK;
    if (to->n > 0 && (to == &b->with ? s->tokens <= to->tokens : s->n <= to->n)) return SYN_OK;
    SYN_TRY(copy_step(to, s, err));
    if (prefills) forget_begun(c);
    return SYN_OK;
}

/* Adds the fullest steps, except those that are kept already. */
static syn_status keep_fullest(serve_capture *c, syn_error *err) {
    for (int32_t u = 0; u < c->n_units; u++) {
        const captured_step *both[2] = {&c->best[u].with, &c->best[u].without};
        for (int k = 0; k < 2; k++) {
            bool known = both[k]->n == 0;
            for (size_t i = 0; i < c->n && !known; i++)
                known = c->steps[i].unit == u && c->steps[i].number == both[k]->number;
            if (!known) SYN_TRY(keep(c, both[k], err));
        }
    }
    c->chosen = (int64_t)c->n;
    return SYN_OK;
}

/* ---- The observer ---- */

static bool is_chosen(const serve_trace_choice *how, const captured_step *s) {
    switch (how->kind) {
    case SERVE_TRACE_STEPS:
        return s->number >= how->first && s->number <= how->last;
    case SERVE_TRACE_TIME:
        return s->start_ns >= how->begin_ns && s->start_ns < how->end_ns;
    default:
        return true;
    }
}

static syn_status observe(void *capture, const serve_step *step, syn_error *err) {
    serve_capture *c = capture;
    captured_step *now = &c->now;
    const int32_t u = c->unit_of[step->replica];
    const captured_unit *unit = &c->units[u];
    const int32_t replica = step->replica - unit->replica;
    if (replica == 0)
        *now = (captured_step){.unit = u,
                               .number = step->number,
                               .start_ns = step->start_ns,
                               .ns = step->end_ns - step->start_ns,
                               .rows = now->rows,
                               .cap = now->cap};
    SYN_TRY(add_rows(c, step, replica, err));
    if (replica < unit->n - 1) return SYN_OK;
    c->last_ns = fmax(c->last_ns, now->start_ns);
    if (now->number >= c->most) c->most = now->number + 1;
    if (c->choice.kind == SERVE_TRACE_FULLEST) return compare(c, now, err);
    if (!is_chosen(&c->choice, now)) return SYN_OK;
    return c->chosen++ < c->limit ? keep(c, now, err) : SYN_OK; /* in the order of ends */
}

/* ---- Creation and end ---- */

static syn_status open_units(serve_capture *c, syn_error *err) {
    int32_t replicas = 0;
    for (int32_t p = 0; p < c->sim->n_pools; p++)
        replicas += serve_pool_get(c->sim->pools[p])->layout.dp;
    const size_t n = (size_t)replicas;
    c->units = syn_calloc(n, sizeof *c->units);
    c->unit_of = syn_calloc(n, sizeof *c->unit_of);
    c->best = syn_calloc(n, sizeof *c->best);
    if (!c->units || !c->unit_of || !c->best)
        return SYN_FAIL_NOMEM(err, n * sizeof *c->best, "the replicas of a simulation");
    for (int32_t p = 0, at = 0; p < c->sim->n_pools; p++) {
        const serve_layout *l = &serve_pool_get(c->sim->pools[p])->layout;
        const int32_t each = l->ep > 1 ? l->dp : 1;
        for (int32_t i = 0; i < l->dp; i++, at++) {
            if (i % each == 0) c->units[c->n_units++] = (captured_unit){p, at, each};
            c->unit_of[at] = c->n_units - 1;
        }
    }
    return SYN_OK;
}

syn_status serve_capture_new(serve_capture **out, serve_simulation *sim,
                             const serve_trace_choice *choice, int64_t limit, syn_error *err) {
    serve_capture *c = syn_calloc(1, sizeof *c);
    if (!c) return SYN_FAIL_NOMEM(err, sizeof *c, "the choice of steps");
    c->sim = sim;
    c->choice = *choice;
    c->limit = limit;
    const syn_status s = open_units(c, err);
    if (s != SYN_OK) {
        serve_capture_free(c);
        return s;
    }
    sim->observers[sim->n_observers++] = (serve_observer){.step = observe, .user = c};
    *out = c;
    return SYN_OK;
}

void serve_capture_free(serve_capture *c) {
    if (!c) return;
    for (size_t i = 0; i < c->n; i++) syn_free(c->steps[i].rows);
    for (int32_t u = 0; c->best && u < c->n_units; u++) {
        syn_free(c->best[u].with.rows);
        syn_free(c->best[u].without.rows);
    }
    syn_free(c->now.rows);
    syn_free(c->steps);
    syn_free(c->best);
    syn_free(c->unit_of);
    syn_free(c->units);
    syn_free(c);
}

static int by_end(const void *a, const void *b) {
    const captured_step *x = a, *y = b;
    const double left = x->start_ns + x->ns, right = y->start_ns + y->ns;
    return (left > right) - (left < right);
}

static int by_unit(const void *a, const void *b) {
    const captured_step *x = a, *y = b;
    if (x->unit != y->unit) return x->unit < y->unit ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

syn_status serve_capture_end(serve_capture *c, syn_error *err) {
    if (c->choice.kind == SERVE_TRACE_FULLEST) SYN_TRY(keep_fullest(c, err));
    if (c->n == 0 && c->choice.kind == SERVE_TRACE_TIME)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "--trace chooses no step: the steps begin between 0 s and %.6g s",
                        c->last_ns / 1e9);
    if (c->n == 0)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "--trace chooses no step: a replica has at most %lld steps, numbered from "
                        "0",
                        (long long)c->most);
    if (c->n > 1) qsort(c->steps, c->n, sizeof *c->steps, by_end);
    for (; c->n > (size_t)c->limit; c->n--) syn_free(c->steps[c->n - 1].rows);
    if (c->n > 1) qsort(c->steps, c->n, sizeof *c->steps, by_unit);
    return SYN_OK;
}

captured_step *serve_captured(serve_capture *c, size_t *n, int64_t *chosen) {
    *n = c->n;
    *chosen = c->chosen;
    return c->steps;
}

const captured_unit *serve_captured_units(const serve_capture *c, int32_t *n) {
    *n = c->n_units;
    return c->units;
}
