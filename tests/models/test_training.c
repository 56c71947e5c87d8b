/* Compares training of whole models with PyTorch (tests/reference/make_training_fixture.py):
   losses, gradients, and parameters after three steps. */
#include "models/bert.h"
#include "models/training/data_parallel.h"
#include "models/training/optimizer.h"
#include "models/weights/safetensors.h"
#include "syntorch/gradient.h"
#include "tests/support/device.h"
#include "tests/support/ranks.h"
#include "tests/support/test.h"
#include "tests/support/weights_fixture.h"

enum { STEPS = 3, BATCH = 2, TOKENS = 11 };

enum { MAX_PARAMS = 64 };

/* A full parameter, or its gradient. */
typedef struct whole {
    const syn_safetensors_tensor *in_file;
    float *values;
    int64_t elems;
} whole;

/* The fixture, the sharding and the results of a run. */
typedef struct job {
    const checkpoint *checkpoint;
    const syn_safetensors *want;
    bool fused, dropout, unfused_loss;
    syn_recompute_mode recompute;
    syn_plan shape;
    /* With dropout: the gradient of each parameter in the run of one rank; filled by this run if
       NULL. */
    whole *grads;
    syn_dtype dtype;
    /* For bf16. half: losses and norms of PyTorch's bf16 training, and its distances from double
       precision. apart: the squared distance of the rank's values from the fixture, by kind and
       rank; replicated parameters are counted once. */
    const syn_safetensors *half;
    double *apart[2];
} job;

static double value(const whole *w, int64_t i) {
    return w->in_file ? (double)decode(w->in_file, i) : (double)w->values[i];
}

static const syn_safetensors_tensor *want(const job *j, const char *kind, const char *name) {
    char full[256];
    snprintf(full, sizeof full, "%s.%s", kind, name);
    return syn_safetensors_find(j->want, full);
}

/* This rank's part of the tensor `what` of step t. */
static syn_tensor given(const job *j, syn_ctx *ctx, const syn_mesh *mesh, const char *what, int t) {
    char name[32];
    snprintf(name, sizeof name, "%s.%d", what, t);
    const syn_safetensors_tensor *x = syn_safetensors_find(j->want, name);
    const int64_t share = BATCH / mesh->size[SYN_AXIS_DP];
    const syn_spec spec = {SYN_I32, 2, {share, TOKENS}};
    int32_t ids[BATCH * TOKENS];
    memcpy(ids, x->data, sizeof ids);
    return syn_input(ctx, what, &spec, ids + mesh->index[SYN_AXIS_DP] * share * TOKENS);
}

/* The attention mask: 0 for keys that may be seen, -infinity for others. */
static syn_tensor mask_of(const job *j, syn_ctx *ctx, const syn_mesh *mesh, int t) {
    const syn_tensor counts = given(j, ctx, mesh, "mask", t);
    syn_spec spec = *syn_tensor_spec(ctx, counts);
    int32_t is[BATCH * TOKENS];
    float mask[BATCH * TOKENS];
    const int64_t n = syn_spec_elems(&spec);
    if (syn_tensor_read(ctx, counts, is, (size_t)n * sizeof *is) != SYN_OK) return counts;
    for (int64_t i = 0; i < n; i++) mask[i] = is[i] ? 0 : -INFINITY;
    spec.dtype = SYN_F32;
    return syn_input(ctx, "mask", &spec, mask);
}

/* The loss weight: 1 / the number of labels on all ranks that are not ignored. */
static syn_tensor weight_of(const job *j, syn_ctx *ctx, int t) {
    const syn_spec one = {SYN_F32, 0, {0}};
    char name[32];
    int32_t labels[BATCH * TOKENS];
    int n = 0;
    snprintf(name, sizeof name, "labels.%d", t);
    memcpy(labels, syn_safetensors_find(j->want, name)->data, sizeof labels);
    for (int i = 0; i < BATCH * TOKENS; i++) n += labels[i] != SYN_IGNORED_TARGET;
    return syn_input(ctx, "weight", &one, &(float){1.0f / (float)n});
}

