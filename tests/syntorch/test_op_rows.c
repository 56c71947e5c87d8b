/* Tests ops that overwrite several inputs. ops/ops.def has few such ops, so the test replaces some
   of its rows. */
#include "ops/rules.h"
#include "syntorch/context_private.h"
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

/* The op "update" gets a parameter p, moments m and v, and a gradient g. It overwrites p, m and v
   with p - g, g and g * g. */
enum { UPDATE = SYN_OP_LAYERNORM, TWICE = SYN_OP_SCALE, HALF = SYN_OP_SLICE };

static syn_status update_infer(syn_call *c) {
    for (int i = 0; i < 3; i++) c->out[i].spec = c->in[i].spec;
    return SYN_OK;
}

static syn_status update_cpu(syn_call *c) {
    float *p = c->out[0].data, *m = c->out[1].data, *v = c->out[2].data;
    const float *g = c->in[3].data;
    for (int64_t i = 0; i < syn_spec_elems(&c->in[3].spec); i++) {
        p[i] -= g[i];
        m[i] = g[i];
        v[i] = g[i] * g[i];
    }
    return SYN_OK;
}

static syn_status twice_infer(syn_call *c) {
    c->out[0].spec = c->in[0].spec;
    return SYN_OK;
}

static syn_status twice_cpu(syn_call *c) {
    for (int64_t i = 0; i < syn_spec_elems(&c->in[0].spec); i++)
        ((float *)c->out[0].data)[i] = 2 * ((const float *)c->in[0].data)[i];
    return SYN_OK;
}

static syn_status half_infer(syn_call *c) {
    c->out[0] = c->in[0];
    c->out[0].spec.dims[0] /= 2;
    return SYN_OK;
}

static void no_cost(const syn_call *c, syn_cost *cost) {
    (void)c;
    *cost = (syn_cost){0, 0, 0};
}

#define ROW(op, name, n_in, n_out, flags, infer, cpu)                                              \
    {                                                                                              \
        op, name, SYN_CATEGORY_OTHER, n_in, n_in, n_out, flags, SYN_COMM_NONE, "", infer, no_cost, \
            cpu, NULL, 0                                                                           \
    }
#define SYN_OP(id, ...) [SYN_OP_##id] = ROW(SYN_OP_##id, #id, 0, 0, 0, NULL, NULL),
#pragma GCC diagnostic ignored "-Woverride-init"
const syn_opdef syn_op_table[SYN_OP_COUNT] = {
    [SYN_OP_NONE] = ROW(SYN_OP_NONE, "none", 0, 0, 0, NULL, NULL),
#include "ops/ops.def"
    [UPDATE] = ROW((syn_op)UPDATE, "update", 4, 3, SYN_OPF_INPLACE(3), update_infer, update_cpu),
    [TWICE] = ROW((syn_op)TWICE, "twice", 1, 1, 0, twice_infer, twice_cpu),
    [HALF] = ROW((syn_op)HALF, "half", 1, 1, SYN_OPF_VIEW, half_infer, NULL),
};

/* A parameter of ones with its moments, and the gradient (1, 2, 3, 4). */
struct optimizer {
    syn_ctx *ctx;
    syn_tensor p, m, v, g;
};

static const syn_spec four = {SYN_F32, 1, {4}};

static struct optimizer optimizer_new(syn_device device) {
    const float gradient[4] = {1, 2, 3, 4};
    struct optimizer o = {.ctx = ref_ctx(device, NULL)};
    syn_param(o.ctx, "first", &four, SYN_WHOLE, SYN_INIT_ONE, 0, -1, 1);
    o.p = syn_param(o.ctx, "w", &four, SYN_WHOLE, SYN_INIT_ONE, 0, -1, 1);
    o.m = syn_state(o.ctx, "w.m", &four);
    o.v = syn_state(o.ctx, "w.v", &four);
    o.g = syn_input(o.ctx, "g", &four, gradient);
    return o;
}

/* Runs one step and stores the new versions in o. */
static void step(struct optimizer *o) {
    const syn_tensor in[4] = {o->p, o->m, o->v, o->g};
    syn_tensor out[3];
    syn__call_op(o->ctx, (syn_op)UPDATE, in, 4, NULL, 0, NULL, out);
    o->p = out[0];
    o->m = out[1];
    o->v = out[2];
}

static syn_tensor unary(syn_ctx *ctx, int op, syn_tensor x) {
    syn_tensor out;
    syn__call_op(ctx, (syn_op)op, &x, 1, NULL, 0, NULL, &out);
    return out;
}

