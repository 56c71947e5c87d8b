/* Tests random parameters: each shard is a slice of the full tensor, whichever way it is sharded,
   and values are normally distributed and independent. */
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

static void read_all(syn_ctx *ctx, syn_tensor t, float *to) {
    if (!t.id ||
        syn_tensor_read(ctx, t, to, (size_t)syn_spec_bytes(syn_tensor_spec(ctx, t))) != SYN_OK) {
        fprintf(stderr, "%s\n", syn_ctx_error(ctx)->text);
        abort();
    }
}

static void make(const char *name, syn_spec full, syn_shard shard, double std, int64_t valid,
                 uint64_t seed, float *to) {
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    read_all(ctx, syn_param(ctx, name, &full, shard, SYN_INIT_NORMAL, std, valid, seed), to);
    syn_ctx_free(ctx);
}

/* Checks each element: local index i along the axis belongs to part i / per of the full tensor, and
   is at position i % per of this rank's share of that part. Dimension 0 may be divided, too. */
static void test_shards(void) {
    static float whole[REF_MAX], piece[REF_MAX];
    for (int round = 0; round < 300; round++) {
        ref_seed((uint64_t)round);
        syn_spec full = ref_random_spec(SYN_F32, 1, 4, false);
        const int axis = (int)ref_int(0, full.rank - 1), parts = ref_int(0, 1) ? 3 : 1,
                  count = 1 << ref_int(0, 2);
        const int ranges = axis > 0 ? (int)ref_int(1, 3) : 1;
        full.dims[axis] = parts * count * ref_int(1, 3);
        full.dims[0] *= ranges;
        if (syn_spec_elems(&full) > REF_MAX) continue;
        const int64_t valid = axis == 0 && ref_int(0, 1) ? ref_int(0, full.dims[0]) : -1;
        make("w", full, SYN_WHOLE, 1.0, valid, (uint64_t)round, whole);
        for (int number = 0; number < count * ranges; number++) {
            const int rank = number % count;
            const syn_shard cut = {axis, parts, rank, count, number / count, ranges};
            const syn_spec local = syn_shard_spec(&full, &cut);
            CHECK_INT(syn_shard_count(&cut), count * ranges);
            CHECK_INT(syn_shard_number(&cut), number);
            make("w", full, cut, 1.0, valid, (uint64_t)round, piece);
            const int64_t per = local.dims[axis] / parts;
            for (int64_t i = 0; i < syn_spec_elems(&local); i++) {
                int64_t index[SYN_MAX_RANK];
                ref_index(&local, i, index);
                const int64_t part = index[axis] / per;
                index[axis] = part * per * count + rank * per + index[axis] % per;
                if (axis > 0) index[0] += number / count * local.dims[0];
                CHECK_MSG(piece[i] == whole[ref_at(&full, index)],
                          "round %d, rank %d of %d, element %lld", round, rank, count,
                          (long long)i);
            }
        }
    }
}

/* Reassembles the full tensor from the shards of layers, with slices and concat on the device. */
static void test_layer_cuts_join(void) {
    static ref want;
    static float data[REF_MAX], piece[REF_MAX];
    static const struct {
        int axis, parts;
        /* Axis and number of parts: qkv, row-parallel, column-parallel. */
    } cuts[] = {{1, 3}, {0, 1}, {1, 1}};
    const syn_spec full = {SYN_F32, 2, {24, 48}};
    make("h.0.w", full, SYN_WHOLE, 0.02, -1, 5, data);
    want.spec = full;
    for (int i = 0; i < 24 * 48; i++) want.v[i] = (double)data[i];
    for (int k = 0; k < 3; k++)
        for (int tp = 1; tp <= 4; tp *= 2) {
            syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
            syn_tensor pieces[12];
            int n = 0;
            for (int part = 0; part < cuts[k].parts; part++)
                for (int r = 0; r < tp; r++) {
                    const syn_shard shard = SYN_SHARD(cuts[k].axis, cuts[k].parts, r, tp);
                    syn_spec local = full;
                    local.dims[cuts[k].axis] /= tp;
                    make("h.0.w", full, shard, 0.02, -1, 5, piece);
                    const syn_tensor t = syn_input(ctx, "piece", &local, piece);
                    const int64_t length = full.dims[cuts[k].axis] / tp / cuts[k].parts;
                    pieces[n++] = syn_slice(ctx, t, cuts[k].axis, part * length, length);
                }
            CHECK(ref_check(ctx, syn_concat(ctx, pieces, n, cuts[k].axis), &want, 0));
            syn_ctx_free(ctx);
        }
}

