/* Implements ops_program.h: one function for each kind of random step. */
#include "tests/support/ops_program.h"

static syn_tensor program_any(const program *p) {
    return p->live[ref_int(0, p->n_live - 1)];
}

static void program_keep(program *p, syn_tensor t) {
    if (!t.id || syn_tensor_spec(p->ctx, t)->dtype != SYN_F32) return;
    if (syn_spec_elems(syn_tensor_spec(p->ctx, t)) > REF_MAX) return;
    const int at = p->n_live < 64 ? p->n_live++ : (int)ref_int(0, 63);
    p->live[at] = t;
}

/* After an in-place write, drops views of older versions from the list, because ops may not use
   them any more. */
static void program_lose_views(program *p, syn_tensor newest) {
    const syn_trace *t = syn_ctx_trace(p->ctx);
    const uint32_t base = t->tensors[syn_trace_tensor_row(t, newest.id)].base;
    int left = 0;
    for (int i = 0; i < p->n_live; i++)
        if (t->tensors[syn_trace_tensor_row(t, p->live[i].id)].base != base)
            p->live[left++] = p->live[i];
    p->n_live = left;
}

static syn_tensor program_view(program *p, syn_tensor x) {
    const syn_spec s = *syn_tensor_spec(p->ctx, x);
    int order[SYN_MAX_RANK];
    const int64_t flat[2] = {s.rank > 0 ? s.dims[0] : 1, -1};
    for (int d = 0; d < s.rank; d++) order[d] = (d + 1) % s.rank;
    switch (ref_int(0, 3)) {
    case 0:
        return syn_permute(p->ctx, x, order, s.rank);
    case 1:
        return syn_reshape(p->ctx, x, flat, 2);
    case 2: {
        const int axis = (int)ref_int(0, s.rank - 1);
        return syn_slice(p->ctx, x, axis, s.dims[axis] / 3, (s.dims[axis] + 1) / 2);
    }
    default:
        return p->group ? syn_tp_enter(p->ctx, x, p->group) : x;
    }
}

/* Creates a parameter with a unique name. */
static syn_tensor program_param(program *p, const char *name, const syn_spec *spec, syn_init init,
                                double std) {
    char full[32];
    snprintf(full, sizeof full, "%s%d", name, p->n_params++);
    return syn_param(p->ctx, full, spec, SYN_WHOLE, init, std, -1, p->seed);
}

static syn_tensor program_layer(program *p, syn_tensor x) {
    syn_ctx *c = p->ctx;
    const syn_spec s = *syn_tensor_spec(c, x);
    const int64_t width = s.dims[s.rank - 1], out = ref_int(1, 6);
    const syn_spec w = {SYN_F32, 2, {width, out}}, b = {SYN_F32, 1, {out}},
                   row = {SYN_F32, 1, {width}};
    const syn_tensor weight = program_param(p, "w", &w, SYN_INIT_NORMAL, 0.5);
    const syn_tensor bias = program_param(p, "b", &b, SYN_INIT_ONE, 0);
    const syn_tensor scale = program_param(p, "ln", &row, SYN_INIT_ONE, 0);
    switch (ref_int(0, 4)) {
    case 0:
        return syn_name(c, syn_linear(c, x, weight, bias, false), "fc");
    case 1:
        return syn_layernorm(c, x, scale, scale, 1e-5);
    case 2:
        return s.rank >= 2 ? syn_matmul(c, x, x, true, false) : x;
    case 3:
        return syn_softmax(
            c, s.rank >= 2 ? syn_scale_mask(c, x, SYN_NO_MASK, 0.5, ref_int(0, 1), ref_int(-1, 2))
                           : x);
    default:
        return s.rank < 2 ? x
                          : syn_dropout(c, x, SYN_NO_KEYS,
                                        &(syn_dropout_options){
                                            .p = 0.25, .seed = p->seed, .sample = ref_int(0, 9)});
    }
}

