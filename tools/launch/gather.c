/* Sends graphs, numbers and statuses of MPI ranks to rank 0. */
#include "tools/launch/gather.h"

#include "export/export.h"
#include "syntorch/base/memory.h"

enum { TAG_BYTES = 1000001, TAG_GRAPH, TAG_WORK, TAG_NUMBER, TAG_STATUS, TAG_FIRST };

static const syn_export_options as_links = {.nx_key = SYN_NX_LINKS};

/* A rank's graph as sent: node-link JSON, and the device's work, which JSON does not contain. */
typedef struct parcel {
    syn_sink *json;
    const char *text;
    char *work; /* NULL: no device work was recorded */
    size_t text_bytes, work_bytes;
} parcel;

static void unwrap(parcel *p) {
    if (p->json) syn_sink_close(p->json, false, NULL);
    syn_free(p->work);
}

/* Packs a graph. The sizes of both parts are multiples of 4 bytes, because they are sent as
   int32. */
static syn_status wrap(parcel *p, const syn_graph *mine, syn_error *err) {
    const syn_work *work = mine->n_ranks > 0 ? mine->ranks[0].work : NULL;
    *p = (parcel){0};
    SYN_TRY(syn_export_memory(&p->json, mine, &syn_export_json, &as_links, err));
    for (uint64_t n = syn_sink_bytes(p->json); n % sizeof(int32_t); n++)
        syn_sink_char(p->json, '\n');
    p->text = syn_sink_data(p->json, &p->text_bytes);
    syn_status s = p->text ? SYN_OK : SYN_E_NOMEM;
    if (s != SYN_OK) {
        s = syn_sink_close(p->json, true, err);
        p->json = NULL;
    } else if (work && work->n_nodes > 0) {
        s = syn_work_pack(work, &p->work, &p->work_bytes, err);
    }
    if (s != SYN_OK) unwrap(p);
    return s;
}

/* Unpacks a received graph. */
static syn_status open_parcel(syn_graph **out, const parcel *p, syn_error *err) {
    syn_work work;
    SYN_TRY(syn_import_json_memory(out, "a rank's graph", p->text, p->text_bytes, err));
    if (!p->work) return SYN_OK;
    syn_status s = syn_work_unpack(&work, p->work, p->work_bytes, err);
    if (s == SYN_OK) {
        s = syn_graph_set_work(*out, 0, &work, err);
        syn_work_free(&work);
    }
    if (s != SYN_OK) {
        syn_graph_free(*out);
        *out = NULL;
    }
    return s;
}

static syn_status send_graph(syn_comm *comm, const syn_graph *mine, syn_error *err) {
    parcel p;
    SYN_TRY(wrap(&p, mine, err));
    const int64_t bytes[] = {(int64_t)p.text_bytes, (int64_t)p.work_bytes};
    const size_t word = sizeof(int32_t);
    syn_status s = syn_comm_send(comm, bytes, 2, SYN_I64, 0, TAG_BYTES, err);
    if (s == SYN_OK)
        s = syn_comm_send(comm, p.text, p.text_bytes / word, SYN_I32, 0, TAG_GRAPH, err);
    if (s == SYN_OK && p.work)
        s = syn_comm_send(comm, p.work, p.work_bytes / word, SYN_I32, 0, TAG_WORK, err);
    unwrap(&p);
    return s;
}

static syn_status receive_graph(syn_graph **out, syn_comm *comm, int32_t from, syn_error *err) {
    const size_t word = sizeof(int32_t);
    int64_t bytes[2];
    SYN_TRY(syn_comm_recv(comm, bytes, 2, SYN_I64, from, TAG_BYTES, err));
    const size_t all = (size_t)bytes[0] + (size_t)bytes[1];
    char *text = syn_malloc(all);
    if (!text) return SYN_FAIL_NOMEM(err, all, "a rank's graph");
    const parcel p = {.text = text,
                      .text_bytes = (size_t)bytes[0],
                      .work = bytes[1] > 0 ? text + bytes[0] : NULL,
                      .work_bytes = (size_t)bytes[1]};
    syn_status s = syn_comm_recv(comm, text, p.text_bytes / word, SYN_I32, from, TAG_GRAPH, err);
    if (s == SYN_OK && p.work)
        s = syn_comm_recv(comm, p.work, p.work_bytes / word, SYN_I32, from, TAG_WORK, err);
    if (s == SYN_OK) s = open_parcel(out, &p, err);
    syn_free(text);
    return s;
}

syn_status gather_copy(syn_graph **out, const syn_graph *mine, syn_error *err) {
    parcel p;
    SYN_TRY(wrap(&p, mine, err));
    const syn_status s = open_parcel(out, &p, err);
    unwrap(&p);
    return s;
}

syn_status gather_graphs(syn_graph **all, syn_comm *comm, const syn_graph *mine, syn_error *err) {
    *all = NULL;
    if (comm->rank != 0) return send_graph(comm, mine, err);
    syn_graph **parts = syn_calloc((size_t)comm->size, sizeof *parts);
    if (!parts) return SYN_FAIL_NOMEM(err, (size_t)comm->size * sizeof *parts, "the ranks' graphs");
    /* Rank 0's own graph is packed and unpacked, too, so that all parts have the same form. */
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
