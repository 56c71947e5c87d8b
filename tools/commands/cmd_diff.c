/* syntorch diff: compares two sets of execution traces. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "export/simulate.h"
#include "syntorch/base/memory.h"
#include "tools/cli_json.h"
#include "tools/commands/command.h"
#include "tools/inputs.h"

static struct arguments {
    const char *input;
    uint64_t max_unpacked_bytes;
    bool json;
} args;

static const cli_option options[] = {{"input", CLI_TEXT, &args.input, "PREFIX",
                                      "first set PREFIX.<rank>.et; --input may be omitted", 0, 0},
                                     CLI_JSON(&args.json),
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

/* The simulations of both sets. */
typedef struct times {
    double ns[2];
    char *deadlock[2]; /* NULL: the set finishes */
} times;

static syn_status simulate(times *t, const char *const *paths, syn_error *err) {
    for (int i = 0; i < 2; i++) {
        syn_simulation sim;
        const syn_simulate_options how = {.threads = cli_cores(),
                                          .max_unpacked_bytes = args.max_unpacked_bytes};
        syn_status s = syn_simulate(&sim, &paths[i], 1, &how, err);
        t->ns[i] = (double)sim.end_ns;
        if (s == SYN_OK && sim.deadlock != NULL) {
            t->deadlock[i] = syn_strdup(sim.deadlock);
            if (t->deadlock[i] == NULL)
                s = SYN_FAIL_NOMEM(err, strlen(sim.deadlock) + 1, "a deadlock");
        }
        syn_simulation_free(&sim);
        SYN_TRY(s);
    }
    return SYN_OK;
}

static void print_times(const times *t) {
    char a[32], b[32];
    for (int i = 0; i < 2; i++)
        if (t->deadlock[i] != NULL)
            printf("the %s set deadlocks: %s\n", i == 0 ? "first" : "second", t->deadlock[i]);
    printf("%-14s %s and %s", "simulated", cli_time_text(t->ns[0], a, sizeof a),
           cli_time_text(t->ns[1], b, sizeof b));
    if (t->ns[0] > 0 && t->ns[0] != t->ns[1])
        printf(" (%+.1f %%)", 100 * (t->ns[1] / t->ns[0] - 1));
    printf("\n");
}

static void print_text(const syn_set_differences *d, const times *t) {
    printf("%-14s %" PRIu32 " rank%s with %" PRIu64 " nodes and %" PRIu32 " rank%s with %" PRIu64
           " nodes\n",
           "sets", d->n_ranks[0], cli_plural(d->n_ranks[0]), d->n_nodes[0], d->n_ranks[1],
           cli_plural(d->n_ranks[1]), d->n_nodes[1]);
    for (size_t i = 0; i < d->n && i < SHOWN; i++) print_rank(&d->list[i]);
    if (d->n > SHOWN) printf("(%zu more differences: see --json)\n", d->n - SHOWN);
    if (d->n == 0) printf("%-14s all ranks do the same\n", "equal");
    print_times(t);
}

static syn_status print_json(const syn_set_differences *d, const times *t, const char *const *paths,
                             syn_error *err) {
    syn_sink *json;
    SYN_TRY(cli_json_open(&json, &program, err));
    cli_json_bool(json, "equal", d->n == 0);
    syn_sink_text(json, ", \"sets\": [");
    for (int i = 0; i < 2; i++) {
        syn_sink_text(json, i ? ", {\"path\": " : "{\"path\": ");
        syn_sink_json_string(json, paths[i]);
        cli_json_count(json, "ranks", d->n_ranks[i]);
        cli_json_count(json, "nodes", d->n_nodes[i]);
        cli_json_real(json, "end_ns", t->ns[i]);
        cli_json_text(json, "deadlock", t->deadlock[i]);
        syn_sink_char(json, '}');
    }
    syn_sink_text(json, "], \"differences\": [");
    for (size_t i = 0; i < d->n; i++) {
        syn_sink_printf(json, "%s{\"first_rank\": %" PRId32 ", \"last_rank\": %" PRId32,
                        i ? ",\n " : "", d->list[i].first, d->list[i].last);
        cli_json_text(json, "text", d->list[i].text);
        syn_sink_char(json, '}');
    }
    syn_sink_char(json, ']');
    return cli_json_close(json, SYN_OK, err);
}

static syn_status compare(const char *const *paths, bool *differ, syn_error *err) {
    syn_set_differences d;
    times t = {.deadlock = {NULL, NULL}};
    syn_status s = syn_set_compare(&d, paths[0], paths[1], args.max_unpacked_bytes, err);
    *differ = d.n > 0;
    if (s == SYN_OK) s = simulate(&t, paths, err);
    if (s == SYN_OK && args.json) s = print_json(&d, &t, paths, err);
    else if (s == SYN_OK) print_text(&d, &t);
    for (int i = 0; i < 2; i++) syn_free(t.deadlock[i]);
    syn_set_differences_free(&d);
    return s;
}

int command_diff(int argc, char **argv) {
    syn_error err = {0};
    const char *const *paths;
    size_t n;
    bool differ = false;
    int code = cli_parse_inputs(&program, argc, argv, &args.input, "two prefixes are", &paths, &n);
    if (code != CLI_RUN) return code;
    if (n != 2) return cli_fail(&program, CLI_USAGE, "two prefixes are needed, not %zu", n);
    for (size_t i = 0; i < n && code == CLI_RUN; i++)
        code = cli_refuse_standard_input(&program, paths[i], "two sets of files");
    if (code != CLI_RUN) return code;
    if (compare(paths, &differ, &err) != SYN_OK)
        return cli_fail(&program, CLI_FAILED, "%s", err.text);
    return differ ? CLI_FAILED : CLI_OK;
}
