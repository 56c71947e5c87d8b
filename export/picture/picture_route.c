/* Draws the boxes and edges of a column. All positions must be known. */
#include "export/picture/picture_layout.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static syn__pic_drawing *drawing(const syn__pic_column *col) {
    return col->cells->drawing;
}

static const char *pill_id(syn__pic_column *col, const syn__pic_cell *cell,
                           const syn__pic_pill *pill, uint32_t index) {
    char id[128];
    const syn__pic_plan *plan = col->cells->plan;
    const int32_t rank = plan->graph->ranks[plan->rank].rank;
    if (pill->tensor == SYN_NO_TENSOR) {
        snprintf(id, sizeof id, "%s.more%u", cell->id, index);
    } else if (!col->cells->tensor_seen[pill->tensor]) {
        col->cells->tensor_seen[pill->tensor] = 1;
        snprintf(id, sizeof id, "r%d.t%u", rank, pill->tensor);
    } else {
        snprintf(id, sizeof id, "r%d.t%u.of.%s.%u", rank, pill->tensor, cell->id, index);
    }
    return syn__arena_copy(&drawing(col)->arena, id);
}

static syn_status draw_pill(syn__pic_column *col, const syn__pic_cell *cell, uint32_t index,
                            bool side, double x, double y, syn_error *err) {
    syn__pic_pill *p = &col->cells->pills[index];
    syn__pic_text t;
    syn__pic_clear(&t);
    if (side)
        syn__pic_put(&t, "<table border=\"0\" cellborder=\"0\" cellspacing=\"0\" cellpadding=\"0\">"
                         "<tr><td>");
    syn__pic_put(&t, "<font point-size=\"8.5\"><b>");
    syn__pic_put_html(&t, p->name);
    syn__pic_put(&t, "</b></font>");
    if (p->rest != NULL) {
        syn__pic_put(&t, "</td></tr><tr><td><font point-size=\"8.5\"><b>");
        syn__pic_put_html(&t, p->rest);
        syn__pic_put(&t, "</b></font>");
    }
    if (side && p->via != NULL) {
        syn__pic_put(&t, "<font point-size=\"8\" color=\"#3d5a40\"><i>&#160;&#160;");
        syn__pic_put_html(&t, p->via);
        syn__pic_put(&t, "</i></font>");
    }
    syn__pic_put(&t, "%s<font point-size=\"8\" color=\"#3d5a40\">",
                 side ? "</td></tr><tr><td height=\"11\">" : "  ");
    syn__pic_put_html(&t, p->detail);
    syn__pic_put(&t, "</font>%s", side ? "</td></tr></table>" : "");
    const syn__pic_box box = {.id = pill_id(col, cell, p, index),
                              .label = syn__arena_copy(&drawing(col)->arena, t.s),
                              .tip = p->tip,
                              .x = x,
                              .y = y,
                              .w = p->w,
                              .h = p->h,
                              .look = p->look,
                              .cluster = cell->cluster};
    if (box.id == NULL || box.label == NULL)
        return SYN_FAIL_NOMEM(err, t.n, "a label of a picture");
    return syn__pic_add_box(drawing(col), &box, &p->box, err);
}

static bool red(const syn__pic_cell *c) {
    return c->look == SYN__PIC_COLLECTIVE || c->look == SYN__PIC_MESSAGE ||
           c->look == SYN__PIC_OP + SYN_CATEGORY_COMMUNICATION;
}

static double op_top(const syn__pic_cell *c) {
    const double core =
        c->above + c->h + (c->n_outs > 0 ? SYN__PIC_PILL_UP + SYN__PIC_PILL_H : 0) + c->below;
    return c->top + (c->height - core) / 2 + c->above;
}

