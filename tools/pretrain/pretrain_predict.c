/* Predicts the time of a training step. */
#include <math.h>

#include "export/export.h"
#include "syntorch/base/memory.h"
#include "syntorch/base/workers.h"
#include "tools/cli_json.h"
#include "tools/folders.h"
#include "tools/launch/gather.h"
#include "tools/pretrain/pretrain.h"
#include "tools/sweep/suggestions.h"

/* Moves the bubble from the share of communication to a share of its own. */
static void split_bubble(sweep_times *t, double bubble) {
    double *comm = &t->shares[SYN_LIMIT_COMMUNICATION];
    t->shares[LIMITS_BUBBLE] = bubble < *comm ? bubble : *comm;
    *comm -= t->shares[LIMITS_BUBBLE];
}

/* Predicts the time of one step from a graph of `steps` steps on n ranks. */
static syn_status time_graph(const syn_hardware *hw, const syn_graph *graph, uint32_t n,
                             int64_t steps, sweep_times *out, syn_error *err) {
    const limits l = pretrain_limits(hw, graph, n);
    syn_predicted_use use = {0};
    if (n > 1) SYN_TRY(syn_predicted_use_of(&use, graph, err));
    else SYN_TRY(syn_predicted_duration(&use.ns, graph, err));
    limits_shares(&l, LIMITS_ALL, use.ns * n, out->shares, &out->utilisation);
    out->extrapolated = l.extrapolated;
    if (use.ns > 0) split_bubble(out, use.idle_ns / use.ns);
    out->ns = use.ns / (double)steps;
    return SYN_OK;
}

static uint32_t stages(const pretrain *run) {
    return (uint32_t)run->launch.parallel.pp;
}

/* Predicts the time of one step from the traces of one rank of each stage. */
static syn_status time_traces(const pretrain *run, syn_ctx *const *ctx, const syn_hardware *hw,
                              int64_t steps, sweep_times *out, syn_error *err) {
    const uint32_t n = stages(run);
    const bool measured = syn_ctx_has_data(ctx[0]);
    const syn_trace **traces = syn_calloc(n, sizeof *traces);
    syn_graph *graph = NULL, *timed = NULL;
    if (!traces) return SYN_FAIL_NOMEM(err, n * sizeof *traces, "traces");
    for (uint32_t i = 0; i < n; i++) traces[i] = syn_ctx_trace(ctx[i]);
    syn_status s = syn_trace_graph(&graph, traces, n, measured ? NULL : hw, err);
    if (s == SYN_OK) s = pretrain_overlap(run, traces, &graph, err);
    if (s == SYN_OK && measured) s = syn_graph_predict(&timed, graph, hw, err);
    if (s == SYN_OK) s = time_graph(hw, measured ? timed : graph, n, steps, out, err);
    syn_graph_free(timed ? timed : graph); /* timed owns graph */
    syn_free(traces);
    return s;
}

static void add_run(const pretrain *run, const syn_hardware *hw, sweep_times *out) {
    out->tokens = pretrain_step_tokens(run);
    out->ranks = run->launch.ranks;
    out->dtype = run->dtype;
    out->error = pretrain_error(run, hw);
}

/* Sets the peak memory to that of the stage that needs most. */
static void add_memory(const double *bytes, uint32_t n, sweep_times *out) {
    out->rank_bytes = 0;
    out->stages = (int32_t)n;
    for (uint32_t i = 0; i < n; i++)
        if (bytes[i] > out->rank_bytes) {
            out->rank_bytes = bytes[i];
            out->fullest = (int32_t)i;
        }
}

