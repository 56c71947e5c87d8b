/* Tests text workloads in memory: what is read, malformed input, and running out of memory.
   test_text_workload.py compares the written traces with those of Chakra's converter. */
#include "tests/support/files.h"
#include "tests/support/test.h"

#include <unistd.h>

#include "export/workload/text_workload.h"
#include "syntorch/base/memory.h"

static const char text[] = "HYBRID_DLRM\t1\r\n3\r\n"
                           "emb -1 1 ALLTOALL 64 2 ALLTOALL 128 3 NONE 0 4\r\n"
                           "fc1 -1 5 NONE 0 6 NONE 0 7 ALLREDUCE 256 8\r\n"
                           "fc2 -1 9 NONE 0 10 ALLGATHER 512 11 REDUCESCATTER 1024 12\r\n\r\n";

static syn_status read_text(syn_text_workload *w, const char *data, size_t bytes, syn_error *err) {
    return syn_text_workload_read(w, "w.txt", data, bytes, false, err);
}

static void reads_a_text(void) {
    syn_error err = {0};
    syn_text_workload w;
    CHECK_OK(read_text(&w, text, sizeof text - 1, &err), err);
    CHECK_INT(w.parallelism, SYN_TEXT_DLRM);
    CHECK_INT(w.last_bottom, 1);
    CHECK_INT(w.n_layers, 3);
    /* Each of the 6 lines is stored with one byte less. */
    CHECK_INT(w.text_bytes, sizeof text - 1 - 6);
    const syn__text_layer *l = w.layers;
    CHECK(syn__str_is(l[0].name, "emb") && syn__str_is(l[2].name, "fc2"));
    CHECK_INT(l[1].line, 4);
    CHECK_INT(l[0].parts[SYN__TEXT_FWD].time_us, 1);
    CHECK_INT(l[0].parts[SYN__TEXT_IG].bytes, 128);
    CHECK_INT(l[0].parts[SYN__TEXT_IG].comm_type, 6);
    CHECK_INT(l[0].parts[SYN__TEXT_WG].comm_type, SYN__TEXT_NONE);
    CHECK_INT(l[1].parts[SYN__TEXT_WG].comm_type, 0);
    CHECK_INT(l[2].parts[SYN__TEXT_IG].comm_type, 2);
    CHECK_INT(l[2].parts[SYN__TEXT_WG].comm_type, 7);
    CHECK_INT(l[2].parts[SYN__TEXT_WG].time_us, 11);
    CHECK_INT(w.n_unused, 1); /* the all-gather of layer fc2 */
    CHECK_INT(w.unused_line, 5);
    syn_text_workload_free(&w);
}

/* Reads a copy of exactly these bytes, so that AddressSanitizer detects reads beyond them. */
static bool ends_well(const char *data, size_t bytes) {
    syn_error err = {0};
    syn_text_workload w;
    char *copy = (char *)malloc(bytes != 0 ? bytes : 1);
    if (copy == NULL) return false;
    memcpy(copy, data, bytes);
    const syn_status status = read_text(&w, copy, bytes, &err);
    free(copy);
    syn_text_workload_free(&w);
    return status == SYN_OK || (status == SYN_E_FORMAT && strncmp(err.text, "w.txt", 5) == 0);
}

static void hostile_texts_end_well(void) {
    static const char others[] = " \n\r\t\0-9A\xFF\xC3";
    char copy[sizeof text];
    for (size_t n = 0; n < sizeof text; n++) CHECK_MSG(ends_well(text, n), "cut at %zu", n);
    memcpy(copy, text, sizeof text);
    for (size_t i = 0; i < sizeof text - 1; i++) {
        for (size_t k = 0; k < sizeof others - 1; k++) {
            copy[i] = others[k];
            CHECK_MSG(ends_well(copy, sizeof text - 1), "byte %zu is %d", i, others[k]);
        }
        copy[i] = text[i];
    }
}

/* Converts the text. The trace set must be complete on success, and absent on failure. */
static syn_status convert(void *unused, syn_error *err) {
    (void)unused;
    const syn_text_options options = {2, 2, "test"};
    syn_text_workload w;
    syn_status status = read_text(&w, text, sizeof text - 1, err);
    if (status == SYN_OK) status = syn_text_workload_write(&w, &options, in_folder("w"), err);
    syn_text_workload_free(&w);
    const bool complete = path_exists(in_folder("w.comm_group.json"));
    return complete == (status == SYN_OK) ? status : SYN_E_IO;
}

static void conversion_out_of_memory(void) {
    CHECK(test_without_memory(convert, NULL) > 0);
    CHECK_INT(clear_folder(), 3);
}

static const test_case cases[] = {
    {"reads_a_text", reads_a_text},
    {"hostile_texts_end_well", hostile_texts_end_well},
    {"conversion_out_of_memory", conversion_out_of_memory},
};

TEST_MAIN(cases)
