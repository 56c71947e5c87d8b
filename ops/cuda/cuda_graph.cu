/* Decides for each segment of a step whether its ops are launched one by one, captured as a CUDA
   graph, or replayed from one.

   A segment starts as NEW. After a step it is SEEN; after the next step with the same ops it is
   SEEN_TWICE. In the third step its ops are captured, and it becomes READY. From then on, each op
   is compared with the recorded op, and the graph is updated where the two differ. The graph is
   launched at the end of the segment. If an op does not match, the ops so far are launched one by
   one, and the segment starts again as NEW. */
#include "ops/cuda/cuda_graph.h"

#include <stdlib.h>
#include <string.h>

#include "ops/cuda/cuda_device.h"
#include "ops/cuda/cuda_segment.h"
#include "syntorch/base/memory.h"

enum { OP_BITS = 14, SEGMENT_BITS = 6, GENERATION_BITS = 11 };
enum {
    MAX_SEGMENTS = 1 << SEGMENT_BITS, /* maximum number per step; later ops of the step are not put
                                         in graphs */
    MAX_OPS = 1 << OP_BITS,           /* maximum number per segment; a longer segment is not put in
                                         a graph */
    FEWEST = 4                        /* number of ops from which a graph pays off */
};

/* Set in the node number that kernels of a graph get; the other bits are the segment's handle and
   the op's number. */
enum { IN_GRAPH = 1u << 31 };

/* A segment that was replaced while its graph was in flight. Its ops are kept until the next sync,
   which reports the graph's times and faults. */
typedef struct retired_segment {
    struct retired_segment *next;
    int at;
    syn__segment s;
} retired_segment;

typedef enum segment_mode {
    OFF,     /* launch ops and do not record them */
    EAGER,   /* launch ops and record them in `fresh` */
    CAPTURE, /* capture ops in a graph and record them in `fresh` */
    REPLAY   /* compare ops with the graph's and update the graph where they differ */
} segment_mode;

struct syn__graphs {
    syn__cuda *device;
    bool steps; /* the program has called syn_next_step */
    int at;     /* number of the current segment within the step */
    segment_mode mode;
    bool open; /* a segment has begun */
    bool same; /* EAGER: all ops so far were the same as in the step before */
    size_t n;  /* number of ops of the segment so far */
    syn__segment segments[MAX_SEGMENTS], fresh;
    retired_segment *retired;
    uint32_t generations;
    uint64_t launched;
    syn_call call; /* for launching deferred ops */
    /* state while an op is captured or updated in the graph */
    syn__graph_op *op;
    bool failed;
};

/* ---- launches ---- */

/* Set while an op's launches are captured in a graph, or update one. */
static thread_local syn__graphs *sink;

/* Gets the graph that the stream is captured in, and its n latest nodes. In CUDA 12 the function
   has no argument for edges. */
static bool capture_info(cudaStream_t stream, cudaGraph_t *graph, const cudaGraphNode_t **newest,
                         size_t *n) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
#if CUDART_VERSION < 13000
    const cudaError_t code = cudaStreamGetCaptureInfo(stream, &status, NULL, graph, newest, n);
#else
    const cudaError_t code =
        cudaStreamGetCaptureInfo(stream, &status, NULL, graph, newest, NULL, n);
#endif
    return code == cudaSuccess && status == cudaStreamCaptureStatusActive;
}

static void capture_launch(syn__graphs *g, const syn__launch *l) {
    cudaGraph_t graph = NULL;
    const cudaGraphNode_t *newest = NULL;
    size_t n = 0;
    syn__segment *s = &g->fresh;
    if (cudaLaunchKernel(l->kernel, l->grid, l->block, l->arguments, l->shared, l->stream) !=
            cudaSuccess ||
        !capture_info(l->stream, &graph, &newest, &n) || n != 1 ||
        syn_grow(&s->nodes, &s->nodes_cap, s->n_nodes + 1, sizeof *s->nodes, NULL) != SYN_OK) {
        g->failed = true;
        return;
    }
    s->nodes[s->n_nodes++] = newest[0];
    g->op->nodes++;
}

static void change_launch(syn__graphs *g, const syn__launch *l) {
    syn__segment *s = &g->segments[g->at];
    cudaKernelNodeParams p = {};
    p.func = const_cast<void *>(l->kernel);
    p.gridDim = l->grid;
    p.blockDim = l->block;
    p.sharedMemBytes = (unsigned)l->shared;
    p.kernelParams = l->arguments;
    const int i = g->op->first_node + g->op->nodes++;
    if (g->failed || (size_t)i >= s->n_nodes ||
        cudaGraphExecKernelNodeSetParams(s->exec, s->nodes[i], &p) != cudaSuccess)
        g->failed = true;
}

