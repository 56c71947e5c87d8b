/* Writes a trace set from a few recorded ranks, and prints what it wrote. */
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "syntorch/base/clock.h"
#include "syntorch/base/memory.h"
#include "syntorch/base/workers.h"
#include "tools/cli_json.h"
#include "tools/folders.h"
#include "tools/rank_list.h"
#include "tools/synth/synth.h"

/* The system's cache takes sets up to this size before the disk slows them down. */
#define CACHED_BYTES ((uint64_t)1 << 30)
#define CACHED_RATE  1e9 /* bytes/s for these; for the estimate only */
#define GZIP_RATE    1e8 /* bytes/s that a core compresses; for the estimate only */

/* Measures how many bytes/s the disk takes, with a file of 64 MiB. Returns CACHED_RATE if it cannot
   be written. */
static double disk_rate(void) {
    enum { PIECE = 1 << 20, PIECES = 64 };
    static char zeros[PIECE];
    char path[FOLDER_PATH_BYTES];
    int n = 0;
    if ((size_t)snprintf(path, sizeof path, "%s.rate", pretrain_given.out) >= sizeof path)
        return CACHED_RATE;
    const int file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (file < 0) return CACHED_RATE;
    const uint64_t begin = syn__clock_ns();
    while (n < PIECES && write(file, zeros, PIECE) == PIECE) n++;
    const bool written = n == PIECES && fdatasync(file) == 0;
    const double seconds = 1e-9 * (double)(syn__clock_ns() - begin);
    close(file);
    unlink(path);
    return written && seconds > 0 ? PIECES * (double)PIECE / seconds : CACHED_RATE;
}

/* More threads would need more memory, which depends on how many stages are recorded at once. */
enum { RECORDING_THREADS = 4 };

static int recording_threads(const synth_job *job) {
    int n = cli_cores();
    if (n > job->plan->pp) n = job->plan->pp;
    return n < RECORDING_THREADS ? n : RECORDING_THREADS;
}

typedef struct started {
    uint64_t ns;      /* when the first rank was begun */
    int32_t programs; /* the number of ranks to record */
    int threads;      /* that record them */
} started;

/* Called when the first rank is recorded. Each of the others takes as long. */
static void announce(void *user, const syn_stamp_counts *set, uint64_t free_bytes) {
    const started *start = user;
    const double record =
        1e-9 * (double)(syn__clock_ns() - start->ns) * start->programs / start->threads;
    char bytes[32], disk[32], nodes[32], time[32];
    if (pretrain_given.quiet || pretrain_given.dry_run) return;
    double bytes_ns = 1e9 / CACHED_RATE;
    if (set->bytes > CACHED_BYTES) bytes_ns += 1e9 / disk_rate(); /* first it is put in the cache */
    if (synth_given.gzip) bytes_ns = 1e9 / (GZIP_RATE * cli_cores());
    printf("writing: %llu %s with about %s nodes, %s%s, in about %s; %s are free\n",
           (unsigned long long)set->files, set->files == 1 ? "rank" : "ranks",
           cli_count_text((double)set->nodes, nodes, sizeof nodes),
           cli_bytes_text((double)set->bytes, bytes, sizeof bytes),
           synth_given.gzip ? " before compression" : "",
           cli_time_text(1e9 * record + (double)set->bytes * bytes_ns, time, sizeof time),
           cli_bytes_text((double)free_bytes, disk, sizeof disk));
    fflush(stdout);
}

static bool one_each(void) {
    return pretrain_given.ranks && strcmp(pretrain_given.ranks, "one-per-program") == 0;
}

static void print_written(const syn_stamp_counts *n, int32_t ranks, double seconds) {
    char bytes[32], rate[32], shown[CLI_SHOWN_BYTES];
    printf("%s: %s.*, %llu %s with %llu nodes, %s",
           pretrain_given.dry_run ? "not written" : "written",
           cli_shown(pretrain_given.out, shown, sizeof shown), (unsigned long long)n->files,
           n->files == 1 ? "rank" : "ranks", (unsigned long long)n->nodes,
           cli_bytes_text((double)n->bytes, bytes, sizeof bytes));
    if (pretrain_given.dry_run) printf("\n");
    else
        printf(" in %.1f s, %s/s\n", seconds,
               cli_bytes_text((double)n->bytes / seconds, rate, sizeof rate));
    if (one_each())
        printf("         all %d ranks have %llu nodes\n", (int)ranks,
               (unsigned long long)n->all_nodes);
}

/* Adds the counts and the files, which are all with this prefix: older ones were removed. */
static syn_status put_written(syn_sink *json, const syn_stamp_counts *n, syn_error *err) {
    cli_json_count(json, "written_ranks", n->files);
    cli_json_count(json, "written_nodes", n->nodes);
    if (!pretrain_given.dry_run) return cli_json_written_set(json, pretrain_given.out, err);
    syn_sink_text(json, ", \"written\": []");
    return SYN_OK;
}

