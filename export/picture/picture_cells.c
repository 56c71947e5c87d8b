/* Computes the cells of the trace view from the plan of a rank. A cell is one op or a run of ops,
   depending on the level of detail. Also divides the cells into columns. */
#include "export/picture/picture_cells.h"
#include "export/walk/graph_walk.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "syntorch/base/memory.h"

#define RUN_OPS     40 /* maximum ops in a run, so that traces without scopes have structure */
#define MAX_PERIOD  4  /* maximum number of ops in the sequence that an optimizer repeats */
#define MIN_REPEATS 3

void syn__pic_cells_free(syn__pic_cells *c) {
    syn_free(c->cells);
    syn_free(c->pills);
    syn_free(c->links);
    syn_free(c->parts);
    syn_free(c->tensor_seen);
    syn_free(c->outers);
    syn_free(c->cut_ends);
    *c = (syn__pic_cells){0};
}

/* ---- Cells ---- */

bool syn__pic_is_drawn(const syn_node *n) {
    return n->kind != SYN_NODE_METADATA && (n->flags & SYN_NODE_VIRTUAL) == 0;
}

/* The level of detail of a unit. Units of decode steps and units outside layers may have a less
   detailed level than the others. */
static syn__pic_detail detail_of(const syn__pic_cells *c, uint32_t unit) {
    const syn__pic_unit *u = &c->plan->units[unit];
    syn__pic_detail detail = c->detail;
    if (u->phase == SYN_PHASE_DECODE && c->decode > detail) detail = c->decode;
    if (u->layer[0] == '\0' && c->outside > detail) detail = c->outside;
    return detail;
}

static syn_status add_cell(syn__pic_cells *c, uint32_t first, uint32_t last, uint32_t unit,
                           uint32_t section, syn_error *err) {
    SYN_TRY(syn_grow(&c->cells, &c->cells_cap, c->n_cells + 1, sizeof *c->cells, err));
    c->cells[c->n_cells++] = (syn__pic_cell){.first = first,
                                             .last = last,
                                             .unit = unit,
                                             .section = section,
                                             .detail = detail_of(c, unit),
                                             .cluster = -1};
    if (c->plan->waits != NULL) c->cells[c->n_cells - 1].waits = c->plan->waits[first];
    if (c->n_cells > SYN__PIC_MAX_BOXES) c->too_many = true;
    return SYN_OK;
}

/* Whether `node`, which is at this place, joins the last cell. */
static syn_status joins(syn__pic_cells *c, const syn_node *node, uint32_t place, uint32_t chunk,
                        bool *out, syn_error *err) {
    syn__pic_cell *cell = &c->cells[c->n_cells - 1];
    *out = false;
    if (cell->detail <= SYN__PIC_OPS) return SYN_OK;
    if (cell->detail == SYN__PIC_CHUNKS) {
        *out = cell->last - cell->first + 1 < chunk;
        return SYN_OK;
    }
    if (cell->detail == SYN__PIC_UNITS) {
        *out = true;
        return SYN_OK;
    }
    const syn_node *first;
    SYN_TRY(syn__pic_node(c->plan, cell->first, &c->plan->other, &first, err));
    *out = !syn__walk_is_comm(node) && !syn__walk_is_comm(first) &&
           (cell->detail == SYN__PIC_LAYERS ||
            (cell->last - cell->first < RUN_OPS && strcmp(node->scope, first->scope) == 0)) &&
           syn__pic_may_join(c->plan, &cell->waits, place);
    return SYN_OK;
}

/* Whether the nodes at places a and b are the same op in the same scope, and not communication. */
static syn_status same_op(syn__pic_cells *c, uint32_t a, uint32_t b, bool *out, syn_error *err) {
    const syn_node *x, *y;
    SYN_TRY(syn__pic_node(c->plan, a, &c->plan->cursor, &x, err));
    SYN_TRY(syn__pic_node(c->plan, b, &c->plan->other, &y, err));
    *out = strcmp(x->op, y->op) == 0 && strcmp(x->label, y->label) == 0 &&
           strcmp(x->scope, y->scope) == 0 && !syn__walk_is_comm(x) && !syn__walk_is_comm(y);
    return SYN_OK;
}

