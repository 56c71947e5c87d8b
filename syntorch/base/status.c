/* Status names and error messages (status.h). */
#include "syntorch/base/status.h"

#include <stdio.h>
#include <string.h>

const char *syn_status_name(syn_status code) {
    static const char *const names[] = {
#define SYN_X(id, text) text,
        SYN_STATUS_LIST(SYN_X)
#undef SYN_X
    };
    const size_t i = (size_t)code;
    return i < sizeof names / sizeof names[0] ? names[i] : "unknown error";
}

/* Ends an error message that was cut: removes an incomplete UTF-8 character at the end and writes
   "...". */
static void mark_cut(char *text, size_t bytes) {
    size_t at = bytes - sizeof "...";
    while (at > 0 && ((unsigned char)text[at] & 0xC0u) == 0x80u) at--;
    memcpy(text + at, "...", sizeof "...");
}

syn_status syn__fail(syn_error *err, const char *file, int line, syn_status code, const char *fmt,
                     ...) {
    if (err == NULL || err->code != SYN_OK) return code;
    err->code = code;
    err->file = file;
    err->line = line;
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(err->text, sizeof err->text, fmt, args);
    va_end(args);
    if (n < 0) snprintf(err->text, sizeof err->text, "%s", syn_status_name(code));
    else if ((size_t)n >= sizeof err->text) mark_cut(err->text, sizeof err->text);
    return code;
}
