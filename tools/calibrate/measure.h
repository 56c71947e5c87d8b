/* What this machine's kernels do, found by running them. */
#ifndef TOOLS_MEASURE_H
#define TOOLS_MEASURE_H

#include "syntorch/hardware/hardware.h"
#include "tools/calibrate/fit.h"
#include "tools/calibrate/job.h"

/* Rates from the times of ops: those that explain them best, by the formulas of the prediction.
   own_ns: what an op of next to no work takes by its own clock; launch_ns, which is more, what it
   adds to a step. */
void measure_rates(syn_hw_kernels *k, const timed_ops *ops, double own_ns);
/* alpha and bandwidth of the ring of k ranks that explains the all-reduces among the ops. */
void measure_link(syn_link *link, const timed_ops *ops, int32_t ranks);
/* Ranks and bytes of these become what hw says it was fitted to. */
void measure_link_ranges(syn_hardware *hw, const timed_ops *ops, int32_t ranks);

/* The same of a GPU: how many kernels its ops have, where these were counted; what the steps of
   that kind launch in all; the constants of *hw (peaks, bandwidth and those of the stack but for
   launches) that explain the times of settled ops best, by the formulas of the prediction. */
void measure_kernels(syn_stack *stack, const timed_ops *ops);
double measure_launches(const syn_stack *stack, const timed_ops *ops, bool decoding);
syn_status measure_constants(syn_hardware *hw, const timed_ops *ops, fit_errors *errors,
                             syn_error *err) SYN_MUST_USE;
/* Link and protocols that explain all-reduces of two ranks (which may be none) and of `ranks`. */
syn_status measure_library(syn_hardware *hw, const timed_ops *of_two, const timed_ops *of_all,
                           int32_t ranks, fit_errors *errors, syn_error *err) SYN_MUST_USE;

/* Measures the CPU and fills *hw; prints what it found. Takes less than two minutes. */
syn_status measure_machine(syn_hardware *hw, bool quiet, syn_error *err) SYN_MUST_USE;
/* The same of a GPU, or of all that there are; links that it has not itself stay those of *hw. */
syn_status measure_device(syn_hardware *hw, syn_device device, bool quiet,
                          syn_error *err) SYN_MUST_USE;

/* Where a launcher started several processes: puts what their all-reduces over MPI take into
   hw->intra. Every process calls it; *is_first: this one has the result, and has printed it.
   before: how this process's preparations went; *err has their sentence. If they failed on any
   rank, the lowest such rank gets its own `before` back, and all others SYN_E_COMM. */
syn_status measure_mpi(syn_hardware *hw, bool quiet, syn_status before, bool *is_first,
                       syn_error *err) SYN_MUST_USE;

#endif
