#include "tools/inputs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "export/chakra/wire/et_files.h"
#include "syntorch/memory.h"
#include "syntorch/sink.h"

/* Whether it is a file that renaming could replace. */
static bool find_file(const char *path, cli_input *out) {
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return false;
    *out = (cli_input){info.st_dev, info.st_ino};
    return true;
}

syn_status cli_inputs_add(cli_inputs *inputs, const char *path, syn_error *err) {
    cli_input file;
    if (!path || !find_file(strcmp(path, "-") == 0 ? "/dev/stdin" : path, &file)) return SYN_OK;
    SYN_TRY(syn_grow(&inputs->list, &inputs->cap, inputs->n + 1, sizeof *inputs->list, err));
    inputs->list[inputs->n++] = file;
    return SYN_OK;
}

syn_status cli_inputs_add_set(cli_inputs *inputs, const char *prefix, syn_error *err) {
    syn__et_files files;
    /* Whoever reads it says what is wrong. */
    if (syn__et_files_open(&files, &prefix, 1, NULL) != SYN_OK) return SYN_OK;
    syn_status s = cli_inputs_add(inputs, files.groups, err);
    for (size_t i = 0; i < files.n && s == SYN_OK; i++)
        s = cli_inputs_add(inputs, files.list[i].path, err);
    syn__et_files_close(&files);
    return s;
}

syn_status cli_inputs_keep(const cli_inputs *inputs, const char *output, syn_error *err) {
    cli_input file;
    if (strcmp(output, "-") == 0 || !find_file(output, &file)) return SYN_OK;
    for (size_t i = 0; i < inputs->n; i++)
        if (inputs->list[i].device == file.device && inputs->list[i].file == file.file)
            return SYN_FAIL(err, SYN_E_INVALID,
                            "%.300s is an input, which is never overwritten; give another output",
                            output);
    return SYN_OK;
}

syn_status cli_keep_input(const char *input, const char *output, syn_error *err) {
    cli_inputs inputs = {0};
    syn_status s = cli_inputs_add(&inputs, input, err);
    if (s == SYN_OK) s = cli_inputs_keep(&inputs, output, err);
    cli_inputs_free(&inputs);
    return s;
}

syn_status cli_inputs_keep_set(const cli_inputs *inputs, const char *prefix, int64_t n_ranks,
                               syn_error *err) {
    const size_t bytes = strlen(prefix) + 40;
    char *path = syn_malloc(bytes);
    if (!path) return SYN_FAIL_NOMEM(err, bytes, "a file name");
    snprintf(path, bytes, "%s.comm_group.json", prefix);
    syn_status s = cli_inputs_keep(inputs, path, err);
    for (int64_t rank = 0; s == SYN_OK; rank++) {
        snprintf(path, bytes, "%s.%" PRId64 ".et", prefix, rank);
        if (rank >= n_ranks && !syn_file_exists(path)) break;
        s = cli_inputs_keep(inputs, path, err);
    }
    syn_free(path);
    return s;
}

void cli_inputs_free(cli_inputs *inputs) {
    syn_free(inputs->list);
    *inputs = (cli_inputs){0};
}
