/* Matrix products with cuBLASLt. cuBLASLt's matrices are column-major, and a row-major (m, n)
   matrix is the same as a column-major (n, m) matrix, so we compute out' = op(w)' op(x)'. */
#include <stdlib.h>
#include <string.h>

#include "comm/cuda/cuda_comm.h"
#include "syntorch/base/memory.h"

/* ---- plans ---- */

enum {
    PLANS = 1024,  /* entries of the hash table */
    NEIGHBOURS = 8 /* entries that are searched for a plan; if all are used, the first is
                      replaced */
};

/* Everything that the choice of an algorithm depends on. */
typedef struct plan_key {
    int64_t of[11];
} plan_key;

typedef struct syn__plan {
    plan_key key; /* in a free entry, of[0], the key's m, is 0 */
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t x, w, out;
    cublasLtMatmulAlgo_t algo;
    size_t workspace; /* bytes that the algorithm needs */
    bool possible;    /* cuBLASLt has an algorithm for the product */
} syn__plan;

static int64_t log_alignment(const void *data) {
    int64_t log = 0;
    while (log < 8 && !(reinterpret_cast<uintptr_t>(data) >> log & 1)) log++;
    return log;
}

static plan_key key_of(const syn__product *p) {
    const int64_t types = (int64_t)p->x_dtype | (int64_t)p->out_dtype << 8;
    const int64_t flags =
        p->transpose_x | p->transpose_w << 1 | p->add << 2 | (p->bias != NULL) << 3;
    const int64_t lie =
        log_alignment(p->x) | log_alignment(p->w) << 8 | log_alignment(p->out) << 16;
    return {{p->m, p->n, p->k, p->batch, p->ldx, p->ldw, p->x_step, p->w_step, p->out_step,
             types | flags << 16, lie}};
}

/* FNV-1a over 64-bit words. */
static uint64_t hash_of(const plan_key *key) {
    uint64_t h = 0xcbf29ce484222325u;
    for (int64_t word : key->of) h = (h ^ (uint64_t)word) * 0x100000001b3u;
    return h ^ h >> 32;
}

static void free_plan(syn__plan *plan) {
    if (plan->desc) cublasLtMatmulDescDestroy(plan->desc);
    if (plan->x) cublasLtMatrixLayoutDestroy(plan->x);
    if (plan->w) cublasLtMatrixLayoutDestroy(plan->w);
    if (plan->out) cublasLtMatrixLayoutDestroy(plan->out);
    memset(plan, 0, sizeof *plan);
}

