/* Fused attention for inference and training, and the KV cache. */
#include <math.h>
#include <string.h>

#include "ops/attention.h"
#include "ops/ops.h"
#include "ops/rows.h"
#include "ops/rules.h"

/* ---- fused attention ---- */

/* Attribute numbers. All fused ops have the first three; ops with dropout also have the others. */
enum { SCALE, CAUSAL, OFFSET, P, SEED, SAMPLE, ROW, COLUMN, N_ATTR, WANTED = N_ATTR };

/* The window, which is an optional last attribute; 0: none. */
static int64_t window_of(const syn_call *c) {
    const int last = c->def->n_out == 1 ? OFFSET + 1 : c->def->n_out == 2 ? N_ATTR : WANTED + 1;
    return c->n_attr > last ? c->attr[last].i : 0;
}

/* The number of the input that has the sinks, the mask, or dropout's keys. Optional inputs begin
   with number `first`, in this order. 0: there is no such input. */
static int sinks_of(const syn_call *c, int first) {
    const syn_spec *s = &c->in[first].spec;
    return c->n_in > first && s->rank == 1 && s->dtype != SYN_I32 ? first : 0;
}

static int mask_of(const syn_call *c, int first) {
    if (sinks_of(c, first)) first++;
    const bool keys = c->n_in == first + 1 && c->n_attr >= N_ATTR && c->in[first].spec.rank == 1;
    return c->n_in > first && !keys ? first : 0;
}

static int keys_of(const syn_call *c, int first) {
    if (sinks_of(c, first)) first++;
    const int at = mask_of(c, first) ? first + 1 : first;
    return c->n_in > at ? at : 0;
}

static syn_status check_dropout(const syn_call *c, int keys) {
    if (c->n_attr < N_ATTR) return SYN_OK;
    if (!(c->attr[P].f >= 0.0 && c->attr[P].f < 1.0))
        return SYN_FAIL(c->err, SYN_E_INVALID, "the probability %g is not in [0, 1)", c->attr[P].f);
    if (!keys) return SYN_OK;
    SYN_TRY(syn__check_dtype(c, keys, SYN_I32));
    const syn_spec *s = &c->in[keys].spec;
    return s->rank == 1 && s->dims[0] == c->in[0].spec.dims[0]
               ? SYN_OK
               : syn__bad_input(c, keys, "one key per sample (B)");
}

/* Checks q, k and v of any fused op, and its optional inputs, which begin with number `first`. */
static syn_status check_heads(const syn_call *c, int first) {
    const int mask = mask_of(c, first);
    SYN_TRY(syn__check_floats(c, 3));
    for (int i = 0; i < 3; i++) {
        if (c->in[i].spec.rank != 4) return syn__bad_input(c, i, "(B, H, T, D)");
    }
    const int64_t *q = c->in[0].spec.dims, *k = c->in[1].spec.dims;
    const bool grouped = k[1] > 0 && q[1] % k[1] == 0;
    if (k[0] != q[0] || (k[1] != q[1] && !grouped) || k[3] != q[3])
        return syn__bad_input(c, 1, "keys (B, H, S, D) like the queries");
    syn_spec values = c->in[1].spec;
    values.dims[3] = c->in[2].spec.dims[3];
    if (!syn_spec_equal(&values, &c->in[2].spec))
        return syn__bad_input(c, 2, "values (B, H, S, Dv) like the keys");
    SYN_TRY(syn__check_window(c, window_of(c)));
    SYN_TRY(check_dropout(c, keys_of(c, first)));
    if (sinks_of(c, first)) {
        const syn_spec *sinks = &c->in[first].spec;
        if (sinks->dtype != c->in[0].spec.dtype || sinks->dims[0] != q[1])
            return syn__bad_input(c, first, "one sink per query head (H), of the same dtype");
    }
    if (!mask) return SYN_OK;
    SYN_TRY(syn__check_dtype(c, mask, SYN_F32));
    const syn_spec *m = &c->in[mask].spec;
    return m->rank == 2 && m->dims[0] == k[0] && m->dims[1] == k[2]
               ? SYN_OK
               : syn__bad_input(c, mask, "a mask (B, S) like the keys");
}

SYN__INFER(attention) {
    SYN_TRY(check_heads(c, 3));
    c->out[0].spec = c->in[0].spec;
    c->out[0].spec.dims[3] = c->in[2].spec.dims[3];
    return SYN_OK;
}

/* Number of keys that at least one query attends to. */
static uint64_t keys_seen(const syn_call *c) {
    const int64_t keys = c->in[1].spec.dims[2], reach = window_of(c) + c->in[0].spec.dims[2] - 1;
    return (uint64_t)(window_of(c) > 0 && reach < keys ? reach : keys);
}

