/* Compares the paged KV cache and the attention to it with their definitions in double precision:
   sequences of different lengths, blocks in any order, windows, sinks and capped scores. Also tests
   costs and extents, which depend on the lengths of all sequences. */
#include "syntorch/base/half.h"

#include "tests/support/ops_reference.h"
#include "tests/support/ranks.h"
#include "tests/support/test.h"

enum { MOST = 6, MOST_BLOCKS = 200 }; /* sequences; blocks of all of them */

static void test_append(void) {
    static ref cache, x, slots;
    static const syn_dtype dtypes[] = {SYN_F32, SYN_BF16, SYN_I64};
    for (int round = 0; round < ref_rounds(200); round++) {
        ref_seed((uint64_t)round);
        const int64_t dims[4] = {1, ref_int(1, 3), ref_int(1, 40), ref_int(1, 9)}, n = dims[2];
        const syn_spec spec = ref_spec(dtypes[round % 3], 4, dims);
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        syn_tensor now = syn_state(ctx, "cache", &spec);
        ref_fill(&cache, spec, 0, 0);
        for (int version = 0; version < 3; version++) {
            const int64_t tokens = ref_int(0, n), step = ref_int(1, 5), first = ref_int(0, n - 1);
            const int64_t part[4] = {1, dims[1], tokens, dims[3]};
            ref_fill(&x, ref_spec((syn_dtype)spec.dtype, 4, part), 1, 100);
            slots.spec = (syn_spec){SYN_I32, 1, {tokens}};
            /* Every step-th slot, then those after them, and so on. */
            for (int64_t t = 0, slot = first % step, begin = slot; t < tokens; t++) {
                slots.v[t] = (double)slot;
                slot += step;
                if (slot >= n) slot = begin = (begin + 1) % step;
                if (slot >= n) slot = begin = 0;
            }
            for (int64_t i = 0; i < syn_spec_elems(&x.spec); i++) {
                const int64_t head = i / dims[3] / tokens, t = i / dims[3] % tokens;
                cache.v[(head * n + (int64_t)slots.v[t]) * dims[3] + i % dims[3]] = x.v[i];
            }
            now = syn_paged_append(ctx, now, ref_wild(ctx, &x), ref_wild(ctx, &slots));
            CHECK(ref_check(ctx, now, &cache, 0));
        }
        syn_ctx_free(ctx);
    }
}

/* A batch. Values are those of the dtype. */
typedef struct batch {
    syn_dtype dtype;
    int32_t queries[MOST], keys[MOST];
    double scale, cap;
    int64_t n, tokens, block, max_blocks, slots, window;
    bool latent;                /* values are a part of the keys */
    ref q, k, v, blocks, sinks; /* as bit patterns, if the dtype has 2 bytes */
} batch;

/* Draws n random elements of the batch's dtype. */
static void draw(const batch *b, ref *r, int rank, const int64_t *dims) {
    ref_fill(r, ref_spec(SYN_F32, rank, dims), -2, 2);
    r->spec.dtype = (int32_t)b->dtype;
    for (int64_t i = 0; i < syn_spec_elems(&r->spec) && b->dtype != SYN_F32; i++) {
        const float value = (float)r->v[i];
        uint16_t bits;
        syn_half_narrow(&value, &bits, 1, b->dtype);
        r->v[i] = bits;
    }
}

static double value_of(const batch *b, const ref *r, int64_t at) {
    return b->dtype == SYN_F32 ? r->v[at] : ref_half((uint16_t)r->v[at], b->dtype);
}

/* Chooses the blocks of all sequences: those of the cache, in order or shuffled. Table entries
   behind a sequence's blocks are not valid, and slots that no sequence uses are NaN. */
