/* Checks that the communication of a trace set cannot deadlock. It runs the ops without their
   times, as a simulator would: an op after its dependencies; a collective when all its ranks have
   arrived; a receive after its send; and the collectives of a rank, with the sends between them, in
   launch order.
   If parts of traces are missing, ranks may wait for each other. Then one of the waiting
   communications is removed: the one that another rank would reach last. This is repeated until all
   ops run. The same is then done with the nodes that a simulator gets, because their delays add
   further dependencies; it is repeated until nothing is removed. */
#include "export/chakra/wire/et_node.h"
#include "export/pytorch/comm/pt_launch_order.h"
#include "export/pytorch/read/pt_sort.h"
#include "export/pytorch/set/pt_set_entries.h"
#include "export/pytorch/sim/pt_sim.h"
#include "syntorch/base/memory.h"

enum { CHAINED = 1, HERE = 2, ARRIVED = 4 }; /* HERE: all dependencies of its item have run */

#define FEW_ROUNDS 8 /* after this many rounds, everything that waits is removed at once */

typedef struct check_item { /* an op, or a node of a simulator */
    uint32_t rank, item;
} check_item;

typedef struct check_rank {
    uint32_t n_items;
    uint32_t *comm;     /* per item: its communication; SYN__PT_NONE: none */
    uint32_t *left;     /* per item: number of dependencies that have not run */
    uint32_t *first;    /* per item: index of its first entry in children; one more element has the
                           end */
    uint32_t *children; /* items that depend on the item */
    uint32_t *item;     /* per comm: its item; SYN__PT_NONE: none */
    uint32_t *entry;    /* per comm: index into entries; SYN__PT_NONE: none */
    uint8_t *state;     /* per comm: CHAINED, HERE and ARRIVED as bits */
    uint32_t *chain;    /* comms: collectives and sends in launch order */
    size_t n_chain, at; /* everything before `at` has run */
} check_rank;

typedef struct checker {
    syn__pt_set *s;
    check_rank *ranks;
    uint32_t *arrived, *members, *first; /* per row: number of ranks that arrived, number of ranks
                                            that take part, index of the first entry */
    uint32_t *next;                      /* per entry: the next entry of its row */
    check_item *queue;
    size_t n_queue, queue_cap;
    uint32_t *waiting; /* entries that a rank has reached; some of them have run since */
    size_t n_waiting, waiting_cap;
    size_t n_taken;
    bool of_nodes; /* items are the nodes of a simulator, not ops */
    bool all;      /* remove everything that waits */
} checker;

/* ---- Tables ---- */

static void *table(size_t n, size_t bytes) {
    return syn_calloc(n + 2, bytes);
}

/* Lists the dependencies between ops. The ops of a thread or stream that have nodes depend on each
   other, because they run one after the other. */
static syn_status list_edges(const syn__pt_rank *r, syn__pt_edge **out, size_t *n, syn_error *err) {
    syn__pt_edge *edges = table(r->n_deps + r->n_ops, sizeof *edges);
    uint32_t *last = table(r->n_tracks, sizeof *last);
    *n = 0;
    *out = edges;
    if (edges == NULL || last == NULL) {
        syn_free(last);
        return SYN_FAIL_NOMEM(err, r->n_deps * sizeof *edges, "the checks of a trace set");
    }
    for (size_t i = 0; i <= r->n_tracks; i++) last[i] = SYN__PT_NONE;
    for (size_t i = 0; r->first_dep != NULL && i < r->n_ops; i++) {
        const uint32_t op = r->order != NULL ? r->order[i] : (uint32_t)i, track = r->ops[op].track;
        const char *why;
        for (size_t k = r->first_dep[op]; k < r->first_dep[op + 1]; k++)
            edges[(*n)++] = (syn__pt_edge){r->deps[k].from, op, r->deps[k].class_};
        if (syn__pt_sim_role_of(r, &r->ops[op], &why) == SYN__PT_SIM_ABSENT) continue;
        if (last[track] != SYN__PT_NONE)
            edges[(*n)++] = (syn__pt_edge){last[track], op, SYN_PYTORCH_EDGE_STREAM};
        last[track] = op;
    }
    syn_free(last);
    return SYN_OK;
}

