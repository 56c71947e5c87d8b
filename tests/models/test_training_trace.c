/* Tests the trace of a training step. It must be the same on the CPU and on meta, with the memory
   that meta predicts. Its flops, bytes and collectives must match closed formulas (Shoeybi et al.
   2019, sec. 3; Narayanan et al. 2021, appendix), which the independent script expect.py also
   computes. */
#include "syntorch/context_private.h"
#include "syntorch/gradient.h"
#include "tests/support/mpi_job.h"
#include "tests/support/ranks.h"
#include "tests/support/small_training.h"
#include "tests/support/test.h"

enum { STEPS = 2 };

static bool is_gpt(const small_training *t) {
    return t->config == &small_gpt;
}

static void check_same(const small_training *like, syn_device device, int how) {
    small_training j = *like;
    syn_error err = {0};
    j.device = device;
    CHECK_OK((how == IN_THREADS ? syn_local_run : run_without_transport)(
                 small_training_ranks(&j), small_training_rank, &j, &err),
             err);
    for (int r = 0; r < small_training_ranks(&j); r++) {
        CHECK_MSG(j.hash[r] == like->hash[r], "%s, tp %d, dp %d: other rows on rank %d",
                  j.config->name, j.shape.tp, j.shape.dp, r);
        CHECK_MSG(j.peak[r] == like->peak[r], "%s, tp %d, dp %d: %zu bytes, predicted %zu",
                  j.config->name, j.shape.tp, j.shape.dp, like->peak[r], j.peak[r]);
        size_t sum = 0;
        for (int k = 0; k < SYN_MEMORY_KINDS; k++) {
            CHECK_INT(j.parts[r][k], like->parts[r][k]);
            sum += j.parts[r][k];
        }
        CHECK_INT(sum, j.peak[r]);
    }
}

static const syn_plan shapes[] = {{.tp = 1, .dp = 1}, {.tp = 1, .dp = 2}, {.tp = 1, .dp = 4},
                                  {.tp = 2, .dp = 1}, {.tp = 2, .dp = 2}, {.tp = 2, .dp = 4}};

enum { SHAPES = sizeof shapes / sizeof *shapes };

static void check_everywhere(const syn_model_config *config, int micro, syn_dtype dtype) {
    for (int i = 0; i < SHAPES && test_failures == 0; i++) {
        small_training j = {
            .config = config, .shape = shapes[i], .steps = STEPS, .micro = micro, .dtype = dtype};
        syn_error err = {0};
        CHECK_OK(syn_local_run(small_training_ranks(&j), small_training_rank, &j, &err), err);
        check_same(&j, SYN_DEVICE_META, IN_THREADS);
        check_same(&j, SYN_DEVICE_META, WITHOUT_TRANSPORT);
    }
}

static void test_gpt(void) {
    check_everywhere(&small_gpt, 1, SYN_F32);
    check_everywhere(&small_gpt, 1, SYN_BF16);
}

static void test_bert(void) {
    check_everywhere(&small_bert, 1, SYN_F32);
    check_everywhere(&small_bert, 1, SYN_BF16);
}

static void test_accumulation(void) {
    check_everywhere(&small_gpt, 3, SYN_F32);
    check_everywhere(&small_bert, 2, SYN_F32);
    check_everywhere(&small_gpt, 3, SYN_BF16);
}

/* ---- Counts ---- */

typedef struct counts {
    uint64_t flops[SYN_PHASE_COUNT]; /* flops of matrix products */
    /* Number of activation collectives of the tensor-parallel group. */
    int collectives[SYN_PHASE_COUNT];
    uint64_t bytes[SYN_PHASE_COUNT]; /* bytes of these collectives */
    /* Number of collectives with one number per target, of gradient buckets, and of parameter
       buckets. */
    int of_targets, of_gradients, of_params;
    uint64_t gradient_bytes, param_bytes, target_bytes;
    uint64_t adamw_read, adamw_written;
} counts;

