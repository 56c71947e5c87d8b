/* Reads measured rows from CSV files and predicts them from their op counts. */
#include "tools/calibrate/measured.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "syntorch/base/memory.h"
#include "syntorch/base/sink.h"

enum { COLUMNS = 32 };

/* The fields of a record, split in place. */
typedef struct fields {
    char *at[COLUMNS];
    int n;
} fields;

typedef struct reading {
    const char *path;
    int64_t line; /* line number of the record's first line */
    int64_t next; /* line number of the next record */
    fields names, at;
    syn_error *err;
} reading;

/* Whether the character ends a field. */
static bool is_end(char c) {
    return c == ',' || c == '\n' || c == '\r' || c == '\0';
}

/* Unquotes the quoted field that begins at *at, in place, and moves *at to its end. According to
   RFC 4180, "" in a field is one quote, and the field may contain commas and line breaks. */
static syn_status unquote(reading *r, char **at) {
    char *to = *at, *from = *at + 1;
    const long long line = r->next;
    for (; *from != '"' || from[1] == '"'; from++) {
        if (*from == '\0')
            return SYN_FAIL(r->err, SYN_E_FORMAT, "%s:%lld: a quote is not closed", r->path, line);
        if (*from == '"') from++;
        r->next += *from == '\n';
        *to++ = *from;
    }
    from++;
    if (!is_end(*from))
        return SYN_FAIL(
            r->err, SYN_E_FORMAT,
            "%s:%lld: a closing quote must be followed by a comma or the end of the line", r->path,
            (long long)r->next);
    *at = from;
    while (to < from) *to++ = '\0';
    return SYN_OK;
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

/* Splits the record at *text into fields, in place, and strips blanks around them. Sets *text to
   the next record, or to NULL after the last record. */
static syn_status split(reading *r, char **text, fields *f) {
    char *at = *text;
    r->line = r->next;
    f->n = 0;
    for (char end = ','; end == ',';) {
        while (is_blank(*at)) at++;
        char *field = at;
        if (*at == '"') SYN_TRY(unquote(r, &at));
        while (!is_end(*at)) at++;
        end = *at;
        for (char *last = at; last > field && is_blank(last[-1]);) *--last = '\0';
        if (end == '\0') *text = NULL;
        if (end == '\r' && at[1] == '\n') *at++ = '\0';
        if (end != '\0') *at++ = '\0';
        if (f->n < COLUMNS) f->at[f->n++] = field;
    }
    r->next++;
    if (*text != NULL) *text = at;
    return SYN_OK;
}

/* Returns the field in the column `name`; NULL if there is none. */
static const char *field(const fields *names, const fields *line, const char *name) {
    for (int i = 0; i < names->n && i < line->n; i++)
        if (strcmp(names->at[i], name) == 0) return line->at[i];
    return NULL;
}

/* Reads a number above 0 and at most `most`. */
static syn_status number(const reading *r, const char *name, double most, double *out) {
    const char *text = field(&r->names, &r->at, name);
    char *end = NULL;
    if (field(&r->names, &r->names, name) == NULL)
        return SYN_FAIL(r->err, SYN_E_FORMAT, "%s:1: the column \"%s\" is missing", r->path, name);
    *out = text != NULL ? strtod(text, &end) : 0;
    if (text == NULL || end == text || *end != '\0' || !(*out > 0) || *out > most)
        return SYN_FAIL(r->err, SYN_E_FORMAT,
                        "%s:%lld: \"%s\" must be a number above 0, at most %g, not \"%.32s\"",
                        r->path, (long long)r->line, name, most, text != NULL ? text : "");
    return SYN_OK;
}

static syn_status integer(const reading *r, const char *name, int64_t *out) {
    double value;
    SYN_TRY(number(r, name, 1e6, &value));
    *out = (int64_t)value;
    if ((double)*out != value)
        return SYN_FAIL(r->err, SYN_E_FORMAT, "%s:%lld: \"%s\" must be an integer, not %g", r->path,
                        (long long)r->line, name, value);
    return SYN_OK;
}

static bool is_given(const reading *r, const char *name) {
    const char *text = field(&r->names, &r->at, name);
    return text != NULL && *text != '\0';
}

static syn_status read_inference(const reading *r, measured_row *row) {
    int64_t head_dim;
    double ms;
    row->kind = MEASURED_INFERENCE;
    if (is_given(r, "model"))
        snprintf(row->model, sizeof row->model, "%s", field(&r->names, &r->at, "model"));
    if (is_given(r, "stack"))
        snprintf(row->stack, sizeof row->stack, "%s", field(&r->names, &r->at, "stack"));
    SYN_TRY(integer(r, "layers", &row->layers));
    SYN_TRY(integer(r, "heads", &row->heads));
    SYN_TRY(integer(r, "head_dim", &head_dim));
    SYN_TRY(integer(r, "tp", &row->tp));
    SYN_TRY(integer(r, "batch", &row->batch));
    SYN_TRY(integer(r, "input_tokens", &row->tokens));
    SYN_TRY(integer(r, "output_tokens", &row->new_tokens));
    SYN_TRY(number(r, "latency_ms", 1e9, &ms));
    row->hidden = row->heads * head_dim;
    row->ns = ms * 1e6;
    return SYN_OK;
}

/* Reads the optional column `sp`. */
static syn_status read_sp(const reading *r, measured_row *row) {
    if (!is_given(r, "sp")) return SYN_OK;
    const char *text = field(&r->names, &r->at, "sp");
    row->sp = strcmp(text, "1") == 0;
    if (row->sp || strcmp(text, "0") == 0) return SYN_OK;
    return SYN_FAIL(r->err, SYN_E_FORMAT, "%s:%lld: \"sp\" must be 0 or 1, not \"%.32s\"", r->path,
                    (long long)r->line, text);
}

static syn_status read_training(const reading *r, measured_row *row) {
    int64_t global;
    double ms;
    row->kind = MEASURED_TRAINING;
    SYN_TRY(integer(r, "layers", &row->layers));
    SYN_TRY(integer(r, "heads", &row->heads));
    SYN_TRY(integer(r, "hidden", &row->hidden));
    SYN_TRY(integer(r, "seq", &row->tokens));
    SYN_TRY(integer(r, "micro_batch", &row->batch));
    SYN_TRY(integer(r, "global_batch", &global));
    SYN_TRY(integer(r, "tp", &row->tp));
    SYN_TRY(integer(r, "dp", &row->dp));
    SYN_TRY(read_sp(r, row));
    SYN_TRY(number(r, "iter_ms", 1e9, &ms));
    row->passes = global / (row->dp * row->batch);
    if (row->passes * row->dp * row->batch != global)
        return SYN_FAIL(
            r->err, SYN_E_FORMAT,
            "%s:%lld: a global batch of %lld samples is not a multiple of dp %lld * %lld", r->path,
            (long long)r->line, (long long)global, (long long)row->dp, (long long)row->batch);
    snprintf(row->model, sizeof row->model, "h%lld-l%lld", (long long)row->hidden,
             (long long)row->layers);
    row->ns = ms * 1e6;
    return SYN_OK;
}

/* Reads the kind of collective from the column `collective`. Without this column the kind is
   all-reduce. */
static syn_status read_kind(const reading *r, measured_row *row) {
    static const syn_comm_kind kinds[] = {SYN_COMM_ALL_REDUCE,     SYN_COMM_ALL_GATHER,
                                          SYN_COMM_REDUCE_SCATTER, SYN_COMM_ALL_TO_ALL,
                                          SYN_COMM_BROADCAST,      SYN_COMM_REDUCE};
    const char *name = field(&r->names, &r->at, "collective");
    row->comm = SYN_COMM_ALL_REDUCE;
    if (field(&r->names, &r->names, "collective") == NULL) return SYN_OK;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        row->comm = kinds[i];
        if (name != NULL && strcmp(name, syn_comm_kind_name(kinds[i])) == 0) return SYN_OK;
    }
    return SYN_FAIL(r->err, SYN_E_FORMAT,
                    "%s:%lld: \"collective\" must be all_reduce, all_gather, reduce_scatter, "
                    "all_to_all, broadcast or reduce, not \"%.32s\"",
                    r->path, (long long)r->line, name != NULL ? name : "");
}

