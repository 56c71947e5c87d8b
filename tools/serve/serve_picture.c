/* Draws PREFIX.svg: panels over a common time axis; see serve_files.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "syntorch/base/memory.h"
#include "tools/serve/serve_files.h"

/* Positions and sizes of the page and of the panels on it, in pixels. */
enum { PAGE_WIDTH = 960, LEFT = 72, WIDTH = 864, TOP = 122, PANEL = 104, PITCH = 148 };
enum { COLUMNS = WIDTH / 3, X_TICKS = 10, Y_TICKS = 4, MAX_PANELS = 8, MAX_CURVES = 2 };

#define BLUE   "#4f7aa8"
#define ORANGE "#e08a2e"
#define GREEN  "#4c9f70"
#define PURPLE "#8d6cab"
#define GREY   "#5f666e"
#define RED    "#c62828"

typedef enum quantity {
    RUNNING,
    WAITING,
    PROMPT_RATE,
    OUTPUT_RATE,
    USAGE,
    MOST_USAGE,
    STEP,
    LONGEST_STEP
} quantity;

typedef struct curve {
    quantity what;
    int32_t pool; /* -1: both together */
    const char *name, *color;
    bool faint; /* a bound of the curve before it */
} curve;

typedef struct panel {
    char title[80];
    const char *unit; /* of the values in the legend */
    int n;
    curve curves[MAX_CURVES];
    double top, tick;   /* y of the panel; distance of its horizontal lines */
    double least, most; /* values at the lower and the upper edge */
    bool is_log;        /* then `tick` is the factor between two lines, or 0: 1, 2, 5, 10, ... */
} panel;

typedef struct plot {
    const serve_run *run;
    const serve_series *s;
    int32_t n;        /* columns of joined bins */
    double width_ns;  /* of a column */
    serve_bin *at[2]; /* of each pool; owned */
    panel panels[MAX_PANELS];
    int n_panels;
} plot;

/* ---- Values ---- */

static double column_ns(const plot *p, int32_t i) {
    return fmin(p->width_ns, p->s->end_ns - i * p->width_ns);
}

static double value_of(const plot *p, int32_t pool, const serve_bin *b, quantity what, double ns) {
    switch (what) {
    case RUNNING:
        return b->running_ns / ns;
    case WAITING:
        return b->waiting_ns / ns;
    case PROMPT_RATE:
        return 1e9 * b->prompt_tokens / ns;
    case OUTPUT_RATE:
        return 1e9 * b->output_tokens / ns;
    case USAGE:
        return 100 * b->usage_ns / ns / p->s->replicas[pool];
    case MOST_USAGE:
        return 100 * b->most_usage;
    case STEP:
        return b->steps > 0 ? b->step_ns / b->steps / 1e6 : NAN;
    case LONGEST_STEP:
        return b->steps > 0 ? b->longest_ns / 1e6 : NAN;
    }
    return NAN;
}

/* The value of a curve in column i; NAN: there was no step. */
static double value_at(const plot *p, const curve *c, int32_t i) {
    const double ns = column_ns(p, i);
    if (c->pool >= 0) return value_of(p, c->pool, &p->at[c->pool][i], c->what, ns);
    double sum = 0;
    for (int32_t k = 0; k < p->s->n_pools; k++) sum += value_of(p, k, &p->at[k][i], c->what, ns);
    return sum;
}

/* The mean over the run, of which a longest step or the highest use of a cache is the highest. */
static double mean_of(const plot *p, const curve *c) {
    serve_bin all[2] = {{.steps = 0}};
    double sum = 0;
    for (int32_t k = 0; k < p->s->n_pools; k++) {
        for (int32_t i = 0; i < p->n; i++) serve_bin_add(&all[k], &p->at[k][i]);
        if (c->pool < 0 || c->pool == k) sum += value_of(p, k, &all[k], c->what, p->s->end_ns);
    }
    return sum;
}

static syn_status join_bins(plot *p, syn_error *err) {
    const int32_t n = serve_series_bins(p->s), each = (n + COLUMNS - 1) / COLUMNS;
    p->n = each > 0 ? (n + each - 1) / each : 0;
    p->width_ns = each * p->s->width_ns;
    for (int32_t k = 0; k < p->s->n_pools; k++) {
        p->at[k] = syn_calloc((size_t)p->n + 1, sizeof *p->at[k]);
        if (!p->at[k]) return SYN_FAIL_NOMEM(err, (size_t)p->n * sizeof *p->at[k], "a picture");
        for (int32_t i = 0; i < n; i++) serve_bin_add(&p->at[k][i / each], &p->s->bins[k][i]);
    }
    return SYN_OK;
}

