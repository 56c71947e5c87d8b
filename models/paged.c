/* Serving: runs steps of a batch of sequences of different lengths, whose tokens are packed and
   whose keys and values are in the blocks of one cache; see paged.h. */
#include "models/paged.h"

#include <math.h>

#include "models/causal.h"
#include "syntorch/base/memory.h"

/* ---- attention ---- */

syn_tensor syn__paged_append(syn_model *m, syn_tensor *cache, syn_tensor x, const char *label) {
    *cache = syn_name(m->ctx, syn_paged_append(m->ctx, *cache, x, m->paged.slots), label);
    return *cache;
}

syn_tensor syn__paged_attend(syn_model *m, syn_tensor q, syn_tensor k, syn_tensor v,
                             const syn_heads_options *how) {
    const syn_packed_step *step = m->paged.step;
    const int64_t dims[3] = {1, syn_tensor_dim(m->ctx, q, 2), -1};
    const double depth = (double)syn_tensor_dim(m->ctx, q, 3);
    const syn_paged_options options = {.scale = how->scale > 0 ? how->scale : 1 / sqrt(depth),
                                       .cap = how->cap,
                                       .block_tokens = m->paged.block_tokens,
                                       .window = how->window,
                                       .sinks = how->sinks,
                                       .n = step->n,
                                       .queries = step->queries,
                                       .keys = step->keys,
                                       .blocks = m->paged.table};
    return syn_reshape(m->ctx, syn_paged_attention(m->ctx, q, k, v, &options), dims, 3);
}

/* ---- checks ---- */

/* Checks the lengths of sequence i and, on devices with data, its blocks. */
static syn_status check_sequence(const syn_model *m, const syn_packed_step *step, int64_t i,
                                 syn_error *err) {
    const int64_t queries = step->queries[i], keys = step->keys[i], most = step->max_blocks;
    const struct syn__paged *paged = &m->paged;
    const int64_t needed = (keys + paged->block_tokens - 1) / paged->block_tokens;
    if (queries < 1 || keys < queries)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "sequence %lld of a step cannot have %lld new tokens of %lld tokens",
                        (long long)i, (long long)queries, (long long)keys);
    if (keys > syn_model_max_tokens(&m->config))
        return SYN_FAIL(err, SYN_E_INVALID,
                        "the %lld tokens of sequence %lld exceed the %lld positions of %s",
                        (long long)keys, (long long)i, (long long)syn_model_max_tokens(&m->config),
                        m->config.name);
    if (syn__rotary_is_long(&m->config, keys))
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "sequence %lld has %lld tokens, but %s has another rotary embedding for "
                        "such long texts, which a batch cannot mix with shorter ones",
                        (long long)i, (long long)keys, m->config.name);
    if (needed > most)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "sequence %lld has %lld tokens, which need %lld blocks instead of %lld",
                        (long long)i, (long long)keys, (long long)needed, (long long)most);
    for (int64_t b = 0; step->blocks && b < needed; b++)
        if (step->blocks[i * most + b] < 0 || step->blocks[i * most + b] >= paged->blocks)
            return SYN_FAIL(err, SYN_E_INVALID,
                            "block %d of sequence %lld is not among the %lld blocks of the cache",
                            step->blocks[i * most + b], (long long)i, (long long)paged->blocks);
    return SYN_OK;
}

static syn_status check_step(const syn_model *m, int64_t tokens, const syn_packed_step *step,
                             syn_error *err) {
    int64_t sum = 0;
    if (m->paged.block_tokens == 0)
        return SYN_FAIL(err, SYN_E_INVALID, "a packed step needs syn_causal_begin_paged first");
    if (step->n < 1 || step->n_rows < 0 || step->n_rows > tokens)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "a step of %lld sequences and %lld tokens cannot return %lld rows",
                        (long long)step->n, (long long)tokens, (long long)step->n_rows);
    if (syn_ctx_has_data(m->ctx) && (!step->blocks || (step->n_rows > 0 && !step->rows)))
        return SYN_FAIL(err, SYN_E_INVALID, "a step on this device needs blocks and rows");
    for (int64_t i = 0; i < step->n; i++) {
        SYN_TRY(check_sequence(m, step, i, err));
        sum += step->queries[i];
    }
    if (sum != tokens)
        return SYN_FAIL(err, SYN_E_SHAPE, "the sequences of a step have %lld new tokens, not %lld",
                        (long long)sum, (long long)tokens);
    for (int64_t r = 0; step->rows && r < step->n_rows; r++)
        if (step->rows[r] >= tokens || step->rows[r] <= (r > 0 ? step->rows[r - 1] : -1))
            return SYN_FAIL(err, SYN_E_INVALID, "row %d of a step of %lld tokens is out of order",
                            step->rows[r], (long long)tokens);
    return SYN_OK;
}

