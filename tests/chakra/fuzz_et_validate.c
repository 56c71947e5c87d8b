/* Fuzz target for the validator. It must finish with a verdict on any bytes. If the reader accepts
   a file, the validator must not report errors in its framing, ids or order. An input that begins
   with '{' is a group file. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "export/export.h"
#include "export/validate.h"
#include "syntorch/base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_json(const syn_validation *v) {
    syn_error err = {0};
    syn_sink *sink;
    syn_json json;
    size_t bytes;
    if (syn_sink_open_memory(&sink, &err) != SYN_OK) return;
    syn_validation_json(v, sink);
    const char *text = syn_sink_data(sink, &bytes);
    if (text == NULL) abort();
    syn_json_init(&json, "result", text, bytes, &err);
    while (syn_json_next(&json) != SYN_JSON_END)
        if (json.type == SYN_JSON_ERROR) abort();
    syn_json_free(&json);
    (void)syn_sink_close(sink, false, NULL);
}

static void check_result(const syn_validation *v) {
    uint64_t all[2] = {0, 0}, kept = 0;
    for (int kind = 0; kind < SYN_FINDING_KINDS; kind++) {
        const uint64_t n = v->counts[kind];
        all[syn_finding_is_problem((syn_finding_kind)kind)] += n;
        kept += n < SYN_MAX_FINDINGS ? n : SYN_MAX_FINDINGS;
    }
    if (all[0] != v->n_warnings || all[1] != v->n_problems || kept != v->n_findings) abort();
    for (size_t i = 1; i < v->n_findings; i++)
        if (v->findings[i].kind < v->findings[i - 1].kind) abort();
    check_json(v);
}

/* Validates a trace set in which all ranks have the same file. */
static void run(const char *groups, size_t group_bytes, const char *data, size_t size,
                const syn_validate_options *how, uint32_t world, syn_validation *out) {
    syn_error err = {0};
    syn_validator *v;
    if (syn_validator_open(&v, how, world, &err) != SYN_OK) abort();
    if (syn_validator_groups(v, "groups", groups, group_bytes, &err) != SYN_OK) abort();
    for (uint32_t rank = 0; rank < (world == 0 ? 1 : world); rank++)
        if (syn_validator_add(v, world == 0 ? -1 : (int32_t)rank, data, size, &err) != SYN_OK)
            abort();
    if (syn_validator_close(v, out, &err) != SYN_OK) abort();
    check_result(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char groups[] = "{\"1\": [0, 1], \"2\": [1, 0]}";
    static const syn_finding_kind basic[] = {
        SYN_FINDING_FRAME, SYN_FINDING_META, SYN_FINDING_MESSAGE, SYN_FINDING_TEXT,
        SYN_FINDING_ID,    SYN_FINDING_SELF, SYN_FINDING_CYCLE};
    const syn_validate_options any = {.any_node = true}, single = {.single = true}, simulator = {0};
    const char *text = (const char *)data;
    syn_error err = {0};
    syn_validation v;
    syn_graph *g = NULL;
    if (size > 0 && data[0] == '{') {
        run(text, size, "", 0, &simulator, 2, &v);
        syn_validation_free(&v);
        return 0;
    }
    run(groups, sizeof groups - 1, text, size, &simulator, 2, &v);
    syn_validation_free(&v);
    run(groups, sizeof groups - 1, text, size, &any, 2, &v);
    syn_validation_free(&v);
    run(groups, sizeof groups - 1, text, size, &single, 0, &v);
    if (syn_import_et_memory(&g, "fuzz", text, size, &err) == SYN_OK) {
        for (size_t i = 0; i < sizeof basic / sizeof basic[0]; i++)
            if (v.counts[basic[i]] != 0) abort();
        syn_graph_free(g);
    }
    syn_validation_free(&v);
    return 0;
}
