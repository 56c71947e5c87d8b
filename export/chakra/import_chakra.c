/* Reads {"ranks":[{"rank":0,"metadata":{...},"nodes":[...]}]} in protobuf's JSON mapping. Each rank
   is converted to the bytes of its .et file, which et_build.c reads. Instead of "nodes", a rank may
   have "nodes_of": the number of a rank with the same nodes. */
#include <inttypes.h>
#include <stdlib.h>

#include "export/chakra/et_build.h"
#include "export/chakra/et_import.h"
#include "export/chakra/wire/et_files.h"
#include "export/chakra/wire/et_json_read.h"
#include "export/export.h"
#include "syntorch/base/memory.h"

/* Limit of the bytes that are copied for all "nodes_of" ranks together. */
#define MAX_COPY_BYTES ((size_t)1 << 32)
#define OWN_NODES      (-1)

typedef struct rank_bytes {
    int32_t rank; /* -1 until "rank" was read */
    bool has_meta, has_nodes;
    int32_t nodes_of;     /* number of the rank that has the nodes, or OWN_NODES */
    size_t n_copies;      /* number of ranks with these nodes that have not been added yet */
    syn__buf meta, nodes; /* wire form; each message is preceded by its length */
} rank_bytes;

typedef struct reader {
    syn__et_json_reader in;
    rank_bytes *ranks;
    size_t n_ranks, ranks_cap;
} reader;

/* Appends the length and bytes of the message just read. */
static syn_status take_message(reader *r, syn__buf *out) {
    syn__et_put_varint(out, r->in.message.bytes);
    syn__buf_put(out, r->in.message.data, r->in.message.bytes);
    return out->failed ? syn__et_json_no_memory(&r->in) : SYN_OK;
}

static syn_status read_nodes_of(reader *r, rank_bytes *rank) {
    int64_t v;
    SYN_TRY(syn_json_expect_i64(&r->in.json, "nodes_of", 0, SYN_MAX_WORLD - 1, &v));
    rank->nodes_of = (int32_t)v;
    return SYN_OK;
}

static syn_status read_nodes(reader *r, rank_bytes *rank) {
    syn_json *json = &r->in.json;
    rank->has_nodes = true;
    SYN_TRY(syn_json_expect(json, SYN_JSON_ARRAY_BEGIN, "nodes"));
    while (syn_json_next(json) != SYN_JSON_ARRAY_END) {
        if (json->type == SYN_JSON_ERROR) return syn__et_json_broken(&r->in);
        SYN_TRY(syn__et_json_read_node(&r->in));
        SYN_TRY(take_message(r, &rank->nodes));
    }
    return SYN_OK;
}

static syn_status read_metadata(reader *r, rank_bytes *rank) {
    if (rank->has_meta) return syn_json_fail(&r->in.json, "a rank has metadata twice");
    SYN_TRY(syn_json_expect(&r->in.json, SYN_JSON_OBJECT_BEGIN, "metadata"));
    SYN_TRY(syn__et_json_read_meta(&r->in));
    rank->has_meta = true;
    return take_message(r, &rank->meta);
}

/* ---- Ranks ---- */

static syn_status read_rank_number(reader *r, rank_bytes *rank) {
    int64_t v;
    SYN_TRY(syn_json_expect_i64(&r->in.json, "rank", 0, SYN_MAX_WORLD - 1, &v));
    for (size_t i = 0; i < r->n_ranks; i++) {
        if (r->ranks[i].rank == v)
            return syn_json_fail(&r->in.json, "rank %" PRId64 " appears twice", v);
    }
    rank->rank = (int32_t)v;
    return SYN_OK;
}

static syn_status read_rank(reader *r) {
    if (r->in.json.type != SYN_JSON_OBJECT_BEGIN)
        return syn_json_fail(&r->in.json, "a rank must be an object");
    SYN_TRY(syn_grow(&r->ranks, &r->ranks_cap, r->n_ranks + 1, sizeof *r->ranks, r->in.err));
    rank_bytes *rank = &r->ranks[r->n_ranks++];
    *rank = (rank_bytes){.rank = -1, .nodes_of = OWN_NODES};
    while (syn_json_next(&r->in.json) == SYN_JSON_KEY) {
        if (strcmp(r->in.json.text, "rank") == 0) SYN_TRY(read_rank_number(r, rank));
        else if (strcmp(r->in.json.text, "metadata") == 0) SYN_TRY(read_metadata(r, rank));
        else if (strcmp(r->in.json.text, "nodes") == 0) SYN_TRY(read_nodes(r, rank));
        else if (strcmp(r->in.json.text, "nodes_of") == 0) SYN_TRY(read_nodes_of(r, rank));
        else SYN_TRY(syn__et_json_unknown(&r->in));
    }
    if (r->in.json.type == SYN_JSON_ERROR) return syn__et_json_broken(&r->in);
    if (rank->rank < 0) return syn_json_fail(&r->in.json, "this rank lacks its number, \"rank\"");
    if (rank->has_nodes && rank->nodes_of != OWN_NODES)
        return syn_json_fail(&r->in.json, "a rank has both \"nodes\" and \"nodes_of\"");
    return SYN_OK;
}

