/* Tests views. Whether a reshape needs a copy is compared with a brute-force check of every
   element. Random chains of views, copies and concatenations are compared with the same steps on
   plain arrays. */
#include "ops/rules.h"
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

static int64_t address(const syn_spec *s, const int64_t *strides, int64_t at) {
    int64_t index[SYN_MAX_RANK] = {0}, sum = 0;
    ref_index(s, at, index);
    for (int d = 0; d < s->rank; d++) sum += index[d] * strides[d];
    return sum;
}

/* Whether strides exist that make `to` a view of *o. The second element along each dimension
   determines the dimension's stride; with these strides, all elements must match. */
static bool view_exists(const syn_operand *o, const syn_spec *to) {
    const int64_t n = syn_spec_elems(to);
    int64_t strides[SYN_MAX_RANK] = {0}, step = 1;
    for (int d = to->rank - 1; d >= 0; d--) {
        if (to->dims[d] > 1 && n > 0) strides[d] = address(&o->spec, o->strides, step);
        step *= to->dims[d];
    }
    for (int64_t i = 0; i < n; i++)
        if (address(&o->spec, o->strides, i) != address(to, strides, i)) return false;
    return true;
}

/* A random shape of n elements. The prime factors of n are distributed over the dimensions. */
static syn_spec shape_of(int64_t n, int rank) {
    syn_spec s = {SYN_F32, rank, {0}};
    for (int d = 0; d < rank; d++) s.dims[d] = 1;
    for (int64_t f = 2; n > 1 && rank > 0; f++)
        for (; n % f == 0; n /= f) s.dims[ref_int(0, rank - 1)] *= f;
    if (n == 0 && rank > 0) s.dims[ref_int(0, rank - 1)] = 0;
    return s;
}

/* Strides as of a permuted and sliced tensor or, in one of four cases, arbitrary ones. */
static void random_strides(syn_operand *o) {
    int order[SYN_MAX_RANK];
    for (int d = 0; d < o->spec.rank; d++) order[d] = d;
    if (ref_int(0, 1))
        for (int d = o->spec.rank - 1; d > 0; d--) {
            const int other = (int)ref_int(0, d), keep = order[d];
            order[d] = order[other];
            order[other] = keep;
        }
    int64_t step = 1;
    const bool cut = ref_int(0, 1), any = ref_int(0, 3) == 0;
    for (int k = o->spec.rank - 1; k >= 0; k--) {
        o->strides[order[k]] = any                           ? ref_int(-3, 8)
                               : o->spec.dims[order[k]] == 1 ? ref_int(0, 9)
                                                             : step;
        step *= o->spec.dims[order[k]] + (cut && ref_int(0, 2) == 0 ? 1 : 0);
    }
}

static void test_view_strides(void) {
    static const int64_t counts[] = {0, 1, 2, 4, 6, 8, 12, 24, 36, 48, 64, 72, 120};
    int yes = 0, no = 0;
    for (int trial = 0; trial < 200000; trial++) {
        ref_seed((uint64_t)trial);
        const int64_t n = counts[ref_int(0, 12)];
        syn_operand o = {.spec = shape_of(n, (int)ref_int(n == 1 ? 0 : 1, 6))};
        const syn_spec to = shape_of(n, (int)ref_int(n == 1 ? 0 : 1, 6));
        random_strides(&o);
        int64_t strides[SYN_MAX_RANK];
        const bool got = syn__view_strides(&o, &to, strides), want = view_exists(&o, &to);
        CHECK_MSG(got == want, "trial %d: says %d, is %d", trial, got, want);
        got ? yes++ : no++;
        for (int64_t i = 0; got && i < n; i++)
            CHECK_MSG(address(&o.spec, o.strides, i) == address(&to, strides, i),
                      "trial %d, element %lld", trial, (long long)i);
    }
    CHECK_MSG(yes > 20000 && no > 20000, "%d views, %d copies: not a test of both", yes, no);
}

