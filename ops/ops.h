/* Op builders. Each one checks its arguments, records a row in the trace and, except on meta,
   computes the result. Once the context has failed, every builder returns the invalid tensor and
   does nothing else.

   Shapes use these letters: B batch, T tokens that the call processes, S all tokens so far, C
   width, H heads, D head_dim, V vocabulary. (...) means any leading dimensions.

   Layout: if an op needs a dense last dimension, its builder first copies inputs that lack one,
   which adds a `contiguous` row. Whether it copies depends only on shapes and strides.

   Dtypes: "float" tensors are f32, f16 or bf16. The float inputs of one call have the same dtype,
   and so do its results. An op computes in f32 and rounds each result once. Masks, losses and their
   weights, sums (syn_sum_to, square sums) and accumulated gradients are always f32. */
#ifndef OPS_OPS_H
#define OPS_OPS_H

#include "syntorch/base/expert_choice.h"
#include "syntorch/context.h"

SYN_API_BEGIN

/* The op table, indexed by syn_op. Its rows come from ops.def. */
extern const syn_opdef syn_op_table[SYN_OP_COUNT];

/* table (V, C) float, ids (...) i32 -> (..., C). Row r of the table belongs to id first_row + r.
   Ids that are not in the table give zeros, so an all-reduce over the shards of a table completes
   the lookup. */
syn_tensor syn_embedding(syn_ctx *ctx, syn_tensor table, syn_tensor ids, int64_t first_row);
/* The same, but the row of id `padding` gets no gradient, as with torch.nn.Embedding's
   padding_idx. padding < 0: every row gets a gradient. */
syn_tensor syn_embedding_padded(syn_ctx *ctx, syn_tensor table, syn_tensor ids, int64_t first_row,
                                int64_t padding);
/* x (..., C), weight (C), bias (C) -> (..., C): (x - mean) / sqrt(variance + eps) * weight +
   bias. */
syn_tensor syn_layernorm(syn_ctx *ctx, syn_tensor x, syn_tensor weight, syn_tensor bias,
                         double eps);
/* x (..., C), weight (C) -> (..., C): x / sqrt(mean(x^2) + eps) * weight (Zhang and Sennrich
   2019). syn_rmsnorm_offset multiplies by weight + offset. */
syn_tensor syn_rmsnorm(syn_ctx *ctx, syn_tensor x, syn_tensor weight, double eps);
syn_tensor syn_rmsnorm_offset(syn_ctx *ctx, syn_tensor x, syn_tensor weight, double eps,
                              double offset);
/* Rotary position embedding (Su et al. 2021). x (B, H, T, D), positions (B, T) or (1, T) i32,
   frequencies (R/2) f32 -> (B, H, T, D). Rotates the first R elements of each head (R even, R <=
   D) and copies the others. Elements i and i + R/2 form a pair, which is rotated by position *
   frequency[i] and multiplied by `factor` (1, except for yarn). The angle is rounded to f32 and
   should stay below 2^20. */
syn_tensor syn_rope(syn_ctx *ctx, syn_tensor x, syn_tensor positions, syn_tensor frequencies,
                    double factor);
/* The same for elements first .. first + R - 1 of each head. interleaved: elements 2i and 2i + 1 of
   these, instead of i and i + R/2, form a pair, as in GPT-J and DeepSeek. */
syn_tensor syn_rope_at(syn_ctx *ctx, syn_tensor x, syn_tensor positions, syn_tensor frequencies,
                       double factor, int64_t first, bool interleaved);
/* x (..., K), w (K, N), or (N, K) if transpose_w, bias (N) or SYN_NO_BIAS -> (..., N). All have
   one dtype, except that w may be f16 or bf16 if x is f32. */
#define SYN_NO_BIAS (SYN_LITERAL(syn_tensor){0, 0})
syn_tensor syn_linear(syn_ctx *ctx, syn_tensor x, syn_tensor w, syn_tensor bias, bool transpose_w);
/* a (..., M, K), b (..., K, N) of one dtype and with equal leading dimensions -> (..., M, N).
   transpose_a: the last two dimensions of a are swapped, so a is (..., K, M). transpose_b: the same
   for b, (..., N, K). */
