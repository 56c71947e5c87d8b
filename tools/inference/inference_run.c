/* Setting up the inference program, and running it on one rank. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "syntorch/base/memory.h"
#include "tools/folders.h"
#include "tools/inference/checkpoint.h"
#include "tools/memory_check.h"
#include "tools/meta_dtype.h"
#include "tools/progress.h"

static syn_status add_trace(report *r, const syn_trace *trace, const syn_hardware *hw,
                            syn_error *err) {
    syn_graph *graph;
    SYN_TRY(syn_trace_graph(&graph, &trace, 1, hw, err));
    const syn_status s = report_add(r, graph, 0, hw, err);
    syn_graph_free(graph);
    return s;
}

static syn_status report_rank(inference *run, const syn_ctx *ctx, syn_error *err) {
    const syn_trace *trace = syn_ctx_trace(ctx);
    const comparison *c = &run->comparison;
    if (!run->launch.alone || c->n == 0) /* otherwise compared[0] gets the same rows */
        SYN_TRY(add_trace(&run->report, trace, run->launch.hw, err));
    for (int i = 0; i < c->n; i++)
        SYN_TRY(add_trace(&run->compared[i], trace, &c->machines[i], err));
    return SYN_OK;
}

/* Whether the stages of a pipeline run concurrently. */
static bool stages_run_together(const inference *run) {
    return run->launch.parallel.pp > 1 && run->launch.device != SYN_DEVICE_META;
}

bool inference_keeps_rows(const inference *run) {
    return run->launch.want_graph || stages_run_together(run);
}

syn_status inference_report(inference *run, const syn_ctx *ctx, syn_error *err) {
    const syn_plan *plan = &run->launch.parallel;
    /* Ranks are numbered along tp first, then dp. */
    if (syn_ctx_rank(ctx) % (plan->tp * plan->dp) != 0 || stages_run_together(run)) return SYN_OK;
    return report_rank(run, ctx, err);
}

syn_status inference_report_stages(inference *run, syn_error *err) {
    const syn_plan *plan = &run->launch.parallel;
    for (int32_t i = 0; i < plan->pp && stages_run_together(run); i++) {
        const syn_ctx *ctx = run->launch.ctx[inference_stage_rank(run, i)];
        if (ctx) SYN_TRY(report_rank(run, ctx, err));
    }
    return SYN_OK;
}

/* Whether this rank shows progress. */
static bool shows(const inference *run, const syn_ctx *ctx) {
    return syn_ctx_rank(ctx) == 0 && syn_ctx_has_data(ctx) && !run->args->quiet;
}

syn_status inference_make_model(const inference *run, syn_ctx *ctx, const syn_mesh *mesh,
                                syn_weights_reader *reader, syn_model **model, syn_error *err) {
    progress weights = {.what = reader ? "loading weights" : "making weights",
                        .unit = reader ? NULL : "layers",
                        .terminal_only = reader != NULL,
                        .quiet = !shows(run, ctx)};
    const syn_plan *plan = &run->launch.parallel;
    const syn_group *ep = mesh ? mesh->ep : NULL;
    const syn_model_options how = {.tp = mesh ? mesh->group[SYN_AXIS_TP] : NULL,
                                   .ep = ep,
                                   .etp = ep && plan->etp > 1 ? mesh->etp : NULL,
                                   .experts_of_all = ep ? mesh->experts : NULL,
                                   .expert_dp = ep ? mesh->expert_dp : NULL,
                                   .router = {.dispatcher = (syn_dispatcher)run->args->dispatcher,
                                              .dispatch_fp8 = run->args->dispatch_fp8},
                                   .part = mesh ? &run->parts[mesh->index[SYN_AXIS_PP]] : NULL,
                                   .heads = run->heads,
                                   .fused_attention = run->fused_attention,
                                   .sp = run->launch.parallel.sp,
                                   .seed = (uint64_t)run->args->seed,
                                   .dtype = run->dtype,
                                   .weight_dtype = run->weight_dtype,
                                   .progress = reader ? NULL : progress_step,
                                   .progress_user = &weights};
    if (reader) {
        const syn_param_source source = syn_weights_source(reader);
        syn_ctx_set_param_source(ctx, &source);
        syn_weights_set_progress(reader, progress_step, &weights);
    }
    const syn_status s = syn_model_new(model, ctx, &run->config, &how, err);
    syn_ctx_set_param_source(ctx, NULL);
    if (reader) syn_weights_set_progress(reader, NULL, NULL);
    progress_step(&weights, 1, 1); /* clears the progress line */
    return s;
}

