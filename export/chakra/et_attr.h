/* Converts attributes of execution traces to attributes of a syn_graph and back.

   A graph that was read from an execution trace is *verbatim*: its metadata has "et.version"
   (GlobalMetadata's version), and every node has the file's own attributes, in the file's order.
   Writing such a graph reproduces ids, names, times, dependencies and attributes unchanged: no
   nodes are omitted, no ordering dependencies are added, and no costs are raised to a minimum a
   second time. All other graphs are planned: see syn__et_plan.

   Attributes of a verbatim graph keep their protobuf type. By default integers are int64, other
   numbers double and texts string; a few names have another default type. If the type differs from
   this, it is appended to the name: "rf_id@uint32_val". Lists ("ranks@int32_list") are stored as
   the text of JSON arrays, and bytes as base64. Names that begin with '@' hold the message's other
   fields: @name, @type, @start_time_micros and @duration_micros (if the graph's own fields cannot
   hold them), @inputs, @inputs.values, ..., and @doc, the doc_string of the preceding attribute. In
   the graph's metadata, "name@doc" is the doc_string of name, and "name@rank3" is rank 3's value if
   it differs from the first rank's. "et.groups" means that the file lists its rank's groups
   (attributes "pg.<id>" with doc_string = name and int32_list = ranks). */
#ifndef EXPORT_ET_ATTR_H
#define EXPORT_ET_ATTR_H

#include "export/chakra/wire/et_node.h"
#include "export/text/arena.h"
#include "syntorch/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Converts one ET attribute to one or two (@doc) graph attributes; *n is their number. Can only
   fail with SYN_E_NOMEM. */
syn_status syn__et_attr_to_graph(const syn__et_attr *attr, syn__arena *arena, syn_attribute out[2],
                                 size_t *n);
/* Converts a graph attribute to an ET attribute. Fails if a value does not fit its type. */
syn_status syn__et_attr_from_graph(const syn_attribute *attr, syn__arena *arena, syn__et_attr *out,
                                   syn_error *err);
bool syn__et_parse_u64(const char *text, uint64_t *out);

#ifdef __cplusplus
}
#endif
#endif
