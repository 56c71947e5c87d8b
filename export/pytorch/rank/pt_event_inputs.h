/* Inputs of a CPU op as a host trace has them. */
#ifndef EXPORT_PT_EVENT_INPUTS_H
#define EXPORT_PT_EVENT_INPUTS_H

#include "export/pytorch/read/pt_device.h"
#include "export/text/arena.h"

#ifdef __cplusplus
extern "C" {
#endif

/* {"values": ..., "shapes": ..., "types": ...} of Kineto's args, less than 2 GiB in the arena;
   bytes 0: none. *sequence: autograd's, -1: none. */
syn_status syn__pt_event_inputs(syn__arena *arena, const syn__pt_event *event, syn__str *inputs,
                                int64_t *sequence, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
