#include "tools/pytorch/pytorch_options.h"

#include <string.h>

#define ALWAYS (1u << SYN__PT_EDGE_CALL | 1u << SYN__PT_EDGE_PROGRAM)

bool pytorch_read_edges(const char *text, uint32_t *edges, const char **wrong) {
    static const char *const names[SYN__PT_EDGE_CLASSES] = {
#define SYN_X(id, name) name,
        SYN__PT_EDGE_LIST(SYN_X)
#undef SYN_X
    };
    *edges = ALWAYS;
    if (strcmp(text, "none") == 0) return true;
    if (strcmp(text, "all") == 0) return *edges = SYN__PT_ALL_EDGES, true;
    for (const char *p = text, *end;; p = end + 1) {
        end = p + strcspn(p, ",");
        int c = 0;
        while (c < SYN__PT_EDGE_CLASSES && (strlen(names[c]) != (size_t)(end - p) ||
                                            memcmp(names[c], p, (size_t)(end - p)) != 0))
            c++;
        *wrong = p;
        if (c == SYN__PT_EDGE_CLASSES) return false;
        *edges |= 1u << c;
        if (!*end) return true;
    }
}

bool pytorch_read_dup_ids(const char *text, syn__pt_options *options) {
    if (strcmp(text, "first") == 0) options->dup_ids = SYN__PT_DUP_FIRST;
    else if (strcmp(text, "last") == 0) options->dup_ids = SYN__PT_DUP_LAST;
    else if (strcmp(text, "error") == 0) options->dup_ids = SYN__PT_DUP_ERROR;
    else return false;
    return true;
}

bool pytorch_read_object(const char *text, int64_t *object) {
    const syn__str s = {text, strlen(text)};
    if (strcmp(text, "last") == 0) return *object = SYN__PT_OBJECT_LAST, true;
    if (strcmp(text, "all") == 0) return *object = SYN__PT_OBJECT_ALL, true;
    return syn__loose_i64(s, object) && *object >= 0;
}
