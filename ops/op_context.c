/* Context parallelism: causal attention of sequences whose tokens are divided among ranks. The
   forward and the backward pass consist of other ops: attention of blocks, messages or collectives,
   and sums. Only the last op, context_attention, is on the tape, and its gradient rule builds the
   backward pass. Also zigzag_join and zigzag_split, which convert between the ranks' tokens and
   whole sequences. */
#include <math.h>

#include "ops/ops.h"
#include "ops/rows.h"
#include "ops/rules.h"
#include "ops/zigzag.h"

/* ---- zigzag_join and zigzag_split ---- */

/* The attributes: the dimension of the tokens in the whole sequences, and for zigzag_split the
   number of ranks. */
enum { AXIS, RANKS };

static syn_status check_tokens(const syn_call *c, const syn_spec *whole, int64_t ranks,
                               bool divides) {
    const int64_t axis = c->attr[AXIS].i;
    if (axis < 0 || axis >= whole->rank)
        return SYN_FAIL(c->err, SYN_E_SHAPE, "dimension %lld does not exist: sequences have %d",
                        (long long)axis, whole->rank);
    if (divides) return SYN_OK;
    return SYN_FAIL(c->err, SYN_E_SHAPE, "%lld tokens are not a multiple of 2 x %lld ranks",
                    (long long)whole->dims[axis], (long long)ranks);
}

SYN__INFER(zigzag_join) {
    const syn_spec *parts = &c->in[0].spec;
    const int64_t axis = c->attr[AXIS].i, ranks = parts->dims[0];
    syn_spec *whole = &c->out[0].spec;
    if (parts->rank < 2 || ranks < 1)
        return syn__bad_input(c, 0, "the tokens of all ranks (n, ..., S/n, ...)");
    *whole = (syn_spec){parts->dtype, parts->rank - 1, {0}};
    for (int d = 0; d < whole->rank; d++) whole->dims[d] = parts->dims[d + 1];
    SYN_TRY(check_tokens(c, whole, ranks, true));
    const bool even = whole->dims[axis] % 2 == 0;
    if (!syn_mul_i64(whole->dims[axis], ranks, &whole->dims[axis]))
        return SYN_FAIL(c->err, SYN_E_SHAPE, "the result is too large");
    return check_tokens(c, whole, ranks, even);
}

SYN__INFER(zigzag_split) {
    const syn_spec *whole = &c->in[0].spec;
    const int64_t axis = c->attr[AXIS].i, ranks = c->attr[RANKS].i;
    syn_spec *parts = &c->out[0].spec;
    SYN_TRY(check_tokens(c, whole, ranks, true));
    if (ranks < 1 || ranks > INT32_MAX || whole->rank >= SYN_MAX_RANK)
        return syn__bad_input(c, 0, "sequences (..., S, ...) of one dimension less than supported");
    SYN_TRY(check_tokens(c, whole, ranks, whole->dims[axis] % (2 * ranks) == 0));
    *parts = (syn_spec){whole->dtype, whole->rank + 1, {ranks}};
    for (int d = 0; d < whole->rank; d++) parts->dims[d + 1] = whole->dims[d];
    parts->dims[axis + 1] /= ranks;
    return SYN_OK;
}

static syn_status copy_pieces(const syn_call *c, bool join) {
    const syn_operand *whole = join ? &c->out[0] : &c->in[0],
                      *parts = join ? &c->in[0] : &c->out[0];
    const int axis = (int)c->attr[AXIS].i;
    const int64_t n = 2 * parts->spec.dims[0], length = whole->spec.dims[axis] / n;
    const int64_t elem = (int64_t)syn_dtype_bytes((syn_dtype)whole->spec.dtype);
    for (int64_t i = 0; i < n; i++) {
        const syn_operand a = syn__piece_of_whole(whole, axis, i, length, elem),
                          b = syn__piece_of_parts(parts, axis, i, length, elem);
        if (join) syn__copy_rows(c, &b, &a, a.data);
        else syn__copy_rows(c, &a, &b, b.data);
    }
    return SYN_OK;
}

SYN__CPU(zigzag_join) {
    return copy_pieces(c, true);
}

SYN__CPU(zigzag_split) {
    return copy_pieces(c, false);
}

syn_tensor syn_zigzag_join(syn_ctx *ctx, syn_tensor x, int axis) {
    const syn_attr attr[1] = {{.i = axis}};
    syn_tensor out;
    syn__call_op(ctx, SYN_OP_ZIGZAG_JOIN, &x, 1, attr, 1, NULL, &out);
    return out;
}

