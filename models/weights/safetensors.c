/* Opens checkpoints: finds the files, maps them into memory, and looks up tensors by name. The
   parsers of header and index are in safetensors_header.c and safetensors_index.c. */
#include "models/weights/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "models/weights/safetensors_private.h"
#include "syntorch/base/memory.h"

#define INDEX_NAME "model.safetensors.index.json"
#define FILE_NAME  "model.safetensors"
#define SHOWN      SYN__SAFETENSORS_SHOWN

/* ---- One file ---- */

static syn_status fail_errno(const char *path, int code, syn_error *err) {
    return SYN_FAIL(err, code == ENOMEM ? SYN_E_NOMEM : SYN_E_IO, "cannot read %.300s: %s", path,
                    strerror(code));
}

static syn_status map_descriptor(syn__safetensors_file *file, int fd, const char *path,
                                 syn_error *err) {
    struct stat info;
    if (fstat(fd, &info) != 0) return fail_errno(path, errno, err);
    if (!S_ISREG(info.st_mode))
        return SYN_FAIL(err, SYN_E_IO, "cannot read %.300s: it is %s", path,
                        S_ISDIR(info.st_mode) ? "a folder" : "not a regular file");
    if ((uintmax_t)info.st_size > SIZE_MAX) return fail_errno(path, EFBIG, err);
    file->bytes = (size_t)info.st_size;
    if (file->bytes == 0) return SYN_OK;
    void *data = mmap(NULL, file->bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED && errno == ENOMEM)
        return SYN_FAIL(err, SYN_E_NOMEM,
                        "out of memory: %zu bytes of address space to map %.300s (ulimit -v shows "
                        "the shell's limit)",
                        file->bytes, path);
    if (data == MAP_FAILED) return fail_errno(path, errno, err);
    file->data = file->map = data;
    return SYN_OK;
}

static syn_status map_file(syn__safetensors_file *file, const char *path, syn_error *err) {
    int fd;
    do fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); /* do not block on a pipe */
    while (fd < 0 && errno == EINTR);
    if (fd < 0) return fail_errno(path, errno, err);
    const syn_status status = map_descriptor(file, fd, path, err);
    (void)close(fd);
    return status;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static syn_status make_files(syn_safetensors *st, size_t n, syn_error *err) {
    st->files = syn_calloc(n, sizeof *st->files);
    return st->files ? SYN_OK
                     : SYN_FAIL_NOMEM(err, n * sizeof *st->files, "the files of a checkpoint");
}

/* Reads the header of the next file in st->files. Maps the file first, unless its data is already
   set. */
static syn_status read_file(syn_safetensors *st, const char *path, syn_error *err) {
    syn__safetensors_file *file = &st->files[st->n_files++];
    file->name = syn_strdup(base_name(path));
    if (!file->name) return SYN_FAIL_NOMEM(err, strlen(path), "a file name");
    if (!file->data) SYN_TRY(map_file(file, path, err));
    SYN_TRY(syn__safetensors_read_header(st, file, path, err));
    syn_safetensors_release(st, file->data, file->bytes);
    return SYN_OK;
}

/* ---- Names ---- */

static int compare_names(const void *a, const void *b) {
    return strcmp((*(const syn_safetensors_tensor *const *)a)->name,
                  (*(const syn_safetensors_tensor *const *)b)->name);
}

static syn_status sort_names(syn_safetensors *st, const char *path, syn_error *err) {
    const size_t n = st->n_tensors;
    st->by_name = syn_malloc(n * sizeof *st->by_name);
    if (!st->by_name) return SYN_FAIL_NOMEM(err, n * sizeof *st->by_name, "the names of tensors");
    for (size_t i = 0; i < n; i++) st->by_name[i] = &st->tensors[i];
    if (n) qsort(st->by_name, n, sizeof *st->by_name, compare_names);
    for (size_t i = 1; i < n; i++) {
        const syn_safetensors_tensor *a = st->by_name[i - 1], *b = st->by_name[i];
        char name[SHOWN], first[SHOWN], second[SHOWN];
        if (strcmp(a->name, b->name) == 0)
            return SYN_FAIL(err, SYN_E_FORMAT, "%.150s: the tensor '%s' is in two files, %s and %s",
                            path, syn__safetensors_shown(a->name, name),
                            syn__safetensors_shown(a->file, first),
                            syn__safetensors_shown(b->file, second));
    }
    return SYN_OK;
}

/* Orders by key, then by file. */
static int compare_pairs(const void *a, const void *b) {
    const syn__safetensors_pair *x = a, *y = b;
    const int order = strcmp(x->key, y->key);
    return order ? order : (x->file > y->file) - (x->file < y->file);
}