/* The loss of step t. The fixture's labels are already the next tokens, so causal models do not
   shift them. */
static syn_tensor loss_of(const job *j, syn_model *m, const syn_mesh *mesh, int t) {
    syn_ctx *ctx = syn_model_ctx(m);
    const syn_tensor ids = given(j, ctx, mesh, "ids", t), labels = given(j, ctx, mesh, "labels", t);
    const syn_tensor weight = weight_of(j, ctx, t);
    if (syn_model_is_causal(syn_model_get_config(m)))
        return syn_causal_loss(m, ids, labels, weight);
    const syn_tensor types = given(j, ctx, mesh, "types", t), mask = mask_of(j, ctx, mesh, t);
    return syn_bert_mlm_loss(m, syn_bert_forward(m, ids, types, mask), labels, weight);
}

/* Whether a parameter's gradient is zero except for rounding. Adding the same number to all keys
   does not change attention, so this is true for the bias of keys (without rotary embedding, so of
   OPT's k_proj, too). AdamW divides by the gradient's magnitude, which enlarges the rounding to a
   whole step. Keys are the second third of c_attn in GPT-2, and of each head's rows of
   query_key_value in GPT-NeoX, where the rotary embedding covers only some of these rows. */
static bool is_noise(const char *name) {
    const bool opt = strncmp(name, "decoder.", 8) == 0;
    return ref_ends(name, "key.bias") || ref_ends(name, "k_lin.bias") ||
           (opt && ref_ends(name, "k_proj.bias"));
}

enum { NEOX_DEPTH = 6 }; /* head_dim of the fixture */

static bool has_noise(const char *name, int64_t block, int64_t row) {
    return (ref_ends(name, "c_attn.bias") && block == 1) ||
           (ref_ends(name, "query_key_value.bias") && row / NEOX_DEPTH % 3 == 1);
}

/* Whether the gradient is a sum of terms that nearly cancel, so that rounding decides some steps of
   AdamW. This is the case for the bias of keys if the rotary frequencies are low. */
static bool is_nearly_noise(const char *name) {
    return ref_ends(name, "k_proj.bias");
}

/* Whether the gradient is a sum of terms that nearly cancel. Those of queries and keys are, if
   attention is nearly uniform as in the fixture of DistilBERT, because the gradients of a softmax's
   inputs add up to 0. */
static bool cancels(const char *name) {
    return is_nearly_noise(name) || strstr(name, ".q_lin.") || strstr(name, ".k_lin.");
}

static double largest(const whole *w) {
    double most = 0;
    for (int64_t i = 0; w && i < w->elems; i++) most = fmax(most, fabs(value(w, i)));
    return most;
}

/* The distance of this rank's shard from w. If w is a parameter after AdamW, grad is its gradient,
   otherwise NULL. AdamW divides by the size of the gradient, so elements whose gradient may be
   rounding noise, below the tolerance of gradients, are not compared. */
typedef struct off {
    double largest, worst, squares;
} off;

static off compare_shard(const whole *w, const whole *grad, const syn_param_info *p,
                         const float *x) {
    off by = {largest(w), 0, 0};
    const double least = 1e-5 * largest(grad);
    int64_t inner = 1, outer = 1;
    for (int d = 0; d < p->full.rank; d++)
        *(d < p->shard.axis ? &outer : &inner) *= p->full.dims[d];
    const int64_t length = p->full.dims[p->shard.axis], per = inner / length;
    const int64_t block = length / p->shard.parts, part = block / p->shard.count;
    for (int64_t o = 0, at = 0; o < outer; o++)
        for (int64_t b = 0; b < p->shard.parts; b++)
            for (int64_t r = 0; r < part; r++)
                for (int64_t i = 0; i < per; i++, at++) {
                    const int64_t row = b * block + p->shard.index * part + r;
                    const int64_t of = (o * length + row) * per + i;
                    const double v = of < w->elems ? value(w, of) : 0; /* padding is 0 */
                    const bool noise = grad && (has_noise(p->name, b, row) ||
                                                (of < w->elems && fabs(value(grad, of)) < least));
                    const double d = noise ? 0 : (double)x[at] - v;
                    by.worst = fmax(by.worst, fabs(d));
                    by.squares += d * d;
                }
    return by;
}

