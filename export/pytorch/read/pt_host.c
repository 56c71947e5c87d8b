/* Reads host traces (ExecutionTraceObserver), including linked and damaged ones. */
#include <string.h>

#include "export/pytorch/read/pt_host.h"
#include "export/pytorch/read/pt_notes.h"
#include "export/pytorch/read/pt_reading.h"
#include "syntorch/base/memory.h"

#define MAX_NODES ((size_t)1 << 31)

typedef struct reader {
    syn__pt_host *host;
    syn_pytorch_note *notes;
    syn_error *err;
    syn__loose loose;
    const char *file;
    syn__str first_key; /* first key of a node; used to find the next node after damage */
    uint32_t last_name, last_schema;
    int cuts;
    bool whole; /* the current object has its closing bracket */
    size_t n_objects;
    uint64_t second; /* position of the second object in the file */
} reader;

static uint64_t place(const reader *r, const char *at) {
    return (uint64_t)(at - r->loose.begin);
}

static void note(reader *r, syn_pytorch_anomaly kind, const char *at, uint64_t node) {
    syn__pt_note_at(r->notes, kind, r->file, place(r, at), node);
}

/* ---- One node ---- */

static syn_status intern(reader *r, syn__str text, uint32_t *last, uint32_t *out) {
    syn_intern *names = &r->host->names;
    if (*last != SYN__PT_NONE && syn_intern_entry_bytes(names, *last) == text.bytes &&
        memcmp(syn_intern_get(names, *last), text.text, text.bytes) == 0) {
        *out = *last;
        return SYN_OK;
    }
    SYN_TRY(syn_intern_put(names, text.text, text.bytes, out, r->err));
    *last = *out;
    return SYN_OK;
}

/* Reads a number, which may be in quotes. Returns false if the parser is broken or the value is
   something else. */
static bool take_u64(syn__loose *l, uint64_t *out) {
    syn__str text;
    const syn__loose_kind kind = syn__loose_skip(l, &text);
    if (kind == SYN__LOOSE_STRING) {
        text.text++;
        text.bytes -= 2;
    }
    double v = 0;
    bool integer = false;
    if (syn__loose_u64(text, out)) return true;
    if (kind != SYN__LOOSE_NUMBER || !syn__loose_double(text, &v, &integer)) return false;
    if (!(v > -9e18 && v < 9e18)) return false;
    *out = (uint64_t)(int64_t)v;
    return true;
}

static void take_field(syn__loose *l, uint64_t *out, uint32_t bit, uint32_t *has) {
    if (take_u64(l, out)) *has |= bit;
}

/* Reads the attribute `name` if it is one of the seven that every node should have. Otherwise reads
   nothing and sets *taken to false. */
static syn_status take_attribute(reader *r, syn__pt_host_node *n, syn__str name, bool *taken) {
    syn__loose *l = &r->loose;
    *taken = true;
    if (SYN__PT_IS(name, "rf_id")) take_field(l, &n->rf_id, SYN__PT_HAS_RF_ID, &n->has);
    else if (SYN__PT_IS(name, "fw_parent"))
        take_field(l, &n->fw_parent, SYN__PT_HAS_FW_PARENT, &n->has);
    else if (SYN__PT_IS(name, "seq_id")) {
        uint64_t v = 0;
        take_field(l, &v, SYN__PT_HAS_SEQ_ID, &n->has);
        n->seq_id = (int64_t)v;
    } else if (SYN__PT_IS(name, "scope")) take_field(l, &n->scope, SYN__PT_HAS_SCOPE, &n->has);
    else if (SYN__PT_IS(name, "tid")) take_field(l, &n->tid, SYN__PT_HAS_TID, &n->has);
    else if (SYN__PT_IS(name, "fw_tid")) take_field(l, &n->fw_tid, SYN__PT_HAS_FW_TID, &n->has);
    else if (SYN__PT_IS(name, "op_schema")) {
        syn__str text;
        const syn__loose_kind kind = syn__loose_value(l, &text);
        if (kind == SYN__LOOSE_STRING) {
            SYN_TRY(intern(r, text, &r->last_schema, &n->op_schema));
            n->has |= SYN__PT_HAS_OP_SCHEMA;
        }
    } else *taken = false;
    return SYN_OK;
}

