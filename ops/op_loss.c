/* Cross-entropy loss, for complete logits and for logits sharded over ranks; fused, and as PyTorch
   computes it. */
#include <math.h>
#include <string.h>

#include "ops/ops.h"
#include "ops/rows.h"
#include "ops/rules.h"

/* ---- cross_entropy: the forward op also computes the gradient, in place of the logits ---- */

/* Checks logits (..., V) and targets (...). */
static syn_status check_logits(const syn_call *c) {
    const syn_spec *logits = &c->in[0].spec, *targets = &c->in[1].spec;
    SYN_TRY(syn__check_float(c, 0));
    SYN_TRY(syn__check_dtype(c, 1, SYN_I32));
    const int last = logits->rank - 1;
    bool ok = targets->rank == last;
    for (int d = 0; ok && d < last; d++) ok = targets->dims[d] == logits->dims[d];
    return last >= 0 && ok && syn__is_dense(&c->in[1])
               ? SYN_OK
               : syn__bad_input(c, 1, "(...) for logits (..., V)");
}

static syn_status check_classes(const syn_call *c, int64_t least) {
    const syn_spec *logits = &c->in[0].spec;
    const int64_t classes = c->attr[0].i, width = logits->dims[logits->rank - 1];
    if (classes >= least && classes <= width) return SYN_OK;
    return SYN_FAIL(c->err, SYN_E_SHAPE, "%lld classes, but the logits have %lld",
                    (long long)classes, (long long)width);
}

/* Checks the optional weight (input i) and sets the output shapes: the gradient, and the loss as a
   scalar. */
static syn_status finish_shapes(syn_call *c, int i) {
    if (c->n_in > i) SYN_TRY(syn__check_dtype(c, i, SYN_F32));
    if (c->n_in > i && syn_spec_elems(&c->in[i].spec) != 1)
        return syn__bad_input(c, i, "one number");
    c->out[0].spec = c->in[0].spec;
    c->out[1].spec = (syn_spec){SYN_F32, 0, {0}};
    return SYN_OK;
}

SYN__INFER(cross_entropy) {
    SYN_TRY(check_logits(c));
    SYN_TRY(check_classes(c, 1));
    return finish_shapes(c, 2);
}

/* 5 operations per element: the 4 of softmax, and one to subtract the target. */
SYN__COST(cross_entropy) {
    const uint64_t bytes = syn_spec_bytes(&c->in[0].spec);
    *cost = (syn_cost){5 * syn__elems(&c->in[0]), syn__input_bytes(c), bytes + sizeof(float)};
}

struct losses {
    const syn_call *c;
    double *of_row;
    float *buffers; /* a buffer for one row per worker; NULL if the logits are f32 */
    int64_t buffer_floats;
    float weight;
    int64_t classes, width, first;
    const float *max, *sum, *target_logit; /* values reduced over all ranks; NULL: this rank has all
                                       classes */
};

/* Replaces the logits x of one row by their gradient and returns the row's loss. */
static double whole_row(const struct losses *s, float *x, int32_t target) {
    const float target_logit = x[target];
    float log_sum;
    syn__row_kernels()->softmax_log(x, s->weight, &log_sum, x, s->classes);
    x[target] -= s->weight;
    return (double)log_sum - (double)target_logit;
}

static double part_of_row(const struct losses *s, float *x, int64_t row, int32_t target) {
    const int64_t at = target - s->first;
    syn__row_kernels()->exp_scale(x, s->max[row], s->weight / s->sum[row], x, s->classes);
    if (at >= 0 && at < s->classes) x[at] -= s->weight;
    return log((double)s->sum[row]) + (double)s->max[row] - (double)s->target_logit[row];
}

