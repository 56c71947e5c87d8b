/* Writes NetworkX node-link JSON of all ranks without loss: syn_import_json restores the same
   graph. Nodes are "r0.o12" (the op with id 12 of rank 0) and "r0.t7" (tensor 7). Edges are tensor
   -> op ("input", with the position among the op's inputs), op -> tensor ("output"), and op -> op
   for dependencies that no tensor shows (with their classes, as in "control|stream"). At most one
   edge connects a pair of nodes; the edge of a tensor that an op uses twice has "positions".

   Nodes and edges that connect the ranks (links.h) are marked "derived" and ignored by the reader:
   nodes "g1.3" (meeting 3 of group 1) and "end", and their edges. networkx can find the critical
   path from the "duration_ns" of edges. In PyTorch traces, whose ops overlap, ops on the path have
   "critical_ns" instead (critical.h).

   networkx 2.8 reads edges from "links" and networkx 3.6 from "edges". Both are therefore written
   unless options->nx_key selects one of them, which makes a large file smaller by a third. Program
   order is the order of op ids; if the ids of a rank are not ascending, its ops have
   "program_order". Absent values are omitted. "dtype", "shape" (of the first output), "bytes",
   "type", "rank", "layer", "group_name", "transfer_ns", "critical_ns" and "duration_ns" are for
   people and are not read back. */
#include "export/text/json_put.h"
#include "export/walk/critical.h"
#include "export/walk/links.h"
#include "syntorch/base/memory.h"

#include <math.h>
#include <string.h>

#define FORMAT_VERSION  2
#define RENAMED_VERSION 3 /* of files with identical ranks that have other names */

typedef struct writer {
    syn__walk walk;
    syn__rank_edges links;
    syn_copied_ranks copies;
    syn_sink *sink;
    uint8_t *made; /* per tensor of the rank: 1 if an edge names its producer */
    size_t made_cap;
    bool first;      /* the current JSON array has no elements yet */
    double *path_ns; /* PyTorch traces: for each node of all ranks, its time on the critical path */
    const double *path_at; /* entry of path_ns for the next op; NULL: not a PyTorch trace */
    bool ids_ascend;       /* whether the op ids of the current rank ascend */
    uint64_t op_id;        /* id of the current node, whose edges are being written */
    double op_ns, late_ns; /* length of edges that begin at this node; additional length of edges
                              that end at it */
} writer;

static void put_i64_unless(syn_sink *sink, const char *key, int64_t value, int64_t absent) {
    if (value != absent) syn__put_i64(sink, key, value);
}

static void put_time(syn_sink *sink, const char *key, double ns) {
    if (ns == SYN_NO_TIME || !isfinite(ns)) return;
    syn_sink_text(sink, key);
    syn_sink_double(sink, ns);
}

static void put_duration(syn_sink *sink, double ns) {
    syn_sink_text(sink, ",\"duration_ns\":");
    syn_sink_double(sink, ns);
}

static void put_ref(syn_sink *sink, int32_t rank, char kind, uint64_t number) {
    syn_sink_char(sink, '"');
    syn__walk_put_ref(sink, rank, kind, number);
    syn_sink_char(sink, '"');
}

/* Writes a number that other programs also read back as a float: "3.0", "1e+30". JSON has no
   infinity, so non-finite values are objects. */
static void put_float(syn_sink *sink, double value) {
    if (isnan(value)) {
        syn_sink_text(sink, "{\"f64\":\"nan\"}");
    } else if (isinf(value)) {
        syn_sink_text(sink, value > 0 ? "{\"f64\":\"inf\"}" : "{\"f64\":\"-inf\"}");
    } else if (value == floor(value) && fabs(value) < 1.8e19) {
        if (signbit(value)) syn_sink_char(sink, '-');
        syn_sink_u64(sink, (uint64_t)fabs(value));
        syn_sink_text(sink, ".0");
    } else {
        syn_sink_double(sink, value);
    }
}

