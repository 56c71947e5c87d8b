/* Fuzz target: the reader of host traces. Checks that it terminates and that all returned texts lie
   within the file. The first byte of the input selects which JSON object of the file is read. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "export/pytorch/read/pt_host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool cond) {
    if (!cond) abort();
}

static void check_slice(const syn__file_text *input, syn__str s) {
    if (s.bytes == 0) return;
    need(s.text >= input->data && s.text < input->data + input->bytes);
    need(s.bytes <= (size_t)(input->data + input->bytes - s.text));
}

static void check_node(const syn__pt_host *host, const syn__pt_host_node *n) {
    static const char *const names[] = {"rf_id", "tid", "op_schema", "none"};
    const syn__str all = {n->text, n->text_bytes};
    need(all.bytes >= 2 && all.text[0] == '{' && all.text[all.bytes - 1] == '}');
    check_slice(host->input, all);
    need((uint64_t)n->inputs + n->inputs_bytes <= n->text_bytes);
    need((uint64_t)n->outputs + n->outputs_bytes <= n->text_bytes);
    need((uint64_t)n->attrs + n->attrs_bytes <= n->text_bytes);
    need(syn__pt_host_name(host, n->name).text != NULL);
    if (n->has & SYN__PT_HAS_OP_SCHEMA) need(syn__pt_host_name(host, n->op_schema).text != NULL);
    need(n->linked == SYN__PT_NONE || n->linked < host->n_linked);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        check_slice(host->input, syn__pt_attr(n, names[i]));
        check_slice(host->input, syn__loose_find(all, names[i]));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const syn_pytorch_object objects[] = {{SYN_PYTORCH_LAST_OBJECT, 0},
                                                 {SYN_PYTORCH_ALL_OBJECTS, 0},
                                                 {SYN_PYTORCH_ONE_OBJECT, 0},
                                                 {SYN_PYTORCH_ONE_OBJECT, 1}};
    if (size == 0 || size > 1 << 14) return 0;
    syn__file_text input;
    syn_pytorch_note notes[SYN_PYTORCH_ANOMALIES] = {{0}};
    syn_error err = {0};
    syn__pt_host host;
    if (syn__file_text_memory(&input, "fuzz", (const char *)data + 1, size - 1, &err) != SYN_OK)
        return 0;
    const syn_status status = syn__pt_host_read(&host, &input, objects[data[0] & 3], notes, &err);
    if (status == SYN_OK) {
        need(host.n_nodes > 0);
        const syn__str tops[] = {host.document, host.schema,   host.pid,
                                 host.time,     host.start_ts, host.finish_ts};
        for (size_t i = 0; i < sizeof tops / sizeof tops[0]; i++) check_slice(&input, tops[i]);
        for (size_t i = 0; i < host.n_nodes; i++) check_node(&host, &host.nodes[i]);
    } else {
        need(err.text[0] != '\0');
    }
    for (int i = 0; i < SYN_PYTORCH_ANOMALIES; i++)
        need(notes[i].count == 0 || notes[i].at <= input.bytes ||
             notes[i].at == SYN_PYTORCH_NO_PLACE);
    syn__pt_host_free(&host);
    syn__file_text_close(&input);
    return 0;
}
