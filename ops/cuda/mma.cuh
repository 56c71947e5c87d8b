/* Products of small matrices on tensor cores, and asynchronous copies to shared memory. With
   SYN_EMULATED, ordinary code computes the same products from the lanes' registers.

   The PTX ISA defines how a warp's registers hold a matrix: "Matrix Fragments for mma.m16n8k16
   with floating point type" and "ldmatrix". With g = lane / 4 and t = lane % 4:
   A (16, 16): registers 0..3 have rows g, g + 8, g, g + 8 and columns 2t, 2t, 2t + 8, 2t + 8;
   B (16, 8): registers 0 and 1 have rows 2t and 2t + 8 and column g;
   C (16, 8): elements 0..3 are (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1).
   A 32-bit register has two elements: a register of A has the given column and the next one, a
   register of B the given row and the next one. */
#ifndef OPS_CUDA_MMA_CUH
#define OPS_CUDA_MMA_CUH

#include "ops/cuda/device.cuh"

static __device__ __forceinline__ unsigned syn_bits(__half x) {
    return __half_as_ushort(x);
}
static __device__ __forceinline__ unsigned syn_bits(__nv_bfloat16 x) {
    return __bfloat16_as_ushort(x);
}
/* Two elements in one register. */
template <typename T> static __device__ __forceinline__ unsigned syn_two(float x, float y) {
    return syn_bits(syn_from_float<T>(x)) | syn_bits(syn_from_float<T>(y)) << 16;
}

#ifdef SYN_EMULATED

/* Gives each lane access to the data of all lanes of its warp: `of` has the lanes' pointers. The
   destructor waits for all lanes. */
template <typename P> struct syn_lanes {
    const P *of[SYN_WARP];
    explicit syn_lanes(const P *mine) { emulated_gather(SYN_ALL_LANES, &mine, sizeof mine, of); }
    ~syn_lanes() { __syncwarp(); }
};
struct syn_registers { /* elements of the registers as floats */
    float a[4][2], b[2][2];
};

static inline void syn_emulated_matrices(unsigned (&to)[4], const void *row, bool transposed) {
    const unsigned short *mine = static_cast<const unsigned short *>(row);
    emulated_align(row, 16);
    const syn_lanes<unsigned short> lanes(mine);
    const int g = emulated_lane() / 4, t = emulated_lane() % 4;
    for (int m = 0; m < 4; m++) {
        const unsigned short *const *rows = lanes.of + 8 * m;
        to[m] = transposed ? rows[2 * t][g] | (unsigned)rows[2 * t + 1][g] << 16
                       : rows[g][2 * t] | (unsigned)rows[g][2 * t + 1] << 16;
    }
}
template <typename T> static inline float syn_half_of(unsigned two, int i);
template <> inline float syn_half_of<__half>(unsigned two, int i) {
    return __half2float(__ushort_as_half((unsigned short)(two >> 16 * i)));
}
template <> inline float syn_half_of<__nv_bfloat16>(unsigned two, int i) {
    return __bfloat162float(__ushort_as_bfloat16((unsigned short)(two >> 16 * i)));
}

