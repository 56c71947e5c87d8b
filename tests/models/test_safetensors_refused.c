/* Tests invalid safetensors files, each of which must give one specific message. For the first
   table, the reference implementation (safetensors 0.8.0 for Python) accepts and rejects the same
   files, except for the four files marked "stricter", which only the format's text or this library
   rejects. */
#include "models/weights/safetensors_private.h"
#include "tests/support/files.h"
#include "tests/support/tensor_files.h"
#include "tests/support/test.h"

#include <unistd.h>

#include <sys/stat.h>

static const struct hostile {
    const char *header;
    size_t data_bytes;
    const char *says; /* part of the expected message; NULL: accepted */
} hostile[] = {
    {"{}", 0, NULL},
    {"{}   ", 0, NULL},
    {"{\"a\":" T("F32", "[2]", "[0,8]") "}", 8, NULL},
    {"{\"a\":" T("F32", "[]", "[0,4]") "}", 4, NULL},
    {"{\"b\":" T("U8", "[2]", "[0,2]") ",\"a\":" T("F32", "[0,3]", "[0,0]") "}", 2, NULL},
    {"{\"a\":" T("I8", "[0]", "[2,2]") ",\"b\":" T("U8", "[2]", "[0,2]") "}", 2, NULL},
    {"{\"a\":" T("F4", "[4]", "[0,2]") "}", 2, NULL},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"more\":{\"x\":[]}}}", 1,
     NULL},
    {"{\"\\u0061\":" T("\\u00558", "[1]", "[0,1]") "}", 1, NULL},
    {"", 0, "does not begin with '{'"},
    {"[]", 0, "does not begin with '{'"},
    {" {}", 0, "does not begin with '{'"}, /* stricter: the text says "must begin with {" */
    {"{", 0, "the document ends here"},
    {"{}{}", 0, "expected the end of"},
    {"{\"a\":1}", 0, "the entry of a tensor must be an object, not a number"},
    {"{\"\xFF\":" T("U8", "[1]", "[0,1]") "}", 1, "is not valid UTF-8"},
    {"{\"a\\u0000b\":" T("U8", "[1]", "[0,1]") "}", 1,
     "U+0000"}, /* stricter: names are C strings, which cannot contain NUL */
    {"{\"a\":" T("U8", "[1]", "[0,1]") ",\"a\":" T("U8", "[1]", "[1,2]") "}", 2,
     "the tensor 'a' appears twice"},
    {"{\"a\":" T("U8", "[1]", "[0,1]") ",\"\\u0061\":" T("U8", "[1]", "[0,1]") "}", 1,
     "the tensor 'a' appears twice"},
    {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
     "'a' has \"dtype\" twice"},
    {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "'a' has no \"dtype\""},
    {"{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, "'a' has no \"shape\""},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "'a' has no \"data_offsets\""},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "\"__metadata__\" appears twice"},
    {"{\"__metadata__\":{\"b\":\"1\",\"a\":\"\",\"b\":\"2\"}}", 0,
     "the metadata has \"b\" twice"}, /* stricter: the text says "duplicate keys are disallowed" */
    {"{\"__metadata__\":{\"a\":1}}", 0, "must be a string, not a number"},
    {"{\"__metadata__\":null}", 0, NULL},
    {"{\"__metadata__\":null,\"a\":" T("F32", "[]", "[0,4]") "}", 4, NULL},
    {"{\"__metadata__\":[]}", 0, "\"__metadata__\" must be an object or null"},
    {"{\"a\":" T("F31", "[1]", "[0,4]") "}", 4, "'a' has the dtype \"F31\", which"},
    {"{\"a\":" T("f32", "[1]", "[0,4]") "}", 4, "'a' has the dtype \"f32\", which"},
    {"{\"a\":" T("F32\\u0000", "[1]", "[0,4]") "}", 4, "'a' has the dtype \"F32\", which"},
    {"{\"a\":" T("F32", "[-1]", "[0,4]") "}", 4, "must be integers from 0"},
    {"{\"a\":" T("F32", "[1.0]", "[0,4]") "}", 4, "must be integers from 0"},
    {"{\"a\":" T("F32", "[\"1\"]", "[0,4]") "}", 4, "must be integers from 0"},
    {"{\"a\":" T("F32", "[9223372036854775808]", "[0,4]") "}", 4, "must be integers from 0"},
    {"{\"a\":" T("F32", "1", "[0,4]") "}", 4, "\"shape\" must be an array"},
    {"{\"a\":" T("F32", "[4611686018427387904,4]", "[0,4]") "}", 4, "more than 2^63 elements"},
    {"{\"a\":" T("F32", "[4611686018427387904]", "[0,4]") "}", 4, "more than 2^63 bits"},
    {"{\"a\":" T("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]") "}", 1,
     /* Stricter: a tensor has at most SYN_SAFETENSORS_RANK dimensions. */
     "has more than 8 numbers"},
    {"{\"a\":" T("F4", "[3]", "[0,1]") "}", 1, "ends inside a byte: 3 elements of 4 bits"},
    {"{\"a\":" T("F32", "[3]", "[0,8]") "}", 8,
     "has 8 bytes according to its data_offsets, but 12"},
    {"{\"a\":" T("F32", "[2]", "[0,12]") "}", 12,
     "has 12 bytes according to its data_offsets, but 8"},
    {"{\"a\":" T("U8", "[4]", "[0,4]") "}", 3, "ends at byte 4 of the data, but the file has 3"},
    {"{\"a\":" T("U8", "[4]", "[4,0]") "}", 4, "begins at byte 4 and ends before, at 0"},
    {"{\"a\":" T("U8", "[4]", "[0,9223372036854775807]") "}", 4, "ends at byte 92233720368547758"},
    {"{\"a\":" T("U8", "[1]", "[0]") "}", 1, "must be two numbers"},
    {"{\"a\":" T("U8", "[1]", "[0,1,1]") "}", 1, "more than 2 numbers"},
    {"{\"a\":" T("U8", "[4]", "[0,4]") ",\"b\":" T("U8", "[4]", "[3,7]") "}", 7,
     "'b' begins at byte 3 of the data, inside 'a'"},
    {"{\"a\":" T("U8", "[4]", "[0,4]") ",\"b\":" T("U8", "[0]", "[2,2]") "}", 4,
     "'b' begins at byte 2 of the data, inside 'a'"},
    {"{\"a\":" T("U8", "[4]", "[0,4]") ",\"b\":" T("U8", "[1]", "[5,6]") "}", 6,
     "bytes 4 to 5, before 'b', belong to no tensor"},
    {"{\"a\":" T("U8", "[4]", "[1,5]") "}", 5, "bytes 0 to 1, before 'a', belong to no tensor"},
    {"{\"a\":" T("U8", "[4]", "[0,4]") "}", 6, "2 bytes follow the last tensor"},
    {"{}", 1, "1 bytes follow the last tensor"},
};

