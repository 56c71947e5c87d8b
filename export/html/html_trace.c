/* Reads a graph into the columns of a report; see html_trace.h. */
#include "export/html/html_trace.h"

#include <stdio.h>
#include <string.h>

#include "export/walk/critical.h"
#include "syntorch/base/memory.h"

/* The track on which a node is shown, and when. lane: index of the track plus one; 0: not shown. */
typedef struct syn__html_place {
    int64_t start, end, wait;
    uint32_t lane;
    bool host;
} place;

/* ---- Header ---- */

static void put_names(syn_sink *sink, const char *key, const char *(*name)(int), int n) {
    syn_sink_printf(sink, ",\"%s\":[", key);
    for (int i = 0; i < n; i++) {
        if (i > 0) syn_sink_char(sink, ',');
        syn_sink_json_string(sink, name(i));
    }
    syn_sink_char(sink, ']');
}

static const char *kind_name(int i) {
    return syn_node_kind_name((syn_node_kind)i);
}
static const char *category_name(int i) {
    return syn_category_name((syn_category)i);
}
static const char *phase_name(int i) {
    return syn_phase_name((syn_phase)i);
}
static const char *comm_name(int i) {
    return syn_comm_kind_name((syn_comm_kind)i);
}
static const char *dep_name(int i) {
    return syn_dep_class_name((syn_dep_class)i);
}
static const char *column_name(int i) {
    return syn__column_name((syn__column)i);
}

static void put_metadata(syn_sink *sink, const syn_graph *graph) {
    char value[256];
    bool first = true;
    syn_sink_text(sink, ",\"facts\":[");
    for (uint32_t i = 0; i < graph->n_metadata; i++) {
        const syn_attribute *a = &graph->metadata[i];
        /* These attributes are only needed to write the .et file again. */
        if (strncmp(a->name, "et.", 3) == 0) continue;
        syn_sink_text(sink, first ? "[" : ",[");
        syn_sink_json_string(sink, a->name);
        syn_sink_char(sink, ',');
        syn_sink_json_string(sink, syn_attribute_text(a, value, sizeof value));
        syn_sink_char(sink, ']');
        first = false;
    }
    syn_sink_char(sink, ']');
}

static void put_groups(syn_sink *sink, const syn_graph *graph) {
    syn_sink_text(sink, ",\"groups\":[");
    for (uint32_t i = 0; i < graph->n_groups; i++) {
        const syn_graph_group *g = &graph->groups[i];
        syn_sink_printf(sink, "%s{\"id\":%u,\"name\":", i > 0 ? "," : "", (unsigned)g->id);
        syn_sink_json_string(sink, g->name);
        syn_sink_text(sink, ",\"ranks\":[");
        for (uint32_t k = 0; k < g->n_ranks; k++)
            syn_sink_printf(sink, "%s%d", k > 0 ? "," : "", (int)g->ranks[k]);
        syn_sink_text(sink, "]}");
    }
    syn_sink_char(sink, ']');
}

static void put_header(const syn__html_trace *t, const char *title, const char *source,
                       syn_sink *sink) {
    size_t bytes;
    syn_sink_text(sink, "{\"format\":\"syntorch view\",\"format_version\":1,\"title\":");
    syn_sink_json_string(sink, title);
    syn_sink_text(sink, ",\"source\":");
    if (source != NULL) syn_sink_json_string(sink, source);
    else syn_sink_text(sink, "null");
    syn_sink_printf(sink, ",\"clock\":\"%s\",\"base_us\":%lld,\"world_size\":%d",
                    syn__clock_name(t->timeline.clock), (long long)t->timeline.base_us,
                    (int)t->graph->world_size);
    syn_sink_printf(sink, ",\"rounded\":%s", t->rounded ? "true" : "false");
    syn_sink_printf(sink, ",\"recorded\":%s",
                    syn__walk_is_foreign(t->graph) ? "\"pytorch\"" : "null");
    put_names(sink, "kinds", kind_name, SYN_NODE_KIND_COUNT);
    put_names(sink, "categories", category_name, SYN_CATEGORY_COUNT);
    put_names(sink, "phases", phase_name, SYN_PHASE_COUNT);
    put_names(sink, "comms", comm_name, SYN_COMM_KIND_COUNT);
    put_names(sink, "classes", dep_name, SYN_DEP_COUNT);
    put_names(sink, "columns", column_name, SYN__COLUMN_COUNT);
    put_metadata(sink, t->graph);
    put_groups(sink, t->graph);
    syn_sink_text(sink, ",\"ranks\":[");
    syn_sink_write(sink, syn_sink_data(t->ranks, &bytes), (size_t)syn_sink_bytes(t->ranks));
    syn_sink_text(sink, "],\"texts\":[");
    for (uint32_t i = 0; i < t->texts.n_entries; i++) {
        if (i > 0) syn_sink_char(sink, ',');
        syn_sink_json_text(sink, syn_intern_get(&t->texts, i),
                           syn_intern_entry_bytes(&t->texts, i));
    }
    syn_sink_text(sink, "]}");
}

