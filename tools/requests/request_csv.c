/* Splits lines of CSV into cells (request_csv.h). */
#include "tools/requests/request_csv.h"

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

static syn__str trimmed(const char *text, const char *end) {
    while (text < end && is_blank(*text)) text++;
    while (text < end && is_blank(end[-1])) end--;
    return (syn__str){text, (size_t)(end - text)};
}

/* Reads the quoted field that begins at *p, and moves *p behind it. Removes the doubled quotes in
   place. Returns false if the field has no end in this text. */
static bool quoted(char **p, const char *end, syn__str *cell) {
    char *from = *p + 1, *to = from;
    cell->text = from;
    for (; from < end; from++) {
        if (*from == '"' && (from + 1 == end || from[1] != '"')) break;
        if (*from == '"') from++;
        *to++ = *from;
    }
    cell->bytes = (size_t)(to - cell->text);
    *p = from + 1;
    return from < end;
}

/* Appends lines until the number of quotes is even. */
static syn_status close_quotes(request_lines *lines, syn__str *text, syn_error *err) {
    size_t n = 0, counted = 0;
    for (;;) {
        bool end;
        for (; counted < text->bytes; counted++) n += text->text[counted] == '"';
        if (n % 2 == 0) return SYN_OK;
        SYN_TRY(request_lines_append(lines, text, &end, err));
        if (end)
            return SYN_FAIL(err, SYN_E_FORMAT, "%.300s:%lld: a quote has no end", lines->name,
                            (long long)lines->line);
    }
}

/* Stores cell i. Fails if there are too many. */
static syn_status put(request_row *row, int32_t i, bool header, syn__str cell, syn_error *err) {
    if (header && i == REQUEST_COLUMNS)
        return request_row_fail(row, err, "the header has more than %d columns", REQUEST_COLUMNS);
    if (header) request_row_name(row, i, cell);
    else if (i < row->n) row->cells[i] = cell;
    return SYN_OK;
}

syn_status request_csv_split(request_row *row, request_lines *lines, syn__str text, bool header,
                             syn_error *err) {
    const bool may_quote = memchr(text.text, '"', text.bytes) != NULL;
    if (may_quote) SYN_TRY(close_quotes(lines, &text, err));
    char *p = (char *)text.text, *end = p + text.bytes;
    int32_t n = 0;
    for (bool more = true; more; n++) {
        syn__str cell;
        while (may_quote && p < end && is_blank(*p)) p++;
        if (may_quote && p < end && *p == '"') {
            if (!quoted(&p, end, &cell)) return request_row_fail(row, err, "a quote has no end");
            while (p < end && is_blank(*p)) p++;
            if (p < end && *p != ',')
                return request_row_fail(row, err, "a comma must follow the quoted field %d", n + 1);
        } else {
            char *comma = memchr(p, ',', (size_t)(end - p));
            char *stop = comma != NULL ? comma : end;
            cell = trimmed(p, stop);
            p = stop;
        }
        SYN_TRY(put(row, n, header, cell, err));
        more = p < end;
        p += more;
    }
    if (header) row->n = n;
    if (n != row->n)
        return request_row_fail(row, err, "the row has %d fields, but the header has %d", n,
                                row->n);
    return SYN_OK;
}
