/* Adds the inputs and outputs of a cell: links from other cells of its column, outputs below it,
   and at its side inputs from outside the column. */
#include "export/picture/picture_cells.h"
#include "export/walk/graph_walk.h"

#include <stdio.h>
#include <string.h>

#include "syntorch/base/memory.h"

#define ENTER     "tp_enter"
#define MAX_SIDES 4 /* maximum tensors at the side of an op; further tensors are summarized */
#define MAX_LIST  8 /* maximum inputs or outputs of an op; more are treated as a list */

/* An input that no cell of the same column computes. */
typedef struct syn__pic_outer {
    uint32_t tensor, node, slot;
    int look;
} syn__pic_outer;

/* The cell at which an edge from the node at `producer` to cell `to` starts. UINT32_MAX: no cell of
   the same column. */
static uint32_t linkable(const syn__pic_cells *c, uint32_t producer, uint32_t to) {
    const syn__pic_unit *a = &c->plan->units[syn__pic_unit_of(c->plan, producer)];
    const syn__pic_unit *b = &c->plan->units[c->cells[to].unit];
    if (c->detail != SYN__PIC_CHUNKS && (a->step_index != b->step_index || a->phase != b->phase))
        return UINT32_MAX;
    const uint32_t from = syn__pic_cell_of(c, producer);
    if (from == UINT32_MAX || from >= to || c->cells[from].part != c->cells[to].part)
        return UINT32_MAX;
    return from;
}

static syn__pic_link *find_link(syn__pic_cells *c, size_t begin, uint32_t from, int32_t slot) {
    for (size_t i = begin; i < c->n_links; i++)
        if (c->links[i].from == from && (slot < 0 || c->links[i].slot == slot)) return &c->links[i];
    return NULL;
}

static syn_status add_link(syn__pic_cells *c, const syn__pic_link *link, const char *via,
                           syn_error *err) {
    SYN_TRY(syn_grow(&c->links, &c->links_cap, c->n_links + 1, sizeof *c->links, err));
    c->links[c->n_links] = *link;
    if (via != NULL && via[0] != '\0') {
        c->links[c->n_links].via = syn__arena_copy(&c->drawing->arena, via);
        if (c->links[c->n_links].via == NULL)
            return SYN_FAIL_NOMEM(err, strlen(via), "a label of a picture");
    }
    c->n_links++;
    return SYN_OK;
}

/* The flags of a tensor, combined with the flags of the tensors whose storage it shares: a new
   version of a state is a state, too. */
static syn_status storage_flags(syn__pic_cells *c, uint32_t tensor, uint32_t *flags,
                                syn_error *err) {
    const syn_graph_tensor *t;
    *flags = 0;
    for (int hops = 0; hops < 64; hops++) {
        SYN_TRY(syn__pic_tensor(c->plan, tensor, &t, err));
        *flags |= t->flags;
        if (t->base == tensor || t->base == SYN_NO_TENSOR) break;
        tensor = t->base;
    }
    return SYN_OK;
}

static syn_status add_outer(syn__pic_cells *c, size_t *n, const syn__pic_source *s, uint32_t node,
                            uint32_t slot, syn_error *err) {
    for (size_t i = 0; i < *n; i++)
        if (c->outers[i].tensor == s->tensor) return SYN_OK;
    uint32_t flags;
    SYN_TRY(storage_flags(c, s->tensor, &flags, err));
    const int look = (flags & SYN_TENSOR_PARAM) != 0   ? SYN__PIC_PARAM
                     : (flags & SYN_TENSOR_STATE) != 0 ? SYN__PIC_STATE
                     : s->node != SYN_NO_NODE          ? SYN__PIC_ELSEWHERE
                                                       : SYN__PIC_INPUT;
    SYN_TRY(syn_grow(&c->outers, &c->outers_cap, *n + 1, sizeof *c->outers, err));
    c->outers[(*n)++] = (syn__pic_outer){s->tensor, node, slot, look};
    return SYN_OK;
}

static int look_of_output(uint32_t flags) {
    return (flags & SYN_TENSOR_PARAM) != 0   ? SYN__PIC_PARAM
           : (flags & SYN_TENSOR_STATE) != 0 ? SYN__PIC_STATE
                                             : SYN__PIC_ACTIVATION;
}

/* Finds the pill of cell `from` that shows the output `s`. *slot: index among the outputs of the
   cell. */
