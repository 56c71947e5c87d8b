/* Makes the clusters of one column: one for the phase around everything, and clusters for layers
   and parts of layers. Computes their rectangles, the y of the rows, and the x of the rails. */
#include "export/picture/picture_layout.h"
#include "export/walk/graph_walk.h"

#include <stdio.h>
#include <string.h>

#include "syntorch/base/memory.h"

#define LEVELS  3
#define BADGE_W 104.0 /* width of a badge */
#define DOT     " \xC2\xB7 "

/* Sizes in points: [0] in pictures without a page, [1] on pages. */
static const double head_h[2][LEVELS] = {{26, 20, 16}, {24, 19, 16}}; /* space for the label */
static const double below_head[2] = {5, 2}; /* space below the label of the innermost cluster */
static const double pad_h[2][LEVELS] = {{12, 10, 8}, {6, 5, 4}};
static const double pad_w[2][LEVELS] = {{14, 10, 8}, {8, 6, 5}};
static const double row_gap[2] = {16, 9};
static const double open_gap[2] = {12, 9};  /* space before a row in a new frame */
static const double frame_gap[2] = {10, 6}; /* space between frames */
static const double label_size[LEVELS] = {12, 10.5, 9};

static int on_page(const syn__pic_drawing *d) {
    return d->page != SYN_PAGE_NONE;
}

double syn__pic_cluster_head(const syn__pic_drawing *d, int level) {
    return head_h[on_page(d)][level < LEVELS ? level : LEVELS - 1];
}

syn_status syn__pic_new_cluster(syn__pic_drawing *d, int32_t parent, int level, const char *name,
                                const char *info, int32_t *out, syn_error *err) {
    syn__pic_text t;
    char shown[96];
    syn__pic_clear(&t);
    syn__pic_put(&t, "<font point-size=\"%g\"><b>", label_size[level]);
    syn__pic_put_html(&t, syn__pic_shorten(name, 60, shown, sizeof shown));
    syn__pic_put(&t, "</b></font>");
    double w = syn__pic_width(shown, label_size[level], true);
    if (info[0] != '\0') {
        syn__pic_put(&t, "<font point-size=\"8.5\" color=\"#4a5560\">&#160;&#160;&#160;");
        syn__pic_put_html(&t, info);
        syn__pic_put(&t, "</font>");
        w += syn__pic_width(info, 8.5, false) + 10;
    }
    syn__pic_cluster c = {.parent = parent,
                          .level = level,
                          .label_w = w,
                          .label_h = label_size[level],
                          .min_w = w + 24};
    c.label = syn__arena_copy(&d->arena, t.s);
    c.tip = syn__arena_copy(&d->arena, name);
    if (c.label == NULL || c.tip == NULL) return SYN_FAIL_NOMEM(err, t.n, "a label of a picture");
    return syn__pic_add_cluster(d, &c, out, err);
}

/* Writes the totals over all nodes of this part's phase and step, whether drawn or not. */
static syn_status phase_summary(syn__pic_column *col, syn__pic_text *out, syn_error *err) {
    syn__pic_plan *p = col->cells->plan;
    const syn__pic_step *s = &p->steps[col->part->step_index];
    char a[SYN__PIC_NUMBER], b[SYN__PIC_NUMBER], c[SYN__PIC_NUMBER];
    syn__pic_totals t;
    syn__pic_totals_init(&t);
    for (uint32_t i = s->begin; i < s->end; i++) {
        const syn_node *n;
        SYN_TRY(syn__pic_node(p, i, &p->cursor, &n, err));
        const bool inside = p->order != NULL ? p->order[i].section == col->part->plan_section
                                             : n->phase == col->part->phase;
        if (inside) syn__pic_totals_add(&t, n);
    }
    syn__pic_put(out, "%s%s op%s", s->count > 1 ? "per step: " : "", syn__pic_count(t.ops, a),
                 t.ops == 1 ? "" : "s");
    if (t.flops > 0) syn__pic_put(out, DOT "%s", syn__pic_flops(t.flops, b));
    if (t.comms > 0) syn__pic_put(out, DOT "%s payload", syn__pic_bytes(t.comm_bytes, c));
    return SYN_OK;
}