/* Like inference_check_memory, but for devices with their own memory; each rank has its own
   device. */
static syn_status check_device_memory(const inference *run, const syn_ctx *ctx, syn_error *err) {
    char a[32], b[32];
    size_t left, all;
    const double want = inference_resident_bytes(run) / (double)run->launch.ranks;
    SYN_TRY(syn_ctx_memory(ctx, &left, &all, err));
    if (all == 0 || want <= (double)left) return SYN_OK;
    return SYN_FAIL(
        err, SYN_E_NOMEM,
        "out of memory: a rank's weights of %s and KV cache of %lld sequences need %s, but its "
        "device has %s free; use --dtype bf16, a smaller batch or a larger --tp or --pp",
        run->config.name, (long long)run->batch, cli_bytes_text(want, a, sizeof a),
        cli_bytes_text((double)left, b, sizeof b));
}

syn_status inference_load_model(const inference *run, syn_ctx *ctx, const syn_mesh *mesh,
                                syn_model **model, syn_error *err) {
    syn_weights_reader *reader = NULL;
    SYN_TRY(check_device_memory(run, ctx, err));
    if (run->weights) SYN_TRY(syn_weights_reader_new(&reader, run->weights, err));
    syn_status s = inference_make_model(run, ctx, mesh, reader, model, err);
    if (s == SYN_OK && reader) s = syn_weights_finish(reader, *model, NULL, err);
    syn_weights_reader_free(reader);
    return s;
}

syn_status inference_run_model(inference *run, const syn_mesh *mesh, syn_model *model,
                               syn_error *err) {
    const syn_ctx *ctx = syn_model_ctx(model);
    const inference_rank rank = {model, mesh, mesh->group[SYN_AXIS_PP], shows(run, ctx)};
    SYN_TRY(run->task->run(run, &rank, err));
    return inference_report(run, ctx, err);
}

uint64_t inference_plan(void *user) {
    const inference *run = user;
    const inference_args *args = run->args;
    const int64_t numbers[] = {args->tp,
                               run->launch.parallel.pp,
                               run->launch.parallel.dp,
                               run->launch.parallel.ep,
                               run->launch.parallel.etp,
                               args->dispatcher,
                               args->seed,
                               args->top_k,
                               run->batch,
                               run->prompt_tokens,
                               args->json,
                               run->launch.want_graph,
                               run->dtype,
                               run->weight_dtype,
                               args->check_collectives,
                               (int64_t)run->launch.device,
                               args->weights != NULL,
                               args->save_weights != NULL,
                               run->fused_attention};
    uint64_t h =
        syn_hash(numbers, sizeof numbers, run->weights ? syn_weights_hash(run->weights) : 0);
    for (int32_t i = 0; i < run->launch.parallel.pp; i++)
        h = syn_hash(&run->parts[i].n_layers, sizeof run->parts[i].n_layers, h);
    return run->task->plan(run, syn_model_config_hash(&run->config, h));
}

void inference_note(const inference *run, const char *fmt, ...) {
    if (run->args->quiet || run->launch.program->mute) return;
    va_list args;
    va_start(args, fmt);
    fprintf(stderr, "%s: note: ", run->launch.program->name);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
}

double inference_token_elems(const inference *run) {
    const syn_model_config *c = &run->config;
    const double elems = 2.0 * (double)c->n_layer * (double)c->n_embd;
    return c->n_kv_head ? elems * (double)c->n_kv_head / (double)c->n_head : elems;
}

double inference_resident_bytes(const inference *run) {
    const syn_plan *plan = &run->launch.parallel;
    const int64_t experts = syn_model_config_expert_params(&run->config);
    const double params = (double)(run->params - experts) * plan->dp +
                          (double)experts * (plan->ep > 1 ? syn_plan_edp(plan) : plan->dp);
    return (double)syn_dtype_bytes(run->weight_dtype) * params +
           (double)syn_dtype_bytes(run->dtype) * run->cache_elems;
}

/* Checks memory in advance, because a system that overcommits memory would kill the process later
   without a message. The full size of the weights counts, because they are copied from the mapped
   file, whose pages are released afterwards. Over MPI, only the ranks on this machine count. */
