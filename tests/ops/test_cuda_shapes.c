/* Compares strided ops, sums and the optimizer on CUDA with the CPU, at sizes near those of tiles,
   packs and blocks. */

#include "ops/cuda/divisor.h"
#include "ops/rules.h"
#include "tests/support/both_devices.h"
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

enum { MOST = 40000 }; /* largest number of elements */

static syn_spec random_shape(syn_dtype dtype, int min_rank) {
    syn_spec s;
    do {
        s = (syn_spec){(int32_t)dtype, (int32_t)ref_int(min_rank, 4), {0}};
        for (int d = 0; d < s.rank; d++) s.dims[d] = both_size(300);
        if (s.rank && ref_int(0, 19) == 0) s.dims[ref_int(0, s.rank - 1)] = 0;
    } while (syn_spec_elems(&s) > MOST);
    return s;
}

/* A random shape that can be broadcast to s. */
static syn_spec part_of_shape(syn_spec s) {
    const int drop = (int)ref_int(0, s.rank);
    for (int d = 0; d < s.rank; d++)
        if (ref_int(0, 2) == 0) s.dims[d] = 1;
    if (ref_int(0, 3)) return s;
    syn_spec part = {s.dtype, s.rank - drop, {0}};
    for (int d = drop; d < s.rank; d++) part.dims[d - drop] = s.dims[d];
    return part;
}

static void pairs(both_run *r) {
    const syn_spec shape = random_shape(both_float(), 0);
    const syn_spec small = ref_int(0, 1) ? part_of_shape(shape) : shape;
    const syn_tensor a = both_wild(r->ctx, shape, -2, 2), b = both_wild(r->ctx, small, -2, 2);
    r->out[0] = syn_add(r->ctx, a, b);
    r->out[1] = syn_mul(r->ctx, b, a);
    r->n = 2;
}

static void copies(both_run *r) {
    const syn_spec shape = random_shape(ref_int(0, 3) ? both_float() : SYN_I32, 1);
    const int axis = (int)ref_int(0, shape.rank - 1);
    syn_spec other = shape;
    other.dims[axis] = both_size(20);
    const syn_tensor x[3] = {both_wild(r->ctx, shape, -9, 9), both_wild(r->ctx, other, -9, 9),
                             both_wild(r->ctx, shape, -9, 9)};
    r->out[0] = syn_contiguous(r->ctx, x[0]);
    r->out[1] = syn_concat(r->ctx, x, 3, axis);
    r->n = 2;
}

/* Permutations as in the layouts of attention, and transposes of the last two dimensions. */
static void turns(both_run *r) {
    const syn_dtype dtypes[] = {SYN_F32, SYN_BF16, SYN_I32};
    const syn_spec shape = {(int32_t)dtypes[ref_int(0, 2)],
                            4,
                            {ref_int(1, 3), both_size(70), ref_int(1, 4), both_size(140)}};
    const syn_tensor x = both_dense(r->ctx, shape, -9, 9);
    const int orders[3][4] = {{0, 2, 1, 3}, {0, 2, 3, 1}, {3, 1, 2, 0}};
    for (int i = 0; i < 3; i++)
        r->out[i] = syn_contiguous(r->ctx, syn_permute(r->ctx, x, orders[i], 4));
    r->n = 3;
}

/* The gradient of a slice. It is padded with zeros, or added to a sum with any layout. */
static void slices(both_run *r) {
    const syn_spec shape = random_shape(both_float(), 1);
    const int axis = (int)ref_int(0, shape.rank - 1);
    const int64_t start = ref_int(0, 40);
    const syn_tensor x = both_wild(r->ctx, shape, -2, 2);
    const syn_attr attr[3] = {
        {.i = axis}, {.i = start}, {.i = start + shape.dims[axis] + ref_int(0, 40)}};
    syn_spec whole = shape;
    whole.dims[axis] = attr[2].i;
    if (ref_int(0, 1)) whole.dtype = SYN_F32;
    const syn_tensor in[2] = {both_wild(r->ctx, whole, -2, 2), x};
    syn__call_op(r->ctx, SYN_OP_SLICE_GRAD, &x, 1, attr, 3, NULL, &r->out[0]);
    syn__call_op(r->ctx, SYN_OP_SLICE_ADD, in, 2, attr, 2, NULL, &r->out[1]);
    r->n = 2;
}

static void accumulations(both_run *r) {
    const syn_spec shape = random_shape(both_float(), 0);
    syn_spec sum = shape;
    if (ref_int(0, 1)) sum.dtype = SYN_F32;
    const syn_tensor in[2] = {both_wild(r->ctx, sum, -2, 2), both_wild(r->ctx, shape, -2, 2)};
    syn__call_op(r->ctx, SYN_OP_ACCUMULATE, in, 2, NULL, 0, NULL, &r->out[0]);
    r->n = 1;
}

static void sums(both_run *r) {
    const syn_spec shape = random_shape(both_float(), 0), to = part_of_shape(shape);
    r->out[0] = syn_sum_to(r->ctx, both_wild(r->ctx, shape, 0.5, 1), to.dims, to.rank);
    r->n = 1;
    r->tol = 2e-6;
}

