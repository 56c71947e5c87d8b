/* Measures the limits of a CUDA device for bench_cuda. It uses none of our code. For each input
   line it prints a number:

   - "T M N K", where T is bf16 or f32: the TFLOP/s of cuBLASLt's product of row-major M x K by
     K x N, with its fastest algorithm.
   - "copy BYTES": the GB/s of a copy within the device. Bytes that are read and bytes that are
     written are counted.
   - "peer BYTES": the GB/s of a copy from the first device to the second.
   - "all_reduce BYTES N": the GB/s that NCCL's sum of bf16 on N devices sends over each link; 0 if
     built without NCCL. */
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef SYN_HAVE_NCCL
#include <nccl.h>
#endif

#define CHECK(expr)                                             \
    do {                                                        \
        if ((expr) != 0) {                                      \
            fprintf(stderr, "cuda_limits: %s failed\n", #expr); \
            exit(1);                                            \
        }                                                       \
    } while (0)

enum { WARM = 3, TIMES = 10, CHOICES = 8, WORKSPACE = 32 << 20 };

static cudaStream_t stream;
static cublasLtHandle_t lt;
static cudaEvent_t begin, end;

static void *buffer(size_t bytes) {
    void *data;
    CHECK(cudaMalloc(&data, bytes));
    return data;
}

static double milliseconds() {
    float ms = 0;
    CHECK(cudaEventSynchronize(end));
    CHECK(cudaEventElapsedTime(&ms, begin, end));
    return ms;
}

static double copy_rate(size_t bytes) {
    void *from = buffer(bytes), *to = buffer(bytes);
    for (int i = 0; i < WARM + TIMES; i++) {
        if (i == WARM) CHECK(cudaEventRecord(begin, stream));
        CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
    }
    CHECK(cudaEventRecord(end, stream));
    const double rate = 2.0 * (double)bytes * TIMES / milliseconds() / 1e6;
    cudaFree(from);
    cudaFree(to);
    return rate;
}

static double now_s() {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double peer_rate(size_t bytes) {
    void *from = buffer(bytes), *to;
    CHECK(cudaSetDevice(1));
    to = buffer(bytes);
    if (cudaDeviceEnablePeerAccess(0, 0) != cudaSuccess) cudaGetLastError();
    CHECK(cudaSetDevice(0));
    if (cudaDeviceEnablePeerAccess(1, 0) != cudaSuccess) cudaGetLastError();
    for (int i = 0; i < WARM + TIMES; i++) {
        if (i == WARM) CHECK(cudaEventRecord(begin, stream));
        CHECK(cudaMemcpyPeerAsync(to, 1, from, 0, bytes, stream));
    }
    CHECK(cudaEventRecord(end, stream));
    const double rate = (double)bytes * TIMES / milliseconds() / 1e6;
    cudaFree(from);
    cudaFree(to);
    return rate;
}

/* The seconds are measured on the host, like those of our steps. */
static double all_reduce_rate(size_t bytes, int n) {
#ifdef SYN_HAVE_NCCL
    enum { MOST = 64 };
    static ncclComm_t comms[MOST]; /* created once */
    static cudaStream_t streams[MOST];
    void *data[MOST];
    double started = 0;
    if (n > MOST) return 0;
    for (int i = 0; i < n; i++) {
        CHECK(cudaSetDevice(i));
        if (!streams[i]) CHECK(cudaStreamCreate(&streams[i]));
        data[i] = buffer(bytes);
        CHECK(cudaMemset(data[i], 0, bytes));
    }
    if (!comms[0]) CHECK(ncclCommInitAll(comms, n, NULL));
    for (int t = 0; t <= WARM + TIMES; t++) {
        if (t == WARM || t == WARM + TIMES)
            for (int i = 0; i < n; i++) CHECK(cudaStreamSynchronize(streams[i]));
        if (t == WARM) started = now_s();
        if (t == WARM + TIMES) break;
        CHECK(ncclGroupStart());
        for (int i = 0; i < n; i++)
            CHECK(ncclAllReduce(data[i], data[i], bytes / 2, ncclBfloat16, ncclSum, comms[i],
                                streams[i]));
        CHECK(ncclGroupEnd());
    }
    const double seconds = (now_s() - started) / TIMES;
    for (int i = 0; i < n; i++) cudaFree(data[i]);
    CHECK(cudaSetDevice(0));
    return 2.0 * (n - 1) / n * (double)bytes / seconds / 1e9;
#else
    return 0 * (double)bytes * n;
#endif
}

/* Numbers without a pattern, because zeros are multiplied faster. */
template <typename T> __global__ void fill(T *data, long long n) {
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        unsigned x = (unsigned)i * 2654435761u;
        x = (x ^ (x >> 15)) * 2246822519u;
        data[i] = (T)((float)(x >> 8) / 8388608.0f - 1.0f);
    }
}

template <typename T> static void *filled(long long n) {
    T *data = (T *)buffer((size_t)n * sizeof(T));
    fill<<<1024, 256, 0, stream>>>(data, n);
    return data;
}

static double product_rate(bool half, long long m, long long n, long long k) {
    const cudaDataType_t type = half ? CUDA_R_16BF : CUDA_R_32F;
    void *x = half ? filled<__nv_bfloat16>(m * k) : filled<float>(m * k);
    void *w = half ? filled<__nv_bfloat16>(k * n) : filled<float>(k * n);
    void *y = buffer((size_t)(m * n) * (half ? 2 : 4)), *space = buffer(WORKSPACE);
    cublasLtMatmulDesc_t how;
    cublasLtMatrixLayout_t lw, lx, ly;
    cublasLtMatmulPreference_t wish;
    size_t bytes = WORKSPACE;
    cublasLtMatmulHeuristicResult_t found[CHOICES];
    int n_found = 0;
    const float one = 1, zero = 0;
    CHECK(cublasLtMatmulDescCreate(&how, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    CHECK(cublasLtMatrixLayoutCreate(&lw, type, n, k, n));
    CHECK(cublasLtMatrixLayoutCreate(&lx, type, k, m, k));
    CHECK(cublasLtMatrixLayoutCreate(&ly, type, n, m, n));
    CHECK(cublasLtMatmulPreferenceCreate(&wish));
    CHECK(cublasLtMatmulPreferenceSetAttribute(wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                               &bytes, sizeof bytes));
    CHECK(cublasLtMatmulAlgoGetHeuristic(lt, how, lw, lx, ly, ly, wish, CHOICES, found, &n_found));
    double best = 0;
    for (int c = 0; c < n_found; c++) {
        for (int i = 0; i < WARM + TIMES; i++) {
            if (i == WARM) CHECK(cudaEventRecord(begin, stream));
            CHECK(cublasLtMatmul(lt, how, &one, w, lw, x, lx, &zero, y, ly, y, ly, &found[c].algo,
                                 space, WORKSPACE, stream));
        }
        CHECK(cudaEventRecord(end, stream));
        const double rate = 2.0 * (double)m * (double)n * (double)k * TIMES / milliseconds() / 1e9;
        if (rate > best) best = rate;
    }
    cublasLtMatmulPreferenceDestroy(wish);
    cublasLtMatrixLayoutDestroy(lw);
    cublasLtMatrixLayoutDestroy(lx);
    cublasLtMatrixLayoutDestroy(ly);
    cublasLtMatmulDescDestroy(how);
    void *const all[] = {x, w, y, space};
    for (void *data : all) cudaFree(data);
    return best;
}

int main() {
    char text[256], type[16];
    long long m, n, k;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cublasLtCreate(&lt));
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    while (fgets(text, sizeof text, stdin)) {
        if (sscanf(text, "copy %lld", &n) == 1) printf("%.6g\n", copy_rate((size_t)n));
        else if (sscanf(text, "peer %lld", &n) == 1) printf("%.6g\n", peer_rate((size_t)n));
        else if (sscanf(text, "all_reduce %lld %lld", &n, &m) == 2)
            printf("%.6g\n", all_reduce_rate((size_t)n, (int)m));
        else if (sscanf(text, "%15s %lld %lld %lld", type, &m, &n, &k) == 4)
            printf("%.6g\n", product_rate(strcmp(type, "bf16") == 0, m, n, k));
        else return 1;
        fflush(stdout);
    }
    return 0;
}
