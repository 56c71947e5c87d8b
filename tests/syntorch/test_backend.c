/* Tests the backend interface with a second, simulated device, which exposes host code that relies
   on properties of the CPU: the host cannot access its buffers, queued work runs only when
   something waits for it, it has kernels for only three ops, and op times are known late. */
#include "syntorch/backend.h"

#include "syntorch/base/clock.h"
#include "syntorch/context_private.h"
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

/* ---- The device ---- */

/* The host's pointer to a device buffer is the real address plus FAR. Dereferencing it crashes. */
#define FAR ((uintptr_t)1 << 55)
enum { MAX_WORK = 256, WORK_NS = 7 };

static void *near(const void *far) {
    /* Turns a host pointer that the device gets by mistake into an invalid one. */
    return (void *)((uintptr_t)far - FAR);
}

/* A queued piece of work. It holds copies of all its inputs, because the caller's data may be gone
   when the work runs. */
struct work {
    void (*run)(struct work *work); /* NULL: the piece only marks the begin or end of a node */
    uint32_t begins, ends;
    void *to;
    const void *from; /* for copies to the device: a copy of the caller's data */
    size_t bytes;
    int byte;
    syn_call call;
    syn_operand operands[8];
    syn_attr attr[SYN_MAX_ATTRS];
};

struct far {
    syn_ctx *ctx;
    uint64_t now_ns, began_ns; /* the device's clock; each piece of work advances it by WORK_NS */
    int n_work;
    struct work work[MAX_WORK];
};

static int n_open, n_buffers;
/* The largest number of bytes that all buffers may have together, and the number that they have
   now. */
static size_t memory_limit = SIZE_MAX, held;
static const char *failing; /* name of the backend function that fails, or NULL */
static int good_copies;     /* copies to the host that succeed before one fails */
static int n_copies_out;

static bool fails(const char *member) {
    return failing && strcmp(failing, member) == 0;
}

static syn_status far_open(void **device, syn_ctx *ctx, syn_error *err) {
    if (fails("open")) return SYN_FAIL(err, SYN_E_IO, "there is no far device");
    struct far *far = calloc(1, sizeof *far);
    far->ctx = ctx;
    far->now_ns = syn__clock_ns();
    *device = far;
    n_open++;
    return SYN_OK;
}

static void far_close(void *device) {
    free(device);
    n_open--;
}

enum { BEFORE = 64 }; /* bytes before each buffer, which store its size */

static void *far_alloc(void *device, size_t bytes) {
    (void)device;
    if (fails("alloc") || bytes > memory_limit - held) return NULL;
    n_buffers++;
    held += bytes;
    char *data = malloc(BEFORE + bytes);
    memcpy(data, &bytes, sizeof bytes);
    return (void *)((uintptr_t)data + BEFORE + FAR);
}

static void far_free(void *device, void *data) {
    /* Fails if queued work may still use this buffer. */
    if (((struct far *)device)->n_work > 0) abort();
    char *start = (char *)near(data) - BEFORE;
    size_t bytes;
    memcpy(&bytes, start, sizeof bytes);
    free(start);
    n_buffers--;
    held -= bytes;
}

static syn_status far_sync(void *device, syn_error *err) {
    struct far *far = device;
    for (int i = 0; i < far->n_work; i++) {
        struct work *work = &far->work[i];
        if (work->run) work->run(work);
        if (work->run) far->now_ns += WORK_NS;
        if (work->begins) far->began_ns = far->now_ns;
        if (work->ends)
            syn_ctx_set_time(far->ctx, work->ends, far->began_ns, far->now_ns - far->began_ns, 0);
    }
    far->n_work = 0;
    return fails("sync") ? SYN_FAIL(err, SYN_E_IO, "the far device is lost") : SYN_OK;
}

static struct work *ask(void *device, void (*run)(struct work *)) {
    struct far *far = device;
    /* A full queue is emptied by running its work. */
    if (far->n_work == MAX_WORK) far_sync(far, NULL);
    struct work *work = &far->work[far->n_work++];
    memset(work, 0, sizeof *work);
    work->run = run;
    return work;
}

static void run_copy_in(struct work *work) {
    memcpy(near(work->to), work->from, work->bytes);
    free((void *)(uintptr_t)work->from);
}

