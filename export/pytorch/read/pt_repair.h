/* Rewrites a damaged host or device trace as valid JSON. What is valid stays byte for byte;
   elements that cannot be read, and what the file's end cut off, are left out. */
#ifndef EXPORT_PT_REPAIR_H
#define EXPORT_PT_REPAIR_H

#include "export/pytorch.h"
#include "export/text/file_text.h"
#include "export/text/json_fix.h"
#include "syntorch/base/sink.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__pt_repaired {
    syn__fix_note notes[SYN__FIX_KINDS];
    uint64_t n_objects; /* JSON objects in the file */
    uint64_t n_kept;    /* elements written of the list of nodes or events */
} syn__pt_repaired;

/* All objects: their lists of nodes or events are put together, between
   the first one's members before the list and the last one's behind it. SYN_E_FORMAT if nothing can
   be saved. */
syn_status syn__pt_repair(syn__pt_repaired *repaired, syn__file_text *input,
                          syn_pytorch_object object, syn_sink *out, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
