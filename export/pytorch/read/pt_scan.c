/* Tokenizes the text of values; see pt_scan.h. */
#include "export/pytorch/read/pt_scan.h"
#include "export/text/loose_json.h"

syn__pt_scan syn__pt_scan_of(syn__str text) {
    const char *begin = text.bytes != 0 ? text.text : "";
    const syn__pt_scan scan = {begin, begin + text.bytes, false};
    return scan;
}

static bool passed_over(char c) {
    return c == ',' || c == ':' || (unsigned char)c <= ' ';
}

static bool ends_word(char c) {
    return passed_over(c) || c == '[' || c == ']' || c == '{' || c == '}' || c == '"' || c == '\'';
}

static bool before_colon(const syn__pt_scan *s) {
    const char *p = s->cur;
    while (p < s->end && (unsigned char)*p <= ' ') p++;
    return p < s->end && *p == ':';
}

char syn__pt_scan_next(syn__pt_scan *s, syn__str *text) {
    while (s->cur < s->end && passed_over(*s->cur)) s->cur++;
    if (s->cur >= s->end) return 0;
    const char c = *s->cur;
    text->text = s->cur;
    if (c == '"' || c == '\'') {
        text->text++;
        for (s->cur++; s->cur < s->end && *s->cur != c; s->cur++) {
            if (*s->cur == '\\' && s->cur + 1 < s->end) s->cur++;
        }
        text->bytes = (size_t)(s->cur - text->text);
        if (s->cur < s->end) s->cur++;
        s->is_key = before_colon(s);
        return 's';
    }
    if (ends_word(c)) {
        text->bytes = 1;
        s->cur++;
        return c;
    }
    while (s->cur < s->end && !ends_word(*s->cur)) s->cur++;
    text->bytes = (size_t)(s->cur - text->text);
    s->is_key = before_colon(s);
    return 'w';
}

void syn__pt_scan_leave(syn__pt_scan *s) {
    syn__str text;
    size_t depth = 1;
    for (char c = syn__pt_scan_next(s, &text); c != 0; c = syn__pt_scan_next(s, &text)) {
        if (c == '[' || c == '{') depth++;
        else if ((c == ']' || c == '}') && --depth == 0) return;
    }
}

bool syn__pt_scan_i64(syn__str text, int64_t *out) {
    return text.bytes != 0 && syn__loose_i64(text, out);
}