/* Reads the attributes of a node: [{"name": ..., "type": ..., "value": ...}, ...]. */
static syn_status take_attrs(reader *r, syn__pt_host_node *n) {
    syn__loose *l = &r->loose;
    syn__str text, key, name;
    if (syn__loose_value(l, &text) != SYN__LOOSE_ARRAY) return SYN_OK;
    while (syn__loose_element(l)) {
        name.bytes = 0;
        name.text = "";
        if (syn__loose_value(l, &text) != SYN__LOOSE_OBJECT) continue;
        while (syn__loose_member(l, &key)) {
            bool taken = false;
            if (SYN__PT_IS(key, "name")) syn__loose_value(l, &name);
            else if (SYN__PT_IS(key, "value")) SYN_TRY(take_attribute(r, n, name, &taken));
            if (!taken && !SYN__PT_IS(key, "name")) syn__loose_skip(l, NULL);
        }
    }
    return SYN_OK;
}

static syn_status linked_of(reader *r, syn__pt_host_node *n, syn__pt_linked **out) {
    syn__pt_host *h = r->host;
    if (n->linked == SYN__PT_NONE) {
        SYN_TRY(syn_grow(&h->linked, &h->linked_cap, h->n_linked + 1, sizeof *h->linked, r->err));
        memset(&h->linked[h->n_linked], 0, sizeof *h->linked);
        n->linked = (uint32_t)h->n_linked++;
    }
    *out = &h->linked[n->linked];
    return SYN_OK;
}

static void take_double(syn__loose *l, double *out) {
    syn__str text;
    bool integer = false;
    if (syn__loose_skip(l, &text) == SYN__LOOSE_NUMBER)
        (void)syn__loose_double(text, out, &integer);
}

/* Reads the value of a key that only linked traces have. Sets *taken to false for other keys. */
static syn_status take_linked(reader *r, syn__pt_host_node *n, syn__str key, bool *taken) {
    syn__loose *l = &r->loose;
    syn__pt_linked *at = NULL;
    syn__str text;
    *taken = false;
    static const char *const names[] = {"inclusive_dur",    "exclusive_dur", "ts",
                                        "inter_thread_dep", "sync_dep",      "cat",
                                        "stream",           "pg_name"};
    size_t which = 0;
    while (which < sizeof names / sizeof names[0] && !syn__str_is(key, names[which])) which++;
    if (which == sizeof names / sizeof names[0]) return SYN_OK;
    SYN_TRY(linked_of(r, n, &at));
    *taken = true;
    if (which == 0) take_double(l, &at->inclusive_dur);
    else if (which == 1) take_double(l, &at->exclusive_dur);
    else if (which == 2) take_double(l, &at->ts);
    else if (which == 3) (void)take_u64(l, &at->inter_thread_dep);
    else if (which == 4) syn__loose_skip(l, &at->sync_dep);
    else if (which == 5 || which == 7) {
        const syn__loose_kind kind = syn__loose_value(l, &text);
        if (kind == SYN__LOOSE_STRING) *(which == 5 ? &at->cat : &at->pg_name) = text;
    } else {
        uint64_t stream = 0;
        at->stream_null = !take_u64(l, &stream);
        at->stream = (int64_t)stream;
    }
    return SYN_OK;
}

static uint32_t offset(const syn__pt_host_node *n, const char *at) {
    return (uint32_t)((size_t)(at - n->text) & UINT32_MAX);
}

/* Reads a value and stores its position in the node's text. Nodes larger than 4 GiB are rejected
   later. */
static void take_slice(reader *r, syn__pt_host_node *n, uint32_t *at, uint32_t *bytes) {
    syn__str text;
    if (syn__loose_skip(&r->loose, &text) == SYN__LOOSE_NONE) return;
    *at = offset(n, text.text);
    *bytes = (uint32_t)(text.bytes & UINT32_MAX);
}