static void choose_blocks(batch *b, bool shuffled) {
    int order[MOST_BLOCKS], n = (int)(b->slots / b->block), next = 0;
    bool used[4096] = {false};
    for (int i = 0; i < n; i++) order[i] = i;
    for (int i = n - 1; i > 0 && shuffled; i--) {
        const int j = (int)ref_int(0, i), block = order[i];
        order[i] = order[j];
        order[j] = block;
    }
    b->blocks.spec = (syn_spec){SYN_I32, 2, {b->n, b->max_blocks}};
    for (int64_t i = 0; i < b->n * b->max_blocks; i++) b->blocks.v[i] = -7;
    for (int64_t i = 0; i < b->n; i++)
        for (int64_t k = 0; k < b->keys[i]; k++) {
            double *block = &b->blocks.v[i * b->max_blocks + k / b->block];
            if (k % b->block == 0) *block = order[next++];
            used[(int64_t)*block * b->block + k % b->block] = true;
        }
    for (ref *r = &b->k;; r = &b->v) {
        const int64_t depth = r->spec.dims[3];
        for (int64_t i = 0; i < syn_spec_elems(&r->spec); i++)
            if (!used[i / depth % b->slots])
                r->v[i] = b->dtype == SYN_F32 ? (double)NAN : (double)0x7fff;
        if (r == &b->v) break;
    }
}

/* prompts: two sequences of 80 new tokens and 6 heads. */
static void draw_batch(batch *b, int round, bool prompts) {
    static const int64_t blocks[] = {1, 3, 16};
    const bool long_one = round % 4 == 0;
    const int64_t shared = ref_int(1, 2), heads = prompts ? 6 : shared * ref_int(1, 3),
                  depth = prompts ? 4 : ref_int(1, long_one ? 4 : 9),
                  values = ref_int(1, long_one ? 4 : 9);
    int64_t needed = 0;
    b->dtype = round % 3 == 0 ? SYN_F32 : round % 3 == 1 ? SYN_F16 : SYN_BF16;
    b->n = prompts ? 2 : ref_int(1, long_one ? 2 : MOST);
    b->block = blocks[ref_int(0, 2)];
    b->tokens = b->max_blocks = 0;
    for (int64_t i = 0; i < b->n; i++) {
        b->keys[i] = (int32_t)(prompts ? 80 : ref_int(1, long_one ? 80 : 12));
        b->queries[i] = (int32_t)(prompts ? 80 : ref_int(0, 1) ? 1 : ref_int(1, b->keys[i]));
        b->tokens += b->queries[i];
        const int64_t n = (b->keys[i] + b->block - 1) / b->block;
        needed += n;
        if (n > b->max_blocks) b->max_blocks = n;
    }
    b->max_blocks += ref_int(0, 2);
    b->slots = (needed + ref_int(0, 2)) * b->block;
    b->scale = ref_real(0.1, 1);
    b->cap = round % 5 == 0 ? ref_real(0.5, 3) : 0;
    b->window = round % 2 ? ref_int(1, 30) : 0;
    b->latent = round % 7 == 0 && values <= depth;
    draw(b, &b->q, 4, (const int64_t[]){1, heads, b->tokens, depth});
    draw(b, &b->k, 4, (const int64_t[]){1, shared, b->slots, depth});
    draw(b, &b->v, 4, (const int64_t[]){1, shared, b->slots, values});
    draw(b, &b->sinks, 1, &heads);
    for (int64_t i = 0; i < shared * b->slots * values && b->latent; i++)
        b->v.v[i] = b->k.v[i / values * depth + i % values];
    choose_blocks(b, round % 3 != 1);
}

