/* Converts traces in files to other files: reads each rank, finds its ops and their dependencies,
   makes the ranks consistent, and writes them. */
#include "export/pytorch/pt_convert.h"

#include <stdio.h>

#include "export/chakra/wire/et_files.h"
#include "export/chakra/wire/et_schema.h"
#include "export/pytorch/comm/pt_comm.h"
#include "export/pytorch/deps/pt_deps.h"
#include "export/pytorch/match/pt_match.h"
#include "export/pytorch/read/pt_notes.h"
#include "export/pytorch/set/pt_set.h"
#include "export/pytorch/set/pt_set_clock.h"
#include "export/pytorch/write/pt_merge_rank.h"
#include "export/pytorch/write/pt_write.h"
#include "syntorch/base/memory.h"

/* Progress steps per rank: read, matched, connected, written. */
#define STEPS 4

#define MAX_PATH 4096

static bool is_set(const syn__pt_conversion *c) {
    return c->options->is_set || c->n_sources > 1;
}

static void step(syn__pt_conversion *c, int64_t n) {
    c->n_steps += n;
    if (c->options->progress)
        c->options->progress(c->options->user, c->n_steps, (int64_t)(STEPS * c->n_sources));
}

static uint64_t count_anomalies(const syn_pytorch_report *report) {
    uint64_t n = 0;
    for (int i = 0; i < SYN_PYTORCH_ANOMALIES; i++) n += report->notes[i].count > 0;
    return n;
}

/* ---- One rank ---- */

/* The rank given for a source; NULL: none. A guess from the file name is ignored if it cannot be a
   rank according to the device trace's own rank and world size. The number is then a process id or
   a time. */
static const int32_t *given_rank(const syn_pytorch_source *source, const syn__pt_rank *r) {
    const bool no_rank = source->rank_is_guessed && source->rank && r->rank >= 0 &&
                         r->world_size > r->rank && *source->rank >= r->world_size;
    return no_rank ? NULL : source->rank;
}

static syn_status read_rank(syn__pt_conversion *c, size_t i, syn_error *err) {
    syn__pt_rank *r = &c->ranks[i];
    const syn_pytorch_rank_report *names = &c->report->ranks[i];
    syn_pytorch_note *notes = c->report->notes;
    c->n_ranks = i + 1;
    SYN_TRY(syn__pt_rank_read(r, names->host, names->device, c->options, notes, err));
    step(c, 1);
    const int32_t *rank = given_rank(&c->sources[i], r);
    c->report->in_bytes += r->host_input.bytes + r->device_input.bytes;
    if (rank && r->rank >= 0 && r->rank != *rank)
        syn__pt_note_at(notes, SYN_PYTORCH_ANOMALY_RANK_DIFFERS, r->device_input.name,
                        SYN_PYTORCH_NO_PLACE, SYN_PYTORCH_NO_PLACE);
    if (rank) r->rank = *rank;
    if (r->rank < 0) r->rank = (int32_t)i;
    return SYN_OK;
}

static syn_status prepare(syn__pt_conversion *c, syn__pt_rank *r, syn_error *err) {
    syn_pytorch_note *notes = c->report->notes;
    SYN_TRY(syn__pt_match(r, c->options, notes, err));
    step(c, 1);
    SYN_TRY(syn__pt_find_comms(r, notes, err));
    SYN_TRY(syn__pt_connect(r, c->options, err));
    SYN_TRY(syn__pt_order(r, notes, err));
    step(c, 1);
    return SYN_OK;
}

static syn_status write_rank(syn__pt_conversion *c, size_t i, const char *path, syn_error *err) {
    const syn__pt_rank *r = &c->ranks[i];
    syn_pytorch_rank_report *report = &c->report->ranks[i];
    syn_sink *sink = NULL;
    SYN_TRY(syn__input_files_keep(&c->inputs, path, err));
    SYN_TRY(syn_sink_open_file(&sink, path, err));
    const bool full = c->options->profile == SYN_PYTORCH_FULL;
    const syn_status s =
        full ? syn__pt_write_full(r, c->options->version, sink, err)
             : syn__pt_write_sim(r, c->options->version, sink, &report->simulated, err);
    report->n_nodes = full ? r->n_ops : report->simulated.nodes;
    c->report->out_bytes += syn_sink_bytes(sink);
    const syn_status closed = syn_sink_close(sink, s == SYN_OK, err);
    return s != SYN_OK ? s : closed;
}

static syn_status write_link(syn__pt_conversion *c, syn_error *err) {
    const syn__pt_rank *r = c->ranks;
    syn__pt_merged_list list = {0};
    syn_sink *sink = NULL;
    syn_status s = syn__input_files_keep(&c->inputs, c->output, err);
    if (s == SYN_OK) s = syn__pt_merge_rank(r, &list, err);
    if (s == SYN_OK) s = syn_sink_open_file(&sink, c->output, err);
    if (s == SYN_OK) s = syn__pt_write_linked(&r->host, &r->device, &list, sink, err);
    c->report->ranks->n_nodes = list.n_nodes;
    c->report->out_bytes = sink ? syn_sink_bytes(sink) : 0;
    const syn_status closed = syn_sink_close(sink, s == SYN_OK, err);
    syn__pt_merged_free(&list);
    return s != SYN_OK ? s : closed;
}

