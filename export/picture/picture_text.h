/* Texts of pictures: bounded concatenation, escaping, widths, and numbers for people. */
#ifndef EXPORT_PICTURE_TEXT_H
#define EXPORT_PICTURE_TEXT_H

#include "syntorch/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A text under construction. Text beyond its capacity is dropped at a character boundary. */
typedef struct syn__pic_text {
    char s[4096];
    size_t n;
} syn__pic_text;

void syn__pic_clear(syn__pic_text *t);
void syn__pic_put(syn__pic_text *t, const char *fmt, ...) SYN_PRINTF(2, 3);
/* Appends text escaped for HTML-like labels. Control characters and bytes that are not UTF-8 become
   '?'. An empty text becomes a no-break space, because graphviz rejects elements without text. */
void syn__pic_put_html(syn__pic_text *t, const char *text);
/* Whether a name is empty or blank, so that an id must take its place. */
bool syn__pic_is_blank(const char *name);
/* Appends plain text of unknown origin as valid UTF-8 without control characters. */
void syn__pic_put_clean(syn__pic_text *t, const char *text);

/* Width of `text` in points in DejaVu Sans of `size` points (a few per cent more than other sans
   fonts need). */
double syn__pic_width(const char *text, double size, bool bold);
/* Copies at most `max` characters of text to out, with an ellipsis if some are dropped. Returns
   out. */
char *syn__pic_shorten(const char *text, size_t max, char *out, size_t out_bytes);
/* The same, keeping the last characters. */
char *syn__pic_shorten_front(const char *text, size_t max, char *out, size_t out_bytes);

#define SYN__PIC_NUMBER 32
/* Format "12.5 KiB", "3.2 GFLOP", "12,345", "35.2 us" (with a micro sign) in
   buf[SYN__PIC_NUMBER]. */
const char *syn__pic_bytes(uint64_t bytes, char *buf);
const char *syn__pic_flops(uint64_t flops, char *buf);
const char *syn__pic_count(uint64_t count, char *buf);
const char *syn__pic_time(double ns, char *buf);

#ifdef __cplusplus
}
#endif
#endif
