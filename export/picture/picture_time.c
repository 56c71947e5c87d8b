/* The time view: ranks below each other, in each a row a thread or stream, time to the right. Steps
   that are alike are drawn once; a long run goes on below, shelf by shelf. */
#include "export/picture/picture_time.h"
#include "export/picture/picture.h"
#include "export/picture/picture_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "syntorch/memory.h"

#define DOT      " \xC2\xB7 "
#define TIMES    "\xC3\x97"
#define LEFT     128.0  /* names of rows */
#define WIDTH    1000.0 /* of the time axis */
#define HEIGHT   640.0  /* wished, without the heading */
#define SHELVES  4
#define AXIS_H   26.0 /* names of steps, and times */
#define RANK_H   15.0 /* what stands above a rank's rows */
#define PITCH    (SYN__PIC_ROW_H + 1.5)
#define RANK_GAP 9.0
#define GAP      14.0 /* between steps, and between shelves */
#define TEXT_PT  7.5

/* ---- Stretches ---- */

static double block_height(const syn__pic_block *b) {
    return RANK_H + b->n_rows * PITCH + RANK_GAP;
}

static double shelf_height(const syn__pic_times *t) {
    double height = AXIS_H;
    for (uint32_t b = 0; b < t->n_blocks; b++) height += block_height(&t->blocks[b]);
    return height;
}

/* As many shelves as the page has room for, and the steps one after the other on them. */
static syn_status place(syn__pic_times *t, uint32_t *out, syn_error *err) {
    const double fits = (HEIGHT + GAP) / (shelf_height(t) + GAP);
    const uint32_t shelves = fits < 2 ? 1 : fits > SHELVES ? SHELVES : (uint32_t)fits;
    double all_ns = 0, at = 0;
    for (uint32_t i = 0; i < t->n_drawn; i++)
        all_ns += (double)(t->windows[t->drawn[i]].end - t->windows[t->drawn[i]].begin);
    t->ns_pt = (shelves * WIDTH - GAP * (t->n_drawn - 1)) / (all_ns > 0 ? all_ns : 1);
    for (uint32_t i = 0; i < t->n_drawn; i++) {
        const syn__pic_window *w = &t->windows[t->drawn[i]];
        for (int64_t from = w->begin; from < w->end;) {
            const double shelf = fmin(floor((at + 1e-6) / WIDTH), shelves - 1);
            double room = (shelf + 1) * WIDTH - at;
            if (shelf + 1 >= shelves) room = 2 * WIDTH; /* what rounding left over */
            int64_t to = from + (int64_t)ceil(room / t->ns_pt);
            if (to > w->end) to = w->end;
            SYN_TRY(syn_grow(&t->stretches, &t->stretches_cap, t->n_stretches + 1,
                             sizeof *t->stretches, err));
            t->stretches[t->n_stretches++] = (syn__pic_stretch){t->drawn[i], (uint32_t)shelf, from,
                                                                to, LEFT + at - shelf * WIDTH};
            at = to < w->end ? (shelf + 1) * WIDTH : at + (double)(to - from) * t->ns_pt;
            from = to;
        }
        at += GAP;
        *out = t->n_stretches > 0 ? t->stretches[t->n_stretches - 1].shelf + 1 : 1;
    }
    return SYN_OK;
}

/* ---- Axis ---- */

/* 1, 2 or 5 times a power of ten ns, at least 55 points apart. */
static double tick_ns(const syn__pic_times *t) {
    double step = 1;
    static const double next[] = {2, 2.5, 2};
    for (int i = 0; step * t->ns_pt < 55; i++) step *= next[i % 3];
    return step;
}

/* "4 ms": ticks of one axis in one unit. */
static void put_tick(char *text, size_t bytes, double ns, double step) {
    const double unit = step >= 1e9 ? 1e9 : step >= 1e6 ? 1e6 : step >= 1e3 ? 1e3 : 1;
    snprintf(text, bytes, "%.0f %s", ns / unit,
             unit >= 1e9   ? "s"
             : unit >= 1e6 ? "ms"
             : unit >= 1e3 ? "\xC2\xB5s"
                           : "ns");
}

