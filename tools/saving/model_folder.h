/* Writes a model folder in the format of transformers' save_pretrained: weights, configuration,
   generation settings and tokenizer. The folder can be loaded without any other file. */
#ifndef TOOLS_MODEL_FOLDER_H
#define TOOLS_MODEL_FOLDER_H

#include "models/weights/weights.h"

/* Names of the files that a tokenizer can consist of, terminated by NULL. */
extern const char *const model_folder_tokenizer[];
/* Finds the folder with the tokenizer of `weights`, which is a folder or a file: that folder, or
   the folder of that file. Returns false if it contains no tokenizer. */
bool model_folder_find_tokenizer(const char *weights, char *folder, size_t folder_bytes);

typedef struct model_folder {
    const syn_model_config *config;
    /* See syn_weights_save_options. */
    const syn_plan *plan;
    const syn_weights *as_in;
    const syn_weights_pieces *pieces;
    unsigned heads;         /* see syn_model_options */
    const char *tokenizer;  /* folder whose tokenizer files are copied; NULL: none */
    const char *generation; /* path of a generation_config.json to copy; NULL: for causal models,
                               one is written from the stop tokens and `defaults` */
    const syn_sampling_defaults *defaults; /* sampling settings for the written file; NULL: none */
} model_folder;

/* Writes all files to `folder`, which must exist and contain no other weights. The
   ranks that syn_weights_save requires must call it. */
syn_status model_folder_write(const model_folder *model, syn_ctx *ctx, syn_comm *comm,
                              const char *folder, syn_error *err) SYN_MUST_USE;
/* Moves all files of the folder `complete` to `folder`, replacing files with the same names. Then
   removes what is left of an older model in `folder`: its other weight files and, if the new model
   has a tokenizer, its other tokenizer files. */
syn_status model_folder_replace(const char *complete, const char *folder,
                                syn_error *err) SYN_MUST_USE;

#endif
