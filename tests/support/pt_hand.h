/* Builds the ops of a rank, as read from PyTorch traces, from rows that a test contains. Times are
   in nanoseconds. */
#ifndef TESTS_PT_HAND_H
#define TESTS_PT_HAND_H

#include "export/pytorch/rank/pt_rank.h"
#include "syntorch/base/memory.h"

#define HAND_MAX 64
#define HOST     SYN_PYTORCH_OP_HOST
#define KERNEL   SYN_PYTORCH_OP_KERNEL
#define US       *1000

/* An op of the rank. start, wall: begin and duration. */
typedef struct hand_op {
    const char *name;
    syn_pytorch_op_kind kind;
    uint32_t track;
    int64_t start, wall;
    /* Dependencies as "3L 4S": index of the op and first letter of the class; Y: sync. */
    const char *deps;
    int parent;       /* index of the parent op + 1; 0: none */
    int64_t self;     /* exclusive time; 0: the same as wall */
    int comm;         /* index of the communication + 1; 0: none */
    const char *text; /* JSON text of the host node or the event */
    int64_t launched; /* start of the launching call; 0: unknown */
    int64_t launch_wall;
} hand_op;

typedef struct hand {
    syn__pt_rank rank;
    syn__pt_op ops[HAND_MAX];
    syn__pt_track tracks[8];
    syn__pt_host_node nodes[HAND_MAX];
    syn__pt_event events[2 * HAND_MAX];
    syn__pt_dep deps[HAND_MAX * 8];
    uint32_t first_dep[HAND_MAX + 1], order[HAND_MAX];
    char texts[1 << 15]; /* copies of the texts, with the padding that the JSON reader needs */
    size_t n_texts;
} hand;

/* Fills *h from n rows, in their order. Tracks 0 and 1 are threads; tracks 2, 3, ... are streams 7,
   8, ... */
void hand_make(hand *h, const hand_op *rows, size_t n);

void hand_free(hand *h);

#endif
