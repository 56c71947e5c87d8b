/* Draws a graph into memory, for the tests of pictures. */
#ifndef TESTS_PICTURE_CHECK_H
#define TESTS_PICTURE_CHECK_H

#include "tests/support/picture_more.h"

#include "export/picture/picture.h"

typedef struct drawn {
    syn_graph *graph;
    syn__pic_drawing d;
    syn_error err;
} drawn;

bool draw(drawn *x, syn_graph *graph, const syn_export_options *options);

void drop(drawn *x);

syn_graph *gpt(picture_gpt c);

int count_look(const syn__pic_drawing *d, int look);

int count_label(const syn__pic_drawing *d, int look, const char *part);

#endif
