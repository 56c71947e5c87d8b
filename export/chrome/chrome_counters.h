/* Counter tracks of a rank: memory used by its tensors, and bytes that its communication has in
   flight. */
#ifndef EXPORT_CHROME_COUNTERS_H
#define EXPORT_CHROME_COUNTERS_H

#include "export/walk/timeline_tracks.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Appends counter events for the walk's rank; `tracks` are its tracks. A storage counts from the
   start of the op that first writes it to the end of the last op that reads it; parameters, inputs
   and tensors that live across steps count to the end. A communication counts from its start,
   excluding wait time, to its end. */
syn_status syn__chrome_put_counters(syn_sink *sink, const syn__timeline *timeline, syn__walk *walk,
                                    const syn__tracks *tracks, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
