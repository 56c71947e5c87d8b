/* Makes up the device work of predicted runs; see kineto_predicted.h. */
#include "export/kineto/kineto_predicted.h"

#include "export/kineto/kineto_args.h"
#include "syntorch/base/memory.h"

#include <stdio.h>
#include <stdlib.h>

enum { COMPUTE_STREAM = 7, COMM_STREAMS = 20 }; /* numbers as in PyTorch */
enum { CALL_NS = 4000 };   /* duration of an op's call on the host, if there is enough time */
enum { LAUNCH_NS = 1000 }; /* minimum time between the call of an op and its kernel */

typedef struct predictor {
    syn_work *work;
    const syn__timeline *timeline;
    syn__walk *walk;
    uint64_t *latest; /* per node: earliest start of the node and of all later nodes, before which
                         the host must call it; one more element for the end */
    uint64_t now;     /* current time on the host */
    uint64_t done;    /* end of the compute stream's last kernel */
    uint64_t shift;   /* delay of the device relative to the timeline */
    uint32_t step, last_node;
    syn_error *err;
} predictor;

/* In .et files metadata values are strings. */
int64_t syn__kineto_multiprocessors(const syn_graph *graph) {
    const syn_attribute *a = syn_graph_meta(graph, "multiprocessors");
    if (a == NULL) return 0;
    if (a->type == SYN_VALUE_TEXT) return a->text != NULL ? strtol(a->text, NULL, 10) : 0;
    return a->type == SYN_VALUE_I64 ? a->i64 : 0;
}

bool syn__kineto_predicts_gpu(const syn_graph *graph, const syn__timeline *timeline) {
    return timeline->clock == SYN__CLOCK_PREDICTED && syn__kineto_multiprocessors(graph) > 0;
}

static uint64_t whole_ns(double ns) {
    return ns <= 0 ? 0 : ns >= SYN__MAX_NS ? (uint64_t)SYN__MAX_NS : (uint64_t)(ns + 0.5);
}

/* Fills `latest`. The host calls nodes in order, so a node must be called before any later node
   begins. */
static syn_status find_latest(predictor *p) {
    const uint32_t rank = p->walk->rank_index, n = p->walk->graph->ranks[rank].n_nodes;
    p->latest = syn_calloc((size_t)n + 1, sizeof *p->latest);
    if (p->latest == NULL) return SYN_FAIL_NOMEM(p->err, n * sizeof *p->latest, "predicted calls");
    p->latest[n] = UINT64_MAX;
    for (uint32_t i = n; i-- > 0;) {
        const syn__span *s = syn__timeline_span(p->timeline, rank, i);
        p->latest[i] = p->latest[i + 1];
        if (s->start_ns >= 0 && whole_ns(s->start_ns) < p->latest[i])
            p->latest[i] = whole_ns(s->start_ns);
    }
    return SYN_OK;
}

/* ---- Names ---- */

/* The name of a dtype in NCCL's kernels. NCCL adds signed integers as unsigned integers. */
static const char *nccl_type(int32_t dtype) {
    static const char *const types[SYN_DTYPE_COUNT] = {[SYN_F32] = "f32",
                                                       [SYN_F16] = "f16",
                                                       [SYN_BF16] = "bf16",
                                                       [SYN_I32] = "u32",
                                                       [SYN_I64] = "u64"};
    return dtype >= 0 && dtype < SYN_DTYPE_COUNT ? types[dtype] : "u8";
}

/* NCCL has one kernel for each kind of collective and dtype. The kernel is named after the sum, the
   ring algorithm and the LL protocol, but also runs the other reductions, algorithms and
   protocols. */
static void name_comm(const syn_node *node, int32_t dtype, char *out, size_t bytes) {
    static const char *const sums[SYN_COMM_KIND_COUNT] = {
        [SYN_COMM_ALL_REDUCE] = "AllReduce",
        [SYN_COMM_REDUCE] = "Reduce",
        [SYN_COMM_REDUCE_SCATTER] = "ReduceScatter",
        [SYN_COMM_REDUCE_SCATTER_BLOCK] = "ReduceScatter",
        [SYN_COMM_BARRIER] = "AllReduce"};
    static const char *const moves[SYN_COMM_KIND_COUNT] = {
        [SYN_COMM_ALL_GATHER] = "AllGather", [SYN_COMM_BROADCAST] = "Broadcast"};
    const syn_comm_kind kind = node->comm < SYN_COMM_KIND_COUNT ? node->comm : SYN_COMM_NONE;
    if (sums[kind] != NULL)
        snprintf(out, bytes, "ncclDevKernel_%s_Sum_%s_RING_LL", sums[kind],
                 nccl_type(kind == SYN_COMM_BARRIER ? SYN_F32 : dtype));
    else if (moves[kind] != NULL) snprintf(out, bytes, "ncclDevKernel_%s_RING_LL", moves[kind]);
    else snprintf(out, bytes, "ncclDevKernel_SendRecv");
}