/* Attention of query `query` of sequence i and head h. */
static void attend(const batch *b, bool sinks, int64_t i, int64_t query, int64_t token, int64_t h,
                   double *out) {
    const int64_t heads = b->q.spec.dims[1], depth = b->q.spec.dims[3], values = b->v.spec.dims[3],
                  shared = h / (heads / b->k.spec.dims[1]);
    const int64_t end = b->keys[i] - b->queries[i] + query + 1,
                  begin = b->window && end > b->window ? end - b->window : 0;
    double sum = sinks ? exp(value_of(b, &b->sinks, h)) : 0;
    for (int64_t d = 0; d < values; d++) out[d] = 0;
    for (int64_t s = begin; s < end; s++) {
        const int64_t block = (int64_t)b->blocks.v[i * b->max_blocks + s / b->block],
                      row = shared * b->slots + block * b->block + s % b->block;
        double x = 0;
        for (int64_t d = 0; d < depth; d++)
            x += value_of(b, &b->q, (h * b->tokens + token) * depth + d) *
                 value_of(b, &b->k, row * depth + d);
        x *= b->scale;
        if (b->cap > 0) x = b->cap * tanh(x / b->cap);
        sum += exp(x);
        for (int64_t d = 0; d < values; d++)
            out[d] += exp(x) * value_of(b, &b->v, row * values + d);
    }
    for (int64_t d = 0; d < values; d++) out[d] /= sum;
}

static void attend_all(const batch *b, bool sinks, ref *want) {
    const int64_t heads = b->q.spec.dims[1], values = b->v.spec.dims[3];
    want->spec = (syn_spec){SYN_F32, 4, {1, b->tokens, heads, values}};
    for (int64_t i = 0, token = 0; i < b->n; i++)
        for (int64_t query = 0; query < b->queries[i]; query++, token++)
            for (int64_t h = 0; h < heads; h++)
                attend(b, sinks, i, query, token, h, want->v + (token * heads + h) * values);
}

static syn_tensor paged(syn_ctx *ctx, const batch *b, bool sinks) {
    const syn_paged_options how = {.scale = b->scale,
                                   .cap = b->cap,
                                   .block_tokens = b->block,
                                   .window = b->window,
                                   .sinks = sinks ? ref_wild(ctx, &b->sinks) : (syn_tensor){0},
                                   .n = b->n,
                                   .queries = b->queries,
                                   .keys = b->keys,
                                   .blocks = ref_dense(ctx, &b->blocks)};
    const syn_tensor k = ref_dense(ctx, &b->k);
    const syn_tensor v =
        b->latent ? syn_slice(ctx, k, 3, 0, b->v.spec.dims[3]) : ref_dense(ctx, &b->v);
    return syn_paged_attention(ctx, ref_wild(ctx, &b->q), k, v, &how);
}

static void test_attention(void) {
    static batch b;
    static ref want;
    for (int round = 0; round < ref_rounds(TEST_ROUNDS(400)); round++) {
        ref_seed((uint64_t)round);
        const bool sinks = round % 3 == 1;
        draw_batch(&b, round, false);
        attend_all(&b, sinks, &want);
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        const syn_tensor y = paged(ctx, &b, sinks);
        const double tolerance = b.dtype == SYN_F32 ? 1e-5 : b.dtype == SYN_F16 ? 1e-3 : 8e-3;
        CHECK_MSG(
            ref_check(ctx, b.dtype == SYN_F32 ? y : syn_cast(ctx, y, SYN_F32), &want, tolerance),
            "round %d", round);
        syn_ctx_free(ctx);
    }
}

/* The result must have the same bits for any number of threads. The batch has enough work for
   several of them. */
static void test_threads(void) {
    static batch b;
    static float got[2][REF_MAX];
    for (int round = 0; round < 16; round += 4)
        for (int threads = 1; threads < 4; threads += 2) {
            syn_error err = {0};
            ref_seed((uint64_t)round);
            draw_batch(&b, round, true);
            syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
            CHECK_OK(syn_ctx_set_threads(ctx, threads, &err), err);
            const syn_tensor y = paged(ctx, &b, false);
            const size_t n = (size_t)syn_spec_elems(syn_tensor_spec(ctx, y));
            CHECK(syn_tensor_read_f32(ctx, y, got[threads / 2], n) == SYN_OK);
            CHECK(memcmp(got[0], got[threads / 2], n * sizeof **got) == 0);
            syn_ctx_free(ctx);
        }
}

