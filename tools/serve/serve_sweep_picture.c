/* Draws the picture of --sweep of `syntorch serve`: output tokens per second and GPU against mean
   TPOT, with the Pareto front. */
#include <math.h>
#include <string.h>

#include "syntorch/base/memory.h"
#include "tools/serve/serve_sweep.h"
#include "tools/sweep/sweep_plot.h"

/* Positions and sizes of the page and of the plot on it, in pixels. */
enum { MIN_WIDTH = 960, LEFT = 84, TOP = 74, WIDTH = 500, HEIGHT = 440, LIST = 614, VALUES = 776 };
enum { PAGE_HEIGHT = TOP + HEIGHT + 60, LINE = 19, LISTED = 14 };

#define RED   "#c62828"
#define GREEN "#2e7d32"
#define SMALL " font-size=\"11.5\""
#define HEAD  " font-size=\"10.5\" fill=\"#777777\""
#define END   " text-anchor=\"end\""

typedef struct plot {
    const serve_sweep *s;
    sweep_scale x, y;
    const serve_row **front;
    int n_front;
    const serve_row *cheapest;  /* that meets the limits; NULL: none does */
    double columns[SWEEP_AXES]; /* x of each axis's column in the list; 0: it has one value only */
    double width;
    bool limited, overloaded; /* there are limits, rows that are overloaded */
} plot;

static double x_of(const plot *p, const serve_row *row) {
    return LEFT + WIDTH * sweep_position(&p->x, row->f.mean.tpot_ns);
}

static double y_of(const plot *p, const serve_row *row) {
    return TOP + HEIGHT * (1 - sweep_position(&p->y, serve_tokens_per_gpu(&row->f)));
}

/* Whether the row has a point: rows whose requests have one token each have no TPOT. */
static bool is_drawn(const serve_row *row) {
    return !row->of->refused && row->f.mean.tpot_ns > 0;
}

static void draw_axes(syn_sink *svg, const plot *p) {
    char text[32];
    double value;
    for (int at = sweep_first_tick(&p->x); sweep_next_tick(&p->x, &at, &value);) {
        const double x = LEFT + WIDTH * sweep_position(&p->x, value);
        syn_sink_printf(svg, "<path d=\"M%.1f %dV%d\" stroke=\"#e4e4e4\"/>\n", x, TOP,
                        TOP + HEIGHT);
        sweep_text_at(svg, x, TOP + HEIGHT + 18, " text-anchor=\"middle\"",
                      sweep_tick_time(value, text));
    }
    for (int at = sweep_first_tick(&p->y); sweep_next_tick(&p->y, &at, &value);) {
        const double y = TOP + HEIGHT * (1 - sweep_position(&p->y, value));
        syn_sink_printf(svg, "<path d=\"M%d %.1fH%d\" stroke=\"#e4e4e4\"/>\n", LEFT, y,
                        LEFT + WIDTH);
        snprintf(text, sizeof text, "%g", value);
        sweep_text_at(svg, LEFT - 8, y + 4, END, text);
    }
    syn_sink_printf(svg,
                    "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" "
                    "stroke=\"#888888\"/>\n",
                    LEFT, TOP, WIDTH, HEIGHT);
    sweep_text_at(svg, LEFT + WIDTH / 2.0, PAGE_HEIGHT - 18, " text-anchor=\"middle\"",
                  "\xE2\x86\x90 better \xC2\xB7 mean time per output token (TPOT)");
    syn_sink_printf(
        svg,
        "<text transform=\"translate(22 %d) rotate(-90)\" text-anchor=\"middle\">output "
        "tokens per second and GPU \xC2\xB7 better \xE2\x86\x92</text>\n",
        TOP + HEIGHT / 2);
}

static void tip(syn_sink *svg, const plot *p, const serve_row *row) {
    char label[512], ttft[32], tpot[32], tail[32], text[800];
    const serve_figures *f = &row->f;
    snprintf(text, sizeof text,
             "%s: %lld GPU%s, %.4g tokens/s per GPU, mean TPOT %s, TPOT p%g %s, TTFT p%g %s%s",
             sweep_label(&p->s->all, row->of, label, sizeof label), (long long)f->gpus,
             cli_plural((uint64_t)f->gpus), serve_tokens_per_gpu(f),
             cli_time_text(f->mean.tpot_ns, tpot, sizeof tpot), p->s->percentile,
             cli_time_text(f->tail.tpot_ns, tail, sizeof tail), p->s->percentile,
             cli_time_text(f->tail.ttft_ns, ttft, sizeof ttft),
             serve_sweep_overloads(row) ? "; overloaded"
             : !p->limited              ? ""
             : row->excess <= 1         ? "; meets the limits"
                                        : "; misses a limit");
    syn_sink_text(svg, "<title>");
    syn_sink_xml_text(svg, text);
    syn_sink_text(svg, "</title>");
}

/* Shapes of the machines' markers, about 2 pixels wide: the colours alone look the same in black
   and white. */
