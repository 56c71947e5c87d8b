/* Readers of GPT-2's vocab.json and merges.txt. */
#include "models/tokenizer/bpe_private.h"

#include "syntorch/base/memory.h"

#include <string.h>

#define VERSION_HEADER "#version"

typedef struct merges_reader {
    const char *name;
    const syn__vocab *vocab;
    size_t line, header_lines;
} merges_reader;

/* Parses one line, "left right". */
static syn_status read_merge(syn__bpe *bpe, const merges_reader *mr, const char *line, size_t bytes,
                             syn_error *err) {
    char shown[SYN__QUOTE_BYTES], why[SYN__BPE_WHY_BYTES];
    const syn__bpe_pair *known;
    const char *space = memchr(line, ' ', bytes);
    const size_t left_bytes = space == NULL ? 0 : (size_t)(space - line);
    const size_t right_bytes = space == NULL ? 0 : bytes - left_bytes - 1;
    if (left_bytes == 0 || right_bytes == 0 || memchr(space + 1, ' ', right_bytes) != NULL)
        return SYN_FAIL(
            err, SYN_E_FORMAT,
            "%s:%zu: \"%s\" is not a merge: it must be two tokens separated by one space", mr->name,
            mr->line, syn__quote(shown, line, bytes));
    if (syn__bpe_put_merge(bpe, mr->vocab, line, left_bytes, space + 1, right_bytes, why, &known))
        return SYN_OK;
    if (why[0]) return SYN_FAIL(err, SYN_E_FORMAT, "%s:%zu: %s", mr->name, mr->line, why);
    return SYN_FAIL(err, SYN_E_FORMAT, "%s:%zu: the merge \"%s\" is already on line %zu", mr->name,
                    mr->line, syn__quote(shown, line, bytes),
                    (size_t)known->rank + mr->header_lines + 1);
}

/* Reads all merges. Lines may end in CR LF, and the file may end in blank lines. The first line may
   be "#version: ...". */
static syn_status read_merges(syn__bpe *bpe, const syn__vocab *vocab, const char *name,
                              const char *data, size_t bytes, syn_error *err) {
    merges_reader mr = {.name = name, .vocab = vocab};
    while (bytes > 0 && (data[bytes - 1] == '\n' || data[bytes - 1] == '\r')) bytes--;
    size_t lines = 1;
    for (size_t i = 0; i < bytes; i++) lines += data[i] == '\n';
    if (lines > bytes / 4 + 1) lines = bytes / 4 + 1; /* the shortest merge is "a b\n" */
    syn_status status = syn__bpe_reserve(bpe, lines, err);
    for (size_t pos = 0; status == SYN_OK && pos < bytes;) {
        const char *line = data + pos, *newline = memchr(line, '\n', bytes - pos);
        size_t line_bytes = newline == NULL ? bytes - pos : (size_t)(newline - line);
        pos += line_bytes + 1;
        mr.line++;
        if (line_bytes > 0 && line[line_bytes - 1] == '\r') line_bytes--;
        if (mr.line == 1 && line_bytes >= strlen(VERSION_HEADER) &&
            memcmp(line, VERSION_HEADER, strlen(VERSION_HEADER)) == 0)
            mr.header_lines = 1;
        else status = read_merge(bpe, &mr, line, line_bytes, err);
    }
    return status;
}

static syn_status read_vocab(syn__vocab *vocab, const char *name, const char *data, size_t bytes,
                             syn_error *err) {
    syn_json json;
    syn_json_init(&json, name, data, bytes, err);
    syn_status status = syn__vocab_read(vocab, name, &json, err);
    if (status == SYN_OK && syn_json_next(&json) != SYN_JSON_END) status = err->code;
    syn_json_free(&json);
    return status;
}

syn_status syn__bpe_read(syn__bpe **out, syn__vocab *vocab, const char *vocab_name,
                         const char *vocab_data, size_t vocab_bytes, const char *merges_name,
                         const char *merges_data, size_t merges_bytes, syn_error *err) {
    static const syn__bpe_rules rules = {.unk = -1};
    syn_error first = {.code = SYN_OK}; /* the JSON reader only reports into an empty error */
    syn__bpe *bpe = NULL;
    *out = NULL;
    syn_status status = read_vocab(vocab, vocab_name, vocab_data, vocab_bytes, &first);
    if (status == SYN_OK) status = syn__bpe_new(&bpe, vocab, &rules, vocab_name, &first);
    if (status == SYN_OK)
        status = read_merges(bpe, vocab, merges_name, merges_data, merges_bytes, &first);
    if (status == SYN_OK) status = syn__bpe_finish(bpe, vocab, &first);
    if (status == SYN_OK) {
        *out = bpe;
        return SYN_OK;
    }
    syn__bpe_free(bpe);
    if (err != NULL && err->code == SYN_OK) *err = first;
    return status;
}
