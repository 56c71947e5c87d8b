/* Implements gpt_graph.h: runs a small GPT on meta and joins the graphs of its ranks. */
#include "tests/support/gpt_graph.h"

#include "models/generate.h"
#include "syntorch/base/memory.h"
#include "syntorch/hardware/hardware.h"
#include "tests/support/ranks.h"
#include "tests/support/test.h"

enum { MAX_RANKS = 8 };

/* The contexts of a graph. They live as long as the graph, which is a view of their traces. */
typedef struct run {
    syn_graph_source source; /* the functions of the view, except `free`, which is free_graph */
    const syn_graph_source *view;
    const gpt_shape *shape;
    syn_hardware hw;
    syn_ctx *ctx[MAX_RANKS];
} run;

static void free_graph(syn_graph *graph) {
    run *r = (run *)(void *)(uintptr_t)graph->source;
    r->view->free(graph);
    drop_ranks(MAX_RANKS, r->ctx);
    free(r);
}

static syn_status run_rank(const test_rank *me, void *arg, syn_error *err) {
    const gpt_shape *s = ((run *)arg)->shape;
    const syn_model_config config = {.family = &syn_gpt_family,
                                     .n_layer = s->layers,
                                     .n_embd = s->width,
                                     .n_head = s->heads,
                                     .n_positions = s->tokens + s->steps + 1,
                                     .n_inner = 4 * s->width,
                                     .vocab_size = s->vocab,
                                     .norm_epsilon = 1e-5,
                                     .initializer_range = 0.02,
                                     .activation = SYN_GELU_TANH,
                                     .tied = true};
    syn_model *gpt = NULL;
    const syn_model_options how = {.tp = me->tp};
    SYN_TRY(syn_model_new(&gpt, me->ctx, &config, &how, err));
    syn_generation g = {.batch = 1,
                        .prompt_tokens = s->tokens,
                        .new_tokens = s->steps + 1,
                        .sampling = {1.0, 0, 1.0, 1, 0}};
    const syn_status status = syn_generate(gpt, &g, err);
    syn_model_free(gpt);
    return status;
}

static syn_status add_metadata(syn_graph *g, const gpt_shape *s, syn_error *err) {
    const syn_attribute facts[] = {{.name = "model", .type = SYN_VALUE_TEXT, .text = "gpt3-style"},
                                   {.name = "layers", .type = SYN_VALUE_I64, .i64 = s->layers},
                                   {.name = "tp", .type = SYN_VALUE_I64, .i64 = s->tp},
                                   {.name = "dtype", .type = SYN_VALUE_TEXT, .text = "f32"}};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        SYN_TRY(syn_graph_set_meta(g, &facts[i], err));
    return SYN_OK;
}

syn_graph *gpt_graph(const gpt_shape *shape, bool with_times) {
    const syn_trace *traces[MAX_RANKS];
    run *r = calloc(1, sizeof *r);
    syn_graph *g = NULL;
    syn_error err = {0};
    NEED(r != NULL, "out of memory");
    r->shape = shape;
    NEED_OK(syn_hardware_load(&r->hw, "a100-80g", NULL, &err), err);
    NEED(keep_ranks(shape->tp, SYN_DEVICE_META, WITHOUT_TRANSPORT, run_rank, r, r->ctx),
         "no trace");
    for (int i = 0; i < shape->tp; i++) traces[i] = syn_ctx_trace(r->ctx[i]);
    NEED_OK(syn_trace_graph(&g, traces, (uint32_t)shape->tp, with_times ? &r->hw : NULL, &err),
            err);
    r->view = g->source;
    r->source = *r->view;
    r->source.free = free_graph;
    g->source = &r->source;
    NEED_OK(add_metadata(g, shape, &err), err);
    return g;
}

syn_graph *small_gpt_graph(void) {
    static const gpt_shape small = {2, 4, 2, 0, 16, 4, 32};
    return gpt_graph(&small, true);
}
