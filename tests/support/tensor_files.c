/* Implements tensor_files.h without the library's writer. */
#include "tests/support/tensor_files.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/files.h"

size_t tensor_bytes(unsigned char **out, const char *header, const void *data, size_t data_bytes) {
    const size_t header_bytes = strlen(header);
    *out = malloc(8 + header_bytes + data_bytes + 1);
    if (*out == NULL) abort();
    for (int i = 0; i < 8; i++) (*out)[i] = (unsigned char)((uint64_t)header_bytes >> 8 * i);
    memcpy(*out + 8, header, header_bytes);
    if (data_bytes > 0) memcpy(*out + 8 + header_bytes, data, data_bytes);
    return 8 + header_bytes + data_bytes;
}

void put_tensors(const char *name, const char *header, const void *data, size_t data_bytes) {
    unsigned char *file;
    const size_t bytes = tensor_bytes(&file, header, data, data_bytes);
    put_file(name, file, bytes);
    free(file);
}

void put_shards(void) {
    put_tensors(SHARD_1,
                "{\"__metadata__\":{\"format\":\"pt\",\"x\":\"1\"},\"b\":" T(
                    "U8", "[2]", "[0,2]") ",\"z\":" T("U8", "[1]", "[2,3]") "}",
                "bBz", 3);
    put_tensors(
        SHARD_2,
        "{\"__metadata__\":{\"format\":\"np\",\"y\":\"2\"},\"a\":" T("U8", "[1]", "[0,1]") "}", "a",
        1);
}

void put_index(const char *json) {
    put_text("model.safetensors.index.json", json);
}