syn_status syn__html_trace_write(const syn__html_trace *trace, const char *title,
                                 const char *source, syn__buf *out, syn_error *err) {
    syn_sink *sink;
    size_t bytes = 0;
    SYN_TRY(syn_sink_open_memory(&sink, err));
    put_header(trace, title, source, sink);
    const char *header = syn_sink_data(sink, &bytes);
    const uint8_t length[4] = {(uint8_t)bytes, (uint8_t)(bytes >> 8), (uint8_t)(bytes >> 16),
                               (uint8_t)(bytes >> 24)};
    syn__buf_put(out, length, sizeof length);
    syn__buf_put(out, header, bytes);
    SYN_TRY(syn_sink_close(sink, header != NULL, err));
    return syn__columns_write(&trace->columns, out, err);
}

/* ---- Ranks ---- */

static syn_status text_number(syn__html_trace *t, const char *text, uint64_t *out, syn_error *err) {
    uint32_t id;
    SYN_TRY(syn_intern_put(&t->texts, text, strlen(text), &id, err));
    *out = id;
    return SYN_OK;
}

static syn_status put_text(syn__html_trace *t, syn__column column, const char *text,
                           syn_error *err) {
    uint64_t number;
    SYN_TRY(text_number(t, text, &number, err));
    syn__columns_put(&t->columns, column, number);
    return SYN_OK;
}

/* Writes attributes as "axis=1, scale=0.125". */
static syn_status put_attributes(syn__html_trace *t, const syn_node *node, syn_error *err) {
    char text[2048], value[256];
    size_t n = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < node->n_attributes && n < sizeof text; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s=%s", i > 0 ? ", " : "",
                              node->attributes[i].name,
                              syn_attribute_text(&node->attributes[i], value, sizeof value));
    if (node->reduce >= 0 && n < sizeof text)
        snprintf(text + n, sizeof text - n, "%sreduce=%s", n > 0 ? ", " : "",
                 syn_reduce_name((syn_reduce)node->reduce));
    return put_text(t, SYN__COLUMN_ATTRIBUTES, text, err);
}

static syn_status place_nodes(syn__html_trace *t, uint32_t rank_index, syn_error *err) {
    const uint32_t n = t->graph->ranks[rank_index].n_nodes;
    const syn__tracks *l = &t->lanes;
    SYN_TRY(syn__tracks_fill(&t->lanes, &t->timeline, &t->walk, rank_index, err));
    SYN_TRY(syn_grow(&t->places, &t->places_cap, n, sizeof *t->places, err));
    SYN_TRY(syn_grow(&t->free_at, &t->free_cap, l->n_threads, sizeof *t->free_at, err));
    SYN_TRY(syn_grow(&t->ended, &t->ended_cap, l->n_threads, sizeof *t->ended, err));
    if (n > 0) memset(t->places, 0, n * sizeof *t->places);
    for (size_t i = 0; i < l->n_threads; i++) t->free_at[i] = t->ended[i] = 0;
    for (size_t i = 0, first = 0; i < l->n_slices; i++) {
        const syn__slice *s = &l->slices[i];
        while (l->threads[first].lane != s->lane) first++;
        uint32_t lane = (uint32_t)first;
        while (l->threads[lane].tid != s->tid) lane++;
        t->places[s->node] = (place){s->start, s->end, s->wait, lane + 1, s->host};
    }
    return SYN_OK;
}

