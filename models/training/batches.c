/* Fills batches with samples, padding and labels; see batches.h. Random numbers are hashes of seed,
   epoch, sample and position, so there is no generator whose state a checkpoint would have to
   save. */
#include "models/training/batches.h"

#include <math.h>

#include "ops/ops.h"
#include "ops/rules.h"

enum { CHOSEN, FATE, WORD }; /* the random numbers of a position */

/* The random number that decides whether a position is chosen for prediction (CHOSEN), what hides
   its token (FATE), or which random token replaces it (WORD). */
static uint64_t draw(uint64_t key, int64_t position, int what) {
    return syn__counter_hash(key, (uint64_t)position * 3 + (uint64_t)what);
}

static double uniform(uint64_t number) {
    return (double)(number >> 40) * 0x1p-24;
}

static bool is_special(const syn_batch_options *how, int32_t id) {
    for (int i = 0; i < how->n_special; i++)
        if (how->special[i] == id) return true;
    return false;
}

/* The id that the model sees in place of a token that it must predict. */
static int32_t hidden(const syn_batch_options *how, uint64_t key, int64_t position, int32_t id) {
    const double fate = uniform(draw(key, position, FATE));
    if (fate < 0.8) return how->mask;
    if (how->masking == SYN_MASKING_ONLY || fate >= 0.9) return id;
    return (int32_t)(draw(key, position, WORD) % (uint64_t)how->vocab);
}

static uint64_t key_of(const syn_batch_options *how, int64_t text) {
    const uint64_t epoch = syn__counter_hash(how->seed, (uint64_t)how->epoch);
    return syn__counter_hash(epoch, (uint64_t)text);
}

/* Fills the ids and labels of a row. Returns the number of labels that are not ignored. */
static int64_t fill_masked(int32_t *ids, int32_t *labels, syn_text text, uint64_t key,
                           const syn_batch_options *how) {
    int64_t count = 0;
    for (int64_t t = 0; t < how->tokens; t++) {
        const int32_t id = t < text.n ? text.ids[t] : how->pad;
        const bool chosen =
            t < text.n && !is_special(how, id) && uniform(draw(key, t, CHOSEN)) < 0.15;
        count += chosen;
        if (ids) ids[t] = chosen ? hidden(how, key, t, id) : id;
        if (labels) labels[t] = chosen ? id : SYN_IGNORED_TARGET;
    }
    return count;
}

static int64_t fill_causal(int32_t *ids, int32_t *labels, syn_text text,
                           const syn_batch_options *how) {
    const int64_t n = text.n < how->tokens ? text.n : how->tokens;
    const bool pads = how->predict_padding && text.ids;
    const int64_t last = pads ? how->tokens : n; /* end of the tokens that are targets */
    for (int64_t t = 0; t < how->tokens; t++) {
        if (ids) ids[t] = t < n ? text.ids[t] : how->pad;
        if (!labels) continue;
        labels[t] = t + 1 >= last ? SYN_IGNORED_TARGET : t + 1 < n ? text.ids[t + 1] : how->pad;
    }
    return last > 1 ? last - 1 : 0;
}

int64_t syn_batch_fill(const syn_batch *out, const syn_texts *texts, const int64_t *which,
                       int64_t n, const syn_batch_options *how) {
    const int64_t tokens = how->tokens;
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        const bool none = which[i] < 0;
        const syn_text text = none ? (syn_text){.ids = NULL} : syn_texts_get(texts, which[i]);
        int32_t *ids = out->ids ? out->ids + i * tokens : NULL;
        int32_t *labels = out->labels ? out->labels + i * tokens : NULL;
        count += how->causal ? fill_causal(ids, labels, text, how)
                             : fill_masked(ids, labels, text, key_of(how, which[i]), how);
        for (int64_t t = 0; t < tokens; t++) {
            if (out->types) out->types[i * tokens + t] = t >= text.first && t < text.n;
            if (out->mask) out->mask[i * tokens + t] = none || t < text.n ? 0.0f : -INFINITY;
        }
    }
    return count;
}
