/* Finds which shard of a full tensor each tensor row is, so that pictures and exports can show it.
   The shards of parameters are recorded; those of other tensors are derived op by op, with the
   rules below. A tensor for which no rule exists counts as not sharded. */
#include "syntorch/base/memory.h"
#include "syntorch/trace_private.h"

/* Sets *out to index + 1 of a shard in a list. Adds the shard if it is new. */
static syn_status number(syn_shard **shards, size_t *n, size_t *cap, syn_shard shard, uint16_t *out,
                         syn_error *err) {
    for (*out = 0; *out < *n; ++*out) {
        const syn_shard *s = &(*shards)[*out];
        if (s->axis == shard.axis && s->parts == shard.parts && s->index == shard.index &&
            s->count == shard.count)
            break;
    }
    if (*out == *n) {
        if (*n + 1 >= SYN__PARTIAL)
            return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                            "tensors have more than 32,766 different shards");
        SYN_TRY(syn_grow(shards, cap, *n + 1, sizeof **shards, err));
        (*shards)[(*n)++] = shard;
    }
    ++*out;
    return SYN_OK;
}

/* The trace has only the division along `axis`. */
syn_status syn__shard_number(syn_trace *trace, syn_shard shard, uint16_t *out, syn_error *err) {
    shard.range = shard.ranges = 0;
    return number(&trace->shards, &trace->n_shards, &trace->shards_cap, shard, out, err);
}

/* ---- Rules ---- */

/* What is known about a tensor: its shard (count 0: not sharded), or that it is a partial sum
   (`partial`). */
typedef struct part {
    syn_shard shard;
    bool partial;
} part;

static const part whole;

static part cut(part p, int axis) {
    p.shard.axis = axis;
    return p;
}

/* The same shard for a tensor y whose last dimension is aligned with the last dimension of x
   (broadcasting). */
static part aligned(part p, const syn_spec *x, const syn_spec *y) {
    const int axis = p.shard.axis + y->rank - x->rank;
    if (!p.shard.count || axis < 0 || x->dims[p.shard.axis] != y->dims[axis]) return whole;
    return cut(p, axis);
}

/* The output of an elementwise op is sharded like its first sharded input. linear: if input 0 is a
   partial sum, the output is one, too. */
static part pointwise(const syn_call *c, const part *in, const syn_spec *y, bool linear) {
    part p = whole;
    for (int i = 0; i < c->n_in && !p.shard.count; i++) p = aligned(in[i], &c->in[i].spec, y);
    p.partial = linear && in[0].partial;
    return p;
}

/* The dimension of y = reshape(x) that contains dimension `axis` of x, of which x is a shard; -1:
   none. The dimensions before both have the same product. If the last dimension of (T, H D) is
   sharded, so is H in (T, H, D), even if this rank has one head. If the heads of (B, H, T, D) are
   grouped, so are the groups of (B, G, H T / G, D). Otherwise a dimension of 1 contains no larger
   one. */
static int place_in(const syn_spec *x, const syn_spec *y, int axis) {
    const bool single = x->dims[axis] == 1, splits = axis == x->rank - 1 && y->rank == x->rank + 1;
    int64_t outer = 1, before = 1;
    int found = -1, same = 0;
    while (same < axis && same < y->rank && x->dims[same] == y->dims[same]) same++;
    if (same == axis && y->rank == x->rank && y->dims[y->rank - 1] == x->dims[y->rank - 1])
        return axis;
    if (same == axis && splits && y->dims[axis] * y->dims[axis + 1] == x->dims[axis]) return axis;
    for (int d = 0; d < axis; d++) outer *= x->dims[d];
    for (int d = 0; d < y->rank; before *= y->dims[d++])
        if (before == outer && (single || y->dims[d] > 1)) found = d;
    return found;
}

static part reshaped(part p, const syn_spec *x, const syn_spec *y) {
    const int axis = p.shard.axis, found = p.shard.count ? place_in(x, y, axis) : 0;
    if (!p.shard.count) return p;
    if (found < 0 || (p.shard.parts > 1 && y->dims[found] != x->dims[axis])) return whole;
    return cut(p, found);
}

static part permuted(part p, const syn_call *c) {
    for (int d = 0; p.shard.count && d < c->in[0].spec.rank; d++)
        if (c->attr[1 + d].i == p.shard.axis) return cut(p, d);
    return p;
}

/* The output of a slice. A slice of the sharded dimension is a shard only if it is one of the
   blocks, such as q in a fused q, k, v. */
