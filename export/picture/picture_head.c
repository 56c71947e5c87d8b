/* Adds title, metadata and legend to a picture. */
#include "export/picture/picture_draw.h"
#include "export/picture/picture_text.h"

#include <stdio.h>
#include <string.h>

#define DOT      " \xC2\xB7 "
#define TITLE_PT 17.0
#define LINE_PT  9.5
#define ITEM_PT  8.5
#define ITEM_H   17.0

/* Whether a metadata entry is hidden because it describes the tracing or the machine and not the
   run. */
static bool is_hidden(const char *name) {
    static const char *const names[] = {"pid",       "schema",     "start_ts",
                                        "finish_ts", "node_ranks", "hardware_constants"};
    const size_t n = strcspn(name, "@");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == n && strncmp(name, names[i], n) == 0) return true;
    return false;
}

syn_status syn__pic_metadata(syn__arena *arena, const syn_graph *graph, const char **out,
                             syn_error *err) {
    syn__pic_text t;
    char value[256], cut[96];
    syn__pic_clear(&t);
    for (uint32_t i = 0; i < graph->n_metadata && t.n < 400; i++) {
        const syn_attribute *a = &graph->metadata[i];
        /* Only needed to write the .et file again. */
        if (strncmp(a->name, "et.", 3) == 0) continue;
        /* Not shown, because "hardware" is more informative. */
        if (strcmp(a->name, "multiprocessors") == 0) continue;
        if (is_hidden(a->name)) continue;
        const char *text = syn_attribute_text(a, value, sizeof value);
        if (text[0] == '\0' || strlen(text) > 90) continue;
        if (t.n > 0) syn__pic_put(&t, DOT);
        syn__pic_put_clean(&t, a->name);
        syn__pic_put(&t, " ");
        syn__pic_put_clean(&t, syn__pic_shorten(text, 40, cut, sizeof cut));
    }
    *out = syn__arena_copy(arena, t.s);
    if (*out == NULL) return SYN_FAIL_NOMEM(err, t.n + 1, "the title of a picture");
    return SYN_OK;
}

syn_status syn__pic_add_text(syn__pic_drawing *d, const char *text, double x, double y, double size,
                             bool bold, double *w, syn_error *err) {
    syn__pic_text t;
    char id[32];
    const double width = syn__pic_width(text, size, bold) + 4;
    syn__pic_clear(&t);
    syn__pic_put(&t,
                 "<table border=\"0\" cellborder=\"0\" cellspacing=\"0\" cellpadding=\"0\" "
                 "width=\"%.0f\"><tr><td align=\"left\"><font point-size=\"%g\">%s",
                 width, size, bold ? "<b>" : "");
    syn__pic_put_html(&t, text);
    syn__pic_put(&t, "%s</font></td></tr></table>", bold ? "</b>" : "");
    snprintf(id, sizeof id, "text%zu", d->n_boxes);
    const syn__pic_box box = {.id = syn__arena_copy(&d->arena, id),
                              .label = syn__arena_copy(&d->arena, t.s),
                              .tip = "",
                              .x = x + width / 2,
                              .y = y + size * 0.7,
                              .w = width,
                              .h = size * 1.4,
                              .look = SYN__PIC_PLAIN,
                              .cluster = -1};
    if (box.id == NULL || box.label == NULL)
        return SYN_FAIL_NOMEM(err, t.n, "the title of a picture");
    if (w != NULL) *w = width;
    return syn__pic_add_box(d, &box, NULL, err);
}

syn_status syn__pic_add_badge(syn__pic_drawing *d, uint32_t count, const char *what, double x,
                              double y, int32_t cluster, const char *tip, syn_error *err) {
    char text[64], id[48];
    syn__pic_text t;
    snprintf(text, sizeof text, "\xC3\x97%u %s", count, what);
    const double w = syn__pic_width(text, 9.5, true) + 16;
    syn__pic_clear(&t);
    syn__pic_put(&t, "<font point-size=\"9.5\" color=\"white\"><b>%s</b></font>", text);
    snprintf(id, sizeof id, "badge%zu", d->n_boxes);
    const syn__pic_box box = {.id = syn__arena_copy(&d->arena, id),
                              .label = syn__arena_copy(&d->arena, t.s),
                              .tip = tip,
                              .x = x - w / 2,
                              .y = y,
                              .w = w,
                              .h = 15,
                              .look = SYN__PIC_BADGE,
                              .cluster = cluster};
    if (box.id == NULL || box.label == NULL)
        return SYN_FAIL_NOMEM(err, t.n, "a badge of a picture");
    return syn__pic_add_box(d, &box, NULL, err);
}

