/* Compat mode: writes, byte for byte, what the reference tools make of the same files
   (mlcommons/chakra 21585d8 with its pinned PARAM and HolisticTraceAnalysis), including their
   defects. Where those tools abort or never finish, it fails with SYN_E_FORMAT and a sentence that
   says why. Not reproduced: "sync_dep" of the linked trace, which comes from the critical path
   analysis and never reaches the .et. */
#ifndef EXPORT_PT_COMPAT_H
#define EXPORT_PT_COMPAT_H

#include "export/pytorch/write/pt_merge.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Does what chakra_trace_link does, except for writing (syn__pt_write_linked). The caller frees
 *out (syn__pt_merged_free) in all cases. */
syn_status syn__pt_compat_link(const syn__pt_host *host, const syn__pt_device *device,
                               syn__pt_merged_list *out, syn_error *err) SYN_MUST_USE;
/* Does what `chakra_converter PyTorch` does with a merged list or, if merged and device are NULL,
   with the nodes of `host`, a linked or a host trace. */
syn_status syn__pt_compat_convert(const syn__pt_host *host, const syn__pt_device *device,
                                  const syn__pt_merged_list *merged, syn_sink *sink,
                                  syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
