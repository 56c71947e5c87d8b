/* For fuzz targets whose input consists of a file and a text. The text begins after the first line
   "#text". */
#ifndef TESTS_INPUT_PARTS_H
#define TESTS_INPUT_PARTS_H

#include <stddef.h>
#include <stdint.h>

typedef struct input_parts {
    const char *file, *text; /* text: the longest prefix of the text that is valid UTF-8 */
    size_t file_bytes, text_bytes, text_chars;
} input_parts;

/* Splits an input. The text is truncated to about most_text bytes, without splitting a
   character. */
input_parts input_split(const uint8_t *data, size_t size, size_t most_text);

#endif
