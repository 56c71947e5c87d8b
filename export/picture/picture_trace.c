/* The trace view: one rank, a column a phase, with as much detail as a readable picture allows. */
#include "export/picture/picture.h"
#include "export/picture/picture_layout.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "syntorch/memory.h"

#define DOT " \xC2\xB7 "
#define GAP 22.0 /* between columns */

static syn_status pick_rank(const syn_graph *graph, const syn_export_options *options,
                            uint32_t *out, syn_error *err) {
    if (graph->n_ranks == 0) return SYN_FAIL(err, SYN_E_INVALID, "the graph to draw has no ranks");
    *out = 0;
    if (options->rank == NULL) return SYN_OK;
    for (uint32_t i = 0; i < graph->n_ranks; i++)
        if (graph->ranks[i].rank == *options->rank) {
            *out = i;
            return SYN_OK;
        }
    return SYN_FAIL(err, SYN_E_INVALID,
                    "rank %d is not in the graph, whose %u ranks go from %d to %d", *options->rank,
                    graph->n_ranks, graph->ranks[0].rank, graph->ranks[graph->n_ranks - 1].rank);
}

/* ---- Columns on the page ---- */

/* Height and width of the page when a new shelf starts wherever a row of columns
   would pass `limit`. */
static void measure(const syn__pic_cells *c, double limit, double *width, double *height) {
    double x = 0, row = 0;
    *width = *height = 0;
    for (size_t i = 0; i < c->n_parts; i++) {
        const syn__pic_part *p = &c->parts[i];
        if (x > 0 && x + GAP + p->width > limit) {
            *height += row + GAP;
            x = row = 0;
        }
        x += (x > 0 ? GAP : 0) + p->width;
        if (p->height > row) row = p->height;
        if (x > *width) *width = x;
    }
    *height += row;
}

/* The page width nearest to the proportions of paper. */
static double page_width(const syn__pic_cells *c) {
    double best = 0, best_score = INFINITY, limit = 0, w, h;
    for (size_t i = 0; i < c->n_parts && i < 64; i++) {
        limit += c->parts[i].width + (i > 0 ? GAP : 0);
        measure(c, limit, &w, &h);
        if (!(w > 0)) continue;
        const double score = fabs(log(h / w / 0.9)) + (i + 1 < c->n_parts ? 0.4 : 0);
        if (score < best_score) best = limit, best_score = score;
    }
    return best;
}

static syn_status place_parts(syn__pic_cells *c, syn_error *err) {
    syn__pic_drawing *d = c->drawing;
    syn__pic_mark *marks = syn_calloc(c->n_parts + 1, sizeof *marks);
    if (marks == NULL) return SYN_FAIL_NOMEM(err, (c->n_parts + 1) * sizeof *marks, "a picture");
    syn_status s = SYN_OK;
    for (uint32_t i = 0; i < c->n_parts && s == SYN_OK; i++) {
        marks[i] = syn__pic_mark_of(d);
        s = syn__pic_layout(c, i, err);
    }
    if (s == SYN_OK) {
        const double limit = page_width(c) + 0.5;
        double x = 0, y = 0, row = 0;
        for (size_t i = 0; i < c->n_parts; i++) {
            const syn__pic_part *p = &c->parts[i];
            double dx = GAP, dy = 0;
            if (i == 0) dx = 0;
            else if (x + GAP + p->width > limit) {
                dx = -x;
                dy = row + GAP;
                row = 0;
            }
            /* columns after this one follow it: move them all */
            x += dx;
            y += dy;
            syn__pic_shift(d, marks[i], dx, dy);
            if (i + 1 < c->n_parts) syn__pic_shift(d, marks[i + 1], p->width, 0);
            x += p->width;
            if (x > d->width) d->width = x;
            if (p->height > row) row = p->height;
        }
        d->height = y + row;
    }
    syn_free(marks);
    return s;
}

/* ---- Level of detail ---- */

static const char *const condensed[SYN__PIC_DETAILS] = {
    "", "tensors are not drawn", "ops between communications are drawn as one box",
    "every layer is drawn as one box", "stretches of the trace are drawn as one box"};

