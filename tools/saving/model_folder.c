/* Writes the files of a model folder, and replaces the files of an older model. */
#include "tools/saving/model_folder.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "syntorch/base/intern.h"
#include "syntorch/base/memory.h"
#include "syntorch/base/sink.h"
#include "tools/cli.h"
#include "tools/folders.h"

const char *const model_folder_tokenizer[] = {"tokenizer.json",
                                              "tokenizer_config.json",
                                              "special_tokens_map.json",
                                              "added_tokens.json",
                                              "vocab.json",
                                              "merges.txt",
                                              "vocab.txt",
                                              "tokenizer.model",
                                              "chat_template.jinja",
                                              NULL};

/* ---- Reading ---- */

bool model_folder_find_tokenizer(const char *weights, char *folder, size_t folder_bytes) {
    static const char *const files[] = {"tokenizer.json", "vocab.json", "vocab.txt"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        if (!cli_find_sibling(weights, files[i], folder, folder_bytes)) continue;
        char *slash = strrchr(folder, '/');
        if (slash) *slash = '\0';
        else snprintf(folder, folder_bytes, ".");
        return true;
    }
    return false;
}

/* ---- Writing ---- */

static syn_status copy_file(const char *from, const char *folder, const char *name,
                            syn_error *err) {
    char to[FOLDER_PATH_BYTES], *data;
    size_t bytes;
    syn_sink *sink;
    SYN_TRY(folder_path(to, err, folder, name));
    SYN_TRY(syn_read_file(from, SIZE_MAX - 1, &data, &bytes, err));
    syn_status s = syn_sink_open_file(&sink, to, err);
    if (s == SYN_OK) {
        syn_sink_write(sink, data, bytes);
        s = syn_sink_close(sink, true, err);
    }
    syn_free(data);
    return s;
}

static syn_status copy_tokenizer(const char *from, const char *folder, syn_error *err) {
    bool found = false;
    for (const char *const *name = model_folder_tokenizer; *name; name++) {
        char path[FOLDER_PATH_BYTES];
        SYN_TRY(folder_path(path, err, from, *name));
        if (!syn_file_exists(path)) continue;
        SYN_TRY(copy_file(path, folder, *name, err));
        found = true;
    }
    return found ? SYN_OK
                 : SYN_FAIL(err, SYN_E_IO, "the tokenizer in '%.300s' no longer exists", from);
}

syn_status model_folder_write(const model_folder *m, syn_ctx *ctx, syn_comm *comm,
                              const char *folder, syn_error *err) {
    char path[FOLDER_PATH_BYTES];
    const syn_weights_save_options options = {
        .family = m->config->family, .plan = m->plan, .as_in = m->as_in, .pieces = m->pieces};
    SYN_TRY(syn_weights_save(ctx, comm, &options, folder, err));
    if (comm->rank != 0) return SYN_OK;
    SYN_TRY(folder_path(path, err, folder, "config.json"));
    SYN_TRY(syn_model_config_save(m->config, m->heads, path, err));
    SYN_TRY(folder_path(path, err, folder, "generation_config.json"));
    if (m->generation) SYN_TRY(copy_file(m->generation, folder, "generation_config.json", err));
    else if (syn_model_is_causal(m->config)) /* transformers does not write this file for BERT */
        SYN_TRY(syn_stop_criteria_save(&m->config->end, m->defaults, path, err));
    return m->tokenizer ? copy_tokenizer(m->tokenizer, folder, err) : SYN_OK;
}

/* ---- Replacing an older model ---- */

/* Whether `name` is model.safetensors, its index, or one of several shards. */
static bool is_weights(const char *name) {
    int part, of, end = 0;
    if (strcmp(name, "model.safetensors") == 0 || strcmp(name, "model.safetensors.index.json") == 0)
        return true;
    return sscanf(name, "model-%5d-of-%5d.safetensors%n", &part, &of, &end) == 2 && end > 0 &&
           name[end] == '\0';
}

static bool is_of_tokenizer(const char *name) {
    for (const char *const *known = model_folder_tokenizer; *known; known++)
        if (strcmp(name, *known) == 0) return true;
    return false;
}

/* Collects the names of weight files in `folder` that `complete` does not have. If `complete` has a
   tokenizer, also collects the tokenizer files that only `folder` has, because they would be loaded
   together with the new tokenizer files. */
static syn_status find_stale(syn_intern *names, const char *complete, const char *folder,
                             syn_error *err) {
    char path[FOLDER_PATH_BYTES];
    uint32_t id;
    syn_status s = SYN_OK;
    const bool tokenizer = model_folder_find_tokenizer(complete, path, sizeof path);
    DIR *dir = opendir(folder);
    if (!dir) return SYN_FAIL(err, SYN_E_IO, "cannot read '%.300s'", folder);
    for (const struct dirent *e; s == SYN_OK && (e = readdir(dir));) {
        if (!is_weights(e->d_name) && !(tokenizer && is_of_tokenizer(e->d_name))) continue;
        s = folder_path(path, err, complete, e->d_name);
        if (s == SYN_OK && !syn_file_exists(path))
            s = syn_intern_put(names, e->d_name, strlen(e->d_name), &id, err);
    }
    closedir(dir);
    return s;
}

syn_status model_folder_replace(const char *complete, const char *folder, syn_error *err) {
    char path[FOLDER_PATH_BYTES];
    syn_intern stale = {0};
    syn_status s = folder_sync(complete, err);
    if (s == SYN_OK) s = find_stale(&stale, complete, folder, err);
    if (s == SYN_OK) s = folder_move_files(complete, folder, err);
    for (uint32_t i = 0; s == SYN_OK && i < stale.n_entries; i++) {
        s = folder_path(path, err, folder, syn_intern_get(&stale, i));
        if (s == SYN_OK) unlink(path);
    }
    syn_intern_free(&stale);
    return s;
}
