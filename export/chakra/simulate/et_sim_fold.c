/* Folds ranks that do the same at the same times into classes.

   At first, ranks with the same program are in one class. A class is then split until, for any two
   of its ranks, each group has members of the same classes, which know it by the same slots, and
   each channel leads to the same class and to the same channel there. After that, all ranks of a
   class do the same at the same times, so it suffices to run one of them. This is the coarsest
   stable partition (Paige and Tarjan, SIAM J. Comput. 1987), computed by repeated hashing. */
#include <inttypes.h>
#include <string.h>

#include "export/chakra/simulate/et_sim.h"
#include "syntorch/base/memory.h"

#define NONE       SYN__SIM_NONE
#define MAX_ROUNDS 64 /* after that, each rank becomes a class of its own */

typedef struct folding {
    const syn__sim_set *set;
    syn__sim_folded *out;
    uint32_t **slots;   /* per group: per member, its slot for the group; NONE: absent */
    uint32_t **places;  /* per rank: per group slot, its place in the group's ring */
    uint32_t **mirrors; /* per rank: per channel, the peer's channel for the same messages; NONE:
                           there is none */
    uint64_t *group_sums, *marks;
    uint8_t *absent; /* per rank number up to the largest one: has no file */
    syn_error *err;
} folding;

static uint64_t mix(uint64_t a, uint64_t b) {
    uint64_t x = (a ^ (b * 0x9E3779B97F4A7C15u)) * 0xBF58476D1CE4E5B9u;
    x ^= x >> 29;
    x *= 0x94D049BB133111EBu;
    return x ^ x >> 32;
}

static syn_status no_memory(const folding *f) {
    return SYN_FAIL_NOMEM(f->err, f->set->n_ranks * sizeof(uint64_t), "the ranks of a set");
}

static uint32_t index_of(const syn__sim_set *set, int32_t rank) {
    const syn__sim_rank *found = syn__sim_rank_of(set, rank);
    return found != NULL ? (uint32_t)(found - set->ranks) : NONE;
}

/* ---- Slots and mirrors ---- */

static uint32_t slot_of(const syn__sim_rank *rank, uint32_t group) {
    for (uint32_t i = 0; i < rank->n_groups; i++)
        if (rank->groups[i] == group) return i;
    return NONE;
}

/* Fills in the slots of a group. Members that do not use the group are left out: if the others wait
   for them, that is a deadlock. */
static syn_status find_slots(folding *f, uint32_t group, uint32_t *n_found) {
    const syn__sim_group *g = &f->set->groups[group];
    uint32_t *slots = f->slots[group] = syn_malloc((g->n_ranks + 1u) * sizeof *slots);
    if (slots == NULL) return no_memory(f);
    for (uint32_t i = 0; i < g->n_ranks; i++) {
        const uint32_t rank = index_of(f->set, g->ranks[i]);
        slots[i] = rank == NONE ? NONE : slot_of(&f->set->ranks[rank], group);
        if (slots[i] == NONE) continue;
        f->places[rank][slots[i]] = i;
        n_found[group]++;
    }
    return SYN_OK;
}

/* The first rank that uses a group and is not a member of it; -1: none. */
static int32_t first_stranger(const syn__sim_set *set, uint32_t group) {
    const syn__sim_group *g = &set->groups[group];
    for (size_t r = 0; r < set->n_ranks; r++)
        for (uint32_t i = 0; i < set->ranks[r].n_groups; i++) {
            bool is_member = set->ranks[r].groups[i] != group;
            for (uint32_t k = 0; k < g->n_ranks && !is_member; k++)
                is_member = g->ranks[k] == set->ranks[r].rank;
            if (!is_member) return set->ranks[r].rank;
        }
    return -1;
}

/* Fails if a rank uses a group of which it is not a member. */
static syn_status find_all_slots(folding *f) {
    const syn__sim_set *set = f->set;
    const size_t n = set->names.n_entries;
    uint32_t *found = syn_calloc(n + 1, sizeof *found), *used = syn_calloc(n + 1, sizeof *used);
    syn_status s = found != NULL && used != NULL ? SYN_OK : no_memory(f);
    for (size_t r = 0; r < set->n_ranks && s == SYN_OK; r++) {
        f->places[r] = syn_calloc(set->ranks[r].n_groups + 1u, sizeof *f->places[r]);
        if (f->places[r] == NULL) s = no_memory(f);
    }
    for (uint32_t i = 0; i < n && s == SYN_OK; i++)
        if (set->groups[i].used) s = find_slots(f, i, found);
    for (size_t r = 0; r < set->n_ranks && s == SYN_OK; r++)
        for (uint32_t i = 0; i < set->ranks[r].n_groups; i++) used[set->ranks[r].groups[i]]++;
    for (uint32_t i = 0; i < n && s == SYN_OK; i++)
        if (used[i] > found[i])
            s = SYN_FAIL(f->err, SYN_E_FORMAT,
                         "rank %" PRId32 " uses group %.60s but is not a member of it; `syntorch "
                         "validate` lists all problems",
                         first_stranger(set, i), (const char *)syn_intern_get(&set->names, i));
    syn_free(found);
    syn_free(used);
    return s;
}

