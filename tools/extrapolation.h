/* Collects the ops of a run whose sizes are outside the ranges that the constants of the prediction
   were fitted to, and describes these ops in one line. */
#ifndef TOOLS_EXTRAPOLATION_H
#define TOOLS_EXTRAPOLATION_H

#include <stdio.h>

#include "syntorch/hardware/hardware.h"

enum { EXTRAPOLATION_MAX = 12 };

typedef struct extrapolation {
    struct extrapolated {
        /* Of all ops of the same kind that are outside the same range, the op farthest from it. */
        syn_hw_extrapolation worst;
        double ns;     /* total time of these ops, in ns */
        bool measured; /* the range is the range of sizes at which kernels were measured, not of a
                          fit */
    } at[EXTRAPOLATION_MAX];
    int n;     /* number of entries */
    double ns; /* total time of all nodes, in ns */
} extrapolation;

/* Adds a node with its predicted time. */
void extrapolation_add(extrapolation *e, const syn_hardware *hw, const syn_node *node,
                       const syn_graph_group *group, double ns);
/* Adds those entries of `from` that extrapolation_text would report. */
void extrapolation_merge(extrapolation *e, const extrapolation *from);
/* Writes "all-reduce over 512 ranks (fitted for 2 to 128), ...", or "" if nothing is out of range;
   returns buf. Numbers of ranks and nodes that are out of range are always reported; sizes are
   reported if their ops take at least 1 % of the total time. */
const char *extrapolation_text(const extrapolation *e, char *buf, size_t bytes);
/* The same as a JSON list of strings. */
void extrapolation_json(const extrapolation *e, syn_sink *out);
/* Prints the line "extrapolated: ...", or nothing. */
void extrapolation_print(const extrapolation *e, FILE *out);

#endif
