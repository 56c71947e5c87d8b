/* Computes the exclusive durations of ops and the dependencies between threads as the reference
   linker does; see pt_compat_link.h. */
#include <math.h>

#include "export/pytorch/compat/pt_compat_link.h"
#include "export/pytorch/read/pt_sort.h"
#include "export/text/python_json.h"
#include "syntorch/base/memory.h"

#define GAP_US 1000 /* a thread that was idle for longer depends on an op of another thread */

/* ---- Exclusive durations ---- */

/* State of the computation for one thread. The reference takes the later ops (by ts, dur) of the
   thread that end within an op, merges their spans, and subtracts these from the op's duration.
   skip[i] is the first position after i whose op does not end within op i. It serves to skip the
   ops within an op that was subtracted already, because their spans add nothing. */
typedef struct sweep {
    const syn__compat *c;
    const uint32_t *order; /* the thread's ops ordered by (ts, dur) */
    size_t n;
    uint32_t *skip;
} sweep;

static syn__compat_op *op_at(const sweep *s, size_t i) {
    return &s->c->ops[s->order[i]];
}

static syn_status fail_negative(const syn__compat *c, const syn__compat_op *op) {
    const syn__str name = syn__pt_device_name(c->device, c->device->events[op->event].name);
    char ts[SYN_NUMBER_TEXT], dur[SYN_NUMBER_TEXT];
    syn__python_float(op->ts, ts);
    syn__python_float(op->dur, dur);
    return SYN_FAIL(c->err, SYN_E_FORMAT,
                    "%.200s: the reference linker stops here: \"Exclusive duration calculation "
                    "error\" for %.*s (ts %s, dur %s), because it is negative; without --compat "
                    "such times become zero",
                    c->device->input->name, (int)(name.bytes < 100 ? name.bytes : 100), name.text,
                    ts, dur);
}

/* Computes the exclusive duration of the op at position i. All later positions must have been
   computed. */
static syn_status measure(const sweep *s, size_t i) {
    syn__compat_op *op = op_at(s, i);
    double begin = 0, end = 0;
    bool open = false, exact = op->dur_int, begin_int = false, end_int = false;
    op->exclusive = op->dur;
    size_t j = i + 1;
    s->skip[i] = (uint32_t)j;
    for (bool prefix = true; j < s->n;) {
        const syn__compat_op *in = op_at(s, j);
        if (in->end <= op->end) {
            if (open && in->ts <= end) {
                if (in->end > end) end = in->end, end_int = in->ts_int && in->dur_int;
            } else {
                if (open) op->exclusive -= end - begin, exact = exact && begin_int && end_int;
                begin = in->ts, end = in->end;
                begin_int = in->ts_int, end_int = in->ts_int && in->dur_int;
                open = true;
            }
            j = s->skip[j];
            if (prefix) s->skip[i] = (uint32_t)j;
            continue;
        }
        prefix = false;
        if (op->end < in->ts) break;
        j++;
    }
    if (open) op->exclusive -= end - begin, exact = exact && begin_int && end_int;
    op->exclusive_int = exact;
    return op->exclusive < 0 || op->dur < 0 ? fail_negative(s->c, op) : SYN_OK;
}

/* Sorts n ops of equal ts by dur. */
static syn_status sort_equal(const syn__compat *c, uint32_t *order, size_t n) {
    if (n <= 16) {
        for (size_t i = 1; i < n; i++) {
            const uint32_t moved = order[i];
            size_t at = i;
            for (; at > 0 && c->ops[order[at - 1]].dur > c->ops[moved].dur; at--)
                order[at] = order[at - 1];
            order[at] = moved;
        }
        return SYN_OK;
    }
    uint64_t *keys = syn_malloc(n * sizeof *keys);
    uint32_t *places = NULL;
    if (keys == NULL) return SYN_FAIL_NOMEM(c->err, n * sizeof *keys, "sorted events");
    for (size_t i = 0; i < n; i++) keys[i] = syn__pt_double_key(c->ops[order[i]].dur);
    const syn_status s = syn__pt_sort(keys, n, &places, c->err);
    if (s == SYN_OK) syn__pt_permute(order, sizeof *order, places, n);
    syn_free(places);
    syn_free(keys);
    return s;
}

static syn_status measure_thread(sweep *s, uint32_t *order, size_t n) {
    for (size_t i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && s->c->ops[order[j]].ts == s->c->ops[order[i]].ts;) j++;
        if (j - i > 1) SYN_TRY(sort_equal(s->c, order + i, j - i));
    }
    s->order = order;
    s->n = n;
    for (size_t i = n; i-- > 0;) SYN_TRY(measure(s, i));
    return SYN_OK;
}