static void row_losses(void *arg, int64_t begin, int64_t end, int worker) {
    const struct losses *s = arg;
    const syn_operand *logits = &s->c->in[0];
    const int32_t *targets = s->c->in[1].data;
    float *buffer = s->buffers ? s->buffers + worker * s->buffer_floats : NULL;
    syn_row_iter r;
    syn__seek_row(&r, &logits->spec, &logits, 1, begin);
    for (int64_t row = begin; row < end; row++) {
        float *x = syn__row_dest(logits, r.at[0], buffer);
        const bool ignored = targets[row] == SYN_IGNORED_TARGET;
        const int64_t kept = ignored ? 0 : s->classes;
        (void)syn__load_row(logits, r.at[0], kept, x);
        s->of_row[row] = ignored  ? 0
                         : s->max ? part_of_row(s, x, row, targets[row])
                                  : whole_row(s, x, targets[row]);
        memset(x + kept, 0, (size_t)(s->width - kept) * sizeof *x);
        syn__store_row(logits, r.at[0], s->width, x);
        syn__next_row(&r, &logits->spec, &logits, 1);
    }
}

/* Counts the targets that are not ignored. A target that is not a class is an error. With sharded
   logits (`parts`), only negative targets are errors, because a rank does not know the total number
   of classes. */
static syn_status count(const syn_call *c, bool parts, int64_t *n) {
    const int32_t *targets = c->in[1].data;
    const int64_t rows = syn_spec_elems(&c->in[1].spec);
    *n = 0;
    for (int64_t i = 0; i < rows; i++) {
        if (targets[i] == SYN_IGNORED_TARGET) continue;
        if (targets[i] < 0 || (!parts && targets[i] >= c->attr[0].i))
            return SYN_FAIL(c->err, SYN_E_INVALID,
                            "target %lld is %d, which is out of range: there are %lld classes",
                            (long long)i, targets[i], (long long)c->attr[0].i);
        ++*n;
    }
    return SYN_OK;
}

/* weight: number of the optional weight input. */
static syn_status all_losses(syn_call *c, struct losses *s, int weight) {
    const int64_t rows = syn_spec_elems(&c->in[1].spec);
    int64_t counted;
    double sum = 0;
    SYN_TRY(count(c, s->max != NULL, &counted));
    s->c = c;
    s->classes = c->attr[0].i;
    s->width = c->in[0].spec.dims[c->in[0].spec.rank - 1];
    s->weight = c->n_in > weight ? *(const float *)c->in[weight].data
                                 : 1.0f / (float)(counted ? counted : 1);
    s->buffer_floats = syn__is_f32(&c->in[0]) ? 0 : syn__padded_floats(s->width);
    const int64_t buffers = syn_workers_count(c->workers) * s->buffer_floats;
    void *scratch;
    SYN_TRY(syn__scratch(c, (size_t)rows * sizeof *s->of_row + (size_t)buffers * sizeof *s->buffers,
                         "losses", &scratch));
    s->buffers = buffers ? scratch : NULL;
    s->of_row = (double *)((float *)scratch + buffers);
    syn_workers_ranges(c->workers, rows, SYN__GRAIN_MATH / (s->width + 1) + 1, row_losses, s);
    for (int64_t i = 0; i < rows; i++) sum += s->of_row[i];
    *(float *)c->out[1].data = (float)(sum * (double)s->weight);
    return SYN_OK;
}

SYN__CPU(cross_entropy) {
    struct losses s = {.max = NULL};
    return all_losses(c, &s, 2);
}

/* The logits' buffer already contains the gradient of the loss. The gradient is multiplied only if
   the loss is not the tensor that syn_backward started from. */
SYN__GRAD(cross_entropy) {
    const syn_dtype dtype = (syn_dtype)syn_tensor_spec(g->ctx, g->out[0])->dtype;
    g->din[0] = g->seed == 1
                    ? g->out[0]
                    : syn_mul(g->ctx, g->out[0], syn_cast(g->ctx, syn_grad_out(g, 1), dtype));
}

syn_tensor syn_cross_entropy(syn_ctx *ctx, syn_tensor logits, syn_tensor targets, syn_tensor weight,
                             int64_t classes) {
    const syn_tensor in[3] = {logits, syn_contiguous(ctx, targets), weight};
    const syn_attr attr[1] = {{.i = classes}};
    syn_tensor out[2];
    syn__call_op(ctx, SYN_OP_CROSS_ENTROPY, in, weight.id ? 3 : 2, attr, 1, NULL, out);
    return out[1];
}