/* ---- Chains of ops ---- */

static void permuted(const ref *x, const int *order, ref *y) {
    int64_t from[SYN_MAX_RANK], to[SYN_MAX_RANK];
    y->spec = x->spec;
    for (int d = 0; d < x->spec.rank; d++) y->spec.dims[d] = x->spec.dims[order[d]];
    for (int64_t i = 0; i < syn_spec_elems(&y->spec); i++) {
        ref_index(&y->spec, i, to);
        for (int d = 0; d < x->spec.rank; d++) from[order[d]] = to[d];
        y->v[i] = x->v[ref_at(&x->spec, from)];
    }
}

static void sliced(const ref *x, int axis, int64_t start, int64_t length, ref *y) {
    int64_t index[SYN_MAX_RANK];
    y->spec = x->spec;
    y->spec.dims[axis] = length;
    for (int64_t i = 0; i < syn_spec_elems(&y->spec); i++) {
        ref_index(&y->spec, i, index);
        index[axis] += start;
        y->v[i] = x->v[ref_at(&x->spec, index)];
    }
}

/* Applies one random view op to the tensor and to the plain array. */
static syn_tensor step(syn_ctx *ctx, syn_tensor t, const ref *x, ref *y) {
    const int rank = x->spec.rank;
    const int64_t n = syn_spec_elems(&x->spec);
    const int kind = rank == 0 ? 2 : (int)ref_int(0, 3);
    if (kind == 0) {
        int order[SYN_MAX_RANK];
        for (int d = 0; d < rank; d++) order[d] = d;
        for (int d = rank - 1; d > 0; d--) {
            const int other = (int)ref_int(0, d), keep = order[d];
            order[d] = order[other];
            order[other] = keep;
        }
        permuted(x, order, y);
        return syn_permute(ctx, t, order, rank);
    }
    if (kind == 1) {
        const int axis = (int)ref_int(0, rank - 1);
        const int64_t dim = x->spec.dims[axis],
                      length = ref_int(dim > 0 && ref_int(0, 19) ? (dim + 1) / 2 : 0, dim);
        const int64_t start = ref_int(0, dim - length);
        sliced(x, axis, start, length, y);
        return syn_slice(ctx, t, ref_int(0, 1) ? axis : axis - rank, start, length);
    }
    if (kind == 3) {
        *y = *x;
        return syn_tp_enter(ctx, t, &ref_pair);
    }
    *y = *x;
    y->spec = shape_of(n, (int)ref_int(n == 1 ? 0 : 1, 6));
    y->spec.dtype = x->spec.dtype;
    int64_t dims[SYN_MAX_RANK];
    for (int d = 0; d < y->spec.rank; d++) dims[d] = y->spec.dims[d];
    if (n > 0 && y->spec.rank > 0 && ref_int(0, 1)) dims[ref_int(0, y->spec.rank - 1)] = -1;
    return syn_reshape(ctx, t, dims, y->spec.rank);
}

