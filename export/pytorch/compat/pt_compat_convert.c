/* Converts as the reference converter does (compat mode); see pt_compat.h and pt_compat_convert.h.
   This file makes the nodes. */
#include "export/pytorch/compat/pt_compat_convert.h"

#include <stdarg.h>
#include <stdio.h>

#include "export/pytorch/compat/pt_compat.h"
#include "export/pytorch/read/pt_sort.h"
#include "syntorch/base/memory.h"

syn_status syn__compat_stop(const syn__converter *c, const char *file, int line, const char *fmt,
                            ...) {
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return syn__fail(c->err, file, line, SYN_E_FORMAT,
                     "%.150s: the reference converter stops here: %s", c->host->input->name, text);
}

static syn_status no_memory(const syn__converter *c) {
    return SYN_FAIL(c->err, SYN_E_NOMEM, "out of memory while converting %.200s",
                    c->host->input->name);
}

static void *array(const syn__converter *c, size_t n, size_t elem_bytes) {
    void *at = n < SIZE_MAX ? syn_calloc(n + 1, elem_bytes) : NULL;
    if (at == NULL) (void)no_memory(c);
    return at;
}

static syn_status check_head(const syn__converter *c) {
    const syn__pt_host *h = c->host;
    const char *missing = h->schema.bytes == 0      ? "schema"
                          : h->pid.bytes == 0       ? "pid"
                          : h->time.bytes == 0      ? "time"
                          : h->start_ts.bytes == 0  ? "start_ts"
                          : h->finish_ts.bytes == 0 ? "finish_ts"
                                                    : NULL;
    return missing ? SYN__COMPAT_STOP(c, "\"KeyError: '%s'\"", missing) : SYN_OK;
}

static syn_status check_schema(const syn__converter *c) {
    static const char *const schemas[] = {"\"1.0.2-chakra.0.0.4\"", "\"1.0.3-chakra.0.0.4\"",
                                          "\"1.1.0-chakra.0.0.4\"", "\"1.1.1-chakra.0.0.4\""};
    const syn__str s = c->host->schema;
    for (size_t i = 0; i < sizeof schemas / sizeof schemas[0]; i++)
        if (syn__str_is(s, schemas[i])) return SYN_OK;
    return SYN__COMPAT_STOP(
        c,
        "\"Unsupported schema version\" %.*s (it supports 1.0.2-, 1.0.3-, 1.1.0- and "
        "1.1.1-chakra.0.0.4); without --compat it is read by its keys",
        (int)(s.bytes < 40 ? s.bytes : 40), s.text);
}

/* ---- Nodes ---- */

static syn_status check_node(const syn__converter *c, const syn__pt_host_node *n) {
    const char *missing = !(n->has & SYN__PT_HAS_PARENT) ? "ctrl_deps"
                          : n->inputs_bytes == 0         ? "inputs"
                          : n->outputs_bytes == 0        ? "outputs"
                                                         : NULL;
    if (missing)
        return SYN__COMPAT_STOP(c, "\"KeyError: '%s'\" in node %llu", missing,
                                (unsigned long long)n->id);
    return SYN_OK;
}

/* An attribute "stream" replaces the stream of the node itself. Only nodes with more than the usual
   seven attributes can have it, so only these are searched. */
static void find_stream(const syn__pt_host_node *host, syn__compat_node *node) {
    const char *p = host->text + host->attrs, *end = p + host->attrs_bytes;
    unsigned n = 0;
    while ((p = memchr(p, '{', (size_t)(end - p))) != NULL && p++ < end) n++;
    if (n <= 7) return;
    const syn__str text = syn__pt_attr(host, "stream");
    if (text.bytes == 0) return;
    node->has_stream = syn__loose_i64(text, &node->stream);
}

static void describe_linked(const syn__converter *c, syn__compat_node *node) {
    const syn__pt_host_node *host = &c->host->nodes[node->host];
    node->id = host->id;
    node->parent_id = host->parent;
    node->has_stream = true;
    if (host->linked == SYN__PT_NONE) return;
    const syn__pt_linked *l = &c->host->linked[host->linked];
    node->exclusive = l->exclusive_dur;
    node->inter_thread_dep = l->inter_thread_dep;
    node->stream = l->stream;
    node->has_stream = !l->stream_null;
    node->gpu = l->cat.text != NULL;
}

static void describe_merged(const syn__converter *c, const syn__pt_merged *m,
                            syn__compat_node *node) {
    node->id = m->id;
    node->parent_id = m->parent;
    node->event = m->event;
    node->exclusive = m->cpu_event != SYN__PT_NONE || m->event != SYN__PT_NONE ? m->exclusive : 0;
    node->inter_thread_dep = m->inter_thread_dep != SYN__PT_NONE ? m->inter_thread_dep : 0;
    node->has_stream = true;
    node->gpu = m->event != SYN__PT_NONE;
    if (!node->gpu) return;
    const syn__pt_event *e = &c->device->events[m->event];
    node->stream = e->stream;
    node->has_stream = (e->flags & SYN__PT_EVENT_STREAM) != 0;
}

/* Adds a node. A later node with the same id replaces the earlier one. */
static syn_status add_node(syn__converter *c, const syn__compat_node *node) {
    uint32_t *at = syn__pt_map_put(&c->by_id, node->id);
    if (at == NULL) return no_memory(c);
    if (*at == SYN__PT_NONE) *at = (uint32_t)c->n_nodes++;
    c->nodes[*at] = *node;
    return SYN_OK;
}

