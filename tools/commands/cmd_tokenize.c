/* syntorch tokenize: converts texts to tokens and back. */
#include <stdlib.h>
#include <string.h>

#include "models/tokenizer/tokenizer.h"
#include "syntorch/base/memory.h"
#include "tools/cli_json.h"
#include "tools/commands/command.h"

#define MAX_INPUT_BYTES ((size_t)1 << 30)

static struct arguments {
    const char *input, *tokenizer;
    bool decode, json, plain;
} args;

static const cli_option options[] = {
    {"tokenizer", CLI_TEXT, &args.tokenizer, "DIR|bytes",
     "folder with tokenizer.json, vocab.json and merges.txt, or vocab.txt; bytes: each byte is a "
     "token",
     0, 0},
    {"input", CLI_TEXT, &args.input, "FILE",
     "file to read as one text; - = standard input; without --input, each argument TEXT is a "
     "separate text",
     0, 0},
    {"decode", CLI_FLAG, &args.decode, NULL, "convert decimal ids to text", 0, 0},
    {"plain", CLI_FLAG, &args.plain, NULL,
     "omit the special tokens that the tokenizer's files put around a text", 0, 0},
    {"json", CLI_FLAG, &args.json, NULL, "print one JSON object per text, one per line", 0, 0},
    CLI_END};

static const char *const examples[] = {
    "syntorch tokenize --tokenizer examples/tiny-gpt2 \"Hello, world!\"",
    "syntorch tokenize --tokenizer examples/tiny-gpt2 --decode 9 10 11",
    "syntorch tokenize --tokenizer examples/tiny-bert --json \"the capital of France\"", NULL};

static const cli_program program = {
    "syntorch tokenize",
    "Prints the tokens of texts, or with --decode the text of ids. A token's line has its id, its "
    "range of characters in the text (code points, end excluded), and its spelling in the "
    "vocabulary.",
    options, examples, false};

/* ---- texts to ids ---- */

static syn_status put_piece(syn_sink *sink, const syn_tokenizer *tok, int32_t id, bool first,
                            syn_error *err) {
    char *piece;
    size_t bytes;
    SYN_TRY(syn_tokenizer_piece(tok, id, &piece, &bytes, err));
    if (!first) syn_sink_text(sink, ", ");
    syn_sink_json_text(sink, piece, bytes);
    syn_free(piece);
    return SYN_OK;
}

static syn_status put_encoding(syn_sink *sink, const syn_tokenizer *tok, const char *text,
                               size_t bytes, const syn_encoding *e, syn_error *err) {
    syn_sink_text(sink, ", \"text\": ");
    syn_sink_json_text(sink, text, bytes);
    syn_sink_text(sink, ", \"ids\": [");
    for (size_t i = 0; i < e->n; i++) syn_sink_printf(sink, "%s%d", i ? ", " : "", e->ids[i]);
    syn_sink_text(sink, "], \"type_ids\": [");
    for (size_t i = 0; i < e->n; i++) syn_sink_printf(sink, "%s%d", i ? ", " : "", e->types[i]);
    syn_sink_text(sink, "], \"pieces\": [");
    for (size_t i = 0; i < e->n; i++) SYN_TRY(put_piece(sink, tok, e->ids[i], i == 0, err));
    syn_sink_text(sink, "], \"offsets\": [");
    for (size_t i = 0; i < e->n; i++)
        syn_sink_printf(sink, "%s[%u, %u]", i ? ", " : "", e->offsets[i][0], e->offsets[i][1]);
    syn_sink_char(sink, ']');
    return SYN_OK;
}

static syn_status print_encoding(const syn_tokenizer *tok, const syn_encoding *e, syn_error *err) {
    printf("%10s  %10s  %10s  piece\n", "id", "from", "to");
    for (size_t i = 0; i < e->n; i++) {
        char *piece;
        size_t bytes;
        SYN_TRY(syn_tokenizer_piece(tok, e->ids[i], &piece, &bytes, err));
        printf("%10d  %10u  %10u  ", e->ids[i], e->offsets[i][0], e->offsets[i][1]);
        cli_print_escaped(stdout, piece, bytes);
        putchar('\n');
        syn_free(piece);
    }
    printf("%zu token%s\n", e->n, cli_plural(e->n));
    return SYN_OK;
}

