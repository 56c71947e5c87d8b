/* Data parallelism; see data_parallel.h. Broadcasts the parameters at the start, and sums the
   gradients of each bucket in the callback that reports its last complete gradient: with an
   all-reduce, or with ZeRO with a reduce-scatter. */
#include "models/training/data_parallel_private.h"

#include "syntorch/base/half.h"
#include "syntorch/base/memory.h"
#include "syntorch/gradient.h"

struct syn_data_parallel {
    syn_ctx *ctx;
    syn_data_parallel_options options;
    syn__buckets buckets;
    int *waiting;       /* per bucket: number of parameters without a complete gradient */
    bool *summed;       /* per bucket: its gradients were summed in this step */
    syn_tensor *parts;  /* ZeRO: per bucket; see syn__parallel_part */
    syn_tensor *narrow; /* ZeRO 3 with 16-bit parameters: per bucket, the rounded part */
    bool *gathered;     /* ZeRO 3: per bucket */
    bool *finished;     /* ZeRO 3: per bucket: its gradients are complete in this backward pass */
    uint32_t unit;      /* ZeRO 3: the unit that was used last; UINT32_MAX: none */
    bool forward;       /* ZeRO 3: it was used in a forward pass */
    bool gathering;     /* an all-gather is being built, which also uses the parameters */
    /* The last sums that are not stored as gradients yet, because storing waits for the collective:
       with ZeRO the scattered sum of a bucket, otherwise with 16 bits the sums of its gradients.
       n: their number */
    struct {
        size_t bucket;
        int n;
        syn_tensor sums[SYN_MAX_LIST];
    } in_flight;
    bool sync;
};

/* Whether gradients are summed over other ranks. */
static bool communicates(const syn_data_parallel *p) {
    return p->options.dp || p->options.edp;
}

static bool scatters(const syn_data_parallel *p) {
    return p->options.dp && p->options.zero > 0;
}

static const syn_group *group_of(const syn_data_parallel *p, size_t bucket) {
    return syn__bucket_group(&p->options, &p->buckets.at[bucket]);
}

const syn__buckets *syn__parallel_buckets(const syn_data_parallel *p) {
    return p && scatters(p) ? &p->buckets : NULL;
}

bool syn__parallel_divides(const syn_data_parallel *p, size_t i) {
    return scatters(p) && p->buckets.at[i].part > 0;
}

