/* Draws the picture of a sweep. It shows time against cost with the Pareto front. If only one
   option varies, it instead shows a column for each value, divided into the shares of its time. */
#include <math.h>
#include <string.h>

#include "syntorch/base/memory.h"
#include "tools/limits.h"
#include "tools/sweep/sweep_plot.h"

/* Positions and sizes of the page and of the plot on it, in pixels. */
enum { MIN_WIDTH = 900, LEFT = 80, TOP = 70, WIDTH = 500, HEIGHT = 440, LIST = 610 };
enum { PAGE_HEIGHT = TOP + HEIGHT + 60, LINE = 19, LISTED = 15 };

typedef struct plot {
    const sweep *s;
    sweep_scale x, y;
    const sweep_row **front;
    int n_front;
    double columns[SWEEP_AXES]; /* x of each axis's column in the list; 0: the axis has only one
                                   value and no column */
    double width;               /* width of the page */
    const sweep_axis *only; /* the only axis that varies; NULL: several axes vary, or this axis has
                               too many values */
    double column;          /* width of a value's column, if `only` is set */
} plot;

static double x_of(const plot *p, double time) {
    return LEFT + WIDTH * sweep_position(&p->x, time);
}

static double y_of(const plot *p, double cost) {
    return TOP + HEIGHT * (1 - sweep_position(&p->y, cost));
}

static const char *time_title(const sweep *s) {
    return s->training ? "predicted time per million tokens" : "predicted time of the run";
}

static void draw_axes(syn_sink *svg, const plot *p) {
    char text[32];
    double value;
    const char *const grid = "stroke=\"#e4e4e4\"";
    for (int at = sweep_first_tick(&p->x); sweep_next_tick(&p->x, &at, &value);) {
        const double x = x_of(p, value);
        syn_sink_printf(svg, "<path d=\"M%.1f %dV%d\" %s/>\n", x, TOP, TOP + HEIGHT, grid);
        sweep_text_at(svg, x, TOP + HEIGHT + 18, " text-anchor=\"middle\"",
                      sweep_tick_time(value, text));
    }
    for (int at = sweep_first_tick(&p->y); sweep_next_tick(&p->y, &at, &value);) {
        const double y = y_of(p, value);
        syn_sink_printf(svg, "<path d=\"M%d %.1fH%d\" %s/>\n", LEFT, y, LEFT + WIDTH, grid);
        snprintf(text, sizeof text, "%g", value);
        sweep_text_at(svg, LEFT - 8, y + 4, " text-anchor=\"end\"", text);
    }
    syn_sink_printf(svg,
                    "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" "
                    "stroke=\"#888888\"/>\n",
                    LEFT, TOP, WIDTH, HEIGHT);
    sweep_text_at(svg, LEFT + WIDTH / 2.0, PAGE_HEIGHT - 18, " text-anchor=\"middle\"",
                  time_title(p->s));
    syn_sink_printf(svg,
                    "<text transform=\"translate(22 %d) rotate(-90)\" text-anchor=\"middle\">cost: "
                    "GPU-seconds per 1000 tokens</text>\n",
                    TOP + HEIGHT / 2);
}

static void tip(syn_sink *svg, const plot *p, const sweep_row *row) {
    char label[512], time[32], text[700];
    snprintf(text, sizeof text, "%s: %s, %.3g GPU-s per 1000 tokens",
             sweep_label(p->s, row, label, sizeof label),
             cli_time_text(sweep_time(p->s, row), time, sizeof time), sweep_cost(row));
    syn_sink_text(svg, "<title>");
    syn_sink_xml_text(svg, text);
    syn_sink_text(svg, "</title>");
}

static void draw_points(syn_sink *svg, const plot *p) {
    const sweep *s = p->s;
    for (size_t i = 0; i < s->n; i++) {
        const sweep_row *row = &s->rows[i];
        if (row->refused) continue;
        syn_sink_printf(svg, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%s\" fill=\"%s\">",
                        x_of(p, sweep_time(s, row)), y_of(p, sweep_cost(row)),
                        row->front ? "4.5" : "3", sweep_colors[row->machine % SWEEP_COLORS]);
        tip(svg, p, row);
        syn_sink_text(svg, "</circle>\n");
    }
}

