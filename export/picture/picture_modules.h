/* Converts a PyTorch trace to a graph of its user ranges and modules. */
#ifndef EXPORT_PICTURE_MODULES_H
#define EXPORT_PICTURE_MODULES_H

#include "export/picture/picture_draw.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Uses one step of the rank, which is chosen from the largest group of equal steps. *out has about
   160 nodes at most. Times are device times or, in a trace without device work, host times; the two
   are never mixed. The caller frees *out and `names`, which is scratch memory. */
syn_status syn__pic_modules(syn_graph **out, const syn_graph *graph, uint32_t rank_index,
                            syn__pic_drawing *names, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
