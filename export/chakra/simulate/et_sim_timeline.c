/* Writes a simulated run as a timeline in Chrome's trace format
   (docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU). */
#include <inttypes.h>
#include <stdio.h>

#include "export/chakra/check/et_scan.h"
#include "export/chakra/simulate/et_sim.h"
#include "export/text/file_text.h"
#include "syntorch/base/memory.h"

struct syn__sim_timeline {
    syn_sink *sink;
};

/* Threads of a process: the streams of computation, then messages, the nodes that wait only for
   their dependencies, and the groups. */
enum { MESSAGES = SYN__SIM_STREAMS, FREE_NODES, FIRST_GROUP };

syn_status syn__sim_timeline_open(syn__sim_timeline **out, const char *path, syn_error *err) {
    syn__sim_timeline *t = syn_calloc(1, sizeof *t);
    if (t == NULL) return SYN_FAIL_NOMEM(err, sizeof *t, "a timeline");
    const syn_status s = syn_sink_open_file(&t->sink, path, err);
    if (s != SYN_OK) {
        syn_free(t);
        return s;
    }
    syn_sink_text(t->sink, "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [");
    *out = t;
    return SYN_OK;
}

syn_status syn__sim_timeline_close(syn__sim_timeline *t, bool ok, syn_error *err) {
    syn_sink_text(t->sink, "\n{}]}\n");
    const syn_status s = syn_sink_close(t->sink, ok, err);
    syn_free(t);
    return s;
}

/* Names a thread, or the process if `what` is "process_name". */
static void put_label(syn_sink *sink, const char *what, int32_t pid, uint32_t tid,
                      const char *prefix, const char *name) {
    char text[128];
    snprintf(text, sizeof text, "%s%s", prefix, name);
    syn_sink_printf(sink,
                    "\n{\"ph\": \"M\", \"name\": \"%s\", \"pid\": %" PRId32 ", \"tid\": %" PRIu32
                    ", \"args\": {\"name\": ",
                    what, pid, tid);
    syn_sink_json_string(sink, text);
    syn_sink_text(sink, "}},");
}

static void put_labels(syn_sink *sink, const syn__sim_set *set, const syn__sim_rank *rank,
                       const char *name) {
    const syn__sim_program *p = &set->programs[rank->program];
    char number[16];
    put_label(sink, "process_name", rank->rank, 0, "ranks ", name);
    for (uint32_t i = 0; i < p->n_streams; i++) {
        number[0] = '\0';
        if (i > 0) snprintf(number, sizeof number, " %" PRIu32, i);
        put_label(sink, "thread_name", rank->rank, i, "compute", number);
    }
    if (rank->n_channels > 0) put_label(sink, "thread_name", rank->rank, MESSAGES, "messages", "");
    for (uint32_t i = 0; i < rank->n_groups; i++) {
        snprintf(number, sizeof number, "%.15s",
                 (const char *)syn_intern_get(&set->names, rank->groups[i]));
        put_label(sink, "thread_name", rank->rank, FIRST_GROUP + i, "group ", number);
    }
}

static uint32_t thread_of(const syn__sim_program *p, uint32_t node) {
    const uint32_t kind = p->kinds[node] & ((1u << SYN__SIM_KIND_BITS) - 1);
    switch ((syn__sim_kind)kind) {
    case SYN__SIM_COMPUTE:
        return p->kinds[node] >> SYN__SIM_KIND_BITS;
    case SYN__SIM_COLLECTIVE:
        return FIRST_GROUP + p->calls[p->values[node]].slot;
    case SYN__SIM_FREE:
        return FREE_NODES;
    default:
        return MESSAGES;
    }
}

typedef struct names {
    syn__str *list; /* per node of the file; they point into the file */
    size_t n, cap;
} names;

static syn_status keep_name(void *user, uint32_t index, uint64_t offset, const syn__et_node *node,
                            syn_error *err) {
    names *all = user;
    (void)offset;
    SYN_TRY(syn_grow(&all->list, &all->cap, index + 1u, sizeof *all->list, err));
    all->list[index] = node->name;
    all->n = index + 1u;
    return SYN_OK;
}

static void put_node(syn_sink *sink, const syn__sim_rank *rank, uint32_t thread, syn__str name,
                     uint64_t begin, uint64_t end) {
    char text[256];
    snprintf(text, sizeof text, "%.*s", name.bytes < 200 ? (int)name.bytes : 200, name.text);
    syn_sink_text(sink, "\n{\"ph\": \"X\", \"name\": ");
    syn_sink_json_string(sink, text);
    syn_sink_printf(sink,
                    ", \"pid\": %" PRId32 ", \"tid\": %" PRIu32 ", \"ts\": %" PRIu64 ".%03" PRIu64
                    ", \"dur\": %" PRIu64 ".%03" PRIu64 "},",
                    rank->rank, thread, begin / 1000, begin % 1000, (end - begin) / 1000,
                    (end - begin) % 1000);
}

static syn_status put_nodes(const syn__sim_timeline *t, const syn__sim_set *set,
                            const syn__sim_rank *rank, const syn__file_text *input,
                            const uint64_t *begins, const uint64_t *ends, syn_error *err) {
    const syn__sim_program *p = &set->programs[rank->program];
    names all = {NULL, 0, 0};
    syn__et_scan scan;
    const syn__et_listener listener = {.user = &all, .node = keep_name};
    syn_status s = syn__et_scan_open(&scan, input->data, input->bytes, &listener, err);
    if (s == SYN_OK && all.n != p->n_nodes)
        s = SYN_FAIL(err, SYN_E_IO, "%.300s changed while it was simulated", rank->path);
    for (uint32_t i = 0; i < p->n_nodes && s == SYN_OK; i++)
        if (begins[i] != SYN__SIM_NO_TIME)
            put_node(t->sink, rank, thread_of(p, i), all.list[syn__et_scan_by_id(&scan, i)],
                     begins[i], ends[i]);
    syn__et_scan_close(&scan);
    syn_free(all.list);
    return s;
}

syn_status syn__sim_timeline_rank(syn__sim_timeline *t, const syn__sim_set *set,
                                  const syn__sim_rank *rank, const char *name,
                                  const uint64_t *begins, const uint64_t *ends, syn_error *err) {
    syn__file_text input;
    SYN_TRY(syn__file_text_open(&input, rank->path, set->max_unpacked_bytes, err));
    put_labels(t->sink, set, rank, name);
    const syn_status s = put_nodes(t, set, rank, &input, begins, ends, err);
    syn__file_text_close(&input);
    return s;
}
