/* A rank of a graph as the messages of its execution trace, one by one. */
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
    syn__arena arena;
    syn__et_attr *attrs;
    size_t n_attrs, attrs_cap;
    uint64_t *ids[2], *node_ids; /* verbatim: ctrl, data of a node; ids of all */
    size_t ids_cap[2];
    syn_cursor tensors;
    uint32_t *owners; /* tensors of the node at hand */
    size_t owners_cap;
    syn__buf list; /* the attribute at hand */
} syn__et_walk;

/* Begins with the rank of that index. version: recorded as attribute "program"; NULL none. */
syn_status syn__et_walk_open(syn__et_walk *walk, const syn_graph *graph, uint32_t rank,
                             const char *version, syn_error *err);
/* First the metadata, then each node; *out is NULL at the end. Records hold until the next call. */
syn_status syn__et_walk_meta(syn__et_walk *walk, syn__et_meta *out, syn_error *err);
syn_status syn__et_walk_node(syn__et_walk *walk, syn__et_node *out, bool *more, syn_error *err);
void syn__et_walk_close(syn__et_walk *walk);

/* Adds one attribute to those of the message at hand. */
syn_status syn__et_walk_add(syn__et_walk *walk, const syn__et_attr *attr, syn_error *err);

/* How long a node itself takes: measured, else predicted. A communication's is without what it
   waited for others, which simulators work out themselves; SYN_NO_TIME
   if unknown (et_describe.c). */
double syn__et_duration_ns(const syn_node *node);
/* Fills a node's name and times. */
syn_status syn__et_describe_frame(syn__et_walk *walk, const syn_node *node, syn__et_node *out,
                                  syn_error *err);
/* Adds what the node reads and writes (et_tensors.c). */
syn_status syn__et_describe_tensors(syn__et_walk *walk, const syn_node *node, syn_error *err);
/* Fills a planned node's name, times, type and attributes. */
syn_status syn__et_describe(syn__et_walk *walk, const syn_node *node, syn__et_node *out,
                            syn_error *err);

#ifdef __cplusplus
}
#endif
#endif
