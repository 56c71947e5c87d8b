/* Tests a training step of two ranks in every format: the tensors of a gradient bucket, its bytes
   and its dependencies. The expected values were computed manually from the layer sizes. */
#include "export/statistics.h"
#include "models/layers.h"
#include "models/training/data_parallel.h"
#include "models/training/optimizer.h"
#include "syntorch/gradient.h"
#include "syntorch/mesh.h"
#include "tests/support/exported.h"
#include "tests/support/files.h"
#include "tests/support/ranks.h"
#include "tests/support/test.h"

/* The matrix of fc3 is small, and that of fc2 is larger than the first bucket's 1 MiB. The first
   bucket therefore has biases and matrices of both layers, and the second bucket has the rest. */
enum { RANKS = 2, LAYERS = 3, BATCH = 4, BUCKETS = 2 };
static const int64_t widths[LAYERS + 1] = {512, 600, 600, 8};
static const uint64_t bucket_bytes[BUCKETS] = {4 * (8 + 600 * 8 + 600 + 600 * 600),
                                               4 * (600 + 512 * 600)};
static const uint32_t bucket_grads[BUCKETS] = {4, 2};

static syn_status train(syn_ctx *ctx, const syn_group *dp, syn_error *err) {
    static const char *const names[LAYERS] = {"fc1", "fc2", "fc3"};
    const syn_initializer init = {.std = 0.1, .seed = 1};
    const syn_spec xs = {SYN_F32, 2, {BATCH, widths[0]}}, ys = {SYN_I32, 1, {BATCH}};
    syn_layer_linear layers[LAYERS];
    syn_data_parallel *parallel = NULL;
    syn_optimizer *optimizer = NULL;
    for (int i = 0; i < LAYERS; i++)
        layers[i] = syn_column_linear_new(ctx, names[i], widths[i], widths[i + 1], 1, &init, NULL);
    SYN_TRY(syn_data_parallel_new(&parallel, ctx, &(syn_data_parallel_options){.dp = dp}, err));
    syn_status s = syn_optimizer_new(&optimizer, ctx, &(syn_optimizer_options){0}, err);
    syn_tensor x = syn_input(ctx, "x", &xs, NULL);
    for (int i = 0; i < LAYERS; i++) {
        x = syn_column_linear(ctx, x, &layers[i], false, NULL, names[i]);
        if (i < LAYERS - 1) x = syn_gelu(ctx, x, true);
    }
    const syn_tensor y = syn_input(ctx, "y", &ys, NULL);
    if (s == SYN_OK) s = syn_backward(ctx, syn_cross_entropy(ctx, x, y, SYN_MEAN, widths[LAYERS]));
    if (s == SYN_OK) s = syn_data_parallel_check(parallel, err);
    if (s == SYN_OK) s = syn_optimizer_step(optimizer, 0.01, err);
    syn_optimizer_free(optimizer);
    syn_data_parallel_free(parallel);
    return s;
}

static syn_status train_rank(syn_comm *comm, void *arg, syn_error *err) {
    syn_ctx **ctx = arg;
    syn_mesh mesh;
    SYN_TRY(syn_mesh_open(&mesh, comm, &(syn_plan){.dp = RANKS}, err));
    SYN_TRY(syn_ctx_new(&ctx[comm->rank], SYN_DEVICE_META, comm, err));
    syn_ctx_set_overlap(ctx[comm->rank], true);
    const syn_status s = train(ctx[comm->rank], mesh.group[SYN_AXIS_DP], err);
    return s == SYN_OK ? syn_ctx_check(ctx[comm->rank], err) : s;
}

