#include "tools/commands/simulated_path.h"

#include <inttypes.h>
#include <string.h>

#include "tools/cli.h"

enum { WIDTH = 44, KINDS = 16, NAMES = 8 };

/* A text of the path; NULL: none. */
static const char *text_of(const syn_simulation *sim, uint32_t text) {
    return text != UINT32_MAX ? syn_intern_get(&sim->path_texts, text) : NULL;
}

/* ---- Text ---- */

static void print_sum(const syn_simulation *sim, const syn_simulated_sum *sum, const char *what,
                      FILE *out) {
    char time[32], shown[WIDTH + 1];
    fprintf(out, "%-*s %9" PRIu64 " %10s %7.1f %%\n", WIDTH, cli_shown(what, shown, sizeof shown),
            sum->n_nodes, cli_time_text((double)sum->ns, time, sizeof time),
            sim->end_ns > 0 ? 100 * (double)sum->ns / (double)sim->end_ns : 0);
}

/* "compute", or "ALL_REDUCE in group 3". */
static const char *kind_text(const syn_simulation *sim, const syn_simulated_sum *sum, char *text,
                             size_t bytes) {
    static const char *const names[][2] = {{"COMPUTE", "compute"},
                                           {"OTHER", "CPU ops, memory, metadata"},
                                           {"SEND", "messages: sends"},
                                           {"RECV", "messages: receives"}};
    const char *group = text_of(sim, sum->text);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(sum->kind, names[i][0]) == 0) return names[i][1];
    if (group == NULL || strcmp(group, sim->world) == 0)
        snprintf(text, bytes, "%s on all ranks", sum->kind);
    else snprintf(text, bytes, "%s in group %s", sum->kind, group);
    return text;
}

void simulated_path_print(const syn_simulation *sim, FILE *out) {
    char text[256];
    if (sim->n_path == 0) return;
    fprintf(out, "\n%-*s %9s %10s %9s\n", WIDTH, "critical path", "nodes", "time", "of end");
    for (size_t i = 0; i < sim->n_path_kinds && i < KINDS; i++)
        print_sum(sim, &sim->path_kinds[i], kind_text(sim, &sim->path_kinds[i], text, sizeof text),
                  out);
    if (sim->n_path_kinds > KINDS)
        fprintf(out, "(%zu more lines: see --json)\n", sim->n_path_kinds - KINDS);
    fprintf(out, "\n%-*s %9s %10s %9s\n", WIDTH, "names on the critical path", "nodes", "time",
            "of end");
    for (size_t i = 0; i < sim->n_path_names && i < NAMES; i++)
        print_sum(sim, &sim->path_names[i], text_of(sim, sim->path_names[i].text), out);
    if (sim->n_path_names > NAMES)
        fprintf(out, "(%zu more names: see --json)\n", sim->n_path_names - NAMES);
}

/* ---- Files ---- */

static void put_csv_text(syn_sink *out, const char *text) {
    const bool quoted = strpbrk(text, ",\"\r\n") != NULL;
    if (quoted) syn_sink_char(out, '"');
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '"') syn_sink_char(out, '"');
        syn_sink_char(out, *at);
    }
    if (quoted) syn_sink_char(out, '"');
}

void simulated_path_put_csv(const syn_simulation *sim, syn_sink *csv) {
    syn_sink_text(csv, "rank,node,name,kind,group,start_ns,duration_ns\n");
    for (size_t i = 0; i < sim->n_path; i++) {
        const syn_simulated_step *step = &sim->path[i];
        const char *group = text_of(sim, step->group);
        syn_sink_printf(csv, "%" PRId32 ",%" PRIu64 ",", step->rank, step->id);
        put_csv_text(csv, text_of(sim, step->name));
        syn_sink_printf(csv, ",%s,", step->kind);
        put_csv_text(csv, group != NULL ? group : "");
        syn_sink_printf(csv, ",%" PRIu64 ",%" PRIu64 "\n", step->start_ns, step->ns);
    }
}

static void put_sums(const syn_simulation *sim, syn_sink *json, const syn_simulated_sum *sums,
                     size_t n) {
    for (size_t i = 0; i < n; i++) {
        const char *text = text_of(sim, sums[i].text);
        syn_sink_text(json, i > 0 ? ",\n  {" : "\n  {");
        if (sums[i].kind != NULL)
            syn_sink_printf(json, "\"kind\": \"%s\", \"group\": ", sums[i].kind);
        else syn_sink_text(json, "\"name\": ");
        if (text != NULL) syn_sink_json_string(json, text);
        else syn_sink_text(json, "null");
        syn_sink_printf(json, ", \"nodes\": %" PRIu64 ", \"ns\": %" PRIu64 "}", sums[i].n_nodes,
                        sums[i].ns);
    }
}

void simulated_path_put_json(const syn_simulation *sim, syn_sink *json) {
    syn_sink_printf(json, "{\"nodes\": %zu, \"kinds\": [", sim->n_path);
    put_sums(sim, json, sim->path_kinds, sim->n_path_kinds);
    syn_sink_text(json, "],\n \"names\": [");
    put_sums(sim, json, sim->path_names, sim->n_path_names);
    syn_sink_text(json, "]}");
}
