/* Measures this machine's kernels and links by running them, and fills in a hardware
   description. */
#ifndef TOOLS_MEASURE_H
#define TOOLS_MEASURE_H

#include "syntorch/hardware/hardware.h"
#include "tools/calibrate/fit.h"
#include "tools/calibrate/job.h"

/* Computes the rates that best explain the times of the ops by the formulas of the prediction.
   own_ns is the time of an op with almost no work by its own clock. k->launch_ns is larger: it is
   what such an op adds to a step. */
void measure_rates(syn_hw_kernels *k, const timed_ops *ops, double own_ns);
/* Computes alpha and bandwidth of a ring of `ranks` ranks from the all-reduces among the ops. */
void measure_link(syn_link *link, const timed_ops *ops, int32_t ranks);
/* Sets the ranges that hw was fitted to, from the ranks and bytes of these all-reduces. */
void measure_link_ranges(syn_hardware *hw, const timed_ops *ops, int32_t ranks);

/* The same for a GPU. measure_kernels: the number of kernels of each op, for ops whose kernels were
   counted. measure_launches: the number of launches in all decode or training steps among the ops.
   measure_constants: fits the constants of *hw (peaks, bandwidth, and the stack's constants except
   launches) to the times of settled ops. */
void measure_kernels(syn_stack *stack, const timed_ops *ops);
double measure_launches(const syn_stack *stack, const timed_ops *ops, bool decoding);
syn_status measure_constants(syn_hardware *hw, const timed_ops *ops, fit_errors *errors,
                             syn_error *err) SYN_MUST_USE;
/* Fits the link and the protocols to all-reduces of two ranks (of_two may be empty) and of `ranks`
   ranks. */
syn_status measure_library(syn_hardware *hw, const timed_ops *of_two, const timed_ops *of_all,
                           int32_t ranks, fit_errors *errors, syn_error *err) SYN_MUST_USE;

/* Measures the CPU, fills *hw, and prints the results unless `quiet`. Takes less than two
   minutes. */
syn_status measure_machine(syn_hardware *hw, bool quiet, syn_error *err) SYN_MUST_USE;
/* The same for one GPU, or for all GPUs of this machine. Links that the machine does not have keep
   their values in *hw. */
syn_status measure_device(syn_hardware *hw, syn_device device, bool quiet,
                          syn_error *err) SYN_MUST_USE;

/* For several processes started by a launcher: measures all-reduces over MPI and sets hw->intra.
   Every process calls it. *is_first: this process has the result and has printed it. `before` is
   the status of this process's preparations, and *err has its sentence. If they failed on any rank,
   the lowest such rank returns its own `before`, and all others return SYN_E_COMM. */
syn_status measure_mpi(syn_hardware *hw, bool quiet, syn_status before, bool *is_first,
                       syn_error *err) SYN_MUST_USE;

#endif
