/* Short-lived memory, and copies of texts in it. */
#ifndef EXPORT_ARENA_H
#define EXPORT_ARENA_H

#include "export/text/bytes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Its pieces never move; all of them end at once. */
typedef struct syn__arena_block syn__arena_block;
typedef struct syn__arena {
    syn__arena_block *blocks; /* newest first */
    size_t used;              /* of the newest */
} syn__arena;

void *syn__arena_get(syn__arena *arena, size_t bytes); /* NULL when memory is out */
void syn__arena_reset(syn__arena *arena);
void syn__arena_free(syn__arena *arena);
/* A copy of a NUL-terminated text. */
char *syn__arena_copy(syn__arena *arena, const char *text);
/* A NUL-terminated copy in which U+0000 is U+FFFD. */
const char *syn__arena_text(syn__arena *arena, syn__str s);
/* The text itself if it is UTF-8, else a copy in which bytes that are not are U+FFFD. text NULL
   when memory is out. */
syn__str syn__arena_utf8(syn__arena *arena, syn__str s);

#ifdef __cplusplus
}
#endif
#endif