void syn__launch_now(const syn__launch *l) {
    if (syn__cuda_work_launch(l)) return;
    if (!sink) cudaLaunchKernel(l->kernel, l->grid, l->block, l->arguments, l->shared, l->stream);
    else if (sink->mode == CAPTURE) capture_launch(sink, l);
    else change_launch(sink, l);
}

bool syn__graphs_capturing(void) {
    return sink != NULL;
}

/* ---- launching ops alone ---- */

static syn_status launch_alone(syn__graphs *g, syn_call *c, syn_kernel kernel, uint32_t node,
                               int segment_number, int op) {
    g->device->at.node = node;
    return syn__cuda_run_alone(g->device, c, kernel, segment_number, op);
}

/* Launches the first n ops of a segment, which were deferred. */
static syn_status launch_copies(syn__graphs *g, const syn__segment *s, size_t n, syn_error *err) {
    syn_call *c = &g->call;
    for (size_t i = 0; i < n; i++) {
        const syn__graph_op *op = &s->ops[i];
        const syn_operand *operands = reinterpret_cast<const syn_operand *>(s->bytes + op->at);
        c->def = op->def;
        c->n_in = op->n_in;
        c->n_out = op->n_out;
        c->n_attr = op->n_attr;
        c->in = const_cast<syn_operand *>(operands); /* kernels do not write to it */
        c->out = c->in + op->n_in;
        c->attr = reinterpret_cast<const syn_attr *>(operands + op->n_in + op->n_out);
        c->device = &g->device->at;
        c->err = err;
        SYN_TRY(launch_alone(g, c, op->kernel, s->first_node + op->distance, -1, 0));
    }
    return SYN_OK;
}

/* ---- segments ---- */

/* The number by which spans and faults identify the segment. */
static int handle_of(const syn__graphs *g, const syn__segment *s) {
    return (int)(s->generation << SEGMENT_BITS | (uint32_t)g->at);
}

/* Returns the segment of a handle; NULL if the segment has other ops by now. */
static const syn__segment *find(const syn__graphs *g, int handle) {
    const int at = handle & (MAX_SEGMENTS - 1);
    const uint32_t generation = (uint32_t)handle >> SEGMENT_BITS;
    if (g->segments[at].generation == generation) return &g->segments[at];
    for (const retired_segment *r = g->retired; r; r = r->next)
        if (r->at == at && r->s.generation == generation) return &r->s;
    return NULL;
}

static uint32_t next_generation(syn__graphs *g) {
    g->generations = g->generations % ((1u << GENERATION_BITS) - 1) + 1;
    return g->generations;
}

/* Keeps a copy of a segment that is in flight. If memory is out, the segment's times and faults are
   not reported. */
static void retire(syn__graphs *g, syn__segment *s) {
    retired_segment *r =
        s->in_flight ? static_cast<retired_segment *>(syn_calloc(1, sizeof *r)) : NULL;
    if (!r) return;
    r->s = *s;
    r->at = g->at;
    r->next = g->retired;
    g->retired = r;
    memset(s, 0, sizeof *s);
}

static void clear(syn__graphs *g, syn__segment *s) {
    syn__segment_drop_graph(s);
    retire(g, s);
    s->state = SYN__NEW;
    s->in_flight = 0;
    s->generation = 0;
    s->n_ops = s->n_bytes = 0;
}

/* Makes `fresh` the current segment. */
static void replace(syn__graphs *g, syn__segment_state state) {
    syn__segment *s = &g->segments[g->at];
    const syn__segment before = *s;
    *s = g->fresh;
    s->state = state;
    if (state == SYN__SEEN) s->generation = next_generation(g);
    g->fresh = before;
    clear(g, &g->fresh);
}

/* Begins a capture. It uses relaxed mode, because the context may allocate memory between two ops;
   in other modes this would fail and end the capture. */
static bool begin_capture(syn__graphs *g) {
    return cudaStreamBeginCapture(g->device->at.stream, cudaStreamCaptureModeRelaxed) ==
           cudaSuccess;
}

static void begin_segment(syn__graphs *g) {
    syn__segment *s = &g->segments[g->at];
    clear(g, &g->fresh);
    g->fresh.generation = s->generation ? s->generation : next_generation(g);
    g->fresh.first_node = g->device->at.node;
    g->open = g->same = true;
    g->n = 0;
    g->mode = EAGER;
    if (s->state == SYN__READY && s->scratch != g->device->scratch_number)
        syn__segment_drop_graph(s);
    if (s->state == SYN__READY) {
        g->mode = REPLAY;
        s->first_node = g->device->at.node;
    } else if (s->state == SYN__SEEN_TWICE && begin_capture(g)) {
        g->mode = CAPTURE;
    } else {
        cudaGetLastError();
    }
}

