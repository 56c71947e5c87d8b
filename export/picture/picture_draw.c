/* Stores the boxes, paths and clusters of a drawing; see picture_draw.h. */
#include "export/picture/picture_draw.h"

#include <math.h>

#include "syntorch/base/memory.h"

void syn__pic_drawing_free(syn__pic_drawing *d) {
    syn_free(d->boxes);
    syn_free(d->edges);
    syn_free(d->clusters);
    syn_free(d->points);
    syn__arena_free(&d->arena);
    *d = (syn__pic_drawing){0};
}

syn_status syn__pic_add_box(syn__pic_drawing *d, const syn__pic_box *box, uint32_t *out,
                            syn_error *err) {
    SYN_TRY(syn_grow(&d->boxes, &d->boxes_cap, d->n_boxes + 1, sizeof *d->boxes, err));
    d->boxes[d->n_boxes] = *box;
    if (out != NULL) *out = (uint32_t)d->n_boxes;
    d->n_boxes++;
    return SYN_OK;
}

syn_status syn__pic_add_cluster(syn__pic_drawing *d, const syn__pic_cluster *cluster, int32_t *out,
                                syn_error *err) {
    SYN_TRY(syn_grow(&d->clusters, &d->clusters_cap, d->n_clusters + 1, sizeof *d->clusters, err));
    d->clusters[d->n_clusters] = *cluster;
    *out = (int32_t)d->n_clusters++;
    return SYN_OK;
}

static syn_status add_points(syn__pic_drawing *d, const syn__pic_point *p, size_t n,
                             syn_error *err) {
    SYN_TRY(syn_grow(&d->points, &d->points_cap, d->n_points + n, sizeof *d->points, err));
    for (size_t i = 0; i < n; i++) d->points[d->n_points++] = p[i];
    d->edges[d->n_edges - 1].n_points += n;
    return SYN_OK;
}

syn_status syn__pic_begin_edge(syn__pic_drawing *d, const syn__pic_edge *edge, syn__pic_point p,
                               syn_error *err) {
    SYN_TRY(syn_grow(&d->edges, &d->edges_cap, d->n_edges + 1, sizeof *d->edges, err));
    syn__pic_edge *e = &d->edges[d->n_edges++];
    *e = *edge;
    e->first_point = d->n_points;
    e->n_points = 0;
    return add_points(d, &p, 1, err);
}

static syn__pic_point here(const syn__pic_drawing *d) {
    return d->points[d->n_points - 1];
}

static syn__pic_point between(syn__pic_point a, syn__pic_point b, double t) {
    return (syn__pic_point){a.x + (b.x - a.x) * t, a.y + (b.y - a.y) * t};
}

syn_status syn__pic_line_to(syn__pic_drawing *d, syn__pic_point p, syn_error *err) {
    const syn__pic_point a = here(d);
    if (fabs(a.x - p.x) < 1e-6 && fabs(a.y - p.y) < 1e-6) return SYN_OK;
    const syn__pic_point c[3] = {between(a, p, 1.0 / 3), between(a, p, 2.0 / 3), p};
    return add_points(d, c, 3, err);
}

syn_status syn__pic_curve_to(syn__pic_drawing *d, syn__pic_point p, syn_error *err) {
    const syn__pic_point a = here(d);
    if (fabs(a.x - p.x) < 0.01) return syn__pic_line_to(d, p, err);
    const double mid = (a.y + p.y) / 2;
    const syn__pic_point c[3] = {{a.x, mid}, {p.x, mid}, p};
    return add_points(d, c, 3, err);
}

syn_status syn__pic_sway_to(syn__pic_drawing *d, syn__pic_point p, syn_error *err) {
    const syn__pic_point a = here(d);
    if (fabs(a.y - p.y) < 0.01) return syn__pic_line_to(d, p, err);
    const double mid = (a.x + p.x) / 2;
    const syn__pic_point c[3] = {{mid, a.y}, {mid, p.y}, p};
    return add_points(d, c, 3, err);
}

syn_status syn__pic_corners_to(syn__pic_drawing *d, const syn__pic_point *p, size_t n,
                               syn_error *err) {
    for (size_t i = 0; i < n; i++) {
        if (i + 1 == n) return syn__pic_line_to(d, p[i], err);
        const syn__pic_point a = here(d);
        const double in = hypot(p[i].x - a.x, p[i].y - a.y);
        const double out = hypot(p[i + 1].x - p[i].x, p[i + 1].y - p[i].y);
        const double r = fmin(8.0, fmin(in, out) / 2);
        if (r < 0.5) continue;
        SYN_TRY(syn__pic_line_to(d, between(p[i], a, r / in), err));
        const syn__pic_point end = between(p[i], p[i + 1], r / out);
        const syn__pic_point c[3] = {between(p[i], here(d), 0.45), between(p[i], end, 0.45), end};
        SYN_TRY(add_points(d, c, 3, err));
    }
    return SYN_OK;
}

syn__pic_mark syn__pic_mark_of(const syn__pic_drawing *d) {
    return (syn__pic_mark){d->n_boxes, d->n_edges, d->n_clusters, d->n_points};
}

void syn__pic_shift(syn__pic_drawing *d, syn__pic_mark from, double dx, double dy) {
    for (size_t i = from.boxes; i < d->n_boxes; i++) d->boxes[i].x += dx, d->boxes[i].y += dy;
    for (size_t i = from.points; i < d->n_points; i++) d->points[i].x += dx, d->points[i].y += dy;
    for (size_t i = from.edges; i < d->n_edges; i++) {
        syn__pic_edge *e = &d->edges[i];
        e->tip.x += dx, e->tip.y += dy;
        e->lx += dx, e->ly += dy;
    }
    for (size_t i = from.clusters; i < d->n_clusters; i++) {
        syn__pic_cluster *c = &d->clusters[i];
        c->x0 += dx, c->x1 += dx;
        c->y0 += dy, c->y1 += dy;
    }
}

bool syn__pic_free_way(const syn__pic_drawing *d, syn__pic_point p, double dx, double dy) {
    for (size_t i = 0; i < d->n_boxes; i++) {
        const syn__pic_box *b = &d->boxes[i];
        if (p.x < b->x + b->w / 2 && p.x + dx > b->x - b->w / 2 && p.y < b->y + b->h / 2 &&
            p.y + dy > b->y - b->h / 2)
            return false;
    }
    return true;
}

void syn__pic_flip(syn__pic_drawing *d, syn__pic_mark from, double height) {
    for (size_t i = from.boxes; i < d->n_boxes; i++) d->boxes[i].y = height - d->boxes[i].y;
    for (size_t i = from.points; i < d->n_points; i++) d->points[i].y = height - d->points[i].y;
    for (size_t i = from.edges; i < d->n_edges; i++) {
        d->edges[i].tip.y = height - d->edges[i].tip.y;
        d->edges[i].ly = height - d->edges[i].ly;
    }
    for (size_t i = from.clusters; i < d->n_clusters; i++) {
        syn__pic_cluster *c = &d->clusters[i];
        const double top = height - c->y1;
        c->y1 = height - c->y0;
        c->y0 = top;
    }
}