static void put_rank_sizes(syn__html_trace *t, uint32_t rank_index) {
    const syn_graph_rank *rank = &t->graph->ranks[rank_index];
    syn_sink_printf(t->ranks, "%s{\"rank\":%d,\"nodes\":%u,\"tensors\":%u",
                    syn_sink_bytes(t->ranks) > 0 ? "," : "", (int)rank->rank,
                    (unsigned)rank->n_nodes, (unsigned)rank->n_tensors);
}

/* Writes the rank's tracks: the name, whether it is a host thread and, for the track of a group,
   the group's number in the column "group". */
static void put_rank_header(syn__html_trace *t, uint32_t rank_index) {
    char name[128];
    put_rank_sizes(t, rank_index);
    syn_sink_text(t->ranks, ",\"lanes\":[");
    for (size_t i = 0; i < t->lanes.n_threads; i++) {
        const syn__track_thread *thread = &t->lanes.threads[i];
        syn__track_name(&t->lanes, t->graph, thread, name, sizeof name);
        syn_sink_text(t->ranks, i > 0 ? ",[" : "[");
        syn_sink_json_string(t->ranks, name);
        syn_sink_text(t->ranks, thread->host ? ",1" : ",0");
        if (!thread->host && thread->lane >= 1 && thread->lane <= t->graph->n_groups)
            syn_sink_printf(t->ranks, ",%u", (unsigned)t->lanes.groups[thread->lane - 1] + 1);
        syn_sink_char(t->ranks, ']');
    }
    syn_sink_char(t->ranks, ']');
}

/* Writes the rank's strings "parts", which end its entry in the header. */
static void put_parts(syn__html_trace *t) {
    syn_sink_text(t->ranks, ",\"parts\":[");
    for (uint32_t i = 0; i < t->parts.n_entries; i++) {
        if (i > 0) syn_sink_char(t->ranks, ',');
        syn_sink_json_text(t->ranks, syn_intern_get(&t->parts, i),
                           syn_intern_entry_bytes(&t->parts, i));
    }
    syn_sink_text(t->ranks, "]}");
    syn_intern_free(&t->parts);
}

/* Writes a time, rounded if the trace is rounded. Returns the value that the viewer computes from
   it. */
static int64_t put_rounded(syn__html_trace *t, syn__column column, int64_t ns) {
    uint32_t size = column == SYN__COLUMN_GAP ? t->step_bits : 0;
    uint64_t part = (uint64_t)(ns < 0 ? -ns : ns);
    while (t->rounded && part >> size >= 1u << SYN__TIME_BITS) size++;
    if (size > 0) part = (part + (UINT64_C(1) << (size - 1))) >> size;
    const int64_t value = ns < 0 ? -(int64_t)part : (int64_t)part;
    if (column == SYN__COLUMN_GAP) syn__columns_put_signed(&t->columns, column, value);
    else syn__columns_put(&t->columns, column, part);
    syn__columns_put(&t->columns, (syn__column)(column + 1), size);
    return value * (INT64_C(1) << size);
}

static void put_time(syn__html_trace *t, const place *p) {
    int64_t none = 0, *free_at = p->lane > 0 ? &t->free_at[p->lane - 1] : &none;
    int64_t gap = p->lane > 0 ? p->start - *free_at : 0;
    /* A negative gap is an effect of rounding if this node started after the unrounded end of the
       previous one. */
    if (t->rounded && gap < 0 && p->start >= t->ended[p->lane - 1]) gap = 0;
    syn__columns_put(&t->columns, SYN__COLUMN_LANE, p->lane);
    const int64_t start = *free_at + put_rounded(t, SYN__COLUMN_GAP, gap);
    *free_at = start + put_rounded(t, SYN__COLUMN_DURATION, p->end - p->start);
    (void)put_rounded(t, SYN__COLUMN_WAIT, p->wait);
    if (p->lane == 0) return;
    t->ended[p->lane - 1] = p->end;
    if ((double)p->end > t->end_ns) t->end_ns = (double)p->end;
}