/* The number of scores, including those that a causal mask hides. If all keys come before all
   queries, the call computes the visible half of a square of a longer sequence, and its hidden half
   counts, too. */
static uint64_t scores_of(const syn_call *c) {
    const int64_t *q = c->in[0].spec.dims;
    const uint64_t scores = (uint64_t)(q[0] * q[1] * q[2]) * keys_seen(c);
    return c->attr[CAUSAL].i && c->attr[OFFSET].i >= c->in[1].spec.dims[2] ? 2 * scores : scores;
}

/* The flops are those of the separate ops: 2 B H T S (D + Dv) for the two products, and 5 per entry
   of the T x S scores; sinks are not counted. Keys and values outside the windows of all queries
   are not read. */
SYN__COST(attention) {
    const int64_t *k = c->in[1].spec.dims;
    const int64_t both = k[3] + c->in[2].spec.dims[3];
    const uint64_t square = scores_of(c);
    const uint64_t unseen = (uint64_t)(k[0] * k[1] * both) * ((uint64_t)k[2] - keys_seen(c)) *
                            syn_dtype_bytes((syn_dtype)c->in[1].spec.dtype);
    *cost = (syn_cost){square * (2 * (uint64_t)both + 5), syn__input_bytes(c) - unseen,
                       syn__output_bytes(c)};
}

enum { MAX_QUERIES = 64 }; /* largest tile of queries of any kernel */

/* Sets up dropout for the queries of `a`. first: number of the first of these queries within the
   head. */
static void set_dropout(const syn_call *c, int keys, int64_t b, int64_t h, int64_t first,
                        syn_dropout_row rows[MAX_QUERIES], syn_attention_tile *a) {
    if (c->n_attr < N_ATTR || c->attr[P].f == 0) return;
    const int64_t row = c->attr[ROW].i + h * c->in[0].spec.dims[2] + first;
    const int32_t key = keys ? ((const int32_t *)c->in[keys].data)[b * c->in[keys].strides[0]]
                             : (int32_t)(c->attr[SAMPLE].i + b);
    for (int64_t i = 0; i < a->queries; i++)
        rows[i] = syn__dropout_row(c->attr[P].f, (uint64_t)c->attr[SEED].i, key, row + i);
    a->drop = rows;
    a->column = (uint32_t)c->attr[COLUMN].i;
}

/* Offset of element (b, i, j) of the first three dimensions, in elements. */
static int64_t place_of(const syn_operand *o, int64_t b, int64_t i, int64_t j) {
    return b * o->strides[0] + i * o->strides[1] + j * o->strides[2];
}

static const void *element(const syn_operand *o, int64_t at) {
    return (const char *)o->data + at * (int64_t)syn_dtype_bytes((syn_dtype)o->spec.dtype);
}

/* Returns n rows of o as f32: in place, *stride apart, or converted to dense rows in `buffer`. */
static const float *rows_in(const syn_operand *o, int64_t at, int64_t n, int64_t depth,
                            int64_t *stride, float *buffer) {
    if (syn__is_f32(o)) return (const float *)o->data + at;
    for (int64_t i = 0; i < n; i++)
        (void)syn__load_row(o, at + i * *stride, depth, buffer + i * depth);
    *stride = depth;
    return buffer;
}

/* Returns the kernel arguments, except results and scratch memory, for n queries of a head from
   `first` on. optional: number of the first optional input. buffer: for the queries as f32. */
static syn_attention_tile queries_of(const syn_call *c, int optional, int64_t b, int64_t h,
                                     int64_t first, int64_t n, syn_dropout_row rows[MAX_QUERIES],
                                     float *buffer) {
    const syn_operand *q = &c->in[0], *k = &c->in[1], *v = &c->in[2];
    const int64_t keys = k->spec.dims[2], offset = c->attr[OFFSET].i;
    const int64_t shared = h / (q->spec.dims[1] / k->spec.dims[1]); /* the k/v head */
    const int mask = mask_of(c, optional);
    const float *bias = mask ? c->in[mask].data : NULL;
    syn_attention_tile a = {
        .k = element(k, place_of(k, b, shared, 0)),
        .v = element(v, place_of(v, b, shared, 0)),
        .dtype = (syn_dtype)k->spec.dtype,
        .mask = bias ? bias + b * c->in[mask].strides[0] : NULL,
        .q_stride = q->strides[2],
        .k_stride = k->strides[2],
        .v_stride = v->strides[2],
        .queries = n,
        .keys = keys,
        .depth = q->spec.dims[3],
        .value_depth = v->spec.dims[3],
        .visible = keys,
        .scale = (float)c->attr[SCALE].f,
    };
    a.q = rows_in(q, place_of(q, b, h, first), n, a.depth, &a.q_stride, buffer);
    a.window = window_of(c);
    if (c->attr[CAUSAL].i && (offset < keys || a.window)) {
        a.visible = offset + first + 1;
        a.step = 1;
    }
    set_dropout(c, keys_of(c, optional), b, h, first, rows, &a);
    if (sinks_of(c, optional)) {
        const syn_operand *sinks = &c->in[optional];
        a.has_sink = true;
        a.sink = *syn__load_row(sinks, h * sinks->strides[0], 1, &a.sink);
    }
    return a;
}

