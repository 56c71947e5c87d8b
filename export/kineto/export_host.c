/* Writes a rank in the format of PyTorch's ExecutionTraceObserver, schema 1.1.1-chakra.0.0.4. Node
   id 1 is the process, 2 its main thread, and 3 the process groups. Then come the other threads,
   then the events of the plan, and then, for each tensor, the id of the tensor and the id of its
   storage. */
#include "export/kineto/kineto_recording.h"
#include "export/text/json_put.h"
#include "syntorch/base/memory.h"

#include <stdio.h>
#include <string.h>

#define SCHEMA "1.1.1-chakra.0.0.4"

enum { PROCESS = 1, MAIN_THREAD, GROUPS, FIRST_EVENT = GROUPS + SYN__KINETO_THREADS };
enum { SCOPE_FUNCTION = 0, SCOPE_BACKWARD = 1, SCOPE_USER = 7 }; /* values of at::RecordScope */

typedef struct writer {
    syn__kineto_recording *r;
    syn_sink *sink;
    syn__kineto_arg args[SYN__KINETO_MAX_ARGS];
    bool first;
} writer;

static void put(writer *w, const char *text) {
    syn_sink_text(w->sink, text);
}

static int64_t thread_id(int thread) {
    return thread == SYN__KINETO_MAIN ? MAIN_THREAD : GROUPS + (int64_t)thread;
}

/* ---- Tensors ---- */

static int64_t tensor_id(const writer *w, uint32_t tensor, bool storage) {
    return FIRST_EVENT + (int64_t)w->r->plan.n_events + 2 * (int64_t)tensor + storage;
}

typedef enum part { VALUES, SHAPES, TYPES, STRIDES } part;

static void put_list(writer *w, const int64_t *values, int32_t n) {
    put(w, "[");
    for (int32_t i = 0; i < n; i++) syn__put_i64(w->sink, i > 0 ? "," : "", values[i]);
    put(w, "]");
}

/* Writes a tensor as [tensor, storage, offset, elements, bytes per element, device]. */
static void put_value(writer *w, uint32_t tensor, const syn_graph_tensor *t) {
    const uint32_t n = w->r->graph->ranks[w->r->walk.rank_index].n_tensors;
    syn__put_i64(w->sink, "[", tensor_id(w, tensor, false));
    syn__put_i64(w->sink, ",", tensor_id(w, t->base < n ? t->base : tensor, true));
    syn__put_i64(w->sink, ",0,", syn_spec_elems(&t->spec));
    syn__put_i64(w->sink, ",", (int64_t)syn_dtype_bytes((syn_dtype)t->spec.dtype));
    if (w->r->device) {
        syn__put_i64(w->sink, ",\"cuda:", w->r->device_number);
        put(w, "\"]");
    } else {
        put(w, ",\"cpu\"]");
    }
}

static syn_status put_tensor(writer *w, const syn__kineto_arg *arg, uint32_t index, part what) {
    const syn_graph_tensor *t;
    syn_spec shape;
    int64_t strides[SYN_MAX_RANK];
    SYN_TRY(syn__walk_tensor(&w->r->walk, arg->tensors[index], &t, w->r->err));
    syn__kineto_shape(&t->spec, arg->transposed, &shape, strides);
    if (what == VALUES) put_value(w, arg->tensors[index], t);
    else if (what == SHAPES) put_list(w, shape.dims, shape.rank);
    else if (what == STRIDES) put_list(w, strides, shape.rank);
    else {
        put(w, "Tensor(");
        put(w, syn__kineto_type(shape.dtype));
        put(w, ")");
    }
    return SYN_OK;
}

static void put_scalar(writer *w, const syn__kineto_arg *arg, part what) {
    static const char *const types[] = {[SYN__KINETO_INT] = "\"Int\"",
                                        [SYN__KINETO_FLOAT] = "\"Double\"",
                                        [SYN__KINETO_BOOL] = "\"Bool\"",
                                        [SYN__KINETO_TEXT] = "\"String\""};
    if (what == TYPES) put(w, types[arg->type]);
    else if (what != VALUES) put(w, "[]");
    else if (arg->type == SYN__KINETO_INT) syn_sink_i64(w->sink, arg->i64);
    else if (arg->type == SYN__KINETO_FLOAT) syn_sink_double(w->sink, arg->f64);
    else if (arg->type == SYN__KINETO_BOOL) put(w, arg->i64 != 0 ? "true" : "false");
    else syn_sink_json_string(w->sink, arg->text);
}

