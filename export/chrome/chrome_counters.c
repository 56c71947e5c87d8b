/* Writes the counter tracks of a rank; see chrome_counters.h. */
#include "export/chrome/chrome_counters.h"
#include "syntorch/base/memory.h"

#include <stdlib.h>

typedef struct change {
    int64_t ns, bytes;
} change;

typedef struct life {
    int64_t begin, end; /* start of the first op that writes the storage, end of the last op that
                           reads it, in ns; -1: none */
} life;

typedef struct writer {
    syn_sink *sink;
    const syn__timeline *timeline;
    syn__walk *walk;
    const syn__tracks *tracks;
    life *lives; /* per tensor; only used for tensors that own their storage */
    change *changes;
    size_t n, cap;
    syn_error *err;
} writer;

static syn_status add(writer *w, int64_t ns, int64_t bytes) {
    SYN_TRY(syn_grow(&w->changes, &w->cap, w->n + 1, sizeof *w->changes, w->err));
    w->changes[w->n++] = (change){ns, bytes};
    return SYN_OK;
}

static int compare(const void *a, const void *b) {
    const change *x = a, *y = b;
    if (x->ns != y->ns) return x->ns < y->ns ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* Replaces the changes by the running sum after each of them, with one entry per time. Returns the
   largest sum minus the smallest. */
static int64_t add_up(writer *w, int64_t sum) {
    int64_t least = INT64_MAX, most = INT64_MIN;
    size_t n = 0;
    if (w->n > 1) qsort(w->changes, w->n, sizeof *w->changes, compare);
    for (size_t i = 0; i < w->n; i++) {
        sum += w->changes[i].bytes;
        if (i + 1 < w->n && w->changes[i + 1].ns == w->changes[i].ns) continue;
        w->changes[n++] = (change){w->changes[i].ns, sum};
        if (sum < least) least = sum;
        if (sum > most) most = sum;
    }
    w->n = n;
    return n > 0 ? most - least : 0;
}

/* Writes a counter track, which begins with the value `sum`. Omits changes of at most 0.4 % of the
   track's range, which would not be visible. */
static void put_curve(writer *w, const char *name, int64_t sum) {
    const int64_t seen = add_up(w, sum) / 250;
    int64_t last = -1;
    for (size_t i = 0; i < w->n && syn_sink_status(w->sink) == SYN_OK; i++) {
        const change *c = &w->changes[i];
        const int64_t by = c->bytes > last ? c->bytes - last : last - c->bytes;
        if (i > 0 && i + 1 < w->n && by <= seen) continue;
        last = c->bytes;
        syn_sink_printf(w->sink, ",\n{\"ph\":\"C\",\"name\":\"%s\",\"pid\":%d,\"ts\":", name,
                        (int)w->walk->rank);
        syn_sink_printf(w->sink, "%lld.%03d,\"args\":{\"bytes\":%lld}}",
                        (long long)(w->timeline->base_us + c->ns / 1000), (int)(c->ns % 1000),
                        (long long)c->bytes);
    }
    w->n = 0;
}

/* ---- Memory ---- */

/* Extends the lifetimes of the storages that a node uses. Views are not shown and do not count as
   uses. */
static syn_status note_uses(writer *w, uint32_t index, uint32_t n_tensors) {
    const syn__span *span = syn__timeline_span(w->timeline, w->walk->rank_index, index);
    const syn_node *node;
    const syn_graph_tensor *t;
    if (span->start_ns < 0) return SYN_OK;
    SYN_TRY(syn__walk_node(w->walk, index, &node, w->err));
    for (uint32_t i = 0; i < node->n_outputs + node->n_inputs; i++) {
        const bool out = i < node->n_outputs;
        const uint32_t tensor = out ? node->outputs[i] : node->inputs[i - node->n_outputs];
        SYN_TRY(syn__walk_tensor(w->walk, tensor, &t, w->err));
        life *l = &w->lives[t->base < n_tensors ? t->base : tensor];
        const int64_t begin = syn__whole_ns(span->start_ns), end = syn__whole_ns(span->end_ns);
        if (out && (l->begin < 0 || begin < l->begin)) l->begin = begin;
        if (!out && end > l->end) l->end = end;
    }
    return SYN_OK;
}

static syn_status add_life(writer *w, uint32_t tensor, int64_t *before) {
    const uint32_t stays = SYN_TENSOR_PARAM | SYN_TENSOR_INPUT | SYN_TENSOR_STATE;
    const syn_graph_tensor *t;
    const life *l = &w->lives[tensor];
    SYN_TRY(syn__walk_tensor(w->walk, tensor, &t, w->err));
    const int64_t bytes = (int64_t)syn_spec_bytes(&t->spec);
    if (t->base != tensor || bytes <= 0) return SYN_OK;
    const bool made = t->producer != SYN_NO_NODE && l->begin >= 0;
    if (!made) *before += bytes;
    else SYN_TRY(add(w, l->begin, bytes));
    if ((t->flags & stays) || l->end < 0 || (made && l->end < l->begin)) return SYN_OK;
    return add(w, l->end, -bytes);
}

static syn_status put_memory(writer *w) {
    const syn_graph_rank *rank = &w->walk->graph->ranks[w->walk->rank_index];
    int64_t before = 0;
    if (rank->n_tensors == 0) return SYN_OK;
    w->lives = syn_calloc(rank->n_tensors, sizeof *w->lives);
    if (w->lives == NULL)
        return SYN_FAIL_NOMEM(w->err, rank->n_tensors * sizeof *w->lives, "a memory curve");
    for (uint32_t i = 0; i < rank->n_tensors; i++) w->lives[i] = (life){-1, -1};
    for (uint32_t i = 0; i < rank->n_nodes; i++) SYN_TRY(note_uses(w, i, rank->n_tensors));
    for (uint32_t i = 0; i < rank->n_tensors; i++) SYN_TRY(add_life(w, i, &before));
    if (w->n > 0) SYN_TRY(add(w, 0, 0));
    put_curve(w, "memory", before);
    return SYN_OK;
}

/* ---- Communication ---- */

static syn_status put_in_flight(writer *w) {
    for (size_t i = 0; i < w->tracks->n_slices; i++) {
        const syn__slice *s = &w->tracks->slices[i];
        const syn_node *node;
        SYN_TRY(syn__walk_node(w->walk, s->node, &node, w->err));
        if (!syn__walk_is_comm(node) || node->comm_bytes == 0 || node->comm_bytes > INT64_MAX / 4)
            continue;
        const int64_t start = s->start + s->wait < s->end ? s->start + s->wait : s->start;
        SYN_TRY(add(w, start, (int64_t)node->comm_bytes));
        SYN_TRY(add(w, s->end, -(int64_t)node->comm_bytes));
    }
    put_curve(w, "bytes in flight", 0);
    return SYN_OK;
}

syn_status syn__chrome_put_counters(syn_sink *sink, const syn__timeline *timeline, syn__walk *walk,
                                    const syn__tracks *tracks, syn_error *err) {
    writer w = {.sink = sink, .timeline = timeline, .walk = walk, .tracks = tracks, .err = err};
    syn_status s = put_memory(&w);
    if (s == SYN_OK) s = put_in_flight(&w);
    syn_free(w.lives);
    syn_free(w.changes);
    return s;
}
