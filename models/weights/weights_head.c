/* Examines the heads in a checkpoint: whether they equal the parameters that they may be tied to,
   whether the token-prediction head is missing, and what the purpose of an unused head is. */
#include <stdio.h>
#include <string.h>

#include "models/weights/safetensors_private.h"
#include "models/weights/weights_private.h"
#include "syntorch/base/memory.h"

#define SHOWN       SYN__SAFETENSORS_SHOWN
#define BLOCK_ELEMS 1024
#define PIECE_BYTES ((size_t)4 << 20) /* bytes to compare before their pages are released */

static bool same_block(const syn_safetensors_tensor *a, const syn_safetensors_tensor *b,
                       int64_t first, size_t n) {
    float x[BLOCK_ELEMS], y[BLOCK_ELEMS];
    syn__weights_widen(a, first, x, n);
    syn__weights_widen(b, first, y, n);
    for (size_t i = 0; i < n; i++)
        if (x[i] != y[i]) return false; /* 0 equals -0, as in torch.equal */
    return true;
}

/* Compares elements first ... first + n - 1. Tests for equal bytes first, which is faster. */
static bool same_piece(const syn_safetensors_tensor *a, const syn_safetensors_tensor *b,
                       int64_t first, size_t n) {
    const size_t size = a->elems > 0 ? (size_t)(a->bytes / (uint64_t)a->elems) : 0;
    if (a->dtype == b->dtype && a->bytes == b->bytes &&
        memcmp((const char *)a->data + (size_t)first * size,
               (const char *)b->data + (size_t)first * size, n * size) == 0)
        return true;
    for (size_t i = 0; i < n; i += BLOCK_ELEMS)
        if (!same_block(a, b, first + (int64_t)i, n - i < BLOCK_ELEMS ? n - i : BLOCK_ELEMS))
            return false;
    return true;
}

static void release(const syn_weights *w, const syn_safetensors_tensor *t, int64_t first,
                    size_t n) {
    const size_t size = (size_t)(t->bytes / (uint64_t)t->elems);
    syn_safetensors_release(w->file, (const char *)t->data + (size_t)first * size, n * size);
}

static bool same_numbers(const syn_weights *w, const syn_safetensors_tensor *a,
                         const syn_safetensors_tensor *b) {
    const int64_t piece = (int64_t)(PIECE_BYTES / sizeof(float));
    for (int64_t at = 0; at < a->elems; at += piece) {
        const size_t n = (size_t)(a->elems - at < piece ? a->elems - at : piece);
        const bool same = same_piece(a, b, at, n);
        release(w, a, at, n);
        release(w, b, at, n);
        if (!same) return false;
    }
    return true;
}

/* Sets *differs to whether the weight or bias (`which`) of a head differs from that of the layer
   that it is tied to. Tensors that the checkpoint lacks do not differ. */
static syn_status compare(const syn_weights *w, const syn__param_row *row, const char *which,
                          bool *differs, syn_error *err) {
    char a[SHOWN], b[SHOWN], shape[SYN__SHAPE_BYTES], other_shape[SYN__SHAPE_BYTES];
    snprintf(a, sizeof a, "%s.%s", row->name, which);
    snprintf(b, sizeof b, "%s.%s", row->tied, which);
    const syn__weights_entry *head = syn__weights_entry_of(w, a),
                             *other = syn__weights_entry_of(w, b);
    *differs = false;
    if (!head || !other) return SYN_OK;
    const syn_safetensors_tensor *x = head->tensor, *y = other->tensor;
    (void)syn__safetensors_shown(x->name, a);
    (void)syn__safetensors_shown(y->name, b);
    if (x->rank != y->rank || memcmp(x->dims, y->dims, (size_t)x->rank * sizeof *x->dims) != 0)
        return SYN_FAIL(err, SYN_E_SHAPE,
                        "%.200s: '%s' has the shape %s, but '%s', which is tied to it, has %s",
                        w->path, a, syn__shape_text(x->dims, x->rank, shape), b,
                        syn__shape_text(y->dims, y->rank, other_shape));
    if (!syn__weights_is_float(x) || !syn__weights_is_float(y))
        return SYN_FAIL(
            err, SYN_E_UNSUPPORTED,
            "%.200s: '%s' is %s and '%s' is %s; both must have a supported floating-point dtype",
            w->path, a, x->dtype_name, b, y->dtype_name);
    *differs = !same_numbers(w, x, y);
    return SYN_OK;
}

syn_status syn_weights_compare_head(const syn_weights *weights, syn_weights_head *out,
                                    syn_error *err) {
    *out = (syn_weights_head){NULL, NULL, NULL};
    for (const syn__param_row *row = weights->family->head_rows; row->name; row++) {
        const bool bias = row->kind == SYN__BIAS_ALIAS;
        bool differs;
        if (!row->tied) continue;
        SYN_TRY(compare(weights, row, bias ? "bias" : "weight", &differs, err));
        if (differs && bias) out->bias = row->name, out->other = row->tied;
        if (differs && !bias) out->matrix = row->name;
    }
    return SYN_OK;
}

/* Whether the checkpoint has a weight or bias of a head's layer. */
static bool has_layer(const syn_weights *w, const syn__param_row *row) {
    char weight[SHOWN], bias[SHOWN];
    snprintf(weight, sizeof weight, "%s.weight", row->name);
    snprintf(bias, sizeof bias, "%s.bias", row->name);
    return syn_weights_has(w, weight) || syn_weights_has(w, bias);
}

const char *syn_weights_lacks_head(const syn_weights *w, const syn_model_config *config,
                                   unsigned heads) {
    const syn__param_row *first = NULL; /* first row of the token-prediction head */
    /* Without the token table, more than a head is missing. */
    if (!has_layer(w, &config->family->embed_rows[0])) return NULL;
    for (const syn__param_row *row = config->family->head_rows; row->name; row++) {
        if ((row->flags & SYN__NO_PREFIX) == 0 || !syn__family_has_row(config, row, heads, -1))
            continue;
        if (row->kind == SYN__BIAS_ALIAS || (row->tied && config->tied)) continue;
        if (first && row->heads != first->heads) continue;
        if (has_layer(w, row)) return NULL;
        if (!first) first = row;
    }
    return first ? first->name : NULL;
}

/* ---- heads that are not used ---- */

const char *syn__weights_purpose(const char *parameter, bool others) {
    static const char *const heads[][2] = {{"pooler.", "the pooler"},
                                           {"cls.seq_relationship.", "a head for next sentences"},
                                           {"cls.predictions.", "a head for masked words"},
                                           {"lm_head.weight", "a head for next words"},
                                           {"lm_head.", "a head for masked words"},
                                           {"classifier.", "a head for classification"},
                                           {"score.", "a head for classification"},
                                           {"qa_outputs.", "a head for answers"},
                                           {"multiple_choice_head.", "a head for choices"},
                                           {"v_head.", "a head for values"}};
    enum { OWN = 5 }; /* our families have the first 5; only transformers has the others */
    for (size_t i = others ? OWN : 0; i < sizeof heads / sizeof heads[0]; i++)
        if (strncmp(parameter, heads[i][0], strlen(heads[i][0])) == 0) return heads[i][1];
    return NULL;
}
