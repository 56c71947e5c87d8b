/* Teaching example: one MLP, whole on one rank and cut over two, and what the cut costs.

   Megatron's MLP keeps the hidden activation in pieces: the first matrix is cut by columns, so each
   rank computes its part of the hidden units and gelu needs no communication; the second is cut by
   rows, so each rank has a part of every sum, and one all-reduce adds them.

       mlp_two_ways [FOLDER]    writes mlp_1.svg, mlp_2_rank0.svg and mlp_2.svg there (default: the
                                current folder)

   Nothing is computed: the device is `meta`, the two ranks are traced one after the other. It is
   built as any user's program is, from the installed headers:

       cc mlp_two_ways.c $(pkg-config --cflags --libs syntorch) -o mlp_two_ways */
#include <stdio.h>
#include <syntorch/syntorch.h>

enum { TOKENS = 1024, WIDTH = 768, HIDDEN = 4 * WIDTH };

/* x (1, T, C) -> (1, T, C), recorded in ctx. The same code for one rank (tp NULL)
   and for several. */
static void mlp(syn_ctx *ctx, const syn_group *tp) {
    const syn_initializer init = {.std = 0.02, .seed = 1};
    const syn_layer_linear fc = syn_column_linear_new(ctx, "fc", WIDTH, HIDDEN, 1, &init, tp);
    const syn_layer_linear proj = syn_row_linear_new(ctx, "proj", HIDDEN, WIDTH, &init, tp);
    const syn_spec spec = {SYN_F32, 3, {1, TOKENS, WIDTH}};
    syn_push_scope(ctx, "mlp");
    syn_tensor x = syn_input(ctx, "x", &spec, NULL);
    x = syn_column_linear(ctx, x, &fc, false, tp, "fc");
    x = syn_gelu(ctx, x, true);
    syn_row_linear(ctx, x, &proj, true, tp, "proj");
    syn_pop_scope(ctx);
}

/* Traces one rank of a world of `size`. The context is the caller's, also after a failure. */
static syn_status trace_rank(syn_ctx **ctx, int32_t rank, int32_t size, syn_error *err) {
    syn_comm *comm;
    syn_mesh mesh;
    SYN_TRY(syn_comm_fake_new(&comm, rank, size, err));
    syn_status s = syn_mesh_open(&mesh, comm, &(syn_mesh_shape){.tp = size}, err);
    if (s == SYN_OK) s = syn_ctx_new(ctx, SYN_DEVICE_META, comm, err);
    if (s == SYN_OK) {
        mlp(*ctx, mesh.group[SYN_AXIS_TP]);
        s = syn_ctx_check(*ctx, err);
    }
    syn_comm_close(comm);
    return s;
}

typedef struct picture {
    const char *file, *title;
    int32_t size; /* ranks */
    bool all;     /* ranks side by side; else the ops of rank 0 */
} picture;

static const picture pictures[] = {
    {"mlp_1.svg", "An MLP on one rank", 1, false},
    {"mlp_2_rank0.svg", "Rank 0 of the same MLP cut over two ranks", 2, false},
    {"mlp_2.svg", "The same MLP cut over two ranks", 2, true},
};

/* Traces all ranks of the picture's world and writes it. */
static syn_status draw(const picture *p, const char *path, syn_error *err) {
    const syn_export_options how = {.title = p->title, .comm_graph = p->all};
    syn_ctx *ctx[2] = {NULL};
    const syn_trace *traces[2];
    syn_graph *graph = NULL;
    syn_status s = SYN_OK;
    for (int32_t r = 0; r < p->size && s == SYN_OK; r++) {
        s = trace_rank(&ctx[r], r, p->size, err);
        if (s == SYN_OK) traces[r] = syn_ctx_trace(ctx[r]);
    }
    if (s == SYN_OK) s = syn_trace_graph(&graph, traces, (uint32_t)p->size, NULL, err);
    if (s == SYN_OK) s = syn_export_file(graph, NULL, &how, path, err);
    syn_graph_free(graph);
    for (int32_t r = 0; r < p->size; r++) syn_ctx_free(ctx[r]);
    return s;
}

int main(int argc, char **argv) {
    const char *folder = argc > 1 ? argv[1] : ".";
    for (size_t i = 0; i < sizeof pictures / sizeof pictures[0]; i++) {
        syn_error err = {0};
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", folder, pictures[i].file);
        if (draw(&pictures[i], path, &err) != SYN_OK) {
            fprintf(stderr, "mlp_two_ways: %s\n", err.text);
            return 1;
        }
        printf("%s\n", path);
    }
    printf("Cut over two ranks, each holds half of the weights and does half of the products; the "
           "price is one all-reduce of %d bytes.\n",
           TOKENS * WIDTH * 4);
    if (fflush(stdout) == 0) return 0;
    perror("mlp_two_ways: cannot write to standard output");
    return 1;
}
