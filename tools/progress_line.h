/* A line of a terminal that is redrawn in place: "step 12/40 [####......] loss 5.12 0:12 left". It
   never uses the last column, so it cannot wrap. The width is queried for each redraw, because
   terminals can be resized. Spaces overwrite the rest of a longer previous line. */
#ifndef TOOLS_PROGRESS_LINE_H
#define TOOLS_PROGRESS_LINE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct progress_line {
    FILE *out;  /* a terminal */
    int filled; /* columns of the current line; 0: no line */
} progress_line;

/* Draws `head`, a bar, and as many of the facts as fit. facts: most important first, terminated by
   NULL. All text is ASCII. */
void progress_line_draw(progress_line *line, const char *head, int64_t done, int64_t of,
                        const char *const facts[]);
/* Erases the line and puts the cursor at its beginning. */
void progress_line_clear(progress_line *line);
/* Ends the line so that it stays visible. */
void progress_line_end(progress_line *line);

/* "0:07", "12:07", "3:12:07"; returns buf. */
const char *progress_time_text(double s, char *buf, size_t buf_bytes);

#endif
