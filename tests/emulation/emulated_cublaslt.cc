/* The products of the emulated cuBLASLt, column-major: D = alpha op(A) op(B) + beta C, followed by
   a bias and gelu. */
#include "cublasLt.h"
#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "tests/emulation/emulated.h"

struct emulated_lt {
    int unused;
};
struct emulated_lt_desc {
    cublasComputeType_t compute;
    int32_t transpose_a = 0, transpose_b = 0;
    uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    const void *bias = NULL;
    int32_t bias_type = -1; /* negative: the type of D */
};
struct emulated_lt_layout {
    cudaDataType_t type;
    uint64_t rows, cols;
    int64_t ld, stride = 0;
    int32_t batch = 1, order = CUBLASLT_ORDER_COL;
};
struct emulated_lt_preference {
    uint64_t workspace = 0;
    uint32_t aligned[4] = {256, 256, 256, 256}; /* alignment of A, B, C and D in bytes */
};
/* The requirements of an algorithm, stored in a cublasLtMatmulAlgo_t. */
struct emulated_lt_algo {
    uint32_t valid, aligned[4];
    uint64_t workspace;
};
/* The number of bytes of workspace that algorithms require if the preference allows it. Products
   overwrite the workspace, which exposes callers that share it. */
enum { LT_WORKSPACE = 1024 };

#define LT_ENTER()                                                                          \
    do {                                                                                    \
        static emulated_function lt_self(__func__);                                         \
        if (emulated_enter(&lt_self) != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED; \
    } while (0)

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
    LT_ENTER();
    *handle = new emulated_lt();
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    delete handle;
    LT_ENTER();
    return CUBLAS_STATUS_SUCCESS;
}

static const struct {
    cublasStatus_t status;
    const char *name, *text;
} statuses[] = {
#define EMULATED_X(name, code, text) {CUBLAS_STATUS_##name, "CUBLAS_STATUS_" #name, text},
    EMULATED_STATUSES(EMULATED_X)
#undef EMULATED_X
};

const char *cublasLtGetStatusString(cublasStatus_t status) {
    for (const auto &one : statuses)
        if (one.status == status) return one.text;
    return "unknown cublas status";
}

const char *cublasLtGetStatusName(cublasStatus_t status) {
    for (const auto &one : statuses)
        if (one.status == status) return one.name;
    return "unknown cublas status";
}