static void lies_are_one_sentence(void) {
    static const unsigned char data[64];
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        const struct hostile *h = &hostile[i];
        syn_error err = {0};
        unsigned char *file;
        syn_safetensors *st;
        const size_t bytes = tensor_bytes(&file, h->header, data, h->data_bytes);
        unsigned char *exact = malloc(bytes); /* heap memory of the exact size, so that a sanitizer
                                                 detects a read past the end */
        memcpy(exact, file, bytes);
        free(file);
        const syn_status s = syn__safetensors_open_memory(&st, "dir/x", exact, bytes, &err);
        CHECK_MSG(s == (h->says ? SYN_E_FORMAT : SYN_OK) && s == err.code, "row %zu (%s): %d, %s",
                  i, h->header, (int)s, err.text);
        CHECK((st != NULL) == (s == SYN_OK));
        if (h->says) {
            CHECK_HAS(err.text, h->says);
            CHECK(strncmp(err.text, "dir/x", 5) == 0);
        }
        syn_safetensors_free(st);
        free(exact);
    }
}

/* Opens folder/name and checks the status. The error message must contain `says`. */
static bool refuses(const char *name, syn_status want, const char *says) {
    syn_error err = {0};
    syn_safetensors *st;
    const syn_status s = syn_safetensors_open(&st, *name ? in_folder(name) : in_folder(""), &err);
    const bool ok = s == want && st == NULL && strstr(err.text, says) != NULL;
    if (!ok) fprintf(stderr, "%s: status %d, \"%s\" lacks \"%s\"\n", name, (int)s, err.text, says);
    syn_safetensors_free(st);
    return ok;
}

static void lengths_lie(void) {
    put_file("empty", "", 0);
    CHECK(refuses("empty", SYN_E_FORMAT, "it has 0 bytes"));
    put_file("seven", "\0\0\0\0\0\0\0", 7);
    CHECK(refuses("seven", SYN_E_FORMAT, "it has 7 bytes"));
    put_file("huge", "\0\0\0\0\0\0\0\x80{}", 10);
    CHECK(
        refuses("huge", SYN_E_FORMAT, "a header of 9223372036854775808 bytes, but only 2 follow"));
    put_file("all", "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF{}", 10);
    CHECK(refuses("all", SYN_E_FORMAT, "a header of 18446744073709551615 bytes"));
    put_file("one_more", "\3\0\0\0\0\0\0\0{}", 10);
    CHECK(refuses("one_more", SYN_E_FORMAT, "a header of 3 bytes, but only 2 follow"));
    put_file("pickle", "PK\3\4\0\0\x08\x08 archive/data.pkl", 25);
    CHECK(refuses("pickle", SYN_E_FORMAT, "not a safetensors file"));
    put_file("pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", 63);
    CHECK(refuses("pointer", SYN_E_FORMAT,
                  "a Git LFS pointer; run 'git lfs pull' to fetch the weights"));
    /* A header one byte longer than the limit, in a sparse file. A header at the limit is read. */
    put_file("long", "\1\xE1\xF5\5\0\0\0\0{", 9);
    CHECK(truncate(in_folder("long"), 100001000) == 0);
    CHECK(refuses("long", SYN_E_FORMAT, "has 100000001 bytes; the limit is 100000000"));
    put_file("long", "\0\xE1\xF5\5\0\0\0\0{", 9);
    CHECK(truncate(in_folder("long"), 100001000) == 0);
    CHECK(refuses("long", SYN_E_FORMAT, "not the byte 0x00"));
}

