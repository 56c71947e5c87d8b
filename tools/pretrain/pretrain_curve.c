/* Draws loss.svg: training and validation loss by step. */
#include <math.h>
#include <string.h>

#include "syntorch/base/sink.h"
#include "tools/pretrain/pretrain.h"

/* Sizes of the page and of the plot on it, in pixels. */
enum { PAGE_WIDTH = 800, PAGE_HEIGHT = 440, LEFT = 70, TOP = 62, WIDTH = 700, HEIGHT = 320 };
enum { Y_TICKS = 8, X_TICKS = 10, EPOCH_MARKS = 10, DOTS = 60 };

typedef struct axis {
    double from, to, tick;
} axis;

typedef struct axes {
    axis x, y;
} axes;

/* Returns the smallest of the numbers ..., 0.2, 0.5, 1, 2, 5, 10, 20, ... that divides the range
   into at most `most` intervals. */
static double round_tick(double range, int most) {
    static const double steps[] = {1, 2, 5};
    const double unit = pow(10, floor(log10(range / most)));
    for (int i = 0; i < 3; i++)
        if (range / (unit * steps[i]) <= most * (1 + 1e-9)) return unit * steps[i];
    return 10 * unit;
}

static void widen(axis *a, const pretrain_curve *c) {
    for (size_t i = 0; i < c->n; i++) {
        a->from = fmin(a->from, c->at[i].loss);
        a->to = fmax(a->to, c->at[i].loss);
    }
}

/* Returns an axis that begins and ends at a tick and includes all losses. */
static axis loss_axis(const pretrain_curve *train, const pretrain_curve *eval) {
    axis a = {INFINITY, -INFINITY, 0};
    widen(&a, train);
    widen(&a, eval);
    const double least =
        fmax(1e-3, 1e-3 * fabs(a.to)); /* so that rounding errors are not visible */
    if (a.to - a.from < least) a = (axis){a.from - least / 2, a.to + least / 2, 0};
    a.tick = round_tick(a.to - a.from, Y_TICKS);
    a.from = floor(a.from / a.tick) * a.tick;
    a.to = ceil(a.to / a.tick) * a.tick;
    return a;
}

static axis step_axis(int64_t steps) {
    const axis a = {0, (double)steps, round_tick((double)steps, X_TICKS)};
    return a.tick < 1 ? (axis){a.from, a.to, 1} : a;
}

static double x_of(const axes *a, double step) {
    return LEFT + WIDTH * step / a->x.to;
}

static double y_of(const axes *a, double loss) {
    return TOP + HEIGHT * (a->y.to - loss) / (a->y.to - a->y.from);
}

/* ---- Axes ---- */

static void line(syn_sink *svg, double x1, double y1, double x2, double y2, const char *style) {
    syn_sink_printf(svg, "<path d=\"M%.1f %.1fL%.1f %.1f\" %s/>\n", x1, y1, x2, y2, style);
}

/* Prints a value with the decimals that multiples of the tick need. */
static void tick_text(double value, double tick, char text[32]) {
    const int decimals = tick < 1 ? (int)ceil(-log10(tick) - 1e-9) : 0;
    if (fabs(value) < 1e6) snprintf(text, 32, "%.*f", decimals, value == 0 ? 0 : value);
    else snprintf(text, 32, "%g", value);
}

static void draw_axes(syn_sink *svg, const axes *a) {
    const char *const grid = "stroke=\"#e4e4e4\"";
    char text[32];
    for (int i = 0; a->y.from + i * a->y.tick <= a->y.to + a->y.tick / 2; i++) {
        const double loss = a->y.from + i * a->y.tick;
        line(svg, LEFT, y_of(a, loss), LEFT + WIDTH, y_of(a, loss), grid);
        tick_text(loss, a->y.tick, text);
        syn_sink_printf(svg, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LEFT - 8,
                        y_of(a, loss) + 4, text);
    }
    for (int i = 0; i * a->x.tick <= a->x.to * (1 + 1e-9); i++) {
        const double x = x_of(a, i * a->x.tick);
        line(svg, x, TOP + HEIGHT, x, TOP + HEIGHT + 5, "stroke=\"#444444\"");
        tick_text(i * a->x.tick, a->x.tick, text);
        syn_sink_printf(svg, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", x,
                        TOP + HEIGHT + 19, text);
    }
    line(svg, LEFT, TOP, LEFT, TOP + HEIGHT, "stroke=\"#444444\"");
    line(svg, LEFT, TOP + HEIGHT, LEFT + WIDTH, TOP + HEIGHT, "stroke=\"#444444\"");
    syn_sink_printf(svg,
                    "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">step</text>\n"
                    "<text transform=\"translate(20 %d) rotate(-90)\" text-anchor=\"middle\">loss "
                    "(nats per token)</text>\n",
                    LEFT + WIDTH / 2, PAGE_HEIGHT - 14, TOP + HEIGHT / 2);
}

/* Marks the end of every epoch, or of every second, fifth, tenth, ... */
static void draw_epochs(syn_sink *svg, const axes *a, int64_t steps_per_epoch) {
    const double epochs = a->x.to / (double)steps_per_epoch;
    if (epochs < 1) return;
    const int64_t every = (int64_t)fmax(1, round_tick(epochs, EPOCH_MARKS));
    for (int64_t epoch = every; (double)epoch <= epochs; epoch += every) {
        const double x = x_of(a, (double)(epoch * steps_per_epoch));
        line(svg, x, TOP, x, TOP + HEIGHT, "stroke=\"#999999\" stroke-dasharray=\"2 4\"");
        syn_sink_printf(svg,
                        "<text x=\"%.1f\" y=\"%d\" fill=\"#777777\" font-size=\"11\" "
                        "text-anchor=\"end\">epoch %lld</text>\n",
                        x, TOP - 5, (long long)epoch);
    }
}

