/* Tests communication on host ops (gloo, or without a device trace), process groups and damaged
   calls, in traces built call by call. The number, kinds and sizes of communications in the shared
   traces are compared with the files of the reference converter. Communication in kernels is tested
   in test_pt_comm.c. */
#include "tests/support/files.h"
#include "tests/support/test.h"

#include "export/chakra/et_index.h"
#include "export/chakra/wire/et_node.h"
#include "export/pytorch/comm/pt_comm.h"
#include "export/pytorch/match/pt_match.h"
#include "tests/support/pt_calls_json.h"

/* ---- Without kernels ---- */

/* Each c10d op is one communication, whether its gloo ops are within it, within each other, or next
   to it. */
static void test_gloo(void) {
    traces *t = begin_traces();
    t->no_device = true;
    host_op(t, 10, 2, 1, "c10d::reduce_scatter_",
            "[[1,2,0,5,4,\"cpu\"]],[[[1,2,0,5,4,\"cpu\"],[1,2,0,5,4,\"cpu\"]]],\"<Object>\"", "",
            "");
    host_op(t, 11, 10, 1, "gloo:all_reduce", TENSOR("5", "4"), "", "");
    host_op(t, 12, 11, 1, "gloo:all_reduce", TENSOR("5", "4"), "", "");
    host_op(t, 13, 2, 1, "gloo:all_reduce", TENSOR("5", "4"), "", "");
    host_op(t, 14, 2, 1, "gloo:scatter", TENSOR("5", "4"), "", ""); /* as in PyTorch 2.2 */
    host_op(t, 20, 2, 1, "c10d::send", "[[1,2,0,6,4,\"cpu\"]],\"<Object>\",3,9", "", "");
    host_op(t, 21, 20, 1, "gloo:send", TENSOR("6", "4"), "", "");
    host_op(t, 22, 20, 1, "c10d::recv_", "[[1,2,0,7,4,\"cpu\"]],\"<Object>\",2,8", "", "");
    host_op(t, 23, 22, 1, "gloo:recv", TENSOR("7", "4"), "", "");
    host_op(t, 30, 2, 1, "c10d::recv_any_source_", "[[1,2,0,8,4,\"cpu\"]],\"<Object>\",4", "", "");
    host_op(t, 40, 2, 1, "c10d::scatter_", "[[1,2,0,9,4,\"cpu\"]],[],\"<Object>\",0", "", "");
    host_op(t, 50, 2, 1, "c10d::allgather_",
            "[[[1,2,0,3,4,\"cpu\"],[1,2,0,3,4,\"cpu\"]]],[[1,2,0,3,4,\"cpu\"]]", "", "");
    host_op(t, 60, 2, 1, "_c10d_functional::all_reduce", TENSOR("11", "4") ",\"sum\",\"12\"", "",
            "");
    host_op(t, 61, 60, 1, "c10d::allreduce_", "[" TENSOR("11", "4") "],\"<Object>\"", "", "");
    host_op(t, 62, 2, 1, "_c10d_functional::wait_tensor", TENSOR("11", "4"), "", "");
    host_op(t, 70, 2, 1, "gloo:broadcast", TENSOR("12", "4"), "", ""); /* without a c10d op */
    CHECK_OK(find(t, ""), t->err);
    const syn__pt_rank *r = &t->rank;
    static const struct {
        uint64_t id;
        int type, collective, peer, tag;
        int64_t bytes;
    } want[] = {{10, 7, 7, -1, 0, 40},  {20, 5, -1, 3, 9, 24}, {22, 6, -1, 2, 8, 28},
                {30, 6, -1, -1, 4, 32}, {40, 7, 4, -1, 0, 36}, {50, 7, 2, -1, 0, 12},
                {61, 7, 0, -1, 0, 44},  {70, 7, 5, -1, 0, 48}};
    CHECK_INT(r->n_comms, sizeof want / sizeof want[0]);
    for (size_t i = 0; i < r->n_comms; i++) {
        const syn__pt_comm *c = &r->comms[i];
        CHECK_INT(host_id(r, c), want[i].id);
        CHECK_INT(c->type, want[i].type);
        CHECK_INT(c->collective, want[i].collective);
        CHECK_INT(c->peer, want[i].peer);
        CHECK_INT(c->tag, want[i].tag);
        CHECK_INT(c->bytes, want[i].bytes);
    }
    CHECK_INT(r->n_groups, 1);
    CHECK_STR(r->groups[0].name, "12");
    end_traces(t);
}

/* Without a device trace, record_param_comms is the communication. Newer traces record the sequence
   number with a flag. */
