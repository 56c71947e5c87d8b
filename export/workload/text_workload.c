/* Parses a text workload; see text_workload.h. */
#include "export/workload/text_workload.h"

#include <inttypes.h>

#include "export/chakra/wire/et_numbers.h"
#include "syntorch/base/memory.h"

#define COLUMNS     12
#define MAX_COLUMNS 16 /* words stored per line, enough to detect longer lines */
#define SHOWN_BYTES 60

typedef struct reader {
    syn_text_workload *w;
    size_t at, line; /* line: number of the line that was read last, from 1 */
    syn__str words[MAX_COLUMNS];
    size_t n_words;
    syn_error *err;
} reader;

/* ---- Lines and words ---- */

/* Whether Python's str.split splits at c. ASCII only. */
static bool is_blank(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1C && c <= 0x1F);
}

/* Splits the next line that is not blank into words. Returns false at the end of the text. */
static bool next_line(reader *r) {
    const syn_text_workload *w = r->w;
    r->n_words = 0;
    while (r->n_words == 0 && r->at < w->text_bytes) {
        size_t at = r->at;
        const char *end = (const char *)memchr(w->text + at, '\n', w->text_bytes - at);
        const size_t stop = end != NULL ? (size_t)(end - w->text) : w->text_bytes;
        r->at = stop + (end != NULL);
        r->line++;
        while (at < stop && r->n_words < MAX_COLUMNS) {
            while (at < stop && is_blank(w->text[at])) at++;
            const size_t from = at;
            while (at < stop && !is_blank(w->text[at])) at++;
            if (at != from) r->words[r->n_words++] = (syn__str){w->text + from, at - from};
        }
    }
    return r->n_words != 0;
}

static int shown(syn__str s) {
    return (int)(s.bytes < SHOWN_BYTES ? s.bytes : SHOWN_BYTES);
}

static syn_status end_early(const reader *r, const char *wanted) {
    return SYN_FAIL(r->err, SYN_E_FORMAT, "%.200s, line %zu: the file ends before %s", r->w->name,
                    r->line != 0 ? r->line : 1, wanted);
}

/* Parses a decimal integer with an optional sign. */
static bool parse_integer(syn__str s, int64_t *out) {
    const bool negative = s.bytes != 0 && *s.text == '-';
    size_t i = s.bytes != 0 && (negative || *s.text == '+');
    uint64_t v = 0;
    if (i == s.bytes) return false;
    for (; i < s.bytes; i++) {
        const unsigned digit = (unsigned)(unsigned char)s.text[i] - '0';
        if (digit > 9 || v > ((uint64_t)INT64_MAX - digit) / 10) return false;
        v = v * 10 + digit;
    }
    *out = negative ? -(int64_t)v : (int64_t)v;
    return true;
}

static syn_status read_integer(const reader *r, size_t word, int64_t min, const char *what,
                               int64_t *out) {
    const syn__str s = r->words[word];
    if (parse_integer(s, out) && *out >= min) return SYN_OK;
    return SYN_FAIL(r->err, SYN_E_FORMAT,
                    "%.200s, line %zu, column %zu: %s must be an integer%s, not '%.*s'", r->w->name,
                    r->line, word + 1, what,
                    min == 0   ? " of 0 or more"
                    : min == 1 ? " of 1 or more"
                               : "",
                    shown(s), s.text);
}

/* ---- Head ---- */

static const struct {
    const char *name;
    syn_text_parallelism parallelism;
} parallelisms[] = {{"MICRO", SYN_TEXT_MICRO},
                    {"DATA", SYN_TEXT_DATA},
                    {"MODEL", SYN_TEXT_MODEL},
                    {"HYBRID_DATA_MODEL", SYN_TEXT_DATA_MODEL},
                    {"HYBRID_MODEL_DATA", SYN_TEXT_MODEL_DATA},
                    {"HYBRID_DLRM", SYN_TEXT_DLRM},
                    {"HYBRID_DLRM_ENHANCED", SYN_TEXT_DLRM}};