/* ---- logits sharded over ranks ---- */

/* Computes this rank's part for each target: its largest logit, the sum of exp(logit - largest),
   and the target's logit, or 0 if another rank has it. */
SYN__INFER(cross_entropy_part) {
    SYN_TRY(check_logits(c));
    SYN_TRY(check_classes(c, 0));
    for (int i = 0; i < 3; i++) {
        c->out[i].spec = c->in[1].spec;
        c->out[i].spec.dtype = SYN_F32;
    }
    return SYN_OK;
}

/* 3 operations per element: subtract, exponential, sum. */
SYN__COST(cross_entropy_part) {
    *cost = (syn_cost){3 * syn__elems(&c->in[0]), syn__input_bytes(c), syn__output_bytes(c)};
}

static void part_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const struct losses *s = arg;
    const syn_call *c = s->c;
    const syn_operand *logits = &c->in[0];
    const int32_t *targets = c->in[1].data;
    float *max = c->out[0].data, *sum = c->out[1].data, *target_logit = c->out[2].data;
    float *buffer = s->buffers ? s->buffers + worker * s->buffer_floats : NULL;
    syn_row_iter r;
    syn__seek_row(&r, &logits->spec, &logits, 1, begin);
    for (int64_t row = begin; row < end; row++) {
        const float *x = syn__load_row(logits, r.at[0], c->attr[0].i, buffer);
        const int64_t at = targets[row] - c->attr[1].i;
        syn__row_kernels()->exp_sum(x, &max[row], &sum[row], c->attr[0].i);
        target_logit[row] = at >= 0 && at < c->attr[0].i ? x[at] : 0;
        syn__next_row(&r, &logits->spec, &logits, 1);
    }
}

SYN__CPU(cross_entropy_part) {
    const int64_t rows = syn_spec_elems(&c->in[1].spec);
    struct losses s = {
        .c = c, .buffer_floats = syn__is_f32(&c->in[0]) ? 0 : syn__padded_floats(c->attr[0].i)};
    SYN_TRY(syn__worker_buffers(c, s.buffer_floats, &s.buffers));
    syn_workers_ranges(c->workers, rows, SYN__GRAIN_MATH / (c->attr[0].i + 1) + 1, part_rows, &s);
    return SYN_OK;
}

/* sum * exp(max - all): rescales a rank's sum of exponentials to the largest logit of all ranks. */
SYN__INFER(exp_rescale) {
    for (int i = 0; i < 3; i++) {
        SYN_TRY(syn__check_dtype(c, i, SYN_F32));
        if (!syn_spec_equal(&c->in[i].spec, &c->in[0].spec) || !syn__is_dense(&c->in[i]))
            return syn__bad_input(c, i, "contiguous and like input 0");
    }
    c->out[0].spec = c->in[0].spec;
    return SYN_OK;
}

SYN__COST(exp_rescale) {
    *cost = (syn_cost){3 * syn__elems(&c->out[0]), syn__input_bytes(c), syn__output_bytes(c)};
}

SYN__CPU(exp_rescale) {
    const float *sum = c->in[0].data, *max = c->in[1].data, *all = c->in[2].data;
    float *out = c->out[0].data;
    for (int64_t i = 0; i < syn_spec_elems(&c->out[0].spec); i++)
        out[i] = sum[i] > 0 ? sum[i] * expf(max[i] - all[i]) : 0;
    return SYN_OK;
}

/* Inputs: logits, targets; max, sum and target logit reduced over all ranks; optional weight. */
SYN__INFER(cross_entropy_join) {
    SYN_TRY(check_logits(c));
    SYN_TRY(check_classes(c, 0));
    for (int i = 2; i < 5; i++) {
        SYN_TRY(syn__check_dtype(c, i, SYN_F32));
        if (syn__elems(&c->in[i]) != syn__elems(&c->in[1]) || !syn__is_dense(&c->in[i]))
            return syn__bad_input(c, i, "one number per target");
    }
    return finish_shapes(c, 5);
}

