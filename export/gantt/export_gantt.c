/* Draws a Gantt chart of training steps as SVG: a row for each rank, with a numbered box for each
   forward and backward pass of a microbatch. The space between boxes is the bubble of a pipeline.
   Ranks with equal rows share one. It needs no layout program, unlike the pictures of graphs. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "export/export.h"
#include "export/walk/passes.h"
#include "export/walk/timeline.h"
#include "syntorch/base/memory.h"

/* Sizes in pixels. */
enum { LEFT = 150, WIDTH = 1150, RIGHT = 110, TOP = 96, ROW = 24, GAP = 8, LEAST_TEXT = 9 };

/* A box of the chart. */
typedef struct pass {
    syn__pass_kind kind;
    double start_ns, end_ns;
    int64_t chunk;
    int32_t number;
} pass;

typedef struct row {
    uint32_t rank; /* index in the graph */
    size_t first, n;
    uint32_t alike; /* further ranks with the same passes; `other` is one of them */
    uint32_t other;
} row;

/* Passes of chunks other than the first one of a rank are lighter. */
#define LATER_CHUNK " fill-opacity=\"0.7\""

typedef struct chart {
    const syn__timeline *timeline;
    pass *passes;
    size_t n_passes, passes_cap;
    row *rows;
    uint32_t n_rows;
    double end_ns;
} chart;

/* ---- The boxes of a rank ---- */

static syn_status add_box(chart *c, const pass *p, syn_error *err) {
    SYN_TRY(syn_grow(&c->passes, &c->passes_cap, c->n_passes + 1, sizeof *c->passes, err));
    c->passes[c->n_passes++] = *p;
    return SYN_OK;
}

/* Adds the box of a pass. In the optimizer, a rank that waited for others begins another box. */
static syn_status add_pass(chart *c, uint32_t place, const syn__pass *p, syn_error *err) {
    const syn__timeline *t = c->timeline;
    syn_cursor cursor = {0};
    pass now = {.kind = p->kind, .start_ns = -1, .chunk = p->chunk, .number = p->number};
    syn_status s = SYN_OK;
    for (uint32_t i = p->first; i <= p->last && s == SYN_OK; i++) {
        const syn_node *node = syn_graph_node(t->graph, t->ranks[place], i, &cursor);
        const syn__span *span = &t->spans[t->span_first[place] + i];
        if (!node) s = SYN_FAIL(err, cursor.error.code, "%s", cursor.error.text);
        if (!node || node->comm != SYN_COMM_NONE || !(span->end_ns > span->start_ns)) continue;
        if (now.start_ns >= 0 && p->kind == SYN__PASS_OPTIMIZER && span->start_ns > now.end_ns) {
            s = add_box(c, &now, err);
            now.start_ns = -1;
        }
        if (now.start_ns < 0) now.start_ns = span->start_ns;
        if (span->end_ns > now.end_ns) now.end_ns = span->end_ns;
    }
    syn_cursor_free(&cursor);
    return s == SYN_OK && now.start_ns >= 0 ? add_box(c, &now, err) : s;
}

static syn_status add_rank(chart *c, uint32_t place, syn_error *err) {
    const size_t first = c->n_passes;
    syn__pass *passes;
    size_t n;
    SYN_TRY(syn__passes_find(&passes, &n, c->timeline->graph, c->timeline->ranks[place], err));
    syn_status s = SYN_OK;
    for (size_t i = 0; i < n && s == SYN_OK; i++) s = add_pass(c, place, &passes[i], err);
    syn_free(passes);
    c->rows[c->n_rows++] = (row){c->timeline->ranks[place], first, c->n_passes - first, 0, 0};
    return s;
}

static bool same_passes(const chart *c, const row *a, const row *b) {
    return a->n == b->n &&
           memcmp(c->passes + a->first, c->passes + b->first, a->n * sizeof *c->passes) == 0;
}

/* Drops the last row if an earlier one has the same passes. */
static void fold(chart *c) {
    const row *last = &c->rows[c->n_rows - 1];
    for (uint32_t i = 0; i + 1 < c->n_rows; i++)
        if (same_passes(c, &c->rows[i], last)) {
            c->rows[i].alike++;
            c->rows[i].other = last->rank;
            c->n_passes = last->first;
            c->n_rows--;
            return;
        }
}

