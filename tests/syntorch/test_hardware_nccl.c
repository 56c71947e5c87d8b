/* Compares the predicted times of collectives on the built-in machines with published measurements
   of NCCL. */
#include <stdlib.h>

#include "tests/support/collective_times.h"
#include "tests/support/test.h"

/* NCCL's all-reduce in place on 2 to 8 A100 of one node, in microseconds for 1, 4, 16, 64 and 256
   MiB and 1 GiB. The times were published with vTrain (data/ of VIA-Research/vTrain). */
static void nccl_all_reduce_on_a100(void) {
    static const int32_t ranks[] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const struct {
        uint32_t gpus;
        double us[6];
    } measured[] = {{2, {45.1, 60.3, 129.4, 404, 1454, 5453}},
                    {3, {63.5, 78.2, 151.2, 499, 1786, 6761}},
                    {4, {52.7, 75.8, 177.8, 541, 1928, 7276}},
                    {6, {73.7, 80.1, 198.9, 560, 2117, 7888}},
                    {8, {92.2, 94.0, 231, 580, 2158, 8196}}};
    syn_hardware hw;
    syn_error err = {0};
    CHECK_OK(syn_hardware_load(&hw, "a100-80g+pytorch-eager", NULL, &err), err);
    double sum = 0;
    for (size_t i = 0; i < 5; i++)
        for (int j = 0; j < 6; j++) {
            const uint64_t bytes = (uint64_t)1 << (20 + 2 * j);
            const double ns =
                collective_ns(&hw, SYN_COMM_ALL_REDUCE, bytes, ranks, measured[i].gpus);
            const double off = fabs(ns / (measured[i].us[j] * 1e3) - 1);
            CHECK_MSG(off <= 0.5, "%u GPUs, %llu bytes: %g, measured %g us", measured[i].gpus,
                      (unsigned long long)bytes, ns / 1e3, measured[i].us[j]);
            sum += off;
        }
    CHECK_MSG(sum / 30 <= 0.08, "%g", sum / 30);
}

/* The in-place all-reduce of nccl-tests on 8 H100 of one node, for sizes from 1 KiB to 1 GiB that
   double each time. The first row is AWS's, in microseconds. The second is Azure's ND H100 v5 in
   GB/s of bus bandwidth, for 1 MiB and more (its AI-benchmarking-guide, NCCL 2.18.5); below 1 MiB,
   Azure takes twice as long as AWS. */
static void nccl_all_reduce_on_h100(void) {
    static const int32_t ranks[] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const double aws[] = {15.61, 15.9,  16.06, 16.2,  16.78,  18.09,  18.26,
                                 18.57, 20.13, 20.96, 28.37, 43.39,  55.0,   83.22,
                                 123.4, 198.3, 326.5, 592.1, 1121.2, 2166.4, 4255.4};
    static const double azure[] = {43.70,  81.93,  128.73, 172.13, 234.45, 295.53,
                                   361.78, 400.61, 423.38, 438.46, 466.35};
    enum { SIZES = sizeof aws / sizeof aws[0], LARGE = sizeof azure / sizeof azure[0] };
    syn_hardware hw;
    syn_error err = {0};
    CHECK_OK(syn_hardware_load(&hw, "h100+pytorch-eager", NULL, &err), err);
    double off[2] = {0, 0};
    for (int i = 0; i < SIZES; i++) {
        const uint64_t bytes = (uint64_t)1024 << i;
        const int large = i - (SIZES - LARGE);
        const double ns = collective_ns(&hw, SYN_COMM_ALL_REDUCE, bytes, ranks, 8);
        off[0] += fabs(ns / (aws[i] * 1e3) - 1);
        if (large >= 0) off[1] += fabs(ns / (2.0 * 7 / 8 * (double)bytes / azure[large]) - 1);
    }
    CHECK_MSG(off[0] / SIZES <= 0.05 && off[1] / LARGE <= 0.06, "%g, %g", off[0] / SIZES,
              off[1] / LARGE);
}

/* The same for less than 1 MiB on 8 A100 (40 GB), in microseconds, from the tutorials of Oracle's
   cloud. */
static void small_all_reduces_on_a100(void) {
    static const int32_t ranks[] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const double us[] = {32.17, 32.24, 32.20, 32.14, 32.20,
                                32.20, 34.20, 37.47, 44.01, 57.54};
    syn_hardware hw;
    syn_error err = {0};
    CHECK_OK(syn_hardware_load(&hw, "a100-80g+pytorch-eager", NULL, &err), err);
    double sum = 0;
    for (int i = 0; i < 10; i++)
        sum += fabs(collective_ns(&hw, SYN_COMM_ALL_REDUCE, (uint64_t)1024 << i, ranks, 8) /
                        (us[i] * 1e3) -
                    1);
    CHECK_MSG(sum / 10 <= 0.09, "%g", sum / 10);
}

