/* synth --phase: traces of prefill and decoding. The ranks run the code of the program inference.
   Data-parallel ranks have batches of their own and communicate only if they share experts. */
#include "syntorch/base/memory.h"
#include "tools/cli_json.h"
#include "tools/synth/synth.h"

enum { DEFAULT_INPUT_TOKENS = 2048, DEFAULT_OUTPUT_TOKENS = 16 };

/* ---- Options ---- */

/* Whether the model generates text; true if it is unknown, which is reported later. */
static bool generates(void) {
    const pretrain_args *p = &pretrain_given;
    syn_model_config config;
    syn_error unknown;
    const syn_status s = p->model ? syn_model_config_preset(&config, p->model, &unknown)
                                  : syn_model_config_load(&config, p->model_config, &unknown);
    return s != SYN_OK || syn_model_is_causal(&config);
}

/* The number of tokens to generate, including those of steps that are not recorded. */
static int64_t output_tokens(void) {
    const int64_t given = synth_given.num_output_tokens;
    if (!generates()) return 0;
    if (synth_given.phase == SYNTH_PREFILL) return 1;
    if (synth_given.phase == SYNTH_DECODE) return given > 0 ? given + 1 : 2;
    return given > 0 ? given : DEFAULT_OUTPUT_TOKENS;
}

/* Copies the options to those of inference. */
static void take_options(inference_args *a) {
    const pretrain_args *p = &pretrain_given;
    a->model = p->model;
    a->model_config = p->model_config;
    a->layers = p->layers;
    a->parallel = p->parallel;
    a->tp = p->tp;
    a->dp = p->dp;
    a->dispatcher = p->dispatcher;
    a->dispatch_fp8 = p->dispatch_fp8;
    a->layers_per_stage = p->division.layers;
    a->batch_size = p->batch_size;
    a->dtype = p->dtype == 1 ? SYN_BF16 : p->dtype == 0 ? SYN_F32 : -1;
    a->hw = p->hw;
    a->quiet = p->quiet;
    a->json = p->json;
    a->device = "meta";
    a->ids = generates() ? "1" : "0 1"; /* is extended with tokens 1 */
    a->mask_id = generates() ? -1 : 0;
    a->num_input_tokens = synth_given.num_input_tokens;
    a->first_step = synth_given.phase == SYNTH_DECODE;
    a->num_output_tokens = output_tokens();
}

static int check_given(const cli_program *program, int argc, char **argv) {
    const bool decodes = synth_given.phase == SYNTH_DECODE;
    const cli_rule rules[] = {
        {true,
         {"max_seq_length", "dropout", "make_vocab_size_divisible_by", "sp_keep",
          "activation_recompute", "loss", "global_batch"},
         "is an option for training and has no effect with --phase; omit it"},
        {true,
         {"schedule", "vp", "microbatch_group", "count_embedding", "count_loss", "layout", "mtp"},
         "has no effect with --phase, where a batch passes through the stages once per token; "
         "omit it"},
        {true,
         {"zero", "hsdp", "no_reshard", "buckets", "reduce_dtype"},
         "has no effect with --phase, because inference has no gradients; omit it"},
        {true,
         {"cp", "cp_comm", "cp_a2a"},
         "divides the sequences of training and is not supported with --phase; omit it"},
        {true,
         {"rank_order"},
         "is not supported with --phase, where consecutive ranks are neighbours along tp; omit it"},
        {true,
         {"capacity", "moe_aux_loss_coeff", "moe_z_loss_coeff", "moe_router_bias_update_rate"},
         "is for training and has no effect with --phase; omit it"},
        {true,
         {"routing", "overlap_a2a"},
         "is for training and is not supported with --phase; omit it"},
        {pretrain_given.parallel.ep < 2,
         {"moe_dispatcher"},
         "has no effect without --ep, by which ranks get the rows of their experts; give that, "
         "too, or omit it"},
        {pretrain_given.tp > 1 && (!pretrain_given.parallel.sp || decodes),
         {"moe_dispatcher"},
         "has no effect with --tp, whose ranks have the same tokens and sum their experts' "
         "outputs; omit it, or give --sp with --phase prefill"},
        {pretrain_given.dispatcher != SYN_DISPATCH_DEEPEP,
         {"moe_dispatch_fp8"},
         "has no effect without --moe-dispatcher deepep; give that, too, or omit it"},
        {true, {"fp8"}, "predicts training and has no effect with --phase; omit it"},
        {decodes,
         {"sp"},
         "has no effect with --phase decode, because single tokens are not divided; omit it"},
        {synth_given.phase == SYNTH_PREFILL,
         {"num_output_tokens"},
         "has no effect with --phase prefill, which ends with the first token; omit it"},
        {pretrain_given.tp < 2, {"sp"}, "has no effect without --tp; give that, too, or omit it"},
        {pretrain_given.parallel.pp < 2,
         {"layers_per_stage"},
         "has no effect without --pp; give that, too, or omit it"},
    };
    return cli_check_rules(program, argc, argv, rules, sizeof rules / sizeof *rules);
}

