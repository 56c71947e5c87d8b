/* Predicts the steps of a pool of ranks; see serve.h. The ranks of a pool have the same ops, so one
   rank is recorded. All ops of a step except attention depend only on its number of tokens, and the
   output head only on the number of sequences that get a token. Each number is recorded once, on
   meta, and its predicted times are added up. Attention depends on the lengths of all sequences.
   It is the same in all layers with the same window, so that its time is predicted once per window
   from flops, bytes and tiles of the real lengths. */
#include <string.h>

#include "comm/comm.h"
#include "syntorch/base/memory.h"
#include "syntorch/trace.h"
#include "tools/serve/serve.h"

/* Windows of attention that a model has: full attention, and one sliding window. */
enum { MAX_WINDOWS = 4 };

/* Attention queries of one tile; see syn_extents. */
enum { TILE = 64 };

/* Most tokens of a recorded sequence; fewer than the positions of any model. */
enum { SHORT = 16 };

typedef struct attention {
    syn_node node; /* of one layer */
    int64_t window, layers;
    int64_t depths; /* of a key and a value together */
    int64_t read;   /* elements of both, of which latent attention reads the values as part of the
                       keys */
    int64_t shared; /* key/value heads */
} attention;

/* The times of the ops of a step with a given number of tokens. */
typedef struct step_class {
    bool known;
    serve_time rest, experts; /* experts: also the communication of their tokens */
} step_class;

struct serve_pool {
    serve_pool_options options;
    syn_plan plan;
    syn_comm *comm;
    syn_ctx *ctx;
    syn_mesh mesh;
    syn_model *model;
    step_class *bodies, *heads; /* by number of tokens, and of sequences */
    size_t n_bodies, n_heads;
    attention windows[MAX_WINDOWS];
    int32_t n_windows;
    double weight_bytes, token_bytes;
    int64_t recorded;
};

const serve_pool_options *serve_pool_get(const serve_pool *p) {
    return &p->options;
}

double serve_pool_weight_bytes(const serve_pool *p) {
    return p->weight_bytes;
}

double serve_pool_token_bytes(const serve_pool *p) {
    return p->token_bytes;
}

int64_t serve_pool_recorded(const serve_pool *p) {
    return p->recorded;
}

/* ---- The recorded rank ---- */

static syn_dtype activations(const serve_pool *p) {
    return p->options.f32_activations ? SYN_F32 : p->options.dtype;
}

/* Sets weight_bytes and token_bytes from the tensors of a model whose cache has one block. */
static syn_status count_bytes(serve_pool *p, syn_error *err) {
    const syn_trace *trace = syn_ctx_trace(p->ctx);
    syn_graph *graph;
    syn_cursor cur = {0};
    SYN_TRY(syn_trace_graph(&graph, &trace, 1, NULL, err));
    for (uint32_t i = 0; i < graph->ranks[0].n_tensors; i++) {
        const syn_graph_tensor *t = syn_graph_tensor_at(graph, 0, i, &cur);
        if (!t || t->base != i) continue;
        if (t->flags & SYN_TENSOR_PARAM) p->weight_bytes += (double)syn_spec_bytes(&t->spec);
        else if (t->flags & SYN_TENSOR_STATE)
            p->token_bytes += (double)syn_spec_bytes(&t->spec) / (double)p->options.block_tokens;
    }
    const syn_status s =
        cur.error.code == SYN_OK ? SYN_OK : SYN_FAIL(err, cur.error.code, "%s", cur.error.text);
    syn_cursor_free(&cur);
    syn_graph_free(graph);
    return s;
}

const syn_plan *serve_pool_plan(const serve_pool *p) {
    return &p->plan;
}

syn_model_options serve_pool_model(const serve_pool *p, const syn_mesh *mesh) {
    const syn_group *ep = mesh->ep;
    return (syn_model_options){.tp = mesh->group[SYN_AXIS_TP],
                               .ep = ep,
                               .etp = ep && p->plan.etp > 1 ? mesh->etp : NULL,
                               .experts_of_all = ep ? mesh->experts : NULL,
                               .expert_dp = ep ? mesh->expert_dp : NULL,
                               .router = {.dispatcher = SYN_DISPATCH_ALLGATHER},
                               .fused_attention = true,
                               .dtype = activations(p),
                               .weight_dtype = p->options.dtype};
}

