/* Tests byte-pair encoding. Merging is compared with a direct implementation of its rule, and the
   readers must reject invalid files. */
#include "models/tokenizer/bpe_private.h"

#include "syntorch/base/memory.h"
#include "syntorch/base/utf8.h"
#include "tests/support/random.h"
#include "tests/support/test.h"
#include "tests/support/tokenizer_fixture.h"

typedef struct files {
    text_buffer vocab, merges;
} files;

static void files_free(files *in) {
    free(in->vocab.data);
    free(in->merges.data);
}

static syn_status read_files(syn__bpe **out, const files *in, syn_error *err) {
    syn__vocab vocab = {0};
    const syn_status status =
        syn__bpe_read(out, &vocab, "vocab.json", in->vocab.data, in->vocab.bytes, "merges.txt",
                      in->merges.data ? in->merges.data : "", in->merges.bytes, err);
    syn__vocab_free(&vocab);
    return status;
}

/* A direct implementation of the rule: join the leftmost pair with the lowest rank, until no pair
   is left. */
static size_t merge_naively(const syn__bpe *bpe, const char *word, size_t n, int32_t *ids) {
    for (size_t i = 0; i < n; i++) ids[i] = bpe->byte_id[(unsigned char)word[i]];
    for (;;) {
        const syn__bpe_pair *best = NULL;
        size_t at = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            const syn__bpe_pair *p = syn__bpe_find_pair(bpe, ids[i], ids[i + 1]);
            if (p->rank == SYN__BPE_NO_RANK || (best != NULL && p->rank >= best->rank)) continue;
            best = p;
            at = i;
        }
        if (best == NULL) return n;
        ids[at] = best->id;
        memmove(ids + at + 1, ids + at + 2, (n - at - 2) * sizeof *ids);
        n--;
    }
}

/* Random merges over three letters, in random order. Training a tokenizer would not produce most of
   these files. */
static void random_files(files *in, uint64_t *rng) {
    char token[80][24];
    bool merged[80][80] = {{false}};
    int tokens = 3;
    long id = 256;
    for (int i = 0; i < 3; i++) snprintf(token[i], sizeof token[i], "%c", 'a' + i);
    text_add_bytes(&in->vocab);
    for (int i = 0; i < 150 && tokens < 80; i++) {
        const uint32_t a = random_u32(rng) % (uint32_t)tokens,
                       b = random_u32(rng) % (uint32_t)tokens;
        if (merged[a][b] || strlen(token[a]) + strlen(token[b]) > 12) continue;
        char line[64], joined[32];
        merged[a][b] = true;
        snprintf(line, sizeof line, "%s %s\n", token[a], token[b]);
        snprintf(joined, sizeof joined, "%s%s", token[a], token[b]);
        /* The new merge becomes the first or the last line. */
        text_buffer *m = &in->merges;
        if (random_u32(rng) % 2 && m->bytes > 0) {
            text_buffer all = {0};
            text_adds(&all, line);
            text_add(&all, m->data, m->bytes);
            free(m->data);
            *m = all;
        } else {
            text_adds(m, line);
        }
        bool seen = false;
        for (int t = 0; t < tokens; t++) seen |= strcmp(token[t], joined) == 0;
        if (seen) continue;
        snprintf(token[tokens++], sizeof token[0], "%.23s", joined);
        text_add_entry(&in->vocab, joined, strlen(joined), id++);
    }
    text_close(&in->vocab);
}

