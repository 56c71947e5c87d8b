/* Finds ops of communication libraries that run concurrently with the thread that calls them
   (gloo), and corrects wrong callers in the host trace. Callers are wrong because of such ops, or
   because the observer lost an op.

   The calling thread creates the op of a collective, so the host trace gives the op the tid of that
   thread, but the op begins and ends on one of the library's threads. The op of a message begins
   with its call and ends when the program has waited for it (pt_launch.c finds these ops). The
   observer has one stack of open ops per tid. So the caller of a collective's op is whatever op was
   open when it began, and while it is open, ops of the calling thread get wrong callers, too. The
   same happens if the observer failed to write an op: the op then remains on the stack. The device
   trace has the true threads and times. */
#include "export/pytorch/match/pt_match_steps.h"
#include "export/pytorch/read/pt_names.h"
#include "syntorch/base/memory.h"

/* ---- Without common ids ---- */

/* The unmatched nodes and events of libraries. Nodes are ordered by id and events by time, so both
   are in the order in which they began. */
typedef struct free_ops {
    uint32_t *nodes, *events;
    size_t n_nodes, n_events;
    int64_t *excess; /* per name (in syn__pt_matcher.names): number of nodes minus number of
                        events */
} free_ops;

static bool is_library_name(const syn__pt_matcher *m, uint32_t name) {
    const syn__str s = {syn_intern_get(&m->names, name), syn_intern_entry_bytes(&m->names, name)};
    return syn__pt_is_library_call(s);
}

static void list_free(const syn__pt_matcher *m, free_ops *f, const uint8_t *is_library) {
    const syn__pt_rank *r = m->rank;
    for (size_t i = 0; i < r->host.n_nodes; i++) {
        const uint32_t node = m->order[i], name = m->host_name[r->host.nodes[node].name];
        if (m->node_event[node] != SYN__PT_NONE || !is_library[name]) continue;
        f->nodes[f->n_nodes++] = node;
        f->excess[name]++;
    }
    for (uint32_t i = 0; f->n_nodes > 0 && i < r->device.n_events; i++) {
        const uint32_t name = m->event_name[r->device.events[i].name];
        if (!syn__pt_is_free(m, i) || !is_library[name]) continue;
        f->events[f->n_events++] = i;
        f->excess[name]--;
    }
}

/* Pairs the first node of each name with the first event of that name, the second with the second,
   and so on. */
static void pair_free(syn__pt_matcher *m, const free_ops *f, uint32_t *next) {
    const syn__pt_rank *r = m->rank;
    for (size_t i = 0; i < f->n_nodes; i++) {
        const uint32_t name = m->host_name[r->host.nodes[f->nodes[i]].name];
        if (f->excess[name] != 0) continue;
        while (m->event_name[r->device.events[f->events[next[name]]].name] != name) next[name]++;
        const uint32_t event = f->events[next[name]++];
        m->node_event[f->nodes[i]] = event;
        m->event_node[event] = f->nodes[i];
        m->rank->matches.host_time++;
    }
}

syn_status syn__pt_pair_library_ops(syn__pt_matcher *m) {
    const size_t n_names = m->names.n_entries + 1;
    free_ops f = {.nodes = syn_malloc((m->rank->host.n_nodes + 1) * sizeof *f.nodes),
                  .events = syn_malloc((m->rank->device.n_events + 1) * sizeof *f.events),
                  .excess = syn_calloc(n_names, sizeof *f.excess)};
    uint32_t *next = syn_calloc(n_names, sizeof *next);
    uint8_t *is_library = syn_calloc(n_names, 1);
    const bool complete = f.nodes && f.events && f.excess && next && is_library;
    for (uint32_t i = 0; complete && i + 1 < n_names; i++) is_library[i] = is_library_name(m, i);
    if (complete) {
        list_free(m, &f, is_library);
        pair_free(m, &f, next);
    }
    syn_free(f.nodes);
    syn_free(f.events);
    syn_free(f.excess);
    syn_free(next);
    syn_free(is_library);
    return complete ? SYN_OK : SYN_FAIL_NOMEM(m->err, n_names * 8, "library ops");
}

/* ---- Threads ---- */

/* A thread of the host trace. */
typedef struct thread {
    uint32_t tid;  /* the tid that most of its events have; index in syn__pt_device.names */
    int64_t votes; /* by how many events this tid leads (majority vote, Boyer and Moore 1981) */
    bool muddled;  /* its callers are unreliable: ops of libraries have its tid, or callers are
                      missing */
} thread;

