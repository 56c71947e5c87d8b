/* syntorch convert-all: converts every pair of PyTorch traces in a folder. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "export/text/loose_json.h"
#include "export/validate.h"
#include "syntorch/base/memory.h"
#include "tools/cli_json.h"
#include "tools/commands/command.h"
#include "tools/inputs.h"
#include "tools/pytorch/pytorch_job.h"
#include "tools/pytorch/recorded_name.h"

static struct arguments {
    const char *input, *out_dir;
    uint64_t max_unpacked_bytes;
    int profile; /* syn_pytorch_profile */
    bool strict, json;
} args;

static const cli_option options[] = {
    {"input", CLI_TEXT, &args.input, "DIR", "folder with PyTorch traces; --input may be omitted", 0,
     0},
    {"out_dir", CLI_TEXT, &args.out_dir, "DIR",
     "folder for execution traces; default: the input folder", 0, 0},
    {"profile", CLI_CHOICE, &args.profile, "full|astra-sim", "as for convert pytorch", 0, 0},
    {"strict", CLI_FLAG, &args.strict, NULL, "count anomalies as failures", 0, 0},
    CLI_JSON(&args.json),
    CLI_MAX_UNPACKED(&args.max_unpacked_bytes),
    {"output", CLI_ALIAS, NULL, "out_dir", NULL, 0, 0},
    CLI_END};

static const char *const examples[] = {"syntorch convert-all traces --out_dir et",
                                       "syntorch convert-all traces --profile astra-sim", NULL};

static const cli_program program = {
    "syntorch convert-all",
    "Converts all PyTorch traces of a folder, also gzip files, and prints a table. NAME_host.json "
    "with NAME_device.json or NAME_kineto.json becomes NAME.et. Ranks of a job become a set: "
    "host.<rank>.json and device.<rank>.json become trace.<rank>.et; NAME_host.<rank>.json and "
    "NAME.<rank>_host.json become NAME.<rank>.et. A device trace without a host trace is converted "
    "alone, also NAME.pt.trace.json of torch.profiler.tensorboard_trace_handler.",
    options, examples, false};

/* A host trace with its device trace, or one of them alone. Owns its strings. */
typedef struct entry {
    char *stem;          /* NAME of the output */
    char *host, *device; /* paths; one of them may be NULL */
    size_t prefix_bytes; /* length of PREFIX in PREFIX.<rank>; 0: no rank */
    int32_t rank;
} entry;

typedef struct folder {
    entry *entries;
    size_t n, cap;
    size_t n_failed;
    syn_sink *json; /* NULL: print a table */
    bool first;     /* no conversion is in the object yet */
} folder;

static syn_status join(char **out, const char *dir, const char *name, size_t bytes,
                       const char *tail, syn_error *err) {
    const size_t n = strlen(dir) + bytes + strlen(tail) + 2;
    *out = syn_malloc(n);
    if (!*out) return SYN_FAIL_NOMEM(err, n, "a name");
    snprintf(*out, n, "%s/%.*s%s", dir, (int)bytes, name, tail);
    return SYN_OK;
}

/* Replaces the word in `name` (see recorded_name) by each of `words` in turn, with and without .gz,
   and finds the first such file that exists. Sets *out to its path; NULL: none. */
static syn_status find_file(char **out, const recorded_name *name, const char *const *words,
                            syn_error *err) {
    *out = NULL;
    for (size_t i = 0; words[i] && !*out; i++)
        for (int packed = 0; packed < 2 && !*out; packed++) {
            char end[320]; /* word, .RANK.json and .gz */
            snprintf(end, sizeof end, "%s%.*s%s", words[i], (int)name->tail_bytes,
                     name->name + name->tail_at, packed ? ".gz" : "");
            SYN_TRY(join(out, args.input, name->name, name->head_bytes, end, err));
            if (syn_file_exists(*out)) continue;
            syn_free(*out);
            *out = NULL;
        }
    return SYN_OK;
}

