/* Reads the parts of tokenizer.json that matter if there is a vocab.json: added tokens,
   post_processor, and the size of the vocabulary. */
#include "models/tokenizer/tokenizer_file_private.h"
#include "models/tokenizer/tokenizer_files_private.h"

#include <string.h>

/* Counts the entries of the model's vocabulary. */
static syn_status read_model(syn__tokenizer_files *f, syn_json *json, syn_error *err) {
    SYN_TRY(syn_json_expect(json, SYN_JSON_OBJECT_BEGIN, "model"));
    while (syn_json_next(json) == SYN_JSON_KEY) {
        const bool is_vocab = strcmp(json->text, "vocab") == 0;
        if (!is_vocab) {
            SYN_TRY(syn__tok_skip(json, err));
            continue;
        }
        SYN_TRY(syn_json_expect(json, SYN_JSON_OBJECT_BEGIN, "vocab"));
        for (f->json_vocab = 0; syn_json_next(json) == SYN_JSON_KEY; f->json_vocab++)
            SYN_TRY(syn__tok_skip(json, err));
        SYN_TRY(syn__tok_status(json, SYN_JSON_OBJECT_END, err));
    }
    return syn__tok_status(json, SYN_JSON_OBJECT_END, err);
}

syn_status syn__tokenizer_files_json(void *user, syn_json *json, syn_error *err) {
    syn__tokenizer_files *f = user;
    syn__file_tokens none = {0};
    if (strcmp(json->text, "model") == 0) return read_model(f, json, err);
    if (strcmp(json->text, "post_processor") == 0) return syn__post_read(f->tok, json, err);
    if (strcmp(json->text, "added_tokens") != 0) return syn__tok_skip(json, err);
    const syn_status status = syn__file_tokens_read(json, f->has_decoder ? &none : &f->decoder,
                                                    NULL, "added_tokens", false, err);
    syn__file_tokens_free(&none);
    return status;
}
