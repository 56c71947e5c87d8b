/* Texts of the inference program: printed, in JSON, and as they come. */
#ifndef TOOLS_INFERENCE_TEXT_H
#define TOOLS_INFERENCE_TEXT_H

#include "tools/inference/inference.h"

/* The text of the ids, to be freed with syn_free; without those behind a tokenizer's vocabulary,
   which HuggingFace leaves out, too. False if there is no tokenizer, or a byte is none. */
bool inference_text_of(const inference *run, const int32_t *ids, int64_t n, char **text,
                       size_t *bytes);
/* Prints `what` and the text of the ids, or the ids where it is not known: of either at most some,
   and how many there are; or all of them. */
void inference_print_text(const inference *run, const char *what, const int32_t *ids, int64_t n,
                          bool all);
/* The text as a JSON string; null where it is not known. What is no UTF-8 becomes U+FFFD, as
   HuggingFace's decode has it. */
void inference_json_text(const inference *run, const int32_t *ids, int64_t n, syn_sink *out);

/* One text that is printed while its ids come: on a terminal, where nothing else is printed
   meanwhile. */
typedef struct text_stream {
    const inference *run; /* NULL: nothing is printed early */
    size_t printed;       /* bytes of the text */
} text_stream;
/* Whether the text is to come so. */
bool streams_text(const inference *run);
void text_stream_begin(text_stream *stream, const inference *run, const char *what);
/* Prints what of the ids' text is certain and new. */
void text_stream_add(text_stream *stream, const int32_t *ids, int64_t n);
/* Prints the rest, and ends the line; ids NULL: after a failure. */
void text_stream_end(text_stream *stream, const int32_t *ids, int64_t n);

#endif
