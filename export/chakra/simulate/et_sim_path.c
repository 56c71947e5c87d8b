/* Finds the critical path of a simulated run: the chain of nodes, across ranks, that determines
   when the run ends.

   Each node starts at the end of the node that released it last, so the path is found from its end
   backwards. The run has records of classes; here each class stands for one of its ranks, which is
   chosen so that groups and messages of the path are those of the set. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/chakra/simulate/et_sim_run.h"
#include "export/chakra/wire/et_schema.h"
#include "syntorch/base/memory.h"

#define NONE    SYN__SIM_NONE
#define NO_TIME SYN__SIM_NO_TIME

/* A node of a rank. */
typedef struct place {
    const syn__sim_rank *rank; /* NULL: the beginning of the run */
    uint32_t node;
} place;

/* Sums by kind or by name. */
typedef struct sums {
    syn_intern keys; /* their ids are the indices of the list */
    syn_simulated_sum *list;
    size_t n, cap;
} sums;

typedef struct walk {
    const syn__sim_run_state *s;
    syn_simulation *out;
    place *places; /* of the steps in out->path */
    size_t places_cap, path_cap;
    sums kinds, names;
    syn_error *err;
} walk;

static const syn__sim_member *member_of(const walk *w, const syn__sim_rank *rank) {
    return &w->s->members[w->s->folded->class_of[rank - w->s->set->ranks]];
}

static uint64_t end_of(const walk *w, place at) {
    return at.rank != NULL ? member_of(w, at.rank)->node_ends[at.node] : 0;
}

/* The node at whose end a node started or arrived. */
static place before(const walk *w, place at) {
    const uint32_t node = member_of(w, at.rank)->before[at.node];
    return (place){node != NONE ? at.rank : NULL, node};
}

/* ---- From the end to the beginning ---- */

/* The last node of the run; rank NULL: no node has run. */
static place last_node(const walk *w) {
    place last = {NULL, NONE};
    for (size_t i = 0; i < w->s->folded->n_classes; i++) {
        const syn__sim_member *m = &w->s->members[i];
        for (uint32_t node = 0; node < m->program->n_nodes && m->n_done > 0; node++)
            if (m->node_ends[node] == w->out->end_ns) last = (place){m->rank, node};
        if (last.rank != NULL) return last;
    }
    return last;
}

/* The rank of the group that released the collective of `rank`; `rank` itself if it may be. */
static const syn__sim_rank *rank_in_group(const walk *w, const syn__sim_rank *rank, uint32_t group,
                                          syn__sim_release by) {
    const syn__sim_group *g = &w->s->set->groups[group];
    const syn__sim_member *of = &w->s->members[by.member];
    if (by.place < g->n_ranks) {
        const syn__sim_rank *other = syn__sim_rank_of(w->s->set, g->ranks[by.place]);
        if (other != NULL && member_of(w, other) == of) return other;
    }
    if (member_of(w, rank) == of) return rank;
    for (uint32_t i = 0; i < g->n_ranks; i++) {
        const syn__sim_rank *other = syn__sim_rank_of(w->s->set, g->ranks[i]);
        if (other != NULL && member_of(w, other) == of) return other;
    }
    return of->rank;
}

/* The node that released the node last. */
static place previous(const walk *w, place at) {
    const syn__sim_member *m = member_of(w, at.rank);
    const syn__sim_kind kind = syn__sim_kind_of(m, at.node);
    if (kind != SYN__SIM_COLLECTIVE && kind != SYN__SIM_RECV) return before(w, at);
    const syn__sim_call *call = syn__sim_call_of(m, at.node);
    const syn__sim_release by = m->released[call - m->program->calls];
    if (by.member == NONE) return before(w, at);
    const uint32_t node = w->s->members[by.member].program->calls[by.call].node;
    if (kind == SYN__SIM_COLLECTIVE)
        return before(w, (place){rank_in_group(w, at.rank, at.rank->groups[call->slot], by), node});
    const place sent = {syn__sim_rank_of(w->s->set, at.rank->channels[call->slot].peer), node};
    /* A receive that takes longer than its send started with it. */
    return end_of(w, sent) == end_of(w, at) ? sent : before(w, sent);
}

static syn_status add_step(walk *w, place at, uint64_t start_ns) {
    syn_simulation *out = w->out;
    SYN_TRY(syn_grow(&out->path, &w->path_cap, out->n_path + 1, sizeof *out->path, w->err));
    SYN_TRY(syn_grow(&w->places, &w->places_cap, out->n_path + 1, sizeof *w->places, w->err));
    w->places[out->n_path] = at;
    out->path[out->n_path++] = (syn_simulated_step){
        .rank = at.rank->rank, .start_ns = start_ns, .ns = end_of(w, at) - start_ns};
    return SYN_OK;
}

static syn_status walk_back(walk *w) {
    syn_simulation *out = w->out;
    for (place at = last_node(w); at.rank != NULL;) {
        const place from = previous(w, at);
        SYN_TRY(add_step(w, at, end_of(w, from)));
        at = from;
    }
    for (size_t i = 0, k = out->n_path; i + 1 < k; i++) {
        const syn_simulated_step step = out->path[i];
        const place at = w->places[i];
        out->path[i] = out->path[--k];
        w->places[i] = w->places[k];
        out->path[k] = step;
        w->places[k] = at;
    }
    return SYN_OK;
}

