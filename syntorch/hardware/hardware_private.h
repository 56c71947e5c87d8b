/* Internal functions that the files of hardware/ share. */
#ifndef SYNTORCH_HARDWARE_PRIVATE_H
#define SYNTORCH_HARDWARE_PRIVATE_H

#include "syntorch/base/settings.h"
#include "syntorch/hardware/hardware.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A list by op, such as a syn_hw_ops: n of at most `max` entries, each of which begins with the
   op's name in SYN__HW_OP_BYTES bytes. */
#define SYN__HW_OP_BYTES 32
typedef struct syn__hardware_op_list {
    void *at;
    size_t entry_bytes;
    int32_t n, max;
} syn__hardware_op_list;
/* Takes the last key as the name of entry n, which the caller then reads and counts. *outer: see
   syn__settings_enter. Fails if there is no such op, the list has it already, or it is full. */
syn_status syn__hardware_enter_op(syn__settings *s, const syn__hardware_op_list *list,
                                  size_t *outer) SYN_MUST_USE;
/* Readers and writers of CUSTOM rows: a syn_hw_curve, "[[size, rate], ...]", and a syn_hw_rates, an
   object of curves by op. */
syn_status syn__hardware_read_curve(syn__settings *s, void *member);
syn_status syn__hardware_read_rates(syn__settings *s, void *member);
void syn__hardware_write_curve(syn_sink *out, const void *member);
void syn__hardware_write_rates(syn_sink *out, const void *member);

/* The same for a syn_hw_fit_ranges, an object of ranges; _fits returns the number of entries. */
syn_status syn__hardware_read_fitted(syn__settings *s, void *member);
void syn__hardware_write_fitted(syn_sink *out, const void *member);
int32_t syn__hardware_fits(const void *member);

/* The group "errors" of hardware files. _read_rows reads the rows of a syn_hw_errors, _rows returns
   their number. */
extern const syn__setting_table syn__hardware_errors_table;
syn_status syn__hardware_read_rows(syn__settings *s, void *member);
int32_t syn__hardware_rows(const void *member);
/* The hash of hw's constants, as text. */
syn_status syn__hardware_constants(const syn_hardware *hw, char out[64],
                                   syn_error *err) SYN_MUST_USE;
/* Whether they are those of a preset, or of a file that says exactly what it does. */
syn_status syn__hardware_same(const syn_hardware *hw, const syn_hardware *preset, bool *same,
                              syn_error *err) SYN_MUST_USE;
/* Drops errors of other constants than hw has. */
syn_status syn__hardware_check_errors(syn_hardware *hw, syn_error *err) SYN_MUST_USE;
/* Sets the errors measured for a preset with this name and stack, if there are any. */
void syn__hardware_known_errors(syn_hardware *hw);

/* The curve's rate at a size; 0 if it has no points. */
double syn__hardware_rate(const syn_hw_curve *curve, double at);
/* The time of a compute node from measured kernels (hw->alone.ranks > 0). *work: the part without
   the launch; *limit: what limits that part. */
double syn__hardware_kernel_ns(const syn_hardware *hw, const syn_node *node, double *work,
                               syn_limit *limit);

/* Whether the node's size is outside the curve that its time comes from. */
bool syn__hardware_beyond_curve(const syn_hardware *hw, const syn_node *node,
                                syn_hw_extrapolation *out);

/* Sets predicted_ns of a node. rank: index of its rank in the graph. */
void syn__hardware_fill(const syn_hardware *hw, const syn_graph *graph, uint32_t rank,
                        syn_node *node);

#ifdef __cplusplus
}
#endif
#endif
