/* The parts of the GraphML writer. */
#ifndef EXPORT_GRAPHML_H
#define EXPORT_GRAPHML_H

#include "export/walk/graph_walk.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All up to the first node: the declared keys and the facts about the run. */
void syn__graphml_put_header(syn_sink *sink, const syn_graph *graph);
/* An attribute's value as text. */
void syn__graphml_put_value(syn_sink *sink, const syn_attribute *a);

#ifdef __cplusplus
}
#endif
#endif
