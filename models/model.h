/* A model in a context: the parameters of all layers or of some of them, sharded over the ranks of
 * a tensor-parallel group. models/causal.h and models/bert.h compute with these parameters. */
#ifndef MODELS_MODEL_H
#define MODELS_MODEL_H

#include "models/config.h"
#include "models/expert_load.h"
#include "syntorch/context.h"

SYN_API_BEGIN

typedef struct syn_model syn_model;

/* The part of a model that a rank has, such as a pipeline stage. All parts in a context belong to
 * one model. If embedding and head are tied and belong to different parts, these parts share the
 * token table if they are in one context; the part that is created first creates the table. In
 * different contexts, such as those of a pipeline's first and last stage, each part has its own
 * copy. */
typedef struct syn_model_part {
    int64_t first_layer, n_layers;
    bool embed; /* has the embedding, from tokens to the first layer's input */
    bool head;  /* has the final norm and the output head */
    /* Multi-token prediction (DeepSeek-AI 2024, "DeepSeek-V3", section 2.2), for training only: the
       part also has `mtp` layers that predict later tokens. Needs the head, and gives the part the
       token table. */
    int64_t mtp;
} syn_model_part;

/* Which activations are recomputed in backward instead of saved (Korthikanti et al. 2022).
 * Selective: those inside attention, between its projections; fused attention has no such
 * activations. Full: those of whole layers. Op: those of whole layers, except for the outputs of
 * attention, of every second matrix product, beginning with the first, and of reductions over ranks
 * (torchtitan's selective activation checkpointing with the option "op"). */
typedef enum syn_recompute_mode {
    SYN_RECOMPUTE_NONE,
    SYN_RECOMPUTE_SELECTIVE,
    SYN_RECOMPUTE_FULL,
    SYN_RECOMPUTE_OP
} syn_recompute_mode;

/* How tokens get to the ranks of their experts with ep. ALLTOALL: a copy for each of their experts.
 * ALLGATHER: every rank of the ep group gets all tokens, and the partial sums of the experts'
 * outputs are reduce-scattered; always used if the ranks of a tp group have the same tokens.
 * DEEPEP: a copy for each rank that has at least one of their experts, in runs without data. */
typedef enum syn_dispatcher {
    SYN_DISPATCH_ALLTOALL,
    SYN_DISPATCH_ALLGATHER,
    SYN_DISPATCH_DEEPEP
} syn_dispatcher;

/* Balancing of experts in forward passes whose results require gradients. A layer's auxiliary loss
 * is aux * E * sum over experts of f P, where f is the part of the routed rows that are for an
 * expert, and P is the mean of its probabilities (Fedus et al. 2021). Its z-loss is z * the mean of
 * logsumexp(logits)^2 (Zoph et al. 2022). Both are computed for the tokens of a batch on all ranks
 * of `tokens`, and backward passes add their gradients to those of the model's loss. */
typedef struct syn_router_options {
    double aux, z;
    const syn_group *tokens; /* the ranks that route other tokens of the same batch; NULL: none */
    syn_tensor losses; /* with aux or z: a state f32 (1), to which forward passes add this rank's
                        * part of the losses; those of all tp x cp ranks add up to the losses */
    bool count;        /* count the rows of experts, for syn_model_update_router_biases */
    /* With ep, in runs without data: the loads of experts, owned by the caller; NULL: all have the
     * same. heaviest: in each layer, this rank has the experts of the busiest rank. */
    const syn_expert_load *load;
    bool heaviest;
    /* Each expert gets syn_expert_capacity_rows rows from each rank: padding, if it has fewer
     * tokens, or only its first tokens, if it has more. 0: all tokens. */
    double capacity;
    syn_dispatcher dispatcher;
    bool dispatch_fp8; /* DeepEP sends tokens in 8-bit floats (syn_deepep_all_to_all) */
} syn_router_options;

/* ceil(tokens * k / experts * capacity), for the tokens of a rank. */
int64_t syn_expert_capacity_rows(const syn_model_config *config, int64_t tokens, double capacity);