static void test_host_only(void) {
    static const char *const inputs[] = {
        RECORD_INPUTS(TENSOR("10", "4"), "allreduce", "0", "0", "2", "3"),
        "[" TENSOR("10", "4") "],[35,false],[\"0\",\"\"],0,\"allreduce\",[],[],0,2,3"};
    for (int i = 0; i < 2; i++) {
        traces *t = one_call("c10d::allreduce_", inputs[i], "", "nccl:all_reduce", "", "");
        t->no_device = true;
        CHECK_OK(find(t, ""), t->err);
        const syn__pt_rank *r = &t->rank;
        CHECK_INT(r->n_comms, 1);
        CHECK_INT(host_id(r, &r->comms[0]), 11);
        CHECK_INT(r->comms[0].sequence, 35);
        CHECK_INT(r->comms[0].bytes, 40);
        CHECK_INT(r->groups[0].n_ranks, 3); /* 0, 2, 4 */
        CHECK_INT(r->groups[0].ranks[2], 4);
        end_traces(t);
    }
}

/* ---- Groups ---- */

static void check_group(const syn__pt_rank *r, const char *name, uint32_t size, const char *ranks) {
    char text[256] = "";
    size_t n = 0;
    for (size_t i = 0; i < r->n_groups; i++) {
        const syn__pt_group *g = &r->groups[i];
        if (strcmp(g->name, name) != 0) continue;
        for (uint32_t k = 0; k < g->n_ranks; k++)
            n += (size_t)snprintf(text + n, sizeof text - n, k == 0 ? "%d" : " %d", g->ranks[k]);
        CHECK_STR(text, ranks);
        CHECK_INT(g->size, size);
        return;
    }
    CHECK_MSG(false, "no group %s", name);
}

static void test_group_lists(void) {
    traces *t = begin_traces();
    host_op(
        t, 3, 2, 1, "## process_group:init ##",
        "\"[{\\\"pg_name\\\": \\\"0\\\", \\\"pg_desc\\\": \\\"default_pg\\\", \\\"ranks\\\": [], "
        "\\\"group_size\\\": 4, \\\"group_count\\\": 3}, {\\\"pg_name\\\": \\\"tp\\\\u0020a\\\", "
        "\\\"backend_id\\\": 77, \\\"ranks\\\": [2, 3], \\\"group_size\\\": 2}]\"",
        "", "");
    host_op(t, 4, 2, 1, "## process_group:init ##",
            "\"\\\"[{\\\\\\\"pg_name\\\\\\\": \\\\\\\"deep\\\\\\\", \\\\\\\"ranks\\\\\\\": [3, 1], "
            "\\\\\\\"group_size\\\\\\\": 2}]\\\"\"",
            "", "");
    host_op(t, 5, 2, 1, "## process_group:init ##",
            "\"[{'pg_id': 140538, 'backend_config': 'cuda:nccl', 'ranks': {0: 0, 3: 1}}]\"", "",
            "");
    host_op(t, 10, 2, 1, "record_param_comms",
            "[" TENSOR("10", "4") "],35,77,0,\"all_gather\",[],[],2", "", "");
    host_op(t, 11, 2, 1, "record_param_comms",
            "[" TENSOR("10", "4") "],36,[\"late\",\"\"],0,\"all_gather\",[],[],1,2,2", "", "");
    host_op(t, 12, 2, 1, "record_param_comms",
            "[" TENSOR("10", "4") "],36,[\"cut\",\"\"],0,\"reduce\"", "", ATTR("pg_size", "40"));
    kernel(t, 12, "ncclDevKernel_Reduce", "\"Process Group Ranks\":\"[0, 1, 2, ..., 39]\"");
    CHECK_OK(
        find(t,
             "\"distributedInfo\":{\"backend\":\"nccl\",\"rank\":2,\"world_size\":4,\"pg_count\":2,"
             "\"pg_config\":[{\"pg_name\":\"0\",\"pg_desc\":\"default_pg\",\"pg_size\":4,\"ranks\":"
             "\"[0, 1, 2, 3]\"},{\"pg_name\":\"9\",\"pg_desc\":\"dp\",\"pg_size\":2,\"ranks\":[2, "
             "0]}],"
             "\"nccl_version\":\"2.27.5\"},"),
        t->err);
    const syn__pt_rank *r = &t->rank;
    CHECK_INT(r->rank, 2);
    CHECK_INT(r->world_size, 4);
    check_group(r, "0", 4, "0 1 2 3");
    check_group(r, "tp a", 2, "2 3");
    check_group(r, "deep", 2, "3 1");
    check_group(r, "140538", 2, "0 3");
    check_group(r, "9", 2, "2 0");
    check_group(r, "late", 2, "1 3");
    check_group(r, "cut", 40, "");
    CHECK_INT(r->n_groups, 7);
    CHECK_INT(r->n_comms, 3);
    CHECK_STR(r->groups[r->comms[0].group].name, "tp a");
    CHECK_INT(t->notes[SYN_PYTORCH_ANOMALY_GROUP_CONFLICT].count, 0);
    CHECK_INT(t->notes[SYN_PYTORCH_ANOMALY_GROUP_UNKNOWN].count, 0);
    end_traces(t);
}

