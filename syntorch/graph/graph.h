/* syn_graph: the common form of traces, which all exporters read. A graph is a read-only set of
   ranks. Each rank has a list of typed nodes, in which a node comes after the nodes that it depends
   on, and a list of the tensors between the nodes. Graphs are created from traces (as views,
   without copying), by file readers, and as unions of several graphs.

   Nodes are read one at a time: syn_graph_node fills in a record whose pointers stay valid until
   the next call with the same cursor, or until the graph is freed. Several cursors may read one
   graph at the same time. */
#ifndef SYNTORCH_GRAPH_H
#define SYNTORCH_GRAPH_H

#include "syntorch/base/types.h"
#include "syntorch/graph/work.h"

SYN_API_BEGIN

#define SYN_NODE_KIND_LIST(X)   \
    X(COMPUTE, "compute")       \
    X(COLLECTIVE, "collective") \
    X(SEND, "send")             \
    X(RECV, "recv")             \
    X(MEMORY, "memory")         \
    X(METADATA, "metadata")

typedef enum syn_node_kind {
#define SYN_X(id, name) SYN_NODE_##id,
    SYN_NODE_KIND_LIST(SYN_X)
#undef SYN_X
        SYN_NODE_KIND_COUNT
} syn_node_kind;

const char *syn_node_kind_name(syn_node_kind kind);

/* Why a node waits for another node. DATA: it reads an output of the other node; these dependencies
   are listed even if the graph has tensors that imply them. INPLACE: it overwrites a storage that
   the other node uses. The other classes come from .et files. */
#define SYN_DEP_LIST(X)   \
    X(DATA, "data")       \
    X(CONTROL, "control") \
    X(INPLACE, "inplace") \
    X(STREAM, "stream")   \
    X(LAUNCH, "launch")   \
    X(SYNC, "sync")       \
    X(GROUP, "group")

typedef enum syn_dep_class {
#define SYN_X(id, name) SYN_DEP_##id,
    SYN_DEP_LIST(SYN_X)
#undef SYN_X
        SYN_DEP_COUNT
} syn_dep_class;

const char *syn_dep_class_name(syn_dep_class c);

typedef struct syn_dep {
    uint32_t node; /* index of the earlier node within the rank */
    uint32_t dep_class;
} syn_dep;

/* The kind of work of an op. It determines shapes, icons and colours in pictures, and sums are
   reported by category. */
#define SYN_CATEGORY_LIST(X)          \
    X(OTHER, "other")                 \
    X(MATMUL, "matmul")               \
    X(ATTENTION, "attention")         \
    X(NORM, "norm")                   \
    X(ELEMENTWISE, "elementwise")     \
    X(REDUCTION, "reduction")         \
    X(EMBEDDING, "embedding")         \
    X(DATA_MOVEMENT, "data movement") \
    X(VIEW, "view")                   \
    X(RANDOM, "random")               \
    X(COMMUNICATION, "communication")

typedef enum syn_category {
#define SYN_X(id, name) SYN_CATEGORY_##id,
    SYN_CATEGORY_LIST(SYN_X)
#undef SYN_X
        SYN_CATEGORY_COUNT
} syn_category;

const char *syn_category_name(syn_category c);

/* Flags of a node. */
#define SYN_NODE_VIRTUAL          1u /* no work, no data (views, identities); not in .et files */
#define SYN_NODE_FUSED            2u /* one kernel for the work of several ops */
#define SYN_NODE_BLOCKING         8u /* communication for which computation of its rank waits */
#define SYN_NODE_SECONDARY_LOOKUP 4u /* lookup: in activations, or not the first of its batch */

/* Flags of a tensor. A tensor with none of PARAM, INPUT, STATE is the output of a node. */
#define SYN_TENSOR_PARAM   1u  /* a weight or bias */
#define SYN_TENSOR_INPUT   2u  /* given by the user */
#define SYN_TENSOR_STATE   4u  /* lives across steps, such as a KV cache */
#define SYN_TENSOR_VIEW    8u  /* shares the storage of `base` */
#define SYN_TENSOR_PARTIAL 16u /* a partial sum, which an all-reduce will complete */

/* A named attribute. `type` says which value member is set. */
typedef enum syn_value_type {
    SYN_VALUE_I64,
    SYN_VALUE_F64,
    SYN_VALUE_BOOL,
    SYN_VALUE_TEXT
} syn_value_type;
typedef struct syn_attribute {
    const char *name;
    syn_value_type type;
    int64_t i64; /* BOOL: 0 or 1 */
    double f64;
    const char *text;
} syn_attribute;

#define SYN_NO_TIME   (-1.0)
#define SYN_NO_TENSOR UINT32_MAX
#define SYN_NO_NODE   UINT32_MAX

/* The sizes that determine the time of a matrix product or of fused attention, in addition to flops
   and bytes. Product: `batch` products [rows, inner] * [inner, columns]. Attention: batch =
   sequences * heads, rows = queries, columns = keys, inner = head_dim. Attention of sequences of
   different lengths (paged_attention): batch = heads, rows = the most queries of a sequence, inner
   = head_dim, columns = the keys that all tiles of up to 64 queries read: the sum over the
   sequences of ceil(queries / 64) times the mean number of keys that the sequence's queries attend
   to, rounded up. Convolution, as a product: batch = groups, rows = output positions of all images,
   columns = output channels of a group, inner = input channels of a group * elements of the kernel.
   All 0: the sizes are unknown, or it is another op. */
