/* Op builders. Each records a row and, unless on meta, computes; after a failure in the context
   each returns the poisoned tensor. Letters: B batch, T tokens now, S tokens in all (context), C
   width, H heads, D = C/H, V vocabulary. Inputs whose last dimension is not dense are copied first
   where the op needs it (a `contiguous` row), depending on shapes and strides alone. Floats are
   f32, f16 or bf16, those of a call of one type, which its results have; inside, an op computes in
   f32 and rounds once. f32 in any case are masks, losses and their weights, sums (syn_sum_to,
   square sums) and gradients' sums. */
#ifndef OPS_OPS_H
#define OPS_OPS_H

#include "syntorch/context.h"

SYN_API_BEGIN

/* The op table, indexed by syn_op: the rows of ops.def. */
extern const syn_opdef syn_op_table[SYN_OP_COUNT];

/* table (V, C) f32, f16 or bf16, ids (...) i32 -> (..., C). Row r of the table stands for id
   first_row + r; ids outside the table give zeros, so that an all-reduce over shards
   completes the lookup. */
syn_tensor syn_embedding(syn_ctx *ctx, syn_tensor table, syn_tensor ids, int64_t first_row);
/* The same; the row of id `padding` gets no gradient (torch.nn.Embedding's padding_idx). < 0: all
   do. */
syn_tensor syn_embedding_padded(syn_ctx *ctx, syn_tensor table, syn_tensor ids, int64_t first_row,
                                int64_t padding);
/* x (..., C), weight (C), bias (C) -> (..., C): (x - mean) / sqrt(variance + eps) *
   weight + bias. */
syn_tensor syn_layernorm(syn_ctx *ctx, syn_tensor x, syn_tensor weight, syn_tensor bias,
                         double eps);
/* x (..., C), weight (C) -> (..., C): x / sqrt(mean(x^2) + eps) * weight (Zhang and Sennrich
   2019). */
syn_tensor syn_rmsnorm(syn_ctx *ctx, syn_tensor x, syn_tensor weight, double eps);
/* x (B, H, T, D), positions (B, T) or (1, T) i32, frequencies (R/2) f32 -> (B, H, T, D): rotary
   position embedding (Su et al. 2021). Of each head the first R elements, R <= D even, are turned,
   the others stay: elements i and i + R/2 as one point of the plane, by the angle position *
   frequency i, which is rounded to f32 and should stay below 2^20; then they are multiplied by
   `factor` (yarn; 1). */
syn_tensor syn_rope(syn_ctx *ctx, syn_tensor x, syn_tensor positions, syn_tensor frequencies,
                    double factor);
/* x (..., K), w (K, N) (or (N, K) when transpose_w), bias (N) or poisoned for none -> (..., N). All
   of x's dtype; w also 16 bits wide where x is f32. */
#define SYN_NO_BIAS (SYN_LITERAL(syn_tensor){0, 0})
syn_tensor syn_linear(syn_ctx *ctx, syn_tensor x, syn_tensor w, syn_tensor bias, bool transpose_w);
/* a (..., M, K), b (..., K, N) of one dtype with equal leading dimensions -> (..., M, N);
   transposes swap the last two dimensions. */
syn_tensor syn_matmul(syn_ctx *ctx, syn_tensor a, syn_tensor b, bool transpose_a, bool transpose_b);

/* 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) (GPT-2's gelu_new), or 0.5 x (1 + erf(x
   / sqrt 2)). */
syn_tensor syn_gelu(syn_ctx *ctx, syn_tensor x, bool tanh_form);
syn_tensor syn_tanh(syn_ctx *ctx, syn_tensor x);
/* x / (1 + exp(-x)) */
syn_tensor syn_silu(syn_ctx *ctx, syn_tensor x);
/* silu(gate) * up, of one shape (Shazeer 2020). */
syn_tensor syn_swiglu(syn_ctx *ctx, syn_tensor gate, syn_tensor up);
/* With broadcasting as in NumPy: dimensions align at the end, 1 stretches. */
syn_tensor syn_add(syn_ctx *ctx, syn_tensor a, syn_tensor b);
syn_tensor syn_mul(syn_ctx *ctx, syn_tensor a, syn_tensor b);
syn_tensor syn_scale(syn_ctx *ctx, syn_tensor x, double factor);
/* x (B, ..., C): zeroes an element with probability p and divides the others by 1 - p. The decision
   is a function of the seed, the sample's key and the element's place within its sample, so that it
   does not matter which rank has which samples, or which part of them. keys (B) i32; poisoned:
   `sample` + the index in the batch. */
typedef struct syn_dropping {
    double p;      /* in [0, 1) */
    uint64_t seed; /* of this place in the model */
    int64_t sample;
    /* Where x begins, if it is a shard: rows of C elements that come before it in the whole sample,
       and columns (before its C; to 2^32). Heads after the first h of (B, H, T, S): h * T rows. */
    int64_t row, column;
} syn_dropping;
#define SYN_NO_KEYS (SYN_LITERAL(syn_tensor){0, 0})
syn_tensor syn_dropout(syn_ctx *ctx, syn_tensor x, syn_tensor keys, const syn_dropping *how);