/* Sets the peak memory of a stage and its parts. units: see units_left. */
static void set_memory(const pretrain *run, const syn_ctx *ctx, uint32_t stage, double units) {
    size_t parts[SYN_MEMORY_KINDS], shorter[SYN_MEMORY_KINDS] = {0};
    run->stage_bytes[stage] = 0;
    syn_ctx_peak_parts(ctx, parts);
    if (units > 0) syn_ctx_peak_parts(run->shorter[stage], shorter);
    for (int k = 0; k < SYN_MEMORY_KINDS; k++) {
        double *bytes = &run->stage_parts[stage][k];
        *bytes = (double)parts[k];
        if (units > 0) *bytes += units * ((double)parts[k] - (double)shorter[k]);
        run->stage_bytes[stage] += *bytes;
    }
    double *reserved = &run->stage_reserved[stage];
    *reserved = (double)syn_ctx_reserved_bytes(ctx);
    if (units > 0)
        *reserved += units * (*reserved - (double)syn_ctx_reserved_bytes(run->shorter[stage]));
}

/* ---- Recorded steps ---- */

/* For the interleaved schedule: the largest number of microbatches that are recorded for times,
   summed over all stages, unless they are fewer than 3 rounds. */
enum { INTERLEAVED_MICROBATCHES = 512 };

/* A round is a group of microbatches in the interleaved schedule, and otherwise as many
   microbatches as there are stages. Once the pipeline is full, every round takes the same time, so
   the time of a step grows linearly from two rounds on. In the interleaved schedule, peak memory is
   reached in the third round, when all chunks of a stage have gradients. The stages need different
   times to fill, and the slowest stage may determine the time only after many rounds; therefore as
   many rounds as allowed are recorded for times. The recorded steps differ by exactly one round. */
int pretrain_recorded_steps(const pretrain *run, int64_t microbatches[2]) {
    const syn_plan *plan = &run->launch.parallel;
    const int64_t all = run->args->accumulation;
    const int64_t unit = plan->microbatch_group > 0 ? plan->microbatch_group : plan->pp;
    const int64_t least = plan->vp > 1 ? 3 : 2;
    int64_t rounds = least;
    if (plan->vp > 1 && !pretrain_only_memory(run))
        rounds = INTERLEAVED_MICROBATCHES / plan->pp / unit - 1;
    microbatches[0] = (rounds > least ? rounds : least) * unit + all % unit;
    microbatches[1] = microbatches[0] + unit;
    if (all > microbatches[1]) return 2;
    microbatches[0] = all;
    return 1;
}

/* Returns how many times the difference between the two recorded steps must be added to the longer
   one; 0: the step was recorded completely. */
static double units_left(const pretrain *run, int64_t microbatches[2]) {
    if (pretrain_recorded_steps(run, microbatches) == 1) return 0;
    return (double)(run->args->accumulation - microbatches[1]) /
           (double)(microbatches[1] - microbatches[0]);
}

/* Adds `units` times the difference between t and `shorter` to t. */
static void add_units(sweep_times *t, const sweep_times *shorter, double units) {
    const double ns = t->ns + units * (t->ns - shorter->ns);
    for (int i = 0; i < LIMITS_SHARES; i++) {
        const double own = t->shares[i] * t->ns, of_shorter = shorter->shares[i] * shorter->ns;
        t->shares[i] = (own + units * (own - of_shorter)) / ns;
    }
    const double own = t->utilisation * t->ns, of_shorter = shorter->utilisation * shorter->ns;
    t->utilisation = (own + units * (own - of_shorter)) / ns;
    t->ns = ns;
}

/* The recorded step and the shorter one, which are predicted at the same time. */
struct both {
    const pretrain *run;
    const syn_hardware *hw;
    syn_ctx *const *ctx[2];
    sweep_times times[2];
    syn_status status[2];
    syn_error errs[2];
};

static void time_one(void *arg, int64_t i, int worker) {
    struct both *b = arg;
    (void)worker;
    b->status[i] = time_traces(b->run, b->ctx[i], b->hw, 1, &b->times[i], &b->errs[i]);
}

