/* Collectives and messages. Their kernels move no data: they describe the operation in
   call->comm_call, and syn__dispatch runs it. Also tp_enter, a view that records the group of its
   gradient's all-reduce. */
#include <string.h>

#include "ops/ops.h"
#include "ops/rules.h"
#include "syntorch/base/memory.h"

/* Counts one read of the input and one write of the output, and no flops for a reduction. */
SYN__COST(comm) {
    *cost = (syn_cost){0, syn__input_bytes(c), syn__output_bytes(c)};
}

static syn_dtype dtype(const syn_operand *o) {
    return (syn_dtype)o->spec.dtype;
}

/* Describes the operation: operand i becomes segment i, with the element count of counted[i]. */
static void describe(syn_call *c, const syn_operand *counted) {
    const int n = c->n_in > 1 ? c->n_in : 1;
    for (int i = 0; i < n; i++)
        c->segments[i] =
            (syn_segment){c->n_in ? c->in[i].data : NULL, c->n_out ? c->out[i].data : NULL,
                          (size_t)syn_spec_elems(&counted[i].spec)};
    c->comm_call = (syn_comm_call){.kind = c->def->comm,
                                   .dtype = dtype(counted),
                                   .n_segments = n,
                                   .group = c->group,
                                   .segments = c->segments};
}

static syn_status check_reduce(const syn_call *c, int64_t reduce) {
    if (reduce >= 0 && reduce < SYN_REDUCE_COUNT) return SYN_OK;
    return SYN_FAIL(c->err, SYN_E_INVALID, "unknown reduction %lld", (long long)reduce);
}

static syn_status check_axis(const syn_call *c, int64_t axis) {
    if (axis >= 0 && axis < c->in[0].spec.rank) return SYN_OK;
    return SYN_FAIL(c->err, SYN_E_SHAPE, "dimension %lld does not exist: the tensor has %d",
                    (long long)axis, c->in[0].spec.rank);
}

/* Returns false if the context has failed. Makes it fail if the group has fewer than two ranks. */
static bool ready(syn_ctx *ctx, syn_op op, const syn_group *group) {
    if (syn_ctx_status(ctx) == SYN_OK && (!group || group->size < 2))
        syn_ctx_fail(ctx, SYN_E_INVALID, "%s needs a group of at least two ranks",
                     syn_op_table[op].name);
    return syn_ctx_status(ctx) == SYN_OK;
}

/* The common part of all builders of collectives with one tensor. Communicators need contiguous
   buffers, so x is copied if necessary. */
static syn_tensor collective(syn_ctx *ctx, syn_op op, const syn_tensor *x, const syn_attr *attr,
                             int n_attr, const syn_group *group) {
    syn_tensor out = {0}, in = x ? syn_contiguous(ctx, *x) : out;
    if (!ready(ctx, op, group)) return out;
    syn__call_op(ctx, op, &in, x ? 1 : 0, attr, n_attr, group, &out);
    return out;
}

/* ---- tp_enter ---- */

SYN__INFER(tp_enter) {
    c->out[0] = c->in[0];
    return SYN_OK;
}

syn_tensor syn_tp_enter(syn_ctx *ctx, syn_tensor x, const syn_group *group) {
    syn_tensor out = {0};
    if (ready(ctx, SYN_OP_TP_ENTER, group))
        syn__call_op(ctx, SYN_OP_TP_ENTER, &x, 1, NULL, 0, group, &out);
    return out;
}

/* Each rank of the region has a partial gradient. */
SYN__GRAD(tp_enter) {
    g->din[0] = syn_all_reduce(g->ctx, syn_grad_out(g, 0), SYN_REDUCE_SUM, g->group);
}

/* ---- all_reduce ---- */

SYN__INFER(all_reduce) {
    SYN_TRY(check_reduce(c, c->attr[0].i));
    c->out[0].spec = c->in[0].spec;
    return SYN_OK;
}

SYN__CPU(all_reduce) {
    describe(c, c->in);
    /* The reduction is the last attribute, because coalesced ops have the number of tensors before
       it. */
    c->comm_call.reduce = (syn_reduce)c->attr[c->n_attr - 1].i;
    return SYN_OK;
}

