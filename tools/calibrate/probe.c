/* Runs single ops on a device at growing sizes. Operands come from a pool of up to 1 GiB, so that
   they are not in a cache. */
#include "tools/calibrate/probe.h"

#include <math.h>

#include "ops/ops.h"
#include "syntorch/base/clock.h"
#include "syntorch/base/memory.h"

/* ---- What is measured ---- */

typedef struct series series;
typedef struct prober prober;

/* A kind of op. */
typedef struct kind {
    /* Sets `out` to the shapes of the op's operands for a size, and returns their number. */
    int (*operands)(const series *s, int64_t size, syn_spec out[3]);
    void (*call)(prober *p, const syn_tensor in[3]);
} kind;

static const kind product, sum, gelu, norm, transposed, attention;

/* A series of measurements of one op. Sizes are powers of two, with exponents from `first` to
   `last` in increments of `step`. The size is the number of columns and the inner size of a matrix
   product, the number of tokens of attention, and the number of elements of other ops. */
struct series {
    const kind *kind;
    int first, last, step;
    int64_t rows; /* rows of a matrix product (0: as many as columns); sequences of attention */
    bool decodes; /* attention with one query */
    syn_dtype dtype;
};

#define BOTH(...)                      \
    {__VA_ARGS__, .dtype = SYN_F32}, { \
        __VA_ARGS__, .dtype = SYN_BF16 \
    }

static const series all[] = {
    BOTH(&product, 6, 13, 1, 0, false),   {&product, 6, 13, 1, 0, false, SYN_F16},
    BOTH(&product, 6, 13, 1, 1, false),   BOTH(&product, 6, 13, 1, 16, false),
    BOTH(&product, 6, 13, 1, 256, false), BOTH(&product, 6, 13, 1, 2048, false),
    BOTH(&sum, 10, 28, 3, 0, false),      BOTH(&gelu, 10, 28, 3, 0, false),
    BOTH(&norm, 10, 28, 3, 0, false),     BOTH(&transposed, 10, 28, 3, 0, false),
    BOTH(&attention, 3, 13, 1, 1, false), BOTH(&attention, 3, 13, 1, 8, false),
    BOTH(&attention, 3, 15, 2, 8, true),
};

enum { SERIES = sizeof all / sizeof all[0] };
enum { HEADS = 16, HEAD = 64, NORM = 1024 };
enum { MIN_RUNS = 3, MAX_RUNS = 40 };            /* calls per size */
enum { LAYERS = 20, LAYER_OPS = 5, ROUNDS = 5 }; /* for measuring launch overhead */
enum { NOISE = 1 << 18 };                        /* number of random values; operands repeat them */
enum { HELD_MAX = 8192 };
#define POOL_BYTES 1073741824.0 /* maximum bytes of all operands; exceeds any cache */
#define LONG_NS    4e6          /* a series ends at the first size that takes longer */
#define RUNS_NS    30e6         /* approximate total time per size */
#define HELD_NS    2e6          /* duration of the product that keeps the device busy */

struct prober {
    syn_ctx *ctx;
    probed *out;
    uint64_t until_ns, counted;
    double pool_bytes;
    const series *series; /* the series that is being measured */
    syn_tensor noise;     /* (NOISE), in the dtype of the series */
    syn_tensor pool;      /* the operands, one after another */
    int64_t pool_elems;
    syn_tensor held; /* both factors of the product that keeps the device busy */
    double held_ns;
};

/* ---- Kinds ---- */

static int product_operands(const series *s, int64_t size, syn_spec out[3]) {
    out[0] = (syn_spec){(int32_t)s->dtype, 2, {s->rows > 0 ? s->rows : size, size}};
    out[1] = (syn_spec){(int32_t)s->dtype, 2, {size, size}};
    return 2;
}

static void product_call(prober *p, const syn_tensor in[3]) {
    (void)syn_linear(p->ctx, in[0], in[1], SYN_NO_BIAS, false);
}

static int sum_operands(const series *s, int64_t size, syn_spec out[3]) {
    out[0] = out[1] = (syn_spec){(int32_t)s->dtype, 1, {size}};
    return 2;
}

static void sum_call(prober *p, const syn_tensor in[3]) {
    (void)syn_add(p->ctx, in[0], in[1]);
}

static int gelu_operands(const series *s, int64_t size, syn_spec out[3]) {
    out[0] = (syn_spec){(int32_t)s->dtype, 1, {size}};
    return 1;
}

