/* Implements et_sample.h: parses the rows of test graphs, and builds the two graphs that several
   tests share. */
#include "tests/support/et_sample.h"

#include "tests/support/graphs.h"
#include "tests/support/test.h"

static uint32_t et_parse_deps(const char *text, syn_dep *deps) {
    uint32_t n = 0;
    while (text != NULL && *text != '\0') {
        const char c = *text++;
        const syn_dep_class cls = c == 'd'   ? SYN_DEP_DATA
                                  : c == 'i' ? SYN_DEP_INPLACE
                                  : c == 's' ? SYN_DEP_STREAM
                                  : c == 'g' ? SYN_DEP_GROUP
                                             : SYN_DEP_CONTROL;
        deps[n++] = (syn_dep){(uint32_t)strtoul(text, (char **)&text, 10), cls};
        while (*text == ' ') text++;
    }
    return n;
}

syn_node et_node(const et_row *row, uint64_t id) {
    return (syn_node){
        .id = id,
        .kind = row->kind,
        .flags = row->flags,
        .stream = row->stream,
        .op = "op",
        .label = row->label != NULL ? row->label : "op",
        .scope = "",
        .flops = 100,
        .bytes_read = 3000,
        .bytes_written = 2000,
        .comm = row->kind == SYN_NODE_SEND   ? SYN_COMM_SEND
                : row->kind == SYN_NODE_RECV ? SYN_COMM_RECV
                                             : row->comm,
        .reduce = -1,
        .group = row->group,
        .comm_bytes = row->kind == SYN_NODE_COMPUTE ? 0 : 64,
        .peer = row->peer,
        .tag = row->tag,
        .root = -1,
        NO_TIMES,
    };
}

void et_add(syn_graph *g, uint32_t rank, const et_row *row, uint32_t *comm_index) {
    syn_dep deps[16];
    syn_error err = {0};
    syn_node node = et_node(row, g->ranks[rank].n_nodes + 1);
    node.deps = deps;
    node.n_deps = et_parse_deps(row->deps, deps);
    if (row->kind != SYN_NODE_COMPUTE) node.comm_index = (*comm_index)++;
    NEED_OK(syn_graph_add_node(g, rank, &node, &err), err);
}

syn_graph *et_empty(const int32_t *ranks, uint32_t n_ranks, int32_t world_size,
                    const syn_graph_group *groups, size_t n_groups) {
    syn_error err = {0};
    syn_graph *g;
    NEED_OK(syn_graph_new(&g, ranks, n_ranks, world_size, &err), err);
    for (size_t i = 0; i < n_groups; i++) NEED_OK(syn_graph_add_group(g, &groups[i], &err), err);
    return g;
}

syn_graph *et_graph(const et_row *rows, size_t n) {
    static const int32_t zero[] = {0}, pair[] = {0, 1}, all[] = {0, 1, 2, 3};
    const syn_graph_group groups[] = {
        {1, "tp0", pair, 2}, {2, "solo", zero, 1}, {3, "dp0", all, 4}};
    uint32_t comm_index = 0;
    syn_graph *g = et_empty(zero, 1, 4, groups, 3);
    for (size_t i = 0; i < n; i++) et_add(g, 0, &rows[i], &comm_index);
    return g;
}

/* One rank of et_pipeline. Two pipeline stages have two tensor-parallel ranks each: ranks 0 and 1
   send to ranks 2 and 3, for three microbatches. Computations are on stream 0, all-reduces on
   stream 1, messages on stream 2. A barrier and all-reduces across the stages follow at the end. */