/* ---- Panels ---- */

/* Returns the smallest of the numbers ..., 0.2, 0.5, 1, 2, 5, 10, ... that divides the range into
   at most n intervals. */
static double round_tick(double range, int n) {
    static const double steps[] = {1, 2, 5};
    const double unit = pow(10, floor(log10(range / n)));
    for (int i = 0; i < 3; i++)
        if (range / (unit * steps[i]) <= n * (1 + 1e-9)) return unit * steps[i];
    return 10 * unit;
}

/* The numbers 1, 2, 5, 10, ... */
static double round_number(int i) {
    static const double steps[] = {1, 2, 5};
    const int decade = i >= 0 ? i / 3 : -((2 - i) / 3);
    return steps[i - 3 * decade] * pow(10, decade);
}

/* Chooses the axis for values from least to most. It is logarithmic if they differ much. */
static void set_axis(panel *a, double least, double most) {
    if (most <= 0) most = 1;
    a->is_log = a->curves[0].what == STEP && most > 10 * least && least > 0;
    if (a->is_log) {
        int first = 3 * (int)floor(log10(least));
        while (round_number(first + 1) <= least) first++;
        int last = first + 1;
        while (round_number(last) < most) last++;
        a->least = round_number(first);
        a->most = round_number(last);
        a->tick = last - first > 6 ? 10 : 0;
    } else {
        a->tick = round_tick(most, Y_TICKS);
        a->most = a->tick * ceil(most / a->tick - 1e-9);
    }
}

static void add_panel(plot *p, const char *title, const char *role, const char *unit, curve first,
                      curve second) {
    panel *a = &p->panels[p->n_panels];
    double least = INFINITY, most = 0;
    *a = (panel){.unit = unit,
                 .n = second.name ? 2 : 1,
                 .curves = {first, second},
                 .top = TOP + PITCH * p->n_panels++};
    snprintf(a->title, sizeof a->title, "%s%s%s", title, role[0] ? ", " : "", role);
    for (int k = 0; k < a->n; k++)
        for (int32_t i = 0; i < p->n; i++) {
            const double value = value_at(p, &a->curves[k], i);
            if (value > most) most = value;
            if (value < least) least = value;
        }
    set_axis(a, least, most);
}

/* The panels about the replicas of one pool. */
static void add_pool(plot *p, int32_t pool, bool steps) {
    const char *role = serve_pool_get(p->run->sim.pools[pool])->role;
    const bool divided = p->s->n_pools == 2;
    const char *const color = !divided || pool == 0 ? BLUE : GREEN;
    if (!steps)
        add_panel(p, "requests", role, "",
                  (curve){.what = RUNNING, .pool = pool, .name = "running", .color = color},
                  (curve){.what = WAITING, .pool = pool, .name = "waiting", .color = ORANGE});
    else
        add_panel(
            p, "step time in ms", role, " ms",
            (curve){.what = STEP, .pool = pool, .name = "mean", .color = divided ? color : GREY},
            (curve){.what = LONGEST_STEP,
                    .pool = pool,
                    .name = "longest",
                    .color = divided ? color : GREY,
                    .faint = true});
}

static void add_panels(plot *p) {
    const bool divided = p->s->n_pools == 2;
    const int32_t both = divided ? -1 : 0;
    for (int32_t i = 0; i < p->s->n_pools; i++) add_pool(p, i, false);
    add_panel(p, "prompt tokens per second", "", "",
              (curve){.what = PROMPT_RATE, .pool = both, .name = "mean", .color = BLUE},
              (curve){.name = NULL});
    add_panel(p, "output tokens per second", "", "",
              (curve){.what = OUTPUT_RATE, .pool = both, .name = "mean", .color = GREEN},
              (curve){.name = NULL});
    if (divided)
        add_panel(p, "KV cache in use, %", "", " %",
                  (curve){.what = USAGE, .pool = 0, .name = "prefill", .color = BLUE},
                  (curve){.what = USAGE, .pool = 1, .name = "decode", .color = GREEN});
    else
        add_panel(p, "KV cache in use, %", "", " %",
                  (curve){.what = USAGE, .name = "mean", .color = PURPLE},
                  (curve){.what = MOST_USAGE,
                          .name = p->s->replicas[0] > 1 ? "fullest replica" : "highest",
                          .color = PURPLE,
                          .faint = true});
    for (int32_t i = 0; i < p->s->n_pools; i++) add_pool(p, i, true);
}

