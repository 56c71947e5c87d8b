/* syntorch diff: compares two sets of execution traces. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "export/simulate.h"
#include "tools/cli.h"
#include "tools/commands/command.h"

static struct arguments {
    const char *input;
    uint64_t max_unpacked_bytes;
} args;

static const cli_option options[] = {{"input", CLI_TEXT, &args.input, "PREFIX",
                                      "first set PREFIX.<rank>.et; --input may be omitted", 0, 0},
                                     CLI_MAX_UNPACKED(&args.max_unpacked_bytes),
                                     CLI_END};

static const char *const examples[] = {"syntorch diff out/trace other/trace", NULL};

static const cli_program program = {
    "syntorch diff",
    "Compares two sets of Chakra execution traces: nodes by kind, time of computation, calls and "
    "bytes of communication, and its order; then the times in which the sets run. The exit code is "
    "1 if they differ.",
    options, examples, false};

enum { SHOWN = 100 };

static void print_rank(const syn_set_difference *d) {
    char ranks[48];
    if (d->first == d->last) snprintf(ranks, sizeof ranks, "rank %" PRId32, d->first);
    else snprintf(ranks, sizeof ranks, "ranks %" PRId32 "-%" PRId32, d->first, d->last);
    printf("%-14s ", ranks);
    cli_print_escaped(stdout, d->text, strlen(d->text));
    printf("\n");
}

static syn_status print_times(const char *const *paths, syn_error *err) {
    double ns[2];
    char a[32], b[32];
    for (int i = 0; i < 2; i++) {
        syn_simulation sim;
        const syn_simulate_options how = {.threads = cli_cores(),
                                          .max_unpacked_bytes = args.max_unpacked_bytes};
        const syn_status s = syn_simulate(&sim, &paths[i], 1, &how, err);
        ns[i] = (double)sim.end_ns;
        if (s == SYN_OK && sim.deadlock != NULL)
            printf("the %s set deadlocks: %s\n", i == 0 ? "first" : "second", sim.deadlock);
        syn_simulation_free(&sim);
        SYN_TRY(s);
    }
    printf("%-14s %s and %s", "simulated", cli_time_text(ns[0], a, sizeof a),
           cli_time_text(ns[1], b, sizeof b));
    if (ns[0] > 0 && ns[0] != ns[1]) printf(" (%+.1f %%)", 100 * (ns[1] / ns[0] - 1));
    printf("\n");
    return SYN_OK;
}

static syn_status compare(const char *const *paths, bool *differ, syn_error *err) {
    syn_set_differences d;
    syn_status s = syn_set_compare(&d, paths[0], paths[1], args.max_unpacked_bytes, err);
    *differ = d.n > 0;
    if (s == SYN_OK) {
        printf("%-14s %" PRIu32 " rank%s with %" PRIu64 " nodes and %" PRIu32
               " rank%s with %" PRIu64 " nodes\n",
               "sets", d.n_ranks[0], cli_plural(d.n_ranks[0]), d.n_nodes[0], d.n_ranks[1],
               cli_plural(d.n_ranks[1]), d.n_nodes[1]);
        for (size_t i = 0; i < d.n && i < SHOWN; i++) print_rank(&d.list[i]);
        if (d.n > SHOWN) printf("(%zu more differences)\n", d.n - SHOWN);
        if (d.n == 0) printf("%-14s all ranks do the same\n", "equal");
        s = print_times(paths, err);
    }
    syn_set_differences_free(&d);
    return s;
}

int command_diff(int argc, char **argv) {
    syn_error err = {0};
    const char *const *paths;
    size_t n;
    bool differ = false;
    const int code =
        cli_parse_inputs(&program, argc, argv, &args.input, "two prefixes are", &paths, &n);
    if (code != CLI_RUN) return code;
    if (n != 2) return cli_fail(&program, CLI_USAGE, "two prefixes are needed, not %zu", n);
    if (compare(paths, &differ, &err) != SYN_OK)
        return cli_fail(&program, CLI_FAILED, "%s", err.text);
    return differ ? CLI_FAILED : CLI_OK;
}
