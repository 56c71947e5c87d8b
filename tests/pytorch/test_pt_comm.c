/* Tests how communication that kernels run is found in PyTorch's traces: its kind, bytes, group and
   peer. The traces are built call by call (pt_calls_json.h), with the names and args that versions
   of PyTorch write. test_pt_comm_host.c tests communication on host ops, test_pt_comm_names.c tests
   names. */
#include "tests/support/test.h"

#include "export/chakra/wire/et_node.h"
#include "tests/support/pt_calls_json.h"

/* ---- One call ---- */

#define KERNEL_ARGS                                                                                \
    "\"Collective name\":\"_allgather_base\",\"In msg nelems\":1000,\"Out msg nelems\":4000,"      \
    "\"Group size\":4,\"dtype\":\"BFloat16\",\"In split size\":\"[]\",\"Out split size\":\"[]\","  \
    "\"Process Group Name\":\"7\",\"Process Group Description\":\"mesh_tp\",\"Process Group Ranks" \
    "\":\"[4, 5, 6, 7]\",\"Seq\":12,\"Comms Id\":123"

/* PyTorch 2.9 records all properties in the args of the kernel, which win over all other
   sources. */
static void test_known_from_kernel(void) {
    traces *t = one_call("c10d::allreduce_",
                         RECORD_INPUTS(TENSOR("10", "4"), "allreduce", "0", "0", "1", "2"),
                         ATTR("collective_name", "\"allreduce\"") "," ATTR("in_msg_nelems", "10"),
                         "nccl:all_reduce", "ncclDevKernel_Generic", KERNEL_ARGS);
    CHECK_OK(find(t, ""), t->err);
    const syn__pt_rank *r = &t->rank;
    CHECK_INT(r->n_comms, 1);
    const syn__pt_comm *c = &r->comms[0];
    CHECK_INT(r->ops[c->op].kind, SYN_PYTORCH_OP_KERNEL);
    CHECK_INT(r->ops[c->op].comm, 0);
    CHECK_INT(c->type, SYN__ET_COMM_COLL_NODE);
    CHECK_INT(c->collective, 2);
    CHECK_INT(c->bytes, 2000);
    CHECK_INT(c->sequence, 12);
    CHECK_INT(c->peer, -1);
    CHECK_INT(r->n_groups, 1);
    CHECK_STR(r->groups[0].name, "7");
    CHECK_STR(r->groups[0].desc, "mesh_tp");
    CHECK_INT(r->groups[0].n_ranks, 4);
    CHECK_INT(r->groups[0].ranks[0], 4);
    CHECK_INT(r->groups[0].ranks[3], 7);
    CHECK_INT(t->notes[SYN_PYTORCH_ANOMALY_UNKNOWN_COLLECTIVE].count, 0);
    end_traces(t);
}

typedef struct call_row {
    const char *api, *inputs, *attrs, *nccl, *kernel, *args;
    int collective, unknown;
    int64_t bytes;
} call_row;

static void check_row(const call_row *row, int i) {
    traces *t = one_call(row->api, row->inputs, row->attrs, row->nccl, row->kernel, row->args);
    CHECK_OK(find(t, ""), t->err);
    const syn__pt_rank *r = &t->rank;
    CHECK_MSG(r->n_comms == 1, "row %d: %zu", i, r->n_comms);
    CHECK_MSG(r->comms[0].collective == row->collective, "row %d: %d", i, r->comms[0].collective);
    CHECK_MSG(r->comms[0].bytes == row->bytes, "row %d: %lld", i, (long long)r->comms[0].bytes);
    CHECK_MSG((int)t->notes[SYN_PYTORCH_ANOMALY_UNKNOWN_COLLECTIVE].count == row->unknown, "row %d",
              i);
    CHECK_MSG((t->notes[SYN_PYTORCH_ANOMALY_SIZE_UNKNOWN].count != 0) ==
                  (row->bytes == 1 && row->collective != 9),
              "row %d", i);
    end_traces(t);
}