/* Makes the model of rank 0. */
static syn_status make_model(serve_pool *p, syn_error *err) {
    const serve_layout *l = &p->options.layout;
    p->plan = (syn_plan){
        .ranks = serve_ranks(l), .tp = l->tp, .dp = l->dp, .ep = l->ep, .inference = true};
    if (p->plan.ranks % l->ep != 0)
        return SYN_FAIL(err, SYN_E_INVALID, "ep %d does not divide the %d ranks of tp %d x dp %d",
                        l->ep, p->plan.ranks, l->tp, l->dp);
    if (l->ep > 1 && !syn_model_has_experts(p->options.config))
        return SYN_FAIL(err, SYN_E_INVALID, "model %s has no experts: ep has no effect",
                        p->options.config->name);
    SYN_TRY(syn_plan_complete(&p->plan, err));
    SYN_TRY(syn_model_plan_check(p->options.config, &p->plan, err));
    SYN_TRY(syn_comm_fake_new(&p->comm, 0, p->plan.ranks, err));
    SYN_TRY(syn_mesh_open(&p->mesh, p->comm, &p->plan, err));
    SYN_TRY(syn_ctx_new(&p->ctx, SYN_DEVICE_META, p->comm, err));
    syn_ctx_set_hashing(p->ctx, false);
    const syn_model_options how = serve_pool_model(p, &p->mesh);
    SYN_TRY(syn_model_new(&p->model, p->ctx, p->options.config, &how, err));
    SYN_TRY(syn_causal_begin_paged(p->model, 1, p->options.block_tokens, err));
    return count_bytes(p, err);
}

/* Records a step of at least `sequences` sequences with `tokens` tokens in all. Their lengths do
   not matter, so they are short enough for every model. The caller forgets the rows. */
static syn_status record(serve_pool *p, int64_t tokens, int64_t sequences, int64_t n_rows,
                         syn_error *err) {
    const syn_spec spec = {SYN_I32, 2, {1, tokens}};
    if (sequences * SHORT < tokens) sequences = (tokens + SHORT - 1) / SHORT;
    int32_t *lengths = syn_malloc((size_t)sequences * sizeof *lengths);
    if (!lengths) return SYN_FAIL_NOMEM(err, (size_t)sequences * sizeof *lengths, "a step");
    for (int64_t i = 0; i < sequences; i++)
        lengths[i] = (int32_t)(tokens / sequences + (i < tokens % sequences));
    const syn_packed_step step = {.n = sequences,
                                  .queries = lengths,
                                  .keys = lengths,
                                  .max_blocks = tokens / p->options.block_tokens + 1,
                                  .n_rows = n_rows};
    const syn_tensor logits =
        syn_causal_forward_packed(p->model, syn_input(p->ctx, "tokens", &spec, NULL), &step);
    if (p->options.samples && n_rows > 0) (void)syn_argmax(p->ctx, logits);
    syn_free(lengths);
    p->recorded++;
    return syn_ctx_check(p->ctx, err);
}

/* ---- Times of a class ---- */

void serve_time_add(serve_time *t, const serve_time *more, double times) {
    t->ns += times * more->ns;
    for (int i = 0; i < SYN_LIMIT_COUNT; i++) t->parts[i] += times * more->parts[i];
}

static bool is_attention(const syn_node *node) {
    return strcmp(node->op, "paged_attention") == 0;
}

static int64_t attribute(const syn_node *node, const char *name) {
    for (uint32_t i = 0; i < node->n_attributes; i++)
        if (strcmp(node->attributes[i].name, name) == 0) return node->attributes[i].i64;
    return 0;
}

