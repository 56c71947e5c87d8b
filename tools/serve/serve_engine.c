/* The simulation as discrete events: a request arrives, a step ends, a KV cache has been
   transferred. A unit is a replica, or all replicas that share experts, which run their steps
   together. With asynchronous scheduling, a unit has two steps: one runs, and the next one has been
   scheduled when the running one began. Requests that arrive meanwhile are seen when the running
   step ends. */
#include <math.h>

#include "syntorch/base/memory.h"
#include "tools/serve/serve.h"
#include "tools/serve/serve_drafts.h"
#include "tools/serve/serve_transfers.h"

typedef struct replica {
    serving_replica *scheduler;
    serving_step steps[2]; /* of the running step and of the next one */
    int64_t n_steps;
    uint64_t draws; /* random numbers used */
} replica;

typedef struct unit {
    int32_t pool, first, n; /* replicas first .. first + n - 1 */
    bool running, scheduled;
    int now; /* which of the steps is running */
    double start_ns, end_ns;
    serve_time time;
} unit;

typedef struct engine {
    const serve_simulation *sim;
    request_source *source;
    serve_result *result;
    replica *replicas;
    unit *units;
    int32_t n_replicas, n_units, first_of_pool[3];
    int32_t turn[2];   /* round robin */
    serving_row *rows; /* of a draft model's step */
    serve_transfers transfers;
    request next; /* the next arrival */
    bool exhausted;
    int64_t arrived, left; /* requests; left: not finished */
    serve_load load;
    double now_ns;
} engine;

/* ---- Creation ---- */

static int32_t replicas_of(const serve_simulation *sim, int32_t pool) {
    return serve_pool_get(sim->pools[pool])->layout.dp;
}

static bool is_together(const serve_simulation *sim, int32_t pool) {
    return serve_pool_get(sim->pools[pool])->layout.ep > 1;
}

static syn_status open_replica(engine *e, int32_t pool, replica *r, syn_error *err) {
    const serving_limits *l = &e->sim->limits[pool];
    const size_t bytes = (size_t)l->max_seqs * sizeof(serving_row);
    for (int i = 0; i < 2; i++)
        if (!(r->steps[i].rows = syn_malloc(bytes)))
            return SYN_FAIL_NOMEM(err, bytes, "the rows of a step");
    return serving_replica_new(&r->scheduler, l, e->sim->policy, err);
}

static syn_status open_engine(engine *e, syn_error *err) {
    const serve_simulation *sim = e->sim;
    for (int32_t p = 0; p < sim->n_pools; p++) e->n_replicas += replicas_of(sim, p);
    e->replicas = syn_calloc((size_t)e->n_replicas, sizeof *e->replicas);
    e->units = syn_calloc((size_t)e->n_replicas, sizeof *e->units);
    e->rows = syn_malloc((size_t)sim->limits[sim->n_pools - 1].max_seqs * sizeof *e->rows);
    if (!e->replicas || !e->units || !e->rows)
        return SYN_FAIL_NOMEM(err, (size_t)e->n_replicas * sizeof *e->replicas, "replicas");
    int32_t at = 0;
    for (int32_t p = 0; p < sim->n_pools; p++) {
        const int32_t n = replicas_of(sim, p), each = is_together(sim, p) ? n : 1;
        e->first_of_pool[p] = at;
        for (int32_t i = 0; i < n; i += each)
            e->units[e->n_units++] = (unit){.pool = p, .first = at + i, .n = each};
        for (int32_t i = 0; i < n; i++) SYN_TRY(open_replica(e, p, &e->replicas[at + i], err));
        at += n;
    }
    for (int32_t p = sim->n_pools; p < 3; p++) e->first_of_pool[p] = at;
    return SYN_OK;
}

static void close_request(serve_request *r) {
    serving_request_free(&r->q);
    syn_free((void *)r->given.blocks);
    syn_free(r);
}

