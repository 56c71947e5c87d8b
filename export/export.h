/* Writers and readers of every format. A writer walks a syn_graph node by node into a sink. */
#ifndef EXPORT_EXPORT_H
#define EXPORT_EXPORT_H

#include "syntorch/base/sink.h"
#include "syntorch/graph/graph.h"

SYN_API_BEGIN

typedef enum syn_nx_key { SYN_NX_BOTH, SYN_NX_LINKS, SYN_NX_EDGES } syn_nx_key;
/* How JSON, Chakra JSON and timelines hold a rank that does what another does: in full, or once
   with what differs. AUTO: once in large graphs. */
typedef enum syn_copies { SYN_COPIES_AUTO, SYN_COPIES_FULL, SYN_COPIES_ONCE } syn_copies;

/* What pictures show. AUTO: of PyTorch's recordings the timeline, of others the graph. */
typedef enum syn_view { SYN_VIEW_AUTO, SYN_VIEW_GRAPH, SYN_VIEW_TIMELINE } syn_view;

/* The size of pictures: their own, a sheet of A4 upright or across, or a slide of 16:9. */
typedef enum syn_page { SYN_PAGE_NONE, SYN_PAGE_A4, SYN_PAGE_SLIDE } syn_page;

/* How much of a graph pictures show: ops and tensors; ops; the ops of a module, or those of a
   layer, between communications as one. AUTO: as much as can be read. */
typedef enum syn_detail {
    SYN_DETAIL_AUTO,
    SYN_DETAIL_TENSORS,
    SYN_DETAIL_OPS,
    SYN_DETAIL_MODULES,
    SYN_DETAIL_LAYERS
} syn_detail;

/* The ranks that are held once. */
typedef struct syn_copied_ranks syn_copied_ranks;

/* All zero, or NULL for the whole: the defaults. */
typedef struct syn_export_options {
    const char *title;   /* of pictures; NULL: made from the graph's metadata */
    const int32_t *rank; /* only this global rank; NULL: all (formats of one rank: the first) */
    const char *version; /* of the program, recorded in files; NULL: not recorded */
    bool comm_graph; /* pictures: the communication view over all ranks instead of one rank's DAG */
    bool no_fold;    /* pictures: draw every repeated layer and step */
    bool profile_memory; /* kineto: each storage that comes or goes */
    bool with_stack;     /* kineto, stacks: the modules that ops are called in */
    syn_nx_key nx_key;   /* which edge key(s) node-link JSON gets */
    syn_copies copies;
    syn_view view;                        /* pictures; comm_graph is a view of its own */
    syn_page page;                        /* pictures; less detail, if that alone can be read */
    syn_detail detail;                    /* pictures */
    const syn_graph *compare;             /* html: a second trace on the same page */
    const char *source, *compare_source;  /* html: the files of the two, which tell runs of one
                                             name apart; NULL: unknown */
    const syn_copied_ranks *known_copies; /* of this graph, found before; NULL: each export looks */
} syn_export_options;

/* How long the ranks run by their predicted times, each op when its inputs are there, its stream is
   free and, of collectives, the other ranks have come; 0: times are measured, or there are none. */
syn_status syn_predicted_duration(double *ns, const syn_graph *graph, syn_error *err) SYN_MUST_USE;

/* More than 100,000 ops of all ranks together. */
bool syn_graph_is_large(const syn_graph *graph);
/* The ranks that exports with these options hold once, for several exports of one graph; free it
   when they are done. */
syn_status syn_copies_find(syn_copied_ranks **out, const syn_graph *graph,
                           const syn_export_options *options, syn_error *err) SYN_MUST_USE;
/* How many they are. */
uint32_t syn_copies_count(const syn_copied_ranks *copies);
void syn_copies_free(syn_copied_ranks *copies);

typedef struct syn_exporter {
    const char *name;      /* "json" */
    const char *extension; /* "json": without dot */
    syn_status (*write)(const syn_graph *graph, const syn_export_options *options, syn_sink *sink,
                        syn_error *err);
} syn_exporter;

/* All exporters, ended by a NULL pointer; by name; by a path's extension. NULL if there is none. */
const syn_exporter *const *syn_exporters(void);
const syn_exporter *syn_exporter_by_name(const char *name);
const syn_exporter *syn_exporter_by_path(const char *path);

