/* Tests repair (pt_repair.h) when memory runs out. test_repair_tool.py compares the repaired traces
   with Python's JSON decoder. */
#include "export/pytorch/read/pt_repair.h"
#include "tests/support/test.h"

/* Reaches every allocation: several objects, damage within elements, and nested lists. */
static const char text[] = "{\"pid\": 1, \"nodes\": [{\"id\": 1, \"a\": [[[[NaN,]]]]}], \"end\": 2}"
                           "{\"pid\": 2, \"nodes\": [{\"id\": 2, \"a\": \"x\ny\"}, {\"id\": 3";

static syn_status repair(syn_pytorch_object object, char *out, size_t capacity, syn_error *err) {
    syn__pt_repaired repaired;
    syn__file_text input;
    syn_sink *sink = NULL;
    size_t bytes = 0;
    SYN_TRY(syn__file_text_memory(&input, "test", text, sizeof text - 1, err));
    syn_status status = syn_sink_open_memory(&sink, err);
    if (status == SYN_OK) status = syn__pt_repair(&repaired, &input, object, sink, err);
    syn__file_text_close(&input);
    const char *made = status == SYN_OK ? syn_sink_data(sink, &bytes) : NULL;
    if (made != NULL) snprintf(out, capacity, "%s", made);
    const syn_status closed = syn_sink_close(sink, true, err);
    return status != SYN_OK ? status : closed;
}

/* Repairs `text` and compares the result with the expected JSON. all: a bool, whether to keep all
   objects. */
static syn_status repair_it(void *all, syn_error *err) {
    static const char *const want[] = {
        "{\"pid\": 1, \"nodes\": [{\"id\": 1, \"a\": [[[[null]]]]}], \"end\": 2}",
        "{\"pid\": 1, \"nodes\": [{\"id\": 1, \"a\": [[[[null]]]]}, {\"id\": 2, \"a\": "
        "\"x\\u000ay\"}]}"};
    const bool both = *(bool *)all;
    const syn_pytorch_object object = {both ? SYN_PYTORCH_ALL_OBJECTS : SYN_PYTORCH_LAST_OBJECT, 0};
    char out[200] = "";
    SYN_TRY(repair(object, out, sizeof out, err));
    return strcmp(out, want[both]) == 0 ? SYN_OK : SYN_FAIL(err, SYN_E_FORMAT, "%s", out);
}

static void out_of_memory(void) {
    bool last = false, all = true;
    CHECK(test_without_memory(repair_it, &last) > 0);
    CHECK(test_without_memory(repair_it, &all) > 0);
}

static const test_case cases[] = {{"out_of_memory", out_of_memory}};
TEST_MAIN(cases)