static syn_status name_piece(predictor *p, const syn_node *node, syn_piece *piece) {
    char name[192];
    int64_t in, out;
    int32_t dtype;
    if (piece->kind != SYN_PIECE_KERNEL) return SYN_OK;
    if (syn__walk_is_comm(node)) {
        SYN_TRY(syn__kineto_elems(p->walk, node, &in, &out, &dtype, p->err));
        name_comm(node, dtype, name, sizeof name);
    } else {
        snprintf(name, sizeof name, "syntorch::%.128s<%s>", node->op, syn_dtype_name(node->dtype));
    }
    return syn_work_put_name(p->work, name, &piece->name, p->err);
}

/* ---- Pieces ---- */

/* At the end of a step the host waits for the compute stream, as it does to read a loss or a
   token. */
static syn_status end_step(predictor *p) {
    const uint64_t end = p->done > p->now ? p->done : p->now;
    const syn_unowned_piece wait = {p->last_node,
                                    {.kind = SYN_PIECE_WAIT,
                                     .stream = COMPUTE_STREAM,
                                     .call_ns = p->now,
                                     .call_wall_ns = end - p->now,
                                     .start_ns = p->now,
                                     .wall_ns = end - p->now}};
    if (p->work->n_nodes == 0) return SYN_OK;
    p->now = end;
    return syn_work_add_unowned(p->work, &wait, p->err);
}

/* Returns the call of a node. The host makes each call as soon as it can, and at the latest
   LAUNCH_NS before the device must begin the node. But it waits with the first call of a step until
   the op is due. The last call ends when the device has finished. */
static syn_node_work call_of(predictor *p, uint32_t index, const syn_node *node, bool new_step,
                             uint64_t end) {
    const uint64_t begin = p->latest[index], next = p->latest[index + 1];
    if (new_step) {
        const uint64_t first = begin + (p->shift > LAUNCH_NS ? p->shift - LAUNCH_NS : 0);
        if (p->now < first) p->now = first;
        if (p->shift < p->now + LAUNCH_NS - begin) p->shift = p->now + LAUNCH_NS - begin;
    }
    const uint64_t latest = begin + p->shift - LAUNCH_NS;
    const uint64_t call = p->now < latest ? p->now : latest;
    const uint64_t until = next == UINT64_MAX ? end + p->shift : next + p->shift - LAUNCH_NS;
    const uint64_t lasts = until - call < CALL_NS ? until - call : CALL_NS;
    p->now = call + lasts;
    return (syn_node_work){.node = (uint32_t)node->id, .call_ns = call, .call_wall_ns = lasts};
}

static syn_status add_node(predictor *p, uint32_t index, const syn_node *node,
                           const syn__span *span) {
    const bool new_step = p->work->n_nodes == 0 || node->step != p->step;
    const bool copy = node->kind == SYN_NODE_MEMORY;
    const uint64_t start = whole_ns(span->start_ns), end = whole_ns(span->end_ns);
    if (new_step) SYN_TRY(end_step(p));
    syn_node_work work = call_of(p, index, node, new_step, end);
    syn_piece piece = {.kind = copy ? SYN_PIECE_COPY : SYN_PIECE_KERNEL,
                       .stream = COMPUTE_STREAM,
                       .bytes = copy ? node->bytes_written : 0,
                       .call_ns = work.call_ns,
                       .call_wall_ns = work.call_wall_ns,
                       .start_ns = start + p->shift,
                       .wall_ns = end - start};
    if (node->stream > 0) piece.stream = COMM_STREAMS - 1 + (uint32_t)node->stream;
    else p->done = piece.start_ns + piece.wall_ns;
    work.n_pieces = syn__walk_is_comm(node) || end > start;
    p->step = node->step;
    p->last_node = work.node;
    SYN_TRY(name_piece(p, node, &piece));
    return syn_work_add(p->work, &work, &piece, p->err);
}

static syn_status add_nodes(predictor *p) {
    const syn_graph *graph = p->walk->graph;
    const uint32_t n = graph->ranks[p->walk->rank_index].n_nodes;
    SYN_TRY(find_latest(p));
    for (uint32_t i = 0; i < n; i++) {
        const syn_node *node;
        SYN_TRY(syn__walk_node(p->walk, i, &node, p->err));
        const syn__span *s = syn__timeline_span(p->timeline, p->walk->rank_index, i);
        if (s->start_ns < 0 || node->id > UINT32_MAX || !syn__kineto_shows(graph, node)) continue;
        SYN_TRY(add_node(p, i, node, s));
    }
    return end_step(p);
}

syn_status syn__kineto_predict_work(syn_work *out, const syn__timeline *timeline, syn__walk *walk,
                                    syn_error *err) {
    predictor p = {.work = out, .timeline = timeline, .walk = walk, .err = err};
    *out = (syn_work){0};
    const syn_status status = add_nodes(&p);
    syn_free(p.latest);
    if (status != SYN_OK) syn_work_free(out);
    return status;
}
