/* syntorch stat: prints statistics of execution traces. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "export/statistics.h"
#include "tools/cli_json.h"
#include "tools/commands/command.h"
#include "tools/inputs.h"

static struct arguments {
    const char *input;
    uint64_t max_unpacked_bytes;
    bool json;
} args;

static const cli_option options[] = {
    {"input", CLI_TEXT, &args.input, "PREFIX|FILE",
     "set PREFIX.<rank>.et, or one .et file; - = standard input; --input may be omitted, then also "
     "several files",
     0, 0},
    CLI_JSON(&args.json),
    CLI_MAX_UNPACKED(&args.max_unpacked_bytes),
    CLI_END};

static const char *const examples[] = {"syntorch stat out/trace", "syntorch stat trace.0.et --json",
                                       NULL};

static const cli_program program = {
    "syntorch stat",
    "Prints statistics of Chakra execution traces: nodes, dependencies, critical path, collectives "
    "and their bytes, the longest ops, metadata. Times are the durations in the file. For several "
    "ranks, tables hold sums over the ranks.",
    options, examples, false};

#define TOP        20u
#define SHOWN      32u /* maximum of ranks, groups and metadata entries that are printed */
#define NAME_WIDTH 48

/* ---- Warnings ---- */

typedef struct anomaly {
    const char *text;
    uint64_t count;
} anomaly;

#define N_ANOMALIES 8

/* All warnings with their counts; a count is 0 if the warning does not apply. */
static void find_anomalies(const syn_statistics *s, anomaly out[N_ANOMALIES]) {
    const uint64_t on_device = s->n_communication - s->n_cpu_communication;
    const bool communicates = s->n_communication != 0;
    const anomaly all[N_ANOMALIES] = {
        {"damaged or missing messages were skipped", s->n_damaged},
        {"ids occur more than once", s->n_duplicates},
        {"dependencies are not in the file", s->n_dangling},
        {"nodes can never run: they depend on a cycle", s->n_never},
        {"communication nodes, all on the CPU: simulators do not run them",
         communicates && on_device == 0 ? s->n_communication : 0},
        {"nodes, but no communication: a simulation does not use the network",
         communicates ? 0 : s->n_nodes},
        {"nodes, none with a duration: the trace has no times", s->n_timed == 0 ? s->n_nodes : 0},
        {"nodes can all run at once: nothing has a dependency",
         s->n_ctrl_deps + s->n_data_deps == 0 && s->n_nodes > 1 ? s->n_nodes : 0}};
    memcpy(out, all, sizeof all);
}

/* ---- Text ---- */

static void print_name(const char *name, int width) {
    const size_t bytes = strlen(name);
    size_t shown = bytes < (size_t)width ? bytes : (size_t)width;
    while (shown < bytes && shown > 0 && ((unsigned char)name[shown] & 0xC0u) == 0x80u) shown--;
    cli_print_escaped(stdout, name, shown);
    printf("%*s", width - (int)shown, "");
}

static void print_ranks(const syn_statistics_set *set) {
    printf("%-6s %10s %10s %8s %8s %14s %10s %14s %12s\n", "rank", "nodes", "deps", "roots",
           "widest", "critical us", "its nodes", "sum us", "comm nodes");
    for (size_t i = 0; i <= set->n_ranks; i++) {
        const bool last = i == set->n_ranks;
        const syn_statistics *s = last ? &set->total : &set->ranks[i];
        if ((last && set->n_ranks == 1) || (!last && i >= SHOWN)) continue;
        char rank[16] = "all";
        if (!last && s->rank >= 0) snprintf(rank, sizeof rank, "%" PRId32, s->rank);
        else if (!last) snprintf(rank, sizeof rank, "-");
        printf("%-6s %10" PRIu64 " %10" PRIu64 " %8" PRIu64 " %8" PRIu64 " %14" PRIu64 " %10" PRIu64
               " %14" PRIu64 " %12" PRIu64 "\n",
               rank, s->n_nodes, s->n_ctrl_deps + s->n_data_deps, s->n_roots, s->widest_ready,
               s->critical_micros, s->critical_nodes, s->sum_micros, s->n_communication);
    }
    if (set->n_ranks > SHOWN) printf("(%zu more ranks: see --json)\n", set->n_ranks - SHOWN);
    if (set->n_ranks > 1)
        printf("(all: sums over the ranks; critical path: %s)\n",
               set->path_across ? "across ranks" : "the longest of one rank");
}

