/* Draws a graph to memory and checks the drawing. Shared by the tests of pictures. */
#ifndef TESTS_PICTURE_CHECK_H
#define TESTS_PICTURE_CHECK_H

#include "export/picture/picture.h"
#include "tests/support/gpt_graph.h"
#include "tests/support/picture_graphs.h"

typedef struct drawn {
    syn_graph *graph;
    syn__pic_drawing d;
    syn_error err;
} drawn;

/* Draws a graph and takes ownership of it. Returns false on failure. Call drop to free the drawing
   and the graph. */
bool draw(drawn *x, syn_graph *graph, const syn_export_options *options);
void drop(drawn *x);

/* The number of boxes with a look, not counting the legend's, and the number of those whose label
   contains `part`. */
int count_look(const syn__pic_drawing *d, int look);
int count_label(const syn__pic_drawing *d, int look, const char *part);

/* Checks that a picture is readable: nothing overlaps, is outside its frame or is missing. Edges
   must touch their own boxes and cross no other box. */
void check_geometry(syn_graph *graph, syn_export_options options);

#endif
