/* Rewrites a damaged host or device trace as valid JSON. Valid parts are kept byte for byte.
   Elements that cannot be read, and the element at which a truncated file ends, are omitted. */
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
    uint64_t n_kept;    /* elements of the list of nodes or events that were written */
} syn__pt_repaired;

/* If `object` selects all objects, their lists of nodes or events are concatenated, between the
   members before the list in the first object and those after it in the last one. Fails with
   SYN_E_FORMAT if nothing can be recovered. */
syn_status syn__pt_repair(syn__pt_repaired *repaired, syn__file_text *input,
                          syn_pytorch_object object, syn_sink *out, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
