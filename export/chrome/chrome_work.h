/* What a device did for a rank (syntorch/graph/work.h), as slices of threads of its own. */
#ifndef EXPORT_CHROME_WORK_H
#define EXPORT_CHROME_WORK_H

#include "export/walk/timeline.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Appends events, each behind a comma: for each stream of the device a thread "kernels, stream 7"
   with its kernels, copies and fills, whose number is first_tid and the stream's. Thread first_tid
   has the host's waits for it. `walk` stands in the rank. Nothing where nothing is known. */
syn_status syn__chrome_put_work(syn_sink *sink, const syn__timeline *timeline, syn__walk *walk,
                                uint32_t first_tid, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