static void close_engine(engine *e) {
    for (int32_t i = 0; e->replicas && i < e->n_replicas; i++) {
        replica *r = &e->replicas[i];
        for (serving_request *q; r->scheduler && (q = serving_any(r->scheduler)) != NULL;) {
            serving_remove(r->scheduler, q);
            close_request((serve_request *)q);
        }
        serving_replica_free(r->scheduler);
        syn_free(r->steps[0].rows);
        syn_free(r->steps[1].rows);
    }
    for (size_t i = 0; i < e->transfers.n; i++) close_request(e->transfers.at[i].request);
    syn_free(e->replicas);
    syn_free(e->units);
    syn_free(e->rows);
    syn_free(e->transfers.at);
}

/* ---- Arrivals ---- */

static syn_status observe_state(engine *e, int32_t pool, int32_t index, bool scheduled,
                                syn_error *err) {
    const serving_replica *r = e->replicas[index].scheduler;
    const serve_state seen = {.pool = pool,
                              .replica = index,
                              .scheduled = scheduled,
                              .now_ns = e->now_ns,
                              .running = serving_running(r),
                              .waiting = serving_waiting(r),
                              .preemptions = r->preemptions,
                              .hits = r->hits,
                              .cache_usage = serving_cache_usage(r)};
    if (seen.cache_usage > e->result->most_usage) e->result->most_usage = seen.cache_usage;
    for (int32_t i = 0; i < e->sim->n_observers; i++) {
        const serve_observer *o = &e->sim->observers[i];
        if (o->changed) SYN_TRY(o->changed(o->user, &seen, err));
    }
    return SYN_OK;
}

static syn_status read_next(engine *e, syn_error *err) {
    return e->exhausted ? SYN_OK : requests_next(e->source, &e->next, &e->exhausted, err);
}

static int64_t load(const replica *r) {
    return 4 * serving_waiting(r->scheduler) + serving_running(r->scheduler);
}

/* The replica of a pool that gets the next request. Ties are broken in turn. */
static int32_t choose(engine *e, int32_t pool) {
    const int32_t n = replicas_of(e->sim, pool), first = e->first_of_pool[pool];
    int32_t best = e->turn[pool] % n;
    for (int32_t i = 1; i < n && e->sim->router == SERVE_LEAST; i++) {
        const int32_t other = (e->turn[pool] + i) % n;
        if (load(&e->replicas[first + other]) < load(&e->replicas[first + best])) best = other;
    }
    e->turn[pool] = (best + 1) % n;
    return first + best;
}

static syn_status copy_blocks(serve_request *r, syn_error *err) {
    const size_t n = (size_t)r->given.n_blocks;
    const uint64_t *from = r->given.blocks;
    r->given.blocks = NULL;
    if (!from || n == 0) return SYN_OK;
    uint64_t *copy = syn_malloc(n * sizeof *copy);
    if (!copy) return SYN_FAIL_NOMEM(err, n * sizeof *copy, "the blocks of a request");
    for (size_t i = 0; i < n; i++) copy[i] = from[i];
    r->given.blocks = copy;
    return SYN_OK;
}

static syn_status enqueue(engine *e, serve_request *r, int32_t to, syn_error *err) {
    syn_error why = {0};
    const syn_status s = serving_add(e->replicas[to].scheduler, &r->q, &why);
    if (s == SYN_OK) return observe_state(e, to >= e->first_of_pool[1], to, false, err);
    if (r->given.line > 0)
        return SYN_FAIL(err, s, "%s:%lld: %s", e->sim->requests, (long long)r->given.line,
                        why.text);
    return SYN_FAIL(err, s, "request %lld: %s", (long long)r->q.id, why.text);
}

static syn_status arrive(engine *e, syn_error *err) {
    serve_request *r = syn_calloc(1, sizeof *r);
    if (!r) return SYN_FAIL_NOMEM(err, sizeof *r, "a request");
    const bool divided = e->sim->n_pools == 2;
    r->given = e->next;
    r->q = (serving_request){.id = e->arrived++,
                             .arrival_ns = r->given.arrival_ns,
                             .prompt = r->given.prompt,
                             .output = divided ? 1 : r->given.output,
                             .priority = r->given.priority};
    r->scheduled_ns = r->first_ns = r->last_ns = r->received_ns = -1;
    r->replica = r->prompt_replica = choose(e, 0);
    syn_status s = copy_blocks(r, err);
    if (s == SYN_OK) s = enqueue(e, r, r->replica, err);
    if (s != SYN_OK) {
        close_request(r);
        return s;
    }
    e->left++;
    return read_next(e, err);
}

