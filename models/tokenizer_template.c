/* What of a tokenizer.json counts: its added tokens, the ids that its post_processor puts around a
   text, and the number of its tokens. */
#include "models/tokenizer_files_private.h"

#include <string.h>

/* A special token of a template: its name, and its id if it is one. */
static syn_status read_template_name(syn_json *json, syn__file_tokens *names, syn_error *err) {
    syn__file_token *t;
    SYN_TRY(syn__file_tokens_append(names, &t, err));
    SYN_TRY(syn__file_token_set(t, json->text, json->text_bytes, err));
    SYN_TRY(syn_json_expect(json, SYN_JSON_OBJECT_BEGIN, "a special token"));
    while (syn_json_next(json) == SYN_JSON_KEY) {
        if (strcmp(json->text, "ids") != 0) {
            SYN_TRY(syn__tok_skip(json, err));
            continue;
        }
        SYN_TRY(syn_json_expect(json, SYN_JSON_ARRAY_BEGIN, "ids"));
        SYN_TRY(syn_json_expect_i64(json, "an id", 0, INT32_MAX - 1, &t->id));
        SYN_TRY(syn_json_expect(json, SYN_JSON_ARRAY_END, "ids, of which one is supported,"));
    }
    return syn__tok_status(json, SYN_JSON_OBJECT_END, err);
}

/* {"SpecialToken": {"id": "<|endoftext|>", ...}} or {"Sequence": {"id": "A", ...}}: which of the
   two, and the name. */
static syn_status read_template_item(syn_json *json, syn__file_tokens *items, syn_error *err) {
    syn__file_token *t;
    SYN_TRY(syn__file_tokens_append(items, &t, err));
    SYN_TRY(syn_json_expect(json, SYN_JSON_KEY, "an item of a template"));
    t->special = strcmp(json->text, "SpecialToken") == 0;
    SYN_TRY(syn_json_expect(json, SYN_JSON_OBJECT_BEGIN, "an item of a template"));
    while (syn_json_next(json) == SYN_JSON_KEY) {
        if (strcmp(json->text, "id") != 0) {
            SYN_TRY(syn__tok_skip(json, err));
            continue;
        }
        SYN_TRY(syn_json_expect(json, SYN_JSON_STRING, "the id of an item"));
        SYN_TRY(syn__file_token_set(t, json->text, json->text_bytes, err));
    }
    SYN_TRY(syn__tok_status(json, SYN_JSON_OBJECT_END, err));
    return syn_json_expect(json, SYN_JSON_OBJECT_END, "an item of a template");
}

/* The template of one text: ids before it and behind it. */
static syn_status apply_template(syn__tokenizer_files *f, syn_json *json,
                                 const syn__file_tokens *items, const syn__file_tokens *names) {
    bool behind = false;
    f->frame.n_before = f->frame.n_behind = 0;
    for (size_t i = 0; i < items->n; i++) {
        const syn__file_token *item = &items->at[i];
        int32_t *const ids = behind ? f->frame.behind : f->frame.before;
        size_t *const n = behind ? &f->frame.n_behind : &f->frame.n_before;
        int64_t id = -1;
        if (!item->special) {
            if (behind) return syn_json_fail(json, "the template holds the text twice");
            behind = true;
            continue;
        }
        for (size_t k = 0; k < names->n; k++)
            if (item->text && syn__file_token_is(&names->at[k], item->text, item->bytes))
                id = names->at[k].id;
        if (id < 0 || *n == SYN__BPE_FRAME_IDS)
            return syn_json_fail(json, "the template of the post_processor is not supported");
        ids[(*n)++] = (int32_t)id;
    }
    return SYN_OK;
}

static syn_status read_template(syn__tokenizer_files *f, syn_json *json, syn__file_tokens *items,
                                syn__file_tokens *names, syn_error *err) {
    char type[SYN__TOK_NAME_BYTES] = "";
    while (syn_json_next(json) == SYN_JSON_KEY) {
        if (strcmp(json->text, "type") == 0) {
            SYN_TRY(syn__tok_text(json, type, "type", err));
        } else if (strcmp(json->text, "single") == 0) {
            SYN_TRY(syn_json_expect(json, SYN_JSON_ARRAY_BEGIN, "single"));
            while (syn_json_next(json) == SYN_JSON_OBJECT_BEGIN)
                SYN_TRY(read_template_item(json, items, err));
            SYN_TRY(syn__tok_status(json, SYN_JSON_ARRAY_END, err));
        } else if (strcmp(json->text, "special_tokens") == 0) {
            SYN_TRY(syn_json_expect(json, SYN_JSON_OBJECT_BEGIN, "special_tokens"));
            while (syn_json_next(json) == SYN_JSON_KEY)
                SYN_TRY(read_template_name(json, names, err));
            SYN_TRY(syn__tok_status(json, SYN_JSON_OBJECT_END, err));
        } else {
            SYN_TRY(syn__tok_skip(json, err));
        }
    }
    SYN_TRY(syn__tok_status(json, SYN_JSON_OBJECT_END, err));
    if (strcmp(type, "TemplateProcessing") == 0) return apply_template(f, json, items, names);
    if (strcmp(type, "ByteLevel") == 0) return SYN_OK; /* changes offsets only */
    return syn_json_fail(json, "the post_processor \"%s\" is not supported", type);
}

static syn_status read_post_processor(syn__tokenizer_files *f, syn_json *json, syn_error *err) {
    syn__file_tokens items = {0}, names = {0};
    if (syn_json_next(json) == SYN_JSON_NULL) return SYN_OK;
    if (json->type != SYN_JSON_OBJECT_BEGIN)
        return json->type == SYN_JSON_ERROR ? syn__tok_status(json, SYN_JSON_END, err)
                                            : syn_json_fail(json, "post_processor is no object");
    const syn_status status = read_template(f, json, &items, &names, err);
    syn__file_tokens_free(&items);
    syn__file_tokens_free(&names);
    return status;
}

/* Counts the vocabulary of "model". */
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
    if (strcmp(json->text, "post_processor") == 0) return read_post_processor(f, json, err);
    if (strcmp(json->text, "added_tokens") != 0) return syn__tok_skip(json, err);
    const syn_status status = syn__file_tokens_read(json, f->has_decoder ? &none : &f->decoder,
                                                    NULL, "added_tokens", false, err);
    syn__file_tokens_free(&none);
    return status;
}
