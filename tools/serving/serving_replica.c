/* A replica's requests: waiting ones in a heap, running ones in order of admission; see serving.h.
   The accounting follows vLLM 0.19 (vllm/v1/core/sched, vllm/v1/core/kv_cache_manager.py), so that
   step by step the same tokens are computed in the same blocks. */
#include <string.h>

#include "syntorch/base/memory.h"
#include "tools/serving/serving.h"

static const serving_policy *const policies[] = {&serving_vllm, &serving_sglang, &serving_static};

const serving_policy *serving_policy_at(size_t i) {
    return i < sizeof policies / sizeof *policies ? policies[i] : NULL;
}

const char *serving_policy_name(size_t i) {
    const serving_policy *p = serving_policy_at(i);
    return p ? p->name : NULL;
}

/* ---- Waiting requests ---- */

bool serving_is_before(const serving_replica *r, const serving_request *a,
                       const serving_request *b) {
    if (!r->limits.by_priority) return a->order < b->order;
    if (a->priority != b->priority) return a->priority < b->priority;
    return a->arrival_ns < b->arrival_ns || (a->arrival_ns <= b->arrival_ns && a->id < b->id);
}

static void place(serving_replica *r, size_t i, serving_request *q) {
    r->waiting[i] = q;
    q->heap = i;
}

static void sift_up(serving_replica *r, size_t i) {
    serving_request *q = r->waiting[i];
    for (; i > 0 && serving_is_before(r, q, r->waiting[(i - 1) / 2]); i = (i - 1) / 2)
        place(r, i, r->waiting[(i - 1) / 2]);
    place(r, i, q);
}

static void sift_down(serving_replica *r, size_t i) {
    serving_request *q = r->waiting[i];
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= r->n_waiting) break;
        if (child + 1 < r->n_waiting &&
            serving_is_before(r, r->waiting[child + 1], r->waiting[child]))
            child++;
        if (!serving_is_before(r, r->waiting[child], q)) break;
        place(r, i, r->waiting[child]);
        i = child;
    }
    place(r, i, q);
}

/* serving_add has allocated the space. */
static void push_waiting(serving_replica *r, serving_request *q) {
    place(r, r->n_waiting++, q);
    sift_up(r, q->heap);
}

static void remove_waiting(serving_replica *r, serving_request *q) {
    const size_t i = q->heap;
    serving_request *last = r->waiting[--r->n_waiting];
    if (last == q) return;
    place(r, i, last);
    sift_up(r, i);
    sift_down(r, last->heap);
}

serving_request *serving_next(const serving_replica *r) {
    return r->n_waiting > 0 ? r->waiting[0] : NULL;
}

/* ---- Creation ---- */

syn_status serving_replica_new(serving_replica **out, const serving_limits *limits,
                               const serving_policy *policy, syn_error *err) {
    const size_t bytes = (size_t)limits->max_seqs * sizeof(serving_request *);
    serving_replica *r = syn_calloc(1, sizeof *r);
    if (r) r->running = syn_malloc(bytes);
    if (!r || !r->running) {
        serving_replica_free(r);
        return SYN_FAIL_NOMEM(err, bytes, "the requests of a replica");
    }
    r->limits = *limits;
    r->policy = policy;
    const syn_status s = kv_blocks_new(&r->cache, limits->blocks, err);
    if (s != SYN_OK) {
        serving_replica_free(r);
        return s;
    }
    /* drafts of a request that is alone must fit into the cache */
    r->limits.max_model_tokens =
        serving_least(limits->max_model_tokens, kv_blocks_usable(r->cache) * limits->block_tokens);
    *out = r;
    return SYN_OK;
}

void serving_replica_free(serving_replica *r) {
    if (!r) return;
    kv_blocks_free(r->cache);
    syn_free(r->running);
    syn_free(r->waiting);
    syn_free(r);
}

void serving_request_free(serving_request *q) {
    syn_free(q->blocks);
    q->blocks = NULL;
    q->n_blocks = q->cap = 0;
}

const serving_limits *serving_replica_limits(const serving_replica *r) {
    return &r->limits;
}

int64_t serving_running(const serving_replica *r) {
    return (int64_t)r->n_running;
}

int64_t serving_waiting(const serving_replica *r) {
    return (int64_t)r->n_waiting;
}

double serving_cache_usage(const serving_replica *r) {
    const int64_t usable = kv_blocks_usable(r->cache);
    return 1 - (double)kv_blocks_left(r->cache) / (double)usable;
}

/* ---- Blocks ---- */

static int64_t tokens_of(const serving_request *q) {
    return (int64_t)q->prompt + q->generated;
}

static int64_t blocks_for(const serving_replica *r, int64_t tokens) {
    const int64_t n = r->limits.block_tokens;
    return (tokens + n - 1) / n;
}

/* A finalizer of 64-bit hashes (Steele et al. 2014, "Fast splittable pseudorandom number
   generators"). */