/* Runs the op's kernel function with its launches going to the graph. */
static bool sink_op(syn__graphs *g, syn__graph_op *op, syn_call *c, syn_kernel kernel) {
    syn_error unseen = {};
    syn_error *const err = c->err;
    g->op = op;
    g->failed = false;
    sink = g;
    c->err = &unseen;
    const syn__segment *of = g->mode == CAPTURE ? &g->fresh : &g->segments[g->at];
    g->device->at.node = IN_GRAPH | (uint32_t)handle_of(g, of) << OP_BITS | (uint32_t)g->n;
    const syn_status s = kernel(c);
    g->device->at.node = g->fresh.first_node + op->distance;
    c->err = err;
    sink = NULL;
    return s == SYN_OK && !g->failed;
}

static size_t nodes_so_far(const syn__graphs *g) {
    cudaGraph_t graph = NULL;
    const cudaGraphNode_t *newest;
    size_t newest_n, n = 0;
    if (capture_info(g->device->at.stream, &graph, &newest, &newest_n))
        cudaGraphGetNodes(graph, NULL, &n);
    return n;
}

static bool capture(syn__graphs *g, syn__graph_op *op, syn_call *c, syn_kernel kernel) {
    const size_t before = nodes_so_far(g);
    op->first_node = (int)g->fresh.n_nodes;
    if (!sink_op(g, op, c, kernel)) return false;
    if (nodes_so_far(g) != before + (size_t)op->nodes) op->nodes = -1;
    return true;
}

/* Compares the op with the graph's, and updates its kernels if it differs. */
static bool replay(syn__graphs *g, syn_call *c, syn_kernel kernel, uint32_t distance) {
    syn__segment *s = &g->segments[g->at];
    if (g->n >= s->n_ops || !syn__same_kind(&s->ops[g->n], c, distance)) return false;
    syn__graph_op *op = &s->ops[g->n];
    if (syn__same_call(s, op, c)) return true;
    const int nodes = op->nodes;
    if (nodes < 0) return false;
    op->nodes = 0;
    const bool changed = sink_op(g, op, c, kernel);
    const bool all = op->nodes == nodes;
    op->nodes = nodes;
    if (!changed || !all) return false;
    syn__call_pack(c, s->bytes + op->at);
    return true;
}

/* Ends a capture and discards its graph. */
static void forget_capture(syn__graphs *g) {
    cudaGraph_t graph = NULL;
    cudaStreamEndCapture(g->device->at.stream, &graph);
    if (graph) cudaGraphDestroy(graph);
    cudaGetLastError();
}

/* Called when the segment differs from the recorded one. Launches the deferred ops one by one;
   later ops of the segment are also launched one by one. */
static syn_status give_up(syn__graphs *g, syn_error *err) {
    syn__segment *s = g->mode == CAPTURE ? &g->fresh : &g->segments[g->at];
    const uint32_t node = g->device->at.node;
    if (g->mode == CAPTURE) forget_capture(g);
    const syn_status status = launch_copies(g, s, g->n, err);
    g->device->at.node = node;
    clear(g, &g->segments[g->at]);
    g->mode = OFF;
    return status;
}

static syn_status launch_graph(syn__graphs *g, syn__segment *s, syn_error *err) {
    syn__cuda *d = g->device;
    syn__cuda_time_begin(d, s->first_node, handle_of(g, s), -1);
    s->in_flight = s->first_node;
    SYN_CUDA(cudaGraphLaunch(s->exec, d->at.stream), "launching a step's graph", err);
    syn__cuda_time_end(d);
    g->launched++;
    return SYN_OK;
}

/* Makes a graph of the captured segment and launches it. */
static syn_status end_capture(syn__graphs *g, syn_error *err) {
    syn__segment *s = &g->fresh;
    const bool same = g->n == g->segments[g->at].n_ops && g->n >= FEWEST;
    if (!same || cudaStreamEndCapture(g->device->at.stream, &s->graph) != cudaSuccess ||
        cudaGraphInstantiate(&s->exec, s->graph, 0) != cudaSuccess) {
        cudaGetLastError();
        if (!same) forget_capture(g);
        syn__segment_drop_graph(s);
        SYN_TRY(launch_copies(g, s, g->n, err));
        clear(g, &g->segments[g->at]);
        return SYN_OK;
    }
    for (size_t i = 0; i < g->n; i++) s->ops[i].ns = g->segments[g->at].ops[i].ns;
    s->scratch = g->device->scratch_number;
    replace(g, SYN__READY);
    return launch_graph(g, &g->segments[g->at], err);
}

