/* Teaching example: one MLP, complete on one rank and sharded over two ranks. It is sharded in
   three ways: both matrices by columns; both by rows; and, as in Megatron-LM, the first by columns
   and the second by rows. It computes nothing (device `meta`). For each variant it writes a picture
   of rank 0 (.svg) and the graph of all ranks (.json).

       cc mlp_two_ways.c $(pkg-config --cflags --libs syntorch) -o mlp_two_ways */
#include <stdio.h>
#include <string.h>
#include <syntorch/syntorch.h>

enum { TOKENS = 1024, WIDTH = 768, HIDDEN = 4 * WIDTH };

static struct way {
    const char *svg, *json, *title;
    int ranks, fc_by_rows, proj_by_rows, backward;
} ways[] = {{"mlp_whole.svg", "mlp_whole.json", "An MLP on one rank", 1, 0, 0, 0},
            {"mlp_columns.svg", "mlp_columns.json", "Column-parallel: rank 0 of 2", 2, 0, 0, 0},
            {"mlp_rows.svg", "mlp_rows.json", "Row-parallel: rank 0 of 2", 2, 1, 1, 0},
            {"mlp_both.svg", "mlp_both.json", "Column-, then row-parallel: rank 0", 2, 0, 1, 0},
            {"mlp_step.svg", "mlp_step.json", "Forward and backward: rank 0 of 2", 2, 0, 1, 1}};

/* x (1, T, in) -> (1, T, out). pieces: whether the tensor between the two layers stays sharded, as
   in Megatron-LM. */
static syn_tensor layer(syn_ctx *ctx, syn_tensor x, const char *name, int64_t in, int64_t out,
                        bool by_rows, bool pieces, const syn_group *tp) {
    const syn_initializer init = {.std = 0.02, .seed = 1};
    const syn_layer_linear l = by_rows ? syn_row_linear_new(ctx, name, in, out, &init, tp)
                                       : syn_column_linear_new(ctx, name, in, out, 1, &init, tp);
    return by_rows ? syn_row_linear(ctx, x, &l, pieces, tp, name)
                   : syn_column_linear(ctx, x, &l, !pieces, tp, name);
}

static syn_status mlp(syn_ctx *ctx, const syn_mesh *mesh, void *arg, syn_error *err) {
    const struct way *w = arg;
    const bool pieces = !w->fc_by_rows && w->proj_by_rows;
    const syn_group *tp = mesh->group[SYN_AXIS_TP];
    const syn_tensor x = syn_input(ctx, "x", &(syn_spec){SYN_F32, 3, {1, TOKENS, WIDTH}}, NULL);
    if (w->backward) syn_require_grad(ctx, x);
    syn_tensor y = layer(ctx, x, "fc", WIDTH, HIDDEN, w->fc_by_rows, pieces, tp);
    y = layer(ctx, syn_gelu(ctx, y, true), "proj", HIDDEN, WIDTH, w->proj_by_rows, pieces, tp);
    if (w->backward) syn_backward(ctx, syn_sum_to(ctx, syn_add(ctx, x, y), NULL, 0));
    return syn_ctx_check(ctx, err);
}

int main(int argc, char **argv) {
    syn_status s = SYN_OK;
    syn_error err = {0};
    if (argc > 1) return puts("usage: mlp_two_ways"), strcmp(argv[1], "--help") != 0;
    for (size_t i = 0; i < sizeof ways / sizeof *ways && s == SYN_OK; i++) {
        const syn_export_options how = {.title = ways[i].title};
        syn_graph *g = NULL;
        s = syn_ranks_trace(&g, &(syn_plan){.tp = ways[i].ranks}, NULL, mlp, &ways[i], &err);
        if (s == SYN_OK) s = syn_export_file(g, NULL, &how, ways[i].svg, &err);
        if (s == SYN_OK) s = syn_export_file(g, NULL, &how, ways[i].json, &err);
        if (s == SYN_OK) printf("%s %s\n", ways[i].svg, ways[i].json);
        syn_graph_free(g);
    }
    if (s != SYN_OK) fprintf(stderr, "mlp_two_ways: %s\n", err.text);
    return s != SYN_OK || fflush(stdout) != 0;
}
