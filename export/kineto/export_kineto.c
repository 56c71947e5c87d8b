/* Writes a rank in the format of PyTorch's profiler (Kineto) with record_shapes and, if requested,
   memory events and modules. The trace shows a run on CPUs or, if the work of a device is known or
   predicted, on that device. Times are us with three decimals. */
#include "export/kineto/kineto_memory.h"
#include "export/kineto/kineto_predicted.h"
#include "export/kineto/kineto_recording.h"
#include "export/text/json_put.h"
#include "syntorch/base/memory.h"

#include <stdio.h>

typedef struct writer {
    syn__kineto_recording *r;
    syn_sink *sink;
    syn__kineto_arg args[SYN__KINETO_MAX_ARGS];
    bool first;
} writer;

static void put(writer *w, const char *text) {
    syn_sink_text(w->sink, text);
}

/* Writes a time, which counts from baseTimeNanoseconds. Readers use doubles, which are too coarse
   for ns since the epoch. */
static void put_time(writer *w, int64_t ns) {
    syn__put_us(w->sink, ",\"ts\":", 0, ns);
}

static void begin(writer *w, const char *text) {
    put(w, w->first ? "\n{\"ph\":\"" : ",\n{\"ph\":\"");
    w->first = false;
    put(w, text);
}

static void put_place(writer *w, int thread) {
    syn__put_i64(w->sink, ",\"pid\":", syn__kineto_pid(w->r));
    syn__put_i64(w->sink, ",\"tid\":", thread);
}

/* ---- Processes and threads ---- */

static void put_metadata(writer *w, const char *name, int thread, const char *key, const char *text,
                         int64_t number) {
    begin(w, "M\"");
    syn__put_text(w->sink, ",\"name\":", name);
    put_time(w, w->r->plan.begin);
    put_place(w, thread);
    syn__put_text(w->sink, ",\"args\":{", key);
    if (text != NULL) syn__put_text(w->sink, ":", text);
    else syn__put_i64(w->sink, ":", number);
    put(w, "}}");
}

static void put_threads(writer *w) {
    static const char *const names[SYN__KINETO_THREADS] = {"main", "gloo", "gloo send",
                                                           "gloo receive"};
    char text[64];
    snprintf(text, sizeof text, "rank %d", (int)w->r->walk.rank);
    put_metadata(w, "process_name", 0, "name", text, 0);
    put_metadata(w, "process_labels", 0, "labels", "CPU", 0);
    put_metadata(w, "process_sort_index", 0, "sort_index", NULL, w->r->walk.rank);
    for (int t = 0; t < SYN__KINETO_THREADS; t++) {
        if (!w->r->plan.threads[t]) continue;
        snprintf(text, sizeof text, "thread %d (%s)", t + 1, names[t]);
        put_metadata(w, "thread_name", t + 1, "name", text, 0);
        put_metadata(w, "thread_sort_index", t + 1, "sort_index", NULL, t + 1);
    }
}

/* ---- Arguments ---- */

typedef void tensor_fn(writer *w, const syn_spec *shape, const int64_t *strides);

static void put_list(writer *w, const int64_t *values, int32_t n) {
    put(w, "[");
    for (int32_t i = 0; i < n; i++) syn__put_i64(w->sink, i > 0 ? ", " : "", values[i]);
    put(w, "]");
}

static void put_dims(writer *w, const syn_spec *shape, const int64_t *strides) {
    (void)strides;
    put_list(w, shape->dims, shape->rank);
}

static void put_strides(writer *w, const syn_spec *shape, const int64_t *strides) {
    put_list(w, strides, shape->rank);
}

static void put_type(writer *w, const syn_spec *shape, const int64_t *strides) {
    (void)strides;
    syn_sink_json_string(w->sink, syn__kineto_type(shape->dtype));
}