/* Sets --dp from --num-gpus. */
static int take_sizes(const cli_program *program, int argc, char **argv) {
    pretrain_args *a = &pretrain_given;
    const int64_t model = a->tp * (a->parallel.pp > 0 ? a->parallel.pp : 1);
    if (!cli_was_given(program, argc, argv, "num-gpus")) return CLI_RUN;
    if (a->num_gpus % model != 0 || (a->dp > 0 && a->dp * model != a->num_gpus))
        return cli_fail(program, CLI_USAGE,
                        "--num-gpus %lld is not --tp x --pp x --dp; omit it, or give a multiple "
                        "of %lld without --dp",
                        (long long)a->num_gpus, (long long)model);
    a->dp = a->num_gpus / model;
    return CLI_RUN;
}

static int check_options(inference *run) {
    take_options(inference_arguments());
    const int code = inference_check_options(run);
    run->launch.alone = true;
    return code;
}

int synth_check_inference(inference *run, int argc, char **argv) {
    const cli_program *program = run->launch.program;
    int code = check_given(program, argc, argv);
    if (!cli_was_given(program, argc, argv, "moe_dispatcher"))
        pretrain_given.dispatcher = SYN_DISPATCH_ALLGATHER;
    if (code == CLI_RUN) code = take_sizes(program, argc, argv);
    if (code != CLI_RUN) return code;
    if (!generates() && synth_given.phase != SYNTH_PREFILL)
        return cli_fail(program, CLI_USAGE, "the model generates no text; use --phase prefill");
    if (!generates() && pretrain_given.parallel.pp > 1)
        return cli_fail(program, CLI_USAGE,
                        "--pp divides models that generate text, and this one does not; omit it");
    return check_options(run);
}

/* ---- One rank ---- */

static syn_status run_rank(inference *run, syn_comm *comm, syn_ctx **ctx, syn_error *err) {
    syn_mesh mesh;
    syn_model *model;
    SYN_TRY(syn_mesh_open(&mesh, comm, &run->launch.parallel, err));
    SYN_TRY(syn_ctx_new(ctx, run->launch.device, comm, err));
    SYN_TRY(inference_load_model(run, *ctx, &mesh, &model, err));
    const inference_rank self = {.model = model, .mesh = &mesh, .pp = mesh.group[SYN_AXIS_PP]};
    const syn_status s = run->task->run(run, &self, err);
    syn_model_free(model);
    return s;
}

/* A launch_main. */
static syn_status predicted_rank(syn_comm *comm, void *run, syn_ctx **ctx, syn_error *err) {
    SYN_TRY(run_rank(run, comm, ctx, err));
    return inference_report(run, *ctx, err);
}

static syn_status use_graph(inference *run, const syn_ctx *ctx, launch_use_graph *use, void *user,
                            syn_error *err) {
    const syn_trace *trace = syn_ctx_trace(ctx);
    syn_graph *graph;
    SYN_TRY(syn_trace_graph(&graph, &trace, 1, run->launch.hw, err));
    syn_status s = inference_metadata(run, graph, err);
    if (s == SYN_OK) s = use(user, graph, err);
    syn_graph_free(graph);
    return s;
}