static syn_status show_tokens(syn_sink *sink, const syn_tokenizer *tok, const char *text,
                              size_t bytes, syn_error *err) {
    syn_encoding e;
    SYN_TRY(syn_tokenizer_encode_text(tok, text, bytes, !args.plain, &e, err));
    const syn_status status =
        sink ? put_encoding(sink, tok, text, bytes, &e, err) : print_encoding(tok, &e, err);
    syn_encoding_free(&e);
    return status;
}

/* ---- ids to a text ---- */

typedef struct id_list {
    int32_t *at;
    size_t n, cap;
} id_list;

/* Appends numbers separated by white space or commas. */
static syn_status read_ids(const char *text, id_list *list, syn_error *err) {
    for (;;) {
        char *end;
        text += strspn(text, " \t\r\n,");
        if (*text == '\0') return SYN_OK;
        const long long id = strtoll(text, &end, 10);
        if (end == text || id < INT32_MIN || id > INT32_MAX)
            return SYN_FAIL(err, SYN_E_INVALID, "'%.40s' is not a token id", text);
        SYN_TRY(syn_grow(&list->at, &list->cap, list->n + 1, sizeof *list->at, err));
        list->at[list->n++] = (int32_t)id;
        text = end;
    }
}

static syn_status show_text(syn_sink *sink, const syn_tokenizer *tok, const id_list *ids,
                            syn_error *err) {
    char *text;
    size_t bytes;
    SYN_TRY(syn_tokenizer_decode(tok, ids->at, ids->n, &text, &bytes, err));
    if (sink) {
        syn_sink_text(sink, ", \"ids\": [");
        for (size_t i = 0; i < ids->n; i++)
            syn_sink_printf(sink, "%s%d", i ? ", " : "", ids->at[i]);
        syn_sink_text(sink, "], \"text\": ");
        syn_sink_json_text(sink, text, bytes);
    } else {
        cli_print_escaped(stdout, text, bytes);
        putchar('\n');
    }
    syn_free(text);
    return SYN_OK;
}

/* ---- the command ---- */

/* Decodes the ids in all arguments as one list. */
static syn_status decode_all(syn_sink *sink, const syn_tokenizer *tok, const char *const *texts,
                             size_t n, syn_error *err) {
    id_list ids = {0};
    syn_status status = SYN_OK;
    for (size_t i = 0; status == SYN_OK && i < n; i++) status = read_ids(texts[i], &ids, err);
    if (status == SYN_OK) status = show_text(sink, tok, &ids, err);
    syn_free(ids.at);
    return status;
}

static syn_status show_all(syn_sink *sink, const syn_tokenizer *tok, const char *const *texts,
                           size_t n, syn_error *err) {
    char *data = NULL;
    size_t bytes = 0;
    if (args.input) SYN_TRY(syn_read_file(args.input, MAX_INPUT_BYTES, &data, &bytes, err));
    const char *const whole[] = {data};
    syn_status status = SYN_OK;
    if (args.decode) status = decode_all(sink, tok, args.input ? whole : texts, n, err);
    else if (args.input) status = show_tokens(sink, tok, data, bytes, err);
    for (size_t i = 0; status == SYN_OK && !args.input && !args.decode && i < n; i++) {
        if (sink && i > 0) cli_json_next(sink, &program);
        status = show_tokens(sink, tok, texts[i], strlen(texts[i]), err);
    }
    syn_free(data);
    return status;
}

static syn_status run(const char *const *texts, size_t n, syn_error *err) {
    syn_tokenizer *tok = NULL;
    syn_sink *sink = NULL;
    SYN_TRY(strcmp(args.tokenizer, "bytes") == 0 ? syn_tokenizer_open_bytes(&tok, err)
                                                 : syn_tokenizer_load(&tok, args.tokenizer, err));
    syn_status status = args.json ? cli_json_open(&sink, &program, err) : SYN_OK;
    if (status == SYN_OK) status = show_all(sink, tok, texts, n, err);
    status = cli_json_close(sink, status, err);
    syn_tokenizer_free(tok);
    return status;
}

int command_tokenize(int argc, char **argv) {
    syn_error err = {0};
    const char *const *texts;
    size_t n;
    const int code = cli_parse_inputs(&program, argc, argv, &args.input, "a text is", &texts, &n);
    if (code != CLI_RUN) return code;
    if (!args.tokenizer)
        return cli_fail(&program, CLI_USAGE, "--tokenizer DIR is needed (--help explains)");
    if (args.decode && args.plain)
        return cli_fail(&program, CLI_USAGE, "--plain has no effect with --decode; omit one");
    return cli_done(&program, run(texts, n, &err), &err);
}
