/* Reads questions and their paragraphs from SQuAD files (Rajpurkar et al. 2016, 2018), v1.1 and
 * v2.0. texts.h makes samples for pretraining from them. */
#ifndef MODELS_SQUAD_H
#define MODELS_SQUAD_H

#include "syntorch/base/status.h"

SYN_API_BEGIN

typedef struct syn_squad syn_squad;

/* Reads the questions of all files, in order. A file may have at most 2 GiB. Answers are ignored.
 * Fails with SYN_E_IO, or with SYN_E_FORMAT and a message with file, line and column. Files without
 * questions and duplicate keys are rejected. */
syn_status syn_squad_read(syn_squad **out, const char *const *paths, int n_paths,
                          syn_error *err) SYN_MUST_USE;
/* The same for the text of one file; `name` is its name in errors. */
syn_status syn_squad_parse(syn_squad **out, const char *name, const char *json, size_t bytes,
                           syn_error *err) SYN_MUST_USE;
/* NULL is allowed. */
void syn_squad_free(syn_squad *squad);

size_t syn_squad_count(const syn_squad *squad);
/* The texts are UTF-8 and owned by the squad. A NUL follows the given number of bytes. */
typedef struct syn_squad_entry {
    const char *question, *context;
    size_t question_bytes, context_bytes;
} syn_squad_entry;
syn_squad_entry syn_squad_get(const syn_squad *squad, size_t i);

SYN_API_END
#endif
