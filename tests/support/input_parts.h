/* Fuzz targets whose input holds a file, and a text behind the first line "#text". */
#ifndef TESTS_INPUT_PARTS_H
#define TESTS_INPUT_PARTS_H

#include <stddef.h>
#include <stdint.h>

typedef struct input_parts {
    const char *file, *text; /* text: as much of it as is valid UTF-8 */
    size_t file_bytes, text_bytes, text_chars;
} input_parts;

/* At most so many bytes of text, a character more or less. */
input_parts input_split(const uint8_t *data, size_t size, size_t most_text);

#endif