static syn_status read_parallelism(reader *r) {
    const size_t n = sizeof parallelisms / sizeof parallelisms[0];
    size_t i = 0;
    if (!next_line(r)) return end_early(r, "the kind of parallelism");
    while (i < n && !syn__str_is(r->words[0], parallelisms[i].name)) i++;
    if (i == n)
        return SYN_FAIL(
            r->err, SYN_E_FORMAT,
            "%.200s, line %zu: '%.*s' is not a parallelism of the text format; valid are MICRO, "
            "DATA, MODEL, HYBRID_DATA_MODEL, HYBRID_MODEL_DATA, HYBRID_DLRM and "
            "HYBRID_DLRM_ENHANCED",
            r->w->name, r->line, shown(r->words[0]), r->words[0].text);
    r->w->parallelism = parallelisms[i].parallelism;
    const size_t want = r->w->parallelism == SYN_TEXT_DLRM ? 2 : 1;
    if (r->n_words < want)
        return SYN_FAIL(
            r->err, SYN_E_FORMAT,
            "%.200s, line %zu: %s must be followed by the number of the last bottom layer",
            r->w->name, r->line, parallelisms[i].name);
    if (r->n_words > want && !r->w->compat)
        return SYN_FAIL(r->err, SYN_E_FORMAT, "%.200s, line %zu: unexpected '%.*s' after %s",
                        r->w->name, r->line, shown(r->words[want]), r->words[want].text,
                        parallelisms[i].name);
    if (want == 1) return SYN_OK;
    return read_integer(r, 1, INT64_MIN, "the last bottom layer", &r->w->last_bottom);
}

static syn_status read_head(reader *r) {
    SYN_TRY(read_parallelism(r));
    if (!next_line(r)) return end_early(r, "the number of layers");
    if (r->n_words != 1)
        return SYN_FAIL(r->err, SYN_E_FORMAT,
                        "%.200s, line %zu: the number of layers must be alone on its line",
                        r->w->name, r->line);
    return read_integer(r, 0, r->w->compat ? INT64_MIN : 1, "the number of layers",
                        &r->w->stated_layers);
}

/* ---- Layers ---- */

static syn_status read_collective(const reader *r, size_t word, syn__text_part *part) {
    static const struct {
        const char *name;
        int32_t type;
    } types[] = {{"NONE", SYN__TEXT_NONE},
                 {"ALLREDUCE", SYN__ET_ALL_REDUCE},
                 {"ALLTOALL", SYN__ET_ALL_TO_ALL},
                 {"ALLGATHER", SYN__ET_ALL_GATHER},
                 {"REDUCESCATTER", SYN__ET_REDUCE_SCATTER}};
    const syn__str s = r->words[word];
    part->comm = s;
    part->comm_type = SYN__TEXT_UNKNOWN;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (syn__str_is(s, types[i].name)) part->comm_type = types[i].type;
    if (part->comm_type != SYN__TEXT_UNKNOWN || r->w->compat) return SYN_OK;
    return SYN_FAIL(r->err, SYN_E_FORMAT,
                    "%.200s, line %zu, column %zu: '%.*s' is not a collective of the text format; "
                    "valid are NONE, "
                    "ALLREDUCE, ALLTOALL, ALLGATHER and REDUCESCATTER",
                    r->w->name, r->line, word + 1, shown(s), s.text);
}

/* Whether the parallelism uses the collective of this part of layer `index`. The collective of the
   first layer's input gradient counts as used, although it is omitted because no layer needs that
   gradient. */
static bool has_place(const syn_text_workload *w, size_t index, int part) {
    const syn__text_part *p = &w->layers[index].parts[part];
    switch (w->parallelism) {
    case SYN_TEXT_MICRO:
    case SYN_TEXT_DATA:
        return part == SYN__TEXT_WG;
    case SYN_TEXT_MODEL:
        return part != SYN__TEXT_WG;
    case SYN_TEXT_DLRM:
        if (part == SYN__TEXT_FWD) return syn__str_is(p->comm, "ALLTOALL");
        return part == SYN__TEXT_WG || index == 0;
    default:
        return true;
    }
}

static void count_unused(syn_text_workload *w, size_t index) {
    for (int part = 0; part < SYN__TEXT_PARTS; part++) {
        const syn__text_part *p = &w->layers[index].parts[part];
        if (p->comm_type == SYN__TEXT_NONE || p->bytes <= 0 || has_place(w, index, part)) continue;
        if (w->n_unused++ == 0) w->unused_line = w->layers[index].line;
    }
}