struct heads {
    const syn_call *c;
    const syn_attention_kernels *kernels;
    int64_t head_stride, row_stride; /* distance in elements between heads, and between queries, of
                                        the result */
    float *log_sum;                  /* (B, H, T), or NULL */
    float *scratch;                  /* memory of all workers, scratch_floats each */
    size_t scratch_floats;
    size_t buffer_floats; /* number of these floats that the kernel uses; a tile of queries and
                             one of results as f32 follow */
    int64_t tile, tiles;  /* queries per task, tasks per head */
};

/* Computes one tile of queries of a head. The last tiles attend to the most keys, so they run
   first. */
static void attend_task(void *arg, int64_t i, int worker) {
    const struct heads *t = arg;
    const int64_t *n = t->c->in[0].spec.dims, depth = t->c->in[2].spec.dims[3];
    const int64_t head = i / t->tiles, b = head / n[1], h = head % n[1];
    const int64_t first = (t->tiles - 1 - i % t->tiles) * t->tile, left = n[2] - first;
    syn_dropout_row rows[MAX_QUERIES];
    const syn_operand *out = &t->c->out[0];
    const int64_t to = b * n[1] * n[2] * depth + h * t->head_stride + first * t->row_stride;
    float *scratch = t->scratch + (size_t)worker * t->scratch_floats,
          *queries = scratch + t->buffer_floats, *buffer = queries + t->tile * n[3];
    syn_attention_tile a =
        queries_of(t->c, 3, b, h, first, left < t->tile ? left : t->tile, rows, queries);
    a.out = syn__row_dest(out, to, buffer); /* f32 results go directly to their place */
    a.out_stride = syn__is_f32(out) ? t->row_stride : depth;
    if (t->log_sum) a.log_sum = t->log_sum + head * n[2] + first;
    a.scratch = scratch;
    t->kernels->attend(&a);
    for (int64_t q = 0; q < a.queries; q++)
        syn__store_row(out, to + q * t->row_stride, depth, buffer + q * depth);
}

/* Rounds up to whole cache lines, so that workers do not share one. */
static size_t whole_lines(size_t floats) {
    return (floats + 31) / 32 * 32;
}

/* Returns NULL, for no other threads, if the products are so small that they finish before other
   threads would have started. */
static syn_workers *workers_for(const syn_call *c) {
    const int64_t keys = c->in[1].spec.dims[2];
    return keys > 0 && syn__elems(&c->in[0]) > (uint64_t)(131072 / keys) ? c->workers : NULL;
}

static syn_status attend_heads(struct heads *t) {
    const syn_call *c = t->c;
    const int64_t *n = c->in[0].spec.dims, keys = c->in[1].spec.dims[2];
    const int64_t values = c->in[2].spec.dims[3];
    if (syn__elems(&c->out[0]) == 0) return SYN_OK;
    t->kernels = syn__attention_kernels_at(syn_simd_level());
    t->tile = n[2] < t->kernels->tile ? n[2] : t->kernels->tile;
    t->tiles = (n[2] + t->tile - 1) / t->tile;
    t->buffer_floats = whole_lines(t->kernels->scratch_floats(n[3], values, keys));
    const bool wide = syn__is_f32(&c->in[0]);
    t->scratch_floats =
        t->buffer_floats + whole_lines(wide ? 0 : (size_t)(t->tile * (n[3] + values)));
    syn_workers *workers = workers_for(c);
    void *scratch;
    SYN_TRY(
        syn__scratch(c, (size_t)syn_workers_count(workers) * t->scratch_floats * sizeof *t->scratch,
                     "attention scores", &scratch));
    t->scratch = scratch;
    syn_workers_run(workers, n[0] * n[1] * t->tiles, attend_task, t);
    return SYN_OK;
}

SYN__CPU(attention) {
    const int64_t *n = c->out[0].spec.dims;
    struct heads t = {.c = c, .head_stride = n[2] * n[3], .row_stride = n[3]};
    return attend_heads(&t);
}

