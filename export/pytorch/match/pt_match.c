/* Matches host nodes with CPU events: by record function id; if that fails, by External id; and if
   that fails, too, by name and order (pt_align.c). Also resolves the parents of host nodes. */
#include "export/pytorch/match/pt_match.h"
#include "export/pytorch/match/pt_match_steps.h"
#include "export/pytorch/read/pt_events.h"
#include "export/pytorch/read/pt_names.h"
#include "export/pytorch/read/pt_notes.h"
#include "export/pytorch/read/pt_sort.h"
#include "syntorch/base/memory.h"

#define MAX_TRIES 16 /* maximum number of candidates per record function id */

static syn_status new_table(const syn__pt_matcher *m, uint32_t **out, size_t n) {
    *out = syn_malloc(n * sizeof **out);
    if (!*out)
        return SYN_FAIL_NOMEM(m->err, n * sizeof **out, "the match of host and device traces");
    memset(*out, 0xFF, n * sizeof **out); /* SYN__PT_NONE */
    return SYN_OK;
}

/* ---- Ids and parents ---- */

static syn_status sort_nodes(syn__pt_matcher *m) {
    const syn__pt_host *h = &m->rank->host;
    uint64_t *keys = syn_malloc(h->n_nodes * sizeof *keys);
    if (!keys) return SYN_FAIL_NOMEM(m->err, h->n_nodes * sizeof *keys, "the order of nodes");
    for (size_t i = 0; i < h->n_nodes; i++) keys[i] = h->nodes[i].id;
    const syn_status s = syn__pt_sort(keys, h->n_nodes, &m->order, m->err);
    syn_free(keys);
    SYN_TRY(s);
    SYN_TRY(new_table(m, &m->place, h->n_nodes));
    for (size_t i = 0; i < h->n_nodes; i++) m->place[m->order[i]] = (uint32_t)i;
    return SYN_OK;
}

static syn_status index_ids(syn__pt_matcher *m) {
    const syn__pt_host *h = &m->rank->host;
    for (uint32_t i = 0; i < h->n_nodes - h->n_made; i++) {
        uint32_t *at = syn__pt_map_put(&m->by_id, h->nodes[i].id);
        if (!at) return SYN_FAIL_NOMEM(m->err, h->n_nodes * 16, "node ids");
        if (*at == SYN__PT_NONE || m->options->same_ids == SYN_PYTORCH_LAST_KEEPS) {
            if (*at != SYN__PT_NONE)
                syn__pt_note_host(m->rank, m->notes, SYN_PYTORCH_ANOMALY_DUPLICATE_ID, *at);
            *at = i;
            continue;
        }
        if (m->options->same_ids == SYN_PYTORCH_NONE_KEEPS)
            return SYN_FAIL(m->err, SYN_E_FORMAT,
                            "%.200s: byte %llu: node id %llu appears twice; choose one with "
                            "--dup_ids first or last",
                            m->rank->host_input.name,
                            (unsigned long long)(h->nodes[i].text - m->rank->host_input.data),
                            (unsigned long long)h->nodes[i].id);
        syn__pt_note_host(m->rank, m->notes, SYN_PYTORCH_ANOMALY_DUPLICATE_ID, i);
    }
    return SYN_OK;
}

/* Sets the parent of a node if it is in the file and comes earlier. Nodes whose parent comes later
   are listed in `late`. */
static syn_status resolve_parent(syn__pt_matcher *m, uint32_t node) {
    const syn__pt_host *h = &m->rank->host;
    const syn__pt_host_node *n = &h->nodes[node];
    if (!(n->has & SYN__PT_HAS_PARENT) || n->parent == n->id) return SYN_OK;
    const uint32_t p = syn__pt_map_get(&m->by_id, n->parent);
    if (p == SYN__PT_NONE) {
        syn__pt_note_host(m->rank, m->notes, SYN_PYTORCH_ANOMALY_MISSING_PARENT, node);
    } else if (m->place[p] >= m->place[node]) {
        SYN_TRY(syn_grow(&m->late, &m->late_cap, m->n_late + 1, sizeof *m->late, m->err));
        m->late[m->n_late++] = node;
    } else {
        m->parent[node] = p;
    }
    return SYN_OK;
}