static inline void syn_load_matrices(unsigned (&to)[4], const void *row) {
    syn_emulated_matrices(to, row, false);
}
static inline void syn_load_transposed(unsigned (&to)[4], const void *row) {
    syn_emulated_matrices(to, row, true);
}
template <typename T>
static inline void syn_mma(float &c0, float &c1, float &c2, float &c3, const unsigned (&a)[4],
                           unsigned b0, unsigned b1) {
    syn_registers mine;
    if (!std::is_same<T, __half>::value) emulated_compiled_for(80);
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < 4; i++) mine.a[i][k] = syn_half_of<T>(a[i], k);
        mine.b[0][k] = syn_half_of<T>(b0, k);
        mine.b[1][k] = syn_half_of<T>(b1, k);
    }
    const syn_lanes<syn_registers> lanes(&mine);
    const int g = emulated_lane() / 4, t = emulated_lane() % 4;
    float *const c[4] = {&c0, &c1, &c2, &c3};
    for (int i = 0; i < 4; i++) {
        const int column = 2 * t + i % 2;
        float sum = 0;
        for (int k = 0; k < 16; k++)
            sum += lanes.of[4 * g + k % 8 / 2]->a[i / 2 + 2 * (k / 8)][k % 2] *
                   lanes.of[4 * column + k % 8 / 2]->b[k / 8][k % 2];
        *c[i] += sum;
    }
}
static inline float syn_exp2(float x) {
    return exp2f(x);
}
static inline void syn_copy_16(void *to, const void *from) {
    emulated_align(to, 16);
    emulated_align(from, 16);
    emulated_copy_async(to, from, 16);
}
static inline void syn_copy_commit() {
    emulated_copies_commit();
}
template <int LEFT> static inline void syn_copy_wait() {
    emulated_copies_wait(LEFT);
}

#else

static __device__ __forceinline__ unsigned syn_shared_address(const void *p) {
    return (unsigned)__cvta_generic_to_shared(p);
}

/* Loads four 8 x 8 matrices from shared memory. Lane i passes the address of row i % 8 of matrix i
   / 8, which must be aligned to 16 bytes. From each matrix, a lane gets elements 2t and 2t + 1 of
   row g. */
static __device__ __forceinline__ void syn_load_matrices(unsigned (&to)[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(syn_shared_address(row))
                 : "memory");
}
/* The same with transposition: a lane gets element g of rows 2t and 2t + 1. */
static __device__ __forceinline__ void syn_load_transposed(unsigned (&to)[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(syn_shared_address(row))
                 : "memory");
}

#if __CUDA_ARCH__ >= 800
#define SYN_MMA(type)                                                              \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 "    \
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                 : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)                          \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
#else /* compute capability below 8.0: f16 only, and half the depth per instruction */
#define SYN_MMA_8(a0, a1, b)                                           \
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "   \
                 "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};" \
                 : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)              \
                 : "r"(a0), "r"(a1), "r"(b))
#endif

/* C += A B, with f32 sums. bf16 requires compute capability 8.0. */
template <typename T>
static __device__ __forceinline__ void syn_mma(float &c0, float &c1, float &c2, float &c3,
                                               const unsigned (&a)[4], unsigned b0, unsigned b1);
template <>
__device__ __forceinline__ void syn_mma<__half>(float &c0, float &c1, float &c2, float &c3,
                                                const unsigned (&a)[4], unsigned b0, unsigned b1) {
#if __CUDA_ARCH__ >= 800
    SYN_MMA("f16");
#else
    SYN_MMA_8(a[0], a[1], b0);
    SYN_MMA_8(a[2], a[3], b1);
#endif
}
template <>
__device__ __forceinline__ void syn_mma<__nv_bfloat16>(float &c0, float &c1, float &c2, float &c3,
                                                       const unsigned (&a)[4], unsigned b0,
                                                       unsigned b1) {
#if __CUDA_ARCH__ >= 800
    SYN_MMA("bf16");
#else
    __trap();
#endif
}

/* 2^x with a relative error of 2^-22; results below 2^-126 become 0. */
static __device__ __forceinline__ float syn_exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Starts copying 16 bytes to shared memory. The data is valid after syn_copy_wait and a
   barrier. */
static __device__ __forceinline__ void syn_copy_16(void *to, const void *from) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(syn_shared_address(to)),
                 "l"(from)
                 : "memory");
#else
    *static_cast<uint4 *>(to) = *static_cast<const uint4 *>(from);
#endif
}
/* Ends a batch of copies. */
static __device__ __forceinline__ void syn_copy_commit() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
/* Waits for all batches except the last LEFT. */
template <int LEFT> static __device__ __forceinline__ void syn_copy_wait() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
#endif
}

#endif

#endif
