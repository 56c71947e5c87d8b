/* A family of models: what is its own, as data and three functions. The rest (config.c, model.c,
   causal.c, weights*.c) is every family's. Internal. */
#ifndef MODELS_FAMILY_PRIVATE_H
#define MODELS_FAMILY_PRIVATE_H

#include "models/config_private.h"
#include "models/layers.h"
#include "models/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- parameters ---- */

/* Lengths that follow from a configuration. */
typedef enum syn__dim {
    SYN__DIM_TWO,
    SYN__DIM_HIDDEN,
    SYN__DIM_HEAD,
    SYN__DIM_QUERIES, /* of all heads together; so below */
    SYN__DIM_KEYS,
    SYN__DIM_QKV, /* queries, keys and values in one matrix: needs as many heads of keys as of
                     queries (syn_model_config_check) */
    SYN__DIM_INNER,
    SYN__DIM_VOCAB,
    SYN__DIM_POSITIONS,
    SYN__DIM_TYPES
} syn__dim;

/* How a column-parallel layer's output is ordered, hence which columns a rank holds. */
typedef enum syn__layout {
    SYN__CONTIGUOUS,  /* one run of columns, such as whole heads */
    SYN__QKV_BLOCKS,  /* all queries, then all keys, then all values: a run of each */
    SYN__SHARED_HEADS /* one run, which several ranks hold if there are fewer heads than ranks */
} syn__layout;

typedef enum syn__param_kind {
    SYN__NORM,              /* syn_layer_norm (to) */
    SYN__RMS_NORM,          /* the same without a bias */
    SYN__COLUMN_LINEAR,     /* syn_layer_linear (from) -> (to), `to` cut among the ranks */
    SYN__ROW_LINEAR,        /* syn_layer_linear, `from` cut */
    SYN__REPLICATED_LINEAR, /* syn_layer_linear, whole on every rank */
    SYN__TABLE,       /* syn_tensor (from, to), whole, never narrower than what is computed: rows
                         that are looked up */
    SYN__VOCAB_TABLE, /* syn_tensor (from, to), rows cut */
    SYN__VOCAB_BIAS,  /* syn_tensor (from), cut alike */
    /* Only in files: */
    SYN__BIAS_ALIAS, /* another name of the bias `tied`, which counts where both are there */
    SYN__IGNORED     /* constants that old versions of transformers saved */
} syn__param_kind;

enum {
    SYN__RESIDUAL = 1,  /* random weights: deviation divided by sqrt(2 n_layer) */
    SYN__NO_BIAS = 2,   /* of a linear layer */
    SYN__NO_PREFIX = 4, /* the family's prefix does not stand before it in a file */
    /* A linear layer that has a bias only if the configuration says so: */
    SYN__QKV_BIAS = 8,  /* config.qkv_bias or attention_bias */
    SYN__OUT_BIAS = 16, /* config.attention_bias */
    SYN__MLP_BIAS = 32, /* config.mlp_bias */
    SYN__HEAD_NORM = 64 /* made only if config.head_norm */
};

/* A layer or table. Its parameters are called <name>.weight and <name>.bias, an IGNORED one <name>;
   in a layer behind "h.3.". */
typedef struct syn__param_row {
    const char *name; /* HuggingFace's; NULL ends a list */
    syn__param_kind kind;
    syn__dim from, to;
    syn__layout layout; /* of `to` */
    size_t at;          /* of the member in the family's parameters, or in those of a layer */
    unsigned flags;
    unsigned heads;   /* made only with one of these (see syn_model_options); 0: always */
    const char *tied; /* VOCAB_TABLE: the table that it is in tied models; BIAS_ALIAS: the bias */
} syn__param_row;

/* The row of a parameter of the library; NULL: the family has none of that name. */
const syn__param_row *syn__family_row(const syn_model_family *family, const char *parameter);
/* The layer that a parameter is of; -1: none of the family's, or not in a layer. */
int64_t syn__family_layer(const syn_model_family *family, const char *parameter);
/* The row of `parameter`'s second name; NULL: it has none. */
const syn__param_row *syn__family_alias_row(const syn_model_family *family, const char *parameter);
int64_t syn__family_dim(const syn_model_config *config, syn__dim dim);
bool syn__family_has_row(const syn_model_config *config, const syn__param_row *row, unsigned heads);
bool syn__family_has_bias(const syn_model_config *config, const syn__param_row *row);
int64_t syn__model_config_head_dim(const syn_model_config *config); /* D, of a head */

/* ---- rotary positions (rotary.c) ---- */

/* Pairs of a head's elements that are turned. */
int64_t syn__rotary_pairs(const syn_model_config *config);
/* The frequency of each, of a text of so many tokens, which only "dynamic" looks at. */
void syn__rotary_frequencies(const syn_model_config *config, int64_t tokens, float *out);
/* Of cosines and sines. */
double syn__rotary_factor(const syn_model_config *config);
/* The entries of a file, which count in transformers' order: rope_scaling stands for the whole of
   rope_parameters, and what the group that counts does not say is beside it. */
