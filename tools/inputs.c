/* Checks that outputs do not overwrite inputs before anything is written, and opens both. */
#include "tools/inputs.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "export/chakra/wire/et_files.h"
#include "syntorch/base/intern.h"
#include "syntorch/base/memory.h"
#include "tools/folders.h"

int cli_parse_set(const cli_program *program, int argc, char **argv, const char **input,
                  const char *const **paths, size_t *n_paths) {
    syn_intern seen = {0};
    uint32_t id;
    int code =
        cli_parse_inputs(program, argc, argv, input, "a prefix or files are", paths, n_paths);
    for (size_t i = 0; code == CLI_RUN && i < *n_paths; i++) {
        const char *path = (*paths)[i];
        if (syn_intern_put(&seen, path, strlen(path), &id, NULL) == SYN_OK && id < i)
            code = cli_fail(program, CLI_USAGE, "the file %s is given twice", path);
    }
    syn_intern_free(&seen);
    return code;
}

static syn_status copy_to_file(FILE *file, syn_error *err) {
    char *data;
    size_t bytes;
    SYN_TRY(syn_read_file("-", SIZE_MAX - 1, &data, &bytes, err));
    const bool written = fwrite(data, 1, bytes, file) == bytes && fflush(file) == 0 &&
                         dup2(fileno(file), STDIN_FILENO) == STDIN_FILENO;
    syn_free(data);
    if (written) return SYN_OK;
    return SYN_FAIL(err, SYN_E_IO, "cannot copy standard input to a temporary file: %s",
                    strerror(errno));
}

syn_status cli_take_standard_input(const char *const *paths, size_t n, syn_error *err) {
    struct stat info;
    bool wanted = false;
    for (size_t i = 0; i < n; i++) wanted = wanted || strcmp(paths[i], "-") == 0;
    if (!wanted || (fstat(STDIN_FILENO, &info) == 0 && S_ISREG(info.st_mode))) return SYN_OK;
    FILE *file = tmpfile();
    if (file == NULL)
        return SYN_FAIL(err, SYN_E_IO, "cannot create a temporary file for standard input: %s",
                        strerror(errno));
    const syn_status s = copy_to_file(file, err);
    fclose(file);
    return s;
}

int cli_refuse_standard_input(const cli_program *program, const char *path, const char *what) {
    if (strcmp(path, "-") != 0) return CLI_RUN;
    return cli_fail(program, CLI_USAGE, "'-' is standard input, but this command reads %s; name it",
                    what);
}

syn_status cli_inputs_add_set(syn__input_files *inputs, const char *prefix, syn_error *err) {
    syn__et_files files;
    /* The error is reported later, when the set is read. */
    if (syn__et_files_open(&files, &prefix, 1, NULL) != SYN_OK) return SYN_OK;
    syn_status s = syn__input_files_add(inputs, files.groups, err);
    for (size_t i = 0; i < files.n && s == SYN_OK; i++)
        s = syn__input_files_add(inputs, files.list[i].path, err);
    syn__et_files_close(&files);
    return s;
}

syn_status cli_keep_input(const char *input, const char *output, syn_error *err) {
    syn__input_files inputs = {0};
    syn_status s = syn__input_files_add(&inputs, input, err);
    if (s == SYN_OK) s = syn__input_files_keep(&inputs, output, err);
    syn__input_files_free(&inputs);
    return s;
}

syn_status cli_inputs_keep_set(const syn__input_files *inputs, const char *prefix, syn_error *err) {
    syn__et_names names;
    syn__et_files old = {0};
    syn_status s = syn__et_names_open(&names, prefix, err);
    if (s == SYN_OK) s = syn__input_files_keep(inputs, syn__et_group_path(&names), err);
    if (s == SYN_OK && syn__et_files_of_prefix(&old, prefix, strlen(prefix), NULL) == SYN_OK)
        for (size_t i = 0; i < old.n && s == SYN_OK; i++)
            s = syn__input_files_keep(inputs, old.list[i].path, err);
    syn__et_files_close(&old);
    syn__et_names_close(&names);
    return s;
}

syn_status cli_lock_set(output_lock *lock, const char *prefix, const char *option,
                        const cli_program *program, syn_error *err) {
    char advice[40];
    if (strcmp(prefix, "-") == 0)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "a trace set has many files, so it cannot go to standard output");
    if (!folder_is_prefix(prefix)) {
        const size_t bytes = strlen(prefix);
        return SYN_FAIL(err, SYN_E_INVALID,
                        "the prefix '%.300s' has no file name: add one, as in '%.300s%strace'",
                        prefix, prefix, bytes > 0 && prefix[bytes - 1] != '/' ? "/" : "");
    }
    SYN_TRY(folder_check_prefix(prefix, err));
    SYN_TRY(syn_make_prefix_folder(prefix, err));
    snprintf(advice, sizeof advice, "name another %s", option);
    return output_lock_take(lock, prefix, program->name, advice, err);
}

syn_status cli_files_open(cli_files *files, const char *input, const char *output,
                          uint64_t max_unpacked_bytes, syn_error *err) {
    files->out = NULL;
    SYN_TRY(syn__file_text_open(&files->in, input, max_unpacked_bytes, err));
    const syn_status s = syn_sink_open_file(&files->out, output, err);
    if (s != SYN_OK) syn__file_text_close(&files->in);
    return s;
}

syn_status cli_files_close(cli_files *files, syn_status status, syn_error *err) {
    const syn_status closed = syn_sink_close(files->out, status == SYN_OK, err);
    syn__file_text_close(&files->in);
    return status != SYN_OK ? status : closed;
}
