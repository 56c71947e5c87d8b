/* Writes NumPy's .npy files (format 1.0, numpy.lib.format). */
#ifndef TOOLS_NPY_H
#define TOOLS_NPY_H

#include "syntorch/base/sink.h"

/* Begins a file of float32 values in row-major order. It has n_dims dimensions (at most
   SYN_MAX_RANK), whose sizes are in dims. The caller then writes all elements with npy_put and
   closes the file with syn_sink_close. */
syn_status npy_open(syn_sink **out, const char *path, const int64_t *dims, int n_dims,
                    syn_error *err) SYN_MUST_USE;
void npy_put(syn_sink *file, const float *data, size_t n);
/* Writes a whole file: data of shape (rows, columns). */
syn_status npy_write_f32(const char *path, const float *data, int64_t rows, int64_t columns,
                         syn_error *err) SYN_MUST_USE;

#endif
