/* Tests safetensors files: written files follow the description of the format and are the same
   after they are read again. Also tests checkpoints of several files, many threads, and memory. */
#include "models/weights/safetensors_private.h"
#include "syntorch/base/memory.h"
#include "tests/support/files.h"
#include "tests/support/tensor_files.h"
#include "tests/support/test.h"

#include <pthread.h>
#include <unistd.h>

/* ---- Writing and reading back ---- */

static const syn_safetensors_entry entries[] = {
    {"wide", {SYN_I64, 1, {1}}},           {"w", {SYN_F32, 2, {2, 3}}},
    {"scalar", {SYN_F32, 0, {0}}},         {"none", {SYN_F32, 2, {0, 7}}},
    {"h\xC3\xA9\"\n", {SYN_BF16, 1, {3}}}, {"half", {SYN_F16, 3, {1, 1, 1}}},
};
static const size_t n_entries = sizeof entries / sizeof entries[0];
static const char expected_header[] =
    "{\"__metadata__\":{\"format\":\"pt\"},"
    "\"wide\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]},"
    "\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[8,32]},"
    "\"scalar\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[32,36]},"
    "\"none\":{\"dtype\":\"F32\",\"shape\":[0,7],\"data_offsets\":[36,36]},"
    "\"h\xC3\xA9\\\"\\n\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[36,42]},"
    "\"half\":{\"dtype\":\"F16\",\"shape\":[1,1,1],\"data_offsets\":[42,44]}}";
enum { DATA_BYTES = 44 };

static syn_status write_entries(syn_sink *sink, const unsigned char *data, syn_error *err) {
    syn_safetensors_writer writer;
    SYN_TRY(syn_safetensors_write_header(&writer, sink, entries, n_entries, err));
    /* Writes the data of all tensors in one call. */
    SYN_TRY(syn_safetensors_write_data(&writer, data, 10, err));
    SYN_TRY(syn_safetensors_write_data(&writer, data + 10, DATA_BYTES - 10, err));
    return syn_safetensors_write_end(&writer, err);
}

static syn_status write_file(const char *path, const unsigned char *data, syn_error *err) {
    syn_sink *sink;
    SYN_TRY(syn_sink_open_file(&sink, path, err));
    const syn_status status = write_entries(sink, data, err);
    const syn_status closed = syn_sink_close(sink, status == SYN_OK, err);
    return status != SYN_OK ? status : closed;
}

static void fill(unsigned char data[DATA_BYTES]) {
    for (int i = 0; i < DATA_BYTES; i++) data[i] = (unsigned char)(200 - i);
}

static void bytes_are_as_the_format_says(void) {
    syn_error err = {0};
    unsigned char data[DATA_BYTES];
    size_t bytes;
    fill(data);
    CHECK_OK(write_file(in_folder("t.safetensors"), data, &err), err);
    char *file = file_bytes(in_folder("t.safetensors"), &bytes);
    const size_t header_bytes = (unsigned char)file[0] + 256u * (unsigned char)file[1];
    for (int i = 2; i < 8; i++) CHECK_INT(file[i], 0);
    CHECK_INT((8 + header_bytes) % 64, 0);
    CHECK_INT(bytes, 8 + header_bytes + DATA_BYTES);
    CHECK(memcmp(file + 8 + header_bytes, data, DATA_BYTES) == 0);
    CHECK(strlen(expected_header) <= header_bytes && header_bytes < strlen(expected_header) + 64);
    CHECK(memcmp(file + 8, expected_header, strlen(expected_header)) == 0);
    for (size_t i = strlen(expected_header); i < header_bytes; i++) CHECK_INT(file[8 + i], ' ');
    free(file);
}

