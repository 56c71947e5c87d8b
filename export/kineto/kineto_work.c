/* Writes the work of a device (syntorch/graph/work.h) as PyTorch's profiler records it: runtime
   calls within an op, the device work that they launched on streams of the device, and an arrow
   (ac2g) from the call to the work. Calls between ops are within the enclosing event. A
   communication waits for everything that was queued on the compute stream before it, and ops that
   need its result wait for the communication. Such a wait consists of cudaEventRecord,
   cudaStreamWaitEvent, and "Stream Wait Event", which names the recorded event. */
#include "export/kineto/kineto_recording.h"
#include "export/text/json_put.h"
#include "syntorch/base/memory.h"

#include <stdio.h>

/* A stream of the device, whose pieces run one after the other. */
typedef struct stream {
    uint32_t number;
    int64_t free; /* ns; earliest start of the next piece, 1 ns after the last one */
} stream;

typedef struct writer {
    syn__kineto_recording *r;
    syn_sink *sink;
    stream *streams;
    size_t n_streams, streams_cap;
    int64_t correlation; /* correlation id of the last call */
    int64_t *records;    /* per node: correlation id of the call that recorded its end; 0: none */
    size_t next_unowned;
    uint32_t compute; /* the compute stream */
    int64_t n_waits;
} writer;

/* Names of pieces and of the calls that launch them, and CUPTI's callback id of the call. */
static const struct {
    const char *category, *name, *call;
    int cbid;
} kinds[SYN_PIECE_KIND_COUNT] = {
    [SYN_PIECE_KERNEL] = {"kernel", NULL, "cudaLaunchKernel", 211},
    [SYN_PIECE_COPY_IN] = {"gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", "cudaMemcpyAsync", 41},
    [SYN_PIECE_COPY_OUT] = {"gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", "cudaMemcpyAsync", 41},
    [SYN_PIECE_COPY] = {"gpu_memcpy", "Memcpy DtoD (Device -> Device)", "cudaMemcpyAsync", 41},
    [SYN_PIECE_FILL] = {"gpu_memset", "Memset (Device)", "cudaMemsetAsync", 51},
    [SYN_PIECE_WAIT] = {"cuda_sync", "Stream Sync", "cudaStreamSynchronize", 131}};
enum { WAIT_CBID = 147, RECORD_CBID = 135 }; /* cudaStreamWaitEvent, cudaEventRecord */

static void put(writer *w, const char *text) {
    syn_sink_text(w->sink, text);
}

static void put_place(writer *w, int64_t pid, int64_t tid, int64_t ns) {
    syn__put_i64(w->sink, ",\"pid\":", pid);
    syn__put_i64(w->sink, ",\"tid\":", tid);
    syn__put_us(w->sink, ",\"ts\":", 0, ns);
}

static int64_t whole_ns(const writer *w, uint64_t ns) {
    const int64_t since = (int64_t)ns - 1000 * w->r->timeline.base_us;
    return since > 0 ? since : 0;
}

/* ---- Calls ---- */