/* Added to table headings: ", sums over 2 ranks", or nothing for one file. */
static char scope[48];

static void name_scope(size_t n_ranks) {
    scope[0] = '\0';
    if (n_ranks > 1) snprintf(scope, sizeof scope, ", sums over %zu ranks", n_ranks);
}

static void print_heading(const char *what, const syn_statistics *s, bool bytes) {
    char name[NAME_WIDTH + 1];
    snprintf(name, sizeof name, "%s%s", what, scope);
    printf("\n%-*s %10s %14s", NAME_WIDTH, name, "count", "us");
    if (s->wait_ns != 0) printf(" %14s", "+wait us");
    printf(bytes ? " %14s\n" : "\n", "input bytes");
}

static const char *type_name(size_t type) {
    static char name[SYN_STATISTICS_NAME];
    syn_statistics_type_name(type, name);
    return name;
}

static void print_counts(const syn_statistics *s) {
    char ops[32], bytes[32], sent[32], received[32];
    if (scope[0] != '\0') printf("\n%s:", scope + 2);
    printf("\nnodes by type  ");
    for (size_t i = 0; i < SYN_STATISTICS_TYPES; i++)
        if (s->types[i] != 0) printf(" %s %" PRIu64, type_name(i), s->types[i]);
    printf("\ndependencies    ctrl %" PRIu64 " data %" PRIu64, s->n_ctrl_deps, s->n_data_deps);
    for (size_t i = 0; i < SYN_STATISTICS_CLASSES; i++)
        if (s->classes[i] != 0) printf(" %s %" PRIu64, syn_statistics_class_name(i), s->classes[i]);
    printf("\ncompute         num_ops %s, tensor_size %s\n",
           cli_count_text((double)s->num_ops, ops, sizeof ops),
           cli_bytes_text((double)s->tensor_bytes, bytes, sizeof bytes));
    printf("messages        sent %s, received %s\n",
           cli_bytes_text((double)s->send_bytes, sent, sizeof sent),
           cli_bytes_text((double)s->recv_bytes, received, sizeof received));
}

static void print_row(const char *name, const syn_statistics_row *row, const syn_statistics *s,
                      bool bytes) {
    char text[32];
    print_name(name, NAME_WIDTH);
    printf(" %10" PRIu64 " %14" PRIu64, row->count, row->micros);
    if (s->wait_ns != 0) printf(" %14" PRIu64, row->wait_ns / 1000);
    if (bytes) printf(" %14s", cli_bytes_text((double)row->bytes, text, sizeof text));
    putchar('\n');
}

static void print_communication(const syn_statistics *s) {
    if (s->n_groups == 0) return;
    print_heading("collectives", s, true);
    for (size_t i = 0; i < SYN_STATISTICS_COLLECTIVES; i++)
        if (s->collectives[i].count != 0)
            print_row(syn_statistics_collective_name(i), &s->collectives[i], s, true);
    print_heading("groups", s, true);
    for (size_t i = 0; i < s->n_groups && i < SHOWN; i++)
        print_row(s->groups[i].name, &s->groups[i], s, true);
    if (s->n_groups > SHOWN) printf("(%zu more groups: see --json)\n", s->n_groups - SHOWN);
}

static int by_count(const void *a, const void *b) {
    const syn_statistics_row *x = *(const syn_statistics_row *const *)a;
    const syn_statistics_row *y = *(const syn_statistics_row *const *)b;
    if (x->count != y->count) return x->count > y->count ? -1 : 1;
    return x->micros != y->micros ? (x->micros > y->micros ? -1 : 1) : strcmp(x->name, y->name);
}

/* Prints the TOP ops by time, which is the order in which they are stored, and the TOP ops by
   count. */
