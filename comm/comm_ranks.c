/* Runs one function on the ranks of a program, wherever they are. */
#include "comm/comm.h"

#include <stdio.h>

static void print_line(void *unused, const char *sentence) {
    (void)unused;
    fprintf(stderr, "%s\n", sentence);
}

/* This process is one rank. The others are ended by its failure. */
static syn_status run_process(syn_rank_main *rank_main, void *arg, syn_error *err) {
    const syn_mpi_options options = {.overlap = true, .log = print_line};
    syn_comm *comm = NULL;
    SYN_TRY(syn_comm_mpi_new(&comm, &options, err));
    const syn_status s = rank_main(comm, arg, err);
    if (s != SYN_OK) comm->ops->abort(comm, err->code != SYN_OK ? err->text : syn_status_name(s));
    else syn_comm_close(comm);
    return s;
}

syn_status syn_ranks_run(int32_t size, syn_rank_main *rank_main, void *arg, syn_error *err) {
    int32_t launched = 1;
    if (syn_mpi_launched(NULL, &launched) && launched > 1) return run_process(rank_main, arg, err);
    return syn_local_run(size, rank_main, arg, err);
}
