/* Writes a drawing as DOT with positions, for `neato -n2`. Contains the walk over the drawing, and
   the pen that writes plain text. If the build has graphviz's headers, the pen in picture_cgraph.c
   writes the file instead. */
#include "export/picture/picture_dot.h"
#include "export/picture/picture.h"
#include "export/picture/picture_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "syntorch/base/memory.h"
#include "syntorch/base/utf8.h"

#define FONT       "DejaVu Sans,Helvetica,Arial,sans-serif"
#define PAD_INCHES "0.28" /* space around the picture */
#define PAD_PT     20.16

typedef struct walker {
    const syn__pic_drawing *d;
    const syn__dot_pen *pen;
    uint32_t *next;  /* per box: 1 + index of the next box of its cluster; 0: none */
    uint32_t *first; /* first[c + 1]: 1 + index of the first box of cluster c; first[0]: the same
                        for boxes without a cluster */
    char *path;      /* pos of an edge */
    size_t path_cap;
    syn__pic_text tip;
    syn_error *err;
} walker;

/* Escapes a tooltip as an escString of graphviz, so that backslashes and entities are shown
   literally. Characters that XML does not allow are replaced, because viewers would reject the
   whole picture. */
static const char *escaped(walker *w, const char *text) {
    syn__pic_clear(&w->tip);
    for (size_t n; *text != '\0'; text += n != 0 ? n : 1) {
        n = syn_utf8_xml_char_bytes(text, strnlen(text, 4));
        if (n == 0) syn__pic_put(&w->tip, "?");
        else if (*text == '\\') syn__pic_put(&w->tip, "\\\\");
        else if (*text == '\n') syn__pic_put(&w->tip, "\\n");
        else if (*text == '&') syn__pic_put(&w->tip, "&amp;");
        else syn__pic_put(&w->tip, "%.*s", (int)n, text);
    }
    return w->tip.s;
}

static double flip(const walker *w, double y) {
    return w->d->height - y;
}

static void walk_graph(walker *w) {
    char bb[64], viewport[96];
    double page_w, page_h;
    const double scale = syn__pic_page_scale(w->d, w->d->page, &page_w, &page_h);
    snprintf(bb, sizeof bb, "0,0,%.2f,%.2f", w->d->width, w->d->height);
    snprintf(viewport, sizeof viewport, "%.2f,%.2f,%.4f,%.2f,%.2f", page_w, page_h, scale,
             w->d->width / 2, w->d->height / 2);
    const syn__dot_attr graph[] = {
        {"bb", bb, false},
        {"bgcolor", "white", false},
        {"fontname", FONT, false},
        {"fontsize", "10", false},
        {"margin", "0", false}, /* the default would add half an inch around a PDF */
        {"outputorder", "edgesfirst", false},
        {"pad", PAD_INCHES, false},
        {"rankdir", "TB", false},
        {"tooltip", escaped(w, w->d->title != NULL ? w->d->title : ""), false},
        {"viewport", viewport, false}, /* must be the last entry, because only pages use it */
    };
    w->pen->graph(w->pen->self, graph,
                  sizeof graph / sizeof *graph - (w->d->page == SYN_PAGE_NONE));
    const syn__dot_attr node[] = {{"fixedsize", "true", false},
                                  {"fontname", FONT, false},
                                  {"fontsize", "10", false},
                                  {"margin", "0", false}};
    w->pen->node_defaults(w->pen->self, node, sizeof node / sizeof *node);
    const syn__dot_attr edge[] = {
        {"arrowsize", "0.6", false}, {"fontname", FONT, false}, {"fontsize", "8", false}};
    w->pen->edge_defaults(w->pen->self, edge, sizeof edge / sizeof *edge);
}

static void walk_box(walker *w, const syn__pic_box *b) {
    const syn__pic_style *s = syn__pic_style_of(b->look);
    char pos[64], width[32], height[32], pen[16], peripheries[16];
    snprintf(pos, sizeof pos, "%.2f,%.2f", b->x, flip(w, b->y));
    const double rim = s->peripheries > 1 ? 8 : 0; /* width of the outer border, which graphviz adds
                                                      to the size of the box */
    snprintf(width, sizeof width, "%.4f", (b->w - rim) / 72);
    snprintf(height, sizeof height, "%.4f", (b->h - rim) / 72);
    snprintf(pen, sizeof pen, "%g", s->pen);
    snprintf(peripheries, sizeof peripheries, "%d", s->peripheries);
    const bool plain = b->look == SYN__PIC_PLAIN;
    const syn__dot_attr attrs[] = {{"id", b->id, false},
                                   {"label", b->label, b->label[0] == '<'},
                                   {"pos", pos, false},
                                   {"width", width, false},
                                   {"height", height, false},
                                   {"shape", s->shape, false},
                                   {"tooltip", escaped(w, b->tip[0] != '\0' ? b->tip : " "), false},
                                   {"style", s->style, false},
                                   {"fillcolor", s->fill, false},
                                   {"color", s->line, false},
                                   {"penwidth", pen, false},
                                   {"peripheries", peripheries, false}};
    w->pen->node(w->pen->self, b->id, attrs, plain ? 7 : 12);
}

