/* Converts token ids to text and outputs them: as printed lines, in JSON, and streamed during
   generation. */
#ifndef TOOLS_INFERENCE_TEXT_H
#define TOOLS_INFERENCE_TEXT_H

#include "tools/inference/inference.h"

/* Decodes ids. Free the text with syn_free. Ids outside the tokenizer's vocabulary are omitted, as
   in HuggingFace. Returns false if there is no tokenizer, or if the tokenizer is the byte tokenizer
   and an id is not a byte. */
bool inference_text_of(const inference *run, const int32_t *ids, int64_t n, char **text,
                       size_t *bytes);
/* Prints `what` and the text of the ids, or the ids if they cannot be decoded. Long output is
   truncated unless `all`. */
void inference_print_text(const inference *run, const char *what, const int32_t *ids, int64_t n,
                          bool all);
/* Writes the text as a JSON string, or null if the ids cannot be decoded. Invalid UTF-8 becomes
   U+FFFD, as in HuggingFace's decode. */
void inference_json_text(const inference *run, const int32_t *ids, int64_t n, syn_sink *out);

/* Streams one text to a terminal while it is generated. Nothing else may be printed meanwhile. */
typedef struct text_stream {
    const inference *run; /* NULL: not streaming */
    size_t printed;       /* bytes printed so far */
} text_stream;
/* Whether this run streams its text. */
bool streams_text(const inference *run);
void text_stream_begin(text_stream *stream, const inference *run, const char *what);
/* Prints the part of the text that is new and that further ids cannot change. */
void text_stream_add(text_stream *stream, const int32_t *ids, int64_t n);
/* Prints the rest and ends the line. ids NULL: the run failed; only ends the line. */
void text_stream_end(text_stream *stream, const int32_t *ids, int64_t n);

#endif