static void put_attributes(syn_sink *sink, const syn_attribute *attributes, uint32_t n) {
    syn_sink_char(sink, '{');
    for (uint32_t i = 0; i < n; i++) {
        const syn_attribute *a = &attributes[i];
        if (i > 0) syn_sink_char(sink, ',');
        syn_sink_json_string(sink, a->name);
        syn_sink_char(sink, ':');
        switch (a->type) {
        case SYN_VALUE_I64:
            syn_sink_i64(sink, a->i64);
            break;
        case SYN_VALUE_F64:
            put_float(sink, a->f64);
            break;
        case SYN_VALUE_BOOL:
            syn_sink_text(sink, a->i64 != 0 ? "true" : "false");
            break;
        case SYN_VALUE_TEXT:
            syn_sink_json_string(sink, a->text != NULL ? a->text : "");
            break;
        }
    }
    syn_sink_char(sink, '}');
}

static void put_groups(syn_sink *sink, const syn_graph *graph) {
    syn_sink_text(sink, ",\n\"groups\":[");
    for (uint32_t g = 0; g < graph->n_groups; g++) {
        const syn_graph_group *group = &graph->groups[g];
        syn__put_u64(sink, g == 0 ? "\n{\"id\":" : ",\n{\"id\":", group->id);
        syn__put_text(sink, ",\"name\":", group->name);
        syn_sink_text(sink, ",\"ranks\":[");
        for (uint32_t i = 0; i < group->n_ranks; i++) {
            if (i > 0) syn_sink_char(sink, ',');
            syn_sink_i64(sink, group->ranks[i]);
        }
        syn_sink_text(sink, "]}");
    }
    syn_sink_char(sink, ']');
}

/* Writes the ops of an identical rank whose attributes differ from the original's. */
static syn_status put_changed(writer *w, uint32_t rank, syn_error *err) {
    syn__walk *walk = &w->walk;
    syn_cursor original = {0};
    syn_status status = SYN_OK;
    bool first = true;
    syn__walk_select(walk, rank);
    for (uint32_t i = 0; i < walk->graph->ranks[rank].n_nodes && status == SYN_OK; i++) {
        const syn_node *node;
        const syn_node *other = syn_graph_node(walk->graph, w->copies.of[rank], i, &original);
        status = other != NULL ? syn__walk_node(walk, i, &node, err)
                               : SYN_FAIL(err, SYN_E_NOMEM, "%s", original.error.text);
        if (status != SYN_OK || syn__copies_same_attributes(node, other)) continue;
        syn_sink_text(w->sink, first ? "\n{\"id\":" : ",\n{\"id\":");
        put_ref(w->sink, walk->rank, 'o', node->id);
        syn_sink_text(w->sink, ",\"attributes\":");
        put_attributes(w->sink, node->attributes, node->n_attributes);
        syn_sink_char(w->sink, '}');
        first = false;
    }
    syn_cursor_free(&original);
    return status;
}

/* Writes the names that differ from those of the original: "groups":{"1":2},"shards":{"0/4":1}. */
static void put_renaming(syn_sink *sink, const syn__renaming *renaming) {
    static const char *const keys[SYN__NAME_KINDS] = {"groups", "peers", "tags", "shards"};
    for (size_t i = 0; i < renaming->n; i++) {
        const syn__renamed *name = &renaming->at[i];
        const bool first = i == 0 || name[-1].kind != name->kind;
        const bool last = i + 1 == renaming->n || name[1].kind != name->kind;
        if (first) syn_sink_printf(sink, ",\"%s\":{\"", keys[name->kind]);
        else syn_sink_text(sink, ",\"");
        if (name->kind == SYN__NAME_SHARD)
            syn_sink_printf(sink, "%d/%d", (int)(int32_t)name->from, (int)(name->from >> 32));
        else syn_sink_i64(sink, name->from);
        syn__put_i64(sink, "\":", name->to);
        if (last) syn_sink_char(sink, '}');
    }
}

/* Writes the shards of tensors that follow neither from the groups nor from the renaming:
   "tensors":{"12":1}. */
