/* Finds identical ranks; see copies.h. Ranks that are identical are of one kind. Each rank is
   compared with the first rank of each kind found so far. */
#include "export/walk/copies.h"

#include "syntorch/base/memory.h"

#include <string.h>

#define MAX_KINDS 64     /* number of kinds with which a rank is compared */
#define LARGE     100000 /* AUTO writes graphs of up to this many ops in full */

static bool same_text(const char *a, const char *b) {
    return a == b || strcmp(a != NULL ? a : "", b != NULL ? b : "") == 0;
}

static bool same_value(const syn_attribute *a, const syn_attribute *b) {
    if (a->type != b->type || !same_text(a->name, b->name)) return false;
    if (a->type == SYN_VALUE_TEXT) return same_text(a->text, b->text);
    if (a->type == SYN_VALUE_F64) return memcmp(&a->f64, &b->f64, sizeof a->f64) == 0;
    return a->i64 == b->i64;
}

bool syn__copies_same_attributes(const syn_node *a, const syn_node *b) {
    if (a->n_attributes != b->n_attributes) return false;
    for (uint32_t i = 0; i < a->n_attributes; i++)
        if (!same_value(&a->attributes[i], &b->attributes[i])) return false;
    return true;
}

static bool same_u32(const uint32_t *a, uint32_t n_a, const uint32_t *b, uint32_t n_b) {
    return n_a == n_b && (n_a == 0 || memcmp(a, b, n_a * sizeof *a) == 0);
}

static bool same_deps(const syn_node *a, const syn_node *b) {
    if (a->n_deps != b->n_deps) return false;
    for (uint32_t i = 0; i < a->n_deps; i++)
        if (a->deps[i].node != b->deps[i].node || a->deps[i].dep_class != b->deps[i].dep_class)
            return false;
    return true;
}

static bool same_comm(const syn_node *a, const syn_node *b) {
    return a->comm == b->comm && a->reduce == b->reduce && a->group == b->group &&
           a->comm_bytes == b->comm_bytes && a->comm_index == b->comm_index && a->peer == b->peer &&
           a->tag == b->tag && a->root == b->root;
}

static bool same_times(const syn_node *a, const syn_node *b) {
    return a->start_ns == b->start_ns && a->wall_ns == b->wall_ns && a->cpu_ns == b->cpu_ns &&
           a->wait_ns == b->wait_ns && a->predicted_ns == b->predicted_ns;
}

/* Whether two nodes are equal in everything except attributes. */
static bool same_node(const syn_node *a, const syn_node *b) {
    if (a->kind == SYN_NODE_SEND || a->kind == SYN_NODE_RECV) return false;
    return same_times(a, b) && a->id == b->id && a->kind == b->kind && a->category == b->category &&
           a->flags == b->flags && a->phase == b->phase && a->step == b->step &&
           a->stream == b->stream && a->flops == b->flops && a->bytes_read == b->bytes_read &&
           a->bytes_written == b->bytes_written && same_comm(a, b) && same_deps(a, b) &&
           same_u32(a->inputs, a->n_inputs, b->inputs, b->n_inputs) &&
           same_u32(a->outputs, a->n_outputs, b->outputs, b->n_outputs) &&
           same_text(a->op, b->op) && same_text(a->label, b->label) &&
           same_text(a->scope, b->scope);
}

typedef struct comparison {
    const syn_graph *graph;
    uint32_t a, b; /* rank indices */
    syn_cursor in_a, in_b;
    uint32_t n_changed;
    syn_error *err;
} comparison;

/* The position of a rank in a group; -1 if it is not a member. Most groups have a constant
   stride. */
static int place_in(const syn_graph_group *g, int32_t rank) {
    const int64_t step = g->n_ranks > 1 ? (int64_t)g->ranks[1] - g->ranks[0] : 1;
    const int64_t guess = step != 0 ? ((int64_t)rank - g->ranks[0]) / step : 0;
    if (guess >= 0 && guess < g->n_ranks && g->ranks[guess] == rank) return (int)guess;
    for (uint32_t i = 0; i < g->n_ranks; i++)
        if (g->ranks[i] == rank) return (int)i;
    return -1;
}

int syn__copies_shard(const syn_graph *graph, int32_t of, int32_t copy, const syn_shard *shard) {
    for (uint32_t i = 0; i < graph->n_groups; i++) {
        const syn_graph_group *g = &graph->groups[i];
        if (g->n_ranks != (uint32_t)shard->count || g->ranks[shard->index] != of) continue;
        const int place = place_in(g, copy);
        if (place >= 0) return place;
    }
    return -1;
}

static bool same_shard(const comparison *c, const syn_shard *a, const syn_shard *b) {
    return a->count == b->count && a->axis == b->axis && a->parts == b->parts &&
           (a->count == 0 || syn__copies_shard(c->graph, c->graph->ranks[c->a].rank,
                                               c->graph->ranks[c->b].rank, a) == b->index);
}

static bool same_tensor(const comparison *c, const syn_graph_tensor *a, const syn_graph_tensor *b) {
    return same_shard(c, &a->shard, &b->shard) && a->flags == b->flags &&
           a->producer == b->producer && a->base == b->base && syn_spec_equal(&a->spec, &b->spec) &&
           same_text(a->name, b->name);
}

/* ---- Ranks ---- */

static syn_status failed(comparison *c, const syn_cursor *cursor) {
    return SYN_FAIL(c->err, cursor->error.code != SYN_OK ? cursor->error.code : SYN_E_NOMEM, "%s",
                    cursor->error.code != SYN_OK ? cursor->error.text
                                                 : "out of memory while comparing ranks");
}

