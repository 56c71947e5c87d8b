/* Writes GraphML for networkx, yEd, Gephi and Cytoscape. Every key is declared with one of
   GraphML's types; absent values are omitted. The graph is simple: edges between the same pair of
   nodes are merged, with their kinds joined by "|". links.h explains meeting nodes, the end node
   and edges between ranks. yEd reads shapes and a layout: a column per rank and a row per op, with
   the op's outputs on its right, and its inputs on its left unless they were written before. Gephi
   reads label, x, y, size, r, g, b and weight. Tensors are green, ops blue, communication red. No
   key id is d0, d1, ..., because Gephi uses two of these for labels. Numbers above 2^63 - 1 do not
   fit GraphML's long and are clamped. */
#include "export/nodelink/graphml.h"
#include "export/walk/links.h"
#include "syntorch/base/memory.h"

#include <math.h>
#include <string.h>

/* Layout, in yEd's points */
#define COLUMN_WIDTH 1400
#define ROW_HEIGHT   60
#define SLOT_WIDTH   190 /* distance between a node and its tensors */
#define MAX_SLOTS    3   /* tensors in a row; others are placed below */
#define NODE_WIDTH   160
#define NODE_HEIGHT  30

typedef struct colour {
    const char *hex;
    int r, g, b;
} colour;

static const colour green = {"#7BC47F", 123, 196, 127};
static const colour blue = {"#7FA8DC", 127, 168, 220};
static const colour red = {"#E06666", 224, 102, 102};
static const colour edge_red = {"#CC0000", 204, 0, 0};
static const colour edge_black = {"#000000", 0, 0, 0};

typedef struct writer {
    syn__walk walk;
    syn__rank_edges links;
    syn_sink *sink;
    const syn_node *op;    /* current node, whose edges are being written */
    double op_ns, late_ns; /* length of edges that begin at `op`; additional length of edges that
                              end at it */
    uint8_t *met;          /* per meeting: 1 after its node was written */
    uint64_t *sizes;       /* per tensor of the rank: bytes plus one; 0: not written yet */
    uint32_t rank_column, row, slots_left, slots_right;
} writer;

static void begin_data(syn_sink *sink, const char *id) {
    syn_sink_text(sink, "<data key=\"");
    syn_sink_text(sink, id);
    syn_sink_text(sink, "\">");
}

static void end_data(syn_sink *sink) {
    syn_sink_text(sink, "</data>");
}

static void data_text(syn_sink *sink, const char *id, const char *text) {
    begin_data(sink, id);
    syn_sink_xml_text(sink, text);
    end_data(sink);
}

static void data_i64(syn_sink *sink, const char *id, int64_t value) {
    begin_data(sink, id);
    syn_sink_i64(sink, value);
    end_data(sink);
}

static void data_u64(syn_sink *sink, const char *id, uint64_t value) {
    data_i64(sink, id, value > INT64_MAX ? INT64_MAX : (int64_t)value);
}

static void data_time(syn_sink *sink, const char *id, double ns) {
    if (ns == SYN_NO_TIME || !isfinite(ns)) return;
    begin_data(sink, id);
    syn_sink_double(sink, ns);
    end_data(sink);
}

static void put_colour(syn_sink *sink, const char *const ids[3], const colour *c) {
    data_i64(sink, ids[0], c->r);
    data_i64(sink, ids[1], c->g);
    data_i64(sink, ids[2], c->b);
}

/* ---- Nodes ---- */

/* The number of binary digits, used as a size. It grows slowly and, as an integer, is the same on
   every machine. */
static int digits(uint64_t value) {
    int n = 0;
    for (; value != 0; value >>= 1) n++;
    return n;
}

typedef struct look {
    const char *label, *shape, *border;
    const colour *fill;
    int64_t x, y;    /* centre */
    uint64_t amount; /* flops or bytes, from which the size in Gephi is computed */
} look;

/* Writes what yEd and Gephi show of a node. The yEd part must come first: networkx reads x and y
   from it as text, and then overwrites them with the numbers of the plain keys. */
