/* Makes the labels and tooltips of ops, and of boxes with several ops. */
#include "export/picture/picture_cells.h"
#include "export/walk/graph_walk.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "syntorch/base/memory.h"

#define DOT   " \xC2\xB7 "   /* a middle dot */
#define TO    "\xE2\x80\xA6" /* ellipsis */
#define GREY  "#4a5560"
#define GREEN "#1f5a24"

int syn__pic_look_of(const syn_node *node) {
    if (node->kind == SYN_NODE_COLLECTIVE) return SYN__PIC_COLLECTIVE;
    if (node->kind == SYN_NODE_SEND || node->kind == SYN_NODE_RECV) return SYN__PIC_MESSAGE;
    if (node->kind == SYN_NODE_MEMORY) return SYN__PIC_MEMORY;
    return SYN__PIC_OP + (int)node->category;
}

const char *syn__pic_node_name(const syn_node *node, char buf[SYN__PIC_ID_BYTES]) {
    if (!syn__pic_is_blank(node->label)) return node->label;
    if (!syn__pic_is_blank(node->op)) return node->op;
    snprintf(buf, SYN__PIC_ID_BYTES, "o%" PRIu64, node->id);
    return buf;
}

/* Writes a group as "tp0 {0,1}" or "tp0 {0…7}". */
static void put_group(syn__pic_text *t, const syn_graph *graph, uint32_t group) {
    const syn_graph_group *g = syn_graph_group_by_id(graph, group);
    if (g == NULL) return;
    char name[256];
    if (g->name != NULL && !syn__pic_is_blank(g->name))
        syn__pic_put_clean(t, syn__pic_shorten(g->name, 60, name, sizeof name));
    else syn__pic_put(t, "group %u", group);
    syn__pic_put(t, " {");
    for (uint32_t i = 0; i < g->n_ranks; i++) {
        if (g->n_ranks > 6 && i == 3) {
            syn__pic_put(t, "," TO);
            i = g->n_ranks - 1;
        }
        syn__pic_put(t, i > 0 ? ",%d" : "%d", g->ranks[i]);
    }
    syn__pic_put(t, "}");
}

/* Writes a group; if its box also represents other groups, as "tp0 {0,1,2,3} and 31 similar". */
void syn__pic_put_groups(syn__pic_text *t, const syn__pic_plan *plan, uint32_t group) {
    const syn_graph_group *g = syn_graph_group_by_id(plan->graph, group);
    put_group(t, plan->graph, group);
    const uint32_t n =
        g != NULL && plan->n_similar != NULL ? plan->n_similar[g - plan->graph->groups] : 0;
    if (n == SYN__PIC_SOME) syn__pic_put(t, " and others");
    else if (n > 0) syn__pic_put(t, " and %u similar", n);
}

/* ---- Ops ---- */

syn_status syn__pic_keep(syn__arena *arena, const syn__pic_text *t, const char **out,
                         syn_error *err) {
    *out = syn__arena_copy(arena, t->s);
    if (*out == NULL) return SYN_FAIL_NOMEM(err, t->n + 1, "a label of a picture");
    return SYN_OK;
}

void syn__pic_put_stands_for(syn__pic_text *t, const syn__pic_plan *plan, uint32_t node) {
    const syn__pic_unit *u = &plan->units[syn__pic_unit_of(plan, node)];
    const uint32_t steps = plan->steps[u->step_index].count;
    if (u->count > 1) syn__pic_put(t, "\nrepresents %u layers", u->count);
    if (steps > 1) syn__pic_put(t, "\nrepresents %u steps", steps);
}

void syn__pic_put_measured(syn__pic_text *t, const syn__pic_cost *c) {
    char buf[SYN__PIC_NUMBER];
    syn__pic_put(t, "%s", syn__pic_time(c->busy, buf));
    if (c->wait > 0) syn__pic_put(t, ", +%s wait", syn__pic_time(c->wait, buf));
}

/* Writes the measured time or, if there is none, "~" and the predicted time. Writes nothing if
   there is neither. Puts a separator before the time if the text already has properties, that is,
   if it is longer than `info`. */
