#include "export/pytorch/read/pt_reading.h"
#include "export/pytorch/read/pt_notes.h"

bool syn__pt_go_on(syn__loose *l, const char *from, syn__str first_key, int *cuts) {
    if (l->cut && ++*cuts > SYN__PT_MAX_CUTS) from = l->end;
    if (syn__loose_resume(l, from, first_key)) return true;
    l->broken = l->cut = true;
    return false;
}

void syn__pt_note_faults(const syn__loose *l, syn_pytorch_note *notes, const char *file) {
    static const syn_pytorch_anomaly kinds[SYN__LOOSE_FAULTS] = {
        [SYN__LOOSE_EXTRA_COMMA] = SYN_PYTORCH_ANOMALY_EXTRA_COMMA,
        [SYN__LOOSE_MISSING_COMMA] = SYN_PYTORCH_ANOMALY_MISSING_COMMA,
        [SYN__LOOSE_CONTROL] = SYN_PYTORCH_ANOMALY_CONTROL,
        [SYN__LOOSE_QUOTE] = SYN_PYTORCH_ANOMALY_QUOTE,
        [SYN__LOOSE_BARE_WORD] = SYN_PYTORCH_ANOMALY_BARE_WORD,
    };
    for (int i = 0; i < SYN__LOOSE_FAULTS; i++) {
        const syn__loose_count *c = &l->faults[i];
        if (c->count > 0) syn__pt_note_many(notes, kinds[i], c->count, file, c->first);
    }
}
