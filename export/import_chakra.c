/* Reads {"ranks":[{"rank":0,"metadata":{...},"nodes":[...]}]} in protobuf's JSON mapping: each rank
   becomes the bytes of its .et file, which the reader of those then takes. Member names may be in
   either of protobuf's spellings. */
#include <inttypes.h>
#include <stdlib.h>

#include "export/et_graph.h"
#include "syntorch/memory.h"

#define MAX_FILE_BYTES ((size_t)1 << 36)

typedef struct rank_bytes {
    int32_t rank; /* -1 until told */
    bool has_meta;
    syn__et_buf meta, nodes; /* with their lengths */
} rank_bytes;

typedef struct reader {
    syn_json json;
    syn__et_arena arena; /* texts of the message at hand */
    uint64_t *ids[2];    /* ctrl, data */
    size_t n_ids[2], ids_cap[2];
    syn__et_attr *attrs;
    size_t n_attrs, attrs_cap;
    syn__et_buf scratch, message;
    rank_bytes *ranks;
    size_t n_ranks, ranks_cap;
    syn_error *err;
} reader;

static syn_status broken(const reader *r) {
    return r->err != NULL && r->err->code != SYN_OK ? r->err->code : SYN_E_FORMAT;
}

static syn_status no_memory(reader *r) {
    return SYN_FAIL_NOMEM(r->err, r->message.cap, "a node");
}

static bool key_is(const reader *r, const char *camel, const char *snake) {
    return strcmp(r->json.text, camel) == 0 || strcmp(r->json.text, snake) == 0;
}

static syn_status skip(reader *r) {
    return syn_json_skip(&r->json) ? SYN_OK : broken(r);
}

static syn_status copy(reader *r, syn__et_str s, syn__et_str *out) {
    char *text = (char *)syn__et_arena_get(&r->arena, s.bytes);
    if (text == NULL) return no_memory(r);
    if (s.bytes != 0) memcpy(text, s.text, s.bytes);
    *out = (syn__et_str){text, s.bytes};
    return SYN_OK;
}

/* ---- Values ---- */

/* null stands for a field's default. */
static syn_status read_text(reader *r, const char *what, syn__et_str *out) {
    const syn_json_type type = syn_json_next(&r->json);
    if (type == SYN_JSON_ERROR) return broken(r);
    if (type == SYN_JSON_NULL) return SYN_OK;
    if (type != SYN_JSON_STRING) return syn_json_fail(&r->json, "%s must be a string", what);
    return copy(r, (syn__et_str){r->json.text, r->json.text_bytes}, out);
}

static syn_status parse_number(reader *r, uint32_t field, uint64_t *out) {
    if (r->json.type == SYN_JSON_NULL) return SYN_OK;
    r->scratch.bytes = 0;
    return syn__et_parse_scalar(&r->json, field, out, &r->scratch);
}

static syn_status read_number(reader *r, uint32_t field, uint64_t *out) {
    if (syn_json_next(&r->json) == SYN_JSON_ERROR) return broken(r);
    return parse_number(r, field, out);
}

static syn_status read_type(reader *r, uint32_t *out) {
    if (syn_json_next(&r->json) == SYN_JSON_ERROR) return broken(r);
    if (r->json.type != SYN_JSON_STRING) {
        uint64_t v = 0;
        SYN_TRY(parse_number(r, SYN__ET_INT32, &v));
        *out = (uint32_t)v;
        return SYN_OK;
    }
    for (*out = 0; *out < SYN__ET_NODE_TYPES; ++*out) {
        if (strcmp(r->json.text, syn__et_node_type_name(*out)) == 0) return SYN_OK;
    }
    return syn_json_fail(&r->json, "there is no node type \"%.60s\"", r->json.text);
}

static syn_status read_ids(reader *r, int which) {
    if (syn_json_next(&r->json) == SYN_JSON_NULL) return SYN_OK;
    if (r->json.type == SYN_JSON_ERROR) return broken(r);
    if (r->json.type != SYN_JSON_ARRAY_BEGIN)
        return syn_json_fail(&r->json, "dependencies must be an array of ids");
    while (syn_json_next(&r->json) != SYN_JSON_ARRAY_END) {
        uint64_t id = 0;
        if (r->json.type == SYN_JSON_ERROR) return broken(r);
        SYN_TRY(parse_number(r, SYN__ET_UINT64, &id));
        SYN_TRY(
            syn_grow(&r->ids[which], &r->ids_cap[which], r->n_ids[which] + 1, sizeof id, r->err));
        r->ids[which][r->n_ids[which]++] = id;
    }
    return SYN_OK;
}

