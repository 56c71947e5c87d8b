/* Data parallelism; see data_parallel.h. Broadcasts the parameters at the start, and all-reduces
   the gradients of each bucket in the callback that reports its last complete gradient. */
#include "models/training/data_parallel.h"

#include "models/training/buckets_private.h"
#include "syntorch/base/memory.h"
#include "syntorch/gradient.h"

struct syn_data_parallel {
    syn_ctx *ctx;
    const syn_group *dp;
    syn__buckets buckets;
    int *waiting; /* per bucket: number of parameters without a complete gradient */
    bool sync;
};

static void begin_pass(syn_data_parallel *p) {
    for (size_t i = 0; i < p->buckets.n; i++) p->waiting[i] = p->buckets.at[i].n;
}

static void sum_bucket(syn_data_parallel *p, const syn__bucket *b) {
    syn_tensor grads[SYN_MAX_PARAMS];
    for (int k = 0; k < b->n; k++)
        grads[k] = syn_grad(p->ctx, syn_ctx_param(p->ctx, b->last - (size_t)k).tensor);
    syn_push_scope(p->ctx, "data_parallel");
    syn_all_reduce_coalesced(p->ctx, grads, b->n, SYN_REDUCE_SUM, p->dp);
    syn_pop_scope(p->ctx);
}

static void ready(void *user, size_t param) {
    syn_data_parallel *p = user;
    const uint32_t i = p->buckets.of_param[param];
    if (!p->sync || --p->waiting[i] > 0) return;
    sum_bucket(p, &p->buckets.at[i]);
}

void syn_data_parallel_sum(syn_data_parallel *p) {
    if (!p->dp) return;
    const bool was = syn_set_grad(p->ctx, false);
    syn_set_phase(p->ctx, SYN_PHASE_BACKWARD);
    for (size_t i = 0; i < p->buckets.n; i++) {
        sum_bucket(p, &p->buckets.at[i]);
        p->waiting[i] = 0;
    }
    syn_set_phase(p->ctx, SYN_PHASE_FORWARD);
    syn_set_grad(p->ctx, was);
}

static void broadcast(syn_data_parallel *p) {
    const bool was = syn_set_grad(p->ctx, false);
    syn_push_scope(p->ctx, "data_parallel");
    for (size_t i = 0; i < p->buckets.n; i++) {
        const syn__bucket *b = &p->buckets.at[i];
        syn_tensor params[SYN_MAX_PARAMS];
        for (int k = 0; k < b->n; k++)
            params[k] = syn_ctx_param(p->ctx, b->last - (size_t)k).tensor;
        syn_broadcast_coalesced(p->ctx, params, b->n, 0, p->dp);
    }
    syn_pop_scope(p->ctx);
    syn_set_grad(p->ctx, was);
}

syn_status syn_data_parallel_new(syn_data_parallel **out, syn_ctx *ctx, const syn_group *dp,
                                 syn_error *err) {
    syn_data_parallel *p = syn_calloc(1, sizeof *p);
    if (!p) return SYN_FAIL_NOMEM(err, sizeof *p, "data parallelism");
    p->ctx = ctx;
    p->dp = dp;
    p->sync = true;
    syn_status s = syn__buckets_make(&p->buckets, ctx, err);
    if (s == SYN_OK && !(p->waiting = syn_calloc(p->buckets.n + 1, sizeof *p->waiting)))
        s = SYN_FAIL_NOMEM(err, p->buckets.n * sizeof *p->waiting, "data parallelism");
    if (s == SYN_OK) {
        if (dp) broadcast(p);
        syn_require_grads(ctx);
        begin_pass(p);
        if (dp) syn_ctx_on_grad(ctx, ready, p);
        s = syn_ctx_check(ctx, err);
    }
    if (s == SYN_OK) *out = p;
    else syn_data_parallel_free(p);
    return s;
}

void syn_data_parallel_free(syn_data_parallel *p) {
    if (!p) return;
    if (p->dp) syn_ctx_on_grad(p->ctx, NULL, NULL);
    syn__buckets_free(&p->buckets);
    syn_free(p->waiting);
    syn_free(p);
}

void syn_data_parallel_sync(syn_data_parallel *p, bool on) {
    p->sync = on;
}

syn_status syn_data_parallel_check(syn_data_parallel *p, syn_error *err) {
    SYN_TRY(syn_ctx_check(p->ctx, err));
    for (size_t i = 0; p->dp && i < p->buckets.n; i++) {
        const syn__bucket *b = &p->buckets.at[i];
        if (p->waiting[i] == 0) continue;
        for (int k = 0; k < b->n; k++) {
            const syn_param_info param = syn_ctx_param(p->ctx, b->last - (size_t)k);
            if (syn_grad(p->ctx, param.tensor).id) continue;
            return SYN_FAIL(err, SYN_E_INVALID,
                            "parameter '%s' got no gradient: all ranks must use all parameters",
                            param.name);
        }
    }
    begin_pass(p);
    return SYN_OK;
}
