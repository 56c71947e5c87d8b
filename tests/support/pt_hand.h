/* A rank's ops made by hand. Times in nanoseconds. */
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
    const char *deps; /* "3L 4S": the op and the first letter of the class; Y: sync */
    int parent;       /* index + 1; 0 none */
    int64_t self;     /* 0: as wall */
    int comm;         /* index + 1 */
    const char *text; /* the host node's JSON, or the event's */
    int64_t launched; /* when the launching call began; 0: not known */
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
    char texts[1 << 15]; /* with the padding that reading needs */
    size_t n_texts;
} hand;

/* Lanes 0 and 1 are threads, 2.. streams 7, 8, ...; the order is the rows'. */
void hand_make(hand *h, const hand_op *rows, size_t n);

void hand_free(hand *h);

#endif