const syn_group *syn__parallel_group(const syn_data_parallel *p, size_t i) {
    return group_of(p, i);
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

/* ---- dtype of sums ---- */

void syn__parallel_take_grads(const syn_data_parallel *p, const syn_tensor *params, int n,
                              syn_tensor *grads) {
    for (int k = 0; k < n; k++) {
        grads[k] = syn_grad(p->ctx, params[k]);
        if (p->options.reduce_dtype == SYN_F32) continue;
        grads[k] = syn_cast(p->ctx, grads[k], p->options.reduce_dtype);
        syn_drop_grad(p->ctx, params[k]);
    }
}

void syn__parallel_put_grads(const syn_data_parallel *p, const syn_tensor *params, int n,
                             const syn_tensor *sums) {
    for (int k = 0; k < n && p->options.reduce_dtype != SYN_F32; k++) {
        syn_add_grad(p->ctx, params[k], sums[k]);
        syn_drop(p->ctx, sums[k]);
    }
}

/* Hybrid sharding: sums a part over the groups that have copies of it. */
static void sum_replicas(syn_data_parallel *p, syn_tensor *part) {
    syn_push_scope(p->ctx, "data_parallel");
    syn_all_reduce_coalesced(p->ctx, part, 1, SYN_REDUCE_SUM, p->options.replicas);
    syn_pop_scope(p->ctx);
}

int syn__parallel_replicas(const syn_data_parallel *p) {
    return p->options.replicas ? p->options.replicas->size : 1;
}

/* Stores the last sums as gradients. */
static void store_sums(syn_data_parallel *p) {
    const syn__bucket *b = &p->buckets.at[p->in_flight.bucket];
    const int n = p->in_flight.n;
    syn_tensor *sums = p->in_flight.sums;
    syn_tensor params[SYN_MAX_LIST];
    p->in_flight.n = 0;
    if (n == 0 || !sums[0].id) return;
    const bool was = syn_set_grad(p->ctx, false);
    syn_wait(p->ctx, sums[0]); /* frees what was sent */
    if (scatters(p)) {
        if (p->options.replicas) sum_replicas(p, sums);
        syn_add_grad(p->ctx, p->parts[p->in_flight.bucket], sums[0]);
        syn_drop(p->ctx, sums[0]);
    } else {
        for (int k = 0; k < n; k++) params[k] = bucket_param(p, b, k);
        syn_push_scope(p->ctx, "data_parallel");
        syn__parallel_put_grads(p, params, n, sums);
        syn_pop_scope(p->ctx);
    }
    syn_set_grad(p->ctx, was);
}

void syn__parallel_store(syn_data_parallel *p) {
    syn_set_phase(p->ctx, SYN_PHASE_BACKWARD);
    store_sums(p);
    syn_set_phase(p->ctx, SYN_PHASE_FORWARD);
}

/* ---- ZeRO 3: parameters that are whole only while they are used ---- */

static bool evicts(const syn_data_parallel *p) {
    return scatters(p) && p->options.zero == 3;
}

bool syn__parallel_evicts(const syn_data_parallel *p) {
    return evicts(p);
}

static void gather_bucket(syn_data_parallel *p, size_t i) {
    const syn__bucket *b = &p->buckets.at[i];
    syn_tensor params[SYN_MAX_LIST];
    if (p->gathered[i]) return;
    for (int k = 0; k < b->n; k++) {
        syn_param_restore(p->ctx, syn__bucket_param(&p->buckets, b, k));
        params[k] = bucket_param(p, b, k);
    }
    p->gathered[i] = true;
    p->gathering = true;
    const bool was = syn_set_grad(p->ctx, false);
    syn_push_scope(p->ctx, "data_parallel");
    syn_all_gather_coalesced(p->ctx, params, b->n, p->narrow[i].id ? p->narrow[i] : p->parts[i],
                             p->options.gather ? p->options.gather : p->options.dp);
    syn_pop_scope(p->ctx);
    syn_set_grad(p->ctx, was);
    p->gathering = false;
}

static void gather_unfinished(syn_data_parallel *p, size_t i) {
    if (!p->finished[i]) gather_bucket(p, i);
}

static void evict_bucket(syn_data_parallel *p, size_t i) {
    const syn__bucket *b = &p->buckets.at[i];
    if (!p->gathered[i]) return;
    for (int k = 0; k < b->n; k++) syn_param_evict(p->ctx, syn__bucket_param(&p->buckets, b, k));
    p->gathered[i] = false;
}

static void each_of_unit(syn_data_parallel *p, uint32_t unit,
                         void (*f)(syn_data_parallel *p, size_t i)) {
    for (size_t i = 0; i < p->buckets.n; i++)
        if (p->buckets.at[i].unit == unit) f(p, i);
}

/* The unit that the backward pass uses after the head. */
static uint32_t last_layer(const syn_data_parallel *p) {
    const uint32_t last = p->options.n_units - 1;
    return last == p->options.head && last > 0 ? last - 1 : last;
}

static void begin_microbatch(syn_data_parallel *p) {
    for (size_t i = 0; i < p->buckets.n; i++) p->finished[i] = false;
}

/* Called before an op uses a parameter. Gathers its unit and the next one. In the forward pass,
   also frees the unit before it. A unit with embedding and head is used twice in a forward pass;
   the second time, no unit follows. */
static void used(void *user, size_t param, syn_phase phase) {
    syn_data_parallel *p = user;
    const syn_data_parallel_options *o = &p->options;
    const uint32_t unit = o->units[param];
    const bool forward = phase == SYN_PHASE_FORWARD, begins = forward && !p->forward;
    const bool same = unit == p->unit && forward == p->forward;
    if (p->gathering || (same && p->gathered[p->buckets.of_param[param]])) return;
    const uint32_t last = begins ? UINT32_MAX : p->unit;
    const bool turns = !forward && p->forward; /* the backward pass begins */
    p->unit = unit;
    p->forward = forward;
    if (begins && !o->gather_once) begin_microbatch(p);
    each_of_unit(p, unit, gather_bucket);
    if (forward && last != UINT32_MAX && last != unit && last != o->head && !o->no_reshard &&
        !o->gather_once)
        each_of_unit(p, last, evict_bucket);
    if (forward && unit + 1 < o->n_units && (last == UINT32_MAX || last < unit))
        each_of_unit(p, unit + 1, gather_bucket);
    if (!forward && unit > 0 && unit != o->head) each_of_unit(p, unit - 1, gather_unfinished);
    if (turns && unit == o->head) each_of_unit(p, last_layer(p), gather_unfinished);
}

void syn__parallel_evict_all(syn_data_parallel *p) {
    for (size_t i = 0; evicts(p) && i < p->buckets.n; i++) evict_bucket(p, i);
    if (evicts(p)) begin_microbatch(p);
    p->unit = UINT32_MAX;
    p->forward = false;
}

/* ---- sums ---- */

static void scatter_bucket(syn_data_parallel *p, size_t i, const syn_tensor *params,
                           const syn_tensor *grads) {
    const syn__bucket *b = &p->buckets.at[i];
    p->in_flight.sums[0] =
        syn_reduce_scatter_coalesced(p->ctx, grads, b->n, SYN_REDUCE_SUM, b->part, group_of(p, i));
    p->in_flight.n = 1;
    for (int k = 0; k < b->n; k++) {
        if (p->options.reduce_dtype == SYN_F32) syn_drop_grad(p->ctx, params[k]);
        else syn_drop(p->ctx, grads[k]);
    }
}

static void reduce_bucket(syn_data_parallel *p, size_t i, syn_tensor *grads) {
    const int n = p->buckets.at[i].n;
    syn_all_reduce_coalesced(p->ctx, grads, n, SYN_REDUCE_SUM, group_of(p, i));
    if (p->options.reduce_dtype == SYN_F32) return; /* the gradients themselves were summed */
    for (int k = 0; k < n; k++) p->in_flight.sums[k] = grads[k];
    p->in_flight.n = n;
}

static void sum_bucket(syn_data_parallel *p, size_t i) {
    const syn__bucket *b = &p->buckets.at[i];
    syn_tensor params[SYN_MAX_LIST], grads[SYN_MAX_LIST];
    for (int k = 0; k < b->n; k++) {
        params[k] = bucket_param(p, b, k);
        if (!syn_grad(p->ctx, params[k]).id) return; /* syn_data_parallel_check reports it */
    }
    p->waiting[i] = b->n; /* for the next microbatch */
    p->summed[i] = true;
    if (!group_of(p, i)) return;
    store_sums(p); /* so that only one bucket is in flight */
    p->in_flight.bucket = i;
    syn_push_scope(p->ctx, "data_parallel");
    syn__parallel_take_grads(p, params, b->n, grads);
    if (scatters(p)) scatter_bucket(p, i, params, grads);
    else reduce_bucket(p, i, grads);
    syn_pop_scope(p->ctx);
}

static void ready(void *user, size_t param) {
    syn_data_parallel *p = user;
    const uint32_t i = p->buckets.of_param[param];
    if (!p->sync || --p->waiting[i] > 0) return;
    if (p->buckets.at[i].late) p->waiting[i] = p->buckets.at[i].n;
    else sum_bucket(p, i);
    if (!evicts(p)) return;
    evict_bucket(p, i);
    p->finished[i] = true;
}

/* Sums buckets outside of a backward pass: those that have gradients which were not summed. */
static void sum_buckets(syn_data_parallel *p, bool late) {
    if (!communicates(p)) return;
    const bool was = syn_set_grad(p->ctx, false);
    syn_set_phase(p->ctx, SYN_PHASE_BACKWARD);
    for (size_t i = 0; i < p->buckets.n; i++) {
        if (p->buckets.at[i].late != late || (p->summed[i] && !scatters(p))) continue;
        sum_bucket(p, i);
    }
    store_sums(p);
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
        if (!group_of(p, i)) continue;
        for (int k = 0; k < b->n; k++) params[k] = bucket_param(p, b, k);
        syn_broadcast_coalesced(p->ctx, params, b->n, 0, group_of(p, i));
    }
    syn_pop_scope(p->ctx);
    syn_set_grad(p->ctx, was);
}

