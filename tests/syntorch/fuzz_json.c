/* Fuzz target for the JSON reader. It reads arbitrary bytes token by token until the end or an
   error. The first byte selects whether some values are skipped instead of read. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "syntorch/base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const unsigned skip_every = size > 0 ? data[0] % 5u : 0;
    syn_error err = {0};
    syn_json json;
    syn_json_init(&json, "fuzz", (const char *)data, size, &err);
    syn_json_type type;
    for (unsigned n = 1; (type = syn_json_next(&json)) > SYN_JSON_END; n++) {
        const bool has_text =
            type == SYN_JSON_KEY || type == SYN_JSON_STRING || type == SYN_JSON_NUMBER;
        if (has_text && json.text[json.text_bytes] != '\0') abort();
        if (json.depth < 0 || json.depth > SYN_JSON_DEPTH) abort();
        if (skip_every > 1 && n % skip_every == 0 && !syn_json_skip(&json)) break;
        if (n % 1000 == 999) (void)syn_json_fail(&json, "token %u", n);
    }
    /* Reading must end in success, or in an error that has a message. */
    if ((type == SYN_JSON_END) != (err.code == SYN_OK)) abort();
    if (err.code != SYN_OK && strlen(err.text) == 0) abort();
    syn_json_free(&json);
    return 0;
}
