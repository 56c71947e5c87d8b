/* Implements both_devices.h: runs a case on both devices with the same seed and compares its
   outputs. */
#include "tests/support/both_devices.h"

#include "syntorch/base/half.h"
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

static double number_at(const unsigned char *data, int64_t i, syn_dtype dtype) {
    const size_t bytes = syn_dtype_bytes(dtype);
    float f;
    int32_t whole;
    uint16_t half;
    switch (dtype) {
    case SYN_F32:
        memcpy(&f, data + (size_t)i * bytes, sizeof f);
        return (double)f;
    case SYN_I32:
        memcpy(&whole, data + (size_t)i * bytes, sizeof whole);
        return (double)whole;
    default:
        memcpy(&half, data + (size_t)i * bytes, sizeof half);
        syn_half_widen(&half, &f, 1, dtype);
        return (double)f;
    }
}

static bool same_numbers(const syn_spec *spec, const unsigned char *cpu, const unsigned char *cuda,
                         double tol) {
    for (int64_t i = 0; i < syn_spec_elems(spec); i++) {
        char text[SYN_SPEC_TEXT];
        const double want = number_at(cpu, i, (syn_dtype)spec->dtype),
                     got = number_at(cuda, i, (syn_dtype)spec->dtype);
        if (got == want || (isnan(got) && isnan(want)) ||
            fabs(got - want) <= tol * (1 + fabs(want)))
            continue;
        fprintf(stderr, "%s, element %lld: %.9g, on the CPU %.9g\n",
                syn_spec_text(spec, text, sizeof text), (long long)i, got, want);
        return false;
    }
    return true;
}

/* Runs the case and stores the bytes of each output in `data`. Returns false if the case fails. */
static bool run_on(syn_device device, both_case f, uint64_t seed, both_run *run,
                   unsigned char **data) {
    syn_error err = {0};
    if (syn_ctx_new(&run->ctx, device, NULL, &err) != SYN_OK) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    ref_seed(seed);
    f(run);
    for (int i = 0; i < run->n; i++) {
        const size_t bytes = (size_t)syn_spec_bytes(syn_tensor_spec(run->ctx, run->out[i]));
        data[i] = malloc(bytes + 1);
        if (syn_tensor_read(run->ctx, run->out[i], data[i], bytes) == SYN_OK) continue;
        fprintf(stderr, "seed %llu: %s\n", (unsigned long long)seed, syn_ctx_error(run->ctx)->text);
        return false;
    }
    return true;
}

bool both_agree(both_case f, uint64_t seed) {
    both_run cpu = {0}, cuda = {0};
    unsigned char *at_cpu[4] = {0}, *at_cuda[4] = {0};
    bool same = run_on(SYN_DEVICE_CPU, f, seed, &cpu, at_cpu) &&
                run_on(SYN_DEVICE_CUDA, f, seed, &cuda, at_cuda);
    for (int i = 0; same && i < cpu.n; i++) {
        const syn_spec spec = *syn_tensor_spec(cpu.ctx, cpu.out[i]);
        same = same_numbers(&spec, at_cpu[i], at_cuda[i], cpu.tol);
        if (!same) fprintf(stderr, "seed %llu, output %d\n", (unsigned long long)seed, i);
    }
    for (int i = 0; i < 4; i++) {
        free(at_cpu[i]);
        free(at_cuda[i]);
    }
    syn_ctx_free(cpu.ctx);
    syn_ctx_free(cuda.ctx);
    return same;
}

void both_rounds(both_case f, int n) {
    const char *few = getenv("SYN_TEST_FEW");
    if (!ref_has_cuda()) SKIP("no CUDA device");
    if (few && strcmp(few, "1") == 0) n = (n + 9) / 10;
    for (int round = 0; round < n; round++) CHECK_MSG(both_agree(f, (uint64_t)round), "%d", round);
}

syn_tensor both_dense(syn_ctx *ctx, syn_spec spec, double low, double high) {
    const int64_t n = syn_spec_elems(&spec);
    const syn_dtype dtype = (syn_dtype)spec.dtype;
    const size_t bytes = syn_dtype_bytes(dtype);
    unsigned char *data = malloc((size_t)n * bytes + 1);
    for (int64_t i = 0; i < n; i++) {
        unsigned char *at = data + (size_t)i * bytes;
        const float x = dtype == SYN_I32 ? 0 : (float)ref_real(low, high);
        if (syn_dtype_is_half(dtype)) {
            uint16_t half;
            syn_half_narrow(&x, &half, 1, dtype);
            memcpy(at, &half, sizeof half);
        } else
            ref_encode(spec.dtype,
                       dtype == SYN_I32 ? (double)ref_int((int64_t)low, (int64_t)high) : (double)x,
                       at);
    }
    const syn_tensor t = syn_input(ctx, "x", &spec, data);
    free(data);
    return t;
}

syn_tensor both_wild(syn_ctx *ctx, syn_spec spec, double low, double high) {
    int to[SYN_MAX_RANK] = {0};
    int64_t before[SYN_MAX_RANK] = {0};
    syn_spec stored = spec;
    for (int d = 0; d < spec.rank; d++) to[d] = d;
    if (ref_int(0, 1))
        for (int d = spec.rank - 1; d > 0; d--) {
            const int other = (int)ref_int(0, d), keep = to[d];
            to[d] = to[other];
            to[other] = keep;
        }
    const int64_t margin = ref_int(0, 2) ? 8 * ref_int(0, 1) : ref_int(0, 3);
    for (int d = 0; d < spec.rank; d++) {
        before[d] = ref_int(0, 1) * margin;
        stored.dims[to[d]] = spec.dims[d] + before[d] + ref_int(0, 1) * margin;
    }
    syn_tensor t = both_dense(ctx, stored, low, high);
    for (int d = 0; d < spec.rank; d++)
        if (stored.dims[to[d]] != spec.dims[d])
            t = syn_slice(ctx, t, to[d], before[d], spec.dims[d]);
    return syn_permute(ctx, t, to, spec.rank);
}

syn_dtype both_float(void) {
    static const syn_dtype dtypes[] = {SYN_F32, SYN_F16, SYN_BF16};
    return dtypes[ref_int(0, 2)];
}

int64_t both_size(int64_t most) {
    static const int64_t about[] = {1, 8, 16, 32, 64, 128, 256, 1024, 4096};
    int64_t size;
    do
        size = ref_int(0, 2) ? about[ref_int(0, 8)] + ref_int(-1, 1) * ref_int(0, 1)
                             : ref_int(1, most);
    while (size < 1 || size > most);
    return size;
}
