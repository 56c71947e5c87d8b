/* Draws a graph as a picture. Each step has its own files, named picture_STEP*: fold (finds
   repeated steps, layers and ranks), cells (decides which ops become a box), layout (computes
   positions), draw (stores boxes, paths and clusters with their texts), dot (writes the drawing as
   DOT, with or without cgraph), graphviz (converts DOT to SVG or PNG). */
#ifndef EXPORT_PICTURE_H
#define EXPORT_PICTURE_H

#include "export/export.h"
#include "export/picture/picture_draw.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Draw a view into `d`, which must be zero-initialized. The caller frees it even after a failure.
   max_side: the longest side in points; if the picture would be larger, it shows fewer details. */
syn_status syn__pic_trace_view(syn__pic_drawing *d, const syn_graph *graph,
                               const syn_export_options *options, double max_side,
                               syn_error *err) SYN_MUST_USE;
syn_status syn__pic_comm_view(syn__pic_drawing *d, const syn_graph *graph,
                              const syn_export_options *options, double max_side,
                              syn_error *err) SYN_MUST_USE;
/* Draws the timeline of all ranks, or of options->rank. */
syn_status syn__pic_time_view(syn__pic_drawing *d, const syn_graph *graph,
                              const syn_export_options *options, syn_error *err) SYN_MUST_USE;

/* ---- Output ---- */

/* Returns the scale, at most 1, at which a drawing fits on a page. *w and *h: the page's size in
   points. The page is in landscape format if that allows a larger scale. Without a page, the scale
   is 1. */
double syn__pic_page_scale(const syn__pic_drawing *d, syn_page page, double *w, double *h);

/* Writes DOT with all positions, for `neato -n2` (picture_dot.c). Uses graphviz's library cgraph if
   the build has it. */
syn_status syn__pic_write_dot(const syn__pic_drawing *d, syn_sink *sink,
                              syn_error *err) SYN_MUST_USE;
/* The two writers, with and without cgraph, for tests. They write the same graph. */
syn_status syn__pic_write_plain(const syn__pic_drawing *d, syn_sink *sink,
                                syn_error *err) SYN_MUST_USE;
bool syn__pic_have_cgraph(void);
syn_status syn__pic_write_cgraph(const syn__pic_drawing *d, syn_sink *sink,
                                 syn_error *err) SYN_MUST_USE;

/* Runs graphviz's neato on DOT text (picture_graphviz.c). */
typedef struct syn__pic_limits {
    double seconds; /* wall-clock limit */
    uint64_t cpu_seconds;
    uint64_t memory_bytes;
    const char *program; /* program to run, searched in PATH: "neato" */
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
