/* Fuzz target for the readers of execution traces. An accepted input must give a valid graph. If
   the graph is written, read and written again, the bytes must be the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "export/chakra/et_import.h"
#include "export/export.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Verifies the graph, writes it, and frees it. */
static syn_sink *write_et(syn_graph *g) {
    syn_error err = {0};
    syn_sink *sink;
    if (syn_graph_verify(g, &err) != SYN_OK) abort();
    if (syn_export_memory(&sink, g, &syn_export_et, NULL, &err) != SYN_OK) abort();
    syn_graph_free(g);
    return sink;
}

/* Reads the bytes of the sink and writes them again. */
static syn_sink *again(const syn_sink *sink) {
    syn_error err = {0};
    syn_graph *g = NULL;
    size_t bytes;
    const char *data = syn_sink_data(sink, &bytes);
    if (syn_import_et_memory(&g, "again", data, bytes, &err) != SYN_OK) abort();
    return write_et(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    syn_error err = {0};
    syn_graph *g = NULL;
    const char *text = (const char *)data;
    const bool json = size > 0 && data[0] == '{';
    const syn_status status = json ? syn__et_import_chakra(&g, "fuzz", text, size, &err)
                                   : syn_import_et_memory(&g, "fuzz", text, size, &err);
    if (status != SYN_OK) {
        if (g != NULL || err.text[0] == '\0') abort();
        return 0;
    }
    syn_sink *first = write_et(g);
    /* The JSON may contain a rank number outside its nodes, which the first file does not have.
       After the first file, nothing may change. */
    syn_sink *second = json ? again(first) : first;
    syn_sink *third = again(second);
    size_t bytes, bytes_again;
    const char *written = syn_sink_data(second, &bytes);
    const char *rewritten = syn_sink_data(third, &bytes_again);
    if (bytes != bytes_again || memcmp(written, rewritten, bytes) != 0) abort();
    if (json) (void)syn_sink_close(first, false, NULL);
    (void)syn_sink_close(second, false, NULL);
    (void)syn_sink_close(third, false, NULL);
    return 0;
}
