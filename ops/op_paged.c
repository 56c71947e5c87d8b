/* Paged KV caches, and attention of a batch of sequences to their keys in such caches. Separate
   from op_attention.c, whose sequences all have the same length. */
#include <string.h>

#include "ops/attention.h"
#include "ops/ops.h"
#include "ops/rows.h"
#include "ops/rules.h"

/* ---- paged_append ---- */

SYN__INFER(paged_append) {
    const syn_spec *cache = &c->in[0].spec, *x = &c->in[1].spec, *slots = &c->in[2].spec;
    if (cache->rank != 4 || cache->dims[0] != 1)
        return syn__bad_input(c, 0, "a cache (1, G, N, D)");
    bool ok = x->rank == 4 && x->dtype == cache->dtype;
    for (int d = 0; ok && d < 4; d++) ok = d == 2 || x->dims[d] == cache->dims[d];
    if (!ok) return syn__bad_input(c, 1, "(1, G, T, D) like the cache");
    SYN_TRY(syn__check_dtype(c, 2, SYN_I32));
    if (slots->rank != 1 || slots->dims[0] != x->dims[2])
        return syn__bad_input(c, 2, "a slot per token (T)");
    c->out[0].spec = *cache;
    return SYN_OK;
}

SYN__COST(paged_append) {
    const uint64_t bytes = syn_spec_bytes(&c->in[1].spec);
    *cost = (syn_cost){0, bytes + syn_spec_bytes(&c->in[2].spec), bytes};
}

/* Copies rows begin .. end - 1 of x, (G, T). */
static void append_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const syn_call *c = arg;
    const syn_operand *cache = &c->out[0], *x = &c->in[1], *slots = &c->in[2];
    const int64_t tokens = x->spec.dims[2],
                  elem = (int64_t)syn_dtype_bytes((syn_dtype)x->spec.dtype);
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const int64_t head = i / tokens, token = i % tokens;
        const int64_t slot = ((const int32_t *)slots->data)[token * slots->strides[0]];
        const int64_t from = head * x->strides[1] + token * x->strides[2],
                      to = head * cache->strides[1] + slot * cache->strides[2];
        memcpy((char *)cache->data + to * elem, (const char *)x->data + from * elem,
               (size_t)(x->spec.dims[3] * elem));
    }
}

SYN__CPU(paged_append) {
    const syn_spec *x = &c->in[1].spec;
    const syn_operand *slots = &c->in[2];
    const int64_t depth = x->dims[3], n = c->out[0].spec.dims[2];
    for (int64_t t = 0; t < x->dims[2]; t++) {
        const int64_t slot = ((const int32_t *)slots->data)[t * slots->strides[0]];
        if (slot < 0 || slot >= n)
            return SYN_FAIL(c->err, SYN_E_INVALID, "slot %lld is not in a cache of %lld slots",
                            (long long)slot, (long long)n);
    }
    if (depth > 0)
        syn_workers_ranges(c->workers, x->dims[1] * x->dims[2], SYN__GRAIN_MOVE / depth + 1,
                           append_rows, c);
    return SYN_OK;
}

syn_tensor syn_paged_append(syn_ctx *ctx, syn_tensor cache, syn_tensor x, syn_tensor slots) {
    syn_tensor out;
    const syn_tensor in[3] = {cache, syn__dense_last_dim(ctx, x), slots};
    syn__call_op(ctx, SYN_OP_PAGED_APPEND, in, 3, NULL, 0, NULL, &out);
    return out;
}

/* ---- paged_attention ---- */

enum { Q, K, V, TABLE, SINKS };            /* inputs */
enum { SCALE, CAP, BLOCK, WINDOW, LISTS }; /* attributes */

/* The lengths of a call's sequences. */
typedef struct lengths {
    int64_t n, window;
    const syn_attr *queries, *keys;
} lengths;

static lengths lengths_of(const syn_call *c) {
    const syn_attr *list = c->attr + LISTS;
    return (lengths){list->i, c->attr[WINDOW].i, list + 1, list + list->i + 2};
}

/* The number of keys that at least one query of sequence i attends to, which are its last ones. */
static int64_t keys_seen(const lengths *of, int64_t i) {
    const int64_t keys = of->keys[i].i, reach = of->window + of->queries[i].i - 1;
    return of->window > 0 && reach < keys ? reach : keys;
}

