/* Determines which steps of the pretraining program are traced, and writes the traces. */
#include <inttypes.h>
#include <string.h>

#include "export/export.h"
#include "syntorch/base/memory.h"
#include "tools/folders.h"
#include "tools/launch/gather.h"
#include "tools/pretrain/pretrain.h"

/* The traced steps of a cycle, which form one trace. */
struct pretrain_window {
    int64_t step;       /* number of the last traced step; steps count from 1 */
    int64_t n_steps;    /* number of traced steps; less than --trace-active-steps if the run ended
                           earlier */
    syn_graph **graphs; /* on meta: graphs of the ranks that have run, until all ranks have;
                           otherwise NULL */
};

/* ---- When ---- */

/* A step's position in the cycles, counted like torch.profiler.schedule. */
typedef struct place {
    int64_t cycle;  /* -1: the step is not traced */
    int64_t active; /* position of the step among the traced steps of the cycle, from 1 */
} place;

static place place_of(const pretrain_args *args, int64_t nth) {
    const int64_t before = args->trace_wait + args->trace_warmup;
    const int64_t length = before + args->trace_active;
    const place none = {-1, 0};
    nth -= args->trace_skip_first;
    if (!args->enable_tracing || nth < 0 || nth % length < before) return none;
    if (args->trace_repeat > 0 && nth / length >= args->trace_repeat) return none;
    return (place){nth / length, nth % length - before + 1};
}

pretrain_tracing pretrain_tracing_of(const pretrain_args *args, int64_t nth, bool last) {
    const place here = place_of(args, nth);
    if (here.cycle < 0) return PRETRAIN_UNTRACED;
    if (!last && here.active < args->trace_active) return PRETRAIN_ACTIVE;
    return last || here.cycle + 1 == args->trace_repeat ? PRETRAIN_LAST_WINDOW : PRETRAIN_WINDOW;
}

/* ---- What ---- */

/* Metadata that is left out because it says nothing about this run. */
static bool is_default(const pretrain *run, const syn_attribute *a) {
    const char *n = a->name;
    if (strcmp(n, "rank_order") == 0) return syn_plan_order_number(&run->launch.parallel) == 0;
    if (strncmp(n, "cp", 2) == 0) return run->launch.parallel.cp == 1;
    if (strcmp(n, "pp") == 0 || strcmp(n, "schedule") == 0) return run->launch.parallel.pp == 1;
    if (strcmp(n, "etp") == 0) return !syn_plan_experts_apart(&run->launch.parallel);
    if (strcmp(n, "capacity") == 0) return run->args->capacity <= 0;
    return a->i64 == 1 &&
           (strcmp(n, "accumulation") == 0 || strcmp(n, "vp") == 0 || strcmp(n, "ep") == 0);
}

