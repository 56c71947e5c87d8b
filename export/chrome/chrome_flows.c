/* Finds the arrows between ranks; see chrome_flows.h. */
#include "export/chrome/chrome_flows.h"
#include "export/walk/timeline_tracks.h"
#include "syntorch/base/memory.h"

#include <stdlib.h>

/* The node with which a rank takes part in a collective. */
typedef struct part {
    uint32_t group, number, rank, node;
    int64_t end;
} part;

typedef struct parts {
    part *at;
    size_t n, cap;
} parts;

static syn_status add(syn__chrome_flows *f, syn__chrome_flow flow, syn_error *err) {
    SYN_TRY(syn_grow(&f->at, &f->cap, f->n + 1, sizeof *f->at, err));
    f->at[f->n++] = flow;
    return SYN_OK;
}

static syn_status add_messages(syn__chrome_flows *f, const syn__timeline *t, syn_error *err) {
    for (size_t i = 0; i < t->n_messages; i++) {
        const syn__timeline_message *m = &t->messages[i];
        const syn__span *sent = syn__timeline_span(t, m->from_rank, m->from_node);
        const syn__span *got = syn__timeline_span(t, m->to_rank, m->to_node);
        if (sent->start_ns < 0 || got->start_ns < 0 ||
            syn__chrome_arrow_end(syn__whole_ns(got->start_ns), syn__whole_ns(got->end_ns)) <
                syn__whole_ns(sent->start_ns))
            continue;
        SYN_TRY(add(f, (syn__chrome_flow){m->from_rank, m->from_node, i + 1, 's', true}, err));
        SYN_TRY(add(f, (syn__chrome_flow){m->to_rank, m->to_node, i + 1, 'f', true}, err));
    }
    return SYN_OK;
}

static syn_status collect(parts *p, const syn__timeline *t, syn__walk *walk, syn_error *err) {
    for (uint32_t k = 0; k < t->n_ranks; k++) {
        const uint32_t r = t->ranks[k];
        syn__walk_select(walk, r);
        for (uint32_t i = 0; i < t->graph->ranks[r].n_nodes; i++) {
            const syn__span *span = syn__timeline_span(t, r, i);
            const syn_node *node;
            if (span->start_ns < 0) continue;
            SYN_TRY(syn__walk_node(walk, i, &node, err));
            if (node->kind != SYN_NODE_COLLECTIVE || node->group == 0) continue;
            SYN_TRY(syn_grow(&p->at, &p->cap, p->n + 1, sizeof *p->at, err));
            p->at[p->n++] =
                (part){node->group, node->comm_index, r, i, syn__whole_ns(span->end_ns)};
        }
    }
    return SYN_OK;
}

#define COMPARE(x, y) \
    if ((x) != (y)) return (x) < (y) ? -1 : 1

static int compare_parts(const void *a, const void *b) {
    const part *x = a, *y = b;
    COMPARE(x->group, y->group);
    COMPARE(x->number, y->number);
    COMPARE(x->end, y->end);
    COMPARE(x->rank, y->rank);
    return x->node < y->node ? -1 : x->node > y->node;
}

static syn_status add_collectives(syn__chrome_flows *f, const parts *p, uint64_t id,
                                  syn_error *err) {
    for (size_t i = 0, n; i < p->n; i += n) {
        const part *first = &p->at[i];
        for (n = 1; i + n < p->n; n++)
            if (first[n].group != first->group || first[n].number != first->number) break;
        if (n < 2) continue;
        id++;
        for (size_t k = 0; k < n; k++) {
            const char phase = k == 0 ? 's' : k + 1 < n ? 't' : 'f';
            SYN_TRY(
                add(f, (syn__chrome_flow){first[k].rank, first[k].node, id, phase, false}, err));
        }
    }
    return SYN_OK;
}

static int compare_flows(const void *a, const void *b) {
    const syn__chrome_flow *x = a, *y = b;
    COMPARE(x->rank, y->rank);
    return x->node < y->node ? -1 : x->node > y->node;
}

syn_status syn__chrome_flows_make(syn__chrome_flows *out, const syn__timeline *t, syn__walk *walk,
                                  syn_error *err) {
    parts p = {0};
    *out = (syn__chrome_flows){0};
    syn_status s = add_messages(out, t, err);
    if (s == SYN_OK) s = collect(&p, t, walk, err);
    if (p.n > 1) qsort(p.at, p.n, sizeof *p.at, compare_parts);
    if (s == SYN_OK) s = add_collectives(out, &p, t->n_messages, err);
    if (out->n > 1) qsort(out->at, out->n, sizeof *out->at, compare_flows);
    syn_free(p.at);
    return s;
}

const syn__chrome_flow *syn__chrome_flow_of(const syn__chrome_flows *flows, uint32_t rank_index,
                                            uint32_t node) {
    const syn__chrome_flow key = {.rank = rank_index, .node = node};
    if (flows->n == 0) return NULL;
    return bsearch(&key, flows->at, flows->n, sizeof *flows->at, compare_flows);
}

void syn__chrome_flows_free(syn__chrome_flows *flows) {
    syn_free(flows->at);
}
