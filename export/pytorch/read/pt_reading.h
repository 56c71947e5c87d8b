/* What the readers of host and device traces share (pt_host.c, pt_device.c). */
#ifndef EXPORT_PT_READING_H
#define EXPORT_PT_READING_H

#include "export/pytorch_notes.h"
#include "export/text/loose_json.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__PT_MAX_CUTS  64 /* breaks at the text's end before what is left counts as cut off */
#define SYN__PT_GIVE_BACK ((size_t)8 << 20) /* text read, before its pages are given back */

/* Whether a slice is a literal, at the price of a constant comparison. */
static inline bool syn__pt_is(syn__str s, const char *text, size_t bytes) {
    return s.bytes == bytes && memcmp(s.text, text, bytes) == 0;
}
#define SYN__PT_IS(s, literal) syn__pt_is((s), literal, sizeof literal - 1)

/* After damage within the element at `element`: to the next one, which begins with first_key; else
   behind this one's brackets, if they match; else to the end, broken and cut. *cuts counts breaks
   that led to the text's end, over the whole file. */
bool syn__pt_go_on(syn__loose *l, const char *element, syn__str first_key, int *cuts);
/* Notes what the reader read over. */
void syn__pt_note_faults(const syn__loose *l, syn_pytorch_note *notes, const char *file);

#ifdef __cplusplus
}
#endif
#endif
