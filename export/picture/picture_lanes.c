/* Chooses the ranks that the communication view draws. Up to four ranks have a column each, or up
   to eight stages of a pipeline. The ranks of a larger mesh (such as tp by dp) are divided like a
   table, by their positions in both dimensions, so that either all ranks of a column take part in a
   collective or none. If that is not possible, each kind of rank has a column; ranks are of one
   kind if they do the same. */
#include "export/picture/picture_comm.h"

#include <string.h>

#include "syntorch/base/memory.h"

#define TO   "\xE2\x80\xA6"
#define NONE UINT8_MAX

typedef struct kind {
    uint64_t sig;
    uint32_t n, lanes; /* number of ranks of this kind; number of lanes assigned to it */
    uint32_t seen;
} kind;

/* Computes the signature of every rank, and lists the different signatures in order of appearance.
   For ranks that are known to be identical, it is computed once. */
static syn_status find_kinds(const syn_graph *graph, const syn_copied_ranks *copies,
                             uint32_t *kind_of, kind *kinds, uint32_t *n, syn_error *err) {
    *n = 0;
    for (uint32_t r = 0; r < graph->n_ranks; r++) {
        if (syn__is_copy(copies, r)) {
            kind_of[r] = kind_of[copies->of[r]];
            kinds[kind_of[r]].n++;
            continue;
        }
        syn__pic_plan plan;
        const syn_status s = syn__pic_plan_make(&plan, graph, r, SYN__PIC_FOLD_NONE, err);
        const uint64_t sig = plan.rank_sig;
        syn__pic_plan_free(&plan);
        SYN_TRY(s);
        uint32_t k = 0;
        while (k < *n && kinds[k].sig != sig) k++;
        if (k == *n) kinds[(*n)++] = (kind){.sig = sig};
        kinds[k].n++;
        kind_of[r] = k;
    }
    return SYN_OK;
}

/* Assigns one lane to each kind, in order, while there are lanes. Lanes that are left go to the
   kinds with the most ranks that have no lane of their own. */
static uint32_t share_lanes(kind *kinds, uint32_t n, uint32_t columns) {
    uint32_t used = 0;
    for (; used < n && used < columns; used++) kinds[used].lanes = 1;
    const uint32_t shown = used;
    while (used < columns) {
        uint32_t best = UINT32_MAX;
        for (uint32_t k = 0; k < shown; k++) {
            if (kinds[k].lanes == kinds[k].n) continue;
            if (best == UINT32_MAX ||
                kinds[k].n - kinds[k].lanes > kinds[best].n - kinds[best].lanes)
                best = k;
        }
        if (best == UINT32_MAX) break;
        kinds[best].lanes++;
        used++;
    }
    return used;
}

/* Assigns lanes to ranks: the first ranks of each kind get its lanes, and the last of these lanes
   also represents the other ranks of the kind. */
static void lanes_by_kind(syn__pic_chart *c, const uint32_t *kind_of, kind *kinds, uint32_t n) {
    uint8_t next = 0;
    uint8_t last[SYN__PIC_COLUMNS]; /* per kind that is shown; these are the first kinds */
    share_lanes(kinds, n, c->columns);
    for (uint32_t r = 0; r < c->graph->n_ranks; r++) {
        kind *k = &kinds[kind_of[r]];
        c->lane_of[r] = NONE;
        if (k->lanes == 0) c->hidden++;
        else if (k->seen < k->lanes) c->lane_of[r] = last[kind_of[r]] = next++, k->seen++;
        else c->lane_of[r] = last[kind_of[r]];
    }
}

/* ---- meshes ---- */

/* A dimension of the mesh: the groups whose ranks differ from those of `like` by a constant, and
   the position of every rank in its group. */
typedef struct axis {
    const syn_graph_group *like;
    uint32_t *place; /* per rank index: its position */
} axis;

static bool shifted(const syn_graph_group *a, const syn_graph_group *b) {
    if (a->n_ranks != b->n_ranks) return false;
    for (uint32_t i = 1; i < a->n_ranks; i++)
        if (a->ranks[i] - a->ranks[0] != b->ranks[i] - b->ranks[0]) return false;
    return true;
}