static syn_status read_collective(const reading *r, measured_row *row) {
    double bytes;
    row->kind = MEASURED_COLLECTIVE;
    SYN_TRY(read_kind(r, row));
    SYN_TRY(integer(r, "gpus", &row->tp));
    SYN_TRY(number(r, "bytes", 1e15, &bytes));
    SYN_TRY(number(r, "ip_ns", 1e15, &row->ns));
    row->bytes = (uint64_t)bytes;
    if (row->tp < 2 || (double)row->bytes != bytes)
        return SYN_FAIL(
            r->err, SYN_E_FORMAT,
            "%s:%lld: a collective needs at least two \"gpus\" and an integer as \"bytes\"",
            r->path, (long long)r->line);
    snprintf(row->model, sizeof row->model, "%s", syn_comm_kind_name(row->comm));
    for (char *at = row->model; *at != '\0'; at++)
        if (*at == '_') *at = '-';
    return SYN_OK;
}

static syn_status read_row(reading *r, measured *m, const char *stack) {
    measured_row row = {.path = r->path, .line = r->line, .tp = 1, .dp = 1, .pp = 1, .passes = 1};
    const char *own = field(&r->names, &r->at, "stack");
    if (stack != NULL && own != NULL && strcmp(own, stack) != 0) return SYN_OK;
    if (is_given(r, "pp")) SYN_TRY(integer(r, "pp", &row.pp));
    if (row.pp > 1 && field(&r->names, &r->names, "iter_ms") == NULL) {
        m->n_skipped++;
        return SYN_OK;
    }
    if (field(&r->names, &r->names, "latency_ms") != NULL) SYN_TRY(read_inference(r, &row));
    else if (field(&r->names, &r->names, "iter_ms") != NULL) SYN_TRY(read_training(r, &row));
    else if (field(&r->names, &r->names, "ip_ns") != NULL) SYN_TRY(read_collective(r, &row));
    else
        return SYN_FAIL(r->err, SYN_E_FORMAT,
                        "%s:1: a column of times is missing: \"latency_ms\" for inference, "
                        "\"iter_ms\" for training or \"ip_ns\" for collectives",
                        r->path);
    if (row.tp * row.dp * row.pp > MEASURED_RANKS)
        return SYN_FAIL(r->err, SYN_E_FORMAT, "%s:%lld: %lld ranks exceed the limit of %d", r->path,
                        (long long)r->line, (long long)(row.tp * row.dp * row.pp), MEASURED_RANKS);
    SYN_TRY(syn_grow(&m->rows, &m->cap, m->n + 1, sizeof *m->rows, r->err));
    m->rows[m->n++] = row;
    return SYN_OK;
}

