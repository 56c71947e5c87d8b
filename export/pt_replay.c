/* The replay: one pass over the rank's order, as every lane runs its ops in that order.

   Device work starts when its stream is free and what it waits for is over, and takes its measured
   time; an op without times takes none. Its launch is over when the launching call was, so at the
   measured distance from the start of the op that made the call; what passes between the launch and
   the start on an idle stream, some microseconds, is left out.

   A thread goes from the start of one op to the start of the next in the measured time: that is
   what ops take themselves, before, between and behind those that they call, and Python, of which
   the trace has no ops. Before a thread's first op it counts from the trace's beginning. But where
   the thread waited for device work or for another thread, the time until that was over is not
   taken from the trace: the thread goes on when the replay has come to the same point.

   Work that began before something it waits for was over, waited that long itself; this part is not
   counted again. */
#include "export/pt_rank.h"
#include "syntorch/memory.h"

typedef struct lane_clock {
    int64_t last;     /* host: the latest start in the trace */
    int64_t replayed; /* where the replay is: at a host op's start, at the end of device work */
} lane_clock;

typedef struct replay {
    const syn__pt_rank *rank;
    int64_t origin; /* the trace's first start */
    lane_clock *clocks;
    int64_t *starts, *ends; /* of ops, in the replay */
    syn__pt_replay_lane *lanes;
} replay;

/* A moment in the trace and in the replay, from the beginning of each. */
typedef struct moment {
    int64_t measured, replayed;
} moment;

static int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Sums and differences end at the ends of the range. */
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

static int64_t start_of(const replay *r, const syn__pt_op *op) {
    return minus(op->start_ns, r->origin);
}

static int64_t wall_of(const syn__pt_op *op) {
    return most(op->wall_ns, 0); /* SYN__PT_NO_NS is negative */
}

/* ---- When something is over ---- */

/* A host op, for one that began at `start` in the trace. */
static moment over_host(const replay *r, uint32_t from, const syn__pt_op *to) {
    const syn__pt_op *op = &r->rank->ops[from];
    moment m = {0, r->starts[from]};
    if (!has_start(op)) return m;
    int64_t took = wall_of(op);
    if (has_start(to)) took = least(took, most(minus(to->start_ns, op->start_ns), 0));
    if (to->launch != SYN__PT_NONE) {
        const syn__pt_event *call = &r->rank->device.events[to->launch];
        if (call->flags & SYN__PT_EVENT_TS)
            took = least(took, most(minus(plus(call->ts_ns, call->dur_ns), op->start_ns), 0));
    }
    m.measured = plus(start_of(r, op), took);
    m.replayed = plus(m.replayed, took);
    return m;
}

static moment over(const replay *r, uint32_t from, const syn__pt_op *to) {
    const syn__pt_op *op = &r->rank->ops[from];
    if (!syn__pt_is_device(op)) return over_host(r, from, to);
    const moment m = {has_start(op) ? plus(start_of(r, op), wall_of(op)) : 0, r->ends[from]};
    return m;
}

/* When all that the op waits for is over; without calls and the order of its own thread. */
static moment all_over(const replay *r, uint32_t index) {
    const syn__pt_rank *rank = r->rank;
    moment all = {0, 0};
    for (uint32_t i = rank->first_dep[index]; i < rank->first_dep[index + 1]; i++) {
        const syn__pt_dep *d = &rank->deps[i];
        if (d->class_ == SYN__PT_EDGE_CALL || d->class_ == SYN__PT_EDGE_PROGRAM) continue;
        const moment m = over(r, d->from, &rank->ops[index]);
        all.measured = most(all.measured, m.measured);
        all.replayed = most(all.replayed, m.replayed);
    }
    return all;
}

/* ---- Running ---- */

