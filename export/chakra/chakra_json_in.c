/* Converts a JSON document to an .et file. Members may come in any order, but the .et begins with
   the metadata, so the metadata is searched for before the nodes are read. */
#include <inttypes.h>

#include "export/chakra/chakra_json.h"
#include "export/chakra/wire/et_json_read.h"
#include "syntorch/base/types.h"

typedef struct source {
    syn__et_json_reader in;
    syn__et_json_reader again; /* reads the JSON of the message that the bytes in "@wire" decode
                                  to */
    syn__et_decoder decoder;
    syn_sink *out;
    int32_t rank;   /* the rank to convert; -1: the only rank in the document */
    syn_json ranks; /* reader at the start of the "ranks" array */
    bool found;
    syn_chakra_json_stats *stats;
} source;

/* ---- Messages ---- */

static syn_status wire_fail(source *s, const char *why) {
    return syn_json_fail(&s->in.json, "this message's \"" SYN__ET_JSON_WIRE "\" %s", why);
}

/* Decodes a message and writes it to `text` as JSON. *ok is false if it is not a valid message. */
static syn_status decode(source *s, syn__str message, bool is_meta, syn_sink *text, bool *ok) {
    syn__et_meta meta;
    syn__et_node node;
    const syn_status status = is_meta ? syn__et_decode_meta(&s->decoder, message, &meta)
                                      : syn__et_decode_node(&s->decoder, message, &node);
    if (status == SYN_E_NOMEM) return syn__et_json_no_memory(&s->in);
    *ok = status == SYN_OK;
    if (*ok && is_meta) syn__et_json_meta(text, &meta);
    else if (*ok) syn__et_json_node(text, &node);
    return SYN_OK;
}

/* Fails unless the message in `text` (as JSON) equals the message just read. */
static syn_status compare(source *s, syn_sink *text, bool is_meta) {
    size_t bytes;
    syn_error why = {0};
    const char *data = syn_sink_data(text, &bytes);
    if (data == NULL) return syn__et_json_no_memory(&s->in);
    syn_json_free(&s->again.json);
    syn_json_init(&s->again.json, "", data, bytes, &why);
    s->again.err = &why;
    (void)syn_json_next(&s->again.json);
    const syn_status status =
        is_meta ? syn__et_json_read_meta(&s->again) : syn__et_json_read_node(&s->again);
    if (status == SYN_E_NOMEM) return syn__et_json_no_memory(&s->in);
    const syn__buf *a = &s->in.message, *b = &s->again.message;
    if (status != SYN_OK || a->bytes != b->bytes ||
        (a->bytes != 0 && memcmp(a->data, b->data, a->bytes) != 0))
        return wire_fail(s, "differs from its other members; remove \"@wire\" to use those");
    return SYN_OK;
}

/* Checks that "@wire" contains exactly one message, and that this message equals the other
   members. */
static syn_status check_wire(source *s, bool is_meta) {
    const syn__buf *wire = &s->in.wire;
    const char *data = wire->data != NULL ? wire->data : "";
    syn__et_reader r = {data, data + wire->bytes, NULL};
    syn_sink *text;
    uint64_t bytes;
    bool ok = true;
    if (!syn__et_read_varint(&r, &bytes) || bytes != (size_t)(r.end - r.cur))
        return wire_fail(s, "must be exactly one message, preceded by its length");
    SYN_TRY(syn_sink_open_memory(&text, s->in.err));
    syn_status status = decode(s, (syn__str){r.cur, (size_t)bytes}, is_meta, text, &ok);
    if (status == SYN_OK)
        status =
            ok ? compare(s, text, is_meta) : wire_fail(s, "is not a message of Chakra's schema");
    (void)syn_sink_close(text, false, NULL);
    return status;
}

/* Writes the message just read. If it has "@wire", writes those bytes. */
static syn_status put_message(source *s, bool is_meta) {
    char length[SYN__ET_VARINT_MAX];
    const syn__buf *m = &s->in.message;
    if (s->in.has_wire) {
        SYN_TRY(check_wire(s, is_meta));
        s->stats->n_wire++;
        syn_sink_write(s->out, s->in.wire.data, s->in.wire.bytes);
        return SYN_OK;
    }
    syn_sink_write(s->out, length, (size_t)(syn__et_varint(length, m->bytes) - length));
    if (m->bytes != 0) syn_sink_write(s->out, m->data, m->bytes);
    return SYN_OK;
}

static syn_status put_metadata(source *s) {
    SYN_TRY(syn_json_expect(&s->in.json, SYN_JSON_OBJECT_BEGIN, "metadata"));
    SYN_TRY(syn__et_json_read_meta(&s->in));
    return put_message(s, true);
}