static void merging_follows_the_rule(void) {
    uint64_t rng = 12345;
    syn__bpe_work work = {0};
    for (int round = 0; round < 40; round++) {
        files in = {0};
        syn_error err = {0};
        syn__bpe *bpe;
        random_files(&in, &rng);
        CHECK_OK(read_files(&bpe, &in, &err), err);
        for (int k = 0; k < 200; k++) {
            char word[300];
            int32_t want[300], got[300];
            size_t got_elems;
            const size_t n = random_u32(&rng) % (k % 4 == 0 ? 300 : 60);
            for (size_t i = 0; i < n; i++)
                word[i] = (char)('a' + random_u32(&rng) % (unsigned)(k % 3 + 1));
            const size_t want_elems = merge_naively(bpe, word, n, want);
            CHECK_OK(syn__bpe_merge(bpe, &work, word, n, got, &got_elems, &err), err);
            CHECK_INT(got_elems, want_elems);
            CHECK_MSG(n == 0 || memcmp(got, want, want_elems * sizeof *got) == 0, "round %d: %.*s",
                      round, (int)n, word);
        }
        syn__bpe_free(bpe);
        files_free(&in);
    }
    syn__bpe_work_free(&work);
}

/* A word is in the table of whole words if and only if merging it gives one token. */
static void words_are_what_merging_makes(void) {
    uint64_t rng = 99;
    files in = {0};
    syn_error err = {0};
    syn__bpe *bpe;
    random_files(&in, &rng);
    CHECK_OK(read_files(&bpe, &in, &err), err);
    size_t whole = 0;
    for (int32_t id = 0; id < bpe->vocab_elems; id++) {
        const char *text = bpe->bytes + bpe->begin[id];
        const size_t bytes = bpe->begin[id + 1] - bpe->begin[id];
        int32_t ids[32];
        const bool alone = merge_naively(bpe, text, bytes, ids) == 1;
        const int32_t got = syn__bpe_find_word(bpe, text, bytes, syn__bpe_hash(text, bytes))->id;
        CHECK_INT(got, alone ? id : -1);
        whole += alone;
    }
    CHECK(whole > 256 && whole < (size_t)bpe->vocab_elems); /* both cases must have occurred */
    syn__bpe_free(bpe);
    files_free(&in);
}

/* A token that is not a byte-level spelling represents its own UTF-8 bytes. It must not hide the
   token that merging gives. */
static void added_tokens_do_not_interfere(void) {
    static const char text[] = "\xe4\xb8\xad"; /* U+4E2D as byte-level spelling and as itself */
    files in = {0};
    syn_error err = {0};
    syn__bpe *bpe;
    text_add_bytes(&in.vocab);
    text_add_entry(&in.vocab, text, 2, 256);
    text_add_entry(&in.vocab, text, 3, 257);
    text_adds(&in.vocab, "\"\\u4e2d\": 258, ");
    text_adds(&in.vocab, "\"\\u4e2e\": 259, ");
    text_close(&in.vocab);
    text_add_spelled(&in.merges, text, 1);
    text_adds(&in.merges, " ");
    text_add_spelled(&in.merges, text + 1, 1);
    text_adds(&in.merges, "\n");
    text_add_spelled(&in.merges, text, 2);
    text_adds(&in.merges, " ");
    text_add_spelled(&in.merges, text + 2, 1);
    CHECK_OK(read_files(&bpe, &in, &err), err);
    CHECK_INT(bpe->begin[259] - bpe->begin[258], 3);
    CHECK(memcmp(bpe->bytes + bpe->begin[257], text, 3) == 0);
    CHECK(memcmp(bpe->bytes + bpe->begin[258], text, 3) == 0);
    CHECK(memcmp(bpe->bytes + bpe->begin[259], "\xe4\xb8\xae", 3) == 0);
    CHECK_INT(syn__bpe_find_word(bpe, text, 3, syn__bpe_hash(text, 3))->id, 257);
    size_t occupied = 0;
    for (size_t i = 0; i <= bpe->word_mask; i++) occupied += bpe->words[i].id >= 0;
    CHECK_INT(occupied, 256 + 2);
    syn__bpe_free(bpe);
    files_free(&in);
}