static cudaDataType_t type_of(syn_dtype dtype) {
    return dtype == SYN_F16 ? CUDA_R_16F : dtype == SYN_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

#define SET(function, of, what, value) \
    SYN_CUBLAS(function((of), CUBLASLT_##what, &(value), sizeof(value)), "a description", err)

/* Describes a row-major (rows, columns) matrix as stored. */
static syn_status lay_out(cublasLtMatrixLayout_t *layout, syn_dtype dtype, int64_t rows,
                          int64_t columns, int64_t ld, int32_t batch, int64_t step,
                          syn_error *err) {
    SYN_CUBLAS(
        cublasLtMatrixLayoutCreate(layout, type_of(dtype), (uint64_t)columns, (uint64_t)rows, ld),
        "a description", err);
    SET(cublasLtMatrixLayoutSetAttribute, *layout, MATRIX_LAYOUT_BATCH_COUNT, batch);
    SET(cublasLtMatrixLayoutSetAttribute, *layout, MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, step);
    return SYN_OK;
}

static syn_status describe(syn__plan *plan, const syn__product *p, bool tf32, syn_error *err) {
    const bool fast = tf32 && p->x_dtype == SYN_F32;
    const int32_t op_w = p->transpose_w ? CUBLAS_OP_T : CUBLAS_OP_N;
    const int32_t op_x = p->transpose_x ? CUBLAS_OP_T : CUBLAS_OP_N;
    const uint32_t epilogue = p->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    const int32_t batch = (int32_t)p->batch;
    SYN_CUBLAS(cublasLtMatmulDescCreate(&plan->desc,
                                        fast ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                        CUDA_R_32F),
               "a description", err);
    SET(cublasLtMatmulDescSetAttribute, plan->desc, MATMUL_DESC_TRANSA, op_w);
    SET(cublasLtMatmulDescSetAttribute, plan->desc, MATMUL_DESC_TRANSB, op_x);
    SET(cublasLtMatmulDescSetAttribute, plan->desc, MATMUL_DESC_EPILOGUE, epilogue);
    if (p->bias) SET(cublasLtMatmulDescSetAttribute, plan->desc, MATMUL_DESC_BIAS_POINTER, p->bias);
    SYN_TRY(lay_out(&plan->x, p->x_dtype, p->transpose_x ? p->k : p->m,
                    p->transpose_x ? p->m : p->k, p->ldx, batch, p->x_step, err));
    SYN_TRY(lay_out(&plan->w, p->w_dtype, p->transpose_w ? p->n : p->k,
                    p->transpose_w ? p->k : p->n, p->ldw, batch, p->w_step, err));
    return lay_out(&plan->out, p->out_dtype, p->m, p->n, p->n, batch, p->out_step, err);
}

/* Common alignment, in bytes, of all matrices of a batch. */
static uint32_t alignment(const void *data, int64_t step, syn_dtype dtype, int64_t batch) {
    const int64_t bytes = batch > 1 ? step * (int64_t)syn_dtype_bytes(dtype) : 0;
    const uintptr_t both = reinterpret_cast<uintptr_t>(data) | (uintptr_t)bytes;
    return 1u << log_alignment(reinterpret_cast<const void *>(both));
}

/* Restricts the algorithms. Partial sums must be f32, whatever the dtype of the result. */
static syn_status prefer(cublasLtMatmulPreference_t how, const syn__product *p, uint64_t bytes,
                         syn_error *err) {
    const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const uint32_t x = alignment(p->x, p->x_step, p->x_dtype, p->batch),
                   w = alignment(p->w, p->w_step, p->w_dtype, p->batch),
                   out = alignment(p->out, p->out_step, p->out_dtype, p->batch);
    SET(cublasLtMatmulPreferenceSetAttribute, how, MATMUL_PREF_MAX_WORKSPACE_BYTES, bytes);
    SET(cublasLtMatmulPreferenceSetAttribute, how, MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes);
    SET(cublasLtMatmulPreferenceSetAttribute, how, MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, w);
    SET(cublasLtMatmulPreferenceSetAttribute, how, MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, x);
    SET(cublasLtMatmulPreferenceSetAttribute, how, MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, out);
    SET(cublasLtMatmulPreferenceSetAttribute, how, MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, out);
    return SYN_OK;
}

/* Asks cuBLASLt for an algorithm. If cuBLASLt has none or fails, the plain kernel is used. */
static void choose(syn__plan *plan, cublasLtMatmulPreference_t how, const syn_call *c) {
    cublasLtMatmulHeuristicResult_t found = {};
    int n = 0;
    const cublasStatus_t code =
        cublasLtMatmulAlgoGetHeuristic(syn__cuda_of(c)->lt, plan->desc, plan->w, plan->x, plan->out,
                                       plan->out, how, 1, &found, &n);
    if (code != CUBLAS_STATUS_SUCCESS) cudaGetLastError(); /* clears the error */
    plan->possible = code == CUBLAS_STATUS_SUCCESS && n > 0 && found.state == CUBLAS_STATUS_SUCCESS;
    plan->algo = found.algo;
    plan->workspace = plan->possible ? found.workspaceSize : 0;
}

static syn_status make_plan(syn__plan *plan, const syn_call *c, const syn__product *p) {
    const syn__cuda_blas *own = &syn__cuda_of(c)->device->blas;
    cublasLtMatmulPreference_t how;
    SYN_TRY(describe(plan, p, own->tf32, c->err));
    SYN_CUBLAS(cublasLtMatmulPreferenceCreate(&how), "a description", c->err);
    const syn_status s = prefer(how, p, own->most_workspace, c->err);
    if (s == SYN_OK) choose(plan, how, c);
    cublasLtMatmulPreferenceDestroy(how);
    return s;
}

/* Returns the plan with that key, or a free entry for it. */
static syn__plan *place_of(syn__plan *plans, const plan_key *key) {
    const uint64_t hash = hash_of(key);
    for (uint64_t i = 0; i < NEIGHBOURS; i++) {
        syn__plan *plan = &plans[(hash + i) % PLANS];
        if (plan->key.of[0] == 0 || memcmp(&plan->key, key, sizeof *key) == 0) return plan;
    }
    free_plan(&plans[hash % PLANS]);
    return &plans[hash % PLANS];
}

/* Grows the workspace. Changes scratch_number, so that graphs that use the old workspace are not
   launched again. */
static syn_status grow_workspace(const syn_call *c, size_t bytes) {
    syn__cuda *d = syn__cuda_of(c)->device;
    syn__cuda_blas *own = &d->blas;
    if (bytes <= own->workspace_bytes) return SYN_OK;
    if (syn__graphs_capturing())
        return SYN_FAIL(c->err, SYN_E_UNSUPPORTED,
                        "cuBLASLt's workspace cannot grow inside a CUDA graph");
    d->scratch_number++;
    return syn__cuda_grow(d, &own->workspace, &own->workspace_bytes, bytes, bytes,
                          "cuBLASLt's workspace", c->err);
}

static syn_status plan_of(const syn_call *c, const syn__product *p, syn__plan **out) {
    syn__cuda_blas *own = &syn__cuda_of(c)->device->blas;
    const plan_key key = key_of(p);
    syn__plan *plan = *out = place_of(own->plans, &key);
    if (plan->key.of[0] != 0) return SYN_OK;
    syn_status s = make_plan(plan, c, p);
    if (s == SYN_OK) s = grow_workspace(c, plan->workspace);
    if (s == SYN_OK) plan->key = key;
    else free_plan(plan);
    return s;
}

/* ---- products ---- */

static bool matrix_fits(int64_t rows, int64_t columns, int64_t ld) {
    return rows > 0 && columns > 0 && rows <= INT32_MAX && columns <= INT32_MAX && ld >= columns;
}

/* Whether cuBLASLt supports the operands. A bias must be aligned to 16 bytes. */
static bool fits(const syn__product *p) {
    const bool tx = p->transpose_x, tw = p->transpose_w;
    return p->x_dtype == p->w_dtype && matrix_fits(p->m, p->n, p->n) &&
           matrix_fits(tx ? p->k : p->m, tx ? p->m : p->k, p->ldx) &&
           matrix_fits(tw ? p->n : p->k, tw ? p->k : p->n, p->ldw) &&
           (!p->bias || log_alignment(p->bias) >= 4);
}

syn_status syn__product_cublas(const syn_call *c, const syn__product *p, bool *done) {
    const syn__cuda_at *at = syn__cuda_of(c);
    const syn__cuda_blas *own = &at->device->blas;
    syn_error *err = c->err;
    syn__plan *plan;
    *done = fits(p);
    if (!*done) return SYN_OK;
    SYN_TRY(plan_of(c, p, &plan));
    *done = plan->possible;
    if (!*done) return SYN_OK;
    const float one = 1, kept = p->add ? 1.0f : 0.0f;
    if (p->bias) SET(cublasLtMatmulDescSetAttribute, plan->desc, MATMUL_DESC_BIAS_POINTER, p->bias);
    SYN_CUBLAS(cublasLtMatmul(at->lt, plan->desc, &one, p->w, plan->w, p->x, plan->x, &kept, p->out,
                              plan->out, p->out, plan->out, &plan->algo, own->workspace,
                              own->workspace_bytes, at->stream),
               "a product", err);
    syn__cuda_note_kernel(c, "cublasLt %s %lldx%lldx%lldx%lld %c%c",
                          syn_dtype_name((syn_dtype)p->x_dtype), (long long)p->batch,
                          (long long)p->m, (long long)p->n, (long long)p->k,
                          p->transpose_x ? 't' : 'n', p->transpose_w ? 't' : 'n');
    return SYN_OK;
}

/* ---- opening and closing ---- */

syn_status syn__cuda_blas_open(syn__cuda_blas *p, int capability, syn_error *err) {
    const char *tf32 = getenv("SYNTORCH_CUDA_TF32");
    p->tf32 = tf32 && strcmp(tf32, "1") == 0;
    p->most_workspace = (size_t)(capability >= 90 ? 32 : 8) << 20;
    p->plans = static_cast<syn__plan *>(syn_calloc(PLANS, sizeof *p->plans));
    return p->plans ? SYN_OK
                    : SYN_FAIL_NOMEM(err, PLANS * sizeof *p->plans, "matrix product plans");
}

void syn__cuda_blas_close(syn__cuda_blas *p) {
    for (int i = 0; p->plans && i < PLANS; i++) free_plan(&p->plans[i]);
    if (p->workspace) cudaFree(p->workspace);
    syn_free(p->plans);
}
