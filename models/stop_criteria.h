/* What ends a generated sequence: token ids from config.json or generation_config.json. Also reads
   the sampling settings of generation_config.json. */
#ifndef MODELS_STOP_CRITERIA_H
#define MODELS_STOP_CRITERIA_H

#include "syntorch/base/status.h"

SYN_API_BEGIN

#define SYN_MAX_STOP_IDS 16

typedef struct syn_stop_criteria {
    int32_t ids[SYN_MAX_STOP_IDS]; /* a sequence ends after any of these tokens */
    int32_t n_ids;                 /* 0: sequences never end */
    int32_t fill;  /* padding token after the end, while other sequences of the batch continue */
    int32_t begin; /* bos_token_id, used only when files are written; -1: none */
} syn_stop_criteria;

/* Sampling settings; NaN: not in the file. */
typedef struct syn_sampling_defaults {
    double temperature, top_k, top_p, min_p; /* only if the file has "do_sample": true */
    double repetition_penalty;
} syn_sampling_defaults;

bool syn_is_stop_token(const syn_stop_criteria *criteria, int32_t token);

/* Reads a generation_config.json. If that file exists, config.json is ignored, even for keys that
   the file lacks; transformers does the same. Keys read: eos_token_id and pad_token_id (each an id
   or a list), bos_token_id and the sampling settings. Ids outside a vocabulary of `vocab` tokens
   can never occur and are dropped. Stores in `unread` the names of settings that change what
   transformers generates but are not supported here, separated by ", "; "" if there are none.
   Values in `sampling` are not range-checked. */
syn_status syn_stop_criteria_load(syn_stop_criteria *criteria, syn_sampling_defaults *sampling,
                                  const char *path, int64_t vocab, char *unread,
                                  size_t unread_bytes, syn_error *err) SYN_MUST_USE;

/* Writes a generation_config.json; sampling may be NULL. */
syn_status syn_stop_criteria_save(const syn_stop_criteria *criteria,
                                  const syn_sampling_defaults *sampling, const char *path,
                                  syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
