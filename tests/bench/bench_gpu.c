/* ./dev bench gpu: measures the prediction error on this machine's GPU. Step times are predicted
   with a hardware file of `calibrate --measure --device cuda` and compared with measured times. The
   models are the size of GPT-2 124M and 355M, which calibration does not run. SYN_HW names the
   hardware file; without it, the benchmark calibrates first. The exit status is 1 if the mean error
   exceeds its limit, and 77 without a device. The argument "dry" runs tiny models without a
   limit. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/bench.h"
#include "tools/calibrate/measure.h"

typedef struct row {
    const char *what;
    /* new_tokens: 0 for training, 2 for prefill. */
    int64_t layers, hidden, batch, tokens, new_tokens;
} row;

static const row rows[] = {{"decode", 12, 768, 1, 128, 17},  {"decode", 12, 768, 16, 512, 17},
                           {"prefill", 12, 768, 4, 512, 2},  {"training", 12, 768, 8, 512, 0},
                           {"decode", 24, 1024, 1, 128, 17}, {"prefill", 24, 1024, 8, 1024, 2},
                           {"training", 24, 1024, 4, 512, 0}};

static bool dry;

static job job_of(const row *r, syn_dtype dtype) {
    job j = {.layers = r->layers,
             .hidden = r->hidden,
             .vocabulary = 50304,
             .shapes = {{r->batch, r->tokens, r->new_tokens}},
             .dtype = dtype,
             .device = SYN_DEVICE_CUDA,
             .ranks = 1,
             .threads = 1,
             .steps = 5};
    if (!dry) return j;
    j.layers = 1;
    j.hidden = j.vocabulary = 64;
    j.shapes[0] = (struct job_shape){1, 8, r->new_tokens > 2 ? 3 : r->new_tokens};
    j.steps = 2;
    return j;
}

static bool is_of(const row *r, syn_phase phase) {
    const bool decode = phase == SYN_PHASE_DECODE, prefill = phase == SYN_PHASE_PREFILL;
    return r->new_tokens == 0 ? !decode && !prefill : r->new_tokens == 2 ? prefill : decode;
}

/* The predicted time of one step in ns, if its ops run one after the other. */
static double predicted(const row *r, const job *j, const timed_ops *ops, const syn_hardware *hw) {
    const double steps = is_of(r, SYN_PHASE_DECODE) ? (double)(j->shapes[0].new_tokens - 1) : 1;
    double ns = 0;
    for (size_t i = 0; i < ops->n; i++)
        if (is_of(r, ops->at[i].node.phase))
            ns += (double)ops->at[i].n * syn_hardware_predict_ns(hw, &ops->at[i].node, NULL, 0);
    return ns / (steps * j->steps);
}

static double error_of(const row *r, syn_dtype dtype, const syn_hardware *hw) {
    const job j = job_of(r, dtype);
    timed_ops ops = {0};
    job_times times = {0};
    syn_error err = {0};
    if (job_run(&j, &ops, &times, &err) != SYN_OK) die(err.text);
    const double want = r->new_tokens == 0   ? times.training_ns
                        : r->new_tokens == 2 ? times.prefill_ns
                                             : times.decode_ns,
                 got = predicted(r, &j, &ops, hw);
    printf("| %lld x %lld | %s | %lld x %lld | %s | %.3f -> %.3f | %+.1f %% |\n",
           (long long)j.layers, (long long)j.hidden, r->what, (long long)j.shapes[0].batch,
           (long long)j.shapes[0].tokens, syn_dtype_name(dtype), want / 1e6, got / 1e6,
           100 * (got / want - 1));
    timed_ops_free(&ops);
    return fabs(got / want - 1);
}

static void load(syn_hardware *hw) {
    syn_error err = {0};
    const char *file = getenv("SYN_HW");
    if (syn_hardware_load(hw, file ? file : "h100", NULL, &err) != SYN_OK) die(err.text);
    if (!file && measure_device(hw, SYN_DEVICE_CUDA, false, &err) != SYN_OK) die(err.text);
}

int main(int argc, char **argv) {
    static const syn_dtype types[] = {SYN_F32, SYN_BF16};
    static syn_hardware hw;
    const syn_backend *backend;
    syn_error err = {0};
    double sum = 0, n = 0;
    dry = argc > 1 && strcmp(argv[1], "dry") == 0;
    if (syn_backend_get(SYN_DEVICE_CUDA, &backend, &err) != SYN_OK) {
        printf("not measured: %s\n", err.text);
        return 77;
    }
    load(&hw);
    printf(
        "\n| layers x hidden | step | batch x tokens | type | ms, measured -> predicted | error |\n"
        "|---|---|---|---|---|---|\n");
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++, n++)
            sum += error_of(&rows[i], types[t], &hw);
    printf("\n");
    line("mean error of predicted times", 100 * sum / n, "%", dry ? 1e9 : 25, true);
    return missed > 0;
}