/* A quadratic algorithm would take hours for a word of this length. */
static void long_words_end(void) {
    const size_t n = 4000000;
    files in = {0};
    syn_error err = {0};
    syn__bpe *bpe;
    CHECK(tiny_files(&in.vocab, &in.merges));
    CHECK_OK(read_files(&bpe, &in, &err), err);
    char *word = malloc(n);
    int32_t *ids = malloc(n * sizeof *ids);
    CHECK(word != NULL && ids != NULL);
    memset(word, 'a', n);
    syn__bpe_work work = {0};
    size_t elems;
    CHECK_OK(syn__bpe_merge(bpe, &work, word, n, ids, &elems, &err), err);
    CHECK_INT(elems, n / 8); /* the longest token has 8 letters */
    syn__bpe_work_free(&work);
    free(ids);
    free(word);
    syn__bpe_free(bpe);
    files_free(&in);
}

typedef struct refusal {
    /* Entries after the 256 bytes, "" for none; NULL: `whole` is the complete file. */
    const char *extra;
    const char *whole;
    const char *merges;
    const char *sentence; /* part of the expected message; NULL: accepted */
} refusal;

static const refusal refusals[] = {
    {"\"ab\": 256, ", NULL, "#version: 0.2\na b\n", NULL},
    {"\"ab\": 256, ", NULL, "a b", NULL},
    {"\"ab\": 256, ", NULL, "#version: 0.2\r\na b\r\n\r\n", NULL},
    {"\"ab\": 256, ", NULL, "", NULL},
    /* An added token that is not a byte-level spelling is accepted. */
    {"\"\\u4e2d\": 256, ", NULL, "", NULL},
    {"\"ab\": 256, \"ab\": 257, ", NULL, "",
     "vocab.json: the token \"ab\" appears twice (ids 256 and 257)"},
    {"\"ab\": 256, \"bc\": 256, ", NULL, "", "vocab.json: \"ab\" and \"bc\" have the same id 256"},
    {"\"ab\": 257, ", NULL, "",
     "vocab.json: the id 257 of \"ab\" is out of range: 257 tokens must have the ids 0 to 256"},
    {"\"ab\": -1, ", NULL, "", "vocab.json:1:"},
    {"\"ab\": 2147483647, ", NULL, "", "vocab.json:1:"},
    {"\"ab\": 99999999999999999999, ", NULL, "", "vocab.json:1:"},
    {"\"ab\": 256.5, ", NULL, "", "the id of a token"},
    {"\"ab\": \"256\", ", NULL, "", "the id of a token"},
    {"\"ab\": null, ", NULL, "", "the id of a token"},
    {"\"ab\": [256], ", NULL, "", "the id of a token"},
    {"\"ab\", ", NULL, "", "vocab.json:1:"},
    {"\"\": 256, ", NULL, "", "a token must not be empty"},
    {"\"\xff\": 256, ", NULL, "", "vocab.json:1:"},
    {NULL, "", "", "vocab.json"},
    {NULL, "{", "", "vocab.json:1:"},
    {NULL, "{\"a\": 0", "", "vocab.json:1:"},
    {NULL, "{\"a\": 0,", "", "vocab.json:1:"},
    {NULL, "{\"a", "", "vocab.json:1:"},
    {NULL, "[0]", "", "the vocabulary must be an object"},
    {NULL, "7", "", "the vocabulary must be an object"},
    {NULL, "{}", "", "vocab.json: no token for the byte 0x00 (spelled U+0100)"},
    {NULL, "{\"a\": 0}", "", "no token for the byte 0x00"},
    {NULL, "{\"a\": 0} x", "", "vocab.json:1:"},
    {"\"ab\": 256, ", NULL, "#version: 0.2\nab\n", "merges.txt:2: \"ab\" is not a merge"},
    {"\"ab\": 256, ", NULL, "#version: 0.2\na b c\n", "merges.txt:2: \"a b c\" is not a merge"},
    {"\"ab\": 256, ", NULL, "a  b\n", "merges.txt:1: \"a  b\" is not a merge"},
    {"\"ab\": 256, ", NULL, " b\n", "merges.txt:1: \" b\" is not a merge"},
    {"\"ab\": 256, ", NULL, "a \n", "merges.txt:1: \"a \" is not a merge"},
    {"\"ab\": 256, ", NULL, "a b\n\na c\n", "merges.txt:2: \"\" is not a merge"},
    {"\"ab\": 256, ", NULL, "a b\n#version: 0.2\n",
     "merges.txt:2: the token \"#version:\" is not in the vocabulary"},
    {"\"ab\": 256, ", NULL, "a b\nab qq\n",
     "merges.txt:2: the token \"qq\" is not in the vocabulary"},
    {"\"ab\": 256, ", NULL, "a b\nab c\n",
     "merges.txt:2: the token \"abc\" is not in the vocabulary"},
    {"\"ab\": 256, ", NULL, "a \xc4\xa0\n",
     "merges.txt:1: the token \"a\\xc4\\xa0\" is not in the vocabulary"},
    {"\"ab\": 256, ", NULL, "#version: 0.2\na b\na b\n",
     "merges.txt:3: the merge \"a b\" is already on line 2"},
    {"\"ab\": 256, ", NULL, "a b\r\na b\r\n",
     "merges.txt:2: the merge \"a b\" is already on line 1"},
    {"\"ab\": 256, ", NULL, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
     "aaaa...\" is not a merge"},
};

