/* The picture of a batch over time; see serve_batch.h. It holds a few thousand spans of time at
   most: steps that follow each other and compute the same kind of tokens are one span. */
#include "tools/serve/serve_batch.h"

#include <math.h>
#include <string.h>

#include "syntorch/base/memory.h"
#include "tools/cli.h"

/* Rows of the picture, and marks of tokens in all of them. With more tokens there are no marks. */
enum { ROWS = 40, MARKS = 3000, SPANS = 8000 };
/* Positions and sizes in pixels. */
enum { LEFT = 150, TOP = 92, WIDTH = 760, LINE = 16, BAR = 11, RIGHT = 110, TICKS = 8 };

#define CLOSE 2.2 /* the least distance of marks, in pixels */

static const char *const colors[] = {"#d5d8dc", "#e08a2e", "#4f7aa8"};
enum { WAITING, PROMPT, TOKENS };

typedef struct span {
    double from, to;
    int32_t row;
    bool prompt;
} span;

typedef struct mark {
    double at;
    int32_t row;
} mark;

typedef struct batch_row {
    bool known, finished;
    int32_t prompt, output, replicas[2], preemptions;
    double arrival, end;
    span *last;
} batch_row;

struct serve_batch {
    batch_row rows[ROWS];
    span spans[SPANS];
    mark marks[MARKS + 1];
    int32_t n_spans, n_marks;
};

syn_status serve_batch_new(serve_batch **out, syn_error *err) {
    *out = syn_calloc(1, sizeof **out);
    return *out ? SYN_OK : SYN_FAIL_NOMEM(err, sizeof **out, "the picture of a batch");
}

void serve_batch_free(serve_batch *b) {
    syn_free(b);
}

/* ---- Observing ---- */

static void add_span(serve_batch *b, int32_t i, double from, double to, bool prompt) {
    batch_row *r = &b->rows[i];
    if (r->last && r->last->prompt == prompt && r->last->to >= from) {
        r->last->to = to;
        return;
    }
    if (b->n_spans == SPANS) return;
    r->last = &b->spans[b->n_spans++];
    *r->last = (span){from, to, i, prompt};
}

static syn_status see_step(void *user, const serve_step *step, syn_error *err) {
    serve_batch *b = user;
    (void)err;
    for (int64_t i = 0; i < step->rows->n; i++) {
        const serving_row *at = &step->rows->rows[i];
        const serve_request *q = (const serve_request *)at->request;
        if (!q || q->q.id >= ROWS) continue;
        batch_row *r = &b->rows[q->q.id];
        if (!r->known)
            *r = (batch_row){.known = true,
                             .prompt = q->given.prompt,
                             .output = q->given.output,
                             .replicas = {step->replica, step->replica},
                             .arrival = q->q.arrival_ns};
        r->replicas[1] = step->replica;
        r->preemptions = q->q.preemptions;
        r->end = step->end_ns;
        /* A prompt ends with the step that returns the first token. */
        const bool prompt = at->keys - at->queries < q->given.prompt;
        add_span(b, (int32_t)q->q.id, step->start_ns, step->end_ns, prompt);
        if (at->samples && b->n_marks <= MARKS)
            b->marks[b->n_marks++] = (mark){step->end_ns, (int32_t)q->q.id};
    }
    return SYN_OK;
}

static syn_status see_end(void *user, const serve_request *q, syn_error *err) {
    serve_batch *b = user;
    (void)err;
    if (q->q.id < ROWS) b->rows[q->q.id].finished = true;
    return SYN_OK;
}

serve_observer serve_batch_observer(serve_batch *b) {
    return (serve_observer){.step = see_step, .finished = see_end, .user = b};
}

/* ---- Drawing ---- */

typedef struct page {
    syn_sink *svg;
    int32_t rows;
    double from, to; /* ns */
} page;

static double x_of(const page *p, double ns) {
    return LEFT + WIDTH * (ns - p->from) / (p->to - p->from);
}

static double y_of(int32_t row) {
    return TOP + LINE * row;
}

static void text_at(syn_sink *svg, double x, double y, const char *how, const char *text) {
    syn_sink_printf(svg, "<text x=\"%.1f\" y=\"%.1f\"%s>", x, y, how);
    syn_sink_xml_text(svg, text);
    syn_sink_text(svg, "</text>\n");
}

static void bar(const page *p, int32_t row, double from, double to, int kind) {
    syn_sink_printf(
        p->svg, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\" fill=\"%s\"/>\n",
        x_of(p, from), y_of(row), fmax(x_of(p, to) - x_of(p, from), 0.3), BAR, colors[kind]);
}

/* A round number of seconds between ticks. */
static double tick_of(double s) {
    const double tick = pow(10, floor(log10(s / TICKS)));
    return s / tick <= TICKS         ? tick
           : s / tick <= 2.0 * TICKS ? 2 * tick
           : s / tick <= 5.0 * TICKS ? 5 * tick
                                     : 10 * tick;
}

