/* Token selection: argmax, top_k, repetition_penalty, sample. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"
#include "ops/rows.h"
#include "ops/rules.h"

/* One comparison per element. */
SYN__COST(select) {
    *cost = (syn_cost){syn__elems(&c->in[0]), syn__input_bytes(c), syn__output_bytes(c)};
}

static syn_status want_rows(const syn_call *c) {
    SYN_TRY(syn__check_float(c, 0));
    const syn_spec *x = &c->in[0].spec;
    return x->rank >= 1 && x->dims[x->rank - 1] >= 1 && x->dims[x->rank - 1] <= INT32_MAX
               ? SYN_OK
               : syn__bad_input(c, 0, "(..., V) with V from 1 to 2^31 - 1");
}

static syn_tensor choose(syn_ctx *ctx, syn_op op, syn_tensor x, const syn_attr *attr, int n_attr,
                         syn_tensor *out) {
    const syn_tensor in[1] = {syn__dense_last_dim(ctx, x)};
    syn__call_op(ctx, op, in, 1, attr, n_attr, NULL, out);
    return out[0];
}

struct candidate {
    float value;
    int32_t index;
};

/* Allocates `count` candidates and, before them, an f32 buffer for one row unless the logits are
   f32. */
static syn_status row_and(const syn_call *c, int64_t count, float **buffer,
                          struct candidate **candidates) {
    const syn_spec *shape = &c->in[0].spec;
    const int64_t n = syn__is_f32(&c->in[0]) ? 0 : syn__padded_floats(shape->dims[shape->rank - 1]);
    void *scratch;
    SYN_TRY(syn__scratch(c, (size_t)n * sizeof **buffer + (size_t)count * sizeof **candidates,
                         "logits and candidates", &scratch));
    *buffer = scratch;
    if (candidates) *candidates = (struct candidate *)(*buffer + n);
    return SYN_OK;
}

/* ---- argmax ---- */

SYN__INFER(argmax) {
    SYN_TRY(want_rows(c));
    c->out[0].spec = c->in[0].spec;
    c->out[0].spec.dtype = SYN_I32;
    c->out[0].spec.dims[--c->out[0].spec.rank] = 0;
    return SYN_OK;
}

static int32_t argmax_row(const float *x, int64_t n) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return (int32_t)best;
}

SYN__CPU(argmax) {
    const syn_spec *shape = &c->in[0].spec;
    const int64_t n = shape->dims[shape->rank - 1];
    const syn_operand *operands[1] = {&c->in[0]};
    int32_t *out = c->out[0].data;
    float *buffer;
    SYN_TRY(row_and(c, 0, &buffer, NULL));
    for (syn_row_iter r = {0}; syn__next_row(&r, shape, operands, 1);)
        *out++ = argmax_row(syn__load_row(&c->in[0], r.at[0], n, buffer), n);
    return SYN_OK;
}

syn_tensor syn_argmax(syn_ctx *ctx, syn_tensor x) {
    syn_tensor out;
    return choose(ctx, SYN_OP_ARGMAX, x, NULL, 0, &out);
}

/* ---- top_k ---- */

/* Orders by descending value, then by ascending index. */
static bool better(struct candidate a, struct candidate b) {
    return a.value > b.value || (a.value == b.value && a.index < b.index);
}

static int compare(const void *a, const void *b) {
    return better(*(const struct candidate *)a, *(const struct candidate *)b) ? -1 : 1;
}

/* Finds the k best of n elements and stores them in `heap`, the best first. During the search the k
   best elements so far are in a heap with the worst on top, which is sorted at the end. */
