/* A model's folder as transformers' save_pretrained leaves it, which works alone: weights,
   configuration, what ends its texts, and its tokenizer. */
#ifndef TOOLS_MODEL_FOLDER_H
#define TOOLS_MODEL_FOLDER_H

#include "models/weights/weights.h"

/* Files of a tokenizer, NULL-ended. */
extern const char *const model_folder_tokenizer[];
/* The folder of the tokenizer beside weights, a folder or a file; false: there is none. */
bool model_folder_find_tokenizer(const char *weights, char *folder, size_t folder_bytes);

typedef struct model_folder {
    const syn_model_config *config;
    unsigned heads;           /* see syn_model_options */
    const syn_weights *as_in; /* see syn_weights_save; NULL: nothing */
    const char *tokenizer;    /* the folder whose files of a tokenizer are copied; NULL: none */
    const char *generation;   /* a generation_config.json that is copied; NULL: models that
                                 generate get one that says what the configuration does, */
    const syn_text_sampling *said; /* and this; NULL: nothing more */
} model_folder;

/* Writes all of it into `folder`, which exists and holds no other weights. Every rank that holds a
   part of the weights calls it. */
syn_status model_folder_write(const model_folder *model, syn_ctx *ctx, syn_comm *comm,
                              const char *folder, syn_error *err) SYN_MUST_USE;
/* Moves a complete folder's files into another, in place of those of the same names, and removes
   what else that holds of an older model's weights, and of its tokenizer if the new one has one. */
syn_status model_folder_replace(const char *complete, const char *folder,
                                syn_error *err) SYN_MUST_USE;

#endif