static syn_tensor attention(syn_ctx *ctx, syn_tensor q, syn_tensor k, syn_tensor v,
                            const syn_attention_options *how) {
    syn_tensor out, in[5] = {syn__dense_last_dim(ctx, q), syn__dense_last_dim(ctx, k),
                             syn__dense_last_dim(ctx, v)};
    int n = 3;
    if (how->sinks.id) in[n++] = how->sinks;
    if (how->mask.id) in[n++] = syn__dense_last_dim(ctx, how->mask);
    const syn_attr attr[4] = {
        {.f = how->scale}, {.i = how->causal}, {.i = how->offset}, {.i = how->window}};
    syn__call_op(ctx, SYN_OP_ATTENTION, in, n, attr, how->window ? 4 : 3, NULL, &out);
    return out;
}

syn_tensor syn_attention(syn_ctx *ctx, syn_tensor q, syn_tensor k, syn_tensor v, syn_tensor mask,
                         double scale, bool causal, int64_t offset) {
    const syn_attention_options how = {
        .mask = mask, .scale = scale, .causal = causal, .offset = offset};
    return attention(ctx, q, k, v, &how);
}

syn_tensor syn_attention_window(syn_ctx *ctx, syn_tensor q, syn_tensor k, syn_tensor v,
                                syn_tensor mask, double scale, int64_t offset, int64_t window) {
    const syn_attention_options how = {
        .mask = mask, .scale = scale, .causal = true, .offset = offset, .window = window};
    return attention(ctx, q, k, v, &how);
}

syn_tensor syn_attention_sinks(syn_ctx *ctx, syn_tensor q, syn_tensor k, syn_tensor v,
                               syn_tensor mask, syn_tensor sinks, double scale, int64_t offset,
                               int64_t window) {
    const syn_attention_options how = {.mask = mask,
                                       .scale = scale,
                                       .causal = true,
                                       .offset = offset,
                                       .window = window,
                                       .sinks = sinks};
    return attention(ctx, q, k, v, &how);
}

/* ---- fused attention for training ---- */

/* Two outputs: the result (B, T, H, Dv), and the log-sum-exp of each query's scores (B, H, T),
   which the gradient needs. */
SYN__INFER(attention_train) {
    SYN_TRY(check_heads(c, 3));
    const int64_t *q = c->in[0].spec.dims;
    c->out[0].spec = (syn_spec){c->in[0].spec.dtype, 4, {q[0], q[2], q[1], c->in[2].spec.dims[3]}};
    c->out[1].spec = (syn_spec){SYN_F32, 3, {q[0], q[1], q[2]}};
    return SYN_OK;
}

/* Dropout counts as one more operation per entry. */
SYN__COST(attention_train) {
    syn__attention_cost(c, cost);
    if (c->attr[P].f > 0) cost->flops += scores_of(c);
}

SYN__CPU(attention_train) {
    const int64_t *n = c->out[0].spec.dims;
    struct heads t = {
        .c = c, .head_stride = n[3], .row_stride = n[2] * n[3], .log_sum = c->out[1].data};
    return attend_heads(&t);
}

void syn__attention_train(syn_ctx *ctx, syn_tensor q, syn_tensor k, syn_tensor v,
                          const syn_attention_options *how, syn_tensor out[2]) {
    const syn_dropout_options *d = &how->dropout;
    syn_tensor in[6] = {syn__dense_last_dim(ctx, q), syn__dense_last_dim(ctx, k),
                        syn__dense_last_dim(ctx, v)};
    int n = 3;
    if (how->sinks.id) in[n++] = how->sinks;
    if (how->mask.id) in[n++] = syn__dense_last_dim(ctx, how->mask);
    if (how->keys.id) in[n++] = how->keys;
    const syn_attr attr[N_ATTR + 1] = {
        {.f = how->scale}, {.i = how->causal},      {.i = how->offset},
        {.f = d->p},       {.i = (int64_t)d->seed}, {.i = d->sample},
        {.i = d->row},     {.i = d->column},        {.i = how->window}};
    syn__call_op(ctx, SYN_OP_ATTENTION_TRAIN, in, n, attr, how->window ? N_ATTR + 1 : N_ATTR, NULL,
                 out);
}

syn_tensor syn_attention_train(syn_ctx *ctx, syn_tensor q, syn_tensor k, syn_tensor v,
                               const syn_attention_options *how) {
    syn_tensor out[2];
    syn__attention_train(ctx, q, k, v, how, out);
    return out[0];
}

void syn__causal_grad(syn_ctx *ctx, const syn_tensor in[6], double scale, int64_t offset,
                      syn_tensor d[3]) {
    const syn_attr attr[N_ATTR] = {{.f = scale}, {.i = true}, {.i = offset}};
    syn__call_op(ctx, SYN_OP_ATTENTION_GRAD, in, 6, attr, N_ATTR, NULL, d);
}

/* One op computes all required gradients of q, k and v, because they share most of the work. It
   needs no sinks: they are in the log-sum-exp. */
