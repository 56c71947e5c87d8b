/* Encodes columns and stores equal ones once; see html_columns.h. */
#include "export/html/html_columns.h"

#include "syntorch/base/memory.h"

#define LARGEST   ((UINT64_C(1) << 53) - 1)
#define MAX_BYTES 8 /* bytes of the longest varint, which has 53 bits */

static const char *const names[] = {
#define SYN_X(id, name) name,
    SYN__COLUMN_LIST(SYN_X)
#undef SYN_X
};

const char *syn__column_name(syn__column column) {
    return names[column];
}

static void put(syn__buf *buf, uint64_t value) {
    uint8_t *out = (uint8_t *)syn__buf_reserve(buf, MAX_BYTES);
    size_t n = 0;
    if (out == NULL) return;
    for (; value >= 0x80; value >>= 7) out[n++] = (uint8_t)(value | 0x80);
    out[n++] = (uint8_t)value;
    buf->bytes += n;
}

void syn__columns_put(syn__columns *c, syn__column column, uint64_t value) {
    put(&c->open[column], value < LARGEST ? value : LARGEST);
}

void syn__columns_put_signed(syn__columns *c, syn__column column, int64_t value) {
    const int64_t most = (int64_t)(LARGEST / 2);
    const int64_t v = value > most ? most : value < -most ? -most : value;
    put(&c->open[column], v < 0 ? 2 * (uint64_t)-v - 1 : 2 * (uint64_t)v);
}

static bool is_zero(const syn__buf *buf) {
    for (size_t i = 0; i < buf->bytes; i++)
        if (buf->data[i] != 0) return false;
    return true;
}

/* Stores the current rank's column, unless an equal column is stored already. *number: the number
   of the stored column. */
static syn_status hold(syn__columns *c, syn__column column, uint32_t *number, syn_error *err) {
    syn__buf *buf = &c->open[column];
    if (buf->failed) return SYN_FAIL_NOMEM(err, buf->bytes, "the columns of an HTML report");
    const size_t bytes = is_zero(buf) ? 0 : buf->bytes;
    buf->bytes = 0;
    return syn_intern_put(&c->held, bytes > 0 ? buf->data : "", bytes, number, err);
}

static syn_status add_rank(syn__columns *c, uint32_t **numbers, syn_error *err) {
    const size_t n = SYN__COLUMN_COUNT * c->n_ranks;
    SYN_TRY(syn_grow(&c->whose, &c->whose_cap, n + SYN__COLUMN_COUNT, sizeof *c->whose, err));
    *numbers = c->whose + n;
    c->n_ranks++;
    return SYN_OK;
}

syn_status syn__columns_end_rank(syn__columns *c, syn_error *err) {
    uint32_t *numbers;
    SYN_TRY(add_rank(c, &numbers, err));
    for (int i = 0; i < SYN__COLUMN_COUNT; i++) SYN_TRY(hold(c, (syn__column)i, &numbers[i], err));
    return SYN_OK;
}

syn_status syn__columns_end_copy(syn__columns *c, size_t like, syn_error *err) {
    uint32_t *numbers;
    SYN_TRY(add_rank(c, &numbers, err));
    memcpy(numbers, c->whose + like * SYN__COLUMN_COUNT, SYN__COLUMN_COUNT * sizeof *numbers);
    for (int i = 0; i < SYN__COLUMN_COUNT; i++)
        if (c->open[i].bytes > 0 || c->open[i].failed)
            SYN_TRY(hold(c, (syn__column)i, &numbers[i], err));
    return SYN_OK;
}

syn_status syn__columns_write(const syn__columns *c, syn__buf *out, syn_error *err) {
    const uint32_t n = (uint32_t)c->held.n_entries;
    put(out, n);
    for (uint32_t i = 0; i < n; i++) {
        const size_t bytes = syn_intern_entry_bytes(&c->held, i);
        put(out, bytes);
        syn__buf_put(out, syn_intern_get(&c->held, i), bytes);
    }
    for (size_t i = 0; i < SYN__COLUMN_COUNT * c->n_ranks; i++) put(out, c->whose[i]);
    return out->failed ? SYN_FAIL_NOMEM(err, out->bytes, "the columns of an HTML report") : SYN_OK;
}

void syn__columns_free(syn__columns *c) {
    for (int i = 0; i < SYN__COLUMN_COUNT; i++) syn__buf_free(&c->open[i]);
    syn_intern_free(&c->held);
    syn_free(c->whose);
}
