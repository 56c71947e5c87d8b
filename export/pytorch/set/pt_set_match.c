/* Matches communication across ranks: the collectives of each group, and the messages of each pair
   of ranks. */
#include "export/pytorch/set/pt_set_entries.h"
#include "syntorch/base/memory.h"

static syn__pt_comm *comm_of(const syn__pt_set *s, const syn__pt_entry *e) {
    return &s->ranks[e->rank].comms[e->comm];
}

static void set_row(const syn__pt_set *s, const syn__pt_entry *e, uint32_t row) {
    s->entries[e - s->entries].row = row;
}

static void leave_out(const syn__pt_set *s, const syn__pt_entry *e, syn_pytorch_anomaly kind) {
    comm_of(s, e)->alone = true;
    syn__pt_set_note(s, kind, e);
}

/* How each entry of the shorter of two lists is matched to the longer list. BY_SIZE: to the next
   entry of the same kind and size. BY_KIND: to the next entry of the same kind. BY_ORDER: to the
   next entry. */
typedef enum fit { BY_SIZE, BY_KIND, BY_ORDER } fit;

static bool agree(const syn__pt_set *s, const syn__pt_entry *a, const syn__pt_entry *b, fit how) {
    const syn__pt_comm *x = comm_of(s, a), *y = comm_of(s, b);
    if (how == BY_ORDER) return true;
    return x->collective == y->collective && (how == BY_KIND || x->bytes == y->bytes);
}

static fit find_fit(const syn__pt_set *s, const syn__pt_entry *a, size_t n_a,
                    const syn__pt_entry *b, size_t n_b) {
    for (int how = BY_SIZE; how < BY_ORDER; how++) {
        size_t i = 0;
        for (size_t j = 0; i < n_a && n_a - i <= n_b - j; j++)
            i += agree(s, &a[i], &b[j], (fit)how);
        if (i == n_a) return (fit)how;
    }
    return BY_ORDER;
}

/* ---- Collectives ---- */

/* The collectives of one group. Each rank has a range [at, end) of entries, which is called its
   run. */
typedef struct runs {
    syn__pt_set *s;
    const syn__pt_entry **begin, **at, **end; /* per rank; begin: a copy of `at` */
    fit *how;
    size_t n;
} runs;

/* Matches one collective, whose entries are the first of each run. */
static void match_row(const runs *r) {
    syn__pt_set *s = r->s;
    const syn__pt_comm *first = comm_of(s, r->at[0]);
    int64_t bytes = first->bytes;
    bool same_kind = true, same_size = true;
    for (size_t i = 1; i < r->n; i++) {
        const syn__pt_comm *c = comm_of(s, r->at[i]);
        if (c->collective != first->collective) same_kind = false;
        if (c->bytes != first->bytes) same_size = false;
        if (c->bytes > bytes) bytes = c->bytes;
    }
    if (!same_kind) {
        syn__pt_set_note(s, SYN_PYTORCH_ANOMALY_COMM_DIFFERS, r->at[0]);
        for (size_t i = 0; i < r->n; i++) comm_of(s, r->at[i])->alone = true;
        return;
    }
    if (!same_size) syn__pt_set_note(s, SYN_PYTORCH_ANOMALY_SIZE_DIFFERS, r->at[0]);
    for (size_t i = 0; i < r->n; i++) {
        comm_of(s, r->at[i])->bytes = bytes;
        set_row(s, r->at[i], s->n_rows);
    }
    s->n_rows++;
}

static bool has_sequence(const runs *r) {
    for (size_t i = 0; i < r->n; i++) {
        int64_t last = 0;
        for (const syn__pt_entry *e = r->at[i]; e < r->end[i]; e++) {
            const int64_t sequence = comm_of(r->s, e)->sequence;
            if (sequence < last) return false;
            last = sequence;
        }
    }
    return true;
}

