/* Reads graphs and their metadata. Graphs are implemented in trace_graph.c, graph_store.c,
   graph_union.c and hardware/graph_predict.c. */
#include "syntorch/graph/graph.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "syntorch/base/memory.h"
#include "syntorch/base/number.h"

#define NAME_OF(table, value) \
    ((size_t)(value) < sizeof(table) / sizeof((table)[0]) ? (table)[(size_t)(value)] : "?")

#define SYN_X(id, name) name,

const char *syn_node_kind_name(syn_node_kind kind) {
    static const char *const names[] = {SYN_NODE_KIND_LIST(SYN_X)};
    return NAME_OF(names, kind);
}

const char *syn_dep_class_name(syn_dep_class c) {
    static const char *const names[] = {SYN_DEP_LIST(SYN_X)};
    return NAME_OF(names, c);
}

const char *syn_category_name(syn_category c) {
    static const char *const names[] = {SYN_CATEGORY_LIST(SYN_X)};
    return NAME_OF(names, c);
}

#undef SYN_X

double syn_node_wait_ns(const syn_node *node) {
    const bool is_comm = node->kind == SYN_NODE_COLLECTIVE || node->kind == SYN_NODE_SEND ||
                         node->kind == SYN_NODE_RECV;
    if (!is_comm || !(node->wait_ns > 0) || !(node->wall_ns >= 0)) return 0;
    return node->wait_ns < node->wall_ns ? node->wait_ns : node->wall_ns;
}

double syn_node_busy_ns(const syn_node *node) {
    return node->wall_ns >= 0 ? node->wall_ns - syn_node_wait_ns(node) : SYN_NO_TIME;
}

const syn_node *syn_graph_node(const syn_graph *graph, uint32_t rank, uint32_t node,
                               syn_cursor *cursor) {
    assert(rank < graph->n_ranks && node < graph->ranks[rank].n_nodes);
    return graph->source->node(graph, rank, node, cursor);
}

const syn_graph_tensor *syn_graph_tensor_at(const syn_graph *graph, uint32_t rank, uint32_t tensor,
                                            syn_cursor *cursor) {
    assert(rank < graph->n_ranks && tensor < graph->ranks[rank].n_tensors);
    return graph->source->tensor(graph, rank, tensor, cursor);
}

/* Group ids are usually 1 .. n, or at least ascending, so the fast searches for these cases come
   first. Neither order is guaranteed, so a linear search follows. */
const syn_graph_group *syn_graph_group_by_id(const syn_graph *graph, uint32_t id) {
    const syn_graph_group *groups = graph->groups;
    if (id >= 1 && id <= graph->n_groups && groups[id - 1].id == id) return &groups[id - 1];
    uint32_t low = 0, high = graph->n_groups;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (groups[middle].id == id) return &groups[middle];
        if (groups[middle].id < id) low = middle + 1;
        else high = middle;
    }
    for (uint32_t i = 0; i < graph->n_groups; i++) {
        if (groups[i].id == id) return &groups[i];
    }
    return NULL;
}

const syn_attribute *syn_graph_meta(const syn_graph *graph, const char *name) {
    for (uint32_t i = 0; i < graph->n_metadata; i++) {
        if (strcmp(graph->metadata[i].name, name) == 0) return &graph->metadata[i];
    }
    return NULL;
}

/* Copies as many whole characters as fit. */
static void copy_text(const char *text, char *buf, size_t buf_bytes) {
    size_t bytes = strlen(text);
    if (bytes >= buf_bytes) {
        bytes = buf_bytes - 1;
        while (bytes > 0 && ((unsigned char)text[bytes] & 0xC0u) == 0x80u) bytes--;
    }
    memcpy(buf, text, bytes);
    buf[bytes] = '\0';
}

const char *syn_attribute_text(const syn_attribute *a, char *buf, size_t buf_bytes) {
    char number[SYN_NUMBER_TEXT];
    assert(buf_bytes > 0);
    switch (a->type) {
    case SYN_VALUE_I64:
        snprintf(number, sizeof number, "%" PRId64, a->i64);
        break;
    case SYN_VALUE_F64:
        (void)syn_number_text(a->f64, number);
        break;
    case SYN_VALUE_BOOL:
        copy_text(a->i64 != 0 ? "true" : "false", buf, buf_bytes);
        return buf;
    default:
        copy_text(a->text != NULL ? a->text : "", buf, buf_bytes);
        return buf;
    }
    copy_text(number, buf, buf_bytes);
    return buf;
}

void syn_cursor_free(syn_cursor *cursor) {
    if (cursor == NULL) return;
    syn_free(cursor->deps);
    syn_free(cursor->ids);
    syn_free(cursor->operands);
    syn_free(cursor->text);
    cursor->deps = NULL;
    cursor->ids = NULL;
    cursor->operands = NULL;
    cursor->text = NULL;
    cursor->deps_cap = cursor->ids_cap = cursor->operands_cap = cursor->text_cap = 0;
}

void syn_graph_free(syn_graph *graph) {
    if (graph != NULL) graph->source->free(graph);
}

const syn_node_work *syn_graph_work(const syn_graph *graph, uint32_t rank, const syn_node *node) {
    return syn_work_of(graph->ranks[rank].work, node->id);
}

/* ---- Metadata ---- */

syn_status syn_graph_set_meta(syn_graph *graph, const syn_attribute *entry, syn_error *err) {
    enum { MAX_METADATA = 4096 }; /* limited, because entries are found by linear search */
    const bool is_text = entry->type == SYN_VALUE_TEXT;
    if (graph->n_metadata >= MAX_METADATA)
        return SYN_FAIL(err, SYN_E_FORMAT, "a graph has at most %d metadata entries", MAX_METADATA);
    SYN_TRY(syn_grow(&graph->metadata, &graph->metadata_cap, (size_t)graph->n_metadata + 1,
                     sizeof *graph->metadata, err));
    char *name = syn_strdup(entry->name);
    char *text = is_text ? syn_strdup(entry->text != NULL ? entry->text : "") : NULL;
    if (name == NULL || (is_text && text == NULL)) {
        syn_free(text);
        syn_free(name);
        return SYN_FAIL_NOMEM(err, strlen(entry->name) + 1, "a metadata entry");
    }
    uint32_t at = 0;
    while (at < graph->n_metadata && strcmp(graph->metadata[at].name, name) != 0) at++;
    if (at < graph->n_metadata) {
        syn_free((void *)(uintptr_t)graph->metadata[at].name);
        syn_free((void *)(uintptr_t)graph->metadata[at].text);
    } else {
        graph->n_metadata++;
    }
    graph->metadata[at] = (syn_attribute){name, entry->type, entry->i64, entry->f64, text};
    return SYN_OK;
}

void syn_graph_free_meta(syn_graph *graph) {
    for (uint32_t i = 0; i < graph->n_metadata; i++) {
        syn_free((void *)(uintptr_t)graph->metadata[i].name);
        syn_free((void *)(uintptr_t)graph->metadata[i].text);
    }
    syn_free(graph->metadata);
}
