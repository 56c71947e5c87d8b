/* How a syn_graph and execution traces map to each other, in both directions.

   A graph that came from an execution trace is *verbatim*: its metadata has "et.version"
   (GlobalMetadata's version), and every node's attributes are the file's own, in its order. Writing
   it gives ids, names, times, dependencies and attributes back as they are: nothing is contracted,
   chained or clamped a second time. All other graphs are planned: see syn__et_plan.

   Attributes of a verbatim graph keep their protobuf type. Integers are int64, numbers double,
   texts string, except for the few names with a fixed type of their own (syn__et_default_field);
   any other type is added to the name: "rf_id@uint32_val". Lists are JSON arrays as text
   ("ranks@int32_list"), bytes base64. Names that begin with '@' are the message's other fields:
   @name, @type, @start_time_micros, @duration_micros (where the graph's own fields cannot hold
   them), @inputs, @inputs.values, ..., and @doc, the doc_string of the attribute before it. In the
   graph's metadata "name@doc" is name's doc_string, "name@rank3" rank 3's value where it differs
   from the first rank's, and "et.groups" says that the file lists its rank's groups (attributes
   "pg.<id>" with doc_string = name and int32_list = ranks). */
#ifndef EXPORT_ET_GRAPH_H
#define EXPORT_ET_GRAPH_H

#include "export/chakra/wire/et_node.h"
#include "export/export.h"
#include "export/text/arena.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Attributes (et_attr.c) ---- */

/* The oneof field of an attribute whose name has no type added. */
uint32_t syn__et_default_field(syn__str name, syn_value_type type);
/* One ET attribute as one or two (@doc) graph attributes; *n is how many. SYN_E_NOMEM at worst. */
syn_status syn__et_attr_to_graph(const syn__et_attr *attr, syn__arena *arena, syn_attribute out[2],
                                 size_t *n);
/* The way back. Refuses values that do not fit their type. */
syn_status syn__et_attr_from_graph(const syn_attribute *attr, syn__arena *arena, syn__et_attr *out,
                                   syn_error *err);
bool syn__et_parse_u64(const char *text, uint64_t *out);

/* ---- The plan: which nodes an ET has and what each waits for (et_plan.c) ----

   Nodes that compute nothing (SYN_NODE_VIRTUAL), metadata, barriers and collectives of one rank do
   not appear: their dependencies pass on to those that wait for them. A dependency of class DATA,
   through such nodes only by DATA, becomes a data_dep, any other a ctrl_dep. ctrl_deps are added so
   that
   - each stream runs in order: a node waits for the stream's previous one;
   - collectives run in program order: each waits for the rank's previous collective and for the
   sends before it (a simulator has one communication slot a rank; sends themselves never wait for a
   peer);
   - a barrier parts before from after: the next node of each stream waits for the last one of each
   stream. A ctrl_dep that others imply is left out: on the same stream all but the previous node,
   on another stream all but the latest, and any node that is a data_dep already. Ids count from 1.
 */

#define SYN__ET_MAX_STREAMS 4096

typedef struct syn__et_stream {
    int32_t stream;
    uint32_t tail;      /* id of its last node; 0 none */
    uint32_t last_send; /* not yet followed by a collective; 0 none */
    uint32_t barrier;   /* the last barrier it has waited for */
    uint32_t latest;    /* scratch: greatest id among a node's dependencies */
    bool active;        /* has run since the last barrier */
} syn__et_stream;

typedef struct syn__et_plan {
    const syn_graph *graph;
    uint32_t rank;
    uint32_t n_planned, n_ids;
    uint32_t *place;     /* per graph node: its id, or PASSED | index of its list */
    uint32_t *stream_of; /* per id: index into streams */
    /* Lists of nodes that do not appear: dependencies id << 1 | is_ctrl. */
    uint32_t *lists, *pool;
    size_t n_lists, n_pool, lists_cap, pool_cap;
    uint32_t *work; /* the present node's dependencies */
    size_t n_work, work_cap;
    syn__et_stream *streams;
    size_t n_streams, streams_cap;
    uint32_t barrier; /* how many so far */
    uint32_t *gate;   /* ids that the last barrier waits for */
    size_t n_gate, gate_cap;
    uint32_t last_coll;
    uint32_t *senders; /* indices of streams with a last_send */
    size_t n_senders, senders_cap;
    /* Result for the node just planned, ascending; ids_cap counts both. */
    uint64_t *ctrl, *data;
    size_t n_ctrl, n_data, ctrl_cap, data_cap;
} syn__et_plan;

