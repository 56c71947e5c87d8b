/* Finds the files of all ranks with glob patterns, and converts or links them. */
#include "tools/pytorch/pytorch_job.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "export/text/loose_json.h"
#include "syntorch/base/memory.h"
#include "tools/folders.h"
#include "tools/inputs.h"
#include "tools/progress.h"

/* ---- Files ---- */

/* Returns the part of a path that the star in the pattern matches. Returns NULL if the pattern has
   no star or the path is too short. */
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

static syn_status add_pair(pytorch_job *job, const char *host, const char *device, int32_t rank,
                           syn_error *err) {
    SYN_TRY(syn_grow(&job->files, &job->files_cap, job->n_files + 1, sizeof *job->files, err));
    pytorch_files *s = &job->files[job->n_files];
    s->host = host ? syn_strdup(host) : NULL;
    s->device = device ? syn_strdup(device) : NULL;
    s->rank = rank;
    job->n_files++;
    if ((host && !s->host) || (device && !s->device)) return SYN_FAIL_NOMEM(err, 1, "a name");
    return SYN_OK;
}

/* Adds a host trace that glob found, and its device trace. The path of the device trace is the
   device pattern, with the text that the star of the host pattern matched in place of the star.
   host_pattern NULL: `host` is a device trace. */
static syn_status add_starred(pytorch_job *job, const char *host_pattern, const char *host,
                              const char *device_pattern, syn_error *err) {
    size_t bytes = 0;
    const char *part = starred(host_pattern ? host_pattern : device_pattern, host, &bytes), *star;
    char device[4096];
    if (!host_pattern) return add_pair(job, NULL, host, number(part, bytes), err);
    if (!device_pattern) return add_pair(job, host, NULL, number(part, bytes), err);
    star = strchr(device_pattern, '*');
    if (!star)
        return SYN_FAIL(err, SYN_E_INVALID, "--host has a *, so --device must have one, too");
    const int n = snprintf(device, sizeof device, "%.*s%.*s%s", (int)(star - device_pattern),
                           device_pattern, (int)bytes, part, star + 1);
    if (n < 0 || (size_t)n >= sizeof device)
        return SYN_FAIL(err, SYN_E_INVALID, "the device trace's path is too long");
    struct stat st;
    if (stat(device, &st) != 0)
        return SYN_FAIL(err, SYN_E_IO, "%.200s has no device trace: %.200s does not exist", host,
                        device);
    return add_pair(job, host, device, number(part, bytes), err);
}

static int by_rank(const void *x, const void *y) {
    const pytorch_files *a = x, *b = y;
    if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
    return strcmp(a->host ? a->host : a->device, b->host ? b->host : b->device);
}

syn_status pytorch_add_files(pytorch_job *job, const char *host, const char *device,
                             syn_error *err) {
    glob_t found = {0};
    struct stat st;
    const char *pattern = host ? host : device;
    if (!strchr(pattern, '*') || stat(pattern, &st) == 0)
        return add_pair(job, host, device, -1, err);
    job->options.is_set = true;
    const int code = glob(pattern, 0, NULL, &found);
    syn_status s = SYN_OK;
    if (code != 0) s = SYN_FAIL(err, SYN_E_IO, "no file matches %.300s", pattern);
    for (size_t i = 0; i < found.gl_pathc && s == SYN_OK; i++)
        s = add_starred(job, host, found.gl_pathv[i], device, err);
    globfree(&found);
    if (job->n_files > 0) qsort(job->files, job->n_files, sizeof *job->files, by_rank);
    return s;
}

/* ---- Running ---- */

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static syn_status run(const pytorch_job *job, bool link, pytorch_outcome *o, syn_error *err) {
    const double begin = now_s();
    progress bar = {.what = link ? "linking" : "converting", .unit = "steps", .quiet = job->quiet};
    syn_pytorch_options options = job->options;
    syn_pytorch_source *sources = syn_calloc(job->n_files, sizeof *sources);
    memset(o, 0, sizeof *o);
    if (!sources) return SYN_FAIL_NOMEM(err, job->n_files * sizeof *sources, "file names");
    for (size_t i = 0; i < job->n_files; i++) {
        const pytorch_files *f = &job->files[i];
        sources[i] = (syn_pytorch_source){f->host, f->device, f->rank >= 0 ? &f->rank : NULL, true};
    }
    options.progress = progress_step;
    options.user = &bar;
    const syn_status s =
        link ? syn_pytorch_link(&o->report, sources, job->output, &options, err)
             : syn_pytorch_convert(&o->report, sources, job->n_files, job->output, &options, err);
    o->seconds = now_s() - begin;
    syn_free(sources);
    return s;
}

/* Locks the output before it reads the files, because reading may take minutes. */
syn_status pytorch_convert(const pytorch_job *job, pytorch_outcome *outcome, syn_error *err) {
    output_lock lock = {.path = NULL};
    memset(outcome, 0, sizeof *outcome);
    if (job->options.is_set)
        SYN_TRY(cli_lock_set(&lock, job->output, "--output", job->program, err));
    else SYN_TRY(folder_check_output(job->output, err));
    const syn_status s = run(job, false, outcome, err);
    output_lock_release(&lock);
    return s;
}

syn_status pytorch_link(const pytorch_job *job, pytorch_outcome *outcome, syn_error *err) {
    memset(outcome, 0, sizeof *outcome);
    SYN_TRY(folder_check_output(job->output, err));
    return run(job, true, outcome, err);
}

void pytorch_outcome_free(pytorch_outcome *outcome) {
    syn_pytorch_report_free(&outcome->report);
}

void pytorch_job_free(pytorch_job *job) {
    for (size_t i = 0; i < job->n_files; i++) {
        syn_free(job->files[i].host);
        syn_free(job->files[i].device);
    }
    syn_free(job->files);
    job->files = NULL;
    job->n_files = 0;
}
