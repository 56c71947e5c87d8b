/* Columns and cells of files of requests (request_row.h). */
#include "tools/requests/request_row.h"

#include <stdarg.h>
#include <stdio.h>

#include "syntorch/base/memory.h"
#include "syntorch/base/nearest.h"

/* Accepted names in lower case, with "_" for spaces and "-". A shared name has the meaning of its
   first row. */
static const struct {
    const char *name;
    request_field field;
} names[] = {
    {"arrival_s", REQUEST_ARRIVAL_S},
    {"arrival", REQUEST_ARRIVAL_S},
    {"arrived_at", REQUEST_ARRIVAL_S},   /* Vidur */
    {"arrival_time", REQUEST_ARRIVAL_S}, /* LLMServingSim's measured runs */
    {"timestamp", REQUEST_ARRIVAL_S},    /* Azure, BurstGPT; JSON: REQUEST_TIMESTAMP */
    {"arrival_ms", REQUEST_ARRIVAL_MS},
    {"arrival_ns", REQUEST_ARRIVAL_NS},
    {"arrival_time_ns", REQUEST_ARRIVAL_NS}, /* LLMServingSim */
    {"input_tokens", REQUEST_PROMPT},
    {"prompt_tokens", REQUEST_PROMPT},
    {"num_prefill_tokens", REQUEST_PROMPT}, /* Vidur */
    {"contexttokens", REQUEST_PROMPT},      /* Azure */
    {"context_tokens", REQUEST_PROMPT},
    {"request_tokens", REQUEST_PROMPT}, /* BurstGPT */
    {"input_length", REQUEST_PROMPT},   /* Mooncake */
    {"input_toks", REQUEST_PROMPT},     /* LLMServingSim */
    {"input_len", REQUEST_PROMPT},
    {"prompt_len", REQUEST_PROMPT}, /* vLLM */
    {"output_tokens", REQUEST_OUTPUT},
    {"completion_tokens", REQUEST_OUTPUT},
    {"num_decode_tokens", REQUEST_OUTPUT},
    {"generatedtokens", REQUEST_OUTPUT},
    {"generated_tokens", REQUEST_OUTPUT},
    {"response_tokens", REQUEST_OUTPUT},
    {"output_length", REQUEST_OUTPUT},
    {"output_toks", REQUEST_OUTPUT},
    {"output_len", REQUEST_OUTPUT},
    {"priority", REQUEST_PRIORITY},
    {"prefix", REQUEST_PREFIX},
    {"prefix_id", REQUEST_PREFIX},
    {"prefix_tokens", REQUEST_PREFIX_TOKENS},
    {"first_token_s", REQUEST_FIRST_S},
    {"last_token_s", REQUEST_LAST_S},
    {"queued_ts", REQUEST_QUEUED_TS},
    {"first_token_ts", REQUEST_FIRST_TS},
    {"last_token_ts", REQUEST_LAST_TS},
    {"chat_id", REQUEST_CHAT_ID}, /* Qwen-Bailian */
    {"hash_ids", REQUEST_HASH_IDS},
    {"hash_block_tokens", REQUEST_HASH_BLOCK},
};
enum { N_NAMES = sizeof names / sizeof *names };

/* Columns that describe a run. The requests of two runs cannot be served together. */
static const char *const run_columns[REQUEST_RUN_COLUMNS] = {
    "model", "gpu", "tp", "dp", "ep", "max_num_seqs", "max_num_batched_tokens"};

syn_status request_row_fail(const request_row *row, syn_error *err, const char *fmt, ...) {
    char what[SYN_ERROR_TEXT];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    return SYN_FAIL(err, SYN_E_FORMAT, "%.200s:%lld: %s", row->name, (long long)row->line, what);
}

static char lower(char c) {
    if (c >= 'A' && c <= 'Z') return (char)(c - 'A' + 'a');
    return c == ' ' || c == '-' ? '_' : c;
}

static bool same_name(syn__str a, const char *b) {
    size_t i = 0;
    while (i < a.bytes && b[i] != '\0' && lower(a.text[i]) == lower(b[i])) i++;
    return i == a.bytes && b[i] == '\0';
}

/* The signs of the relations, in their order. */
static const char *const signs[] = {"=", "!=", "<", "<=", ">", ">="};

