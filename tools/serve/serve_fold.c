/* Appends a recorded step with one node for each run of computing nodes, so that the traces of
   whole simulations stay small. Collectives and messages stay, and every node still waits for
   everything that its part of the step waits for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "syntorch/base/memory.h"
#include "tools/serve/serve_traces.h"

enum { NAME_BYTES = 80 };

/* A node of the recorded step. */
typedef struct recorded {
    size_t deps;  /* index of the first one; the next node's begin at the end of these */
    uint32_t out; /* communication, and computation of ended runs: index of the node written */
    bool virtual, computes;
    bool ends;   /* the run ends after this node */
    bool waited; /* communication: an earlier run waits for it */
} recorded;

/* A run of computing nodes. */
typedef struct run {
    uint32_t n;                      /* nodes */
    syn_node node;                   /* their sums */
    int64_t first_layer, last_layer; /* -1: none */
    bool before, after; /* has nodes of no layer, before the first layer and after it */
} run;

typedef struct dep_list {
    syn_dep *deps;
    size_t n, cap;
} dep_list;

typedef struct folding {
    syn_graph *to;
    const syn_graph *from;
    const serve_appended *how;
    recorded *nodes;
    syn_dep *deps;
    size_t n_deps, deps_cap;
    syn_cursor cursor;
    run run;
    dep_list run_deps, comm_deps;
    uint32_t run_first; /* computing nodes from this one on belong to the run */
    bool in_layers;     /* a layer has begun */
    bool any;           /* a run was written */
    uint32_t *found;    /* the nodes that a node waits for, without virtual ones */
    size_t n_found, found_cap;
} folding;

/* ---- What nodes wait for ---- */

/* Adds the nodes that node i waits for to found[]. Those of virtual nodes are inherited. */
static syn_status find_deps(folding *f, uint32_t i, syn_error *err) {
    for (size_t k = f->nodes[i].deps; k < f->nodes[i + 1].deps; k++) {
        const uint32_t dep = f->deps[k].node;
        if (f->nodes[dep].virtual) {
            SYN_TRY(find_deps(f, dep, err));
            continue;
        }
        SYN_TRY(syn_grow(&f->found, &f->found_cap, f->n_found + 1, sizeof *f->found, err));
        f->found[f->n_found++] = dep;
    }
    return SYN_OK;
}

/* Reads dependencies and kinds, and marks the nodes that communication waits for. */
static syn_status read_nodes(folding *f, syn_error *err) {
    const uint32_t n = f->from->ranks[0].n_nodes;
    f->nodes = syn_calloc((size_t)n + 1, sizeof *f->nodes);
    if (!f->nodes) return SYN_FAIL_NOMEM(err, n * sizeof *f->nodes, "the nodes of a step");
    for (uint32_t i = 0; i < n; i++) {
        const syn_node *node = syn_graph_node(f->from, 0, i, &f->cursor);
        if (!node) return *err = f->cursor.error, err->code;
        recorded *r = &f->nodes[i];
        r->virtual = serve_is_view(node);
        r->computes = !r->virtual && node->kind == SYN_NODE_COMPUTE;
        SYN_TRY(syn_grow(&f->deps, &f->deps_cap, f->n_deps + node->n_deps, sizeof *f->deps, err));
        for (uint32_t k = 0; k < node->n_deps; k++) f->deps[f->n_deps++] = node->deps[k];
        r[1].deps = f->n_deps;
        if (r->virtual || r->computes) continue;
        f->n_found = 0;
        SYN_TRY(find_deps(f, i, err));
        for (size_t k = 0; k < f->n_found; k++) f->nodes[f->found[k]].ends = true;
    }
    return SYN_OK;
}

/* ---- Runs ---- */

/* The number of the layer in a scope such as "model.layers.3.mlp"; -1: none. */
static int64_t layer_of(const char *scope) {
    for (const char *at = strchr(scope, '.'); at; at = strchr(at + 1, '.'))
        if (at[1] >= '0' && at[1] <= '9') return strtoll(at + 1, NULL, 10);
    return -1;
}

static void name_run(const run *r, char name[NAME_BYTES]) {
    const long long a = (long long)r->first_layer, b = (long long)r->last_layer;
    const char *before = r->before ? "embedding, " : "", *after = r->after ? ", head" : "";
    if (a < 0) snprintf(name, NAME_BYTES, "%s", r->before ? "embedding" : "head");
    else if (a == b) snprintf(name, NAME_BYTES, "%slayer %lld%s", before, a, after);
    else snprintf(name, NAME_BYTES, "%slayers %lld-%lld%s", before, a, b, after);
}

static void add_work(folding *f, const syn_node *node) {
    const int64_t layer = layer_of(node->scope);
    run *r = &f->run;
    if (r->n++ == 0) {
        r->node = (syn_node){SYN_NODE_UNKNOWN, .kind = SYN_NODE_COMPUTE, .flags = SYN_NODE_FUSED};
        r->node.predicted_ns = 0;
        r->first_layer = -1;
    }
    r->node.flops += node->flops;
    r->node.bytes_read += node->bytes_read;
    r->node.bytes_written += node->bytes_written;
    if (node->predicted_ns > 0) r->node.predicted_ns += node->predicted_ns;
    if (layer < 0 && f->in_layers) r->after = true;
    if (layer < 0 && !f->in_layers) r->before = true;
    if (layer < 0) return;
    f->in_layers = true;
    if (r->first_layer < 0) r->first_layer = layer;
    r->last_layer = layer;
}

