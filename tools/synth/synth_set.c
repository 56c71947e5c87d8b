/* Writes a trace set from a few recorded ranks, and prints what it wrote. */
#include <string.h>

#include "syntorch/base/clock.h"
#include "syntorch/base/memory.h"
#include "tools/rank_list.h"
#include "tools/synth/synth.h"

static void announce(void *unused, const syn_stamp_counts *set, uint64_t free_bytes) {
    char bytes[32], disk[32], nodes[32];
    (void)unused;
    if (pretrain_given.quiet || pretrain_given.dry_run) return;
    printf("writing: %llu %s with about %s nodes, %s; %s are free\n",
           (unsigned long long)set->files, set->files == 1 ? "rank" : "ranks",
           cli_count_text((double)set->nodes, nodes, sizeof nodes),
           cli_bytes_text((double)set->bytes, bytes, sizeof bytes),
           cli_bytes_text((double)free_bytes, disk, sizeof disk));
    fflush(stdout);
}

static void print_written(const syn_stamp_counts *n, double seconds) {
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
}

static void note_clash(const syn_stamp_counts *n) {
    if (n->clash[0] > 0)
        printf(
            "note:    groups %u and %u share ranks; ASTRA-sim may confuse them, because their ids "
            "are equal modulo 500\n",
            n->clash[0], n->clash[1]);
}

static syn_status record_all(const synth_job *job, syn_stamper *stamper, syn_error *err) {
    for (int32_t stage = 0; stage < job->plan->pp; stage++)
        for (int32_t next; (next = syn_stamp_next(stamper, stage)) >= 0;)
            SYN_TRY(job->record(job->run, next, stamper, err));
    return SYN_OK;
}

static bool one_each(void) {
    return pretrain_given.ranks && strcmp(pretrain_given.ranks, "one-per-program") == 0;
}

static syn_status write_set(const synth_job *job, const bool *wanted, syn_error *err) {
    const syn_stamp_options options = {.node_ranks = job->node_ranks,
                                       .version = "syntorch " SYN_VERSION,
                                       .wanted = wanted,
                                       .one_each = one_each(),
                                       .dry = pretrain_given.dry_run,
                                       .announce = announce};
    const uint64_t begin = syn__clock_ns();
    syn_stamper *stamper = NULL;
    syn_status s = syn_stamp_open(&stamper, job->plan, pretrain_given.out, &options, err);
    if (s == SYN_OK) s = record_all(job, stamper, err);
    const syn_stamp_counts n = stamper ? syn_stamp_count(stamper) : (syn_stamp_counts){0};
    const syn_status closed = syn_stamp_close(stamper, s == SYN_OK, err);
    if (s == SYN_OK) s = closed;
    if (s != SYN_OK || pretrain_given.quiet) return s;
    print_written(&n, 1e-9 * (double)(syn__clock_ns() - begin));
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