static syn_status take_member(reader *r, syn__pt_host_node *n, syn__str key, bool *has_id) {
    syn__loose *l = &r->loose;
    syn__str text;
    bool taken = true;
    if (SYN__PT_IS(key, "id")) *has_id = take_u64(l, &n->id);
    else if (SYN__PT_IS(key, "name")) {
        if (syn__loose_value(l, &text) == SYN__LOOSE_STRING)
            SYN_TRY(intern(r, text, &r->last_name, &n->name));
    } else if (SYN__PT_IS(key, "ctrl_deps") || SYN__PT_IS(key, "parent"))
        take_field(l, &n->parent, SYN__PT_HAS_PARENT, &n->has);
    else if (SYN__PT_IS(key, "inputs")) take_slice(r, n, &n->inputs, &n->inputs_bytes);
    else if (SYN__PT_IS(key, "outputs")) take_slice(r, n, &n->outputs, &n->outputs_bytes);
    else if (SYN__PT_IS(key, "attrs")) {
        n->attrs = offset(n, l->cur);
        SYN_TRY(take_attrs(r, n));
        n->attrs_bytes = offset(n, l->cur) - n->attrs;
    } else {
        SYN_TRY(take_attribute(r, n, key, &taken));
        if (taken) n->has |= SYN__PT_HAS_FLAT;
        else SYN_TRY(take_linked(r, n, key, &taken));
    }
    if (!taken) syn__loose_skip(l, NULL);
    return SYN_OK;
}

/* Notes the anomalies of a complete node. Returns false if the node must be omitted. */
static bool check_node(reader *r, const syn__pt_host_node *n, bool has_id) {
    if (!has_id) return note(r, SYN_PYTORCH_ANOMALY_NO_ID, n->text, SYN_PYTORCH_NO_PLACE), false;
    if (!(n->has & SYN__PT_HAS_PARENT)) note(r, SYN_PYTORCH_ANOMALY_NO_PARENT, n->text, n->id);
    if ((n->has & SYN__PT_HAS_ALL_ATTRS) != SYN__PT_HAS_ALL_ATTRS)
        note(r, SYN_PYTORCH_ANOMALY_NO_ATTRIBUTE, n->text, n->id);
    return true;
}

static syn_status add_node(reader *r, const syn__pt_host_node *n) {
    syn__pt_host *h = r->host;
    if (h->n_nodes == MAX_NODES)
        return SYN_FAIL(r->err, SYN_E_UNSUPPORTED, "%.200s: more than %zu nodes", r->file,
                        MAX_NODES);
    SYN_TRY(syn_grow(&h->nodes, &h->nodes_cap, h->n_nodes + 1, sizeof *h->nodes, r->err));
    h->nodes[h->n_nodes++] = *n;
    return SYN_OK;
}

/* Reads a node, which may be damaged. Afterwards the parser is past it or at the next node. */
static syn_status take_node(reader *r) {
    syn__loose *l = &r->loose;
    syn__str text, key;
    if (syn__loose_peek(l) != '{') {
        const char *at = l->cur;
        note(r, SYN_PYTORCH_ANOMALY_BROKEN, at, SYN_PYTORCH_NO_PLACE);
        syn__loose_skip(l, NULL);
        if (l->broken || l->cur == at) (void)syn__pt_resume(l, at, r->first_key, &r->cuts);
        return SYN_OK;
    }
    syn__pt_host_node n = {.text = l->cur, .linked = SYN__PT_NONE, .name = 0, .op_schema = 0};
    bool has_id = false, first = true;
    (void)syn__loose_value(l, &text);
    while (syn__loose_member(l, &key)) {
        if (first) r->first_key = key;
        first = false;
        SYN_TRY(take_member(r, &n, key, &has_id));
    }
    if (l->broken || (size_t)(l->cur - n.text) > UINT32_MAX) {
        const bool cut = l->cut, more = syn__pt_resume(l, n.text, r->first_key, &r->cuts);
        if (more || !cut)
            note(r, SYN_PYTORCH_ANOMALY_BROKEN, n.text, has_id ? n.id : SYN_PYTORCH_NO_PLACE);
        if (!more) note(r, SYN_PYTORCH_ANOMALY_TRUNCATED, n.text, SYN_PYTORCH_NO_PLACE);
        return SYN_OK;
    }
    n.text_bytes = (uint32_t)(l->cur - n.text);
    return check_node(r, &n, has_id) ? add_node(r, &n) : SYN_OK;
}

/* ---- The document ---- */

static syn_status take_nodes(reader *r) {
    syn__loose *l = &r->loose;
    syn__str text;
    if (syn__loose_value(l, &text) != SYN__LOOSE_ARRAY) return SYN_OK;
    const char *kept = l->cur;
    while (syn__loose_element(l)) {
        SYN_TRY(take_node(r));
        if ((size_t)(l->cur - kept) > SYN__PT_RELEASE_BYTES) {
            syn__file_text_done(r->host->input, l->cur);
            kept = l->cur;
        }
    }
    return SYN_OK;
}

