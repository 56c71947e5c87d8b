/* What the pretraining program writes: its log and models; traces: pretrain_trace.c. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/pretraining.h"
#include "models/weights.h"
#include "syntorch/memory.h"
#include "tools/pretrain/pretrain.h"

/* ---- the log ---- */

typedef struct point {
    int64_t step;
    double loss;
} point;

typedef struct curve {
    point *at;
    size_t n, cap;
} curve;

struct pretrain_log {
    FILE *csv;
    curve train, eval;
    syn_error err; /* the first failure */
};

static void add(pretrain_log *log, curve *c, int64_t step, double loss) {
    if (syn_grow(&c->at, &c->cap, c->n + 1, sizeof *c->at, &log->err) != SYN_OK) return;
    c->at[c->n++] = (point){step, loss};
}

static const char columns[] = "step,epoch,loss,learning_rate,grad_norm,tokens_per_s,eval_loss\n";

/* Number `column` of a line; NaN if it is empty. */
static double field(const char *line, int column) {
    for (; column > 0 && line; column--) line = (line = strchr(line, ',')) ? line + 1 : NULL;
    return line && *line != ',' && *line != '\n' ? strtod(line, NULL) : NAN;
}

/* Lines of steps up to `done` are kept; their losses are of the curve. */
static void keep_lines(pretrain_log *log, syn_sink *sink, const char *text, int64_t done) {
    const char *line = strchr(text, '\n');
    for (line = line ? line + 1 : NULL; line && *line; line = strchr(line, '\n') + 1) {
        const size_t bytes = strcspn(line, "\n") + 1;
        const double step = field(line, 0), loss = field(line, 2), eval = field(line, 6);
        if (line[bytes - 1] != '\n' || !(step <= (double)done)) return;
        syn_sink_write(sink, line, bytes);
        if (!isnan(loss)) add(log, &log->train, (int64_t)step, loss);
        if (!isnan(eval)) add(log, &log->eval, (int64_t)step, eval);
    }
}

/* The file in place of the old one, which stays until then. */
static syn_status begin_file(pretrain_log *log, const char *path, int64_t done, syn_error *err) {
    char *old = NULL;
    size_t bytes;
    syn_sink *sink;
    if (done > 0 && syn_file_exists(path))
        SYN_TRY(syn_read_file(path, SIZE_MAX - 1, &old, &bytes, err));
    syn_status s = syn_sink_open_file(&sink, path, err);
    if (s == SYN_OK) {
        syn_sink_text(sink, columns);
        if (old) keep_lines(log, sink, old, done);
        s = syn_sink_close(sink, true, err);
    }
    syn_free(old);
    return s;
}

syn_status pretrain_log_open(pretrain *run, int64_t done, syn_error *err) {
    char path[4200];
    snprintf(path, sizeof path, "%s/metrics.csv", run->args->save_dir);
    if (!(run->log = syn_calloc(1, sizeof *run->log)))
        return SYN_FAIL_NOMEM(err, sizeof *run->log, "a log");
    SYN_TRY(begin_file(run->log, path, done, err));
    if ((run->log->csv = fopen(path, "a"))) return SYN_OK;
    return SYN_FAIL(err, SYN_E_IO, "cannot write '%.300s': %s", path, strerror(errno));
}

void pretrain_log_step(pretrain *run, const pretrain_metrics *m) {
    const int64_t every = run->args->logging_steps;
    pretrain_log *log = run->log;
    fprintf(log->csv, "%lld,%lld,%.9g,%.9g,%.9g,%.1f,\n", (long long)m->step, (long long)m->epoch,
            m->loss, m->learning_rate, m->grad_norm, m->tokens_per_s);
    fflush(log->csv);
    add(log, &log->train, m->step, m->loss);
    if (run->args->quiet || (m->step != 1 && m->step % every != 0 && m->step != run->steps)) return;
    printf("step %lld/%lld  loss %.4f  learning rate %.3g  %.0f tokens/s\n", (long long)m->step,
           (long long)run->steps, m->loss, m->learning_rate, m->tokens_per_s);
    fflush(stdout);
}

void pretrain_log_eval(pretrain *run, int64_t step, double loss) {
    pretrain_log *log = run->log;
    fprintf(log->csv, "%lld,,,,,,%.9g\n", (long long)step, loss);
    fflush(log->csv);
    add(log, &log->eval, step, loss);
    if (!run->args->quiet) printf("step %lld  validation loss %.4f\n", (long long)step, loss);
}

/* ---- loss.svg ---- */

enum { WIDTH = 720, HEIGHT = 360, LEFT = 60, TOP = 20, RIGHT = 20, BOTTOM = 40 };

typedef struct axes {
    double least, most, steps;
} axes;

static void widen(axes *a, const curve *c) {
    for (size_t i = 0; i < c->n; i++) {
        if (!isfinite(c->at[i].loss)) continue;
        if (c->at[i].loss < a->least) a->least = c->at[i].loss;
        if (c->at[i].loss > a->most) a->most = c->at[i].loss;
    }
}

