/* Compares the losses of routers, their gradients and the update of routers' biases with PyTorch
   (tests/reference/make_router_fixture.py). */
#include <math.h>
#include <stdlib.h>

#include "models/causal.h"
#include "syntorch/gradient.h"
#include "tests/support/test.h"
#include "tests/support/weights_fixture.h"

enum { BATCH = 2, TOKENS = 11 };
static const double aux = 0.5, z = 0.125, rate = 0.03125;

static syn_tensor ids_of(syn_ctx *ctx, const syn_safetensors *want, const char *name) {
    const syn_spec spec = {SYN_I32, 2, {BATCH, TOKENS}};
    int32_t ids[BATCH * TOKENS];
    memcpy(ids, syn_safetensors_find(want, name)->data, sizeof ids);
    return syn_input(ctx, name, &spec, ids);
}

static void check_number(const syn_safetensors *want, const char *name, double got) {
    const double w = (double)decode(syn_safetensors_find(want, name), 0);
    CHECK_MSG(fabs(got - w) <= 2e-6 * w, "%s: %.9g, PyTorch has %.9g", name, got, w);
}

/* Compares a tensor with the fixture's `kind`.NAME; tol is relative to the largest element. */
static void check_tensor(const syn_safetensors *want, const char *kind, const syn_param_info *p,
                         syn_ctx *ctx, syn_tensor got, double tol) {
    char name[160];
    double most = 0, worst = 0;
    snprintf(name, sizeof name, "%s.%s%s", kind, strncmp(p->name, "lm_head", 7) ? "model." : "",
             p->name);
    const syn_safetensors_tensor *w = syn_safetensors_find(want, name);
    if (!w) abort();
    float *x = malloc((size_t)w->elems * sizeof *x);
    CHECK(x && syn_tensor_read_f32(ctx, got, x, (size_t)w->elems) == SYN_OK);
    for (int64_t i = 0; i < w->elems; i++) {
        most = fmax(most, fabs((double)decode(w, i)));
        worst = fmax(worst, fabs((double)x[i] - (double)decode(w, i)));
    }
    CHECK_MSG(worst <= tol * most, "%s: off by %g of %g", name, worst, most);
    free(x);
}

static void check_step(syn_model *m, const syn_safetensors *want, syn_tensor losses, int labels) {
    syn_ctx *ctx = syn_model_ctx(m);
    const syn_spec one = {SYN_F32, 0, {0}};
    float loss, more;
    for (size_t i = 0; i < syn_ctx_param_count(ctx); i++)
        syn_require_grad(ctx, syn_ctx_param(ctx, i).tensor);
    const syn_tensor weight = syn_input(ctx, "weight", &one, &(float){1.0f / (float)labels});
    const syn_tensor total =
        syn_causal_loss(m, ids_of(ctx, want, "ids.0"), ids_of(ctx, want, "labels.0"), weight);
    CHECK(syn_tensor_read(ctx, total, &loss, sizeof loss) == SYN_OK);
    syn_backward(ctx, total);
    CHECK(syn_tensor_read(ctx, syn_current_version(ctx, losses), &more, sizeof more) == SYN_OK);
    check_number(want, "loss", (double)loss + (double)more);
    CHECK_MSG(fabs((double)more - (double)decode(syn_safetensors_find(want, "aux"), 0) -
                   (double)decode(syn_safetensors_find(want, "z"), 0)) < 4e-6,
              "the losses are %.9g", (double)more);
    for (size_t i = 0; i < syn_ctx_param_count(ctx); i++) {
        const syn_param_info p = syn_ctx_param(ctx, i);
        check_tensor(want, "grad", &p, ctx, syn_grad(ctx, p.tensor), 1e-5);
    }
    syn_model_update_router_biases(&m, 1, rate, NULL);
    for (size_t i = 0; i < syn_ctx_buffer_count(ctx); i++) {
        const syn_param_info p = syn_ctx_buffer(ctx, i);
        check_tensor(want, "bias", &p, ctx, p.tensor, 1e-7);
    }
}

static int count_labels(const syn_safetensors *want) {
    int32_t labels[BATCH * TOKENS];
    int n = 0;
    memcpy(labels, syn_safetensors_find(want, "labels.0")->data, sizeof labels);
    for (int i = 0; i < BATCH * TOKENS; i++) n += labels[i] != SYN_IGNORED_TARGET;
    return n;
}

/* Recomputed layers add their losses only once, and count their tokens only once. */
static void check_model(const char *folder, const syn_model_family *family, const char *fixture,
                        syn_recompute_mode recompute) {
    const checkpoint c = {folder, family, SYN_F32, "model.", false, 0};
    const syn_spec one = {SYN_F32, 1, {1}};
    syn_safetensors *want;
    syn_model_config config;
    syn_weights *weights;
    syn_weights_reader *reader;
    syn_comm *comm;
    syn_ctx *ctx;
    syn_model *m;
    syn_error err = {0};
    NEED_OK(syn_safetensors_open(&want, reference_path("%s", fixture), &err), err);
    NEED_OK(checkpoint_config(&c, &config, &err), err);
    NEED_OK(syn_weights_open(&weights, reference_path("%s", folder), family, &err), err);
    NEED_OK(syn_weights_reader_new(&reader, weights, &err), err);
    NEED_OK(syn_comm_self_new(&comm, &err), err);
    NEED_OK(syn_ctx_new(&ctx, SYN_DEVICE_CPU, comm, &err), err);
    const syn_param_source source = syn_weights_source(reader);
    const syn_tensor losses = syn_state(ctx, "router_losses", &one);
    const syn_model_options how = {
        .router = {.aux = aux, .z = z, .losses = losses, .count = config.experts.biased},
        .fused_attention = true,
        .recompute = recompute};
    syn_ctx_set_param_source(ctx, &source);
    NEED_OK(syn_model_new(&m, ctx, &config, &how, &err), err);
    check_step(m, want, losses, count_labels(want));
    NEED_OK(syn_ctx_check(ctx, &err), err);
    syn_model_free(m);
    syn_ctx_free(ctx);
    syn_comm_close(comm);
    syn_weights_reader_free(reader);
    syn_weights_free(weights);
    syn_safetensors_free(want);
}

static void test_softmax(void) {
    check_model("tiny_mixtral", &syn_mixtral_family, "router_mixtral.safetensors",
                SYN_RECOMPUTE_NONE);
    check_model("tiny_mixtral", &syn_mixtral_family, "router_mixtral.safetensors",
                SYN_RECOMPUTE_FULL);
}

static void test_sigmoid(void) {
    check_model("tiny_deepseek_v3", &syn_deepseek_v3_family, "router_deepseek_v3.safetensors",
                SYN_RECOMPUTE_NONE);
    check_model("tiny_deepseek_v3", &syn_deepseek_v3_family, "router_deepseek_v3.safetensors",
                SYN_RECOMPUTE_FULL);
}

static const test_case cases[] = {
    {"softmax", test_softmax},
    {"sigmoid", test_sigmoid},
};
TEST_MAIN(cases)
