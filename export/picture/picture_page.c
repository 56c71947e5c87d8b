/* Where the panels of a picture go, and whether it can be read on its page. */
#include "export/picture/picture.h"

#include <math.h>

#define GAP       22.0  /* between panels beside each other */
#define PANEL_GAP 10.0  /* and on a page */
#define PAD_PT    20.16 /* of picture_dot.c */
#define HEAD_PT   120.0 /* about what a heading takes */

double syn__pic_page_scale(const syn__pic_drawing *d, syn_page page, double *w, double *h) {
    static const double sizes[][2] = {{0, 0}, {595.28, 841.89}, {960, 540}};
    const double need_w = d->width + 2 * PAD_PT, need_h = d->height + 2 * PAD_PT;
    *w = sizes[page][0];
    *h = sizes[page][1];
    if (page == SYN_PAGE_NONE) return 1;
    double scale = fmin(*w / need_w, *h / need_h);
    const double across = fmin(*h / need_w, *w / need_h);
    if (page == SYN_PAGE_A4 && across > scale) {
        const double upright = *w;
        scale = across;
        *w = *h;
        *h = upright;
    }
    return fmin(scale, 1);
}

bool syn__pic_readable(const syn__pic_drawing *d) {
    /* 5.5 points on paper, and on a slide 13.5 pixels of 1080 */
    static const double least[] = {0, 5.5 / SYN__PIC_SMALLEST, 6.75 / SYN__PIC_SMALLEST};
    double w, h;
    return syn__pic_page_scale(d, d->page, &w, &h) >= least[d->page];
}

/* Places panels beside each other, with a new row wherever one would pass `limit`. */
static void place_rows(syn__pic_drawing *d, syn__pic_panel *p, size_t n, double head,
                       double limit) {
    double x = 0, y = 0, row = 0;
    d->width = 0;
    for (size_t i = 0; i < n; i++) {
        if (x > 0 && x + p[i].width > limit) {
            y += row + GAP;
            x = row = 0;
        }
        p[i].x = x, p[i].y = y + head, p[i].first = true;
        row = fmax(row, p[i].height + head);
        d->width = fmax(d->width, x + p[i].width);
        x += p[i].width + GAP;
    }
    d->height = y + row;
}

/* Below each other, with a new column wherever one would pass `limit`. */
static void place_columns(syn__pic_drawing *d, syn__pic_panel *p, size_t n, double head,
                          double limit) {
    double x = 0, y = 0, column = 0;
    d->height = 0;
    for (size_t i = 0; i < n; i++) {
        if (y > 0 && y + p[i].height > limit) {
            x += column + PANEL_GAP;
            y = column = 0;
        }
        p[i].first = !(y > 0);
        if (p[i].first) y = head;
        p[i].x = x, p[i].y = y;
        column = fmax(column, p[i].width);
        d->height = fmax(d->height, y + p[i].height);
        y += p[i].height + PANEL_GAP;
    }
    d->width = x + column;
}

/* Rows as near to the proportions of paper as can be. */
static void find_rows(syn__pic_drawing *d, syn__pic_panel *p, size_t n, double head) {
    double limit = 0, best = 0, best_score = -INFINITY;
    for (size_t i = 0; i < n && i < 64; i++) {
        limit += p[i].width + (i > 0 ? GAP : 0);
        place_rows(d, p, n, head, limit + 0.5);
        const double score = -fabs(log(d->height / d->width / 0.9)) - (i + 1 < n ? 0.4 : 0);
        if (d->width > 0 && score > best_score) best = limit, best_score = score;
    }
    place_rows(d, p, n, head, best + 0.5);
}

/* The columns that the page shows largest, of these the fewest. */
static void find_columns(syn__pic_drawing *d, syn__pic_panel *p, size_t n, double head) {
    double best = 0, best_scale = -1;
    for (size_t i = 0; i < n && i < 64; i++) {
        double limit = head, w, h;
        for (size_t k = i; k < n && k < i + 64; k++) {
            limit += p[k].height + (k > i ? PANEL_GAP : 0);
            place_columns(d, p, n, head, limit + 0.5);
            const syn__pic_drawing all = {.width = fmax(d->width, 560),
                                          .height = d->height + HEAD_PT};
            const double scale = syn__pic_page_scale(&all, d->page, &w, &h);
            if (scale > best_scale || (scale >= best_scale && limit > best))
                best = limit, best_scale = scale;
        }
    }
    place_columns(d, p, n, head, best + 0.5);
}

void syn__pic_place_panels(syn__pic_drawing *d, syn__pic_panel *p, size_t n, double head) {
    if (d->page == SYN_PAGE_NONE) find_rows(d, p, n, head);
    else find_columns(d, p, n, head);
    double dx = 0, dy = 0; /* so far: panels after one follow it */
    for (size_t i = 0; i < n; i++) {
        syn__pic_shift(d, p[i].mark, p[i].x - dx, p[i].y - p[i].top - dy);
        dx = p[i].x, dy = p[i].y - p[i].top;
    }
}