static syn_status put_tensors(writer *w, uint32_t rank, syn_error *err) {
    const syn_graph *graph = w->walk.graph;
    const uint32_t of = w->copies.of[rank];
    syn__shard_places places = {0};
    bool first = true;
    syn_status status =
        syn__shard_places_find(&places, graph, graph->ranks[of].rank, graph->ranks[rank].rank,
                               &w->copies.renamings[rank], err);
    for (uint32_t i = 0; i < graph->ranks[rank].n_tensors && status == SYN_OK; i++) {
        const syn_graph_tensor *tensor;
        syn__walk_select(&w->walk, of);
        status = syn__walk_tensor(&w->walk, i, &tensor, err);
        const int32_t place = status == SYN_OK ? syn__shard_places_get(&places, &tensor->shard) : 0;
        syn__walk_select(&w->walk, rank);
        if (status == SYN_OK) status = syn__walk_tensor(&w->walk, i, &tensor, err);
        if (status != SYN_OK || tensor->shard.count < 2 || tensor->shard.index == place) continue;
        syn_sink_printf(w->sink, "%s\"%u\":%d", first ? ",\"tensors\":{" : ",", (unsigned)i,
                        tensor->shard.index);
        first = false;
    }
    if (!first) syn_sink_char(w->sink, '}');
    syn__shard_places_free(&places);
    return status;
}

static syn_status put_copies(writer *w, syn_error *err) {
    const syn_graph *graph = w->walk.graph;
    const char *before = ",\n\"copies\":[\n{\"rank\":";
    for (uint32_t r = 0; w->copies.n > 0 && r < graph->n_ranks; r++) {
        if (!syn__is_copy(&w->copies, r)) continue;
        syn__put_i64(w->sink, before, graph->ranks[r].rank);
        syn__put_i64(w->sink, ",\"of\":", graph->ranks[w->copies.of[r]].rank);
        put_renaming(w->sink, &w->copies.renamings[r]);
        if (w->copies.n_shards[r] > 0) SYN_TRY(put_tensors(w, r, err));
        syn_sink_text(w->sink, ",\"nodes\":[");
        if (w->copies.n_changed[r] > 0) SYN_TRY(put_changed(w, r, err));
        syn_sink_text(w->sink, "]}");
        before = ",\n{\"rank\":";
    }
    if (w->copies.n > 0) syn_sink_char(w->sink, ']');
    return SYN_OK;
}

/* Older readers do not know renamings, and must not read such a file. */
static int version_of(const syn_copied_ranks *copies) {
    for (uint32_t r = 0; copies->n > 0 && r < copies->n_ranks; r++)
        if (copies->renamings[r].n > 0 || copies->n_shards[r] > 0) return RENAMED_VERSION;
    return FORMAT_VERSION;
}

static syn_status put_header(writer *w, const syn_export_options *options, uint32_t first,
                             uint32_t end, syn_error *err) {
    syn_sink *sink = w->sink;
    const syn_graph *graph = w->walk.graph;
    syn_sink_text(sink,
                  "{\"directed\":true,\"multigraph\":false,\"graph\":{\"format\":\"syntorch\"");
    syn__put_i64(sink, ",\"format_version\":", version_of(&w->copies));
    if (options != NULL && options->version != NULL)
        syn__put_text(sink, ",\"generator\":", options->version);
    if (options != NULL && options->title != NULL)
        syn__put_text(sink, ",\"name\":", options->title);
    syn__put_i64(sink, ",\"world_size\":", graph->world_size);
    syn_sink_text(sink, ",\"ranks\":[");
    for (uint32_t r = first; r < end; r++) {
        if (r > first) syn_sink_char(sink, ',');
        syn_sink_i64(sink, graph->ranks[r].rank);
    }
    syn__put_text(sink, "],\"clock\":", syn__clock_name(w->links.timeline.clock));
    syn_sink_text(sink, ",\n\"metadata\":");
    put_attributes(sink, graph->metadata, graph->n_metadata);
    put_groups(sink, graph);
    SYN_TRY(put_copies(w, err));
    syn_sink_char(sink, '}');
    return SYN_OK;
}