static void et_pipeline_rank(syn_graph *g, uint32_t rank) {
    const bool first = rank < 2;
    const int32_t peer = first ? (int32_t)rank + 2 : (int32_t)rank - 2;
    const uint32_t tp = first ? 1 : 2, across = rank % 2 == 0 ? 3 : 4;
    uint32_t at = 0, tp_index = 0, message_index = 0, solo_index = 0, across_index = 0;
    uint32_t last[3] = {0, 0, 0};
    char deps[3][24];
    for (int m = 0; m < 3; m++) {
        const et_row recv = {
            .kind = SYN_NODE_RECV, .stream = 2, .peer = peer, .tag = m, .label = "recv"};
        if (!first) et_add(g, rank, &recv, &message_index);
        snprintf(deps[0], sizeof deps[0], "d%u", at);
        snprintf(deps[1], sizeof deps[1], "d%u", first ? at : at + 1);
        snprintf(deps[2], sizeof deps[2], "d%u", first ? at + 2 : at + 3);
        const et_row up = {.kind = SYN_NODE_COMPUTE, .deps = first ? NULL : deps[0], .label = "up"};
        const et_row reduce = {.kind = SYN_NODE_COLLECTIVE,
                               .stream = 1,
                               .deps = deps[1],
                               .group = tp,
                               .comm = SYN_COMM_ALL_REDUCE,
                               .label = "tp"};
        et_add(g, rank, &up, NULL);
        et_add(g, rank, &reduce, &tp_index);
        snprintf(deps[0], sizeof deps[0], "d%u", first ? at + 1 : at + 2);
        const et_row down = {.kind = SYN_NODE_COMPUTE, .deps = deps[0], .label = "down"};
        et_add(g, rank, &down, NULL);
        last[m] = first ? at + 2 : at + 3;
        const et_row send = {.kind = SYN_NODE_SEND,
                             .stream = 2,
                             .deps = deps[2],
                             .peer = peer,
                             .tag = m,
                             .label = "send"};
        if (first) et_add(g, rank, &send, &message_index);
        at += 4;
    }
    const et_row barrier = {.kind = SYN_NODE_COLLECTIVE, .group = 5, .comm = SYN_COMM_BARRIER};
    snprintf(deps[0], sizeof deps[0], "d%u", last[2]);
    const et_row solo = {.kind = SYN_NODE_COLLECTIVE,
                         .stream = 1,
                         .deps = deps[0],
                         .group = 6 + rank,
                         .comm = SYN_COMM_ALL_REDUCE};
    snprintf(deps[1], sizeof deps[1], "d%u", at + 1);
    const et_row join = {.kind = SYN_NODE_COLLECTIVE,
                         .stream = 1,
                         .deps = deps[1],
                         .group = across,
                         .comm = SYN_COMM_ALL_REDUCE,
                         .label = "embd"};
    et_add(g, rank, &barrier, &(uint32_t){0});
    et_add(g, rank, &solo, &solo_index);
    et_add(g, rank, &join, &across_index);
}

syn_graph *et_pipeline(void) {
    static const int32_t all[] = {0, 1, 2, 3}, even[] = {0, 2}, odd[] = {1, 3};
    const syn_graph_group groups[] = {
        {1, "tp0", all, 2},       {2, "tp1", all + 2, 2},   {3, "embd0", even, 2},
        {4, "embd1", odd, 2},     {5, "world", all, 4},     {6, "solo0", all, 1},
        {7, "solo1", all + 1, 1}, {8, "solo2", all + 2, 1}, {9, "solo3", all + 3, 1}};
    syn_graph *g = et_empty(all, 4, 4, groups, sizeof groups / sizeof groups[0]);
    syn_error err = {0};
    for (uint32_t r = 0; r < 4; r++) et_pipeline_rank(g, r);
    NEED_OK(syn_graph_verify(g, &err), err);
    return g;
}

/* One rank of et_overlap. The data dependencies of its two ranks leave the order of communication
   open, so a simulator with one communication slot deadlocks unless the writer adds dependencies.
   An all-reduce and an all-gather of one group are on different streams, and neither depends on the
   other. After them, rank 0 has a send, which waits for a computation, and another all-reduce,
   which could start immediately. Rank 1 joins this all-reduce only after it has received the
   message. Four computations have no dependencies. */
static void et_overlap_rank(syn_graph *g, uint32_t rank) {
    const bool sends = rank == 0;
    const et_row rows[] = {
        {.kind = SYN_NODE_COMPUTE, .label = "work"},
        {.kind = SYN_NODE_COLLECTIVE,
         .stream = 1,
         .deps = "d0",
         .group = 1,
         .comm = SYN_COMM_ALL_REDUCE},
        {.kind = SYN_NODE_COLLECTIVE, .stream = 3, .group = 1, .comm = SYN_COMM_ALL_GATHER},
        {.kind = SYN_NODE_COMPUTE, .deps = "d2", .label = "late"},
        {.kind = sends ? SYN_NODE_SEND : SYN_NODE_RECV,
         .stream = 2,
         .deps = sends ? "d3" : NULL,
         .peer = sends ? 1 : 0,
         .tag = 0},
        {.kind = SYN_NODE_COLLECTIVE,
         .stream = 1,
         .deps = sends ? NULL : "d4",
         .group = 1,
         .comm = SYN_COMM_ALL_REDUCE},
        {.kind = SYN_NODE_COMPUTE, .label = "free"},
        {.kind = SYN_NODE_COMPUTE, .label = "free"},
        {.kind = SYN_NODE_COMPUTE, .label = "free"},
        {.kind = SYN_NODE_COMPUTE, .label = "free"}};
    uint32_t message_index = 0, group_index = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const bool message = rows[i].kind == SYN_NODE_SEND || rows[i].kind == SYN_NODE_RECV;
        et_add(g, rank, &rows[i], message ? &message_index : &group_index);
    }
}

syn_graph *et_overlap(void) {
    static const int32_t pair[] = {0, 1};
    const syn_graph_group group = {1, "tp0", pair, 2};
    syn_graph *g = et_empty(pair, 2, 2, &group, 1);
    syn_error err = {0};
    for (uint32_t r = 0; r < 2; r++) et_overlap_rank(g, r);
    NEED_OK(syn_graph_verify(g, &err), err);
    return g;
}