/* Copies the elements of a parameter that are in this rank's part of its bucket to the part. Like
   the loading of weights, this is not recorded in the trace. */
static syn_status copy_to_part(syn_data_parallel *p, size_t param, syn_error *err) {
    const syn_part_range range = syn__parallel_range(p, param);
    const syn_tensor t = syn_ctx_param(p->ctx, param).tensor;
    const syn_dtype dtype = (syn_dtype)syn_tensor_spec(p->ctx, t)->dtype;
    const size_t n = (size_t)syn_spec_elems(syn_tensor_spec(p->ctx, t));
    if (range.n == 0 || !syn_ctx_has_data(p->ctx)) return SYN_OK;
    float *wide = syn_malloc(n * (sizeof *wide + sizeof(uint16_t)));
    if (!wide) return SYN_FAIL_NOMEM(err, n * sizeof *wide, "a parameter's master weights");
    void *values = dtype == SYN_F32 ? (void *)wide : (void *)(wide + n);
    syn_status s = evicts(p) ? syn_param_values(p->ctx, param, values, err)
                             : syn_tensor_read_f32(p->ctx, t, wide, n);
    if (evicts(p) && dtype != SYN_F32 && s == SYN_OK) syn_half_widen(values, wide, n, dtype);
    if (s == SYN_OK) s = syn__parallel_write(p, param, wide + range.first);
    syn_free(wide);
    return s;
}

