/* Implements input_parts.h: finds the line "#text" and cuts the text at a character. */
#include "tests/support/input_parts.h"

#include <string.h>

#include "syntorch/base/utf8.h"

#define HEADER "\n#text\n"

static size_t find_header(const char *input, size_t bytes) {
    const size_t header_bytes = strlen(HEADER);
    for (size_t i = 0; i + header_bytes <= bytes; i++)
        if (memcmp(input + i, HEADER, header_bytes) == 0) return i;
    return bytes;
}

input_parts input_split(const uint8_t *data, size_t size, size_t most_text) {
    const char *input = (const char *)data;
    input_parts p = {.file = input, .file_bytes = find_header(input, size)};
    const size_t from = p.file_bytes < size ? p.file_bytes + strlen(HEADER) : size;
    p.text = input + from;
    for (size_t n; p.text_bytes < size - from && p.text_bytes < most_text;
         p.text_bytes += n, p.text_chars++)
        if ((n = syn_utf8_char_bytes(p.text + p.text_bytes, size - from - p.text_bytes)) == 0)
            break;
    return p;
}
