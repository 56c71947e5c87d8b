/* Parses SQuAD's JSON without building a tree of it; see squad.h. All strings are in one buffer, so
   a paragraph is stored only once for all of its questions. */
#include "models/training/squad.h"

#include <string.h>

#include "syntorch/base/json.h"
#include "syntorch/base/memory.h"
#include "syntorch/base/sink.h"

#define MAX_BYTES ((size_t)2 << 30)

/* A range of bytes in syn_squad.text. */
typedef struct span {
    size_t at, bytes;
} span;

struct syn_squad {
    char *text; /* all strings, each followed by a NUL */
    size_t text_bytes, text_cap;
    struct entry {
        span question, context;
    } * entries;
    size_t n, cap;
};

typedef struct reader {
    syn_squad *squad;
    syn_json json;
    syn_error *err;
} reader;

static syn_status wrong(reader *r, const char *what) {
    return r->json.type == SYN_JSON_ERROR ? r->err->code : syn_json_fail(&r->json, "%s", what);
}

static bool is(const reader *r, const char *key) {
    return strcmp(r->json.text, key) == 0;
}

static syn_status skip(reader *r) {
    return syn_json_skip(&r->json) ? SYN_OK : r->err->code;
}

/* Fails if a key occurs twice in an object. */
static syn_status note_once(reader *r, bool *seen) {
    const bool twice = *seen;
    *seen = true;
    return twice ? syn_json_fail(&r->json, "\"%.20s\" appears twice", r->json.text) : SYN_OK;
}

static syn_status take_text(reader *r, const char *what, span *out) {
    syn_squad *s = r->squad;
    SYN_TRY(syn_json_expect(&r->json, SYN_JSON_STRING, what));
    *out = (span){s->text_bytes, r->json.text_bytes};
    SYN_TRY(syn_grow(&s->text, &s->text_cap, s->text_bytes + out->bytes + 1, 1, r->err));
    memcpy(s->text + s->text_bytes, r->json.text, out->bytes + 1);
    s->text_bytes += out->bytes + 1;
    return SYN_OK;
}

/* ---- questions and paragraphs ---- */

/* Reads a value that must be an array, and calls `entry` for each element. */
static syn_status read_array(reader *r, const char *what, syn_status (*entry)(reader *)) {
    SYN_TRY(syn_json_expect(&r->json, SYN_JSON_ARRAY_BEGIN, what));
    for (;;) {
        const syn_json_type type = syn_json_next(&r->json);
        if (type == SYN_JSON_ARRAY_END) return SYN_OK;
        if (type == SYN_JSON_ERROR) return r->err->code;
        SYN_TRY(entry(r));
    }
}

static syn_status read_question(reader *r) {
    syn_squad *s = r->squad;
    bool has_question = false;
    if (r->json.type != SYN_JSON_OBJECT_BEGIN) return wrong(r, "a question must be an object");
    SYN_TRY(syn_grow(&s->entries, &s->cap, s->n + 1, sizeof *s->entries, r->err));
    memset(&s->entries[s->n++], 0, sizeof *s->entries);
    while (syn_json_next(&r->json) == SYN_JSON_KEY) {
        if (is(r, "question")) {
            SYN_TRY(note_once(r, &has_question));
            SYN_TRY(take_text(r, "\"question\"", &s->entries[s->n - 1].question));
        } else {
            SYN_TRY(skip(r));
        }
    }
    if (r->json.type != SYN_JSON_OBJECT_END) return wrong(r, "a question must be an object");
    return has_question ? SYN_OK : wrong(r, "the question has no \"question\"");
}

static syn_status read_paragraph(reader *r) {
    const size_t first = r->squad->n;
    span context = {0};
    bool has_context = false, has_questions = false;
    if (r->json.type != SYN_JSON_OBJECT_BEGIN) return wrong(r, "a paragraph must be an object");
    while (syn_json_next(&r->json) == SYN_JSON_KEY) {
        if (is(r, "context")) {
            SYN_TRY(note_once(r, &has_context));
            SYN_TRY(take_text(r, "\"context\"", &context));
        } else if (is(r, "qas")) {
            SYN_TRY(note_once(r, &has_questions));
            SYN_TRY(read_array(r, "\"qas\"", read_question));
        } else {
            SYN_TRY(skip(r));
        }
    }
    if (r->json.type != SYN_JSON_OBJECT_END) return wrong(r, "a paragraph must be an object");
    if (!has_context) return wrong(r, "the paragraph has no \"context\"");
    if (!has_questions) return wrong(r, "the paragraph has no \"qas\"");
    for (size_t i = first; i < r->squad->n; i++) r->squad->entries[i].context = context;
    return SYN_OK;
}

