/* Matches host nodes and CPU events that have no common ids. Both files list the same calls,
   separately for each thread, but they may begin and end at different steps, and each has a few
   calls that the other lacks. The match is found in three steps: threads are paired by the names of
   their calls, a vote finds the place where a pair of threads matches, and from there the calls of
   both are paired in order. */
#include "export/pytorch/match/pt_align.h"
#include "export/pytorch/match/pt_match_steps.h"
#include "export/pytorch/read/pt_events.h"
#include "export/pytorch/read/pt_sort.h"
#include "syntorch/base/memory.h"

#include <stdlib.h>

#define MAX_THREADS 1024 /* maximum number of threads per file that are paired */

/* ---- The two sides ---- */

static int64_t sequence_of(const syn__pt_event *e) {
    const syn__str object = {e->text, e->text_bytes};
    const syn__str number = syn__loose_find(syn__loose_find(object, "args"), "Sequence number");
    int64_t seq = -1;
    return number.bytes > 0 && syn__loose_i64(number, &seq) && seq >= 0 ? seq : -1;
}

static syn_status new_side(const syn__pt_aligner *a, syn__pt_side *s, size_t n) {
    s->list = syn_malloc(n * sizeof *s->list);
    s->name = syn_malloc(n * sizeof *s->name);
    s->seq = syn_malloc(n * sizeof *s->seq);
    if (s->list && s->name && s->seq) return SYN_OK;
    return SYN_FAIL_NOMEM(a->m->err, n * 16, "the order of calls");
}

