/* Tests 16-bit parameters, the list of parameters, and parameters from a source. test_ops_params.c
   tests the values of f32 parameters and their sharding. */
#include "syntorch/base/half.h"
#include "syntorch/base/memory.h"
#include "syntorch/context.h"
#include "tests/support/comm_reference.h"
#include "tests/support/test.h"

static syn_ctx *open_ctx(syn_device device) {
    syn_error err = {0};
    syn_ctx *ctx = NULL;
    if (syn_ctx_new(&ctx, device, NULL, &err) != SYN_OK) abort();
    return ctx;
}

/* Converts every 16-bit number to f32 and back, and rounds floats between neighbouring numbers. */
static void halves_round(void) {
    static const syn_dtype dtypes[] = {SYN_F16, SYN_BF16};
    for (int d = 0; d < 2; d++)
        for (uint32_t h = 0; h < 0x10000; h++) {
            const uint16_t in = (uint16_t)h;
            uint16_t back;
            float f;
            syn_half_widen(&in, &f, 1, dtypes[d]);
            const double want = reference_widen(in, dtypes[d]);
            CHECK_MSG(isnan(want) ? isnan(f) : (double)f == want, "%s 0x%04x",
                      syn_dtype_name(dtypes[d]), h);
            syn_half_narrow(&f, &back, 1, dtypes[d]);
            CHECK(isnan(want) || back == in);
            if (!isfinite(want)) continue;
            /* F * (1 + 2^-9) and f * (1 + 2^-11). */
            const float near[2] = {f * 1.001953125f, f * 1.00048828125f};
            for (int k = 0; k < 2; k++) {
                syn_half_narrow(&near[k], &back, 1, dtypes[d]);
                CHECK_INT(back, reference_narrow((double)near[k], dtypes[d]));
            }
        }
}

/* A 16-bit parameter equals the f32 parameter, rounded, in every shard. */
static void half_parameters(void) {
    enum { ROWS = 6, COLUMNS = 1200 };
    static float wide[ROWS * COLUMNS];
    static uint16_t narrow[ROWS * COLUMNS], want[ROWS * COLUMNS];
    for (int k = 0; k < 12; k++) {
        const syn_dtype dtype = k % 2 ? SYN_F16 : SYN_BF16;
        const syn_shard shard =
            SYN_SHARD(k / 2 % 2, 1 + 2 * (k / 4 % 2), k / 8 ? 1 : 0, k / 8 ? 2 : 1);
        syn_spec spec = {SYN_F32, 2, {ROWS, COLUMNS}};
        syn_ctx *ctx = open_ctx(SYN_DEVICE_CPU), *half = open_ctx(SYN_DEVICE_CPU);
        const syn_tensor a = syn_param(ctx, "w", &spec, shard, SYN_INIT_NORMAL, 0.02, 5, 3);
        spec.dtype = (int32_t)dtype;
        const syn_tensor b = syn_param(half, "w", &spec, shard, SYN_INIT_NORMAL, 0.02, 5, 3);
        const size_t n = sizeof wide / sizeof *wide / (size_t)shard.count;
        CHECK_OK(syn_tensor_read(ctx, a, wide, n * 4), *syn_ctx_error(ctx));
        CHECK_OK(syn_tensor_read(half, b, narrow, n * 2), *syn_ctx_error(half));
        for (size_t i = 0; i < n; i++) want[i] = reference_narrow((double)wide[i], dtype);
        CHECK(memcmp(want, narrow, n * 2) == 0);
        syn_ctx_free(ctx);
        syn_ctx_free(half);
    }
}

struct asked {
    int calls;
    char name[32];
    syn_spec full, local;
    syn_shard shard;
    int64_t valid_rows;
    bool with_data;
    syn_status answer;
};

static syn_status answer(void *user, const char *name, const syn_spec *full, syn_shard shard,
                         int64_t valid_rows, const syn_spec *local, void *data, syn_error *err) {
    struct asked *a = user;
    a->calls++;
    snprintf(a->name, sizeof a->name, "%s", name);
    a->full = *full;
    a->local = *local;
    a->shard = shard;
    a->valid_rows = valid_rows;
    a->with_data = data != NULL;
    if (a->answer != SYN_OK) return SYN_FAIL(err, a->answer, "no %s today", name);
    for (int64_t i = 0; data && i < syn_spec_elems(local); i++) ((float *)data)[i] = (float)i;
    return SYN_OK;
}