static void put_look(syn_sink *sink, const look *l) {
    static const char *const rgb[3] = {"r", "g", "b"};
    syn_sink_text(sink, "<data key=\"ynode\"><y:ShapeNode><y:Geometry height=\"");
    syn_sink_i64(sink, NODE_HEIGHT);
    syn_sink_text(sink, "\" width=\"");
    syn_sink_i64(sink, NODE_WIDTH);
    syn_sink_text(sink, "\" x=\"");
    syn_sink_i64(sink, l->x - NODE_WIDTH / 2);
    syn_sink_text(sink, "\" y=\"");
    syn_sink_i64(sink, l->y - NODE_HEIGHT / 2);
    syn_sink_text(sink, "\"/><y:Fill color=\"");
    syn_sink_text(sink, l->fill->hex);
    syn_sink_text(sink, "\" transparent=\"false\"/><y:BorderStyle color=\"#333333\" type=\"");
    syn_sink_text(sink, l->border);
    syn_sink_text(sink, "\" width=\"1.0\"/><y:NodeLabel>");
    syn_sink_xml_text(sink, l->label);
    syn_sink_text(sink, "</y:NodeLabel><y:Shape type=\"");
    syn_sink_text(sink, l->shape);
    syn_sink_text(sink, "\"/></y:ShapeNode></data>");
    if (l->label[0] != '\0') data_text(sink, "label", l->label);
    data_i64(sink, "x", l->x);
    data_i64(sink, "y", l->y);
    data_i64(sink, "size", 10 + digits(l->amount) / 2);
    put_colour(sink, rgb, l->fill);
}

static void begin_node(writer *w, char kind, uint64_t number) {
    syn_sink_text(w->sink, "<node id=\"");
    syn__walk_put_ref(w->sink, w->walk.rank, kind, number);
    syn_sink_text(w->sink, "\">");
}

static void put_spec(syn_sink *sink, const syn_spec *spec) {
    data_text(sink, "dtype", syn_dtype_name((syn_dtype)spec->dtype));
    begin_data(sink, "shape");
    syn__walk_put_shape(sink, spec);
    end_data(sink);
}

/* Sets the position of the next tensor at the current op. side: -1 for left, 1 for right. */
static void place_tensor(writer *w, int side, look *l) {
    const uint32_t slot = side < 0 ? w->slots_left++ : w->slots_right++;
    const int64_t column = (int64_t)w->rank_column * COLUMN_WIDTH;
    l->x = column + side * (int64_t)(slot % MAX_SLOTS + 1) * SLOT_WIDTH;
    l->y = ((int64_t)w->row + slot / MAX_SLOTS) * ROW_HEIGHT;
}

static syn_status put_tensor(writer *w, uint32_t index, int side, syn_error *err) {
    const uint32_t given = SYN_TENSOR_PARAM | SYN_TENSOR_INPUT | SYN_TENSOR_STATE;
    syn_sink *sink = w->sink;
    const syn_graph_tensor *t;
    if (w->sizes[index] != 0) return SYN_OK;
    SYN_TRY(syn__walk_tensor(&w->walk, index, &t, err));
    const uint64_t bytes = syn_spec_bytes(&t->spec);
    w->sizes[index] = bytes + 1;
    look l = {.label = t->name,
              .shape = (t->flags & given) != 0 ? "parallelogram" : "ellipse",
              .border = (t->flags & SYN_TENSOR_VIEW) != 0 ? "dashed" : "line",
              .fill = &green,
              .amount = bytes};
    place_tensor(w, side, &l);
    begin_node(w, 't', index);
    put_look(sink, &l);
    data_text(sink, "type", "tensor");
    data_i64(sink, "rank", w->walk.rank);
    if (t->name[0] != '\0') data_text(sink, "name", t->name);
    begin_data(sink, "role");
    syn__walk_put_role(sink, t->flags);
    end_data(sink);
    put_spec(sink, &t->spec);
    data_u64(sink, "bytes", bytes);
    if (t->flags & SYN_TENSOR_VIEW) data_text(sink, "view", "true");
    if (t->flags & SYN_TENSOR_PARTIAL) data_text(sink, "term", "true");
    char part[SYN_SHARD_TEXT];
    if (*syn_shard_text(&t->spec, &t->shard, part, sizeof part)) data_text(sink, "part", part);
    syn_sink_text(sink, "</node>\n");
    return SYN_OK;
}

static void put_comm(writer *w, const syn_node *node) {
    syn_sink *sink = w->sink;
    const bool p2p = node->kind == SYN_NODE_SEND || node->kind == SYN_NODE_RECV;
    const syn_graph_group *group = NULL;
    if (node->group != 0) group = syn_graph_group_by_id(w->walk.graph, node->group);
    data_text(sink, "comm", syn_comm_kind_name(node->comm));
    if (node->reduce >= 0 && node->reduce < SYN_REDUCE_COUNT)
        data_text(sink, "reduce", syn_reduce_name((syn_reduce)node->reduce));
    if (node->group != 0) data_i64(sink, "group", node->group);
    if (group != NULL && group->name[0] != '\0') data_text(sink, "group_name", group->name);
    data_u64(sink, "comm_bytes", node->comm_bytes);
    data_i64(sink, "comm_index", node->comm_index);
    if (p2p) data_i64(sink, "peer", node->peer);
    if (p2p) data_i64(sink, "tag", node->tag);
    if (node->root >= 0) data_i64(sink, "root", node->root);
}