static syn_status read_document(reader *r) {
    bool found = false;
    SYN_TRY(syn_json_expect(&r->in.json, SYN_JSON_OBJECT_BEGIN, "the file's content"));
    while (syn_json_next(&r->in.json) == SYN_JSON_KEY) {
        if (strcmp(r->in.json.text, "ranks") != 0 || found) {
            SYN_TRY(syn__et_json_unknown(&r->in));
            continue;
        }
        found = true;
        SYN_TRY(syn_json_expect(&r->in.json, SYN_JSON_ARRAY_BEGIN, "ranks"));
        while (syn_json_next(&r->in.json) != SYN_JSON_ARRAY_END) {
            if (r->in.json.type == SYN_JSON_ERROR) return syn__et_json_broken(&r->in);
            SYN_TRY(read_rank(r));
        }
    }
    if (r->in.json.type == SYN_JSON_ERROR || syn_json_next(&r->in.json) == SYN_JSON_ERROR)
        return syn__et_json_broken(&r->in);
    if (r->n_ranks == 0) return syn_json_fail(&r->in.json, "this file has no \"ranks\"");
    return SYN_OK;
}

static int compare(const void *a, const void *b) {
    const rank_bytes *x = (const rank_bytes *)a, *y = (const rank_bytes *)b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* The rank that has the nodes of `rank`: itself or the rank of nodes_of. NULL if there is no such
   rank. r->ranks must be sorted. */
static rank_bytes *owner_of(reader *r, rank_bytes *rank) {
    const rank_bytes key = {.rank = rank->nodes_of};
    if (rank->nodes_of == OWN_NODES) return rank;
    return (rank_bytes *)bsearch(&key, r->ranks, r->n_ranks, sizeof key, compare);
}

static syn_status count_copies(reader *r, const char *name) {
    size_t bytes = 0;
    for (size_t i = 0; i < r->n_ranks; i++) {
        rank_bytes *owner = owner_of(r, &r->ranks[i]);
        if (owner == NULL || owner->nodes_of != OWN_NODES)
            return SYN_FAIL(r->in.err, SYN_E_FORMAT,
                            "%.200s: rank %d has the nodes of rank %d, which has none of its own",
                            name, (int)r->ranks[i].rank, (int)r->ranks[i].nodes_of);
        owner->n_copies++;
        if (owner == &r->ranks[i]) continue;
        bytes += owner->nodes.bytes;
        if (bytes > MAX_COPY_BYTES)
            return SYN_FAIL(r->in.err, SYN_E_UNSUPPORTED,
                            "%.200s: the expanded nodes of identical ranks exceed 4 GiB", name);
    }
    return SYN_OK;
}

static syn_status add_rank(reader *r, syn__et_builder *b, uint32_t i, const char *name) {
    rank_bytes *rank = &r->ranks[i], *owner = owner_of(r, rank);
    if (!rank->has_meta) syn__et_put_varint(&rank->meta, 0);
    const int32_t said =
        rank->meta.failed ? -1 : syn__et_peek_rank(rank->meta.data, rank->meta.bytes);
    if (said >= 0 && said != rank->rank)
        return SYN_FAIL(r->in.err, SYN_E_FORMAT, "%.200s: the metadata of rank %d has rank %d",
                        name, (int)rank->rank, (int)said);
    if (owner->nodes.bytes > 0) syn__buf_put(&rank->meta, owner->nodes.data, owner->nodes.bytes);
    if (rank->meta.failed) return syn__et_json_no_memory(&r->in);
    if (--owner->n_copies == 0) syn__buf_free(&owner->nodes);
    SYN_TRY(syn__et_builder_add(b, i, name, rank->meta.data, rank->meta.bytes, false, r->in.err));
    syn__buf_free(&rank->meta);
    return SYN_OK;
}

static syn_status build(reader *r, const char *name, syn_graph **out) {
    syn__et_builder *b;
    if (r->n_ranks > 1) qsort(r->ranks, r->n_ranks, sizeof *r->ranks, compare);
    SYN_TRY(count_copies(r, name));
    int32_t *numbers = (int32_t *)syn_malloc(r->n_ranks * sizeof *numbers);
    if (numbers == NULL) return syn__et_json_no_memory(&r->in);
    for (size_t i = 0; i < r->n_ranks; i++) numbers[i] = r->ranks[i].rank;
    syn_status status = syn__et_builder_new(&b, numbers, (uint32_t)r->n_ranks, r->in.err);
    syn_free(numbers);
    if (status != SYN_OK) return status;
    for (uint32_t i = 0; i < r->n_ranks && status == SYN_OK; i++) status = add_rank(r, b, i, name);
    const syn_status finished = syn__et_builder_finish(b, status == SYN_OK ? out : NULL, r->in.err);
    return status != SYN_OK ? status : finished;
}

static void reader_free(reader *r) {
    for (size_t i = 0; i < r->n_ranks; i++) {
        syn__buf_free(&r->ranks[i].meta);
        syn__buf_free(&r->ranks[i].nodes);
    }
    syn_free(r->ranks);
    syn__et_json_reader_free(&r->in);
}

syn_status syn__et_import_chakra(syn_graph **out, const char *name, const char *data, size_t bytes,
                                 syn_error *err) {
    reader r = {.in = {.err = err}};
    *out = NULL;
    SYN_TRY(syn__et_supported(err));
    syn_json_init(&r.in.json, name, data, bytes, err);
    syn_status status = read_document(&r);
    if (status == SYN_OK) status = build(&r, name, out);
    reader_free(&r);
    return status;
}

syn_status syn_import_chakra_json(syn_graph **out, const char *path, syn_error *err) {
    char *data;
    size_t bytes;
    *out = NULL;
    SYN_TRY(syn_read_file(path, SYN__ET_MAX_FILE_BYTES, &data, &bytes, err));
    const syn_status status = syn__et_import_chakra(out, path, data, bytes, err);
    syn_free(data);
    return status;
}