static void print_ops(const syn_statistics *s) {
    const size_t shown = s->n_ops < TOP ? s->n_ops : TOP;
    if (s->sum_micros != 0) {
        print_heading("ops by time", s, false);
        for (size_t i = 0; i < shown; i++) print_row(s->ops[i].name, &s->ops[i], s, false);
    }
    const syn_statistics_row **rows = malloc((s->n_ops + 1) * sizeof *rows);
    if (rows == NULL) return;
    for (size_t i = 0; i < s->n_ops; i++) rows[i] = &s->ops[i];
    qsort(rows, s->n_ops, sizeof *rows, by_count);
    print_heading("ops by count", s, false);
    for (size_t i = 0; i < shown; i++) print_row(rows[i]->name, rows[i], s, false);
    free(rows);
}

static void print_metadata(const syn_statistics *s) {
    printf("\nschema          ");
    cli_print_escaped(stdout, s->version ? s->version : "(no version)",
                      strlen(s->version ? s->version : "(no version)"));
    putchar('\n');
    for (size_t i = 0; i < s->n_metadata && i < SHOWN; i++) {
        print_name(s->metadata[i].name, 15);
        putchar(' ');
        const size_t bytes = strlen(s->metadata[i].value);
        cli_print_escaped(stdout, s->metadata[i].value, bytes < 200 ? bytes : 200);
        printf("%s\n", bytes < 200 ? "" : "...");
    }
    if (s->n_metadata > SHOWN) printf("(%zu more attributes: see --json)\n", s->n_metadata - SHOWN);
}

static void print_text(const syn_statistics_set *set) {
    anomaly odd[N_ANOMALIES];
    name_scope(set->n_ranks);
    print_ranks(set);
    print_counts(&set->total);
    print_communication(&set->total);
    print_ops(&set->total);
    print_metadata(&set->ranks[0]);
    find_anomalies(&set->total, odd);
    for (size_t i = 0; i < N_ANOMALIES; i++)
        if (odd[i].count != 0) printf("warning: %" PRIu64 " %s\n", odd[i].count, odd[i].text);
}

/* ---- JSON ---- */

static void put_rows(syn_sink *sink, const char *key, const syn_statistics_row *rows, size_t n) {
    syn_sink_printf(sink, ",\n \"%s\": [", key);
    for (size_t i = 0; i < n; i++) {
        syn_sink_text(sink, i ? ",\n  {\"name\": " : "\n  {\"name\": ");
        syn_sink_json_string(sink, rows[i].name);
        syn_sink_printf(sink,
                        ", \"count\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"us\": %" PRIu64
                        ", \"waiting_us\": %" PRIu64 "}",
                        rows[i].count, rows[i].bytes, rows[i].micros, rows[i].wait_ns / 1000);
    }
    syn_sink_char(sink, ']');
}

static void put_count(syn_sink *sink, const char *key, uint64_t value) {
    syn_sink_printf(sink, ", \"%s\": %" PRIu64, key, value);
}

static void put_numbers(syn_sink *sink, const syn_statistics *s) {
    syn_sink_printf(sink, "\"rank\": %" PRId32, s->rank);
    put_count(sink, "file_bytes", s->file_bytes);
    put_count(sink, "nodes", s->n_nodes);
    put_count(sink, "ctrl_deps", s->n_ctrl_deps);
    put_count(sink, "data_deps", s->n_data_deps);
    put_count(sink, "roots", s->n_roots);
    put_count(sink, "widest_ready", s->widest_ready);
    put_count(sink, "critical_us", s->critical_micros);
    put_count(sink, "critical_nodes", s->critical_nodes);
    put_count(sink, "sum_us", s->sum_micros);
    put_count(sink, "waiting_us", s->wait_ns / 1000);
    put_count(sink, "timed_nodes", s->n_timed);
    put_count(sink, "num_ops", s->num_ops);
    put_count(sink, "tensor_bytes", s->tensor_bytes);
    put_count(sink, "cpu_nodes", s->n_cpu);
    put_count(sink, "communication_nodes", s->n_communication);
    put_count(sink, "cpu_communication_nodes", s->n_cpu_communication);
    put_count(sink, "collective_bytes", s->collective_bytes);
    put_count(sink, "send_bytes", s->send_bytes);
    put_count(sink, "recv_bytes", s->recv_bytes);
}

static void put_named(syn_sink *sink, const char *key, const uint64_t *counts, size_t n,
                      const char *(*name)(size_t)) {
    const char *comma = "";
    syn_sink_printf(sink, ",\n \"%s\": {", key);
    for (size_t i = 0; i < n; i++) {
        if (counts[i] == 0) continue;
        syn_sink_printf(sink, "%s\"%s\": %" PRIu64, comma, name(i), counts[i]);
        comma = ", ";
    }
    syn_sink_char(sink, '}');
}