SYN__CPU(cross_entropy_join) {
    struct losses s = {.first = c->attr[1].i,
                       .max = c->in[2].data,
                       .sum = c->in[3].data,
                       .target_logit = c->in[4].data};
    return all_losses(c, &s, 5);
}

/* Sets in[2..4] to the largest logit, the sum of exponentials and the target's logit of each row,
   over all ranks of the group; NULL: of this rank. in[0], in[1]: logits and targets. */
static void reduce_parts(syn_ctx *ctx, syn_tensor in[5], const syn_attr attr[2],
                         const syn_group *group) {
    syn__call_op(ctx, SYN_OP_CROSS_ENTROPY_PART, in, 2, attr, 2, NULL, in + 2);
    if (group == NULL) return;
    const syn_tensor all = syn_all_reduce(ctx, in[2], SYN_REDUCE_MAX, group);
    const syn_tensor sums[3] = {in[3], in[2], all};
    syn_tensor sum;
    syn__call_op(ctx, SYN_OP_EXP_RESCALE, sums, 3, NULL, 0, NULL, &sum);
    in[2] = all;
    in[3] = syn_all_reduce(ctx, sum, SYN_REDUCE_SUM, group);
    in[4] = syn_all_reduce(ctx, in[4], SYN_REDUCE_SUM, group);
}

syn_tensor syn_cross_entropy_sharded(syn_ctx *ctx, syn_tensor logits, syn_tensor targets,
                                     syn_tensor weight, int64_t classes, int64_t first,
                                     const syn_group *group) {
    const syn_attr attr[2] = {{.i = classes}, {.i = first}};
    syn_tensor in[6] = {logits, syn_contiguous(ctx, targets)}, out[2];
    reduce_parts(ctx, in, attr, group);
    in[5] = weight;
    syn__call_op(ctx, SYN_OP_CROSS_ENTROPY_JOIN, in, weight.id ? 6 : 5, attr, 2, NULL, out);
    return out[1];
}

/* ---- the loss of PyTorch, which is not fused ---- */

/* Inputs and weight as those of cross_entropy_join -> the log-softmax of the logits, and the loss.
   The columns of padding are 0. */
SYN__INFER(log_softmax_loss) {
    SYN_TRY(syn__check_dtype(c, 0, SYN_F32));
    if (!syn__is_dense(&c->in[0])) return syn__bad_input(c, 0, "contiguous");
    return syn__cross_entropy_join_infer(c);
}

/* 1 operation per element: subtract. */
SYN__COST(log_softmax_loss) {
    *cost = (syn_cost){syn__elems(&c->in[0]), syn__input_bytes(c), syn__output_bytes(c)};
}

/* The rows of an op on dense f32 tensors, of width `width`. */
struct log_rows {
    const syn_call *c;
    const int32_t *targets;
    double *of_row;
    float weight;
    int64_t classes, width, first;
};

static void log_softmax_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const struct log_rows *s = arg;
    const syn_operand *in = s->c->in;
    const float *max = in[2].data, *sum = in[3].data, *target_logit = in[4].data;
    (void)worker;
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)in[0].data + row * s->width;
        float *y = (float *)s->c->out[0].data + row * s->width;
        const double log_sum = log((double)sum[row]) + (double)max[row];
        const float shift = (float)log_sum;
        for (int64_t i = 0; i < s->classes; i++) y[i] = x[i] - shift;
        memset(y + s->classes, 0, (size_t)(s->width - s->classes) * sizeof *y);
        s->of_row[row] =
            s->targets[row] == SYN_IGNORED_TARGET ? 0 : log_sum - (double)target_logit[row];
    }
}

/* The optional weight (input i), or else 1 / (number of targets not ignored). */
static float weight_of(const syn_call *c, const syn_operand *targets, int i) {
    const int32_t *t = targets->data;
    int64_t n = 0;
    if (c->n_in > i) return *(const float *)c->in[i].data;
    for (int64_t k = 0; k < syn_spec_elems(&targets->spec); k++) n += t[k] != SYN_IGNORED_TARGET;
    return 1.0f / (float)(n > 0 ? n : 1);
}