/* If a source does not record the kind or the size, they come from the next best source. */
static void test_sources(void) {
    static const char *const generic = "ncclDevKernel_Generic", *const reduce =
                                                                    "ncclDevKernel_Reduce_f32";
    const call_row rows[] = {
        /* The attributes of record_param_comms win over its inputs. */
        {"c10d::reduce_", RECORD_INPUTS(TENSOR("10", "4"), "broadcast", "0", "0", "1", "2"),
         ATTR("collective_name",
              "\"allreduce\"") "," ATTR("dtype", "\"Half\"") "," ATTR("in_msg_nelems", "30"),
         "nccl:reduce", reduce, "", 0, 0, 60},
        /* The inputs of record_param_comms win over the names of the enclosing ops. */
        {"c10d::reduce_", RECORD_INPUTS(TENSOR("10", "4"), "broadcast", "0", "0", "1", "2"), "",
         "nccl:reduce", reduce, "", 5, 0, 40},
        /* The names of the other ops of the call win over the name of the kernel. */
        {"c10d::allreduce_", TENSOR("10", "4") ",[1,\"default_pg\"]", "", "nccl:all_reduce", reduce,
         "", 0, 0, 40},
        {"", "", "", "nccl:all_reduce", reduce, "", 0, 0, 40},
        {"", "", "", "", reduce, "", 1, 0, 1},
        {"", "", "", "", "ncclDevKernel_SendRecv", "", 6, 0, 1},
        {"", "", "", "", generic, "", -1, 1, 1},
        {"c10d::allreduce_", "", "", "", generic, "", 0, 0, 1},
        {"", RECORD_INPUTS(TENSOR("10", "4"), "all_shuffle", "0", "0", "1", "2"), "", "", generic,
         "", -1, 1, 40},
        /* Newer traces record the sequence number with a flag. */
        {"", "[" TENSOR("10", "4") "],[35,false],[\"0\",\"default_pg\"],0,\"reduce\",[],[],0,1,2",
         "", "", generic, "", 1, 0, 40},
        /* Older traces record a number instead of the name of the group. */
        {"", "[" TENSOR("10", "4") "],35,82149104,0,\"all_gather\",[],[],2", "", "", generic, "", 2,
         0, 40},
        /* NCCL runs an all-to-all as sends, and a barrier as an all-reduce. */
        {"c10d::alltoall_base_", RECORD_INPUTS(TENSOR("10", "4"), "all_to_all", "0", "0", "1", "2"),
         "", "nccl:all_to_all", "ncclDevKernel_SendRecv", "", 6, 0, 40},
        {"c10d::barrier", RECORD_INPUTS("", "barrier", "0", "0", "1", "2"), "", "",
         "ncclDevKernel_AllReduce_Sum_f32", "", 9, 0, 1},
        /* Sizes from the args of the kernel or, if these are incomplete, from tensors. */
        {"", RECORD_INPUTS(TENSOR("10", "4"), "allreduce", "0", "0", "1", "2"), "", "", generic,
         "\"In msg nelems\":100,\"dtype\":\"Mystery\"", 0, 0, 40},
        {"", RECORD_INPUTS("\"<UNKNOWN>\"", "allreduce", "0", "0", "1", "2"), "", "", generic, "",
         0, 0, 1},
        {"", RECORD_INPUTS("", "_allgather_base", "0", "0", "1", "4"), "", "", generic,
         "\"In msg nelems\":0,\"Out msg nelems\":100,\"dtype\":\"Float\",\"Group size\":4", 2, 0,
         100},
        {"", RECORD_INPUTS("", "reduce_scatter", "0", "0", "1", "4"), "", "", generic,
         "\"Out msg nelems\":100,\"dtype\":\"Float\"", 7, 0, 1600},
        {"", RECORD_INPUTS("", "scatter", "0", "0", "1", "4"), "", "", generic,
         "\"In msg nelems\":0,\"Out msg nelems\":100,\"dtype\":\"Float\"", 4, 0, 400},
        {"", RECORD_INPUTS("", "all_to_allv", "0", "0", "1", "4"), "", "", generic,
         "\"In msg nelems\":0,\"Out msg nelems\":100,\"dtype\":\"Float\"", 6, 0, 1},
        {"", RECORD_INPUTS("", "allreduce", "0", "0", "1", "4"), "", "", generic,
         "\"In msg nelems\":9223372036854775807,\"dtype\":\"Double\"", 0, 0,
         1}, /* an impossible size is unknown */
        {"", RECORD_INPUTS("", "allreduce", "0", "0", "1", "4"), "", "", generic,
         "\"In msg nelems\":5000000000,\"dtype\":\"Float8_e4m3fn\"", 0, 0, 5000000000},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) check_row(&rows[i], (int)i);
}

