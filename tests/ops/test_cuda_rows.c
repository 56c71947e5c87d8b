/* Compares row ops on CUDA with the CPU. Gradients of embeddings: thousands of ids that repeat
   across chunks and tiles of the sort. Norms and softmax: narrow rows, wide rows and many rows. */
#include "ops/rules.h"
#include "tests/support/both_devices.h"
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

/* Numbers that can be added by the thousands without rounding, in any order. */
static syn_tensor sixteenths(both_run *r, syn_spec spec) {
    const int64_t n = syn_spec_elems(&spec);
    unsigned char *data = malloc((size_t)n * 4 + 1);
    const size_t bytes = syn_dtype_bytes((syn_dtype)spec.dtype);
    for (int64_t i = 0; i < n; i++)
        ref_encode(spec.dtype, (double)ref_int(-16, 16) / 16, data + (size_t)i * bytes);
    const syn_tensor t = syn_input(r->ctx, "dy", &spec, data);
    free(data);
    return t;
}

/* n ids: either a few different ids that are frequent, or many that occur once. Some are out of
   range. */
static syn_tensor ids_of(both_run *r, int64_t n, int64_t rows) {
    const syn_spec spec = {SYN_I32, 1, {n}};
    const int64_t few = ref_int(1, 4), among = ref_int(0, 1) ? few : rows;
    int32_t *ids = malloc((size_t)n * sizeof *ids + 1);
    for (int64_t i = 0; i < n; i++)
        ids[i] = (int32_t)(ref_int(0, 3) ? ref_int(0, among - 1) : ref_int(-2, rows + 2));
    const syn_tensor t = syn_input(r->ctx, "ids", &spec, ids);
    free(ids);
    return t;
}

static void embeddings_of(both_run *r, int64_t n, int64_t width, int64_t rows) {
    const syn_spec dy = {(int32_t)both_float(), 2, {n, width}}, sum = {SYN_F32, 2, {rows, width}};
    const syn_tensor ids = ids_of(r, n, rows), d = sixteenths(r, dy);
    const int64_t padding = ref_int(-1, 1), first = ref_int(0, 1);
    r->out[0] = syn_embedding_grad(r->ctx, ids, d, first, rows, padding);
    r->out[1] =
        syn_embedding_grad_add(r->ctx, both_dense(r->ctx, sum, -2, 2), ids, d, first, padding);
    r->n = 2;
    r->tol = 1e-6;
}

/* Sizes are near those of a chunk (64 ids) and a tile (1,024 ids). */
static void embeddings(both_run *r) {
    embeddings_of(r, both_size(300), both_size(300), both_size(100));
}
static void long_embeddings(both_run *r) {
    embeddings_of(r, ref_int(1000, 6000), ref_int(1, 9), both_size(70000) % 65000 + 1);
}

static void norms(both_run *r) {
    const bool wide = ref_int(0, 2) == 0;
    const int64_t any = wide ? ref_int(1000, 9000) : both_size(1100);
    /* With or without packs of 16 bytes. */
    const int64_t n = ref_int(0, 1) ? any : (any + 7) / 8 * 8;
    const int64_t rows = wide ? ref_int(1, 8) : ref_int(1, 40000 / (n + 10));
    const syn_dtype dtype = both_float();
    const syn_spec x = {(int32_t)dtype, 2, {rows, n}}, one = {(int32_t)dtype, 1, {n}};
    const syn_tensor in[3] = {both_dense(r->ctx, x, -3, 5), both_dense(r->ctx, one, -1, 1),
                              both_dense(r->ctx, ref_int(0, 1) ? x : one, -1, 1)};
    const syn_attr attr[2] = {{.f = 1e-5}, {.f = (double)ref_int(0, 1)}};
    const bool mean = ref_int(0, 1);
    if (syn_tensor_spec(r->ctx, in[2])->rank == 1) {
        r->out[0] = mean ? syn_layernorm(r->ctx, in[0], in[1], in[2], 1e-5)
                         : syn_rmsnorm_offset(r->ctx, in[0], in[1], 1e-5, attr[1].f);
        r->out[1] = syn_softmax(r->ctx, in[0]);
        r->n = 2;
    } else {
        syn__call_op(r->ctx, mean ? SYN_OP_LAYERNORM_GRAD : SYN_OP_RMSNORM_GRAD, in, 3, attr,
                     mean ? 1 : 2, NULL, r->out);
        r->n = mean ? 3 : 2;
    }
    r->tol = dtype == SYN_F32 ? 2e-5 : dtype == SYN_F16 ? 2e-3 : 1e-2;
}

static void test_embeddings(void) {
    both_rounds(embeddings, 60);
}
static void test_long_embeddings(void) {
    both_rounds(long_embeddings, 30);
}
static void test_norms(void) {
    both_rounds(norms, 60);
}

static const test_case cases[] = {{"embeddings", test_embeddings},
                                  {"long embeddings", test_long_embeddings},
                                  {"norms", test_norms}};
TEST_MAIN(cases)