/* ---- costs and extents ---- */

/* Records attention of n sequences on meta: 8 query heads of depth 4, 2 key heads, values of depth
   3, a cache of 2^20 slots in blocks of 16. */
static syn_ctx *recorded(int64_t n, const int32_t *queries, const int32_t *keys, int64_t window,
                         double cap) {
    int64_t tokens = 0;
    for (int64_t i = 0; i < n; i++) tokens += queries[i];
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_META, NULL);
    const syn_paged_options how = {.scale = 1,
                                   .cap = cap,
                                   .block_tokens = 16,
                                   .window = window,
                                   .n = n,
                                   .queries = queries,
                                   .keys = keys,
                                   .blocks = ZEROS(ctx, SYN_I32, n, 1 << 16)};
    syn_paged_attention(ctx, ZEROS(ctx, SYN_BF16, 1, 8, tokens, 4),
                        ZEROS(ctx, SYN_BF16, 1, 2, 1 << 20, 4),
                        ZEROS(ctx, SYN_BF16, 1, 2, 1 << 20, 3), &how);
    return ctx;
}

typedef struct cost_case {
    int64_t n;
    int32_t queries[4], keys[4];
    int64_t window;
    double cap;
    uint64_t pairs, seen; /* expected: sum of queries * keys seen, and of keys seen */
    int64_t rows, columns;
} cost_case;

static void test_costs(void) {
    static const cost_case rows[] = {
        {3, {1, 1, 1}, {7, 1, 100}, 0, 0, 108, 108, 1, 108},
        {1, {5}, {5}, 0, 0, 25, 5, 5, 3},
        {2, {130, 2}, {200, 2}, 0, 0, 130 * 200 + 4, 202, 130, 3 * 136 + 2}, /* 135.5 and 1.5 */
        {2, {130, 1}, {200, 50}, 10, 0, 130 * 139 + 10, 149, 130, 3 * 10 + 10},
        {1, {4}, {5}, 3, 2.5, 20, 5, 4, 3}, /* they see 2, 3, 3 and 3 */
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const cost_case *r = &rows[i];
        int64_t tokens = 0;
        for (int64_t s = 0; s < r->n; s++) tokens += r->queries[s];
        syn_ctx *ctx = recorded(r->n, r->queries, r->keys, r->window, r->cap);
        syn_graph *g = rank_graph(ctx);
        syn_cursor cur = {0};
        CHECK(g);
        const syn_node *node = syn_graph_node(g, 0, 0, &cur);
        CHECK(node);
        CHECK_INT(node->flops, 8 * (int64_t)r->pairs * (2 * (4 + 3) + (r->cap > 0 ? 7 : 5)));
        CHECK_INT(node->bytes_read,
                  2 * 8 * tokens * 4 + 2 * 2 * (int64_t)r->seen * (4 + 3) + 4 * r->n * (1 << 16));
        CHECK_INT(node->bytes_written, 2 * 8 * tokens * 3);
        CHECK_INT(node->extents.batch, 8);
        CHECK_INT(node->extents.rows, r->rows);
        CHECK_INT(node->extents.columns, r->columns);
        CHECK_INT(node->extents.inner, 4);
        syn_cursor_free(&cur);
        syn_graph_free(g);
        syn_ctx_free(ctx);
    }
}

