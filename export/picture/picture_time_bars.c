/* Draws the bars of the time view. Wide bars have a name; narrow neighbouring bars are joined into
   one. */
#include "export/picture/picture_text.h"
#include "export/picture/picture_time.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "syntorch/base/memory.h"

#define NARROW_PT 2.0 /* bars that are narrower are joined */
#define JOINED_PT 3.5 /* largest width of a joined bar */
#define GAP_PT    0.8 /* largest gap within a joined bar */
#define MIN_PT    0.35
#define BRIDGE_PT 5.0 /* largest gap over which a layer or module continues */
#define TEXT_PT   SYN__PIC_TIME_TEXT
#define MAX_LINES 100 /* maximum number of lines from a rank to others; more would hide bars */

typedef struct bar {
    double x0, x1;
    uint32_t n; /* number of slices; 0: no bar is open */
    int64_t ns[SYN__PIC_LOOKS], all_ns;
    size_t slice; /* index of the first slice */
} bar;

typedef struct writer {
    syn__pic_times *t;
    const syn__pic_block *block;
    const syn__pic_stretch *stretch;
    const syn__track_thread *thread;
    double y;
    bar open;
    syn_error *err;
} writer;

static double x_of(const writer *w, int64_t at) {
    const syn__pic_stretch *s = w->stretch;
    if (at < s->begin) at = s->begin;
    if (at > s->end) at = s->end;
    return s->x + syn__pic_points(w->t, s->begin, at);
}

/* Removes the prefixes and suffixes that all names of a kind have. */
void syn__pic_short_name(const char *name, char *out, size_t bytes) {
    static const char optimizer[] = "Optimizer.", forward[] = ".forward";
    const char *own =
        strncmp(name, optimizer, sizeof optimizer - 1) == 0 ? strchr(name, '#') : NULL;
    if (strncmp(name, "void ", 5) == 0) name += 5;
    if (own != NULL) name = own + 1;
    size_t n = strcspn(name, "<(");
    if (n == 0) n = strlen(name);
    for (size_t i = 0; i + 2 < n; i++)
        if (name[i] == ':' && (name[i + 1] == ':' || name[i + 1] == ' ')) {
            name += i + 2;
            n -= i + 2;
            i = SIZE_MAX; /* restart the loop with the rest of the name */
        }
    while (n > 1 && (*name == '#' || *name == ' ')) name++, n--;
    while (n > 1 && (name[n - 1] == '#' || name[n - 1] == ' ')) n--;
    const size_t end = sizeof forward - 1;
    if (n > end && memcmp(name + n - end, forward, end) == 0) n -= end;
    snprintf(out, bytes, "%.*s", (int)(n < bytes ? n : bytes - 1), name);
}

static bool dark(int look) {
    return look == SYN__PIC_TIME + SYN_CATEGORY_MATMUL ||
           look == SYN__PIC_TIME + SYN_CATEGORY_ATTENTION ||
           look == SYN__PIC_TIME + SYN_CATEGORY_EMBEDDING ||
           look == SYN__PIC_TIME + SYN_CATEGORY_COMMUNICATION;
}

static bool fits(const char *text, double width) {
    return syn__pic_width(text, TEXT_PT, false) <= width - 2;
}

/* Returns as much of the name as fits into the width. A name such as "layers.12" is shortened to
   its number, which distinguishes it from other layers. */
static const char *fitted(const char *name, double width, char *cut, size_t bytes) {
    const size_t all = strlen(name), least = all < 3 ? all : 3;
    const char *number = strrchr(name, '.');
    size_t max = all < 60 ? all : 60;
    if (fits(name, width)) return name;
    if (number != NULL && number[1] != '\0' &&
        strspn(number + 1, "0123456789") == strlen(number + 1))
        return fits(number + 1, width) ? number + 1 : "";
    while (max >= least && max > 0 && !fits(syn__pic_shorten(name, max, cut, bytes), width)) max--;
    return max < least || max == 0 ? "" : cut;
}

