/* --sweep of the pretraining program, and what would make its step faster. */
#include <string.h>

#include "export/export.h"
#include "syntorch/memory.h"
#include "tools/pretrain/pretrain.h"
#include "tools/sweep/levers.h"

static sweep swept;

/* ---- Options ---- */

int pretrain_check_sweep(const pretrain *run, int argc, char **argv) {
    static const char *const keys[] = {"num_gpus",
                                       "tp",
                                       "batch_size",
                                       "max_seq_length",
                                       "dtype",
                                       "gradient_accumulation_steps",
                                       "model_name",
                                       "hw",
                                       "activation_recompute",
                                       NULL};
    static const char *const useless[] = {"eval_data",
                                          "eval_steps",
                                          "save_steps",
                                          "save_dir",
                                          "save_total_limit",
                                          "max_steps",
                                          "num_epochs",
                                          "resume",
                                          "trace_name",
                                          "trace_skip_first",
                                          "trace_wait_steps",
                                          "trace_warmup_steps",
                                          "trace_repeat",
                                          "trace_active_steps",
                                          "visualize_trace",
                                          "profile_memory",
                                          "with_stack",
                                          "enable_tracing",
                                          NULL};
    pretrain_args *args = pretrain_arguments();
    const sweep_how how = {.program = run->launch.program,
                           .training = true,
                           .words = &args->sweep,
                           .keys = keys,
                           .useless = useless,
                           .hw = args->hw_config,
                           .device = args->device,
                           .stack = "megatron"};
    if (args->sweep.n == 0) return CLI_RUN;
    const int code = sweep_open(&swept, &how, argc, argv);
    args->device = "meta";
    args->enable_tracing = args->skip_eval = true;
    args->trace_wait = 0; /* the first step's rows are those of any other */
    return code;
}

/* ---- Combinations ---- */

typedef struct pretrain_swept {
    pretrain *run;
    pretrain_args given;
    syn_status (*once)(syn_error *err);
    const sweep *of;
    sweep_times *times; /* of the combination that runs, for each of its machines */
} pretrain_swept;

syn_status pretrain_add_swept(pretrain *run, const syn_ctx *ctx, syn_error *err) {
    const syn_trace *trace = syn_ctx_trace(ctx);
    const sweep *s = run->swept->of;
    for (int i = 0; i < s->n_machines; i++) {
        syn_hardware hw = s->machines[i];
        sweep_times *t = &run->swept->times[i];
        syn_graph *graph;
        if (s->machine_axis < 0) hw = run->hw; /* as --hw says, which may vary otherwise */
        else syn_hardware_share(&hw, run->launch.ranks);
        SYN_TRY(syn_trace_graph(&graph, &trace, 1, &hw, err));
        const syn_status status = syn_predicted_duration(&t->ns, graph, err);
        const limits l = pretrain_limits(&hw, graph);
        syn_graph_free(graph);
        SYN_TRY(status);
        limits_shares(&l, LIMITS_ALL, t->ns, t->shares, &t->utilisation);
        t->tokens = pretrain_step_tokens(run);
        t->rank_bytes = (double)syn_ctx_peak_bytes(ctx);
        t->ranks = run->launch.ranks;
        t->error = pretrain_error(run, &hw);
    }
    return SYN_OK;
}

/* A sweep_try. */
static syn_status try_one(void *user, const sweep *s, sweep_times *times, syn_error *err) {
    pretrain_swept *w = user;
    pretrain *run = w->run;
    cli_program *program = run->launch.program;
    char all[64] = "training steps";
    launch_free(&run->launch);
    pretrain_free(run);
    *run = (pretrain){.args = pretrain_arguments(), .swept = w};
    launch_begin(&run->launch, program);
    run->launch.alone = true;
    run->launch.device = SYN_DEVICE_META;
    run->launch.ranks = (int32_t)run->args->num_gpus;
    w->of = s;
    w->times = times;
    const syn_status status = w->once(err);
    if (sweep_values(&swept, "max_seq_length") == 1)
        snprintf(all, sizeof all, "steps with texts of %lld tokens",
                 (long long)run->args->max_seq_length);
    if (status == SYN_OK) sweep_name(&swept, "model_name", run->config.name, all);
    *run->args = w->given;
    return status;
}

syn_status pretrain_sweep(pretrain *run, syn_status (*once)(syn_error *err), syn_error *err) {
    const pretrain_args given = *run->args;
    pretrain_swept w = {.run = run, .given = given, .once = once};
    w.given.quiet = run->args->quiet = true;
    syn_status s = sweep_check_folder(given.trace_output_dir, err);
    if (s == SYN_OK) s = sweep_run(&swept, try_one, &w, given.quiet, err);
    *run->args = given;
    if (s == SYN_OK) s = sweep_tell(&swept, given.trace_output_dir, false, given.quiet, err);
    sweep_free(&swept);
    return s;
}

/* ---- Levers ---- */

void pretrain_levers(pretrain *run, syn_status (*once)(syn_error *err)) {
    const pretrain_args given = *run->args;
    const syn_hardware hw = run->hw;
    pretrain_swept w = {.run = run, .given = given, .once = once};
    pretrain_args *usual = &w.given;
    levers l = {.n = 0};
    if (run->launch.device != SYN_DEVICE_META || given.quiet) return;
    usual->quiet = usual->skip_eval = true;
    usual->visualize_trace = false;
    usual->trace_skip_first = usual->trace_wait = usual->trace_warmup = 0;
    usual->trace_active = usual->trace_repeat = 1;
    if (given.dtype == 0) levers_add(&l, "dtype", "bf16");
    if (given.recompute != SYN_RECOMPUTE_NONE) levers_add(&l, "activation_recompute", "none");
    if (given.recompute == SYN_RECOMPUTE_FULL) levers_add(&l, "activation_recompute", "selective");
    if (given.num_gpus % (2 * given.tp) == 0) levers_add_number(&l, "tp", 2 * given.tp);
    if (given.tp % 2 == 0) levers_add_number(&l, "tp", given.tp / 2);
    levers_add_number(&l, "num_gpus", 2 * given.num_gpus);
    levers_add_number(&l, "batch_size", 2 * given.batch_size);
    levers_add_number(&l, "gradient_accumulation_steps", 2 * given.accumulation);
    levers_add_stacks(&l, &hw, given.hw_config);
    *run->args = *usual;
    levers_find(&l, run->launch.program, &hw, try_one, &w);
    *pretrain_arguments() = given;
    levers_print(&l, stdout);
}