/* Adds a layer's attention to the windows. */
static syn_status add_window(serve_pool *p, const syn_graph *graph, const syn_node *node,
                             syn_cursor *tensors, syn_error *err) {
    const int64_t window = attribute(node, "window");
    for (int32_t i = 0; i < p->n_windows; i++) {
        if (p->windows[i].window != window) continue;
        p->windows[i].layers++;
        return SYN_OK;
    }
    if (p->n_windows == MAX_WINDOWS)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED, "the model has more than %d windows of attention",
                        MAX_WINDOWS);
    const syn_graph_tensor *k = syn_graph_tensor_at(graph, 0, node->inputs[1], tensors);
    const syn_spec keys = k ? k->spec : (syn_spec){0};
    const uint32_t storage = k ? k->base : 0;
    const syn_graph_tensor *v = syn_graph_tensor_at(graph, 0, node->inputs[2], tensors);
    if (!k || !v) return SYN_FAIL(err, tensors->error.code, "%s", tensors->error.text);
    attention *a = &p->windows[p->n_windows++];
    const int64_t both = keys.dims[3] + v->spec.dims[3];
    *a = (attention){.node = *node,
                     .window = window,
                     .layers = 1,
                     .depths = both,
                     .read = v->base == storage ? keys.dims[3] : both,
                     .shared = keys.dims[1]};
    a->node.deps = NULL;
    a->node.attributes = NULL;
    a->node.inputs = a->node.outputs = NULL;
    a->node.n_deps = a->node.n_attributes = a->node.n_inputs = a->node.n_outputs = 0;
    a->node.op = "paged_attention";
    a->node.scope = a->node.label = "";
    return SYN_OK;
}

/* Whether `node` begins or ends the part of a layer that the data-parallel ranks compute together:
   their tokens are gathered before it, and its results are reduce-scattered after it. */
static bool is_border(const serve_pool *p, const syn_node *node) {
    return p->mesh.expert_dp && node->group == p->mesh.expert_dp->id;
}

/* Adds up the times of the recorded nodes. */
static syn_status add_nodes(serve_pool *p, const syn_graph *graph, step_class *out,
                            syn_error *err) {
    const bool first = p->n_windows == 0;
    syn_cursor cur = {0}, tensors = {0};
    syn_status s = SYN_OK;
    bool together = false;
    for (uint32_t i = 0; i < graph->ranks[0].n_nodes && s == SYN_OK; i++) {
        const syn_node *node = syn_graph_node(graph, 0, i, &cur);
        if (!node) s = SYN_FAIL(err, cur.error.code, "%s", cur.error.text);
        else if (is_attention(node)) s = first ? add_window(p, graph, node, &tensors, err) : SYN_OK;
        else {
            const syn_graph_group *group =
                node->group ? syn_graph_group_by_id(graph, node->group) : NULL;
            const bool border = is_border(p, node);
            serve_time t;
            t.ns = syn_hardware_predict_parts(p->options.hw, node, group, 0, t.parts);
            if (border && node->comm != SYN_COMM_REDUCE_SCATTER) together = true;
            serve_time_add(together ? &out->experts : &out->rest, &t, 1);
            if (border && node->comm == SYN_COMM_REDUCE_SCATTER) together = false;
        }
    }
    syn_cursor_free(&tensors);
    syn_cursor_free(&cur);
    return s;
}

static syn_status time_class(serve_pool *p, int64_t tokens, int64_t sequences, int64_t n_rows,
                             step_class *out, syn_error *err) {
    const syn_mark mark = syn_ctx_mark(p->ctx);
    syn_graph *graph = NULL;
    *out = (step_class){.known = true};
    SYN_TRY(record(p, tokens, sequences, n_rows, err));
    const syn_trace *trace = syn_ctx_trace(p->ctx);
    syn_status s = syn_trace_graph(&graph, &trace, 1, p->options.hw, err);
    if (s == SYN_OK) s = add_nodes(p, graph, out, err);
    syn_graph_free(graph);
    syn_forget(p->ctx, mark, NULL, 0);
    return s;
}

