/* Selects rows and converts their cells to requests (request_row.h). */
#include <math.h>
#include <stdio.h>

#include "export/text/loose_json.h"
#include "syntorch/base/memory.h"
#include "tools/requests/request_row.h"

/* Fails because of a cell. must: what the value must be. */
static syn_status bad_cell(const request_row *row, int32_t i, const char *must, syn_error *err) {
    const syn__str cell = row->cells[i];
    if (cell.bytes == 0)
        return request_row_fail(row, err, "%s is empty, but must be %s", row->columns[i].name,
                                must);
    return request_row_fail(row, err, "%s is %.*s, but must be %s", row->columns[i].name,
                            (int)(cell.bytes < 80 ? cell.bytes : 80), cell.text, must);
}

/* Whether cell i fulfils a condition. An empty cell is neither below nor above a number. */
static syn_status fulfils(const request_row *row, int32_t i, const request_condition *c, bool *yes,
                          syn_error *err) {
    const syn__str cell = row->cells[i];
    const bool same =
        cell.bytes == c->value.bytes && memcmp(cell.text, c->value.text, cell.bytes) == 0;
    double number;
    *yes = c->relation == REQUEST_IS_NOT ? !same : same;
    if (c->relation < REQUEST_BELOW) return SYN_OK;
    *yes = false;
    if (cell.bytes == 0) return SYN_OK;
    if (!request_decimal(cell, 0, &number))
        return bad_cell(row, i, "a number, because --where compares it with one", err);
    *yes = c->relation == REQUEST_BELOW     ? number < c->number
           : c->relation == REQUEST_AT_MOST ? number <= c->number
           : c->relation == REQUEST_ABOVE   ? number > c->number
                                            : number >= c->number;
    return SYN_OK;
}

/* Sets *selected to whether the row fulfils all conditions. A row of JSON may lack a column. */
static syn_status select_row(const request_row *row, bool *selected, syn_error *err) {
    uint32_t seen = 0;
    *selected = true;
    for (int32_t i = 0; i < row->n; i++) {
        const uint32_t mine = row->columns[i].conditions;
        for (int k = 0; mine >> k != 0; k++) {
            if (!(mine & 1u << k)) continue;
            SYN_TRY(fulfils(row, i, &row->conditions[k], selected, err));
            if (!*selected) return SYN_OK;
            seen |= 1u << k;
        }
    }
    for (int k = 0; k < row->n_conditions; k++)
        if (!(seen & 1u << k) && row->conditions[k].relation != REQUEST_IS_NOT) *selected = false;
    return SYN_OK;
}

/* Saves the names and cells of the first selected row. */
static syn_status save_first(request_row *row, syn_error *err) {
    const size_t n = (size_t)row->n;
    row->first_line = row->line;
    row->first_names = syn_calloc(n, sizeof *row->first_names);
    row->first_values = syn_calloc(n, sizeof *row->first_values);
    if (!row->first_names || !row->first_values)
        return SYN_FAIL_NOMEM(err, n * sizeof(char *), "the first row");
    for (int32_t i = 0; i < row->n; i++) {
        const request_column *c = &row->columns[i];
        row->first_names[i] = syn_strdup(c->name);
        row->first_values[i] = syn_strndup(row->cells[i].text, row->cells[i].bytes);
        row->n_first = i + 1;
        if (!row->first_names[i] || !row->first_values[i])
            return SYN_FAIL_NOMEM(err, row->cells[i].bytes, "the first row");
        if (c->run >= 0) row->first_run[c->run] = row->first_values[i];
    }
    return SYN_OK;
}

/* Reads from the first selected row which trace the file is. */
static void take_format(request_row *row) {
    for (int32_t i = 0; i < row->n; i++) {
        const syn__str cell = row->cells[i];
        row->has_chat_id = row->has_chat_id || row->columns[i].field == REQUEST_CHAT_ID;
        if (row->columns[i].field == REQUEST_TIMESTAMP && memchr(cell.text, '.', cell.bytes))
            row->stamp_in_s = true;
    }
    row->stamp_in_s = row->stamp_in_s || row->has_chat_id;
}

