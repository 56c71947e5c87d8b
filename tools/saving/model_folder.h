/* Writes a model folder like transformers' save_pretrained: weights, configuration, generation
   settings and tokenizer. The folder is complete and can be used on its own. */
#ifndef TOOLS_MODEL_FOLDER_H
#define TOOLS_MODEL_FOLDER_H

#include "models/weights/weights.h"

/* File names of tokenizers, terminated by NULL. */
extern const char *const model_folder_tokenizer[];
/* Finds the tokenizer's folder next to weights, which may be a folder or a file. Returns false if
   there is none. */
bool model_folder_find_tokenizer(const char *weights, char *folder, size_t folder_bytes);

typedef struct model_folder {
    const syn_model_config *config;
    unsigned heads;           /* see syn_model_options */
    const syn_weights *as_in; /* see syn_weights_save; NULL: nothing */
    const char *tokenizer;    /* folder whose tokenizer files are copied; NULL: none */
    const char *generation; /* generation_config.json to copy; NULL: causal models get one with the
                               end tokens of the configuration */
    const syn_sampling_defaults *said; /* and these sampling settings; NULL: none */
} model_folder;

/* Writes all files to `folder`, which exists and contains no other weights. Called by every rank
   that has a shard of the weights. */
syn_status model_folder_write(const model_folder *model, syn_ctx *ctx, syn_comm *comm,
                              const char *folder, syn_error *err) SYN_MUST_USE;
/* Moves all files from a complete folder to `folder`, replacing files of the same names. Also
   removes the remaining weights of an older model there, and its tokenizer files if the new model
   has a tokenizer. */
syn_status model_folder_replace(const char *complete, const char *folder,
                                syn_error *err) SYN_MUST_USE;

#endif
