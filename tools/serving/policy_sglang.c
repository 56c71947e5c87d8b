/* The scheduler of SGLang (python/sglang/srt/managers/schedule_batch.py and schedule_policy.py,
   version 0.5, first come, first served, without mixed chunks). Prompts come first: a step computes
   either prompts, or one token of each running request. A request is admitted if the cache has
   enough free tokens for it and for a fraction of what the running requests may still generate. The
   fraction falls while this estimate holds. If the cache is full nevertheless, requests with the
   fewest output tokens are retracted, and the fraction is estimated anew. */
#include "tools/serving/serving.h"

#define FIRST_FRACTION         0.7
#define LEAST_FRACTION         (0.7 * 0.14)
#define DECAY                  ((FIRST_FRACTION - LEAST_FRACTION) / 600)
#define MOST_OUTPUT            4096 /* output tokens that an admitted request counts with */
#define STEPS_AFTER_RETRACTION 20

static int64_t min2(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static bool has_prompt_left(const serving_request *q) {
    return serving_left(q) > 1 + q->drafts;
}

/* Tokens that fit into the free blocks, without those that the running requests will need. */
static double spare_tokens(const serving_replica *r) {
    double spare = (double)(kv_blocks_left(r->cache) * r->limits.block_tokens);
    for (size_t i = 0; i < r->n_running; i++) {
        const serving_request *q = r->running[i];
        spare -= (double)min2(q->output - q->generated, MOST_OUTPUT) * r->reserved;
    }
    return spare;
}

static syn_status add_prompts(serving_replica *r, serving_step *step, syn_error *err) {
    int64_t budget = r->limits.max_tokens;
    bool fits = true;
    for (size_t i = 0; i < r->n_running && budget > 0; i++) {
        serving_request *q = r->running[i];
        const int64_t n = min2(serving_left(q), budget);
        if (!has_prompt_left(q) || serving_ends(q)) continue;
        SYN_TRY(serving_take_blocks(r, q, n, &fits, err));
        if (!fits) break;
        serving_add_row(r, step, q, n);
        budget -= n;
    }
    while (fits && budget > 0 && (int64_t)r->n_running < r->limits.max_seqs) {
        serving_request *q = serving_next(r);
        int64_t n;
        if (!q || (!r->limits.chunked && serving_left(q) > budget)) break;
        const double needed =
            (double)serving_left(q) + (double)min2(q->output - q->generated, MOST_OUTPUT);
        if (r->n_running > 0 && needed >= spare_tokens(r)) break;
        SYN_TRY(serving_admit(r, q, budget, &n, &fits, err));
        if (!fits) break;
        serving_add_row(r, step, q, n);
        budget -= n;
    }
    return SYN_OK;
}

/* The running request with the fewest output tokens and, among these, the longest prompt. */
static size_t victim(const serving_replica *r) {
    size_t least = 0;
    for (size_t i = 1; i < r->n_running; i++) {
        const serving_request *a = r->running[i], *b = r->running[least];
        if (a->generated < b->generated || (a->generated == b->generated && a->prompt > b->prompt))
            least = i;
    }
    return least;
}

static void estimate(serving_replica *r) {
    double made = 0, most = 1;
    for (size_t i = 0; i < r->n_running; i++) {
        made += r->running[i]->generated + STEPS_AFTER_RETRACTION;
        most += r->running[i]->output;
    }
    r->reserved = made < most ? made / most : 1;
}

/* Retracts requests until each of the others has a block for its next tokens. */
static syn_status make_space(serving_replica *r, syn_error *err) {
    bool retracted = false;
    for (;;) {
        int64_t more = 0;
        for (size_t i = 0; i < r->n_running; i++) {
            const serving_request *q = r->running[i];
            const int64_t tokens = q->computed + serving_left(q), b = r->limits.block_tokens;
            more += (tokens + b - 1) / b - (int64_t)q->n_blocks;
        }
        if (more <= kv_blocks_left(r->cache) || r->n_running < 2) break;
        SYN_TRY(serving_preempt(r, victim(r), err));
        retracted = true;
    }
    if (retracted) estimate(r);
    else if (r->reserved > LEAST_FRACTION + DECAY) r->reserved -= DECAY;
    else r->reserved = LEAST_FRACTION;
    return SYN_OK;
}

static syn_status decode(serving_replica *r, serving_step *step, syn_error *err) {
    int64_t budget = r->limits.max_tokens;
    SYN_TRY(make_space(r, err));
    for (size_t i = 0; i < r->n_running && budget > 0; i++) {
        serving_request *q = r->running[i];
        const int64_t n = min2(serving_left(q), budget);
        bool fits;
        if (n <= 0 || serving_ends(q)) continue;
        SYN_TRY(serving_take_blocks(r, q, n, &fits, err));
        if (!fits) break;
        serving_add_row(r, step, q, n);
        budget -= n;
    }
    return SYN_OK;
}

static syn_status schedule(serving_replica *r, serving_step *step, syn_error *err) {
    if (r->reserved <= 0) r->reserved = FIRST_FRACTION;
    SYN_TRY(add_prompts(r, step, err));
    return step->n > 0 ? SYN_OK : decode(r, step, err);
}

const serving_policy serving_sglang = {
    "sglang", "steps with prompts before steps with single tokens, as in SGLang", schedule};