/* The lowest sequence number among the first entries of the runs; -1 if all runs are empty. */
static int64_t lowest(const runs *r) {
    int64_t least = -1;
    for (size_t i = 0; i < r->n; i++) {
        if (r->at[i] == r->end[i]) continue;
        const int64_t sequence = comm_of(r->s, r->at[i])->sequence;
        if (least < 0 || sequence < least) least = sequence;
    }
    return least;
}

static bool has_front(const runs *r, size_t i, int64_t sequence) {
    return r->at[i] < r->end[i] && comm_of(r->s, r->at[i])->sequence == sequence;
}

/* Matches by sequence number. Grouped calls have the same number and are matched in order. Returns
   the number of matches. dry: only count. */
static size_t match_sequence(runs *r, bool dry) {
    size_t n = 0;
    memcpy(r->begin, r->at, r->n * sizeof *r->at);
    for (int64_t sequence = lowest(r); sequence >= 0; sequence = lowest(r)) {
        size_t here = 0;
        for (size_t i = 0; i < r->n; i++) here += has_front(r, i, sequence);
        if (here == r->n) n++;
        if (here == r->n && !dry) match_row(r);
        for (size_t i = 0; i < r->n; i++) {
            if (!has_front(r, i, sequence)) continue;
            if (here != r->n && !dry) leave_out(r->s, r->at[i], SYN_PYTORCH_ANOMALY_COMM_UNMATCHED);
            r->at[i]++;
        }
    }
    memcpy(r->at, r->begin, r->n * sizeof *r->at);
    return n;
}

static void match_order(runs *r) {
    size_t least = 0;
    for (size_t i = 1; i < r->n; i++) {
        if (r->end[i] - r->at[i] < r->end[least] - r->at[least]) least = i;
    }
    const syn__pt_entry *a = r->at[least], *end = r->end[least];
    for (size_t i = 0; i < r->n; i++)
        r->how[i] = find_fit(r->s, a, (size_t)(end - a), r->at[i], (size_t)(r->end[i] - r->at[i]));
    for (; a < end; a++) {
        for (size_t i = 0; i < r->n; i++) {
            while (!agree(r->s, a, r->at[i], r->how[i]))
                leave_out(r->s, r->at[i]++, SYN_PYTORCH_ANOMALY_COMM_UNMATCHED);
        }
        match_row(r);
        for (size_t i = 0; i < r->n; i++) r->at[i]++;
    }
    for (size_t i = 0; i < r->n; i++) {
        while (r->at[i] < r->end[i])
            leave_out(r->s, r->at[i]++, SYN_PYTORCH_ANOMALY_COMM_UNMATCHED);
    }
}

/* The number of ranks of the set that should take part in a collective. seen: number of ranks that
   have it. */
static size_t members(const syn__pt_set *s, const syn__pt_entry *e, size_t seen) {
    const syn__pt_rank *r = &s->ranks[e->rank];
    const uint32_t index = r->comms[e->comm].group;
    if (index == SYN__PT_NONE) return s->n_ranks;
    const syn__pt_group *g = &r->groups[index];
    size_t n = 0;
    for (uint32_t i = 0; i < g->n_ranks; i++)
        n += syn__pt_map_get(&s->by_number, (uint64_t)g->ranks[i]) != SYN__PT_NONE;
    return g->n_ranks != 0 ? n : seen;
}

static void match_group(runs *r, const syn__pt_entry *begin, const syn__pt_entry *end) {
    r->n = 0;
    for (const syn__pt_entry *e = begin; e < end; e++) {
        if (r->n == 0 || e->rank != r->at[r->n - 1]->rank) r->at[r->n++] = e;
        r->end[r->n - 1] = e + 1;
    }
    if (r->n < 2 || r->n < members(r->s, begin, r->n)) {
        for (const syn__pt_entry *e = begin; e < end; e++)
            leave_out(r->s, e, SYN_PYTORCH_ANOMALY_COMM_UNMATCHED);
    } else if (has_sequence(r) && match_sequence(r, true) > 0) {
        (void)match_sequence(r, false);
    } else {
        match_order(r);
    }
}

