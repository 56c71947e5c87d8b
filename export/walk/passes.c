/* Finds the passes of microbatches; see passes.h. */
#include "export/walk/passes.h"

#include "export/walk/graph_walk.h"
#include "syntorch/base/memory.h"

/* What the nodes of the current pass have shown. */
typedef struct finder {
    syn__pass *passes;
    size_t n, cap;
    size_t step_begin; /* the first pass of the current step */
    uint32_t step;
    bool open;      /* there is a current pass */
    bool layers;    /* it had a node of a layer, whose number is `layer` */
    bool after;     /* and then a node outside of layers */
    bool only_sums; /* a backward pass without gradients of activations: weights only */
    int64_t layer;
    syn__pass now;
} finder;

const char *syn__pass_name(syn__pass_kind kind) {
    static const char *const names[SYN__PASS_KINDS] = {
        [SYN__PASS_FORWARD] = "forward",
        [SYN__PASS_BACKWARD] = "backward",
        [SYN__PASS_WEIGHTS] = "weight gradients",
        [SYN__PASS_OPTIMIZER] = "optimizer",
    };
    return names[kind];
}

static syn__pass_kind kind_of(syn_phase phase) {
    if (phase == SYN_PHASE_OPTIMIZER) return SYN__PASS_OPTIMIZER;
    return phase == SYN_PHASE_BACKWARD || phase == SYN_PHASE_RECOMPUTE ? SYN__PASS_BACKWARD
                                                                       : SYN__PASS_FORWARD;
}

/* Whether a node begins another pass than the current one: step or phase change, or the layers
   begin again. */
static bool begins(const finder *f, const syn_node *node, syn__pass_kind kind, int64_t layer) {
    if (!f->open || f->now.kind != kind || f->step != node->step) return true;
    if (kind == SYN__PASS_OPTIMIZER || layer < 0 || !f->layers) return false;
    return f->after || (kind == SYN__PASS_FORWARD ? layer < f->layer : layer > f->layer);
}

static syn_status end_pass(finder *f, syn_error *err) {
    syn__pass *p = &f->now;
    if (!f->open) return SYN_OK;
    f->open = false;
    if (p->kind == SYN__PASS_BACKWARD && f->only_sums) p->kind = SYN__PASS_WEIGHTS;
    p->number = p->kind != SYN__PASS_OPTIMIZER;
    for (size_t i = f->step_begin; i < f->n && p->number > 0; i++)
        p->number += f->passes[i].kind == p->kind && f->passes[i].chunk == p->chunk;
    SYN_TRY(syn_grow(&f->passes, &f->cap, f->n + 1, sizeof *f->passes, err));
    f->passes[f->n++] = *p;
    return SYN_OK;
}

static syn_status add_node(finder *f, const syn_node *node, uint32_t at, syn_error *err) {
    const syn__pass_kind kind = kind_of(node->phase);
    const int64_t layer = syn__walk_layer(node->scope);
    if (begins(f, node, kind, layer)) {
        SYN_TRY(end_pass(f, err));
        if (f->step != node->step) f->step_begin = f->n;
        f->step = node->step;
        f->open = f->only_sums = true;
        f->layers = f->after = false;
        f->now = (syn__pass){.kind = kind, .first = at, .chunk = -1};
    }
    if (layer >= 0 && (f->now.chunk < 0 || layer < f->now.chunk)) f->now.chunk = layer;
    f->after = f->layers && layer < 0;
    if (layer >= 0) f->layer = layer;
    f->layers = f->layers || layer >= 0;
    f->only_sums = f->only_sums && node->category != SYN_CATEGORY_ATTENTION &&
                   node->category != SYN_CATEGORY_NORM && node->category != SYN_CATEGORY_EMBEDDING;
    f->now.last = at;
    return SYN_OK;
}

static bool is_op(const syn_node *node) {
    return node->comm == SYN_COMM_NONE && node->kind != SYN_NODE_METADATA &&
           node->category != SYN_CATEGORY_VIEW && !(node->flags & SYN_NODE_VIRTUAL);
}

syn_status syn__passes_find(syn__pass **out, size_t *n, const syn_graph *graph, uint32_t rank,
                            syn_error *err) {
    finder f = {0};
    syn_cursor cursor = {0};
    syn_status s = SYN_OK;
    for (uint32_t i = 0; i < graph->ranks[rank].n_nodes && s == SYN_OK; i++) {
        const syn_node *node = syn_graph_node(graph, rank, i, &cursor);
        if (!node) s = SYN_FAIL(err, cursor.error.code, "%s", cursor.error.text);
        else if (node->comm == SYN_COMM_SEND) s = end_pass(&f, err);
        else if (is_op(node)) s = add_node(&f, node, i, err);
    }
    if (s == SYN_OK) s = end_pass(&f, err);
    syn_cursor_free(&cursor);
    if (s != SYN_OK) syn_free(f.passes);
    *out = s == SYN_OK ? f.passes : NULL;
    *n = s == SYN_OK ? f.n : 0;
    return s;
}
