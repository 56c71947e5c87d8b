/* Implements picture_check.h: geometric checks of every box, cluster, edge and label. */
#include "tests/support/picture_check.h"
#include "export/picture/picture_cells.h"
#include "tests/support/test.h"

#include <math.h>
#include <string.h>

bool draw(drawn *x, syn_graph *graph, const syn_export_options *options) {
    *x = (drawn){.graph = graph};
    const bool timeline = options->view == SYN_VIEW_TIMELINE;
    const syn_status s = timeline ? syn__pic_time_view(&x->d, graph, options, &x->err)
                         : options->comm_graph
                             ? syn__pic_comm_view(&x->d, graph, options, 1e7, &x->err)
                             : syn__pic_trace_view(&x->d, graph, options, 1e7, &x->err);
    return s == SYN_OK;
}

void drop(drawn *x) {
    syn__pic_drawing_free(&x->d);
    syn_graph_free(x->graph);
}

int count_look(const syn__pic_drawing *d, int look) {
    int n = 0;
    for (size_t i = 0; i < d->n_boxes; i++)
        n += d->boxes[i].look == look && strncmp(d->boxes[i].id, "legend", 6) != 0;
    return n;
}

int count_label(const syn__pic_drawing *d, int look, const char *part) {
    int n = 0;
    for (size_t i = 0; i < d->n_boxes; i++)
        n += d->boxes[i].look == look && strstr(d->boxes[i].label, part) != NULL;
    return n;
}

/* ---- Geometry: readability of a picture ---- */

static bool overlap(const syn__pic_box *a, const syn__pic_box *b) {
    const double slack = 0.01;
    return fabs(a->x - b->x) < (a->w + b->w) / 2 - slack &&
           fabs(a->y - b->y) < (a->h + b->h) / 2 - slack;
}

static int count_overlaps(const syn__pic_drawing *d) {
    int n = 0;
    for (size_t i = 0; i < d->n_boxes; i++)
        for (size_t k = i + 1; k < d->n_boxes; k++) {
            if (!overlap(&d->boxes[i], &d->boxes[k])) continue;
            if (n++ < 5) fprintf(stderr, "%s overlaps %s\n", d->boxes[i].id, d->boxes[k].id);
        }
    return n;
}

static bool inside(const syn__pic_cluster *c, const syn__pic_box *b) {
    return b->x - b->w / 2 >= c->x0 - 0.01 && b->x + b->w / 2 <= c->x1 + 0.01 &&
           b->y - b->h / 2 >= c->y0 - 0.01 && b->y + b->h / 2 <= c->y1 + 0.01;
}

/* Counts boxes outside the page or their cluster, clusters outside their parent, and clusters that
   overlap a sibling. */
static int count_misplaced(const syn__pic_drawing *d) {
    int n = 0;
    const syn__pic_cluster page = {.x0 = 0, .y0 = 0, .x1 = d->width, .y1 = d->height};
    for (size_t i = 0; i < d->n_boxes; i++) {
        const syn__pic_box *b = &d->boxes[i];
        const bool ok = inside(&page, b) && (b->cluster < 0 || inside(&d->clusters[b->cluster], b));
        if (!ok && n++ < 5) fprintf(stderr, "%s lies outside\n", b->id);
    }
    for (size_t i = 0; i < d->n_clusters; i++) {
        const syn__pic_cluster *c = &d->clusters[i],
                               *p = c->parent < 0 ? &page : &d->clusters[c->parent];
        if (c->x0 < p->x0 - 0.01 || c->x1 > p->x1 + 0.01 || c->y0 < p->y0 - 0.01 ||
            c->y1 > p->y1 + 0.01)
            n++;
        for (size_t k = 0; k < i; k++) {
            const syn__pic_cluster *o = &d->clusters[k];
            if (o->parent == c->parent && o->x0 < c->x1 && c->x0 < o->x1 && o->y0 < c->y1 &&
                c->y0 < o->y1)
                n++;
        }
    }
    return n;
}

static double distance(const syn__pic_box *b, syn__pic_point p) {
    const double dx = fabs(p.x - b->x) - b->w / 2, dy = fabs(p.y - b->y) - b->h / 2;
    return fmax(dx, dy); /* 0 on the border, negative inside */
}

/* Counts edges whose ends do not touch their boxes, that leave the page, or that cross a box. */
static int count_bad_edges(const syn__pic_drawing *d) {
    int n = 0;
    for (size_t i = 0; i < d->n_edges; i++) {
        const syn__pic_edge *e = &d->edges[i];
        const syn__pic_point *p = d->points + e->first_point;
        bool ok = fabs(distance(&d->boxes[e->from], p[0])) < 0.6 &&
                  fabs(distance(&d->boxes[e->to], e->tip)) < 0.6;
        ok = ok && e->n_points % 3 == 1 && e->n_points >= 4;
        for (size_t k = 0; k < e->n_points && ok; k++) {
            ok = p[k].x >= 0 && p[k].x <= d->width && p[k].y >= 0 && p[k].y <= d->height;
            for (size_t b = 0; b < d->n_boxes && ok && k % 3 == 0; b++)
                ok = b == e->from || b == e->to || d->boxes[b].look == SYN__PIC_BADGE ||
                     distance(&d->boxes[b], p[k]) > -0.5;
        }
        if (!ok && n++ < 5)
            fprintf(stderr, "edge %s -> %s\n", d->boxes[e->from].id, d->boxes[e->to].id);
    }
    return n;
}

/* Counts edge labels that overlap another label or a box. */
static int count_bad_labels(const syn__pic_drawing *d) {
    int n = 0;
    for (size_t i = 0; i < d->n_edges; i++) {
        const syn__pic_edge *e = &d->edges[i];
        if (e->label == NULL) continue;
        const syn__pic_box a = {.id = e->label, .x = e->lx, .y = e->ly, .w = e->label_w, .h = 7};
        bool ok = a.w > 0;
        for (size_t b = 0; b < d->n_boxes && ok; b++) ok = !overlap(&a, &d->boxes[b]);
        for (size_t k = 0; k < i && ok; k++) {
            const syn__pic_edge *f = &d->edges[k];
            const syn__pic_box b = {.x = f->lx, .y = f->ly, .w = f->label_w, .h = 7};
            ok = f->label == NULL || !overlap(&a, &b);
        }
        if (!ok && n++ < 5) fprintf(stderr, "label %s\n", a.id);
    }
    return n;
}

void check_geometry(syn_graph *graph, syn_export_options o) {
    drawn x;
    const bool ok = draw(&x, graph, &o);
    const int overlaps = ok ? count_overlaps(&x.d) : -1, outside = ok ? count_misplaced(&x.d) : -1;
    const int edges = ok ? count_bad_edges(&x.d) : -1, labels = ok ? count_bad_labels(&x.d) : -1;
    const size_t boxes = x.d.n_boxes;
    if (!ok) fprintf(stderr, "%s\n", x.err.text);
    drop(&x);
    CHECK(ok);
    CHECK_INT(overlaps, 0);
    CHECK_INT(outside, 0);
    CHECK_INT(edges, 0);
    CHECK_INT(labels, 0);
    CHECK_MSG(boxes <= SYN__PIC_MAX_BOXES + 60, "%zu boxes", boxes);
}