static void count_node(counts *c, const syn_graph *graph, const syn_node *n, uint64_t activation) {
    if (n->category == SYN_CATEGORY_MATMUL) c->flops[n->phase] += n->flops;
    if (strcmp(n->op, "adamw") == 0) {
        c->adamw_read += n->bytes_read - 16; /* minus the learning rates and the clipping factor */
        c->adamw_written += n->bytes_written;
    }
    if (n->comm != SYN_COMM_ALL_REDUCE && n->comm != SYN_COMM_BROADCAST) return;
    const bool dp = strncmp(syn_graph_group_by_id(graph, n->group)->name, "dp", 2) == 0;
    if (dp && n->comm == SYN_COMM_BROADCAST) {
        c->of_params++;
        c->param_bytes += n->comm_bytes;
    } else if (dp) {
        c->of_gradients++;
        c->gradient_bytes += n->comm_bytes;
    } else if (n->comm_bytes == activation) {
        c->collectives[n->phase]++;
        c->bytes[n->phase] += n->comm_bytes;
    } else if (n->phase == SYN_PHASE_FORWARD) {
        c->of_targets++;
        c->target_bytes += n->comm_bytes;
    }
}

static void count(counts *c, const syn_ctx *ctx, uint64_t activation) {
    syn_graph *graph = rank_graph(ctx);
    syn_cursor cur = {0};
    *c = (counts){0};
    for (uint32_t i = 0; graph && i < graph->ranks[0].n_nodes; i++)
        count_node(c, graph, syn_graph_node(graph, 0, i, &cur), activation);
    syn_cursor_free(&cur);
    syn_graph_free(graph);
}

static uint64_t number_of_params(const syn_ctx *ctx) {
    int64_t n = 0;
    for (size_t i = 0; i < syn_ctx_param_count(ctx); i++)
        n += syn_spec_elems(syn_tensor_spec(ctx, syn_ctx_param(ctx, i).tensor));
    return (uint64_t)n;
}

/* The flops of matrix products in one rank's forward pass. If the MLP has width 4h, each layer has
   24 B S h^2 + 4 B S^2 h; the function uses the model's own MLP width. The head has 2 B S h V. Both
   numbers are divided by tp. */
static uint64_t forward_flops(const small_training *j, int64_t batch) {
    const syn_model_config *c = j->config;
    const uint64_t h = (uint64_t)c->n_embd, f = (uint64_t)c->n_inner, s = TRAINED_TOKENS,
                   t = (uint64_t)batch * s, tp = (uint64_t)j->shape.tp;
    const uint64_t vocab = ((uint64_t)c->vocab_size + tp - 1) / tp;
    const uint64_t layer = (2 * t * (4 * h * h + 2 * h * f) + 4 * t * s * h) / tp;
    const uint64_t transform = is_gpt(j) ? 0 : 2 * t * h * h; /* in BERT's head, replicated */
    return (uint64_t)c->n_layer * layer + transform + 2 * t * h * vocab;
}

/* Activations and parameters have the model's dtype. Gradients are f32, and so are the other inputs
   and outputs of the optimizer. */
static void check_counts(const small_training *j, const syn_ctx *ctx) {
    const int64_t batch = TRAINED_TEXTS / j->shape.dp;
    const uint64_t size = syn_dtype_bytes(j->dtype), params = number_of_params(ctx);
    const uint64_t activation =
        (uint64_t)batch * TRAINED_TOKENS * (uint64_t)j->config->n_embd * size;
    const int layers = (int)j->config->n_layer, tp = j->shape.tp > 1, dp = j->shape.dp > 1;
    counts c;
    count(&c, ctx, activation);
    CHECK_INT(c.flops[SYN_PHASE_FORWARD], STEPS * forward_flops(j, batch));
    CHECK_INT(c.flops[SYN_PHASE_BACKWARD], 2 * STEPS * forward_flops(j, batch));
    /* Each layer has two collectives in forward and two in backward. The embedding has one in
       forward, and the head has one in backward. */
    CHECK_INT(c.collectives[SYN_PHASE_FORWARD], tp * STEPS * (2 * layers + 1));
    CHECK_INT(c.collectives[SYN_PHASE_BACKWARD], tp * STEPS * (2 * layers + 1));
    CHECK_INT(c.of_targets, tp * STEPS * 3);
    CHECK_INT(c.gradient_bytes, (uint64_t)(dp * STEPS) * 4 * params);
    CHECK_INT(c.param_bytes, (uint64_t)dp * size * params);
    CHECK_INT(c.adamw_read, STEPS * 16 * params);
    CHECK_INT(c.adamw_written, STEPS * (j->dtype == SYN_F32 ? 12u : 14u) * params);
    CHECK(!dp || c.of_gradients == STEPS * c.of_params);
}

