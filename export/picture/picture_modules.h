/* A recording of PyTorch's as a graph of the ranges and modules that its program named. */
#ifndef EXPORT_PICTURE_MODULES_H
#define EXPORT_PICTURE_MODULES_H

#include "export/picture/picture_draw.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One step of a rank, of those alike that most are; at most some 160 nodes. Times are those of the
   device or, without one, the host's: never of both. The caller frees *out, and `names`, which
   holds scratch. */
syn_status syn__pic_modules(syn_graph **out, const syn_graph *graph, uint32_t rank_index,
                            syn__pic_drawing *names, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
