/* Element types, shapes, shards, phases and kinds of communication, shared by all parts. */
#ifndef SYNTORCH_TYPES_H
#define SYNTORCH_TYPES_H

#include "syntorch/base/status.h"

SYN_API_BEGIN

#define SYN_MAX_RANK    6    /* dimensions of a tensor */
#define SYN_MAX_INPUTS  1001 /* inputs of an op */
#define SYN_MAX_OUTPUTS 1000
#define SYN_MAX_LIST    1000 /* tensors in a list that a collective accepts */
#define SYN_MAX_PARAMS  60   /* tensors in a list that an op of the optimizer accepts */
#define SYN_MAX_ATTRS   (4 + SYN_MAX_RANK) /* attributes of an op; each entry of a shape counts */
#define SYN_MAX_WORLD   (1 << 24)          /* ranks of a trace file */
/* Maximum size of a scope's or tensor's name in bytes, including the NUL. Longer scopes are an
   error; longer tensor names are cut. */
#define SYN_MAX_NAME 512

/* id, name in files, bytes per element */
#define SYN_DTYPE_LIST(X)        \
    X(F32, "f32", sizeof(float)) \
    X(F16, "f16", 2)             \
    X(BF16, "bf16", 2)           \
    X(I32, "i32", 4)             \
    X(I64, "i64", 8)

typedef enum syn_dtype {
#define SYN_X(id, name, bytes) SYN_##id,
    SYN_DTYPE_LIST(SYN_X)
#undef SYN_X
        SYN_DTYPE_COUNT
} syn_dtype;

/* The name in files ("f32") and the bytes per element; "?" and 0 if dtype is invalid.
   syn_dtype_parse returns false if no dtype has the name. */
const char *syn_dtype_name(syn_dtype dtype);
size_t syn_dtype_bytes(syn_dtype dtype);
bool syn_dtype_parse(const char *name, syn_dtype *out);

/* Element type and shape. dims[rank], dims[rank + 1], ... are 0, so that equal specs have equal
   bytes. A spec of rank 0 is a scalar. */
typedef struct syn_spec {
    int32_t dtype; /* syn_dtype */
    int32_t rank;
    int64_t dims[SYN_MAX_RANK];
} syn_spec;

/* The number of elements, and of bytes. The spec must be valid (syn_spec_valid); specs in a trace
   are checked when they are added. */
int64_t syn_spec_elems(const syn_spec *spec);
uint64_t syn_spec_bytes(const syn_spec *spec);
/* False if a dimension is negative, or if the number of elements or bytes overflows int64. */
bool syn_spec_valid(const syn_spec *spec);
bool syn_spec_equal(const syn_spec *a, const syn_spec *b);
/* Writes "f32[2,8,64]" to buf and returns buf. The text is cut if buf is too small. */
char *syn_spec_text(const syn_spec *spec, char *buf, size_t buf_bytes);
#define SYN_SPEC_TEXT 128 /* a buffer this long always suffices */

/* The shard of a tensor that a rank has. Dimension `axis` consists of `parts` equal blocks (3 for a
   fused q, k, v; otherwise 1). Each block is divided into `count` equal pieces, and the rank has
   piece number `index` of each block. count 1: the rank has the whole tensor.
   ranges above 1: dimension 0, which is not `axis`, is divided first, and the rank has range number
   `range` of it. The tensor is then divided into ranges * count shards. */
typedef struct syn_shard {
    int axis, parts, index, count;
    int range, ranges; /* ranges 0: 1 */
} syn_shard;
#define SYN_SHARD(axis_, parts_, index_, count_) \
    (SYN_LITERAL(syn_shard){axis_, parts_, index_, count_, 0, 0})
#define SYN_WHOLE SYN_SHARD(0, 1, 0, 1)
/* The number of shards that a tensor is divided into, and the number of this one. */
static inline int64_t syn_shard_count(const syn_shard *shard) {
    return (int64_t)shard->count * (shard->ranges > 1 ? shard->ranges : 1);
}
static inline int64_t syn_shard_number(const syn_shard *shard) {
    return (int64_t)shard->range * shard->count + shard->index;
}
/* The shape of the range of dimension 0 that contains the shard, and that of the shard. */
syn_spec syn_shard_range(const syn_spec *full, const syn_shard *shard);
syn_spec syn_shard_spec(const syn_spec *full, const syn_shard *shard);
/* Describes a shard whose shape is `local`: "columns 0-63 of 128", or with three blocks "columns
   0-63 of 128, 3 times"; "" for a whole tensor. Writes the text to buf and returns buf. The text is
   cut if buf is too small. */
char *syn_shard_text(const syn_spec *local, const syn_shard *shard, char *buf, size_t buf_bytes);
#define SYN_SHARD_TEXT 128 /* a buffer this long always suffices */

/* The part of a program that a node belongs to. */
#define SYN_PHASE_LIST(X)     \
    X(FORWARD, "forward")     \
    X(PREFILL, "prefill")     \
    X(DECODE, "decode")       \
    X(BACKWARD, "backward")   \
    X(OPTIMIZER, "optimizer") \
    X(RECOMPUTE, "recompute")

typedef enum syn_phase {
#define SYN_X(id, name) SYN_PHASE_##id,
    SYN_PHASE_LIST(SYN_X)
#undef SYN_X
        SYN_PHASE_COUNT
} syn_phase;

const char *syn_phase_name(syn_phase phase);

/* Reductions of collectives. */
#define SYN_REDUCE_LIST(X) X(SUM, "sum") X(AVG, "avg") X(MIN, "min") X(MAX, "max") X(PROD, "prod")

typedef enum syn_reduce {
#define SYN_X(id, name) SYN_REDUCE_##id,
    SYN_REDUCE_LIST(SYN_X)
#undef SYN_X
        SYN_REDUCE_COUNT
} syn_reduce;

const char *syn_reduce_name(syn_reduce reduce);

/* Kinds of communication: id, name. */
#define SYN_COMM_KIND_LIST(X)                       \
    X(NONE, "none")                                 \
    X(ALL_REDUCE, "all_reduce")                     \
    X(REDUCE, "reduce")                             \
    X(ALL_GATHER, "all_gather")                     \
    X(GATHER, "gather")                             \
    X(SCATTER, "scatter")                           \
    X(BROADCAST, "broadcast")                       \
    X(ALL_TO_ALL, "all_to_all")                     \
    X(REDUCE_SCATTER, "reduce_scatter")             \
    X(REDUCE_SCATTER_BLOCK, "reduce_scatter_block") \
    X(BARRIER, "barrier")                           \
    X(SEND, "send")                                 \
    X(RECV, "recv")

typedef enum syn_comm_kind {
#define SYN_X(id, name) SYN_COMM_##id,
    SYN_COMM_KIND_LIST(SYN_X)
#undef SYN_X
        SYN_COMM_KIND_COUNT
} syn_comm_kind;

const char *syn_comm_kind_name(syn_comm_kind kind);

SYN_API_END
#endif
