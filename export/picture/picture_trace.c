/* Draws the trace view: one rank, with a column per phase, in as much detail as a readable picture
   allows. */
#include "export/picture/picture.h"
#include "export/picture/picture_layout.h"

#include <stdio.h>
#include <string.h>

#include "syntorch/base/memory.h"

#define DOT     " \xC2\xB7 "
#define STEP_PT 6000.0 /* longest side of training steps with all ops; keeps bars visible */

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

/* ---- panels: a column, or the columns of a pass of a training step ---- */

/* Whether part i is a forward and the next part its backward. */
static bool is_pair(const syn__pic_cells *c, size_t i) {
    if (c->plan->order == NULL || i + 1 >= c->n_parts) return false;
    const uint32_t a = c->parts[i].plan_section, b = c->parts[i + 1].plan_section;
    return a % SYN__PIC_SECTIONS == SYN__PIC_FORWARD && b == a + 1;
}

static syn_status draw_panels(syn__pic_cells *c, syn__pic_panel *panels, size_t *n,
                              syn_error *err) {
    for (uint32_t i = 0; i < c->n_parts; i++) {
        syn__pic_panel *p = &panels[(*n)++];
        *p = (syn__pic_panel){.mark = syn__pic_mark_of(c->drawing)};
        const bool pair = is_pair(c, i);
        SYN_TRY(pair ? syn__pic_layout_pair(c, i, &p->width, err) : syn__pic_layout(c, i, err));
        if (!pair) p->width = c->parts[i].width;
        p->height = c->parts[i].height;
        i += pair;
    }
    return SYN_OK;
}

static syn_status place_parts(syn__pic_cells *c, syn_error *err) {
    size_t n = 0;
    syn__pic_panel *panels = syn_calloc(c->n_parts + 1, sizeof *panels);
    if (panels == NULL) return SYN_FAIL_NOMEM(err, (c->n_parts + 1) * sizeof *panels, "a picture");
    const syn_status s = draw_panels(c, panels, &n, err);
    if (s == SYN_OK) syn__pic_place_panels(c->drawing, panels, n, 0);
    syn_free(panels);
    return s;
}

/* ---- level of detail ---- */

static const char *const condensed[SYN__PIC_DETAILS] = {"",
                                                        "tensors are not drawn",
                                                        "the ops of a module are one box",
                                                        "the ops of a layer are one box",
                                                        "a layer and its collectives are one box",
                                                        "consecutive ops are one box"};

typedef struct choice {
    syn__pic_level level;
    bool fold;
} choice;

static syn_status heading(syn__pic_drawing *d, const syn__pic_plan *plan,
                          const syn_export_options *options, const choice *how, syn_error *err) {
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
    SYN_TRY(syn__pic_metadata(&d->arena, graph, &h.lines[0], err));
    syn__pic_clear(&totals);
    syn__pic_put(&totals, "%s op%s", syn__pic_count(t->ops, a), t->ops == 1 ? "" : "s");
    if (t->flops > 0) syn__pic_put(&totals, DOT "%s", syn__pic_flops(t->flops, b));
    if (t->bytes > 0) syn__pic_put(&totals, DOT "%s memory traffic", syn__pic_bytes(t->bytes, a));
    if (t->comms > 0)
        syn__pic_put(&totals, DOT "%s communication%s, %s", syn__pic_count(t->comms, a),
                     t->comms == 1 ? "" : "s", syn__pic_bytes(t->comm_bytes, b));
    if (t->busy_ns != SYN_NO_TIME)
        syn__pic_put(&totals, DOT "sum of op times: %s measured", syn__pic_time(t->busy_ns, a));
    if (t->wait_ns > 0) syn__pic_put(&totals, ", +%s wait", syn__pic_time(t->wait_ns, a));
    if (t->predicted_ns != SYN_NO_TIME)
        syn__pic_put(&totals, DOT "sum of op times: %s predicted",
                     syn__pic_time(t->predicted_ns, a));
    syn__pic_clear(&folds);
    if (options->no_fold && how->fold)
        syn__pic_put(&folds, "Unfolded, the picture would be too large to read.  ");
    if (plan->folded_steps > 0 || plan->folded_units > 0)
        syn__pic_put(
            &folds,
            "Identical layers and steps are drawn once, as \xC3\x97N; ranges of shapes cover "
            "all.  ");
    const bool asked = options->detail != SYN_DETAIL_AUTO &&
                       (int)how->level.detail == (int)options->detail - SYN_DETAIL_TENSORS;
    static const char *const levels[SYN__PIC_DETAILS] = {"tensors", "ops", "modules",
                                                         "layers",  "",    ""};
    if (options->detail != SYN_DETAIL_AUTO && !asked)
        syn__pic_put(&folds, "Level of detail %s is unreadable here.  ",
                     levels[options->detail - SYN_DETAIL_TENSORS]);
    if (asked) syn__pic_put(&folds, "Level of detail: %s.", levels[how->level.detail]);
    else if (how->level.detail != SYN__PIC_FULL)
        syn__pic_put(&folds, "For readability, %s.", condensed[how->level.detail]);
    if (how->level.decode > how->level.detail)
        syn__pic_put(&folds, "  In decode steps, %s.", condensed[how->level.decode]);
    if (how->level.outside > how->level.detail)
        syn__pic_put(&folds, "  Ops outside of layers are one box.");
    h.title = syn__arena_copy(&d->arena, title.s);
    h.lines[1] = syn__arena_copy(&d->arena, totals.s);
    h.lines[2] = syn__arena_copy(&d->arena, folds.s);
    if (h.title == NULL || h.lines[1] == NULL || h.lines[2] == NULL)
        return SYN_FAIL_NOMEM(err, title.n + totals.n + folds.n, "the title of a picture");
    return syn__pic_add_heading(d, &h, err);
}

