/* The loop of steps of `inference --requests`; see inference_serve.h. Rank 0 schedules a step and
   sends it to the other tensor-parallel ranks. These messages are not part of the trace. All ranks
   compute the step. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "models/causal.h"
#include "syntorch/base/clock.h"
#include "syntorch/base/memory.h"
#include "tools/inference/inference_serve.h"
#include "tools/progress.h"

/* The numbers that describe a step. Its arrays follow each other in one buffer: new tokens and all
   tokens of each sequence, rows with logits, token ids, and blocks. SEQUENCES 0: no more steps. */
enum { SEQUENCES, TOKENS, MAX_BLOCKS, ROWS, KIND, SIZES };
enum { DECODE, PROMPT, WARM_UP }; /* KIND; a warm-up is not recorded */
enum { TAG_SIZES = 1000020, TAG_ARRAYS };

typedef struct worker {
    inference *run;
    serving_work *work;
    syn_model *model;
    syn_ctx *ctx;
    syn_mark from; /* the begin of the rows that will be dropped */
    int32_t sizes[SIZES];
    int32_t *arrays, *sampled; /* sampled: a token for each of the step's rows */
    size_t arrays_cap, sampled_cap;
    /* Rank 0: */
    serving_replica *scheduler;
    serving_step step;
    int64_t next, left;           /* the next request to arrive; requests that are not finished */
    uint64_t begun_ns, paused_ns; /* paused: time in which the run's own records were kept */
    progress progress;
} worker;

/* ---- All ranks ---- */

static size_t array_elems(const worker *w) {
    const size_t n = (size_t)w->sizes[SEQUENCES];
    return 2 * n + (size_t)w->sizes[ROWS] + (size_t)w->sizes[TOKENS] +
           n * (size_t)w->sizes[MAX_BLOCKS];
}

static syn_status grow_arrays(worker *w, syn_error *err) {
    SYN_TRY(syn_grow(&w->arrays, &w->arrays_cap, array_elems(w), sizeof *w->arrays, err));
    return syn_grow(&w->sampled, &w->sampled_cap, (size_t)w->sizes[ROWS] + 1, sizeof *w->sampled,
                    err);
}

/* Computes the step and reads the tokens that it returns. */
static syn_status compute(worker *w, syn_error *err) {
    const int32_t *s = w->sizes, *keys = w->arrays + s[SEQUENCES], *rows = keys + s[SEQUENCES],
                  *ids = rows + s[ROWS];
    const syn_packed_step step = {.n = s[SEQUENCES],
                                  .queries = w->arrays,
                                  .keys = keys,
                                  .blocks = ids + s[TOKENS],
                                  .max_blocks = s[MAX_BLOCKS],
                                  .rows = rows,
                                  .n_rows = s[ROWS]};
    const syn_spec spec = {SYN_I32, 2, {1, s[TOKENS]}};
    syn_set_phase(w->ctx, s[KIND] == DECODE ? SYN_PHASE_DECODE : SYN_PHASE_PREFILL);
    syn_tensor x =
        syn_causal_forward_packed(w->model, syn_input(w->ctx, "tokens", &spec, ids), &step);
    if (s[ROWS] > 0) {
        syn_push_scope(w->ctx, "sample");
        x = syn_argmax(w->ctx, x);
        syn_pop_scope(w->ctx);
        (void)!syn_tensor_read(w->ctx, x, w->sampled, (size_t)s[ROWS] * sizeof *w->sampled);
    }
    return syn_ctx_check(w->ctx, err);
}

/* Frees the tensors of the step, and drops its rows if no output needs them. */
static syn_status end_step(worker *w, syn_error *err) {
    const bool recorded = w->sizes[KIND] != WARM_UP;
    if (recorded && inference_keeps_rows(w->run)) {
        syn_release(w->ctx, w->from, NULL, 0);
        w->from = syn_ctx_mark(w->ctx);
    } else {
        if (recorded) SYN_TRY(inference_report(w->run, w->ctx, err));
        syn_forget(w->ctx, w->from, NULL, 0);
    }
    if (recorded) syn_next_step(w->ctx);
    return SYN_OK;
}

/* A rank other than 0: computes the steps that rank 0 sends. */
static syn_status follow(worker *w, syn_error *err) {
    syn_comm *comm = syn_ctx_comm(w->ctx);
    for (;;) {
        SYN_TRY(syn_comm_recv(comm, w->sizes, SIZES, SYN_I32, 0, TAG_SIZES, err));
        if (w->sizes[SEQUENCES] == 0) return SYN_OK;
        SYN_TRY(grow_arrays(w, err));
        SYN_TRY(syn_comm_recv(comm, w->arrays, array_elems(w), SYN_I32, 0, TAG_ARRAYS, err));
        SYN_TRY(compute(w, err));
        SYN_TRY(end_step(w, err));
    }
}

