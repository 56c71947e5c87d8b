/* Reads the post_processor of tokenizer.json: the tokens put around texts. */
#include "models/tokenizer/tokenizer_file_private.h"

#include "syntorch/base/memory.h"

#include <string.h>

/* An item of a template, or a special token's name and ids. */
typedef struct item {
    char name[SYN__TOK_NAME_BYTES];
    bool is_text;
    int32_t type;
    int32_t ids[8];
    size_t n;
} item;

typedef struct items {
    item *at;
    size_t n, cap;
} items;

/* The contents of an object. */
typedef struct processor {
    char type[SYN__TOK_NAME_BYTES];
    items single, pair, specials;
    bool has_single, has_pair, has_list;
    bool trims, prefix_space;
    int32_t sep, cls; /* -1: not given */
} processor;

static syn_status add(items *list, item **it, syn_error *err) {
    SYN_TRY(syn_grow(&list->at, &list->cap, list->n + 1, sizeof *list->at, err));
    *it = &list->at[list->n++];
    **it = (item){.name = ""};
    return SYN_OK;
}

static syn_status read_id(syn_json *json, int32_t *id, const char *what) {
    int64_t value;
    SYN_TRY(syn_json_expect_i64(json, what, 0, INT32_MAX - 1, &value));
    *id = (int32_t)value;
    return SYN_OK;
}

/* Reads {"SpecialToken": {"id": "<s>", "type_id": 0}} or {"Sequence": {"id": "A", "type_id":
   0}}. */
static syn_status read_item(syn_json *json, items *list, syn_error *err) {
    item *it;
    SYN_TRY(add(list, &it, err));
    SYN_TRY(syn_json_expect(json, SYN_JSON_KEY, "an item of a template"));
    it->is_text = strcmp(json->text, "Sequence") == 0;
    if (!it->is_text && strcmp(json->text, "SpecialToken") != 0)
        return syn_json_fail(json, "the item \"%.40s\" of a template is not supported", json->text);
    SYN_TRY(syn_json_expect(json, SYN_JSON_OBJECT_BEGIN, "an item of a template"));
    while (syn_json_next(json) == SYN_JSON_KEY) {
        if (strcmp(json->text, "id") == 0) SYN_TRY(syn__tok_text(json, it->name, "id", err));
        else if (strcmp(json->text, "type_id") == 0) SYN_TRY(read_id(json, &it->type, "type_id"));
        else
            return syn_json_fail(json, "the key \"%.40s\" of a template is not supported",
                                 json->text);
    }
    SYN_TRY(syn__tok_status(json, SYN_JSON_OBJECT_END, err));
    if (it->is_text && strcmp(it->name, "A") != 0 && strcmp(it->name, "B") != 0)
        return syn_json_fail(json, "the text \"%s\" of a template is not supported", it->name);
    return syn_json_expect(json, SYN_JSON_OBJECT_END, "an item of a template");
}

static syn_status read_items(syn_json *json, items *list, syn_error *err) {
    SYN_TRY(syn_json_expect(json, SYN_JSON_ARRAY_BEGIN, "a template"));
    while (syn_json_next(json) == SYN_JSON_OBJECT_BEGIN) SYN_TRY(read_item(json, list, err));
    return syn__tok_list_end(json, "items of a template", err);
}

/* Reads "<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}. */
static syn_status read_special(syn_json *json, items *list, syn_error *err) {
    item *it;
    SYN_TRY(add(list, &it, err));
    if (json->text_bytes >= sizeof it->name)
        return syn_json_fail(json, "the name \"%.40s...\" of a special token is too long",
                             json->text);
    memcpy(it->name, json->text, json->text_bytes + 1);
    SYN_TRY(syn_json_expect(json, SYN_JSON_OBJECT_BEGIN, "a special token"));
    while (syn_json_next(json) == SYN_JSON_KEY) {
        if (strcmp(json->text, "ids") != 0) {
            SYN_TRY(syn__tok_skip(json, err));
            continue;
        }
        SYN_TRY(syn_json_expect(json, SYN_JSON_ARRAY_BEGIN, "ids"));
        while (syn_json_next(json) == SYN_JSON_NUMBER) {
            if (it->n == sizeof it->ids / sizeof *it->ids || !json->is_integer ||
                json->integer < 0 || json->integer >= INT32_MAX - 1)
                return syn_json_fail(json, "the ids of a special token are not supported");
            it->ids[it->n++] = (int32_t)json->integer;
        }
        SYN_TRY(syn__tok_list_end(json, "ids of a special token", err));
    }
    return syn__tok_status(json, SYN_JSON_OBJECT_END, err);
}