/* So many rows, or such long ones, that a sum is split among blocks. */
static void long_sums(both_run *r) {
    const int64_t length = ref_int(9000, 30000), others = both_size(33);
    const bool down = ref_int(0, 1);
    const syn_spec shape = {
        (int32_t)both_float(), 2, {down ? length : others, down ? others : length}};
    const int64_t to[2] = {down ? 1 : others, down ? others : 1};
    r->out[0] = syn_sum_to(r->ctx, both_wild(r->ctx, shape, 0.5, 1), to, 2);
    r->out[1] = syn_sum_to(r->ctx, both_wild(r->ctx, shape, 0.5, 1), NULL, 0);
    r->n = 2;
    r->tol = 2e-6;
}

/* ---- lists ---- */

enum { LIST = SYN_MAX_PARAMS };

static int random_list(syn_spec *specs, syn_dtype dtype) {
    const int n = ref_int(0, 3) ? (int)ref_int(1, 5) : LIST;
    for (int i = 0; i < n; i++) {
        specs[i] = (syn_spec){(int32_t)dtype, 1, {n == LIST ? ref_int(0, 300) : both_size(9000)}};
        if (ref_int(0, 9) == 0) specs[i] = (syn_spec){(int32_t)dtype, 0, {0}};
    }
    if (ref_int(0, 3) == 0) specs[0] = (syn_spec){(int32_t)dtype, 2, {ref_int(200, 300), 257}};
    return n;
}

static void norms(both_run *r) {
    syn_spec specs[LIST];
    syn_tensor xs[LIST];
    const int n = random_list(specs, SYN_F32);
    for (int i = 0; i < n; i++) xs[i] = both_dense(r->ctx, specs[i], -2, 2);
    r->out[0] = syn_square_sum(r->ctx, xs, n);
    r->out[1] = syn_clip_factor(r->ctx, r->out[0], ref_int(0, 1) ? 1.0 : 0.0, &r->out[2]);
    r->n = 3;
    r->tol = 1e-6;
}

/* Runs two optimizer steps and compares everything that they write for one of the parameters. */
static void optimizer(both_run *r) {
    syn_spec specs[LIST], all = {SYN_F32, 1, {0}};
    const syn_spec three = {SYN_F32, 1, {3}}, one = {SYN_F32, 0, {0}};
    syn_tensor params[LIST], grads[LIST];
    const syn_dtype dtype = both_float();
    const int n = random_list(specs, dtype);
    for (int i = 0; i < n; i++) {
        all.dims[0] += syn_spec_elems(&specs[i]);
        params[i] = both_dense(r->ctx, specs[i], -1, 1);
        specs[i].dtype = SYN_F32;
        grads[i] = both_dense(r->ctx, specs[i], -1, 1);
    }
    syn_tensor m = both_dense(r->ctx, all, -1, 1), v = both_dense(r->ctx, all, 0, 1);
    syn_tensor masters = both_dense(r->ctx, all, -1, 1);
    const syn_tensor scale = both_dense(r->ctx, one, 0.1, 1);
    for (int step = 0; step < 2; step++) {
        const syn_adamw_call call = {.params = params,
                                     .grads = grads,
                                     .n = n,
                                     .m = &m,
                                     .v = &v,
                                     .masters = dtype == SYN_F32 ? NULL : &masters,
                                     .rates = both_dense(r->ctx, three, 0.001, 2),
                                     .scale = scale,
                                     .beta1 = 0.9,
                                     .beta2 = 0.999,
                                     .eps = 1e-8,
                                     .weight_decay = 0.1,
                                     .decayed = ref_int(0, INT64_MAX / 4)};
        syn_adamw_step(r->ctx, &call);
    }
    r->out[0] = params[ref_int(0, n - 1)];
    r->out[1] = m;
    r->out[2] = v;
    r->out[3] = masters;
    r->n = 4;
    r->tol = dtype == SYN_F32 ? 1e-6 : dtype == SYN_F16 ? 1e-3 : 1e-2;
}

/* Tests the integer division that kernels use to compute indices, also for tensors larger than any
   memory. */
static void test_division(void) {
    ref_seed(1);
    for (int round = 0; round < 200000; round++) {
        const int64_t by = ref_int(1, INT64_MAX >> ref_int(1, 62));
        const int64_t most = INT64_MAX >> ref_int(1, 62);
        const int64_t at = ref_int(0, most), edge = at - at % by;
        const syn_divisor d = syn_divisor_of(by);
        const int64_t ns[] = {at, edge, edge ? edge - 1 : 0, INT32_MAX, (int64_t)INT32_MAX + 1};
        for (size_t i = 0; i < COUNT(ns); i++)
            CHECK_MSG(syn_quotient(ns[i], d) == ns[i] / by, "%lld / %lld", (long long)ns[i],
                      (long long)by);
    }
}

#define EACH(f, n)               \
    static void test_##f(void) { \
        both_rounds(f, n);       \
    }
EACH(pairs, 60)
EACH(copies, 40)
EACH(turns, 20)
EACH(slices, 40)
EACH(accumulations, 40)
EACH(sums, 60)
EACH(long_sums, 6)
EACH(norms, 15)
EACH(optimizer, 15)

static const test_case cases[] = {
    {"division", test_division}, {"pairs", test_pairs},
    {"copies", test_copies},     {"turns", test_turns},
    {"slices", test_slices},     {"accumulations", test_accumulations},
    {"sums", test_sums},         {"long sums", test_long_sums},
    {"norms", test_norms},       {"optimizer", test_optimizer}};
TEST_MAIN(cases)
