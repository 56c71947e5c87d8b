/* Tests the ops of context parallelism: the two copies and the merge of partial attention against
   their definitions, and attention of divided sequences against attention of whole ones, with
   gradients. All ranks must have the same number of pairs of a query and a key that it sees. */
#include "comm/comm.h"
#include "ops/ops.h"
#include "syntorch/gradient.h"
#include "syntorch/trace.h"
#include "tests/support/ops_reference.h"
#include "tests/support/ranks.h"
#include "tests/support/test.h"

static const syn_dtype float_types[3] = {SYN_F32, SYN_F16, SYN_BF16};

/* A context, which has threads in some rounds. */
static syn_ctx *ctx_with_threads(int round) {
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    syn_error err = {0};
    if (round % 4 == 0) NEED_OK(syn_ctx_set_threads(ctx, 2 + round / 4 % 2, &err), err);
    return ctx;
}

/* The emulated device is slow. */
static int rounds(int n) {
    return ref_on_cuda() ? n / 3 : TEST_ROUNDS(n);
}

/* ---- zigzag_join and zigzag_split ---- */

/* Where token t of a sequence of `tokens` tokens is: the rank of n, and the token's index there. */
static int64_t owner(int64_t t, int64_t tokens, int64_t n, int64_t *index) {
    const int64_t length = tokens / 2 / n, piece = t / length;
    *index = t % length + (piece < n ? 0 : length);
    return piece < n ? piece : 2 * n - 1 - piece;
}

static void test_zigzag(void) {
    static ref x, want;
    for (int round = 0; round < rounds(200); round++) {
        ref_seed((uint64_t)round);
        const int64_t n = ref_int(1, 4), length = ref_int(0, 3), tokens = 2 * n * length;
        const int axis = (int)ref_int(0, 2);
        syn_spec spec = {
            (int32_t)float_types[round % 3], 3, {ref_int(1, 4), ref_int(1, 4), ref_int(1, 4)}};
        spec.dims[axis] = tokens;
        ref_fill(&x, spec, 0, 30000);
        want.spec = (syn_spec){spec.dtype, 4, {n, spec.dims[0], spec.dims[1], spec.dims[2]}};
        want.spec.dims[axis + 1] = tokens / n;
        for (int64_t i = 0; i < syn_spec_elems(&spec); i++) {
            int64_t at[SYN_MAX_RANK], to[SYN_MAX_RANK];
            ref_index(&spec, i, at);
            for (int d = 0; d < 3; d++) to[d + 1] = at[d];
            to[0] = owner(at[axis], tokens, n, &to[axis + 1]);
            want.v[ref_at(&want.spec, to)] = x.v[i];
        }
        syn_ctx *ctx = ctx_with_threads(round);
        CHECK(ref_check(ctx, syn_zigzag_split(ctx, ref_wild(ctx, &x), axis, n), &want, 0));
        CHECK(ref_check(ctx, syn_zigzag_join(ctx, ref_wild(ctx, &want), axis), &x, 0));
        syn_ctx_free(ctx);
    }
}

/* ---- attention_merge ---- */

/* Two random parts: results are sums of e^score x value / sum of e^score, so merged results follow
   from the sums of both parts. Sometimes a part has no visible key. */
