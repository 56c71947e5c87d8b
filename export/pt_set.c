/* Makes the ranks of a set agree: groups get one number each, collectives and messages are matched
   across ranks by sequence number, else in the order of their launches. What cannot be matched is
   marked. */
#include <stdlib.h>

#include "export/pt_set.h"
#include "syntorch/memory.h"

void syn__pt_set_note(const syn__pt_set *s, syn__pt_anomaly kind, const syn__pt_entry *e) {
    const syn__pt_rank *r = &s->ranks[e->rank];
    const syn__pt_op *op = &r->ops[r->comms[e->comm].op];
    if (op->host != SYN__PT_NONE) syn__pt_note_host(r, s->report, kind, op->host);
    else syn__pt_note_at(s->report, kind, r->host_input.name, SYN__PT_NO_PLACE, SYN__PT_NO_PLACE);
}

/* ---- Groups ---- */

static bool is_needed(const syn__pt_group *g) {
    return g->n_ranks != 1 && g->size != 1;
}

static int by_number(const void *a, const void *b) {
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* What a set knows of the groups of one name. */
typedef struct namesake {
    uint32_t n, size; /* ranks that know one; its size, 0 unknown */
    size_t first;     /* into members */
    bool listed;      /* some rank knows the members */
} namesake;

typedef struct collector {
    syn__pt_set *s;
    syn_intern names;
    uint32_t *name;               /* as syn__pt_set.key */
    namesake *of;                 /* per name */
    int32_t *members;             /* by name: the ranks that know it */
    const syn__pt_group **groups; /* ... and their groups */
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
    if (c->of == NULL) return SYN_FAIL_NOMEM(s->err, c->names.n_entries, "names of groups");
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
            c->members[k->first + k->n++] = s->number[i];
        }
    }
    for (size_t i = 0; i < c->names.n_entries; i++)
        qsort(c->members + c->of[i].first, c->of[i].n, sizeof *c->members, by_number);
}

static bool has_member(const syn__pt_group *group, int32_t rank) {
    for (uint32_t i = 0; i < group->n_ranks; i++) {
        if (group->ranks[i] == rank) return true;
    }
    return false;
}

/* The members of a group that its own rank does not tell: as another member of that name tells
   them; where nobody does, those that know the name, if they are as many as there should be. */
static const int32_t *members_of(const collector *c, const namesake *k, int32_t rank, uint32_t *n) {
    for (uint32_t i = 0; k->listed && i < k->n; i++) {
        const syn__pt_group *other = c->groups[k->first + i];
        *n = other->n_ranks;
        if (has_member(other, rank)) return other->ranks;
    }
    *n = k->n;
    const bool all = !k->listed && k->n > 1 && (k->size == 0 || k->size == k->n);
    return all ? c->members + k->first : NULL;
}

static syn_status set_members(const collector *c, uint32_t rank, syn__pt_group *group,
                              const namesake *k) {
    syn__pt_set *s = c->s;
    uint32_t n;
    const int32_t *from = members_of(c, k, s->number[rank], &n);
    if (from == NULL) return SYN_OK;
    int32_t *ranks = (int32_t *)syn__et_arena_get(&s->ranks[rank].arena, n * sizeof *ranks);
    if (ranks == NULL) return SYN_FAIL_NOMEM(s->err, n * sizeof *ranks, "a group's ranks");
    memcpy(ranks, from, n * sizeof *ranks);
    group->ranks = ranks;
    group->n_ranks = group->size = n;
    return SYN_OK;
}

static syn_status collect_ranks(collector *c) {
    syn__pt_set *s = c->s;
    c->name = (uint32_t *)syn_malloc((s->n_groups + 1) * sizeof *c->name);
    c->members = (int32_t *)syn_malloc((s->n_groups + 1) * sizeof *c->members);
    c->groups = (const syn__pt_group **)syn_malloc((s->n_groups + 1) * sizeof *c->groups);
    if (c->name == NULL || c->members == NULL || c->groups == NULL)
        return SYN_FAIL_NOMEM(s->err, s->n_groups * 16, "a set's groups");
    SYN_TRY(count_names(c));
    list_members(c);
    for (uint32_t i = 0; i < s->n_ranks; i++) {
        for (size_t g = 0; g < s->ranks[i].n_groups; g++) {
            syn__pt_group *group = &s->ranks[i].groups[g];
            if (group->n_ranks == 0 && group->size != 1)
                SYN_TRY(set_members(c, i, group, &c->of[c->name[s->first[i] + g]]));
        }
    }
    return SYN_OK;
}