static syn_status set_metadata(const pretrain *run, int64_t step, syn_graph *graph,
                               syn_error *err) {
    const syn_model_config *m = &run->config;
    const pretrain_args *args = run->args;
    const syn_attribute list[] = {
        {.name = "model", .type = SYN_VALUE_TEXT, .text = m->name},
        {.name = "layers", .i64 = m->n_layer},
        {.name = "hidden", .i64 = m->n_embd},
        {.name = "heads", .i64 = m->n_head},
        {.name = "vocabulary", .i64 = m->vocab_size},
        {.name = "dtype", .type = SYN_VALUE_TEXT, .text = syn_dtype_name(run->dtype)},
        {.name = "fp8", .type = SYN_VALUE_TEXT, .text = run->hw.fp8 ? "layers" : NULL},
        {.name = "tp", .i64 = run->launch.parallel.tp},
        {.name = "dp", .i64 = run->launch.parallel.dp},
        {.name = "pp", .i64 = run->launch.parallel.pp},
        {.name = "cp", .i64 = run->launch.parallel.cp},
        {.name = "cp_comm",
         .type = SYN_VALUE_TEXT,
         .text = syn_cp_comm_name(run->launch.parallel.cp_comm)},
        {.name = "ep", .i64 = run->launch.parallel.ep},
        {.name = "etp", .i64 = run->launch.parallel.etp},
        {.name = "routing", .type = SYN_VALUE_TEXT, .text = args->routing},
        {.name = "capacity", .type = SYN_VALUE_F64, .f64 = args->capacity},
        {.name = "schedule",
         .type = SYN_VALUE_TEXT,
         .text = syn_schedule_name(run->launch.parallel.schedule)},
        {.name = "vp", .i64 = run->launch.parallel.vp},
        {.name = "layers_per_stage", .type = SYN_VALUE_TEXT, .text = run->uneven},
        {.name = "rank_order",
         .type = SYN_VALUE_TEXT,
         .text = syn_plan_order_text(&run->launch.parallel)},
        {.name = "batch", .i64 = args->batch_size},
        {.name = "accumulation", .i64 = args->accumulation},
        {.name = "tokens", .i64 = args->max_seq_length},
        {.name = "step", .i64 = step},
        {.name = "device", .type = SYN_VALUE_TEXT, .text = args->device},
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        if (is_default(run, &list[i])) continue;
        if (list[i].type != SYN_VALUE_TEXT || list[i].text)
            SYN_TRY(syn_graph_set_meta(graph, &list[i], err));
    }
    return run->launch.hw ? syn_graph_set_hardware(graph, &run->hw, err) : SYN_OK;
}

/* ---- Files ---- */

enum { PREFIX_BYTES = 4200 };

/* Returns the prefix of a trace's files. If there are several cycles, each has its own prefix. */
static const char *prefix_of(const pretrain_args *args, int64_t step, char out[PREFIX_BYTES]) {
    char which[32] = "";
    if (args->trace_repeat != 1) snprintf(which, sizeof which, "_step%" PRId64, step);
    snprintf(out, PREFIX_BYTES, "%s/%s%s", args->out_dir, args->trace_name, which);
    return out;
}

static void report_window(pretrain *run, const struct pretrain_window *window, const char *prefix,
                          uint32_t ranks) {
    char shown[CLI_SHOWN_BYTES], part[96] = "";
    if (run->args->quiet) return;
    if (window->n_steps < run->args->trace_active)
        snprintf(part, sizeof part, ": %" PRId64 " of %" PRId64 " steps, because the run finished",
                 window->n_steps, run->args->trace_active);
    pretrain_bar_clear(run);
    printf("traced: %s.*, for %u %s in %s%s\n", cli_shown(prefix, shown, sizeof shown),
           (unsigned)ranks, ranks == 1 ? "rank" : "ranks", syn_dtype_name(run->dtype), part);
}

limits pretrain_limits(const syn_hardware *hw, const syn_graph *graph, uint32_t n) {
    syn_cursor cur = {0};
    limits l = {0};
    for (uint32_t rank = 0; rank < n; rank++)
        for (uint32_t i = 0; i < graph->ranks[rank].n_nodes; i++) {
            const syn_node *node = syn_graph_node(graph, rank, i, &cur);
            if (node) limits_add(&l, hw, graph, rank, node);
        }
    syn_cursor_free(&cur);
    return l;
}

double pretrain_step_tokens(const pretrain *run) {
    const pretrain_args *args = run->args;
    return (double)(args->batch_size * args->max_seq_length * args->accumulation) *
           run->launch.parallel.dp;
}

