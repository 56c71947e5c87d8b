/* syntorch simulate: simulates a set of execution traces. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/simulate.h"
#include "syntorch/base/memory.h"
#include "tools/cli_json.h"
#include "tools/commands/command.h"
#include "tools/commands/simulated_path.h"
#include "tools/inputs.h"
#include "tools/rank_list.h"

static struct arguments {
    const char *input, *groups, *network, *system, *slow, *traffic, *chart, *timeline, *path;
    uint64_t max_unpacked_bytes;
    bool json;
} args;

static const cli_option options[] = {
    {"input", CLI_TEXT, &args.input, "PREFIX",
     "set PREFIX.<rank>.et; --input may be omitted, then also several files", 0, 0},
    {"groups", CLI_TEXT, &args.groups, "FILE",
     "file with the ranks of each group; default: PREFIX.comm_group.json if it exists", 0, 0},
    {"network", CLI_TEXT, &args.network, "FILE",
     "ASTRA-sim's network file (network.yml): price communication with its links, and schedule "
     "nodes as ASTRA-sim does; default: the times in the traces",
     0, 0},
    {"system", CLI_TEXT, &args.system, "FILE", "ASTRA-sim's system file, needed with --network", 0,
     0},
    {"slow", CLI_TEXT, &args.slow, "RANKS=FACTOR,...",
     "stragglers: these ranks compute FACTOR times as long, such as 3=1.5 or 8-15=1.1,40=2", 0, 0},
    {"traffic", CLI_TEXT, &args.traffic, "FILE.csv|FILE.svg",
     "write how many bytes each rank sends to each other rank, as a table or a picture", 0, 0},
    {"chart", CLI_TEXT, &args.chart, "FILE.svg",
     "draw what each rank does over time: computing, communicating, waiting", 0, 0},
    {"timeline", CLI_TEXT, &args.timeline, "FILE.json",
     "write all nodes with their times in Chrome's trace format, for Perfetto", 0, 0},
    {"critical_path", CLI_TEXT, &args.path, "FILE.csv",
     "find the chain of nodes, across ranks, that determines the end: write these nodes in order, "
     "and print their time by kind and name",
     0, 0},
    CLI_JSON(&args.json),
    CLI_MAX_UNPACKED(&args.max_unpacked_bytes),
    CLI_END};

static const char *const examples[] = {
    "syntorch simulate out/trace",
    "syntorch simulate out/trace --slow 0=1.3 --chart times.svg --traffic bytes.csv",
    "syntorch simulate out/trace --network astra-sim/network.yml --system astra-sim/system.json",
    NULL};

static const cli_program program = {
    "syntorch simulate",
    "Simulates a set of Chakra execution traces, from any program: when it ends, how long each "
    "rank "
    "computes, communicates and waits, and what each group transfers. If the set deadlocks, prints "
    "which ranks wait for each other; the exit code is then 1.",
    options, examples, false};

/* ---- Stragglers ---- */

static syn_status bad_slow(syn_error *err) {
    return SYN_FAIL(err, SYN_E_INVALID,
                    "--slow '%.60s' is not a list such as 3=1.5,8-15=1.1, with factors above 0 and "
                    "up to 1000",
                    args.slow);
}

static syn_status read_slow(syn_slow_ranks **out, size_t *n, syn_error *err) {
    size_t cap = 0;
    for (const char *at = args.slow; at != NULL && (at == args.slow || at[-1] == ',');) {
        syn_slow_ranks one;
        char *end;
        SYN_TRY(syn_grow(out, &cap, *n + 1, sizeof **out, err));
        if (!rank_range(&at, &one.first, &one.last) || *at != '=') return bad_slow(err);
        one.factor = strtod(at + 1, &end);
        if (end == at + 1 || !(one.factor > 0) || one.factor > 1000 ||
            (*end != ',' && *end != '\0'))
            return bad_slow(err);
        (*out)[(*n)++] = one;
        at = end + (*end == ',');
    }
    return SYN_OK;
}

/* Fails if a rank or range of --slow is not in the set. */
static syn_status check_slow(const syn_simulation *sim, const syn_slow_ranks *slow, size_t n,
                             syn_error *err) {
    for (size_t i = 0; i < n; i++) {
        size_t found = 0;
        for (size_t k = 0; k < sim->n_ranks; k++)
            found += sim->ranks[k].rank == slow[i].first || sim->ranks[k].rank == slow[i].last;
        if (found <= (size_t)(slow[i].first != slow[i].last))
            return SYN_FAIL(err, SYN_E_INVALID,
                            "--slow '%.60s' has a rank that is not in the set, whose last rank is "
                            "%" PRId32,
                            args.slow, sim->ranks[sim->n_ranks - 1].rank);
    }
    return SYN_OK;
}