syn_tensor syn_zigzag_split(syn_ctx *ctx, syn_tensor x, int axis, int64_t ranks) {
    const syn_attr attr[2] = {{.i = axis}, {.i = ranks}};
    syn_tensor out;
    syn__call_op(ctx, SYN_OP_ZIGZAG_SPLIT, &x, 1, attr, 2, NULL, &out);
    return out;
}

SYN__GRAD(zigzag_join) {
    g->din[0] = syn_zigzag_split(g->ctx, syn_grad_out(g, 0), (int)g->attr[AXIS].i,
                                 syn_tensor_dim(g->ctx, g->in[0], 0));
}

SYN__GRAD(zigzag_split) {
    g->din[0] = syn_zigzag_join(g->ctx, syn_grad_out(g, 0), (int)g->attr[AXIS].i);
}

/* ---- attention_merge ---- */

/* sum (B, T, H, D) f32 and its log-sum-exp (B, H, T), which are overwritten; part (B, P, H, D) and
   its log-sum-exp (B, H, P), for the queries first .. first + P - 1 */
SYN__INFER(attention_merge) {
    const syn_spec *sum = &c->in[0].spec, *part = &c->in[2].spec;
    const int64_t first = c->attr[0].i, queries = part->dims[1];
    SYN_TRY(syn__check_dtype(c, 0, SYN_F32));
    SYN_TRY(syn__check_float(c, 2));
    if (sum->rank != 4) return syn__bad_input(c, 0, "(B, T, H, D)");
    if (part->rank != 4 || part->dims[0] != sum->dims[0] || part->dims[2] != sum->dims[2] ||
        part->dims[3] != sum->dims[3] || first < 0 || first > sum->dims[1] - queries)
        return syn__bad_input(c, 2, "some queries of input 0");
    for (int i = 1; i < 4; i += 2) {
        const int64_t rows = i == 1 ? sum->dims[1] : queries;
        const syn_spec sums = {SYN_F32, 3, {sum->dims[0], sum->dims[2], rows}};
        if (!syn_spec_equal(&c->in[i].spec, &sums))
            return syn__bad_input(c, i, "a log-sum-exp (B, H, T) in f32");
    }
    c->out[0].spec = *sum;
    c->out[1].spec = c->in[1].spec;
    return SYN_OK;
}

/* Two products and a sum per element. The other queries are not touched. */
SYN__COST(attention_merge) {
    const uint64_t elems = syn__elems(&c->in[2]), rows = syn__elems(&c->in[3]);
    const uint64_t part = syn_spec_bytes(&c->in[2].spec), sums = 4 * (elems + rows);
    *cost = (syn_cost){3 * elems, sums + part + 4 * rows, sums};
}

enum { PIECE = 512 };

/* Merges rows begin .. end - 1 of the part, numbered by sample, query and head. */
static void merge_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const syn_call *c = arg;
    const syn_operand *sum = &c->out[0], *sums = &c->out[1], *part = &c->in[2], *parts = &c->in[3];
    const int64_t *n = part->spec.dims;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const int64_t b = i / (n[1] * n[2]), t = i / n[2] % n[1], h = i % n[2];
        const int64_t to = t + c->attr[0].i;
        float *log_sum = (float *)sums->data + b * sums->strides[0] + h * sums->strides[1] +
                         to * sums->strides[2];
        const float other =
            ((const float *)parts
                 ->data)[b * parts->strides[0] + h * parts->strides[1] + t * parts->strides[2]];
        const float most = *log_sum > other ? *log_sum : other;
        if (most == -INFINITY) continue; /* neither part has a visible key: both are zero */
        const float merged = most + logf(expf(*log_sum - most) + expf(other - most));
        const float keep = expf(*log_sum - merged), add = expf(other - merged);
        float *out =
            (float *)sum->data + b * sum->strides[0] + to * sum->strides[1] + h * sum->strides[2];
        const int64_t at = b * part->strides[0] + t * part->strides[1] + h * part->strides[2];
        float buffer[PIECE];
        *log_sum = merged;
        for (int64_t d = 0; d < n[3]; d += PIECE) {
            const int64_t left = n[3] - d < PIECE ? n[3] - d : PIECE;
            const float *x = syn__load_row(part, at + d, left, buffer);
            for (int64_t k = 0; k < left; k++) out[d + k] = keep * out[d + k] + add * x[k];
        }
    }
}