/* Equal names with equal ranks are one group. */
static syn_status find_keys(syn__pt_set *s) {
    syn__et_buf buf = {0};
    syn_status status = SYN_OK;
    for (size_t i = 0; i < s->n_ranks; i++) {
        const syn__pt_rank *r = &s->ranks[i];
        for (size_t g = 0; g < r->n_groups && status == SYN_OK; g++) {
            const syn__pt_group *group = &r->groups[g];
            buf.bytes = 0;
            syn__et_buf_put(&buf, group->name, strlen(group->name) + 1);
            if (group->n_ranks != 0)
                syn__et_buf_put(&buf, group->ranks, group->n_ranks * sizeof *group->ranks);
            if (buf.failed) status = SYN_FAIL_NOMEM(s->err, buf.bytes, "a process group");
            else
                status =
                    syn_intern_put(&s->keys, buf.data, buf.bytes, &s->key[s->first[i] + g], s->err);
        }
    }
    syn__et_buf_free(&buf);
    return status;
}

static void give_ids(syn__pt_set *s, uint32_t *id, bool used) {
    for (size_t i = 0; i < s->n_ranks; i++) {
        const syn__pt_rank *r = &s->ranks[i];
        for (size_t c = 0; used && c < r->n_comms; c++) {
            const uint32_t g = r->comms[c].group;
            if (g == SYN__PT_NONE || !is_needed(&r->groups[g])) continue;
            const uint32_t key = s->key[s->first[i] + g];
            if (id[key] == 0) id[key] = ++s->n_ids;
        }
        for (size_t g = 0; !used && g < r->n_groups; g++) {
            const uint32_t key = s->key[s->first[i] + g];
            if (id[key] == 0) id[key] = ++s->n_ids;
        }
    }
}

/* Groups that communicate first, so that their numbers stay small. */
static syn_status number_groups(syn__pt_set *s) {
    uint32_t *id = (uint32_t *)syn_calloc(s->keys.n_entries + 1, sizeof *id);
    if (id == NULL)
        return SYN_FAIL_NOMEM(s->err, s->keys.n_entries * sizeof *id, "numbers of groups");
    give_ids(s, id, true);
    give_ids(s, id, false);
    for (size_t i = 0; i < s->n_ranks; i++) {
        for (size_t g = 0; g < s->ranks[i].n_groups; g++)
            s->ranks[i].groups[g].id = id[s->key[s->first[i] + g]];
    }
    syn_free(id);
    return SYN_OK;
}

static syn_status agree_groups(syn__pt_set *s) {
    collector c = {.s = s};
    const syn_status status = collect_ranks(&c);
    syn_intern_free(&c.names);
    syn_free(c.name);
    syn_free(c.of);
    syn_free(c.members);
    syn_free(c.groups);
    SYN_TRY(status);
    SYN_TRY(find_keys(s));
    return number_groups(s);
}

/* ---- Entries ---- */

static void mark_alone(syn__pt_set *s, syn__pt_comm *c, uint32_t rank) {
    const syn__pt_rank *r = &s->ranks[rank];
    const bool single = c->group != SYN__PT_NONE && !is_needed(&r->groups[c->group]);
    const bool message = c->type != SYN__ET_COMM_COLL_NODE;
    c->alone = message ? c->peer == s->number[rank] || (c->peer < 0 && s->n_ranks > 1) : single;
}

