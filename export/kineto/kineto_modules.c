/* Derives module calls from scopes; see kineto_modules.h. */
#include "export/kineto/kineto_modules.h"

#include <string.h>

#include "syntorch/base/memory.h"

static bool is_number(const char *text, size_t bytes) {
    return bytes > 0 && strspn(text, "0123456789") >= bytes;
}

size_t syn__kineto_module_end(const char *scope, size_t from) {
    if (scope[from] == '.') from++;
    size_t end = from + strcspn(scope + from, ".");
    while (scope[end] == '.') {
        const size_t next = strcspn(scope + end + 1, ".");
        if (!is_number(scope + end + 1, next)) break;
        end += next + 1;
    }
    return end;
}

/* ---- Classes ---- */

/* Returns the start of the path's last word that is not a number, and its length. */
static const char *last_word(const char *path, size_t bytes, size_t *word_bytes) {
    for (size_t end = bytes, at; end > 0; end = at > 0 ? at - 1 : 0) {
        for (at = end; at > 0 && path[at - 1] != '.';) at--;
        if (is_number(path + at, end - at) && at > 0) continue;
        *word_bytes = end - at;
        return path + at;
    }
    *word_bytes = bytes;
    return path;
}

size_t syn__kineto_class(const char *word, size_t bytes, char *out, size_t out_bytes) {
    size_t n = 0;
    bool upper = true;
    for (size_t i = 0; i < bytes && n < out_bytes; i++) {
        const char c = word[i];
        if (c != '_') out[n++] = upper && c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
        upper = c == '_';
    }
    return n;
}

static syn_status add_instance(syn__kineto_modules *m, uint32_t path, syn_error *err) {
    char name[128];
    size_t bytes;
    uint32_t id;
    const char *text = syn_intern_get(&m->paths, path);
    const char *word = last_word(text, syn_intern_entry_bytes(&m->paths, path), &bytes);
    const size_t before = m->classes.n_entries;
    bytes = syn__kineto_class(word, bytes, name, sizeof name);
    SYN_TRY(syn_intern_put(&m->classes, name, bytes, &id, err));
    SYN_TRY(syn_grow(&m->counts, &m->counts_cap, (size_t)id + 1, sizeof *m->counts, err));
    SYN_TRY(
        syn_grow(&m->instances, &m->instances_cap, (size_t)path + 1, sizeof *m->instances, err));
    if (id >= before) m->counts[id] = 0;
    m->instances[path] = (syn__kineto_instance){id, m->counts[id]++};
    return SYN_OK;
}

/* ---- Spans ---- */

/* Whether the scope equals the path of the innermost open span or is within it. Sets *bytes to the
   length of that path. */
static bool is_within(const syn__kineto_modules *m, const char *scope, size_t *bytes) {
    const uint32_t path = m->spans[m->open - 1].path;
    *bytes = syn_intern_entry_bytes(&m->paths, path);
    return strncmp(syn_intern_get(&m->paths, path), scope, *bytes) == 0 &&
           (scope[*bytes] == '\0' || scope[*bytes] == '.');
}

static syn_status open_span(syn__kineto_modules *m, const char *scope, size_t bytes, int64_t *now,
                            syn_error *err) {
    uint32_t path;
    const size_t before = m->paths.n_entries;
    SYN_TRY(syn_intern_put(&m->paths, scope, bytes, &path, err));
    if (path >= before) SYN_TRY(add_instance(m, path, err));
    SYN_TRY(syn_grow(&m->spans, &m->spans_cap, m->n_spans + 1, sizeof *m->spans, err));
    m->spans[m->n_spans++] = (syn__kineto_module){*now, *now, path, m->open};
    m->open = (uint32_t)m->n_spans;
    *now += 1;
    return SYN_OK;
}

syn_status syn__kineto_modules_enter(syn__kineto_modules *m, const char *scope, int64_t *now,
                                     syn_error *err) {
    size_t at = 0;
    while (m->open != 0 && !is_within(m, scope, &at)) {
        syn__kineto_module *span = &m->spans[m->open - 1];
        span->end = (*now)++;
        m->open = span->parent;
    }
    if (m->open == 0) at = 0;
    while (scope[at] != '\0') {
        const size_t end = syn__kineto_module_end(scope, at);
        SYN_TRY(open_span(m, scope, end, now, err));
        at = end;
    }
    return SYN_OK;
}

void syn__kineto_modules_free(syn__kineto_modules *m) {
    syn_free(m->spans);
    syn_intern_free(&m->paths);
    syn_intern_free(&m->classes);
    syn_free(m->instances);
    syn_free(m->counts);
    *m = (syn__kineto_modules){0};
}
