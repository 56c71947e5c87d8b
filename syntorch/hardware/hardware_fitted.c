/* The ranges to which constants were fitted. Finds the extents of a node that are outside these
   ranges, and widens the ranges. */
#include <stdio.h>
#include <string.h>

#include "syntorch/hardware/hardware_private.h"

static const char *const extent_names[SYN_HW_EXTENTS] = {"ranks",   "nodes", "bytes",   "rows",
                                                         "columns", "inner", "queries", "keys"};

#define PRODUCTS  "products"
#define ATTENTION "attention"

/* ---- Extents of a node ---- */

static double nodes_of(const syn_hardware *hw, const int32_t *ranks, uint32_t n_ranks) {
    double nodes = 0;
    for (uint32_t i = 0; i < n_ranks; i++)
        nodes += i == 0 || ranks[i] / hw->node_ranks != ranks[i - 1] / hw->node_ranks;
    return nodes;
}

/* The buffer size as NCCL's tests define it: the gathered buffer for all-gather and gather,
   otherwise the input of one rank. */
static double buffer_bytes(const syn_node *node, uint32_t n_ranks) {
    const bool shard = node->comm == SYN_COMM_ALL_GATHER || node->comm == SYN_COMM_GATHER;
    return (double)node->comm_bytes * (shard ? n_ranks : 1);
}

/* Returns the kind of work of a node; NULL if no constants are fitted to it. Sets the node's
   extents; extents that it does not have are 0. */
static const char *extents_of(const syn_hardware *hw, const syn_node *node,
                              const syn_graph_group *group, double at[SYN_HW_EXTENTS]) {
    const syn_extents *e = &node->extents;
    memset(at, 0, SYN_HW_EXTENTS * sizeof *at);
    if (node->kind == SYN_NODE_COLLECTIVE && group != NULL && group->n_ranks > 1) {
        at[SYN_HW_EXTENT_RANKS] = group->n_ranks;
        at[SYN_HW_EXTENT_NODES] = nodes_of(hw, group->ranks, group->n_ranks);
        at[SYN_HW_EXTENT_BYTES] = buffer_bytes(node, group->n_ranks);
        return syn_comm_kind_name(node->comm);
    }
    if (node->kind != SYN_NODE_COMPUTE) return NULL;
    if (node->category == SYN_CATEGORY_ATTENTION && (node->flags & SYN_NODE_FUSED) != 0) {
        at[SYN_HW_EXTENT_QUERIES] = (double)e->rows;
        at[SYN_HW_EXTENT_KEYS] = (double)(syn__is_paged(node) ? e->longest : e->columns);
        return ATTENTION;
    }
    if (node->category != SYN_CATEGORY_MATMUL || strcmp(node->op, "matmul") == 0) return NULL;
    at[SYN_HW_EXTENT_ROWS] = (double)e->rows;
    at[SYN_HW_EXTENT_COLUMNS] = (double)e->columns;
    at[SYN_HW_EXTENT_INNER] = (double)e->inner;
    return PRODUCTS;
}

/* ---- What is known ---- */

static const struct syn_hw_fit_range *find(const syn_hw_fit_ranges *fitted, const char *what) {
    for (int32_t i = 0; i < fitted->n; i++)
        if (strcmp(fitted->at[i].what, what) == 0) return &fitted->at[i];
    return NULL;
}

static void widen(syn_hw_range *range, double least, double most) {
    if (most <= 0) return;
    if (range->most <= 0 || least < range->least) range->least = least;
    if (most > range->most) range->most = most;
}

void syn_hardware_fitted_to(syn_hw_fit_ranges *fitted, const syn_hardware *hw, const syn_node *node,
                            const syn_graph_group *group) {
    double at[SYN_HW_EXTENTS];
    const char *what = extents_of(hw, node, group, at);
    struct syn_hw_fit_range *fit =
        what != NULL ? (struct syn_hw_fit_range *)find(fitted, what) : NULL;
    if (what == NULL || (fit == NULL && fitted->n == SYN_HW_FITS)) return;
    if (fit == NULL) {
        fit = &fitted->at[fitted->n++];
        memset(fit, 0, sizeof *fit);
        snprintf(fit->what, sizeof fit->what, "%s", what);
    }
    for (int i = 0; i < SYN_HW_EXTENTS; i++) widen(&fit->range[i], at[i], at[i]);
}