void syn__pic_put_time(syn__pic_text *t, size_t info, const syn__pic_cost *c) {
    char buf[SYN__PIC_NUMBER];
    if (c->busy == SYN_NO_TIME && c->predicted == SYN_NO_TIME) return;
    if (t->n > info) syn__pic_put(t, DOT);
    if (c->busy != SYN_NO_TIME) syn__pic_put_measured(t, c);
    else syn__pic_put(t, "~%s", syn__pic_time(c->predicted, buf));
}

void syn__pic_put_cost(syn__pic_text *t, const syn__pic_cost *c) {
    char buf[SYN__PIC_NUMBER];
    syn__pic_put(t, "\ncompute: ");
    syn__pic_put_range(t, syn__pic_flops, c->flops_lo, c->flops_hi);
    syn__pic_put(t, "\nmemory traffic: ");
    syn__pic_put_range(t, syn__pic_bytes, c->bytes_lo, c->bytes_hi);
    if (c->bytes_hi > 0)
        syn__pic_put(t, "\narithmetic intensity: %.3g FLOP/byte",
                     (double)c->flops_hi / (double)c->bytes_hi);
    if (c->busy != SYN_NO_TIME) {
        syn__pic_put(t, "\nmeasured: ");
        syn__pic_put_measured(t, c);
        if (c->wait > 0) syn__pic_put(t, " for other ranks");
    }
    if (c->predicted != SYN_NO_TIME)
        syn__pic_put(t, "\npredicted: %s", syn__pic_time(c->predicted, buf));
}

void syn__pic_put_part(syn__pic_text *t, const syn_graph_tensor *tensor, const char *then) {
    char part[SYN_SHARD_TEXT];
    const bool cut = *syn_shard_text(&tensor->spec, &tensor->shard, part, sizeof part) != '\0';
    if (cut) syn__pic_put(t, "%s%s", part, then);
    else if (tensor->flags & SYN_TENSOR_PARTIAL) syn__pic_put(t, "partial sum%s", then);
}

static syn_status put_tensors(syn__pic_plan *plan, syn__pic_text *t, const char *what,
                              const uint32_t *tensors, uint32_t n, syn_error *err) {
    for (uint32_t i = 0; i < n; i++) {
        if (i == 8) {
            syn__pic_put(t, "\n%s: %u more", what, n - i);
            break;
        }
        const syn_graph_tensor *tensor;
        char spec[SYN_SPEC_TEXT], bytes[SYN__PIC_NUMBER];
        SYN_TRY(syn__pic_tensor(plan, tensors[i], &tensor, err));
        syn__pic_put(t, "\n%s: ", what);
        syn__pic_put_clean(t, tensor->name);
        syn__pic_put(t, " %s, ", syn_spec_text(&tensor->spec, spec, sizeof spec));
        syn__pic_put_part(t, tensor, ", ");
        syn__pic_put(t, "%s", syn__pic_bytes(syn_spec_bytes(&tensor->spec), bytes));
    }
    return SYN_OK;
}

static void put_attributes(syn__pic_text *t, const syn_node *node) {
    char value[128];
    for (uint32_t i = 0; i < node->n_attributes; i++) {
        syn__pic_put(t, i == 0 ? "\n" : ", ");
        syn__pic_put_clean(t, node->attributes[i].name);
        syn__pic_put(t, " ");
        syn__pic_put_clean(t, syn_attribute_text(&node->attributes[i], value, sizeof value));
    }
}

static syn_status node_tip(syn__pic_plan *plan, syn__pic_text *t, uint32_t index,
                           const syn__pic_cost *c, syn_error *err) {
    const syn_node *n;
    SYN_TRY(syn__pic_node(plan, index, &plan->cursor, &n, err));
    syn__pic_put(t, "r%d.o%" PRIu64 "  ", plan->graph->ranks[plan->rank].rank, n->id);
    syn__pic_put_clean(t, n->scope);
    if (n->scope[0] != '\0') syn__pic_put(t, "/");
    syn__pic_put_clean(t, n->label);
    syn__pic_put(t, "\nop: ");
    syn__pic_put_clean(t, n->op);
    syn__pic_put(t, " (%s%s)", syn_category_name(n->category),
                 (n->flags & SYN_NODE_FUSED) != 0 ? ", fused" : "");
    if (!syn__walk_is_foreign(plan->graph))
        syn__pic_put(t, ", %s, step %u", syn_phase_name(n->phase), n->step);
    syn__pic_put_stands_for(t, plan, index);
    SYN_TRY(put_tensors(plan, t, "in", n->inputs, n->n_inputs, err));
    SYN_TRY(put_tensors(plan, t, "out", n->outputs, n->n_outputs, err));
    put_attributes(t, n);
    if (syn__walk_is_comm(n)) {
        syn__pic_put(t, "\ngroup: ");
        syn__pic_put_groups(t, plan, n->group);
        syn__pic_put(t, "\npayload of this rank: ");
        syn__pic_put_range(t, syn__pic_bytes, c->comm_lo, c->comm_hi);
        if (n->kind != SYN_NODE_COLLECTIVE)
            syn__pic_put(t, "\npeer: rank %d, tag %d", n->peer, n->tag);
    }
    syn__pic_put_cost(t, c);
    return SYN_OK;
}