static bool is_library_node(const syn__pt_matcher *m, uint32_t node) {
    return syn__pt_is_library_call(
        syn__pt_host_name(&m->rank->host, m->rank->host.nodes[node].name));
}

/* Notes parents that come later than their children. Ops of libraries are exempt: in an intact
   trace, an op that began concurrently with its thread may have a later op as its parent, or be the
   parent of an earlier op (pt_detach.c). */
static void note_late_parents(const syn__pt_matcher *m) {
    for (size_t i = 0; i < m->n_late; i++) {
        const uint32_t node = m->late[i];
        const uint32_t parent = syn__pt_map_get(&m->by_id, m->rank->host.nodes[node].parent);
        if (is_library_node(m, node) || is_library_node(m, parent)) continue;
        syn__pt_note_host(m->rank, m->notes, SYN_PYTORCH_ANOMALY_PARENT_CYCLE, node);
    }
}

/* ---- Host nodes and CPU events ---- */

/* Converts a name to a form in which names of both files can be compared. The observer writes names
   without changes. Kineto has had several ways to handle characters that JSON must escape; all of
   them are mapped to one form. */
static size_t plain_name(char *text, size_t bytes) {
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++) {
        const char c = text[i];
        if (c != '\n') text[n++] = c == '"' ? '\'' : c == '\\' ? '/' : c;
    }
    return n;
}

/* Maps the names of a file to ids that both files share, although they may escape names
   differently. */
static syn_status decode_names(syn__pt_matcher *m, const syn_intern *names, uint32_t **out) {
    syn_status s = new_table(m, out, names->n_entries);
    char *text = NULL;
    size_t cap = 0;
    for (uint32_t i = 0; i < names->n_entries && s == SYN_OK; i++) {
        const syn__str raw = {syn_intern_get(names, i), syn_intern_entry_bytes(names, i)};
        s = syn_grow(&text, &cap, raw.bytes + 1, 1, m->err);
        if (s != SYN_OK) break;
        const size_t bytes = plain_name(text, syn__loose_decode(raw, text));
        s = syn_intern_put(&m->names, text, bytes, &(*out)[i], m->err);
    }
    syn_free(text);
    return s;
}

/* Whether an event has the name that Kineto writes since PyTorch 2.8 in place of names that are not
   printable ASCII. */
static bool has_no_name(const syn__pt_matcher *m, uint32_t event) {
    const syn__pt_device *d = &m->rank->device;
    return syn__str_is(syn__pt_device_name(d, d->events[event].name), "unknown");
}

static bool same_name(const syn__pt_matcher *m, uint32_t node, uint32_t event) {
    return m->host_name[m->rank->host.nodes[node].name] ==
           m->event_name[m->rank->device.events[event].name];
}

static void pair(syn__pt_matcher *m, uint32_t node, uint32_t event) {
    m->node_event[node] = event;
    m->event_node[event] = node;
}

static bool within(const syn__pt_event *inner, const syn__pt_event *outer) {
    return inner->ts_ns >= outer->ts_ns && syn__pt_event_end(inner) <= syn__pt_event_end(outer);
}

/* How well an event fits a node. It decides if several events have the record function id of the
   node. */
static int fit(const syn__pt_matcher *m, uint32_t node, uint32_t event) {
    const syn__pt_event *events = m->rank->device.events;
    const uint32_t p = m->parent[node], outer = p == SYN__PT_NONE ? p : m->node_event[p];
    int score = same_name(m, node, event) ? 2 : 0;
    if (outer != SYN__PT_NONE && within(&events[event], &events[outer])) score++;
    return score;
}

/* Matches a node with an event of its record function id. The events of an id are chained through
   `next`, ordered by ts. Several nodes may also have the same id; nodes with the name of an event
   are matched first, and only then nodes with any name. */
