/* Flags and categories of ops by name, from tables that ops/ops.def defines (op_names.h). */
#include "syntorch/graph/op_names.h"

#include <string.h>

typedef struct named {
    const char *name;
    syn_category category;
    uint32_t flags;
} named;

static const named rows[] = {
#define SYN_OP(id, name, category, min_in, max_in, n_out, flags, ...) \
    {name, SYN_CATEGORY_##category, flags},
#include "ops/ops.def"
};

static const named *row_of(const char *name) {
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(name, rows[i].name) == 0) return &rows[i];
    return NULL;
}

uint32_t syn_op_flags(const char *name) {
    const named *row = row_of(name);
    return row ? row->flags : 0;
}

syn_category syn_op_category(const char *name) {
    static const named foreign[] = {
#define SYN_FOREIGN(keyword, category) {keyword, SYN_CATEGORY_##category, 0},
#include "ops/ops.def"
    };
    const named *row = row_of(name);
    if (row) return row->category;
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        if (strstr(name, foreign[i].name) != NULL) return foreign[i].category;
    return SYN_CATEGORY_OTHER;
}
