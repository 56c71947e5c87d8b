/* Finds the place at which a host thread and a device thread list the same calls, and pairs the
   calls from there. A place is an offset between the two lists. A position in a list is identified
   by several consecutive names, or by a name and its sequence number. Positions that occur in both
   lists, but rarely, give candidate offsets. Samples of the host thread then vote on these
   offsets. */
#include "export/pytorch/match/pt_align.h"

#include <stdlib.h>

#define SHORT_GRAM  4         /* consecutive names that identify a position */
#define LONG_GRAM   64        /* long enough to distinguish most steps of a loop */
#define MAX_WORK    200000000 /* maximum number of comparisons in all votes together */
#define MAX_DRIFT   4         /* maximum number of calls by which a place may be wrong */
#define MIN_NUMBERS 8         /* sequence numbers that are needed to compare the steps */
#define LOOK_AHEAD  64        /* maximum number of extra calls in a row in one of the lists */

static int compare_keys(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

/* Computes the key that identifies a position. Returns false if the position has none. */
static bool place_key(const syn__pt_aligner *a, const syn__pt_side *s, size_t at, size_t end,
                      uint64_t *key) {
    if (a->by_seq) {
        *key = mix(mix(0, s->name[at]), (uint64_t)s->seq[at]);
        return s->seq[at] >= 0;
    }
    *key = 0;
    for (size_t i = at; i < end && i < at + a->gram; i++) *key = mix(*key, s->name[i]);
    return at + a->gram <= end;
}

static syn_status index_places(syn__pt_aligner *a) {
    syn__pt_map_free(&a->first);
    for (size_t d = a->d_end; d-- > a->d_begin;) {
        uint64_t key = 0;
        a->next[d] = SYN__PT_NONE;
        if (!place_key(a, &a->device, d, a->d_end, &key)) continue;
        uint32_t *head = syn__pt_map_put(&a->first, key);
        if (!head) return SYN_FAIL_NOMEM(a->m->err, a->first.n * 16, "the order of calls");
        a->next[d] = *head;
        *head = (uint32_t)d;
    }
    return SYN_OK;
}

static bool same(const syn__pt_aligner *a, size_t h, size_t d) {
    return a->host.name[h] == a->device.name[d] &&
           (!a->by_seq || a->host.seq[h] < 0 || a->device.seq[d] < 0 ||
            a->host.seq[h] == a->device.seq[d]);
}

/* ---- Votes ---- */

/* Samples positions of the host thread from h on. The distances between them vary, because a fixed
   distance could coincide with the length of a loop. */
static void take_samples(syn__pt_aligner *a, size_t h) {
    const size_t n = a->h_end - h, step = n / SYN__PT_SAMPLES + 1;
    a->n_samples = n < SYN__PT_SAMPLES ? n : SYN__PT_SAMPLES;
    for (size_t k = 0; k < a->n_samples; k++) {
        const size_t at = k * n / a->n_samples + k * 7919 % step;
        a->samples[k] = (uint32_t)(h + (at < n ? at : n - 1));
    }
}

/* Returns how often the host thread's position h occurs in the device thread from d on, but at most
   `limit`. */
static size_t count_places(syn__pt_aligner *a, size_t h, size_t d, size_t limit) {
    uint64_t key = 0;
    size_t n = 0;
    if (!place_key(a, &a->host, h, a->h_end, &key)) return 0;
    for (uint32_t j = syn__pt_map_get(&a->first, key); j != SYN__PT_NONE && n < limit;
         j = a->next[j]) {
        n += j >= d && j < a->d_end;
        a->n_work++;
    }
    return n;
}

/* Lists the candidate offsets, in the form h_end + d - h, at which samples occur in the device
   thread. The rarest samples are used first. */
static size_t find_candidates(syn__pt_aligner *a, size_t d) {
    uint64_t by_count[SYN__PT_SAMPLES];
    size_t n_found = 0, n = 0, n_unique = 0;
    for (size_t i = 0; i < a->n_samples; i++) {
        const size_t count = count_places(a, a->samples[i], d, SYN__PT_CANDIDATES);
        if (count > 0) by_count[n_found++] = (uint64_t)count << 32 | a->samples[i];
    }
    qsort(by_count, n_found, sizeof *by_count, compare_keys);
    for (size_t i = 0; i < n_found && n + (by_count[i] >> 32) <= SYN__PT_CANDIDATES; i++) {
        const size_t h = (uint32_t)by_count[i], limit = n + (by_count[i] >> 32);
        uint64_t key = 0;
        (void)place_key(a, &a->host, h, a->h_end, &key);
        for (uint32_t j = syn__pt_map_get(&a->first, key); j != SYN__PT_NONE && n < limit;
             j = a->next[j])
            if (j >= d && j < a->d_end) a->candidates[n++] = a->h_end + j - h;
    }
    qsort(a->candidates, n, sizeof *a->candidates, compare_keys);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || a->candidates[i] != a->candidates[i - 1])
            a->candidates[n_unique++] = a->candidates[i];
    return n_unique;
}