/* scores (..., T, S): score * scale; causal: entries with column > row + offset become -infinity
   (offset = S - T with a KV cache). mask (B, S) f32 for scores (B, H, T, S) is added to the scores
   of every head and query of its sequence (padding: 0 where a key counts, -infinity where not), or
   is poisoned for none. */
#define SYN_NO_MASK (SYN_LITERAL(syn_tensor){0, 0})
syn_tensor syn_scale_mask(syn_ctx *ctx, syn_tensor scores, syn_tensor mask, double scale,
                          bool causal, int64_t offset);
/* The same, causal, with a window: see syn_attention_window. */
syn_tensor syn_scale_mask_window(syn_ctx *ctx, syn_tensor scores, syn_tensor mask, double scale,
                                 int64_t offset, int64_t window);
/* Over the last dimension; a row of -infinity gives zeros. */
syn_tensor syn_softmax(syn_ctx *ctx, syn_tensor x);
/* q (B, H, T, D), k and v (B, G, S, D) -> (B, H, T, D): softmax(mask(scale q k')) v as one op, mask
   as for syn_scale_mask. G divides H, and each head of k and v serves the H/G consecutive heads of
   q. A query that sees no key gives zeros. */
syn_tensor syn_attention(syn_ctx *ctx, syn_tensor q, syn_tensor k, syn_tensor v, syn_tensor mask,
                         double scale, bool causal, int64_t offset);
/* The same, causal, where a query sees itself and the window - 1 keys before it (Beltagy et al.
   2020; Mistral); 0: all. */
syn_tensor syn_attention_window(syn_ctx *ctx, syn_tensor q, syn_tensor k, syn_tensor v,
                                syn_tensor mask, double scale, int64_t offset, int64_t window);
/* The same for training, token by token, (B, T, H, D): what its gradient is computed from is kept,
   for each query one number beside the result. */
typedef struct syn_attention_how {
    syn_tensor mask; /* or poisoned, as for syn_attention */
    double scale;
    bool causal;
    int64_t offset, window; /* window: 0, or as for syn_attention_window */
    /* Dropout of the softmax: as syn_dropout of (B, H, T, S) with these. p 0: none. */
    syn_tensor keys;
    syn_dropping dropping;
} syn_attention_how;
syn_tensor syn_attention_train(syn_ctx *ctx, syn_tensor q, syn_tensor k, syn_tensor v,
                               const syn_attention_how *how);
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
/* x as f32, f16 or bf16, rounded to nearest (ties to even; beyond the largest to infinity); x
   itself if it has that type. */
syn_tensor syn_cast(syn_ctx *ctx, syn_tensor x, syn_dtype dtype);
/* Tensors equal but for dimension `axis`, 1 to 16 of them. */
syn_tensor syn_concat(syn_ctx *ctx, const syn_tensor *xs, int n, int axis);

/* ---- gradients' own ops; most gradients are the ops above ---- */

/* x summed over the dimensions that the shape, which broadcasts to x's, lacks or has as 1, in f32;
   x itself, of its type, if it has that shape. */
syn_tensor syn_sum_to(syn_ctx *ctx, syn_tensor x, const int64_t *dims, int rank);
/* A view: x repeated as it broadcasts to the shape; x itself if it has that shape. */
syn_tensor syn_expand(syn_ctx *ctx, syn_tensor x, const int64_t *dims, int rank);
/* Of ids (...) and dy (..., C) a table of `rows` rows: the sums of the rows of dy that looked each
   up, f32; as in syn_embedding_padded. The second adds to a table of f32: its new version. */
syn_tensor syn_embedding_grad(syn_ctx *ctx, syn_tensor ids, syn_tensor dy, int64_t first_row,
                              int64_t rows, int64_t padding);
syn_tensor syn_embedding_grad_add(syn_ctx *ctx, syn_tensor sum, syn_tensor ids, syn_tensor dy,
                                  int64_t first_row, int64_t padding);
/* sum, dense and f32, plus syn_matmul(a, b): its new version. */
syn_tensor syn_matmul_add(syn_ctx *ctx, syn_tensor sum, syn_tensor a, syn_tensor b,
                          bool transpose_a, bool transpose_b);

/* Losses. */

/* logits (..., V), of which the first `classes` columns count, and targets (...) i32, each a class
   or SYN_IGNORED_TARGET -> weight times the sum of -log softmax(logits)[target] over the targets
   that are not ignored; weight (one number) poisoned: 1 / how many those are, the mean. A scalar.
   The logits are overwritten with the gradient that the loss gives them. */
enum { SYN_IGNORED_TARGET = -100 };
#define SYN_MEAN (SYN_LITERAL(syn_tensor){0, 0})
syn_tensor syn_cross_entropy(syn_ctx *ctx, syn_tensor logits, syn_tensor targets, syn_tensor weight,
                             int64_t classes);

/* Optimizer. Lists have at most SYN_MAX_LIST tensors, f32, but for parameters, and dense. */

