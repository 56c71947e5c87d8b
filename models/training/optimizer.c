/* AdamW on buckets of parameters; see optimizer.h. A step first sums the squares of all gradients
   if it clips or checks them. It then reads this sum and the loss, which needs only one wait for
   the device, and updates one bucket after the other. */
#include "models/training/optimizer_private.h"

#include <math.h>
#include <string.h>

#include "models/training/data_parallel_private.h"
#include "syntorch/base/half.h"
#include "syntorch/base/memory.h"
#include "syntorch/gradient.h"

struct syn_optimizer {
    syn_ctx *ctx;
    syn_optimizer_options options;
    const syn_data_parallel *zero; /* options.parallel if it uses ZeRO, else NULL */
    const syn__buckets *buckets;   /* with ZeRO those of `zero`, else own_buckets */
    syn__buckets own_buckets;
    syn_dtype dtype; /* of all parameters */
    struct state {
        syn_tensor m, v; /* flat f32 tensors with the elements of all parameters of the bucket; with
                            ZeRO, with those of this rank's part */
        syn_tensor masters;   /* the same; without ZeRO, and only if dtype is not f32 */
        syn_tensor n_decayed; /* with ZeRO: the number of elements that decay */
    } * states;               /* one per bucket */
    syn_tensor *written;      /* per parameter: the version that equals its rounded master */
    size_t copy;              /* number of the parameter options.copy; SIZE_MAX: none */
    syn_tensor rates, one, norm;
    bool looked;   /* the last step read the sum of squares */
    float squares; /* that sum, if it was read */
    int64_t step;
};

/* ---- state ---- */

/* Whether this rank has only a part of the bucket's state. */
static bool is_part(const syn_optimizer *o, size_t bucket) {
    return o->zero && syn__parallel_divides(o->zero, bucket);
}

/* The master weights of a bucket; NULL: the parameters themselves. */
static syn_tensor *masters_of(const syn_optimizer *o, size_t bucket) {
    if (is_part(o, bucket)) return syn__parallel_part(o->zero, bucket);
    return o->dtype != SYN_F32 ? &o->states[bucket].masters : NULL;
}

/* Copies a parameter to its master. Like the loading of weights, this is not recorded in the
   trace. */
static syn_status make_master(syn_optimizer *o, size_t param, syn_error *err) {
    const size_t bucket = o->buckets->of_param[param];
    const syn_tensor t = syn_ctx_param(o->ctx, param).tensor;
    const int64_t n = syn_spec_elems(syn_tensor_spec(o->ctx, t));
    if (!syn_ctx_has_data(o->ctx)) return SYN_OK;
    float *wide = syn_malloc((size_t)n * sizeof *wide + 1);
    if (!wide) return SYN_FAIL_NOMEM(err, (size_t)n * sizeof *wide, "a parameter's master weights");
    syn_status s = syn_tensor_read_f32(o->ctx, t, wide, (size_t)n);
    if (s == SYN_OK)
        s = syn_tensor_write_range(o->ctx, o->states[bucket].masters,
                                   syn__bucket_offset(o->buckets, o->ctx, param), n, wide);
    syn_free(wide);
    return s;
}

static void make_bucket_state(syn_optimizer *o, size_t i) {
    const syn__bucket *b = &o->buckets->at[i];
    const syn_spec number = {SYN_I64, 0, {0}};
    const bool part = is_part(o, i);
    const syn_spec flat = {SYN_F32, 1, {part ? b->part : b->elems}};
    struct state *state = &o->states[i];
    state->m = syn_state(o->ctx, "adamw.m", &flat);
    state->v = syn_state(o->ctx, "adamw.v", &flat);
    if (!part && o->dtype != SYN_F32) state->masters = syn_state(o->ctx, "adamw.master", &flat);
    if (!part) return;
    int64_t n = b->decayed - b->part * syn__parallel_group(o->zero, i)->index;
    n = n < 0 ? 0 : n > b->part ? b->part : n;
    state->n_decayed = syn_input(o->ctx, "adamw.decayed", &number, &n);
}