/* ---- File names ---- */

static syn_status path_of(const syn__pt_conversion *c, const syn__pt_rank *r, char path[MAX_PATH],
                          syn_error *err) {
    const int n = is_set(c)
                      ? snprintf(path, MAX_PATH, "%.*s.%d.et", (int)syn__et_prefix_bytes(c->output),
                                 c->output, (int)r->rank)
                      : snprintf(path, MAX_PATH, "%s", c->output);
    if (n < 0 || n >= MAX_PATH)
        return SYN_FAIL(err, SYN_E_INVALID, "the output's name is too long");
    return SYN_OK;
}

/* ---- The group file ---- */

/* Whether a group file with other content exists. */
static bool differs(const syn__pt_conversion *c, const char *path) {
    syn_sink *sink = NULL;
    char *old = NULL;
    size_t old_bytes = 0, bytes = 0;
    bool found = false;
    if (syn_read_file(path, (size_t)1 << 28, &old, &old_bytes, NULL) != SYN_OK) return false;
    if (syn_sink_open_memory(&sink, NULL) == SYN_OK) {
        syn__pt_write_groups(c->ranks, c->n_ranks, sink);
        const char *text = syn_sink_data(sink, &bytes);
        found = text && (bytes != old_bytes || memcmp(text, old, bytes) != 0);
        (void)syn_sink_close(sink, false, NULL);
    }
    syn_free(old);
    return found;
}

static syn_status write_groups(syn__pt_conversion *c, syn_error *err) {
    char path[MAX_PATH];
    syn_sink *sink = NULL;
    size_t n_groups = 0;
    for (size_t i = 0; i < c->n_ranks; i++) n_groups += c->ranks[i].n_groups;
    if (strcmp(c->output, "-") == 0 || (n_groups == 0 && !is_set(c))) return SYN_OK;
    const int n = snprintf(path, sizeof path, "%.*s.comm_group.json",
                           (int)syn__et_prefix_bytes(c->output), c->output);
    if (n < 0 || (size_t)n >= sizeof path)
        return SYN_FAIL(err, SYN_E_INVALID, "the output's name is too long");
    SYN_TRY(syn__input_files_keep(&c->inputs, path, err));
    c->report->groups_replaced = !is_set(c) && differs(c, path);
    SYN_TRY(syn_sink_open_file(&sink, path, err));
    syn__pt_write_groups(c->ranks, c->n_ranks, sink);
    c->report->groups_written = true;
    return syn_sink_close(sink, true, err);
}

/* ---- A set ---- */

/* Removes the first n files of a trace set after a failure, because a set must be written
   completely or not at all. */
static void remove_first(const syn__pt_conversion *c, size_t n) {
    char path[MAX_PATH];
    for (size_t i = 0; i < n; i++)
        if (path_of(c, &c->ranks[i], path, NULL) == SYN_OK) (void)remove(path);
}

static syn_status write_all(syn__pt_conversion *c, syn_error *err) {
    char path[MAX_PATH];
    if (is_set(c)) SYN_TRY(syn_make_prefix_folder(c->output, err));
    for (size_t i = 0; i < c->n_ranks; i++) {
        SYN_TRY(path_of(c, &c->ranks[i], path, err));
        const syn_status s = write_rank(c, i, path, err);
        if (s != SYN_OK) {
            remove_first(c, i);
            return s;
        }
        step(c, 1);
    }
    return write_groups(c, err);
}

static syn_status check_ranks(const syn__pt_conversion *c, syn_error *err) {
    for (size_t i = 1; i < c->n_ranks; i++)
        for (size_t j = 0; j < i; j++)
            if (c->ranks[i].rank == c->ranks[j].rank)
                return SYN_FAIL(err, SYN_E_INVALID, "%.200s and %.200s are both rank %d",
                                c->ranks[j].host_input.name, c->ranks[i].host_input.name,
                                (int)c->ranks[i].rank);
    return SYN_OK;
}

static void note_missing_ranks(const syn__pt_conversion *c) {
    int32_t world = 0;
    uint64_t here = 0;
    for (size_t i = 0; i < c->n_ranks; i++)
        if (c->ranks[i].world_size > world) world = c->ranks[i].world_size;
    for (size_t i = 0; i < c->n_ranks; i++) here += c->ranks[i].rank < world;
    if (is_set(c) && here < (uint64_t)world)
        syn__pt_note_many(c->report->notes, SYN_PYTORCH_ANOMALY_RANKS_MISSING,
                          (uint64_t)world - here, c->ranks[0].host_input.name,
                          SYN_PYTORCH_NO_PLACE);
}