static syn_status grid_line(syn__pic_drawing *d, double x, double top, double bottom,
                            syn_error *err) {
    const uint32_t box = (uint32_t)d->n_boxes - 1;
    const syn__pic_edge e = {.from = box, .to = box, .line = SYN__PIC_GRID};
    SYN_TRY(syn__pic_begin_edge(d, &e, (syn__pic_point){x, top}, err));
    return syn__pic_line_to(d, (syn__pic_point){x, bottom}, err);
}

static void put_step(syn__pic_text *text, const syn__pic_times *t, uint32_t window) {
    const syn__pic_window *w = &t->windows[window];
    char a[SYN__PIC_NUMBER], b[SYN__PIC_NUMBER];
    int64_t least = w->end - w->begin, most = least;
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->n_windows; i++) {
        const int64_t ns = t->windows[i].end - t->windows[i].begin;
        if (t->windows[i].like != window) continue;
        n++;
        if (ns < least) least = ns;
        if (ns > most) most = ns;
    }
    syn__pic_clear(text);
    if (w->name[0] != '\0') syn__pic_put(text, "%s" DOT, w->name);
    syn__pic_put(text, "%s", syn__pic_time((double)(w->end - w->begin), a));
    if (n > 1)
        syn__pic_put(text, DOT TIMES "%u alike, %s to %s", n, syn__pic_time((double)least, a),
                     syn__pic_time((double)most, b));
}

/* The name of a step is cut at the end of its stretch, where the next one's begins. */
static syn_status draw_axis(syn__pic_times *t, const syn__pic_stretch *s, double y, double bottom,
                            syn_error *err) {
    syn__pic_drawing *d = t->drawing;
    const syn__pic_window *w = &t->windows[s->window];
    const double width = (double)(s->end - s->begin) * t->ns_pt, step = tick_ns(t);
    syn__pic_text title;
    char cut[200], tick[48];
    put_step(&title, t, s->window);
    if (s->begin > w->begin) syn__pic_put(&title, ", continued");
    size_t n = strlen(title.s);
    while (n > 3 && syn__pic_width(syn__pic_shorten(title.s, n, cut, sizeof cut), 9, true) > width)
        n--;
    if (n > 3) SYN_TRY(syn__pic_add_text(d, cut, s->x, y, 9, true, NULL, err));
    for (double at = ceil((double)(s->begin - w->begin) / step) * step;
         at <= (double)(s->end - w->begin); at += step) {
        const double x = s->x + (at - (double)(s->begin - w->begin)) * t->ns_pt;
        put_tick(tick, sizeof tick, at, step);
        const bool room = x + syn__pic_width(tick, TEXT_PT, false) + 6 < s->x + width;
        SYN_TRY(syn__pic_add_text(d, room || at == 0 ? tick : " ", x + 1.5, y + 14, TEXT_PT, false,
                                  NULL, err));
        SYN_TRY(grid_line(d, x, y + 14, bottom, err));
    }
    return SYN_OK;
}

/* ---- Ranks ---- */

static void put_busy(syn__pic_text *text, const syn__pic_times *t, const syn__pic_busy *b) {
    char a[SYN__PIC_NUMBER];
    const char *between = "";
    if (b->host > 0) {
        syn__pic_put(text, "host %s in ops", syn__pic_time((double)b->host, a));
        between = DOT;
    }
    if (b->device > 0) {
        syn__pic_put(text, "%s%s %s", between, t->lanes.foreign ? "device computes" : "computes",
                     syn__pic_time((double)b->device, a));
        between = DOT;
    }
    if (b->comm > 0) {
        syn__pic_put(text, "%scommunicates %s", between, syn__pic_time((double)b->comm, a));
        syn__pic_put(text, ", %s of it beside computation",
                     b->hidden > 0 ? syn__pic_time((double)b->hidden, a) : "none");
    }
}

