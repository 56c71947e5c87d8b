/* Internal. Describes a model family by tables of its configuration keys and parameters and by
 * functions that compute its layers. All other code is common to all families (config.c, model.c,
 * causal.c, weights*.c). */
#ifndef MODELS_FAMILY_PRIVATE_H
#define MODELS_FAMILY_PRIVATE_H

#include "models/config_private.h"
#include "models/layers.h"
#include "models/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- parameters ---- */

/* Dimensions, computed from a configuration. */
typedef enum syn__dim {
    SYN__DIM_TWO,
    SYN__DIM_HIDDEN,
    SYN__DIM_TWO_HIDDEN,
    SYN__DIM_HEAD,
    SYN__DIM_HEADS,   /* the number of query heads */
    SYN__DIM_QUERIES, /* head_dim times the number of query heads */
    SYN__DIM_KEYS,
    SYN__DIM_QKV, /* queries, keys and values in one matrix; requires equal numbers of query and
                     key/value heads (syn_model_config_check) */
    SYN__DIM_INNER,
    SYN__DIM_ONE,
    SYN__DIM_EXPERTS,
    SYN__DIM_EXPERT_INNER,
    SYN__DIM_SHARED_INNER,
    /* With latent attention: */
    SYN__DIM_Q_LATENT,
    SYN__DIM_KV_LATENT,
    SYN__DIM_LATENT_AND_ROPE, /* the latent and the rotary part of the keys */
    SYN__DIM_LATENT_HEADS,    /* the rest of the keys, and the values, of all heads */
    SYN__DIM_VALUES,          /* the values of all heads */
    SYN__DIM_VOCAB,
    SYN__DIM_POSITIONS,
    SYN__DIM_TYPES
} syn__dim;

/* The order of a column-parallel layer's output, which determines the columns that a rank has. */
typedef enum syn__layout {
    SYN__CONTIGUOUS,  /* each rank has one range of columns, such as whole heads */
    SYN__QKV_BLOCKS,  /* all queries, then all keys, then all values; each rank has a range of
                       * each */
    SYN__SHARED_HEADS /* each rank has one range; if there are fewer heads than ranks, several ranks
                       * have the same range */
} syn__layout;

typedef enum syn__param_kind {
    SYN__NORM,              /* syn_layer_norm (to) */
    SYN__RMS_NORM,          /* the same without a bias */
    SYN__COLUMN_LINEAR,     /* syn_layer_linear (from) -> (to), `to` sharded */
    SYN__ROW_LINEAR,        /* syn_layer_linear, `from` sharded */
    SYN__REPLICATED_LINEAR, /* syn_layer_linear, whole on every rank */
    SYN__EXPERTS_COLUMN, /* syn_layer_linear of every expert (experts, to, from), `to` sharded. If
                          * the name has a "*", checkpoints have the expert's number in its place:
                          * they store each expert's matrix (to, from), without a bias. Otherwise
                          * they store a stack (see `stacked`) */
    SYN__EXPERTS_ROW,    /* the same, `from` sharded */
    SYN__HEADS, /* syn_tensor (to), one number per query head, sharded like the heads, named
                 * <name> */
    SYN__TABLE, /* syn_tensor (from, to), a lookup table, whole on every rank, in options.dtype */
    SYN__VOCAB_TABLE, /* syn_tensor (from, to), sharded by rows */
    SYN__VOCAB_BIAS,  /* syn_tensor (from), sharded like the table */
    SYN__BUFFER, /* syn_tensor (to) f32, whole on every rank and not trained (syn_buffer), named
                  * <name> */
    /* In checkpoints only: */
    SYN__BIAS_ALIAS, /* another name of the bias `tied`; if a checkpoint has both, the tensor with
                      * this name is read */
    SYN__IGNORED     /* constants that old versions of transformers saved; not read */
} syn__param_kind;

