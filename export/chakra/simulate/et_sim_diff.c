/* Compares two trace sets. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/chakra/simulate/et_sim.h"
#include "export/chakra/wire/et_schema.h"
#include "syntorch/base/memory.h"

#define KIND_MASK ((1u << SYN__SIM_KIND_BITS) - 1)
#define KINDS     5
#define TYPES     32

/* The collectives of one kind on groups of one size. */
typedef struct collectives {
    uint32_t comm_type, n_ranks;
    uint64_t calls, bytes;
} collectives;

/* What is compared of a rank. */
typedef struct summary {
    uint64_t nodes[KINDS], compute_ns, sent_bytes;
    collectives *list;
    size_t n, cap;
} summary;

typedef struct comparison {
    syn_set_differences *out;
    syn__sim_set sets[2];
    int32_t rank;
    size_t first; /* the differences of this rank */
    syn_error *err;
} comparison;

static syn_status add(comparison *c, const char *text) {
    syn_set_differences *out = c->out;
    SYN_TRY(syn_grow(&out->list, &out->cap, out->n + 1, sizeof *out->list, c->err));
    out->list[out->n] = (syn_set_difference){c->rank, c->rank, syn_strdup(text)};
    if (out->list[out->n].text == NULL) return SYN_FAIL_NOMEM(c->err, strlen(text), "a message");
    out->n++;
    return SYN_OK;
}

/* ---- Summaries ---- */

static syn_status add_call(const comparison *c, summary *s, uint32_t comm_type, uint32_t n_ranks,
                           uint64_t bytes) {
    size_t i = 0;
    while (i < s->n && (s->list[i].comm_type != comm_type || s->list[i].n_ranks != n_ranks)) i++;
    if (i == s->n) {
        SYN_TRY(syn_grow(&s->list, &s->cap, s->n + 1, sizeof *s->list, c->err));
        s->list[s->n++] = (collectives){.comm_type = comm_type, .n_ranks = n_ranks};
    }
    s->list[i].calls++;
    s->list[i].bytes += bytes;
    return SYN_OK;
}

static syn_status summarize(const comparison *c, const syn__sim_set *set, const syn__sim_rank *rank,
                            summary *out) {
    const syn__sim_program *p = &set->programs[rank->program];
    *out = (summary){.n = 0};
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const uint32_t kind = p->kinds[i] & KIND_MASK;
        out->nodes[kind]++;
        if (kind == SYN__SIM_COMPUTE) out->compute_ns += p->values[i];
    }
    for (uint32_t i = 0; i < p->n_calls; i++) {
        const syn__sim_call *call = &p->calls[i];
        const uint32_t kind = p->kinds[call->node] & KIND_MASK;
        if (kind == SYN__SIM_SEND) out->sent_bytes += call->bytes;
        if (kind == SYN__SIM_COLLECTIVE)
            SYN_TRY(add_call(c, out, call->comm_type, set->groups[rank->groups[call->slot]].n_ranks,
                             call->bytes));
    }
    return SYN_OK;
}

/* ---- Comparisons ---- */

static syn_status compare_numbers(comparison *c, const char *what, const char *unit, uint64_t a,
                                  uint64_t b) {
    char text[160];
    if (a == b) return SYN_OK;
    snprintf(text, sizeof text, "%s: %" PRIu64 " and %" PRIu64 "%s", what, a, b, unit);
    return add(c, text);
}

static syn_status compare_collectives(comparison *c, const collectives *a, const collectives *b) {
    char what[96];
    snprintf(what, sizeof what, "%s on %" PRIu32 " ranks",
             syn__et_collective_name((int64_t)a->comm_type), a->n_ranks);
    SYN_TRY(compare_numbers(c, what, " calls", a->calls, b->calls));
    return compare_numbers(c, what, " bytes", a->bytes, b->bytes);
}

static syn_status compare_summaries(comparison *c, const summary *a, const summary *b) {
    static const char *const kinds[KINDS] = {"compute nodes", "other nodes", "collectives", "sends",
                                             "receives"};
    for (int i = 0; i < KINDS; i++)
        SYN_TRY(compare_numbers(c, kinds[i], "", a->nodes[i], b->nodes[i]));
    SYN_TRY(compare_numbers(c, "time of computation", " ns", a->compute_ns, b->compute_ns));
    SYN_TRY(compare_numbers(c, "bytes sent in messages", "", a->sent_bytes, b->sent_bytes));
    for (int side = 0; side < 2; side++) {
        const summary *one = side == 0 ? a : b, *other = side == 0 ? b : a;
        for (size_t i = 0; i < one->n; i++) {
            collectives none = {one->list[i].comm_type, one->list[i].n_ranks, 0, 0};
            const collectives *same = &none;
            for (size_t k = 0; k < other->n; k++)
                if (other->list[k].comm_type == none.comm_type &&
                    other->list[k].n_ranks == none.n_ranks)
                    same = &other->list[k];
            if (side == 0) SYN_TRY(compare_collectives(c, &one->list[i], same));
            else if (same == &none) SYN_TRY(compare_collectives(c, same, &one->list[i]));
        }
    }
    return SYN_OK;
}

/* Describes a call: "ALL_REDUCE of 64 bytes on 8 ranks", "send of 64 bytes to rank +8". Peers are
   relative to the rank, so that ranks have equal differences. */
