/* Draws the time view. The ranks are drawn below each other, each with its threads and streams as
   rows, and time runs to the right. Steps with the same ops are drawn once. A long run is broken
   into lines, called shelves, which are drawn below each other. */
#include "export/picture/picture_time.h"
#include "export/picture/picture.h"
#include "export/picture/picture_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "syntorch/base/memory.h"

#define DOT      " \xC2\xB7 "
#define TIMES    "\xC3\x97"
#define DOTS     "\xE2\x8B\xAF" /* a centred ellipsis */
#define LEFT     128.0          /* width of the column with the names of the rows */
#define WIDTH    1000.0         /* width of the time axis without a page */
#define HEIGHT   640.0          /* desired height without the heading */
#define HEAD_H   120.0          /* approximate height of a heading on a page */
#define AXIS_H   26.0           /* height of an axis with the names of steps and the times */
#define RANK_H   15.0           /* space above a rank's rows */
#define PITCH    (SYN__PIC_ROW_H + 1.5)
#define RANK_GAP 9.0
#define GAP      14.0 /* distance between steps, and between shelves */
#define TEXT_PT  7.5

/* ---- stretches ---- */

static double block_height(const syn__pic_block *b) {
    return RANK_H + b->n_rows * PITCH + RANK_GAP;
}

static double shelf_height(const syn__pic_times *t) {
    double height = AXIS_H;
    for (uint32_t b = 0; b < t->n_blocks; b++) height += block_height(&t->blocks[b]);
    return height;
}

/* Places the steps one after the other on as many shelves as fit on the page. *out: number of
   shelves in use. */
static syn_status place(syn__pic_times *t, uint32_t *out, syn_error *err) {
    const double fits = (t->height + GAP) / (shelf_height(t) + GAP);
    const uint32_t shelves = fits < 2                  ? 1
                             : fits > SYN__PIC_SHELVES ? SYN__PIC_SHELVES
                                                       : (uint32_t)fits;
    /* The most space that can stay empty at the ends of shelves: a cut is never split, but moves to
       the next shelf. */
    const double moved = t->n_cuts > 0 ? SYN__PIC_CUT_PT * (shelves - 1) : 0;
    double at = 0;
    syn__pic_times_scale(t, shelves * t->width - GAP * (t->n_drawn - 1) - moved);
    for (uint32_t i = 0; i < t->n_drawn; i++) {
        const syn__pic_window *w = &t->windows[t->drawn[i]];
        for (int64_t from = w->begin; from < w->end;) {
            const double shelf = fmin(floor((at + 1e-6) / t->width), shelves - 1);
            double space = (shelf + 1) * t->width - at;
            /* Rounding can make the steps slightly wider than the shelves. The last shelf gets the
               excess. */
            if (shelf + 1 >= shelves) space = 2 * t->width;
            const int64_t to = syn__pic_time_after(t, from, w->end, space);
            SYN_TRY(syn_grow(&t->stretches, &t->stretches_cap, t->n_stretches + 1,
                             sizeof *t->stretches, err));
            t->stretches[t->n_stretches++] = (syn__pic_stretch){t->drawn[i], (uint32_t)shelf, from,
                                                                to, LEFT + at - shelf * t->width};
            at = to < w->end ? (shelf + 1) * t->width : at + syn__pic_points(t, from, to);
            from = to;
        }
        at += GAP;
        *out = t->n_stretches > 0 ? t->stretches[t->n_stretches - 1].shelf + 1 : 1;
    }
    return SYN_OK;
}

/* Finds the shelves on which the loaded rank, which is block b, does nothing. */
static void find_idle(syn__pic_times *t, uint32_t b) {
    for (uint32_t s = 0; s < SYN__PIC_SHELVES; s++) t->idle[s][b] = true;
    for (size_t i = 0; i < t->lanes.n_slices; i++)
        for (size_t k = 0; k < t->n_stretches && t->slices[i].depth >= 0; k++) {
            const syn__pic_stretch *s = &t->stretches[k];
            if (t->lanes.slices[i].start < s->end && t->lanes.slices[i].end > s->begin)
                t->idle[s->shelf][b] = false;
        }
}