/* Reads "COLUMN=VALUE", or another relation. */
static bool read_condition(syn__str text, request_condition *out) {
    size_t at = 0, sign_bytes = 0;
    while (at < text.bytes && strchr("=!<>", text.text[at]) == NULL) at++;
    const syn__str rest = {text.text + at, text.bytes - at};
    for (int k = 0; k < (int)(sizeof signs / sizeof *signs); k++) {
        const size_t n = strlen(signs[k]);
        if (n <= sign_bytes || !syn__str_begins(rest, signs[k])) continue;
        out->relation = (request_relation)k;
        sign_bytes = n;
    }
    out->column = (syn__str){text.text, at};
    out->value = (syn__str){rest.text + sign_bytes, rest.bytes - sign_bytes};
    return sign_bytes > 0 && at > 0 && at < REQUEST_NAME;
}

static syn_status take_condition(request_condition *c, const char *where, syn__str text,
                                 syn_error *err) {
    if (!read_condition(text, c))
        return SYN_FAIL(err, SYN_E_INVALID,
                        "--where '%.100s' must be conditions such as "
                        "model=llama3.1-8b,tp!=1,input_tokens<8000",
                        where);
    if (c->relation >= REQUEST_BELOW && !request_decimal(c->value, 0, &c->number))
        return SYN_FAIL(err, SYN_E_INVALID,
                        "--where '%.*s': %s compares numbers, but the value is '%.*s'",
                        (int)(text.bytes < 100 ? text.bytes : 100), text.text, signs[c->relation],
                        (int)(c->value.bytes < 60 ? c->value.bytes : 60), c->value.text);
    return SYN_OK;
}

syn_status request_row_init(request_row *row, const char *name, const char *where, syn_error *err) {
    *row = (request_row){.name = name, .needs_arrival = true};
    for (const char *p = where; p != NULL; row->n_conditions++) {
        const char *comma = strchr(p, ',');
        const syn__str text = {p, comma ? (size_t)(comma - p) : strlen(p)};
        if (row->n_conditions == REQUEST_CONDITIONS)
            return SYN_FAIL(err, SYN_E_INVALID, "--where has more than %d conditions",
                            REQUEST_CONDITIONS);
        SYN_TRY(take_condition(&row->conditions[row->n_conditions], where, text, err));
        p = comma ? comma + 1 : NULL;
    }
    return SYN_OK;
}

void request_row_name(request_row *row, int32_t i, syn__str name) {
    request_column *c = &row->columns[i];
    const size_t bytes = name.bytes < REQUEST_NAME ? name.bytes : REQUEST_NAME - 1;
    *c = (request_column){.field = REQUEST_FIELDS, .run = -1};
    memcpy(c->name, name.text, bytes);
    for (int k = 0; k < N_NAMES; k++)
        if (same_name(name, names[k].name)) c->field = names[k].field;
    if (row->is_json && same_name(name, "timestamp")) c->field = REQUEST_TIMESTAMP;
    row->has_ids = row->has_ids || c->field == REQUEST_HASH_IDS;
    for (int k = 0; k < REQUEST_RUN_COLUMNS; k++)
        if (syn__str_is(name, run_columns[k])) c->run = k;
    for (int k = 0; k < row->n_conditions; k++)
        if (same_name(row->conditions[k].column, c->name)) c->conditions |= 1u << k;
    row->met_columns |= c->conditions;
}

static bool is_arrival(request_field field) {
    return field <= REQUEST_ARRIVAL_NS;
}

/* Appends the names of the columns, as far as they fit, and returns text. */
static const char *list_columns(const request_row *row, char *text, size_t bytes) {
    size_t used = 0;
    text[0] = '\0';
    for (int32_t i = 0; i < row->n && used < bytes; i++) {
        const int n =
            snprintf(text + used, bytes - used, "%s%s", i > 0 ? ", " : "", row->columns[i].name);
        used += n > 0 ? (size_t)n : 0;
    }
    return text;
}

