/* Teaching example: what sequence parallelism changes in tensor-parallel layers (Korthikanti et al.
   2022). Without it, each rank computes norms, dropout and residuals of all tokens. With it, each
   rank has its own tokens there; an all-gather before and a reduce-scatter after the sharded
   products replace each all-reduce. Activations need less memory. The bytes on the network are the
   same if the gathered activations are kept for backward; gathering them again sends more, but
   needs less memory still.

       sequence_parallel [TP]

   Nothing is computed: times are predicted for A100s. */
#include <stdio.h>
#include <stdlib.h>
#include <syntorch/syntorch.h>

enum { BATCH = 4, TOKENS = 1024, WAYS = 3 };

typedef struct way {
    const char *name;
    bool sp, keep;
    double ns, peak_bytes;
    struct {
        int calls;
        double bytes; /* that a rank sends in a ring */
    } sums[3];        /* all-reduces, all-gathers, reduce-scatters of rank 0 */
} way;

static syn_tensor loss_of(void *arg, int microbatch) {
    syn_model *gpt = arg;
    syn_ctx *ctx = syn_model_ctx(gpt);
    const syn_spec ids = {SYN_I32, 2, {BATCH, TOKENS}}, one = {0};
    (void)microbatch;
    return syn_causal_loss(gpt, syn_input(ctx, "tokens", &ids, NULL),
                           syn_input(ctx, "next", &ids, NULL),
                           syn_input(ctx, "weight", &one, NULL));
}

/* The program of one rank: one training step. */
static syn_status train(syn_ctx *ctx, const syn_mesh *mesh, void *arg, syn_error *err) {
    way *w = arg;
    syn_model_config config;
    syn_model *gpt;
    syn_trainer *trainer = NULL;
    SYN_TRY(syn_model_config_preset(&config, "gpt2-medium", err));
    const syn_group *tp = mesh->group[SYN_AXIS_TP];
    const syn_model_options options = {
        .tp = tp, .sp = w->sp, .sp_keep = w->keep, .fused_attention = true, .dtype = SYN_BF16};
    const syn_trainer_options how = {.optimizer = {.tp = tp}};
    SYN_TRY(syn_model_new(&gpt, ctx, &config, &options, err));
    syn_status s = syn_trainer_new(&trainer, ctx, &how, err);
    if (s == SYN_OK) s = syn_trainer_step(trainer, loss_of, gpt, 1e-4, NULL, err);
    w->peak_bytes = (double)syn_ctx_peak_bytes(ctx);
    syn_trainer_free(trainer);
    syn_model_free(gpt);
    return s;
}

/* Adds the collectives of rank 0. A ring sends 2 (n - 1) / n of the bytes of an all-reduce,
   (n - 1) / n of a reduce-scatter's, and n - 1 times an all-gather's. */
static void add_collectives(way *w, const syn_graph *graph, double n) {
    syn_cursor cursor = {0};
    for (uint32_t i = 0; i < graph->ranks[0].n_nodes; i++) {
        const syn_node *node = syn_graph_node(graph, 0, i, &cursor);
        if (!node || node->kind != SYN_NODE_COLLECTIVE) continue;
        const int at = node->comm == SYN_COMM_ALL_REDUCE   ? 0
                       : node->comm == SYN_COMM_ALL_GATHER ? 1
                                                           : 2;
        w->sums[at].calls++;
        w->sums[at].bytes += (double)node->comm_bytes * (n - 1) *
                             (at == 0   ? 2 / n
                              : at == 1 ? 1
                                        : 1 / n);
    }
    syn_cursor_free(&cursor);
}

static syn_status trace(way *w, int tp, syn_error *err) {
    const syn_plan plan = {.tp = tp, .sp = w->sp};
    syn_hardware a100;
    syn_graph *graph;
    SYN_TRY(syn_hardware_load(&a100, "a100-80g", NULL, err));
    SYN_TRY(syn_ranks_trace(&graph, &plan, &a100, train, w, err));
    const syn_status s = syn_predicted_duration(&w->ns, graph, err);
    add_collectives(w, graph, tp);
    syn_graph_free(graph);
    return s;
}

int main(int argc, char **argv) {
    static const char *const kinds[] = {"all-reduces", "all-gathers", "reduce-scatters"};
    way ways[WAYS] = {{.name = "tensor parallel"},
                      {.name = "sequence parallel", .sp = true},
                      {.name = "activations kept", .sp = true, .keep = true}};
    const int tp = argc > 1 ? atoi(argv[1]) : 4;
    syn_error err = {0};
    for (int i = 0; i < WAYS; i++)
        if (trace(&ways[i], tp, &err) != SYN_OK) {
            fprintf(stderr, "sequence_parallel: %s\n", err.text);
            return 1;
        }
    printf("A step of GPT-2 medium on %d ranks, %d tokens:\n%-28s", tp, BATCH * TOKENS, "");
    for (int i = 0; i < WAYS; i++) printf(" %18s", ways[i].name);
    for (int k = 0; k < 3; k++) {
        printf("\n%-28s", kinds[k]);
        for (int i = 0; i < WAYS; i++) printf(" %18d", ways[i].sums[k].calls);
    }
    printf("\n%-28s", "sent by a rank, MB");
    for (int i = 0; i < WAYS; i++)
        printf(" %18.0f",
               (ways[i].sums[0].bytes + ways[i].sums[1].bytes + ways[i].sums[2].bytes) / 1e6);
    printf("\n%-28s", "peak memory of a rank, MB");
    for (int i = 0; i < WAYS; i++) printf(" %18.0f", ways[i].peak_bytes / 1e6);
    printf("\n%-28s", "predicted time, ms");
    for (int i = 0; i < WAYS; i++) printf(" %18.1f", ways[i].ns / 1e6);
    printf("\n");
    return fflush(stdout) != 0;
}
