#include "ops/cuda/cuda_graph.h"

#include <stdlib.h>
#include <string.h>

#include "ops/cuda/cuda_device.h"
#include "syntorch/memory.h"

enum {
    MAX_SEGMENTS = 64, /* of a step; what comes after them is not repeated */
    MAX_OPS = 1 << 14, /* of a segment, likewise */
    FEWEST = 4         /* ops that are worth a graph */
};

/* In place of a node's number in kernels of a graph: its segment and op. */
enum { IN_GRAPH = 1u << 31, OP_BITS = 14 };

/* An op as it was asked for: its operands and attributes lie at `at` of the segment's bytes. */
typedef struct graph_op {
    const syn_opdef *def;
    syn_kernel kernel;
    int n_in, n_out, n_attr;
    uint32_t distance; /* of its node's number from the first one's */
    size_t at, bytes;
    float ns;              /* measured when it was launched alone; 0: not yet known */
    int first_node, nodes; /* of the graph; nodes -1: among them are some that cannot be changed */
} graph_op;

typedef enum segment_state { NEW, SEEN, SEEN_TWICE, READY } segment_state;

typedef struct segment {
    segment_state state;
    graph_op *ops;
    size_t n_ops, ops_cap;
    char *bytes;
    size_t n_bytes, bytes_cap;
    uint32_t first_node; /* its number */
    cudaGraph_t graph;   /* READY */
    cudaGraphExec_t exec;
    cudaGraphNode_t *nodes; /* of kernels, in order */
    size_t n_nodes, nodes_cap;
    uint64_t scratch; /* which scratch memory the graph knows */
} segment;

typedef enum segment_mode {
    OFF,     /* ops are launched, and not remembered */
    EAGER,   /* ops are launched, and remembered in `fresh` */
    CAPTURE, /* they go into a graph, and into `fresh` */
    REPLAY   /* they are compared with those of the graph, whose copies are kept up to date */
} segment_mode;

struct syn__graphs {
    syn__cuda *device;
    bool steps; /* the program has told of steps */
    int at;     /* number of the segment within the step */
    segment_mode mode;
    bool open; /* the segment has begun */
    bool same; /* EAGER: so far as in the step before */
    size_t n;  /* ops of it so far */
    segment segments[MAX_SEGMENTS], fresh;
    uint64_t launched;
    syn_call call; /* for what was put off */
    /* where launches go to while an op is captured or changed */
    graph_op *op;
    bool failed;
};

/* ---- launches ---- */

/* Set while an op's kernels go into a graph, or change one. */
static thread_local syn__graphs *sink;

/* The graph that the stream is captured into, and its n newest nodes; CUDA 12 does not tell of
   edges. */
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
    segment *s = &g->fresh;
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
    segment *s = &g->segments[g->at];
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

/* ---- remembering ops ---- */

/* Bytes of what the op was given; written to `to` unless that is NULL. */
static size_t pack(const syn_call *c, char *to) {
    const struct {
        const void *from;
        size_t bytes;
    } parts[] = {{c->in, (size_t)c->n_in * sizeof *c->in},
                 {c->out, (size_t)c->n_out * sizeof *c->out},
                 {c->attr, (size_t)c->n_attr * sizeof *c->attr}};
    size_t n = 0;
    for (int i = 0; i < 3; n += parts[i++].bytes)
        if (to && parts[i].bytes) memcpy(to + n, parts[i].from, parts[i].bytes);
    return n;
}

static bool same_kind(const graph_op *op, const syn_call *c, uint32_t distance) {
    return op->def == c->def && op->n_in == c->n_in && op->n_out == c->n_out &&
           op->n_attr == c->n_attr && op->distance == distance;
}

/* Compares operands field by field: what lies between and behind them is undefined. */
static bool same_operands(const syn_operand *a, const syn_operand *b, int n) {
    for (int i = 0; i < n; i++) {
        const size_t dims = (size_t)a[i].spec.rank * sizeof *a[i].strides;
        if (a[i].data != b[i].data || a[i].spec.dtype != b[i].spec.dtype ||
            a[i].spec.rank != b[i].spec.rank || memcmp(a[i].spec.dims, b[i].spec.dims, dims) ||
            memcmp(a[i].strides, b[i].strides, dims))
            return false;
    }
    return true;
}

static bool same_call(const segment *s, const graph_op *op, const syn_call *c) {
    const syn_operand *operands = reinterpret_cast<const syn_operand *>(s->bytes + op->at);
    const syn_operand *out = operands + op->n_in;
    return same_operands(operands, c->in, c->n_in) && same_operands(out, c->out, c->n_out) &&
           memcmp(out + op->n_out, c->attr, (size_t)op->n_attr * sizeof *c->attr) == 0;
}