static bool same_row(const syn__pt_aligner *a, size_t h, size_t d) {
    for (size_t i = 0; i < SHORT_GRAM && h + i < a->h_end && d + i < a->d_end; i++)
        if (!same(a, h + i, d + i)) return false;
    return true;
}

/* Compares several consecutive calls at h and d. Returns 2 if they are equal. Returns 1 if the
   calls at h equal the calls at a position at most MAX_DRIFT away from d, which happens after calls
   that only one side has. Returns 0 otherwise. */
static size_t fits(const syn__pt_aligner *a, size_t h, size_t d, size_t d_first) {
    if (same_row(a, h, d)) return 2;
    for (size_t i = 1; i <= MAX_DRIFT; i++) {
        if (d + i < a->d_end && same_row(a, h, d + i)) return 1;
        if (d >= d_first + i && same_row(a, h, d - i)) return 1;
    }
    return 0;
}

/* Returns how well the samples agree with an offset. */
static size_t count_votes(syn__pt_aligner *a, uint64_t distance, size_t d) {
    size_t n = 0;
    for (size_t i = 0; i < a->n_samples; i++) {
        const size_t h = a->samples[i];
        if (distance + h < a->h_end + d || distance + h >= a->h_end + a->d_end) continue;
        n += fits(a, h, (size_t)(distance + h - a->h_end), d);
    }
    a->n_work += 4 * a->n_samples;
    return n;
}

typedef struct gap {
    uint64_t ns, nodes;
} gap;

/* Moves *h and *d forward to the first position with the given offset at which both lists have the
   same call. Returns false if there is none. */
static bool place(const syn__pt_aligner *a, uint64_t distance, size_t *h, size_t *d) {
    if (distance + *h < a->h_end + *d) *h = (size_t)(a->h_end + *d - distance);
    else *d = (size_t)(distance + *h - a->h_end);
    while (*h < a->h_end && *d < a->d_end && !same(a, *h, *d)) ++*h, ++*d;
    return *h < a->h_end && *d < a->d_end;
}

static uint64_t apart(int64_t a, int64_t b) {
    return a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
}

/* The distance between the middle of the match at an offset and the middle of what was paired for
   other threads: in time, and in the order of the host trace. If one file has all steps of the
   other, one of the two distances is the same for all offsets, and the other one decides. */
static gap gap_of(const syn__pt_aligner *a, uint64_t distance, size_t h, size_t d) {
    const syn__pt_event *events = a->m->rank->device.events;
    gap g = {0, 0};
    if (a->first_ns > a->last_ns || !place(a, distance, &h, &d)) return g;
    const size_t n = a->h_end - h < a->d_end - d ? a->h_end - h : a->d_end - d;
    const int64_t first_ns = events[a->device.list[d]].ts_ns;
    const int64_t last_ns = events[a->device.list[d + n - 1]].ts_ns;
    g.ns = apart(first_ns / 2 + last_ns / 2, a->first_ns / 2 + a->last_ns / 2);
    g.nodes = apart((int64_t)a->m->place[a->host.list[h]] + a->m->place[a->host.list[h + n - 1]],
                    (int64_t)a->first_node + a->last_node);
    return g;
}

static bool nearer(gap a, gap b) {
    return a.ns != b.ns ? a.ns < b.ns : a.nodes < b.nodes;
}

/* Finds the place at which the two lists match, from *h and *d on: the offset with the most votes.
   Among offsets with the same votes, the one nearest to the other threads is chosen, then the
   smallest. Returns false if there is none. */
static bool elect(syn__pt_aligner *a, size_t *h, size_t *d) {
    size_t n_best = 0;
    uint64_t best = 0;
    gap best_gap = {0, 0};
    if (a->n_work > MAX_WORK) return false;
    take_samples(a, *h);
    const size_t n = find_candidates(a, *d);
    for (size_t i = 0; i < n; i++) {
        const size_t votes = count_votes(a, a->candidates[i], *d);
        if (votes < n_best || votes == 0) continue;
        const gap g = gap_of(a, a->candidates[i], *h, *d);
        a->repeats = votes == n_best;
        if (votes == n_best && !nearer(g, best_gap)) continue;
        n_best = votes;
        best = a->candidates[i];
        best_gap = g;
    }
    return n_best > 0 && place(a, best, h, d);
}

static void take(syn__pt_aligner *a, size_t h, size_t d) {
    a->m->node_event[a->host.list[h]] = a->device.list[d];
    a->m->event_node[a->device.list[d]] = a->host.list[h];
    a->m->rank->matches.host_time++;
    const int64_t ns = a->m->rank->device.events[a->device.list[d]].ts_ns;
    if (ns < a->first_ns) a->first_ns = ns;
    if (ns > a->last_ns) a->last_ns = ns;
    const uint32_t node = a->m->place[a->host.list[h]];
    if (node < a->first_node) a->first_node = node;
    if (node > a->last_node) a->last_node = node;
}