static syn_status check_run(const request_row *row, syn_error *err) {
    for (int32_t i = 0; i < row->n; i++) {
        const request_column *c = &row->columns[i];
        const char *first = c->run >= 0 ? row->first_run[c->run] : NULL;
        const syn__str cell = row->cells[i];
        if (first == NULL || syn__str_is(cell, first)) continue;
        return request_row_fail(row, err,
                                "%s is %.*s, but %.60s in line %lld: the file has several runs; "
                                "select one, as with --where %s=%.60s",
                                c->name, (int)(cell.bytes < 60 ? cell.bytes : 60), cell.text, first,
                                (long long)row->first_line, c->name, first);
    }
    return SYN_OK;
}

/* Reads a whole number from min to max. "12.0" is one, as pandas writes it. */
static syn_status take_whole(const request_row *row, int32_t i, int64_t min, int64_t max,
                             int64_t *out, syn_error *err) {
    char must[160];
    double value;
    if (request_decimal(row->cells[i], 0, &value) && value >= (double)min && value <= (double)max &&
        value == floor(value)) {
        *out = (int64_t)value;
        return SYN_OK;
    }
    const bool is_zero = min > 0 && request_decimal(row->cells[i], 0, &value) && value == 0;
    snprintf(must, sizeof must, "a whole number from %lld to %lld%s%s%s%.*s%s", (long long)min,
             (long long)max, is_zero ? "; --where '" : "", is_zero ? row->columns[i].name : "",
             is_zero ? "!=" : "", is_zero ? (int)row->cells[i].bytes : 0, row->cells[i].text,
             is_zero ? "' omits such rows" : "");
    return bad_cell(row, i, must, err);
}

static syn_status take_tokens(const request_row *row, int32_t i, int32_t min, int32_t *out,
                              syn_error *err) {
    int64_t value;
    SYN_TRY(take_whole(row, i, min, INT32_MAX, &value, err));
    *out = (int32_t)value;
    return SYN_OK;
}

/* From UNIX_S on, a time in seconds is a Unix time; from UNIX_MS on, it has a smaller unit. */
#define UNIX_S    1e9
#define UNIX_MS   1e11
#define LONGEST_S 1e9

/* The power of ten that converts an arrival to ns. Returns -1 if a timestamp has another unit than
   those before. */
static int power_of(const request_row *row, int32_t i) {
    static const int powers[] = {9, 6, 6, 0};
    const request_field field = row->columns[i].field;
    if (field != REQUEST_TIMESTAMP) return powers[field];
    const bool whole = memchr(row->cells[i].text, '.', row->cells[i].bytes) == NULL;
    return row->stamp_in_s ? 9 : whole ? 6 : -1;
}

/* Reads an arrival: a date as days and the time of the day, or a number as ns. */
static syn_status read_arrival(const request_row *row, int32_t i, bool *is_date, int64_t *day,
                               double *ns, syn_error *err) {
    const syn__str cell = row->cells[i];
    int power = power_of(row, i);
    *day = 0;
    *is_date = cell.bytes > 10 && cell.text[4] == '-' && request_date(cell, day, ns);
    if (*is_date) return SYN_OK;
    if (power < 0)
        return bad_cell(row, i,
                        "a whole number of ms, as in the rows before; rename it to arrival_ms or "
                        "arrival_s",
                        err);
    if (!request_decimal(cell, power, ns) || *ns < 0)
        return bad_cell(row, i, "a time of 0 or more, or a date such as 2023-11-16 18:15:46.68",
                        err);
    if (power == 9 && *ns >= UNIX_MS * 1e9) {
        for (double s = *ns / 1e9; power > 0 && s >= UNIX_MS; s /= 1e3) power -= 3;
        (void)request_decimal(cell, power, ns); /* rounds once */
    }
    return SYN_OK;
}

