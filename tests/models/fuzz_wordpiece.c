/* Fuzz target for the vocab.txt reader and for splitting words. The input has a file and, after the
   first line "#text", a text. The words of the text's valid UTF-8 prefix are split. */
#include "models/tokenizer/wordpiece_private.h"

#include "syntorch/base/memory.h"
#include "tests/support/input_parts.h"

#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES    ((size_t)1 << 16)
#define REQUIRE(cond) ((cond) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The ids of a word must be [UNK], or decode to the same word. */
static void check_word(const syn__wordpiece *wp, const char *word, size_t bytes) {
    int32_t ids[SYN__WORDPIECE_WORD_CHARS];
    const size_t elems = syn__wordpiece_cut(wp, word, bytes, ids);
    REQUIRE(elems <= SYN__WORDPIECE_WORD_CHARS && (elems > 0 || bytes == 0));
    if (elems == 1 && ids[0] == wp->unk) return;
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const input_parts p = input_split(data, size, TEXT_BYTES);
    syn_error err = {0};
    syn__wordpiece *wp = NULL;
    const syn_status status = syn__wordpiece_read(&wp, "vocab.txt", p.file, p.file_bytes, &err);
    REQUIRE((status == SYN_OK) == (wp != NULL));
    REQUIRE((status == SYN_OK) == (err.text[0] == '\0'));
    for (size_t at = 0, n; wp != NULL && at < p.text_bytes;
         at += n + 1) { /* each word between spaces */
        const char *space = memchr(p.text + at, ' ', p.text_bytes - at);
        n = space ? (size_t)(space - p.text) - at : p.text_bytes - at;
        check_word(wp, p.text + at, n);
    }
    syn__wordpiece_free(wp);
    return 0;
}
