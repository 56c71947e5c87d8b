/* A rank's ops built from rows of a test. Times are in nanoseconds. */
#ifndef TESTS_PT_HAND_H
#define TESTS_PT_HAND_H

#include "export/pytorch/rank/pt_rank.h"
#include "syntorch/base/memory.h"

#define HAND_MAX 64
#define HOST     SYN_PYTORCH_OP_HOST
#define KERNEL   SYN_PYTORCH_OP_KERNEL
#define US       *1000

typedef struct hand_op {
    const char *name;
    syn_pytorch_op_kind kind;
    uint32_t lane;
    int64_t start, wall;
    const char *deps; /* "3L 4S": op index and first letter of the class; Y: sync */
    int parent;       /* index + 1; 0: none */
    int64_t self;     /* exclusive time; 0: as wall */
    int comm;         /* index + 1; 0: none */
    const char *text; /* JSON of the host node or the event */
    int64_t launched; /* start of the launching call; 0: unknown */
    int64_t launch_wall;
} hand_op;

typedef struct hand {
    syn__pt_rank rank;
    syn__pt_op ops[HAND_MAX];
    syn__pt_lane lanes[8];
    syn__pt_host_node nodes[HAND_MAX];
    syn__pt_event events[2 * HAND_MAX];
    syn__pt_dep deps[HAND_MAX * 8];
    uint32_t first_dep[HAND_MAX + 1], order[HAND_MAX];
    char texts[1 << 15]; /* with the padding that the reader needs */
    size_t n_texts;
} hand;

/* Lanes 0 and 1 are threads, lanes 2, 3, ... streams 7, 8, ... Ops have the order of the rows. */
void hand_make(hand *h, const hand_op *rows, size_t n);

void hand_free(hand *h);

#endif
