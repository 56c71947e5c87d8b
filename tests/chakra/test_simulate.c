/* Tests the simulation of trace sets as a C function. test_simulate_tool.py compares its results
   with a second simulator and with ASTRA-sim. */
#include "export/simulate.h"

#include "syntorch/base/memory.h"
#include "syntorch/hardware/hardware.h"
#include "tests/support/et_set.h"
#include "tests/support/files.h"
#include "tests/support/test.h"

static const char network[] = "topology: [ Ring ]\nnpus_count: [ 2 ]\nbandwidth: [ 50 ]\n"
                              "latency: [ 500 ]\n";
static const char machine[] = "{\"local-mem-bw\": 1600, \"endpoint-delay\": 10}";

/* Writes the files of ranks 0 and 1, and returns their prefix. */
static const char *write_set(const et_set *s) {
    for (int rank = 0; rank < 2; rank++) {
        syn__buf bytes = set_bytes(s, rank);
        put_file(rank == 0 ? "s.0.et" : "s.1.et", bytes.data, bytes.bytes);
        syn__buf_free(&bytes);
    }
    put_file("s.comm_group.json", s->groups, strlen(s->groups));
    put_file("network.yml", network, sizeof network - 1);
    put_file("system.json", machine, sizeof machine - 1);
    return in_folder("s");
}

static syn_simulate_options options_with(char paths[2][1024], bool on_machine) {
    snprintf(paths[0], 1024, "%s", in_folder("network.yml"));
    snprintf(paths[1], 1024, "%s", in_folder("system.json"));
    return (syn_simulate_options){.network = on_machine ? paths[0] : NULL,
                                  .system = on_machine ? paths[1] : NULL,
                                  .traffic = true,
                                  .critical_path = true,
                                  .threads = 1};
}

/* Both ranks do the same, except that one sends and the other receives. */
static void clean_set(void) {
    syn_error err = {0};
    char paths[2][1024];
    const et_set s = set_clean();
    const char *prefix = write_set(&s);
    for (int on_machine = 0; on_machine < 2; on_machine++) {
        syn_simulation sim;
        const syn_simulate_options how = options_with(paths, on_machine != 0);
        CHECK_OK(syn_simulate(&sim, &prefix, 1, &how, &err), err);
        CHECK_INT(sim.n_ranks, 2);
        CHECK_INT(sim.n_distinct, 2);
        CHECK_INT(sim.n_nodes, 16);
        CHECK_INT(sim.n_run, 16);
        CHECK(sim.deadlock == NULL);
        CHECK_INT(sim.n_absent, 0);
        CHECK((sim.end_ns > 0) == (on_machine != 0)); /* the traces have no times */
        CHECK_INT(sim.n_groups, 4);                   /* three groups and the message */
        CHECK(sim.groups[3].name == NULL);
        CHECK_INT(sim.groups[3].bytes, 16);
        CHECK_INT(sim.n_pairs, 2);
        CHECK_INT(sim.pairs[0].from, 0);
        /* of each all-reduce and reduce-scatter half of the ring's bytes, and the message */
        CHECK(sim.pairs[0].bytes - sim.pairs[1].bytes == 16);
        CHECK(sim.n_path > 0);
        CHECK_INT(sim.path[0].start_ns, 0);
        CHECK_INT(sim.path[sim.n_path - 1].start_ns + sim.path[sim.n_path - 1].ns, sim.end_ns);
        syn_simulation_free(&sim);
    }
}

typedef struct simulated {
    const char *prefix;
    const syn_simulate_options *how;
} simulated;

static syn_status simulate(void *arg, syn_error *err) {
    const simulated *of = arg;
    syn_simulation sim;
    const syn_status s = syn_simulate(&sim, &of->prefix, 1, of->how, err);
    syn_simulation_free(&sim);
    return s;
}

static syn_status expand(void *arg, syn_error *err) {
    const simulated *of = arg;
    syn_expand_options how = {.algorithm = SYN_EXPAND_HIERARCHICAL, .node_ranks = 1};
    syn_status s = SYN_OK;
    syn_expanded done;
    syn_sink *sink;
    SYN_TRY(syn_expand_set(&done, of->prefix, in_folder("expanded"), &how, err));
    for (int binary = 0; binary < 2 && s == SYN_OK; binary++) {
        how.binary = binary != 0;
        SYN_TRY(syn_sink_open_file(&sink, in_folder("s.goal"), err));
        s = syn_export_goal(&done, of->prefix, sink, &how, err);
        const syn_status closed = syn_sink_close(sink, s == SYN_OK, err);
        if (s == SYN_OK) s = closed;
    }
    return s;
}

static syn_status compare(void *arg, syn_error *err) {
    const simulated *of = arg;
    syn_set_differences d;
    const syn_status s = syn_set_compare(&d, of->prefix, of->prefix, 0, err);
    syn_set_differences_free(&d);
    return s;
}

static void no_memory_elsewhere(void) {
    char prefix[1024];
    const et_set s = set_clean();
    simulated of = {prefix, NULL};
    snprintf(prefix, sizeof prefix, "%s", write_set(&s));
    CHECK(test_without_memory(expand, &of) > 0);
    CHECK(test_without_memory(compare, &of) > 0);
}

static void no_memory_for_another_machine(void) {
    static syn_hardware from, to;
    syn_error err = {0};
    const et_set s = set_clean();
    const syn_simulate_options how = {
        .from = &from, .to = &to, .dtype = SYN_DTYPE_COUNT, .threads = 1};
    simulated of = {write_set(&s), &how};
    CHECK_OK(syn_hardware_load(&from, "a100-80g", NULL, &err), err);
    CHECK_OK(syn_hardware_load(&to, "h100", NULL, &err), err);
    CHECK(test_without_memory(simulate, &of) > 0);
}

static void no_memory(void) {
    char paths[2][1024];
    et_set s = set_clean();
    for (int i = 0; i < 4; i++) {
        if (i == 2) s.nodes[0][0].ctrl[s.nodes[0][0].n_ctrl++] = 8; /* a cycle: a deadlock */
        const syn_simulate_options how = options_with(paths, i % 2 != 0);
        simulated of = {write_set(&s), &how};
        CHECK(test_without_memory(simulate, &of) > 0);
    }
}

static const test_case cases[] = {{"clean_set", clean_set},
                                  {"no_memory", no_memory},
                                  {"no_memory_elsewhere", no_memory_elsewhere},
                                  {"no_memory_for_another_machine", no_memory_for_another_machine}};

TEST_MAIN(cases)
