/* A terminal line that is redrawn in place: "step 12/40 [####......] loss 5.12 0:12 left". It never
   uses the last column, so that it cannot wrap. Each redraw queries the terminal's width, because
   terminals can be resized, and overwrites the rest of a longer previous line with spaces. */
#ifndef TOOLS_PROGRESS_LINE_H
#define TOOLS_PROGRESS_LINE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct progress_line {
    FILE *out;  /* a terminal */
    int filled; /* number of columns of the drawn line; 0: no line is drawn */
} progress_line;

/* Draws `head`, a bar for `done` of `of` units, and as many of the texts in `fields` as fit.
   `fields` begins with the most important text and ends with NULL. All text must be ASCII. */
void progress_line_draw(progress_line *line, const char *head, int64_t done, int64_t of,
                        const char *const fields[]);
/* Erases the line and puts the cursor at its beginning. */
void progress_line_clear(progress_line *line);
/* Ends the line so that it stays visible. */
void progress_line_end(progress_line *line);

/* Writes s seconds as "0:07", "12:07" or "3:12:07"; returns buf. */
const char *progress_time_text(double s, char *buf, size_t buf_bytes);

#endif