static const char *const shapes[SWEEP_COLORS] = {
    "M-1 0a1 1 0 1 0 2 0a1 1 0 1 0 -2 0Z",
    "M-.9-.9H.9V.9H-.9Z",
    "M0-1.35L1.35 0L0 1.35L-1.35 0Z",
    "M0-1.2L1.2.9H-1.2Z",
    "M0 1.2L1.2-.9H-1.2Z",
    "M-.4-1.2H.4V-.4H1.2V.4H.4V1.2H-.4V.4H-1.2V-.4H-.4Z"};

/* Begins the marker of a machine. A row that misses a limit or is overloaded has an empty one. */
static void begin_marker(syn_sink *svg, double x, double y, bool large, bool full, int machine) {
    const double size = large ? 4.5 : 3.5;
    const char *const color = sweep_colors[machine % SWEEP_COLORS];
    syn_sink_printf(svg,
                    "<path class=\"marker\" transform=\"translate(%.1f %.1f) scale(%g)\" d=\"%s\" "
                    "fill=\"%s\" stroke=\"%s\" stroke-width=\"%.2f\">",
                    x, y, size, shapes[machine % SWEEP_COLORS], full ? color : "white", color,
                    1.2 / size);
}

static void draw_points(syn_sink *svg, const plot *p) {
    for (size_t i = 0; i < p->s->all.n; i++) {
        const serve_row *row = &p->s->rows[i];
        if (!is_drawn(row)) continue;
        begin_marker(svg, x_of(p, row), y_of(p, row), row->of->front > 0, row->excess <= 1,
                     row->of->machine);
        tip(svg, p, row);
        syn_sink_text(svg, "</path>\n");
    }
    if (!p->cheapest || !is_drawn(p->cheapest)) return;
    syn_sink_printf(svg,
                    "<path d=\"M%.1f %.1fm-9 0a9 9 0 1 0 18 0a9 9 0 1 0 -18 0\" fill=\"none\" "
                    "stroke=\"" GREEN "\" stroke-width=\"2\"/>\n",
                    x_of(p, p->cheapest), y_of(p, p->cheapest));
}

/* Draws the front as steps, because no combination lies between two of its points. */
static void draw_front(syn_sink *svg, const plot *p) {
    char number[16];
    double last_x = -100, last_y = -100;
    syn_sink_text(svg, "<path fill=\"none\" stroke=\"" RED "\" stroke-width=\"1.2\" d=\"");
    for (int k = 0; k < p->n_front; k++) {
        const double x = x_of(p, p->front[k]), y = y_of(p, p->front[k]);
        if (k == 0) syn_sink_printf(svg, "M%.1f %.1f", x, y);
        else syn_sink_printf(svg, "V%.1fH%.1f", y, x);
    }
    syn_sink_text(svg, "\"/>\n");
    for (int k = 0; k < p->n_front; k++) {
        const double x = x_of(p, p->front[k]), y = y_of(p, p->front[k]);
        if (hypot(x - last_x, y - last_y) < 15) continue; /* no space for its number */
        snprintf(number, sizeof number, "%d", k + 1);
        sweep_text_at(svg, x - 8, y - 6, " fill=\"" RED "\" font-weight=\"bold\"" END, number);
        last_x = x;
        last_y = y;
    }
}

/* ---- The list to the right of the plot ---- */

static void list_row(syn_sink *svg, const plot *p, const serve_row *row, double y) {
    const sweep *all = &p->s->all;
    char text[64];
    snprintf(text, sizeof text, "%d", row->of->front);
    sweep_text_at(svg, LIST + 14, y, SMALL END, text);
    sweep_text_at(svg, LIST + 85, y, SMALL END,
                  cli_count_text(serve_tokens_per_gpu(&row->f), text, sizeof text));
    sweep_text_at(svg, LIST + 146, y, SMALL END,
                  cli_time_text(row->f.mean.tpot_ns, text, sizeof text));
    for (int i = 0; i < all->n_axes; i++)
        if (p->columns[i] > 0)
            sweep_text_at(svg, p->columns[i], y, SMALL, sweep_value(all, row->of, i));
}

/* Explains the markers. */
static void draw_legend(syn_sink *svg, const plot *p, double y) {
    const sweep *all = &p->s->all;
    char text[160];
    for (int m = 0; m < all->n_machines && m < SWEEP_COLORS && all->n_machines > 1; m++) {
        begin_marker(svg, LIST + 8, y - 4, true, true, m);
        syn_sink_text(svg, "</path>\n");
        sweep_text_at(svg, LIST + 20, y, SMALL,
                      syn_hardware_title(&all->machines[m], text, sizeof text));
        y += LINE;
    }
    if (!p->limited && !p->overloaded) return;
    begin_marker(svg, LIST + 8, y - 4, true, false, 0);
    syn_sink_text(svg, "</path>\n");
    sweep_text_at(svg, LIST + 20, y, SMALL,
                  !p->overloaded ? "empty: misses a limit"
                  : p->limited   ? "empty: misses a limit or is overloaded"
                                 : "empty: overloaded");
    if (!p->cheapest) return;
    y += LINE;
    syn_sink_printf(svg,
                    "<path d=\"M%d %.1fm-7 0a7 7 0 1 0 14 0a7 7 0 1 0 -14 0\" fill=\"none\" "
                    "stroke=\"" GREEN "\" stroke-width=\"2\"/>\n",
                    LIST + 8, y - 4);
    sweep_text_at(svg, LIST + 20, y, SMALL, "the cheapest that meets the limits");
}

