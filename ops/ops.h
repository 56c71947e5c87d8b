/* Op builders. Each records a row and, unless on meta, computes; after a failure in the context
   each returns the poisoned tensor. Letters: B batch, T tokens now, S tokens in all (context), C
   width, H heads, D = C/H, V vocabulary. Inputs whose last dimension is not dense are copied first
   where the op needs it (a `contiguous` row), depending on shapes and strides alone. */
#ifndef OPS_OPS_H
#define OPS_OPS_H

#include "syntorch/context.h"

SYN_API_BEGIN

/* table (V, C) f32, f16 or bf16, ids (...) i32 -> (..., C). Row r of the table stands for id
   first_row + r; ids outside the table give zeros, so that an all-reduce over shards
   completes the lookup. */
syn_tensor syn_embedding(syn_ctx *ctx, syn_tensor table, syn_tensor ids, int64_t first_row);
/* x (..., C), weight (C), bias (C) -> (..., C): (x - mean) / sqrt(variance + eps) *
   weight + bias. */
syn_tensor syn_layernorm(syn_ctx *ctx, syn_tensor x, syn_tensor weight, syn_tensor bias,
                         double eps);
/* x (..., K), w (K, N) (or (N, K) when transpose_w) f32, f16 or bf16, bias (N) or poisoned for none
   -> (..., N). */
#define SYN_NO_BIAS (SYN_LITERAL(syn_tensor){0, 0})
syn_tensor syn_linear(syn_ctx *ctx, syn_tensor x, syn_tensor w, syn_tensor bias, bool transpose_w);
/* a (..., M, K), b (..., K, N) with equal leading dimensions -> (..., M, N); transposes swap the
   last two dimensions. */
syn_tensor syn_matmul(syn_ctx *ctx, syn_tensor a, syn_tensor b, bool transpose_a, bool transpose_b);

/* 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) (GPT-2's gelu_new), or 0.5 x (1 + erf(x
   / sqrt 2)). */
syn_tensor syn_gelu(syn_ctx *ctx, syn_tensor x, bool tanh_form);
syn_tensor syn_tanh(syn_ctx *ctx, syn_tensor x);
/* With broadcasting as in NumPy: dimensions align at the end, 1 stretches. */
syn_tensor syn_add(syn_ctx *ctx, syn_tensor a, syn_tensor b);
syn_tensor syn_mul(syn_ctx *ctx, syn_tensor a, syn_tensor b);
syn_tensor syn_scale(syn_ctx *ctx, syn_tensor x, double factor);
/* Zeroes an element with probability p in [0, 1) and divides the others by 1 - p. The decision is a
   function of seed and `first` + the element's index, so that shards of one tensor agree
   with the whole. */
syn_tensor syn_dropout(syn_ctx *ctx, syn_tensor x, double p, uint64_t seed, int64_t first);

/* scores (..., T, S): score * scale; causal: entries with column > row + offset become -infinity
   (offset = S - T with a KV cache). mask (B, S) f32 for scores (B, H, T, S) is added to the scores
   of every head and query of its sequence (padding: 0 where a key counts, -infinity where not), or
   is poisoned for none. */
#define SYN_NO_MASK (SYN_LITERAL(syn_tensor){0, 0})
syn_tensor syn_scale_mask(syn_ctx *ctx, syn_tensor scores, syn_tensor mask, double scale,
                          bool causal, int64_t offset);
/* Over the last dimension; a row of -infinity gives zeros. */
syn_tensor syn_softmax(syn_ctx *ctx, syn_tensor x);
/* q (B, H, T, D), k and v (B, G, S, D) -> (B, H, T, D): softmax(mask(scale q k')) v as one op, mask
   as for syn_scale_mask. G divides H, and each head of k and v serves the H/G consecutive heads of
   q. A query that sees no key gives zeros. */
syn_tensor syn_attention(syn_ctx *ctx, syn_tensor q, syn_tensor k, syn_tensor v, syn_tensor mask,
                         double scale, bool causal, int64_t offset);
/* cache (B, H, Smax, D) with x (B, H, T, D) written at rows position.. of its third dimension: a
   new version of the cache in the same storage. */
syn_tensor syn_kv_append(syn_ctx *ctx, syn_tensor cache, syn_tensor x, int64_t position);

/* Views: no data moves (reshape copies first where strides do not allow a view). One dimension of
   `dims` may be -1. */
syn_tensor syn_reshape(syn_ctx *ctx, syn_tensor x, const int64_t *dims, int rank);
/* Dimension i of the result is dimension order[i] of x. */
syn_tensor syn_permute(syn_ctx *ctx, syn_tensor x, const int *order, int rank);
syn_tensor syn_slice(syn_ctx *ctx, syn_tensor x, int axis, int64_t start, int64_t length);
/* Identity at the entrance of a tensor-parallel region (Megatron's f): its backward is an
   all-reduce over `group`, of more than one rank. */
syn_tensor syn_tp_enter(syn_ctx *ctx, syn_tensor x, const syn_group *group);
/* x itself if its elements lie without gaps in order, else a copy that does. */
syn_tensor syn_contiguous(syn_ctx *ctx, syn_tensor x);
/* Tensors equal but for dimension `axis`, 1 to SYN_MAX_INPUTS of them. */
syn_tensor syn_concat(syn_ctx *ctx, const syn_tensor *xs, int n, int axis);

/* x (..., V) -> (...) i32: index of the largest, the lowest of equals. */
syn_tensor syn_argmax(syn_ctx *ctx, syn_tensor x);
/* x (..., V) -> values (..., k) f32 descending and indices (..., k) i32; of equals the
   lowest index first. */
syn_tensor syn_top_k(syn_ctx *ctx, syn_tensor x, int64_t k, syn_tensor *indices);
/* logits (B, V) -> (B) i32. temperature 0: argmax. Else softmax(logits / temperature), cut to the
   top_k likeliest (0: all) and then to the smallest set whose probability reaches top_p (1: all),
   drawn with a number that is a function of (seed, step, row). */
typedef struct syn_sampling {
    double temperature; /* finite, >= 0 */
    int64_t top_k;      /* >= 0 */
    double top_p;       /* in (0, 1] */
    uint64_t seed;
} syn_sampling;
syn_tensor syn_sample(syn_ctx *ctx, syn_tensor logits, const syn_sampling *how, int64_t step);

/* Collectives over the ranks of a group (of more than one rank). Counts are taken from the shapes,
   which must agree on all ranks. */
syn_tensor syn_all_reduce(syn_ctx *ctx, syn_tensor x, syn_reduce reduce, const syn_group *group);
/* Dimension `axis` becomes size times as long, ranks in group order. */
syn_tensor syn_all_gather(syn_ctx *ctx, syn_tensor x, int axis, const syn_group *group);
/* Dimension `axis` is cut into size parts; this rank gets the reduction of its part. */
syn_tensor syn_reduce_scatter(syn_ctx *ctx, syn_tensor x, syn_reduce reduce, int axis,
                              const syn_group *group);
/* root: index within the group. Every rank gives a tensor of the shape; only the
   root's contents count. */
syn_tensor syn_broadcast(syn_ctx *ctx, syn_tensor x, int root, const syn_group *group);
/* peer: global rank. tag >= 0. */
void syn_send(syn_ctx *ctx, syn_tensor x, int32_t peer, int32_t tag);
syn_tensor syn_recv(syn_ctx *ctx, const syn_spec *spec, int32_t peer, int32_t tag);
void syn_barrier(syn_ctx *ctx, const syn_group *group);

SYN_API_END
#endif