SYN__GRAD(attention_train) {
    enum { ALL = 7 };
    syn_attr attr[N_ATTR + 2];
    const int order[4] = {0, 2, 1, 3};
    const syn_spec *optional = g->n_in > 3 ? syn_tensor_spec(g->ctx, g->in[3]) : NULL;
    const int sinks = optional && optional->rank == 1 && optional->dtype != SYN_I32;
    syn_tensor d[3],
        in[8] = {g->in[0],  g->in[1],  g->in[2],
                 g->out[0], g->out[1], syn__dense_last_dim(g->ctx, syn_grad_out(g, 0))};
    for (int i = 3 + sinks; i < g->n_in; i++) in[3 + i - sinks] = g->in[i];
    if (sinks && g->need[3]) {
        const syn_tensor of_sinks[4] = {g->out[0], g->out[1], in[5], g->in[3]};
        syn__call_op(g->ctx, SYN_OP_SINKS_GRAD, of_sinks, 4, NULL, 0, NULL, &g->din[3]);
    }
    if (!g->need[0] && !g->need[1] && !g->need[2]) return;
    memcpy(attr, g->attr, N_ATTR * sizeof *attr);
    attr[WANTED + 1].i = g->n_attr > N_ATTR ? g->attr[N_ATTR].i : 0;
    attr[WANTED].i = g->need[0] | g->need[1] << 1 | g->need[2] << 2;
    syn__call_op(g->ctx, SYN_OP_ATTENTION_GRAD, in, g->n_in - sinks + 3, attr,
                 attr[WANTED + 1].i      ? N_ATTR + 2
                 : attr[WANTED].i == ALL ? N_ATTR
                                         : N_ATTR + 1,
                 NULL, d);
    for (int i = 0; i < 3; i++)
        if (g->need[i]) g->din[i] = syn_permute(g->ctx, d[i], order, 4);
}

enum { OPTIONAL = 6 }; /* number of attention_grad's first optional input */

/* Whether output i is requested. */
static bool wants(const syn_call *c, int i) {
    return c->n_attr <= WANTED || c->attr[WANTED].i >> i & 1;
}

/* q, k, v, out, log-sum-exp, dout, [mask], [keys] -> dq (B, T, H, D), dk (B, S, G, D) and dv (B,
   S, G, Dv). An output that is not requested is empty. */
SYN__INFER(attention_grad) {
    SYN_TRY(check_heads(c, OPTIONAL));
    const int64_t *q = c->in[0].spec.dims, *k = c->in[1].spec.dims;
    const int64_t values = c->in[2].spec.dims[3];
    const syn_spec out = {c->in[0].spec.dtype, 4, {q[0], q[2], q[1], values}},
                   sums = {SYN_F32, 3, {q[0], q[1], q[2]}};
    if (!syn_spec_equal(&c->in[3].spec, &out))
        return syn__bad_input(c, 3, "attention_train's output (B, T, H, Dv)");
    if (!syn_spec_equal(&c->in[4].spec, &sums))
        return syn__bad_input(c, 4, "attention_train's output (B, H, T)");
    if (!syn_spec_equal(&c->in[5].spec, &out))
        return syn__bad_input(c, 5, "a gradient (B, T, H, D)");
    c->out[0].spec = (syn_spec){out.dtype, 4, {q[0], q[2], q[1], q[3]}};
    c->out[1].spec = (syn_spec){out.dtype, 4, {k[0], k[2], k[1], k[3]}};
    c->out[2].spec = (syn_spec){out.dtype, 4, {k[0], k[2], k[1], values}};
    for (int i = 0; i < 3; i++)
        if (!wants(c, i)) c->out[i].spec = (syn_spec){out.dtype, 1, {0}};
    return SYN_OK;
}

/* The op recomputes the scores, and each of the two forward products has two gradients. If keys and
   values are equally wide, these are 2.5 times the forward flops. Otherwise the scores and the
   gradients of q and k, 2 B H T S D each, count separately from those of v. A gradient that is not
   requested is not counted. */
SYN__COST(attention_grad) {
    const uint64_t square = scores_of(c);
    const uint64_t product = 2 * square * (uint64_t)c->in[0].spec.dims[3],
                   of_values = 2 * square * (uint64_t)c->in[2].spec.dims[3];
    syn__attention_train_cost(c, cost);
    cost->flops = (cost->flops - product - of_values) * 5 / 2 + 3 * product + 2 * of_values;
    for (int i = 0; i < 3; i++) cost->flops -= wants(c, i) ? 0 : i == 2 ? of_values : product;
}

/* A task handles one part of the keys of one k/v head, for all queries that use this head. All
   parts of a head contribute to dq, so every part but the first has separate sums, which are added
   at the end. The partition depends only on shapes, so results do not depend on the number of
   threads. */
