/* Writes Chrome trace events for Perfetto and chrome://tracing. A rank is a process, which also
   represents the ranks that are identical to it (copies.h). A stream is a thread: 0 is computation,
   then come the groups, sends, receives and other streams. Times are us with three decimals. Slices
   of a thread never overlap partly: slices that would do so are moved to additional threads. Each
   host thread of a PyTorch trace is also a thread here, in which ops are nested by their calls.

   Device work of nodes is on further threads, one per stream of the device (chrome_work.h). A
   communication that waited for other ranks has two slices, "wait" and then its own, so that sums
   over events count every ns once. Arrows connect sends with receives and the ranks of a collective
   (chrome_flows.h). Each rank has two counter tracks: memory and bytes in flight
   (chrome_counters.h). Communication uses the argument names of PyTorch's Kineto, so that tools
   made for its traces can read them. otherData.clock is the source of the times (timeline.h). */
#include "export/chrome/chrome_counters.h"
#include "export/chrome/chrome_flows.h"
#include "export/chrome/chrome_work.h"
#include "export/text/json_put.h"
#include "export/walk/timeline_tracks.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct writer {
    syn__timeline timeline;
    syn_copied_ranks copies;
    syn__walk walk;
    syn_sink *sink;
    syn_error *err;
    syn__tracks tracks;
    syn__chrome_flows flows;
    bool first;
} writer;

static void put(writer *w, const char *text) {
    syn_sink_text(w->sink, text);
}

static void begin_event(writer *w) {
    put(w, w->first ? "\n" : ",\n");
    w->first = false;
}

static void begin_metadata(writer *w, const char *name, uint32_t tid) {
    begin_event(w);
    syn__put_text(w->sink, "{\"ph\":\"M\",\"name\":", name);
    syn__put_i64(w->sink, ",\"pid\":", w->walk.rank);
    syn__put_u64(w->sink, ",\"tid\":", tid);
    put(w, ",\"args\":{");
}

static void put_thread_name(writer *w, const syn__track_thread *t) {
    char name[128], text[160];
    syn__track_name(&w->tracks, w->timeline.graph, t, name, sizeof name);
    if (t->copy > 0) snprintf(text, sizeof text, "%s (overlap %u)", name, (unsigned)t->copy);
    syn__put_text(w->sink, "\"name\":", t->copy > 0 ? text : name);
}

/* Writes the ranks that this process represents: "rank 0", or "rank 0, identical: 1, 2, 3". */
static void put_process_name(writer *w) {
    char text[512];
    const syn_graph *graph = w->timeline.graph;
    int n = snprintf(text, sizeof text, "rank %d", (int)w->walk.rank);
    const char *between = ", identical: ";
    for (uint32_t r = 0; w->copies.n > 0 && r < graph->n_ranks; r++) {
        if (r == w->walk.rank_index || w->copies.of[r] != w->walk.rank_index) continue;
        if ((size_t)n + 40 > sizeof text) between = ", ...";
        n += between[2] == '.' ? snprintf(text + n, sizeof text - (size_t)n, "%s", between)
                               : snprintf(text + n, sizeof text - (size_t)n, "%s%d", between,
                                          (int)graph->ranks[r].rank);
        if (between[2] == '.') break;
        between = ", ";
    }
    syn__put_text(w->sink, "\"name\":", text);
}

static void put_rank_metadata(writer *w) {
    begin_metadata(w, "process_name", 0);
    put_process_name(w);
    put(w, "}}");
    begin_metadata(w, "process_sort_index", 0);
    syn__put_i64(w->sink, "\"sort_index\":", w->walk.rank);
    put(w, "}}");
    for (size_t i = 0; i < w->tracks.n_threads; i++) {
        const syn__track_thread *t = &w->tracks.threads[i];
        begin_metadata(w, "thread_name", t->tid);
        put_thread_name(w, t);
        put(w, "}}");
        begin_metadata(w, "thread_sort_index", t->tid);
        syn__put_u64(w->sink, "\"sort_index\":", t->host ? i : w->tracks.n_threads + i);
        put(w, "}}");
    }
}