static syn_status end_replay(syn__graphs *g, syn_error *err) {
    syn__segment *s = &g->segments[g->at];
    if (g->n == s->n_ops && s->scratch == g->device->scratch_number) return launch_graph(g, s, err);
    return give_up(g, err);
}

syn_status syn__graphs_end(syn__graphs *g, syn_error *err) {
    syn_status status = SYN_OK;
    if (!g || !g->open) return SYN_OK;
    const uint32_t node = g->device->at.node;
    const syn__segment *s = &g->segments[g->at];
    g->open = false;
    if (g->mode == CAPTURE) status = end_capture(g, err);
    else if (g->mode == REPLAY) status = end_replay(g, err);
    else if (g->mode == EAGER)
        replace(g, g->same && g->n == s->n_ops && g->n >= FEWEST ? SYN__SEEN_TWICE : SYN__SEEN);
    g->at++;
    g->device->at.node = node;
    return status;
}

void syn__graphs_step(syn__graphs *g) {
    if (!g) return;
    g->steps = true;
    g->at = 0;
}

syn_status syn__graphs_run(syn__graphs *g, syn_call *c, syn_kernel kernel) {
    const uint32_t node = syn__cuda_of(c)->node;
    if (!g->open && g->steps && g->at < MAX_SEGMENTS && !g->device->work.keep) begin_segment(g);
    if (!g->open || g->mode == OFF) return launch_alone(g, c, kernel, node, -1, 0);
    const syn__segment *s = &g->segments[g->at];
    const uint32_t distance = node - g->fresh.first_node;
    if (g->mode == REPLAY) {
        if (replay(g, c, kernel, distance)) {
            g->n++;
            return SYN_OK;
        }
        SYN_TRY(give_up(g, c->err));
        return launch_alone(g, c, kernel, node, -1, 0);
    }
    const bool same = g->n < s->n_ops && syn__same_kind(&s->ops[g->n], c, distance);
    syn__graph_op *op = g->n < MAX_OPS ? syn__segment_append(&g->fresh, c, kernel, distance) : NULL;
    if (g->mode == CAPTURE) {
        if (op && same && capture(g, op, c, kernel)) {
            g->n++;
            return SYN_OK;
        }
        SYN_TRY(give_up(g, c->err));
        return launch_alone(g, c, kernel, node, -1, 0);
    }
    g->same = g->same && same;
    if (!op) g->mode = OFF;
    return launch_alone(g, c, kernel, node, op ? handle_of(g, &g->fresh) : -1, (int)g->n++);
}

/* ---- opening and closing ---- */

syn_status syn__graphs_open(syn__graphs **out, syn__cuda *device, syn_error *err) {
    const char *wanted = getenv("SYNTORCH_CUDA_GRAPHS");
    *out = NULL;
    if (wanted && strcmp(wanted, "0") == 0) return SYN_OK;
    syn__graphs *g = static_cast<syn__graphs *>(syn_calloc(1, sizeof *g));
    if (!g) return SYN_FAIL_NOMEM(err, sizeof *g, "a step's graphs");
    g->device = device;
    *out = g;
    return SYN_OK;
}

void syn__graphs_close(syn__graphs *g) {
    if (!g) return;
    syn__graphs_synced(g);
    for (int i = 0; i < MAX_SEGMENTS; i++) syn__segment_free(&g->segments[i]);
    syn__segment_free(&g->fresh);
    syn_free(g);
}

/* ---- functions for other files ---- */

uint32_t syn__graphs_fault_node(const syn__graphs *g, uint32_t node) {
    if (!(node & IN_GRAPH)) return node;
    const syn__segment *s = find(g, (int)((node & ~IN_GRAPH) >> OP_BITS));
    const size_t op = node & (MAX_OPS - 1);
    return s && op < s->n_ops ? s->in_flight + s->ops[op].distance : 0;
}

int syn__graphs_ops(const syn__graphs *g, int handle) {
    const syn__segment *s = find(g, handle);
    return s ? (int)s->n_ops : 0;
}

uint32_t syn__graphs_distance(const syn__graphs *g, int handle, int op) {
    return find(g, handle)->ops[op].distance;
}

float *syn__graphs_ns(syn__graphs *g, int handle, int op) {
    return &find(g, handle)->ops[op].ns;
}

void syn__graphs_synced(syn__graphs *g) {
    if (!g) return;
    while (g->retired) {
        retired_segment *r = g->retired;
        g->retired = r->next;
        syn__segment_free(&r->s);
        syn_free(r);
    }
    for (int i = 0; i < MAX_SEGMENTS; i++) g->segments[i].in_flight = 0;
}

uint64_t syn__graphs_launched(const syn__graphs *g) {
    return g ? g->launched : 0;
}
