/* Index of one execution trace: the positions of its messages, all of which are checked, and an
   order in which each node comes after its dependencies. */
#ifndef EXPORT_ET_INDEX_H
#define EXPORT_ET_INDEX_H

#include "export/chakra/wire/et_node.h"
#include "syntorch/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__et_span {
    uint64_t id;
    const char *data;
    size_t bytes;
    size_t first_dep;  /* index into syn__et_index.deps */
    uint32_t position; /* position in the graph's order */
} syn__et_span;

typedef struct syn__et_index {
    const char *name, *begin;
    bool is_file;
    syn__str meta;
    syn__et_span *spans; /* nodes in file order */
    size_t n_spans, spans_cap;
    syn_dep *deps; /* node: index into spans */
    size_t n_deps, deps_cap;
    uint32_t *order; /* order[i]: the span at position i */
    bool lax; /* drop ctrl_deps on missing nodes; Chakra's converter for PyTorch traces can write
                 such ctrl_deps */
    uint64_t n_dropped;
    bool has_start; /* at least one node has a start time */
} syn__et_index;

/* Splits the file into messages, checks each one, finds all dependencies and orders the nodes. Call
   syn__et_index_close even after a failure. */
syn_status syn__et_index_open(syn__et_index *index, syn__et_decoder *decoder, const char *name,
                              const char *data, size_t bytes, bool is_file, syn_error *err);
void syn__et_index_close(syn__et_index *index);
/* Reads only the metadata's attribute "rank"; -1 if there is none. */
int32_t syn__et_peek_rank(const char *data, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