static void what_is_written_reads_back(void) {
    syn_error err = {0};
    unsigned char data[DATA_BYTES];
    syn_safetensors *st;
    const char *key;
    fill(data);
    CHECK_OK(write_file(in_folder("t.safetensors"), data, &err), err);
    CHECK_OK(syn_safetensors_open(&st, in_folder("t.safetensors"), &err), err);
    CHECK_INT(syn_safetensors_count(st), n_entries);
    CHECK_INT(syn_safetensors_metadata_count(st), 1);
    CHECK_STR(syn_safetensors_metadata(st, 0, &key), "pt");
    CHECK_STR(key, "format");
    const unsigned char *at = data;
    for (size_t i = 0; i < n_entries; i++) {
        const syn_safetensors_tensor *t = syn_safetensors_get(st, i);
        const syn_spec *spec = &entries[i].spec;
        CHECK_STR(t->name, entries[i].name);
        CHECK_STR(t->file, "t.safetensors");
        CHECK_INT(t->dtype, spec->dtype);
        CHECK_INT(t->rank, spec->rank);
        CHECK(memcmp(t->dims, spec->dims, sizeof(int64_t) * (size_t)t->rank) == 0);
        CHECK_INT(t->elems, syn_spec_elems(spec));
        CHECK_INT(t->bytes, syn_spec_bytes(spec));
        CHECK(memcmp(t->data, at, (size_t)t->bytes) == 0);
        CHECK(syn_safetensors_find(st, entries[i].name) == t);
        at += t->bytes;
    }
    CHECK_STR(syn_safetensors_get(st, 4)->dtype_name, "BF16");
    CHECK(syn_safetensors_find(st, "W") == NULL);
    syn_safetensors_free(st);
    syn_safetensors_free(NULL);
}

static syn_status write_two(const char *first, const char *second, syn_dtype dtype, size_t bytes,
                            syn_error *err) {
    const syn_safetensors_entry two[] = {{first, {SYN_F16, 1, {3}}},
                                         {second, {(int32_t)dtype, 1, {2}}}};
    static const unsigned char data[64];
    syn_safetensors_writer writer;
    syn_sink *sink;
    SYN_TRY(syn_sink_open_memory(&sink, err));
    syn_status status = syn_safetensors_write_header(&writer, sink, two, 2, err);
    if (status == SYN_OK) status = syn_safetensors_write_data(&writer, data, bytes, err);
    if (status == SYN_OK) status = syn_safetensors_write_end(&writer, err);
    (void)syn_sink_close(sink, true, NULL);
    return status;
}

static void the_writer_refuses(void) {
    static const struct {
        const char *first, *second;
        syn_dtype dtype;
        size_t bytes;
        const char *says;
    } rows[] = {
        {"a", "a", SYN_F16, 10, "two tensors have the name 'a'"},
        {"a", "__metadata__", SYN_F16, 10, "__metadata__ cannot be the name of a tensor"},
        {"a", "\xFF", SYN_F16, 10, "is not UTF-8"},
        {"a", "b", SYN_F32, 14, "begin at byte 6, which is not a multiple of its element size, 4"},
        {"a", "b", SYN_F16, 11, "11 bytes of tensors exceed the 10"},
        {"a", "b", SYN_F16, 9, "1 bytes of tensors were not written"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        syn_error err = {0};
        CHECK_INT(write_two(rows[i].first, rows[i].second, rows[i].dtype, rows[i].bytes, &err),
                  SYN_E_INVALID);
        CHECK_HAS(err.text, rows[i].says);
    }
    syn_error err = {0};
    CHECK_OK(write_two("a", "b", SYN_F16, 10, &err), err);
}

/* The format's other dtypes are also known, with their sizes. */
static void every_type_is_known(void) {
    static const struct {
        const char *name;
        int bits, dtype;
    } types[] = {{"F64", 64, -1},        {"I64", 64, SYN_I64}, {"U64", 64, -1},
                 {"C64", 64, -1},        {"F32", 32, SYN_F32}, {"I32", 32, SYN_I32},
                 {"U32", 32, -1},        {"F16", 16, SYN_F16}, {"BF16", 16, SYN_BF16},
                 {"I16", 16, -1},        {"U16", 16, -1},      {"I8", 8, -1},
                 {"U8", 8, -1},          {"BOOL", 8, -1},      {"F8_E4M3", 8, -1},
                 {"F8_E5M2", 8, -1},     {"F8_E8M0", 8, -1},   {"F8_E4M3FNUZ", 8, -1},
                 {"F8_E5M2FNUZ", 8, -1}, {"F6_E2M3", 6, -1},   {"F6_E3M2", 6, -1},
                 {"F4", 4, -1}};
    static const unsigned char data[64];
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        syn_error err = {0};
        char header[200];
        unsigned char *file;
        syn_safetensors *st;
        snprintf(header, sizeof header,
                 "{\"a\":{\"dtype\":\"%s\",\"shape\":[2,4],\"data_offsets\":[0,%d]}}",
                 types[i].name, types[i].bits);
        const size_t bytes = tensor_bytes(&file, header, data, (size_t)types[i].bits);
        CHECK_OK(syn__safetensors_open_memory(&st, "x", file, bytes, &err), err);
        CHECK_STR(syn_safetensors_get(st, 0)->dtype_name, types[i].name);
        CHECK_INT(syn_safetensors_get(st, 0)->dtype, types[i].dtype);
        CHECK_INT(syn_safetensors_get(st, 0)->bytes, types[i].bits);
        syn_safetensors_free(st);
        free(file);
    }
}