static syn_status far_copy_in(void *device, void *to, const void *from, size_t bytes,
                              syn_error *err) {
    if (fails("copy_in")) return SYN_FAIL(err, SYN_E_IO, "the far device takes nothing");
    void *copy = malloc(bytes + 1);
    struct work *work = ask(device, run_copy_in);
    if (bytes > 0) memcpy(copy, from, bytes);
    work->from = copy;
    work->to = to;
    work->bytes = bytes;
    return SYN_OK;
}

static void run_copy_out(struct work *work) {
    memcpy(work->to, near(work->from), work->bytes);
}

static syn_status far_copy_out(void *device, void *to, const void *from, size_t bytes,
                               syn_error *err) {
    if (fails("copy_out") && good_copies-- <= 0)
        return SYN_FAIL(err, SYN_E_IO, "the far device gives nothing");
    n_copies_out++;
    struct work *work = ask(device, run_copy_out);
    work->from = from;
    work->to = to;
    work->bytes = bytes;
    return SYN_OK;
}

static void run_fill(struct work *work) {
    memset(near(work->to), work->byte, work->bytes);
}

static syn_status far_fill(void *device, void *to, int byte, size_t bytes, syn_error *err) {
    (void)err;
    struct work *work = ask(device, run_fill);
    work->to = to;
    work->byte = byte;
    work->bytes = bytes;
    return SYN_OK;
}

static void far_begin(void *device, uint32_t node) {
    ask(device, NULL)->begins = node;
}

static void far_end(void *device, uint32_t node) {
    ask(device, NULL)->ends = node;
}

/* The element with the row-major number `at`. */
static float *element(const syn_operand *o, int64_t at) {
    float *data = near(o->data);
    for (int d = o->spec.rank - 1; d >= 0; d--) {
        data += at % o->spec.dims[d] * o->strides[d];
        at /= o->spec.dims[d];
    }
    return data;
}

static void run_add(struct work *work) { /* The operands have equal shapes. */
    const syn_operand *out = &work->call.out[0];
    for (int64_t i = 0; i < syn_spec_elems(&out->spec); i++)
        *element(out, i) = *element(&work->call.in[0], i) + *element(&work->call.in[1], i);
}

static void run_scale(struct work *work) {
    const syn_operand *out = &work->call.out[0];
    for (int64_t i = 0; i < syn_spec_elems(&out->spec); i++)
        *element(out, i) = *element(&work->call.in[0], i) * (float)work->attr[0].f;
}

static void run_kv_append(struct work *work) {
    const syn_operand *x = &work->call.in[1];
    syn_operand rows = work->call.out[0]; /* the rows of the cache that x is written to */
    rows.spec = x->spec;
    rows.data = (void *)((uintptr_t)rows.data +
                         (uintptr_t)(work->attr[0].i * rows.strides[2]) * sizeof(float));
    for (int64_t i = 0; i < syn_spec_elems(&x->spec); i++) *element(&rows, i) = *element(x, i);
}

static syn_status ask_kernel(const syn_call *call, void (*run)(struct work *)) {
    struct work *work = ask(call->device, run);
    work->call = *call;
    work->call.in = memcpy(work->operands, call->in, (size_t)call->n_in * sizeof *call->in);
    work->call.out =
        memcpy(work->operands + call->n_in, call->out, (size_t)call->n_out * sizeof *call->out);
    for (int i = 0; i < call->n_attr; i++) work->attr[i] = call->attr[i];
    return SYN_OK;
}

static syn_status far_add(syn_call *call) {
    return ask_kernel(call, run_add);
}

static syn_status far_scale(syn_call *call) {
    return ask_kernel(call, run_scale);
}

static syn_status far_kv_append(syn_call *call) {
    return ask_kernel(call, run_kv_append);
}

static syn_kernel far_kernel(const syn_opdef *def) {
    static const syn_kernel column[SYN_OP_COUNT] = {
        [SYN_OP_ADD] = far_add, [SYN_OP_SCALE] = far_scale, [SYN_OP_KV_APPEND] = far_kv_append};
    return column[def->op];
}

static const syn_backend far_backend = {.name = "far",
                                        .has_data = true,
                                        .open = far_open,
                                        .close = far_close,
                                        .alloc = far_alloc,
                                        .free = far_free,
                                        .copy_in = far_copy_in,
                                        .copy_out = far_copy_out,
                                        .fill = far_fill,
                                        .sync = far_sync,
                                        .kernel = far_kernel,
                                        .begin = far_begin,
                                        .end = far_end};