static syn_status read_records(measured *m, char *text, const char *path, const char *stack,
                               syn_error *err) {
    reading r = {.path = path, .next = 1, .err = err};
    /* Skip the UTF-8 byte order mark, which spreadsheets write. */
    if (strncmp(text, "\xef\xbb\xbf", 3) == 0) text += 3;
    SYN_TRY(split(&r, &text, &r.names));
    bool has_stack = stack == NULL;
    for (int i = 0; i < r.names.n; i++)
        has_stack = has_stack || strcmp(r.names.at[i], "stack") == 0;
    if (!has_stack)
        return SYN_FAIL(err, SYN_E_INVALID, "--rows_stack %.100s: %.300s has no column \"stack\"",
                        stack, path);
    while (text != NULL) {
        SYN_TRY(split(&r, &text, &r.at));
        const bool empty = r.at.n == 1 && *r.at.at[0] == '\0';
        if (!empty) SYN_TRY(read_row(&r, m, stack));
    }
    return SYN_OK;
}

syn_status measured_read(measured *m, const char *path, const char *stack, syn_error *err) {
    char *text;
    size_t bytes;
    SYN_TRY(syn_read_file(path, (size_t)1 << 26, &text, &bytes, err));
    const syn_status s = read_records(m, text, path, stack, err);
    syn_free(text);
    return s;
}

void measured_free(measured *m) {
    for (size_t i = 0; i < m->n; i++) syn_free(m->rows[i].ops);
    syn_free(m->rows);
    *m = (measured){0};
}

/* Rebuilds the group of an op. A group has at most as many ranks as its run, and a run has at most
   MEASURED_RANKS. */
static syn_graph_group group_of(const tally_row *op, int32_t ranks[MEASURED_RANKS]) {
    for (uint32_t r = 0; r < op->group_ranks; r++) ranks[r] = (int32_t)(r * op->group_stride);
    return (syn_graph_group){.id = 1, .ranks = ranks, .n_ranks = op->group_ranks};
}

double measured_predict_ns(const measured_row *row, const syn_hardware *hw) {
    int32_t ranks[MEASURED_RANKS];
    double ns = 0;
    for (size_t i = 0; i < row->n_ops; i++) {
        const tally_row *op = &row->ops[i];
        const syn_graph_group group = group_of(op, ranks);
        ns += (double)op->count * syn_hardware_predict_ns(hw, &op->node, &group, 0);
    }
    return ns * row->overlap_factor;
}

void measured_extrapolate(const measured_row *row, const syn_hardware *hw,
                          extrapolation *extrapolated) {
    int32_t ranks[MEASURED_RANKS];
    for (size_t i = 0; i < row->n_ops; i++) {
        const tally_row *op = &row->ops[i];
        const syn_graph_group group = group_of(op, ranks);
        const double ns = (double)op->count * syn_hardware_predict_ns(hw, &op->node, &group, 0);
        extrapolation_add(extrapolated, hw, &op->node, &group, ns);
    }
}

void measured_fitted_to(const measured_row *row, const syn_hardware *hw,
                        syn_hw_fit_ranges *fitted) {
    int32_t ranks[MEASURED_RANKS];
    for (size_t i = 0; i < row->n_ops; i++) {
        const syn_graph_group group = group_of(&row->ops[i], ranks);
        syn_hardware_fitted_to(fitted, hw, &row->ops[i].node, &group);
    }
}