static syn_status make_state(syn_optimizer *o, syn_error *err) {
    const float one = 1.0f;
    const syn_spec number = {SYN_F32, 0, {0}}, three = {SYN_F32, 1, {3}};
    for (size_t i = 0; i < o->buckets->n; i++) make_bucket_state(o, i);
    for (size_t i = 0; i < syn_ctx_param_count(o->ctx); i++) {
        o->written[i] = syn_ctx_param(o->ctx, i).tensor;
        if (!is_part(o, o->buckets->of_param[i]) && o->dtype != SYN_F32)
            SYN_TRY(make_master(o, i, err));
    }
    o->rates = syn_input(o->ctx, "adamw.rates", &three, NULL);
    o->one = syn_input(o->ctx, "adamw.one", &number, &one);
    syn_require_grads(o->ctx);
    return syn_ctx_status(o->ctx);
}

static syn_status check_dtype(const syn_ctx *ctx, syn_dtype *dtype, syn_error *err) {
    *dtype = SYN_F32;
    for (size_t i = 0; i < syn_ctx_param_count(ctx); i++) {
        const syn_param_info p = syn_ctx_param(ctx, i);
        const syn_dtype d = (syn_dtype)p.full.dtype;
        if (d == SYN_F16)
            return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                            "parameter '%s' is f16, which cannot be trained: it needs loss "
                            "scaling, which is not supported; use bf16",
                            p.name);
        if (i == 0) *dtype = d;
        if (d != *dtype)
            return SYN_FAIL(
                err, SYN_E_UNSUPPORTED,
                "parameter '%s' is %s, but others are %s: all parameters must have the same dtype",
                p.name, syn_dtype_name(d), syn_dtype_name(*dtype));
    }
    return SYN_OK;
}

/* Fails if a parameter is sharded over ranks outside tp, because the norm would miss their
   shards. */
static syn_status check_cut(const syn_ctx *ctx, const syn_group *tp, syn_error *err) {
    for (size_t i = 0; i < syn_ctx_param_count(ctx); i++) {
        const syn_param_info p = syn_ctx_param(ctx, i);
        if (p.shard.count > 1 && !p.expert && (!tp || tp->size % p.shard.count != 0))
            return SYN_FAIL(
                err, SYN_E_INVALID,
                "parameter '%s' is sharded over %d ranks: the optimizer needs their group", p.name,
                p.shard.count);
    }
    return SYN_OK;
}

syn_status syn_optimizer_new(syn_optimizer **out, syn_ctx *ctx,
                             const syn_optimizer_options *options, syn_error *err) {
    syn_dtype dtype;
    SYN_TRY(check_dtype(ctx, &dtype, err));
    SYN_TRY(check_cut(ctx, options->tp, err));
    syn_optimizer *o = syn_calloc(1, sizeof *o);
    if (!o) return SYN_FAIL_NOMEM(err, sizeof *o, "an optimizer");
    o->ctx = ctx;
    o->dtype = dtype;
    o->options = *options;
    o->copy = SIZE_MAX;
    if (o->options.beta1 == 0) o->options.beta1 = 0.9;
    if (o->options.beta2 == 0) o->options.beta2 = 0.999;
    if (o->options.eps == 0) o->options.eps = 1e-8;
    o->buckets = syn__parallel_buckets(options->parallel);
    if (o->buckets) o->zero = options->parallel;
    else o->buckets = &o->own_buckets;
    syn_status s = o->zero ? SYN_OK : syn__buckets_make(&o->own_buckets, ctx, err);
    if (s == SYN_OK && options->copy) s = syn__find_param(&o->copy, ctx, options->copy, err);
    if (s == SYN_OK) {
        o->states = syn_calloc(o->buckets->n + 1, sizeof *o->states);
        o->written = syn_calloc(syn_ctx_param_count(ctx) + 1, sizeof *o->written);
        if (!o->states || !o->written)
            s = SYN_FAIL_NOMEM(err, syn_ctx_param_count(ctx), "an optimizer's state");
    }
    if (s == SYN_OK) s = make_state(o, err);
    if (s == SYN_OK || syn_ctx_status(ctx) != SYN_OK) s = syn_ctx_check(ctx, err);
    if (s == SYN_OK) *out = o;
    else syn_optimizer_free(o);
    return s;
}

void syn_optimizer_free(syn_optimizer *o) {
    if (!o) return;
    syn__buckets_free(&o->own_buckets);
    syn_free(o->states);
    syn_free(o->written);
    syn_free(o);
}

