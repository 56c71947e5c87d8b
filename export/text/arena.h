/* An arena: makes many short-lived allocations, which are freed together. Also copies strings to an
   arena. */
#ifndef EXPORT_ARENA_H
#define EXPORT_ARENA_H

#include "export/text/bytes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Allocations stay at their addresses until the arena is reset or freed. */
typedef struct syn__arena_block syn__arena_block;
typedef struct syn__arena {
    syn__arena_block *blocks; /* newest first */
    size_t used;              /* bytes used of the newest block */
} syn__arena;

void *syn__arena_get(syn__arena *arena, size_t bytes); /* NULL if memory is out */
void syn__arena_reset(syn__arena *arena);
void syn__arena_free(syn__arena *arena);
/* Copies a NUL-terminated string. */
char *syn__arena_copy(syn__arena *arena, const char *text);
/* Returns a NUL-terminated copy in which U+0000 is replaced by U+FFFD. */
const char *syn__arena_text(syn__arena *arena, syn__str s);
/* Returns s itself if it is valid UTF-8, otherwise a copy in which invalid bytes are replaced by
   U+FFFD. The result's text is NULL if memory is out. */
syn__str syn__arena_utf8(syn__arena *arena, syn__str s);

#ifdef __cplusplus
}
#endif
#endif