static syn_status put_nodes(source *s) {
    syn_json *json = &s->in.json;
    SYN_TRY(syn_json_expect(json, SYN_JSON_ARRAY_BEGIN, "nodes"));
    while (syn_json_next(json) != SYN_JSON_ARRAY_END) {
        if (json->type == SYN_JSON_ERROR) return syn__et_json_broken(&s->in);
        SYN_TRY(syn__et_json_read_node(&s->in));
        SYN_TRY(put_message(s, false));
        s->stats->n_nodes++;
        if (syn_sink_status(s->out) != SYN_OK) return SYN_OK; /* syn_sink_close reports the error */
    }
    return SYN_OK;
}

/* ---- Ranks ---- */

static bool key_is(const syn_json *json, const char *name) {
    return syn__str_is((syn__str){json->text, json->text_bytes}, name);
}

/* Searches the object that `from` has just entered for a member, without moving `from`. If found,
   *at is a reader positioned after the member's key; the caller frees it. Errors in the object are
   reported by the code that reads it later. */
static bool find_member(const syn_json *from, const char *name, syn_json *at) {
    *at = *from;
    at->scratch = NULL;
    at->scratch_cap = 0;
    at->err = NULL;
    while (syn_json_next(at) == SYN_JSON_KEY) {
        if (key_is(at, name)) return true;
        if (!syn_json_skip(at)) break;
    }
    syn_json_free(at);
    return false;
}

/* Whether the object that `from` has just entered describes this rank. */
static bool has_number(const syn_json *from, int64_t rank) {
    syn_json at;
    if (!find_member(from, "rank", &at)) return false;
    const bool same = syn_json_next(&at) == SYN_JSON_NUMBER && at.is_integer && at.integer == rank;
    syn_json_free(&at);
    return same;
}

static bool is_wanted(const source *s) {
    return s->rank < 0 || has_number(&s->in.json, s->rank);
}

static syn_status put_metadata_ahead(source *s) {
    const syn_json here = s->in.json;
    syn_json at;
    if (!find_member(&here, "metadata", &at)) {
        syn_sink_char(s->out, '\0'); /* an empty metadata message: length 0 */
        return SYN_OK;
    }
    at.err = s->in.err;
    s->in.json = at;
    const syn_status status = put_metadata(s);
    syn_json_free(&s->in.json);
    s->in.json = here;
    return status;
}

/* Writes the nodes of another rank, which is searched for from the start of "ranks". */
static syn_status put_nodes_of(source *s, int64_t rank) {
    const syn_json here = s->in.json;
    syn_json list = s->ranks, nodes;
    bool found = false;
    list.scratch = NULL;
    list.scratch_cap = 0;
    list.err = NULL;
    while (!found && syn_json_next(&list) == SYN_JSON_OBJECT_BEGIN) {
        found = has_number(&list, rank) && find_member(&list, "nodes", &nodes);
        if (!found && !syn_json_skip(&list)) break;
    }
    syn_json_free(&list);
    if (!found) return syn_json_fail(&s->in.json, "rank %" PRId64 " has no nodes of its own", rank);
    nodes.err = s->in.err;
    s->in.json = nodes;
    const syn_status status = put_nodes(s);
    syn_json_free(&s->in.json);
    s->in.json = here;
    return status;
}

/* Writes the rank whose object was just entered. */
static syn_status put_rank(source *s) {
    syn_json *json = &s->in.json;
    unsigned seen = 0;
    SYN_TRY(put_metadata_ahead(s));
    while (syn_json_next(json) == SYN_JSON_KEY) {
        int64_t number;
        const unsigned member = key_is(json, "rank")       ? 1
                                : key_is(json, "metadata") ? 2
                                : key_is(json, "nodes")    ? 4
                                : key_is(json, "nodes_of") ? 8
                                                           : 0;
        if (member == 0) return syn__et_json_unknown(&s->in);
        if ((seen & member) != 0)
            return syn_json_fail(json, "the member \"%s\" appears twice", json->text);
        seen |= member;
        if (member == 1) SYN_TRY(syn_json_expect_i64(json, "rank", 0, SYN_MAX_WORLD - 1, &number));
        if (member == 2 && !syn_json_skip(json)) return syn__et_json_broken(&s->in);
        if ((seen & 12) == 12)
            return syn_json_fail(json, "a rank has both \"nodes\" and \"nodes_of\"");
        if (member == 4) SYN_TRY(put_nodes(s));
        if (member == 8) {
            SYN_TRY(syn_json_expect_i64(json, "nodes_of", 0, SYN_MAX_WORLD - 1, &number));
            SYN_TRY(put_nodes_of(s, number));
        }
    }
    return json->type == SYN_JSON_ERROR ? syn__et_json_broken(&s->in) : SYN_OK;
}