static syn_status read_nodes(syn__converter *c, const syn__pt_merged_list *merged) {
    const size_t n = merged ? merged->n_nodes : c->host->n_nodes;
    c->nodes = array(c, n, sizeof *c->nodes);
    if (c->nodes == NULL) return SYN_E_NOMEM;
    for (size_t i = 0; i < n; i++) {
        const uint32_t host = merged ? merged->nodes[i].host : (uint32_t)i;
        syn__compat_node node = {.host = host,
                                 .event = SYN__PT_NONE,
                                 .parent = SYN__PT_NONE,
                                 .first_dep = SYN__PT_NONE,
                                 .last_dep = SYN__PT_NONE};
        SYN_TRY(check_node(c, &c->host->nodes[host]));
        if (merged) describe_merged(c, &merged->nodes[i], &node);
        else describe_linked(c, &node);
        find_stream(&c->host->nodes[host], &node);
        const syn__compat_name *name = syn__compat_name_of(c, &node);
        if (name == NULL) return no_memory(c);
        node.group = (name->flags & SYN__NAME_GROUPS) != 0;
        SYN_TRY(add_node(c, &node));
    }
    return SYN_OK;
}

/* ---- Order and children ---- */

static syn_status sort_nodes(syn__converter *c) {
    uint64_t *keys = array(c, c->n_nodes, sizeof *keys);
    if (keys == NULL) return SYN_E_NOMEM;
    bool sorted = true;
    for (size_t i = 0; i < c->n_nodes; i++) {
        keys[i] = c->nodes[i].id;
        sorted = sorted && (i == 0 || keys[i] > keys[i - 1]);
    }
    syn_status s = SYN_OK;
    if (!sorted) {
        s = syn__pt_sort(keys, c->n_nodes, &c->order, c->err);
    } else if ((c->order = array(c, c->n_nodes, sizeof *c->order)) != NULL) {
        for (size_t i = 0; i < c->n_nodes; i++) c->order[i] = (uint32_t)i;
    } else {
        s = SYN_E_NOMEM;
    }
    syn_free(keys);
    return s;
}

static syn_status find_children(syn__converter *c) {
    c->first_child = array(c, c->n_nodes + 1, sizeof *c->first_child);
    c->children = array(c, c->n_nodes, sizeof *c->children);
    if (!c->first_child || !c->children) return SYN_E_NOMEM;
    uint32_t *next = c->first_child + 1; /* same method as group_by_thread of pt_compat_link.c */
    for (size_t i = 0; i < c->n_nodes; i++) {
        syn__compat_node *n = &c->nodes[i];
        n->parent = syn__pt_map_get(&c->by_id, n->parent_id);
        if (n->parent != SYN__PT_NONE) next[n->parent + 1]++;
    }
    for (size_t i = 1; i <= c->n_nodes; i++) next[i] += next[i - 1];
    for (size_t i = 0; i < c->n_nodes; i++) {
        const uint32_t at = c->order[i], parent = c->nodes[at].parent;
        if (parent != SYN__PT_NONE) c->children[next[parent]++] = at;
    }
    return SYN_OK;
}

/* Determines which nodes the reference converts, and which get a ctrl_dep. It converts nodes in
   file order, and device work directly after its caller. Device work whose caller is not a CPU node
   is lost. A parent that has not been converted yet does not become a ctrl_dep. */
static void mark_written(syn__converter *c) {
    for (size_t i = 0; i < c->n_nodes; i++) {
        syn__compat_node *n = &c->nodes[i];
        const syn__compat_node *parent = n->parent != SYN__PT_NONE ? &c->nodes[n->parent] : NULL;
        const bool called = parent && syn__compat_is_cpu(parent);
        n->written = syn__compat_is_cpu(n) || called;
        if (n->gpu && called) n->ctrl_dep = true;
        else if (called) n->ctrl_dep = n->parent < i;
        else if (parent) {
            const uint32_t above = parent->parent; /* the parent is device work, so it is converted
                                                      directly after this caller */
            n->ctrl_dep =
                above != SYN__PT_NONE && above < i && syn__compat_is_cpu(&c->nodes[above]);
        }
    }
}

/* Reports errors about collectives. The reference determines collectives before it searches for
   dependencies, so these errors come first. */
static syn_status check_comms(syn__converter *c) {
    syn__compat_comm comm;
    for (size_t i = 0; i < c->n_nodes; i++)
        if (c->nodes[i].gpu && c->nodes[i].written)
            SYN_TRY(syn__compat_comm_of(c, &c->nodes[i], &comm));
    return SYN_OK;
}

static syn_status convert(syn__converter *c, const syn__pt_merged_list *merged, syn_sink *sink) {
    SYN_TRY(check_head(c));
    SYN_TRY(check_schema(c));
    SYN_TRY(read_nodes(c, merged));
    SYN_TRY(sort_nodes(c));
    SYN_TRY(find_children(c));
    mark_written(c);
    SYN_TRY(check_comms(c));
    SYN_TRY(syn__compat_deps(c));
    return syn__compat_write(c, sink);
}

syn_status syn__pt_compat_convert(const syn__pt_host *host, const syn__pt_device *device,
                                  const syn__pt_merged_list *merged, syn_sink *sink,
                                  syn_error *err) {
    syn__converter c = {.host = host, .device = device, .err = err};
    const syn_status s = convert(&c, merged, sink);
    syn_free(c.nodes);
    syn__pt_map_free(&c.by_id);
    syn_free(c.order);
    syn_free(c.first_child);
    syn_free(c.children);
    syn_free(c.deps);
    syn_free(c.names[0]);
    syn_free(c.names[1]);
    syn__arena_free(&c.arena);
    return s;
}
