/* Device work: what the device did for each node of a rank. The host calls the node's kernel
   function, which queues pieces of work: device kernels, copies and fills. Between nodes, the host
   queues copies of inputs and results, and waits.
   Device work is shown in timelines. It is separate from the rows of a trace and not part of the
   trace's hash. Backends report it, and only on request (syn_ctx_record_work). Like the times of
   nodes, its times are in ns since the start of the run. */
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
    SYN_PIECE_WAIT, /* between nodes: the host waits for a stream */
    SYN_PIECE_KIND_COUNT
} syn_piece_kind;

/* One piece of work. */
typedef struct syn_piece {
    uint32_t kind;
    uint32_t name;              /* kernels: id of the name, see syn_work_name */
    uint32_t device, stream;    /* numbers of the device and of its stream; streams count from 1 */
    uint32_t grid[3], block[3]; /* kernels: blocks and threads per block; 0: unknown, such as in
                                   library kernels */
    uint64_t bytes;             /* kernels: dynamic shared memory per block; others: bytes moved */
    uint64_t call_ns, call_wall_ns; /* start and duration of the host call that queued it */
    uint64_t start_ns, wall_ns;     /* start and duration on the device */
} syn_piece;

/* The work of one node. */
typedef struct syn_node_work {
    uint32_t node;                  /* the node's number, which is its id in graphs */
    uint32_t n_pieces;              /* in the order in which they were queued */
    size_t first;                   /* index into syn_work.pieces */
    uint64_t call_ns, call_wall_ns; /* start and duration of the host's call of the kernel
                                       function */
} syn_node_work;

/* A piece of work that belongs to no node. */
typedef struct syn_unowned_piece {
    uint32_t after; /* number of the last node that was recorded before this piece was queued; 0:
                       none */
    syn_piece piece;
} syn_unowned_piece;

typedef struct syn_work {
    syn_node_work *nodes; /* ascending by number */
    size_t n_nodes, nodes_cap;
    syn_unowned_piece *unowned; /* in the order in which they were queued */
    size_t n_unowned, unowned_cap;
    syn_piece *pieces;
    size_t n_pieces, pieces_cap;
    syn_intern names;
} syn_work;

void syn_work_free(syn_work *work); /* frees the contents, not *work */
/* Adds the name of a kernel and returns its id for syn_piece.name. */
syn_status syn_work_put_name(syn_work *work, const char *name, uint32_t *id,
                             syn_error *err) SYN_MUST_USE;
/* The kernel name of a piece; "" if it has none. */
const char *syn_work_name(const syn_work *work, const syn_piece *piece);
/* Adds a copy of a node's work and its pieces, and sets `first` of the copy. Does nothing if the
   node already has work. */
syn_status syn_work_add(syn_work *work, const syn_node_work *node, const syn_piece *pieces,
                        syn_error *err) SYN_MUST_USE;
syn_status syn_work_add_unowned(syn_work *work, const syn_unowned_piece *piece,
                                syn_error *err) SYN_MUST_USE;
/* The work of a node; NULL if none was recorded. work may be NULL. */
const syn_node_work *syn_work_of(const syn_work *work, uint64_t node);
/* Drops the work of nodes with the number `node` or a higher number, and the pieces between nodes
   that follow one of these nodes. */
void syn_work_drop(syn_work *work, uint32_t node);
size_t syn_work_memory_bytes(const syn_work *work);

/* syn_work_pack converts device work to bytes, for another process on the same kind of machine;
   syn_work_unpack converts the bytes back. The size is a multiple of 8. The caller frees *out with
   syn_free. syn_work_unpack fails if the bytes are malformed. */
syn_status syn_work_pack(const syn_work *work, char **out, size_t *bytes,
                         syn_error *err) SYN_MUST_USE;
syn_status syn_work_unpack(syn_work *out, const char *data, size_t bytes,
                           syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
