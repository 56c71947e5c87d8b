/* --sweep of the pretraining program. */
#include <string.h>

#include "export/export.h"
#include "syntorch/memory.h"
#include "tools/pretrain/pretrain.h"
#include "tools/sweep/sweep.h"

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
    sweep_times *times; /* of the combination that runs */
} pretrain_swept;

syn_status pretrain_add_swept(pretrain *run, const syn_ctx *ctx, syn_error *err) {
    const syn_trace *trace = syn_ctx_trace(ctx);
    for (int i = 0; i < swept.n_machines; i++) {
        syn_hardware hw = swept.machines[i];
        sweep_times *t = &run->swept->times[i];
        syn_graph *graph;
        syn_hardware_share(&hw, run->launch.ranks);
        SYN_TRY(syn_trace_graph(&graph, &trace, 1, &hw, err));
        const syn_status s = syn_predicted_duration(&t->ns, graph, err);
        const limits l = pretrain_limits(&hw, graph);
        syn_graph_free(graph);
        SYN_TRY(s);
        limits_shares(&l, LIMITS_ALL, t->ns, t->shares, &t->utilisation);
        t->tokens = pretrain_step_tokens(run);
        t->rank_bytes = (double)syn_ctx_peak_bytes(ctx);
        t->ranks = run->launch.ranks;
        t->error = pretrain_error(run, &hw).error;
    }
    return SYN_OK;
}

/* A sweep_try. */
static syn_status try_one(void *user, const sweep *s, sweep_times *times, syn_error *err) {
    (void)s;
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
    syn_status s = sweep_run(&swept, try_one, &w, given.quiet, err);
    *run->args = given;
    if (s == SYN_OK) s = sweep_tell(&swept, given.trace_output_dir, false, given.quiet, err);
    sweep_free(&swept);
    return s;
}
