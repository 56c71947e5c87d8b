/* Divides parameters into buckets by size; see buckets_private.h. Data parallelism and the
   optimizer both use the buckets. */
#include "models/training/buckets_private.h"

#include <string.h>

#include "syntorch/base/memory.h"

enum {
    FIRST_BYTES = 1 << 20,
    BUCKET_BYTES = 25 << 20,
    /* Megatron-LM's bucket sizes and alignment in elements (core/distributed: distributed_data_-
       parallel.py, param_and_grad_buffer.py) */
    MEGATRON_ELEMS = 40000000,
    MEGATRON_ELEMS_PER_RANK = 1000000,
    MEGATRON_PARAM = 64,
    MEGATRON_BUCKET = 128
};

static int64_t param_elems(const syn_ctx *ctx, size_t param) {
    return syn_spec_elems(syn_tensor_spec(ctx, syn_ctx_param(ctx, param).tensor));
}

static int64_t round_up(int64_t n, int64_t to) {
    return (n + to - 1) / to * to;
}

static int64_t common_multiple(int64_t a, int64_t b) {
    int64_t x = a, y = b;
    while (y != 0) {
        const int64_t rest = x % y;
        x = y;
        y = rest;
    }
    return a / x * b;
}

int64_t syn__bucket_offset(const syn__buckets *buckets, const syn_ctx *ctx, size_t param) {
    const syn__bucket *b = &buckets->at[buckets->of_param[param]];
    int64_t first = 0;
    for (int k = 0; syn__bucket_param(buckets, b, k) != param; k++)
        first += param_elems(ctx, syn__bucket_param(buckets, b, k));
    return first;
}

int syn__param_copies(const syn_param_info *param, const syn_group *tp) {
    if (!tp || param->expert) return 1;
    return param->shard.count > 1 ? tp->size / param->shard.count : tp->size;
}

bool syn__param_decays(const syn_ctx *ctx, size_t param, const char *const *no_decay) {
    const syn_param_info p = syn_ctx_param(ctx, param);
    if (!no_decay) return syn_tensor_spec(ctx, p.tensor)->rank > 1;
    for (const char *const *name = no_decay; *name; name++)
        if (strstr(p.name, *name)) return false;
    return true;
}

/* ---- filling buckets ---- */

/* Buckets that are being filled. */
typedef struct filling {
    syn__buckets *buckets;
    const syn_ctx *ctx;
    const syn_data_parallel_options *options; /* NULL: the optimizer's buckets */
    int max_params;
    size_t n_placed;
    int64_t size; /* of the current bucket, in the rule's count of elements */
} filling;

/* Whether buckets are padded as in Megatron-LM. */
static bool follows_megatron(const filling *f) {
    const syn_data_parallel_options *o = f->options;
    return o && (o->zero == 1 || o->zero == 2) && o->buckets == SYN_BUCKETS_MEGATRON;
}

static syn__bucket *current(const filling *f) {
    return &f->buckets->at[f->buckets->n];
}

/* The number of elements at which the current bucket is full. */
static int64_t full_elems(const filling *f) {
    const syn_data_parallel_options *o = f->options;
    if (o && (o->zero == 3 || o->buckets == SYN_BUCKETS_NONE)) return INT64_MAX;
    if (o && o->buckets == SYN_BUCKETS_MEGATRON) {
        const int64_t by_ranks = (int64_t)MEGATRON_ELEMS_PER_RANK * o->dp->size;
        if (!o->first_stage) return INT64_MAX;
        return by_ranks > MEGATRON_ELEMS ? by_ranks : MEGATRON_ELEMS;
    }
    return (f->buckets->n == 0 ? FIRST_BYTES : BUCKET_BYTES) / (int64_t)sizeof(float);
}

/* Moves the parameters with weight decay to the front. */
static void order_by_decay(const filling *f, syn__bucket *b) {
    size_t *order = f->buckets->order + b->first, end = 0;
    for (size_t i = 0; i < (size_t)b->n; i++) {
        const size_t param = order[i];
        if (!syn__param_decays(f->ctx, param, f->options->no_decay)) continue;
        memmove(order + end + 1, order + end, (i - end) * sizeof *order);
        order[end++] = param;
        b->decayed += param_elems(f->ctx, param);
    }
}

static void close_bucket(filling *f) {
    syn__bucket *b = current(f);
    if (b->n == 0) return;
    const syn_group *group = f->options ? syn__bucket_group(f->options, b) : NULL;
    if (group && f->options->zero > 0) {
        const int64_t ranks = group->size;
        const bool megatron = follows_megatron(f);
        b->part =
            round_up(f->size, megatron ? common_multiple(ranks, MEGATRON_BUCKET) : ranks) / ranks;
        order_by_decay(f, b);
    }
    f->buckets->n++;
    f->size = 0;
}