static uint32_t index_of(const syn_graph *graph, int32_t rank) {
    uint32_t lo = 0, hi = graph->n_ranks;
    while (lo < hi) {
        const uint32_t mid = lo + (hi - lo) / 2;
        if (graph->ranks[mid].rank < rank) lo = mid + 1;
        else hi = mid;
    }
    return lo < graph->n_ranks && graph->ranks[lo].rank == rank ? lo : UINT32_MAX;
}

/* Fills a->place. Returns whether each rank is in exactly one of these groups. */
static bool fill_axis(const syn_graph *graph, axis *a) {
    uint32_t n = 0;
    for (uint32_t r = 0; r < graph->n_ranks; r++) a->place[r] = UINT32_MAX;
    for (uint32_t g = 0; g < graph->n_groups; g++) {
        const syn_graph_group *group = &graph->groups[g];
        for (uint32_t i = 0; i < group->n_ranks && shifted(a->like, group); i++) {
            const uint32_t r = index_of(graph, group->ranks[i]);
            if (r == UINT32_MAX || a->place[r] != UINT32_MAX) return false;
            a->place[r] = i;
            n++;
        }
    }
    return n == graph->n_ranks;
}

/* Finds at most two dimensions of the mesh from the groups of the first rank, in order of the
   distance between their ranks. */
static uint32_t find_axes(const syn_graph *graph, axis axes[2]) {
    uint32_t n = 0;
    for (int32_t stride = 0; n < 2;) {
        const syn_graph_group *best = NULL;
        for (uint32_t g = 0; g < graph->n_groups; g++) {
            const syn_graph_group *group = &graph->groups[g];
            if (group->n_ranks < 2 || group->n_ranks >= graph->n_ranks ||
                group->ranks[0] != graph->ranks[0].rank)
                continue;
            const int32_t apart = group->ranks[1] - group->ranks[0];
            if (apart > stride && (best == NULL || apart < best->ranks[1] - best->ranks[0]))
                best = group;
        }
        if (best == NULL) break;
        stride = best->ranks[1] - best->ranks[0];
        axes[n].like = best;
        n += fill_axis(graph, &axes[n]);
    }
    return n;
}

/* Maps a position to one of c columns. The first positions have a column each, and the last column
   has all others. */
static uint32_t column_of(uint32_t place, uint32_t c) {
    return place < c ? place : c - 1;
}

/* Assigns lanes in a table of columns[0] x columns[1]. Returns false if a lane would have ranks of
   different kinds. */
static bool lanes_by_table(syn__pic_chart *c, const axis *axes, const uint32_t columns[2],
                           const uint32_t *kind_of) {
    uint32_t kinds[SYN__PIC_COLUMNS];
    for (int k = 0; k < SYN__PIC_COLUMNS; k++) kinds[k] = UINT32_MAX;
    for (uint32_t r = 0; r < c->graph->n_ranks; r++) {
        uint32_t lane = column_of(axes[0].place[r], columns[0]);
        if (columns[1] > 1) lane += columns[0] * column_of(axes[1].place[r], columns[1]);
        if (kinds[lane] != UINT32_MAX && kinds[lane] != kind_of[r]) return false;
        kinds[lane] = kind_of[r];
        c->lane_of[r] = (uint8_t)lane;
    }
    return true;
}

/* Assigns lanes by the mesh. Prefers a column for each position in a group; if these are too many,
   the last column has all further positions. *out: whether it succeeded. */
static bool lanes_of_mesh(syn__pic_chart *c, const uint32_t *kind_of, syn_error *err, bool *out) {
    const uint32_t n_ranks = c->graph->n_ranks;
    axis axes[2] = {{NULL, syn_calloc(n_ranks, sizeof(uint32_t))},
                    {NULL, syn_calloc(n_ranks, sizeof(uint32_t))}};
    const bool ok = axes[0].place != NULL && axes[1].place != NULL;
    const uint32_t n = ok ? find_axes(c->graph, axes) : 0;
    *out = false;
    if (n > 0) {
        const uint32_t a = axes[0].like->n_ranks, b = n > 1 ? axes[1].like->n_ranks : 1;
        const uint32_t tries[][2] = {
            {a, b < 2 ? b : 2}, {a, 1}, {2, b < 2 ? b : 2}, {4, 1}, {2, 1}};
        for (size_t i = n > 1 ? 0 : 1; i < 5 && !*out; i++)
            *out = tries[i][0] <= a && tries[i][0] * tries[i][1] <= c->columns &&
                   lanes_by_table(c, axes, tries[i], kind_of);
    }
    syn_free(axes[0].place);
    syn_free(axes[1].place);
    if (!ok) (void)SYN_FAIL_NOMEM(err, (size_t)n_ranks * 8, "the ranks of a picture");
    return ok;
}

