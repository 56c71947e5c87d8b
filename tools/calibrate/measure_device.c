/* Measures a GPU: single ops at growing sizes, the launch overhead in steps of small models, and
   all-reduces between the GPUs of the machine. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "syntorch/base/clock.h"
#include "tools/calibrate/measure.h"
#include "tools/calibrate/probe.h"
#include "tools/cli.h"

/* Models whose steps have almost no work, so that they measure launch overhead. */
static const job decoding = {.layers = 8,
                             .hidden = 64,
                             .vocabulary = 64,
                             .shapes = {{1, 4, 8}},
                             .ranks = 1,
                             .threads = 1,
                             .steps = 3};
static const job training = {.layers = 8,
                             .hidden = 64,
                             .vocabulary = 64,
                             .shapes = {{1, 4, 0}},
                             .ranks = 1,
                             .threads = 1,
                             .steps = 4};
static const job sums = {.shapes = {{1, 1, 1}},
                         .threads = 1,
                         .steps = 20,
                         .first_bits = 8, /* 1 KiB to 256 MiB of f32 */
                         .last_bits = 26,
                         .more_bits = 2};

#define PROBES_NS 60000000000 /* series that begin after this time measure only one size */

typedef struct measuring {
    syn_device device;
    uint64_t begun_ns;
    probed probes;
    timed_ops kernels;        /* ops whose kernels were counted */
    timed_ops of_two, of_all; /* all-reduces */
    fit_errors errors, sum_errors;
} measuring;

/* ---- The host ---- */

static syn_status count_kernels(measuring *m, const job *what, syn_error *err) {
    job j = *what;
    j.device = m->device;
    j.record_work = true;
    j.steps = 1;
    return job_run(&j, &m->kernels, NULL, err);
}

/* Sets *factor to the time per launch in repeated steps, relative to launch_ns. It may be small,
   because a device can launch a repeated step as a whole. Also limits kernel_ns to the time per
   launch, because a kernel that is measured alone may take longer due to the events around it. */
static syn_status measure_steps(measuring *m, const job *what, double *factor, syn_stack *stack,
                                syn_error *err) {
    const bool decodes = what->shapes[0].new_tokens > 0;
    const double steps = decodes ? (double)(what->shapes[0].new_tokens - 1) : 1;
    timed_ops ops = {0};
    job_times times = {0};
    job j = *what;
    j.device = m->device;
    const syn_status s = job_run(&j, &ops, &times, err);
    const double launches = measure_launches(stack, &ops, decodes) / (steps * j.steps);
    timed_ops_free(&ops);
    SYN_TRY(s);
    const double ns = (decodes ? times.decode_ns : times.training_ns) / launches;
    *factor = fmin(fmax(ns / stack->launch_ns, 0.001), 1000);
    stack->kernel_ns = fmin(stack->kernel_ns, ns);
    return SYN_OK;
}

static syn_status measure_host(measuring *m, syn_stack *stack, syn_error *err) {
    double trained;
    stack->launch_ns = m->probes.launch_ns;
    SYN_TRY(measure_steps(m, &decoding, &stack->phases[SYN_PHASE_DECODE].launch, stack, err));
    SYN_TRY(measure_steps(m, &training, &trained, stack, err));
    stack->phases[SYN_PHASE_FORWARD].launch = stack->phases[SYN_PHASE_BACKWARD].launch =
        stack->phases[SYN_PHASE_RECOMPUTE].launch = stack->phases[SYN_PHASE_OPTIMIZER].launch =
            trained;
    return SYN_OK;
}

/* ---- Several devices ---- */

static syn_status sum_over(const measuring *m, int32_t ranks, timed_ops *ops, syn_error *err) {
    job j = sums;
    j.device = m->device;
    j.ranks = ranks;
    SYN_TRY(job_all_reduce(&j, ops, &ranks, err));
    timed_ops_settle(ops);
    return SYN_OK;
}

/* Measures all-reduces over all devices. If there are more than two, also measures all-reduces over
   two devices; the difference between the two gives the time of each additional step of the ring.
   The given constants of links between nodes are kept. */
static syn_status measure_links(measuring *m, syn_hardware *hw, syn_error *err) {
    const int32_t ranks = m->probes.device.devices;
    if (ranks < 2) return SYN_OK;
    SYN_TRY(sum_over(m, ranks, &m->of_all, err));
    if (ranks > 2) SYN_TRY(sum_over(m, 2, &m->of_two, err));
    hw->node_ranks = ranks;
    return measure_library(hw, &m->of_two, &m->of_all, ranks, &m->sum_errors, err);
}

/* ---- Output ---- */

