/* Tokenizers that a tokenizer.json is of: ids, offsets and decoded texts beside those of
   HuggingFace's tokenizers library, and what is refused. */
#include "models/tokenizer_regex_private.h"
#include "models/tokenizer_unicode_private.h"
#include "tests/support/test.h"
#include "tests/support/tokenizers.h"

#if defined SYN_HAVE_PCRE2 && defined SYN_HAVE_UTF8PROC

#define MOST_BITS 64

static text_buffer bits[MOST_BITS];
static size_t n_bits;

static bool unicode_is_known(void) {
    char version[64];
    syn__regex_unicode(version);
    const int regex = atoi(version), chars = atoi(syn__char_unicode());
    return regex >= 14 && regex <= 16 && chars >= 14 && chars <= 17;
}

/* ---- what a text gives, as a hash ---- */

/* CRC-32 (IEEE 802.3), as zlib's crc32 goes on with it. */
static uint32_t crc(uint32_t value, const void *data, size_t bytes) {
    static uint32_t table[256];
    if (table[1] == 0)
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t c = i;
            for (int k = 0; k < 8; k++) c = c & 1 ? 0xedb88320u ^ c >> 1 : c >> 1;
            table[i] = c;
        }
    value = ~value;
    for (size_t i = 0; i < bytes; i++)
        value = table[(value ^ ((const unsigned char *)data)[i]) & 255] ^ value >> 8;
    return ~value;
}

/* Bytes of the longest beginning of a character that a text begins with, 1 at least: what
   Rust's from_utf8_lossy replaces at once. */
static size_t bad_bytes(const char *text, size_t bytes) {
    for (size_t n = 3; n > 1; n--) { /* some other bytes behind would make it a character */
        char whole[4] = {0};
        if (n > bytes) continue;
        memcpy(whole, text, n);
        for (unsigned a = 0x80; a < 0xc0; a++) {
            whole[n] = (char)a;
            if (n == 3 ? syn_utf8_char_bytes(whole, 4) == 4 : syn_utf8_char_bytes(whole, 3) == 3)
                return n;
            for (unsigned b = 0x80; n == 2 && b < 0xc0; b += 63) {
                whole[3] = (char)b;
                if (syn_utf8_char_bytes(whole, 4) == 4) return n;
            }
        }
    }
    return 1;
}

/* A text with U+FFFD for what is not UTF-8. */
static uint32_t crc_lossy(uint32_t value, const char *text, size_t bytes) {
    for (size_t at = 0, n; at < bytes; at += n) {
        n = syn_utf8_char_bytes(text + at, bytes - at);
        const bool good = n > 0;
        if (!good) n = bad_bytes(text + at, bytes - at);
        value = good ? crc(value, text + at, n) : crc(value, "\xef\xbf\xbd", 3);
    }
    return value;
}

/* Whether the short way gives the same ids. */
static bool is_same_short(const syn_tokenizer *tok, const char *text, size_t bytes) {
    const bool special = syn_tokenizer_kind_of(tok) == SYN_TOKENIZER_BPE;
    syn_encoding e;
    int32_t *ids;
    size_t n;
    if (syn_tokenizer_encode(tok, text, bytes, &ids, &n, NULL) != SYN_OK) abort();
    if (syn_tokenizer_encode_text(tok, text, bytes, special, &e, NULL) != SYN_OK) abort();
    const bool same = n == e.n && memcmp(ids, e.ids, n * sizeof *ids) == 0;
    syn_encoding_free(&e);
    syn_free(ids);
    return same;
}

static uint32_t add_text(uint32_t value, const syn_tokenizer *tok, const char *text, size_t bytes) {
    syn_encoding e;
    char *back;
    size_t back_bytes;
    if (syn_tokenizer_encode_text(tok, text, bytes, true, &e, NULL) != SYN_OK) abort();
    if (syn_tokenizer_decode(tok, e.ids, e.n, &back, &back_bytes, NULL) != SYN_OK) abort();
    value = crc(value, e.ids, e.n * sizeof *e.ids);
    value = crc(value, e.offsets, e.n * sizeof *e.offsets);
    value = crc_lossy(value, back, back_bytes);
    syn_free(back);
    syn_encoding_free(&e);
    return value;
}

static uint32_t squad_hash(const syn_tokenizer *tok, int number) {
    static const char *const names[] = {"dev", "train"};
    size_t bytes;
    syn_error err = {0};
    uint32_t value = 0;
    char *data = file_bytes(shared_path("squad/%s-v1.1-excerpt.json", names[number]), &bytes);
    if (data == NULL) return 0;
    syn_json json;
    syn_json_init(&json, "squad", data, bytes, &err);
    while (squad_next(&json)) {
        value = add_text(value, tok, json.text, json.text_bytes);
        if (!is_same_short(tok, json.text, json.text_bytes)) value = 0;
    }
    syn_json_free(&json);
    free(data);
    return value;
}

static uint32_t random_hash(const syn_tokenizer *tok, uint32_t first) {
    uint32_t value = 0;
    for (uint32_t i = first; i < first + 500; i++) {
        text_buffer text = {0};
        text_add_random(&text, i);
        text_add(&text, bits[i % n_bits].data, bits[i % n_bits].bytes);
        text_add_random(&text, i + 1);
        value = add_text(value, tok, text.data, text.bytes);
        if (!is_same_short(tok, text.data, text.bytes)) value = 0;
        free(text.data);
    }
    return value;
}

