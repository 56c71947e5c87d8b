/* Decodes token ids and prints the text, all together or while it is generated. */
#include "tools/inference/inference_text.h"

#include <string.h>
#include <unistd.h>

#include "syntorch/base/memory.h"

/* Maximum size of a printed text, so that a long prompt does not hide the rest of the output. */
enum { SHOWN_BYTES = 300, SHOWN_IDS = 64 };

/* Whether the text contains the id. Ids outside the vocabulary are omitted. With the byte tokenizer
   they are not omitted, so that decoding fails: an id above 255 means that another tokenizer is
   needed. */
static bool is_shown(const inference *run, int32_t id) {
    return syn_tokenizer_kind_of(run->tokenizer) == SYN_TOKENIZER_BYTES ||
           id < syn_tokenizer_vocab_size(run->tokenizer);
}

typedef syn_status decode(const syn_tokenizer *tok, const int32_t *ids, size_t n, char **text,
                          size_t *bytes, syn_error *err);

static bool text_of(const inference *run, decode *how, const int32_t *ids, int64_t n, char **text,
                    size_t *bytes) {
    if (!run->tokenizer) return false;
    int32_t *shown = syn_calloc((size_t)n + 1, sizeof *shown);
    size_t n_shown = 0;
    for (int64_t i = 0; shown && i < n; i++)
        if (is_shown(run, ids[i])) shown[n_shown++] = ids[i];
    const bool known = shown && how(run->tokenizer, shown, n_shown, text, bytes, NULL) == SYN_OK;
    syn_free(shown);
    return known;
}

bool inference_text_of(const inference *run, const int32_t *ids, int64_t n, char **text,
                       size_t *bytes) {
    return text_of(run, syn_tokenizer_decode, ids, n, text, bytes);
}

void inference_print_text(const inference *run, const char *what, const int32_t *ids, int64_t n,
                          bool all) {
    char *text;
    size_t bytes;
    if (!inference_text_of(run, ids, n, &text, &bytes)) {
        const int64_t most = all ? n : SHOWN_IDS;
        printf("%stoken ids", what);
        for (int64_t i = 0; i < n && i < most; i++) printf(" %d", ids[i]);
        printf("%s (--tokenizer DIR prints text)\n", n > most ? " ..." : "");
        return;
    }
    const bool cut = !all && bytes >= SHOWN_BYTES;
    printf("%s\"", what);
    cli_print_escaped(stdout, text, cut ? SHOWN_BYTES : bytes);
    printf(cut ? "\" ... (%zu bytes)\n" : "\"\n", bytes);
    syn_free(text);
}

/* ---- JSON ---- */

void inference_json_text(const inference *run, const int32_t *ids, int64_t n, syn_sink *out) {
    char *text;
    size_t bytes;
    if (!inference_text_of(run, ids, n, &text, &bytes)) {
        syn_sink_text(out, "null");
        return;
    }
    syn_sink_json_text(out, text, bytes);
    syn_free(text);
}

/* ---- Streaming ---- */

/* Text is not streamed over MPI, because a launcher may run ranks on a terminal although their
   output goes elsewhere. */
bool streams_text(const inference *run) {
    const bool bytes =
        run->tokenizer && syn_tokenizer_kind_of(run->tokenizer) == SYN_TOKENIZER_BYTES;
    return run->tokenizer && inference_sequences(run) == 1 && !run->args->json &&
           !run->args->quiet && !run->launch.mpi && run->launch.device != SYN_DEVICE_META &&
           (!bytes || run->config.vocab_size <= syn_tokenizer_vocab_size(run->tokenizer)) &&
           isatty(STDOUT_FILENO);
}

void text_stream_begin(text_stream *stream, const inference *run, const char *what) {
    *stream = (text_stream){run, 0};
    printf("%s\"", what);
    fflush(stdout);
}

static void put_new(text_stream *stream, decode *how, const int32_t *ids, int64_t n) {
    char *text;
    size_t bytes;
    if (!stream->run || !text_of(stream->run, how, ids, n, &text, &bytes)) return;
    if (bytes > stream->printed) {
        cli_print_escaped(stdout, text + stream->printed, bytes - stream->printed);
        fflush(stdout);
        stream->printed = bytes;
    }
    syn_free(text);
}

void text_stream_add(text_stream *stream, const int32_t *ids, int64_t n) {
    put_new(stream, syn_tokenizer_decode_begun, ids, n);
}

void text_stream_end(text_stream *stream, const int32_t *ids, int64_t n) {
    if (!stream->run) return;
    if (ids) put_new(stream, syn_tokenizer_decode, ids, n);
    printf("\"\n");
}