static void test_counts(void) {
    const syn_model_config *configs[] = {&small_gpt, &small_bert};
    for (int i = 0; i < 4 * SHAPES && test_failures == 0; i += TEST_REDUCED ? 5 : 1) {
        small_training j = {.config = configs[i % 2],
                            .shape = shapes[i / 4],
                            .dtype = i / 2 % 2 ? SYN_BF16 : SYN_F32,
                            .steps = STEPS,
                            .micro = 1,
                            .device = SYN_DEVICE_META,
                            .keep = true};
        syn_error err = {0};
        CHECK_OK(run_without_transport(small_training_ranks(&j), small_training_rank, &j, &err),
                 err);
        for (int r = 0; r < small_training_ranks(&j); r++) check_counts(&j, j.ctx[r]);
        drop_ranks(small_training_ranks(&j), j.ctx);
    }
}

/* ---- Against expect.py ---- */

/* Runs expect.py for a GPT of these sizes and stores its output in `output`. Returns false on
   failure. */
static bool ask(const small_training *t) {
    const syn_model_config *c = t->config;
    char command[1024];
    snprintf(
        command, sizeof command,
        "python3 '%s/expect.py' --layers %lld --hidden %lld --heads %lld --seq %d --vocab %lld "
        "--ffn %lld --tp %d --dp %d --micro-batch %d --global-batch %d --dtype-bytes 4",
        getenv("SYN_SHARED_TOOLS"), (long long)c->n_layer, (long long)c->n_embd,
        (long long)c->n_head, TRAINED_TOKENS, (long long)c->vocab_size, (long long)c->n_inner,
        t->shape.tp, t->shape.dp, TRAINED_TEXTS / t->shape.dp, TRAINED_TEXTS * t->micro);
    return run_command(command) == 0;
}

/* The number with the key `name` in the object `of` (NULL: at the top level); 0 if it is
   missing. */
static uint64_t expected(const char *of, const char *name) {
    char key[64];
    snprintf(key, sizeof key, "\"%s\":", of ? of : name);
    const char *at = strstr(output, key);
    if (at && of) at = strstr(at, name);
    return at ? strtoull(strchr(at, ':') + 1, NULL, 10) : 0;
}

/* The number of elements of a rank's matrices. Every microbatch of a step except the first adds to
   their gradients. */
static uint64_t matrices(const syn_model_config *c, int tp) {
    const uint64_t h = (uint64_t)c->n_embd, f = (uint64_t)c->n_inner;
    const uint64_t cut =
        (uint64_t)c->n_layer * (4 * h * h + 2 * h * f) + (uint64_t)c->vocab_size * h;
    return cut / (uint64_t)tp + (c->family == &syn_bert_family ? h * h : 0);
}

/* On each rank, BERT has everything that GPT has, and also the rest of its head (an h x h matrix
   applied to each token, with bias and norm), one number per vocabulary entry, and token types. */