static syn_ctx *far_ctx(void) {
    syn_ctx *ctx = NULL;
    syn_error err = {0};
    if (syn_ctx_new_on(&ctx, &far_backend, NULL, &err) != SYN_OK) abort();
    return ctx;
}

/* ---- What works on this device ---- */

static int n_waiting(const syn_ctx *ctx) {
    return ((const struct far *)ctx->device)->n_work;
}

static void test_values_travel(void) {
    static ref x, y;
    for (int round = 0; round < 200; round++) {
        ref_seed((uint64_t)round);
        const syn_dtype dtype = (syn_dtype[]){SYN_F32, SYN_I32, SYN_I64, SYN_BF16}[round % 4];
        ref_fill(&x, ref_random_spec(dtype, 0, 5, true), 0, 100);
        ref_fill(&y, x.spec, 0, 100);
        syn_ctx *ctx = far_ctx();
        CHECK(syn_ctx_has_data(ctx));
        const syn_tensor dense = ref_dense(ctx, &x), zero = syn_state(ctx, "state", &x.spec);
        const syn_tensor wild = ref_wild(ctx, &x); /* creates views, which need no kernel */
        CHECK(n_waiting(ctx) == 3);
        CHECK(ref_check(ctx, dense, &x, 0) && ref_check(ctx, wild, &x, 0));
        CHECK(n_waiting(ctx) == 0);
        const size_t elem = syn_dtype_bytes(dtype), bytes = (size_t)syn_spec_bytes(&x.spec);
        unsigned char *data = malloc(bytes + 1);
        for (int64_t i = 0; i < syn_spec_elems(&y.spec); i++)
            ref_encode(y.spec.dtype, y.v[i], data + (size_t)i * elem);
        CHECK_INT(syn_tensor_write(ctx, dense, data, bytes), SYN_OK);
        free(data); /* the queued copy has its own data */
        CHECK(ref_check(ctx, dense, &y, 0) && ref_check(ctx, wild, &x, 0));
        ref_fill(&y, x.spec, 0, 0);
        CHECK(ref_check(ctx, zero, &y, 0));
        syn_ctx_free(ctx);
    }
    CHECK(n_open == 0 && n_buffers == 0);
}

static syn_status counting(void *user, const char *name, const syn_spec *full, syn_shard shard,
                           int64_t valid_rows, const syn_spec *local, void *data, syn_error *err) {
    (void)name, (void)full, (void)shard, (void)valid_rows;
    if (*(int *)user) return SYN_FAIL(err, SYN_E_FORMAT, "the file is damaged");
    for (int64_t i = 0; i < syn_spec_elems(local); i++) ((float *)data)[i] = (float)i;
    return SYN_OK;
}

/* Random parameters have the same values as on the CPU. A parameter source writes to host memory,
   and its values arrive on the device. */
static void test_parameters(void) {
    const syn_spec full = {SYN_F32, 2, {12, 10}}, half = {SYN_BF16, 2, {12, 10}};
    const syn_shard shard = SYN_SHARD(1, 1, 1, 2);
    static unsigned char values[2][2][12 * 5 * 4];
    for (int device = 0; device < 2; device++) {
        syn_ctx *ctx = device ? far_ctx() : ref_ctx(SYN_DEVICE_CPU, NULL);
        syn_tensor p = syn_param(ctx, "a", &full, shard, SYN_INIT_NORMAL, 0.5, 11, 1);
        CHECK_INT(syn_tensor_read(ctx, p, values[device][0], 240), SYN_OK);
        p = syn_param(ctx, "b", &half, shard, SYN_INIT_NORMAL, 0.5, -1, 1);
        CHECK_INT(syn_tensor_read(ctx, p, values[device][1], 120), SYN_OK);
        syn_ctx_free(ctx);
    }
    CHECK(memcmp(values[0], values[1], sizeof values[0]) == 0);
    int damaged = 0;
    float got[60];
    const syn_param_source source = {counting, &damaged};
    syn_ctx *ctx = far_ctx();
    syn_ctx_set_param_source(ctx, &source);
    const syn_tensor p = syn_param(ctx, "a", &full, shard, SYN_INIT_ZERO, 0, -1, 0);
    CHECK_INT(syn_tensor_read(ctx, p, got, sizeof got), SYN_OK);
    for (int i = 0; i < 60; i++) CHECK(got[i] == (float)i);
    damaged = 1;
    CHECK_INT(syn_param(ctx, "b", &full, shard, SYN_INIT_ZERO, 0, -1, 0).id, 0);
    CHECK_STR(syn_ctx_error(ctx)->text, "the file is damaged");
    syn_ctx_free(ctx);
    CHECK(n_open == 0 && n_buffers == 0);
}

