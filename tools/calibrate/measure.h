/* What this machine's kernels do, found by running small models on it. */
#ifndef TOOLS_MEASURE_H
#define TOOLS_MEASURE_H

#include "syntorch/hardware.h"
#include "tools/calibrate/job.h"

/* Rates from the times of ops: those that explain them best, by the formulas of the prediction.
   own_ns: what an op of next to no work takes by its own clock; launch_ns, which is more, what it
   adds to a step. */
void measure_rates(syn_hw_kernels *k, const timed_ops *ops, double own_ns);
/* alpha and bandwidth of the ring of k ranks that explains the all-reduces among the ops. */
void measure_link(syn_link *link, const timed_ops *ops, int32_t ranks);

/* Measures and fills *hw; prints what it found. Takes less than two minutes. */
syn_status measure_machine(syn_hardware *hw, bool quiet, syn_error *err) SYN_MUST_USE;

/* Where a launcher started several processes: puts what their all-reduces over MPI take into
   hw->intra. Every process calls it; *is_first: this one has the result, and has printed it. */
syn_status measure_mpi(syn_hardware *hw, bool quiet, bool *is_first, syn_error *err) SYN_MUST_USE;

#endif
