/* Implements config_text.h: changes a text, reads it, and checks the error. */
#include "tests/support/config_text.h"

#include "tests/support/test.h"

syn_status config_parse_as(syn_model_config *c, const char *name, const char *json,
                           syn_error *err) {
    memset(err, 0, sizeof *err);
    return syn_model_config_parse(c, name, json, strlen(json), err);
}

syn_status config_parse(syn_model_config *c, const char *json, syn_error *err) {
    return config_parse_as(c, "m.json", json, err);
}

const char *config_with(const char *text, const char *from, const char *to) {
    static char out[4096];
    const char *at = strstr(text, from);
    if (at == NULL) {
        fprintf(stderr, "the text has no %s\n", from);
        abort();
    }
    snprintf(out, sizeof out, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return out;
}

bool config_same(const syn_model_config *a, const syn_model_config *b) {
    return strcmp(a->name, b->name) == 0 && a->n_layer == b->n_layer && a->n_embd == b->n_embd &&
           a->n_head == b->n_head && a->n_positions == b->n_positions && a->n_inner == b->n_inner &&
           a->vocab_size == b->vocab_size && a->n_types == b->n_types && a->pad_id == b->pad_id &&
           fabs(a->norm_epsilon - b->norm_epsilon) == 0 &&
           fabs(a->initializer_range - b->initializer_range) == 0 &&
           memcmp(&a->dropout, &b->dropout, sizeof a->dropout) == 0 &&
           a->activation == b->activation && a->family == b->family && a->tied == b->tied &&
           memcmp(&a->end, &b->end, sizeof a->end) == 0;
}

void config_check_ranks(const char *preset) {
    syn_model_config c;
    syn_error err = {0}, zero = {0}, inner = {0}, heads = {0};
    CHECK_OK(syn_model_config_preset(&c, preset, &err), err);
    for (int tp = 1; tp <= 12; tp++) {
        syn_error e = {0};
        const syn_status status = syn_model_config_check(&c, tp, &e);
        CHECK_INT(status, 12 % tp == 0 ? SYN_OK : SYN_E_INVALID);
        if (status != SYN_OK) CHECK_HAS(e.text, "does not divide the 12 attention heads");
    }
    CHECK_INT(syn_model_config_check(&c, 0, &zero), SYN_E_INVALID);
    c.n_inner = 3073;
    CHECK_INT(syn_model_config_check(&c, 2, &inner), SYN_E_INVALID);
    CHECK_HAS(inner.text, "3073");
    c.n_embd = 769;
    CHECK_INT(syn_model_config_check(&c, 1, &heads), SYN_E_INVALID);
    CHECK_HAS(heads.text, "769");
}

void config_check_refused(const char *text, const config_refusal *rows, size_t n) {
    for (size_t i = 0; i < n; i++) {
        syn_model_config c, before;
        syn_error err;
        memset(&c, 7, sizeof c);
        before = c;
        const syn_status status =
            config_parse(&c, config_with(text, rows[i].from, rows[i].to), &err);
        CHECK_MSG(status == SYN_E_FORMAT, "%s was taken (status %d)", rows[i].to, (int)status);
        CHECK_MSG(strncmp(err.text, "m.json:1:", 9) == 0, "%s", err.text);
        CHECK_MSG(strncmp(err.text, rows[i].where, strlen(rows[i].where)) == 0, "\"%s\", not at %s",
                  err.text, rows[i].where);
        CHECK_HAS(err.text, rows[i].says);
        CHECK(memcmp(&c, &before, sizeof c) == 0);
    }
}

void config_check_cuts(const char *text) {
    for (size_t n = 0; n < strlen(text); n++) {
        syn_model_config c;
        syn_error err = {0};
        char *cut = malloc(n + 1);
        CHECK(cut != NULL);
        memcpy(cut, text, n);
        const syn_status status = syn_model_config_parse(&c, "m.json", cut, n, &err);
        free(cut);
        CHECK_MSG(status == SYN_E_FORMAT, "a file cut at %zu was taken", n);
    }
}

static syn_status parse_once(void *text, syn_error *err) {
    syn_model_config c;
    return config_parse(&c, text, err);
}

void config_check_without_memory(const char *text) {
    char *copy = malloc(strlen(text) + 1);
    CHECK(copy != NULL);
    strcpy(copy, text);
    CHECK(test_without_memory(parse_once, copy) > 0);
    free(copy);
}
