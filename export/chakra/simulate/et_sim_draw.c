/* Draws the results of a simulation as SVG. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "export/simulate.h"
#include "syntorch/base/memory.h"

#define COMPUTE "#4f7aa8"
#define EXPOSED "#d98d3f"
#define WAITING "#f6e3bd"

/* Sizes in pixels. */
enum { LEFT = 190, WIDTH = 1024, RIGHT = 40, TOP = 84, MOST_ROWS = 128 };

const char *syn_simulation_ranks(const syn_simulation *sim, int32_t first, char *text,
                                 size_t bytes) {
    size_t used = 0;
    for (size_t i = 0, end; i < sim->n_ranks; i = end) {
        end = i + 1;
        if (sim->ranks[i].same_as != first) continue;
        while (end < sim->n_ranks && sim->ranks[end].same_as == first &&
               sim->ranks[end].rank == sim->ranks[end - 1].rank + 1)
            end++;
        char part[32];
        const int32_t from = sim->ranks[i].rank, to = sim->ranks[end - 1].rank;
        const int n = from == to ? snprintf(part, sizeof part, "%" PRId32, from)
                                 : snprintf(part, sizeof part, "%" PRId32 "-%" PRId32, from, to);
        if (used + (size_t)n + 6 > bytes) {
            snprintf(text + used, bytes - used, ",...");
            return text;
        }
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", used > 0 ? "," : "", part);
    }
    return text;
}

/* Formats a time with a unit: "200 ms". */
static const char *time_text(double ns, char buf[32]) {
    static const char *const units[] = {"ns", "\xC2\xB5s", "ms", "s"};
    int u = 0;
    for (; u < 3 && ns >= 999.5; u++) ns /= 1000;
    snprintf(buf, 32, "%.3g %s", ns, units[u]);
    return buf;
}

static const char *bytes_text(double bytes, char buf[32]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int u = 0;
    for (; u < 4 && bytes >= 1000; u++) bytes /= 1024;
    snprintf(buf, 32, "%.3g %s", bytes, units[u]);
    return buf;
}

static void begin(syn_sink *svg, double width, double height) {
    syn_sink_printf(svg,
                    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
                    "viewBox=\"0 0 %.0f %.0f\" font-family=\"Helvetica, Arial, sans-serif\" "
                    "font-size=\"12\" fill=\"#222\">\n<rect width=\"100%%\" height=\"100%%\" "
                    "fill=\"white\"/>\n",
                    width, height, width, height);
}

static void text_at(syn_sink *svg, double x, double y, const char *how, const char *text) {
    syn_sink_printf(svg, "<text x=\"%.1f\" y=\"%.1f\"%s>", x, y, how);
    syn_sink_xml_text(svg, text);
    syn_sink_text(svg, "</text>\n");
}

static void box(syn_sink *svg, double x, double y, double width, double height, const char *color) {
    syn_sink_printf(svg,
                    "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\"/>\n", x,
                    y, width, height, color);
}

/* ---- Times ---- */

static void draw_legend(syn_sink *svg, double y) {
    static const char *const names[] = {"computation", "exposed communication", "waiting"};
    static const char *const colors[] = {COMPUTE, EXPOSED, WAITING};
    double x = LEFT;
    for (int i = 0; i < 3; i++) {
        box(svg, x, y - 10, 12, 12, colors[i]);
        text_at(svg, x + 18, y, "", names[i]);
        x += i == 0 ? 120 : 180;
    }
}

/* Draws one color of a row as a path: the share of each part is its height. `under`: shares below
   this color, or NULL. */
static void draw_shares(syn_sink *svg, const float *shares, const float *under, size_t n, double y,
                        double height, const char *color) {
    const double step = WIDTH / (double)n;
    bool open = false;
    syn_sink_printf(svg, "<path fill=\"%s\" d=\"", color);
    for (size_t i = 0; i < n; i++) {
        const double base = under != NULL ? under[i] : 0, top = fmin(1, base + shares[i]);
        open = shares[i] > 0.002f;
        if (open)
            syn_sink_printf(svg, "M%.2f %.2fh%.2fv%.2fh%.2fz", LEFT + step * (double)i,
                            y + height * (1 - base), step, -height * (top - base), -step);
    }
    syn_sink_text(svg, "\"/>\n");
}

static void draw_axis(syn_sink *svg, const syn_simulation *sim, double top, double bottom) {
    char text[32];
    const double all = (double)sim->end_ns;
    double step = pow(10, floor(log10(all > 1 ? all : 1)));
    while (all / step < 5) step /= 2;
    for (double at = 0; at <= all; at += step) {
        const double x = LEFT + WIDTH * at / (all > 0 ? all : 1);
        syn_sink_printf(svg,
                        "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#999\" "
                        "stroke-width=\"0.5\"/>\n",
                        x, top - 4, x, bottom);
        text_at(svg, x, top - 8, " text-anchor=\"middle\" fill=\"#666\"", time_text(at, text));
        if (all == 0) break;
    }
}

