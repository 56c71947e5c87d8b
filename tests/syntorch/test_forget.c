/* Tests syn_forget: it removes rows and keeps those that are still needed, with their ids. Later
   steps are recorded as if no rows had been removed. */
#include "syntorch/context_private.h"
#include "tests/support/ops_program.h"
#include "tests/support/test.h"
#include "tests/support/trace_difference.h"

/* ---- What is kept and what is removed ---- */

/* A loop like that of generation, with a parameter, a cache, a kept result and forgotten
   tensors. */
struct loop {
    syn_ctx *ctx;
    syn_tensor w, cache, x, last; /* last: the most recent of the step's other tensors */
    syn_mark mark;
};

static struct loop loop_new(syn_device device) {
    const syn_spec spec = {SYN_F32, 4, {1, 1, 4, 2}}, square = {SYN_F32, 2, {2, 2}};
    const syn_spec row = {SYN_F32, 4, {1, 1, 1, 2}};
    const float ones[2] = {1, 1};
    struct loop l = {.ctx = ref_ctx(device, NULL)};
    l.w = syn_param(l.ctx, "w", &square, SYN_WHOLE, SYN_INIT_ONE, 0, -1, 1);
    l.cache = syn_state(l.ctx, "cache", &spec);
    l.mark = syn_ctx_mark(l.ctx);
    l.x = syn_input(l.ctx, "x", &row, ones);
    return l;
}

/* Doubles x and writes it to the cache. */
static void loop_step(struct loop *l, int64_t step) {
    syn_push_scope_index(l->ctx, "h", 0);
    l->x = syn_name(l->ctx, syn_linear(l->ctx, l->x, l->w, SYN_NO_BIAS, false), "twice");
    l->cache = syn_name(l->ctx, syn_kv_append(l->ctx, l->cache, l->x, step % 4), "kv");
    l->last = syn_scale(l->ctx, syn_slice(l->ctx, l->cache, 2, 0, 1), 0.5);
    syn_pop_scope(l->ctx);
    syn_next_step(l->ctx);
}

static bool holds(syn_ctx *ctx, syn_tensor t, const float *want, size_t n) {
    float got[8];
    if (!syn_ctx_has_data(ctx)) return true;
    return syn_tensor_read(ctx, t, got, n * sizeof *got) == SYN_OK &&
           memcmp(got, want, n * sizeof *got) == 0;
}

static void test_forget_keeps(void) {
    for (int device = 0; device < 2; device++) {
        struct loop l = loop_new(device ? SYN_DEVICE_META : SYN_DEVICE_CPU);
        const float x[2] = {8, 8}, cache[8] = {2, 2, 4, 4, 8, 8, 0, 0};
        char name[SYN_MAX_NAME];
        for (int i = 0; i < 3; i++) loop_step(&l, i);
        const syn_trace *t = syn_ctx_trace(l.ctx);
        const uint64_t hash = syn_trace_hash(t);
        syn_forget(l.ctx, l.mark, &l.x, 1);
        CHECK_INT(syn_ctx_status(l.ctx), SYN_OK);
        CHECK_INT(t->n_nodes, 1);
        /* The rows are the invalid tensor, w, cache, cache's current version and x. */
        CHECK_INT(t->n_tensors, 5);
        CHECK_INT(t->n_inputs, 0);
        CHECK(syn_trace_verify(t, NULL) == SYN_OK && syn_trace_hash(t) == hash);
        CHECK(holds(l.ctx, l.x, x, 2) && holds(l.ctx, l.cache, cache, 8));
        CHECK_INT(syn_find_param(l.ctx, "w").id, l.w.id);
        const uint32_t row = syn_trace_tensor_row(t, l.x.id);
        CHECK_INT(syn_trace_tensor_number(t, row), l.x.id);
        CHECK_STR(syn_trace_tensor_name(t, row, name), "h.0/twice:0");
        CHECK(t->tensors[row].flags == SYN_TENSOR_INPUT && t->tensors[row].producer == 0);
        const uint32_t version = syn_trace_tensor_row(t, l.cache.id);
        CHECK_STR(syn_trace_tensor_name(t, version, name), "h.0/kv:0");
        CHECK_INT(t->tensors[version].flags, SYN_TENSOR_VIEW | SYN_TENSOR_STATE);
        CHECK_INT(t->tensors[version].base, 2);
        loop_step(&l, 3); /* ids and step numbers continue */
        CHECK_INT(syn_ctx_status(l.ctx), SYN_OK);
        CHECK(syn_trace_node_number(t, 1) == 13 && syn_trace_step_of(t, 1) == 3 && t->step == 4);
        CHECK_INT(l.last.id, 3 + 4 * 4);
        CHECK(syn_trace_verify(t, NULL) == SYN_OK);
        syn_ctx_free(l.ctx);
    }
}

