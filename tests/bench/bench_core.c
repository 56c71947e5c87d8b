/* ./dev bench core: the cost of recording rows. Each figure is compared with a limit that is
   measured in the same run. The exit status is 1 if a figure misses its limit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "comm/comm.h"
#include "models/generate.h"
#include "ops/blas.h"
#include "syntorch/base/memory.h"
#include "syntorch/context_private.h"
#include "syntorch/mesh.h"
#include "tests/support/bench.h"
#include "tools/cli.h"

struct traced {
    syn_ctx *ctx;
    double seconds; /* time of generating, without that of creating the model */
    size_t nodes;
};

/* Runs one rank of a preset. On meta with tp > 1, it is rank 0 of a world whose other ranks do not
   exist. */
static struct traced trace(syn_device device, const char *preset, int tp, int64_t prompt_tokens,
                           int64_t new_tokens) {
    syn_error err = {0};
    syn_model_config config;
    syn_comm *comm = NULL;
    syn_mesh mesh = {0};
    syn_model *gpt = NULL;
    int32_t *prompt = calloc((size_t)prompt_tokens, sizeof *prompt);
    struct traced t = {0};
    if (syn_model_config_preset(&config, preset, &err) != SYN_OK || !prompt) die(err.text);
    if (tp > 1 && (syn_comm_fake_new(&comm, 0, tp, &err) != SYN_OK ||
                   syn_mesh_open(&mesh, comm, &(syn_plan){.tp = tp}, &err) != SYN_OK))
        die(err.text);
    const syn_model_options how = {
        .tp = mesh.group[SYN_AXIS_TP], .fused_attention = false, .seed = 1};
    const double begin = now_s();
    if (syn_ctx_new(&t.ctx, device, comm, &err) != SYN_OK ||
        syn_model_new(&gpt, t.ctx, &config, &how, &err) != SYN_OK)
        die(err.text);
    const double made = now_s();
    syn_generation g = {.batch = 1,
                        .prompt_tokens = prompt_tokens,
                        .new_tokens = new_tokens,
                        .prompt = prompt,
                        .sampling = {0.0, 0, 1.0, 1, 0}};
    if (syn_generate(gpt, &g, &err) != SYN_OK) die(err.text);
    t.seconds = device == SYN_DEVICE_META ? now_s() - begin : now_s() - made;
    t.nodes = syn_ctx_trace(t.ctx)->n_nodes - 1;
    syn_free(g.tokens);
    syn_model_free(gpt);
    syn_comm_close(comm);
    free(prompt);
    return t;
}

/* The median of the seconds of `runs` traces. *nodes is the number of nodes of the last trace. */
static double median_trace(int runs, syn_device device, const char *preset, int tp, int64_t prompt,
                           int64_t new_tokens, size_t *nodes) {
    double seconds[32];
    for (int i = 0; i < runs; i++) {
        const struct traced t = trace(device, preset, tp, prompt, new_tokens);
        seconds[i] = t.seconds;
        *nodes = t.nodes;
        syn_ctx_free(t.ctx);
    }
    return median(seconds, runs);
}

/* The seconds that it takes to read the clock for one kernel's time. */
static double clock_cost(void) {
    const struct traced t = trace(SYN_DEVICE_CPU, "gpt2", 1, 1, 1);
    const double begin = now_s();
    for (int i = 0; i < 100000; i++) {
        t.ctx->backend->begin(t.ctx->device, 1);
        t.ctx->backend->end(t.ctx->device, 1);
    }
    const double seconds = (now_s() - begin) / 100000;
    syn_ctx_free(t.ctx);
    return seconds;
}

static void gpt3_rank(void) {
    size_t nodes;
    const double seconds = median_trace(5, SYN_DEVICE_META, "gpt3-175b", 8, 2048, 1, &nodes);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("GPT-3 175B, one rank of tp 8, prefill of 2048 tokens, %zu nodes:\n", nodes);
    line("traced without data", seconds, "s", 0.1, true);
    line("peak memory of the process", (double)usage.ru_maxrss / 1024, "MiB", 50e6 / 1048576, true);
}

static void meta_rate(void) {
    size_t nodes;
    const double seconds = median_trace(5, SYN_DEVICE_META, "gpt2", 1, 16, 1000, &nodes);
    printf("gpt2 on meta, 1000 tokens, %zu nodes:\n", nodes);
    line("meta tracing", (double)nodes / seconds, "nodes/s", 1e6, false);
}

/* The bytes include parameter names and tables of shapes, so short traces have more bytes per node
   than long ones. */
static void bytes_a_node(void) {
    const struct traced t = trace(SYN_DEVICE_CPU, "gpt2", 1, 16, 32);
    printf("gpt2 on the CPU, 16 tokens in, 32 out, %zu nodes with their times:\n", t.nodes);
    line("bytes a node", (double)syn_trace_memory_bytes(syn_ctx_trace(t.ctx)) / (double)t.nodes,
         "bytes", 128, true);
    syn_ctx_free(t.ctx);
}

static void prefill(void) {
    size_t nodes, meta_nodes;
    char text[64];
    syn_blas_set_threads(cli_cores());
    printf("gpt2 prefill of 1 x 1024, f32, %s:\n", syn_blas_describe(text, sizeof text));
    const double run = median_trace(3, SYN_DEVICE_CPU, "gpt2", 1, 1024, 1, &nodes);
    const double clocks = clock_cost(),
                 record = median_trace(15, SYN_DEVICE_META, "gpt2", 1, 1024, 1, &meta_nodes);
    printf("  %zu nodes in %.3f s; recorded in %.1f us (on meta, model included), clocks %.2f us a "
           "node\n",
           nodes, run, 1e6 * record, 1e6 * clocks);
    line("recording, of the prefill's time", 100 * (record + (double)nodes * clocks) / run, "%", 1,
         true);
}

int main(void) {
    gpt3_rank(); /* This part is the first, so that the peak memory of the process is its own. */
    meta_rate();
    bytes_a_node();
    prefill();
    return missed ? 1 : 0;
}