/* The worst error must be at most tol, relative to the largest value. */
static void check_shard(const whole *w, const whole *grad, const syn_param_info *p, syn_ctx *ctx,
                        syn_tensor got, double tol) {
    const int64_t n = syn_spec_elems(syn_tensor_spec(ctx, got));
    float *x = malloc((size_t)n * sizeof *x);
    CHECK(x && syn_tensor_read_f32(ctx, got, x, (size_t)n) == SYN_OK);
    const off o = compare_shard(w, grad, p, x);
    free(x);
    CHECK_MSG(o.worst <= tol * o.largest, "%s of %s: off by %g of %g", grad ? "after" : "grad",
              p->name, o.worst, o.largest);
}

static whole in_fixture(const job *j, const char *kind, const syn_param_info *p) {
    char name[128];
    const bool bare = strncmp(p->name, "cls.", 4) == 0 || strncmp(p->name, "lm_head", 7) == 0 ||
                      strncmp(p->name, "embed_out", 9) == 0 || strncmp(p->name, "vocab_", 6) == 0;
    const char *prefix = bare ? "" : j->checkpoint->prefix;
    snprintf(name, sizeof name, "%s%s", prefix, p->name);
    const syn_safetensors_tensor *t = want(j, kind, name);
    if (t) return (whole){.in_file = t, .elems = t->elems};
    fprintf(stderr, "the fixture lacks %s.%s\n", kind, name);
    abort();
}

static void check_all(const job *j, const char *kind, syn_ctx *ctx, double tol) {
    for (size_t i = 0; i < syn_ctx_param_count(ctx) && test_failures == 0; i++) {
        const syn_param_info p = syn_ctx_param(ctx, i);
        const bool stepped = strcmp(kind, "after") == 0;
        const whole w = in_fixture(j, kind, &p), grad = in_fixture(j, "grad", &p);
        if (!is_noise(p.name) && !(stepped && is_nearly_noise(p.name)))
            check_shard(&w, stepped ? &grad : NULL, &p, ctx,
                        stepped ? p.tensor : syn_grad(ctx, p.tensor),
                        !stepped && cancels(p.name) ? 4 * tol : tol);
    }
}

/* ---- bf16 ---- */

enum { GRADS, MASTERS };
static const char *const kinds[2] = {"grad", "after"};

/* Adds up the squared distances of this rank's gradients or master weights from the fixture's. */
static syn_status add_distance(const job *j, int kind, syn_ctx *ctx, const syn_mesh *mesh,
                               const syn_optimizer *optimizer, syn_error *err) {
    double *sum = &j->apart[kind][syn_ctx_rank(ctx)];
    const bool first = mesh->index[SYN_AXIS_TP] == 0;
    *sum = 0;
    if (mesh->index[SYN_AXIS_DP] != 0) return SYN_OK;
    for (size_t i = 0; i < syn_ctx_param_count(ctx); i++) {
        const syn_param_info p = syn_ctx_param(ctx, i);
        const size_t n = (size_t)syn_spec_elems(syn_tensor_spec(ctx, p.tensor));
        if (is_noise(p.name) || (p.shard.count == 1 && !first)) continue;
        const whole w = in_fixture(j, kinds[kind], &p), grad = in_fixture(j, "grad", &p);
        float *x = malloc(n * sizeof *x);
        if (!x) return SYN_FAIL_NOMEM(err, n, "numbers");
        syn_status s = kind == GRADS
                           ? syn_tensor_read_f32(ctx, syn_grad(ctx, p.tensor), x, n)
                           : syn_optimizer_get(optimizer, i, SYN_OPTIMIZER_MASTER, x, n, err);
        if (s == SYN_OK) *sum += compare_shard(&w, kind == MASTERS ? &grad : NULL, &p, x).squares;
        free(x);
        SYN_TRY(s);
    }
    return SYN_OK;
}

