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

static bool begins(const char *name, const char *prefix) {
    return skip_prefix(name, prefix) != name;
}

/* "h.<number>." before `rest`. */
static bool in_layer(const char *name, const char *rest) {
    if (!begins(name, "h.")) return false;
    const size_t digits = strspn(name + 2, "0123456789");
    return digits > 0 && name[2 + digits] == '.' && strcmp(name + 3 + digits, rest) == 0;
}

/* The causal mask and what it hides with; the numbers 0, 1, 2 ... and the types that are all 0. */
static bool is_buffer(syn_weights_kind kind, const char *name) {
    if (kind == SYN_WEIGHTS_GPT2)
        return in_layer(name, "attn.bias") || in_layer(name, "attn.masked_bias");
    return strcmp(name, "embeddings.position_ids") == 0 ||
           strcmp(name, "embeddings.token_type_ids") == 0;
}

/* The heads of pretraining, and those that share their numbers with an embedding or with
   cls.predictions.bias. */
static bool is_head(syn_weights_kind kind, const char *name) {
    if (kind == SYN_WEIGHTS_GPT2) return strcmp(name, "lm_head.weight") == 0;
    return begins(name, "pooler.") || begins(name, "cls.predictions.") ||
           begins(name, "cls.seq_relationship.");
}

syn__weights_role syn__weights_parameter_name(syn_weights_kind kind, const char *name, char *out) {
    static const char *const renamed[2][2] = {{"LayerNorm.gamma", "weight"},
                                              {"LayerNorm.beta", "bias"}};
    name = skip_prefix(name, kind == SYN_WEIGHTS_GPT2 ? "transformer." : "bert.");
    strcpy(out, name);
    for (int i = 0; i < 2; i++)
        if (ends_in(name, renamed[i][0])) strcpy(strrchr(out, '.') + 1, renamed[i][1]);
    if (is_buffer(kind, name)) return SYN__WEIGHTS_BUFFER;
    return is_head(kind, name) ? SYN__WEIGHTS_HEAD : SYN__WEIGHTS_PARAMETER;
}

const char *syn__weights_prefix(syn_weights_kind kind, const char *parameter) {
    if (kind == SYN_WEIGHTS_GPT2) return begins(parameter, "lm_head.") ? "" : "transformer.";
    return begins(parameter, "cls.") ? "" : "bert.";
}