/* ---- Text ---- */

enum { SHOWN = 32, RANKS_WIDTH = 24 };

static double percent(uint64_t part, uint64_t all) {
    return all > 0 ? 100.0 * (double)part / (double)all : 0;
}

static void print_ranks(const syn_simulation *sim, FILE *out) {
    char text[32], name[RANKS_WIDTH + 1];
    size_t shown = 0;
    fprintf(out, "\n%-*s %10s %9s %9s %9s\n", RANKS_WIDTH, "ranks", "end", "compute", "exposed",
            "waiting");
    for (size_t i = 0; i < sim->n_ranks; i++) {
        const syn_simulated_rank *r = &sim->ranks[i];
        if (r->same_as != r->rank || shown++ >= SHOWN) continue;
        fprintf(out, "%-*s %10s %7.1f %% %7.1f %% %7.1f %%\n", RANKS_WIDTH,
                syn_simulation_ranks(sim, r->rank, name, sizeof name),
                cli_time_text((double)r->end_ns, text, sizeof text),
                percent(r->compute_ns, sim->end_ns), percent(r->exposed_ns, sim->end_ns),
                percent(r->wait_ns, sim->end_ns));
    }
    if (shown > SHOWN) fprintf(out, "(%zu more lines: see --json)\n", shown - SHOWN);
}

static void print_groups(const syn_simulation *sim, FILE *out) {
    char bytes[32], time[32];
    if (sim->n_groups == 0) return;
    fprintf(out, "\n%-*s %10s %9s %12s %10s\n", RANKS_WIDTH, "group (sums per rank)", "ranks",
            "calls", "bytes", "time");
    for (size_t i = 0; i < sim->n_groups; i++) {
        const syn_simulated_group *g = &sim->groups[i];
        const bool messages = g->name == NULL;
        if (!messages && i >= SHOWN) continue;
        char name[RANKS_WIDTH + 1], ranks[16] = "";
        if (messages) snprintf(name, sizeof name, "messages of all ranks");
        else cli_shown(strcmp(g->name, sim->world) == 0 ? "all ranks" : g->name, name, sizeof name);
        if (!messages) snprintf(ranks, sizeof ranks, "%" PRIu32, g->n_ranks);
        fprintf(out, "%-*s %10s %9" PRIu64 " %12s %10s\n", RANKS_WIDTH, name, ranks, g->n_calls,
                cli_bytes_text((double)g->bytes, bytes, sizeof bytes),
                cli_time_text((double)g->ns, time, sizeof time));
    }
    if (sim->n_groups > SHOWN + 1) fprintf(out, "(more groups: see --json)\n");
}

static void put_notes(const syn_simulation *sim, syn_sink *json, FILE *out) {
    cli_notes notes = cli_notes_begin(json, out);
    if (sim->n_absent > 0)
        cli_note(&notes, "note", "%" PRIu32 " rank%s of the groups %s no file; they are never late",
                 sim->n_absent, cli_plural(sim->n_absent), sim->n_absent == 1 ? "has" : "have");
    if (sim->end_ns == 0 && sim->deadlock == NULL)
        cli_note(&notes, "note", "the nodes have no durations; give --network and --system");
    cli_notes_end(&notes);
}

static void print_text(const syn_simulation *sim, const char *name, FILE *out) {
    char text[32];
    double sums[3] = {0, 0, 0};
    const double all = (double)sim->end_ns * (double)sim->n_ranks;
    for (size_t i = 0; i < sim->n_ranks; i++) {
        sums[0] += (double)sim->ranks[i].compute_ns;
        sums[1] += (double)sim->ranks[i].exposed_ns;
        sums[2] += (double)sim->ranks[i].wait_ns;
    }
    cli_print_escaped(out, name, strlen(name));
    fprintf(out, ": %zu rank%s, %" PRIu64 " nodes; ", sim->n_ranks, cli_plural(sim->n_ranks),
            sim->n_nodes);
    if (sim->deadlock != NULL) {
        fprintf(out, "deadlock after %s\n", cli_time_text((double)sim->end_ns, text, sizeof text));
        fprintf(out, "problem: %" PRIu64 " nodes never run: ", sim->n_nodes - sim->n_run);
        cli_print_escaped(out, sim->deadlock, strlen(sim->deadlock));
        fprintf(out, "\n");
    } else {
        fprintf(out, "all run, in %s\n", cli_time_text((double)sim->end_ns, text, sizeof text));
    }
    if (all > 0)
        fprintf(out, "on average %.1f %% compute, %.1f %% exposed communication, %.1f %% waiting\n",
                100 * sums[0] / all, 100 * sums[1] / all, 100 * sums[2] / all);
    put_notes(sim, NULL, out);
    print_ranks(sim, out);
    print_groups(sim, out);
    simulated_path_print(sim, out);
}