/* ---- Names and sums ---- */

/* Adds a node to the sum with this key. */
static syn_status add_to(sums *to, syn__str key, syn_simulated_sum one, syn_error *err) {
    uint32_t i;
    SYN_TRY(syn_intern_put(&to->keys, key.text, key.bytes, &i, err));
    if (i == to->n) {
        SYN_TRY(syn_grow(&to->list, &to->cap, to->n + 1, sizeof *to->list, err));
        to->list[to->n++] = one;
        return SYN_OK;
    }
    to->list[i].n_nodes++;
    to->list[i].ns += one.ns;
    return SYN_OK;
}

static const char *collective_name(int comm_type) {
    const char *name = syn__et_collective_name(comm_type);
    return name != NULL ? name : "COLLECTIVE";
}

static syn_status add_kind(walk *w, place at, syn_simulated_step *step) {
    static const char *const kinds[] = {[SYN__SIM_COMPUTE] = "COMPUTE",
                                        [SYN__SIM_FREE] = "OTHER",
                                        [SYN__SIM_SEND] = "SEND",
                                        [SYN__SIM_RECV] = "RECV"};
    const syn__sim_member *m = member_of(w, at.rank);
    const syn__sim_kind kind = syn__sim_kind_of(m, at.node);
    char key[512];
    step->group = UINT32_MAX;
    if (kind == SYN__SIM_COLLECTIVE) {
        const syn__sim_call *call = syn__sim_call_of(m, at.node);
        const char *name = syn_intern_get(&w->s->set->names, at.rank->groups[call->slot]);
        SYN_TRY(syn_intern_put(&w->out->path_texts, name, strlen(name), &step->group, w->err));
        step->kind = collective_name(call->comm_type);
    } else {
        step->kind = kinds[kind];
    }
    const int bytes = snprintf(key, sizeof key, "%s %" PRIu32, step->kind, step->group);
    return add_to(&w->kinds, (syn__str){key, (size_t)bytes},
                  (syn_simulated_sum){step->kind, step->group, 1, step->ns}, w->err);
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Writes the name to `text` with * for each number between dots, which is that of a layer. */
static syn__str pattern_of(syn__str name, char *text, size_t capacity) {
    size_t n = 0;
    for (size_t i = 0; i < name.bytes && n < capacity; i++) {
        size_t end = i;
        while (i > 0 && name.text[i - 1] == '.' && end < name.bytes && is_digit(name.text[end]))
            end++;
        const bool is_number =
            end > i && (end == name.bytes || name.text[end] == '.' || name.text[end] == '/');
        text[n++] = is_number ? '*' : name.text[i];
        if (is_number) i = end - 1;
    }
    return (syn__str){text, n};
}

static syn_status add_name(walk *w, syn__str name, syn_simulated_step *step) {
    char text[256];
    syn_intern *texts = &w->out->path_texts;
    syn_simulated_sum one = {NULL, 0, 1, step->ns};
    SYN_TRY(
        syn_intern_put(texts, name.bytes > 0 ? name.text : "", name.bytes, &step->name, w->err));
    name = pattern_of(name, text, sizeof text);
    SYN_TRY(syn_intern_put(texts, name.text, name.bytes, &one.text, w->err));
    return add_to(&w->names, name, one, w->err);
}

/* Fills in the steps of one rank, from step `first` on. */
static syn_status name_rank(walk *w, size_t first) {
    syn_simulation *out = w->out;
    const syn__sim_rank *rank = w->places[first].rank;
    syn__sim_names names;
    syn_status s = syn__sim_names_open(&names, w->s->set, rank, w->err);
    for (size_t i = first; i < out->n_path && s == SYN_OK; i++) {
        if (w->places[i].rank != rank) continue;
        out->path[i].id = names.ids[w->places[i].node];
        s = add_kind(w, w->places[i], &out->path[i]);
        if (s == SYN_OK) s = add_name(w, names.names[w->places[i].node], &out->path[i]);
        w->places[i].rank = NULL; /* done */
    }
    syn__sim_names_close(&names);
    return s;
}

static int compare_sums(const void *a, const void *b) {
    const syn_simulated_sum *x = a, *y = b;
    if (x->ns != y->ns) return x->ns > y->ns ? -1 : 1;
    return x->text < y->text ? -1 : x->text > y->text;
}

/* Moves the sums to the results, longest time first. */
static syn_simulated_sum *take_sums(sums *from, size_t *n) {
    syn_simulated_sum *list = from->list;
    *n = from->n;
    if (from->n > 0) qsort(list, from->n, sizeof *list, compare_sums);
    from->list = NULL;
    return list;
}

syn_status syn__sim_path(syn__sim_run_state *s) {
    syn_simulation *out = s->out;
    walk w = {.s = s, .out = out, .err = s->err};
    syn_status status = walk_back(&w);
    for (size_t i = 0; i < out->n_path && status == SYN_OK; i++)
        if (w.places[i].rank != NULL) status = name_rank(&w, i);
    if (status == SYN_OK) {
        out->path_kinds = take_sums(&w.kinds, &out->n_path_kinds);
        out->path_names = take_sums(&w.names, &out->n_path_names);
    }
    syn_free(w.places);
    syn_free(w.kinds.list);
    syn_free(w.names.list);
    syn_intern_free(&w.kinds.keys);
    syn_intern_free(&w.names.keys);
    return status;
}