/* The all-reduce of nccl-tests across nodes, in microseconds. Sources, in the order of the rows: 16
   nodes of 8 A100: CoreWeave (README of its nccl-tests, NCCL 2.16). 32 nodes of 8 A100: issue 652
   of NVIDIA/nccl. 2 nodes of 8 A100: Oracle. 2 nodes of 8 H100: a DGX (three rows) and Oracle (the
   last row). */
static void nccl_all_reduce_across_nodes(void) {
    static int32_t ranks[256];
    static const struct {
        const char *machine;
        uint32_t gpus;
        uint64_t bytes;
        double us, off;
    } measured[] = {
        {"a100-80g+pytorch-eager", 128, 1024, 56.74, 0.1},
        {"a100-80g+pytorch-eager", 128, 65536, 90.06, 0.25},
        {"a100-80g+pytorch-eager", 128, 1048576, 143.4, 0.1},
        {"a100-80g+pytorch-eager", 128, 16777216, 447.8, 0.25},
        {"a100-80g+pytorch-eager", 128, 1073741824, 18266, 0.37}, /* this network is slower */
        {"a100-80g+pytorch-eager", 256, 128, 63.2, 0.1},
        {"a100-80g+pytorch-eager", 16, 1024, 38, 0.1},
        {"h100+pytorch-eager", 16, 1024, 39.56, 0.05},
        {"h100+pytorch-eager", 16, 4096, 40.82, 0.05},
        {"h100+pytorch-eager", 16, 1073741824, 4511.2, 0.05},
        {"h100+pytorch-eager", 16, 8589934592, 34719, 0.05},
    };
    for (int32_t i = 0; i < 256; i++) ranks[i] = i;
    for (size_t i = 0; i < sizeof measured / sizeof measured[0]; i++) {
        syn_hardware hw;
        syn_error err = {0};
        CHECK_OK(syn_hardware_load(&hw, measured[i].machine, NULL, &err), err);
        const double us =
            collective_ns(&hw, SYN_COMM_ALL_REDUCE, measured[i].bytes, ranks, measured[i].gpus) /
            1e3;
        CHECK_MSG(fabs(us / measured[i].us - 1) <= measured[i].off, "%s, %u ranks, %llu bytes: %g",
                  measured[i].machine, measured[i].gpus, (unsigned long long)measured[i].bytes, us);
    }
}

/* Collectives other than all-reduce, with 512 MiB on 2, 4 and 8 GPUs of one node, in microseconds
   (systems/data of ai-dynamo/aiconfigurator, Apache-2.0; NCCL 2.27 and 2.29). */
static void other_collectives_of_a_node(void) {
    static const int32_t ranks[] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const struct {
        const char *machine;
        syn_comm_kind comm;
        double us[3], off;
    } measured[] = {
        {"a100-80g+pytorch-eager", SYN_COMM_ALL_GATHER, {1789.8, 2102.0, 2288.0}, 0.16},
        {"a100-80g+pytorch-eager", SYN_COMM_REDUCE_SCATTER, {1611.8, 1982.3, 2207.1}, 0.06},
        {"a100-80g+pytorch-eager", SYN_COMM_ALL_TO_ALL, {1635.3, 2065.7, 2313.5}, 0.08},
        {"h100+pytorch-eager", SYN_COMM_ALL_GATHER, {1038.6, 1267.5, 1401.5}, 0.1},
        {"h100+pytorch-eager", SYN_COMM_REDUCE_SCATTER, {1077.9, 1299.8, 1399.4}, 0.12},
        {"h100+pytorch-eager", SYN_COMM_ALL_TO_ALL, {958.9, 1397.0, 1490.4}, 0.13},
    };
    for (size_t i = 0; i < sizeof measured / sizeof measured[0]; i++) {
        syn_hardware hw;
        syn_error err = {0};
        CHECK_OK(syn_hardware_load(&hw, measured[i].machine, NULL, &err), err);
        for (uint32_t k = 0; k < 3; k++) {
            const uint32_t n = 2u << k;
            const uint64_t whole = (uint64_t)1 << 29,
                           own = measured[i].comm == SYN_COMM_ALL_GATHER ? whole / n : whole;
            const double us = collective_ns(&hw, measured[i].comm, own, ranks, n) / 1e3;
            CHECK_MSG(fabs(us / measured[i].us[k] - 1) <= measured[i].off,
                      "%s, %s of %u: %g us, measured %g", measured[i].machine,
                      syn_comm_kind_name(measured[i].comm), n, us, measured[i].us[k]);
        }
    }
}

/* All-gathers, reduce-scatters and all-to-alls of at least 1 MiB on 2, 4 and 8 GPUs
   (tests/measured): the mean error of each kind on each machine. */
