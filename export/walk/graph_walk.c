/* Helpers of the text writers; see graph_walk.h. */
#include "export/walk/graph_walk.h"

#include "syntorch/base/memory.h"

#include <stdlib.h>
#include <string.h>

syn_status syn__walk_ranks(const syn_graph *graph, const syn_export_options *options,
                           uint32_t *first, uint32_t *end, syn_error *err) {
    *first = 0;
    *end = graph->n_ranks;
    if (options == NULL || options->rank == NULL) return SYN_OK;
    for (uint32_t i = 0; i < graph->n_ranks; i++) {
        if (graph->ranks[i].rank != *options->rank) continue;
        *first = i;
        *end = i + 1;
        return SYN_OK;
    }
    return SYN_FAIL(err, SYN_E_INVALID, "rank %d is not in this graph, which has %u of %d ranks",
                    (int)*options->rank, (unsigned)graph->n_ranks, (int)graph->world_size);
}

bool syn__walk_is_comm(const syn_node *node) {
    return node->kind == SYN_NODE_COLLECTIVE || node->kind == SYN_NODE_SEND ||
           node->kind == SYN_NODE_RECV;
}

void syn__walk_init(syn__walk *walk, const syn_graph *graph) {
    memset(walk, 0, sizeof *walk);
    walk->graph = graph;
    walk->rank_index = UINT32_MAX;
}

static void free_tables(syn__walk *walk) {
    syn_free(walk->ids);
    syn_free(walk->comm);
    syn_free(walk->producers);
    walk->ids = NULL;
    walk->comm = NULL;
    walk->producers = NULL;
    walk->rank_index = UINT32_MAX;
}

void syn__walk_free(syn__walk *walk) {
    free_tables(walk);
    syn_free(walk->uses);
    syn_free(walk->sources);
    syn_cursor_free(&walk->node_cursor);
    syn_cursor_free(&walk->tensor_cursor);
}

/* Fails because a read returned NULL. If the cursor has no error, memory is out. */
static syn_status cursor_failed(const syn_cursor *cursor, syn_error *err) {
    const syn_status code = cursor->error.code != SYN_OK ? cursor->error.code : SYN_E_NOMEM;
    return SYN_FAIL(err, code, "%s",
                    cursor->error.code != SYN_OK ? cursor->error.text
                                                 : "out of memory while reading the graph");
}

syn_status syn__walk_node(syn__walk *walk, uint32_t index, const syn_node **out, syn_error *err) {
    *out = syn_graph_node(walk->graph, walk->rank_index, index, &walk->node_cursor);
    return *out != NULL ? SYN_OK : cursor_failed(&walk->node_cursor, err);
}

syn_status syn__walk_tensor(syn__walk *walk, uint32_t index, const syn_graph_tensor **out,
                            syn_error *err) {
    *out = syn_graph_tensor_at(walk->graph, walk->rank_index, index, &walk->tensor_cursor);
    return *out != NULL ? SYN_OK : cursor_failed(&walk->tensor_cursor, err);
}

void syn__walk_select(syn__walk *walk, uint32_t rank_index) {
    if (walk->rank_index != rank_index) free_tables(walk);
    walk->rank_index = rank_index;
    walk->rank = walk->graph->ranks[rank_index].rank;
}

static syn_status fill_tables(syn__walk *walk, syn_error *err) {
    const syn_graph_rank *rank = &walk->graph->ranks[walk->rank_index];
    for (uint32_t i = 0; i < rank->n_nodes; i++) {
        const syn_node *node;
        SYN_TRY(syn__walk_node(walk, i, &node, err));
        walk->ids[i] = node->id;
        walk->comm[i] = syn__walk_is_comm(node);
    }
    for (uint32_t i = 0; i < rank->n_tensors; i++) {
        const syn_graph_tensor *tensor;
        SYN_TRY(syn__walk_tensor(walk, i, &tensor, err));
        walk->producers[i] = tensor->producer;
    }
    return SYN_OK;
}

syn_status syn__walk_load(syn__walk *walk, uint32_t rank_index, syn_error *err) {
    if (walk->rank_index == rank_index && walk->ids != NULL) return SYN_OK;
    free_tables(walk);
    syn__walk_select(walk, rank_index);
    const syn_graph_rank *rank = &walk->graph->ranks[rank_index];
    walk->ids = syn_calloc(rank->n_nodes, sizeof *walk->ids);
    walk->comm = syn_calloc(rank->n_nodes, sizeof *walk->comm);
    walk->producers = syn_calloc(rank->n_tensors, sizeof *walk->producers);
    if (walk->ids == NULL || walk->comm == NULL || walk->producers == NULL) {
        free_tables(walk);
        return SYN_FAIL(err, SYN_E_NOMEM, "out of memory for the ids of %u nodes and %u tensors",
                        (unsigned)rank->n_nodes, (unsigned)rank->n_tensors);
    }
    const syn_status status = fill_tables(walk, err);
    if (status != SYN_OK) free_tables(walk);
    return status;
}

static int compare_uses(const void *a, const void *b) {
    const syn__use *x = a, *y = b;
    if (x->tensor != y->tensor) return x->tensor < y->tensor ? -1 : 1;
    return x->position < y->position ? -1 : x->position > y->position;
}