static void find_rank(syn__html_trace *t, uint32_t rank_index) {
    t->first_of_rank = 0;
    for (uint32_t r = 0; r < rank_index; r++) t->first_of_rank += t->graph->ranks[r].n_nodes;
}

static void put_critical(syn__html_trace *t, uint32_t index) {
    const double ns = t->path_ns ? t->path_ns[t->first_of_rank + index] : 0;
    syn__columns_put(&t->columns, SYN__COLUMN_CRITICAL, (uint64_t)(ns + 0.5));
}

static void put_comm(syn__html_trace *t, const syn_node *node) {
    syn__columns *c = &t->columns;
    const syn_graph_group *group = syn_graph_group_by_id(t->graph, node->group);
    const bool comm = node->comm != SYN_COMM_NONE;
    const bool message = node->kind == SYN_NODE_SEND || node->kind == SYN_NODE_RECV;
    syn__columns_put(c, SYN__COLUMN_COMM, comm ? (uint64_t)node->comm + 1 : 0);
    syn__columns_put(c, SYN__COLUMN_GROUP,
                     group != NULL ? (uint64_t)(group - t->graph->groups) + 1 : 0);
    syn__columns_put(c, SYN__COLUMN_NUMBER, node->comm_index);
    syn__columns_put(c, SYN__COLUMN_COMM_BYTES, node->comm_bytes);
    syn__columns_put(c, SYN__COLUMN_PEER,
                     message && node->peer >= 0 ? (uint64_t)node->peer + 1 : 0);
    syn__columns_put_signed(c, SYN__COLUMN_TAG, message ? node->tag : 0);
}

static void put_uses(syn__html_trace *t, const syn_node *node, int64_t *last) {
    syn__columns *c = &t->columns;
    syn__columns_put(c, SYN__COLUMN_USES, node->n_inputs);
    for (uint32_t i = 0; i < node->n_inputs; i++)
        syn__columns_put_signed(c, SYN__COLUMN_USES, *last - (int64_t)node->inputs[i]);
    syn__columns_put(c, SYN__COLUMN_USES, node->n_outputs);
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        syn__columns_put_signed(c, SYN__COLUMN_USES, (int64_t)node->outputs[i] - *last);
        *last = (int64_t)node->outputs[i];
    }
}

typedef struct dep_list {
    uint64_t *at;
    size_t n, cap;
    uint32_t node;
    syn_status status;
    syn_error *err;
} dep_list;

static void add_dep(void *arg, uint32_t from, uint32_t classes) {
    dep_list *list = arg;
    if (list->status != SYN_OK) return;
    list->status = syn_grow(&list->at, &list->cap, list->n + 1, sizeof *list->at, list->err);
    if (list->status != SYN_OK) return;
    list->at[list->n++] = (uint64_t)(list->node - from) << SYN_DEP_COUNT | classes;
}

static syn_status put_deps(syn__html_trace *t, const syn_node *node, dep_list *list) {
    list->n = 0;
    SYN_TRY(syn__walk_deps(&t->walk, node, add_dep, list, list->err));
    SYN_TRY(list->status);
    syn__columns_put(&t->columns, SYN__COLUMN_DEPS, list->n);
    for (size_t i = 0; i < list->n; i++)
        syn__columns_put(&t->columns, SYN__COLUMN_DEPS, list->at[i]);
    return SYN_OK;
}

/* Marks the outputs that have the default name. */
static syn_status note_names(syn__html_trace *t, const syn_node *node, syn_error *err) {
    char name[2 * SYN_MAX_NAME];
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        const syn_graph_tensor *tensor;
        SYN_TRY(syn__walk_tensor(&t->walk, node->outputs[i], &tensor, err));
        snprintf(name, sizeof name, "%s/%s:%u", node->scope, node->label, (unsigned)i);
        t->named[node->outputs[i]] = strcmp(name, tensor->name) == 0;
    }
    return SYN_OK;
}