syn_tensor syn_matmul(syn_ctx *ctx, syn_tensor a, syn_tensor b, bool transpose_a, bool transpose_b);

/* tanh_form: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), GPT-2's gelu_new. Otherwise 0.5 x (1
   + erf(x / sqrt 2)). */
syn_tensor syn_gelu(syn_ctx *ctx, syn_tensor x, bool tanh_form);
syn_tensor syn_tanh(syn_ctx *ctx, syn_tensor x);
/* max(x, 0); NaN for NaN */
syn_tensor syn_relu(syn_ctx *ctx, syn_tensor x);
/* x / (1 + exp(-x)) */
syn_tensor syn_silu(syn_ctx *ctx, syn_tensor x);
/* silu(gate) * up, for two tensors of one shape (Shazeer 2020). */
syn_tensor syn_swiglu(syn_ctx *ctx, syn_tensor gate, syn_tensor up);
/* (u + 1) g sigmoid(alpha g), where g is gate, but at most `limit`, and u is up, clamped to
   [-limit, limit] (gpt-oss). */
syn_tensor syn_swiglu_clamped(syn_ctx *ctx, syn_tensor gate, syn_tensor up, double alpha,
                              double limit);
/* add and mul broadcast as NumPy does: shapes are aligned at their last dimension, and a dimension
   of 1 is repeated. */
syn_tensor syn_add(syn_ctx *ctx, syn_tensor a, syn_tensor b);
syn_tensor syn_mul(syn_ctx *ctx, syn_tensor a, syn_tensor b);
syn_tensor syn_scale(syn_ctx *ctx, syn_tensor x, double factor);
/* Dropout of x (B, ..., C): sets an element to zero with probability p and divides the others by
   1 - p. The choice depends only on the seed, the sample's key and the element's position within
   its sample, so it is the same for every distribution of samples and shards over ranks. keys: (B)
   i32, one key per sample. SYN_NO_KEYS: the key is how->sample + the sample's index in the
   batch. */
typedef struct syn_dropout_options {
    double p;      /* in [0, 1) */
    uint64_t seed; /* identifies this dropout in the model */
    int64_t sample;
    /* If x is a shard, its position within the full sample: the number of rows of C elements before
       it, and the number of columns before it (< 2^32). Otherwise 0. Example: a shard of (B, H, T,
       S) that starts at head h has row = h * T. */
    int64_t row, column;
} syn_dropout_options;
#define SYN_NO_KEYS (SYN_LITERAL(syn_tensor){0, 0})
syn_tensor syn_dropout(syn_ctx *ctx, syn_tensor x, syn_tensor keys, const syn_dropout_options *how);

/* scores (..., T, S): score * scale + mask. causal: entries with column > row + offset become
   -infinity; with a KV cache, offset = S - T. mask: SYN_NO_MASK, or (B, S) f32 for scores (B, H, T,
   S), which is added for every head and query of its sequence. A padding mask is 0 for valid keys
   and -infinity for padding. */
#define SYN_NO_MASK (SYN_LITERAL(syn_tensor){0, 0})
syn_tensor syn_scale_mask(syn_ctx *ctx, syn_tensor scores, syn_tensor mask, double scale,
                          bool causal, int64_t offset);
/* The same, always causal, and with the sliding window of syn_attention_window. */
syn_tensor syn_scale_mask_window(syn_ctx *ctx, syn_tensor scores, syn_tensor mask, double scale,
                                 int64_t offset, int64_t window);
/* Softmax over the last dimension. A row that is all -infinity gives zeros. */
syn_tensor syn_softmax(syn_ctx *ctx, syn_tensor x);
/* Fused attention. q (B, H, T, D), k (B, G, S, D), v (B, G, S, Dv) -> (B, H, T, Dv):
   softmax(mask(scale q k')) v, masked as in syn_scale_mask. Grouped-query attention: G divides H,
   and H/G consecutive heads of q share one head of k and v. A query that can attend to no key gives
   zeros. */
syn_tensor syn_attention(syn_ctx *ctx, syn_tensor q, syn_tensor k, syn_tensor v, syn_tensor mask,
                         double scale, bool causal, int64_t offset);