static syn_status sort_metadata(syn_safetensors *st, const char *path, syn_error *err) {
    syn__safetensors_pair *pairs = st->metadata;
    const size_t n = st->n_metadata;
    char shown[SHOWN];
    if (n) qsort(pairs, n, sizeof *pairs, compare_pairs);
    st->n_metadata = 0;
    for (size_t i = 0; i < n; i++) {
        const bool again = i > 0 && strcmp(pairs[i - 1].key, pairs[i].key) == 0;
        if (again && pairs[i - 1].file == pairs[i].file)
            return SYN_FAIL(err, SYN_E_FORMAT, "%.200s: the metadata has \"%s\" twice", path,
                            syn__safetensors_shown(pairs[i].key, shown));
        if (!again) pairs[st->n_metadata++] = pairs[i];
    }
    return SYN_OK;
}

static syn_status sort_all(syn_safetensors *st, const char *path, syn_error *err) {
    SYN_TRY(sort_names(st, path, err));
    return sort_metadata(st, path, err);
}

static int compare_name_to(const void *name, const void *tensor) {
    return strcmp(name, (*(const syn_safetensors_tensor *const *)tensor)->name);
}

const syn_safetensors_tensor *syn_safetensors_find(const syn_safetensors *st, const char *name) {
    const syn_safetensors_tensor *const *found =
        st->n_tensors == 0
            ? NULL
            : bsearch(name, st->by_name, st->n_tensors, sizeof *st->by_name, compare_name_to);
    return found ? *found : NULL;
}

/* ---- Several files ---- */

/* Sets *out to the path folder/name. An empty folder means the current one. */
static syn_status join(char **out, const char *folder, size_t folder_bytes, const char *name,
                       syn_error *err) {
    const size_t name_bytes = strlen(name);
    const size_t slash = folder_bytes > 0 && folder[folder_bytes - 1] != '/' ? 1 : 0;
    *out = syn_malloc(folder_bytes + slash + name_bytes + 1);
    if (!*out) return SYN_FAIL_NOMEM(err, folder_bytes + slash + name_bytes + 1, "a file name");
    memcpy(*out, folder, folder_bytes);
    if (slash) (*out)[folder_bytes] = '/';
    memcpy(*out + folder_bytes + slash, name, name_bytes + 1);
    return SYN_OK;
}

static int compare_texts(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static syn_status read_files(syn_safetensors *st, const syn__safetensors_index *index,
                             const char *path, syn_error *err) {
    const size_t n = index->files.n_entries, folder_bytes = (size_t)(base_name(path) - path);
    SYN_TRY(make_files(st, n, err));
    const char **names = syn_malloc(n * sizeof *names);
    if (!names) return SYN_FAIL_NOMEM(err, n * sizeof *names, "the files of a checkpoint");
    for (size_t i = 0; i < n; i++) names[i] = syn_intern_get(&index->files, (uint32_t)i);
    qsort(names, n, sizeof *names, compare_texts);
    syn_status status = SYN_OK;
    for (size_t i = 0; status == SYN_OK && i < n; i++) {
        char *file = NULL;
        status = join(&file, path, folder_bytes, names[i], err);
        if (status == SYN_OK) status = read_file(st, file, err);
        syn_free(file);
    }
    syn_free(names);
    return status;
}

/* Fails if a tensor is not in the file that the index gives. Tensors that the index does not list
   are accepted. */
static syn_status check_index(const syn_safetensors *st, const syn__safetensors_index *index,
                              const char *path, syn_error *err) {
    for (uint32_t i = 0; i < index->names.n_entries; i++) {
        const char *name = syn_intern_get(&index->names, i);
        const char *file = syn_intern_get(&index->files, index->file_of[i]);
        const syn_safetensors_tensor *t = syn_safetensors_find(st, name);
        char shown[SHOWN], wanted[SHOWN];
        if (t && strcmp(t->file, file) == 0) continue;
        return SYN_FAIL(err, SYN_E_FORMAT, "%.200s: '%s' is not in %s", path,
                        syn__safetensors_shown(name, shown), syn__safetensors_shown(file, wanted));
    }
    return SYN_OK;
}

static syn_status read_by_index(syn_safetensors *st, const char *path, syn_error *err) {
    syn__safetensors_index index;
    char *json;
    size_t bytes;
    SYN_TRY(syn_read_file(path, SYN__SAFETENSORS_HEADER_BYTES, &json, &bytes, err));
    syn_status status = syn__safetensors_read_index(&index, path, json, bytes, err);
    syn_free(json);
    if (status == SYN_OK) status = read_files(st, &index, path, err);
    if (status == SYN_OK) status = sort_all(st, path, err);
    if (status == SYN_OK) status = check_index(st, &index, path, err);
    syn__safetensors_index_free(&index);
    return status;
}

static syn_status read_single(syn_safetensors *st, const char *path, syn_error *err) {
    SYN_TRY(make_files(st, 1, err));
    SYN_TRY(read_file(st, path, err));
    return sort_all(st, path, err);
}

/* ---- Opening ---- */

/* *out: the path folder/name if that file exists, otherwise NULL. */
static syn_status find_in(char **out, const char *folder, const char *name, syn_error *err) {
    char *path;
    *out = NULL;
    SYN_TRY(join(&path, folder, strlen(folder), name, err));
    if (access(path, F_OK) == 0) *out = path;
    else syn_free(path);
    return SYN_OK;
}

static syn_status fail_empty_folder(const char *folder, syn_error *err) {
    char *pickled = NULL;
    SYN_TRY(find_in(&pickled, folder, "pytorch_model.bin", err));
    if (!pickled) SYN_TRY(find_in(&pickled, folder, "pytorch_model.bin.index.json", err));
    const bool has_pickled = pickled != NULL;
    syn_free(pickled);
    return SYN_FAIL(
        err, SYN_E_IO, "the folder %.250s has neither " FILE_NAME " nor " INDEX_NAME "%s", folder,
        has_pickled
            ? "; it has PyTorch's pytorch_model.bin, but only safetensors files are supported"
            : "");
}

/* If the folder has a single file and an index, the single file is read, as in transformers: a user
   who writes a single file to a folder with an older index expects that. */
static syn_status read_folder(syn_safetensors *st, const char *folder, syn_error *err) {
    char *path;
    SYN_TRY(find_in(&path, folder, FILE_NAME, err));
    syn_status status = SYN_OK;
    if (path) {
        status = read_single(st, path, err);
    } else {
        SYN_TRY(find_in(&path, folder, INDEX_NAME, err));
        status = path ? read_by_index(st, path, err) : fail_empty_folder(folder, err);
    }
    syn_free(path);
    return status;
}

static bool ends_in_json(const char *path) {
    const size_t n = strlen(path);
    return n > 5 && strcmp(path + n - 5, ".json") == 0;
}

static syn_status keep_or_free(syn_safetensors **out, syn_safetensors *st, syn_status status) {
    if (status == SYN_OK) *out = st;
    else syn_safetensors_free(st);
    return status;
}

syn_status syn_safetensors_open(syn_safetensors **out, const char *path, syn_error *err) {
    struct stat info;
    *out = NULL;
    syn_safetensors *st = syn_calloc(1, sizeof *st);
    if (!st) return SYN_FAIL_NOMEM(err, sizeof *st, "a checkpoint");
    syn_status status;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) status = read_folder(st, path, err);
    else if (ends_in_json(path)) status = read_by_index(st, path, err);
    else status = read_single(st, path, err);
    return keep_or_free(out, st, status);
}

