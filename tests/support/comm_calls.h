/* For the communicator tests: starts or runs an operation with one call each. */
#ifndef TESTS_COMM_CALLS_H
#define TESTS_COMM_CALLS_H

#include "syntorch/communicator.h"

/* Sets the data of an operation whose kind and group are set, with one segment. n_elems: the length
   of a part for all_gather and reduce_scatter, otherwise that of the segment. `in` and `out` are
   read and written as a whole: of all_gather, `out` has the parts of all ranks, and of
   reduce_scatter, `in` has. */
void set_data(syn_comm_call *x, syn_segment *one, const void *in, void *out, size_t n_elems);

/* Blocking collectives; n_elems as in set_data. */
syn_status run_all_reduce(syn_comm *comm, const syn_group *group, const void *in, void *out,
                          size_t n_elems, syn_dtype dtype, syn_reduce reduce, syn_error *err);
syn_status run_reduce_scatter(syn_comm *comm, const syn_group *group, const void *in, void *out,
                              size_t n_elems, syn_dtype dtype, syn_reduce reduce, syn_error *err);
syn_status run_all_gather(syn_comm *comm, const syn_group *group, const void *in, void *out,
                          size_t n_elems, syn_dtype dtype, syn_error *err);
syn_status run_broadcast(syn_comm *comm, const syn_group *group, const void *in, void *out,
                         size_t n_elems, syn_dtype dtype, int32_t root, syn_error *err);
syn_status run_barrier(syn_comm *comm, const syn_group *group, syn_error *err);

/* Start an operation and return its request, without waiting: start_call any operation,
   start_f32_sum an all-reduce, start_f32_message a message that is sent from `data` or received
   into it. wait_for waits for the request. */
syn_status start_call(syn_comm *comm, syn_comm_call x, syn_request **request, syn_error *err);
syn_status start_f32_sum(syn_comm *comm, const syn_group *group, const void *in, void *out,
                         size_t n_elems, syn_request **request, syn_error *err);
syn_status start_f32_message(syn_comm *comm, syn_comm_kind kind, void *data, size_t n_elems,
                             int32_t peer, int32_t tag, syn_request **request, syn_error *err);
syn_status wait_for(syn_comm *comm, syn_request *request, syn_error *err);

void f32_fill(float *to, size_t n_elems, float value);
/* Fails if an element differs from `want`. */
syn_status f32_all_are(const float *got, size_t n_elems, float want, syn_error *err);

/* Opens the group `name` of ranks 0 .. n_ranks - 1, at most 8 ranks. */
syn_status open_first(syn_comm *comm, uint32_t id, const char *name, int32_t n_ranks,
                      syn_group **group, syn_error *err);

#endif