static void put_metadata(writer *w, const syn_node *node) {
    syn_sink *sink = w->sink;
    if (node->label[0] != '\0') data_text(sink, "name", node->label);
    data_text(sink, "op", node->op);
    if (node->scope[0] != '\0') data_text(sink, "scope", node->scope);
    data_i64(sink, "layer", syn__walk_layer(node->scope));
    data_text(sink, "phase", syn_phase_name(node->phase));
    data_i64(sink, "step", node->step);
    data_text(sink, "kind", syn_node_kind_name(node->kind));
    data_text(sink, "category", syn_category_name(node->category));
    data_i64(sink, "stream", node->stream);
    data_u64(sink, "flops", node->flops);
    data_u64(sink, "bytes_read", node->bytes_read);
    data_u64(sink, "bytes_written", node->bytes_written);
    if (node->flags & SYN_NODE_VIRTUAL) data_text(sink, "virtual", "true");
    if (node->flags & SYN_NODE_FUSED) data_text(sink, "fused", "true");
    if (syn__walk_is_comm(node)) put_comm(w, node);
    data_time(sink, "start_ns", node->start_ns);
    data_time(sink, "wall_ns", node->wall_ns);
    data_time(sink, "cpu_ns", node->cpu_ns);
    data_time(sink, "wait_ns", node->wait_ns);
    if (syn_node_wait_ns(node) > 0) data_time(sink, "transfer_ns", syn_node_busy_ns(node));
    data_time(sink, "predicted_ns", node->predicted_ns);
    if (node->n_attributes == 0) return;
    begin_data(sink, "attributes");
    for (uint32_t i = 0; i < node->n_attributes; i++) {
        if (i > 0) syn_sink_text(sink, ", ");
        syn_sink_xml_text(sink, node->attributes[i].name);
        syn_sink_char(sink, '=');
        syn__graphml_put_value(sink, &node->attributes[i]);
    }
    end_data(sink);
}

static syn_status put_op(writer *w, const syn_node *node, syn_error *err) {
    const bool comm = syn__walk_is_comm(node);
    const bool is_virtual = (node->flags & SYN_NODE_VIRTUAL) != 0;
    const look l = {.label = node->label,
                    .shape = comm ? "octagon" : "roundrectangle",
                    .border = is_virtual ? "dashed" : "line",
                    .fill = comm ? &red : &blue,
                    .x = (int64_t)w->rank_column * COLUMN_WIDTH,
                    .y = (int64_t)w->row * ROW_HEIGHT,
                    .amount = comm ? node->comm_bytes : node->flops};
    begin_node(w, 'o', node->id);
    put_look(w->sink, &l);
    data_text(w->sink, "type", "op");
    data_i64(w->sink, "rank", w->walk.rank);
    put_metadata(w, node);
    if (node->n_outputs > 0) {
        const syn_graph_tensor *t;
        SYN_TRY(syn__walk_tensor(&w->walk, node->outputs[0], &t, err));
        put_spec(w->sink, &t->spec);
    }
    syn_sink_text(w->sink, "</node>\n");
    return SYN_OK;
}

/* ---- Edges ---- */

static void begin_edge(writer *w, char from_kind, uint64_t from, char to_kind, uint64_t to) {
    syn_sink_text(w->sink, "<edge source=\"");
    syn__walk_put_ref(w->sink, w->walk.rank, from_kind, from);
    syn_sink_text(w->sink, "\" target=\"");
    syn__walk_put_ref(w->sink, w->walk.rank, to_kind, to);
    syn_sink_text(w->sink, "\">");
}

/* Writes weight, time, colour and yEd's line, and ends the edge. */
static void end_edge(writer *w, bool is_red, bool dashed, uint64_t weight, double ns) {
    static const char *const rgb[3] = {"er", "eg", "eb"};
    const colour *c = is_red ? &edge_red : &edge_black;
    syn_sink *sink = w->sink;
    data_u64(sink, "ew", weight);
    data_time(sink, "ens", ns);
    put_colour(sink, rgb, c);
    syn_sink_text(sink, "<data key=\"yedge\"><y:PolyLineEdge><y:LineStyle color=\"");
    syn_sink_text(sink, c->hex);
    syn_sink_text(sink, dashed ? "\" type=\"dashed\"" : "\" type=\"line\"");
    syn_sink_text(sink, " width=\"1.0\"/><y:Arrows source=\"none\" target=\"standard\"/>"
                        "</y:PolyLineEdge></data></edge>\n");
}

