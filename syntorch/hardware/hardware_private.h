/* Internal functions that the files of hardware/ share. */
#ifndef SYNTORCH_HARDWARE_PRIVATE_H
#define SYNTORCH_HARDWARE_PRIVATE_H

#include "syntorch/base/settings.h"
#include "syntorch/hardware/hardware.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A list by op name, such as a syn_hw_ops. It has n entries, at most `max`. Each entry begins with
   the op's name in SYN__HW_OP_BYTES bytes. */
#define SYN__HW_OP_BYTES 32
typedef struct syn__hardware_op_list {
    void *at;
    size_t entry_bytes;
    int32_t n, max;
} syn__hardware_op_list;
/* Begins entry n of a list: the last key is the name of its op. The caller then reads the entry and
   increments n. *outer is the result of syn__settings_enter. Fails if there is no such op, if the
   list already has it, or if the list is full. */
syn_status syn__hardware_enter_op(syn__settings *s, const syn__hardware_op_list *list,
                                  size_t *outer) SYN_MUST_USE;
/* Read and write the values of CUSTOM rows (settings.h): a syn_hw_curve is "[[size, rate], ...]",
   and a syn_hw_rates is an object with a curve for each op. */
syn_status syn__hardware_read_curve(syn__settings *s, void *member);
syn_status syn__hardware_read_rates(syn__settings *s, void *member);
void syn__hardware_write_curve(syn_sink *out, const void *member);
void syn__hardware_write_rates(syn_sink *out, const void *member);

/* The same for a syn_hw_fit_ranges, an object with ranges for each kind of work. syn__hardware_fits
   returns its number of entries. */
syn_status syn__hardware_read_fitted(syn__settings *s, void *member);
void syn__hardware_write_fitted(syn_sink *out, const void *member);
int32_t syn__hardware_fits(const void *member);

/* The group "errors" of hardware files. syn__hardware_read_rows reads the rows of a syn_hw_errors,
   and syn__hardware_rows returns their number. */
extern const syn__setting_table syn__hardware_errors_table;
syn_status syn__hardware_read_rows(syn__settings *s, void *member);
int32_t syn__hardware_rows(const void *member);
/* Writes the hash of hw's constants, as text, to `out`. */
syn_status syn__hardware_constants(const syn_hardware *hw, char out[64],
                                   syn_error *err) SYN_MUST_USE;
/* Sets *same to whether hw has the constants of a preset, directly or from a file in which this
   preset was saved. */
syn_status syn__hardware_same(const syn_hardware *hw, const syn_hardware *preset, bool *same,
                              syn_error *err) SYN_MUST_USE;
/* Drops hw's prediction errors if they belong to other constants than hw has. */
syn_status syn__hardware_check_errors(syn_hardware *hw, syn_error *err) SYN_MUST_USE;
/* Sets hw's prediction errors to those that were measured for the preset with this name and stack,
   if there are any. */
void syn__hardware_known_errors(syn_hardware *hw);

/* The rate of a curve at a size; 0 if the curve has no points. */
double syn__hardware_rate(const syn_hw_curve *curve, double at);
/* The time of a compute node from measured kernels, for which hw->alone.ranks > 0. *work is set to
   the time without the launch, and *limit to what limits this time. */
double syn__hardware_kernel_ns(const syn_hardware *hw, const syn_node *node, double *work,
                               syn_limit *limit);

/* Whether a node is attention with a paged KV cache, and the time of its work. rate: flops/ns of
   all multiprocessors. */
bool syn__is_paged(const syn_node *node);
double syn__hardware_paged_ns(const syn_hardware *hw, const syn_node *node, double rate);
/* The time of a kernel that two times limit: the longer one, and the part of the shorter one that
   it does not hide. */
double syn__hardware_longer(const syn_stack *stack, double a, double b);

/* Whether the node's size is outside the curve from which its time is predicted. The extrapolation
   is then stored in *out. */
bool syn__hardware_outside_curve(const syn_hardware *hw, const syn_node *node,
                                 syn_hw_extrapolation *out);

/* Whether a node is an all-to-all of DeepEP; its time between so many ranks on so many nodes; and
   whether it is on another machine or on more nodes than those that were measured, which *out then
   says. */
bool syn__is_deepep(const syn_node *node);
double syn__deepep_ns(const syn_hardware *hw, const syn_node *node, double ranks, double nodes);
bool syn__deepep_extrapolated(const syn_hardware *hw, double nodes, syn_hw_extrapolation *out);

/* Sets predicted_ns of a node. `rank` is the index of its rank in the graph. */
void syn__hardware_fill(const syn_hardware *hw, const syn_graph *graph, uint32_t rank,
                        syn_node *node);

#ifdef __cplusplus
}
#endif
#endif