syn_tensor syn_all_reduce(syn_ctx *ctx, syn_tensor x, syn_reduce reduce, const syn_group *group) {
    const syn_attr attr[1] = {{.i = reduce}};
    return collective(ctx, SYN_OP_ALL_REDUCE, &x, attr, 1, group);
}

/* After the sum, all ranks compute the same, so the gradient of the output is also the gradient of
   the input (Megatron's g). */
SYN__GRAD(all_reduce) {
    if (g->attr[0].i == SYN_REDUCE_SUM) g->din[0] = syn_grad_out(g, 0);
    else syn_ctx_fail(g->ctx, SYN_E_UNSUPPORTED, "all_reduce: only the sum has a gradient");
}

/* ---- all_gather, reduce_scatter ---- */

/* Communicators exchange one block per rank. If `axis` is not the outermost dimension, the kernels
   here convert between blocks and rows, through scratch memory. */

/* Converts blocks [n][outer][inner] to rows [outer][n][inner], or back. */
static void interleave(const char *from, char *to, size_t n, size_t outer, size_t inner_bytes,
                       bool to_rows) {
    for (size_t r = 0; r < n; r++)
        for (size_t o = 0; o < outer; o++) {
            const size_t block = (r * outer + o) * inner_bytes, row = (o * n + r) * inner_bytes;
            memcpy(to + (to_rows ? row : block), from + (to_rows ? block : row), inner_bytes);
        }
}

/* *outer: product of the dimensions before `axis`. *inner_bytes: bytes of this rank's shard in the
   other dimensions, from `axis` on. */
static void split(const syn_operand *part, int64_t axis, size_t *outer, size_t *inner_bytes) {
    *outer = 1;
    *inner_bytes = syn_dtype_bytes(dtype(part));
    for (int d = 0; d < part->spec.rank; d++)
        *(d < axis ? outer : inner_bytes) *= (size_t)part->spec.dims[d];
}

SYN__INFER(all_gather) {
    SYN_TRY(check_axis(c, c->attr[0].i));
    c->out[0].spec = c->in[0].spec;
    if (!syn_mul_i64(c->out[0].spec.dims[c->attr[0].i], c->group->size,
                     &c->out[0].spec.dims[c->attr[0].i]))
        return SYN_FAIL(c->err, SYN_E_SHAPE, "the result is too large");
    return SYN_OK;
}

static void interleave_gathered(syn_call *c) {
    size_t outer, inner_bytes;
    split(&c->in[0], c->attr[0].i, &outer, &inner_bytes);
    interleave(c->scratch, c->out[0].data, (size_t)c->group->size, outer, inner_bytes, true);
}

SYN__CPU(all_gather) {
    size_t outer, inner_bytes;
    describe(c, c->out);
    c->comm_call.part = c->in[0].data;
    c->comm_call.n_part = (size_t)syn_spec_elems(&c->in[0].spec);
    split(&c->in[0], c->attr[0].i, &outer, &inner_bytes);
    if (outer == 1) return SYN_OK;
    const size_t bytes = (size_t)syn_spec_bytes(&c->out[0].spec);
    c->segments[0].out = c->scratch = syn_malloc(bytes);
    c->finish = interleave_gathered;
    return c->scratch ? SYN_OK : SYN_FAIL_NOMEM(c->err, bytes, "gathered blocks");
}

syn_tensor syn_all_gather(syn_ctx *ctx, syn_tensor x, int axis, const syn_group *group) {
    if (axis < 0) axis += syn_tensor_spec(ctx, x)->rank;
    const syn_attr attr[1] = {{.i = axis}};
    return collective(ctx, SYN_OP_ALL_GATHER, &x, attr, 1, group);
}

/* All ranks have the same gradient of the whole tensor. Each rank uses the slice that belongs to
   its shard. */
SYN__GRAD(all_gather) {
    const int axis = (int)g->attr[0].i;
    const int64_t n = syn_tensor_dim(g->ctx, g->in[0], axis);
    g->din[0] = syn_slice(g->ctx, syn_grad_out(g, 0), axis, g->group->index * n, n);
}

SYN__INFER(reduce_scatter) {
    SYN_TRY(check_reduce(c, c->attr[0].i));
    SYN_TRY(check_axis(c, c->attr[1].i));
    c->out[0].spec = c->in[0].spec;
    int64_t *dim = &c->out[0].spec.dims[c->attr[1].i];
    if (*dim % c->group->size)
        return SYN_FAIL(c->err, SYN_E_SHAPE,
                        "dimension %lld has length %lld, which does not divide among %d ranks",
                        (long long)c->attr[1].i, (long long)*dim, c->group->size);
    *dim /= c->group->size;
    return SYN_OK;
}

