/* Shared by the tests of tokenizers: lines of the fixtures, the tiny vocabulary, a hash, and random
   texts. */
#ifndef TESTS_TOKENIZER_FIXTURE_H
#define TESTS_TOKENIZER_FIXTURE_H

#include "syntorch/base/utf8.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct fixture_line {
    char kind[16];
    char *rest; /* the line after its kind, without the newline */
    char *text; /* the first field, decoded from hexadecimal */
    size_t text_bytes;
    char *numbers; /* the rest of the line after the first field */
} fixture_line;

/* Opens a fixture in tests/reference of the repository (SYN_SOURCE). Returns NULL if it does not
   exist. */
FILE *fixture_open(const char *name);

size_t fixture_unhex(const char *hex, size_t digits, char *out);

/* Reads the next line. Its strings are valid until the next call. */
bool fixture_next(FILE *f, fixture_line *line);

/* Parses up to max decimal numbers and returns how many there are. */
size_t fixture_numbers(const char *text, long *out, size_t max);

uint64_t fnv_begin(void);

uint64_t fnv_byte(uint64_t hash, unsigned byte);

uint64_t fnv_bytes(uint64_t hash, const void *data, size_t bytes);

uint64_t fnv_ids(uint64_t hash, const int32_t *ids, size_t elems);

/* Hashes a letter for each of 4096 code points, beginning with `first`. The letter is '-' for
   surrogates, and the result of `of` for other characters. */
uint64_t fnv_points(unsigned first, char (*of)(void *user, const char *character, size_t bytes),
                    void *user);

/* 18 bits of a hash as three base64 digits, as in the fixtures. */
const char *fnv_short(uint64_t hash, char out[4]);

/* A text that grows as needed. */
typedef struct text_buffer {
    char *data;
    size_t bytes, cap;
} text_buffer;

void text_add(text_buffer *t, const char *data, size_t bytes);

void text_adds(text_buffer *t, const char *data);

#define RANDOM_TEXTS 10000

/* Appends text `number` of random_fixture.txt. make_wordpiece_fixture.py has the same generator. */
void text_add_random(text_buffer *t, uint32_t number);

/* Appends bytes in the byte-level spelling of GPT-2's files. */
void text_add_spelled(text_buffer *t, const char *data, size_t bytes);

/* Appends `"spelled": id, ` to the text of a vocab.json. */
void text_add_entry(text_buffer *vocab, const char *token, size_t bytes, long id);

/* Appends `{` and the tokens of the 256 bytes, whose ids are the values of the bytes. */
void text_add_bytes(text_buffer *vocab);

/* Replaces the last ", " by "}". */
void text_close(text_buffer *vocab);

/* Builds the files of the fixture's tiny vocabulary. Returns false if there is no fixture. */
bool tiny_files(text_buffer *vocab, text_buffer *merges);

#endif