static void note_clash(const syn_stamp_counts *n) {
    if (n->clash[0] > 0)
        printf(
            "note:    groups %u and %u share ranks; ASTRA-sim may confuse them, because their ids "
            "are equal modulo 500\n",
            n->clash[0], n->clash[1]);
}

/* The stages, which the threads of a pool record. */
typedef struct recording {
    const synth_job *job;
    syn_stamper *stamper;
    atomic_bool failed; /* no further rank is recorded */
    syn_error *errs;    /* by stage */
} recording;

/* A launch_use_graph. */
static syn_status stamp(void *stamper, const syn_graph *graph, syn_error *err) {
    return syn_stamp_rank(stamper, graph, err);
}

/* A syn_worker_task. */
static void record_stage(void *arg, int64_t stage, int thread) {
    recording *r = arg;
    syn_error *err = &r->errs[stage];
    (void)thread;
    for (int32_t next; !r->failed && (next = syn_stamp_next(r->stamper, (int32_t)stage)) >= 0;)
        if (r->job->record(r->job->run, next, stamp, r->stamper, err) != SYN_OK) r->failed = true;
}

static syn_status record_all(const synth_job *job, syn_stamper *stamper, syn_error *err) {
    const int32_t stages = job->plan->pp;
    recording r = {.job = job, .stamper = stamper};
    syn_workers *workers;
    SYN_TRY(syn_workers_new(&workers, recording_threads(job), err));
    r.errs = syn_calloc((size_t)stages, sizeof *r.errs);
    syn_status s = r.errs ? SYN_OK : SYN_FAIL_NOMEM(err, (size_t)stages * sizeof *r.errs, "errors");
    if (s == SYN_OK) syn_workers_run(workers, stages, record_stage, &r);
    for (int32_t i = 0; i < stages && s == SYN_OK; i++) {
        s = r.errs[i].code;
        if (s != SYN_OK) *err = r.errs[i];
    }
    syn_workers_free(workers);
    syn_free(r.errs);
    return s;
}

static syn_status write_set(const synth_job *job, const bool *wanted, syn_error *err) {
    started start = {syn__clock_ns(), job->plan->pp * syn_plan_programs(job->plan),
                     recording_threads(job)};
    const syn_stamp_options options = {.node_ranks = job->node_ranks,
                                       .version = "syntorch " SYN_VERSION,
                                       .wanted = wanted,
                                       .one_each = one_each(),
                                       .dry = pretrain_given.dry_run,
                                       .gzip = synth_given.gzip,
                                       .threads = cli_cores(),
                                       .announce = announce,
                                       .user = &start};
    syn_stamper *stamper = NULL;
    syn_status s = syn_stamp_open(&stamper, job->plan, pretrain_given.out, &options, err);
    if (s == SYN_OK) s = record_all(job, stamper, err);
    const syn_stamp_counts n = stamper ? syn_stamp_count(stamper) : (syn_stamp_counts){0};
    const syn_status closed = syn_stamp_close(stamper, s == SYN_OK, err);
    if (s == SYN_OK) s = closed;
    if (s == SYN_OK && job->json != NULL) s = put_written(job->json, &n, err);
    if (s != SYN_OK || pretrain_given.quiet) return s;
    print_written(&n, job->plan->ranks, 1e-9 * (double)(syn__clock_ns() - start.ns));
    note_clash(&n);
    return SYN_OK;
}

syn_status synth_wanted(int32_t all, bool **wanted, syn_error *err) {
    const char *text = pretrain_given.ranks;
    int32_t *ranks;
    size_t n;
    *wanted = NULL;
    if (!text || strcmp(text, "all") == 0 || one_each()) return SYN_OK;
    SYN_TRY(rank_list(&ranks, &n, text, all, err));
    *wanted = syn_calloc((size_t)all, sizeof **wanted);
    for (size_t i = 0; *wanted && i < n; i++) (*wanted)[ranks[i]] = true;
    syn_free(ranks);
    return *wanted ? SYN_OK : SYN_FAIL_NOMEM(err, (size_t)all, "--ranks");
}

syn_status synth_write(const synth_job *job, const bool *wanted, syn_error *err) {
    output_lock lock = {.path = NULL};
    if (!pretrain_given.dry_run) {
        SYN_TRY(syn_make_prefix_folder(pretrain_given.out, err));
        SYN_TRY(output_lock_take(&lock, pretrain_given.out, "synth", "name another --out", err));
    }
    const syn_status s = write_set(job, wanted, err);
    output_lock_release(&lock);
    return s;
}