static syn_status check_targets(const syn_call *c) {
    syn_call of = *c;
    int64_t unused;
    of.attr = &c->attr[2]; /* the classes of all ranks */
    return count(&of, false, &unused);
}

SYN__CPU(log_softmax_loss) {
    const int64_t rows = syn_spec_elems(&c->in[1].spec);
    struct log_rows s = {.c = c,
                         .targets = c->in[1].data,
                         .classes = c->attr[0].i,
                         .width = c->in[0].spec.dims[c->in[0].spec.rank - 1]};
    void *scratch;
    double sum = 0;
    SYN_TRY(check_targets(c));
    s.weight = weight_of(c, &c->in[1], 5);
    SYN_TRY(syn__scratch(c, (size_t)rows * sizeof *s.of_row, "losses", &scratch));
    s.of_row = scratch;
    syn_workers_ranges(c->workers, rows, SYN__GRAIN_MATH / (s.width + 1) + 1, log_softmax_rows, &s);
    for (int64_t i = 0; i < rows; i++) sum += s.of_row[i];
    *(float *)c->out[1].data = (float)(sum * (double)s.weight);
    return SYN_OK;
}

/* Builds the gradient of the log-softmax, which is -weight at the target and else 0, and from it
   the gradient of the logits. */
SYN__GRAD(log_softmax_loss) {
    const syn_spec *y = syn_tensor_spec(g->ctx, g->out[0]);
    const int weighted = g->n_in > 5;
    const syn_attr attr[3] = {g->attr[0], g->attr[1], {.i = y->dims[y->rank - 1]}};
    const syn_tensor dloss = syn_grad_out(g, 1);
    const syn_tensor nll[3] = {g->in[1], dloss, weighted ? g->in[5] : SYN_MEAN};
    syn_tensor in[5] = {g->out[0], {0, 0}, g->in[1], dloss, nll[2]};
    syn__call_op(g->ctx, SYN_OP_NLL_GRAD, nll, 2 + weighted, attr, 3, NULL, &in[1]);
    syn__call_op(g->ctx, SYN_OP_LOG_SOFTMAX_GRAD, in, 4 + weighted, attr, 1, NULL, &g->din[0]);
}

static syn_status check_scalars(const syn_call *c, int first) {
    for (int i = first; i < c->n_in; i++) {
        SYN_TRY(syn__check_dtype(c, i, SYN_F32));
        if (syn_spec_elems(&c->in[i].spec) != 1) return syn__bad_input(c, i, "one number");
    }
    return SYN_OK;
}

/* targets (...), gradient of the loss, optional weight -> the gradient of the log-softmax
   (..., width). */
SYN__INFER(nll_grad) {
    syn_spec *out = &c->out[0].spec;
    SYN_TRY(syn__check_dtype(c, 0, SYN_I32));
    if (!syn__is_dense(&c->in[0]) || c->in[0].spec.rank >= SYN_MAX_RANK)
        return syn__bad_input(c, 0, "contiguous targets");
    SYN_TRY(check_scalars(c, 1));
    *out = c->in[0].spec;
    out->dtype = SYN_F32;
    out->dims[out->rank++] = c->attr[2].i;
    return SYN_OK;
}

SYN__COST(nll_grad) {
    *cost = (syn_cost){0, syn__input_bytes(c), syn__output_bytes(c)};
}

static void nll_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const struct log_rows *s = arg;
    (void)worker;
    for (int64_t row = begin; row < end; row++) {
        float *dy = (float *)s->c->out[0].data + row * s->width;
        const int64_t at = s->targets[row] - s->first;
        memset(dy, 0, (size_t)s->width * sizeof *dy);
        if (s->targets[row] != SYN_IGNORED_TARGET && at >= 0 && at < s->classes)
            dy[at] = -s->weight;
    }
}

