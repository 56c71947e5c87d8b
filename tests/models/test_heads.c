/* Compares grouped-query attention with plain sums: every grouping, sharded over ranks, processed
   in chunks with a cache, with padding, fused and unfused. */
#include "comm/comm.h"
#include "models/layers.h"
#include "tests/support/gpt_reference.h"
#include "tests/support/ranks.h"
#include "tests/support/test.h"

enum { BATCH = 2, TOKENS = 9, WIDTH = 12, DEPTH = 3, MAX_HEADS = 8, MAX_OUT = MAX_HEADS * DEPTH };

struct job {
    int heads, shared; /* number of query heads, and of key/value heads */
    int tp;
    bool fused, causal, padded;
    int64_t chunks[TOKENS + 1]; /* number of tokens of each chunk; 0 ends the list */
    double worst;               /* this rank's largest error */
};

/* The number of padding tokens at the beginning of sequence b. */
static int64_t padding(const struct job *job, int64_t b) {
    return job->padded ? 2 * b + 1 : 0;
}

/* ---- The reference ---- */

static double x_at(int64_t b, int64_t t, int64_t c) {
    return (double)ref_value(1, (b * TOKENS + t) * WIDTH + c, 1.0);
}

/* Column c of the product of token t and matrix p, which is stored as (WIDTH, out) or
   transposed. */
static double project(int p, int64_t out, int64_t b, int64_t t, int64_t c) {
    double y = 0;
    for (int64_t k = 0; k < WIDTH; k++) y += x_at(b, t, k) * (double)ref_value(p, k * out + c, 0.5);
    return y;
}

/* The attention output of head h for query t. Several heads use the same key/value head. */
static void attend(const struct job *job, int64_t b, int64_t t, int64_t h, double out[DEPTH]) {
    const int64_t g = h / (job->heads / job->shared), q_out = job->heads * DEPTH,
                  k_out = job->shared * DEPTH;
    double w[TOKENS], sum = 0;
    for (int64_t s = 0; s < TOKENS; s++) {
        double dot = 0;
        for (int64_t d = 0; d < DEPTH; d++)
            dot += project(2, q_out, b, t, h * DEPTH + d) * project(3, k_out, b, s, g * DEPTH + d);
        const bool seen = s >= padding(job, b) && (!job->causal || s <= t);
        w[s] = seen ? exp(dot / sqrt((double)DEPTH)) : 0;
        sum += w[s];
    }
    for (int64_t d = 0; d < DEPTH; d++) {
        out[d] = 0;
        for (int64_t s = 0; s < TOKENS; s++)
            if (w[s] > 0) out[d] += w[s] / sum * project(4, k_out, b, s, g * DEPTH + d);
    }
}

/* The output projection of all heads, (BATCH, TOKENS, WIDTH). */
static void reference(const struct job *job, double out[BATCH][TOKENS][WIDTH]) {
    const int64_t n = job->heads * DEPTH;
    for (int64_t b = 0; b < BATCH; b++)
        for (int64_t t = 0; t < TOKENS; t++) {
            double y[MAX_OUT];
            for (int64_t h = 0; h < job->heads; h++) attend(job, b, t, h, y + h * DEPTH);
            for (int64_t c = 0; c < WIDTH; c++) {
                out[b][t][c] = 0;
                for (int64_t k = 0; k < n; k++)
                    out[b][t][c] += y[k] * (double)ref_value(5, k * WIDTH + c, 0.5);
            }
        }
}

/* ---- The layer ---- */

struct layer {
    syn_layer_linear q, k, v, out;
    syn_tensor k_cache, v_cache, mask;
};

static void fill(syn_ctx *ctx, const char *name, int p, int64_t rows, int64_t columns, ref_cut cut,
                 const test_rank *me, int tp) {
    float data[WIDTH * MAX_OUT];
    const ref_param full = {.rows = rows, .columns = columns, .cut = cut, .data = data};
    size_t bytes;
    for (int64_t i = 0; i < rows * columns; i++) data[i] = ref_value(p, i, 0.5);
    float *shard = ref_shard(&full, me->index, tp, &bytes);
    (void)!syn_tensor_write(ctx, syn_find_param(ctx, name), shard, bytes);
    free(shard);
}

