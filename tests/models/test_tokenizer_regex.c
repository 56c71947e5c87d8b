/* Tests the regular expressions of tokenizers: the words of GPT-2, classes of characters, and
   patterns that are rejected. */
#include "models/tokenizer/tokenizer_regex_private.h"

#include "syntorch/base/memory.h"
#include "syntorch/base/utf8.h"
#include "tests/support/test.h"
#include "tests/support/tokenizers.h"

#ifdef SYN_HAVE_PCRE2

/* An iteration over the matches of a text. */
typedef struct walk {
    syn__regex *regex;
    syn__match *match;
    const char *text;
    size_t bytes, at;
} walk;

static bool walk_begin(walk *w, const char *pattern) {
    syn_error err = {0};
    *w = (walk){NULL, NULL, NULL, 0, 0};
    if (syn__regex_new(&w->regex, pattern, strlen(pattern), true, &err) != SYN_OK ||
        syn__match_new(&w->match, &err) != SYN_OK)
        fprintf(stderr, "%s\n", err.text);
    return w->match != NULL;
}

static void walk_end(walk *w) {
    syn__regex_free(w->regex);
    syn__match_free(w->match);
}

static void walk_set(walk *w, const char *text, size_t bytes) {
    w->text = text;
    w->bytes = bytes;
    w->at = 0;
}

/* The length of the next match in bytes; 0 at the end of the text. Each match must begin at the end
   of the previous one. */
static syn_status walk_next(walk *w, size_t *bytes, syn_error *err) {
    size_t begin, end;
    SYN_TRY(syn__regex_find(w->regex, w->match, w->text, w->bytes, w->at, &begin, &end, err));
    *bytes = begin == w->at ? end - begin : 0;
    w->at = end;
    return SYN_OK;
}

static void words_match_the_fixture(void) {
    FILE *f = fixture_open("tokenizer_fixture.txt");
    CHECK(f != NULL);
    fixture_line line;
    size_t texts = 0;
    while (fixture_next(f, &line)) {
        if (strcmp(line.kind, "split") != 0) continue;
        long want_chars[512];
        const size_t want = fixture_numbers(line.numbers, want_chars, 512);
        syn_error err = {0};
        walk split;
        CHECK(walk_begin(&split, SYN__REGEX_GPT2));
        walk_set(&split, line.text, line.text_bytes);
        size_t got = 0, bytes;
        for (;; got++) {
            CHECK_OK(walk_next(&split, &bytes, &err), err);
            if (bytes == 0) break;
            CHECK_MSG(got < want, "%s has more than %zu words", line.rest, want);
            CHECK_MSG((long)bytes == want_chars[got], "word %zu of %s has %zu bytes, want %ld", got,
                      line.rest, bytes, want_chars[got]);
        }
        CHECK_MSG(got == want, "%s has %zu words, want %zu", line.rest, got, want);
        walk_end(&split);
        texts++;
    }
    fclose(f);
    CHECK(texts > 200);
}

/* Whether the text `side` + character + `side` is one word. */
static bool joins(walk *split, char side, const char *character, size_t bytes) {
    char text[8] = {side};
    memcpy(text + 1, character, bytes);
    text[1 + bytes] = side;
    size_t got = 0;
    syn_error err = {0};
    walk_set(split, text, bytes + 2);
    return walk_next(split, &got, &err) == SYN_OK && got == bytes + 2;
}

static char class_of(void *user, const char *character, size_t bytes) {
    walk *split = user;
    return joins(split, 'a', character, bytes)   ? 'L'
           : joins(split, '1', character, bytes) ? 'N'
           : joins(split, '!', character, bytes) ? 'O'
                                                 : 'S';
}

static void classes_of_all_code_points(void) {
    if (!regex_unicode_is_known()) SKIP("PCRE2 has a Unicode version other than 14, 15 or 16");
    FILE *f = fixture_open("tokenizer_fixture.txt");
    CHECK(f != NULL);
    walk split;
    CHECK(walk_begin(&split, SYN__REGEX_GPT2));
    fixture_line line;
    unsigned blocks = 0;
    while (fixture_next(f, &line)) {
        if (strcmp(line.kind, "class") != 0) continue;
        const unsigned first = (unsigned)strtoul(line.rest, NULL, 16);
        const uint64_t hash = fnv_points(first, class_of, &split);
        CHECK_MSG(hash == strtoull(line.numbers, NULL, 16), "classes of U+%04X and on differ",
                  first);
        blocks++;
    }
    walk_end(&split);
    fclose(f);
    CHECK_INT(blocks, 272);
}

/* Long runs of characters must not make the matcher backtrack, and must not exhaust the stack. */
static void long_runs_are_words(void) {
    const size_t n = (size_t)1 << 20;
    char *text = malloc(n + 1);
    CHECK(text != NULL);
    syn_error err = {0};
    walk split;
    CHECK(walk_begin(&split, SYN__REGEX_GPT2));
    for (const char *c = "a1!\n "; *c != '\0'; c++) {
        size_t bytes;
        memset(text, *c, n);
        text[n] = 'z';
        walk_set(&split, text, n + (*c != 'a'));
        CHECK_OK(walk_next(&split, &bytes, &err), err);
        CHECK_INT(bytes,
                  /* The last character belongs to the word of z. */
                  *c == '\n' || *c == ' ' ? n - 1 : n);
    }
    walk_end(&split);
    free(text);
}

/* Patterns that have another meaning in PCRE2, and invalid patterns. */
static void others_are_refused(void) {
    static const char *const refused[] = {"\\h",     "\\w",     "[\\w]", "\\p{Lu}(?i:a)",
                                          "\\p{Sc}", "\\1(a)",  "\\bx",  "[[:alpha:]]",
                                          "[a&&b]",  "[^\\S]",  "[]a]",  "(?<n>a)",
                                          "(?#x)a",  "a{1,2}+", "a{,2}", "^a",
                                          "a$",      "a*",      "a|",    "(a",
                                          "[a",      "a\\",     "{2}",   "a**"};
    static const char *const taken[] = {"\\r?\\n",
                                        "[\\r\\n.]",
                                        "(?i:'s)",
                                        "a{2,}b",
                                        "\\-|\\.",
                                        "\u2581",
                                        "(?:a|b)(?!c)(?=d)",
                                        "\\d\\D\\P{L}\\P{N}\\S",
                                        "\\p{Lu}[\\p{Lm}\\p{M}]"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        syn_error err = {0};
        syn__regex *regex;
        CHECK_MSG(syn__regex_new(&regex, refused[i], strlen(refused[i]), true, &err) ==
                      SYN_E_UNSUPPORTED,
                  "%s: %s", refused[i], err.text);
        CHECK(regex == NULL && err.text[0] != '\0');
        CHECK(syn__regex_new(&regex, refused[i], strlen(refused[i]), true, NULL) ==
              SYN_E_UNSUPPORTED);
    }
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        syn_error err = {0};
        syn__regex *regex;
        CHECK_OK(syn__regex_new(&regex, taken[i], strlen(taken[i]), true, &err), err);
        syn__regex_free(regex);
    }
}

#else

static void not_built(void) {
    SKIP("built without PCRE2");
}

#endif

static const test_case cases[] = {
#ifdef SYN_HAVE_PCRE2
    {"words match the fixture", words_match_the_fixture},
    {"classes of all code points", classes_of_all_code_points},
    {"long runs are words", long_runs_are_words},
    {"others are refused", others_are_refused},
#else
    {"not built", not_built},
#endif
};

TEST_MAIN(cases)