static void bad_files_are_refused(void) {
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const refusal *r = &refusals[i];
        files in = {0};
        if (r->whole != NULL) {
            text_adds(&in.vocab, r->whole);
        } else {
            text_add_bytes(&in.vocab);
            text_adds(&in.vocab, r->extra);
            text_close(&in.vocab);
        }
        text_adds(&in.merges, r->merges);
        syn_error err = {0};
        syn__bpe *bpe = NULL;
        const syn_status status = read_files(&bpe, &in, &err);
        if (r->sentence == NULL) {
            CHECK_MSG(status == SYN_OK, "case %zu: %s", i, err.text);
        } else {
            CHECK_MSG(status == SYN_E_FORMAT, "case %zu has status %d: %s", i, (int)status,
                      err.text);
            CHECK_HAS(err.text, r->sentence);
            CHECK(bpe == NULL);
        }
        syn__bpe_free(bpe);
        CHECK_INT(read_files(&bpe, &in, NULL), status); /* the same call without a syn_error */
        syn__bpe_free(bpe);
        files_free(&in);
    }
}

/* A vocabulary that is truncated anywhere must be rejected. Reading truncated merges must stay
   within the buffer. */
static void truncated_files(void) {
    files in = {0};
    CHECK(tiny_files(&in.vocab, &in.merges));
    for (size_t cut = 0; cut + 2 < in.vocab.bytes; cut++) {
        syn__bpe *bpe;
        char *exact = malloc(cut + 1);
        CHECK(exact != NULL);
        memcpy(exact, in.vocab.data, cut);
        const files some = {{exact, cut, cut}, {0}};
        CHECK_INT(read_files(&bpe, &some, NULL), SYN_E_FORMAT);
        free(exact);
    }
    for (size_t cut = 0; cut <= in.merges.bytes; cut++) {
        syn__bpe *bpe;
        char *exact = malloc(cut + 1);
        CHECK(exact != NULL);
        memcpy(exact, in.merges.data, cut);
        const files some = {in.vocab, {exact, cut, cut}};
        const syn_status status = read_files(&bpe, &some, NULL);
        CHECK(status == SYN_OK || status == SYN_E_FORMAT);
        syn__bpe_free(bpe);
        free(exact);
    }
    files_free(&in);
}

static const test_case cases[] = {
    {"merging follows the rule", merging_follows_the_rule},
    {"words are what merging makes", words_are_what_merging_makes},
    {"added tokens do not interfere", added_tokens_do_not_interfere},
    {"long words end soon", long_words_end},
    {"bad files are refused", bad_files_are_refused},
    {"truncated files", truncated_files},
};

TEST_MAIN(cases)
