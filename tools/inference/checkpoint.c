/* Finds and opens the checkpoint of a run, compares it with the model, and saves models. */
#include "tools/inference/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "models/training/division.h"
#include "syntorch/base/memory.h"
#include "tools/cli_json.h"
#include "tools/folders.h"
#include "tools/inference/inference_score.h"
#include "tools/saving/model_folder.h"

/* ---- Which model ---- */

/* Finds the configuration file. `found` is a buffer for its path. */
static syn_status find_config(const inference_args *args, char *found, size_t found_bytes,
                              const char **out, syn_error *err) {
    struct stat st;
    *out = args->model_config ? args->model_config : found;
    if (args->model_config) return SYN_OK;
    if (!args->weights) {
        if (cli_find_data("configs/gpt3-tiny.json", found, found_bytes)) return SYN_OK;
        return SYN_FAIL(err, SYN_E_IO,
                        "the default examples/configs/gpt3-tiny.json was not found; give --model "
                        "or --model_config");
    }
    if (stat(args->weights, &st) != 0)
        return SYN_FAIL(err, SYN_E_IO, "cannot open the weights '%.300s': %s", args->weights,
                        strerror(errno));
    if (cli_find_sibling(args->weights, "config.json", found, found_bytes)) return SYN_OK;
    return SYN_FAIL(
        err, SYN_E_IO,
        "there is no config.json next to the weights '%.200s'; give --model or --model_config",
        args->weights);
}

/* Divides the layers into pipeline stages. */
static syn_status divide(inference *run, syn_error *err) {
    const int32_t pp = run->launch.parallel.pp;
    const syn_schedule_shape shape = {SYN_SCHEDULE_GPIPE, pp, 1, 1, 0};
    const syn_layer_division division = {.layers = run->args->layers_per_stage};
    run->parts = syn_calloc((size_t)pp, sizeof *run->parts);
    if (!run->parts) return SYN_FAIL_NOMEM(err, (size_t)pp * sizeof *run->parts, "stages");
    return syn_pipeline_parts(run->parts, &run->config, &shape, &division, err);
}

/* Fails if the dispatcher does not work with the plan. */
static syn_status check_experts(const inference *run, syn_error *err) {
    const syn_plan *plan = &run->launch.parallel;
    if (plan->ep == 1 || plan->etp == 1 || run->args->dispatcher != SYN_DISPATCH_DEEPEP)
        return SYN_OK;
    return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                    "--moe_dispatcher deepep cannot be used with --etp %d and --ep %d; omit it, or "
                    "use --etp 1",
                    plan->etp, plan->ep);
}

syn_status checkpoint_configure(inference *run, syn_error *err) {
    const inference_args *args = run->args;
    syn_model_config *c = &run->config;
    if (args->model) {
        SYN_TRY(syn_model_config_preset(c, args->model, err));
    } else {
        char found[4200];
        const char *file;
        SYN_TRY(find_config(args, found, sizeof found, &file, err));
        SYN_TRY(syn_model_config_load(c, file, err));
    }
    if (args->layers > 0) c->n_layer = args->layers;
    run->task = !syn_model_is_causal(c)  ? &inference_fill
                : args->perplexity       ? &inference_perplexity
                : inference_serves(args) ? &inference_serve
                                         : &inference_generate;
    run->heads = run->task->heads;
    run->params = syn_model_config_params(c, run->heads);
    syn_plan *plan = &run->launch.parallel;
    if (args->parallel.cp > 1)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "context parallelism (--cp %lld) is only for training; --sp divides the "
                        "tokens of prompts between the layers",
                        (long long)args->parallel.cp);
    SYN_TRY(parallel_plan(plan, &args->parallel, inference_ranks(args), args->tp, err));
    plan->inference = true;
    SYN_TRY(syn_model_plan_check(c, plan, err));
    SYN_TRY(check_experts(run, err));
    return divide(run, err);
}

/* ---- Comparing with the model ---- */

/* Prints lines with names from the checkpoint, escaped for the terminal. */
static void print_lines(const char *list) {
    for (size_t bytes; *list; list += bytes + (list[bytes] == '\n')) {
        bytes = strcspn(list, "\n");
        cli_print_escaped(stderr, list, bytes);
        fputc('\n', stderr);
    }
}

/* Fails if the weights do not contain the output head, because predictions of a random head are
   useless. A run that only needs hidden states continues without the head. */
static syn_status check_head(inference *run, syn_error *err) {
    const inference_args *args = run->args;
    const char *missing = syn_weights_lacks_head(run->weights, &run->config, run->heads);
    const bool needed =
        !inference_only_scores(args) || inference_all_logits(args) || args->save_weights;
    if (!missing) return SYN_OK;
    if (needed)
        return SYN_FAIL(
            err, SYN_E_INVALID,
            "the weights '%.200s' have no head that predicts tokens ('%s' is missing): "
            "they are for another task, such as classification%s; use --embeddings FILE.npy, which "
            "needs no head",
            args->weights, missing,
            run->config.tied ? "" : ", or config.json should say \"tie_word_embeddings\": true");
    run->config.tied = true; /* use the embeddings as the head, which is never evaluated */
    run->params = syn_model_config_params(&run->config, run->heads);
    return SYN_OK;
}

/* Creates the model on meta with the parameters of the checkpoint. This compares names and shapes
   without reading the data. */