static syn_status put_tensors(writer *w, const syn__kineto_arg *arg, tensor_fn *each) {
    for (uint32_t i = 0; i < arg->n_tensors; i++) {
        const syn_graph_tensor *t;
        syn_spec shape;
        int64_t strides[SYN_MAX_RANK];
        SYN_TRY(syn__walk_tensor(&w->r->walk, arg->tensors[i], &t, w->r->err));
        syn__kineto_shape(&t->spec, arg->transposed, &shape, strides);
        if (i > 0) put(w, ", ");
        each(w, &shape, strides);
    }
    return SYN_OK;
}

/* Writes a key and a list with one entry per argument: `each` writes the entry of a tensor, and
   `scalar` is the entry of a scalar. */
static syn_status put_each(writer *w, const char *key, uint32_t n, tensor_fn *each,
                           const char *scalar) {
    put(w, key);
    for (uint32_t i = 0; i < n; i++) {
        const syn__kineto_arg *arg = &w->args[i];
        const bool list = arg->type == SYN__KINETO_TENSORS;
        if (i > 0) put(w, ", ");
        if (list && each == put_type) {
            put(w, "\"TensorList\"");
        } else if (list || arg->type == SYN__KINETO_TENSOR) {
            if (list) put(w, "[");
            SYN_TRY(put_tensors(w, arg, each));
            if (list) put(w, "]");
        } else {
            put(w, arg->type == SYN__KINETO_TEXT && each == put_type ? "\"\"" : scalar);
        }
    }
    put(w, "]");
    return SYN_OK;
}

static void put_concrete(writer *w, uint32_t n) {
    put(w, ",\"Concrete Inputs\":[");
    for (uint32_t i = 0; i < n; i++) {
        const syn__kineto_arg *arg = &w->args[i];
        put(w, i > 0 ? ", \"" : "\"");
        if (arg->type == SYN__KINETO_INT) syn_sink_i64(w->sink, arg->i64);
        if (arg->type == SYN__KINETO_FLOAT) syn_sink_double(w->sink, arg->f64);
        if (arg->type == SYN__KINETO_BOOL) put(w, arg->i64 != 0 ? "True" : "False");
        put(w, "\"");
    }
    put(w, "]");
}

static syn_status put_inputs(writer *w, const syn__kineto_event *e, const syn_node *node) {
    const uint32_t n = syn__kineto_inputs(e, node, w->args);
    if (n == 0) return SYN_OK;
    put_concrete(w, n);
    SYN_TRY(put_each(w, ",\"Input type\":[", n, put_type, "\"Scalar\""));
    SYN_TRY(put_each(w, ",\"Input Strides\":[", n, put_strides, "[]"));
    return put_each(w, ",\"Input Dims\":[", n, put_dims, "[]");
}

static syn_status put_record(writer *w, const syn_node *node) {
    int64_t in, out;
    int32_t dtype;
    char name[16];
    const syn_graph *graph = w->r->graph;
    const syn_graph_group *group = syn__kineto_group(graph, node);
    const syn__kineto_ranks ranks = syn__kineto_ranks_of(graph, group);
    const bool send = node->kind == SYN_NODE_SEND, recv = node->kind == SYN_NODE_RECV;
    SYN_TRY(syn__kineto_elems(&w->r->walk, node, &in, &out, &dtype, w->r->err));
    syn__put_text(w->sink, ",\"Collective name\":", syn__kineto_call_of(node->comm)->name);
    syn__put_text(w->sink, ",\"dtype\":", syn__kineto_scalar_type(dtype));
    syn__put_i64(w->sink, ",\"In msg nelems\":", in);
    syn__put_i64(w->sink, ",\"Out msg nelems\":", out);
    put(w, ",\"In split size\":\"[]\",\"Out split size\":\"[]\"");
    syn__put_i64(w->sink, ",\"Global rank start\":", ranks.start);
    syn__put_i64(w->sink, ",\"Global rank stride\":", ranks.stride);
    syn__put_i64(w->sink, ",\"Group size\":", ranks.size);
    syn__put_text(w->sink, ",\"Process Group Name\":", syn__kineto_group_name(group, name));
    syn__put_text(w->sink,
                  ",\"Process Group Description\":", group != NULL ? group->name : "default_pg");
    put(w, ",\"Process Group Ranks\":\"[");
    syn__kineto_put_ranks(w->sink, graph, group);
    syn__put_i64(w->sink, "]\",\"Rank\":", w->r->walk.rank);
    syn__put_i64(w->sink, ",\"Seq\":", node->comm_index);
    if (send || recv) {
        syn__put_i64(w->sink, ",\"Src Rank\":", send ? w->r->walk.rank : node->peer);
        syn__put_i64(w->sink, ",\"Dst Rank\":", send ? node->peer : w->r->walk.rank);
    }
    if (node->root >= 0) syn__put_i64(w->sink, ",\"Root Rank\":", node->root);
    return SYN_OK;
}