/* The list of ranks in the host trace wins. Contradictions are counted once per group. */
static void test_group_conflict(void) {
    traces *t = begin_traces();
    host_op(t, 3, 2, 1, "## process_group:init ##",
            "\"[{\\\"pg_name\\\": \\\"1\\\", \\\"ranks\\\": [0, 1], \\\"group_size\\\": 2}]\"", "",
            "");
    for (int id = 10; id < 30; id += 10) {
        host_op(t, id, 2, 1, "record_param_comms",
                "[" TENSOR("10", "4") "],35,[\"1\",\"\"],0,\"reduce\"", "", "");
        kernel(t, id, "ncclDevKernel_Reduce",
               id == 10 ? "\"Process Group Ranks\":\"[0, 2]\""
                        : "\"Process Group Ranks\":\"[0, 3]\"");
    }
    CHECK_OK(find(t, ""), t->err);
    check_group(&t->rank, "1", 2, "0 1");
    CHECK_INT(t->notes[SYN_PYTORCH_ANOMALY_GROUP_CONFLICT].count, 1);
    end_traces(t);
}

/* A call that does not name its group belongs to the only group of the rank. If the rank has
   several groups, the group of the call is unknown. */
static void test_group_unknown(void) {
    for (int n = 1; n < 3; n++) {
        traces *t = begin_traces();
        for (int i = 0; i < n; i++) {
            host_op(t, 10 + i, 2, 1, "record_param_comms",
                    i == 0 ? "[" TENSOR("10", "4") "],35,[\"1\",\"\"],0,\"reduce\""
                           : "[" TENSOR("10", "4") "],35,[\"2\",\"\"],0,\"reduce\"",
                    "", "");
        }
        host_op(t, 20, 2, 1, "c10d::broadcast_", "[" TENSOR("10", "4") "],\"<Object>\"", "", "");
        CHECK_OK(find(t, ""), t->err);
        CHECK_INT(t->rank.n_comms, n + 1);
        CHECK_INT(t->rank.comms[n].group, n == 1 ? 0 : SYN__PT_NONE);
        /* The traces list the ranks of no group, so every call counts. */
        CHECK_INT(t->notes[SYN_PYTORCH_ANOMALY_GROUP_UNKNOWN].count, n + 1);
        end_traces(t);
    }
}

/* ---- Damage ---- */

static void test_odd_inputs(void) {
    static const char *const inputs[] = {
        "",
        "[",
        "]",
        "{",
        "\\\"",
        "[[[[[[",
        "35",
        "\"allreduce\"",
        "[\"a\"],[\"b\",\"c\",\"d\"],\"send\"",
        "-1,-1,-1,-1,\"send\",-1,-1,-1,-1",
        "99999999999999999999,[\"x\",\"y\"],1e9,\"recv\",0.5,NaN",
        "[[1,2,3]],[true,false],[1,2],\"gather\",0,99999999999,99999999999"};
    static const char *const args[] = {
        "\"Seq\":-5,\"Group size\":-1,\"In msg nelems\":-7,\"dtype\":\"Float\"",
        "\"Process Group Ranks\":\"[1, x, -2\",\"Collective name\":null",
        "\"Process Group Ranks\":[[0],[1]],\"Process Group Name\":3",
        "\"Group size\":99999999999999,\"Process Group Name\":\"\""};
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
        for (size_t j = 0; j < sizeof args / sizeof args[0]; j++) {
            traces *t = one_call("", inputs[i], ATTR("pg_name", "7") ",{\"name\":3},[],4",
                                 "nccl:send ->", "ncclDevKernel_SendRecv", args[j]);
            CHECK_OK(find(t, ""), t->err);
            CHECK_MSG(t->rank.n_comms <= 2, "%zu %zu", i, j); /* damage may split the call */
            for (size_t c = 0; c < t->rank.n_comms; c++) CHECK(t->rank.comms[c].bytes > 0);
            end_traces(t);
        }
    }
}

