/* Draws a graph into memory, for the tests of pictures. */
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

/* False if it cannot be drawn. The graph goes with the drawing. */
bool draw(drawn *x, syn_graph *graph, const syn_export_options *options);
void drop(drawn *x);

/* Boxes that look so (without the legend's), and that have this in their label. */
int count_look(const syn__pic_drawing *d, int look);
int count_label(const syn__pic_drawing *d, int look, const char *part);

/* What makes a picture readable: nothing overlaps, lies outside its frame or gets lost; edges touch
   their boxes and run through no other. */
void check_geometry(syn_graph *graph, syn_export_options options);

#endif
