/* Checks output paths before the run: outputs must not overwrite inputs, and output folders must
   exist. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "tools/folders.h"
#include "tools/inference/checkpoint.h"
#include "tools/inference/visualize.h"
#include "tools/saving/model_folder.h"

/* Whether a file in the folder of a checkpoint or tokenizer may be read by this program. */
static bool is_read(const char *name) {
    static const char *const names[] = {"config.json", "generation_config.json",
                                        "model.safetensors.index.json"};
    const char *end = strrchr(name, '.');
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0) return true;
    for (const char *const *file = model_folder_tokenizer; *file; file++)
        if (strcmp(name, *file) == 0) return true;
    return end && strcmp(end, ".safetensors") == 0; /* shards of weights can have any name */
}

static syn_status add_folder(syn__input_files *inputs, const char *folder, syn_error *err) {
    DIR *dir = opendir(folder);
    syn_status s = SYN_OK;
    if (!dir) return SYN_OK; /* the code that reads the folder reports the error */
    for (const struct dirent *d = readdir(dir); d && s == SYN_OK; d = readdir(dir)) {
        char path[4600];
        if (!is_read(d->d_name)) continue;
        snprintf(path, sizeof path, "%s/%s", folder, d->d_name);
        s = syn__input_files_add(inputs, path, err);
    }
    closedir(dir);
    return s;
}

static syn_status add_all(syn__input_files *inputs, const inference_args *args, syn_error *err) {
    const char *const named[] = {args->weights,
                                 args->model_config,
                                 args->prompts,
                                 args->prompt_ids,
                                 args->hw,
                                 args->perplexity,
                                 args->serving.requests.requests};
    char folder[4200];
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++)
        SYN_TRY(syn__input_files_add(inputs, named[i], err));
    if (args->tokenizer) SYN_TRY(add_folder(inputs, args->tokenizer, err));
    if (!args->weights) return SYN_OK;
    (void)cli_find_sibling(args->weights, ".", folder, sizeof folder); /* the folder itself */
    return add_folder(inputs, folder, err);
}

/* --save_weights must not name the folder of the model or of its tokenizer, nor replace input
   files. */
static syn_status keep_from_saving(const syn__input_files *inputs, const inference_args *args,
                                   syn_error *err) {
    const char *folder = args->save_weights, *const saved[] = {"model.safetensors", "config.json"};
    char path[4200];
    const char *slash = args->weights ? strrchr(args->weights, '/') : NULL;
    snprintf(path, sizeof path, "%.*s", slash ? (int)(slash - args->weights) : 1,
             slash ? args->weights : ".");
    if ((args->weights && (folder_same(folder, args->weights) ||
                           (!folder_is(args->weights) && folder_same(folder, path)))) ||
        (args->tokenizer && folder_same(folder, args->tokenizer)))
        return SYN_FAIL(err, SYN_E_INVALID,
                        "the folder %.300s is an input, which is never overwritten; give another",
                        folder);
    for (size_t i = 0; i < sizeof saved / sizeof saved[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, saved[i]);
        SYN_TRY(syn__input_files_keep(inputs, path, err));
    }
    return SYN_OK;
}

/* Creates --out_dir and locks the names of the trace files in it. */
static syn_status begin_trace(inference *run, syn_error *err) {
    char prefix[FOLDER_PATH_BYTES];
    SYN_TRY(syn_make_folder(run->args->out_dir, err));
    SYN_TRY(folder_path(prefix, err, run->args->out_dir, "trace"));
    return output_lock_take(&run->trace_lock, prefix, run->launch.program->name,
                            "name another --out_dir", err);
}

syn_status inference_make_folders(inference *run, syn_error *err) {
    const inference_args *args = run->args;
    if (run->launch.program->mute) return SYN_OK;
    if (args->visualize_trace) SYN_TRY(begin_trace(run, err));
    else if (args->serving.listed) SYN_TRY(syn_make_folder(args->out_dir, err));
    if (args->save_weights) SYN_TRY(checkpoint_begin_saving(run, err));
    SYN_TRY(folder_check_output(args->save_logits, err));
    return folder_check_output(args->embeddings, err);
}

static syn_status keep_requests(const syn__input_files *inputs, const inference_args *args,
                                syn_error *err) {
    char path[FOLDER_PATH_BYTES];
    SYN_TRY(folder_path(path, err, args->out_dir, "requests.csv"));
    return syn__input_files_keep(inputs, path, err);
}

static syn_status keep_all(const syn__input_files *inputs, const inference *run, syn_error *err) {
    const inference_args *args = run->args;
    if (args->save_logits) SYN_TRY(syn__input_files_keep(inputs, args->save_logits, err));
    if (args->embeddings) SYN_TRY(syn__input_files_keep(inputs, args->embeddings, err));
    if (args->serving.listed) SYN_TRY(keep_requests(inputs, args, err));
    if (args->save_weights) SYN_TRY(keep_from_saving(inputs, args, err));
    if (args->visualize_trace) return visualize_keep(inputs, args->out_dir, err);
    return SYN_OK;
}

syn_status inference_keep_inputs(const inference *run, syn_error *err) {
    syn__input_files inputs = {0};
    syn_status s = add_all(&inputs, run->args, err);
    if (s == SYN_OK) s = keep_all(&inputs, run, err);
    syn__input_files_free(&inputs);
    return s;
}

static void list_one(FILE *list, const char *path, const char *what) {
    char shown[CLI_SHOWN_BYTES];
    if (path) fprintf(list, "  %s%s\n", cli_shown(path, shown, sizeof shown), what);
}

void inference_list_saved(const inference *run, FILE *list) {
    const inference_args *args = run->args;
    const bool listed = run->requests_file[0] != '\0';
    if (!args->save_weights && !args->save_logits && !args->embeddings && !listed &&
        !args->visualize_trace)
        return;
    fprintf(list, "\nwritten:\n");
    list_one(list, args->save_weights, ": the model");
    list_one(list, args->save_logits, "");
    list_one(list, args->embeddings, "");
    if (listed) list_one(list, run->requests_file, "");
}