enum {
    SYN__RESIDUAL = 1,  /* the standard deviation of the random weights is divided by sqrt(2
                         * n_layer) */
    SYN__NO_BIAS = 2,   /* a linear layer without a bias */
    SYN__NO_PREFIX = 4, /* the name in checkpoints is without the family's prefix */
    /* The linear layer has a bias only with: */
    SYN__QKV_BIAS = 8,   /* config.qkv_bias or attention_bias */
    SYN__OUT_BIAS = 16,  /* config.attention_bias */
    SYN__MLP_BIAS = 32,  /* config.mlp_bias */
    SYN__HEAD_NORM = 64, /* exists only with config.head_norm */
    /* In models with experts: */
    SYN__DENSE = 128,        /* exists only in layers without experts */
    SYN__SPARSE = 256,       /* only in layers with experts */
    SYN__SHARED = 512,       /* only with a shared expert */
    SYN__SHARED_GATE = 1024, /* only with config.experts.shared_gate */
    SYN__ROUTER_BIAS = 2048, /* only with config.experts.biased */
    /* With latent attention: */
    SYN__Q_LATENT = 4096, /* exists only if queries are computed from a latent */
    SYN__Q_DIRECT = 8192  /* only if they are not */
};

/* A layer or table of the model. Its parameters are named <name>.weight and <name>.bias, within a
 * layer with a prefix such as "h.3.". HEADS, BUFFER and IGNORED tensors are named <name>. */
typedef struct syn__param_row {
    const char *name; /* HuggingFace's name; NULL ends a list */
    syn__param_kind kind;
    syn__dim from, to;
    syn__layout layout; /* of `to` */
    size_t at; /* offset of the member in the family's or the layer's struct of parameters */
    unsigned flags;
    unsigned heads;   /* exists only with one of these heads (syn_model_options); 0: always */
    const char *tied; /* VOCAB_TABLE: the table that tied models use instead; BIAS_ALIAS: the bias
                       * that the row is another name of */
    /* COLUMN_LINEAR without a bias: name of the matrix of which checkpoints have this one as a
     * part; NULL: they have this one. The parts' rows follow each other in the order of the table.
     * from_end: this part begins from_end times its size before the end of the matrix; 0: it is the
     * first part. */
    const char *file;
    int from_end;
    /* EXPERTS_COLUMN, EXPERTS_ROW without a "*": checkpoints have the matrices of all experts in
     * one tensor `file` (experts, from, stacked * to). In its last dimension `stacked` matrices
     * alternate, of which this is number from_end. The biases are in <file>_bias. A checkpoint may
     * have the same matrices in MXFP4 instead (weights_stack.c). */
    int stacked;
} syn__param_row;

/* The row of the parameter with this name (the library's name). NULL: the family has no such
 * parameter. */
const syn__param_row *syn__family_row(const syn_model_family *family, const char *parameter);
/* The number of the layer that a parameter belongs to. -1: the family does not have the parameter,
 * or it is not in a layer. */
int64_t syn__family_layer(const syn_model_family *family, const char *parameter);
/* The BIAS_ALIAS row of `parameter`. NULL: the parameter has no other name. */
const syn__param_row *syn__family_alias_row(const syn_model_family *family, const char *parameter);
int64_t syn__family_dim(const syn_model_config *config, syn__dim dim);
/* layer: number of the row's layer; -1 for rows outside layers. */
bool syn__family_has_row(const syn_model_config *config, const syn__param_row *row, unsigned heads,
                         int64_t layer);
bool syn__family_has_bias(const syn_model_config *config, const syn__param_row *row);
int64_t syn__model_config_head_dim(const syn_model_config *config);
/* ---- rotary positions (rotary.c) ---- */

/* Number of element pairs of a head that are rotated. */
int64_t syn__rotary_pairs(const syn_model_config *config);
/* Writes the frequency of each pair. tokens: length of the sequence, which only SYN_ROPE_DYNAMIC
 * and SYN_ROPE_LONGROPE use. */
void syn__rotary_frequencies(const syn_model_config *config, int64_t tokens, float *out);
/* Whether the frequencies of a sequence of `tokens` tokens differ from those of short ones. */
bool syn__rotary_is_long(const syn_model_config *config, int64_t tokens);
/* The factor by which cosines and sines are multiplied. */
double syn__rotary_factor(const syn_model_config *config);
/* The rotary settings of config.json, with transformers' precedence: rope_scaling replaces
 * rope_parameters as a whole, and top-level keys supply what the chosen group omits. */
#define SYN__ROWS_ROTARY \
    SYN__ROWS_ROTARY_AS("rope_theta", "partial_rotary_factor", syn__rotary_write)
/* The same for a family with other names of the top-level keys, or with another function that
 * writes the settings. */
