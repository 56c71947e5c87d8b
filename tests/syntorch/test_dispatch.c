/* Tests dispatch and the context: recorded rows, first errors, scopes, phases and steps, marks and
   releases, peak bytes, parameters. Expected values are computed in the test. */
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
    syn_pop_scope(ctx); /* popping one scope too many is allowed */
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
    /* The source file that detected the error. */
    CHECK_HAS(syn_ctx_error(ctx)->file, "op_pointwise.c");
    syn_error copy = {0}, earlier = {.code = SYN_E_IO, .text = "earlier"};
    CHECK_INT(syn_ctx_check(ctx, &copy), SYN_E_SHAPE);
    CHECK_STR(copy.text, first);
    CHECK_HAS(copy.file, "op_pointwise.c");
    CHECK_INT(syn_ctx_check(ctx, &earlier), SYN_E_SHAPE);
    CHECK_STR(earlier.text, "earlier");
    CHECK_INT(syn_ctx_check(ctx, NULL), SYN_E_SHAPE);
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
    CHECK_HAS(syn_ctx_error(ctx)->text, "more than 32 nested scopes at 'deep'");
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
    ctx = ref_ctx(SYN_DEVICE_META, NULL); /* a long name is not truncated */
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
    CHECK_INT(t->step, 3);
    CHECK(syn_trace_step_of(t, 1) == 0 && syn_trace_step_of(t, 2) == 2);
    CHECK(syn_trace_step_of(t, 3) == 2 && t->steps[2].node == 4);
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
              SYN_E_INVALID); /* rejected, although no tensor exists yet */
    CHECK_STR(syn_ctx_error(ctx)->text, "the invalid tensor cannot be read");
    syn_ctx_free(ctx);
    ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    const syn_tensor t = ref_dense(ctx, &x);
    CHECK(ref_check(ctx, t, &x, 0));
    CHECK_INT(syn_tensor_read(ctx, t, buf, 20), SYN_E_INVALID);
    CHECK_HAS(syn_ctx_error(ctx)->text, "has 24 bytes, but 20 were requested");
    syn_ctx_free(ctx);
    ctx = ref_ctx(SYN_DEVICE_META, NULL);
    CHECK_INT(syn_tensor_read(ctx, ZEROS(ctx, SYN_F32, 2, 3), buf, sizeof buf), SYN_E_INVALID);
    CHECK_HAS(syn_ctx_error(ctx)->text, "no data on 'meta'");
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
    const syn_tensor keep[2] = {view, SYN_NO_BIAS};
    syn_release(ctx, mark, keep, 2);
    CHECK(ref_check(ctx, x, &ones, 0)); /* x is older than the mark */
    CHECK(ref_check(ctx, view, &twice, 0));
    CHECK(ref_check(ctx, b, &twice, 0));
    CHECK_INT(syn_tensor_spec(ctx, a)->rank, 2); /* shapes are known after the data is freed */
    syn_release(ctx, mark, keep, 2);             /* a second release frees nothing */
    CHECK_INT(syn_add(ctx, x, a).id, 0);
    CHECK_STR(syn_ctx_error(ctx)->text, "add: the data of input 1 was released");
    float buf[64];
    CHECK(syn_tensor_read(ctx, a, buf, sizeof buf) != SYN_OK);
    syn_ctx_free(ctx);
    ctx = ref_ctx(SYN_DEVICE_CPU, NULL); /* an op reads released data */
    const syn_tensor y = ref_dense(ctx, &ones);
    syn_release(ctx, (syn_mark){y.id, 0, y.tag}, NULL, 0);
    CHECK_INT(syn_tensor_read(ctx, y, buf, sizeof buf), SYN_E_INVALID);
    syn_ctx_free(ctx);
}

/* Using a released tensor fails on meta with the same message as on the CPU, so a meta run finds
   the error in advance. */
static void test_released_on_meta(void) {
    for (int what = 0; what < 3; what++) {
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_META, NULL);
        const syn_tensor x = ZEROS(ctx, SYN_F32, 2);
        const syn_tensor view = syn_slice(ctx, x, 0, 0, 1);
        syn_drop(ctx, x);
        if (what == 0) syn_gelu(ctx, view, true);
        if (what == 1) syn_slice(ctx, x, 0, 0, 1);
        if (what == 2) CHECK_INT(syn_tensor_write(ctx, x, NULL, 8), SYN_E_INVALID);
        static const char *const sentences[] = {"gelu: the data of input 0 was released",
                                                "slice: the data of input 0 was released",
                                                "the data of 'x' was released"};
        CHECK_STR(syn_ctx_error(ctx)->text, sentences[what]);
        syn_ctx_free(ctx);
    }
}