static syn_status read_ranks(source *s) {
    syn_json *json = &s->in.json;
    SYN_TRY(syn_json_expect(json, SYN_JSON_ARRAY_BEGIN, "ranks"));
    s->ranks = *json;
    while (syn_json_next(json) != SYN_JSON_ARRAY_END) {
        if (json->type == SYN_JSON_ERROR) return syn__et_json_broken(&s->in);
        if (json->type != SYN_JSON_OBJECT_BEGIN)
            return syn_json_fail(json, "a rank must be an object");
        if (!is_wanted(s)) {
            if (!syn_json_skip(json)) return syn__et_json_broken(&s->in);
            continue;
        }
        if (s->found && s->rank < 0)
            return SYN_FAIL(
                s->in.err, SYN_E_INVALID,
                "%.200s has several ranks, but an .et file has one; choose it with --rank",
                json->name);
        if (s->found) return syn_json_fail(json, "rank %" PRId32 " appears twice", s->rank);
        s->found = true;
        SYN_TRY(put_rank(s));
    }
    return SYN_OK;
}

static syn_status read_document(source *s) {
    syn_json *json = &s->in.json;
    bool ranks = false;
    SYN_TRY(syn_json_expect(json, SYN_JSON_OBJECT_BEGIN, "the file's content"));
    while (syn_json_next(json) == SYN_JSON_KEY) {
        if (!key_is(json, "ranks"))
            return syn_json_fail(json,
                                 "unknown member \"%.60s\": a Chakra trace's JSON must be "
                                 "{\"ranks\": [{\"rank\", \"metadata\", \"nodes\"}]}",
                                 json->text);
        if (ranks) return syn_json_fail(json, "the member \"ranks\" appears twice");
        ranks = true;
        SYN_TRY(read_ranks(s));
    }
    if (json->type == SYN_JSON_ERROR || syn_json_next(json) == SYN_JSON_ERROR)
        return syn__et_json_broken(&s->in);
    if (s->found) return SYN_OK;
    if (s->rank >= 0)
        return SYN_FAIL(s->in.err, SYN_E_INVALID, "%.200s does not have rank %" PRId32, json->name,
                        s->rank);
    return syn_json_fail(json, "this file has no \"ranks\"");
}

syn_status syn_chakra_json_to_et(const char *name, const char *data, size_t bytes, int32_t rank,
                                 syn_sink *out, syn_chakra_json_stats *stats, syn_error *err) {
    source s = {.in = {.strict = true, .err = err}, .out = out, .rank = rank, .stats = stats};
    *stats = (syn_chakra_json_stats){0};
    SYN_TRY(syn__et_supported(err));
    syn_json_init(&s.in.json, name, data, bytes, err);
    const syn_status status = read_document(&s);
    syn__et_json_reader_free(&s.in);
    syn__et_json_reader_free(&s.again);
    syn__et_decoder_free(&s.decoder);
    return status;
}

/* ---- File type ---- */

static bool starts_with_metadata(const char *data, size_t bytes) {
    syn__et_reader r = {data, data + bytes, NULL};
    syn__et_decoder decoder = {0};
    syn__et_meta meta;
    uint64_t length;
    const bool ok =
        syn__et_read_varint(&r, &length) && length <= (size_t)(r.end - r.cur) &&
        syn__et_decode_meta(&decoder, (syn__str){r.cur, (size_t)length}, &meta) == SYN_OK;
    syn__et_decoder_free(&decoder);
    return ok;
}

/* JSON starts with a bracket, but so can an .et, whose first byte is a length. If the first three
   tokens are not valid JSON, the file counts as an .et if its first message decodes as metadata. */
bool syn_chakra_is_json(const char *data, size_t bytes) {
    syn_json json;
    size_t at = 0;
    while (at < bytes && memchr(" \t\r\n", data[at], 4) != NULL) at++;
    if (at == bytes || (data[at] != '{' && data[at] != '[')) return false;
    syn_json_init(&json, "", data, bytes, NULL);
    for (int i = 0; i < 3 && json.type != SYN_JSON_END; i++)
        if (syn_json_next(&json) == SYN_JSON_ERROR) break;
    const bool good = json.type != SYN_JSON_ERROR;
    syn_json_free(&json);
    return good || !starts_with_metadata(data, bytes);
}