/* Parses the line that was read last. */
static syn_status read_layer(reader *r) {
    static const char *const times[] = {"the forward time", "the input gradient's time",
                                        "the weight gradient's time"};
    syn_text_workload *w = r->w;
    int64_t unused;
    if (r->n_words < COLUMNS || (r->n_words > COLUMNS && !w->compat))
        return SYN_FAIL(r->err, SYN_E_FORMAT,
                        "%.200s, line %zu: a layer has %d columns (name, dep, then three times: "
                        "time, collective and its bytes; update time), but this one has %zu%s",
                        w->name, r->line, COLUMNS, r->n_words,
                        r->n_words == MAX_COLUMNS ? " or more" : "");
    SYN_TRY(syn_grow(&w->layers, &w->layers_cap, w->n_layers + 1, sizeof *w->layers, r->err));
    syn__text_layer *layer = &w->layers[w->n_layers++];
    *layer = (syn__text_layer){.name = r->words[0], .line = r->line};
    const int64_t least = w->compat ? INT64_MIN : 0;
    for (size_t i = 0; i < SYN__TEXT_PARTS; i++) {
        syn__text_part *part = &layer->parts[i];
        SYN_TRY(read_integer(r, 2 + 3 * i, least, times[i], &part->time_us));
        SYN_TRY(read_collective(r, 3 + 3 * i, part));
        SYN_TRY(read_integer(r, 4 + 3 * i, least, "a collective's size", &part->bytes));
    }
    if (w->compat) return SYN_OK;
    SYN_TRY(read_integer(r, 1, INT64_MIN, "dep", &unused));
    SYN_TRY(read_integer(r, 11, 0, "the update time", &unused));
    count_unused(w, w->n_layers - 1);
    if ((int64_t)w->n_layers > w->stated_layers)
        return SYN_FAIL(r->err, SYN_E_FORMAT, "%.200s, line %zu: this is layer %zu of %" PRId64,
                        w->name, r->line, w->n_layers, w->stated_layers);
    return SYN_OK;
}

static syn_status check_layers(const reader *r) {
    const syn_text_workload *w = r->w;
    if (w->compat) return SYN_OK;
    if ((int64_t)w->n_layers < w->stated_layers)
        return SYN_FAIL(r->err, SYN_E_FORMAT,
                        "%.200s, line %zu: the file ends after %zu of %" PRId64 " layers", w->name,
                        r->line, w->n_layers, w->stated_layers);
    if (w->parallelism == SYN_TEXT_DLRM &&
        (w->last_bottom < 1 || w->last_bottom > (int64_t)w->n_layers - 2))
        return SYN_FAIL(r->err, SYN_E_FORMAT,
                        "%.200s: the last bottom layer of a DLRM must be between the embeddings "
                        "(layer 0) and the last layer (%zu), but it is %" PRId64,
                        w->name, w->n_layers - 1, w->last_bottom);
    return SYN_OK;
}

/* ---- The text ---- */

/* Copies the text with \n in place of \r\n and \r, as Python reads text files. */
static syn_status take_text(syn_text_workload *w, const char *data, size_t bytes, syn_error *err) {
    static const char mark[] = "\xEF\xBB\xBF"; /* UTF-8 byte order mark, as Windows programs write
                                                  it */
    if (!w->compat && bytes >= 3 && memcmp(data, mark, 3) == 0) {
        data += 3;
        bytes -= 3;
    }
    w->text = (char *)syn_malloc(bytes);
    if (w->text == NULL) return SYN_FAIL_NOMEM(err, bytes, "a text workload");
    for (size_t i = 0; i < bytes; i++) {
        const bool pair = data[i] == '\r' && i + 1 < bytes && data[i + 1] == '\n';
        if (!pair) w->text[w->text_bytes++] = data[i] == '\r' ? '\n' : data[i];
    }
    if (!syn__str_is_utf8((syn__str){w->text, w->text_bytes}))
        return SYN_FAIL(err, SYN_E_FORMAT, "%.200s is not a text workload: it is not UTF-8 text",
                        w->name);
    return SYN_OK;
}

syn_status syn_text_workload_read(syn_text_workload *w, const char *name, const char *data,
                                  size_t bytes, bool compat, syn_error *err) {
    reader r = {.w = w, .err = err};
    *w = (syn_text_workload){.name = name, .compat = compat};
    SYN_TRY(take_text(w, data, bytes, err));
    SYN_TRY(read_head(&r));
    while (next_line(&r)) SYN_TRY(read_layer(&r));
    return check_layers(&r);
}

void syn_text_workload_free(syn_text_workload *w) {
    syn_free(w->text);
    syn_free(w->layers);
    *w = (syn_text_workload){0};
}