uint64_t serve_block_key(const serving_request *q, int64_t i, int64_t block_tokens) {
    const request *given = &((const serve_request *)q)->given;
    const int64_t first = i * block_tokens;
    if (first + block_tokens > given->prompt) return 0;
    return request_shared_key(given, (int32_t)first, (int32_t)block_tokens);
}

/* ---- Transfers of caches ---- */

/* Sends the cache of a computed prompt. Each receiving rank gets what its own cache holds. */
static syn_status send_cache(engine *e, serve_request *r, double step_ns, syn_error *err) {
    const serve_pool_options *from = serve_pool_get(e->sim->pools[0]),
                             *to = serve_pool_get(e->sim->pools[1]);
    const double received = serve_pool_token_bytes(e->sim->pools[1]) * r->q.prompt,
                 bytes = received * to->layout.tp, sent = bytes / from->layout.tp;
    const double late = serve_late_ns(from, fmax(received, sent), step_ns);
    e->result->transferred_bytes += bytes;
    e->result->exposed_transfer_ns += late;
    const serve_transfer t = {r, e->now_ns + late};
    return serve_transfers_add(&e->transfers, t, err);
}

/* The cache has arrived: the prompt's replica releases it, and another one generates the tokens. */
static syn_status receive_cache(engine *e, syn_error *err) {
    serve_request *r = serve_transfers_take(&e->transfers).request;
    serving_release(e->replicas[r->prompt_replica].scheduler, &r->q);
    r->hits = r->q.hits;
    r->q.output = r->given.output;
    r->q.computed = r->q.prompt;
    r->q.generated = 1;
    r->q.in_flight = 0;
    r->replica = choose(e, 1);
    r->received_ns = e->now_ns;
    const syn_status s = enqueue(e, r, r->replica, err);
    if (s != SYN_OK) close_request(r);
    return s;
}

/* ---- Steps ---- */

static bool has_prompt(const serving_step *step) {
    for (int64_t i = 0; i < step->n; i++)
        if (step->rows[i].queries > 1 + step->rows[i].drafts) return true;
    return false;
}

/* Predicts the step `which` of a unit. */
static syn_status predict(engine *e, unit *u, int which, syn_error *err) {
    const serve_simulation *sim = e->sim;
    const serving_step *steps[256];
    int64_t most = 0;
    int32_t busiest = 0; /* the replica with the most sampled tokens, for which all others wait */
    if (u->n > 256) return SYN_FAIL(err, SYN_E_UNSUPPORTED, "more than 256 replicas share experts");
    for (int32_t i = 0; i < u->n; i++) {
        steps[i] = &e->replicas[u->first + i].steps[which];
        int64_t sampled = 0;
        for (int64_t k = 0; k < steps[i]->n; k++) sampled += steps[i]->rows[k].samples;
        if (sampled <= most) continue;
        most = sampled;
        busiest = i;
    }
    SYN_TRY(serve_pool_predict(sim->pools[u->pool], steps, u->n, &u->time, err));
    if (sim->draft && u->pool == sim->n_pools - 1)
        SYN_TRY(serve_add_drafting(sim, steps[busiest], e->rows, &u->time, err));
    const double host = sim->step_ns + sim->sequence_ns * (double)most;
    u->time.ns += host;
    u->time.parts[SYN_LIMIT_LAUNCH] += host;
    return SYN_OK;
}

/* Schedules the step `which` of all replicas of a unit. *any: at least one has work. */
static syn_status schedule(engine *e, unit *u, int which, bool *any, syn_error *err) {
    *any = false;
    for (int32_t i = u->first; i < u->first + u->n; i++) {
        replica *r = &e->replicas[i];
        SYN_TRY(serving_schedule(r->scheduler, &r->steps[which], err));
        SYN_TRY(observe_state(e, u->pool, i, true, err));
        *any = *any || r->steps[which].n > 0;
        for (int64_t k = 0; k < r->steps[which].n; k++) {
            serve_request *q = (serve_request *)r->steps[which].rows[k].request;
            if (q->scheduled_ns < 0) q->scheduled_ns = e->now_ns;
        }
    }
    return SYN_OK;
}