static int compare_u32(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

syn_status syn__walk_uses(syn__walk *walk, const uint32_t *tensors, uint32_t n, syn_error *err) {
    SYN_TRY(syn_grow(&walk->uses, &walk->uses_cap, n, sizeof *walk->uses, err));
    bool sorted = true;
    for (uint32_t i = 0; i < n; i++) {
        walk->uses[i] = (syn__use){tensors[i], i};
        if (i > 0 && tensors[i] < tensors[i - 1]) sorted = false;
    }
    if (!sorted) qsort(walk->uses, n, sizeof *walk->uses, compare_uses);
    return SYN_OK;
}

/* Fills walk->sources with the producers of the node's inputs in ascending order. Inputs without a
   producer are omitted. */
static syn_status input_sources(syn__walk *walk, const syn_node *node, uint32_t *out_n,
                                syn_error *err) {
    SYN_TRY(
        syn_grow(&walk->sources, &walk->sources_cap, node->n_inputs, sizeof *walk->sources, err));
    uint32_t n = 0;
    bool sorted = true;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const uint32_t producer = walk->producers[node->inputs[i]];
        if (producer == SYN_NO_NODE) continue;
        if (n > 0 && producer < walk->sources[n - 1]) sorted = false;
        walk->sources[n++] = producer;
    }
    if (!sorted) qsort(walk->sources, n, sizeof *walk->sources, compare_u32);
    *out_n = n;
    return SYN_OK;
}

syn_status syn__walk_deps(syn__walk *walk, const syn_node *node, syn__dep_fn *edge, void *arg,
                          syn_error *err) {
    uint32_t n_sources = 0, s = 0;
    SYN_TRY(input_sources(walk, node, &n_sources, err));
    for (uint32_t i = 0; i < node->n_deps;) {
        const uint32_t from = node->deps[i].node;
        uint32_t classes = 0;
        for (; i < node->n_deps && node->deps[i].node == from; i++) {
            if (node->deps[i].dep_class < SYN_DEP_COUNT) classes |= 1u << node->deps[i].dep_class;
        }
        while (s < n_sources && walk->sources[s] < from) s++;
        if (s < n_sources && walk->sources[s] == from) classes &= ~(1u << SYN_DEP_DATA);
        if (classes != 0) edge(arg, from, classes);
    }
    return SYN_OK;
}

size_t syn__walk_layer_prefix(const char *scope) {
    size_t begin = 0;
    for (size_t i = 0;; i++) {
        if (scope[i] != '.' && scope[i] != '\0') continue;
        bool digits = i > begin && begin > 0;
        for (size_t k = begin; k < i; k++) digits = digits && scope[k] >= '0' && scope[k] <= '9';
        if (digits) return i;
        if (scope[i] == '\0') return 0;
        begin = i + 1;
    }
}

int32_t syn__walk_layer(const char *scope) {
    const size_t end = syn__walk_layer_prefix(scope);
    size_t begin = end;
    int64_t layer = 0;
    if (end == 0) return -1;
    while (scope[begin - 1] != '.') begin--;
    for (; begin < end && layer <= INT32_MAX; begin++) layer = 10 * layer + (scope[begin] - '0');
    return layer <= INT32_MAX ? (int32_t)layer : -1;
}

void syn__walk_put_ref(syn_sink *sink, int32_t rank, char kind, uint64_t number) {
    syn_sink_char(sink, 'r');
    syn_sink_i64(sink, rank);
    syn_sink_char(sink, '.');
    syn_sink_char(sink, kind);
    syn_sink_u64(sink, number);
}

void syn__walk_put_shape(syn_sink *sink, const syn_spec *spec) {
    syn_sink_char(sink, '[');
    for (int32_t i = 0; i < spec->rank && i < SYN_MAX_RANK; i++) {
        if (i > 0) syn_sink_char(sink, ',');
        syn_sink_i64(sink, spec->dims[i]);
    }
    syn_sink_char(sink, ']');
}

void syn__walk_put_classes(syn_sink *sink, uint32_t classes) {
    bool first = true;
    for (int c = 0; c < SYN_DEP_COUNT; c++) {
        if ((classes >> c & 1u) == 0) continue;
        if (!first) syn_sink_char(sink, '|');
        syn_sink_text(sink, syn_dep_class_name((syn_dep_class)c));
        first = false;
    }
}

void syn__walk_put_role(syn_sink *sink, uint32_t tensor_flags) {
    static const char *const names[] = {"param", "input", "state"};
    bool first = true;
    for (unsigned i = 0; i < 3; i++) {
        if ((tensor_flags >> i & 1u) == 0) continue;
        if (!first) syn_sink_char(sink, '|');
        syn_sink_text(sink, names[i]);
        first = false;
    }
    if (first) syn_sink_text(sink, "activation");
}

bool syn__walk_is_foreign(const syn_graph *graph) {
    const syn_attribute *source = syn_graph_meta(graph, "source");
    return source != NULL && source->type == SYN_VALUE_TEXT && source->text != NULL &&
           strcmp(source->text, "pytorch") == 0;
}

bool syn__walk_is_range(const syn_node *node) {
    enum { USER_SCOPE = 7 };
    for (uint32_t i = 0; i < node->n_attributes; i++)
        if (node->attributes[i].type == SYN_VALUE_I64 &&
            strcmp(node->attributes[i].name, "scope") == 0)
            return node->attributes[i].i64 == USER_SCOPE;
    return false;
}

bool syn__walk_is_idle_range(const syn_node *node) {
    return !syn__walk_is_comm(node) && syn__walk_is_range(node);
}

/* The metadata "step" is the number of the last step. */
int64_t syn__walk_step_number(const syn_graph *graph, uint32_t step, uint32_t last) {
    const syn_attribute *fact = syn_graph_meta(graph, "step");
    const bool counts = fact != NULL && fact->type == SYN_VALUE_I64 && fact->i64 >= last;
    return step + (counts ? fact->i64 - last : 0);
}
