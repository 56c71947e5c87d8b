/* The door and the context around it: what is recorded, first errors, scopes, phases and steps,
   marks and releases, peak bytes, parameters. */
#include "syntorch/context_private.h"
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

static void test_rows_of_a_call(void) {
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    const syn_tensor x = ZEROS(ctx, SYN_F32, 2, 3), w = ZEROS(ctx, SYN_F32, 3, 4);
    syn_push_scope_index(ctx, "h", 3);
    syn_push_scope(ctx, "attn");
    syn_set_phase(ctx, SYN_PHASE_DECODE);
    const syn_tensor y = syn_name(ctx, syn_linear(ctx, x, w, SYN_NO_BIAS, false), "qkv");
    syn_pop_scope(ctx);
    syn_pop_scope(ctx);
    syn_pop_scope(ctx); /* one too many is no harm */
    const syn_tensor z = syn_add(ctx, y, y);
    const syn_trace *t = syn_ctx_trace(ctx);
    CHECK_INT(t->n_nodes, 3);
    CHECK_INT(t->n_tensors, 5);
    const syn_trace_node *n = &t->nodes[1];
    CHECK_INT(n->op, SYN_OP_LINEAR);
    CHECK_INT(n->phase, SYN_PHASE_DECODE);
    CHECK_INT(n->n_in, 2);
    CHECK_INT(n->n_out, 1);
    CHECK_INT(n->group, 0);
    CHECK_INT(n->stream, 0);
    CHECK_STR(syn_trace_text(t, n->scope), "h.3.attn");
    CHECK_STR(syn_trace_text(t, n->label), "qkv");
    CHECK_INT(n->first_out, y.id);
    CHECK(t->inputs[n->first_in] == x.id && t->inputs[n->first_in + 1] == w.id);
    CHECK_INT(t->tensors[y.id].producer, 1);
    CHECK_INT(t->tensors[y.id].base, y.id);
    CHECK_INT(t->tensors[x.id].producer, 0);
    CHECK_INT(t->tensors[x.id].flags, SYN_TENSOR_INPUT);
    CHECK_STR(syn_trace_text(t, t->nodes[2].scope), "");
    CHECK_INT(t->nodes[2].label, 0);
    CHECK(t->times[1].wall_ns >= 0 && t->times_cap >= t->n_nodes);
    CHECK_INT(syn_tensor_dim(ctx, z, -1), 4);
    CHECK_INT(syn_tensor_dim(ctx, z, 0), 2);
    CHECK_INT(syn_tensor_dim(ctx, z, 5), 1);
    syn_ctx_free(ctx);
}

static void test_first_error_wins(void) {
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    const syn_tensor x = ZEROS(ctx, SYN_F32, 2, 3);
    syn_push_scope(ctx, "a");
    syn_push_scope(ctx, "b");
    CHECK_INT(syn_add(ctx, x, ZEROS(ctx, SYN_F32, 4)).id, 0);
    char first[512];
    snprintf(first, sizeof first, "%s", syn_ctx_error(ctx)->text);
    CHECK_STR(first, "add in a.b: the shapes f32[2,3] and f32[4] do not broadcast");
    CHECK_INT(syn_ctx_status(ctx), SYN_E_SHAPE);
    CHECK_HAS(syn_ctx_error(ctx)->file, "op_pointwise.c"); /* where it was first seen */
    syn_pop_scope(ctx);
    syn_gelu(ctx, ZEROS(ctx, SYN_I32, 2), true);
    syn_ctx_fail(ctx, SYN_E_IO, "later");
    syn_push_scope(ctx, "c");
    float buf[6];
    CHECK_INT(syn_tensor_read(ctx, x, buf, sizeof buf), SYN_E_SHAPE);
    CHECK_STR(syn_ctx_error(ctx)->text, first);
    CHECK(syn_trace_verify(syn_ctx_trace(ctx), NULL) == SYN_OK);
    syn_ctx_free(ctx);
}