/* The first kernel is launched by nccl:X, and record_param_comms is within nccl:X instead of around
   it; all of them are one call. Of several kernels in a call, only one is the communication. A wait
   and the creation of a group are no communication. A kernel with a collective name in its args is
   one, whatever its own name. */
static void test_one_node_a_call(void) {
    traces *t = begin_traces();
    host_op(t, 10, 2, 1, "c10d::allreduce_", "", "", "");
    host_op(t, 11, 10, 1, "nccl:all_reduce", TENSOR("10", "4"), "", "");
    host_op(t, 12, 11, 1, "record_param_comms", TENSOR("10", "4") ",[1,\"default_pg\"]", "",
            ATTR("pg_name", "\"1\""));
    kernel(t, 11, "ncclDevKernel_AllReduce_Sum_f32", "");
    host_op(t, 20, 2, 1, "c10d::reduce_scatter_", "", "", "");
    host_op(t, 21, 20, 1, "record_param_comms",
            RECORD_INPUTS(TENSOR("20", "4"), "reduce_scatter", "0", "0", "1", "2"), "", "");
    host_op(t, 22, 21, 1, "record_param_comms",
            RECORD_INPUTS(TENSOR("5", "4"), "_reduce_oop", "0", "0", "1", "2"), "", "");
    kernel(t, 21, "elementwise_kernel", "\"Collective name\":\"reduce_scatter\"");
    kernel(t, 21, "ncclDevKernel_Reduce_Sum_f32", "");
    kernel(t, 22, "ncclDevKernel_Reduce_Sum_f32", "");
    host_op(t, 30, 2, 1, "record_param_comms", "36,[\"\",\"\"],0,\"wait\",[],[],-1,-1,1", "", "");
    host_op(t, 31, 2, 1, "record_param_comms", "0,[\"0\",\"\"],0,\"init\",[],[],-1,-1,1", "", "");
    host_op(t, 32, 2, 1, "FSDP::all_gather", "", "", "");
    host_op(t, 40, 2, 1, "record_param_comms",
            RECORD_INPUTS(TENSOR("30", "4"), "broadcast", "0", "0", "1", "2"), "", "");
    kernel(t, 40, "copy_engine_kernel", "\"Collective name\":\"broadcast\"");
    CHECK_OK(find(t, ""), t->err);
    const syn__pt_rank *r = &t->rank;
    CHECK_INT(r->n_comms, 3);
    CHECK_INT(r->comms[0].collective, 0);
    CHECK_INT(r->comms[0].bytes, 40);
    CHECK_STR(r->groups[r->comms[0].group].name, "1");
    CHECK_INT(r->comms[1].collective, 7);
    CHECK_INT(r->comms[1].bytes, 80);
    CHECK(syn__str_is(syn__pt_op_name(r, &r->ops[r->comms[1].op]), "ncclDevKernel_Reduce_Sum_f32"));
    CHECK_INT(r->comms[2].collective, 5);
    CHECK_INT(r->ops[r->comms[2].op].kind, SYN_PYTORCH_OP_KERNEL);
    size_t marked = 0;
    for (size_t i = 0; i < r->n_ops; i++) marked += r->ops[i].comm != SYN__PT_NONE;
    CHECK_INT(marked, 3);
    end_traces(t);
}