static syn_status read_io(reader *r, syn__et_io *io) {
    static const char *const names[] = {"values", "shapes", "types"};
    if (syn_json_next(&r->json) == SYN_JSON_NULL) return SYN_OK;
    if (r->json.type == SYN_JSON_ERROR) return broken(r);
    if (r->json.type != SYN_JSON_OBJECT_BEGIN)
        return syn_json_fail(&r->json, "inputs and outputs must be objects");
    io->present = true;
    while (syn_json_next(&r->json) == SYN_JSON_KEY) {
        int part = 0;
        while (part < 3 && strcmp(r->json.text, names[part]) != 0) part++;
        if (part == 3) SYN_TRY(skip(r));
        else SYN_TRY(read_text(r, names[part], &io->text[part]));
    }
    return r->json.type == SYN_JSON_ERROR ? broken(r) : SYN_OK;
}

/* ---- Attributes ---- */

/* {"values": [...]} */
static syn_status read_list(reader *r, syn__et_attr *a) {
    r->scratch.bytes = 0;
    SYN_TRY(syn_json_expect(&r->json, SYN_JSON_OBJECT_BEGIN, "a list"));
    while (syn_json_next(&r->json) == SYN_JSON_KEY) {
        if (strcmp(r->json.text, "values") != 0) {
            SYN_TRY(skip(r));
            continue;
        }
        SYN_TRY(syn_json_expect(&r->json, SYN_JSON_ARRAY_BEGIN, "a list's values"));
        SYN_TRY(syn__et_parse_list(&r->json, a->field, &r->scratch));
    }
    if (r->json.type == SYN_JSON_ERROR) return broken(r);
    if (r->scratch.failed) return no_memory(r);
    return copy(r, (syn__et_str){r->scratch.data, r->scratch.bytes}, &a->data);
}

static syn_status read_value(reader *r, uint32_t field, syn__et_attr *a) {
    if (a->field != SYN__ET_NONE) return syn_json_fail(&r->json, "an attribute has two values");
    a->field = field;
    if (syn__et_is_list(field)) return read_list(r, a);
    if (syn_json_next(&r->json) == SYN_JSON_ERROR) return broken(r);
    r->scratch.bytes = 0;
    SYN_TRY(syn__et_parse_scalar(&r->json, field, &a->bits, &r->scratch));
    if (r->scratch.failed) return no_memory(r);
    return copy(r, (syn__et_str){r->scratch.data, r->scratch.bytes}, &a->data);
}

static syn_status read_attr(reader *r) {
    syn__et_attr a = {{"", 0}, {"", 0}, SYN__ET_NONE, 0, {"", 0}};
    if (r->json.type != SYN_JSON_OBJECT_BEGIN)
        return syn_json_fail(&r->json, "an attribute must be an object");
    while (syn_json_next(&r->json) == SYN_JSON_KEY) {
        const uint32_t field =
            syn__et_field_by_name((syn__et_str){r->json.text, r->json.text_bytes});
        if (field != SYN__ET_NONE) SYN_TRY(read_value(r, field, &a));
        else if (key_is(r, "name", "name")) SYN_TRY(read_text(r, "name", &a.name));
        else if (key_is(r, "docString", "doc_string")) SYN_TRY(read_text(r, "docString", &a.doc));
        else SYN_TRY(skip(r));
    }
    if (r->json.type == SYN_JSON_ERROR) return broken(r);
    SYN_TRY(syn_grow(&r->attrs, &r->attrs_cap, r->n_attrs + 1, sizeof a, r->err));
    r->attrs[r->n_attrs++] = a;
    return SYN_OK;
}

static syn_status read_attrs(reader *r) {
    if (syn_json_next(&r->json) == SYN_JSON_NULL) return SYN_OK;
    if (r->json.type == SYN_JSON_ERROR) return broken(r);
    if (r->json.type != SYN_JSON_ARRAY_BEGIN)
        return syn_json_fail(&r->json, "attr must be an array");
    while (syn_json_next(&r->json) != SYN_JSON_ARRAY_END) {
        if (r->json.type == SYN_JSON_ERROR) return broken(r);
        SYN_TRY(read_attr(r));
    }
    return SYN_OK;
}

/* ---- Messages ---- */

static void begin_message(reader *r) {
    syn__et_arena_reset(&r->arena);
    r->n_ids[0] = r->n_ids[1] = r->n_attrs = 0;
    r->message.bytes = 0;
}

/* Appends the message and its length. */
static syn_status end_message(reader *r, syn__et_buf *out) {
    syn__et_put_varint(out, r->message.bytes);
    syn__et_buf_put(out, r->message.data, r->message.bytes);
    return r->message.failed || out->failed ? no_memory(r) : SYN_OK;
}