SYN__CPU(nll_grad) {
    struct log_rows s = {.c = c,
                         .targets = c->in[0].data,
                         .classes = c->attr[0].i,
                         .first = c->attr[1].i,
                         .width = c->attr[2].i};
    s.weight = weight_of(c, &c->in[0], 2) * *(const float *)c->in[1].data;
    syn_workers_ranges(c->workers, syn_spec_elems(&c->in[0].spec),
                       SYN__GRAIN_MATH / (s.width + 1) + 1, nll_rows, &s);
    return SYN_OK;
}

/* Log-softmax y, its gradient dy, targets, gradient of the loss, optional weight -> the gradient of
   the logits, dy - exp(y) * (sum of dy over the row on all ranks). This sum is -weight, or 0 for an
   ignored target. */
SYN__INFER(log_softmax_grad) {
    for (int i = 0; i < 2; i++) {
        SYN_TRY(syn__check_dtype(c, i, SYN_F32));
        if (!syn_spec_equal(&c->in[i].spec, &c->in[0].spec) || !syn__is_dense(&c->in[i]))
            return syn__bad_input(c, i, "contiguous and like input 0");
    }
    SYN_TRY(syn__check_dtype(c, 2, SYN_I32));
    SYN_TRY(check_classes(c, 0));
    SYN_TRY(check_scalars(c, 3));
    const int last = c->in[0].spec.rank - 1;
    if (!syn__is_dense(&c->in[2]) ||
        syn__elems(&c->in[2]) * (uint64_t)c->in[0].spec.dims[last] != syn__elems(&c->in[0]))
        return syn__bad_input(c, 2, "one target per row");
    c->out[0].spec = c->in[0].spec;
    return SYN_OK;
}

/* 3 operations per element: exponential, multiply, add. */
SYN__COST(log_softmax_grad) {
    *cost = (syn_cost){3 * syn__elems(&c->in[0]), syn__input_bytes(c), syn__output_bytes(c)};
}

static void log_softmax_grad_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const struct log_rows *s = arg;
    const syn_operand *in = s->c->in;
    (void)worker;
    for (int64_t row = begin; row < end; row++) {
        const float *y = (const float *)in[0].data + row * s->width,
                    *dy = (const float *)in[1].data + row * s->width;
        float *dx = (float *)s->c->out[0].data + row * s->width;
        const int64_t used = s->targets[row] == SYN_IGNORED_TARGET ? 0 : s->classes;
        syn__row_kernels()->exp_scale(y, 0, s->weight, dx, used);
        for (int64_t i = 0; i < used; i++) dx[i] += dy[i];
        memset(dx + used, 0, (size_t)(s->width - used) * sizeof *dx);
    }
}

SYN__CPU(log_softmax_grad) {
    struct log_rows s = {.c = c,
                         .targets = c->in[2].data,
                         .classes = c->attr[0].i,
                         .width = c->in[0].spec.dims[c->in[0].spec.rank - 1]};
    s.weight = weight_of(c, &c->in[2], 4) * *(const float *)c->in[3].data;
    syn_workers_ranges(c->workers, syn_spec_elems(&c->in[2].spec),
                       SYN__GRAIN_MATH / (s.width + 1) + 1, log_softmax_grad_rows, &s);
    return SYN_OK;
}

syn_tensor syn_cross_entropy_unfused(syn_ctx *ctx, syn_tensor logits, syn_tensor targets,
                                     syn_tensor weight, int64_t classes, int64_t first, int64_t all,
                                     const syn_group *group) {
    const syn_attr attr[3] = {{.i = classes}, {.i = first}, {.i = all}};
    syn_tensor in[6] = {syn_contiguous(ctx, syn_cast(ctx, logits, SYN_F32)),
                        syn_contiguous(ctx, targets)},
               out[2];
    reduce_parts(ctx, in, attr, group);
    in[5] = weight;
    syn__call_op(ctx, SYN_OP_LOG_SOFTMAX_LOSS, in, weight.id ? 6 : 5, attr, 3, NULL, out);
    return out[1];
}