run_error pretrain_error(const pretrain *run, const syn_hardware *hw) {
    const pretrain_args *args = run->args;
    run_shape shape = {.training = true,
                       .wide = run->dtype == SYN_F32,
                       .layers = run->config.n_layer,
                       .hidden = run->config.n_embd,
                       .tp = run->launch.parallel.tp,
                       .dp = run->launch.parallel.dp,
                       .pp = run->launch.parallel.pp,
                       .batch = args->batch_size,
                       .tokens = args->max_seq_length};
    int n = 0;
    const bool core = strcmp(hw->stack.name, "megatron-core") == 0;
    const bool llama = run->config.family == &syn_llama_family;
    if (run->config.family != &syn_gpt_family && !(core && llama))
        shape.unlike[n++] = core ? "a model other than GPT and Llama" : "a model other than GPT";
    if (run->launch.parallel.cp > 1) shape.unlike[n++] = "context parallelism";
    if (run->launch.parallel.sp && !core) shape.unlike[n++] = "sequence parallelism";
    if (strcmp(hw->stack.name, "fsdp") == 0) { /* its runs saved or recomputed activations */
        if (run->launch.parallel.zero < 2) shape.unlike[n++] = "training without FSDP";
    } else if (core) {
        if (!hw->fp8) shape.unlike[n++] = "products in bf16";
        if (args->recompute != SYN_RECOMPUTE_NONE) shape.unlike[n++] = "recomputed activations";
    } else {
        if (args->recompute != SYN_RECOMPUTE_FULL) shape.unlike[n++] = "saved activations";
        if (!pretrain_drops(run)) shape.unlike[n++] = "no dropout";
        if (run->launch.parallel.zero > 0) shape.unlike[n++] = "ZeRO";
    }
    return residuals_near(hw, &shape);
}

static const struct {
    const char *suffix;
    bool comm_graph, picture;
} views[] = {
    {"_graph.json", false, false}, {".html", false, false},   {"_graph.svg", false, true},
    {"_graph.png", false, true},   {"_comm.svg", true, true}, {"_comm.png", true, true},
};

/* Of a pipeline, also a chart of the passes of its microbatches. */
static syn_status draw_gantt(const char *prefix, const syn_graph *all, syn_error *err) {
    char path[PREFIX_BYTES + 24];
    snprintf(path, sizeof path, "%s_gantt.svg", prefix);
    return syn_export_file(all, &syn_export_gantt, NULL, path, err);
}

/* Writes the graph as JSON, an HTML report, and pictures of the first rank and of all ranks. If
   pictures cannot be drawn, for example because graphviz is missing, prints only a warning. */
static syn_status draw(pretrain *run, const struct pretrain_window *window, const char *prefix,
                       const syn_graph *all, syn_error *err) {
    syn_error why = {.code = SYN_OK};
    for (size_t i = 0; i < sizeof views / sizeof views[0] && why.code == SYN_OK; i++) {
        const syn_export_options how = {.version = "syntorch " SYN_VERSION,
                                        .comm_graph = views[i].comm_graph};
        char path[PREFIX_BYTES + 24];
        snprintf(path, sizeof path, "%s%s", prefix, views[i].suffix);
        if (views[i].comm_graph && all->n_ranks < 2) continue;
        if (!views[i].picture) SYN_TRY(syn_export_file(all, NULL, &how, path, err));
        else if (syn_export_file(all, NULL, &how, path, &why) == SYN_E_NOMEM)
            return SYN_FAIL(err, SYN_E_NOMEM, "%s", why.text);
    }
    if (run->launch.parallel.pp > 1) SYN_TRY(draw_gantt(prefix, all, err));
    if (why.code == SYN_OK) return SYN_OK;
    if (why.code == SYN_E_IO) return SYN_FAIL(err, SYN_E_IO, "%s", why.text);
    pretrain_bar_clear(run);
    fprintf(stderr, "%s: warning: the trace of step %" PRId64 " was not drawn: %s\n",
            run->launch.program->name, window->step, why.text);
    return SYN_OK;
}