static void put_counts(syn_sink *sink, const syn_statistics *s) {
    const char *comma = "";
    put_named(sink, "types", s->types, SYN_STATISTICS_TYPES, type_name);
    put_named(sink, "dependency_classes", s->classes, SYN_STATISTICS_CLASSES,
              syn_statistics_class_name);
    syn_sink_text(sink, ",\n \"collectives\": {");
    for (size_t i = 0; i < SYN_STATISTICS_COLLECTIVES; i++) {
        const syn_statistics_row *row = &s->collectives[i];
        if (row->count == 0) continue;
        syn_sink_printf(sink,
                        "%s\"%s\": {\"count\": %" PRIu64 ", \"bytes\": %" PRIu64
                        ", \"us\": %" PRIu64 ", \"waiting_us\": %" PRIu64 "}",
                        comma, syn_statistics_collective_name(i), row->count, row->bytes,
                        row->micros, row->wait_ns / 1000);
        comma = ", ";
    }
    syn_sink_char(sink, '}');
}

static void put_metadata(syn_sink *sink, const syn_statistics *s) {
    syn_sink_text(sink, ",\n \"version\": ");
    if (s->version == NULL) syn_sink_text(sink, "null");
    else syn_sink_json_string(sink, s->version);
    syn_sink_text(sink, ", \"metadata\": [");
    for (size_t i = 0; i < s->n_metadata; i++) {
        syn_sink_text(sink, i ? ",\n  {\"name\": " : "\n  {\"name\": ");
        syn_sink_json_string(sink, s->metadata[i].name);
        syn_sink_text(sink, ", \"value\": ");
        syn_sink_text(sink, s->metadata[i].value);
        syn_sink_char(sink, '}');
    }
    syn_sink_char(sink, ']');
}

static void put_one(syn_sink *sink, const syn_statistics *s, bool total) {
    anomaly odd[N_ANOMALIES];
    const char *comma = "";
    syn_sink_text(sink, "{");
    put_numbers(sink, s);
    put_counts(sink, s);
    put_rows(sink, "groups", s->groups, s->n_groups);
    put_rows(sink, "ops", s->ops, s->n_ops);
    if (!total) put_metadata(sink, s);
    syn_sink_text(sink, ",\n \"warnings\": [");
    find_anomalies(s, odd);
    for (size_t i = 0; i < N_ANOMALIES; i++) {
        if (odd[i].count == 0) continue;
        syn_sink_printf(sink, "%s{\"count\": %" PRIu64 ", \"text\": ", comma, odd[i].count);
        syn_sink_json_string(sink, odd[i].text);
        syn_sink_char(sink, '}');
        comma = ", ";
    }
    syn_sink_text(sink, "]}");
}

static syn_status print_json(const syn_statistics_set *set, syn_error *err) {
    syn_sink *sink;
    SYN_TRY(cli_json_open(&sink, &program, err));
    syn_sink_text(sink, ", \"total\": ");
    put_one(sink, &set->total, true);
    syn_sink_text(sink, ",\n\"ranks\": [");
    for (size_t i = 0; i < set->n_ranks; i++) {
        syn_sink_text(sink, i ? ",\n" : "\n");
        put_one(sink, &set->ranks[i], false);
    }
    syn_sink_char(sink, ']');
    return cli_json_close(sink, SYN_OK, err);
}

/* ---- The command ---- */

int command_stat(int argc, char **argv) {
    syn_error err = {0};
    syn_statistics_set set = {.n_ranks = 0};
    const char *const *paths;
    size_t n;
    const int code = cli_parse_set(&program, argc, argv, &args.input, &paths, &n);
    if (code != CLI_RUN) return code;
    syn_status s = cli_take_standard_input(paths, n, &err);
    if (s == SYN_OK) s = syn_statistics_read(&set, paths, n, args.max_unpacked_bytes, &err);
    if (s == SYN_OK && args.json) s = print_json(&set, &err);
    else if (s == SYN_OK) print_text(&set);
    syn_statistics_free(&set);
    return cli_done(&program, s, &err);
}
