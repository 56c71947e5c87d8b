/* For fuzz targets whose input has a file and, after the first line "#text", a text. */
#ifndef TESTS_INPUT_PARTS_H
#define TESTS_INPUT_PARTS_H

#include <stddef.h>
#include <stdint.h>

typedef struct input_parts {
    const char *file, *text; /* text: its longest prefix that is valid UTF-8 */
    size_t file_bytes, text_bytes, text_chars;
} input_parts;

/* Splits an input. The text is limited to about most_text bytes, cut at a character. */
input_parts input_split(const uint8_t *data, size_t size, size_t most_text);

#endif