/* The same, always causal, and with a sliding window (Beltagy et al. 2020; Mistral): a query
   attends to its own key and the window - 1 keys before it. window 0: no limit. */
syn_tensor syn_attention_window(syn_ctx *ctx, syn_tensor q, syn_tensor k, syn_tensor v,
                                syn_tensor mask, double scale, int64_t offset, int64_t window);
/* The same with sinks (H), in the dtype of q: the softmax of each query has the sink of its head as
   one more score, which has no value (Xiao et al. 2024; gpt-oss). */
syn_tensor syn_attention_sinks(syn_ctx *ctx, syn_tensor q, syn_tensor k, syn_tensor v,
                               syn_tensor mask, syn_tensor sinks, double scale, int64_t offset,
                               int64_t window);
/* Fused attention for training. q, k and v are as in syn_attention, but the result is (B, T, H,
   Dv). The op has a second output, one value per query, which is saved for the gradient. */
typedef struct syn_attention_options {
    syn_tensor mask; /* SYN_NO_MASK, or as in syn_attention */
    double scale;
    bool causal;
    int64_t offset, window; /* window: 0, or as in syn_attention_window */
    syn_tensor sinks;       /* as in syn_attention_sinks; invalid: none */
    /* Dropout of the softmax, like syn_dropout of (B, H, T, S). dropout.p 0: none. */
    syn_tensor keys;
    syn_dropout_options dropout;
} syn_attention_options;
syn_tensor syn_attention_train(syn_ctx *ctx, syn_tensor q, syn_tensor k, syn_tensor v,
                               const syn_attention_options *how);
/* Context parallelism: the tokens of each sequence are divided among the n ranks of a group. A
   sequence of S tokens is cut into 2 n pieces, and rank r has T = S/n tokens: piece r, then piece
   2 n - 1 - r. This function is causal attention of this rank's queries q (B, H, T, D) to the keys
   and values of all ranks, of which this rank has k (B, G, T, D) and v (B, G, T, Dv) -> (B, T, H,
   Dv). T is even. The ranks send each other keys and values around a ring (Liu et al. 2023) or,
   with `gathers`, all-gather them (Dubey et al. 2024); both also in the backward pass. call >= 0: a
   number that is the same on all ranks and distinguishes the messages of this call from those of
   other calls. */
syn_tensor syn_context_attention(syn_ctx *ctx, syn_tensor q, syn_tensor k, syn_tensor v,
                                 double scale, bool gathers, int64_t call, const syn_group *group);
/* The tokens of all ranks, x (n, ..., T, ...), T at dimension axis + 1 -> (..., S, ...), in the
   order of the sequence. */
syn_tensor syn_zigzag_join(syn_ctx *ctx, syn_tensor x, int axis);
/* The opposite: x (..., S, ...), S at dimension `axis` -> (ranks, ..., T, ...). */
syn_tensor syn_zigzag_split(syn_ctx *ctx, syn_tensor x, int axis, int64_t ranks);
/* *out (B, T, H, D) f32 and *log_sum (B, H, T) f32 are the result and the log-sum-exp of attention
   to some keys; part (B, P, H, D) and part_log_sum (B, H, P) are those of the queries first ..
   first + P - 1 for other keys. Overwrites *out and *log_sum by the attention to all of these keys,
   and replaces them by their new versions. */
void syn_attention_merge(syn_ctx *ctx, syn_tensor *out, syn_tensor *log_sum, syn_tensor part,
                         syn_tensor part_log_sum, int64_t first);
/* Writes x (B, H, T, D) to cache (B, H, Smax, D), at rows position .. position + T - 1 of
   dimension 2. Returns the new version of the cache. */
syn_tensor syn_kv_append(syn_ctx *ctx, syn_tensor cache, syn_tensor x, int64_t position);

/* Paged KV caches (Kwon et al. 2023): the keys or values of many sequences share one cache (1, G,
   N, D). Its N slots, each for one token, are divided into blocks of block_tokens slots, and a
   table lists the blocks of each sequence. The packed tokens of a batch are the new tokens of all
   its sequences, one sequence after the other. */
