/* Draws the communication view. Each rank has a column, in which time runs downwards. A collective
   is a red bar across the columns of its ranks, and a message is a red line between two columns. */
#include "export/picture/picture_comm.h"
#include "export/picture/picture.h"

#include <math.h>

#include "syntorch/base/memory.h"

#define DOT " \xC2\xB7 "

/* ---- Heading ---- */

/* Writes "all_reduce 80 x, 1.2 MiB" for every kind of communication in the first lane. */
static syn_status put_kinds(syn__pic_chart *c, syn__pic_text *t, syn_error *err) {
    uint64_t count[SYN_COMM_KIND_COUNT] = {0}, bytes[SYN_COMM_KIND_COUNT] = {0};
    char a[SYN__PIC_NUMBER], b[SYN__PIC_NUMBER];
    syn__pic_lane *lane = &c->lanes[0];
    for (uint32_t i = 0; i < lane->plan.n_nodes; i++) {
        const syn_node *n;
        SYN_TRY(syn__pic_node(&lane->plan, i, &lane->plan.cursor, &n, err));
        if (!syn__walk_is_comm(n) || (unsigned)n->comm >= SYN_COMM_KIND_COUNT) continue;
        count[n->comm]++;
        bytes[n->comm] += n->comm_bytes;
    }
    syn__pic_put(t, "rank %d: ", c->graph->ranks[lane->rank_index].rank);
    bool any = false;
    for (int k = 0; k < SYN_COMM_KIND_COUNT; k++) {
        if (count[k] == 0) continue;
        syn__pic_put(t, "%s%s \xC3\x97 %s, %s", any ? DOT : "", syn__pic_count(count[k], a),
                     syn_comm_kind_name((syn_comm_kind)k), syn__pic_bytes(bytes[k], b));
        any = true;
    }
    if (!any) syn__pic_put(t, "no communication");
    return SYN_OK;
}

static syn_status heading(syn__pic_chart *c, const syn_export_options *options,
                          syn__pic_detail detail, int fold, syn_error *err) {
    syn__pic_drawing *d = c->drawing;
    syn__pic_heading h = {0};
    syn__pic_text title, kinds, notes;
    uint32_t folded = 0;
    syn__pic_clear(&title);
    if (options->title != NULL) syn__pic_put_clean(&title, options->title);
    else if (c->graph->n_ranks < (uint32_t)c->graph->world_size && c->graph->n_ranks > 0)
        syn__pic_put(&title, "Communication of %u of %d ranks", c->graph->n_ranks,
                     c->graph->world_size);
    else
        syn__pic_put(&title, "Communication between %d rank%s", c->graph->world_size,
                     c->graph->world_size == 1 ? "" : "s");
    SYN_TRY(syn__pic_metadata(&d->arena, c->graph, &h.lines[0], err));
    syn__pic_clear(&kinds);
    SYN_TRY(put_kinds(c, &kinds, err));
    syn__pic_clear(&notes);
    for (uint32_t k = 0; k < c->n_lanes; k++)
        folded +=
            c->lanes[k].plan.folded_units + c->lanes[k].plan.folded_steps + c->lanes[k].n_ranks - 1;
    if (options->no_fold && fold != SYN__PIC_FOLD_NONE)
        syn__pic_put(&notes, "Unfolded, the picture would be too large to read.  ");
    if (c->passes)
        syn__pic_put(&notes, "Passes of microbatches are numbered. %s is drawn as one box.  ",
                     detail == SYN__PIC_FULL ? "A pass that is like an earlier one" : "Each");
    else if (folded > 0)
        syn__pic_put(&notes,
                     "Identical layers, steps and ranks are drawn once, marked \xC3\x97N.  ");
    if (c->hidden > 0)
        syn__pic_put(&notes, "%u ranks that differ from these are not drawn.  ", c->hidden);
    if (detail == SYN__PIC_LAYERS && options->detail == SYN_DETAIL_LAYERS)
        syn__pic_put(&notes, "Level of detail: layers.");
    else if (detail != SYN__PIC_FULL && !c->passes)
        syn__pic_put(&notes, "For readability, %s is drawn as one box.",
                     detail == SYN__PIC_LAYERS ? "every layer" : "every rank");
    else if (c->name_lines == 0 && !c->passes)
        syn__pic_put(&notes, "For readability, boxes show the number of ops instead of names.");
    h.title = syn__arena_copy(&d->arena, title.s);
    h.lines[1] = syn__arena_copy(&d->arena, kinds.s);
    h.lines[2] = syn__arena_copy(&d->arena, notes.s);
    if (h.title == NULL || h.lines[1] == NULL || h.lines[2] == NULL)
        return SYN_FAIL_NOMEM(err, title.n + kinds.n + notes.n, "the title of a picture");
    return syn__pic_add_heading(d, &h, err);
}

/* A combination of options. Several are tried in a fixed order until the picture is readable. */
typedef struct choice {
    int fold;
    syn__pic_detail detail;
    int name_lines;
    uint32_t columns;
    bool passes; /* see syn__pic_chart */
} choice;

enum { COLUMNS = 4, STAGES = SYN__PIC_COLUMNS };