/* Every use of a forgotten tensor is an error. Its message differs from that for a tensor of
   another context. */
#define FORGOTTEN(X)                                                                           \
    X(syn_gelu(l.ctx, old, true), "gelu: input 0 was forgotten")                               \
    X(syn_add(l.ctx, l.x, old), "add: input 1 was forgotten")                                  \
    X(CHECK(syn_tensor_read(l.ctx, old, buf, 8) != SYN_OK), "tensor 7 cannot be read: it was") \
    X(CHECK(syn_tensor_write(l.ctx, old, buf, 8) != SYN_OK), "cannot be written: it was forg") \
    X(syn_name(l.ctx, old, "x"), "tensor 7 cannot be named: it was forgotten")                 \
    X(syn_pin(l.ctx, old), "tensor 7 cannot be pinned: it was forgotten")                      \
    X(syn_forget(l.ctx, l.mark, &old, 1), "tensor 7 cannot be kept: it was forgotten")         \
    X(syn_scale(l.ctx, version, 1),                                                            \
      "tensor 2, 'cache', was overwritten by a forgotten op; use the result, tensor 5")

static void test_forget_removes(void) {
    enum {
#define X(use, says) +1
        USES = 0 FORGOTTEN(X)
#undef X
    };
    for (int which = 0; which < 2 * USES; which++) {
        struct loop l = loop_new(which % 2 ? SYN_DEVICE_META : SYN_DEVICE_CPU);
        const syn_tensor version = l.cache;
        float buf[2] = {0};
        const char *says = "";
        int k = 0;
        loop_step(&l, 0);
        const syn_tensor old = l.last;
        CHECK_INT(old.id, 7);
        syn_forget(l.ctx, l.mark, &l.x, 1);
        syn_drop(l.ctx, old); /* not an error, because the tensor has no data */
        CHECK_INT(syn_tensor_spec(l.ctx, old)->rank, 0);
        CHECK_INT(syn_ctx_status(l.ctx), SYN_OK);
#define X(use, sentence)    \
    if (k++ == which / 2) { \
        use;                \
        says = sentence;    \
    }
        FORGOTTEN(X)
#undef X
        CHECK_INT(syn_ctx_status(l.ctx), SYN_E_INVALID);
        CHECK_HAS(syn_ctx_error(l.ctx)->text, says);
        syn_ctx_free(l.ctx);
    }
}

/* The row that owns a pinned storage is kept, and so is the storage of a kept view. Parameters
   created since the mark are removed. */
