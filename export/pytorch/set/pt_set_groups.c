/* Makes the ranks of a trace set agree on their groups, and assigns ids to the groups. If the ranks
   have different lists of members for a group, each list gets one vote from each of its own members
   that has it. Each rank then uses, of the lists that contain it, the list with the most votes.
   Ranks that are not in the set are removed from all lists. */
#include <stdlib.h>

#include "export/chakra/wire/et_node.h"
#include "export/pytorch/read/pt_notes.h"
#include "export/pytorch/set/pt_set_entries.h"
#include "syntorch/base/memory.h"

static int by_number(const void *a, const void *b) {
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Numbers the different groups. Groups with equal names and equal lists of ranks are the same
   group. */
static syn_status find_keys(syn__pt_set *s) {
    syn__buf buf = {0};
    syn_status status = SYN_OK;
    for (size_t i = 0; i < s->n_ranks; i++) {
        const syn__pt_rank *r = &s->ranks[i];
        for (size_t g = 0; g < r->n_groups && status == SYN_OK; g++) {
            const syn__pt_group *group = &r->groups[g];
            buf.bytes = 0;
            syn__buf_put(&buf, group->name, strlen(group->name) + 1);
            if (group->n_ranks != 0)
                syn__buf_put(&buf, group->ranks, group->n_ranks * sizeof *group->ranks);
            if (buf.failed) status = SYN_FAIL_NOMEM(s->err, buf.bytes, "a process group");
            else
                status =
                    syn_intern_put(&s->keys, buf.data, buf.bytes, &s->key[s->first[i] + g], s->err);
        }
    }
    syn__buf_free(&buf);
    return status;
}

/* ---- Lists ---- */

/* What all ranks together know about the groups of one name. */
typedef struct namesake {
    uint32_t n, size; /* n: number of ranks that have such a group; size: its size, 0: unknown */
    size_t first;     /* index of its first entry in members */
    bool listed;      /* whether at least one rank has a list of members */
} namesake;

typedef struct collector {
    syn__pt_set *s;
    syn_intern names;
    uint32_t *name;               /* per group of each rank, indexed like syn__pt_set.key: its
                                     name */
    namesake *of;                 /* per name */
    int32_t *members;             /* ordered by name: the ranks that have such a group */
    const syn__pt_group **groups; /* parallel to members: the groups of these ranks */
    uint32_t *places;             /* parallel to members: the indices of these groups in key */
} collector;

static syn_status count_names(collector *c) {
    syn__pt_set *s = c->s;
    for (size_t i = 0; i < s->n_ranks; i++) {
        for (size_t g = 0; g < s->ranks[i].n_groups; g++) {
            const char *name = s->ranks[i].groups[g].name;
            SYN_TRY(
                syn_intern_put(&c->names, name, strlen(name), &c->name[s->first[i] + g], s->err));
        }
    }
    c->of = (namesake *)syn_calloc(c->names.n_entries + 1, sizeof *c->of);
    if (c->of == NULL) return SYN_FAIL_NOMEM(s->err, c->names.n_entries, "group names");
    for (size_t i = 0; i < s->n_ranks; i++) {
        for (size_t g = 0; g < s->ranks[i].n_groups; g++) {
            const syn__pt_group *group = &s->ranks[i].groups[g];
            namesake *k = &c->of[c->name[s->first[i] + g]];
            k->n++;
            if (group->size > k->size) k->size = group->size;
            if (group->n_ranks != 0) k->listed = true;
        }
    }
    return SYN_OK;
}

static void list_members(collector *c) {
    syn__pt_set *s = c->s;
    size_t n = 0;
    for (size_t i = 0; i < c->names.n_entries; i++) {
        c->of[i].first = n;
        n += c->of[i].n;
        c->of[i].n = 0;
    }
    for (size_t i = 0; i < s->n_ranks; i++) {
        for (size_t g = 0; g < s->ranks[i].n_groups; g++) {
            namesake *k = &c->of[c->name[s->first[i] + g]];
            c->groups[k->first + k->n] = &s->ranks[i].groups[g];
            c->places[k->first + k->n] = (uint32_t)(s->first[i] + g);
            c->members[k->first + k->n++] = s->number[i];
        }
    }
    for (size_t i = 0; i < c->names.n_entries; i++)
        qsort(c->members + c->of[i].first, c->of[i].n, sizeof *c->members, by_number);
}

/* The members of a group for a rank that has no list: the list of another member. If no rank has a
   list, it consists of all ranks that have a group of that name, provided their number is right.
   NULL: unknown. */
static const int32_t *members_of(const collector *c, const namesake *k, int32_t rank, uint32_t *n) {
    for (uint32_t i = 0; k->listed && i < k->n; i++) {
        const syn__pt_group *other = c->groups[k->first + i];
        *n = other->n_ranks;
        if (syn__pt_group_has(other, rank)) return other->ranks;
    }
    *n = k->n;
    const bool all = !k->listed && k->n > 1 && (k->size == 0 || k->size == k->n);
    return all ? c->members + k->first : NULL;
}

/* Gives the group its own copy of a list. */
static syn_status set_list(const syn__pt_set *s, uint32_t rank, syn__pt_group *group,
                           const int32_t *from, uint32_t n) {
    int32_t *ranks = (int32_t *)syn__arena_get(&s->ranks[rank].arena, (n + 1) * sizeof *ranks);
    if (ranks == NULL) return SYN_FAIL_NOMEM(s->err, n * sizeof *ranks, "a group's ranks");
    memcpy(ranks, from, n * sizeof *ranks);
    group->ranks = ranks;
    group->n_ranks = group->size = n;
    return SYN_OK;
}

static syn_status complete_lists(const collector *c) {
    const syn__pt_set *s = c->s;
    for (uint32_t i = 0; i < s->n_ranks; i++) {
        for (size_t g = 0; g < s->ranks[i].n_groups; g++) {
            syn__pt_group *group = &s->ranks[i].groups[g];
            uint32_t n;
            if (group->n_ranks != 0 || group->size == 1) continue;
            const namesake *k = &c->of[c->name[s->first[i] + g]];
            const int32_t *from = members_of(c, k, s->number[i], &n);
            if (from != NULL) SYN_TRY(set_list(s, i, group, from, n));
        }
    }
    return SYN_OK;
}

/* ---- Lists that differ ---- */

/* The number of members of a group that are in the set. */
static uint32_t count_here(const syn__pt_set *s, const syn__pt_group *group) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < group->n_ranks; i++)
        n += syn__pt_map_get(&s->by_number, (uint64_t)group->ranks[i]) != SYN__PT_NONE;
    return n;
}

