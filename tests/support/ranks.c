/* Implements ranks.h: gives each rank a context and keeps or frees it. */
#include "tests/support/ranks.h"

#include <stdio.h>
#include <string.h>

#include "syntorch/mesh.h"

typedef struct run {
    int n;
    syn_device device;
    rank_body *body;
    void *arg;
    syn_ctx **kept; /* contexts of all ranks are stored here; NULL: they are freed */
} run;

static syn_status rank_main(syn_comm *comm, void *arg, syn_error *err) {
    const run *r = arg;
    syn_mesh mesh;
    syn_ctx *ctx = NULL;
    SYN_TRY(syn_mesh_open(&mesh, comm, &(syn_plan){.tp = r->n}, err));
    SYN_TRY(syn_ctx_new(&ctx, r->device, comm, err));
    const test_rank me = {comm->rank, comm, ctx, mesh.group[SYN_AXIS_TP]};
    syn_status s = r->body(&me, r->arg, err);
    const syn_status in_context = syn_ctx_check(ctx, err);
    if (s == SYN_OK) s = in_context;
    if (s == SYN_OK) s = syn_trace_verify(syn_ctx_trace(ctx), err);
    if (r->kept != NULL) r->kept[comm->rank] = ctx;
    else syn_ctx_free(ctx);
    return s;
}

syn_status run_without_transport(int n, syn_rank_main *main, void *arg, syn_error *err) {
    for (int r = 0; r < n; r++) {
        syn_comm *comm;
        SYN_TRY(syn_comm_fake_new(&comm, r, n, err));
        const syn_status s = main(comm, arg, err);
        syn_comm_close(comm);
        SYN_TRY(s);
    }
    return SYN_OK;
}

syn_status run_ranks(int n, rank_body *body, void *arg, syn_error *err) {
    return syn_local_run(n, rank_main, &(run){n, SYN_DEVICE_CPU, body, arg, NULL}, err);
}

bool keep_ranks(int n, syn_device device, int how, rank_body *body, void *arg, syn_ctx **ctx) {
    run r = {n, device, body, arg, ctx};
    syn_error err = {0};
    const bool ok = (how == IN_THREADS ? syn_local_run : run_without_transport)(n, rank_main, &r,
                                                                                &err) == SYN_OK;
    if (!ok) fprintf(stderr, "%s\n", err.text);
    return ok;
}

void drop_ranks(int n, syn_ctx **ctx) {
    for (int r = 0; r < n; r++) {
        syn_ctx_free(ctx[r]);
        ctx[r] = NULL;
    }
}

syn_graph *rank_graph(const syn_ctx *ctx) {
    const syn_trace *trace = syn_ctx_trace(ctx);
    syn_error err = {0};
    syn_graph *g = NULL;
    if (syn_trace_graph(&g, &trace, 1, NULL, &err) == SYN_OK && syn_graph_verify(g, &err) == SYN_OK)
        return g;
    fprintf(stderr, "%s\n", err.text);
    syn_graph_free(g);
    return NULL;
}

bool trace_hashes(int n, syn_device device, int how, rank_body *body, void *arg, uint64_t *out) {
    syn_ctx *ctx[8] = {NULL};
    const bool ok = keep_ranks(n, device, how, body, arg, ctx);
    for (int r = 0; r < n && ok; r++) out[r] = syn_trace_hash(syn_ctx_trace(ctx[r]));
    drop_ranks(n, ctx);
    return ok;
}

bool new_trace_everywhere(seen_traces *seen, int n, rank_body *body, void *arg, uint64_t *seed) {
    uint64_t cpu[8], a[8], b[8], other[8];
    const size_t bytes = (size_t)n * sizeof *cpu;
    bool ok = trace_hashes(n, SYN_DEVICE_CPU, IN_THREADS, body, arg, cpu) &&
              trace_hashes(n, SYN_DEVICE_META, IN_THREADS, body, arg, a) &&
              trace_hashes(n, SYN_DEVICE_META, WITHOUT_TRANSPORT, body, arg, b);
    *seed += 98; /* the seed is not part of a trace's hash */
    ok = ok && trace_hashes(n, SYN_DEVICE_CPU, IN_THREADS, body, arg, other) &&
         memcmp(cpu, a, bytes) == 0 && memcmp(cpu, b, bytes) == 0 && memcmp(cpu, other, bytes) == 0;
    for (int r = 0; r < n && r < 2 && ok; r++) {
        for (int i = 0; i < seen->n; i++) ok = ok && cpu[r] != seen->hash[i];
        seen->hash[seen->n++] = cpu[r];
    }
    return ok;
}
