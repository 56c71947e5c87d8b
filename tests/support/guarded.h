/* Memory for tests of kernels. Rows begin directly after an inaccessible page or end directly
   before one, so that an access one element out of bounds crashes the test. */
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

/* At least `bytes` bytes, rounded up to whole pages. */
guarded guarded_new(size_t bytes);

void guarded_free(guarded *g);

/* Memory for n floats at the beginning or at the end. The whole memory is first filled with a
   special NaN. */
float *guarded_floats(const guarded *g, int64_t n, bool at_end);

/* `rows` rows of `depth` random numbers in [-width, width]. Rows are `stride` elements apart, with
   NaN between them. */
const float *guarded_rows(const guarded *g, int64_t rows, int64_t depth, int64_t stride,
                          bool at_end, double width);

/* Whether nothing was written outside these n floats. */
bool guarded_untouched(const guarded *g, const float *floats, int64_t n);

#endif