static void places_without_tensors(void) {
    CHECK(refuses("nothing.safetensors", SYN_E_IO, "nothing.safetensors: No such file"));
    CHECK(refuses("nothing.json", SYN_E_IO, "nothing.json: No such file"));
    CHECK(refuses("", SYN_E_IO, "has neither model.safetensors nor model.safetensors.index.json"));
    CHECK(mkfifo(in_folder("pipe"), 0600) == 0);
    CHECK(refuses("pipe", SYN_E_IO, "it is not a regular file"));
    put_file("pytorch_model.bin", "PK", 2);
    CHECK(refuses("", SYN_E_IO, "it has PyTorch's pytorch_model.bin, but only safetensors"));
    CHECK(mkdir(in_folder("model.safetensors"), 0700) == 0);
    CHECK(refuses("", SYN_E_IO, "model.safetensors: it is a folder"));
}

static void indexes_lie(void) {
    static const struct {
        const char *json, *says;
        syn_status status;
    } rows[] = {
        {MAP("\"a\":\"" SHARD_1 "\""), "'a' is not in " SHARD_1, SYN_E_FORMAT},
        {MAP("\"a\":\"" SHARD_1 "\",\"b\":\"" SHARD_2 "\""), "is not in", SYN_E_FORMAT},
        {MAP("\"c\":\"" SHARD_1 "\""), "'c' is not in " SHARD_1, SYN_E_FORMAT},
        {MAP("\"a\":\"missing.safetensors\""), "missing.safetensors: No such file", SYN_E_IO},
        {MAP("\"a\":\"../model.safetensors\""),
         "\"../model.safetensors\" is not the name of a file", SYN_E_FORMAT},
        {MAP("\"a\":\"/tmp/x\""), "is not the name of a file", SYN_E_FORMAT},
        {MAP("\"a\":\"..\""), "is not the name of a file", SYN_E_FORMAT},
        {MAP("\"a\":\".\""), "is not the name of a file", SYN_E_FORMAT},
        {MAP("\"a\":\"\""), "is not the name of a file", SYN_E_FORMAT},
        {MAP("\"a\":\"x\\\\y\""), "is not the name of a file", SYN_E_FORMAT},
        {MAP("\"a\":\"x\\u0000\""), "is not the name of a file", SYN_E_FORMAT},
        {MAP("\"a\\u0000\":\"x\""), "U+0000", SYN_E_FORMAT},
        {MAP("\"a\":1"), "the file of a tensor must be a string, not a number", SYN_E_FORMAT},
        {MAP("\"a\":\"x\",\"a\":\"y\""), "'a' appears twice", SYN_E_FORMAT},
        {MAP(""), "\"weight_map\" is empty", SYN_E_FORMAT},
        {"{\"weight_map\":{\"a\":\"x\"},\"weight_map\":{}}", "\"weight_map\" appears twice",
         SYN_E_FORMAT},
        {"{\"metadata\":{}}", "has no \"weight_map\"", SYN_E_FORMAT},
        {"[]", "must be an object", SYN_E_FORMAT},
        {"{", "the document ends here", SYN_E_FORMAT},
        {"", "the document ends here", SYN_E_FORMAT},
    };
    put_shards();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        put_index(rows[i].json);
        CHECK(refuses("", rows[i].status, rows[i].says));
    }
    put_tensors(SHARD_2, "{\"b\":" T("U8", "[1]", "[0,1]") "}", "b", 1);
    put_index(MAP("\"b\":\"" SHARD_2 "\",\"z\":\"" SHARD_1 "\""));
    CHECK(refuses("", SYN_E_FORMAT, "the tensor 'b' is in two files, " SHARD_1 " and " SHARD_2));
    put_file(SHARD_2, "x", 1);
    CHECK(refuses("", SYN_E_FORMAT, SHARD_2 " is not a safetensors file"));
}

static const test_case cases[] = {
    {"lies_are_one_sentence", lies_are_one_sentence},
    {"lengths_lie", lengths_lie},
    {"places_without_tensors", places_without_tensors},
    {"indexes_lie", indexes_lie},
};

TEST_MAIN(cases)