SYN__CPU(reduce_scatter) {
    size_t outer, inner_bytes;
    describe(c, c->in);
    c->comm_call.reduce = (syn_reduce)c->attr[0].i;
    c->comm_call.part = c->out[0].data;
    c->comm_call.n_part = (size_t)syn_spec_elems(&c->out[0].spec);
    split(&c->out[0], c->attr[1].i, &outer, &inner_bytes);
    if (outer == 1) return SYN_OK;
    const size_t bytes = (size_t)syn_spec_bytes(&c->in[0].spec);
    c->segments[0].in = c->scratch = syn_malloc(bytes);
    if (!c->scratch) return SYN_FAIL_NOMEM(c->err, bytes, "blocks to scatter");
    interleave(c->in[0].data, c->scratch, (size_t)c->group->size, outer, inner_bytes, false);
    return SYN_OK;
}

syn_tensor syn_reduce_scatter(syn_ctx *ctx, syn_tensor x, syn_reduce reduce, int axis,
                              const syn_group *group) {
    if (axis < 0) axis += syn_tensor_spec(ctx, x)->rank;
    const syn_attr attr[2] = {{.i = reduce}, {.i = axis}};
    return collective(ctx, SYN_OP_REDUCE_SCATTER, &x, attr, 2, group);
}

SYN__GRAD(reduce_scatter) {
    if (g->attr[0].i == SYN_REDUCE_SUM)
        g->din[0] = syn_all_gather(g->ctx, syn_grad_out(g, 0), (int)g->attr[1].i, g->group);
    else syn_ctx_fail(g->ctx, SYN_E_UNSUPPORTED, "reduce_scatter: only the sum has a gradient");
}

/* ---- all_to_all, deepep_all_to_all ---- */

/* Attributes of deepep_all_to_all before its list. Those of all_to_all are only MOST. */
enum { MOST, ROW_BYTES, FP8, COMBINE, EXPERTS, K, GROUPS, TOP_GROUPS, DEEPEP_ATTRS };

/* The attribute that is the length of the list: the number of rows for each member, then of each
   member. An empty list: equal numbers. */
static int list_of(syn_op op) {
    return op == SYN_OP_ALL_TO_ALL ? MOST + 1 : DEEPEP_ATTRS;
}

static int64_t rows_for(const syn_call *c, bool from, int32_t member) {
    const int32_t n = c->group->size;
    const syn_attr *list = &c->attr[list_of(c->def->op)];
    return list->i == 0 ? c->in[0].spec.dims[0] / n : list[1 + (from ? n : 0) + member].i;
}

SYN__INFER(all_to_all) {
    const syn_spec *x = &c->in[0].spec;
    const int32_t n = c->group->size;
    const int64_t listed = c->attr[list_of(c->def->op)].i, most = c->attr[MOST].i;
    int64_t to = 0, from = 0;
    bool valid = listed == 0 || listed == 2 * (int64_t)n;
    if (x->rank < 1) return syn__bad_input(c, 0, "rows (R, ...)");
    if (listed == 0) valid = x->dims[0] % n == 0;
    for (int32_t i = 0; valid && i < n; i++) {
        valid = rows_for(c, false, i) >= 0 && rows_for(c, true, i) >= 0;
        to += rows_for(c, false, i);
        from += rows_for(c, true, i);
    }
    if (!valid || to != x->dims[0])
        return SYN_FAIL(c->err, SYN_E_SHAPE, "%lld rows are not divided among %d ranks",
                        (long long)x->dims[0], (int)n);
    if (most < to || most < from)
        return SYN_FAIL(c->err, SYN_E_SHAPE,
                        "this rank sends %lld rows and receives %lld, more than the group's "
                        "largest number, %lld",
                        (long long)to, (long long)from, (long long)most);
    c->out[0].spec = *x;
    c->out[0].spec.dims[0] = from;
    return SYN_OK;
}