/* Draws the front as steps, because no combination lies between two of its points. */
static void draw_front(syn_sink *svg, const plot *p) {
    char number[16];
    double last_x = -100, last_y = -100;
    syn_sink_text(svg, "<path fill=\"none\" stroke=\"#c62828\" stroke-width=\"1.2\" d=\"");
    for (int k = 1; k <= p->n_front; k++) {
        const sweep_row *row = p->front[k - 1];
        const double x = x_of(p, sweep_time(p->s, row)), y = y_of(p, sweep_cost(row));
        if (k == 1) syn_sink_printf(svg, "M%.1f %.1f", x, y);
        else syn_sink_printf(svg, "H%.1fV%.1f", x, y);
    }
    syn_sink_text(svg, "\"/>\n");
    for (int k = 1; k <= p->n_front; k++) {
        const sweep_row *row = p->front[k - 1];
        const double x = x_of(p, sweep_time(p->s, row)), y = y_of(p, sweep_cost(row));
        if (hypot(x - last_x, y - last_y) < 15) continue; /* no space for its number */
        snprintf(number, sizeof number, "%d", k);
        sweep_text_at(svg, x - 6, y + 14,
                      " fill=\"#c62828\" font-weight=\"bold\" text-anchor=\"end\"", number);
        last_x = x;
        last_y = y;
    }
}

/* Formats a cost without an exponent: "31.4". */
static const char *cost_text(double cost, char buf[32]) {
    const int digits = cost >= 99.95 ? 0 : cost >= 9.995 ? 1 : cost >= 0.9995 ? 2 : 4;
    snprintf(buf, 32, "%.*f", digits, cost);
    return buf;
}

#define HEAD " font-size=\"10.5\" fill=\"#777777\""

/* Draws the list to the right of the plot: the combinations of the front, and the colours of the
   machines. */
static void draw_list(syn_sink *svg, const plot *p) {
    static const char *const right = " font-size=\"11.5\" text-anchor=\"end\"";
    static const char *const left = " font-size=\"11.5\"";
    double y = TOP + 12;
    char text[512];
    sweep_text_at(svg, LIST, y, " font-weight=\"bold\" fill=\"#c62828\"",
                  "Pareto front: none is faster and cheaper");
    y += LINE;
    sweep_text_at(svg, LIST + 75, y, HEAD " text-anchor=\"end\"", "time");
    sweep_text_at(svg, LIST + 125, y, HEAD " text-anchor=\"end\"", "cost");
    for (int i = 0; i < p->s->n_axes; i++)
        if (p->columns[i] > 0)
            sweep_text_at(svg, p->columns[i], y, HEAD, p->s->axes[i].option->name);
    for (int k = 1; k <= p->n_front && k <= LISTED; k++) {
        const sweep_row *row = p->front[k - 1];
        y += LINE;
        snprintf(text, sizeof text, "%d", k);
        sweep_text_at(svg, LIST + 14, y, right, text);
        sweep_text_at(svg, LIST + 75, y, right, cli_time_text(sweep_time(p->s, row), text, 32));
        sweep_text_at(svg, LIST + 125, y, right, cost_text(sweep_cost(row), text));
        for (int i = 0; i < p->s->n_axes; i++)
            if (p->columns[i] > 0)
                sweep_text_at(svg, p->columns[i], y, left, p->s->axes[i].values[row->at[i]]);
    }
    if (p->n_front > LISTED) {
        snprintf(text, sizeof text, "and %d more", p->n_front - LISTED);
        sweep_text_at(svg, LIST + 143, y += LINE, left, text);
    }
    y += 2 * LINE;
    for (int m = 0; m < p->s->n_machines && m < SWEEP_COLORS; m++, y += LINE) {
        syn_sink_printf(svg, "<circle cx=\"%d\" cy=\"%.1f\" r=\"4\" fill=\"%s\"/>\n", LIST + 8,
                        y - 4, sweep_colors[m]);
        sweep_text_at(svg, LIST + 20, y, left,
                      syn_hardware_title(&p->s->machines[m], text, sizeof text));
    }
}

/* ---- One option alone ---- */

enum { MIN_COLUMN = 76, BAR = 48, MAX_COLUMNS = 16 };

static const char *const limit_colors[LIMITS_SHARES] = {[SYN_LIMIT_COMPUTE] = "#4f7aa8",
                                                        [SYN_LIMIT_MEMORY] = "#4c9f70",
                                                        [SYN_LIMIT_LAUNCH] = "#b9bec4",
                                                        [SYN_LIMIT_COMMUNICATION] = "#c62828",
                                                        [LIMITS_BUBBLE] = "#d9a441"};