static void test_merge(void) {
    static ref sum, log_sum, part, other, want, want_log_sum;
    for (int round = 0; round < rounds(200); round++) {
        ref_seed((uint64_t)round);
        const int64_t b = ref_int(1, 3), t = ref_int(1, 5), h = ref_int(1, 3), d = ref_int(1, 40),
                      n = ref_int(0, t), first = ref_int(0, t - n);
        ref_fill(&sum, (syn_spec){SYN_F32, 4, {b, t, h, d}}, -2, 2);
        ref_fill(&part, (syn_spec){SYN_F32, 4, {b, n, h, d}}, -2, 2);
        ref_fill(&log_sum, (syn_spec){SYN_F32, 3, {b, h, t}}, -30, 30);
        ref_fill(&other, (syn_spec){SYN_F32, 3, {b, h, n}}, -30, 30);
        for (int64_t i = 0; i < b * h * t; i++)
            if (ref_int(0, 9) == 0) log_sum.v[i] = -(double)INFINITY;
        for (int64_t i = 0; i < b * h * n; i++)
            if (ref_int(0, 9) == 0) other.v[i] = -(double)INFINITY;
        want = sum;
        want_log_sum = log_sum;
        for (int64_t i = 0; i < b * n * h * d; i++) {
            int64_t at[SYN_MAX_RANK];
            ref_index(&part.spec, i, at);
            const int64_t own = (at[0] * h + at[2]) * t + first + at[1],
                          theirs = (at[0] * h + at[2]) * n + at[1];
            const double x = log_sum.v[own], y = other.v[theirs], most = fmax(x, y);
            at[1] += first;
            const int64_t to = ref_at(&sum.spec, at);
            if (most == -(double)INFINITY) continue;
            const double a = exp(x - most), c = exp(y - most);
            want.v[to] = (a * sum.v[to] + c * part.v[i]) / (a + c);
            want_log_sum.v[own] = most + log(a + c);
        }
        syn_ctx *ctx = ctx_with_threads(round);
        syn_tensor out = ref_dense(ctx, &sum), sums = ref_dense(ctx, &log_sum);
        syn_attention_merge(ctx, &out, &sums, ref_wild(ctx, &part), ref_dense(ctx, &other), first);
        CHECK(ref_check(ctx, out, &want, 1e-5));
        for (int64_t i = 0; i < b * h * t; i++) /* ref_check compares finite numbers */
            if (!isfinite(want_log_sum.v[i])) want_log_sum.v[i] = 0;
        float got[REF_MAX];
        CHECK_INT(syn_tensor_read_f32(ctx, sums, got, (size_t)(b * h * t)), SYN_OK);
        for (int64_t i = 0; i < b * h * t; i++)
            CHECK(isfinite(got[i]) ? fabs((double)got[i] - want_log_sum.v[i]) < 1e-4
                                   : want_log_sum.v[i] == 0);
        syn_ctx_free(ctx);
    }
}

/* ---- context_attention ---- */

enum { BATCH = 2, HEADS = 4, KEY_HEADS = 2, DEPTH = 6, VALUES = 4, LENGTH = 5, RANKS_MAX = 4 };

typedef struct divided {
    bool gathers, overlap;
    syn_dtype dtype;
    bool failed[RANKS_MAX];
} divided;

static syn_tensor whole(syn_ctx *ctx, syn_dtype dtype, int64_t heads, int64_t tokens, int64_t depth,
                        uint64_t seed) {
    static _Thread_local ref x;
    ref_seed(seed);
    ref_fill(&x, (syn_spec){SYN_F32, 4, {BATCH, heads, tokens, depth}}, -1, 1);
    return syn_cast(ctx, ref_dense(ctx, &x), dtype);
}

/* This rank's tokens of x (B, H, S, D), as an input that may require a gradient. */
static syn_tensor own(syn_ctx *ctx, syn_tensor x, int rank, int n) {
    const int64_t length = syn_tensor_dim(ctx, x, 2) / 2 / n;
    const syn_tensor pieces[2] = {syn_slice(ctx, x, 2, rank * length, length),
                                  syn_slice(ctx, x, 2, (2 * n - 1 - rank) * length, length)};
    return syn_concat(ctx, pieces, 2, 2);
}

/* Whether a is close to the rank's tokens of b (B, H, S, D); on meta only records the same rows. */
static bool close_to(syn_ctx *ctx, syn_tensor a, syn_tensor b, int rank, int n, double tol) {
    static _Thread_local float x[REF_MAX], y[REF_MAX];
    const syn_tensor want = own(ctx, b, rank, n);
    const size_t elems = (size_t)syn_spec_elems(syn_tensor_spec(ctx, want));
    if (!syn_ctx_has_data(ctx)) return true;
    if (syn_tensor_read_f32(ctx, a, x, elems) != SYN_OK ||
        syn_tensor_read_f32(ctx, want, y, elems) != SYN_OK)
        return false;
    for (size_t i = 0; i < elems; i++)
        if (!(fabs((double)x[i] - (double)y[i]) <= tol)) return false;
    return true;
}

/* The pairs of a query and a key that it sees, in all attention_train ops since node `first`. */
static int64_t count_pairs(const syn_ctx *ctx, uint32_t first) {
    const syn_trace *t = syn_ctx_trace(ctx);
    int64_t pairs = 0;
    for (uint32_t i = first; i < t->n_nodes; i++) {
        const syn_trace_node *n = &t->nodes[i];
        if (n->op != SYN_OP_ATTENTION_TRAIN) continue;
        const syn_attr *attr = syn_intern_get(&t->blobs, n->attrs);
        const int64_t queries = syn_trace_spec(t, t->inputs[n->first_in])->dims[2],
                      keys = syn_trace_spec(t, t->inputs[n->first_in + 1])->dims[2];
        for (int64_t q = 0; q < queries; q++) {
            const int64_t seen = attr[2].i + q + 1;
            pairs += attr[1].i && seen < keys ? seen : keys;
        }
    }
    return pairs;
}