static uint32_t points_hash(const syn_tokenizer *tok, unsigned first) {
    uint32_t value = 0;
    for (unsigned block = first; block < first + 4096; block += 64) {
        text_buffer text = {0};
        text_adds(&text, "");
        for (unsigned c = block; c < block + 64; c++) {
            char utf8[4];
            if (c >= 0xd800 && c < 0xe000) continue;
            const size_t n = syn_utf8_encode(c, utf8);
            text_adds(&text, "a");
            text_add(&text, utf8, n);
            text_adds(&text, "b 1");
            text_add(&text, utf8, n);
            text_adds(&text, " '");
            text_add(&text, utf8, n);
            text_adds(&text, "\n");
        }
        value = add_text(value, tok, text.data, text.bytes);
        free(text.data);
    }
    return value;
}

/* ---- the fixture's lines ---- */

static void add_bit(const char *hex) {
    char text[256];
    CHECK(n_bits < MOST_BITS);
    text_add(&bits[n_bits++], text, fixture_unhex(hex, strcspn(hex, " "), text));
}

static void same_ids(const syn_tokenizer *tok, const fixture_line *line) {
    static long want[4096];
    syn_encoding e;
    syn_error err = {0};
    const size_t n = fixture_numbers(line->numbers, want, 4096);
    CHECK_OK(syn_tokenizer_encode_text(tok, line->text, line->text_bytes, true, &e, &err), err);
    bool same = e.n == n;
    for (size_t i = 0; same && i < n; i++) same = e.ids[i] == want[i];
    CHECK_MSG(same, "%s", line->rest);
    syn_encoding_free(&e);
}

/* "TEXT TEXT ID:TYPE ..." */
static void same_pair(const syn_tokenizer *tok, char *rest) {
    char text[2][64], got[1024] = "";
    size_t bytes[2], n;
    int32_t *ids, *types;
    syn_error err = {0};
    for (int i = 0; i < 2; i++) {
        const size_t digits = strcspn(rest, " ");
        bytes[i] = fixture_unhex(rest, digits, text[i]);
        rest += digits + (rest[digits] == ' ');
    }
    const syn_status status = syn_tokenizer_encode_pair(tok, text[0], bytes[0], text[1], bytes[1],
                                                        &ids, &types, &n, &err);
    if (status == SYN_E_INVALID) { /* no file says what is put around two texts */
        CHECK_HAS(err.text, "two texts");
        return;
    }
    CHECK_OK(status, err);
    for (size_t i = 0, used = 0; i < n; i++)
        used += (size_t)snprintf(got + used, sizeof got - used, "%s%d:%d", i ? " " : "", ids[i],
                                 types[i]);
    CHECK_STR(got, rest);
    syn_free(ids);
    syn_free(types);
}

static void check_line(const syn_tokenizer *tok, const char *name, fixture_line *line) {
    uint32_t got = 0;
    char *end;
    const bool is_hex = strcmp(line->kind, "points") == 0;
    if (strcmp(line->kind, "text") == 0) same_ids(tok, line);
    if (strcmp(line->kind, "pair") == 0) same_pair(tok, line->rest);
    const unsigned number = (unsigned)strtoul(line->rest, &end, is_hex ? 16 : 10);
    if (strcmp(line->kind, "random") == 0) got = random_hash(tok, number);
    else if (is_hex) got = points_hash(tok, number);
    else if (strcmp(line->kind, "squad") == 0 && have_shared_data())
        got = squad_hash(tok, (int)number);
    else return;
    CHECK_MSG(got == strtoul(end, NULL, 16), "%s: %s %u differs", name, line->kind, number);
}

static void all_kinds(void) {
    if (!unicode_is_known()) SKIP("PCRE2 or utf8proc has a Unicode version that is not known");
    FILE *f = fixture_open("tokenizer_json_fixture.txt");
    CHECK(f != NULL);
    syn_tokenizer *tok = NULL;
    fixture_line line;
    char name[64] = "";
    int kinds = 0;
    while (fixture_next(f, &line)) {
        if (strcmp(line.kind, "bit") == 0) {
            add_bit(line.rest);
        } else if (strcmp(line.kind, "tokenizer") == 0) {
            snprintf(name, sizeof name, "%s", line.rest);
            syn_tokenizer_free(tok);
            tok = load_from(reference_path("tokenizers/%s", name));
            CHECK_MSG(tok != NULL, "%s", name);
            kinds++;
        } else {
            check_line(tok, name, &line);
        }
    }
    CHECK_INT(kinds, 12);
    syn_tokenizer_free(tok);
    for (size_t i = 0; i < n_bits; i++) free(bits[i].data);
    fclose(f);
}

#endif

static const test_case cases[] = {
#if defined SYN_HAVE_PCRE2 && defined SYN_HAVE_UTF8PROC
    {"all kinds as HuggingFace has them", all_kinds},
#endif
};

TEST_MAIN(cases)