/* Writes x (1, G, T, D) to cache (1, G, N, D), token t to slot slots[t] of dimension 2. slots (T)
   i32, all different. Returns the new version of the cache. */
syn_tensor syn_paged_append(syn_ctx *ctx, syn_tensor cache, syn_tensor x, syn_tensor slots);
typedef struct syn_paged_options {
    double scale;
    double cap;             /* scores x become cap tanh(x / cap); 0: none */
    int64_t block_tokens;   /* divides N */
    int64_t window;         /* 0, or as in syn_attention_window */
    syn_tensor sinks;       /* as in syn_attention_sinks; invalid: none */
    int64_t n;              /* sequences */
    const int32_t *queries; /* (n): packed tokens of each sequence, >= 1 */
    const int32_t *keys;    /* (n): tokens of each sequence in the cache, >= queries */
    syn_tensor blocks;      /* (n, max_blocks) i32: the first ceil(keys / block_tokens) entries of
                               a row are the sequence's blocks, in order; the others are ignored */
} syn_paged_options;
/* Causal attention of each sequence to its keys. q (1, H, T, D), T the sum of `queries`; k (1, G,
   N, D), v (1, G, N, Dv), caches -> (1, T, H, Dv). The queries of a sequence are its last tokens. G
   divides H, as in syn_attention. */
syn_tensor syn_paged_attention(syn_ctx *ctx, syn_tensor q, syn_tensor k, syn_tensor v,
                               const syn_paged_options *how);

/* Views, which move no data. syn_reshape copies first if the strides do not allow a view. One entry
   of `dims` may be -1; it is computed from the others. */
syn_tensor syn_reshape(syn_ctx *ctx, syn_tensor x, const int64_t *dims, int rank);
/* Dimension i of the result is dimension order[i] of x. */
syn_tensor syn_permute(syn_ctx *ctx, syn_tensor x, const int *order, int rank);
/* Elements start .. start + length - 1 of dimension `axis`. Here and below, a negative axis counts
   from the last dimension. */
syn_tensor syn_slice(syn_ctx *ctx, syn_tensor x, int axis, int64_t start, int64_t length);
/* Entry of a tensor-parallel region (Megatron's f): returns x unchanged. Its gradient is an
   all-reduce over `group`, which must have at least two ranks. */
syn_tensor syn_tp_enter(syn_ctx *ctx, syn_tensor x, const syn_group *group);
/* x if it is dense in row-major order, otherwise a dense copy. */
syn_tensor syn_contiguous(syn_ctx *ctx, syn_tensor x);
/* x converted to f32, f16 or bf16. Values are rounded to nearest, ties to even; those beyond the
   largest finite number become infinity. Returns x if it already has that dtype. */
syn_tensor syn_cast(syn_ctx *ctx, syn_tensor x, syn_dtype dtype);
/* Concatenates 1 to 16 tensors that differ at most in dimension `axis`. */
syn_tensor syn_concat(syn_ctx *ctx, const syn_tensor *xs, int n, int axis);

/* ---- ops that only gradients need; most gradients use the ops above ---- */

/* Sums x over the dimensions in which broadcasting the shape `dims` to x's shape repeats elements.
   The result is f32. Returns x, in its own dtype, if it has that shape already. */
syn_tensor syn_sum_to(syn_ctx *ctx, syn_tensor x, const int64_t *dims, int rank);
/* A view of x broadcast to the shape `dims`. Returns x if it has that shape already. */
syn_tensor syn_expand(syn_ctx *ctx, syn_tensor x, const int64_t *dims, int rank);
/* ids (...) i32, dy (..., C) -> (rows, C) f32, the gradient of syn_embedding_padded's table: row r
   is the sum of the rows of dy whose id is first_row + r. Ids outside the table and `padding` are
   skipped. The _add form adds to `sum`, an f32 table, and returns its new version. */
syn_tensor syn_embedding_grad(syn_ctx *ctx, syn_tensor ids, syn_tensor dy, int64_t first_row,
                              int64_t rows, int64_t padding);
syn_tensor syn_embedding_grad_add(syn_ctx *ctx, syn_tensor sum, syn_tensor ids, syn_tensor dy,
                                  int64_t first_row, int64_t padding);
