/* Exports the execution traces of all ranks in protobuf's JSON mapping:
   {"ranks":[{"rank":0,"metadata":{...},"nodes":[...]}]}, one node per line. A rank with the same
   nodes as an earlier rank has "nodes_of", the number of that rank, instead of "nodes". The nodes
   must be the same byte for byte, as the reader only copies them. Of the identical ranks
   (copies.h), these are the ones with the same groups, peers and tags. The document has the same
   content as the .et files, so it can be converted to them byte for byte. */
#include "export/chakra/et_walk.h"
#include "export/export.h"
#include "export/walk/copies.h"
#include "syntorch/base/intern.h"
#include "syntorch/base/memory.h"

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

/* Fills owner[rank index] with the first rank that has the same nodes. In a verbatim graph, an
   identical rank with different attributes needs its own messages. */
static syn_status find_owners(const syn_graph *graph, const syn_copied_ranks *copies,
                              uint32_t *owner, syn_error *err) {
    const bool verbatim = syn__et_is_verbatim(graph);
    syn_intern table = {0};
    syn__buf key = {0};
    syn_status status = SYN_OK;
    uint32_t *first = syn_calloc(graph->n_ranks, sizeof *first);
    if (first == NULL) status = SYN_FAIL_NOMEM(err, graph->n_ranks * sizeof *first, "ranks");
    for (uint32_t r = 0; r < graph->n_ranks && status == SYN_OK; r++) {
        const size_t before = table.n_entries;
        uint32_t id;
        owner[r] = r;
        if (copies->n == 0 || (verbatim && copies->n_changed[r] > 0)) continue;
        const syn__renaming *names = &copies->renamings[r];
        key.bytes = 0;
        syn__buf_put(&key, &copies->of[r], sizeof copies->of[r]);
        for (size_t i = 0; i < syn__renaming_nodes(names); i++) {
            const int64_t name[3] = {names->at[i].kind, names->at[i].from, names->at[i].to};
            syn__buf_put(&key, name, sizeof name);
        }
        if (key.failed) status = SYN_FAIL_NOMEM(err, key.bytes, "the names of a rank");
        else status = syn_intern_put(&table, key.data, key.bytes, &id, err);
        if (status != SYN_OK) break;
        if (table.n_entries > before) first[id] = r;
        owner[r] = first[id];
    }
    syn_free(first);
    syn__buf_free(&key);
    syn_intern_free(&table);
    return status;
}

static syn_status write_rank(const syn_graph *graph, uint32_t rank, uint32_t owner,
                             const syn_export_options *options, syn_sink *sink, syn_error *err) {
    syn__et_walk walk;
    SYN_TRY(syn__et_walk_open(&walk, graph, rank, options != NULL ? options->version : NULL, err));
    const int32_t *nodes_of = owner != rank ? &graph->ranks[owner].rank : NULL;
    const syn_status status = write_nodes(&walk, graph->ranks[rank].rank, nodes_of, sink, err);
    syn__et_walk_close(&walk);
    return status;
}

static syn_status write_ranks(const syn_graph *graph, const uint32_t *owner,
                              const syn_export_options *options, syn_sink *sink, syn_error *err) {
    const int32_t *only = options != NULL ? options->rank : NULL;
    bool first = true;
    syn_sink_text(sink, "{\"ranks\":[");
    for (uint32_t i = 0; i < graph->n_ranks; i++) {
        if (only != NULL && graph->ranks[i].rank != *only) continue;
        syn_sink_text(sink, first ? "\n" : ",\n");
        SYN_TRY(write_rank(graph, i, owner[i], options, sink, err));
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
    uint32_t *owner = syn_calloc(graph->n_ranks, sizeof *owner);
    syn_status status = owner != NULL
                            ? find_owners(graph, &copies, owner, err)
                            : SYN_FAIL_NOMEM(err, graph->n_ranks * sizeof *owner, "ranks");
    if (status == SYN_OK) status = write_ranks(graph, owner, options, sink, err);
    syn_free(owner);
    syn__copies_free(&copies);
    return status;
}

const syn_exporter syn_export_chakra = {"chakra", "chakra.json", write_all};