static syn_status predict(const pretrain *run, syn_ctx *const *ctx, const syn_hardware *hw,
                          sweep_times *out, syn_error *err) {
    int64_t microbatches[2];
    const double units = units_left(run, microbatches);
    const int n = units > 0 ? 2 : 1;
    syn_workers *workers = NULL;
    add_run(run, hw, out);
    if (pretrain_only_memory(run)) return SYN_OK;
    struct both b = {.run = run, .hw = hw, .ctx = {ctx, run->shorter}, .times = {*out, *out}};
    if (n > 1 && cli_cores() > 1) SYN_TRY(syn_workers_new(&workers, n, err));
    syn_workers_run(workers, n, time_one, &b);
    syn_workers_free(workers);
    for (int i = 0; i < n; i++)
        if (b.status[i] != SYN_OK) {
            *err = b.errs[i];
            return b.status[i];
        }
    *out = b.times[0];
    if (n > 1) add_units(out, &b.times[1], units);
    return SYN_OK;
}

syn_status pretrain_predict(const pretrain *run, const syn_hardware *hw, sweep_times *out,
                            syn_error *err) {
    const launch *l = &run->launch;
    const uint32_t n = stages(run);
    int64_t microbatches[2];
    const double units = units_left(run, microbatches);
    syn_ctx **ctx = syn_calloc(n, sizeof *ctx);
    if (!ctx) return SYN_FAIL_NOMEM(err, n * sizeof *ctx, "contexts");
    for (uint32_t i = 0; i < n; i++) {
        ctx[i] = l->ctx[l->mpi ? 0 : l->alone_rank + (int32_t)i * l->alone_step];
        set_memory(run, ctx[i], i, units);
    }
    const syn_status s = predict(run, ctx, hw, out, err);
    add_memory(run->stage_bytes, n, out);
    syn_free(ctx);
    return s;
}

syn_status pretrain_predict_recorded(pretrain *run, syn_error *err) {
    const comparison *c = &run->predicted;
    if (run->swept) return pretrain_add_swept(run, err);
    for (int i = 0; i < c->n; i++)
        SYN_TRY(pretrain_predict(run, &c->machines[i], &c->times[i], err));
    return SYN_OK;
}

/* ---- Traced steps ---- */

/* Without a pipeline: predicts the step from this rank's own trace. Does nothing unless this is the
   rank that represents all others: rank 0 over MPI, otherwise launch.alone_rank. */
static syn_status predict_one(pretrain *run, syn_ctx *ctx, int32_t rank, int64_t steps,
                              syn_error *err) {
    const comparison *c = &run->predicted;
    const double bytes = (double)syn_ctx_peak_bytes(ctx);
    if (rank != (run->launch.mpi ? 0 : run->launch.alone_rank)) return SYN_OK;
    set_memory(run, ctx, 0, 0);
    for (int i = 0; i < c->n; i++) {
        SYN_TRY(time_traces(run, &ctx, &c->machines[i], steps, &c->times[i], err));
        add_run(run, &c->machines[i], &c->times[i]);
        add_memory(&bytes, 1, &c->times[i]);
    }
    return SYN_OK;
}

/* Predicts the step on each machine from a graph of all ranks. */
static syn_status predict_stages(pretrain *run, const syn_graph *all, int64_t steps,
                                 syn_error *err) {
    const comparison *c = &run->predicted;
    for (int i = 0; i < c->n; i++) {
        syn_graph *copy, *timed = NULL;
        SYN_TRY(gather_copy(&copy, all, err));
        syn_status s = syn_graph_predict(&timed, copy, &c->machines[i], err);
        if (s == SYN_OK)
            s = time_graph(&c->machines[i], timed, all->n_ranks, steps, &c->times[i], err);
        syn_graph_free(timed ? timed : copy);
        SYN_TRY(s);
        add_run(run, &c->machines[i], &c->times[i]);
        add_memory(run->stage_bytes, stages(run), &c->times[i]);
    }
    return SYN_OK;
}

/* Sets run->stage_bytes to the largest peak memory of each stage's ranks. On meta, only the ranks
   that have run so far count. Otherwise the peaks of all ranks are sent to rank 0, and only its
   result is complete. */
