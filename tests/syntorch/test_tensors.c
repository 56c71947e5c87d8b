/* Tests that a context accepts only its own tensors and marks, and tests reads and writes of parts
   of tensors. */
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

/* All functions with a tensor argument, called with a tensor of another context whose id also
   exists in this one. */
enum {
    DISPATCH,
    LATER_INPUT,
    READ,
    READ_F32,
    READ_SOME,
    WRITE,
    WRITE_SOME,
    KEEP,
    DROP,
    PIN,
    UNPIN,
    NAME,
    WAYS
};

static void give(syn_ctx *ctx, int way, syn_tensor own, syn_tensor t) {
    float buf[4] = {0};
    const syn_mark mark = syn_ctx_mark(ctx);
    switch (way) {
    case DISPATCH:
        syn_gelu(ctx, t, true);
        return;
    case LATER_INPUT:
        syn_add(ctx, own, t);
        return;
    case READ:
        CHECK(syn_tensor_read(ctx, t, buf, sizeof buf) != SYN_OK);
        return;
    case READ_F32:
        CHECK(syn_tensor_read_f32(ctx, t, buf, 4) != SYN_OK);
        return;
    case READ_SOME:
        CHECK(syn_tensor_read_range(ctx, t, 0, 4, buf) != SYN_OK);
        return;
    case WRITE_SOME:
        CHECK(syn_tensor_write_range(ctx, t, 0, 4, buf) != SYN_OK);
        return;
    case WRITE:
        CHECK(syn_tensor_write(ctx, t, buf, sizeof buf) != SYN_OK);
        return;
    case KEEP:
        syn_release(ctx, mark, &t, 1);
        return;
    case DROP:
        syn_drop(ctx, t);
        return;
    case PIN:
        syn_pin(ctx, t);
        return;
    case UNPIN:
        syn_unpin(ctx, t);
        return;
    default:
        syn_name(ctx, t, "stranger");
    }
}

static const char *const refused[WAYS] = {
    "gelu: input 0 belongs to another context",
    "add: input 1 belongs to another context",
    "tensor 2 cannot be read: it belongs to another context",
    "tensor 2 cannot be read: it belongs to another context",
    "tensor 2 cannot be read: it belongs to another context",
    "tensor 2 cannot be written: it belongs to another context",
    "tensor 2 cannot be written: it belongs to another context",
    "tensor 2 cannot be kept: it belongs to another context",
    "tensor 2 cannot be dropped: it belongs to another context",
    "tensor 2 cannot be pinned: it belongs to another context",
    "tensor 2 cannot be unpinned: it belongs to another context",
    "tensor 2 cannot be named: it belongs to another context",
};

static void test_of_another_context(void) {
    for (int way = 0; way < 2 * WAYS; way++) {
        const syn_device device = way < WAYS ? SYN_DEVICE_CPU : SYN_DEVICE_META;
        syn_ctx *a = ref_ctx(device, NULL), *b = ref_ctx(device, NULL);
        const syn_tensor own = ZEROS(a, SYN_F32, 4), also = ZEROS(a, SYN_F32, 4);
        ZEROS(b, SYN_F32, 4);
        const syn_tensor strange = ZEROS(b, SYN_F32, 4);
        CHECK(also.id == strange.id && also.tag && strange.tag && own.tag == also.tag);
        give(a, way % WAYS, own, strange);
        CHECK_INT(syn_ctx_status(a), SYN_E_INVALID);
        CHECK_STR(syn_ctx_error(a)->text, refused[way % WAYS]);
        CHECK_INT(syn_ctx_trace(a)->n_nodes, 1);
        CHECK(syn_trace_verify(syn_ctx_trace(a), NULL) == SYN_OK);
        syn_ctx_free(a);
        syn_ctx_free(b);
    }
}

/* Functions that cannot report errors treat such a tensor as the invalid tensor, an f32 scalar. */
static void test_shape_of_another_contexts_tensor(void) {
    syn_ctx *a = ref_ctx(SYN_DEVICE_META, NULL), *b = ref_ctx(SYN_DEVICE_META, NULL);
    const syn_tensor x = ZEROS(a, SYN_I32, 4, 5);
    CHECK(syn_tensor_spec(a, x)->rank == 2 && syn_tensor_dim(a, x, 1) == 5);
    ZEROS(b, SYN_I32, 4, 5);
    CHECK(syn_tensor_spec(b, x)->rank == 0 && syn_tensor_spec(b, x)->dtype == SYN_F32);
    CHECK(syn_tensor_dim(b, x, 1) == 1 && syn_tensor_contiguous(b, x));
    syn_ctx_free(a);
    syn_ctx_free(b);
}

/* Contexts are created one after another at the same address, as in a loop. Tensors of an earlier
   context must still be rejected. */
static void test_tensor_of_a_freed_context(void) {
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_META, NULL);
    const syn_tensor old = ZEROS(ctx, SYN_F32, 4);
    for (int i = 0; i < 20; i++) {
        syn_ctx_free(ctx);
        ctx = ref_ctx(SYN_DEVICE_META, NULL);
        CHECK_INT(ZEROS(ctx, SYN_F32, 4).id, old.id);
        syn_gelu(ctx, old, true);
        CHECK_INT(syn_ctx_status(ctx), SYN_E_INVALID);
    }
    syn_ctx_free(ctx);
}