/* Writes the input of a collective, such as "f32[1,16,768]", in views that do not draw tensors. */
syn_status syn__pic_put_payload(syn__pic_text *t, syn__pic_plan *plan, uint32_t node,
                                const syn_node *n, syn_error *err) {
    syn__pic_range range;
    if (!plan->spans_ranks || n->kind != SYN_NODE_COLLECTIVE || n->n_inputs == 0) return SYN_OK;
    if (n->n_inputs > 1) {
        syn__pic_put(t, "%u tensors" DOT, n->n_inputs);
        return SYN_OK;
    }
    SYN_TRY(syn__pic_range_of(plan, node, false, 0, &range, err));
    syn__pic_put_spec(t, &range);
    syn__pic_put(t, DOT);
    return SYN_OK;
}

/* Writes the second line of an op's box. */
static void put_metadata(syn__pic_text *t, const syn__pic_plan *plan, const syn_node *n,
                         const syn__pic_cost *c) {
    const syn_graph *graph = plan->graph;
    const size_t begin = t->n;
    if (n->kind == SYN_NODE_COLLECTIVE) {
        syn__pic_put_groups(t, plan, n->group);
        if (syn_graph_group_by_id(graph, n->group) != NULL) syn__pic_put(t, DOT);
        syn__pic_put_range(t, syn__pic_bytes, c->comm_lo, c->comm_hi);
    } else if (syn__walk_is_comm(n)) {
        syn__pic_put(t, "%s rank %d" DOT, n->kind == SYN_NODE_SEND ? "to" : "from", n->peer);
        syn__pic_put_range(t, syn__pic_bytes, c->comm_lo, c->comm_hi);
    } else if (c->flops_hi > 0) {
        syn__pic_put_range(t, syn__pic_flops, c->flops_lo, c->flops_hi);
    } else if (c->bytes_hi > 0 || c->busy == SYN_NO_TIME) {
        syn__pic_put_range(t, syn__pic_bytes, c->bytes_lo, c->bytes_hi);
        syn__pic_put(t, " moved");
    }
    if (plan->spans_ranks && n->kind == SYN_NODE_COLLECTIVE &&
        c->wait > 0) /* each rank waits for a different time */
        syn__pic_put(t, DOT "rank %d", graph->ranks[plan->rank].rank);
    syn__pic_put_time(t, begin, c);
}

syn_status syn__pic_put_comm_info(syn__pic_plan *plan, uint32_t node, syn__pic_text *out,
                                  syn_error *err) {
    const syn_node *n;
    syn__pic_cost c;
    SYN_TRY(syn__pic_cost_of(plan, node, node, &c, err));
    SYN_TRY(syn__pic_node(plan, node, &plan->cursor, &n, err));
    syn__pic_put_groups(out, plan, n->group);
    syn__pic_put_time(out, 0, &c);
    return SYN_OK;
}

static void put_row(syn__pic_text *t, const char *text, const char *color, double *w) {
    syn__pic_put(t, "<tr><td align=\"left\"><font point-size=\"8\" color=\"%s\">", color);
    syn__pic_put_html(t, text);
    syn__pic_put(t, "</font></td></tr>");
    *w = fmax(*w, syn__pic_width(text, 8, false));
}