typedef struct syn_model_options {
    const syn_group *tp; /* tensor-parallel ranks; NULL: one rank has whole layers */
    const syn_group *kv; /* for training: the tensor-parallel ranks that have the same
                            key/value heads as this rank (syn_model_kv_ranks); NULL: no other
                            rank has them */
    /* Models with experts. ep: the ranks that share the experts of a layer; NULL: no other rank has
       experts that this rank lacks. Training sends each token to the ranks that have its experts.
       whole_experts: each expert is whole on its rank, although other layers are sharded over tp;
       always the case with ep, unless etp is given. etp: with ep: the ranks that share each expert;
       experts_of_all: the ep x etp ranks that share the experts.
       In inference, all tp ranks may have the same tokens. A rank then computes its own experts for
       the tokens of all ranks of expert_dp, those of experts_of_all with its index along tp, and
       the outputs are summed over experts_of_all. expert_dp NULL: it would have only this rank. */
    const syn_group *ep, *etp, *experts_of_all, *expert_dp;
    bool whole_experts;
    /* Context parallelism, for training of causal models (syn_context_attention): the ranks that
       share the tokens of a sequence; NULL: none. A rank's tokens, targets and results are those of
       its two pieces. cp_p2p: the ranks that exchange keys and values, in a ring or, with
       cp_gathers, by all-gathers. cp_a2a: the ranks that exchange heads, so that each has all
       tokens of some heads (Jacobs et al. 2023); their number divides the query and key/value
       heads. Each of the two may be cp or, if the other is not, NULL; together, cp_a2a is a part of
       neighbours of cp, and cp_p2p one rank of each part. */
    const syn_group *cp, *cp_a2a, *cp_p2p;
    bool cp_gathers;
    syn_router_options router;
    const syn_model_part *part; /* NULL: the whole model */
    unsigned heads;             /* BERT: bits SYN_BERT_POOLER, SYN_BERT_MLM, SYN_BERT_NSP */
    bool fused_attention;       /* one op instead of product, mask, softmax, product */
    syn_recompute_mode recompute;
    bool unfused_loss; /* compute the loss as PyTorch does (syn_cross_entropy_unfused) */
    /* Sequence parallelism (Korthikanti et al. 2022): between the sharded layers, each
       tensor-parallel rank has its own tokens of each sequence, so norms, dropout and residuals are
       divided, too. Their number must divide the tokens in training; other sequences are computed
       without. Sets syn_param_set_partial. sp_keep: save gathered activations for backward instead
       of gathering them again. */
    bool sp, sp_keep;
    int64_t vocab_multiple; /* each rank stores a multiple of this number of rows of the vocabulary,
                               with padding rows; 0: 1 */
    uint64_t seed;          /* seed of random weights, which do not depend on tp and part */
    syn_dtype dtype; /* dtype of parameters and activations: f32, f16 or bf16. Sums within ops are
                      * f32 */
    syn_dtype weight_dtype; /* dtype of matrices and the token table. If dtype is f32: f32, f16 or
                               bf16, widened when they are read; otherwise f32 or dtype */
    /* Called before each layer is created and after the last one; may be NULL. done: number of
       layers created so far; of: number of all layers. */
    void (*progress)(void *user, int64_t done, int64_t of);
    void *progress_user;
} syn_model_options;

/* Creates the parameters and, on devices with data, fills them. The context must outlive the
 * model. */
syn_status syn_model_new(syn_model **out, syn_ctx *ctx, const syn_model_config *config,
                         const syn_model_options *options, syn_error *err) SYN_MUST_USE;
/* The units in which ZeRO 3 gathers the model's parameters: the embedding, each layer, and the head
   with the final norm. If embedding and head of this part share a table, they are one unit. Sets
   units[i] of each of this model's parameters, numbered from `first`, and *head to the unit of the
   head, or UINT32_MAX. Returns the number after the last unit. */
uint32_t syn_model_units(const syn_model *m, uint32_t first, uint32_t *units, uint32_t *head);
/* NULL is allowed. */
void syn_model_free(syn_model *model);
/* Dropout in training: the probabilities with which elements of the embedding, of attention
 * weights, and of the outputs of attention and MLP become zero. They are transformers' embd_pdrop,
 * attn_pdrop and resid_pdrop; BERT's hidden_dropout_prob is both `embedding` and `residual`. */
typedef struct syn_model_dropout {
    double embedding, attention, residual; /* in [0, 1) */
    uint64_t seed;
    syn_tensor keys; /* (B) i32: a number per sample, from which the sample's masks are generated,
                        so that masks do not depend on the number of ranks (syn_dropout).
                        SYN_NO_KEYS: the sample's index in the batch */
} syn_model_dropout;
/* Sets the dropout of later forward passes whose results require gradients. NULL, the default,
 * turns dropout off. Copies *dropout. */
void syn_model_set_dropout(syn_model *model, const syn_model_dropout *dropout);
/* Adds rate * sign(mean - count) to the biases of all routers of n models, whose options.router has
 * `count`: count is the number of rows of an expert since the last update, in all forward passes
 * and on all ranks of `stage` (NULL: only this rank). Starts counting again (Wang et al. 2024,
 * "Auxiliary-Loss-Free Load Balancing"). */
void syn_model_update_router_biases(syn_model *const *models, int n, double rate,
                                    const syn_group *stage);
const syn_model_config *syn_model_get_config(const syn_model *model);
syn_ctx *syn_model_ctx(const syn_model *model);
const syn_group *syn_model_tp(const syn_model *model);
const syn_model_part *syn_model_get_part(const syn_model *model);
/* Name of the token table's parameter; buf receives it. */
const char *syn_model_token_table(const syn_model_config *config, char *buf, size_t buf_bytes);
/* Name of the parameter that embedding and head share; buf receives it. NULL if the configuration
 * ties nothing. */
const char *syn_model_tied_parameter(const syn_model_config *config, char *buf, size_t buf_bytes);

SYN_API_END
#endif
