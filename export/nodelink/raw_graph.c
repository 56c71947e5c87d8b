#include "export/nodelink/raw_graph.h"

#include "syntorch/memory.h"

#include <stdio.h>
#include <string.h>

#define CHUNK_BYTES ((size_t)64 * 1024)

/* One block of the arena; the newest is first. */
typedef struct syn__chunk {
    struct syn__chunk *older;
    size_t used, cap; /* bytes of data */
    max_align_t data[];
} syn__chunk;

void *syn__raw_alloc(syn__raw *raw, size_t bytes) {
    const size_t align = _Alignof(max_align_t);
    if (!syn_add_size(bytes, align - 1, &bytes)) return NULL;
    bytes -= bytes % align;
    syn__chunk *chunk = raw->arena;
    if (chunk == NULL || chunk->cap - chunk->used < bytes) {
        const size_t cap = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
        size_t total;
        if (!syn_add_size(cap, sizeof *chunk, &total)) return NULL;
        chunk = syn_malloc(total);
        if (chunk == NULL) return NULL;
        chunk->older = raw->arena;
        chunk->used = 0;
        chunk->cap = cap;
        raw->arena = chunk;
    }
    void *out = (char *)chunk->data + chunk->used;
    chunk->used += bytes;
    return memset(out, 0, bytes);
}

void syn__raw_free(syn__raw *raw) {
    while (raw->arena != NULL) {
        syn__chunk *older = raw->arena->older;
        syn_free(raw->arena);
        raw->arena = older;
    }
    syn_free(raw->ops);
    syn_free(raw->tensors);
    syn_free(raw->edges);
    syn_free(raw->groups);
    syn_free(raw->metadata);
    syn_free(raw->ranks);
    syn_free(raw->copies);
    syn_free(raw->changes);
}

syn_status syn__raw_fail(syn__raw *raw, size_t at, const char *fmt, ...) {
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at && i < raw->bytes; i++) {
        if (((unsigned char)raw->data[i] & 0xC0) != 0x80) column++; /* characters, not bytes */
        if (raw->data[i] == '\n') {
            line++;
            column = 1;
        }
    }
    return SYN_FAIL(raw->err, SYN_E_FORMAT, "%.200s:%zu:%zu: %s", raw->name, line, column, text);
}
