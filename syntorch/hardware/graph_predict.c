/* syn_graph_predict: a graph with predicted times. Its nodes and tensors are those of the
   underlying graph, except that all times are replaced by predicted times. */
#include <string.h>

#include "syntorch/base/memory.h"
#include "syntorch/graph/extents.h"
#include "syntorch/graph/op_names.h"
#include "syntorch/hardware/hardware_private.h"

struct predicted {
    syn_graph *graph;
    syn_hardware hw;
};

/* Copies the spec of tensor i of a list to *spec and returns spec; NULL if the list has fewer
   tensors. */
static const syn_spec *spec_of(const syn_graph *graph, uint32_t rank, const uint32_t *tensors,
                               uint32_t n, uint32_t i, syn_spec *spec, syn_cursor *cursor) {
    if (i >= n) return NULL;
    const syn_graph_tensor *t = syn_graph_tensor_at(graph, rank, tensors[i], cursor);
    if (!t) return NULL;
    *spec = t->spec;
    return spec;
}

/* Sets the node's dtype and extents, using the same tensors as trace_graph.c does. Extents in
   the graph remain: those of a convolution do not follow from the shapes of its tensors. */
static void fill_work(const syn_graph *graph, uint32_t rank, syn_node *node, syn_cursor *tensors) {
    const uint32_t versions = syn_op_flags(node->op) >> 8;
    const uint32_t written = versions == 255 ? node->n_outputs : versions;
    syn_spec specs[4];
    const syn_spec *in[2];
    for (uint32_t i = 0; i < 2; i++)
        in[i] = spec_of(graph, rank, node->inputs, node->n_inputs, i, &specs[i], tensors);
    const syn_spec *data =
        spec_of(graph, rank, node->inputs, node->n_inputs, written, &specs[2], tensors);
    const syn_extents given = node->extents;
    syn__fill_work(node, in, data,
                   spec_of(graph, rank, node->outputs, node->n_outputs, 0, &specs[3], tensors));
    if (given.batch > 0) node->extents = given;
}

/* Whether an embedding lookup follows another lookup of the same batch, or its table is an
   activation. */
static bool is_secondary_lookup(const syn_graph *graph, uint32_t rank, uint32_t index,
                                const syn_node *node, syn_cursor *cursor) {
    const syn_graph_tensor *table =
        node->n_inputs > 0 ? syn_graph_tensor_at(graph, rank, node->inputs[0], cursor) : NULL;
    if (table && table->producer != SYN_NO_NODE && (table->flags & SYN_TENSOR_PARAM) == 0)
        return true;
    for (uint32_t n = 0; index-- > 0 && n < SYN__LOOKUP_NODES; n++) {
        const syn_node *before = syn_graph_node(graph, rank, index, cursor);
        if (!before) return false;
        const syn__lookup found =
            syn__lookup_before(node, before->op, before->category, before->phase, before->step);
        if (found != SYN__LOOKUP_CONTINUE) return found == SYN__LOOKUP_SAME_BATCH;
    }
    return false;
}

static const syn_node *predicted_node(const syn_graph *graph, uint32_t rank, uint32_t index,
                                      syn_cursor *cursor) {
    const struct predicted *p = graph->self;
    syn_cursor tensors = {0};
    const syn_node *from = syn_graph_node(p->graph, rank, index, cursor);
    if (!from) return NULL;
    syn_node *node = &cursor->node;
    if (from != node) *node = *from;
    node->start_ns = node->wall_ns = node->cpu_ns = node->wait_ns = SYN_NO_TIME;
    fill_work(p->graph, rank, node, &tensors);
    if (syn__is_lookup(node->op) && is_secondary_lookup(p->graph, rank, index, node, &tensors))
        node->flags |= SYN_NODE_SECONDARY_LOOKUP;
    syn_cursor_free(&tensors);
    syn__hardware_fill(&p->hw, graph, rank, node);
    return node;
}

static const syn_graph_tensor *predicted_tensor(const syn_graph *graph, uint32_t rank,
                                                uint32_t tensor, syn_cursor *cursor) {
    const struct predicted *p = graph->self;
    return syn_graph_tensor_at(p->graph, rank, tensor, cursor);
}

static void predicted_free(syn_graph *graph) {
    struct predicted *p = graph->self;
    syn_graph_free(p->graph);
    syn_free(p);
    syn_graph_free_meta(graph);
    syn_free(graph->ranks);
    syn_free(graph);
}

static const syn_graph_source predicted_source = {predicted_node, predicted_tensor, predicted_free};