static bool list_items(const syn__pt_rank *r, check_rank *c, const syn__pt_edge *edges, size_t n) {
    c->left = table(c->n_items, sizeof *c->left);
    c->first = table(c->n_items, sizeof *c->first);
    c->children = table(n, sizeof *c->children);
    c->item = table(r->n_comms, sizeof *c->item);
    if (!c->left || !c->first || !c->children || !c->item) return false;
    for (size_t i = 0; i < n; i++) c->first[edges[i].from + 2]++;
    for (size_t i = 2; i < (size_t)c->n_items + 2; i++) c->first[i] += c->first[i - 1];
    for (size_t i = 0; i < n; i++) {
        c->left[edges[i].to]++;
        c->children[c->first[edges[i].from + 1]++] = edges[i].to;
    }
    for (size_t i = 0; i < r->n_comms; i++) c->item[i] = SYN__PT_NONE;
    for (uint32_t i = 0; i < c->n_items; i++)
        if (c->comm[i] != SYN__PT_NONE) c->item[c->comm[i]] = i;
    return true;
}

static syn_status open_ops(checker *k, uint32_t rank) {
    const syn__pt_rank *r = &k->s->ranks[rank];
    check_rank *c = &k->ranks[rank];
    syn__pt_edge *edges = NULL;
    size_t n;
    c->n_items = (uint32_t)r->n_ops;
    c->comm = table(r->n_ops, sizeof *c->comm);
    if (c->comm == NULL)
        return SYN_FAIL_NOMEM(k->s->err, r->n_ops * 4, "the checks of a trace set");
    for (size_t i = 0; i < r->n_ops; i++) c->comm[i] = r->ops[i].comm;
    syn_status s = list_edges(r, &edges, &n, k->s->err);
    if (s == SYN_OK && !list_items(r, c, edges, n))
        s = SYN_FAIL_NOMEM(k->s->err, r->n_ops * 16, "the checks of a trace set");
    syn_free(edges);
    return s;
}

/* Fills the chain in the order that the dependencies of nodes imply: each send comes directly
   before the first collective that depends on it. */
static syn_status chain_nodes(const syn__pt_sim *sim, check_rank *c, syn_error *err) {
    const size_t n = sim->n_nodes;
    uint32_t *before = table(n, sizeof *before), *order = NULL; /* per node: number of the first
                                                                   collective that depends on it */
    uint64_t *keys = table(n, sizeof *keys);
    uint32_t n_collectives = 0;
    syn_status s = SYN_OK;
    if (before == NULL || keys == NULL)
        s = SYN_FAIL_NOMEM(err, n * sizeof *keys, "the checks of a trace set");
    for (size_t i = 0; s == SYN_OK && i < n; i++)
        n_collectives += sim->nodes[i].role == SYN__PT_SIM_COLLECTIVE;
    for (size_t i = n, left = n_collectives; s == SYN_OK && i-- > 0;) {
        const uint32_t node = sim->sequence[i];
        before[node] = UINT32_MAX;
        for (size_t k = c->first[node]; k < c->first[node + 1]; k++)
            if (before[c->children[k]] < before[node]) before[node] = before[c->children[k]];
        if (sim->nodes[node].role == SYN__PT_SIM_COLLECTIVE) before[node] = (uint32_t)--left;
    }
    for (size_t i = 0; s == SYN_OK && i < n; i++) {
        const syn__pt_sim_node *node = &sim->nodes[sim->sequence[i]];
        const bool collective = node->role == SYN__PT_SIM_COLLECTIVE;
        if (!collective && node->role != SYN__PT_SIM_SEND) continue;
        keys[c->n_chain] = 2 * (uint64_t)before[sim->sequence[i]] + collective;
        c->chain[c->n_chain++] = sim->rank->ops[node->op].comm;
    }
    if (s == SYN_OK) s = syn__pt_sort(keys, c->n_chain, &order, err);
    for (size_t i = 0; s == SYN_OK && i < c->n_chain; i++) order[i] = c->chain[order[i]];
    if (s == SYN_OK && c->n_chain > 0) memcpy(c->chain, order, c->n_chain * sizeof *order);
    syn_free(order);
    syn_free(before);
    syn_free(keys);
    return s;
}

static syn_status list_nodes(const syn__pt_sim *sim, check_rank *c, syn_error *err) {
    c->n_items = (uint32_t)sim->n_nodes;
    c->comm = table(c->n_items, sizeof *c->comm);
    for (size_t i = 0; c->comm != NULL && i < c->n_items; i++) {
        const syn__pt_sim_node *node = &sim->nodes[i];
        const bool delay = node->role == SYN__PT_SIM_DELAY;
        c->comm[i] = delay ? SYN__PT_NONE : sim->rank->ops[node->op].comm;
    }
    if (c->comm == NULL || !list_items(sim->rank, c, sim->edges, sim->n_edges))
        return SYN_FAIL_NOMEM(err, sim->n_nodes * 16, "the checks of a trace set");
    return chain_nodes(sim, c, err);
}