void syn__pic_put_op(syn__pic_text *t, const syn__pic_style *style, const char *name,
                     const char *remark, const syn__pic_node_lines *info, double *w) {
    const int rows = 2 + (info->weight[0] != '\0') + (info->result[0] != '\0');
    double width = syn__pic_width(name, 10, true);
    if (remark[0] != '\0') width += syn__pic_width(remark, 10, false) + 7;
    syn__pic_put(t,
                 "<table border=\"0\" cellborder=\"0\" cellspacing=\"0\" cellpadding=\"0\"><tr>");
    if (style->icon[0] != '\0')
        syn__pic_put(t,
                     "<td rowspan=\"%d\"><font point-size=\"15\" color=\"%s\">%s</font></td>"
                     "<td rowspan=\"%d\" width=\"6\"></td>",
                     rows, style->line, style->icon, rows);
    syn__pic_put(t, "<td align=\"left\"><b>");
    syn__pic_put_html(t, name);
    syn__pic_put(t, "</b>");
    if (remark[0] != '\0') {
        syn__pic_put(t, "<font color=\"" GREY "\">&#160;&#160;");
        syn__pic_put_html(t, remark);
        syn__pic_put(t, "</font>");
    }
    syn__pic_put(t, "</td></tr>");
    put_row(t, info->costs, GREY, &width);
    if (info->weight[0] != '\0') put_row(t, info->weight, GREEN, &width);
    if (info->result[0] != '\0') put_row(t, info->result, GREEN, &width);
    if (style->foot > 0)
        syn__pic_put(t, "<tr><td fixedsize=\"true\" width=\"1\" height=\"%g\"></td></tr>",
                     style->foot);
    syn__pic_put(t, "</table>");
    width += (style->icon[0] != '\0' ? 24 : 4) + 2 * style->pad;
    *w = width / (1 - 2 * style->slant);
}

static void put_cut(syn__pic_text *t, const char *what, const syn_graph_tensor *tensor) {
    syn__pic_put(t, "%s: ", what);
    const size_t none = t->n;
    syn__pic_put_part(t, tensor, "");
    if (t->n == none) syn__pic_clear(t);
}

/* Writes the shards of an op's weight and result, "weight: columns 0-63 of 128" and "result:
   partial sum". It is used for boxes without pills. */
static syn_status put_cuts(syn__pic_plan *plan, uint32_t node, syn__pic_text *weight,
                           syn__pic_text *result, syn_error *err) {
    const syn_node *n;
    const syn_graph_tensor *t;
    SYN_TRY(syn__pic_node(plan, node, &plan->cursor, &n, err));
    const uint32_t n_inputs = n->n_inputs, out = n->n_outputs == 1 ? n->outputs[0] : SYN_NO_TENSOR;
    for (uint32_t slot = 0; slot < n_inputs && slot < 4 && weight->n == 0; slot++) {
        syn__pic_source s;
        SYN_TRY(syn__pic_resolve(plan, node, slot, &s, NULL, err));
        SYN_TRY(syn__pic_tensor(plan, s.tensor, &t, err));
        if ((t->flags & SYN_TENSOR_PARAM) == 0 || t->spec.rank < 2) continue;
        put_cut(weight, "weight", t);
    }
    if (out == SYN_NO_TENSOR) return SYN_OK;
    SYN_TRY(syn__pic_tensor(plan, out, &t, err));
    put_cut(result, "result", t);
    return SYN_OK;
}

syn_status syn__pic_label_node(syn__pic_plan *plan, syn__arena *arena, uint32_t node, int look,
                               bool cuts, const char **label, const char **tip, double *w,
                               double *h, syn_error *err) {
    syn__pic_cost c;
    SYN_TRY(syn__pic_cost_of(plan, node, node, &c, err));
    syn__pic_text t, info;
    syn__pic_clear(&t);
    SYN_TRY(node_tip(plan, &t, node, &c, err));
    SYN_TRY(syn__pic_keep(arena, &t, tip, err));
    const syn_node *n;
    SYN_TRY(syn__pic_node(plan, node, &plan->cursor, &n, err));
    syn__pic_clear(&info);
    SYN_TRY(syn__pic_put_payload(&info, plan, node, n, err));
    put_metadata(&info, plan, n, &c);
    char id[SYN__PIC_ID_BYTES], name[128], remark[192] = "";
    syn__pic_shorten(syn__pic_node_name(n, id), 26, name, sizeof name);
    /* The remark gets the space that the name does not need. */
    const size_t used = strlen(name) < 26 ? strlen(name) : 26;
    if (strcmp(n->label, n->op) != 0 && !syn__pic_is_blank(n->label))
        syn__pic_shorten(n->op, 18 + 26 - used, remark, sizeof remark);
    if (n->reduce >= 0 && syn__walk_is_comm(n)) {
        const size_t k = strlen(remark);
        snprintf(remark + k, sizeof remark - k, "%s%s", k > 0 ? " " : "",
                 syn_reduce_name((syn_reduce)n->reduce));
    }
    const uint32_t times = syn__pic_times_of(plan, node);
    if (times > 1) snprintf(name + strlen(name), sizeof name - strlen(name), "  \xC3\x97%u", times);
    syn__pic_text weight, result;
    syn__pic_clear(&weight);
    syn__pic_clear(&result);
    if (cuts) SYN_TRY(put_cuts(plan, node, &weight, &result, err));
    syn__pic_clear(&t);
    syn__pic_put_op(&t, syn__pic_style_of(look), name, remark,
                    &(syn__pic_node_lines){info.s, weight.s, result.s}, w);
    if (*w < 96) *w = 96;
    *h = 32 + syn__pic_style_of(look)->more + 10 * ((weight.n > 0) + (result.n > 0));
    return syn__pic_keep(arena, &t, label, err);
}