/* Whether the machine is a CPU whose kernels were measured. */
static bool is_cpu(const serve_pool *p) {
    return p->options.hw->alone.ranks > 0;
}

/* The number of tokens for which a step is predicted. vLLM pads small steps in the same way,
   because it captures a CUDA graph for each number of tokens. Few steps have more tokens. Steps on
   a CPU are not padded. */
static int64_t rounded(const serve_pool *p, int64_t n) {
    const int64_t to = is_cpu(p) || n <= 16 || n > 256 ? 1 : 8;
    return (n + to - 1) / to * to;
}

static syn_status class_at(step_class **classes, size_t *n, int64_t at, step_class **out,
                           syn_error *err) {
    const size_t before = *n;
    SYN_TRY(syn_grow(classes, n, (size_t)at + 1, sizeof **classes, err));
    if (*n > before) memset(*classes + before, 0, (*n - before) * sizeof **classes);
    *out = &(*classes)[at];
    return SYN_OK;
}

/* The times of all layers, for a step with this number of tokens. */
static syn_status body_of(serve_pool *p, int64_t tokens, const step_class **out, syn_error *err) {
    step_class *c;
    tokens = rounded(p, tokens);
    SYN_TRY(class_at(&p->bodies, &p->n_bodies, tokens, &c, err));
    if (!c->known) SYN_TRY(time_class(p, tokens, 1, 0, c, err));
    *out = c;
    return SYN_OK;
}

/* The times of the output head for this number of sequences: those of a step in which each sequence
   has one token, minus those of a step that needs no logits. */
static syn_status head_of(serve_pool *p, int64_t sequences, const step_class **out,
                          syn_error *err) {
    const step_class *body;
    step_class *c;
    sequences = rounded(p, sequences);
    SYN_TRY(body_of(p, sequences, &body, err));
    SYN_TRY(class_at(&p->heads, &p->n_heads, sequences, &c, err));
    if (!c->known) {
        SYN_TRY(time_class(p, sequences, sequences, sequences, c, err));
        serve_time_add(&c->rest, &body->rest, -1);
    }
    *out = c;
    return SYN_OK;
}

/* ---- Attention of the real lengths ---- */

/* The work of one layer's attention for one sequence, except heads and depths. */
typedef struct lengths {
    double scores, keys, tiled; /* queries * keys; keys that are read; keys by tiles of queries */
    int64_t most, longest;      /* queries and keys of one sequence */
    int64_t sequences;
    double queries;
} lengths;

static void add_lengths(lengths *l, int64_t q, int64_t k, int64_t window) {
    const int64_t reach = window > 0 && window + q - 1 < k ? window + q - 1 : k;
    const double seen = window > 0 && window < k ? (double)window : (double)k - (double)(q - 1) / 2;
    l->scores += (double)(q * reach);
    l->keys += (double)reach;
    l->tiled += (double)((q + TILE - 1) / TILE) * seen;
    l->queries += (double)q;
    l->sequences++;
    if (q > l->most) l->most = q;
    if (k > l->longest) l->longest = k;
}

/* The time of one layer's attention with these lengths. */
static serve_time attention_time(const serve_pool *p, const attention *a, const lengths *l) {
    const double heads = (double)a->node.extents.batch, width = (double)a->depths,
                 bytes = (double)syn_dtype_bytes(activations(p));
    serve_time t;
    syn_node node = a->node;
    node.flops = (uint64_t)(heads * l->scores * (2 * width + 5));
    node.bytes_read = (uint64_t)(bytes * (heads * l->queries * (double)node.extents.inner +
                                          (double)(a->shared * a->read) * l->keys));
    node.bytes_written =
        (uint64_t)(bytes * heads * l->queries * (width - (double)node.extents.inner));
    node.extents.rows = l->most;
    node.extents.columns = (int64_t)(l->tiled + 0.5);
    node.extents.sequences = l->sequences;
    node.extents.longest = l->longest;
    t.ns = syn_hardware_predict_parts(p->options.hw, &node, NULL, 0, t.parts);
    return t;
}