static syn_status draw_names(syn__pic_times *t, const syn__pic_block *b, double y, syn_error *err) {
    char name[96], cut[96], time[SYN__PIC_NUMBER], text[160];
    for (uint32_t r = 0; r < b->n_rows; r++) {
        const bool alone = r + 1 == b->n_rows || b->rows[r + 1].first;
        const bool second = r > 0 && b->rows[r - 1].first && !b->rows[r].first;
        if (!b->rows[r].first && !second) continue;
        const syn__lane_thread *thread = &t->lanes.threads[b->rows[r].thread];
        syn__lane_name(&t->lanes, t->graph, thread, name, sizeof name);
        syn__pic_shorten(name, alone ? 12 : 20, cut, sizeof cut);
        syn__pic_time((double)b->row_busy[r], time);
        if (second) snprintf(text, sizeof text, "%s", b->row_busy[r] > 0 ? time : "");
        else snprintf(text, sizeof text, "%s%s%s", cut, alone ? DOT : "", alone ? time : "");
        if (text[0] != '\0')
            SYN_TRY(syn__pic_add_text(t->drawing, text, 8, y + r * PITCH + 1.5, TEXT_PT, false,
                                      NULL, err));
    }
    return SYN_OK;
}

static syn_status draw_frame(syn__pic_times *t, const syn__pic_block *b, double y, syn_error *err) {
    syn__pic_text title;
    int32_t cluster;
    const syn__pic_cluster c = {.label = "",
                                .tip = "",
                                .x1 = LEFT + WIDTH + 8,
                                .y0 = y,
                                .y1 = y + block_height(b) - RANK_GAP + 2,
                                .parent = -1};
    SYN_TRY(syn__pic_add_cluster(t->drawing, &c, &cluster, err));
    syn__pic_clear(&title);
    syn__pic_put(&title, "rank %d" DOT, t->graph->ranks[b->rank_index].rank);
    put_busy(&title, t, &b->busy);
    if (b->n_left_out > 0) syn__pic_put(&title, DOT "%u rows are not drawn", b->n_left_out);
    return syn__pic_add_text(t->drawing, title.s, 8, y + 2, 8.5, true, NULL, err);
}

static syn_status draw_block(syn__pic_times *t, const syn__pic_block *b, double top,
                             uint32_t shelves, syn_error *err) {
    const double height = shelf_height(t) + GAP;
    SYN_TRY(syn__pic_times_load(t, b->rank_index, err));
    for (uint32_t s = 0; s < shelves; s++) {
        SYN_TRY(draw_frame(t, b, top + s * height, err));
        SYN_TRY(draw_names(t, b, top + s * height + RANK_H, err));
    }
    for (size_t i = 0; i < t->n_stretches; i++) {
        const double y = top + t->stretches[i].shelf * height + RANK_H;
        for (uint32_t r = 0; r < b->n_rows; r++)
            SYN_TRY(syn__pic_times_bars(t, b, r, &t->stretches[i], y + r * PITCH, err));
    }
    return SYN_OK;
}

static syn_status draw_page(syn__pic_times *t, syn_error *err) {
    uint32_t shelves = 1;
    SYN_TRY(place(t, &shelves, err));
    const double height = shelf_height(t) + GAP;
    for (size_t i = 0; i < t->n_stretches; i++) {
        const double y = t->stretches[i].shelf * height;
        SYN_TRY(draw_axis(t, &t->stretches[i], y, y + height - GAP - RANK_GAP, err));
    }
    double top = AXIS_H;
    for (uint32_t b = 0; b < t->n_blocks; b++) {
        SYN_TRY(draw_block(t, &t->blocks[b], top, shelves, err));
        top += block_height(&t->blocks[b]);
    }
    SYN_TRY(syn__pic_times_join(t, err));
    t->drawing->width = LEFT + WIDTH + 8;
    t->drawing->height = shelves * height - GAP;
    return SYN_OK;
}

/* ---- Heading ---- */

