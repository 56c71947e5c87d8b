/* Writes a merged list as a linked trace in JSON; see pt_merge.h. The text of the host trace is
   copied, and only some members of each node are changed. */
#include "export/pytorch/write/pt_merge.h"

#include <stdio.h>

#include "export/text/python_json.h"
#include "syntorch/base/memory.h"

#define FLUSH_BYTES ((size_t)256 << 10)
#define MAX_EDITS   12
#define NODE_LEVEL  2

typedef enum edit_kind { EDIT_ID, EDIT_TIME, EDIT_JSON, EDIT_SYNC } edit_kind;

/* A changed member: it replaces the member of the node with that key. If the node has no such
   member, it is added at the end. */
typedef struct edit {
    syn__str key;
    edit_kind kind;
    bool done, integer;
    uint32_t id; /* SYN__PT_NONE: null */
    double time;
    syn__str json; /* bytes 0: null */
} edit;

typedef struct writer {
    const syn__pt_host *host;
    const syn__pt_device *device;
    const syn__pt_merged_list *list;
    syn_sink *sink;
    syn__buf out, quoted;
    const syn__pt_merged *node;
    edit edits[MAX_EDITS];
    size_t n_edits;
} writer;

static void put(writer *w, const char *text) {
    syn__buf_put(&w->out, text, strlen(text));
}

static edit *add(writer *w, const char *key, edit_kind kind) {
    edit *e = &w->edits[w->n_edits++];
    *e = (edit){.key = syn__str_of(key), .kind = kind, .id = SYN__PT_NONE};
    return e;
}

static void add_id(writer *w, const char *key, uint32_t id) {
    add(w, key, EDIT_ID)->id = id;
}

static void add_time(writer *w, const char *key, double time, uint32_t integer) {
    edit *e = add(w, key, EDIT_TIME);
    e->time = time;
    e->integer = (w->node->ints & integer) != 0;
}

static void add_json(writer *w, const char *key, syn__str json) {
    add(w, key, EDIT_JSON)->json = json;
}

/* ---- What a node of device work takes from its event ---- */

typedef struct event_texts {
    syn__str cat, ph, stream, group; /* JSON texts as in the file, including quotes */
} event_texts;

static event_texts read_event(const syn__pt_event *event) {
    const syn__str none = {"", 0}, empty = {"\"\"", 2};
    event_texts t = {empty, none, none, none};
    syn__str key, text;
    syn__loose l;
    syn__loose_init(&l, event->text, event->text_bytes);
    (void)syn__loose_value(&l, &text);
    while (syn__loose_member(&l, &key)) {
        if (syn__str_is(key, "cat")) syn__loose_skip(&l, &t.cat);
        else if (syn__str_is(key, "ph")) syn__loose_skip(&l, &t.ph);
        else if (syn__str_is(key, "args")) {
            syn__loose_skip(&l, &text);
            t.stream = syn__loose_find(text, "stream");
            t.group = syn__loose_find(text, "Process Group Name");
        } else syn__loose_skip(&l, NULL);
    }
    return t;
}

static void edit_device(writer *w) {
    const syn__pt_event *event = &w->device->events[w->node->event];
    const syn__str name = syn__pt_device_name(w->device, event->name);
    const event_texts t = read_event(event);
    w->quoted.bytes = 0;
    syn__buf_put(&w->quoted, "\"", 1);
    syn__buf_put(&w->quoted, name.text, name.bytes);
    syn__buf_put(&w->quoted, "\"", 1);
    add_json(w, "cat", t.cat);
    add_json(w, "name", (syn__str){w->quoted.data, w->quoted.bytes});
    add_json(w, "ph", t.ph);
    add_json(w, "stream", t.stream);
    if (t.group.bytes != 0 && !syn__str_is(t.group, "null") && syn__str_has(name, "ncclDevKernel"))
        add_json(w, "pg_name", t.group);
}

/* Lists the changed members of a node. Members that the node lacks are added in this order. */
static void edit_node(writer *w) {
    const syn__pt_merged *node = w->node;
    const bool has_parent =
        (w->host->nodes[node->host].has & (SYN__PT_HAS_PARENT | SYN__PT_MADE)) != 0;
    w->n_edits = 0;
    add_id(w, "id", node->id);
    if (node->cpu_event != SYN__PT_NONE || node->event != SYN__PT_NONE) {
        add_time(w, "inclusive_dur", node->inclusive, SYN__PT_INCLUSIVE_INT);
        add_time(w, "exclusive_dur", node->exclusive, SYN__PT_EXCLUSIVE_INT);
        add_time(w, "ts", node->ts, SYN__PT_TS_INT);
        add_id(w, "inter_thread_dep", node->inter_thread_dep);
    }
    if (node->parent != SYN__PT_NONE && (has_parent || node->event != SYN__PT_NONE))
        add_id(w, "ctrl_deps", node->parent);
    if (node->event != SYN__PT_NONE) edit_device(w);
    if (node->n_syncs > 0) add(w, "sync_dep", EDIT_SYNC);
}

/* ---- Writing ---- */

static void put_u32(writer *w, uint32_t v) {
    char text[16];
    const int n = snprintf(text, sizeof text, "%u", v);
    syn__buf_put(&w->out, text, (size_t)n);
}

