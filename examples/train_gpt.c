/* Teaching example: a small GPT learns a poem by heart, on one rank or on several: tensor-parallel
   (TP), data-parallel (DP), or both. The losses are the same for any number of ranks.

       train_gpt [TP [DP [TYPE]]]      in TP x DP threads of this process
       mpirun -n 4 train_gpt 2 2

   TYPE bf16 computes in 16 bits; the optimizer then keeps f32 copies of the parameters. The last
   step of rank 0 (forward, backward, optimizer) is drawn to train_gpt.svg. Compile it like any
   program that uses the library:

       cc train_gpt.c $(pkg-config --cflags --libs syntorch) -o train_gpt */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syntorch/syntorch.h>

enum { BATCH = 4, TOKENS = 32, STEPS = 100 };

static const char poem[] = "Twinkle, twinkle, little star, How I wonder what you are! Up above the "
                           "world so high, Like a diamond in the sky. ";

/* Fills x with n samples of the step's batch, from number `first` on, one token per letter, and y
   with the letters that follow. */
static void make_batch(int32_t *x, int32_t *y, int step, int first, int n) {
    for (int i = 0; i < n * TOKENS; i++) {
        const int at = (step * BATCH + first + i / TOKENS) * 13 + i % TOKENS;
        x[i] = poem[at % (int)(sizeof poem - 1)];
        y[i] = poem[(at + 1) % (int)(sizeof poem - 1)];
    }
}

static syn_status draw(const syn_ctx *ctx, syn_error *err) {
    const syn_trace *trace = syn_ctx_trace(ctx);
    const syn_export_options how = {.title = "A training step of a small GPT"};
    syn_graph *graph = NULL;
    SYN_TRY(syn_trace_graph(&graph, &trace, 1, NULL, err));
    const syn_status s = syn_export_file(graph, NULL, &how, "train_gpt.svg", err);
    syn_graph_free(graph);
    return s;
}

typedef struct learner {
    syn_model *gpt;
    /* The current step; the position of this rank's first sample in the batch; and the number of
       samples of this rank. */
    int step, first, share;
} learner;

/* Returns this rank's part of the loss. The loss is the mean over the tokens of all ranks'
   samples. */
static syn_tensor loss_of(void *arg, int pass) {
    const learner *l = arg;
    syn_ctx *ctx = syn_model_ctx(l->gpt);
    const syn_spec spec = {SYN_I32, 2, {l->share, TOKENS}}, one = {0};
    const float weight = 1.0f / (BATCH * TOKENS);
    int32_t x[BATCH * TOKENS], y[BATCH * TOKENS];
    (void)pass;
    make_batch(x, y, l->step, l->first, l->share);
    return syn_causal_loss(l->gpt, syn_input(ctx, "tokens", &spec, x),
                           syn_input(ctx, "next", &spec, y),
                           syn_input(ctx, "weight", &one, &weight));
}

/* The program of one rank. */
static syn_status train(syn_ctx *ctx, const syn_mesh *mesh, void *arg, syn_error *err) {
    const syn_dtype *dtype = arg;
    learner l = {.share = BATCH / mesh->size[SYN_AXIS_DP]};
    syn_model_config config;
    syn_trainer *trainer = NULL;
    SYN_TRY(syn_model_config_preset(&config, "gpt2", err));
    config.n_layer = 2, config.n_embd = 64, config.n_head = 4, config.n_inner = 256;
    config.n_positions = TOKENS, config.vocab_size = 128;
    const syn_group *tp = mesh->group[SYN_AXIS_TP];
    const syn_model_options options = {
        .tp = tp, .seed = 1, .fused_attention = true, .dtype = *dtype};
    const syn_trainer_options how = {
        .optimizer = {.weight_decay = 0.01, .max_grad_norm = 1, .tp = tp},
        .dp = mesh->group[SYN_AXIS_DP]};
    syn_ctx_set_overlap(ctx, true); /* all-reduces of gradients overlap the backward pass */
    syn_status s = syn_model_new(&l.gpt, ctx, &config, &options, err);
    if (s == SYN_OK) s = syn_trainer_new(&trainer, ctx, &how, err);
    l.first = l.share * mesh->index[SYN_AXIS_DP];
    for (l.step = 0; l.step < STEPS && s == SYN_OK; l.step++) {
        double loss;
        s = syn_trainer_step(trainer, loss_of, &l, 0.003, &loss, err);
        if (s == SYN_OK && syn_ctx_rank(ctx) == 0 && l.step % 20 == 19)
            printf("step %d: loss %.6f\n", l.step + 1, loss);
    }
    if (s == SYN_OK && syn_ctx_rank(ctx) == 0) s = draw(ctx, err);
    syn_trainer_free(trainer);
    syn_model_free(l.gpt);
    return s;
}

int main(int argc, char **argv) {
    const int tp = argc > 1 ? atoi(argv[1]) : 1, dp = argc > 2 ? atoi(argv[2]) : 1;
    syn_dtype dtype = SYN_F32;
    syn_error err = {0};
    if (argc > 3 && !syn_dtype_parse(argv[3], &dtype)) return 2;
    syn_blas_set_threads(1); /* because ranks multiply at the same time */
    if (syn_ranks_compute(&(syn_plan){.tp = tp, .dp = dp}, SYN_DEVICE_CPU, train, &dtype, &err) ==
        SYN_OK)
        return fflush(stdout) != 0;
    fprintf(stderr, "train_gpt: %s\n", err.text);
    return 1;
}