/* Computes the y of the blocks. On a shelf where it does nothing, a block only has a title. */
static syn_status stack(syn__pic_times *t, uint32_t shelves, syn_error *err) {
    double y = 0;
    for (uint32_t b = 0; b < t->n_blocks; b++) {
        SYN_TRY(syn__pic_times_load(t, t->blocks[b].rank_index, err));
        find_idle(t, b);
    }
    for (uint32_t s = 0; s < shelves; s++, y += GAP) {
        y += AXIS_H;
        for (uint32_t b = 0; b < t->n_blocks; b++) {
            t->tops[s][b] = y;
            y += t->idle[s][b] ? RANK_H + RANK_GAP : block_height(&t->blocks[b]);
        }
        t->tops[s][t->n_blocks] = y;
    }
    t->drawing->height = y - GAP;
    return SYN_OK;
}

/* ---- axis ---- */

/* The distance between ticks: 1, 2 or 5 times a power of ten in ns, and at least 55 points. */
static double tick_ns(const syn__pic_times *t) {
    double step = 1;
    static const double next[] = {2, 2.5, 2};
    for (int i = 0; step * t->ns_pt < 55; i++) step *= next[i % 3];
    return step;
}

/* Writes the text of a tick, such as "4 ms". All ticks of an axis have the same unit. */
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
        syn__pic_put(text, DOT TIMES "%u steps, %s to %s", n, syn__pic_time((double)least, a),
                     syn__pic_time((double)most, b));
}

static const syn__pic_cut *cut_at(const syn__pic_times *t, int64_t at) {
    for (uint32_t k = 0; k < t->n_cuts; k++)
        if (t->cuts[k].begin <= at && at < t->cuts[k].end) return &t->cuts[k];
    return NULL;
}

/* Draws the axis of a stretch. The name of the step is truncated at the end of the stretch, because
   the next name begins there. */
static syn_status draw_axis(syn__pic_times *t, const syn__pic_stretch *s, double y, double bottom,
                            syn_error *err) {
    syn__pic_drawing *d = t->drawing;
    const syn__pic_window *w = &t->windows[s->window];
    const double width = syn__pic_points(t, s->begin, s->end), step = tick_ns(t);
    syn__pic_text title;
    char cut[200], tick[48];
    put_step(&title, t, s->window);
    if (s->begin > w->begin) syn__pic_put(&title, ", continued");
    size_t n = strlen(title.s);
    while (n > 3 && syn__pic_width(syn__pic_shorten(title.s, n, cut, sizeof cut), 9, true) > width)
        n--;
    if (n > 3) SYN_TRY(syn__pic_add_text(d, cut, s->x, y, 9, true, NULL, err));
    double end = s->x - 1; /* end of the last text on the axis */
    for (double at = ceil((double)(s->begin - w->begin) / step) * step;
         at <= (double)(s->end - w->begin); at += step) {
        const int64_t ns = w->begin + (int64_t)at;
        const syn__pic_cut *in = cut_at(t, ns);
        if (in != NULL) {
            at = floor((double)(in->end - w->begin) / step) * step;
            continue;
        }
        const double x = s->x + syn__pic_points(t, s->begin, ns);
        put_tick(tick, sizeof tick, at, step);
        const double text_w = syn__pic_width(tick, TEXT_PT, false) + 6;
        const bool free = x > end && cut_at(t, syn__pic_time_after(t, ns, s->end, text_w)) == NULL;
        const bool space = free && (at <= 0 || x + text_w < s->x + width);
        SYN_TRY(
            syn__pic_add_text(d, space ? tick : " ", x + 1.5, y + 14, TEXT_PT, false, NULL, err));
        if (space) end = x + text_w;
        SYN_TRY(grid_line(d, x, y + 14, bottom, err));
    }
    return SYN_OK;
}

/* Draws a band behind the rows of a rank. */
static syn_status shade(syn__pic_times *t, const syn__pic_stretch *s, const syn__pic_cut *cut,
                        double y, double bottom, syn_error *err) {
    int32_t cluster;
    const double x = s->x + syn__pic_points(t, s->begin, cut->begin);
    const syn__pic_cluster c = {.label = "",
                                .tip = "shortened: no op starts or ends here",
                                .x0 = x + 1,
                                .x1 = x + SYN__PIC_CUT_PT - 1,
                                .y0 = y,
                                .y1 = bottom,
                                .parent = -1,
                                .level = 1};
    return syn__pic_add_cluster(t->drawing, &c, &cluster, err);
}