SYN__CPU(attention_merge) {
    const int64_t rows = (int64_t)syn__elems(&c->in[3]), depth = c->in[2].spec.dims[3];
    const int64_t grain = depth > 0 ? SYN__GRAIN_MOVE / depth + 1 : SYN__GRAIN_MOVE;
    syn_workers_ranges(c->workers, rows, grain, merge_rows, c);
    return SYN_OK;
}

void syn_attention_merge(syn_ctx *ctx, syn_tensor *out, syn_tensor *log_sum, syn_tensor part,
                         syn_tensor part_log_sum, int64_t first) {
    const syn_tensor in[4] = {*out, *log_sum, syn__dense_last_dim(ctx, part), part_log_sum};
    const syn_attr attr[1] = {{.i = first}};
    syn_tensor merged[2];
    syn__call_op(ctx, SYN_OP_ATTENTION_MERGE, in, 4, attr, 1, NULL, merged);
    *out = merged[0];
    *log_sum = merged[1];
}

/* ---- blocks ---- */

/* Some queries of a rank, and the keys that they are multiplied with, which are the first of a
   tensor of keys. */
typedef struct block {
    int64_t query, queries, keys;
    int64_t offset; /* number of keys before the key of the first query; `keys` or more: all queries
                       see all keys */
} block;

/* Rows first .. first + n - 1 along `axis`: x itself if it has no others. */
static syn_tensor rows_of(syn_ctx *ctx, syn_tensor x, int axis, int64_t first, int64_t n) {
    return syn_tensor_dim(ctx, x, axis) == n ? x : syn_slice(ctx, x, axis, first, n);
}

/* The forward pass of a block: out[0] (B, queries, H, D) and the log-sum-exp out[1]. */
static void attend(syn_ctx *ctx, const block *b, syn_tensor q, syn_tensor k, syn_tensor v,
                   double scale, syn_tensor out[2]) {
    const syn_attention_options how = {.scale = scale, .causal = true, .offset = b->offset};
    syn__attention_train(ctx, rows_of(ctx, q, 2, b->query, b->queries),
                         rows_of(ctx, k, 2, 0, b->keys), rows_of(ctx, v, 2, 0, b->keys), &how, out);
}

/* The call of a gradient rule: the rank's queries, the finished result with its log-sum-exp, and
   the result's gradient. */
typedef struct finished {
    syn_tensor q, out, log_sum, dout;
    double scale;
} finished;

/* The backward pass of a block: d[0] (B, queries, H, D), d[1] and d[2] (B, keys, G, D). The scores
   of a block depend on no other block, and the log-sum-exp of all keys makes weights of them. */
static void attend_grad(syn_ctx *ctx, const block *b, const finished *f, syn_tensor k, syn_tensor v,
                        syn_tensor d[3]) {
    const syn_tensor in[6] = {rows_of(ctx, f->q, 2, b->query, b->queries),
                              rows_of(ctx, k, 2, 0, b->keys),
                              rows_of(ctx, v, 2, 0, b->keys),
                              rows_of(ctx, f->out, 1, b->query, b->queries),
                              rows_of(ctx, f->log_sum, 2, b->query, b->queries),
                              rows_of(ctx, f->dout, 1, b->query, b->queries)};
    syn__causal_grad(ctx, in, f->scale, b->offset, d);
}

/* x followed by zeros, so that dimension `axis` has `length` rows. */
static syn_tensor padded(syn_ctx *ctx, syn_tensor x, int axis, int64_t length) {
    const syn_attr attr[3] = {{.i = axis}, {.i = 0}, {.i = length}};
    syn_tensor out;
    if (syn_tensor_dim(ctx, x, axis) == length) return x;
    syn__call_op(ctx, SYN_OP_SLICE_GRAD, &x, 1, attr, 3, NULL, &out);
    return out;
}

/* Adds x to the rows of *sum from `start` on. */
static void add_rows(syn_ctx *ctx, syn_tensor *sum, syn_tensor x, int axis, int64_t start) {
    const syn_attr attr[2] = {{.i = axis}, {.i = start}};
    const syn_tensor in[2] = {*sum, x};
    syn__call_op(ctx, SYN_OP_SLICE_ADD, in, 2, attr, 2, NULL, sum);
}