/* An index of all channels: the rank and the channel as bytes. */
typedef struct channel_key {
    uint32_t rank;
    int32_t peer, tag;
    uint32_t sends;
} channel_key;

static channel_key key_of(uint32_t rank, int32_t peer, int32_t tag, bool sends) {
    return (channel_key){rank, peer, tag, sends};
}

static syn_status index_channels(folding *f, syn_intern *keys, uint32_t **channel_of) {
    const syn__sim_set *set = f->set;
    size_t n = 0;
    for (size_t r = 0; r < set->n_ranks; r++) n += set->ranks[r].n_channels;
    *channel_of = syn_malloc((n + 1) * sizeof **channel_of);
    if (*channel_of == NULL) return no_memory(f);
    for (uint32_t r = 0; r < set->n_ranks; r++)
        for (uint32_t i = 0; i < set->ranks[r].n_channels; i++) {
            const syn__sim_channel *c = &set->ranks[r].channels[i];
            const channel_key key = key_of(r, c->peer, c->tag, c->sends);
            uint32_t id;
            SYN_TRY(syn_intern_put(keys, &key, sizeof key, &id, f->err));
            (*channel_of)[id] = i;
        }
    return SYN_OK;
}

/* n_keys: number of channels. Looking up a channel that does not exist adds a key after them. */
static syn_status find_mirrors_of(folding *f, syn_intern *keys, const uint32_t *channel_of,
                                  size_t n_keys, uint32_t rank) {
    const syn__sim_rank *r = &f->set->ranks[rank];
    uint32_t *mirrors = f->mirrors[rank] = syn_malloc((r->n_channels + 1u) * sizeof *mirrors);
    if (mirrors == NULL) return no_memory(f);
    for (uint32_t i = 0; i < r->n_channels; i++) {
        const syn__sim_channel *c = &r->channels[i];
        const uint32_t peer = index_of(f->set, c->peer);
        uint32_t id;
        mirrors[i] = NONE;
        if (peer == NONE) continue;
        const channel_key key = key_of(peer, r->rank, c->tag, !c->sends);
        SYN_TRY(syn_intern_put(keys, &key, sizeof key, &id, f->err));
        if (id < n_keys) mirrors[i] = channel_of[id];
    }
    return SYN_OK;
}

static syn_status find_mirrors(folding *f) {
    syn_intern keys = {.bytes = NULL};
    uint32_t *channel_of = NULL;
    syn_status s = index_channels(f, &keys, &channel_of);
    const size_t n_keys = keys.n_entries;
    for (uint32_t r = 0; r < f->set->n_ranks && s == SYN_OK; r++)
        s = find_mirrors_of(f, &keys, channel_of, n_keys, r);
    syn_intern_free(&keys);
    syn_free(channel_of);
    return s;
}

/* ---- Classes ---- */

/* What a rank does by itself. */
static uint64_t first_mark(const folding *f, uint32_t rank) {
    const syn__sim_rank *r = &f->set->ranks[rank];
    uint64_t slow, mark;
    memcpy(&slow, &r->slow, sizeof slow);
    mark = mix(mix(r->program, slow), 1);
    for (uint32_t i = 0; i < r->n_groups; i++) {
        const syn__sim_group *g = &f->set->groups[r->groups[i]];
        mark = mix(mark, g->uneven ? mix(g->key, f->places[rank][i]) : g->key);
        mark = mix(mark, r->lanes[i]);
    }
    for (uint32_t i = 0; i < r->n_channels && f->set->machine != NULL; i++)
        mark = mix(mark, syn__sim_message_ns(f->set->machine, r->rank, r->channels[i].peer,
                                             (uint64_t)1 << 30));
    return mark;
}

static void sum_group(const folding *f, uint32_t group) {
    const syn__sim_group *g = &f->set->groups[group];
    uint64_t sum = 0;
    for (uint32_t i = 0; i < g->n_ranks; i++) {
        const uint32_t slot = f->slots[group][i], rank = index_of(f->set, g->ranks[i]);
        sum += rank == NONE ? 1 : mix(f->out->class_of[rank], slot);
    }
    f->group_sums[group] = sum;
}

