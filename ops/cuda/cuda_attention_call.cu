/* Reads the shapes and attributes of an attention call for the kernels. */
#include "ops/cuda/attention.cuh"

syn_attention syn__attention_of(const syn_call *c, int first) {
    enum { SCALE, CAUSAL, OFFSET, P, SEED, SAMPLE, ROW, COLUMN, N_ATTR };
    const int64_t far = (int64_t)1 << 41; /* offsets beyond this have the same effect */
    const syn_operand *q = &c->in[0], *k = &c->in[1];
    const bool trains = c->n_attr >= N_ATTR;
    const int last = !trains ? OFFSET + 1 : first == 3 ? (int)N_ATTR : N_ATTR + 1;
    syn_attention a = {};
    a.batches = q->spec.dims[0];
    a.heads = q->spec.dims[1];
    a.shared = k->spec.dims[1];
    a.group = a.shared > 0 ? a.heads / a.shared : 1;
    a.queries = q->spec.dims[2];
    a.keys = k->spec.dims[2];
    a.depth = (int)q->spec.dims[3];
    a.value_depth = (int)c->in[2].spec.dims[3];
    a.widest = a.depth > a.value_depth ? a.depth : a.value_depth;
    a.packs = syn__head_packs(q) && syn__head_packs(k) && syn__head_packs(&c->in[2]);
    a.scale = (float)c->attr[SCALE].f;
    a.causal = c->attr[CAUSAL].i != 0;
    a.offset = c->attr[OFFSET].i < far ? c->attr[OFFSET].i : far;
    if (a.offset < -far) a.offset = -far;
    a.window = c->n_attr > last ? c->attr[last].i : 0;
    if (a.window > 2 * far) a.window = 2 * far;
    int at = first;
    if (c->n_in > at && c->in[at].spec.rank == 1 && c->in[at].spec.dtype != SYN_I32) {
        a.sinks = c->in[at].data;
        a.sinks_stride = c->in[at++].strides[0];
    }
    if (c->n_in > at && c->in[at].spec.rank == 2) {
        a.mask = static_cast<const float *>(c->in[at].data);
        a.mask_row = c->in[at++].strides[0];
    }
    a.keep = 1;
    if (!trains || c->attr[P].f == 0) return a;
    const syn_dropout_row drop = syn__dropout_row(c->attr[P].f, 0, 0, 0);
    a.drop = true;
    a.limit = drop.limit;
    a.keep = drop.keep;
    a.seed = (uint64_t)c->attr[SEED].i;
    a.sample = c->attr[SAMPLE].i;
    a.row = c->attr[ROW].i;
    a.column = (uint32_t)c->attr[COLUMN].i;
    if (c->n_in <= at) return a;
    a.samples = static_cast<const int32_t *>(c->in[at].data);
    a.samples_stride = c->in[at].strides[0];
    return a;
}

bool syn__head_packs(const syn_operand *o) {
    const int64_t wide = 16 / (int64_t)syn_dtype_bytes((syn_dtype)o->spec.dtype);
    bool fits = o->spec.dims[3] % wide == 0 && reinterpret_cast<uintptr_t>(o->data) % 16 == 0;
    for (int d = 0; d < 3; d++) fits = fits && (o->spec.dims[d] == 1 || o->strides[d] % wide == 0);
    return fits;
}

bool syn__tensor_cores(const syn_call *c) {
    const int capability = syn__cuda_of(c)->capability;
    switch (c->in[0].spec.dtype) {
    case SYN_F16:
        return capability >= 75;
    case SYN_BF16:
        return capability >= 80;
    default:
        return false;
    }
}

syn_status syn__too_little_shared(const syn_call *c) {
    return SYN_FAIL(
        c->err, SYN_E_UNSUPPORTED,
        "attention needs more than the %zu bytes of shared memory per block that this device has",
        syn__cuda_of(c)->shared_bytes);
}