/* Picks a list for the rank from the lists of that name that contain the rank: the list with the
   most votes. Among lists with the same number of votes, the longest is picked, and among these the
   first. NULL if no list contains the rank. */
static const syn__pt_group *elect(const collector *c, const uint32_t *votes, const namesake *k,
                                  int32_t rank) {
    const syn__pt_group *best = NULL;
    uint32_t most = 0;
    for (uint32_t i = 0; i < k->n; i++) {
        const syn__pt_group *group = c->groups[k->first + i];
        const uint32_t n = votes[c->s->key[c->places[k->first + i]]];
        if (!syn__pt_group_has(group, rank) ||
            (best != NULL && (n < most || (n == most && group->n_ranks <= best->n_ranks))))
            continue;
        best = group;
        most = n;
    }
    return best;
}

/* Votes on the lists. votes: per list, the number of its own members that have it. elected: per
   group of each rank, the list to use instead of its own; NULL: keep its own. */
static void vote(const collector *c, uint32_t *votes, const syn__pt_group **elected) {
    const syn__pt_set *s = c->s;
    for (size_t i = 0; i < s->n_ranks; i++) {
        for (size_t g = 0; g < s->ranks[i].n_groups; g++)
            votes[s->key[s->first[i] + g]] +=
                syn__pt_group_has(&s->ranks[i].groups[g], s->number[i]);
    }
    for (size_t i = 0; i < s->n_ranks; i++) {
        for (size_t g = 0; g < s->ranks[i].n_groups; g++) {
            const syn__pt_group *group = &s->ranks[i].groups[g], *other;
            const size_t at = s->first[i] + g;
            const uint32_t agreed = votes[s->key[at]];
            if (group->n_ranks == 0 || (agreed != 0 && agreed == count_here(s, group))) continue;
            other = elect(c, votes, &c->of[c->name[at]], s->number[i]);
            const bool same =
                other != NULL && other->n_ranks == group->n_ranks &&
                memcmp(other->ranks, group->ranks, group->n_ranks * sizeof *group->ranks) == 0;
            if (!same) elected[at] = other;
        }
    }
}

