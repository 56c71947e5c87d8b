/* Tests in-place ops: the current version of a storage may be used, and older versions and their
   views may not. */
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

/* A cache with three versions, and views of them. */
struct cache {
    syn_ctx *ctx;
    syn_tensor v0, v1, v2;        /* the initial state, and the results of two writes */
    syn_tensor row, part, newest; /* a row to append, a view of v1, and a view of v2 */
};

static struct cache cache_new(syn_device device) {
    const syn_spec spec = {SYN_F32, 4, {1, 1, 4, 2}}, one = {SYN_F32, 4, {1, 1, 1, 2}};
    const float data[2] = {3, 4};
    struct cache c = {.ctx = ref_ctx(device, NULL)};
    c.v0 = syn_state(c.ctx, "cache", &spec);
    c.row = syn_input(c.ctx, "row", &one, data);
    syn_push_scope(c.ctx, "h.0");
    c.v1 = syn_name(c.ctx, syn_kv_append(c.ctx, c.v0, c.row, 0), "k_cache");
    c.part = syn_slice(c.ctx, c.v1, 2, 0, 1);
    c.v2 = syn_kv_append(c.ctx, c.v1, c.row, 1);
    c.newest = syn_slice(c.ctx, c.v2, 2, 0, 2);
    syn_pop_scope(c.ctx);
    return c;
}

/* Uses of stale tensors, with the expected message of each. */
#define STALE(X)                                                                                 \
    X(syn_add(c.ctx, c.newest, c.v0),                                                            \
      "add: tensor 1, 'cache', was overwritten by kv_append (node 3); use the result, tensor 5") \
    X(syn_add(c.ctx, c.v1, c.v1), "tensor 3, 'h.0/k_cache:0', was overwritten by kv_append")     \
    X(syn_add(c.ctx, c.part, c.row), "tensor 4, 'h.0/slice:0', was overwritten by kv_append")    \
    X(syn_slice(c.ctx, c.v1, 2, 0, 2), "slice: tensor 3, 'h.0/k_cache:0', was overwritten")      \
    X(syn_reshape(c.ctx, c.part, (const int64_t[]){2}, 1),                                       \
      "reshape: tensor 4, 'h.0/slice:0', was")                                                   \
    X(syn_kv_append(c.ctx, c.v1, c.row, 2), "kv_append: tensor 3, 'h.0/k_cache:0', was")         \
    X(syn_kv_append(c.ctx, c.v2, c.part, 2), "kv_append: tensor 4, 'h.0/slice:0', was")          \
    X(CHECK(syn_tensor_read(c.ctx, c.v0, buf, sizeof buf) != SYN_OK),                            \
      "tensor 1, 'cache', was overwritten by kv_append (node 3); use the result, tensor 5")      \
    X(CHECK(syn_tensor_read(c.ctx, c.part, buf, 8) != SYN_OK), "tensor 4, 'h.0/slice:0', was")   \
    X(CHECK(syn_tensor_write(c.ctx, c.v0, buf, sizeof buf) != SYN_OK), "tensor 1, 'cache', was")

static void test_stale(void) {
    enum {
#define X(use, says) +1
        USES = 0 STALE(X)
#undef X
    };
    for (int which = 0; which < 2 * USES; which++) {
        const struct cache c = cache_new(which % 2 ? SYN_DEVICE_META : SYN_DEVICE_CPU);
        const size_t nodes = syn_ctx_trace(c.ctx)->n_nodes;
        float buf[8] = {0};
        const char *says = "";
        int k = 0;
        CHECK_INT(syn_ctx_status(c.ctx), SYN_OK);
#define X(use, sentence)    \
    if (k++ == which / 2) { \
        use;                \
        says = sentence;    \
    }
        STALE(X)
#undef X
        CHECK_INT(syn_ctx_status(c.ctx), SYN_E_INVALID);
        CHECK_HAS(syn_ctx_error(c.ctx)->text, says);
        CHECK_INT(syn_ctx_trace(c.ctx)->n_nodes, nodes);
        CHECK(syn_trace_verify(syn_ctx_trace(c.ctx), NULL) == SYN_OK);
        syn_ctx_free(c.ctx);
    }
}

/* The current version and its views can be used. Of old versions, only the shape can be read. Their
   storage, which the current version shares, can be kept and pinned. */
