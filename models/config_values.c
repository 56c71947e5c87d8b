#include "models/config_private.h"

syn_status syn__config_string(syn__settings *s) {
    const syn_json_type type = syn_json_next(&s->json);
    if (type == SYN_JSON_ERROR) return s->error.code;
    if (type != SYN_JSON_STRING) return syn__settings_fail(s, "\"%s\" must be a string", s->path);
    return SYN_OK;
}

const syn__setting_choice syn__activations[] = {{"gelu_new", SYN_GELU_TANH},
                                                {"gelu_pytorch_tanh", SYN_GELU_TANH},
                                                {"gelu_fast", SYN_GELU_TANH},
                                                {"gelu", SYN_GELU_ERF},
                                                {NULL, 0}};

syn_status syn__config_path(syn__settings *s, void *member) {
    const syn_json_type type = syn_json_next(&s->json);
    if (type == SYN_JSON_ERROR) return s->error.code;
    if (type == SYN_JSON_NULL) return SYN_OK;
    if (type != SYN_JSON_STRING)
        return syn__settings_fail(s, "\"%s\" must be a string or null", s->path);
    syn__settings_base_name(s->json.text, (char *)member);
    return SYN_OK;
}

static syn_status must_be(syn__settings *s, bool wanted) {
    const syn_json_type type = syn_json_next(&s->json);
    if (type == SYN_JSON_ERROR) return s->error.code;
    if (type == SYN_JSON_BOOL && s->json.boolean == wanted) return SYN_OK;
    return syn__settings_fail(s, "\"%s\" must be %s: this model knows no other", s->path,
                              wanted ? "true" : "false");
}

syn_status syn__config_true(syn__settings *s, void *member) {
    (void)member;
    return must_be(s, true);
}

syn_status syn__config_false(syn__settings *s, void *member) {
    (void)member;
    return must_be(s, false);
}
