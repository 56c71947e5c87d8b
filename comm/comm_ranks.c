/* Runs one function on the ranks of a program, as threads or as MPI processes, or traces all ranks
   of a world on meta. */
#include "comm/comm.h"

#include <stdio.h>

#include "syntorch/base/memory.h"

static void print_line(void *unused, const char *sentence) {
    (void)unused;
    fprintf(stderr, "%s\n", sentence);
}

/* Runs this process as one rank. If it fails, it aborts the other ranks. */
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
    const syn_plan *plan;
    syn_device device;
    syn_rank_program *ops;
    void *arg;
} work;

/* The caller frees the context, even after a failure. */
static syn_status do_rank(syn_ctx **ctx, syn_comm *comm, const work *w, syn_error *err) {
    syn_mesh mesh;
    syn_plan plan = *w->plan;
    plan.ranks = comm->size; /* the launcher's number of ranks, if there is a launcher */
    SYN_TRY(syn_mesh_open(&mesh, comm, &plan, err));
    SYN_TRY(syn_ctx_new(ctx, w->device, comm, err));
    const syn_status s = w->ops(*ctx, &mesh, w->arg, err);
    const syn_status in_context = syn_ctx_check(*ctx, err);
    return s != SYN_OK ? s : in_context;
}

static syn_status compute(syn_comm *comm, void *arg, syn_error *err) {
    const work *w = arg;
    syn_ctx *ctx = NULL;
    const syn_status s = do_rank(&ctx, comm, w, err);
    syn_ctx_free(ctx);
    return s;
}

syn_status syn_ranks_compute(const syn_plan *plan, syn_device device, syn_rank_program *ops,
                             void *arg, syn_error *err) {
    syn_plan whole = *plan;
    SYN_TRY(syn_plan_complete(&whole, err));
    return syn_ranks_run(whole.ranks, compute, &(work){plan, device, ops, arg}, err);
}

/* ---- On meta ---- */

/* The source of a graph that owns the contexts of its traces. `source` is a copy of the source that
   syn_trace_graph created, except that its `free` also frees the contexts. */
typedef struct traced_ranks {
    syn_graph_source source; /* must be the first member: graph->source points to it */
    const syn_graph_source *of_traces;
    const syn_trace **traces;
    int32_t n;
    syn_ctx *ctx[];
} traced_ranks;

static void free_contexts(traced_ranks *k) {
    for (int32_t r = 0; r < k->n; r++) syn_ctx_free(k->ctx[r]);
    syn_free(k->traces);
    syn_free(k);
}

static void free_graph(syn_graph *graph) {
    traced_ranks *k = (traced_ranks *)graph->source;
    k->of_traces->free(graph);
    free_contexts(k);
}

static syn_status trace(traced_ranks *k, int32_t size, const work *w, syn_error *err) {
    for (syn_status s = SYN_OK; k->n < size;) {
        const int32_t r = k->n++;
        syn_comm *comm;
        SYN_TRY(syn_comm_fake_new(&comm, r, size, err));
        s = do_rank(&k->ctx[r], comm, w, err);
        syn_comm_close(comm);
        SYN_TRY(s);
        k->traces[r] = syn_ctx_trace(k->ctx[r]);
    }
    return SYN_OK;
}

syn_status syn_ranks_trace(syn_graph **out, const syn_plan *plan, const syn_hardware *hw,
                           syn_rank_program *ops, void *arg, syn_error *err) {
    syn_plan whole = *plan;
    SYN_TRY(syn_plan_complete(&whole, err));
    const int32_t size = whole.ranks;
    const size_t bytes = sizeof(traced_ranks) + (size_t)size * sizeof(syn_ctx *);
    traced_ranks *k = syn_calloc(1, bytes);
    if (!k) return SYN_FAIL_NOMEM(err, bytes, "ranks");
    k->traces = syn_calloc((size_t)size, sizeof *k->traces);
    syn_status s = k->traces ? SYN_OK : SYN_FAIL_NOMEM(err, bytes, "ranks");
    if (s == SYN_OK) s = trace(k, size, &(work){plan, SYN_DEVICE_META, ops, arg}, err);
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