/* The number of shares that the picture shows: with the bubble if there is one. */
static int n_shares(const sweep *s) {
    for (size_t i = 0; i < s->n; i++)
        if (s->rows[i].t.shares[LIMITS_BUBBLE] > 0) return LIMITS_SHARES;
    return SYN_LIMIT_COUNT;
}

/* Returns the only axis with several values; NULL if several axes have them, or if there are too
   many values to draw them side by side. */
static const sweep_axis *only_axis(const sweep *s) {
    const sweep_axis *only = NULL;
    for (int i = 0; i < s->n_axes; i++) {
        if (s->axes[i].n < 2) continue;
        if (only) return NULL;
        only = &s->axes[i];
    }
    return only && only->n <= MAX_COLUMNS ? only : NULL;
}

static double middle_of(const plot *p, size_t row) {
    return LEFT + p->column * ((double)row + 0.5);
}

/* Draws the time axis from 0 to `top`, with lines at multiples of 1, 2 or 5 times a power of
   ten. */
static void draw_times(syn_sink *svg, const plot *p, double top) {
    const double right = LEFT + p->column * (double)p->s->n,
                 decade = pow(10, floor(log10(top / 5)));
    const double step = decade * (top / 5 < 2 * decade ? 1 : top / 5 < 5 * decade ? 2 : 5);
    char text[32];
    for (double t = 0; t < top; t += step) {
        const double y = TOP + HEIGHT * (1 - t / top);
        syn_sink_printf(svg, "<path d=\"M%d %.1fH%.1f\" stroke=\"%s\"/>\n", LEFT, y, right,
                        t > 0 ? "#e4e4e4" : "#888888");
        if (t > 0)
            sweep_text_at(svg, LEFT - 8, y + 4, " text-anchor=\"end\"", sweep_tick_time(t, text));
    }
    syn_sink_printf(svg,
                    "<text transform=\"translate(18 %d) rotate(-90)\" text-anchor=\"middle\">%s"
                    "</text>\n",
                    TOP + HEIGHT / 2, time_title(p->s));
}

/* Draws the shares of a row's time as a stacked bar with compute at the bottom. Shares that are
   high enough are labelled with their percentage. */
static void draw_column(syn_sink *svg, const plot *p, size_t i, double top) {
    const sweep *s = p->s;
    const sweep_row *row = &s->rows[i];
    const double x = middle_of(p, i), time = sweep_time(s, row);
    double y = TOP + HEIGHT;
    char text[32];
    for (int k = 0; k < n_shares(s); k++) {
        const double h = HEIGHT * time / top * row->t.shares[k];
        y -= h;
        snprintf(text, sizeof text, "%.0f%%", 100 * row->t.shares[k]);
        syn_sink_printf(svg,
                        "<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%.1f\" fill=\"%s\">"
                        "<title>%s %s</title></rect>\n",
                        x - BAR / 2.0, y, BAR, h, limit_colors[k], limits_name(k), text);
        if (h >= 14)
            sweep_text_at(svg, x, y + h / 2 + 4,
                          k == SYN_LIMIT_LAUNCH
                              ? " font-size=\"11\" text-anchor=\"middle\""
                              : " font-size=\"11\" text-anchor=\"middle\" fill=\"white\"",
                          text);
    }
    sweep_text_at(svg, x, y - 6, " font-weight=\"bold\" text-anchor=\"middle\"",
                  cli_time_text(time, text, sizeof text));
}