typedef struct syn_extents {
    int64_t batch, rows, columns, inner;
    /* paged_attention only: number of sequences, and keys of the longest sequence */
    int64_t sequences, longest;
} syn_extents;

/* The streams of a rank's messages: two for each peer. */
static inline int32_t syn_message_stream(int32_t other_rank, bool is_send) {
    return 256 + 2 * other_rank + (is_send ? 0 : 1);
}

typedef struct syn_node {
    uint64_t id; /* unique within the rank; the ids of a trace count from 1 */
    syn_node_kind kind;
    syn_category category;
    uint32_t flags;
    syn_phase phase;
    uint32_t step; /* 0: prefill or the only step; 1, 2, ...: decode or training steps */
    /* 0: compute; 1 and higher: communication. Nodes with equal numbers are in the same stream.
       Messages are in the same stream only if their kind and peer are equal, too. */
    int32_t stream;
    const char *op;    /* "linear"; never NULL */
    const char *label; /* the model's name for it, such as "qkv"; otherwise the op's name */
    const char *scope; /* "h.3.attn"; "" at top level */
    const uint32_t *inputs, *outputs; /* tensor indices within the rank; an index may occur more
                                         than once */
    uint32_t n_inputs, n_outputs;
    const syn_dep *deps; /* dependencies of all classes, ascending by node, without duplicates */
    uint32_t n_deps;
    const syn_attribute *attributes; /* the op's own attributes (axis, scale, ...) */
    uint32_t n_attributes;
    /* Cost. A multiplication and an addition count as one flop each. Bytes are counted as if
       nothing were cached. */
    uint64_t flops, bytes_read, bytes_written;
    syn_dtype dtype; /* dtype of the computation; f32 if unknown */
    syn_extents extents;
    /* Communication (kind COLLECTIVE, SEND, RECV only) */
    syn_comm_kind comm;
    int32_t reduce; /* syn_reduce; -1: none */
    uint32_t group; /* id of a syn_graph_group; 0: none */
    /* Bytes of this rank's input (for all-gather, its shard); for send and recv, bytes of the
       message. The ranks of an all-to-all may send different numbers of bytes. All of them then
       have the same value: the most that one rank sends or receives, because ASTRA-sim hangs if the
       sizes differ. */
    uint64_t comm_bytes;
    /* Number of earlier collectives of the same group on this rank; for a message, the number of
       earlier messages on this rank, whatever their peer. */
    uint32_t comm_index;
    int32_t peer, tag; /* send: destination, recv: source; global ranks */
    int32_t root;      /* global rank of a rooted collective; -1: none */
    /* Measured times in ns; SYN_NO_TIME if unknown. start_ns counts from the start of the run.
       wait_ns is the part of wall_ns that was spent waiting for other ranks. */
    double start_ns, wall_ns, cpu_ns, wait_ns;
    double predicted_ns; /* predicted time in ns (hardware.h) */
} syn_node;

/* Initializes the members whose "unknown" is not 0: (syn_node){SYN_NODE_UNKNOWN, .op = "add"}. */
#define SYN_NODE_UNKNOWN                                                                   \
    .reduce = -1, .peer = -1, .root = -1, .start_ns = SYN_NO_TIME, .wall_ns = SYN_NO_TIME, \
    .cpu_ns = SYN_NO_TIME, .wait_ns = SYN_NO_TIME, .predicted_ns = SYN_NO_TIME

/* The wait time of a collective or message, limited to 0 .. wall_ns; 0 for other nodes. */
double syn_node_wait_ns(const syn_node *node);
/* The measured time of a node without its wait time; SYN_NO_TIME if it was not measured. Exporters
   show this time for collectives and messages, and the wait time next to it. */
double syn_node_busy_ns(const syn_node *node);

typedef struct syn_graph_tensor {
    const char *name; /* parameter: its HuggingFace name; activation: "h.3.attn/qkv:0" */
    syn_spec spec;
    uint32_t flags;
    uint32_t producer; /* node index; SYN_NO_NODE: none */
    uint32_t base; /* index of the tensor whose storage this tensor shares; its own index if it owns
                      its storage */
    syn_shard shard; /* count 0: no shard, or not known to be a shard */
} syn_graph_tensor;

typedef struct syn_graph_group {
    uint32_t id;          /* >= 1 */
    const char *name;     /* "tp0" */
    const int32_t *ranks; /* global ranks in ring order */
    uint32_t n_ranks;
} syn_graph_group;

typedef struct syn_cursor {
    syn_node node;
    syn_graph_tensor tensor;
    /* Private buffers: */
    syn_dep *deps;
    size_t deps_cap;
    syn_attribute attributes[SYN_MAX_ATTRS];
    uint32_t *ids; /* inputs, then outputs */
    size_t ids_cap;
    struct syn_operand *operands;
    size_t operands_cap;
    char name[SYN_MAX_NAME];
    char *text; /* list attributes as text */
    size_t text_cap;
    syn_error error; /* why a call returned NULL */
} syn_cursor;

