/* Static batching, as before continuous batching (Yu et al. 2022, "Orca"): a batch of requests is
   admitted together, computes its prompts and then one token per request and step until all
   requests have finished. Only then the next batch begins. */
#include "tools/serving/serving.h"

static int64_t min2(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Continues the batch: prompts that are not complete, or else one token of each request. */
static syn_status continue_batch(serving_replica *r, serving_step *step, syn_error *err) {
    bool prompts = false;
    int64_t budget = r->limits.max_tokens;
    for (size_t i = 0; i < r->n_running; i++)
        prompts = prompts || serving_left(r->running[i]) > 1 + r->running[i]->drafts;
    for (size_t i = 0; i < r->n_running && budget > 0; i++) {
        serving_request *q = r->running[i];
        const int64_t left = serving_left(q), n = min2(left, budget);
        bool fits;
        if (n <= 0 || serving_ends(q) || (prompts && left <= 1 + q->drafts)) continue;
        SYN_TRY(serving_take_blocks(r, q, n, &fits, err));
        if (!fits) { /* the cache is full: the last request waits for the next batch */
            SYN_TRY(serving_preempt(r, r->n_running - 1, err));
            break;
        }
        serving_add_row(r, step, q, n);
        budget -= n;
    }
    return SYN_OK;
}

static syn_status begin_batch(serving_replica *r, serving_step *step, syn_error *err) {
    int64_t budget = r->limits.max_tokens;
    while (budget > 0 && (int64_t)r->n_running < r->limits.max_seqs) {
        serving_request *q = serving_next(r);
        int64_t n;
        bool fits;
        if (!q || (!r->limits.chunked && q->prompt > budget)) break;
        SYN_TRY(serving_admit(r, q, budget, &n, &fits, err));
        if (!fits) break;
        serving_add_row(r, step, q, n);
        budget -= n;
    }
    return SYN_OK;
}

static syn_status schedule(serving_replica *r, serving_step *step, syn_error *err) {
    return r->n_running == 0 ? begin_batch(r, step, err) : continue_batch(r, step, err);
}

const serving_policy serving_static = {
    "static", "static batching: a batch ends when all of its requests have finished", schedule};