static void put_time(writer *w, double v, bool integer) {
    char text[SYN_NUMBER_TEXT];
    size_t n = syn__python_float(v, text);
    if (integer && n > 2 && memcmp(text + n - 2, ".0", 2) == 0) n -= 2;
    syn__buf_put(&w->out, text, n);
}

static void put_syncs(writer *w) {
    for (uint32_t i = 0; i < w->node->n_syncs; i++) {
        put(w, i == 0 ? "[" : ",");
        syn__python_line(&w->out, NODE_LEVEL + 2);
        put_u32(w, w->list->syncs[w->node->first_sync + i]);
    }
    syn__python_line(&w->out, NODE_LEVEL + 1);
    put(w, "]");
}

static void put_edit(writer *w, edit *e) {
    e->done = true;
    if (e->kind == EDIT_TIME) put_time(w, e->time, e->integer);
    else if (e->kind == EDIT_SYNC) put_syncs(w);
    else if (e->kind == EDIT_ID && e->id != SYN__PT_NONE) put_u32(w, e->id);
    else if (e->kind == EDIT_JSON && e->json.bytes > 0)
        syn__python_json(&w->out, e->json, NODE_LEVEL + 1);
    else put(w, "null");
}

/* Writes the key of a member, with the comma, indentation and colon around it. */
static void put_key(writer *w, syn__str key, bool first, unsigned level) {
    /* the quotes are next to the key in the text */
    const syn__str quoted = {key.text - 1, key.bytes + 2};
    if (!first) put(w, ",");
    syn__python_line(&w->out, level);
    syn__python_json(&w->out, quoted, level);
    put(w, ": ");
}

static edit *find_edit(writer *w, syn__str key) {
    for (size_t i = 0; i < w->n_edits; i++)
        if (w->edits[i].key.bytes == key.bytes &&
            memcmp(w->edits[i].key.text, key.text, key.bytes) == 0)
            return &w->edits[i];
    return NULL;
}

static void put_node(writer *w) {
    const syn__pt_host_node *host = &w->host->nodes[w->node->host];
    syn__str key, text;
    syn__loose l;
    bool first = true;
    edit_node(w);
    syn__loose_init(&l, host->text, host->text_bytes);
    (void)syn__loose_value(&l, &text);
    put(w, "{");
    while (syn__loose_member(&l, &key)) {
        edit *e = find_edit(w, key);
        put_key(w, key, first, NODE_LEVEL + 1);
        first = false;
        if (e == NULL) {
            l.cur = syn__python_json_next(&w->out, l.cur, l.end, NODE_LEVEL + 1);
            continue;
        }
        put_edit(w, e);
        syn__loose_skip(&l, NULL);
    }
    for (size_t i = 0; i < w->n_edits; i++) {
        if (w->edits[i].done) continue;
        put(w, first ? "" : ",");
        first = false;
        syn__python_line(&w->out, NODE_LEVEL + 1);
        put(w, "\"");
        put(w, w->edits[i].key.text);
        put(w, "\": ");
        put_edit(w, &w->edits[i]);
    }
    syn__python_line(&w->out, NODE_LEVEL);
    put(w, "}");
}

static void put_nodes(writer *w) {
    put(w, "[");
    for (size_t i = 0; i < w->list->n_nodes; i++) {
        w->node = &w->list->nodes[i];
        if (i > 0) put(w, ",");
        syn__python_line(&w->out, NODE_LEVEL);
        put_node(w);
        if (w->out.bytes > FLUSH_BYTES) {
            syn_sink_write(w->sink, w->out.data, w->out.bytes);
            w->out.bytes = 0;
        }
    }
    syn__python_line(&w->out, NODE_LEVEL - 1);
    put(w, "]");
}

syn_status syn__pt_write_linked(const syn__pt_host *host, const syn__pt_device *device,
                                const syn__pt_merged_list *list, syn_sink *sink, syn_error *err) {
    writer w = {.host = host, .device = device, .list = list, .sink = sink};
    syn__str key, text;
    syn__loose l;
    bool first = true;
    syn__loose_init(&l, host->document.text, host->document.bytes);
    (void)syn__loose_value(&l, &text);
    put(&w, "{");
    while (syn__loose_member(&l, &key)) {
        put_key(&w, key, first, 1);
        first = false;
        if (syn__str_is(key, "nodes")) {
            put_nodes(&w);
            syn__loose_skip(&l, NULL);
        } else {
            l.cur = syn__python_json_next(&w.out, l.cur, l.end, 1);
        }
    }
    put(&w, "\n}");
    if (!w.out.failed) syn_sink_write(sink, w.out.data, w.out.bytes);
    const bool failed = w.out.failed || w.quoted.failed;
    syn__buf_free(&w.out);
    syn__buf_free(&w.quoted);
    if (failed) return SYN_FAIL(err, SYN_E_NOMEM, "out of memory while writing the linked trace");
    return syn_sink_status(sink);
}

void syn__pt_merged_free(syn__pt_merged_list *list) {
    syn_free(list->nodes);
    syn_free(list->syncs);
    *list = (syn__pt_merged_list){0};
}