/* ---- Slices ---- */

/* Kineto's names of NCCL operations. */
static const char *kineto_collective(syn_comm_kind kind) {
    switch (kind) {
    case SYN_COMM_ALL_REDUCE:
        return "allreduce";
    case SYN_COMM_ALL_GATHER:
        return "_allgather_base";
    case SYN_COMM_REDUCE_SCATTER:
    case SYN_COMM_REDUCE_SCATTER_BLOCK:
        return "_reduce_scatter_base";
    default:
        return syn_comm_kind_name(kind);
    }
}

static const char *kineto_dtype(int32_t dtype) {
    switch (dtype) {
    case SYN_F32:
        return "Float";
    case SYN_F16:
        return "Half";
    case SYN_BF16:
        return "BFloat16";
    case SYN_I32:
        return "Int";
    case SYN_I64:
        return "Long";
    default:
        return "Unknown";
    }
}

static void put_ranks(writer *w, const syn_graph_group *group) {
    for (uint32_t i = 0; i < group->n_ranks; i++)
        syn__put_i64(w->sink, i == 0 ? "" : ", ", group->ranks[i]);
}

static syn_status put_elems(writer *w, const char *key, const uint32_t *tensors, uint32_t n,
                            bool dtype) {
    const syn_graph_tensor *t;
    if (n == 0) return SYN_OK;
    SYN_TRY(syn__walk_tensor(&w->walk, tensors[0], &t, w->err));
    if (dtype) syn__put_text(w->sink, ",\"dtype\":", kineto_dtype(t->spec.dtype));
    syn__put_i64(w->sink, key, syn_spec_elems(&t->spec));
    return SYN_OK;
}

static syn_status put_comm_args(writer *w, const syn_node *node) {
    const bool send = node->kind == SYN_NODE_SEND, recv = node->kind == SYN_NODE_RECV;
    const syn_graph_group *group = NULL;
    if (node->group != 0) group = syn_graph_group_by_id(w->timeline.graph, node->group);
    syn__put_text(w->sink, ",\"Collective name\":", kineto_collective(node->comm));
    SYN_TRY(put_elems(w, ",\"In msg nelems\":", node->inputs, node->n_inputs, true));
    SYN_TRY(
        put_elems(w, ",\"Out msg nelems\":", node->outputs, node->n_outputs, node->n_inputs == 0));
    syn__put_u64(w->sink, ",\"bytes\":", node->comm_bytes);
    syn__put_u64(w->sink, ",\"Seq\":", node->comm_index);
    if (send || recv) {
        syn__put_i64(w->sink, ",\"Src Rank\":", send ? w->walk.rank : node->peer);
        syn__put_i64(w->sink, ",\"Dst Rank\":", send ? node->peer : w->walk.rank);
        syn__put_i64(w->sink, ",\"tag\":", node->tag);
    }
    if (group == NULL) return SYN_OK;
    syn__put_u64(w->sink, ",\"Group size\":", group->n_ranks);
    syn__put_u64(w->sink, ",\"Process Group Name\":\"", group->id);
    syn__put_text(w->sink, "\",\"Process Group Description\":", group->name);
    put(w, ",\"Process Group Ranks\":\"[");
    put_ranks(w, group);
    put(w, "]\"");
    return SYN_OK;
}

static syn_status put_args(writer *w, const syn__slice *s, const syn_node *node) {
    put(w, ",\"args\":{\"id\":\"");
    syn__walk_put_ref(w->sink, w->walk.rank, 'o', node->id);
    syn__put_u64(w->sink, "\",\"External id\":", node->id);
    syn__put_text(w->sink, ",\"op\":", node->op);
    if (node->scope[0] != '\0') syn__put_text(w->sink, ",\"scope\":", node->scope);
    if (!w->tracks.foreign) {
        syn__put_text(w->sink, ",\"phase\":", syn_phase_name(node->phase));
        syn__put_u64(w->sink, ",\"step\":", node->step);
    }
    syn__put_u64(w->sink, ",\"stream\":", s->tid);
    if (node->flops != 0) syn__put_u64(w->sink, ",\"flops\":", node->flops);
    if (node->bytes_read != 0) syn__put_u64(w->sink, ",\"bytes_read\":", node->bytes_read);
    if (node->bytes_written != 0) syn__put_u64(w->sink, ",\"bytes_written\":", node->bytes_written);
    if (syn__walk_is_comm(node)) SYN_TRY(put_comm_args(w, node));
    put(w, "}}");
    return SYN_OK;
}

