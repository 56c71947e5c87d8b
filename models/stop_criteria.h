/* What ends a text that a model generates: ids in config.json, or in generation_config.json; and
   how the latter says that tokens are sampled. */
#ifndef MODELS_TEXT_ENDING_H
#define MODELS_TEXT_ENDING_H

#include "syntorch/base/status.h"

SYN_API_BEGIN

#define SYN_TEXT_ENDS 16

typedef struct syn_stop_criteria {
    int32_t ids[SYN_TEXT_ENDS]; /* a text ends behind any of these */
    int32_t n_ids;              /* 0: nothing ends it */
    int32_t fill;               /* goes on behind it while others of its batch are not done */
    int32_t begin;              /* bos_token_id, for files that are written; -1: none */
} syn_stop_criteria;

/* NaN: the file does not say. */
typedef struct syn_text_sampling {
    double temperature, top_k, top_p, min_p; /* only where it says "do_sample": true */
    double repetition_penalty;
} syn_text_sampling;

bool syn_text_ends(const syn_stop_criteria *ending, int32_t token);

/* What generation_config.json says, which counts even where it says nothing: config.json is not
   looked at then, as in transformers, which without it takes all of this from there. Of its keys
   eos_token_id (an id or a list) and pad_token_id are read; ids outside a vocabulary of `vocab`
   tokens never come and are left out. `unread` gets the names, ", " between them, of settings that
   change what transformers generates and are not done ("" if there are none). What `sampling` gets
   may be any number. */
syn_status syn_stop_criteria_load(syn_stop_criteria *ending, syn_text_sampling *sampling,
                                  const char *path, int64_t vocab, char *unread,
                                  size_t unread_bytes, syn_error *err) SYN_MUST_USE;

/* Writes them as a generation_config.json; sampling may be NULL. */
syn_status syn_stop_criteria_save(const syn_stop_criteria *ending,
                                  const syn_text_sampling *sampling, const char *path,
                                  syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
