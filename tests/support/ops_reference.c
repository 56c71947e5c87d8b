/* Implements ops_reference.h: random specs and layouts, and conversions from the definitions of the
   dtypes. */
#include "tests/support/ops_reference.h"
#include "ops/ops.h"

#include <stdatomic.h>

#include "tests/support/random.h"

const syn_group ref_pair = {1, "pair", (const int32_t[]){0, 1}, 2, 0, NULL};

_Thread_local uint64_t ref_state = 1;

double ref_half(uint16_t bits, syn_dtype dtype) {
    const int fraction_bits = dtype == SYN_F16 ? 10 : 7, bias = dtype == SYN_F16 ? 15 : 127;
    const int exponent = bits >> fraction_bits & ((1 << (15 - fraction_bits)) - 1);
    const int fraction = bits & ((1 << fraction_bits) - 1), one = 1 << fraction_bits;
    const double size = exponent ? ldexp(one + fraction, exponent - bias - fraction_bits)
                                 : ldexp(fraction, 1 - bias - fraction_bits);
    return bits >> 15 ? -size : size;
}

void ref_seed(uint64_t seed) {
    ref_state = seed * 2654435761u + 88172645463325252u;
}

int64_t ref_int(int64_t low, int64_t high) { /* low and high are included */
    return low + (int64_t)(random_u64(&ref_state) >> 11) % (high - low + 1);
}

double ref_real(double low, double high) {
    return (double)(float)(low + (high - low) * ((double)(random_u64(&ref_state) >> 11) * 0x1p-53));
}

syn_spec ref_spec(syn_dtype dtype, int rank, const int64_t *dims) {
    syn_spec s = {(int32_t)dtype, rank, {0}};
    for (int d = 0; d < rank; d++) s.dims[d] = dims[d];
    return s;
}

syn_spec ref_random_spec(syn_dtype dtype, int min_rank, int max_rank, bool zeros) {
    syn_spec s;
    do {
        s = (syn_spec){(int32_t)dtype, (int32_t)ref_int(min_rank, max_rank), {0}};
        for (int d = 0; d < s.rank; d++)
            s.dims[d] = ref_int(0, 3) == 0 ? 1 : ref_int(2, s.rank > 3 ? 4 : 9);
        if (zeros && s.rank && ref_int(0, 14) == 0) s.dims[ref_int(0, s.rank - 1)] = 0;
    } while (syn_spec_elems(&s) > REF_MAX / 2);
    return s;
}

void ref_fill(ref *r, syn_spec spec, double low, double high) {
    const bool whole = spec.dtype != SYN_F32;
    r->spec = spec;
    for (int64_t i = 0; i < syn_spec_elems(&spec); i++)
        r->v[i] = whole ? (double)ref_int((int64_t)low, (int64_t)high) : ref_real(low, high);
}

int64_t ref_at(const syn_spec *s, const int64_t *index) {
    int64_t at = 0;
    for (int d = 0; d < s->rank; d++) at = at * s->dims[d] + index[d];
    return at;
}

void ref_index(const syn_spec *s, int64_t at, int64_t *index) {
    for (int d = s->rank - 1; d >= 0; d--) {
        index[d] = at % s->dims[d];
        at /= s->dims[d];
    }
}

void ref_encode(int32_t dtype, double value, unsigned char *to) {
    const float f = (float)value;
    const int32_t i = (int32_t)(dtype == SYN_I32 ? value : 0);
    const int64_t l = (int64_t)(dtype == SYN_I64 ? value : 0);
    const uint16_t h = (uint16_t)(dtype == SYN_F16 || dtype == SYN_BF16 ? value : 0);
    switch (dtype) {
    case SYN_F32:
        memcpy(to, &f, sizeof f);
        break;
    case SYN_I32:
        memcpy(to, &i, sizeof i);
        break;
    case SYN_I64:
        memcpy(to, &l, sizeof l);
        break;
    default:
        memcpy(to, &h, sizeof h);
    }
}

static double ref_decode(int32_t dtype, const unsigned char *from) {
    float f;
    int32_t i;
    int64_t l;
    uint16_t h;
    switch (dtype) {
    case SYN_F32:
        memcpy(&f, from, sizeof f);
        return (double)f;
    case SYN_I32:
        memcpy(&i, from, sizeof i);
        return (double)i;
    case SYN_I64:
        memcpy(&l, from, sizeof l);
        return (double)l;
    default:
        memcpy(&h, from, sizeof h);
        return (double)h;
    }
}

syn_tensor ref_dense(syn_ctx *ctx, const ref *r) {
    const size_t elem = syn_dtype_bytes((syn_dtype)r->spec.dtype);
    const int64_t n = syn_spec_elems(&r->spec);
    unsigned char *data = malloc((size_t)n * elem + 1);
    for (int64_t i = 0; i < n; i++) ref_encode(r->spec.dtype, r->v[i], data + (size_t)i * elem);
    const syn_tensor t = syn_input(ctx, "x", &r->spec, data);
    free(data);
    return t;
}