/* ---- Several files ---- */

static void check_shards(const char *path) {
    syn_error err = {0};
    syn_safetensors *st;
    const char *key;
    CHECK_OK(syn_safetensors_open(&st, path, &err), err);
    CHECK_INT(syn_safetensors_count(st), 3);
    CHECK_STR(syn_safetensors_get(st, 0)->name, "b");
    CHECK_STR(syn_safetensors_get(st, 1)->name, "z");
    CHECK_STR(syn_safetensors_get(st, 2)->name, "a");
    CHECK_STR(syn_safetensors_find(st, "z")->file, SHARD_1);
    CHECK_STR(syn_safetensors_find(st, "a")->file, SHARD_2);
    CHECK(memcmp(syn_safetensors_find(st, "b")->data, "bB", 2) == 0);
    CHECK(memcmp(syn_safetensors_find(st, "a")->data, "a", 1) == 0);
    CHECK_INT(syn_safetensors_metadata_count(st), 3);
    CHECK_STR(syn_safetensors_metadata(st, 0, &key), "pt");
    CHECK_STR(syn_safetensors_metadata(st, 1, &key), "1");
    CHECK_STR(syn_safetensors_metadata(st, 2, &key), "2");
    CHECK_STR(key, "y");
    syn_safetensors_free(st);
}

static void shards_are_joined(void) {
    char path[600], here[600];
    put_shards();
    put_index(MAP("\"a\":\"" SHARD_2 "\",\"b\":\"" SHARD_1 "\",\"z\":\"" SHARD_1 "\""));
    check_shards(in_folder(""));
    check_shards(in_folder("model.safetensors.index.json"));
    snprintf(path, sizeof path, "%s///", in_folder(""));
    check_shards(path);
    CHECK(getcwd(here, sizeof here) != NULL && chdir(in_folder("")) == 0);
    check_shards(".");
    check_shards("model.safetensors.index.json");
    CHECK(chdir(here) == 0);
    put_index(MAP("\"a\":\"" SHARD_2 "\",\"b\":\"" SHARD_1 "\"")); /* the index does not list z */
    check_shards(in_folder(""));
    /* If there is a single file, it is used instead of the index, as in transformers. */
    put_tensors("model.safetensors", "{}", "", 0);
    syn_error err = {0};
    syn_safetensors *st;
    CHECK_OK(syn_safetensors_open(&st, in_folder(""), &err), err);
    CHECK_INT(syn_safetensors_count(st), 0);
    syn_safetensors_free(st);
}

/* Reads a checkpoint that HuggingFace's save_pretrained wrote. */
static void files_of_transformers_open(void) {
    syn_error err = {0};
    syn_safetensors *st;
    CHECK_OK(syn_safetensors_open(&st, reference_path("tiny_gpt2_f16_shards"), &err), err);
    CHECK_INT(syn_safetensors_count(st), 28);
    const syn_safetensors_tensor *t =
        syn_safetensors_find(st, "transformer.h.1.attn.c_attn.weight");
    CHECK(t != NULL && t->dtype == SYN_F16 && t->rank == 2);
    CHECK_INT(t->dims[0], 32);
    CHECK_INT(t->dims[1], 96);
    CHECK_STR(t->file, "model-00002-of-00003.safetensors");
    syn_safetensors_free(st);
}

/* ---- Many tensors, many threads ---- */

enum { MANY = 3000, MANY_THREADS = 4 };

static char *many_header(void) {
    char *text = malloc(MANY * 100);
    size_t used = 1;
    memcpy(text, "{", 2);
    for (int i = 0; i < MANY; i++)
        used += (size_t)sprintf(text + used, "%s\"t.%d\":" T("I32", "[1]", "[%d,%d]"), i ? "," : "",
                                i * 7 % MANY, 4 * i, 4 * i + 4);
    memcpy(text + used, "}", 2);
    return text;
}

