/* Teaching example: your own model of three layers, sharded over ranks. The word table is sharded
   by rows, the MLP by columns and then by rows, and the head by columns. The model is written once,
   and `tp` sets the number of ranks.

       own_model [RANKS]    writes own_model.svg, and own_model.<rank>.et for a simulator

   Nothing is computed: the device is `meta`, and times are predicted for A100s.

       cc own_model.c $(pkg-config --cflags --libs syntorch) -o own_model */
#include <stdio.h>
#include <stdlib.h>
#include <syntorch/syntorch.h>

enum { WORDS = 32000, TOKENS = 512, WIDTH = 1024, CLASSES = 16 };

/* ids (1, T) -> logits (1, T, CLASSES). */
static syn_status model(syn_ctx *ctx, const syn_mesh *mesh, void *arg, syn_error *err) {
    const syn_group *tp = mesh->group[SYN_AXIS_TP];
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
    (void)arg;
    return syn_ctx_check(ctx, err);
}

int main(int argc, char **argv) {
    const syn_plan shape = {.tp = argc > 1 ? atoi(argv[1]) : 4};
    const syn_export_options how = {.title = "A custom model", .comm_graph = true};
    syn_hardware a100; /* describes an A100, for predicted times */
    syn_graph *graph = NULL;
    syn_error err = {0};
    syn_status s = shape.tp > 0 ? syn_hardware_load(&a100, "a100-80g", NULL, &err)
                                : SYN_FAIL(&err, SYN_E_INVALID, "RANKS must be at least 1");
    if (s == SYN_OK) s = syn_ranks_trace(&graph, &shape, &a100, model, NULL, &err);
    if (s == SYN_OK) s = syn_export_file(graph, NULL, &how, "own_model.svg", &err);
    if (s == SYN_OK) s = syn_export_et_set(graph, &how, "own_model", &err);
    if (s != SYN_OK) fprintf(stderr, "own_model: %s\n", err.text);
    syn_graph_free(graph);
    return s != SYN_OK || fflush(stdout) != 0;
}