static void put_call(writer *w, uint32_t event, const char *name, int cbid, int64_t start,
                     int64_t end) {
    const syn__kineto_event *e = &w->r->plan.events[event];
    syn__put_text(w->sink, ",\n{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":", name);
    put_place(w, syn__kineto_pid(w->r), e->thread + 1, start);
    syn__put_us(w->sink, ",\"dur\":", 0, end - start);
    syn__put_i64(w->sink, ",\"args\":{\"External id\":", (int64_t)event + 1);
    syn__put_i64(w->sink, ",\"cbid\":", cbid);
    syn__put_i64(w->sink, ",\"correlation\":", ++w->correlation);
    put(w, "}}");
}

static void put_arrow(writer *w, bool ends, int64_t pid, int64_t tid, int64_t ns) {
    put(w, ends ? ",\n{\"ph\":\"f\"" : ",\n{\"ph\":\"s\"");
    syn__put_i64(w->sink, ",\"id\":", w->correlation);
    put_place(w, pid, tid, ns);
    put(w, ",\"cat\":\"ac2g\",\"name\":\"ac2g\"");
    put(w, ends ? ",\"bp\":\"e\"}" : "}");
}

static syn_status stream_of(writer *w, const syn_piece *p, stream **out) {
    for (size_t i = 0; i < w->n_streams; i++) {
        *out = &w->streams[i];
        if (w->streams[i].number == p->stream) return SYN_OK;
    }
    SYN_TRY(
        syn_grow(&w->streams, &w->streams_cap, w->n_streams + 1, sizeof *w->streams, w->r->err));
    *out = &w->streams[w->n_streams++];
    **out = (stream){.number = p->stream};
    return SYN_OK;
}

/* Writes a host wait for a stream, which ends when the stream's work is done. */
static syn_status put_host_wait(writer *w, const syn__kineto_unowned *b) {
    const int kind = SYN_PIECE_WAIT;
    stream *s;
    SYN_TRY(stream_of(w, b->piece, &s));
    const int64_t over = s->free > b->start ? s->free : b->start;
    const int64_t end = b->end > over ? b->end : over;
    s->free = end + 1;
    put_call(w, b->around, kinds[kind].call, kinds[kind].cbid, b->start, b->end);
    syn__put_text(w->sink, ",\n{\"ph\":\"X\",\"cat\":", kinds[kind].category);
    syn__put_text(w->sink, ",\"name\":", kinds[kind].name);
    put_place(w, b->piece->device, b->piece->stream, over);
    syn__put_us(w->sink, ",\"dur\":", 0, end - over);
    syn__put_i64(w->sink, ",\"args\":{\"External id\":", (int64_t)b->around + 1);
    syn__put_i64(w->sink, ",\"correlation\":", w->correlation);
    syn__put_i64(w->sink, ",\"stream\":", b->piece->stream);
    syn__put_i64(w->sink, ",\"device\":", b->piece->device);
    put(w, ",\"context\":1}}");
    return SYN_OK;
}

/* Writes the call that makes a stream wait for an event recorded in another stream, and the wait
   itself. */
static void put_wait(writer *w, uint32_t event, int64_t start, int64_t end, uint32_t stream_number,
                     uint32_t for_stream, int64_t record) {
    put_call(w, event, "cudaStreamWaitEvent", WAIT_CBID, start, end);
    put(w, ",\n{\"ph\":\"X\",\"cat\":\"cuda_sync\",\"name\":\"Stream Wait Event\"");
    put_place(w, w->r->device_number, stream_number, start);
    syn__put_us(w->sink, ",\"dur\":", 0, end - start);
    syn__put_i64(w->sink, ",\"args\":{\"External id\":", (int64_t)event + 1);
    syn__put_i64(w->sink, ",\"correlation\":", w->correlation);
    syn__put_i64(w->sink, ",\"wait_on_stream\":", for_stream);
    syn__put_i64(w->sink, ",\"wait_on_cuda_event_record_corr_id\":", record);
    syn__put_i64(w->sink, ",\"wait_on_cuda_event_id\":", ++w->n_waits);
    syn__put_i64(w->sink, ",\"stream\":", stream_number);
    syn__put_i64(w->sink, ",\"device\":", w->r->device_number);
    put(w, ",\"context\":1}}");
}

/* ---- Pieces ---- */

static void put_sizes(writer *w, const char *key, const uint32_t sizes[3]) {
    syn__put_i64(w->sink, key, sizes[0]);
    syn__put_i64(w->sink, ", ", sizes[1]);
    syn__put_i64(w->sink, ", ", sizes[2]);
    put(w, "]");
}

static syn_status put_comm(writer *w, const syn_node *node) {
    int64_t in, out;
    int32_t dtype;
    char name[16];
    const syn_graph_group *group = syn__kineto_group(w->r->graph, node);
    SYN_TRY(syn__kineto_elems(&w->r->walk, node, &in, &out, &dtype, w->r->err));
    syn__put_text(w->sink, ",\"Collective name\":", syn__kineto_call_of(node->comm)->name);
    syn__put_i64(w->sink, ",\"In msg nelems\":", in);
    syn__put_i64(w->sink, ",\"Out msg nelems\":", out);
    syn__put_i64(w->sink, ",\"Group size\":", syn__kineto_ranks_of(w->r->graph, group).size);
    syn__put_text(w->sink, ",\"dtype\":", syn__kineto_scalar_type(dtype));
    put(w, ",\"In split size\":\"[]\",\"Out split size\":\"[]\"");
    syn__put_text(w->sink, ",\"Process Group Name\":", syn__kineto_group_name(group, name));
    syn__put_text(w->sink,
                  ",\"Process Group Description\":", group != NULL ? group->name : "default_pg");
    put(w, ",\"Process Group Ranks\":\"[");
    syn__kineto_put_ranks(w->sink, w->r->graph, group);
    put(w, "]\"");
    return SYN_OK;
}

static syn_status put_piece(writer *w, uint32_t event, const syn_node *node, const syn_piece *p,
                            int64_t start, int64_t end) {
    const bool kernel = p->kind == SYN_PIECE_KERNEL;
    const syn_work *work = w->r->graph->ranks[w->r->walk.rank_index].work;
    syn__put_text(w->sink, ",\n{\"ph\":\"X\",\"cat\":", kinds[p->kind].category);
    syn__put_text(w->sink, ",\"name\":", kernel ? syn_work_name(work, p) : kinds[p->kind].name);
    put_place(w, p->device, p->stream, start);
    syn__put_us(w->sink, ",\"dur\":", 0, end - start);
    syn__put_i64(w->sink, ",\"args\":{\"External id\":", (int64_t)event + 1);
    if (kernel) put(w, ",\"queued\":0");
    syn__put_i64(w->sink, ",\"device\":", p->device);
    syn__put_i64(w->sink, ",\"context\":1,\"stream\":", p->stream);
    syn__put_i64(w->sink, ",\"correlation\":", w->correlation);
    if (kernel && p->grid[0] > 0) {
        syn__put_i64(w->sink, ",\"shared memory\":", (int64_t)p->bytes);
        put_sizes(w, ",\"grid\":[", p->grid);
        put_sizes(w, ",\"block\":[", p->block);
    }
    if (!kernel) syn__put_i64(w->sink, ",\"bytes\":", (int64_t)p->bytes);
    if (!kernel && end > start) {
        put(w, ",\"memory bandwidth (GB/s)\":");
        syn_sink_double(w->sink, (double)p->bytes / (double)(end - start));
    }
    if (kernel && w->r->plan.events[event].kind == SYN__KINETO_LIBRARY) SYN_TRY(put_comm(w, node));
    put(w, "}}");
    return SYN_OK;
}

/* Writes a call and its piece. The piece begins neither before the call nor before the end of the
   previous piece, even if the clocks of host and device differ. node NULL: the piece belongs to no
   op. */
static syn_status put_both(writer *w, uint32_t event, const syn_node *node, const syn_piece *p,
                           int64_t start, int64_t end) {
    stream *s;
    SYN_TRY(stream_of(w, p, &s));
    put_call(w, event, kinds[p->kind].call, kinds[p->kind].cbid, start, end);
    put_arrow(w, false, syn__kineto_pid(w->r), w->r->plan.events[event].thread + 1, start);
    int64_t begin = whole_ns(w, p->start_ns), done = whole_ns(w, p->start_ns + p->wall_ns);
    if (begin < start) begin = start;
    if (begin < s->free) begin = s->free;
    if (done < begin) done = begin;
    s->free = done + (done > begin);
    SYN_TRY(put_piece(w, event, node, p, begin, done));
    put_arrow(w, true, p->device, p->stream, begin);
    return SYN_OK;
}

/* Writes the pieces before `until` that belong to no op. */
static syn_status put_unowned(writer *w, int64_t until) {
    const syn__kineto_plan *plan = &w->r->plan;
    for (; w->next_unowned < plan->n_unowned; w->next_unowned++) {
        const syn__kineto_unowned *b = &plan->unowned[w->next_unowned];
        if (b->start >= until) return SYN_OK;
        if (b->piece->kind == SYN_PIECE_WAIT) SYN_TRY(put_host_wait(w, b));
        else SYN_TRY(put_both(w, b->around, NULL, b->piece, b->start, b->end));
    }
    return SYN_OK;
}

static uint32_t stream_of_node(writer *w, uint32_t index, syn_status *status) {
    const syn_work *all = w->r->graph->ranks[w->r->walk.rank_index].work;
    const syn_node *node;
    *status = syn__walk_node(&w->r->walk, index, &node, w->r->err);
    return *status == SYN_OK ? all->pieces[syn_work_of(all, node->id)->first].stream : 0;
}

/* Makes the stream of a communication wait for the producers of its inputs or, if their ends were
   not recorded, for everything queued on the compute stream. */
static syn_status put_wait_for_inputs(writer *w, uint32_t event, int64_t *from) {
    const syn__kineto_event *e = &w->r->plan.events[event];
    syn_status status;
    const uint32_t own = stream_of_node(w, e->node, &status);
    for (uint32_t i = 0; i < e->n_inputs && status == SYN_OK; i++, *from += 2) {
        const uint32_t input = w->r->plan.inputs[e->first_input + i];
        const uint32_t other = stream_of_node(w, input, &status);
        if (other == own || status != SYN_OK) continue;
        put_wait(w, event, *from, *from + 1, own, other, w->records[input]);
    }
    if (w->r->predicted || status != SYN_OK) return status;
    put_call(w, event, "cudaEventRecord", RECORD_CBID, *from, *from + 1);
    put_wait(w, event, *from + 2, *from + 3, own, w->compute, w->correlation);
    *from += 4;
    return SYN_OK;
}

/* Writes the calls of an op one after the other, 1 ns apart; the plan leaves time for that. */
static syn_status put_pieces(writer *w, uint32_t event) {
    const syn__kineto_event *e = &w->r->plan.events[event];
    const syn_work *all = w->r->graph->ranks[w->r->walk.rank_index].work;
    const syn_node *node;
    const bool comm = e->kind == SYN__KINETO_LIBRARY, record = comm || e->recorded;
    int64_t from = e->start + 1;
    if (comm) SYN_TRY(put_wait_for_inputs(w, event, &from));
    SYN_TRY(syn__walk_node(&w->r->walk, e->node, &node, w->r->err));
    const syn_node_work *work = syn_work_of(all, node->id);
    for (uint32_t i = 0; i < work->n_pieces; i++) {
        const syn_piece *p = &all->pieces[work->first + i];
        const int64_t last = e->end - 1 - 2 * ((int64_t)(work->n_pieces - 1 - i) + record);
        int64_t start = whole_ns(w, p->call_ns), end = whole_ns(w, p->call_ns + p->call_wall_ns);
        if (start < from) start = from;
        if (start >= last) start = last - 1;
        if (end > last) end = last;
        if (end <= start) end = start + 1;
        from = end + 1;
        SYN_TRY(put_both(w, event, node, p, start, end));
    }
    if (record) {
        put_call(w, event, "cudaEventRecord", RECORD_CBID, from, from + 1);
        w->records[e->node] = w->correlation;
    }
    return SYN_OK;
}

/* Makes the compute stream wait for a communication, and thereby for the earlier communications on
   the same stream. */
static syn_status put_awaited(writer *w, uint32_t event) {
    const syn__kineto_event *e = &w->r->plan.events[event];
    syn_status status;
    const uint32_t number = stream_of_node(w, e->node, &status);
    if (status == SYN_OK)
        put_wait(w, event, e->start + 1, e->end - 1, w->compute, number, w->records[e->node]);
    return status;
}

/* ---- The whole file ---- */

static void put_metadata(writer *w, const char *name, int64_t tid, const char *key,
                         const char *text, int64_t number) {
    syn__put_text(w->sink, ",\n{\"ph\":\"M\",\"name\":", name);
    put_place(w, w->r->device_number, tid, w->r->plan.begin);
    syn__put_text(w->sink, ",\"args\":{", key);
    if (text != NULL) syn__put_text(w->sink, ":", text);
    else syn__put_i64(w->sink, ":", number);
    put(w, "}}");
}

static void put_names(writer *w) {
    char text[64];
    snprintf(text, sizeof text, "rank %d", (int)w->r->walk.rank);
    put_metadata(w, "process_name", 0, "name", text, 0);
    snprintf(text, sizeof text, "GPU %u", (unsigned)w->r->device_number);
    put_metadata(w, "process_labels", 0, "labels", text, 0);
    put_metadata(w, "process_sort_index", 0, "sort_index", NULL,
                 5000000 + (int64_t)w->r->device_number); /* as Kineto does: after all processes */
    for (size_t i = 0; i < w->n_streams; i++) {
        const uint32_t number = w->streams[i].number;
        snprintf(text, sizeof text, "stream %u ", (unsigned)number);
        put_metadata(w, "thread_name", number, "name", text, 0);
        put_metadata(w, "thread_sort_index", number, "sort_index", NULL, number);
    }
}

/* Finds the compute stream, which is the stream of the first op. */
static syn_status find_compute(writer *w) {
    const syn_work *all = w->r->graph->ranks[w->r->walk.rank_index].work;
    for (uint32_t i = 0; i < w->r->plan.n_events; i++) {
        const syn__kineto_event *e = &w->r->plan.events[i];
        const syn_node *node;
        if (!e->device || e->kind != SYN__KINETO_OP) continue;
        SYN_TRY(syn__walk_node(&w->r->walk, e->node, &node, w->r->err));
        w->compute = all->pieces[syn_work_of(all, node->id)->first].stream;
        return SYN_OK;
    }
    return SYN_OK;
}

syn_status syn__kineto_write_work(syn__kineto_recording *r, syn_sink *sink) {
    writer w = {.r = r, .sink = sink};
    syn_status status = SYN_OK;
    if (!r->device) return SYN_OK;
    const size_t n = r->graph->ranks[r->walk.rank_index].n_nodes;
    w.records = syn_calloc(n, sizeof *w.records);
    if (!w.records) return SYN_FAIL_NOMEM(r->err, n * sizeof *w.records, "a trace");
    status = find_compute(&w);
    for (uint32_t i = 0; i < r->plan.n_events && status == SYN_OK; i++) {
        const syn__kineto_event *e = &r->plan.events[i];
        status = put_unowned(&w, e->start);
        if (status != SYN_OK || !e->device) continue;
        status = e->kind == SYN__KINETO_WAIT ? put_awaited(&w, i) : put_pieces(&w, i);
    }
    if (status == SYN_OK) status = put_unowned(&w, INT64_MAX);
    if (status == SYN_OK) put_names(&w);
    syn_free(w.streams);
    syn_free(w.records);
    return status;
}
