/* Finds identical ranks; see copies.h. Ranks that are identical are of one kind. A hash of each
   rank finds the kinds that it may belong to, and the rank is compared with the first rank of each
   of them. Time is therefore linear in the number of ops. */
#include "export/walk/copies.h"

#include "export/walk/rank_kinds.h"
#include "syntorch/base/memory.h"

#include <string.h>

#define MAX_TRIES   8      /* number of kinds with the same hash with which a rank is compared */
#define MAX_TALLIES 32     /* number of different shards that are counted */
#define LARGE       100000 /* AUTO writes graphs of up to this many ops in full */

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
    return same_times(a, b) && a->id == b->id && a->kind == b->kind && a->category == b->category &&
           a->flags == b->flags && a->phase == b->phase && a->step == b->step &&
           a->stream == b->stream && a->flops == b->flops && a->bytes_read == b->bytes_read &&
           a->bytes_written == b->bytes_written && same_comm(a, b) && same_deps(a, b) &&
           same_u32(a->inputs, a->n_inputs, b->inputs, b->n_inputs) &&
           same_u32(a->outputs, a->n_outputs, b->outputs, b->n_outputs) &&
           same_text(a->op, b->op) && same_text(a->label, b->label) &&
           same_text(a->scope, b->scope);
}

/* Number of tensors with shard `index` of `count` that have shard `to` in the other rank. */
typedef struct tally {
    int32_t count, index, to;
    uint32_t n;
} tally;

typedef struct comparison {
    const syn_graph *graph;
    const syn__rank_names *names;
    uint32_t a, b; /* rank indices */
    syn_cursor in_a, in_b;
    syn__renaming renaming;
    syn__shard_places places;
    tally tallies[MAX_TALLIES];
    uint32_t n_tallies, n_changed, n_shards;
    syn_error *err;
} comparison;

static void count_shard(comparison *c, const syn_shard *a, int32_t to) {
    uint32_t i = 0;
    while (i < c->n_tallies && (c->tallies[i].count != a->count ||
                                c->tallies[i].index != a->index || c->tallies[i].to != to))
        i++;
    if (i == MAX_TALLIES) return;
    if (i == c->n_tallies) c->tallies[c->n_tallies++] = (tally){a->count, a->index, to, 0};
    c->tallies[i].n++;
}

static bool same_shard(comparison *c, const syn_shard *a, const syn_shard *b) {
    if (a->count != b->count || a->axis != b->axis || a->parts != b->parts) return false;
    if (a->count == 0) return true;
    c->n_shards += syn__shard_places_get(&c->places, a) != b->index;
    count_shard(c, a, b->index);
    return true;
}

static bool same_tensor(comparison *c, const syn_graph_tensor *a, const syn_graph_tensor *b) {
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
        syn_node renamed = *a;
        syn__rename_node(c->graph, &c->renaming, &renamed);
        *same = same_node(&renamed, b);
        c->n_changed += !syn__copies_same_attributes(a, b);
    }
    return SYN_OK;
}

static syn_status compare_tensors(comparison *c, bool *same) {
    c->n_shards = c->n_tallies = 0;
    for (uint32_t i = 0; i < c->graph->ranks[c->a].n_tensors && *same; i++) {
        const syn_graph_tensor *a = syn_graph_tensor_at(c->graph, c->a, i, &c->in_a);
        const syn_graph_tensor *b = syn_graph_tensor_at(c->graph, c->b, i, &c->in_b);
        if (a == NULL || b == NULL) return failed(c, a == NULL ? &c->in_a : &c->in_b);
        *same = same_tensor(c, a, b);
    }
    return SYN_OK;
}

/* Whether a tally is the largest one of its shard; the first of several. */
static bool is_most(const comparison *c, uint32_t i) {
    const tally *t = &c->tallies[i];
    for (uint32_t k = 0; k < c->n_tallies; k++) {
        const tally *u = &c->tallies[k];
        const bool other = k != i && u->count == t->count && u->index == t->index;
        if (other && (u->n > t->n || (u->n == t->n && k < i))) return false;
    }
    return true;
}

/* Adds shards to the renaming if most of their tensors have another shard than the groups say. For
   example, tensor parallelism and ZeRO may have the same number of shards. */
static syn_status rename_shards(comparison *c, bool *any) {
    *any = false;
    for (uint32_t i = 0; i < c->n_tallies; i++) {
        const tally *t = &c->tallies[i];
        const syn_shard shard = {.index = t->index, .count = t->count};
        const int64_t name = syn__shard_name(t->index, t->count);
        if (!is_most(c, i) || syn__shard_places_get(&c->places, &shard) == t->to) continue;
        *any = true;
        SYN_TRY(
            syn__renaming_add(&c->renaming, (syn__renamed){SYN__NAME_SHARD, name, t->to}, c->err));
    }
    syn__renaming_sort(&c->renaming);
    return SYN_OK;
}

static syn_status find_places(comparison *c) {
    const syn_graph_rank *ranks = c->graph->ranks;
    return syn__shard_places_find(&c->places, c->graph, ranks[c->a].rank, ranks[c->b].rank,
                                  &c->renaming, c->err);
}

