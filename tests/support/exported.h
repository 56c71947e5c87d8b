/* Exports graphs to memory and reads graphs from memory, for tests of the formats. A failure ends
   the program, except in functions that return a status. */
#ifndef TESTS_EXPORTED_H
#define TESTS_EXPORTED_H

#include <stdlib.h>
#include <string.h>

#include "export/export.h"

/* Whether this build supports the format: execution traces need protobuf-c. */
bool can_export(const syn_exporter *exporter);

/* The exporter's output with a NUL at the end. The caller frees it with free(). */
char *export_bytes(const syn_exporter *exporter, const syn_graph *graph,
                   const syn_export_options *options, size_t *bytes);
/* The same for text formats. */
char *export_text(const syn_exporter *exporter, const syn_graph *graph,
                  const syn_export_options *options);

/* Read a node-link JSON text as if it were g.json, and an execution trace as if it were x.et. */
syn_graph *read_json(const char *text);
syn_graph *read_et(const char *data, size_t bytes);

/* Run test_without_memory with export_forget, and with read_json. */
uint64_t export_without_memory(const syn_exporter *exporter, const syn_graph *graph,
                               const syn_export_options *options);
uint64_t read_json_without_memory(const char *text);

/* Exports the text with or without copies. The caller frees it with free(). */
char *export_copies(const syn_exporter *exporter, const syn_graph *graph, syn_copies copies);
/* Exports the graph once per kind of rank with each of the n exporters, and reads its JSON, without
   memory. */
void copies_without_memory(const syn_graph *graph, const syn_exporter *const *exporters, size_t n);

/* Exports to memory and discards the output. */
syn_status export_forget(const syn_exporter *exporter, const syn_graph *graph,
                         const syn_export_options *options, syn_error *err);

/* Exports to the file `name` in the folder $SYN_TEST_OUT. */
syn_status export_save(const syn_exporter *exporter, const syn_graph *graph, const char *name,
                       syn_error *err);

#endif
