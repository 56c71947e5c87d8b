/* Fuzz target for safetensors. An input that begins with '{' is read as an index, any other input
   as a file. The tensors of an accepted file must cover its data without gaps or overlaps, and must
   be found by name. */
#include "models/weights/safetensors_private.h"

#include <stdlib.h>
#include <string.h>

#define REQUIRE(cond) ((cond) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_file(const syn_safetensors *st, const uint8_t *data, size_t size) {
    uint64_t length = 0;
    for (int i = 8; i-- > 0;) length = length << 8 | data[i];
    const uint8_t *at = data + 8 + length;
    for (size_t i = 0; i < syn_safetensors_count(st); i++) {
        const syn_safetensors_tensor *t = syn_safetensors_get(st, i);
        REQUIRE(t->data == at);
        REQUIRE(t->bytes <= (size_t)(data + size - at));
        REQUIRE(syn_safetensors_find(st, t->name) == t);
        REQUIRE(t->rank >= 0 && t->rank <= SYN_SAFETENSORS_RANK);
        if (t->dtype >= 0)
            REQUIRE((uint64_t)t->elems * syn_dtype_bytes((syn_dtype)t->dtype) == t->bytes);
        syn_safetensors_release(st, t->data, (size_t)t->bytes);
        at += t->bytes;
    }
    REQUIRE(at == data + size);
    for (size_t i = 0; i < syn_safetensors_metadata_count(st); i++) {
        const char *key, *value = syn_safetensors_metadata(st, i, &key);
        REQUIRE(strlen(key) + strlen(value) < size);
    }
}

static void check_index(const syn__safetensors_index *index) {
    REQUIRE(index->names.n_entries > 0);
    for (size_t i = 0; i < index->names.n_entries; i++) {
        REQUIRE(index->file_of[i] < index->files.n_entries);
        const char *file = syn_intern_get(&index->files, index->file_of[i]);
        REQUIRE(file[0] != '\0' && strchr(file, '/') == NULL && strcmp(file, "..") != 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    syn_error err = {0};
    syn_status status;
    if (size > 0 && data[0] == '{') {
        syn__safetensors_index index;
        status = syn__safetensors_read_index(&index, "index.json", (const char *)data, size, &err);
        if (status == SYN_OK) check_index(&index);
        syn__safetensors_index_free(&index);
    } else {
        syn_safetensors *st;
        status = syn__safetensors_open_memory(&st, "model.safetensors", data, size, &err);
        REQUIRE((status == SYN_OK) == (st != NULL));
        if (st) check_file(st, data, size);
        syn_safetensors_free(st);
    }
    REQUIRE(status == err.code);
    REQUIRE((status == SYN_OK) == (err.text[0] == '\0'));
    return 0;
}