/* ---- similar groups ---- */

static bool holds(const syn_graph_group *g, int32_t rank) {
    for (uint32_t i = 0; i < g->n_ranks; i++)
        if (g->ranks[i] == rank) return true;
    return false;
}

/* Returns the number of other groups that the bar of group `g` also represents: 0 if all ranks of
   its columns are in the group, 2 if the columns represent three times as many ranks. Returns
   SYN__PIC_SOME if this number is not the same for all columns. */
static uint32_t count_similar(const syn__pic_chart *c, const syn_graph_group *g) {
    uint32_t inside[SYN__PIC_COLUMNS] = {0}, n_similar = UINT32_MAX;
    for (uint32_t i = 0; i < g->n_ranks; i++) {
        const uint32_t r = index_of(c->graph, g->ranks[i]);
        if (r != UINT32_MAX && c->lane_of[r] != NONE) inside[c->lane_of[r]]++;
    }
    for (uint32_t k = 0; k < c->n_lanes; k++) {
        const syn__pic_lane *lane = &c->lanes[k];
        if (!holds(g, c->graph->ranks[lane->rank_index].rank)) continue;
        const uint32_t times = lane->n_ranks / inside[k];
        if (lane->n_ranks % inside[k] != 0 || (n_similar != UINT32_MAX && n_similar != times - 1))
            return SYN__PIC_SOME;
        n_similar = times - 1;
    }
    return n_similar == UINT32_MAX ? 0 : n_similar;
}

/* ---- pipelines ---- */

static bool passes_on(const syn_node *n, bool training) {
    const bool phase = training ? n->phase == SYN_PHASE_FORWARD
                                : n->phase == SYN_PHASE_PREFILL || n->phase == SYN_PHASE_DECODE;
    return n->kind == SYN_NODE_SEND && phase && strcmp(n->scope, "pipeline") == 0;
}

syn_status syn__pic_find_stages(const syn_graph *graph, bool training, uint32_t *next, bool *any,
                                syn_error *err) {
    syn_cursor cursor = {0};
    syn_status s = SYN_OK;
    *any = false;
    for (uint32_t r = 0; r < graph->n_ranks && s == SYN_OK; r++) {
        next[r] = UINT32_MAX;
        for (uint32_t i = 0; i < graph->ranks[r].n_nodes && next[r] == UINT32_MAX; i++) {
            const syn_node *n = syn_graph_node(graph, r, i, &cursor);
            if (!n) {
                s = SYN_FAIL(err, cursor.error.code, "%s", cursor.error.text);
                break;
            }
            if (passes_on(n, training)) next[r] = index_of(graph, n->peer);
        }
        *any = *any || next[r] != UINT32_MAX;
    }
    syn_cursor_free(&cursor);
    return s;
}

/* Assigns a lane to each stage. Pipelines begin at their lowest rank. A lane represents the ranks
   of the same stage that do the same. *any: whether there are stages; otherwise it does nothing. */
static syn_status lanes_by_stage(syn__pic_chart *c, const uint32_t *kind_of, bool *any,
                                 syn_error *err) {
    const uint32_t n = c->graph->n_ranks;
    uint32_t kinds[SYN__PIC_COLUMNS];
    uint32_t *next = syn_calloc(n + 1, sizeof *next);
    bool *seen = syn_calloc(n + 1, sizeof *seen);
    *any = false;
    syn_status s = next && seen ? syn__pic_find_stages(c->graph, c->passes, next, any, err)
                                : SYN_FAIL_NOMEM(err, n * sizeof *next, "the ranks of a picture");
    /* Stages need a lane each, unless the page has room for fewer than usual. */
    if (*any && c->columns >= 4) c->columns = SYN__PIC_COLUMNS;
    for (int k = 0; k < SYN__PIC_COLUMNS; k++) kinds[k] = UINT32_MAX;
    for (uint32_t first = 0; first < n && s == SYN_OK && *any; first++) {
        uint32_t stage = 0;
        for (uint32_t r = first; r != UINT32_MAX && !seen[r]; r = next[r], stage++) {
            seen[r] = true;
            if (stage < c->columns && kinds[stage] == UINT32_MAX) kinds[stage] = kind_of[r];
            const bool shown = stage < c->columns && kinds[stage] == kind_of[r];
            c->lane_of[r] = shown ? (uint8_t)stage : NONE;
            c->hidden += !shown;
        }
    }
    syn_free(next);
    syn_free(seen);
    return s;
}