struct heads_grad {
    const syn_call *c;
    const syn_attention_kernels *kernels;
    int64_t parts, part;   /* number of parts per head; number of keys per part */
    int64_t chunk;         /* keys that are copied and processed at a time */
    int64_t pad;           /* row stride of the copies, in floats */
    int64_t buffer_floats; /* number of floats in the buffers for a tile of queries */
    float *dq;      /* sums (parts, B, T, H, D); without the first part if output dq is f32 */
    float *scratch; /* per worker: k, v, dk, dv (chunk, pad); q, out, dout (tile, D or Dv) unless
                       they are f32; the kernel's scratch memory */
    size_t scratch_floats; /* per worker, including the kernel's own scratch memory */
};

/* Computes the gradients from keys first .. first + n - 1 of a k/v head, for one head of
   queries. */
static void grad_of_head(const struct heads_grad *t, int64_t b, int64_t h, int64_t first, int64_t n,
                         float *dq, bool add, float *scratch) {
    const syn_call *c = t->c;
    const syn_operand *out = &c->in[3], *dout = &c->in[5];
    const int64_t *dims = c->in[0].spec.dims, tile = t->kernels->grad_tile, depth = dims[3],
                  values = c->in[2].spec.dims[3], size = t->chunk * t->pad;
    float *buffer = scratch + 4 * size; /* buffers for a tile of queries */
    syn_dropout_row rows[MAX_QUERIES];
    for (int64_t i = 0; i < dims[2]; i += tile) {
        const int64_t queries = dims[2] - i < tile ? dims[2] - i : tile;
        syn_attention_grad_tile g = {
            .of = queries_of(c, OPTIONAL, b, h, i, queries, rows, buffer),
            .dout_stride = dout->strides[1],
            .dq = dq ? dq + ((b * dims[2] + i) * dims[1] + h) * depth : NULL,
            .dq_stride = dims[1] * depth,
            .add = add,
            .dk = wants(c, 1) ? scratch + 2 * size : NULL,
            .dv = wants(c, 2) ? scratch + 3 * size : NULL,
            .dk_stride = t->pad,
        };
        syn_attention_tile *a = &g.of;
        a->out_stride = out->strides[1];
        float *results = buffer + tile * depth;
        a->out =
            (float *)rows_in(out, place_of(out, b, i, h), queries, values, &a->out_stride, results);
        g.dout = rows_in(dout, place_of(dout, b, i, h), queries, values, &g.dout_stride,
                         results + tile * values);
        a->log_sum = (float *)c->in[4].data + b * c->in[4].strides[0] + h * c->in[4].strides[1] + i;
        a->k = scratch;
        a->v = scratch + size;
        a->dtype = SYN_F32;
        a->k_stride = a->v_stride = t->pad;
        if (a->mask) a->mask += first;
        a->column += (uint32_t)first;
        a->visible -= first;
        a->keys = n;
        if (!a->step) a->visible = n;
        a->scratch = buffer + t->buffer_floats;
        t->kernels->attend_grad(&g);
    }
}

/* copy_in copies rows of a head of x to f32 rows that are t->pad apart; copy_out copies such rows
   back to rows that are `stride` apart. */
static void copy_in(const struct heads_grad *t, const syn_operand *x, int64_t at, int64_t rows,
                    float *copy) {
    const int64_t depth = x->spec.dims[3];
    for (int64_t i = 0; i < rows; i++, copy += t->pad, at += x->strides[2]) {
        const float *row = syn__load_row(x, at, depth, copy);
        if (row != copy) memcpy(copy, row, (size_t)depth * sizeof *copy);
    }
}

static void copy_out(const struct heads_grad *t, const float *copy, const syn_operand *x,
                     int64_t at, int64_t stride, int64_t rows) {
    const int64_t depth = x->spec.dims[3];
    for (int64_t i = 0; i < rows; i++, copy += t->pad, at += stride) {
        if (syn__is_f32(x)) memcpy((float *)x->data + at, copy, (size_t)depth * sizeof *copy);
        else syn__store_row(x, at, depth, copy);
    }
}