static bool holds(syn_ctx *ctx, syn_tensor t, float a, float b, float c, float d) {
    float got[4];
    if (!syn_ctx_has_data(ctx)) return true;
    return syn_tensor_read(ctx, t, got, sizeof got) == SYN_OK && got[0] == a && got[1] == b &&
           got[2] == c && got[3] == d;
}

/* An update returns three new versions. Each is in the storage of its input and has its role. */
static void test_three_versions(void) {
    for (int device = 0; device < 2; device++) {
        struct optimizer o = optimizer_new(device ? SYN_DEVICE_META : SYN_DEVICE_CPU);
        const struct optimizer first = o;
        const size_t used = o.ctx->storages.used_bytes;
        step(&o);
        step(&o);
        const syn_trace *t = syn_ctx_trace(o.ctx);
        const uint32_t kept = SYN_TENSOR_VIEW | SYN_TENSOR_STATE;
        char name[SYN_MAX_NAME];
        CHECK_INT(syn_ctx_status(o.ctx), SYN_OK);
        CHECK_INT(o.ctx->storages.used_bytes, used);
        CHECK(t->tensors[o.p.id].base == first.p.id && t->tensors[o.m.id].base == first.m.id &&
              t->tensors[o.v.id].base == first.v.id);
        CHECK_INT(t->tensors[o.p.id].flags, SYN_TENSOR_VIEW | SYN_TENSOR_PARAM);
        CHECK(t->tensors[o.m.id].flags == kept && t->tensors[o.v.id].flags == kept);
        CHECK_STR(syn_trace_tensor_name(t, o.p.id, name), "w");
        CHECK_STR(syn_trace_tensor_name(t, o.m.id, name), "update:1");
        CHECK(holds(o.ctx, o.p, -1, -3, -5, -7) && holds(o.ctx, o.m, 1, 2, 3, 4));
        CHECK(holds(o.ctx, o.v, 1, 4, 9, 16) && holds(o.ctx, o.g, 1, 2, 3, 4));
        CHECK(syn_trace_verify(t, NULL) == SYN_OK);
        syn_ctx_free(o.ctx);
    }
}

/* The new version of a parameter replaces the parameter: it is found by number and by name, and can
   be written. */
static void test_parameters(void) {
    const float ones[4] = {1, 1, 1, 1};
    for (int device = 0; device < 2; device++) {
        struct optimizer o = optimizer_new(device ? SYN_DEVICE_META : SYN_DEVICE_CPU);
        const struct optimizer first = o;
        for (int i = 0; i < 3; i++) {
            CHECK_INT(syn_ctx_param_count(o.ctx), 2);
            CHECK_STR(syn_ctx_param(o.ctx, 1).name, "w");
            CHECK_INT(syn_ctx_param(o.ctx, 1).tensor.id, o.p.id);
            CHECK_INT(syn_find_param(o.ctx, "w").id, o.p.id);
            CHECK_INT(syn_find_param(o.ctx, "first").id, 1);
            step(&o);
        }
        CHECK_INT(syn_find_param(o.ctx, "w.m").id, 0);
        CHECK_INT(syn_tensor_write(o.ctx, o.p, ones, sizeof ones), SYN_OK);
        CHECK(holds(o.ctx, o.p, 1, 1, 1, 1));
        CHECK_INT(syn_tensor_write(o.ctx, first.p, ones, sizeof ones), SYN_E_INVALID);
        CHECK_HAS(syn_ctx_error(o.ctx)->text, "tensor 2, 'w', was overwritten by update (node 3)");
        syn_ctx_free(o.ctx);
    }
}

/* A result written through a view of a parameter is not a version of the parameter, which then has
   no current version. */
static void test_written_through_a_view(void) {
    struct optimizer o = optimizer_new(SYN_DEVICE_META);
    const syn_tensor whole = o.p;
    o.p = unary(o.ctx, HALF, o.p);
    o.m = unary(o.ctx, HALF, o.m);
    step(&o);
    CHECK_INT(syn_ctx_status(o.ctx), SYN_OK);
    CHECK_INT(syn_ctx_trace(o.ctx)->tensors[o.p.id].flags, SYN_TENSOR_VIEW);
    CHECK_INT(syn_find_param(o.ctx, "w").id, whole.id);
    unary(o.ctx, TWICE, syn_find_param(o.ctx, "w"));
    CHECK_HAS(syn_ctx_error(o.ctx)->text, "twice: tensor 2, 'w', was overwritten by update (node");
    syn_ctx_free(o.ctx);
}