static void begin_slice(writer *w, const syn__slice *s, const char *name, const char *category,
                        int64_t start, int64_t end) {
    begin_event(w);
    syn__put_text(w->sink, "{\"ph\":\"X\",\"name\":", name);
    syn__put_text(w->sink, ",\"cat\":", category);
    syn__put_i64(w->sink, ",\"pid\":", w->walk.rank);
    syn__put_u64(w->sink, ",\"tid\":", s->tid);
    syn__put_us(w->sink, ",\"ts\":", w->timeline.base_us, start);
    syn__put_us(w->sink, ",\"dur\":", 0, end - start);
}

static void put_flow(writer *w, const syn__slice *s, const syn__chrome_flow *f, int64_t start) {
    const char *name = f->message ? "p2p" : "collective";
    const char head[] = {'"', f->phase, '"', '\0'};
    begin_event(w);
    put(w, "{\"ph\":");
    put(w, head);
    if (f->phase != 's') put(w, ",\"bp\":\"e\"");
    syn__put_text(w->sink, ",\"name\":", name);
    syn__put_text(w->sink, ",\"cat\":", name);
    syn__put_u64(w->sink, ",\"id\":", f->id);
    syn__put_i64(w->sink, ",\"pid\":", w->walk.rank);
    syn__put_u64(w->sink, ",\"tid\":", s->tid);
    const bool at_start = f->message && f->phase == 's';
    syn__put_us(w->sink, ",\"ts\":", w->timeline.base_us,
                at_start ? start : syn__chrome_arrow_end(start, s->end));
    put(w, "}");
}

/* Writes a slice for the time that a communication waited for other ranks; its own slice comes
   after it. Returns the length of the wait. If there was none, returns 0 and writes nothing. */
static int64_t put_wait(writer *w, const syn__slice *s, const syn_node *node, const char *name) {
    const int64_t length = s->end - s->start, wait = s->wait < length ? s->wait : length;
    if (wait <= 0) return 0;
    begin_slice(w, s, "wait", "wait", s->start, s->start + wait);
    put(w, ",\"args\":{\"id\":\"");
    syn__walk_put_ref(w->sink, w->walk.rank, 'o', node->id);
    syn__put_text(w->sink, "\",\"for\":", name);
    put(w, "}}");
    return wait;
}

static syn_status put_slice(writer *w, const syn__slice *s, uint32_t rank_index) {
    const syn_node *node;
    SYN_TRY(syn__walk_node(&w->walk, s->node, &node, w->err));
    const char *name = node->label[0] != '\0' ? node->label : node->op;
    const int64_t wait = syn__walk_is_comm(node) ? put_wait(w, s, node, name) : 0;
    begin_slice(w, s, name, syn_category_name(node->category), s->start + wait, s->end);
    SYN_TRY(put_args(w, s, node));
    const bool comm = syn__walk_is_comm(node);
    const syn__chrome_flow *f = comm ? syn__chrome_flow_of(&w->flows, rank_index, s->node) : NULL;
    if (f != NULL) put_flow(w, s, f, s->start + wait);
    return SYN_OK;
}

static syn_status put_rank(writer *w, uint32_t rank_index) {
    syn__walk_select(&w->walk, rank_index);
    SYN_TRY(syn__tracks_fill(&w->tracks, &w->timeline, &w->walk, rank_index, w->err));
    put_rank_metadata(w);
    for (size_t i = 0; i < w->tracks.n_slices && syn_sink_status(w->sink) == SYN_OK; i++)
        SYN_TRY(put_slice(w, &w->tracks.slices[i], rank_index));
    SYN_TRY(syn__chrome_put_counters(w->sink, &w->timeline, &w->walk, &w->tracks, w->err));
    return syn__chrome_put_work(w->sink, &w->timeline, &w->walk,
                                syn__tracks_first_host(w->timeline.graph), w->err);
}