/* Marks of other contexts are rejected, too. Their row numbers would truncate this context's tables
   at a wrong place or, if they are zero, remove row 0. */
static void test_marks(void) {
    for (int way = 0; way < 8; way++) {
        const syn_device device = way % 2 ? SYN_DEVICE_META : SYN_DEVICE_CPU;
        syn_ctx *a = ref_ctx(device, NULL), *b = ref_ctx(device, NULL);
        const syn_tensor x = ZEROS(a, SYN_F32, 4), y = syn_gelu(a, x, true);
        for (int i = 0; i < 3; i++) ZEROS(b, SYN_F32, 4);
        const syn_mark mark = way / 4 ? syn_ctx_mark(b) : (syn_mark){0};
        if (way / 2 % 2) syn_release(a, mark, NULL, 0);
        else syn_forget(a, mark, NULL, 0);
        CHECK_INT(syn_ctx_status(a), SYN_E_INVALID);
        CHECK_STR(syn_ctx_error(a)->text, "the mark belongs to another context");
        CHECK(syn_ctx_trace(a)->n_nodes == 2 && syn_ctx_trace(a)->n_tensors == 3);
        CHECK(syn_trace_verify(syn_ctx_trace(a), NULL) == SYN_OK);
        CHECK_INT(syn_tensor_dim(a, y, 0), 4);
        syn_ctx_free(a);
        syn_ctx_free(b);
    }
}

/* ---- parts of tensors, and 16-bit values as f32 ---- */

/* 0, 1, ..., 5 in f16 and bf16 by the formats' definitions; the array below has them in f32. */
static const uint16_t halves[2][6] = {{0, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500},
                                      {0, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0}};
static const float numbers[6] = {0, 1, 2, 3, 4, 5};

static syn_tensor of_numbers(syn_ctx *ctx, syn_dtype dtype) {
    const syn_spec spec = {(int32_t)dtype, 2, {2, 3}};
    return syn_input(ctx, "x", &spec,
                     dtype == SYN_F32 ? (const void *)numbers : halves[dtype - SYN_F16]);
}

static void test_as_f32(void) {
    const int turned[2] = {1, 0};
    for (int d = SYN_F32; d <= SYN_BF16; d++) {
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        const syn_tensor x = of_numbers(ctx, (syn_dtype)d);
        float got[6];
        CHECK_INT(syn_tensor_read_f32(ctx, x, got, 6), SYN_OK);
        CHECK(memcmp(got, numbers, sizeof got) == 0);
        CHECK_INT(syn_tensor_read_f32(ctx, syn_permute(ctx, x, turned, 2), got, 6), SYN_OK);
        CHECK(got[1] == 3 && got[2] == 1 && got[5] == 5);
        CHECK(syn_tensor_read_f32(ctx, x, got, 5) != SYN_OK);
        CHECK_HAS(syn_ctx_error(ctx)->text, "bytes, but");
        syn_ctx_free(ctx);
    }
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    float got[1];
    CHECK_INT(syn_tensor_read_f32(ctx, ZEROS(ctx, SYN_I32, 1), got, 1), SYN_E_UNSUPPORTED);
    CHECK_STR(syn_ctx_error(ctx)->text, "tensor 1 is i32, which cannot be read as f32");
    syn_ctx_free(ctx);
}

static void test_parts(void) {
    for (int d = SYN_F32; d <= SYN_BF16; d++) {
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        const syn_tensor x = of_numbers(ctx, (syn_dtype)d);
        const size_t elem = syn_dtype_bytes((syn_dtype)d);
        char part[8];
        float got[6];
        CHECK_INT(syn_tensor_read_range(ctx, x, 4, 2, part), SYN_OK);
        CHECK_INT(syn_tensor_write_range(ctx, x, 1, 2, part), SYN_OK);
        /* With NULL, the call only checks its arguments. */
        CHECK_INT(syn_tensor_write_range(ctx, x, 3, 1, NULL), SYN_OK);
        CHECK_INT(syn_tensor_read_f32(ctx, x, got, 6), SYN_OK);
        CHECK(got[0] == 0 && got[1] == 4 && got[2] == 5 && got[3] == 3 && got[4] == 4);
        CHECK(
            memcmp(part + elem,
                   d == SYN_F32 ? (const char *)&numbers[5] : (const char *)&halves[d - SYN_F16][5],
                   elem) == 0);
        syn_ctx_free(ctx);
    }
}