SYN__CPU(all_to_all) {
    const int32_t n = c->group->size;
    const int64_t rows = c->in[0].spec.dims[0];
    const int64_t width = rows > 0 ? syn_spec_elems(&c->in[0].spec) / rows
                          : c->out[0].spec.dims[0] > 0
                              ? syn_spec_elems(&c->out[0].spec) / c->out[0].spec.dims[0]
                              : 0;
    int64_t *counts = c->scratch = syn_malloc(2 * (size_t)n * sizeof *counts);
    if (!counts) return SYN_FAIL_NOMEM(c->err, 2 * (size_t)n * sizeof *counts, "an all-to-all");
    describe(c, c->in);
    for (int32_t i = 0; i < n; i++) {
        counts[i] = rows_for(c, false, i) * width;
        counts[n + i] = rows_for(c, true, i) * width;
    }
    c->comm_call.to = counts;
    c->comm_call.from = counts + n;
    return SYN_OK;
}

/* Sets the length and the entries of the list, and returns how many attributes these are. */
static int list_rows(const int64_t *to, const int64_t *from, int32_t n, syn_attr *list) {
    bool even = true;
    for (int32_t i = 0; to && i < n; i++) even = even && to[i] == to[0] && from[i] == to[0];
    list[0].i = even ? 0 : 2 * (int64_t)n;
    for (int32_t i = 0; !even && i < n; i++) {
        list[1 + i].i = to[i];
        list[1 + n + i].i = from[i];
    }
    return even ? 1 : 1 + 2 * n;
}

/* head: the attributes before the list. */
static syn_tensor exchange(syn_ctx *ctx, syn_op op, syn_tensor x, const int64_t *to,
                           const int64_t *from, const syn_attr *head, const syn_group *group) {
    const int before = list_of(op);
    syn_tensor out = {0};
    if (!ready(ctx, op, group)) return out;
    if (!to != !from)
        return syn_ctx_fail(ctx, SYN_E_INVALID, "%s needs both lists of rows, or neither",
                            syn_op_table[op].name);
    syn_attr *attr = syn_malloc((2 * (size_t)group->size + 1 + (size_t)before) * sizeof *attr);
    if (!attr) return syn_ctx_fail(ctx, SYN_E_NOMEM, "out of memory: an all-to-all");
    memcpy(attr, head, (size_t)before * sizeof *attr);
    if (!to) attr[MOST].i = syn_tensor_dim(ctx, x, 0);
    const int n = before + list_rows(to, from, group->size, attr + before);
    out = collective(ctx, op, &x, attr, n, group);
    syn_free(attr);
    return out;
}

syn_tensor syn_all_to_all(syn_ctx *ctx, syn_tensor x, const int64_t *to, const int64_t *from,
                          int64_t most, const syn_group *group) {
    const syn_attr head[1] = {[MOST] = {.i = most}};
    return exchange(ctx, SYN_OP_ALL_TO_ALL, x, to, from, head, group);
}

/* Bytes of a row (1, C) of a dispatch in f8: an element each, and an f32 scale per 128 elements. */
static int64_t f8_bytes(int64_t elems) {
    return elems + 4 * ((elems + 127) / 128);
}

/* The bytes of a row on the way; 0: those of its elements. */
static int64_t deepep_row_bytes(bool fp8, bool combine, int64_t elems) {
    return fp8 && !combine ? f8_bytes(elems) : 0;
}

syn_tensor syn_deepep_all_to_all(syn_ctx *ctx, syn_tensor x, const int64_t *to, const int64_t *from,
                                 int64_t most, const syn_deepep *how, const syn_group *group) {
    const int64_t elems = syn_tensor_dim(ctx, x, -1);
    const syn_attr head[DEEPEP_ATTRS] = {
        [MOST] = {.i = most},
        [ROW_BYTES] = {.i = deepep_row_bytes(how->fp8, how->combine, elems)},
        [FP8] = {.i = how->fp8},
        [COMBINE] = {.i = how->combine},
        [EXPERTS] = {.i = how->choice.experts},
        [K] = {.i = how->choice.k},
        [GROUPS] = {.i = how->choice.groups},
        [TOP_GROUPS] = {.i = how->choice.top_groups}};
    return exchange(ctx, SYN_OP_DEEPEP_ALL_TO_ALL, x, to, from, head, group);
}

/* Each row's gradient goes back to the rank that the row came from. The gradient of a dispatch is a
   combine, and the reverse. */
