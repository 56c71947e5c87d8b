/* Parts of the GraphML writer that do not depend on nodes and edges. */
#ifndef EXPORT_GRAPHML_H
#define EXPORT_GRAPHML_H

#include "export/walk/graph_walk.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes everything before the first node: the declarations of keys and the metadata of the run. */
void syn__graphml_put_header(syn_sink *sink, const syn_graph *graph);
/* Writes the value of an attribute as text. */
void syn__graphml_put_value(syn_sink *sink, const syn_attribute *a);

#ifdef __cplusplus
}
#endif
#endif
