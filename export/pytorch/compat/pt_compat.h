/* Compat mode: produces exactly the bytes that the reference tools produce from the same files,
   including the effects of their defects. The reference tools are mlcommons/chakra 21585d8 with the
   versions of PARAM and HolisticTraceAnalysis that it pins. If they would abort or never finish,
   compat mode fails with SYN_E_FORMAT and a message that says why. One thing is not reproduced:
   "sync_dep" of the linked trace. It comes from the critical path analysis and has no effect on the
   .et file. */
#ifndef EXPORT_PT_COMPAT_H
#define EXPORT_PT_COMPAT_H

#include "export/pytorch/write/pt_merge.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Does what chakra_trace_link does, except that syn__pt_write_linked writes the file. The caller
   frees *out (syn__pt_merged_free) in all cases. */
syn_status syn__pt_compat_link(const syn__pt_host *host, const syn__pt_device *device,
                               syn__pt_merged_list *out, syn_error *err) SYN_MUST_USE;
/* Does what `chakra_converter PyTorch` does. The input is the list `merged`, or if merged and
   device are NULL, the nodes of `host`, which is a linked trace or a host trace. */
syn_status syn__pt_compat_convert(const syn__pt_host *host, const syn__pt_device *device,
                                  const syn__pt_merged_list *merged, syn_sink *sink,
                                  syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
