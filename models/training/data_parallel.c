/* Data parallelism; see data_parallel.h. Broadcasts the parameters at the start, and sums the
   gradients of each bucket in the callback that reports its last complete gradient: with an
   all-reduce, or with ZeRO with a reduce-scatter. */
#include "models/training/data_parallel_private.h"

#include "syntorch/base/memory.h"
#include "syntorch/gradient.h"

struct syn_data_parallel {
    syn_ctx *ctx;
    syn_data_parallel_options options;
    syn__buckets buckets;
    int *waiting;      /* per bucket: number of parameters without a complete gradient */
    bool *summed;      /* per bucket: its gradients were summed in this step */
    syn_tensor *parts; /* ZeRO: per bucket; see syn__parallel_part */
    /* ZeRO: the last scattered sum, which is not added to the gradient of its part yet, because
       adding waits for the collective; bucket: its number, SIZE_MAX: none */
    struct {
        size_t bucket;
        syn_tensor sum;
    } in_flight;
    bool sync;
};

static bool scatters(const syn_data_parallel *p) {
    return p->options.dp && p->options.zero > 0;
}

const syn__buckets *syn__parallel_buckets(const syn_data_parallel *p) {
    return p && scatters(p) ? &p->buckets : NULL;
}

const syn_group *syn__parallel_group(const syn_data_parallel *p) {
    return p->options.dp;
}

syn_tensor *syn__parallel_part(const syn_data_parallel *p, size_t i) {
    return &p->parts[i];
}

static syn_tensor bucket_param(const syn_data_parallel *p, const syn__bucket *b, int k) {
    return syn_ctx_param(p->ctx, syn__bucket_param(&p->buckets, b, k)).tensor;
}

static void begin_step(syn_data_parallel *p) {
    for (size_t i = 0; i < p->buckets.n; i++) {
        p->waiting[i] = p->buckets.at[i].n;
        p->summed[i] = false;
    }
}

/* ---- sums ---- */

void syn__parallel_store(syn_data_parallel *p) {
    const size_t i = p->in_flight.bucket;
    p->in_flight.bucket = SIZE_MAX;
    if (i == SIZE_MAX || !p->in_flight.sum.id) return;
    syn_wait(p->ctx, p->in_flight.sum); /* frees the gradients */
    const bool was = syn_set_grad(p->ctx, false);
    syn_add_grad(p->ctx, p->parts[i], p->in_flight.sum);
    syn_drop(p->ctx, p->in_flight.sum);
    syn_set_grad(p->ctx, was);
}

static void scatter_bucket(syn_data_parallel *p, size_t i, const syn_tensor *grads) {
    const syn__bucket *b = &p->buckets.at[i];
    syn__parallel_store(p); /* so that the gradients of only one bucket are in flight */
    p->in_flight.sum =
        syn_reduce_scatter_coalesced(p->ctx, grads, b->n, SYN_REDUCE_SUM, b->part, p->options.dp);
    p->in_flight.bucket = i;
    for (int k = 0; k < b->n; k++) syn_drop_grad(p->ctx, bucket_param(p, b, k));
}

static void sum_bucket(syn_data_parallel *p, size_t i) {
    const syn__bucket *b = &p->buckets.at[i];
    syn_tensor grads[SYN_MAX_LIST];
    for (int k = 0; k < b->n; k++) {
        grads[k] = syn_grad(p->ctx, bucket_param(p, b, k));
        if (!grads[k].id) return; /* syn_data_parallel_check reports it */
    }
    p->waiting[i] = b->n; /* for the next microbatch */
    p->summed[i] = true;
    syn_push_scope(p->ctx, "data_parallel");
    if (scatters(p)) scatter_bucket(p, i, grads);
    else syn_all_reduce_coalesced(p->ctx, grads, b->n, SYN_REDUCE_SUM, p->options.dp);
    syn_pop_scope(p->ctx);
}

static void ready(void *user, size_t param) {
    syn_data_parallel *p = user;
    const uint32_t i = p->buckets.of_param[param];
    if (!p->sync || p->buckets.at[i].late || --p->waiting[i] > 0) return;
    sum_bucket(p, i);
}

