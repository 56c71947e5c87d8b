/* Builds a syn_graph from the messages of execution traces: the graph itself, its metadata and its
   dependencies. et_groups.c reads the groups, et_semantics.c the nodes. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "export/chakra/et_attr.h"
#include "export/chakra/et_build.h"
#include "export/chakra/et_ring.h"
#include "syntorch/base/memory.h"

/* Maximum number of attributes in GlobalMetadata; entries are found by linear search. */
#define MAX_META 1000

syn_status syn__et_builder_new(syn__et_builder **out, const int32_t *ranks, uint32_t n_ranks,
                               syn_error *err) {
    *out = NULL;
    SYN_TRY(syn__et_supported(err));
    syn__et_builder *b = (syn__et_builder *)syn_calloc(1, sizeof *b);
    if (b == NULL) return SYN_FAIL_NOMEM(err, sizeof *b, "the nodes of execution traces");
    const syn_status status = syn_graph_new(&b->graph, ranks, n_ranks, 1, err);
    if (status != SYN_OK) {
        syn_free(b);
        return status;
    }
    for (uint32_t i = 0; i < n_ranks; i++) syn__et_extend_world(b, ranks[i]);
    *out = b;
    return SYN_OK;
}

static void builder_free(syn__et_builder *b) {
    for (size_t i = 0; i < b->n_groups; i++) {
        syn_free(b->groups[i].name);
        syn_free(b->groups[i].ranks);
    }
    syn_free(b->groups);
    syn_free(b->deps);
    syn_free(b->attributes);
    syn__arena_free(&b->arena);
    syn__et_decoder_free(&b->decoder);
    syn_graph_free(b->graph);
    syn_free(b);
}

syn_status syn__et_builder_finish(syn__et_builder *b, syn_graph **out, syn_error *err) {
    const int32_t node_ranks = syn__et_node_ranks(b->graph);
    syn_status status = SYN_OK;
    for (size_t i = 0; i < b->n_groups && status == SYN_OK && out != NULL; i++) {
        const syn__et_group *g = &b->groups[i];
        char name[24];
        if (g->is_listed)
            status = syn__et_undo_ring_order(g->ranks, (uint32_t)g->n_ranks, node_ranks, err);
        if (status != SYN_OK) break;
        snprintf(name, sizeof name, "pg%" PRIu32, g->id);
        const syn_graph_group group = {g->id, g->name != NULL ? g->name : name, g->ranks,
                                       (uint32_t)g->n_ranks};
        status = syn_graph_add_group(b->graph, &group, err);
    }
    if (out != NULL && status == SYN_OK) {
        b->graph->world_size =
            b->world_size > b->min_world_size ? b->world_size : b->min_world_size;
        *out = b->graph;
        b->graph = NULL;
    }
    builder_free(b);
    return status;
}

/* ---- Metadata ---- */

static bool same_value(const syn_attribute *a, const syn_attribute *b) {
    if (a->type != b->type) return false;
    if (a->type == SYN_VALUE_TEXT) return strcmp(a->text, b->text) == 0;
    return a->type == SYN_VALUE_F64 ? !(a->f64 < b->f64) && !(a->f64 > b->f64) : a->i64 == b->i64;
}

/* Whether the rank need not store this entry, because the common entry has the same value. The
   entry "rank" need not be stored if it is the rank's own number. */
static bool is_common(const syn__et_builder *b, uint32_t rank, const syn_attribute *entry) {
    const syn_attribute *common = syn_graph_meta(b->graph, entry->name);
    if (common == NULL) return false;
    if (strcmp(entry->name, "rank") == 0 && entry->type == SYN_VALUE_I64)
        return entry->i64 == b->graph->ranks[rank].rank;
    return same_value(entry, common);
}

/* Stores an entry of a rank. The entries of the first rank become the common entries. An entry of
   rank 3 that is not among them is stored under the name "name@rank3". */
static syn_status put_meta(syn__et_builder *b, uint32_t rank, const syn_attribute *entry,
                           syn_error *err) {
    const int32_t global = b->graph->ranks[rank].rank;
    const bool wrong_rank =
        strcmp(entry->name, "rank") == 0 && entry->type == SYN_VALUE_I64 && entry->i64 != global;
    if (rank == 0 && !wrong_rank) return syn_graph_set_meta(b->graph, entry, err);
    if (rank != 0 && is_common(b, rank, entry)) return SYN_OK;
    const size_t bytes = strlen(entry->name) + 32;
    char *name = (char *)syn__arena_get(&b->arena, bytes);
    if (name == NULL) return SYN_FAIL_NOMEM(err, bytes, "a name");
    snprintf(name, bytes, "%s@rank%" PRId32, entry->name, global);
    syn_attribute own = *entry;
    own.name = name;
    return syn_graph_set_meta(b->graph, &own, err);
}