/* A CPU computes sequences with one query and those with more one after the other, at different
   rates. A GPU computes them at the same time. */
static void predict_attention(const serve_pool *p, const attention *a, const serving_step *step,
                              serve_time *out) {
    lengths all[2] = {{0}};
    for (int64_t i = 0; i < step->n; i++) {
        const serving_row *row = &step->rows[i];
        add_lengths(&all[is_cpu(p) && row->queries == 1], row->queries, row->keys, a->window);
    }
    if (step->n == 0) add_lengths(&all[0], 1, 1, a->window);
    bool first = true;
    for (int i = 0; i < 2; i++) {
        if (all[i].most == 0) continue;
        serve_time t = attention_time(p, a, &all[i]);
        if (!first) { /* both are one op */
            t.ns -= t.parts[SYN_LIMIT_LAUNCH];
            t.parts[SYN_LIMIT_LAUNCH] = 0;
        }
        serve_time_add(out, &t, (double)a->layers);
        first = false;
    }
}

/* ---- Steps ---- */

static int64_t tokens_of(const serving_step *step) {
    return step->tokens > 0 ? step->tokens : 1;
}

static int64_t sampled(const serving_step *step) {
    int64_t n = 0;
    for (int64_t i = 0; i < step->n; i++)
        if (step->rows[i].samples) n += 1 + step->rows[i].drafts;
    return n;
}

/* The time of a replica's own part of a step. */
static syn_status predict_replica(serve_pool *p, const serving_step *step, serve_time *out,
                                  syn_error *err) {
    const step_class *body, *head;
    const int64_t n = sampled(step);
    SYN_TRY(body_of(p, tokens_of(step), &body, err));
    *out = body->rest;
    if (n > 0) {
        SYN_TRY(head_of(p, n, &head, err));
        serve_time_add(out, &head->rest, 1);
    }
    for (int32_t i = 0; i < p->n_windows; i++) predict_attention(p, &p->windows[i], step, out);
    return SYN_OK;
}

syn_status serve_pool_predict(serve_pool *p, const serving_step *const *steps, int32_t n,
                              serve_time *out, syn_error *err) {
    int64_t tokens = 0;
    const step_class *shared;
    *out = (serve_time){0};
    for (int32_t i = 0; i < n; i++) {
        serve_time own;
        SYN_TRY(predict_replica(p, steps[i], &own, err));
        if (own.ns > out->ns) *out = own;
        tokens += tokens_of(steps[i]);
    }
    if (!p->mesh.expert_dp) return SYN_OK;
    SYN_TRY(body_of(p, (tokens + n - 1) / n, &shared, err));
    serve_time_add(out, &shared->experts, 1);
    return SYN_OK;
}

syn_status serve_pool_activation_bytes(serve_pool *p, int64_t tokens, int64_t sequences,
                                       double *bytes, syn_error *err) {
    const syn_mark mark = syn_ctx_mark(p->ctx);
    size_t parts[SYN_MEMORY_KINDS];
    SYN_TRY(record(p, tokens, sequences, sequences, err));
    syn_ctx_peak_parts(p->ctx, parts);
    *bytes = (double)parts[SYN_MEMORY_OTHER];
    syn_forget(p->ctx, mark, NULL, 0);
    return SYN_OK;
}

/* ---- Creation ---- */

syn_status serve_pool_new(serve_pool **out, const serve_pool_options *options, syn_error *err) {
    serve_pool *p = syn_calloc(1, sizeof *p);
    if (!p) return SYN_FAIL_NOMEM(err, sizeof *p, "a pool of ranks");
    p->options = *options;
    const syn_status s = make_model(p, err);
    if (s != SYN_OK) serve_pool_free(p);
    else *out = p;
    return s;
}

void serve_pool_free(serve_pool *p) {
    if (!p) return;
    syn_model_free(p->model);
    syn_ctx_free(p->ctx);
    syn_comm_close(p->comm);
    syn_free(p->bodies);
    syn_free(p->heads);
    syn_free(p);
}