/* ---- Drawing ---- */

static void text_at(syn_sink *svg, double x, double y, const char *how, const char *text) {
    syn_sink_printf(svg, "<text x=\"%.1f\" y=\"%.1f\"%s>", x, y, how);
    syn_sink_xml_text(svg, text);
    syn_sink_text(svg, "</text>\n");
}

static double x_of(const plot *p, double ns) {
    return LEFT + WIDTH * ns / p->s->end_ns;
}

static double y_of(const panel *a, double value) {
    const double part =
        a->is_log ? log(value / a->least) / log(a->most / a->least) : value / a->most;
    return a->top + PANEL * (1 - part);
}

/* Writes a value with three digits, or as a whole number such as "12,345". */
static const char *value_text(double value, char text[32]) {
    char digits[32];
    size_t at = 0;
    if (value < 999.5) {
        snprintf(text, 32, "%.3g", value);
        return text;
    }
    const size_t n = (size_t)snprintf(digits, sizeof digits, "%.0f", fmin(value, 1e15));
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0) text[at++] = ',';
        text[at++] = digits[i];
    }
    text[at] = '\0';
    return text;
}

/* Writes a number as on an axis: "0.5", "1,200" or "35k". */
static const char *tick_text(double value, char text[32]) {
    if (value >= 1e7) snprintf(text, 32, "%gM", value / 1e6);
    else if (value >= 10000) snprintf(text, 32, "%gk", value / 1e3);
    else if (value < 1000) snprintf(text, 32, "%g", value);
    else return value_text(value, text);
    return text;
}

/* Writes the path of a curve, with a horizontal part for each column. area: closed at the axis. */
static void put_path(syn_sink *svg, const plot *p, const panel *a, const curve *c, bool area) {
    bool open = false;
    syn_sink_text(svg, "<path d=\"");
    for (int32_t i = 0; i <= p->n; i++) {
        const double value = i < p->n ? value_at(p, c, i) : NAN;
        if (isnan(value)) {
            if (open && area) syn_sink_printf(svg, "V%.1fZ", a->top + PANEL);
            open = false;
            continue;
        }
        const double from = x_of(p, i * p->width_ns),
                     to = x_of(p, i * p->width_ns + column_ns(p, i)), y = y_of(a, value);
        if (open) syn_sink_printf(svg, "V%.1fH%.1f", y, to);
        else if (area) syn_sink_printf(svg, "M%.1f %.1fV%.1fH%.1f", from, a->top + PANEL, y, to);
        else syn_sink_printf(svg, "M%.1f %.1fH%.1f", from, y, to);
        open = true;
    }
    syn_sink_char(svg, '"');
}

static void draw_curve(syn_sink *svg, const plot *p, const panel *a, const curve *c) {
    if (!c->faint && !a->is_log) {
        put_path(svg, p, a, c, true);
        syn_sink_printf(svg, " fill=\"%s\" fill-opacity=\"0.12\"/>\n", c->color);
    }
    put_path(svg, p, a, c, false);
    syn_sink_printf(svg, " fill=\"none\" stroke=\"%s\" stroke-width=\"%s\"%s/>\n", c->color,
                    c->faint ? "1" : "1.4", c->faint ? " stroke-opacity=\"0.45\"" : "");
}

/* The approximate width of a text in letters of 11 pixels. */
static double text_width(const char *text) {
    double width = 0;
    for (; *text; text++)
        width += strchr(" .,:ijlrtf", *text) ? 3.8 : strchr("mw%", *text) ? 10 : 6.8;
    return width;
}

/* Writes the names of the curves from right to left above the panel. */
static void draw_legend(syn_sink *svg, const plot *p, const panel *a) {
    double x = LEFT + WIDTH;
    for (int k = a->n - 1; k >= 0; k--) {
        const curve *c = &a->curves[k];
        char value[32], text[100];
        snprintf(text, sizeof text, "%s: %s%s%s", c->name,
                 c->faint || strcmp(c->name, "mean") == 0 ? "" : "mean ",
                 value_text(mean_of(p, c), value), a->unit);
        text_at(svg, x, a->top - 9, " font-size=\"11\" fill=\"#444444\" text-anchor=\"end\"", text);
        x -= text_width(text) + 20;
        syn_sink_printf(svg,
                        "<rect x=\"%.1f\" y=\"%.1f\" width=\"14\" height=\"3\" fill=\"%s\"%s/>\n",
                        x, a->top - 14, c->color, c->faint ? " fill-opacity=\"0.45\"" : "");
        x -= 18;
    }
}

