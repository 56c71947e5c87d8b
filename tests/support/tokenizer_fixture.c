/* Implements tokenizer_fixture.h: parses fixture lines and builds texts and vocabularies. */
#include "tests/support/tokenizer_fixture.h"

#include "tests/support/files.h"
#include "tests/support/random.h"

FILE *fixture_open(const char *name) {
    return fopen(reference_path("%s", name), "r");
}

size_t fixture_unhex(const char *hex, size_t digits, char *out) {
    size_t bytes = 0;
    if (digits % 2 != 0) return 0; /* "-", an odd number of digits, represents the empty text */
    for (size_t i = 0; i < digits; i += 2) {
        unsigned value = 0;
        if (sscanf(hex + i, "%2x", &value) != 1) abort();
        out[bytes++] = (char)value;
    }
    return bytes;
}

bool fixture_next(FILE *f, fixture_line *line) {
    static char buf[1 << 16], text[1 << 15];
    if (fgets(buf, sizeof buf, f) == NULL) return false;
    buf[strcspn(buf, "\n")] = '\0';
    const size_t kind_bytes = strcspn(buf, " ");
    snprintf(line->kind, sizeof line->kind, "%.*s", (int)kind_bytes, buf);
    line->rest = buf + kind_bytes + (buf[kind_bytes] == ' ');
    const size_t digits = strcspn(line->rest, " ");
    const bool is_text = strchr("smtgpb", line->kind[0]) != NULL &&
                         strcmp(line->kind, "squad") != 0 && strcmp(line->kind, "points") != 0 &&
                         strcmp(line->kind, "tokenizer") != 0;
    line->text = text;
    line->text_bytes = is_text ? fixture_unhex(line->rest, digits, text) : 0;
    line->numbers = line->rest + digits;
    return true;
}

size_t fixture_numbers(const char *text, long *out, size_t max) {
    size_t n = 0;
    for (char *end; n < max; text = end) {
        out[n] = strtol(text, &end, 10);
        if (end == text) break;
        n++;
    }
    return n;
}

uint64_t fnv_begin(void) {
    return UINT64_C(0xcbf29ce484222325);
}

uint64_t fnv_byte(uint64_t hash, unsigned byte) {
    return (hash ^ byte) * UINT64_C(0x100000001b3);
}

uint64_t fnv_points(unsigned first, char (*of)(void *user, const char *character, size_t bytes),
                    void *user) {
    uint64_t hash = fnv_begin();
    for (unsigned c = first; c < first + 4096; c++) {
        char text[4];
        const bool surrogate = c >= 0xd800 && c < 0xe000;
        const size_t bytes = surrogate ? 0 : syn_utf8_encode(c, text);
        hash = fnv_byte(hash, (unsigned char)(surrogate ? '-' : of(user, text, bytes)));
    }
    return hash;
}

uint64_t fnv_bytes(uint64_t hash, const void *data, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) hash = fnv_byte(hash, ((const unsigned char *)data)[i]);
    return hash;
}

uint64_t fnv_ids(uint64_t hash, const int32_t *ids, size_t elems) {
    for (size_t i = 0; i < elems; i++)
        for (int shift = 0; shift < 32; shift += 8)
            hash = fnv_byte(hash, (unsigned)ids[i] >> shift & 255);
    return hash;
}

const char *fnv_short(uint64_t hash, char out[4]) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    hash ^= hash >> 36 ^ hash >> 18;
    for (int i = 0; i < 3; i++) out[i] = digits[hash >> 6 * i & 63];
    out[3] = '\0';
    return out;
}

void text_add(text_buffer *t, const char *data, size_t bytes) {
    if (t->bytes + bytes + 1 > t->cap) {
        t->cap = 2 * (t->bytes + bytes + 1);
        t->data = realloc(t->data, t->cap);
        if (t->data == NULL) abort();
    }
    if (bytes > 0) memcpy(t->data + t->bytes, data, bytes);
    t->bytes += bytes;
    t->data[t->bytes] = '\0';
}

void text_adds(text_buffer *t, const char *data) {
    text_add(t, data, strlen(data));
}