static syn_status read_specials(syn_json *json, items *list, syn_error *err) {
    SYN_TRY(syn_json_expect(json, SYN_JSON_OBJECT_BEGIN, "special_tokens"));
    while (syn_json_next(json) == SYN_JSON_KEY) SYN_TRY(read_special(json, list, err));
    return syn__tok_status(json, SYN_JSON_OBJECT_END, err);
}

/* Reads ["[SEP]", 102]. */
static syn_status read_token(syn_json *json, int32_t *id, const char *what) {
    SYN_TRY(syn_json_expect(json, SYN_JSON_ARRAY_BEGIN, what));
    SYN_TRY(syn_json_expect(json, SYN_JSON_STRING, what));
    SYN_TRY(read_id(json, id, what));
    return syn_json_expect(json, SYN_JSON_ARRAY_END, what);
}

static syn_status read_list(syn_tokenizer *tok, syn_json *json, syn_error *err) {
    SYN_TRY(syn_json_expect(json, SYN_JSON_ARRAY_BEGIN, "processors"));
    while (syn_json_next(json) == SYN_JSON_OBJECT_BEGIN) SYN_TRY(syn__post_take(tok, json, err));
    return syn__tok_list_end(json, "processors of a Sequence", err);
}

static syn_status read_key(syn_tokenizer *tok, processor *p, syn_json *json, syn_error *err) {
    const char *key = json->text;
    bool unused;
    if (strcmp(key, "type") == 0) return syn__tok_text(json, p->type, "type", err);
    if (strcmp(key, "single") == 0) {
        p->has_single = true;
        return read_items(json, &p->single, err);
    }
    if (strcmp(key, "pair") == 0) {
        p->has_pair = true;
        return read_items(json, &p->pair, err);
    }
    if (strcmp(key, "special_tokens") == 0) return read_specials(json, &p->specials, err);
    if (strcmp(key, "sep") == 0) return read_token(json, &p->sep, "sep");
    if (strcmp(key, "cls") == 0) return read_token(json, &p->cls, "cls");
    if (strcmp(key, "trim_offsets") == 0) return syn__tok_bool(json, &p->trims, "trim_offsets");
    if (strcmp(key, "add_prefix_space") == 0)
        return syn__tok_bool(json, &p->prefix_space, "add_prefix_space");
    if (strcmp(key, "use_regex") == 0) return syn__tok_bool(json, &unused, "use_regex");
    if (strcmp(key, "processors") == 0) {
        p->has_list = true;
        return read_list(tok, json, err);
    }
    return syn_json_fail(json, "the key \"%.40s\" of a post_processor is not supported", key);
}

/* ---- from objects to templates ---- */

static syn_status too_long(syn_json *json) {
    return syn_json_fail(json, "a template of more than %d tokens is not supported",
                         SYN__TEMPLATE_ITEMS);
}

static syn_status apply_items(syn__template *t, const items *list, const items *specials,
                              bool single, syn_json *json) {
    size_t texts[2] = {0, 0};
    for (size_t i = 0; i < list->n; i++) {
        const item *it = &list->at[i];
        const item *special = NULL;
        if (it->is_text) {
            const bool is_b = it->name[0] == 'B';
            if (texts[is_b]++ > 0) return syn_json_fail(json, "the template has the text twice");
            if (!syn__template_add(t, is_b ? SYN__TEMPLATE_SECOND : SYN__TEMPLATE_FIRST, it->type))
                return too_long(json);
            continue;
        }
        for (size_t k = 0; k < specials->n; k++)
            if (strcmp(specials->at[k].name, it->name) == 0) special = &specials->at[k];
        if (special == NULL)
            return syn_json_fail(json, "the template's token \"%s\" is not among special_tokens",
                                 it->name);
        for (size_t k = 0; k < special->n; k++)
            if (!syn__template_add(t, special->ids[k], it->type)) return too_long(json);
    }
    if (single && (texts[0] == 0 || texts[1] > 0))
        return syn_json_fail(json, "the template for one text must contain it exactly once");
    return SYN_OK;
}