static syn_status draw_sides(syn__pic_column *col, const syn__pic_cell *c, syn_error *err) {
    syn__pic_drawing *d = drawing(col);
    const syn__pic_pill *pills = col->cells->pills + c->first_side;
    const double ty = op_top(c) + c->h / 2, right = c->x - c->side_x;
    double all = -SYN__PIC_SIDE_Y;
    for (uint32_t i = 0; i < c->n_sides; i++) all += pills[i].h + SYN__PIC_SIDE_Y;
    const syn__pic_cut_end *cut_ends = col->cells->cut_ends + c->first_cut_end;
    uint32_t n_sides = c->n_sides;
    for (uint32_t i = 0; i < c->n_cut_ends; i++) {
        if (cut_ends[i].upright) continue;
        all += cut_ends[i].h + SYN__PIC_SIDE_Y;
        n_sides++;
    }
    double top = c->top + (c->height - all) / 2;
    /* If there is space, centre the inputs on the op, not on the op with its outputs. */
    if (n_sides == 1 && ty - all / 2 >= c->top) top = ty - all / 2;
    for (uint32_t i = 0; i < c->n_sides; top += pills[i++].h + SYN__PIC_SIDE_Y) {
        const syn__pic_pill *p = &pills[i];
        const double y = top + p->h / 2;
        SYN_TRY(draw_pill(col, c, c->first_side + i, true, right - p->w / 2, y, err));
        const syn__pic_point tip = {c->x - c->w / 2, ty}, base = {tip.x - SYN__PIC_ARROW, ty};
        const syn__pic_edge e = {.from = p->box,
                                 .to = c->box,
                                 .tip = tip,
                                 .arrow = true,
                                 .line = red(c) ? SYN__PIC_RED : SYN__PIC_DATA};
        SYN_TRY(syn__pic_begin_edge(d, &e, (syn__pic_point){right, y}, err));
        const double mid = right + 8;
        const syn__pic_point corners[] = {{mid, y}, {mid, ty}, base};
        if (y - ty < 0.5 && ty - y < 0.5) SYN_TRY(syn__pic_line_to(d, base, err));
        else SYN_TRY(syn__pic_corners_to(d, corners, 3, err));
    }
    for (uint32_t i = 0; i < c->n_cut_ends; i++) {
        SYN_TRY(syn__pic_draw_cut_end(col->cells, c, &cut_ends[i], red(c), right,
                                      top + cut_ends[i].h / 2, err));
        if (!cut_ends[i].upright) top += cut_ends[i].h + SYN__PIC_SIDE_Y;
    }
    return SYN_OK;
}

/* The largest distance from the centre at which a line may touch the upper or lower side of an op's
   outline. */
static double meets(const syn__pic_cell *c, bool above) {
    const syn__pic_style *style = syn__pic_style_of(c->look);
    if (style->slant > 0) return c->w * 0.2;
    return style->foot > 0 && !above ? 3 : c->w / 2 - 12;
}

static syn_status draw_outs(syn__pic_column *col, const syn__pic_cell *c, syn_error *err) {
    double total = -8;
    for (uint32_t i = 0; i < c->n_outs; i++) total += col->cells->pills[c->first_out + i].w + 8;
    double x = c->x - total / 2;
    const double bottom = op_top(c) + c->h, y = bottom + SYN__PIC_PILL_UP + SYN__PIC_PILL_H / 2;
    for (uint32_t i = 0; i < c->n_outs; i++) {
        const syn__pic_pill *p = &col->cells->pills[c->first_out + i];
        SYN_TRY(draw_pill(col, c, c->first_out + i, false, x + p->w / 2, y, err));
        const double px = x + p->w / 2;
        double from = px; /* the line is vertical if the op is above the pill */
        if (from < c->x - meets(c, false)) from = c->x - meets(c, false);
        if (from > c->x + meets(c, false)) from = c->x + meets(c, false);
        const syn__pic_edge e = {.from = c->box,
                                 .to = p->box,
                                 .tip = {px, bottom + SYN__PIC_PILL_UP},
                                 .arrow = true,
                                 .line = red(c) ? SYN__PIC_RED : SYN__PIC_DATA};
        SYN_TRY(syn__pic_begin_edge(drawing(col), &e, (syn__pic_point){from, bottom}, err));
        const syn__pic_point base = {px, e.tip.y - SYN__PIC_ARROW};
        SYN_TRY(syn__pic_curve_to(drawing(col), base, err));
        x += p->w + 8;
    }
    return SYN_OK;
}