static syn_status check_elems(const syn_optimizer *o, size_t param, size_t n_elems,
                              syn_error *err) {
    const size_t params = syn_ctx_param_count(o->ctx);
    if (param >= params)
        return SYN_FAIL(err, SYN_E_INVALID, "parameter %zu does not exist: there are %zu", param,
                        params);
    int64_t first, want;
    syn_optimizer_range(o, param, &first, &want);
    if (n_elems == (size_t)want) return SYN_OK;
    return SYN_FAIL(err, SYN_E_SHAPE, "parameter '%s' has %zu elements, not %zu",
                    syn_ctx_param(o->ctx, param).name, (size_t)want, n_elems);
}

void syn_optimizer_range(const syn_optimizer *o, size_t param, int64_t *first, int64_t *n) {
    *first = 0;
    *n = syn_spec_elems(syn_tensor_spec(o->ctx, syn_ctx_param(o->ctx, param).tensor));
    if (!is_part(o, o->buckets->of_param[param])) return;
    const syn_part_range range = syn__parallel_range(o->zero, param);
    *first = range.first;
    *n = range.n;
}

/* Returns the tensor that contains a parameter's slot. *first: index of the slot's first element in
   it. */
static syn_tensor find_slot(const syn_optimizer *o, size_t param, syn_optimizer_slot slot,
                            int64_t *first) {
    const size_t bucket = o->buckets->of_param[param];
    const struct state *state = &o->states[bucket];
    const syn_tensor *masters = masters_of(o, bucket);
    *first = is_part(o, bucket) ? syn__parallel_range(o->zero, param).at
                                : syn__bucket_offset(o->buckets, o->ctx, param);
    if (slot == SYN_OPTIMIZER_M) return state->m;
    if (slot == SYN_OPTIMIZER_V) return state->v;
    if (masters) return *masters;
    *first = 0;
    return syn_ctx_param(o->ctx, param).tensor;
}

syn_status syn_optimizer_get(const syn_optimizer *o, size_t param, syn_optimizer_slot slot,
                             float *out, size_t n_elems, syn_error *err) {
    int64_t first;
    SYN_TRY(check_elems(o, param, n_elems, err));
    const syn_tensor t = find_slot(o, param, slot, &first);
    if (!syn_ctx_has_data(o->ctx) ||
        syn_tensor_read_range(o->ctx, t, first, (int64_t)n_elems, out) == SYN_OK)
        return SYN_OK;
    return syn_ctx_check(o->ctx, err);
}

/* Rounds a parameter's master, data (n), and writes it to the parameter. */
static syn_status round_to_param(syn_optimizer *o, size_t param, const float *data, size_t n,
                                 syn_error *err) {
    uint16_t *half = syn_malloc(n * sizeof *half + 1);
    if (!half) return SYN_FAIL_NOMEM(err, n * sizeof *half, "a parameter");
    syn_half_narrow(data, half, n, o->dtype);
    const syn_status s =
        syn_tensor_write_range(o->ctx, syn_ctx_param(o->ctx, param).tensor, 0, (int64_t)n, half);
    syn_free(half);
    return s == SYN_OK ? s : syn_ctx_check(o->ctx, err);
}

syn_status syn_optimizer_set(syn_optimizer *o, size_t param, syn_optimizer_slot slot,
                             const float *data, size_t n_elems, syn_error *err) {
    int64_t first;
    SYN_TRY(check_elems(o, param, n_elems, err));
    const syn_tensor t = find_slot(o, param, slot, &first);
    const bool part = is_part(o, o->buckets->of_param[param]);
    const syn_status s = part && slot == SYN_OPTIMIZER_MASTER
                             ? syn__parallel_write(o->zero, param, data)
                             : syn_tensor_write_range(o->ctx, t, first, (int64_t)n_elems, data);
    if (s != SYN_OK) return syn_ctx_check(o->ctx, err);
    if (slot != SYN_OPTIMIZER_MASTER || part || o->dtype == SYN_F32 || !data) return SYN_OK;
    return round_to_param(o, param, data, n_elems, err);
}

/* Gathers a bucket of the parameters with ZeRO. */
static void gather_bucket(syn_optimizer *o, size_t i) {
    const syn__bucket *b = &o->buckets->at[i];
    syn__parallel_gather(o->zero, i);
    for (int k = 0; k < b->n; k++) {
        const size_t param = syn__bucket_param(o->buckets, b, k);
        o->written[param] = syn_ctx_param(o->ctx, param).tensor;
    }
}