static void walk_cluster(walker *w, size_t i) {
    static const char *const fills[] = {"#fafbfc", "#f0f3f8", "#e6ebf3"};
    static const char *const lines[] = {"#aeb7c2", "#b4bfcd", "#c0cad8"};
    const syn__pic_cluster *c = &w->d->clusters[i];
    char name[32], bb[128], lp[64], id[32];
    snprintf(name, sizeof name, "cluster%zu", i);
    snprintf(id, sizeof id, "cluster%zu", i);
    snprintf(bb, sizeof bb, "%.2f,%.2f,%.2f,%.2f", c->x0, flip(w, c->y1), c->x1, flip(w, c->y0));
    snprintf(lp, sizeof lp, "%.2f,%.2f", c->x0 + 9 + c->label_w / 2,
             flip(w, c->y0 + 6 + c->label_h * 0.7));
    const int level = c->level < 3 ? c->level : 2;
    const syn__dot_attr attrs[] = {{"bb", bb, false},
                                   {"color", lines[level], false},
                                   {"fillcolor", fills[level], false},
                                   {"id", id, false},
                                   {"label", c->label, c->label[0] == '<'},
                                   {"lp", lp, false},
                                   {"style", "filled,rounded", false},
                                   {"tooltip", escaped(w, c->tip), false}};
    w->pen->open(w->pen->self, name, attrs, sizeof attrs / sizeof *attrs);
}

/* Formats the attribute pos of an edge: "e,tip start c1 c2 p ...". */
static syn_status edge_path(walker *w, const syn__pic_edge *e) {
    const size_t want = (e->n_points + 2) * 64;
    SYN_TRY(syn_grow(&w->path, &w->path_cap, want, 1, w->err));
    size_t n = 0;
    if (e->arrow) n += (size_t)snprintf(w->path, want, "e,%.2f,%.2f", e->tip.x, flip(w, e->tip.y));
    for (size_t i = 0; i < e->n_points; i++) {
        const syn__pic_point p = w->d->points[e->first_point + i];
        n += (size_t)snprintf(w->path + n, want - n, "%s%.2f,%.2f", n > 0 ? " " : "", p.x,
                              flip(w, p.y));
    }
    return SYN_OK;
}

static syn_status walk_edge(walker *w, const syn__pic_edge *e) {
    static const char *const colors[] = {"#1a1a1a", "#c62828", "#1a1a1a", "#9a9a9a",
                                         "#4f7aa8", "#c62828", "#d8dee5"};
    static const char *const styles[] = {"solid",  "solid",  "dashed", "solid",
                                         "dotted", "dashed", "solid"};
    static const char *const pens[] = {"0.9", "1.3", "1.3", "0.6", "0.9", "0.9", "0.5"};
    char lp[64];
    SYN_TRY(edge_path(w, e));
    syn__dot_attr attrs[9] = {{"color", colors[e->line], false},
                              {"penwidth", pens[e->line], false},
                              {"pos", w->path, false},
                              {"style", styles[e->line], false},
                              {"dir", e->arrow ? "forward" : "none", false}};
    size_t n = 5;
    if (e->label != NULL) {
        snprintf(lp, sizeof lp, "%.2f,%.2f", e->lx, flip(w, e->ly));
        attrs[n++] = (syn__dot_attr){"label", e->label, true};
        attrs[n++] = (syn__dot_attr){"lp", lp, false};
    }
    if (e->tip_text != NULL)
        attrs[n++] = (syn__dot_attr){"tooltip", escaped(w, e->tip_text), false};
    w->pen->edge(w->pen->self, w->d->boxes[e->from].id, w->d->boxes[e->to].id, attrs, n);
    return SYN_OK;
}

static void walk_boxes_of(walker *w, int32_t cluster) {
    for (uint32_t i = w->first[cluster + 1]; i > 0; i = w->next[i - 1])
        walk_box(w, &w->d->boxes[i - 1]);
}

/* Writes the clusters with their boxes. Parents are stored before their children, so one walk that
   tracks the open clusters nests them. */
static void walk_clusters(walker *w) {
    int32_t open = -1;
    for (size_t i = 0; i < w->d->n_clusters; i++) {
        while (open >= 0 && open != w->d->clusters[i].parent) {
            w->pen->close(w->pen->self);
            open = w->d->clusters[open].parent;
        }
        walk_cluster(w, i);
        walk_boxes_of(w, (int32_t)i);
        open = (int32_t)i;
    }
    for (; open >= 0; open = w->d->clusters[open].parent) w->pen->close(w->pen->self);
}