static void gelu_call(prober *p, const syn_tensor in[3]) {
    (void)syn_gelu(p->ctx, in[0], true);
}

static int norm_operands(const series *s, int64_t size, syn_spec out[3]) {
    out[0] = (syn_spec){(int32_t)s->dtype, 2, {size / NORM, NORM}};
    return 1;
}

static void norm_call(prober *p, const syn_tensor in[3]) {
    const syn_tensor weight = syn_slice(p->ctx, p->noise, 0, 0, NORM);
    (void)syn_layernorm(p->ctx, in[0], weight, weight, 1e-5);
}

/* Transposes heads and tokens, as between products and attention. */
static int transposed_operands(const series *s, int64_t size, syn_spec out[3]) {
    out[0] = (syn_spec){(int32_t)s->dtype, 3, {size / (4 * HEAD), 4, HEAD}};
    return 1;
}

static void transposed_call(prober *p, const syn_tensor in[3]) {
    static const int order[3] = {1, 0, 2};
    (void)syn_contiguous(p->ctx, syn_permute(p->ctx, in[0], order, 3));
}

static int attention_operands(const series *s, int64_t size, syn_spec out[3]) {
    out[0] = (syn_spec){(int32_t)s->dtype, 4, {s->rows, HEADS, s->decodes ? 1 : size, HEAD}};
    out[1] = out[2] = (syn_spec){(int32_t)s->dtype, 4, {s->rows, HEADS, size, HEAD}};
    return 3;
}

static void attention_call(prober *p, const syn_tensor in[3]) {
    const int64_t before = syn_tensor_dim(p->ctx, in[1], 2) - syn_tensor_dim(p->ctx, in[0], 2);
    (void)syn_attention(p->ctx, in[0], in[1], in[2], SYN_NO_MASK, 0.125, true, before);
}

static const kind product = {product_operands, product_call};
static const kind sum = {sum_operands, sum_call};
static const kind gelu = {gelu_operands, gelu_call};
static const kind norm = {norm_operands, norm_call};
static const kind transposed = {transposed_operands, transposed_call};
static const kind attention = {attention_operands, attention_call};

/* ---- Operands ---- */

static syn_tensor part(const prober *p, syn_tensor of, int64_t first, const syn_spec *shape) {
    const int64_t n = syn_spec_elems(shape);
    return syn_reshape(p->ctx, syn_slice(p->ctx, of, 0, first, n), shape->dims, shape->rank);
}

static int64_t elems_of(const series *s, int64_t size) {
    syn_spec specs[3];
    int64_t n = 0;
    for (int i = s->kind->operands(s, size, specs); i-- > 0;) n += syn_spec_elems(&specs[i]);
    return n;
}

/* Calls the op on the i-th set of operands in the pool, so that successive calls use different
   data. Begins again at the start of the pool after the last set. */
static void call(prober *p, int64_t size, int64_t i) {
    syn_spec specs[3];
    syn_tensor in[3];
    const int n = p->series->kind->operands(p->series, size, specs);
    const int64_t elems = elems_of(p->series, size);
    int64_t at = i % (p->pool_elems / elems) * elems;
    for (int k = 0; k < n; k++) {
        in[k] = part(p, p->pool, at, &specs[k]);
        at += syn_spec_elems(&specs[k]);
    }
    p->series->kind->call(p, in);
}

/* Fills the pool with at least `elems` elements by repeating the noise. Zeros are not used, because
   devices multiply them faster than other numbers. */
static void make_pool(prober *p, int64_t elems) {
    const int64_t times = (elems + NOISE - 1) / NOISE, one[2] = {1, NOISE},
                  many[2] = {times, NOISE};
    p->pool = p->noise;
    p->pool_elems = times * NOISE;
    if (times == 1) return;
    p->pool = syn_expand(p->ctx, syn_reshape(p->ctx, p->noise, one, 2), many, 2);
    p->pool = syn_reshape(p->ctx, syn_contiguous(p->ctx, p->pool), &p->pool_elems, 1);
}

static syn_status make_noise(prober *p, syn_dtype dtype, syn_error *err) {
    const syn_spec spec = {SYN_F32, 1, {NOISE}};
    float *random = syn_malloc(NOISE * sizeof *random);
    uint32_t state = 1;
    if (random == NULL) return SYN_FAIL_NOMEM(err, NOISE * sizeof *random, "random numbers");
    for (int i = 0; i < NOISE; i++) {
        state = state * 1664525u + 1013904223u; /* constants from Numerical Recipes */
        random[i] = (float)(state >> 8) / (1 << 23) - 1;
    }
    p->noise = syn_cast(p->ctx, syn_input(p->ctx, "noise", &spec, random), dtype);
    syn_free(random);
    return syn_ctx_check(p->ctx, err);
}