static struct layer layer_new(const struct job *job, const test_rank *me) {
    syn_ctx *ctx = me->ctx;
    const syn_initializer init = {.std = 1, .no_bias = true};
    const syn_group *tp = me->tp;
    const int64_t q = job->heads * DEPTH, k = job->shared * DEPTH;
    const syn_spec cache = {SYN_F32, 4, {BATCH, job->shared / job->tp, TOKENS, DEPTH}};
    const syn_spec mask = {SYN_F32, 2, {BATCH, TOKENS}};
    float hidden[BATCH * TOKENS] = {0};
    struct layer l = {.q = syn_column_linear_new(ctx, "q", WIDTH, q, 1, &init, tp),
                      .k = syn_column_linear_new(ctx, "k", WIDTH, k, 1, &init, tp),
                      .v = syn_column_linear_new(ctx, "v", WIDTH, k, 1, &init, tp),
                      .out = syn_row_linear_new(ctx, "out", q, WIDTH, &init, tp),
                      .k_cache = syn_state(ctx, "k_cache", &cache),
                      .v_cache = syn_state(ctx, "v_cache", &cache)};
    fill(ctx, "q.weight", 2, WIDTH, q, REF_COLUMNS, me, job->tp);
    fill(ctx, "k.weight", 3, WIDTH, k, REF_COLUMNS, me, job->tp);
    fill(ctx, "v.weight", 4, WIDTH, k, REF_COLUMNS, me, job->tp);
    fill(ctx, "out.weight", 5, q, WIDTH, REF_ROWS, me, job->tp);
    for (int64_t b = 0; b < BATCH; b++)
        for (int64_t t = 0; t < padding(job, b); t++) hidden[b * TOKENS + t] = -INFINITY;
    if (job->padded) l.mask = syn_input(ctx, "mask", &mask, hidden);
    return l;
}

static syn_tensor forward(const struct job *job, const test_rank *me, struct layer *l, syn_tensor x,
                          int64_t position) {
    syn_ctx *ctx = me->ctx;
    const syn_group *tp = me->tp;
    const int64_t n = syn_tensor_dim(ctx, x, 1);
    syn_heads_options how = {.fused = job->fused, .causal = job->causal, .position = position};
    if (job->padded) how.mask = syn_slice(ctx, l->mask, 1, 0, position + n);
    const syn_tensor q = syn_column_linear(ctx, x, &l->q, false, tp, "q"),
                     k = syn_column_linear(ctx, x, &l->k, false, tp, "k"),
                     v = syn_column_linear(ctx, x, &l->v, false, tp, "v");
    const syn_tensor keys = syn_heads_append_cache(ctx, &l->k_cache, syn_heads_split(ctx, k, DEPTH),
                                                   position, "k_cache"),
                     values = syn_heads_append_cache(
                         ctx, &l->v_cache, syn_heads_split(ctx, v, DEPTH), position, "v_cache");
    const syn_tensor y = syn_heads_attend(ctx, syn_heads_split(ctx, q, DEPTH), keys, values, &how);
    return syn_row_linear(ctx, y, &l->out, true, tp, "out");
}

static syn_status run_rank(const test_rank *me, void *arg, syn_error *err) {
    struct job mine = *(struct job *)arg;
    double want[BATCH][TOKENS][WIDTH];
    int64_t at = 0;
    reference(&mine, want);
    syn_ctx *ctx = me->ctx;
    struct layer l = layer_new(&mine, me);
    for (const int64_t *n = mine.chunks; *n && syn_ctx_status(ctx) == SYN_OK; at += *n++) {
        float x[BATCH * TOKENS * WIDTH], got[BATCH * TOKENS * WIDTH];
        const syn_spec spec = {SYN_F32, 3, {BATCH, *n, WIDTH}};
        const size_t bytes = (size_t)syn_spec_bytes(&spec);
        for (int64_t i = 0; i < BATCH * *n * WIDTH; i++)
            x[i] = (float)x_at(i / WIDTH / *n, at + i / WIDTH % *n, i % WIDTH);
        const syn_tensor in = syn_input(ctx, "x", &spec, x);
        if (syn_tensor_read(ctx, forward(&mine, me, &l, in, at), got, bytes) != SYN_OK) break;
        for (int64_t i = 0; i < BATCH * *n * WIDTH; i++) {
            const int64_t b = i / WIDTH / *n, t = at + i / WIDTH % *n;
            const double e = fabs((double)got[i] - want[b][t][i % WIDTH]);
            /* The outputs at padding queries are undefined. */
            if (t >= padding(&mine, b) && !(e <= mine.worst)) mine.worst = isnan(e) ? INFINITY : e;
        }
    }
    const syn_status s = syn_ctx_check(ctx, err);
    if (s == SYN_OK && !(mine.worst <= 1e-5))
        SYN_FAIL(err, SYN_E_INVALID, "an error of %g", mine.worst);
    return s != SYN_OK ? s : err->code;
}

static void check(struct job job) {
    syn_error err = {0};
    const syn_status s = run_ranks(job.tp, run_rank, &job, &err);
    CHECK_MSG(s == SYN_OK, "%d heads, %d of keys, tp %d, fused %d, causal %d, padded %d: %s",
              job.heads, job.shared, job.tp, job.fused, job.causal, job.padded, err.text);
}