#define SYN__ROWS_ROTARY \
    SYN__ROWS_ROTARY_AS("rope_theta", "partial_rotary_factor", syn__rotary_write)
/* The same of a family with other keys beside the groups, or with another writer of them all. */
#define SYN__ROWS_ROTARY_AS(theta_key, part_key, write_)                                \
    SYN__ROWS_ROTARY_TOP_LEVEL(theta_key, part_key),                                    \
        {.key = "rope_parameters",                                                      \
         .type = SYN__SETTING_GROUP,                                                    \
         .flags = SYN__NULLABLE | SYN__SAVED,                                           \
         .offset = SYN__AT(rotary),                                                     \
         .group = &syn__rotary_table,                                                   \
         .write = (write_)},                                                            \
    {                                                                                   \
        .key = "rope_scaling", .type = SYN__SETTING_GROUP, .flags = SYN__NULLABLE,      \
        .offset = offsetof(syn__config_file, rope_scaling), .group = &syn__rotary_table \
    }
#define SYN__ROWS_ROTARY_TOP_LEVEL(theta_key, part_key)                                 \
    SYN__ROW_F64(theta_key, 0, offsetof(syn__config_file, beside.theta), 1.0001, 1e12), \
        SYN__ROW_F64(part_key, 0, offsetof(syn__config_file, beside.part), 0.001, 1)
/* Of presets, and of a family's defaults: by this theta, so much of each head; not scaled. */
#define SYN__ROTARY(theta_, part_) \
    { .theta = (theta_), .part = (part_), .fast = 32, .slow = 1, .truncate = true }
extern const syn__setting_table syn__rotary_table;
void syn__rotary_write(syn_sink *out, const void *member);
syn_status syn__rotary_check(syn__settings *s, const syn__setting_table *table,
                             syn__config_file *file) SYN_MUST_USE;

/* ---- the family ---- */

struct syn_model_family {
    const char *name;         /* "gpt" */
    const char *title;        /* "GPT-2", for sentences */
    const char *const *types; /* model_type in files, NULL-ended; the first is written */
    syn_tokenizer_kind tokenizer;
    /* Configurations. */
    const syn_model_config *defaults, *presets;
    size_t n_presets;
    const syn__setting_table *fields; /* of syn__config_file */
    /* What no single field shows, after the fields; NULL: nothing. */
    syn_status (*check_file)(syn__settings *s, const syn__setting_table *fields,
                             syn__config_file *file);
    syn_status (*check)(const syn_model_config *config, syn_error *err); /* likewise, of any */
    const char *architecture; /* transformers' class; NULL: class_of tells */
    const char *(*class_of)(unsigned heads);
    /* Parameters, in the order in which they are made; names in files begin with `prefix`. */
    const char *prefix, *layers; /* "transformer.", "h" of "h.3" */
    const syn__param_row *embed_rows, *layer_rows, *head_rows;
    bool out_in; /* see syn_initializer */
    size_t params_bytes, layer_bytes;
    /* Computation. x (B, T, C), the same on all ranks. */
    syn_tensor (*layer)(syn_model *m, void *layer, int64_t i, syn_tensor x); /* -> (B, T, C) */
    /* Of causal language models, else NULL: tokens (B, T) -> (B, T, C); the scope of the head,
       whose rows are the last normalisation and the table of words. */
    syn_tensor (*embed)(syn_model *m, syn_tensor tokens);
    const char *head_scope;
    const char *attention; /* the caches of layer 3 are called "h.3.<attention>.k_cache" */
};

#define SYN__PRESETS(list) .presets = (list), .n_presets = sizeof(list) / sizeof((list)[0])

/* The registry: family i, NULL behind the last. The first is that of files without a type. */
const syn_model_family *syn__family(size_t i);

/* ---- a model ---- */

typedef struct syn__kv_cache {
    syn_tensor k, v; /* (B, G/tp, max_tokens, D): newest versions */
} syn__kv_cache;

struct syn_model {
    syn_ctx *ctx;
    syn_model_config config;
    syn_model_options options;
    syn_model_part part;
    void *params; /* of the family */
    char *layers; /* part.n_layers of layer_bytes */
    struct syn__recompute_arg {
        syn_model *model;
        int64_t layer;
    } * runs;           /* of each layer: what a region that runs again is given */
    syn_tensor visible; /* (B, S): 0 where a key counts, -infinity where not; poisoned: all count */
    /* The texts that a causal model continues. */
    syn__kv_cache *caches; /* by layer */
    int64_t batch, max_tokens, position;
    int32_t *padding; /* (B) tokens at the start of each text that count for nothing; NULL */
    bool training;    /* whole texts, without caches */
    /* Rotary: of pairs, made with the model; of this step, whose text may be too long for those;
       places (B or 1, max_tokens), of which positions are this step's part. */
    syn_tensor short_frequencies, frequencies, places, positions;
    syn_model_dropout dropout;
    syn_tensor mask; /* (B, max_tokens): of which `visible` is a step's part */
};

