/* Measures writing and reading execution traces with 100,000 nodes of a synthetic rank, and
   compares the speed with protobuf-c's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "export/chakra/wire/et_frames.h"
#include "export/chakra/wire/et_node.h"
#include "export/export.h"
#include "tests/support/bench.h"
#if defined(SYN_HAVE_PROTOBUF_C)
#include "chakra_schema.pb-c.h"
#endif

#define N_NODES 100000u
#define LIMIT_S 0.3 /* seconds for writing */
#define ROUNDS  5

/* Blocks of ten nodes: seven ops on stream 0, a view, and two all-reduces on stream 1. */
static syn_status fill(syn_graph *g, syn_error *err) {
    char scope[32];
    for (uint32_t i = 0; i < N_NODES; i++) {
        const uint32_t k = i % 10;
        const bool comm = k == 4 || k == 9;
        const syn_dep deps[2] = {{i > 2 ? i - 3 : 0, SYN_DEP_DATA}, {i - 1, SYN_DEP_DATA}};
        snprintf(scope, sizeof scope, "h.%u.%s", i / 10 % 96, k < 5 ? "attn" : "mlp");
        const syn_node node = {.id = i + 1,
                               .kind = comm ? SYN_NODE_COLLECTIVE : SYN_NODE_COMPUTE,
                               .flags = k == 2 ? SYN_NODE_VIRTUAL : 0,
                               .phase = i % 3 == 0 ? SYN_PHASE_FORWARD : SYN_PHASE_BACKWARD,
                               .stream = comm ? 1 : 0,
                               .op = comm ? "all_reduce" : "linear",
                               .label = comm ? "all_reduce" : "c_fc",
                               .scope = scope,
                               .deps = i > 2 ? deps : deps + 1,
                               .n_deps = i > 2 ? 2 : i > 0,
                               .flops = comm ? 0 : 1ull << 36,
                               .bytes_read = 1 << 24,
                               .bytes_written = 1 << 22,
                               .comm = comm ? SYN_COMM_ALL_REDUCE : SYN_COMM_NONE,
                               .reduce = comm ? (int32_t)SYN_REDUCE_SUM : -1,
                               .group = comm ? 1 : 0,
                               .comm_bytes = comm ? 1 << 22 : 0,
                               .comm_index = i / 10 * 2 + (k == 9),
                               .peer = -1,
                               .root = -1,
                               .wall_ns = 1e5 + i};
        SYN_TRY(syn_graph_add_node(g, 0, &node, err));
    }
    return SYN_OK;
}

/* The seconds of the fastest of a few runs. *out is the text of the last run. */
static double time_export(const syn_exporter *exporter, const syn_graph *g, char **out,
                          size_t *bytes) {
    double best = 1e9;
    *out = NULL;
    for (int i = 0; i < ROUNDS; i++) {
        syn_error err = {0};
        syn_sink *sink;
        const double start = now_s();
        if (syn_export_memory(&sink, g, exporter, NULL, &err) != SYN_OK) return -1;
        const double took = now_s() - start;
        if (took < best) best = took;
        const char *data = syn_sink_data(sink, bytes);
        free(*out);
        *out = data != NULL ? (char *)malloc(*bytes + 1) : NULL;
        if (*out != NULL) memcpy(*out, data, *bytes);
        if (syn_sink_close(sink, false, &err) != SYN_OK) return -1;
    }
    return best;
}

#if defined(SYN_HAVE_PROTOBUF_C)
/* The seconds that our code takes to decode all messages of a file. With `write`, decodes and
   encodes them; the caller subtracts the time of decoding. */
