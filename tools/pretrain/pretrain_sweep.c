/* --sweep of the pretraining program, and suggestions of options that make a step faster. */
#include <string.h>

#include "syntorch/base/memory.h"
#include "tools/pretrain/pretrain.h"
#include "tools/sweep/suggestions.h"

static sweep swept;

/* ---- Options ---- */

int pretrain_check_sweep(const pretrain *run, int argc, char **argv) {
    static const char *const keys[] = {"num_gpus",
                                       "tp",
                                       "sp",
                                       "cp",
                                       "cp_comm",
                                       "pp",
                                       "schedule",
                                       "vp",
                                       "microbatch_group",
                                       "layout",
                                       "rank_order",
                                       "zero",
                                       "hsdp",
                                       "buckets",
                                       "reduce_dtype",
                                       "batch_size",
                                       "max_seq_length",
                                       "dtype",
                                       "gradient_accumulation_steps",
                                       "model",
                                       "hw",
                                       "activation_recompute",
                                       NULL};
    static const char *const useless[] = {
        "eval_data",        "eval_steps",         "save_steps",       "save_dir",
        "save_total_limit", "max_steps",          "num_epochs",       "resume",
        "trace_name",       "trace_skip_first",   "trace_wait_steps", "trace_warmup_steps",
        "trace_repeat",     "trace_active_steps", "visualize_trace",  "profile_memory",
        "with_stack",       "enable_tracing",     "compare",          NULL};
    pretrain_args *args = &pretrain_given;
    const sweep_options how = {.program = run->launch.program,
                               .training = true,
                               .words = &args->sweep,
                               .keys = keys,
                               .useless = useless,
                               .hw = args->hw,
                               .device = args->device,
                               .stack = "megatron"};
    sweep_free(&swept);
    if (args->sweep.n == 0) return CLI_RUN;
    if (run->launch.mpi) return cli_fail(how.program, CLI_USAGE, "%s", SWEEP_ALONE);
    const int code = sweep_open(&swept, &how, argc, argv);
    args->device = "meta";
    args->enable_tracing = args->skip_eval = true;
    args->trace_wait = 0; /* all steps have the same rows */
    return code;
}

/* ---- Combinations ---- */

typedef struct pretrain_swept {
    pretrain *run;
    pretrain_args given;
    syn_status (*once)(syn_error *err);
    const sweep *of;
    sweep_times *times; /* of the current combination, for each machine */
    bool only_memory;   /* without times */
} pretrain_swept;

bool pretrain_only_memory(const pretrain *run) {
    return run->swept && run->swept->only_memory;
}

syn_status pretrain_add_swept(pretrain *run, syn_error *err) {
    const sweep *s = run->swept->of;
    for (int i = 0; i < s->n_machines; i++) {
        syn_hardware hw = s->machines[i];
        if (s->machine_axis < 0) hw = run->hw; /* the machine of --hw */
        else syn_hardware_set_sharing(&hw, run->launch.ranks);
        SYN_TRY(pretrain_predict(run, &hw, &run->swept->times[i], err));
    }
    return SYN_OK;
}

const syn_hardware *pretrain_deciding_machine(const pretrain *run) {
    const sweep *s = run->swept ? run->swept->of : NULL;
    return s && s->machine_axis >= 0 ? &s->machines[s->deciding] : NULL;
}

/* A sweep_try. */
static syn_status try_one(void *user, const sweep *s, sweep_times *times, syn_error *err) {
    pretrain_swept *w = user;
    pretrain *run = w->run;
    cli_program *program = run->launch.program;
    char all[64] = "training steps";
    launch_free(&run->launch);
    pretrain_free(run);
    *run = (pretrain){.args = &pretrain_given, .swept = w};
    launch_begin(&run->launch, program);
    run->launch.mpi = false; /* also if a launcher started this process */
    run->launch.alone = true;
    run->launch.device = SYN_DEVICE_META;
    run->launch.ranks = (int32_t)run->args->num_gpus;
    w->of = s;
    w->times = times;
    const syn_status status = w->once(err);
    if (sweep_values(&swept, "max_seq_length") == 1)
        snprintf(all, sizeof all, "steps with samples of %lld tokens",
                 (long long)run->args->max_seq_length);
    if (status == SYN_OK) sweep_name(&swept, "model", run->config.name, all);
    *run->args = w->given;
    return status;
}

syn_status pretrain_sweep(pretrain *run, syn_status (*once)(syn_error *err), syn_error *err) {
    const pretrain_args given = *run->args;
    pretrain_swept w = {.run = run, .given = given, .once = once};
    w.given.quiet = run->args->quiet = true;
    syn_status s = sweep_open_folder(&swept, given.out_dir, "--out-dir", err);
    if (s == SYN_OK) s = sweep_run(&swept, try_one, &w, given.quiet, err);
    *run->args = given;
    if (s == SYN_OK) s = sweep_report(&swept, given.out_dir, given.json, given.quiet, err);
    sweep_free(&swept);
    return s;
}

/* ---- Suggestions ---- */

/* Adds another tensor-parallel size with the same number of samples per step and the same number of
   ranks. */
static void add_tp(suggestions *l, const pretrain_args *a, int64_t tp, int64_t batch) {
    if (tp < 1 || a->num_gpus % tp != 0) return;
    suggestions_add_number(l, "tp", tp);
    if (batch > 0) suggestions_with_number(l, "batch_size", batch);
}