static syn_status is_preset(const syn_hardware *hw, bool *is, syn_error *err) {
    syn_hardware preset;
    syn_error none = {0};
    *is = false;
    for (const char *const *name = syn_hardware_presets(); *name != NULL; name++)
        if (strcmp(*name, hw->name) == 0 &&
            syn_hardware_load(&preset, *name, hw->stack.name, &none) == SYN_OK)
            return syn__hardware_same(hw, &preset, is, err);
    return SYN_OK;
}

syn_status syn_graph_set_hardware(syn_graph *graph, const syn_hardware *hw, syn_error *err) {
    char constants[64];
    bool preset;
    SYN_TRY(syn__hardware_constants(hw, constants, err));
    SYN_TRY(is_preset(hw, &preset, err));
    const syn_attribute list[] = {
        {.name = "hardware", .type = SYN_VALUE_TEXT, .text = hw->name},
        {.name = "stack", .type = SYN_VALUE_TEXT, .text = hw->stack.name},
        {.name = "hardware_constants", .type = SYN_VALUE_TEXT, .text = constants},
        {.name = "node_ranks", .i64 = hw->node_ranks},
    };
    for (size_t i = 0; i < (preset ? 2 : sizeof list / sizeof list[0]); i++)
        SYN_TRY(syn_graph_set_meta(graph, &list[i], err));
    return SYN_OK;
}

static bool is_replaced(const char *entry) {
    static const char *const names[] = {"oversubscribed", "multiprocessors", "hardware_constants",
                                        "node_ranks"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(entry, names[i]) == 0) return true;
    return false;
}

/* Copies the metadata of the run, but replaces the entries about the device, the machine and the
   stack. */
static syn_status set_metadata(syn_graph *g, const syn_graph *from, const syn_hardware *hw,
                               syn_error *err) {
    const syn_attribute own[] = {
        {.name = "device", .type = SYN_VALUE_TEXT, .text = "meta"},
    };
    const syn_attribute gpu = {.name = "multiprocessors", .i64 = hw->multiprocessors};
    if (gpu.i64 > 0) SYN_TRY(syn_graph_set_meta(g, &gpu, err)); /* first, as in syn_trace_graph */
    for (uint32_t i = 0; i < from->n_metadata; i++)
        if (!is_replaced(from->metadata[i].name))
            SYN_TRY(syn_graph_set_meta(g, &from->metadata[i], err));
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        SYN_TRY(syn_graph_set_meta(g, &own[i], err));
    return syn_graph_set_hardware(g, hw, err);
}

/* False if a rank has nodes but no tensors. */
static bool has_shapes(const syn_graph *graph) {
    for (uint32_t r = 0; r < graph->n_ranks; r++)
        if (graph->ranks[r].n_nodes > 0 && graph->ranks[r].n_tensors == 0) return false;
    return true;
}

static syn_status fill(syn_graph *g, syn_graph *from, const syn_hardware *hw, syn_error *err) {
    SYN_TRY(set_metadata(g, from, hw, err));
    g->ranks = syn_calloc(from->n_ranks, sizeof *g->ranks);
    if (!g->ranks) return SYN_FAIL_NOMEM(err, from->n_ranks * sizeof *g->ranks, "a graph");
    for (uint32_t r = 0; r < from->n_ranks; r++) {
        g->ranks[r] = from->ranks[r];
        g->ranks[r].work = NULL; /* the device work belongs to the measured run */
    }
    g->n_ranks = from->n_ranks;
    g->world_size = from->world_size;
    g->groups = from->groups;
    g->n_groups = from->n_groups;
    return SYN_OK;
}

syn_status syn_graph_predict(syn_graph **out, syn_graph *graph, const syn_hardware *hw,
                             syn_error *err) {
    if (!has_shapes(graph))
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "predictions need a trace with tensor shapes: tensor_trace_graph.json, not "
                        ".et or a PyTorch trace");
    syn_graph *g = syn_calloc(1, sizeof *g);
    struct predicted *p = syn_calloc(1, sizeof *p);
    syn_status s = g && p ? fill(g, graph, hw, err) : SYN_FAIL_NOMEM(err, sizeof *p, "a graph");
    if (s != SYN_OK) {
        if (g) syn_graph_free_meta(g);
        if (g) syn_free(g->ranks);
        syn_free(g);
        syn_free(p);
        return s;
    }
    *p = (struct predicted){graph, *hw};
    g->source = &predicted_source;
    g->self = p;
    *out = g;
    return SYN_OK;
}
