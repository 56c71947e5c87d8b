/* Shared by the tests of the tokenizers: the fixture's lines, the tiny vocabulary, a hash, random
 * numbers. */
#ifndef TESTS_TOKENIZER_FIXTURE_H
#define TESTS_TOKENIZER_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct fixture_line {
    char kind[16];
    char *rest; /* what follows the kind, without the newline */
    char *text; /* the first field, decoded from hexadecimal */
    size_t text_bytes;
    char *numbers; /* what follows the first field */
} fixture_line;

/* The fixture, or NULL. SYN_SOURCE is the repository. */
static inline FILE *fixture_open(void) {
    const char *source = getenv("SYN_SOURCE");
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/reference/tokenizer_fixture.txt", source ? source : ".");
    return fopen(path, "r");
}

static inline size_t fixture_unhex(const char *hex, size_t digits, char *out) {
    size_t bytes = 0;
    if (digits % 2 != 0) return 0; /* "-" stands for the empty text */
    for (size_t i = 0; i < digits; i += 2) {
        unsigned value = 0;
        if (sscanf(hex + i, "%2x", &value) != 1) abort();
        out[bytes++] = (char)value;
    }
    return bytes;
}

/* The next line; its strings live in buf until the next call. */
static inline bool fixture_next(FILE *f, fixture_line *line) {
    static char buf[1 << 16], text[1 << 15];
    if (fgets(buf, sizeof buf, f) == NULL) return false;
    buf[strcspn(buf, "\n")] = '\0';
    const size_t kind_bytes = strcspn(buf, " ");
    snprintf(line->kind, sizeof line->kind, "%.*s", (int)kind_bytes, buf);
    line->rest = buf + kind_bytes + (buf[kind_bytes] == ' ');
    const size_t digits = strcspn(line->rest, " ");
    const bool is_text = strchr("smtg", line->kind[0]) != NULL && strcmp(line->kind, "squad") != 0;
    line->text = text;
    line->text_bytes = is_text ? fixture_unhex(line->rest, digits, text) : 0;
    line->numbers = line->rest + digits;
    return true;
}

/* Numbers written in decimal; returns how many. */
static inline size_t fixture_numbers(const char *text, long *out, size_t max) {
    size_t n = 0;
    for (char *end; n < max; text = end) {
        out[n] = strtol(text, &end, 10);
        if (end == text) break;
        n++;
    }
    return n;
}

static inline uint64_t fnv_begin(void) {
    return UINT64_C(0xcbf29ce484222325);
}

static inline uint64_t fnv_byte(uint64_t hash, unsigned byte) {
    return (hash ^ byte) * UINT64_C(0x100000001b3);
}

/* xorshift64*: Marsaglia 2003, Vigna 2016 */
static inline uint32_t test_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (uint32_t)((*state * UINT64_C(0x2545f4914f6cdd1d)) >> 32);
}

/* A text that grows. */
typedef struct text_buffer {
    char *data;
    size_t bytes, cap;
} text_buffer;

static inline void text_add(text_buffer *t, const char *data, size_t bytes) {
    if (t->bytes + bytes + 1 > t->cap) {
        t->cap = 2 * (t->bytes + bytes + 1);
        t->data = realloc(t->data, t->cap);
        if (t->data == NULL) abort();
    }
    if (bytes > 0) memcpy(t->data + t->bytes, data, bytes);
    t->bytes += bytes;
    t->data[t->bytes] = '\0';
}

static inline void text_adds(text_buffer *t, const char *data) {
    text_add(t, data, strlen(data));
}

/* Appends how GPT-2's files spell bytes. */
static inline void text_add_spelled(text_buffer *t, const char *data, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        const unsigned b = (unsigned char)data[i];
        unsigned c = b;
        if (b <= 32) c = 256 + b;
        else if (b >= 127 && b <= 160) c = 256 + 33 + b - 127;
        else if (b == 173) c = 256 + 67;
        const char two[2] = {(char)(0xc0 | c >> 6), (char)(0x80 | (c & 63))};
        const char one = (char)c;
        text_add(t, c < 128 ? &one : two, c < 128 ? 1 : 2);
    }
}

/* Appends `"spelled": id, ` to a vocab.json. */
static inline void text_add_entry(text_buffer *vocab, const char *token, size_t bytes, long id) {
    char number[32];
    text_adds(vocab, "\"");
    for (size_t i = 0; i < bytes; i++) {
        if (token[i] == '"' || token[i] == '\\') text_adds(vocab, "\\");
        text_add_spelled(vocab, token + i, 1);
    }
    snprintf(number, sizeof number, "\": %ld, ", id);
    text_adds(vocab, number);
}

/* `{`, the tokens of the 256 bytes with their values as ids. */
static inline void text_add_bytes(text_buffer *vocab) {
    text_adds(vocab, "{");
    for (int b = 0; b < 256; b++) {
        const char byte = (char)b;
        text_add_entry(vocab, &byte, 1, b);
    }
}

/* Replaces the last ", " by "}". */
static inline void text_close(text_buffer *vocab) {
    vocab->bytes -= 2;
    text_adds(vocab, "}\n");
}

/* The files of the fixture's tiny vocabulary; false if the fixture is not there. */
static inline bool tiny_files(text_buffer *vocab, text_buffer *merges) {
    FILE *f = fixture_open();
    if (f == NULL) return false;
    fixture_line line;
    long id = 256;
    char known[64][16];
    text_add_bytes(vocab);
    text_adds(merges, "#version: 0.2\n");
    while (fixture_next(f, &line) && strcmp(line.kind, "merge") == 0) {
        char right[16], *joined = known[id - 256];
        const size_t left_bytes = line.text_bytes;
        const char *hex = line.numbers + 1;
        const size_t right_bytes = fixture_unhex(hex, strlen(hex), right);
        text_add_spelled(merges, line.text, left_bytes);
        text_adds(merges, " ");
        text_add_spelled(merges, right, right_bytes);
        text_adds(merges, "\n");
        memset(joined, 0, 16);
        memcpy(joined, line.text, left_bytes);
        memcpy(joined + left_bytes, right, right_bytes);
        bool seen = false;
        for (long i = 0; i < id - 256; i++) seen |= strcmp(known[i], joined) == 0;
        if (!seen) text_add_entry(vocab, joined, left_bytes + right_bytes, id++);
    }
    text_add_entry(vocab, "<|endoftext|>", 13, id);
    text_close(vocab);
    fclose(f);
    return true;
}
#endif