/* Appends the op to `fresh`; NULL when memory is out. */
static graph_op *remember(syn__graphs *g, const syn_call *c, syn_kernel kernel, uint32_t distance) {
    segment *s = &g->fresh;
    const size_t bytes = pack(c, NULL);
    if (syn_grow(&s->ops, &s->ops_cap, s->n_ops + 1, sizeof *s->ops, NULL) != SYN_OK ||
        syn_grow(&s->bytes, &s->bytes_cap, s->n_bytes + bytes, 1, NULL) != SYN_OK)
        return NULL;
    graph_op *op = &s->ops[s->n_ops++];
    memset(op, 0, sizeof *op);
    op->def = c->def;
    op->kernel = kernel;
    op->n_in = c->n_in;
    op->n_out = c->n_out;
    op->n_attr = c->n_attr;
    op->distance = distance;
    op->at = s->n_bytes;
    op->bytes = bytes;
    s->n_bytes += bytes;
    pack(c, s->bytes + op->at);
    return op;
}

/* ---- launching ops alone ---- */

static syn_status launch_alone(syn__graphs *g, syn_call *c, syn_kernel kernel, uint32_t node,
                               int segment_number, int op) {
    g->device->at.node = node;
    return syn__cuda_run_alone(g->device, c, kernel, segment_number, op);
}

/* The first n ops of a segment, which were put off. */
static syn_status launch_copies(syn__graphs *g, const segment *s, size_t n, syn_error *err) {
    syn_call *c = &g->call;
    for (size_t i = 0; i < n; i++) {
        const graph_op *op = &s->ops[i];
        const syn_operand *operands = reinterpret_cast<const syn_operand *>(s->bytes + op->at);
        c->def = op->def;
        c->n_in = op->n_in;
        c->n_out = op->n_out;
        c->n_attr = op->n_attr;
        memcpy(c->in, operands, (size_t)op->n_in * sizeof *operands);
        memcpy(c->out, operands + op->n_in, (size_t)op->n_out * sizeof *operands);
        c->attr = reinterpret_cast<const syn_attr *>(operands + op->n_in + op->n_out);
        c->device = &g->device->at;
        c->err = err;
        SYN_TRY(launch_alone(g, c, op->kernel, s->first_node + op->distance, -1, 0));
    }
    return SYN_OK;
}

/* ---- segments ---- */

static void drop_graph(segment *s) {
    if (s->exec) cudaGraphExecDestroy(s->exec);
    if (s->graph) cudaGraphDestroy(s->graph);
    s->exec = NULL;
    s->graph = NULL;
    s->n_nodes = 0;
    if (s->state == READY) s->state = NEW;
}

static void clear(segment *s) {
    drop_graph(s);
    s->state = NEW;
    s->n_ops = s->n_bytes = 0;
}

/* `fresh` takes the place of the segment. */
static void replace(syn__graphs *g, segment_state state) {
    segment *s = &g->segments[g->at];
    const segment before = *s;
    *s = g->fresh;
    s->state = state;
    g->fresh = before;
    clear(&g->fresh);
}

/* Relaxed: between two ops the context may ask for memory, which else would fail, and the capture
   with it. */
static bool begin_capture(syn__graphs *g) {
    return cudaStreamBeginCapture(g->device->at.stream, cudaStreamCaptureModeRelaxed) ==
           cudaSuccess;
}

static void begin_segment(syn__graphs *g) {
    segment *s = &g->segments[g->at];
    clear(&g->fresh);
    g->fresh.first_node = g->device->at.node;
    g->open = g->same = true;
    g->n = 0;
    g->mode = EAGER;
    if (s->state == READY && s->scratch != g->device->scratch_number) drop_graph(s);
    if (s->state == READY) {
        g->mode = REPLAY;
        s->first_node = g->device->at.node;
    } else if (s->state == SEEN_TWICE && begin_capture(g)) {
        g->mode = CAPTURE;
    } else {
        cudaGetLastError();
    }
}