static syn_status out_pill(syn__pic_cells *c, uint32_t from, const syn__pic_source *s,
                           int32_t *slot, syn_error *err) {
    uint32_t flags;
    const syn__pic_cell *cell = &c->cells[from];
    *slot = (int32_t)s->slot;
    if (!cell->sums) return SYN_OK;
    SYN_TRY(storage_flags(c, s->tensor, &flags, err));
    for (*slot = (int32_t)cell->n_outs - 1; *slot > 0; --*slot)
        if (c->pills[cell->first_out + (uint32_t)*slot].look == look_of_output(flags)) break;
    return SYN_OK;
}

/* For an op with a list of inputs, finds the last cell that computes one of them. Only this cell is
   linked, because the other inputs are ready earlier. */
static syn_status last_maker(syn__pic_cells *c, uint32_t to, uint32_t node, uint32_t n_inputs,
                             uint32_t *last, syn_error *err) {
    *last = UINT32_MAX;
    for (uint32_t slot = 0; n_inputs > MAX_LIST && slot < n_inputs; slot++) {
        syn__pic_source s;
        SYN_TRY(syn__pic_resolve(c->plan, node, slot, &s, NULL, err));
        const uint32_t from = s.node != SYN_NO_NODE ? linkable(c, s.node, to) : UINT32_MAX;
        if (from != UINT32_MAX && (*last == UINT32_MAX || from > *last)) *last = from;
    }
    return SYN_OK;
}

/* Adds links for the inputs of one node of cell `to`, and adds its inputs from outside the column
   to the list of outer tensors. */
static syn_status node_inputs(syn__pic_cells *c, uint32_t to, uint32_t node, size_t links,
                              size_t *n_outer, syn_error *err) {
    const syn_node *n;
    syn__pic_text via;
    SYN_TRY(syn__pic_node(c->plan, node, &c->plan->cursor, &n, err));
    const uint32_t n_inputs = n->n_inputs;
    uint32_t last;
    SYN_TRY(last_maker(c, to, node, n_inputs, &last, err));
    for (uint32_t slot = 0; slot < n_inputs; slot++) {
        syn__pic_source s;
        syn__pic_clear(&via);
        SYN_TRY(syn__pic_resolve(c->plan, node, slot, &s, &via, err));
        uint32_t from = UINT32_MAX;
        if (s.node != SYN_NO_NODE) {
            const uint32_t cell = syn__pic_cell_of(c, s.node);
            if (cell == to && c->cells[to].first != c->cells[to].last) continue;
            from = linkable(c, s.node, to);
        }
        if (from == UINT32_MAX || (last != UINT32_MAX && from != last)) {
            /* At full detail the tensor is drawn, and its pill already says where it comes from. */
            const bool cut = c->cells[to].detail != SYN__PIC_FULL && syn__pic_is_cut(c, s.node, to);
            SYN_TRY(cut ? syn__pic_cut_link(c, s.node, to, SYN__PIC_DATA, err)
                        : add_outer(c, n_outer, &s, node, slot, err));
            continue;
        }
        const bool full = c->cells[to].detail == SYN__PIC_FULL;
        syn__pic_link link = {.from = from, .to = to, .slot = -1, .main = true};
        if (full && c->cells[from].repeats == 0) SYN_TRY(out_pill(c, from, &s, &link.slot, err));
        if (c->cells[from].sums) syn__pic_clear(&via);
        if (!full && find_link(c, links, from, -1) != NULL) continue;
        if (full && via.n == 0 && find_link(c, links, from, link.slot) != NULL) continue;
        const bool enters = c->cells[to].detail == SYN__PIC_OPS && strstr(via.s, ENTER) != NULL;
        SYN_TRY(add_link(c, &link, full ? via.s : enters ? ENTER : NULL, err));
    }
    return SYN_OK;
}

/* Adds links for dependencies without a tensor. Dependencies that only express the order of a
   stream or group (`weak`) are drawn only if no other link leads to the cell. */
