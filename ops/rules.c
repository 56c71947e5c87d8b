/* Helpers that all op_*.c files use: argument checks, scratch memory, byte counts, row
   iteration. */
#include "ops/rules.h"

#include <stdio.h>
#include <string.h>

#include "syntorch/base/half.h"

syn_status syn__bad_input(const syn_call *c, int i, const char *expected) {
    char text[SYN_SPEC_TEXT];
    return SYN_FAIL(c->err, SYN_E_SHAPE, "input %d must be %s, but is %s", i, expected,
                    syn_spec_text(&c->in[i].spec, text, sizeof text));
}

syn_status syn__check_dtype(const syn_call *c, int i, syn_dtype dtype) {
    if (c->in[i].spec.dtype == (int32_t)dtype) return SYN_OK;
    return syn__bad_input(c, i, syn_dtype_name(dtype));
}

syn_status syn__check_float(const syn_call *c, int i) {
    const syn_dtype dtype = (syn_dtype)c->in[i].spec.dtype;
    if (dtype == SYN_F32 || syn_dtype_is_half(dtype)) return SYN_OK;
    return syn__bad_input(c, i, "f32, f16 or bf16");
}

/* Fails unless input i has the dtype of input 0. */
static syn_status want_same(const syn_call *c, int i) {
    char expected[40];
    if (c->in[i].spec.dtype == c->in[0].spec.dtype) return SYN_OK;
    snprintf(expected, sizeof expected, "%s like input 0",
             syn_dtype_name((syn_dtype)c->in[0].spec.dtype));
    return syn__bad_input(c, i, expected);
}

syn_status syn__check_floats(const syn_call *c, int n) {
    SYN_TRY(syn__check_float(c, 0));
    for (int i = 1; i < n; i++) SYN_TRY(want_same(c, i));
    return SYN_OK;
}

syn_status syn__scratch(const syn_call *c, size_t bytes, const char *what, void **out) {
    *out = syn_arena_get(c->arena, bytes);
    return *out ? SYN_OK : SYN_FAIL_NOMEM(c->err, bytes, what);
}

uint64_t syn__input_bytes(const syn_call *c) {
    uint64_t bytes = 0;
    for (int i = 0; i < c->n_in; i++) bytes += syn_spec_bytes(&c->in[i].spec);
    return bytes;
}

uint64_t syn__output_bytes(const syn_call *c) {
    uint64_t bytes = 0;
    for (int i = 0; i < c->n_out; i++) bytes += syn_spec_bytes(&c->out[i].spec);
    return bytes;
}

uint64_t syn__elems(const syn_operand *o) {
    return (uint64_t)syn_spec_elems(&o->spec);
}

bool syn__next_row(syn_row_iter *rows, const syn_spec *shape, const syn_operand *const *operands,
                   int n) {
    if (!rows->started) {
        rows->started = true;
        return syn_spec_elems(shape) > 0;
    }
    for (int d = shape->rank - 2; d >= 0; d--) {
        for (int i = 0; i < n; i++) rows->at[i] += operands[i]->strides[d];
        if (++rows->index[d] < shape->dims[d]) return true;
        for (int i = 0; i < n; i++) rows->at[i] -= operands[i]->strides[d] * shape->dims[d];
        rows->index[d] = 0;
    }
    return false;
}

syn_status syn__check_window(const syn_call *c, int64_t window) {
    const int64_t far = (int64_t)1 << 40, offset = c->attr[2].i;
    if (window == 0 || (window > 0 && c->attr[1].i && offset > -far && offset < far)) return SYN_OK;
    return SYN_FAIL(c->err, SYN_E_INVALID, "invalid window: %lld keys at offset %lld, causal %lld",
                    (long long)window, (long long)offset, (long long)c->attr[1].i);
}

int syn__n_attr(const syn_grad_call *g) {
    int n = 0;
    for (const char *at = g->def->attrs; (at = strchr(at, ':')); at++) n++;
    return n;
}

static void zero_bytes(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    memset((char *)arg + begin, 0, (size_t)(end - begin));
}

void syn__fill_zero(const syn_call *c, const syn_operand *o) {
    enum { GRAIN_BYTES = 131072 };
    const int64_t bytes = (int64_t)syn_spec_bytes(&o->spec);
    syn_workers_ranges(c->workers, bytes, GRAIN_BYTES, zero_bytes, o->data);
}