static syn_status take_top(reader *r, syn__str key) {
    syn__pt_host *h = r->host;
    syn__loose *l = &r->loose;
    if (SYN__PT_IS(key, "nodes")) return take_nodes(r);
    if (SYN__PT_IS(key, "schema")) syn__loose_skip(l, &h->schema);
    else if (SYN__PT_IS(key, "pid")) syn__loose_skip(l, &h->pid);
    else if (SYN__PT_IS(key, "time")) syn__loose_skip(l, &h->time);
    else if (SYN__PT_IS(key, "start_ts")) syn__loose_skip(l, &h->start_ts);
    else if (SYN__PT_IS(key, "finish_ts")) syn__loose_skip(l, &h->finish_ts);
    else syn__loose_skip(l, NULL);
    return SYN_OK;
}

/* Reads the current object and appends its nodes. */
static syn_status take_object(reader *r) {
    syn__loose *l = &r->loose;
    syn__str text, key;
    const char *begin = l->cur;
    r->whole = false;
    (void)syn__loose_value(l, &text);
    for (;;) {
        while (syn__loose_member(l, &key)) SYN_TRY(take_top(r, key));
        if (!l->broken || l->cut || ++r->cuts > SYN__PT_MAX_CUTS) break;
        note(r, SYN_PYTORCH_ANOMALY_BROKEN, l->cur, SYN_PYTORCH_NO_PLACE);
        if (!syn__loose_resume_list(l, l->cur, syn__str_of("nodes"))) l->broken = l->cut = true;
        else SYN_TRY(take_nodes(r));
    }
    r->whole = !l->broken;
    if (l->broken && l->cut && r->notes && r->notes[SYN_PYTORCH_ANOMALY_TRUNCATED].file != r->file)
        note(r, SYN_PYTORCH_ANOMALY_TRUNCATED, l->end, SYN_PYTORCH_NO_PLACE);
    r->host->document.text = begin;
    r->host->document.bytes = (size_t)(l->cur - begin);
    return SYN_OK;
}

/* Gives new ids to the nodes from `first` on, because ids restart in every object. */
static void renumber(syn__pt_host *h, size_t first) {
    uint64_t base = 0;
    for (size_t i = 0; i < first; i++)
        if (h->nodes[i].id >= base) base = h->nodes[i].id + 1;
    for (size_t i = first; i < h->n_nodes; i++) {
        h->nodes[i].id += base;
        h->nodes[i].parent += base;
    }
}

/* Reads the objects of the file that are wanted: one of them, all of them, or the last one. In the
   last case, an object replaces the one before it only if it is complete. */
static syn_status take_objects(reader *r, syn_pytorch_object wanted) {
    syn__loose *l = &r->loose;
    while (syn__loose_peek(l) != '\0' || l->cur < l->end) {
        if (*l->cur != '{') {
            const char *next = memchr(l->cur, '{', (size_t)(l->end - l->cur));
            if (*l->cur != ',' || !next)
                note(r, SYN_PYTORCH_ANOMALY_BROKEN, l->cur, SYN_PYTORCH_NO_PLACE);
            if (!next) break;
            l->cur = next;
        }
        const bool skip = wanted.which == SYN_PYTORCH_ONE_OBJECT && r->n_objects != wanted.number;
        if (r->n_objects++ == 1) r->second = place(r, l->cur);
        l->fresh = true;
        if (skip) {
            if (syn__loose_skip(l, NULL) == SYN__LOOSE_NONE) break;
            continue;
        }
        const syn__pt_host before = *r->host;
        const char *at = l->cur;
        SYN_TRY(take_object(r));
        syn__pt_host *h = r->host;
        if (wanted.which == SYN_PYTORCH_ALL_OBJECTS && before.n_nodes > 0)
            renumber(h, before.n_nodes);
        if (wanted.which == SYN_PYTORCH_LAST_OBJECT && before.n_nodes > 0) {
            const size_t first = r->whole ? before.n_nodes : 0;
            const size_t keep = r->whole ? h->n_nodes - before.n_nodes : before.n_nodes;
            if (!r->whole) {
                h->schema = before.schema, h->pid = before.pid, h->time = before.time;
                h->start_ts = before.start_ts, h->finish_ts = before.finish_ts;
                h->document = before.document;
            }
            memmove(h->nodes, h->nodes + first, keep * sizeof *h->nodes);
            h->n_nodes = keep;
        }
        if (l->broken || l->cur == at) break;
    }
    return SYN_OK;
}