static void fill_for_memory(traces *t) {
    host_op(t, 3, 2, 1, "## process_group:init ##",
            "\"[{\\\"pg_name\\\": \\\"1\\\", \\\"ranks\\\": [0, 1], \\\"backend_id\\\": 5}]\"", "",
            "");
    host_op(t, 10, 2, 1, "train", "", "", "");
    send_recv(t, 11, "c10d::recv_", RECORD_INPUTS(TENSOR("7", "4"), "recv", "1", "0", "1", "2"));
    send_recv(t, 13, "c10d::send", RECORD_INPUTS(TENSOR("5", "4"), "send", "1", "0", "1", "2"));
    host_op(t, 19, 10, 1, "nccl:coalesced", "", "", "");
    kernel(t, 19, "ncclDevKernel_SendRecv", "");
}

static syn_status find_both(void *arg, syn_error *err) {
    traces *t = arg;
    const syn_status status = find(t, "");
    *err = t->err;
    if (status != SYN_OK) syn__pt_rank_free(&t->rank);
    return status;
}

static void test_out_of_memory(void) {
    traces *t = begin_traces();
    fill_for_memory(t);
    CHECK(test_without_memory(find_both, t) > 0);
    CHECK_INT(t->rank.n_comms, 2);
    end_traces(t);
}

/* ---- Comparison with the reference converter ---- */

static int64_t attribute(const syn__et_node *node, const char *name) {
    for (size_t i = 0; i < node->n_attrs; i++) {
        if (syn__str_is(node->attrs[i].name, name)) return (int64_t)node->attrs[i].bits;
    }
    return -1;
}

/* Compares kinds and sizes with the communication nodes of a reference .et file, in the order of
   their ids. Returns the number of nodes that agree before the first difference. */
static size_t compare(const syn__pt_rank *r, const syn__file_text *et) {
    syn__et_decoder decoder = {0};
    syn__et_index index;
    syn_error err = {0};
    size_t n = 0;
    if (syn__et_index_open(&index, &decoder, "reference", et->data, et->bytes, true, &err) ==
        SYN_OK) {
        for (size_t i = 0; i < index.n_spans; i++) {
            const syn__str message = {index.spans[i].data, index.spans[i].bytes};
            syn__et_node node;
            if (syn__et_decode_node(&decoder, message, &node) != SYN_OK) break;
            if (node.type < SYN__ET_COMM_SEND_NODE) continue;
            const syn__pt_comm *c = n < r->n_comms ? &r->comms[n] : NULL;
            if (c == NULL || c->type != node.type || c->bytes != attribute(&node, "comm_size") ||
                c->collective != (int)attribute(&node, "comm_type"))
                break;
            n++;
        }
    }
    syn__et_index_close(&index);
    syn__et_decoder_free(&decoder);
    return n;
}

static void check_reference(const char *folder, const char *et_name, size_t n_comms) {
    const syn_pytorch_options options = {0};
    const char *host = shared_path("pytorch-traces/%s/host.0.json.gz", folder);
    const char *device = shared_path("pytorch-traces/%s/device.0.json.gz", folder);
    const char *et = shared_path("pytorch-traces/%s/%s", folder, et_name);
    syn_pytorch_note notes[SYN_PYTORCH_ANOMALIES] = {{0}};
    syn__file_text file;
    syn__pt_rank r;
    syn_error err = {0};
    CHECK_OK(syn__pt_rank_read(&r, host, device, &options, notes, &err), err);
    CHECK_OK(syn__pt_match(&r, &options, notes, &err), err);
    CHECK_OK(syn__pt_find_comms(&r, notes, &err), err);
    CHECK_OK(syn__file_text_open(&file, et, 0, &err), err);
    CHECK_INT(r.n_comms, n_comms);
    CHECK_INT(compare(&r, &file), n_comms);
    CHECK_INT(notes[SYN_PYTORCH_ANOMALY_GROUP_UNKNOWN].count, 0);
    syn__file_text_close(&file);
    syn__pt_rank_free(&r);
}

/* The numbers of communications were counted with etcheck.py. */
static void test_reference(void) {
#ifndef SYN_HAVE_ZLIB
    SKIP("built without zlib");
#endif
    if (!have_shared_data()) SKIP("no SYN_SHARED_DATA");
    check_reference("synth_allfeatures", "chakra_trace.0.et.gz", 24);
    check_reference("resnet_2gpu_rank0", "chakra_trace.0.et.gz", 21);
    check_reference("recursion_repro", "expected_with_raised_limit.0.et.gz", 194);
}

static const test_case cases[] = {
    {"gloo", test_gloo},
    {"host_only", test_host_only},
    {"group_lists", test_group_lists},
    {"group_conflict", test_group_conflict},
    {"group_unknown", test_group_unknown},
    {"odd_inputs", test_odd_inputs},
    {"out_of_memory", test_out_of_memory},
    {"reference", test_reference},
};

TEST_MAIN(cases)