/* Writes the graph to the file `path`; a failed export leaves the old file or none. exporter NULL:
   by the path's extension, SYN_E_INVALID if it names none. */
syn_status syn_export_file(const syn_graph *graph, const syn_exporter *exporter,
                           const syn_export_options *options, const char *path,
                           syn_error *err) SYN_MUST_USE;
/* The same into memory, where syn_sink_data finds it until the caller closes the sink. */
syn_status syn_export_memory(syn_sink **out, const syn_graph *graph, const syn_exporter *exporter,
                             const syn_export_options *options, syn_error *err) SYN_MUST_USE;

/* The exporters. */
extern const syn_exporter syn_export_json;    /* NetworkX node-link JSON, all ranks */
extern const syn_exporter syn_export_graphml; /* GraphML with yEd shapes and Gephi colours */
extern const syn_exporter syn_export_dot;     /* DOT text */
extern const syn_exporter syn_export_svg;     /* picture */
extern const syn_exporter syn_export_png;     /* picture */
extern const syn_exporter syn_export_pdf;     /* picture */
extern const syn_exporter syn_export_chrome;  /* Chrome trace events, for Perfetto */
extern const syn_exporter syn_export_html;    /* one page that shows it in a browser */
extern const syn_exporter syn_export_chakra;  /* all ranks' Chakra nodes as protobuf's JSON */
extern const syn_exporter syn_export_et;      /* one rank's binary Chakra execution trace */

extern const syn_exporter syn_export_kineto;     /* one rank as PyTorch's profiler records it */
extern const syn_exporter syn_export_host;       /* ... and as its ExecutionTraceObserver does */
extern const syn_exporter syn_export_stacks;     /* text: where the time goes, by op and by scope */
extern const syn_exporter syn_export_memory_csv; /* memory over time, of all ranks */

/* Writes the whole set <prefix>.<rank>.et and, last, <prefix>.comm_group.json. SYN_E_INVALID, with
   nothing written: a rank without nodes, or (all ranks) members of a group that do not call the
   same collectives; graphs that came from .et are written as they were. */
syn_status syn_export_et_set(const syn_graph *graph, const syn_export_options *options,
                             const char *prefix, syn_error *err) SYN_MUST_USE;
/* Writes what PyTorch's profiler would leave of the run: for every rank <prefix>.<rank>_kineto.json
   and <prefix>.<rank>_host.json, which `syntorch convert pytorch` and Chakra's own tools link; and
   <prefix>_memory.csv and <prefix>_stacks.txt. SYN_E_UNSUPPORTED for what PyTorch recorded. */
syn_status syn_export_kineto_set(const syn_graph *graph, const syn_export_options *options,
                                 const char *prefix, syn_error *err) SYN_MUST_USE;
/* {"<group id>": [ranks...]}. node_ranks: how many ranks share a node of the machine to simulate; 0
   if that is not known. Groups of several nodes are then written in an order in which ASTRA-sim's
   rings use the network between nodes. A set has the order for its metadata's hardware. */
syn_status syn_export_comm_group(const syn_graph *graph, int32_t node_ranks, syn_sink *sink,
                                 syn_error *err) SYN_MUST_USE;

/* Readers. The graph is the caller's (syn_graph_free). */
syn_status syn_import_json(syn_graph **out, const char *path, syn_error *err) SYN_MUST_USE;
/* Chakra's JSON form (tensor_trace_chakra.json). */
syn_status syn_import_chakra_json(syn_graph **out, const char *path, syn_error *err) SYN_MUST_USE;
/* One .et file, or a set when `path` is <prefix>.<rank>.et and its siblings
   are wanted (all_ranks). */
syn_status syn_import_et(syn_graph **out, const char *path, bool all_ranks,
                         syn_error *err) SYN_MUST_USE;
/* By content: node-link JSON, Chakra JSON or .et. Other kinds (gzip, pictures, GraphML, timelines,
   ...) are refused by name. */
syn_status syn_import_any(syn_graph **out, const char *path, syn_error *err) SYN_MUST_USE;
/* The same from memory, for fuzzing; `name` begins error sentences. */
syn_status syn_import_json_memory(syn_graph **out, const char *name, const char *data, size_t bytes,
                                  syn_error *err) SYN_MUST_USE;
syn_status syn_import_et_memory(syn_graph **out, const char *name, const char *data, size_t bytes,
                                syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
