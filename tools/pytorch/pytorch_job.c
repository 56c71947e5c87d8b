#include "tools/pytorch/pytorch_job.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "export/pytorch/comm/pt_comm.h"
#include "export/pytorch/compat/pt_compat.h"
#include "export/pytorch/deps/pt_deps.h"
#include "export/pytorch/match/pt_match.h"
#include "export/pytorch/set/pt_set.h"
#include "export/pytorch/write/pt_merge_rank.h"
#include "syntorch/memory.h"
#include "tools/cli.h"
#include "tools/inputs.h"
#include "tools/progress.h"

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- Files ---- */

/* What the pattern's star stands for in a path; NULL if the path does not match. */
static const char *starred(const char *pattern, const char *path, size_t *bytes) {
    const char *star = strchr(pattern, '*');
    if (!star) return NULL;
    const size_t head = (size_t)(star - pattern), tail = strlen(star + 1), n = strlen(path);
    if (n < head + tail) return NULL;
    *bytes = n - head - tail;
    return path + head;
}

static int32_t number(const char *text, size_t bytes) {
    int64_t v = -1;
    const syn__str s = {text, bytes};
    return bytes > 0 && text[0] != '-' && syn__loose_i64(s, &v) && v <= INT32_MAX ? (int32_t)v : -1;
}

static syn_status add_source(pytorch_job *job, const char *host, const char *device, int32_t rank,
                             syn_error *err) {
    SYN_TRY(
        syn_grow(&job->sources, &job->sources_cap, job->n_sources + 1, sizeof *job->sources, err));
    pytorch_source *s = &job->sources[job->n_sources];
    s->host = host ? syn_strdup(host) : NULL;
    s->device = device ? syn_strdup(device) : NULL;
    s->rank = rank;
    job->n_sources++;
    if ((host && !s->host) || (device && !s->device)) return SYN_FAIL_NOMEM(err, 1, "a name");
    return SYN_OK;
}

/* The device pattern with the host's part in place of its star; host_pattern NULL: `host` is a
   device trace. */
static syn_status add_starred(pytorch_job *job, const char *host_pattern, const char *host,
                              const char *device_pattern, syn_error *err) {
    size_t bytes = 0;
    const char *part = starred(host_pattern ? host_pattern : device_pattern, host, &bytes), *star;
    char device[4096];
    if (!host_pattern) return add_source(job, NULL, host, number(part, bytes), err);
    if (!device_pattern) return add_source(job, host, NULL, number(part, bytes), err);
    star = strchr(device_pattern, '*');
    if (!star)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "--host names a set with *, so --device must have a * as well");
    const int n = snprintf(device, sizeof device, "%.*s%.*s%s", (int)(star - device_pattern),
                           device_pattern, (int)bytes, part, star + 1);
    if (n < 0 || (size_t)n >= sizeof device)
        return SYN_FAIL(err, SYN_E_INVALID, "the device trace's name is too long");
    struct stat st;
    if (stat(device, &st) != 0)
        return SYN_FAIL(err, SYN_E_IO, "%.200s has no device trace: %.200s is not there", host,
                        device);
    return add_source(job, host, device, number(part, bytes), err);
}

static int by_rank(const void *x, const void *y) {
    const pytorch_source *a = x, *b = y;
    if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
    return strcmp(a->host ? a->host : a->device, b->host ? b->host : b->device);
}

syn_status pytorch_add_sources(pytorch_job *job, const char *host, const char *device,
                               syn_error *err) {
    glob_t found = {0};
    struct stat st;
    const char *pattern = host ? host : device;
    if (!strchr(pattern, '*') || stat(pattern, &st) == 0)
        return add_source(job, host, device, -1, err);
    job->is_set = true;
    const int code = glob(pattern, 0, NULL, &found);
    syn_status s = SYN_OK;
    if (code != 0) s = SYN_FAIL(err, SYN_E_IO, "no file matches %.300s", pattern);
    for (size_t i = 0; i < found.gl_pathc && s == SYN_OK; i++)
        s = add_starred(job, host, found.gl_pathv[i], device, err);
    globfree(&found);
    if (job->n_sources > 0) qsort(job->sources, job->n_sources, sizeof *job->sources, by_rank);
    return s;
}

