/* Writes the device work of a rank (syntorch/graph/work.h) on separate tracks. */
#ifndef EXPORT_CHROME_WORK_H
#define EXPORT_CHROME_WORK_H

#include "export/walk/timeline.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Appends events, each preceded by a comma. Each stream of the device gets a thread "kernels,
   stream 7" with its kernels, copies and fills; the thread id is first_tid plus the stream's
   number. Thread first_tid has the host's waits for the device. The rank is the selected rank of
   `walk`. Nothing is written if it has no device work. */
syn_status syn__chrome_put_work(syn_sink *sink, const syn__timeline *timeline, syn__walk *walk,
                                uint32_t first_tid, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
