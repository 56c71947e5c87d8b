/* Checks that outputs do not overwrite inputs before anything is written, and opens both. */
#include "tools/inputs.h"

#include <stdio.h>
#include <string.h>

#include "export/chakra/wire/et_files.h"
#include "syntorch/base/memory.h"
#include "tools/folders.h"

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