static syn_status open_nodes(checker *k, uint32_t rank) {
    const syn__pt_sim nothing = {.rank = &k->s->ranks[rank]};
    check_rank *c = &k->ranks[rank];
    syn__pt_sim sim;
    syn_error failed = {0};
    syn_status s = syn__pt_sim_make(&sim, &k->s->ranks[rank], &failed);
    if (s == SYN_E_INVALID) s = list_nodes(&nothing, c, k->s->err);
    else if (s != SYN_OK) s = SYN_FAIL(k->s->err, s, "%s", failed.text);
    else s = list_nodes(&sim, c, k->s->err);
    syn__pt_sim_free(&sim);
    return s;
}

static bool is_chained(const syn__pt_rank *r, const syn__pt_comm *c) {
    const char *why;
    const syn__pt_sim_role role = syn__pt_sim_role_of(r, &r->ops[c->op], &why);
    return role == SYN__PT_SIM_COLLECTIVE || role == SYN__PT_SIM_SEND;
}

static void chain_launches(const syn__pt_rank *r, check_rank *c) {
    for (size_t i = 0; i < r->n_comms; i++)
        if (is_chained(r, &r->comms[c->chain[i]])) c->chain[c->n_chain++] = c->chain[i];
}

static syn_status open_rank(checker *k, uint32_t rank, bool of_nodes) {
    const syn__pt_rank *r = &k->s->ranks[rank];
    check_rank *c = &k->ranks[rank];
    SYN_TRY(syn__pt_launch_order(r, NULL, &c->chain, k->s->err));
    c->entry = table(r->n_comms, sizeof *c->entry);
    c->state = table(r->n_comms, sizeof *c->state);
    if (!c->entry || !c->state)
        return SYN_FAIL_NOMEM(k->s->err, r->n_comms * 16, "the checks of a trace set");
    SYN_TRY(of_nodes ? open_nodes(k, rank) : open_ops(k, rank));
    if (!of_nodes) chain_launches(r, c);
    for (size_t i = 0; i < r->n_comms; i++) c->entry[i] = SYN__PT_NONE;
    for (size_t i = 0; i < c->n_chain; i++) c->state[c->chain[i]] = CHAINED;
    return SYN_OK;
}

static syn_status open_rows(checker *k) {
    const syn__pt_set *s = k->s;
    k->arrived = table(s->n_rows, sizeof *k->arrived);
    k->members = table(s->n_rows, sizeof *k->members);
    k->first = table(s->n_rows, sizeof *k->first);
    k->next = table(s->n_entries, sizeof *k->next);
    if (!k->arrived || !k->members || !k->first || !k->next)
        return SYN_FAIL_NOMEM(s->err, s->n_entries * 16, "the checks of a trace set");
    for (size_t i = 0; i < s->n_rows; i++) k->first[i] = SYN__PT_NONE;
    for (size_t i = s->n_entries; i-- > 0;) {
        const syn__pt_entry *e = &s->entries[i];
        k->ranks[e->rank].entry[e->comm] = (uint32_t)i;
        if (e->row == SYN__PT_NONE) continue;
        k->members[e->row]++;
        k->next[i] = k->first[e->row];
        k->first[e->row] = (uint32_t)i;
    }
    return SYN_OK;
}

/* ---- Simulation ---- */

static syn_status push(checker *k, uint32_t rank, uint32_t item) {
    SYN_TRY(syn_grow(&k->queue, &k->queue_cap, k->n_queue + 1, sizeof *k->queue, k->s->err));
    k->queue[k->n_queue++] = (check_item){rank, item};
    return SYN_OK;
}

static bool is_front(const checker *k, uint32_t rank, uint32_t comm) {
    const check_rank *c = &k->ranks[rank];
    return !(c->state[comm] & CHAINED) || k->s->ranks[rank].comms[comm].alone ||
           (c->at < c->n_chain && c->chain[c->at] == comm);
}

/* The row whose other ranks the communication waits for; SYN__PT_NONE: it waits for none. */
static uint32_t row_of(const checker *k, uint32_t rank, uint32_t comm) {
    const uint32_t entry = k->ranks[rank].entry[comm];
    const bool alone = k->s->ranks[rank].comms[comm].alone;
    return entry != SYN__PT_NONE && !alone ? k->s->entries[entry].row : SYN__PT_NONE;
}