static syn_status phase_cluster(syn__pic_column *col, syn_error *err) {
    syn__pic_part *part = col->part;
    syn__pic_text name, info;
    syn__pic_clear(&name);
    syn__pic_clear(&info);
    if (col->cells->detail == SYN__PIC_CHUNKS) {
        syn__pic_put(&name, "all steps");
    } else {
        syn__pic_step_title(col->cells->plan, part->step_index, part->phase, &name);
        /* Not on a page, where a long title would make the column wider than its ops. */
        if (col->cells->drawing->page == SYN_PAGE_NONE) SYN_TRY(phase_summary(col, &info, err));
    }
    if (part->of > 1) {
        syn__pic_put(&name, "  (%u of %u)", part->number, part->of);
        if (part->number > 1) syn__pic_clear(&info);
    }
    SYN_TRY(syn__pic_new_cluster(col->cells->drawing, -1, 0, name.s, info.s, &part->cluster, err));
    if (col->cells->plan->steps[part->step_index].count > 1)
        col->cells->drawing->clusters[part->cluster].min_w += BADGE_W;
    return SYN_OK;
}

syn_status syn__pic_part_name(syn__pic_column *col, uint32_t cell, char *out, size_t out_bytes,
                              syn_error *err) {
    const syn_node *n;
    SYN_TRY(
        syn__pic_node(col->cells->plan, col->cell[cell].first, &col->cells->plan->cursor, &n, err));
    const char *p = n->scope + syn__walk_layer_prefix(n->scope);
    if (*p == '.') p++;
    const size_t len = strcspn(p, ".");
    const bool again = n->phase == SYN_PHASE_RECOMPUTE && col->cells->plan->order != NULL;
    snprintf(out, out_bytes, "%.*s%s", (int)(len < 40 ? len : 40), p, again ? " recomputed" : "");
    return SYN_OK;
}

/* Creates clusters within the cells [begin, end) of one unit: one for each group of at least two
   consecutive cells of the same part of the layer. */
static syn_status sub_clusters(syn__pic_column *col, uint32_t begin, uint32_t end, int32_t parent,
                               syn_error *err) {
    char name[64] = "", next[64];
    for (uint32_t first = begin, i = begin; i <= end; i++) {
        next[0] = '\0';
        if (i < end) SYN_TRY(syn__pic_part_name(col, i, next, sizeof next, err));
        if (i > begin && (i == end || strcmp(name, next) != 0)) {
            int32_t cluster = parent;
            if (i - first > 1 && name[0] != '\0' && i - first < col->n_cells)
                SYN_TRY(
                    syn__pic_new_cluster(col->cells->drawing, parent, 2, name, "", &cluster, err));
            for (uint32_t k = first; k < i; k++) col->cell[k].cluster = cluster;
            first = i;
        }
        memcpy(name, next, sizeof name);
    }
    return SYN_OK;
}

syn_status syn__pic_make_clusters(syn__pic_column *col, syn_error *err) {
    SYN_TRY(phase_cluster(col, err));
    const syn__pic_plan *p = col->cells->plan;
    for (uint32_t begin = 0, i = 1; i <= col->n_cells; i++) {
        const syn__pic_detail detail = col->cell[begin].detail;
        if (i < col->n_cells &&
            (detail == SYN__PIC_CHUNKS || col->cell[i].unit == col->cell[begin].unit))
            continue;
        const uint32_t unit = col->cell[begin].unit;
        const bool single = col->cell[begin].first == col->cell[begin].last;
        const bool framed = detail < SYN__PIC_LAYERS ||
                            (detail < SYN__PIC_CHUNKS &&
                             (single || syn__pic_shares_unit(col->cells, &col->cell[begin])));
        int32_t cluster = col->part->cluster;
        if (framed && p->units[unit].layer[0] != '\0') {
            syn__pic_text title;
            syn__pic_clear(&title);
            syn__pic_unit_title(p, unit, &title);
            SYN_TRY(
                syn__pic_new_cluster(col->cells->drawing, cluster, 1, title.s, "", &cluster, err));
            if (p->units[unit].count > 1) /* includes space for the badge */
                col->cells->drawing->clusters[cluster].min_w += BADGE_W;
        }
        for (uint32_t k = begin; k < i; k++) col->cell[k].cluster = cluster;
        if (detail < SYN__PIC_LAYERS) SYN_TRY(sub_clusters(col, begin, i, cluster, err));
        begin = i;
    }
    return SYN_OK;
}

