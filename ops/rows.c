/* Selects the row kernels of a SIMD level, converts rows of 16-bit floats, and distributes rows
   over the workers. */
#include "ops/rows.h"

#include "ops/rules.h"

const syn_row_kernels *syn__row_kernels_at(syn_simd level) {
    return SYN__AT_LEVEL(&syn__rows, level);
}

const syn_row_kernels *syn__row_kernels(void) {
    return syn__row_kernels_at(syn_simd_level());
}

void syn__seek_row(syn_row_iter *rows, const syn_spec *shape, const syn_operand *const *operands,
                   int n, int64_t row) {
    *rows = (syn_row_iter){.started = true};
    for (int d = shape->rank - 2; d >= 0; d--) {
        rows->index[d] = row % shape->dims[d];
        row /= shape->dims[d];
        for (int i = 0; i < n; i++) rows->at[i] += rows->index[d] * operands[i]->strides[d];
    }
}

bool syn__is_dense(const syn_operand *o) {
    int64_t step = 1;
    for (int d = o->spec.rank - 1; d >= 0; d--) {
        if (o->spec.dims[d] > 1 && o->strides[d] != step) return false;
        step *= o->spec.dims[d];
    }
    return true;
}

/* ---- 16-bit rows ---- */

static void *element(const syn_operand *o, int64_t at) {
    return (char *)o->data + at * (int64_t)syn_dtype_bytes((syn_dtype)o->spec.dtype);
}

const float *syn__load_row(const syn_operand *o, int64_t at, int64_t n, float *buffer) {
    if (syn__is_f32(o)) return (const float *)o->data + at;
    syn__row_kernels()->widen(element(o, at), (syn_dtype)o->spec.dtype, buffer, n);
    return buffer;
}

const float *syn__load_strided(const syn_operand *o, int64_t at, int64_t step, int64_t n,
                               float *buffer) {
    enum { SOME = 64 };
    if (step == 1) return syn__load_row(o, at, n, buffer);
    if (syn__is_f32(o)) {
        const float *x = (const float *)o->data + at;
        for (int64_t i = 0; i < n; i++) buffer[i] = x[i * step];
        return buffer;
    }
    for (int64_t i = 0; i < n; i += SOME) {
        const uint16_t *x = element(o, at + i * step);
        const int64_t some = n - i < SOME ? n - i : SOME;
        uint16_t side_by_side[SOME];
        for (int64_t k = 0; k < some; k++) side_by_side[k] = x[k * step];
        syn__row_kernels()->widen(side_by_side, (syn_dtype)o->spec.dtype, buffer + i, some);
    }
    return buffer;
}

float *syn__row_dest(const syn_operand *o, int64_t at, float *buffer) {
    return syn__is_f32(o) ? (float *)o->data + at : buffer;
}

void syn__store_row(const syn_operand *o, int64_t at, int64_t n, const float *buffer) {
    if (syn__is_f32(o)) return;
    syn__row_kernels()->narrow(buffer, (syn_dtype)o->spec.dtype, element(o, at), n);
}

void syn__store_strided(const syn_operand *o, int64_t at, int64_t step, int64_t n,
                        const float *buffer) {
    enum { SOME = 64 };
    if (syn__is_f32(o)) {
        float *y = (float *)o->data + at;
        for (int64_t i = 0; i < n; i++) y[i * step] = buffer[i];
        return;
    }
    for (int64_t i = 0; i < n; i += SOME) {
        uint16_t *y = element(o, at + i * step);
        const int64_t some = n - i < SOME ? n - i : SOME;
        uint16_t side_by_side[SOME];
        syn__row_kernels()->narrow(buffer + i, (syn_dtype)o->spec.dtype, side_by_side, some);
        for (int64_t k = 0; k < some; k++) y[k * step] = side_by_side[k];
    }
}

syn_status syn__worker_buffers(const syn_call *c, int64_t floats, float **buffers) {
    const size_t all = (size_t)syn_workers_count(c->workers) * (size_t)syn__padded_floats(floats);
    void *buffer = NULL;
    if (floats > 0) SYN_TRY(syn__scratch(c, all * sizeof **buffers, "rows as f32", &buffer));
    *buffers = buffer;
    return SYN_OK;
}

/* ---- iteration over rows ---- */

struct spread {
    const syn_call *c;
    syn_each_row f;
    float *buffers;
    int64_t buffer_floats;
};

static void some_elements(void *arg, int64_t begin, int64_t end, int worker) {
    const struct spread *s = arg;
    const syn_operand *in = &s->c->in[0], *out = &s->c->out[0];
    const int64_t piece = syn__is_f32(in) ? end - begin : SYN__PIECE;
    float buffer[SYN__PIECE];
    (void)worker;
    for (int64_t at = begin; at < end; at += piece) {
        const int64_t n = end - at < piece ? end - at : piece;
        s->f(s->c, syn__load_row(in, at, n, buffer), syn__row_dest(out, at, buffer), n, at);
        syn__store_row(out, at, n, buffer);
    }
}

static void some_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const struct spread *s = arg;
    const syn_operand *in = &s->c->in[0], *out = &s->c->out[0];
    const int64_t n = in->spec.dims[in->spec.rank - 1];
    float *buffer = s->buffers ? s->buffers + worker * s->buffer_floats : NULL;
    syn_row_iter r;
    syn__seek_row(&r, &in->spec, &in, 1, begin);
    for (int64_t row = begin; row < end; row++) {
        s->f(s->c, syn__load_row(in, r.at[0], n, buffer), syn__row_dest(out, row * n, buffer), n,
             row * n);
        syn__store_row(out, row * n, n, buffer);
        syn__next_row(&r, &in->spec, &in, 1);
    }
}

syn_status syn__each_row(const syn_call *c, syn_each_row f, int64_t grain, bool joined) {
    struct spread s = {.c = c, .f = f};
    const syn_spec *shape = &c->in[0].spec;
    const int64_t elems = syn_spec_elems(shape);
    if (elems == 0) return SYN_OK;
    if (joined && syn__is_dense(&c->in[0])) {
        syn_workers_ranges(c->workers, elems, grain, some_elements, &s);
        return SYN_OK;
    }
    const int64_t n = shape->dims[shape->rank - 1];
    if (!syn__is_f32(&c->in[0])) {
        SYN_TRY(syn__worker_buffers(c, n, &s.buffers));
        s.buffer_floats = syn__padded_floats(n);
    }
    syn_workers_ranges(c->workers, elems / n, grain / n + 1, some_rows, &s);
    return SYN_OK;
}