syn_status syn_optimizer_gather(syn_optimizer *o, syn_error *err) {
    const syn_mark mark = syn_ctx_mark(o->ctx);
    const bool was = syn_set_grad(o->ctx, false);
    const bool gathers = o->zero && !syn__parallel_evicts(o->zero);
    for (size_t i = 0; gathers && i < o->buckets->n; i++)
        if (is_part(o, i)) gather_bucket(o, i);
    syn_set_grad(o->ctx, was);
    if (gathers) syn_forget(o->ctx, mark, NULL, 0);
    return syn_ctx_check(o->ctx, err);
}

int64_t syn_optimizer_steps(const syn_optimizer *o) {
    return o->step;
}

void syn_optimizer_set_steps(syn_optimizer *o, int64_t steps) {
    o->step = steps;
}

syn_tensor syn_optimizer_norm(const syn_optimizer *o) {
    return o->norm;
}

/* Collects the bucket's parameters and gradients. Returns false if a gradient is missing. */
static bool gather(const syn_optimizer *o, const syn__bucket *b, syn_tensor *params,
                   syn_tensor *grads) {
    for (int i = 0; i < b->n; i++) {
        const syn_param_info p = syn_ctx_param(o->ctx, syn__bucket_param(o->buckets, b, i));
        params[i] = p.tensor;
        grads[i] = syn_grad(o->ctx, p.tensor);
        if (grads[i].id) continue;
        syn_ctx_fail(o->ctx, SYN_E_INVALID, "parameter '%s' has no gradient", p.name);
        return false;
    }
    return true;
}

/* ---- clipping ---- */

/* Zero, as a scalar. */
static syn_tensor no_squares(const syn_optimizer *o) {
    const syn_tensor one = syn_reshape(o->ctx, o->one, (const int64_t[]){1}, 1);
    return syn_reshape(o->ctx, syn_scale(o->ctx, one, 0), NULL, 0);
}

/* Gradients that are on equally many tensor-parallel ranks, and the sum of their squares, divided
   by that number. */
typedef struct square_class {
    int copies; /* 0: not used */
    syn_tensor sum;
    syn_tensor grads[SYN_MAX_PARAMS];
    int n;
} square_class;

static void add_squares(syn_ctx *ctx, square_class *s) {
    if (s->n == 0) return;
    const syn_tensor some = syn_square_sum_divided(ctx, s->grads, s->n, s->copies);
    s->sum = s->sum.id ? syn_add(ctx, s->sum, some) : some;
    s->n = 0;
}

enum { SQUARES = 3 }; /* parameters are sharded, not sharded, or sharded with copies */

/* all: SQUARES classes, and one for experts, whose squares are summed over other ranks. With ZeRO,
   all squares are summed over the same ranks. */
static square_class *class_of(const syn_optimizer *o, square_class *all, size_t param) {
    const syn_param_info p = syn_ctx_param(o->ctx, param);
    const int of_stage = o->options.copies > 0 ? o->options.copies : 1;
    if (p.expert && !o->zero) {
        all[SQUARES].copies = of_stage;
        return &all[SQUARES];
    }
    const int copies = syn__param_copies(&p, o->options.tp) *
                       (o->zero ? syn__parallel_replicas(o->zero) : of_stage);
    int i = 0;
    while (i < SQUARES - 1 && all[i].copies && all[i].copies != copies) i++;
    all[i].copies = copies;
    return &all[i];
}

/* The sum of squares of all gradients, in which each element counts once: the squares of elements
 * that several tensor-parallel ranks have are first divided by the number of these ranks. With
 * ZeRO, each rank has a part of the gradients. */