static syn_tensor permuted(syn_ctx *ctx, syn_tensor x) {
    return syn_permute(ctx, x, (const int[]){0, 2, 1, 3}, 4);
}

/* Compares the divided attention with that of whole sequences, which every rank computes. */
static bool attend(const test_rank *me, const divided *d) {
    syn_ctx *ctx = me->ctx;
    const int n = me->tp->size;
    const int64_t tokens = 2 * n * LENGTH;
    const double scale = 0.4, tol = d->dtype == SYN_F32 ? 2e-6 : 2e-2;
    const syn_attention_options how = {.scale = scale, .causal = true};
    const syn_tensor q = whole(ctx, d->dtype, HEADS, tokens, DEPTH, 1),
                     k = whole(ctx, d->dtype, KEY_HEADS, tokens, DEPTH, 2),
                     v = whole(ctx, d->dtype, KEY_HEADS, tokens, VALUES, 3),
                     dy = whole(ctx, d->dtype, HEADS, tokens, VALUES, 4);
    const syn_tensor in[6] = {
        q, k, v, own(ctx, q, me->index, n), own(ctx, k, me->index, n), own(ctx, v, me->index, n)};
    for (int i = 0; i < 6; i++) syn_require_grad(ctx, in[i]);
    const uint32_t first = (uint32_t)syn_ctx_trace(ctx)->n_nodes;
    const syn_tensor y =
        syn_context_attention(ctx, in[3], in[4], in[5], scale, d->gathers, 7, me->tp);
    if (count_pairs(ctx, first) != tokens * (tokens + 1) / (2 * n)) return false;
    const syn_tensor want = syn_attention_train(ctx, q, k, v, &how);
    const syn_tensor out[2] = {want, y},
                     dout[2] = {syn_contiguous(ctx, permuted(ctx, dy)),
                                syn_contiguous(ctx, permuted(ctx, own(ctx, dy, me->index, n)))};
    if (syn_backward_from(ctx, out, dout, 2) != SYN_OK) return false;
    bool ok = close_to(ctx, permuted(ctx, y), permuted(ctx, want), me->index, n, tol);
    for (int i = 0; i < 3; i++)
        ok = ok &&
             close_to(ctx, syn_grad(ctx, in[3 + i]), syn_grad(ctx, in[i]), me->index, n, 4 * tol);
    return ok;
}

static syn_status attend_body(const test_rank *me, void *arg, syn_error *err) {
    divided *d = arg;
    syn_ctx_set_overlap(me->ctx, d->overlap);
    if (d->overlap) SYN_TRY(syn_ctx_connect(me->ctx, me->tp, err));
    d->failed[me->index] = !attend(me, d);
    return syn_ctx_check(me->ctx, err);
}

static void test_as_whole_sequences(void) {
    for (int i = 0; i < 24; i++) {
        const int n = 2 + i / 2 % 3;
        divided d = {.gathers = i % 2, .overlap = i / 6 % 2, .dtype = i < 12 ? SYN_F32 : SYN_BF16};
        uint64_t hash[RANKS_MAX], meta[RANKS_MAX];
        CHECK(trace_hashes(n, SYN_DEVICE_CPU, IN_THREADS, attend_body, &d, hash));
        for (int r = 0; r < n; r++) CHECK_MSG(!d.failed[r], "case %d: rank %d of %d", i, r, n);
        CHECK(trace_hashes(n, SYN_DEVICE_META, WITHOUT_TRANSPORT, attend_body, &d, meta));
        CHECK(memcmp(hash, meta, (size_t)n * sizeof *hash) == 0);
    }
}

/* A rank receives keys and values in n - 1 messages in each pass, and gradients in n - 1. */
static syn_status count_body(const test_rank *me, void *arg, syn_error *err) {
    const divided d = {.dtype = SYN_F32};
    int *wrong = arg;
    *wrong += !attend(me, &d) || ref_count(me->ctx, SYN_OP_RECV) != 3 * (me->tp->size - 1) ||
              ref_count(me->ctx, SYN_OP_SEND) != 3 * (me->tp->size - 1);
    return syn_ctx_check(me->ctx, err);
}

static void test_messages(void) {
    for (int n = 2; n <= 8; n++) {
        syn_ctx *ctx[8] = {NULL};
        int wrong = 0;
        CHECK(keep_ranks(n, SYN_DEVICE_META, WITHOUT_TRANSPORT, count_body, &wrong, ctx));
        CHECK_INT(wrong, 0);
        drop_ranks(n, ctx);
    }
}

static const test_case cases[] = {
    {"zigzag", test_zigzag},
    {"merge", test_merge},
    {"as whole sequences", test_as_whole_sequences},
    {"messages", test_messages},
};
TEST_MAIN(cases)