void syn_simulation_draw_times(const syn_simulation *sim, syn_sink *svg) {
    const size_t n_rows = sim->n_distinct < MOST_ROWS ? sim->n_distinct : MOST_ROWS;
    const double row = n_rows > 32 ? 12 : 24, gap = n_rows > 32 ? 2 : 6;
    const double bottom = TOP + (row + gap) * (double)n_rows;
    const double last = sim->part_ns > 0 ? (double)sim->end_ns / (double)sim->part_ns : 0;
    const size_t n = last < SYN_SIMULATED_PARTS ? (size_t)ceil(last) : SYN_SIMULATED_PARTS;
    char text[128], time[32];
    size_t shown = 0;
    begin(svg, LEFT + WIDTH + RIGHT, bottom + 30);
    snprintf(text, sizeof text, "%zu ranks, %s%s", sim->n_ranks,
             time_text((double)sim->end_ns, time), sim->deadlock != NULL ? ", deadlock" : "");
    text_at(svg, 16, 28, " font-size=\"16\"", text);
    draw_legend(svg, 28);
    draw_axis(svg, sim, TOP, bottom);
    for (size_t i = 0; i < sim->n_ranks && shown < n_rows && n > 0; i++) {
        const syn_simulated_rank *r = &sim->ranks[i];
        if (r->same_as != r->rank) continue;
        const double y = TOP + (row + gap) * (double)shown++;
        /* parts are wider than the run if it ends within the last one */
        const double scale = (double)n / fmax(last, 1e-9);
        snprintf(text, sizeof text,
                 "<g transform=\"translate(%d 0) scale(%.6f 1) translate(%d "
                 "0)\">\n",
                 LEFT, scale, -LEFT);
        text_at(svg, LEFT - 10, y + row / 2 + 4, " text-anchor=\"end\"",
                syn_simulation_ranks(sim, r->rank, time, sizeof time));
        box(svg, LEFT, y, WIDTH, row, WAITING);
        syn_sink_text(svg, text);
        draw_shares(svg, sim->rows[r->row].compute, NULL, n, y, row, COMPUTE);
        draw_shares(svg, sim->rows[r->row].exposed, sim->rows[r->row].compute, n, y, row, EXPOSED);
        syn_sink_text(svg, "</g>\n");
    }
    if (sim->n_distinct > n_rows) {
        snprintf(text, sizeof text, "%zu more rows", sim->n_distinct - n_rows);
        text_at(svg, LEFT, bottom + 18, " fill=\"#666\"", text);
    }
    syn_sink_text(svg, "</svg>\n");
}

/* ---- Traffic ---- */

enum { MOST_CELLS = 128, MATRIX = 768 };

static void draw_cells(syn_sink *svg, const double *cells, int n, double most) {
    const double size = (double)MATRIX / n;
    for (int from = 0; from < n; from++)
        for (int to = 0; to < n; to++) {
            const double bytes = cells[from * n + to];
            if (!(bytes > 0)) continue;
            /* four powers of ten from light to dark */
            const double shade = fmax(0, 1 + log10(bytes / most) / 4);
            char color[16];
            snprintf(color, sizeof color, "#%02x%02x%02x", (int)(222 - 190 * shade),
                     (int)(235 - 170 * shade), (int)(247 - 120 * shade));
            box(svg, LEFT + size * to, TOP + size * from, size, size, color);
        }
}

static void draw_ticks(syn_sink *svg, int32_t n_ranks) {
    char text[32];
    int32_t step = 1;
    while (n_ranks / step > 16) step *= 2;
    for (int32_t r = 0; r < n_ranks; r += step) {
        const double at = MATRIX * ((double)r + 0.5) / n_ranks;
        snprintf(text, sizeof text, "%" PRId32, r);
        text_at(svg, LEFT + at, TOP - 8, " text-anchor=\"middle\"", text);
        text_at(svg, LEFT - 8, TOP + at + 4, " text-anchor=\"end\"", text);
    }
}

void syn_simulation_draw_traffic(const syn_simulation *sim, syn_sink *svg) {
    static double cells[MOST_CELLS * MOST_CELLS];
    int32_t n_ranks = sim->n_ranks > 0 ? sim->ranks[sim->n_ranks - 1].rank + 1 : 1;
    double most = 0, sum = 0;
    char text[128], a[32], b[32];
    for (size_t i = 0; i < sim->n_pairs; i++) {
        if (sim->pairs[i].to >= n_ranks) n_ranks = sim->pairs[i].to + 1;
        sum += sim->pairs[i].bytes;
    }
    const int32_t per_cell = (n_ranks + MOST_CELLS - 1) / MOST_CELLS;
    const int n = (n_ranks + per_cell - 1) / per_cell;
    for (int i = 0; i < n * n; i++) cells[i] = 0;
    for (size_t i = 0; i < sim->n_pairs; i++) {
        double *cell = &cells[sim->pairs[i].from / per_cell * n + sim->pairs[i].to / per_cell];
        *cell += sim->pairs[i].bytes;
        most = fmax(most, *cell);
    }
    begin(svg, LEFT + MATRIX + RIGHT, TOP + MATRIX + RIGHT);
    snprintf(text, sizeof text, "%s from rank (row) to rank (column), darkest: %s",
             bytes_text(sum, a), bytes_text(most, b));
    text_at(svg, 16, 28, " font-size=\"16\"", text);
    snprintf(text, sizeof text, "Lighter cells: fewer bytes, on a scale of 1 to 10,000.");
    text_at(svg, 16, 48, " fill=\"#666\"", text);
    if (per_cell > 1) {
        snprintf(text, sizeof text, "A cell has %" PRId32 " ranks.", per_cell);
        text_at(svg, 340, 48, " fill=\"#666\"", text);
    }
    draw_cells(svg, cells, n, most);
    syn_sink_printf(svg,
                    "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" "
                    "stroke=\"#999\"/>\n",
                    LEFT, TOP, MATRIX, MATRIX);
    draw_ticks(svg, n_ranks);
    syn_sink_text(svg, "</svg>\n");
}