static syn_status list_entries(syn__pt_set *s, uint32_t rank, const uint32_t *order) {
    syn__pt_rank *r = &s->ranks[rank];
    for (uint32_t i = 0; i < r->n_comms; i++) {
        syn__pt_comm *c = &r->comms[order[i]];
        const bool message = c->type != SYN__ET_COMM_COLL_NODE;
        mark_alone(s, c, rank);
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

/* Collectives by group and rank, messages by way, all as they were launched. */
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

/* ---- All ---- */

static syn_status prepare(syn__pt_set *s) {
    size_t n = 0;
    s->number = (int32_t *)syn_malloc((s->n_ranks + 1) * sizeof *s->number);
    s->first = (size_t *)syn_malloc((s->n_ranks + 1) * sizeof *s->first);
    if (s->number == NULL || s->first == NULL)
        return SYN_FAIL_NOMEM(s->err, s->n_ranks * 16, "a set of ranks");
    for (size_t i = 0; i < s->n_ranks; i++) {
        s->number[i] = s->ranks[i].rank >= 0 ? s->ranks[i].rank : (int32_t)i;
        s->first[i] = n;
        n += s->ranks[i].n_groups;
        uint32_t *at = syn__pt_map_put(&s->by_number, (uint64_t)s->number[i]);
        if (at == NULL) return SYN_FAIL_NOMEM(s->err, s->n_ranks * 16, "a set of ranks");
        *at = (uint32_t)i;
    }
    s->n_groups = n;
    s->key = (uint32_t *)syn_malloc((n + 1) * sizeof *s->key);
    if (s->key == NULL) return SYN_FAIL_NOMEM(s->err, n * sizeof *s->key, "a set's groups");
    return SYN_OK;
}

static syn_status agree(syn__pt_set *s) {
    SYN_TRY(prepare(s));
    SYN_TRY(agree_groups(s));
    for (size_t i = 0; i < s->n_ranks; i++) SYN_TRY(add_entries(s, (uint32_t)i));
    if (s->n_entries > 1) qsort(s->entries, s->n_entries, sizeof *s->entries, in_order);
    size_t n = 0;
    while (n < s->n_entries && !s->entries[n].message) n++;
    SYN_TRY(syn__pt_match_collectives(s, n));
    syn__pt_match_messages(s, n);
    return syn__pt_set_check(s);
}

syn_status syn__pt_set_agree(syn__pt_rank *ranks, size_t n_ranks, syn__pt_report *report,
                             syn_error *err) {
    syn__pt_set s = {.ranks = ranks, .n_ranks = n_ranks, .report = report, .err = err};
    const syn_status status = agree(&s);
    syn__pt_map_free(&s.by_number);
    syn_intern_free(&s.keys);
    syn_free(s.number);
    syn_free(s.first);
    syn_free(s.key);
    syn_free(s.entries);
    return status;
}

/* ---- The file of groups ---- */

/* The group with that number; searches on from where the last one was found. */
static const syn__pt_group *find_id(const syn__pt_rank *ranks, size_t n_ranks, uint32_t id,
                                    size_t *rank) {
    for (size_t i = 0; i < n_ranks; i++) {
        const size_t at = (*rank + i) % n_ranks;
        for (size_t g = 0; g < ranks[at].n_groups; g++) {
            if (ranks[at].groups[g].id != id) continue;
            *rank = at;
            return &ranks[at].groups[g];
        }
    }
    return NULL;
}

void syn__pt_write_groups(const syn__pt_rank *ranks, size_t n_ranks, syn_sink *sink) {
    uint32_t n_ids = 0, written = 0;
    size_t rank = 0;
    for (size_t i = 0; i < n_ranks; i++) {
        for (size_t g = 0; g < ranks[i].n_groups; g++) {
            if (ranks[i].groups[g].id > n_ids) n_ids = ranks[i].groups[g].id;
        }
    }
    syn_sink_char(sink, '{');
    for (uint32_t id = 1; id <= n_ids; id++) {
        const syn__pt_group *group = find_id(ranks, n_ranks, id, &rank);
        if (group == NULL || group->n_ranks < 2) continue;
        syn_sink_text(sink, written++ == 0 ? "\n  \"" : ",\n  \"");
        syn_sink_u64(sink, id);
        syn_sink_text(sink, "\": [");
        for (uint32_t i = 0; i < group->n_ranks; i++) {
            if (i > 0) syn_sink_text(sink, ", ");
            syn_sink_i64(sink, group->ranks[i]);
        }
        syn_sink_char(sink, ']');
    }
    syn_sink_text(sink, written != 0 ? "\n}\n" : "}\n");
}
