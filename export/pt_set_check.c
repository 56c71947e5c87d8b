/* Runs a set's ops without their times, as a simulator would: each after what it waits for, a
   collective when all its ranks have come to it, a receive behind its send, a rank's collectives
   and the sends between them in the order of their launches. Traces of which parts are lost may
   leave ranks that wait for each other: of the communications that wait, the one which is furthest
   off at another rank is taken out, until all ops run. */
#include "export/pt_set.h"
#include "export/pt_sim.h"
#include "syntorch/memory.h"

enum { CHAINED = 1, HERE = 2, ARRIVED = 4 }; /* HERE: its op waits for no other op */

typedef struct check_op {
    uint32_t rank, op;
} check_op;

typedef struct check_rank {
    uint32_t *left;     /* per op: what it waits for and has not run */
    uint32_t *first;    /* per op and the end: slices of children */
    uint32_t *children; /* ops that wait for it */
    uint32_t *entry;    /* per comm: index into entries, SYN__PT_NONE */
    uint8_t *state;     /* per comm */
    uint32_t *chain;    /* collectives and sends as launched */
    size_t n_chain, at; /* what is before `at` has run */
} check_rank;

typedef struct checker {
    syn__pt_set *s;
    check_rank *ranks;
    uint32_t *arrived, *members, *first; /* per row; its first entry (chained by next) */
    uint32_t *next;                      /* per entry: the next of its row */
    check_op *queue;
    size_t n_queue, queue_cap;
    uint32_t *waiting; /* entries that are here; some have run since */
    size_t n_waiting, waiting_cap;
} checker;

/* ---- Tables ---- */

static void *table(size_t n, size_t bytes) {
    return syn_calloc(n + 2, bytes);
}

static void list_children(const syn__pt_rank *r, check_rank *c) {
    for (size_t i = 0; i < r->n_deps; i++) c->first[r->deps[i].from + 2]++;
    for (size_t i = 2; i < r->n_ops + 2; i++) c->first[i] += c->first[i - 1];
    for (uint32_t op = 0; op < r->n_ops; op++) {
        c->left[op] = r->first_dep[op + 1] - r->first_dep[op];
        for (size_t i = r->first_dep[op]; i < r->first_dep[op + 1]; i++)
            c->children[c->first[r->deps[i].from + 1]++] = op;
    }
}

static bool is_chained(const syn__pt_rank *r, const syn__pt_comm *c) {
    const char *why;
    const syn__pt_sim_role role = syn__pt_sim_role_of(r, &r->ops[c->op], &why);
    return role == SYN__PT_SIM_COLLECTIVE || role == SYN__PT_SIM_SEND;
}

static syn_status open_rank(checker *k, uint32_t rank) {
    const syn__pt_rank *r = &k->s->ranks[rank];
    check_rank *c = &k->ranks[rank];
    uint32_t *order;
    SYN_TRY(syn__pt_launch_order(r, NULL, &order, k->s->err));
    c->left = table(r->n_ops, sizeof *c->left);
    c->first = table(r->n_ops, sizeof *c->first);
    c->children = table(r->n_deps, sizeof *c->children);
    c->entry = table(r->n_comms, sizeof *c->entry);
    c->state = table(r->n_comms, sizeof *c->state);
    c->chain = order;
    if (!c->left || !c->first || !c->children || !c->entry || !c->state)
        return SYN_FAIL_NOMEM(k->s->err, r->n_ops * 16, "checking a set");
    if (r->first_dep != NULL) list_children(r, c);
    for (size_t i = 0; i < r->n_comms; i++) {
        c->entry[i] = SYN__PT_NONE;
        if (!is_chained(r, &r->comms[order[i]])) continue;
        c->state[order[i]] = CHAINED;
        c->chain[c->n_chain++] = order[i];
    }
    return SYN_OK;
}

