/* Implements graphs.h: compares graphs field by field. */
#include "tests/support/graphs.h"

syn_node plain_node(uint64_t id, const char *op) {
    return (syn_node){.id = id, .op = op, .label = op, .scope = "", .tag = -1, SYN_NODE_UNKNOWN};
}

syn_status add_tensor(syn_graph *g, uint32_t rank, const char *name, uint32_t flags,
                      uint32_t producer, uint32_t base, int32_t dim, syn_error *err) {
    const syn_graph_tensor t = {name, {SYN_F32, 2, {dim, 8}}, flags, producer, base, {0}};
    return syn_graph_add_tensor(g, rank, &t, err);
}

static bool same_attributes(const syn_attribute *a, uint32_t n_a, const syn_attribute *b,
                            uint32_t n_b) {
    if (n_a != n_b) return false;
    for (uint32_t i = 0; i < n_a; i++) {
        if (strcmp(a[i].name, b[i].name) != 0 || a[i].type != b[i].type) return false;
        if (a[i].type == SYN_VALUE_TEXT && strcmp(a[i].text, b[i].text) != 0) return false;
        if (a[i].type == SYN_VALUE_F64 && memcmp(&a[i].f64, &b[i].f64, sizeof(double)) != 0)
            return false;
        if ((a[i].type == SYN_VALUE_I64 || a[i].type == SYN_VALUE_BOOL) && a[i].i64 != b[i].i64)
            return false;
    }
    return true;
}

static bool same_u32(const uint32_t *a, uint32_t n_a, const uint32_t *b, uint32_t n_b) {
    return n_a == n_b && (n_a == 0 || memcmp(a, b, n_a * sizeof *a) == 0);
}

const char *node_difference(const syn_node *a, const syn_node *b) {
#define FIELD(name) \
    if (a->name != b->name) return #name
    FIELD(id);
    FIELD(kind);
    FIELD(category);
    FIELD(flags);
    FIELD(phase);
    FIELD(step);
    FIELD(stream);
    FIELD(flops);
    FIELD(bytes_read);
    FIELD(bytes_written);
    if (a->kind == SYN_NODE_COLLECTIVE || a->kind == SYN_NODE_SEND || a->kind == SYN_NODE_RECV) {
        FIELD(comm);
        FIELD(reduce);
        FIELD(group);
        FIELD(comm_bytes);
        FIELD(comm_index);
        FIELD(peer);
        FIELD(tag);
        FIELD(root);
    }
    FIELD(start_ns);
    FIELD(wall_ns);
    FIELD(cpu_ns);
    FIELD(wait_ns);
    FIELD(predicted_ns);
    FIELD(n_deps);
#undef FIELD
    if (strcmp(a->op, b->op) != 0) return "op";
    if (strcmp(a->label, b->label) != 0) return "label";
    if (strcmp(a->scope, b->scope) != 0) return "scope";
    if (!same_u32(a->inputs, a->n_inputs, b->inputs, b->n_inputs)) return "inputs";
    if (!same_u32(a->outputs, a->n_outputs, b->outputs, b->n_outputs)) return "outputs";
    for (uint32_t i = 0; i < a->n_deps; i++) {
        if (a->deps[i].node != b->deps[i].node || a->deps[i].dep_class != b->deps[i].dep_class)
            return "deps";
    }
    if (!same_attributes(a->attributes, a->n_attributes, b->attributes, b->n_attributes))
        return "attributes";
    return NULL;
}

static const char *tensor_difference(const syn_graph_tensor *a, const syn_graph_tensor *b) {
    if (strcmp(a->name, b->name) != 0) return "name";
    if (!syn_spec_equal(&a->spec, &b->spec)) return "spec";
    if (a->flags != b->flags) return "flags";
    if (memcmp(&a->shard, &b->shard, sizeof a->shard) != 0) return "shard";
    if (a->producer != b->producer) return "producer";
    return a->base != b->base ? "base" : NULL;
}

static const char *rank_difference(const syn_graph *a, const syn_graph *b, uint32_t r) {
    syn_cursor ca = {0}, cb = {0};
    const char *what = NULL;
    if (a->ranks[r].rank != b->ranks[r].rank) return "rank";
    if (a->ranks[r].n_nodes != b->ranks[r].n_nodes) return "n_nodes";
    if (a->ranks[r].n_tensors != b->ranks[r].n_tensors) return "n_tensors";
    for (uint32_t i = 0; i < a->ranks[r].n_nodes && what == NULL; i++) {
        const syn_node *x = syn_graph_node(a, r, i, &ca), *y = syn_graph_node(b, r, i, &cb);
        what = x != NULL && y != NULL ? node_difference(x, y) : "node";
    }
    for (uint32_t i = 0; i < a->ranks[r].n_tensors && what == NULL; i++) {
        const syn_graph_tensor *x = syn_graph_tensor_at(a, r, i, &ca);
        const syn_graph_tensor *y = syn_graph_tensor_at(b, r, i, &cb);
        what = x != NULL && y != NULL ? tensor_difference(x, y) : "tensor";
    }
    syn_cursor_free(&ca);
    syn_cursor_free(&cb);
    return what;
}

const char *graph_difference(const syn_graph *a, const syn_graph *b) {
    if (a->n_ranks != b->n_ranks || a->world_size != b->world_size) return "ranks";
    if (!same_attributes(a->metadata, a->n_metadata, b->metadata, b->n_metadata)) return "metadata";
    if (a->n_groups != b->n_groups) return "n_groups";
    for (uint32_t i = 0; i < a->n_groups; i++) {
        const syn_graph_group *x = &a->groups[i], *y = &b->groups[i];
        if (x->id != y->id || strcmp(x->name, y->name) != 0 || x->n_ranks != y->n_ranks ||
            memcmp(x->ranks, y->ranks, x->n_ranks * sizeof *x->ranks) != 0)
            return "groups";
    }
    for (uint32_t r = 0; r < a->n_ranks; r++) {
        const char *what = rank_difference(a, b, r);
        if (what != NULL) return what;
    }
    return NULL;
}
