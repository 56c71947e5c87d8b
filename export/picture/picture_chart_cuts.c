/* Breaks frames of the communication view between panels: draws the texts at cut arrows, and
   numbers the pieces of a frame. */
#include "export/picture/picture_comm.h"

#include <stdio.h>

#include "syntorch/base/memory.h"

#define TEXT_PT 8.0
#define TEXT_H  10.0
#define GAP     9.0 /* distance between a text and the frame of a layer */
#define LIFT    5.0 /* distance by which texts extend into the padding of a frame */

/* Adds an empty text, which is set when the number of pieces is known. */
static syn_status add_text(syn__pic_chart *c, uint32_t lane, int32_t frame, double y, bool out,
                           uint32_t *box, syn_error *err) {
    char id[48];
    snprintf(id, sizeof id, "cut%zu.%s%u", c->n_cuts, out ? "to" : "from", lane);
    const syn__pic_box text = {.id = syn__arena_copy(&c->drawing->arena, id),
                               .label = "",
                               .tip = "",
                               .x = c->lanes[lane].x,
                               .y = y,
                               .w = syn__pic_width("from 10 of 10", TEXT_PT, false),
                               .h = TEXT_H,
                               .look = SYN__PIC_PLAIN,
                               .cluster = frame};
    if (text.id == NULL) return SYN_FAIL_NOMEM(err, sizeof id, "an id of a picture");
    return syn__pic_add_box(c->drawing, &text, box, err);
}

/* Draws an arrow from the lane's last box to the text. */
static syn_status end_flow(syn__pic_chart *c, uint32_t k, uint32_t box, double top,
                           syn_error *err) {
    const syn__pic_lane *lane = &c->lanes[k];
    const syn__pic_edge e = {.from = lane->above,
                             .to = box,
                             .arrow = true,
                             .tip = {lane->x, top},
                             .line = lane->above_red ? SYN__PIC_RED : SYN__PIC_DATA};
    SYN_TRY(syn__pic_begin_edge(c->drawing, &e, (syn__pic_point){lane->x, lane->above_y}, err));
    return syn__pic_line_to(c->drawing, (syn__pic_point){lane->x, top - SYN__PIC_ARROW}, err);
}

syn_status syn__pic_cut_out(syn__pic_chart *c, int32_t frame, const bool cut[SYN__PIC_COLUMNS],
                            syn_error *err) {
    SYN_TRY(syn_grow(&c->cuts, &c->cuts_cap, c->n_cuts + 1, sizeof *c->cuts, err));
    const syn__pic_cut *before = c->n_cuts > 0 ? &c->cuts[c->n_cuts - 1] : NULL;
    syn__pic_cut *made = &c->cuts[c->n_cuts];
    *made = (syn__pic_cut){
        .from = frame, .number = before != NULL && before->to == frame ? before->number + 1 : 1};
    for (uint32_t k = 0; k < SYN__PIC_COLUMNS; k++)
        made->texts[k][0] = made->texts[k][1] = UINT32_MAX;
    for (uint32_t k = 0; k < c->n_lanes; k++) {
        syn__pic_lane *lane = &c->lanes[k];
        if (!cut[k]) continue;
        const double top = lane->y - c->row_gap + GAP; /* below the frame of its last layer */
        SYN_TRY(add_text(c, k, frame, top + TEXT_H / 2, true, &made->texts[k][0], err));
        SYN_TRY(end_flow(c, k, made->texts[k][0], top, err));
        lane->y = top + TEXT_H + c->row_gap - LIFT;
    }
    return SYN_OK;
}

syn_status syn__pic_cut_in(syn__pic_chart *c, int32_t frame, const bool cut[SYN__PIC_COLUMNS],
                           syn_error *err) {
    syn__pic_cut *made = &c->cuts[c->n_cuts];
    made->to = frame;
    for (uint32_t k = 0; k < c->n_lanes; k++) {
        syn__pic_lane *lane = &c->lanes[k];
        if (!cut[k]) continue;
        SYN_TRY(add_text(c, k, frame, lane->y - LIFT + TEXT_H / 2, false, &made->texts[k][1], err));
        lane->above = made->texts[k][1]; /* the text replaces the box in the previous panel as the
                                            start of the next arrow */
        lane->above_y = lane->y - LIFT + TEXT_H;
        lane->y = lane->above_y + 2;
    }
    c->n_cuts++;
    return SYN_OK;
}

/* Sets a text to "from 1 of 3" or "to 3 of 3". */
static syn_status name_text(syn__pic_chart *c, uint32_t box, const char *way, uint32_t number,
                            uint32_t of, syn_error *err) {
    if (box == UINT32_MAX) return SYN_OK;
    syn__pic_drawing *d = c->drawing;
    syn__pic_text name, t;
    syn__pic_clear(&name);
    syn__pic_put(&name, "%s %u of %u", way, number, of);
    syn__pic_clear(&t);
    syn__pic_put(&t, "<font point-size=\"%g\" color=\"#333333\"><i>%s</i></font>", TEXT_PT, name.s);
    SYN_TRY(syn__pic_keep(&d->arena, &name, &d->boxes[box].tip, err));
    return syn__pic_keep(&d->arena, &t, &d->boxes[box].label, err);
}

/* Sets a frame's label to "prefill  (1 of 3)". */
static syn_status name_frame(syn__pic_chart *c, int32_t frame, uint32_t number, uint32_t of,
                             syn_error *err) {
    syn__pic_cluster *k = &c->drawing->clusters[frame];
    char shown[128], part[32];
    syn__pic_text t;
    syn__pic_shorten(k->tip, 64, shown, sizeof shown);
    snprintf(part, sizeof part, "  (%u of %u)", number, of);
    syn__pic_clear(&t);
    syn__pic_put(&t, "<font point-size=\"12\"><b>");
    syn__pic_put_html(&t, shown);
    syn__pic_put_html(&t, part);
    syn__pic_put(&t, "</b></font>");
    k->label_w = syn__pic_width(shown, 12, true) + syn__pic_width(part, 12, true);
    return syn__pic_keep(&c->drawing->arena, &t, &k->label, err);
}

syn_status syn__pic_number_cuts(syn__pic_chart *c, syn_error *err) {
    for (size_t i = 0, end; i < c->n_cuts; i = end) {
        for (end = i + 1; end < c->n_cuts && c->cuts[end].number > 1;) end++;
        const uint32_t of = c->cuts[end - 1].number + 1;
        SYN_TRY(name_frame(c, c->cuts[i].from, 1, of, err));
        for (size_t k = i; k < end; k++) {
            const syn__pic_cut *cut = &c->cuts[k];
            SYN_TRY(name_frame(c, cut->to, cut->number + 1, of, err));
            for (uint32_t lane = 0; lane < c->n_lanes; lane++) {
                SYN_TRY(name_text(c, cut->texts[lane][0], "to", cut->number + 1, of, err));
                SYN_TRY(name_text(c, cut->texts[lane][1], "from", cut->number, of, err));
            }
        }
    }
    return SYN_OK;
}
