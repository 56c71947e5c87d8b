#include <assert.h>

#include "models/config_private.h"

syn_status syn__config_string(syn__settings *s) {
    const syn_json_type type = syn_json_next(&s->json);
    if (type == SYN_JSON_ERROR) return s->error.code;
    if (type != SYN_JSON_STRING) return syn__settings_fail(s, "\"%s\" must be a string", s->path);
    return SYN_OK;
}

syn_status syn__config_activation(syn__settings *s, void *member) {
    static const char *const names[] = {"gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast"};
    char shown[64];
    SYN_TRY(syn__config_string(s));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!syn__settings_text_is(s, names[i])) continue;
        *(syn__activation *)member = i == 0 ? SYN__GELU_ERF : SYN__GELU_TANH;
        return SYN_OK;
    }
    return syn__settings_fail(
        s, "\"%s\" must be gelu_new, gelu_pytorch_tanh, gelu_fast or gelu, not \"%s\"", s->path,
        syn__settings_shown(s, shown));
}

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

syn_status syn__config_check(const syn__config_sizes *sizes, int tp, syn_error *err) {
    const char *name = sizes->name;
    const long long h = sizes->hidden, a = sizes->heads, f = sizes->inner;
    if (tp < 1) return SYN_FAIL(err, SYN_E_INVALID, "tp must be at least 1, not %d", tp);
    if (sizes->layers < 1 || h < 1 || a < 1 || f < 1 || sizes->positions < 1 || sizes->vocab < 1)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "model %s: layers %lld, hidden %lld, heads %lld, inner %lld, positions "
                        "%lld and vocabulary %lld must all be at least 1",
                        name, (long long)sizes->layers, h, a, f, (long long)sizes->positions,
                        (long long)sizes->vocab);
    if (h % a != 0)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "model %s: %lld heads do not divide the hidden size %lld", name, a, h);
    if (a % tp != 0)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "model %s: tp %d does not divide the %lld attention heads", name, tp, a);
    if (f % tp != 0)
        return SYN_FAIL(err, SYN_E_INVALID, "model %s: tp %d does not divide the MLP's width %lld",
                        name, tp, f);
    return SYN_OK;
}

int64_t syn__config_padded(int64_t vocab, int tp, int64_t divisor) {
    assert(tp >= 1 && divisor >= 1 && divisor <= INT64_MAX / 4 / tp);
    const int64_t unit = divisor * tp;
    return (vocab + unit - 1) / unit * unit;
}