static syn_status lacks(const request_row *row, request_field field, const char *what,
                        syn_error *err) {
    char list[160];
    syn__nearest near = {NULL, 0};
    const char *wanted = NULL;
    for (int k = 0; k < N_NAMES; k++) {
        if (names[k].field != field) continue;
        if (wanted == NULL) wanted = names[k].name;
        for (int32_t i = 0; i < row->n; i++)
            if (row->columns[i].field == REQUEST_FIELDS)
                syn__nearest_try(&near, names[k].name, row->columns[i].name);
    }
    list_columns(row, list, sizeof list);
    if (near.name != NULL)
        return request_row_fail(row, err, "no column has the %s: rename %s to %s (columns: %s)",
                                what, near.name, wanted, list);
    return request_row_fail(row, err, "no column has the %s: name it %s%s (columns: %s)", what,
                            wanted, field == REQUEST_ARRIVAL_S ? ", or give --rate" : "", list);
}

static syn_status check_conditions(const request_row *row, syn_error *err) {
    for (int k = 0; k < row->n_conditions; k++) {
        char column[REQUEST_NAME], list[160];
        syn__nearest near = {NULL, 0};
        if (row->met_columns & 1u << k) continue;
        snprintf(column, sizeof column, "%.*s", (int)row->conditions[k].column.bytes,
                 row->conditions[k].column.text);
        for (int32_t i = 0; i < row->n; i++) syn__nearest_try(&near, column, row->columns[i].name);
        list_columns(row, list, sizeof list);
        return request_row_fail(row, err,
                                "no column is named %s, as in --where%s%s%s (columns: %s)", column,
                                near.name ? "; did you mean " : "", near.name ? near.name : "",
                                near.name ? "?" : "", list);
    }
    return SYN_OK;
}

syn_status request_row_check(const request_row *row, syn_error *err) {
    int32_t of[REQUEST_FIELDS + 1];
    bool arrives = false;
    for (int f = 0; f <= REQUEST_FIELDS; f++) of[f] = -1;
    for (int32_t i = 0; i < row->n; i++) {
        const request_field field = row->columns[i].field;
        const request_field same = is_arrival(field) ? REQUEST_ARRIVAL_S : field;
        if (field == REQUEST_FIELDS) continue;
        if (of[same] >= 0)
            return request_row_fail(row, err,
                                    "the columns %s and %s have the same meaning; rename one",
                                    row->columns[of[same]].name, row->columns[i].name);
        of[same] = i;
        arrives = arrives || is_arrival(field);
    }
    if (of[REQUEST_PROMPT] < 0) return lacks(row, REQUEST_PROMPT, "tokens of the prompt", err);
    if (of[REQUEST_OUTPUT] < 0) return lacks(row, REQUEST_OUTPUT, "tokens of the output", err);
    if (!arrives && row->needs_arrival) return lacks(row, REQUEST_ARRIVAL_S, "arrival time", err);
    if (arrives && !row->needs_arrival)
        return request_row_fail(row, err,
                                "the file has arrival times, so --rate would have no effect; "
                                "omit it, or use --time-scale");
    if (arrives && row->arrivals != NULL)
        return request_row_fail(row, err,
                                "the file has arrival times, so --arrivals %.40s would have no "
                                "effect; omit it",
                                row->arrivals);
    if ((of[REQUEST_PREFIX] < 0) != (of[REQUEST_PREFIX_TOKENS] < 0))
        return request_row_fail(row, err,
                                "the columns prefix and prefix_tokens belong together; "
                                "one of them is missing");
    if ((of[REQUEST_FIRST_TS] >= 0 || of[REQUEST_LAST_TS] >= 0) && of[REQUEST_QUEUED_TS] < 0)
        return request_row_fail(row, err,
                                "first_token_ts and last_token_ts need the column "
                                "queued_ts, whose first value is their start");
    return check_conditions(row, err);
}

const char *request_row_value(const request_row *row, const char *column) {
    for (int32_t i = 0; i < row->n_first; i++)
        if (same_name(syn__str_of(row->first_names[i]), column)) return row->first_values[i];
    return NULL;
}

void request_row_free(request_row *row) {
    for (int32_t i = 0; i < row->n_first; i++) {
        syn_free(row->first_names[i]);
        syn_free(row->first_values[i]);
    }
    syn_free(row->first_names);
    syn_free(row->first_values);
    syn_free(row->blocks);
    *row = (request_row){.name = NULL};
}