static void take_by_rf_id(syn__pt_matcher *m, uint32_t node, uint32_t *head, const uint32_t *next,
                          bool any_name) {
    while (next[*head] != SYN__PT_NONE && m->event_node[*head] != SYN__PT_NONE) *head = next[*head];
    uint32_t best = SYN__PT_NONE;
    int best_fit = -1, tries = 0;
    for (uint32_t e = *head; e != SYN__PT_NONE && tries < MAX_TRIES; e = next[e], tries++) {
        if (m->event_node[e] != SYN__PT_NONE || (!any_name && !same_name(m, node, e))) continue;
        const int f = next[*head] == SYN__PT_NONE ? 0 : fit(m, node, e);
        if (f > best_fit) {
            best = e;
            best_fit = f;
        }
    }
    if (best == SYN__PT_NONE) {
        if (any_name)
            syn__pt_note_host(m->rank, m->notes, SYN_PYTORCH_ANOMALY_DUPLICATE_RF_ID, node);
        return;
    }
    pair(m, node, best);
    m->rank->matches.host_rf_id++;
}

/* Whether this record function id has unmatched events, none of which has the node's name. If other
   nodes matched all events, a forked process continued with the ids of its parent, as the workers
   of a data loader do. Its nodes are no evidence against the ids of the parent. */
static bool differs(const syn__pt_matcher *m, uint32_t node, uint32_t head, const uint32_t *next) {
    int tries = 0;
    bool left = false;
    for (uint32_t e = head; e != SYN__PT_NONE && tries < MAX_TRIES; e = next[e], tries++) {
        if (same_name(m, node, e) || has_no_name(m, e)) return false;
        left |= m->event_node[e] == SYN__PT_NONE;
    }
    return left;
}

/* Visits the unmatched nodes whose record function id also occurs in events. take: match these
   nodes. Returns the number of nodes for which differs() is true. */
static uint64_t take_rf_ids(syn__pt_matcher *m, syn__pt_map *heads, const uint32_t *next,
                            bool any_name, bool take) {
    const syn__pt_host *h = &m->rank->host;
    uint64_t n_differ = 0;
    for (size_t i = 0; i < h->n_nodes; i++) {
        const uint32_t node = m->order[i];
        const syn__pt_host_node *n = &h->nodes[node];
        if (!(n->has & SYN__PT_HAS_RF_ID) || n->rf_id == 0) continue;
        if (m->node_event[node] != SYN__PT_NONE) continue;
        const uint32_t head = syn__pt_map_get(heads, n->rf_id);
        if (head == SYN__PT_NONE) continue;
        n_differ += differs(m, node, head, next);
        if (take) take_by_rf_id(m, node, syn__pt_map_put(heads, n->rf_id), next, any_name);
    }
    return n_differ;
}

/* Matches by record function id if the ids are from the same run. Ids start at 1 in every run, so
   the ids of two runs agree as well. If too many names differ, the ids are not used. */
static void match_heads(syn__pt_matcher *m, syn__pt_map *heads, const uint32_t *next) {
    syn_pytorch_matches *c = &m->rank->matches;
    (void)take_rf_ids(m, heads, next, false, true);
    const uint64_t differ = take_rf_ids(m, heads, next, true, false);
    if (differ * 4 <= c->host_rf_id) {
        (void)take_rf_ids(m, heads, next, true, true);
        return;
    }
    m->distrust = true;
    syn__pt_note_many(m->notes, SYN_PYTORCH_ANOMALY_OTHER_RUN, differ, m->rank->host_input.name, 0);
    for (size_t i = 0; i < m->rank->host.n_nodes - m->rank->host.n_made; i++) {
        if (m->node_event[i] != SYN__PT_NONE) m->event_node[m->node_event[i]] = SYN__PT_NONE;
        m->node_event[i] = SYN__PT_NONE;
    }
    c->host_rf_id = 0;
}