/* No input is overwritten. */
static syn_status check_output(const pytorch_job *job, const char *path, syn_error *err) {
    cli_inputs inputs = {0};
    syn_status status = SYN_OK;
    for (size_t i = 0; i < job->n_sources && status == SYN_OK; i++) {
        status = cli_inputs_add(&inputs, job->sources[i].host, err);
        if (status == SYN_OK) status = cli_inputs_add(&inputs, job->sources[i].device, err);
    }
    if (status == SYN_OK) status = cli_inputs_keep(&inputs, path, err);
    cli_inputs_free(&inputs);
    return status;
}

/* ---- Compatible mode ---- */

typedef struct pair {
    syn__file_text host_input, device_input;
    syn__pt_host host;
    syn__pt_device device;
    syn__pt_merged_list merged;
} pair;

static void close_pair(pair *p) {
    syn__pt_merged_free(&p->merged);
    syn__pt_host_free(&p->host);
    syn__pt_device_free(&p->device);
    syn__file_text_close(&p->host_input);
    syn__file_text_close(&p->device_input);
}

/* Python's json reads NaN and Infinity, but stops at any other damage. */
static syn_status check_undamaged(const syn__pt_report *report, syn_error *err) {
    static const syn__pt_anomaly kinds[] = {
        SYN__PT_TRUNCATED, SYN__PT_EXTRA_COMMA, SYN__PT_MISSING_COMMA, SYN__PT_CONTROL,
        SYN__PT_QUOTE,     SYN__PT_BROKEN,      SYN__PT_OBJECTS};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const syn__pt_note *n = &report->notes[kinds[i]];
        if (n->count > 0)
            return SYN_FAIL(
                err, SYN_E_FORMAT,
                "%.200s, byte %llu: the reference tools stop here (JSONDecodeError: %s); "
                "without --compat it is converted",
                n->file, (unsigned long long)n->at, syn__pt_anomaly_met(kinds[i]));
    }
    return SYN_OK;
}

static syn_status open_pair(const pytorch_job *job, pair *p, pytorch_outcome *o, syn_error *err) {
    const pytorch_source *s = &job->sources[0];
    const uint64_t most = job->options.max_unpacked_bytes;
    SYN_TRY(syn__file_text_open_limited(&p->host_input, s->host, most, err));
    SYN_TRY(syn__pt_host_read(&p->host, &p->host_input, job->options.object, &o->report, err));
    o->in_bytes = p->host_input.bytes;
    if (!s->device) return check_undamaged(&o->report, err);
    SYN_TRY(syn__file_text_open_limited(&p->device_input, s->device, most, err));
    SYN_TRY(syn__pt_device_read(&p->device, &p->device_input, &o->report, err));
    o->in_bytes += p->device_input.bytes;
    SYN_TRY(check_undamaged(&o->report, err));
    return syn__pt_compat_link(&p->host, &p->device, &p->merged, err);
}

typedef syn_status (*pair_writer)(const pytorch_job *job, pair *p, syn_sink *sink, syn_error *err);

static syn_status write_compat_et(const pytorch_job *job, pair *p, syn_sink *sink, syn_error *err) {
    return syn__pt_compat_convert(&p->host, &p->device, job->sources[0].device ? &p->merged : NULL,
                                  sink, err);
}

static syn_status write_compat_link(const pytorch_job *job, pair *p, syn_sink *sink,
                                    syn_error *err) {
    (void)job;
    return syn__pt_write_linked(&p->host, &p->device, &p->merged, sink, err);
}

static syn_status run_pair(const pytorch_job *job, pytorch_outcome *o, pair_writer write,
                           syn_error *err) {
    pair p = {0};
    syn_sink *sink = NULL;
    syn_status s = open_pair(job, &p, o, err);
    if (s == SYN_OK) s = check_output(job, job->output, err);
    if (s == SYN_OK) s = syn_sink_open_file(&sink, job->output, err);
    if (s == SYN_OK) s = write(job, &p, sink, err);
    o->out_bytes = sink ? syn_sink_bytes(sink) : 0;
    const syn_status closed = syn_sink_close(sink, s == SYN_OK, err);
    o->n_out = p.merged.n_nodes ? p.merged.n_nodes : p.host.n_nodes;
    close_pair(&p);
    return s != SYN_OK ? s : closed;
}

