/* Writes NumPy's .npy files (format 1.0, numpy.lib.format). */
#ifndef TOOLS_NPY_H
#define TOOLS_NPY_H

#include "syntorch/base/sink.h"

/* Begins a file of float32 in row-major order with these dimensions (at most SYN_MAX_RANK). Write
   all elements with npy_put, then close it with syn_sink_close. */
syn_status npy_open(syn_sink **out, const char *path, const int64_t *dims, int n_dims,
                    syn_error *err) SYN_MUST_USE;
void npy_put(syn_sink *file, const float *data, size_t n);
/* Writes a whole file: data of shape (rows, columns). */
syn_status npy_write_f32(const char *path, const float *data, int64_t rows, int64_t columns,
                         syn_error *err) SYN_MUST_USE;

#endif