typedef struct finder {
    syn__pt_matcher *m;
    syn__pt_map by_tid; /* host tid -> thread */
    thread *threads;
    size_t n_threads, threads_cap;
    uint8_t *is_library; /* per host name: 0: not determined yet, 1: no, 2: yes */
} finder;

static uint32_t event_tid(const finder *f, uint32_t node) {
    return f->m->rank->device.events[f->m->node_event[node]].tid;
}

static thread *thread_of(const finder *f, uint32_t node) {
    return &f->threads[syn__pt_map_get(&f->by_tid, f->m->rank->host.nodes[node].tid)];
}

static syn_status vote(finder *f, uint32_t node) {
    uint32_t *at = syn__pt_map_put(&f->by_tid, f->m->rank->host.nodes[node].tid);
    if (!at) return SYN_FAIL_NOMEM(f->m->err, f->by_tid.n * 16, "threads");
    if (*at == SYN__PT_NONE) {
        SYN_TRY(syn_grow(&f->threads, &f->threads_cap, f->n_threads + 1, sizeof *f->threads,
                         f->m->err));
        *at = (uint32_t)f->n_threads;
        f->threads[f->n_threads++] = (thread){event_tid(f, node), 0, false};
    }
    thread *t = &f->threads[*at];
    if (t->votes == 0) t->tid = event_tid(f, node);
    t->votes += t->tid == event_tid(f, node) ? 1 : -1;
    return SYN_OK;
}

static bool is_library(finder *f, uint32_t node) {
    const syn__pt_host *h = &f->m->rank->host;
    uint8_t *known = &f->is_library[h->nodes[node].name];
    if (*known == 0)
        *known = syn__pt_is_library_call(syn__pt_host_name(h, h->nodes[node].name)) ? 2 : 1;
    return *known == 2;
}

/* Makes the op that encloses the node in time its parent, or removes the parent if there is no such
   op. */
static void repair_parent(finder *f, uint32_t node) {
    syn__pt_matcher *m = f->m;
    const uint32_t around = m->around[node];
    if (m->detached[node]) m->parent[node] = SYN__PT_NONE;
    else if (around == SYN__PT_NONE || m->place[around] < m->place[node]) m->parent[node] = around;
}

static bool is_repaired(const finder *f, uint32_t node) {
    return f->m->node_event[node] != SYN__PT_NONE && thread_of(f, node)->muddled;
}

static void repair_parents(finder *f) {
    syn__pt_matcher *m = f->m;
    size_t n_late = 0;
    for (uint32_t i = 0; i < m->rank->host.n_nodes; i++)
        if (is_repaired(f, i)) repair_parent(f, i);
    for (size_t i = 0; i < m->n_late; i++)
        if (!is_repaired(f, m->late[i])) m->late[n_late++] = m->late[i];
    m->n_late = n_late;
}

static bool lacks_caller(const syn__pt_matcher *m, uint32_t node) {
    const syn__pt_host_node *n = &m->rank->host.nodes[node];
    if (m->parent[node] != SYN__PT_NONE) return false;
    return !(n->has & SYN__PT_HAS_PARENT) || syn__pt_map_get(&m->by_id, n->parent) == SYN__PT_NONE;
}

static syn_status find(finder *f) {
    syn__pt_matcher *m = f->m;
    const size_t n = m->rank->host.n_nodes;
    bool any = false;
    for (uint32_t i = 0; i < n && !any; i++)
        any = m->node_event[i] != SYN__PT_NONE && (is_library(f, i) || lacks_caller(m, i));
    for (uint32_t i = 0; any && i < n; i++)
        if (m->node_event[i] != SYN__PT_NONE) SYN_TRY(vote(f, i));
    for (uint32_t i = 0; any && i < n; i++) {
        if (m->node_event[i] == SYN__PT_NONE) continue;
        thread *t = thread_of(f, i);
        if (is_library(f, i) && event_tid(f, i) != t->tid) m->detached[i] = true;
        if (m->detached[i] || lacks_caller(m, i)) t->muddled = true;
    }
    if (any) repair_parents(f);
    return SYN_OK;
}

syn_status syn__pt_find_detached(syn__pt_matcher *m) {
    finder f = {.m = m};
    /* Nodes made from the device trace have the right callers. */
    if (m->rank->host.from_event) return SYN_OK;
    f.is_library = syn_calloc(m->rank->host.names.n_entries + 1, 1);
    const syn_status s =
        f.is_library ? find(&f) : SYN_FAIL_NOMEM(m->err, m->rank->host.names.n_entries, "op names");
    syn__pt_map_free(&f.by_tid);
    syn_free(f.threads);
    syn_free(f.is_library);
    return s;
}