/* ---- Cells ---- */

static const char *id_of(syn__arena *arena, int32_t rank, char kind, uint64_t number,
                         uint32_t serial) {
    char id[80];
    int n = snprintf(id, sizeof id, "r%d.%c%" PRIu64, rank, kind, number);
    if (serial > 0) snprintf(id + n, sizeof id - (size_t)n, ".%u", serial);
    return syn__arena_copy(arena, id);
}

/* Writes the name of a box with several ops. An empty name means that the names of the ops are
   shown instead. */
static syn_status name_run(syn__pic_cells *cells, const syn__pic_cell *cell, const char *scope,
                           syn__pic_text *name, syn_error *err) {
    const uint32_t count = cells->plan->units[cell->unit].count;
    const bool layers = cell->detail == SYN__PIC_LAYERS || cell->detail == SYN__PIC_UNITS;
    const bool alone =
        !syn__pic_shares_unit(cells, cell) && cells->plan->units[cell->unit].layer[0] != '\0';
    syn__pic_clear(name);
    if (cell->repeats > 1) {
        const uint32_t each = (cell->last - cell->first + 1) / cell->repeats;
        syn__pic_put(name, "%u \xC3\x97 ", cell->repeats);
        return syn__pic_put_names(cells->plan, cell->first, cell->first + each - 1, 40, name, err);
    }
    if (cell->detail == SYN__PIC_RUNS) syn__pic_put_clean(name, scope);
    else if (layers && alone) syn__pic_unit_title(cells->plan, cell->unit, name);
    else if (layers) return syn__pic_put_scopes(cells->plan, cell->first, cell->last, name, err);
    if (layers && alone && count > 1) syn__pic_put(name, "  \xC3\x97%u", count);
    return SYN_OK;
}

syn_status syn__pic_label_cell(syn__pic_cells *cells, syn__pic_cell *cell, syn_error *err) {
    syn__pic_plan *plan = cells->plan;
    syn__arena *arena = &cells->drawing->arena;
    const syn_node *n;
    SYN_TRY(syn__pic_node(plan, cell->first, &plan->cursor, &n, err));
    const bool adds = n->category == SYN_CATEGORY_ELEMENTWISE &&
                      (strstr(n->op, "add") != NULL || strstr(n->label, "residual") != NULL);
    cell->id = id_of(arena, plan->graph->ranks[plan->rank].rank, 'o', n->id, 0);
    if (cell->id == NULL) return SYN_FAIL_NOMEM(err, 32, "an id of a picture");
    if (cell->first == cell->last) {
        cell->look = syn__pic_look_of(n);
        cell->adds = adds;
        return syn__pic_label_node(plan, arena, cell->first, cell->look,
                                   cell->detail == SYN__PIC_OPS, &cell->label, &cell->tip, &cell->w,
                                   &cell->h, err);
    }
    syn__pic_text name;
    SYN_TRY(name_run(cells, cell, n->scope, &name, err));
    cell->look = SYN__PIC_RUN;
    return syn__pic_label_run(plan, arena, cell->first, cell->last, name.s, 0, &cell->label,
                              &cell->tip, &cell->w, &cell->h, err);
}