static syn_status write_files(pretrain *run, const struct pretrain_window *window,
                              const syn_graph *all, syn_error *err) {
    const syn_export_options how = {.version = "syntorch " SYN_VERSION,
                                    .profile_memory = run->args->profile_memory,
                                    .with_stack = run->args->with_stack};
    char prefix[PREFIX_BYTES];
    syn_error missing = {.code = SYN_OK};
    prefix_of(run->args, window->step, prefix);
    /* Some builds cannot write .et files; the other files are written nevertheless. */
    const syn_status s = syn_export_et_set(all, &how, prefix, &missing);
    if (s != SYN_OK && s != SYN_E_UNSUPPORTED) return SYN_FAIL(err, s, "%s", missing.text);
    SYN_TRY(syn_export_kineto_set(all, &how, prefix, err));
    report_window(run, window, prefix, all->n_ranks);
    if (run->args->visualize_trace) SYN_TRY(draw(run, window, prefix, all, err));
    return s != SYN_OK ? SYN_FAIL(err, s, "%s", missing.text) : SYN_OK;
}

syn_status pretrain_check_trace(pretrain *run, syn_error *err) {
    const pretrain_args *args = run->args;
    char path[PREFIX_BYTES + 8], prefix[PREFIX_BYTES];
    syn_sink *sink;
    if (!args->enable_tracing || run->launch.program->mute) return SYN_OK;
    if (run->predicts || run->swept) return SYN_OK;
    SYN_TRY(syn_make_folder(args->out_dir, err));
    prefix_of(args, 999999, prefix); /* the longest step number that is likely */
    SYN_TRY(folder_check_prefix(prefix, err));
    snprintf(path, sizeof path, "%s.0.et", prefix);
    SYN_TRY(syn_sink_open_file(&sink, path, err));
    SYN_TRY(syn_sink_close(sink, false, err));
    snprintf(prefix, sizeof prefix, "%s/%s", args->out_dir, args->trace_name);
    return output_lock_take(&run->trace_lock, prefix, run->launch.program->name,
                            "name another --out-dir or --trace-name", err);
}

/* ---- Ranks ---- */

/* Makes the graph of this rank's rows. On meta, ranks run one after another, and the graph is kept
   until the last rank has run. If the rows will be dropped before that, because a later trace
   follows, the graph must be a copy. */
static syn_status make_graph(const pretrain *run, syn_ctx *ctx, int64_t step, bool copy,
                             syn_graph **out, syn_error *err) {
    const syn_trace *trace = syn_ctx_trace(ctx);
    syn_graph *view = NULL;
    SYN_TRY(syn_trace_graph(&view, &trace, 1, run->launch.hw, err));
    syn_status s = set_metadata(run, step, view, err);
    if (s == SYN_OK) s = pretrain_overlap(run, &trace, &view, err);
    if (s == SYN_OK && copy) s = gather_copy(out, view, err);
    if (s == SYN_OK && !copy) *out = view;
    if (s != SYN_OK || copy) syn_graph_free(view);
    return s;
}

syn_status pretrain_use_graph(pretrain *run, syn_ctx *ctx, launch_use_graph *use, void *user,
                              syn_error *err) {
    syn_graph *graph = NULL;
    SYN_TRY(make_graph(run, ctx, 1, false, &graph, err));
    const syn_status s = use(user, graph, err);
    syn_graph_free(graph);
    return s;
}

/* On meta: stores this rank's graph, and joins all graphs as *all when the last rank has run. */
static syn_status keep_graph(struct pretrain_window *window, const syn_comm *comm, syn_graph *mine,
                             syn_graph **all, syn_error *err) {
    const size_t n = (size_t)comm->size;
    if (!window->graphs && !(window->graphs = syn_calloc(n, sizeof *window->graphs))) {
        syn_graph_free(mine);
        return SYN_FAIL_NOMEM(err, n * sizeof *window->graphs, "traces");
    }
    window->graphs[comm->rank] = mine;
    if (comm->rank < comm->size - 1) return SYN_OK;
    SYN_TRY(syn_graph_union(all, window->graphs, (uint32_t)n, err));
    syn_free(window->graphs); /* frees only the list: the union owns the graphs */
    window->graphs = NULL;
    return SYN_OK;
}