/* Finds repetitions in an optimizer, which runs the same few ops for each bucket. *repeats: number
   of times that the sequence of ops at `begin` occurs in a row. *length: number of nodes in all
   repetitions. Both are 0 if there are no repetitions. */
static syn_status find_repeats(syn__pic_cells *c, uint32_t begin, uint32_t end, uint32_t *length,
                               uint32_t *repeats, syn_error *err) {
    const syn__pic_plan *p = c->plan;
    *length = *repeats = 0;
    if (p->order == NULL || c->detail > SYN__PIC_OPS || !p->folds ||
        p->units[syn__pic_unit_of(p, begin)].section % SYN__PIC_SECTIONS != SYN__PIC_REST)
        return SYN_OK;
    for (uint32_t period = 1; period <= MAX_PERIOD; period++) {
        uint32_t i = begin + period;
        for (bool same = true; i < end; i++) {
            SYN_TRY(same_op(c, i - period, i, &same, err));
            if (!same) break;
        }
        const uint32_t n = (i - begin) / period;
        if (n < MIN_REPEATS || n * period <= *length) continue;
        *length = n * period;
        *repeats = n;
    }
    return SYN_OK;
}

static syn_status unit_cells(syn__pic_cells *c, uint32_t unit, uint32_t section, bool fresh,
                             uint32_t chunk, syn_error *err) {
    const syn__pic_unit *u = &c->plan->units[unit];
    for (uint32_t i = u->begin; i < u->end && !c->too_many; i++) {
        const syn_node *n;
        bool join = false;
        uint32_t length, repeats;
        SYN_TRY(find_repeats(c, i, u->end, &length, &repeats, err));
        if (repeats > 0) {
            SYN_TRY(add_cell(c, i, i + length - 1, unit, section, err));
            c->cells[c->n_cells - 1].repeats = repeats;
            i += length - 1;
            fresh = true;
            continue;
        }
        SYN_TRY(syn__pic_node(c->plan, i, &c->plan->cursor, &n, err));
        if (!syn__pic_is_drawn(n)) continue;
        if (!fresh) SYN_TRY(joins(c, n, i, chunk, &join, err));
        if (join) c->cells[c->n_cells - 1].last = i;
        else SYN_TRY(add_cell(c, i, i, unit, section, err));
        fresh = false;
    }
    return SYN_OK;
}

static syn_status make_cells(syn__pic_cells *c, syn_error *err) {
    const syn__pic_plan *p = c->plan;
    const bool chunks = c->detail == SYN__PIC_CHUNKS;
    const uint32_t chunk = chunks ? p->n_nodes / c->chunks + 1 : 0;
    uint32_t section = 0, before = UINT32_MAX;
    if (!chunks && (c->detail > SYN__PIC_OPS || c->decode > SYN__PIC_OPS))
        SYN_TRY(syn__pic_plan_waits(c->plan, err));
    for (uint32_t u = 0; u < p->n_units && !c->too_many; u++) {
        if (!syn__pic_unit_drawn(p, u) || syn__pic_is_bucket(p, u)) continue;
        if (before != UINT32_MAX && !chunks &&
            (p->units[before].step_index != p->units[u].step_index ||
             p->units[before].section != p->units[u].section ||
             p->units[before].phase != p->units[u].phase))
            section++;
        SYN_TRY(unit_cells(c, u, section, !chunks || c->n_cells == 0, chunk, err));
        before = u;
    }
    return SYN_OK;
}

/* ---- parts: the columns of the picture ---- */

static syn_status add_part(syn__pic_cells *c, uint32_t begin, uint32_t number, syn_error *err) {
    const syn__pic_unit *u = &c->plan->units[c->cells[begin].unit];
    SYN_TRY(syn_grow(&c->parts, &c->parts_cap, c->n_parts + 1, sizeof *c->parts, err));
    c->parts[c->n_parts++] = (syn__pic_part){.cell_begin = begin,
                                             .cell_end = begin,
                                             .section = c->cells[begin].section,
                                             .step_index = u->step_index,
                                             .plan_section = u->section,
                                             .phase = u->phase,
                                             .number = number,
                                             .of = 1,
                                             .cluster = -1};
    return SYN_OK;
}

/* Divides a section into columns of about the same number of cells. A column preferably ends at the
   end of a layer, unless it would be too short or too long. */