#define SYN__ROWS_ROTARY_AS(theta_key, part_key, write_) \
    SYN__ROWS_ROTARY_OF(theta_key, part_key, write_, syn__rotary_table)
/* The same with another table of the group's keys. */
#define SYN__ROWS_ROTARY_OF(theta_key, part_key, write_, table_)                   \
    SYN__ROWS_ROTARY_TOP_LEVEL(theta_key, part_key),                               \
        {.key = "rope_parameters",                                                 \
         .type = SYN__SETTING_GROUP,                                               \
         .flags = SYN__NULLABLE | SYN__SAVED,                                      \
         .offset = SYN__AT(rotary),                                                \
         .group = &(table_),                                                       \
         .write = (write_)},                                                       \
    {                                                                              \
        .key = "rope_scaling", .type = SYN__SETTING_GROUP, .flags = SYN__NULLABLE, \
        .offset = offsetof(syn__config_file, rope_scaling), .group = &(table_)     \
    }
#define SYN__ROWS_ROTARY_TOP_LEVEL(theta_key, part_key)                                    \
    SYN__ROW_F64(theta_key, 0, offsetof(syn__config_file, top_level.theta), 1.0001, 1e12), \
        SYN__ROW_F64(part_key, 0, offsetof(syn__config_file, top_level.part), 0.001, 1)
/* For presets and defaults: rotary embedding with base theta_, without scaling, of the fraction
 * part_ of each head. */
#define SYN__ROTARY(theta_, part_) \
    { .theta = (theta_), .part = (part_), .fast = 32, .slow = 1, .truncate = true }
extern const syn__setting_table syn__rotary_table;
extern const syn__setting_table syn__longrope_table; /* for families with longrope, and no other
                                                      * scaling */
void syn__rotary_write(syn_sink *out, const void *member);
void syn__rotary_write_group(syn_sink *out, const syn_rotary *rotary); /* the group's value */
/* Checks local_rotary. */
syn_status syn__rotary_check_local(syn__settings *s, syn_model_config *config) SYN_MUST_USE;
syn_status syn__rotary_check(syn__settings *s, const syn__setting_table *table,
                             syn__config_file *file) SYN_MUST_USE;

/* ---- the family ---- */

struct syn_model_family {
    const char *name;         /* "gpt" */
    const char *title;        /* "GPT-2", for messages */
    const char *const *types; /* values of model_type in files, NULL-terminated; the first is
                               * written */
    syn_tokenizer_kind tokenizer;
    /* Configurations. */
    const syn_model_config *defaults, *presets;
    size_t n_presets;
    const syn__setting_table *fields; /* the key table, for a syn__config_file */
    /* Called after all keys were read: checks conditions on several keys and sets defaults that
     * depend on other keys. May be NULL. */
    syn_status (*check_file)(syn__settings *s, const syn__setting_table *fields,
                             syn__config_file *file);
    syn_status (*check)(const syn_model_config *config,
                        syn_error *err); /* checks any configuration, from a file or not; may be
                                          * NULL */
    const char *architecture;            /* name of transformers' class; NULL: class_of returns
                                          * it */
    const char *(*class_of)(unsigned heads);
    /* Parameters, in the order in which they are created. Their names in checkpoints begin with
     * `prefix`. */
    const char *prefix, *layers; /* "transformer.", "h" of "h.3" */
    const syn__param_row *embed_rows, *layer_rows, *head_rows;
    bool out_in; /* see syn_initializer */
    size_t params_bytes, layer_bytes;
    /* Computation. x (B, T, C) is the same on all ranks. */
    syn_tensor (*layer)(syn_model *m, void *layer, int64_t i, syn_tensor x); /* -> (B, T, C) */
    /* Only causal language models, otherwise NULL. embed: tokens (B, T) -> (B, T, C). head_scope:
     * scope of the final norm and the output head. */
    syn_tensor (*embed)(syn_model *m, syn_tensor tokens);
    const char *head_scope;
    const char *attention; /* name of KV caches: "h.3.<attention>.k_cache" */
    bool mxfp4;            /* checkpoints may have the experts' matrices in MXFP4 */
    size_t sinks_at;       /* offset of the attention sinks (H/tp), a syn_tensor, in the layer's
                            * struct; 0: none */
    bool same_layers;      /* all layers have the same attention: the layer_types of a file must be
                            * equal */
};

