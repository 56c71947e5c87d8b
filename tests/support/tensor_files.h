/* safetensors files made byte by byte. */
#ifndef TESTS_TENSOR_FILES_H
#define TESTS_TENSOR_FILES_H

#include <stddef.h>

/* The header's entry of a tensor. */
#define T(dtype, shape, offsets) \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

/* The bytes of a file: the header's length, the header, the data. The caller frees *out. */
size_t tensor_bytes(unsigned char **out, const char *header, const void *data, size_t data_bytes);

/* Writes such a file into the run's folder. */
void put_tensors(const char *name, const char *header, const void *data, size_t data_bytes);

/* Two files: b (2 bytes) and z in the first, a in the second; and an index of files. */
#define SHARD_1    "model-00001-of-00002.safetensors"
#define SHARD_2    "model-00002-of-00002.safetensors"
#define MAP(pairs) "{\"metadata\":{\"total_size\":4},\"weight_map\":{" pairs "}}"
void put_shards(void);
void put_index(const char *json);

#endif