/* Finds the ranges for a kind of work. Returns false if nothing is known about it. The time of a
   collective depends on constants of the library and of the stack, so the ranges of both are
   joined. */
static bool known(const syn_hardware *hw, const char *what, bool communicates,
                  syn_hw_range range[SYN_HW_EXTENTS]) {
    const bool library = communicates && hw->collectives.name[0] != '\0';
    const syn_hw_fit_ranges *const all[] = {&hw->stack.fitted,
                                            library ? &hw->collectives.fitted : NULL};
    bool said = false;
    memset(range, 0, SYN_HW_EXTENTS * sizeof *range);
    for (int k = 0; k < 2; k++) {
        const struct syn_hw_fit_range *fit = all[k] != NULL ? find(all[k], what) : NULL;
        said = said || (library && all[k]->n > 0) || fit != NULL;
        for (int i = 0; i < SYN_HW_EXTENTS && fit != NULL; i++)
            widen(&range[i], fit->range[i].least, fit->range[i].most);
    }
    return said;
}

static bool is_outside(double value, const syn_hw_range *range) {
    return value > 0 && range->most > 0 && (value < range->least || value > range->most);
}

int syn_hardware_extrapolated(const syn_hardware *hw, const syn_node *node,
                              const syn_graph_group *group,
                              syn_hw_extrapolation out[SYN_HW_EXTENTS]) {
    double at[SYN_HW_EXTENTS];
    syn_hw_range range[SYN_HW_EXTENTS];
    int n = 0;
    if ((node->flags & SYN_NODE_VIRTUAL) != 0) return 0;
    if (hw->alone.ranks > 0 && node->kind == SYN_NODE_COMPUTE)
        return syn__hardware_outside_curve(hw, node, &out[0]) ? 1 : 0;
    const char *what = extents_of(hw, node, group, at);
    if (syn__is_deepep(node))
        return syn__deepep_extrapolated(hw, at[SYN_HW_EXTENT_NODES], &out[0]) ? 1 : 0;
    if (what == NULL || !known(hw, what, node->kind == SYN_NODE_COLLECTIVE, range)) return 0;
    bool any = false;
    for (int i = 0; i < SYN_HW_EXTENTS; i++) any = any || range[i].most > 0;
    for (int i = 0; i < SYN_HW_EXTENTS; i++) {
        if (any && !is_outside(at[i], &range[i])) continue;
        if (i == SYN_HW_EXTENT_NODES && n > 0) continue; /* implied by the ranks, in out[0] */
        if (!any && i > 0) break;
        syn_hw_extrapolation *b = &out[n++];
        *b = (syn_hw_extrapolation){
            .extent = any ? (syn_hw_extent)i : SYN_HW_EXTENTS, .value = at[i], .fitted = range[i]};
        snprintf(b->what, sizeof b->what, "%s", what);
    }
    return n;
}

bool syn_hardware_serving_calibrated(const syn_hardware *hw) {
    return hw->stack.step_ns > 0 && find(&hw->stack.fitted, ATTENTION) != NULL;
}

/* ---- Files ---- */