/* Begins steps of an idle unit, or of one whose step has just ended. */
static syn_status begin(engine *e, unit *u, syn_error *err) {
    bool any = u->scheduled;
    if (!any) SYN_TRY(schedule(e, u, u->now, &any, err));
    u->scheduled = false;
    u->running = any;
    if (!any) return SYN_OK;
    SYN_TRY(predict(e, u, u->now, err));
    u->start_ns = e->now_ns;
    u->end_ns = e->now_ns + u->time.ns;
    return e->sim->limits[u->pool].async ? schedule(e, u, !u->now, &u->scheduled, err) : SYN_OK;
}

static syn_status finish_request(engine *e, serve_request *r, syn_error *err) {
    serve_result *out = e->result;
    const serving_latency l = {r->q.arrival_ns, r->first_ns, r->last_ns, r->given.output};
    out->preemptions += r->q.preemptions;
    r->hits += r->q.hits;
    out->hits += r->hits;
    serving_metrics_add(&out->metrics, &l, r->given.prompt);
    for (int32_t i = 0; i < e->sim->n_observers; i++) {
        const serve_observer *o = &e->sim->observers[i];
        if (o->finished) SYN_TRY(o->finished(o->user, r, err));
    }
    close_request(r);
    e->left--;
    return SYN_OK;
}

/* Accepted drafts may complete a request while its next step is scheduled. That step still computes
   its row, and ignores the result. */
static void forget_rows(engine *e, const unit *u, int32_t index, const serve_request *r) {
    serving_step *next = &e->replicas[index].steps[!u->now];
    for (int64_t i = 0; u->scheduled && i < next->n; i++)
        if (next->rows[i].request == &r->q) next->rows[i].request = NULL;
}

/* Sets the times of the tokens that a step returned, and frees the requests that are complete. */
static syn_status take_tokens(engine *e, const unit *u, int32_t index, const serving_step *step,
                              syn_error *err) {
    for (int64_t i = 0; i < step->n; i++) {
        serve_request *r = (serve_request *)step->rows[i].request;
        if (!r || !step->rows[i].samples) continue;
        if (r->first_ns < 0) r->first_ns = e->now_ns;
        r->last_ns = e->now_ns;
        if (r->q.state != SERVING_FINISHED) continue;
        forget_rows(e, u, index, r);
        if (e->sim->n_pools == 2 && u->pool == 0 && r->given.output > 1)
            SYN_TRY(send_cache(e, r, u->time.ns, err));
        else {
            if (u->pool == 0 && e->sim->limits[0].keep)
                serving_release(e->replicas[r->replica].scheduler, &r->q);
            SYN_TRY(finish_request(e, r, err));
        }
    }
    return SYN_OK;
}

static void add_totals(serve_totals *t, const unit *u, const serving_step *step) {
    const bool prompt = has_prompt(step);
    t->tokens += step->tokens;
    t->rows += step->n;
    if (step->n == 0) return;
    t->steps[prompt]++;
    t->busy_ns[prompt] += u->end_ns - u->start_ns;
    t->time[prompt].ns += u->time.ns;
    for (int i = 0; i < SYN_LIMIT_COUNT; i++) t->time[prompt].parts[i] += u->time.parts[i];
}

/* Output tokens so far of the requests in a step. */
static int64_t generated(const serving_step *step) {
    int64_t n = 0;
    for (int64_t i = 0; i < step->n; i++)
        if (step->rows[i].request) n += step->rows[i].request->generated;
    return n;
}

static syn_status observe(engine *e, const unit *u, int32_t index, const serving_step *step,
                          int64_t output_tokens, syn_error *err) {
    replica *r = &e->replicas[index];
    const serve_step seen = {.pool = u->pool,
                             .replica = index,
                             .number = r->n_steps++,
                             .start_ns = u->start_ns,
                             .end_ns = u->end_ns,
                             .rows = step,
                             .time = &u->time,
                             .running = serving_running(r->scheduler),
                             .waiting = serving_waiting(r->scheduler),
                             .cache_usage = serving_cache_usage(r->scheduler),
                             .output_tokens = output_tokens};
    for (int32_t i = 0; i < e->sim->n_observers; i++) {
        const serve_observer *o = &e->sim->observers[i];
        if (o->step) SYN_TRY(o->step(o->user, &seen, err));
    }
    return SYN_OK;
}