/* The classes of parameters; without ZeRO, all parameters except those of experts are in the
   first. */
enum { SHARDED, COPIED, WHOLE, EXPERTS, PARTIAL, TIED, CLASSES };

/* The optimizer's ops accept fewer tensors than collectives do. */
static int most_params(const filling *f, const syn__bucket *b) {
    const bool sums = f->options && syn__bucket_group(f->options, b);
    return sums ? f->max_params : SYN_MAX_PARAMS;
}

static void place(filling *f, size_t param, int class) {
    syn__bucket *b = current(f);
    const int64_t elems = param_elems(f->ctx, param);
    const bool aligned = follows_megatron(f);
    if (b->n++ == 0) b->first = f->n_placed;
    b->elems += elems;
    b->late = class == PARTIAL || class == TIED;
    b->experts = class == EXPERTS;
    if (f->options && f->options->zero == 3) b->unit = f->options->units[param];
    f->size = (aligned ? round_up(f->size, MEGATRON_PARAM) : f->size) + elems;
    f->buckets->order[f->n_placed++] = param;
    f->buckets->of_param[param] = (uint32_t)f->buckets->n;
    if (b->n == most_params(f, b) || f->size >= full_elems(f)) close_bucket(f);
}

static int class_of(const filling *f, size_t param) {
    const syn_data_parallel_options *o = f->options;
    const syn_param_info p = syn_ctx_param(f->ctx, param);
    const int copies = syn__param_copies(&p, o ? o->tp : NULL);
    if (o && p.expert) return EXPERTS;
    if (!o || o->zero == 0) return 0;
    if (o->tied && strcmp(p.name, o->tied) == 0) return TIED;
    if (o->tp && p.partial) return PARTIAL;
    return copies == 1 ? SHARDED : o->tp && copies < o->tp->size ? COPIED : WHOLE;
}

/* Fills buckets with the parameters begin to end - 1 that belong to the unit; UINT32_MAX: with
   all. */
static void fill(filling *f, size_t begin, size_t end, uint32_t unit) {
    for (int k = 0; k < CLASSES; k++) {
        for (size_t i = end; i-- > begin;)
            if (class_of(f, i) == k && (unit == UINT32_MAX || f->options->units[i] == unit))
                place(f, i, k);
        close_bucket(f);
    }
}

static syn_status make(filling *f, syn_error *err) {
    const size_t n = syn_ctx_param_count(f->ctx);
    syn__buckets *b = f->buckets;
    *b = (syn__buckets){.at = syn_calloc(n + 1, sizeof *b->at),
                        .order = syn_calloc(n + 1, sizeof *b->order),
                        .of_param = syn_calloc(n + 1, sizeof *b->of_param)};
    if (!b->at || !b->order || !b->of_param) {
        syn__buckets_free(b);
        return SYN_FAIL_NOMEM(err, n * sizeof *b->at, "buckets of parameters");
    }
    const int chunks = f->options ? f->options->n_chunks : 0;
    size_t end = n;
    if (f->options && f->options->zero == 3) {
        for (uint32_t unit = f->options->n_units; unit-- > 0;) fill(f, 0, n, unit);
        return SYN_OK;
    }
    for (int c = chunks; c-- > 1; end = f->options->chunks[c - 1])
        fill(f, f->options->chunks[c - 1], end, UINT32_MAX);
    fill(f, 0, end, UINT32_MAX);
    return SYN_OK;
}

syn_status syn__buckets_make(syn__buckets *buckets, const syn_ctx *ctx, syn_error *err) {
    filling f = {.buckets = buckets, .ctx = ctx, .max_params = SYN_MAX_PARAMS};
    return make(&f, err);
}

syn_status syn__buckets_divide(syn__buckets *buckets, const syn_ctx *ctx,
                               const syn_data_parallel_options *options, syn_error *err) {
    const bool sums = options->zero == 0 && options->buckets == SYN_BUCKETS_PYTORCH;
    filling f = {.buckets = buckets,
                 .ctx = ctx,
                 .options = options,
                 .max_params = sums ? SYN_MAX_PARAMS : SYN_MAX_LIST};
    return make(&f, err);
}

void syn__buckets_free(syn__buckets *buckets) {
    syn_free(buckets->at);
    syn_free(buckets->order);
    syn_free(buckets->of_param);
    *buckets = (syn__buckets){0};
}

syn_status syn__find_param(size_t *number, const syn_ctx *ctx, const char *name, syn_error *err) {
    for (*number = 0; *number < syn_ctx_param_count(ctx); ++*number)
        if (strcmp(syn_ctx_param(ctx, *number).name, name) == 0) return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID, "there is no parameter '%s'", name);
}