/* Draws the view with the level of detail of `t`. *fits: false if there are too many boxes or the
   picture is too large. */
static syn_status attempt(syn__pic_drawing *d, syn__pic_plan *plan,
                          const syn_export_options *options, const choice *t, double max_side,
                          bool *fits, syn_error *err) {
    syn__pic_cells cells = {0};
    syn__pic_drawing_free(d);
    d->page = options->page;
    syn_status s = syn__pic_cells_make(&cells, plan, d, &t->level, err);
    *fits = !cells.too_many;
    if (s == SYN_OK && *fits) s = place_parts(&cells, err);
    if (s == SYN_OK && *fits) s = heading(d, plan, options, t, err);
    if (plan->order != NULL && t->level.detail < SYN__PIC_RUNS && max_side > STEP_PT)
        max_side = STEP_PT;
    if (d->width > max_side || d->height > max_side) *fits = false;
    syn__pic_cells_free(&cells);
    return s;
}

/* Tries columns of 42 boxes, and on a page also shorter columns, until the picture is readable. */
static syn_status attempts(syn__pic_drawing *d, syn__pic_plan *plan,
                           const syn_export_options *options, choice t, double max_side, bool *fits,
                           syn_error *err) {
    static const uint32_t lengths[] = {42, 34, 28, 23, 19, 16, 13, 11, 9, 7};
    const size_t n = options->page == SYN_PAGE_NONE ? 1 : sizeof lengths / sizeof *lengths;
    for (size_t i = 0; i < n && !*fits; i++) {
        t.level.part_cells = lengths[i];
        SYN_TRY(attempt(d, plan, options, &t, max_side, fits, err));
        *fits = *fits && syn__pic_readable(d);
    }
    return SYN_OK;
}

/* Draws the trace as a small number of boxes, each a chunk of consecutive ops. Tries fewer and
   fewer boxes until the picture fits. */
static syn_status draw_chunks(syn__pic_drawing *d, syn__pic_plan *plan,
                              const syn_export_options *options, double max_side, bool *fits,
                              syn_error *err) {
    static const uint32_t counts[] = {150, 60, 20, 6, 1};
    for (size_t i = 0; i < sizeof counts / sizeof *counts && !*fits; i++) {
        const choice t = {.level = {.detail = SYN__PIC_CHUNKS, .chunks = counts[i]}};
        SYN_TRY(attempts(d, plan, options, t, max_side, fits, err));
    }
    return SYN_OK;
}

static bool decodes(const syn__pic_plan *plan) {
    for (size_t i = 0; i < plan->n_units; i++)
        if (plan->units[i].phase == SYN_PHASE_DECODE) return true;
    return false;
}

syn_status syn__pic_trace_view(syn__pic_drawing *d, const syn_graph *graph,
                               const syn_export_options *options, double max_side, syn_error *err) {
    const bool forced = options->detail != SYN_DETAIL_AUTO, page = options->page != SYN_PAGE_NONE;
    uint32_t rank;
    SYN_TRY(pick_rank(graph, options, &rank, err));
    bool fits = false;
    for (int round = options->no_fold ? 0 : 1; round < 3 && !fits; round++) {
        const int fold = round == 1 ? SYN__PIC_FOLD_ALL : SYN__PIC_FOLD_NONE;
        syn__pic_plan plan;
        syn_status s = round < 2 ? syn__pic_plan_passes(&plan, graph, rank, fold, err)
                                 : syn__pic_plan_make(&plan, graph, rank, fold, err);
        int detail = forced ? (int)options->detail - SYN_DETAIL_TENSORS : SYN__PIC_FULL;
        const int end = round == 1 && page ? SYN__PIC_CHUNKS : SYN__PIC_UNITS;
        const bool brief = page && decodes(&plan);
        for (; round < 2 && s == SYN_OK && !fits && detail < end; detail++) {
            choice t = {.level = {.detail = (syn__pic_detail)detail}, .fold = round == 1};
            s = attempts(d, &plan, options, t, max_side, &fits, err);
            t.level.decode = SYN__PIC_LAYERS;
            if (s == SYN_OK && !fits && brief)
                s = attempts(d, &plan, options, t, max_side, &fits, err);
            t.level.outside = SYN__PIC_UNITS;
            if (s == SYN_OK && !fits && page && detail == SYN__PIC_LAYERS)
                s = attempts(d, &plan, options, t, max_side, &fits, err);
        }
        if (round == 2 && s == SYN_OK) s = draw_chunks(d, &plan, options, max_side, &fits, err);
        syn__pic_plan_free(&plan);
        SYN_TRY(s);
    }
    return SYN_OK;
}