static void check_schema(reader *r) {
    static const char *const known[] = {"1.0.1",
                                        "1.0.1-chakra.0.0.4",
                                        "1.0.2-chakra.0.0.4",
                                        "1.0.3-chakra.0.0.4",
                                        "1.0.4-chakra.0.0.4",
                                        "1.1.0-chakra.0.0.4",
                                        "1.1.1-chakra.0.0.4",
                                        "1.1.1-chakra.1.0.0"};
    syn__str schema = r->host->schema;
    if (schema.bytes < 2 || schema.text[0] != '"') return;
    const char *at = schema.text++;
    schema.bytes -= 2;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (syn__str_is(schema, known[i])) return;
    note(r, SYN_PYTORCH_ANOMALY_SCHEMA, at, SYN_PYTORCH_NO_PLACE);
}

syn_status syn__pt_host_read(syn__pt_host *host, syn__file_text *input, syn_pytorch_object object,
                             syn_pytorch_note *notes, syn_error *err) {
    memset(host, 0, sizeof *host);
    host->input = input;
    reader r = {.host = host,
                .notes = notes,
                .err = err,
                .file = input->name,
                .first_key = syn__str_of("id"),
                .last_name = SYN__PT_NONE,
                .last_schema = SYN__PT_NONE};
    uint32_t empty = 0;
    SYN_TRY(syn_intern_put(&host->names, "", 0, &empty, err)); /* id 0: no name */
    syn__loose_init(&r.loose, input->data, input->bytes);
    SYN_TRY(take_objects(&r, object));
    host->no_value = r.loose.faults[SYN__LOOSE_NO_VALUE];
    syn__pt_note_faults(&r.loose, notes, r.file);
    if (input->cut && notes && notes[SYN_PYTORCH_ANOMALY_TRUNCATED].file != r.file)
        note(&r, SYN_PYTORCH_ANOMALY_TRUNCATED, r.loose.end, SYN_PYTORCH_NO_PLACE);
    check_schema(&r);
    if (r.n_objects > 1)
        syn__pt_note_many(notes, SYN_PYTORCH_ANOMALY_OBJECTS, r.n_objects, r.file, r.second);
    if (object.which == SYN_PYTORCH_ONE_OBJECT && object.number >= r.n_objects)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "%.200s has %zu JSON objects, so there is no number %llu", r.file,
                        r.n_objects, (unsigned long long)object.number);
    if (host->n_nodes > 0) return SYN_OK;
    return SYN_FAIL(err, SYN_E_FORMAT,
                    "%.200s has no nodes of a host trace, an object with \"nodes\"; write it with "
                    "torch.profiler's ExecutionTraceObserver",
                    r.file);
}

void syn__pt_host_free(syn__pt_host *host) {
    syn_free(host->nodes);
    syn_free(host->linked);
    syn_free(host->from_event);
    syn_free(host->made_of);
    syn_intern_free(&host->names);
    memset(host, 0, sizeof *host);
}

/* ---- Looking up ---- */

syn__str syn__pt_attr(const syn__pt_host_node *node, const char *name) {
    const syn__str all = {node->text, node->text_bytes};
    syn__loose l;
    syn__str text, key, value = {"", 0};
    if (node->attrs_bytes == 0) return syn__loose_find(all, name);
    syn__loose_init(&l, node->text + node->attrs, node->attrs_bytes);
    if (syn__loose_value(&l, &text) != SYN__LOOSE_ARRAY) return value;
    while (syn__loose_element(&l)) {
        bool found = false;
        if (syn__loose_value(&l, &text) != SYN__LOOSE_OBJECT) continue;
        while (syn__loose_member(&l, &key)) {
            const bool is_name = SYN__PT_IS(key, "name");
            syn__str at;
            syn__loose_skip(&l, &at);
            if (is_name && at.bytes >= 2) {
                at.text++;
                at.bytes -= 2;
                found = syn__str_is(at, name);
            } else if (found && SYN__PT_IS(key, "value")) return at;
        }
    }
    return value;
}
