/* Teaching example: a training step of a GPT in a pipeline. Each stage has some layers, and the
   microbatches of a batch flow through the stages.

       train_pipeline [STAGES [MICROBATCHES [SCHEDULE]]]

   SCHEDULE is gpipe, 1f1b, interleaved or zb-h1.

   It prints the predicted time, and writes train_pipeline.json, a timeline for ui.perfetto.dev, and
   train_pipeline.<rank>.et for a simulator. Nothing is computed: times are predicted for A100s. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syntorch/syntorch.h>

enum { TOKENS = 1024, CHUNKS = 2 };

typedef struct stage {
    syn_schedule_shape shape;
    syn_model *chunk[CHUNKS]; /* interleaved schedule: two ranges of layers; other schedules: one */
} stage;

static syn_tensor forward(void *arg, int chunk, int microbatch, syn_tensor x) {
    syn_model *model = ((stage *)arg)->chunk[chunk];
    syn_ctx *ctx = syn_model_ctx(model);
    const syn_spec ids = {SYN_I32, 2, {1, TOKENS}};
    if (!x.id) x = syn_input(ctx, "tokens", &ids, NULL); /* only on the first stage */
    (void)microbatch;
    return syn_causal_stage(model, x, SYN_NO_MASK, syn_input(ctx, "next", &ids, NULL), SYN_MEAN);
}

/* The program of one rank. */
static syn_status train(syn_ctx *ctx, const syn_mesh *mesh, void *arg, syn_error *err) {
    stage s = {.shape = *(const syn_schedule_shape *)arg};
    syn_model_config gpt;
    syn_trainer *trainer;
    SYN_TRY(syn_model_config_preset(&gpt, "gpt2-medium", err));
    gpt.tied = false;
    for (int c = 0; c < s.shape.chunks; c++) {
        syn_model_part part;
        SYN_TRY(syn_pipeline_part(&part, &gpt, &s.shape, NULL, mesh->index[SYN_AXIS_PP], c, err));
        const syn_model_options how = {.part = &part, .fused_attention = true, .dtype = SYN_BF16};
        SYN_TRY(syn_model_new(&s.chunk[c], ctx, &gpt, &how, err));
    }
    const syn_group *pp = mesh->group[SYN_AXIS_PP];
    const syn_pipeline_options pipeline = {s.shape, pp, {SYN_BF16, 3, {1, TOKENS, gpt.n_embd}}};
    const syn_trainer_options how = {.microbatches = s.shape.microbatches, .pipeline = &pipeline};
    SYN_TRY(syn_trainer_new(&trainer, ctx, &how, err));
    const syn_status status = syn_trainer_step_stage(trainer, forward, &s, 1e-4, NULL, err);
    syn_trainer_free(trainer);
    for (int c = 0; c < s.shape.chunks; c++) syn_model_free(s.chunk[c]);
    return status;
}

static syn_status trace(const syn_schedule_shape *shape, syn_error *err) {
    const syn_plan plan = {.pp = shape->stages};
    const syn_export_options how = {.title = "A training step in a pipeline"};
    syn_hardware a100;
    syn_graph *graph = NULL;
    double ns = 0;
    if (shape->stages < 2) return SYN_FAIL(err, SYN_E_INVALID, "STAGES must be at least 2");
    SYN_TRY(syn_hardware_load(&a100, "a100-80g", NULL, err));
    syn_status s = syn_ranks_trace(&graph, &plan, &a100, train, (void *)shape, err);
    if (s == SYN_OK) s = syn_predicted_duration(&ns, graph, err);
    if (s == SYN_OK)
        s = syn_export_file(graph, &syn_export_chrome, &how, "train_pipeline.json", err);
    if (s == SYN_OK) s = syn_export_et_set(graph, &how, "train_pipeline", err);
    if (s == SYN_OK)
        printf("%d stages, %d microbatches: %.1f ms\n", (int)shape->stages,
               (int)shape->microbatches, ns * 1e-6);
    syn_graph_free(graph);
    return s;
}

int main(int argc, char **argv) {
    static const char *const names[] = {"1f1b", "gpipe", "interleaved", "zb-h1"};
    syn_schedule_shape shape = {.stages = argc > 1 ? atoi(argv[1]) : 4,
                                .microbatches = argc > 2 ? atoi(argv[2]) : 8};
    syn_error err = {0};
    int which = 0;
    while (argc > 3 && which < 4 && strcmp(argv[3], names[which]) != 0) which++;
    if (which == 4) return 2;
    shape.schedule = (syn_schedule)which;
    shape.chunks = shape.schedule == SYN_SCHEDULE_INTERLEAVED ? CHUNKS : 1;
    if (trace(&shape, &err) == SYN_OK) return fflush(stdout) != 0;
    fprintf(stderr, "train_pipeline: %s\n", err.text);
    return 1;
}
