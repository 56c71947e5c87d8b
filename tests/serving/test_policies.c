/* Runs random workloads with each scheduling policy and checks after each step what holds for every
   schedule: limits of a step, blocks of a request, requests that finish with all of their tokens,
   blocks that return. Also what is particular to a policy, runs that end early, requests that
   another replica has prefilled, and failed allocations. */
#include "tests/support/random.h"
#include "tests/support/test.h"

#include "tools/serving/serving.h"

enum { MOST = 40, STEPS = 2 };

typedef struct workload {
    serving_limits limits;
    const serving_policy *policy;
    serving_request requests[MOST];
    int64_t call[MOST];     /* when a request arrives */
    int32_t computed[MOST]; /* before the request was added */
    int64_t queries[MOST];  /* tokens of all steps without rejected drafts */
    int n, added, finished;
    int64_t last_call; /* of an interrupted run */
} workload;

typedef struct flight {
    serving_step step;
    serving_row rows[16];
} flight;

static uint64_t state;

static int64_t below(int64_t n) {
    return random_u32(&state) % (uint32_t)n;
}

static int64_t min2(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* A third of the requests begins with the same 40 tokens. */
static uint64_t key(const serving_request *q, int64_t i, int64_t block_tokens) {
    return q->id % 3 == 0 && (i + 1) * block_tokens <= min2(q->prompt, 40) ? (uint64_t)i + 1 : 0;
}

static void draw(workload *w, const serving_policy *policy) {
    const int64_t prompt = below(2) ? 1 + below(100) : 1, output = below(2) ? 1 + below(40) : 1,
                  all = prompt + output, block = (int64_t[]){1, 4, 16}[below(3)],
                  need = (all + block - 1) / block;
    *w = (workload){.policy = policy, .n = (int)(1 + below(MOST)), .last_call = INT64_MAX};
    w->limits = (serving_limits){.max_seqs = 1 + below(16),
                                 .max_tokens = 1 + below(below(2) ? 16 : 200),
                                 .max_model_tokens = all + below(2) * below(50),
                                 .blocks = 1 + need + below(2) * below(3 * need),
                                 .block_tokens = block,
                                 .long_prefill = below(2) * below(20),
                                 .chunked = below(4) > 0,
                                 .caching = below(2),
                                 .by_priority = below(2),
                                 .async = below(2),
                                 .reserve = below(2),
                                 .drafts = (int32_t)(below(2) * below(5)),
                                 .keep = below(4) == 0,
                                 .key = below(2) ? key : NULL};
    if (!w->limits.chunked) w->limits.max_tokens = all + below(100);
    int64_t call = 0;
    for (int i = 0; i < w->n; i++) {
        serving_request *q = &w->requests[i];
        w->call[i] = call += below(2) * below(10);
        *q = (serving_request){.id = i,
                               .arrival_ns = (double)w->call[i],
                               .prompt = (int32_t)(1 + below(prompt)),
                               .output = (int32_t)(1 + below(output)),
                               .priority = (int32_t)below(3)};
        if (policy == &serving_vllm && q->output > 1 && below(8) == 0) { /* prefilled elsewhere */
            q->computed = w->computed[i] = q->prompt;
            q->generated = 1;
        }
    }
}

/* Whether the row belongs to a prompt. `ran`: the step continues a running request. */
static bool is_prompt(const serving_row *row, bool ran) {
    return !ran || row->keys - row->queries < row->request->prompt ||
           row->queries > 1 + row->drafts;
}

static void check_row(const workload *w, const serving_row *row) {
    const serving_request *q = row->request;
    const serving_limits *l = &w->limits;
    CHECK(q->state == SERVING_RUNNING && row->queries >= 1 && row->drafts >= 0);
    CHECK_INT(row->keys, q->computed);
    CHECK(row->keys < l->max_model_tokens);
    CHECK((int64_t)q->n_blocks * l->block_tokens >= row->keys);
    CHECK(row->drafts == 0 || row->samples);
    CHECK(q->in_flight == 0 || l->async);
}

static void check_step(const workload *w, const serving_replica *r, const serving_step *step,
                       const bool *ran) {
    int64_t tokens = 0, used = 0, before = 0;
    int prompts = 0, seen[MOST] = {0};
    for (int i = 0; i < w->added; i++) before += ran[i];
    for (int64_t i = 0; i < step->n && test_failures == 0; i++) {
        const serving_row *row = &step->rows[i];
        const int64_t id = row->request->id;
        check_row(w, row);
        tokens += row->queries;
        prompts += is_prompt(row, ran[id]);
        CHECK_INT(seen[id]++, 0);
        if (w->policy == &serving_static && !ran[id]) CHECK_INT(before, 0);
        if (w->policy == &serving_vllm && w->limits.long_prefill > 0)
            CHECK(row->queries <= w->limits.long_prefill);
    }
    for (int i = 0; i < w->added; i++) used += (int64_t)w->requests[i].n_blocks;
    CHECK_INT(step->tokens, tokens);
    CHECK(tokens <= w->limits.max_tokens && step->n <= w->limits.max_seqs);
    CHECK(serving_running(r) <= w->limits.max_seqs);
    CHECK_INT(serving_running(r) + serving_waiting(r), w->added - w->finished);
    if (w->policy != &serving_vllm) CHECK(prompts == 0 || prompts == step->n);
    const int64_t taken = kv_blocks_usable(r->cache) - kv_blocks_left(r->cache);
    if (w->limits.caching) CHECK(used >= taken);
    else CHECK_INT(used, taken);
    CHECK_NEAR(serving_cache_usage(r), (double)taken / (double)kv_blocks_usable(r->cache), 1e-12);
}

static syn_status schedule(workload *w, serving_replica *r, flight *f, syn_error *err) {
    bool ran[MOST];
    int32_t preemptions[MOST];
    for (int i = 0; i < w->added; i++) {
        ran[i] = w->requests[i].state == SERVING_RUNNING;
        preemptions[i] = w->requests[i].preemptions;
    }
    f->step.rows = f->rows;
    SYN_TRY(serving_schedule(r, &f->step, err));
    for (int i = 0; i < w->added; i++)
        ran[i] = ran[i] && w->requests[i].preemptions == preemptions[i];
    check_step(w, r, &f->step, ran);
    for (int64_t i = 0; i < f->step.n; i++) {
        serving_row *row = &f->rows[i];
        row->accepted = (int32_t)below(row->drafts + 1);
        w->queries[row->request->id] += row->queries - row->drafts + row->accepted;
    }
    return SYN_OK;
}

/* A request computes each token once, and its last token never, unless it was preempted or a step
   accepted more drafts than it needed. */
static void check_finished(const workload *w, int i) {
    const serving_request *q = &w->requests[i];
    CHECK_INT(q->generated, q->output);
    CHECK(q->hits >= 0 && q->hits < q->prompt + q->generated);
    if (w->limits.drafts == 0 && q->preemptions == 0)
        CHECK_INT(w->queries[i], q->prompt + q->output - 1 - q->hits - w->computed[i]);
}

static syn_status finish(workload *w, serving_replica *r, flight *f, syn_error *err) {
    bool before[MOST];
    for (int i = 0; i < w->added; i++) before[i] = w->requests[i].state == SERVING_FINISHED;
    SYN_TRY(serving_finish(r, &f->step, err));
    for (int i = 0; i < w->added; i++) {
        if (before[i] || w->requests[i].state != SERVING_FINISHED) continue;
        check_finished(w, i);
        w->finished++;
    }
    return SYN_OK;
}

/* Releases the blocks of finished requests, which limits.keep keeps. */
static bool release_finished(workload *w, serving_replica *r) {
    bool any = false;
    for (int i = 0; i < w->added; i++) {
        serving_request *q = &w->requests[i];
        if (q->state != SERVING_FINISHED || q->n_blocks == 0) continue;
        serving_release(r, q);
        any = true;
    }
    return any;
}

/* One call of the server's loop: schedules a step, and finishes the oldest one unless it may still
   run. *idle: the call did neither. */
static syn_status call(workload *w, serving_replica *r, flight *flights, int *queued, bool *idle,
                       syn_error *err) {
    SYN_TRY(schedule(w, r, &flights[*queued], err));
    *idle = *queued == 0 && flights[0].step.n == 0;
    if (flights[*queued].step.n > 0) (*queued)++;
    else if (*queued == 0) return SYN_OK;
    if (w->limits.async && *queued < STEPS && w->finished < w->added &&
        flights[*queued - 1].step.n > 0 && below(2))
        return SYN_OK;
    SYN_TRY(finish(w, r, &flights[0], err));
    flights[0] = flights[1];
    (*queued)--;
    return SYN_OK;
}

static syn_status run(workload *w, serving_replica *r, syn_error *err) {
    flight flights[STEPS + 1];
    int queued = 0;
    for (int64_t i = 0; w->finished < w->n && i < w->last_call && test_failures == 0; i++) {
        bool idle;
        for (; w->added < w->n && w->call[w->added] <= i; w->added++)
            SYN_TRY(serving_add(r, &w->requests[w->added], err));
        SYN_TRY(call(w, r, flights, &queued, &idle, err));
        flights[0].step.rows = flights[0].rows;
        const bool released = (idle || below(8) == 0) && release_finished(w, r);
        if ((idle && !released && w->finished < w->added) || i > 20000) {
            fprintf(stderr, "%s does not continue\n", w->policy->name);
            test_failures++;
        }
    }
    return SYN_OK;
}

/* Runs a workload, or a part of it, and removes what is left. */
static syn_status serve(void *arg, syn_error *err) {
    workload *w = arg;
    serving_replica *r;
    SYN_TRY(serving_replica_new(&r, &w->limits, w->policy, err));
    const syn_status s = run(w, r, err);
    release_finished(w, r);
    for (serving_request *q; (q = serving_any(r)) != NULL;) {
        serving_remove(r, q);
        serving_release(r, q);
    }
    if (kv_blocks_left(r->cache) != kv_blocks_usable(r->cache)) {
        fprintf(stderr, "%s lost blocks\n", w->policy->name);
        test_failures++;
    }
    for (int i = 0; i < w->n; i++) serving_request_free(&w->requests[i]);
    serving_replica_free(r);
    return s;
}

static void random_workloads(void) {
    const uint64_t seeds = TEST_ROUNDS(4000);
    for (uint64_t seed = 1; seed <= seeds && test_failures == 0; seed++) {
        workload w;
        syn_error err = {0};
        state = seed * 0x9e3779b97f4a7c15u;
        draw(&w, serving_policy_at(seed % 3));
        if (seed % 5 == 0) w.last_call = below(30);
        CHECK_OK(serve(&w, &err), err);
        CHECK_MSG(test_failures == 0, "seed %d", (int)seed);
        CHECK(w.finished == w.n || w.last_call < INT64_MAX);
    }
}

static syn_status serve_again(void *arg, syn_error *err) {
    workload w = *(const workload *)arg;
    state = 17;
    return serve(&w, err);
}

static void memory(void) {
    for (size_t i = 0; serving_policy_at(i); i++) {
        workload w;
        state = 99;
        draw(&w, serving_policy_at(i));
        CHECK(test_without_memory(serve_again, &w) > 5);
        CHECK_INT(test_failures, 0);
    }
}

static void rejects(const serving_limits *l, int32_t prompt, int32_t output, const char *message) {
    serving_replica *r;
    syn_error err = {0};
    serving_request q = {.prompt = prompt, .output = output};
    CHECK_OK(serving_replica_new(&r, l, &serving_vllm, &err), err);
    CHECK(serving_add(r, &q, &err) == SYN_E_INVALID);
    CHECK_STR(err.text, message);
    CHECK(serving_any(r) == NULL);
    serving_replica_free(r);
}

static void rejected(void) {
    serving_limits l = {.max_seqs = 4,
                        .max_tokens = 50,
                        .max_model_tokens = 60,
                        .blocks = 6,
                        .block_tokens = 16,
                        .chunked = true};
    rejects(&l, 50, 11, "50 prompt and 11 output tokens exceed the 60 tokens of a sequence");
    rejects(&l, 80, 1, "80 prompt and 1 output tokens exceed the KV cache of 80 tokens");
    l.chunked = false;
    rejects(
        &l, 50, 1,
        "50 prompt and 1 output tokens exceed the 50 tokens of a step (--max-num-batched-tokens): "
        "without chunked prefill, a preempted request is computed again in one step");
}

static void names(void) {
    CHECK_STR(serving_policy_name(0), "vllm");
    CHECK_STR(serving_policy_name(2), "static");
    CHECK(serving_policy_name(3) == NULL && serving_policy_at(3) == NULL);
}

static const test_case cases[] = {{"random_workloads", random_workloads},
                                  {"memory", memory},
                                  {"rejected", rejected},
                                  {"names", names}};
TEST_MAIN(cases)