/* Converts an arrival time. Dates and Unix times are relative to the first request. */
static syn_status take_arrival(request_row *row, int32_t i, bool first, double *out,
                               syn_error *err) {
    int64_t day;
    double ns;
    bool is_date;
    SYN_TRY(read_arrival(row, i, &is_date, &day, &ns, err));
    if (first) {
        row->by_date = is_date;
        row->first_day = day;
        row->first_ns = is_date || ns >= UNIX_S * 1e9 ? ns : 0;
    } else if (is_date != row->by_date) {
        return bad_cell(row, i,
                        row->by_date ? "a date, as in the rows before"
                                     : "a number, as in the rows before",
                        err);
    }
    ns += (double)(day - row->first_day) * 86400e9 - row->first_ns;
    if (ns < row->last_ns)
        return request_row_fail(row, err,
                                "the request arrives at %.9g s, but the one before at %.9g s; "
                                "sort the rows by %s",
                                ns / 1e9, row->last_ns / 1e9, row->columns[i].name);
    if (ns > LONGEST_S * 1e9) return bad_cell(row, i, "at most 1e9 s after the first request", err);
    row->last_ns = *out = ns;
    return SYN_OK;
}

/* Converts a measured time, of which `start` is the beginning of the run. An empty cell is an
   unknown time. */
static syn_status take_measured(const request_row *row, int32_t i, double start, double *out,
                                syn_error *err) {
    const syn__str cell = row->cells[i];
    double ns;
    *out = -1;
    if (cell.bytes == 0) return SYN_OK;
    if (!request_decimal(cell, 9, &ns) || ns < start)
        return bad_cell(row, i, "a time in seconds after the start of the run, or empty", err);
    *out = ns - start;
    return SYN_OK;
}

/* Reads ids of blocks: "7 8 9", or "[7, 8, 9]" as Python writes it. */
static syn_status take_ids(request_row *row, int32_t i, syn_error *err) {
    static const char between[] = " ,[]";
    const char *p = row->cells[i].text, *end = p + row->cells[i].bytes;
    row->n_blocks = 0;
    while (p < end) {
        const char *from = p;
        uint64_t id;
        while (p < end && strchr(between, *p) == NULL) p++;
        if (p > from) {
            const syn__str text = {from, (size_t)(p - from)};
            if (*from == '-' || !syn__loose_u64(text, &id))
                return bad_cell(row, i, "whole numbers of 0 or more, separated by spaces", err);
            SYN_TRY(syn_grow(&row->blocks, &row->blocks_cap, row->n_blocks + 1, sizeof *row->blocks,
                             err));
            row->blocks[row->n_blocks++] = id;
        }
        p += p < end;
    }
    return SYN_OK;
}

static syn_status take_cell(request_row *row, int32_t i, request *r, syn_error *err) {
    int64_t value;
    double unused;
    const double start = row->by_date ? 0 : row->first_ns;
    switch (row->columns[i].field) {
    case REQUEST_PROMPT:
        return take_tokens(row, i, 1, &r->prompt, err);
    case REQUEST_OUTPUT:
        return take_tokens(row, i, 1, &r->output, err);
    case REQUEST_PRIORITY:
        SYN_TRY(take_whole(row, i, INT32_MIN, INT32_MAX, &value, err));
        r->priority = (int32_t)value;
        return SYN_OK;
    case REQUEST_PREFIX:
        return take_whole(row, i, 0, (int64_t)1 << 53, &r->prefix, err);
    case REQUEST_PREFIX_TOKENS:
        return take_tokens(row, i, 0, &r->prefix_tokens, err);
    case REQUEST_FIRST_S:
        return take_measured(row, i, start, &r->measured_first_ns, err);
    case REQUEST_LAST_S:
        return take_measured(row, i, start, &r->measured_last_ns, err);
    case REQUEST_QUEUED_TS:
        return take_measured(row, i, 0, &unused, err);
    case REQUEST_FIRST_TS:
        return take_measured(row, i, row->first_queued_ns, &r->measured_first_ns, err);
    case REQUEST_LAST_TS:
        return take_measured(row, i, row->first_queued_ns, &r->measured_last_ns, err);
    case REQUEST_HASH_IDS:
        return take_ids(row, i, err);
    case REQUEST_HASH_BLOCK:
        if (row->cells[i].bytes == 0) return SYN_OK;
        return take_tokens(row, i, 1, &r->block_tokens, err);
    default:
        return SYN_OK;
    }
}