/* ---- Rank 0 ---- */

static syn_status send_step(worker *w, syn_error *err) {
    syn_comm *comm = syn_ctx_comm(w->ctx);
    for (int32_t r = 1; r < w->run->launch.ranks; r++) {
        SYN_TRY(syn_comm_send(comm, w->sizes, SIZES, SYN_I32, r, TAG_SIZES, err));
        if (w->sizes[SEQUENCES] > 0)
            SYN_TRY(syn_comm_send(comm, w->arrays, array_elems(w), SYN_I32, r, TAG_ARRAYS, err));
    }
    return SYN_OK;
}

static syn_status send_end(worker *w, syn_error *err) {
    w->sizes[SEQUENCES] = 0;
    return send_step(w, err);
}

static int64_t blocks_of(const worker *w, int64_t tokens) {
    const int64_t n = w->work->limits.block_tokens;
    return (tokens + n - 1) / n;
}

/* Runs a step before the clock starts, because the first one is slow: memory is touched for the
   first time. Later steps overwrite what it leaves in the cache. */
static syn_status warm_up(worker *w, syn_error *err) {
    const serving_limits *l = &w->work->limits;
    const int64_t n = w->run->prompt_tokens < l->max_tokens ? w->run->prompt_tokens : l->max_tokens;
    const int32_t sizes[SIZES] = {1, (int32_t)n, (int32_t)blocks_of(w, n), 1, WARM_UP};
    memcpy(w->sizes, sizes, sizeof sizes);
    SYN_TRY(grow_arrays(w, err));
    int32_t *to = w->arrays;
    *to++ = (int32_t)n;
    *to++ = (int32_t)n;
    *to++ = (int32_t)n - 1;
    for (int64_t i = 0; i < n; i++) *to++ = 0;
    for (int32_t b = 0; b < sizes[MAX_BLOCKS]; b++) *to++ = b + 1;
    SYN_TRY(send_step(w, err));
    SYN_TRY(compute(w, err));
    return end_step(w, err);
}

/* The time on the clock of the requests' arrivals. */
static double now_ns(const worker *w) {
    return (double)(syn__clock_ns() - w->begun_ns - w->paused_ns);
}

static void wait_until(const worker *w, double ns) {
    const double left = ns - now_ns(w);
    if (left <= 0) return;
    const struct timespec time = {(time_t)(left / 1e9), (long)(left - 1e9 * floor(left / 1e9))};
    nanosleep(&time, NULL);
}

/* Hands the requests that have arrived to the scheduler. */
static syn_status take_arrived(worker *w, syn_error *err) {
    const double now = now_ns(w);
    for (; w->next < w->work->n && w->work->requests[w->next].q.arrival_ns <= now; w->next++)
        SYN_TRY(serving_add(w->scheduler, &w->work->requests[w->next].q, err));
    return SYN_OK;
}

/* Fills in the arrays of the scheduled step. */
static syn_status pack(worker *w, syn_error *err) {
    const serving_step *step = &w->step;
    int32_t keys = 0, rows = 0, kind = DECODE;
    for (int64_t i = 0; i < step->n; i++) {
        const serving_row *row = &step->rows[i];
        if (row->keys > keys) keys = row->keys;
        rows += row->samples;
        if (row->queries > 1) kind = PROMPT;
    }
    const int32_t sizes[SIZES] = {(int32_t)step->n, (int32_t)step->tokens,
                                  (int32_t)blocks_of(w, keys), rows, kind};
    memcpy(w->sizes, sizes, sizeof sizes);
    SYN_TRY(grow_arrays(w, err));
    int32_t *queries = w->arrays, *all = queries + step->n, *sampled = all + step->n,
            *ids = sampled + rows, *blocks = ids + step->tokens, at = 0;
    for (int64_t i = 0; i < step->n; i++) {
        const serving_row *row = &step->rows[i];
        const served_request *r = (const served_request *)row->request;
        const int64_t n = blocks_of(w, row->keys);
        queries[i] = row->queries;
        all[i] = row->keys;
        memcpy(ids + at, r->tokens + row->keys - row->queries, (size_t)row->queries * sizeof *ids);
        at += row->queries;
        if (row->samples) *sampled++ = at - 1;
        memcpy(blocks, r->q.blocks, (size_t)n * sizeof *blocks);
        for (int64_t b = n; b < sizes[MAX_BLOCKS]; b++) blocks[b] = 0;
        blocks += sizes[MAX_BLOCKS];
    }
    return SYN_OK;
}