/* Whether the step can run; if not, the context fails. */
static bool accepts(const syn_model *m, syn_tensor x, const syn_packed_step *step) {
    syn_error err = {0};
    if (!syn__model_accepts(m, x, 1)) return false;
    const int64_t *n = syn_tensor_spec(m->ctx, x)->dims;
    syn_status s = check_step(m, n[1], step, &err);
    if (s == SYN_OK && n[0] != 1)
        s = SYN_FAIL(&err, SYN_E_SHAPE, "packed tokens have the batch size 1, not %lld",
                     (long long)n[0]);
    if (s != SYN_OK) syn_ctx_fail(m->ctx, s, "%s", err.text);
    return s == SYN_OK;
}

/* ---- a step ---- */

static syn_tensor integers(syn_model *m, const char *name, int rank, int64_t rows, int64_t columns,
                           const int32_t *values) {
    const syn_spec spec = {SYN_I32, rank, {rows, columns}};
    return syn_input(m->ctx, name, &spec, syn_ctx_has_data(m->ctx) ? values : NULL);
}

/* Writes the slot and the position of each packed token. */
static void locate_tokens(const syn_model *m, const syn_packed_step *step, int32_t *slots,
                          int32_t *positions) {
    const int64_t size = m->paged.block_tokens;
    for (int64_t i = 0; i < step->n; i++)
        for (int64_t at = step->keys[i] - step->queries[i]; at < step->keys[i]; at++) {
            const int64_t block = step->blocks[i * step->max_blocks + at / size];
            *slots++ = (int32_t)(block * size + at % size);
            *positions++ = (int32_t)at;
        }
}

/* Creates the tensors with which the layers find the tokens and keys of each sequence. */
static void add_inputs(syn_model *m, int64_t tokens, const syn_packed_step *step) {
    int32_t *slots = NULL;
    if (syn_ctx_has_data(m->ctx)) {
        slots = syn_malloc(2 * (size_t)tokens * sizeof *slots);
        if (!slots) {
            syn_ctx_fail(m->ctx, SYN_E_NOMEM, "out of memory: the slots of packed tokens");
            return;
        }
        locate_tokens(m, step, slots, slots + tokens);
    }
    m->paged.slots = integers(m, "slots", 1, tokens, 0, slots);
    m->paged.table = integers(m, "blocks", 2, step->n, step->max_blocks, step->blocks);
    m->positions = (syn_tensor){0};
    if (m->part.embed || m->config.rotary.theta > 0)
        m->positions = integers(m, "positions", 2, 1, tokens, slots ? slots + tokens : NULL);
    syn_free(slots);
}

/* x (1, T, C) -> the logits (n_rows, V0) of the step's rows. rows: their numbers; invalid: all. */
static syn_tensor head(syn_model *m, syn_tensor x, syn_tensor rows) {
    syn_ctx *ctx = m->ctx;
    const int64_t dims[2] = {-1, m->config.n_embd};
    syn_push_scope(ctx, m->config.family->head_scope);
    x = syn_reshape(ctx, x, dims, 2);
    if (rows.id) x = syn_name(ctx, syn_embedding(ctx, x, rows, 0), "last");
    x = syn__causal_all_logits(m, syn__causal_norm(m, x));
    syn_pop_scope(ctx);
    return x;
}

syn_tensor syn_causal_forward_packed(syn_model *m, syn_tensor x, const syn_packed_step *step) {
    syn_ctx *ctx = m->ctx;
    if (!accepts(m, x, step)) return (syn_tensor){0};
    const int64_t tokens = syn_tensor_dim(ctx, x, 1);
    const syn_spec none = {(int32_t)m->options.dtype, 2, {0, m->config.vocab_size}};
    const syn_mark begin = syn_ctx_mark(ctx);
    syn_tensor rows = {0};
    syn__model_set_frequencies(m, 0);
    add_inputs(m, tokens, step);
    if (m->part.head && step->n_rows > 0 && step->n_rows < tokens)
        rows = integers(m, "rows", 1, step->n_rows, 0, step->rows);
    const syn_mark mark = syn_ctx_mark(ctx);
    m->paged.step = step;
    m->visible = SYN_NO_MASK;
    m->cut = false;
    if (m->part.embed) x = m->config.family->embed(m, x);
    x = syn__model_layers(m, x, mark);
    if (m->part.head) x = step->n_rows > 0 ? head(m, x, rows) : syn_input(ctx, "logits", &none, "");
    m->paged.step = NULL;
    m->positions = (syn_tensor){0};
    syn_release(ctx, begin, &x, 1);
    return x;
}
