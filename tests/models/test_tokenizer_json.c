/* Tests tokenizers from tokenizer.json files. Ids, offsets and decoded texts are compared with
   those of HuggingFace's tokenizers library (reference/tokenizer_json_fixture.txt). Also tests
   rejected files. */
#include "models/tokenizer/tokenizer_regex_private.h"
#include "models/tokenizer/tokenizer_unicode_private.h"
#include "tests/support/test.h"
#include "tests/support/tokenizers.h"

#if defined SYN_HAVE_PCRE2 && defined SYN_HAVE_UTF8PROC

#define MAX_BITS 64

static text_buffer bits[MAX_BITS];
static size_t n_bits;

/* ---- Hash of a text's results ---- */

/* CRC-32 (IEEE 802.3) with `value` as previous result, as in zlib's crc32. It processes eight bytes
   at a time, with one table for each distance from the last of these bytes. */
static uint32_t crc(uint32_t value, const void *data, size_t bytes) {
    static uint32_t table[8][256];
    const unsigned char *p = data;
    for (uint32_t i = 0; i < 256 && table[0][255] == 0; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++) c = c & 1 ? 0xedb88320u ^ c >> 1 : c >> 1;
        table[0][i] = c;
    }
    for (int t = 1; t < 8 && table[7][255] == 0; t++)
        for (uint32_t i = 0; i < 256; i++)
            table[t][i] = table[0][table[t - 1][i] & 255] ^ table[t - 1][i] >> 8;
    value = ~value;
    for (; bytes >= 8; p += 8, bytes -= 8) {
        const uint32_t first = value ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 |
                                        (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        value = table[7][first & 255] ^ table[6][first >> 8 & 255] ^ table[5][first >> 16 & 255] ^
                table[4][first >> 24] ^ table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^
                table[0][p[7]];
    }
    for (; bytes > 0; p++, bytes--) value = table[0][(value ^ *p) & 255] ^ value >> 8;
    return ~value;
}

/* The length of the longest incomplete character at the beginning of an invalid text; at least 1.
   Rust's from_utf8_lossy replaces this number of bytes by one U+FFFD. */
