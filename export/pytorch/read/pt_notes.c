/* Counts anomalies; see pt_notes.h. */
#include "export/pytorch/read/pt_notes.h"

static const struct {
    const char *name, *met, *done;
} texts[] = {
#define SYN_X(id, name, met, done) {name, met, done},
    SYN_PYTORCH_ANOMALY_LIST(SYN_X)
#undef SYN_X
};

void syn__pt_note_at(syn_pytorch_note *notes, syn_pytorch_anomaly kind, const char *file,
                     uint64_t at, uint64_t node) {
    if (notes == NULL) return;
    syn_pytorch_note *note = &notes[kind];
    if (note->count == 0) *note = (syn_pytorch_note){.file = file, .at = at, .node = node};
    note->count++;
}

void syn__pt_note_many(syn_pytorch_note *notes, syn_pytorch_anomaly kind, uint64_t count,
                       const char *file, uint64_t at) {
    if (notes == NULL || count == 0) return;
    syn__pt_note_at(notes, kind, file, at, SYN_PYTORCH_NO_PLACE);
    notes[kind].count += count - 1;
}

const char *syn_pytorch_anomaly_name(syn_pytorch_anomaly kind) {
    return texts[kind].name;
}

const char *syn_pytorch_anomaly_met(syn_pytorch_anomaly kind) {
    return texts[kind].met;
}

const char *syn_pytorch_anomaly_done(syn_pytorch_anomaly kind) {
    return texts[kind].done;
}
