/* Reads the names of ranks and divides kinds of ranks; see rank_kinds.h. */
#include "export/walk/rank_kinds.h"

#include "syntorch/base/memory.h"

#include <string.h>

/* Names in addition to syn__name_kind: the two ends and the tag of messages, and the ranks of a
   group, because groups with the same ranks share links (timeline.h). */
enum { CHANNEL = SYN__NAME_KINDS, LINKS };

typedef struct name_key {
    uint32_t kind;
    int32_t number, other, tag;
} name_key;

typedef struct syn__name_use {
    uint32_t rank, number; /* rank: index plus one */
} name_use;

static uint64_t mix(uint64_t hash, uint64_t value) {
    return syn_hash(&value, sizeof value, hash);
}

static const name_key *key_of(const syn__rank_names *n, uint32_t name) {
    return syn_intern_get(&n->table, name);
}

/* Whether ranks meet at the name. */
static bool is_joint(const syn__rank_names *n, uint32_t name) {
    const uint32_t kind = key_of(n, name)->kind;
    return kind == SYN__NAME_GROUP || kind == CHANNEL;
}

static uint32_t names_of(const syn__rank_names *n, uint32_t rank, const uint32_t **names) {
    *names = n->names != NULL ? n->names + n->first[rank] : NULL;
    return (uint32_t)(n->first[rank + 1] - n->first[rank]);
}

/* ---- Reading ---- */

/* Adds the number of a name on the current rank to the rank's hash. */
static syn_status use(syn__rank_names *n, uint32_t rank, name_key key, syn_error *err) {
    uint32_t id;
    const size_t before = n->table.n_entries;
    SYN_TRY(syn_intern_put(&n->table, &key, sizeof key, &id, err));
    SYN_TRY(syn_grow(&n->uses, &n->uses_cap, n->table.n_entries, sizeof *n->uses, err));
    if (n->table.n_entries > before) n->uses[id] = (name_use){0, 0};
    name_use *u = &n->uses[id];
    if (u->rank != rank + 1) {
        *u = (name_use){rank + 1, (uint32_t)(n->n_names - n->first[rank])};
        SYN_TRY(syn_grow(&n->names, &n->names_cap, n->n_names + 1, sizeof *n->names, err));
        n->names[n->n_names++] = id;
    }
    n->hash[rank] = mix(n->hash[rank], (uint64_t)key.kind << 32 | u->number);
    return SYN_OK;
}

static syn_status use_group(syn__rank_names *n, uint32_t rank, uint32_t id, syn_error *err) {
    const syn_graph_group *g = syn_graph_group_by_id(n->graph, id);
    uint32_t links;
    SYN_TRY(use(n, rank, (name_key){SYN__NAME_GROUP, (int32_t)id, 0, 0}, err));
    if (g == NULL) return SYN_OK;
    SYN_TRY(syn_intern_put(&n->links, g->ranks, g->n_ranks * sizeof *g->ranks, &links, err));
    return use(n, rank, (name_key){LINKS, (int32_t)links, 0, 0}, err);
}

static syn_status use_message(syn__rank_names *n, uint32_t rank, const syn_node *node,
                              syn_error *err) {
    const int32_t self = n->graph->ranks[rank].rank, peer = node->peer;
    const name_key channel = {CHANNEL, self < peer ? self : peer, self < peer ? peer : self,
                              node->tag};
    SYN_TRY(use(n, rank, (name_key){SYN__NAME_PEER, peer, 0, 0}, err));
    SYN_TRY(use(n, rank, (name_key){SYN__NAME_TAG, node->tag, 0, 0}, err));
    return use(n, rank, channel, err);
}

