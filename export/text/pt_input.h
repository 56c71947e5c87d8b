/* Inside of pt_input.c, and what its tests ask of it. */
#ifndef EXPORT_PT_INPUT_H
#define EXPORT_PT_INPUT_H

#include "export/pytorch/read/pt_trace.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__PT_GIVEN_STEP ((size_t)4 << 20) /* syn__pt_input_done gives back multiples of it */

/* syn__pt_input_open_limited on a machine with that much memory. */
syn_status syn__pt_input_open_within(syn__pt_input *input, const char *path, uint64_t memory_bytes,
                                     uint64_t max_unpacked_bytes, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