static void test_scopes(void) {
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_META, NULL);
    const syn_tensor x = ZEROS(ctx, SYN_F32, 2);
    for (int i = 0; i < SYN__SCOPE_DEPTH; i++) syn_push_scope_index(ctx, "s", i);
    syn_gelu(ctx, x, true);
    const syn_trace *t = syn_ctx_trace(ctx);
    CHECK_HAS(syn_trace_text(t, t->nodes[1].scope), "s.0.s.1.s.2.");
    CHECK_HAS(syn_trace_text(t, t->nodes[1].scope), ".s.31");
    CHECK_INT(syn_ctx_status(ctx), SYN_OK);
    syn_push_scope(ctx, "deep");
    CHECK_INT(syn_ctx_status(ctx), SYN_E_INVALID);
    CHECK_HAS(syn_ctx_error(ctx)->text, "more than 32 scopes inside each other at 'deep'");
    syn_ctx_free(ctx);
    char name[600];
    memset(name, 'n', sizeof name);
    for (int indexed = 0; indexed < 2; indexed++) {
        ctx = ref_ctx(SYN_DEVICE_META, NULL);
        name[indexed ? 508 : 512] = '\0';
        indexed ? syn_push_scope_index(ctx, name, 1000) : syn_push_scope(ctx, name);
        CHECK_HAS(syn_ctx_error(ctx)->text, "nnn...' is too long");
        syn_ctx_free(ctx);
        name[512] = 'n';
    }
    ctx = ref_ctx(SYN_DEVICE_META, NULL); /* a long name is kept whole */
    name[300] = '\0';
    syn_push_scope_index(ctx, name, 7);
    syn_gelu(ctx, ZEROS(ctx, SYN_F32, 2), true);
    CHECK_INT(strlen(syn_trace_text(syn_ctx_trace(ctx), syn_ctx_trace(ctx)->nodes[1].scope)), 302);
    syn_ctx_free(ctx);
}

static void test_steps(void) {
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_META, NULL);
    const syn_tensor x = ZEROS(ctx, SYN_F32, 2);
    syn_gelu(ctx, x, true);
    syn_next_step(ctx);
    syn_next_step(ctx); /* a step without nodes */
    syn_gelu(ctx, x, true);
    syn_gelu(ctx, x, true);
    syn_next_step(ctx);
    const syn_trace *t = syn_ctx_trace(ctx);
    CHECK_INT(t->n_steps, 3);
    CHECK(t->steps[0] == 2 && t->steps[1] == 2 && t->steps[2] == 4);
    CHECK(syn_trace_verify(t, NULL) == SYN_OK);
    syn_ctx_free(ctx);
}

static void test_reading(void) {
    static ref x;
    const int64_t dims[2] = {2, 3};
    float buf[6];
    ref_fill(&x, ref_spec(SYN_F32, 2, dims), 0, 1);
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    CHECK_INT(syn_tensor_read(ctx, (syn_tensor){0}, buf, 4),
              SYN_E_INVALID); /* before there is any tensor */
    CHECK_HAS(syn_ctx_error(ctx)->text, "tensor 0 has no data to read on 'cpu'");
    syn_ctx_free(ctx);
    ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    const syn_tensor t = ref_dense(ctx, &x);
    CHECK(ref_check(ctx, t, &x, 0));
    CHECK_INT(syn_tensor_read(ctx, t, buf, 20), SYN_E_INVALID);
    CHECK_HAS(syn_ctx_error(ctx)->text, "has 24 bytes, but 20 were asked for");
    syn_ctx_free(ctx);
    ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    CHECK_INT(syn_tensor_read(ctx, (syn_tensor){50}, buf, 4), SYN_E_INVALID);
    syn_ctx_free(ctx);
    ctx = ref_ctx(SYN_DEVICE_META, NULL);
    CHECK_INT(syn_tensor_read(ctx, ZEROS(ctx, SYN_F32, 2, 3), buf, sizeof buf), SYN_E_INVALID);
    CHECK_HAS(syn_ctx_error(ctx)->text, "no data to read on 'meta'");
    syn_ctx_free(ctx);
}

