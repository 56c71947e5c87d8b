/* Computes the statistics of execution traces that statistics.h declares. */
#include "export/statistics.h"

#include <stdio.h>
#include <stdlib.h>

#include "export/chakra/check/et_critical.h"
#include "export/chakra/file_kind.h"
#include "export/chakra/wire/et_files.h"
#include "export/text/file_text.h"
#include "syntorch/base/intern.h"
#include "syntorch/base/memory.h"

/* Value of PyTorch's RecordScope for user annotations (record_function). */
enum { USER_SCOPE = 7 };

static const char *const classes[SYN_STATISTICS_CLASSES] = {"launch", "stream", "sync", "group",
                                                            "thread"};

/* Shortens the name of the node type by the parts that all types share: "COLL" for
   COMM_COLL_NODE. */
void syn_statistics_type_name(size_t type, char name[SYN_STATISTICS_NAME]) {
    const char *full = syn__et_node_type_name((uint32_t)type);
    if (full == NULL || type >= SYN_STATISTICS_TYPES - 1) full = "other";
    if (strncmp(full, "COMM_", 5) == 0) full += 5;
    snprintf(name, SYN_STATISTICS_NAME, "%s", full);
    char *end = strstr(name, "_NODE");
    if (end != NULL) *end = '\0';
}
const char *syn_statistics_collective_name(size_t kind) {
    const char *name = syn__et_collective_name((int64_t)kind);
    return name == NULL || kind >= SYN_STATISTICS_COLLECTIVES - 1 ? "other" : name;
}
const char *syn_statistics_class_name(size_t dependency_class) {
    return classes[dependency_class];
}

/* Returns the index of the entry that counts an enum value. Values that the schema lacks are
   counted in the last entry. */
static size_t place_of(bool known, uint64_t number, size_t n) {
    return known && number < n - 1 ? (size_t)number : n - 1;
}

static void add(uint64_t *sum, uint64_t value) {
    *sum = syn__et_sum(*sum, value);
}

/* Statistics rows by name. */
typedef struct table {
    syn_intern names;
    syn_statistics_row *rows;
    size_t cap;
} table;

typedef struct collector {
    syn_statistics *out;
    table ops, groups;
    bool scoped;            /* names have the form "h.3.attn/qkv", in which the last part is the
                               op */
    uint64_t n_nodes_named; /* number of nodes with a type or a name; if arbitrary bytes decode as
                               nodes, these usually have neither */
    uint64_t *micros;       /* per node: its duration */
    size_t micros_cap;
    syn__critical_op *times; /* per node: when and where it ran, if the file has times */
    size_t times_cap;
    bool has_times;
} collector;

static void add_row(syn_statistics_row *row, const syn_statistics_row *more) {
    add(&row->count, more->count);
    add(&row->bytes, more->bytes);
    add(&row->micros, more->micros);
    add(&row->wait_ns, more->wait_ns);
}

static syn_status add_to(table *t, const char *name, size_t bytes, const syn_statistics_row *more,
                         syn_error *err) {
    uint32_t id;
    const size_t had = t->names.n_entries;
    SYN_TRY(syn_intern_put(&t->names, name, bytes, &id, err));
    if (id >= had) {
        SYN_TRY(syn_grow(&t->rows, &t->cap, (size_t)id + 1, sizeof *t->rows, err));
        t->rows[id] = (syn_statistics_row){0};
    }
    add_row(&t->rows[id], more);
    return SYN_OK;
}