syn_status syn__compat_exclusive(syn__compat *c) {
    sweep s = {.c = c, .skip = syn__compat_array(c, c->n_ops, sizeof *s.skip)};
    uint32_t *order = syn__compat_array(c, c->n_ops, sizeof *order);
    syn_status status = s.skip && order ? SYN_OK : SYN_E_NOMEM;
    if (order) memcpy(order, c->by_thread, c->n_ops * sizeof *order);
    for (uint32_t t = 0; t < c->n_threads && status == SYN_OK; t++) {
        const size_t first = c->first_of[t];
        status = measure_thread(&s, order + first, c->first_of[t + 1] - first);
    }
    syn_free(order);
    syn_free(s.skip);
    return status;
}

/* ---- The preceding op of another thread ---- */

/* Describes the ops that have the same ts. first: the first op of the thread with the lowest number
   among their threads. second: the first op of the thread with the second lowest number;
   SYN__PT_NONE: all of these ops are in one thread. */
typedef struct tie {
    uint32_t first, second;
} tie;

typedef struct threads {
    const syn__compat *c;
    tie *ties;       /* per op: the entry for its ts */
    uint32_t *other; /* per op: the last earlier op of another thread; SYN__PT_NONE: none */
} threads;

static void add_tie(const syn__compat *c, tie *t, uint32_t op) {
    const uint32_t thread = c->ops[op].thread;
    if (t->first == SYN__PT_NONE || thread < c->ops[t->first].thread) {
        t->second = t->first;
        t->first = op;
    } else if (thread != c->ops[t->first].thread &&
               (t->second == SYN__PT_NONE || thread < c->ops[t->second].thread)) {
        t->second = op;
    }
}

static void find_ties(const threads *t) {
    const syn__compat *c = t->c;
    for (size_t i = 0, j; i < c->n_ops; i = j) {
        tie found = {SYN__PT_NONE, SYN__PT_NONE};
        for (j = i; j < c->n_ops && c->ops[j].ts == c->ops[i].ts; j++)
            add_tie(c, &found, (uint32_t)j);
        for (size_t k = i; k < j; k++) t->ties[k] = found;
    }
    for (size_t i = 0; i < c->n_ops; i++) {
        const bool same = i > 0 && c->ops[i].thread == c->ops[i - 1].thread;
        t->other[i] = i == 0 ? SYN__PT_NONE : same ? t->other[i - 1] : (uint32_t)(i - 1);
    }
}

/* The rf_id of the last op of another thread that starts before ts; 0: none. */
static uint64_t last_before(const threads *t, uint32_t thread, double ts) {
    const syn__compat *c = t->c;
    const size_t n = syn__compat_before(c, ts);
    if (n == 0) return 0;
    uint32_t at = (uint32_t)(n - 1);
    if (c->ops[at].thread == thread) at = t->other[at];
    if (at == SYN__PT_NONE || !(c->ops[at].ts > 0)) return 0;
    const tie found = t->ties[at];
    at = c->ops[found.first].thread != thread ? found.first : found.second;
    return c->ops[at].has_rf_id ? c->ops[at].rf_id : 0;
}

static void find_deps(const threads *t, syn__compat_op *ops, const uint32_t *order, size_t n) {
    uint64_t dep = 0;
    for (size_t i = 0; i < n; i++) {
        syn__compat_op *op = &ops[order[i]];
        const syn__compat_op *last = i > 0 ? &ops[order[i - 1]] : op;
        if (i == 0 || op->ts - last->ts - last->dur > GAP_US)
            dep = last_before(t, op->thread, op->ts);
        op->dep = dep;
    }
}

syn_status syn__compat_threads(syn__compat *c) {
    threads t = {c, syn__compat_array(c, c->n_ops, sizeof *t.ties),
                 syn__compat_array(c, c->n_ops, sizeof *t.other)};
    const bool ready = t.ties && t.other;
    if (ready) find_ties(&t);
    for (uint32_t i = 0; i < c->n_threads && ready; i++) {
        const size_t first = c->first_of[i];
        find_deps(&t, c->ops, c->by_thread + first, c->first_of[i + 1] - first);
    }
    syn_free(t.ties);
    syn_free(t.other);
    return ready ? SYN_OK : SYN_E_NOMEM;
}
