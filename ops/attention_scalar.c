/* Attention one query at a time, as it is defined: documentation, and the oracle of the vectorised
   kernels. Also the choice between them. */
#include <math.h>
#include <string.h>

#include "ops/attention.h"
#include "ops/rows.h"

enum { TILE = 16 };

/* Scores in `w`, softmax, weighted sum of the value rows. */
static void attend_one(const syn_attend *a, int64_t query) {
    const int64_t visible = syn__visible_keys(a, query), depth = a->depth;
    const float *q = a->q + query * a->q_stride;
    float *w = a->scratch, *out = a->out + query * depth;
    for (int64_t s = 0; s < visible; s++) {
        float dot = 0;
        for (int64_t d = 0; d < depth; d++) dot += q[d] * a->k[s * a->k_stride + d];
        w[s] = a->mask ? dot * a->scale + a->mask[s] : dot * a->scale;
    }
    syn__rows_scalar.softmax(w, w, visible);
    memset(out, 0, (size_t)depth * sizeof *out);
    for (int64_t s = 0; s < visible; s++)
        for (int64_t d = 0; d < depth; d++) out[d] += w[s] * a->v[s * a->v_stride + d];
}

static void attend(const syn_attend *a) {
    for (int64_t i = 0; i < a->queries; i++) attend_one(a, i);
}

static size_t scratch_floats(int64_t depth, int64_t keys) {
    (void)depth;
    return (size_t)keys;
}

const syn_attention_kernels syn__attention_scalar = SYN__ATTENTION_TABLE;

const syn_attention_kernels *syn__attention_kernels_at(syn_simd level) {
    return SYN__AT_LEVEL(&syn__attention, level);
}
