/* Memory for kernel tests: rows that begin right after, or end right before, a page that nobody may
   touch, so that a read or write one element outside ends the test. */
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

/* Room for n floats at one end; all of the memory is filled with a NaN of its own first. */
float *guarded_floats(const guarded *g, int64_t n, bool at_end);

/* Rows of random numbers in [-width, width], `stride` apart, NaN between them. */
const float *guarded_rows(const guarded *g, int64_t rows, int64_t depth, int64_t stride,
                          bool at_end, double width);

/* True if nothing but those n floats was written. */
bool guarded_untouched(const guarded *g, const float *floats, int64_t n);

#endif
