/* Stacks: tensors of checkpoints that have the matrices of all experts of a layer (`stacked` of
   syn__param_row). A matrix of the library is (out, in); a stack has (in, out), and in one row the
   columns of several matrices alternate. MXFP4 (Open Compute Project 2023, "OCP Microscaling
   Formats") stores the transposed stack, each row in groups of 32 numbers: 4 bits per number, the
   low half of a byte first, and an exponent per group. */
#include <math.h>
#include <string.h>

#include "models/weights/weights_private.h"
#include "syntorch/base/half.h"

enum { GROUP = 32, COLUMNS = 128, LINE = 1024 };

/* The part of a matrix that a shard has. */
typedef struct range {
    int64_t first[3], n[3]; /* of (experts, out, in) */
} range;

static range range_of(const syn_spec *full, syn_shard shard) {
    const syn_spec part = syn_shard_range(full, &shard);
    range r = {.first = {shard.range * part.dims[0]},
               .n = {part.dims[0], part.dims[1], part.rank == 3 ? part.dims[2] : 1}};
    r.n[shard.axis] /= shard.count;
    r.first[shard.axis] += shard.index * r.n[shard.axis];
    return r;
}

static void store(const float *x, void *out, int64_t n, syn_dtype to) {
    if (to == SYN_F32) memcpy(out, x, (size_t)n * sizeof *x);
    else syn_half_narrow(x, out, (size_t)n, to);
}

/* ---- floats ---- */

typedef struct tile {
    float at[COLUMNS][GROUP]; /* (columns of the stack, its rows) */
} tile;

/* Loads n rows of expert e from row `row` on, and `columns` columns from `column` on. */
static void load(const syn__weights_stack *s, int64_t e, int64_t row, int64_t n, int64_t column,
                 int64_t columns, tile *out) {
    const int64_t *dims = s->values->dims;
    const int64_t rows = s->values->rank == 3 ? dims[1] : 1, width = dims[s->values->rank - 1];
    float line[COLUMNS];
    for (int64_t i = 0; i < n; i++) {
        syn__weights_widen(s->values, (e * rows + row + i) * width + column, line, (size_t)columns);
        for (int64_t c = 0; c < columns; c++) out->at[c][i] = line[c];
    }
}

static void unstack_floats(const syn__weights_stack *s, const syn__param_row *row, const range *r,
                           int64_t e, syn_dtype to, char *data) {
    const int64_t end = r->first[2] + r->n[2], bytes = (int64_t)syn_dtype_bytes(to);
    const int64_t stacked = row->stacked, each = COLUMNS / stacked;
    tile t;
    for (int64_t i = r->first[2], n; i < end; i += n) {
        n = end - i < GROUP ? end - i : GROUP;
        for (int64_t o = 0, some; o < r->n[1]; o += some) {
            some = r->n[1] - o < each ? r->n[1] - o : each;
            load(s, e, i, n, (r->first[1] + o) * stacked, some * stacked, &t);
            for (int64_t k = 0; k < some; k++)
                store(t.at[k * stacked + row->from_end],
                      data + ((o + k) * r->n[2] + i - r->first[2]) * bytes, n, to);
        }
    }
}

/* ---- MXFP4 ---- */