static syn_status check_lengths(const syn_call *c) {
    const int64_t n = c->attr[LISTS].i, block = c->attr[BLOCK].i, slots = c->in[K].spec.dims[2];
    const lengths of = lengths_of(c);
    int64_t tokens = 0;
    if (block < 1 || slots % block != 0)
        return SYN_FAIL(c->err, SYN_E_SHAPE, "blocks of %lld slots do not divide a cache of %lld",
                        (long long)block, (long long)slots);
    if (of.window < 0)
        return SYN_FAIL(c->err, SYN_E_INVALID, "the window %lld is negative", (long long)of.window);
    const syn_spec *table = &c->in[TABLE].spec;
    SYN_TRY(syn__check_dtype(c, TABLE, SYN_I32));
    if (table->rank != 2 || table->dims[0] != n)
        return syn__bad_input(c, TABLE, "the blocks of each sequence (n, max_blocks)");
    for (int64_t i = 0; i < n; i++) {
        const int64_t queries = of.queries[i].i, keys = of.keys[i].i;
        if (queries < 1 || keys < queries || (keys - 1) / block >= table->dims[1])
            return SYN_FAIL(
                c->err, SYN_E_SHAPE,
                "sequence %lld has %lld new tokens of %lld tokens, but %lld blocks of %lld",
                (long long)i, (long long)queries, (long long)keys, (long long)table->dims[1],
                (long long)block);
        tokens += queries;
    }
    return tokens == c->in[Q].spec.dims[2]
               ? SYN_OK
               : SYN_FAIL(c->err, SYN_E_SHAPE, "the sequences have %lld new tokens instead of %lld",
                          (long long)tokens, (long long)c->in[Q].spec.dims[2]);
}

SYN__INFER(paged_attention) {
    SYN_TRY(syn__check_floats(c, 3));
    for (int i = 0; i < 3; i++)
        if (c->in[i].spec.rank != 4 || c->in[i].spec.dims[0] != 1)
            return syn__bad_input(c, i, i == 0 ? "queries (1, H, T, D)" : "a cache (1, G, N, D)");
    const int64_t *q = c->in[Q].spec.dims, *k = c->in[K].spec.dims, *v = c->in[V].spec.dims;
    if (k[1] < 1 || q[1] % k[1] != 0 || k[3] != q[3])
        return syn__bad_input(c, K, "a cache (1, G, N, D) like the queries");
    if (v[1] != k[1] || v[2] != k[2])
        return syn__bad_input(c, V, "a cache (1, G, N, Dv) like that of the keys");
    SYN_TRY(check_lengths(c));
    if (c->n_in > SINKS) {
        const syn_spec *sinks = &c->in[SINKS].spec;
        if (sinks->rank != 1 || sinks->dtype != c->in[Q].spec.dtype || sinks->dims[0] != q[1])
            return syn__bad_input(c, SINKS, "one sink per query head (H), of the same dtype");
    }
    c->out[0].spec = (syn_spec){c->in[Q].spec.dtype, 4, {1, q[2], q[1], v[3]}};
    return SYN_OK;
}

/* As in attention, each sequence counts the rectangle of its queries and the keys that at least one
   of them attends to. Only these keys and values are read, and once if the values are a part of the
   keys, as in latent attention. */
SYN__COST(paged_attention) {
    const lengths of = lengths_of(c);
    const int64_t *k = c->in[K].spec.dims;
    const bool part = c->in[V].strides[2] > c->in[V].spec.dims[3];
    const uint64_t both = (uint64_t)(k[3] + c->in[V].spec.dims[3]),
                   each = (part ? (uint64_t)k[3] : both) *
                          syn_dtype_bytes((syn_dtype)c->in[K].spec.dtype);
    const uint64_t per_score = 2 * both + (c->attr[CAP].f > 0 ? 7 : 5);
    uint64_t pairs = 0, seen = 0;
    for (int64_t i = 0; i < of.n; i++) {
        pairs += (uint64_t)(of.queries[i].i * keys_seen(&of, i));
        seen += (uint64_t)keys_seen(&of, i);
    }
    uint64_t read = syn_spec_bytes(&c->in[Q].spec) + (uint64_t)k[1] * seen * each;
    for (int i = TABLE; i < c->n_in; i++) read += syn_spec_bytes(&c->in[i].spec);
    *cost =
        (syn_cost){(uint64_t)c->in[Q].spec.dims[1] * pairs * per_score, read, syn__output_bytes(c)};
}

/* A sequence of the batch. Its keys are numbered from the first one that a query attends to. */
struct sequence {
    int64_t task, token; /* numbers of its first task and of its first packed token */
    int64_t queries, keys;
    int64_t first;        /* the cache's slot of key 0 */
    const int32_t *slots; /* the slots of all keys; NULL: they are consecutive */
};

struct batch {
    const syn_call *c;
    const syn_attention_kernels *kernels;
    struct sequence *sequences;
    int64_t n, tasks;
    int64_t longest, listed; /* the most keys of a sequence; keys whose slots are listed */
    uint64_t pairs;          /* of a query and a key */
    /* Memory of all workers, scratch_floats each: kernel_floats for the kernel, then a tile of
       queries and one of results as f32. */
    float *scratch;
    int64_t kernel_floats, scratch_floats;
};