static void test_chains(void) {
    static ref x, y;
    int copies = 0;
    for (int round = 0; round < 1500; round++) {
        ref_seed((uint64_t)round);
        const syn_dtype dtype = (syn_dtype)(round % SYN_DTYPE_COUNT);
        syn_spec spec =
            shape_of((int64_t[]){24, 36, 60, 120, 210, 64}[ref_int(0, 5)], (int)ref_int(1, 6));
        spec.dtype = (int32_t)dtype;
        ref_fill(&x, spec, 0, 30000);
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL), *meta = ref_ctx(SYN_DEVICE_META, NULL);
        syn_tensor t = ref_dense(ctx, &x), m = syn_input(meta, "x", &spec, NULL);
        for (int k = 0; k < 6; k++) {
            const uint64_t before = ref_state;
            const syn_tensor from = t;
            const int copied = ref_count(ctx, SYN_OP_CONTIGUOUS);
            syn_operand o;
            syn_trace_operand(syn_ctx_trace(ctx), from.id, &o);
            t = step(ctx, t, &x, &y);
            ref_state = before;
            m = step(meta, m, &x, &y);
            CHECK_MSG(ref_check(ctx, t, &y, 0), "round %d, step %d", round, k);
            const bool copy = ref_count(ctx, SYN_OP_CONTIGUOUS) > copied;
            CHECK(copy != view_exists(&o, &y.spec) ||
                  syn_ctx_trace(ctx)->nodes[syn_ctx_trace(ctx)->n_nodes - 1].op != SYN_OP_RESHAPE);
            const syn_trace_tensor *row = &syn_ctx_trace(ctx)->tensors[t.id];
            CHECK(row->flags == SYN_TENSOR_VIEW &&
                  (copy || row->base == syn_ctx_trace(ctx)->tensors[from.id].base));
            copies += copy;
            x = y;
        }
        CHECK_MSG(syn_trace_hash(syn_ctx_trace(ctx)) == syn_trace_hash(syn_ctx_trace(meta)),
                  "round %d", round);
        CHECK(ref_check(ctx, syn_contiguous(ctx, t), &x, 0));
        CHECK(syn_tensor_contiguous(ctx, syn_contiguous(ctx, t)));
        syn_ctx_free(ctx);
        syn_ctx_free(meta);
    }
    CHECK(copies > 300);
}

static void test_contiguous_is_free_when_it_can(void) {
    static ref x;
    const int64_t dims[3] = {4, 5, 6};
    const int swap[3] = {1, 0, 2};
    ref_fill(&x, ref_spec(SYN_F32, 3, dims), 0, 1);
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    const syn_tensor t = ref_dense(ctx, &x), part = syn_slice(ctx, t, 0, 2, 1);
    CHECK_INT(syn_contiguous(ctx, t).id, t.id);
    /* A view at an offset is contiguous, so no copy is made. */
    CHECK_INT(syn_contiguous(ctx, part).id, part.id);
    const syn_tensor one = syn_permute(ctx, part, swap, 3);
    /* The stride of a dimension of size 1 does not matter. */
    CHECK_INT(syn_contiguous(ctx, one).id, one.id);
    const syn_tensor turned = syn_permute(ctx, t, swap, 3);
    CHECK(syn_contiguous(ctx, turned).id != turned.id);
    CHECK(!syn_tensor_contiguous(ctx, turned) && syn_tensor_contiguous(ctx, part));
    CHECK_INT(ref_count(ctx, SYN_OP_CONTIGUOUS), 1);
    syn_ctx_free(ctx);
}

static void test_concat(void) {
    enum { MOST = 16 };
    static ref parts[MOST], want;
    for (int round = 0; round < 400; round++) {
        ref_seed((uint64_t)round);
        syn_spec spec = ref_random_spec((syn_dtype)(round % SYN_DTYPE_COUNT), 1, 6, round % 4 == 0);
        const int axis = (int)ref_int(0, spec.rank - 1), n = (int)ref_int(1, MOST);
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        syn_tensor xs[MOST];
        want.spec = spec;
        want.spec.dims[axis] = 0;
        int used = 0;
        for (; used < n; used++) {
            spec.dims[axis] = ref_int(0, 4);
            syn_spec grown = want.spec;
            grown.dims[axis] += spec.dims[axis];
            if (used > 0 && syn_spec_elems(&grown) > REF_MAX) break;
            ref_fill(&parts[used], spec, 0, 30000);
            xs[used] = ref_wild(ctx, &parts[used]);
            want.spec = grown;
        }
        for (int64_t i = 0; i < syn_spec_elems(&want.spec); i++) {
            int64_t index[SYN_MAX_RANK];
            int p = 0;
            ref_index(&want.spec, i, index);
            while (index[axis] >= parts[p].spec.dims[axis])
                index[axis] -= parts[p++].spec.dims[axis];
            want.v[i] = parts[p].v[ref_at(&parts[p].spec, index)];
        }
        CHECK(ref_check(ctx, syn_concat(ctx, xs, used, ref_int(0, 1) ? axis : axis - spec.rank),
                        &want, 0));
        CHECK_INT(ref_count(ctx, SYN_OP_CONTIGUOUS), 0);
        syn_ctx_free(ctx);
    }
}