static syn_status match_rf_ids(syn__pt_matcher *m) {
    const syn__pt_rank *r = m->rank;
    syn__pt_map heads = {0};
    uint32_t *next = m->scratch;
    syn_status s = SYN_OK;
    for (size_t i = r->device.n_events; i-- > 0 && s == SYN_OK;) {
        const syn__pt_event *e = &r->device.events[i];
        if (!syn__pt_is_cpu(e) || !(e->flags & SYN__PT_EVENT_RF_ID) || e->rf_id == 0) continue;
        uint32_t *head = syn__pt_map_put(&heads, e->rf_id);
        if (!head) s = SYN_FAIL_NOMEM(m->err, r->device.n_events * 16, "record function ids");
        else {
            next[i] = *head;
            if (*head != SYN__PT_NONE)
                syn__pt_note_event(m->rank, m->notes, SYN_PYTORCH_ANOMALY_DUPLICATE_RF_ID,
                                   (uint32_t)i);
            *head = (uint32_t)i;
        }
    }
    if (s == SYN_OK && heads.n > 0) match_heads(m, &heads, next);
    syn__pt_map_free(&heads);
    return s;
}

/* Matches by External id. Some traces without "Record function id" have this id as External id.
   External ids are used if at least nine of ten names agree. */
static syn_status match_external(syn__pt_matcher *m, const syn__pt_map *by_external) {
    const syn__pt_host *h = &m->rank->host;
    uint64_t hits = 0, agree = 0;
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1 && (agree == 0 || agree * 10 < hits * 9)) break;
        for (size_t i = 0; i < h->n_nodes; i++) {
            const syn__pt_host_node *n = &h->nodes[i];
            if (m->node_event[i] != SYN__PT_NONE || !(n->has & SYN__PT_HAS_RF_ID) || n->rf_id == 0)
                continue;
            const uint32_t e = syn__pt_map_get(by_external, n->rf_id);
            if (e == SYN__PT_NONE || !syn__pt_is_free(m, e)) continue;
            hits++;
            if (!same_name(m, (uint32_t)i, e)) continue;
            agree++;
            if (pass == 0) continue;
            pair(m, (uint32_t)i, e);
            m->rank->matches.host_external++;
        }
    }
    return SYN_OK;
}

/* Whether a node can be the parent of another. It can if it encloses the other node in time, or if
   neither of them ran while the profiler recorded. */
static bool fits_as_parent(const syn__pt_matcher *m, uint32_t parent, uint32_t node) {
    const syn__pt_event *events = m->rank->device.events;
    const uint32_t outer = m->node_event[parent], inner = m->node_event[node];
    if (outer == SYN__PT_NONE || inner == SYN__PT_NONE) return outer == inner;
    return events[outer].tid == events[inner].tid && within(&events[inner], &events[outer]);
}

/* If several nodes have the id of a node's parent, picks the right one by means of the events. */
static void choose_parents(syn__pt_matcher *m) {
    const syn__pt_host_node *nodes = m->rank->host.nodes;
    const size_t n_nodes = m->rank->host.n_nodes;
    for (uint32_t i = 0; i < n_nodes; i++) {
        const uint32_t p = m->parent[i];
        if (p == SYN__PT_NONE || fits_as_parent(m, p, i)) continue;
        size_t at = m->place[p];
        while (at > 0 && nodes[m->order[at - 1]].id == nodes[p].id) at--;
        for (; at < n_nodes && nodes[m->order[at]].id == nodes[p].id; at++) {
            if (!fits_as_parent(m, m->order[at], i)) continue;
            m->parent[i] = m->order[at];
            break;
        }
    }
}

static syn_status match_others(syn__pt_matcher *m) {
    const syn__pt_device *d = &m->rank->device;
    syn__pt_map by_external = {0};
    syn_status s = SYN_OK;
    size_t n_free = 0;
    for (uint32_t i = 0; i < d->n_events && s == SYN_OK; i++) {
        if (!syn__pt_is_free(m, i)) continue;
        n_free++;
        if (d->events[i].external_id == -1) continue;
        uint32_t *at = syn__pt_map_put(&by_external, (uint64_t)d->events[i].external_id);
        if (!at) s = SYN_FAIL_NOMEM(m->err, d->n_events * 16, "external ids");
        else if (*at == SYN__PT_NONE) *at = i;
    }
    if (s == SYN_OK && n_free > 0) s = match_external(m, &by_external);
    if (s == SYN_OK && n_free > 0) s = syn__pt_align(m);
    syn__pt_map_free(&by_external);
    return s;
}