static syn_status put_meta_attr(syn__et_builder *b, uint32_t rank, const syn__et_attr *a,
                                syn_error *err) {
    syn_attribute entry[2];
    size_t n;
    if (syn__str_is(a->name, "world_size") && a->field == SYN__ET_INT64 && a->bits >= 1 &&
        a->bits <= SYN_MAX_WORLD && b->world_size == 0)
        b->world_size = (int32_t)a->bits;
    if (syn__et_attr_to_graph(a, &b->arena, entry, &n) != SYN_OK)
        return SYN_FAIL_NOMEM(err, a->data.bytes, "an attribute");
    SYN_TRY(put_meta(b, rank, &entry[0], err));
    if (n == 1) return SYN_OK;
    const size_t bytes = strlen(entry[0].name) + 8;
    char *name = (char *)syn__arena_get(&b->arena, bytes);
    if (name == NULL) return SYN_FAIL_NOMEM(err, bytes, "a name");
    snprintf(name, bytes, "%s@doc", entry[0].name);
    entry[1].name = name;
    return put_meta(b, rank, &entry[1], err);
}

static syn_status put_version(syn__et_builder *b, uint32_t rank, syn__str version, syn_error *err) {
    const syn_attribute entry = {
        .name = "et.version", .type = SYN_VALUE_TEXT, .text = syn__arena_text(&b->arena, version)};
    if (entry.text == NULL) return SYN_FAIL_NOMEM(err, version.bytes, "a version");
    return put_meta(b, rank, &entry, err);
}

static syn_status read_meta(syn__et_builder *b, uint32_t rank, const syn__et_index *index,
                            syn_error *err) {
    syn__et_meta meta;
    if (syn__et_decode_meta(&b->decoder, index->meta, &meta) != SYN_OK)
        return SYN_FAIL_NOMEM(err, index->meta.bytes, "the metadata");
    if (meta.n_attrs > MAX_META)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED, "%.200s: more than %d attributes in GlobalMetadata",
                        index->name, MAX_META);
    SYN_TRY(put_version(b, rank, meta.version, err));
    bool groups = false;
    for (size_t i = 0; i < meta.n_attrs; i++) {
        bool is_group;
        SYN_TRY(syn__et_read_group_attr(b, index, &meta.attrs[i], &is_group, err));
        groups = groups || is_group;
        if (!is_group) SYN_TRY(put_meta_attr(b, rank, &meta.attrs[i], err));
    }
    const syn_attribute listed = {.name = "et.groups", .type = SYN_VALUE_BOOL, .i64 = 1};
    if (groups) SYN_TRY(syn_graph_set_meta(b->graph, &listed, err));
    if (index->n_dropped == 0) return SYN_OK;
    const syn_attribute dropped = {
        .name = "et.dropped_ctrl_deps", .type = SYN_VALUE_I64, .i64 = (int64_t)index->n_dropped};
    return put_meta(b, rank, &dropped, err);
}

/* ---- Nodes ---- */

static int compare_deps(const void *a, const void *b) {
    const syn_dep *x = (const syn_dep *)a, *y = (const syn_dep *)b;
    if (x->node != y->node) return (x->node > y->node) - (x->node < y->node);
    return (x->dep_class > y->dep_class) - (x->dep_class < y->dep_class);
}

/* Sets the node's dependencies: positions in the graph's order, ascending, without duplicates. */
static syn_status put_deps(syn__et_builder *b, const syn__et_index *index, uint32_t span,
                           syn_node *node, syn_error *err) {
    const size_t from = index->spans[span].first_dep;
    const size_t end = span + 1 < index->n_spans ? index->spans[span + 1].first_dep : index->n_deps;
    size_t n = 0;
    SYN_TRY(syn_grow(&b->deps, &b->deps_cap, end - from, sizeof *b->deps, err));
    for (size_t i = from; i < end; i++)
        b->deps[i - from] =
            (syn_dep){index->spans[index->deps[i].node].position, index->deps[i].dep_class};
    if (end - from > 1) qsort(b->deps, end - from, sizeof *b->deps, compare_deps);
    for (size_t i = 0; i < end - from; i++) {
        if (n == 0 || compare_deps(&b->deps[n - 1], &b->deps[i]) != 0) b->deps[n++] = b->deps[i];
    }
    node->deps = b->deps;
    node->n_deps = (uint32_t)n;
    return SYN_OK;
}

static syn_status read_nodes(syn__et_builder *b, uint32_t rank, const syn__et_index *index,
                             syn_error *err) {
    syn__et_begin_rank(b, rank, index);
    for (size_t i = 0; i < index->n_spans; i++) {
        const syn__et_span *span = &index->spans[index->order[i]];
        syn__et_node message;
        syn_node node;
        syn__arena_reset(&b->arena);
        if (syn__et_decode_node(&b->decoder, (syn__str){span->data, span->bytes}, &message) !=
            SYN_OK)
            return SYN_FAIL_NOMEM(err, span->bytes, "a node");
        SYN_TRY(syn__et_to_graph(b, &message, &node, err));
        SYN_TRY(put_deps(b, index, index->order[i], &node, err));
        SYN_TRY(syn_graph_add_node(b->graph, rank, &node, err));
    }
    return SYN_OK;
}

syn_status syn__et_builder_add(syn__et_builder *b, uint32_t rank, const char *name,
                               const char *data, size_t bytes, bool is_file, syn_error *err) {
    syn__et_index index;
    syn_status status = syn__et_index_open(&index, &b->decoder, name, data, bytes, is_file, err);
    syn__arena_reset(&b->arena);
    if (status == SYN_OK) status = read_meta(b, rank, &index, err);
    if (status == SYN_OK) status = read_nodes(b, rank, &index, err);
    syn__et_index_close(&index);
    return status;
}