static syn_status agree(syn__pt_conversion *c, syn_error *err) {
    SYN_TRY(check_ranks(c, err));
    note_missing_ranks(c);
    SYN_TRY(syn__pt_set_agree(c->ranks, c->n_ranks, c->report->notes, err));
    const uint64_t n = count_anomalies(c->report);
    if (!c->options->strict || n == 0) return SYN_OK;
    return SYN_FAIL(err, SYN_E_FORMAT,
                    "%llu kinds of anomalies were found, but --strict allows none",
                    (unsigned long long)n);
}

/* ---- The whole conversion ---- */

static syn_status convert_default(syn__pt_conversion *c, bool link, syn_error *err) {
    c->ranks = syn_calloc(c->n_sources, sizeof *c->ranks);
    if (!c->ranks) return SYN_FAIL_NOMEM(err, c->n_sources * sizeof *c->ranks, "ranks");
    for (size_t i = 0; i < c->n_sources; i++) SYN_TRY(read_rank(c, i, err));
    if (is_set(c)) syn__pt_set_clock(c->ranks, c->n_ranks, c->report->notes);
    for (size_t i = 0; i < c->n_ranks; i++) SYN_TRY(prepare(c, &c->ranks[i], err));
    if (link) SYN_TRY(write_link(c, err));
    else {
        SYN_TRY(agree(c, err));
        SYN_TRY(write_all(c, err));
    }
    for (size_t i = 0; i < c->n_ranks; i++) SYN_TRY(syn__pt_report_rank(c, i, err));
    return SYN_OK;
}

static syn_status keep_name(char **out, const char *name, syn_error *err) {
    if (!name) return SYN_OK;
    *out = syn_strdup(name);
    return *out ? SYN_OK : SYN_FAIL_NOMEM(err, strlen(name), "a name");
}

static syn_status take_sources(syn__pt_conversion *c, syn_error *err) {
    syn_pytorch_report *report = c->report;
    report->ranks = syn_calloc(c->n_sources, sizeof *report->ranks);
    if (!report->ranks) return SYN_FAIL_NOMEM(err, c->n_sources * sizeof *report->ranks, "ranks");
    report->n_ranks = c->n_sources;
    for (size_t i = 0; i < c->n_sources; i++) {
        const syn_pytorch_source *s = &c->sources[i];
        if (!s->host && !s->device)
            return SYN_FAIL(err, SYN_E_INVALID, "source %zu has neither a host nor a device trace",
                            i);
        SYN_TRY(keep_name(&report->ranks[i].host, s->host, err));
        SYN_TRY(keep_name(&report->ranks[i].device, s->device, err));
        SYN_TRY(syn__input_files_add(&c->inputs, s->host, err));
        SYN_TRY(syn__input_files_add(&c->inputs, s->device, err));
    }
    return SYN_OK;
}

static syn_status check_options(const syn__pt_conversion *c, syn_error *err) {
    const syn_pytorch_options *o = c->options;
    if (c->n_sources == 0) return SYN_FAIL(err, SYN_E_INVALID, "no trace was given");
    if (o->compat && (is_set(c) || !c->sources->host))
        return SYN_FAIL(err, SYN_E_INVALID,
                        "--compat converts one rank at a time and needs its host trace");
    if (o->profile == SYN_PYTORCH_ASTRA_SIM && o->without != 0)
        return SYN_FAIL(err, SYN_E_INVALID, "simulators need all classes of dependencies");
    for (size_t i = 0; o->trim && i < c->n_sources; i++)
        if (!c->sources[i].host || !c->sources[i].device)
            return SYN_FAIL(err, SYN_E_INVALID,
                            "trimming compares a host trace with its device trace; give both");
    return SYN_OK;
}

static syn_status run(syn_pytorch_report *report, const syn_pytorch_source *sources, size_t n,
                      const char *output, const syn_pytorch_options *options, bool link,
                      syn_error *err) {
    static const syn_pytorch_options defaults = {0};
    syn__pt_conversion c = {.sources = sources,
                            .n_sources = n,
                            .output = output,
                            .options = options ? options : &defaults,
                            .report = report};
    *report = (syn_pytorch_report){0};
    syn_status s = link ? SYN_OK : syn__et_supported(err);
    if (s == SYN_OK) s = check_options(&c, err);
    if (s == SYN_OK) s = take_sources(&c, err);
    step(&c, 0);
    if (s == SYN_OK)
        s = c.options->compat ? syn__pt_convert_compat(&c, link, err)
                              : convert_default(&c, link, err);
    step(&c, (int64_t)(STEPS * n) - c.n_steps);
    report->n_anomalies = count_anomalies(report);
    for (size_t i = 0; i < c.n_ranks; i++) syn__pt_rank_free(&c.ranks[i]);
    syn_free(c.ranks);
    syn__input_files_free(&c.inputs);
    return s;
}

syn_status syn_pytorch_convert(syn_pytorch_report *report, const syn_pytorch_source *sources,
                               size_t n_sources, const char *output,
                               const syn_pytorch_options *options, syn_error *err) {
    return run(report, sources, n_sources, output, options, false, err);
}

syn_status syn_pytorch_link(syn_pytorch_report *report, const syn_pytorch_source *source,
                            const char *output, const syn_pytorch_options *options,
                            syn_error *err) {
    return run(report, source, 1, output, options, true, err);
}