static syn_status stage_memory(const pretrain *run, const syn_ctx *ctx, syn_comm *comm,
                               syn_error *err) {
    const launch *l = &run->launch;
    uint64_t *all = syn_calloc((size_t)comm->size, sizeof *all);
    int32_t stride[SYN_AXES];
    syn_status s = SYN_OK;
    if (!all) return SYN_FAIL_NOMEM(err, (size_t)comm->size * sizeof *all, "peak memory");
    if (l->device != SYN_DEVICE_META) s = gather_numbers(all, comm, syn_ctx_peak_bytes(ctx), err);
    syn_plan_strides(&l->parallel, stride);
    for (int32_t r = 0; r < comm->size && s == SYN_OK; r++) {
        double *most = &run->stage_bytes[r / stride[SYN_AXIS_PP] % l->parallel.pp];
        if (l->device == SYN_DEVICE_META) all[r] = l->ctx[r] ? syn_ctx_peak_bytes(l->ctx[r]) : 0;
        if ((double)all[r] <= *most) continue;
        *most = (double)all[r];
        if (l->device == SYN_DEVICE_META)
            set_memory(run, l->ctx[r], (uint32_t)(r / stride[SYN_AXIS_PP] % l->parallel.pp), 0);
    }
    syn_free(all);
    return s;
}

syn_status pretrain_predict_traced(pretrain *run, syn_ctx *ctx, syn_comm *comm,
                                   const syn_graph *all, int64_t steps, syn_error *err) {
    const bool meta = run->launch.device == SYN_DEVICE_META;
    if (run->predicted.n == 0) return SYN_OK;
    if (stages(run) == 1) {
        SYN_TRY(predict_one(run, ctx, comm->rank, steps, err));
        /* On meta, the graph of all ranks has the times predicted for the machine of the run,
           including the times in which ranks wait for each other. */
        if (!all || !meta || !run->launch.hw) return SYN_OK;
        return time_graph(run->launch.hw, all, 1, steps, run->predicted.times, err);
    }
    SYN_TRY(stage_memory(run, ctx, comm, err));
    return all ? predict_stages(run, all, steps, err) : SYN_OK;
}

/* ---- Printing ---- */

enum { LISTED_STAGES = 16 };

static void print_parts(const double parts[SYN_MEMORY_KINDS]) {
    char w[32], g[32], o[32], a[32];
    if (!(parts[SYN_MEMORY_WEIGHTS] > 0)) return;
    printf(
        "        at the peak: weights %s, gradients %s, optimizer %s, activations and buffers %s\n",
        cli_bytes_text(parts[SYN_MEMORY_WEIGHTS], w, sizeof w),
        cli_bytes_text(parts[SYN_MEMORY_GRADIENTS], g, sizeof g),
        cli_bytes_text(parts[SYN_MEMORY_STATES], o, sizeof o),
        cli_bytes_text(parts[SYN_MEMORY_OTHER], a, sizeof a));
}

static void print_reserved(double bytes) {
    char text[32];
    if (bytes > 0)
        printf("        PyTorch's caching allocator would reserve %s\n",
               cli_bytes_text(bytes, text, sizeof text));
}

static void print_memory(const pretrain *run, const sweep_times *t) {
    char text[32];
    cli_bytes_text(t->rank_bytes, text, sizeof text);
    if (t->stages < 2) {
        printf("memory: %s per rank\n", text);
        print_parts(run->stage_parts[0]);
        print_reserved(run->stage_reserved[0]);
        return;
    }
    printf("memory: %s per rank of stage %d, which needs most", text, t->fullest);
    for (int32_t i = 0; i < t->stages && t->stages <= LISTED_STAGES; i++)
        printf("%s%s", i == 0 ? "; by stage: " : ", ",
               cli_bytes_text(run->stage_bytes[i], text, sizeof text));
    printf("\n");
    print_parts(run->stage_parts[t->fullest]);
    print_reserved(run->stage_reserved[t->fullest]);
}

/* Adds "memory": {...} with the peak and, if they are known, its parts and the bytes that PyTorch's
   allocator would reserve. */
