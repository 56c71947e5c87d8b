/* Ranks without transport, one after the other: what syn_local_run does in threads. */
#ifndef TESTS_FAKE_RANKS_H
#define TESTS_FAKE_RANKS_H

#include "comm/comm.h"

static inline syn_status fake_run(int ranks, syn_rank_main *rank_main, void *arg, syn_error *err) {
    for (int r = 0; r < ranks; r++) {
        syn_comm *comm;
        SYN_TRY(syn_comm_fake_new(&comm, r, ranks, err));
        const syn_status s = rank_main(comm, arg, err);
        syn_comm_close(comm);
        SYN_TRY(s);
    }
    return SYN_OK;
}

#endif
