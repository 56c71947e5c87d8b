/* Measures this machine's kernels and links by running them, and fills in a hardware
   description. */
#ifndef TOOLS_MEASURE_H
#define TOOLS_MEASURE_H

#include "syntorch/hardware/hardware.h"
#include "tools/calibrate/fit.h"
#include "tools/calibrate/job.h"

/* Computes the rates with which the prediction's formulas best explain the measured times of the
   ops. own_ns is the measured duration of an op with almost no work. k->launch_ns is longer: it is
   the time by which such an op lengthens a step. */
void measure_rates(syn_hw_kernels *k, const timed_ops *ops, double own_ns);
/* Computes the latency (alpha_ns) and bandwidth of a ring of `ranks` ranks from the all-reduces
   among the ops. */
void measure_link(syn_link *link, const timed_ops *ops, int32_t ranks);
/* Stores in *hw the numbers of ranks and the sizes of these all-reduces, as the ranges that its
   constants were fitted to. */
void measure_link_ranges(syn_hardware *hw, const timed_ops *ops, int32_t ranks);

/* The corresponding functions for a GPU. measure_kernels sets the number of kernels of each op
   whose kernels were counted. measure_launches returns the number of launches in all decode steps,
   or in all training steps, among the ops. measure_constants fits the constants of *hw to the times
   of the ops, for which timed_ops_settle must have been called: the peaks, the bandwidth, and the
   stack's constants except those of launches. */
void measure_kernels(syn_stack *stack, const timed_ops *ops);
double measure_launches(const syn_stack *stack, const timed_ops *ops, bool decoding);
syn_status measure_constants(syn_hardware *hw, const timed_ops *ops, fit_errors *errors,
                             syn_error *err) SYN_MUST_USE;
/* Fits the link and the protocols of the collective library to all-reduces of two ranks (of_two,
   may be empty) and of `ranks` ranks (of_all). */
syn_status measure_library(syn_hardware *hw, const timed_ops *of_two, const timed_ops *of_all,
                           int32_t ranks, fit_errors *errors, syn_error *err) SYN_MUST_USE;

/* Measures the CPU, fills in *hw, and prints the results unless `quiet` is set. Takes less than two
   minutes. */
syn_status measure_machine(syn_hardware *hw, bool quiet, syn_error *err) SYN_MUST_USE;
/* Measures one GPU and, if the machine has several, the links between them. Constants of links that
   cannot be measured on this machine keep their values in *hw. */
syn_status measure_device(syn_hardware *hw, syn_device device, bool quiet,
                          syn_error *err) SYN_MUST_USE;

/* For several processes started by a launcher: measures all-reduces over MPI and sets hw->intra.
   Every process must call it. Sets *is_first on the process that has the result and has printed it.
   `before` is the status of this process's preparations; if they failed, *err has the message. If
   they failed on any rank, nothing is measured: the lowest such rank returns its own `before`, and
   all other ranks return SYN_E_COMM. */
syn_status measure_mpi(syn_hardware *hw, bool quiet, syn_status before, bool *is_first,
                       syn_error *err) SYN_MUST_USE;

#endif