static syn_status index_boxes(walker *w) {
    const syn__pic_drawing *d = w->d;
    w->next = syn_calloc(d->n_boxes + 1, sizeof *w->next);
    w->first = syn_calloc(d->n_clusters + 1, sizeof *w->first);
    if (w->next == NULL || w->first == NULL)
        return SYN_FAIL_NOMEM(w->err, (d->n_boxes + d->n_clusters) * 4, "a picture");
    for (size_t i = d->n_boxes; i-- > 0;) {
        uint32_t *first = &w->first[d->boxes[i].cluster + 1];
        w->next[i] = *first;
        *first = (uint32_t)i + 1;
    }
    return SYN_OK;
}

syn_status syn__pic_walk(const syn__pic_drawing *d, const syn__dot_pen *pen, syn_error *err) {
    walker w = {.d = d, .pen = pen, .err = err};
    syn_status s = index_boxes(&w);
    if (s == SYN_OK) {
        walk_graph(&w);
        walk_clusters(&w);
        walk_boxes_of(&w, -1);
        for (size_t i = 0; i < d->n_edges && s == SYN_OK; i++) s = walk_edge(&w, &d->edges[i]);
    }
    syn_free(w.next);
    syn_free(w.first);
    syn_free(w.path);
    return s;
}

/* ---- plain pen ---- */

typedef struct plain {
    syn_sink *sink;
    int depth;
} plain;

static void quoted(plain *p, const char *text) {
    syn_sink_char(p->sink, '"');
    for (; *text != '\0'; text++) {
        if (*text == '"') syn_sink_char(p->sink, '\\');
        syn_sink_char(p->sink, *text);
    }
    syn_sink_char(p->sink, '"');
}

static void indent(plain *p) {
    for (int i = 0; i <= p->depth; i++) syn_sink_char(p->sink, '\t');
}

static void attributes(plain *p, const syn__dot_attr *attrs, size_t n) {
    syn_sink_text(p->sink, " [");
    for (size_t i = 0; i < n; i++) {
        if (i > 0) syn_sink_text(p->sink, ", ");
        syn_sink_text(p->sink, attrs[i].name);
        syn_sink_char(p->sink, '=');
        if (attrs[i].html) {
            syn_sink_char(p->sink, '<');
            syn_sink_text(p->sink, attrs[i].value);
            syn_sink_char(p->sink, '>');
        } else {
            quoted(p, attrs[i].value);
        }
    }
    syn_sink_text(p->sink, "];\n");
}

static void statement(plain *p, const char *what, const syn__dot_attr *attrs, size_t n) {
    indent(p);
    syn_sink_text(p->sink, what);
    attributes(p, attrs, n);
}

static void plain_graph(void *self, const syn__dot_attr *attrs, size_t n) {
    statement(self, "graph", attrs, n);
}

static void plain_node_defaults(void *self, const syn__dot_attr *attrs, size_t n) {
    statement(self, "node", attrs, n);
}

static void plain_edge_defaults(void *self, const syn__dot_attr *attrs, size_t n) {
    statement(self, "edge", attrs, n);
}

static void plain_open(void *self, const char *cluster, const syn__dot_attr *attrs, size_t n) {
    plain *p = self;
    indent(p);
    syn_sink_text(p->sink, "subgraph ");
    quoted(p, cluster);
    syn_sink_text(p->sink, " {\n");
    p->depth++;
    statement(p, "graph", attrs, n);
}

static void plain_close(void *self) {
    plain *p = self;
    p->depth--;
    indent(p);
    syn_sink_text(p->sink, "}\n");
}

static void plain_node(void *self, const char *id, const syn__dot_attr *attrs, size_t n) {
    plain *p = self;
    indent(p);
    quoted(p, id);
    attributes(p, attrs, n);
}

static void plain_edge(void *self, const char *from, const char *to, const syn__dot_attr *attrs,
                       size_t n) {
    plain *p = self;
    indent(p);
    quoted(p, from);
    syn_sink_text(p->sink, " -> ");
    quoted(p, to);
    attributes(p, attrs, n);
}

syn_status syn__pic_write_plain(const syn__pic_drawing *d, syn_sink *sink, syn_error *err) {
    plain p = {.sink = sink};
    const syn__dot_pen pen = {&p,         plain_graph, plain_node_defaults, plain_edge_defaults,
                              plain_open, plain_close, plain_node,          plain_edge};
    syn_sink_text(sink, "digraph \"syntorch\" {\n");
    SYN_TRY(syn__pic_walk(d, &pen, err));
    syn_sink_text(sink, "}\n");
    return SYN_OK;
}

syn_status syn__pic_write_dot(const syn__pic_drawing *d, syn_sink *sink, syn_error *err) {
    if (!syn__pic_have_cgraph()) return syn__pic_write_plain(d, sink, err);
    return syn__pic_write_cgraph(d, sink, err);
}