/* Runs a program of ops, versions and releases: values, memory and trace are the same on every
   device. Buffers are reused while work on them is still queued. */
static syn_tensor program(syn_ctx *ctx, const ref *x) {
    const syn_spec spec = {SYN_F32, 4, {2, 2, 6, 4}};
    syn_tensor cache = syn_state(ctx, "cache", &spec), sum = ref_dense(ctx, x);
    const syn_tensor one = sum;
    for (int64_t t = 0; t < 6; t++) {
        const syn_mark mark = syn_ctx_mark(ctx);
        sum = syn_add(ctx, sum, syn_scale(ctx, one, (double)t));
        cache = syn_kv_append(ctx, cache, sum, t);
        if (t % 2) syn_pin(ctx, sum);
        syn_release(ctx, mark, &sum, 1);
    }
    return syn_permute(ctx, syn_slice(ctx, cache, 2, 1, 5), (const int[]){2, 0, 1, 3}, 4);
}

static void test_a_program(void) {
    static ref x, want;
    const int64_t dims[4] = {2, 2, 1, 4}, turned[4] = {5, 2, 2, 4};
    ref_seed(1);
    ref_fill(&x, ref_spec(SYN_F32, 4, dims), -2, 2);
    want.spec = ref_spec(SYN_F32, 4, turned);
    for (int i = 0; i < 80; i++) { /* row t is x times 1 + 0 + 1 + ... + t */
        const int t = i / 16 + 1;
        want.v[i] = x.v[i % 16] * (1 + t * (t + 1) / 2);
    }
    uint64_t hash[3];
    size_t used[3], peak[3];
    for (int device = 0; device < 3; device++) {
        syn_ctx *ctx = device == 2 ? far_ctx() : ref_ctx((syn_device)device, NULL);
        const syn_tensor y = program(ctx, &x);
        if (device == 2) CHECK_MSG(n_waiting(ctx) > 18, "%d", n_waiting(ctx));
        CHECK(device == SYN_DEVICE_META || ref_check(ctx, y, &want, 1e-6));
        CHECK_OK(syn_ctx_status(ctx), *syn_ctx_error(ctx));
        hash[device] = syn_trace_hash(syn_ctx_trace(ctx));
        used[device] = ctx->storages.used_bytes;
        peak[device] = syn_ctx_peak_bytes(ctx);
        syn_ctx_free(ctx);
    }
    for (int i = 1; i < 3; i++)
        CHECK(hash[i] == hash[0] && used[i] == used[0] && peak[i] == peak[0]);
    CHECK(n_open == 0 && n_buffers == 0);
}

/* Times are read from the device's clock and known after a wait. */
static void test_times(void) {
    syn_ctx *ctx = far_ctx();
    const syn_tensor x = ZEROS(ctx, SYN_F32, 4);
    const syn_tensor y = syn_add(ctx, syn_scale(ctx, x, 2.0), x);
    syn_scale(ctx, syn_slice(ctx, y, 0, 0, 2), 2.0);
    const syn_trace_time *t = syn_ctx_trace(ctx)->times;
    for (int node = 1; node <= 4; node++) CHECK(t[node].wall_ns == 0 && t[node].start_low == 0);
    CHECK_INT(syn_ctx_sync(ctx), SYN_OK);
    for (int node = 1; node <= 4; node++) {
        CHECK_INT(t[node].wall_ns, node == 3 ? 0 : WORK_NS); /* node 3 is a view */
        const uint32_t since = t[node].start_low - t[1].start_low;
        if (node != 3) CHECK_INT(since, WORK_NS * (node == 4 ? 2 : node - 1));
    }
    syn_ctx_free(ctx);
}