static size_t bad_bytes(const char *text, size_t bytes) {
    for (size_t n = 3; n > 1; n--) { /* with some continuation bytes, this would be a character */
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

/* Continues the hash with a text, in which U+FFFD replaces invalid UTF-8. */
static uint32_t crc_lossy(uint32_t value, const char *text, size_t bytes) {
    size_t done = 0, at = 0;
    while (at < bytes) {
        const size_t n = syn_utf8_char_bytes(text + at, bytes - at);
        if (n > 0) {
            at += n;
            continue;
        }
        value = crc(value, text + done, at - done);
        value = crc(value, "\xef\xbf\xbd", 3);
        done = at += bad_bytes(text + at, bytes - at);
    }
    return crc(value, text + done, bytes - done);
}

/* Whether syn_tokenizer_encode gives the same ids as syn_tokenizer_encode_text. For kinds other
   than BPE it adds no special tokens, so its ids are compared with an encoding without them. */
static bool is_same_short(const syn_tokenizer *tok, const char *text, size_t bytes,
                          const syn_encoding *e) {
    const bool bare = syn_tokenizer_kind_of(tok) != SYN_TOKENIZER_BPE;
    syn_encoding other = {0};
    int32_t *ids;
    size_t n;
    if (syn_tokenizer_encode(tok, text, bytes, &ids, &n, NULL) != SYN_OK) abort();
    if (bare && syn_tokenizer_encode_text(tok, text, bytes, false, &other, NULL) != SYN_OK) abort();
    if (bare) e = &other;
    const bool same = n == e->n && memcmp(ids, e->ids, n * sizeof *ids) == 0;
    syn_encoding_free(&other);
    syn_free(ids);
    return same;
}

/* Continues the hash with a text's results. also_short: also compare them with
   syn_tokenizer_encode; after a difference, return a value that is not the hash of any text. */
static uint32_t add_text(uint32_t value, const syn_tokenizer *tok, const char *text, size_t bytes,
                         bool also_short) {
    syn_encoding e;
    char *back;
    size_t back_bytes;
    if (syn_tokenizer_encode_text(tok, text, bytes, true, &e, NULL) != SYN_OK) abort();
    if (syn_tokenizer_decode(tok, e.ids, e.n, &back, &back_bytes, NULL) != SYN_OK) abort();
    value = crc(value, e.ids, e.n * sizeof *e.ids);
    value = crc(value, e.offsets, e.n * sizeof *e.offsets);
    value = crc_lossy(value, back, back_bytes);
    if (also_short && !is_same_short(tok, text, bytes, &e)) value = 0;
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
    while (squad_next(&json)) value = add_text(value, tok, json.text, json.text_bytes, true);
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
        value = add_text(value, tok, text.data, text.bytes, true);
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
        value = add_text(value, tok, text.data, text.bytes, false);
        free(text.data);
    }
    return value;
}

/* ---- Lines of the fixture ---- */

static void add_bit(const char *hex) {
    char text[256];
    CHECK(n_bits < MAX_BITS);
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

/* Compares a line with the form "TEXT TEXT ID:TYPE ...". */
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
    if (status == SYN_E_INVALID) { /* the file does not define special tokens for pairs */
        CHECK_HAS(err.text, "pairs of texts");
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

#define KINDS 13

/* Whether this tokenizer is tested with the characters from `first` on. They are in the first four
   planes and at the beginning of the fifteenth. All other code points are equivalent for
   tokenizers, so each tokenizer tests only some blocks of them. */
static bool takes_points(unsigned first, int kind) {
    if (TEST_REDUCED && first > 0x1000 && (int)(first / 4096 % KINDS) != kind) return false;
    return first < 0x40000 || first == 0xe0000 || (int)(first / 4096 % KINDS) == kind;
}

static bool takes_squad(unsigned number, int kind) {
    return have_shared_data() && (!TEST_REDUCED || (number == 0 && kind % 6 == 0));
}

static void check_line(const syn_tokenizer *tok, const char *name, int kind, fixture_line *line) {
    uint32_t got = 0;
    char *end;
    const bool is_hex = strcmp(line->kind, "points") == 0;
    if (strcmp(line->kind, "text") == 0) same_ids(tok, line);
    if (strcmp(line->kind, "pair") == 0) same_pair(tok, line->rest);
    const unsigned number = (unsigned)strtoul(line->rest, &end, is_hex ? 16 : 10);
    if (strcmp(line->kind, "random") == 0) {
        if (TEST_REDUCED && (int)(number / 500 % KINDS) != kind) return;
        got = random_hash(tok, number);
    } else if (is_hex && takes_points(number, kind)) got = points_hash(tok, number);
    else if (strcmp(line->kind, "squad") == 0 && takes_squad(number, kind))
        got = squad_hash(tok, (int)number);
    else return;
    CHECK_MSG(got == strtoul(end, NULL, 16), "%s: %s %u differs", name, line->kind, number);
}

static void all_kinds(void) {
    if (!regex_unicode_is_known() || !char_unicode_is_known())
        SKIP("PCRE2 or utf8proc has a Unicode version that is not known");
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
            check_line(tok, name, kinds - 1, &line);
        }
    }
    CHECK_INT(kinds, KINDS);
    syn_tokenizer_free(tok);
    for (size_t i = 0; i < n_bits; i++) free(bits[i].data);
    fclose(f);
}

/* ---- Errors ---- */

#define BYTES_IN \
    "\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}, \"merges\": "
#define MODEL     BYTES_IN "[\"a b\"]}"
#define WORDPIECE "\"model\": {\"type\": \"WordPiece\", \"vocab\": {\"a\": 0}, "
#define TOKEN(id, text, more) \
    "{\"id\": " id ", \"content\": \"" text "\", \"special\": false, " more "}"

static const struct {
    const char *file, *sentence; /* expected message; NULL: accepted */
} files[] = {
    {"{" MODEL "}", NULL},
    {"{\"version\": \"1.0\", \"truncation\": {\"max_length\": 1}, \"padding\": {}, " MODEL "}",
     NULL},
    {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}}",
     NULL}, /* without a type, as in files of an older version */
    {"{\"model\": {\"merges\": [[\"a\", \"b\"]], \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}}}",
     NULL},
    {"{}", "has no model with vocab"},
    {"[]", "must be an object"},
    {"{\"version\": \"2.0\", " MODEL "}", "the version \"2.0\" is not supported"},
    {"{\"more\": 1, " MODEL "}", "the key \"more\" is not supported"},
    {"{" MODEL ", " MODEL "}", "the file has two models"},
    {"{\"model\": {\"type\": \"Unigram\"}}", "the model \"Unigram\" is not supported"},
    {"{\"model\": {\"type\": \"WordLevel\"}}", "the model \"WordLevel\" is not supported"},
    {"{\"model\": {\"type\": \"BPE\", \"vocab\": {}}}", "has no model with vocab and merges"},
    {"{\"model\": {\"type\": \"BPE\", \"dropout\": 0.1}}", "dropout is not supported"},
    {"{\"model\": {\"x\": 1}}", "the key \"x\" of the model is not supported"},
    {"{" BYTES_IN "[\"a\"]}}", "a merge must be two tokens separated by one space"},
    {"{" BYTES_IN "[\"a c\"]}}", "the token \"c\" is not in the vocabulary"},
    {"{" BYTES_IN "[\"b a\"]}}", "the token \"ba\" is not in the vocabulary"},
    {"{" BYTES_IN "[[\"a\"]]}}", "the right token of a merge"},
    {"{" BYTES_IN "[\"a b\", [\"a\", \"b\"]]}}", "the merge appears twice"},
    {"{" BYTES_IN "[7]}}", "a merge must be two tokens"},
    {"{" BYTES_IN "[], \"unk_token\": \"u\"}}", "the unk_token \"u\" is not in the vocabulary"},
    {"{" BYTES_IN "[], \"end_of_word_suffix\": \"</w>\"}}", "end_of_word_suffix is not supported"},
    {"{" BYTES_IN "[], \"continuing_subword_prefix\": \"#\"}}", "continuing_subword_prefix is not"},
    {"{\"model\": {\"vocab\": {\"a\": 0, \"b\": 2}, \"merges\": []}}",
     "the id 2 of \"b\" is out of"},
    {"{\"model\": {\"vocab\": [[\"a\", 0]]}}", "the vocabulary must be an object"},
    {"{" WORDPIECE "\"unk_token\": \"a\"}}", "the model WordPiece lacks"},
    {"{\"added_tokens\": [" TOKEN("4", "x", "\"normalized\": false") "], " MODEL "}",
     "the added token \"x\" has the id 4, but the next free one is 3"},
    {"{\"added_tokens\": [" TOKEN("3", "x", "\"lstrip\": 1") "], " MODEL "}", "lstrip must be"},
    {"{\"added_tokens\": [" TOKEN("3", "A", "\"normalized\": true") ", " TOKEN(
         "0", "a", "\"normalized\": true") "], \"normalizer\": {\"type\": \"Lowercase\"}, " MODEL
                                           "}",
     "the normalizer turns two added tokens"},
    {"{\"added_tokens\": [" TOKEN(
         "3", " ",
         "\"normalized\": true") "], \"normalizer\": {\"type\": "
                                 "\"Strip\", \"strip_left\": true, \"strip_right\": true}, " MODEL
                                 "}",
     "the normalizer leaves nothing of the added token \" \""},
    {"{\"normalizer\": {\"type\": \"Precompiled\"}, " MODEL "}",
     "the normalizer \"Precompiled\" is not supported"},
    {"{\"normalizer\": {\"type\": \"NFC\", \"x\": 1}, " MODEL "}",
     "\"NFC\" with \"x\" is not supported"},
    {"{\"normalizer\": {\"type\": \"NFC\", \"lowercase\": true}, " MODEL "}",
     "lowercase is not supported for the normalizer \"NFC\""},
    {"{\"normalizer\": {\"type\": \"Prepend\"}, " MODEL "}", "\"Prepend\" has no prepend"},
    {"{\"normalizer\": {}, " MODEL "}", "a normalizer has no type"},
    {"{\"normalizer\": 1, " MODEL "}", "normalizer must be an object"},
    {"{\"pre_tokenizer\": {\"type\": \"UnicodeScripts\"}, " MODEL "}",
     "the pre_tokenizer \"UnicodeScripts\" is not supported"},
    {"{\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"\\\\h\"}, \"behavior\": "
     "\"Isolated\"}, " MODEL "}",
     "is not supported because of the escape"},
    {"{\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Other\": \"a\"}, \"behavior\": "
     "\"Isolated\"}, " MODEL "}",
     "the pattern \"Other\" is not supported"},
    {"{\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"String\": \"\"}, \"behavior\": "
     "\"Isolated\"}, " MODEL "}",
     "an empty pattern is not supported"},
    {"{\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"String\": \"a\"}, \"behavior\": "
     "\"Other\"}, " MODEL "}",
     "the behavior \"Other\" is not supported"},
    {"{\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"ab\"}, " MODEL "}",
     "replacement must be one character"},
    {"{\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"a\", \"prepend_scheme\": "
     "\"first\", \"add_prefix_space\": false}, " MODEL "}",
     "contradicts prepend_scheme"},
    {"{\"decoder\": {\"type\": \"CTC\"}, " MODEL "}", "the decoder \"CTC\" is not supported"},
    {"{\"decoder\": {\"type\": \"Sequence\", \"decoders\": [{\"type\": \"BPEDecoder\"}]}, " MODEL
     "}",
     "the decoder \"BPEDecoder\" is not supported"},
    {"{\"post_processor\": {\"processors\": [0]}, " MODEL "}", "not one of the processors of a"},
    {"{\"post_processor\": {\"single\": [0]}, " MODEL "}", "not one of the items of a template"},
    {"{\"decoder\": {\"decoders\": [0]}, " MODEL "}", "not one of the steps of a Sequence"},
    {"{\"post_processor\": {\"type\": \"Other\"}, " MODEL "}",
     "the post_processor \"Other\" is not supported"},
    {"{\"post_processor\": {\"type\": \"BertProcessing\", \"sep\": [\"a\", 9], \"cls\": [\"b\", "
     "1]}, " MODEL "}",
     "the id 9 of the post_processor is not one of the 3 tokens"},
};