enum { MANY = 1 << 18 };

/* The moments must be those of a normal distribution. Values are sums of four uniform numbers
   (Irwin-Hall), whose kurtosis is 3 - 0.3 and whose largest magnitude is sqrt(12). */
static void test_distribution(void) {
    static float x[MANY], y[MANY], z[MANY];
    const syn_spec full = {SYN_F32, 2, {MANY / 64, 64}};
    make("a", full, SYN_WHOLE, 0.02, -1, 1, x);
    make("b", full, SYN_WHOLE, 0.02, -1, 1, y);
    make("a", full, SYN_WHOLE, 0.02, -1, 2, z);
    double mean = 0, square = 0, fourth = 0, most = 0, names = 0, seeds = 0, neighbours = 0,
           columns = 0;
    for (int i = 0; i < MANY; i++) {
        const double v = (double)x[i] / 0.02;
        mean += v / MANY;
        square += v * v / MANY;
        fourth += v * v * v * v / MANY;
        most = fmax(most, fabs(v));
        names += v * ((double)y[i] / 0.02) / MANY;
        seeds += v * ((double)z[i] / 0.02) / MANY;
        neighbours += v * ((double)x[(i + 1) % MANY] / 0.02) / MANY;
        columns += v * ((double)x[(i + 64) % MANY] / 0.02) / MANY;
    }
    const double sigma = 1 / sqrt(MANY);
    CHECK_NEAR(mean, 0, 4 * sigma);
    CHECK_NEAR(square, 1, 6 * sigma);
    CHECK_NEAR(fourth, 2.7, 0.05);
    CHECK_MSG(most > 3 && most < sqrt(12.0) + 1e-6, "largest %g deviations", most);
    CHECK_NEAR(names, 0, 4 * sigma);
    CHECK_NEAR(seeds, 0, 4 * sigma);
    CHECK_NEAR(neighbours, 0, 4 * sigma);
    CHECK_NEAR(columns, 0, 4 * sigma);
}

static void test_deviation_scales(void) {
    static float x[1000], y[1000];
    const syn_spec full = {SYN_F32, 1, {1000}};
    make("a", full, SYN_WHOLE, 1.0, -1, 1, x);
    make("a", full, SYN_WHOLE, 0.25, -1, 1, y);
    for (int i = 0; i < 1000; i++) CHECK_NEAR((double)y[i], 0.25 * (double)x[i], 1e-7);
}

static void test_other_fillings(void) {
    float x[6];
    const syn_spec full = {SYN_F32, 2, {3, 2}};
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    read_all(ctx, syn_param(ctx, "one", &full, SYN_WHOLE, SYN_INIT_ONE, 9, -1, 0), x);
    for (int i = 0; i < 6; i++) CHECK(x[i] == 1.0f);
    read_all(ctx, syn_param(ctx, "zero", &full, SYN_WHOLE, SYN_INIT_ZERO, 9, -1, 0), x);
    for (int i = 0; i < 6; i++) CHECK(x[i] == 0.0f);
    read_all(ctx, syn_param(ctx, "padded", &full, SYN_WHOLE, SYN_INIT_ONE, 0, 2, 0), x);
    CHECK(x[3] == 1.0f && x[4] == 0.0f && x[5] == 0.0f);
    read_all(ctx, syn_param(ctx, "none", &full, SYN_WHOLE, SYN_INIT_ONE, 0, INT64_MAX, 0), x);
    CHECK(x[5] == 1.0f);
    const syn_trace_tensor *row = &syn_ctx_trace(ctx)->tensors[1];
    CHECK_INT(row->flags, SYN_TENSOR_PARAM);
    CHECK_STR(syn_trace_text(syn_ctx_trace(ctx), row->name - 1), "one");
    syn_ctx_free(ctx);
}