/* Draws the labels: value, cost and memory below each column, and the legend to the right. */
static void draw_words(syn_sink *svg, const plot *p) {
    const sweep *s = p->s;
    const sweep_axis *of = p->only;
    static const char *const middle = " text-anchor=\"middle\"";
    const double y = TOP + HEIGHT + 20, right = LEFT + p->column * (double)s->n + 12;
    char text[160];
    for (size_t i = 0; i < s->n; i++) {
        const sweep_row *row = &s->rows[i];
        sweep_text_at(svg, middle_of(p, i), y, " font-weight=\"bold\" text-anchor=\"middle\"",
                      of->values[i]);
        if (row->refused) {
            sweep_text_at(svg, middle_of(p, i), y - 30, middle,
                          row->too_large ? "too large" : "impossible");
            continue;
        }
        sweep_text_at(svg, middle_of(p, i), y + LINE, middle, cost_text(sweep_cost(row), text));
        sweep_text_at(svg, middle_of(p, i), y + 2 * LINE, middle,
                      cli_bytes_text(row->t.rank_bytes, text, sizeof text));
    }
    sweep_text_at(svg, right, y, " font-weight=\"bold\"", of->option->name);
    sweep_text_at(svg, right, y + LINE, "", "GPU-seconds per 1000 tokens");
    sweep_text_at(svg, right, y + 2 * LINE, "", "memory per rank");
    const int n = n_shares(s);
    for (int k = 0; k < n; k++) {
        const double at = TOP + LINE * (n - k);
        syn_sink_printf(svg,
                        "<rect x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"12\" fill=\"%s\"/>\n",
                        right, at - 10, limit_colors[k]);
        sweep_text_at(svg, right + 20, at, "", limits_name(k));
    }
    if (s->n_machines == 1)
        sweep_text_at(svg, right, TOP + LINE * (n + 2), "",
                      syn_hardware_title(&s->machines[0], text, sizeof text));
}

static void draw_columns(syn_sink *svg, const plot *p) {
    const sweep *s = p->s;
    double most = 0;
    for (size_t i = 0; i < s->n; i++)
        if (!s->rows[i].refused) most = fmax(most, sweep_time(s, &s->rows[i]));
    draw_times(svg, p, 1.08 * most);
    for (size_t i = 0; i < s->n; i++)
        if (!s->rows[i].refused) draw_column(svg, p, i, 1.08 * most);
    draw_words(svg, p);
}

/* ---- The page ---- */

/* Each column is about as wide as its longest text. */
static void place_columns(plot *p) {
    double x = LIST + 143;
    for (int i = 0; i < p->s->n_axes; i++) {
        const sweep_axis *of = &p->s->axes[i];
        size_t most = strlen(of->option->name);
        if (of->n < 2) continue;
        for (int k = 0; k < of->n; k++)
            if (strlen(of->values[k]) > most) most = strlen(of->values[k]);
        p->columns[i] = x;
        x += 6.6 * (double)most + 16;
    }
    p->width = fmax(MIN_WIDTH, x);
}

static void place_bars(plot *p) {
    p->only = only_axis(p->s);
    p->column = MIN_COLUMN;
    for (int i = 0; p->only && i < p->only->n; i++)
        p->column = fmax(p->column, 7.6 * (double)strlen(p->only->values[i]) + 14);
    if (p->only) p->width = LEFT + p->column * p->only->n + 220;
}

/* Computes the axes, the front and the columns of the list. */
static syn_status lay_out(plot *p, syn_error *err) {
    const sweep *s = p->s;
    for (size_t i = 0; i < s->n; i++) {
        const sweep_row *row = &s->rows[i];
        if (row->refused) continue;
        sweep_widen(&p->x, sweep_time(s, row));
        sweep_widen(&p->y, sweep_cost(row));
        if (row->front > p->n_front) p->n_front = row->front;
    }
    sweep_settle(&p->x);
    sweep_settle(&p->y);
    p->front = syn_calloc((size_t)p->n_front + 1, sizeof *p->front);
    if (!p->front) return SYN_FAIL_NOMEM(err, (size_t)p->n_front * sizeof *p->front, "sweep.svg");
    for (size_t i = 0; i < s->n; i++)
        if (s->rows[i].front) p->front[s->rows[i].front - 1] = &s->rows[i];
    place_columns(p);
    place_bars(p);
    return SYN_OK;
}

syn_status sweep_draw(const sweep *s, const char *path, syn_error *err) {
    plot p = {.s = s, .x = SWEEP_NO_SCALE, .y = SWEEP_NO_SCALE};
    syn_sink *svg;
    char title[200];
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
    sweep_text_at(svg, LEFT, 26, " font-size=\"15\" font-weight=\"bold\"",
                  sweep_title(s, title, sizeof title));
    sweep_text_at(svg, LEFT, 46, " fill=\"#555555\"", s->subtitle);
    if (p.n_front > 0 && p.only) {
        draw_columns(svg, &p);
    } else if (p.n_front > 0) {
        draw_axes(svg, &p);
        draw_front(svg, &p);
        draw_points(svg, &p);
        draw_list(svg, &p);
    } else {
        sweep_text_at(svg, LEFT, TOP + 20, "", "No combination is possible.");
    }
    syn_sink_text(svg, "</svg>\n");
    syn_free(p.front);
    return syn_sink_close(svg, true, err);
}