static void put_memory(double peak, const double parts[SYN_MEMORY_KINDS], double reserved,
                       syn_sink *out) {
    static const char *const names[SYN_MEMORY_KINDS] = {
        [SYN_MEMORY_WEIGHTS] = "weights",
        [SYN_MEMORY_GRADIENTS] = "gradients",
        [SYN_MEMORY_STATES] = "optimizer",
        [SYN_MEMORY_OTHER] = "activations",
    };
    syn_sink_printf(out, "\"memory\": {\"peak_bytes\": %.0f", peak);
    for (int k = 0; k < SYN_MEMORY_KINDS && parts[SYN_MEMORY_WEIGHTS] > 0; k++)
        syn_sink_printf(out, ", \"%s_bytes\": %.0f", names[k], parts[k]);
    if (reserved > 0) syn_sink_printf(out, ", \"reserved_bytes\": %.0f", reserved);
    syn_sink_text(out, "}");
}

/* How unevenly the experts of a rank are loaded according to --routing. */
typedef struct imbalance {
    double most, mean; /* rows of the rank that has most, divided by the mean of all ranks: in the
                          most uneven layer, and the mean over the layers */
    int64_t layer;     /* number of that layer */
    double dropped;    /* with --capacity: the part of the rows that are dropped, and the ranks are
                          loaded evenly */
} imbalance;

static int64_t rank_tokens(const pretrain *run) {
    const syn_plan *plan = &run->launch.parallel;
    return run->batches.tokens * run->args->batch_size / plan->cp / (plan->sp ? plan->tp : 1);
}

/* Adds a layer, whose experts have rows[e] of `all` rows. */
static void add_layer(imbalance *sum, const pretrain *run, int64_t layer, const int64_t *rows,
                      int64_t all) {
    const int64_t n = run->config.experts.n, ranks = run->launch.parallel.ep, each = n / ranks;
    const int64_t capacity =
        syn_expert_capacity_rows(&run->config, rank_tokens(run), run->args->capacity);
    int64_t most = 0, dropped = 0;
    for (int64_t first = 0; first < n; first += each) {
        int64_t own = 0;
        for (int64_t e = first; e < first + each; e++) {
            own += rows[e];
            dropped += capacity > 0 && rows[e] > capacity ? rows[e] - capacity : 0;
        }
        most = own > most ? own : most;
    }
    const double ratio = (double)most * (double)ranks / (double)all;
    sum->mean += ratio;
    sum->dropped += (double)dropped / (double)all;
    if (ratio > sum->most) sum->layer = layer;
    if (ratio > sum->most) sum->most = ratio;
}

/* Returns false if all experts have the same load. */
static bool measure_imbalance(const pretrain *run, imbalance *out) {
    const syn_model_config *c = &run->config;
    const int64_t tokens = rank_tokens(run);
    int64_t *rows = run->load.weights ? syn_calloc((size_t)c->experts.n, sizeof *rows) : NULL;
    int64_t n = 0;
    *out = (imbalance){.most = 0};
    for (int64_t i = 0; rows && i < c->n_layer + pretrain_mtp(run); i++) {
        if (!syn_model_layer_has_experts(c, i)) continue;
        syn_expert_load_rows(&run->load, n++, tokens, c->experts.k, rows);
        add_layer(out, run, i, rows, tokens * c->experts.k);
    }
    if (n > 0) out->mean /= (double)n;
    if (n > 0) out->dropped /= (double)n;
    syn_free(rows);
    return n > 0;
}

static void print_imbalance(const pretrain *run) {
    imbalance rows;
    if (!measure_imbalance(run, &rows)) return;
    if (run->args->capacity > 0)
        printf("routing: %.1f %% of the rows of experts are dropped\n", 100 * rows.dropped);
    else
        printf("routing: the busiest rank of a layer has %.2f times the mean rows of experts; %.2f "
               "times in layer %lld\n",
               rows.mean, rows.most, (long long)rows.layer);
}

static void put_imbalance(const pretrain *run, syn_sink *out) {
    imbalance rows;
    if (!measure_imbalance(run, &rows)) return;
    if (run->args->capacity > 0) syn_sink_printf(out, ", \"dropped_rows\": %.6g", rows.dropped);
    else
        syn_sink_printf(out, ", \"imbalance\": {\"mean\": %.6g, \"largest\": %.6g}", rows.mean,
                        rows.most);
}