static syn_status heading(syn__pic_drawing *d, const syn__pic_plan *plan,
                          const syn_export_options *options, syn__pic_detail detail, bool fold,
                          syn_error *err) {
    const syn_graph *graph = plan->graph;
    const syn__pic_totals *t = &plan->totals;
    char a[SYN__PIC_NUMBER], b[SYN__PIC_NUMBER];
    syn__pic_text title, totals, folds;
    syn__pic_heading h = {0};
    syn__pic_clear(&title);
    if (options->title != NULL) syn__pic_put_clean(&title, options->title);
    else if (graph->world_size > 1)
        syn__pic_put(&title, "Tensor trace of rank %d of %d", graph->ranks[plan->rank].rank,
                     graph->world_size);
    else syn__pic_put(&title, "Tensor trace");
    SYN_TRY(syn__pic_facts(&d->arena, graph, &h.lines[0], err));
    syn__pic_clear(&totals);
    syn__pic_put(&totals, "%s ops" DOT "%s", syn__pic_count(t->ops, a),
                 syn__pic_flops(t->flops, b));
    syn__pic_put(&totals, DOT "%s memory traffic", syn__pic_bytes(t->bytes, a));
    if (t->comms > 0)
        syn__pic_put(&totals, DOT "%s communications, %s", syn__pic_count(t->comms, a),
                     syn__pic_bytes(t->comm_bytes, b));
    if (t->busy_ns != SYN_NO_TIME)
        syn__pic_put(&totals, DOT "%s measured", syn__pic_time(t->busy_ns, a));
    if (t->wait_ns > 0) syn__pic_put(&totals, ", +%s waiting", syn__pic_time(t->wait_ns, a));
    if (t->predicted_ns != SYN_NO_TIME)
        syn__pic_put(&totals, DOT "%s predicted", syn__pic_time(t->predicted_ns, a));
    syn__pic_clear(&folds);
    if (options->no_fold && fold)
        syn__pic_put(&folds, "Unfolded, this would be too large to read, so repeats are folded.  ");
    if (plan->folded_steps > 0 || plan->folded_units > 0)
        syn__pic_put(&folds,
                     "What repeats is drawn once and marked \xC3\x97N; ranges of shapes cover all "
                     "repeats.  ");
    if (detail != SYN__PIC_FULL) syn__pic_put(&folds, "To stay readable, %s.", condensed[detail]);
    h.title = syn__arena_copy(&d->arena, title.s);
    h.lines[1] = syn__arena_copy(&d->arena, totals.s);
    h.lines[2] = syn__arena_copy(&d->arena, folds.s);
    if (h.title == NULL || h.lines[1] == NULL || h.lines[2] == NULL)
        return SYN_FAIL_NOMEM(err, title.n + totals.n + folds.n, "a title");
    return syn__pic_add_heading(d, &h, err);
}

/* Draws with this detail; *fits is false if that gives too many boxes or too large a picture. */
static syn_status attempt(syn__pic_drawing *d, syn__pic_plan *plan,
                          const syn_export_options *options, syn__pic_detail detail, bool fold,
                          double max_side, bool *fits, syn_error *err) {
    syn__pic_cells cells = {0};
    syn_status s = syn__pic_cells_make(&cells, plan, d, detail, err);
    *fits = !cells.too_many;
    if (s == SYN_OK && *fits) s = place_parts(&cells, err);
    if (s == SYN_OK && *fits) s = heading(d, plan, options, detail, fold, err);
    if (d->width > max_side || d->height > max_side) *fits = false;
    syn__pic_cells_free(&cells);
    return s;
}

syn_status syn__pic_trace_view(syn__pic_drawing *d, const syn_graph *graph,
                               const syn_export_options *options, double max_side, syn_error *err) {
    uint32_t rank;
    SYN_TRY(pick_rank(graph, options, &rank, err));
    bool fits = false;
    for (int round = options->no_fold ? 0 : 1; round < 3 && !fits; round++) {
        const int fold = round == 1 ? SYN__PIC_FOLD_ALL : SYN__PIC_FOLD_NONE;
        syn__pic_plan plan;
        syn_status s = syn__pic_plan_make(&plan, graph, rank, fold, err);
        int detail = round < 2 ? SYN__PIC_FULL : SYN__PIC_CHUNKS;
        const int end = round < 2 ? SYN__PIC_CHUNKS : SYN__PIC_DETAILS;
        for (; s == SYN_OK && !fits && detail < end; detail++) {
            syn__pic_drawing_free(d);
            s = attempt(d, &plan, options, (syn__pic_detail)detail, round == 1, max_side, &fits,
                        err);
        }
        syn__pic_plan_free(&plan);
        SYN_TRY(s);
    }
    return SYN_OK;
}
