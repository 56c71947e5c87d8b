/* Converts a drawing to DOT. syn__pic_walk visits the drawing and calls a pen for each element. One
   pen writes text, another builds a graph with cgraph. */
#ifndef EXPORT_PICTURE_DOT_H
#define EXPORT_PICTURE_DOT_H

#include "export/picture/picture_draw.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__dot_attr {
    const char *name;
    const char *value; /* without quotes */
    bool html;
} syn__dot_attr;

/* The methods of a pen. Names and values are valid until the call returns. `open` begins a cluster
   and `close` ends it; clusters may nest. */
typedef struct syn__dot_pen {
    void *self;
    void (*graph)(void *self, const syn__dot_attr *attrs, size_t n);
    void (*node_defaults)(void *self, const syn__dot_attr *attrs, size_t n);
    void (*edge_defaults)(void *self, const syn__dot_attr *attrs, size_t n);
    void (*open)(void *self, const char *cluster, const syn__dot_attr *attrs, size_t n);
    void (*close)(void *self);
    void (*node)(void *self, const char *id, const syn__dot_attr *attrs, size_t n);
    void (*edge)(void *self, const char *from, const char *to, const syn__dot_attr *attrs,
                 size_t n);
} syn__dot_pen;

syn_status syn__pic_walk(const syn__pic_drawing *d, const syn__dot_pen *pen,
                         syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