static void put_spec(syn_sink *sink, const syn_spec *spec) {
    syn__put_text(sink, ",\"dtype\":", syn_dtype_name((syn_dtype)spec->dtype));
    syn_sink_text(sink, ",\"shape\":");
    syn__walk_put_shape(sink, spec);
}

/* Writes the fields of communication, only for nodes that communicate. In other nodes these fields
   have no meaning, and producers of traces set them to different values. */
static void put_comm(syn_sink *sink, const syn_graph *graph, const syn_node *node) {
    const bool p2p = node->kind == SYN_NODE_SEND || node->kind == SYN_NODE_RECV;
    if (!syn__walk_is_comm(node)) return;
    syn__put_text(sink, ",\"comm\":", syn_comm_kind_name(node->comm));
    if (node->reduce >= 0 && node->reduce < SYN_REDUCE_COUNT)
        syn__put_text(sink, ",\"reduce\":", syn_reduce_name((syn_reduce)node->reduce));
    if (node->group != 0) {
        const syn_graph_group *group = syn_graph_group_by_id(graph, node->group);
        syn__put_u64(sink, ",\"group\":", node->group);
        if (group != NULL) syn__put_text(sink, ",\"group_name\":", group->name);
    }
    syn__put_u64(sink, ",\"comm_bytes\":", node->comm_bytes);
    syn__put_u64(sink, ",\"comm_index\":", node->comm_index);
    put_i64_unless(sink, ",\"peer\":", node->peer, -1);
    if (p2p || node->tag != -1) syn__put_i64(sink, ",\"tag\":", node->tag);
    put_i64_unless(sink, ",\"root\":", node->root, -1);
}

static syn_status put_op(writer *w, uint32_t index, const syn_node *node, syn_error *err) {
    syn_sink *sink = w->sink;
    syn_sink_text(sink, "{\"id\":");
    put_ref(sink, w->walk.rank, 'o', node->id);
    if (!w->ids_ascend) syn__put_u64(sink, ",\"program_order\":", index);
    syn_sink_text(sink, ",\"type\":\"op\",\"rank\":");
    syn_sink_i64(sink, w->walk.rank);
    syn__put_text(sink, ",\"name\":", node->label);
    syn__put_text(sink, ",\"op\":", node->op);
    syn__put_text(sink, ",\"scope\":", node->scope);
    syn__put_i64(sink, ",\"layer\":", syn__walk_layer(node->scope));
    syn__put_text(sink, ",\"phase\":", syn_phase_name(node->phase));
    syn__put_u64(sink, ",\"step\":", node->step);
    syn__put_text(sink, ",\"kind\":", syn_node_kind_name(node->kind));
    syn__put_text(sink, ",\"category\":", syn_category_name(node->category));
    syn__put_i64(sink, ",\"stream\":", node->stream);
    if (node->n_outputs > 0) {
        const syn_graph_tensor *tensor;
        SYN_TRY(syn__walk_tensor(&w->walk, node->outputs[0], &tensor, err));
        put_spec(sink, &tensor->spec);
    }
    syn__put_u64(sink, ",\"flops\":", node->flops);
    syn__put_u64(sink, ",\"bytes_read\":", node->bytes_read);
    syn__put_u64(sink, ",\"bytes_written\":", node->bytes_written);
    if (node->flags & SYN_NODE_VIRTUAL) syn_sink_text(sink, ",\"virtual\":true");
    if (node->flags & SYN_NODE_FUSED) syn_sink_text(sink, ",\"fused\":true");
    put_comm(sink, w->walk.graph, node);
    put_time(sink, ",\"start_ns\":", node->start_ns);
    put_time(sink, ",\"wall_ns\":", node->wall_ns);
    put_time(sink, ",\"cpu_ns\":", node->cpu_ns);
    put_time(sink, ",\"wait_ns\":", node->wait_ns);
    if (syn_node_wait_ns(node) > 0) put_time(sink, ",\"transfer_ns\":", syn_node_busy_ns(node));
    put_time(sink, ",\"predicted_ns\":", node->predicted_ns);
    if (w->path_at != NULL && *w->path_at > 0) put_time(sink, ",\"critical_ns\":", *w->path_at);
    if (node->n_attributes > 0) {
        syn_sink_text(sink, ",\"attributes\":");
        put_attributes(sink, node->attributes, node->n_attributes);
    }
    syn_sink_char(sink, '}');
    return SYN_OK;
}

