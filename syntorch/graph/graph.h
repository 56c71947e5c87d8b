/* syn_graph: what leaves or enters the program. A read-only set of ranks, each a list of typed
   nodes in an order in which every dependency comes earlier, and the tensors between them. Three
   producers: a trace (a view, nothing copied), the readers of files, a union of several graphs.
   Every exporter consumes it.

   Access is node by node: syn_graph_node fills a record whose pointers stay valid until the next
   call with the same cursor, or the graph's end. Any number of cursors may read one graph at the
   same time. */
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

/* Why a node waits for another. DATA dependencies are implied by a node's inputs when the graph has
   tensors, and are then listed here too. INPLACE: overwrites storage that the other
   node still reads. */
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

/* Coarse kind of work, for shapes, icons and colours of pictures and for sums. */
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
#define SYN_NODE_VIRTUAL 1u /* moves and computes nothing (views, identities), not in .et */
#define SYN_NODE_FUSED   2u /* one kernel for what could be several ops */
#define SYN_NODE_BESIDE  4u /* a lookup in activations, or beside one of its batch */

/* Flags of a tensor. A tensor with none of PARAM, INPUT, STATE is the output of a node. */
#define SYN_TENSOR_PARAM 1u  /* weight */
#define SYN_TENSOR_INPUT 2u  /* given from outside */
#define SYN_TENSOR_STATE 4u  /* kept between steps: KV cache */
#define SYN_TENSOR_VIEW  8u  /* shares the storage of `base` */
#define SYN_TENSOR_TERM  16u /* one of the terms, one a rank, that an all-reduce is to add */

/* A named attribute. Exactly one value member counts. */
typedef enum syn_value_type {
    SYN_VALUE_I64,
    SYN_VALUE_F64,
    SYN_VALUE_BOOL,
    SYN_VALUE_TEXT
} syn_value_type;
typedef struct syn_attribute {
    const char *name;
    syn_value_type type;
    int64_t i64; /* also BOOL, 0 or 1 */
    double f64;
    const char *text;
} syn_attribute;

#define SYN_NO_TIME   (-1.0)
#define SYN_NO_TENSOR UINT32_MAX
#define SYN_NO_NODE   UINT32_MAX

/* What decides the time of a product or of fused attention besides flops and bytes. Products:
   `batch` of [rows, inner] * [inner, columns]; attention: sequences * heads, queries, keys and the
   size of a head. All 0: unknown, or neither. */
typedef struct syn_extents {
    int64_t batch, rows, columns, inner;
} syn_extents;

typedef struct syn_node {
    uint64_t id; /* unique within the rank; traces count from 1 */
    syn_node_kind kind;
    syn_category category;
    uint32_t flags;
    syn_phase phase;
    uint32_t step;     /* 0 prefill or only step, then 1, 2, ...: decode or training steps */
    int32_t stream;    /* 0 compute; 1.. communication. Messages never share one with other ops,
                          nor with those of another kind or peer, even if the numbers are equal */
    const char *op;    /* "linear"; never NULL */
    const char *label; /* what the model calls it: "qkv"; the op's name if it has no other */
    const char *scope; /* "h.3.attn"; "" at top level */
    const uint32_t *inputs, *outputs; /* tensor indices within the rank; may repeat */
    uint32_t n_inputs, n_outputs;
    const syn_dep *deps; /* all classes; ascending by node, no two alike */
    uint32_t n_deps;
    const syn_attribute *attributes; /* the op's own (axis, scale, ...) */
    uint32_t n_attributes;
    /* Cost: flops count a multiply and an add as one each; bytes as if nothing were cached. */
    uint64_t flops, bytes_read, bytes_written;
    syn_dtype dtype; /* of what is computed; f32 if unknown */
    syn_extents extents;
    /* Communication (kind COLLECTIVE, SEND, RECV) */
    syn_comm_kind comm;
    int32_t reduce;      /* syn_reduce, or -1 */
    uint32_t group;      /* id of a syn_graph_group; 0 none */
    uint64_t comm_bytes; /* of this rank's input: all-gather's shard, send's and recv's message */
    uint32_t comm_index; /* how many communications of the same group (of any peer, for send/recv)
                            came before */
    int32_t peer, tag;   /* send: destination, recv: source; global ranks */
    int32_t root;        /* global rank of a rooted collective, or -1 */
    /* Times in nanoseconds, SYN_NO_TIME if unknown. start_ns counts from the run's start. wait_ns
       is the part of wall_ns spent waiting for other ranks. */
    double start_ns, wall_ns, cpu_ns, wait_ns;
    double predicted_ns; /* from a syn_hardware */
} syn_node;

/* Members of a node of which nothing else is known: (syn_node){SYN_NODE_UNKNOWN, .op = "add"}. */
#define SYN_NODE_UNKNOWN                                                                   \
    .reduce = -1, .peer = -1, .root = -1, .start_ns = SYN_NO_TIME, .wall_ns = SYN_NO_TIME, \
    .cpu_ns = SYN_NO_TIME, .wait_ns = SYN_NO_TIME, .predicted_ns = SYN_NO_TIME

/* The part of wall_ns that a communication waited for other ranks: 0 to wall_ns, 0
   of other nodes. */