/* Slicing along an axis and concatenating the slices is the identity. */
static void test_concat_undoes_slice(void) {
    static ref x;
    for (int round = 0; round < 100; round++) {
        ref_seed((uint64_t)round);
        ref_fill(&x, ref_random_spec(SYN_F32, 1, 5, false), -1, 1);
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        const int axis = (int)ref_int(0, x.spec.rank - 1);
        const int64_t at = ref_int(0, x.spec.dims[axis]);
        const syn_tensor t = ref_wild(ctx, &x);
        const syn_tensor halves[2] = {syn_slice(ctx, t, axis, 0, at),
                                      syn_slice(ctx, t, axis, at, x.spec.dims[axis] - at)};
        CHECK(ref_check(ctx, syn_concat(ctx, halves, 2, axis), &x, 0));
        syn_ctx_free(ctx);
    }
}

/* Writes to a storage are visible through its views, which share its bytes. */
static void test_views_share_storage(void) {
    const int64_t dims[4] = {1, 2, 3, 2}, flat = 12;
    const syn_spec cache = ref_spec(SYN_F32, 4, dims);
    static ref ones, want;
    ref_fill(&ones, ref_spec(SYN_F32, 4, dims), 1, 1);
    ref_fill(&want, ref_spec(SYN_F32, 1, &flat), 1, 1);
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    const syn_tensor state = syn_state(ctx, "cache", &cache);
    const syn_tensor written = syn_kv_append(ctx, state, ref_dense(ctx, &ones), 0),
                     view = syn_reshape(ctx, written, &flat, 1);
    CHECK(ref_check(ctx, view, &want, 0));
    const syn_trace *t = syn_ctx_trace(ctx);
    CHECK_INT(t->tensors[view.id].flags, SYN_TENSOR_VIEW | SYN_TENSOR_STATE);
    CHECK_INT(t->tensors[view.id].base, state.id);
    syn_ctx_free(ctx);
}

/* Fills the stack below the caller with different bytes for each i. */
static __attribute__((noinline)) int64_t scribble(int i) {
    volatile int64_t used[512];
    for (int k = 0; k < 512; k++) used[k] = i * 1000 + k;
    return used[7];
}

/* Views with equal shapes and strides share one table entry, so the padding bytes of a struct must
   not be compared. */
static void equal_layouts_are_one(void) {
    syn_error err = {0};
    syn_ctx *ctx;
    const syn_spec spec = {SYN_F32, 2, {6, 8}};
    CHECK_OK(syn_ctx_new(&ctx, SYN_DEVICE_META, NULL, &err), err);
    for (int i = 0; i < 40; i++) {
        CHECK_INT(scribble(i), i * 1000 + 7);
        syn_slice(ctx, syn_input(ctx, "x", &spec, NULL), 1, 2, 3);
    }
    CHECK(syn_ctx_status(ctx) == SYN_OK);
    CHECK_INT(syn_ctx_trace(ctx)->layouts.n_entries, 1);
    syn_ctx_free(ctx);
}

static const test_case cases[] = {
    {"equal_layouts_are_one", equal_layouts_are_one},
    {"view strides", test_view_strides},
    {"chains", test_chains},
    {"contiguous is free when it can", test_contiguous_is_free_when_it_can},
    {"concat", test_concat},
    {"concat undoes slice", test_concat_undoes_slice},
    {"views share storage", test_views_share_storage},
};
TEST_MAIN(cases)
