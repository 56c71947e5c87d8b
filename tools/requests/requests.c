/* The requests of a workload (requests.h). */
#include "tools/requests/requests.h"

#include <unistd.h>

#include "ops/hash.h"
#include "syntorch/base/memory.h"
#include "tools/requests/request_csv.h"
#include "tools/requests/request_generate.h"

typedef enum request_format {
    REQUEST_CSV,
    REQUEST_JSON,
    REQUEST_GENERATED,
    REQUEST_LIST
} request_format;

struct request_source {
    request_options how;
    request_lines lines;
    request_format format;
    request_generator generator; /* of requests, or of the arrivals of a file without arrivals */
    request_row *row;            /* NULL: generated */
    syn__buf scratch;
    request ahead; /* the first request, which requests_open reads */
    const request *list;
    int64_t n_list;
    bool has_ahead, ended;
    double first_ns;  /* the first arrival */
    int64_t n, n_cut; /* requests so far; of them, those that were cut to max_tokens */
};

static const char BOM[] = "\xef\xbb\xbf";

/* Fails if the first line shows that the file is none of the formats. */
static syn_status check_first_line(const request_row *row, syn__str line, syn_error *err) {
    double number;
    if (syn__str_begins(line, "["))
        return request_row_fail(row, err,
                                "the file is a JSON array; requests are JSON lines, an object "
                                "per line, or CSV");
    const char *comma = memchr(line.text, ',', line.bytes);
    const bool tabs = memchr(line.text, '\t', line.bytes) != NULL;
    if (comma == NULL && *line.text != '{' && (tabs || memchr(line.text, ';', line.bytes) != NULL))
        return request_row_fail(row, err, "columns are separated by %s; use commas",
                                tabs ? "tabs" : "semicolons");
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

/* Fails for options that have no effect on a file. */
static syn_status check_file_options(const request_options *how, syn_error *err) {
    const char *option = how->prefixes ? "--prefixes" : how->priorities ? "--priorities" : NULL;
    if (option != NULL)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "%s is for generated requests, but --requests %.200s is a file, which may "
                        "have columns for it; omit it",
                        option, how->requests);
    if (how->rate > 0 && how->time_scale > 0)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "--rate and --time-scale both determine the arrivals; give one");
    if (strcmp(how->requests, "-") == 0 || access(how->requests, F_OK) == 0) return SYN_OK;
    const char *near = request_nearest_workload(how->requests);
    char names[200];
    if (near != NULL)
        return SYN_FAIL(err, SYN_E_IO,
                        "--requests %.200s is no file and no workload; did you mean %s?",
                        how->requests, near);
    if (strpbrk(how->requests, "/.") != NULL) return SYN_OK; /* the name of a file */
    return SYN_FAIL(err, SYN_E_IO, "--requests %.200s is no file and no workload; workloads: %s",
                    how->requests, request_list_workloads(names, sizeof names));
}

static syn_status open_file(request_source *s, syn_error *err) {
    syn__str line;
    bool end;
    SYN_TRY(check_file_options(&s->how, err));
    if (s->how.rate > 0) SYN_TRY(request_arrivals_init(&s->generator.arrivals, &s->how, err));
    s->row = syn_calloc(1, sizeof *s->row);
    if (s->row == NULL) return SYN_FAIL_NOMEM(err, sizeof *s->row, "the columns of requests");
    SYN_TRY(request_lines_open(&s->lines, s->how.requests, err));
    SYN_TRY(request_row_init(s->row, s->lines.name, s->how.where, err));
    s->row->needs_arrival = s->how.rate <= 0;
    s->row->arrivals = s->how.arrivals;
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

/* Measured times do not belong to other arrivals. */
static void set_arrival(request *r, double ns) {
    r->arrival_ns = ns;
    r->measured_first_ns = r->measured_last_ns = -1;
}

static syn_status next_request(request_source *s, request *out, bool *end, syn_error *err) {
    const request_options *how = &s->how;
    if (s->format == REQUEST_LIST) {
        *end = s->n == s->n_list;
        if (!*end) *out = s->list[s->n++];
        return SYN_OK;
    }
    bool cut = false;
    *end = s->ended || (how->num_requests > 0 && s->n >= how->num_requests);
    if (*end) return SYN_OK;
    if (s->format == REQUEST_GENERATED) cut = request_generate(&s->generator, how, s->n, out);
    else SYN_TRY(next_row(s, out, end, err));
    if (s->row != NULL && !*end && how->time_scale > 0)
        set_arrival(out, out->arrival_ns / how->time_scale);
    if (s->row != NULL && !*end && how->rate > 0)
        set_arrival(out, request_arrivals_next(&s->generator.arrivals, how->seed, s->n));
    if (s->n == 0 && !*end) s->first_ns = out->arrival_ns;
    if (!*end && how->duration_s > 0 && out->arrival_ns - s->first_ns >= how->duration_s * 1e9)
        *end = true;
    s->ended = *end;
    s->n += !*end;
    s->n_cut += cut && !*end;
    return SYN_OK;
}

static syn_status open_source(request_source *s, syn_error *err) {
    bool end;
    if (request_is_workload(s->how.requests)) {
        s->format = REQUEST_GENERATED;
        SYN_TRY(request_generator_init(&s->generator, &s->how, err));
        if (s->how.num_requests <= 0 && s->how.duration_s <= 0)
            s->how.num_requests = s->how.generated > 0 ? s->how.generated : REQUESTS_DEFAULT;
    } else {
        SYN_TRY(open_file(s, err));
    }
    SYN_TRY(next_request(s, &s->ahead, &end, err));
    s->has_ahead = !end;
    if (!end) return SYN_OK;
    return SYN_FAIL(err, SYN_E_FORMAT, "%.300s has no requests%s%.200s", s->row->name,
                    s->how.where != NULL ? " that fulfil --where " : "",
                    s->how.where != NULL ? s->how.where : "");
}

syn_status requests_open(request_source **out, const request_options *how, syn_error *err) {
    request_source *s = syn_calloc(1, sizeof *s);
    *out = NULL;
    if (s == NULL) return SYN_FAIL_NOMEM(err, sizeof *s, "the requests");
    s->how = *how;
    s->lines.fd = -1;
    const syn_status status = open_source(s, err);
    if (status == SYN_OK) *out = s;
    else requests_close(s);
    return status;
}

syn_status requests_open_list(request_source **out, const request *list, int64_t n,
                              syn_error *err) {
    request_source *s = syn_calloc(1, sizeof *s);
    *out = s;
    if (s == NULL) return SYN_FAIL_NOMEM(err, sizeof *s, "the requests");
    s->lines.fd = -1;
    s->format = REQUEST_LIST;
    s->list = list;
    s->n_list = n;
    return SYN_OK;
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

bool requests_have_ids(const request_source *source) {
    return source->row != NULL && source->row->has_ids;
}

int64_t requests_cut(const request_source *source) {
    return source->n_cut;
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
