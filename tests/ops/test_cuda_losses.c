/* Compares losses on CUDA with the CPU: vocabulary sizes near those of packs and blocks, in any
   layout. */

#include "ops/rules.h"
#include "tests/support/both_devices.h"
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

typedef struct sizes {
    syn_spec logits, targets;
    int64_t rows, classes;
} sizes;

static sizes random_sizes(void) {
    const int64_t width = both_size(ref_int(0, 3) ? 300 : 6000);
    sizes s = {.classes = ref_int(0, 1) ? width : ref_int(1, width)};
    s.logits = (syn_spec){
        (int32_t)both_float(), 3, {both_size(4), both_size(ref_int(0, 9) ? 9 : 1100), width}};
    if (ref_int(0, 19) == 0) s.logits.dims[0] = 0;
    if (s.logits.dims[1] > 9) s.logits.dims[2] = s.classes = ref_int(1, 5);
    s.targets = (syn_spec){SYN_I32, 2, {s.logits.dims[0], s.logits.dims[1]}};
    s.rows = s.logits.dims[0] * s.logits.dims[1];
    return s;
}

/* Random targets, some of which the loss ignores. */
static syn_tensor random_targets(syn_ctx *ctx, const sizes *s) {
    static int32_t targets[4 * 1100];
    for (int64_t i = 0; i < s->rows; i++)
        targets[i] =
            ref_int(0, 5) ? (int32_t)ref_int(0, s->classes - 1) : (int32_t)SYN_IGNORED_TARGET;
    return syn_input(ctx, "targets", &s->targets, targets);
}

static double tolerance(syn_dtype dtype) {
    return dtype == SYN_F32 ? 2e-6 : dtype == SYN_F16 ? 1e-3 : 8e-3;
}

/* Dense rows in any order in memory. */
static syn_tensor random_logits(syn_ctx *ctx, syn_spec spec) {
    const syn_spec turned = {spec.dtype, 3, {spec.dims[1], spec.dims[0], spec.dims[2]}};
    if (ref_int(0, 1)) return both_dense(ctx, spec, -9, 9);
    return syn_permute(ctx, both_dense(ctx, turned, -9, 9), (int[]){1, 0, 2}, 3);
}

static void cross_entropies(both_run *r) {
    const sizes s = random_sizes();
    const syn_spec one = {SYN_F32, 0, {0}};
    const syn_attr attr[1] = {{.i = s.classes}};
    syn_tensor in[3] = {random_logits(r->ctx, s.logits), random_targets(r->ctx, &s)};
    const bool weight = ref_int(0, 1);
    if (weight) in[2] = both_dense(r->ctx, one, 0.1, 2);
    syn__call_op(r->ctx, SYN_OP_CROSS_ENTROPY, in, weight ? 3 : 2, attr, 1, NULL, r->out);
    r->n = 2;
    r->tol = tolerance((syn_dtype)s.logits.dtype);
}

/* The rank has only some of the classes, or none. */
static void parts(both_run *r) {
    const sizes s = random_sizes();
    const syn_spec known = {SYN_F32, 2, {s.targets.dims[0], s.targets.dims[1]}};
    const syn_attr attr[2] = {{.i = ref_int(0, s.classes)}, {.i = ref_int(0, s.classes)}};
    syn_tensor in[6] = {random_logits(r->ctx, s.logits), random_targets(r->ctx, &s)}, part[3];
    syn__call_op(r->ctx, SYN_OP_CROSS_ENTROPY_PART, in, 2, attr, 2, NULL, part);
    in[2] = both_dense(r->ctx, known, 8, 9);
    in[3] = both_dense(r->ctx, known, 1, 9);
    in[4] = both_dense(r->ctx, known, -9, 9);
    if (ref_int(0, 1)) {
        memcpy(r->out, part, sizeof part);
        r->n = 3;
        r->tol = 2e-6;
        return;
    }
    syn__call_op(r->ctx, SYN_OP_CROSS_ENTROPY_JOIN, in, 5, attr, 2, NULL, r->out);
    r->n = 2;
    r->tol = tolerance((syn_dtype)s.logits.dtype);
}

static void test_cross_entropies(void) {
    both_rounds(cross_entropies, 150);
}

static void test_parts(void) {
    both_rounds(parts, 150);
}

static const test_case cases[] = {{"cross entropies", test_cross_entropies}, {"parts", test_parts}};
TEST_MAIN(cases)