static void grad_task(void *arg, int64_t i, int worker) {
    const struct heads_grad *t = arg;
    const syn_call *c = t->c;
    const syn_operand *k = &c->in[1], *v = &c->in[2];
    const int64_t *n = k->spec.dims, group = c->in[0].spec.dims[1] / n[1];
    const int64_t part = i % t->parts, b = i / t->parts / n[1], h = i / t->parts % n[1];
    const int64_t begin = part * t->part, end = n[2] - begin < t->part ? n[2] : begin + t->part;
    const int64_t size = t->chunk * t->pad;
    const int64_t own = syn__is_f32(&c->out[0]) ? part - 1 : part; /* index in t->dq; -1: output */
    float *dq = !wants(c, 0) ? NULL
                : own < 0    ? c->out[0].data
                             : t->dq + own * (int64_t)syn__elems(&c->out[0]);
    float *copy = t->scratch + (size_t)worker * t->scratch_floats;
    for (int64_t s = begin; s < end; s += t->chunk) {
        const int64_t keys = end - s < t->chunk ? end - s : t->chunk;
        const int64_t row = (b * n[2] + s) * n[1] + h;
        copy_in(t, k, place_of(k, b, h, s), keys, copy);
        copy_in(t, v, place_of(v, b, h, s), keys, copy + size);
        memset(copy + 2 * size, 0, (size_t)(2 * size) * sizeof *copy);
        for (int64_t q = h * group; q < (h + 1) * group; q++)
            grad_of_head(t, b, q, s, keys, dq, s > begin, copy);
        for (int out = 1; out < 3; out++) {
            const int64_t depth = c->in[out].spec.dims[3];
            if (wants(c, out))
                copy_out(t, copy + (1 + out) * size, &c->out[out], row * depth, n[1] * depth, keys);
        }
    }
}

/* Adds the sums of all parts, for elements begin .. end - 1. */
static void add_parts(void *arg, int64_t begin, int64_t end, int worker) {
    const struct heads_grad *t = arg;
    const syn_operand *out = &t->c->out[0];
    const int64_t elems = (int64_t)syn__elems(out);
    const bool wide = syn__is_f32(out);
    float *dq = wide ? (float *)out->data + begin : t->dq + begin;
    const float *others = wide ? t->dq : t->dq + elems;
    (void)worker;
    for (int64_t p = 0; p < t->parts - 1; p++)
        syn__row_kernels()->add(dq, others + p * elems + begin, dq, end - begin);
    syn__store_row(out, begin, end - begin, dq);
}

SYN__CPU(attention_grad) {
    /* At least TASKS tasks, unless a part would have fewer than FEWEST keys. */
    enum { TASKS = 16, FEWEST = 256, CHUNK = 512 };
    const int64_t *n = c->in[1].spec.dims, keys = n[2], depth = n[3], heads = n[0] * n[1];
    const int64_t values = c->in[2].spec.dims[3], wider = depth > values ? depth : values;
    const int64_t elems = (int64_t)syn__elems(&c->out[0]); /* also 0 if dq is not requested */
    if (syn__elems(&c->in[0]) == 0 || keys == 0) {
        for (int i = 0; i < 3; i++) syn__fill_zero(c, &c->out[i]);
        return SYN_OK;
    }
    struct heads_grad t = {.c = c, .kernels = syn__attention_kernels_at(syn_simd_level())};
    const bool wide = syn__is_f32(&c->out[0]);
    t.parts = heads < TASKS ? (TASKS + heads - 1) / heads : 1;
    if (t.parts > (keys + FEWEST - 1) / FEWEST) t.parts = (keys + FEWEST - 1) / FEWEST;
    t.part = (keys + t.parts - 1) / t.parts;
    t.parts = (keys + t.part - 1) / t.part;
    t.chunk = t.part < CHUNK ? t.part : CHUNK;
    t.pad = (wider + SYN__ATTEND_PAD - 1) / SYN__ATTEND_PAD * SYN__ATTEND_PAD;
    t.buffer_floats = wide ? 0 : syn__padded_floats(t.kernels->grad_tile * (depth + 2 * values));
    t.scratch_floats = whole_lines((size_t)(4 * t.chunk * t.pad + t.buffer_floats) +
                                   t.kernels->grad_scratch_floats(depth, values));
    syn_workers *workers = workers_for(c);
    const size_t floats = (size_t)syn_workers_count(workers) * t.scratch_floats,
                 sums = (size_t)((wide ? t.parts - 1 : t.parts) * elems);
    void *scratch;
    SYN_TRY(
        syn__scratch(c, (floats + sums) * sizeof *t.scratch, "attention's gradients", &scratch));
    t.scratch = scratch;
    t.dq = t.scratch + floats;
    syn_workers_run(workers, heads * t.parts, grad_task, &t);
    if (elems > 0 && (t.parts > 1 || !wide))
        syn_workers_ranges(workers, elems, SYN__GRAIN_MOVE, add_parts, &t);
    return SYN_OK;
}

/* out (B, T, H, Dv) and log-sum-exp (B, H, T) of attention_train, dout, sinks (H) -> the gradient
   of the sinks. The softmax of a query's sink is p = exp(sink - log-sum-exp), and its value is
   zero, so the gradient of its score is -p out dout. */