syn_status inference_check_memory(const inference *run, syn_error *err) {
    char a[32], b[32];
    const char *local = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    const double ranks = (double)run->launch.ranks, each = inference_resident_bytes(run) / ranks;
    const double own = each * (run->launch.mpi ? 1 : ranks),
                 here = run->launch.mpi ? each * (local ? strtod(local, NULL) : 1) : own;
    const memory_check machine = memory_free_in_machine(""),
                       process = memory_free_in_this_process();
    const bool limited = own > process.bytes;
    const memory_check *memory = limited ? &process : &machine;
    const double want = limited ? own : here;
    if (run->launch.device != SYN_DEVICE_CPU || want <= memory->bytes) return SYN_OK;
    return SYN_FAIL(err, SYN_E_NOMEM,
                    "out of memory: the weights of %s and the KV cache of %lld sequences need %s, "
                    "but %s %s available; %s",
                    run->config.name, (long long)run->batch, cli_bytes_text(want, a, sizeof a),
                    memory->source, cli_bytes_text(memory->bytes, b, sizeof b),
                    inference_serves(run->args) ? "choose a smaller --num_gpu_blocks"
                                                : "--device meta needs no memory for tensors");
}

/* ---- Before and after ---- */

/* Loads the machine of --hw. Runs on meta have a default machine, because simulators would treat
   ops without times as if they took no time. */
static syn_status choose_hardware(inference *run, syn_error *err) {
    const char *name = run->args->hw;
    if (!name && run->launch.device == SYN_DEVICE_META) name = "a100-80g";
    if (name) {
        run->launch.hw = &run->hw;
        SYN_TRY(syn_hardware_load(&run->hw, name, "serving", err));
        syn_hardware_set_sharing(&run->hw, run->launch.ranks);
        if (run->launch.device == SYN_DEVICE_META)
            SYN_TRY(syn_hardware_check_nodes(&run->hw, run->launch.ranks, err));
    }
    if (!run->args->compare) return SYN_OK;
    SYN_TRY(comparison_open(&run->comparison, run->args->compare, run->launch.hw, "serving",
                            run->launch.ranks, err));
    run->compared = syn_calloc((size_t)run->comparison.n, sizeof *run->compared);
    return run->compared ? SYN_OK
                         : SYN_FAIL_NOMEM(err, sizeof *run->compared, "the runs of --compare");
}

static void begin_reports(inference *run) {
    const int stages = run->launch.parallel.pp;
    run->report.limits.stages = stages;
    for (int i = 0; i < run->comparison.n; i++) run->compared[i].limits.stages = stages;
}

/* Chooses the dtype of a run on meta if no option sets it. */
static void choose_dtype(inference *run) {
    const inference_args *args = run->args;
    if (run->launch.device != SYN_DEVICE_META || args->dtype >= 0 || args->weight_dtype >= 0)
        return;
    syn_dtype published = run->weight_dtype;
    const bool defaults = syn_model_config_dtype(&run->config, &published) || run->weights;
    const meta_run how = {.hw = inference_deciding_machine(run),
                          .published = defaults ? &published : NULL,
                          .chosen = args->hw || args->model,
                          .has_f16 = true};
    run->dtype = meta_dtype(&how);
    if (run->dtype != SYN_F32) run->weight_dtype = run->dtype;
}

syn_status inference_prepare(inference *run, syn_error *err) {
    const inference_args *args = run->args;
    if (run->unknown.code != SYN_OK) {
        *err = run->unknown;
        return err->code;
    }
    run->defaults = (syn_sampling_defaults){NAN, NAN, NAN, NAN, NAN};
    SYN_TRY(choose_hardware(run, err));
    begin_reports(run);
    if (args->weights) SYN_TRY(checkpoint_open(run, err));
    choose_dtype(run);
    SYN_TRY(inference_open_tokenizer(run, err));
    SYN_TRY(inference_read_prompts(run, err));
    if (args->weights) SYN_TRY(checkpoint_compare(run, err));
    SYN_TRY(inference_keep_inputs(run, err));
    return inference_make_folders(run, err);
}

void inference_free(inference *run) {
    if (run->partial) folder_remove(run->partial);
    syn_free(run->partial);
    output_lock_release(&run->save_lock);
    output_lock_release(&run->trace_lock);
    if (run->work) run->task->free(run);
    syn_weights_free(run->weights);
    syn_tokenizer_free(run->tokenizer);
    syn_free(run->prompts);
    syn_free(run->prompt_text);
    report_free(&run->report);
    for (int i = 0; run->compared && i < run->comparison.n; i++) report_free(&run->compared[i]);
    syn_free(run->compared);
    syn_free(run->parts);
    comparison_free(&run->comparison);
}
