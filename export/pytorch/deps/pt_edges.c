/* Adds dependencies; see pt_edges.h. */
#include "export/pytorch/deps/pt_edges.h"
#include "syntorch/base/memory.h"

syn_status syn__pt_add_edge(syn__pt_connector *c, uint32_t from, uint32_t to,
                            syn_pytorch_edge_class class_) {
    syn__pt_rank *r = c->rank;
    if (from == SYN__PT_NONE || to == SYN__PT_NONE || from == to) return SYN_OK;
    if (!syn__pt_wants(c, class_)) return SYN_OK;
    SYN_TRY(syn_grow(&r->edges, &r->edges_cap, r->n_edges + 1, sizeof *r->edges, c->err));
    const syn__pt_edge e = {from, to, class_};
    r->edges[r->n_edges++] = e;
    return SYN_OK;
}
