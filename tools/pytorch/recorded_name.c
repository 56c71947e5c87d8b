/* Splits the names of trace files into their parts. */
#include "tools/pytorch/recorded_name.h"

#include <stdio.h>
#include <string.h>

#include "syntorch/base/memory.h"

#define JSON ".json"
#define GZIP ".gz"

const char *const recorded_device_words[] = {"device", "kineto", "pt.trace", NULL};

/* If the first *n bytes of `text` end with `end`, shortens *n by it and returns true. */
static bool take_end(const char *text, size_t *n, const char *end) {
    const size_t e = strlen(end);
    if (*n < e || memcmp(text + *n - e, end, e) != 0) return false;
    *n -= e;
    return true;
}

/* Returns the position of ".12" (any number) at the end of the first n bytes; n if there is
   none. */
static size_t rank_at(const char *text, size_t n) {
    size_t at = n;
    while (at > 0 && text[at - 1] >= '0' && text[at - 1] <= '9') at--;
    return at < n && at > 0 && text[at - 1] == '.' ? at - 1 : n;
}

bool recorded_name_parse(recorded_name *out, const char *name) {
    size_t n = strlen(name);
    *out = (recorded_name){.name = name};
    (void)take_end(name, &n, GZIP);
    const size_t end = n;
    if (!take_end(name, &n, JSON)) return false;
    n = rank_at(name, n);
    out->tail_at = n;
    out->tail_bytes = end - n;
    out->is_host = take_end(name, &n, "host");
    bool found = out->is_host;
    for (size_t i = 0; recorded_device_words[i] && !found; i++)
        found = take_end(name, &n, recorded_device_words[i]);
    if (!found) return false;
    out->head_bytes = n;
    return n == 0 || (n > 1 && (name[n - 1] == '_' || name[n - 1] == '.'));
}

char *recorded_name_stem(const recorded_name *n) {
    const char *head = n->head_bytes > 0 ? n->name : "trace";
    const size_t head_bytes = n->head_bytes > 0 ? n->head_bytes - 1 : strlen(head);
    const size_t rank_bytes = n->tail_bytes - strlen(JSON), capacity = head_bytes + rank_bytes + 1;
    char *stem = syn_malloc(capacity);
    if (!stem) return NULL;
    memcpy(stem, head, head_bytes);
    memcpy(stem + head_bytes, n->name + n->tail_at, rank_bytes);
    stem[capacity - 1] = '\0';
    return stem;
}
