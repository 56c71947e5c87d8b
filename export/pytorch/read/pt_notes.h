/* Counts the anomalies that the steps of a conversion find. */
#ifndef EXPORT_PT_NOTES_H
#define EXPORT_PT_NOTES_H

#include "export/pytorch_notes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Counts one anomaly in notes[kind]. If it is the first of its kind, stores where it was found:
   `at` is the position in the file, `node` the id of the node. `file` must live as long as the
   notes. notes may be NULL. */
void syn__pt_note_at(syn_pytorch_note *notes, syn_pytorch_anomaly kind, const char *file,
                     uint64_t at, uint64_t node);
/* Counts `count` anomalies. The first of them was found at `at`. */
void syn__pt_note_many(syn_pytorch_note *notes, syn_pytorch_anomaly kind, uint64_t count,
                       const char *file, uint64_t at);

#ifdef __cplusplus
}
#endif
#endif