syn_status syn__et_plan_open(syn__et_plan *plan, const syn_graph *graph, uint32_t rank,
                             syn_error *err);
/* Plans the rank's next node; *id is its id, or 0 if it does not appear. */
syn_status syn__et_plan_node(syn__et_plan *plan, const syn_node *node, uint32_t *id,
                             syn_error *err);
void syn__et_plan_close(syn__et_plan *plan);
/* Whether node `index` of the rank appears, or is a barrier of several ranks. */
syn_status syn__et_plan_shows(const syn_graph *graph, uint32_t rank, uint32_t index,
                              const syn_node *node, bool *shown, bool *barrier, syn_error *err);

/* ---- What a simulator could not run, found before writing (et_check.c) ----

   Verbatim graphs are written as they came and pass. */

bool syn__et_is_verbatim(const syn_graph *graph);
/* Refuses a rank none of whose nodes appears. `rank` is an index. */
syn_status syn__et_check_rank(const syn_graph *graph, uint32_t rank, syn_error *err);
/* Refuses members of a group that do not call the same collectives on the same bytes, if all its
   members are in the graph. */
syn_status syn__et_check_calls(const syn_graph *graph, syn_error *err);

/* ---- The walk: a rank's messages one by one (et_walk.c) ---- */

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
   waited for others, which simulators work out themselves; SYN_NO_TIME if unknown (et_cost.c). */
double syn__et_duration_ns(const syn_node *node);
/* Fills a node's name and times (et_cost.c). */
syn_status syn__et_describe_frame(syn__et_walk *walk, const syn_node *node, syn__et_node *out,
                                  syn_error *err);
/* Fills a planned node's name, times, type and attributes. */
syn_status syn__et_describe(syn__et_walk *walk, const syn_node *node, syn__et_node *out,
                            syn_error *err);

/* ---- Building a graph from messages (et_build.c, et_order.c) ---- */

typedef struct syn__et_builder syn__et_builder;

/* The ranks are global numbers, one per file to come. */
syn_status syn__et_builder_new(syn__et_builder **out, const int32_t *ranks, uint32_t n_ranks,
                               syn_error *err);
/* {"<id>": [ranks...]} of a set. Before the files. */
syn_status syn__et_builder_groups(syn__et_builder *b, const char *name, const char *data,
                                  size_t bytes, syn_error *err);
/* The messages of the rank with that index, in order of the indices. `name` begins error sentences;
   byte offsets are told if `is_file`. */
syn_status syn__et_builder_add(syn__et_builder *b, uint32_t rank, const char *name,
                               const char *data, size_t bytes, bool is_file, syn_error *err);
/* Ends building: *out is the caller's, the builder is gone in any case. NULL out discards. */
syn_status syn__et_builder_finish(syn__et_builder *b, syn_graph **out, syn_error *err);

/* A file's framing and dependency order. */
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
/* "trace.0.et, byte 17: why" */
syn_status syn__et_index_fail(const syn__et_index *index, const char *at, syn_error *err,
                              const char *why);
/* Only the metadata's attribute "rank"; -1 if there is none. */
int32_t syn__et_peek_rank(const char *data, size_t bytes);

/* All files <prefix>.<rank>.et, with <prefix>.comm_group.json if it is there. */
syn_status syn__et_import_set(syn_graph **out, const char *prefix, size_t prefix_bytes,
                              syn_error *err) SYN_MUST_USE;
/* One file's content; its groups are those of its set, or those it lists itself. */
syn_status syn__et_import_file(syn_graph **out, const char *path, const char *data, size_t bytes,
                               syn_error *err) SYN_MUST_USE;
/* Chakra's JSON form from memory. */
syn_status syn__et_import_chakra(syn_graph **out, const char *name, const char *data, size_t bytes,
                                 syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
