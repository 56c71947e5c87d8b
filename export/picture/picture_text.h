/* The texts of pictures: concatenation in a buffer of fixed size, escaping, widths, and numbers in
   a readable format. */
#ifndef EXPORT_PICTURE_TEXT_H
#define EXPORT_PICTURE_TEXT_H

#include "syntorch/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A text that is being built. Whatever exceeds the capacity is dropped, at a character boundary. */
typedef struct syn__pic_text {
    char s[4096];
    size_t n;
} syn__pic_text;

void syn__pic_clear(syn__pic_text *t);
void syn__pic_put(syn__pic_text *t, const char *fmt, ...) SYN_PRINTF(2, 3);
/* Appends text escaped for HTML-like labels. Control characters and bytes that are not UTF-8 become
   '?'. An empty text becomes a no-break space, because graphviz rejects elements without text. */
void syn__pic_put_html(syn__pic_text *t, const char *text);
/* Whether a name is empty or blank. An id is then shown instead. */
bool syn__pic_is_blank(const char *name);
/* Appends plain text from an input file: invalid UTF-8 and control characters are replaced. */
void syn__pic_put_clean(syn__pic_text *t, const char *text);

/* Width of `text` in points, in DejaVu Sans of `size` points. Other sans fonts need a few per cent
   less. */
double syn__pic_width(const char *text, double size, bool bold);
/* Copies at most `max` characters of text to out, and adds an ellipsis if some are dropped. Returns
   out. */
char *syn__pic_shorten(const char *text, size_t max, char *out, size_t out_bytes);
/* The same, but drops the first characters and keeps the last ones. */
char *syn__pic_shorten_front(const char *text, size_t max, char *out, size_t out_bytes);

#define SYN__PIC_NUMBER 32
/* Format "12.5 KiB", "3.2 GFLOP", "12,345" and "35.2 us" (with the micro sign) in
   buf[SYN__PIC_NUMBER]. */
const char *syn__pic_bytes(uint64_t bytes, char *buf);
const char *syn__pic_flops(uint64_t flops, char *buf);
const char *syn__pic_count(uint64_t count, char *buf);
const char *syn__pic_time(double ns, char *buf);

#ifdef __cplusplus
}
#endif
#endif