/* (B, T, H, D) <-> (B, H, T, D) */
static syn_tensor swapped(syn_ctx *ctx, syn_tensor x) {
    return syn_permute(ctx, x, (const int[]){0, 2, 1, 3}, 4);
}

/* ---- the ring ---- */

/* The position of a message: the number of its call, which step it is for, and what it has. */
typedef struct message {
    const syn_group *ring;
    int64_t call;
    int32_t step;
    enum { KV, BACKWARD_KV, GRAD, MESSAGES } what;
} message;

/* Messages between the same two ranks have different tags, except for those of calls that are far
   apart. */
static int32_t tag_of(const message *m) {
    enum { FIRST_TAG = 1 << 20, TAGS = 1 << 20 }; /* between those of programs and of pipelines */
    const int64_t place = (m->call * m->ring->size + m->step) * MESSAGES + m->what;
    return FIRST_TAG + (int32_t)(place % TAGS);
}

/* Keys and values travel as one tensor (..., D + E), with the values behind the keys. */
static syn_tensor pack(syn_ctx *ctx, syn_tensor k, syn_tensor v) {
    return syn_concat(ctx, (const syn_tensor[]){k, v}, 2, 3);
}

static void unpack(syn_ctx *ctx, syn_tensor kv, int64_t depth, syn_tensor *k, syn_tensor *v) {
    *k = syn_slice(ctx, kv, 3, 0, depth);
    *v = syn_slice(ctx, kv, 3, depth, syn_tensor_dim(ctx, kv, 3) - depth);
}

/* Posts the receive of a tensor like `like` from the previous rank of the ring. */
static syn_tensor receive(syn_ctx *ctx, syn_tensor like, const message *m, const char *label) {
    const syn_spec spec = *syn_tensor_spec(ctx, like);
    const int32_t from = (m->ring->index + m->ring->size - 1) % m->ring->size;
    return syn_name(ctx, syn_recv(ctx, &spec, m->ring->ranks[from], tag_of(m)), label);
}

static void send(syn_ctx *ctx, syn_tensor x, const message *m) {
    syn_send(ctx, x, m->ring->ranks[(m->ring->index + 1) % m->ring->size], tag_of(m));
}

/* The block of step `step`, in which a rank has the keys of the rank `step` before it. A rank has
   two pieces. Those of a rank with a lower number begin before and end behind them, so all queries
   see the first piece only. Those of a higher rank are both between them, so only the second half
   of the queries sees them, completely. Either way this is half of all pairs. */
static block ring_block(int64_t tokens, int32_t step, const syn_group *ring) {
    const int64_t half = tokens / 2;
    if (step == 0) return (block){.queries = tokens, .keys = tokens};
    if (step <= ring->index) return (block){.queries = tokens, .keys = half, .offset = tokens};
    return (block){.query = half, .queries = half, .keys = tokens, .offset = tokens};
}

/* Returns the result (B, T, H, D), and its log-sum-exp in *log_sum. Each step's message travels
   while the step's block is computed. */
static syn_tensor ring_forward(syn_ctx *ctx, syn_tensor q, syn_tensor k, syn_tensor v, double scale,
                               int64_t call, const syn_group *ring, syn_tensor *log_sum) {
    const int64_t depth = syn_tensor_dim(ctx, k, 3), tokens = syn_tensor_dim(ctx, q, 2);
    const syn_mark mark = syn_ctx_mark(ctx);
    const syn_dtype dtype = (syn_dtype)syn_tensor_spec(ctx, q)->dtype;
    syn_tensor state[3] = {{0}}, kv = pack(ctx, k, v); /* the result, its log-sum-exp, next keys */
    for (int32_t i = 0; i < ring->size && syn_ctx_status(ctx) == SYN_OK; i++) {
        const block b = ring_block(tokens, i, ring);
        syn_tensor part[2];
        state[2] = (syn_tensor){0};
        if (i < ring->size - 1) {
            const message m = {ring, call, i, KV};
            send(ctx, kv, &m);
            state[2] = receive(ctx, kv, &m, "kv");
        }
        if (i > 0) unpack(ctx, kv, depth, &k, &v);
        attend(ctx, &b, q, k, v, scale, part);
        if (i > 0) syn_attention_merge(ctx, &state[0], &state[1], part[0], part[1], b.query);
        else {
            state[0] = syn_cast(ctx, part[0], SYN_F32);
            state[1] = part[1];
        }
        kv = state[2];
        syn_release(ctx, mark, state, 3);
    }
    *log_sum = state[1];
    return syn_cast(ctx, state[0], dtype);
}