static syn_status compare_nodes(comparison *c, bool *same) {
    for (uint32_t i = 0; i < c->graph->ranks[c->a].n_nodes && *same; i++) {
        const syn_node *a = syn_graph_node(c->graph, c->a, i, &c->in_a);
        const syn_node *b = syn_graph_node(c->graph, c->b, i, &c->in_b);
        if (a == NULL || b == NULL) return failed(c, a == NULL ? &c->in_a : &c->in_b);
        *same = same_node(a, b);
        c->n_changed += !syn__copies_same_attributes(a, b);
        if (c->n_changed > 8 + i / 16) *same = false; /* too many differences to save space */
    }
    return SYN_OK;
}

static syn_status compare_tensors(comparison *c, bool *same) {
    for (uint32_t i = 0; i < c->graph->ranks[c->a].n_tensors && *same; i++) {
        const syn_graph_tensor *a = syn_graph_tensor_at(c->graph, c->a, i, &c->in_a);
        const syn_graph_tensor *b = syn_graph_tensor_at(c->graph, c->b, i, &c->in_b);
        if (a == NULL || b == NULL) return failed(c, a == NULL ? &c->in_a : &c->in_b);
        *same = same_tensor(c, a, b);
    }
    return SYN_OK;
}

static syn_status compare_ranks(comparison *c, bool *same) {
    const syn_graph_rank *a = &c->graph->ranks[c->a], *b = &c->graph->ranks[c->b];
    *same = a->n_nodes == b->n_nodes && a->n_tensors == b->n_tensors;
    c->n_changed = 0;
    if (!*same) return SYN_OK;
    SYN_TRY(compare_nodes(c, same));
    return compare_tensors(c, same);
}

/* Compares a rank with the first rank of each kind found so far. If it is identical to none of
   them, it begins a kind. */
static syn_status place(syn_copied_ranks *out, comparison *c, uint32_t rank, uint32_t *kinds,
                        uint32_t *n_kinds) {
    bool same = false;
    c->b = rank;
    out->of[rank] = rank;
    for (uint32_t k = 0; k < *n_kinds && !same; k++) {
        c->a = kinds[k];
        SYN_TRY(compare_ranks(c, &same));
    }
    if (same) {
        out->of[rank] = c->a;
        out->n_changed[rank] = c->n_changed;
        out->n++;
    } else if (*n_kinds < MAX_KINDS) {
        kinds[(*n_kinds)++] = rank;
    }
    return SYN_OK;
}

static syn_status find(syn_copied_ranks *out, const syn_graph *graph, syn_error *err) {
    comparison c = {.graph = graph, .err = err};
    uint32_t kinds[MAX_KINDS], n_kinds = 0;
    syn_status status = SYN_OK;
    out->of = syn_calloc(graph->n_ranks, sizeof *out->of);
    out->n_changed = syn_calloc(graph->n_ranks, sizeof *out->n_changed);
    if (out->of == NULL || out->n_changed == NULL)
        status = SYN_FAIL_NOMEM(err, graph->n_ranks * 2 * sizeof *out->of, "the ranks of a graph");
    for (uint32_t r = 0; r < graph->n_ranks && status == SYN_OK; r++)
        status = place(out, &c, r, kinds, &n_kinds);
    syn_cursor_free(&c.in_a);
    syn_cursor_free(&c.in_b);
    if (status != SYN_OK || out->n == 0) syn__copies_free(out);
    return status;
}

syn_status syn__copies_find(syn_copied_ranks *out, const syn_graph *graph,
                            const syn_export_options *options, syn_error *err) {
    const syn_copies how = options != NULL ? options->copies : SYN_COPIES_AUTO;
    const bool one = options != NULL && options->rank != NULL;
    *out = (syn_copied_ranks){0};
    if (!one && options != NULL && options->known_copies != NULL) {
        *out = *options->known_copies;
        out->borrowed = true;
        return SYN_OK;
    }
    if (one || how == SYN_COPIES_FULL || (how == SYN_COPIES_AUTO && !syn_graph_is_large(graph)))
        return SYN_OK;
    return find(out, graph, err);
}

void syn__copies_free(syn_copied_ranks *copies) {
    if (!copies->borrowed) {
        syn_free(copies->of);
        syn_free(copies->n_changed);
    }
    *copies = (syn_copied_ranks){0};
}

/* ---- For several exports ---- */

bool syn_graph_is_large(const syn_graph *graph) {
    uint64_t n_ops = 0;
    for (uint32_t r = 0; r < graph->n_ranks; r++) n_ops += graph->ranks[r].n_nodes;
    return n_ops > LARGE;
}

syn_status syn_copies_find(syn_copied_ranks **out, const syn_graph *graph,
                           const syn_export_options *options, syn_error *err) {
    *out = syn_calloc(1, sizeof **out);
    if (*out == NULL) return SYN_FAIL_NOMEM(err, sizeof **out, "the ranks of a graph");
    const syn_status status = syn__copies_find(*out, graph, options, err);
    if (status == SYN_OK) return SYN_OK;
    syn_free(*out);
    *out = NULL;
    return status;
}

uint32_t syn_copies_count(const syn_copied_ranks *copies) {
    return copies->n;
}

void syn_copies_free(syn_copied_ranks *copies) {
    if (copies != NULL) syn__copies_free(copies);
    syn_free(copies);
}
