/* Host nodes and CPU events without common ids: the two files tell the same story, thread by
   thread, but may begin and end at different steps, and each has a few calls that the other lacks.
   So threads are paired by the names they call; the place where a pair's texts fit is found by
   votes; from there both are read side by side. */
#include "export/pt_match.h"
#include "export/pt_sort.h"
#include "syntorch/memory.h"

#include <stdlib.h>

#define GRAM        4       /* names in a row that make a place recognisable */
#define MAX_SAMPLES 256     /* places of the host thread that vote */
#define MAX_BALLOTS 1024    /* of one place */
#define MAX_VOTES   4000000 /* of one pair of threads */
#define LOOK_AHEAD  32      /* calls that one of the two may have more */
#define MAX_THREADS 1024    /* of each file that are paired */

/* Calls of one thread: list[begin .. end). */
typedef struct thread {
    uint64_t tid;
    size_t begin, end;
} thread;

/* One of the two files: its free calls, thread by thread in the order they began. */
typedef struct side {
    uint32_t *list; /* host nodes, or events */
    uint32_t *name; /* per entry: its id among both files' names */
    int64_t *seq;   /* per entry: autograd's sequence number, -1 none */
    size_t n;
    thread *threads;
    size_t n_threads, threads_cap;
} side;

typedef struct aligner {
    syn__pt_matcher *m;
    side host, device;
    /* Of the pair of threads at hand: */
    size_t h_end, d_begin, d_end;
    bool by_seq;       /* places are recognised by name and sequence number */
    syn__pt_map first; /* a place's key to the first entry of `device` that has it */
    uint32_t *next;    /* per entry of `device`: the next with its key */
    uint64_t *ballots;
    size_t n_votes;
    bool repeats;              /* the host thread fits several places of the device's equally */
    int64_t first_ns, last_ns; /* begin of the first and the last call paired so far */
} aligner;

/* ---- The two sides ---- */

static int64_t sequence_of(const syn__pt_event *e) {
    const syn__et_str object = {e->text, e->text_bytes};
    const syn__et_str number = syn__pt_find(syn__pt_find(object, "args"), "Sequence number");
    int64_t seq = -1;
    return number.bytes > 0 && syn__loose_i64(number, &seq) && seq >= 0 ? seq : -1;
}

static syn_status new_side(const aligner *a, side *s, size_t n) {
    s->list = syn_malloc(n * sizeof *s->list);
    s->name = syn_malloc(n * sizeof *s->name);
    s->seq = syn_malloc(n * sizeof *s->seq);
    if (s->list && s->name && s->seq) return SYN_OK;
    return SYN_FAIL_NOMEM(a->m->err, n * 16, "the order of calls");
}

static syn_status find_threads(const aligner *a, side *s,
                               uint64_t (*tid)(const aligner *, uint32_t)) {
    for (size_t i = 0; i < s->n; i++) {
        const uint64_t t = tid(a, s->list[i]);
        if (s->n_threads == 0 || s->threads[s->n_threads - 1].tid != t) {
            SYN_TRY(syn_grow(&s->threads, &s->threads_cap, s->n_threads + 1, sizeof *s->threads,
                             a->m->err));
            s->threads[s->n_threads++] = (thread){t, i, i};
        }
        s->threads[s->n_threads - 1].end = i + 1;
    }
    return SYN_OK;
}

static uint64_t node_tid(const aligner *a, uint32_t node) {
    return a->m->rank->host.nodes[node].tid;
}

static uint64_t event_tid(const aligner *a, uint32_t event) {
    return a->m->rank->device.events[event].tid;
}

/* Names that both files have: others cannot be paired, and would only stand between those that can.
 */
static syn_status find_common(const aligner *a, uint8_t **out) {
    const syn__pt_rank *r = a->m->rank;
    uint8_t *in = syn_calloc(a->m->names.n_entries + 1, 1);
    if (!in) return SYN_FAIL_NOMEM(a->m->err, a->m->names.n_entries + 1, "names");
    for (size_t i = 0; i < r->host.n_nodes; i++)
        if (a->m->node_event[i] == SYN__PT_NONE && r->host.nodes[i].name != 0)
            in[a->m->host_name[r->host.nodes[i].name]] |= 1;
    for (uint32_t i = 0; i < r->device.n_events; i++)
        if (syn__pt_is_free(a->m, i)) in[a->m->event_name[r->device.events[i].name]] |= 2;
    *out = in;
    return SYN_OK;
}