/* syn_release visits the buffers created since its mark, not all rows. A model with many layers
   that releases after each layer, always from the same mark, therefore takes linear time. Dropped
   and kept tensors keep their state. */
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
            CHECK(!syn__storage(ctx, other.id) && syn__storage(ctx, x.id));
        }
        /* Each release visits two new storages and, except for the first release, one kept storage.
           Dropped storages are not visited. */
        CHECK_INT(ctx->storages.visits, 3 * n - 1 - (n + 2) / 3);
        syn_ctx_free(ctx);
    }
}

/* A chain of ops with releases needs two buffers at a time, whatever its length. The peak is the
   largest number of bytes in use at once, and meta reports the same number. */
static void test_peak_bytes(void) {
    enum { BYTES = 1 << 16 };
    for (int i = 0; i < 4; i++) {
        const bool released = i % 2;
        syn_ctx *ctx = ref_ctx(i / 2 ? SYN_DEVICE_META : SYN_DEVICE_CPU, NULL);
        syn_tensor x = ZEROS(ctx, SYN_F32, BYTES / 4);
        for (int k = 0; k < 10; k++) {
            const syn_mark mark = {x.id, 0, x.tag};
            x = syn_scale(ctx, x, 0.5);
            if (released) syn_release(ctx, mark, &x, 1);
        }
        CHECK_INT(syn_ctx_peak_bytes(ctx), BYTES * (released ? 2 : 11));
        syn_ctx_free(ctx);
    }
}

/* Released buffers are reused, so a steady step allocates only rows. */
static void test_steady_step_allocates_no_data(void) {
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    const syn_tensor x = ZEROS(ctx, SYN_F32, 32, 32), w = ZEROS(ctx, SYN_F32, 32, 32);
    size_t held_before = 0;
    for (int step = 0; step < 50; step++) {
        const syn_mark mark = syn_ctx_mark(ctx);
        syn_gelu(ctx, syn_add(ctx, syn_linear(ctx, x, w, SYN_NO_BIAS, false), x), true);
        syn_release(ctx, mark, NULL, 0);
        if (step > 0) CHECK_INT(ctx->storages.held_bytes, held_before);
        held_before = ctx->storages.held_bytes;
    }
    CHECK_INT(ctx->storages.used_bytes, 2 * 32 * 32 * 4);
    syn_ctx_free(ctx);
}

/* A pinned storage is not freed by views or releases until its last unpin. A storage that was not
   released stays even after that. Both devices count the same bytes. */
static void test_pins(void) {
    static ref ones, twice;
    const int64_t dims[2] = {8, 8};
    ref_fill(&ones, ref_spec(SYN_F32, 2, dims), 1, 1);
    ref_fill(&twice, ref_spec(SYN_F32, 2, dims), 2, 2);
    for (int device = 0; device < 2; device++) {
        syn_ctx *ctx = ref_ctx(device ? SYN_DEVICE_META : SYN_DEVICE_CPU, NULL);
        const bool data = syn_ctx_has_data(ctx);
        const size_t one = 8 * 8 * 4;
        const syn_tensor x = ref_dense(ctx, &ones);
        const syn_mark mark = syn_ctx_mark(ctx);
        const syn_tensor a = syn_add(ctx, x, x), b = syn_add(ctx, x, x);
        const syn_tensor view = syn_permute(ctx, a, (const int[]){1, 0}, 2);
        syn_pin(ctx, a);
        syn_pin(ctx, view); /* pinning a view pins the storage that it shares */
        syn_pin(ctx, b);
        syn_pin(ctx, x);
        syn_release(ctx, mark, &b, 1);
        syn_release(ctx, mark, &b, 1);
        syn_drop(ctx, a); /* dropping a tensor twice is allowed */
        CHECK_INT(ctx->storages.used_bytes, 3 * one);
        CHECK(!data || ref_check(ctx, view, &twice, 0));
        syn_tensor y = syn_add(ctx, a, x); /* a can still be used */
        syn_unpin(ctx, view);
        CHECK(syn__storage(ctx, a.id));
        syn_unpin(ctx, a);
        CHECK(!syn__storage(ctx, a.id) && !syn__storage(ctx, view.id));
        CHECK_INT(ctx->storages.used_bytes, 3 * one); /* the storages of x, b and y */
        syn_unpin(ctx, b);
        syn_unpin(ctx, x);
        CHECK(syn__storage(ctx, b.id) && syn__storage(ctx, x.id));
        syn_release(ctx, mark, &y, 1);
        CHECK(!syn__storage(ctx, b.id) && !(data && !ref_check(ctx, x, &ones, 0)));
        syn_pin(ctx, y); /* a context with pins can be freed */
        syn_release(ctx, mark, NULL, 0);
        CHECK_INT(syn_ctx_status(ctx), SYN_OK);
        CHECK_INT(ctx->storages.used_bytes, 2 * one);
        syn_ctx_free(ctx);
    }
}