static syn_status draw_cell(syn__pic_column *col, syn__pic_cell *c, syn_error *err) {
    const syn__pic_box box = {.id = c->id,
                              .label = c->label,
                              .tip = c->tip,
                              .x = c->x,
                              .y = op_top(c) + c->h / 2,
                              .w = c->w,
                              .h = c->h,
                              .look = c->look,
                              .cluster = c->cluster};
    SYN_TRY(syn__pic_add_box(drawing(col), &box, &c->box, err));
    SYN_TRY(draw_outs(col, c, err));
    return draw_sides(col, c, err);
}

/* ---- Links ---- */

bool syn__pic_starts_aside(const syn__pic_column *col, const syn__pic_link *link) {
    const syn__pic_slot *s = &col->slots[link->from - col->part->cell_begin];
    const syn__pic_row *row = &col->rows[s->row];
    const bool last_pill =
        link->slot < 0 || (uint32_t)link->slot + 1 == col->cells->cells[link->from].n_outs;
    return last_pill && s->pos + 1 == row->end - row->begin && col->tracks[link - col->link].rail;
}

static const syn__pic_box *start_box(const syn__pic_column *col, const syn__pic_link *link) {
    const syn__pic_cell *a = &col->cells->cells[link->from];
    const syn__pic_box *boxes = drawing(col)->boxes;
    if (link->slot >= 0 && (uint32_t)link->slot < a->n_outs)
        return &boxes[col->cells->pills[a->first_out + (uint32_t)link->slot].box];
    if (a->n_outs % 2 == 1 &&
        !syn__pic_starts_aside(col, link)) /* the middle output is in the way */
        return &boxes[col->cells->pills[a->first_out + a->n_outs / 2].box];
    return &boxes[a->box];
}

/* The slot from which link i enters the row of its target. */
static const syn__pic_slot *arrives_from(const syn__pic_column *col, uint32_t i) {
    const syn__pic_track *t = &col->tracks[i];
    if (t->to_row == t->from_row + 1) return &col->slots[col->link[i].from - col->part->cell_begin];
    return &col->slots[t->first_lane + (t->to_row - t->from_row - 2)];
}

/* Distributes the links that enter a cell from above over the cell's width, in the order of the x
   from which they come. */
static void place_entries(syn__pic_column *col, uint32_t begin, uint32_t end) {
    const syn__pic_cell *c = &col->cells->cells[col->link[begin].to];
    uint32_t n = 0;
    for (uint32_t i = begin; i < end; i++) n += !col->tracks[i].rail;
    for (uint32_t i = begin; i < end; i++) {
        if (col->tracks[i].rail) continue;
        uint32_t k = 0;
        const double x = arrives_from(col, i)->x;
        for (uint32_t j = begin; j < end; j++) {
            if (j == i || col->tracks[j].rail) continue;
            const double other = arrives_from(col, j)->x;
            k += other < x || (!(other > x) && j < i);
        }
        const double most = n > 1 ? 2 * (meets(c, true) - 3) / (n - 1) : 0;
        const double step = most < 60 ? most : 60;
        col->tracks[i].enter_x = c->x + (k - (n - 1) / 2.0) * step;
        col->tracks[i].space = k + 1 < n ? step - 10 : 110;
    }
}

static syn__pic_edge link_edge(syn__pic_column *col, const syn__pic_link *link) {
    const syn__pic_cell *a = &col->cells->cells[link->from], *b = &col->cells->cells[link->to];
    const syn__pic_box *from = start_box(col, link);
    syn__pic_edge e = {.from = (uint32_t)(from - drawing(col)->boxes),
                       .to = b->box,
                       .line = link->line,
                       .arrow = true};
    if (link->line != SYN__PIC_ORDER && (red(b) || (red(a) && link->slot < 0)))
        e.line = SYN__PIC_RED;
    if (red(a) && e.line == SYN__PIC_DATA) e.line = SYN__PIC_RED;
    return e;
}