SYN__GRAD(all_to_all) {
    const int32_t n = g->group->size;
    const int before = list_of(g->def->op);
    const bool even = g->attr[before].i == 0;
    syn_attr head[DEEPEP_ATTRS];
    int64_t *rows = syn_malloc(2 * (size_t)n * sizeof *rows);
    if (!rows) {
        syn_ctx_fail(g->ctx, SYN_E_NOMEM, "out of memory: an all-to-all");
        return;
    }
    memcpy(head, g->attr, (size_t)before * sizeof *head);
    for (int32_t i = 0; !even && i < 2 * n; i++) rows[i] = g->attr[before + 1 + i].i;
    const syn_tensor dy = syn_grad_out(g, 0);
    if (before == DEEPEP_ATTRS) {
        const bool combine = head[COMBINE].i == 0;
        head[COMBINE].i = combine;
        head[ROW_BYTES].i =
            deepep_row_bytes(head[FP8].i != 0, combine, syn_tensor_dim(g->ctx, dy, -1));
    }
    g->din[0] = exchange(g->ctx, g->def->op, dy, even ? NULL : rows + n, even ? NULL : rows, head,
                         g->group);
    syn_free(rows);
}

/* ---- sequence parallelism: gather_tokens, cut_tokens ---- */

syn_tensor syn_gather_tokens(syn_ctx *ctx, syn_tensor x, bool keep, const syn_group *group) {
    const syn_attr attr[2] = {{.i = 1}, {.i = keep}};
    return collective(ctx, SYN_OP_GATHER_TOKENS, &x, attr, 2, group);
}

/* Each rank has a partial gradient of all tokens. */
SYN__GRAD(gather_tokens) {
    g->din[0] =
        syn_reduce_scatter(g->ctx, syn_grad_out(g, 0), SYN_REDUCE_SUM, (int)g->attr[0].i, g->group);
}

SYN__INFER(cut_tokens) {
    const int64_t axis = c->attr[0].i;
    SYN_TRY(check_axis(c, axis));
    int64_t *dim = &c->out[0].spec.dims[axis];
    c->out[0] = c->in[0];
    if (*dim % c->group->size)
        return SYN_FAIL(c->err, SYN_E_SHAPE, "%lld tokens do not divide among %d ranks",
                        (long long)*dim, c->group->size);
    *dim /= c->group->size;
    c->out[0].offset += c->group->index * *dim * c->in[0].strides[axis];
    return SYN_OK;
}

syn_tensor syn_cut_tokens(syn_ctx *ctx, syn_tensor x, const syn_group *group) {
    const syn_attr attr[1] = {{.i = 1}};
    syn_tensor out = {0};
    if (ready(ctx, SYN_OP_CUT_TOKENS, group))
        syn__call_op(ctx, SYN_OP_CUT_TOKENS, &x, 1, attr, 1, group, &out);
    return out;
}

SYN__GRAD(cut_tokens) {
    g->din[0] = syn_all_gather(g->ctx, syn_grad_out(g, 0), (int)g->attr[0].i, g->group);
}

/* ---- broadcast, barrier ---- */

static syn_status check_root(const syn_call *c, int64_t root) {
    if (root >= 0 && root < c->group->size) return SYN_OK;
    return SYN_FAIL(c->err, SYN_E_INVALID, "root %lld is not in a group of %d", (long long)root,
                    c->group->size);
}

SYN__INFER(broadcast) {
    c->out[0].spec = c->in[0].spec;
    return check_root(c, c->attr[0].i);
}

SYN__CPU(broadcast) {
    describe(c, c->in);
    c->comm_call.root = (int32_t)c->attr[c->n_attr - 1].i;
    return SYN_OK;
}

syn_tensor syn_broadcast(syn_ctx *ctx, syn_tensor x, int root, const syn_group *group) {
    const syn_attr attr[1] = {{.i = root}};
    return collective(ctx, SYN_OP_BROADCAST, &x, attr, 1, group);
}

/* ---- lists of tensors: the kernels above create one segment per tensor ---- */

static syn_status check_list(const syn_call *c) {
    for (int i = 0; i < c->n_in; i++) {
        SYN_TRY(syn__check_dtype(c, i, dtype(&c->in[0])));
        if (!syn__is_dense(&c->in[i])) return syn__bad_input(c, i, "dense");
    }
    return SYN_OK;
}