static syn_tensor all_squares(syn_optimizer *o) {
    syn_ctx *ctx = o->ctx;
    square_class all[SQUARES + 1] = {0};
    syn_tensor sum = {0};
    for (size_t i = 0; i < o->buckets->n; i++) {
        const syn__bucket *b = &o->buckets->at[i];
        const bool part = is_part(o, i);
        for (int k = 0; k < b->n; k++) {
            const size_t param = syn__bucket_param(o->buckets, b, k);
            square_class *to = class_of(o, all, param);
            if (param == o->copy || (part && k > 0)) continue;
            const syn_tensor of =
                part ? *syn__parallel_part(o->zero, i) : syn_ctx_param(ctx, param).tensor;
            const syn_tensor grad = syn_grad(ctx, of);
            if (!grad.id) {
                syn_ctx_fail(ctx, SYN_E_INVALID, "parameter '%s' has no gradient",
                             syn_ctx_param(ctx, param).name);
                return sum;
            }
            to->grads[to->n++] = grad;
            if (to->n == SYN_MAX_PARAMS) add_squares(ctx, to);
        }
        for (int k = 0; k <= SQUARES && !o->zero; k++) add_squares(ctx, &all[k]);
    }
    for (int k = 0; k < SQUARES; k++) {
        add_squares(ctx, &all[k]);
        const syn_tensor more = all[k].sum;
        sum = !sum.id ? more : more.id ? syn_add(ctx, sum, more) : sum;
    }
    if (!sum.id) sum = no_squares(o); /* a stage without parameters */
    const syn_group *group = o->options.norm ? o->options.norm : o->options.tp;
    if (group) sum = syn_all_reduce(ctx, sum, SYN_REDUCE_SUM, group);
    add_squares(ctx, &all[SQUARES]);
    syn_tensor experts = all[SQUARES].sum;
    if (!o->options.expert_norm) return experts.id ? syn_add(ctx, sum, experts) : sum;
    if (!experts.id) experts = no_squares(o); /* a stage without experts */
    experts = syn_all_reduce(ctx, experts, SYN_REDUCE_SUM, o->options.expert_norm);
    return syn_add(ctx, sum, experts);
}

/* ---- a step ---- */

static syn_status set_rates(syn_optimizer *o, double learning_rate) {
    const double t = (double)++o->step;
    const float rates[3] = {(float)learning_rate,
                            (float)(learning_rate / (1 - pow(o->options.beta1, t))),
                            (float)(1 / sqrt(1 - pow(o->options.beta2, t)))};
    return syn_tensor_write(o->ctx, o->rates, rates, sizeof rates);
}

/* Fails if a parameter was written after its master was created, because the step would undo that
   write. */
static bool are_current(const syn_optimizer *o, const syn__bucket *b, const syn_tensor *params) {
    for (int k = 0; k < b->n && (o->zero || o->dtype != SYN_F32); k++) {
        const size_t param = syn__bucket_param(o->buckets, b, k);
        if (params[k].id == o->written[param].id) continue;
        syn_ctx_fail(o->ctx, SYN_E_INVALID,
                     "parameter '%s' was written after its f32 master weights were created; create "
                     "the optimizer after syn_data_parallel_new",
                     syn_ctx_param(o->ctx, param).name);
        return false;
    }
    return true;
}

static syn_adamw_call adamw_of(const syn_optimizer *o, size_t i, syn_tensor scale) {
    return (syn_adamw_call){.m = &o->states[i].m,
                            .v = &o->states[i].v,
                            .rates = o->rates,
                            .scale = scale,
                            .beta1 = o->options.beta1,
                            .beta2 = o->options.beta2,
                            .eps = o->options.eps,
                            .weight_decay = o->options.weight_decay};
}

static void update(syn_optimizer *o, size_t i, syn_tensor scale) {
    const syn__bucket *b = &o->buckets->at[i];
    syn_tensor params[SYN_MAX_PARAMS], grads[SYN_MAX_PARAMS];
    syn_adamw_call call = adamw_of(o, i, scale);
    call.params = params;
    call.grads = grads;
    call.n = b->n;
    call.masters = masters_of(o, i);
    if (!gather(o, b, params, grads) || !are_current(o, b, params)) return;
    for (int k = 0; k < b->n; k++)
        if (syn__param_decays(o->ctx, syn__bucket_param(o->buckets, b, k), o->options.no_decay))
            call.decayed |= (int64_t)1 << k;
    syn_adamw_step(o->ctx, &call);
    for (int k = 0; k < b->n; k++) o->written[syn__bucket_param(o->buckets, b, k)] = params[k];
}

/* With ZeRO: updates this rank's part of the bucket. ZeRO 1 and 2 then gather the parameters from
   all ranks. */
static void update_part(syn_optimizer *o, size_t i, syn_tensor scale) {
    const syn__bucket *b = &o->buckets->at[i];
    const bool gathers = !syn__parallel_evicts(o->zero);
    syn_tensor params[SYN_MAX_LIST], *part = masters_of(o, i);
    syn_tensor *narrow = syn__parallel_narrow(o->zero, i);
    const syn_tensor grad = syn_grad(o->ctx, *part);
    syn_adamw_call call = adamw_of(o, i, scale);
    for (int k = 0; k < b->n; k++)
        params[k] = syn_ctx_param(o->ctx, syn__bucket_param(o->buckets, b, k)).tensor;
    if (gathers && !are_current(o, b, params)) return;
    call.params = narrow ? narrow : part;
    call.masters = narrow ? part : NULL;
    call.grads = &grad;
    call.n = 1;
    call.n_decayed = o->states[i].n_decayed;
    syn_adamw_step(o->ctx, &call);
    if (gathers) gather_bucket(o, i);
}