typedef struct syn_graph syn_graph;

/* The functions that a producer of graphs implements. `rank` is an index, 0 .. n_ranks - 1. node
   and tensor return NULL only if memory is out (cursor->error). */
typedef struct syn_graph_source {
    const syn_node *(*node)(const syn_graph *graph, uint32_t rank, uint32_t node,
                            syn_cursor *cursor);
    const syn_graph_tensor *(*tensor)(const syn_graph *graph, uint32_t rank, uint32_t tensor,
                                      syn_cursor *cursor);
    void (*free)(syn_graph *graph);
} syn_graph_source;

typedef struct syn_graph_rank {
    int32_t rank; /* global rank */
    uint32_t n_nodes, n_tensors;
    const syn_work *work; /* device work by node id; NULL: not recorded. Owned by the producer of
                             the graph */
    void *self;           /* owned by the producer */
} syn_graph_rank;

struct syn_graph {
    const syn_graph_source *source;
    syn_graph_rank *ranks;
    uint32_t n_ranks; /* ranks in the graph; may be fewer than world_size */
    int32_t world_size;
    syn_graph_group *groups;
    uint32_t n_groups;
    /* Properties of the run, in the order in which they are shown: model, tp, dtype, batch, ...
       Titles and JSON show them. If the entry "multiprocessors" exists, times are predicted for a
       GPU. */
    syn_attribute *metadata;
    uint32_t n_metadata;
    size_t metadata_cap;
    void *self; /* owned by the producer */
};

/* Read a node or tensor by its index within a rank. `rank` is the index of the rank. They return
   NULL only if memory is out (cursor->error). */
const syn_node *syn_graph_node(const syn_graph *graph, uint32_t rank, uint32_t node,
                               syn_cursor *cursor);
const syn_graph_tensor *syn_graph_tensor_at(const syn_graph *graph, uint32_t rank, uint32_t tensor,
                                            syn_cursor *cursor);
/* The group with this id; NULL if there is none. */
const syn_graph_group *syn_graph_group_by_id(const syn_graph *graph, uint32_t id);
/* The metadata entry `name`; NULL if there is none. */
const syn_attribute *syn_graph_meta(const syn_graph *graph, const char *name);
/* Writes an attribute's value as text ("64", "0.125", "true", or the text itself) to buf; returns
   buf. */
const char *syn_attribute_text(const syn_attribute *a, char *buf, size_t buf_bytes);
void syn_cursor_free(syn_cursor *cursor);
void syn_graph_free(syn_graph *graph); /* NULL is allowed */

/* Checks what all consumers rely on: dependencies are earlier nodes, tensor indices are in range, a
   tensor's producer lists it as an output, groups exist, and no node reads an overwritten tensor.
   The error names the first violation. */
syn_status syn_graph_verify(const syn_graph *graph, syn_error *err) SYN_MUST_USE;

/* Joins several graphs. The union has the ranks of all graphs, their groups (groups with the same
   id become one), and the metadata of the first graph. On success the union owns the graphs. */
syn_status syn_graph_union(syn_graph **out, syn_graph *const *graphs, uint32_t n_graphs,
                           syn_error *err) SYN_MUST_USE;
/* Copies a graph. The copy owns its rows and does not refer to `graph`. */
syn_status syn_graph_copy(syn_graph **out, const syn_graph *graph, syn_error *err) SYN_MUST_USE;
/* Sets a metadata entry, which is copied. An entry that is set again keeps its position and gets
   the new value. */
syn_status syn_graph_set_meta(syn_graph *graph, const syn_attribute *entry,
                              syn_error *err) SYN_MUST_USE;
/* For producers: frees the metadata. */
void syn_graph_free_meta(syn_graph *graph);

/* The device work of a node; NULL if none was recorded. */
const syn_node_work *syn_graph_work(const syn_graph *graph, uint32_t rank, const syn_node *node);

/* ---- A graph that owns its rows, for readers and converters ---- */

/* Creates an empty graph of n_ranks ranks, whose global ranks are in `ranks`. */
syn_status syn_graph_new(syn_graph **out, const int32_t *ranks, uint32_t n_ranks,
                         int32_t world_size, syn_error *err) SYN_MUST_USE;
/* Each call copies its argument, including strings. Nodes and tensors get ascending indices. A
   tensor may name a producer that is added later. */
syn_status syn_graph_add_node(syn_graph *graph, uint32_t rank, const syn_node *node,
                              syn_error *err) SYN_MUST_USE;
syn_status syn_graph_add_tensor(syn_graph *graph, uint32_t rank, const syn_graph_tensor *tensor,
                                syn_error *err) SYN_MUST_USE;
/* Takes over the contents of *work and empties it. */
syn_status syn_graph_set_work(syn_graph *graph, uint32_t rank, syn_work *work,
                              syn_error *err) SYN_MUST_USE;
syn_status syn_graph_add_group(syn_graph *graph, const syn_graph_group *group,
                               syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
