/* Tests syn_ranks_compute, which runs a function on ranks in threads, and syn_ranks_trace, which
   runs it on meta and returns a graph. */
#include "comm/comm.h"
#include "ops/ops.h"
#include "tests/support/test.h"

enum { N = 6 };

/* Sums rank + 1 over the tp group and then over the dp group. */
static syn_status add_up(syn_ctx *ctx, const syn_mesh *mesh, void *arg, syn_error *err) {
    const syn_spec spec = {SYN_F32, 1, {N}};
    const float want = *(const float *)arg;
    float x[N];
    for (int i = 0; i < N; i++) x[i] = (float)(syn_ctx_rank(ctx) + 1);
    syn_tensor y = syn_input(ctx, "x", &spec, x);
    for (int a = SYN_AXIS_TP; a <= SYN_AXIS_DP; a++)
        if (mesh->group[a]) y = syn_all_reduce(ctx, y, SYN_REDUCE_SUM, mesh->group[a]);
    if (!syn_ctx_has_data(ctx)) return SYN_OK;
    SYN_TRY(syn_tensor_read(ctx, y, x, sizeof x));
    if (x[N - 1] == want) return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID, "%g, not %g", (double)x[N - 1], (double)want);
}

static void ranks_compute_in_their_groups(void) {
    /* Number of ranks, and tp. */
    static const int shapes[][2] = {{1, 1}, {2, 1}, {2, 2}, {6, 3}, {4, 4}};
    syn_error err = {0};
    for (size_t i = 0; i < COUNT(shapes); i++) {
        const int n = shapes[i][0];
        float sum = (float)(n * (n + 1) / 2);
        CHECK_OK(syn_ranks_compute(&(syn_plan){.ranks = n, .tp = shapes[i][1]}, SYN_DEVICE_CPU,
                                   add_up, &sum, &err),
                 err);
    }
}

static void ranks_that_do_not_fit_are_refused(void) {
    static const syn_plan plans[] = {{.ranks = -1},
                                     {.ranks = 2, .tp = -1},
                                     {.ranks = 3, .tp = 2},
                                     {.ranks = 1, .tp = 2},
                                     {.ranks = 4, .tp = 2, .dp = 1}};
    float sum = 0;
    for (size_t i = 0; i < COUNT(plans); i++) {
        syn_error err = {0};
        CHECK(syn_ranks_compute(&plans[i], SYN_DEVICE_CPU, add_up, &sum, &err) != SYN_OK);
        CHECK(err.text[0] != '\0');
    }
}

static void a_trace_has_all_ranks(void) {
    syn_error err = {0};
    syn_hardware hw;
    syn_graph *graph;
    syn_cursor cursor = {.deps = NULL};
    CHECK_OK(syn_hardware_load(&hw, "a100-80g", NULL, &err), err);
    CHECK_OK(syn_ranks_trace(&graph, &(syn_plan){.tp = 2, .dp = 3}, &hw, add_up, &(float){0}, &err),
             err);
    CHECK_OK(syn_graph_verify(graph, &err), err);
    CHECK_INT(graph->n_ranks, 6);
    CHECK_INT(graph->world_size, 6);
    CHECK_INT(graph->n_groups, 3 + 2);
    for (uint32_t r = 0; r < 6; r++) {
        CHECK_INT(graph->ranks[r].rank, r);
        CHECK_INT(graph->ranks[r].n_nodes, 2);
        const syn_node *last = syn_graph_node(graph, r, 1, &cursor);
        CHECK_INT(syn_graph_group_by_id(graph, last->group)->n_ranks, 3);
        CHECK_INT(last->comm_bytes, N * 4);
        CHECK(last->predicted_ns > 0);
    }
    syn_cursor_free(&cursor);
    syn_graph_free(graph);
}

/* Rank 1 fails. If `how` is 0 the function returns an error, and if it is 1 it leaves a failed
   context. */
static syn_status fail_on_one(syn_ctx *ctx, const syn_mesh *mesh, void *arg, syn_error *err) {
    const int *how = arg;
    (void)mesh;
    if (syn_ctx_rank(ctx) != 1) return SYN_OK;
    if (*how == 0) return SYN_FAIL(err, SYN_E_INVALID, "no such wish");
    syn_ctx_fail(ctx, SYN_E_INVALID, "no such luck");
    return SYN_OK;
}

static void a_rank_that_fails_fails_them_all(void) {
    static const char *const says[] = {"no such wish", "no such luck"};
    for (int how = 0; how < 2; how++) {
        syn_error err = {0};
        syn_graph *graph = NULL;
        CHECK_INT(syn_ranks_trace(&graph, &(syn_plan){.tp = 3}, NULL, fail_on_one, &how, &err),
                  SYN_E_INVALID);
        CHECK_HAS(err.text, says[how]);
        CHECK(graph == NULL);
        CHECK_INT(syn_ranks_compute(&(syn_plan){.tp = 3}, SYN_DEVICE_CPU, fail_on_one, &how,
                                    &(syn_error){0}),
                  SYN_E_INVALID);
    }
}

static void invalid_worlds_are_rejected(void) {
    static const syn_plan shapes[] = {{.tp = -2},
                                      {.tp = 2, .dp = -1},
                                      {.tp = -1, .dp = -1},
                                      {.tp = 1 << 20, .dp = 1 << 20},
                                      {.tp = 2, .kv = 3}};
    for (size_t i = 0; i < COUNT(shapes); i++) {
        syn_error err = {0};
        syn_graph *graph = NULL;
        CHECK(syn_ranks_trace(&graph, &shapes[i], NULL, add_up, &(float){0}, &err) != SYN_OK);
        CHECK(graph == NULL && err.text[0] != '\0');
    }
}

static syn_status trace_two(void *arg, syn_error *err) {
    syn_graph *graph;
    SYN_TRY(syn_ranks_trace(&graph, &(syn_plan){.tp = 2}, NULL, add_up, arg, err));
    syn_graph_free(graph);
    return SYN_OK;
}

static void a_trace_out_of_memory_reports_an_error(void) {
    CHECK(test_without_memory(trace_two, &(float){0}) > 0);
}

static const test_case cases[] = {
    {"ranks_compute_in_their_groups", ranks_compute_in_their_groups},
    {"ranks_that_do_not_fit_are_refused", ranks_that_do_not_fit_are_refused},
    {"a_trace_has_all_ranks", a_trace_has_all_ranks},
    {"a_rank_that_fails_fails_them_all", a_rank_that_fails_fails_them_all},
    {"invalid_worlds_are_rejected", invalid_worlds_are_rejected},
    {"a_trace_out_of_memory_reports_an_error", a_trace_out_of_memory_reports_an_error},
};

TEST_MAIN(cases)
