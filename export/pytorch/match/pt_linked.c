/* Handles linked traces: host traces to which chakra_trace_link or `syntorch link` has already
   added times and device work. It makes events from the nodes of device work, so that all later
   steps see the same data as with two files. */
#include "export/pytorch/match/pt_match_steps.h"
#include "export/pytorch/read/pt_events.h"
#include "syntorch/base/memory.h"

static int64_t nanoseconds(double us) {
    return us > -9e15 && us < 9e15 ? (int64_t)(us * 1000 + (us < 0 ? -0.5 : 0.5)) : 0;
}

static syn__pt_class class_of(syn__str cat) {
    if (syn__str_is(cat, "gpu_memcpy")) return SYN__PT_MEMCPY;
    if (syn__str_is(cat, "gpu_memset")) return SYN__PT_MEMSET;
    return SYN__PT_KERNEL;
}

static syn_status add_event(syn__pt_matcher *m, const syn__pt_host_node *n, size_t *cap) {
    syn__pt_rank *r = m->rank;
    syn__pt_device *d = &r->device;
    const syn__pt_linked *l = &r->host.linked[n->linked];
    const syn__str name = syn__pt_host_name(&r->host, n->name);
    const bool work = l->cat.text != NULL;
    syn__pt_event e = {.ts = l->ts,
                       .dur = l->inclusive_dur,
                       .ts_ns = nanoseconds(l->ts),
                       .dur_ns = nanoseconds(l->inclusive_dur),
                       .external_id = -1,
                       .correlation = -1,
                       .rf_id = n->rf_id,
                       .text = n->text,
                       .text_bytes = n->text_bytes,
                       .stream = -1,
                       .device = -1,
                       .class_ = SYN__PT_CPU_OP,
                       .flags = SYN__PT_EVENT_TS | SYN__PT_EVENT_DUR};
    if (work) {
        e.class_ = (uint8_t)class_of(l->cat);
        if (!l->stream_null) e.stream = l->stream;
    }
    SYN_TRY(syn_intern_put(&d->names, name.text, name.bytes, &e.name, m->err));
    SYN_TRY(syn_grow(&d->events, cap, d->n_events + 1, sizeof e, m->err));
    d->n_class[e.class_]++;
    d->events[d->n_events++] = e;
    return SYN_OK;
}

syn_status syn__pt_split_linked(syn__pt_matcher *m) {
    syn__pt_host *h = &m->rank->host;
    syn__pt_device *d = &m->rank->device;
    size_t kept = 0, cap = d->events_cap;
    uint32_t empty = 0;
    SYN_TRY(syn_intern_put(&d->names, "", 0, &empty, m->err));
    for (size_t i = 0; i < h->n_nodes; i++) {
        const syn__pt_host_node *n = &h->nodes[i];
        const syn__pt_linked *l = n->linked == SYN__PT_NONE ? NULL : &h->linked[n->linked];
        if (l) SYN_TRY(add_event(m, n, &cap));
        if (l && l->cat.text) continue;
        h->nodes[kept++] = *n;
    }
    d->events_cap = cap;
    h->n_nodes = kept;
    if (kept > 0) return SYN_OK;
    return SYN_FAIL(m->err, SYN_E_FORMAT, "%.200s has device work but no host nodes",
                    m->rank->host_input.name);
}

/* Matches the events with the nodes from which they were made. Both have the same order, and share
   their texts. */
syn_status syn__pt_take_linked(syn__pt_matcher *m) {
    syn__pt_rank *r = m->rank;
    syn_pytorch_matches *c = &r->matches;
    size_t at = 0;
    for (uint32_t i = 0; i < r->host.n_nodes; i++) {
        const syn__pt_host_node *n = &r->host.nodes[i];
        if (n->linked == SYN__PT_NONE) continue;
        while (r->device.events[at].text != n->text) at++;
        const syn__pt_linked *l = &r->host.linked[n->linked];
        m->node_event[i] = (uint32_t)at;
        m->event_node[at] = i;
        m->self_ns[i] = l->exclusive_dur > 0 ? nanoseconds(l->exclusive_dur) : 0;
        c->host_rf_id++;
        c->cpu_events++;
    }
    c->host_nodes = r->host.n_nodes;
    for (uint32_t i = 0; i < r->device.n_events; i++) {
        const syn__pt_event *e = &r->device.events[i];
        uint64_t parent = 0;
        const syn__str text = {e->text, e->text_bytes};
        if (!syn__pt_is_gpu(e)) continue;
        c->device_events++;
        if (syn__loose_u64(syn__loose_find(text, "ctrl_deps"), &parent))
            m->event_node[i] = syn__pt_map_get(&m->by_id, parent);
        if (m->event_node[i] != SYN__PT_NONE) c->device_correlation++;
        else {
            c->device_none++;
            syn__pt_note_event(m->rank, m->notes, SYN_PYTORCH_ANOMALY_ORPHAN, i);
        }
    }
    return SYN_OK;
}