syn_tensor ref_wild(syn_ctx *ctx, const ref *r) {
    const int rank = r->spec.rank;
    const size_t elem = syn_dtype_bytes((syn_dtype)r->spec.dtype);
    int to[SYN_MAX_RANK] = {0};
    int64_t before[SYN_MAX_RANK] = {0}, index[SYN_MAX_RANK] = {0}, stored_index[SYN_MAX_RANK] = {0};
    for (int d = 0; d < rank; d++) to[d] = d;
    if (ref_int(0, 2) > 0)
        for (int d = rank - 1; d > 0; d--) {
            const int other = (int)ref_int(0, d), keep = to[d];
            to[d] = to[other];
            to[other] = keep;
        }
    const bool cut = ref_int(0, 2) > 0;
    syn_spec stored = r->spec;
    for (int d = 0; d < rank; d++) {
        before[d] = cut ? ref_int(0, 2) : 0;
        stored.dims[to[d]] = r->spec.dims[d] + before[d] + (cut ? ref_int(0, 2) : 0);
    }
    const int64_t n = syn_spec_elems(&stored);
    unsigned char *data = malloc((size_t)n * elem + 1);
    for (int64_t i = 0; i < n; i++)
        ref_encode(r->spec.dtype, r->spec.dtype == SYN_F32 ? (double)NAN : 31999.0,
                   data + (size_t)i * elem);
    for (int64_t i = 0; i < syn_spec_elems(&r->spec); i++) {
        ref_index(&r->spec, i, index);
        for (int d = 0; d < rank; d++) stored_index[to[d]] = index[d] + before[d];
        ref_encode(r->spec.dtype, r->v[i], data + (size_t)ref_at(&stored, stored_index) * elem);
    }
    syn_tensor t = syn_input(ctx, "x", &stored, data);
    free(data);
    for (int d = 0; d < rank; d++)
        if (stored.dims[to[d]] != r->spec.dims[d])
            t = syn_slice(ctx, t, to[d], before[d], r->spec.dims[d]);
    return syn_permute(ctx, t, to, rank);
}

/* Ops whose results ref_check compared with a reference. If SYN_TEST_COMPARED is set, the program
   prints them at exit; test_ops_table sets it to find ops that no test compares. */
static atomic_bool ref_compared[SYN_OP_COUNT], ref_prints;

static void ref_print_compared(void) {
    for (int op = 1; op < SYN_OP_COUNT; op++)
        if (ref_compared[op]) printf("compared %s\n", syn_op_table[op].name);
}

static void ref_note_compared(const syn_ctx *ctx, syn_tensor t) {
    const syn_trace *trace = syn_ctx_trace(ctx);
    const uint32_t producer = trace->tensors[t.id].producer;
    if (!producer || !getenv("SYN_TEST_COMPARED")) return;
    ref_compared[trace->nodes[producer].op] = true;
    if (!atomic_exchange(&ref_prints, true)) atexit(ref_print_compared);
}

bool ref_check(syn_ctx *ctx, syn_tensor t, const ref *want, double tol) {
    char a[SYN_SPEC_TEXT], b[SYN_SPEC_TEXT];
    if (syn_ctx_status(ctx) != SYN_OK) {
        fprintf(stderr, "the context failed: %s\n", syn_ctx_error(ctx)->text);
        return false;
    }
    const syn_spec spec = *syn_tensor_spec(ctx, t);
    if (!syn_spec_equal(&spec, &want->spec)) {
        fprintf(stderr, "shape %s, want %s\n", syn_spec_text(&spec, a, sizeof a),
                syn_spec_text(&want->spec, b, sizeof b));
        return false;
    }
    const size_t bytes = (size_t)syn_spec_bytes(&spec),
                 elem = syn_dtype_bytes((syn_dtype)spec.dtype);
    unsigned char *data = malloc(bytes + 1);
    bool same = syn_tensor_read(ctx, t, data, bytes) == SYN_OK;
    if (!same) fprintf(stderr, "cannot read: %s\n", syn_ctx_error(ctx)->text);
    for (int64_t i = 0; same && i < syn_spec_elems(&spec); i++) {
        const double got = ref_decode(spec.dtype, data + (size_t)i * elem), w = want->v[i];
        if (got == w || (isnan(got) && isnan(w)) || fabs(got - w) <= tol * (1 + fabs(w))) continue;
        fprintf(stderr, "%s, element %lld: %.9g, want %.9g\n", syn_spec_text(&spec, a, sizeof a),
                (long long)i, got, w);
        same = false;
    }
    free(data);
    if (same && bytes > 0) ref_note_compared(ctx, t);
    return same;
}

syn_ctx *ref_ctx(syn_device device, syn_comm *comm) {
    syn_ctx *ctx = NULL;
    syn_error err = {0};
    if (syn_ctx_new(&ctx, device, comm, &err) != SYN_OK) {
        fprintf(stderr, "no context: %s\n", err.text);
        abort();
    }
    return ctx;
}

syn_tensor ref_zeros(syn_ctx *ctx, syn_dtype dtype, const int64_t *dims, int rank) {
    const syn_spec spec = ref_spec(dtype, rank, dims);
    return syn_input(ctx, "x", &spec, NULL);
}

syn_tensor ref_scalar(syn_ctx *ctx) {
    return ref_zeros(ctx, SYN_F32, NULL, 0);
}

int ref_count(const syn_ctx *ctx, syn_op op) {
    const syn_trace *t = syn_ctx_trace(ctx);
    int n = 0;
    for (size_t i = 1; i < t->n_nodes; i++) n += t->nodes[i].op == op;
    return n;
}
