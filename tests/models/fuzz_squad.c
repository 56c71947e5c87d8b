/* Fuzz target for SQuAD files. An input must either be rejected with a message, or have questions
   in UTF-8 that become sequences and batches of the requested size. */
#include "models/training/batches.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"
#include "syntorch/base/utf8.h"

#define REQUIRE(cond) ((cond) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TOKENS = 6 };

static void check_text(const char *text, size_t bytes) {
    REQUIRE(text[bytes] == '\0' && syn_utf8_valid(text, bytes));
}

static void check_batch(const syn_texts *texts, int64_t which) {
    int32_t ids[TOKENS], labels[TOKENS], types[TOKENS];
    float mask[TOKENS];
    const syn_batch out = {ids, labels, types, mask};
    int64_t said, count;
    for (int kind = 0; kind < 3; kind++) {
        const syn_batch_options how = {.tokens = TOKENS,
                                       .mask = 1,
                                       .vocab = 256,
                                       .causal = kind > 0,
                                       .predict_padding = kind > 1};
        said = syn_batch_fill(&out, texts, &which, 1, &how);
        count = 0;
        for (int t = 0; t < TOKENS; t++) {
            count += labels[t] != SYN_IGNORED_TARGET;
            REQUIRE(ids[t] >= 0 && ids[t] < 256 && (types[t] == 0 || types[t] == 1));
            REQUIRE(mask[t] == 0 || isinf(mask[t]));
        }
        REQUIRE(said == count);
    }
}

static void check_texts(const syn_squad *squad) {
    static syn_tokenizer *bytes;
    static syn_workers *workers;
    const syn_texts_options how = {SYN_TEXTS_PLAIN, TOKENS};
    syn_texts *texts = NULL;
    syn_error err = {0};
    if (!bytes) REQUIRE(syn_tokenizer_open_bytes(&bytes, &err) == SYN_OK);
    if (!workers) REQUIRE(syn_workers_new(&workers, 1, &err) == SYN_OK);
    REQUIRE(syn_texts_new(&texts, squad, bytes, &how, workers, &err) == SYN_OK);
    REQUIRE((size_t)syn_texts_count(texts) == syn_squad_count(squad));
    for (int64_t i = 0; i < syn_texts_count(texts); i++) {
        const syn_text text = syn_texts_get(texts, i);
        REQUIRE(text.n > 0 && text.n <= TOKENS && text.first == text.n);
        check_batch(texts, i);
    }
    syn_texts_free(texts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    syn_error err = {0};
    syn_squad *squad = NULL;
    const syn_status status = syn_squad_parse(&squad, "in.json", (const char *)data, size, &err);
    REQUIRE((status == SYN_OK) == (squad != NULL) && status == err.code);
    if (!squad) {
        REQUIRE(status == SYN_E_FORMAT && strncmp(err.text, "in.json", 7) == 0);
        REQUIRE(syn_utf8_valid(err.text, strlen(err.text)));
        return 0;
    }
    REQUIRE(syn_squad_count(squad) > 0);
    for (size_t i = 0; i < syn_squad_count(squad); i++) {
        const syn_squad_entry entry = syn_squad_get(squad, i);
        check_text(entry.question, entry.question_bytes);
        check_text(entry.context, entry.context_bytes);
    }
    check_texts(squad);
    syn_squad_free(squad);
    return 0;
}
