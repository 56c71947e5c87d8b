/* Declares the functions that the rows of the op table name, and the helpers that the op_*.c files
   share. Private to ops/. */
#ifndef OPS_RULES_H
#define OPS_RULES_H

#include "ops/hash.h"
#include "ops/ops.h"
#include "syntorch/dispatch.h"
#include "syntorch/gradient.h"

/* Calls an op by its number: looks up its row and passes it to syn__dispatch. */
static inline void syn__call_op(syn_ctx *ctx, syn_op op, const syn_tensor *in, int n_in,
                                const syn_attr *attr, int n_attr, const syn_group *group,
                                syn_tensor *out) {
    syn__dispatch(ctx, &syn_op_table[op], in, n_in, attr, n_attr, group, out);
}

#define SYN__INFER(name) syn_status syn__##name##_infer(syn_call *c)
#define SYN__COST(name)  void syn__##name##_cost(const syn_call *c, syn_cost *cost)
#define SYN__CPU(name)   syn_status syn__##name##_cpu(syn_call *c)
#define SYN__GRAD(name)  void syn__##name##_grad(syn_grad_call *g)

SYN__INFER(embedding);
SYN__COST(embedding);
SYN__CPU(embedding);
SYN__GRAD(embedding);
SYN__INFER(embedding_grad);
SYN__COST(embedding_grad);
SYN__CPU(embedding_grad);
SYN__INFER(embedding_grad_add);
SYN__CPU(embedding_grad_add);
SYN__INFER(norm);
SYN__COST(layernorm);
SYN__CPU(norm);
SYN__GRAD(layernorm);
SYN__INFER(norm_grad);
SYN__COST(layernorm_grad);
SYN__CPU(norm_grad);
SYN__COST(rmsnorm);
SYN__GRAD(rmsnorm);
SYN__COST(rmsnorm_grad);
SYN__INFER(rope);
SYN__COST(rope);
SYN__CPU(rope);
SYN__GRAD(rope);
SYN__INFER(linear);
SYN__COST(linear);
SYN__CPU(linear);
SYN__GRAD(linear);
SYN__INFER(matmul);
SYN__COST(matmul);
SYN__CPU(matmul);
SYN__GRAD(matmul);
SYN__INFER(matmul_add);
SYN__COST(matmul_add);
SYN__CPU(matmul_add);
SYN__INFER(unary);
SYN__COST(unary);
SYN__COST(gelu);
SYN__CPU(gelu);
SYN__GRAD(gelu);
SYN__INFER(unary_grad);
SYN__COST(gelu_grad);
SYN__CPU(gelu_grad);
SYN__CPU(tanh);
SYN__GRAD(tanh);
SYN__COST(tanh_grad);
SYN__CPU(tanh_grad);
SYN__CPU(relu);
SYN__GRAD(relu);
SYN__CPU(relu_grad);
SYN__COST(silu);
SYN__CPU(silu);
SYN__GRAD(silu);
SYN__COST(silu_grad);
SYN__CPU(silu_grad);
SYN__COST(swiglu);
SYN__CPU(swiglu);
SYN__GRAD(swiglu);
SYN__INFER(swiglu_grad);
SYN__COST(swiglu_grad);
SYN__CPU(swiglu_grad);
SYN__INFER(binary);
SYN__COST(binary);
SYN__CPU(add);
SYN__GRAD(add);
SYN__INFER(accumulate);
SYN__CPU(accumulate);
SYN__CPU(mul);
SYN__GRAD(mul);
SYN__CPU(scale);
SYN__GRAD(scale);
SYN__INFER(dropout);
SYN__CPU(dropout);
SYN__GRAD(dropout);
SYN__INFER(scale_mask);
SYN__CPU(scale_mask);
SYN__GRAD(scale_mask);
SYN__COST(softmax);
SYN__CPU(softmax);
SYN__GRAD(softmax);
SYN__COST(softmax_grad);
SYN__CPU(softmax_grad);
SYN__INFER(attention);
SYN__COST(attention);
SYN__CPU(attention);
SYN__INFER(attention_train);
SYN__COST(attention_train);
SYN__CPU(attention_train);
SYN__GRAD(attention_train);
SYN__INFER(attention_grad);
SYN__COST(attention_grad);
SYN__CPU(attention_grad);
SYN__INFER(sinks_grad);
SYN__COST(sinks_grad);
SYN__CPU(sinks_grad);
SYN__INFER(attention_merge);
SYN__COST(attention_merge);
SYN__CPU(attention_merge);
SYN__INFER(context_attention);
SYN__GRAD(context_attention);
SYN__INFER(zigzag_join);
SYN__CPU(zigzag_join);
SYN__GRAD(zigzag_join);
SYN__INFER(zigzag_split);
SYN__CPU(zigzag_split);
SYN__GRAD(zigzag_split);
SYN__INFER(kv_append);
SYN__COST(kv_append);
SYN__CPU(kv_append);
SYN__INFER(paged_append);
SYN__COST(paged_append);
SYN__CPU(paged_append);
SYN__INFER(paged_attention);
SYN__COST(paged_attention);
SYN__CPU(paged_attention);
SYN__INFER(reshape);
SYN__GRAD(reshape);
SYN__INFER(permute);
SYN__GRAD(permute);
SYN__INFER(slice);
SYN__GRAD(slice);
SYN__INFER(slice_grad);
SYN__CPU(slice_grad);
SYN__INFER(slice_add);
SYN__COST(slice_add);
SYN__CPU(slice_add);
SYN__INFER(expand);
SYN__GRAD(expand);
SYN__INFER(sum_to);
SYN__COST(sum_to);
SYN__CPU(sum_to);
SYN__GRAD(sum_to);
SYN__INFER(tp_enter);
SYN__GRAD(tp_enter);
SYN__GRAD(gather_tokens);
SYN__INFER(cut_tokens);
SYN__GRAD(cut_tokens);
SYN__COST(zero);
SYN__COST(copy);
SYN__CPU(contiguous);
SYN__GRAD(contiguous);
SYN__INFER(cast);
SYN__CPU(cast);
SYN__GRAD(cast);
SYN__INFER(concat);
SYN__CPU(concat);
SYN__GRAD(concat);
SYN__INFER(square_sum);
SYN__COST(square_sum);
SYN__CPU(square_sum);
SYN__INFER(clip_factor);
SYN__COST(clip_factor);
SYN__CPU(clip_factor);
SYN__INFER(adamw);
SYN__COST(adamw);
SYN__CPU(adamw);
SYN__INFER(argmax);
SYN__COST(select);
SYN__CPU(argmax);
SYN__INFER(repetition_penalty);
SYN__COST(repetition_penalty);
SYN__CPU(repetition_penalty);
SYN__INFER(top_k);
SYN__CPU(top_k);
SYN__INFER(sample);
SYN__COST(sample);
SYN__CPU(sample);
SYN__INFER(cross_entropy);
SYN__COST(cross_entropy);
SYN__CPU(cross_entropy);
SYN__GRAD(cross_entropy);
SYN__INFER(cross_entropy_part);
SYN__COST(cross_entropy_part);
SYN__CPU(cross_entropy_part);
SYN__INFER(exp_rescale);
SYN__COST(exp_rescale);
SYN__CPU(exp_rescale);
SYN__INFER(cross_entropy_join);
SYN__CPU(cross_entropy_join);
SYN__INFER(log_softmax_loss);
SYN__COST(log_softmax_loss);
SYN__CPU(log_softmax_loss);
SYN__GRAD(log_softmax_loss);
SYN__INFER(nll_grad);
SYN__COST(nll_grad);
SYN__CPU(nll_grad);
SYN__INFER(log_softmax_grad);
SYN__COST(log_softmax_grad);
SYN__CPU(log_softmax_grad);
SYN__INFER(route);
SYN__COST(route);
SYN__CPU(route);
SYN__GRAD(route);
SYN__INFER(route_grad);
SYN__COST(route_grad);
SYN__CPU(route_grad);
SYN__INFER(router_loss);
SYN__GRAD(router_loss);
SYN__INFER(router_loss_add);
SYN__COST(router_loss_add);
SYN__CPU(router_loss_add);
SYN__INFER(router_loss_grad);
SYN__COST(router_loss_grad);
SYN__CPU(router_loss_grad);
SYN__INFER(count_add);
SYN__COST(count_add);
SYN__CPU(count_add);
SYN__INFER(router_bias_update);
SYN__COST(router_bias_update);
SYN__CPU(router_bias_update);
SYN__INFER(sort_by_expert);
SYN__COST(sort_by_expert);
SYN__CPU(sort_by_expert);
SYN__INFER(moe_permute);
SYN__COST(moe_permute);
SYN__CPU(moe_permute);
SYN__GRAD(moe_permute);
SYN__INFER(moe_unpermute);
SYN__COST(moe_unpermute);
SYN__CPU(moe_unpermute);
SYN__GRAD(moe_unpermute);
SYN__INFER(grouped_linear);
SYN__COST(grouped_linear);
SYN__CPU(grouped_linear);
SYN__GRAD(grouped_linear);
SYN__INFER(grouped_product);
SYN__COST(grouped_product);
SYN__CPU(grouped_product);
SYN__INFER(grouped_sum);
SYN__COST(grouped_sum);
SYN__CPU(grouped_sum);
SYN__INFER(grouped_product_add);
SYN__CPU(grouped_product_add);
SYN__INFER(all_reduce);
SYN__CPU(all_reduce);
SYN__GRAD(all_reduce);
SYN__INFER(all_reduce_coalesced);
SYN__INFER(all_gather);
SYN__CPU(all_gather);
SYN__GRAD(all_gather);
SYN__INFER(reduce_scatter);
SYN__CPU(reduce_scatter);
SYN__GRAD(reduce_scatter);
SYN__INFER(expert_capacity);
SYN__COST(expert_capacity);
SYN__CPU(expert_capacity);
SYN__INFER(expert_order);
SYN__COST(expert_order);
SYN__CPU(expert_order);
SYN__INFER(all_to_all);
SYN__CPU(all_to_all);
SYN__GRAD(all_to_all);
SYN__INFER(broadcast);
SYN__CPU(broadcast);
SYN__INFER(broadcast_coalesced);
SYN__INFER(reduce_scatter_coalesced);
SYN__CPU(reduce_scatter_coalesced);
SYN__INFER(all_gather_coalesced);
SYN__COST(all_gather_coalesced);
SYN__CPU(all_gather_coalesced);
SYN__INFER(send);
SYN__CPU(send);
SYN__INFER(recv);
SYN__CPU(recv);
SYN__INFER(barrier);
SYN__CPU(barrier);
SYN__COST(comm);

