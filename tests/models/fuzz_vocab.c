/* Fuzz target for the readers of vocab.json and merges.txt. One input contains both files: the
   merges begin at the first line that starts with "#version". Without such a line, there are no
   merges. An accepted vocabulary must also be able to encode. */
#include "models/tokenizer/bpe_private.h"

#include "syntorch/base/memory.h"

#include <stdlib.h>
#include <string.h>

#define HEADER        "\n#version"
#define WORD_BYTES    512
#define REQUIRE(cond) ((cond) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t find_header(const char *text, size_t bytes) {
    const size_t header_bytes = strlen(HEADER);
    for (size_t i = 0; i + header_bytes <= bytes; i++)
        if (memcmp(text + i, HEADER, header_bytes) == 0) return i + 1;
    return bytes;
}

/* The ids of a word must decode to the same word. */
static void check_word(const syn__bpe *bpe, const char *word, size_t bytes) {
    syn__bpe_work work = {0};
    int32_t ids[WORD_BYTES];
    size_t elems, at = 0;
    REQUIRE(syn__bpe_merge(bpe, &work, word, bytes, ids, &elems, NULL) == SYN_OK);
    for (size_t i = 0; i < elems; i++) {
        REQUIRE(ids[i] >= 0 && ids[i] < bpe->vocab_elems);
        const uint32_t begin = bpe->begin[ids[i]], token_bytes = bpe->begin[ids[i] + 1] - begin;
        REQUIRE(token_bytes <= bytes - at);
        REQUIRE(memcmp(bpe->bytes + begin, word + at, token_bytes) == 0);
        at += token_bytes;
    }
    REQUIRE(at == bytes);
    syn__bpe_work_free(&work);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = (const char *)data;
    const size_t split = find_header(text, size);
    syn_error err = {0};
    syn__bpe *bpe = NULL;
    syn__vocab vocab = {0};
    const syn_status status = syn__bpe_read(&bpe, &vocab, "vocab.json", text, split, "merges.txt",
                                            text + split, size - split, &err);
    syn__vocab_free(&vocab);
    REQUIRE((status == SYN_OK) == (bpe != NULL));
    REQUIRE((status == SYN_OK) == (err.text[0] == '\0'));
    if (bpe != NULL) {
        const size_t bytes = size < WORD_BYTES ? size : WORD_BYTES;
        check_word(bpe, text + size - bytes, bytes);
        check_word(bpe, text, bytes < 20 ? bytes : 20);
    }
    syn__bpe_free(bpe);
    return 0;
}
