/* Exports the execution traces of all ranks in protobuf's JSON mapping:
   {"ranks":[{"rank":0,"metadata":{...},"nodes":[...]}]}, one node per line. A rank with the same
   nodes as an earlier rank (copies.h) has "nodes_of", the number of that rank, instead of "nodes".
   The document has the same content as the .et files, so it can be converted to them byte for
   byte. */
#include "export/chakra/et_walk.h"
#include "export/export.h"
#include "export/walk/copies.h"

static syn_status write_nodes(syn__et_walk *walk, int32_t rank, const int32_t *nodes_of,
                              syn_sink *sink, syn_error *err) {
    syn__et_meta meta;
    syn__et_node node;
    bool more;
    SYN_TRY(syn__et_walk_meta(walk, &meta, err));
    syn_sink_text(sink, "{\"rank\":");
    syn_sink_i64(sink, rank);
    syn_sink_text(sink, ",\"metadata\":");
    syn__et_json_meta(sink, &meta);
    if (nodes_of != NULL) {
        syn_sink_text(sink, ",\"nodes_of\":");
        syn_sink_i64(sink, *nodes_of);
        syn_sink_char(sink, '}');
        return SYN_OK;
    }
    syn_sink_text(sink, ",\"nodes\":[");
    for (bool first = true;; first = false) {
        SYN_TRY(syn__et_walk_node(walk, &node, &more, err));
        if (!more || syn_sink_status(sink) != SYN_OK) break;
        syn_sink_text(sink, first ? "\n" : ",\n");
        syn__et_json_node(sink, &node);
    }
    syn_sink_text(sink, "]}");
    return SYN_OK;
}

/* The number of the rank whose nodes represent those of `rank`; NULL if its own nodes are written.
   In a verbatim graph, an identical rank with different attributes needs its own messages. */
static const int32_t *nodes_of(const syn_graph *graph, const syn_copied_ranks *copies,
                               uint32_t rank) {
    if (!syn__is_copy(copies, rank)) return NULL;
    if (copies->n_changed[rank] > 0 && syn__et_is_verbatim(graph)) return NULL;
    return &graph->ranks[copies->of[rank]].rank;
}

static syn_status write_rank(const syn_graph *graph, uint32_t rank, const syn_copied_ranks *copies,
                             const syn_export_options *options, syn_sink *sink, syn_error *err) {
    syn__et_walk walk;
    SYN_TRY(syn__et_walk_open(&walk, graph, rank, options != NULL ? options->version : NULL, err));
    const syn_status status =
        write_nodes(&walk, graph->ranks[rank].rank, nodes_of(graph, copies, rank), sink, err);
    syn__et_walk_close(&walk);
    return status;
}

static syn_status write_ranks(const syn_graph *graph, const syn_copied_ranks *copies,
                              const syn_export_options *options, syn_sink *sink, syn_error *err) {
    const int32_t *only = options != NULL ? options->rank : NULL;
    bool first = true;
    syn_sink_text(sink, "{\"ranks\":[");
    for (uint32_t i = 0; i < graph->n_ranks; i++) {
        if (only != NULL && graph->ranks[i].rank != *only) continue;
        syn_sink_text(sink, first ? "\n" : ",\n");
        SYN_TRY(write_rank(graph, i, copies, options, sink, err));
        first = false;
    }
    if (only != NULL && first)
        return SYN_FAIL(err, SYN_E_INVALID, "the graph has no rank %d", (int)*only);
    syn_sink_text(sink, "]}\n");
    return SYN_OK;
}

static syn_status write_all(const syn_graph *graph, const syn_export_options *options,
                            syn_sink *sink, syn_error *err) {
    syn_copied_ranks copies;
    SYN_TRY(syn__copies_find(&copies, graph, options, err));
    const syn_status status = write_ranks(graph, &copies, options, sink, err);
    syn__copies_free(&copies);
    return status;
}

const syn_exporter syn_export_chakra = {"chakra", "chakra.json", write_all};
