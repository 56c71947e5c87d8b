/* Reads the nodes of one execution trace into arrays, and continues after damaged parts. Checks and
   statistics use it, because they must also describe files that the readers reject. Nodes are
   numbered in file order. */
#ifndef EXPORT_ET_SCAN_H
#define EXPORT_ET_SCAN_H

#include "export/chakra/wire/et_node.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__ET_NO_OFFSET UINT64_MAX

typedef enum syn__et_fault {
    SYN__ET_FAULT_FRAME,    /* the rest of the file cannot be split into messages */
    SYN__ET_FAULT_META,     /* no metadata message */
    SYN__ET_FAULT_EMPTY,    /* an empty message */
    SYN__ET_FAULT_MESSAGE,  /* a message that is not valid protobuf; it is skipped */
    SYN__ET_FAULT_TEXT,     /* a message with text that is not UTF-8; it is skipped */
    SYN__ET_FAULT_ID,       /* a node with the id of an earlier node */
    SYN__ET_FAULT_DANGLING, /* `id` is a dependency that is not in the file */
    SYN__ET_FAULT_SELF      /* a node that depends on itself */
} syn__et_fault;

/* Callbacks of a scan, each of which may be NULL. They are called in file order, but problems with
   dependencies are reported after all nodes. If a callback fails, the scan ends. */
typedef struct syn__et_listener {
    void *user;
    syn_status (*meta)(void *user, const syn__et_meta *meta, syn_error *err);
    syn_status (*node)(void *user, uint32_t index, uint64_t offset, const syn__et_node *node,
                       syn_error *err);
    /* node: index of the node, or UINT32_MAX if no node is concerned. id: the id that the fault is
       about. why: the reason as part of a sentence, or NULL. */
    void (*fault)(void *user, syn__et_fault what, uint32_t node, uint64_t offset, uint64_t id,
                  const char *why);
} syn__et_listener;

typedef struct syn__et_scan {
    uint32_t n_nodes;
    uint64_t *ids, *offsets; /* per node: its id, and the byte offset of its message in the file */
    uint32_t *first_dep;     /* per node: its first entry in deps; one more element for the end */
    uint32_t *deps;          /* per node the indices of its ctrl_deps, then of its data_deps;
                                dangling dependencies, self-dependencies and most duplicates are
                                omitted */
    uint32_t *id_order;      /* node indices sorted by id, then index; NULL: the ids ascend */
    size_t nodes_cap, offsets_cap, first_cap;
} syn__et_scan;

/* Succeeds for damaged files, too. */
syn_status syn__et_scan_open(syn__et_scan *scan, const char *data, size_t bytes,
                             const syn__et_listener *listener, syn_error *err) SYN_MUST_USE;
void syn__et_scan_close(syn__et_scan *scan);
/* The index of the node at position `place` of the nodes sorted by id. */
static inline uint32_t syn__et_scan_by_id(const syn__et_scan *scan, uint32_t place) {
    return scan->id_order == NULL ? place : scan->id_order[place];
}

/* The reversed dependencies, and a topological order. */
typedef struct syn__et_dag {
    uint32_t *first_child; /* per node: its first entry in children; one more element for the end */
    uint32_t *children;    /* indices of the nodes that depend on a node, in file order */
    uint32_t *order;       /* n_ordered node indices, breadth-first from the roots */
    uint32_t n_ordered;    /* less than n_nodes if there is a cycle: the other nodes are part of it
                              or depend on it */
    uint32_t n_roots, widest_ready; /* number of nodes without dependencies; largest number of
                                       nodes that are ready at the same time */
} syn__et_dag;

syn_status syn__et_dag_open(syn__et_dag *dag, const syn__et_scan *scan,
                            syn_error *err) SYN_MUST_USE;
void syn__et_dag_close(syn__et_dag *dag);
/* Finds one cycle: each of the *n nodes depends on the next, the last on the first. The caller
   frees *out. Requires n_ordered < n_nodes. */
syn_status syn__et_dag_cycle(const syn__et_dag *dag, const syn__et_scan *scan, uint32_t **out,
                             uint32_t *n, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
