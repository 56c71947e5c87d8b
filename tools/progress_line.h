/* One line of a terminal, written over again and again: "step 12/40 [####......]  loss 5.12  0:12
   left". It never reaches the terminal's last column, so that no line wraps; the width is asked for
   each time, for terminals change theirs. Plain blanks clear what a longer line has left. */
#ifndef TOOLS_PROGRESS_LINE_H
#define TOOLS_PROGRESS_LINE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct progress_line {
    FILE *out;  /* a terminal */
    int filled; /* columns */
} progress_line;

/* `head`, a bar, and of the facts (ended by NULL, the most important first) as many as fit. All
   are ASCII. */
void progress_line_draw(progress_line *line, const char *head, int64_t done, int64_t of,
                        const char *const facts[]);
/* Leaves an empty line, and the cursor at its begin. */
void progress_line_clear(progress_line *line);
/* What stands there stays. */
void progress_line_end(progress_line *line);

/* "0:07", "12:07", "3:12:07"; returns buf. */
const char *progress_time_text(double s, char *buf, size_t buf_bytes);

#endif