static void heads_share_keys_and_values(void) {
    static const int shapes[][2] = {{8, 8}, {8, 4}, {8, 2}, {8, 1}, {6, 2}, {6, 3}, {2, 1}, {4, 4}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int way = 0; way < 16; way++) {
            struct job job = {.heads = shapes[i][0],
                              .shared = shapes[i][1],
                              .tp = 1 + way / 8,
                              .fused = way % 2,
                              .causal = way / 2 % 2,
                              .padded = way / 4 % 2,
                              .chunks = {TOKENS}};
            if (job.shared % job.tp) continue;
            check(job);
        }
}

/* Causal attention with a cache, token by token and in larger chunks. */
static void the_cache_holds_shared_heads(void) {
    static const int64_t feeds[][TOKENS + 1] = {{1, 1, 1, 1, 1, 1, 1, 1, 1}, {4, 1, 3, 1}, {8, 1}};
    for (size_t i = 0; i < sizeof feeds / sizeof feeds[0]; i++)
        for (int way = 0; way < 8; way++) {
            struct job job = {.heads = 8,
                              .shared = 2,
                              .tp = 1 + way / 4,
                              .fused = way % 2,
                              .causal = true,
                              .padded = way / 2 % 2};
            memcpy(job.chunks, feeds[i], sizeof job.chunks);
            check(job);
        }
}

/* The number of `contiguous` nodes in the trace of attention with `tokens` new tokens. */
static int copies(int64_t shared, int64_t tokens, bool fused) {
    syn_ctx *ctx = NULL;
    syn_error err = {0};
    const syn_spec q = {SYN_F32, 3, {BATCH, tokens, 8 * DEPTH}},
                   k = {SYN_F32, 3, {BATCH, tokens, shared * DEPTH}},
                   cache = {SYN_F32, 4, {BATCH, shared, TOKENS, DEPTH}};
    const syn_heads_options how = {.fused = fused, .causal = true, .position = 3};
    int n = 0;
    if (syn_ctx_new(&ctx, SYN_DEVICE_META, NULL, &err) != SYN_OK) abort();
    syn_tensor keys = syn_state(ctx, "keys", &cache);
    const syn_tensor heads = syn_heads_split(ctx, syn_input(ctx, "q", &q, NULL), DEPTH);
    const syn_tensor new_keys = syn_heads_split(ctx, syn_input(ctx, "k", &k, NULL), DEPTH);
    const syn_tensor all = syn_heads_append_cache(ctx, &keys, new_keys, 3, "keys");
    syn_heads_attend(ctx, heads, all, all, &how);
    if (syn_ctx_status(ctx) != SYN_OK) n = -1;
    for (size_t i = 1; n >= 0 && i < syn_ctx_trace(ctx)->n_nodes; i++)
        n += syn_ctx_trace(ctx)->nodes[i].op == SYN_OP_CONTIGUOUS;
    syn_ctx_free(ctx);
    return n;
}

/* Keys and values are never repeated or copied. If unfused ops multiply queries of several tokens
   by shared keys, the queries are copied once. The only other copy is that of the result. */
static void sharing_copies_queries_at_most(void) {
    for (int64_t shared = 1; shared <= 8; shared *= 2)
        for (int fused = 0; fused < 2; fused++) {
            CHECK_INT(copies(shared, 1, fused), 0);
            CHECK_INT(copies(shared, 4, fused), shared < 8 && !fused ? 2 : 1);
        }
}

static void heads_that_do_not_divide(void) {
    for (int fused = 0; fused < 2; fused++) {
        syn_ctx *ctx = NULL;
        syn_error err = {0};
        const syn_spec q = {SYN_F32, 4, {1, 8, 2, 3}}, k = {SYN_F32, 4, {1, 3, 2, 3}};
        const syn_heads_options how = {.fused = fused};
        CHECK_OK(syn_ctx_new(&ctx, SYN_DEVICE_META, NULL, &err), err);
        const syn_tensor keys = syn_input(ctx, "k", &k, NULL);
        const syn_tensor y = syn_heads_attend(ctx, syn_input(ctx, "q", &q, NULL), keys, keys, &how);
        err = *syn_ctx_error(ctx);
        syn_ctx_free(ctx);
        CHECK_INT(y.id, 0);
        CHECK_INT(err.code, SYN_E_SHAPE);
        CHECK_HAS(err.text, "3 key heads do not divide the 8 query heads");
    }
}

static const test_case cases[] = {
    {"heads_share_keys_and_values", heads_share_keys_and_values},
    {"the_cache_holds_shared_heads", the_cache_holds_shared_heads},
    {"sharing_copies_queries_at_most", sharing_copies_queries_at_most},
    {"heads_that_do_not_divide", heads_that_do_not_divide},
};

TEST_MAIN(cases)
