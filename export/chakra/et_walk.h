/* Produces the messages of one rank's execution trace from a graph, one at a time. */
#ifndef EXPORT_ET_WALK_H
#define EXPORT_ET_WALK_H

#include "export/chakra/et_plan.h"
#include "export/chakra/wire/et_node.h"
#include "export/text/arena.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__et_walk {
    const syn_graph *graph;
    uint32_t rank, next;
    bool verbatim;
    const char *version;
    syn_cursor cursor;
    syn__et_plan plan;
    uint32_t *order; /* the nodes in the order of the trace; NULL: program order */
    syn__arena arena;
    syn__et_attr *attrs;
    size_t n_attrs, attrs_cap;
    uint64_t *ids[2], *node_ids; /* verbatim graphs: ctrl and data dependencies of the current node;
                                    ids of all nodes */
    size_t ids_cap[2];
    syn_cursor tensors;
    uint32_t *owners; /* tensors of the current node */
    size_t owners_cap;
    syn__buf list; /* buffer for the current attribute */
} syn__et_walk;

/* Starts the walk of the rank with index `rank`. version: the program version, which is recorded as
   attribute "program"; may be NULL. */
syn_status syn__et_walk_open(syn__et_walk *walk, const syn_graph *graph, uint32_t rank,
                             const char *version, syn_error *err);
/* Call syn__et_walk_meta first, and then syn__et_walk_node until *more is false. The records are
   valid until the next call. */
syn_status syn__et_walk_meta(syn__et_walk *walk, syn__et_meta *out, syn_error *err);
syn_status syn__et_walk_node(syn__et_walk *walk, syn__et_node *out, bool *more, syn_error *err);
void syn__et_walk_close(syn__et_walk *walk);

/* Adds an attribute to the current message. */
syn_status syn__et_walk_add(syn__et_walk *walk, const syn__et_attr *attr, syn_error *err);

/* Returns the node's own duration in ns: the measured one if available, otherwise the predicted
   one. For communication it excludes the time spent waiting for other ranks, which simulators
   compute themselves. SYN_NO_TIME if unknown. In et_describe.c. */
double syn__et_duration_ns(const syn_node *node);
/* Fills a node's name and times. */
syn_status syn__et_describe_frame(syn__et_walk *walk, const syn_node *node, syn__et_node *out,
                                  syn_error *err);
/* Adds the tensors that the node reads and writes (et_tensors.c). */
syn_status syn__et_describe_tensors(syn__et_walk *walk, const syn_node *node, syn_error *err);
/* Fills a planned node's name, times, type and attributes. */
syn_status syn__et_describe(syn__et_walk *walk, const syn_node *node, syn__et_node *out,
                            syn_error *err);

#ifdef __cplusplus
}
#endif
#endif