/* ---- Curves ---- */

/* Draws the line through the means of every `every` consecutive points, so that it has at most as
   many points as the plot has columns of pixels. If there are few points, also draws a dot for
   each. */
static void draw_curve(syn_sink *svg, const axes *a, const pretrain_curve *c, size_t every,
                       const char *color) {
    syn_sink_printf(svg, "<g stroke=\"%s\" fill=\"%s\">\n", color, color);
    syn_sink_text(svg, "<polyline fill=\"none\" stroke-width=\"1.6\" points=\"");
    for (size_t i = 0; i < c->n; i += every) {
        double loss = 0, step = 0;
        size_t n = 0;
        for (; n < every && i + n < c->n; n++) {
            loss += c->at[i + n].loss;
            step += (double)c->at[i + n].step;
        }
        syn_sink_printf(svg, "%.1f,%.1f ", x_of(a, step / (double)n), y_of(a, loss / (double)n));
    }
    syn_sink_text(svg, "\"/>\n");
    for (size_t i = 0; c->n <= DOTS && i < c->n; i++)
        syn_sink_printf(svg, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" stroke=\"none\"/>\n",
                        x_of(a, (double)c->at[i].step), y_of(a, c->at[i].loss));
    syn_sink_text(svg, "</g>\n");
}

/* Writes the name of a curve in the upper right corner, above the plot. */
static void draw_name(syn_sink *svg, int y, const char *color, const char *name) {
    syn_sink_printf(svg,
                    "<text x=\"%d\" y=\"%d\" fill=\"%s\" font-weight=\"bold\" "
                    "text-anchor=\"end\">%s</text>\n",
                    LEFT + WIDTH, y, color, name);
}

static void draw_names(syn_sink *svg, const pretrain_curve *train, const pretrain_curve *eval,
                       size_t every, const char *const colors[2]) {
    const pretrain_point *last = &train->at[train->n - 1], *best = eval->at;
    char name[120], of[40] = "";
    if (every > 1) snprintf(of, sizeof of, " (mean of %zu)", every);
    snprintf(name, sizeof name, "training%s: %.4f at step %lld", of, last->loss,
             (long long)last->step);
    draw_name(svg, 22, colors[0], name);
    if (eval->n == 0) return;
    for (size_t i = 1; i < eval->n; i++)
        if (eval->at[i].loss < best->loss) best = &eval->at[i];
    snprintf(name, sizeof name, "validation: %s%.4f at step %lld", eval->n > 1 ? "lowest " : "",
             best->loss, (long long)best->step);
    draw_name(svg, 40, colors[1], name);
}

static void draw_title(syn_sink *svg, const pretrain *run) {
    const pretrain_args *args = run->args;
    const char *data = args->data.n ? args->data.at[0] : "examples/" PRETRAIN_DATA;
    const char *slash = strrchr(data, '/');
    const int64_t dp = run->launch.parallel.dp;
    syn_sink_printf(svg, "<text x=\"%d\" y=\"22\" font-size=\"15\" font-weight=\"bold\">", LEFT);
    syn_sink_xml_text(svg, run->config.name);
    syn_sink_text(svg, " on ");
    syn_sink_xml_text(svg, slash ? slash + 1 : data);
    if (args->data.n > 1) syn_sink_printf(svg, " and %d more", args->data.n - 1);
    syn_sink_printf(svg,
                    "</text>\n<text x=\"%d\" y=\"40\" fill=\"#555555\">%lld samples of %lld tokens "
                    "per step, %lld rank%s, %s, learning rate %g</text>\n",
                    LEFT, (long long)(args->batch_size * args->accumulation * dp),
                    (long long)args->max_seq_length, (long long)args->num_gpus,
                    args->num_gpus == 1 ? "" : "s", syn_dtype_name(run->dtype),
                    args->learning_rate);
}

syn_status pretrain_write_curve(const pretrain *run, const pretrain_curve *train,
                                const pretrain_curve *eval, syn_error *err) {
    static const char *const colors[] = {"#1f77b4", "#d62728"};
    const axes a = {step_axis(run->steps), loss_axis(train, eval)};
    const size_t every = (train->n + WIDTH - 1) / WIDTH;
    char path[4200];
    syn_sink *svg;
    snprintf(path, sizeof path, "%s/loss.svg", run->args->save_dir);
    SYN_TRY(syn_sink_open_file(&svg, path, err));
    syn_sink_printf(svg,
                    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                    "viewBox=\"0 0 %d %d\" font-family=\"DejaVu Sans, sans-serif\" "
                    "font-size=\"12\" fill=\"#222222\">\n"
                    "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
                    PAGE_WIDTH, PAGE_HEIGHT, PAGE_WIDTH, PAGE_HEIGHT);
    draw_title(svg, run);
    draw_axes(svg, &a);
    draw_epochs(svg, &a, run->steps_per_epoch);
    draw_curve(svg, &a, train, every, colors[0]);
    draw_curve(svg, &a, eval, 1, colors[1]);
    draw_names(svg, train, eval, every, colors);
    syn_sink_text(svg, "</svg>\n");
    return syn_sink_close(svg, true, err);
}