/* The old versions of all three storages are stale. The gradient is only read, so it is not. */
static void test_stale(void) {
    for (int which = 0; which < 8; which++) {
        struct optimizer o = optimizer_new(which % 2 ? SYN_DEVICE_META : SYN_DEVICE_CPU);
        const syn_tensor old[4] = {o.p, o.m, unary(o.ctx, HALF, o.v), o.g};
        step(&o);
        unary(o.ctx, TWICE, old[which / 2]);
        CHECK_INT(syn_ctx_status(o.ctx), which < 6 ? SYN_E_INVALID : SYN_OK);
        if (which < 6) CHECK_HAS(syn_ctx_error(o.ctx)->text, "was overwritten by update (node");
        syn_ctx_free(o.ctx);
    }
}

/* No two overwritten inputs may share a storage. An overwritten input and one that is only read may
   not share one, either. */
static void test_shared_storages_are_refused(void) {
    static const char *const says[] = {
        "update: input 0 would be overwritten, but input 1 shares its",
        "update: input 1 would be overwritten, but input 2 shares its",
        "update: input 2 would be overwritten, but input 3 shares its"};
    for (int which = 0; which < 3; which++) {
        struct optimizer o = optimizer_new(SYN_DEVICE_META);
        const size_t tensors = syn_ctx_trace(o.ctx)->n_tensors;
        if (which == 0) o.m = o.p;
        if (which == 1) o.v = o.m;
        if (which == 2) o.g = o.v;
        step(&o);
        CHECK_HAS(syn_ctx_error(o.ctx)->text, says[which]);
        CHECK_INT(syn_ctx_trace(o.ctx)->n_tensors, tensors);
        syn_ctx_free(o.ctx);
    }
}

/* The update depends on all ops that read one of the three tensors. Later ops depend on it only if
   they use its results. */
static void test_order(void) {
    struct optimizer o = optimizer_new(SYN_DEVICE_META);
    syn_error err = {0};
    syn_graph *graph = NULL;
    syn_cursor cursor = {0};
    unary(o.ctx, TWICE, o.p); /* nodes 0, 1 and 2 read tensors that are overwritten */
    unary(o.ctx, TWICE, o.m);
    unary(o.ctx, TWICE, unary(o.ctx, HALF, o.v)); /* node 2 is the view, and node 3 reads it */
    unary(o.ctx, TWICE, o.g);                     /* node 4 reads g, which is not overwritten */
    step(&o);                                     /* node 5 */
    unary(o.ctx, TWICE, o.v);                     /* node 6 */
    const syn_trace *t = syn_ctx_trace(o.ctx);
    CHECK_OK(syn_trace_graph(&graph, &t, 1, NULL, &err), err);
    CHECK_OK(syn_graph_verify(graph, &err), err);
    const syn_node *n = syn_graph_node(graph, 0, 5, &cursor);
    CHECK_INT(n->n_deps, 3);
    for (uint32_t i = 0; i < 3; i++) CHECK_INT(n->deps[i].dep_class, SYN_DEP_INPLACE);
    CHECK(n->deps[0].node == 0 && n->deps[1].node == 1 && n->deps[2].node == 3);
    n = syn_graph_node(graph, 0, 6, &cursor);
    CHECK(n->n_deps == 1 && n->deps[0].node == 5 && n->deps[0].dep_class == SYN_DEP_DATA);
    syn_cursor_free(&cursor);
    syn_graph_free(graph);
    syn_ctx_free(o.ctx);
}

/* A step that runs out of memory creates no versions, and the old versions stay usable. */
static void test_out_of_memory(void) {
    bool done = false;
    for (uint64_t n = 0; !done; n++) {
        struct optimizer o = optimizer_new(SYN_DEVICE_META);
        const struct optimizer first = o;
        syn_error err = {0};
        syn_memory_fail_after(n);
        step(&o);
        syn_memory_fail_after(SYN_MEMORY_NEVER);
        done = syn_ctx_status(o.ctx) == SYN_OK;
        CHECK_OK(syn_trace_verify(syn_ctx_trace(o.ctx), &err), err);
        if (!done)
            CHECK_INT(syn__check_current(o.ctx, first.p.id, syn__storage(o.ctx, first.p.id), &err),
                      SYN_OK);
        CHECK(n < 100);
        syn_ctx_free(o.ctx);
    }
}

static const test_case cases[] = {
    {"three versions", test_three_versions},
    {"parameters", test_parameters},
    {"written through a view", test_written_through_a_view},
    {"stale", test_stale},
    {"shared storages are refused", test_shared_storages_are_refused},
    {"order", test_order},
    {"out of memory", test_out_of_memory},
};
TEST_MAIN(cases)