static void check_expected(const small_training *t, const syn_ctx *ctx) {
    const syn_model_config *c = t->config;
    const bool bert = c->family == &syn_bert_family;
    const uint64_t h = (uint64_t)c->n_embd, steps = (uint64_t)t->steps,
                   tokens = (uint64_t)(TRAINED_TEXTS / t->shape.dp) * TRAINED_TOKENS;
    const uint64_t more =
        bert ? h * h + 3 * h + (uint64_t)(c->vocab_size / t->shape.tp + c->n_types * c->n_embd) : 0;
    const uint64_t flops = bert ? 2 * tokens * h * h * (uint64_t)t->micro : 0;
    counts n;
    count(&n, ctx, tokens * h * sizeof(float));
    CHECK_INT(number_of_params(ctx), expected(NULL, "params") + more);
    CHECK_INT(n.flops[SYN_PHASE_FORWARD], steps * (expected(NULL, "matrix_flops_forward") + flops));
    CHECK_INT(n.flops[SYN_PHASE_FORWARD] + n.flops[SYN_PHASE_BACKWARD],
              steps * (expected(NULL, "matrix_flops_train") + 3 * flops +
                       (uint64_t)(t->micro - 1) * matrices(c, t->shape.tp)));
    CHECK_INT(
        n.collectives[SYN_PHASE_FORWARD] + n.collectives[SYN_PHASE_BACKWARD],
        steps * (expected("layer_all_reduce", "count") + expected("outside_all_reduce", "count")));
    CHECK_INT(
        n.bytes[SYN_PHASE_FORWARD] + n.bytes[SYN_PHASE_BACKWARD],
        steps * (expected("layer_all_reduce", "bytes") + expected("outside_all_reduce", "bytes")));
    CHECK_INT(n.of_targets, steps * expected("cross_entropy_all_reduce", "count"));
    CHECK_INT(n.target_bytes, steps * expected("cross_entropy_all_reduce", "bytes"));
    CHECK_INT(n.gradient_bytes,
              steps * (expected(NULL, "ddp_gradient_bytes") + (t->shape.dp > 1 ? 4 * more : 0)));
}

/* Uses as many positions as tokens, and a vocabulary size that tp divides, because expect.py has no
   padding. */
static void test_expected(void) {
    if (!getenv("SYN_SHARED_TOOLS")) SKIP("SYN_SHARED_TOOLS does not say where expect.py is");
    for (int i = 0; i < 4 * SHAPES && test_failures == 0; i += TEST_REDUCED ? 5 : 1) {
        syn_model_config config = i % 2 ? small_bert : small_gpt;
        config.n_positions = TRAINED_TOKENS;
        config.vocab_size = 256;
        small_training t = {.config = &config,
                            .shape = shapes[i / 4],
                            .steps = STEPS,
                            .micro = i % 4 < 2 ? 1 : 3,
                            .device = SYN_DEVICE_META,
                            .keep = true};
        const int n = small_training_ranks(&t);
        syn_error err = {0};
        CHECK_OK(run_without_transport(n, small_training_rank, &t, &err), err);
        CHECK_MSG(ask(&t), "%s", output);
        for (int r = 0; r < n; r++) check_expected(&t, t.ctx[r]);
        drop_ranks(n, t.ctx);
    }
}

/* ---- Recomputation of activations ---- */

static void get_grads(syn_model *m, float *to) {
    syn_ctx *ctx = syn_model_ctx(m);
    for (size_t i = 0; i < syn_ctx_param_count(ctx); i++) {
        const syn_tensor g = syn_grad(ctx, syn_ctx_param(ctx, i).tensor);
        const size_t n = (size_t)syn_spec_elems(syn_tensor_spec(ctx, g));
        if (syn_tensor_read(ctx, g, to, n * sizeof *to) != SYN_OK) return;
        to += n;
    }
}

static void check_recompute(const syn_model_config *config, syn_recompute_mode what) {
    enum { ELEMS = 65536 };
    static float want[ELEMS], got[ELEMS];
    size_t peak[2];
    for (int again = 0; again < 2; again++) {
        const syn_model_options how = {.heads = SYN_BERT_MLM,
                                       .recompute = again ? what : SYN_RECOMPUTE_NONE};
        syn_model *m = model_alone(SYN_DEVICE_CPU, config, &how);
        syn_ctx *ctx = syn_model_ctx(m);
        syn_error err = {0};
        syn_require_grads(ctx);
        syn_backward(ctx, small_training_loss(m, TRAINED_TEXTS));
        CHECK_MSG(syn_ctx_status(ctx) == SYN_OK, "%s", syn_ctx_error(ctx)->text);
        memset(again ? got : want, 0, sizeof want);
        get_grads(m, again ? got : want);
        peak[again] = syn_ctx_peak_bytes(ctx);
        CHECK_OK(model_end(m, &err), err);
    }
    CHECK_MSG(memcmp(want, got, sizeof want) == 0, "%s: other gradients", config->name);
    CHECK_MSG(peak[1] < peak[0], "%s: %zu bytes, %zu without", config->name, peak[1], peak[0]);
}