static void count_requests(engine *e, int64_t *running, int64_t *waiting) {
    *running = *waiting = 0;
    for (int32_t i = 0; i < e->n_replicas; i++) {
        *running += serving_running(e->replicas[i].scheduler);
        *waiting += serving_waiting(e->replicas[i].scheduler);
    }
    if (*running > e->result->most_running) e->result->most_running = *running;
    if (*waiting > e->result->most_waiting) e->result->most_waiting = *waiting;
}

/* The running step of a unit has ended. */
static syn_status end(engine *e, unit *u, syn_error *err) {
    for (int32_t i = u->first; i < u->first + u->n; i++) {
        serving_step *step = &e->replicas[i].steps[u->now];
        serve_accept_drafts(e->sim, i, &e->replicas[i].draws, step, e->result);
        const int64_t before = generated(step);
        SYN_TRY(serving_finish(e->replicas[i].scheduler, step, err));
        add_totals(&e->result->totals[u->pool], u, step);
        SYN_TRY(observe(e, u, i, step, generated(step) - before, err));
        SYN_TRY(take_tokens(e, u, i, step, err));
    }
    u->running = false;
    if (e->sim->limits[u->pool].async) u->now = !u->now;
    return begin(e, u, err);
}

/* ---- Events ---- */

/* The unit whose step ends first; NULL: no step is running. */
static unit *first_end(const engine *e) {
    unit *first = NULL;
    for (int32_t i = 0; i < e->n_units; i++)
        if (e->units[i].running && (!first || e->units[i].end_ns < first->end_ns))
            first = &e->units[i];
    return first;
}

/* Begins a step on all idle units. */
static syn_status wake(engine *e, syn_error *err) {
    for (int32_t i = 0; i < e->n_units; i++)
        if (!e->units[i].running) SYN_TRY(begin(e, &e->units[i], err));
    return SYN_OK;
}

/* Observes the queue after an event, and fails if requests arrive faster than they are served. */
static syn_status see_load(engine *e, syn_error *err) {
    serve_load_state now = {.now = {e->now_ns, e->arrived, e->result->metrics.requests},
                            .ended = e->exhausted};
    count_requests(e, &now.running, &now.waiting);
    return serve_load_see(&e->load, &now) ? serve_check_load(e->sim, &e->load, e->result, err)
                                          : SYN_OK;
}

/* Handles the next event. At the same moment, requests and caches arrive before steps end. */
static syn_status next_event(engine *e, syn_error *err) {
    unit *u = first_end(e);
    const double step = u ? u->end_ns : INFINITY,
                 cache = e->transfers.n > 0 ? e->transfers.at[0].end_ns : INFINITY,
                 arrival = e->exhausted ? INFINITY : e->next.arrival_ns;
    if (arrival <= step && arrival <= cache) {
        e->now_ns = fmax(arrival, e->now_ns);
        SYN_TRY(arrive(e, err));
        if (!e->exhausted && e->next.arrival_ns <= e->now_ns) return SYN_OK; /* more of them */
        SYN_TRY(wake(e, err));
        return see_load(e, err);
    }
    if (cache <= step) {
        e->now_ns = cache;
        SYN_TRY(receive_cache(e, err));
        return wake(e, err);
    }
    e->now_ns = step;
    SYN_TRY(end(e, u, err));
    return see_load(e, err);
}

syn_status serve_simulate(const serve_simulation *sim, request_source *source, serve_result *result,
                          syn_error *err) {
    engine e = {.sim = sim, .source = source, .result = result};
    syn_status s = open_engine(&e, err);
    if (s == SYN_OK) s = read_next(&e, err);
    while (s == SYN_OK && (!e.exhausted || e.left > 0)) s = next_event(&e, err);
    if (s == SYN_OK) s = serve_check_load(sim, &e.load, result, err);
    close_engine(&e);
    return s;
}