/* ---- Events ---- */

static bool is_annotation(const syn__kineto_event *e) {
    return e->kind == SYN__KINETO_STEP || e->kind == SYN__KINETO_OPTIMIZER ||
           e->kind == SYN__KINETO_LIBRARY;
}

static void put_arrow(writer *w, const syn__kineto_event *e) {
    const bool ends = e->kind == SYN__KINETO_BACKWARD;
    begin(w, ends ? "f\"" : "s\"");
    syn__put_i64(w->sink, ",\"id\":", e->sequence);
    put_place(w, e->thread + 1);
    put_time(w, e->start);
    put(w, ",\"cat\":\"fwdbwd\",\"name\":\"fwdbwd\"");
    put(w, ends ? ",\"bp\":\"e\"}" : "}");
}

static syn_status put_event(writer *w, uint32_t index) {
    const syn__kineto_event *e = &w->r->plan.events[index];
    const syn_node *node;
    char name[256];
    SYN_TRY(syn__walk_node(&w->r->walk, e->node, &node, w->r->err));
    begin(w, is_annotation(e) ? "X\",\"cat\":\"user_annotation\"" : "X\",\"cat\":\"cpu_op\"");
    syn__put_text(w->sink, ",\"name\":", syn__kineto_name(e, node, name, sizeof name));
    put_place(w, e->thread + 1);
    put_time(w, e->start);
    syn__put_us(w->sink, ",\"dur\":", 0, e->end - e->start);
    syn__put_i64(w->sink, ",\"args\":{\"External id\":", (int64_t)index + 1);
    syn__put_i64(w->sink, ",\"Record function id\":", (int64_t)index + SYN__KINETO_FIRST_RF);
    if (e->sequence != 0) {
        syn__put_i64(w->sink, ",\"Sequence number\":", e->sequence);
        syn__put_i64(w->sink, ",\"Fwd thread id\":", e->kind == SYN__KINETO_OP ? 0 : 1);
    }
    if (e->kind == SYN__KINETO_OP && node->scope[0] != '\0')
        syn__put_text(w->sink, ",\"Module Hierarchy\":", node->scope);
    SYN_TRY(put_inputs(w, e, node));
    if (e->kind == SYN__KINETO_RECORD) SYN_TRY(put_record(w, node));
    syn__put_i64(w->sink, ",\"Ev Idx\":", index);
    put(w, "}}");
    if (e->arrow) put_arrow(w, e);
    return SYN_OK;
}

/* ---- Memory ---- */

/* Writes a counter event: the memory in use at `ns`, after all changes with this time. */
static void put_counter(writer *w, int64_t ns, int64_t bytes) {
    begin(w, "C\",\"name\":\"allocated memory\"");
    put_place(w, 0);
    put_time(w, ns);
    syn__put_i64(w->sink, ",\"args\":{\"bytes\":", bytes);
    put(w, "}}");
}

static void put_counters(writer *w, const syn__kineto_memory *memory) {
    int64_t total = memory->before;
    put_counter(w, w->r->plan.begin, total);
    for (size_t i = 0; i < memory->n_changes; i++) {
        const syn__kineto_change *c = &memory->changes[i];
        total += c->bytes;
        if (i + 1 == memory->n_changes || c[1].ns != c->ns) put_counter(w, c->ns, total);
    }
}

