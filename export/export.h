/* Writers and readers of every format. A writer (syn_exporter) visits the nodes of a syn_graph one
   by one and writes text or bytes to a sink. */
#ifndef EXPORT_EXPORT_H
#define EXPORT_EXPORT_H

#include "syntorch/base/sink.h"
#include "syntorch/graph/graph.h"

SYN_API_BEGIN

typedef enum syn_nx_key { SYN_NX_BOTH, SYN_NX_LINKS, SYN_NX_EDGES } syn_nx_key;
/* How JSON, Chakra JSON and timelines write a rank that is identical to another one: in full, or
   once with its differences. AUTO: once if the graph is large (syn_graph_is_large). */
typedef enum syn_copies { SYN_COPIES_AUTO, SYN_COPIES_FULL, SYN_COPIES_ONCE } syn_copies;

/* What pictures show. AUTO: the timeline for PyTorch traces, otherwise the graph. */
typedef enum syn_view { SYN_VIEW_AUTO, SYN_VIEW_GRAPH, SYN_VIEW_TIMELINE } syn_view;

/* Page size of pictures: as large as the content, A4 portrait or landscape, or a 16:9 slide. */
typedef enum syn_page { SYN_PAGE_NONE, SYN_PAGE_A4, SYN_PAGE_SLIDE } syn_page;

/* Level of detail of pictures: ops and tensors; ops only; or one box for the ops of a module, or of
   a layer, between two communication ops. AUTO: the most detailed level that stays readable. */
typedef enum syn_detail {
    SYN_DETAIL_AUTO,
    SYN_DETAIL_TENSORS,
    SYN_DETAIL_OPS,
    SYN_DETAIL_MODULES,
    SYN_DETAIL_LAYERS
} syn_detail;

/* The ranks of a graph that are identical to an earlier rank. */
typedef struct syn_copied_ranks syn_copied_ranks;

/* Zero-initialized, or a NULL pointer to it: the defaults. */
typedef struct syn_export_options {
    const char *title;   /* title of pictures; NULL: made from the graph's metadata */
    const int32_t *rank; /* export only this global rank; NULL: all ranks (single-rank formats: the
                            first) */
    const char *version; /* program version to record in files; NULL: none is recorded */
    bool comm_graph; /* pictures: the communication view over all ranks instead of one rank's DAG */
    bool no_fold;    /* pictures: draw every repeated layer and step */
    bool profile_memory; /* kineto: record an event for each allocation and release */
    bool with_stack;     /* kineto, stacks: record the module in which each op is called */
    syn_nx_key nx_key;   /* edge key or keys of node-link JSON */
    syn_copies copies;
    syn_view view;                        /* pictures; comm_graph takes precedence */
    syn_page page;                        /* pictures; reduces detail if the picture would not be
                                             readable otherwise */
    syn_detail detail;                    /* pictures */
    const syn_graph *compare;             /* html: a second trace to show next to the first */
    const char *source, *compare_source;  /* html: input files of the two traces, to distinguish
                                             runs of the same name; NULL: unknown */
    const syn_copied_ranks *known_copies; /* result of syn_copies_find for this graph; NULL: each
                                             export searches */
} syn_export_options;

/* Predicted duration of the run in ns. Simulates all ranks: an op starts when its inputs are ready,
   its stream is free and, for a collective, all other ranks have arrived. 0 if the times are
   measured or the graph has none. */
syn_status syn_predicted_duration(double *ns, const syn_graph *graph, syn_error *err) SYN_MUST_USE;

/* True if all ranks together have more than 100,000 ops. */
bool syn_graph_is_large(const syn_graph *graph);
/* Finds the ranks that exports with these options write only once. Use the result for several
   exports of one graph (known_copies) and free it after the last one. */
syn_status syn_copies_find(syn_copied_ranks **out, const syn_graph *graph,
                           const syn_export_options *options, syn_error *err) SYN_MUST_USE;
/* Number of such ranks. */
uint32_t syn_copies_count(const syn_copied_ranks *copies);
void syn_copies_free(syn_copied_ranks *copies);

typedef struct syn_exporter {
    const char *name;      /* "json" */
    const char *extension; /* "json": without dot */
    syn_status (*write)(const syn_graph *graph, const syn_export_options *options, syn_sink *sink,
                        syn_error *err);
} syn_exporter;

