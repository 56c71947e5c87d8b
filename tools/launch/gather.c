#include "tools/launch/gather.h"

#include "export/export.h"
#include "syntorch/memory.h"

enum { TAG_BYTES = 1000001, TAG_GRAPH, TAG_NUMBER, TAG_STATUS, TAG_FIRST };

static const syn_export_options as_links = {.nx_key = SYN_NX_LINKS};

/* The graph travels as node-link JSON, which holds all of it. */
static syn_status send_graph(syn_comm *comm, const syn_graph *mine, syn_error *err) {
    syn_sink *sink;
    SYN_TRY(syn_export_memory(&sink, mine, &syn_export_json, &as_links, err));
    for (uint64_t n = syn_sink_bytes(sink); n % sizeof(int32_t); n++) syn_sink_char(sink, '\n');
    size_t bytes = 0;
    const char *data = syn_sink_data(sink, &bytes);
    const int64_t header = (int64_t)bytes;
    if (!data) return syn_sink_close(sink, true, err);
    syn_status s = syn_comm_send(comm, &header, 1, SYN_I64, 0, TAG_BYTES, err);
    if (s == SYN_OK)
        s = syn_comm_send(comm, data, bytes / sizeof(int32_t), SYN_I32, 0, TAG_GRAPH, err);
    syn_sink_close(sink, false, NULL);
    return s;
}

static syn_status receive_graph(syn_graph **out, syn_comm *comm, int32_t from, syn_error *err) {
    int64_t bytes;
    SYN_TRY(syn_comm_recv(comm, &bytes, 1, SYN_I64, from, TAG_BYTES, err));
    char *data = syn_malloc((size_t)bytes);
    if (!data) return SYN_FAIL_NOMEM(err, (size_t)bytes, "a rank's graph");
    syn_status s =
        syn_comm_recv(comm, data, (size_t)bytes / sizeof(int32_t), SYN_I32, from, TAG_GRAPH, err);
    if (s == SYN_OK) s = syn_import_json_memory(out, "a rank's graph", data, (size_t)bytes, err);
    syn_free(data);
    return s;
}

syn_status gather_copy(syn_graph **out, const syn_graph *mine, syn_error *err) {
    syn_sink *sink;
    size_t bytes;
    SYN_TRY(syn_export_memory(&sink, mine, &syn_export_json, &as_links, err));
    const char *data = syn_sink_data(sink, &bytes);
    const syn_status s = syn_import_json_memory(out, "a rank's graph", data, bytes, err);
    syn_sink_close(sink, false, NULL);
    return s;
}

syn_status gather_graphs(syn_graph **all, syn_comm *comm, const syn_graph *mine, syn_error *err) {
    *all = NULL;
    if (comm->rank != 0) return send_graph(comm, mine, err);
    syn_graph **parts = syn_calloc((size_t)comm->size, sizeof *parts);
    if (!parts) return SYN_FAIL_NOMEM(err, (size_t)comm->size * sizeof *parts, "the ranks' graphs");
    /* Rank 0's own goes the same way, so that all parts are alike. */
    syn_status s = gather_copy(&parts[0], mine, err);
    for (int32_t r = 1; r < comm->size && s == SYN_OK; r++)
        s = receive_graph(&parts[r], comm, r, err);
    if (s == SYN_OK) s = syn_graph_union(all, parts, (uint32_t)comm->size, err);
    for (int32_t r = 0; r < comm->size && s != SYN_OK; r++) syn_graph_free(parts[r]);
    syn_free(parts);
    return s;
}

syn_status gather_numbers(uint64_t *all, syn_comm *comm, uint64_t mine, syn_error *err) {
    if (comm->rank != 0) return syn_comm_send(comm, &mine, 1, SYN_I64, 0, TAG_NUMBER, err);
    all[0] = mine;
    for (int32_t r = 1; r < comm->size; r++)
        SYN_TRY(syn_comm_recv(comm, &all[r], 1, SYN_I64, r, TAG_NUMBER, err));
    return SYN_OK;
}

syn_status gather_agreement(gather_start *out, syn_comm *comm, syn_status mine, uint64_t plan,
                            syn_error *err) {
    int64_t message[2] = {(int64_t)mine, (int64_t)plan};
    int32_t answer[2] = {mine != SYN_OK ? comm->rank : -1, -1};
    if (comm->rank != 0) {
        SYN_TRY(syn_comm_send(comm, message, 2, SYN_I64, 0, TAG_STATUS, err));
        SYN_TRY(syn_comm_recv(comm, answer, 2, SYN_I32, 0, TAG_FIRST, err));
    }
    for (int32_t r = 1; comm->rank == 0 && r < comm->size; r++) {
        SYN_TRY(syn_comm_recv(comm, message, 2, SYN_I64, r, TAG_STATUS, err));
        if (message[0] != SYN_OK && answer[0] < 0) answer[0] = r;
        if ((uint64_t)message[1] != plan && answer[1] < 0) answer[1] = r;
    }
    for (int32_t r = 1; comm->rank == 0 && r < comm->size; r++)
        SYN_TRY(syn_comm_send(comm, answer, 2, SYN_I32, r, TAG_FIRST, err));
    *out = (gather_start){answer[0], answer[1]};
    return SYN_OK;
}

syn_status gather_difference(int *first, syn_comm *comm, int32_t other, const uint64_t *mine, int n,
                             syn_error *err) {
    uint64_t theirs;
    *first = -1;
    for (int i = 0; i < n; i++) {
        if (comm->rank != 0) {
            SYN_TRY(syn_comm_send(comm, &mine[i], 1, SYN_I64, 0, TAG_NUMBER, err));
            continue;
        }
        SYN_TRY(syn_comm_recv(comm, &theirs, 1, SYN_I64, other, TAG_NUMBER, err));
        if (theirs != mine[i] && *first < 0) *first = i;
    }
    return SYN_OK;
}