/* If a node is forgotten before its times arrive, no other node gets these times. */
static void test_times_of_forgotten_nodes(void) {
    for (int device = 0; device < 2; device++) {
        syn_ctx *ctx = device ? far_ctx() : ref_ctx(SYN_DEVICE_CPU, NULL);
        syn_tensor x = ZEROS(ctx, SYN_F32, 4);
        const syn_mark mark = syn_ctx_mark(ctx);
        for (int i = 0; i < 3; i++) x = syn_scale(ctx, x, 2.0);
        syn_forget(ctx, mark, &x, 1);
        syn_scale(ctx, syn_slice(ctx, syn_slice(ctx, x, 0, 0, 3), 0, 0, 2), 2.0);
        CHECK_INT(syn_ctx_sync(ctx), SYN_OK);
        const syn_trace_time *t = syn_ctx_trace(ctx)->times;
        for (int node = 1; node <= 2; node++) /* views */
            CHECK(t[node].wall_ns == 0 && t[node].start_low == 0);
        CHECK(device ? t[3].wall_ns == WORK_NS : t[3].start_low > 0);
        syn_ctx_free(ctx);
    }
}

/* ---- What does not work ---- */

static void test_no_kernel(void) {
    syn_ctx *ctx = far_ctx();
    const syn_tensor x = ZEROS(ctx, SYN_F32, 4);
    syn_push_scope(ctx, "mlp");
    CHECK_INT(syn_gelu(ctx, x, true).id, 0);
    CHECK_STR(syn_ctx_error(ctx)->text, "gelu in mlp: has no kernel on 'far'");
    CHECK_INT(syn_ctx_status(ctx), SYN_E_UNSUPPORTED);
    CHECK_INT(syn_ctx_trace(ctx)->n_nodes, 1); /* no row was recorded, no memory allocated */
    CHECK_INT(ctx->storages.used_bytes, 256);
    syn_ctx_free(ctx);
}

static void test_what_fails(void) {
    static const struct {
        const char *member, *sentence;
    } all[] = {{"alloc", "out of memory: 16 bytes for a tensor"},
               {"copy_in", "the far device takes nothing"},
               {"copy_out", "the far device gives nothing"},
               {"sync", "the far device is lost"}};
    const float data[4] = {1, 2, 3, 4};
    const syn_spec spec = {SYN_F32, 1, {4}};
    float back[4];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        syn_ctx *ctx = far_ctx();
        failing = all[i].member;
        const syn_tensor x = syn_input(ctx, "x", &spec, data);
        const syn_status s = syn_tensor_read(ctx, x, back, sizeof back);
        failing = NULL;
        CHECK((x.id == 0) == (i < 2) && s == (i ? SYN_E_IO : SYN_E_NOMEM));
        CHECK_STR(syn_ctx_error(ctx)->text, all[i].sentence);
        syn_ctx_free(ctx);
        CHECK(n_open == 0 && n_buffers == 0);
    }
    syn_ctx *none = NULL;
    syn_error err = {0};
    failing = "open";
    CHECK_INT(syn_ctx_new_on(&none, &far_backend, NULL, &err), SYN_E_IO);
    failing = NULL;
    CHECK(none == NULL && n_open == 0);
    CHECK_STR(err.text, "there is no far device");
}

/* Alternates between two tensor sizes on a device whose memory fits only one of them. Cached
   buffers must be returned to the device, but only after the queued work that uses them. Storage
   numbers are reused. */
static void test_memory_of_other_sizes(void) {
    enum { ROUNDS = 12 };
    float data[2048], back[2048];
    syn_ctx *ctx = far_ctx();
    size_t count = 0;
    memory_limit = 3 * sizeof data;
    for (int i = 0; i < 2048; i++) data[i] = (float)i;
    for (int round = 0; round < ROUNDS; round++) {
        const syn_mark mark = syn_ctx_mark(ctx);
        const int64_t n = 2048 - 128 * (round % 2);
        const syn_spec spec = {SYN_F32, 1, {n}};
        const syn_tensor y = syn_scale(ctx, syn_input(ctx, "x", &spec, data), 2);
        CHECK_INT(syn_tensor_read(ctx, y, back, (size_t)n * sizeof *back), SYN_OK);
        CHECK(back[n - 1] == 2 * data[n - 1]);
        syn_scale(ctx, y, 3); /* its work is still queued when its memory is released */
        syn_forget(ctx, mark, NULL, 0);
        CHECK_INT(ctx->storages.used_bytes, 0);
        CHECK_INT(ctx->storages.held_bytes, held);
        if (round == 1) count = ctx->storages.count;
    }
    CHECK_INT(ctx->storages.count, count);
    CHECK_INT(ctx->storages.peak_bytes, 3 * sizeof data);
    const syn_spec all = {SYN_F32, 1, {3 * 2048}}, more = {SYN_F32, 1, {3 * 2048 + 1}};
    CHECK(syn_input(ctx, "all", &all, NULL).id != 0);
    CHECK_INT(syn_input(ctx, "more", &more, NULL).id, 0);
    CHECK_INT(syn_ctx_status(ctx), SYN_E_NOMEM);
    syn_ctx_free(ctx);
    memory_limit = SIZE_MAX;
    CHECK(n_open == 0 && n_buffers == 0 && held == 0);
}