static void print_constants(const syn_hardware *hw, const measuring *m) {
    const syn_stack *s = &hw->stack;
    char memory[32];
    printf("%s, %d multiprocessors, %s\n", hw->name, hw->multiprocessors,
           cli_bytes_text(hw->memory_bytes, memory, sizeof memory));
    printf("  matrix products: %.3g TFLOP/s in f32, %.3g in f16, %.3g in bf16, with %.2f waves of "
           "tiles\n",
           hw->peak_flops_per_ns[SYN_F32] / 1e3, hw->peak_flops_per_ns[SYN_F16] / 1e3,
           hw->peak_flops_per_ns[SYN_BF16] / 1e3, s->matmul_tail);
    printf("  memory: %.4g GB/s; matrix products reach a share of %.2f, other ops %.2f\n",
           hw->memory_bytes_per_ns, s->memory_efficiency, s->vector_efficiency);
    printf("  attention: %.2f of the rate of matrix products; scores are moved %.2g times\n",
           s->attention_efficiency, s->score_passes);
    printf("  overhead per kernel: %.2f us on the device, %.2f us on the host; in repeated steps "
           "%.2f (decoding), %.2f (training)\n",
           s->kernel_ns / 1e3, s->launch_ns / 1e3,
           s->launch_ns / 1e3 * s->phases[SYN_PHASE_DECODE].launch,
           s->launch_ns / 1e3 * s->phases[SYN_PHASE_FORWARD].launch);
    printf("  %d sizes of %d ops and types: mean error %.1f %%, median %.1f %%, bias %+.1f %%\n",
           m->probes.sizes, m->probes.n_series, 100 * m->errors.mean, 100 * m->errors.median,
           100 * m->errors.bias);
}

static void print_links(const syn_hardware *hw, const measuring *m, const char *given) {
    const syn_protocol *p = hw->collectives.protocols;
    if (m->of_all.n == 0) {
        printf("all-reduces: not measured with one device; copied from %s (--hw)\n", given);
        return;
    }
    printf("all-reduces of %d: %.1f us and %.3g GB/s, or %.1f us and %.3g GB/s; mean error of %zu "
           "sizes %.1f %%\n",
           hw->node_ranks, (p[SYN_PROTOCOL_LL].base_ns + p[SYN_PROTOCOL_LL].step_ns) / 1e3,
           p[SYN_PROTOCOL_LL].bytes_per_ns,
           (p[SYN_PROTOCOL_SIMPLE].base_ns + p[SYN_PROTOCOL_SIMPLE].step_ns) / 1e3,
           hw->intra.bytes_per_ns, m->sum_errors.n, 100 * m->sum_errors.mean);
    printf("links between nodes: copied from %s (--hw)\n", given);
}

/* ---- All measurements ---- */

/* Sets *hw to the device's properties. The links keep their values until they are measured. */
static void fill_machine(syn_hardware *hw, const measuring *m) {
    const probed *p = &m->probes;
    syn_hardware own = {.multiprocessors = p->device.multiprocessors,
                        .memory_bytes = p->memory_bytes,
                        .node_ranks = hw->node_ranks,
                        .intra = hw->intra,
                        .inter = hw->inter,
                        .collectives = hw->collectives,
                        .stack = {.name = "syntorch"}};
    snprintf(own.name, sizeof own.name, "%.63s", *p->device.name ? p->device.name : "this-gpu");
    *hw = own;
}

static syn_status measure(measuring *m, syn_hardware *hw, syn_error *err) {
    SYN_TRY(probe_device(&m->probes, m->device, m->begun_ns + PROBES_NS, err));
    SYN_TRY(timed_ops_add(&m->kernels, &m->probes.first, err));
    SYN_TRY(count_kernels(m, &decoding, err));
    SYN_TRY(count_kernels(m, &training, err));
    fill_machine(hw, m);
    measure_kernels(&hw->stack, &m->kernels);
    SYN_TRY(measure_constants(hw, &m->probes.ops, &m->errors, err));
    SYN_TRY(measure_host(m, &hw->stack, err));
    return measure_links(m, hw, err);
}

syn_status measure_device(syn_hardware *hw, syn_device device, bool quiet, syn_error *err) {
    measuring m = {.device = device, .begun_ns = syn__clock_ns()};
    char given[sizeof hw->name];
    snprintf(given, sizeof given, "%s", hw->name);
    const syn_status s = measure(&m, hw, err);
    if (s == SYN_OK && !quiet) {
        print_constants(hw, &m);
        print_links(hw, &m, given);
        printf("measured in %.0f s\n", 1e-9 * (double)(syn__clock_ns() - m.begun_ns));
    }
    probed_free(&m.probes);
    timed_ops_free(&m.kernels);
    timed_ops_free(&m.of_two);
    timed_ops_free(&m.of_all);
    return s;
}