/* Writes the edges between the current op and walk.uses[0 .. n - 1]. Their weight is the tensor's
   size in bytes. */
static void put_tensor_edges(writer *w, uint32_t n, bool inputs) {
    syn_sink *sink = w->sink;
    const syn__use *uses = w->walk.uses;
    const char *kind = inputs ? "input" : "output";
    for (uint32_t i = 0, end; i < n; i = end) {
        const uint32_t tensor = uses[i].tensor;
        if (inputs) begin_edge(w, 't', tensor, 'o', w->op->id);
        else begin_edge(w, 'o', w->op->id, 't', tensor);
        data_text(sink, "ekind", kind);
        data_text(sink, "elabel", kind);
        begin_data(sink, "epos");
        for (end = i; end < n && uses[end].tensor == tensor; end++) {
            if (end > i) syn_sink_char(sink, ',');
            syn_sink_u64(sink, uses[end].position);
        }
        end_data(sink);
        end_edge(w, syn__walk_is_comm(w->op), false, w->sizes[tensor] - 1,
                 inputs ? w->late_ns : w->op_ns);
    }
}

static void put_dep_edge(void *arg, uint32_t from, uint32_t classes) {
    static const char *const ids[2] = {"ekind", "elabel"};
    writer *w = arg;
    begin_edge(w, 'o', w->walk.ids[from], 'o', w->op->id);
    for (int i = 0; i < 2; i++) {
        begin_data(w->sink, ids[i]);
        syn__walk_put_classes(w->sink, classes);
        end_data(w->sink);
    }
    end_edge(w, w->walk.comm[from] != 0 || syn__walk_is_comm(w->op), true, 1,
             syn__rank_edges_ns(&w->links, w->walk.rank_index, from) + w->late_ns);
}

static void put_link(void *arg, const syn__rank_edge *link) {
    writer *w = arg;
    syn_sink_text(w->sink, "<edge source=\"");
    syn__rank_edges_put_end(w->sink, &link->from);
    syn_sink_text(w->sink, "\" target=\"");
    syn__rank_edges_put_end(w->sink, &link->to);
    syn_sink_text(w->sink, "\">");
    data_text(w->sink, "ekind", link->kind);
    data_text(w->sink, "elabel", link->kind);
    data_text(w->sink, "eder", "true");
    end_edge(w, link->is_comm, true, 1, link->ns);
}

/* ---- Meeting nodes and the end node, which belong to no rank and are written as rank -1 ---- */

static void put_point(writer *w, const syn__rank_edge_end *id, const char *type, const look *l) {
    syn_sink_text(w->sink, "<node id=\"");
    syn__rank_edges_put_end(w->sink, id);
    syn_sink_text(w->sink, "\">");
    put_look(w->sink, l);
    data_text(w->sink, "type", type);
    data_i64(w->sink, "rank", -1);
    data_text(w->sink, "name", l->label);
}

static void put_end(writer *w) {
    const look l = {.label = "end",
                    .shape = "ellipse",
                    .border = "line",
                    .fill = &blue,
                    .x = -COLUMN_WIDTH / 2};
    if (!w->links.has_end) return;
    put_point(w, &(syn__rank_edge_end){.kind = 'e'}, "end", &l);
    syn_sink_text(w->sink, "</node>\n");
}

/* Writes the meeting node of the current op between this column and the next, unless the node was
   written already. */
static void put_meeting(writer *w, uint32_t index) {
    const syn__timeline *t = &w->links.timeline;
    const uint32_t number = syn__timeline_course(t, w->walk.rank_index, index)->meeting;
    if (number == SYN__NO_MEETING || w->met[number]) return;
    const syn__meeting *m = &t->meetings[number];
    if (!syn__rank_edges_has_point(m)) return;
    const syn_graph_group *group = &t->graph->groups[m->group];
    const look l = {.label = syn_comm_kind_name(m->comm),
                    .shape = "diamond",
                    .border = "line",
                    .fill = &red,
                    .x = (int64_t)w->rank_column * COLUMN_WIDTH + COLUMN_WIDTH / 2,
                    .y = (int64_t)w->row * ROW_HEIGHT};
    w->met[number] = 1;
    put_point(w, &(syn__rank_edge_end){'g', group->id, m->number}, "meeting", &l);
    data_text(w->sink, "comm", l.label);
    data_i64(w->sink, "group", group->id);
    if (group->name[0] != '\0') data_text(w->sink, "group_name", group->name);
    data_i64(w->sink, "n_ranks", m->n_members);
    syn_sink_text(w->sink, "</node>\n");
}

