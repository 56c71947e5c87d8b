/* Tests file checksums against the reference implementation (xxHash 0.8). */
#include "syntorch/base/checksum.h"

#include <string.h>

#include "syntorch/base/sink_private.h"
#include "tests/support/files.h"
#include "tests/support/test.h"

/* Checksums of the first n bytes of 0, 1, ..., 255, 0, ... */
static const struct {
    size_t n;
    uint64_t sum;
} known[] = {
    {0, 0xef46db3751d8e999},
    {32, 0xcbf59c5116ff32b4},
    {63, 0xe26aa9e2a95f8e4f},
    {768, 0x8e03c838c596036f},
};

static void fill(unsigned char bytes[768]) {
    for (int i = 0; i < 768; i++) bytes[i] = (unsigned char)i;
}

/* The checksum does not depend on how the bytes are split into pieces. */
static void sums(void) {
    unsigned char bytes[768];
    syn__checksum sum;
    fill(bytes);
    for (size_t i = 0; i < COUNT(known); i++)
        for (size_t piece = 1; piece < 100; piece += 7) {
            syn__checksum_begin(&sum);
            for (size_t at = 0; at < known[i].n; at += piece)
                syn__checksum_add(&sum, bytes + at,
                                  known[i].n - at < piece ? known[i].n - at : piece);
            CHECK(syn__checksum_end(&sum) == known[i].sum);
        }
    syn__checksum_begin(&sum);
    syn__checksum_add(&sum, "abc", 3);
    CHECK(syn__checksum_end(&sum) == 0x44bc2cf5ad770999);
}

/* A sink's checksum equals that of the file it wrote, for each kind of temporary file. */
static void of_a_sink(void) {
    unsigned char bytes[768];
    fill(bytes);
    for (int how = 0; how < 3; how++) {
        const char *path = in_folder("x");
        syn__checksum sum;
        syn_sink *sink;
        syn_error err = {0};
        uint64_t file = 0;
        syn__checksum_begin(&sum);
        syn__sink_simulate(how == 1, how == 2);
        CHECK_OK(syn_sink_open_file(&sink, path, &err), err);
        syn__sink_sum(sink, &sum);
        for (int i = 0; i < 1000; i++) syn_sink_write(sink, bytes, sizeof bytes);
        CHECK_OK(syn_sink_close(sink, true, &err), err);
        syn__sink_simulate(false, false);
        CHECK_OK(syn__checksum_file(path, &file, &err), err);
        CHECK(sum.total_bytes == 768000 && syn__checksum_end(&sum) == file);
    }
    syn_error err = {0};
    uint64_t none;
    CHECK_INT(syn__checksum_file(in_folder("absent"), &none, &err), SYN_E_IO);
    CHECK_HAS(err.text, "absent': No such file");
}

static const test_case cases[] = {
    {"sums", sums},
    {"of_a_sink", of_a_sink},
};

TEST_MAIN(cases)
