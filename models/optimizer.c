#include "models/optimizer.h"

#include <math.h>

#include "models/buckets_private.h"
#include "syntorch/gradient.h"
#include "syntorch/memory.h"

struct syn_optimizer {
    syn_ctx *ctx;
    syn_optimizer_options options;
    syn__buckets buckets;
    struct moments {
        syn_tensor m, v;
    } * moments; /* of each bucket */
    syn_tensor rates, one, norm;
    int64_t step;
};

static syn_status make_state(syn_optimizer *o) {
    const float one = 1.0f;
    const syn_spec number = {SYN_F32, 0, {0}}, three = {SYN_F32, 1, {3}};
    for (size_t i = 0; i < o->buckets.n; i++) {
        const syn_spec flat = {SYN_F32, 1, {o->buckets.at[i].elems}};
        o->moments[i].m = syn_state(o->ctx, "adamw.m", &flat);
        o->moments[i].v = syn_state(o->ctx, "adamw.v", &flat);
    }
    o->rates = syn_input(o->ctx, "adamw.rates", &three, NULL);
    o->one = syn_input(o->ctx, "adamw.one", &number, &one);
    syn_require_grads(o->ctx);
    return syn_ctx_status(o->ctx);
}

/* The norm would lack what other ranks hold. */
static syn_status check_cut(const syn_ctx *ctx, const syn_group *tp, syn_error *err) {
    for (size_t i = 0; i < syn_ctx_param_count(ctx); i++) {
        const syn_param_info p = syn_ctx_param(ctx, i);
        if (p.shard.count > 1 && (!tp || tp->size != p.shard.count))
            return SYN_FAIL(err, SYN_E_INVALID,
                            "parameter '%s' is cut among %d ranks: the optimizer needs their group",
                            p.name, p.shard.count);
    }
    return SYN_OK;
}

syn_status syn_optimizer_new(syn_optimizer **out, syn_ctx *ctx,
                             const syn_optimizer_options *options, syn_error *err) {
    SYN_TRY(check_cut(ctx, options->tp, err));
    syn_optimizer *o = syn_calloc(1, sizeof *o);
    if (!o) return SYN_FAIL_NOMEM(err, sizeof *o, "an optimizer");
    o->ctx = ctx;
    o->options = *options;
    if (o->options.beta1 == 0) o->options.beta1 = 0.9;
    if (o->options.beta2 == 0) o->options.beta2 = 0.999;
    if (o->options.eps == 0) o->options.eps = 1e-8;
    syn_status s = syn__buckets_make(&o->buckets, ctx, err);
    if (s == SYN_OK) {
        o->moments = syn_calloc(o->buckets.n + 1, sizeof *o->moments);
        s = o->moments ? SYN_OK : SYN_FAIL_NOMEM(err, o->buckets.n, "an optimizer's state");
    }
    if (s == SYN_OK && make_state(o) != SYN_OK) s = syn_ctx_check(ctx, err);
    if (s == SYN_OK) *out = o;
    else syn_optimizer_free(o);
    return s;
}

void syn_optimizer_free(syn_optimizer *o) {
    if (!o) return;
    syn__buckets_free(&o->buckets);
    syn_free(o->moments);
    syn_free(o);
}

syn_tensor syn_optimizer_norm(const syn_optimizer *o) {
    return o->norm;
}

/* The bucket's parameters and gradients; false if one lacks a gradient. */
static bool gather(const syn_optimizer *o, const syn__bucket *b, syn_tensor *params,
                   syn_tensor *grads) {
    for (int i = 0; i < b->n; i++) {
        const syn_param_info p = syn_ctx_param(o->ctx, b->last - (size_t)i);
        params[i] = p.tensor;
        grads[i] = syn_grad(o->ctx, p.tensor);
        if (grads[i].id) continue;
        syn_ctx_fail(o->ctx, SYN_E_INVALID, "parameter '%s' has no gradient", p.name);
        return false;
    }
    return true;
}

/* ---- clipping ---- */

static void add_squares(syn_ctx *ctx, syn_tensor *sum, const syn_tensor *grads, int n) {
    if (n == 0) return;
    const syn_tensor squares = syn_square_sum(ctx, grads, n);
    *sum = sum->id ? syn_add(ctx, *sum, squares) : squares;
}

/* Shards count on each of the ranks that share them, what is whole on all of them once. */
static syn_tensor all_squares(syn_optimizer *o) {
    syn_ctx *ctx = o->ctx;
    syn_tensor shards = {0}, whole = {0};
    for (size_t i = 0; i < o->buckets.n; i++) {
        const syn__bucket *b = &o->buckets.at[i];
        syn_tensor params[SYN_MAX_LIST], grads[SYN_MAX_LIST], cut[SYN_MAX_LIST];
        int n_cut = 0, n_whole = 0;
        if (!gather(o, b, params, grads)) return shards;
        for (int k = 0; k < b->n; k++) {
            const bool is_cut = syn_ctx_param(ctx, b->last - (size_t)k).shard.count > 1;
            if (is_cut) cut[n_cut++] = grads[k];
            else grads[n_whole++] = grads[k];
        }
        add_squares(ctx, &shards, cut, n_cut);
        add_squares(ctx, &whole, grads, n_whole);
    }
    if (shards.id && o->options.tp)
        shards = syn_all_reduce(ctx, shards, SYN_REDUCE_SUM, o->options.tp);
    return !shards.id ? whole : whole.id ? syn_add(ctx, shards, whole) : shards;
}