static syn_status section_parts(syn__pic_cells *c, uint32_t begin, uint32_t end, syn_error *err) {
    const uint32_t n = end - begin;
    const bool whole =
        c->plan->order != NULL &&
        c->plan->units[c->cells[begin].unit].section % SYN__PIC_SECTIONS <= SYN__PIC_BACKWARD;
    const uint32_t parts = whole                        ? 1
                           : n <= c->part_cells * 5 / 4 ? 1
                                                        : (n + c->part_cells - 1) / c->part_cells;
    const uint32_t target = (n + parts - 1) / parts;
    const bool layers = c->cells[begin].unit != c->cells[end - 1].unit;
    const uint32_t most = layers ? target * 5 / 4 : target;
    const size_t first = c->n_parts;
    SYN_TRY(add_part(c, begin, 1, err));
    for (uint32_t i = begin; i < end; i++) {
        const uint32_t have = i - c->parts[c->n_parts - 1].cell_begin;
        const bool layer_ends = i > begin && c->cells[i].unit != c->cells[i - 1].unit;
        if (parts > 1 && (!layers || end - i > target / 3) &&
            ((layer_ends && have >= target * 3 / 4) || have >= most))
            SYN_TRY(add_part(c, i, (uint32_t)(c->n_parts - first) + 1, err));
        c->parts[c->n_parts - 1].cell_end = i + 1;
        c->cells[i].part = (uint32_t)c->n_parts - 1;
    }
    for (size_t i = first; i < c->n_parts; i++) c->parts[i].of = (uint32_t)(c->n_parts - first);
    return SYN_OK;
}

static syn_status make_parts(syn__pic_cells *c, syn_error *err) {
    for (uint32_t begin = 0, i = 1; i <= c->n_cells; i++) {
        if (i < c->n_cells && c->cells[i].section == c->cells[begin].section) continue;
        SYN_TRY(section_parts(c, begin, i, err));
        begin = i;
    }
    return SYN_OK;
}

bool syn__pic_shares_unit(const syn__pic_cells *c, const syn__pic_cell *cell) {
    const size_t i = (size_t)(cell - c->cells);
    return (i > 0 && cell[-1].unit == cell->unit) ||
           (i + 1 < c->n_cells && cell[1].unit == cell->unit);
}

uint32_t syn__pic_cell_of(const syn__pic_cells *c, uint32_t node) {
    size_t lo = 0, hi = c->n_cells;
    node = syn__pic_rep_of(c->plan, node);
    while (hi - lo > 1) {
        const size_t mid = lo + (hi - lo) / 2;
        if (c->cells[mid].first <= node) lo = mid;
        else hi = mid;
    }
    const bool inside = hi > lo && c->cells[lo].first <= node && node <= c->cells[lo].last;
    return inside ? (uint32_t)lo : UINT32_MAX;
}

syn_status syn__pic_cells_make(syn__pic_cells *c, syn__pic_plan *plan, syn__pic_drawing *d,
                               const syn__pic_level *level, syn_error *err) {
    *c = (syn__pic_cells){.plan = plan,
                          .drawing = d,
                          .detail = level->detail,
                          .decode = level->decode,
                          .outside = level->outside,
                          .part_cells = level->part_cells,
                          .chunks = level->chunks};
    SYN_TRY(make_cells(c, err));
    if (c->too_many) return SYN_OK;
    SYN_TRY(make_parts(c, err));
    const uint32_t n_tensors = plan->graph->ranks[plan->rank].n_tensors;
    c->tensor_seen = syn_calloc((size_t)n_tensors + 1, 1);
    if (c->tensor_seen == NULL) return SYN_FAIL_NOMEM(err, n_tensors, "the tensors of a picture");
    for (size_t k = 0; k < c->n_parts && !c->too_many; k++) {
        syn__pic_part *part = &c->parts[k];
        part->link_begin = (uint32_t)c->n_links;
        for (uint32_t i = part->cell_begin; i < part->cell_end && !c->too_many; i++)
            SYN_TRY(syn__pic_finish_cell(c, i, err));
        part->link_end = (uint32_t)c->n_links;
    }
    return syn__pic_name_cut_ends(c, err);
}
