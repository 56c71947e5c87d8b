/* Writers and readers of every format. A writer (syn_exporter) visits the nodes of a syn_graph one
   by one and writes text or bytes to a sink. */
#ifndef EXPORT_EXPORT_H
#define EXPORT_EXPORT_H

#include "syntorch/base/sink.h"
#include "syntorch/graph/graph.h"

SYN_API_BEGIN

/* Key or keys under which node-link JSON has the edges: "links" for networkx 2.8, "edges" for
   3.6. */
typedef enum syn_nx_key { SYN_NX_BOTH, SYN_NX_LINKS, SYN_NX_EDGES } syn_nx_key;
/* How node-link JSON, Chakra JSON and timelines write a rank that is identical to an earlier one.
   FULL: like any other rank. ONCE: only a reference to the earlier rank, and the differences. AUTO:
   ONCE if the graph is large (syn_graph_is_large), otherwise FULL. */
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

/* The set of ranks of a graph that are identical to an earlier rank. */
typedef struct syn_copied_ranks syn_copied_ranks;

/* Options of an export. A zero-initialized struct, or a NULL pointer to one, selects the
   defaults. */
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
    const syn_graph *compare;             /* html: a second trace, shown next to the first */
    const char *source, *compare_source;  /* html: input files of the two traces, to distinguish
                                             runs of the same name; NULL: unknown */
    const syn_copied_ranks *known_copies; /* result of syn_copies_find for this graph; NULL: each
                                             export searches for identical ranks itself */
} syn_export_options;

/* Computes the predicted duration of the run in ns by simulating all ranks: an op starts when its
   inputs are ready, its stream is free and, for a collective, all other ranks have arrived. *ns is
   0 if the graph has measured times or no times. */
syn_status syn_predicted_duration(double *ns, const syn_graph *graph, syn_error *err) SYN_MUST_USE;
/* Also computes how the ranks spend this time, as averages over all ranks. compute_ns: a computing
   op runs. comm_ns: only communication runs (exposed communication). idle_ns: neither, such as in a
   pipeline's bubble; waiting for other ranks counts as idle. */
typedef struct syn_predicted_use {
    double ns, compute_ns, comm_ns, idle_ns;
} syn_predicted_use;
syn_status syn_predicted_use_of(syn_predicted_use *out, const syn_graph *graph,
                                syn_error *err) SYN_MUST_USE;

/* True if all ranks together have more than 100,000 ops. */
bool syn_graph_is_large(const syn_graph *graph);
/* Finds the identical ranks that exports with these options do not write in full. Use the result
   for several exports of one graph (known_copies) and free it after the last one. */
syn_status syn_copies_find(syn_copied_ranks **out, const syn_graph *graph,
                           const syn_export_options *options, syn_error *err) SYN_MUST_USE;
/* Number of ranks that are identical to an earlier one. */
uint32_t syn_copies_count(const syn_copied_ranks *copies);
void syn_copies_free(syn_copied_ranks *copies);

typedef struct syn_exporter {
    const char *name;      /* "json" */
    const char *extension; /* "json": without dot */
    syn_status (*write)(const syn_graph *graph, const syn_export_options *options, syn_sink *sink,
                        syn_error *err);
} syn_exporter;

/* syn_exporters returns the list of all exporters, which ends with NULL. The other two functions
   look up an exporter by its name or by the extension of a path, and return NULL if there is
   none. */
const syn_exporter *const *syn_exporters(void);
const syn_exporter *syn_exporter_by_name(const char *name);
const syn_exporter *syn_exporter_by_path(const char *path);

/* Writes the graph to the file `path`. If the export fails, an existing file is not changed. If
   `exporter` is NULL, the path's extension selects it; SYN_E_INVALID if no exporter has this
   extension. */
syn_status syn_export_file(const syn_graph *graph, const syn_exporter *exporter,
                           const syn_export_options *options, const char *path,
                           syn_error *err) SYN_MUST_USE;
/* Exports to memory instead of a file. The caller closes *out, whose data syn_sink_data returns. */
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
extern const syn_exporter syn_export_gantt;   /* SVG: passes of the microbatches by rank */
extern const syn_exporter syn_export_html;    /* interactive report in one HTML file */
extern const syn_exporter syn_export_chakra;  /* Chakra nodes of all ranks as protobuf JSON */
extern const syn_exporter syn_export_et;      /* one rank's binary Chakra execution trace */

extern const syn_exporter syn_export_kineto;     /* one rank as a torch.profiler (Kineto) trace */
extern const syn_exporter syn_export_host;       /* one rank as an ExecutionTraceObserver host
                                                    trace */
extern const syn_exporter syn_export_stacks;     /* text: time by op and by scope */
extern const syn_exporter syn_export_memory_csv; /* memory use of all ranks over time */
extern const syn_exporter syn_export_simai;      /* one rank's training step as a workload of
                                                    SimAI */

/* What a workload of SimAI has. left_out: collectives of the rank whose kind or group SimAI does
   not know, and their comm_bytes. */
typedef struct syn_simai_summary {
    int32_t rank;
    uint64_t n_layers, n_collectives;
    uint64_t compute_ns; /* sum of the computation of all layers */
    struct {
        uint64_t calls, bytes;
    } left_out[SYN_COMM_KIND_COUNT];
} syn_simai_summary;

/* Writes the workload of syn_export_simai and fills in *done. SYN_E_INVALID if the rank has no
   training step or no times; SYN_E_UNSUPPORTED if it has several steps, or if the world size is not
   the product of the degrees tp, dp and pp in the metadata. */
syn_status syn_export_simai_workload(syn_simai_summary *done, const syn_graph *graph,
                                     const syn_export_options *options, syn_sink *sink,
                                     syn_error *err) SYN_MUST_USE;

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
/* Writes the content of <prefix>.comm_group.json: {"<group id>": [ranks...]}. node_ranks is the
   number of ranks per machine node in the system that will be simulated; 0: unknown. If it is
   known, the ranks of a group that spans several nodes are ordered so that ASTRA-sim's rings use
   the network between the nodes. syn_export_et_set takes node_ranks from the hardware in the
   graph's metadata. */
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
/* Like syn_import_json and syn_import_et, but read from memory. They exist for fuzzing. Error
   messages begin with `name`. */
syn_status syn_import_json_memory(syn_graph **out, const char *name, const char *data, size_t bytes,
                                  syn_error *err) SYN_MUST_USE;
syn_status syn_import_et_memory(syn_graph **out, const char *name, const char *data, size_t bytes,
                                syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
