/* Derives the edges that the graph does not store; see links.h. */
#include "export/walk/links.h"

#include "syntorch/base/memory.h"

#include <math.h>
#include <string.h>

static uint32_t rank_of(const syn__rank_edges *l, uint32_t rank_index) {
    return (uint32_t)l->timeline.graph->ranks[rank_index].rank;
}

syn_status syn__rank_edges_open(syn__rank_edges *out, const syn_graph *graph,
                                const syn_export_options *options, const syn_copied_ranks *copies,
                                syn_error *err) {
    memset(out, 0, sizeof *out);
    SYN_TRY(syn__timeline_run(&out->timeline, graph, options, copies, err));
    const syn__timeline *t = &out->timeline;
    const size_t n = t->span_first[t->n_ranks];
    for (size_t i = 0; i < n && !out->has_end; i++) out->has_end = t->courses[i].is_last;
    out->chains = !syn__walk_is_foreign(graph);
    return SYN_OK;
}

void syn__rank_edges_close(syn__rank_edges *links) {
    syn__timeline_free(&links->timeline);
    syn_cursor_free(&links->cursor);
    syn_free(links->sources);
    syn_free(links->behind);
    syn__streams_free(&links->streams);
    memset(links, 0, sizeof *links);
}

syn_status syn__rank_edges_begin(syn__rank_edges *l, uint32_t rank_index, syn_error *err) {
    const syn__timeline *t = &l->timeline;
    const uint32_t n_nodes = t->graph->ranks[rank_index].n_nodes;
    SYN_TRY(syn_grow(&l->behind, &l->behind_cap, n_nodes, sizeof *l->behind, err));
    syn__streams_clear(&l->streams);
    l->next_message = 0;
    while (l->next_message < t->n_messages && t->messages[l->next_message].to_rank < rank_index)
        l->next_message++;
    return SYN_OK;
}

double syn__rank_edges_ns(const syn__rank_edges *links, uint32_t rank_index, uint32_t node) {
    return syn__timeline_course(&links->timeline, rank_index, node)->duration_ns;
}

bool syn__rank_edges_has_point(const syn__meeting *meeting) {
    return meeting->n_members > SYN__RANK_EDGE_PAIRS || !meeting->has_source;
}

double syn__rank_edges_late_ns(const syn__rank_edges *links, uint32_t rank_index, uint32_t node) {
    const syn__timeline *t = &links->timeline;
    const syn__course *course = syn__timeline_course(t, rank_index, node);
    if (course->meeting == SYN__NO_MEETING) return 0;
    return t->meetings[course->meeting].longest_ns - course->duration_ns;
}

/* ---- What a node waits for ---- */

static void take_source(void *arg, uint32_t from, uint32_t classes) {
    syn__rank_edges *l = arg;
    (void)classes;
    l->sources[l->n_sources++] = from; /* syn__rank_edges_of ensured the capacity */
}

/* Sets *before to the last node on a stream of the node, plus one; 0 if there is none, or if the
   node depends on that node anyway, directly or through views. */
static syn_status before_on_stream(syn__rank_edges *l, const syn__walk *walk, uint32_t index,
                                   const syn_node *node, syn__stream_key key, uint32_t *before,
                                   syn_error *err) {
    const bool shown = (node->flags & SYN_NODE_VIRTUAL) == 0 && node->kind != SYN_NODE_METADATA;
    uint32_t last = 0;
    bool known = false;
    *before = 0;
    if (shown && l->chains) {
        uint32_t *on;
        SYN_TRY(syn__streams_at(&l->streams, key, &on, err));
        *before = *on;
        *on = index + 1;
    }
    for (size_t i = 0; i < l->n_sources + node->n_inputs; i++) {
        const uint32_t from =
            i < l->n_sources ? l->sources[i] : walk->producers[node->inputs[i - l->n_sources]];
        if (from == SYN_NO_NODE) continue;
        known = known || l->behind[from] == *before;
        if (l->behind[from] > last) last = l->behind[from];
    }
    l->behind[index] = shown ? index + 1 : last;
    if (known) *before = 0;
    return SYN_OK;
}

/* ---- Edges ---- */

typedef struct emitter {
    syn__rank_edges *l;
    syn__walk *walk;
    syn__rank_edge_fn *each;
    void *arg;
} emitter;

static void emit(const emitter *e, syn__rank_edge_end from, syn__rank_edge_end to, const char *kind,
                 double ns, bool is_comm) {
    const syn__rank_edge link = {from, to, kind, ns, is_comm};
    e->each(e->arg, &link);
}

static syn__rank_edge_end op_end(const emitter *e, uint32_t node) {
    return (syn__rank_edge_end){'o', (uint32_t)e->walk->rank, e->walk->ids[node]};
}

/* Adds edges from a source of the node to the ops of its collective on other ranks or, if the
   collective has a meeting node, to that node. ns: length of edges that begin at the source. */
static void emit_share(const emitter *e, const syn__meeting *m, syn__rank_edge_end from,
                       double ns) {
    const syn__timeline *t = &e->l->timeline;
    const syn__member *members = t->members + m->first_member;
    if (syn__rank_edges_has_point(m)) {
        emit(e, from, (syn__rank_edge_end){'g', t->graph->groups[m->group].id, m->number}, "group",
             ns, true);
        return;
    }
    for (uint32_t i = 0; i < m->n_members; i++) {
        const syn__rank_edge_end to = {'o', rank_of(e->l, members[i].rank), members[i].id};
        if (members[i].rank != e->walk->rank_index)
            emit(e, from, to, "group", ns + (m->longest_ns - members[i].duration_ns), true);
    }
}