static void test_pins_views_parameters(void) {
    for (int device = 0; device < 2; device++) {
        struct loop l = loop_new(device ? SYN_DEVICE_META : SYN_DEVICE_CPU);
        const syn_spec flat = {SYN_F32, 1, {2}};
        const float four[2] = {4, 4}, two[2] = {2, 2};
        syn_param(l.ctx, "later", &flat, SYN_WHOLE, SYN_INIT_ONE, 0, -1, 1);
        const syn_tensor pinned = syn_scale(l.ctx, l.x, 4);
        const syn_tensor twice = syn_scale(l.ctx, l.x, 2);
        const syn_tensor view = syn_reshape(l.ctx, twice, (const int64_t[]){2}, 1);
        syn_pin(l.ctx, pinned);
        syn_push_scope(l.ctx, "open"); /* this scope was opened since the mark and stays open */
        syn_forget(l.ctx, l.mark, &view, 1);
        CHECK_INT(syn_ctx_trace(l.ctx)->n_tensors, 6);
        CHECK(holds(l.ctx, pinned, four, 2) && holds(l.ctx, view, two, 2));
        CHECK(holds(l.ctx, twice, two, 2)); /* the view keeps its storage */
        CHECK_INT(syn_ctx_param_count(l.ctx), 1);
        CHECK_INT(syn_find_param(l.ctx, "later").id, 0);
        syn_push_scope(l.ctx, "inner");
        syn_add(l.ctx, view, view);
        const syn_trace *t = syn_ctx_trace(l.ctx);
        CHECK_STR(syn_trace_text(t, t->nodes[1].scope), "open.inner");
        /* This unpin releases the storage, and the next syn_forget removes its row. */
        syn_unpin(l.ctx, pinned);
        syn_forget(l.ctx, l.mark, NULL, 0);
        CHECK_INT(t->n_tensors, 3);
        CHECK_INT(syn_ctx_status(l.ctx), SYN_OK);
        syn_ctx_free(l.ctx);
    }
}

/* ---- The same program with and without forgetting ---- */

/* Forgets in some steps, back to the first mark or to a later one. Live tensors are kept. */
static syn_mark marks[3];
static int n_forgotten;

static void forget_some(program *p, int step) {
    const int where = step % 7;
    if (where == 2 || where == 5) marks[1 + where / 4] = syn_ctx_mark(p->ctx);
    if (where != 3 && where != 6) return;
    syn_tensor keep[65];
    memcpy(keep, p->live, (size_t)p->n_live * sizeof *keep);
    keep[p->n_live] = p->cache;
    syn_forget(p->ctx, marks[step / 7 % 3], keep, p->n_live + 1);
    n_forgotten++;
}

static void test_random_programs(void) {
    for (uint64_t seed = 0; seed < 60; seed++) {
        const syn_device device = seed % 3 ? SYN_DEVICE_META : SYN_DEVICE_CPU;
        static program all, part;
        syn_error err = {0};
        syn_graph *graph = NULL;
        all = (program){.ctx = ref_ctx(device, NULL), .seed = 3};
        part = (program){.ctx = ref_ctx(device, NULL), .seed = 3, .between = forget_some};
        for (int i = 0; i < 3; i++) marks[i] = syn_ctx_mark(part.ctx);
        n_forgotten = 0;
        program_run(&all, seed, 80);
        program_run(&part, seed, 80);
        const syn_trace *a = syn_ctx_trace(all.ctx), *t = syn_ctx_trace(part.ctx);
        CHECK_MSG(syn_ctx_status(part.ctx) == SYN_OK, "seed %d: %s", (int)seed,
                  syn_ctx_error(part.ctx)->text);
        CHECK(n_forgotten > 20 && t->n_nodes < a->n_nodes / 2 + 40);
        CHECK_OK(syn_trace_verify(t, &err), err);
        CHECK_MSG(syn_trace_hash(t) == syn_trace_hash(a), "seed %d", (int)seed);
        CHECK_MSG(trace_difference(t, a) == 0, "seed %d: number %u", (int)seed,
                  trace_difference(t, a));
        CHECK_OK(syn_trace_graph(&graph, &t, 1, NULL, &err), err);
        CHECK_OK(syn_graph_verify(graph, &err), err);
        syn_graph_free(graph);
        CHECK_INT(all.n_live, part.n_live);
        for (int i = 0; i < all.n_live; i++) {
            const size_t bytes = (size_t)syn_spec_bytes(syn_tensor_spec(all.ctx, all.live[i]));
            static char x[REF_MAX * 4], y[REF_MAX * 4];
            CHECK_INT(all.live[i].id, part.live[i].id);
            if (device == SYN_DEVICE_META) continue;
            CHECK(syn_tensor_read(all.ctx, all.live[i], x, bytes) == SYN_OK &&
                  syn_tensor_read(part.ctx, part.live[i], y, bytes) == SYN_OK &&
                  memcmp(x, y, bytes) == 0);
        }
        syn_ctx_free(all.ctx);
        syn_ctx_free(part.ctx);
    }
}

