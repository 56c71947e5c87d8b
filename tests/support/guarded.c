/* Implements guarded.h with pages that mprotect makes inaccessible. */
#include "tests/support/guarded.h"

#include "tests/support/ops_reference.h"

guarded guarded_new(size_t bytes) {
    guarded g = {NULL, 0, (size_t)sysconf(_SC_PAGESIZE)};
    g.inner_bytes = (bytes + g.page_bytes - 1) / g.page_bytes * g.page_bytes;
    g.map = mmap(NULL, g.inner_bytes + 2 * g.page_bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (g.map == MAP_FAILED || mprotect(g.map, g.page_bytes, PROT_NONE) != 0 ||
        mprotect(g.map + g.page_bytes + g.inner_bytes, g.page_bytes, PROT_NONE) != 0)
        abort();
    return g;
}

void guarded_free(guarded *g) {
    munmap(g->map, g->inner_bytes + 2 * g->page_bytes);
}

float *guarded_floats(const guarded *g, int64_t n, bool at_end) {
    memset(g->map + g->page_bytes, 0xff, g->inner_bytes);
    char *begin = g->map + g->page_bytes;
    return (float *)(void *)(at_end ? begin + g->inner_bytes - (size_t)n * sizeof(float) : begin);
}

const float *guarded_rows(const guarded *g, int64_t rows, int64_t depth, int64_t stride,
                          bool at_end, double width) {
    float *x = guarded_floats(g, rows ? (rows - 1) * stride + depth : 0, at_end);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t d = 0; d < depth; d++) x[r * stride + d] = (float)ref_real(-width, width);
    return x;
}

bool guarded_untouched(const guarded *g, const float *floats, int64_t n) {
    const unsigned char *at = (const unsigned char *)g->map + g->page_bytes,
                        *end = at + g->inner_bytes;
    const unsigned char *from = (const unsigned char *)floats,
                        *to = from + (size_t)n * sizeof(float);
    for (; at < end; at++)
        if ((at < from || at >= to) && *at != 0xff) return false;
    return true;
}