/* synth_job.record */
static syn_status record(void *inferring, int32_t rank, launch_use_graph *use, void *user,
                         syn_error *err) {
    inference *run = inferring;
    syn_comm *comm;
    syn_ctx *ctx = NULL;
    SYN_TRY(syn_comm_fake_new(&comm, rank, run->launch.ranks, err));
    syn_status s = run_rank(run, comm, &ctx, err);
    if (s == SYN_OK) s = use_graph(run, ctx, use, user, err);
    syn_ctx_free(ctx);
    syn_comm_close(comm);
    return s;
}

/* ---- The prediction ---- */

/* The default length fits the model's positions. */
static int64_t default_input_tokens(const inference *run) {
    const int64_t all = syn_model_is_causal(&run->config) ? syn_model_max_tokens(&run->config)
                                                          : run->config.n_positions;
    const int64_t made = inference_arguments()->num_output_tokens;
    const int64_t most = made > 0 ? all - made + 1 : all; /* the last token is never an input */
    return most < DEFAULT_INPUT_TOKENS ? most : DEFAULT_INPUT_TOKENS;
}

static syn_status prepare(inference *run, syn_error *err) {
    launch *l = &run->launch;
    inference_args *a = inference_arguments();
    l->plan = inference_plan;
    l->metadata = inference_metadata;
    l->main = predicted_rank;
    l->user = run;
    if (a->num_input_tokens == 0 && run->unknown.code == SYN_OK) {
        a->num_input_tokens = default_input_tokens(run);
        if (a->num_input_tokens < 1) a->num_input_tokens = 1;
    }
    syn_status s = inference_prepare(run, err);
    if (s == SYN_OK) s = syn_hardware_check_nodes(&run->hw, l->ranks, err);
    return s == SYN_OK ? launch_threads(l, err) : s;
}

/* Predicts the run from one rank of each stage. */
static syn_status predict(inference *run, syn_error *err) {
    return launch_run(&run->launch, prepare(run, err), err);
}

static bool fits(const inference *run) {
    const sweep_times t = inference_times(run, &run->report, &run->hw);
    return sweep_fits(&run->hw, &t);
}

typedef struct trying {
    inference *run;
    pretrain_args given;
} trying;

/* A sweep_try. */
static syn_status try_one(void *user, const sweep *unused, sweep_times *times, syn_error *err) {
    trying *t = user;
    (void)unused;
    inference_begin_again(t->run);
    syn_status s = SYN_OK;
    if (check_options(t->run) != CLI_RUN)
        s = SYN_FAIL(err, SYN_E_INVALID, "the options contradict each other");
    if (s == SYN_OK) s = predict(t->run, err);
    if (s == SYN_OK) *times = inference_times(t->run, &t->run->report, &t->run->hw);
    pretrain_given = t->given;
    return s;
}

/* If the run does not fit the machine's memory, tries and prints changes with which it would. Then
   predicts the run again, because the tries replaced it. */
static syn_status suggest(inference *run, syn_error *err) {
    trying t = {run, pretrain_given};
    suggestions l = {.n = 0};
    sweep_times unused;
    const syn_hardware hw = run->hw;
    if (pretrain_given.quiet || fits(run)) return SYN_OK;
    t.given.quiet = pretrain_given.quiet = true;
    inference_add_fitting(&l, run);
    suggestions_fit(&l, run->launch.program, &hw, try_one, &t);
    suggestions_fit_print(&l, stdout);
    t.given.quiet = pretrain_given.quiet = false;
    return try_one(&t, NULL, &unused, err);
}

/* ---- Printing ---- */

static double stage_bytes(const inference *run, int32_t stage) {
    return (double)syn_ctx_peak_bytes(run->launch.ctx[inference_stage_rank(run, stage)]);
}

static void print_memory(const inference *run) {
    const sweep_times t = inference_times(run, &run->report, &run->hw);
    char text[32], what[64];
    printf("memory: %s per rank", cli_bytes_text(t.rank_bytes, text, sizeof text));
    if (t.stages > 1) printf(" of stage %d, which needs most", t.fullest);
    printf("\n");
    snprintf(what, sizeof what, "%s weights, KV cache and activations", syn_dtype_name(run->dtype));
    if (!sweep_fits(&run->hw, &t)) suggestions_print_need(&run->hw, &t, what, stdout);
}

