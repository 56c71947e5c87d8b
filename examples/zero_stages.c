/* Teaching example: what the stages of ZeRO divide (Rajbhandari et al. 2020). Data-parallel ranks
   have copies of the model. Stage 1 divides the optimizer's state among them, stage 2 also the
   gradients, stage 3 also the parameters, which each rank then gathers layer by layer (as FSDP
   does). The state of a parameter in bf16 has 18 bytes: 2 for itself, 4 for its gradient in f32,
   and 12 for the optimizer's copy and two moments in f32. The peak has the activations, too.

   Plain data parallelism all-reduces gradients once in a step: a ring sends 2 x 4 bytes per
   parameter. Stage 1 reduce-scatters gradients (4 bytes) and all-gathers parameters (2). Stage 2
   reduce-scatters after each microbatch, because no rank keeps whole gradients. Stage 3 also
   gathers the parameters twice in each microbatch, for the forward and for the backward pass.

       zero_stages [RANKS]

   Nothing is computed: times are predicted for A100s. */
#include <stdio.h>
#include <stdlib.h>
#include <syntorch/syntorch.h>

enum { BATCH = 1, TOKENS = 512, MICROBATCHES = 2, STAGES = 4 };

typedef struct stage {
    int zero;
    double ns, params, peak_bytes;
    double sent_bytes; /* by a rank, in rings */
} stage;

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
    stage *z = arg;
    syn_model_config config;
    syn_model *gpt;
    syn_trainer *trainer = NULL;
    uint32_t units[1024];
    SYN_TRY(syn_model_config_preset(&config, "gpt2-medium", err));
    const syn_model_options options = {.fused_attention = true, .dtype = SYN_BF16};
    syn_trainer_options how = {.optimizer = {.norm = z->zero > 0 ? mesh->world : NULL},
                               .dp = mesh->group[SYN_AXIS_DP],
                               .zero = z->zero,
                               .microbatches = MICROBATCHES,
                               .buckets = SYN_BUCKETS_PYTORCH};
    syn_ctx_set_overlap(ctx, true);
    if (z->zero == 3) syn_ctx_evict_params(ctx); /* no rank ever has the whole model */
    SYN_TRY(syn_model_new(&gpt, ctx, &config, &options, err));
    if (z->zero == 3) {
        how.shard = mesh->shard;
        how.gather = mesh->gather;
        how.units = units;
        how.n_units = syn_model_units(gpt, 0, units, &how.head_unit);
    }
    syn_status s = syn_trainer_new(&trainer, ctx, &how, err);
    z->params = (double)syn_model_config_params(&config, 0);
    if (s == SYN_OK) s = syn_trainer_step(trainer, loss_of, gpt, 1e-4, NULL, err);
    z->peak_bytes = (double)syn_ctx_peak_bytes(ctx);
    syn_trainer_free(trainer);
    syn_model_free(gpt);
    return s;
}

static void add_collectives(stage *z, const syn_graph *graph, double n) {
    syn_cursor cursor = {0};
    for (uint32_t i = 0; i < graph->ranks[0].n_nodes; i++) {
        const syn_node *node = syn_graph_node(graph, 0, i, &cursor);
        if (!node || node->kind != SYN_NODE_COLLECTIVE) continue;
        z->sent_bytes += (double)node->comm_bytes * (n - 1) *
                         (node->comm == SYN_COMM_ALL_REDUCE   ? 2 / n
                          : node->comm == SYN_COMM_ALL_GATHER ? 1
                                                              : 1 / n);
    }
    syn_cursor_free(&cursor);
}

static syn_status trace(stage *z, int ranks, syn_error *err) {
    const syn_plan plan = {.dp = ranks, .zero = z->zero};
    syn_hardware a100;
    syn_graph *graph;
    SYN_TRY(syn_hardware_load(&a100, "a100-80g", NULL, err));
    SYN_TRY(syn_ranks_trace(&graph, &plan, &a100, train, z, err));
    const syn_status s = syn_predicted_duration(&z->ns, graph, err);
    add_collectives(z, graph, ranks);
    syn_graph_free(graph);
    return s;
}

int main(int argc, char **argv) {
    const int ranks = argc > 1 ? atoi(argv[1]) : 4;
    syn_error err = {0};
    printf("A step of GPT-2 medium in bf16 on %d data-parallel ranks:\n"
           "stage   divided state, MB   peak of a rank, MB   sent by a rank, MB   time, ms\n",
           ranks);
    for (int i = 0; i < STAGES; i++) {
        stage z = {.zero = i};
        if (trace(&z, ranks, &err) != SYN_OK) {
            fprintf(stderr, "zero_stages: stage %d: %s\n", i, err.text);
            return 1;
        }
        /* bytes of a parameter's state that each rank has, and that the ranks divide */
        static const double whole[STAGES] = {18, 6, 2, 0}, divided[STAGES] = {0, 12, 16, 18};
        printf("%5d %19.0f %20.0f %20.0f %10.1f\n", i,
               z.params * (whole[i] + divided[i] / ranks) / 1e6, z.peak_bytes / 1e6,
               z.sent_bytes / 1e6, z.ns / 1e6);
    }
    return fflush(stdout) != 0;
}