/* Appends a code point; surrogates are replaced by other code points. */
static void text_add_char(text_buffer *t, unsigned c) {
    char utf8[4];
    text_add(t, utf8, syn_utf8_encode(c >= 0xd800 && c < 0xe000 ? c - 0x800 : c, utf8));
}

void text_add_random(text_buffer *t, uint32_t number) {
    static const unsigned spaces[] = {0x9,    0xa,    0xb,    0xc,    0xd,    0x1c,
                                      0x1f,   0x20,   0x85,   0xa0,   0x1680, 0x180e,
                                      0x2000, 0x2003, 0x200a, 0x200b, 0x2028, 0x2029,
                                      0x202f, 0x205f, 0x2060, 0x3000, 0xfeff};
    static const unsigned odd[] = {0x130,   0x131,   0xdf,   0x1e9e,  0x3a3,   0x3c2,   0x212a,
                                   0x212b,  0x37e,   0x1fef, 0x226e,  0x344,   0x345,   0x34f,
                                   0x302e,  0x1baa,  0x8d4,  0x897,   0x1abf,  0x1734,  0x166d,
                                   0x2e43,  0xfffd,  0xfe0f, 0x200d,  0x16ff0, 0x1d165, 0x1d15e,
                                   0x111c9, 0x11938, 0x1c89, 0x10d50, 0xa7cb,  0x2b820};
    static const char *const words[] = {
        "the",   "The",    "unaffable", "hello",         "don't",
        "I'll",  "[MASK]", "[CLS]",     "[SEP]",         "[UNK]",
        "[PAD]", "[mask]", "[MASK",     "<|endoftext|>", "<|endoftext",
        "##ing", "...",    "2024",      "caf\xc3\xa9",   "\xe4\xbd\xa0\xe5\xa5\xbd"};
    static const unsigned kinds[16][2] = {
        /* first code point and number of code points of each range */
        {0x61, 26},       {0x20, 95},         {0xc0, 400},     {0x300, 112},
        {0x4e00, 0x5200}, {0x1f300, 0x800},   {0, 32},         {0x7f, 33},
        {0x80, 0x2f80},   {0x2000, 0x70},     {0x3000, 0x110}, {0xff00, 0xf0},
        {0xac00, 0x2ba4}, {0x10000, 0x10000}, {0, 0x110000},   {0x20, 1}};
    uint64_t rng = (number + UINT64_C(1)) * UINT64_C(0x9e3779b97f4a7c15);
    for (uint32_t left = random_u32(&rng) % 24 + 1; left > 0; left--) {
        uint32_t kind = random_u32(&rng) % 40, value = random_u32(&rng);
        if (kind >= 20) kind = number % 20;
        if (kind < 16) text_add_char(t, kinds[kind][0] + value % kinds[kind][1]);
        else if (kind == 16) text_add_char(t, spaces[value % (sizeof spaces / sizeof *spaces)]);
        else if (kind == 17) text_add_char(t, odd[value % (sizeof odd / sizeof *odd)]);
        else if (kind == 18) text_adds(t, words[value % (sizeof words / sizeof *words)]);
        else
            for (uint32_t i = 0; i < value / 32 % 110; i++) text_add_char(t, 'a' + value % 26);
    }
}

void text_add_spelled(text_buffer *t, const char *data, size_t bytes) {
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

void text_add_entry(text_buffer *vocab, const char *token, size_t bytes, long id) {
    char number[32];
    text_adds(vocab, "\"");
    for (size_t i = 0; i < bytes; i++) {
        if (token[i] == '"' || token[i] == '\\') text_adds(vocab, "\\");
        text_add_spelled(vocab, token + i, 1);
    }
    snprintf(number, sizeof number, "\": %ld, ", id);
    text_adds(vocab, number);
}

void text_add_bytes(text_buffer *vocab) {
    text_adds(vocab, "{");
    for (int b = 0; b < 256; b++) {
        const char byte = (char)b;
        text_add_entry(vocab, &byte, 1, b);
    }
}

void text_close(text_buffer *vocab) {
    vocab->bytes -= 2;
    text_adds(vocab, "}\n");
}

bool tiny_files(text_buffer *vocab, text_buffer *merges) {
    FILE *f = fixture_open("tokenizer_fixture.txt");
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