/* Queues the dependents of an item that are ready now that it has run. */
static syn_status finish(checker *k, uint32_t rank, uint32_t item) {
    check_rank *c = &k->ranks[rank];
    for (size_t i = c->first[item]; i < c->first[item + 1]; i++)
        if (--c->left[c->children[i]] == 0) SYN_TRY(push(k, rank, c->children[i]));
    return SYN_OK;
}

static bool is_over(const checker *k, uint32_t rank, uint32_t comm) {
    const check_rank *c = &k->ranks[rank];
    return c->item[comm] == SYN__PT_NONE || c->left[c->item[comm]] == SYN__PT_NONE;
}

/* Advances in the chain of a rank past everything that has run. */
static syn_status advance(checker *k, uint32_t rank) {
    check_rank *c = &k->ranks[rank];
    const syn__pt_comm *comms = k->s->ranks[rank].comms;
    while (c->at < c->n_chain &&
           (is_over(k, rank, c->chain[c->at]) || comms[c->chain[c->at]].alone))
        c->at++;
    if (c->at == c->n_chain || !(c->state[c->chain[c->at]] & HERE)) return SYN_OK;
    return push(k, rank, c->item[c->chain[c->at]]);
}

static syn_status finish_comm(checker *k, uint32_t rank, uint32_t comm) {
    const uint32_t item = k->ranks[rank].item[comm];
    k->ranks[rank].left[item] = SYN__PT_NONE;
    SYN_TRY(finish(k, rank, item));
    return advance(k, rank);
}

static syn_status finish_row(checker *k, uint32_t row) {
    for (uint32_t i = k->first[row]; i != SYN__PT_NONE; i = k->next[i]) {
        const syn__pt_entry *e = &k->s->entries[i];
        if (k->ranks[e->rank].state[e->comm] & HERE && !is_over(k, e->rank, e->comm))
            SYN_TRY(finish_comm(k, e->rank, e->comm));
    }
    return SYN_OK;
}

static syn_status note_here(checker *k, uint32_t rank, uint32_t comm) {
    uint8_t *state = &k->ranks[rank].state[comm];
    if (*state & HERE || row_of(k, rank, comm) == SYN__PT_NONE) {
        *state |= HERE;
        return SYN_OK;
    }
    *state |= HERE;
    SYN_TRY(
        syn_grow(&k->waiting, &k->waiting_cap, k->n_waiting + 1, sizeof *k->waiting, k->s->err));
    k->waiting[k->n_waiting++] = k->ranks[rank].entry[comm];
    return SYN_OK;
}

/* Handles an item whose dependencies have run. A send does not wait for its receive, but in a
   simulator it waits for the single slot for communication. */
static syn_status arrive(checker *k, uint32_t rank, uint32_t item) {
    const syn__pt_rank *r = &k->s->ranks[rank];
    const uint32_t comm = k->ranks[rank].comm[item];
    if (comm == SYN__PT_NONE) return finish(k, rank, item);
    uint8_t *state = &k->ranks[rank].state[comm];
    const bool sends = r->comms[comm].type == SYN__ET_COMM_SEND_NODE;
    const uint32_t row = row_of(k, rank, comm);
    if (is_over(k, rank, comm) || *state & ARRIVED) return SYN_OK;
    SYN_TRY(note_here(k, rank, comm));
    if ((!sends || k->of_nodes) && !is_front(k, rank, comm)) return SYN_OK;
    *state |= ARRIVED;
    if (row == SYN__PT_NONE || sends) SYN_TRY(finish_comm(k, rank, comm));
    if (row == SYN__PT_NONE) return SYN_OK;
    return ++k->arrived[row] == k->members[row] ? finish_row(k, row) : SYN_OK;
}

/* The distance of the rank that is furthest from reaching the row, counted in entries of that
   rank. */
static uint64_t distance(const checker *k, uint32_t row) {
    uint64_t most = 0;
    for (uint32_t i = k->first[row]; i != SYN__PT_NONE; i = k->next[i]) {
        const syn__pt_entry *e = &k->s->entries[i];
        const check_rank *c = &k->ranks[e->rank];
        const uint32_t front = c->at < c->n_chain ? c->entry[c->chain[c->at]] : SYN__PT_NONE;
        const uint32_t at = front != SYN__PT_NONE ? k->s->entries[front].at : 0;
        if (!is_over(k, e->rank, e->comm) && e->at > at && e->at - at > most) most = e->at - at;
    }
    return most;
}