static syn_status read_host(aligner *a, const uint8_t *common) {
    const syn__pt_matcher *m = a->m;
    const syn__pt_host *h = &m->rank->host;
    side *s = &a->host;
    SYN_TRY(new_side(a, s, h->n_nodes));
    for (size_t i = 0; i < h->n_nodes; i++) {
        const uint32_t node = m->order[i];
        if (m->node_event[node] == SYN__PT_NONE && h->nodes[node].name != 0 &&
            common[m->host_name[h->nodes[node].name]] == 3)
            s->list[s->n++] = node;
    }
    uint64_t *keys = syn_malloc(s->n * sizeof *keys);
    uint32_t *order = NULL;
    if (!keys) return SYN_FAIL_NOMEM(m->err, s->n * sizeof *keys, "the order of calls");
    for (size_t i = 0; i < s->n; i++) keys[i] = node_tid(a, s->list[i]);
    const syn_status status = syn__pt_sort(keys, s->n, &order, m->err);
    syn_free(keys);
    SYN_TRY(status);
    syn__pt_permute(s->list, sizeof *s->list, order, s->n);
    syn_free(order);
    for (size_t i = 0; i < s->n; i++) {
        const syn__pt_host_node *n = &h->nodes[s->list[i]];
        s->name[i] = m->host_name[n->name];
        s->seq[i] = n->has & SYN__PT_HAS_SEQ_ID ? n->seq_id : -1;
    }
    return find_threads(a, s, node_tid);
}

static syn_status read_device(aligner *a, const uint8_t *common) {
    const syn__pt_matcher *m = a->m;
    const syn__pt_device *d = &m->rank->device;
    side *s = &a->device;
    SYN_TRY(new_side(a, s, d->n_events));
    for (uint32_t i = 0; i < d->n_events; i++)
        if (syn__pt_is_free(m, i) && (d->events[i].flags & SYN__PT_EVENT_TS) &&
            common[m->event_name[d->events[i].name]] == 3)
            s->list[s->n++] = i;
    SYN_TRY(syn__pt_sort_calls(m->rank, s->list, s->n, true, m->err));
    for (size_t i = 0; i < s->n; i++) {
        s->name[i] = m->event_name[d->events[s->list[i]].name];
        s->seq[i] = sequence_of(&d->events[s->list[i]]);
    }
    return find_threads(a, s, event_tid);
}

/* ---- Which threads are the same ---- */

/* A name that a thread calls `count` times. */
typedef struct use {
    uint32_t name, thread, count;
} use;

static int compare_keys(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* By name, then thread; of the first MAX_THREADS. */
static syn_status count_uses(const aligner *a, const side *s, use **out, size_t *n_out) {
    const size_t last = s->n_threads < MAX_THREADS ? s->n_threads : MAX_THREADS;
    uint64_t *keys = syn_malloc(s->n * sizeof *keys);
    *out = syn_malloc(s->n * sizeof **out);
    if (!keys || !*out) {
        syn_free(keys);
        return SYN_FAIL_NOMEM(a->m->err, s->n * (sizeof *keys + sizeof **out), "threads");
    }
    size_t n = 0;
    for (size_t t = 0; t < last; t++)
        for (size_t i = s->threads[t].begin; i < s->threads[t].end; i++)
            keys[n++] = (uint64_t)s->name[i] << 32 | t;
    qsort(keys, n, sizeof *keys, compare_keys);
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && keys[i] == keys[i - 1]) {
            (*out)[*n_out - 1].count++;
            continue;
        }
        (*out)[(*n_out)++] = (use){(uint32_t)(keys[i] >> 32), (uint32_t)keys[i], 1};
    }
    syn_free(keys);
    return SYN_OK;
}

/* A pair's score: calls that both could have made. score: [host thread][MAX_THREADS]. */
static syn_status score_threads(const aligner *a, uint32_t *score) {
    use *host = NULL, *device = NULL;
    size_t n_host = 0, n_device = 0;
    syn_status s = count_uses(a, &a->host, &host, &n_host);
    if (s == SYN_OK) s = count_uses(a, &a->device, &device, &n_device);
    for (size_t h = 0, d = 0; h < n_host && s == SYN_OK; h++) {
        while (d < n_device && device[d].name < host[h].name) d++;
        for (size_t i = d; i < n_device && device[i].name == host[h].name; i++)
            score[(size_t)host[h].thread * MAX_THREADS + device[i].thread] +=
                host[h].count < device[i].count ? host[h].count : device[i].count;
    }
    syn_free(host);
    syn_free(device);
    return s;
}

/* ---- Where two threads fit ---- */

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

/* What the place is recognised by; false: nothing. */
static bool place_key(const aligner *a, const side *s, size_t at, size_t end, uint64_t *key) {
    if (a->by_seq) {
        *key = mix(mix(0, s->name[at]), (uint64_t)s->seq[at]);
        return s->seq[at] >= 0;
    }
    *key = 0;
    for (size_t i = at; i < end && i < at + GRAM; i++) *key = mix(*key, s->name[i]);
    return at + GRAM <= end;
}