static syn_status put_arg(writer *w, const syn__kineto_arg *arg, part what) {
    const bool list = arg->type == SYN__KINETO_TENSORS;
    if (!list && arg->type != SYN__KINETO_TENSOR) {
        put_scalar(w, arg, what);
        return SYN_OK;
    }
    if (what == TYPES) put(w, list ? "\"GenericList[" : "\"");
    else if (list) put(w, "[");
    for (uint32_t i = 0; i < arg->n_tensors; i++) {
        if (i > 0) put(w, ",");
        SYN_TRY(put_tensor(w, arg, i, what));
    }
    if (what == TYPES) put(w, list ? "]\"" : "\"");
    else if (list) put(w, "]");
    return SYN_OK;
}

/* ---- Nodes ---- */

static void begin_node(writer *w, int64_t id, const char *name, int64_t parent) {
    syn__put_i64(w->sink, w->first ? "\n{\"id\":" : ",\n{\"id\":", id);
    w->first = false;
    syn__put_text(w->sink, ",\"name\":", name);
    syn__put_i64(w->sink, ",\"ctrl_deps\":", parent);
}

/* Writes the values of record_param_comms: the sequence number and whether the call is a message,
   as a pair; the name and the description of the group, as a pair; this rank or, for a message, the
   peer; the name of the call; two empty lists of split sizes; and the first rank, the stride and
   the size of the group. */
static void put_record_values(writer *w, const syn_node *node) {
    char name[16];
    const syn_graph_group *group = syn__kineto_group(w->r->graph, node);
    const syn__kineto_ranks ranks = syn__kineto_ranks_of(w->r->graph, group);
    const bool message = node->kind != SYN_NODE_COLLECTIVE;
    syn__put_i64(w->sink, "[", node->comm_index);
    put(w, message ? ",true],[" : ",false],[");
    syn__put_text(w->sink, "", syn__kineto_group_name(group, name));
    syn__put_text(w->sink, ",", group != NULL ? group->name : "default_pg");
    syn__put_i64(w->sink, "],", message ? syn__kineto_peer(group, node) : w->r->walk.rank);
    syn__put_text(w->sink, ",", syn__kineto_call_of(node->comm)->name);
    syn__put_i64(w->sink, ",[],[],", ranks.start);
    syn__put_i64(w->sink, ",", ranks.stride);
    syn__put_i64(w->sink, ",", ranks.size);
}

static void put_record_args(writer *w, const syn_node *node, part what) {
    if (what == VALUES) put_record_values(w, node);
    else if (what == TYPES)
        put(w, "\"Tuple[Int,Bool]\",\"Tuple[String,String]\",\"Int\",\"String\","
               "\"GenericList[]\",\"GenericList[]\",\"Int\",\"Int\",\"Int\"");
    else put(w, "[[],[]],[[],[]],[],[],[],[],[],[],[]");
}

/* record: for record_param_comms, the communication whose values follow the tensors; for all other
   events, NULL. */
static syn_status put_args(writer *w, const char *key, uint32_t n, const syn_node *record) {
    static const char *const parts[] = {"{\"values\":[", "],\"shapes\":[", "],\"types\":[",
                                        "],\"strides\":["};
    put(w, key);
    for (part what = VALUES; what <= STRIDES; what++) {
        put(w, parts[what]);
        for (uint32_t i = 0; i < n; i++) {
            if (i > 0) put(w, ",");
            SYN_TRY(put_arg(w, &w->args[i], what));
        }
        if (n > 0 && record != NULL) put(w, ",");
        if (record != NULL) put_record_args(w, record, what);
    }
    put(w, "]}");
    return SYN_OK;
}

typedef struct node_attrs {
    int64_t rf_id, sequence, scope, tid, fw_tid;
    const char *schema;
} node_attrs;

static void put_number(writer *w, const char *name, const char *type, int64_t value) {
    syn__put_text(w->sink, ",{\"name\":", name);
    syn__put_text(w->sink, ",\"type\":", type);
    syn__put_i64(w->sink, ",\"value\":", value);
    put(w, "}");
}

static void put_string(writer *w, const char *name, const char *value) {
    syn__put_text(w->sink, ",{\"name\":", name);
    syn__put_text(w->sink, ",\"type\":\"string\",\"value\":", value);
    put(w, "}");
}

static void begin_attrs(writer *w, const node_attrs *f) {
    syn__put_i64(w->sink,
                 ",\"attrs\":[{\"name\":\"rf_id\",\"type\":\"uint64\",\"value\":", f->rf_id);
    put(w, "}");
    put_number(w, "fw_parent", "uint64", 0);
    put_number(w, "seq_id", "int64", f->sequence);
    put_number(w, "scope", "uint64", f->scope);
    put_number(w, "tid", "uint64", f->tid);
    put_number(w, "fw_tid", "uint64", f->fw_tid);
    put_string(w, "op_schema", f->schema);
    put_string(w, "kernel_backend", "");
    put_string(w, "kernel_file", "");
    put_string(w, "tensor_range", "");
}