/* Runs the op's function with its launches going to the graph. */
static bool sink_op(syn__graphs *g, graph_op *op, syn_call *c, syn_kernel kernel) {
    syn_error unseen = {};
    syn_error *const err = c->err;
    g->op = op;
    g->failed = false;
    sink = g;
    c->err = &unseen;
    g->device->at.node = IN_GRAPH | (uint32_t)g->at << OP_BITS | (uint32_t)g->n;
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

static bool capture(syn__graphs *g, graph_op *op, syn_call *c, syn_kernel kernel) {
    const size_t before = nodes_so_far(g);
    op->first_node = (int)g->fresh.n_nodes;
    if (!sink_op(g, op, c, kernel)) return false;
    if (nodes_so_far(g) != before + (size_t)op->nodes) op->nodes = -1;
    return true;
}

/* Compares with what the graph has, and changes its kernels where that differs. */
static bool replay(syn__graphs *g, syn_call *c, syn_kernel kernel, uint32_t distance) {
    segment *s = &g->segments[g->at];
    if (g->n >= s->n_ops || !same_kind(&s->ops[g->n], c, distance)) return false;
    graph_op *op = &s->ops[g->n];
    if (same_call(s, op, c)) return true;
    const int nodes = op->nodes;
    if (nodes < 0) return false;
    op->nodes = 0;
    const bool changed = sink_op(g, op, c, kernel);
    const bool all = op->nodes == nodes;
    op->nodes = nodes;
    if (!changed || !all) return false;
    pack(c, s->bytes + op->at);
    return true;
}

/* Ends a capture without a graph. */
static void forget_capture(syn__graphs *g) {
    cudaGraph_t graph = NULL;
    cudaStreamEndCapture(g->device->at.stream, &graph);
    if (graph) cudaGraphDestroy(graph);
    cudaGetLastError();
}

/* The segment is not what it was: what was put off is launched, op by op, and so is the rest. */
static syn_status give_up(syn__graphs *g, syn_error *err) {
    segment *s = g->mode == CAPTURE ? &g->fresh : &g->segments[g->at];
    const uint32_t node = g->device->at.node;
    if (g->mode == CAPTURE) forget_capture(g);
    const syn_status status = launch_copies(g, s, g->n, err);
    g->device->at.node = node;
    clear(&g->segments[g->at]);
    g->mode = OFF;
    return status;
}

static syn_status launch_graph(syn__graphs *g, segment *s, syn_error *err) {
    syn__cuda *d = g->device;
    syn__cuda_time_begin(d, s->first_node, g->at, -1);
    SYN_CUDA(cudaGraphLaunch(s->exec, d->at.stream), "the launch of a step's graph", err);
    syn__cuda_time_end(d);
    g->launched++;
    return SYN_OK;
}

/* The captured segment becomes a graph, which is launched. */
static syn_status end_capture(syn__graphs *g, syn_error *err) {
    segment *s = &g->fresh;
    const bool same = g->n == g->segments[g->at].n_ops && g->n >= FEWEST;
    if (!same || cudaStreamEndCapture(g->device->at.stream, &s->graph) != cudaSuccess ||
        cudaGraphInstantiate(&s->exec, s->graph, 0) != cudaSuccess) {
        cudaGetLastError();
        if (!same) forget_capture(g);
        drop_graph(s);
        SYN_TRY(launch_copies(g, s, g->n, err));
        clear(&g->segments[g->at]);
        return SYN_OK;
    }
    for (size_t i = 0; i < g->n; i++) s->ops[i].ns = g->segments[g->at].ops[i].ns;
    s->scratch = g->device->scratch_number;
    replace(g, READY);
    return launch_graph(g, &g->segments[g->at], err);
}

static syn_status end_replay(syn__graphs *g, syn_error *err) {
    segment *s = &g->segments[g->at];
    if (g->n == s->n_ops && s->scratch == g->device->scratch_number) return launch_graph(g, s, err);
    return give_up(g, err);
}

syn_status syn__graphs_end(syn__graphs *g, syn_error *err) {
    syn_status status = SYN_OK;
    if (!g || !g->open) return SYN_OK;
    const uint32_t node = g->device->at.node;
    const segment *s = &g->segments[g->at];
    g->open = false;
    if (g->mode == CAPTURE) status = end_capture(g, err);
    else if (g->mode == REPLAY) status = end_replay(g, err);
    else if (g->mode == EAGER)
        replace(g, g->same && g->n == s->n_ops && g->n >= FEWEST ? SEEN_TWICE : SEEN);
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
    const segment *s = &g->segments[g->at];
    const uint32_t distance = node - g->fresh.first_node;
    if (g->mode == REPLAY) {
        if (replay(g, c, kernel, distance)) {
            g->n++;
            return SYN_OK;
        }
        SYN_TRY(give_up(g, c->err));
        return launch_alone(g, c, kernel, node, -1, 0);
    }
    const bool same = g->n < s->n_ops && same_kind(&s->ops[g->n], c, distance);
    graph_op *op = g->n < MAX_OPS ? remember(g, c, kernel, distance) : NULL;
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
    return launch_alone(g, c, kernel, node, op ? g->at : -1, (int)g->n++);
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

static void free_segment(segment *s) {
    drop_graph(s);
    syn_free(s->ops);
    syn_free(s->bytes);
    syn_free(s->nodes);
}

void syn__graphs_close(syn__graphs *g) {
    if (!g) return;
    for (int i = 0; i < MAX_SEGMENTS; i++) free_segment(&g->segments[i]);
    free_segment(&g->fresh);
    syn_free(g);
}

/* ---- what others ask ---- */

uint32_t syn__graphs_fault_node(const syn__graphs *g, uint32_t node) {
    if (!(node & IN_GRAPH)) return node;
    const segment *s = &g->segments[(node & ~IN_GRAPH) >> OP_BITS];
    return s->first_node + s->ops[node & ((1u << OP_BITS) - 1)].distance;
}

int syn__graphs_ops(const syn__graphs *g, int segment_number) {
    return (int)g->segments[segment_number].n_ops;
}

uint32_t syn__graphs_distance(const syn__graphs *g, int segment_number, int op) {
    return g->segments[segment_number].ops[op].distance;
}

float *syn__graphs_ns(syn__graphs *g, int segment_number, int op) {
    return &g->segments[segment_number].ops[op].ns;
}

uint64_t syn__graphs_launched(const syn__graphs *g) {
    return g ? g->launched : 0;
}
