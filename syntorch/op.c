/* What ops.def tells without the ops' functions: programs that only read traces need no kernels. */
#include "syntorch/op.h"

#include <string.h>

typedef struct named {
    const char *name;
    syn_category category;
} named;

syn_category syn_op_category(const char *name) {
    static const named rows[] = {
#define SYN_OP(id, name, category, ...) {name, SYN_CATEGORY_##category},
#include "ops/ops.def"
    };
    static const named foreign[] = {
#define SYN_FOREIGN(keyword, category) {keyword, SYN_CATEGORY_##category},
#include "ops/ops.def"
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(name, rows[i].name) == 0) return rows[i].category;
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        if (strstr(name, foreign[i].name) != NULL) return foreign[i].category;
    return SYN_CATEGORY_OTHER;
}