/* Adds sequence parallelism if the tensor-parallel size divides the sequence length. */
static void add_sp(suggestions *l, const pretrain_args *a) {
    if (a->tp > 1 && !a->parallel.sp && a->max_seq_length % a->tp == 0)
        suggestions_add(l, "sp", NULL);
}

/* Adds higher stages of ZeRO if there are data-parallel ranks. */
static void add_zero(suggestions *l, const pretrain_args *a) {
    const int64_t model = a->tp * (a->parallel.pp > 0 ? a->parallel.pp : 1);
    for (int64_t zero = a->parallel.zero + 1; zero <= 3 && a->num_gpus > model; zero++)
        suggestions_add_number(l, "zero", zero);
}

/* Adds pipelines, with more ranks if they do not divide the number of ranks. */
static void add_stages(suggestions *l, const pretrain_args *a, int64_t layers) {
    const int64_t now = a->parallel.pp > 0 ? a->parallel.pp : 1;
    for (int64_t pp = 2 * now; pp <= layers; pp *= 2) {
        const int64_t model = a->tp * pp;
        if (layers % pp != 0) continue;
        suggestions_add_number(l, "pp", pp);
        if (a->num_gpus % model != 0)
            suggestions_with_number(l, "num_gpus", (a->num_gpus / model + 1) * model);
    }
}

static void add_faster(suggestions *l, const pretrain_args *a, const syn_hardware *hw,
                       syn_dtype dtype) {
    suggestions_add_dtypes(l, hw, dtype, true);
    if (a->recompute != SYN_RECOMPUTE_NONE) suggestions_add(l, "activation_recompute", "none");
    if (a->recompute == SYN_RECOMPUTE_FULL) suggestions_add(l, "activation_recompute", "selective");
    add_tp(l, a, 2 * a->tp, 2 * a->batch_size);
    if (a->tp % 2 == 0) add_tp(l, a, a->tp / 2, a->batch_size % 2 == 0 ? a->batch_size / 2 : 0);
    add_sp(l, a);
    suggestions_add_number(l, "batch_size", 2 * a->batch_size);
    suggestions_add_number(l, "gradient_accumulation_steps", 2 * a->accumulation);
}

/* Adds a tensor-parallel size, with more ranks if it does not divide the number of ranks. */
static void add_degree(suggestions *l, const pretrain_args *a, int64_t tp) {
    suggestions_add_number(l, "tp", tp);
    if (a->num_gpus % tp != 0) suggestions_with_number(l, "num_gpus", (a->num_gpus / tp + 1) * tp);
}

/* Adds changes that need less memory: ZeRO, recomputation, sequence parallelism, smaller batches,
   pipelines, tensor-parallel sizes that divide the number of heads and stay within a node, and
   finally these sizes together with full recomputation. */
static void add_fitting(suggestions *l, const pretrain_args *a, const syn_hardware *hw,
                        const syn_model_config *model) {
    const bool full = a->recompute == SYN_RECOMPUTE_FULL;
    const int64_t node = hw->node_ranks > 1 ? hw->node_ranks : model->n_head;
    const int64_t heads = model->n_head < node ? model->n_head : node;
    add_zero(l, a);
    if (a->recompute == SYN_RECOMPUTE_NONE) suggestions_add(l, "activation_recompute", "selective");
    if (!full) suggestions_add(l, "activation_recompute", "full");
    add_sp(l, a);
    for (int64_t batch = a->batch_size / 2; batch > 0; batch /= 2)
        suggestions_add_number(l, "batch_size", batch);
    add_stages(l, a, model->n_layer);
    for (int64_t tp = a->tp + 1; tp <= heads; tp++)
        if (model->n_head % tp == 0) add_degree(l, a, tp);
    for (int64_t tp = a->tp + 1; tp <= heads && !full; tp++) {
        if (model->n_head % tp != 0) continue;
        add_degree(l, a, tp);
        suggestions_with(l, "activation_recompute", "full");
    }
}

bool pretrain_fits(const pretrain *run) {
    return sweep_fits(&run->hw, run->predicted.times);
}

void pretrain_suggest(pretrain *run, syn_status (*once)(syn_error *err)) {
    const pretrain_args given = *run->args;
    const syn_hardware hw = run->hw;
    const syn_model_config model = run->config;
    const bool mute = run->launch.program->mute;
    pretrain_swept w = {.run = run, .given = given, .once = once};
    pretrain_args *usual = &w.given;
    suggestions l = {.n = 0};
    if (run->launch.device != SYN_DEVICE_META || given.quiet || !(run->predicted.times->ns > 0))
        return;
    const bool fits = pretrain_fits(run);
    usual->quiet = usual->skip_eval = usual->enable_tracing = true;
    usual->visualize_trace = false;
    usual->compare = NULL;
    usual->trace_skip_first = usual->trace_wait = usual->trace_warmup = 0;
    usual->trace_active = usual->trace_repeat = 1;
    w.only_memory = !fits;
    if (fits) add_faster(&l, &given, &hw, run->dtype);
    else add_fitting(&l, &given, &hw, &model);
    *run->args = *usual;
    (fits ? suggestions_find : suggestions_fit)(&l, run->launch.program, &hw, try_one, &w);
    pretrain_given = given;
    if (!mute) (fits ? suggestions_print : suggestions_fit_print)(&l, stdout);
}
