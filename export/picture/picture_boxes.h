/* Stretches of a recording's step within the same ranges and modules: what the modules' graph is
   made of. */
#ifndef EXPORT_PICTURE_BOXES_H
#define EXPORT_PICTURE_BOXES_H

#include "export/picture/picture_time.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__BOX_NONE UINT32_MAX

enum { SYN__BOX_PATH_BYTES = 512, SYN__BOX_RANGES = 512, SYN__BOX_NAMES = 32 };

/* Of a pass: REST is what is done with the gradients, and what comes after it. */
enum { SYN__BOX_FORWARD, SYN__BOX_BACKWARD, SYN__BOX_REST, SYN__BOX_PARTS };

typedef struct syn__box {
    char path[SYN__BOX_PATH_BYTES]; /* "forward/Net_0/Linear_0"; of a communication its kind */
    uint32_t thread;                /* lane; SYN__BOX_NONE: a communication */
    uint32_t node;                  /* of a communication, else of its first op */
    uint32_t section;               /* SYN__BOX_PARTS times its pass, and the part */
    bool closed; /* a communication waits for it: what follows may run beside that */
    double host_ns, device_ns, ns[SYN_CATEGORY_COUNT];
    uint32_t n_ops, n_kernels, last_top;
    uint64_t flops;
    struct {
        char name[48];
        uint32_t count;
        double ns; /* what the device did for them counts for more than any time of the host */
    } ops[SYN__BOX_NAMES]; /* the outermost calls by name; count 0: no more */
    uint32_t n_other;
} syn__box;

typedef struct syn__boxes {
    const syn_graph *graph;
    syn__pic_times *times;
    uint32_t rank_index, window;
    uint32_t *slice_of;   /* per node: its slice; UINT32_MAX: none in the window */
    uint32_t *box_of;     /* per node; SYN__BOX_NONE: it is in none */
    uint32_t *top_of;     /* per slice of a host thread: the outermost op around it */
    uint32_t *range_of;   /* per slice: the innermost range around it */
    uint32_t *section_of; /* per slice that is a top_of, in the step */
    uint32_t *named_by;   /* per slice that is a top_of: the first below it that tells a module */
    uint32_t ranges[SYN__BOX_RANGES];
    uint32_t n_ranges;
    syn__box *at;
    size_t n, cap;
    int levels; /* of a path that are kept */
    bool cut;   /* the step has more boxes than a picture */
    syn_error *err;
} syn__boxes;

/* Fills `b`, whose graph, times (of that graph), rank_index and err are set, with the boxes of the
   step of which most are alike, in an order in which each waits for earlier ones alone. */
syn_status syn__boxes_make(syn__boxes *b) SYN_MUST_USE;
/* Fills section_of, when all that is per slice is known (picture_box_sections.c). */
syn_status syn__boxes_sections(syn__boxes *b) SYN_MUST_USE;
void syn__boxes_free(syn__boxes *b);

#ifdef __cplusplus
}
#endif
#endif