static syn_status open_rows(checker *k) {
    const syn__pt_set *s = k->s;
    k->arrived = table(s->n_rows, sizeof *k->arrived);
    k->members = table(s->n_rows, sizeof *k->members);
    k->first = table(s->n_rows, sizeof *k->first);
    k->next = table(s->n_entries, sizeof *k->next);
    if (!k->arrived || !k->members || !k->first || !k->next)
        return SYN_FAIL_NOMEM(s->err, s->n_entries * 16, "checking a set");
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

/* ---- Running ---- */

static syn_status push(checker *k, uint32_t rank, uint32_t op) {
    SYN_TRY(syn_grow(&k->queue, &k->queue_cap, k->n_queue + 1, sizeof *k->queue, k->s->err));
    k->queue[k->n_queue++] = (check_op){rank, op};
    return SYN_OK;
}

static bool is_front(const checker *k, uint32_t rank, uint32_t comm) {
    const check_rank *c = &k->ranks[rank];
    return !(c->state[comm] & CHAINED) || k->s->ranks[rank].comms[comm].alone ||
           (c->at < c->n_chain && c->chain[c->at] == comm);
}

/* What the communication waits for among ranks; SYN__PT_NONE: nothing. */
static uint32_t row_of(const checker *k, uint32_t rank, uint32_t comm) {
    const uint32_t entry = k->ranks[rank].entry[comm];
    const bool alone = k->s->ranks[rank].comms[comm].alone;
    return entry != SYN__PT_NONE && !alone ? k->s->entries[entry].row : SYN__PT_NONE;
}

/* The op runs; behind it others may. */
static syn_status finish(checker *k, uint32_t rank, uint32_t op) {
    check_rank *c = &k->ranks[rank];
    for (size_t i = c->first[op]; i < c->first[op + 1]; i++)
        if (--c->left[c->children[i]] == 0) SYN_TRY(push(k, rank, c->children[i]));
    return SYN_OK;
}

static bool is_over(const checker *k, uint32_t rank, uint32_t comm) {
    return k->ranks[rank].left[k->s->ranks[rank].comms[comm].op] == SYN__PT_NONE;
}

/* Moves on in the rank's chain as far as it has run. */
static syn_status advance(checker *k, uint32_t rank) {
    check_rank *c = &k->ranks[rank];
    const syn__pt_comm *comms = k->s->ranks[rank].comms;
    while (c->at < c->n_chain &&
           (is_over(k, rank, c->chain[c->at]) || comms[c->chain[c->at]].alone))
        c->at++;
    if (c->at == c->n_chain || !(c->state[c->chain[c->at]] & HERE)) return SYN_OK;
    return push(k, rank, comms[c->chain[c->at]].op);
}

static syn_status finish_comm(checker *k, uint32_t rank, uint32_t comm) {
    const uint32_t op = k->s->ranks[rank].comms[comm].op;
    k->ranks[rank].left[op] = SYN__PT_NONE;
    SYN_TRY(finish(k, rank, op));
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

/* A send never waits for its receive. */
static syn_status arrive(checker *k, uint32_t rank, uint32_t op) {
    const syn__pt_rank *r = &k->s->ranks[rank];
    const uint32_t comm = r->ops[op].comm;
    if (comm == SYN__PT_NONE) return finish(k, rank, op);
    uint8_t *state = &k->ranks[rank].state[comm];
    const bool sends = r->comms[comm].type == SYN__ET_COMM_SEND_NODE;
    const uint32_t row = row_of(k, rank, comm);
    if (is_over(k, rank, comm) || *state & ARRIVED) return SYN_OK;
    SYN_TRY(note_here(k, rank, comm));
    if (!sends && !is_front(k, rank, comm)) return SYN_OK;
    *state |= ARRIVED;
    if (row == SYN__PT_NONE || sends) SYN_TRY(finish_comm(k, rank, comm));
    if (row == SYN__PT_NONE) return SYN_OK;
    return ++k->arrived[row] == k->members[row] ? finish_row(k, row) : SYN_OK;
}

/* How far a row's ranks are from having come to it. */
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

/* Of the rows that some rank has come to, else of those that only the rank's own order keeps;
   SYN__PT_NONE: there is none. */
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
    syn__pt_set_note(k->s, SYN__PT_COMM_DEADLOCK, &k->s->entries[k->first[row]]);
    for (uint32_t i = k->first[row]; i != SYN__PT_NONE; i = k->next[i]) {
        const syn__pt_entry *e = &k->s->entries[i];
        k->s->ranks[e->rank].comms[e->comm].alone = true;
    }
    SYN_TRY(finish_row(k, row));
    for (uint32_t i = k->first[row]; i != SYN__PT_NONE; i = k->next[i])
        SYN_TRY(advance(k, k->s->entries[i].rank));
    return SYN_OK;
}

static syn_status run(checker *k) {
    for (uint32_t i = 0; i < k->s->n_ranks; i++)
        for (uint32_t op = 0; op < k->s->ranks[i].n_ops; op++)
            if (k->ranks[i].left[op] == 0) SYN_TRY(push(k, i, op));
    for (;;) {
        while (k->n_queue > 0) {
            const check_op next = k->queue[--k->n_queue];
            SYN_TRY(arrive(k, next.rank, next.op));
        }
        const uint32_t row = worst_row(k);
        if (row == SYN__PT_NONE) return SYN_OK;
        SYN_TRY(take_out(k, row));
    }
}

syn_status syn__pt_set_check(syn__pt_set *s) {
    checker k = {.s = s};
    if (s->n_rows == 0) return SYN_OK;
    k.ranks = (check_rank *)syn_calloc(s->n_ranks, sizeof *k.ranks);
    if (k.ranks == NULL) return SYN_FAIL_NOMEM(s->err, s->n_ranks * 64, "checking a set");
    syn_status status = SYN_OK;
    for (uint32_t i = 0; i < s->n_ranks && status == SYN_OK; i++) status = open_rank(&k, i);
    if (status == SYN_OK) status = open_rows(&k);
    if (status == SYN_OK) status = run(&k);
    for (size_t i = 0; i < s->n_ranks; i++) {
        syn_free(k.ranks[i].left);
        syn_free(k.ranks[i].first);
        syn_free(k.ranks[i].children);
        syn_free(k.ranks[i].entry);
        syn_free(k.ranks[i].state);
        syn_free(k.ranks[i].chain);
    }
    syn_free(k.ranks);
    syn_free(k.arrived);
    syn_free(k.members);
    syn_free(k.first);
    syn_free(k.next);
    syn_free(k.queue);
    syn_free(k.waiting);
    return status;
}
