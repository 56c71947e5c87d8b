/* Reports a simulated run: which ranks wait for each other if it deadlocked, and the times of ranks
   and groups. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/chakra/simulate/et_sim_run.h"
#include "export/chakra/wire/et_schema.h"
#include "syntorch/base/memory.h"

#define NONE        SYN__SIM_NONE
#define SHOWN_RANKS 6

/* ---- Deadlocks ---- */

static bool is_done(const syn__sim_member *m) {
    return m->n_done == m->program->n_nodes;
}

/* The call in which a class waits: a collective at which it has arrived, or else a receive. */
static bool find_wait(const syn__sim_run_state *s, uint32_t class, uint32_t *call) {
    for (size_t i = 0; i < s->folded->n_meetings; i++)
        for (uint32_t k = 0; k < s->folded->meetings[i].n_members; k++)
            if (s->meetings[i].n_arrived > 0 && s->meetings[i].arrived[k].member == class) {
                *call = s->meetings[i].arrived[k].call;
                return true;
            }
    for (size_t i = 0; i < s->folded->n_links; i++)
        if (s->folded->links[i].to == class && !s->links[i].of_sends && s->links[i].first != NONE) {
            *call = s->links[i].first;
            return true;
        }
    return false;
}

static const syn__sim_member *member_of(const syn__sim_run_state *s, const syn__sim_rank *rank) {
    return &s->members[s->folded->class_of[rank - s->set->ranks]];
}

/* Whether a rank waits at a collective of the group. */
static bool has_arrived(const syn__sim_run_state *s, const syn__sim_rank *rank, uint32_t group) {
    const syn__sim_class *class = member_of(s, rank)->of;
    for (uint32_t i = 0; i < rank->n_groups; i++)
        if (rank->groups[i] == group)
            return s->meetings[class->meetings[i]].arrived[class->members[i]].member != NONE;
    return false;
}

/* The first member of the group that has not arrived at its collective. */
static const syn__sim_rank *missing_member(const syn__sim_run_state *s, uint32_t group) {
    const syn__sim_group *g = &s->set->groups[group];
    for (uint32_t i = 0; i < g->n_ranks; i++) {
        const syn__sim_rank *rank = syn__sim_rank_of(s->set, g->ranks[i]);
        if (rank != NULL && !has_arrived(s, rank, group)) return rank;
    }
    return NULL;
}

/* Writes to `text` what a rank waits for. Returns the rank for which it waits, or NULL. */
static const syn__sim_rank *describe_wait(const syn__sim_run_state *s, const syn__sim_rank *rank,
                                          char *text, size_t capacity) {
    const syn__sim_member *m = member_of(s, rank);
    uint32_t call;
    if (!find_wait(s, s->folded->class_of[rank - s->set->ranks], &call)) {
        snprintf(text, capacity, "rank %" PRId32 " %s", rank->rank,
                 is_done(m) ? "has finished"
                            : "has no node that is ready, because its nodes depend on each other");
        return NULL;
    }
    const syn__sim_call *c = &m->program->calls[call];
    if (syn__sim_kind_of(m, c->node) == SYN__SIM_RECV) {
        const syn__sim_channel *channel = &rank->channels[c->slot];
        snprintf(text, capacity,
                 "rank %" PRId32 " waits in receive %" PRIu64 " (tag %" PRId32
                 ") for rank %" PRId32,
                 rank->rank, c->id, channel->tag, channel->peer);
        return syn__sim_rank_of(s->set, channel->peer);
    }
    const uint32_t group = rank->groups[c->slot];
    const syn__sim_rank *missing = missing_member(s, group);
    snprintf(text, capacity,
             "rank %" PRId32 " waits in collective %" PRIu64 " (group %.40s) for rank %" PRId32,
             rank->rank, c->id, (const char *)syn_intern_get(&s->set->names, group),
             missing != NULL ? missing->rank : -1);
    return missing;
}

/* A rank that waits for another one; if there is none, a rank whose nodes depend on each other. */
static const syn__sim_rank *first_stuck(const syn__sim_run_state *s) {
    const syn__sim_rank *stuck = NULL;
    uint32_t call;
    for (uint32_t i = 0; i < s->folded->n_classes; i++) {
        if (is_done(&s->members[i])) continue;
        if (find_wait(s, i, &call)) return s->members[i].rank;
        if (stuck == NULL) stuck = s->members[i].rank;
    }
    return stuck;
}

static syn_status report_deadlock(syn__sim_run_state *s) {
    char text[SHOWN_RANKS * 160] = "";
    const syn__sim_rank *seen[SHOWN_RANKS], *rank = first_stuck(s);
    size_t used = 0;
    for (int n = 0; n < SHOWN_RANKS && rank != NULL; n++) {
        seen[n] = rank;
        if (n > 0) used += (size_t)snprintf(text + used, sizeof text - used, "; ");
        rank = describe_wait(s, rank, text + used, sizeof text - used);
        used += strlen(text + used);
        for (int i = 0; i <= n; i++)
            if (rank == seen[i]) rank = NULL;
    }
    s->out->deadlock = syn_strdup(text);
    return s->out->deadlock != NULL ? SYN_OK : SYN_FAIL_NOMEM(s->err, used, "a message");
}

/* ---- Results ---- */