static int by_first(const void *a, const void *b) {
    const syn__pt_thread *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Lists the threads of a file in the order of their first calls. If several threads have the same
   calls, the first thread of one file is then paired with the first of the other. */
static syn_status find_threads(const syn__pt_aligner *a, syn__pt_side *s,
                               uint64_t (*tid)(const syn__pt_aligner *, uint32_t),
                               uint64_t (*begin)(const syn__pt_aligner *, uint32_t)) {
    for (size_t i = 0; i < s->n; i++) {
        const uint64_t t = tid(a, s->list[i]);
        if (s->n_threads == 0 || s->threads[s->n_threads - 1].tid != t) {
            SYN_TRY(syn_grow(&s->threads, &s->threads_cap, s->n_threads + 1, sizeof *s->threads,
                             a->m->err));
            s->threads[s->n_threads++] = (syn__pt_thread){t, begin(a, s->list[i]), i, i};
        }
        s->threads[s->n_threads - 1].end = i + 1;
    }
    if (s->n_threads > 1) qsort(s->threads, s->n_threads, sizeof *s->threads, by_first);
    return SYN_OK;
}

static uint64_t node_tid(const syn__pt_aligner *a, uint32_t node) {
    return a->m->rank->host.nodes[node].tid;
}

static uint64_t node_place(const syn__pt_aligner *a, uint32_t node) {
    return a->m->place[node];
}

static uint64_t event_begin(const syn__pt_aligner *a, uint32_t event) {
    return syn__pt_i64_key(a->m->rank->device.events[event].ts_ns);
}

static uint64_t event_tid(const syn__pt_aligner *a, uint32_t event) {
    return a->m->rank->device.events[event].tid;
}

/* Finds the names that occur in both files. Calls with other names cannot be paired, and would only
   separate the calls that can. */
static syn_status find_common(const syn__pt_aligner *a, uint8_t **out) {
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

static syn_status read_host(syn__pt_aligner *a, const uint8_t *common) {
    const syn__pt_matcher *m = a->m;
    const syn__pt_host *h = &m->rank->host;
    syn__pt_side *s = &a->host;
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
    return find_threads(a, s, node_tid, node_place);
}

static syn_status read_device(syn__pt_aligner *a, const uint8_t *common) {
    const syn__pt_matcher *m = a->m;
    const syn__pt_device *d = &m->rank->device;
    syn__pt_side *s = &a->device;
    SYN_TRY(new_side(a, s, d->n_events));
    for (uint32_t i = 0; i < d->n_events; i++)
        if (syn__pt_is_free(m, i) && (d->events[i].flags & SYN__PT_EVENT_TS) &&
            common[m->event_name[d->events[i].name]] == 3)
            s->list[s->n++] = i;
    SYN_TRY(syn__pt_sort_events(&m->rank->device, s->list, s->n,
                                SYN__PT_OUTER_FIRST | SYN__PT_BY_START | SYN__PT_BY_THREAD,
                                m->err));
    for (size_t i = 0; i < s->n; i++) {
        s->name[i] = m->event_name[d->events[s->list[i]].name];
        s->seq[i] = sequence_of(&d->events[s->list[i]]);
    }
    return find_threads(a, s, event_tid, event_begin);
}

/* ---- Pairing of threads ---- */

/* A name that a thread calls `count` times. */
typedef struct use {
    uint32_t name, thread, count;
} use;

static int compare_keys(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Counts the names that each thread calls, ordered by name and then thread. Only the first
   MAX_THREADS threads are counted. */
static syn_status count_uses(const syn__pt_aligner *a, const syn__pt_side *s, use **out,
                             size_t *n_out) {
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

/* Computes the score of each pair of threads: the number of calls that both threads could share.
   score: [host thread][device thread], in rows of MAX_THREADS elements. */
static syn_status score_threads(const syn__pt_aligner *a, uint32_t *score) {
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

/* Matches a pair of threads. *later: on entry, whether to postpone the pair if its place is
   ambiguous; on return, whether it was postponed. */
static syn_status align_threads(syn__pt_aligner *a, const syn__pt_thread *host,
                                const syn__pt_thread *device, bool *later) {
    size_t h, d;
    const bool alone = a->first_ns > a->last_ns;
    bool found = false;
    SYN_TRY(syn__pt_find_place(a, host, device, &h, &d, &found));
    const bool unclear = found && a->repeats && !a->by_seq;
    if (unclear && *later) return SYN_OK;
    *later = false;
    if (unclear && alone) a->m->rank->matches.repeats = true;
    if (found && a->renumbered) a->m->rank->matches.renumbered = true;
    if (found) syn__pt_read_side_by_side(a, h, d);
    return SYN_OK;
}

/* Picks pairs of threads in descending order of score. Among pairs with the same score, the threads
   that come first are picked first. */
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

/* Matches all pairs of threads, and postpones the ambiguous ones. The times of the threads that
   were matched then show to which step the others belong. */
static syn_status align_pairs(syn__pt_aligner *a, uint64_t *pairs, size_t n) {
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

static syn_status align(syn__pt_aligner *a) {
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
    a->candidates = syn_malloc((size_t)SYN__PT_CANDIDATES * sizeof *a->candidates);
    s = score && pairs && a->next && a->candidates
            ? SYN_OK
            : SYN_FAIL_NOMEM(a->m->err, cells * 12 + a->device.n * 4, "the order of calls");
    if (s == SYN_OK) s = score_threads(a, score);
    if (s == SYN_OK) s = align_pairs(a, pairs, pair_threads(pairs, score));
    syn_free(score);
    syn_free(pairs);
    return s;
}

static void free_side(syn__pt_side *s) {
    syn_free(s->list);
    syn_free(s->name);
    syn_free(s->seq);
    syn_free(s->threads);
}

syn_status syn__pt_align(syn__pt_matcher *m) {
    syn__pt_aligner a = {
        .m = m, .first_ns = INT64_MAX, .last_ns = INT64_MIN, .first_node = UINT32_MAX};
    const syn_status s = align(&a);
    free_side(&a.host);
    free_side(&a.device);
    syn__pt_map_free(&a.first);
    syn_free(a.next);
    syn_free(a.candidates);
    return s;
}