static void others_are_refused(void) {
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        syn_error err = {0};
        syn_tokenizer *tok;
        put_text("tokenizer.json", files[i].file);
        const syn_status status = syn_tokenizer_load(&tok, in_folder(""), &err);
        CHECK_MSG((status == SYN_OK) == (files[i].sentence == NULL), "%s: %s", files[i].file,
                  err.text);
        CHECK((status == SYN_OK) == (tok != NULL));
        if (files[i].sentence) CHECK_HAS(err.text, files[i].sentence);
        if (files[i].sentence) CHECK_HAS(err.text, "tokenizer.json");
        syn_tokenizer_free(tok);
        CHECK_INT(syn_tokenizer_load(&tok, in_folder(""), NULL), status);
        syn_tokenizer_free(tok);
    }
}

/* Every file must be rejected if it is truncated at any byte. */
static void cut_files(void) {
    size_t bytes;
    char *data = file_bytes(reference_path("tokenizers/odd_bpe/tokenizer.json"), &bytes);
    CHECK(data != NULL);
    for (size_t n = 0; n + 2 < bytes; n += n < 4000 ? 1 : 97) {
        syn_error err = {0};
        syn_tokenizer *tok;
        put_file("tokenizer.json", data, n);
        CHECK_MSG(syn_tokenizer_load(&tok, in_folder(""), &err) != SYN_OK, "%zu bytes", n);
        CHECK_HAS(err.text, "tokenizer.json");
    }
    free(data);
}