static bool check_length(syn_ctx *ctx, syn_op op, int n) {
    if (n >= 1 && n <= SYN_MAX_LIST) return true;
    syn_ctx_fail(ctx, SYN_E_INVALID, "%s got %d tensors but accepts 1 to %d", syn_op_table[op].name,
                 n, SYN_MAX_LIST);
    return false;
}

static void coalesced(syn_ctx *ctx, syn_op op, syn_tensor *xs, int n, int64_t how,
                      const syn_group *group) {
    const syn_attr attr[2] = {{.i = n}, {.i = how}};
    syn_tensor out[SYN_MAX_LIST];
    if (!check_length(ctx, op, n) || !ready(ctx, op, group)) return;
    syn__call_op(ctx, op, xs, n, attr, 2, group, out);
    for (int i = 0; i < n; i++) xs[i] = out[i];
}

SYN__INFER(all_reduce_coalesced) {
    SYN_TRY(check_reduce(c, c->attr[1].i));
    return check_list(c);
}

void syn_all_reduce_coalesced(syn_ctx *ctx, syn_tensor *xs, int n, syn_reduce reduce,
                              const syn_group *group) {
    coalesced(ctx, SYN_OP_ALL_REDUCE_COALESCED, xs, n, reduce, group);
}

SYN__INFER(broadcast_coalesced) {
    SYN_TRY(check_root(c, c->attr[1].i));
    return check_list(c);
}

void syn_broadcast_coalesced(syn_ctx *ctx, syn_tensor *xs, int n, int root,
                             const syn_group *group) {
    coalesced(ctx, SYN_OP_BROADCAST_COALESCED, xs, n, root, group);
}

/* Fails if group->size parts of `part` elements are shorter than the first n inputs together. */
static syn_status check_parts(const syn_call *c, int n_list, int64_t part) {
    int64_t all, n = 0;
    for (int i = 0; i < n_list; i++) n += syn_spec_elems(&c->in[i].spec);
    if (part >= 0 && syn_mul_i64(part, c->group->size, &all) && all >= n) return SYN_OK;
    return SYN_FAIL(c->err, SYN_E_SHAPE,
                    "%d parts of %lld elements are shorter than the list of %lld elements",
                    c->group->size, (long long)part, (long long)n);
}

SYN__INFER(reduce_scatter_coalesced) {
    const int64_t part = c->attr[1].i;
    SYN_TRY(check_reduce(c, c->attr[0].i));
    SYN_TRY(check_list(c));
    SYN_TRY(check_parts(c, c->n_in, part));
    c->out[0].spec = (syn_spec){(int32_t)dtype(&c->in[0]), 1, {part}};
    return SYN_OK;
}

SYN__CPU(reduce_scatter_coalesced) {
    describe(c, c->in);
    c->comm_call.reduce = (syn_reduce)c->attr[0].i;
    c->comm_call.part = c->out[0].data;
    c->comm_call.n_part = (size_t)c->attr[1].i;
    return SYN_OK;
}

syn_tensor syn_reduce_scatter_coalesced(syn_ctx *ctx, const syn_tensor *xs, int n,
                                        syn_reduce reduce, int64_t part, const syn_group *group) {
    const syn_attr attr[2] = {{.i = reduce}, {.i = part}};
    syn_tensor out = {0};
    if (ready(ctx, SYN_OP_REDUCE_SCATTER_COALESCED, group))
        syn__call_op(ctx, SYN_OP_REDUCE_SCATTER_COALESCED, xs, n, attr, 2, group, &out);
    return out;
}

/* inputs: the tensors to overwrite, then this rank's part */
SYN__INFER(all_gather_coalesced) {
    const int n = c->n_in - 1;
    if (c->attr[0].i != n)
        return SYN_FAIL(c->err, SYN_E_INVALID, "got a list of %d tensors for %lld results", n,
                        (long long)c->attr[0].i);
    SYN_TRY(check_list(c));
    return check_parts(c, n, syn_spec_elems(&c->in[n].spec));
}

/* The old elements of the list are not read. */
SYN__COST(all_gather_coalesced) {
    const uint64_t part = syn_spec_bytes(&c->in[c->n_in - 1].spec);
    *cost = (syn_cost){0, part, syn__output_bytes(c)};
}