/* ---- y ---- */

/* Lists the clusters around `cluster`, from the outermost to `cluster` itself. Returns their
   number. */
static int chain(const syn__pic_drawing *d, int32_t cluster, int32_t out[LEVELS]) {
    int n = 0;
    int32_t up[LEVELS];
    for (; cluster >= 0 && n < LEVELS; cluster = d->clusters[cluster].parent) up[n++] = cluster;
    for (int i = 0; i < n; i++) out[i] = up[n - 1 - i];
    return n;
}

/* Space between a cluster's border and its contents. */
static double border(const syn__pic_column *col, int level, bool head, bool innermost) {
    const int page = on_page(col->cells->drawing);
    if (!head) return pad_h[page][level];
    return head_h[page][level] + (innermost ? below_head[page] : 0);
}

static void count_legs(syn__pic_column *col) {
    for (size_t r = 0; r < col->n_rows; r++) col->rows[r].legs_above = col->rows[r].legs_below = 0;
    for (uint32_t i = 0; i < col->n_links; i++) {
        const syn__pic_track *t = &col->tracks[i];
        if (!t->rail) continue;
        const syn__pic_slot *a = &col->slots[col->link[i].from - col->part->cell_begin];
        const syn__pic_slot *b = &col->slots[col->link[i].to - col->part->cell_begin];
        const syn__pic_row *rb = &col->rows[b->row];
        if (!syn__pic_starts_aside(col, &col->link[i])) col->rows[a->row].legs_below++;
        if (b->pos + 1 < rb->end - rb->begin) col->rows[b->row].legs_above++;
    }
}

double syn__pic_space_above(const syn__pic_row *row) {
    return 5.0 * row->legs_above + (row->labels_above ? 12 : 0);
}

double syn__pic_space_below(const syn__pic_row *row) {
    return 5.0 * row->legs_below;
}

void syn__pic_place_rows(syn__pic_column *col) {
    syn__pic_drawing *d = col->cells->drawing;
    count_legs(col);
    int32_t open[LEVELS], next[LEVELS];
    int n_open = 0;
    double y = 0;
    const int page = on_page(d);
    for (size_t r = 0; r <= col->n_rows; r++) {
        const bool more = r < col->n_rows;
        const int n_next = more ? chain(d, col->rows[r].cluster, next) : 0;
        int same = 0;
        while (same < n_open && same < n_next && open[same] == next[same]) same++;
        const bool closes = n_open > same, opens = n_next > same;
        if (r > 0 && more) y += syn__pic_space_below(&col->rows[r - 1]);
        for (bool innermost = true; n_open > same; n_open--, innermost = false) {
            if (n_open == 1) y += col->end_gap;
            y += border(col, n_open - 1, col->up, innermost);
            d->clusters[open[n_open - 1]].y1 = y;
        }
        if (r > 0 && more)
            y += (closes && opens ? frame_gap
                  : opens         ? open_gap
                                  : row_gap)[page] +
                 col->rows[r].gap;
        for (; n_open < n_next; n_open++) {
            open[n_open] = next[n_open];
            d->clusters[open[n_open]].y0 = y;
            y += border(col, n_open, !col->up, n_open + 1 == n_next);
            if (n_open == 0) y += col->rows[0].gap;
        }
        if (r == col->n_rows) break;
        syn__pic_row *row = &col->rows[r];
        row->top = y += row->before + syn__pic_space_above(row);
        double height = 0;
        for (uint32_t i = row->begin; i < row->end; i++) {
            const syn__pic_slot *s = &col->slots[col->order[i]];
            if (s->cell >= 0 && col->cell[s->cell].height > height)
                height = col->cell[s->cell].height;
        }
        row->bottom = y += height;
        for (uint32_t i = row->begin; i < row->end; i++) {
            const syn__pic_slot *s = &col->slots[col->order[i]];
            if (s->cell >= 0) col->cell[s->cell].top = row->top;
        }
        y += row->after;
    }
}

/* ---- x of rectangles and rails ---- */

static int32_t common(const syn__pic_drawing *d, int32_t a, int32_t b) {
    int32_t x[LEVELS], y[LEVELS];
    const int n = chain(d, a, x), m = chain(d, b, y);
    int32_t found = -1;
    for (int i = 0; i < n && i < m && x[i] == y[i]; i++) found = x[i];
    return found;
}