/* Checks the window size (keys; 0: none) of an attention op whose attributes 1 and 2 are `causal`
   and `offset`. A window requires causal and an offset below 2^40 in magnitude. */
syn_status syn__check_window(const syn_call *c, int64_t window);
/* Fails with an error message such as "input i must be <expected>, but is f32[2,3]". */
syn_status syn__bad_input(const syn_call *c, int i, const char *expected);
/* Fails unless input i has that dtype. */
syn_status syn__check_dtype(const syn_call *c, int i, syn_dtype dtype);
/* Fails unless input i is f32, f16 or bf16. */
syn_status syn__check_float(const syn_call *c, int i);
/* Fails unless inputs 0 to n - 1 have one dtype: f32, f16 or bf16. */
syn_status syn__check_floats(const syn_call *c, int n);
/* Checks an op that adds input 1 to input 0 in place: input 1 is f32, f16 or bf16, and input 0 is
   f32 or has input 1's dtype. */
syn_status syn__check_sum(const syn_call *c);
/* Allocates `bytes` bytes of scratch memory for the kernel, aligned to a cache line. It is valid
   until the kernel returns or calls this again. `what` names it in an out-of-memory error. */
syn_status syn__scratch(const syn_call *c, size_t bytes, const char *what, void **out);
/* Total bytes of all inputs, or of all outputs. */
uint64_t syn__input_bytes(const syn_call *c);
uint64_t syn__output_bytes(const syn_call *c);
uint64_t syn__elems(const syn_operand *o);