typedef struct legend {
    syn__pic_drawing *d;
    double x, y, left, right;
} legend;

static void grow(legend *l, double w) {
    if (l->x > l->left && l->x + w > l->right) {
        l->x = l->left;
        l->y += ITEM_H + 6;
    }
}

static syn_status add_sample(legend *l, int look, syn_error *err) {
    const syn__pic_style *style = syn__pic_style_of(look);
    syn__pic_text t;
    char id[32], text[96];
    const bool badge = look == SYN__PIC_BADGE;
    snprintf(text, sizeof text, "%s%s%s", badge ? "\xC3\x97N" : style->icon,
             badge || style->icon[0] != '\0' ? "  " : "", style->legend);
    syn__pic_clear(&t);
    syn__pic_put(&t, "<font point-size=\"%g\"%s>", ITEM_PT, badge ? " color=\"white\"" : "");
    syn__pic_put_html(&t, text);
    syn__pic_put(&t, "</font>");
    const double w =
        (syn__pic_width(text, ITEM_PT, false) + 2 * style->pad + 6) / (1 - 2 * style->slant);
    grow(l, w);
    snprintf(id, sizeof id, "legend%d", look);
    const syn__pic_box box = {.id = syn__arena_copy(&l->d->arena, id),
                              .label = syn__arena_copy(&l->d->arena, t.s),
                              .tip = style->legend,
                              .x = l->x + w / 2,
                              .y = l->y + ITEM_H / 2,
                              .w = w,
                              .h = ITEM_H,
                              .look = look,
                              .cluster = -1};
    if (box.id == NULL || box.label == NULL)
        return SYN_FAIL_NOMEM(err, t.n, "the legend of a picture");
    l->x += w + 8;
    return syn__pic_add_box(l->d, &box, NULL, err);
}

static syn_status add_anchor(legend *l, double x, uint32_t *out, syn_error *err) {
    char id[32];
    snprintf(id, sizeof id, "anchor%zu", l->d->n_boxes);
    const syn__pic_box box = {.id = syn__arena_copy(&l->d->arena, id),
                              .label = " ", /* not empty, because graphviz would show the id
                                               instead */
                              .tip = "",
                              .x = x,
                              .y = l->y + ITEM_H / 2,
                              .w = 1,
                              .h = 1,
                              .look = SYN__PIC_PLAIN,
                              .cluster = -1};
    if (box.id == NULL) return SYN_FAIL_NOMEM(err, sizeof id, "the legend of a picture");
    return syn__pic_add_box(l->d, &box, out, err);
}

static syn_status add_line_sample(legend *l, int line, syn_error *err) {
    static const char *const names[SYN__PIC_LINES] = {
        "data",       "communication",      "residual (skip) connection",
        "order only", "saved for backward", "tp_enter and its all_reduce"};
    const double w = 34 + syn__pic_width(names[line], ITEM_PT, false) + 8;
    uint32_t a, b;
    grow(l, w);
    const double x = l->x + 1, y = l->y + ITEM_H / 2; /* the invisible ends of the line are boxes
                                                         one point wide */
    SYN_TRY(add_anchor(l, x, &a, err));
    SYN_TRY(add_anchor(l, x + 28, &b, err));
    const syn__pic_edge e = {.from = a, .to = b, .line = line, .arrow = true, .tip = {x + 28, y}};
    SYN_TRY(syn__pic_begin_edge(l->d, &e, (syn__pic_point){x, y}, err));
    SYN_TRY(syn__pic_line_to(l->d, (syn__pic_point){x + 28 - SYN__PIC_ARROW, y}, err));
    SYN_TRY(syn__pic_add_text(l->d, names[line], x + 32, l->y + 2.5, ITEM_PT, false, NULL, err));
    l->x += w + 8;
    return SYN_OK;
}

/* Adds a legend of all looks and lines that the drawing has so far. */
static syn_status add_legend(legend *l, syn_error *err) {
    bool looks[SYN__PIC_LOOKS] = {false}, lines[SYN__PIC_GRID + 1] = {false};
    for (size_t i = 0; i < l->d->n_boxes; i++) looks[l->d->boxes[i].look] = true;
    for (size_t i = 0; i < l->d->n_edges; i++) lines[l->d->edges[i].line] = true;
    /* On a page, where space is scarce, the legend omits the kinds of ops, because their boxes show
       names. */
    const int first = l->d->page == SYN_PAGE_NONE ? 0 : SYN__PIC_RUN;
    for (int i = first; i < SYN__PIC_PLAIN; i++)
        if (looks[i]) SYN_TRY(add_sample(l, i, err));
    for (int i = 0; i < SYN__PIC_LINES; i++)
        if (lines[i]) SYN_TRY(add_line_sample(l, i, err));
    if (l->x > l->left) l->y += ITEM_H;
    return SYN_OK;
}