/* Writes the label of a bar: as much of the name as fits into the width, or " " if nothing fits. */
static void put_label(syn__pic_text *label, const char *name, double width, int look) {
    char cut[96];
    const char *text = fitted(name, width, cut, sizeof cut);
    syn__pic_clear(label);
    if (text[0] == '\0') {
        syn__pic_put(label, " ");
        return;
    }
    syn__pic_put(label, "<font point-size=\"%g\"%s>", TEXT_PT,
                 dark(look) ? " color=\"white\"" : "");
    syn__pic_put_html(label, text);
    syn__pic_put(label, "</font>");
}

/* Draws a bar. id NULL: the bar does not represent exactly one node, so it gets a new id. */
static syn_status draw(writer *w, const char *id, const char *name, const char *tip, double x0,
                       double x1, int look, uint32_t *out) {
    syn__pic_drawing *d = w->t->drawing;
    syn__pic_text label;
    char number[32];
    if (id == NULL) {
        snprintf(number, sizeof number, "bar%zu", d->n_boxes);
        id = number;
    }
    if (x1 - x0 < MIN_PT) x1 = x0 + MIN_PT;
    put_label(&label, name, x1 - x0, look);
    const syn__pic_box box = {.id = syn__arena_copy(&d->arena, id),
                              .label = syn__arena_copy(&d->arena, label.s),
                              .tip = syn__arena_copy(&d->arena, tip),
                              .x = (x0 + x1) / 2,
                              .y = w->y + SYN__PIC_ROW_H / 2,
                              .w = x1 - x0,
                              .h = SYN__PIC_ROW_H,
                              .look = look,
                              .cluster = -1};
    if (box.id == NULL || box.label == NULL || box.tip == NULL)
        return SYN_FAIL_NOMEM(w->err, label.n, "a bar of a picture");
    return syn__pic_add_box(d, &box, out, w->err);
}

static void put_times(syn__pic_text *tip, const writer *w, int64_t begin, int64_t end) {
    char a[SYN__PIC_NUMBER];
    const int64_t from = w->t->windows[w->stretch->window].begin;
    syn__pic_put(tip, "\n%s", syn__pic_time((double)(end - begin), a));
    if (begin >= from)
        syn__pic_put(tip, ", starts at %s", syn__pic_time((double)(begin - from), a));
}

static syn_status note_joint(writer *w, const syn__slice *s, const syn_node *node, uint32_t box,
                             double x) {
    syn__pic_times *t = w->t;
    SYN_TRY(syn_grow(&t->joints, &t->joints_cap, t->n_joints + 1, sizeof *t->joints, w->err));
    t->joints[t->n_joints++] =
        (syn__pic_joint){box,
                         w->block->rank_index,
                         s->node,
                         node->group,
                         node->kind == SYN_NODE_COLLECTIVE ? node->comm_index : UINT32_MAX,
                         w->stretch->shelf,
                         x,
                         w->y,
                         w->y + SYN__PIC_ROW_H};
    return SYN_OK;
}

static syn_status draw_slice(writer *w, size_t i, double x0, double x1) {
    const syn__slice *s = &w->t->lanes.slices[i];
    const syn__pic_slice *p = &w->t->slices[i];
    const syn_node *node;
    syn__pic_text tip;
    char name[96], id[48], number[SYN__PIC_ID_BYTES], a[SYN__PIC_NUMBER];
    uint32_t box;
    SYN_TRY(syn__walk_node(&w->t->walk, s->node, &node, w->err));
    syn__pic_short_name(syn__pic_node_name(node, number), name, sizeof name);
    if (p->is_comm) snprintf(name, sizeof name, "%s", syn_comm_kind_name(node->comm));
    syn__pic_clear(&tip);
    syn__pic_put_clean(&tip, node->scope);
    if (node->scope[0] != '\0') syn__pic_put(&tip, " ");
    syn__pic_put_clean(&tip, syn__pic_node_name(node, number));
    put_times(&tip, w, s->start + s->wait, s->end);
    if (p->is_comm) syn__pic_put(&tip, "\n%s", syn__pic_bytes(node->comm_bytes, a));
    const int64_t begin = s->start + s->wait;
    if (s->wait > 0 && x_of(w, begin) - x0 > MIN_PT) {
        SYN_TRY(draw(w, NULL, "", "waits for other ranks", x0, x_of(w, begin), SYN__PIC_TIME_WAIT,
                     NULL));
        x0 = x_of(w, begin);
    }
    const bool here = s->start >= w->stretch->begin;
    snprintf(id, sizeof id, "r%d.o%llu", (int)w->t->walk.rank, (unsigned long long)node->id);
    SYN_TRY(draw(w, here ? id : NULL, name, tip.s, x0, x1, p->look, &box));
    return p->is_comm && s->end <= w->stretch->end ? note_joint(w, s, node, box, x1) : SYN_OK;
}