/* Sums buckets outside of a backward pass: those that have gradients which were not summed. */
static void sum_buckets(syn_data_parallel *p, bool late) {
    if (!p->options.dp) return;
    const bool was = syn_set_grad(p->ctx, false);
    syn_set_phase(p->ctx, SYN_PHASE_BACKWARD);
    for (size_t i = 0; i < p->buckets.n; i++) {
        if (p->buckets.at[i].late != late || (p->summed[i] && !scatters(p))) continue;
        sum_bucket(p, i);
    }
    syn__parallel_store(p);
    syn_set_phase(p->ctx, SYN_PHASE_FORWARD);
    syn_set_grad(p->ctx, was);
}

void syn_data_parallel_sum(syn_data_parallel *p) {
    sum_buckets(p, false);
}

void syn_data_parallel_sum_late(syn_data_parallel *p) {
    if (scatters(p)) sum_buckets(p, true);
}

void syn_data_parallel_sync(syn_data_parallel *p, bool on) {
    p->sync = on;
}

/* ---- creation ---- */

static void broadcast(syn_data_parallel *p) {
    const bool was = syn_set_grad(p->ctx, false);
    syn_push_scope(p->ctx, "data_parallel");
    for (size_t i = 0; i < p->buckets.n; i++) {
        const syn__bucket *b = &p->buckets.at[i];
        syn_tensor params[SYN_MAX_LIST];
        for (int k = 0; k < b->n; k++) params[k] = bucket_param(p, b, k);
        syn_broadcast_coalesced(p->ctx, params, b->n, 0, p->options.dp);
    }
    syn_pop_scope(p->ctx);
    syn_set_grad(p->ctx, was);
}

/* Copies the elements of a parameter that are in this rank's part of its bucket to the part. Like
   the loading of weights, this is not recorded in the trace. */
static syn_status copy_to_part(syn_data_parallel *p, size_t param, syn_error *err) {
    const syn_part_range range = syn__parallel_range(p, param);
    const syn_tensor t = syn_ctx_param(p->ctx, param).tensor;
    const size_t n = (size_t)syn_spec_elems(syn_tensor_spec(p->ctx, t));
    if (range.n == 0 || !syn_ctx_has_data(p->ctx)) return SYN_OK;
    float *wide = syn_malloc(n * sizeof *wide);
    if (!wide) return SYN_FAIL_NOMEM(err, n * sizeof *wide, "a parameter's master weights");
    syn_status s = syn_tensor_read_f32(p->ctx, t, wide, n);
    if (s == SYN_OK)
        s = syn_tensor_write_range(p->ctx, p->parts[p->buckets.of_param[param]], range.at, range.n,
                                   wide + range.first);
    syn_free(wide);
    return s;
}

static syn_status make_parts(syn_data_parallel *p, syn_error *err) {
    if (!scatters(p)) return SYN_OK;
    p->parts = syn_calloc(p->buckets.n + 1, sizeof *p->parts);
    if (!p->parts) return SYN_FAIL_NOMEM(err, p->buckets.n * sizeof *p->parts, "ZeRO");
    for (size_t i = 0; i < p->buckets.n; i++) {
        const syn_spec flat = {SYN_F32, 1, {p->buckets.at[i].part}};
        p->parts[i] = syn_state(p->ctx, "adamw.master", &flat);
        syn_require_grad(p->ctx, p->parts[i]);
    }
    for (size_t i = 0; i < syn_ctx_param_count(p->ctx); i++) SYN_TRY(copy_to_part(p, i, err));
    return SYN_OK;
}

syn_part_range syn__parallel_range(const syn_data_parallel *p, size_t param) {
    const syn__bucket *b = &p->buckets.at[p->buckets.of_param[param]];
    const int64_t n = syn_spec_elems(syn_tensor_spec(p->ctx, syn_ctx_param(p->ctx, param).tensor));
    const int64_t begin = b->part * p->options.dp->index, end = begin + b->part;
    const int64_t at = syn__bucket_offset(&p->buckets, p->ctx, param);
    const int64_t from = at > begin ? at : begin, to = at + n < end ? at + n : end;
    if (from >= to) return (syn_part_range){0};
    return (syn_part_range){.first = from - at, .n = to - from, .at = from - begin};
}