static void describe(const syn__sim_set *set, const syn__sim_rank *rank, const syn__sim_call *call,
                     char *text, size_t bytes) {
    const syn__sim_program *p = &set->programs[rank->program];
    const uint32_t kind = p->kinds[call->node] & KIND_MASK;
    if (kind == SYN__SIM_COLLECTIVE)
        snprintf(text, bytes, "%s of %" PRIu64 " bytes on %" PRIu32 " ranks",
                 syn__et_collective_name(call->comm_type), call->bytes,
                 set->groups[rank->groups[call->slot]].n_ranks);
    else
        snprintf(text, bytes, "%s of %" PRIu64 " bytes %s rank %+" PRId32,
                 kind == SYN__SIM_SEND ? "send" : "receive", call->bytes,
                 kind == SYN__SIM_SEND ? "to" : "from",
                 rank->channels[call->slot].peer - rank->rank);
}

/* Finds the first call at which the ranks differ. */
static syn_status compare_order(comparison *c, const syn__sim_rank *a, const syn__sim_rank *b) {
    const syn__sim_program *p = &c->sets[0].programs[a->program];
    const syn__sim_program *q = &c->sets[1].programs[b->program];
    char x[128], y[128], text[400];
    for (uint32_t i = 0; i < p->n_calls && i < q->n_calls; i++) {
        describe(&c->sets[0], a, &p->calls[i], x, sizeof x);
        describe(&c->sets[1], b, &q->calls[i], y, sizeof y);
        if (strcmp(x, y) == 0) continue;
        snprintf(text, sizeof text,
                 "order of communication: call %" PRIu32 " is %s (node %" PRIu64 ") and %s (node "
                 "%" PRIu64 ")",
                 i + 1, x, p->calls[i].id, y, q->calls[i].id);
        return add(c, text);
    }
    return SYN_OK;
}

static syn_status compare_ranks(comparison *c, const syn__sim_rank *a, const syn__sim_rank *b) {
    summary sides[2];
    syn_status s = summarize(c, &c->sets[0], a, &sides[0]);
    const syn_status t = summarize(c, &c->sets[1], b, &sides[1]);
    if (s == SYN_OK) s = t;
    if (s == SYN_OK) s = compare_summaries(c, &sides[0], &sides[1]);
    syn_free(sides[0].list);
    syn_free(sides[1].list);
    if (s == SYN_OK) s = compare_order(c, a, b);
    const bool same = memcmp(c->sets[0].programs[a->program].hash,
                             c->sets[1].programs[b->program].hash, sizeof(uint64_t[2])) == 0;
    if (s == SYN_OK && c->out->n == c->first && !same)
        s = add(c, "times or dependencies of single nodes differ");
    return s;
}

/* If the differences of this rank are those of the previous one, extends these. `before`: the
   first difference of the previous rank. */
static void merge(comparison *c, size_t before) {
    syn_set_differences *out = c->out;
    const size_t n = out->n - c->first;
    if (n != c->first - before || n == 0) return;
    for (size_t i = 0; i < n; i++)
        if (out->list[before + i].last != c->rank - 1 ||
            strcmp(out->list[before + i].text, out->list[c->first + i].text) != 0)
            return;
    for (size_t i = 0; i < n; i++) {
        out->list[before + i].last = c->rank;
        syn_free(out->list[c->first + i].text);
    }
    out->n = c->first;
}

static syn_status compare_all(comparison *c) {
    const syn__sim_set *a = &c->sets[0], *b = &c->sets[1];
    size_t i = 0, k = 0, before = 0;
    while (i < a->n_ranks || k < b->n_ranks) {
        const bool in_a =
            k == b->n_ranks || (i < a->n_ranks && a->ranks[i].rank <= b->ranks[k].rank);
        const bool in_b =
            i == a->n_ranks || (k < b->n_ranks && b->ranks[k].rank <= a->ranks[i].rank);
        c->rank = in_a ? a->ranks[i].rank : b->ranks[k].rank;
        c->first = c->out->n;
        SYN_TRY(in_a && in_b ? compare_ranks(c, &a->ranks[i], &b->ranks[k])
                             : add(c, in_a ? "only the first set has this rank"
                                           : "only the second set has this rank"));
        merge(c, before);
        if (c->out->n > c->first) before = c->first;
        i += in_a;
        k += in_b;
    }
    return SYN_OK;
}

syn_status syn_set_compare(syn_set_differences *out, const char *a, const char *b,
                           uint64_t max_unpacked_bytes, syn_error *err) {
    comparison c = {.out = out, .err = err};
    const syn_simulate_options how = {.max_unpacked_bytes = max_unpacked_bytes, .threads = 2};
    *out = (syn_set_differences){.n = 0};
    syn_status s = syn__sim_load(&c.sets[0], &a, 1, &how, err);
    if (s == SYN_OK) s = syn__sim_load(&c.sets[1], &b, 1, &how, err);
    for (int i = 0; i < 2; i++) {
        out->n_ranks[i] = (uint32_t)c.sets[i].n_ranks;
        out->n_nodes[i] = c.sets[i].n_nodes;
    }
    if (s == SYN_OK) s = compare_all(&c);
    syn__sim_set_close(&c.sets[0]);
    syn__sim_set_close(&c.sets[1]);
    return s;
}

void syn_set_differences_free(syn_set_differences *differences) {
    for (size_t i = 0; i < differences->n; i++) syn_free(differences->list[i].text);
    syn_free(differences->list);
    *differences = (syn_set_differences){.n = 0};
}