static syn_status attempt(syn__pic_chart *chart, const syn_export_options *options, const choice *t,
                          double most, syn_error *err) {
    syn__pic_drawing *d = chart->drawing;
    syn__pic_drawing_free(d);
    d->page = options->page;
    chart->most = most;
    chart->name_lines = t->name_lines;
    chart->row_gap = d->page == SYN_PAGE_NONE ? 20 : t->name_lines > 0 ? 14 : 9;
    chart->lane_gap = d->page == SYN_PAGE_NONE ? 44 : 18;
    SYN_TRY(syn__pic_chart_items(chart, t->detail, err));
    if (chart->too_many) return SYN_OK;
    SYN_TRY(syn__pic_chart_draw(chart, err));
    return heading(chart, options, t->detail, t->fold, err);
}

/* Tries a combination: first with panels of any height, then with lower and lower panels until the
   picture is readable on its page. */
static syn_status attempts(syn__pic_drawing *d, const syn_graph *graph,
                           const syn_export_options *options, const choice *t, double max_side,
                           bool *fits, syn_error *err) {
    static const double most[] = {INFINITY, 1000, 800, 640, 520, 420, 340, 280};
    const size_t n = options->page == SYN_PAGE_NONE ? 1 : sizeof most / sizeof *most;
    syn__pic_chart chart = {0};
    syn_status s = syn__pic_chart_make(&chart, d, graph, options->known_copies, t->fold, t->columns,
                                       t->passes, err);
    for (size_t i = 0; i < n && !*fits && s == SYN_OK; i++) {
        s = attempt(&chart, options, t, most[i], err);
        *fits = !chart.too_many && d->width <= max_side && d->height <= max_side &&
                syn__pic_readable(d);
    }
    syn__pic_chart_free(&chart);
    return s;
}

/* Whether to try a combination. Fewer columns are only tried for pages. If the user requests a
   level of detail, only this level is tried and, as a last resort, CHUNKS (one box per rank). */
static bool is_tried(const choice *t, const syn_graph *graph, const syn_export_options *options) {
    const bool layers = options->detail == SYN_DETAIL_LAYERS;
    if (t->columns < COLUMNS && (options->page == SYN_PAGE_NONE || graph->n_ranks <= t->columns))
        return false;
    return options->detail == SYN_DETAIL_AUTO || t->detail == SYN__PIC_CHUNKS ||
           layers == (t->detail == SYN__PIC_LAYERS);
}

/* Tries to draw the stages of a pipeline, if the graph has messages between stages. */
static syn_status try_stages(syn__pic_drawing *d, const syn_graph *graph,
                             const syn_export_options *options, double max_side, bool *fits,
                             syn_error *err) {
    static const choice tries[] = {{SYN__PIC_FOLD_LAYERS, SYN__PIC_FULL, 3, STAGES, true},
                                   {SYN__PIC_FOLD_LAYERS, SYN__PIC_FULL, 0, STAGES, true},
                                   {SYN__PIC_FOLD_LAYERS, SYN__PIC_LAYERS, 0, STAGES, true}};
    bool any;
    if (options->no_fold || options->detail != SYN_DETAIL_AUTO) return SYN_OK;
    uint32_t *next = syn_calloc(graph->n_ranks, sizeof *next);
    if (!next) return SYN_FAIL_NOMEM(err, graph->n_ranks * sizeof *next, "the ranks of a picture");
    syn_status s = syn__pic_find_stages(graph, true, next, &any, err);
    syn_free(next);
    for (size_t i = 0; i < sizeof tries / sizeof *tries && s == SYN_OK && any && !*fits; i++)
        s = attempts(d, graph, options, &tries[i], max_side, fits, err);
    return s;
}

syn_status syn__pic_comm_view(syn__pic_drawing *d, const syn_graph *graph,
                              const syn_export_options *options, double max_side, syn_error *err) {
    static const choice tries[] = {{SYN__PIC_FOLD_NONE, SYN__PIC_FULL, 3, 4, false},
                                   {SYN__PIC_FOLD_NONE, SYN__PIC_LAYERS, 3, 4, false},
                                   {SYN__PIC_FOLD_LAYERS, SYN__PIC_FULL, 3, 4, false},
                                   {SYN__PIC_FOLD_ALL, SYN__PIC_FULL, 3, 4, false},
                                   {SYN__PIC_FOLD_ALL, SYN__PIC_FULL, 0, 4, false},
                                   {SYN__PIC_FOLD_ALL, SYN__PIC_FULL, 0, 2, false},
                                   {SYN__PIC_FOLD_ALL, SYN__PIC_LAYERS, 0, 4, false},
                                   {SYN__PIC_FOLD_ALL, SYN__PIC_LAYERS, 0, 2, false},
                                   {SYN__PIC_FOLD_ALL, SYN__PIC_LAYERS, 0, 1, false},
                                   {SYN__PIC_FOLD_NONE, SYN__PIC_CHUNKS, 3, 4, false},
                                   {SYN__PIC_FOLD_NONE, SYN__PIC_CHUNKS, 0, 2, false},
                                   {SYN__PIC_FOLD_NONE, SYN__PIC_CHUNKS, 0, 1, false}};
    if (graph->n_ranks == 0) return SYN_FAIL(err, SYN_E_INVALID, "the graph to draw has no ranks");
    const size_t n = sizeof tries / sizeof *tries;
    bool fits = false;
    SYN_TRY(try_stages(d, graph, options, max_side, &fits, err));
    for (size_t i = options->no_fold ? 0 : 2; i < n && !fits; i++)
        if (is_tried(&tries[i], graph, options))
            SYN_TRY(attempts(d, graph, options, &tries[i], max_side, &fits, err));
    return SYN_OK;
}