static syn_status check_options(const syn_data_parallel_options *o, syn_error *err) {
    if (o->zero >= 0 && o->zero <= 2) return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID, "ZeRO %d is not supported", o->zero);
}

syn_status syn_data_parallel_new(syn_data_parallel **out, syn_ctx *ctx,
                                 const syn_data_parallel_options *options, syn_error *err) {
    SYN_TRY(check_options(options, err));
    syn_data_parallel *p = syn_calloc(1, sizeof *p);
    if (!p) return SYN_FAIL_NOMEM(err, sizeof *p, "data parallelism");
    p->ctx = ctx;
    p->options = *options;
    p->in_flight.bucket = SIZE_MAX;
    p->sync = true;
    syn_status s = options->dp ? syn__buckets_divide(&p->buckets, ctx, options, err)
                               : syn__buckets_make(&p->buckets, ctx, err);
    if (s == SYN_OK) {
        p->waiting = syn_calloc(p->buckets.n + 1, sizeof *p->waiting);
        p->summed = syn_calloc(p->buckets.n + 1, sizeof *p->summed);
        if (!p->waiting || !p->summed)
            s = SYN_FAIL_NOMEM(err, p->buckets.n * sizeof *p->waiting, "data parallelism");
    }
    if (s == SYN_OK && options->dp) broadcast(p);
    if (s == SYN_OK) s = make_parts(p, err);
    if (s == SYN_OK) {
        syn_require_grads(ctx);
        begin_step(p);
        if (options->dp) syn_ctx_on_grad(ctx, ready, p);
    }
    if (s == SYN_OK || syn_ctx_status(ctx) != SYN_OK) s = syn_ctx_check(ctx, err);
    if (s == SYN_OK) *out = p;
    else syn_data_parallel_free(p);
    return s;
}

void syn_data_parallel_free(syn_data_parallel *p) {
    if (!p) return;
    if (p->options.dp) syn_ctx_on_grad(p->ctx, NULL, NULL);
    syn__buckets_free(&p->buckets);
    syn_free(p->waiting);
    syn_free(p->summed);
    syn_free(p->parts);
    syn_free(p);
}

/* ---- for the optimizer and the trainer ---- */

void syn__parallel_gather(const syn_data_parallel *p, size_t i) {
    const syn__bucket *b = &p->buckets.at[i];
    syn_tensor params[SYN_MAX_LIST], part = p->parts[i];
    for (int k = 0; k < b->n; k++) params[k] = bucket_param(p, b, k);
    const syn_dtype dtype = (syn_dtype)syn_tensor_spec(p->ctx, params[0])->dtype;
    if (dtype != SYN_F32) part = syn_cast(p->ctx, part, dtype);
    syn_push_scope(p->ctx, "data_parallel");
    syn_all_gather_coalesced(p->ctx, params, b->n, part, p->options.dp);
    syn_pop_scope(p->ctx);
}

syn_status syn_data_parallel_check(syn_data_parallel *p, syn_error *err) {
    syn__parallel_store(p);
    SYN_TRY(syn_ctx_check(p->ctx, err));
    for (size_t i = 0; p->options.dp && i < p->buckets.n; i++) {
        const syn__bucket *b = &p->buckets.at[i];
        if (p->summed[i]) continue;
        for (int k = 0; k < b->n; k++) {
            const size_t param = syn__bucket_param(&p->buckets, b, k);
            if (syn_grad(p->ctx, syn_ctx_param(p->ctx, param).tensor).id) continue;
            return SYN_FAIL(err, SYN_E_INVALID,
                            "parameter '%s' got no gradient: all ranks must use all parameters",
                            syn_ctx_param(p->ctx, param).name);
        }
    }
    begin_step(p);
    return SYN_OK;
}