static double x_of(const axes *a, double step) {
    return LEFT + (WIDTH - LEFT - RIGHT) * step / a->steps;
}

static double y_of(const axes *a, double loss) {
    return TOP + (HEIGHT - TOP - BOTTOM) * (a->most - loss) / (a->most - a->least);
}

static void draw(syn_sink *svg, const axes *a, const curve *c, const char *color, const char *name,
                 int line) {
    syn_sink_printf(svg, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" points=\"",
                    color);
    for (size_t i = 0; i < c->n; i++)
        if (isfinite(c->at[i].loss))
            syn_sink_printf(svg, "%.1f,%.1f ", x_of(a, (double)c->at[i].step),
                            y_of(a, c->at[i].loss));
    syn_sink_printf(svg,
                    "\"/>\n<text x=\"%d\" y=\"%d\" fill=\"%s\" text-anchor=\"end\">%s</text>\n",
                    WIDTH - RIGHT, TOP + 14 + 16 * line, color, name);
}

static void draw_axes(syn_sink *svg, const axes *a) {
    enum { TICKS = 4 };
    for (int i = 0; i <= TICKS; i++) {
        const double loss = a->least + (a->most - a->least) * i / TICKS;
        const double step = a->steps * i / TICKS;
        syn_sink_printf(svg,
                        "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#dddddd\"/>\n"
                        "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.3g</text>\n"
                        "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.0f</text>\n",
                        LEFT, WIDTH - RIGHT, y_of(a, loss), y_of(a, loss), LEFT - 6,
                        y_of(a, loss) + 4, loss, x_of(a, step), HEIGHT - BOTTOM + 16, step);
    }
    syn_sink_printf(svg, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">step</text>\n", WIDTH / 2,
                    HEIGHT - 8);
}

static syn_status write_curve(const pretrain *run, syn_error *err) {
    const pretrain_log *log = run->log;
    axes a = {INFINITY, -INFINITY, (double)run->steps};
    char path[4200];
    syn_sink *svg;
    widen(&a, &log->train);
    widen(&a, &log->eval);
    if (!(a.most > a.least)) a = (axes){0, a.most > 0 ? a.most : 1, a.steps};
    snprintf(path, sizeof path, "%s/loss.svg", run->args->save_dir);
    SYN_TRY(syn_sink_open_file(&svg, path, err));
    syn_sink_printf(svg,
                    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                    "font-family=\"DejaVu Sans, sans-serif\" font-size=\"12\">\n"
                    "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
                    WIDTH, HEIGHT);
    draw_axes(svg, &a);
    draw(svg, &a, &log->train, "#1f77b4", "training loss", 0);
    if (log->eval.n > 0) draw(svg, &a, &log->eval, "#d62728", "validation loss", 1);
    syn_sink_text(svg, "</svg>\n");
    return syn_sink_close(svg, true, err);
}

syn_status pretrain_log_close(pretrain *run, syn_error *err) {
    pretrain_log *log = run->log;
    if (!log) return SYN_OK;
    syn_status s = log->err.code;
    if (s != SYN_OK) (void)SYN_FAIL(err, s, "%s", log->err.text);
    if (s == SYN_OK && log->train.n > 0) s = write_curve(run, err);
    if (log->csv && fclose(log->csv) != 0 && s == SYN_OK)
        s = SYN_FAIL(err, SYN_E_IO, "cannot write '%.300s/metrics.csv'", run->args->save_dir);
    syn_free(log->train.at);
    syn_free(log->eval.at);
    syn_free(log);
    run->log = NULL;
    return s;
}

/* ---- models ---- */

/* The tokenizer's files as they are. */
static syn_status copy_tokenizer(const pretrain *run, const char *folder, syn_error *err) {
    static const char *const names[] = {"vocab.txt",
                                        "vocab.json",
                                        "merges.txt",
                                        "tokenizer_config.json",
                                        "special_tokens_map.json",
                                        "added_tokens.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char from[4500], to[4500], *data;
        size_t bytes;
        syn_sink *sink;
        snprintf(from, sizeof from, "%s/%s", run->tokenizer_folder, names[i]);
        snprintf(to, sizeof to, "%s/%s", folder, names[i]);
        if (!syn_file_exists(from)) continue;
        SYN_TRY(syn_read_file(from, SIZE_MAX - 1, &data, &bytes, err));
        syn_status s = syn_sink_open_file(&sink, to, err);
        if (s == SYN_OK) {
            syn_sink_write(sink, data, bytes);
            s = syn_sink_close(sink, true, err);
        }
        syn_free(data);
        SYN_TRY(s);
    }
    return SYN_OK;
}

syn_status pretrain_save_model(pretrain *run, syn_ctx *ctx, syn_comm *comm, const char *folder,
                               syn_error *err) {
    char config[4500];
    SYN_TRY(syn_weights_save(ctx, comm, run->config.family, folder, err));
    if (comm->rank != 0) return SYN_OK;
    snprintf(config, sizeof config, "%s/config.json", folder);
    SYN_TRY(syn_model_config_save(&run->config, syn_pretraining_heads(&run->config), config, err));
    return copy_tokenizer(run, folder, err);
}