static syn_status put_root(writer *w, int64_t id, const char *name, int64_t parent, int64_t tid) {
    const node_attrs f = {0, -1, SCOPE_USER, tid, 0, ""};
    begin_node(w, id, name, parent);
    SYN_TRY(put_args(w, ",\"inputs\":", 0, NULL));
    SYN_TRY(put_args(w, ",\"outputs\":", 0, NULL));
    begin_attrs(w, &f);
    put(w, "]}");
    return SYN_OK;
}

/* ---- Groups ---- */

static void put_group(writer *w, syn_sink *text, const syn_graph_group *group, bool first) {
    char name[16];
    const syn__kineto_ranks ranks = syn__kineto_ranks_of(w->r->graph, group);
    syn_sink_text(text, first ? "{\"pg_name\": " : ", {\"pg_name\": ");
    syn_sink_json_string(text, syn__kineto_group_name(group, name));
    syn_sink_text(text, ", \"pg_desc\": ");
    syn_sink_json_string(text, group != NULL ? group->name : "default_pg");
    syn_sink_text(text, ", \"backend_config\": ");
    syn_sink_json_string(text, w->r->device ? "cuda:nccl" : "cpu:gloo");
    syn_sink_text(text, ", \"ranks\": [");
    syn__kineto_put_ranks(text, w->r->graph, group);
    syn_sink_text(text, "], \"group_size\": ");
    syn_sink_i64(text, ranks.size);
    syn_sink_text(text, ", \"group_count\": ");
    syn_sink_u64(text, w->r->graph->n_groups > 0 ? w->r->graph->n_groups : 1);
    syn_sink_char(text, '}');
}

/* Writes the groups and their members as a JSON list within a string. */
static syn_status put_groups(writer *w) {
    const syn_graph *graph = w->r->graph;
    const node_attrs f = {SYN__KINETO_FIRST_RF - 1, -1, SCOPE_USER, SYN__KINETO_MAIN + 1, 0, ""};
    syn_sink *text;
    size_t bytes;
    if (graph->world_size < 2) return SYN_OK;
    SYN_TRY(syn_sink_open_memory(&text, w->r->err));
    syn_sink_char(text, '[');
    for (uint32_t i = 0; i < graph->n_groups; i++) put_group(w, text, &graph->groups[i], i == 0);
    if (graph->n_groups == 0) put_group(w, text, NULL, true);
    syn_sink_char(text, ']');
    const char *list = syn_sink_data(text, &bytes);
    if (list == NULL) return syn_sink_close(text, true, w->r->err);
    begin_node(w, GROUPS, "## process_group:init ##", MAIN_THREAD);
    put(w, ",\"inputs\":{\"values\":[");
    syn_sink_json_string(w->sink, list);
    put(w, "],\"shapes\":[[]],\"types\":[\"String\"],\"strides\":[[]]}");
    const syn_status status = put_args(w, ",\"outputs\":", 0, NULL);
    begin_attrs(w, &f);
    put(w, "]}");
    const syn_status closed = syn_sink_close(text, true, w->r->err);
    return status != SYN_OK ? status : closed;
}

/* ---- Communication ---- */

static syn_status put_record_attrs(writer *w, const syn_node *node) {
    int64_t in, out;
    int32_t dtype;
    char name[16];
    const syn_graph_group *group = syn__kineto_group(w->r->graph, node);
    const syn__kineto_ranks ranks = syn__kineto_ranks_of(w->r->graph, group);
    SYN_TRY(syn__kineto_elems(&w->r->walk, node, &in, &out, &dtype, w->r->err));
    put_string(w, "collective_name", syn__kineto_call_of(node->comm)->name);
    put_string(w, "dtype", syn__kineto_scalar_type(dtype));
    put_number(w, "in_msg_nelems", "uint64", in);
    put_number(w, "out_msg_nelems", "uint64", out);
    put_string(w, "in_split_size", "[]");
    put_string(w, "out_split_size", "[]");
    put_number(w, "global_rank_start", "uint64", ranks.start);
    put_number(w, "global_rank_stride", "uint64", ranks.stride);
    put_string(w, "pg_name", syn__kineto_group_name(group, name));
    put_string(w, "pg_desc", group != NULL ? group->name : "default_pg");
    put_number(w, "pg_size", "uint64", ranks.size);
    return SYN_OK;
}

/* ---- Events ---- */

static int64_t scope_of(const syn__kineto_event *e) {
    if (e->kind == SYN__KINETO_STEP || e->kind == SYN__KINETO_OPTIMIZER ||
        e->kind == SYN__KINETO_LIBRARY)
        return SCOPE_USER;
    return e->kind == SYN__KINETO_AUTOGRAD || e->kind == SYN__KINETO_BACKWARD ? SCOPE_BACKWARD
                                                                              : SCOPE_FUNCTION;
}