static void from_a_source(void) {
    for (int device = 0; device < 2; device++) {
        struct asked a = {.answer = SYN_OK};
        const syn_param_source source = {answer, &a};
        const syn_spec full = {SYN_F32, 2, {8, 6}};
        syn_ctx *ctx = open_ctx(device ? SYN_DEVICE_META : SYN_DEVICE_CPU);
        float got[24];
        syn_ctx_set_param_source(ctx, &source);
        const syn_tensor t =
            syn_param(ctx, "x.y", &full, SYN_SHARD(1, 3, 1, 2), SYN_INIT_NORMAL, 1, 7, 0);
        CHECK(t.id != 0);
        CHECK_INT(a.calls, 1);
        CHECK_STR(a.name, "x.y");
        CHECK(syn_spec_equal(&a.full, &full));
        CHECK(a.local.dims[0] == 8 && a.local.dims[1] == 3);
        CHECK(a.shard.axis == 1 && a.shard.parts == 3 && a.shard.index == 1 && a.shard.count == 2);
        CHECK_INT(a.valid_rows, 7);
        CHECK_INT(a.with_data, !device);
        if (!device) {
            CHECK_OK(syn_tensor_read(ctx, t, got, sizeof got), *syn_ctx_error(ctx));
            CHECK(got[23] == 23.0f);
        }
        syn_ctx_set_param_source(ctx, NULL);
        syn_param(ctx, "z", &full, SYN_WHOLE, SYN_INIT_ONE, 0, -1, 0);
        CHECK_INT(a.calls, 1);
        /* The list contains both parameters. */
        CHECK_INT(syn_ctx_param_count(ctx), 2);
        const syn_param_info first = syn_ctx_param(ctx, 0), second = syn_ctx_param(ctx, 1);
        CHECK_STR(first.name, "x.y");
        CHECK(first.tensor.id == t.id && syn_spec_equal(&first.full, &full));
        CHECK(first.shard.parts == 3 && first.valid_rows == 7);
        CHECK_STR(second.name, "z");
        CHECK(second.shard.count == 1 && second.valid_rows < 0);
        a.answer = SYN_E_IO;
        syn_ctx_set_param_source(ctx, &source);
        CHECK(syn_param(ctx, "w", &full, SYN_WHOLE, SYN_INIT_ONE, 0, -1, 0).id == 0);
        CHECK_STR(syn_ctx_error(ctx)->text, "no w today");
        syn_ctx_free(ctx);
    }
}

/* A name that is in use is rejected on every device, even if many names were added since. The name
   of a forgotten parameter can be used again. */
static void a_used_name(void) {
    const syn_spec spec = {SYN_F32, 1, {4}};
    for (int device = 0; device < 2; device++) {
        syn_ctx *ctx = open_ctx(device ? SYN_DEVICE_META : SYN_DEVICE_CPU);
        char name[32];
        syn_param(ctx, "h.0.w", &spec, SYN_WHOLE, SYN_INIT_ONE, 0, -1, 0);
        syn_input(ctx, "h.1.w", &spec, NULL); /* an input with this name is not a parameter */
        const syn_mark mark = syn_ctx_mark(ctx);
        for (int i = 1; i < 200; i++) {
            snprintf(name, sizeof name, "h.%d.w", i);
            const syn_tensor t = syn_param(ctx, name, &spec, SYN_WHOLE, SYN_INIT_ONE, 0, -1, 0);
            if (i > 100) syn_drop(ctx, t);
        }
        syn_forget(ctx, mark, NULL, 0);
        CHECK(syn_param(ctx, "h.150.w", &spec, SYN_WHOLE, SYN_INIT_ONE, 0, -1, 0).id != 0);
        CHECK_OK(syn_ctx_status(ctx), *syn_ctx_error(ctx));
        CHECK_INT(syn_param(ctx, "h.0.w", &spec, SYN_WHOLE, SYN_INIT_ONE, 0, -1, 0).id, 0);
        CHECK_STR(syn_ctx_error(ctx)->text,
                  "the context already has a parameter 'h.0.w'; give each parameter its own name");
        syn_ctx_free(ctx);
    }
}

static const test_case cases[] = {
    {"halves_round", halves_round},
    {"a_used_name", a_used_name},
    {"half_parameters", half_parameters},
    {"from_a_source", from_a_source},
};

TEST_MAIN(cases)