/* ---- Files ---- */

static bool is_svg(const char *path) {
    const size_t n = strlen(path);
    return n > 4 && strcmp(path + n - 4, ".svg") == 0;
}

static void put_traffic(const syn_simulation *sim, syn_sink *out) {
    syn_sink_text(out, "from,to,bytes\n");
    for (size_t i = 0; i < sim->n_pairs; i++)
        syn_sink_printf(out, "%" PRId32 ",%" PRId32 ",%.0f\n", sim->pairs[i].from, sim->pairs[i].to,
                        sim->pairs[i].bytes);
}

static syn_status write_file(const syn_simulation *sim, const char *path,
                             void (*put)(const syn_simulation *sim, syn_sink *out),
                             syn_error *err) {
    syn_sink *out;
    if (path == NULL) return SYN_OK;
    SYN_TRY(syn_sink_open_file(&out, path, err));
    put(sim, out);
    return syn_sink_close(out, true, err);
}

static syn_status write_files(const syn_simulation *sim, syn_error *err) {
    const bool svg = args.traffic != NULL && is_svg(args.traffic);
    SYN_TRY(write_file(sim, args.path, simulated_path_put_csv, err));
    SYN_TRY(write_file(sim, args.traffic, svg ? syn_simulation_draw_traffic : put_traffic, err));
    return write_file(sim, args.chart, syn_simulation_draw_times, err);
}

static void put_ranks(syn_sink *out, const syn_simulation *sim) {
    syn_sink_text(out, ",\n\"ranks\": [");
    for (size_t i = 0; i < sim->n_ranks; i++) {
        const syn_simulated_rank *r = &sim->ranks[i];
        syn_sink_printf(out,
                        "%s {\"rank\": %" PRId32 ", \"same_as\": %" PRId32 ", \"end_ns\": %" PRIu64
                        ", \"compute_ns\": %" PRIu64 ", \"exposed_ns\": %" PRIu64
                        ", \"waiting_ns\": %" PRIu64 "}",
                        i > 0 ? ",\n" : "\n", r->rank, r->same_as, r->end_ns, r->compute_ns,
                        r->exposed_ns, r->wait_ns);
    }
    syn_sink_text(out, "]");
}

static void put_groups(syn_sink *out, const syn_simulation *sim) {
    syn_sink_text(out, ",\n\"groups\": [");
    for (size_t i = 0; i < sim->n_groups; i++) {
        const syn_simulated_group *g = &sim->groups[i];
        syn_sink_text(out, i > 0 ? ",\n {\"group\": " : "\n {\"group\": ");
        if (g->name != NULL) syn_sink_json_string(out, g->name);
        else syn_sink_text(out, "null");
        syn_sink_printf(out,
                        ", \"ranks\": %" PRIu32 ", \"calls\": %" PRIu64 ", \"bytes\": %" PRIu64
                        ", \"ns\": %" PRIu64 "}",
                        g->n_ranks, g->n_calls, g->bytes, g->ns);
    }
    syn_sink_text(out, "]");
}

enum { OUTPUTS = 4 };

static syn_status print_json(const syn_simulation *sim, syn_error *err) {
    const char *const outputs[OUTPUTS] = {args.traffic, args.chart, args.timeline, args.path};
    syn_sink *out;
    SYN_TRY(cli_json_open(&out, &program, err));
    syn_sink_printf(out,
                    ", \"end_ns\": %" PRIu64 ", \"nodes\": %" PRIu64 ", \"nodes_run\": %" PRIu64
                    ", \"distinct_ranks\": %zu, \"absent_ranks\": %" PRIu32 ", \"deadlock\": ",
                    sim->end_ns, sim->n_nodes, sim->n_run, sim->n_distinct, sim->n_absent);
    if (sim->deadlock != NULL) syn_sink_json_string(out, sim->deadlock);
    else syn_sink_text(out, "null");
    put_ranks(out, sim);
    put_groups(out, sim);
    if (args.path != NULL) {
        syn_sink_text(out, ",\n\"critical_path\": ");
        simulated_path_put_json(sim, out);
    }
    cli_json_begin_written(out);
    bool first = true;
    for (int i = 0; i < OUTPUTS; i++) cli_json_add_written(out, outputs[i], &first);
    syn_sink_char(out, ']');
    put_notes(sim, out, NULL);
    return cli_json_close(out, SYN_OK, err);
}

