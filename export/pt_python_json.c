/* json.dump(indent=4) of what Python's json.load makes of a text: see pt_python.h. */
#include "export/pt_python_scan.h"

#define PLAIN_REACH 256
#define MAX_LEVEL   256 /* deeper, Python gives up; no more is indented */

static inline bool put_line(syn__pen *pen, size_t level) {
    const size_t spaces = 4 * (level < MAX_LEVEL ? level : MAX_LEVEL);
    if (!syn__pen_room(pen, spaces + SYN__PEN_SLACK)) return false;
    *pen->p++ = '\n';
    for (size_t i = 0; i < spaces; i += 16) memcpy(pen->p + i, "                ", 16);
    pen->p += spaces;
    return true;
}

static char *put_unit(char *p, uint32_t unit) {
    static const char hex[] = "0123456789abcdef";
    *p++ = '\\';
    *p++ = 'u';
    for (int shift = 12; shift >= 0; shift -= 4) *p++ = hex[unit >> shift & 15];
    return p;
}

static char *put_character(char *p, uint32_t c) {
    static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
    const char *at = c != 0 && c < 127 ? strchr(from, (int)c) : NULL;
    if (at != NULL) {
        *p++ = '\\';
        *p++ = to[at - from];
        return p;
    }
    if (c >= ' ' && c < 127) return *p = (char)c, p + 1;
    if (c < 0x10000) return put_unit(p, c);
    return put_unit(put_unit(p, 0xD800 + ((c - 0x10000) >> 10)), 0xDC00 + (c & 0x3FF));
}

/* A string that is not plain, from its text's begin to its closing quote. */
static bool put_string(syn__pen *pen, const char *p, const char *end) {
    if (!syn__pen_room(pen, (size_t)(end - p) + SYN__PEN_SLACK)) return false;
    *pen->p++ = '"';
    while (p < end) {
        p = syn__pen_plain(pen, p, end);
        if (!syn__pen_room(pen, (size_t)(end - p) + SYN__PEN_SLACK)) return false;
        if (p < end) pen->p = put_character(pen->p, syn__python_character(&p, end));
    }
    *pen->p++ = '"';
    return true;
}

/* The string whose opening quote is at p; returns its end, NULL when memory is out. */
static inline const char *take_string(syn__pen *pen, const char *p, const char *end) {
    const char *const near = end - p > PLAIN_REACH ? p + PLAIN_REACH : end;
    if (!syn__pen_room(pen, PLAIN_REACH + SYN__PEN_SLACK)) return NULL;
    char *const begin = pen->p;
    *pen->p++ = '"';
    const char *q = syn__pen_plain(pen, p + 1, near);
    if (q < near && *q == '"' && syn__python_usual_end(q, end)) {
        *pen->p++ = '"';
        return q + 1;
    }
    pen->p = begin;
    q = syn__python_string_end(p + 1, end);
    if (!put_string(pen, p + 1, q)) return NULL;
    return q < end ? q + 1 : end;
}

static inline const char *take_word(syn__pen *pen, const char *p, const char *end) {
    char space[SYN_NUMBER_TEXT];
    syn__et_str text;
    const char *q = syn__python_short_int(pen, p, end);
    if (q != NULL) return q;
    q = syn__python_word(p, end, true, space, &text);
    if (!syn__pen_room(pen, text.bytes + SYN__PEN_SLACK)) return NULL;
    syn__pen_put(pen, text.text, text.bytes);
    return q;
}

/* As in pt_python.c, but with a line for each value. */
static const char *take_value(syn__pen *pen, const char *p, const char *end, size_t level) {
    size_t depth = 0;
    enum { FIRST, AFTER_COLON, AFTER_VALUE } at = AFTER_COLON;
    while (p < end) {
        const char c = *p;
        const syn__python_mark mark = syn__python_mark_of(c);
        const bool begins = mark == SYN__PYTHON_VALUE || mark == SYN__PYTHON_OPENS;
        if (!begins && depth == 0 && mark != SYN__PYTHON_SPACE) return p;
        if (!syn__pen_room(pen, SYN__PEN_SLACK)) return NULL;
        if (begins && at == AFTER_VALUE) *pen->p++ = ',';
        if (begins && at != AFTER_COLON && !put_line(pen, level + depth)) return NULL;
        if (mark == SYN__PYTHON_VALUE) {
            p = c == '"' ? take_string(pen, p, end) : take_word(pen, p, end);
            if (p == NULL) return NULL;
            at = AFTER_VALUE;
        } else {
            p++;
            if (mark == SYN__PYTHON_COLON && at == AFTER_VALUE) {
                syn__pen_put(pen, ": ", 2);
                at = AFTER_COLON;
            } else if (mark == SYN__PYTHON_OPENS) {
                *pen->p++ = c;
                depth++;
                at = FIRST;
            } else if (mark == SYN__PYTHON_CLOSES) {
                depth--;
                if (at != FIRST && !put_line(pen, level + depth)) return NULL;
                *pen->p++ = c;
                at = AFTER_VALUE;
            }
        }
        if (depth == 0 && at == AFTER_VALUE) return p;
    }
    return p;
}

const char *syn__pt_python_json_next(syn__et_buf *out, const char *p, const char *end,
                                     unsigned level) {
    syn__pen pen;
    if (!syn__pen_open(&pen, out)) return end;
    p = take_value(&pen, p, end, level);
    if (p == NULL) return end;
    syn__pen_close(&pen);
    return p;
}

void syn__pt_python_json(syn__et_buf *out, syn__et_str json, unsigned level) {
    (void)syn__pt_python_json_next(out, json.text, json.text + json.bytes, level);
}

void syn__pt_python_line(syn__et_buf *out, unsigned level) {
    syn__pen pen;
    if (syn__pen_open(&pen, out) && put_line(&pen, level)) syn__pen_close(&pen);
}