static void program_cache(program *p) {
    const int64_t rows = ref_int(1, 4), position = ref_int(0, 8 - rows);
    const syn_spec s = {SYN_F32, 4, {2, 2, rows, 4}};
    const syn_tensor x = syn_input(p->ctx, "new", &s, NULL);
    for (int64_t readers = ref_int(0, 2); readers > 0; readers--)
        program_keep(p, syn_attention(p->ctx, x, p->cache, p->cache, SYN_NO_MASK, 0.5,
                                      ref_int(0, 1), position));
    p->cache = syn_name(p->ctx, syn_kv_append(p->ctx, p->cache, x, position), "cache");
    program_lose_views(p, p->cache);
    program_keep(p, x);
    if (ref_int(0, 1)) program_keep(p, syn_slice(p->ctx, p->cache, 2, 0, position + rows));
}

static void program_choose(program *p, syn_tensor x) {
    syn_ctx *c = p->ctx;
    const syn_spec s = *syn_tensor_spec(c, x);
    const int64_t flat[2] = {-1, s.dims[s.rank - 1]};
    const syn_sampling how = {0.5, 2, 0.9, p->seed, 0};
    const syn_spec table = {SYN_F32, 2, {7, 3}};
    syn_tensor where;
    program_keep(p, syn_top_k(c, x, 1, &where));
    const syn_tensor ids = ref_int(0, 1)
                               ? syn_argmax(c, x)
                               : syn_sample(c, syn_reshape(c, x, flat, 2), &how, ref_int(0, 5));
    if (syn_tensor_spec(c, ids)->rank < SYN_MAX_RANK)
        program_keep(p, syn_embedding(c, program_param(p, "wte", &table, SYN_INIT_NORMAL, 1), ids,
                                      ref_int(0, 3)));
}

static syn_tensor program_comm(program *p, syn_tensor x) {
    syn_ctx *c = p->ctx;
    const syn_spec s = *syn_tensor_spec(c, x);
    switch (ref_int(0, 4)) {
    case 0:
        return syn_all_reduce(c, x, (syn_reduce)ref_int(0, SYN_REDUCE_COUNT - 1), p->group);
    case 1:
        return syn_all_gather(c, x, (int)ref_int(0, s.rank - 1), p->group);
    case 2:
        return syn_reduce_scatter(c, syn_all_gather(c, x, 0, p->group), SYN_REDUCE_SUM, 0,
                                  p->group);
    case 3:
        return syn_broadcast(c, x, (int)ref_int(0, p->group->size - 1), p->group);
    default:
        syn_barrier(c, p->group);
        return x;
    }
}

void program_run(program *p, uint64_t seed, int length) {
    syn_ctx *c = p->ctx;
    ref_seed(seed);
    const syn_spec cache = {SYN_F32, 4, {2, 2, 8, 4}};
    p->cache = syn_state(c, "cache", &cache);
    p->n_live = 0;
    for (int i = 0; i < 3; i++) {
        const syn_spec s = ref_random_spec(SYN_F32, 1, 4, false);
        program_keep(p, syn_input(c, "x", &s, NULL));
    }
    for (int i = 0; i < length && syn_ctx_status(c) == SYN_OK; i++) {
        const syn_tensor x = program_any(p);
        const bool plain =
            syn_tensor_spec(c, x)->rank > 0 && syn_spec_elems(syn_tensor_spec(c, x)) > 0;
        if (ref_int(0, 9) == 0) syn_next_step(c);
        if (ref_int(0, 4) == 0) syn_set_phase(c, (syn_phase)ref_int(0, SYN_PHASE_COUNT - 1));
        const bool scoped = ref_int(0, 1);
        if (scoped) syn_push_scope_index(c, "h", (int)ref_int(0, 3));
        const int64_t kind = ref_int(0, p->group ? 7 : 6);
        if (!plain || kind == 0) program_keep(p, syn_add(c, x, x));
        else if (kind == 1)
            program_keep(p, syn_gelu(c, syn_scale(c, x, ref_real(-1, 1)), ref_int(0, 1)));
        else if (kind == 2) program_cache(p);
        else if (kind == 3) program_choose(p, x);
        else if (kind == 4) program_keep(p, program_layer(p, x));
        else if (kind == 7) program_keep(p, program_comm(p, x));
        else program_keep(p, program_view(p, x));
        if (scoped) syn_pop_scope(c);
        if (p->between) p->between(p, i);
    }
}
