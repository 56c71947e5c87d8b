/* Reads one trace for an HTML report: its columns, its strings, and sums for readers without
   JavaScript. */
#ifndef EXPORT_HTML_TRACE_H
#define EXPORT_HTML_TRACE_H

#include "export/html/html_columns.h"
#include "export/walk/timeline_tracks.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sums over all ops of one name on one kind of track (host or device), or over all ops of one
   layer. ns does not include the time spent waiting for other ranks. */
typedef struct syn__html_sum {
    uint64_t calls, flops, bytes;
    double ns, wait_ns;
} syn__html_sum;

/* Sums by the name of an op or of a layer. Host threads have sums of their own, because host time
   and device time overlap. */
typedef struct syn__html_sums {
    syn_intern keys; /* 'h' (host thread) or ' ', then the name */
    syn__html_sum *at;
    size_t cap;
} syn__html_sums;

typedef struct syn__html_trace {
    const syn_graph *graph;
    syn_copied_ranks copies; /* identical ranks: only their names, the attributes of their ops and
                                the shards of their tensors are read */
    syn__timeline timeline;
    syn__walk walk;
    syn__tracks lanes;
    syn__columns columns;
    double *path_ns;      /* PyTorch traces: for each node of all ranks, its time on the critical
                             path */
    size_t first_of_rank; /* index in path_ns of the current rank's first node */
    syn_intern texts;
    syn_intern parts; /* strings of the current rank only, so that ranks can share their columns */
    syn_sink *ranks;  /* JSON: one entry of the header per rank */
    syn__html_sums by_op, by_layer;
    uint64_t n_ops;
    double end_ns;
    bool rounded; /* whether times are rounded (html_columns.h) */
    uint32_t step_bits;
    uint32_t weight; /* number of identical ranks, including the current one */
    /* Per node or per tensor of the current rank: */
    struct syn__html_place *places;
    size_t places_cap;
    uint8_t *named; /* per tensor; 1: its name is the default, which follows from its producer */
    size_t named_cap;
    int64_t *free_at, *ended; /* per track, the end of its last node. free_at: as the viewer
                                 computes it from rounded values. ended: as recorded */
    size_t free_cap, ended_cap;
} syn__html_trace;

/* Reads the graph, or the rank that the options select. The caller frees *out in all cases. */
syn_status syn__html_trace_read(syn__html_trace *out, const syn_graph *graph,
                                const syn_export_options *options, syn_error *err) SYN_MUST_USE;
/* Writes the length of the header in four bytes (little-endian), the header, and the columns as
   html_columns.h describes them. source: the file from which the trace was read; NULL: unknown. */
syn_status syn__html_trace_write(const syn__html_trace *trace, const char *title,
                                 const char *source, syn__buf *out, syn_error *err) SYN_MUST_USE;
void syn__html_trace_free(syn__html_trace *trace);

/* Writes the sums by op and by layer as HTML tables, with the longest times first. */
syn_status syn__html_put_tables(const syn__html_trace *trace, syn_sink *sink,
                                syn_error *err) SYN_MUST_USE;

syn_status syn__html_sums_add(syn__html_sums *sums, bool host, const char *text, size_t bytes,
                              const syn__html_sum *more, syn_error *err) SYN_MUST_USE;
void syn__html_sums_free(syn__html_sums *sums);

#ifdef __cplusplus
}
#endif
#endif