/* Writes "⋯ 7.5 ms ⋯" over each cut of the stretch. */
static syn_status draw_cuts(syn__pic_times *t, const syn__pic_stretch *s, syn_error *err) {
    const double y = t->tops[s->shelf][0] - AXIS_H;
    char time[SYN__PIC_NUMBER], text[64];
    for (uint32_t k = 0; k < t->n_cuts; k++) {
        const syn__pic_cut *c = &t->cuts[k];
        if (c->begin < s->begin || c->end > s->end) continue;
        snprintf(text, sizeof text, DOTS "%s" DOTS,
                 syn__pic_time((double)(c->end - c->begin), time));
        const double x = s->x + syn__pic_points(t, s->begin, c->begin);
        const double w = syn__pic_width(text, TEXT_PT, false);
        SYN_TRY(syn__pic_add_text(t->drawing, text, x + (SYN__PIC_CUT_PT - w) / 2, y + 14, TEXT_PT,
                                  false, NULL, err));
        for (uint32_t b = 0; b < t->n_blocks; b++) {
            const double top = t->tops[s->shelf][b] + RANK_H;
            if (!t->idle[s->shelf][b])
                SYN_TRY(shade(t, s, c, top, top + t->blocks[b].n_rows * PITCH, err));
        }
    }
    return SYN_OK;
}

/* ---- ranks ---- */

static void put_busy(syn__pic_text *text, const syn__pic_times *t, const syn__pic_busy *b) {
    char a[SYN__PIC_NUMBER];
    const char *between = DOT;
    if (t->n_drawn < t->n_windows) {
        syn__pic_put(text, DOT "in the drawn steps: ");
        between = "";
    }
    if (b->host > 0) {
        syn__pic_put(text, "%shost ops %s", between, syn__pic_time((double)b->host, a));
        between = DOT;
    }
    if (b->device > 0) {
        syn__pic_put(text, "%s%s %s", between, t->lanes.foreign ? "device compute" : "compute",
                     syn__pic_time((double)b->device, a));
        between = DOT;
    }
    if (b->comm > 0) {
        syn__pic_put(text, "%scommunication %s", between, syn__pic_time((double)b->comm, a));
        syn__pic_put(text, ", %s overlapped",
                     b->hidden > 0 ? syn__pic_time((double)b->hidden, a) : "not");
        between = DOT;
    }
    if (b->wait > 0)
        syn__pic_put(text, "%swait for other ranks %s", between, syn__pic_time((double)b->wait, a));
}