/* ---- Which file is used ---- */

static const struct {
    const char *class, *model_type, *name;
} choices[] = {
    {NULL, NULL, "gpt2-bpe"},
    {NULL, "gpt2", "gpt2-bpe"},
    {NULL, "qwen2", "bpe"},
    {"GPT2Tokenizer", "qwen2", "gpt2-bpe"},
    {"GPT2TokenizerFast", NULL, "gpt2-bpe"},
    {"Qwen2Tokenizer", NULL, "bpe"},
    {"PreTrainedTokenizerFast", "gpt2", "bpe"},
    {"TokenizersBackend", NULL, "bpe"},
};

static void which_file_counts(void) {
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        char text[128];
        clear_folder();
        put_tiny_gpt2();
        put_text("tokenizer.json", "{\"added_tokens\": [], " MODEL "}");
        if (choices[i].name[0] == 'g') put_text("tokenizer.json", "{}");
        if (choices[i].class) {
            snprintf(text, sizeof text, "{\"tokenizer_class\": \"%s\"}", choices[i].class);
            put_text("tokenizer_config.json", text);
        }
        if (choices[i].model_type) {
            snprintf(text, sizeof text, "{\"model_type\": \"%s\"}", choices[i].model_type);
            put_text("config.json", text);
        }
        syn_tokenizer *tok = load_folder();
        CHECK_MSG(tok != NULL, "case %zu", i);
        CHECK_STR(syn_tokenizer_name(tok), choices[i].name);
        syn_tokenizer_free(tok);
    }
}