static void test_recompute(void) {
    const syn_model_config *configs[] = {&small_gpt, &small_bert};
    const syn_recompute_mode modes[] = {SYN_RECOMPUTE_FULL, SYN_RECOMPUTE_SELECTIVE,
                                        SYN_RECOMPUTE_OP};
    for (int i = 0; i < 6 && test_failures == 0; i++) check_recompute(configs[i % 2], modes[i / 2]);
    for (int i = 0; i < 6 && test_failures == 0; i++) {
        small_training j = {.config = configs[i % 2],
                            .shape = shapes[SHAPES - 2],
                            .steps = STEPS,
                            .micro = 2,
                            .recompute = modes[i / 2]};
        syn_error err = {0};
        CHECK_OK(syn_local_run(small_training_ranks(&j), small_training_rank, &j, &err), err);
        check_same(&j, SYN_DEVICE_META, IN_THREADS);
        check_same(&j, SYN_DEVICE_META, WITHOUT_TRANSPORT);
    }
}

/* With full recomputation, the products of each layer's forward pass are computed twice, and with
   tp, so are its two all-reduces. With "op", only the second product of attention and of the MLP
   and, unless attention is fused, its two products are computed twice. */
static void test_recompute_counts(void) {
    for (int i = 0; i < 3 * SHAPES && test_failures == 0; i++) {
        small_training j = {.config = &small_gpt,
                            .shape = shapes[i / 3],
                            .steps = STEPS,
                            .micro = 1,
                            .device = SYN_DEVICE_META,
                            .recompute = i % 3 == 0 ? SYN_RECOMPUTE_FULL : SYN_RECOMPUTE_OP,
                            .fused = i % 3 == 2,
                            .keep = true};
        const int64_t batch = TRAINED_TEXTS / j.shape.dp;
        const uint64_t head =
            2 * (uint64_t)batch * TRAINED_TOKENS * (uint64_t)j.config->n_embd *
            (((uint64_t)j.config->vocab_size + (uint64_t)j.shape.tp - 1) / (uint64_t)j.shape.tp);
        counts c;
        syn_error err = {0};
        CHECK_OK(run_without_transport(small_training_ranks(&j), small_training_rank, &j, &err),
                 err);
        count(&c, j.ctx[0],
              (uint64_t)batch * TRAINED_TOKENS * (uint64_t)j.config->n_embd * sizeof(float));
        const uint64_t t = (uint64_t)batch * TRAINED_TOKENS, h = (uint64_t)j.config->n_embd;
        const uint64_t again = (uint64_t)j.config->n_layer *
                               (2 * t * h * (h + (uint64_t)j.config->n_inner) +
                                (j.fused ? 0 : 4 * t * TRAINED_TOKENS * h)) /
                               (uint64_t)j.shape.tp;
        const bool full = j.recompute == SYN_RECOMPUTE_FULL;
        CHECK_INT(c.flops[SYN_PHASE_RECOMPUTE],
                  STEPS * (full ? forward_flops(&j, batch) - head : again));
        if (!j.fused) CHECK_INT(c.flops[SYN_PHASE_BACKWARD], 2 * STEPS * forward_flops(&j, batch));
        CHECK_INT(c.collectives[SYN_PHASE_RECOMPUTE],
                  full && j.shape.tp > 1 ? STEPS * 2 * (int)j.config->n_layer : 0);
        drop_ranks(small_training_ranks(&j), j.ctx);
    }
}

/* ---- Memory ---- */

/* The bytes that must be in memory: parameters, gradients and two moments, and with bf16 also
   master weights. Per layer and token there are activations of 16 widths (inputs of both norms and
   of the four matrices, q, k, v, and gelu's input: Korthikanti et al. 2022, sec. 4, without dropout
   masks). With "op", 9 remain: the layer's input, q, k, v, the output of attention and gelu's
   input. The logits, which are overwritten by their gradient, count twice. */