static void test_release(void) {
    static ref ones, twice;
    const int64_t dims[2] = {8, 8};
    ref_fill(&ones, ref_spec(SYN_F32, 2, dims), 1, 1);
    ref_fill(&twice, ref_spec(SYN_F32, 2, dims), 2, 2);
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    const syn_tensor x = ref_dense(ctx, &ones);
    const syn_mark mark = syn_ctx_mark(ctx);
    const syn_tensor a = syn_add(ctx, x, x), b = syn_add(ctx, x, x);
    const syn_tensor view =
        syn_permute(ctx, b, (const int[]){1, 0}, 2); /* keeping a view keeps its storage */
    const syn_tensor keep[3] = {view, {0}, {4000}};
    syn_release(ctx, mark, keep, 3);
    CHECK(ref_check(ctx, x, &ones, 0)); /* older than the mark */
    CHECK(ref_check(ctx, view, &twice, 0));
    CHECK(ref_check(ctx, b, &twice, 0));
    CHECK_INT(syn_tensor_spec(ctx, a)->rank, 2); /* rows outlive data */
    syn_release(ctx, mark, keep, 3);             /* again: nothing left to do */
    CHECK_INT(syn_add(ctx, x, a).id, 0);
    CHECK_STR(syn_ctx_error(ctx)->text, "add: the data of input 1 was released");
    float buf[64];
    CHECK(syn_tensor_read(ctx, a, buf, sizeof buf) != SYN_OK);
    syn_ctx_free(ctx);
    ctx = ref_ctx(SYN_DEVICE_CPU, NULL); /* reading what was released */
    const syn_tensor y = ref_dense(ctx, &ones);
    syn_release(ctx, (syn_mark){y.id}, NULL, 0);
    CHECK_INT(syn_tensor_read(ctx, y, buf, sizeof buf), SYN_E_INVALID);
    syn_ctx_free(ctx);
}

/* What a release costs: the buffers behind its mark, not all rows behind it, so that a model of
   many layers, which releases after each from one mark, costs a multiple of them. What was dropped
   or kept stays what it is. */
static void test_release_is_linear(void) {
    for (uint64_t n = 100; n <= 400; n *= 2) {
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        syn_tensor x = ZEROS(ctx, SYN_F32, 4);
        const syn_mark mark = syn_ctx_mark(ctx);
        for (uint64_t i = 0; i < n; i++) {
            x = syn_scale(ctx, x, 0.5);
            const syn_tensor other = syn_scale(ctx, x, 0.5);
            if (i % 3 == 0) syn_drop(ctx, other);
            syn_release(ctx, mark, &x, 1);
            CHECK(!ctx->data[other.id] && ctx->data[x.id]);
        }
        CHECK_INT(ctx->release_visits, 3 * n - 1); /* two made and one kept each time but first */
        syn_ctx_free(ctx);
    }
}

/* A chain of ops with releases needs two buffers at a time however long it is; peak counts what was
 * in use together. */
static void test_peak_bytes(void) {
    enum { BYTES = 1 << 16 };
    for (int released = 0; released < 2; released++) {
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        syn_tensor x = ZEROS(ctx, SYN_F32, BYTES / 4);
        for (int i = 0; i < 10; i++) {
            const syn_mark mark = {x.id};
            x = syn_scale(ctx, x, 0.5);
            if (released) syn_release(ctx, mark, &x, 1);
        }
        const size_t peak = syn_ctx_peak_bytes(ctx), least = (size_t)BYTES * (released ? 2 : 11);
        CHECK_MSG(peak >= least && peak <= least + least / 4, "peak %zu, buffers %zu", peak, least);
        syn_ctx_free(ctx);
    }
}

/* Released buffers are used again: a steady step asks the system for nothing but rows. */
static void test_steady_step_allocates_no_data(void) {
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    const syn_tensor x = ZEROS(ctx, SYN_F32, 32, 32), w = ZEROS(ctx, SYN_F32, 32, 32);
    size_t used, peak, held, held_before = 0;
    for (int step = 0; step < 50; step++) {
        const syn_mark mark = syn_ctx_mark(ctx);
        syn_gelu(ctx, syn_add(ctx, syn_linear(ctx, x, w, SYN_NO_BIAS, false), x), true);
        syn_release(ctx, mark, NULL, 0);
        syn_pool_stats(ctx->pool, &used, &peak, &held);
        if (step > 0) CHECK_INT(held, held_before);
        held_before = held;
    }
    CHECK_INT(used, 2 * 32 * 32 * 4);
    syn_ctx_free(ctx);
}