static syn_status take_elected(const collector *c, const syn__pt_group **elected) {
    syn__pt_set *s = c->s;
    for (uint32_t i = 0; i < s->n_ranks; i++) {
        for (size_t g = 0; g < s->ranks[i].n_groups; g++) {
            const syn__pt_group *other = elected[s->first[i] + g];
            if (other == NULL) continue;
            SYN_TRY(set_list(s, i, &s->ranks[i].groups[g], other->ranks, other->n_ranks));
            syn__pt_note_at(s->notes, SYN_PYTORCH_ANOMALY_GROUP_CONFLICT,
                            s->ranks[i].host_input.name, SYN_PYTORCH_NO_PLACE,
                            SYN_PYTORCH_NO_PLACE);
        }
    }
    return SYN_OK;
}

static syn_status settle_lists(collector *c) {
    syn__pt_set *s = c->s;
    SYN_TRY(find_keys(s));
    uint32_t *votes = (uint32_t *)syn_calloc(s->keys.n_entries + 1, sizeof *votes);
    const syn__pt_group **elected =
        (const syn__pt_group **)syn_calloc(s->n_groups + 1, sizeof *elected);
    syn_status status = SYN_OK;
    if (votes == NULL || elected == NULL)
        status = SYN_FAIL_NOMEM(s->err, s->n_groups * 16, "the groups of a trace set");
    else vote(c, votes, elected);
    if (status == SYN_OK) status = take_elected(c, elected);
    syn_free(votes);
    syn_free(elected);
    syn_intern_free(&s->keys);
    memset(&s->keys, 0, sizeof s->keys);
    return status;
}

/* Removes ranks that are not in the set from all lists. If the list of a rank does not contain the
   rank itself, the rank takes no part in the group. */
static void leave_out_absent(syn__pt_set *s) {
    for (size_t i = 0; i < s->n_ranks; i++) {
        for (size_t g = 0; g < s->ranks[i].n_groups; g++) {
            syn__pt_group *group = &s->ranks[i].groups[g];
            uint32_t n = 0;
            if (group->n_ranks == 0 || !syn__pt_set_is_shared(group)) continue;
            for (uint32_t k = 0; k < group->n_ranks; k++) {
                if (syn__pt_map_get(&s->by_number, (uint64_t)group->ranks[k]) != SYN__PT_NONE)
                    group->ranks[n++] = group->ranks[k];
            }
            group->n_ranks = n;
            if (syn__pt_group_has(group, s->number[i])) {
                group->size = n;
                continue;
            }
            s->outside[s->first[i] + g] = true;
            if (n < 2) group->n_ranks = 0;
        }
    }
}

/* ---- Ids ---- */

static void give_ids(syn__pt_set *s, uint32_t *id, bool used) {
    for (size_t i = 0; i < s->n_ranks; i++) {
        const syn__pt_rank *r = &s->ranks[i];
        for (size_t c = 0; used && c < r->n_comms; c++) {
            const uint32_t g = r->comms[c].group;
            if (g == SYN__PT_NONE || !syn__pt_set_is_shared(&r->groups[g])) continue;
            const uint32_t key = s->key[s->first[i] + g];
            if (id[key] == 0) id[key] = ++s->n_ids;
        }
        for (size_t g = 0; !used && g < r->n_groups; g++) {
            const uint32_t key = s->key[s->first[i] + g];
            if (id[key] == 0) id[key] = ++s->n_ids;
        }
    }
}

