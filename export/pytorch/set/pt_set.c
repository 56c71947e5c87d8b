/* Makes the ranks of a trace set consistent: each group gets one id, and collectives and messages
   are matched across ranks, by sequence number if possible and otherwise in launch order.
   Communication that cannot be matched is marked `alone`. */
#include <stdlib.h>

#include "export/chakra/wire/et_node.h"
#include "export/pytorch/comm/pt_launch_order.h"
#include "export/pytorch/read/pt_notes.h"
#include "export/pytorch/set/pt_set.h"
#include "export/pytorch/set/pt_set_entries.h"
#include "export/pytorch/sim/pt_sim.h"
#include "syntorch/base/memory.h"

void syn__pt_set_note(const syn__pt_set *s, syn_pytorch_anomaly kind, const syn__pt_entry *e) {
    const syn__pt_rank *r = &s->ranks[e->rank];
    const syn__pt_op *op = &r->ops[r->comms[e->comm].op];
    if (op->host != SYN__PT_NONE) syn__pt_note_host(r, s->notes, kind, op->host);
    else
        syn__pt_note_at(s->notes, kind, r->host_input.name, SYN_PYTORCH_NO_PLACE,
                        SYN_PYTORCH_NO_PLACE);
}

/* ---- Entries ---- */

static void mark_alone(syn__pt_set *s, uint32_t rank, uint32_t comm) {
    const syn__pt_rank *r = &s->ranks[rank];
    syn__pt_comm *c = &r->comms[comm];
    const syn__pt_entry e = {.rank = rank, .comm = comm};
    if (c->type != SYN__ET_COMM_COLL_NODE) {
        c->alone = c->peer == s->number[rank] || (c->peer < 0 && s->n_ranks > 1);
    } else if (c->group != SYN__PT_NONE) {
        const bool outside = s->outside[s->first[rank] + c->group];
        c->alone = outside || !syn__pt_set_is_shared(&r->groups[c->group]);
        if (outside) syn__pt_set_note(s, SYN_PYTORCH_ANOMALY_COMM_UNMATCHED, &e);
    }
}

static syn_status list_entries(syn__pt_set *s, uint32_t rank, const uint32_t *order) {
    syn__pt_rank *r = &s->ranks[rank];
    for (uint32_t i = 0; i < r->n_comms; i++) {
        syn__pt_comm *c = &r->comms[order[i]];
        const bool message = c->type != SYN__ET_COMM_COLL_NODE;
        mark_alone(s, rank, order[i]);
        if (c->alone || (!message && s->n_ranks < 2)) continue;
        SYN_TRY(
            syn_grow(&s->entries, &s->entries_cap, s->n_entries + 1, sizeof *s->entries, s->err));
        syn__pt_entry *e = &s->entries[s->n_entries++];
        memset(e, 0, sizeof *e);
        e->rank = rank;
        e->comm = order[i];
        e->at = i;
        e->row = SYN__PT_NONE;
        e->message = message;
        e->key = c->group != SYN__PT_NONE ? s->key[s->first[rank] + c->group] : SYN__PT_NONE;
        if (!message) continue;
        e->receives = c->type == SYN__ET_COMM_RECV_NODE;
        e->from = e->receives ? c->peer : s->number[rank];
        e->to = e->receives ? s->number[rank] : c->peer;
        e->tag = c->tag;
    }
    return SYN_OK;
}

static syn_status add_entries(syn__pt_set *s, uint32_t rank) {
    uint32_t *order;
    SYN_TRY(syn__pt_launch_order(&s->ranks[rank], NULL, &order, s->err));
    const syn_status status = list_entries(s, rank, order);
    syn_free(order);
    return status;
}

#define COMPARE(member) \
    if (x->member != y->member) return x->member < y->member ? -1 : 1

/* Orders entries: collectives by group and rank, messages by source and destination, and within
   these by launch. */
static int in_order(const void *a, const void *b) {
    const syn__pt_entry *x = (const syn__pt_entry *)a, *y = (const syn__pt_entry *)b;
    COMPARE(message);
    COMPARE(from);
    COMPARE(to);
    COMPARE(key);
    COMPARE(tag);
    COMPARE(receives);
    COMPARE(rank);
    COMPARE(at);
    return 0;
}

/* ---- All steps ---- */

/* Sets the world size of all ranks to the value that more than half of them have. */
static void agree_world(syn__pt_set *s) {
    int32_t world = -1;
    size_t lead = 0, n = 0;
    for (size_t i = 0; i < s->n_ranks; i++) { /* majority vote, Boyer and Moore 1981 */
        if (lead == 0) world = s->ranks[i].world_size;
        lead = world == s->ranks[i].world_size ? lead + 1 : lead - 1;
    }
    for (size_t i = 0; i < s->n_ranks; i++) n += s->ranks[i].world_size == world;
    for (size_t i = 0; world > 0 && n > s->n_ranks / 2 && i < s->n_ranks; i++)
        s->ranks[i].world_size = world;
}

/* The numbers of the first and the last step in a device trace, from names such as
   "ProfilerStep#7". first > last: the trace has no steps. */
typedef struct steps {
    int64_t first, last;
} steps;