/* Writes the shard twice: "shard":[1,1,0,2] for programs, and "part":"columns 0-63 of 128" for
   people. */
static void put_shard(syn_sink *sink, const syn_graph_tensor *tensor) {
    const syn_shard *s = &tensor->shard;
    char text[SYN_SHARD_TEXT];
    if (s->count < 2) return;
    syn__put_i64(sink, ",\"shard\":[", s->axis);
    syn__put_i64(sink, ",", s->parts);
    syn__put_i64(sink, ",", s->index);
    syn__put_i64(sink, ",", s->count);
    syn__put_text(sink, "],\"part\":", syn_shard_text(&tensor->spec, s, text, sizeof text));
}

static void put_tensor(writer *w, uint32_t index, const syn_graph_tensor *tensor) {
    syn_sink *sink = w->sink;
    syn_sink_text(sink, "{\"id\":");
    put_ref(sink, w->walk.rank, 't', index);
    syn_sink_text(sink, ",\"type\":\"tensor\",\"rank\":");
    syn_sink_i64(sink, w->walk.rank);
    syn__put_text(sink, ",\"name\":", tensor->name);
    syn_sink_text(sink, ",\"role\":\"");
    syn__walk_put_role(sink, tensor->flags);
    syn_sink_char(sink, '"');
    put_spec(sink, &tensor->spec);
    syn__put_u64(sink, ",\"bytes\":", syn_spec_bytes(&tensor->spec));
    if (tensor->flags & SYN_TENSOR_VIEW) syn_sink_text(sink, ",\"view\":true");
    if (tensor->flags & SYN_TENSOR_PARTIAL) syn_sink_text(sink, ",\"term\":true");
    put_shard(sink, tensor);
    if (tensor->base != index) {
        syn_sink_text(sink, ",\"base\":");
        put_ref(sink, w->walk.rank, 't', tensor->base);
    }
    if (tensor->producer != SYN_NO_NODE && !w->made[index]) {
        syn_sink_text(sink, ",\"producer\":");
        put_ref(sink, w->walk.rank, 'o', w->walk.ids[tensor->producer]);
    }
    syn_sink_char(sink, '}');
}

/* Begins the next element of the current array on a new line. */
static void next_line(writer *w) {
    syn_sink_text(w->sink, w->first ? "\n" : ",\n");
    w->first = false;
}

static syn_status put_rank_nodes(writer *w, uint32_t rank_index, syn_error *err) {
    const syn_graph_rank *rank = &w->walk.graph->ranks[rank_index];
    SYN_TRY(syn__walk_load(&w->walk, rank_index, err));
    SYN_TRY(syn_grow(&w->made, &w->made_cap, (size_t)rank->n_tensors + 1, 1, err));
    memset(w->made, 0, rank->n_tensors);
    w->path_at = w->path_ns;
    for (uint32_t r = 0; w->path_at != NULL && r < rank_index; r++)
        w->path_at += w->walk.graph->ranks[r].n_nodes;
    w->ids_ascend = true;
    for (uint32_t i = 1; i < rank->n_nodes; i++)
        w->ids_ascend = w->ids_ascend && w->walk.ids[i] > w->walk.ids[i - 1];
    for (uint32_t i = 0; i < rank->n_nodes && syn_sink_status(w->sink) == SYN_OK; i++) {
        const syn_node *node;
        SYN_TRY(syn__walk_node(&w->walk, i, &node, err));
        next_line(w);
        for (uint32_t k = 0; k < node->n_outputs; k++) w->made[node->outputs[k]] = 1;
        SYN_TRY(put_op(w, i, node, err));
        if (w->path_at != NULL) w->path_at++;
    }
    for (uint32_t i = 0; i < rank->n_tensors && syn_sink_status(w->sink) == SYN_OK; i++) {
        const syn_graph_tensor *tensor;
        SYN_TRY(syn__walk_tensor(&w->walk, i, &tensor, err));
        next_line(w);
        put_tensor(w, i, tensor);
    }
    return SYN_OK;
}

