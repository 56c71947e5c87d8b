/* Writes members of JSON objects; see json_put.h. */
#include "export/text/json_put.h"

void syn__put_text(syn_sink *sink, const char *key, const char *text) {
    syn_sink_text(sink, key);
    syn_sink_json_string(sink, text != NULL ? text : "");
}

void syn__put_i64(syn_sink *sink, const char *key, int64_t value) {
    syn_sink_text(sink, key);
    syn_sink_i64(sink, value);
}

void syn__put_u64(syn_sink *sink, const char *key, uint64_t value) {
    syn_sink_text(sink, key);
    syn_sink_u64(sink, value);
}

void syn__put_us(syn_sink *sink, const char *key, int64_t base_us, int64_t ns) {
    const char fraction[4] = {'.', (char)('0' + ns / 100 % 10), (char)('0' + ns / 10 % 10),
                              (char)('0' + ns % 10)};
    syn__put_i64(sink, key, base_us + ns / 1000);
    syn_sink_write(sink, fraction, sizeof fraction);
}