/* Chooses the row to remove: the most distant row that some rank has reached. If there is none, the
   most distant row that only the launch order of its rank holds back. SYN__PT_NONE: there is no row
   to remove. */
static uint32_t worst_row(checker *k) {
    uint32_t worst = SYN__PT_NONE;
    uint64_t most = 0;
    size_t kept = 0;
    bool arrived = false;
    for (size_t i = 0; i < k->n_waiting; i++) {
        const syn__pt_entry *e = &k->s->entries[k->waiting[i]];
        const uint32_t row = row_of(k, e->rank, e->comm);
        const bool here = k->ranks[e->rank].state[e->comm] & ARRIVED;
        if (row == SYN__PT_NONE || is_over(k, e->rank, e->comm)) continue;
        k->waiting[kept++] = k->waiting[i];
        if (arrived && !here) continue;
        const uint64_t far = distance(k, row);
        if (worst != SYN__PT_NONE && arrived == here && far <= most) continue;
        worst = row;
        most = far;
        arrived = here;
    }
    k->n_waiting = kept;
    return worst;
}

static syn_status take_out(checker *k, uint32_t row) {
    syn__pt_set_note(k->s, SYN_PYTORCH_ANOMALY_COMM_DEADLOCK, &k->s->entries[k->first[row]]);
    k->n_taken++;
    for (uint32_t i = k->first[row]; i != SYN__PT_NONE; i = k->next[i]) {
        const syn__pt_entry *e = &k->s->entries[i];
        k->s->ranks[e->rank].comms[e->comm].alone = true;
    }
    SYN_TRY(finish_row(k, row));
    for (uint32_t i = k->first[row]; i != SYN__PT_NONE; i = k->next[i])
        SYN_TRY(advance(k, k->s->entries[i].rank));
    return SYN_OK;
}

static syn_status take_all(checker *k) {
    for (uint32_t row = worst_row(k); row != SYN__PT_NONE; row = worst_row(k))
        SYN_TRY(take_out(k, row));
    return SYN_OK;
}

static syn_status run(checker *k) {
    for (uint32_t i = 0; i < k->s->n_ranks; i++)
        for (uint32_t item = 0; item < k->ranks[i].n_items; item++)
            if (k->ranks[i].left[item] == 0) SYN_TRY(push(k, i, item));
    for (;;) {
        while (k->n_queue > 0) {
            const check_item next = k->queue[--k->n_queue];
            SYN_TRY(arrive(k, next.rank, next.item));
        }
        const uint32_t row = worst_row(k);
        if (row == SYN__PT_NONE) return SYN_OK;
        SYN_TRY(k->all ? take_all(k) : take_out(k, row));
    }
}

static void close_rank(check_rank *c) {
    syn_free(c->comm);
    syn_free(c->left);
    syn_free(c->first);
    syn_free(c->children);
    syn_free(c->item);
    syn_free(c->entry);
    syn_free(c->state);
    syn_free(c->chain);
}

/* Runs the items once. *taken: number of removed rows. */
static syn_status check(syn__pt_set *s, bool of_nodes, bool all, size_t *taken) {
    checker k = {.s = s, .of_nodes = of_nodes, .all = all};
    k.ranks = (check_rank *)syn_calloc(s->n_ranks, sizeof *k.ranks);
    if (k.ranks == NULL)
        return SYN_FAIL_NOMEM(s->err, s->n_ranks * 64, "the checks of a trace set");
    syn_status status = SYN_OK;
    for (uint32_t i = 0; i < s->n_ranks && status == SYN_OK; i++)
        status = open_rank(&k, i, of_nodes);
    if (status == SYN_OK) status = open_rows(&k);
    if (status == SYN_OK) status = run(&k);
    *taken = k.n_taken;
    for (size_t i = 0; i < s->n_ranks; i++) close_rank(&k.ranks[i]);
    syn_free(k.ranks);
    syn_free(k.arrived);
    syn_free(k.members);
    syn_free(k.first);
    syn_free(k.next);
    syn_free(k.queue);
    syn_free(k.waiting);
    return status;
}

syn_status syn__pt_set_check(syn__pt_set *s) {
    size_t taken = 0;
    bool ordered = true;
    if (s->n_rows == 0) return SYN_OK;
    SYN_TRY(check(s, false, false, &taken));
    for (size_t i = 0; i < s->n_ranks; i++) ordered = ordered && s->ranks[i].order != NULL;
    for (size_t round = 0; ordered && (round == 0 || taken != 0); round++)
        SYN_TRY(check(s, true, round >= FEW_ROUNDS, &taken));
    return SYN_OK;
}
