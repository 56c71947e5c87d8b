/* Teaching example: an MLP learns to add two digits modulo 8, on any number of ranks (dp).

       train_mlp [RANKS]     in 1, 2, 4, ... threads; over MPI: mpirun -n 4 train_mlp
       cc train_mlp.c $(pkg-config --cflags --libs syntorch) -o train_mlp */
#include <stdio.h>
#include <stdlib.h>
#include <syntorch/syntorch.h>

enum { DIGITS = 8, BATCH = DIGITS * DIGITS, HIDDEN = 128, STEPS = 50 };
typedef struct learner {
    syn_ctx *ctx;
    syn_layer_linear fc, proj;
    int share; /* this rank's number of samples; together the ranks have one sample of each sum */
} learner;

/* Returns this rank's part of the loss. The loss is the mean over the whole batch. */
static syn_tensor loss_of(void *arg, int pass) {
    const learner *l = arg;
    const syn_spec xs = {SYN_F32, 2, {l->share, 2 * DIGITS}}, ys = {SYN_I32, 1, {l->share}};
    float x[BATCH][2 * DIGITS] = {{0}}, weight = 1.0f / BATCH;
    int32_t y[BATCH];
    (void)pass;
    for (int i = 0, n = l->share * syn_ctx_rank(l->ctx); i < l->share; i++, n++) {
        x[i][n / DIGITS] = x[i][DIGITS + n % DIGITS] = 1;
        y[i] = (n / DIGITS + n % DIGITS) % DIGITS;
    }
    syn_tensor h = syn_input(l->ctx, "x", &xs, x);
    h = syn_gelu(l->ctx, syn_column_linear(l->ctx, h, &l->fc, false, NULL, "fc"), true);
    h = syn_column_linear(l->ctx, h, &l->proj, false, NULL, "proj");
    return syn_cross_entropy(l->ctx, h, syn_input(l->ctx, "y", &ys, y),
                             syn_input(l->ctx, "weight", &(syn_spec){0}, &weight), DIGITS);
}

static syn_status train(syn_ctx *ctx, const syn_mesh *mesh, void *arg, syn_error *err) {
    const syn_initializer *init = arg;
    const syn_trainer_options how = {.dp = mesh->group[SYN_AXIS_DP]};
    learner l = {.ctx = ctx, .share = BATCH / mesh->size[SYN_AXIS_DP]};
    syn_trainer *trainer = NULL;
    double loss;
    syn_ctx_set_overlap(ctx, true); /* all-reduces of gradients overlap the backward pass */
    l.fc = syn_column_linear_new(ctx, "fc", 2 * DIGITS, HIDDEN, 1, init, NULL);
    l.proj = syn_column_linear_new(ctx, "proj", HIDDEN, DIGITS, 1, init, NULL);
    syn_status s = syn_trainer_new(&trainer, ctx, &how, err);
    for (int step = 1; step <= STEPS && s == SYN_OK; step++) {
        s = syn_trainer_step(trainer, loss_of, &l, 0.01, &loss, err);
        if (s == SYN_OK && syn_ctx_rank(ctx) == 0 && step % 10 == 0)
            printf("step %d: loss %.6f\n", step, loss);
    }
    syn_trainer_free(trainer);
    return s;
}

int main(int argc, char **argv) {
    syn_initializer init = {.std = 0.1, .seed = 1};
    const syn_plan plan = {.ranks = argc > 1 ? atoi(argv[1]) : 1};
    syn_error err = {0};
    if (syn_ranks_compute(&plan, SYN_DEVICE_CPU, train, &init, &err) == SYN_OK)
        return fflush(stdout) != 0;
    return fprintf(stderr, "train_mlp: %s\n", err.text), 1;
}
