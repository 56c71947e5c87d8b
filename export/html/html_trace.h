/* One trace of a page: its columns, its texts, and sums for a reader without JavaScript. */
#ifndef EXPORT_HTML_TRACE_H
#define EXPORT_HTML_TRACE_H

#include "export/html/html_columns.h"
#include "export/walk/timeline_lanes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of all ops of one name on one kind of lane, or of one layer. The waiting for other
   ranks is not in ns. */
typedef struct syn__html_sum {
    uint64_t calls, flops, bytes;
    double ns, wait_ns;
} syn__html_sum;

/* Sums by text; those of host threads apart, for their time and a device's must not be added. */
typedef struct syn__html_sums {
    syn_intern keys; /* 'h' or ' ', then the text */
    syn__html_sum *at;
    size_t cap;
} syn__html_sums;

typedef struct syn__html_trace {
    const syn_graph *graph;
    syn_copied_ranks copies; /* of these only options of ops and parts of tensors are read */
    syn__timeline timeline;
    syn__walk walk;
    syn__lanes lanes;
    syn__columns columns;
    double *path_ns;      /* of a recording: per node of all ranks, its time on the critical path */
    size_t first_of_rank; /* there: the first node of the rank at hand */
    syn_intern texts;
    syn_intern parts; /* texts of the rank at hand alone, so that ranks share their columns */
    syn_sink *ranks;  /* JSON: what the header says of each */
    syn__html_sums by_op, by_layer;
    uint64_t n_ops;
    double end_ns;
    bool rounded; /* times are (html_columns.h) */
    uint32_t step_bits;
    uint32_t weight; /* how many ranks the one at hand stands for */
    /* per node and tensor of it */
    struct syn__html_place *places;
    size_t places_cap;
    uint8_t *named; /* 1: the name follows from what makes it */
    size_t named_cap;
    int64_t *free_at, *ended; /* per lane: its last end as it will be read, and as it is */
    size_t free_cap, ended_cap;
} syn__html_trace;

/* Reads the graph, or the rank that options name. Free *out in any case. */
syn_status syn__html_trace_read(syn__html_trace *out, const syn_graph *graph,
                                const syn_export_options *options, syn_error *err) SYN_MUST_USE;
/* Header and columns: the header's length as four bytes, lowest first, the header, then what
   html_columns.h says. source: the file that the trace comes from; NULL: unknown. */
syn_status syn__html_trace_write(const syn__html_trace *trace, const char *title,
                                 const char *source, syn__buf *out, syn_error *err) SYN_MUST_USE;
void syn__html_trace_free(syn__html_trace *trace);

/* Tables as HTML: sums by op and by layer, the longest first. */
syn_status syn__html_put_tables(const syn__html_trace *trace, syn_sink *sink,
                                syn_error *err) SYN_MUST_USE;

syn_status syn__html_sums_add(syn__html_sums *sums, bool host, const char *text, size_t bytes,
                              const syn__html_sum *more, syn_error *err) SYN_MUST_USE;
void syn__html_sums_free(syn__html_sums *sums);

#ifdef __cplusplus
}
#endif
#endif
