#include "tests/support/timeline_sample.h"

/* Two ranks: a computation of 3000 or 1000 ns, an all-reduce of 500 ns (rank 1 leaves it out if
   skip_one), a message of rank 0 to rank 1, and 100 ns more computation that depends on nothing. */
static syn_status simulated_rank(syn_graph *g, uint32_t r, bool with_times, bool skip_one,
                                 syn_error *err) {
    const syn_dep on_first = {0, SYN_DEP_CONTROL}, on_second = {1, SYN_DEP_CONTROL};
    syn_node n = text_node(1, "work");
    if (with_times) n.predicted_ns = r == 0 ? 3000 : 1000;
    SYN_TRY(syn_graph_add_node(g, r, &n, err));
    n = text_node(2, "reduce");
    n.kind = SYN_NODE_COLLECTIVE;
    n.comm = SYN_COMM_ALL_REDUCE;
    n.group = 1;
    n.stream = 1;
    n.deps = &on_first;
    n.n_deps = 1;
    if (with_times) n.predicted_ns = 500;
    if (skip_one && r == 1) n = text_node(2, "none");
    SYN_TRY(syn_graph_add_node(g, r, &n, err));
    n = text_node(3, r == 0 ? "give" : "take");
    n.kind = r == 0 ? SYN_NODE_SEND : SYN_NODE_RECV;
    n.comm = r == 0 ? SYN_COMM_SEND : SYN_COMM_RECV;
    n.peer = r == 0 ? 1 : 0;
    n.stream = 2;
    n.deps = &on_second;
    n.n_deps = r == 0;
    if (with_times) n.predicted_ns = 200;
    SYN_TRY(syn_graph_add_node(g, r, &n, err));
    n = text_node(4, "more");
    if (with_times) n.predicted_ns = 100;
    return syn_graph_add_node(g, r, &n, err);
}

syn_status simulated_graph(syn_graph **out, bool with_times, bool skip_one, syn_error *err) {
    static const int32_t ranks[2] = {0, 1};
    const syn_graph_group group = {1, "tp0", ranks, 2};
    SYN_TRY(syn_graph_new(out, ranks, 2, 2, err));
    SYN_TRY(syn_graph_add_group(*out, &group, err));
    for (uint32_t r = 0; r < 2; r++) SYN_TRY(simulated_rank(*out, r, with_times, skip_one, err));
    return syn_graph_verify(*out, err);
}
