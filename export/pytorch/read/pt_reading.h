/* Shared by the readers of host and device traces (pt_host.c, pt_device.c). */
#ifndef EXPORT_PT_READING_H
#define EXPORT_PT_READING_H

#include "export/pytorch_notes.h"
#include "export/text/loose_json.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__PT_MAX_CUTS  64 /* recoveries at the text's end before the rest counts as cut off */
#define SYN__PT_GIVE_BACK ((size_t)8 << 20) /* bytes read between releases of pages */

/* Compares a slice with a literal; as cheap as a comparison of constants. */
static inline bool syn__pt_is(syn__str s, const char *text, size_t bytes) {
    return s.bytes == bytes && memcmp(s.text, text, bytes) == 0;
}
#define SYN__PT_IS(s, literal) syn__pt_is((s), literal, sizeof literal - 1)

/* Recovers from damage within the element at `element`. Moves to the next element that begins with
   first_key, or else past the element's closing bracket, if the brackets match, or else to the end,
   which leaves the parser broken and cut. *cuts counts, over the whole file, the recoveries that
   reached the end of the text. */
bool syn__pt_go_on(syn__loose *l, const char *element, syn__str first_key, int *cuts);
/* Adds the parser's counts of damage to the notes. */
void syn__pt_note_faults(const syn__loose *l, syn_pytorch_note *notes, const char *file);

#ifdef __cplusplus
}
#endif
#endif