static const char *clock_says(syn__clock clock) {
    switch (clock) {
    case SYN__CLOCK_MEASURED:
        return "times are measured";
    case SYN__CLOCK_PREDICTED:
        return "times are predicted";
    case SYN__CLOCK_DURATIONS:
        return "durations are the trace's, begins follow from what waits for what";
    default:
        return "without times: each op is as long as the next";
    }
}

static syn_status heading(syn__pic_times *t, const syn_export_options *options, syn_error *err) {
    syn__pic_drawing *d = t->drawing;
    syn__pic_text title, notes;
    syn__pic_heading h = {0};
    syn__pic_clear(&title);
    if (options->title != NULL) syn__pic_put_clean(&title, options->title);
    else if (t->n_blocks == 1)
        syn__pic_put(&title, "Timeline of rank %d of %d",
                     t->graph->ranks[t->blocks[0].rank_index].rank, t->graph->world_size);
    else syn__pic_put(&title, "Timeline of %u of %d ranks", t->n_blocks, t->graph->world_size);
    SYN_TRY(syn__pic_facts(&d->arena, t->graph, &h.lines[0], err));
    syn__pic_clear(&notes);
    syn__pic_put(&notes, "%s", clock_says(t->timeline.clock));
    if (t->n_drawn + t->n_unlike < t->n_windows)
        syn__pic_put(&notes, DOT "steps of the same ops are drawn once, marked " TIMES "N");
    if (t->n_unlike > 0) syn__pic_put(&notes, DOT "%u other steps are not drawn", t->n_unlike);
    if (t->copies.n > 0) syn__pic_put(&notes, DOT "ranks that do the same are drawn once");
    syn__pic_put(&notes, DOT "ops too narrow to be seen are drawn together");
    h.title = syn__arena_copy(&d->arena, title.s);
    h.lines[1] = syn__arena_copy(&d->arena, notes.s);
    if (h.title == NULL || h.lines[1] == NULL) return SYN_FAIL_NOMEM(err, notes.n, "a title");
    return syn__pic_add_heading(d, &h, err);
}

static syn_status make(syn__pic_times *t, const syn_export_options *options, syn_error *err) {
    SYN_TRY(syn__copies_find(&t->copies, t->graph, options, err));
    SYN_TRY(syn__timeline_make(&t->timeline, t->graph, options, &t->copies, err));
    while (t->n_blocks < SYN__PIC_RANKS && t->n_blocks < t->timeline.n_ranks) {
        t->blocks[t->n_blocks].rank_index = t->timeline.ranks[t->n_blocks];
        t->n_blocks++;
    }
    SYN_TRY(syn__pic_times_windows(t, !options->no_fold, err));
    for (uint32_t b = 0; b < t->n_blocks; b++) {
        SYN_TRY(syn__pic_times_load(t, t->blocks[b].rank_index, err));
        SYN_TRY(syn__pic_times_rows(t, &t->blocks[b], err));
    }
    SYN_TRY(draw_page(t, err));
    return heading(t, options, err);
}

void syn__pic_times_free(syn__pic_times *t) {
    syn__walk_free(&t->walk);
    syn__timeline_free(&t->timeline);
    syn__copies_free(&t->copies);
    syn__lanes_free(&t->lanes);
    syn_free(t->slices);
    syn_free(t->windows);
    syn_free(t->stretches);
    syn_free(t->joints);
}

syn_status syn__pic_time_view(syn__pic_drawing *d, const syn_graph *graph,
                              const syn_export_options *options, syn_error *err) {
    if (graph->n_ranks == 0) return SYN_FAIL(err, SYN_E_INVALID, "the graph to draw has no ranks");
    syn__pic_times *t = syn_calloc(1, sizeof *t);
    if (t == NULL) return SYN_FAIL_NOMEM(err, sizeof *t, "a timeline");
    t->graph = graph;
    t->drawing = d;
    syn__walk_init(&t->walk, graph);
    const syn_status s = make(t, options, err);
    syn__pic_times_free(t);
    syn_free(t);
    return s;
}