/* Adds syn_matmul(a, b) to `sum`, which is dense and f32. Returns its new version. */
syn_tensor syn_matmul_add(syn_ctx *ctx, syn_tensor sum, syn_tensor a, syn_tensor b,
                          bool transpose_a, bool transpose_b);

/* ---- losses ---- */

/* Cross-entropy loss. logits (..., V), of which only the first `classes` columns are used; targets
   (...) i32, each a class or SYN_IGNORED_TARGET -> a scalar: weight * sum of -log
   softmax(logits)[target] over the targets that are not ignored. weight: one element, or SYN_MEAN
   for 1 / (number of targets not ignored). Overwrites the logits with their gradient. */
enum { SYN_IGNORED_TARGET = -100 };
#define SYN_MEAN (SYN_LITERAL(syn_tensor){0, 0})
syn_tensor syn_cross_entropy(syn_ctx *ctx, syn_tensor logits, syn_tensor targets, syn_tensor weight,
                             int64_t classes);

/* ---- mixtures of experts ---- */

/* How a router chooses experts. It computes a score per expert from the logits, and chooses the k
   experts with the highest scores; among equals the lower index comes first. With top_groups <
   groups, the experts are divided into equal groups, and only those in the best top_groups groups
   can be chosen (DeepSeek-V2, V3). The weights are the scores, divided by their sum if `normalize`,
   times `scale`. Softmax with `normalize` equals a softmax over the k chosen logits. */
typedef enum syn_score { SYN_SCORE_SOFTMAX, SYN_SCORE_SIGMOID } syn_score;
typedef struct syn_routing {
    int64_t k;
    syn_score score;
    bool normalize;
    int64_t groups, top_groups; /* 1, 1: no groups */
    double scale;
} syn_routing;
/* logits (N, E) -> weights (N, k) f32, and the chosen experts (N, k) i32. bias: (E) f32 or
   SYN_NO_BIAS; it is added to the scores for the choice, not for the weights (Wang et al. 2024,
   "Auxiliary-Loss-Free Load Balancing"). Ops compute the scores in f32. */
syn_tensor syn_route(syn_ctx *ctx, syn_tensor logits, syn_tensor bias, const syn_routing *how,
                     syn_tensor *experts);
/* experts (N, k) i32 -> places (N k) i32, and sizes (n_experts) i64: the number of rows of each
   expert. places[i] is the index of the i-th entry after a stable sort of the N k entries by
   expert. */
syn_tensor syn_sort_by_expert(syn_ctx *ctx, syn_tensor experts, int64_t n_experts,
                              syn_tensor *sizes);
/* Gives each expert `capacity` rows. places (R) i32 and sizes (E) i64, as syn_sort_by_expert
   returns them -> places (E capacity): the first rows of each expert, and -1 for rows that it
   lacks. *sizes becomes the new sizes, which are all `capacity`. */
syn_tensor syn_expert_capacity(syn_ctx *ctx, syn_tensor places, int64_t capacity,
                               syn_tensor *sizes);
/* x (N, C), places (R) i32 -> (R, C): row i is row places[i] / copies of x, or 0 for place -1. */
syn_tensor syn_moe_permute(syn_ctx *ctx, syn_tensor x, syn_tensor places, int64_t copies);
/* The opposite: x (R, C), places (R) i32, each below tokens * copies, no two the same, or -1 for
   rows to ignore -> (tokens, C): row n is the sum of the rows of x whose place divided by `copies`
   is n. */
syn_tensor syn_moe_unpermute(syn_ctx *ctx, syn_tensor x, syn_tensor places, int64_t tokens,
                             int64_t copies);
/* x (R, K), w (E, K, N) or with transpose_w (E, N, K), sizes (E) i64 -> (R, N). The first sizes[0]
   rows are multiplied by w[0], the next sizes[1] rows by w[1], and so on. bias: (E, N) or
   SYN_NO_BIAS. If x is f32, w may be f16 or bf16. */
syn_tensor syn_grouped_linear(syn_ctx *ctx, syn_tensor x, syn_tensor w, syn_tensor sizes,
                              syn_tensor bias, bool transpose_w);