static uint64_t next_mark(const folding *f, uint32_t rank) {
    const syn__sim_rank *r = &f->set->ranks[rank];
    uint64_t mark = mix(f->out->class_of[rank], 2);
    for (uint32_t i = 0; i < r->n_groups; i++) mark = mix(mark, f->group_sums[r->groups[i]]);
    for (uint32_t i = 0; i < r->n_channels; i++) {
        const uint32_t peer = index_of(f->set, r->channels[i].peer);
        mark = mix(mark, mix(peer == NONE ? NONE : f->out->class_of[peer], f->mirrors[rank][i]));
    }
    return mark;
}

/* Numbers equal marks equally, in order of first use. */
static syn_status number(folding *f, size_t *n_classes) {
    syn_intern seen = {.bytes = NULL};
    syn_status s = SYN_OK;
    for (size_t r = 0; r < f->set->n_ranks && s == SYN_OK; r++)
        s = syn_intern_put(&seen, &f->marks[r], sizeof f->marks[r], &f->out->class_of[r], f->err);
    *n_classes = seen.n_entries;
    syn_intern_free(&seen);
    return s;
}

static syn_status split(folding *f) {
    const syn__sim_set *set = f->set;
    size_t n = 0, before;
    for (uint32_t r = 0; r < set->n_ranks; r++) f->marks[r] = first_mark(f, r);
    SYN_TRY(number(f, &n));
    for (int round = 0; round < MAX_ROUNDS; round++) {
        for (uint32_t i = 0; i < set->names.n_entries; i++)
            if (set->groups[i].used) sum_group(f, i);
        for (uint32_t r = 0; r < set->n_ranks; r++) f->marks[r] = next_mark(f, r);
        before = n;
        SYN_TRY(number(f, &n));
        f->out->n_classes = n;
        if (n == before) return SYN_OK;
    }
    for (uint32_t r = 0; r < set->n_ranks; r++) f->out->class_of[r] = r;
    f->out->n_classes = set->n_ranks;
    return SYN_OK;
}

/* ---- Meetings and links ---- */

static syn_status open_class(folding *f, uint32_t rank) {
    const syn__sim_rank *r = &f->set->ranks[rank];
    syn__sim_class *c = &f->out->classes[f->out->class_of[rank]];
    if (c->n_ranks++ > 0) return SYN_OK;
    c->rank = rank;
    c->meetings = syn_malloc((r->n_groups + 1u) * sizeof *c->meetings);
    c->members = syn_calloc(r->n_groups + 1u, sizeof *c->members);
    c->links = syn_malloc((r->n_channels + 1u) * sizeof *c->links);
    if (c->meetings == NULL || c->members == NULL || c->links == NULL) return no_memory(f);
    for (uint32_t i = 0; i < r->n_groups; i++) c->meetings[i] = NONE;
    for (uint32_t i = 0; i < r->n_channels; i++) c->links[i] = NONE;
    return SYN_OK;
}

static syn_status add_meeting(folding *f, syn__sim_class *c, uint32_t slot) {
    syn__sim_folded *out = f->out;
    const uint32_t group = f->set->ranks[c->rank].groups[slot];
    const syn__sim_group *g = &f->set->groups[group];
    if (c->meetings[slot] != NONE) return SYN_OK;
    SYN_TRY(syn_grow(&out->meetings, &out->meetings_cap, out->n_meetings + 1, sizeof *out->meetings,
                     f->err));
    syn__sim_meeting *m = &out->meetings[out->n_meetings];
    *m = (syn__sim_meeting){.group = group};
    m->places = syn_malloc((g->n_ranks + 1u) * sizeof *m->places);
    if (m->places == NULL) return no_memory(f);
    const uint32_t own = (uint32_t)out->n_meetings++;
    for (uint32_t i = 0; i < g->n_ranks; i++) {
        const uint32_t rank = index_of(f->set, g->ranks[i]), at = f->slots[group][i];
        m->places[i] = NONE;
        if (at == NONE) {
            m->n_idle += rank != NONE;
            continue;
        }
        syn__sim_class *member = &out->classes[out->class_of[rank]];
        if (member->meetings[at] == NONE) {
            member->meetings[at] = own;
            member->members[at] = m->n_members++;
        }
        m->places[i] = member->members[at];
    }
    return SYN_OK;
}

static syn_status add_link(folding *f, uint32_t class, uint32_t channel) {
    syn__sim_folded *out = f->out;
    syn__sim_class *c = &out->classes[class];
    const syn__sim_channel *at = &f->set->ranks[c->rank].channels[channel];
    const uint32_t peer = index_of(f->set, at->peer), mirror = f->mirrors[c->rank][channel];
    const uint32_t other = mirror == NONE ? NONE : out->class_of[peer];
    if (c->links[channel] != NONE) return SYN_OK;
    SYN_TRY(syn_grow(&out->links, &out->links_cap, out->n_links + 1, sizeof *out->links, f->err));
    out->links[out->n_links] =
        (syn__sim_link){at->sends ? class : other, at->sends ? other : class, peer == NONE};
    c->links[channel] = (uint32_t)out->n_links;
    if (mirror != NONE) out->classes[other].links[mirror] = (uint32_t)out->n_links;
    out->n_links++;
    return SYN_OK;
}

