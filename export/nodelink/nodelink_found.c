/* Memory and error messages of what the node-link reader found; see nodelink_found.h. */
#include "export/nodelink/nodelink_found.h"

#include "syntorch/base/memory.h"

#include <stdio.h>
#include <string.h>

void syn__found_free(syn__found *found) {
    syn__arena_free(&found->arena);
    syn_free(found->ops);
    syn_free(found->tensors);
    syn_free(found->edges);
    syn_free(found->groups);
    syn_free(found->metadata);
    syn_free(found->ranks);
    syn_free(found->copies);
    syn_free(found->names);
    syn_free(found->shards);
    syn_free(found->changes);
}

syn_status syn__found_fail(syn__found *found, size_t at, const char *fmt, ...) {
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at && i < found->bytes; i++) {
        if (((unsigned char)found->data[i] & 0xC0) != 0x80) column++; /* characters, not bytes */
        if (found->data[i] == '\n') {
            line++;
            column = 1;
        }
    }
    return SYN_FAIL(found->err, SYN_E_FORMAT, "%.200s:%zu:%zu: %s", found->name, line, column,
                    text);
}
