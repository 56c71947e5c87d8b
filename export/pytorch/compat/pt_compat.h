/* Compatible mode: byte for byte what the reference tools make of the same files (mlcommons/chakra
   21585d8 with its pinned PARAM and HolisticTraceAnalysis), defects included. Where those abort or
   never end, one sentence says why (SYN_E_FORMAT). Left out: "sync_dep" of the linked trace, which
   comes from the critical path analysis and never reaches the .et. */
#ifndef EXPORT_PT_COMPAT_H
#define EXPORT_PT_COMPAT_H

#include "export/pytorch/write/pt_merge.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What chakra_trace_link does, but for writing: syn__pt_write_linked does that. *out is freed by
   the caller (syn__pt_merged_free) in any case. */
syn_status syn__pt_compat_link(const syn__pt_host *host, const syn__pt_device *device,
                               syn__pt_merged_list *out, syn_error *err) SYN_MUST_USE;
/* What `chakra_converter PyTorch` does: of a merged list, or (merged and device NULL) of the nodes
   of `host`, a linked or a host trace. */
syn_status syn__pt_compat_convert(const syn__pt_host *host, const syn__pt_device *device,
                                  const syn__pt_merged_list *merged, syn_sink *sink,
                                  syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