static uint64_t bits_of(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Adds a node to the rank's hash. Some numbers suffice, because ranks with equal hashes are
   compared. */
static syn_status read_node(syn__rank_names *n, uint32_t rank, const syn_node *node,
                            syn_error *err) {
    const uint64_t numbers[] = {
        (uint64_t)node->kind << 32 | node->step,
        (uint64_t)node->n_inputs << 32 | node->n_outputs,
        node->flops,
        node->bytes_read,
        node->bytes_written,
        node->comm_bytes,
        bits_of(node->start_ns),
        bits_of(node->wall_ns),
        bits_of(node->predicted_ns),
    };
    n->hash[rank] = syn_hash(numbers, sizeof numbers, n->hash[rank]);
    if (node->group != 0) SYN_TRY(use_group(n, rank, node->group, err));
    const bool message = node->kind == SYN_NODE_SEND || node->kind == SYN_NODE_RECV;
    return message ? use_message(n, rank, node, err) : SYN_OK;
}

static syn_status read_rank(syn__rank_names *n, uint32_t rank, syn_cursor *cursor, syn_error *err) {
    const syn_graph_rank *r = &n->graph->ranks[rank];
    n->first[rank] = n->n_names;
    n->hash[rank] = (uint64_t)r->n_nodes << 32 | r->n_tensors;
    for (uint32_t i = 0; i < r->n_nodes; i++) {
        const syn_node *node = syn_graph_node(n->graph, rank, i, cursor);
        if (node == NULL) return SYN_FAIL(err, cursor->error.code, "%s", cursor->error.text);
        SYN_TRY(read_node(n, rank, node, err));
    }
    n->first[rank + 1] = n->n_names;
    return SYN_OK;
}

syn_status syn__rank_names_read(syn__rank_names *out, const syn_graph *graph, syn_error *err) {
    syn_cursor cursor = {0};
    syn_status status = SYN_OK;
    *out = (syn__rank_names){.graph = graph};
    out->first = syn_calloc((size_t)graph->n_ranks + 1, sizeof *out->first);
    out->hash = syn_calloc(graph->n_ranks, sizeof *out->hash);
    if (out->first == NULL || out->hash == NULL)
        return SYN_FAIL_NOMEM(err, graph->n_ranks * 2 * sizeof *out->first, "the ranks of a graph");
    for (uint32_t r = 0; r < graph->n_ranks && status == SYN_OK; r++)
        status = read_rank(out, r, &cursor, err);
    syn_cursor_free(&cursor);
    return status;
}

void syn__rank_names_free(syn__rank_names *n) {
    syn_intern_free(&n->table);
    syn_intern_free(&n->links);
    syn_free(n->names);
    syn_free(n->first);
    syn_free(n->hash);
    syn_free(n->uses);
    *n = (syn__rank_names){0};
}

syn_status syn__rank_names_compare(const syn__rank_names *n, uint32_t a, uint32_t b,
                                   syn__renaming *out, bool *same, syn_error *err) {
    const uint32_t *of, *own, n_names = names_of(n, a, &of);
    *same = names_of(n, b, &own) == n_names;
    for (uint32_t i = 0; i < n_names && *same; i++) {
        const name_key x = *key_of(n, of[i]), y = *key_of(n, own[i]);
        *same = x.kind == y.kind;
        if (x.kind >= SYN__NAME_KINDS || x.number == y.number) continue;
        const bool group = x.kind == SYN__NAME_GROUP; /* ids of groups are unsigned */
        const syn__renamed name = {(syn__name_kind)x.kind,
                                   group ? (int64_t)(uint32_t)x.number : x.number,
                                   group ? (int64_t)(uint32_t)y.number : y.number};
        SYN_TRY(syn__renaming_add(out, name, err));
    }
    syn__renaming_sort(out);
    return SYN_OK;
}

/* ---- Kinds ---- */

typedef struct division {
    const syn__rank_names *names;
    uint32_t *of;
    uint64_t *joints; /* per name: a sum over the ranks that use it */
    uint64_t *signs;  /* per rank: what its new kind depends on */
    uint8_t *held;    /* per name: whether the first rank of a kind uses it */
    syn_error *err;
} division;

/* Divides each kind by the signs of its ranks. *n: the number of kinds. */
static syn_status divide(division *d, uint32_t *n) {
    const uint32_t n_ranks = d->names->graph->n_ranks;
    syn_intern kinds = {0};
    uint32_t *first = syn_calloc(n_ranks, sizeof *first), id = 0;
    syn_status status =
        first != NULL ? SYN_OK
                      : SYN_FAIL_NOMEM(d->err, n_ranks * sizeof *first, "the ranks of a graph");
    for (uint32_t r = 0; r < n_ranks && status == SYN_OK; r++) {
        const uint64_t key[2] = {d->of[r], d->signs[r]};
        const size_t before = kinds.n_entries;
        status = syn_intern_put(&kinds, key, sizeof key, &id, d->err);
        if (status != SYN_OK) break;
        if (kinds.n_entries > before) first[id] = r;
        d->of[r] = first[id];
    }
    *n = (uint32_t)kinds.n_entries;
    syn_intern_free(&kinds);
    syn_free(first);
    return status;
}

/* Signs each rank by the kinds of the ranks that it meets, and by the numbers that the meeting has
   on each of them. */
static void sign_by_joints(division *d) {
    const syn__rank_names *n = d->names;
    memset(d->joints, 0, n->table.n_entries * sizeof *d->joints);
    for (uint32_t r = 0; r < n->graph->n_ranks; r++) {
        const uint32_t *names, n_names = names_of(n, r, &names);
        for (uint32_t i = 0; i < n_names; i++)
            if (is_joint(n, names[i])) d->joints[names[i]] += mix(d->of[r], i);
    }
    for (uint32_t r = 0; r < n->graph->n_ranks; r++) {
        const uint32_t *names, n_names = names_of(n, r, &names);
        d->signs[r] = 0;
        for (uint32_t i = 0; i < n_names; i++)
            if (is_joint(n, names[i])) d->signs[r] = mix(d->signs[r], d->joints[names[i]]);
    }
}

/* Signs each rank by its names, and ranks with messages by their own number. */
static void sign_by_names(division *d) {
    const syn__rank_names *n = d->names;
    for (uint32_t r = 0; r < n->graph->n_ranks; r++) {
        const uint32_t *names, n_names = names_of(n, r, &names);
        d->signs[r] = syn_hash(names, n_names * sizeof *names, 0);
        for (uint32_t i = 0; i < n_names; i++)
            if (key_of(n, names[i])->kind == CHANNEL) d->signs[r] = mix(d->signs[r], r);
    }
}

/* Whether the first ranks of the kinds only communicate with each other. A rank that meets one of
   them in a group must be represented there by the first rank of its kind. */
static bool is_closed(division *d) {
    const syn__rank_names *n = d->names;
    memset(d->held, 0, n->table.n_entries);
    for (uint32_t r = 0; r < n->graph->n_ranks; r++) {
        const uint32_t *names, n_names = d->of[r] == r ? names_of(n, r, &names) : 0;
        for (uint32_t i = 0; i < n_names; i++) d->held[names[i]] = 1;
    }
    for (uint32_t r = 0; r < n->graph->n_ranks; r++) {
        const uint32_t *names, *first, n_names = d->of[r] != r ? names_of(n, r, &names) : 0;
        (void)names_of(n, d->of[r], &first);
        for (uint32_t i = 0; i < n_names; i++) {
            const uint32_t kind = key_of(n, names[i])->kind;
            if (!d->held[names[i]]) continue;
            if (kind == CHANNEL || (kind == SYN__NAME_GROUP && first[i] != names[i])) return false;
        }
    }
    return true;
}

static syn_status divide_all(division *d) {
    uint32_t n = 0, before = 0;
    do {
        before = n;
        sign_by_joints(d);
        SYN_TRY(divide(d, &n));
    } while (n != before);
    if (is_closed(d)) return SYN_OK;
    sign_by_names(d);
    return divide(d, &n);
}

syn_status syn__rank_kinds_divide(const syn__rank_names *names, uint32_t *of, syn_error *err) {
    const size_t n_names = names->table.n_entries, n_ranks = names->graph->n_ranks;
    division d = {names,
                  of,
                  syn_calloc(n_names + 1, sizeof *d.joints),
                  syn_calloc(n_ranks + 1, sizeof *d.signs),
                  syn_calloc(n_names + 1, 1),
                  err};
    const bool ok = d.joints != NULL && d.signs != NULL && d.held != NULL;
    const syn_status status =
        ok ? divide_all(&d)
           : SYN_FAIL_NOMEM(err, (n_names + n_ranks) * sizeof *d.joints, "the kinds of ranks");
    syn_free(d.joints);
    syn_free(d.signs);
    syn_free(d.held);
    return status;
}
