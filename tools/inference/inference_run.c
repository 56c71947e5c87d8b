/* The inference program on one rank, and what all of it needs. */
#include <stdarg.h>
#include <stdlib.h>

#include "syntorch/memory.h"
#include "tools/folders.h"
#include "tools/inference/inference.h"
#include "tools/memory_room.h"
#include "tools/progress.h"

syn_status inference_report(inference *run, const syn_ctx *ctx, syn_error *err) {
    const syn_trace *trace = syn_ctx_trace(ctx);
    syn_graph *graph;
    SYN_TRY(syn_trace_graph(&graph, &trace, 1, run->launch.hw, err));
    const syn_status s = report_add(&run->report, graph, 0, err);
    syn_graph_free(graph);
    return s;
}

syn_status inference_run_rank(inference *run, syn_ctx *ctx, const syn_group *tp,
                              syn_weights_reader *reader, bool forward, syn_error *err) {
    const bool show = syn_ctx_rank(ctx) == 0 && syn_ctx_has_data(ctx) && !run->args->quiet;
    progress weights = {.what = reader ? "loading weights" : "making weights",
                        .unit = reader ? NULL : "layers",
                        .terminal_only = reader != NULL,
                        .quiet = !show};
    const syn_model_options how = {.tp = tp,
                                   .heads = run->heads,
                                   .fused_attention = run->fused_attention,
                                   .seed = (uint64_t)run->args->seed,
                                   .dtype = run->dtype,
                                   .weight_dtype = run->weight_dtype,
                                   .progress = reader ? NULL : progress_step,
                                   .progress_user = &weights};
    syn_model *model;
    if (reader) syn_weights_set_progress(reader, progress_step, &weights);
    syn_status s = syn_model_new(&model, ctx, &run->config, &how, err);
    if (reader) syn_weights_set_progress(reader, NULL, NULL);
    progress_step(&weights, 1, 1); /* a line that stands there goes */
    SYN_TRY(s);
    s = forward ? run->task->run(run, model, show, err) : SYN_OK;
    syn_model_free(model);
    if (s == SYN_OK && forward && syn_ctx_rank(ctx) == 0) s = inference_report(run, ctx, err);
    return s;
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

double inference_resident_bytes(const inference *run) {
    return (double)syn_dtype_bytes(run->weight_dtype) * (double)run->params +
           (double)syn_dtype_bytes(run->dtype) * run->cache_elems;
}

/* Systems that promise more memory than they have would end the process later without a word.
   Weights count in full: they are copied from the mapped file, whose pages are given back. Over MPI
   a machine holds the ranks that were started on it. */
syn_status inference_check_memory(const inference *run, syn_error *err) {
    char a[32], b[32];
    const char *local = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    const double ranks = (double)run->launch.ranks, each = inference_resident_bytes(run) / ranks;
    const double own = each * (run->launch.mpi ? 1 : ranks),
                 here = run->launch.mpi ? each * (local ? strtod(local, NULL) : 1) : own;
    const memory_room machine = memory_room_of_machine(""), process = memory_room_of_this_process();
    const bool limited = own > process.bytes;
    const memory_room *room = limited ? &process : &machine;
    const double want = limited ? own : here;
    if (run->launch.device == SYN_DEVICE_META || want <= room->bytes) return SYN_OK;
    return SYN_FAIL(err, SYN_E_NOMEM,
                    "out of memory: the weights of %s and the KV cache of %lld sequences are %s, "
                    "but %s %s available; --device meta needs none",
                    run->config.name, (long long)run->batch, cli_bytes_text(want, a, sizeof a),
                    room->says, cli_bytes_text(room->bytes, b, sizeof b));
}

void inference_free(inference *run) {
    if (run->partial) folder_remove(run->partial);
    syn_free(run->partial);
    if (run->work) run->task->free(run);
    syn_weights_free(run->weights);
    syn_tokenizer_free(run->tokenizer);
    syn_free(run->prompts);
    syn_free(run->prompt_text);
    report_free(&run->report);
}
