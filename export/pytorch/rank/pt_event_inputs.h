/* Converts the inputs of a CPU event to the form that host traces use. */
#ifndef EXPORT_PT_EVENT_INPUTS_H
#define EXPORT_PT_EVENT_INPUTS_H

#include "export/pytorch/read/pt_device.h"
#include "export/text/arena.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes {"values": ..., "shapes": ..., "types": ...} from the args that Kineto wrote. The text is
   in the arena and has at most 2 GiB. inputs->bytes is 0 if there are no inputs. *sequence:
   autograd's sequence number; -1: none. */
syn_status syn__pt_event_inputs(syn__arena *arena, const syn__pt_event *event, syn__str *inputs,
                                int64_t *sequence, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