static void print_own(const pretrain *run) {
    const syn_hardware *hw = &run->hw;
    const sweep_times *t = run->predicted.times;
    const run_error e = pretrain_error(run, hw);
    char a[64], b[64], title[160], on[CLI_SHOWN_BYTES], text[256];
    if (run->measured_ns > 0)
        printf("measured step:  %s, %s tokens/s\n", cli_time_text(run->measured_ns, a, sizeof a),
               cli_count_text(t->tokens * 1e9 / run->measured_ns, b, sizeof b));
    printf("predicted step: %s, %s tokens/s in %s%s on %s\n", cli_time_text(t->ns, a, sizeof a),
           cli_count_text(t->tokens * 1e9 / t->ns, b, sizeof b), syn_dtype_name(run->dtype),
           hw->fp8 ? " with FP8 products" : "",
           cli_shown(syn_hardware_title(hw, title, sizeof title), on, sizeof on));
    printf("limits: %s\n", limits_shares_text(t->shares, t->utilisation, text, sizeof text));
    printf("prediction error: %s\n", residuals_text(&e, hw, text, sizeof text));
    extrapolation_print(&t->extrapolated, stdout);
    print_memory(run, t);
    print_imbalance(run);
    snprintf(text, sizeof text, "%s weights, gradients, optimizer and activations",
             syn_dtype_name(run->dtype));
    if (!sweep_fits(hw, t)) suggestions_print_need(hw, t, text, stdout);
}

static void put_own(const pretrain *run, syn_sink *out) {
    const sweep_times *t = run->predicted.times;
    const run_error e = pretrain_error(run, &run->hw);
    put_imbalance(run, out);
    if (run->hw.fp8) syn_sink_text(out, ", \"fp8\": true");
    syn_sink_text(out, ", \"hardware\": ");
    syn_sink_json_string(out, run->hw.name);
    syn_sink_text(out, ", \"stack\": ");
    syn_sink_json_string(out, run->hw.stack.name);
    syn_sink_text(out, ", \"predicted_step_ns\": ");
    syn_sink_double(out, t->ns);
    syn_sink_text(out, ", \"predicted_tokens_per_second\": ");
    syn_sink_double(out, t->tokens * 1e9 / t->ns);
    syn_sink_text(out, ", \"step_limits\": ");
    limits_shares_json(t->shares, t->utilisation, out);
    if (e.n_rows > 0) {
        syn_sink_text(out, ", \"predicted_error\": ");
        syn_sink_double(out, e.error);
        syn_sink_text(out, ", \"extrapolated\": ");
        syn_sink_json_string(out, e.extrapolated);
    }
    syn_sink_text(out, ", \"extrapolations\": ");
    extrapolation_json(&t->extrapolated, out);
    syn_sink_printf(out, ", \"fits\": %s, ", sweep_fits(&run->hw, t) ? "true" : "false");
    put_memory(t->rank_bytes, run->stage_parts[t->fullest], run->stage_reserved[t->fullest], out);
    syn_sink_text(out, ", \"stages\": [");
    for (int32_t i = 0; i < t->stages; i++) {
        syn_sink_text(out, i > 0 ? ", {" : "{");
        put_memory(t->stages > 1 ? run->stage_bytes[i] : t->rank_bytes, run->stage_parts[i],
                   run->stage_reserved[i], out);
        syn_sink_text(out, "}");
    }
    syn_sink_text(out, "]");
}

/* Adds the members that describe context parallelism and a pipeline. */
static void put_division(const pretrain *run, syn_sink *out) {
    const syn_plan *plan = &run->launch.parallel;
    if (plan->cp > 1)
        syn_sink_printf(out, ", \"cp\": %d, \"cp_comm\": \"%s\"", plan->cp,
                        syn_cp_comm_name(plan->cp_comm));
    if (plan->pp == 1) return;
    syn_sink_printf(out, ", \"pp\": %d, \"schedule\": \"%s\", \"vp\": %d, \"layers_per_stage\": [",
                    plan->pp, syn_schedule_name(plan->schedule), plan->vp);
    const syn_schedule_shape shape = pretrain_schedule(run, 1);
    for (int32_t i = 0; i < syn_schedule_virtual_stages(&shape); i++)
        syn_sink_printf(out, "%s%lld", i ? ", " : "", (long long)run->parts[i].n_layers);
    syn_sink_text(out, "]");
}

