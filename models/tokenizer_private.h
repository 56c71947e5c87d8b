/* What models/tokenizer.c and models/tokenizer_folder.c share. */
#ifndef MODELS_TOKENIZER_PRIVATE_H
#define MODELS_TOKENIZER_PRIVATE_H

#include "models/bpe_private.h"
#include "models/tokenizer.h"
#include "models/wordpiece_private.h"

#ifdef __cplusplus
extern "C" {
#endif

struct syn_tokenizer {
    syn_tokenizer_kind kind;
    syn__bpe *bpe;
    syn__bpe_pattern *pattern;
    syn__wordpiece *wordpiece;
    char bytes[256]; /* the tokens of the byte tokenizer */
};

#ifdef __cplusplus
}
#endif
#endif