static void collectives_of_one_pass(void) {
    static const int32_t ranks[] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const char *const machines[] = {"a100", "h100"};
    static const struct {
        const char *name;
        syn_comm_kind comm;
    } kinds[] = {{"all_gather", SYN_COMM_ALL_GATHER},
                 {"reduce_scatter", SYN_COMM_REDUCE_SCATTER},
                 {"all_to_all", SYN_COMM_ALL_TO_ALL}};
    for (int m = 0; m < 2; m++) {
        syn_hardware hw;
        syn_error err = {0};
        char path[4200], kind[32], line[256];
        double sums[3] = {0}, ns;
        unsigned long long bytes;
        unsigned gpus;
        int n[3] = {0};
        snprintf(path, sizeof path, "%s/tests/measured/collectives_%s.csv", getenv("SYN_SOURCE"),
                 machines[m]);
        FILE *f = fopen(path, "r");
        CHECK(f != NULL);
        CHECK_OK(syn_hardware_load(&hw, m == 0 ? "a100-80g+pytorch-eager" : "h100+pytorch-eager",
                                   NULL, &err),
                 err);
        while (f && fgets(line, sizeof line, f)) {
            if (sscanf(line, "%31[^,],%u,%llu,%lf", kind, &gpus, &bytes, &ns) != 4) continue;
            for (int k = 0; k < 3 && bytes >= 1 << 20; k++) {
                if (strcmp(kind, kinds[k].name) != 0) continue;
                const bool gathers = kinds[k].comm == SYN_COMM_ALL_GATHER;
                const double ours =
                    collective_ns(&hw, kinds[k].comm, gathers ? bytes / gpus : bytes, ranks, gpus);
                sums[k] += fabs(ours / ns - 1);
                n[k]++;
            }
        }
        if (f) fclose(f);
        for (int k = 0; k < 3; k++)
            CHECK_MSG(n[k] >= 12 && sums[k] / n[k] < 0.09, "%s, %s: %d rows, mean error %g",
                      machines[m], kinds[k].name, n[k], sums[k] / n[k]);
    }
}

/* An all-to-all of 4 GiB over two nodes of 8 A100, each with four cards of 200 Gb/s, runs at 19.83
   GB/s (issue 1138 of NVIDIA/nccl): each rank sends 15/16 of its buffer in 203 ms. Half of a rank's
   data goes to the other node, at 12.5 GB/s per rank. */
static void all_to_all_across_nodes(void) {
    static const int32_t ranks[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const double ms = 15.0 / 16 * 4294967296.0 / 19.83e9 * 1e3;
    syn_hardware hw;
    syn_error err = {0};
    CHECK_OK(syn_hardware_load(&hw, "a100-80g+pytorch-eager", NULL, &err), err);
    hw.inter.bytes_per_ns = 100;
    const double is = collective_ns(&hw, SYN_COMM_ALL_TO_ALL, 4294967296, ranks, 16) / 1e6;
    CHECK_MSG(fabs(is / ms - 1) < 0.12, "%g ms, measured %g", is, ms);
    /* In a gather, one rank receives everything. All data of the other node arrives over this
       rank's link. */
    const double one = collective_ns(&hw, SYN_COMM_GATHER, 268435456, ranks, 16) / 1e6;
    CHECK_MSG(one > 8 * 0.268 / 12.5 * 1e3 && one < 1.2 * 8 * 0.268 / 12.5 * 1e3, "%g ms", one);
}

/* Microseconds on a node of 8 V100 with direct links and no switch (konnase.github.io, 2019). The
   last value is from another machine (BM.GPU3.8, from a tutorial of Oracle's cloud). */
static void nccl_all_reduce_on_v100(void) {
    static const int32_t ranks[] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const struct {
        uint64_t bytes;
        double us;
    } measured[] = {{1024, 48.88},     {32768, 51.06},      {1048576, 89.27},
                    {16777216, 324.1}, {134217728, 1818.8}, {1073741824, 13867}};
    syn_hardware hw;
    syn_error err = {0};
    CHECK_OK(syn_hardware_load(&hw, "v100-32g+pytorch-eager", NULL, &err), err);
    for (size_t i = 0; i < sizeof measured / sizeof measured[0]; i++) {
        const double us =
            collective_ns(&hw, SYN_COMM_ALL_REDUCE, measured[i].bytes, ranks, 8) / 1e3;
        CHECK_MSG(fabs(us / measured[i].us - 1) <= 0.05, "%llu bytes: %g us, measured %g",
                  (unsigned long long)measured[i].bytes, us, measured[i].us);
    }
}

static const test_case cases[] = {
    {"nccl_all_reduce_on_a100", nccl_all_reduce_on_a100},
    {"nccl_all_reduce_on_h100", nccl_all_reduce_on_h100},
    {"small_all_reduces_on_a100", small_all_reduces_on_a100},
    {"nccl_all_reduce_across_nodes", nccl_all_reduce_across_nodes},
    {"other_collectives_of_a_node", other_collectives_of_a_node},
    {"collectives_of_one_pass", collectives_of_one_pass},
    {"all_to_all_across_nodes", all_to_all_across_nodes},
    {"nccl_all_reduce_on_v100", nccl_all_reduce_on_v100},
};

TEST_MAIN(cases)