static bool holds(const syn__pic_drawing *d, int32_t cluster, int32_t inner) {
    for (; inner >= 0; inner = d->clusters[inner].parent)
        if (inner == cluster) return true;
    return false;
}

/* Places the rails of links whose ends have a cluster of `level` as their innermost common cluster.
   Shorter rails are nearer to the cells. */
static void place_rails(syn__pic_column *col, int level) {
    const syn__pic_drawing *d = col->cells->drawing;
    const uint32_t longest = (uint32_t)col->n_rows;
    for (uint32_t span = 0; span < longest; span++)
        for (uint32_t i = 0; i < col->n_links; i++) {
            syn__pic_track *t = &col->tracks[i];
            const uint32_t lo = t->from_row < t->to_row ? t->from_row : t->to_row;
            const uint32_t hi = t->from_row < t->to_row ? t->to_row : t->from_row;
            if (!t->rail || hi - lo != span) continue;
            const int32_t c = common(d, col->rows[lo].cluster, col->rows[hi].cluster);
            if (c < 0 || d->clusters[c].level != level) continue;
            double x = -1e9;
            for (uint32_t r = lo; r <= hi; r++)
                if (col->rows[r].max_x + 16 > x) x = col->rows[r].max_x + 16;
            const syn__pic_cell *to = &col->cell[col->link[i].to - col->part->cell_begin];
            const double space = col->link[i].line != SYN__PIC_RESIDUAL ? 20 : on_page(d) ? 44 : 54;
            if (x < to->x + to->w / 2 + space) x = to->x + to->w / 2 + space;
            t->rail_x = x;
            for (uint32_t r = lo; r <= hi; r++) col->rows[r].max_x = x;
        }
}

static void place_level(syn__pic_column *col, int level) {
    syn__pic_drawing *d = col->cells->drawing;
    const double pad = pad_w[on_page(d)][level];
    double x0 = 1e9, x1 = -1e9;
    for (int32_t c = col->first_cluster; c < col->end_cluster; c++) {
        syn__pic_cluster *k = &d->clusters[c];
        if (k->level != level) continue;
        for (size_t r = 0; r < col->n_rows; r++) {
            if (!holds(d, c, col->rows[r].cluster)) continue;
            if (col->rows[r].min_x - pad < x0) x0 = col->rows[r].min_x - pad;
            if (col->rows[r].max_x + pad > x1) x1 = col->rows[r].max_x + pad;
        }
        if (x1 < x0 + k->min_w) x1 = x0 + k->min_w;
        const bool badge = k->min_w >= k->label_w + BADGE_W;
        /* Clusters of layers (level 1) are widened so that arrows along the axis at x = 0 pass
           between name and badge. */
        if (level != 1) continue;
        if (x0 > -k->label_w - 16) x0 = -k->label_w - 16;
        if (badge && x1 < BADGE_W + 8) x1 = BADGE_W + 8;
    }
    for (int32_t c = col->first_cluster; c < col->end_cluster; c++) {
        syn__pic_cluster *k = &d->clusters[c];
        if (k->level != level) continue;
        k->x0 = x0, k->x1 = x1; /* all clusters of a level have the same width, so that their
                                   borders are aligned */
        for (size_t r = 0; r < col->n_rows; r++) {
            if (!holds(d, c, col->rows[r].cluster)) continue;
            col->rows[r].min_x = x0;
            col->rows[r].max_x = x1;
        }
    }
}

syn_status syn__pic_place_clusters(syn__pic_column *col, syn_error *err) {
    (void)err;
    syn__pic_place_rows(col);
    for (size_t r = 0; r < col->n_rows; r++) {
        syn__pic_row *row = &col->rows[r];
        row->min_x = 1e9, row->max_x = -1e9;
        for (uint32_t i = row->begin; i < row->end; i++) {
            const syn__pic_slot *s = &col->slots[col->order[i]];
            if (s->x - s->left < row->min_x) row->min_x = s->x - s->left;
            if (s->x + s->right > row->max_x) row->max_x = s->x + s->right;
        }
        row->legs_above = row->legs_below = 0;
    }
    for (int level = LEVELS - 1; level >= 0; level--) {
        place_rails(col, level);
        place_level(col, level);
    }
    return SYN_OK;
}
