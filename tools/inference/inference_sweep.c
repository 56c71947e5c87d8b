/* --sweep of the inference program, and suggestions of options that make a run faster. */
#include <string.h>

#include "syntorch/base/memory.h"
#include "tools/inference/inference_score.h"
#include "tools/sweep/suggestions.h"

static sweep swept;
static char *other_machines; /* all machines of the sweep except the first, for --compare; NULL:
                                there is only one */

/* ---- Options ---- */

/* Sets --hw and --compare to the machines of a sweep, so that a run predicts times for all of
   them. */
static int name_machines(const cli_program *program, inference_args *args) {
    if (swept.machine_axis < 0) return CLI_RUN;
    const sweep_axis *axis = &swept.axes[swept.machine_axis];
    size_t bytes = 1, used = 0;
    for (int i = 1; i < axis->n; i++) bytes += strlen(axis->values[i]) + 1;
    args->hw = axis->values[0];
    if (axis->n == 1) return CLI_RUN;
    other_machines = syn_malloc(bytes);
    if (!other_machines) return cli_fail(program, CLI_FAILED, "out of memory: --sweep");
    for (int i = 1; i < axis->n; i++)
        used += (size_t)snprintf(other_machines + used, bytes - used, "%s%s", i > 1 ? "," : "",
                                 axis->values[i]);
    args->compare = other_machines;
    return CLI_RUN;
}

int inference_check_sweep(const inference *run, int argc, char **argv) {
    static const char *const keys[] = {"tp",        "pp",           "dp",
                                       "ep",        "batch_size",   "num_input_tokens",
                                       "dtype",     "weight_dtype", "num_output_tokens",
                                       "attention", "model",        "hw",
                                       NULL};
    static const char *const useless[] = {
        "compare",      "visualize_trace", "save_logits", "debug",
        "embeddings",   "perplexity",      "watchdog",    "check_collectives",
        "save_weights", "temperature",     "top_k",       "top_p",
        "min_p",        "greedy",          "seed",        NULL};
    inference_args *args = inference_arguments();
    const sweep_options how = {.program = run->launch.program,
                               .words = &args->sweep,
                               .keys = keys,
                               .useless = useless,
                               .hw = args->hw,
                               .device = args->device,
                               .stack = "serving"};
    sweep_free(&swept);
    if (args->sweep.n == 0) return CLI_RUN;
    if (run->launch.mpi) return cli_fail(how.program, CLI_USAGE, "%s", SWEEP_ALONE);
    const int code = sweep_open(&swept, &how, argc, argv);
    if (code != CLI_RUN) return code;
    args->device = "meta";
    return name_machines(how.program, args);
}

/* ---- Combinations ---- */

typedef struct sweeping {
    inference *run;
    inference_args given;
    syn_status (*once)(syn_error *err);
} sweeping;

void inference_begin_again(inference *run) {
    cli_program *program = run->launch.program;
    launch_free(&run->launch);
    inference_free(run);
    *run = (inference){.args = NULL};
    launch_begin(&run->launch, program);
    run->launch.mpi = false; /* also if a launcher started this process */
    run->launch.alone = true;
}

const syn_hardware *inference_deciding_machine(const inference *run) {
    return swept.machine_axis >= 0 && swept.n_machines > 0 ? &swept.machines[swept.deciding]
                                                           : &run->hw;
}

/* The peak memory of the recorded rank that needs most. */
static double peak_bytes(const inference *run, int32_t *stage) {
    const launch *l = &run->launch;
    double most = 0;
    *stage = 0;
    for (int32_t i = 0; i < l->parallel.pp; i++) {
        const syn_ctx *ctx = l->ctx[inference_stage_rank(run, i)];
        const double bytes = ctx ? (double)syn_ctx_peak_bytes(ctx) : 0;
        if (bytes > most) {
            most = bytes;
            *stage = i;
        }
    }
    return most;
}

sweep_times inference_times(const inference *run, const report *r, const syn_hardware *hw) {
    const int64_t tokens = run->scored_tokens > 0 ? run->scored_tokens
                           : run->new_tokens > 0  ? run->new_tokens
                                                  : run->prompt_tokens;
    sweep_times t = {.ns = r->total.predicted_ns,
                     .forward_ns = r->predicted_forward_ns,
                     .prefill_ns = r->predicted_prefill_ns,
                     .decode_ns = r->predicted_decode_ns,
                     .tokens = (double)(inference_sequences(run) * tokens),
                     .stages = run->launch.parallel.pp,
                     .dtype = run->dtype,
                     .extrapolated = r->limits.extrapolated,
                     .ranks = run->launch.ranks};
    t.rank_bytes = peak_bytes(run, &t.fullest);
    limits_shares(&r->limits, LIMITS_ALL, t.ns, t.shares, &t.utilisation);
    if (!run->task->shape) return t;
    const run_shape shape = run->task->shape(run);
    t.error = residuals_near(hw, &shape);
    return t;
}