static void test_current_version_is_usable(void) {
    for (int device = 0; device < 2; device++) {
        const struct cache c = cache_new(device ? SYN_DEVICE_META : SYN_DEVICE_CPU);
        float buf[8];
        CHECK_INT(syn_tensor_dim(c.ctx, c.v0, 2), 4);
        CHECK(syn_tensor_contiguous(c.ctx, c.v1));
        syn_release(c.ctx, (syn_mark){1, 1, c.v0.tag}, &c.v0, 1);
        syn_pin(c.ctx, c.part);
        syn_drop(c.ctx, c.v1);
        syn_add(c.ctx, c.newest, c.newest);
        syn_scale(c.ctx, c.v2, 2);
        if (device == 0) {
            CHECK_INT(syn_tensor_read(c.ctx, c.v2, buf, sizeof buf), SYN_OK);
            CHECK(buf[0] == 3 && buf[1] == 4 && buf[2] == 3 && buf[3] == 4 && buf[4] == 0);
        }
        CHECK_INT(syn_tensor_write(c.ctx, c.v2, buf, sizeof buf), SYN_OK); /* the current version */
        CHECK_INT(syn_ctx_status(c.ctx), SYN_OK);
        syn_ctx_free(c.ctx);
    }
}

/* After a write through a view, only the result and its views may be used. All other tensors of the
   storage are stale, even those that do not overlap with the view. */
static void test_written_through_a_view(void) {
    for (int which = 0; which < 6; which++) {
        const syn_spec spec = {SYN_F32, 4, {2, 1, 4, 2}}, one = {SYN_F32, 4, {1, 1, 1, 2}};
        syn_ctx *ctx = ref_ctx(which % 2 ? SYN_DEVICE_META : SYN_DEVICE_CPU, NULL);
        const syn_tensor all = syn_state(ctx, "both", &spec), row = syn_input(ctx, "x", &one, NULL);
        const syn_tensor a = syn_slice(ctx, all, 0, 0, 1), b = syn_slice(ctx, all, 0, 1, 1);
        const syn_tensor v = syn_kv_append(ctx, a, row, 0);
        syn_add(ctx, v, syn_slice(ctx, v, 0, 0, 1));
        const syn_tensor again = syn_kv_append(ctx, syn_slice(ctx, v, 0, 0, 1), row, 1);
        syn_scale(ctx, again, 2);
        CHECK_INT(syn_ctx_status(ctx), SYN_OK);
        syn_scale(ctx, which < 2 ? all : which < 4 ? b : v, 2);
        CHECK_INT(syn_ctx_status(ctx), SYN_E_INVALID);
        CHECK_HAS(syn_ctx_error(ctx)->text, "was overwritten by kv_append (node 7)");
        syn_ctx_free(ctx);
    }
}

/* An op may not overwrite one input and read the same storage through another. */
static void test_overwritten_and_read(void) {
    for (int device = 0; device < 2; device++) {
        const struct cache c = cache_new(device ? SYN_DEVICE_META : SYN_DEVICE_CPU);
        syn_kv_append(c.ctx, c.v2, c.newest, 0);
        CHECK_STR(syn_ctx_error(c.ctx)->text,
                  "kv_append: input 0 would be overwritten, but input 1 shares its storage");
        syn_ctx_free(c.ctx);
    }
}

/* Dispatch never records the following rows, so the test damages a trace. The verifiers must reject
   it. */
static void test_verifiers(void) {
    const struct cache c = cache_new(SYN_DEVICE_META);
    syn_add(c.ctx, c.v2, c.v2);
    syn_trace *t = (syn_trace *)(uintptr_t)syn_ctx_trace(c.ctx);
    const syn_trace *traces[1] = {t};
    syn_error err = {0};
    syn_graph *graph = NULL;
    CHECK_OK(syn_trace_verify(t, &err), err);
    CHECK_OK(syn_trace_graph(&graph, traces, 1, NULL, &err), err);
    CHECK_OK(syn_graph_verify(graph, &err), err);
    t->inputs[t->nodes[5].first_in + 1] = c.part.id; /* input of the add */
    CHECK_INT(syn_trace_verify(t, &err), SYN_E_FORMAT);
    CHECK_STR(err.text, "trace node 5 reads tensor 4, which node 3 overwrote");
    err.code = SYN_OK;
    CHECK_INT(syn_graph_verify(graph, &err), SYN_E_INVALID);
    CHECK_STR(err.text, "rank 0, node 4 (add): reads tensor 3, which node 2 overwrote");
    t->inputs[t->nodes[5].first_in + 1] = c.v2.id;
    t->inputs[t->nodes[3].first_in] = c.row.id; /* a result that is not a version of its input */
    err.code = SYN_OK;
    CHECK_INT(syn_trace_verify(t, &err), SYN_E_FORMAT);
    CHECK_STR(err.text, "trace node 3: output 0 is not a new version of its input");
    syn_graph_free(graph);
    syn_ctx_free(c.ctx);
}

static const test_case cases[] = {
    {"stale", test_stale},
    {"what is left", test_current_version_is_usable},
    {"written through a view", test_written_through_a_view},
    {"overwritten and read", test_overwritten_and_read},
    {"verifiers", test_verifiers},
};
TEST_MAIN(cases)