/* The step's graph. drop_ranks frees its contexts. */
static syn_graph *trained(syn_ctx **ctx) {
    const syn_trace *traces[RANKS];
    syn_error err = {0};
    syn_graph *g = NULL;
    syn_status s = run_without_transport(RANKS, train_rank, ctx, &err);
    for (int r = 0; r < RANKS && s == SYN_OK; r++) traces[r] = syn_ctx_trace(ctx[r]);
    if (s == SYN_OK) s = syn_trace_graph(&g, traces, RANKS, NULL, &err);
    if (s == SYN_OK) s = syn_graph_verify(g, &err);
    NEED_OK(s, err);
    return g;
}

/* Stores the indices of a rank's nodes with this label in `at` and returns their number. */
static uint32_t find(const syn_graph *g, uint32_t rank, const char *label, uint32_t *at,
                     uint32_t most) {
    syn_cursor cur = {0};
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->ranks[rank].n_nodes; i++)
        if (strcmp(syn_graph_node(g, rank, i, &cur)->label, label) == 0 && n++ < most)
            at[n - 1] = i;
    syn_cursor_free(&cur);
    return n;
}

/* Whether node `from` depends on node `to` through data dependencies, directly or indirectly. */
static bool depends(const syn_graph *g, uint32_t from, uint32_t to) {
    syn_cursor cur = {0};
    bool *reached = calloc(g->ranks[0].n_nodes, sizeof *reached);
    reached[from] = true;
    for (uint32_t i = from; i > to; i--) {
        if (!reached[i]) continue;
        const syn_node *n = syn_graph_node(g, 0, i, &cur);
        for (uint32_t d = 0; d < n->n_deps; d++) reached[n->deps[d].node] = true;
    }
    const bool found = reached[to];
    syn_cursor_free(&cur);
    free(reached);
    return found;
}

/* The node that has the tensor as one of its outputs. */
static uint32_t maker(const syn_graph *g, uint32_t tensor) {
    syn_cursor cur = {0};
    uint32_t found = SYN_NO_NODE;
    for (uint32_t i = 0; i < g->ranks[0].n_nodes && found == SYN_NO_NODE; i++) {
        const syn_node *n = syn_graph_node(g, 0, i, &cur);
        for (uint32_t k = 0; k < n->n_outputs; k++)
            if (n->outputs[k] == tensor) found = i;
    }
    syn_cursor_free(&cur);
    return found;
}

static void a_bucket_waits_for_its_gradients_alone(void) {
    syn_ctx *ctx[RANKS] = {NULL};
    syn_graph *g = trained(ctx);
    uint32_t at[BUCKETS] = {0};
    syn_cursor cur = {0};
    CHECK_INT(find(g, 0, "all_reduce_coalesced", at, BUCKETS), BUCKETS);
    for (int b = 0; b < BUCKETS; b++) {
        const syn_node *n = syn_graph_node(g, 0, at[b], &cur);
        CHECK_INT(n->n_inputs, bucket_grads[b]);
        CHECK_INT(n->n_deps, bucket_grads[b]); /* each gradient is computed by a different op */
        CHECK_INT(n->comm_bytes, bucket_bytes[b]);
        CHECK_INT(n->bytes_read, bucket_bytes[b]);
        CHECK_INT(n->bytes_written, bucket_bytes[b]);
        CHECK_INT(n->stream, 1);
        CHECK_INT(n->phase, SYN_PHASE_BACKWARD);
        for (uint32_t i = 0; i < n->n_inputs; i++) {
            const uint32_t made_by = maker(g, n->inputs[i]);
            bool named = false;
            for (uint32_t d = 0; d < n->n_deps; d++)
                named =
                    named || (n->deps[d].node == made_by && n->deps[d].dep_class == SYN_DEP_DATA);
            CHECK_MSG(named, "bucket %d does not wait for gradient %d", b, (int)i);
        }
    }
    /* The second bucket's gradients do not wait for the first bucket. */
    CHECK(at[1] > at[0] && !depends(g, at[1], at[0]));
    syn_cursor_free(&cur);
    syn_graph_free(g);
    drop_ranks(RANKS, ctx);
}