/* Writes the edges between the current op and each tensor of walk.uses[0 .. n - 1]. */
static void put_tensor_edges(writer *w, uint32_t n, bool inputs) {
    syn_sink *sink = w->sink;
    const syn__use *uses = w->walk.uses;
    for (uint32_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && uses[end].tensor == uses[i].tensor;) end++;
        next_line(w);
        syn_sink_text(sink, "{\"source\":");
        put_ref(sink, w->walk.rank, inputs ? 't' : 'o', inputs ? uses[i].tensor : w->op_id);
        syn_sink_text(sink, ",\"target\":");
        put_ref(sink, w->walk.rank, inputs ? 'o' : 't', inputs ? w->op_id : uses[i].tensor);
        syn_sink_text(sink, inputs ? ",\"kind\":\"input\"" : ",\"kind\":\"output\"");
        syn__put_u64(sink, ",\"position\":", uses[i].position);
        put_duration(sink, inputs ? w->late_ns : w->op_ns);
        if (end > i + 1) {
            for (uint32_t k = i; k < end; k++)
                syn__put_u64(sink, k == i ? ",\"positions\":[" : ",", uses[k].position);
            syn_sink_char(sink, ']');
        }
        syn_sink_char(sink, '}');
    }
}

static void put_dep_edge(void *arg, uint32_t from, uint32_t classes) {
    writer *w = arg;
    next_line(w);
    syn_sink_text(w->sink, "{\"source\":");
    put_ref(w->sink, w->walk.rank, 'o', w->walk.ids[from]);
    syn_sink_text(w->sink, ",\"target\":");
    put_ref(w->sink, w->walk.rank, 'o', w->op_id);
    syn_sink_text(w->sink, ",\"kind\":\"");
    syn__walk_put_classes(w->sink, classes);
    syn_sink_char(w->sink, '"');
    put_duration(w->sink, syn__rank_edges_ns(&w->links, w->walk.rank_index, from) + w->late_ns);
    syn_sink_char(w->sink, '}');
}

static void put_link(void *arg, const syn__rank_edge *link) {
    writer *w = arg;
    next_line(w);
    syn_sink_text(w->sink, "{\"source\":\"");
    syn__rank_edges_put_end(w->sink, &link->from);
    syn_sink_text(w->sink, "\",\"target\":\"");
    syn__rank_edges_put_end(w->sink, &link->to);
    syn__put_text(w->sink, "\",\"kind\":", link->kind);
    put_duration(w->sink, link->ns);
    syn_sink_text(w->sink, ",\"derived\":true}");
}

static syn_status put_rank_edges(writer *w, uint32_t rank_index, syn_error *err) {
    const uint32_t n_nodes = w->walk.graph->ranks[rank_index].n_nodes;
    SYN_TRY(syn__walk_load(&w->walk, rank_index, err));
    SYN_TRY(syn__rank_edges_begin(&w->links, rank_index, err));
    for (uint32_t i = 0; i < n_nodes && syn_sink_status(w->sink) == SYN_OK; i++) {
        const syn_node *node;
        SYN_TRY(syn__walk_node(&w->walk, i, &node, err));
        w->op_id = node->id;
        w->op_ns = syn__rank_edges_ns(&w->links, rank_index, i);
        w->late_ns = syn__rank_edges_late_ns(&w->links, rank_index, i);
        SYN_TRY(syn__walk_uses(&w->walk, node->inputs, node->n_inputs, err));
        put_tensor_edges(w, node->n_inputs, true);
        SYN_TRY(syn__walk_deps(&w->walk, node, put_dep_edge, w, err));
        SYN_TRY(syn__rank_edges_of(&w->links, &w->walk, i, node, put_link, w, err));
        SYN_TRY(syn__walk_uses(&w->walk, node->outputs, node->n_outputs, err));
        put_tensor_edges(w, node->n_outputs, false);
    }
    return SYN_OK;
}

