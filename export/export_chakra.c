/* All ranks' execution traces in protobuf's JSON mapping:
   {"ranks":[{"rank":0,"metadata":{...},"nodes":[...]}]}, one node a line. Holds what the .et files
   hold, so that it converts back to their bytes. */
#include "export/et_graph.h"

static syn_status write_nodes(syn__et_walk *walk, int32_t rank, syn_sink *sink, syn_error *err) {
    syn__et_meta meta;
    syn__et_node node;
    bool more;
    SYN_TRY(syn__et_walk_meta(walk, &meta, err));
    syn_sink_text(sink, "{\"rank\":");
    syn_sink_i64(sink, rank);
    syn_sink_text(sink, ",\"metadata\":");
    syn__et_json_meta(sink, &meta);
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

static syn_status write_rank(const syn_graph *graph, uint32_t rank,
                             const syn_export_options *options, syn_sink *sink, syn_error *err) {
    syn__et_walk walk;
    SYN_TRY(syn__et_walk_open(&walk, graph, rank, options != NULL ? options->version : NULL, err));
    const syn_status status = write_nodes(&walk, graph->ranks[rank].rank, sink, err);
    syn__et_walk_close(&walk);
    return status;
}

static syn_status write_all(const syn_graph *graph, const syn_export_options *options,
                            syn_sink *sink, syn_error *err) {
    const int32_t only = options != NULL ? options->rank : -1;
    bool first = true;
    syn_sink_text(sink, "{\"ranks\":[");
    for (uint32_t i = 0; i < graph->n_ranks; i++) {
        if (only >= 0 && graph->ranks[i].rank != only) continue;
        syn_sink_text(sink, first ? "\n" : ",\n");
        SYN_TRY(write_rank(graph, i, options, sink, err));
        first = false;
    }
    if (only >= 0 && first)
        return SYN_FAIL(err, SYN_E_INVALID, "the graph has no rank %d", (int)only);
    syn_sink_text(sink, "]}\n");
    return SYN_OK;
}

const syn_exporter syn_export_chakra = {
    "chakra", "chakra.json", "Chakra nodes of all ranks in protobuf's JSON form", write_all};
