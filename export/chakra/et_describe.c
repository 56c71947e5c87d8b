/* Fills in the fields and attributes of a planned node. Attribute types are those that simulators
   read: num_ops, comm_type and comm_size are int64; tensor_size is uint64; comm_src, comm_dst and
   comm_tag are int32; pg_name is a string; inputs and outputs are string lists (et_tensors.c).
   Simulators hang on a size or cost of 0, and abort if the first node takes no time. Sizes and
   costs are therefore raised to a minimum, and the attribute `clamped` marks nodes for which this
   was done.

   Further attributes are written only if they add information: op (string) if it differs from the
   last part of the name, phase (string) if it is not forward, step and stream (int64) if they are
   not 0, reduce (string) if it is not sum, root (int32), the exact times wall_ns, wait_ns and
   predicted_ns (int64, rounded), and order_deps (list of uint64): the ctrl_deps that only keep the
   order of collectives. */
#include <math.h>

#include "export/chakra/et_walk.h"
#include "syntorch/base/memory.h"

syn_status syn__et_walk_add(syn__et_walk *walk, const syn__et_attr *attr, syn_error *err) {
    SYN_TRY(syn_grow(&walk->attrs, &walk->attrs_cap, walk->n_attrs + 1, sizeof *walk->attrs, err));
    walk->attrs[walk->n_attrs++] = *attr;
    return SYN_OK;
}

static syn_status add_number(syn__et_walk *walk, const char *name, uint32_t field, uint64_t bits,
                             syn_error *err) {
    const syn__et_attr a = syn__et_number(name, field, bits);
    return syn__et_walk_add(walk, &a, err);
}

static syn_status add_text(syn__et_walk *walk, const char *name, const char *text, syn_error *err) {
    const syn__et_attr a = syn__et_data(syn__str_of(name), SYN__ET_STRING,
                                        syn__arena_utf8(&walk->arena, syn__str_of(text)));
    if (a.data.text == NULL) return SYN_FAIL_NOMEM(err, strlen(text), "an attribute");
    return syn__et_walk_add(walk, &a, err);
}

/* Rounds ns nanoseconds to whole units of `unit` nanoseconds. Unknown and negative times become
   0. */
static uint64_t whole(double ns, double unit) {
    const double units = ns / unit;
    if (!(units > 0)) return 0;
    return units >= 9.2e18 ? (uint64_t)INT64_MAX : (uint64_t)llround(units);
}

static uint64_t at_least(uint64_t value, uint64_t min, bool *clamped) {
    if (value >= min) return value;
    *clamped = true;
    return min;
}

static uint64_t int64_cap(uint64_t value) {
    return value > INT64_MAX ? (uint64_t)INT64_MAX : value;
}

static syn_status add_compute(syn__et_walk *walk, const syn_node *node, bool is_root,
                              syn_error *err) {
    bool clamped = false;
    uint64_t bytes = node->bytes_read + node->bytes_written;
    if (bytes < node->bytes_read) bytes = UINT64_MAX;
    bytes = at_least(bytes, is_root ? SYN__ET_MIN_ROOT_BYTES : 1, &clamped);
    const uint64_t ops = at_least(int64_cap(node->flops), 1, &clamped);
    SYN_TRY(add_number(walk, "num_ops", SYN__ET_INT64, ops, err));
    SYN_TRY(add_number(walk, "tensor_size", SYN__ET_UINT64, bytes, err));
    return clamped ? add_number(walk, "clamped", SYN__ET_BOOL, 1, err) : SYN_OK;
}

static syn_status add_size(syn__et_walk *walk, const syn_node *node, syn_error *err) {
    bool clamped = false;
    const uint64_t bytes = at_least(int64_cap(node->comm_bytes), 1, &clamped);
    SYN_TRY(add_number(walk, "comm_size", SYN__ET_INT64, bytes, err));
    return clamped ? add_number(walk, "clamped", SYN__ET_BOOL, 1, err) : SYN_OK;
}

static syn_status add_collective(syn__et_walk *walk, const syn_node *node, syn_error *err) {
    const int32_t type = syn__et_comm_type(node->comm);
    if (type < 0)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "rank %d: node %.80s is a collective of an unknown kind",
                        (int)walk->graph->ranks[walk->rank].rank, node->label);
    SYN_TRY(add_number(walk, "comm_type", SYN__ET_INT64, (uint64_t)type, err));
    SYN_TRY(add_size(walk, node, err));
    if (node->group != 0) {
        char id[16];
        size_t n = sizeof id;
        id[--n] = '\0';
        for (uint32_t v = node->group; v != 0; v /= 10) id[--n] = (char)('0' + v % 10);
        const char *kept = syn__arena_text(&walk->arena, syn__str_of(id + n));
        if (kept == NULL) return SYN_FAIL_NOMEM(err, sizeof id, "an attribute");
        const syn_graph_group *group = syn_graph_group_by_id(walk->graph, node->group);
        SYN_TRY(add_text(walk, "pg_name", kept, err));
        SYN_TRY(add_text(walk, "pg_desc", group->name, err));
    }
    if (node->reduce > (int32_t)SYN_REDUCE_SUM)
        SYN_TRY(add_text(walk, "reduce", syn_reduce_name((syn_reduce)node->reduce), err));
    if (node->root < 0) return SYN_OK;
    return add_number(walk, "root", SYN__ET_INT32, (uint64_t)(int64_t)node->root, err);
}