static void count_matches(syn__pt_matcher *m) {
    const syn__pt_device *d = &m->rank->device;
    syn_pytorch_matches *c = &m->rank->matches;
    c->host_nodes = m->rank->host.n_nodes - m->rank->host.n_made;
    for (size_t i = 0; i < c->host_nodes; i++)
        c->host_calls += (m->rank->host.nodes[i].has & SYN__PT_HAS_RF_ID) != 0 &&
                         m->rank->host.nodes[i].rf_id != 0;
    for (size_t i = 0; i < d->n_events; i++) {
        if (!syn__pt_is_cpu(&d->events[i])) continue;
        c->cpu_events++;
        c->cpu_events_unused += m->event_node[i] == SYN__PT_NONE;
    }
    c->cpu_events_kept = m->rank->host.n_made;
}

static syn_status match_all(syn__pt_matcher *m) {
    const bool linked = m->rank->host.n_linked > 0;
    if (linked) SYN_TRY(syn__pt_split_linked(m));
    const size_t n_nodes = m->rank->host.n_nodes, n_events = m->rank->device.n_events;
    SYN_TRY(sort_nodes(m));
    SYN_TRY(index_ids(m));
    SYN_TRY(new_table(m, &m->parent, n_nodes));
    SYN_TRY(new_table(m, &m->node_event, n_nodes));
    SYN_TRY(new_table(m, &m->around, n_nodes));
    SYN_TRY(new_table(m, &m->event_node, n_events));
    SYN_TRY(new_table(m, &m->launch, n_events));
    SYN_TRY(new_table(m, &m->scratch, n_events));
    m->self_ns = syn_calloc(n_nodes, sizeof *m->self_ns);
    m->guessed = syn_calloc(n_events + 1, 1);
    m->detached = syn_calloc(n_nodes + 1, 1);
    if (!m->self_ns || !m->guessed || !m->detached)
        return SYN_FAIL_NOMEM(m->err, n_nodes * sizeof *m->self_ns, "the times of ops");
    for (uint32_t i = 0; i < n_nodes; i++) SYN_TRY(resolve_parent(m, i));
    if (linked) {
        note_late_parents(m);
        SYN_TRY(syn__pt_take_linked(m));
        return syn__pt_make_ops(m);
    }
    SYN_TRY(decode_names(m, &m->rank->host.names, &m->host_name));
    SYN_TRY(decode_names(m, &m->rank->device.names, &m->event_name));
    for (uint32_t i = 0; i < n_nodes; i++) {
        const uint32_t made_of = syn__pt_made_of(&m->rank->host, i);
        if (made_of != SYN__PT_NONE) pair(m, i, made_of);
    }
    if (!m->rank->host.from_event) {
        SYN_TRY(match_rf_ids(m));
        SYN_TRY(match_others(m));
        SYN_TRY(syn__pt_pair_library_ops(m));
        if (m->options->same_ids == SYN_PYTORCH_FIRST_KEEPS) choose_parents(m);
    }
    count_matches(m);
    SYN_TRY(syn__pt_find_launches(m));
    SYN_TRY(syn__pt_find_detached(m));
    note_late_parents(m);
    return syn__pt_make_ops(m);
}

syn_status syn__pt_match(syn__pt_rank *rank, const syn_pytorch_options *options,
                         syn_pytorch_note *notes, syn_error *err) {
    syn__pt_matcher m = {.rank = rank, .options = options, .notes = notes, .err = err};
    const syn_status s = match_all(&m);
    syn__pt_map_free(&m.by_id);
    syn_free(m.order);
    syn_free(m.place);
    syn_free(m.parent);
    syn_free(m.late);
    syn_free(m.node_event);
    syn_free(m.event_node);
    syn_free(m.launch);
    syn_free(m.self_ns);
    syn_free(m.guessed);
    syn_free(m.detached);
    syn_free(m.around);
    syn_free(m.host_name);
    syn_free(m.event_name);
    syn_intern_free(&m.names);
    syn_free(m.scratch);
    return s;
}