/* The value of the horizontal line i. */
static double line_at(const panel *a, int i) {
    if (!a->is_log) return i * a->tick;
    if (a->tick > 0) return a->least * pow(a->tick, i);
    int first = 3 * (int)floor(log10(a->least));
    while (round_number(first) < a->least * (1 - 1e-9)) first++;
    return round_number(first + i);
}

static void draw_panel(syn_sink *svg, const plot *p, const panel *a) {
    char text[32];
    text_at(svg, LEFT, a->top - 9, " font-weight=\"bold\"", a->title);
    for (int i = 0; line_at(a, i) <= a->most * (1 + 1e-9); i++) {
        const double value = line_at(a, i), y = y_of(a, value);
        syn_sink_printf(svg, "<path d=\"M%d %.1fH%d\" stroke=\"%s\"/>\n", LEFT, y, LEFT + WIDTH,
                        i > 0 ? "#e4e4e4" : "#888888");
        text_at(svg, LEFT - 8, y + 4, " font-size=\"11\" fill=\"#555555\" text-anchor=\"end\"",
                tick_text(value, text));
    }
    for (int k = a->n - 1; k >= 0; k--) draw_curve(svg, p, a, &a->curves[k]);
    draw_legend(svg, p, a);
}

/* Marks the columns in which requests were preempted, above the cache's panel. */
static void draw_preemptions(syn_sink *svg, const plot *p, const panel *a) {
    int64_t all = 0;
    char text[80];
    for (int32_t i = 0; i < p->n; i++) {
        int64_t n = 0;
        for (int32_t k = 0; k < p->s->n_pools; k++) n += p->at[k][i].preemptions;
        if (n > 0)
            syn_sink_printf(svg,
                            "<rect x=\"%.1f\" y=\"%.1f\" width=\"2\" height=\"5\" fill=\"" RED
                            "\"><title>%lld preemptions</title></rect>\n",
                            x_of(p, i * p->width_ns), a->top - 6, (long long)n);
        all += n;
    }
    if (all == 0) return;
    snprintf(text, sizeof text, "%lld preemption%s", (long long)all, cli_plural((uint64_t)all));
    text_at(svg, LEFT + 170, a->top - 9, " font-size=\"11\" fill=\"" RED "\"", text);
}

static void draw_times(syn_sink *svg, const plot *p) {
    static const struct {
        const char *name;
        double ns, most_ns;
    } units[] = {{"ms", 1e6, 2e9}, {"s", 1e9, 900e9}, {"min", 60e9, 14400e9}, {"h", 3600e9, 0}};
    int u = 0;
    while (u < 3 && p->s->end_ns > units[u].most_ns) u++;
    const double all = p->s->end_ns / units[u].ns, tick = round_tick(all, X_TICKS);
    const double bottom = TOP + PITCH * (p->n_panels - 1) + PANEL;
    char text[32];
    for (int i = 0; i * tick <= all * (1 + 1e-9); i++) {
        const double x = x_of(p, i * tick * units[u].ns);
        for (int k = 0; k < p->n_panels && i > 0; k++)
            syn_sink_printf(svg, "<path d=\"M%.1f %.1fv%d\" stroke=\"#f0f0f0\"/>\n", x,
                            p->panels[k].top, PANEL);
        syn_sink_printf(svg, "<path d=\"M%.1f %.1fv5\" stroke=\"#888888\"/>\n", x, bottom);
        text_at(svg, x, bottom + 19, " font-size=\"11\" fill=\"#555555\" text-anchor=\"middle\"",
                tick_text(i * tick, text));
    }
    snprintf(text, sizeof text, "time in %s", units[u].name);
    text_at(svg, LEFT + WIDTH / 2.0, bottom + 40, " text-anchor=\"middle\"", text);
}

/* ---- The headline ---- */

static void add_text(char *text, size_t bytes, const char *more) {
    const size_t used = strlen(text);
    snprintf(text + used, bytes - used, "%s", more);
}

/* "2 replicas of 4 ranks", with the role in front. */
static void add_layout(char *text, size_t bytes, const serve_pool_options *o) {
    const serve_layout *l = &o->layout;
    char one[120];
    snprintf(one, sizeof one, "%s%s%d replica%s of %d rank%s%s", o->role, o->role[0] ? ": " : "",
             l->dp, cli_plural((uint64_t)l->dp), l->tp, cli_plural((uint64_t)l->tp),
             l->ep > 1 ? " that share experts" : "");
    add_text(text, bytes, one);
}