/* ---- gradients that are not finite ---- */

static bool is_finite(syn_ctx *ctx, syn_tensor squares, float *value) {
    return syn_tensor_read(ctx, squares, value, sizeof *value) != SYN_OK || isfinite(*value);
}

/* With ZeRO: whether this rank's part of a parameter's gradient is finite. */
static syn_status look_at_part(syn_optimizer *o, size_t param, float *value, syn_error *err) {
    const syn_part_range range = syn__parallel_range(o->zero, param);
    const syn_tensor part = *syn__parallel_part(o->zero, o->buckets->of_param[param]);
    float *x = syn_malloc((size_t)range.n * sizeof *x + 1);
    if (!x) return SYN_FAIL_NOMEM(err, (size_t)range.n * sizeof *x, "a gradient");
    if (range.n > 0 &&
        syn_tensor_read_range(o->ctx, syn_grad(o->ctx, part), range.at, range.n, x) == SYN_OK)
        for (int64_t i = 0; i < range.n && isfinite(*value); i++) *value = x[i];
    syn_free(x);
    return SYN_OK;
}

/* If several gradients are not finite, names the parameter that was created first. Its gradient is
 * the one that the backward pass computed last. Without ZeRO, the squares of the gradient's
 * elements are examined, which may be infinite although the elements are finite. */
syn_status syn__optimizer_fail_nonfinite(syn_optimizer *o, syn_error *err) {
    syn_ctx *ctx = o->ctx;
    for (size_t i = 0; i < syn_ctx_param_count(ctx); i++) {
        const syn_param_info p = syn_ctx_param(ctx, i);
        const syn_tensor grad = syn_grad(ctx, p.tensor);
        float value = 0;
        const bool part = is_part(o, o->buckets->of_param[i]);
        if (part) SYN_TRY(look_at_part(o, i, &value, err));
        if (part ? !isfinite(value) : !is_finite(ctx, syn_square_sum(ctx, &grad, 1), &value))
            return SYN_FAIL(err, SYN_E_INVALID, "step %lld: the gradient of '%s' is %s",
                            (long long)o->step + 1, p.name,
                            isnan(value) ? "NaN" : "infinite or too large");
    }
    return SYN_FAIL(err, SYN_E_INVALID,
                    "step %lld: a gradient of another rank is NaN or infinite, or the gradient "
                    "norm is too large",
                    (long long)o->step + 1);
}

static syn_status fail_loss(const syn_optimizer *o, float loss, syn_error *err) {
    return SYN_FAIL(err, SYN_E_INVALID, "step %lld: the loss is %s", (long long)o->step + 1,
                    isnan(loss) ? "NaN" : "infinite");
}

/* The norm, rounded to f32 as in syn_clip_factor. */
static double norm_of(float squares) {
    return (double)(float)sqrt((double)squares);
}

/* Reads the loss, if there is one, and the sum of squares, in one wait for the device. Without
 * checks, the sum is read only together with a loss, because it then costs no extra wait. */
static syn_status look(syn_optimizer *o, syn_tensor squares, syn_tensor loss, float *value,
                       syn_error *err) {
    const bool checked = !o->options.unchecked;
    syn_tensor asked[2];
    float x[2];
    int n = 0;
    if (loss.id) asked[n++] = loss;
    o->looked = squares.id && (checked || n > 0);
    if (o->looked) asked[n++] = squares;
    if (n == 0 || !syn_ctx_has_data(o->ctx)) {
        o->looked = false;
        return SYN_OK;
    }
    SYN_TRY(syn_tensor_read_scalars(o->ctx, asked, n, x));
    if (o->looked) o->squares = x[n - 1];
    if (loss.id) *value = x[0];
    if (checked && loss.id && !isfinite(x[0])) return fail_loss(o, x[0], err);
    return checked && !isfinite(o->squares) ? syn__optimizer_fail_nonfinite(o, err) : SYN_OK;
}

