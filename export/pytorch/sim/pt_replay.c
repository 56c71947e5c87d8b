/* Replays profile full. One pass over the rank's ops in topological order is enough, because every
   thread and stream runs its ops in that order. Durations are whole microseconds, as pt_full.c
   writes them. */
#include <inttypes.h>
#include <stdio.h>

#include "export/pytorch/sim/pt_replay.h"
#include "syntorch/base/memory.h"

typedef struct replay {
    const syn__pt_rank *rank;
    int64_t origin;               /* first start in the trace */
    int64_t *ends;                /* per op */
    int64_t *free_ns;             /* per track (thread or stream): end of its last op so far */
    int64_t *carried_ns;          /* per track: remainder from rounding */
    syn_pytorch_replay_row *rows; /* per track */
} replay;

static int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* Additions that saturate instead of overflowing. */
static int64_t plus(int64_t a, int64_t b) {
    if (b > 0 && a > INT64_MAX - b) return INT64_MAX;
    return b < 0 && a < -INT64_MAX - b ? -INT64_MAX : a + b;
}

static int64_t minus(int64_t a, int64_t b) {
    return plus(a, b < -INT64_MAX ? INT64_MAX : -b);
}

static bool has_start(const syn__pt_op *op) {
    return op->start_ns != SYN__PT_NO_NS;
}

/* The duration that is written for an op. The remainder of rounding is added to the next op of the
   same thread or stream. */
static int64_t written_ns(replay *r, const syn__pt_op *op) {
    int64_t *carried = &r->carried_ns[op->track];
    const int64_t ns = most(op->self_ns, 0);
    if (ns > INT64_MAX - *carried) return ns / 1000 * 1000;
    const int64_t all = ns + *carried;
    *carried = all % 1000;
    return all - *carried;
}

static void run_op(replay *r, uint32_t index) {
    const syn__pt_rank *rank = r->rank;
    const syn__pt_op *op = &rank->ops[index];
    syn_pytorch_replay_row *row = &r->rows[op->track];
    const int64_t takes = written_ns(r, op);
    int64_t now = r->free_ns[op->track];
    for (uint32_t i = rank->first_dep[index]; i < rank->first_dep[index + 1]; i++)
        now = most(now, r->ends[rank->deps[i].from]);
    r->ends[index] = r->free_ns[op->track] = plus(now, takes);
    row->busy_ns = plus(row->busy_ns, takes);
    row->n_ops++;
    if (!has_start(op)) return;
    const int64_t end = plus(minus(op->start_ns, r->origin), most(op->wall_ns, 0));
    row->measured_ns = most(row->measured_ns, end);
}

static void name_row(const syn__pt_track *track, syn_pytorch_replay_row *row) {
    if (track->device)
        snprintf(row->name, sizeof row->name, "device %d stream %" PRId64, (int)track->device_id,
                 track->stream);
    else snprintf(row->name, sizeof row->name, "thread %u", track->tid);
}

static void run_all(replay *r, syn_pytorch_replay *out) {
    const syn__pt_rank *rank = r->rank;
    r->origin = INT64_MAX;
    for (size_t i = 0; i < rank->n_ops; i++) {
        if (has_start(&rank->ops[i]) && rank->ops[i].start_ns < r->origin)
            r->origin = rank->ops[i].start_ns;
    }
    for (size_t i = 0; i < rank->n_ops; i++) run_op(r, rank->order[i]);
    for (size_t i = 0; i < rank->n_tracks; i++) {
        syn_pytorch_replay_row *row = &r->rows[i];
        name_row(&rank->tracks[i], row);
        row->replayed_ns = r->free_ns[i];
        /* The self times of a thread's ops add up to the time in which the thread ran any op. */
        if (!rank->tracks[i].device)
            row->idle_ns = most(minus(row->measured_ns, plus(row->busy_ns, r->carried_ns[i])), 0);
        out->measured_ns = most(out->measured_ns, row->measured_ns);
        out->replayed_ns = most(out->replayed_ns, row->replayed_ns);
    }
}

syn_status syn__pt_replay(const syn__pt_rank *rank, syn_pytorch_replay *out, syn_error *err) {
    replay r = {.rank = rank};
    r.rows = (syn_pytorch_replay_row *)syn_calloc(rank->n_tracks + 1, sizeof *r.rows);
    r.free_ns = (int64_t *)syn_calloc(rank->n_tracks + 1, sizeof *r.free_ns);
    r.carried_ns = (int64_t *)syn_calloc(rank->n_tracks + 1, sizeof *r.carried_ns);
    r.ends = (int64_t *)syn_calloc(rank->n_ops + 1, sizeof *r.ends);
    *out = (syn_pytorch_replay){0, 0, r.rows, rank->n_tracks};
    const bool complete =
        r.rows != NULL && r.free_ns != NULL && r.carried_ns != NULL && r.ends != NULL;
    if (complete) run_all(&r, out);
    syn_free(r.free_ns);
    syn_free(r.carried_ns);
    syn_free(r.ends);
    if (complete) return SYN_OK;
    syn_free(r.rows);
    *out = (syn_pytorch_replay){0, 0, NULL, 0};
    return SYN_FAIL_NOMEM(err, rank->n_ops * sizeof(int64_t), "a replay");
}