/* Adds a node to the sums by op and by layer. The times of host ops exclude the ops that they
   call. */
static syn_status sum_node(syn__html_trace *t, const syn_node *node, uint32_t index, const place *p,
                           syn_error *err) {
    const syn__span *span = syn__timeline_span(&t->timeline, t->walk.rank_index, index);
    const uint32_t n = t->weight;
    const syn__html_sum sum = {n, n * node->flops, n * (node->bytes_read + node->bytes_written),
                               n * (span->end_ns - span->start_ns - span->wait_ns),
                               n * span->wait_ns};
    const size_t layer = syn__walk_layer_prefix(node->scope);
    if (p->lane == 0) return SYN_OK;
    t->n_ops += n;
    SYN_TRY(syn__html_sums_add(&t->by_op, p->host, node->op, strlen(node->op), &sum, err));
    const size_t bytes = layer > 0 ? layer : strcspn(node->scope, ".");
    return syn__html_sums_add(&t->by_layer, p->host, node->scope, bytes, &sum, err);
}

static syn_status put_node(syn__html_trace *t, const syn_node *node, uint32_t index,
                           syn_error *err) {
    const place *p = &t->places[index];
    syn__columns *c = &t->columns;
    syn__columns_put(c, SYN__COLUMN_KIND, node->kind);
    syn__columns_put(c, SYN__COLUMN_CATEGORY, node->category);
    syn__columns_put(c, SYN__COLUMN_FLAGS, node->flags);
    syn__columns_put(c, SYN__COLUMN_PHASE, node->phase);
    syn__columns_put(c, SYN__COLUMN_STEP, node->step);
    SYN_TRY(put_text(t, SYN__COLUMN_SCOPE, node->scope, err));
    SYN_TRY(put_text(t, SYN__COLUMN_LABEL, node->label, err));
    SYN_TRY(put_text(t, SYN__COLUMN_OP, node->op, err));
    SYN_TRY(put_attributes(t, node, err));
    put_time(t, p);
    put_critical(t, index);
    syn__columns_put(c, SYN__COLUMN_FLOPS, node->flops);
    syn__columns_put(c, SYN__COLUMN_READ, node->bytes_read);
    syn__columns_put(c, SYN__COLUMN_WRITTEN, node->bytes_written);
    put_comm(t, node);
    return sum_node(t, node, index, p, err);
}

/* Writes the shard of a tensor, such as "columns 0-63 of 128". */
static syn_status put_part(syn__html_trace *t, const syn_graph_tensor *tensor, syn_error *err) {
    char text[SYN_SHARD_TEXT];
    uint32_t number;
    if (*syn_shard_text(&tensor->spec, &tensor->shard, text, sizeof text) == '\0') {
        syn__columns_put(&t->columns, SYN__COLUMN_TENSOR_PART, 0);
        return SYN_OK;
    }
    SYN_TRY(syn_intern_put(&t->parts, text, strlen(text), &number, err));
    syn__columns_put(&t->columns, SYN__COLUMN_TENSOR_PART, (uint64_t)number + 1);
    return SYN_OK;
}

static syn_status put_tensors(syn__html_trace *t, uint32_t rank_index, syn_error *err) {
    char text[SYN_SPEC_TEXT];
    for (uint32_t i = 0; i < t->graph->ranks[rank_index].n_tensors; i++) {
        const syn_graph_tensor *tensor;
        uint64_t name = 0, spec;
        SYN_TRY(syn__walk_tensor(&t->walk, i, &tensor, err));
        SYN_TRY(text_number(t, syn_spec_text(&tensor->spec, text, sizeof text), &spec, err));
        if (!t->named[i]) {
            SYN_TRY(text_number(t, tensor->name, &name, err));
            name++;
        }
        syn__columns_put(&t->columns, SYN__COLUMN_TENSOR_NAME, name);
        syn__columns_put(&t->columns, SYN__COLUMN_TENSOR_SPEC, spec);
        syn__columns_put(&t->columns, SYN__COLUMN_TENSOR_BYTES, syn_spec_bytes(&tensor->spec));
        syn__columns_put(&t->columns, SYN__COLUMN_TENSOR_FLAGS, tensor->flags);
        syn__columns_put_signed(&t->columns, SYN__COLUMN_TENSOR_BASE,
                                (int64_t)i - (int64_t)tensor->base);
        SYN_TRY(put_part(t, tensor, err));
    }
    return SYN_OK;
}

