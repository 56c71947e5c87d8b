/* NumPy's .npy files (format 1.0, numpy.lib.format). */
#ifndef TOOLS_NPY_H
#define TOOLS_NPY_H

#include "syntorch/status.h"

/* data (rows, columns), row-major float32. */
syn_status npy_write_f32(const char *path, const float *data, int64_t rows, int64_t columns,
                         syn_error *err) SYN_MUST_USE;

#endif