/* Queues the same reads without waiting. *asked: identifies them for syn__optimizer_settle. */
static syn_status ask(syn_optimizer *o, syn_tensor squares, syn_tensor loss, int *asked) {
    const syn_tensor both[2] = {loss, squares};
    o->looked = false;
    return syn_tensor_read_begin(o->ctx, both, squares.id ? 2 : 1, asked);
}

/* asked: see syn__optimizer_step_ahead; NULL: the step waits for the loss and the sum of
   squares. */
static syn_status scale_and_update(syn_optimizer *o, double learning_rate, syn_tensor loss,
                                   float *value, int *asked, syn_error *err) {
    syn_ctx *ctx = o->ctx;
    const double most = o->options.max_grad_norm;
    syn_tensor scale = o->one, squares = {0};
    if (most > 0 || !o->options.unchecked) squares = all_squares(o);
    SYN_TRY(asked ? ask(o, squares, loss, asked) : look(o, squares, loss, value, err));
    if (most > 0) scale = syn_clip_factor(ctx, squares, most, &o->norm);
    SYN_TRY(set_rates(o, learning_rate));
    for (size_t i = 0; i < o->buckets->n; i++) {
        if (is_part(o, i)) update_part(o, i, scale);
        else update(o, i, scale);
    }
    return SYN_OK;
}

static syn_status step(syn_optimizer *o, double learning_rate, syn_tensor loss, float *value,
                       int *asked, syn_error *err) {
    syn_ctx *ctx = o->ctx;
    const bool was = syn_set_grad(ctx, false);
    const syn_mark mark = syn_ctx_mark(ctx);
    o->norm = (syn_tensor){0}; /* the rows of the last step may have been dropped */
    syn_set_phase(ctx, SYN_PHASE_OPTIMIZER);
    syn_push_scope(ctx, "optimizer");
    const syn_status s = scale_and_update(o, learning_rate, loss, value, asked, err);
    syn_pop_scope(ctx);
    syn_set_phase(ctx, SYN_PHASE_FORWARD);
    syn_set_grad(ctx, was);
    if (s == SYN_OK) syn_drop_grads(ctx);
    syn_release(ctx, mark, &o->norm, o->norm.id ? 1 : 0);
    return syn_ctx_status(ctx) != SYN_OK ? syn_ctx_check(ctx, err) : s;
}

syn_status syn__optimizer_step(syn_optimizer *o, double learning_rate, syn_tensor loss,
                               float *value, syn_error *err) {
    return step(o, learning_rate, loss, value, NULL, err);
}

syn_status syn__optimizer_step_ahead(syn_optimizer *o, double learning_rate, syn_tensor loss,
                                     int *asked, syn_error *err) {
    float none;
    return step(o, learning_rate, loss, &none, asked, err);
}

syn_status syn__optimizer_settle(syn_optimizer *o, int asked, float *loss, double *norm,
                                 syn_error *err) {
    float x[2] = {0};
    SYN_TRY(syn_tensor_read_end(o->ctx, asked, x));
    *loss = x[0];
    *norm = norm_of(x[1]);
    if (o->options.unchecked || (isfinite(x[0]) && isfinite(x[1]))) return SYN_OK;
    o->step--;
    return isfinite(x[0]) ? SYN_FAIL(err, SYN_E_INVALID, "%s", "") : fail_loss(o, x[0], err);
}

double syn__optimizer_looked(const syn_optimizer *o) {
    return o->norm.id && o->looked ? norm_of(o->squares) : 0;
}

syn_status syn_optimizer_step(syn_optimizer *o, double learning_rate, syn_error *err) {
    float none;
    return syn__optimizer_step(o, learning_rate, (syn_tensor){0}, &none, err);
}

syn_status syn_optimizer_norm_value(const syn_optimizer *o, double *norm, syn_error *err) {
    float x = 0;
    *norm = syn__optimizer_looked(o);
    if (o->looked || !o->norm.id || !syn_ctx_has_data(o->ctx)) return SYN_OK;
    if (syn_tensor_read_scalars(o->ctx, &o->norm, 1, &x) != SYN_OK)
        return syn_ctx_check(o->ctx, err);
    *norm = (double)x;
    return SYN_OK;
}

double syn_learning_rate(double peak, int64_t step, int64_t warm_up, int64_t steps) {
    if (step < warm_up) return peak * (double)step / (double)warm_up;
    if (step >= steps) return 0;
    return peak * (double)(steps - step) / (double)(steps - warm_up);
}