/* Iterates over the rows (last dimension) of up to three operands of one shape. Start with a
   zeroed syn_row_iter and call syn__next_row until it returns false. at[i] is the element offset of
   the current row in operand i. Operands of SYN_OPF_STRIDED ops may have a strided last dimension,
   which the caller handles. */
typedef struct syn_row_iter {
    int64_t index[SYN_MAX_RANK];
    int64_t at[3];
    bool started;
} syn_row_iter;
bool syn__next_row(syn_row_iter *rows, const syn_spec *shape, const syn_operand *const *operands,
                   int n);
/* Positions `rows` at row number `row`, in row-major order; syn__next_row continues from there. */
void syn__seek_row(syn_row_iter *rows, const syn_spec *shape, const syn_operand *const *operands,
                   int n, int64_t row);
/* True if the elements are dense in row-major order. */
bool syn__is_dense(const syn_operand *o);

/* Computes the strides of `o` viewed with the shape `to`, which must have as many elements.
   Returns false if that needs a copy. */
bool syn__view_strides(const syn_operand *o, const syn_spec *to, int64_t *strides);

/* Number of attributes of a recorded op that has no list attribute. */
int syn__n_attr(const syn_grad_call *g);
/* Sets all elements of a dense operand to zero, using all workers. */
void syn__fill_zero(const syn_call *c, const syn_operand *o);

/* `o` broadcast to `shape`, with stride 0 in the repeated dimensions. */
syn_operand syn__broadcast_operand(const syn_operand *o, const syn_spec *shape);
/* to += from, for operands of one shape, using all workers. */
void syn__add_rows(const syn_call *c, const syn_operand *to, const syn_operand *from);

/* Copies the elements of `from` to `out`, laid out with the strides of `to`, which has the same
   shape. Uses all workers. */
void syn__copy_rows(const syn_call *c, const syn_operand *from, const syn_operand *to, void *out);

/* The same as syn_attention_train, with both outputs: the result, and the log-sum-exp of each
   query's scores (B, H, T). */
void syn__attention_train(syn_ctx *ctx, syn_tensor q, syn_tensor k, syn_tensor v,
                          const syn_attention_options *how, syn_tensor out[2]);
/* The gradients of causal attention without dropout. in: q, k, v, both outputs of attention_train
   and the gradient of the first one. d[0] (B, T, H, D), d[1] and d[2] (B, S, G, D). */
void syn__causal_grad(syn_ctx *ctx, const syn_tensor in[6], double scale, int64_t offset,
                      syn_tensor d[3]);

/* Returns x, or a contiguous copy if its last dimension is not dense. */
syn_tensor syn__dense_last_dim(syn_ctx *ctx, syn_tensor x);

#endif
