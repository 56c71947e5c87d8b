/* Teaching example: four schedules of a pipeline side by side. GPipe runs all forward passes
   first and must store the activations of all microbatches. 1F1B alternates forward and backward
   passes: the same bubble, less memory. Interleaved stages have several chunks of layers each,
   which divides the bubble by their number but sends more messages. ZB-H1 fills a part of the
   bubble with the computation of weight gradients, which no other stage waits for.

       four_schedules [STAGES [MICROBATCHES]]

   It prints a table, and draws a chart of each schedule, such as four_schedules_1f1b.svg. Nothing
   is computed: times are predicted for A100s. */
#include <stdio.h>
#include <stdlib.h>
#include <syntorch/syntorch.h>

enum { TOKENS = 1024, CHUNKS = 2, MOST_STAGES = 24, SCHEDULES = 4 };

typedef struct stage {
    syn_schedule_shape shape;
    syn_model *chunk[CHUNKS];
} stage;

typedef struct job {
    syn_schedule_shape shape;
    double ns, idle_ns; /* of a step; idle_ns: mean time without work of a stage */
    double peak_bytes[MOST_STAGES];
    int messages; /* that the first stage sends and receives */
} job;

static syn_tensor forward(void *arg, int chunk, int microbatch, syn_tensor x) {
    syn_model *model = ((stage *)arg)->chunk[chunk];
    syn_ctx *ctx = syn_model_ctx(model);
    const syn_spec ids = {SYN_I32, 2, {1, TOKENS}};
    if (!x.id) x = syn_input(ctx, "tokens", &ids, NULL); /* only on the first stage */
    (void)microbatch;
    return syn_causal_stage(model, x, SYN_NO_MASK, syn_input(ctx, "next", &ids, NULL), SYN_MEAN);
}

/* The program of one rank: one training step. */
static syn_status train(syn_ctx *ctx, const syn_mesh *mesh, void *arg, syn_error *err) {
    job *j = arg;
    stage s = {.shape = j->shape};
    syn_model_config gpt;
    syn_trainer *trainer;
    const syn_group *pp = mesh->group[SYN_AXIS_PP];
    const int own = mesh->index[SYN_AXIS_PP];
    SYN_TRY(syn_model_config_preset(&gpt, "gpt2-medium", err));
    gpt.tied = false;
    for (int c = 0; c < s.shape.chunks; c++) {
        syn_model_part part;
        SYN_TRY(syn_pipeline_part(&part, &gpt, &s.shape, NULL, own, c, err));
        const syn_model_options how = {.part = &part, .fused_attention = true, .dtype = SYN_BF16};
        SYN_TRY(syn_model_new(&s.chunk[c], ctx, &gpt, &how, err));
    }
    const syn_pipeline_options pipeline = {s.shape, pp, {SYN_BF16, 3, {1, TOKENS, gpt.n_embd}}};
    const syn_trainer_options how = {.microbatches = s.shape.microbatches, .pipeline = &pipeline};
    SYN_TRY(syn_trainer_new(&trainer, ctx, &how, err));
    const syn_status status = syn_trainer_step_stage(trainer, forward, &s, 1e-4, NULL, err);
    j->peak_bytes[own] = (double)syn_ctx_peak_bytes(ctx);
    syn_trainer_free(trainer);
    for (int c = 0; c < s.shape.chunks; c++) syn_model_free(s.chunk[c]);
    return status;
}

static void count_messages(job *j, const syn_graph *graph) {
    syn_cursor cursor = {0};
    for (uint32_t i = 0; i < graph->ranks[0].n_nodes; i++) {
        const syn_node *node = syn_graph_node(graph, 0, i, &cursor);
        j->messages += node && (node->kind == SYN_NODE_SEND || node->kind == SYN_NODE_RECV);
    }
    syn_cursor_free(&cursor);
}

static syn_status trace(job *j, const char *name, syn_error *err) {
    const syn_plan plan = {.pp = j->shape.stages};
    const syn_export_options how = {.title = name};
    char path[64];
    syn_hardware a100;
    syn_graph *graph;
    syn_predicted_use use;
    snprintf(path, sizeof path, "four_schedules_%s.svg", name);
    SYN_TRY(syn_hardware_load(&a100, "a100-80g", NULL, err));
    SYN_TRY(syn_ranks_trace(&graph, &plan, &a100, train, j, err));
    syn_status s = syn_predicted_use_of(&use, graph, err);
    j->ns = use.ns;
    j->idle_ns = use.idle_ns;
    count_messages(j, graph);
    if (s == SYN_OK) s = syn_export_file(graph, &syn_export_gantt, &how, path, err);
    syn_graph_free(graph);
    return s;
}

int main(int argc, char **argv) {
    static const char *const names[] = {"gpipe", "1f1b", "interleaved", "zb-h1"};
    static const syn_schedule schedules[] = {SYN_SCHEDULE_GPIPE, SYN_SCHEDULE_1F1B,
                                             SYN_SCHEDULE_INTERLEAVED, SYN_SCHEDULE_ZB_H1};
    const int stages = argc > 1 ? atoi(argv[1]) : 4, microbatches = argc > 2 ? atoi(argv[2]) : 8;
    syn_error err = {0};
    if (stages < 2 || stages > MOST_STAGES) {
        fprintf(stderr, "four_schedules: STAGES must be 2 to %d\n", MOST_STAGES);
        return 1;
    }
    printf("A step of GPT-2 medium, %d stages, %d microbatches:\n"
           "schedule       time, ms   bubble   messages of stage 0   peak memory of first and last "
           "stage, MB\n",
           stages, microbatches);
    for (int i = 0; i < SCHEDULES; i++) {
        job j = {.shape = {.stages = stages,
                           .microbatches = microbatches,
                           .schedule = schedules[i],
                           .chunks = schedules[i] == SYN_SCHEDULE_INTERLEAVED ? CHUNKS : 1}};
        if (trace(&j, names[i], &err) != SYN_OK) {
            fprintf(stderr, "four_schedules: %s: %s\n", names[i], err.text);
            return 1;
        }
        printf("%-12s %10.1f %7.1f%% %21d %28.0f and %.0f\n", names[i], j.ns / 1e6,
               100 * j.idle_ns / j.ns, j.messages, j.peak_bytes[0] / 1e6,
               j.peak_bytes[stages - 1] / 1e6);
    }
    return fflush(stdout) != 0;
}