/* Checks the ids of the prompt's blocks. Without hash_block_tokens, the first row decides how many
   tokens a block has: 512 in Mooncake's traces, 16 in those of Qwen-Bailian. */
static syn_status take_blocks(request_row *row, request *r, syn_error *err) {
    const int64_t n = (int64_t)row->n_blocks;
    if (r->block_tokens > 0) row->block_tokens = r->block_tokens;
    r->block_tokens = 0;
    if (n == 0) return SYN_OK;
    if (row->block_tokens == 0)
        row->block_tokens =
            row->has_chat_id || ((r->prompt + INT64_C(15)) / 16 == n && n > 1) ? 16 : 512;
    const int64_t most = (r->prompt - INT64_C(1)) / row->block_tokens + 1;
    if (n > most)
        return request_row_fail(row, err,
                                "hash_ids has %lld ids, but the prompt of %d tokens has at most "
                                "%lld block%s of %d tokens",
                                (long long)n, r->prompt, (long long)most, most == 1 ? "" : "s",
                                row->block_tokens);
    r->blocks = row->blocks;
    r->n_blocks = (int32_t)n;
    r->block_tokens = row->block_tokens;
    return SYN_OK;
}

/* Fails if a token is before the arrival. The times of vLLM's events are not compared, because they
   have another start. */
static syn_status check_measured(const request_row *row, const request *r, syn_error *err) {
    for (int32_t i = 0; i < row->n; i++) {
        const request_field field = row->columns[i].field;
        const double ns = field == REQUEST_FIRST_S  ? r->measured_first_ns
                          : field == REQUEST_LAST_S ? r->measured_last_ns
                                                    : -1;
        char must[80];
        if (ns < 0 || ns >= r->arrival_ns) continue;
        snprintf(must, sizeof must, "at least the arrival, %.9g s after the start of the run",
                 r->arrival_ns / 1e9);
        return bad_cell(row, i, must, err);
    }
    return SYN_OK;
}

static syn_status check_request(const request_row *row, const request *r, syn_error *err) {
    if (r->prompt == 0) return request_row_fail(row, err, "the row has no tokens of the prompt");
    if (r->output == 0) return request_row_fail(row, err, "the row has no tokens of the output");
    if (row->needs_arrival && r->arrival_ns < 0)
        return request_row_fail(row, err, "the row has no arrival time");
    if (r->prefix_tokens > r->prompt)
        return request_row_fail(row, err, "prefix_tokens is %d, but the prompt has only %d tokens",
                                r->prefix_tokens, r->prompt);
    SYN_TRY(check_measured(row, r, err));
    if (r->measured_last_ns >= 0 && r->measured_last_ns < r->measured_first_ns)
        return request_row_fail(row, err, "the last token is before the first one");
    return SYN_OK;
}

syn_status request_row_take(request_row *row, request *out, bool *selected, syn_error *err) {
    *out = (request){
        .arrival_ns = -1, .measured_first_ns = -1, .measured_last_ns = -1, .line = row->line};
    SYN_TRY(select_row(row, selected, err));
    if (!*selected) return SYN_OK;
    const bool first = row->first_line == 0;
    if (first) {
        SYN_TRY(save_first(row, err));
        take_format(row);
    }
    SYN_TRY(check_run(row, err));
    /* Measured times depend on the start of the run. */
    for (int32_t i = 0; i < row->n; i++) {
        if (row->columns[i].field <= REQUEST_ARRIVAL_NS)
            SYN_TRY(take_arrival(row, i, first, &out->arrival_ns, err));
        if (row->columns[i].field == REQUEST_QUEUED_TS && first)
            SYN_TRY(take_measured(row, i, 0, &row->first_queued_ns, err));
    }
    for (int32_t i = 0; i < row->n; i++)
        if (row->columns[i].field < REQUEST_FIELDS) SYN_TRY(take_cell(row, i, out, err));
    SYN_TRY(check_request(row, out, err));
    if (out->prefix == 0 || out->prefix_tokens == 0) out->prefix = out->prefix_tokens = 0;
    return take_blocks(row, out, err);
}