SYN__INFER(sinks_grad) {
    const syn_spec *out = &c->in[0].spec, *sinks = &c->in[3].spec;
    SYN_TRY(syn__check_float(c, 0));
    if (out->rank != 4) return syn__bad_input(c, 0, "attention_train's output (B, T, H, Dv)");
    const syn_spec sums = {SYN_F32, 3, {out->dims[0], out->dims[2], out->dims[1]}};
    if (!syn_spec_equal(&c->in[1].spec, &sums))
        return syn__bad_input(c, 1, "attention_train's output (B, H, T)");
    if (!syn_spec_equal(&c->in[2].spec, out))
        return syn__bad_input(c, 2, "a gradient (B, T, H, Dv)");
    if (sinks->rank != 1 || sinks->dtype != out->dtype || sinks->dims[0] != out->dims[2])
        return syn__bad_input(c, 3, "one sink per query head (H), of the same dtype");
    c->out[0].spec = *sinks;
    return SYN_OK;
}

/* A product and a sum of out and dout; 3 operations per query. */
SYN__COST(sinks_grad) {
    *cost = (syn_cost){2 * syn__elems(&c->in[0]) + 3 * syn__elems(&c->in[1]), syn__input_bytes(c),
                       syn__output_bytes(c)};
}

struct sinks_grad {
    const syn_call *c;
    float *buffers; /* per worker: two rows */
    int64_t buffer_floats;
};

static void sink_task(void *arg, int64_t h, int worker) {
    const struct sinks_grad *s = arg;
    const syn_operand *out = &s->c->in[0], *sums = &s->c->in[1], *dout = &s->c->in[2],
                      *sinks = &s->c->in[3];
    const int64_t *n = out->spec.dims;
    float *a = s->buffers + worker * s->buffer_floats, *b = a + n[3], sink, result;
    sink = *syn__load_row(sinks, h * sinks->strides[0], 1, &sink);
    double sum = 0;
    for (int64_t i = 0; i < n[0] * n[1]; i++) {
        const float *x = syn__load_row(out, place_of(out, i / n[1], i % n[1], h), n[3], a),
                    *y = syn__load_row(dout, place_of(dout, i / n[1], i % n[1], h), n[3], b);
        const float log_sum = ((const float *)sums->data)[place_of(sums, i / n[1], h, i % n[1])];
        double product = 0;
        for (int64_t d = 0; d < n[3]; d++) product += (double)x[d] * (double)y[d];
        sum -= product * exp((double)sink - (double)log_sum);
    }
    *syn__row_dest(&s->c->out[0], h, &result) = (float)sum;
    syn__store_row(&s->c->out[0], h, 1, &result);
}

SYN__CPU(sinks_grad) {
    struct sinks_grad s = {.c = c, .buffer_floats = syn__padded_floats(2 * c->in[0].spec.dims[3])};
    const int64_t floats = s.buffer_floats * syn_workers_count(c->workers);
    void *scratch;
    SYN_TRY(syn__scratch(c, (size_t)floats * sizeof(float), "the gradient of sinks", &scratch));
    s.buffers = scratch;
    syn_workers_run(c->workers, c->in[0].spec.dims[2], sink_task, &s);
    return SYN_OK;
}

/* ---- KV cache ---- */

SYN__INFER(kv_append) {
    const syn_spec *cache = &c->in[0].spec, *x = &c->in[1].spec;
    if (cache->rank != 4) return syn__bad_input(c, 0, "a cache (B, H, Smax, D)");
    bool ok = x->rank == 4 && x->dtype == cache->dtype;
    for (int d = 0; ok && d < 4; d++) ok = d == 2 || x->dims[d] == cache->dims[d];
    if (!ok) return syn__bad_input(c, 1, "(B, H, T, D) like the cache");
    const int64_t position = c->attr[0].i;
    if (position < 0 || position > cache->dims[2] - x->dims[2])
        return SYN_FAIL(c->err, SYN_E_SHAPE,
                        "%lld rows at position %lld do not fit into a cache of %lld rows",
                        (long long)x->dims[2], (long long)position, (long long)cache->dims[2]);
    c->out[0].spec = *cache;
    return SYN_OK;
}

SYN__COST(kv_append) {
    const uint64_t bytes = syn_spec_bytes(&c->in[1].spec);
    *cost = (syn_cost){0, bytes, bytes};
}

SYN__CPU(kv_append) {
    const syn_operand *cache = &c->out[0];
    const int64_t elem = (int64_t)syn_dtype_bytes((syn_dtype)cache->spec.dtype);
    char *out = (char *)cache->data + c->attr[0].i * cache->strides[2] * elem;
    syn__copy_rows(c, &c->in[1], cache, out);
    return SYN_OK;
}

syn_tensor syn_kv_append(syn_ctx *ctx, syn_tensor cache, syn_tensor x, int64_t position) {
    syn_tensor out;
    const syn_tensor in[2] = {cache, syn__dense_last_dim(ctx, x)};
    const syn_attr attr[1] = {{.i = position}};
    syn__call_op(ctx, SYN_OP_KV_APPEND, in, 2, attr, 1, NULL, &out);
    return out;
}
