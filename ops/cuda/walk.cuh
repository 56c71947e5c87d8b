/* Iteration over the elements of operands that have one shape but different strides. */
#ifndef OPS_CUDA_WALK_CUH
#define OPS_CUDA_WALK_CUH

#include "ops/cuda/device.cuh"
#include "ops/cuda/divisor.h"

/* Maps the row-major number of an element to its offset in each of N operands. Dimensions of 1 are
   omitted, and adjacent dimensions are merged where the strides of all operands allow it. */
template <int N> struct syn_walk {
    int rank; /* at least 1; dims[rank - 1] is the innermost dimension */
    int64_t dims[SYN_MAX_RANK], strides[N][SYN_MAX_RANK];
    syn_divisor by[SYN_MAX_RANK];
};

/* Computes the offset of element `index` in each operand. */
template <int N>
static __device__ __forceinline__ void syn_walk_to(const syn_walk<N> &walk, int64_t index,
                                                   int64_t (&at)[N]) {
    for (int k = 0; k < N; k++) at[k] = 0;
    for (int d = walk.rank - 1; d > 0; d--) {
        const int64_t rest = syn_quotient(index, walk.by[d]), i = index - rest * walk.dims[d];
        for (int k = 0; k < N; k++) at[k] += i * walk.strides[k][d];
        index = rest;
    }
    for (int k = 0; k < N; k++) at[k] += index * walk.strides[k][0];
}

/* ---- construction, on the host ---- */

static inline int64_t syn_elems(const syn_spec *shape) {
    int64_t n = 1;
    for (int d = 0; d < shape->rank; d++) n *= shape->dims[d];
    return n;
}

/* Stride of `o`, which broadcasts to `shape`, in dimension d of `shape`. */
static inline int64_t syn_stride_in(const syn_operand *o, const syn_spec *shape, int d) {
    const int own = d - (shape->rank - o->spec.rank);
    return own < 0 || o->spec.dims[own] == 1 ? 0 : o->strides[own];
}

/* Adds a dimension inside the existing dimensions, and merges it with the innermost one if
   possible. Start with a walk that is all zero. */
template <int N>
static inline void syn_walk_add(syn_walk<N> *walk, int64_t dim, const int64_t (&strides)[N]) {
    if (dim == 1) return;
    bool joins = walk->rank > 0;
    for (int k = 0; k < N; k++)
        joins = joins && walk->strides[k][walk->rank - 1] == dim * strides[k];
    if (!joins) walk->dims[walk->rank++] = 1;
    walk->dims[walk->rank - 1] *= dim;
    for (int k = 0; k < N; k++) walk->strides[k][walk->rank - 1] = strides[k];
}

/* Call after the last dimension. Returns the number of elements. */
template <int N> static inline int64_t syn_walk_done(syn_walk<N> *walk) {
    int64_t n = 1;
    if (walk->rank == 0) {
        walk->dims[walk->rank++] = 1;
        for (int k = 0; k < N; k++) walk->strides[k][0] = 1;
    }
    for (int d = 0; d < walk->rank; d++) {
        walk->by[d] = syn_divisor_of(walk->dims[d]);
        n *= walk->dims[d];
    }
    return n;
}

/* A walk over `shape`, to which the operands broadcast, in the memory order of the first operand.
   Returns the number of elements. */
template <int N>
static inline int64_t syn_walk_over(syn_walk<N> *walk, const syn_spec *shape,
                                    const syn_operand *const (&operands)[N]) {
    int order[SYN_MAX_RANK];
    for (int d = 0; d < shape->rank; d++) {
        int at = d;
        const int64_t stride = syn_stride_in(operands[0], shape, d);
        for (; at > 0 && syn_stride_in(operands[0], shape, order[at - 1]) < stride; at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
    *walk = syn_walk<N>();
    for (int i = 0; i < shape->rank; i++) {
        int64_t strides[N];
        for (int k = 0; k < N; k++) strides[k] = syn_stride_in(operands[k], shape, order[i]);
        syn_walk_add(walk, shape->dims[order[i]], strides);
    }
    return syn_walk_done(walk);
}

/* Whether operand k, which begins at `data` and has `bytes` bytes per element, allows packs of n
   elements: either packs are aligned, or the innermost dimension is strided and elements are loaded
   one by one. */
template <int N>
static inline bool syn_walk_packs(const syn_walk<N> &walk, int k, const void *data, int bytes,
                                  int n) {
    const int last = walk.rank - 1;
    bool fits = walk.dims[last] % n == 0;
    if (walk.strides[k][last] != 1) return fits;
    for (int d = 0; d < last; d++) fits = fits && walk.strides[k][d] % n == 0;
    return fits && reinterpret_cast<uintptr_t>(data) % (uintptr_t)(n * bytes) == 0;
}

/* Converts a walk over elements to a walk over packs of n elements. */
template <int N> static inline void syn_walk_pack(syn_walk<N> *walk, int n) {
    const int last = walk->rank - 1;
    walk->dims[last] /= n;
    walk->by[last] = syn_divisor_of(walk->dims[last]);
    for (int k = 0; k < N; k++) walk->strides[k][last] *= n;
}

/* ---- copies ---- */

/* Copies the elements of `from` to `to`, of the same shape and dtype; writes zeros if `from` is
   NULL. */
void syn__cuda_copy(const syn_call *c, const syn_operand *to, const syn_operand *from);

#endif
