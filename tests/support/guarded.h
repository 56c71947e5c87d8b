/* Memory for kernel tests: rows that begin directly after, or end directly before, an inaccessible
   page, so that an access one element out of bounds crashes the test. */
#ifndef TESTS_GUARDED_H
#define TESTS_GUARDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct guarded {
    char *map;
    size_t inner_bytes, page_bytes;
} guarded;

guarded guarded_new(size_t bytes);

void guarded_free(guarded *g);

/* Space for n floats at one end. Fills the whole memory with a special NaN first. */
float *guarded_floats(const guarded *g, int64_t n, bool at_end);

/* Rows of random numbers in [-width, width], `stride` elements apart, with NaN between them. */
const float *guarded_rows(const guarded *g, int64_t rows, int64_t depth, int64_t stride,
                          bool at_end, double width);

/* Whether nothing was written except these n floats. */
bool guarded_untouched(const guarded *g, const float *floats, int64_t n);

#endif