static syn_status index_places(aligner *a) {
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

static bool same(const aligner *a, size_t h, size_t d) {
    return a->host.name[h] == a->device.name[d] &&
           (!a->by_seq || a->host.seq[h] < 0 || a->device.seq[d] < 0 ||
            a->host.seq[h] == a->device.seq[d]);
}

/* Some places from *h on vote for the distances to where they are found from *d on. Fills ballots.
 */
static size_t vote(aligner *a, size_t h, size_t d) {
    const size_t n_places = a->h_end - h;
    const size_t step = n_places > MAX_SAMPLES ? n_places / MAX_SAMPLES : 1;
    size_t n = 0, n_samples = 0;
    for (size_t i = h; i < a->h_end && n_samples < MAX_SAMPLES; i += step) {
        uint64_t key = 0;
        if (!place_key(a, &a->host, i, a->h_end, &key)) continue;
        const size_t limit = n + MAX_BALLOTS;
        for (uint32_t j = syn__pt_map_get(&a->first, key); j != SYN__PT_NONE && n < limit;
             j = a->next[j])
            if (j >= d) a->ballots[n++] = a->h_end + j - i; /* > 0 */
        n_samples++;
    }
    qsort(a->ballots, n, sizeof *a->ballots, compare_keys);
    return n;
}

/* Where a distance puts *h and *d: the first place from there on where both call the same. */
static bool place(const aligner *a, uint64_t distance, size_t *h, size_t *d) {
    if (distance + *h < a->h_end + *d) *h = (size_t)(a->h_end + *d - distance);
    else *d = (size_t)(distance + *h - a->h_end);
    while (*h < a->h_end && *d < a->d_end && !same(a, *h, *d)) ++*h, ++*d;
    return *h < a->h_end && *d < a->d_end;
}

/* How far, in the middle, a distance's place is from what other threads have been paired with. */
static uint64_t gap_ns(const aligner *a, uint64_t distance, size_t h, size_t d) {
    const syn__pt_event *events = a->m->rank->device.events;
    if (a->first_ns > a->last_ns || !place(a, distance, &h, &d)) return 0;
    const size_t n = a->h_end - h < a->d_end - d ? a->h_end - h : a->d_end - d;
    const int64_t first_ns = events[a->device.list[d]].ts_ns;
    const int64_t last_ns = events[a->device.list[d + n - 1]].ts_ns;
    const int64_t here_ns = first_ns / 2 + last_ns / 2;
    const int64_t there_ns = a->first_ns / 2 + a->last_ns / 2;
    return here_ns > there_ns ? (uint64_t)here_ns - (uint64_t)there_ns
                              : (uint64_t)there_ns - (uint64_t)here_ns;
}

/* The distance with most votes says where the two fit from *h and *d on; of several the one nearest
   to the other threads, then the least. False: nowhere. */
static bool elect(aligner *a, size_t *h, size_t *d) {
    size_t n_best = 0;
    uint64_t best = 0, best_gap = 0;
    if (a->n_votes > MAX_VOTES) return false;
    const size_t n = vote(a, *h, *d);
    a->n_votes += n + 1;
    for (size_t i = 0, end = 0; i < n; i = end) {
        while (end < n && a->ballots[end] == a->ballots[i]) end++;
        if (end - i < n_best) continue;
        const uint64_t gap = gap_ns(a, a->ballots[i], *h, *d);
        a->repeats = end - i == n_best;
        if (end - i == n_best && gap >= best_gap) continue;
        n_best = end - i;
        best = a->ballots[i];
        best_gap = gap;
    }
    return n_best > 0 && place(a, best, h, d);
}

static void take(aligner *a, size_t h, size_t d) {
    a->m->node_event[a->host.list[h]] = a->device.list[d];
    a->m->event_node[a->device.list[d]] = a->host.list[h];
    a->m->rank->matches.host_time++;
    const int64_t ns = a->m->rank->device.events[a->device.list[d]].ts_ns;
    if (ns < a->first_ns) a->first_ns = ns;
    if (ns > a->last_ns) a->last_ns = ns;
}

/* Calls of no microsecond that begin in the same one may stand in either order. */
static bool swapped(const aligner *a, size_t h, size_t d) {
    return h + 1 < a->h_end && d + 1 < a->d_end && same(a, h, d + 1) && same(a, h + 1, d);
}

/* The nearest place where two calls in a row are the same again. */
static bool look_ahead(const aligner *a, size_t *h, size_t *d) {
    for (size_t sum = 1; sum <= LOOK_AHEAD; sum++)
        for (size_t i = 0; i <= sum; i++) {
            const size_t x = *h + i, y = *d + sum - i;
            if (x >= a->h_end || y >= a->d_end || !same(a, x, y)) continue;
            if (x + 1 < a->h_end && y + 1 < a->d_end && !same(a, x + 1, y + 1)) continue;
            *h = x;
            *d = y;
            return true;
        }
    return false;
}

static void read_side_by_side(aligner *a, size_t h, size_t d) {
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

/* Sequence numbers count the ops that autograd records, in both files alike if they cover the same
   steps. */
static bool has_sequences(const aligner *a, size_t h_begin) {
    size_t n = 0, n_found = 0;
    for (size_t h = h_begin; h < a->h_end; h++) {
        uint64_t key = 0;
        if (!place_key(a, &a->host, h, a->h_end, &key)) continue;
        n++;
        n_found += syn__pt_map_get(&a->first, key) != SYN__PT_NONE;
    }
    return n_found > 0 && n_found * 2 >= n;
}

/* *later: the place is not clear, and would be with the time of other threads. */
static syn_status align_threads(aligner *a, const thread *host, const thread *device, bool *later) {
    size_t h = host->begin, d = device->begin;
    const bool alone = a->first_ns > a->last_ns;
    a->h_end = host->end;
    a->d_begin = device->begin;
    a->d_end = device->end;
    a->n_votes = 0;
    a->by_seq = true;
    SYN_TRY(index_places(a));
    if (!has_sequences(a, h)) {
        a->by_seq = false;
        SYN_TRY(index_places(a));
    }
    if (!elect(a, &h, &d)) {
        *later = false;
        return SYN_OK;
    }
    const bool unclear = a->repeats && !a->by_seq;
    if (unclear && *later) return SYN_OK;
    *later = false;
    if (unclear && alone) a->m->rank->matches.repeats = true;
    read_side_by_side(a, h, d);
    return SYN_OK;
}

/* The pair with the best score first; of equals the threads that come first. */
static size_t pair_threads(uint64_t *pairs, const uint32_t *score) {
    uint8_t taken[2][MAX_THREADS] = {{0}};
    size_t n = 0, n_kept = 0;
    for (uint32_t i = 0; i < MAX_THREADS * MAX_THREADS; i++)
        if (score[i] > 0) pairs[n++] = (uint64_t)(UINT32_MAX - score[i]) << 32 | i;
    qsort(pairs, n, sizeof *pairs, compare_keys);
    for (size_t i = 0; i < n; i++) {
        const size_t h = (uint32_t)pairs[i] / MAX_THREADS, d = (uint32_t)pairs[i] % MAX_THREADS;
        if (taken[0][h] || taken[1][d]) continue;
        taken[0][h] = taken[1][d] = 1;
        pairs[n_kept++] = pairs[i];
    }
    return n_kept;
}

/* Threads whose place is clear first: their time tells the step of the others. */
static syn_status align_pairs(aligner *a, uint64_t *pairs, size_t n) {
    for (int pass = 0; pass < 2; pass++) {
        size_t n_later = 0;
        for (size_t i = 0; i < n; i++) {
            const size_t h = (uint32_t)pairs[i] / MAX_THREADS, d = (uint32_t)pairs[i] % MAX_THREADS;
            bool later = pass == 0;
            SYN_TRY(align_threads(a, &a->host.threads[h], &a->device.threads[d], &later));
            if (later) pairs[n_later++] = pairs[i];
        }
        n = n_later;
    }
    return SYN_OK;
}

static syn_status align(aligner *a) {
    uint8_t *common = NULL;
    SYN_TRY(find_common(a, &common));
    syn_status s = read_host(a, common);
    if (s == SYN_OK) s = read_device(a, common);
    syn_free(common);
    if (s != SYN_OK || a->host.n == 0 || a->device.n == 0) return s;
    const size_t cells = (size_t)MAX_THREADS * MAX_THREADS;
    uint32_t *score = syn_calloc(cells, sizeof *score);
    uint64_t *pairs = syn_malloc(cells * sizeof *pairs);
    a->next = syn_malloc(a->device.n * sizeof *a->next);
    a->ballots = syn_malloc((size_t)MAX_SAMPLES * MAX_BALLOTS * sizeof *a->ballots);
    s = score && pairs && a->next && a->ballots
            ? SYN_OK
            : SYN_FAIL_NOMEM(a->m->err, cells * 12 + a->device.n * 4, "the order of calls");
    if (s == SYN_OK) s = score_threads(a, score);
    if (s == SYN_OK) s = align_pairs(a, pairs, pair_threads(pairs, score));
    syn_free(score);
    syn_free(pairs);
    return s;
}

static void free_side(side *s) {
    syn_free(s->list);
    syn_free(s->name);
    syn_free(s->seq);
    syn_free(s->threads);
}

syn_status syn__pt_align(syn__pt_matcher *m) {
    aligner a = {.m = m, .first_ns = INT64_MAX, .last_ns = INT64_MIN};
    const syn_status s = align(&a);
    free_side(&a.host);
    free_side(&a.device);
    syn__pt_map_free(&a.first);
    syn_free(a.next);
    syn_free(a.ballots);
    return s;
}
