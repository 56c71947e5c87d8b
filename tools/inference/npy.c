#include "tools/inference/npy.h"

#include <stdio.h>
#include <string.h>

#include "syntorch/sink.h"

syn_status npy_write_f32(const char *path, const float *data, int64_t rows, int64_t columns,
                         syn_error *err) {
    char text[128];
    const int n = snprintf(text, sizeof text,
                           "{'descr': '<f4', 'fortran_order': False, 'shape': (%lld, %lld), }",
                           (long long)rows, (long long)columns);
    /* Magic (6), version (2), length (2) and the text, padded with spaces and a newline to a
       multiple of 64. */
    const int total = (10 + n + 1 + 63) / 64 * 64;
    const unsigned char length[2] = {(unsigned char)((total - 10) & 0xff),
                                     (unsigned char)((total - 10) >> 8)};
    syn_sink *sink;
    SYN_TRY(syn_sink_open_file(&sink, path, err));
    syn_sink_write(sink, "\x93NUMPY\x01\x00", 8);
    syn_sink_write(sink, length, sizeof length);
    syn_sink_printf(sink, "%s%*s\n", text, total - 11 - n, "");
    for (int64_t i = 0; i < rows * columns; i++) {
        uint32_t bits;
        memcpy(&bits, &data[i], sizeof bits);
        const unsigned char le[4] = {(unsigned char)bits, (unsigned char)(bits >> 8),
                                     (unsigned char)(bits >> 16), (unsigned char)(bits >> 24)};
        syn_sink_write(sink, le, sizeof le);
    }
    return syn_sink_close(sink, true, err);
}