static void add_times(char *text, size_t bytes, const char *name, const serving_times *t) {
    char p50[32], p99[32], one[120];
    if (t->n == 0) return;
    snprintf(one, sizeof one, "%s%s p50 %s, p99 %s", text[0] ? ";  " : "", name,
             cli_time_text(serving_times_percentile(t, 0.5), p50, sizeof p50),
             cli_time_text(serving_times_percentile(t, 0.99), p99, sizeof p99));
    add_text(text, bytes, one);
}

/* What takes the largest share of a phase's time. */
static void add_limit(char *text, size_t bytes, const char *name, const serve_run *run,
                      int prompt) {
    static const char *const limits[SYN_LIMIT_COUNT] = {"compute", "memory bandwidth",
                                                        "launch overhead", "communication"};
    double parts[SYN_LIMIT_COUNT] = {0}, all = 0;
    int most = 0;
    char one[120];
    for (int32_t k = 0; k < run->n_pools; k++)
        for (int i = 0; i < SYN_LIMIT_COUNT; i++) {
            parts[i] += run->result.totals[k].time[prompt].parts[i];
            all += run->result.totals[k].time[prompt].parts[i];
        }
    for (int i = 1; i < SYN_LIMIT_COUNT; i++)
        if (parts[i] > parts[most]) most = i;
    if (all <= 0) return;
    snprintf(one, sizeof one, "%s%s: %.0f %% %s", text[0] ? ";  " : "", name,
             100 * parts[most] / all, limits[most]);
    add_text(text, bytes, one);
}

static void draw_headline(syn_sink *svg, const plot *p) {
    const serve_run *run = p->run;
    const serving_metrics *m = &run->result.metrics;
    const double s = serving_metrics_duration(m) / 1e9;
    char title[160], text[400], first[32], second[32];
    snprintf(text, sizeof text, "%s on %s: %s request%s", run->config.name,
             syn_hardware_title(&run->hw, title, sizeof title),
             value_text((double)m->requests, first), cli_plural((uint64_t)m->requests));
    text_at(svg, LEFT, 26, " font-size=\"15\" font-weight=\"bold\"", text);
    text[0] = '\0';
    for (int32_t k = 0; k < run->n_pools; k++) {
        if (k > 0) add_text(text, sizeof text, ";  ");
        add_layout(text, sizeof text, serve_pool_get(run->sim.pools[k]));
    }
    snprintf(title, sizeof title, ";  %s requests/s, %s output tokens/s",
             value_text(s > 0 ? (double)m->requests / s : 0, first),
             value_text(s > 0 ? (double)m->output_tokens / s : 0, second));
    add_text(text, sizeof text, title);
    text_at(svg, LEFT, 46, " fill=\"#555555\"", text);
    text[0] = '\0';
    add_times(text, sizeof text, "TTFT", &m->ttft);
    add_times(text, sizeof text, "TPOT", &m->tpot);
    add_times(text, sizeof text, "latency", &m->latency);
    text_at(svg, LEFT, 63, " fill=\"#555555\"", text);
    text[0] = '\0';
    add_limit(text, sizeof text, "steps with prompt tokens", run, 1);
    add_limit(text, sizeof text, "decode steps", run, 0);
    text_at(svg, LEFT, 80, " fill=\"#555555\"", text);
}

static void draw_page(syn_sink *svg, plot *p) {
    const int height = TOP + PITCH * (p->n_panels - 1) + PANEL + 56;
    syn_sink_printf(svg,
                    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                    "viewBox=\"0 0 %d %d\" font-family=\"DejaVu Sans, sans-serif\" "
                    "font-size=\"12\" fill=\"#222222\">\n"
                    "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
                    PAGE_WIDTH, height, PAGE_WIDTH, height);
    draw_headline(svg, p);
    draw_times(svg, p);
    for (int i = 0; i < p->n_panels; i++) {
        draw_panel(svg, p, &p->panels[i]);
        if (p->panels[i].curves[0].what == USAGE) draw_preemptions(svg, p, &p->panels[i]);
    }
    syn_sink_text(svg, "</svg>\n");
}

syn_status serve_draw(const serve_run *run, const serve_series *s, const char *path,
                      syn_error *err) {
    plot p = {.run = run, .s = s};
    syn_sink *svg;
    syn_status status = join_bins(&p, err);
    if (status == SYN_OK) status = syn_sink_open_file(&svg, path, err);
    if (status == SYN_OK) {
        add_panels(&p);
        draw_page(svg, &p);
        status = syn_sink_close(svg, true, err);
    }
    syn_free(p.at[0]);
    syn_free(p.at[1]);
    return status;
}