static syn_status read_member(reader *r, syn__et_node *n) {
    uint64_t *number = NULL;
    if (key_is(r, "id", "id")) number = &n->id;
    if (key_is(r, "startTimeMicros", "start_time_micros")) number = &n->start_micros;
    if (key_is(r, "durationMicros", "duration_micros")) number = &n->duration_micros;
    if (number != NULL) return read_number(r, SYN__ET_UINT64, number);
    if (key_is(r, "name", "name")) return read_text(r, "name", &n->name);
    if (key_is(r, "type", "type")) return read_type(r, &n->type);
    if (key_is(r, "ctrlDeps", "ctrl_deps")) return read_ids(r, 0);
    if (key_is(r, "dataDeps", "data_deps")) return read_ids(r, 1);
    if (key_is(r, "inputs", "inputs")) return read_io(r, &n->io[0]);
    if (key_is(r, "outputs", "outputs")) return read_io(r, &n->io[1]);
    if (key_is(r, "attr", "attr")) return read_attrs(r);
    return skip(r);
}

static syn_status read_node(reader *r, syn__et_buf *out) {
    static const syn__et_io none = {false, {{"", 0}, {"", 0}, {"", 0}}};
    syn__et_node node = {.name = {"", 0}, .io = {none, none}};
    if (r->json.type != SYN_JSON_OBJECT_BEGIN)
        return syn_json_fail(&r->json, "a node must be an object");
    begin_message(r);
    while (syn_json_next(&r->json) == SYN_JSON_KEY) SYN_TRY(read_member(r, &node));
    if (r->json.type == SYN_JSON_ERROR) return broken(r);
    node.ctrl = r->ids[0];
    node.n_ctrl = r->n_ids[0];
    node.data = r->ids[1];
    node.n_data = r->n_ids[1];
    node.attrs = r->attrs;
    node.n_attrs = r->n_attrs;
    syn__et_put_node(&r->message, &node);
    return end_message(r, out);
}

static syn_status read_nodes(reader *r, syn__et_buf *out) {
    SYN_TRY(syn_json_expect(&r->json, SYN_JSON_ARRAY_BEGIN, "nodes"));
    while (syn_json_next(&r->json) != SYN_JSON_ARRAY_END) {
        if (r->json.type == SYN_JSON_ERROR) return broken(r);
        SYN_TRY(read_node(r, out));
    }
    return SYN_OK;
}

static syn_status read_metadata(reader *r, rank_bytes *rank) {
    syn__et_meta meta = {.version = {"", 0}};
    if (rank->has_meta) return syn_json_fail(&r->json, "a rank has metadata twice");
    SYN_TRY(syn_json_expect(&r->json, SYN_JSON_OBJECT_BEGIN, "metadata"));
    begin_message(r);
    while (syn_json_next(&r->json) == SYN_JSON_KEY) {
        if (key_is(r, "version", "version")) SYN_TRY(read_text(r, "version", &meta.version));
        else if (key_is(r, "attr", "attr")) SYN_TRY(read_attrs(r));
        else SYN_TRY(skip(r));
    }
    if (r->json.type == SYN_JSON_ERROR) return broken(r);
    meta.attrs = r->attrs;
    meta.n_attrs = r->n_attrs;
    syn__et_put_meta(&r->message, &meta);
    rank->has_meta = true;
    return end_message(r, &rank->meta);
}

/* ---- Ranks ---- */

static syn_status read_rank_number(reader *r, rank_bytes *rank) {
    int64_t v;
    SYN_TRY(syn_json_expect_i64(&r->json, "rank", 0, (1 << 24) - 1, &v));
    for (size_t i = 0; i < r->n_ranks; i++) {
        if (r->ranks[i].rank == v)
            return syn_json_fail(&r->json, "rank %" PRId64 " is there twice", v);
    }
    rank->rank = (int32_t)v;
    return SYN_OK;
}

static syn_status read_rank(reader *r) {
    if (r->json.type != SYN_JSON_OBJECT_BEGIN)
        return syn_json_fail(&r->json, "a rank must be an object");
    SYN_TRY(syn_grow(&r->ranks, &r->ranks_cap, r->n_ranks + 1, sizeof *r->ranks, r->err));
    rank_bytes *rank = &r->ranks[r->n_ranks++];
    *rank = (rank_bytes){.rank = -1};
    while (syn_json_next(&r->json) == SYN_JSON_KEY) {
        if (key_is(r, "rank", "rank")) SYN_TRY(read_rank_number(r, rank));
        else if (key_is(r, "metadata", "metadata")) SYN_TRY(read_metadata(r, rank));
        else if (key_is(r, "nodes", "nodes")) SYN_TRY(read_nodes(r, &rank->nodes));
        else SYN_TRY(skip(r));
    }
    if (r->json.type == SYN_JSON_ERROR) return broken(r);
    if (rank->rank < 0) return syn_json_fail(&r->json, "this rank has no number \"rank\"");
    return SYN_OK;
}

