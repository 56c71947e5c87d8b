/* Where a prediction goes beyond what the constants of its times were fitted to. */
#ifndef TOOLS_EXTRAPOLATION_H
#define TOOLS_EXTRAPOLATION_H

#include <stdio.h>

#include "syntorch/hardware/hardware.h"

enum { EXTRAPOLATION_MOST = 12 };

typedef struct extrapolation {
    struct extrapolated {
        syn_hw_beyond worst; /* of those alike: the farthest from the range */
        double ns;           /* what all of them take */
        bool measured;       /* the range is of measured kernels */
    } at[EXTRAPOLATION_MOST];
    int n;
    double ns; /* of all nodes */
} extrapolation;

/* Adds a node that takes so long. */
void extrapolation_add(extrapolation *e, const syn_hardware *hw, const syn_node *node,
                       const syn_graph_group *group, double ns);
/* Adds what `from` has to tell. */
void extrapolation_merge(extrapolation *e, const extrapolation *from);
/* "all-reduce over 512 ranks (fitted on 2 to 128), ...", "" if there is nothing to tell; returns
   buf. Ranks and nodes are always told; sizes if they take a hundredth of the time. */
const char *extrapolation_text(const extrapolation *e, char *buf, size_t bytes);
/* The same as a list of texts. */
void extrapolation_json(const extrapolation *e, syn_sink *out);
/* "extrapolated: ..." as a line, or nothing. */
void extrapolation_print(const extrapolation *e, FILE *out);

#endif