static syn_status emit_meeting(const emitter *e, uint32_t index, const syn_node *node,
                               syn_error *err) {
    const syn__timeline *t = &e->l->timeline;
    const uint32_t rank = e->walk->rank_index;
    const syn__course *course = syn__timeline_course(t, rank, index);
    if (course->meeting == SYN__NO_MEETING) return SYN_OK;
    const syn__meeting *m = &t->meetings[course->meeting];
    SYN_TRY(syn__walk_uses(e->walk, node->inputs, node->n_inputs, err));
    const syn__use *uses = e->walk->uses;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const syn__rank_edge_end from = {'t', (uint32_t)e->walk->rank, uses[i].tensor};
        if (i == 0 || uses[i].tensor != uses[i - 1].tensor) emit_share(e, m, from, 0);
    }
    for (size_t i = 0; i < e->l->n_sources; i++)
        emit_share(e, m, op_end(e, e->l->sources[i]),
                   syn__rank_edges_ns(e->l, rank, e->l->sources[i]));
    if (syn__rank_edges_has_point(m))
        emit(e, (syn__rank_edge_end){'g', t->graph->groups[m->group].id, m->number},
             op_end(e, index), "group", syn__rank_edges_late_ns(e->l, rank, index), true);
    return SYN_OK;
}

/* Adds the edge from the matching send to this receive, unless the simulation did not run them in
   order. links.h explains its length. */
static syn_status emit_send(const emitter *e, uint32_t index, syn_error *err) {
    syn__rank_edges *l = e->l;
    const syn__timeline *t = &l->timeline;
    const uint32_t rank = e->walk->rank_index;
    const syn__timeline_message *m = NULL;
    for (; l->next_message < t->n_messages; l->next_message++) {
        m = &t->messages[l->next_message];
        if (m->to_rank != rank || m->to_node >= index) break;
        m = NULL;
    }
    if (m == NULL || m->to_rank != rank || m->to_node != index || !m->in_order) return SYN_OK;
    const syn_node *send = syn_graph_node(t->graph, m->from_rank, m->from_node, &l->cursor);
    if (send == NULL) return SYN_FAIL(err, SYN_E_NOMEM, "out of memory while reading a message");
    const syn__rank_edge_end from = {'o', rank_of(l, m->from_rank), send->id};
    const double longer =
        syn__rank_edges_ns(l, m->from_rank, m->from_node) - syn__rank_edges_ns(l, rank, index);
    emit(e, from, op_end(e, index), "group", fmax(longer, 0), true);
    return SYN_OK;
}

/* Adds the edge from the previous node on a stream, and adds that node to the sources. */
static syn_status emit_stream(const emitter *e, uint32_t index, const syn_node *node,
                              syn__stream_key key, syn_error *err) {
    syn__rank_edges *l = e->l;
    const uint32_t rank = e->walk->rank_index;
    uint32_t before;
    SYN_TRY(before_on_stream(l, e->walk, index, node, key, &before, err));
    if (before == 0) return SYN_OK;
    emit(e, op_end(e, before - 1), op_end(e, index), "stream",
         syn__rank_edges_ns(l, rank, before - 1) + syn__rank_edges_late_ns(l, rank, index),
         syn__walk_is_comm(node) || e->walk->comm[before - 1] != 0);
    l->sources[l->n_sources++] = before - 1;
    return SYN_OK;
}

syn_status syn__rank_edges_of(syn__rank_edges *l, syn__walk *walk, uint32_t index,
                              const syn_node *node, syn__rank_edge_fn *each, void *arg,
                              syn_error *err) {
    const emitter e = {l, walk, each, arg};
    SYN_TRY(
        syn_grow(&l->sources, &l->sources_cap, (size_t)node->n_deps + 2, sizeof *l->sources, err));
    l->n_sources = 0;
    SYN_TRY(syn__walk_deps(walk, node, take_source, l, err));
    const bool is_comm = syn__walk_is_comm(node);
    syn__stream_key shared;
    SYN_TRY(emit_stream(&e, index, node, syn__stream_of(node), err));
    if (syn__timeline_shares(&l->timeline, node, &shared))
        SYN_TRY(emit_stream(&e, index, node, shared, err));
    if (node->kind == SYN_NODE_COLLECTIVE) SYN_TRY(emit_meeting(&e, index, node, err));
    if (node->kind == SYN_NODE_RECV) SYN_TRY(emit_send(&e, index, err));
    const syn__course *course = syn__timeline_course(&l->timeline, walk->rank_index, index);
    if (course->is_last)
        emit(&e, op_end(&e, index), (syn__rank_edge_end){.kind = 'e'}, "control",
             course->duration_ns, is_comm);
    return SYN_OK;
}

void syn__rank_edges_put_end(syn_sink *sink, const syn__rank_edge_end *end) {
    if (end->kind == 'o' || end->kind == 't') {
        syn__walk_put_ref(sink, (int32_t)end->rank, end->kind, end->number);
    } else if (end->kind == 'g') {
        syn_sink_char(sink, 'g');
        syn_sink_u64(sink, end->rank);
        syn_sink_char(sink, '.');
        syn_sink_u64(sink, end->number);
    } else {
        syn_sink_text(sink, "end");
    }
}
