/* Static batching, as before continuous batching (Yu et al. 2022, "Orca"): a batch of requests is
   admitted together, computes its prompts and then one token per request and step until all
   requests have finished. Only then the next batch begins. */
#include "tools/serving/serving.h"

/* Gives q the blocks for n tokens. If the cache is full, the last requests of the batch, or q
   itself, wait for the next batch. */
static syn_status make_space(serving_replica *r, serving_request *q, int64_t n, bool *fits,
                             syn_error *err) {
    for (;;) {
        SYN_TRY(serving_take_blocks(r, q, n, fits, err));
        const serving_request *last = r->running[r->n_running - 1];
        if (*fits) return SYN_OK;
        serving_preempt(r, r->n_running - 1);
        if (last == q) return SYN_OK;
    }
}

/* Continues the batch: prompts that are not complete, or else one token of each request. */
static syn_status continue_batch(serving_replica *r, serving_step *step, syn_error *err) {
    bool prompts = false;
    int64_t budget = r->limits.max_tokens;
    for (size_t i = 0; i < r->n_running; i++)
        prompts = prompts || serving_in_prompt(r, r->running[i]);
    for (size_t i = 0; i < r->n_running && budget > 0; i++) {
        serving_request *q = r->running[i];
        const int64_t n = serving_least(serving_left(r, q), budget);
        bool fits;
        if (n <= 0 || serving_ends(q) || (prompts && !serving_in_prompt(r, q))) continue;
        SYN_TRY(make_space(r, q, n, &fits, err));
        if (!fits) break;
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
        if (!q || (!r->limits.chunked && serving_left(r, q) > budget)) break;
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
