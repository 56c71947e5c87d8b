/* Teaching example: a model of your own, of three layers, cut over ranks: a table of words by rows,
   an MLP by columns and by rows, a head by columns. Written once; `tp` says how it is cut.

       own_model [RANKS]    writes own_model.svg, and own_model.<rank>.et for a simulator

   Nothing is computed: the device is `meta`, the ranks are traced one after the other.
       cc own_model.c $(pkg-config --cflags --libs syntorch) -o own_model */
#include <stdio.h>
#include <stdlib.h>
#include <syntorch/syntorch.h>

enum { WORDS = 32000, TOKENS = 512, WIDTH = 1024, CLASSES = 16, MOST = 16 };

/* ids (1, T) -> logits (1, T, CLASSES), recorded in ctx. */
static void model(syn_ctx *ctx, const syn_group *tp) {
    const syn_initializer init = {.std = 0.02, .seed = 1};
    const syn_spec spec = {SYN_I32, 2, {1, TOKENS}};
    const syn_tensor words = syn_vocab_embedding_new(ctx, "words", WORDS, WORDS, WIDTH, &init, tp);
    const syn_layer_linear up = syn_column_linear_new(ctx, "up", WIDTH, 4 * WIDTH, 1, &init, tp),
                           down = syn_row_linear_new(ctx, "down", 4 * WIDTH, WIDTH, &init, tp),
                           head = syn_column_linear_new(ctx, "head", WIDTH, CLASSES, 1, &init, tp);
    syn_tensor x = syn_input(ctx, "ids", &spec, NULL);
    x = syn_vocab_embedding(ctx, words, x, -1, SYN_F32, tp);
    x = syn_gelu(ctx, syn_column_linear(ctx, x, &up, false, tp, "up"), true);
    x = syn_row_linear(ctx, x, &down, true, tp, "down");
    syn_column_linear(ctx, x, &head, true, tp, "head");
}

static syn_status trace_rank(syn_ctx **ctx, int32_t rank, int32_t ranks, syn_error *err) {
    syn_comm *comm;
    syn_mesh mesh;
    SYN_TRY(syn_comm_fake_new(&comm, rank, ranks, err));
    syn_status s = syn_mesh_open(&mesh, comm, &(syn_mesh_shape){.tp = ranks}, err);
    if (s == SYN_OK) s = syn_ctx_new(ctx, SYN_DEVICE_META, comm, err);
    if (s == SYN_OK) model(*ctx, mesh.group[SYN_AXIS_TP]);
    if (s == SYN_OK) s = syn_ctx_check(*ctx, err);
    syn_comm_close(comm);
    return s;
}

int main(int argc, char **argv) {
    const int ranks = argc > 1 ? atoi(argv[1]) : 4;
    const syn_export_options how = {.title = "A model of one's own", .comm_graph = true};
    syn_ctx *ctx[MOST] = {NULL};
    const syn_trace *traces[MOST];
    syn_graph *graph = NULL;
    syn_error err = {0};
    syn_status s = SYN_OK;
    if (ranks < 1 || ranks > MOST) s = SYN_FAIL(&err, SYN_E_INVALID, "RANKS is 1 to %d", MOST);
    for (int r = 0; r < ranks && s == SYN_OK; r++)
        if ((s = trace_rank(&ctx[r], r, ranks, &err)) == SYN_OK) traces[r] = syn_ctx_trace(ctx[r]);
    if (s == SYN_OK) s = syn_trace_graph(&graph, traces, (uint32_t)ranks, NULL, &err);
    if (s == SYN_OK) s = syn_export_file(graph, NULL, &how, "own_model.svg", &err);
    if (s == SYN_OK) s = syn_export_et_set(graph, &how, "own_model", &err);
    if (s != SYN_OK) fprintf(stderr, "own_model: %s\n", err.text);
    syn_graph_free(graph);
    for (int r = 0; r < MOST; r++) syn_ctx_free(ctx[r]);
    return s != SYN_OK;
}