syn_status syn__parallel_write(const syn_data_parallel *p, size_t param, const float *data) {
    const size_t i = p->buckets.of_param[param];
    const syn_part_range range = syn__parallel_range(p, param);
    SYN_TRY(syn_tensor_write_range(p->ctx, p->parts[i], range.at, range.n, data));
    if (!evicts(p) || !p->narrow[i].id || !data) return SYN_OK;
    const syn_dtype dtype = (syn_dtype)syn_tensor_spec(p->ctx, p->narrow[i])->dtype;
    uint16_t *half = syn_malloc((size_t)range.n * sizeof *half + 1);
    if (!half) {
        syn_ctx_fail(p->ctx, SYN_E_NOMEM, "out of memory: a parameter");
        return SYN_E_NOMEM;
    }
    syn_half_narrow(data, half, (size_t)range.n, dtype);
    const syn_status s = syn_tensor_write_range(p->ctx, p->narrow[i], range.at, range.n, half);
    syn_free(half);
    return s;
}

syn_tensor *syn__parallel_narrow(const syn_data_parallel *p, size_t i) {
    return p->narrow && p->narrow[i].id ? &p->narrow[i] : NULL;
}

static syn_status make_parts(syn_data_parallel *p, syn_error *err) {
    if (!scatters(p)) return SYN_OK;
    p->parts = syn_calloc(p->buckets.n + 1, sizeof *p->parts);
    p->narrow = syn_calloc(p->buckets.n + 1, sizeof *p->narrow);
    p->gathered = syn_calloc(p->buckets.n + 1, sizeof *p->gathered);
    p->finished = syn_calloc(p->buckets.n + 1, sizeof *p->finished);
    if (!p->parts || !p->narrow || !p->gathered || !p->finished)
        return SYN_FAIL_NOMEM(err, p->buckets.n * sizeof *p->parts, "ZeRO");
    for (size_t i = 0; i < p->buckets.n; i++) {
        const syn__bucket *b = &p->buckets.at[i];
        syn_spec flat = {SYN_F32, 1, {b->part}};
        if (!syn__parallel_divides(p, i)) continue;
        p->parts[i] = syn_state(p->ctx, "adamw.master", &flat);
        syn_require_grad(p->ctx, p->parts[i]);
        flat.dtype = syn_tensor_spec(p->ctx, bucket_param(p, b, 0))->dtype;
        if (!evicts(p)) continue;
        if (flat.dtype != SYN_F32) p->narrow[i] = syn_state(p->ctx, "parameters", &flat);
        syn_ctx_set_memory_kind(p->ctx, flat.dtype != SYN_F32 ? p->narrow[i] : p->parts[i],
                                SYN_MEMORY_WEIGHTS);
    }
    for (size_t i = 0; i < syn_ctx_param_count(p->ctx); i++) SYN_TRY(copy_to_part(p, i, err));
    return SYN_OK;
}

