/* Compares the emulated cuBLASLt with simple loops, and the 16-bit types with their definitions. */
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "tests/emulation/emulation_test.h"

#define CHECK_LT(call) CHECK_STATUS(call, CUBLAS_STATUS_SUCCESS)
#define CHECK_STATUS(call, want)                                                          \
    do {                                                                                  \
        const cublasStatus_t check_status = (call);                                       \
        CHECK_MSG(check_status == (want), "got %s", cublasLtGetStatusName(check_status)); \
    } while (0)

/* ---- 16 bits ---- */

/* A number exactly between two neighbours is rounded to the even neighbour, other numbers to the
   nearer one. */
template <typename T>
static void check_rounding(T (*from_bits)(unsigned short), unsigned short (*to_bits)(T),
                           float (*widen)(T), T (*round)(float), unsigned short infinity) {
    for (unsigned bits = 0; bits < infinity; bits++) {
        const unsigned short low = (unsigned short)bits, high = (unsigned short)(bits + 1);
        const float a = widen(from_bits(low)), b = widen(from_bits(high));
        CHECK_INT(to_bits(round(a)), low);
        CHECK_INT(to_bits(round(-a)), low | 0x8000);
        if (high == infinity) { /* the largest finite number has no finite neighbour above it */
            CHECK(isinf(b));
            continue;
        }
        const float middle = (float)(((double)a + (double)b) / 2);
        CHECK_INT(to_bits(round(middle)), low % 2 == 0 ? low : high);
        CHECK_INT(to_bits(round(nextafterf(middle, a))), low);
        CHECK_INT(to_bits(round(nextafterf(middle, b))), high);
        CHECK_INT(to_bits(round(-nextafterf(middle, b))), high | 0x8000);
    }
    CHECK_INT(to_bits(round(INFINITY)), infinity);
    CHECK_INT(to_bits(round(-INFINITY)), infinity | 0x8000);
    CHECK(isnan(widen(round(NAN))));
    CHECK(isnan(widen(from_bits((unsigned short)(infinity + 1)))));
}

static void halves() {
    check_rounding(__ushort_as_half, __half_as_ushort, __half2float, __float2half_rn, 0x7c00);
    CHECK_NEAR(__half2float(__ushort_as_half(0x3c01)), 1 + 0x1p-10, 0);
    CHECK_NEAR(__half2float(__ushort_as_half(0x8001)), -0x1p-24, 0);
    CHECK_INT(__half_as_ushort(__float2half(65519.0f)), 0x7bff);
    CHECK_INT(__half_as_ushort(__float2half(65520.0f)), 0x7c00);
}

static void bfloats() {
    check_rounding(__ushort_as_bfloat16, __bfloat16_as_ushort, __bfloat162float,
                   __float2bfloat16_rn, 0x7f80);
    CHECK_NEAR(__bfloat162float(__ushort_as_bfloat16(0x3f81)), 1 + 0x1p-7, 0);
}

/* ---- products ---- */

static float rounded(float x, cudaDataType_t type) {
    if (type == CUDA_R_16F) return __half2float(__float2half_rn(x));
    if (type == CUDA_R_16BF) return __bfloat162float(__float2bfloat16_rn(x));
    return x;
}

static size_t size_of(cudaDataType_t type) {
    return type == CUDA_R_32F ? 4 : 2;
}

/* Matrices with NaN in the gaps between columns (between rows with order ROW) and between
   matrices. */
struct matrix {
    int rows, cols, ld, batch, order;
    cudaDataType_t type;
    std::vector<float> values; /* in the order of storage */