/* Buffers must be returned to the device, but waiting for the queued work fails. This failure must
   be reported. */
static void test_a_device_lost_while_memory_is_out(void) {
    const syn_spec small = {SYN_F32, 1, {64}}, large = {SYN_F32, 1, {128}};
    syn_ctx *ctx = far_ctx();
    const syn_mark mark = syn_ctx_mark(ctx);
    memory_limit = 512;
    syn_input(ctx, "x", &small, NULL);
    syn_forget(ctx, mark, NULL, 0);
    failing = "sync";
    CHECK_INT(syn_input(ctx, "y", &large, NULL).id, 0);
    failing = NULL;
    CHECK_STR(syn_ctx_error(ctx)->text, "the far device is lost");
    memory_limit = SIZE_MAX;
    syn_ctx_free(ctx);
}

/* After a failed read, no queued copy may write to the caller's buffer. */
static void test_a_read_that_fails_half_way(void) {
    const syn_spec spec = {SYN_F32, 2, {6, 200}};
    for (int good = 0; good < 6; good++) {
        float back[6];
        syn_ctx *ctx = far_ctx();
        const syn_tensor x = syn_input(ctx, "x", &spec, NULL);
        const syn_tensor column = syn_slice(ctx, x, 1, 7, 1);
        failing = "copy_out";
        good_copies = good;
        CHECK_INT(syn_tensor_read(ctx, column, back, sizeof back), SYN_E_IO);
        failing = NULL;
        good_copies = 0;
        CHECK_STR(syn_ctx_error(ctx)->text, "the far device gives nothing");
        for (int i = 0; i < 6; i++) back[i] = -1; /* the caller reuses its buffer */
        syn_ctx_free(ctx);
        for (int i = 0; i < 6; i++) CHECK(back[i] == -1);
    }
}

/* Elements near each other are read in one copy, including the bytes between them. */
static void test_copies_of_a_read(void) {
    const float data[6] = {1, 2, 3, 4, 5, 6};
    const syn_spec spec = {SYN_F32, 2, {2, 3}}, wide = {SYN_F32, 2, {6, 200}};
    float back[6];
    syn_ctx *ctx = far_ctx();
    const syn_tensor x = syn_input(ctx, "x", &spec, data);
    n_copies_out = 0;
    CHECK_INT(syn_tensor_read(ctx, syn_permute(ctx, x, (const int[]){1, 0}, 2), back, 24), SYN_OK);
    for (int i = 0; i < 6; i++) CHECK(back[i] == data[i % 2 * 3 + i / 2]);
    CHECK_INT(n_copies_out, 1);
    const syn_tensor column = syn_slice(ctx, syn_input(ctx, "y", &wide, NULL), 1, 7, 1);
    CHECK_INT(syn_tensor_read(ctx, column, back, sizeof back), SYN_OK);
    CHECK_INT(n_copies_out, 7);
    syn_ctx_free(ctx);
}

static void unknown_device(void) {
    syn_ctx *ctx = NULL;
    syn_error err = {0};
    CHECK_INT(syn_ctx_new(&ctx, (syn_device)99, NULL, &err), SYN_E_INVALID);
    CHECK_STR(err.text, "there is no device number 99");
}

static const test_case cases[] = {
    {"unknown_device", unknown_device},
    {"values travel", test_values_travel},
    {"parameters", test_parameters},
    {"a program", test_a_program},
    {"times", test_times},
    {"times of what was forgotten", test_times_of_forgotten_nodes},
    {"no kernel", test_no_kernel},
    {"what fails", test_what_fails},
    {"memory of different sizes", test_memory_of_other_sizes},
    {"a device lost while memory is out", test_a_device_lost_while_memory_is_out},
    {"copies of a read", test_copies_of_a_read},
    {"a read that fails half-way", test_a_read_that_fails_half_way},
};
TEST_MAIN(cases)