/* Counts wrong lookups. Each thread releases pages that other threads read. */
static void *find_all(void *arg) {
    const syn_safetensors *st = arg;
    intptr_t wrong = 0;
    for (int i = 0; i < MANY; i++) {
        char name[32];
        int32_t value;
        snprintf(name, sizeof name, "t.%d", i);
        const syn_safetensors_tensor *t = syn_safetensors_find(st, name);
        if (t) memcpy(&value, t->data, 4);
        wrong += !t || value != i;
        if (t && i % 16 == 0) syn_safetensors_release(st, t->data, (size_t)t->bytes);
    }
    return (void *)wrong; /* NOLINT */
}

static void threads_share_a_checkpoint(void) {
    syn_error err = {0};
    syn_safetensors *st;
    pthread_t threads[MANY_THREADS];
    int32_t values[MANY];
    char *header = many_header();
    for (int i = 0; i < MANY; i++) values[i] = i * 7 % MANY;
    put_tensors("m.safetensors", header, values, sizeof values);
    free(header);
    CHECK_OK(syn_safetensors_open(&st, in_folder("m.safetensors"), &err), err);
    CHECK_INT(syn_safetensors_count(st), MANY);
    for (int i = 0; i < MANY_THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, find_all, st) == 0);
    for (int i = 0; i < MANY_THREADS; i++) {
        void *wrong;
        CHECK(pthread_join(threads[i], &wrong) == 0);
        CHECK(wrong == NULL);
    }
    syn_safetensors_free(st);
}

/* KiB of mapped files that are in this process's memory; -1 if the system does not report it. */
static long resident_file_kib(void) {
    FILE *f = fopen("/proc/self/status", "r");
    char line[256];
    long kib = -1;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "RssFile: %ld", &kib) == 1) break;
    if (f) fclose(f);
    return kib;
}

static void released_pages_leave_memory(void) {
    enum { MIB = 32 };
    syn_error err = {0};
    syn_safetensors *st;
    unsigned char *data = calloc(MIB, 1 << 20);
    CHECK(data != NULL);
    data[5] = 77;
    put_tensors("t.safetensors", "{\"a\":" T("U8", "[33554432]", "[0,33554432]") "}", data,
                (size_t)MIB << 20);
    free(data);
    CHECK_OK(syn_safetensors_open(&st, in_folder("t.safetensors"), &err), err);
    const syn_safetensors_tensor *t = syn_safetensors_get(st, 0);
    const unsigned char *p = t->data;
    unsigned sum = 0;
    const long before = resident_file_kib();
    for (size_t i = 0; i < t->bytes; i += 512) sum += p[i];
    const long read = resident_file_kib();
    syn_safetensors_release(st, p, (size_t)t->bytes);
    const long after = resident_file_kib();
    CHECK_INT(sum, 0);
    CHECK_INT(p[5], 77);
    syn_safetensors_free(st);
    if (before < 0) SKIP("the system does not tell what is resident");
    CHECK_MSG(read - before > MIB * 1024 / 2, "%ld KiB were read", read - before);
    CHECK_MSG(after - before < 1024, "%ld KiB stayed", after - before);
}

/* ---- Out of memory ---- */

static syn_status write_and_open(void *unused, syn_error *err) {
    (void)unused;
    unsigned char data[DATA_BYTES];
    syn_safetensors *st;
    fill(data);
    SYN_TRY(write_file(in_folder("t.safetensors"), data, err));
    SYN_TRY(syn_safetensors_open(&st, in_folder("t.safetensors"), err));
    syn_safetensors_free(st);
    SYN_TRY(syn_safetensors_open(&st, in_folder(""), err)); /* a checkpoint with an index */
    syn_safetensors_free(st);
    return SYN_OK;
}

static void every_allocation_may_fail(void) {
    put_shards();
    put_index(MAP("\"a\":\"" SHARD_2 "\",\"b\":\"" SHARD_1 "\""));
    CHECK(test_without_memory(write_and_open, NULL) > 20);
}

static const test_case cases[] = {
    {"bytes_are_as_the_format_says", bytes_are_as_the_format_says},
    {"what_is_written_reads_back", what_is_written_reads_back},
    {"the_writer_refuses", the_writer_refuses},
    {"every_type_is_known", every_type_is_known},
    {"shards_are_joined", shards_are_joined},
    {"files_of_transformers_open", files_of_transformers_open},
    {"threads_share_a_checkpoint", threads_share_a_checkpoint},
    {"released_pages_leave_memory", released_pages_leave_memory},
    {"every_allocation_may_fail", every_allocation_may_fail},
};

TEST_MAIN(cases)