static void check_read(syn_graph *g) {
    uint32_t at[BUCKETS] = {0};
    syn_cursor cur = {0};
    CHECK_INT(find(g, 0, "all_reduce_coalesced", at, BUCKETS), BUCKETS);
    for (int b = 0; b < BUCKETS; b++) {
        const syn_node *n = syn_graph_node(g, 0, at[b], &cur);
        uint32_t gradients = 0; /* control dependencies give the order of the group's calls */
        for (uint32_t d = 0; d < n->n_deps; d++) gradients += n->deps[d].dep_class == SYN_DEP_DATA;
        CHECK_INT(n->comm_bytes, bucket_bytes[b]);
        CHECK_INT(gradients, bucket_grads[b]);
    }
    syn_cursor_free(&cur);
    syn_graph_free(g);
}

static void check_text(const syn_graph *g, const syn_exporter *exporter, const char *format) {
    char *text = export_text(exporter, g, NULL);
    for (int b = 0; b < BUCKETS; b++) {
        char want[64];
        snprintf(want, sizeof want, format, (unsigned long long)bucket_bytes[b]);
        CHECK_MSG(strstr(text, want), "%s lacks %s", exporter->name, want);
    }
    free(text);
}

static void every_format_has_the_bytes_of_all_its_tensors(void) {
    syn_ctx *ctx[RANKS] = {NULL};
    syn_graph *g = trained(ctx);
    size_t bytes;
    char *text = export_text(&syn_export_json, g, NULL);
    check_read(read_json(text));
    free(text);
    char *data = export_bytes(&syn_export_et, g, NULL, &bytes);
    check_read(read_et(data, bytes));
    free(data);
    check_text(g, &syn_export_chakra, "{\"name\":\"comm_size\",\"int64Val\":\"%llu\"}");
    check_text(g, &syn_export_graphml, ">%llu</data>");
    check_text(g, &syn_export_chrome, "\"bytes\":%llu");
    text = export_text(&syn_export_dot, g, NULL);
    CHECK(strstr(text, " 1.39 MiB</font>")); /* the buckets have 1,461,632 and 1,231,200 bytes */
    CHECK(strstr(text, " 1.17 MiB</font>"));
    free(text);
    syn_graph_free(g);
    drop_ranks(RANKS, ctx);
}

/* Before the first step, the same number of bytes is broadcast from rank 0. */
static void statistics_count_them(void) {
    syn_ctx *ctx[RANKS] = {NULL};
    syn_graph *g = trained(ctx);
    syn_error err = {0};
    syn_statistics_set set;
    const char *prefix = in_folder("step");
    const uint64_t sum = bucket_bytes[0] + bucket_bytes[1];
    CHECK_OK(syn_export_et_set(g, NULL, prefix, &err), err);
    CHECK_OK(syn_statistics_read(&set, &prefix, 1, 0, &err), err);
    CHECK_INT(set.n_ranks, RANKS);
    for (int r = 0; r < RANKS && set.n_ranks == RANKS; r++)
        for (size_t k = 0; k < SYN_STATISTICS_COLLECTIVES; k++) {
            const syn_statistics_row *row = &set.ranks[r].collectives[k];
            const char *name = syn_statistics_collective_name(k);
            const bool used = strcmp(name, "ALL_REDUCE") == 0 || strcmp(name, "BROADCAST") == 0;
            CHECK_INT(row->count, used ? BUCKETS : 0);
            CHECK_INT(row->bytes, used ? sum : 0);
        }
    syn_statistics_free(&set);
    syn_graph_free(g);
    drop_ranks(RANKS, ctx);
}

static const test_case cases[] = {
    {"a_bucket_waits_for_its_gradients_alone", a_bucket_waits_for_its_gradients_alone},
    {"every_format_has_the_bytes_of_all_its_tensors",
     every_format_has_the_bytes_of_all_its_tensors},
    {"statistics_count_them", statistics_count_them},
};

TEST_MAIN(cases)
