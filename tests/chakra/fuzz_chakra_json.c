/* Fuzz target for `syntorch json` and text workloads. An .et file that is converted to JSON must
   convert back to the same .et file. JSON must be the same after the opposite round trip. Rejected
   input must give a message. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "export/chakra/chakra_json.h"
#include "export/workload/text_workload.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The converted file; NULL if the input was rejected. */
static syn_sink *convert(const char *data, size_t bytes, bool json) {
    syn_chakra_json_stats stats;
    syn_error err = {0};
    syn_sink *out;
    if (syn_sink_open_memory(&out, &err) != SYN_OK) abort();
    const syn_status status =
        json ? syn_chakra_json_to_et("fuzz", data, bytes, -1, out, &stats, &err)
             : syn_chakra_et_to_json("fuzz", data, bytes, 0, out, &stats, &err);
    if (status == SYN_OK) return out;
    if (err.text[0] == '\0') abort();
    (void)syn_sink_close(out, false, NULL);
    return NULL;
}

static void check_et(const char *data, size_t bytes) {
    size_t json_bytes, again_bytes;
    syn_sink *json = convert(data, bytes, false);
    if (json == NULL) return;
    const char *text = syn_sink_data(json, &json_bytes);
    if (!syn_chakra_is_json(text, json_bytes)) abort();
    syn_sink *again = convert(text, json_bytes, true);
    if (again == NULL) abort();
    const char *back = syn_sink_data(again, &again_bytes);
    if (again_bytes != bytes || memcmp(back, data, bytes) != 0) abort();
    (void)syn_sink_close(json, false, NULL);
    (void)syn_sink_close(again, false, NULL);
}

static void check_compat(const char *data, size_t bytes) {
    syn_chakra_json_stats stats;
    syn_error err = {0};
    syn_sink *out;
    if (syn_sink_open_memory(&out, &err) != SYN_OK) abort();
    const syn_status status = syn_chakra_et_to_json_compat("fuzz", data, bytes, out, &stats, &err);
    if (status != SYN_OK && err.text[0] == '\0') abort();
    (void)syn_sink_close(out, false, NULL);
}

static void check_text(const char *data, size_t bytes) {
    for (int compat = 0; compat < 2; compat++) {
        syn_error err = {0};
        syn_text_workload w;
        if (syn_text_workload_read(&w, "fuzz", data, bytes, compat != 0, &err) != SYN_OK &&
            err.text[0] == '\0')
            abort();
        syn_text_workload_free(&w);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *bytes = (const char *)data;
    size_t et_bytes;
    if (syn_chakra_is_json(bytes, size)) {
        syn_sink *et = convert(bytes, size, true);
        if (et == NULL) return 0;
        const char *file = syn_sink_data(et, &et_bytes);
        check_et(file, et_bytes);
        (void)syn_sink_close(et, false, NULL);
        return 0;
    }
    check_text(bytes, size);
    check_et(bytes, size);
    check_compat(bytes, size);
    return 0;
}