/* Rows of vocabulary padding are zero in every shard. The other rows are the same as without
   padding. */
static void test_padded_rows(void) {
    static float plain[50 * 3], padded[52 * 3], piece[13 * 3];
    const syn_spec v50 = {SYN_F32, 2, {50, 3}}, v52 = {SYN_F32, 2, {52, 3}};
    make("wte", v50, SYN_WHOLE, 1, 50, 3, plain);
    make("wte", v52, SYN_WHOLE, 1, 50, 3, padded);
    CHECK(memcmp(plain, padded, sizeof plain) == 0);
    for (int i = 150; i < 156; i++) CHECK(padded[i] == 0.0f);
    make("wte", v52, SYN_SHARD(0, 1, 3, 4), 1, 50, 3, piece);
    for (int i = 0; i < 39; i++) CHECK(piece[i] == padded[39 * 3 + i]);
    CHECK(piece[32] != 0.0f && piece[33] == 0.0f && piece[38] == 0.0f);
}

/* Values do not depend on parameters that were created before. The trace on meta is the same. */
static void test_order_does_not_matter(void) {
    static float a[100], b[100];
    const syn_spec full = {SYN_F32, 1, {100}};
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL), *meta = ref_ctx(SYN_DEVICE_META, NULL);
    for (int k = 0; k < 2; k++) {
        syn_ctx *c = k ? meta : ctx;
        syn_param(c, "first", &full, SYN_WHOLE, SYN_INIT_NORMAL, 1, -1, 8);
        syn_param(c, "second", &full, SYN_WHOLE, SYN_INIT_NORMAL, 1, -1, 8);
    }
    read_all(ctx, syn_find_param(ctx, "second"), a);
    make("second", full, SYN_WHOLE, 1, -1, 8, b);
    CHECK(memcmp(a, b, sizeof a) == 0);
    CHECK(syn_trace_hash(syn_ctx_trace(ctx)) == syn_trace_hash(syn_ctx_trace(meta)));
    syn_ctx_free(ctx);
    syn_ctx_free(meta);
}

/* The shape argument may point into the table of tensors, which moves while the parameter is
   created. */
static void test_shape_of_another(void) {
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    static float data[3 * 600];
    for (int64_t i = 1; i < 300; i++) {
        const syn_tensor like = ZEROS(ctx, SYN_F32, 2 * i, 3);
        char name[16];
        snprintf(name, sizeof name, "w%d", (int)i);
        read_all(ctx,
                 syn_param(ctx, name, syn_tensor_spec(ctx, like), SYN_SHARD(0, 1, 0, 2),
                           SYN_INIT_ONE, 0, i - 1, 0),
                 data);
        CHECK(data[3 * i - 1] == 0.0f && (i == 1 || data[3 * i - 4] == 1.0f));
    }
    syn_ctx_free(ctx);
}

static const test_case cases[] = {
    {"shards", test_shards},
    {"layer cuts join", test_layer_cuts_join},
    {"distribution", test_distribution},
    {"deviation scales", test_deviation_scales},
    {"other fillings", test_other_fillings},
    {"padded rows", test_padded_rows},
    {"order does not matter", test_order_does_not_matter},
    {"shape of another", test_shape_of_another},
};
TEST_MAIN(cases)
