/* Divides a step of a PyTorch trace into boxes: runs of consecutive ops within the same user ranges
   and modules. Each box becomes a node of the graph of modules (picture_modules.h). */
#ifndef EXPORT_PICTURE_BOXES_H
#define EXPORT_PICTURE_BOXES_H

#include "export/picture/picture_time.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__BOX_NONE UINT32_MAX

enum { SYN__BOX_PATH_BYTES = 512, SYN__BOX_RANGES = 512, SYN__BOX_NAMES = 32 };

/* Parts of a pass, which is the forward and backward of one microbatch. REST: collectives over
   gradients, and everything after backward, such as the optimizer. */
enum { SYN__BOX_FORWARD, SYN__BOX_BACKWARD, SYN__BOX_REST, SYN__BOX_PARTS };

typedef struct syn__box {
    char path[SYN__BOX_PATH_BYTES]; /* "forward/Net_0/Linear_0"; for a communication, its kind */
    uint32_t thread;                /* lane, that is, thread or stream (timeline_tracks.h);
                                       SYN__BOX_NONE: the box is a communication */
    uint32_t node;                  /* the communication's node, otherwise the node of the first
                                       op */
    uint32_t section;               /* SYN__BOX_PARTS * pass + part */
    bool closed; /* a communication waits for this box; later ops may overlap that communication, so
                    they start a new box */
    double host_ns, device_ns, ns[SYN_CATEGORY_COUNT];
    uint32_t n_ops, n_kernels, last_top;
    uint64_t flops;
    struct {
        char name[48];
        uint32_t count;
        double ns;         /* device time if there is any, otherwise host time; used to rank the
                              names */
    } ops[SYN__BOX_NAMES]; /* calls of outermost ops, by name; count 0: end of the list */
    uint32_t n_other;
} syn__box;

typedef struct syn__boxes {
    const syn_graph *graph;
    syn__pic_times *times;
    uint32_t rank_index, window;
    uint32_t *slice_of;   /* per node: index of its slice (its bar in the timeline); UINT32_MAX: the
                             node is outside of the chosen step */
    uint32_t *box_of;     /* per node: its box, or SYN__BOX_NONE */
    uint32_t *top_of;     /* per slice of a host thread: the outermost op around the slice */
    uint32_t *range_of;   /* per slice: the innermost user range around the slice; UINT32_MAX:
                             none */
    uint32_t *section_of; /* per outermost slice: its section in the step */
    uint32_t *named_by;   /* per outermost slice: the first slice within it that names a module */
    uint32_t ranges[SYN__BOX_RANGES];
    uint32_t n_ranges;
    syn__box *at;
    size_t n, cap;
    int levels; /* number of levels of a path that are used */
    bool cut;   /* the step has more boxes than a picture allows, so some are missing */
    syn_error *err;
} syn__boxes;

/* Computes the boxes of one step, which is chosen from the largest group of equal steps. The caller
   sets graph, times (of that graph), rank_index and err. Each box only depends on earlier boxes. */
syn_status syn__boxes_make(syn__boxes *b) SYN_MUST_USE;
/* Fills section_of. All other arrays per slice must be filled (picture_box_sections.c). */
syn_status syn__boxes_sections(syn__boxes *b) SYN_MUST_USE;
void syn__boxes_free(syn__boxes *b);

#ifdef __cplusplus
}
#endif
#endif
