/* What a device did for a rank: annotations of a timeline, beside the rows of a trace and never in
   its hash. The host called a node's kernel, which asked the device for pieces of work: kernels,
   copies, fills. Between nodes it asked for copies of inputs and results, and waited. Kept only
   where somebody wants it (syn_ctx_keep_work); the core knows no device, backends tell. Times in ns
   since the run's start, as those of nodes. */
#ifndef SYNTORCH_WORK_H
#define SYNTORCH_WORK_H

#include "syntorch/base/intern.h"

SYN_API_BEGIN

typedef enum syn_piece_kind {
    SYN_PIECE_KERNEL,
    SYN_PIECE_COPY_IN,  /* from the host */
    SYN_PIECE_COPY_OUT, /* to the host */
    SYN_PIECE_COPY,     /* within the device */
    SYN_PIECE_FILL,
    SYN_PIECE_WAIT, /* between nodes: the host waits for a stream, meanwhile */
    SYN_PIECE_KIND_COUNT
} syn_piece_kind;

/* One piece of work of a device. */
typedef struct syn_piece {
    uint32_t kind;
    uint32_t name;                  /* of a kernel: syn_work_name */
    uint32_t device, stream;        /* the device's numbers; streams from 1 on */
    uint32_t grid[3], block[3];     /* of a kernel; 0: not known, as of a library's */
    uint64_t bytes;                 /* a kernel's dynamic shared memory for a block; else moved */
    uint64_t call_ns, call_wall_ns; /* the host's call that asked for it */
    uint64_t start_ns, wall_ns;     /* on the device */
} syn_piece;

/* What was done for one node. */
typedef struct syn_node_work {
    uint32_t node;                  /* its number, which is its id in graphs */
    uint32_t n_pieces;              /* in the order in which they were asked for */
    size_t first;                   /* into syn_work.pieces */
    uint64_t call_ns, call_wall_ns; /* the host's call of the node */
} syn_node_work;

/* What no node asked for. */
typedef struct syn_piece_between {
    uint32_t after; /* number of the newest node then; 0: none */
    syn_piece piece;
} syn_piece_between;

typedef struct syn_work {
    syn_node_work *nodes; /* ascending by number */
    size_t n_nodes, nodes_cap;
    syn_piece_between *between; /* in the order in which they were asked for */
    size_t n_between, between_cap;
    syn_piece *pieces;
    size_t n_pieces, pieces_cap;
    syn_intern names;
} syn_work;

void syn_work_free(syn_work *work); /* what is in it */
/* Number of a kernel's name, for a piece. */
syn_status syn_work_put_name(syn_work *work, const char *name, uint32_t *id,
                             syn_error *err) SYN_MUST_USE;
const char *syn_work_name(const syn_work *work, const syn_piece *piece);
/* Adds a node with its pieces; `first` is set here. A node that is there stays as it is. */
syn_status syn_work_add(syn_work *work, const syn_node_work *node, const syn_piece *pieces,
                        syn_error *err) SYN_MUST_USE;
syn_status syn_work_add_between(syn_work *work, const syn_piece_between *piece,
                                syn_error *err) SYN_MUST_USE;
/* NULL: nothing is known of the node. work: NULL is allowed. */
const syn_node_work *syn_work_of(const syn_work *work, uint64_t node);
/* Drops all nodes from that number on, and what came after one of them. */
void syn_work_drop(syn_work *work, uint32_t node);
size_t syn_work_memory_bytes(const syn_work *work);

/* All of it as bytes, a multiple of 8, for another process of the same kind of machine, and back;
   what is no such bytes is refused. */
syn_status syn_work_pack(const syn_work *work, char **out, size_t *bytes,
                         syn_error *err) SYN_MUST_USE;
syn_status syn_work_unpack(syn_work *out, const char *data, size_t bytes,
                           syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