/* Writes the memory events of profile_memory. */
static void put_changes(writer *w, const syn__kineto_memory *memory) {
    const syn__kineto_recording *r = w->r;
    int64_t total = memory->before;
    for (size_t i = 0; i < memory->n_changes; i++) {
        const syn__kineto_change *c = &memory->changes[i];
        total += c->bytes;
        begin(w, "i\",\"cat\":\"cpu_instant_event\",\"s\":\"t\",\"name\":\"[memory]\"");
        put_place(w, r->plan.events[c->event].thread + 1);
        put_time(w, c->ns);
        syn__put_i64(w->sink, ",\"args\":{\"Total Reserved\":0,\"Total Allocated\":", total);
        syn__put_i64(w->sink, ",\"Bytes\":", c->bytes);
        syn__put_i64(w->sink, ",\"Device Id\":", r->device ? (int64_t)r->device_number : -1);
        syn__put_i64(w->sink, ",\"Device Type\":", r->device); /* c10::DeviceType: 0 CPU, 1 CUDA */
        syn__put_i64(w->sink, ",\"Addr\":", (int64_t)c->tensor + 1);
        syn__put_i64(w->sink, ",\"Ev Idx\":", (int64_t)(r->plan.n_events + i));
        put(w, "}}");
    }
}

/* *next: the number of the next event. */
static syn_status put_memory(writer *w, int64_t *next) {
    syn__kineto_memory memory;
    SYN_TRY(syn__kineto_memory_find(&memory, &w->r->plan, &w->r->walk, w->r->err));
    put_counters(w, &memory);
    *next = (int64_t)w->r->plan.n_events;
    if (w->r->memory) {
        put_changes(w, &memory);
        *next += (int64_t)memory.n_changes;
    }
    syn__kineto_memory_free(&memory);
    return SYN_OK;
}

/* ---- Modules ---- */

static void put_module(writer *w, uint32_t index, int64_t number) {
    const syn__kineto_modules *m = &w->r->plan.modules;
    const syn__kineto_module *span = &m->spans[index];
    const syn__kineto_instance *instance = &m->instances[span->path];
    char name[160];
    snprintf(name, sizeof name, "nn.Module: %s_%u",
             (const char *)syn_intern_get(&m->classes, instance->class_name),
             (unsigned)instance->number);
    begin(w, "X\",\"cat\":\"python_function\"");
    syn__put_text(w->sink, ",\"name\":", name);
    put_place(w, SYN__KINETO_MAIN + 1);
    put_time(w, span->start);
    syn__put_us(w->sink, ",\"dur\":", 0, span->end - span->start);
    put(w, ",\"args\":{");
    if (span->parent != 0) syn__put_i64(w->sink, "\"Python parent id\":", span->parent);
    syn__put_i64(w->sink,
                 span->parent != 0 ? ",\"Python id\":" : "\"Python id\":", (int64_t)index + 1);
    syn__put_i64(w->sink, ",\"Python module id\":", instance->number);
    syn__put_text(w->sink, ",\"Module Hierarchy\":", syn_intern_get(&m->paths, span->path));
    syn__put_i64(w->sink, ",\"Ev Idx\":", number);
    put(w, "}}");
}

/* Writes the events that the profiler itself adds, which show when it was active. */
static void put_span(writer *w) {
    const syn__kineto_plan *plan = &w->r->plan;
    begin(w, "X\",\"cat\":\"Trace\",\"name\":\"PyTorch Profiler (0)\",\"pid\":\"Spans\","
             "\"tid\":\"PyTorch Profiler\"");
    put_time(w, plan->begin);
    syn__put_us(w->sink, ",\"dur\":", 0, plan->end - plan->begin);
    put(w, ",\"args\":{\"Op count\":0}}");
    begin(w, "i\",\"s\":\"g\",\"name\":\"Iteration Start: PyTorch Profiler\",\"pid\":\"Traces\","
             "\"tid\":\"Trace PyTorch Profiler\"");
    put_time(w, plan->begin);
    put(w, "}");
    begin(w, "i\",\"s\":\"g\",\"name\":\"Record Window End\",\"pid\":\"\",\"tid\":\"\"");
    put_time(w, plan->end);
    put(w, "}");
}