static part sliced(part p, const syn_call *c) {
    const int64_t start = c->attr[1].i, length = c->attr[2].i;
    if (!p.shard.count || c->attr[0].i != p.shard.axis) return p;
    if (length * p.shard.parts != c->in[0].spec.dims[p.shard.axis] || start % length) return whole;
    p.shard.parts = 1;
    return p;
}

/* The output of the gradient op of such a slice. One of its blocks is the gradient; the other
   blocks are zero. */
static part unsliced(part p, const syn_call *c) {
    const int64_t length = p.shard.count ? c->in[0].spec.dims[p.shard.axis] : 0;
    if (!p.shard.count || c->attr[0].i != p.shard.axis) return p;
    if (!length || p.shard.parts > 1 || c->attr[2].i % length) return whole;
    p.shard.parts = (int)(c->attr[2].i / length);
    return p;
}

/* The output of x w. If w is column-parallel, the output is sharded in the same way. If w is
   row-parallel, the output is a partial sum. The matrix of each expert is a row of w (E, K, N). If
   w is sharded along E, the output has the rows of this rank's experts, which are no shard. */
static part multiplied(const syn_call *c, const part *in) {
    const int first = c->in[1].spec.rank - 2, out_axis = first + (c->attr[0].i ? 0 : 1),
              last = c->out[0].spec.rank - 1;
    const part x = in[0], w = in[1];
    if (w.shard.count && w.shard.axis < first) return whole;
    if (w.shard.count && w.shard.axis == out_axis) return cut(w, last);
    if (w.shard.count || (x.shard.count && x.shard.axis == last)) return (part){.partial = true};
    return x;
}

/* The output of a batched product of inputs `first` and first + 1. */
static part product(const syn_call *c, const part *in, int first) {
    const int rank = c->out[0].spec.rank;
    const part a = in[first], b = in[first + 1];
    const int rows = rank - (c->attr[0].i ? 1 : 2), columns = rank - (c->attr[1].i ? 2 : 1);
    if (a.shard.count && a.shard.axis < rank - 2) return a;
    if (a.shard.count && a.shard.axis == rows) return cut(a, rank - 2);
    if (b.shard.count && b.shard.axis == columns) return cut(b, rank - 1);
    return (part){.partial = a.shard.count || b.shard.count};
}

/* The output of an attention op with inputs (B, H, T, D) and an output (B, T, H, D). */
static part attention_output(part p) {
    return p.shard.count && p.shard.axis == 1 ? cut(p, 2) : p;
}

/* Whether input 0 is sharded along another dimension than that in attribute `attr`, over another
   group than that of the op. */
static bool sharded_otherwise(const syn_call *c, const part *in, int attr) {
    return in[0].shard.count && in[0].shard.axis != c->attr[attr].i;
}

/* A shard along the dimension in attribute `attr`. */
static part scattered(const syn_call *c, const syn_group *g, int attr) {
    return (part){.shard = SYN_SHARD((int)c->attr[attr].i, 1, g->index, g->size)};
}

/* The shard of output i. Only called if an input is a shard or a partial sum, or the op is
   a reduce-scatter or cut_tokens. */
static part rule(uint16_t op, const syn_call *c, const part *in, int i) {
    const syn_spec *x = &c->in[0].spec, *y = &c->out[i].spec;
    switch (op) {
    case SYN_OP_LINEAR:
    case SYN_OP_GROUPED_LINEAR:
        return multiplied(c, in);
    case SYN_OP_MATMUL:
        return product(c, in, 0);
    case SYN_OP_MATMUL_ADD:
        return product(c, in, 1);
    case SYN_OP_EMBEDDING:
        return (part){.partial = in[0].shard.count > 0};
    case SYN_OP_RESHAPE:
        return reshaped(in[0], x, y);
    case SYN_OP_PERMUTE:
        return permuted(in[0], c);
    case SYN_OP_SLICE:
        return sliced(in[0], c);
    case SYN_OP_SLICE_GRAD:
        return unsliced(in[0], c);
    case SYN_OP_KV_APPEND:
    case SYN_OP_PAGED_APPEND:
        return aligned(in[1], &c->in[1].spec, y);
    case SYN_OP_ATTENTION:
        return in[0];
    case SYN_OP_ATTENTION_TRAIN: /* output 1 has one number per query, (B, H, T) */
        return i == 0 ? attention_output(in[0]) : in[0];
    case SYN_OP_PAGED_ATTENTION:
        return attention_output(in[0]);
    case SYN_OP_ATTENTION_GRAD:
        return attention_output(in[i]);
    case SYN_OP_SINKS_GRAD:
        return in[3];
    case SYN_OP_ALL_GATHER:
        return sharded_otherwise(c, in, 0) ? in[0] : whole;
    case SYN_OP_ALL_REDUCE:
    case SYN_OP_BROADCAST:
        return whole;
    case SYN_OP_GATHER_TOKENS:
        return whole;
    case SYN_OP_REDUCE_SCATTER:
        return sharded_otherwise(c, in, 1) ? in[0] : scattered(c, c->group, 1);
    case SYN_OP_CUT_TOKENS:
        return scattered(c, c->group, 0);
    case SYN_OP_REDUCE_SCATTER_COALESCED:
        return (part){.shard = SYN_SHARD(0, 1, c->group->index, c->group->size)};
    case SYN_OP_ADD:
    case SYN_OP_ACCUMULATE:
    case SYN_OP_CAST:
    case SYN_OP_CONTIGUOUS:
    case SYN_OP_SCALE:
    case SYN_OP_SUM_TO:
        return pointwise(c, in, y, true);
    default:
        break;
    }
    if (i < syn_opdef_versions(c->def, c->attr)) return in[i];
    return c->n_in ? pointwise(c, in, y, false) : whole;
}