/* The sum of the squares of all elements: a scalar. */
syn_tensor syn_square_sum(syn_ctx *ctx, const syn_tensor *xs, int n);
/* Of the square sum of all gradients their norm, and min(1, max_norm / (norm + 1e-6)); max_norm 0:
   1. */
syn_tensor syn_clip_factor(syn_ctx *ctx, syn_tensor squares, double max_norm, syn_tensor *norm);
/* AdamW (Loshchilov and Hutter 2019) of n parameters, which become their new versions, as do the
   moments m and v: of all elements, one parameter behind the other. `decayed`: bit i if parameter
   i decays. rates (3): learning rate, learning rate / (1 - beta1^t), 1 / sqrt(1 - beta2^t) for step
   t from 1. Gradients are multiplied by `scale` (one number); where that is NaN or 0, as
   syn_clip_factor makes it of gradients that are not finite, nothing changes. Parameters of 16 bits
   become what their masters, f32 and laid out as the moments, are rounded to: these are updated;
   what the parameters hold is not read. */
typedef struct syn_adamw_call {
    syn_tensor *params;
    const syn_tensor *grads;
    int n;
    syn_tensor *m, *v;
    syn_tensor *masters; /* of parameters of f16 or bf16; NULL: parameters are f32 */
    syn_tensor rates, scale;
    double beta1, beta2, eps, weight_decay;
    int64_t decayed;
} syn_adamw_call;
void syn_adamw_step(syn_ctx *ctx, const syn_adamw_call *call);

/* The same where ranks of a group hold parts of the logits, (..., V/tp), of which the first
   `classes` columns stand for the classes from `first` on; targets, weight and the loss are the
   same on all ranks. Three all-reduces of a number a target (Shoeybi et al. 2019, sec. 3): largest
   logit, sum of exponentials, logit of the target. */
syn_tensor syn_cross_entropy_parts(syn_ctx *ctx, syn_tensor logits, syn_tensor targets,
                                   syn_tensor weight, int64_t classes, int64_t first,
                                   const syn_group *group);

/* x (..., V) -> (...) i32: index of the largest, the lowest of equals. */
syn_tensor syn_argmax(syn_ctx *ctx, syn_tensor x);
/* x (..., V) -> values (..., k) descending and indices (..., k) i32; of equals the
   lowest index first. */
syn_tensor syn_top_k(syn_ctx *ctx, syn_tensor x, int64_t k, syn_tensor *indices);
/* logits (B, V), seen (B, N) i32 -> (B, V): of each token that is among its row's `seen`, once or
   more often, a logit below 0 is multiplied with the penalty and another divided by it. Ids below
   0 stand for nothing; others that are none of V fail. The penalty is a finite number above 0. */
syn_tensor syn_repetition_penalty(syn_ctx *ctx, syn_tensor logits, syn_tensor seen, double penalty);
/* logits (B, V) -> (B) i32. temperature 0: argmax. Else softmax(logits / temperature), cut to the
   top_k likeliest (0: all), then to the smallest set whose probability reaches top_p (1: all), then
   to those at least min_p times as likely as the likeliest (0: all), sampled with a number that is
   a function of (seed, step, row). */
typedef struct syn_sampling {
    double temperature; /* finite, >= 0 */
    int64_t top_k;      /* >= 0 */
    double top_p;       /* in (0, 1] */
    uint64_t seed;
    double min_p; /* in [0, 1] */
} syn_sampling;
syn_tensor syn_sample(syn_ctx *ctx, syn_tensor logits, const syn_sampling *how, int64_t step);

/* Collectives over the ranks of a group (of more than one rank). Counts are taken from the shapes,
   which must agree on all ranks. */
syn_tensor syn_all_reduce(syn_ctx *ctx, syn_tensor x, syn_reduce reduce, const syn_group *group);
/* Several in one, each in place of its tensor, which becomes its new version: at most SYN_MAX_LIST,
   of one type. */
void syn_all_reduce_coalesced(syn_ctx *ctx, syn_tensor *xs, int n, syn_reduce reduce,
                              const syn_group *group);
/* Dimension `axis` becomes size times as long, ranks in group order. */
syn_tensor syn_all_gather(syn_ctx *ctx, syn_tensor x, int axis, const syn_group *group);
/* Dimension `axis` is cut into size parts; this rank gets the reduction of its part. */
syn_tensor syn_reduce_scatter(syn_ctx *ctx, syn_tensor x, syn_reduce reduce, int axis,
                              const syn_group *group);
/* root: index within the group. Every rank gives a tensor of the shape; only the
   root's contents count. */
syn_tensor syn_broadcast(syn_ctx *ctx, syn_tensor x, int root, const syn_group *group);
void syn_broadcast_coalesced(syn_ctx *ctx, syn_tensor *xs, int n, int root, const syn_group *group);
/* peer: global rank. tag >= 0. */
void syn_send(syn_ctx *ctx, syn_tensor x, int32_t peer, int32_t tag);
syn_tensor syn_recv(syn_ctx *ctx, const syn_spec *spec, int32_t peer, int32_t tag);
void syn_barrier(syn_ctx *ctx, const syn_group *group);

SYN_API_END
#endif