    matrix(int r, int c, int b, cudaDataType_t t, int how, unsigned *seed)
        : rows(r), cols(c), ld((how == CUBLASLT_ORDER_COL ? r : c) + 3), batch(b), order(how),
          type(t), values(stride() * (size_t)b, NAN) {
        for (int i = 0; i < batch; i++)
            for (int row = 0; row < rows; row++)
                for (int col = 0; col < cols; col++) {
                    *seed = *seed * 1664525 + 1013904223;
                    at(i, row, col) = rounded((float)(*seed >> 8) * 0x1p-23f - 1, type);
                }
    }
    size_t stride() const {
        return (size_t)ld * (size_t)(order == CUBLASLT_ORDER_COL ? cols : rows) + 5;
    }
    size_t place(int i, int row, int col) const {
        const int in = order == CUBLASLT_ORDER_COL ? col * ld + row : row * ld + col;
        return stride() * (size_t)i + (size_t)in;
    }
    float &at(int i, int row, int col) { return values[place(i, row, col)]; }
    std::vector<char> bytes() const {
        std::vector<char> to(values.size() * size_of(type));
        for (size_t i = 0; i < values.size(); i++) {
            char *here = &to[i * size_of(type)];
            const __half half = __float2half_rn(values[i]);
            const __nv_bfloat16 bfloat = __float2bfloat16_rn(values[i]);
            if (type == CUDA_R_16F) memcpy(here, &half, 2);
            else if (type == CUDA_R_16BF) memcpy(here, &bfloat, 2);
            else memcpy(here, &values[i], 4);
        }
        return to;
    }
    void read(const std::vector<char> &from) {
        for (size_t i = 0; i < values.size(); i++) {
            const char *here = &from[i * size_of(type)];
            unsigned short bits;
            memcpy(&bits, here, 2);
            if (type == CUDA_R_16F) values[i] = __half2float(__ushort_as_half(bits));
            else if (type == CUDA_R_16BF) values[i] = __bfloat162float(__ushort_as_bfloat16(bits));
            else memcpy(&values[i], here, 4);
        }
    }
    cublasLtMatrixLayout_t layout() const {
        cublasLtMatrixLayout_t l;
        const int64_t far = (int64_t)stride();
        const int32_t n = batch, how = order;
        cublasLtMatrixLayoutCreate(&l, type, (uint64_t)rows, (uint64_t)cols, ld);
        cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_ORDER, &how, sizeof how);
        cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &n, sizeof n);
        cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &far,
                                         sizeof far);
        return l;
    }
};

/* The handle and the descriptors of a product. */
struct asked {
    cublasLtHandle_t lt;
    cublasLtMatmulDesc_t how;
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulPreference_t preference;