/* Assigns ids to groups. Groups that communicate get ids first, so that their ids are small. */
static syn_status number_groups(syn__pt_set *s) {
    uint32_t *id = (uint32_t *)syn_calloc(s->keys.n_entries + 1, sizeof *id);
    if (id == NULL) return SYN_FAIL_NOMEM(s->err, s->keys.n_entries * sizeof *id, "group ids");
    give_ids(s, id, true);
    give_ids(s, id, false);
    for (size_t i = 0; i < s->n_ranks; i++) {
        for (size_t g = 0; g < s->ranks[i].n_groups; g++)
            s->ranks[i].groups[g].id = id[s->key[s->first[i] + g]];
    }
    syn_free(id);
    return SYN_OK;
}

static syn_status collect(collector *c) {
    syn__pt_set *s = c->s;
    const size_t n = s->n_groups + 1;
    c->name = (uint32_t *)syn_malloc(n * sizeof *c->name);
    c->members = (int32_t *)syn_malloc(n * sizeof *c->members);
    c->groups = (const syn__pt_group **)syn_malloc(n * sizeof *c->groups);
    c->places = (uint32_t *)syn_malloc(n * sizeof *c->places);
    if (c->name == NULL || c->members == NULL || c->groups == NULL || c->places == NULL)
        return SYN_FAIL_NOMEM(s->err, s->n_groups * 16, "the groups of a trace set");
    SYN_TRY(count_names(c));
    list_members(c);
    SYN_TRY(complete_lists(c));
    if (s->n_ranks < 2) return SYN_OK;
    SYN_TRY(settle_lists(c));
    leave_out_absent(s);
    return SYN_OK;
}

syn_status syn__pt_set_groups(syn__pt_set *s) {
    collector c = {.s = s};
    const syn_status status = collect(&c);
    syn_intern_free(&c.names);
    syn_free(c.name);
    syn_free(c.of);
    syn_free(c.members);
    syn_free(c.groups);
    syn_free(c.places);
    SYN_TRY(status);
    SYN_TRY(find_keys(s));
    return number_groups(s);
}

/* ---- Collectives without a group ---- */

/* The group of all ranks, which writers use for collectives without a group. NULL if there is none.
   id: only a group with this id; 0: any. */
static syn__pt_group *find_world(const syn__pt_rank *r, uint32_t id) {
    for (size_t i = 0; i < r->n_groups; i++) {
        syn__pt_group *g = &r->groups[i];
        if (g->n_ranks > 1 && (int64_t)g->n_ranks == r->world_size && (id == 0 || g->id == id))
            return g;
    }
    return NULL;
}

static syn_status set_world(const syn__pt_set *s, uint32_t rank, const syn__pt_group *world) {
    syn__pt_rank *r = &s->ranks[rank];
    const syn__pt_group *own = find_world(r, world->id);
    size_t index = own != NULL ? (size_t)(own - r->groups) : r->n_groups;
    if (own == NULL) {
        syn__pt_group copy = *world;
        SYN_TRY(set_list(s, rank, &copy, world->ranks, world->n_ranks));
        SYN_TRY(syn_grow(&r->groups, &r->groups_cap, index + 1, sizeof *r->groups, s->err));
        r->groups[r->n_groups++] = copy;
    }
    for (size_t i = 0; i < r->n_comms; i++) {
        syn__pt_comm *c = &r->comms[i];
        if (c->group == SYN__PT_NONE && c->type == SYN__ET_COMM_COLL_NODE)
            c->group = (uint32_t)index;
    }
    return SYN_OK;
}

syn_status syn__pt_set_world(syn__pt_set *s) {
    const syn__pt_group *world = NULL;
    bool differ = false;
    for (size_t i = 0; i < s->n_ranks; i++) {
        const syn__pt_group *g = find_world(&s->ranks[i], 0);
        if (world == NULL) {
            differ = g != NULL && i > 0;
            world = g;
        } else {
            differ = differ || g == NULL || g->id != world->id;
        }
    }
    if (!differ) return SYN_OK;
    const syn__pt_group found = *world;
    for (uint32_t i = 0; i < s->n_ranks; i++) SYN_TRY(set_world(s, i, &found));
    return SYN_OK;
}
