/* What an exporter writes, in memory. */
#ifndef TESTS_EXPORTED_H
#define TESTS_EXPORTED_H

#include <stdlib.h>
#include <string.h>

#include "export/export.h"

/* Ended by a NUL, for free(); NULL (and err) if it fails. */
char *export_bytes(const syn_exporter *exporter, const syn_graph *graph,
                   const syn_export_options *options, size_t *bytes, syn_error *err);

/* The same of text. */
char *export_text(const syn_exporter *exporter, const syn_graph *graph,
                  const syn_export_options *options, syn_error *err);

/* Writes into memory and forgets it. */
syn_status export_forget(const syn_exporter *exporter, const syn_graph *graph,
                         const syn_export_options *options, syn_error *err);

/* Puts what it writes into $SYN_TEST_OUT. */
syn_status export_save(const syn_exporter *exporter, const syn_graph *graph, const char *name,
                       syn_error *err);

#endif