static int64_t elem_bytes(const syn_operand *o) {
    return (int64_t)syn_dtype_bytes((syn_dtype)o->spec.dtype);
}

static int64_t block_at(const syn_call *c, int64_t sequence, int64_t number) {
    const syn_operand *table = &c->in[TABLE];
    return ((const int32_t *)table->data)[sequence * table->strides[0] + number];
}

static int64_t slot_of(const syn_call *c, int64_t sequence, int64_t key) {
    const int64_t block = c->attr[BLOCK].i;
    return block_at(c, sequence, key / block) * block + key % block;
}

/* Fills in sequence i, except for its slots and its numbers of tasks and tokens. Sets *consecutive
   to whether its slots are. */
static syn_status describe(const struct batch *t, int64_t i, struct sequence *s,
                           bool *consecutive) {
    const syn_call *c = t->c;
    const lengths of = lengths_of(c);
    const int64_t block = c->attr[BLOCK].i, blocks = c->in[K].spec.dims[2] / block;
    *s = (struct sequence){.queries = of.queries[i].i, .keys = keys_seen(&of, i)};
    const int64_t first = of.keys[i].i - s->keys;
    *consecutive = true;
    for (int64_t b = first / block; b <= (of.keys[i].i - 1) / block; b++) {
        const int64_t at = block_at(c, i, b);
        if (at < 0 || at >= blocks)
            return SYN_FAIL(c->err, SYN_E_INVALID, "block %lld is not in a cache of %lld blocks",
                            (long long)at, (long long)blocks);
        if (b > first / block && at != block_at(c, i, b - 1) + 1) *consecutive = false;
    }
    s->first = slot_of(c, i, first);
    return SYN_OK;
}

static int64_t tiles_of(const struct batch *t, const struct sequence *s) {
    return (s->queries + t->kernels->tile - 1) / t->kernels->tile;
}

/* Counts tasks and keys. */
static syn_status measure(struct batch *t) {
    for (int64_t i = 0; i < t->n; i++) {
        struct sequence s;
        bool consecutive;
        SYN_TRY(describe(t, i, &s, &consecutive));
        t->tasks += t->c->in[Q].spec.dims[1] * tiles_of(t, &s);
        t->pairs += (uint64_t)(s.queries * s.keys);
        if (s.keys > t->longest) t->longest = s.keys;
        if (!consecutive) t->listed += s.keys;
    }
    return SYN_OK;
}

/* Fills in all sequences. slots: memory for the listed slots. */
static syn_status list_sequences(struct batch *t, int32_t *slots) {
    const lengths of = lengths_of(t->c);
    int64_t task = 0, token = 0;
    for (int64_t i = 0; i < t->n; i++) {
        struct sequence *s = &t->sequences[i];
        bool consecutive;
        SYN_TRY(describe(t, i, s, &consecutive));
        s->task = task;
        s->token = token;
        task += t->c->in[Q].spec.dims[1] * tiles_of(t, s);
        token += s->queries;
        if (consecutive) continue;
        for (int64_t key = 0; key < s->keys; key++)
            slots[key] = (int32_t)slot_of(t->c, i, of.keys[i].i - s->keys + key);
        s->slots = slots;
        s->first = 0;
        slots += s->keys;
    }
    return SYN_OK;
}

/* Key or value 0 of a head. */
static const char *row_at(const syn_operand *cache, const struct sequence *s, int64_t head) {
    return (const char *)cache->data +
           (head * cache->strides[1] + s->first * cache->strides[2]) * elem_bytes(cache);
}

/* The sequence to which a task belongs. */
static const struct sequence *sequence_of(const struct batch *t, int64_t task) {
    int64_t low = 0, high = t->n;
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        if (t->sequences[middle].task <= task) low = middle;
        else high = middle;
    }
    return &t->sequences[low];
}

/* Computes one tile of queries of a head of a sequence. The last tiles attend to the most keys, so
   they run first. */