/* Tokens at the beginning and at the end of a text. */
static void ends_of_texts(void) {
    put_text("tokenizer.json",
             "{\"added_tokens\": [" TOKEN("3", "<s>", "\"normalized\": false") ", " TOKEN(
                 "4", "</s>", "\"normalized\": false") "], " MODEL "}");
    syn_tokenizer *tok = load_folder();
    CHECK(tok != NULL);
    CHECK_INT(syn_tokenizer_bos(tok), -1);
    CHECK_INT(syn_tokenizer_eos(tok), -1);
    CHECK_INT(syn_tokenizer_added(tok), 2);
    CHECK_INT(syn_tokenizer_special(tok, "</s>"), 4);
    syn_tokenizer_free(tok);
    put_text("tokenizer_config.json",
             "{\"bos_token\": \"<s>\", \"eos_token\": {\"content\": \"</s>\"}}");
    tok = load_folder();
    CHECK(tok != NULL);
    CHECK_INT(syn_tokenizer_bos(tok), 3);
    CHECK_INT(syn_tokenizer_eos(tok), 4);
    syn_tokenizer_free(tok);
    syn_error err = {0};
    put_text("tokenizer_config.json", "{\"split_special_tokens\": true}");
    CHECK_INT(syn_tokenizer_load(&tok, in_folder(""), &err), SYN_E_UNSUPPORTED);
    CHECK_HAS(err.text, "split_special_tokens is not supported");
}

/* ---- Damaged files ---- */

static syn_status load_and_use(void *folder, syn_error *err) {
    static const char text[] = "Hello <x> w\xc3\xb6rld \xe1\xba\x9b\xcc\xa3 12 <left> word";
    syn_tokenizer *tok;
    syn_encoding e;
    char *back = NULL;
    size_t bytes;
    SYN_TRY(syn_tokenizer_load(&tok, folder, err));
    syn_status status = syn_tokenizer_encode_text(tok, text, sizeof text - 1, true, &e, err);
    if (status == SYN_OK) status = syn_tokenizer_decode(tok, e.ids, e.n, &back, &bytes, err);
    syn_encoding_free(&e);
    syn_free(back);
    syn_tokenizer_free(tok);
    return status;
}

static void memory_runs_out(void) {
    static const char *const names[] = {"mistral", "odd_wordpiece", "odd_bytes"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char folder[4096];
        snprintf(folder, sizeof folder, "%s", reference_path("tokenizers/%s", names[i]));
        CHECK(test_without_memory(load_and_use, folder) > 20);
    }
}

#else

static void not_built(void) {
    SKIP("built without PCRE2 or utf8proc");
}

#endif

static const test_case cases[] = {
#if defined SYN_HAVE_PCRE2 && defined SYN_HAVE_UTF8PROC
    {"all kinds as HuggingFace has them", all_kinds},
    {"others are refused", others_are_refused},
    {"cut files", cut_files},
    {"which file counts", which_file_counts},
    {"ends of texts", ends_of_texts},
    {"memory runs out", memory_runs_out},
#else
    {"not built", not_built},
#endif
};

TEST_MAIN(cases)