/* d: receives the gradients of q, k and v. The gradients of a rank's keys and values are added up
   on the way around the ring: they start at the next rank, which has the keys in step 1, and come
   back after the last step. */
static void ring_backward(syn_ctx *ctx, const finished *f, syn_tensor k, syn_tensor v, int64_t call,
                          const syn_group *ring, syn_tensor d[3]) {
    enum { DQ, OWN, NEXT, KEPT };
    const int64_t depth = syn_tensor_dim(ctx, k, 3), tokens = syn_tensor_dim(ctx, f->q, 2);
    const syn_mark mark = syn_ctx_mark(ctx);
    syn_tensor state[KEPT] = {{0}}, kv = pack(ctx, k, v), part[3], sum = {0};
    for (int32_t i = 0; i < ring->size && syn_ctx_status(ctx) == SYN_OK; i++) {
        const block b = ring_block(tokens, i, ring);
        const message m = {ring, call, i, BACKWARD_KV}, sent = {ring, call, i, GRAD},
                      before = {ring, call, i - 1, GRAD};
        state[NEXT] = (syn_tensor){0};
        if (i > 1) sum = receive(ctx, state[OWN], &before, "dkv");
        if (i < ring->size - 1) {
            send(ctx, kv, &m);
            state[NEXT] = receive(ctx, kv, &m, "kv");
        }
        if (i > 0) unpack(ctx, kv, depth, &k, &v);
        attend_grad(ctx, &b, f, k, v, part);
        if (i > 0) add_rows(ctx, &state[DQ], part[0], 1, b.query);
        else state[DQ] = syn_cast(ctx, part[0], SYN_F32);
        const syn_tensor dkv = pack(ctx, part[1], part[2]);
        if (i == 0) state[OWN] = dkv;
        else if (i == 1) sum = padded(ctx, dkv, 1, tokens);
        else add_rows(ctx, &sum, dkv, 1, 0);
        if (i > 0) send(ctx, sum, &sent);
        kv = state[NEXT];
        syn_release(ctx, mark, state, KEPT);
    }
    const message last = {ring, call, ring->size - 1, GRAD};
    sum = receive(ctx, state[OWN], &last, "dkv");
    add_rows(ctx, &sum, state[OWN], 1, 0);
    unpack(ctx, sum, depth, &d[1], &d[2]);
    d[0] = state[DQ];
}

/* ---- all-gathers ---- */

/* Replaces keys and values (B, G, T, D) by those of all ranks in the order of the sequence, (B, G,
   S, D). Starts both all-gathers before it uses a result. */
static void gather(syn_ctx *ctx, syn_tensor *k, syn_tensor *v, const syn_group *group) {
    syn_tensor *const both[2] = {k, v};
    for (int i = 0; i < 2; i++) {
        const int64_t *n = syn_tensor_spec(ctx, *both[i])->dims;
        const int64_t dims[5] = {1, n[0], n[1], n[2], n[3]};
        *both[i] = syn_all_gather(ctx, syn_reshape(ctx, *both[i], dims, 5), 0, group);
    }
    for (int i = 0; i < 2; i++) *both[i] = syn_zigzag_join(ctx, *both[i], 2);
}

/* Sums x (B, S, G, D) over the ranks -> this rank's tokens (B, T, G, D). */
static syn_tensor scatter(syn_ctx *ctx, syn_tensor x, const syn_group *group) {
    x = syn_zigzag_split(ctx, x, 1, group->size);
    const int64_t *n = syn_tensor_spec(ctx, x)->dims;
    const int64_t dims[4] = {n[1], n[2], n[3], n[4]};
    return syn_reshape(ctx, syn_reduce_scatter(ctx, x, SYN_REDUCE_SUM, 0, group), dims, 4);
}

/* The block of the rank's first or second piece. The kernels skip the keys behind the piece. */
static block gathered_block(int64_t tokens, int which, const syn_group *group) {
    const int64_t half = tokens / 2, n = group->size;
    const int64_t piece = which ? 2 * n - 1 - group->index : group->index;
    return (block){
        .query = which * half, .queries = half, .keys = n * tokens, .offset = piece * half};
}