/* x (R, N), sizes (E) i64 -> (E, N): the sum of each expert's rows, the gradient of the bias. */
syn_tensor syn_grouped_sum(syn_ctx *ctx, syn_tensor x, syn_tensor sizes);
/* a (R, M), b (R, N), sizes (E) i64 -> a' b of each expert's rows: (E, M, N) f32, 0 for an expert
   without rows. This is the gradient of the matrices. The _add form adds to `sum` and returns its
   new version. */
syn_tensor syn_grouped_product(syn_ctx *ctx, syn_tensor a, syn_tensor b, syn_tensor sizes);
syn_tensor syn_grouped_product_add(syn_ctx *ctx, syn_tensor sum, syn_tensor a, syn_tensor b,
                                   syn_tensor sizes);

/* The losses of a router, by which training balances the experts. For logits (N, E) and counts (E)
   i64, the number of rows of each expert, they are balance * sum over tokens t and experts e of
   counts[e] p[t][e], plus z * sum over t of logsumexp(logits[t])^2. p is the softmax of a token's
   logits or, for sigmoids, the sigmoids divided by their sum. counts has no gradient. */
typedef struct syn_router_losses {
    syn_score score;
    double balance, z;
} syn_router_losses;
/* Returns a view of the weights (N, k), through which backward passes reach the losses: they add
   the gradient of the losses to that of the logits, as if the losses were added to the loss of the
   model. syn_router_loss_add adds the losses to `sum`, one f32, and returns its new version. */
syn_tensor syn_router_loss(syn_ctx *ctx, syn_tensor weights, syn_tensor logits, syn_tensor counts,
                           const syn_router_losses *how);
syn_tensor syn_router_loss_add(syn_ctx *ctx, syn_tensor sum, syn_tensor logits, syn_tensor counts,
                               const syn_router_losses *how);
/* Adds counts (E) i64 to sums (E) f32, and returns the new version. */
syn_tensor syn_count_add(syn_ctx *ctx, syn_tensor sums, syn_tensor counts);
/* Adds rate * sign(mean of the counts - counts[e]) to bias[e] and sets the counts to 0. bias,
   counts (E) f32 become their new versions (Wang et al. 2024). */
void syn_router_bias_update(syn_ctx *ctx, syn_tensor *bias, syn_tensor *counts, double rate);

/* With expert parallelism, a rank has `experts` experts from number `first` on. It gets rows from
   several sources; those of each source are sorted by expert. counts: (sources, all experts) i64,
   the number of rows -> places (rows) i32: row places[i] is the i-th row in the order of the
   experts, and sizes (experts) i64: the number of rows of each expert. rows: their sum. */
syn_tensor syn_expert_order(syn_ctx *ctx, syn_tensor counts, int64_t first, int64_t experts,
                            int64_t rows, syn_tensor *sizes);

/* ---- optimizer: lists of up to SYN_MAX_PARAMS dense tensors; f32, except for parameters ---- */

/* The sum of the squares of all elements of n tensors: a scalar. syn_square_sum_divided divides it
   by the number of ranks that have the same tensors, so that a sum over ranks counts each element
   once. */
syn_tensor syn_square_sum(syn_ctx *ctx, const syn_tensor *xs, int n);
syn_tensor syn_square_sum_divided(syn_ctx *ctx, const syn_tensor *xs, int n, int divisor);
/* squares: the square sum of all gradients. Returns min(1, max_norm / (norm + 1e-6)), or 1 if
   max_norm is 0, and the gradient norm in *norm. */
syn_tensor syn_clip_factor(syn_ctx *ctx, syn_tensor squares, double max_norm, syn_tensor *norm);
/* One AdamW step (Loshchilov and Hutter 2019) for n parameters. Replaces params, m, v and masters
   by their new versions. m, v and masters are one f32 tensor each, which contains the elements of
   all parameters one after the other. 16-bit parameters need masters: the step updates the masters,
   and rounds them to the parameters without reading the old parameters. Gradients are multiplied by
   `scale` first. If scale is NaN or 0, nothing changes. syn_clip_factor returns such a scale if a
   gradient has a NaN or infinity. */