static void test_pool(void) {
    syn_pool *pool = syn_pool_new();
    void *at[300];
    size_t bytes[300], used, peak, held;
    for (int i = 0; i < 300; i++) { /* buffers of all sizes: aligned, and as long as promised */
        ref_seed((uint64_t)i);
        bytes[i] = (size_t)ref_int(0, i < 100 ? 1000 : 100000);
        at[i] = syn_pool_alloc(pool, bytes[i]);
        CHECK(at[i] && (uintptr_t)at[i] % 64 == 0);
        memset(at[i], i, bytes[i]);
    }
    for (int i = 0; i < 300; i++)
        for (size_t k = 0; k < bytes[i]; k += 97) CHECK_INT(((unsigned char *)at[i])[k], i % 256);
    size_t sum = 0;
    for (int i = 0; i < 300; i++) sum += bytes[i] > 256 ? bytes[i] : 256;
    syn_pool_stats(pool, &used, &peak, &held);
    CHECK_MSG(used >= sum && used <= sum + sum / 4, "%zu bytes for %zu", used, sum);
    CHECK(peak == used && held == used);
    for (int i = 0; i < 300; i++) syn_pool_release(pool, at[i], bytes[i]);
    syn_pool_stats(pool, &used, &peak, &held);
    CHECK_INT(used, 0);
    for (int i = 299; i >= 0; i--) at[i] = syn_pool_alloc(pool, bytes[i]);
    size_t again;
    syn_pool_stats(pool, &used, &peak, &again);
    CHECK_INT(again, held);
    for (int i = 0; i < 300; i++) syn_pool_release(pool, at[i], bytes[i]);
    CHECK(syn_pool_alloc(pool, SIZE_MAX) == NULL && syn_pool_alloc(pool, SIZE_MAX / 2 + 2) == NULL);
    syn_pool_free(pool);
    syn_pool_free(NULL);
}

/* Contexts do not share anything: the same calls give the same ids, whatever others do. */
static void test_contexts_are_apart(void) {
    syn_ctx *a = ref_ctx(SYN_DEVICE_CPU, NULL), *b = ref_ctx(SYN_DEVICE_CPU, NULL);
    syn_gelu(b, ZEROS(b, SYN_F32, 3), true);
    const syn_tensor x = ZEROS(a, SYN_F32, 3);
    syn_push_scope(b, "b");
    syn_ctx_fail(b, SYN_E_IO, "b fails");
    const syn_tensor y = syn_gelu(a, x, true);
    CHECK(x.id == 1 && y.id == 2 && syn_ctx_status(a) == SYN_OK);
    CHECK_STR(syn_ctx_error(b)->text, "b fails (in b)");
    CHECK_INT(syn_ctx_rank(a), 0);
    CHECK(syn_ctx_comm(a) == NULL && syn_ctx_device(a) == SYN_DEVICE_CPU);
    syn_ctx_free(a);
    syn_ctx_free(b);
    syn_ctx_free(NULL);
}

/* Naming what no node made changes nothing. */
static void test_names(void) {
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_META, NULL);
    const syn_tensor x = ZEROS(ctx, SYN_F32, 3);
    CHECK_INT(syn_name(ctx, x, "other").id, x.id);
    CHECK_INT(syn_name(ctx, (syn_tensor){0}, "other").id, 0);
    CHECK_INT(syn_name(ctx, (syn_tensor){900}, "other").id, 900);
    const syn_tensor y = syn_gelu(ctx, x, true);
    syn_name(ctx, y, "first");
    syn_name(ctx, y, "second");
    const syn_trace *t = syn_ctx_trace(ctx);
    CHECK_STR(syn_trace_text(t, t->nodes[1].label), "second");
    CHECK_STR(syn_trace_text(t, t->tensors[x.id].name - 1), "x");
    CHECK_INT(t->tensors[y.id].name, 0);
    const syn_spec spec = {SYN_F32, 1, {2}};
    const syn_tensor nameless = syn_input(ctx, NULL, &spec, NULL);
    CHECK_INT(t->tensors[nameless.id].name, 0);
    CHECK_INT(syn_tensor_write(ctx, nameless, NULL, 4), SYN_E_SHAPE);
    CHECK_STR(syn_ctx_error(ctx)->text, "'' has 8 bytes, but 4 were given");
    syn_ctx_free(ctx);
}

static const test_case cases[] = {
    {"rows of a call", test_rows_of_a_call},
    {"first error wins", test_first_error_wins},
    {"scopes", test_scopes},
    {"steps", test_steps},
    {"reading", test_reading},
    {"release", test_release},
    {"release_is_linear", test_release_is_linear},
    {"peak bytes", test_peak_bytes},
    {"steady step allocates no data", test_steady_step_allocates_no_data},
    {"pool", test_pool},
    {"contexts are apart", test_contexts_are_apart},
    {"names", test_names},
};
TEST_MAIN(cases)
