/* Element by element: gelu, add, mul, scale, dropout, scale_mask. */
#include <math.h>

#include "ops/ops.h"
#include "ops/rules.h"

SYN__INFER(unary) {
    if (c->def->category != SYN_CATEGORY_DATA_MOVEMENT) SYN_TRY(syn__want_dtype(c, 0, SYN_F32));
    if (c->in[0].spec.rank < 1) return syn__bad_input(c, 0, "of at least one dimension");
    c->out[0].spec = c->in[0].spec;
    return SYN_OK;
}

/* One operation an element. */
SYN__COST(unary) {
    *cost = (syn_cost){syn__elems(&c->out[0]), syn__input_bytes(c), syn__output_bytes(c)};
}

/* Applies a row function to every row of input 0. */
static void each_row(syn_call *c, void (*f)(const syn_call *c, const float *in, float *out,
                                            int64_t n, int64_t first)) {
    const syn_spec *shape = &c->in[0].spec;
    const int64_t n = shape->dims[shape->rank - 1];
    const syn_operand *operands[1] = {&c->in[0]};
    const float *in = c->in[0].data;
    float *out = c->out[0].data;
    int64_t first = 0;
    for (syn_rows r = {0}; syn__next_row(&r, shape, operands, 1); first += n)
        f(c, in + r.at[0], out + first, n, first);
}

static syn_tensor unary(syn_ctx *ctx, syn_op op, syn_tensor x, const syn_attr *attr, int n_attr) {
    syn_tensor out;
    const syn_tensor in[1] = {syn__dense_rows(ctx, x)};
    syn__dispatch(ctx, op, in, 1, attr, n_attr, NULL, &out);
    return out;
}

/* ---- gelu ------------------------------------------------------------------------------------ */

SYN__COST(gelu) {
    *cost = (syn_cost){8 * syn__elems(&c->out[0]), syn__input_bytes(c), syn__output_bytes(c)};
}

static void gelu_row(const syn_call *c, const float *in, float *out, int64_t n, int64_t first) {
    (void)first;
    const bool tanh_form = c->attr[0].i != 0;
    for (int64_t i = 0; i < n; i++) {
        const float x = in[i];
        if (tanh_form)
            out[i] = 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
        else out[i] = 0.5f * x * (1.0f + erff(x * 0.7071067812f));
    }
}

SYN__CPU(gelu) {
    each_row(c, gelu_row);
    return SYN_OK;
}

syn_tensor syn_gelu(syn_ctx *ctx, syn_tensor x, bool tanh_form) {
    return unary(ctx, SYN_OP_GELU, x, &(syn_attr){.i = tanh_form}, 1);
}

/* ---- scale ----------------------------------------------------------------------------------- */

static void scale_row(const syn_call *c, const float *in, float *out, int64_t n, int64_t first) {
    (void)first;
    const float factor = (float)c->attr[0].f;
    for (int64_t i = 0; i < n; i++) out[i] = in[i] * factor;
}

SYN__CPU(scale) {
    each_row(c, scale_row);
    return SYN_OK;
}

syn_tensor syn_scale(syn_ctx *ctx, syn_tensor x, double factor) {
    return unary(ctx, SYN_OP_SCALE, x, &(syn_attr){.f = factor}, 1);
}

/* ---- dropout --------------------------------------------------------------------------------- */

SYN__INFER(dropout) {
    if (!(c->attr[0].f >= 0.0 && c->attr[0].f < 1.0))
        return SYN_FAIL(c->err, SYN_E_INVALID, "the probability %g is not in [0, 1)", c->attr[0].f);
    return syn__unary_infer(c);
}

static void dropout_row(const syn_call *c, const float *in, float *out, int64_t n, int64_t first) {
    const double p = c->attr[0].f;
    const uint64_t key = (uint64_t)c->attr[1].i;
    const float keep = (float)(1.0 / (1.0 - p));
    for (int64_t i = 0; i < n; i++) {
        const uint64_t index = (uint64_t)c->attr[2].i + (uint64_t)(first + i);
        out[i] = syn__counter_uniform(key, index) < p ? 0.0f : in[i] * keep;
    }
}

SYN__CPU(dropout) {
    each_row(c, dropout_row);
    return SYN_OK;
}

syn_tensor syn_dropout(syn_ctx *ctx, syn_tensor x, double p, uint64_t seed, int64_t first) {
    const syn_attr attr[3] = {{.f = p}, {.i = (int64_t)seed}, {.i = first}};
    return unary(ctx, SYN_OP_DROPOUT, x, attr, 3);
}

/* ---- scale and mask of attention scores ------------------------------------------------------ */