/* ---- A trace ---- */

static part part_of(const syn__trace_shards *parts, uint32_t row) {
    const uint32_t number = parts->of[row];
    if (number & SYN__PARTIAL) return (part){.partial = true};
    return number ? (part){.shard = parts->shards[number - 1]} : whole;
}

/* Arrays for one node at a time. */
struct scratch {
    syn_operand *operands;
    part *in;
    size_t operands_cap, in_cap;
};

/* Whether the op writes to a cache. A new cache has no shard yet: it is sharded like what is
   written to it. */
static bool fills_cache(uint16_t op) {
    return op == SYN_OP_KV_APPEND || op == SYN_OP_PAGED_APPEND;
}

/* Finds the shards of a node's outputs. */
static syn_status follow(const syn_trace *t, uint32_t node, syn__trace_shards *parts,
                         struct scratch *scratch, syn_error *err) {
    const syn_trace_node *n = &t->nodes[node];
    syn_call call;
    bool any = n->op == SYN_OP_REDUCE_SCATTER || n->op == SYN_OP_REDUCE_SCATTER_COALESCED ||
               n->op == SYN_OP_CUT_TOKENS;
    for (uint32_t i = 0; i < n->n_in && !any; i++) any = parts->of[t->inputs[n->first_in + i]] != 0;
    if (!any) return SYN_OK;
    SYN_TRY(syn_grow(&scratch->in, &scratch->in_cap, n->n_in, sizeof *scratch->in, err));
    SYN_TRY(syn_trace_call(t, node, &call, &scratch->operands, &scratch->operands_cap, err));
    for (uint32_t i = 0; i < n->n_in; i++)
        scratch->in[i] = part_of(parts, t->inputs[n->first_in + i]);
    for (uint32_t i = 0; i < n->n_out; i++) {
        const part p = rule(n->op, &call, scratch->in, (int)i);
        uint16_t *out = &parts->of[n->first_out + i];
        if (*out) continue; /* the shard of a parameter is recorded */
        if (p.partial) *out = SYN__PARTIAL;
        else if (p.shard.count && p.shard.axis < call.out[i].spec.rank)
            SYN_TRY(number(&parts->shards, &parts->n, &parts->cap, p.shard, out, err));
    }
    if (fills_cache(n->op)) parts->of[t->inputs[n->first_in]] = parts->of[n->first_out];
    return SYN_OK;
}

syn_status syn__trace_shards_find(const syn_trace *t, syn__trace_shards *parts, syn_error *err) {
    if (!t->n_shards) return SYN_OK;
    struct scratch scratch = {0};
    parts->of = syn_calloc(t->n_tensors, sizeof *parts->of);
    syn_status s = parts->of ? SYN_OK
                             : SYN_FAIL_NOMEM(err, t->n_tensors * sizeof *parts->of,
                                              "the shards of a trace's tensors");
    for (uint32_t i = 0; i < t->n_shards && s == SYN_OK; i++) {
        uint16_t same;
        s = number(&parts->shards, &parts->n, &parts->cap, t->shards[i], &same, err);
    }
    for (uint32_t i = 1; i < t->n_tensors && s == SYN_OK; i++) parts->of[i] = t->tensors[i].shard;
    for (uint32_t i = 1; i < t->n_nodes && s == SYN_OK; i++) s = follow(t, i, parts, &scratch, err);
    syn_free(scratch.operands);
    syn_free(scratch.in);
    return s;
}