size_t cublasLtGetVersion() {
    return 130000;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
    LT_ENTER();
    if (scale != CUDA_R_32F || compute == CUBLAS_COMPUTE_16F) return CUBLAS_STATUS_NOT_SUPPORTED;
    *desc = new emulated_lt_desc();
    (*desc)->compute = compute;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
    delete desc;
    LT_ENTER();
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t take(void *to, size_t want, const void *value, size_t bytes) {
    if (bytes != want) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}
#define TAKE(member) take(&(member), sizeof(member), value, bytes)

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t what,
                                              const void *value, size_t bytes) {
    LT_ENTER();
    switch (what) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        return TAKE(desc->transpose_a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
        return TAKE(desc->transpose_b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return TAKE(desc->epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return TAKE(desc->bias);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
        return TAKE(desc->bias_type);
    default:
        return CUBLAS_STATUS_INVALID_VALUE;
    }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType_t type,
                                          uint64_t rows, uint64_t cols, int64_t ld) {
    LT_ENTER();
    *layout = new emulated_lt_layout();
    (*layout)->type = type;
    (*layout)->rows = rows;
    (*layout)->cols = cols;
    (*layout)->ld = ld;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
    delete layout;
    LT_ENTER();
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t what,
                                                const void *value, size_t bytes) {
    LT_ENTER();
    switch (what) {
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
        return TAKE(layout->order);
    case CUBLASLT_MATRIX_LAYOUT_ROWS:
        return TAKE(layout->rows);
    case CUBLASLT_MATRIX_LAYOUT_COLS:
        return TAKE(layout->cols);
    case CUBLASLT_MATRIX_LAYOUT_LD:
        return TAKE(layout->ld);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
        return TAKE(layout->batch);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
        return TAKE(layout->stride);
    default:
        return CUBLAS_STATUS_INVALID_VALUE;
    }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
    LT_ENTER();
    *preference = new emulated_lt_preference();
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
    delete preference;
    LT_ENTER();
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t what,
                                                    const void *value, size_t bytes) {
    LT_ENTER();
    uint32_t ignored;
    switch (what) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        return TAKE(preference->workspace);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        return TAKE(preference->aligned[what - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES]);
    default: /* the reduction scheme, which has no effect because sums have only one order here */
        return TAKE(ignored);
    }
}

/* ---- checks of layouts and types ---- */

static bool layout_fits(const emulated_lt_layout &l) {
    const uint64_t inner = l.order == CUBLASLT_ORDER_COL ? l.rows : l.cols;
    return l.rows > 0 && l.cols > 0 && l.batch > 0 && l.ld >= (int64_t)inner;
}

/* The allowed combinations of types with f32 sums, from a table in cublasLtMatmul's
   documentation. */
static bool types_fit(cudaDataType_t a, cudaDataType_t b, cudaDataType_t c, cudaDataType_t d) {
    if (a != b || c != d) return false;
    if (a == CUDA_R_32F) return d == CUDA_R_32F;
    return (a == CUDA_R_16F || a == CUDA_R_16BF) && (d == a || d == CUDA_R_32F);
}

static cublasStatus_t check(const emulated_lt_desc &h, const emulated_lt_layout &a,
                            const emulated_lt_layout &b, const emulated_lt_layout &c,
                            const emulated_lt_layout &d) {
    const uint64_t m = h.transpose_a ? a.cols : a.rows, k = h.transpose_a ? a.rows : a.cols;
    const uint64_t k_b = h.transpose_b ? b.cols : b.rows, n = h.transpose_b ? b.rows : b.cols;
    if (!layout_fits(a) || !layout_fits(b) || !layout_fits(c) || !layout_fits(d) || k != k_b ||
        d.rows != m || d.cols != n || c.rows != m || c.cols != n || a.batch != d.batch ||
        b.batch != d.batch || c.batch != d.batch)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (h.epilogue != CUBLASLT_EPILOGUE_DEFAULT && h.epilogue != CUBLASLT_EPILOGUE_BIAS &&
        h.epilogue != CUBLASLT_EPILOGUE_GELU && h.epilogue != CUBLASLT_EPILOGUE_GELU_BIAS)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (!types_fit(a.type, b.type, c.type, d.type)) return CUBLAS_STATUS_NOT_SUPPORTED;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t *found, int *n) {
    LT_ENTER();
    (void)handle;
    *n = 0;
    const cublasStatus_t status = check(*desc, *a, *b, *c, *d);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    if (most < 1) return CUBLAS_STATUS_INVALID_VALUE;
    memset(found, 0, sizeof *found);
    emulated_lt_algo algo = {1, {0, 0, 0, 0}, 0};
    memcpy(algo.aligned, preference->aligned, sizeof algo.aligned);
    if (preference->workspace >= LT_WORKSPACE) algo.workspace = LT_WORKSPACE;
    static_assert(sizeof algo <= sizeof found->algo, "an algorithm is that small");
    memcpy(&found->algo, &algo, sizeof algo);
    found->workspaceSize = algo.workspace;
    *n = 1;
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- numbers ---- */

static size_t bytes_of(cudaDataType_t type) {
    return type == CUDA_R_32F ? 4 : 2;
}

static float load(const void *data, cudaDataType_t type, int64_t at) {
    if (type == CUDA_R_16F) return __half2float(static_cast<const __half *>(data)[at]);
    if (type == CUDA_R_16BF) return __bfloat162float(static_cast<const __nv_bfloat16 *>(data)[at]);
    return static_cast<const float *>(data)[at];
}

static void store(void *data, cudaDataType_t type, int64_t at, float x) {
    if (type == CUDA_R_16F) static_cast<__half *>(data)[at] = __float2half_rn(x);
    else if (type == CUDA_R_16BF) static_cast<__nv_bfloat16 *>(data)[at] = __float2bfloat16_rn(x);
    else static_cast<float *>(data)[at] = x;
}

static int64_t place(const emulated_lt_layout &l, int64_t row, int64_t col) {
    return l.order == CUBLASLT_ORDER_COL ? row + col * l.ld : row * l.ld + col;
}

static const void *batch_of(const void *data, const emulated_lt_layout &l, int i) {
    return static_cast<const char *>(data) + l.stride * i * (int64_t)bytes_of(l.type);
}

/* Copies op(X) of A or B to an f32 array in which k is the fastest dimension. */
static std::vector<float> along_k(const void *data, const emulated_lt_layout &l, bool k_is_rows,
                                  int64_t k, int64_t others) {
    std::vector<float> to((size_t)(k * others));
    for (int64_t other = 0; other < others; other++)
        for (int64_t i = 0; i < k; i++)
            to[(size_t)(other * k + i)] =
                load(data, l.type, k_is_rows ? place(l, i, other) : place(l, other, i));
    return to;
}

/* Rounds each number to TF32, which has 11 bits of precision. */
static void round_to_tf32(std::vector<float> &numbers) {
    for (float &x : numbers) {
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        bits = (bits + 0x1000) & ~0x1fffu;
        memcpy(&x, &bits, sizeof bits);
    }
}

static float gelu(float x) {
    const double inner = 0.7978845608028654 * (x + 0.044715 * x * x * x);
    return (float)(0.5 * x * (1 + tanh(inner)));
}

struct product {
    emulated_lt_desc how;
    emulated_lt_layout la, lb, lc, ld;
    const void *a, *b, *c;
    void *d;
    float alpha, beta;

    void one(int batch) const {
        const int64_t m = (int64_t)ld.rows, n = (int64_t)ld.cols;
        const int64_t k = (int64_t)(how.transpose_a ? la.rows : la.cols);
        std::vector<float> x = along_k(batch_of(a, la, batch), la, how.transpose_a, k, m);
        std::vector<float> y = along_k(batch_of(b, lb, batch), lb, !how.transpose_b, k, n);
        if (how.compute == CUBLAS_COMPUTE_32F_FAST_TF32) {
            round_to_tf32(x);
            round_to_tf32(y);
        }
        const void *from = batch_of(c, lc, batch);
        void *to = const_cast<void *>(batch_of(d, ld, batch));
        const cudaDataType_t bias_type =
            how.bias_type < 0 ? ld.type : (cudaDataType_t)how.bias_type;
        for (int64_t col = 0; col < n; col++)
            for (int64_t row = 0; row < m; row++) {
                const float *p = &x[(size_t)(row * k)], *q = &y[(size_t)(col * k)];
                double sums[8] = {0};
                int64_t i = 0;
                for (; i + 8 <= k; i += 8)
                    for (int s = 0; s < 8; s++) sums[s] += (double)p[i + s] * (double)q[i + s];
                for (; i < k; i++) sums[0] += (double)p[i] * (double)q[i];
                double sum = 0;
                for (double one_sum : sums) sum += one_sum;
                float result = alpha * (float)sum;
                if (beta != 0) result += beta * load(from, lc.type, place(lc, row, col));
                if (how.epilogue & CUBLASLT_EPILOGUE_BIAS) result += load(how.bias, bias_type, row);
                if (how.epilogue & CUBLASLT_EPILOGUE_GELU) result = gelu(result);
                store(to, ld.type, place(ld, row, col), result);
            }
    }
};

/* Whether the pointers and the workspace meet the requirements of the algorithm. */
static bool algo_fits(const emulated_lt_algo &algo, const void *const data[4],
                      const emulated_lt_layout *const layouts[4], const void *workspace,
                      size_t bytes) {
    bool fits = algo.valid == 1 && bytes >= algo.workspace && (workspace || !algo.workspace);
    for (int i = 0; i < 4; i++) {
        const int last = layouts[i]->batch > 1 ? 1 : 0;
        for (int of : {0, last})
            if (reinterpret_cast<uintptr_t>(batch_of(data[i], *layouts[i], of)) % algo.aligned[i])
                fits = false;
    }
    return fits;
}

static void check_span(const void *data, const emulated_lt_layout &l, const char *what) {
    const int64_t last = place(l, (int64_t)l.rows - 1, (int64_t)l.cols - 1) +
                         (l.stride > 0 ? l.stride * (l.batch - 1) : 0);
    emulated_check_range(data, (size_t)(last + 1) * bytes_of(l.type), what);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t layout_a, const void *b,
                              cublasLtMatrixLayout_t layout_b, const void *beta, const void *c,
                              cublasLtMatrixLayout_t layout_c, void *d,
                              cublasLtMatrixLayout_t layout_d, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t bytes, cudaStream_t stream) {
    LT_ENTER();
    (void)handle;
    const cublasStatus_t status = check(*desc, *layout_a, *layout_b, *layout_c, *layout_d);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    emulated_lt_algo how = {1, {1, 1, 1, 1}, 0};
    if (algo) memcpy(&how, algo, sizeof how);
    const void *const data[4] = {a, b, c, d};
    const emulated_lt_layout *const layouts[4] = {layout_a, layout_b, layout_c, layout_d};
    if (!algo_fits(how, data, layouts, workspace, bytes) ||
        ((desc->epilogue & CUBLASLT_EPILOGUE_BIAS) && !desc->bias))
        return CUBLAS_STATUS_INVALID_VALUE;
    emulated_check_range(workspace, how.workspace, "a product's workspace:");
    check_span(a, *layout_a, "a product reads A:");
    check_span(b, *layout_b, "a product reads B:");
    check_span(d, *layout_d, "a product writes D:");
    const product p = {*desc,
                       *layout_a,
                       *layout_b,
                       *layout_c,
                       *layout_d,
                       a,
                       b,
                       c,
                       d,
                       *static_cast<const float *>(alpha),
                       *static_cast<const float *>(beta)};
    emulated_ask(stream, [p, how, workspace] {
        if (how.workspace) memset(workspace, 0xff, how.workspace);
        for (int i = 0; i < p.ld.batch; i++) p.one(i);
    });
    return CUBLAS_STATUS_SUCCESS;
}
