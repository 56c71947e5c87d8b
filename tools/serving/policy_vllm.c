/* The scheduler of vLLM V1 (vllm/v1/core/sched/scheduler.py, version 0.19). A step first continues
   the running requests, in order of admission, and then admits waiting ones, until its tokens are
   used up. Prefill and decode are not distinguished: a request gets as many of its missing tokens
   as fit, so a step may mix chunks of prompts with single tokens. If the cache is full, the running
   request that came last loses its blocks and is computed again later. */
#include "tools/serving/serving.h"

/* The running request that would be admitted last. */
static size_t victim(const serving_replica *r) {
    size_t last = 0;
    for (size_t i = 1; i < r->n_running; i++)
        if (serving_is_before(r, r->running[last], r->running[i])) last = i;
    return last;
}

/* Removes the row of a request that will be preempted. */
static bool take_back(const serving_replica *r, serving_step *step, serving_request *q,
                      int64_t *budget) {
    for (int64_t i = 0; i < step->n; i++) {
        const serving_row row = step->rows[i];
        if (row.request != q) continue;
        *budget += row.queries;
        step->tokens -= row.queries;
        if (r->limits.async && row.samples) q->in_flight -= 1 + row.drafts;
        for (step->n--; i < step->n; i++) step->rows[i] = step->rows[i + 1];
        return true;
    }
    return false;
}

/* Gives running request *at the blocks for n tokens, and preempts others if there are too few.
 *fits is false if the request itself was preempted. */
static syn_status make_space(serving_replica *r, serving_step *step, size_t *at, int64_t n,
                             int64_t *budget, bool *preempted, bool *fits, syn_error *err) {
    serving_request *q = r->running[*at];
    for (;;) {
        SYN_TRY(serving_take_blocks(r, q, n, fits, err));
        if (*fits) return SYN_OK;
        const size_t i = victim(r);
        serving_request *last = r->running[i];
        if (take_back(r, step, last, budget)) (*at)--;
        serving_preempt(r, i);
        *preempted = true;
        if (last == q) return SYN_OK;
    }
}

static int64_t wanted(const serving_replica *r, int64_t left, int64_t budget) {
    if (r->limits.long_prefill > 0) left = serving_least(left, r->limits.long_prefill);
    return serving_least(left, budget);
}

static syn_status schedule_running(serving_replica *r, serving_step *step, int64_t *budget,
                                   bool *preempted, syn_error *err) {
    for (size_t i = 0; i<r->n_running && * budget> 0; i++) {
        serving_request *q = r->running[i];
        if (serving_ends(q)) continue;
        const int64_t n = wanted(r, serving_left(r, q), *budget);
        if (n <= 0) continue;
        bool fits;
        SYN_TRY(make_space(r, step, &i, n, budget, preempted, &fits, err));
        if (!fits) break;
        serving_add_row(r, step, q, n);
        *budget -= n;
    }
    return SYN_OK;
}

/* Whether the waiting request q would have to be divided over several steps, which is not
   allowed. */
static bool is_too_long(const serving_replica *r, const serving_request *q, int64_t budget) {
    int64_t idle;
    if (r->limits.chunked) return false;
    const int64_t known = serving_known_blocks(r, q, &idle) * r->limits.block_tokens;
    return wanted(r, serving_left(r, q) - known, INT64_MAX) > budget;
}

static syn_status schedule_waiting(serving_replica *r, serving_step *step, int64_t budget,
                                   syn_error *err) {
    while (budget > 0 && (int64_t)r->n_running < r->limits.max_seqs) {
        serving_request *q = serving_next(r);
        int64_t n;
        bool fits;
        if (!q || is_too_long(r, q, budget)) break;
        SYN_TRY(serving_admit(r, q, wanted(r, INT64_MAX, budget), &n, &fits, err));
        if (!fits) break;
        serving_add_row(r, step, q, n);
        budget -= n;
    }
    return SYN_OK;
}

static syn_status schedule(serving_replica *r, serving_step *step, syn_error *err) {
    int64_t budget = r->limits.max_tokens;
    bool preempted = false;
    SYN_TRY(schedule_running(r, step, &budget, &preempted, err));
    return preempted ? SYN_OK : schedule_waiting(r, step, budget, err);
}

const serving_policy serving_vllm = {
    "vllm", "continuous batching with chunked prefill, as in vLLM V1", schedule};