static syn_status open_runs(runs *r, syn__pt_set *s) {
    const size_t bytes = (s->n_ranks + 1) * sizeof *r->at;
    memset(r, 0, sizeof *r);
    r->s = s;
    r->begin = (const syn__pt_entry **)syn_malloc(bytes);
    r->at = (const syn__pt_entry **)syn_malloc(bytes);
    r->end = (const syn__pt_entry **)syn_malloc(bytes);
    r->how = (fit *)syn_malloc((s->n_ranks + 1) * sizeof *r->how);
    if (r->begin && r->at && r->end && r->how) return SYN_OK;
    return SYN_FAIL_NOMEM(s->err, 4 * bytes, "the match of collectives");
}

syn_status syn__pt_match_collectives(syn__pt_set *s, size_t n) {
    runs r;
    const syn_status status = open_runs(&r, s);
    for (size_t i = 0, end = 0; status == SYN_OK && i < n; i = end) {
        while (end < n && s->entries[end].key == s->entries[i].key) end++;
        match_group(&r, &s->entries[i], &s->entries[end]);
    }
    syn_free(r.begin);
    syn_free(r.at);
    syn_free(r.end);
    syn_free(r.how);
    return status;
}

/* ---- Messages ---- */

/* Matches a send and its receive. */
static void match_pair(syn__pt_set *s, const syn__pt_entry *x, const syn__pt_entry *y,
                       int32_t tag) {
    syn__pt_comm *a = comm_of(s, x), *b = comm_of(s, y);
    if (a->bytes != b->bytes) syn__pt_set_note(s, SYN_PYTORCH_ANOMALY_SIZE_DIFFERS, x);
    a->bytes = b->bytes = a->bytes > b->bytes ? a->bytes : b->bytes;
    a->tag = b->tag = tag;
    set_row(s, x, s->n_rows);
    set_row(s, y, s->n_rows++);
}

static void leave_unmatched(const syn__pt_set *s, const syn__pt_entry *e, bool whole,
                            int32_t *tag) {
    comm_of(s, e)->tag = (*tag)++;
    if (whole) leave_out(s, e, SYN_PYTORCH_ANOMALY_MESSAGE_UNMATCHED);
}

/* Matches the messages of one pair of ranks with one tag. The entries are n_sends sends, followed
   by n_receives receives. */
static void match_way(syn__pt_set *s, const syn__pt_entry *sends, size_t n_sends, size_t n_receives,
                      int32_t *tag) {
    const bool whole = s->n_ranks > 1;
    const bool more = n_sends > n_receives;
    const syn__pt_entry *few = more ? sends + n_sends : sends;
    const syn__pt_entry *many = more ? sends : sends + n_sends;
    const size_t n_few = more ? n_receives : n_sends, n_many = more ? n_sends : n_receives;
    const fit how = find_fit(s, few, n_few, many, n_many);
    size_t i = 0;
    for (size_t j = 0; j < n_many; j++) {
        if (whole && i < n_few && agree(s, &few[i], &many[j], how))
            match_pair(s, &few[i++], &many[j], (*tag)++);
        else leave_unmatched(s, &many[j], whole, tag);
    }
    for (; i < n_few; i++) leave_unmatched(s, &few[i], whole, tag);
}

void syn__pt_match_messages(syn__pt_set *s, size_t first) {
    int32_t tag = 0;
    for (size_t i = first, end = first; i < s->n_entries; i = end) {
        const syn__pt_entry *e = &s->entries[i];
        size_t sends = 0;
        if (i == first || e[-1].from != e->from || e[-1].to != e->to) tag = 0;
        for (; end < s->n_entries; end++) {
            const syn__pt_entry *x = &s->entries[end];
            if (x->from != e->from || x->to != e->to || x->key != e->key || x->tag != e->tag) break;
            sends += !x->receives;
        }
        match_way(s, e, sends, end - i - sends, &tag);
    }
}