/* Parameters must equal their rounded master weights. */
static syn_status check_rounded(syn_ctx *ctx, const syn_optimizer *optimizer, syn_error *err) {
    for (size_t i = 0; i < syn_ctx_param_count(ctx); i++) {
        const syn_param_info p = syn_ctx_param(ctx, i);
        const size_t n = (size_t)syn_spec_elems(syn_tensor_spec(ctx, p.tensor));
        float *master = malloc(n * sizeof *master);
        uint16_t *want = malloc(n * sizeof *want), *got = malloc(n * sizeof *got);
        syn_status s = master && want && got ? SYN_OK : SYN_FAIL_NOMEM(err, n, "numbers");
        if (s == SYN_OK) s = syn_optimizer_get(optimizer, i, SYN_OPTIMIZER_MASTER, master, n, err);
        if (s == SYN_OK) s = syn_tensor_read(ctx, p.tensor, got, n * sizeof *got);
        if (s == SYN_OK) {
            syn_half_narrow(master, want, n, SYN_BF16);
            if (memcmp(want, got, n * sizeof *got) != 0)
                s = SYN_FAIL(err, SYN_E_INVALID, "%s is not its master", p.name);
        }
        free(master);
        free(want);
        free(got);
        SYN_TRY(s);
    }
    return SYN_OK;
}

static double of_half(const job *j, const char *what, int i) {
    char name[64];
    snprintf(name, sizeof name, "%s.%s", j->checkpoint->folder, what);
    return (double)decode(syn_safetensors_find(j->half, name), i);
}

static void check_bf16_number(const job *j, const char *kind, int t, double got) {
    const double w = of_half(j, kind, t);
    CHECK_MSG(fabs(got - w) <= 0.02 * w, "%s.%d: %.9g, PyTorch has %.9g", kind, t, got, w);
}

enum { RUNS = 15 };

/* The limit is for one run: another order of summation changes the distance by a fifth. check_bf16
   checks the mean of all runs. */
static void check_distances(const job *j, int ranks, double mean[2]) {
    for (int k = 0; k < 2; k++) {
        const double limit = 1.25 * of_half(j, kinds[k], 0);
        double sum = 0;
        for (int r = 0; r < ranks; r++) sum += j->apart[k][r];
        mean[k] += sqrt(sum) / RUNS;
        CHECK_MSG(sum > 0 && sqrt(sum) <= limit, "%s, %d ranks: %g from double, more than %g",
                  kinds[k], ranks, sqrt(sum), limit);
    }
}

/* There is no fixture with dropout, so the reference is an unfused run on one rank. */
static void check_dropped(const job *j, syn_ctx *ctx) {
    for (size_t i = 0; i < syn_ctx_param_count(ctx) && test_failures == 0; i++) {
        const syn_param_info p = syn_ctx_param(ctx, i);
        const syn_tensor grad = syn_grad(ctx, p.tensor);
        const int64_t n = syn_spec_elems(syn_tensor_spec(ctx, grad));
        whole *w = &j->grads[i];
        if (w->values) {
            if (!is_noise(p.name)) check_shard(w, NULL, &p, ctx, grad, 1e-5);
            continue;
        }
        *w = (whole){.values = malloc((size_t)n * sizeof(float)), .elems = n};
        CHECK(w->values &&
              syn_tensor_read(ctx, grad, w->values, (size_t)n * sizeof(float)) == SYN_OK);
    }
}

/* Sets dropout. The key of each mask is the index of the sample. */
static void drop(const job *j, syn_model *m, const syn_mesh *mesh) {
    const int32_t share = BATCH / mesh->size[SYN_AXIS_DP];
    const syn_spec spec = {SYN_I32, 1, {share}};
    int32_t keys[BATCH];
    for (int32_t b = 0; b < share; b++) keys[b] = 1000 + mesh->index[SYN_AXIS_DP] * share + b;
    const syn_model_dropout how = {.embedding = 0.2,
                                   .attention = 0.3,
                                   .residual = 0.1,
                                   .seed = 5,
                                   .keys = syn_input(syn_model_ctx(m), "keys", &spec, keys)};
    if (j->dropout) syn_model_set_dropout(m, &how);
}