/* ---- Document ---- */

static void put_distributed(writer *w) {
    const syn_graph *graph = w->timeline.graph;
    const syn_attribute *backend = syn_graph_meta(graph, "comm");
    const bool named = backend != NULL && backend->type == SYN_VALUE_TEXT && backend->text != NULL;
    const uint32_t first = w->timeline.n_ranks > 0 ? w->timeline.ranks[0] : graph->n_ranks;
    syn__put_text(w->sink,
                  ",\n\"distributedInfo\":{\"backend\":", named ? backend->text : "syntorch");
    syn__put_i64(w->sink, ",\"rank\":", first < graph->n_ranks ? graph->ranks[first].rank : 0);
    syn__put_i64(w->sink, ",\"world_size\":", graph->world_size);
    syn__put_u64(w->sink, ",\"pg_count\":", graph->n_groups);
    put(w, ",\"pg_config\":[");
    for (uint32_t g = 0; g < graph->n_groups; g++) {
        const syn_graph_group *group = &graph->groups[g];
        syn__put_u64(w->sink, g == 0 ? "{\"pg_name\":\"" : ",{\"pg_name\":\"", group->id);
        syn__put_text(w->sink, "\",\"pg_desc\":", group->name);
        syn__put_u64(w->sink, ",\"pg_size\":", group->n_ranks);
        put(w, ",\"ranks\":[");
        put_ranks(w, group);
        put(w, "]}");
    }
    put(w, "]}");
}

static void put_other_data(writer *w, const syn_export_options *options) {
    const syn_graph *graph = w->timeline.graph;
    syn__put_text(w->sink, ",\n\"otherData\":{\"clock\":", syn__clock_name(w->timeline.clock));
    if (w->timeline.n_untimed > 0)
        syn__put_u64(w->sink, ",\"untimed_nodes\":", w->timeline.n_untimed);
    if (options != NULL && options->version != NULL)
        syn__put_text(w->sink, ",\"generator\":", options->version);
    if (options != NULL && options->title != NULL)
        syn__put_text(w->sink, ",\"title\":", options->title);
    put(w, ",\"metadata\":{");
    for (uint32_t i = 0; i < graph->n_metadata; i++) {
        char text[256];
        const syn_attribute *a = &graph->metadata[i];
        const bool is_text = a->type == SYN_VALUE_TEXT && a->text != NULL;
        if (i > 0) put(w, ",");
        syn_sink_json_string(w->sink, a->name);
        syn__put_text(w->sink, ":", is_text ? a->text : syn_attribute_text(a, text, sizeof text));
    }
    put(w, "}}");
}

static syn_status write_document(writer *w, const syn_export_options *options) {
    SYN_TRY(syn__chrome_flows_make(&w->flows, &w->timeline, &w->walk, w->err));
    put(w, "{\"displayTimeUnit\":\"ms\"");
    put_distributed(w);
    put_other_data(w, options);
    put(w, ",\n\"traceEvents\":[");
    w->first = true;
    for (uint32_t i = 0; i < w->timeline.n_ranks; i++) SYN_TRY(put_rank(w, w->timeline.ranks[i]));
    put(w, "\n]}\n");
    return SYN_OK;
}

static syn_status write_chrome(const syn_graph *graph, const syn_export_options *options,
                               syn_sink *sink, syn_error *err) {
    writer w = {.sink = sink, .err = err};
    SYN_TRY(syn__copies_find(&w.copies, graph, options, err));
    syn__walk_init(&w.walk, graph);
    syn_status status = syn__timeline_make(&w.timeline, graph, options, &w.copies, err);
    if (status == SYN_OK) status = write_document(&w, options);
    syn__walk_free(&w.walk);
    syn__timeline_free(&w.timeline);
    syn__copies_free(&w.copies);
    syn__tracks_free(&w.tracks);
    syn__chrome_flows_free(&w.flows);
    return status;
}

const syn_exporter syn_export_chrome = {"chrome", "trace.json", write_chrome};