/* ---- Messages ---- */

typedef struct message_row {
    const char *inputs, *nccl, *args;
    int type, peer;
} message_row;

static void test_peers(void) {
    static const char *const ranks =
        "\"Process Group Name\":\"5\",\"Process Group Ranks\":\"[2, 6, 9]\"";
    char args[4][256];
    snprintf(args[0], sizeof args[0], "%s,\"Dst Rank\":6,\"Rank\":1", ranks);
    snprintf(args[1], sizeof args[1], "%s,\"Src Rank\":9,\"Dst Rank\":2", ranks);
    const message_row rows[] = {
        {RECORD_INPUTS(TENSOR("9", "4"), "send", "1", "-1", "-1", "3"), "", args[0], 5, 6},
        {RECORD_INPUTS(TENSOR("9", "4"), "recv", "2", "-1", "-1", "3"), "", args[1], 6, 9},
        {RECORD_INPUTS(TENSOR("9", "4"), "send", "2", "-1", "-1", "3"), "nccl:send 1->0", ranks, 5,
         9},
        {"", "nccl:send 1->0", ranks, 5, 2},
        {"", "nccl:recv 1<-2", ranks, 6, 9},
        {"", "nccl:recv 1<-3", ranks, 6, -1},
        {RECORD_INPUTS(TENSOR("9", "4"), "send", "1", "4", "8", "3"), "", "", 5, 12},
        {RECORD_INPUTS(TENSOR("9", "4"), "recv", "-1", "0", "1", "2"), "", "", 6, -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        traces *t =
            one_call("", rows[i].inputs, "", rows[i].nccl, "ncclDevKernel_SendRecv", rows[i].args);
        CHECK_OK(find(t, ""), t->err);
        CHECK_MSG(t->rank.n_comms == 1, "row %zu", i);
        const syn__pt_comm *c = &t->rank.comms[0];
        CHECK_MSG((int)c->type == rows[i].type && c->collective == -1, "row %zu", i);
        CHECK_MSG(c->peer == rows[i].peer, "row %zu: %d", i, c->peer);
        CHECK_INT(c->bytes, *rows[i].inputs != '\0' ? 36 : 40);
        CHECK_INT(t->notes[SYN_PYTORCH_ANOMALY_PEER_UNKNOWN].count, rows[i].peer < 0);
        CHECK_INT(t->notes[SYN_PYTORCH_ANOMALY_UNKNOWN_COLLECTIVE].count, 0);
        end_traces(t);
    }
}

/* Calls batch_isend_irecv twice, each time for three messages with both neighbours. One kernel runs
   all messages of a batch. It is launched at the end of the batch; in the second batch, this launch
   is outside of all ops. After the batches, one kernel runs a group of two all-gathers. */
static void test_batches(void) {
    traces *t = begin_traces();
    host_op(t, 10, 2, 1, "train", "", "", "");
    for (int step = 0; step < 2; step++) {
        const int id = 11 + 10 * step;
        send_recv(t, id, "c10d::recv_",
                  RECORD_INPUTS(TENSOR("7", "4"), "recv", "2", "0", "1", "4"));
        send_recv(t, id + 2, "c10d::send",
                  RECORD_INPUTS(TENSOR("5", "4"), "send", "0", "0", "1", "4"));
        send_recv(t, id + 4, "c10d::recv_",
                  RECORD_INPUTS(TENSOR("8", "4"), "recv", "0", "0", "1", "4"));
        if (step == 0) host_op(t, id + 8, 10, 1, "nccl:coalesced", "", "", "");
        kernel(t, id + 8, "ncclDevKernel_SendRecv", /* args describe one message at most */
               "\"Collective name\":\"recv\",\"In msg nelems\":999,\"dtype\":\"Float\"");
    }
    send_recv(t, 40, "c10d::_allgather_base_",
              RECORD_INPUTS(TENSOR("3", "4"), "_allgather_base", "1", "0", "1", "4"));
    send_recv(t, 42, "c10d::_allgather_base_",
              RECORD_INPUTS(TENSOR("4", "4"), "_allgather_base", "1", "0", "1", "4"));
    host_op(t, 44, 10, 1, "nccl:coalesced", "", "", "");
    kernel(t, 44, "ncclDevKernel_AllGather_RING_LL", "");
    kernel(t, 44, "ncclDevKernel_AllGather_RING_LL", ""); /* a second kernel of these calls */
    CHECK_OK(find(t, ""), t->err);
    const syn__pt_rank *r = &t->rank;
    CHECK_INT(r->n_comms, 8);
    static const int types[] = {5, 5, 7, 6, 6, 6, 6, 7}, peers[] = {0, 0, -1, 2, 0, 2, 0, -1};
    static const int64_t bytes[] = {20, 20, 12, 28, 32, 28, 32, 16};
    for (size_t i = 0; i < 8; i++) {
        const syn__pt_comm *c = &r->comms[i];
        const syn__pt_op *op = &r->ops[c->op];
        CHECK_INT(c->type, types[i]);
        CHECK_INT(c->peer, peers[i]);
        CHECK_INT(c->bytes, bytes[i]);
        CHECK_INT(op->kind, SYN_PYTORCH_OP_KERNEL);
        CHECK_INT(op->comm, i);
        CHECK_INT(op->wall_ns, i < 3 ? 4000 : 0);
    }
    /* The further ops of a kernel have its start, track and parent, and higher indices. */
    CHECK_INT(r->ops[r->comms[3].op].start_ns, r->ops[r->comms[0].op].start_ns);
    CHECK_INT(r->ops[r->comms[5].op].start_ns, r->ops[r->comms[1].op].start_ns);
    CHECK_INT(r->ops[r->comms[3].op].track, r->ops[r->comms[0].op].track);
    CHECK_INT(r->ops[r->comms[3].op].parent, r->ops[r->comms[0].op].parent);
    end_traces(t);
}

/* The launch of the kernel is not recorded, so an op is assigned by time. If the call of that op
   has the kind of the kernel, the kernel runs this call. Otherwise the kernel is a communication of
   its own, whose kind follows from its name and whose size is unknown. */
static void test_by_time(void) {
    for (int same = 0; same < 2; same++) {
        traces *t = one_call("c10d::allreduce_",
                             RECORD_INPUTS(TENSOR("10", "4"), "allreduce", "0", "0", "1", "2"), "",
                             "", "", "");
        put(t->device, &t->n_device,
            ",{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclDevKernel_%s_RING_LL\",\"pid\":0,"
            "\"tid\":7,\"ts\":113,\"dur\":4,\"args\":{\"device\":0,\"stream\":7}}",
            same ? "AllReduce_Sum_f32" : "AllGather");
        CHECK_OK(find(t, ""), t->err);
        const syn__pt_rank *r = &t->rank;
        const syn__pt_comm *last = &r->comms[r->n_comms - 1];
        CHECK_INT(t->notes[SYN_PYTORCH_ANOMALY_TIME_ONLY].count, 1);
        CHECK_INT(r->n_comms, same ? 1 : 2);
        CHECK_INT(r->comms[0].collective, 0);
        CHECK_INT(r->comms[0].bytes, 40);
        CHECK_INT(r->ops[last->op].kind, SYN_PYTORCH_OP_KERNEL);
        CHECK_INT(last->collective, same ? 0 : 2);
        CHECK_INT(last->bytes, same ? 40 : 1);
        CHECK_INT(t->notes[SYN_PYTORCH_ANOMALY_SIZE_UNKNOWN].count, !same);
        end_traces(t);
    }
}

static const test_case cases[] = {
    {"told_by_kernel", test_known_from_kernel},
    {"sources", test_sources},
    {"one_node_a_call", test_one_node_a_call},
    {"peers", test_peers},
    {"batches", test_batches},
    {"by_time", test_by_time},
};

TEST_MAIN(cases)
