/* Functions that the readers of host traces and device traces share (pt_host.c, pt_device.c). */
#ifndef EXPORT_PT_READING_H
#define EXPORT_PT_READING_H

#include "export/pytorch_notes.h"
#include "export/text/loose_json.h"

#ifdef __cplusplus
extern "C" {
#endif

/* After this many recoveries that reached the end of the text, the rest counts as cut off. */
#define SYN__PT_MAX_CUTS 64
/* Memory pages that were read are released whenever this many bytes have been read. */
#define SYN__PT_RELEASE_BYTES ((size_t)8 << 20)

/* Compares a slice with a literal. It is inline, so the compiler turns it into a comparison with
   constants. */
static inline bool syn__pt_is(syn__str s, const char *text, size_t bytes) {
    return s.bytes == bytes && memcmp(s.text, text, bytes) == 0;
}
#define SYN__PT_IS(s, literal) syn__pt_is((s), literal, sizeof literal - 1)

/* Recovers from damage within the element that begins at `element`. Moves the parser to the next
   element that begins with first_key. If there is none, moves past the closing bracket of the
   element, if its brackets match. Otherwise moves to the end of the text, returns false and leaves
   the parser in the states `broken` and `cut`. *cuts counts the recoveries in this file that
   reached the end of the text. */
bool syn__pt_resume(syn__loose *l, const char *element, syn__str first_key, int *cuts);
/* Adds the parser's counts of damage to the notes. */
void syn__pt_note_faults(const syn__loose *l, syn_pytorch_note *notes, const char *file);

#ifdef __cplusplus
}
#endif
#endif
