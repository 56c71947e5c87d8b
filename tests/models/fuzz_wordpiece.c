/* Fuzz target for the reader of vocab.txt and for encoding. One input holds both: a text follows
   the first line "#text"; of that the part that is valid UTF-8 is encoded, in every mode. */
#include "models/wordpiece_private.h"

#include "syntorch/memory.h"
#include "syntorch/utf8.h"

#include <stdlib.h>
#include <string.h>

#define HEADER        "\n#text\n"
#define TEXT_BYTES    ((size_t)1 << 16)
#define REQUIRE(cond) ((cond) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t find_header(const char *text, size_t bytes) {
    const size_t header_bytes = strlen(HEADER);
    for (size_t i = 0; i + header_bytes <= bytes; i++)
        if (memcmp(text + i, HEADER, header_bytes) == 0) return i;
    return bytes;
}

/* The ids of a word are [UNK] or spell the word. */
static void check_word(const syn__wordpiece *wp, const char *word, size_t bytes) {
    int32_t ids[SYN__WORDPIECE_WORD_CHARS];
    const size_t elems = syn__wordpiece_cut(wp, word, bytes, ids);
    REQUIRE(elems > 0 && elems <= SYN__WORDPIECE_WORD_CHARS);
    if (elems == 1 && ids[0] == wp->special[0]) return;
    size_t at = 0;
    for (size_t i = 0; i < elems; i++) {
        REQUIRE(ids[i] >= 0 && ids[i] < wp->vocab_elems);
        const uint32_t skip = i == 0 ? 0 : 2, begin = wp->begin[ids[i]] + skip;
        const uint32_t token_bytes = wp->begin[ids[i] + 1] - begin;
        REQUIRE(token_bytes <= bytes - at);
        REQUIRE(memcmp(wp->bytes + begin, word + at, token_bytes) == 0);
        at += token_bytes;
    }
    REQUIRE(at == bytes);
}

/* Characters that are dropped change no word, and take the way of words that are not ASCII. */
static void check_words(const syn__wordpiece *wp, const char *text, size_t bytes) {
    syn__wordpiece_split split, other;
    const char *word, *same;
    size_t word_bytes, same_bytes, n = 0;
    char *dotted = malloc(2 * bytes + 1);
    REQUIRE(dotted != NULL);
    for (size_t i = 0; i < bytes; i++) {
        dotted[n++] = text[i];
        if ((text[i] & 0x80) == 0) dotted[n++] = '\1';
    }
    syn__wordpiece_split_set(&split, wp, text, bytes);
    syn__wordpiece_split_set(&other, wp, dotted, n);
    while (syn__wordpiece_split_next(&split, &word, &word_bytes)) {
        REQUIRE(syn_utf8_valid(word, word_bytes));
        REQUIRE(syn__wordpiece_split_next(&other, &same, &same_bytes));
        REQUIRE(same_bytes == word_bytes && memcmp(word, same, word_bytes) == 0);
        REQUIRE(split.too_long == other.too_long);
        if (!split.too_long) check_word(wp, word, word_bytes);
    }
    REQUIRE(!syn__wordpiece_split_next(&other, &same, &same_bytes));
    free(dotted);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *input = (const char *)data;
    const size_t vocab_bytes = find_header(input, size);
    const size_t from = size - vocab_bytes < strlen(HEADER) ? size : vocab_bytes + strlen(HEADER);
    const char *text = input + from;
    size_t bytes = 0;
    for (size_t n; bytes < size - from && bytes < TEXT_BYTES; bytes += n)
        if ((n = syn_utf8_char_bytes(text + bytes, size - from - bytes)) == 0) break;
    for (int mode = 0; mode < 8; mode++) {
        const syn__wordpiece_rules rules = {mode & 1, mode & 2, mode & 4};
        syn_error err = {0};
        syn__wordpiece *wp = NULL;
        const syn_status status =
            syn__wordpiece_read(&wp, rules, "vocab.txt", input, vocab_bytes, &err);
        REQUIRE((status == SYN_OK) == (wp != NULL));
        REQUIRE((status == SYN_OK) == (err.text[0] == '\0'));
        if (wp == NULL) break;
        check_words(wp, text, bytes);
        int32_t *ids;
        size_t elems;
        REQUIRE(syn__wordpiece_encode(wp, text, bytes, &ids, &elems, &err) == SYN_OK);
        REQUIRE(elems <= bytes);
        for (size_t i = 0; i < elems; i++) REQUIRE(ids[i] >= 0 && ids[i] < wp->vocab_elems);
        syn_free(ids);
        syn__wordpiece_free(wp);
    }
    return 0;
}
