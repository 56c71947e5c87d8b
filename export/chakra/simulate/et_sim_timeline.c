/* Writes a simulated run as a timeline in Chrome's trace format
   (docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU). */
#include <inttypes.h>
#include <stdio.h>

#include "export/chakra/simulate/et_sim.h"
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
    /* An event without a comma after it; it changes nothing. */
    syn_sink_text(t->sink,
                  "\n{\"ph\": \"M\", \"name\": \"process_labels\", \"pid\": 0, \"tid\": 0, "
                  "\"args\": {\"labels\": \"\"}}]}\n");
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

syn_status syn__sim_timeline_rank(syn__sim_timeline *t, const syn__sim_set *set,
                                  const syn__sim_rank *rank, const char *name,
                                  const uint64_t *begins, const uint64_t *ends, syn_error *err) {
    const syn__sim_program *p = &set->programs[rank->program];
    syn__sim_names names;
    const syn_status s = syn__sim_names_open(&names, set, rank, err);
    if (s == SYN_OK) put_labels(t->sink, set, rank, name);
    for (uint32_t i = 0; i < p->n_nodes && s == SYN_OK; i++)
        if (ends[i] != SYN__SIM_NO_TIME)
            put_node(t->sink, rank, thread_of(p, i), names.names[i], begins[i], ends[i]);
    syn__sim_names_close(&names);
    return s;
}