static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint64_t key_of(const serving_replica *r, const serving_request *q, int64_t i) {
    const uint64_t shared = r->limits.key ? r->limits.key(q, i, r->limits.block_tokens) : 0;
    return shared ? mix(shared) | 1 : mix(mix((uint64_t)q->id) + (uint64_t)i) | 1;
}

/* Gives keys to the blocks that the first `tokens` tokens fill. */
static void set_keys(serving_replica *r, serving_request *q, int64_t tokens) {
    if (!r->limits.caching || tokens < (q->keyed + 1) * r->limits.block_tokens) return;
    const int64_t full = serving_least(tokens / r->limits.block_tokens, (int64_t)q->n_blocks);
    for (; q->keyed < full; q->keyed++)
        kv_blocks_set_key(r->cache, q->blocks[q->keyed], key_of(r, q, q->keyed));
}

static syn_status grow_blocks(serving_request *q, int64_t want, syn_error *err) {
    return syn_grow(&q->blocks, &q->cap, (size_t)want, sizeof *q->blocks, err);
}

/* The number of blocks that become the request's if it has `tokens` tokens in the cache. */
static int64_t missing(const serving_replica *r, const serving_request *q, int64_t tokens) {
    const int64_t have = (int64_t)q->n_blocks;
    return tokens > have * r->limits.block_tokens ? blocks_for(r, tokens) - have : 0;
}

syn_status serving_take_blocks(serving_replica *r, serving_request *q, int64_t n, bool *fits,
                               syn_error *err) {
    const int64_t more = missing(r, q, serving_least(q->computed + n, r->limits.max_model_tokens));
    *fits = more <= kv_blocks_left(r->cache);
    if (!*fits) return SYN_OK;
    SYN_TRY(grow_blocks(q, (int64_t)q->n_blocks + more, err));
    kv_blocks_take(r->cache, more, q->blocks + q->n_blocks);
    q->n_blocks += (size_t)more;
    set_keys(r, q, serving_least(q->computed + n, tokens_of(q)));
    return SYN_OK;
}

void serving_release(serving_replica *r, serving_request *q) {
    kv_blocks_release(r->cache, q->blocks, (int64_t)q->n_blocks);
    q->n_blocks = 0;
    q->keyed = 0;
}

/* ---- Known prefixes ---- */

int64_t serving_known_blocks(const serving_replica *r, const serving_request *q, int64_t *idle) {
    /* at least one token is left to compute */
    const int64_t most = (tokens_of(q) - 1) / r->limits.block_tokens;
    int64_t n = 0;
    *idle = 0;
    if (!r->limits.caching || q->computed > 0) return 0;
    for (; n < most; n++) {
        const int32_t block = kv_blocks_find(r->cache, key_of(r, q, n));
        if (block < 0) break;
        *idle += kv_blocks_is_free(r->cache, block);
    }
    return n;
}

static void use_known(serving_replica *r, serving_request *q, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        q->blocks[i] = kv_blocks_find(r->cache, key_of(r, q, i));
        kv_blocks_share(r->cache, q->blocks[i]);
    }
    q->n_blocks = (size_t)n;
    q->keyed = (int32_t)n;
}

/* ---- Admission ---- */

syn_status serving_add(serving_replica *r, serving_request *q, syn_error *err) {
    const serving_limits *l = &r->limits;
    const int64_t all = (int64_t)q->prompt + q->output, usable = kv_blocks_usable(r->cache);
    if (blocks_for(r, all) > usable)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "%d prompt and %d output tokens exceed the KV cache of %lld tokens",
                        q->prompt, q->output, (long long)(usable * l->block_tokens));
    if (all > l->max_model_tokens)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "%d prompt and %d output tokens exceed the %lld tokens of a sequence",
                        q->prompt, q->output, (long long)l->max_model_tokens);
    if (!l->chunked && all > l->max_tokens) /* after a preemption, all may be computed at once */
        return SYN_FAIL(err, SYN_E_INVALID,
                        "%d prompt and %d output tokens exceed the %lld tokens of a step "
                        "(--max-num-batched-tokens): without chunked prefill, a preempted request "
                        "is computed again in one step",
                        q->prompt, q->output, (long long)l->max_tokens);
    /* space for all requests, so that serving_preempt cannot fail */
    SYN_TRY(syn_grow(&r->waiting, &r->waiting_cap, r->n_waiting + r->n_running + 1,
                     sizeof(serving_request *), err));
    q->state = SERVING_WAITING;
    q->hits = -1;
    q->order = r->n_added++;
    push_waiting(r, q);
    return SYN_OK;
}