/* Writes an op and the tensors that it introduces, each before the edges that refer to it. */
static syn_status put_step(writer *w, uint32_t index, const syn_node *node, syn_error *err) {
    w->op = node;
    w->op_ns = syn__rank_edges_ns(&w->links, w->walk.rank_index, index);
    w->late_ns = syn__rank_edges_late_ns(&w->links, w->walk.rank_index, index);
    w->slots_left = w->slots_right = 0;
    for (uint32_t i = 0; i < node->n_inputs; i++) SYN_TRY(put_tensor(w, node->inputs[i], -1, err));
    SYN_TRY(put_op(w, node, err));
    put_meeting(w, index);
    for (uint32_t i = 0; i < node->n_outputs; i++) SYN_TRY(put_tensor(w, node->outputs[i], 1, err));
    SYN_TRY(syn__walk_uses(&w->walk, node->inputs, node->n_inputs, err));
    put_tensor_edges(w, node->n_inputs, true);
    SYN_TRY(syn__walk_deps(&w->walk, node, put_dep_edge, w, err));
    SYN_TRY(syn__rank_edges_of(&w->links, &w->walk, index, node, put_link, w, err));
    SYN_TRY(syn__walk_uses(&w->walk, node->outputs, node->n_outputs, err));
    put_tensor_edges(w, node->n_outputs, false);
    const uint32_t slots = w->slots_left > w->slots_right ? w->slots_left : w->slots_right;
    w->row += slots > MAX_SLOTS ? 1 + (slots - 1) / MAX_SLOTS : 1;
    return SYN_OK;
}

static syn_status put_rank(writer *w, uint32_t rank_index, syn_error *err) {
    const syn_graph_rank *rank = &w->walk.graph->ranks[rank_index];
    SYN_TRY(syn__walk_load(&w->walk, rank_index, err));
    syn_free(w->sizes);
    w->sizes = syn_calloc(rank->n_tensors, sizeof *w->sizes);
    if (w->sizes == NULL)
        return SYN_FAIL_NOMEM(err, rank->n_tensors * sizeof *w->sizes, "a rank's tensors");
    SYN_TRY(syn__rank_edges_begin(&w->links, rank_index, err));
    w->row = 0;
    for (uint32_t i = 0; i < rank->n_nodes && syn_sink_status(w->sink) == SYN_OK; i++) {
        const syn_node *node;
        SYN_TRY(syn__walk_node(&w->walk, i, &node, err));
        SYN_TRY(put_step(w, i, node, err));
    }
    w->slots_left = 0;
    for (uint32_t i = 0; i < rank->n_tensors; i++) SYN_TRY(put_tensor(w, i, -1, err)); /* unused */
    return SYN_OK;
}

static syn_status write_document(writer *w, const syn_export_options *options, syn_error *err) {
    uint32_t first, end;
    SYN_TRY(syn__walk_ranks(w->walk.graph, options, &first, &end, err));
    SYN_TRY(syn__rank_edges_open(&w->links, w->walk.graph, options, NULL, err));
    w->met = syn_calloc(w->links.timeline.n_meetings, 1);
    if (w->met == NULL)
        return SYN_FAIL_NOMEM(err, w->links.timeline.n_meetings, "the collectives of ranks");
    syn__graphml_put_header(w->sink, w->walk.graph);
    put_end(w);
    for (uint32_t r = first; r < end; r++) {
        w->rank_column = r - first;
        SYN_TRY(put_rank(w, r, err));
    }
    syn_sink_text(w->sink, "</graph>\n</graphml>\n");
    return SYN_OK;
}

static syn_status write_graphml(const syn_graph *graph, const syn_export_options *options,
                                syn_sink *sink, syn_error *err) {
    writer w = {.sink = sink};
    syn__walk_init(&w.walk, graph);
    const syn_status status = write_document(&w, options, err);
    syn__walk_free(&w.walk);
    syn__rank_edges_close(&w.links);
    syn_free(w.sizes);
    syn_free(w.met);
    return status;
}

const syn_exporter syn_export_graphml = {"graphml", "graphml", write_graphml};
