/* Reads a file or standard input line by line. Memory depends on the longest line, not on the
   file. */
#ifndef TOOLS_REQUEST_LINES_H
#define TOOLS_REQUEST_LINES_H

#include "export/text/bytes.h"

#define REQUEST_LINE_LIMIT ((size_t)16 << 20) /* bytes */

typedef struct request_lines {
    const char *name; /* of the file, for messages */
    int64_t line;     /* number of the current line, or of its first line */
    int64_t n_lines;  /* that were read */
    int fd;
    bool opened; /* fd was opened here */
    bool ended;  /* all bytes are in the buffer */
    char *buffer;
    size_t cap, start, next, bytes; /* the current line begins at `start`, the next one at `next` */
} request_lines;

/* Call request_lines_close even if it fails. */
syn_status request_lines_open(request_lines *l, const char *path, syn_error *err) SYN_MUST_USE;
/* Moves to the next line. *text is the line without its end, may be changed, and is valid until the
   next call. Sets *end to true if there is none. Fails if the line has a NUL byte, or more than
   REQUEST_LINE_LIMIT bytes. */
syn_status request_lines_next(request_lines *l, syn__str *text, bool *end,
                              syn_error *err) SYN_MUST_USE;
/* Appends the next line to the current one, whose quoted field continues there. */
syn_status request_lines_append(request_lines *l, syn__str *text, bool *end,
                                syn_error *err) SYN_MUST_USE;
void request_lines_close(request_lines *l);

#endif