typedef struct syn_adamw_call {
    syn_tensor *params;
    const syn_tensor *grads;
    int n;
    syn_tensor *m, *v;
    syn_tensor *masters; /* for f16 and bf16 parameters; NULL: parameters are f32 */
    /* rates: three elements: the learning rate, learning rate / (1 - beta1^t) and
       1 / sqrt(1 - beta2^t), where t is 1 in the first step. scale: one element. */
    syn_tensor rates, scale;
    double beta1, beta2, eps, weight_decay;
    int64_t decayed; /* bit i: weight decay for parameter i */
    /* If valid, one i64 element, which replaces `decayed`: the number of elements that have weight
     * decay. They come first; the elements of all parameters are counted together. */
    syn_tensor n_decayed;
} syn_adamw_call;
void syn_adamw_step(syn_ctx *ctx, const syn_adamw_call *call);

/* syn_cross_entropy for logits that are sharded over the ranks of a group: (..., V/tp), whose first
   `classes` columns are the classes from `first` on. targets, weight and the loss are the same on
   all ranks. Needs three all-reduces of one value per target (Shoeybi et al. 2019, sec. 3): the
   largest logit, the sum of exponentials, and the target's logit. */
syn_tensor syn_cross_entropy_sharded(syn_ctx *ctx, syn_tensor logits, syn_tensor targets,
                                     syn_tensor weight, int64_t classes, int64_t first,
                                     const syn_group *group);

/* The same loss with the ops and buffers of PyTorch's cross_entropy, which is not fused: the logits
   are converted to f32, their log-softmax is saved, and backward makes two more f32 tensors of this
   size, the gradients of both. The logits are not overwritten. first, all: the first class of this
   rank and the number of classes of all ranks; group NULL: this rank has all classes. */
syn_tensor syn_cross_entropy_unfused(syn_ctx *ctx, syn_tensor logits, syn_tensor targets,
                                     syn_tensor weight, int64_t classes, int64_t first, int64_t all,
                                     const syn_group *group);

/* x (..., V) -> (...) i32: index of the largest element, the lowest index among equals. */
syn_tensor syn_argmax(syn_ctx *ctx, syn_tensor x);
/* x (..., V) -> values (..., k) in descending order, and their indices (..., k) i32. Among equals
   the lower index comes first. */
syn_tensor syn_top_k(syn_ctx *ctx, syn_tensor x, int64_t k, syn_tensor *indices);
/* logits (B, V), seen (B, N) i32 -> (B, V). Penalizes the logit of each token that occurs in its
   row of `seen`: a negative logit is multiplied by the penalty, any other logit is divided by it. A
   token that occurs several times is penalized once. Negative ids are skipped; ids >= V are an
   error. The penalty must be finite and > 0. */
syn_tensor syn_repetition_penalty(syn_ctx *ctx, syn_tensor logits, syn_tensor seen, double penalty);
/* Samples tokens: logits (B, V) -> (B) i32. temperature 0: argmax. Otherwise softmax(logits /
   temperature) is restricted to the top_k most likely tokens (0: all), then to the smallest set
   whose probability reaches top_p (1: all), then to tokens at least min_p times as likely as the
   most likely one (0: all). The random number depends only on seed, step and row. */
typedef struct syn_sampling {
    double temperature; /* finite, >= 0 */
    int64_t top_k;      /* >= 0 */
    double top_p;       /* in (0, 1] */
    uint64_t seed;
    double min_p; /* in [0, 1] */
} syn_sampling;
syn_tensor syn_sample(syn_ctx *ctx, syn_tensor logits, const syn_sampling *how, int64_t step);

/* Collectives over the ranks of a group, which must have at least two. All ranks must pass tensors
   of the same shape. */
syn_tensor syn_all_reduce(syn_ctx *ctx, syn_tensor x, syn_reduce reduce, const syn_group *group);
/* One all-reduce of 1 to SYN_MAX_LIST tensors of one dtype. Overwrites each tensor and replaces it
   by its new version. */
void syn_all_reduce_coalesced(syn_ctx *ctx, syn_tensor *xs, int n, syn_reduce reduce,
                              const syn_group *group);
/* Concatenates the ranks' tensors along `axis`, in group order, so that this dimension becomes
   group->size times as long. */
