/* Teaching example: an all-reduce equals a reduce-scatter, which gives each rank the sum of its
   shard, followed by an all-gather, which gives all shards to all ranks. ZeRO and FSDP run these
   two collectives at different times and keep only a shard in between.

       two_halves [RANKS]        in 2 or more threads of this process
       mpirun -n 4 two_halves    over MPI

       cc two_halves.c $(pkg-config --cflags --libs syntorch) -lm -o two_halves */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <syntorch/syntorch.h>

enum { ELEMENTS = 5040 }; /* divisible by every number of ranks up to 10 */

/* The program of one rank. */
static syn_status add_twice(syn_ctx *ctx, const syn_mesh *mesh, void *arg, syn_error *err) {
    static _Thread_local float x[ELEMENTS], sum[ELEMENTS], joined[ELEMENTS];
    const syn_spec spec = {SYN_F32, 1, {ELEMENTS}};
    const syn_group *all = mesh->group[SYN_AXIS_DP];
    const int rank = syn_ctx_rank(ctx);
    float apart = 0;
    (void)arg;
    for (int i = 0; i < ELEMENTS; i++) x[i] = sinf((float)(i + rank));
    const syn_tensor input = syn_input(ctx, "x", &spec, x);
    const syn_tensor whole = syn_all_reduce(ctx, input, SYN_REDUCE_SUM, all);
    const syn_tensor part = syn_reduce_scatter(ctx, input, SYN_REDUCE_SUM, 0, all);
    const syn_tensor parts = syn_all_gather(ctx, part, 0, all);
    if (syn_tensor_read(ctx, whole, sum, sizeof sum) == SYN_OK &&
        syn_tensor_read(ctx, parts, joined, sizeof joined) == SYN_OK && rank == 0) {
        for (int i = 0; i < ELEMENTS; i++) apart = fmaxf(apart, fabsf(sum[i] - joined[i]));
        printf("%d ranks have %d bytes each, and %lld of them between the halves; the two ways "
               "differ by %g\n",
               all->size, ELEMENTS * 4, syn_spec_elems(syn_tensor_spec(ctx, part)) * 4LL, apart);
    }
    return syn_ctx_check(ctx, err);
}

int main(int argc, char **argv) {
    syn_error err = {0};
    const int ranks = argc > 1 ? atoi(argv[1]) : 2;
    if (syn_ranks_compute(&(syn_plan){.ranks = ranks}, SYN_DEVICE_CPU, add_twice, NULL, &err) ==
        SYN_OK)
        return fflush(stdout) != 0;
    fprintf(stderr, "two_halves: %s\n", err.text);
    return 1;
}