/* Adds the sampled tokens to their requests. A stop token makes its request complete. */
static void take_tokens(worker *w) {
    const int32_t *sampled = w->sampled;
    const double now = now_ns(w);
    for (int64_t i = 0; i < w->step.n; i++) {
        served_request *r = (served_request *)w->step.rows[i].request;
        if (!w->step.rows[i].samples) continue;
        if (r->made == 0) r->first_ns = now;
        r->last_ns = now;
        r->tokens[r->q.prompt + r->made++] = *sampled;
        if (syn_is_stop_token(&w->work->sampling.end, *sampled++)) r->q.output = r->made;
    }
}

static void finish_requests(worker *w) {
    served_totals *t = &w->work->measured;
    for (int64_t i = 0; i < w->step.n; i++) {
        served_request *r = (served_request *)w->step.rows[i].request;
        if (r->q.state != SERVING_FINISHED) continue;
        const serving_latency l = {r->q.arrival_ns, r->first_ns, r->last_ns, r->made};
        serving_metrics_add(&t->metrics, &l, r->q.prompt);
        t->preemptions += r->q.preemptions;
        t->hits += r->q.hits;
        serving_request_free(&r->q);
        w->left--;
    }
    progress_step(&w->progress, w->work->n - w->left, w->work->n);
}

static void count_step(worker *w) {
    served_totals *t = &w->work->measured;
    const int64_t running = serving_running(w->scheduler), waiting = serving_waiting(w->scheduler);
    const double usage = serving_cache_usage(w->scheduler);
    if (running > t->most_running) t->most_running = running;
    if (waiting > t->most_waiting) t->most_waiting = waiting;
    if (usage > t->most_usage) t->most_usage = usage;
}

/* Computes the scheduled step and accounts for it. The clock stops while the rows are recorded. */
static syn_status run_step(worker *w, syn_error *err) {
    served_totals *t = &w->work->measured;
    const double begun = now_ns(w);
    count_step(w);
    SYN_TRY(pack(w, err));
    SYN_TRY(send_step(w, err));
    SYN_TRY(compute(w, err));
    take_tokens(w);
    SYN_TRY(serving_finish(w->scheduler, &w->step, err));
    finish_requests(w);
    t->steps[w->sizes[KIND]]++;
    t->busy_ns[w->sizes[KIND]] += now_ns(w) - begun;
    const uint64_t ended = syn__clock_ns();
    SYN_TRY(end_step(w, err));
    w->paused_ns += syn__clock_ns() - ended;
    return SYN_OK;
}

static syn_status serve(worker *w, syn_error *err) {
    SYN_TRY(warm_up(w, err));
    w->left = w->work->n;
    w->begun_ns = syn__clock_ns(); /* the first request arrives now */
    if (w->work->n > 0) w->begun_ns -= (uint64_t)w->work->requests[0].q.arrival_ns;
    while (w->left > 0) {
        SYN_TRY(take_arrived(w, err));
        SYN_TRY(serving_schedule(w->scheduler, &w->step, err));
        if (w->step.n > 0) SYN_TRY(run_step(w, err));
        else if (w->next < w->work->n) wait_until(w, w->work->requests[w->next].q.arrival_ns);
        else
            return SYN_FAIL(err, SYN_E_INVALID, "the scheduler has no step for %lld requests",
                            (long long)w->left);
    }
    return send_end(w, err);
}

static syn_status lead(worker *w, bool shows_progress, syn_error *err) {
    const serving_work *work = w->work;
    const size_t bytes = (size_t)work->limits.max_seqs * sizeof *w->step.rows;
    w->progress = (progress){.what = "serving", .unit = "requests", .quiet = !shows_progress};
    if (!(w->step.rows = syn_malloc(bytes)))
        return SYN_FAIL_NOMEM(err, bytes, "the rows of a step");
    SYN_TRY(serving_replica_new(&w->scheduler, &work->limits, work->policy, err));
    return serve(w, err);
}

syn_status inference_serve_rank(inference *run, const inference_rank *self, syn_error *err) {
    serving_work *work = inference_serving_of(run);
    worker w = {.run = run, .work = work, .model = self->model, .ctx = syn_model_ctx(self->model)};
    const bool first = syn_ctx_rank(w.ctx) == 0;
    SYN_TRY(
        syn_causal_begin_paged(self->model, work->limits.blocks, work->limits.block_tokens, err));
    w.from = syn_ctx_mark(w.ctx);
    syn_status s = first ? lead(&w, self->shows_progress, err) : follow(&w, err);
    serving_replica_free(w.scheduler);
    syn_free(w.step.rows);
    syn_free(w.arrays);
    syn_free(w.sampled);
    return s == SYN_OK && first ? inference_serve_predict(run, err) : s;
}