static syn_status node_deps(syn__pic_cells *c, uint32_t to, uint32_t node, size_t links, bool weak,
                            syn_error *err) {
    const syn_node *n, *d;
    SYN_TRY(syn__pic_node(c->plan, node, &c->plan->cursor, &n, err));
    for (uint32_t i = 0; i < n->n_deps; i++) {
        const uint32_t cls = n->deps[i].dep_class;
        if ((cls == SYN_DEP_STREAM || cls == SYN_DEP_GROUP) != weak) continue;
        if (cls == SYN_DEP_DATA && n->n_inputs > 0) continue;
        const uint32_t place = syn__pic_place_of(c->plan, n->deps[i].node);
        SYN_TRY(syn__pic_node(c->plan, place, &c->plan->other, &d, err));
        const bool drawn = syn__pic_is_drawn(d);
        const uint32_t from = drawn ? linkable(c, place, to) : UINT32_MAX;
        if (drawn && syn__pic_is_cut(c, place, to))
            SYN_TRY(syn__pic_cut_link(c, place, to,
                                      cls == SYN_DEP_DATA ? SYN__PIC_DATA : SYN__PIC_ORDER, err));
        if (from == UINT32_MAX || find_link(c, links, from, -1) != NULL) continue;
        const syn__pic_link link = {.from = from,
                                    .to = to,
                                    .slot = -1,
                                    .main = cls == SYN_DEP_DATA,
                                    .line = cls == SYN_DEP_DATA ? SYN__PIC_DATA : SYN__PIC_ORDER};
        SYN_TRY(add_link(c, &link, NULL, err));
    }
    return SYN_OK;
}

static syn_status add_pill(syn__pic_cells *c, const syn__pic_pill *pill, syn_error *err) {
    SYN_TRY(syn_grow(&c->pills, &c->pills_cap, c->n_pills + 1, sizeof *c->pills, err));
    c->pills[c->n_pills++] = *pill;
    if (c->n_pills + c->n_cells > SYN__PIC_MAX_BOXES) c->too_many = true;
    return SYN_OK;
}

/* Adds one pill for the outer tensors [i, n) with this look (all looks if it is negative): "12
   parameters, 1.2 MiB". */
static syn_status sum_pill(syn__pic_cells *c, size_t i, size_t n, int look, syn_error *err) {
    uint32_t count = 0;
    uint64_t bytes = 0;
    char size[SYN__PIC_NUMBER];
    syn__pic_text text;
    const syn_graph_tensor *t;
    for (; i < n; i++) {
        if (look >= 0 && c->outers[i].look != look) continue;
        SYN_TRY(syn__pic_tensor(c->plan, c->outers[i].tensor, &t, err));
        bytes += syn_spec_bytes(&t->spec);
        count++;
    }
    if (count == 0) return SYN_OK;
    static const char *const nouns[][2] = {{"tensor", "tensors"},
                                           {"parameter", "parameters"},
                                           {"input", "inputs"},
                                           {"state", "states"},
                                           {"tensor", "tensors"}};
    const int noun = look < 0 ? 0 : look - SYN__PIC_ACTIVATION;
    syn__pic_clear(&text);
    syn__pic_put(&text, "%s%u %s", look < 0 ? "+ " : "", count, nouns[noun][count > 1]);
    syn__pic_pill pill = {
        .tensor = SYN_NO_TENSOR, .count = count, .look = look < 0 ? c->outers[n - 1].look : look};
    pill.name = pill.tip = syn__arena_copy(&c->drawing->arena, text.s);
    pill.detail = syn__arena_copy(&c->drawing->arena, syn__pic_bytes(bytes, size));
    if (pill.name == NULL || pill.detail == NULL)
        return SYN_FAIL_NOMEM(err, text.n, "a label of a picture");
    return add_pill(c, &pill, err);
}

static syn_status side_pills(syn__pic_cells *c, uint32_t cell, size_t n, syn_error *err) {
    c->cells[cell].first_side = (uint32_t)c->n_pills;
    const syn__pic_detail detail = c->cells[cell].detail;
    if (detail != SYN__PIC_FULL || n > MAX_LIST) {
        /* The label of a single op already shows its shard of a parameter. */
        const bool op = detail == SYN__PIC_OPS && c->cells[cell].repeats == 0;
        for (int look = SYN__PIC_PARAM; look <= SYN__PIC_ELSEWHERE && detail <= SYN__PIC_RUNS;
             look++)
            if (!op || (look != SYN__PIC_PARAM && look != SYN__PIC_STATE))
                SYN_TRY(sum_pill(c, 0, n, look, err));
    } else {
        const size_t single = n <= MAX_SIDES ? n : MAX_SIDES - 1;
        for (size_t i = 0; i < single; i++) {
            const syn__pic_outer *o = &c->outers[i];
            syn__pic_pill pill = {.tensor = o->tensor, .count = 1, .look = o->look};
            SYN_TRY(syn__pic_label_pill(c, &pill, o->node, false, o->slot, o->tensor, err));
            SYN_TRY(add_pill(c, &pill, err));
        }
        if (single < n) SYN_TRY(sum_pill(c, single, n, -1, err));
    }
    c->cells[cell].n_sides = (uint32_t)c->n_pills - c->cells[cell].first_side;
    return SYN_OK;
}