static syn_status draw_names(syn__pic_times *t, const syn__pic_block *b, double y, syn_error *err) {
    char name[96], cut[96], time[SYN__PIC_NUMBER], text[160];
    for (uint32_t r = 0; r < b->n_rows; r++) {
        const bool alone = r + 1 == b->n_rows || b->rows[r + 1].first;
        const bool second = r > 0 && b->rows[r - 1].first && !b->rows[r].first;
        if (!b->rows[r].first && !second) continue;
        const syn__track_thread *thread = &t->lanes.threads[b->rows[r].thread];
        syn__track_name(&t->lanes, t->graph, thread, name, sizeof name);
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

/* Gives the last text the colour of the frame as background, so that grid lines do not cross it. */
static syn_status put_on_ground(syn__pic_drawing *d, syn_error *err) {
    static const char table[] = "<table ";
    syn__pic_box *box = &d->boxes[d->n_boxes - 1];
    syn__pic_text label;
    syn__pic_clear(&label);
    syn__pic_put(&label, "%sbgcolor=\"#fafbfc\" %s", table, box->label + sizeof table - 1);
    box->label = syn__arena_copy(&d->arena, label.s);
    return box->label != NULL ? SYN_OK : SYN_FAIL_NOMEM(err, label.n, "the title of a picture");
}

static syn_status draw_frame(syn__pic_times *t, uint32_t block, uint32_t shelf, syn_error *err) {
    const syn__pic_block *b = &t->blocks[block];
    const double y = t->tops[shelf][block], bottom = t->tops[shelf][block + 1];
    syn__pic_text title;
    int32_t cluster;
    const syn__pic_cluster c = {.label = "",
                                .tip = "",
                                .x1 = LEFT + t->width + 8,
                                .y0 = y,
                                .y1 = bottom - RANK_GAP + 2,
                                .parent = -1};
    SYN_TRY(syn__pic_add_cluster(t->drawing, &c, &cluster, err));
    syn__pic_clear(&title);
    syn__pic_put(&title, "rank %d", t->graph->ranks[b->rank_index].rank);
    uint32_t copies = 0;
    for (uint32_t r = 0; r < t->graph->n_ranks; r++)
        copies += syn__is_copy(&t->copies, r) && t->copies.of[r] == b->rank_index;
    if (copies > 0) syn__pic_put(&title, " and %u identical", copies);
    if (t->idle[shelf][block]) syn__pic_put(&title, DOT "idle");
    else put_busy(&title, t, &b->busy);
    if (b->n_left_out > 0) syn__pic_put(&title, DOT "%u rows are not drawn", b->n_left_out);
    SYN_TRY(syn__pic_add_text(t->drawing, title.s, 8, y + 2, 8.5, true, NULL, err));
    return put_on_ground(t->drawing, err);
}

static syn_status draw_block(syn__pic_times *t, uint32_t block, uint32_t shelves, syn_error *err) {
    const syn__pic_block *b = &t->blocks[block];
    SYN_TRY(syn__pic_times_load(t, b->rank_index, err));
    for (uint32_t s = 0; s < shelves; s++) {
        SYN_TRY(draw_frame(t, block, s, err));
        if (!t->idle[s][block]) SYN_TRY(draw_names(t, b, t->tops[s][block] + RANK_H, err));
    }
    for (size_t i = 0; i < t->n_stretches; i++) {
        const uint32_t s = t->stretches[i].shelf;
        const double y = t->tops[s][block] + RANK_H;
        for (uint32_t r = 0; r < b->n_rows && !t->idle[s][block]; r++)
            SYN_TRY(syn__pic_times_bars(t, b, r, &t->stretches[i], y + r * PITCH, err));
    }
    return SYN_OK;
}

static syn_status draw_page(syn__pic_times *t, syn_error *err) {
    uint32_t shelves = 1;
    SYN_TRY(place(t, &shelves, err));
    SYN_TRY(stack(t, shelves, err));
    for (size_t i = 0; i < t->n_stretches; i++) {
        const double *tops = t->tops[t->stretches[i].shelf];
        SYN_TRY(
            draw_axis(t, &t->stretches[i], tops[0] - AXIS_H, tops[t->n_blocks] - RANK_GAP, err));
    }
    for (uint32_t b = 0; b < t->n_blocks; b++) SYN_TRY(draw_block(t, b, shelves, err));
    for (size_t i = 0; i < t->n_stretches; i++) /* drawn after the frames, which would cover the
                                                   cuts */
        SYN_TRY(draw_cuts(t, &t->stretches[i], err));
    SYN_TRY(syn__pic_times_join(t, err));
    t->drawing->width = LEFT + t->width + 8;
    return SYN_OK;
}

/* ---- heading ---- */

static const char *clock_text(syn__clock clock) {
    switch (clock) {
    case SYN__CLOCK_MEASURED:
        return "times are measured";
    case SYN__CLOCK_PREDICTED:
        return "times are predicted";
    case SYN__CLOCK_DURATIONS:
        return "durations are from the trace, start times are derived from dependencies";
    default:
        return "no times: all ops have the same length";
    }
}

static syn_status heading(syn__pic_times *t, const syn_export_options *options, syn_error *err) {
    syn__pic_drawing *d = t->drawing;
    syn__pic_text title, notes;
    char time[SYN__PIC_NUMBER];
    syn__pic_heading h = {0};
    syn__pic_clear(&title);
    if (options->title != NULL) syn__pic_put_clean(&title, options->title);
    else if (t->n_blocks == 1)
        syn__pic_put(&title, "Timeline of rank %d of %d",
                     t->graph->ranks[t->blocks[0].rank_index].rank, t->graph->world_size);
    else syn__pic_put(&title, "Timeline of %u of %d ranks", t->n_blocks, t->graph->world_size);
    SYN_TRY(syn__pic_metadata(&d->arena, t->graph, &h.lines[0], err));
    syn__pic_clear(&notes);
    syn__pic_put(&notes, "%s", clock_text(t->timeline.clock));
    if (t->n_drawn + t->n_different < t->n_windows)
        syn__pic_put(
            &notes,
            DOT "steps with the same ops are drawn once, marked " TIMES "N" DOT
                "all %u steps take %s",
            (unsigned)t->n_windows,
            syn__pic_time((double)(t->windows[t->n_windows - 1].end - t->windows[0].begin), time));
    if (t->n_cuts > 0) syn__pic_put(&notes, DOT "intervals without events are shortened: " DOTS);
    if (t->n_different > 0)
        syn__pic_put(&notes, DOT "%u other steps are not drawn", t->n_different);
    if (t->copies.n > 0) syn__pic_put(&notes, DOT "identical ranks are drawn once");
    syn__pic_put(&notes, DOT "ops too short to see are merged");
    h.title = syn__arena_copy(&d->arena, title.s);
    h.lines[1] = syn__arena_copy(&d->arena, notes.s);
    if (h.title == NULL || h.lines[1] == NULL)
        return SYN_FAIL_NOMEM(err, notes.n, "the title of a picture");
    return syn__pic_add_heading(d, &h, err);
}

/* Drops ranks, and then rows of the remaining rank, until everything fits on the page. */
static void leave_out(syn__pic_times *t) {
    while (t->n_blocks > 1 && shelf_height(t) > t->height) t->n_blocks--;
    syn__pic_block *b = &t->blocks[0];
    for (; b->n_rows > 1 && shelf_height(t) > t->height; b->n_rows--) b->n_left_out++;
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
    if (options->page != SYN_PAGE_NONE) leave_out(t);
    SYN_TRY(syn__pic_times_cuts(t, err));
    SYN_TRY(draw_page(t, err));
    return heading(t, options, err);
}

void syn__pic_times_free(syn__pic_times *t) {
    syn__walk_free(&t->walk);
    syn__timeline_free(&t->timeline);
    syn__copies_free(&t->copies);
    syn__tracks_free(&t->lanes);
    syn_free(t->slices);
    syn_free(t->windows);
    syn_free(t->stretches);
    syn_free(t->joints);
}

/* Draws the view within `width` and `height`, which do not include the heading. */
static syn_status attempt(syn__pic_drawing *d, const syn_graph *graph,
                          const syn_export_options *options, double width, double height,
                          syn_error *err) {
    syn__pic_times *t = syn_calloc(1, sizeof *t);
    if (t == NULL) return SYN_FAIL_NOMEM(err, sizeof *t, "a timeline");
    syn__pic_drawing_free(d);
    d->page = options->page;
    t->graph = graph;
    t->drawing = d;
    t->width = width;
    t->height = height;
    syn__walk_init(&t->walk, graph);
    const syn_status s = make(t, options, err);
    syn__pic_times_free(t);
    syn_free(t);
    return s;
}

syn_status syn__pic_time_view(syn__pic_drawing *d, const syn_graph *graph,
                              const syn_export_options *options, syn_error *err) {
    double width = WIDTH, height = HEIGHT;
    if (graph->n_ranks == 0) return SYN_FAIL(err, SYN_E_INVALID, "the graph to draw has no ranks");
    if (options->page != SYN_PAGE_NONE) {
        syn__pic_page_space(options->page, SYN__PIC_TIME_TEXT, &width, &height);
        width -= LEFT + 8;
        height -= HEAD_H;
    }
    for (bool fits = false; !fits; height *= 0.9) {
        SYN_TRY(attempt(d, graph, options, width, height, err));
        fits = syn__pic_readable(d) || height < RANK_H;
    }
    return SYN_OK;
}