static void best_k(const float *x, int64_t n, int64_t k, struct candidate *heap) {
    int64_t size = 0;
    for (int64_t i = 0; i < n; i++) {
        struct candidate c = {x[i], (int32_t)i};
        int64_t at;
        if (size < k) {
            for (at = size++; at > 0 && better(heap[(at - 1) / 2], c); at = (at - 1) / 2)
                heap[at] = heap[(at - 1) / 2];
        } else {
            if (!better(c, heap[0])) continue;
            for (at = 0; 2 * at + 1 < size;) {
                int64_t child = 2 * at + 1;
                if (child + 1 < size && better(heap[child], heap[child + 1])) child++;
                if (!better(c, heap[child])) break;
                heap[at] = heap[child];
                at = child;
            }
        }
        heap[at] = c;
    }
    qsort(heap, (size_t)k, sizeof *heap, compare);
}

SYN__INFER(top_k) {
    SYN_TRY(want_rows(c));
    const int last = c->in[0].spec.rank - 1;
    if (c->attr[0].i < 1 || c->attr[0].i > c->in[0].spec.dims[last])
        return SYN_FAIL(c->err, SYN_E_SHAPE, "k = %lld is not between 1 and %lld",
                        (long long)c->attr[0].i, (long long)c->in[0].spec.dims[last]);
    c->out[0].spec = c->out[1].spec = c->in[0].spec;
    c->out[0].spec.dims[last] = c->out[1].spec.dims[last] = c->attr[0].i;
    c->out[1].spec.dtype = SYN_I32;
    return SYN_OK;
}

SYN__CPU(top_k) {
    const syn_spec *shape = &c->in[0].spec;
    const int64_t n = shape->dims[shape->rank - 1], k = c->attr[0].i;
    const syn_operand *operands[1] = {&c->in[0]};
    int32_t *indices = c->out[1].data;
    int64_t at = 0;
    struct candidate *heap;
    float *buffer;
    SYN_TRY(row_and(c, k, &buffer, &heap));
    for (syn_row_iter r = {0}; syn__next_row(&r, shape, operands, 1); at += k) {
        best_k(syn__load_row(&c->in[0], r.at[0], n, buffer), n, k, heap);
        for (int64_t i = 0; i < k; i++) indices[at + i] = heap[i].index;
        float *values = syn__row_dest(&c->out[0], at, buffer); /* the values fit, because k <= n */
        for (int64_t i = 0; i < k; i++) values[i] = heap[i].value;
        syn__store_row(&c->out[0], at, k, buffer);
    }
    return SYN_OK;
}

syn_tensor syn_top_k(syn_ctx *ctx, syn_tensor x, int64_t k, syn_tensor *indices) {
    syn_tensor out[2];
    const syn_attr attr[1] = {{.i = k}};
    choose(ctx, SYN_OP_TOP_K, x, attr, 1, out);
    *indices = out[1];
    return out[0];
}

/* ---- repetition_penalty ---- */

SYN__INFER(repetition_penalty) {
    SYN_TRY(want_rows(c));
    SYN_TRY(syn__check_dtype(c, 1, SYN_I32));
    const syn_spec *logits = &c->in[0].spec, *seen = &c->in[1].spec;
    if (logits->rank != 2) return syn__bad_input(c, 0, "logits (B, V)");
    if (seen->rank != 2 || seen->dims[0] != logits->dims[0])
        return syn__bad_input(c, 1, "ids (B, N) for logits (B, V)");
    if (!(c->attr[0].f > 0.0 && isfinite(c->attr[0].f)))
        return SYN_FAIL(c->err, SYN_E_INVALID, "the penalty %g is not a finite number above 0",
                        c->attr[0].f);
    c->out[0].spec = *logits;
    return SYN_OK;
}

/* Copies all logits; one operation per token in `seen`. */
SYN__COST(repetition_penalty) {
    *cost = (syn_cost){syn__elems(&c->in[1]), syn__input_bytes(c), syn__output_bytes(c)};
}

