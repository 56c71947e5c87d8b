/* Tests the statistics of hand-made and damaged traces, with values counted manually.
   test_validate_tool.py compares those of other traces with etcheck.py. */
#include "export/statistics.h"

#include "syntorch/base/memory.h"
#include "tests/support/et_set.h"
#include "tests/support/exported.h"
#include "tests/support/files.h"
#include "tests/support/gpt_graph.h"
#include "tests/support/test.h"

/* Writes the files of ranks 0 and 1 and returns their prefix. */
static const char *write_set(const et_set *s) {
    for (int rank = 0; rank < 2; rank++) {
        syn__buf bytes = set_bytes(s, rank);
        put_file(rank == 0 ? "s.0.et" : "s.1.et", bytes.data, bytes.bytes);
        syn__buf_free(&bytes);
    }
    return in_folder("s");
}

static void clean_set(void) {
    syn_error err = {0};
    syn_statistics_set set;
    const et_set s = set_clean();
    const char *prefix = write_set(&s);
    CHECK_OK(syn_statistics_read(&set, &prefix, 1, 0, &err), err);
    CHECK_INT(set.n_ranks, 2);
    for (int i = 0; i < 3; i++) {
        const syn_statistics *r = i < 2 ? &set.ranks[i] : &set.total;
        const uint64_t times = i < 2 ? 1 : 2;
        CHECK_INT(r->rank, i < 2 ? i : -1);
        CHECK_INT(r->n_nodes, 8 * times);
        CHECK_INT(r->types[SYN__ET_COMP_NODE], 3 * times);
        CHECK_INT(r->types[SYN__ET_COMM_COLL_NODE], 4 * times);
        CHECK_INT(r->n_data_deps, 7 * times);
        CHECK_INT(r->n_roots, times);
        CHECK_INT(r->critical_nodes, 8);
        CHECK_INT(r->num_ops, 3000000 * times);
        CHECK_INT(r->tensor_bytes, 3 * 4096 * times);
        CHECK_INT(r->n_communication, 5 * times);
        CHECK_INT(r->collectives[0].count, 2 * times);
        CHECK_INT(r->collectives[0].bytes, 128 * times);
        CHECK_INT(r->collectives[7].bytes, 128 * times);
        CHECK_INT(r->collective_bytes, (2 * 64 + 128 + 32) * times);
        CHECK_INT(r->n_groups, 3);
        CHECK_INT(r->n_ops, 3);
        CHECK_STR(r->ops[0].name, "together");
        CHECK_INT(r->ops[0].count, 4 * times);
    }
    CHECK_INT(set.ranks[0].send_bytes, 16);
    CHECK_INT(set.ranks[1].recv_bytes, 16);
    CHECK_STR(set.ranks[0].version, "1.0.0");
    syn_statistics_free(&set);
}

/* Errors in a file are counted. The valid rest of the file is described. */
static void damaged(void) {
    syn_error err = {0};
    syn_statistics_set set;
    et_set s = set_clean();
    set_node *n = s.nodes[0];
    n[1].ctrl[n[1].n_ctrl++] = 99;
    n[2].ctrl[n[2].n_ctrl++] = 3;
    n[4].ctrl[n[4].n_ctrl++] = 6; /* 5 and 6 wait for each other, and 7 waits for them */
    n[3].id = 3;
    n[3].data[0] = 2;
    n[4].data[0] = 3;
    set_value(&n[0], "num_ops", -1);
    set_attr(&n[0], "tensor_size")->bits = UINT64_MAX;
    s.cut_bytes = 1;
    const char *prefix = write_set(&s);
    CHECK_OK(syn_statistics_read(&set, &prefix, 1, 0, &err), err);
    const syn_statistics *r = &set.ranks[0];
    CHECK_INT(r->n_nodes, 7);
    CHECK_INT(r->n_damaged, 1);
    CHECK_INT(r->n_dangling, 1);
    CHECK_INT(r->n_duplicates, 1);
    CHECK_INT(r->n_never, 4); /* these three and 3, which waits for itself */
    CHECK_INT(r->num_ops, 2000000);
    CHECK(r->tensor_bytes == (uint64_t)INT64_MAX + 2 * 4096);
    CHECK_INT(set.total.n_never, 4);
    syn_statistics_free(&set);
}

static void sums_stay(void) {
    syn_error err = {0};
    syn_statistics_set set;
    et_set s = set_clean();
    for (int i = 0; i < 3; i += 2) set_attr(&s.nodes[0][i], "num_ops")->bits = INT64_MAX;
    set_attr(&s.nodes[0][5], "num_ops")->bits = INT64_MAX;
    const char *prefix = write_set(&s);
    CHECK_OK(syn_statistics_read(&set, &prefix, 1, 0, &err), err);
    CHECK(set.ranks[0].num_ops == UINT64_MAX && set.total.num_ops == UINT64_MAX);
    syn_statistics_free(&set);
}

static void no_file(void) {
    syn_error err = {0};
    syn_statistics_set set;
    const char *const paths[] = {in_folder("s.0.et"), in_folder("nothing")};
    const et_set s = set_clean();
    write_set(&s);
    CHECK_INT(syn_statistics_read(&set, paths, 2, 0, &err), SYN_E_IO);
    syn_statistics_free(&set);
    err = (syn_error){0};
    CHECK_INT(syn_statistics_read(&set, paths + 1, 1, 0, &err), SYN_E_IO);
    CHECK_HAS(err.text, "neither the file");
    syn_statistics_free(&set);
    err = (syn_error){0};
    CHECK_INT(syn_statistics_read(&set, paths, 0, 0, &err), SYN_E_INVALID);
}

/* "h.0.attn/softmax" and "h.1.attn/softmax" are one row of the statistics. */
static void ops_of_layers(void) {
    static const syn_export_options options = {.version = "syntorch test"};
    syn_error err = {0};
    syn_statistics_set set;
    syn_graph *graph = small_gpt_graph();
    size_t bytes, n_softmax = 0;
    char *data = export_bytes(&syn_export_et, graph, &options, &bytes);
    put_file("gpt.0.et", data, bytes);
    const char *path = in_folder("gpt.0.et");
    CHECK_OK(syn_statistics_read(&set, &path, 1, 0, &err), err);
    for (size_t i = 0; i < set.total.n_ops; i++) {
        CHECK(strchr(set.total.ops[i].name, '/') == NULL);
        if (strcmp(set.total.ops[i].name, "softmax") == 0) n_softmax = set.total.ops[i].count;
    }
    CHECK_INT(n_softmax, 2);
    syn_statistics_free(&set);
    free(data);
    syn_graph_free(graph);
}

static syn_status read_set(void *prefix, syn_error *err) {
    syn_statistics_set set;
    const char *path = prefix;
    const syn_status status = syn_statistics_read(&set, &path, 1, 0, err);
    syn_statistics_free(&set);
    return status;
}

static void no_memory(void) {
    const et_set s = set_clean();
    CHECK(test_without_memory(read_set, (void *)(uintptr_t)write_set(&s)) > 0);
}

static const test_case cases[] = {
    {"clean_set", clean_set}, {"damaged", damaged},     {"sums_stay", sums_stay},
    {"no_file", no_file},     {"no_memory", no_memory}, {"ops_of_layers", ops_of_layers},
};

TEST_MAIN(cases)