static double known_bytes(const syn_model_config *c, int64_t params, int64_t tokens,
                          syn_recompute_mode what, syn_dtype dtype) {
    const double size = (double)syn_dtype_bytes(dtype);
    const double width = (double)tokens * (double)c->n_embd;
    const double saved = what == SYN_RECOMPUTE_FULL ? 1 : what == SYN_RECOMPUTE_OP ? 9 : 16;
    const double layers = (double)c->n_layer * saved + (saved < 16 ? 16 : 0);
    return (dtype == SYN_F32 ? 16 : 18) * (double)params +
           size * (layers * width + 2 * (double)tokens * (double)c->vocab_size);
}

static void check_peak(const char *preset, int64_t batch, int64_t tokens, syn_recompute_mode what,
                       syn_dtype dtype) {
    const syn_spec spec = {SYN_I32, 2, {batch, tokens}};
    const syn_model_options options = {
        .fused_attention = true, .heads = SYN_BERT_MLM, .recompute = what, .dtype = dtype};
    const syn_optimizer_options how = {.max_grad_norm = 1};
    syn_model_config config;
    syn_optimizer *optimizer;
    syn_error err = {0};
    int64_t params = 0;
    CHECK_OK(syn_model_config_preset(&config, preset, &err), err);
    syn_model *m = model_alone(SYN_DEVICE_META, &config, &options);
    syn_ctx *ctx = syn_model_ctx(m);
    CHECK_OK(syn_optimizer_new(&optimizer, ctx, &how, &err), err);
    for (size_t i = 0; i < syn_ctx_param_count(ctx); i++)
        params += syn_spec_elems(syn_tensor_spec(ctx, syn_ctx_param(ctx, i).tensor));
    const syn_tensor ids = syn_input(ctx, "ids", &spec, NULL);
    syn_tensor x = ids;
    if (syn_model_is_causal(&config)) x = syn_causal_loss(m, ids, ids, SYN_MEAN);
    else
        x = syn_bert_mlm_loss(m, syn_bert_forward(m, ids, SYN_BERT_NO_TYPES, SYN_NO_MASK), ids,
                              SYN_MEAN);
    syn_backward(ctx, x);
    CHECK_OK(syn_optimizer_step(optimizer, 1e-4, &err), err);
    const double peak = (double)syn_ctx_peak_bytes(ctx);
    const double known = known_bytes(&config, params, batch * tokens, what, dtype);
    CHECK_MSG(peak <= 1.1 * known, "%s in %s: %.0f bytes, 1.1 x %.0f expected", preset,
              syn_dtype_name(dtype), peak, known);
    size_t parts[SYN_MEMORY_KINDS];
    syn_ctx_peak_parts(ctx, parts);
    const double weights = (double)(params * (int64_t)syn_dtype_bytes(dtype)),
                 states = (double)params * (dtype == SYN_F32 ? 8 : 12); /* two moments, masters */
    CHECK_MSG((double)parts[SYN_MEMORY_WEIGHTS] >= weights &&
                  (double)parts[SYN_MEMORY_WEIGHTS] <= weights * 17 / 16,
              "%zu bytes of weights", parts[SYN_MEMORY_WEIGHTS]);
    CHECK_MSG((double)parts[SYN_MEMORY_STATES] >= states &&
                  (double)parts[SYN_MEMORY_STATES] <= states * 17 / 16,
              "%zu bytes of states", parts[SYN_MEMORY_STATES]);
    CHECK(parts[SYN_MEMORY_GRADIENTS] > 0 &&
          (double)parts[SYN_MEMORY_GRADIENTS] <= 4 * (double)params * 17 / 16);
    syn_optimizer_free(optimizer);
    CHECK_OK(model_end(m, &err), err);
}

static void test_peak(void) {
    for (int i = 0; i < 2; i++) {
        const syn_dtype dtype = i == 0 ? SYN_F32 : SYN_BF16;
        check_peak("gpt2", 4, 64, SYN_RECOMPUTE_NONE, dtype);
        check_peak("gpt2", 4, 512, SYN_RECOMPUTE_NONE, dtype);
        check_peak("gpt2", 4, 1024, SYN_RECOMPUTE_FULL, dtype);
        check_peak("gpt2", 4, 1024, SYN_RECOMPUTE_OP, dtype);
        check_peak("bert-base-uncased", 4, 512, SYN_RECOMPUTE_NONE, dtype);
        check_peak("gpt3-13b", 1, 2048, SYN_RECOMPUTE_FULL, dtype);
        check_peak("gpt3-13b", 1, 2048, SYN_RECOMPUTE_OP, dtype);
        check_peak("gpt3-13b", 1, 2048, SYN_RECOMPUTE_NONE, dtype);
    }
}