static syn_status number(syn_ctx *ctx, syn_tensor t, double *out) {
    float x = 0;
    const syn_status s = syn_tensor_read(ctx, t, &x, sizeof x);
    *out = (double)x;
    return s;
}

static void check_number(const job *j, const char *kind, int t, double got, double tol) {
    char name[32];
    snprintf(name, sizeof name, "%s.%d", kind, t);
    const double w = (double)decode(syn_safetensors_find(j->want, name), 0);
    CHECK_MSG(fabs(got - w) <= tol * w, "%s: %.9g, PyTorch has %.9g", name, got, w);
}

static syn_status one_step(const job *j, syn_model *m, const syn_mesh *mesh,
                           syn_data_parallel *parallel, syn_optimizer *optimizer, int t,
                           syn_error *err) {
    syn_ctx *ctx = syn_model_ctx(m);
    double loss = 0, norm = 0;
    drop(j, m, mesh);
    syn_tensor total = loss_of(j, m, mesh, t);
    syn_backward(ctx, total);
    SYN_TRY(syn_data_parallel_check(parallel, err));
    if (j->dropout) check_dropped(j, ctx);
    if (j->dropout) return syn_ctx_check(ctx, err);
    if (t == 0 && j->half) SYN_TRY(add_distance(j, GRADS, ctx, mesh, optimizer, err));
    if (t == 0 && !j->half) check_all(j, "grad", ctx, 1e-5);
    SYN_TRY(syn_optimizer_step(optimizer, syn_learning_rate(0.01, t, 2, 6), err));
    if (mesh->group[SYN_AXIS_DP])
        total = syn_all_reduce(ctx, total, SYN_REDUCE_SUM, mesh->group[SYN_AXIS_DP]);
    (void)number(ctx, total, &loss);
    SYN_TRY(number(ctx, syn_optimizer_norm(optimizer), &norm));
    if (j->half) {
        check_bf16_number(j, "loss", t, loss);
        check_bf16_number(j, "norm", t, norm);
        return check_rounded(ctx, optimizer, err);
    }
    check_number(j, "loss", t, loss, 1e-5);
    check_number(j, "norm", t, norm, 1e-5);
    return syn_ctx_check(ctx, err);
}

