/* Teaching example: an MLP that is trained, on one rank or several, each with its share of the
   batch; what it prints is the same for any number.

       train_mlp [RANKS]        in threads of this process
       mpirun -n 4 train_mlp    over MPI

   It learns which of 8 directions a random vector lies nearest to. Built as any user's program:

       cc train_mlp.c $(pkg-config --cflags --libs syntorch) -o train_mlp */
#include <stdio.h>
#include <stdlib.h>
#include <syntorch/syntorch.h>

enum { BATCH = 64, WIDTH = 32, HIDDEN = 128, CLASSES = 8, STEPS = 50 };

typedef struct learner {
    syn_ctx *ctx;
    syn_layer_linear fc, proj;
    int first, share; /* number of this rank's next sample; its samples in a batch */
} learner;

/* x is random, its class the largest of its first elements. */
static void make_samples(float *x, int32_t *y, int first, int n) {
    for (int s = 0; s < n; s++) {
        unsigned state = 12345u + 7919u * (unsigned)(first + s);
        y[s] = 0;
        for (int i = 0; i < WIDTH; i++) {
            state = state * 1664525u + 1013904223u;
            x[s * WIDTH + i] = (float)(state >> 8) / 8388608.0f - 1.0f;
            if (i < CLASSES && x[s * WIDTH + i] > x[s * WIDTH + y[s]]) y[s] = i;
        }
    }
}

/* This rank's part of the loss, the mean over all ranks' samples. */
static syn_tensor loss_of(void *arg, int pass) {
    const learner *l = arg;
    const syn_spec xs = {SYN_F32, 2, {l->share, WIDTH}}, ys = {SYN_I32, 1, {l->share}}, one = {0};
    const float weight = 1.0f / BATCH;
    float x[BATCH * WIDTH];
    int32_t y[BATCH];
    (void)pass;
    make_samples(x, y, l->first, l->share);
    syn_tensor h = syn_input(l->ctx, "x", &xs, x);
    h = syn_gelu(l->ctx, syn_column_linear(l->ctx, h, &l->fc, false, NULL, "fc"), true);
    h = syn_column_linear(l->ctx, h, &l->proj, false, NULL, "proj");
    return syn_cross_entropy(l->ctx, h, syn_input(l->ctx, "y", &ys, y),
                             syn_input(l->ctx, "weight", &one, &weight), CLASSES);
}

/* What each rank does. */
static syn_status train(syn_comm *comm, void *arg, syn_error *err) {
    const syn_initializer init = {.std = 0.1, .seed = 1};
    learner l = {.share = BATCH / comm->size};
    syn_mesh mesh;
    syn_trainer *trainer = NULL;
    (void)arg;
    SYN_TRY(syn_mesh_open(&mesh, comm, &(syn_mesh_shape){.dp = comm->size}, err));
    SYN_TRY(syn_ctx_new(&l.ctx, SYN_DEVICE_CPU, comm, err));
    syn_ctx_set_overlap(l.ctx, true); /* gradients are summed while others are computed */
    l.fc = syn_column_linear_new(l.ctx, "fc", WIDTH, HIDDEN, 1, &init, NULL);
    l.proj = syn_column_linear_new(l.ctx, "proj", HIDDEN, CLASSES, 1, &init, NULL);
    const syn_trainer_options how = {.optimizer = {.weight_decay = 0.01, .max_grad_norm = 1},
                                     .dp = mesh.group[SYN_AXIS_DP]};
    syn_status s = syn_trainer_new(&trainer, l.ctx, &how, err);
    for (int step = 0; step < STEPS && s == SYN_OK; step++) {
        double loss;
        l.first = step * BATCH + l.share * comm->rank;
        s = syn_trainer_step(trainer, loss_of, &l, 0.01, &loss, err);
        if (s == SYN_OK && comm->rank == 0 && step % 10 == 9)
            printf("step %d: loss %.6f\n", step + 1, loss);
    }
    syn_trainer_free(trainer);
    syn_ctx_free(l.ctx);
    return s;
}

int main(int argc, char **argv) {
    syn_error err = {0};
    syn_blas_set_threads(1); /* ranks multiply side by side */
    if (syn_ranks_run(argc > 1 ? atoi(argv[1]) : 1, train, NULL, &err) == SYN_OK) return 0;
    fprintf(stderr, "train_mlp: %s\n", err.text);
    return 1;
}
