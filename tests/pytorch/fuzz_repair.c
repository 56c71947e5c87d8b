/* Fuzz target: repair of damaged traces (pt_repair.h). Checks that its output is valid JSON, and
   that it does not change valid JSON, including its own output. The first byte of the input selects
   which JSON object of the file is repaired. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "export/pytorch/read/pt_repair.h"
#include "syntorch/base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* 1: valid; 0: invalid; -1: it exceeds the strict reader's limits for depth or size. */
static int is_valid(const char *text, size_t bytes) {
    syn_error err = {0};
    syn_json json;
    syn_json_init(&json, "out", text, bytes, &err);
    while (syn_json_next(&json) > SYN_JSON_END) {
    }
    syn_json_free(&json);
    if (err.code == SYN_OK) return 1;
    return strstr(err.text, " deep") != NULL || strstr(err.text, "too large") != NULL ? -1 : 0;
}

static syn_sink *repair(const char *text, size_t bytes, syn_pytorch_object object,
                        syn__pt_repaired *repaired) {
    syn_error err = {0};
    syn__file_text input;
    syn_sink *sink = NULL;
    if (syn__file_text_memory(&input, "fuzz", text, bytes, &err) != SYN_OK) return NULL;
    syn_status status = syn_sink_open_memory(&sink, &err);
    if (status == SYN_OK) status = syn__pt_repair(repaired, &input, object, sink, &err);
    syn__file_text_close(&input);
    if (status == SYN_OK) return sink;
    if (err.text[0] == '\0') abort();
    if (syn_sink_close(sink, false, &err) != SYN_OK) return NULL;
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const syn_pytorch_object objects[] = {{SYN_PYTORCH_LAST_OBJECT, 0},
                                                 {SYN_PYTORCH_ALL_OBJECTS, 0},
                                                 {SYN_PYTORCH_ONE_OBJECT, 0},
                                                 {SYN_PYTORCH_ONE_OBJECT, 1}};
    if (size == 0) return 0;
    const char *text = (const char *)data + 1;
    syn__pt_repaired first, again;
    syn_error err = {0};
    size_t bytes = 0, more = 0;
    syn_sink *once = repair(text, size - 1, objects[data[0] & 3], &first);
    if (once == NULL) return 0;
    const char *out = syn_sink_data(once, &bytes);
    if (out == NULL || is_valid(out, bytes) == 0) abort();
    const bool object = out[strspn(out, " \t\r\n")] == '{';
    if (object && is_valid(text, size - 1) == 1 &&
        (bytes != size - 1 || memcmp(out, text, bytes) != 0))
        abort();
    /* Only an object is repaired again. Repair takes a list that does not begin with an object for
       a line of a log. */
    syn_sink *twice = object ? repair(out, bytes, (syn_pytorch_object){0}, &again) : NULL;
    if (twice != NULL) {
        const char *same = syn_sink_data(twice, &more);
        if (same == NULL || more != bytes || memcmp(same, out, bytes) != 0) abort();
        for (int i = 0; i < SYN__FIX_KINDS; i++)
            if (again.notes[i].count != 0) abort();
        if (syn_sink_close(twice, true, &err) != SYN_OK) abort();
    } else if (object) {
        abort();
    }
    if (syn_sink_close(once, true, &err) != SYN_OK) abort();
    return 0;
}
