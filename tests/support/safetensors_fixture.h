/* Shared by the tests of checkpoints: a folder of its own for files made byte by byte. */
#ifndef TESTS_SAFETENSORS_FIXTURE_H
#define TESTS_SAFETENSORS_FIXTURE_H

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char st_folder[256];

static inline bool st_begin(void) {
    const char *tmp = getenv("TMPDIR");
    snprintf(st_folder, sizeof st_folder, "%.200s/syn_tensors_XXXXXX", tmp && *tmp ? tmp : "/tmp");
    return mkdtemp(st_folder) != NULL;
}

static inline const char *st_path(const char *name) {
    static char paths[4][600];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", st_folder, name);
    return path;
}

/* Removes the folder's files; how many there were. */
static inline int st_clear(void) {
    DIR *dir = opendir(st_folder);
    int n = 0;
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        unlink(st_path(entry->d_name));
        n++;
    }
    if (dir) closedir(dir);
    return n;
}

static inline void st_end(void) {
    st_clear();
    rmdir(st_folder);
}

static inline bool st_write(const char *name, const void *data, size_t bytes) {
    FILE *f = fopen(st_path(name), "wb");
    if (!f) return false;
    const bool ok = bytes == 0 || fwrite(data, 1, bytes, f) == bytes;
    return fclose(f) == 0 && ok;
}

/* A file of the format: the header's length, the header, the data. The caller frees *out. */
static inline size_t st_compose(unsigned char **out, const char *header, size_t header_bytes,
                                const void *data, size_t data_bytes) {
    *out = malloc(8 + header_bytes + data_bytes + 1);
    if (!*out) abort();
    for (int i = 0; i < 8; i++) (*out)[i] = (unsigned char)((uint64_t)header_bytes >> 8 * i);
    memcpy(*out + 8, header, header_bytes);
    if (data_bytes) memcpy(*out + 8 + header_bytes, data, data_bytes);
    return 8 + header_bytes + data_bytes;
}

static inline bool st_write_tensors(const char *name, const char *header, const void *data,
                                    size_t data_bytes) {
    unsigned char *file;
    const size_t bytes = st_compose(&file, header, strlen(header), data, data_bytes);
    const bool ok = st_write(name, file, bytes);
    free(file);
    return ok;
}

/* The header's entry of a tensor. */
#define T(dtype, shape, offsets) \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

/* Two files and an index: b (2 bytes) and z in the first, a in the second. */
#define SHARD_1 "model-00001-of-00002.safetensors"
#define SHARD_2 "model-00002-of-00002.safetensors"

static inline bool write_shards(void) {
    return st_write_tensors(SHARD_1,
                            "{\"__metadata__\":{\"format\":\"pt\",\"x\":\"1\"},\"b\":" T(
                                "U8", "[2]", "[0,2]") ",\"z\":" T("U8", "[1]", "[2,3]") "}",
                            "bBz", 3) &&
           st_write_tensors(SHARD_2,
                            "{\"__metadata__\":{\"format\":\"np\",\"y\":\"2\"},\"a\":" T(
                                "U8", "[1]", "[0,1]") "}",
                            "a", 1);
}

static inline bool write_index(const char *json) {
    return st_write("model.safetensors.index.json", json, strlen(json));
}

#define MAP(pairs) "{\"metadata\":{\"total_size\":4},\"weight_map\":{" pairs "}}"

#endif
