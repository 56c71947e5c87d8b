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

/* What a step with prompts may still use. */
typedef struct budget {
    int64_t tokens; /* of the step */
    double spare;   /* tokens that fit into the free blocks and that requests will not need */
} budget;

static budget full_budget(const serving_replica *r) {
    budget b = {r->limits.max_tokens, (double)(kv_blocks_left(r->cache) * r->limits.block_tokens)};
    for (size_t i = 0; i < r->n_running; i++) {
        const serving_request *q = r->running[i];
        if (serving_in_prompt(r, q)) continue;
        b.spare -= (double)serving_least(q->output - q->generated, MOST_OUTPUT) * r->reserved;
    }
    return b;
}

static int64_t whole_blocks(const serving_replica *r, int64_t tokens) {
    const int64_t n = r->limits.block_tokens;
    return (tokens + n - 1) / n * n;
}

/* Adds n tokens of a prompt. With its last token, the request counts with all of its output. One
   block is reserved per request. */
static void add_prompt(const serving_replica *r, serving_step *step, serving_request *q, int64_t n,
                       budget *b) {
    serving_add_row(r, step, q, n);
    const int64_t used = whole_blocks(r, n);
    b->tokens -= used;
    b->spare -= (double)(used + r->limits.block_tokens);
    if (step->rows[step->n - 1].samples) b->spare -= (double)serving_least(q->output, MOST_OUTPUT);
}

/* Continues the prompt that the last step divided. */
static syn_status continue_prompts(serving_replica *r, serving_step *step, budget *b,
                                   syn_error *err) {
    for (size_t i = 0; i < r->n_running && b->tokens > 0; i++) {
        serving_request *q = r->running[i];
        int64_t n = serving_least(serving_left(r, q), b->tokens);
        bool fits;
        if (!serving_in_prompt(r, q) || serving_ends(q)) continue;
        if (b->spare >= 1) n = serving_least(n, (int64_t)b->spare);
        SYN_TRY(serving_take_blocks(r, q, n, &fits, err));
        if (fits) add_prompt(r, step, q, n, b);
        else b->tokens = 0;
    }
    return SYN_OK;
}

/* The number of tokens that the waiting request q may add to the step; 0: it has to wait. */
static int64_t admissible(const serving_replica *r, const serving_step *step,
                          const serving_request *q, budget *b) {
    int64_t idle;
    const int64_t size = r->limits.block_tokens, known = serving_known_blocks(r, q, &idle) * size,
                  left = serving_left(r, q) - known,
                  needed = left + serving_least(q->output - q->generated, MOST_OUTPUT) + size;
    b->spare -= (double)(idle * size); /* free blocks that q takes back */
    if (r->n_running > 0 && (double)needed >= b->spare) return 0;
    if (!r->limits.chunked) return step->n == 0 || whole_blocks(r, left) < b->tokens ? left : 0;
    if (whole_blocks(r, left) <= b->tokens) return left;
    return b->tokens < size && step->n == 0 ? b->tokens : b->tokens / size * size;
}

static syn_status add_prompts(serving_replica *r, serving_step *step, syn_error *err) {
    budget b = full_budget(r);
    SYN_TRY(continue_prompts(r, step, &b, err));
    while (b.tokens > 0 && (int64_t)r->n_running < r->limits.max_seqs) {
        serving_request *q = serving_next(r);
        int64_t n = q ? admissible(r, step, q, &b) : 0;
        bool fits;
        if (n <= 0) break;
        SYN_TRY(serving_admit(r, q, n, &n, &fits, err));
        if (!fits) break;
        add_prompt(r, step, q, n, &b);
    }
    return SYN_OK;
}

/* Whether a is retracted before b: a prompt that is not complete, or else the request with the
   fewest output tokens and, among these, the longest prompt. */
static bool goes_first(const serving_replica *r, const serving_request *a,
                       const serving_request *b) {
    const bool first = serving_in_prompt(r, a), second = serving_in_prompt(r, b);
    if (first != second) return first;
    return a->generated < b->generated || (a->generated == b->generated && a->prompt > b->prompt);
}

static size_t victim(const serving_replica *r) {
    size_t least = 0;
    for (size_t i = 1; i < r->n_running; i++)
        if (goes_first(r, r->running[i], r->running[least])) least = i;
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

/* Retracts requests until each of the others has the blocks for its next tokens. */
static void make_space(serving_replica *r) {
    bool retracted = false;
    for (;;) {
        int64_t more = 0;
        for (size_t i = 0; i < r->n_running; i++) {
            const serving_request *q = r->running[i];
            const int64_t tokens = q->computed + serving_left(r, q), b = r->limits.block_tokens,
                          blocks = (tokens + b - 1) / b - (int64_t)q->n_blocks;
            if (blocks > 0 && !serving_in_prompt(r, q) && !serving_ends(q)) more += blocks;
        }
        if (more <= kv_blocks_left(r->cache) || r->n_running < 2) break;
        serving_preempt(r, victim(r));
        retracted = true;
    }
    if (retracted) estimate(r);
    else if (r->reserved > LEAST_FRACTION + DECAY) r->reserved -= DECAY;
    else r->reserved = LEAST_FRACTION;
}

static syn_status decode(serving_replica *r, serving_step *step, syn_error *err) {
    int64_t tokens = r->limits.max_tokens;
    make_space(r);
    for (size_t i = 0; i < r->n_running && tokens > 0; i++) {
        serving_request *q = r->running[i];
        const int64_t n = serving_least(serving_left(r, q), tokens);
        bool fits;
        if (n <= 0 || serving_ends(q) || serving_in_prompt(r, q)) continue;
        SYN_TRY(serving_take_blocks(r, q, n, &fits, err));
        if (!fits) break;
        serving_add_row(r, step, q, n);
        tokens -= n;
    }
    return SYN_OK;
}

static syn_status schedule(serving_replica *r, serving_step *step, syn_error *err) {
    if (r->n_running == 0) r->reserved = FIRST_FRACTION;
    SYN_TRY(add_prompts(r, step, err));
    return step->n > 0 ? SYN_OK : decode(r, step, err);
}

const serving_policy serving_sglang = {
    "sglang", "steps with prompts before steps with single tokens, as in SGLang", schedule};