/* Whether the next two calls are in opposite order. Calls of less than a microsecond that begin in
   the same microsecond may be in either order. */
static bool swapped(const syn__pt_aligner *a, size_t h, size_t d) {
    return h + 1 < a->h_end && d + 1 < a->d_end && same(a, h, d + 1) && same(a, h + 1, d);
}

/* Moves *h and *d to the nearest position after them at which two consecutive calls are equal
   again. Returns false if there is none nearby. */
static bool look_ahead(syn__pt_aligner *a, size_t *h, size_t *d) {
    for (size_t sum = 1; sum <= LOOK_AHEAD; sum++)
        for (size_t i = 0; i <= sum; i++) {
            const size_t x = *h + i, y = *d + sum - i;
            a->n_work++;
            if (x >= a->h_end || y >= a->d_end || !same(a, x, y)) continue;
            if (x + 1 < a->h_end && y + 1 < a->d_end && !same(a, x + 1, y + 1)) continue;
            *h = x;
            *d = y;
            return true;
        }
    return false;
}

/* The same for the nearest position before *h and *d. */
static bool look_back(syn__pt_aligner *a, size_t *h, size_t *d) {
    for (size_t sum = 1; sum <= LOOK_AHEAD; sum++)
        for (size_t i = 0; i <= sum; i++) {
            const size_t x = *h - i, y = *d - (sum - i); /* the position after the two calls */
            a->n_work++;
            if (*h - a->h_begin <= i || *d - a->d_begin <= sum - i || !same(a, x - 1, y - 1))
                continue;
            if (x - 1 > a->h_begin && y - 1 > a->d_begin && !same(a, x - 2, y - 2)) continue;
            *h = x;
            *d = y;
            return true;
        }
    return false;
}

static void read_on(syn__pt_aligner *a, size_t h, size_t d) {
    while (h < a->h_end && d < a->d_end) {
        if (same(a, h, d)) {
            take(a, h++, d++);
        } else if (swapped(a, h, d)) {
            take(a, h, d + 1);
            take(a, h + 1, d);
            h += 2;
            d += 2;
        } else if (!look_ahead(a, &h, &d) && !elect(a, &h, &d)) {
            return;
        }
    }
}

void syn__pt_read_side_by_side(syn__pt_aligner *a, size_t h, size_t d) {
    read_on(a, h, d);
    for (;;) {
        while (h > a->h_begin && d > a->d_begin && same(a, h - 1, d - 1)) take(a, --h, --d);
        if (h == a->h_begin || d == a->d_begin) return;
        if (h > a->h_begin + 1 && d > a->d_begin + 1 && same(a, h - 1, d - 2) &&
            same(a, h - 2, d - 1)) {
            take(a, h - 1, d - 2);
            take(a, h - 2, d - 1);
            h -= 2;
            d -= 2;
        } else if (!look_back(a, &h, &d)) {
            break;
        }
    }
    /* The calls before this position may match elsewhere. */
    a->h_end = h;
    a->d_end = d;
    h = a->h_begin;
    d = a->d_begin;
    if (elect(a, &h, &d)) read_on(a, h, d);
}

/* Whether sequence numbers can be used. Autograd numbers the ops that it records, so the numbers
   agree in both files if these cover the same steps. */
static bool has_sequences(syn__pt_aligner *a, size_t h_begin) {
    size_t n = 0, n_found = 0, n_device = 0;
    for (size_t h = h_begin; h < a->h_end; h++) {
        uint64_t key = 0;
        if (!place_key(a, &a->host, h, a->h_end, &key)) continue;
        n++;
        n_found += syn__pt_map_get(&a->first, key) != SYN__PT_NONE;
    }
    for (size_t d = a->d_begin; d < a->d_end; d++) n_device += a->device.seq[d] >= 0;
    const size_t n_both = n < n_device ? n : n_device;
    a->renumbered = n_both >= MIN_NUMBERS && n_found * 2 < n_both;
    return n_found > 0 && n_found * 2 >= n_both;
}

/* Tries the most reliable keys first. */
syn_status syn__pt_find_place(syn__pt_aligner *a, const syn__pt_thread *host,
                              const syn__pt_thread *device, size_t *h, size_t *d, bool *found) {
    static const size_t grams[] = {LONG_GRAM, SHORT_GRAM};
    *h = a->h_begin = host->begin;
    *d = a->d_begin = device->begin;
    a->h_end = host->end;
    a->d_end = device->end;
    a->by_seq = true;
    SYN_TRY(index_places(a));
    a->by_seq = has_sequences(a, *h);
    *found = a->by_seq && elect(a, h, d);
    for (size_t i = 0; i < 2 && !a->by_seq; i++) {
        a->gram = grams[i]; /* the short one is last, because it is also used after a gap */
        SYN_TRY(index_places(a));
        if (!*found) *found = elect(a, h, d);
    }
    return SYN_OK;
}