/* ---- Default mode ---- */

/* Of a conversion: read, matched, connected, written for each rank. */
#define STEPS 4

static void step(const pytorch_job *job, pytorch_outcome *o) {
    progress_step(&o->progress, ++o->n_steps, (int64_t)(STEPS * job->n_sources));
}

static syn_status prepare(const pytorch_job *job, size_t i, pytorch_outcome *o, syn_error *err) {
    syn__pt_rank *r = &o->ranks[i];
    const pytorch_source *s = &job->sources[i];
    o->n_ranks = i + 1;
    SYN_TRY(syn__pt_rank_read(r, s->host, s->device, &job->options, &o->report, err));
    step(job, o);
    o->in_bytes += r->host_input.bytes + r->device_input.bytes;
    if (s->rank >= 0 && r->rank >= 0 && r->rank != s->rank)
        syn__pt_note_at(&o->report, SYN__PT_RANK_DIFFERS, r->device_input.name, SYN__PT_NO_PLACE,
                        SYN__PT_NO_PLACE);
    if (s->rank >= 0) r->rank = s->rank;
    if (r->rank < 0) r->rank = (int32_t)i;
    SYN_TRY(syn__pt_match(r, &job->options, &o->report, err));
    step(job, o);
    SYN_TRY(syn__pt_find_comms(r, &o->report, err));
    SYN_TRY(syn__pt_connect(r, &job->options, &o->report, err));
    SYN_TRY(syn__pt_order(r, &o->report, err));
    step(job, o);
    return SYN_OK;
}

static syn_status write_link(const pytorch_job *job, const syn__pt_rank *r, pytorch_outcome *o,
                             syn_error *err) {
    syn__pt_merged_list list = {0};
    syn_sink *sink = NULL;
    syn_status s = check_output(job, job->output, err);
    if (s == SYN_OK) s = syn__pt_merge_rank(r, &list, err);
    if (s == SYN_OK) s = syn_sink_open_file(&sink, job->output, err);
    if (s == SYN_OK) s = syn__pt_write_linked(&r->host, &r->device, &list, sink, err);
    o->n_out = list.n_nodes;
    o->out_bytes = sink ? syn_sink_bytes(sink) : 0;
    const syn_status closed = syn_sink_close(sink, s == SYN_OK, err);
    syn__pt_merged_free(&list);
    return s != SYN_OK ? s : closed;
}

static syn_status write_rank(const pytorch_job *job, size_t i, const char *path, pytorch_outcome *o,
                             syn_error *err) {
    const syn__pt_rank *r = &o->ranks[i];
    syn_sink *sink = NULL;
    SYN_TRY(check_output(job, path, err));
    SYN_TRY(syn_sink_open_file(&sink, path, err));
    const syn_status s = job->profile == PYTORCH_FULL
                             ? syn__pt_write_full(r, &job->options, sink, err)
                             : syn__pt_write_sim(r, &job->options, sink, &o->written[i], err);
    o->out_bytes += syn_sink_bytes(sink);
    const syn_status closed = syn_sink_close(sink, s == SYN_OK, err);
    return s != SYN_OK ? s : closed;
}

/* "out/trace" of "out/trace.0.et"; of a set the output is the prefix. */
static size_t prefix_bytes(const pytorch_job *job) {
    size_t n = strlen(job->output);
    if (n > 3 && strcmp(job->output + n - 3, ".et") == 0) {
        n -= 3;
        size_t at = n;
        while (at > 0 && job->output[at - 1] >= '0' && job->output[at - 1] <= '9') at--;
        if (at < n && at > 0 && job->output[at - 1] == '.') n = at - 1;
    }
    return n;
}