syn_tensor syn_all_gather(syn_ctx *ctx, syn_tensor x, int axis, const syn_group *group);
/* Reduces x, splits the result into group->size shards along `axis`, and returns this rank's shard.
   group->size must divide this dimension. */
syn_tensor syn_reduce_scatter(syn_ctx *ctx, syn_tensor x, syn_reduce reduce, int axis,
                              const syn_group *group);
/* Sequence parallelism (Korthikanti et al. 2022): ranks have different tokens of the same
   sequences. syn_gather_tokens: x (B, T/n, ...) -> (B, T, ...), an all-gather whose gradient is a
   reduce-scatter. The result is not saved for backward, but gathered again there, unless `keep`.
   syn_cut_tokens: x (B, T, ...), the same on all ranks -> this rank's tokens (B, T/n, ...), a view
   whose gradient is an all-gather. The group has n ranks, and n must divide T. */
syn_tensor syn_gather_tokens(syn_ctx *ctx, syn_tensor x, bool keep, const syn_group *group);
syn_tensor syn_cut_tokens(syn_ctx *ctx, syn_tensor x, const syn_group *group);
/* x (R, ...): to[i] rows for each member i, in the order of the group -> from[i] rows of each
   member i. R is the sum of `to`; to[i] of this rank is from[j] of member i, where j is this rank's
   index. Both lists have group->size entries; NULL for both: equal numbers. most: the largest
   number of rows that a member sends or receives, which all members must pass; it is the size of
   the collective in traces (syn_node.comm_bytes). It is ignored if the lists are NULL. */
syn_tensor syn_all_to_all(syn_ctx *ctx, syn_tensor x, const int64_t *to, const int64_t *from,
                          int64_t most, const syn_group *group);
/* An all-to-all of rows (R, C) that are copies of tokens, one for each rank that has at least one
   of a token's experts, with DeepEP's kernels (DeepSeek-AI 2025): across nodes, a token is sent
   once per node, and copied there. The same values as syn_all_to_all, but predicted times are those
   of DeepEP. fp8: the rows of a dispatch are sent in 8-bit floats with an f32 factor for each 128
   elements; this changes the size of the collective in traces, not the values. combine: rows return
   to the ranks of their tokens. The gradient of a dispatch is a combine, and the reverse. */
typedef struct syn_deepep {
    bool fp8, combine;
    syn_expert_choice choice;
} syn_deepep;
syn_tensor syn_deepep_all_to_all(syn_ctx *ctx, syn_tensor x, const int64_t *to, const int64_t *from,
                                 int64_t most, const syn_deepep *how, const syn_group *group);
/* root: index within the group. Every rank passes a tensor of the same shape; only the root's
   contents are used. */
syn_tensor syn_broadcast(syn_ctx *ctx, syn_tensor x, int root, const syn_group *group);
void syn_broadcast_coalesced(syn_ctx *ctx, syn_tensor *xs, int n, int root, const syn_group *group);
/* A list of 1 to SYN_MAX_LIST dense tensors of one dtype counts as one array: the elements of
   xs[0], then those of xs[1], and so on. Each rank of the group has `part` elements of this array
   (ZeRO, Rajbhandari et al. 2020). Elements beyond the array's end are padding.
   syn_reduce_scatter_coalesced returns this rank's part of the reduction of the ranks' lists,
   (part); its padding is 0. syn_all_gather_coalesced overwrites the list with the parts of all
   ranks, and replaces each tensor by its new version. */
syn_tensor syn_reduce_scatter_coalesced(syn_ctx *ctx, const syn_tensor *xs, int n,
                                        syn_reduce reduce, int64_t part, const syn_group *group);
void syn_all_gather_coalesced(syn_ctx *ctx, syn_tensor *xs, int n, syn_tensor part,
                              const syn_group *group);
/* peer: global rank. tag >= 0. */
void syn_send(syn_ctx *ctx, syn_tensor x, int32_t peer, int32_t tag);
syn_tensor syn_recv(syn_ctx *ctx, const syn_spec *spec, int32_t peer, int32_t tag);
void syn_barrier(syn_ctx *ctx, const syn_group *group);

SYN_API_END
#endif
