/* Compares files by device and inode; see input_files.h. */
#include "export/text/input_files.h"

#include <string.h>
#include <sys/stat.h>

#include "syntorch/base/memory.h"

/* Finds the device and inode of a regular file. Returns false for anything else, because writing an
   output does not replace it. */
static bool find_file(const char *path, syn__input_file *out) {
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return false;
    *out = (syn__input_file){info.st_dev, info.st_ino};
    return true;
}

syn_status syn__input_files_add(syn__input_files *inputs, const char *path, syn_error *err) {
    syn__input_file file;
    if (!path || !find_file(strcmp(path, "-") == 0 ? "/dev/stdin" : path, &file)) return SYN_OK;
    SYN_TRY(syn_grow(&inputs->list, &inputs->cap, inputs->n + 1, sizeof *inputs->list, err));
    inputs->list[inputs->n++] = file;
    return SYN_OK;
}

syn_status syn__input_files_keep(const syn__input_files *inputs, const char *output,
                                 syn_error *err) {
    syn__input_file file;
    if (strcmp(output, "-") == 0 || !find_file(output, &file)) return SYN_OK;
    for (size_t i = 0; i < inputs->n; i++)
        if (inputs->list[i].device == file.device && inputs->list[i].file == file.file)
            return SYN_FAIL(err, SYN_E_INVALID,
                            "%.300s is an input, which is never overwritten; give another output",
                            output);
    return SYN_OK;
}

void syn__input_files_free(syn__input_files *inputs) {
    syn_free(inputs->list);
    *inputs = (syn__input_files){0};
}