/* Draws the joined ops as one bar, in the colour of the category with the most time. A single op
   gets its normal bar. */
static syn_status flush(writer *w) {
    bar *b = &w->open;
    syn__pic_text tip;
    char a[SYN__PIC_NUMBER];
    if (b->n == 0) return SYN_OK;
    const uint32_t n = b->n;
    b->n = 0;
    if (n == 1) return draw_slice(w, b->slice, b->x0, b->x1);
    int look = 0;
    for (int k = 0; k < SYN__PIC_LOOKS; k++)
        if (b->ns[k] > b->ns[look]) look = k;
    if (b->ns[look] == 0) look = w->t->slices[b->slice].look;
    syn__pic_clear(&tip);
    syn__pic_put(&tip, "%u ops, %s", n, syn__pic_time((double)b->all_ns, a));
    return draw(w, NULL, "", tip.s, b->x0, b->x1, look, NULL);
}

static syn_status add_slice(writer *w, size_t i) {
    const syn__slice *s = &w->t->lanes.slices[i];
    const double x0 = x_of(w, s->start), x1 = x_of(w, s->end);
    bar *b = &w->open;
    if (x1 - x0 >= NARROW_PT) {
        SYN_TRY(flush(w));
        return draw_slice(w, i, x0, x1);
    }
    if (b->n > 0 && (x1 - b->x0 > JOINED_PT || x0 - b->x1 > GAP_PT)) SYN_TRY(flush(w));
    if (b->n == 0) *b = (bar){.x0 = x0, .x1 = x1, .slice = i};
    if (x1 > b->x1) b->x1 = x1;
    b->n++;
    b->all_ns += s->end - s->start;
    b->ns[w->t->slices[i].look] += s->end - s->start;
    return SYN_OK;
}

/* ---- layers and modules ---- */

static bool same_frames(const syn__pic_slice *a, const syn__pic_slice *b, int level) {
    for (int k = 0; k <= level; k++)
        if (a->frames[k] == NULL || b->frames[k] == NULL || strcmp(a->frames[k], b->frames[k]) != 0)
            return false;
    return true;
}

static syn_status draw_frame(writer *w, const syn__pic_slice *p, int level, int64_t begin,
                             int64_t end) {
    syn__pic_text tip;
    if (p == NULL || end <= w->stretch->begin || begin >= w->stretch->end) return SYN_OK;
    const double x0 = x_of(w, begin), x1 = x_of(w, end);
    if (x1 - x0 < MIN_PT) return SYN_OK;
    syn__pic_clear(&tip);
    for (int k = 0; k <= level; k++) {
        if (k > 0) syn__pic_put(&tip, " \xE2\x80\xBA "); /* a guillemet */
        syn__pic_put_clean(&tip, p->frames[k]);
    }
    put_times(&tip, w, begin, end);
    return draw(w, NULL, p->frames[level], tip.s, x0, x1, SYN__PIC_TIME_RANGE, NULL);
}

