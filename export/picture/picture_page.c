/* Places the panels of a picture, and tests whether it is readable on its page. */
#include "export/picture/picture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GAP       22.0  /* distance between panels side by side */
#define PANEL_GAP 10.0  /* distance between panels on a page */
#define PAD_PT    20.16 /* space around the picture, as in picture_dot.c */
#define HEAD_PT   120.0 /* approximate height of a heading */

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

/* Smallest readable font size in points, per page format, with a margin for rounding: 5.5 points on
   paper, and 12 of 1080 pixels on a slide. */
static const double least[] = {0, 5.51, 6.02};

/* The smallest font size in a label; `most` if the label sets none. graphviz truncates sizes to
   whole points. */
static double smallest_of(const char *label, double most) {
    static const char size[] = "point-size=\"";
    while (label != NULL && (label = strstr(label, size)) != NULL) {
        label += sizeof size - 1;
        most = fmin(most, floor(strtod(label, NULL)));
    }
    return most;
}

double syn__pic_smallest(const syn__pic_drawing *d) {
    double size = 10; /* default size of labels */
    for (size_t i = 0; i < d->n_boxes; i++) size = smallest_of(d->boxes[i].label, size);
    for (size_t i = 0; i < d->n_edges; i++) size = smallest_of(d->edges[i].label, size);
    for (size_t i = 0; i < d->n_clusters; i++) size = smallest_of(d->clusters[i].label, size);
    return size;
}

bool syn__pic_readable(const syn__pic_drawing *d) {
    double w, h;
    return d->page == SYN_PAGE_NONE ||
           syn__pic_smallest(d) * syn__pic_page_scale(d, d->page, &w, &h) >= least[d->page];
}

void syn__pic_page_space(syn_page page, double smallest, double *w, double *h) {
    const syn__pic_drawing nothing = {0};
    (void)syn__pic_page_scale(&nothing, page, w, h);
    if (page == SYN_PAGE_A4) {
        const double upright = *w;
        *w = *h;
        *h = upright;
    }
    *w = *w * smallest / least[page] - 2 * PAD_PT;
    *h = *h * smallest / least[page] - 2 * PAD_PT;
}

/* Places panels side by side, in a new row whenever `limit` would be exceeded. */
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

/* Places panels below each other, in a new column whenever `limit` would be exceeded. */
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

/* Finds the row length at which the proportions of the drawing are nearest to those of paper. */
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

/* Finds the column height with the largest scale on the page; among heights with the same scale,
   the one with the fewest columns. */
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
    double dx = 0, dy = 0; /* offset of the last panel: a shift also moves all later panels */
    for (size_t i = 0; i < n; i++) {
        syn__pic_shift(d, p[i].mark, p[i].x - dx, p[i].y - p[i].top - dy);
        dx = p[i].x, dy = p[i].y - p[i].top;
    }
}