/* Adds the label `text` with its left end at x. If a list of views is wider than `space`, only the
   first views are shown. */
static syn_status label_edge(syn__pic_column *col, syn__pic_edge *e, const char *text, double x,
                             double y, double space, syn_error *err) {
    char cut[128];
    syn__pic_text t;
    syn__pic_shorten(text, 24, cut, sizeof cut);
    for (char *end; syn__pic_width(cut, 8, false) > space && (end = strrchr(cut, ' ')) != NULL;) {
        *end = '\0'; /* remove the last view, then the dot before it */
        if ((end = strrchr(cut, ' ')) != NULL) *end = '\0';
    }
    for (size_t n = 20; syn__pic_width(cut, 8, false) > space && n > 1; n--)
        syn__pic_shorten(text, n, cut, sizeof cut);
    syn__pic_clear(&t);
    syn__pic_put(&t, "<font point-size=\"8\" color=\"#333333\"><i>");
    syn__pic_put_html(&t, cut);
    syn__pic_put(&t, "</i></font>");
    e->label = syn__arena_copy(&drawing(col)->arena, t.s);
    if (e->label == NULL) return SYN_FAIL_NOMEM(err, t.n, "a label of a picture");
    e->tip_text = text;
    e->label_w = syn__pic_width(cut, 8, false);
    e->lx = x + e->label_w / 2;
    e->ly = y;
    return SYN_OK;
}

static syn_status draw_down(syn__pic_column *col, uint32_t i, syn_error *err) {
    const syn__pic_link *link = &col->link[i];
    const syn__pic_track *t = &col->tracks[i];
    syn__pic_drawing *d = drawing(col);
    syn__pic_edge e = link_edge(col, link);
    const syn__pic_box *from = start_box(col, link);
    const double fx = from->x, fy = from->y + from->h / 2;
    const syn__pic_cell *b = &col->cells->cells[link->to];
    e.tip = (syn__pic_point){t->enter_x, op_top(b)};
    const double row_top = col->rows[t->to_row].top;
    if (link->via != NULL)
        SYN_TRY(label_edge(col, &e, link->via, t->enter_x + 4, row_top - 11, t->space, err));
    SYN_TRY(syn__pic_begin_edge(d, &e, (syn__pic_point){fx, fy}, err));
    double x = fx;
    for (uint32_t r = t->from_row; r < t->to_row; r++) {
        SYN_TRY(syn__pic_line_to(d, (syn__pic_point){x, col->rows[r].bottom}, err));
        const bool last = r + 1 == t->to_row;
        x = last ? t->enter_x : col->slots[t->first_lane + (r - t->from_row)].x;
        const double up = !last ? 0 : link->via != NULL ? 17 : SYN__PIC_ARROW;
        SYN_TRY(syn__pic_curve_to(d, (syn__pic_point){x, col->rows[r + 1].top - up}, err));
    }
    return syn__pic_line_to(d, (syn__pic_point){x, e.tip.y - SYN__PIC_ARROW}, err);
}

/* Whether a link from above into a cell has a label, which may extend beyond the cell's right
   side. */
static bool comes_labelled(const syn__pic_column *col, uint32_t to) {
    for (uint32_t i = 0; i < col->n_links; i++)
        if (col->link[i].to == to && !col->tracks[i].rail && col->link[i].via != NULL) return true;
    return false;
}

