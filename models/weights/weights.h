/* Model checkpoints: reads safetensors files with HuggingFace's names into the parameters of a
   context, and writes them. FP8 matrices with a scale per block of 128 x 128, and stacks of experts
   in MXFP4, are converted when they are read. */
#ifndef MODELS_WEIGHTS_H
#define MODELS_WEIGHTS_H

#include "models/model.h"
#include "models/weights/safetensors.h"
#include "syntorch/context.h"
#include "syntorch/plan.h"

SYN_API_BEGIN

/* An open checkpoint. Immutable; the ranks of a process share it. */
typedef struct syn_weights syn_weights;

/* Opens a file, an index or a folder (syn_safetensors_open) for models of a family. Fails if the
   checkpoint belongs to another family. Converts tensor names to the library's parameter names:
   removes the family's prefix, such as "transformer." or "bert.", and changes LayerNorm.gamma and
   .beta to .weight and .bias. Fails if two names become the same. */
syn_status syn_weights_open(syn_weights **out, const char *path, const syn_model_family *family,
                            syn_error *err) SYN_MUST_USE;
void syn_weights_free(syn_weights *weights);
/* The dtype that most bytes of the checkpoint's float tensors have. */
syn_dtype syn_weights_dtype(const syn_weights *weights);

/* A hash of names, shapes, dtypes and a sample of each tensor's bytes, to check whether ranks on
   several machines opened the same checkpoint. */
uint64_t syn_weights_hash(const syn_weights *weights);

/* Whether the checkpoint has a tensor for this parameter. */
bool syn_weights_has(const syn_weights *weights, const char *parameter);

/* Tensors of the checkpoint that differ from the tensors they are tied to. A member is NULL if its
   tensors do not differ. */
typedef struct syn_weights_head {
    const char *matrix; /* the head whose .weight differs from the token table: "lm_head" */
    /* Two layers whose biases should be equal but differ. The bias of the layer `bias` is read.
       Example: bias is "cls.predictions.decoder" and other is "cls.predictions". */
    const char *bias;
    const char *other;
} syn_weights_head;
/* Compares tied tensors element by element. Tensors that are not in the checkpoint count as equal.
   If out->matrix is not NULL, create the model untied; a tied model ignores the checkpoint's head.
   Fails if shapes differ or a dtype is not supported. */
syn_status syn_weights_compare_head(const syn_weights *weights, syn_weights_head *out,
                                    syn_error *err) SYN_MUST_USE;

/* Checks whether the checkpoint lacks the token-prediction head but not the token table, as
   checkpoints of classifiers do. This is the case if a model of this configuration with these heads
   has such a head, and the checkpoint has no tensor of it. If so, returns the name of the head's
   first layer. Otherwise returns NULL: nothing is missing, or only a part of the head, or more than
   the head. */
const char *syn_weights_lacks_head(const syn_weights *weights, const syn_model_config *config,
                                   unsigned heads);

/* A rank's reader of a checkpoint. It is a source for the rank's parameters, and records which
   tensors were used and which did not match. */
typedef struct syn_weights_reader syn_weights_reader;
syn_status syn_weights_reader_new(syn_weights_reader **out, const syn_weights *weights,
                                  syn_error *err) SYN_MUST_USE;
syn_param_source syn_weights_source(syn_weights_reader *reader);
/* While parameters are filled, calls `progress` with the number of bytes read so far and the number
   of bytes of all tensors that can be parameters. Reading a shard counts as reading the whole
   tensor. NULL: no calls. */
void syn_weights_set_progress(syn_weights_reader *reader,
                              void (*progress)(void *user, int64_t done, int64_t of), void *user);
/* Checks, after the model was created, whether checkpoint and model match. Fails if a parameter is
   missing in the checkpoint, or has another shape or an unsupported dtype there. Also fails if the
   checkpoint has a tensor that is not a parameter, with these exceptions: a buffer, the scales of
   an FP8 matrix, a tied head, a head that the model was created without or that no model of the
   library has, and, if the model is a part, a tensor of the other parts. part: the part that was
   created; NULL: the whole model. The error has the number of mismatches and the first names. If
   list is not NULL, *list gets all names, one per line, or NULL if everything matches. The caller
   frees *list with syn_free. */
syn_status syn_weights_finish(const syn_weights_reader *reader, const syn_model *part, char **list,
                              syn_error *err) SYN_MUST_USE;
/* Lists the checkpoint's tensors of heads that the model does not have, in one line
   ("classifier.weight, classifier.bias (a head for classification)"). The caller frees *list with
   syn_free; NULL: none. */
syn_status syn_weights_unused(const syn_weights_reader *reader, char **list,
                              syn_error *err) SYN_MUST_USE;
void syn_weights_reader_free(syn_weights_reader *reader);

/* Parameters of which each rank has only a piece (ZeRO 3). */
typedef struct syn_weights_pieces {
    /* Number of ranks that share each shard: those with data-parallel indices 0 to n_ranks - 1. */
    int32_t n_ranks;
    /* This rank has elements *first to *first + *n - 1 of parameter number `param`
       (syn_ctx_param). */
    void (*range)(void *user, size_t param, int64_t *first, int64_t *n);
    /* Copies these n elements to `out`. They are rounded to the parameter's dtype. */
    syn_status (*read)(void *user, size_t param, float *out, size_t n, syn_error *err);
    void *user;
} syn_weights_pieces;

typedef struct syn_weights_save_options {
    const syn_model_family *family;
    const syn_plan *plan;     /* complete; NULL: all ranks are tensor-parallel */
    const syn_weights *as_in; /* the checkpoint from which the parameters were read, if they have
                                 not changed since: its tensors are copied byte for byte. NULL:
                                 none */
    const syn_weights_pieces *pieces; /* NULL: every rank has all of its shard */
    uint64_t file_bytes;              /* limit per file; 0: 5 GB, as in transformers */
} syn_weights_save_options;

/* Writes the parameters of a model to `folder`/model.safetensors: full tensors in their dtypes,
   without vocabulary padding, under the names that transformers expects. Above the limit it writes
   model-00001-of-00003.safetensors and so on, and model.safetensors.index.json. The caller makes
   sure that the folder has no other weights. All ranks of the plan with data-parallel index 0 must
   call the function; with pieces, those with an index below pieces->n_ranks. comm NULL: there is a
   single rank. Rank 0 collects one parameter at a time from the other ranks, and writes it. */
syn_status syn_weights_save(syn_ctx *ctx, syn_comm *comm, const syn_weights_save_options *options,
                            const char *folder, syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