static void print(const inference *run) {
    char title[160], on[CLI_SHOWN_BYTES];
    printf("predicted for %s in %s\n",
           cli_shown(syn_hardware_title(&run->hw, title, sizeof title), on, sizeof on),
           syn_dtype_name(run->dtype));
    if (run->task == &inference_generate) inference_print_predicted(run, &run->report);
    else
        inference_print_pass(run, &run->report, "forward",
                             run->batch * run->prompt_tokens * run->launch.parallel.dp, 0);
    extrapolation_print(&run->report.limits.extrapolated, stdout);
    print_memory(run);
}

static syn_status put_json(inference *run, syn_error *err) {
    static const char *const phases[] = {
        [SYNTH_PREFILL] = "prefill", [SYNTH_DECODE] = "decode", [SYNTH_GENERATE] = "generate"};
    const report *r = &run->report;
    const sweep_times t = inference_times(run, r, &run->hw);
    const syn_plan *plan = &run->launch.parallel;
    SYN_TRY(cli_json_open(&run->launch.json, run->launch.program, err));
    syn_sink *out = run->launch.json;
    cli_json_text(out, "model", run->config.name);
    syn_sink_printf(out,
                    ", \"phase\": \"%s\", \"tp\": %d, \"pp\": %d, \"dp\": %d, \"ep\": %d, "
                    "\"dtype\": \"%s\", "
                    "\"ranks\": %d, \"batch_size\": %lld, \"prompt_tokens\": %lld, "
                    "\"new_tokens\": %lld, \"hardware\": ",
                    phases[synth_given.phase], plan->tp, plan->pp, plan->dp, plan->ep,
                    syn_dtype_name(run->dtype), run->launch.ranks, (long long)run->batch,
                    (long long)run->prompt_tokens,
                    (long long)(run->new_tokens - run->args->first_step));
    syn_sink_json_string(out, run->hw.name);
    syn_sink_text(out, ", \"stack\": ");
    syn_sink_json_string(out, run->hw.stack.name);
    if (run->task == &inference_generate) inference_json_predicted(run, r, out);
    else inference_json_pass(r, "forward", run->batch * run->prompt_tokens * plan->dp, 0, out);
    syn_sink_text(out, ", \"extrapolations\": ");
    extrapolation_json(&r->limits.extrapolated, out);
    syn_sink_printf(out, ", \"fits\": %s, \"memory\": {\"peak_bytes\": %.0f}, \"stages\": [",
                    sweep_fits(&run->hw, &t) ? "true" : "false", t.rank_bytes);
    for (int32_t i = 0; i < plan->pp; i++)
        syn_sink_printf(out, "%s{\"memory\": {\"peak_bytes\": %.0f}}", i > 0 ? ", " : "",
                        stage_bytes(run, i));
    syn_sink_char(out, ']');
    return SYN_OK;
}

/* ---- The work ---- */

syn_status synth_prepare_inference(inference *run, synth_job *job, syn_error *err) {
    SYN_TRY(prepare(run, err));
    run->launch.want_graph = true; /* keeps the recorded rows */
    *job = (synth_job){&run->launch.parallel, (int32_t)run->hw.node_ranks, record, run, NULL};
    return SYN_OK;
}

syn_status synth_infer(inference *run, syn_error *err) {
    synth_job job = {&run->launch.parallel, 0, record, run, NULL};
    bool *wanted = NULL;
    SYN_TRY(synth_wanted((int32_t)inference_ranks(run->args), &wanted, err));
    syn_status s = predict(run, err);
    if (s == SYN_OK && pretrain_given.json) s = put_json(run, err);
    else if (s == SYN_OK && !pretrain_given.quiet) print(run);
    if (s == SYN_OK) s = suggest(run, err);
    job.json = run->launch.json;
    job.node_ranks = (int32_t)run->hw.node_ranks;
    run->launch.want_graph = true; /* keeps the recorded rows */
    if (s == SYN_OK) s = synth_write(&job, wanted, err);
    syn_free(wanted);
    s = cli_json_close(run->launch.json, s, err);
    run->launch.json = NULL;
    return s;
}
