/* What an exporter writes, in memory, and graphs that are read from there. A failure ends the
   program, but for those that return a status. */
#ifndef TESTS_EXPORTED_H
#define TESTS_EXPORTED_H

#include <stdlib.h>
#include <string.h>

#include "export/export.h"

/* Ended by a NUL, for free(). */
char *export_bytes(const syn_exporter *exporter, const syn_graph *graph,
                   const syn_export_options *options, size_t *bytes);
/* The same of text. */
char *export_text(const syn_exporter *exporter, const syn_graph *graph,
                  const syn_export_options *options);

/* The graph of a node-link JSON text named g.json, of an execution trace named x.et. */
syn_graph *read_json(const char *text);
syn_graph *read_et(const char *data, size_t bytes);

/* test_without_memory of that, and of read_json of a text. */
uint64_t export_without_memory(const syn_exporter *exporter, const syn_graph *graph,
                               const syn_export_options *options);
uint64_t read_json_without_memory(const char *text);

/* Writes into memory and forgets it. */
syn_status export_forget(const syn_exporter *exporter, const syn_graph *graph,
                         const syn_export_options *options, syn_error *err);

/* Puts what it writes into $SYN_TEST_OUT. */
syn_status export_save(const syn_exporter *exporter, const syn_graph *graph, const char *name,
                       syn_error *err);

#endif
