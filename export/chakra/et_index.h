/* The messages of one execution trace, checked, and an order in which dependencies come first. */
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
    size_t first_dep;  /* into syn__et_index.deps */
    uint32_t position; /* in the order of the graph */
} syn__et_span;

typedef struct syn__et_index {
    const char *name, *begin;
    bool is_file;
    syn__str meta;
    syn__et_span *spans; /* nodes in file order */
    size_t n_spans, spans_cap;
    syn_dep *deps; /* node: index into spans */
    size_t n_deps, deps_cap;
    uint32_t *order; /* span of each position */
    bool lax;        /* drops ctrl_deps on absent nodes, which PyTorch's converter leaves behind */
    uint64_t n_dropped;
    bool has_start; /* some node has a start time */
} syn__et_index;

/* Splits into messages, checks each, finds every dependency, orders. Close it in any case. */
syn_status syn__et_index_open(syn__et_index *index, syn__et_decoder *decoder, const char *name,
                              const char *data, size_t bytes, bool is_file, syn_error *err);
void syn__et_index_close(syn__et_index *index);
/* Only the metadata's attribute "rank"; -1 if there is none. */
int32_t syn__et_peek_rank(const char *data, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