/* Starts from the old logit each time, so a token that was seen twice is penalized once. */
static syn_status penalize(const syn_call *c, int64_t row, const int32_t *seen) {
    const float penalty = (float)c->attr[0].f;
    const int64_t vocab = c->in[0].spec.dims[1], from = row * c->in[0].strides[0];
    for (int64_t i = 0; i < c->in[1].spec.dims[1]; i++) {
        float buffer;
        if (seen[i] < 0) continue;
        if (seen[i] >= vocab)
            return SYN_FAIL(c->err, SYN_E_INVALID,
                            "token id %d is out of range: there are %lld tokens", seen[i],
                            (long long)vocab);
        const float x = *syn__load_row(&c->in[0], from + seen[i], 1, &buffer);
        *syn__row_dest(&c->out[0], row * vocab + seen[i], &buffer) =
            x < 0 ? x * penalty : x / penalty;
        syn__store_row(&c->out[0], row * vocab + seen[i], 1, &buffer);
    }
    return SYN_OK;
}

SYN__CPU(repetition_penalty) {
    const syn_operand *logits = &c->in[0], *seen = &c->in[1];
    const size_t elem = syn_dtype_bytes((syn_dtype)logits->spec.dtype);
    const size_t bytes = (size_t)logits->spec.dims[1] * elem;
    for (int64_t b = 0; b < logits->spec.dims[0]; b++) {
        memcpy((char *)c->out[0].data + (size_t)b * bytes,
               (const char *)logits->data + (size_t)(b * logits->strides[0]) * elem, bytes);
        SYN_TRY(penalize(c, b, (const int32_t *)seen->data + b * seen->strides[0]));
    }
    return SYN_OK;
}

syn_tensor syn_repetition_penalty(syn_ctx *ctx, syn_tensor logits, syn_tensor seen,
                                  double penalty) {
    syn_tensor out;
    const syn_tensor in[2] = {syn__dense_last_dim(ctx, logits), syn__dense_last_dim(ctx, seen)};
    const syn_attr attr[1] = {{.f = penalty}};
    syn__call_op(ctx, SYN_OP_REPETITION_PENALTY, in, 2, attr, 1, NULL, &out);
    return out;
}

/* ---- sample ---- */

/* Returns min_p, an optional last attribute, which is recorded only if it is not 0. */
static double min_p_of(const syn_call *c) {
    return c->n_attr > 5 ? c->attr[5].f : 0.0;
}

SYN__INFER(sample) {
    SYN_TRY(want_rows(c));
    if (c->in[0].spec.rank != 2) return syn__bad_input(c, 0, "logits (B, V)");
    if (!(c->attr[0].f >= 0.0 && isfinite(c->attr[0].f)))
        return SYN_FAIL(c->err, SYN_E_INVALID, "the temperature %g is not a finite number >= 0",
                        c->attr[0].f);
    if (c->attr[1].i < 0)
        return SYN_FAIL(c->err, SYN_E_INVALID, "top_k = %lld is negative", (long long)c->attr[1].i);
    if (!(c->attr[2].f > 0.0 && c->attr[2].f <= 1.0))
        return SYN_FAIL(c->err, SYN_E_INVALID, "top_p = %g is not in (0, 1]", c->attr[2].f);
    if (!(min_p_of(c) >= 0.0 && min_p_of(c) <= 1.0))
        return SYN_FAIL(c->err, SYN_E_INVALID, "min_p = %g is not in [0, 1]", min_p_of(c));
    c->out[0].spec = (syn_spec){SYN_I32, 1, {c->in[0].spec.dims[0]}};
    return SYN_OK;
}

/* 5 operations per logit: scale, subtract, exponential, sum, compare. */
SYN__COST(sample) {
    *cost = (syn_cost){5 * syn__elems(&c->in[0]), syn__input_bytes(c), syn__output_bytes(c)};
}

/* Number of candidates in the nucleus: the smallest number of candidates whose probabilities
   together reach top_p. `best` is sorted. `sum` is the sum of the likelihoods of all candidates. */
static int64_t nucleus(const struct candidate *best, int64_t n, double max, double temperature,
                       double sum, double top_p) {
    double reached = 0;
    for (int64_t i = 0; i < n; i++) {
        reached += exp(((double)best[i].value - max) / temperature) / sum;
        if (reached >= top_p) return i + 1;
    }
    return n;
}