static int compare_rows(const void *a, const void *b) {
    const syn_statistics_row *x = (const syn_statistics_row *)a;
    const syn_statistics_row *y = (const syn_statistics_row *)b;
    if (x->micros != y->micros) return x->micros > y->micros ? -1 : 1;
    if (x->count != y->count) return x->count > y->count ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Sets the names of the rows, sorts them and moves them to *rows. After a failure with *rows NULL,
   the table still owns them. */
static syn_status close_table(table *t, syn_statistics_row **rows, size_t *n, syn_error *err) {
    for (; *n < t->names.n_entries; ++*n) {
        const uint32_t id = (uint32_t)*n;
        const size_t bytes = syn_intern_entry_bytes(&t->names, id);
        t->rows[id].name = syn_strndup((const char *)syn_intern_get(&t->names, id), bytes);
        *rows = t->rows;
        if (t->rows[id].name == NULL) return SYN_FAIL_NOMEM(err, bytes + 1, "a name");
    }
    if (*n > 1) qsort(*rows, *n, sizeof **rows, compare_rows);
    return SYN_OK;
}

static syn_status close_collector(collector *c, syn_status status, syn_error *err) {
    syn_statistics *out = c->out;
    if (status == SYN_OK) status = close_table(&c->ops, &out->ops, &out->n_ops, err);
    if (status == SYN_OK) status = close_table(&c->groups, &out->groups, &out->n_groups, err);
    if (out->ops == NULL) syn_free(c->ops.rows);
    if (out->groups == NULL) syn_free(c->groups.rows);
    syn_intern_free(&c->ops.names);
    syn_intern_free(&c->groups.names);
    syn_free(c->micros);
    syn_free(c->times);
    return status;
}

/* ---- Metadata ---- */

static void put_value(syn_sink *sink, const syn__et_attr *a, const char *text) {
    if (a->field == SYN__ET_NONE) {
        syn_sink_text(sink, "null");
        return;
    }
    const syn__et_type *type = syn__et_type_of(a->field);
    if (syn__et_is_list(a->field)) {
        syn__et_json_list(sink, a->field, a->data);
        return;
    }
    switch (type->form) {
    case SYN__ET_FORM_INT:
        if (type->is_signed) syn_sink_i64(sink, (int64_t)a->bits);
        else syn_sink_u64(sink, a->bits);
        break;
    case SYN__ET_FORM_FLOAT:
        syn_sink_double(sink, syn__et_float_of(type, a->bits));
        break;
    case SYN__ET_FORM_BOOL:
        syn_sink_text(sink, a->bits != 0 ? "true" : "false");
        break;
    case SYN__ET_FORM_STRING:
        syn_sink_json_string(sink, text);
        break;
    case SYN__ET_FORM_BYTES:
        syn__et_json_base64(sink, a->data);
        break;
    }
}

static syn_status value_text(const syn__et_attr *a, char **out, syn_error *err) {
    syn_sink *sink;
    size_t bytes;
    const bool is_text = a->field == SYN__ET_STRING;
    char *text = is_text ? syn_strndup(a->data.text, a->data.bytes) : NULL;
    if (is_text && text == NULL) return SYN_FAIL_NOMEM(err, a->data.bytes + 1, "a text");
    syn_status status = syn_sink_open_memory(&sink, err);
    if (status == SYN_OK) {
        put_value(sink, a, text);
        const char *data = syn_sink_data(sink, &bytes);
        *out = data == NULL ? NULL : syn_strndup(data, bytes);
        if (*out == NULL) status = SYN_FAIL_NOMEM(err, 0, "a text");
        (void)syn_sink_close(sink, false, NULL);
    }
    syn_free(text);
    return status;
}

static syn_status on_meta(void *user, const syn__et_meta *meta, syn_error *err) {
    syn_statistics *out = ((collector *)user)->out;
    if (meta->version.bytes != 0) {
        out->version = syn_strndup(meta->version.text, meta->version.bytes);
        if (out->version == NULL) return SYN_FAIL_NOMEM(err, meta->version.bytes, "a version");
    }
    if (meta->n_attrs == 0) return SYN_OK;
    bool ours = false, recorded = false;
    for (size_t i = 0; i < meta->n_attrs; i++) {
        ours = ours || syn__str_is(meta->attrs[i].name, "program");
        recorded = recorded || syn__str_is(meta->attrs[i].name, "source");
    }
    ((collector *)user)->scoped = ours && !recorded;
    out->metadata = (syn_statistics_metadata *)syn_calloc(meta->n_attrs, sizeof *out->metadata);
    if (out->metadata == NULL)
        return SYN_FAIL_NOMEM(err, meta->n_attrs * sizeof *out->metadata, "metadata");
    for (size_t i = 0; i < meta->n_attrs; i++) {
        syn_statistics_metadata *fact = &out->metadata[out->n_metadata++];
        fact->name = syn_strndup(meta->attrs[i].name.text, meta->attrs[i].name.bytes);
        if (fact->name == NULL) return SYN_FAIL_NOMEM(err, 0, "a name");
        SYN_TRY(value_text(&meta->attrs[i], &fact->value, err));
    }
    return SYN_OK;
}

/* ---- Nodes ---- */

/* Values of a node's attributes. Missing and negative sizes are 0. */
typedef struct node_properties {
    uint64_t num_ops, tensor_size, comm_size, wait_ns;
    int64_t comm_type; /* -1 if absent */
    uint64_t inclusive_micros, tid, device, stream;
    bool is_cpu, has_inclusive, has_stream, is_range;
    syn__str op, group;
} node_properties;

static uint64_t size_of(const syn__et_attr *a) {
    int64_t value;
    if (!syn__et_attr_integer(a, &value) || value < 0) return 0;
    return (uint64_t)value;
}

/* Returns the op of a node without an attribute "op", from the node's name. */
static syn__str op_of(const collector *c, syn__str name) {
    for (size_t i = name.bytes; c->scoped && i-- > 0;)
        if (name.text[i] == '/' && i > 0 && i + 1 < name.bytes)
            return (syn__str){name.text + i + 1, name.bytes - i - 1};
    return name;
}

/* Counts the elements of a list of 64-bit integers, packed or not. */
static uint64_t count_list(const syn__et_attr *a) {
    syn__et_reader r = {a->data.text, a->data.text + a->data.bytes, NULL};
    syn__et_field f;
    uint64_t n = 0;
    const bool ints = a->field == SYN__ET_UINT64_LIST || a->field == SYN__ET_INT64_LIST;
    while (ints && syn__et_read_field(&r, &f)) {
        if (f.number != SYN__ET_INT64_LIST_VALUES) continue;
        if (f.wire == SYN__ET_WIRE_VARINT) n++;
        for (size_t i = 0; i < f.data.bytes; i++) n += (unsigned char)f.data.text[i] < 0x80;
    }
    return n;
}

static void take_attribute(syn_statistics *out, const syn__et_attr *a, node_properties *t) {
    const syn__str s = a->name;
    if (syn__str_is(s, "num_ops")) t->num_ops = size_of(a);
    else if (syn__str_is(s, "tensor_size")) t->tensor_size = size_of(a);
    else if (syn__str_is(s, "comm_size")) t->comm_size = size_of(a);
    else if (syn__str_is(s, "wait_ns")) t->wait_ns = size_of(a);
    else if (syn__str_is(s, "comm_type")) (void)syn__et_attr_integer(a, &t->comm_type);
    else if (syn__str_is(s, "is_cpu_op")) t->is_cpu = size_of(a) != 0;
    else if (syn__str_is(s, "inclusive_dur")) {
        t->inclusive_micros = size_of(a);
        t->has_inclusive = true;
    } else if (syn__str_is(s, "scope")) t->is_range = size_of(a) == USER_SCOPE;
    else if (syn__str_is(s, "tid")) t->tid = size_of(a);
    else if (syn__str_is(s, "device")) t->device = size_of(a);
    else if (syn__str_is(s, "stream")) {
        t->stream = size_of(a);
        t->has_stream = true;
    } else if (syn__str_is(s, "op") && a->field == SYN__ET_STRING) t->op = a->data;
    else if (syn__str_is(s, "pg_name") && a->field == SYN__ET_STRING) t->group = a->data;
    else if (s.bytes > 5 && memcmp(s.text + s.bytes - 5, "_deps", 5) == 0)
        for (size_t i = 0; i < SYN_STATISTICS_CLASSES; i++)
            if (s.bytes - 5 == strlen(classes[i]) && memcmp(s.text, classes[i], s.bytes - 5) == 0)
                add(&out->classes[i], count_list(a));
}

static syn_status take_collective(collector *c, const node_properties *t, uint64_t micros,
                                  syn_error *err) {
    const syn_statistics_row row = {NULL, 1, t->comm_size, micros, t->wait_ns};
    const bool known = syn__et_collective_name(t->comm_type) != NULL;
    add(&c->out->collective_bytes, t->comm_size);
    add_row(
        &c->out->collectives[place_of(known, (uint64_t)t->comm_type, SYN_STATISTICS_COLLECTIVES)],
        &row);
    if (t->group.bytes == 0) return add_to(&c->groups, "0", 1, &row, err);
    return add_to(&c->groups, t->group.text, t->group.bytes, &row, err);
}

/* Returns when and where the node ran. If a host op has inclusive_dur, this is used, because the
   node's own duration excludes the ops that it called. */
static syn__critical_op times_of(const syn__et_node *node, const node_properties *t, bool comm) {
    const bool device = t->has_stream && !t->is_cpu;
    const double begin_ns = 1e3 * (double)node->start_micros;
    uint64_t micros = node->duration_micros;
    if (!device && t->has_inclusive) micros = t->inclusive_micros;
    return (syn__critical_op){
        .begin_ns = begin_ns,
        .end_ns = begin_ns + (node->start_micros > 0 ? 1e3 * (double)micros : 0),
        .track = syn__critical_track(0, device, t->device, device ? t->stream : t->tid),
        .last_member = SYN_NO_NODE,
        .is_device = device,
        .is_comm = comm,
        .is_range = t->is_range && !device && !comm};
}

static syn_status on_node(void *user, uint32_t index, uint64_t offset, const syn__et_node *node,
                          syn_error *err) {
    collector *c = (collector *)user;
    syn_statistics *out = c->out;
    node_properties t = {.comm_type = -1, .op = op_of(c, node->name)};
    (void)offset;
    for (size_t i = 0; i < node->n_attrs; i++) take_attribute(out, &node->attrs[i], &t);
    const bool comm = syn__et_is_communication(node->type);
    SYN_TRY(syn_grow(&c->micros, &c->micros_cap, (size_t)index + 1, sizeof *c->micros, err));
    c->micros[index] = node->duration_micros;
    SYN_TRY(syn_grow(&c->times, &c->times_cap, (size_t)index + 1, sizeof *c->times, err));
    c->times[index] = times_of(node, &t, comm);
    c->has_times = c->has_times || (node->start_micros > 0 && node->duration_micros > 0);
    out->n_nodes++;
    c->n_nodes_named += node->name.bytes != 0 || node->type != 0;
    const bool known = syn__et_node_type_name(node->type) != NULL;
    out->types[place_of(known, node->type, SYN_STATISTICS_TYPES)]++;
    out->n_ctrl_deps += node->n_ctrl;
    out->n_data_deps += node->n_data;
    add(&out->sum_micros, node->duration_micros);
    add(&out->wait_ns, t.wait_ns);
    out->n_timed += node->duration_micros != 0;
    out->n_cpu += t.is_cpu;
    out->n_communication += comm;
    out->n_cpu_communication += comm && t.is_cpu;
    if (node->type == SYN__ET_COMP_NODE) {
        add(&out->num_ops, t.num_ops);
        add(&out->tensor_bytes, t.tensor_size);
    }
    if (node->type == SYN__ET_COMM_SEND_NODE) add(&out->send_bytes, t.comm_size);
    if (node->type == SYN__ET_COMM_RECV_NODE) add(&out->recv_bytes, t.comm_size);
    if (node->type == SYN__ET_COMM_COLL_NODE)
        SYN_TRY(take_collective(c, &t, node->duration_micros, err));
    const syn_statistics_row op = {NULL, 1, comm ? t.comm_size : 0, node->duration_micros,
                                   t.wait_ns};
    return add_to(&c->ops, t.op.text, t.op.bytes, &op, err);
}

static void on_fault(void *user, syn__et_fault what, uint32_t node, uint64_t offset, uint64_t id,
                     const char *why) {
    syn_statistics *out = ((collector *)user)->out;
    (void)node;
    (void)offset;
    (void)id;
    (void)why;
    if (what == SYN__ET_FAULT_ID) out->n_duplicates++;
    else if (what == SYN__ET_FAULT_DANGLING) out->n_dangling++;
    else if (what == SYN__ET_FAULT_SELF) out->n_never++;
    else if (what != SYN__ET_FAULT_EMPTY) out->n_damaged++;
}

/* ---- Files ---- */

static syn_status collect(collector *c, const char *data, size_t bytes, syn_error *err) {
    syn__et_scan scan = {0};
    syn__et_dag dag = {0};
    const syn__et_listener listener = {c, on_meta, on_node, on_fault};
    c->out->file_bytes = bytes;
    syn_status status = syn__et_scan_open(&scan, data, bytes, &listener, err);
    if (status == SYN_OK) status = syn__et_dag_open(&dag, &scan, err);
    if (status == SYN_OK) {
        c->out->n_roots = dag.n_roots;
        c->out->widest_ready = dag.widest_ready;
        c->out->n_never += scan.n_nodes - dag.n_ordered;
        const bool recorded = !c->scoped && c->has_times;
        status = recorded ? syn__et_critical_path_of_recording(c->out, &scan, c->times, err)
                          : syn__et_longest_chain(c->out, &scan, &dag, c->micros, err);
    }
    syn__et_dag_close(&dag);
    syn__et_scan_close(&scan);
    return status;
}

static syn_status read_rank(syn_statistics *out, const syn__et_file *file, uint64_t most,
                            syn_error *err) {
    syn__file_text input;
    collector c = {.out = out};
    out->rank = file->rank;
    SYN_TRY(syn__file_text_open(&input, file->path, most, err));
    syn_status status = syn__require_et(input.name, input.data, input.bytes, err);
    if (status == SYN_OK) status = collect(&c, input.data, input.bytes, err);
    status = close_collector(&c, status, err);
    syn__file_text_close(&input);
    const bool is_bare = out->n_nodes == 0 && out->n_metadata == 0 && out->version == NULL;
    if (status == SYN_OK && c.n_nodes_named == 0 &&
        (out->n_damaged > 0 || out->n_nodes > 0 || is_bare))
        status = SYN_FAIL(err, SYN_E_FORMAT,
                          "%.300s is not an execution trace or is damaged from its start; run "
                          "`syntorch validate` for details",
                          syn_input_name(file->path));
    return status;
}

static syn_status add_rows(table *t, const syn_statistics_row *rows, size_t n, syn_error *err) {
    for (size_t i = 0; i < n; i++)
        SYN_TRY(add_to(t, rows[i].name, strlen(rows[i].name), &rows[i], err));
    return SYN_OK;
}

static syn_status add_rank(collector *c, const syn_statistics *r, syn_error *err) {
    syn_statistics *out = c->out;
    const struct {
        uint64_t *sum, value;
    } sums[] = {{&out->file_bytes, r->file_bytes},
                {&out->n_nodes, r->n_nodes},
                {&out->n_ctrl_deps, r->n_ctrl_deps},
                {&out->n_data_deps, r->n_data_deps},
                {&out->n_roots, r->n_roots},
                {&out->widest_ready, r->widest_ready},
                {&out->sum_micros, r->sum_micros},
                {&out->n_timed, r->n_timed},
                {&out->wait_ns, r->wait_ns},
                {&out->num_ops, r->num_ops},
                {&out->tensor_bytes, r->tensor_bytes},
                {&out->n_cpu, r->n_cpu},
                {&out->n_cpu_communication, r->n_cpu_communication},
                {&out->n_communication, r->n_communication},
                {&out->collective_bytes, r->collective_bytes},
                {&out->send_bytes, r->send_bytes},
                {&out->recv_bytes, r->recv_bytes},
                {&out->n_damaged, r->n_damaged},
                {&out->n_dangling, r->n_dangling},
                {&out->n_duplicates, r->n_duplicates},
                {&out->n_never, r->n_never}};
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++) add(sums[i].sum, sums[i].value);
    for (size_t i = 0; i < SYN_STATISTICS_TYPES; i++) out->types[i] += r->types[i];
    for (size_t i = 0; i < SYN_STATISTICS_CLASSES; i++) add(&out->classes[i], r->classes[i]);
    for (size_t i = 0; i < SYN_STATISTICS_COLLECTIVES; i++)
        add_row(&out->collectives[i], &r->collectives[i]);
    if (r->critical_micros > out->critical_micros ||
        (r->critical_micros == out->critical_micros && r->critical_nodes > out->critical_nodes)) {
        out->critical_micros = r->critical_micros;
        out->critical_nodes = r->critical_nodes;
    }
    SYN_TRY(add_rows(&c->ops, r->ops, r->n_ops, err));
    return add_rows(&c->groups, r->groups, r->n_groups, err);
}