static void test_pins_refused(void) {
    for (int what = 0; what < 4; what++) {
        syn_ctx *ctx = ref_ctx(what % 2 ? SYN_DEVICE_META : SYN_DEVICE_CPU, NULL);
        const syn_tensor x = ZEROS(ctx, SYN_F32, 2), y = ZEROS(ctx, SYN_F32, 2);
        syn_pin(ctx, y);
        syn_drop(ctx, x);
        what < 2 ? syn_pin(ctx, x) : syn_unpin(ctx, x);
        CHECK_STR(syn_ctx_error(ctx)->text, what < 2 ? "tensor 1 cannot be pinned: it has no data"
                                                     : "tensor 1 is not pinned");
        syn_pin(ctx, y); /* pins also work in a failed context */
        syn_drop(ctx, y);
        syn_unpin(ctx, y);
        CHECK(syn__storage(ctx, y.id));
        syn_unpin(ctx, y);
        CHECK(!syn__storage(ctx, y.id));
        syn_pin(ctx, (syn_tensor){0});
        syn_ctx_free(ctx);
    }
}

/* A forward pass that pins tensors for backward releases as fast as one that does not: releases do
   not visit pinned tensors again. */
static void test_pins_cost_nothing_to_releases(void) {
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_META, NULL);
    syn_tensor x = ZEROS(ctx, SYN_F32, 4), pinned[100];
    const syn_mark mark = syn_ctx_mark(ctx);
    for (int i = 0; i < 100; i++) {
        pinned[i] = x = syn_scale(ctx, x, 0.5);
        syn_pin(ctx, x);
        x = syn_scale(ctx, x, 0.5);
        syn_release(ctx, mark, &x, 1);
    }
    CHECK_INT(ctx->storages.visits, 3 * 100 - 1);
    CHECK_INT(ctx->storages.used_bytes, 102 * 256);
    for (int i = 99; i >= 0; i--) syn_unpin(ctx, pinned[i]);
    CHECK_INT(ctx->storages.used_bytes, 2 * 256);
    CHECK_INT(syn_ctx_status(ctx), SYN_OK);
    syn_ctx_free(ctx);
}

/* Buffers of all sizes are aligned, large enough and reused. Meta counts the same numbers of
   buffers and bytes. */
static void test_pool(void) {
    enum { N = 300 };
    size_t bytes[N], used[2], peak[2], held[2];
    for (int device = 0; device < 2; device++) {
        syn_error err = {0};
        syn_storages s = {0};
        CHECK_INT(syn_backend_get(device ? SYN_DEVICE_META : SYN_DEVICE_CPU, &s.backend, NULL),
                  SYN_OK);
        void *at[N];
        uint32_t id = 1;
        size_t sum = 0;
        for (int i = 0; i < N; i++) {
            ref_seed((uint64_t)i);
            bytes[i] = (size_t)ref_int(0, i < 100 ? 1000 : 100000);
            sum += bytes[i] > 256 ? bytes[i] : 256;
            CHECK_OK(syn__storage_new(&s, id, bytes[i], &err), err);
            at[i] = s.at[syn__storage_of(&s, id++)].data;
            CHECK((at[i] == NULL) == (device == 1) && (uintptr_t)at[i] % 64 == 0);
            if (at[i]) memset(at[i], i, bytes[i]);
        }
        for (int i = 0; i < N && device == 0; i++)
            for (size_t k = 0; k < bytes[i]; k += 97)
                CHECK_INT(((unsigned char *)at[i])[k], i % 256);
        CHECK_MSG(s.used_bytes >= sum && s.used_bytes <= sum + sum / 4, "%zu bytes for %zu",
                  s.used_bytes, sum);
        CHECK(s.peak_bytes == s.used_bytes && s.held_bytes == s.used_bytes);
        for (uint32_t i = 1; i <= N; i++) syn__storage_release(&s, syn__storage_of(&s, i));
        CHECK(s.used_bytes == 0 && s.newest == 0 && syn__storage_of(&s, 1) == 0);
        for (int i = N - 1; i >= 0; i--) CHECK_OK(syn__storage_new(&s, id++, bytes[i], &err), err);
        CHECK(s.held_bytes == s.peak_bytes && s.count == N + 1);
        used[device] = s.used_bytes;
        peak[device] = s.peak_bytes;
        held[device] = s.held_bytes;
        syn__storages_free(&s);
    }
    CHECK(used[0] == used[1] && peak[0] == peak[1] && held[0] == held[1]);
}