/* ---- Written nodes ---- */

static int by_node(const void *a, const void *b) {
    const syn_dep *x = a, *y = b;
    return (x->node > y->node) - (x->node < y->node);
}

static syn_status push_dep(dep_list *list, syn_dep dep, syn_error *err) {
    SYN_TRY(syn_grow(&list->deps, &list->cap, list->n + 1, sizeof *list->deps, err));
    list->deps[list->n++] = dep;
    return SYN_OK;
}

/* Adds a dependency on what was written for a node. */
static syn_status add_dep(const folding *f, dep_list *list, uint32_t node, syn_error *err) {
    return push_dep(list, (syn_dep){f->nodes[node].out, SYN_DEP_DATA}, err);
}

/* Writes a node that waits for the listed ones, and empties the list. */
static syn_status write_node(folding *f, syn_node *node, dep_list *list, syn_error *err) {
    size_t n = 0;
    if (list->n > 1) qsort(list->deps, list->n, sizeof *list->deps, by_node);
    for (size_t i = 0; i < list->n; i++)
        if (n == 0 || list->deps[n - 1].node != list->deps[i].node) list->deps[n++] = list->deps[i];
    list->n = 0;
    SYN_TRY(syn_grow(&list->deps, &list->cap, 1, sizeof *list->deps, err));
    if (serve_follows_step(f->how, (uint32_t)n, list->deps)) n = 1;
    serve_number_node(f->how, f->to, node);
    node->deps = list->deps;
    node->n_deps = (uint32_t)n;
    node->inputs = node->outputs = NULL;
    node->n_inputs = node->n_outputs = 0;
    node->attributes = NULL;
    node->n_attributes = 0;
    return syn_graph_add_node(f->to, 0, node, err);
}

/* Writes the run, whose nodes come before node `end`. */
static syn_status end_run(folding *f, uint32_t end, syn_error *err) {
    run *r = &f->run;
    char name[NAME_BYTES];
    const uint32_t out = f->to->ranks[0].n_nodes;
    if (r->n == 0) return SYN_OK;
    name_run(r, name);
    r->node.op = "folded";
    r->node.label = name;
    r->node.scope = "";
    for (uint32_t i = 0; i < f->how->n_tokens && !f->any; i++)
        SYN_TRY(push_dep(&f->run_deps, serve_token_dep(f->how, i), err));
    f->any = true;
    SYN_TRY(write_node(f, &r->node, &f->run_deps, err));
    for (; f->run_first < end; f->run_first++)
        if (f->nodes[f->run_first].computes) f->nodes[f->run_first].out = out;
    *r = (run){.n = 0};
    return SYN_OK;
}

/* ---- The nodes of a step ---- */

/* found[] has what the communication waits for. All of it is written: a run ends after a node that
   communication waits for. */
static syn_status write_communication(folding *f, uint32_t i, const syn_node *node,
                                      syn_error *err) {
    syn_node copy = *node;
    for (size_t k = 0; k < f->n_found; k++) SYN_TRY(add_dep(f, &f->comm_deps, f->found[k], err));
    f->nodes[i].out = f->to->ranks[0].n_nodes;
    return write_node(f, &copy, &f->comm_deps, err);
}

/* Whether the node must wait for communication that no earlier run waits for. */
static bool is_new_wait(const folding *f, uint32_t node) {
    return !f->nodes[node].computes && !f->nodes[node].waited;
}

static syn_status fold_node(folding *f, uint32_t i, const syn_node *node, syn_error *err) {
    bool waits = false;
    if (f->nodes[i].virtual) return SYN_OK;
    f->n_found = 0;
    SYN_TRY(find_deps(f, i, err));
    if (!f->nodes[i].computes) return write_communication(f, i, node, err);
    for (size_t k = 0; k < f->n_found; k++) waits = waits || is_new_wait(f, f->found[k]);
    if (waits) SYN_TRY(end_run(f, i, err));
    for (size_t k = 0; k < f->n_found; k++) {
        if (!is_new_wait(f, f->found[k])) continue;
        f->nodes[f->found[k]].waited = true;
        SYN_TRY(add_dep(f, &f->run_deps, f->found[k], err));
    }
    add_work(f, node);
    return f->nodes[i].ends ? end_run(f, i + 1, err) : SYN_OK;
}

static syn_status fold_step(folding *f, syn_error *err) {
    const uint32_t n = f->from->ranks[0].n_nodes;
    SYN_TRY(read_nodes(f, err));
    for (uint32_t i = 0; i < n; i++) {
        const syn_node *node = syn_graph_node(f->from, 0, i, &f->cursor);
        if (!node) return *err = f->cursor.error, err->code;
        SYN_TRY(fold_node(f, i, node, err));
    }
    return end_run(f, n, err);
}

syn_status serve_append_folded(syn_graph *graph, const syn_graph *step, const serve_appended *how,
                               syn_error *err) {
    folding f = {.to = graph, .from = step, .how = how};
    const syn_status s = fold_step(&f, err);
    syn_cursor_free(&f.cursor);
    syn_free(f.nodes);
    syn_free(f.deps);
    syn_free(f.run_deps.deps);
    syn_free(f.comm_deps.deps);
    syn_free(f.found);
    return s;
}