static syn_status train(syn_comm *comm, void *arg, syn_error *err) {
    const job *j = arg;
    syn_mesh mesh;
    syn_ctx *ctx = NULL;
    syn_model *m = NULL;
    syn_weights *weights = NULL;
    syn_weights_reader *reader = NULL;
    syn_data_parallel *parallel = NULL;
    syn_optimizer *optimizer = NULL;
    syn_model_config config;
    char path[256];
    SYN_TRY(checkpoint_config(j->checkpoint, &config, err));
    syn_plan shape = j->shape;
    shape.kv = syn_model_kv_ranks(&config, shape.tp ? shape.tp : 1);
    SYN_TRY(syn_mesh_open(&mesh, comm, &shape, err));
    const syn_group *tp = mesh.group[SYN_AXIS_TP];
    const syn_optimizer_options how = {.weight_decay = 0.1, .max_grad_norm = 0.5, .tp = tp};
    const syn_model_options options = {.tp = tp,
                                       .kv = mesh.kv,
                                       .heads = SYN_BERT_MLM,
                                       .fused_attention = j->fused,
                                       .recompute = j->recompute,
                                       .unfused_loss = j->unfused_loss,
                                       .dtype = j->dtype};
    snprintf(path, sizeof path, "%s/tests/reference/%s", getenv("SYN_SOURCE"),
             j->checkpoint->folder);
    syn_status s = syn_ctx_new(&ctx, SYN_DEVICE_CPU, comm, err);
    if (s == SYN_OK) s = syn_weights_open(&weights, path, j->checkpoint->family, err);
    if (s == SYN_OK) s = syn_weights_reader_new(&reader, weights, err);
    if (s == SYN_OK) {
        const syn_param_source source = syn_weights_source(reader);
        syn_ctx_set_param_source(ctx, &source);
        s = syn_model_new(&m, ctx, &config, &options, err);
    }
    if (s == SYN_OK)
        s = syn_data_parallel_new(&parallel, ctx,
                                  &(syn_data_parallel_options){.dp = mesh.group[SYN_AXIS_DP]}, err);
    if (s == SYN_OK) s = syn_optimizer_new(&optimizer, ctx, &how, err);
    if (s == SYN_OK) syn_ctx_set_overlap(ctx, true);
    for (int t = 0; t < (j->dropout ? 1 : STEPS) && s == SYN_OK && test_failures == 0; t++)
        s = one_step(j, m, &mesh, parallel, optimizer, t, err);
    if (s == SYN_OK && j->half) s = add_distance(j, MASTERS, ctx, &mesh, optimizer, err);
    if (s == SYN_OK && test_failures == 0 && !j->dropout && !j->half)
        check_all(j, "after", ctx, 1e-5);
    if (s == SYN_OK) s = syn_trace_verify(syn_ctx_trace(ctx), err);
    syn_optimizer_free(optimizer);
    syn_data_parallel_free(parallel);
    syn_model_free(m);
    syn_weights_reader_free(reader);
    syn_weights_free(weights);
    syn_ctx_free(ctx);
    return s;
}

/* Checkpoints from make_llama_fixture.py, make_neox_fixture.py, make_moe_fixture.py,
   make_dense_fixture.py and make_distilbert_fixture.py. */
static const checkpoint llamas[] = {
    {"tiny_llama", &syn_llama_family, SYN_F32, "model.", false, 0},
    {"tiny_mistral", &syn_mistral_family, SYN_F32, "model.", false, 0},
    {"tiny_qwen2", &syn_qwen2_family, SYN_F32, "model.", false, 0},
    {"tiny_qwen3", &syn_qwen3_family, SYN_F32, "model.", false, 0},
    {"tiny_neox", &syn_gpt_neox_family, SYN_F32, "gpt_neox.", false, 0},
    {"tiny_neox_sequential", &syn_gpt_neox_family, SYN_F32, "gpt_neox.", false, 0},
    {"tiny_mixtral", &syn_mixtral_family, SYN_F32, "model.", false, 0},
    {"tiny_qwen2_moe", &syn_qwen2_moe_family, SYN_F32, "model.", false, 0},
    {"tiny_qwen3_moe", &syn_qwen3_moe_family, SYN_F32, "model.", false, 0},
    {"tiny_deepseek_v2", &syn_deepseek_v2_family, SYN_F32, "model.", false, 0},
    {"tiny_deepseek_v3", &syn_deepseek_v3_family, SYN_F32, "model.", false, 0},
    {"tiny_gpt_oss", &syn_gpt_oss_family, SYN_F32, "model.", false, 0},
    {"tiny_distilbert", &syn_distilbert_family, SYN_F32, "distilbert.", false, 0},
    {"tiny_roberta", &syn_roberta_family, SYN_F32, "roberta.", false, 0},
    {"tiny_opt", &syn_opt_family, SYN_F32, "model.", false, 0},
    {"tiny_starcoder2", &syn_starcoder2_family, SYN_F32, "model.", false, 0},
    {"tiny_phi3", &syn_phi3_family, SYN_F32, "model.", false, 0},
    {"tiny_olmo2", &syn_olmo2_family, SYN_F32, "model.", false, 0},
    {"tiny_granite", &syn_granite_family, SYN_F32, "model.", false, 0},
    {"tiny_smollm3", &syn_smollm3_family, SYN_F32, "model.", false, 0},
    {"tiny_gemma2", &syn_gemma2_family, SYN_F32, "model.", false, 0},
    {"tiny_gemma3_text", &syn_gemma3_text_family, SYN_F32, "model.", false, 0},
};