static int compare_groups(const void *a, const void *b) {
    const syn_simulated_group *x = a, *y = b;
    if ((x->name == NULL) != (y->name == NULL)) return x->name == NULL ? 1 : -1;
    if (x->ns != y->ns) return x->ns > y->ns ? -1 : 1;
    if (x->name == NULL || strlen(x->name) == strlen(y->name))
        return x->name == NULL ? 0 : strcmp(x->name, y->name);
    return strlen(x->name) < strlen(y->name) ? -1 : 1;
}

static syn_status report_groups(syn__sim_run_state *s) {
    const syn__sim_set *set = s->set;
    syn_simulation *out = s->out;
    out->groups = syn_calloc(set->names.n_entries + 1, sizeof *out->groups);
    if (out->groups == NULL)
        return SYN_FAIL_NOMEM(s->err, set->names.n_entries * sizeof *out->groups, "groups");
    for (uint32_t i = 0; i < set->names.n_entries; i++) {
        const syn__sim_group *g = &set->groups[i];
        const syn__sim_rank *rank = NULL;
        for (uint32_t k = 0; k < g->n_ranks && g->used && rank == NULL; k++)
            rank = syn__sim_rank_of(set, g->ranks[k]);
        if (rank == NULL) continue;
        const syn__sim_class *class = &s->folded->classes[s->folded->class_of[rank - set->ranks]];
        for (uint32_t k = 0; k < rank->n_groups; k++) {
            if (rank->groups[k] != i) continue;
            const syn__sim_meeting_state *m = &s->meetings[class->meetings[k]];
            syn_simulated_group *to = &out->groups[out->n_groups++];
            *to = (syn_simulated_group){syn_strdup(syn_intern_get(&set->names, i)), g->n_ranks,
                                        m->n_calls, m->bytes, m->ns};
            if (to->name == NULL) return SYN_FAIL_NOMEM(s->err, 1, "a group's name");
        }
    }
    if (s->n_messages > 0)
        out->groups[out->n_groups++] = (syn_simulated_group){
            .n_calls = s->n_messages, .bytes = s->message_bytes, .ns = s->message_ns};
    qsort(out->groups, out->n_groups, sizeof *out->groups, compare_groups);
    return SYN_OK;
}

/* Writes the timeline, if one is wanted. */
static syn_status write_timeline(syn__sim_run_state *s) {
    syn__sim_timeline *t;
    if (s->options->timeline == NULL) return SYN_OK;
    SYN_TRY(syn__sim_timeline_open(&t, s->options->timeline, s->err));
    syn_status status = SYN_OK;
    for (size_t i = 0; i < s->folded->n_classes && status == SYN_OK; i++) {
        const syn__sim_member *m = &s->members[i];
        char name[64];
        status = syn__sim_timeline_rank(
            t, s->set, m->rank, syn_simulation_ranks(s->out, m->rank->rank, name, sizeof name),
            m->begins, m->node_ends, s->err);
    }
    const syn_status closed = syn__sim_timeline_close(t, status == SYN_OK, s->err);
    return status != SYN_OK ? status : closed;
}

syn_status syn__sim_report(syn__sim_run_state *s) {
    const syn__sim_set *set = s->set;
    syn_simulation *out = s->out;
    bool all_done = true;
    out->ranks = syn_calloc(set->n_ranks + 1, sizeof *out->ranks);
    if (out->ranks == NULL)
        return SYN_FAIL_NOMEM(s->err, set->n_ranks * sizeof *out->ranks, "the ranks of a set");
    out->n_nodes = set->n_nodes;
    out->world = set->world;
    out->n_scaled = set->n_scaled;
    out->matched = set->matched;
    out->n_fused = set->n_fused;
    out->n_fused_kernels = set->n_fused_kernels;
    out->fused = set->fused;
    out->n_compute = set->n_compute;
    out->n_predicted = set->n_predicted;
    out->hardware = set->hardware;
    out->n_ranks = set->n_ranks;
    out->n_distinct = s->folded->n_classes;
    out->n_absent = s->folded->n_absent;
    for (size_t i = 0; i < out->n_distinct; i++) {
        const syn__sim_member *m = &s->members[i];
        out->n_run += m->n_done * m->of->n_ranks;
        if (m->end_ns > out->end_ns) out->end_ns = m->end_ns;
        all_done = all_done && is_done(m);
    }
    for (size_t i = 0; i < set->n_ranks; i++) {
        const syn__sim_member *m = &s->members[s->folded->class_of[i]];
        const uint64_t busy = m->compute_ns + m->exposed_ns;
        out->ranks[i] =
            (syn_simulated_rank){.rank = set->ranks[i].rank,
                                 .same_as = m->rank->rank,
                                 .row = s->folded->class_of[i],
                                 .end_ns = m->end_ns,
                                 .compute_ns = m->compute_ns,
                                 .exposed_ns = m->exposed_ns,
                                 .wait_ns = out->end_ns > busy ? out->end_ns - busy : 0};
    }
    for (size_t r = 0; r < out->n_distinct; r++)
        for (int i = 0; i < SYN_SIMULATED_PARTS; i++) {
            out->rows[r].compute[i] /= (float)out->part_ns;
            out->rows[r].exposed[i] /= (float)out->part_ns;
        }
    SYN_TRY(report_groups(s));
    SYN_TRY(write_timeline(s));
    if (s->options->critical_path) SYN_TRY(syn__sim_path(s));
    return all_done ? SYN_OK : report_deadlock(s);
}