static void frame(syn_tokenizer *tok, const processor *p, bool is_bert) {
    const int32_t single[] = {p->cls, SYN__TEMPLATE_FIRST, p->sep},
                  rest[] = {p->sep, SYN__TEMPLATE_SECOND, p->sep};
    for (int i = 0; i < 3; i++) {
        (void)syn__template_add(&tok->single, single[i], 0);
        (void)syn__template_add(&tok->pair, single[i], 0);
    }
    for (int i = is_bert; i < 3; i++) (void)syn__template_add(&tok->pair, rest[i], is_bert);
}

static syn_status add_trim(syn_tokenizer *tok, const processor *p, syn_error *err) {
    syn__step *step;
    if (!p->trims) return SYN_OK;
    SYN_TRY(syn__steps_add(&tok->trims, SYN__POST_TRIM, &step, err));
    step->prefix_space = p->prefix_space;
    return SYN_OK;
}

static syn_status apply(syn_tokenizer *tok, const processor *p, syn_json *json, syn_error *err) {
    const bool is_bert = strcmp(p->type, "BertProcessing") == 0,
               is_roberta = strcmp(p->type, "RobertaProcessing") == 0,
               is_template = strcmp(p->type, "TemplateProcessing") == 0;
    if (strcmp(p->type, "Sequence") == 0 && p->has_list) return SYN_OK;
    if (strcmp(p->type, "ByteLevel") == 0) return add_trim(tok, p, err);
    if (!is_bert && !is_roberta && !is_template)
        return syn_json_fail(json, "the post_processor \"%s\" is not supported", p->type);
    if (tok->single.n > 0)
        return syn_json_fail(json, "several post_processors that add tokens are not supported");
    if (is_roberta) SYN_TRY(add_trim(tok, p, err));
    if (!is_template && (p->cls < 0 || p->sep < 0))
        return syn_json_fail(json, "the post_processor \"%s\" lacks cls or sep", p->type);
    if (is_bert || is_roberta) {
        frame(tok, p, is_bert);
        return SYN_OK;
    }
    if (!p->has_single || !p->has_pair)
        return syn_json_fail(json, "the post_processor \"%s\" lacks single or pair", p->type);
    SYN_TRY(apply_items(&tok->single, &p->single, &p->specials, true, json));
    return apply_items(&tok->pair, &p->pair, &p->specials, false, json);
}

syn_status syn__post_take(syn_tokenizer *tok, syn_json *json, syn_error *err) {
    processor p = {.trims = true, .prefix_space = true, .sep = -1, .cls = -1};
    syn_status status = SYN_OK;
    while (status == SYN_OK && syn_json_next(json) == SYN_JSON_KEY)
        status = read_key(tok, &p, json, err);
    if (status == SYN_OK) status = syn__tok_status(json, SYN_JSON_OBJECT_END, err);
    if (status == SYN_OK) status = apply(tok, &p, json, err);
    syn_free(p.single.at);
    syn_free(p.pair.at);
    syn_free(p.specials.at);
    return status;
}

syn_status syn__post_read(syn_tokenizer *tok, syn_json *json, syn_error *err) {
    if (syn_json_next(json) == SYN_JSON_NULL) return SYN_OK;
    if (json->type == SYN_JSON_OBJECT_BEGIN) return syn__post_take(tok, json, err);
    return json->type == SYN_JSON_ERROR ? syn__tok_status(json, SYN_JSON_END, err)
                                        : syn_json_fail(json, "post_processor is not an object");
}