#define SYN__PRESETS(list) .presets = (list), .n_presets = sizeof(list) / sizeof((list)[0])

/* A layer for multi-token prediction, besides the parameters of an ordinary layer. Its number
 * follows that of the model's last layer. */
typedef struct syn__mtp {
    syn_layer_norm token_norm, hidden_norm; /* of the token's embedding and of the hidden state */
    syn_layer_linear proj;                  /* (C, 2C/tp), of both */
    syn_layer_norm norm;                    /* before the head */
} syn__mtp;
extern const syn__param_row syn__mtp_rows[];

/* The registered family number i, or NULL after the last one. Files without a model_type belong to
 * family 0. */
const syn_model_family *syn__family(size_t i);

/* ---- a model ---- */

typedef struct syn__kv_cache {
    /* Current versions, (B, G/tp, max_tokens, D). With latent attention, k has the latents and the
     * rotary parts of the keys, (B, 1, max_tokens, latent + rotary part), and v is invalid. */
    syn_tensor k, v;
} syn__kv_cache;

struct syn_model {
    syn_ctx *ctx;
    syn_model_config config;
    syn_model_options options;
    syn_model_part part;
    void *params;          /* the family's struct of parameters */
    char *layers;          /* a struct of layer_bytes for each layer, the last ones for multi-token
                            * prediction */
    syn__mtp *mtp;         /* part.mtp structs */
    syn_tensor mtp_tokens; /* the token table that they use */
    struct syn__recompute_arg {
        syn_model *model;
        int64_t layer;
    } * runs; /* per layer: the argument of its recomputation */
    /* Per layer, with options.router.count: the router's bias, and the state that counts the rows
     * of experts; invalid in layers without experts. */
    struct syn__router {
        syn_tensor bias, counts;
    } * routers;
    size_t *unit_ends;  /* number of the context's parameters before the model's, and after its
                         * embedding, each layer and its head */
    syn_tensor visible; /* mask (B, S) of the current step: 0, or -infinity for masked keys;
                         * invalid: no mask */
    /* State of the sequences that a causal model generates. */
    syn__kv_cache *caches; /* by layer */
    int64_t batch, max_tokens, position;
    int32_t *padding; /* (B) padding tokens at the start of each sequence; NULL: none */
    bool training;    /* computes whole sequences, without caches */
    int64_t pass;     /* with context parallelism: number of the forward pass within the step */
    uint32_t step;    /* of this pass */
    bool cut;         /* sequence parallelism in the current step: between sharded layers, x is this
                       * rank's tokens (B, T/tp, C) */
    /* Rotary embedding. short_frequencies: for short sequences (syn__rotary_is_long).
     * frequencies: those of the current step, which differ if its sequence is longer. places:
     * position ids (B or 1, max_tokens). positions: the current step's slice of `places`. */
    syn_tensor short_frequencies, frequencies, places, positions;
    syn_tensor local_frequencies; /* those of config.local_rotary; invalid: none */
    /* Serving (paged.h): the caches are (1, G/tp, blocks * block_tokens, D), and (1, 1, slots,
     * latent + rotary part) with latent attention. 0: they are not paged. step, slots and table:
     * the packed step that is running; step NULL: none. */
    struct syn__paged {
        int64_t blocks, block_tokens;
        const struct syn_packed_step *step;
        syn_tensor slots, table; /* (T): the slots of the new tokens; (n, max_blocks) */
        struct syn__cache_transfer *transfer; /* cache_transfer.h; NULL: none */
    } paged;
    syn_model_dropout dropout;
    syn_tensor mask; /* (B, max_tokens), -infinity at padding; `visible` is the current step's
                      * slice */
};

int syn__model_tp(const syn_model *m);
/* Whether ranks send tokens to the ranks that have the experts. */
bool syn__model_dispatches(const syn_model *m);
int64_t syn__model_head_dim(const syn_model *m);
/* Whether this part may lack the parameter, because the parameter belongs to another part of the
 * model, or because it is the token table, which another part may have created. */
bool syn__model_lacks_param(const syn_model *m, const char *parameter);
/* Whether x is a valid input of the part: tokens (B, T) i32, or (B, T, C) in the model's dtype if
 * the part has no embedding, with B and T at least `least`. If not, the context fails. */
