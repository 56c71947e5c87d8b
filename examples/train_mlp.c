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

/* Sample number `first` and so on: x is random, its class the largest of its first elements. */
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

/* What each rank does with its share of each batch. */
static syn_status train(syn_comm *comm, void *arg, syn_error *err) {
    const syn_initializer init = {.std = 0.1, .seed = 1};
    const syn_optimizer_options adamw = {.weight_decay = 0.01, .max_grad_norm = 1};
    const int share = BATCH / comm->size, first = share * comm->rank;
    const syn_spec xs = {SYN_F32, 2, {share, WIDTH}}, ys = {SYN_I32, 1, {share}}, one = {0};
    const float weight = 1.0f / BATCH; /* the loss is the mean over all ranks' samples */
    float x[BATCH * WIDTH], loss;
    int32_t y[BATCH];
    syn_ctx *ctx = NULL;
    syn_mesh mesh;
    syn_optimizer *optimizer = NULL;
    syn_data_parallel *parallel = NULL;
    (void)arg;
    SYN_TRY(syn_mesh_open(&mesh, comm, &(syn_mesh_shape){.dp = comm->size}, err));
    SYN_TRY(syn_ctx_new(&ctx, SYN_DEVICE_CPU, comm, err));
    syn_ctx_set_overlap(ctx, true); /* gradients are summed while others are computed */
    const syn_layer_linear fc = syn_column_linear_new(ctx, "fc", WIDTH, HIDDEN, 1, &init, NULL);
    const syn_layer_linear proj =
        syn_column_linear_new(ctx, "proj", HIDDEN, CLASSES, 1, &init, NULL);
    const syn_group *dp = mesh.group[SYN_AXIS_DP];
    syn_status s = syn_data_parallel_new(&parallel, ctx, dp, err);
    if (s == SYN_OK) s = syn_optimizer_new(&optimizer, ctx, &adamw, err);
    const syn_mark mark = syn_ctx_mark(ctx);
    for (int step = 0; step < STEPS && s == SYN_OK; step++) {
        make_samples(x, y, step * BATCH + first, share);
        syn_tensor h = syn_input(ctx, "x", &xs, x);
        h = syn_gelu(ctx, syn_column_linear(ctx, h, &fc, false, NULL, "fc"), true);
        h = syn_column_linear(ctx, h, &proj, false, NULL, "proj");
        syn_tensor total = syn_cross_entropy(ctx, h, syn_input(ctx, "y", &ys, y),
                                             syn_input(ctx, "weight", &one, &weight), CLASSES);
        syn_backward(ctx, total);
        s = syn_data_parallel_check(parallel, err);
        if (s == SYN_OK) s = syn_optimizer_step(optimizer, 0.01, err);
        if (dp) total = syn_all_reduce(ctx, total, SYN_REDUCE_SUM, dp);
        if (syn_tensor_read(ctx, total, &loss, sizeof loss) != SYN_OK) s = syn_ctx_check(ctx, err);
        if (s == SYN_OK && comm->rank == 0 && step % 10 == 9)
            printf("step %d: loss %.6f\n", step + 1, (double)loss);
        syn_forget(ctx, mark, NULL, 0);
    }
    syn_optimizer_free(optimizer);
    syn_data_parallel_free(parallel);
    syn_ctx_free(ctx);
    return s;
}

int main(int argc, char **argv) {
    syn_error err = {0};
    syn_blas_set_threads(1); /* ranks multiply side by side */
    if (syn_ranks_run(argc > 1 ? atoi(argv[1]) : 1, train, NULL, &err) == SYN_OK) return 0;
    fprintf(stderr, "train_mlp: %s\n", err.text);
    return 1;
}