static syn_status find_passes(chart *c, syn_error *err) {
    const syn__timeline *t = c->timeline;
    c->rows = syn_calloc(t->n_ranks + 1, sizeof *c->rows);
    if (!c->rows) return SYN_FAIL_NOMEM(err, t->n_ranks * sizeof *c->rows, "rows of a chart");
    for (uint32_t place = 0; place < t->n_ranks; place++) {
        SYN_TRY(add_rank(c, place, err));
        fold(c);
    }
    for (size_t i = 0; i < t->span_first[t->n_ranks]; i++)
        if (t->spans[i].end_ns > c->end_ns) c->end_ns = t->spans[i].end_ns;
    return SYN_OK;
}

/* ---- Drawing ---- */

static const char *const colors[SYN__PASS_KINDS] = {[SYN__PASS_FORWARD] = "#4f7aa8",
                                                    [SYN__PASS_BACKWARD] = "#4c9f70",
                                                    [SYN__PASS_WEIGHTS] = "#a9cfb8",
                                                    [SYN__PASS_OPTIMIZER] = "#b9bec4"};
#define BUBBLE "#f6e3bd"

static void text_at(syn_sink *svg, double x, double y, const char *how, const char *text) {
    syn_sink_printf(svg, "<text x=\"%.1f\" y=\"%.1f\"%s>", x, y, how);
    syn_sink_xml_text(svg, text);
    syn_sink_text(svg, "</text>\n");
}

static double x_of(const chart *c, double ns) {
    return LEFT + WIDTH * ns / c->end_ns;
}

/* Formats a time with a unit: "200 ms". */
static const char *time_text(double ns, char buf[32]) {
    static const char *const units[] = {"ns", "\xC2\xB5s", "ms", "s"};
    int u = 0;
    for (; u < 3 && ns >= 999.5; u++) ns /= 1000;
    snprintf(buf, 32, "%.3g %s", ns, units[u]);
    return buf;
}

/* Draws the time axis, with lines at multiples of 1, 2 or 5 times a power of ten. */
static void draw_axis(syn_sink *svg, const chart *c) {
    const double decade = pow(10, floor(log10(c->end_ns / 5)));
    const double step = decade * (c->end_ns / 5 < 2 * decade   ? 1
                                  : c->end_ns / 5 < 5 * decade ? 2
                                                               : 5);
    const int bottom = TOP + (int)c->n_rows * (ROW + GAP);
    char text[32];
    for (double t = 0; t <= c->end_ns; t += step) {
        syn_sink_printf(svg, "<path d=\"M%.1f %dV%d\" stroke=\"#e4e4e4\"/>\n", x_of(c, t), TOP - 8,
                        bottom);
        text_at(svg, x_of(c, t), TOP - 14, " fill=\"#777777\" text-anchor=\"middle\"",
                time_text(t, text));
    }
}

static void draw_pass(syn_sink *svg, const chart *c, const pass *p, int64_t first_chunk, int y) {
    const double x = x_of(c, p->start_ns), width = x_of(c, p->end_ns) - x;
    char number[16] = "", from[32], until[32];
    if (p->number > 0) snprintf(number, sizeof number, "%d", (int)p->number);
    syn_sink_printf(svg,
                    "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" fill=\"%s\"%s "
                    "stroke=\"white\" stroke-width=\"0.5\"><title>%s %s, %s to %s</title></rect>\n",
                    x, y, width, ROW, colors[p->kind],
                    p->number > 0 && p->chunk > first_chunk ? LATER_CHUNK : "",
                    syn__pass_name(p->kind), number, time_text(p->start_ns, from),
                    time_text(p->end_ns, until));
    if (*number && width >= LEAST_TEXT)
        text_at(svg, x + width / 2, y + ROW / 2 + 4,
                p->kind == SYN__PASS_WEIGHTS ? " text-anchor=\"middle\""
                                             : " text-anchor=\"middle\" fill=\"white\"",
                number);
}