static void check_training(const char *folder, const char *fixture, job *j) {
    char path[256];
    syn_error err = {0};
    syn_safetensors *st;
    for (int i = 0; i < CHECKPOINTS; i++)
        if (strcmp(checkpoints[i].folder, folder) == 0) j->checkpoint = &checkpoints[i];
    for (size_t i = 0; i < sizeof llamas / sizeof *llamas; i++)
        if (strcmp(llamas[i].folder, folder) == 0) j->checkpoint = &llamas[i];
    snprintf(path, sizeof path, "%s/tests/reference/%s", getenv("SYN_SOURCE"), fixture);
    CHECK_OK(syn_safetensors_open(&st, path, &err), err);
    j->want = st;
    const syn_plan *shape = &j->shape;
    const int ranks = (shape->tp ? shape->tp : 1) * (shape->dp ? shape->dp : 1);
    CHECK_OK(syn_local_run(ranks, train, j, &err), err);
    syn_safetensors_free(st);
}

static const syn_plan shapes[] = {{.dp = 1}, {.dp = 2}, {.tp = 2}, {.tp = 2, .dp = 2}, {.tp = 4}};

/* Checks the first n shapes. */
static void check_some_shapes(const char *folder, const char *fixture, size_t n) {
    if (!getenv("SYN_SOURCE")) SKIP("SYN_SOURCE does not say where the fixtures are");
    for (size_t i = 0; i < n && test_failures == 0; i++) {
        job j = {.fused = i % 2 == 1, .unfused_loss = i % 2 == 0, .shape = shapes[i]};
        check_training(folder, fixture, &j);
    }
}

static void check_shapes(const char *folder, const char *fixture) {
    check_some_shapes(folder, fixture, sizeof shapes / sizeof *shapes);
}

/* Dropout masks must be the same fused or unfused, with or without recomputation, and on any number
   of ranks. */
static void check_masks(const char *folder, const char *fixture) {
    whole grads[MAX_PARAMS] = {{0}};
    if (!getenv("SYN_SOURCE")) SKIP("SYN_SOURCE does not say where the fixtures are");
    /* With reduced rounds, runs 0, 7 and 14 are tested. They differ in attention, recomputation and
       shape. */
    const int step = ref_rounds(4) == 4 ? 1 : 7;
    for (int i = 0; i < 15 && test_failures == 0; i += step) {
        job j = {.dropout = true,
                 .fused = i % 2 == 1,
                 .recompute = (syn_recompute_mode)((i + i / 2) % 4),
                 .unfused_loss = i % 4 == 1,
                 .shape = shapes[i / 3],
                 .grads = grads};
        check_training(folder, fixture, &j);
    }
    for (int i = 0; i < MAX_PARAMS; i++) free(grads[i].values);
}

/* The results must not be farther from double precision than PyTorch's bf16 results. Tested on any
   number of ranks, fused or unfused, with or without recomputation. */
static void check_bf16(const char *folder, const char *fixture) {
    double apart[2][4], mean[2] = {0, 0};
    syn_safetensors *half;
    syn_error err = {0};
    job j = {.dtype = SYN_BF16, .apart = {apart[0], apart[1]}};
    if (!getenv("SYN_SOURCE")) SKIP("SYN_SOURCE does not say where the fixtures are");
    CHECK_OK(syn_safetensors_open(&half, reference_path("half_training.safetensors"), &err), err);
    j.half = half;
    for (int i = 0; i < RUNS && test_failures == 0; i++) {
        const syn_plan *shape = &shapes[i / 3];
        j.fused = i % 2 == 1;
        j.recompute = (syn_recompute_mode)((i + i / 2) % 4);
        j.unfused_loss = i % 4 == 1;
        j.shape = *shape;
        check_training(folder, fixture, &j);
        if (test_failures == 0)
            check_distances(&j, (shape->tp ? shape->tp : 1) * (shape->dp ? shape->dp : 1), mean);
    }
    const double slack = ref_on_cuda() ? 1.05 : 1; /* CUDA adds in another order */
    for (int k = 0; k < 2 && test_failures == 0; k++)
        CHECK_MSG(mean[k] <= of_half(&j, kinds[k], 0) * slack,
                  "%s: %g from double, PyTorch's bf16 %g", kinds[k], mean[k],
                  of_half(&j, kinds[k], 0));
    syn_safetensors_free(half);
}