/* ---- Times ---- */

static syn_status wait_for(const prober *p, syn_error *err) {
    return syn_ctx_sync(p->ctx) == SYN_OK ? SYN_OK : syn_ctx_check(p->ctx, err);
}

/* Calls the op `runs` times and returns the host time per call. The device may still be busy
   afterwards. */
static double call_often(prober *p, int64_t size, int runs) {
    const syn_mark mark = syn_ctx_mark(p->ctx);
    const uint64_t begun_ns = syn__clock_ns();
    for (int i = 0; i < runs; i++) {
        call(p, size, i);
        syn_release(p->ctx, mark, NULL, 0);
    }
    return (double)(syn__clock_ns() - begun_ns) / runs;
}

/* Keeps the device busy for about `ns` nanoseconds, while the host queues the ops to be measured,
   so that no op waits for the host. */
static void hold(prober *p, double ns) {
    const syn_mark mark = syn_ctx_mark(p->ctx);
    for (int i = 0; i < 1 + (int)(ns / p->held_ns); i++) {
        (void)syn_linear(p->ctx, p->held, p->held, SYN_NO_BIAS, false);
        syn_release(p->ctx, mark, NULL, 0);
    }
}

static syn_status find_hold(prober *p, syn_error *err) {
    for (int64_t size = 64; size <= HELD_MAX && p->held_ns < HELD_NS; size *= 2) {
        const syn_spec spec = {SYN_F32, 2, {size, size}};
        p->held = syn_state(p->ctx, "held", &spec);
        p->held_ns = HELD_NS;
        hold(p, 0);
        SYN_TRY(wait_for(p, err));
        const uint64_t begun_ns = syn__clock_ns();
        hold(p, 0);
        SYN_TRY(wait_for(p, err));
        p->held_ns = (double)(syn__clock_ns() - begun_ns);
    }
    return SYN_OK;
}

/* Adds the times recorded since count_from_here or the last call to *into. */
static syn_status take(prober *p, timed_ops *into, syn_error *err) {
    SYN_TRY(syn_ctx_check(p->ctx, err));
    return timed_ops_take(into, p->ctx, &p->counted, err);
}

static void count_from_here(prober *p) {
    p->counted = syn_ctx_mark(p->ctx).node - 1;
}

/* Calls the op twice. The kernels of the first call are counted. *ns gets the time from the start
   of the second call on the host to its end on the device, and *host_ns gets the time that the call
   takes on the host. */
static syn_status warm_up(prober *p, int64_t size, double *ns, double *host_ns, syn_error *err) {
    make_pool(p, elems_of(p->series, size));
    count_from_here(p);
    syn_ctx_record_work(p->ctx, true);
    (void)call_often(p, size, 1);
    SYN_TRY(take(p, &p->out->first, err));
    syn_ctx_record_work(p->ctx, false);
    const uint64_t begun_ns = syn__clock_ns();
    *host_ns = call_often(p, size, 1);
    SYN_TRY(wait_for(p, err));
    *ns = (double)(syn__clock_ns() - begun_ns);
    return SYN_OK;
}

static syn_status measure_size(prober *p, int64_t size, double *ns, syn_error *err) {
    const syn_mark mark = syn_ctx_mark(p->ctx);
    const double elems = (double)elems_of(p->series, size);
    double host_ns;
    SYN_TRY(warm_up(p, size, ns, &host_ns, err));
    syn_forget(p->ctx, mark, NULL, 0);
    const int runs = (int)fmin(fmax(RUNS_NS / *ns, *ns < RUNS_NS ? MIN_RUNS : 1), MAX_RUNS);
    const double pool_elems = p->pool_bytes / (double)syn_dtype_bytes(p->series->dtype);
    make_pool(p, (int64_t)fmax(fmin(runs * elems, pool_elems), elems));
    hold(p, 2 * host_ns * runs);
    count_from_here(p);
    (void)call_often(p, size, runs);
    SYN_TRY(take(p, &p->out->ops, err));
    syn_forget(p->ctx, mark, NULL, 0);
    p->out->sizes++;
    return syn_ctx_check(p->ctx, err);
}