/* ---- a step ---- */

static syn_status set_rates(syn_optimizer *o, double learning_rate) {
    const double t = (double)++o->step;
    const float rates[3] = {(float)learning_rate,
                            (float)(learning_rate / (1 - pow(o->options.beta1, t))),
                            (float)(1 / sqrt(1 - pow(o->options.beta2, t)))};
    return syn_tensor_write(o->ctx, o->rates, rates, sizeof rates);
}

static void update(syn_optimizer *o, size_t i, syn_tensor scale) {
    const syn__bucket *b = &o->buckets.at[i];
    syn_tensor params[SYN_MAX_LIST], grads[SYN_MAX_LIST];
    syn_adamw_call call = {.params = params,
                           .grads = grads,
                           .n = b->n,
                           .m = &o->moments[i].m,
                           .v = &o->moments[i].v,
                           .rates = o->rates,
                           .scale = scale,
                           .beta1 = o->options.beta1,
                           .beta2 = o->options.beta2,
                           .eps = o->options.eps,
                           .weight_decay = o->options.weight_decay};
    if (!gather(o, b, params, grads)) return;
    for (int k = 0; k < b->n; k++)
        if (syn_tensor_spec(o->ctx, params[k])->rank > 1) call.decayed |= (int64_t)1 << k;
    syn_adamw_step(o->ctx, &call);
}

/* ---- gradients that are no numbers ---- */

static bool is_finite(syn_ctx *ctx, syn_tensor squares, float *value) {
    return syn_tensor_read(ctx, squares, value, sizeof *value) != SYN_OK || isfinite(*value);
}

/* Of several the one that was made first: what it was computed from was sound. */
static syn_status blame(syn_optimizer *o, syn_error *err) {
    syn_ctx *ctx = o->ctx;
    for (size_t i = 0; i < syn_ctx_param_count(ctx); i++) {
        const syn_param_info p = syn_ctx_param(ctx, i);
        const syn_tensor grad = syn_grad(ctx, p.tensor), squares = syn_square_sum(ctx, &grad, 1);
        float value = 0;
        if (!is_finite(ctx, squares, &value))
            return SYN_FAIL(err, SYN_E_INVALID,
                            "optimizer step %lld: the gradient of '%s' is not finite (%s)",
                            (long long)o->step + 1, p.name, isnan(value) ? "NaN" : "infinite");
    }
    return SYN_FAIL(err, SYN_E_INVALID,
                    "optimizer step %lld: a gradient of another rank is not finite, or their norm "
                    "is too large",
                    (long long)o->step + 1);
}

static syn_status check(syn_optimizer *o, syn_tensor squares, syn_error *err) {
    float value;
    if (!o->options.check_finite || !syn_ctx_has_data(o->ctx)) return SYN_OK;
    return is_finite(o->ctx, squares, &value) ? SYN_OK : blame(o, err);
}

static syn_status scale_and_update(syn_optimizer *o, double learning_rate, syn_error *err) {
    syn_ctx *ctx = o->ctx;
    const double most = o->options.max_grad_norm;
    syn_tensor scale = o->one, squares = {0};
    if (most > 0 || o->options.check_finite) squares = all_squares(o);
    SYN_TRY(check(o, squares, err));
    if (most > 0) scale = syn_clip_factor(ctx, squares, most, &o->norm);
    SYN_TRY(set_rates(o, learning_rate));
    for (size_t i = 0; i < o->buckets.n; i++) update(o, i, scale);
    return SYN_OK;
}

syn_status syn_optimizer_step(syn_optimizer *o, double learning_rate, syn_error *err) {
    syn_ctx *ctx = o->ctx;
    const bool was = syn_set_grad(ctx, false);
    const syn_mark mark = syn_ctx_mark(ctx);
    syn_set_phase(ctx, SYN_PHASE_OPTIMIZER);
    syn_push_scope(ctx, "optimizer");
    const syn_status s = scale_and_update(o, learning_rate, err);
    syn_pop_scope(ctx);
    syn_set_phase(ctx, SYN_PHASE_FORWARD);
    syn_set_grad(ctx, was);
    if (s == SYN_OK) syn_drop_grads(ctx);
    syn_release(ctx, mark, &o->norm, o->norm.id ? 1 : 0);
    return syn_ctx_status(ctx) != SYN_OK ? syn_ctx_check(ctx, err) : s;
}

double syn_learning_rate(double peak, int64_t step, int64_t warm_up, int64_t steps) {
    if (step < warm_up) return peak * (double)step / (double)warm_up;
    if (step >= steps) return 0;
    return peak * (double)(steps - step) / (double)(steps - warm_up);
}