/* Samples from the candidates that are at least min_p times as likely as the most likely one, in
   proportion to their probability. Returns the last one if the probabilities are NaN. */
static int32_t sample_among(struct candidate *best, int64_t n, double max, double temperature,
                            double min_p, double uniform) {
    double sum = 0;
    if (min_p > 0.0) {
        int64_t kept = 0;
        for (int64_t i = 0; i < n; i++)
            if (exp(((double)best[i].value - max) / temperature) >= min_p) best[kept++] = best[i];
        if (kept > 0) n = kept;
    }
    for (int64_t i = 0; i < n; i++) sum += exp(((double)best[i].value - max) / temperature);
    double left = uniform * sum;
    for (int64_t i = 0; i < n; i++) {
        left -= exp(((double)best[i].value - max) / temperature);
        if (left < 0) return best[i].index;
    }
    return best[n - 1].index;
}

/* scratch: space for n candidates. */
static int32_t sample_row(const syn_call *c, const float *x, int64_t n, struct candidate *scratch,
                          double uniform) {
    const double temperature = c->attr[0].f, top_p = c->attr[2].f, min_p = min_p_of(c);
    const int64_t top_k = c->attr[1].i > 0 && c->attr[1].i < n ? c->attr[1].i : n;
    const int32_t best = argmax_row(x, n);
    if (temperature == 0.0) return best;
    const double max = (double)x[best]; /* divide by the temperature, because its inverse could
                                           overflow */
    if (top_k == n && top_p == 1.0) {   /* the order does not matter, so no sorting */
        for (int64_t i = 0; i < n; i++) scratch[i] = (struct candidate){x[i], (int32_t)i};
        return sample_among(scratch, n, max, temperature, min_p, uniform);
    }
    double sum = 0;
    if (top_k == n)
        for (int64_t i = 0; i < n; i++) sum += exp(((double)x[i] - max) / temperature);
    /* The nucleus is usually small: try the 64 best candidates, then repeatedly 8 times as many,
       until the nucleus fits. */
    int64_t take = top_k < 64 || top_p == 1.0 ? top_k : 64;
    for (;; take = take * 8 < top_k ? take * 8 : top_k) {
        best_k(x, n, take, scratch);
        if (top_k < n && (take == top_k || sum == 0.0)) {
            if (take < top_k) best_k(x, n, take = top_k, scratch);
            sum = 0;
            for (int64_t i = 0; i < take; i++)
                sum += exp(((double)scratch[i].value - max) / temperature);
        }
        const int64_t size = nucleus(scratch, take, max, temperature, sum, top_p);
        if (size < take || take == top_k)
            return sample_among(scratch, size, max, temperature, min_p, uniform);
    }
}

SYN__CPU(sample) {
    const int64_t rows = c->in[0].spec.dims[0], n = c->in[0].spec.dims[1];
    struct candidate *scratch;
    float *buffer;
    SYN_TRY(row_and(c, n, &buffer, &scratch));
    const uint64_t key = syn__counter_hash((uint64_t)c->attr[3].i, (uint64_t)c->attr[4].i + 1);
    int32_t *out = c->out[0].data;
    for (int64_t b = 0; b < rows; b++)
        out[b] = sample_row(c, syn__load_row(&c->in[0], b * c->in[0].strides[0], n, buffer), n,
                            scratch, syn__counter_uniform(key, (uint64_t)b));
    return SYN_OK;
}

syn_tensor syn_sample(syn_ctx *ctx, syn_tensor logits, const syn_sampling *how, int64_t step) {
    const syn_attr attr[6] = {{.f = how->temperature},   {.i = how->top_k}, {.f = how->top_p},
                              {.i = (int64_t)how->seed}, {.i = step},       {.f = how->min_p}};
    syn_tensor out;
    return choose(ctx, SYN_OP_SAMPLE, logits, attr, how->min_p == 0.0 ? 5 : 6, &out);
}
