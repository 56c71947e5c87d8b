/* Traces as a syn_graph (syn_trace_graph). Rows are converted to nodes on access, and nothing is
   copied except into cursors. Three things are computed when the view is created: the dependencies
   that inputs do not imply (overwritten storage), the comm_index of each collective and message,
   and the shards of tensors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "syntorch/base/memory.h"
#include "syntorch/base/number.h"
#include "syntorch/graph/extents.h"
#include "syntorch/hardware/hardware_private.h"
#include "syntorch/trace.h"
#include "syntorch/trace_private.h"

/* One rank of the view. */
struct view {
    const syn_trace *trace;
    struct pair {
        uint32_t node, value; /* node rows, which count from 1 */
        /* Ascending by node. inplace: (node, an earlier node for which it must wait). comms: (node,
           its comm_index). */
    } * inplace, *comms;
    size_t n_inplace, inplace_cap, n_comms, comms_cap;
    syn__trace_shards parts;
};

struct shared {
    struct view *views;
    const syn_hardware *hw;
    char *names; /* all attribute names, each NUL-terminated */
    const char *attr_names[SYN_OP_COUNT][SYN_MAX_ATTRS];
    char attr_types[SYN_OP_COUNT][SYN_MAX_ATTRS];
};

/* The index of the first of n pairs whose node is `node` or higher. */
static size_t lower_bound(const struct pair *pairs, size_t n, uint32_t node) {
    size_t low = 0;
    while (n > 0) {
        const size_t half = n / 2;
        if (pairs[low + half].node < node) {
            low += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return low;
}

static syn_status push(struct pair **pairs, size_t *n, size_t *cap, uint32_t node, uint32_t value,
                       syn_error *err) {
    SYN_TRY(syn_grow(pairs, cap, *n + 1, sizeof **pairs, err));
    (*pairs)[(*n)++] = (struct pair){node, value};
    return SYN_OK;
}

/* ---- Built once per view ---- */

/* The state of find_inplace. Each storage that is overwritten anywhere in the trace has a list of
   the nodes that have used its current version. The lists are linked lists in `links`. */
struct users {
    struct pair *links; /* (node that used the storage, previous link + 1) */
    size_t n_links, links_cap;
    uint32_t *heads; /* by storage: last link + 1 */
    unsigned char *overwritten;
};

/* Adds dependencies of a node that overwrites a storage on all nodes that have used the current
   version. */
static syn_status wait_for_users(struct view *v, struct users *u, uint32_t node, uint32_t base,
                                 syn_error *err) {
    for (uint32_t at = u->heads[base]; at; at = u->links[at - 1].value)
        SYN_TRY(
            push(&v->inplace, &v->n_inplace, &v->inplace_cap, node, u->links[at - 1].node, err));
    u->heads[base] = 0;
    return SYN_OK;
}

/* Adds a node to the users of its inputs' storages. Storages that are not overwritten anywhere in
   the trace are skipped. */
static syn_status add_users(struct view *v, struct users *u, uint32_t node, syn_error *err) {
    const syn_trace *t = v->trace;
    const syn_trace_node *n = &t->nodes[node];
    const uint32_t versions = (uint32_t)syn_trace_versions(t, n);
    for (uint32_t k = 0; k < n->n_in; k++) {
        const uint32_t base = t->tensors[t->inputs[n->first_in + k]].base;
        if (!u->overwritten[base]) continue;
        if (k < versions) SYN_TRY(wait_for_users(v, u, node, base, err));
        SYN_TRY(push(&u->links, &u->n_links, &u->links_cap, node, u->heads[base], err));
        u->heads[base] = (uint32_t)u->n_links;
    }
    return SYN_OK;
}

/* Finds the dependencies of ops that overwrite a storage, in one pass. Such an op waits for the
   readers of the old version. It also waits for the writer of the old version, unless it already
   depends on the writer through an input. */
static syn_status find_inplace(struct view *v, syn_error *err) {
    const syn_trace *t = v->trace;
    struct users u = {.heads = syn_calloc(t->n_tensors, sizeof *u.heads),
                      .overwritten = syn_calloc(t->n_tensors, 1)};
    syn_status s = u.heads && u.overwritten
                       ? SYN_OK
                       : SYN_FAIL_NOMEM(err, t->n_tensors * 5, "the graph view of a trace");
    for (uint32_t i = 1; i < t->n_nodes && s == SYN_OK; i++)
        for (int k = 0; k < syn_trace_versions(t, &t->nodes[i]); k++)
            u.overwritten[t->tensors[t->nodes[i].first_out + (uint32_t)k].base] = 1;
    for (uint32_t i = 1; i < t->n_nodes && s == SYN_OK; i++)
        if (!(syn_trace_op(t, &t->nodes[i])->flags & SYN_OPF_VIEW)) s = add_users(v, &u, i, err);
    syn_free(u.links);
    syn_free(u.heads);
    syn_free(u.overwritten);
    return s;
}

/* Computes the comm_index of all collectives and messages. */
static syn_status number_comms(struct view *v, syn_error *err) {
    const syn_trace *t = v->trace;
    uint32_t *next = syn_calloc(t->n_groups + 1, sizeof *next);
    if (!next) return SYN_FAIL_NOMEM(err, t->n_groups * sizeof *next, "the graph view of a trace");
    syn_status s = SYN_OK;
    for (uint32_t i = 1; i < t->n_nodes && s == SYN_OK; i++)
        if (syn_trace_op(t, &t->nodes[i])->flags & SYN_OPF_COMM)
            s = push(&v->comms, &v->n_comms, &v->comms_cap, i, next[t->nodes[i].group]++, err);
    syn_free(next);
    return s;
}

/* Splits the attribute lists of all ops ("axis:i scale:f") into names and types. ops: the op table;
   NULL if no trace has a node. */
static syn_status split_attrs(struct shared *sh, const syn_opdef *ops, syn_error *err) {
    size_t bytes = 1;
    if (!ops) return SYN_OK;
    for (int op = 0; op < SYN_OP_COUNT; op++) bytes += strlen(ops[op].attrs) + 1;
    char *to = sh->names = syn_malloc(bytes);
    if (!to) return SYN_FAIL_NOMEM(err, bytes, "attribute names");
    for (int op = 0; op < SYN_OP_COUNT; op++) {
        const char *from = ops[op].attrs;
        for (int i = 0; *from && i < SYN_MAX_ATTRS; i++) {
            sh->attr_names[op][i] = to;
            while (*from != ':') *to++ = *from++;
            *to++ = '\0';
            sh->attr_types[op][i] = from[1];
            from += from[2] ? 3 : 2;
        }
    }
    return SYN_OK;
}

/* ---- Nodes ---- */

static int compare_deps(const void *a, const void *b) {
    const syn_dep *x = a, *y = b;
    if (x->node != y->node) return x->node < y->node ? -1 : 1;
    return x->dep_class < y->dep_class ? -1 : x->dep_class > y->dep_class;
}

/* Lists the dependencies of a node, ascending and each node once: the producers of its inputs and,
   if it overwrites a storage, the earlier users of this storage. */
static syn_status fill_deps(const struct view *v, uint32_t id, syn_cursor *cur) {
    const syn_trace *t = v->trace;
    const syn_trace_node *n = &t->nodes[id];
    size_t first = v->n_inplace ? lower_bound(v->inplace, v->n_inplace, id) : 0, last = first;
    while (last < v->n_inplace && v->inplace[last].node == id) last++;
    SYN_TRY(syn_grow(&cur->deps, &cur->deps_cap, n->n_in + (last - first), sizeof *cur->deps,
                     &cur->error));
    uint32_t k = 0;
    for (uint32_t i = 0; i < n->n_in; i++) {
        const uint32_t producer = t->tensors[t->inputs[n->first_in + i]].producer;
        if (producer) cur->deps[k++] = (syn_dep){producer - 1, SYN_DEP_DATA};
    }
    for (; first < last; first++)
        cur->deps[k++] = (syn_dep){v->inplace[first].value - 1, SYN_DEP_INPLACE};
    if (k > 1) qsort(cur->deps, k, sizeof *cur->deps, compare_deps);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < k; i++) /* if a node is listed in two classes, keep the first, which is
                                        DATA */
        if (kept == 0 || cur->deps[kept - 1].node != cur->deps[i].node)
            cur->deps[kept++] = cur->deps[i];
    cur->node.deps = cur->deps;
    cur->node.n_deps = kept;
    return SYN_OK;
}

/* Appends text to a buffer of a cursor and cuts it at the end of the buffer. printf is not used,
   because names are built on every access and it would take most of the time of reading a large
   trace. */
struct writing {
    char *at, *end; /* end: position of the final NUL */
};

static void append_text(struct writing *w, const char *text) {
    const size_t left = (size_t)(w->end - w->at), bytes = strlen(text);
    const size_t n = bytes < left ? bytes : left;
    memcpy(w->at, text, n);
    w->at += n;
    *w->at = '\0';
}

static void append_i64(struct writing *w, int64_t value) {
    char text[SYN_DECIMAL_TEXT + 2], *end = text + sizeof text - 1;
    *end = '\0';
    char *first = syn_decimal(value < 0 ? 0 - (uint64_t)value : (uint64_t)value, end);
    if (value < 0) *--first = '-';
    append_text(w, first);
}

/* Appends a list attribute, a count and its entries, as text. Returns the number of entries. */
static int64_t append_list(struct writing *to, const syn_attr *list) {
    for (int64_t k = 1; k <= list->i; k++) {
        if (k > 1) append_text(to, ",");
        append_i64(to, list[k].i);
    }
    return list->i;
}

/* Converts the op's attributes, except those of type 'c' (communication), which become fields of
   the node. Lists become text, which is in cur->text until the cursor moves. A call may have unused
   values after the last list. */
static syn_status fill_attributes(const struct shared *sh, const syn_call *call, uint32_t op,
                                  syn_cursor *cur) {
    syn_node *node = &cur->node;
    const size_t most = (size_t)call->n_attr * (SYN_DECIMAL_TEXT + 2) + 1;
    const syn_attr *at = call->attr, *end = at + call->n_attr;
    struct writing text = {NULL, NULL};
    node->attributes = cur->attributes;
    for (int i = 0; at < end && i < SYN_MAX_ATTRS && sh->attr_names[op][i]; i++, at++) {
        const char type = sh->attr_types[op][i];
        syn_attribute *a = &cur->attributes[node->n_attributes];
        *a = (syn_attribute){.name = sh->attr_names[op][i], .type = SYN_VALUE_I64};
        if (type == 'c') continue;
        node->n_attributes++;
        if (type == 'f') {
            a->type = SYN_VALUE_F64;
            a->f64 = at->f;
        } else if (type == 'l') {
            SYN_TRY(syn_grow(&cur->text, &cur->text_cap, most, 1, &cur->error));
            if (!text.at) text = (struct writing){cur->text, cur->text + most - 1};
            else text.at++; /* after the NUL of the list before it */
            a->type = SYN_VALUE_TEXT;
            a->text = text.at;
            *text.at = '\0';
            at += append_list(&text, at);
        } else {
            a->i64 = at->i;
        }
    }
    return SYN_OK;
}

static syn_node_kind kind_of(const syn_opdef *def) {
    if (def->comm == SYN_COMM_SEND) return SYN_NODE_SEND;
    if (def->comm == SYN_COMM_RECV) return SYN_NODE_RECV;
    return def->comm != SYN_COMM_NONE ? SYN_NODE_COLLECTIVE : SYN_NODE_COMPUTE;
}

/* The value of a communication attribute; `other` if the op does not have the attribute. */
static int64_t comm_attr(const struct shared *sh, const syn_call *call, uint32_t op,
                         const char *name, int64_t other) {
    for (int i = 0; i < call->n_attr && sh->attr_names[op][i]; i++)
        if (sh->attr_types[op][i] == 'c' && strcmp(sh->attr_names[op][i], name) == 0)
            return call->attr[i].i;
    return other;
}

/* The bytes that a rank contributes: of an all-gather its part, of a reduce-scatter all parts with
   their padding, of an all-to-all the most rows that a rank of the group sends or receives,
   otherwise all inputs. A receive has no input; its output counts. */
static uint64_t payload_bytes(const struct shared *sh, const syn_call *call, uint32_t op) {
    const syn_operand *payload = call->n_in ? call->in : call->out;
    const int n = call->n_in ? call->n_in : call->n_out;
    uint64_t bytes = 0;
    if (call->def->comm == SYN_COMM_ALL_GATHER) return syn_spec_bytes(&payload[n - 1].spec);
    if (call->def->comm == SYN_COMM_REDUCE_SCATTER)
        return syn_spec_bytes(&call->out[0].spec) * (uint64_t)call->group->size;
    if (call->def->comm == SYN_COMM_ALL_TO_ALL) {
        const int64_t most = comm_attr(sh, call, op, "most", 0),
                      row_bytes = comm_attr(sh, call, op, "row_bytes", 0);
        syn_spec rows = payload->spec;
        rows.dims[0] = most;
        return row_bytes > 0 ? (uint64_t)(most * row_bytes) : syn_spec_bytes(&rows);
    }
    for (int i = 0; i < n; i++) bytes += syn_spec_bytes(&payload[i].spec);
    return bytes;
}

static void fill_comm(const struct shared *sh, const struct view *v, uint32_t id,
                      const syn_call *call, syn_node *node) {
    const uint32_t op = v->trace->nodes[id].op;
    node->comm = call->def->comm;
    node->group = call->group ? call->group->id : 0;
    node->comm_bytes = payload_bytes(sh, call, op);
    node->comm_index = v->comms[lower_bound(v->comms, v->n_comms, id)].value;
    node->reduce = (int32_t)comm_attr(sh, call, op, "reduce", -1);
    node->peer = (int32_t)comm_attr(sh, call, op, "peer", -1);
    node->tag = (int32_t)comm_attr(sh, call, op, "tag", -1);
    if (call->def->comm == SYN_COMM_SEND || call->def->comm == SYN_COMM_RECV)
        node->stream = syn_message_stream(node->peer, call->def->comm == SYN_COMM_SEND);
    const int64_t root = comm_attr(sh, call, op, "root", -1);
    node->root = root >= 0 && call->group ? call->group->ranks[root] : -1;
}

static void fill_times(const struct view *v, uint32_t id, syn_node *node) {
    node->start_ns = node->wall_ns = node->cpu_ns = node->wait_ns = node->predicted_ns =
        SYN_NO_TIME;
    if (!v->trace->times || (node->flags & SYN_NODE_VIRTUAL)) return;
    const syn_trace_time *t = &v->trace->times[id];
    node->start_ns = (double)((uint64_t)t->start_high << 32 | t->start_low);
    node->wall_ns = (double)t->wall_ns;
    node->cpu_ns = (double)t->cpu_ns;
    node->wait_ns = (double)t->wait_ns;
}

static void fill_work(const syn_call *call, syn_node *node) {
    const int written = syn_opdef_versions(call->def, call->attr);
    const syn_spec *in[2] = {call->n_in > 0 ? &call->in[0].spec : NULL,
                             call->n_in > 1 ? &call->in[1].spec : NULL};
    syn__fill_work(node, in, written < call->n_in ? &call->in[written].spec : NULL,
                   call->n_out > 0 ? &call->out[0].spec : NULL);
}

/* Whether an embedding lookup follows another lookup of the same batch, or its table is an
   activation instead of a parameter. */
static bool is_secondary_lookup(const syn_trace *t, uint32_t id, const syn_node *node) {
    const syn_trace_tensor *table = &t->tensors[t->inputs[t->nodes[id].first_in]];
    const bool param = ((table->flags | t->tensors[table->base].flags) & SYN_TENSOR_PARAM) != 0;
    if (table->producer != 0 && !param) return true;
    for (uint32_t at = id, n = 0; --at > 0 && n < SYN__LOOKUP_NODES; n++) {
        const syn_opdef *def = syn_trace_op(t, &t->nodes[at]);
        const syn__lookup found =
            syn__lookup_before(node, def->name, def->category, (syn_phase)t->nodes[at].phase,
                               syn_trace_step_of(t, at));
        if (found != SYN__LOOKUP_CONTINUE) return found == SYN__LOOKUP_SAME_BATCH;
    }
    return false;
}

static const syn_node *view_node(const syn_graph *graph, uint32_t rank, uint32_t index,
                                 syn_cursor *cur) {
    const struct shared *sh = graph->self;
    const struct view *v = graph->ranks[rank].self;
    const syn_trace *t = v->trace;
    const uint32_t id = index + 1;
    const syn_trace_node *row = &t->nodes[id];
    syn_call call;
    syn_cost cost;
    const size_t n_ids = (size_t)row->n_in + row->n_out;
    if (syn_trace_call(t, id, &call, &cur->operands, &cur->operands_cap, &cur->error) != SYN_OK ||
        syn_grow(&cur->ids, &cur->ids_cap, n_ids, sizeof *cur->ids, &cur->error) != SYN_OK)
        return NULL;
    for (uint32_t i = 0; i < row->n_in; i++) cur->ids[i] = t->inputs[row->first_in + i] - 1;
    for (uint32_t i = 0; i < row->n_out; i++) cur->ids[row->n_in + i] = row->first_out + i - 1;
    call.def->cost(&call, &cost);
    const char *op = call.def->name;
    cur->node = (syn_node){.id = syn_trace_node_number(t, id),
                           .kind = kind_of(call.def),
                           .category = call.def->category,
                           .flags = (call.def->flags & SYN_OPF_VIEW ? SYN_NODE_VIRTUAL : 0u) |
                                    (call.def->flags & SYN_OPF_FUSED ? SYN_NODE_FUSED : 0u),
                           .phase = (syn_phase)row->phase,
                           .step = syn_trace_step_of(t, id),
                           .stream = row->stream,
                           .op = op,
                           .label = row->label ? syn_trace_text(t, row->label) : op,
                           .scope = syn_trace_text(t, row->scope),
                           .inputs = cur->ids,
                           .outputs = cur->ids + row->n_in,
                           .n_inputs = row->n_in,
                           .n_outputs = row->n_out,
                           .flops = cost.flops,
                           .bytes_read = cost.bytes_read,
                           .bytes_written = cost.bytes_written,
                           .reduce = -1,
                           .root = -1,
                           .peer = -1,
                           .tag = -1};
    if (fill_deps(v, id, cur) != SYN_OK) return NULL;
    if (fill_attributes(sh, &call, row->op, cur) != SYN_OK) return NULL;
    if (call.def->flags & SYN_OPF_COMM) fill_comm(sh, v, id, &call, &cur->node);
    fill_times(v, id, &cur->node);
    fill_work(&call, &cur->node);
    if (syn__is_lookup(op) && is_secondary_lookup(t, id, &cur->node))
        cur->node.flags |= SYN_NODE_SECONDARY_LOOKUP;
    if (sh->hw) syn__hardware_fill(sh->hw, graph, rank, &cur->node);
    return &cur->node;
}

const char *syn_trace_tensor_name(const syn_trace *t, uint32_t tensor, char buf[SYN_MAX_NAME]) {
    const syn_trace_tensor *row = &t->tensors[tensor];
    if (row->name) return syn_trace_text(t, row->name - 1);
    if (!row->producer) return "";
    const syn_trace_node *n = &t->nodes[row->producer];
    const char *scope = syn_trace_text(t, n->scope);
    struct writing name = {buf, buf + SYN_MAX_NAME - 1};
    append_text(&name, scope);
    if (*scope) append_text(&name, "/");
    append_text(&name, n->label ? syn_trace_text(t, n->label) : syn_trace_op(t, n)->name);
    append_text(&name, ":");
    append_i64(&name, (int64_t)(tensor - n->first_out));
    return buf;
}

static const syn_graph_tensor *view_tensor(const syn_graph *graph, uint32_t rank, uint32_t index,
                                           syn_cursor *cur) {
    const struct view *v = graph->ranks[rank].self;
    const syn_trace *t = v->trace;
    const syn_trace_tensor *row = &t->tensors[index + 1];
    cur->tensor = (syn_graph_tensor){.spec = *syn_trace_spec(t, index + 1),
                                     .flags = row->flags & SYN_TENSOR_GRAPH_FLAGS,
                                     .producer = row->producer ? row->producer - 1 : SYN_NO_NODE,
                                     .base = row->base - 1,
                                     .name = syn_trace_tensor_name(t, index + 1, cur->name)};
    const uint32_t part = v->parts.of ? v->parts.of[index + 1] : 0;
    if (part & SYN__PARTIAL) cur->tensor.flags |= SYN_TENSOR_PARTIAL;
    else if (part) cur->tensor.shard = v->parts.shards[part - 1];
    return &cur->tensor;
}

/* ---- The view ---- */

static void view_free(syn_graph *graph) {
    struct shared *sh = graph->self;
    if (sh) {
        for (uint32_t i = 0; sh->views && i < graph->n_ranks; i++) {
            syn_free(sh->views[i].inplace);
            syn_free(sh->views[i].comms);
            syn_free(sh->views[i].parts.of);
            syn_free(sh->views[i].parts.shards);
        }
        syn_free(sh->views);
        syn_free(sh->names);
        syn_free(sh);
    }
    syn_graph_free_meta(graph);
    syn_free(graph->ranks);
    syn_free(graph->groups);
    syn_free(graph);
}

static const syn_graph_source view_source = {view_node, view_tensor, view_free};

/* Collects the groups of all traces, each id once. The traces own the names and rank lists. */
static syn_status collect_groups(syn_graph *g, const syn_trace *const *traces, uint32_t n_traces,
                                 syn_error *err) {
    size_t most = 1;
    for (uint32_t i = 0; i < n_traces; i++) most += traces[i]->n_groups;
    g->groups = syn_calloc(most, sizeof *g->groups);
    if (!g->groups) return SYN_FAIL_NOMEM(err, most * sizeof *g->groups, "groups");
    for (uint32_t i = 0; i < n_traces; i++)
        for (size_t k = 0; k < traces[i]->n_groups; k++) {
            const syn_group *from = &traces[i]->groups[k];
            if (syn_graph_group_by_id(g, from->id)) continue;
            g->groups[g->n_groups++] =
                (syn_graph_group){from->id, from->name, from->ranks, (uint32_t)from->size};
        }
    return SYN_OK;
}

syn_status syn_trace_graph(syn_graph **out, const syn_trace *const *traces, uint32_t n_traces,
                           const syn_hardware *hw, syn_error *err) {
    syn_graph *g = syn_calloc(1, sizeof *g);
    if (!g) return SYN_FAIL_NOMEM(err, sizeof *g, "a graph");
    const syn_opdef *ops = NULL;
    for (uint32_t i = 0; i < n_traces && !ops; i++) ops = traces[i]->ops;
    struct shared *sh = g->self = syn_calloc(1, sizeof *sh);
    g->source = &view_source;
    g->ranks = syn_calloc(n_traces, sizeof *g->ranks);
    if (sh) sh->views = syn_calloc(n_traces, sizeof *sh->views);
    syn_status s = sh && sh->views && g->ranks ? split_attrs(sh, ops, err)
                                               : SYN_FAIL_NOMEM(err, sizeof *sh, "a graph");
    if (s == SYN_OK) {
        sh->hw = hw;
        g->n_ranks = n_traces;
        g->world_size = n_traces ? traces[0]->world_size : 0;
        s = collect_groups(g, traces, n_traces, err);
    }
    for (uint32_t i = 0; i < n_traces && s == SYN_OK; i++) {
        struct view *v = &sh->views[i];
        v->trace = traces[i];
        g->ranks[i] = (syn_graph_rank){traces[i]->rank, (uint32_t)traces[i]->n_nodes - 1,
                                       (uint32_t)traces[i]->n_tensors - 1, &traces[i]->work, v};
        s = find_inplace(v, err);
        if (s == SYN_OK) s = number_comms(v, err);
        if (s == SYN_OK) s = syn__trace_shards_find(v->trace, &v->parts, err);
    }
    if (s == SYN_OK && hw && hw->multiprocessors > 0) {
        const syn_attribute gpu = {.name = "multiprocessors", .i64 = hw->multiprocessors};
        s = syn_graph_set_meta(g, &gpu, err);
    }
    if (s != SYN_OK) {
        view_free(g);
        return s;
    }
    *out = g;
    return SYN_OK;
}