static void find_rank(entry *e, size_t n) {
    size_t at = n;
    int64_t rank = 0;
    while (at > 0 && e->stem[at - 1] >= '0' && e->stem[at - 1] <= '9') at--;
    const syn__str digits = {e->stem + at, n - at};
    if (at < 2 || e->stem[at - 1] != '.' || !syn__loose_i64(digits, &rank) || rank > INT32_MAX)
        return;
    e->rank = (int32_t)rank;
    e->prefix_bytes = at - 1;
}

static const char *const host_words[] = {"host", NULL};

/* Adds an entry for a file and the trace that belongs to it. Skips the device trace of a host
   trace, because the host trace adds the entry for both. */
static syn_status add_entry(folder *f, const char *name, syn_error *err) {
    recorded_name named;
    entry e = {.rank = -1};
    if (!recorded_name_parse(&named, name)) return SYN_OK;
    syn_status s = find_file(&e.host, &named, host_words, err);
    if (s == SYN_OK) s = find_file(&e.device, &named, recorded_device_words, err);
    const char *first = e.host ? e.host : e.device;
    const char *file = first ? strrchr(first, '/') : NULL;
    if (s == SYN_OK && file && strcmp(file + 1, name) == 0) {
        e.stem = recorded_name_stem(&named);
        s = e.stem ? syn_grow(&f->entries, &f->cap, f->n + 1, sizeof *f->entries, err)
                   : SYN_FAIL_NOMEM(err, strlen(name), "a name");
        if (s == SYN_OK) {
            find_rank(&e, strlen(e.stem));
            f->entries[f->n++] = e;
            return SYN_OK;
        }
    }
    syn_free(e.stem);
    syn_free(e.host);
    syn_free(e.device);
    return s;
}

static syn_status list_folder(folder *f, syn_error *err) {
    DIR *dir = opendir(args.input);
    syn_status s = SYN_OK;
    if (!dir) return SYN_FAIL(err, SYN_E_IO, "cannot read %.300s: %s", args.input, strerror(errno));
    for (struct dirent *d; s == SYN_OK && (d = readdir(dir)) != NULL;)
        s = add_entry(f, d->d_name, err);
    closedir(dir);
    if (s == SYN_OK && f->n == 0)
        s = SYN_FAIL(err, SYN_E_INVALID,
                     "%.300s has no file named host.<rank>.json, ..._host.json, "
                     "device.<rank>.json, ..._device.json, ..._kineto.json or ....pt.trace.json",
                     args.input);
    return s;
}

static bool same_set(const entry *a, const entry *b) {
    return a->rank >= 0 && b->rank >= 0 && a->prefix_bytes == b->prefix_bytes &&
           memcmp(a->stem, b->stem, a->prefix_bytes) == 0;
}

static int by_name(const void *x, const void *y) {
    const entry *a = x, *b = y;
    if (same_set(a, b)) return a->rank < b->rank ? -1 : a->rank > b->rank;
    return strcmp(a->stem, b->stem);
}

/* ---- One pair, or one set ---- */

/* Whether `syntorch validate` finds no problem in the output. */
static bool is_valid(const char *path, bool is_set, bool sim) {
    const syn_validate_options how = {.any_node = !sim, .single = !is_set};
    syn_validation result = {0};
    syn_error err = {0};
    const syn_status s = syn_validate(&result, &path, 1, &how, &err);
    const bool valid = s == SYN_OK && result.n_problems == 0;
    syn_validation_free(&result);
    return valid;
}

/* Prints the row of a rank. In a set, size and time are printed only in the first row; they are
   those of the whole set. */
