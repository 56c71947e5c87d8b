/* Questions and the paragraphs that answer them, of SQuAD files (Rajpurkar et al. 2016, 2018), v1.1
   and v2.0: what texts to pretrain on are made of. */
#ifndef MODELS_SQUAD_H
#define MODELS_SQUAD_H

#include "syntorch/base/status.h"

SYN_API_BEGIN

typedef struct syn_squad syn_squad;

/* The questions of all files, in their order; a file has at most 2 GiB. Only questions and
   paragraphs are looked at, not answers. SYN_E_IO; SYN_E_FORMAT with file, line and column; a file
   without any question is refused, and one that says a thing twice. */
syn_status syn_squad_read(syn_squad **out, const char *const *paths, int n_paths,
                          syn_error *err) SYN_MUST_USE;
/* The same of one file's text; `name` is what errors call it. */
syn_status syn_squad_parse(syn_squad **out, const char *name, const char *json, size_t bytes,
                           syn_error *err) SYN_MUST_USE;
/* NULL is allowed. */
void syn_squad_free(syn_squad *squad);

size_t syn_squad_count(const syn_squad *squad);
/* UTF-8, NUL-terminated beyond their bytes; the squad's own. */
typedef struct syn_squad_entry {
    const char *question, *context;
    size_t question_bytes, context_bytes;
} syn_squad_entry;
syn_squad_entry syn_squad_get(const syn_squad *squad, size_t i);

SYN_API_END
#endif