static void run_host(replay *r, uint32_t index) {
    const syn__pt_op *op = &r->rank->ops[index];
    lane_clock *clock = &r->clocks[op->lane];
    syn__pt_replay_lane *lane = &r->lanes[op->lane];
    const moment waited = all_over(r, index);
    int64_t now = most(clock->replayed, waited.replayed);
    if (has_start(op)) {
        const int64_t start = start_of(r, op);
        const int64_t passed = most(minus(start, clock->last), 0);
        if (waited.measured > clock->last) now = plus(now, most(minus(start, waited.measured), 0));
        else now = most(plus(clock->replayed, passed), waited.replayed);
        clock->last = most(clock->last, start);
        lane->measured_ns = most(lane->measured_ns, plus(start, wall_of(op)));
    }
    r->starts[index] = clock->replayed = now;
    lane->busy_ns = plus(lane->busy_ns, most(op->self_ns, 0));
}

static void run_device(replay *r, uint32_t index) {
    const syn__pt_op *op = &r->rank->ops[index];
    lane_clock *clock = &r->clocks[op->lane];
    syn__pt_replay_lane *lane = &r->lanes[op->lane];
    const moment waited = all_over(r, index);
    int64_t takes = wall_of(op);
    lane->busy_ns = plus(lane->busy_ns, takes);
    if (has_start(op)) {
        const int64_t start = start_of(r, op);
        lane->measured_ns = most(lane->measured_ns, plus(start, takes));
        takes -= least(takes, most(minus(waited.measured, start), 0));
    }
    r->starts[index] = most(clock->replayed, waited.replayed);
    r->ends[index] = clock->replayed = plus(r->starts[index], takes);
}

static void run_all(replay *r, syn__pt_replayed *out) {
    const syn__pt_rank *rank = r->rank;
    r->origin = INT64_MAX;
    for (size_t i = 0; i < rank->n_ops; i++) {
        if (has_start(&rank->ops[i])) r->origin = least(r->origin, rank->ops[i].start_ns);
    }
    for (size_t i = 0; i < rank->n_ops; i++) {
        const uint32_t op = rank->order[i];
        if (syn__pt_is_device(&rank->ops[op])) run_device(r, op);
        else run_host(r, op);
        r->lanes[rank->ops[op].lane].n_ops++;
    }
    for (size_t i = 0; i < rank->n_lanes; i++) {
        syn__pt_replay_lane *lane = &r->lanes[i];
        lane->replayed_ns = r->clocks[i].replayed;
        if (!rank->lanes[i].device) /* a thread's last op and its callers */
            lane->replayed_ns =
                plus(lane->replayed_ns, minus(lane->measured_ns, r->clocks[i].last));
        out->measured_ns = most(out->measured_ns, lane->measured_ns);
        out->replayed_ns = most(out->replayed_ns, lane->replayed_ns);
    }
}

syn_status syn__pt_replay(const syn__pt_rank *rank, syn__pt_replayed *out, syn_error *err) {
    replay r = {.rank = rank};
    r.clocks = (lane_clock *)syn_calloc(rank->n_lanes + 1, sizeof *r.clocks);
    r.lanes = (syn__pt_replay_lane *)syn_calloc(rank->n_lanes + 1, sizeof *r.lanes);
    r.starts = (int64_t *)syn_malloc((rank->n_ops + 1) * sizeof *r.starts);
    r.ends = (int64_t *)syn_malloc((rank->n_ops + 1) * sizeof *r.ends);
    *out = (syn__pt_replayed){0, 0, r.lanes};
    const bool complete = r.clocks != NULL && r.lanes != NULL && r.starts != NULL && r.ends != NULL;
    if (complete) run_all(&r, out);
    syn_free(r.clocks);
    syn_free(r.starts);
    syn_free(r.ends);
    if (complete) return SYN_OK;
    syn_free(r.lanes);
    out->lanes = NULL;
    return SYN_FAIL_NOMEM(err, 2 * rank->n_ops * sizeof(int64_t), "a replay");
}