/* Values that are a part of the keys, as in latent attention, are read once. */
static void test_latent_costs(void) {
    static const int32_t queries[] = {1, 2}, keys[] = {50, 7};
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_META, NULL);
    const syn_paged_options how = {.scale = 1,
                                   .block_tokens = 16,
                                   .n = 2,
                                   .queries = queries,
                                   .keys = keys,
                                   .blocks = ZEROS(ctx, SYN_I32, 2, 4)};
    const syn_tensor latents = ZEROS(ctx, SYN_BF16, 1, 1, 160, 6);
    syn_paged_attention(ctx, ZEROS(ctx, SYN_BF16, 1, 8, 3, 6), latents,
                        syn_slice(ctx, latents, 3, 0, 4), &how);
    syn_graph *g = rank_graph(ctx);
    syn_cursor cur = {0};
    CHECK(g);
    const syn_node *node = syn_graph_node(g, 0, g->ranks[0].n_nodes - 1, &cur);
    CHECK(node);
    CHECK_STR(node->op, "paged_attention");
    CHECK_INT(node->bytes_read, 2 * 8 * 3 * 6 + 2 * 57 * 6 + 4 * 8);
    CHECK_INT(node->bytes_written, 2 * 8 * 3 * 4);
    syn_cursor_free(&cur);
    syn_graph_free(g);
    syn_ctx_free(ctx);
}

/* The attributes have the lengths of all sequences, however many there are. */
static void test_many_sequences(void) {
    enum { N = 1000 };
    static int32_t queries[N], keys[N];
    int64_t sum = 0;
    for (int i = 0; i < N; i++) {
        queries[i] = 1;
        sum += keys[i] = 100000 + i;
    }
    syn_ctx *ctx = recorded(N, queries, keys, 0, 0);
    syn_graph *g = rank_graph(ctx);
    syn_cursor cur = {0};
    CHECK(g);
    const syn_node *node = syn_graph_node(g, 0, 0, &cur);
    CHECK(node);
    CHECK_INT(node->n_attributes, 6);
    CHECK_STR(node->attributes[4].name, "queries");
    CHECK_INT(strlen(node->attributes[4].text), 2 * N - 1);
    CHECK_STR(node->attributes[5].name, "keys");
    CHECK_INT(strlen(node->attributes[5].text), 7 * N - 1);
    CHECK_STR(node->attributes[5].text + 7 * (N - 1), "100999");
    CHECK_INT(node->extents.columns, sum);
    syn_cursor_free(&cur);
    syn_graph_free(g);
    syn_ctx_free(ctx);
}

/* ---- errors ---- */

/* Slots and blocks are data, so only kernels can check them. */
static void test_wrong_blocks(void) {
    static const int32_t wrong[] = {-1, 6, INT32_MAX};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        const int32_t slots[2] = {3, wrong[i]}, one = 1, keys = 4;
        const syn_spec two = {SYN_I32, 1, {2}}, table = {SYN_I32, 2, {1, 2}};
        char text[100];
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        syn_paged_append(ctx, ZEROS(ctx, SYN_F32, 1, 1, 6, 2), ZEROS(ctx, SYN_F32, 1, 1, 2, 2),
                         syn_input(ctx, "slots", &two, slots));
        (void)!syn_ctx_sync(ctx);
        snprintf(text, sizeof text, "slot %d is not in a cache of 6 slots", wrong[i]);
        CHECK_HAS(syn_ctx_error_slot(ctx)->text, text);
        syn_ctx_free(ctx);
        ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        const syn_tensor cache = ZEROS(ctx, SYN_F32, 1, 1, 12, 2);
        const syn_paged_options how = {.block_tokens = 2,
                                       .n = 1,
                                       .queries = &one,
                                       .keys = &keys,
                                       .blocks = syn_input(ctx, "blocks", &table, slots)};
        syn_paged_attention(ctx, ZEROS(ctx, SYN_F32, 1, 1, 1, 2), cache, cache, &how);
        (void)!syn_ctx_sync(ctx);
        snprintf(text, sizeof text, "block %d is not in a cache of 6 blocks", wrong[i]);
        CHECK_HAS(syn_ctx_error_slot(ctx)->text, text);
        syn_ctx_free(ctx);
    }
}

static const test_case cases[] = {
    {"append", test_append},
    {"attention", test_attention},
    {"threads", test_threads},
    {"costs", test_costs},
    {"latent_costs", test_latent_costs},
    {"many sequences", test_many_sequences},
    {"wrong blocks", test_wrong_blocks},
};
TEST_MAIN(cases)
