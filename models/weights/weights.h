/* Model checkpoints: reads safetensors files with HuggingFace's names into the parameters of a
   context, and writes them. */
#ifndef MODELS_WEIGHTS_H
#define MODELS_WEIGHTS_H

#include "models/model.h"
#include "models/weights/safetensors.h"
#include "syntorch/context.h"

SYN_API_BEGIN

/* An open checkpoint. Immutable; the ranks of a process share it. */
typedef struct syn_weights syn_weights;

/* Opens a file, an index or a folder (see syn_safetensors_open) for models of a family; fails if
   the checkpoint is of another family. Converts names to parameter names of this library: removes
   "transformer." or "bert.", and changes LayerNorm.gamma and .beta to .weight and .bias. Fails if
   two names become the same. */
syn_status syn_weights_open(syn_weights **out, const char *path, const syn_model_family *family,
                            syn_error *err) SYN_MUST_USE;
void syn_weights_free(syn_weights *weights);
/* The dtype of most bytes among the checkpoint's float tensors. */
syn_dtype syn_weights_dtype(const syn_weights *weights);

/* A hash of names, shapes, dtypes and a sample of each tensor's bytes, to check whether ranks on
   several machines opened the same checkpoint. */
uint64_t syn_weights_hash(const syn_weights *weights);

/* Whether the checkpoint has a tensor for this parameter. */
bool syn_weights_has(const syn_weights *weights, const char *parameter);

/* Tensors of the checkpoint that differ from the tensor they are tied to. NULL: does not differ. */
typedef struct syn_weights_head {
    const char *matrix; /* the head whose .weight differs from the token table: "lm_head" */
    /* The head whose .bias differs from that of `other`, although both should be equal; the bias of
       `bias` is read ("cls.predictions.decoder", `other` "cls.predictions"). */
    const char *bias;
    const char *other;
} syn_weights_head;
/* Compares tied tensors element by element. Tensors that are not in the checkpoint do not differ.
   If *out has a matrix, the model must be created untied, or the checkpoint's head is ignored.
   Fails if shapes differ or a dtype is not supported. */
syn_status syn_weights_compare_head(const syn_weights *weights, syn_weights_head *out,
                                    syn_error *err) SYN_MUST_USE;

/* Whether only the token-prediction head is missing, as in checkpoints of classifiers: a model of
   this configuration with these heads has such a head, the checkpoint has a token table but nothing
   of the head. Returns the name of the head's first layer, or NULL: nothing is missing, only a part
   of the head, or more than the head. */
const char *syn_weights_lacks_head(const syn_weights *weights, const syn_model_config *config,
                                   unsigned heads);

/* A rank's reader of a checkpoint. It is a source for the rank's parameters, and records which
   tensors were used and what did not match. */
typedef struct syn_weights_reader syn_weights_reader;
syn_status syn_weights_reader_new(syn_weights_reader **out, const syn_weights *weights,
                                  syn_error *err) SYN_MUST_USE;
syn_param_source syn_weights_source(syn_weights_reader *reader);
/* While parameters are filled, calls `progress` with the number of bytes read and the total of all
   tensors that can be parameters. A shard counts as all shards of its tensor. NULL: no calls. */
void syn_weights_set_progress(syn_weights_reader *reader,
                              void (*progress)(void *user, int64_t done, int64_t of), void *user);
/* Checks the result after the model was created. Fails if a parameter is missing in the checkpoint
   or has another shape or an unsupported dtype there, or if the checkpoint has a tensor that is
   neither a parameter nor one of these: a buffer, a tied head, a head that the model was created
   without or that no model here has, or, if the model was created from a part, a tensor of the
   other parts. part: that part; NULL: the whole model. The error has the counts and the first
   names. *list, if list is not NULL, gets all of them, one per line; the caller frees it with
   syn_free. It is NULL if everything matches. */
syn_status syn_weights_finish(const syn_weights_reader *reader, const syn_model *part, char **list,
                              syn_error *err) SYN_MUST_USE;
/* Lists the checkpoint's tensors of heads that the model does not have, in one line
   ("classifier.weight, classifier.bias (a head for classification)"). The caller frees *list with
   syn_free; NULL: none. */
syn_status syn_weights_unused(const syn_weights_reader *reader, char **list,
                              syn_error *err) SYN_MUST_USE;
void syn_weights_reader_free(syn_weights_reader *reader);

/* Writes the parameters of a model to `folder`/model.safetensors, with the names that transformers
   expects: full tensors in their dtypes, without vocabulary padding. Above 5 GB it writes
   model-00001-of-00003.safetensors and so on, with model.safetensors.index.json. The caller makes
   sure that the folder has no other weights. as_in: a checkpoint from which the parameters were
   read and which they still equal; its tensors are copied byte for byte. NULL: none. Every rank
   that has a shard calls it with a communicator in which rank r has shard r (NULL: a single rank);
   the communicator may have more ranks. Rank 0 collects one parameter at a time and writes it. */
syn_status syn_weights_save(syn_ctx *ctx, syn_comm *comm, const syn_model_family *family,
                            const syn_weights *as_in, const char *folder,
                            syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