syn_status checkpoint_compare(inference *run, syn_error *err) {
    syn_weights_reader *reader = NULL;
    syn_model *model = NULL;
    syn_ctx *ctx = NULL;
    SYN_TRY(check_head(run, err));
    SYN_TRY(syn_ctx_new(&ctx, SYN_DEVICE_META, NULL, err));
    syn_status s = syn_weights_reader_new(&reader, run->weights, err);
    if (s == SYN_OK) s = inference_make_model(run, ctx, NULL, reader, &model, err);
    char *list = NULL, *unused = NULL;
    if (s == SYN_OK) s = syn_weights_finish(reader, model, &list, err);
    if (list && !run->launch.program->mute) print_lines(list);
    if (s == SYN_OK) s = syn_weights_unused(reader, &unused, err);
    if (unused) inference_note(run, "unused: %s", unused);
    syn_free(list);
    syn_free(unused);
    syn_model_free(model);
    syn_weights_reader_free(reader);
    syn_ctx_free(ctx);
    return s;
}

/* ---- Opening ---- */

/* Reads stop criteria and sampling parameters from generation_config.json. If there is no such
   file, reads them from config.json, which has them in older checkpoints. */
static syn_status read_stop_criteria(inference *run, syn_error *err) {
    char path[4200], unread[300];
    const inference_args *args = run->args;
    syn_model_config *c = &run->config;
    syn_stop_criteria end;
    run->defaults_file = "generation_config.json";
    const bool own = cli_find_sibling(args->weights, run->defaults_file, path, sizeof path);
    if (!own) run->defaults_file = "config.json";
    if (!own && (args->model || args->model_config ||
                 !cli_find_sibling(args->weights, run->defaults_file, path, sizeof path)))
        return SYN_OK;
    SYN_TRY(syn_stop_criteria_load(&end, &run->defaults, path, c->vocab_size, unread, sizeof unread,
                                   err));
    if (own) c->end = end;
    if (*unread)
        inference_note(run, "%s sets %s, which is not supported and is ignored", path, unread);
    return SYN_OK;
}

/* If the configuration ties the output head to the embeddings, but the weights contain a different
   head, uses the head of the weights. */
static syn_status untie_embeddings(inference *run, syn_error *err) {
    syn_weights_head head;
    if (!run->config.tied) return SYN_OK;
    SYN_TRY(syn_weights_compare_head(run->weights, &head, err));
    if (head.bias)
        inference_note(run, "%s.bias and %s.bias differ in the weights; the first is used",
                       head.bias, head.other);
    if (!head.matrix) return SYN_OK;
    run->config.tied = false;
    run->params = syn_model_config_params(&run->config, run->heads);
    inference_note(run,
                   "the configuration ties the output head to the embeddings, but the weights have "
                   "a separate %s.weight, which is used",
                   head.matrix);
    return SYN_OK;
}

syn_status checkpoint_open(inference *run, syn_error *err) {
    SYN_TRY(syn_weights_open(&run->weights, run->args->weights, run->config.family, err));
    if (run->args->dtype < 0 && run->args->weight_dtype < 0)
        run->weight_dtype = syn_weights_dtype(run->weights);
    if (syn_model_is_causal(&run->config)) SYN_TRY(read_stop_criteria(run, err));
    return untie_embeddings(run, err);
}

/* ---- Saving ---- */

syn_status checkpoint_begin_saving(inference *run, syn_error *err) {
    char partial[FOLDER_PATH_BYTES];
    SYN_TRY(syn_make_folder(run->args->save_weights, err));
    SYN_TRY(folder_path(partial, err, run->args->save_weights, ""));
    SYN_TRY(output_lock_take(&run->save_lock, partial, run->launch.program->name,
                             "name another --save_weights", err));
    SYN_TRY(folder_path(partial, err, run->args->save_weights, ".model.partial"));
    SYN_TRY(folder_make_empty(partial, err));
    run->partial = syn_strdup(partial);
    return run->partial ? SYN_OK : SYN_FAIL_NOMEM(err, strlen(partial), "a file name");
}

/* Returns the folder of the tokenizer that is saved with the model; NULL: none. */
static const char *tokenizer_of(const inference_args *args, char *found, size_t found_bytes) {
    if (args->tokenizer) return strcmp(args->tokenizer, "bytes") == 0 ? NULL : args->tokenizer;
    if (!args->weights) return NULL;
    return model_folder_find_tokenizer(args->weights, found, found_bytes) ? found : NULL;
}

syn_status checkpoint_save(const inference *run, syn_ctx *ctx, syn_comm *comm, syn_error *err) {
    const inference_args *args = run->args;
    char tokenizer[4200], generation[4200];
    syn_model_config config = run->config;
    const bool as_read = args->weights && args->dtype < 0 && args->weight_dtype < 0;
    if (!as_read) syn_model_config_set_dtype(&config, run->dtype);
    else if (!*config.dtype) syn_model_config_set_dtype(&config, run->weight_dtype);
    model_folder model = {.config = &config,
                          .plan = &run->launch.parallel,
                          .heads = run->heads,
                          .defaults = &run->defaults,
                          .as_in = as_read ? run->weights : NULL,
                          .tokenizer = tokenizer_of(args, tokenizer, sizeof tokenizer)};
    if (args->weights &&
        cli_find_sibling(args->weights, "generation_config.json", generation, sizeof generation))
        model.generation = generation;
    return model_folder_write(&model, ctx, comm, run->partial, err);
}

syn_status checkpoint_end_saving(inference *run, bool *first, syn_error *err) {
    char path[FOLDER_PATH_BYTES];
    struct dirent **files =
        NULL; /* listed before they are moved to a folder that may have others */
    const int n = run->launch.json ? scandir(run->partial, &files, NULL, alphasort) : 0;
    const syn_status s = model_folder_replace(run->partial, run->args->save_weights, err);
    for (int i = 0; i < n; i++) {
        const char *name = files[i]->d_name;
        if (s == SYN_OK && name[0] != '.' &&
            folder_path(path, NULL, run->args->save_weights, name) == SYN_OK)
            cli_json_add_written(run->launch.json, path, first);
        free(files[i]);
    }
    free(files);
    return s;
}
