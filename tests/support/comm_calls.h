/* Collectives that are waited for, in a line each. */
#ifndef TESTS_COMM_CALLS_H
#define TESTS_COMM_CALLS_H

#include "syntorch/communicator.h"

static inline syn_status run_reducing(syn_comm_kind kind, syn_comm *comm, const syn_group *group,
                                      const void *in, void *out, size_t n_elems, syn_dtype dtype,
                                      syn_reduce reduce, syn_error *err) {
    const syn_exchange x = {.kind = kind,
                            .dtype = dtype,
                            .reduce = reduce,
                            .n_elems = n_elems,
                            .group = group,
                            .in = in,
                            .out = out};
    return syn_comm_run(comm, &x, NULL, err);
}

static inline syn_status run_all_reduce(syn_comm *comm, const syn_group *group, const void *in,
                                        void *out, size_t n_elems, syn_dtype dtype,
                                        syn_reduce reduce, syn_error *err) {
    return run_reducing(SYN_COMM_ALL_REDUCE, comm, group, in, out, n_elems, dtype, reduce, err);
}

static inline syn_status run_reduce_scatter(syn_comm *comm, const syn_group *group, const void *in,
                                            void *out, size_t n_elems, syn_dtype dtype,
                                            syn_reduce reduce, syn_error *err) {
    return run_reducing(SYN_COMM_REDUCE_SCATTER, comm, group, in, out, n_elems, dtype, reduce, err);
}

static inline syn_status run_all_gather(syn_comm *comm, const syn_group *group, const void *in,
                                        void *out, size_t n_elems, syn_dtype dtype,
                                        syn_error *err) {
    return run_reducing(SYN_COMM_ALL_GATHER, comm, group, in, out, n_elems, dtype, 0, err);
}

static inline syn_status run_broadcast(syn_comm *comm, const syn_group *group, const void *in,
                                       void *out, size_t n_elems, syn_dtype dtype, int32_t root,
                                       syn_error *err) {
    const syn_exchange x = {.kind = SYN_COMM_BROADCAST,
                            .dtype = dtype,
                            .root = root,
                            .n_elems = n_elems,
                            .group = group,
                            .in = in,
                            .out = out};
    return syn_comm_run(comm, &x, NULL, err);
}

static inline syn_status run_barrier(syn_comm *comm, const syn_group *group, syn_error *err) {
    const syn_exchange x = {.kind = SYN_COMM_BARRIER, .group = group};
    return syn_comm_run(comm, &x, NULL, err);
}

#endif
