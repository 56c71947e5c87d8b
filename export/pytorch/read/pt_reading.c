/* Recovers from damage and counts it, for the readers of host and device traces; see
   pt_reading.h. */
#include "export/pytorch/read/pt_reading.h"
#include "export/pytorch/read/pt_notes.h"

/* Moves past the brackets of the element at p. Returns false if they do not match, or if neither a
   comma nor the end of the list follows. */
static bool past_brackets(syn__loose *l, const char *p) {
    l->cur = p;
    l->broken = l->cut = l->at_member = false;
    if (syn__loose_skip(l, NULL) == SYN__LOOSE_NONE) return false;
    const char next = syn__loose_peek(l);
    return next == ',' || next == ']';
}

bool syn__pt_resume(syn__loose *l, const char *element, syn__str first_key, int *cuts) {
    const bool cut = l->cut;
    if (cut && ++*cuts > SYN__PT_MAX_CUTS) element = l->end;
    if (element < l->end && syn__loose_resume(l, element + 1, first_key)) return true;
    syn__loose probe = *l; /* a copy, because the damage up to here was counted already */
    if (!cut && ++*cuts <= SYN__PT_MAX_CUTS && past_brackets(&probe, element)) {
        l->cur = probe.cur;
        l->broken = l->cut = false;
        return true;
    }
    l->cur = l->end;
    l->broken = l->cut = true;
    return false;
}

void syn__pt_note_faults(const syn__loose *l, syn_pytorch_note *notes, const char *file) {
    static const syn_pytorch_anomaly kinds[SYN__LOOSE_FAULTS] = {
        [SYN__LOOSE_EXTRA_COMMA] = SYN_PYTORCH_ANOMALY_EXTRA_COMMA,
        [SYN__LOOSE_MISSING_COMMA] = SYN_PYTORCH_ANOMALY_MISSING_COMMA,
        [SYN__LOOSE_CONTROL] = SYN_PYTORCH_ANOMALY_CONTROL,
        [SYN__LOOSE_QUOTE] = SYN_PYTORCH_ANOMALY_QUOTE,
        [SYN__LOOSE_UTF8] = SYN_PYTORCH_ANOMALY_ENCODING,
        [SYN__LOOSE_BARE_WORD] = SYN_PYTORCH_ANOMALY_BARE_WORD,
    };
    syn__loose_count found[SYN__LOOSE_FAULTS];
    memcpy(found, l->faults, sizeof found);
    syn__loose_count *words = &found[SYN__LOOSE_BARE_WORD], *others = &found[SYN__LOOSE_NO_VALUE];
    if (words->count == 0 || (others->count > 0 && others->first < words->first))
        words->first = others->first;
    words->count += others->count;
    others->count = 0;
    for (int i = 0; i < SYN__LOOSE_FAULTS; i++)
        if (found[i].count > 0)
            syn__pt_note_many(notes, kinds[i], found[i].count, file, found[i].first);
}
