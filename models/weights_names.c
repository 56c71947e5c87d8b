/* HuggingFace's names, now and formerly. */
#include <string.h>

#include "models/weights_private.h"

static const char *skip_prefix(const char *name, const char *prefix) {
    const size_t n = strlen(prefix);
    return strncmp(name, prefix, n) == 0 ? name + n : name;
}

static bool ends_in(const char *name, const char *end) {
    const size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

syn__weights_role syn__weights_parameter_name(const syn_model_family *family, const char *name,
                                              char *out) {
    static const char *const renamed[2][2] = {{"LayerNorm.gamma", "weight"},
                                              {"LayerNorm.beta", "bias"}};
    name = skip_prefix(name, family->prefix);
    strcpy(out, name);
    for (int i = 0; i < 2; i++)
        if (ends_in(name, renamed[i][0])) strcpy(strrchr(out, '.') + 1, renamed[i][1]);
    const syn__param_row *row = syn__family_row(family, out);
    if (!row) return SYN__WEIGHTS_PARAMETER;
    if (row->kind == SYN__IGNORED) return SYN__WEIGHTS_BUFFER;
    return row->heads != 0 || row->tied ? SYN__WEIGHTS_HEAD : SYN__WEIGHTS_PARAMETER;
}
