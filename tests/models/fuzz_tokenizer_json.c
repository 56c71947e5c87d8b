/* Fuzz target for the tokenizer.json reader and the tokenizers that it creates. The input has a
   file and, after the first line "#text", a text. The text's valid UTF-8 prefix is encoded with and
   without offsets, and then decoded. */
#include "models/tokenizer/tokenizer_private.h"

#include "syntorch/base/memory.h"
#include "tests/support/input_parts.h"

#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES    ((size_t)1 << 12)
#define REQUIRE(cond) ((cond) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ids must be in the vocabulary, and offsets within the text, which has `chars` characters. */
static void check(const syn_tokenizer *tok, const syn_encoding *e, size_t chars) {
    for (size_t i = 0; i < e->n; i++) {
        REQUIRE(e->ids[i] >= 0 && e->ids[i] < tok->vocab_elems);
        REQUIRE(e->offsets[i][0] <= chars && e->offsets[i][1] <= chars);
    }
}

/* The decoded text of the first i ids must be a prefix of `whole`, and must not become shorter as i
   grows. */
static void grow(const syn_tokenizer *tok, const int32_t *ids, size_t n, const char *whole,
                 size_t whole_bytes) {
    char *text;
    size_t bytes, before = 0;
    for (size_t i = 0; i <= n && i < 100; i++) {
        if (syn_tokenizer_decode_begun(tok, ids, i, &text, &bytes, NULL) != SYN_OK) return;
        REQUIRE(bytes >= before && bytes <= whole_bytes && memcmp(text, whole, bytes) == 0);
        before = bytes;
        syn_free(text);
    }
}

static void encode(const syn_tokenizer *tok, const char *text, size_t bytes, size_t chars) {
    syn_error err = {0};
    syn_encoding e;
    int32_t *ids;
    char *back;
    size_t n, back_bytes;
    const bool special = tok->kind == SYN_TOKENIZER_BPE;
    const syn_status status = syn_tokenizer_encode_text(tok, text, bytes, special, &e, &err);
    REQUIRE((status == SYN_OK) == (err.text[0] == '\0'));
    if (status != SYN_OK) return; /* a pattern may exceed the matcher's limit */
    check(tok, &e, chars);
    REQUIRE(syn_tokenizer_encode(tok, text, bytes, &ids, &n, &err) == SYN_OK);
    REQUIRE(n == e.n && memcmp(ids, e.ids, n * sizeof *ids) == 0);
    if (syn_tokenizer_decode(tok, ids, n, &back, &back_bytes, &err) == SYN_OK) {
        REQUIRE(back[back_bytes] == '\0');
        grow(tok, ids, n, back, back_bytes);
        syn_free(back);
    }
    syn_free(ids);
    syn_encoding_free(&e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const input_parts p = input_split(data, size, TEXT_BYTES);
    syn_error err = {0};
    syn_tokenizer *tok = NULL;
    REQUIRE(syn_tokenizer_open_bytes(&tok, &err) == SYN_OK);
    const syn_status status = syn__tok_open_data(tok, "tokenizer.json", p.file, p.file_bytes, &err);
    REQUIRE((status == SYN_OK) == (err.text[0] == '\0'));
    if (status == SYN_OK) encode(tok, p.text, p.text_bytes, p.text_chars);
    syn_tokenizer_free(tok);
    return 0;
}