static void test_numbers(void) {
    const syn_spec one = {SYN_F32, 0, {0}}, row = {SYN_F32, 1, {1}}, whole = {SYN_I32, 0, {0}};
    const float two = 2, three = 3;
    const int32_t four = 4;
    float got[2] = {0};
    for (int wrong = 0; wrong < 3; wrong++) {
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        const syn_tensor a = syn_input(ctx, "a", &one, &two), b = syn_input(ctx, "b", &row, &three),
                         c = syn_input(ctx, "c", &whole, &four), x = of_numbers(ctx, SYN_F32);
        const syn_tensor both[2] = {a, b}, bad[2] = {wrong == 2 ? c : a, wrong == 2 ? a : x};
        if (wrong == 0) {
            CHECK_INT(syn_tensor_read_scalars(ctx, both, 2, got), SYN_OK);
            CHECK(got[0] == two && got[1] == three);
        } else {
            CHECK(syn_tensor_read_scalars(ctx, bad, 2, got) != SYN_OK);
            CHECK_HAS(syn_ctx_error(ctx)->text, "is not a single f32");
        }
        syn_ctx_free(ctx);
    }
    syn_ctx *meta = ref_ctx(SYN_DEVICE_META, NULL);
    const syn_tensor a = syn_input(meta, "a", &one, &two);
    CHECK(syn_tensor_read_scalars(meta, &a, 1, got) != SYN_OK);
    syn_ctx_free(meta);
}

/* Asynchronous reads have two calls, begin and end. Tests several reads in flight, and errors of
   calls in the wrong order. */
static void test_async_reads(void) {
    const syn_spec one = {SYN_F32, 0, {0}};
    float got[SYN_ASYNC_READ_VALUES] = {0};
    int asked[SYN_ASYNC_READS], more;
    for (int wrong = 0; wrong < 5; wrong++) {
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        syn_tensor x[SYN_ASYNC_READS + SYN_ASYNC_READ_VALUES];
        for (int i = 0; i < SYN_ASYNC_READS + SYN_ASYNC_READ_VALUES; i++)
            x[i] = syn_input(ctx, "x", &one, &(float){(float)i});
        for (int i = 0; i < SYN_ASYNC_READS; i++)
            CHECK_INT(syn_tensor_read_begin(ctx, &x[i], SYN_ASYNC_READ_VALUES, &asked[i]), SYN_OK);
        syn_add(ctx, x[0], x[1]);
        for (int i = SYN_ASYNC_READS - 1; i >= (wrong == 1); i--) {
            CHECK_INT(syn_tensor_read_end(ctx, asked[i], got), SYN_OK);
            for (int k = 0; k < SYN_ASYNC_READ_VALUES; k++) CHECK(got[k] == (float)(i + k));
        }
        if (wrong == 1)
            for (int i = 1; i < SYN_ASYNC_READS; i++)
                CHECK_INT(syn_tensor_read_begin(ctx, x, 1, &more), SYN_OK);
        if (wrong == 1 || wrong == 2)
            CHECK(syn_tensor_read_begin(ctx, x, wrong == 1 ? 1 : SYN_ASYNC_READ_VALUES + 1,
                                        &more) != SYN_OK);
        if (wrong == 3) CHECK(syn_tensor_read_end(ctx, asked[0], got) != SYN_OK);
        if (wrong == 4) CHECK(syn_tensor_read_end(ctx, -1, got) != SYN_OK);
        if (wrong == 1 || wrong == 2) CHECK_HAS(syn_ctx_error(ctx)->text, "1 to 4 numbers");
        if (wrong > 2) CHECK_HAS(syn_ctx_error(ctx)->text, "has no matching syn_tensor_read_begin");
        syn_ctx_free(ctx);
    }
}

/* Ranges outside the tensor, and ranges of tensors that are not contiguous, fail on every
   device. */
static void test_invalid_ranges(void) {
    static const int64_t bad[][2] = {{-1, 2}, {0, 7}, {5, 2}, {7, 0}, {0, -1}, {INT64_MAX, 1}};
    const int turned[2] = {1, 0};
    float buf[8] = {0};
    for (size_t i = 0; i < 2 * sizeof bad / sizeof *bad; i++) {
        const int64_t *b = bad[i / 2];
        syn_ctx *ctx = ref_ctx(i % 2 ? SYN_DEVICE_META : SYN_DEVICE_CPU, NULL);
        CHECK(syn_tensor_write_range(ctx, of_numbers(ctx, SYN_F32), b[0], b[1], buf) != SYN_OK);
        CHECK_HAS(syn_ctx_error(ctx)->text, "elements from");
        syn_ctx_free(ctx);
    }
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    const syn_tensor x = syn_permute(ctx, of_numbers(ctx, SYN_F32), turned, 2);
    CHECK(syn_tensor_read_range(ctx, x, 0, 2, buf) != SYN_OK);
    CHECK_STR(syn_ctx_error(ctx)->text, "tensor 2 does not have 2 contiguous elements from 0 on");
    syn_ctx_free(ctx);
}

static const test_case cases[] = {
    {"as f32", test_as_f32},
    {"parts", test_parts},
    {"numbers", test_numbers},
    {"numbers that are asked for", test_async_reads},
    {"parts that are not there", test_invalid_ranges},
    {"of another context", test_of_another_context},
    {"marks", test_marks},
    {"shape of a stranger", test_shape_of_another_contexts_tensor},
    {"of a context that is gone", test_tensor_of_a_freed_context},
};
TEST_MAIN(cases)