/* Describes the lengths that all combinations have in common, for the subtitle. */
static const char *lengths_text(const inference *run, char buf[100]) {
    int used = 0;
    buf[0] = '\0';
    if (sweep_values(&swept, "num_input_tokens") == 1)
        used = snprintf(buf, 100, "prompts of %lld tokens", (long long)run->prompt_tokens);
    if (sweep_values(&swept, "num_output_tokens") == 1 && run->new_tokens > 0)
        snprintf(buf + used, 100 - (size_t)used, "%s%lld generated", used ? ", " : "",
                 (long long)run->new_tokens);
    return buf;
}

/* A sweep_try. */
static syn_status try_one(void *user, const sweep *s, sweep_times *times, syn_error *err) {
    sweeping *w = user;
    inference *run = w->run;
    char lengths[100];
    inference_begin_again(run);
    syn_status status = inference_check_options(run) == CLI_RUN ? w->once(err) : err->code;
    for (int i = 0; status == SYN_OK && i < s->n_machines; i++)
        times[i] = inference_times(run, s->n_machines > 1 ? &run->compared[i] : &run->report,
                                   &s->machines[i]);
    if (status == SYN_OK) sweep_name(&swept, "model", run->config.name, lengths_text(run, lengths));
    *inference_arguments() = w->given;
    return status;
}

syn_status inference_sweep(inference *run, syn_status (*once)(syn_error *err), syn_error *err) {
    const inference_args given = *run->args;
    sweeping w = {run, given, once};
    w.given.quiet = run->args->quiet = true;
    syn_status s = sweep_open_folder(&swept, given.out_dir, "--out_dir", err);
    if (s == SYN_OK) s = sweep_run(&swept, try_one, &w, given.quiet, err);
    *inference_arguments() = given;
    if (s == SYN_OK) s = sweep_report(&swept, given.out_dir, given.json, given.quiet, err);
    sweep_free(&swept);
    syn_free(other_machines);
    other_machines = NULL;
    return s;
}

/* ---- Suggestions ---- */

static bool may_take_more(const inference_args *args) {
    return !args->prompts && !args->prompt_ids;
}

static void add_faster(suggestions *l, const inference *run) {
    const int64_t tp = run->args->tp;
    suggestions_add_dtypes(l, &run->hw, run->dtype, false);
    if (!run->fused_attention) suggestions_add(l, "attention", "fused");
    suggestions_add_number(l, "tp", 2 * tp);
    if (tp % 2 == 0) suggestions_add_number(l, "tp", tp / 2);
    if (may_take_more(run->args))
        suggestions_add_number(l, "batch_size", 2 * run->args->batch_size);
}

void inference_add_fitting(suggestions *l, const inference *run) {
    const int64_t heads = run->config.n_head;
    if (syn_dtype_bytes(run->dtype) > 2) suggestions_add_dtypes(l, &run->hw, run->dtype, false);
    for (int64_t batch = run->args->batch_size / 2; batch > 0 && may_take_more(run->args);
         batch /= 2)
        suggestions_add_number(l, "batch_size", batch);
    for (int64_t tp = run->args->tp + 1; tp <= heads; tp++)
        if (heads % tp == 0) suggestions_add_number(l, "tp", tp);
    if (run->task != &inference_generate || inference_scores(run->args)) return;
    for (int64_t pp = run->launch.parallel.pp + 1; pp <= run->config.n_layer; pp++)
        if (run->config.n_layer % pp == 0) suggestions_add_number(l, "pp", pp);
}

void inference_suggest(inference *run, syn_status (*once)(syn_error *err)) {
    const inference_args given = *run->args;
    sweeping w = {run, given, once};
    inference_args *usual = &w.given;
    suggestions l = {.n = 0};
    const syn_hardware hw = run->hw;
    if (run->launch.device != SYN_DEVICE_META || given.quiet || given.json || given.perplexity)
        return;
    const sweep_times own = inference_times(run, &run->report, &hw);
    const bool fits = sweep_fits(&hw, &own);
    usual->quiet = true;
    usual->visualize_trace = usual->debug = false;
    usual->compare = NULL;
    usual->attention = run->fused_attention ? INFERENCE_FUSED : INFERENCE_UNFUSED;
    if (fits) add_faster(&l, run);
    else inference_add_fitting(&l, run);
    *run->args = *usual;
    (fits ? suggestions_find : suggestions_fit)(&l, run->launch.program, &hw, try_one, &w);
    *inference_arguments() = given;
    (fits ? suggestions_print : suggestions_fit_print)(&l, stdout);
}