/* ---- all ranks ---- */

static void fill_lanes(syn__pic_chart *c) {
    for (uint32_t r = 0; r < c->graph->n_ranks; r++) {
        if (c->lane_of[r] == NONE) continue;
        syn__pic_lane *lane = &c->lanes[c->lane_of[r]];
        if (lane->n_ranks++ == 0) lane->rank_index = r;
        if (c->lane_of[r] >= c->n_lanes) c->n_lanes = c->lane_of[r] + 1u;
    }
    for (uint32_t g = 0; g < c->graph->n_groups; g++)
        c->n_similar[g] = count_similar(c, &c->graph->groups[g]);
}

syn_status syn__pic_choose_lanes(syn__pic_chart *c, const syn_copied_ranks *copies,
                                 syn_error *err) {
    const uint32_t n_ranks = c->graph->n_ranks;
    uint32_t n = 0;
    bool placed = false;
    uint32_t *kind_of = syn_calloc(n_ranks + 1, sizeof *kind_of);
    kind *kinds = syn_calloc(n_ranks + 1, sizeof *kinds);
    c->lane_of = syn_calloc(n_ranks + 1, sizeof *c->lane_of);
    c->n_similar = syn_calloc(c->graph->n_groups + 1, sizeof *c->n_similar);
    const bool ok = kind_of != NULL && kinds != NULL && c->lane_of != NULL && c->n_similar != NULL;
    syn_status s =
        ok ? find_kinds(c->graph, copies, kind_of, kinds, &n, err)
           : SYN_FAIL_NOMEM(err, (size_t)n_ranks * sizeof *kinds, "the ranks of a picture");
    const bool many = n_ranks > c->columns;
    if (s == SYN_OK && (c->passes || many)) s = lanes_by_stage(c, kind_of, &placed, err);
    if (s == SYN_OK && !placed && many && !lanes_of_mesh(c, kind_of, err, &placed)) s = SYN_E_NOMEM;
    if (s == SYN_OK && !placed) lanes_by_kind(c, kind_of, kinds, n);
    if (s == SYN_OK) fill_lanes(c);
    syn_free(kind_of);
    syn_free(kinds);
    return s;
}

void syn__pic_lane_name(const syn__pic_chart *c, uint32_t k, syn__pic_text *name,
                        syn__pic_text *others) {
    const syn_graph *graph = c->graph;
    const syn__pic_lane *lane = &c->lanes[k];
    const int32_t rank = graph->ranks[lane->rank_index].rank;
    int32_t last = rank;
    uint32_t n = 0, between = 0;
    syn__pic_clear(name);
    syn__pic_clear(others);
    for (uint32_t r = lane->rank_index + 1; r < graph->n_ranks; r++) {
        if (c->lane_of[r] != k) continue;
        between += (uint32_t)(graph->ranks[r].rank - last - 1);
        last = graph->ranks[r].rank;
        if (++n <= 3) syn__pic_put(others, ", %d", last);
    }
    if (n == 0) syn__pic_put(name, "rank %d", rank);
    else if (between == 0 && n > 1) syn__pic_put(name, "ranks %d " TO " %d", rank, last);
    else if (n <= 3) syn__pic_put(name, "ranks %d%s", rank, others->s);
    else syn__pic_put(name, "rank %d and %u identical", rank, n);
    const syn__pic_text first = *others;
    syn__pic_clear(others);
    if (n > 3 && between > 0)
        syn__pic_put(others, "identical: %s%s%d", first.s + 2, n > 4 ? " " TO " " : ", ", last);
}