static syn_status measure_series(prober *p, const series *s, syn_error *err) {
    double ns = 0;
    p->series = s;
    p->out->n_series++;
    for (int bits = s->first; bits <= s->last && ns < LONG_NS; bits += s->step) {
        const int64_t size = (int64_t)1 << bits;
        if (bits > s->first && syn__clock_ns() > p->until_ns) break;
        if ((double)elems_of(s, size) * (double)syn_dtype_bytes(s->dtype) > p->pool_bytes) break;
        SYN_TRY(measure_size(p, size, &ns, err));
    }
    return SYN_OK;
}

/* ---- Launches ---- */

/* The ops of a layer, with almost no work. */
static void small_layer(prober *p, syn_tensor x, syn_tensor w, syn_tensor q) {
    const syn_tensor weight = syn_slice(p->ctx, p->noise, 0, 0, HEAD);
    (void)syn_layernorm(p->ctx, x, weight, weight, 1e-5);
    (void)syn_linear(p->ctx, x, w, SYN_NO_BIAS, false);
    (void)syn_attention(p->ctx, q, q, q, SYN_NO_MASK, 0.125, true, 0);
    (void)syn_add(p->ctx, x, x);
    (void)syn_gelu(p->ctx, x, true);
}

static syn_status measure_launch(prober *p, syn_error *err) {
    const syn_spec few = {SYN_F32, 2, {4, HEAD}}, square = {SYN_F32, 2, {HEAD, HEAD}},
                   heads = {SYN_F32, 4, {1, 1, 4, HEAD}};
    const syn_mark before = syn_ctx_mark(p->ctx);
    const syn_tensor x = part(p, p->noise, 0, &few), w = part(p, p->noise, 0, &square),
                     q = part(p, p->noise, 0, &heads);
    const syn_mark mark = syn_ctx_mark(p->ctx);
    for (int round = 0; round < ROUNDS; round++) {
        SYN_TRY(wait_for(p, err));
        const uint64_t begun_ns = syn__clock_ns();
        for (int i = 0; i < LAYERS; i++) {
            small_layer(p, x, w, q);
            syn_release(p->ctx, mark, NULL, 0);
        }
        const double ns = (double)(syn__clock_ns() - begun_ns) / (LAYERS * LAYER_OPS);
        if (round == 1 || ns < p->out->launch_ns) p->out->launch_ns = ns;
    }
    SYN_TRY(wait_for(p, err));
    syn_forget(p->ctx, before, NULL, 0);
    return SYN_OK;
}

/* ---- All measurements ---- */

static syn_status measure_memory(prober *p, syn_error *err) {
    size_t free_bytes, all_bytes;
    SYN_TRY(syn_ctx_memory(p->ctx, &free_bytes, &all_bytes, err));
    p->out->memory_bytes = (double)all_bytes;
    p->pool_bytes = fmin(POOL_BYTES, (double)free_bytes / 8);
    return SYN_OK;
}

static syn_status measure_types(prober *p, syn_error *err) {
    static const syn_dtype types[] = {SYN_F32, SYN_BF16, SYN_F16};
    const syn_mark mark = syn_ctx_mark(p->ctx);
    for (int t = 0; t < 3; t++) {
        SYN_TRY(make_noise(p, types[t], err));
        if (types[t] == SYN_F32) SYN_TRY(measure_launch(p, err));
        for (int i = 0; i < SERIES; i++)
            if (all[i].dtype == types[t]) SYN_TRY(measure_series(p, &all[i], err));
        syn_forget(p->ctx, mark, NULL, 0);
    }
    return SYN_OK;
}

syn_status probe_device(probed *out, syn_device device, uint64_t until_ns, syn_error *err) {
    prober p = {.out = out, .until_ns = until_ns};
    *out = (probed){.sizes = 0};
    SYN_TRY(syn_ctx_new(&p.ctx, device, NULL, err));
    syn_ctx_set_hashing(p.ctx, false);
    syn_ctx_device_info(p.ctx, &out->device);
    syn_status s = measure_memory(&p, err);
    if (s == SYN_OK) s = find_hold(&p, err);
    if (s == SYN_OK) s = measure_types(&p, err);
    syn_ctx_free(p.ctx);
    timed_ops_settle(&out->ops);
    return s;
}

void probed_free(probed *p) {
    timed_ops_free(&p->ops);
    timed_ops_free(&p->first);
}