double syn_node_waiting_ns(const syn_node *node);
/* What a measured node took itself: wall_ns without that; SYN_NO_TIME if it was not measured. Every
   time shown of a communication is this one, with the waiting beside it. */
double syn_node_busy_ns(const syn_node *node);

typedef struct syn_graph_tensor {
    const char *name; /* parameter: its HuggingFace name; activation: "h.3.attn/qkv:0" */
    syn_spec spec;
    uint32_t flags;
    uint32_t producer; /* node index, or SYN_NO_NODE */
    uint32_t base;     /* tensor index whose storage this shares; its own index if it owns it */
    syn_shard shard;   /* count 0: a whole, or not known to be a part */
} syn_graph_tensor;

typedef struct syn_graph_group {
    uint32_t id;          /* >= 1 */
    const char *name;     /* "tp0" */
    const int32_t *ranks; /* global ranks, ring order */
    uint32_t n_ranks;
} syn_graph_group;

typedef struct syn_cursor {
    syn_node node;
    syn_graph_tensor tensor;
    /* private buffers */
    syn_dep *deps;
    size_t deps_cap;
    syn_attribute attributes[SYN_MAX_ATTRS];
    uint32_t inputs[SYN_MAX_INPUTS], outputs[SYN_MAX_OUTPUTS];
    char name[SYN_MAX_NAME];
    char text[21 * SYN_MAX_RANK]; /* a list: 20 characters and a comma an entry */
    syn_error error;              /* why a call returned NULL */
} syn_cursor;

typedef struct syn_graph syn_graph;

/* What a producer implements; `rank` is an index 0..n_ranks-1. NULL only when memory
   is out (cursor->error). */
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
    const syn_work *work; /* by ids of nodes; NULL: none is known. The producer's */
    void *self;           /* the producer's */
} syn_graph_rank;

struct syn_graph {
    const syn_graph_source *source;
    syn_graph_rank *ranks;
    uint32_t n_ranks; /* ranks present; may be fewer than world_size */
    int32_t world_size;
    syn_graph_group *groups;
    uint32_t n_groups;
    /* Facts about the run in reading order: model, tp, dtype, batch, ... Titles and JSON show them.
       "multiprocessors" says that times are predicted for a GPU. */
    syn_attribute *metadata;
    uint32_t n_metadata;
    size_t metadata_cap;
    void *self; /* the producer's */
};

const syn_node *syn_graph_node(const syn_graph *graph, uint32_t rank, uint32_t node,
                               syn_cursor *cursor);
const syn_graph_tensor *syn_graph_tensor_at(const syn_graph *graph, uint32_t rank, uint32_t tensor,
                                            syn_cursor *cursor);
const syn_graph_group *syn_graph_group_by_id(const syn_graph *graph, uint32_t id);
/* The metadata entry `name`, or NULL. */
const syn_attribute *syn_graph_meta(const syn_graph *graph, const char *name);
/* Text of an attribute's value ("64", "0.125", "true", the text) into buf; returns buf. */
const char *syn_attribute_text(const syn_attribute *a, char *buf, size_t buf_bytes);
void syn_cursor_free(syn_cursor *cursor);
void syn_graph_free(syn_graph *graph); /* NULL is allowed */

/* Checks what every consumer relies on: dependencies point to earlier nodes, tensor indices in
   range, producers agree, groups exist, nothing reads what was written over. The error names the
   first breach. */
syn_status syn_graph_verify(const syn_graph *graph, syn_error *err) SYN_MUST_USE;

/* Several graphs as one: their ranks side by side, groups joined by id, facts of the first. On
   success the graphs belong to the union. */
syn_status syn_graph_union(syn_graph **out, syn_graph *const *graphs, uint32_t n_graphs,
                           syn_error *err) SYN_MUST_USE;
/* Sets a fact about the run, copying it. A name set twice keeps its place and takes
   the new value. */
syn_status syn_graph_set_meta(syn_graph *graph, const syn_attribute *entry,
                              syn_error *err) SYN_MUST_USE;
/* For producers: frees the facts. */
void syn_graph_free_meta(syn_graph *graph);

/* What a device did for a node; NULL: nothing is known. */
const syn_node_work *syn_graph_work(const syn_graph *graph, uint32_t rank, const syn_node *node);

/* ---- A graph that owns its rows: for readers and converters. ---- */

/* Starts an empty graph of n_ranks ranks (global numbers in `ranks`). */
syn_status syn_graph_new(syn_graph **out, const int32_t *ranks, uint32_t n_ranks,
                         int32_t world_size, syn_error *err) SYN_MUST_USE;
/* Each copies what it is given, texts included. Nodes and tensors get ascending indices; a tensor
   may name a producer that is added later. */
syn_status syn_graph_add_node(syn_graph *graph, uint32_t rank, const syn_node *node,
                              syn_error *err) SYN_MUST_USE;
syn_status syn_graph_add_tensor(syn_graph *graph, uint32_t rank, const syn_graph_tensor *tensor,
                                syn_error *err) SYN_MUST_USE;
/* Takes what is in *work. */
syn_status syn_graph_give_work(syn_graph *graph, uint32_t rank, syn_work *work,
                               syn_error *err) SYN_MUST_USE;
syn_status syn_graph_add_group(syn_graph *graph, const syn_graph_group *group,
                               syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