int syn__model_tp(const syn_model *m);
int64_t syn__model_head_dim(const syn_model *m); /* D, of a head */
/* Whether a parameter of the whole model need not be asked for by this part: it is another's, or
   the table that another may have made. */
bool syn__model_lacks_param(const syn_model *m, const char *parameter);
/* Whether x is what the part takes: tokens (B, T) i32, or, without the embedding, (B, T, C) of the
   model's dtype; B and T at least `least`. If not, the context fails. */
bool syn__model_accepts(const syn_model *m, syn_tensor x, int64_t least);
/* x (B, T, C) through all layers of the part. Behind each all that was made since the mark is
   released but its result. */
syn_tensor syn__model_layers(syn_model *m, syn_tensor x, syn_mark mark);
syn_tensor syn__model_norm(syn_model *m, syn_tensor x, const syn_layer_norm *norm,
                           const char *label);
/* The same of x (..., D/tp ranks' own), where all ranks have the norm whole: its gradient is summed
   over them. */
syn_tensor syn__model_shared_norm(syn_model *m, syn_tensor x, const syn_layer_norm *norm,
                                  const char *label);
/* Makes the frequencies for a text of so many tokens, if they are not those that are there. */
void syn__model_set_frequencies(syn_model *m, int64_t tokens);
/* The positions of n tokens, (1, n), or (batch, n) behind the padding: from each text's first token
   that is none on (as HuggingFace's generate has it). Poisoned if they are not rotary. */
syn_tensor syn__model_position_ids(syn_model *m, int64_t batch, int64_t n, const int32_t *padding);
/* x (..., C) -> this rank's keys or values (..., G D/tp), which several ranks may have alike. */
syn_tensor syn__model_kv_linear(syn_model *m, syn_tensor x, const syn_layer_linear *l,
                                const char *label);
/* x (B, H, T, D) after rotary positions. */
syn_tensor syn__model_apply_rotary(syn_model *m, syn_tensor x);
syn_tensor syn__model_activate(syn_model *m, syn_tensor x);
/* Where a model drops elements. */
typedef enum syn__site {
    SYN__SITE_EMBEDDING,
    SYN__SITE_ATTENTION,
    SYN__SITE_ATTENTION_OUT,
    SYN__SITE_MLP_OUT
} syn__site;
/* x (B, T, C), the same on all ranks, after dropout in training; else x. Layer i of the part. */
syn_tensor syn__model_drop(syn_model *m, syn_tensor x, int64_t i, syn__site site);
/* A branch of a pre-norm layer, attention or MLP: it ends in a row-parallel layer, whose output is
   added to what the branch began with. */
typedef struct syn__branch {
    const char *scope;
    const syn_layer_norm *norm;
    const char *norm_label;
    /* The normalised x (B, T, C) -> (B, T, in/tp), the input of `out`. */
    syn_tensor (*inside)(syn_model *m, const void *layer, int64_t i, syn_tensor x);
    const syn_layer_linear *out;
    const char *out_label;
    syn__site site; /* of the dropout of its output */
} syn__branch;
/* x (B, T, C) through the branches of layer i (branches.c), attention first. Sequential: the second
   begins with what the first made, and each has an all-reduce. Parallel: both begin with x, and
   their sum has one. */
syn_tensor syn__model_sequential(syn_model *m, const void *layer, int64_t i, syn_tensor x,
                                 const syn__branch branches[2]);
syn_tensor syn__model_parallel(syn_model *m, const void *layer, int64_t i, syn_tensor x,
                               const syn__branch branches[2]);
/* (B, H, T, D) queries among keys and values -> (B, T, H D), causal in causal models. */
syn_tensor syn__model_attend(syn_model *m, int64_t i, syn_tensor q, syn_tensor k, syn_tensor v);

/* Of causal models. Tokens (B, T) of whole texts through a whole model, without caches, among
   which the mask (B, T), or SYN_NO_MASK, hides some -> (B, T, C), what the head stands on. The
   places are syn__model_position_ids of one text of T tokens. */
syn_tensor syn__causal_sequences(syn_model *m, syn_tensor tokens, syn_tensor mask,
                                 syn_tensor places, syn_mark mark);
/* x (..., C) through the last normalisation, and from there to this rank's logits (N, V/tp) of
   x (N, C), padding of the vocabulary among them, or to all (N, V0). */
syn_tensor syn__causal_norm(syn_model *m, syn_tensor x);
syn_tensor syn__causal_logits(syn_model *m, syn_tensor x);
syn_tensor syn__causal_all_logits(syn_model *m, syn_tensor x);
/* New keys and values (B, G, T, D) of layer i -> all so far. */
syn_tensor syn__causal_keys(syn_model *m, int64_t i, syn_tensor k);
syn_tensor syn__causal_values(syn_model *m, int64_t i, syn_tensor v);
/* With padding the positions (B, T) i32 of this step's n tokens: they count from a text's first
   token that is none (as HuggingFace's generate has it). Poisoned without: they are the next n. */
syn_tensor syn__causal_positions(syn_model *m, int64_t n);

#ifdef __cplusplus
}
#endif
#endif