static syn_status put_nodes(syn__html_trace *t, uint32_t rank_index, dep_list *deps,
                            syn_error *err) {
    uint64_t before = 0;
    int64_t last = 0;
    for (uint32_t i = 0; i < t->graph->ranks[rank_index].n_nodes; i++) {
        const syn_node *node;
        SYN_TRY(syn__walk_node(&t->walk, i, &node, err));
        deps->node = i;
        syn__columns_put_signed(&t->columns, SYN__COLUMN_ID, (int64_t)(node->id - before));
        before = node->id;
        SYN_TRY(put_node(t, node, i, err));
        put_uses(t, node, &last);
        SYN_TRY(put_deps(t, node, deps));
        SYN_TRY(note_names(t, node, err));
    }
    return SYN_OK;
}

static syn_status put_rank(syn__html_trace *t, uint32_t rank_index, syn_error *err) {
    const syn_graph_rank *rank = &t->graph->ranks[rank_index];
    dep_list deps = {.err = err};
    SYN_TRY(syn__walk_load(&t->walk, rank_index, err));
    SYN_TRY(place_nodes(t, rank_index, err));
    SYN_TRY(syn_grow(&t->named, &t->named_cap, rank->n_tensors, 1, err));
    if (rank->n_tensors > 0) memset(t->named, 0, rank->n_tensors);
    t->weight = 1;
    for (uint32_t r = rank_index + 1; r < t->graph->n_ranks && t->copies.n > 0; r++)
        if (t->copies.of[r] == rank_index) t->weight++;
    put_rank_header(t, rank_index);
    find_rank(t, rank_index);
    syn_status status = put_nodes(t, rank_index, &deps, err);
    syn_free(deps.at);
    if (status == SYN_OK) status = put_tensors(t, rank_index, err);
    if (status == SYN_OK) status = syn__columns_end_rank(&t->columns, err);
    if (status == SYN_OK) put_parts(t);
    return status;
}

/* The value of a name in its column. */
static long long column_value(const syn_graph *graph, const syn__renamed *name, int64_t value) {
    if (name->kind != SYN__NAME_GROUP) return name->kind == SYN__NAME_PEER ? value + 1 : value;
    const syn_graph_group *group = syn_graph_group_by_id(graph, (uint32_t)value);
    return group != NULL ? group - graph->groups + 1 : 0;
}

/* Writes the names that differ from those of the rank that this rank is like, as pairs of values of
   the columns group, peer and tag. */
static void put_renaming(syn__html_trace *t, const syn__renaming *renaming) {
    static const char *const columns[] = {"group", "peer", "tag"};
    const size_t n = syn__renaming_nodes(renaming);
    syn_sink_text(t->ranks, ",\"renamed\":{");
    for (size_t i = 0; i < n; i++) {
        const syn__renamed *name = &renaming->at[i];
        const bool first = i == 0 || name[-1].kind != name->kind;
        const bool last = i + 1 == n || name[1].kind != name->kind;
        if (first) syn_sink_printf(t->ranks, "%s\"%s\":[", i > 0 ? "," : "", columns[name->kind]);
        syn_sink_printf(t->ranks, "%s[%lld,%lld]%s", first ? "" : ",",
                        column_value(t->graph, name, name->from),
                        column_value(t->graph, name, name->to), last ? "]" : "");
    }
    syn_sink_char(t->ranks, '}');
}

