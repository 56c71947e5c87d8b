/* Allocates from blocks of growing size; see arena.h. */
#include "export/text/arena.h"

#include <stddef.h>

#include "syntorch/base/memory.h"
#include "syntorch/base/utf8.h"

#define FIRST_BYTES ((size_t)4096)
#define MAX_BYTES   ((size_t)1 << 20) /* largest block; each is twice the previous one */

struct syn__arena_block {
    syn__arena_block *older;
    size_t cap;
    max_align_t data[];
};

void *syn__arena_get(syn__arena *arena, size_t bytes) {
    const size_t align = _Alignof(max_align_t);
    if (bytes > SIZE_MAX / 4) return NULL;
    bytes = (bytes + align - 1) / align * align;
    if (arena->blocks == NULL || arena->blocks->cap - arena->used < bytes) {
        size_t cap = arena->blocks != NULL ? arena->blocks->cap * 2 : FIRST_BYTES;
        if (cap > MAX_BYTES) cap = MAX_BYTES;
        if (cap < bytes) cap = bytes;
        syn__arena_block *block = (syn__arena_block *)syn_malloc(sizeof *block + cap);
        if (block == NULL) return NULL;
        block->older = arena->blocks;
        block->cap = cap;
        arena->blocks = block;
        arena->used = 0;
    }
    char *out = (char *)arena->blocks->data + arena->used;
    arena->used += bytes;
    return out;
}

static void free_blocks(syn__arena_block *block) {
    while (block != NULL) {
        syn__arena_block *older = block->older;
        syn_free(block);
        block = older;
    }
}

void syn__arena_reset(syn__arena *arena) {
    arena->used = 0;
    if (arena->blocks == NULL) return;
    free_blocks(arena->blocks->older);
    arena->blocks->older = NULL;
}

void syn__arena_free(syn__arena *arena) {
    free_blocks(arena->blocks);
    *arena = (syn__arena){0};
}

static const char replacement[] = "\xEF\xBF\xBD"; /* U+FFFD */

/* Copies s with U+FFFD in place of U+0000 and of bytes that are not UTF-8. */
static syn__str repaired(syn__arena *arena, syn__str s) {
    char *out = s.bytes > SIZE_MAX / 8 ? NULL : (char *)syn__arena_get(arena, s.bytes * 3 + 1);
    if (out == NULL) return (syn__str){NULL, 0};
    size_t n = 0;
    for (size_t i = 0; i < s.bytes;) {
        const size_t step = s.text[i] == '\0' ? 0 : syn_utf8_char_bytes(s.text + i, s.bytes - i);
        memcpy(out + n, step != 0 ? s.text + i : replacement, step != 0 ? step : 3);
        n += step != 0 ? step : 3;
        i += step != 0 ? step : 1;
    }
    out[n] = '\0';
    return (syn__str){out, n};
}

syn__str syn__arena_utf8(syn__arena *arena, syn__str s) {
    return syn__str_is_utf8(s) ? s : repaired(arena, s);
}

char *syn__arena_copy(syn__arena *arena, const char *text) {
    const size_t bytes = strlen(text) + 1;
    char *out = (char *)syn__arena_get(arena, bytes);
    return out != NULL ? memcpy(out, text, bytes) : NULL;
}

const char *syn__arena_text(syn__arena *arena, syn__str s) {
    if (s.bytes != 0 && memchr(s.text, '\0', s.bytes) != NULL) return repaired(arena, s).text;
    char *out = (char *)syn__arena_get(arena, s.bytes + 1);
    if (out == NULL) return NULL;
    if (s.bytes != 0) memcpy(out, s.text, s.bytes);
    out[s.bytes] = '\0';
    return out;
}
