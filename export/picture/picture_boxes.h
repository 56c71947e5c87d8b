/* Divides a step of a PyTorch trace into boxes: consecutive ops of the same user ranges and
   modules. The graph of modules is made of them. */
#ifndef EXPORT_PICTURE_BOXES_H
#define EXPORT_PICTURE_BOXES_H

#include "export/picture/picture_time.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__BOX_NONE UINT32_MAX

enum { SYN__BOX_PATH_BYTES = 512, SYN__BOX_RANGES = 512, SYN__BOX_NAMES = 32 };

/* Parts of a pass (forward and backward of a microbatch). REST: gradients and everything after
   them, such as the optimizer. */
enum { SYN__BOX_FORWARD, SYN__BOX_BACKWARD, SYN__BOX_REST, SYN__BOX_PARTS };

typedef struct syn__box {
    char path[SYN__BOX_PATH_BYTES]; /* "forward/Net_0/Linear_0"; for a communication its kind */
    uint32_t thread;                /* lane (timeline_tracks.h); SYN__BOX_NONE: a communication */
    uint32_t node;                  /* node of a communication, otherwise the first op's */
    uint32_t section;               /* SYN__BOX_PARTS * pass + part */
    bool closed; /* a communication waits for this box, so following ops, which may overlap it,
                    start a new box */
    double host_ns, device_ns, ns[SYN_CATEGORY_COUNT];
    uint32_t n_ops, n_kernels, last_top;
    uint64_t flops;
    struct {
        char name[48];
        uint32_t count;
        double ns;         /* device time if there is any, otherwise host time */
    } ops[SYN__BOX_NAMES]; /* outermost ops by name; count 0: end */
    uint32_t n_other;
} syn__box;

typedef struct syn__boxes {
    const syn_graph *graph;
    syn__pic_times *times;
    uint32_t rank_index, window;
    uint32_t *slice_of;   /* per node: its slice; UINT32_MAX: none in the window */
    uint32_t *box_of;     /* per node: its box, or SYN__BOX_NONE */
    uint32_t *top_of;     /* per slice of a host thread: the outermost op around it */
    uint32_t *range_of;   /* per slice: the innermost user range around it */
    uint32_t *section_of; /* per slice that is its own top_of: its section in the step */
    uint32_t *named_by;   /* per slice that is its own top_of: the first slice below it that names a
                             module */
    uint32_t ranges[SYN__BOX_RANGES];
    uint32_t n_ranges;
    syn__box *at;
    size_t n, cap;
    int levels; /* number of levels of paths to keep */
    bool cut;   /* the step has more boxes than a picture allows */
    syn_error *err;
} syn__boxes;

/* Computes the boxes of one step: of the steps that are alike most often, one. The caller sets
   graph, times (of that graph), rank_index and err. Each box only depends on earlier ones. */
syn_status syn__boxes_make(syn__boxes *b) SYN_MUST_USE;
/* Fills section_of; needs all other per-slice data (picture_box_sections.c). */
syn_status syn__boxes_sections(syn__boxes *b) SYN_MUST_USE;
void syn__boxes_free(syn__boxes *b);

#ifdef __cplusplus
}
#endif
#endif