/* Reads the ranges of a kind of work, {"ranks": [2, 128], ...}. */
static syn_status read_ranges(syn__settings *s, struct syn_hw_fit_range *fit) {
    syn_json_type type = syn_json_next(&s->json);
    char shown[64];
    if (type != SYN_JSON_OBJECT_BEGIN)
        return syn__settings_fail(s, "\"%s\" must be an object of ranges", s->path);
    while ((type = syn_json_next(&s->json)) == SYN_JSON_KEY) {
        int i = 0;
        while (i < SYN_HW_EXTENTS && !syn__settings_text_is(s, extent_names[i])) i++;
        if (i == SYN_HW_EXTENTS)
            return syn__settings_fail(s, "\"%s\" has a range of \"%s\", which is not an extent",
                                      s->path, syn__settings_shown(s, shown));
        const size_t outer = syn__settings_enter(s, extent_names[i]);
        syn_hw_range *range = &fit->range[i];
        if (syn_json_next(&s->json) != SYN_JSON_ARRAY_BEGIN)
            return syn__settings_fail(s, "\"%s\" must be [least, most]", s->path);
        SYN_TRY(syn__settings_number(s, 1, 1e18, &range->least));
        SYN_TRY(syn__settings_number(s, 1, 1e18, &range->most));
        if (range->most < range->least)
            return syn__settings_fail(s, "\"%s\" must be [least, most]", s->path);
        if (syn_json_next(&s->json) != SYN_JSON_ARRAY_END)
            return syn__settings_fail(s, "\"%s\" must be [least, most]", s->path);
        syn__settings_leave(s, outer);
    }
    return type == SYN_JSON_OBJECT_END ? SYN_OK : s->error.code;
}

/* The kind of work that the last key names: a kind of communication, "products" or "attention".
   NULL: the key names none. */
static const char *known_work(const syn__settings *s) {
    if (syn__settings_text_is(s, PRODUCTS)) return PRODUCTS;
    if (syn__settings_text_is(s, ATTENTION)) return ATTENTION;
    for (int kind = SYN_COMM_NONE + 1; kind < SYN_COMM_KIND_COUNT; kind++)
        if (syn__settings_text_is(s, syn_comm_kind_name((syn_comm_kind)kind)))
            return syn_comm_kind_name((syn_comm_kind)kind);
    return NULL;
}

syn_status syn__hardware_read_fitted(syn__settings *s, void *member) {
    syn_hw_fit_ranges *fitted = member;
    char shown[64];
    syn_json_type type = syn_json_next(&s->json);
    if (type == SYN_JSON_ERROR) return s->error.code;
    if (type != SYN_JSON_OBJECT_BEGIN)
        return syn__settings_fail(s, "\"%s\" must be an object of ranges by kinds of work",
                                  s->path);
    while ((type = syn_json_next(&s->json)) == SYN_JSON_KEY) {
        const char *what = known_work(s);
        if (what == NULL)
            return syn__settings_fail(s, "\"%s\" names \"%s\", which is not a kind of work",
                                      s->path, syn__settings_shown(s, shown));
        const size_t outer = syn__settings_enter(s, what);
        if (find(fitted, what) != NULL)
            return syn__settings_fail(s, "\"%s\" appears twice", s->path);
        if (fitted->n == SYN_HW_FITS)
            return syn__settings_fail(s, "\"%s\" may list at most %d kinds", s->path, SYN_HW_FITS);
        struct syn_hw_fit_range *fit = &fitted->at[fitted->n++];
        snprintf(fit->what, sizeof fit->what, "%s", what);
        SYN_TRY(read_ranges(s, fit));
        syn__settings_leave(s, outer);
    }
    return type == SYN_JSON_OBJECT_END ? SYN_OK : s->error.code;
}

int32_t syn__hardware_fits(const void *member) {
    return ((const syn_hw_fit_ranges *)member)->n;
}

void syn__hardware_write_fitted(syn_sink *out, const void *member) {
    const syn_hw_fit_ranges *fitted = member;
    for (int32_t i = 0; i < fitted->n; i++) {
        const char *before = "{";
        syn_sink_printf(out, "%s\n      \"%s\": ", i > 0 ? "," : "{", fitted->at[i].what);
        for (int k = 0; k < SYN_HW_EXTENTS; k++) {
            const syn_hw_range *range = &fitted->at[i].range[k];
            if (range->most <= 0) continue;
            syn_sink_printf(out, "%s\"%s\": [", before, extent_names[k]);
            syn_sink_double(out, range->least);
            syn_sink_text(out, ", ");
            syn_sink_double(out, range->most);
            syn_sink_char(out, ']');
            before = ", ";
        }
        syn_sink_text(out, *before == '{' ? "{}" : "}");
    }
    syn_sink_char(out, '}');
}