syn_status serving_admit(serving_replica *r, serving_request *q, int64_t n, int64_t *tokens,
                         bool *fits, syn_error *err) {
    int64_t idle;
    const int64_t known = serving_known_blocks(r, q, &idle);
    const int64_t computed = q->computed > 0 ? q->computed : known * r->limits.block_tokens;
    const int64_t all = serving_least(tokens_of(q), r->limits.max_model_tokens);
    *tokens = serving_least(tokens_of(q) - computed, n);
    const int64_t now = r->limits.reserve ? all : serving_least(computed + *tokens, all);
    *fits = blocks_for(r, now) - known + idle <= kv_blocks_left(r->cache);
    if (!*fits) return SYN_OK;
    SYN_TRY(grow_blocks(q, blocks_for(r, computed + *tokens), err));
    use_known(r, q, known);
    q->computed = (int32_t)computed;
    SYN_TRY(serving_take_blocks(r, q, *tokens, fits, err));
    remove_waiting(r, q);
    r->running[r->n_running++] = q;
    q->state = SERVING_RUNNING;
    if (q->hits < 0) {
        q->hits = (int32_t)(known * r->limits.block_tokens);
        r->hits += q->hits;
    }
    return SYN_OK;
}

static void remove_running(serving_replica *r, size_t i) {
    r->n_running--;
    memmove(r->running + i, r->running + i + 1, (r->n_running - i) * sizeof *r->running);
}

void serving_preempt(serving_replica *r, size_t index) {
    serving_request *q = r->running[index];
    remove_running(r, index);
    serving_release(r, q);
    q->state = SERVING_PREEMPTED;
    q->computed = 0;
    q->drafts = 0;
    q->preemptions++;
    r->preemptions++;
    push_waiting(r, q);
}

/* ---- Steps ---- */

int64_t serving_left(const serving_replica *r, const serving_request *q) {
    const int64_t left = tokens_of(q) + q->drafts + q->in_flight - q->computed;
    return serving_least(left, r->limits.max_model_tokens - 1 - q->computed);
}

bool serving_in_prompt(const serving_replica *r, const serving_request *q) {
    return q->generated + q->in_flight == 0 || serving_left(r, q) > 1 + q->drafts;
}

bool serving_ends(const serving_request *q) {
    return q->in_flight > 0 && q->computed + 2 - q->in_flight >= (int64_t)q->prompt + q->output;
}

void serving_add_row(const serving_replica *r, serving_step *step, serving_request *q, int64_t n) {
    const int64_t beyond = n + q->computed - tokens_of(q) - q->in_flight; /* drafts among n */
    serving_row *row = &step->rows[step->n++];
    *row = (serving_row){.request = q, .queries = (int32_t)n};
    if (q->drafts > 0 && beyond > 0) row->drafts = (int32_t)beyond;
    q->drafts = 0;
    q->computed += (int32_t)n;
    row->keys = q->computed;
    row->samples = q->computed >= tokens_of(q) + q->in_flight;
    step->tokens += n;
    if (!row->samples) return;
    if (r->limits.async) {
        q->in_flight += 1 + row->drafts;
        q->drafts = r->limits.drafts;
    }
}

syn_status serving_schedule(serving_replica *r, serving_step *step, syn_error *err) {
    size_t waiting;
    do {
        waiting = r->n_waiting;
        step->n = step->tokens = 0;
        SYN_TRY(r->policy->schedule(r, step, err));
        /* a policy may only preempt requests; then the others may continue */
    } while (step->n == 0 && r->n_waiting > waiting && r->steps == 0);
    r->steps += step->n > 0;
    return SYN_OK;
}

serving_request *serving_any(const serving_replica *r) {
    return r->n_running > 0 ? r->running[0] : serving_next(r);
}

void serving_remove(serving_replica *r, serving_request *q) {
    if (q->state == SERVING_RUNNING) {
        size_t i = 0;
        while (r->running[i] != q) i++;
        remove_running(r, i);
    } else {
        remove_waiting(r, q);
    }
}

static void finish_request(serving_replica *r, serving_request *q) {
    serving_remove(r, q);
    if (!r->limits.keep) serving_release(r, q);
    q->state = SERVING_FINISHED;
}

syn_status serving_finish(serving_replica *r, const serving_step *step, syn_error *err) {
    (void)err;
    r->steps -= step->n > 0;
    for (int64_t i = 0; i < step->n; i++) {
        const serving_row *row = &step->rows[i];
        serving_request *q = row->request;
        if (!q || !row->samples || q->state == SERVING_FINISHED) continue;
        const int32_t rejected = row->drafts - row->accepted,
                      made = (int32_t)serving_least(1 + row->accepted, q->output - q->generated);
        if (q->computed > 0) q->computed -= rejected;
        q->generated += made;
        if (r->limits.async) q->in_flight -= rejected + made;
        else if (q->state == SERVING_RUNNING) q->drafts = r->limits.drafts;
        if (r->limits.async && q->state == SERVING_RUNNING)
            set_keys(r, q, q->computed - q->in_flight);
        if (q->generated >= q->output) finish_request(r, q);
    }
    return SYN_OK;
}