static int left; /* tensors that a backward pass should have freed */

static void count_left(syn_ctx *ctx, int step, bool after) {
    const syn_trace *t = ctx->trace;
    (void)step;
    for (uint32_t row = 1; after && row < t->n_tensors; row++) {
        const syn_trace_node *n = &t->nodes[t->tensors[row].producer];
        const bool gathered = strcmp(syn_trace_op(t, n)->name, "gather_tokens") == 0;
        const bool temporary =
            n->phase == SYN_PHASE_RECOMPUTE || (n->phase == SYN_PHASE_BACKWARD && gathered);
        left += t->tensors[row].producer && temporary && t->tensors[row].base == row &&
                syn__storage(ctx, row) != NULL;
    }
}

/* A backward pass frees what it gathers or recomputes, also if the rank has not waited for a
   collective because no op needs the result. */
static void test_backward_frees(void) {
    const syn_model_config *configs[] = {&small_gpt, &small_bert};
    for (int i = 0; i < 16 && test_failures == 0; i++) {
        small_training j = {.config = configs[i % 2],
                            .shape = {.tp = 2, .dp = 1},
                            .steps = 1,
                            .micro = 1,
                            .device = SYN_DEVICE_META,
                            .recompute = (syn_recompute_mode)(i / 2 % 4),
                            .fused = i >= 8,
                            .sp = true,
                            .around_backward = count_left};
        syn_error err = {0};
        left = 0;
        CHECK_OK(run_without_transport(2, small_training_rank, &j, &err), err);
        CHECK_MSG(left == 0, "recompute %d: %d tensors", (int)j.recompute, left);
    }
}

/* ---- Padding ---- */

/* The padding token's row gets no gradient. If there is no padding token, every row that was looked
   up gets a gradient. */
static void test_padding(void) {
    const int64_t row[2] = {0, 5};
    for (int i = 0; i < 2; i++) {
        syn_model_config config = small_bert;
        const syn_model_options how = {.heads = SYN_BERT_MLM, .seed = 1};
        const syn_spec spec = {SYN_I32, 2, {1, 4}};
        const int32_t ids[4] = {0, 5, 0, 5};
        float grad[131 * 32];
        syn_error err = {0};
        config.tied = false;
        config.pad_id = i == 0 ? 0 : -1;
        syn_model *m = model_alone(SYN_DEVICE_CPU, &config, &how);
        syn_ctx *ctx = syn_model_ctx(m);
        syn_require_grads(ctx);
        const syn_tensor x = syn_input(ctx, "ids", &spec, ids);
        syn_backward(ctx,
                     syn_bert_mlm_loss(m, syn_bert_forward(m, x, SYN_BERT_NO_TYPES, SYN_NO_MASK), x,
                                       SYN_MEAN));
        const syn_tensor table = syn_find_param(ctx, "embeddings.word_embeddings.weight");
        CHECK_INT(syn_tensor_read_f32(ctx, syn_grad(ctx, table), grad, 131 * 32), SYN_OK);
        for (int k = 0; k < 2; k++) {
            double sum = 0;
            for (int c = 0; c < 32; c++) sum += fabs((double)grad[row[k] * 32 + c]);
            CHECK((sum > 0) == (row[k] != config.pad_id));
        }
        CHECK_OK(model_end(m, &err), err);
    }
}

static const test_case cases[] = {
    {"padding", test_padding},
    {"GPT on all devices", test_gpt},
    {"BERT on all devices", test_bert},
    {"accumulation on all devices", test_accumulation},
    {"counts", test_counts},
    {"counts beside expect.py", test_expected},
    {"recompute", test_recompute},
    {"peak", test_peak},
    {"recompute, counts", test_recompute_counts},
    {"backward frees", test_backward_frees},
};
TEST_MAIN(cases)
