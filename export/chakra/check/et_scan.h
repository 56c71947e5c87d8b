/* The nodes of one execution trace as arrays, damage and all: for checks and statistics, which must
   say what is wrong with a file that the readers refuse. Nodes are numbered in file order. */
#ifndef EXPORT_ET_SCAN_H
#define EXPORT_ET_SCAN_H

#include "export/chakra/wire/et_node.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__ET_NO_OFFSET UINT64_MAX

typedef enum syn__et_trouble {
    SYN__ET_TROUBLE_FRAME,    /* the rest of the file cannot be split into messages */
    SYN__ET_TROUBLE_META,     /* no metadata message */
    SYN__ET_TROUBLE_EMPTY,    /* a message of no bytes */
    SYN__ET_TROUBLE_MESSAGE,  /* a message that is not protobuf; it is passed over */
    SYN__ET_TROUBLE_TEXT,     /* likewise, for its text is not UTF-8 */
    SYN__ET_TROUBLE_ID,       /* a node with the id of an earlier one */
    SYN__ET_TROUBLE_DANGLING, /* `id` is a dependency that is not in the file */
    SYN__ET_TROUBLE_SELF      /* a node that waits for itself */
} syn__et_trouble;

/* What a scan reports, in file order, troubles with dependencies after all nodes. Any may be NULL;
   a failure ends the scan. */
typedef struct syn__et_listener {
    void *user;
    syn_status (*meta)(void *user, const syn__et_meta *meta, syn_error *err);
    syn_status (*node)(void *user, uint32_t index, uint64_t offset, const syn__et_node *node,
                       syn_error *err);
    /* node: its index, or UINT32_MAX; why: part of a sentence, or NULL. */
    void (*trouble)(void *user, syn__et_trouble what, uint32_t node, uint64_t offset, uint64_t id,
                    const char *why);
} syn__et_listener;

typedef struct syn__et_scan {
    uint32_t n_nodes;
    uint64_t *ids, *offsets; /* of the message's first byte */
    uint32_t *first_dep;     /* n_nodes + 1, into deps; dangling and self-dependencies left out */
    uint32_t *deps;          /* ctrl_deps, then data_deps, each node once */
    uint32_t *id_order;      /* NULL: the ids ascend; else nodes by (id, index) */
    size_t nodes_cap, offsets_cap, first_cap;
} syn__et_scan;

/* SYN_OK also for damaged files. */
syn_status syn__et_scan_open(syn__et_scan *scan, const char *data, size_t bytes,
                             const syn__et_listener *listener, syn_error *err) SYN_MUST_USE;
void syn__et_scan_close(syn__et_scan *scan);
/* The node that stands at that place when nodes are sorted by id. */
static inline uint32_t syn__et_scan_by_id(const syn__et_scan *scan, uint32_t place) {
    return scan->id_order == NULL ? place : scan->id_order[place];
}

/* The same dependencies from the other end, and an order in which every node comes after what it
   waits for. */
typedef struct syn__et_dag {
    uint32_t *first_child; /* n_nodes + 1, into children */
    uint32_t *children;    /* in file order */
    uint32_t *order;       /* n_ordered nodes: breadth first from the roots */
    uint32_t n_ordered;    /* less than n_nodes: the others wait for a cycle */
    uint32_t n_roots, widest_ready;
} syn__et_dag;

syn_status syn__et_dag_open(syn__et_dag *dag, const syn__et_scan *scan,
                            syn_error *err) SYN_MUST_USE;
void syn__et_dag_close(syn__et_dag *dag);
/* One cycle: each of the *n nodes waits for the next, the last for the first. The caller frees
 *out. Only if n_ordered < n_nodes. */
syn_status syn__et_dag_cycle(const syn__et_dag *dag, const syn__et_scan *scan, uint32_t **out,
                             uint32_t *n, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