/* Lookups. syn_exporters lists all exporters, terminated by NULL. The others find one by its name
   or by the extension of a path, and return NULL if there is none. */
const syn_exporter *const *syn_exporters(void);
const syn_exporter *syn_exporter_by_name(const char *name);
const syn_exporter *syn_exporter_by_path(const char *path);

/* Writes the graph to the file `path`. If the export fails, an existing file stays as it was.
   exporter NULL: chosen by the path's extension; SYN_E_INVALID if no exporter has it. */
syn_status syn_export_file(const syn_graph *graph, const syn_exporter *exporter,
                           const syn_export_options *options, const char *path,
                           syn_error *err) SYN_MUST_USE;
/* The same to memory. The data is syn_sink_data of *out, which the caller closes. */
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
extern const syn_exporter syn_export_html;    /* interactive report in one HTML file */
extern const syn_exporter syn_export_chakra;  /* Chakra nodes of all ranks as protobuf JSON */
extern const syn_exporter syn_export_et;      /* one rank's binary Chakra execution trace */

extern const syn_exporter syn_export_kineto;     /* one rank as a torch.profiler (Kineto) trace */
extern const syn_exporter syn_export_host;       /* one rank as an ExecutionTraceObserver host
                                                    trace */
extern const syn_exporter syn_export_stacks;     /* text: time by op and by scope */
extern const syn_exporter syn_export_memory_csv; /* memory use of all ranks over time */

/* Writes a trace set: <prefix>.<rank>.et for every rank and then <prefix>.comm_group.json. Fails
   with SYN_E_INVALID and writes nothing if a rank has no nodes or, when all ranks are exported, the
   members of a group do not call the same collectives. Graphs that were read from .et files are
   written unchanged. */
syn_status syn_export_et_set(const syn_graph *graph, const syn_export_options *options,
                             const char *prefix, syn_error *err) SYN_MUST_USE;
/* Writes the files that PyTorch's profiler would save for the run: for each rank
   <prefix>.<rank>_kineto.json and <prefix>.<rank>_host.json, which `syntorch convert pytorch` and
   Chakra's own tools can link, and for all ranks <prefix>_memory.csv and <prefix>_stacks.txt.
   SYN_E_UNSUPPORTED if the graph itself is a PyTorch trace. */
syn_status syn_export_kineto_set(const syn_graph *graph, const syn_export_options *options,
                                 const char *prefix, syn_error *err) SYN_MUST_USE;
/* Writes {"<group id>": [ranks...]}. node_ranks is the number of ranks per machine node of the
   system to simulate, 0 if unknown. If it is known, groups that span several nodes are written in
   an order for which ASTRA-sim's rings use the network between nodes. syn_export_et_set takes
   node_ranks from the hardware in the graph's metadata. */
syn_status syn_export_comm_group(const syn_graph *graph, int32_t node_ranks, syn_sink *sink,
                                 syn_error *err) SYN_MUST_USE;

/* Readers. The caller frees *out with syn_graph_free. */
syn_status syn_import_json(syn_graph **out, const char *path, syn_error *err) SYN_MUST_USE;
/* Chakra's JSON form (tensor_trace_chakra.json). */
syn_status syn_import_chakra_json(syn_graph **out, const char *path, syn_error *err) SYN_MUST_USE;
/* Reads one .et file. With all_ranks, `path` is <prefix>.<rank>.et and the files of the other ranks
   are read as well. */
syn_status syn_import_et(syn_graph **out, const char *path, bool all_ranks,
                         syn_error *err) SYN_MUST_USE;
/* Detects the format by content: node-link JSON, Chakra JSON or .et. Files of other kinds (gzip,
   pictures, GraphML, timelines, ...) are rejected with an error that names their kind. */
syn_status syn_import_any(syn_graph **out, const char *path, syn_error *err) SYN_MUST_USE;
/* The same from memory, for fuzzing. Error messages begin with `name`. */
syn_status syn_import_json_memory(syn_graph **out, const char *name, const char *data, size_t bytes,
                                  syn_error *err) SYN_MUST_USE;
syn_status syn_import_et_memory(syn_graph **out, const char *name, const char *data, size_t bytes,
                                syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