bool syn__model_accepts(const syn_model *m, syn_tensor x, int64_t least);
/* Runs x (B, T, C) through all layers of the part. After each layer, releases everything created
 * since the mark except its result. */
syn_tensor syn__model_layers(syn_model *m, syn_tensor x, syn_mark mark);
/* Runs layer i of the part; those for multi-token prediction follow the others. */
syn_tensor syn__model_layer(syn_model *m, int64_t i, syn_tensor x);
syn_tensor syn__model_norm(syn_model *m, syn_tensor x, const syn_layer_norm *norm,
                           const char *label);
/* The same for x that consists of this rank's heads. Every rank has the whole norm, so the norm's
 * gradient is summed over the ranks. */
syn_tensor syn__model_shared_norm(syn_model *m, syn_tensor x, const syn_layer_norm *norm,
                                  const char *label);
/* The norm of x (..., H D/tp) over the heads of all ranks. copies: number of ranks that have the
 * same heads. */
syn_tensor syn__model_wide_norm(syn_model *m, syn_tensor x, const syn_layer_norm *norm, int copies,
                                const char *label);
/* Sets the rotary frequencies for a sequence of `tokens` tokens. Creates them unless existing ones
 * can be used. */
void syn__model_set_frequencies(syn_model *m, int64_t tokens);
/* The position ids (i32) of n tokens, the first of which has position `first`. Without padding the
   shape is (1, n). With padding it is (batch, n), and positions count from each sequence's first
   token after the padding, as in HuggingFace's generate. */
syn_tensor syn__model_count_positions(syn_model *m, int64_t first, int64_t batch, int64_t n,
                                      const int32_t *padding);
/* The same from position 0 on. Returns the invalid tensor if the model has no rotary embedding. */
syn_tensor syn__model_position_ids(syn_model *m, int64_t batch, int64_t n, const int32_t *padding);
/* x (..., C) -> this rank's keys or values (..., G D/tp). Several ranks may have the same heads. */
syn_tensor syn__model_kv_linear(syn_model *m, syn_tensor x, const syn_layer_linear *l,
                                const char *label);
/* The current version of a parameter that all tensor-parallel ranks have, and of whose gradient
 * each rank computes a part. */
syn_tensor syn__model_replicated(syn_model *m, syn_tensor parameter);
/* Applies the rotary embedding to x (B, H, T, D). first: the first element of each head that is
 * rotated. The second function applies the embedding of layer i, which may differ from the others'
 * or have none, to whole heads. */
syn_tensor syn__model_apply_rotary(syn_model *m, syn_tensor x, int64_t first);
syn_tensor syn__model_apply_layer_rotary(syn_model *m, int64_t i, syn_tensor x);
syn_tensor syn__model_activate(syn_model *m, syn_tensor x);
/* x times `factor`, named `label`; x itself if the factor is 0 or 1. */
syn_tensor syn__model_scale(syn_model *m, syn_tensor x, double factor, const char *label);
/* The places in a model that have dropout. */
typedef enum syn__site {
    SYN__SITE_EMBEDDING,
    SYN__SITE_ATTENTION,
    SYN__SITE_ATTENTION_OUT,
    SYN__SITE_MLP_OUT
} syn__site;
/* In training, applies dropout to x (B, T, C), which is the same on all ranks or, with m->cut, is
 * this rank's tokens; otherwise returns x. i: number of the layer within the part. */
syn_tensor syn__model_drop(syn_model *m, syn_tensor x, int64_t i, syn__site site);
/* The same for x (B, T, C) with all tokens, also with m->cut. */
syn_tensor syn__model_drop_whole(syn_model *m, syn_tensor x, int64_t i, syn__site site);
/* The conversions around sharded layers; without tensor parallelism they return x. Before
 * column-parallel layers: x -> (B, T, C), all tokens on every rank. */
syn_tensor syn__model_enter(syn_model *m, syn_tensor x);
/* After a row-parallel layer: y (B, T, C), this rank's partial sum -> the sum plus bias (or
 * SYN_NO_BIAS), all tokens or with m->cut this rank's. */
syn_tensor syn__model_reduce(syn_model *m, syn_tensor y, syn_tensor bias);
/* Looks up tokens (B, T) in a table that is sharded over the ranks -> (B, T, C), all tokens or with
 * m->cut this rank's. */