static void draw_axis(const page *p) {
    const double tick = tick_of(1e-9 * (p->to - p->from)), bottom = y_of(p->rows);
    const int decimals = tick < 1 ? (int)ceil(-log10(tick) - 1e-9) : 0;
    char text[32];
    for (int i = 0; 1e9 * tick * i <= p->to - p->from; i++) {
        const double x = x_of(p, p->from + 1e9 * tick * i);
        syn_sink_printf(p->svg, "<path d=\"M%.1f %dV%.1f\" stroke=\"#e4e4e4\"/>\n", x, TOP - 4,
                        bottom + 4);
        snprintf(text, sizeof text, "%.*f", decimals, tick * i);
        text_at(p->svg, x, bottom + 18, " text-anchor=\"middle\"", text);
    }
    text_at(p->svg, LEFT + WIDTH / 2, bottom + 36, " text-anchor=\"middle\"", "seconds");
}

static void draw_labels(const serve_batch *b, const page *p) {
    char text[80];
    text_at(p->svg, LEFT - 8, TOP - 8, " text-anchor=\"end\" fill=\"#555555\"", "prompt + output");
    for (int32_t i = 0; i < p->rows; i++) {
        const batch_row *r = &b->rows[i];
        snprintf(text, sizeof text, "%d:  %d + %d", i, r->prompt, r->output);
        text_at(p->svg, LEFT - 8, y_of(i) + BAR - 1, " text-anchor=\"end\"", text);
        if (r->replicas[0] == r->replicas[1])
            snprintf(text, sizeof text, "replica %d", r->replicas[0]);
        else snprintf(text, sizeof text, "replica %d, then %d", r->replicas[0], r->replicas[1]);
        text_at(p->svg, LEFT + WIDTH + 8, y_of(i) + BAR - 1, " fill=\"#555555\" font-size=\"10\"",
                text);
    }
}

/* Whether there is room for the marks of a row's tokens. Closer marks would hide its colour. */
static bool has_marks(const serve_batch *b, const page *p, int32_t row) {
    const batch_row *r = &b->rows[row];
    return b->n_marks <= MARKS && row < p->rows &&
           x_of(p, r->end) - x_of(p, r->arrival) >= CLOSE * r->output;
}

static void draw_legend(const page *p, bool marks) {
    static const char *const words[] = {"waits", "prompt is computed", "tokens are generated"};
    double x = LEFT;
    for (int i = 0; i < 3; i++) {
        syn_sink_printf(p->svg,
                        "<rect x=\"%.1f\" y=\"58\" width=\"12\" height=\"11\" fill=\"%s\"/>\n", x,
                        colors[i]);
        text_at(p->svg, x + 17, 68, "", words[i]);
        x += 35 + 6.9 * (double)strlen(words[i]);
    }
    if (marks) text_at(p->svg, x, 68, " fill=\"#555555\"", "| white line: a token");
}

/* The rows of requests that have finished; the first others end the list. */
static int32_t shown(const serve_batch *b) {
    int32_t n = 0;
    while (n < ROWS && b->rows[n].finished && b->rows[n].known) n++;
    return n;
}

static void draw_rows(const serve_batch *b, const page *p) {
    for (int32_t i = 0; i < p->rows; i++) bar(p, i, b->rows[i].arrival, b->rows[i].end, WAITING);
    for (int32_t i = 0; i < b->n_spans; i++) {
        const span *s = &b->spans[i];
        if (s->row < p->rows) bar(p, s->row, s->from, s->to, s->prompt ? PROMPT : TOKENS);
    }
    syn_sink_text(p->svg, "<path stroke=\"white\" stroke-width=\"0.8\" d=\"");
    for (int32_t i = 0; i < b->n_marks; i++)
        if (has_marks(b, p, b->marks[i].row))
            syn_sink_printf(p->svg, "M%.2f %.1fv%d", x_of(p, b->marks[i].at), y_of(b->marks[i].row),
                            BAR);
    syn_sink_text(p->svg, "\"/>\n");
}

syn_status serve_batch_draw(const serve_batch *b, const char *path, const char *title,
                            int64_t requests, syn_error *err) {
    page p = {.rows = shown(b), .from = INFINITY, .to = 0};
    for (int32_t i = 0; i < p.rows; i++) {
        p.from = fmin(p.from, b->rows[i].arrival);
        p.to = fmax(p.to, b->rows[i].end);
    }
    if (p.rows == 0) return SYN_OK;
    char subtitle[80];
    snprintf(subtitle, sizeof subtitle, "the first %d of %lld requests", p.rows,
             (long long)requests);
    const int width = LEFT + WIDTH + RIGHT, height = TOP + LINE * p.rows + 52;
    SYN_TRY(syn_sink_open_file(&p.svg, path, err));
    syn_sink_printf(p.svg,
                    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                    "viewBox=\"0 0 %d %d\" font-family=\"DejaVu Sans, sans-serif\" "
                    "font-size=\"11\" fill=\"#222222\">\n"
                    "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
                    width, height, width, height);
    text_at(p.svg, LEFT, 26, " font-size=\"15\" font-weight=\"bold\"", title);
    text_at(p.svg, LEFT, 45, " fill=\"#555555\"", subtitle);
    draw_axis(&p);
    bool marks = false;
    for (int32_t i = 0; i < p.rows; i++) marks = marks || has_marks(b, &p, i);
    draw_legend(&p, marks);
    draw_labels(b, &p);
    draw_rows(b, &p);
    syn_sink_text(p.svg, "</svg>\n");
    return syn_sink_close(p.svg, true, err);
}