static syn_status draw_rail(syn__pic_column *col, uint32_t i, syn_error *err) {
    const syn__pic_link *link = &col->link[i];
    const syn__pic_track *t = &col->tracks[i];
    const uint32_t offset = col->part->cell_begin;
    const syn__pic_slot *sb = &col->slots[link->to - offset];
    syn__pic_row *ra = &col->rows[t->from_row], *rb = &col->rows[t->to_row];
    const syn__pic_box *from = start_box(col, link);
    const syn__pic_cell *b = &col->cells->cells[link->to];
    syn__pic_edge e = link_edge(col, link);
    syn__pic_point p[6], start;
    size_t n = 0;
    if (!syn__pic_starts_aside(col, link)) {
        const double y = ra->bottom + 6 + 5.0 * ra->legs_below++;
        start = (syn__pic_point){from->x, from->y + from->h / 2};
        p[n++] = (syn__pic_point){start.x, y};
        p[n++] = (syn__pic_point){t->rail_x, y};
    } else {
        start = (syn__pic_point){from->x + from->w / 2, from->y};
        p[n++] = (syn__pic_point){t->rail_x, start.y};
    }
    const uint32_t nth = rb->legs_above++;
    if (sb->pos + 1 < rb->end - rb->begin) {
        const double y = rb->top - 12 - 5.0 * nth;
        const double x = b->x + b->w / 2 - 14;
        e.tip = (syn__pic_point){x, op_top(b)};
        p[n++] = (syn__pic_point){t->rail_x, y};
        p[n++] = (syn__pic_point){x, y};
        p[n++] = (syn__pic_point){x, e.tip.y - SYN__PIC_ARROW};
    } else {
        const double y = op_top(b) + b->h / 2 - 6 + 6.0 * nth;
        e.tip = (syn__pic_point){b->x + b->w / 2, y};
        p[n++] = (syn__pic_point){t->rail_x, y};
        p[n++] = (syn__pic_point){e.tip.x + SYN__PIC_ARROW, y};
    }
    const char *text = link->line == SYN__PIC_RESIDUAL ? "residual" : link->via;
    const double label_x = b->x + b->w / 2 + 10, apart = nth == 0 ? -6 : 6;
    /* The label is above the first line or below the second; there is no space for more labels. */
    if (text != NULL && nth < 2 && !comes_labelled(col, link->to))
        SYN_TRY(label_edge(col, &e, text, label_x, e.tip.y + apart, t->rail_x - label_x, err));
    SYN_TRY(syn__pic_begin_edge(drawing(col), &e, start, err));
    return syn__pic_corners_to(drawing(col), p, n, err);
}

static syn_status draw_badges(syn__pic_column *col, syn_error *err) {
    syn__pic_drawing *d = drawing(col);
    const syn__pic_plan *plan = col->cells->plan;
    for (int32_t i = col->first_cluster; i < col->end_cluster; i++) {
        const syn__pic_cluster *k = &d->clusters[i];
        const double head = syn__pic_cluster_head(d, k->level) / 2 + 1;
        uint32_t count = 0;
        if (k->level == 0 && col->cells->detail != SYN__PIC_CHUNKS)
            count = plan->steps[col->part->step_index].count;
        for (uint32_t c = 0; c < col->n_cells && k->level == 1; c++) {
            int32_t up = col->cell[c].cluster;
            while (up >= 0 && up != i) up = d->clusters[up].parent;
            if (up >= 0) count = plan->units[col->cell[c].unit].count;
        }
        if (count < 2) continue;
        SYN_TRY(syn__pic_add_badge(d, count, k->level == 0 ? "steps" : "identical", k->x1 - 8,
                                   col->up ? k->y1 - head : k->y0 + head, i, k->tip, err));
    }
    return SYN_OK;
}

syn_status syn__pic_draw_column(syn__pic_column *col, syn_error *err) {
    for (uint32_t i = 0; i < col->n_cells; i++) SYN_TRY(draw_cell(col, &col->cell[i], err));
    for (uint32_t i = 0, end; i < col->n_links; i = end) {
        for (end = i; end < col->n_links && col->link[end].to == col->link[i].to;) end++;
        place_entries(col, i, end);
    }
    for (uint32_t i = 0; i < col->n_links; i++)
        SYN_TRY(col->tracks[i].rail ? draw_rail(col, i, err) : draw_down(col, i, err));
    return draw_badges(col, err);
}