syn_tensor syn__model_embed(syn_model *m, syn_tensor table, syn_tensor tokens);
/* x (B, T, C), the same on all ranks -> with m->cut this rank's tokens. */
syn_tensor syn__model_cut(syn_model *m, syn_tensor x);
/* The opposite: all tokens on every rank, for results. Not for training. */
syn_tensor syn__model_whole(syn_model *m, syn_tensor x);
/* Number of tokens T of the sequences in x, an input of the part in training: with sequence
 * parallelism, a part without the embedding gets (B, T/tp, C). */
int64_t syn__model_tokens(const syn_model *m, syn_tensor x);
/* Whether T tokens can be divided: sets m->cut. In training they must; otherwise the context
 * fails. */
bool syn__model_set_cut(syn_model *m, int64_t tokens, bool training);
/* A branch of a layer, attention or MLP. It consists of the norm, the function `inside`, and a
 * row-parallel layer whose output is added to the branch's input. */
typedef struct syn__branch {
    const char *scope;
    const syn_layer_norm *norm; /* NULL: none */
    const char *norm_label;
    /* Normalized x (B, T, C) -> (B, T, in/tp), the input of `out`. Without `out`, the output of the
     * branch: (B, T, C), all tokens or with m->cut this rank's. */
    syn_tensor (*inside)(syn_model *m, const void *layer, int64_t i, syn_tensor x);
    const syn_layer_linear *out; /* NULL: none; only in sequential layers */
    const char *out_label;
    syn__site site; /* where dropout is applied to the branch's output */
} syn__branch;
/* Runs x (B, T, C) through the branches of layer i, attention first (branches.c). Sequential: the
 * second branch reads the result of the first, and each branch needs an all-reduce. Parallel: both
 * branches read x, and one all-reduce of their sum is enough. */
syn_tensor syn__model_sequential(syn_model *m, const void *layer, int64_t i, syn_tensor x,
                                 const syn__branch branches[2]);
syn_tensor syn__model_parallel(syn_model *m, const void *layer, int64_t i, syn_tensor x,
                               const syn__branch branches[2]);
/* Sequential, with a norm of each branch's output. */
typedef struct syn__post_norm {
    const syn_layer_norm *norm;
    const char *label;
} syn__post_norm;
syn_tensor syn__model_post_norm(syn_model *m, const void *layer, int64_t i, syn_tensor x,
                                const syn__branch branches[2], const syn__post_norm norms[2]);
/* Attention of layer i: queries (B, H, T, D), keys and values (B, G, S, D) -> (B, T, H D). It is
 * causal in causal models. */
syn_tensor syn__model_attend(syn_model *m, int64_t i, syn_tensor q, syn_tensor k, syn_tensor v);

/* Causal models: runs whole sequences through the part, without caches. x: tokens (B, T), or (B, T,
 * C) if the part has no embedding -> the last layer's output (B, T, C). mask: (B, T) or
 * SYN_NO_MASK. places: the result of syn__model_position_ids for one sequence of T tokens. */
syn_tensor syn__causal_sequences(syn_model *m, syn_tensor x, syn_tensor mask, syn_tensor places,
                                 syn_mark mark);
/* syn__causal_norm applies the final norm to x (..., C). From a normalized x (N, C),
 * syn__causal_logits computes this rank's logits (N, V/tp), including those of the vocabulary's
 * padding, and syn__causal_all_logits computes all logits (N, V0). */
syn_tensor syn__causal_norm(syn_model *m, syn_tensor x);
syn_tensor syn__causal_logits(syn_model *m, syn_tensor x);
syn_tensor syn__causal_all_logits(syn_model *m, syn_tensor x);
/* Appends keys or values (B, G, T, D) to the cache of layer i and returns everything in the cache.
 * In training, returns the input. */
syn_tensor syn__causal_keys(syn_model *m, int64_t i, syn_tensor k);
syn_tensor syn__causal_values(syn_model *m, int64_t i, syn_tensor v);
/* In a generation step with padding, returns the position ids (B, n) of the step's n tokens; in a
   training step with context parallelism, those of the rank's tokens, (1, n); in a packed step,
   (1, n).
   Otherwise returns the invalid tensor: all sequences then have the same consecutive positions. */
syn_tensor syn__causal_positions(syn_model *m, int64_t n);

#ifdef __cplusplus
}
#endif
#endif
