/* Finds threads that wake up other threads. If a thread was idle for a long time before an op, the
   op is made to depend on the last op that another thread finished before it. Traces do not record
   which thread really woke up the idle one, so this is a guess. */
#include "export/pytorch/deps/pt_edge_finders.h"
#include "export/pytorch/read/pt_sort.h"
#include "syntorch/base/memory.h"

typedef struct ends {
    uint32_t *ops;   /* host ops with times, ordered by end */
    int64_t *ns;     /* ends of these ops */
    uint32_t *other; /* per position: the last earlier position whose op is in another thread;
                        SYN__PT_NONE: none */
    size_t n;
} ends;

static syn_status list_ends(const syn__pt_connector *c, ends *e) {
    const syn__pt_rank *r = c->rank;
    uint64_t *keys = syn_malloc(r->n_ops * sizeof *keys);
    uint32_t *timed = syn_malloc(r->n_ops * sizeof *timed), *order = NULL;
    e->ops = syn_malloc(r->n_ops * sizeof *e->ops);
    e->ns = syn_malloc(r->n_ops * sizeof *e->ns);
    e->other = syn_malloc(r->n_ops * sizeof *e->other);
    syn_status s = SYN_OK;
    if (!keys || !timed || !e->ops || !e->ns || !e->other)
        s = SYN_FAIL_NOMEM(c->err, r->n_ops * sizeof *keys, "threads");
    for (uint32_t i = 0; i < r->n_ops && s == SYN_OK; i++) {
        if (syn__pt_is_device(&r->ops[i]) || r->ops[i].start_ns == SYN__PT_NO_NS) continue;
        keys[e->n] = syn__pt_i64_key(syn__pt_op_end(&r->ops[i]));
        timed[e->n++] = i;
    }
    if (s == SYN_OK) s = syn__pt_sort(keys, e->n, &order, c->err);
    for (uint32_t i = 0; i < e->n && s == SYN_OK; i++) {
        e->ops[i] = timed[order[i]];
        e->ns[i] = syn__pt_op_end(&r->ops[e->ops[i]]);
        e->other[i] = SYN__PT_NONE;
        if (i == 0) continue;
        const bool same = r->ops[e->ops[i - 1]].track == r->ops[e->ops[i]].track;
        e->other[i] = same ? e->other[i - 1] : i - 1;
    }
    syn_free(order);
    syn_free(timed);
    syn_free(keys);
    return s;
}

/* The op of another thread that finished last before `op` began. */
static uint32_t finished_before(const syn__pt_rank *r, const ends *e, uint32_t op) {
    size_t low = 0, high = e->n;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (e->ns[mid] <= r->ops[op].start_ns) low = mid + 1;
        else high = mid;
    }
    if (low == 0) return SYN__PT_NONE;
    const size_t at = low - 1;
    if (r->ops[e->ops[at]].track != r->ops[op].track) return e->ops[at];
    return e->other[at] == SYN__PT_NONE ? SYN__PT_NONE : e->ops[e->other[at]];
}

static syn_status connect_track(syn__pt_connector *c, const ends *e, size_t track) {
    const syn__pt_rank *r = c->rank;
    int64_t busy_until = SYN__PT_NO_NS;
    for (size_t i = c->track_first[track]; i < c->track_first[track + 1]; i++) {
        const uint32_t op = c->track_ops[i];
        const int64_t start = r->ops[op].start_ns, end = syn__pt_op_end(&r->ops[op]);
        /* A detached op is started by its launch. */
        if (start == SYN__PT_NO_NS || r->ops[op].detached) continue;
        const bool idle =
            busy_until == SYN__PT_NO_NS || (start > busy_until && start - busy_until > c->gap_ns);
        if (idle)
            SYN_TRY(syn__pt_add_edge(c, finished_before(r, e, op), op, SYN_PYTORCH_EDGE_THREAD));
        if (end > busy_until) busy_until = end;
    }
    return SYN_OK;
}

syn_status syn__pt_find_wakes(syn__pt_connector *c) {
    ends e = {0};
    if (!syn__pt_wants(c, SYN_PYTORCH_EDGE_THREAD)) return SYN_OK;
    syn_status s = list_ends(c, &e);
    for (size_t track = 0; track < c->rank->n_tracks && s == SYN_OK; track++)
        if (!c->rank->tracks[track].device) s = connect_track(c, &e, track);
    syn_free(e.ops);
    syn_free(e.ns);
    syn_free(e.other);
    return s;
}