/* Whether a file of groups is there that says something else. */
static bool differs(const char *path, const pytorch_outcome *o) {
    syn_sink *sink = NULL;
    char *old = NULL;
    size_t old_bytes = 0, bytes = 0;
    bool found = false;
    if (syn_read_file(path, (size_t)1 << 28, &old, &old_bytes, NULL) != SYN_OK) return false;
    if (syn_sink_open_memory(&sink, NULL) == SYN_OK) {
        syn__pt_write_groups(o->ranks, o->n_ranks, sink);
        const char *text = syn_sink_data(sink, &bytes);
        found = text && (bytes != old_bytes || memcmp(text, old, bytes) != 0);
        (void)syn_sink_close(sink, false, NULL);
    }
    syn_free(old);
    return found;
}

static syn_status write_groups(const pytorch_job *job, pytorch_outcome *o, syn_error *err) {
    char path[4096];
    syn_sink *sink = NULL;
    size_t n_groups = 0;
    for (size_t i = 0; i < o->n_ranks; i++) n_groups += o->ranks[i].n_groups;
    if (strcmp(job->output, "-") == 0 || (n_groups == 0 && !job->is_set)) return SYN_OK;
    const int n =
        snprintf(path, sizeof path, "%.*s.comm_group.json", (int)prefix_bytes(job), job->output);
    if (n < 0 || (size_t)n >= sizeof path)
        return SYN_FAIL(err, SYN_E_INVALID, "the output's name is too long");
    SYN_TRY(check_output(job, path, err));
    o->groups_replaced = !job->is_set && differs(path, o);
    SYN_TRY(syn_sink_open_file(&sink, path, err));
    syn__pt_write_groups(o->ranks, o->n_ranks, sink);
    return syn_sink_close(sink, true, err);
}

static syn_status path_of(const pytorch_job *job, const syn__pt_rank *r, char *path, size_t bytes,
                          syn_error *err) {
    const int n = job->is_set ? snprintf(path, bytes, "%.*s.%d.et", (int)prefix_bytes(job),
                                         job->output, (int)r->rank)
                              : snprintf(path, bytes, "%s", job->output);
    if (n < 0 || (size_t)n >= bytes)
        return SYN_FAIL(err, SYN_E_INVALID, "the output's name is too long");
    return SYN_OK;
}

/* A set is written whole or not at all. */
static void remove_first(const pytorch_job *job, const pytorch_outcome *o, size_t n) {
    char path[4096];
    for (size_t i = 0; i < n; i++)
        if (path_of(job, &o->ranks[i], path, sizeof path, NULL) == SYN_OK) (void)remove(path);
}

static syn_status write_all(const pytorch_job *job, pytorch_outcome *o, syn_error *err) {
    char path[4096];
    if (job->is_set) SYN_TRY(syn_make_prefix_folder(job->output, err));
    if (job->profile == PYTORCH_ASTRA_SIM) {
        o->written = syn_calloc(o->n_ranks, sizeof *o->written);
        if (!o->written) return SYN_FAIL_NOMEM(err, o->n_ranks * sizeof *o->written, "counts");
    }
    for (size_t i = 0; i < o->n_ranks; i++) {
        SYN_TRY(path_of(job, &o->ranks[i], path, sizeof path, err));
        const syn_status s = write_rank(job, i, path, o, err);
        if (s != SYN_OK) {
            remove_first(job, o, i);
            return s;
        }
        o->n_out += o->written ? o->written[i].nodes : o->ranks[i].n_ops;
        step(job, o);
    }
    return write_groups(job, o, err);
}

static uint64_t count_kinds(const syn__pt_report *report) {
    uint64_t n = 0;
    for (int i = 0; i < SYN__PT_ANOMALIES; i++) n += report->notes[i].count > 0;
    return n;
}

static syn_status check_ranks(const pytorch_outcome *o, syn_error *err) {
    for (size_t i = 1; i < o->n_ranks; i++)
        for (size_t j = 0; j < i; j++)
            if (o->ranks[i].rank == o->ranks[j].rank)
                return SYN_FAIL(err, SYN_E_INVALID, "%.200s and %.200s are both rank %d",
                                o->ranks[j].host_input.name, o->ranks[i].host_input.name,
                                (int)o->ranks[i].rank);
    return SYN_OK;
}