static void print_row(const entry *e, const syn_pytorch_rank_report *r, const pytorch_outcome *o,
                      const char *verdict) {
    char size[32] = "", seconds[32] = "", stem[CLI_SHOWN_BYTES];
    const syn_pytorch_matches *m = &r->matches;
    const uint64_t in = m->host_nodes + m->device_events;
    const uint64_t host_found =
        r->host ? m->host_rf_id + m->host_external + m->host_time : m->host_nodes;
    const uint64_t found = host_found + m->device_events - m->device_none;
    if (r == o->report.ranks) {
        cli_bytes_text((double)o->report.out_bytes, size, sizeof size);
        snprintf(seconds, sizeof seconds, "%.3f", o->seconds);
    }
    printf("%-28s %9" PRIu64 " %9" PRIu64 " %6.1f %% %10" PRIu64 " %10s %8s  %s%s\n",
           cli_shown(e->stem, stem, sizeof stem), in, r->n_nodes,
           in ? 100.0 * (double)found / (double)in : 0.0, o->report.n_anomalies, size, seconds,
           verdict,
           !r->host     ? ", no host trace"
           : !r->device ? ", no device trace"
                        : "");
}

static void print_failure(const entry *e, const syn_error *why) {
    char stem[CLI_SHOWN_BYTES], text[CLI_SHOWN_BYTES];
    printf("%-28s failed: %s\n", cli_shown(e->stem, stem, sizeof stem),
           cli_shown(why->text, text, sizeof text));
}

/* Begins the object of a rank with its files; the caller ends it. */
static void begin_rank(folder *f, const entry *e) {
    syn_sink_text(f->json, f->first ? "\n {\"name\": " : ",\n {\"name\": ");
    syn_sink_json_string(f->json, e->stem);
    cli_json_text(f->json, "host", e->host);
    cli_json_text(f->json, "device", e->device);
    f->first = false;
}

/* output: the file, or the prefix of the set. */
static void put_rank(folder *f, const entry *e, const syn_pytorch_rank_report *r,
                     const pytorch_outcome *o, const char *output, const char *verdict) {
    const syn_pytorch_matches *m = &r->matches;
    char path[4096];
    begin_rank(f, e);
    if (o->report.n_ranks > 1) snprintf(path, sizeof path, "%s.%" PRId32 ".et", output, e->rank);
    cli_json_text(f->json, "output", o->report.n_ranks > 1 ? path : output);
    cli_json_text(f->json, "verdict", verdict);
    cli_json_count(f->json, "nodes_in", m->host_nodes + m->device_events);
    cli_json_count(f->json, "nodes", r->n_nodes);
    cli_json_count(f->json, "anomalies", o->report.n_anomalies);
    cli_json_count(f->json, "job_bytes", o->report.out_bytes);
    cli_json_real(f->json, "job_seconds", o->seconds);
    syn_sink_char(f->json, '}');
}

static void put_failure(folder *f, const entry *e, const syn_error *why) {
    begin_rank(f, e);
    cli_json_text(f->json, "verdict", "failed");
    cli_json_text(f->json, "error", why->text);
    syn_sink_char(f->json, '}');
}

static syn_status run_job(pytorch_job *job, const entry *entries, size_t n, pytorch_outcome *o,
                          syn_error *err) {
    for (size_t i = 0; i < n; i++) {
        SYN_TRY(pytorch_add_files(job, entries[i].host, entries[i].device, err));
        job->files[i].rank = entries[i].rank;
    }
    job->options.is_set = n > 1;
    return pytorch_convert(job, o, err);
}

