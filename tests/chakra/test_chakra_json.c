/* Tests converting an .et file to JSON and back when memory runs out, and detecting which of the
   two formats a file has. test_json_tool.py compares the contents with those of protobuf's own
   JSON. */
#include "tests/support/test.h"

#include "export/chakra/chakra_json.h"
#include "syntorch/base/memory.h"

typedef enum way { TO_JSON, TO_COMPAT, TO_ET } way;

static syn_status convert(way how, const char *data, size_t bytes, syn_sink *out, syn_error *err) {
    syn_chakra_json_stats stats;
    if (how == TO_JSON) return syn_chakra_et_to_json("x", data, bytes, 0, out, &stats, err);
    if (how == TO_COMPAT) return syn_chakra_et_to_json_compat("x", data, bytes, out, &stats, err);
    return syn_chakra_json_to_et("x", data, bytes, -1, out, &stats, err);
}

typedef struct job {
    way how;
    const char *data;
    size_t bytes;
} job;

static syn_status convert_job(void *arg, syn_error *err) {
    const job *j = arg;
    syn_sink *out = NULL;
    SYN_TRY(syn_sink_open_memory(&out, err));
    const syn_status status = convert(j->how, j->data, j->bytes, out, err);
    const syn_status closed = syn_sink_close(out, status == SYN_OK, err);
    return status != SYN_OK ? status : closed;
}

static void sweep(way how, const char *data, size_t bytes) {
    job j = {how, data, bytes};
    CHECK(test_without_memory(convert_job, &j) > 3);
}

/* Metadata with a version, a node whose bytes are canonical, and a node whose lists are not
   packed. */
static const char wire[] = "\7\n\0051.0.0"
                           "\21\10\5\22\1n\30\4*\2\1\2R\4\n\2xy"
                           "\31(\1(\2R\23\n\1a\362\1\r\n\3\303\244z\n\6 \"\\\1yy";

static void conversion_out_of_memory(void) {
    syn_error err = {0};
    syn_sink *json;
    size_t bytes;
    sweep(TO_JSON, wire, sizeof wire - 1);
    sweep(TO_COMPAT, wire, sizeof wire - 1);
    CHECK_OK(syn_sink_open_memory(&json, &err), err);
    CHECK_OK(convert(TO_JSON, wire, sizeof wire - 1, json, &err), err);
    const char *text = syn_sink_data(json, &bytes);
    CHECK_HAS(text, "\"@wire\":\"");
    sweep(TO_ET, text, bytes);
    CHECK_OK(syn_sink_close(json, false, &err), err);
}

static void distinguishes_json_from_et(void) {
    static const struct {
        const char *text;
        bool json;
    } cases[] = {
        {"{\"ranks\":[]}", true},
        {" \r\n\t{ \"ran", true},
        {"{}", true},
        {"[", true},
        {"{", true},
        {"", false},
        {"\7\n\0051.0.0", false},
        {"[\n\1x\"V0123456789012345678901234567890123456789012345678901234567890123456789012"
         "3456789012345",
         false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        CHECK_MSG(syn_chakra_is_json(cases[i].text, strlen(cases[i].text)) == cases[i].json, "%s",
                  cases[i].text);
}

static const test_case cases[] = {
    {"conversion_out_of_memory", conversion_out_of_memory},
    {"distinguishes_json_from_et", distinguishes_json_from_et},
};

TEST_MAIN(cases)