static double all_ours(const char *data, size_t bytes, bool write) {
    syn__et_frames frames = syn__et_frames_of("bench", data, bytes);
    syn__et_decoder decoder = {0};
    syn__et_frame frame;
    syn__et_node node;
    syn__buf buf = {0};
    bool more = true;
    const double start = now_s();
    (void)syn__et_frames_next(&frames, &frame, &more, NULL); /* skips the metadata */
    while (syn__et_frames_next(&frames, &frame, &more, NULL) == SYN_OK && more) {
        if (syn__et_decode_node(&decoder, frame.message, &node) != SYN_OK) break;
        buf.bytes = 0;
        if (write) syn__et_put_node(&buf, &node);
    }
    const double took = now_s() - start;
    syn__et_decoder_free(&decoder);
    syn__buf_free(&buf);
    return took;
}

static double all_protobuf(const char *data, size_t bytes, bool write) {
    static uint8_t packed[1 << 16];
    syn__et_frames frames = syn__et_frames_of("bench", data, bytes);
    syn__et_frame frame;
    bool more = true;
    const double start = now_s();
    (void)syn__et_frames_next(&frames, &frame, &more, NULL);
    while (syn__et_frames_next(&frames, &frame, &more, NULL) == SYN_OK && more) {
        Syn__Chakra__Node *node = syn__chakra__node__unpack(NULL, frame.message.bytes,
                                                            (const uint8_t *)frame.message.text);
        if (node == NULL) break;
        if (write && syn__chakra__node__get_packed_size(node) <= sizeof packed)
            syn__chakra__node__pack(node, packed);
        syn__chakra__node__free_unpacked(node, NULL);
    }
    return now_s() - start;
}

/* Reads and writes the same bytes, message by message, with our code and with protobuf-c. */
static void compare_with_protobuf(const char *data, size_t bytes) {
    double (*const all[2])(const char *, size_t, bool) = {all_ours, all_protobuf};
    double best[2][2] = {{1e9, 1e9}, {1e9, 1e9}};
    for (int i = 0; i < ROUNDS * 4; i++) {
        const double took = all[i / 2 % 2](data, bytes, i % 2 != 0);
        if (took < best[i / 2 % 2][i % 2]) best[i / 2 % 2][i % 2] = took;
    }
    for (int k = 0; k < 2; k++) best[k][1] -= best[k][0];
    printf("ET messages read: %.3f s, by protobuf-c %.3f s (%.1f times)\n", best[0][0], best[1][0],
           best[1][0] / best[0][0]);
    printf("ET messages written: %.3f s, by protobuf-c %.3f s (%.1f times)\n", best[0][1],
           best[1][1], best[1][1] / best[0][1]);
}
#endif

static int run(syn_graph *g) {
    size_t bytes = 0;
    char *data;
    syn_error err = {0};
    const double json_s = time_export(&syn_export_chakra, g, &data, &bytes);
    free(data);
    printf("Chakra JSON of %u nodes: %.3f s, %.1f MB\n", N_NODES, json_s, (double)bytes / 1e6);
    const double et_s = time_export(&syn_export_et, g, &data, &bytes);
    printf("ET export of %u nodes: %.3f s (limit %.1f s), %.1f bytes a node\n", N_NODES, et_s,
           LIMIT_S, (double)bytes / N_NODES);
    if (data == NULL) return 1;
    syn_graph *back = NULL;
    const double start = now_s();
    const syn_status status = syn_import_et_memory(&back, "bench", data, bytes, &err);
    printf("ET import: %.3f s\n", now_s() - start);
    if (status != SYN_OK) fprintf(stderr, "%s\n", err.text);
#if defined(SYN_HAVE_PROTOBUF_C)
    compare_with_protobuf(data, bytes);
#endif
    syn_graph_free(back);
    free(data);
    return status != SYN_OK || et_s < 0 || et_s > LIMIT_S;
}

int main(void) {
    static const int32_t pair[] = {0, 1};
    const syn_graph_group group = {1, "tp0", pair, 2};
    syn_error err = {0};
    syn_graph *g;
    if (syn_graph_new(&g, pair, 1, 2, &err) != SYN_OK ||
        syn_graph_add_group(g, &group, &err) != SYN_OK || fill(g, &err) != SYN_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    const int failed = run(g);
    syn_graph_free(g);
    return failed;
}
