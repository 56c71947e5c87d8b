/* Rewrites a damaged host or device trace as valid JSON. Valid parts are copied byte for byte.
   Elements that cannot be read are omitted, and so is the last element of a truncated file. */
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
    uint64_t n_objects; /* number of JSON objects in the file */
    uint64_t n_kept;    /* number of nodes or events that were written */
} syn__pt_repaired;

/* Writes the objects that `object` selects. If it selects all objects, their lists of nodes or
   events are concatenated. The text before this list comes from the first object, and the text
   after it from the last object. Fails with SYN_E_FORMAT if nothing can be recovered. */
syn_status syn__pt_repair(syn__pt_repaired *repaired, syn__file_text *input,
                          syn_pytorch_object object, syn_sink *out, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