static void attend_task(void *arg, int64_t i, int worker) {
    const struct batch *t = arg;
    const syn_call *c = t->c;
    const struct sequence *s = sequence_of(t, i);
    const syn_operand *q = &c->in[Q], *k = &c->in[K], *v = &c->in[V], *out = &c->out[0];
    const int64_t tiles = tiles_of(t, s), head = (i - s->task) / tiles, tile = t->kernels->tile,
                  first = (tiles - 1 - (i - s->task) % tiles) * tile, left = s->queries - first,
                  depth = q->spec.dims[3], values = out->spec.dims[3],
                  shared = head / (q->spec.dims[1] / k->spec.dims[1]),
                  row = q->spec.dims[1] * values, to = (s->token + first) * row + head * values,
                  from = head * q->strides[1] + (s->token + first) * q->strides[2];
    float *scratch = t->scratch + worker * t->scratch_floats, *rows = scratch + t->kernel_floats,
          *buffer = rows + tile * depth;
    syn_attention_tile a = {.q = syn__is_f32(q) ? (const float *)q->data + from : rows,
                            .k = row_at(k, s, shared),
                            .v = row_at(v, s, shared),
                            .slots = s->slots,
                            .dtype = (syn_dtype)k->spec.dtype,
                            .out = syn__row_dest(out, to, buffer),
                            .q_stride = syn__is_f32(q) ? q->strides[2] : depth,
                            .k_stride = k->strides[2],
                            .v_stride = v->strides[2],
                            .out_stride = syn__is_f32(out) ? row : values,
                            .queries = left < tile ? left : tile,
                            .keys = s->keys,
                            .depth = depth,
                            .value_depth = values,
                            .visible = s->keys - s->queries + first + 1,
                            .step = 1,
                            .window = c->attr[WINDOW].i,
                            .scale = (float)c->attr[SCALE].f,
                            .cap = (float)c->attr[CAP].f,
                            .scratch = scratch};
    for (int64_t r = 0; r < a.queries && !syn__is_f32(q); r++)
        (void)syn__load_row(q, from + r * q->strides[2], depth, rows + r * depth);
    if (c->n_in > SINKS) {
        a.has_sink = true;
        a.sink = *syn__load_row(&c->in[SINKS], head * c->in[SINKS].strides[0], 1, &a.sink);
    }
    t->kernels->attend(&a);
    for (int64_t r = 0; r < a.queries; r++)
        syn__store_row(out, to + r * row, values, buffer + r * values);
}

/* Other threads pay off from this number of multiplications on. */
enum { LEAST_WORK = 131072 };

SYN__CPU(paged_attention) {
    const syn_operand *q = &c->in[Q];
    const int64_t depth = q->spec.dims[3], values = c->in[V].spec.dims[3];
    struct batch t = {
        .c = c, .kernels = syn__attention_kernels_at(syn_simd_level()), .n = lengths_of(c).n};
    if (syn__elems(&c->out[0]) == 0) return SYN_OK;
    SYN_TRY(measure(&t));
    t.kernel_floats =
        syn__padded_floats((int64_t)t.kernels->scratch_floats(depth, values, t.longest));
    t.scratch_floats = t.kernel_floats +
                       syn__padded_floats(syn__is_f32(q) ? 0 : t.kernels->tile * (depth + values));
    const bool many = (uint64_t)(q->spec.dims[1] * depth) * t.pairs > LEAST_WORK;
    syn_workers *workers = many ? c->workers : NULL;
    const size_t floats = (size_t)(syn_workers_count(workers) * t.scratch_floats) * sizeof(float),
                 list = (size_t)t.n * sizeof *t.sequences,
                 slots = (size_t)t.listed * sizeof(int32_t);
    void *memory;
    SYN_TRY(syn__scratch(c, floats + list + slots, "paged attention", &memory));
    t.scratch = memory;
    t.sequences = (struct sequence *)((char *)memory + floats);
    SYN_TRY(list_sequences(&t, (int32_t *)(t.sequences + t.n)));
    syn_workers_run(workers, t.tasks, attend_task, &t);
    return SYN_OK;
}

syn_tensor syn_paged_attention(syn_ctx *ctx, syn_tensor q, syn_tensor k, syn_tensor v,
                               const syn_paged_options *how) {
    syn_tensor out = {0}, in[5] = {syn__dense_last_dim(ctx, q), k, v, how->blocks, how->sinks};
    const size_t n_attr = LISTS + 2 * (size_t)how->n + 2, bytes = n_attr * sizeof(syn_attr);
    if (syn_ctx_status(ctx) != SYN_OK) return out;
    syn_attr *attr = syn_malloc(bytes), *keys;
    if (!attr)
        return syn_ctx_fail(ctx, SYN_E_NOMEM, "out of memory: the lengths of a batch's sequences");
    attr[SCALE].f = how->scale;
    attr[CAP].f = how->cap;
    attr[BLOCK].i = how->block_tokens;
    attr[WINDOW].i = how->window;
    attr[LISTS].i = how->n;
    keys = attr + LISTS + how->n + 1;
    keys->i = how->n;
    for (int64_t i = 0; i < how->n; i++) {
        attr[LISTS + 1 + i].i = how->queries[i];
        keys[1 + i].i = how->keys[i];
    }
    syn__call_op(ctx, SYN_OP_PAGED_ATTENTION, in, how->sinks.id ? 5 : 4, attr, (int)n_attr, NULL,
                 &out);
    syn_free(attr);
    return out;
}