syn_part_range syn__parallel_range(const syn_data_parallel *p, size_t param) {
    const syn__bucket *b = &p->buckets.at[p->buckets.of_param[param]];
    const int64_t n = syn_spec_elems(syn_tensor_spec(p->ctx, syn_ctx_param(p->ctx, param).tensor));
    const syn_group *group = syn__bucket_group(&p->options, b);
    if (!syn__parallel_divides(p, p->buckets.of_param[param])) return (syn_part_range){0};
    const int64_t begin = b->part * group->index, end = begin + b->part;
    const int64_t at = syn__bucket_offset(&p->buckets, p->ctx, param);
    const int64_t from = at > begin ? at : begin, to = at + n < end ? at + n : end;
    if (from >= to) return (syn_part_range){0};
    return (syn_part_range){.first = from - at, .n = to - from, .at = from - begin};
}

static syn_status check_options(const syn_data_parallel_options *o, syn_error *err) {
    if (o->zero < 0 || o->zero > 3)
        return SYN_FAIL(err, SYN_E_INVALID, "ZeRO has no stage %d", o->zero);
    if (o->reduce_dtype != SYN_F32 && o->reduce_dtype != SYN_BF16)
        return SYN_FAIL(err, SYN_E_INVALID, "gradients are summed in f32 or bf16, not %s",
                        syn_dtype_name(o->reduce_dtype));
    if (o->zero < 3 || (o->units && o->dp)) return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID, "ZeRO 3 needs units and data-parallel ranks");
}

/* ZeRO divides the experts among the ranks that have the same ones. */
static syn_status check_experts(const syn_data_parallel *p, syn_error *err) {
    for (size_t i = 0; scatters(p) && i < p->buckets.n; i++) {
        if (p->buckets.at[i].experts && p->options.zero == 3)
            return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                            "ZeRO 3 cannot divide experts that are shared by expert parallelism");
    }
    return SYN_OK;
}

syn_status syn_data_parallel_new(syn_data_parallel **out, syn_ctx *ctx,
                                 const syn_data_parallel_options *options, syn_error *err) {
    SYN_TRY(check_options(options, err));
    syn_data_parallel *p = syn_calloc(1, sizeof *p);
    if (!p) return SYN_FAIL_NOMEM(err, sizeof *p, "data parallelism");
    p->ctx = ctx;
    p->options = *options;
    p->sync = true;
    syn_status s = communicates(p) ? syn__buckets_divide(&p->buckets, ctx, options, err)
                                   : syn__buckets_make(&p->buckets, ctx, err);
    if (s == SYN_OK) s = check_experts(p, err);
    if (s == SYN_OK) {
        p->waiting = syn_calloc(p->buckets.n + 1, sizeof *p->waiting);
        p->summed = syn_calloc(p->buckets.n + 1, sizeof *p->summed);
        if (!p->waiting || !p->summed)
            s = SYN_FAIL_NOMEM(err, p->buckets.n * sizeof *p->waiting, "data parallelism");
    }
    p->unit = UINT32_MAX;
    /* with ZeRO 3, the values that parameters are created with are the same on all ranks */
    if (s == SYN_OK && communicates(p) && options->zero < 3) broadcast(p);
    if (s == SYN_OK) s = make_parts(p, err);
    if (s == SYN_OK) {
        syn_require_grads(ctx);
        begin_step(p);
        if (communicates(p)) syn_ctx_on_grad(ctx, ready, p);
        if (evicts(p)) syn_ctx_on_use(ctx, used, p);
    }
    if (s == SYN_OK || syn_ctx_status(ctx) != SYN_OK) s = syn_ctx_check(ctx, err);
    if (s == SYN_OK) *out = p;
    else syn_data_parallel_free(p);
    return s;
}

void syn_data_parallel_free(syn_data_parallel *p) {
    if (!p) return;
    if (communicates(p)) syn_ctx_on_grad(p->ctx, NULL, NULL);
    if (evicts(p)) syn_ctx_on_use(p->ctx, NULL, NULL);
    syn__buckets_free(&p->buckets);
    syn_free(p->waiting);
    syn_free(p->summed);
    syn_free(p->parts);
    syn_free(p->narrow);
    syn_free(p->gathered);
    syn_free(p->finished);
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
    syn_all_gather_coalesced(p->ctx, params, b->n, part, group_of(p, i));
    syn_pop_scope(p->ctx);
}

syn_status syn_data_parallel_check(syn_data_parallel *p, syn_error *err) {
    syn__parallel_store(p);
    SYN_TRY(syn_ctx_check(p->ctx, err));
    for (size_t i = 0; communicates(p) && i < p->buckets.n; i++) {
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