static steps steps_of(const syn__pt_rank *r) {
    steps found = {INT64_MAX, -1};
    for (size_t i = 0; i < r->device.n_events; i++) {
        const syn__pt_event *e = &r->device.events[i];
        if (e->class_ != SYN__PT_STEP) continue;
        const syn__str name = syn__pt_device_name(&r->device, e->name);
        int64_t n = 0;
        size_t at = name.bytes;
        while (at > 0 && name.text[at - 1] >= '0' && name.text[at - 1] <= '9') at--;
        if (!syn__loose_i64((syn__str){name.text + at, name.bytes - at}, &n)) continue;
        if (n < found.first) found.first = n;
        if (n > found.last) found.last = n;
    }
    return found;
}

static void compare_steps(const syn__pt_set *s) {
    steps of = {INT64_MAX, -1};
    for (size_t i = 0; i < s->n_ranks; i++) {
        const steps mine = steps_of(&s->ranks[i]);
        if (of.last < 0) of = mine;
        if (mine.last >= 0 && (mine.first != of.first || mine.last != of.last))
            syn__pt_note_at(s->notes, SYN_PYTORCH_ANOMALY_STEPS_DIFFER,
                            s->ranks[i].device_input.name, SYN_PYTORCH_NO_PLACE,
                            SYN_PYTORCH_NO_PLACE);
    }
}

static syn_status prepare(syn__pt_set *s) {
    size_t n = 0;
    s->number = (int32_t *)syn_malloc((s->n_ranks + 1) * sizeof *s->number);
    s->first = (size_t *)syn_malloc((s->n_ranks + 1) * sizeof *s->first);
    if (s->number == NULL || s->first == NULL)
        return SYN_FAIL_NOMEM(s->err, s->n_ranks * 16, "the ranks of a trace set");
    for (size_t i = 0; i < s->n_ranks; i++) {
        s->number[i] = s->ranks[i].rank >= 0 ? s->ranks[i].rank : (int32_t)i;
        s->first[i] = n;
        n += s->ranks[i].n_groups;
        uint32_t *at = syn__pt_map_put(&s->by_number, (uint64_t)s->number[i]);
        if (at == NULL) return SYN_FAIL_NOMEM(s->err, s->n_ranks * 16, "the ranks of a trace set");
        *at = (uint32_t)i;
    }
    s->n_groups = n;
    s->key = (uint32_t *)syn_malloc((n + 1) * sizeof *s->key);
    s->outside = (bool *)syn_calloc(n + 1, sizeof *s->outside);
    if (s->key == NULL || s->outside == NULL)
        return SYN_FAIL_NOMEM(s->err, n * sizeof *s->key, "the groups of a trace set");
    agree_world(s);
    compare_steps(s);
    return SYN_OK;
}

/* Makes the ranks agree on what simulators run: a communication that they cannot run on one rank is
   not run on any rank. */
static syn_status agree_roles(syn__pt_set *s) {
    enum { RUNS = 1, CANNOT = 2, BOTH = 3 };
    uint8_t *roles = (uint8_t *)syn_calloc((size_t)s->n_rows + 1, 1);
    if (roles == NULL) return SYN_FAIL_NOMEM(s->err, s->n_rows, "the communication of a trace set");
    for (size_t i = 0; i < s->n_entries; i++) {
        const syn__pt_entry *e = &s->entries[i];
        const syn__pt_rank *r = &s->ranks[e->rank];
        const char *why;
        if (e->row == SYN__PT_NONE) continue;
        (void)syn__pt_sim_role_of(r, &r->ops[r->comms[e->comm].op], &why);
        roles[e->row] |= why == NULL ? RUNS : CANNOT;
    }
    for (size_t i = 0; i < s->n_entries; i++) {
        const syn__pt_entry *e = &s->entries[i];
        if (e->row == SYN__PT_NONE || roles[e->row] != BOTH) continue;
        s->ranks[e->rank].comms[e->comm].alone = true;
        syn__pt_set_note(s,
                         e->message ? SYN_PYTORCH_ANOMALY_MESSAGE_UNMATCHED
                                    : SYN_PYTORCH_ANOMALY_COMM_UNMATCHED,
                         e);
    }
    syn_free(roles);
    return SYN_OK;
}

static syn_status agree(syn__pt_set *s) {
    for (size_t i = 0; i < s->n_ranks; i++) SYN_TRY(syn__pt_set_chain(&s->ranks[i], s->err));
    SYN_TRY(prepare(s));
    SYN_TRY(syn__pt_set_groups(s));
    for (size_t i = 0; i < s->n_ranks; i++) SYN_TRY(add_entries(s, (uint32_t)i));
    if (s->n_entries > 1) qsort(s->entries, s->n_entries, sizeof *s->entries, in_order);
    size_t n = 0;
    while (n < s->n_entries && !s->entries[n].message) n++;
    SYN_TRY(syn__pt_match_collectives(s, n));
    syn__pt_match_messages(s, n);
    SYN_TRY(syn__pt_set_world(s));
    SYN_TRY(agree_roles(s));
    return syn__pt_set_check(s);
}

syn_status syn__pt_set_agree(syn__pt_rank *ranks, size_t n_ranks, syn_pytorch_note *notes,
                             syn_error *err) {
    syn__pt_set s = {.ranks = ranks, .n_ranks = n_ranks, .notes = notes, .err = err};
    const syn_status status = agree(&s);
    syn__pt_map_free(&s.by_number);
    syn_intern_free(&s.keys);
    syn_free(s.number);
    syn_free(s.first);
    syn_free(s.key);
    syn_free(s.outside);
    syn_free(s.entries);
    return status;
}