static syn_status read_document(reader *r) {
    bool found = false;
    SYN_TRY(syn_json_expect(&r->json, SYN_JSON_OBJECT_BEGIN, "the file's content"));
    while (syn_json_next(&r->json) == SYN_JSON_KEY) {
        if (strcmp(r->json.text, "ranks") != 0 || found) {
            SYN_TRY(skip(r));
            continue;
        }
        found = true;
        SYN_TRY(syn_json_expect(&r->json, SYN_JSON_ARRAY_BEGIN, "ranks"));
        while (syn_json_next(&r->json) != SYN_JSON_ARRAY_END) {
            if (r->json.type == SYN_JSON_ERROR) return broken(r);
            SYN_TRY(read_rank(r));
        }
    }
    if (r->json.type == SYN_JSON_ERROR || syn_json_next(&r->json) == SYN_JSON_ERROR)
        return broken(r);
    if (r->n_ranks == 0) return syn_json_fail(&r->json, "there are no \"ranks\" in this file");
    return SYN_OK;
}

static int compare(const void *a, const void *b) {
    const rank_bytes *x = (const rank_bytes *)a, *y = (const rank_bytes *)b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static syn_status add_rank(reader *r, syn__et_builder *b, uint32_t i, const char *name) {
    rank_bytes *rank = &r->ranks[i];
    if (!rank->has_meta) syn__et_put_varint(&rank->meta, 0);
    const int32_t said =
        rank->meta.failed ? -1 : syn__et_peek_rank(rank->meta.data, rank->meta.bytes);
    if (said >= 0 && said != rank->rank)
        return SYN_FAIL(r->err, SYN_E_FORMAT,
                        "%.200s: the metadata of rank %d says that it is rank %d", name,
                        (int)rank->rank, (int)said);
    syn__et_buf_put(&rank->meta, rank->nodes.data, rank->nodes.bytes);
    if (rank->meta.failed) return no_memory(r);
    syn__et_buf_free(&rank->nodes);
    SYN_TRY(syn__et_builder_add(b, i, name, rank->meta.data, rank->meta.bytes, false, r->err));
    syn__et_buf_free(&rank->meta);
    return SYN_OK;
}

static syn_status build(reader *r, const char *name, syn_graph **out) {
    syn__et_builder *b;
    if (r->n_ranks > 1) qsort(r->ranks, r->n_ranks, sizeof *r->ranks, compare);
    int32_t *numbers = (int32_t *)syn_malloc(r->n_ranks * sizeof *numbers);
    if (numbers == NULL) return no_memory(r);
    for (size_t i = 0; i < r->n_ranks; i++) numbers[i] = r->ranks[i].rank;
    syn_status status = syn__et_builder_new(&b, numbers, (uint32_t)r->n_ranks, r->err);
    syn_free(numbers);
    if (status != SYN_OK) return status;
    for (uint32_t i = 0; i < r->n_ranks && status == SYN_OK; i++) status = add_rank(r, b, i, name);
    const syn_status finished = syn__et_builder_finish(b, status == SYN_OK ? out : NULL, r->err);
    return status != SYN_OK ? status : finished;
}

static void reader_free(reader *r) {
    for (size_t i = 0; i < r->n_ranks; i++) {
        syn__et_buf_free(&r->ranks[i].meta);
        syn__et_buf_free(&r->ranks[i].nodes);
    }
    syn_free(r->ranks);
    syn_free(r->ids[0]);
    syn_free(r->ids[1]);
    syn_free(r->attrs);
    syn__et_buf_free(&r->scratch);
    syn__et_buf_free(&r->message);
    syn__et_arena_free(&r->arena);
    syn_json_free(&r->json);
}

syn_status syn__et_import_chakra(syn_graph **out, const char *name, const char *data, size_t bytes,
                                 syn_error *err) {
    reader r = {.err = err};
    *out = NULL;
    syn_json_init(&r.json, name, data, bytes, err);
    syn_status status = read_document(&r);
    if (status == SYN_OK) status = build(&r, name, out);
    reader_free(&r);
    return status;
}

syn_status syn_import_chakra_json(syn_graph **out, const char *path, syn_error *err) {
    char *data;
    size_t bytes;
    *out = NULL;
    SYN_TRY(syn_read_file(path, MAX_FILE_BYTES, &data, &bytes, err));
    const syn_status status = syn__et_import_chakra(out, path, data, bytes, err);
    syn_free(data);
    return status;
}
