/* Exports Chakra execution traces: one file per rank, written node by node in protobuf's wire
   format, and the trace set's comm_group.json. */
#include <stdlib.h>
#include <string.h>

#include "export/chakra/et_ring.h"
#include "export/chakra/et_walk.h"
#include "export/chakra/wire/et_files.h"
#include "export/export.h"
#include "syntorch/base/memory.h"

/* Writes the buffer's length and content, and empties the buffer. */
static void write_message(syn_sink *sink, syn__buf *buf) {
    char length[SYN__ET_VARINT_MAX];
    if (buf->failed) return;
    syn_sink_write(sink, length, (size_t)(syn__et_varint(length, buf->bytes) - length));
    syn_sink_write(sink, buf->data, buf->bytes);
    buf->bytes = 0;
}

static syn_status write_walk(syn__et_walk *walk, syn__buf *buf, syn_sink *sink, syn_error *err) {
    syn__et_meta meta;
    syn__et_node node;
    bool more = true;
    SYN_TRY(syn__et_walk_meta(walk, &meta, err));
    syn__et_put_meta(buf, &meta);
    write_message(sink, buf);
    for (;;) {
        SYN_TRY(syn__et_walk_node(walk, &node, &more, err));
        if (!more) return SYN_OK;
        syn__et_put_node(buf, &node);
        write_message(sink, buf);
        if (buf->failed) return SYN_FAIL_NOMEM(err, buf->cap, "a node of an execution trace");
        if (syn_sink_status(sink) != SYN_OK) return SYN_OK; /* syn_sink_close reports the error */
    }
}

static syn_status write_rank(const syn_graph *graph, uint32_t rank,
                             const syn_export_options *options, syn_sink *sink, syn_error *err) {
    syn__et_walk walk;
    syn__buf buf = {0};
    SYN_TRY(syn__et_walk_open(&walk, graph, rank, options != NULL ? options->version : NULL, err));
    const syn_status status = write_walk(&walk, &buf, sink, err);
    syn__buf_free(&buf);
    syn__et_walk_close(&walk);
    return status;
}

static syn_status find_rank(const syn_graph *graph, const int32_t *rank, uint32_t *out,
                            syn_error *err) {
    for (uint32_t i = 0; i < graph->n_ranks; i++) {
        if (rank != NULL && graph->ranks[i].rank != *rank) continue;
        *out = i;
        return SYN_OK;
    }
    if (rank == NULL) return SYN_FAIL(err, SYN_E_INVALID, "the graph has no ranks");
    return SYN_FAIL(err, SYN_E_INVALID, "the graph has no rank %d", (int)*rank);
}

static syn_status write_one(const syn_graph *graph, const syn_export_options *options,
                            syn_sink *sink, syn_error *err) {
    uint32_t rank = 0;
    SYN_TRY(find_rank(graph, options != NULL ? options->rank : NULL, &rank, err));
    SYN_TRY(syn__et_check_rank(graph, rank, err));
    return write_rank(graph, rank, options, sink, err);
}

const syn_exporter syn_export_et = {"et", "et", write_one};

/* ---- Groups ---- */

static syn_status write_group(syn_sink *sink, const syn_graph_group *group, int32_t node_ranks,
                              bool first, syn_error *err) {
    const size_t bytes = group->n_ranks * sizeof(int32_t);
    int32_t *ranks = (int32_t *)syn_malloc(bytes);
    if (ranks == NULL) return SYN_FAIL_NOMEM(err, bytes, "a group's ranks");
    memcpy(ranks, group->ranks, bytes);
    const syn_status status = syn__et_order_ring(ranks, group->n_ranks, node_ranks, err);
    syn_sink_text(sink, first ? "\n  \"" : ",\n  \"");
    syn_sink_u64(sink, group->id);
    syn_sink_text(sink, "\": [");
    for (uint32_t i = 0; i < group->n_ranks; i++) {
        if (i > 0) syn_sink_text(sink, ", ");
        syn_sink_i64(sink, ranks[i]);
    }
    syn_sink_char(sink, ']');
    syn_free(ranks);
    return status;
}