static syn_status add_message(syn__et_walk *walk, const syn_node *node, syn_error *err) {
    const uint64_t own = (uint64_t)walk->graph->ranks[walk->rank].rank;
    const uint64_t peer = (uint64_t)node->peer, is_send = node->kind == SYN_NODE_SEND;
    SYN_TRY(add_number(walk, "comm_src", SYN__ET_INT32, is_send ? own : peer, err));
    SYN_TRY(add_number(walk, "comm_dst", SYN__ET_INT32, is_send ? peer : own, err));
    SYN_TRY(add_number(walk, "comm_tag", SYN__ET_INT32, (uint64_t)node->tag, err));
    return add_size(walk, node, err);
}

static syn_status add_ns(syn__et_walk *walk, const char *name, double ns, syn_error *err) {
    return ns >= 0 ? add_number(walk, name, SYN__ET_INT64, whole(ns, 1), err) : SYN_OK;
}

static syn_status add_order(syn__et_walk *walk, syn_error *err) {
    const syn__et_plan *plan = &walk->plan;
    syn__buf *list = &walk->list;
    size_t bytes = 0;
    if (plan->n_order == 0) return SYN_OK;
    for (size_t i = 0; i < plan->n_order; i++) bytes += syn__et_varint_bytes(plan->order[i]);
    list->bytes = 0;
    syn__et_put_tag(list, SYN__ET_UINT64_LIST_VALUES, SYN__ET_WIRE_LEN);
    syn__et_put_varint(list, bytes);
    for (size_t i = 0; i < plan->n_order; i++) syn__et_put_varint(list, plan->order[i]);
    char *data = (char *)syn__arena_get(&walk->arena, list->bytes);
    if (data == NULL || list->failed) return SYN_FAIL_NOMEM(err, list->bytes, "an attribute");
    memcpy(data, list->data, list->bytes);
    const syn__et_attr a =
        syn__et_data(syn__str_of("order_deps"), SYN__ET_UINT64_LIST, (syn__str){data, list->bytes});
    return syn__et_walk_add(walk, &a, err);
}

static syn_status add_extras(syn__et_walk *walk, const syn_node *node, syn_error *err) {
    if (strcmp(node->op, node->label) != 0) SYN_TRY(add_text(walk, "op", node->op, err));
    if (node->phase != SYN_PHASE_FORWARD)
        SYN_TRY(add_text(walk, "phase", syn_phase_name(node->phase), err));
    if (node->step != 0) SYN_TRY(add_number(walk, "step", SYN__ET_INT64, node->step, err));
    if (node->stream != 0)
        SYN_TRY(add_number(walk, "stream", SYN__ET_INT64, (uint64_t)(int64_t)node->stream, err));
    SYN_TRY(add_order(walk, err));
    SYN_TRY(add_ns(walk, "wall_ns", node->wall_ns, err));
    if (node->wait_ns > 0) SYN_TRY(add_ns(walk, "wait_ns", node->wait_ns, err));
    return add_ns(walk, "predicted_ns", node->predicted_ns, err);
}

/* Sets *out to scope and label: "h.3.attn/qkv", or "argmax" without a scope. */
static syn_status put_name(syn__et_walk *walk, const syn_node *node, syn__str *out,
                           syn_error *err) {
    if (*node->scope == '\0') {
        *out = syn__arena_utf8(&walk->arena, syn__str_of(node->label));
        return out->text != NULL ? SYN_OK : SYN_FAIL_NOMEM(err, strlen(node->label), "a name");
    }
    const size_t scope = strlen(node->scope), label = strlen(node->label);
    char *name = (char *)syn__arena_get(&walk->arena, scope + label + 2);
    if (name != NULL) {
        memcpy(name, node->scope, scope);
        name[scope] = '/';
        memcpy(name + scope + 1, node->label, label + 1);
        *out = syn__arena_utf8(&walk->arena, syn__str_of(name));
    }
    if (name == NULL || out->text == NULL) return SYN_FAIL_NOMEM(err, scope + label + 2, "a name");
    return SYN_OK;
}

double syn__et_duration_ns(const syn_node *node) {
    const double busy = syn_node_busy_ns(node);
    return busy >= 0 ? busy : node->predicted_ns;
}

syn_status syn__et_describe_frame(syn__et_walk *walk, const syn_node *node, syn__et_node *out,
                                  syn_error *err) {
    out->start_micros = whole(node->start_ns, 1000);
    out->duration_micros = whole(syn__et_duration_ns(node), 1000);
    return put_name(walk, node, &out->name, err);
}

syn_status syn__et_describe(syn__et_walk *walk, const syn_node *node, syn__et_node *out,
                            syn_error *err) {
    const bool is_root = out->n_ctrl + out->n_data == 0;
    SYN_TRY(syn__et_describe_frame(walk, node, out, err));
    SYN_TRY(add_number(walk, "is_cpu_op", SYN__ET_BOOL, 0, err));
    switch (node->kind) {
    case SYN_NODE_COLLECTIVE:
        out->type = SYN__ET_COMM_COLL_NODE;
        SYN_TRY(add_collective(walk, node, err));
        break;
    case SYN_NODE_SEND:
    case SYN_NODE_RECV:
        out->type = node->kind == SYN_NODE_SEND ? SYN__ET_COMM_SEND_NODE : SYN__ET_COMM_RECV_NODE;
        SYN_TRY(add_message(walk, node, err));
        break;
    default:
        /* Copies also become compute nodes, because simulators exit on memory nodes. */
        out->type = SYN__ET_COMP_NODE;
        SYN_TRY(add_compute(walk, node, is_root, err));
    }
    SYN_TRY(add_extras(walk, node, err));
    return syn__et_describe_tensors(walk, node, err);
}
