#include "tools/inference/checkpoint.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "syntorch/json.h"
#include "syntorch/memory.h"

#define MAX_CONFIG_BYTES ((size_t)1 << 20)

static const inference_family *const families[] = {&inference_gpt, &inference_bert};
enum { FAMILIES = sizeof families / sizeof families[0] };

/* ---- which model ----------------------------------------------------------------------------- */

static bool is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool checkpoint_file(const char *weights, const char *name, char *path, size_t path_bytes) {
    const char *slash = strrchr(weights, '/');
    const int folder = is_folder(weights) ? (int)strlen(weights)
                       : slash            ? (int)(slash - weights)
                                          : 0;
    const int n = folder ? snprintf(path, path_bytes, "%.*s/%s", folder, weights, name)
                         : snprintf(path, path_bytes, "%s%s", slash ? "/" : "", name);
    struct stat st;
    return n > 0 && (size_t)n < path_bytes && stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static const inference_family *family_of_preset(const char *name) {
    for (int f = 0; f < FAMILIES; f++)
        for (const char *const *p = families[f]->presets(); *p; p++)
            if (strcmp(*p, name) == 0) return families[f];
    return NULL;
}

static syn_status no_preset(const char *name, syn_error *err) {
    char known[400] = "";
    size_t used = 0;
    for (int f = 0; f < FAMILIES; f++)
        for (const char *const *p = families[f]->presets(); *p; p++) {
            const int n = snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", *p);
            used += n > 0 && (size_t)n < sizeof known - used ? (size_t)n : 0;
        }
    return SYN_FAIL(err, SYN_E_INVALID, "there is no model '%.40s'; the presets are %s", name,
                    known);
}

/* A file whose "model_type" is "bert" is BERT's; everything else is for GPT's reader to judge. */
static syn_status family_of_file(const inference_family **out, const char *path, syn_error *err) {
    char *text;
    size_t bytes;
    syn_json json;
    SYN_TRY(syn_read_file(path, MAX_CONFIG_BYTES, &text, &bytes, err));
    *out = &inference_gpt;
    syn_json_init(&json, path, text, bytes, NULL);
    if (syn_json_next(&json) == SYN_JSON_OBJECT_BEGIN)
        while (syn_json_next(&json) == SYN_JSON_KEY) {
            const bool type = strcmp(json.text, "model_type") == 0;
            const syn_json_type value = syn_json_next(&json);
            if (type && value == SYN_JSON_STRING && strcmp(json.text, "bert") == 0)
                *out = &inference_bert;
            if (!syn_json_skip(&json)) break;
        }
    syn_json_free(&json);
    syn_free(text);
    return SYN_OK;
}

syn_status checkpoint_configure(inference *run, syn_error *err) {
    const inference_args *args = run->args;
    char path[4200];
    if (args->model) {
        run->family = family_of_preset(args->model);
        if (!run->family) return no_preset(args->model, err);
        return run->family->configure(run, args->model, NULL, err);
    }
    const char *file = args->model_config;
    if (!file && args->weights) {
        struct stat st;
        if (stat(args->weights, &st) != 0)
            return SYN_FAIL(err, SYN_E_IO, "cannot open the weights '%.300s': %s", args->weights,
                            strerror(errno));
        if (!checkpoint_file(args->weights, "config.json", path, sizeof path))
            return SYN_FAIL(err, SYN_E_IO,
                            "there is no config.json beside the weights '%.200s'; give --model or "
                            "--model_config",
                            args->weights);
        file = path;
    }
    if (!file && cli_find_data("configs/gpt3-tiny.json", path, sizeof path)) file = path;
    if (!file)
        return SYN_FAIL(err, SYN_E_IO,
                        "the default examples/configs/gpt3-tiny.json was not found; give --model "
                        "or --model_config");
    SYN_TRY(family_of_file(&run->family, file, err));
    return run->family->configure(run, NULL, file, err);
}

bool checkpoint_has_tokenizer(const char *weights, char *folder, size_t folder_bytes) {
    static const char *const files[] = {"vocab.json", "vocab.txt"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        if (!checkpoint_file(weights, files[i], folder, folder_bytes)) continue;
        char *slash = strrchr(folder, '/');
        if (slash) *slash = '\0';
        else snprintf(folder, folder_bytes, ".");
        return true;
    }
    return false;
}

/* ---- whether it fits ------------------------------------------------------------------------- */

/* Names in it come from the checkpoint. */
static void print_lines(const char *list) {
    for (size_t bytes; *list; list += bytes + (list[bytes] == '\n')) {
        bytes = strcspn(list, "\n");
        cli_print_escaped(stderr, list, bytes);
        fputc('\n', stderr);
    }
}

/* Makes the model without data, its parameters read from the checkpoint: names and shapes alone. */
syn_status checkpoint_compare(inference *run, syn_error *err) {
    const inference_rank alone = {NULL, false};
    syn_weights_reader *reader = NULL;
    syn_ctx *ctx = NULL;
    SYN_TRY(syn_ctx_new(&ctx, SYN_DEVICE_META, NULL, err));
    syn_status s = syn_weights_reader_new(&reader, run->weights, err);
    if (s == SYN_OK) {
        const syn_param_source source = syn_weights_source(reader);
        syn_ctx_set_param_source(ctx, &source);
        s = run->family->run(run, ctx, &alone, false, err);
    }
    if (s == SYN_OK) {
        char *list = NULL;
        s = syn_weights_finish(reader, &list, err);
        if (list && !run->launch.program->mute) print_lines(list);
        syn_free(list);
    }
    syn_weights_reader_free(reader);
    syn_ctx_free(ctx);
    return s;
}

syn_status checkpoint_open(inference *run, syn_error *err) {
    SYN_TRY(syn_weights_open(&run->weights, run->args->weights, run->family->kind, err));
    if (!run->args->dtype) run->dtype = syn_weights_dtype(run->weights);
    return run->family->adapt(run, err);
}

/* ---- writing one ----------------------------------------------------------------------------- */

syn_status checkpoint_save(inference *run, syn_ctx *ctx, syn_comm *comm, const char *folder,
                           syn_error *err) {
    char path[4200];
    const int n = snprintf(path, sizeof path, "%s/config.json", folder);
    if (n < 0 || (size_t)n >= sizeof path)
        return SYN_FAIL(err, SYN_E_INVALID, "the folder's name is too long");
    SYN_TRY(syn_weights_save(ctx, comm, run->family->kind, folder, err));
    return comm->rank == 0 ? run->family->write_config(run, path, err) : SYN_OK;
}