/* Finds the window of a cycle. The first rank that reaches the cycle adds its window. */
static syn_status find_window(pretrain *run, const place *here, int64_t step,
                              struct pretrain_window **out, syn_error *err) {
    const size_t index = (size_t)here->cycle;
    if (index == run->n_windows) {
        SYN_TRY(syn_grow(&run->windows, &run->windows_cap, index + 1, sizeof *run->windows, err));
        run->windows[run->n_windows++] = (struct pretrain_window){step, here->active, NULL};
    }
    *out = &run->windows[index];
    return SYN_OK;
}

/* If a trace cannot be written, prints a warning and continues training. pretrain_check_unsaved
   fails after the last step because of it. */
static syn_status write_or_warn(pretrain *run, const struct pretrain_window *window,
                                const syn_graph *all, syn_error *err) {
    syn_error why = {.code = SYN_OK};
    const syn_status s = write_files(run, window, all, &why);
    if (s != SYN_E_IO) return s == SYN_OK ? SYN_OK : SYN_FAIL(err, s, "%s", why.text);
    pretrain_bar_clear(run);
    fprintf(stderr, "%s: warning: the trace of step %" PRId64 " was not written: %s\n",
            run->launch.program->name, window->step, why.text);
    if (run->unwritten_traces++ == 0) run->unwritten_step = window->step;
    return SYN_OK;
}

syn_status pretrain_write_trace(pretrain *run, syn_ctx *ctx, syn_comm *comm, int64_t nth,
                                int64_t step, bool last, syn_error *err) {
    const place here = place_of(run->args, nth);
    const bool alone = run->launch.device == SYN_DEVICE_META;
    struct pretrain_window *window = NULL;
    syn_graph *mine = NULL, *all = NULL;
    if (syn_ctx_sync(ctx) != SYN_OK)
        return syn_ctx_check(ctx, err); /* after the synchronization all times are known */
    SYN_TRY(make_graph(run, ctx, step, alone && !last, &mine, err));
    syn_status s = SYN_OK;
    if (alone || comm->rank == 0) s = find_window(run, &here, step, &window, err);
    if (s == SYN_OK && alone) {
        s = keep_graph(window, comm, mine, &all, err);
    } else {
        if (s == SYN_OK) s = gather_graphs(&all, comm, mine, err);
        syn_graph_free(mine);
    }
    if (s == SYN_OK) s = pretrain_predict_traced(run, ctx, comm, all, here.active, err);
    if (s == SYN_OK && all) s = write_or_warn(run, window, all, err);
    syn_graph_free(all);
    return s;
}

void pretrain_end_trace(const pretrain *run) {
    const pretrain_args *args = run->args;
    const char *name = run->launch.program->name;
    if (!args->enable_tracing) return;
    if (run->n_windows == 0)
        fprintf(stderr, "%s: warning: no step was traced: the run finished before the first one\n",
                name);
    else if (args->trace_repeat > (int64_t)run->n_windows)
        fprintf(stderr,
                "%s: warning: only %zu of %" PRId64 " cycles were traced: the run finished\n", name,
                run->n_windows, args->trace_repeat);
}

void pretrain_put_traces(const pretrain *run, syn_sink *json) {
    char prefix[PREFIX_BYTES];
    syn_sink_text(json, ", \"traces\": [");
    for (size_t i = 0; i < run->n_windows; i++) {
        if (i > 0) syn_sink_text(json, ", ");
        syn_sink_json_string(json, prefix_of(run->args, run->windows[i].step, prefix));
    }
    syn_sink_char(json, ']');
}

void pretrain_free_trace(pretrain *run) {
    for (size_t i = 0; i < run->n_windows; i++) {
        syn_graph **graphs = run->windows[i].graphs;
        for (int32_t r = 0; graphs && r < run->launch.ranks; r++) syn_graph_free(graphs[r]);
        syn_free(graphs);
    }
    syn_free(run->windows);
}