static void note_missing_ranks(const pytorch_job *job, pytorch_outcome *o) {
    int32_t world = 0;
    uint64_t here = 0;
    for (size_t i = 0; i < o->n_ranks; i++)
        if (o->ranks[i].world_size > world) world = o->ranks[i].world_size;
    for (size_t i = 0; i < o->n_ranks; i++) here += o->ranks[i].rank < world;
    if (job->is_set && here < (uint64_t)world)
        syn__pt_note_many(&o->report, SYN__PT_RANKS_MISSING, (uint64_t)world - here,
                          o->ranks[0].host_input.name, SYN__PT_NO_PLACE);
}

static syn_status convert_default(const pytorch_job *job, pytorch_outcome *o, syn_error *err) {
    o->ranks = syn_calloc(job->n_sources, sizeof *o->ranks);
    if (!o->ranks) return SYN_FAIL_NOMEM(err, job->n_sources * sizeof *o->ranks, "ranks");
    for (size_t i = 0; i < job->n_sources; i++) SYN_TRY(prepare(job, i, o, err));
    SYN_TRY(check_ranks(o, err));
    note_missing_ranks(job, o);
    SYN_TRY(syn__pt_set_agree(o->ranks, o->n_ranks, &o->report, err));
    o->n_anomalies = count_kinds(&o->report);
    if (job->strict && o->n_anomalies > 0)
        return SYN_FAIL(err, SYN_E_FORMAT,
                        "%llu kinds of anomalies were met, and --strict wants none",
                        (unsigned long long)o->n_anomalies);
    return write_all(job, o, err);
}

static void begin_progress(const pytorch_job *job, pytorch_outcome *o, const char *what) {
    o->progress = (progress){.what = what, .unit = "steps", .quiet = job->quiet};
    progress_step(&o->progress, 0, (int64_t)(STEPS * job->n_sources));
}

syn_status pytorch_convert(const pytorch_job *job, pytorch_outcome *outcome, syn_error *err) {
    const double begin = now_s();
    memset(outcome, 0, sizeof *outcome);
    begin_progress(job, outcome, "converting");
    const syn_status s = job->compat ? run_pair(job, outcome, write_compat_et, err)
                                     : convert_default(job, outcome, err);
    progress_step(&outcome->progress, 1, 1); /* clears the line */
    outcome->n_anomalies = count_kinds(&outcome->report);
    outcome->seconds = now_s() - begin;
    return s;
}

static syn_status link_default(const pytorch_job *job, pytorch_outcome *o, syn_error *err) {
    o->ranks = syn_calloc(1, sizeof *o->ranks);
    if (!o->ranks) return SYN_FAIL_NOMEM(err, sizeof *o->ranks, "a rank");
    SYN_TRY(prepare(job, 0, o, err));
    return write_link(job, &o->ranks[0], o, err);
}

syn_status pytorch_link(const pytorch_job *job, pytorch_outcome *outcome, syn_error *err) {
    const double begin = now_s();
    memset(outcome, 0, sizeof *outcome);
    begin_progress(job, outcome, "linking");
    const syn_status s = job->compat ? run_pair(job, outcome, write_compat_link, err)
                                     : link_default(job, outcome, err);
    progress_step(&outcome->progress, 1, 1);
    outcome->n_anomalies = count_kinds(&outcome->report);
    outcome->seconds = now_s() - begin;
    return s;
}

void pytorch_outcome_free(pytorch_outcome *outcome) {
    for (size_t i = 0; i < outcome->n_ranks; i++) syn__pt_rank_free(&outcome->ranks[i]);
    syn_free(outcome->ranks);
    syn_free(outcome->written);
    memset(outcome, 0, sizeof *outcome);
}

void pytorch_job_free(pytorch_job *job) {
    for (size_t i = 0; i < job->n_sources; i++) {
        syn_free(job->sources[i].host);
        syn_free(job->sources[i].device);
    }
    syn_free(job->sources);
    job->sources = NULL;
    job->n_sources = 0;
}