/* Each allocation fails once. The error must be reported, and the pool must neither leak nor
   miscount. */
static void test_pool_out_of_memory(void) {
    syn_error err = {0};
    for (uint64_t n = 0, done = 0; !done; n++) {
        syn_storages s = {0};
        CHECK_INT(syn_backend_get(SYN_DEVICE_CPU, &s.backend, NULL), SYN_OK);
        size_t made = 0;
        syn_memory_fail_after(n);
        while (made < 200 && syn__storage_new(&s, (uint32_t)made + 1, 1000, &err) == SYN_OK) made++;
        syn_memory_fail_after(SYN_MEMORY_NEVER);
        CHECK_INT(s.used_bytes, made * 1024);
        for (uint32_t i = 1; i <= made; i++) CHECK(s.at[syn__storage_of(&s, i)].tensor == i);
        done = made == 200;
        if (!done) CHECK_HAS(err.text, "out of memory");
        syn__storages_free(&s);
    }
}

/* Contexts are independent: the same calls give the same ids, whatever other contexts do. */
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
    CHECK(syn_ctx_comm(a) == NULL && syn_ctx_has_data(a));
    syn_ctx_free(a);
    syn_ctx_free(b);
    syn_ctx_free(NULL);
}

/* syn_name has no effect on a tensor without a producer. */
static void test_names(void) {
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_META, NULL);
    const syn_tensor x = ZEROS(ctx, SYN_F32, 3);
    CHECK_INT(syn_name(ctx, x, "other").id, x.id);
    CHECK_INT(syn_name(ctx, (syn_tensor){0}, "other").id, 0);
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

/* A name may point into the context's own string table, although the table moves when it grows. */
static void test_names_of_the_context_itself(void) {
    const syn_spec spec = {SYN_F32, 1, {4}};
    for (int i = 0; i < 300; i++) {
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL), *other = ref_ctx(SYN_DEVICE_CPU, NULL);
        char name[64], long_name[400];
        float got[2][4];
        snprintf(name, sizeof name, "before.w%d", i);
        memset(long_name, 'x', sizeof long_name);
        long_name[i] = '\0'; /* for one of these i the table must grow */
        syn_param(ctx, name, &spec, SYN_WHOLE, SYN_INIT_ONE, 0, -1, 1);
        const syn_tensor x = syn_input(ctx, long_name, &spec, NULL);
        syn_tensor w = syn_param(ctx, syn_ctx_param(ctx, 0).name + 7, &spec, SYN_WHOLE,
                                 SYN_INIT_NORMAL, 1, -1, 1);
        CHECK_INT(syn_tensor_read(ctx, w, got[0], sizeof got[0]), SYN_OK);
        CHECK_STR(syn_ctx_param(ctx, 1).name, name + 7);
        w = syn_param(other, name + 7, &spec, SYN_WHOLE, SYN_INIT_NORMAL, 1, -1, 1);
        CHECK_INT(syn_tensor_read(other, w, got[1], sizeof got[1]), SYN_OK);
        CHECK(memcmp(got[0], got[1], sizeof got[0]) == 0);
        syn_name(ctx, syn_scale(ctx, x, 2), syn_ctx_param(ctx, 0).name + 3);
        const syn_trace *t = syn_ctx_trace(ctx);
        CHECK_STR(syn_trace_text(t, t->nodes[1].label), name + 3);
        syn_ctx_free(ctx);
        syn_ctx_free(other);
    }
}

static const test_case cases[] = {
    {"rows of a call", test_rows_of_a_call},
    {"first error wins", test_first_error_wins},
    {"scopes", test_scopes},
    {"steps", test_steps},
    {"reading", test_reading},
    {"release", test_release},
    {"released on meta", test_released_on_meta},
    {"release_is_linear", test_release_is_linear},
    {"peak bytes", test_peak_bytes},
    {"steady step allocates no data", test_steady_step_allocates_no_data},
    {"pool", test_pool},
    {"pool out of memory", test_pool_out_of_memory},
    {"pins", test_pins},
    {"pins refused", test_pins_refused},
    {"pins cost nothing to releases", test_pins_cost_nothing_to_releases},
    {"contexts are apart", test_contexts_are_apart},
    {"names", test_names},
    {"names of the context itself", test_names_of_the_context_itself},
};
TEST_MAIN(cases)