static void scale_mask_row(const syn_call *c, const float *in, float *out, int64_t n,
                           int64_t first) {
    const float scale = (float)c->attr[0].f;
    const syn_spec *shape = &c->in[0].spec;
    const int64_t rows = shape->rank > 1 ? shape->dims[shape->rank - 2] : 1;
    const int64_t visible =
        c->attr[1].i && c->attr[2].i < n ? (first / n) % rows + c->attr[2].i + 1 : n;
    for (int64_t i = 0; i < n; i++) out[i] = i < visible ? in[i] * scale : -INFINITY;
}

SYN__CPU(scale_mask) {
    each_row(c, scale_mask_row);
    return SYN_OK;
}

syn_tensor syn_scale_mask(syn_ctx *ctx, syn_tensor scores, double scale, bool causal,
                          int64_t offset) {
    const syn_attr attr[3] = {{.f = scale}, {.i = causal}, {.i = offset}};
    return unary(ctx, SYN_OP_SCALE_MASK, scores, attr, 3);
}

/* ---- add, mul: broadcasting ------------------------------------------------------------------ */

SYN__INFER(binary) {
    SYN_TRY(syn__want_dtype(c, 0, SYN_F32));
    SYN_TRY(syn__want_dtype(c, 1, SYN_F32));
    const syn_spec *a = &c->in[0].spec, *b = &c->in[1].spec;
    syn_spec *o = &c->out[0].spec;
    o->dtype = SYN_F32;
    o->rank = a->rank > b->rank ? a->rank : b->rank;
    for (int d = 0; d < o->rank; d++) {
        const int da = d - (o->rank - a->rank), db = d - (o->rank - b->rank);
        const int64_t na = da < 0 ? 1 : a->dims[da], nb = db < 0 ? 1 : b->dims[db];
        if (na != nb && na != 1 && nb != 1) {
            char x[SYN_SPEC_TEXT], y[SYN_SPEC_TEXT];
            return SYN_FAIL(c->err, SYN_E_SHAPE, "the shapes %s and %s do not broadcast",
                            syn_spec_text(a, x, sizeof x), syn_spec_text(b, y, sizeof y));
        }
        o->dims[d] = na == 1 ? nb : na;
    }
    return SYN_OK;
}

SYN__COST(binary) {
    *cost = (syn_cost){syn__elems(&c->out[0]), syn__input_bytes(c), syn__output_bytes(c)};
}

/* `o` stretched to `shape`: strides of 0 where it repeats. */
static syn_operand stretch(const syn_operand *o, const syn_spec *shape) {
    syn_operand s = *o;
    s.spec = *shape;
    const int lead = shape->rank - o->spec.rank;
    for (int d = shape->rank - 1; d >= 0; d--) {
        const bool repeats = d < lead || (o->spec.dims[d - lead] == 1 && shape->dims[d] != 1);
        s.strides[d] = repeats ? 0 : o->strides[d - lead];
    }
    return s;
}

/* The inner loops of the usual cases (both dense) stand alone so that the compiler vectorises them.
 */
#define BINARY_KERNEL(name, op)                                                         \
    SYN__CPU(name) {                                                                    \
        const syn_spec *shape = &c->out[0].spec;                                        \
        const int last = shape->rank - 1;                                               \
        const int64_t n = shape->rank ? shape->dims[last] : 1;                          \
        const syn_operand a = stretch(&c->in[0], shape), b = stretch(&c->in[1], shape); \
        const syn_operand *operands[2] = {&a, &b};                                      \
        const int64_t sa = shape->rank ? a.strides[last] : 1,                           \
                      sb = shape->rank ? b.strides[last] : 1;                           \
        float *out = c->out[0].data;                                                    \
        for (syn_rows r = {0}; syn__next_row(&r, shape, operands, 2); out += n) {       \
            const float *x = (const float *)a.data + r.at[0],                           \
                        *y = (const float *)b.data + r.at[1];                           \
            if (sa == 1 && sb == 1)                                                     \
                for (int64_t i = 0; i < n; i++) out[i] = x[i] op y[i];                  \
            else                                                                        \
                for (int64_t i = 0; i < n; i++) out[i] = x[i * sa] op y[i * sb];        \
        }                                                                               \
        return SYN_OK;                                                                  \
    }
BINARY_KERNEL(add, +)
BINARY_KERNEL(mul, *)

static syn_tensor binary(syn_ctx *ctx, syn_op op, syn_tensor a, syn_tensor b) {
    syn_tensor out;
    const syn_tensor in[2] = {a, b};
    syn__dispatch(ctx, op, in, 2, NULL, 0, NULL, &out);
    return out;
}

syn_tensor syn_add(syn_ctx *ctx, syn_tensor a, syn_tensor b) {
    return binary(ctx, SYN_OP_ADD, a, b);
}

syn_tensor syn_mul(syn_ctx *ctx, syn_tensor a, syn_tensor b) {
    return binary(ctx, SYN_OP_MUL, a, b);
}