static syn_status draw_frames(writer *w, size_t first, int level) {
    const syn__pic_times *t = w->t;
    const syn__pic_slice *open = NULL;
    int64_t begin = 0, end = 0;
    for (size_t i = first; i < t->lanes.n_slices && t->lanes.slices[i].lane == w->thread->lane;
         i++) {
        const syn__slice *s = &t->lanes.slices[i];
        const syn__pic_slice *p = &t->slices[i];
        if (s->tid != w->thread->tid || p->is_range || p->depth < 0) continue;
        if (p->frames[level] == NULL && syn__pic_points(t, end, s->end) < BRIDGE_PT) continue;
        const int64_t left = t->windows[w->stretch->window].begin;
        if (open != NULL && same_frames(open, p, level) && (begin >= left || s->start < left)) {
            if (s->end > end) end = s->end;
            continue;
        }
        SYN_TRY(draw_frame(w, open, level, begin, end));
        open = p->frames[level] != NULL ? p : NULL;
        begin = s->start;
        end = s->end;
    }
    return draw_frame(w, open, level, begin, end);
}

syn_status syn__pic_times_bars(syn__pic_times *t, const syn__pic_block *block, uint32_t r,
                               const syn__pic_stretch *stretch, double y, syn_error *err) {
    const syn__pic_row *row = &block->rows[r];
    writer w = {t, block, stretch, &t->lanes.threads[row->thread], y, {.n = 0}, err};
    size_t first = 0;
    while (first < t->lanes.n_slices && t->lanes.slices[first].lane < w.thread->lane) first++;
    if (row->frame >= 0) return draw_frames(&w, first, row->frame);
    for (size_t i = first; i < t->lanes.n_slices && t->lanes.slices[i].lane == w.thread->lane;
         i++) {
        const syn__slice *s = &t->lanes.slices[i];
        if (s->start >= stretch->end) break;
        if (s->tid != w.thread->tid || s->end <= stretch->begin) continue;
        if (t->slices[i].depth == row->depth) SYN_TRY(add_slice(&w, i));
    }
    return flush(&w);
}

/* ---- lines between ranks ---- */

static int compare_joints(const void *a, const void *b) {
    const syn__pic_joint *x = a, *y = b;
    if (x->group != y->group) return x->group < y->group ? -1 : 1;
    if (x->number != y->number) return x->number < y->number ? -1 : 1;
    return x->box < y->box ? -1 : x->box > y->box;
}

/* Draws a line between two bars on the same shelf. Between shelves no line is drawn, because it
   would cross everything between them. */
static syn_status line(syn__pic_times *t, const syn__pic_joint *a, const syn__pic_joint *b,
                       bool arrow, syn_error *err) {
    if (a->shelf != b->shelf) return SYN_OK;
    const bool down = a->top < b->top;
    const syn__pic_point from = {a->x, down ? a->bottom : a->top};
    const syn__pic_point to = {b->x, down ? b->top : b->bottom};
    const syn__pic_edge e = {
        .from = a->box, .to = b->box, .line = SYN__PIC_RED, .arrow = arrow, .tip = to};
    SYN_TRY(syn__pic_begin_edge(t->drawing, &e, from, err));
    return syn__pic_line_to(t->drawing, to, err);
}

static const syn__pic_joint *find_joint(const syn__pic_times *t, uint32_t rank, uint32_t node) {
    for (size_t i = 0; i < t->n_joints; i++)
        if (t->joints[i].rank_index == rank && t->joints[i].node == node) return &t->joints[i];
    return NULL;
}

syn_status syn__pic_times_join(syn__pic_times *t, syn_error *err) {
    if (t->n_blocks < 2 || t->n_joints > (size_t)MAX_LINES * t->n_blocks) return SYN_OK;
    if (t->n_joints > 1) qsort(t->joints, t->n_joints, sizeof *t->joints, compare_joints);
    for (size_t i = 1; i < t->n_joints; i++) {
        const syn__pic_joint *a = &t->joints[i - 1], *b = &t->joints[i];
        if (a->number != UINT32_MAX && a->group == b->group && a->number == b->number &&
            a->rank_index != b->rank_index)
            SYN_TRY(line(t, a, b, false, err));
    }
    for (size_t i = 0; i < t->timeline.n_messages; i++) {
        const syn__timeline_message *m = &t->timeline.messages[i];
        const syn__pic_joint *a = find_joint(t, m->from_rank, m->from_node);
        const syn__pic_joint *b = find_joint(t, m->to_rank, m->to_node);
        if (a != NULL && b != NULL) SYN_TRY(line(t, a, b, true, err));
    }
    return SYN_OK;
}