/* ---- Document ---- */

static void put_group(writer *w, const syn_graph_group *group, bool first) {
    char name[16];
    const syn__kineto_ranks ranks = syn__kineto_ranks_of(w->r->graph, group);
    syn__put_text(w->sink,
                  first ? "{\"pg_name\":" : ",{\"pg_name\":", syn__kineto_group_name(group, name));
    syn__put_text(w->sink, ",\"pg_desc\":", group != NULL ? group->name : "default_pg");
    syn__put_text(w->sink, ",\"backend_config\":", w->r->device ? "cuda:nccl" : "cpu:gloo");
    syn__put_i64(w->sink, ",\"pg_size\":", ranks.size);
    put(w, ",\"ranks\":[");
    syn__kineto_put_ranks(w->sink, w->r->graph, group);
    put(w, "]}");
}

static void put_distributed(writer *w) {
    const syn_graph *graph = w->r->graph;
    const uint32_t n = graph->n_groups;
    if (graph->world_size < 2) return;
    syn__put_text(w->sink, ",\n\"distributedInfo\":{\"backend\":", w->r->device ? "nccl" : "gloo");
    syn__put_i64(w->sink, ",\"rank\":", w->r->walk.rank);
    syn__put_i64(w->sink, ",\"world_size\":", graph->world_size);
    syn__put_i64(w->sink, ",\"pg_count\":", n > 0 ? n : 1);
    put(w, ",\"pg_config\":[");
    for (uint32_t i = 0; i < n; i++) put_group(w, &graph->groups[i], i == 0);
    if (n == 0) put_group(w, NULL, true);
    put(w, "]}");
}

/* Writes the known properties of the GPU for which times are predicted. */
static void put_device(writer *w) {
    const syn_attribute *name = syn_graph_meta(w->r->graph, "hardware");
    syn__put_i64(w->sink, "{\"id\":", w->r->device_number);
    if (name != NULL && name->type == SYN_VALUE_TEXT)
        syn__put_text(w->sink, ",\"name\":", name->text);
    syn__put_i64(w->sink, ",\"numSms\":", syn__kineto_multiprocessors(w->r->graph));
    put(w, "}");
}

syn_status syn__kineto_write_device(syn__kineto_recording *r, syn_sink *sink) {
    writer *w = syn_calloc(1, sizeof *w);
    syn_status status = SYN_OK;
    if (w == NULL) return SYN_FAIL_NOMEM(r->err, sizeof *w, "a trace");
    w->r = r;
    w->sink = sink;
    w->first = true;
    put(w, "{\"schemaVersion\":1,\"deviceProperties\":[");
    if (r->predicted) put_device(w);
    put(w, "],\"record_shapes\":1,\"with_modules\":1");
    if (r->modules) put(w, ",\"with_stack\":1");
    if (r->memory) put(w, ",\"profile_memory\":1");
    put_distributed(w);
    syn__put_i64(w->sink, ",\n\"displayTimeUnit\":\"ms\",\"baseTimeNanoseconds\":",
                 1000 * r->timeline.base_us);
    syn__put_text(w->sink, ",\"otherData\":{\"clock\":", syn__clock_name(r->timeline.clock));
    put(w, "},\n\"traceEvents\":[");
    put_threads(w);
    for (uint32_t i = 0; i < r->plan.n_events && status == SYN_OK; i++) status = put_event(w, i);
    int64_t next = 0;
    if (status == SYN_OK) status = syn__kineto_write_work(r, sink);
    if (status == SYN_OK) status = put_memory(w, &next);
    for (uint32_t i = 0; i < r->plan.modules.n_spans; i++) put_module(w, i, next + i);
    put_span(w);
    put(w, "\n]}\n");
    syn_free(w);
    return status;
}