syn_status syn__safetensors_open_memory(syn_safetensors **out, const char *path, const void *data,
                                        size_t bytes, syn_error *err) {
    *out = NULL;
    syn_safetensors *st = syn_calloc(1, sizeof *st);
    if (!st) return SYN_FAIL_NOMEM(err, sizeof *st, "a checkpoint");
    syn_status status = make_files(st, 1, err);
    if (status == SYN_OK) {
        st->files[0].data = data;
        st->files[0].bytes = bytes;
        status = read_file(st, path, err);
    }
    if (status == SYN_OK) status = sort_all(st, path, err);
    return keep_or_free(out, st, status);
}

void syn_safetensors_free(syn_safetensors *st) {
    if (!st) return;
    for (size_t i = 0; i < st->n_files; i++) {
        syn__safetensors_file *file = &st->files[i];
        if (file->map) (void)munmap(file->map, file->bytes);
        syn_free(file->name);
        syn_free(file->text);
    }
    syn_free(st->files);
    syn_free(st->tensors);
    syn_free(st->metadata);
    syn_free(st->by_name);
    syn_free(st);
}

/* ---- Access ---- */

size_t syn_safetensors_count(const syn_safetensors *st) {
    return st->n_tensors;
}

const syn_safetensors_tensor *syn_safetensors_get(const syn_safetensors *st, size_t i) {
    return &st->tensors[i];
}

size_t syn_safetensors_metadata_count(const syn_safetensors *st) {
    return st->n_metadata;
}

const char *syn_safetensors_metadata(const syn_safetensors *st, size_t i, const char **key) {
    if (key) *key = st->metadata[i].key;
    return st->metadata[i].value;
}

void syn_safetensors_release(const syn_safetensors *st, const void *data, size_t bytes) {
    const long page = sysconf(_SC_PAGESIZE);
    const syn__safetensors_file *file = NULL;
    for (size_t i = 0; i < st->n_files && !file; i++) {
        const char *begin = st->files[i].data;
        if (st->files[i].map && (const char *)data >= begin &&
            (const char *)data < begin + st->files[i].bytes)
            file = &st->files[i];
    }
    if (!file || page <= 0 || bytes == 0) return;
    /* Releases whole pages, including pages that are only partly in the range. The mapping begins
       at a page boundary. */
    size_t first = (size_t)((const char *)data - file->data), end = first + bytes;
    first -= first % (size_t)page;
    if (end > file->bytes) end = file->bytes;
    (void)madvise((char *)file->map + first, end - first, MADV_DONTNEED);
}
