/* Pictures of a graph, in steps of a file each: fold (which steps, layers and ranks repeat), cells
   (what becomes a box), layout (positions), draw (boxes, paths and clusters with their texts), dot
   (the same as DOT text, with cgraph or without), graphviz (turns the text into SVG or PNG). */
#ifndef EXPORT_PICTURE_H
#define EXPORT_PICTURE_H

#include "export/export.h"
#include "export/picture/picture_draw.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The views. `d` starts zeroed; free it in any case. max_side: points, larger
   pictures are condensed. */
syn_status syn__pic_trace_view(syn__pic_drawing *d, const syn_graph *graph,
                               const syn_export_options *options, double max_side,
                               syn_error *err) SYN_MUST_USE;
syn_status syn__pic_comm_view(syn__pic_drawing *d, const syn_graph *graph,
                              const syn_export_options *options, double max_side,
                              syn_error *err) SYN_MUST_USE;
/* When what runs: of all ranks, or options->rank. */
syn_status syn__pic_time_view(syn__pic_drawing *d, const syn_graph *graph,
                              const syn_export_options *options, syn_error *err) SYN_MUST_USE;

/* ---- Output ---- */

/* How much smaller a drawing gets on a page, and the page's size in points, across if the drawing
   is larger so; 1 without a page. */
double syn__pic_page_scale(const syn__pic_drawing *d, syn_page page, double *w, double *h);

/* DOT text with all positions, for `neato -n2` (picture_dot.c); with cgraph where it is there. */
syn_status syn__pic_write_dot(const syn__pic_drawing *d, syn_sink *sink,
                              syn_error *err) SYN_MUST_USE;
/* The two ways to write it, for tests: they mean the same graph. */
syn_status syn__pic_write_plain(const syn__pic_drawing *d, syn_sink *sink,
                                syn_error *err) SYN_MUST_USE;
bool syn__pic_have_cgraph(void);
syn_status syn__pic_write_cgraph(const syn__pic_drawing *d, syn_sink *sink,
                                 syn_error *err) SYN_MUST_USE;

/* Runs graphviz's neato over DOT text (picture_graphviz.c). */
typedef struct syn__pic_limits {
    double seconds; /* wall clock */
    uint64_t cpu_seconds;
    uint64_t memory_bytes;
    const char *program; /* "neato" */
} syn__pic_limits;
#define SYN__PIC_LIMITS \
    { 60.0, 60, (uint64_t)4 << 30, "neato" }
syn_status syn__pic_graphviz(const syn__pic_limits *limits, const char *format, double dpi,
                             const char *dot, size_t dot_bytes, syn_sink *sink,
                             syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