static syn_status convert(folder *f, const entry *entries, size_t n, syn_error *err) {
    pytorch_job job = {.options = {.strict = args.strict}};
    pytorch_outcome o = {0};
    syn_error failed = {0};
    char *output = NULL;
    const bool sim = args.profile == SYN_PYTORCH_ASTRA_SIM;
    job.options.profile = (syn_pytorch_profile)args.profile;
    job.options.version = "syntorch " SYN_VERSION;
    job.options.max_unpacked_bytes = args.max_unpacked_bytes;
    SYN_TRY(join(&output, args.out_dir, entries->stem,
                 n > 1 ? entries->prefix_bytes : strlen(entries->stem), n > 1 ? "" : ".et", err));
    job.output = output;
    job.program = &program;
    const syn_status s = run_job(&job, entries, n, &o, &failed);
    if (s == SYN_OK) {
        const bool valid = is_valid(output, n > 1, sim);
        const char *verdict = !valid                     ? "invalid"
                              : o.report.n_anomalies > 0 ? "ok, with warnings"
                                                         : "ok";
        for (size_t i = 0; i < n; i++)
            if (f->json) put_rank(f, &entries[i], &o.report.ranks[i], &o, output, verdict);
            else print_row(&entries[i], &o.report.ranks[i], &o, verdict);
        f->n_failed += !valid;
    } else {
        f->n_failed++;
        if (f->json) put_failure(f, entries, &failed);
        else print_failure(entries, &failed);
    }
    fflush(stdout);
    pytorch_print_notes(&o.report, stderr);
    pytorch_outcome_free(&o);
    pytorch_job_free(&job);
    syn_free(output);
    return SYN_OK;
}

/* Fails if two entries have the same output, such as job_host.0.json and job.0_host.json. */
static syn_status check_stems(const folder *f, syn_error *err) {
    for (size_t i = 1; i < f->n; i++) {
        const entry *a = &f->entries[i - 1], *b = &f->entries[i];
        if (strcmp(a->stem, b->stem) == 0)
            return SYN_FAIL(
                err, SYN_E_INVALID,
                "%.200s and %.200s would both become %.200s.et; move one to another folder",
                a->host ? a->host : a->device, b->host ? b->host : b->device, a->stem);
    }
    return SYN_OK;
}

static syn_status convert_folder(folder *f, syn_error *err) {
    SYN_TRY(list_folder(f, err));
    qsort(f->entries, f->n, sizeof *f->entries, by_name);
    SYN_TRY(check_stems(f, err));
    SYN_TRY(syn_make_folder(args.out_dir, err));
    if (args.json) {
        SYN_TRY(cli_json_open(&f->json, &program, err));
        cli_json_text(f->json, "input", args.input);
        syn_sink_text(f->json, ", \"conversions\": [");
    } else {
        printf("%-28s %9s %9s %8s %10s %10s %8s  %s\n", "file", "nodes in", "out", "matched",
               "anomalies", "size", "seconds", "verdict");
    }
    for (size_t i = 0, end = 0; i < f->n; i = end) {
        end = i + 1;
        while (end < f->n && same_set(&f->entries[i], &f->entries[end])) end++;
        SYN_TRY(convert(f, f->entries + i, end - i, err));
    }
    if (f->json) {
        syn_sink_char(f->json, ']');
        cli_json_count(f->json, "failed", f->n_failed);
    }
    return SYN_OK;
}

static void free_folder(folder *f) {
    for (size_t i = 0; i < f->n; i++) {
        syn_free(f->entries[i].stem);
        syn_free(f->entries[i].host);
        syn_free(f->entries[i].device);
    }
    syn_free(f->entries);
}

int command_convert_all(int argc, char **argv) {
    folder f = {.first = true};
    syn_error err = {0};
    const char *const *paths;
    size_t n;
    int code = cli_parse_inputs(&program, argc, argv, &args.input, "a folder is", &paths, &n);
    if (code != CLI_RUN) return code;
    if (n > 1) return cli_fail(&program, CLI_USAGE, "convert-all converts one folder at a time");
    code = cli_refuse_standard_input(&program, paths[0], "a folder");
    if (code != CLI_RUN) return code;
    args.input = paths[0];
    if (!args.out_dir) args.out_dir = args.input;
    const syn_status converted = convert_folder(&f, &err);
    const syn_status s = cli_json_close(f.json, converted, &err);
    free_folder(&f);
    if (s != SYN_OK) return cli_fail(&program, CLI_FAILED, "%s", err.text);
    if (f.n_failed == 0) return CLI_OK;
    return cli_fail(&program, CLI_FAILED, "%zu conversions failed; the table gives the reasons",
                    f.n_failed);
}