/* The graph of the remaining steps equals that part of the whole run's graph, with two exceptions:
   tensors from before these steps are inputs, and indices and collectives are counted from the
   first remaining step. */
static void test_window_as_graph(void) {
    struct loop all = loop_new(SYN_DEVICE_META), part = loop_new(SYN_DEVICE_META);
    syn_mark mark = part.mark;
    for (int i = 0; i < 30; i++) {
        loop_step(&all, i);
        loop_step(&part, i);
        if (i == 13) mark = syn_ctx_mark(part.ctx); /* keeps steps 10 to 13 */
        if (i < 10 || i > 13) syn_forget(part.ctx, mark, &part.x, 1);
    }
    const syn_trace *t[2] = {syn_ctx_trace(all.ctx), syn_ctx_trace(part.ctx)};
    syn_graph *graph[2];
    static syn_cursor cursor[2], tensor[2];
    syn_error err = {0};
    for (int k = 0; k < 2; k++) CHECK_OK(syn_trace_graph(&graph[k], &t[k], 1, NULL, &err), err);
    CHECK_OK(syn_graph_verify(graph[1], &err), err);
    CHECK_INT(graph[1]->ranks[0].n_nodes, 4 * 4);
    for (uint32_t i = 0; i < 16; i++) {
        const syn_node *a = syn_graph_node(graph[0], 0, 40 + i, &cursor[0]);
        const syn_node *b = syn_graph_node(graph[1], 0, i, &cursor[1]);
        CHECK(a->id == 41 + i && a->id == b->id && a->step == b->step && a->step == 10 + i / 4);
        CHECK_STR(a->op, b->op);
        CHECK_STR(a->label, b->label);
        CHECK_STR(a->scope, b->scope);
        CHECK(a->flops == b->flops && a->bytes_read == b->bytes_read && a->phase == b->phase);
        CHECK(a->n_attributes == b->n_attributes && a->n_inputs == b->n_inputs);
        for (uint32_t k = 0; k < a->n_attributes; k++)
            CHECK_INT(a->attributes[k].i64, b->attributes[k].i64);
        for (uint32_t k = 0; k < a->n_inputs; k++) {
            const syn_graph_tensor *x = syn_graph_tensor_at(graph[0], 0, a->inputs[k], &tensor[0]);
            const syn_graph_tensor *y = syn_graph_tensor_at(graph[1], 0, b->inputs[k], &tensor[1]);
            CHECK_STR(x->name, y->name);
            CHECK(syn_spec_equal(&x->spec, &y->spec));
            const bool inside = x->producer != SYN_NO_NODE && x->producer >= 40;
            CHECK_INT(y->producer, inside ? x->producer - 40 : SYN_NO_NODE);
        }
    }
    CHECK_MSG(trace_difference(t[1], t[0]) == 0, "number %u", trace_difference(t[1], t[0]));
    CHECK_INT(syn_trace_hash(t[1]), syn_trace_hash(t[0]));
    for (int k = 0; k < 2; k++) {
        syn_cursor_free(&cursor[k]);
        syn_cursor_free(&tensor[k]);
        syn_graph_free(graph[k]);
    }
    syn_ctx_free(all.ctx);
    syn_ctx_free(part.ctx);
}

/* ---- Memory ---- */

/* Each step uses new attributes, shapes and layouts. They are interned, and their entries must be
   freed, too. */
