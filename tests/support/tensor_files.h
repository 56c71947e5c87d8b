/* Builds safetensors files byte by byte, including invalid ones, without the library's writer. */
#ifndef TESTS_TENSOR_FILES_H
#define TESTS_TENSOR_FILES_H

#include <stddef.h>

/* The entry of a tensor in the header. */
#define T(dtype, shape, offsets) \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

/* Builds the bytes of a file: length of the header, header, data. Returns their number. The caller
   frees *out. */
size_t tensor_bytes(unsigned char **out, const char *header, const void *data, size_t data_bytes);

/* Writes such a file to the folder of the run. */
void put_tensors(const char *name, const char *header, const void *data, size_t data_bytes);

/* put_shards writes two files: the first has the tensors b (2 bytes) and z, the second has a.
   put_index writes an index file. */
#define SHARD_1    "model-00001-of-00002.safetensors"
#define SHARD_2    "model-00002-of-00002.safetensors"
#define MAP(pairs) "{\"metadata\":{\"total_size\":4},\"weight_map\":{" pairs "}}"
void put_shards(void);
void put_index(const char *json);

#endif
