/* The trace view: one rank, a column a phase, with as much detail as a readable picture allows. */
#include "export/picture/picture.h"
#include "export/picture/picture_layout.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "syntorch/memory.h"

#define DOT        " \xC2\xB7 "
#define GAP        22.0 /* between columns */
#define PAGE_SCALE 0.4  /* on a page that makes text smaller, less is shown instead */
#define STEP_PT \
    6000.0 /* a taller training step shows less of its ops, so that its bars can be seen */

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

/* What stands together: a column, or the columns of a pass of a training step. */
typedef struct block {
    syn__pic_mark mark; /* where its drawing begins */
    double width, height;
} block;

typedef struct page {
    block *blocks;
    size_t n;
} page;

/* Height and width of the page when a new shelf starts wherever a row of blocks
   would pass `limit`. */
static void measure(const page *p, double limit, double *width, double *height) {
    double x = 0, row = 0;
    *width = *height = 0;
    for (size_t i = 0; i < p->n; i++) {
        const block *b = &p->blocks[i];
        if (x > 0 && x + GAP + b->width > limit) {
            *height += row + GAP;
            x = row = 0;
        }
        x += (x > 0 ? GAP : 0) + b->width;
        if (b->height > row) row = b->height;
        if (x > *width) *width = x;
    }
    *height += row;
}

/* The page width nearest to the proportions of paper. */
static double page_width(const page *p) {
    double best = 0, best_score = INFINITY, limit = 0, w, h;
    for (size_t i = 0; i < p->n && i < 64; i++) {
        limit += p->blocks[i].width + (i > 0 ? GAP : 0);
        measure(p, limit, &w, &h);
        if (!(w > 0)) continue;
        const double score = fabs(log(h / w / 0.9)) + (i + 1 < p->n ? 0.4 : 0);
        if (score < best_score) best = limit, best_score = score;
    }
    return best;
}

/* Whether part i is a forward with its backward after it. */
static bool is_pair(const syn__pic_cells *c, size_t i) {
    if (c->plan->order == NULL || i + 1 >= c->n_parts) return false;
    const uint32_t a = c->parts[i].plan_section, b = c->parts[i + 1].plan_section;
    return a % SYN__PIC_SECTIONS == SYN__PIC_FORWARD && b == a + 1;
}

static syn_status draw_blocks(syn__pic_cells *c, page *p, syn_error *err) {
    syn__pic_drawing *d = c->drawing;
    for (uint32_t i = 0; i < c->n_parts; i++) {
        block *b = &p->blocks[p->n++];
        b->mark = syn__pic_mark_of(d);
        const bool pair = is_pair(c, i);
        SYN_TRY(pair ? syn__pic_layout_pair(c, i, &b->width, err) : syn__pic_layout(c, i, err));
        if (!pair) b->width = c->parts[i].width;
        b->height = c->parts[i].height;
        i += pair;
    }
    return SYN_OK;
}

static void place_blocks(const page *p, syn__pic_drawing *d) {
    const double limit = page_width(p) + 0.5;
    double x = 0, y = 0, row = 0;
    for (size_t i = 0; i < p->n; i++) {
        const block *b = &p->blocks[i];
        double dx = GAP, dy = 0;
        if (i == 0) dx = 0;
        else if (x + GAP + b->width > limit) {
            dx = -x;
            dy = row + GAP;
            row = 0;
        }
        /* blocks after this one follow it: move them all */
        x += dx;
        y += dy;
        syn__pic_shift(d, b->mark, dx, dy);
        if (i + 1 < p->n) syn__pic_shift(d, p->blocks[i + 1].mark, b->width, 0);
        x += b->width;
        if (x > d->width) d->width = x;
        if (b->height > row) row = b->height;
    }
    d->height = y + row;
}

static syn_status place_parts(syn__pic_cells *c, syn_error *err) {
    page p = {syn_calloc(c->n_parts + 1, sizeof *p.blocks), 0};
    if (p.blocks == NULL)
        return SYN_FAIL_NOMEM(err, (c->n_parts + 1) * sizeof *p.blocks, "a picture");
    const syn_status s = draw_blocks(c, &p, err);
    if (s == SYN_OK) place_blocks(&p, c->drawing);
    syn_free(p.blocks);
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
    syn__pic_put(&totals, "%s ops", syn__pic_count(t->ops, a));
    if (t->flops > 0) syn__pic_put(&totals, DOT "%s", syn__pic_flops(t->flops, b));
    if (t->bytes > 0) syn__pic_put(&totals, DOT "%s memory traffic", syn__pic_bytes(t->bytes, a));
    if (t->comms > 0)
        syn__pic_put(&totals, DOT "%s communications, %s", syn__pic_count(t->comms, a),
                     syn__pic_bytes(t->comm_bytes, b));
    if (t->busy_ns != SYN_NO_TIME)
        syn__pic_put(&totals, DOT "ops add up to %s measured", syn__pic_time(t->busy_ns, a));
    if (t->wait_ns > 0) syn__pic_put(&totals, ", +%s waiting", syn__pic_time(t->wait_ns, a));
    if (t->predicted_ns != SYN_NO_TIME)
        syn__pic_put(&totals, DOT "ops add up to %s predicted", syn__pic_time(t->predicted_ns, a));
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
    if (plan->order != NULL && detail < SYN__PIC_RUNS && max_side > STEP_PT) max_side = STEP_PT;
    if (d->width > max_side || d->height > max_side) *fits = false;
    double w, h;
    if (s == SYN_OK && detail < SYN__PIC_LAYERS &&
        syn__pic_page_scale(d, options->page, &w, &h) < PAGE_SCALE)
        *fits = false;
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
        syn_status s = round < 2 ? syn__pic_plan_passes(&plan, graph, rank, fold, err)
                                 : syn__pic_plan_make(&plan, graph, rank, fold, err);
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
