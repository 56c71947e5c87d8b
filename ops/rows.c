#include "ops/rows.h"

#include "ops/rules.h"

const syn_row_kernels *syn__row_kernels_at(syn_simd level) {
    return SYN__AT_LEVEL(&syn__rows, level);
}

const syn_row_kernels *syn__row_kernels(void) {
    return syn__row_kernels_at(syn_simd_level());
}

void syn__seek_row(syn_rows *rows, const syn_spec *shape, const syn_operand *const *operands, int n,
                   int64_t row) {
    *rows = (syn_rows){.started = true};
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

struct spread {
    const syn_call *c;
    syn_each_row f;
};

static void some_elements(void *arg, int64_t begin, int64_t end, int worker) {
    const struct spread *s = arg;
    (void)worker;
    s->f(s->c, (const float *)s->c->in[0].data + begin, (float *)s->c->out[0].data + begin,
         end - begin, begin);
}

static void some_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const struct spread *s = arg;
    const syn_operand *in = &s->c->in[0];
    const int64_t n = in->spec.dims[in->spec.rank - 1];
    syn_rows r;
    (void)worker;
    syn__seek_row(&r, &in->spec, &in, 1, begin);
    for (int64_t row = begin; row < end; row++) {
        s->f(s->c, (const float *)in->data + r.at[0], (float *)s->c->out[0].data + row * n, n,
             row * n);
        syn__next_row(&r, &in->spec, &in, 1);
    }
}

void syn__each_row(const syn_call *c, syn_each_row f, int64_t grain, bool joined) {
    struct spread s = {c, f};
    const syn_spec *shape = &c->in[0].spec;
    const int64_t elems = syn_spec_elems(shape);
    if (elems == 0) return;
    if (joined && syn__is_dense(&c->in[0])) {
        syn_workers_ranges(c->workers, elems, grain, some_elements, &s);
        return;
    }
    const int64_t n = shape->dims[shape->rank - 1];
    syn_workers_ranges(c->workers, elems / n, grain / n + 1, some_rows, &s);
}