static void test_bf16(void) {
    check_bf16("tiny_gpt2_f32", "training_gpt2.safetensors");
    check_bf16("tiny_bert_f32", "training_bert.safetensors");
}

static void test_gpt(void) {
    check_shapes("tiny_gpt2_f32", "training_gpt2.safetensors");
}

static void test_bert(void) {
    check_shapes("tiny_bert_f32", "training_bert.safetensors");
    check_shapes("tiny_distilbert", "training_distilbert.safetensors");
    check_shapes("tiny_roberta", "training_roberta.safetensors");
}

/* With tp 4, two ranks have the same key/value heads. */
static void test_llama(void) {
    check_shapes("tiny_llama", "training_llama.safetensors");
    check_shapes("tiny_mistral", "training_mistral.safetensors");
    check_shapes("tiny_qwen2", "training_qwen2.safetensors");
    check_shapes("tiny_qwen3", "training_qwen3.safetensors");
}

static void test_dense(void) {
    check_shapes("tiny_starcoder2", "training_starcoder2.safetensors");
    check_shapes("tiny_phi3", "training_phi3.safetensors");
    check_shapes("tiny_olmo2", "training_olmo2.safetensors");
    check_shapes("tiny_granite", "training_granite.safetensors");
    check_shapes("tiny_smollm3", "training_smollm3.safetensors");
    check_shapes("tiny_gemma2", "training_gemma2.safetensors");
    check_shapes("tiny_gemma3_text", "training_gemma3_text.safetensors");
    check_shapes("tiny_opt", "training_opt.safetensors");
}

static void test_neox(void) {
    check_shapes("tiny_neox", "training_neox.safetensors");
    check_shapes("tiny_neox_sequential", "training_neox_sequential.safetensors");
}

/* Only data parallelism; test_pretrain_experts.py has the other forms, which need a trainer. */
static void test_experts(void) {
    check_some_shapes("tiny_mixtral", "training_mixtral.safetensors", 2);
    check_some_shapes("tiny_qwen2_moe", "training_qwen2_moe.safetensors", 2);
    check_some_shapes("tiny_qwen3_moe", "training_qwen3_moe.safetensors", 2);
    check_some_shapes("tiny_deepseek_v2", "training_deepseek_v2.safetensors", 2);
    check_some_shapes("tiny_deepseek_v3", "training_deepseek_v3.safetensors", 2);
    check_some_shapes("tiny_gpt_oss", "training_gpt_oss.safetensors", 2);
}

static void test_masks(void) {
    check_masks("tiny_gpt2_f32", "training_gpt2.safetensors");
    check_masks("tiny_bert_f32", "training_bert.safetensors");
    check_masks("tiny_distilbert", "training_distilbert.safetensors");
    check_masks("tiny_llama", "training_llama.safetensors");
    check_masks("tiny_neox", "training_neox.safetensors");
}

static const test_case cases[] = {
    {"dropout's masks", test_masks},
    {"GPT-2 beside PyTorch", test_gpt},
    {"bf16 beside PyTorch", test_bf16},
    {"BERT, DistilBERT and RoBERTa beside PyTorch", test_bert},
    {"Llama, Mistral and Qwen beside PyTorch", test_llama},
    {"other dense families beside PyTorch", test_dense},
    {"GPT-NeoX beside PyTorch", test_neox},
    {"mixtures of experts beside PyTorch", test_experts},
};
TEST_MAIN(cases)
