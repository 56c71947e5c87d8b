/* Checkpoints of models: safetensors files under HuggingFace's names, read into the parameters of a
   context and written from them. */
#ifndef MODELS_WEIGHTS_H
#define MODELS_WEIGHTS_H

#include "models/model.h"
#include "models/weights/safetensors.h"
#include "syntorch/context.h"

SYN_API_BEGIN

/* An open checkpoint; immutable, shared by the ranks of a process. */
typedef struct syn_weights syn_weights;

/* Opens a file, an index or a folder (see syn_safetensors_open) with the names of a family of
   models; fails if it is of another. Makes its names those of the library's parameters: without
   "transformer." or "bert.", LayerNorm.gamma and .beta as .weight and .bias. Two names that become
   one are an error. */
syn_status syn_weights_open(syn_weights **out, const char *path, const syn_model_family *family,
                            syn_error *err) SYN_MUST_USE;
void syn_weights_free(syn_weights *weights);
/* The dtype that most bytes of its float tensors have. */
syn_dtype syn_weights_dtype(const syn_weights *weights);

/* Of names, shapes, types and a sample of each tensor's bytes: to tell whether ranks on several
   machines opened the same checkpoint. */
uint64_t syn_weights_hash(const syn_weights *weights);

/* Whether the file has a tensor for this parameter. */
bool syn_weights_has(const syn_weights *weights, const char *parameter);

/* What a file holds with other numbers than those that a tied model shares; NULL: nothing. */
typedef struct syn_weights_head {
    const char *matrix; /* the head, whose .weight is not the token table: "lm_head" */
    const char *bias;   /* whose .bias is not that of `other`, which is the same: the first is read
                           ("cls.predictions.decoder" and "cls.predictions") */
    const char *other;
} syn_weights_head;
/* Compares them, number for number; what the file does not hold does not differ. With a matrix of
   its own the model must be made untied, or the file's head is left. Another shape or a type that
   is not read is an error. */
syn_status syn_weights_compare_head(const syn_weights *weights, syn_weights_head *out,
                                    syn_error *err) SYN_MUST_USE;

/* The head that predicts tokens, if a model of this configuration with these heads has one of its
   own and the file has a token table but nothing of it, as one of a model that classifies: its
   first layer's name. NULL: nothing is missing, or not all, or more than a head. */
const char *syn_weights_lacks_head(const syn_weights *weights, const syn_model_config *config,
                                   unsigned heads);

/* One rank's reading of a checkpoint: a source for its parameters that notes which tensors were
   taken and what did not fit. */
typedef struct syn_weights_reader syn_weights_reader;
syn_status syn_weights_reader_new(syn_weights_reader **out, const syn_weights *weights,
                                  syn_error *err) SYN_MUST_USE;
syn_param_source syn_weights_source(syn_weights_reader *reader);
/* Calls `progress` while parameters are filled: with bytes of the file's tensors, of those that
   parameters may be; a shard counts for all that are like it. NULL: no more. */
void syn_weights_set_progress(syn_weights_reader *reader,
                              void (*progress)(void *user, int64_t done, int64_t of), void *user);
/* After the model is made: fails if a parameter is missing in the file, has another shape or dtype
   there, or if the file holds a tensor that is neither a parameter nor one that may be left
   (buffers, a tied head, heads that the model was made without or that no model here has; what
   other parts hold of the model of which `part` was made, NULL: the whole was). The sentence has
   the numbers and first names; *list (NULL: not wanted) becomes all of them, one line each, to be
   freed with syn_free; NULL if everything fits. */
syn_status syn_weights_finish(const syn_weights_reader *reader, const syn_model *part, char **list,
                              syn_error *err) SYN_MUST_USE;
/* Likewise: tensors of the file, of heads, that are not the model's, as one line
   ("classifier.weight, classifier.bias (a head for classification)"), to be freed with syn_free;
   NULL: there are none. */
syn_status syn_weights_unused(const syn_weights_reader *reader, char **list,
                              syn_error *err) SYN_MUST_USE;
void syn_weights_reader_free(syn_weights_reader *reader);

/* Writes the parameters of a model as `folder`/model.safetensors under the names that transformers
   expects: full tensors in the dtypes they are held in, without vocabulary padding; beyond 5 GB as
   model-00001-of-00003.safetensors and so on, with model.safetensors.index.json. `as_in` (NULL:
   nothing): a checkpoint that they were read from and still equal: what it has of them is written
   as it lies there, byte for byte. Every rank that holds a part calls it with a communicator
   (NULL: alone), whose rank r holds shard r, and which may have more ranks: rank 0 collects one
   parameter at a time and writes. The folder holds no other weights. */
syn_status syn_weights_save(syn_ctx *ctx, syn_comm *comm, const syn_model_family *family,
                            const syn_weights *as_in, const char *folder,
                            syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