/* Adds one pill for each look of the outputs. The first n_outer outer tensors are inputs of the
   cell. */
static syn_status out_sums(syn__pic_cells *c, uint32_t cell, size_t n_outer, uint32_t n_outputs,
                           syn_error *err) {
    const syn_node *n;
    const uint32_t node = c->cells[cell].first;
    SYN_TRY(syn_grow(&c->outers, &c->outers_cap, n_outer + n_outputs, sizeof *c->outers, err));
    for (uint32_t slot = 0; slot < n_outputs; slot++) {
        uint32_t flags;
        SYN_TRY(syn__pic_node(c->plan, node, &c->plan->cursor, &n, err));
        const uint32_t tensor = n->outputs[slot];
        SYN_TRY(storage_flags(c, tensor, &flags, err));
        c->outers[n_outer + slot] = (syn__pic_outer){tensor, node, slot, look_of_output(flags)};
    }
    for (int look = SYN__PIC_ACTIVATION; look <= SYN__PIC_STATE; look++)
        SYN_TRY(sum_pill(c, n_outer, n_outer + n_outputs, look, err));
    return SYN_OK;
}

static syn_status out_pills(syn__pic_cells *c, uint32_t cell, size_t n_outer, syn_error *err) {
    const uint32_t node = c->cells[cell].first;
    const syn_node *n;
    c->cells[cell].first_out = (uint32_t)c->n_pills;
    if (c->cells[cell].detail != SYN__PIC_FULL || c->cells[cell].repeats > 0) return SYN_OK;
    SYN_TRY(syn__pic_node(c->plan, node, &c->plan->cursor, &n, err));
    const uint32_t n_outputs = n->n_outputs;
    c->cells[cell].sums = n_outputs > MAX_LIST;
    if (n_outputs > MAX_LIST) SYN_TRY(out_sums(c, cell, n_outer, n_outputs, err));
    for (uint32_t slot = 0; slot < n_outputs && n_outputs <= MAX_LIST; slot++) {
        uint32_t flags;
        SYN_TRY(syn__pic_node(c->plan, node, &c->plan->cursor, &n, err));
        const uint32_t tensor = n->outputs[slot];
        SYN_TRY(storage_flags(c, tensor, &flags, err));
        syn__pic_pill pill = {.tensor = tensor, .count = 1, .look = look_of_output(flags)};
        SYN_TRY(syn__pic_label_pill(c, &pill, node, true, slot, tensor, err));
        SYN_TRY(add_pill(c, &pill, err));
    }
    c->cells[cell].n_outs = (uint32_t)c->n_pills - c->cells[cell].first_out;
    return SYN_OK;
}

syn_status syn__pic_finish_cell(syn__pic_cells *c, uint32_t cell, syn_error *err) {
    const size_t links = c->n_links, cut_ends = c->n_cut_ends;
    size_t n_outer = 0;
    const uint32_t first = c->cells[cell].first, last = c->cells[cell].last;
    for (int pass = 0; pass < 3; pass++) {
        if (pass == 2 && (c->n_links > links || n_outer > 0 || c->n_cut_ends > cut_ends)) break;
        for (uint32_t i = first; i <= last; i++) {
            const syn_node *n;
            SYN_TRY(syn__pic_node(c->plan, i, &c->plan->cursor, &n, err));
            if (!syn__pic_is_drawn(n)) continue;
            if (pass == 0) SYN_TRY(node_inputs(c, cell, i, links, &n_outer, err));
            else SYN_TRY(node_deps(c, cell, i, links, pass == 2, err));
        }
    }
    SYN_TRY(syn__pic_label_cell(c, &c->cells[cell], err));
    SYN_TRY(out_pills(c, cell, n_outer, err));
    return side_pills(c, cell, n_outer, err);
}