/* Makes the schema of one of our own ops: "syntorch::gelu_grad(Tensor, Tensor, int) -> Tensor". */
static void make_schema(const writer *w, const char *name, uint32_t n, uint32_t n_outputs,
                        char *out, size_t bytes) {
    static const char *const types[] = {
        [SYN__KINETO_TENSOR] = "Tensor", [SYN__KINETO_TENSORS] = "Tensor[]",
        [SYN__KINETO_INT] = "int",       [SYN__KINETO_FLOAT] = "float",
        [SYN__KINETO_BOOL] = "bool",     [SYN__KINETO_TEXT] = "str"};
    size_t at = (size_t)snprintf(out, bytes, "%s(", name);
    for (uint32_t i = 0; i < n && at + 64 < bytes; i++)
        at += (size_t)snprintf(out + at, bytes - at, "%s%s", i > 0 ? ", " : "",
                               types[w->args[i].type]);
    if (at + 64 < bytes)
        snprintf(out + at, bytes - at, n_outputs == 1 ? ") -> Tensor" : ") -> Tensor[]");
}

static syn_status put_event(writer *w, uint32_t index) {
    const syn__kineto_event *e = &w->r->plan.events[index];
    const syn_node *node;
    char buf[256], schema[512] = "";
    SYN_TRY(syn__walk_node(&w->r->walk, e->node, &node, w->r->err));
    const int64_t parent =
        e->parent == SYN__KINETO_NONE ? thread_id(e->thread) : FIRST_EVENT + (int64_t)e->parent;
    const char *name = syn__kineto_name(e, node, buf, sizeof buf);
    begin_node(w, FIRST_EVENT + (int64_t)index, name, parent);
    uint32_t n = syn__kineto_inputs(e, node, w->args);
    if (strncmp(name, "syntorch::", 10) == 0)
        make_schema(w, name, n, node->n_outputs, schema, sizeof schema);
    SYN_TRY(put_args(w, ",\"inputs\":", n, e->kind == SYN__KINETO_RECORD ? node : NULL));
    n = syn__kineto_outputs(e, node, w->args);
    SYN_TRY(put_args(w, ",\"outputs\":", n, NULL));
    const bool backward = e->sequence != 0 && e->kind != SYN__KINETO_OP;
    const node_attrs f = {.rf_id = (int64_t)index + SYN__KINETO_FIRST_RF,
                          .sequence = e->sequence != 0 ? (int64_t)e->sequence : -1,
                          .scope = scope_of(e),
                          .tid = (int64_t)e->thread + 1,
                          .fw_tid = backward ? SYN__KINETO_MAIN + 1 : 0,
                          .schema = schema};
    begin_attrs(w, &f);
    if (e->kind == SYN__KINETO_RECORD) SYN_TRY(put_record_attrs(w, node));
    put(w, "]}");
    return SYN_OK;
}

/* ---- Document ---- */

static syn_status put_nodes(writer *w) {
    const syn__kineto_plan *plan = &w->r->plan;
    SYN_TRY(put_root(w, PROCESS, "[pytorch|profiler|execution_trace|process]", PROCESS, 0));
    for (int t = 0; t < SYN__KINETO_THREADS; t++) {
        if (t != SYN__KINETO_MAIN && !plan->threads[t]) continue;
        SYN_TRY(
            put_root(w, thread_id(t), "[pytorch|profiler|execution_trace|thread]", PROCESS, t + 1));
    }
    SYN_TRY(put_groups(w));
    for (uint32_t i = 0; i < plan->n_events && syn_sink_status(w->sink) == SYN_OK; i++)
        SYN_TRY(put_event(w, i));
    return SYN_OK;
}

syn_status syn__kineto_write_host(syn__kineto_recording *r, syn_sink *sink) {
    writer *w = syn_calloc(1, sizeof *w);
    if (w == NULL) return SYN_FAIL_NOMEM(r->err, sizeof *w, "a trace");
    w->r = r;
    w->sink = sink;
    w->first = true;
    syn__put_i64(w->sink, "{\"schema\":\"" SCHEMA "\",\"pid\":", syn__kineto_pid(r));
    syn__put_i64(w->sink, ",\"time\":\"1970-01-01 00:00:00\",\"start_ts\":",
                 r->timeline.base_us + r->plan.begin / 1000);
    put(w, ",\"nodes\":[");
    const syn_status status = put_nodes(w);
    syn__put_i64(w->sink, "\n],\"finish_ts\":", r->timeline.base_us + r->plan.end / 1000);
    put(w, "}\n");
    syn_free(w);
    return status;
}
