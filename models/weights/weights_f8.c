/* FP8 weights as DeepSeek-V3's checkpoints have them (DeepSeek-AI 2024, "DeepSeek-V3 Technical
   Report", section 3.3): a matrix of F8_E4M3 numbers, and in the tensor NAME_scale_inv a factor for
   each block of 128 x 128 numbers. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/weights/weights_private.h"
#include "syntorch/base/half.h"

#define SCALES "_scale_inv" /* the end of the name of a tensor with scales */

enum { BLOCK = SYN__WEIGHTS_F8_BLOCK, NAME_BYTES = SYN_MAX_NAME + 32 };

static bool has_scales(const syn_safetensors_tensor *t, const syn_safetensors_tensor *scales) {
    return scales && syn__weights_is_float(scales) && t->rank == 2 && scales->rank == 2 &&
           scales->dims[0] == (t->dims[0] + BLOCK - 1) / BLOCK &&
           scales->dims[1] == (t->dims[1] + BLOCK - 1) / BLOCK;
}

const syn_safetensors_tensor *syn__weights_f8_scales(const syn_safetensors *file,
                                                     const syn_safetensors_tensor *t) {
    char name[NAME_BYTES];
    if (strcmp(t->dtype_name, "F8_E4M3") != 0) return NULL;
    if (snprintf(name, sizeof name, "%s" SCALES, t->name) >= NAME_BYTES) return NULL;
    const syn_safetensors_tensor *scales = syn_safetensors_find(file, name);
    return has_scales(t, scales) ? scales : NULL;
}

bool syn__weights_f8_is_scales(const syn_safetensors *file, const syn_safetensors_tensor *t) {
    char name[NAME_BYTES];
    const size_t n = strlen(t->name), end = strlen(SCALES);
    if (n < end || strcmp(t->name + n - end, SCALES) != 0) return false;
    if (snprintf(name, sizeof name, "%.*s", (int)(n - end), t->name) >= NAME_BYTES) return false;
    const syn_safetensors_tensor *matrix = syn_safetensors_find(file, name);
    return matrix && syn__weights_f8_scales(file, matrix) == t;
}

/* 1 sign bit, 4 bits of the exponent with bias 7, 3 bits of the fraction. There is no infinity, and
   only the largest code is NaN (Micikevicius et al. 2022, "FP8 Formats for Deep Learning"). */
static float widen(uint8_t x) {
    const uint32_t bits = (uint32_t)(x & 127) << 20;
    float size;
    memcpy(&size, &bits, sizeof size);
    size *= 0x1p120f; /* the biases are 7 and 127 */
    if ((x & 127) == 127) size = NAN;
    return x & 128 ? -size : size;
}

void syn__weights_f8_convert(const syn_safetensors_tensor *t, const syn_safetensors_tensor *scales,
                             int64_t first, size_t n, syn_dtype to, char *out) {
    const uint8_t *in = t->data;
    const int64_t width = t->dims[1], end = first + (int64_t)n;
    float line[BLOCK], scale;
    for (int64_t at = first; at < end;) {
        const int64_t row = at / width, column = at % width, block = column / BLOCK;
        int64_t some = (block + 1) * BLOCK - column;
        if (some > width - column) some = width - column;
        if (some > end - at) some = end - at;
        syn__weights_widen(scales, row / BLOCK * scales->dims[1] + block, &scale, 1);
        for (int64_t i = 0; i < some; i++) line[i] = widen(in[at + i]) * scale;
        if (to == SYN_F32) memcpy(out, line, (size_t)some * sizeof *line);
        else syn_half_narrow(line, (void *)out, (size_t)some, to);
        out += (size_t)some * syn_dtype_bytes(to);
        at += some;
    }
}