static bool is_predicted(const pretrain *run) {
    return run->predicted.n > 0 && run->predicted.times->ns > 0;
}

/* Adds the results of a training run, and the files of --save-dir that exist. */
static void put_training(const pretrain *run, syn_sink *out) {
    const char *const names[] = {"metrics.csv", "loss.svg"};
    const pretrain_metrics *m = &run->last;
    char path[FOLDER_PATH_BYTES];
    bool first = true;
    syn_sink_printf(out, ", \"steps\": %lld, \"step\": %lld", (long long)run->steps,
                    (long long)m->step);
    cli_json_real(out, "loss", m->step > 0 ? m->loss : NAN);
    cli_json_real(out, "validation_loss", run->validated ? run->validation_loss : NAN);
    cli_json_real(out, "tokens_per_second", m->step > 0 ? m->tokens_per_s : NAN);
    syn_sink_text(out, ", \"saved\": [");
    for (int i = 0; i < 2; i++) {
        if (*run->saved[i] == '\0' ||
            folder_path(path, NULL, run->args->save_dir, run->saved[i]) != SYN_OK)
            continue;
        if (!first) syn_sink_text(out, ", ");
        syn_sink_json_string(out, path);
        first = false;
    }
    syn_sink_char(out, ']');
    first = true;
    cli_json_begin_written(out);
    for (int i = 0; i < 2; i++)
        if (folder_path(path, NULL, run->args->save_dir, names[i]) == SYN_OK)
            cli_json_add_written(out, path, &first);
    syn_sink_char(out, ']');
}

/* Begins the object that launch_program prints at the end. */
static syn_status put_json(pretrain *run, syn_error *err) {
    static const char *const recomputes[] = {[SYN_RECOMPUTE_NONE] = "none",
                                             [SYN_RECOMPUTE_SELECTIVE] = "selective",
                                             [SYN_RECOMPUTE_FULL] = "full",
                                             [SYN_RECOMPUTE_OP] = "op"};
    const pretrain_args *a = run->args;
    SYN_TRY(cli_json_open(&run->launch.json, run->launch.program, err));
    syn_sink *out = run->launch.json;
    cli_json_text(out, "model", run->config.name);
    syn_sink_printf(out,
                    ", \"tp\": %lld, \"dp\": %d, \"zero\": %d, \"device\": \"%s\", \"dtype\": "
                    "\"%s\", \"ranks\": %d, "
                    "\"batch_size\": %lld, \"max_seq_length\": %lld, "
                    "\"gradient_accumulation_steps\": %lld, \"activation_recompute\": \"%s\"",
                    (long long)a->tp, run->launch.parallel.dp, run->launch.parallel.zero, a->device,
                    syn_dtype_name(run->dtype), run->launch.ranks, (long long)a->batch_size,
                    (long long)a->max_seq_length, (long long)a->accumulation,
                    recomputes[a->recompute]);
    put_division(run, out);
    if (is_predicted(run)) put_own(run, out);
    if (run->launch.device != SYN_DEVICE_META) put_training(run, out);
    if (a->enable_tracing && !run->predicts) pretrain_put_traces(run, out);
    if (a->compare && is_predicted(run)) {
        syn_sink_text(out, ", \"compared\": ");
        comparison_json(&run->predicted, true, out);
    }
    return SYN_OK;
}

syn_status pretrain_report(pretrain *run, syn_error *err) {
    const comparison *c = &run->predicted;
    if (run->launch.program->mute) return SYN_OK;
    if (run->args->json) return put_json(run, err);
    if (run->args->quiet || !is_predicted(run)) return SYN_OK;
    if (run->launch.hw) print_own(run);
    if (run->args->compare) comparison_print(c, "step", stdout);
    return SYN_OK;
}