SYN__CPU(all_gather_coalesced) {
    const syn_operand *part = &c->in[c->n_in - 1];
    describe(c, c->in);
    c->comm_call.n_segments = c->n_out;
    c->comm_call.part = part->data;
    c->comm_call.n_part = (size_t)syn_spec_elems(&part->spec);
    return SYN_OK;
}

void syn_all_gather_coalesced(syn_ctx *ctx, syn_tensor *xs, int n, syn_tensor part,
                              const syn_group *group) {
    const syn_attr attr[1] = {{.i = n}};
    syn_tensor in[SYN_MAX_LIST + 1], out[SYN_MAX_LIST];
    if (!check_length(ctx, SYN_OP_ALL_GATHER_COALESCED, n) ||
        !ready(ctx, SYN_OP_ALL_GATHER_COALESCED, group))
        return;
    for (int i = 0; i < n; i++) in[i] = xs[i];
    in[n] = part;
    syn__call_op(ctx, SYN_OP_ALL_GATHER_COALESCED, in, n + 1, attr, 1, group, out);
    for (int i = 0; i < n; i++) xs[i] = out[i];
}

SYN__INFER(barrier) {
    (void)c;
    return SYN_OK;
}

SYN__CPU(barrier) {
    c->comm_call = (syn_comm_call){.kind = SYN_COMM_BARRIER, .group = c->group};
    return SYN_OK;
}

void syn_barrier(syn_ctx *ctx, const syn_group *group) {
    collective(ctx, SYN_OP_BARRIER, NULL, NULL, 0, group);
}

/* ---- messages ---- */

static syn_status check_peer(const syn_call *c) {
    const int64_t peer = c->attr[0].i, tag = c->attr[1].i;
    if (peer < 0 || peer >= c->comm->size || peer == c->comm->rank)
        return SYN_FAIL(c->err, SYN_E_INVALID, "rank %lld is not another rank of this world",
                        (long long)peer);
    if (tag < 0 || tag > syn_comm_max_tag(c->comm))
        return SYN_FAIL(c->err, SYN_E_INVALID,
                        "the tag %lld is out of range: messages have tags of 0 to %d",
                        (long long)tag, (int)syn_comm_max_tag(c->comm));
    return SYN_OK;
}

SYN__INFER(send) {
    return check_peer(c);
}

SYN__CPU(send) {
    describe(c, c->in);
    c->comm_call.peer = (int32_t)c->attr[0].i;
    c->comm_call.tag = (int32_t)c->attr[1].i;
    return SYN_OK;
}

void syn_send(syn_ctx *ctx, syn_tensor x, int32_t peer, int32_t tag) {
    const syn_attr attr[2] = {{.i = peer}, {.i = tag}};
    const syn_tensor in = syn_contiguous(ctx, x);
    syn_tensor none;
    syn__call_op(ctx, SYN_OP_SEND, &in, 1, attr, 2, NULL, &none);
}

SYN__INFER(recv) {
    SYN_TRY(check_peer(c));
    syn_spec *o = &c->out[0].spec;
    o->dtype = (int32_t)c->attr[2].i;
    o->rank = (int32_t)c->attr[3].i;
    if (c->attr[2].i < 0 || c->attr[2].i >= SYN_DTYPE_COUNT || c->attr[3].i < 0 ||
        c->attr[3].i > SYN_MAX_RANK)
        return SYN_FAIL(c->err, SYN_E_INVALID, "the message's dtype or shape is not valid");
    for (int d = 0; d < o->rank; d++) o->dims[d] = c->attr[4 + d].i;
    return SYN_OK;
}

SYN__CPU(recv) {
    describe(c, c->out);
    c->comm_call.peer = (int32_t)c->attr[0].i;
    c->comm_call.tag = (int32_t)c->attr[1].i;
    return SYN_OK;
}

syn_tensor syn_recv(syn_ctx *ctx, const syn_spec *spec, int32_t peer, int32_t tag) {
    syn_attr attr[4 + SYN_MAX_RANK] = {
        {.i = peer}, {.i = tag}, {.i = spec->dtype}, {.i = spec->rank}};
    for (int d = 0; d < SYN_MAX_RANK; d++) attr[4 + d].i = spec->dims[d];
    syn_tensor out;
    syn__call_op(ctx, SYN_OP_RECV, NULL, 0, attr, 4 + SYN_MAX_RANK, NULL, &out);
    return out;
}
