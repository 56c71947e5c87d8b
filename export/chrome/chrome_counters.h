/* Curves of a rank: the memory that its tensors take, and the bytes that its communications are
   moving. */
#ifndef EXPORT_CHROME_COUNTERS_H
#define EXPORT_CHROME_COUNTERS_H

#include "export/walk/timeline_lanes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Appends counter events for the walk's rank, whose lanes these are. A storage counts from the
   begin of the op that first writes it to the end of the last that reads it; parameters, inputs and
   what is kept between steps stay. A communication counts from its begin, waiting left out, to its
   end. */
syn_status syn__chrome_put_counters(syn_sink *sink, const syn__timeline *timeline, syn__walk *walk,
                                    const syn__lanes *lanes, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