static syn_status connect(folding *f) {
    syn__sim_folded *out = f->out;
    out->classes = syn_calloc(out->n_classes + 1, sizeof *out->classes);
    if (out->classes == NULL) return no_memory(f);
    for (uint32_t r = 0; r < f->set->n_ranks; r++) SYN_TRY(open_class(f, r));
    for (uint32_t i = 0; i < out->n_classes; i++) {
        syn__sim_class *c = &out->classes[i];
        const syn__sim_rank *r = &f->set->ranks[c->rank];
        for (uint32_t k = 0; k < r->n_groups; k++) SYN_TRY(add_meeting(f, c, k));
        for (uint32_t k = 0; k < r->n_channels; k++) SYN_TRY(add_link(f, i, k));
    }
    return SYN_OK;
}

/* ---- Absent ranks ---- */

static void note_rank(folding *f, int32_t rank, int32_t *largest) {
    if (f->absent == NULL) {
        if (rank > *largest) *largest = rank;
    } else if (f->absent[rank] == 0 && index_of(f->set, rank) == NONE) {
        f->absent[rank] = 1;
        f->out->n_absent++;
    }
}

static void note_ranks(folding *f, int32_t *largest) {
    const syn__sim_set *set = f->set;
    for (size_t i = 0; i < set->names.n_entries; i++)
        for (uint32_t k = 0; k < set->groups[i].n_ranks && set->groups[i].used; k++)
            note_rank(f, set->groups[i].ranks[k], largest);
    for (size_t r = 0; r < set->n_ranks; r++)
        for (uint32_t i = 0; i < set->ranks[r].n_channels; i++)
            note_rank(f, set->ranks[r].channels[i].peer, largest);
}

static syn_status count_absent(folding *f) {
    int32_t largest = 0;
    note_ranks(f, &largest);
    f->absent = syn_calloc((size_t)largest + 1, 1);
    if (f->absent == NULL) return no_memory(f);
    note_ranks(f, &largest);
    return SYN_OK;
}

static syn_status fold(folding *f) {
    const size_t n_groups = f->set->names.n_entries, n_ranks = f->set->n_ranks;
    f->slots = syn_calloc(n_groups + 1, sizeof *f->slots);
    f->places = syn_calloc(n_ranks + 1, sizeof *f->places);
    f->mirrors = syn_calloc(n_ranks + 1, sizeof *f->mirrors);
    f->group_sums = syn_calloc(n_groups + 1, sizeof *f->group_sums);
    f->marks = syn_calloc(n_ranks + 1, sizeof *f->marks);
    f->out->class_of = syn_calloc(n_ranks + 1, sizeof *f->out->class_of);
    if (f->slots == NULL || f->places == NULL || f->mirrors == NULL || f->group_sums == NULL ||
        f->marks == NULL || f->out->class_of == NULL)
        return no_memory(f);
    SYN_TRY(find_all_slots(f));
    SYN_TRY(find_mirrors(f));
    SYN_TRY(split(f));
    SYN_TRY(connect(f));
    return count_absent(f);
}

syn_status syn__sim_fold(syn__sim_folded *out, const syn__sim_set *set, syn_error *err) {
    folding f = {.set = set, .out = out, .err = err};
    const syn_status s = fold(&f);
    for (size_t i = 0; i < set->names.n_entries && f.slots != NULL; i++) syn_free(f.slots[i]);
    for (size_t i = 0; i < set->n_ranks && f.places != NULL; i++) syn_free(f.places[i]);
    for (size_t i = 0; i < set->n_ranks && f.mirrors != NULL; i++) syn_free(f.mirrors[i]);
    void *const all[] = {f.slots, f.places, f.mirrors, f.group_sums, f.marks, f.absent};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) syn_free(all[i]);
    return s;
}

void syn__sim_folded_close(syn__sim_folded *folded) {
    for (size_t i = 0; i < folded->n_classes && folded->classes != NULL; i++) {
        syn_free(folded->classes[i].meetings);
        syn_free(folded->classes[i].members);
        syn_free(folded->classes[i].links);
    }
    for (size_t i = 0; i < folded->n_meetings; i++) syn_free(folded->meetings[i].places);
    syn_free(folded->class_of);
    syn_free(folded->classes);
    syn_free(folded->meetings);
    syn_free(folded->links);
    *folded = (syn__sim_folded){.n_classes = 0};
}
