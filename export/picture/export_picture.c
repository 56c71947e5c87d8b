/* The picture exporters, which write the graph, the communication view or the time view as DOT,
   SVG, PNG or PDF. */
#include "export/picture/picture.h"
#include "export/picture/picture_modules.h"
#include "export/walk/graph_walk.h"

#include <string.h>

#define PNG_DPI    96.0    /* at this resolution, text of 10 points is 13 pixels high */
#define PAGE_DPI   192.0   /* resolution for pages, whose text is smaller */
#define PNG_MAX_PX 32000.0 /* cairo's limit is 32767 */
#define PNG_MAX_PT 14400.0 /* with longer sides, the text would be too small to read */
#define PDF_MAX_PT 14400.0 /* PDF viewers do not show longer sides */
#define SVG_MAX_PT 1e7
#define PAD_PT     40.0 /* sum of both margins; see `pad` in picture_dot.c */

/* Whether the graph is a PyTorch trace with times. */
static syn_status is_recording(bool *out, const syn_graph *graph, syn_error *err) {
    syn__walk walk;
    syn_status s = SYN_OK;
    *out = false;
    if (!syn__walk_is_foreign(graph)) return SYN_OK;
    syn__walk_init(&walk, graph);
    for (uint32_t r = 0; r < graph->n_ranks && !*out && s == SYN_OK; r++) {
        syn__walk_select(&walk, r);
        for (uint32_t i = 0; i < graph->ranks[r].n_nodes && !*out && s == SYN_OK; i++) {
            const syn_node *node;
            s = syn__walk_node(&walk, i, &node, err);
            if (s == SYN_OK) *out = node->start_ns >= 0 && node->wall_ns >= 0;
        }
    }
    syn__walk_free(&walk);
    return s;
}

/* Draws the graph of the modules of a PyTorch trace. */
static syn_status draw_modules(syn__pic_drawing *d, const syn_graph *graph,
                               const syn_export_options *options, double max_side, syn_error *err) {
    syn__pic_drawing names = {0};
    syn_export_options how = *options;
    syn_graph *modules = NULL;
    uint32_t first = 0, end = 0;
    SYN_TRY(syn__walk_ranks(graph, options, &first, &end, err));
    syn_status s = syn__pic_modules(&modules, graph, first, &names, err);
    how.known_copies = NULL;
    if (s == SYN_OK) s = syn__pic_trace_view(d, modules, &how, max_side, err);
    syn_graph_free(modules);
    syn__pic_drawing_free(&names);
    return s;
}

static syn_status draw(syn__pic_drawing *d, const syn_graph *graph,
                       const syn_export_options *options, double max_side, syn_error *err) {
    static const syn_export_options defaults;
    if (options == NULL) options = &defaults;
    bool recording = false;
    if (!options->comm_graph) SYN_TRY(is_recording(&recording, graph, err));
    if (options->view == SYN_VIEW_TIMELINE || (recording && options->view == SYN_VIEW_AUTO))
        return syn__pic_time_view(d, graph, options, err);
    if (recording && !options->no_fold && graph->n_ranks > 0)
        return draw_modules(d, graph, options, max_side, err);
    if (options->comm_graph) return syn__pic_comm_view(d, graph, options, max_side, err);
    return syn__pic_trace_view(d, graph, options, max_side, err);
}

static double dpi_of(const syn__pic_drawing *d) {
    if (d->page != SYN_PAGE_NONE) return PAGE_DPI;
    const double side = (d->width > d->height ? d->width : d->height) + PAD_PT;
    const double most = PNG_MAX_PX * 72 / side;
    return most < PNG_DPI ? most : PNG_DPI;
}

static syn_status render(const syn__pic_drawing *d, const char *format, syn_sink *sink,
                         syn_error *err) {
    static const syn__pic_limits limits = SYN__PIC_LIMITS;
    syn_sink *dot;
    size_t bytes;
    SYN_TRY(syn_sink_open_memory(&dot, err));
    syn_status s = syn__pic_write_dot(d, dot, err);
    const char *text = s == SYN_OK ? syn_sink_data(dot, &bytes) : NULL;
    if (s == SYN_OK && text == NULL) s = syn_sink_close(dot, true, err);
    else {
        const double dpi = strcmp(format, "png") == 0 ? dpi_of(d) : 72.0;
        if (s == SYN_OK) s = syn__pic_graphviz(&limits, format, dpi, text, bytes, sink, err);
        const syn_status closed = syn_sink_close(dot, false, err);
        if (s == SYN_OK) s = closed;
    }
    return s;
}

static syn_status write_picture(const syn_graph *graph, const syn_export_options *options,
                                const char *format, syn_sink *sink, syn_error *err) {
    syn__pic_drawing d = {0};
    const double most = strcmp(format, "png") == 0   ? PNG_MAX_PT
                        : strcmp(format, "pdf") == 0 ? PDF_MAX_PT - PAD_PT
                                                     : SVG_MAX_PT;
    syn_status s = draw(&d, graph, options, most, err);
    if (options != NULL) d.page = options->page;
    if (s == SYN_OK)
        s = strcmp(format, "dot") == 0 ? syn__pic_write_dot(&d, sink, err)
                                       : render(&d, format, sink, err);
    syn__pic_drawing_free(&d);
    return s;
}

static syn_status write_dot(const syn_graph *graph, const syn_export_options *options,
                            syn_sink *sink, syn_error *err) {
    return write_picture(graph, options, "dot", sink, err);
}

static syn_status write_svg(const syn_graph *graph, const syn_export_options *options,
                            syn_sink *sink, syn_error *err) {
    return write_picture(graph, options, "svg", sink, err);
}

static syn_status write_png(const syn_graph *graph, const syn_export_options *options,
                            syn_sink *sink, syn_error *err) {
    return write_picture(graph, options, "png", sink, err);
}

static syn_status write_pdf(const syn_graph *graph, const syn_export_options *options,
                            syn_sink *sink, syn_error *err) {
    return write_picture(graph, options, "pdf", sink, err);
}

const syn_exporter syn_export_dot = {"dot", "dot", write_dot};
const syn_exporter syn_export_svg = {"svg", "svg", write_svg};
const syn_exporter syn_export_png = {"png", "png", write_png};
const syn_exporter syn_export_pdf = {"pdf", "pdf", write_pdf};
