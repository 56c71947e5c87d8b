/* Tests execution traces that PyTorch's converter made from real runs. They are read, verified and
   written again. The expected numbers are those of the independent checker etcheck.py. */
#include "tests/support/files.h"
#include "tests/support/test.h"

#include "tests/support/et_protobuf.h"
#include "tests/support/et_sample.h"

/* For each trace: its number of nodes according to etcheck.py --single, and the number of control
   dependencies on missing nodes. */
static const struct {
    const char *folder, *file;
    uint32_t n_nodes, n_dropped;
} traces[] = {
    {"hostonly_chakra_1.0.2", "chakra_trace.0.et.gz", 262, 0},
    {"hostonly_pt2_1.1.1", "chakra_trace.0.et.gz", 19, 0},
    {"hostonly_resnet_1.1.0", "chakra_trace.0.et.gz", 14391, 0},
    {"recursion_repro", "expected_with_raised_limit.0.et.gz", 4422, 1},
    {"resnet_2gpu_rank0", "chakra_trace.0.et.gz", 18050, 2},
    {"simple_add_upgraded", "chakra_trace.0.et.gz", 41, 1},
    {"synth_allfeatures", "chakra_trace.0.et.gz", 237, 2},
};

/* Returns the decompressed file; the caller frees it. */
static char *unpack(size_t i, size_t *bytes) {
    char command[1024];
    size_t cap = 1 << 24, n = 0, got;
    snprintf(command, sizeof command, "gzip -dc '%s'",
             shared_path("pytorch-traces/%s/%s", traces[i].folder, traces[i].file));
    FILE *pipe = popen(command, "r");
    char *data = (char *)malloc(cap);
    while (pipe != NULL && data != NULL && (got = fread(data + n, 1, cap - n, pipe)) > 0) n += got;
    if (pipe == NULL || pclose(pipe) != 0 || n == 0) {
        free(data);
        return NULL;
    }
    *bytes = n;
    return data;
}

static void check_trace(size_t i) {
    syn_error err = {0};
    syn_graph *g = NULL;
    size_t bytes = 0, n, n_json;
    char *data = unpack(i, &bytes);
    CHECK_MSG(data != NULL, "%s", traces[i].folder);
    bool canonical;
    CHECK(et_same_as_protobuf(data, bytes, &canonical));
    CHECK_OK(syn_import_et_memory(&g, traces[i].folder, data, bytes, &err), err);
    CHECK_OK(syn_graph_verify(g, &err), err);
    CHECK_INT(g->ranks[0].n_nodes, traces[i].n_nodes);
    const syn_attribute *dropped = syn_graph_meta(g, "et.dropped_ctrl_deps");
    CHECK_INT(dropped != NULL ? dropped->i64 : 0, traces[i].n_dropped);
    CHECK_HAS(syn_graph_meta(g, "schema")->text, "chakra");
    char *again = export_bytes(&syn_export_et, g, NULL, &n);
    char *json = export_bytes(&syn_export_chakra, g, NULL, &n_json);
    syn_graph_free(g);
    /* Only the dropped dependencies are missing; each has 3 bytes (key, length, id).
       recursion_repro also has another order. */
    CHECK_INT(n, bytes - 3 * traces[i].n_dropped);
    if (traces[i].n_dropped == 0) CHECK(memcmp(again, data, n) == 0);
    free(data);
    g = read_et(again, n);
    data = export_bytes(&syn_export_et, g, NULL, &bytes);
    syn_graph_free(g);
    CHECK(data != NULL && bytes == n && memcmp(data, again, n) == 0);
    free(data);
    free(again);
    free(json);
}

static void test_real_traces(void) {
    if (!have_shared_data()) SKIP("no SYN_SHARED_DATA");
    for (size_t i = 0; i < sizeof traces / sizeof traces[0]; i++) check_trace(i);
}

static const test_case cases[] = {{"real_traces", test_real_traces}};

TEST_MAIN(cases)