/* ---- Document ---- */

/* Meeting nodes belong to no rank and are written as rank -1. */
static void put_meetings(writer *w) {
    const syn__timeline *t = &w->links.timeline;
    for (size_t i = 0; i < t->n_meetings; i++) {
        const syn__meeting *m = &t->meetings[i];
        const syn_graph_group *group = &t->graph->groups[m->group];
        if (!syn__rank_edges_has_point(m)) continue;
        next_line(w);
        syn_sink_text(w->sink, "{\"id\":\"");
        syn__rank_edges_put_end(w->sink, &(syn__rank_edge_end){'g', group->id, m->number});
        syn__put_text(w->sink,
                      "\",\"type\":\"meeting\",\"rank\":-1,\"name\":", syn_comm_kind_name(m->comm));
        syn__put_text(w->sink, ",\"comm\":", syn_comm_kind_name(m->comm));
        syn__put_u64(w->sink, ",\"group\":", group->id);
        syn__put_text(w->sink, ",\"group_name\":", group->name);
        syn__put_u64(w->sink, ",\"n_ranks\":", m->n_members);
        syn_sink_char(w->sink, '}');
    }
    if (!w->links.has_end) return;
    next_line(w);
    syn_sink_text(w->sink, "{\"id\":\"end\",\"type\":\"end\",\"rank\":-1,\"name\":\"end\"}");
}

static syn_status put_nodes(writer *w, syn_error *err) {
    const syn__timeline *t = &w->links.timeline;
    syn_sink_text(w->sink, ",\n\"nodes\":[");
    w->first = true;
    for (uint32_t i = 0; i < t->n_ranks; i++) SYN_TRY(put_rank_nodes(w, t->ranks[i], err));
    put_meetings(w);
    syn_sink_text(w->sink, "\n]");
    return SYN_OK;
}

static syn_status put_edges(writer *w, const char *key, syn_error *err) {
    const syn__timeline *t = &w->links.timeline;
    syn_sink_text(w->sink, key);
    w->first = true;
    for (uint32_t i = 0; i < t->n_ranks; i++) SYN_TRY(put_rank_edges(w, t->ranks[i], err));
    syn_sink_text(w->sink, "\n]");
    return SYN_OK;
}

static syn_status write_document(writer *w, const syn_export_options *options, syn_error *err) {
    const syn_nx_key key = options != NULL ? options->nx_key : SYN_NX_BOTH;
    uint32_t first, end;
    SYN_TRY(syn__walk_ranks(w->walk.graph, options, &first, &end, err));
    SYN_TRY(syn__copies_find(&w->copies, w->walk.graph, options, err));
    SYN_TRY(syn__rank_edges_open(&w->links, w->walk.graph, options, &w->copies, err));
    SYN_TRY(syn__critical_of_graph(&w->path_ns, w->walk.graph, err));
    SYN_TRY(put_header(w, options, first, end, err));
    SYN_TRY(put_nodes(w, err));
    if (key != SYN_NX_EDGES) SYN_TRY(put_edges(w, ",\n\"links\":[", err));
    if (key != SYN_NX_LINKS) SYN_TRY(put_edges(w, ",\n\"edges\":[", err));
    syn_sink_text(w->sink, "}\n");
    return SYN_OK;
}

static syn_status write_json(const syn_graph *graph, const syn_export_options *options,
                             syn_sink *sink, syn_error *err) {
    writer w = {.sink = sink};
    syn__walk_init(&w.walk, graph);
    const syn_status status = write_document(&w, options, err);
    syn__walk_free(&w.walk);
    syn__rank_edges_close(&w.links);
    syn__copies_free(&w.copies);
    syn_free(w.made);
    syn_free(w.path_ns);
    return status;
}

const syn_exporter syn_export_json = {"json", "json", write_json};
