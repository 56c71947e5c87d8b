#include "export/html/html_columns.h"

#define LARGEST   ((UINT64_C(1) << 53) - 1)
#define MAX_BYTES 8 /* of a varint up to that, or to twice that */

static const char *const names[] = {
#define SYN_X(id, name) name,
    SYN__COLUMN_LIST(SYN_X)
#undef SYN_X
};

const char *syn__column_name(syn__column column) {
    return names[column];
}

static void put(syn__buf *buf, uint64_t value) {
    uint8_t *out = (uint8_t *)syn__buf_room(buf, MAX_BYTES);
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

syn_status syn__columns_end_rank(syn__columns *c, syn_error *err) {
    for (int i = 0; i < SYN__COLUMN_COUNT; i++) {
        syn__buf *buf = &c->open[i];
        uint32_t number;
        if (buf->failed) return SYN_FAIL_NOMEM(err, buf->bytes, "the columns of a page");
        const size_t bytes = is_zero(buf) ? 0 : buf->bytes;
        SYN_TRY(syn_intern_put(&c->held, bytes > 0 ? buf->data : "", bytes, &number, err));
        put(&c->order, number);
        buf->bytes = 0;
    }
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
    syn__buf_put(out, c->order.data, c->order.bytes);
    if (out->failed || c->order.failed)
        return SYN_FAIL_NOMEM(err, out->bytes, "the columns of a page");
    return SYN_OK;
}

void syn__columns_free(syn__columns *c) {
    for (int i = 0; i < SYN__COLUMN_COUNT; i++) syn__buf_free(&c->open[i]);
    syn_intern_free(&c->held);
    syn__buf_free(&c->order);
}