    asked(const matrix &ma, const matrix &mb, const matrix &md, bool ta, bool tb, uint64_t space) {
        const int32_t t[2] = {ta ? CUBLAS_OP_T : CUBLAS_OP_N, tb ? CUBLAS_OP_T : CUBLAS_OP_N};
        cublasLtCreate(&lt);
        cublasLtMatmulDescCreate(&how, CUBLAS_COMPUTE_32F, CUDA_R_32F);
        cublasLtMatmulDescSetAttribute(how, CUBLASLT_MATMUL_DESC_TRANSA, &t[0], sizeof t[0]);
        cublasLtMatmulDescSetAttribute(how, CUBLASLT_MATMUL_DESC_TRANSB, &t[1], sizeof t[1]);
        a = ma.layout();
        b = mb.layout();
        d = md.layout();
        cublasLtMatmulPreferenceCreate(&preference);
        cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &space, sizeof space);
        if (ma.batch == 1) return;
        const uint32_t steps = 2; /* alignment of the elements in bytes */
        for (auto what : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
            cublasLtMatmulPreferenceSetAttribute(preference, what, &steps, sizeof steps);
    }
    asked(const asked &) = delete;
    asked &operator=(const asked &) = delete;
    ~asked() {
        cublasLtMatmulPreferenceDestroy(preference);
        for (cublasLtMatrixLayout_t l : {a, b, d}) cublasLtMatrixLayoutDestroy(l);
        cublasLtMatmulDescDestroy(how);
        cublasLtDestroy(lt);
    }
    void epilogue(uint32_t which, const void *bias) {
        cublasLtMatmulDescSetAttribute(how, CUBLASLT_MATMUL_DESC_EPILOGUE, &which, sizeof which);
        cublasLtMatmulDescSetAttribute(how, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    }
    cublasStatus_t find(cublasLtMatmulHeuristicResult_t *found) {
        int n = 0;
        const cublasStatus_t status =
            cublasLtMatmulAlgoGetHeuristic(lt, how, a, b, d, d, preference, 1, found, &n);
        return status == CUBLAS_STATUS_SUCCESS && n != 1 ? CUBLAS_STATUS_NOT_SUPPORTED : status;
    }
};

struct shape {
    cudaDataType_t in, out;
    bool ta, tb;
    int batch, order;
    uint32_t epilogue;
    float beta;
};

static double gelu(double x) {
    return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

static void check_product(const shape &s) {
    enum { M = 9, N = 6, K = 21 };
    unsigned seed = 1;
    matrix a(s.ta ? K : M, s.ta ? M : K, s.batch, s.in, s.order, &seed);
    matrix b(s.tb ? N : K, s.tb ? K : N, s.batch, s.in, s.order, &seed);
    matrix d(M, N, s.batch, s.out, s.order, &seed), bias(M, 1, 1, s.out, CUBLASLT_ORDER_COL, &seed);
    matrix got = d;
    device_array<char> da(a.bytes()), db(b.bytes()), dd(d.bytes()), dbias(bias.bytes());
    device_array<char> space(1 << 16);
    const bool biased = s.epilogue & CUBLASLT_EPILOGUE_BIAS;
    float alpha = 1.5f, beta = s.beta;
    cublasLtMatmulHeuristicResult_t found;
    cudaStream_t stream;
    asked ask(a, b, d, s.ta, s.tb, space.n);
    CHECK_CUDA(cudaStreamCreate(&stream));
    ask.epilogue(s.epilogue, biased ? dbias.data : NULL);
    CHECK_LT(ask.find(&found));
    CHECK_LT(cublasLtMatmul(ask.lt, ask.how, &alpha, da.data, ask.a, db.data, ask.b, &beta, dd.data,
                            ask.d, dd.data, ask.d, &found.algo, space.data, space.n, stream));
    alpha = beta = NAN; /* the call has already read both, so they may change */
    CHECK_CUDA(cudaStreamSynchronize(stream));
    CHECK_CUDA(cudaStreamDestroy(stream));
    got.read(dd.host());
    const double within = s.out == CUDA_R_32F ? 1e-5 : s.out == CUDA_R_16F ? 0x1p-10 : 0x1p-7;
    for (int i = 0; i < s.batch; i++)
        for (int row = 0; row < M; row++)
            for (int col = 0; col < N; col++) {
                double want = 0;
                for (int k = 0; k < K; k++)
                    want += (double)(s.ta ? a.at(i, k, row) : a.at(i, row, k)) *
                            (double)(s.tb ? b.at(i, col, k) : b.at(i, k, col));
                want = 1.5 * want + (s.beta != 0 ? (double)s.beta * (double)d.at(i, row, col) : 0);
                if (biased) want += (double)bias.at(0, row, 0);
                if (s.epilogue & CUBLASLT_EPILOGUE_GELU) want = gelu(want);
                CHECK_NEAR(got.at(i, row, col), want, within * (1 + fabs(want)));
                got.at(i, row, col) = NAN;
            }
    for (float x : got.values) CHECK(isnan(x)); /* the product must not change the gaps */
}

static void products() {
    static const cudaDataType_t types[][2] = {{CUDA_R_32F, CUDA_R_32F},
                                              {CUDA_R_16F, CUDA_R_16F},
                                              {CUDA_R_16BF, CUDA_R_16BF},
                                              {CUDA_R_16F, CUDA_R_32F},
                                              {CUDA_R_16BF, CUDA_R_32F}};
    static const uint32_t epilogues[] = {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS,
                                         CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS};
    for (const auto &type : types)
        for (int t = 0; t < 16; t++)
            for (uint32_t epilogue : epilogues)
                for (float beta : {0.0f, 0.5f})
                    check_product({type[0], type[1], (t & 1) != 0, (t & 2) != 0, t & 4 ? 3 : 1,
                                   t & 8 ? CUBLASLT_ORDER_ROW : CUBLASLT_ORDER_COL, epilogue,
                                   beta});
}

/* ---- errors ---- */

static void refused() {
    unsigned seed = 1;
    matrix a(4, 5, 1, CUDA_R_32F, CUBLASLT_ORDER_COL, &seed),
        b = matrix(5, 6, 1, CUDA_R_32F, CUBLASLT_ORDER_COL, &seed);
    const matrix d(4, 6, 1, CUDA_R_32F, CUBLASLT_ORDER_COL, &seed);
    matrix wrong = a;
    cublasLtMatmulHeuristicResult_t found;
    CHECK_LT(asked(a, b, d, false, false, 0).find(&found));
    CHECK_INT(found.workspaceSize, 0);
    wrong.ld = 3;
    CHECK_STATUS(asked(wrong, b, d, false, false, 0).find(&found), CUBLAS_STATUS_INVALID_VALUE);
    CHECK_STATUS(asked(a, b, d, true, false, 0).find(&found), CUBLAS_STATUS_INVALID_VALUE);
    CHECK_STATUS(asked(a, b, a, false, false, 0).find(&found), CUBLAS_STATUS_INVALID_VALUE);
    wrong = a;
    wrong.rows = 0;
    CHECK_STATUS(asked(wrong, b, d, false, false, 0).find(&found), CUBLAS_STATUS_INVALID_VALUE);
    wrong = a;
    wrong.batch = 2;
    CHECK_STATUS(asked(wrong, b, d, false, false, 0).find(&found), CUBLAS_STATUS_INVALID_VALUE);
    wrong = a;
    wrong.type = CUDA_R_16F;
    CHECK_STATUS(asked(wrong, b, d, false, false, 0).find(&found), CUBLAS_STATUS_NOT_SUPPORTED);
    asked relu(a, b, d, false, false, 0);
    relu.epilogue(2, NULL);
    CHECK_STATUS(relu.find(&found), CUBLAS_STATUS_NOT_SUPPORTED);
    cublasLtMatmulDesc_t desc;
    CHECK_STATUS(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_16F, CUDA_R_32F),
                 CUBLAS_STATUS_NOT_SUPPORTED);
}

/* An algorithm accepts only the alignment and workspace for which it was selected, and overwrites
   its workspace. */
static void algorithms() {
    unsigned seed = 1;
    const matrix m(4, 4, 1, CUDA_R_32F, CUBLASLT_ORDER_COL, &seed);
    device_array<char> a(m.bytes().size() + 16), b(m.bytes()), d(m.bytes()), space(4096);
    const float one = 1, zero = 0;
    asked ask(m, m, m, false, false, space.n);
    cublasLtMatmulHeuristicResult_t found;
    const auto multiply = [&](const void *from, size_t bytes) {
        return cublasLtMatmul(ask.lt, ask.how, &one, from, ask.a, b.data, ask.b, &zero, d.data,
                              ask.d, d.data, ask.d, &found.algo, space.data, bytes, NULL);
    };
    CHECK_LT(ask.find(&found));
    CHECK(found.workspaceSize > 0 && found.workspaceSize <= space.n);
    CHECK_LT(multiply(a.data, space.n));
    CHECK_INT((unsigned char)space.host()[0], 0xff);
    CHECK_STATUS(multiply(a.data, found.workspaceSize - 1), CUBLAS_STATUS_INVALID_VALUE);
    CHECK_STATUS(multiply(a.data + 16, space.n), CUBLAS_STATUS_INVALID_VALUE);
    const uint32_t aligned = 16;
    CHECK_LT(cublasLtMatmulPreferenceSetAttribute(
        ask.preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &aligned, sizeof aligned));
    CHECK_LT(ask.find(&found));
    CHECK_LT(multiply(a.data + 16, space.n));
    CHECK_STATUS(multiply(a.data + 4, space.n), CUBLAS_STATUS_INVALID_VALUE);
    ask.epilogue(CUBLASLT_EPILOGUE_BIAS, NULL);
    CHECK_STATUS(multiply(a.data, space.n), CUBLAS_STATUS_INVALID_VALUE);
}

static void read_too_much() {
    unsigned seed = 1;
    const matrix m(4, 4, 1, CUDA_R_32F, CUBLASLT_ORDER_COL, &seed);
    device_array<char> a(4 * 4 * 7), b(m.bytes()), d(m.bytes());
    const float one = 1, zero = 0;
    matrix longer = m;
    longer.ld = 8; /* a 4 x 4 matrix with a leading dimension of 8 ends at element 28 */
    asked ask(longer, m, m, false, false, 0);
    cublasLtMatmul(ask.lt, ask.how, &one, a.data, ask.a, b.data, ask.b, &zero, d.data, ask.d,
                   d.data, ask.d, NULL, NULL, 0, NULL);
    CHECK_LT(cublasLtMatmul(ask.lt, ask.how, &one, a.data + 4, ask.a, b.data, ask.b, &zero, d.data,
                            ask.d, d.data, ask.d, NULL, NULL, 0, NULL));
}

static void strays() {
    CHECK_DIES("read", "a product reads A: of 112 bytes at 4 of a buffer of 112");
}

static const test_case cases[] = {{"halves", halves},         {"bfloats", bfloats},
                                  {"products", products},     {"refused", refused},
                                  {"algorithms", algorithms}, {"strays", strays}};
static const test_case children[] = {{"read", read_too_much}};
TEST_MAIN_WITH(cases, children)
