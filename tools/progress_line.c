/* Draws a progress line on a terminal of any width. */
#include "tools/progress_line.h"

#include <string.h>
#include <sys/ioctl.h>

enum { LINE_BYTES = 512, BAR_MAX = 30, BAR_MIN = 6 };

/* The number of columns that a line may use. */
static int columns_of(FILE *out) {
    struct winsize size;
    int columns = 80; /* used if the terminal does not report its size */
    if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) columns = size.ws_col;
    return columns <= LINE_BYTES ? columns - 1 : LINE_BYTES - 1;
}

/* Appends `more` if the line then has at most `columns` columns; otherwise returns false. */
static bool append(char *text, int columns, const char *more) {
    const size_t used = strlen(text), n = strlen(more);
    if (used + n > (size_t)columns) return false;
    memcpy(text + used, more, n + 1);
    return true;
}

/* Appends a bar that fills the space that the fields do not need. If not all fields fit, the bar
   has its minimum width. If even the first field would not fit after that bar, it is omitted. */
static void append_bar(char *text, int columns, double part, const char *const fields[]) {
    char bar[BAR_MAX + 4] = " [";
    int left = columns - (int)strlen(text) - (int)strlen(" []"), least = 0;
    for (size_t i = 0; fields[i]; i++) {
        left -= (int)strlen("  ") + (int)strlen(fields[i]);
        if (i == 0) least = left;
    }
    if (least < BAR_MIN) return;
    const int width = left < BAR_MIN ? BAR_MIN : left < BAR_MAX ? left : BAR_MAX;
    for (int i = 0; i < width; i++) bar[2 + i] = i < part * width ? '#' : '.';
    bar[2 + width] = ']';
    (void)append(text, columns, bar);
}

void progress_line_draw(progress_line *line, const char *head, int64_t done, int64_t of,
                        const char *const fields[]) {
    char text[LINE_BYTES] = "";
    const int columns = columns_of(line->out);
    const double part = of > 0 ? (double)done / (double)of : 1;
    snprintf(text, (size_t)columns + 1, "%s", head);
    append_bar(text, columns, part, fields);
    for (size_t i = 0; fields[i]; i++) {
        char fact[LINE_BYTES];
        snprintf(fact, sizeof fact, "  %s", fields[i]);
        if (!append(text, columns, fact)) break;
    }
    const int n = (int)strlen(text);
    const int blanks = (line->filled < columns ? line->filled : columns) - n;
    fprintf(line->out, "\r%s%*s", text, blanks > 0 ? blanks : 0, "");
    fflush(line->out);
    line->filled = n;
}

void progress_line_clear(progress_line *line) {
    if (line->filled == 0) return;
    const int columns = columns_of(line->out);
    fprintf(line->out, "\r%*s\r", line->filled < columns ? line->filled : columns, "");
    fflush(line->out);
    line->filled = 0;
}

void progress_line_end(progress_line *line) {
    if (line->filled == 0) return;
    fputc('\n', line->out);
    fflush(line->out);
    line->filled = 0;
}

const char *progress_time_text(double s, char *buf, size_t buf_bytes) {
    const long long all = s < 1e9 ? (long long)(s + 0.5) : 1000000000;
    if (all < 3600) snprintf(buf, buf_bytes, "%lld:%02lld", all / 60, all % 60);
    else snprintf(buf, buf_bytes, "%lld:%02lld:%02lld", all / 3600, all / 60 % 60, all % 60);
    return buf;
}