static syn_status read_article(reader *r) {
    bool has_paragraphs = false;
    if (r->json.type != SYN_JSON_OBJECT_BEGIN) return wrong(r, "an article must be an object");
    while (syn_json_next(&r->json) == SYN_JSON_KEY) {
        if (is(r, "paragraphs")) {
            SYN_TRY(note_once(r, &has_paragraphs));
            SYN_TRY(read_array(r, "\"paragraphs\"", read_paragraph));
        } else {
            SYN_TRY(skip(r));
        }
    }
    if (r->json.type != SYN_JSON_OBJECT_END) return wrong(r, "an article must be an object");
    return has_paragraphs ? SYN_OK : wrong(r, "the article has no \"paragraphs\"");
}

/* ---- files ---- */

static syn_status read_document(reader *r) {
    bool has_data = false;
    if (syn_json_next(&r->json) != SYN_JSON_OBJECT_BEGIN)
        return wrong(r, "a SQuAD file must be an object with \"data\"");
    while (syn_json_next(&r->json) == SYN_JSON_KEY) {
        if (is(r, "data")) {
            SYN_TRY(note_once(r, &has_data));
            SYN_TRY(read_array(r, "\"data\"", read_article));
        } else { /* including the version: all versions have the same structure */
            SYN_TRY(skip(r));
        }
    }
    if (r->json.type != SYN_JSON_OBJECT_END) return wrong(r, "a SQuAD file must be an object");
    if (!has_data) return wrong(r, "a SQuAD file must be an object with \"data\"");
    return syn_json_next(&r->json) == SYN_JSON_END ? SYN_OK : r->err->code;
}

static syn_status add_document(syn_squad *squad, const char *name, const char *json, size_t bytes,
                               syn_error *err) {
    syn_error first = {.code = SYN_OK}; /* the JSON reader needs an empty error */
    reader r = {.squad = squad, .err = &first};
    const size_t before = squad->n;
    const bool packed = bytes > 1 && memcmp(json, "\x1f\x8b", 2) == 0;
    if (packed)
        return SYN_FAIL(err, SYN_E_FORMAT, "%s is compressed with gzip; unpack it first", name);
    syn_json_init(&r.json, name, json, bytes, &first);
    syn_status s = read_document(&r);
    if (s == SYN_OK && squad->n == before)
        s = SYN_FAIL(&first, SYN_E_FORMAT, "%s has no question", name);
    if (s != SYN_OK) (void)SYN_FAIL(err, s, "%s", first.text);
    syn_json_free(&r.json);
    return s;
}

static syn_status add_file(syn_squad *squad, const char *path, syn_error *err) {
    char *data;
    size_t bytes;
    SYN_TRY(syn_read_file(path, MAX_BYTES, &data, &bytes, err));
    const syn_status s = add_document(squad, path, data, bytes, err);
    syn_free(data);
    return s;
}

syn_status syn_squad_read(syn_squad **out, const char *const *paths, int n_paths, syn_error *err) {
    syn_squad *squad = syn_calloc(1, sizeof *squad);
    if (!squad) return SYN_FAIL_NOMEM(err, sizeof *squad, "questions of SQuAD");
    syn_status s = n_paths > 0 ? SYN_OK : SYN_FAIL(err, SYN_E_INVALID, "no SQuAD file was given");
    for (int i = 0; i < n_paths && s == SYN_OK; i++) s = add_file(squad, paths[i], err);
    if (s == SYN_OK) *out = squad;
    else syn_squad_free(squad);
    return s;
}

syn_status syn_squad_parse(syn_squad **out, const char *name, const char *json, size_t bytes,
                           syn_error *err) {
    syn_squad *squad = syn_calloc(1, sizeof *squad);
    if (!squad) return SYN_FAIL_NOMEM(err, sizeof *squad, "questions of SQuAD");
    const syn_status s = add_document(squad, name, json, bytes, err);
    if (s == SYN_OK) *out = squad;
    else syn_squad_free(squad);
    return s;
}

void syn_squad_free(syn_squad *squad) {
    if (!squad) return;
    syn_free(squad->text);
    syn_free(squad->entries);
    syn_free(squad);
}

size_t syn_squad_count(const syn_squad *squad) {
    return squad->n;
}

syn_squad_entry syn_squad_get(const syn_squad *squad, size_t i) {
    const struct entry *e = &squad->entries[i];
    return (syn_squad_entry){squad->text + e->question.at, squad->text + e->context.at,
                             e->question.bytes, e->context.bytes};
}