/* Decodes n numbers of a row of a transposed stack, from number `first` on. */
static void decode(const syn__weights_stack *s, int64_t row, int64_t first, int64_t n, float *out) {
    static const float values[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                     -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
    const int64_t groups = s->values->dims[2];
    for (int64_t i = 0; i < n;) {
        const int64_t at = row * groups + (first + i) / GROUP, begin = (first + i) % GROUP;
        const int64_t end = GROUP - begin < n - i ? GROUP : begin + n - i;
        const uint8_t *bytes = (const uint8_t *)s->values->data + at * (GROUP / 2);
        const float scale = ldexpf(1, ((const uint8_t *)s->scales->data)[at] - 127);
        float both[GROUP];
        for (int64_t k = begin / 2; k < (end + 1) / 2; k++) {
            both[2 * k] = values[bytes[k] & 15] * scale;
            both[2 * k + 1] = values[bytes[k] >> 4] * scale;
        }
        memcpy(out + i, both + begin, (size_t)(end - begin) * sizeof *out);
        i += end - begin;
    }
}

static void unstack_mxfp4(const syn__weights_stack *s, const syn__param_row *row, const range *r,
                          int64_t e, syn_dtype to, char *data) {
    const int64_t width = s->values->dims[1], bytes = (int64_t)syn_dtype_bytes(to);
    float line[LINE];
    for (int64_t o = 0; o < r->n[1]; o++) {
        const int64_t of = e * width + (r->first[1] + o) * row->stacked + row->from_end;
        for (int64_t i = 0, n; i < r->n[2]; i += n) {
            n = r->n[2] - i < LINE ? r->n[2] - i : LINE;
            decode(s, of, r->first[2] + i, n, line);
            store(line, data + (o * r->n[2] + i) * bytes, n, to);
        }
    }
}

/* ---- whole parameters ---- */

static void release(const syn_weights *w, const syn_safetensors_tensor *t, int64_t e) {
    const uint64_t each = t->bytes / (uint64_t)t->dims[0];
    syn_safetensors_release(w->file, (const char *)t->data + (uint64_t)e * each, (size_t)each);
}

void syn__weights_unstack(const syn_weights *w, const syn__weights_stack *s,
                          const syn__param_row *row, const syn_spec *full, syn_shard shard,
                          syn_dtype to, char *data) {
    const range r = range_of(full, shard);
    for (int64_t e = 0; e < r.n[0]; e++) {
        (s->scales ? unstack_mxfp4 : unstack_floats)(s, row, &r, r.first[0] + e, to, data);
        data += r.n[1] * r.n[2] * (int64_t)syn_dtype_bytes(to);
        release(w, s->values, r.first[0] + e);
        if (s->scales) release(w, s->scales, r.first[0] + e);
    }
}

syn_spec syn__weights_stack_spec(const syn__param_row *row, const syn_spec *full) {
    const int64_t width = full->dims[1] * row->stacked;
    if (full->rank == 2) return (syn_spec){full->dtype, 2, {full->dims[0], width}};
    return (syn_spec){full->dtype, 3, {full->dims[0], full->dims[2], width}};
}

syn_spec syn__weights_mxfp4_spec(const syn__param_row *row, const syn_spec *full, bool scales) {
    const int64_t groups = (full->dims[2] + GROUP - 1) / GROUP;
    return (syn_spec){full->dtype,
                      scales ? 3 : 4,
                      {full->dims[0], full->dims[1] * row->stacked, groups, GROUP / 2}};
}

/* Processes squares of BLOCK x BLOCK elements, so that both sides stay in the cache. */
void syn__weights_stack_up(const syn__param_row *row, const syn_spec *full, const void *data,
                           void *stack) {
    enum { BLOCK = 32 };
    const range r = range_of(full, SYN_WHOLE);
    const int64_t out = r.n[1], in = r.n[2],
                  bytes = (int64_t)syn_dtype_bytes((syn_dtype)full->dtype);
    const char *from = data;
    char *to = stack;
    for (int64_t e = 0; e < r.n[0]; e++, from += out * in * bytes)
        for (int64_t o0 = 0; o0 < out; o0 += BLOCK)
            for (int64_t i0 = 0; i0 < in; i0 += BLOCK)
                for (int64_t i = i0; i < in && i < i0 + BLOCK; i++)
                    for (int64_t o = o0; o < out && o < o0 + BLOCK; o++)
                        memcpy(to + (((e * in + i) * out + o) * row->stacked + row->from_end) *
                                        bytes,
                               from + (o * in + i) * bytes, (size_t)bytes);
}