static int by_id(const void *a, const void *b) {
    const uint32_t x = (*(const syn_graph_group *const *)a)->id;
    const uint32_t y = (*(const syn_graph_group *const *)b)->id;
    return (x > y) - (x < y);
}

/* Writes the groups by ascending id. Groups of one rank have no collectives and are omitted. */
syn_status syn_export_comm_group(const syn_graph *graph, int32_t node_ranks, syn_sink *sink,
                                 syn_error *err) {
    const size_t bytes = ((size_t)graph->n_groups + 1) * sizeof(syn_graph_group *);
    const syn_graph_group **groups = (const syn_graph_group **)syn_malloc(bytes);
    if (groups == NULL) return SYN_FAIL_NOMEM(err, bytes, "the list of groups");
    size_t n = 0;
    for (uint32_t i = 0; i < graph->n_groups; i++) {
        if (graph->groups[i].n_ranks > 1) groups[n++] = &graph->groups[i];
    }
    qsort(groups, n, sizeof *groups, by_id);
    syn_sink_char(sink, '{');
    syn_status status = SYN_OK;
    for (size_t i = 0; i < n && status == SYN_OK; i++)
        status = write_group(sink, groups[i], node_ranks, i == 0, err);
    syn_sink_text(sink, n != 0 ? "\n}\n" : "}\n");
    syn_free(groups);
    return status;
}

/* ---- Sets ---- */

typedef struct set {
    const syn_graph *graph;
    const syn_export_options *options;
    syn__et_names names;
} set;

static syn_status finish_file(syn_sink *sink, syn_status status, syn_error *err) {
    const syn_status closed = syn_sink_close(sink, status == SYN_OK, err);
    return status != SYN_OK ? status : closed;
}

static syn_status write_set_rank(set *s, uint32_t rank, syn_error *err) {
    syn_sink *sink;
    SYN_TRY(syn_sink_open_file(
        &sink, syn__et_rank_path(&s->names, (uint32_t)s->graph->ranks[rank].rank), err));
    return finish_file(sink, write_rank(s->graph, rank, s->options, sink, err), err);
}

static syn_status write_set(set *s, syn_error *err) {
    const int32_t *only = s->options != NULL ? s->options->rank : NULL;
    uint32_t rank = 0;
    SYN_TRY(find_rank(s->graph, only, &rank, err));
    if (only != NULL) {
        SYN_TRY(syn__et_check_rank(s->graph, rank, err));
    } else {
        for (rank = 0; rank < s->graph->n_ranks; rank++)
            SYN_TRY(syn__et_check_rank(s->graph, rank, err));
        SYN_TRY(syn__et_check_calls(s->graph, err));
    }
    SYN_TRY(syn__et_remove_old_set(&s->names, (uint32_t)s->graph->world_size, err));
    if (only != NULL) {
        SYN_TRY(write_set_rank(s, rank, err));
    } else {
        for (rank = 0; rank < s->graph->n_ranks; rank++) SYN_TRY(write_set_rank(s, rank, err));
    }
    syn_sink *sink;
    SYN_TRY(syn_sink_open_file(&sink, syn__et_group_path(&s->names), err));
    return finish_file(
        sink, syn_export_comm_group(s->graph, syn__et_node_ranks(s->graph), sink, err), err);
}

syn_status syn_export_et_set(const syn_graph *graph, const syn_export_options *options,
                             const char *prefix, syn_error *err) {
    set s = {.graph = graph, .options = options};
    SYN_TRY(syn__et_supported(err));
    SYN_TRY(syn__et_names_open(&s.names, prefix, err));
    const syn_status status = write_set(&s, err);
    syn__et_names_close(&s.names);
    return status;
}