static syn_tensor gathered_forward(syn_ctx *ctx, syn_tensor q, syn_tensor k, syn_tensor v,
                                   double scale, const syn_group *group, syn_tensor *log_sum) {
    const int64_t tokens = syn_tensor_dim(ctx, q, 2);
    const syn_mark mark = syn_ctx_mark(ctx);
    syn_tensor out[2], part[2][2], keep[2];
    gather(ctx, &k, &v, group);
    for (int i = 0; i < 2; i++) {
        const block b = gathered_block(tokens, i, group);
        attend(ctx, &b, q, k, v, scale, part[i]);
    }
    for (int i = 0; i < 2; i++) {
        out[0] = part[0][i];
        out[1] = part[1][i];
        keep[i] = syn_concat(ctx, out, 2, i + 1);
    }
    syn_release(ctx, mark, keep, 2);
    *log_sum = keep[1];
    return keep[0];
}

static void gathered_backward(syn_ctx *ctx, const finished *f, syn_tensor k, syn_tensor v,
                              const syn_group *group, syn_tensor d[3]) {
    const int64_t tokens = syn_tensor_dim(ctx, f->q, 2);
    const syn_mark mark = syn_ctx_mark(ctx);
    syn_tensor part[2][3];
    gather(ctx, &k, &v, group);
    for (int i = 0; i < 2; i++) {
        const block b = gathered_block(tokens, i, group);
        attend_grad(ctx, &b, f, k, v, part[i]);
    }
    d[0] = syn_concat(ctx, (const syn_tensor[]){part[0][0], part[1][0]}, 2, 1);
    for (int i = 1; i < 3; i++) {
        d[i] = part[1][i];
        add_rows(ctx, &d[i], part[0][i], 1, 0);
    }
    syn_release(ctx, mark, d, 3);
    d[1] = scatter(ctx, d[1], group);
    d[2] = scatter(ctx, d[2], group);
}

/* ---- context_attention ---- */

enum { OUT, Q, K, V, LOG_SUM, INPUTS }; /* inputs; the output is a view of OUT */
enum { SCALE, GATHERS, CALL };          /* attributes */

SYN__INFER(context_attention) {
    c->out[0] = c->in[OUT];
    return SYN_OK;
}

syn_tensor syn_context_attention(syn_ctx *ctx, syn_tensor q, syn_tensor k, syn_tensor v,
                                 double scale, bool gathers, int64_t call, const syn_group *group) {
    syn_tensor y = {0}, log_sum = {0};
    if (syn_ctx_status(ctx) != SYN_OK) return y;
    if (!group || group->size < 2)
        return syn_ctx_fail(ctx, SYN_E_INVALID,
                            "context_attention needs a group of at least two ranks");
    if (syn_tensor_spec(ctx, q)->rank != 4 || syn_tensor_dim(ctx, q, 2) % 2 != 0 ||
        syn_tensor_dim(ctx, k, 2) != syn_tensor_dim(ctx, q, 2))
        return syn_ctx_fail(ctx, SYN_E_SHAPE,
                            "context_attention needs two pieces of equal length: as many keys as "
                            "queries (B, H, T, D), with an even T");
    const bool was = syn_set_grad(ctx, false);
    y = gathers ? gathered_forward(ctx, q, k, v, scale, group, &log_sum)
                : ring_forward(ctx, q, k, v, scale, call, group, &log_sum);
    (void)syn_set_grad(ctx, was);
    const syn_tensor in[INPUTS] = {y, q, k, v, log_sum};
    const syn_attr attr[3] = {{.f = scale}, {.i = gathers}, {.i = call}};
    syn__call_op(ctx, SYN_OP_CONTEXT_ATTENTION, in, INPUTS, attr, 3, group, &y);
    return y;
}

SYN__GRAD(context_attention) {
    const finished f = {g->in[Q], g->in[OUT], g->in[LOG_SUM],
                        syn__dense_last_dim(g->ctx, syn_grad_out(g, 0)), g->attr[SCALE].f};
    const int64_t call = g->attr[CALL].i;
    syn_tensor d[3];
    if (g->attr[GATHERS].i) gathered_backward(g->ctx, &f, g->in[K], g->in[V], g->group, d);
    else ring_backward(g->ctx, &f, g->in[K], g->in[V], call, g->group, d);
    for (int i = 0; i < 3; i++)
        if (g->need[Q + i]) g->din[Q + i] = swapped(g->ctx, d[i]);
}