static bool is_recording(const syn_statistics *s) {
    for (size_t i = 0; i < s->n_metadata; i++)
        if (strcmp(s->metadata[i].name, "source") == 0)
            return strcmp(s->metadata[i].value, "\"pytorch\"") == 0;
    return false;
}

static syn_status read_files(syn_statistics_set *out, const syn__et_files *files, uint64_t most,
                             syn_error *err) {
    collector c = {.out = &out->total};
    syn_status status = SYN_OK;
    out->total.rank = -1;
    out->ranks = (syn_statistics *)syn_calloc(files->n, sizeof *out->ranks);
    if (out->ranks == NULL) return SYN_FAIL_NOMEM(err, files->n * sizeof *out->ranks, "statistics");
    for (size_t i = 0; i < files->n && status == SYN_OK; i++) {
        status = read_rank(&out->ranks[out->n_ranks++], &files->list[i], most, err);
        if (status == SYN_OK) status = add_rank(&c, &out->ranks[i], err);
    }
    if (status == SYN_OK && files->is_set && files->n > 1 && is_recording(&out->ranks[0]))
        status = syn__et_critical_path_of_set(out, files->list[0].path, err);
    return close_collector(&c, status, err);
}

syn_status syn_statistics_read(syn_statistics_set *out, const char *const *paths, size_t n,
                               uint64_t max_unpacked_bytes, syn_error *err) {
    syn__et_files files;
    *out = (syn_statistics_set){0};
    SYN_TRY(syn__et_supported(err));
    SYN_TRY(syn__et_files_open(&files, paths, n, err));
    const syn_status status = read_files(out, &files, max_unpacked_bytes, err);
    syn__et_files_close(&files);
    return status;
}

static void free_rows(syn_statistics_row *rows, size_t n) {
    for (size_t i = 0; i < n; i++) syn_free(rows[i].name);
    syn_free(rows);
}

static void free_one(syn_statistics *s) {
    free_rows(s->ops, s->n_ops);
    free_rows(s->groups, s->n_groups);
    for (size_t i = 0; i < s->n_metadata; i++) {
        syn_free(s->metadata[i].name);
        syn_free(s->metadata[i].value);
    }
    syn_free(s->metadata);
    syn_free(s->version);
}

void syn_statistics_free(syn_statistics_set *set) {
    free_one(&set->total);
    for (size_t i = 0; i < set->n_ranks; i++) free_one(&set->ranks[i]);
    syn_free(set->ranks);
    *set = (syn_statistics_set){0};
}