/* ---- The command ---- */

/* Fails if an output is an input. */
static syn_status keep_inputs(const char *const *paths, size_t n, syn_error *err) {
    const char *const outputs[OUTPUTS] = {args.traffic, args.chart, args.timeline, args.path};
    const char *const others[] = {args.groups, args.network, args.system};
    syn__input_files inputs = {0};
    syn_status s = n == 1 ? cli_inputs_add_set(&inputs, paths[0], err) : SYN_OK;
    for (size_t i = 0; i < n && s == SYN_OK; i++) s = syn__input_files_add(&inputs, paths[i], err);
    for (int i = 0; i < 3 && s == SYN_OK; i++) s = syn__input_files_add(&inputs, others[i], err);
    for (int i = 0; i < OUTPUTS && s == SYN_OK; i++)
        if (outputs[i] != NULL) s = syn__input_files_keep(&inputs, outputs[i], err);
    syn__input_files_free(&inputs);
    return s;
}

/* Sets *to_stdout to whether a file goes to standard output. Fails if something else does, too, or
   if two files have the same name. */
static int check_outputs(bool *to_stdout) {
    const char *const outputs[OUTPUTS] = {args.traffic, args.chart, args.timeline, args.path};
    *to_stdout = false;
    for (int i = 0; i < OUTPUTS; i++) {
        if (outputs[i] == NULL) continue;
        for (int k = 0; k < i; k++)
            if (outputs[k] != NULL && strcmp(outputs[i], outputs[k]) == 0)
                return cli_fail(&program, CLI_USAGE, "two outputs are written to '%s'", outputs[i]);
        *to_stdout = *to_stdout || strcmp(outputs[i], "-") == 0;
    }
    if (*to_stdout && args.json)
        return cli_fail(&program, CLI_USAGE, "--json and '-' both write to standard output");
    return CLI_RUN;
}

static syn_status simulate(syn_simulation *sim, const char *const *paths, size_t n,
                           const syn_slow_ranks *slow, size_t n_slow, FILE *text, syn_error *err) {
    const syn_simulate_options how = {.groups = args.groups,
                                      .network = args.network,
                                      .system = args.system,
                                      .slow = slow,
                                      .n_slow = n_slow,
                                      .traffic = args.traffic != NULL,
                                      .timeline = args.timeline,
                                      .critical_path = args.path != NULL,
                                      .threads = cli_cores(),
                                      .max_unpacked_bytes = args.max_unpacked_bytes};
    syn_status s = cli_take_standard_input(paths, n, err);
    if (s == SYN_OK) s = keep_inputs(paths, n, err);
    if (s == SYN_OK) s = syn_simulate(sim, paths, n, &how, err);
    if (s == SYN_OK) s = check_slow(sim, slow, n_slow, err);
    if (s == SYN_OK) s = write_files(sim, err);
    if (s == SYN_OK && args.json) s = print_json(sim, err);
    else if (s == SYN_OK) print_text(sim, syn_input_name(paths[0]), text);
    return s;
}

int command_simulate(int argc, char **argv) {
    syn_error err = {0};
    syn_simulation sim = {.n_nodes = 0};
    syn_slow_ranks *slow = NULL;
    const char *const *paths;
    size_t n, n_slow = 0;
    bool to_stdout = false;
    int code = cli_parse_set(&program, argc, argv, &args.input, &paths, &n);
    if (code == CLI_RUN) code = check_outputs(&to_stdout);
    if (code != CLI_RUN) return code;
    if ((args.network == NULL) != (args.system == NULL))
        return cli_fail(&program, CLI_USAGE,
                        "--network and --system describe one machine; give both or none");
    syn_status s = read_slow(&slow, &n_slow, &err);
    code = s == SYN_E_INVALID ? CLI_USAGE : CLI_FAILED;
    if (s == SYN_OK) s = simulate(&sim, paths, n, slow, n_slow, to_stdout ? stderr : stdout, &err);
    const bool deadlock = sim.deadlock != NULL;
    syn_free(slow);
    syn_simulation_free(&sim);
    if (s != SYN_OK) return cli_fail(&program, code, "%s", err.text);
    return deadlock ? CLI_FAILED : CLI_OK;
}