static void draw_list(syn_sink *svg, const plot *p) {
    const sweep *all = &p->s->all;
    double y = TOP + 12;
    char text[64];
    sweep_text_at(svg, LIST, y, " font-weight=\"bold\" fill=\"" RED "\"",
                  "Pareto front of throughput and TPOT");
    y += LINE;
    sweep_text_at(svg, LIST + 85, y, HEAD END, "tokens/s/GPU");
    sweep_text_at(svg, LIST + 146, y, HEAD END, "TPOT");
    for (int i = 0; i < all->n_axes; i++)
        if (p->columns[i] > 0)
            sweep_text_at(svg, p->columns[i], y, HEAD, all->axes[i].option->name);
    for (int k = 0; k < p->n_front && k < LISTED; k++) list_row(svg, p, p->front[k], y += LINE);
    if (p->n_front > LISTED) {
        snprintf(text, sizeof text, "and %d more", p->n_front - LISTED);
        sweep_text_at(svg, VALUES, y += LINE, SMALL, text);
    }
    draw_legend(svg, p, y + 2 * LINE);
}

/* ---- The page ---- */

/* Each column is about as wide as its longest text. */
static void place_columns(plot *p) {
    const sweep *all = &p->s->all;
    double x = VALUES;
    for (int i = 0; i < all->n_axes; i++) {
        size_t most = strlen(all->axes[i].option->name);
        if (all->axes[i].n < 2) continue;
        for (int k = 0; k < all->axes[i].n; k++)
            if (strlen(all->axes[i].values[k]) > most) most = strlen(all->axes[i].values[k]);
        p->columns[i] = x;
        x += 6.6 * (double)most + 16;
    }
    p->width = fmax(MIN_WIDTH, x);
}

static syn_status lay_out(plot *p, syn_error *err) {
    const serve_sweep *s = p->s;
    for (size_t i = 0; i < s->all.n; i++) {
        const serve_row *row = &s->rows[i];
        if (!is_drawn(row)) continue;
        p->overloaded = p->overloaded || serve_sweep_overloads(row);
        sweep_widen(&p->x, row->f.mean.tpot_ns);
        sweep_widen(&p->y, serve_tokens_per_gpu(&row->f));
        if (row->of->front > p->n_front) p->n_front = row->of->front;
    }
    p->x.dense = p->y.dense = true;
    sweep_settle(&p->x);
    sweep_settle(&p->y);
    p->front = syn_calloc((size_t)p->n_front + 1, sizeof *p->front);
    if (!p->front)
        return SYN_FAIL_NOMEM(err, (size_t)p->n_front * sizeof *p->front, "the picture of --sweep");
    for (size_t i = 0; i < s->all.n; i++)
        if (s->rows[i].of->front) p->front[s->rows[i].of->front - 1] = &s->rows[i];
    p->limited = s->slo.ttft_ns > 0 || s->slo.tpot_ns > 0 || s->slo.latency_ns > 0;
    p->cheapest = p->limited ? serve_sweep_cheapest(s, -1) : NULL;
    place_columns(p);
    return SYN_OK;
}

static void draw_titles(syn_sink *svg, const plot *p) {
    char slo[256], text[512];
    sweep_text_at(svg, LEFT, 26, " font-size=\"15\" font-weight=\"bold\"", p->s->all.title);
    snprintf(text, sizeof text, "%s%s%s", p->s->all.subtitle, p->limited ? "; limits: " : "",
             serve_limits_text(&p->s->slo, p->s->percentile, slo, sizeof slo));
    sweep_text_at(svg, LEFT, 46, " fill=\"#555555\"", text);
}

syn_status serve_sweep_draw(const serve_sweep *s, const char *path, syn_error *err) {
    plot p = {.s = s, .x = SWEEP_NO_SCALE, .y = SWEEP_NO_SCALE};
    syn_sink *svg;
    syn_status status = lay_out(&p, err);
    if (status == SYN_OK) status = syn_sink_open_file(&svg, path, err);
    if (status != SYN_OK) {
        syn_free(p.front);
        return status;
    }
    syn_sink_printf(svg,
                    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%d\" "
                    "viewBox=\"0 0 %.0f %d\" font-family=\"DejaVu Sans, sans-serif\" "
                    "font-size=\"12\" fill=\"#222222\">\n"
                    "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
                    p.width, PAGE_HEIGHT, p.width, PAGE_HEIGHT);
    draw_titles(svg, &p);
    if (p.n_front > 0) {
        draw_axes(svg, &p);
        draw_front(svg, &p);
        draw_points(svg, &p);
        draw_list(svg, &p);
    } else {
        sweep_text_at(svg, LEFT, TOP + 20, "", "No combination has a point to draw.");
    }
    syn_sink_text(svg, "</svg>\n");
    syn_free(p.front);
    return syn_sink_close(svg, true, err);
}