/* Writes a rank that is identical to rank number `like` of the report. */
static syn_status put_copy(syn__html_trace *t, uint32_t rank_index, uint32_t like, syn_error *err) {
    const syn_graph_rank *rank = &t->graph->ranks[rank_index];
    syn__walk_select(&t->walk, rank_index);
    put_rank_sizes(t, rank_index);
    syn_sink_printf(t->ranks, ",\"like\":%u", (unsigned)like);
    put_renaming(t, &t->copies.renamings[rank_index]);
    find_rank(t, rank_index);
    for (uint32_t i = 0; i < rank->n_nodes; i++) {
        const syn_node *node;
        SYN_TRY(syn__walk_node(&t->walk, i, &node, err));
        SYN_TRY(put_attributes(t, node, err));
        if (t->path_ns) put_critical(t, i);
    }
    for (uint32_t i = 0; i < rank->n_tensors; i++) {
        const syn_graph_tensor *tensor;
        SYN_TRY(syn__walk_tensor(&t->walk, i, &tensor, err));
        SYN_TRY(put_part(t, tensor, err));
    }
    put_parts(t);
    return syn__columns_end_copy(&t->columns, like, err);
}

static syn_status put_ranks(syn__html_trace *t, const syn_export_options *options, syn_error *err) {
    uint32_t first, end;
    SYN_TRY(syn__walk_ranks(t->graph, options, &first, &end, err));
    for (uint32_t r = first; r < end; r++) {
        const bool copy = syn__is_copy(&t->copies, r);
        SYN_TRY(copy ? put_copy(t, r, t->copies.of[r] - first, err) : put_rank(t, r, err));
    }
    return SYN_OK;
}

/* Decides whether and how times are rounded. Large measured traces are rounded, because only the
   first digits of their times are significant. */
static void round_times(syn__html_trace *t) {
    const syn__timeline *line = &t->timeline;
    double first_ns = SYN__MAX_NS, last_ns = 0;
    t->rounded = line->clock == SYN__CLOCK_MEASURED && syn_graph_is_large(t->graph);
    for (size_t i = 0; t->rounded && i < line->span_first[line->n_ranks]; i++) {
        if (line->spans[i].start_ns < 0) continue;
        if (line->spans[i].start_ns < first_ns) first_ns = line->spans[i].start_ns;
        if (line->spans[i].end_ns > last_ns) last_ns = line->spans[i].end_ns;
    }
    while (last_ns - first_ns > (double)SYN__TIME_STEPS * (double)(UINT64_C(2) << t->step_bits))
        t->step_bits++;
}

syn_status syn__html_trace_read(syn__html_trace *out, const syn_graph *graph,
                                const syn_export_options *options, syn_error *err) {
    memset(out, 0, sizeof *out);
    out->graph = graph;
    syn__walk_init(&out->walk, graph);
    SYN_TRY(syn__copies_find(&out->copies, graph, options, err));
    SYN_TRY(syn__timeline_make(&out->timeline, graph, options, &out->copies, err));
    SYN_TRY(syn__critical_of_graph(&out->path_ns, graph, err));
    round_times(out);
    SYN_TRY(syn_sink_open_memory(&out->ranks, err));
    SYN_TRY(put_ranks(out, options, err));
    return syn_sink_status(out->ranks) == SYN_OK
               ? SYN_OK
               : SYN_FAIL_NOMEM(err, 0, "the header of an HTML report");
}

void syn__html_trace_free(syn__html_trace *t) {
    syn_free(t->path_ns);
    syn__copies_free(&t->copies);
    syn__timeline_free(&t->timeline);
    syn__walk_free(&t->walk);
    syn__tracks_free(&t->lanes);
    syn__columns_free(&t->columns);
    syn_intern_free(&t->texts);
    syn_intern_free(&t->parts);
    (void)syn_sink_close(t->ranks, false, NULL);
    syn__html_sums_free(&t->by_op);
    syn__html_sums_free(&t->by_layer);
    syn_free(t->places);
    syn_free(t->named);
    syn_free(t->free_at);
    syn_free(t->ended);
}
