/* Writes the header and the data of .npy files. */
#include "tools/inference/npy.h"

#include <stdio.h>
#include <string.h>

#include "syntorch/base/types.h"

enum { PUT_ELEMS = 4096 };

syn_status npy_open(syn_sink **out, const char *path, const int64_t *dims, int n_dims,
                    syn_error *err) {
    char shape[SYN_MAX_RANK * 24] = "", text[64 + sizeof shape];
    int n = 0;
    for (int i = 0; i < n_dims; i++)
        n += snprintf(shape + n, sizeof shape - (size_t)n, i ? ", %lld" : "%lld",
                      (long long)dims[i]);
    n = snprintf(text, sizeof text, "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }",
                 shape);
    /* The header consists of the magic (6 bytes), the version (2), the length of the text (2) and
       the text, which is padded with spaces and a newline so that the header's size is a multiple
       of 64 bytes. */
    const int total = (10 + n + 1 + 63) / 64 * 64;
    const unsigned char length[2] = {(unsigned char)((total - 10) & 0xff),
                                     (unsigned char)((total - 10) >> 8)};
    SYN_TRY(syn_sink_open_file(out, path, err));
    syn_sink_write(*out, "\x93NUMPY\x01\x00", 8);
    syn_sink_write(*out, length, sizeof length);
    syn_sink_printf(*out, "%s%*s\n", text, total - 11 - n, "");
    return SYN_OK;
}

void npy_put(syn_sink *file, const float *data, size_t n) {
    unsigned char le[PUT_ELEMS][4];
    for (size_t done = 0; done < n; done += PUT_ELEMS) {
        const size_t some = n - done < PUT_ELEMS ? n - done : PUT_ELEMS;
        for (size_t i = 0; i < some; i++) {
            uint32_t bits;
            memcpy(&bits, &data[done + i], sizeof bits);
            for (int k = 0; k < 4; k++) le[i][k] = (unsigned char)(bits >> 8 * k);
        }
        syn_sink_write(file, le, some * sizeof le[0]);
    }
}

syn_status npy_write_f32(const char *path, const float *data, int64_t rows, int64_t columns,
                         syn_error *err) {
    syn_sink *file;
    SYN_TRY(npy_open(&file, path, (const int64_t[]){rows, columns}, 2, err));
    npy_put(file, data, (size_t)(rows * columns));
    return syn_sink_close(file, true, err);
}
