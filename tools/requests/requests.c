/* The requests of a workload (requests.h). */
#include "tools/requests/requests.h"

#include <math.h>
#include <stdio.h>

#include "ops/hash.h"
#include "syntorch/base/memory.h"
#include "tools/requests/request_csv.h"

typedef enum request_format { REQUEST_CSV, REQUEST_JSON } request_format;

struct request_source {
    request_options how;
    request_lines lines;
    request_format format;
    request_row *row;
    syn__buf scratch;
    request ahead; /* the first request, which requests_open reads */
    bool has_ahead, ended;
    int64_t n; /* requests that were returned */
};

static const char BOM[] = "\xef\xbb\xbf";

/* Fails if the first line shows that the file is none of the formats. */
static syn_status check_first_line(const request_row *row, syn__str line, syn_error *err) {
    double number;
    if (syn__str_begins(line, "\x1f\x8b"))
        return SYN_FAIL(err, SYN_E_FORMAT,
                        "%.200s is compressed with gzip; unpack it: gzip -dc FILE | ... "
                        "--requests -",
                        row->name);
    if (syn__str_begins(line, "["))
        return request_row_fail(row, err,
                                "the file is a JSON array; requests are JSON lines, an object "
                                "per line, or CSV");
    const char *comma = memchr(line.text, ',', line.bytes);
    const syn__str first = {line.text, comma ? (size_t)(comma - line.text) : line.bytes};
    if (request_decimal(first, 0, &number))
        return request_row_fail(row, err,
                                "the first line has numbers, but must be a header such as "
                                "arrival_s,input_tokens,output_tokens");
    return SYN_OK;
}

static bool is_empty(syn__str line) {
    for (size_t i = 0; i < line.bytes; i++)
        if (line.text[i] != ' ' && line.text[i] != '\t') return false;
    return true;
}

/* Moves to the next line that is not empty. */
static syn_status next_line(request_source *s, syn__str *line, bool *end, syn_error *err) {
    do SYN_TRY(request_lines_next(&s->lines, line, end, err));
    while (!*end && is_empty(*line));
    s->row->line = s->lines.line;
    return SYN_OK;
}

static syn_status open_file(request_source *s, syn_error *err) {
    syn__str line;
    bool end;
    s->row = syn_calloc(1, sizeof *s->row);
    if (s->row == NULL) return SYN_FAIL_NOMEM(err, sizeof *s->row, "the columns of requests");
    SYN_TRY(request_lines_open(&s->lines, s->how.requests, err));
    SYN_TRY(request_row_init(s->row, s->lines.name, s->how.where, err));
    SYN_TRY(next_line(s, &line, &end, err));
    if (end)
        return SYN_FAIL(err, SYN_E_FORMAT, "%.300s has no requests: it is empty", s->row->name);
    if (s->row->line == 1 && syn__str_begins(line, BOM)) line.text += 3, line.bytes -= 3;
    SYN_TRY(check_first_line(s->row, line, err));
    if (syn__str_begins(line, "{")) {
        s->format = REQUEST_JSON;
        s->row->is_json = true;
        s->lines.next = (size_t)(line.text - s->lines.buffer); /* read the line again */
        s->lines.n_lines--;
        return SYN_OK;
    }
    SYN_TRY(request_csv_split(s->row, &s->lines, line, true, err));
    return request_row_check(s->row, err);
}

/* Reads the next selected row. */
static syn_status next_row(request_source *s, request *out, bool *end, syn_error *err) {
    for (bool selected = false; !selected;) {
        syn__str line;
        SYN_TRY(next_line(s, &line, end, err));
        if (*end) return SYN_OK;
        if (s->format == REQUEST_JSON) {
            SYN_TRY(request_json_split(s->row, line, &s->scratch, err));
            if (s->row->first_line == 0) SYN_TRY(request_row_check(s->row, err));
        } else {
            SYN_TRY(request_csv_split(s->row, &s->lines, line, false, err));
        }
        SYN_TRY(request_row_take(s->row, out, &selected, err));
    }
    return SYN_OK;
}

static syn_status next_request(request_source *s, request *out, bool *end, syn_error *err) {
    *end = s->ended || (s->how.num_requests > 0 && s->n >= s->how.num_requests);
    if (!*end) SYN_TRY(next_row(s, out, end, err));
    if (!*end && s->how.time_scale > 0 && s->how.time_scale != 1) {
        out->arrival_ns /= s->how.time_scale;
        out->measured_first_ns = out->measured_last_ns = -1;
    }
    if (!*end && s->how.duration_s > 0 && out->arrival_ns >= s->how.duration_s * 1e9) *end = true;
    s->ended = *end;
    s->n += !*end;
    return SYN_OK;
}

syn_status requests_open(request_source **out, const request_options *how, syn_error *err) {
    bool end;
    request_source *s = syn_calloc(1, sizeof *s);
    *out = NULL;
    if (s == NULL) return SYN_FAIL_NOMEM(err, sizeof *s, "the requests");
    s->how = *how;
    s->lines.fd = -1;
    syn_status status = open_file(s, err);
    if (status == SYN_OK) status = next_request(s, &s->ahead, &end, err);
    if (status == SYN_OK && end)
        status = SYN_FAIL(err, SYN_E_FORMAT, "%.300s has no requests%s", s->row->name,
                          how->where != NULL ? " that fulfil --where" : "");
    s->has_ahead = status == SYN_OK;
    if (status == SYN_OK) *out = s;
    else requests_close(s);
    return status;
}

syn_status requests_next(request_source *source, request *out, bool *end, syn_error *err) {
    if (!source->has_ahead) return next_request(source, out, end, err);
    *out = source->ahead;
    *end = source->has_ahead = false;
    return SYN_OK;
}

const char *requests_value(const request_source *source, const char *column) {
    return source->row != NULL ? request_row_value(source->row, column) : NULL;
}

void requests_close(request_source *source) {
    if (source == NULL) return;
    if (source->row != NULL) request_row_free(source->row);
    syn_free(source->row);
    syn__buf_free(&source->scratch);
    request_lines_close(&source->lines);
    syn_free(source);
}

uint64_t request_shared_key(const request *r, int32_t first, int32_t n) {
    const int64_t end = (int64_t)first + n;
    uint64_t key = 0;
    if (r->prefix > 0 && end <= r->prefix_tokens) {
        key = (uint64_t)r->prefix;
    } else if (end <= (int64_t)r->n_blocks * r->block_tokens && end <= r->prompt) {
        const int64_t block = (end - 1) / r->block_tokens;
        key = syn__counter_hash(r->blocks[block], (uint64_t)block);
    }
    return key == 0 ? 0
                    : syn__counter_hash(syn__counter_hash(key, (uint64_t)first), (uint64_t)n) | 1;
}