/* Draws the passes of a row on a band in the colour of the bubble. */
static void draw_row(syn_sink *svg, const chart *c, uint32_t i) {
    const row *r = &c->rows[i];
    const int y = TOP + (int)i * (ROW + GAP);
    double busy = 0;
    char text[64], more[32] = "";
    const syn_graph_rank *ranks = c->timeline->graph->ranks;
    if (r->alike == 1) snprintf(more, sizeof more, " and %d", (int)ranks[r->other].rank);
    if (r->alike > 1) snprintf(more, sizeof more, " and %u identical", (unsigned)r->alike);
    snprintf(text, sizeof text, "rank%s %d%s", r->alike == 1 ? "s" : "", (int)ranks[r->rank].rank,
             more);
    text_at(svg, LEFT - 10, y + ROW / 2 + 4, " text-anchor=\"end\"", text);
    syn_sink_printf(svg, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\"/>\n", LEFT,
                    y, WIDTH, ROW, BUBBLE);
    int64_t first_chunk = INT64_MAX;
    for (size_t k = r->first; k < r->first + r->n; k++)
        if (c->passes[k].number > 0 && c->passes[k].chunk < first_chunk)
            first_chunk = c->passes[k].chunk;
    for (size_t k = r->first; k < r->first + r->n; k++) {
        draw_pass(svg, c, &c->passes[k], first_chunk, y);
        busy += c->passes[k].end_ns - c->passes[k].start_ns;
    }
    snprintf(text, sizeof text, "%.0f%% bubble", 100 * (1 - busy / c->end_ns));
    text_at(svg, LEFT + WIDTH + 10, y + ROW / 2 + 4, "", text);
}

static bool has_kind(const chart *c, int kind) {
    for (size_t i = 0; i < c->n_passes; i++)
        if ((int)c->passes[i].kind == kind) return true;
    return kind == SYN__PASS_KINDS;
}

static void draw_legend(syn_sink *svg, const chart *c) {
    double x = LEFT;
    for (int k = 0; k <= SYN__PASS_KINDS; k++) {
        if (!has_kind(c, k)) continue;
        const char *name = k < SYN__PASS_KINDS ? syn__pass_name((syn__pass_kind)k)
                                               : "bubble: waiting for other ranks";
        syn_sink_printf(svg, "<rect x=\"%.0f\" y=\"44\" width=\"14\" height=\"14\" fill=\"%s\"/>\n",
                        x, k < SYN__PASS_KINDS ? colors[k] : BUBBLE);
        text_at(svg, x + 20, 55, "", name);
        x += 40 + 7.0 * (double)strlen(name);
    }
}

static const char *metadata_text(const syn_graph *graph, const char *name) {
    const syn_attribute *a = syn_graph_meta(graph, name);
    return a && a->type == SYN_VALUE_TEXT ? a->text : NULL;
}

static void draw(syn_sink *svg, const chart *c, const syn_export_options *options) {
    const syn_graph *graph = c->timeline->graph;
    const char *model = metadata_text(graph, "model"), *schedule = metadata_text(graph, "schedule");
    char title[200], time[32];
    snprintf(title, sizeof title, "%.100s%s%.20s: %s", model ? model : "Training step",
             schedule ? ", schedule " : "", schedule ? schedule : "", time_text(c->end_ns, time));
    const int height = TOP + (int)c->n_rows * (ROW + GAP) + 12, width = LEFT + WIDTH + RIGHT;
    syn_sink_printf(svg,
                    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                    "viewBox=\"0 0 %d %d\" font-family=\"DejaVu Sans, sans-serif\" "
                    "font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
                    width, height, width, height);
    text_at(svg, LEFT, 28, " font-size=\"18\" font-weight=\"bold\"",
            options && options->title ? options->title : title);
    draw_legend(svg, c);
    draw_axis(svg, c);
    for (uint32_t i = 0; i < c->n_rows; i++) draw_row(svg, c, i);
    syn_sink_text(svg, "</svg>\n");
}

static syn_status write_gantt(const syn_graph *graph, const syn_export_options *options,
                              syn_sink *sink, syn_error *err) {
    syn__timeline timeline;
    chart c = {.timeline = &timeline};
    SYN_TRY(syn__timeline_make(&timeline, graph, options, NULL, err));
    syn_status s = SYN_OK;
    if (timeline.clock == SYN__CLOCK_ORDER)
        s = SYN_FAIL(err, SYN_E_INVALID, "a Gantt chart needs times, and this trace has none");
    if (s == SYN_OK) s = find_passes(&c, err);
    if (s == SYN_OK && !(c.end_ns > 0))
        s = SYN_FAIL(err, SYN_E_INVALID, "a Gantt chart needs ops, and this trace has none");
    if (s == SYN_OK) draw(sink, &c, options);
    syn_free(c.passes);
    syn_free(c.rows);
    syn__timeline_free(&timeline);
    return s;
}

const syn_exporter syn_export_gantt = {"gantt", "gantt.svg", write_gantt};