/* Compares ranks a and b, and finds the renaming and the numbers of differences. */
static syn_status compare_ranks(comparison *c, uint32_t a, uint32_t b, bool *same) {
    const syn_graph_rank *x = &c->graph->ranks[a], *y = &c->graph->ranks[b];
    c->a = a;
    c->b = b;
    c->n_changed = 0;
    syn_free(c->renaming.at);
    c->renaming = (syn__renaming){0};
    *same = x->n_nodes == y->n_nodes && x->n_tensors == y->n_tensors;
    if (*same) SYN_TRY(syn__rank_names_compare(c->names, a, b, &c->renaming, same, c->err));
    if (!*same) return SYN_OK;
    SYN_TRY(find_places(c));
    SYN_TRY(compare_nodes(c, same));
    if (!*same) return SYN_OK;
    SYN_TRY(compare_tensors(c, same));
    bool renamed = false;
    if (*same && c->n_shards > 0) SYN_TRY(rename_shards(c, &renamed));
    if (!renamed) return SYN_OK;
    SYN_TRY(find_places(c));
    return compare_tensors(c, same);
}

/* Whether storing the differences of two equal ranks takes much less space than the rank. */
static bool is_worth_it(const comparison *c) {
    const syn_graph_rank *rank = &c->graph->ranks[c->a];
    return c->n_changed <= 8 + rank->n_nodes / 2 && c->n_shards <= 8 + rank->n_tensors / 2;
}

/* Stores the result of the last comparison. */
static void take(syn_copied_ranks *out, comparison *c) {
    syn_free(out->renamings[c->b].at);
    out->renamings[c->b] = c->renaming;
    out->n_changed[c->b] = c->n_changed;
    out->n_shards[c->b] = c->n_shards;
    c->renaming = (syn__renaming){0};
}

/* Finds the kind of a rank, whose first rank is out->of[rank]. If it is identical to no earlier
   rank, it begins a kind. */
static syn_status place(syn_copied_ranks *out, comparison *c, uint32_t rank, uint32_t *kinds,
                        uint32_t *n_kinds) {
    const uint64_t *hash = c->names->hash;
    out->of[rank] = rank;
    for (uint32_t k = 0, tries = 0; k < *n_kinds && tries < MAX_TRIES; k++) {
        bool same;
        if (hash[kinds[k]] != hash[rank]) continue;
        tries++;
        SYN_TRY(compare_ranks(c, kinds[k], rank, &same));
        if (!same || !is_worth_it(c)) continue;
        out->of[rank] = kinds[k];
        take(out, c);
        return SYN_OK;
    }
    kinds[(*n_kinds)++] = rank;
    return SYN_OK;
}

static syn_status place_all(syn_copied_ranks *out, comparison *c) {
    const uint32_t n_ranks = c->graph->n_ranks;
    uint32_t *kinds = syn_calloc(n_ranks, sizeof *kinds), n_kinds = 0;
    syn_status status =
        kinds != NULL ? SYN_OK
                      : SYN_FAIL_NOMEM(c->err, n_ranks * sizeof *kinds, "the ranks of a graph");
    for (uint32_t r = 0; r < n_ranks && status == SYN_OK; r++)
        status = place(out, c, r, kinds, &n_kinds);
    syn_free(kinds);
    return status;
}

/* Drops what place_all found about a rank that is of another kind after the kinds were divided. */
static void forget(syn_copied_ranks *out, uint32_t rank) {
    syn_free(out->renamings[rank].at);
    out->renamings[rank] = (syn__renaming){0};
    out->n_changed[rank] = out->n_shards[rank] = 0;
}

/* Divides the kinds. Ranks whose kind has another first rank than before are compared with it. */
static syn_status divide(syn_copied_ranks *out, comparison *c) {
    const uint32_t n_ranks = c->graph->n_ranks;
    uint32_t *before = syn_calloc(n_ranks, sizeof *before);
    if (before == NULL)
        return SYN_FAIL_NOMEM(c->err, n_ranks * sizeof *before, "the ranks of a graph");
    memcpy(before, out->of, n_ranks * sizeof *before);
    syn_status status = syn__rank_kinds_divide(c->names, out->of, c->err);
    for (uint32_t r = 0; r < n_ranks && status == SYN_OK; r++) {
        bool same = out->of[r] != r;
        if (out->of[r] != before[r]) forget(out, r);
        if (same && out->of[r] != before[r]) {
            status = compare_ranks(c, out->of[r], r, &same);
            if (same) take(out, c);
            else out->of[r] = r;
        }
        out->n += same;
    }
    syn_free(before);
    return status;
}

static syn_status start(syn_copied_ranks *out, syn__rank_names *names, const syn_graph *graph,
                        syn_error *err) {
    const size_t n = graph->n_ranks;
    out->of = syn_calloc(n, sizeof *out->of);
    out->n_changed = syn_calloc(n, sizeof *out->n_changed);
    out->n_shards = syn_calloc(n, sizeof *out->n_shards);
    out->renamings = syn_calloc(n, sizeof *out->renamings);
    if (out->of == NULL || out->n_changed == NULL || out->n_shards == NULL ||
        out->renamings == NULL)
        return SYN_FAIL_NOMEM(err, n * sizeof *out->renamings, "the ranks of a graph");
    out->n_ranks = (uint32_t)n;
    return syn__rank_names_read(names, graph, err);
}

static syn_status find(syn_copied_ranks *out, const syn_graph *graph, syn_error *err) {
    syn__rank_names names = {0};
    comparison c = {.graph = graph, .names = &names, .err = err};
    syn_status status = start(out, &names, graph, err);
    if (status == SYN_OK) status = place_all(out, &c);
    if (status == SYN_OK) status = divide(out, &c);
    syn__rank_names_free(&names);
    syn_cursor_free(&c.in_a);
    syn_cursor_free(&c.in_b);
    syn_free(c.renaming.at);
    syn__shard_places_free(&c.places);
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
        for (uint32_t r = 0; r < copies->n_ranks; r++) syn_free(copies->renamings[r].at);
        syn_free(copies->of);
        syn_free(copies->n_changed);
        syn_free(copies->n_shards);
        syn_free(copies->renamings);
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
