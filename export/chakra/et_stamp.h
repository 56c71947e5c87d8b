/* Stamps ranks from a file of the set, without building a graph of its nodes. */
#ifndef EXPORT_ET_STAMP_H
#define EXPORT_ET_STAMP_H

#include "export/stamp.h"
#include "export/text/bytes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Like syn_stamp_rank. head: a graph with the rank, the metadata and the groups of the file, but
   without nodes. nodes: the messages of the file's nodes. name: of the file, for errors. */
syn_status syn__stamp_file(syn_stamper *stamper, const syn_graph *head, const char *name,
                           syn__str nodes, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