static void test_constant_memory(void) {
    for (int device = 0; device < 2; device++) {
        struct loop l = loop_new(device ? SYN_DEVICE_META : SYN_DEVICE_CPU);
        size_t after = 0;
        for (int64_t i = 0; i < 20000; i++) {
            loop_step(&l, i);
            const syn_tensor a = syn_scale(l.ctx, l.x, (double)i);
            const syn_spec new_shape = {SYN_F32, 2, {i % 5000 + 3, 2}};
            const syn_tensor b = syn_input(l.ctx, "b", &new_shape, NULL);
            syn_slice(l.ctx, syn_permute(l.ctx, b, (const int[]){1, 0}, 2), 1, i % 5000 + 1, 1);
            syn_name(l.ctx, a, i % 2 ? "odd" : "even");
            syn_forget(l.ctx, l.mark, &l.x, 1);
            if (i == 20) after = syn_trace_memory_bytes(syn_ctx_trace(l.ctx));
        }
        CHECK_INT(syn_ctx_status(l.ctx), SYN_OK);
        CHECK_INT(syn_trace_memory_bytes(syn_ctx_trace(l.ctx)), after);
        CHECK_INT(l.ctx->storages.used_bytes, 3 * 256);
        CHECK_INT(syn_ctx_trace(l.ctx)->n_steps, 1);
        syn_ctx_free(l.ctx);
    }
}

/* Without hashing, a trace from which a row was removed has no hash. Everything else is the
   same. */
static void test_without_hashing(void) {
    struct loop all = loop_new(SYN_DEVICE_META), part = loop_new(SYN_DEVICE_META);
    syn_ctx_set_hashing(part.ctx, false);
    const syn_trace *a = syn_ctx_trace(all.ctx), *t = syn_ctx_trace(part.ctx);
    for (int i = 0; i < 6; i++) {
        loop_step(&all, i);
        loop_step(&part, i);
        if (i == 0) CHECK(syn_trace_hash(t) == syn_trace_hash(a));
        if (i == 3) syn_forget(part.ctx, part.mark, &part.x, 1);
        if (i >= 3) CHECK_INT(syn_trace_hash(t), 0);
        /* Turning hashing on again does not restore the hash. */
        if (i == 4) syn_ctx_set_hashing(part.ctx, true);
    }
    CHECK_INT(t->n_nodes, 9);
    CHECK_MSG(trace_difference(t, a) == 0, "number %u", trace_difference(t, a));
    syn_ctx_free(all.ctx);
    syn_ctx_free(part.ctx);
}

/* Each allocation fails once. The context must fail, and its recorded rows must be valid. */
static void test_out_of_memory(void) {
    bool done = false;
    for (uint64_t n = 0; !done; n++) {
        struct loop l = loop_new(SYN_DEVICE_META);
        syn_error err = {0};
        for (int i = 0; i < 3; i++) loop_step(&l, i);
        syn_memory_fail_after(n);
        syn_forget(l.ctx, l.mark, &l.x, 1);
        syn_memory_fail_after(SYN_MEMORY_NEVER);
        done = syn_ctx_status(l.ctx) == SYN_OK;
        if (!done) CHECK_INT(syn_ctx_status(l.ctx), SYN_E_NOMEM);
        CHECK_OK(syn_trace_verify(syn_ctx_trace(l.ctx), &err), err);
        CHECK_INT(syn_ctx_trace(l.ctx)->n_nodes, done ? 1 : 13);
        CHECK(n < 50);
        syn_ctx_free(l.ctx);
    }
}

static const test_case cases[] = {
    {"what stays", test_forget_keeps},
    {"what goes", test_forget_removes},
    {"pins, views, parameters", test_pins_views_parameters},
    {"random programs", test_random_programs},
    {"window as graph", test_window_as_graph},
    {"constant memory", test_constant_memory},
    {"without hashing", test_without_hashing},
    {"out of memory", test_out_of_memory},
};
TEST_MAIN(cases)
