/* Teaching example: your own op, built from the library's ops. In pictures, the op's scope is a
   box. The ops in the scope provide costs, gradients and parallelism. An op with its own kernel
   needs a row in the library's op table instead (docs/extending.md).

       own_op

   The op is the squared sigmoid-weighted unit, silu(x)^2. The program compares it and its gradient
   with the formulas, and draws forward and backward to own_op.svg.

       cc own_op.c $(pkg-config --cflags --libs syntorch) -lm -o own_op */
#include <math.h>
#include <stdio.h>
#include <syntorch/syntorch.h>

enum { N = 16 };

/* x of any shape -> silu(x)^2 of the same shape. */
static syn_tensor squared_silu(syn_ctx *ctx, syn_tensor x) {
    syn_push_scope(ctx, "squared_silu");
    const syn_tensor y = syn_silu(ctx, x);
    const syn_tensor z = syn_mul(ctx, y, y);
    syn_pop_scope(ctx);
    return z;
}

static syn_status run(syn_ctx *ctx, syn_error *err) {
    const syn_spec spec = {SYN_F32, 1, {N}};
    float x[N], y[N], slope[N], apart = 0;
    for (int i = 0; i < N; i++) x[i] = 0.5f * (float)(i - N / 2);
    const syn_tensor in = syn_input(ctx, "x", &spec, x);
    syn_require_grad(ctx, in);
    const syn_tensor out = squared_silu(ctx, in);
    SYN_TRY(syn_backward(ctx, syn_sum_to(ctx, out, NULL, 0)));
    SYN_TRY(syn_tensor_read(ctx, out, y, sizeof y));
    SYN_TRY(syn_tensor_read(ctx, syn_grad(ctx, in), slope, sizeof slope));
    for (int i = 0; i < N; i++) {
        const float s = 1 / (1 + expf(-x[i])), silu = x[i] * s, rises = s * (1 + x[i] - silu);
        apart = fmaxf(apart, fabsf(y[i] - silu * silu) + fabsf(slope[i] - 2 * silu * rises));
    }
    if (!(apart < 1e-5f)) return SYN_FAIL(err, SYN_E_INVALID, "%g from the formulas", apart);
    printf("the op and its gradient match the formulas\n");
    const syn_trace *trace = syn_ctx_trace(ctx);
    const syn_export_options how = {.title = "A custom op, forward and backward"};
    syn_graph *graph = NULL;
    SYN_TRY(syn_trace_graph(&graph, &trace, 1, NULL, err));
    const syn_status s = syn_export_file(graph, NULL, &how, "own_op.svg", err);
    syn_graph_free(graph);
    return s;
}

int main(void) {
    syn_error err = {0};
    syn_ctx *ctx = NULL;
    syn_status s = syn_ctx_new(&ctx, SYN_DEVICE_CPU, NULL, &err);
    if (s == SYN_OK) s = run(ctx, &err);
    if (ctx && s != SYN_OK) syn_ctx_check(ctx, &err); /* if a builder failed, gets its message */
    if (s != SYN_OK) fprintf(stderr, "own_op: %s\n", err.text);
    syn_ctx_free(ctx);
    return s != SYN_OK || fflush(stdout) != 0;
}
