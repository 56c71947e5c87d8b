/* Runs one function on the ranks of a program, wherever they are, or on meta on all of a world that
   nobody has. */
#include "comm/comm.h"

#include <stdio.h>

#include "syntorch/base/memory.h"

static void print_line(void *unused, const char *sentence) {
    (void)unused;
    fprintf(stderr, "%s\n", sentence);
}

/* This process is one rank. The others are ended by its failure. */
static syn_status run_process(syn_rank_main *rank_main, void *arg, syn_error *err) {
    const syn_mpi_options options = {.overlap = true, .log = print_line};
    syn_comm *comm = NULL;
    SYN_TRY(syn_comm_mpi_new(&comm, &options, err));
    const syn_status s = rank_main(comm, arg, err);
    if (s != SYN_OK) comm->ops->abort(comm, err->code != SYN_OK ? err->text : syn_status_name(s));
    else syn_comm_close(comm);
    return s;
}

syn_status syn_ranks_run(int32_t size, syn_rank_main *rank_main, void *arg, syn_error *err) {
    int32_t launched = 1;
    if (syn_mpi_launched(NULL, &launched) && launched > 1) return run_process(rank_main, arg, err);
    return syn_local_run(size, rank_main, arg, err);
}

/* ---- With a mesh and a context ---- */

typedef struct work {
    int32_t tp;
    syn_device device;
    syn_rank_ops *ops;
    void *arg;
} work;

/* The context is the caller's, also after a failure. */
static syn_status do_rank(syn_ctx **ctx, syn_comm *comm, const syn_mesh_shape *shape, const work *w,
                          syn_error *err) {
    syn_mesh mesh;
    SYN_TRY(syn_mesh_open(&mesh, comm, shape, err));
    SYN_TRY(syn_ctx_new(ctx, w->device, comm, err));
    const syn_status s = w->ops(*ctx, &mesh, w->arg, err);
    const syn_status in_context = syn_ctx_check(*ctx, err);
    return s != SYN_OK ? s : in_context;
}

static syn_status compute(syn_comm *comm, void *arg, syn_error *err) {
    const work *w = arg;
    syn_ctx *ctx = NULL;
    const syn_mesh_shape shape = {.tp = w->tp, .dp = comm->size / w->tp};
    const syn_status s = do_rank(&ctx, comm, &shape, w, err);
    syn_ctx_free(ctx);
    return s;
}

syn_status syn_ranks_compute(int32_t size, int32_t tp, syn_device device, syn_rank_ops *ops,
                             void *arg, syn_error *err) {
    if (tp < 1) return SYN_FAIL(err, SYN_E_INVALID, "tp %d: a layer has at least one rank", tp);
    return syn_ranks_run(size, compute, &(work){tp, device, ops, arg}, err);
}

/* ---- On meta ---- */

/* A graph of traces whose contexts go when it does. */
typedef struct kept {
    syn_graph_source source; /* first: the graph's */
    const syn_graph_source *of_traces;
    const syn_trace **traces;
    int32_t n;
    syn_ctx *ctx[];
} kept;

static void free_contexts(kept *k) {
    for (int32_t r = 0; r < k->n; r++) syn_ctx_free(k->ctx[r]);
    syn_free(k->traces);
    syn_free(k);
}

static void free_graph(syn_graph *graph) {
    kept *k = (kept *)graph->source;
    k->of_traces->free(graph);
    free_contexts(k);
}

static syn_status trace(kept *k, int32_t size, const syn_mesh_shape *shape, const work *w,
                        syn_error *err) {
    for (syn_status s = SYN_OK; k->n < size;) {
        const int32_t r = k->n++;
        syn_comm *comm;
        SYN_TRY(syn_comm_fake_new(&comm, r, size, err));
        s = do_rank(&k->ctx[r], comm, shape, w, err);
        syn_comm_close(comm);
        SYN_TRY(s);
        k->traces[r] = syn_ctx_trace(k->ctx[r]);
    }
    return SYN_OK;
}

/* 1 if the shape makes no sense: syn_mesh_open then says why. */
static int32_t world_size(const syn_mesh_shape *shape) {
    const int64_t n = (int64_t)(shape->tp ? shape->tp : 1) * (shape->dp ? shape->dp : 1);
    const int32_t pp = shape->pp ? shape->pp : 1;
    return n > 0 && pp > 0 && n <= INT32_MAX / pp ? (int32_t)n * pp : 1;
}

syn_status syn_ranks_trace(syn_graph **out, const syn_mesh_shape *shape, const syn_hardware *hw,
                           syn_rank_ops *ops, void *arg, syn_error *err) {
    const int32_t size = world_size(shape);
    const size_t bytes = sizeof(kept) + (size_t)size * sizeof(syn_ctx *);
    kept *k = syn_calloc(1, bytes);
    if (!k) return SYN_FAIL_NOMEM(err, bytes, "ranks");
    k->traces = syn_calloc((size_t)size, sizeof *k->traces);
    syn_status s = k->traces ? SYN_OK : SYN_FAIL_NOMEM(err, bytes, "ranks");
    if (s == SYN_OK) s = trace(k, size, shape, &(work){1, SYN_DEVICE_META, ops, arg}, err);
    if (s == SYN_OK) s = syn_trace_graph(out, k->traces, (uint32_t)size, hw, err);
    if (s != SYN_OK) {
        free_contexts(k);
        return s;
    }
    k->of_traces = (*out)->source;
    k->source = *k->of_traces;
    k->source.free = free_graph;
    (*out)->source = &k->source;
    return SYN_OK;
}
