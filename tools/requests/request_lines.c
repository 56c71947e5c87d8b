/* Lines of files that may be larger than memory (request_lines.h). */
#include "tools/requests/request_lines.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "syntorch/base/memory.h"
#include "syntorch/base/sink.h"

enum { READ_BYTES = 1 << 20 };

syn_status request_lines_open(request_lines *l, const char *path, syn_error *err) {
    struct stat info;
    *l = (request_lines){.name = syn_input_name(path), .fd = STDIN_FILENO};
    if (strcmp(path, "-") != 0) {
        l->fd = open(path, O_RDONLY | O_CLOEXEC);
        l->opened = l->fd >= 0;
    }
    if (l->fd < 0 || fstat(l->fd, &info) != 0)
        return SYN_FAIL(err, SYN_E_IO, "cannot open %.300s: %s", l->name, strerror(errno));
    if (S_ISDIR(info.st_mode))
        return SYN_FAIL(err, SYN_E_IO, "cannot read requests from %.300s: it is a folder", l->name);
    return SYN_OK;
}

/* Reads more bytes behind those in the buffer. Keeps the bytes from the current line on. */
static syn_status read_more(request_lines *l, syn_error *err) {
    const size_t kept = l->bytes - l->start;
    if (kept > REQUEST_LINE_LIMIT)
        return SYN_FAIL(err, SYN_E_FORMAT, "%.300s:%lld: the line has more than %zu bytes", l->name,
                        (long long)l->line, REQUEST_LINE_LIMIT);
    if (l->start > 0) memmove(l->buffer, l->buffer + l->start, kept);
    l->next -= l->start;
    l->start = 0;
    l->bytes = kept;
    if (l->cap - kept < READ_BYTES / 2)
        SYN_TRY(syn_grow(&l->buffer, &l->cap, kept + READ_BYTES, 1, err));
    ssize_t got;
    do got = read(l->fd, l->buffer + kept, l->cap - kept);
    while (got < 0 && errno == EINTR);
    if (got < 0) return SYN_FAIL(err, SYN_E_IO, "cannot read %.300s: %s", l->name, strerror(errno));
    l->ended = got == 0;
    l->bytes += (size_t)got;
    return SYN_OK;
}

/* Fails if the first line shows that the file is no text in UTF-8. */
static syn_status check_start(const request_lines *l, syn__str line, syn_error *err) {
    if (syn__str_begins(line, "\x1f\x8b"))
        return SYN_FAIL(err, SYN_E_FORMAT,
                        "%.300s is compressed with gzip; unpack it: gzip -dc FILE | ... "
                        "--requests -",
                        l->name);
    if (syn__str_begins(line, "\xff\xfe") || syn__str_begins(line, "\xfe\xff"))
        return SYN_FAIL(err, SYN_E_FORMAT,
                        "%.300s is text in UTF-16; convert it: iconv -f UTF-16 -t UTF-8 FILE | ... "
                        "--requests -",
                        l->name);
    return SYN_OK;
}

/* Sets *text to the bytes from l->start to the end of the line at l->next. */
static syn_status take_line(request_lines *l, syn__str *text, bool *end, syn_error *err) {
    size_t searched = l->next;
    const char *found = NULL;
    for (;;) {
        if (l->bytes > searched) found = memchr(l->buffer + searched, '\n', l->bytes - searched);
        if (found != NULL || l->ended) break;
        searched = l->bytes - l->start;
        SYN_TRY(read_more(l, err));
    }
    *end = found == NULL && l->bytes == l->next;
    if (*end) return SYN_OK;
    size_t stop = found != NULL ? (size_t)(found - l->buffer) : l->bytes;
    const size_t first = l->next;
    l->next = stop + (found != NULL);
    if (l->n_lines++ == 0)
        SYN_TRY(check_start(l, (syn__str){l->buffer + first, stop - first}, err));
    if (stop > first && l->buffer[stop - 1] == '\r') stop--;
    if (stop > first && memchr(l->buffer + first, '\0', stop - first) != NULL)
        return SYN_FAIL(err, SYN_E_FORMAT,
                        "%.300s:%lld: the line has a NUL byte; requests are read from text: CSV "
                        "or JSON lines",
                        l->name, (long long)l->n_lines);
    *text = (syn__str){l->buffer + l->start, stop - l->start};
    return SYN_OK;
}

syn_status request_lines_next(request_lines *l, syn__str *text, bool *end, syn_error *err) {
    l->start = l->next;
    l->line = l->n_lines + 1;
    return take_line(l, text, end, err);
}

syn_status request_lines_append(request_lines *l, syn__str *text, bool *end, syn_error *err) {
    return take_line(l, text, end, err);
}

void request_lines_close(request_lines *l) {
    if (l->opened) close(l->fd);
    syn_free(l->buffer);
    *l = (request_lines){.fd = -1};
}