/* Returns the text. On a page it is truncated to the width, in `cut`. */
static const char *fitted(const syn__pic_drawing *d, const char *text, double size, bool bold,
                          double width, char *cut, size_t bytes) {
    size_t n = bytes / 4;
    if (d->page == SYN_PAGE_NONE || syn__pic_width(text, size, bold) <= width) return text;
    while (n > 1 && syn__pic_width(syn__pic_shorten(text, n, cut, bytes), size, bold) > width) n--;
    return cut;
}

/* Returns the length of the first fact or sentence of a text. *between: the separator after it; ""
   at the end of the text. */
static size_t first_item(const char *text, const char **between) {
    static const char *const ends[] = {DOT, "  "};
    size_t n = strlen(text);
    *between = "";
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const char *end = strstr(text, ends[i]);
        if (end != NULL && (size_t)(end - text) < n) n = (size_t)(end - text), *between = ends[i];
    }
    return n;
}

/* Adds lines of text that start at *y, broken between items or sentences where the line would be
   wider than the page. Advances *y. */
static syn_status add_lines(syn__pic_drawing *d, const char *text, double width, double *y,
                            syn_error *err) {
    while (*text != '\0') {
        syn__pic_text line, longer;
        syn__pic_clear(&line);
        const char *rest = text, *before = "";
        do { /* add items as long as they fit on the line */
            const char *between;
            const size_t n = first_item(rest, &between);
            longer = line;
            syn__pic_put(&longer, "%s%.*s", before, (int)n, rest);
            if (line.n > 0 && syn__pic_width(longer.s, LINE_PT, false) > width - 8) break;
            line = longer;
            rest += n + strlen(between);
            before = between;
        } while (*rest != '\0');
        if (rest == text) break; /* a single fact is longer than the capacity of a text */
        text = rest;
        char cut[1024];
        const char *shown = fitted(d, line.s, LINE_PT, false, width - 8, cut, sizeof cut);
        SYN_TRY(syn__pic_add_text(d, shown, 0, *y, LINE_PT, false, NULL, err));
        *y += LINE_PT * 1.6;
    }
    return SYN_OK;
}

syn_status syn__pic_add_heading(syn__pic_drawing *d, const syn__pic_heading *h, syn_error *err) {
    double right = d->width > 560 ? d->width : 560;
    char cut[1024];
    const char *title = fitted(d, h->title, TITLE_PT, true, right - 8, cut, sizeof cut);
    const double title_w = syn__pic_width(title, TITLE_PT, true) + 4;
    if (title_w > right) right = title_w;
    const syn__pic_mark content = syn__pic_mark_of(d);
    legend l = {d, 0, 0, 0, right};
    SYN_TRY(add_legend(&l, err)); /* before the texts are added, because they must not appear in the
                                     legend */
    const syn__pic_mark after_legend = syn__pic_mark_of(d);
    double y = TITLE_PT * 1.6;
    SYN_TRY(syn__pic_add_text(d, title, 0, 0, TITLE_PT, true, NULL, err));
    for (size_t i = 0; i < 4 && h->lines[i] != NULL; i++)
        SYN_TRY(add_lines(d, h->lines[i], right, &y, err));
    y += 8;
    /* Move the contents down by the heading's height. The legend goes between the texts and the
       contents, or on a page to the right of the title if there is space. */
    const bool same_line =
        d->page != SYN_PAGE_NONE && !(l.y > ITEM_H) && title_w + 40 < right - l.x;
    const double head = same_line ? y + 4 : y + l.y + 20;
    syn__pic_shift(d, (syn__pic_mark){0}, 0, head);
    syn__pic_shift(d, content, same_line ? right - l.x : 0, (same_line ? 0 : y) - head);
    syn__pic_shift(d, after_legend, same_line ? l.x - right : 0, same_line ? 0 : -y);
    for (size_t i = after_legend.boxes; i < d->n_boxes; i++) {
        const double end = d->boxes[i].x + d->boxes[i].w / 2;
        if (end > right) right = end; /* a single fact is wider than the page */
    }
    d->width = right;
    d->height += head;
    d->title = h->title;
    return SYN_OK;
}
