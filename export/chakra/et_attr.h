/* Attributes of execution traces as attributes of a syn_graph, and back.

   A graph that came from an execution trace is *verbatim*: its metadata has "et.version"
   (GlobalMetadata's version), and every node's attributes are the file's own, in its order. Writing
   it gives ids, names, times, dependencies and attributes back as they are: nothing is contracted,
   chained or clamped a second time. All other graphs are planned: see syn__et_plan.

   Attributes of a verbatim graph keep their protobuf type. Integers are int64, numbers double,
   texts string, except for the few names with a fixed type of their own; any other type is added to
   the name: "rf_id@uint32_val". Lists are JSON arrays as text ("ranks@int32_list"), bytes base64.
   Names that begin with '@' are the message's other fields:
   @name, @type, @start_time_micros, @duration_micros (where the graph's own fields cannot hold
   them), @inputs, @inputs.values, ..., and @doc, the doc_string of the attribute before it. In the
   graph's metadata "name@doc" is name's doc_string, "name@rank3" rank 3's value where it differs
   from the first rank's, and "et.groups" says that the file lists its rank's groups (attributes
   "pg.<id>" with doc_string = name and int32_list = ranks). */
#ifndef EXPORT_ET_ATTR_H
#define EXPORT_ET_ATTR_H

#include "export/chakra/wire/et_node.h"
#include "export/text/arena.h"
#include "syntorch/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One ET attribute as one or two (@doc) graph attributes; *n is how many. SYN_E_NOMEM at worst. */
syn_status syn__et_attr_to_graph(const syn__et_attr *attr, syn__arena *arena, syn_attribute out[2],
                                 size_t *n);
/* The way back. Refuses values that do not fit their type. */
syn_status syn__et_attr_from_graph(const syn_attribute *attr, syn__arena *arena, syn__et_attr *out,
                                   syn_error *err);
bool syn__et_parse_u64(const char *text, uint64_t *out);

#ifdef __cplusplus
}
#endif
#endif
