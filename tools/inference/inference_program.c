/* The inference program: GPT continues a text, BERT fills in its [MASK]s. rank_main is the program
   of one rank. The same function runs in N threads (--tp N), in N processes (mpirun -n N), or N
   times without data (--device meta). */
#include "tools/cli_json.h"
#include "tools/inference/checkpoint.h"
#include "tools/inference/inference_serve.h"
#include "tools/inference/visualize.h"

static const char *const examples[] = {
    "syntorch inference --tp 2 --visualize_trace --out_dir out  # two threads",
    "mpirun -n 2 syntorch inference --tp 2  # two processes",
    "syntorch inference --device meta --model gpt3-175b --tp 8 --num_input_tokens 2000 --hw h200",
    "syntorch inference --tp 2 --pp 2  # four threads, two pipeline stages",
    "syntorch inference --weights gpt2 --tp 2 --prompt \"The answer is\"",
    "syntorch inference --weights bert-base-uncased --prompt \"Paris is the [MASK] of France.\"",
    NULL};

static cli_program program = {
    "syntorch inference",
    "Runs GPT-2, gpt-oss, GPT-NeoX, Llama, Mistral, Mixtral, Qwen or DeepSeek (continues a text) "
    "or "
    "BERT (fills in [MASK]s) on any number of ranks, with random weights or a checkpoint. Records "
    "every op and collective and reports their times, flops and bytes.",
    inference_options, examples, false};

static inference run;

/* Creates this rank's part of the model in a context that records every op, and runs the
   prompts. */
static syn_status rank_main(syn_comm *comm, void *unused, syn_ctx **ctx, syn_error *err) {
    (void)unused;
    syn_mesh mesh;
    SYN_TRY(syn_mesh_open(&mesh, comm, &run.launch.parallel, err));
    SYN_TRY(syn_ctx_new(ctx, run.launch.device, comm, err));
    SYN_TRY(syn_ctx_set_threads(*ctx, run.launch.threads, err));
    syn_ctx_set_hashing(*ctx, run.launch.want_hashes);
    syn_model *model;
    SYN_TRY(inference_load_model(&run, *ctx, &mesh, &model, err));
    /* After loading, so that copies of weights are not recorded. */
    syn_ctx_record_work(*ctx, run.launch.want_graph);
    const syn_status s = inference_run_model(&run, &mesh, model, err);
    syn_model_free(model);
    return s == SYN_OK && run.args->save_weights ? checkpoint_save(&run, *ctx, comm, err) : s;
}

/* Writes the files of --visualize_trace. */
static syn_status write_trace(FILE *list, bool *first, syn_error *err) {
    const syn_graph *graph = run.launch.graph;
    const char *folder = run.args->out_dir;
    SYN_TRY(visualize_run(graph, folder, "syntorch " SYN_VERSION, list, err));
    return run.launch.json ? visualize_json(graph, folder, run.launch.json, first, err) : SYN_OK;
}

/* Prints and saves the results, on rank 0. The graph contains the traces of all ranks. */
static syn_status print_result(syn_error *err) {
    const inference_args *args = run.args;
    syn_sink *json;
    bool first = true;
    SYN_TRY(inference_report_stages(&run, err));
    SYN_TRY(inference_print(&run, err));
    json = run.launch.json;
    if (json) cli_json_begin_written(json);
    if (inference_serves(args)) SYN_TRY(inference_serve_save(&run, err));
    if (args->save_weights) SYN_TRY(checkpoint_end_saving(&run, &first, err));
    if (args->save_logits) SYN_TRY(run.task->save_logits(&run, args->save_logits, err));
    FILE *list = args->quiet || args->json ? NULL : stdout;
    if (list) inference_list_saved(&run, list);
    if (json) cli_json_add_written(json, args->save_logits, &first);
    if (json) cli_json_add_written(json, args->embeddings, &first);
    if (json && run.requests_file[0]) cli_json_add_written(json, run.requests_file, &first);
    if (args->visualize_trace) SYN_TRY(write_trace(list, &first, err));
    if (json) syn_sink_char(json, ']');
    return SYN_OK;
}

/* Does one run: the only run, or one run of a sweep. */
static syn_status infer(syn_error *err) {
    launch *l = &run.launch;
    l->plan = inference_plan;
    l->metadata = inference_metadata;
    l->main = rank_main;
    l->user = &run;
    syn_status s = inference_prepare(&run, err);
    if (s == SYN_OK) s = launch_threads(l, err);
    return launch_run(l, s, err);
}

static syn_status infer_all(syn_error *err) {
    if (run.args->sweep.n > 0) return inference_sweep(&run, infer, err);
    SYN_TRY(infer(err));
    if (program.mute) return SYN_OK;
    SYN_TRY(print_result(err));
    inference_suggest(&run, infer);
    return SYN_OK;
}

static int read_options(int argc, char **argv) {
    int code = cli_parse(&program, argc, argv);
    if (code == CLI_RUN) code = inference_check_given(&program, argc, argv);
    if (code == CLI_RUN) code = inference_check_sweep(&run, argc, argv);
    return code == CLI_RUN ? inference_check_options(&run) : code;
}

int inference_program(int argc, char **argv) {
    program.name = argv[0];
    inference_set_defaults();
    run = (inference){.args = NULL};
    const int code = launch_program(&run.launch, &program, read_options, infer_all, argc, argv);
    inference_free(&run);
    return code;
}
