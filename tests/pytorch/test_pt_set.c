/* Tests how the ranks of a trace set are made to agree (pt_set.h): each group gets one id on all
   ranks, collectives and messages are matched across ranks, and communication without a partner is
   marked `alone`. Most ranks are built from rows of the tests. The last test reads the traces of
   four gloo processes and compares them with the calls of the program that was recorded
   (tests/reference/make_pt_gloo.py). */
#include "tests/support/files.h"
#include "tests/support/test.h"

#include "export/chakra/wire/et_node.h"
#include "export/pytorch/comm/pt_comm.h"
#include "export/pytorch/comm/pt_launch_order.h"
#include "export/pytorch/match/pt_match.h"
#include "export/pytorch/set/pt_set.h"
#include "export/pytorch/write/pt_write.h"
#include "syntorch/base/memory.h"

#define MAX_RANKS 4

/* One communication of a rank. The fields are those of syn__pt_comm; -1: none. */
typedef struct row {
    int type, collective;
    int64_t bytes, sequence;
    int group; /* index into the groups of the rank; -1: unknown */
    int peer, tag;
} row;

/* kind: CollectiveCommType. 0 is all-reduce, 1 reduce, 2 all-gather, 4 scatter and 5 broadcast. */

#define COLL(kind, bytes, group) \
    { 7, kind, bytes, -1, group, -1, 0 }
#define SEQ(kind, bytes, group, sequence) \
    { 7, kind, bytes, sequence, group, -1, 0 }
#define SEND(peer, bytes) \
    { 5, -1, bytes, -1, -1, peer, 0 }
#define RECV(peer, bytes) \
    { 6, -1, bytes, -1, -1, peer, 0 }

/* A process group as a rank's trace describes it. n_ranks 0: the trace does not list its ranks. */
typedef struct group_row {
    const char *name;
    uint32_t size, n_ranks; /* size 0: unknown */
    int32_t ranks[MAX_RANKS];
} group_row;

/* The ranks of a trace set, and the anomalies that were found. */
typedef struct set {
    syn__pt_rank ranks[MAX_RANKS];
    syn_pytorch_note notes[SYN_PYTORCH_ANOMALIES];
    syn_error err;
} set;

/* Makes s->ranks[index]: its ops are the communications of `rows`, in that order. number: its
   global rank; -1: unknown. */
static void make_rank(set *s, int index, int number, const group_row *groups, size_t n_groups,
                      const row *rows, size_t n_rows) {
    syn__pt_rank *r = &s->ranks[index];
    r->rank = number;
    r->world_size = -1;
    r->host_input.name = "host";
    r->ops = (syn__pt_op *)syn_calloc(n_rows + 1, sizeof *r->ops);
    r->comms = (syn__pt_comm *)syn_calloc(n_rows + 1, sizeof *r->comms);
    r->groups = (syn__pt_group *)syn_calloc(n_groups + 1, sizeof *r->groups);
    r->n_ops = r->n_comms = n_rows;
    r->n_groups = n_groups;
    for (size_t i = 0; i < n_groups; i++) {
        syn__pt_group *g = &r->groups[i];
        g->name = groups[i].name;
        g->desc = "";
        g->size = groups[i].size;
        g->n_ranks = groups[i].n_ranks;
        g->ranks = (int32_t *)syn__arena_get(&r->arena, sizeof groups[i].ranks);
        memcpy(g->ranks, groups[i].ranks, sizeof groups[i].ranks);
    }
    for (size_t i = 0; i < n_rows; i++) {
        syn__pt_comm *c = &r->comms[i];
        r->ops[i].host = r->ops[i].event = r->ops[i].parent = SYN__PT_NONE;
        r->ops[i].comm = (uint32_t)i;
        r->ops[i].launch = SYN__PT_NONE;
        r->ops[i].start_ns = SYN__PT_NO_NS;
        c->op = (uint32_t)i;
        c->type = (uint32_t)rows[i].type;
        c->collective = rows[i].collective;
        c->bytes = rows[i].bytes;
        c->sequence = rows[i].sequence;
        c->group = rows[i].group < 0 ? SYN__PT_NONE : (uint32_t)rows[i].group;
        c->peer = rows[i].peer;
        c->tag = rows[i].tag;
    }
}

static void free_set(set *s) {
    for (int i = 0; i < MAX_RANKS; i++) syn__pt_rank_free(&s->ranks[i]);
}

#define RANK(s, index, number, groups, rows)                                        \
    make_rank(s, index, number, groups, sizeof(groups) / sizeof((groups)[0]), rows, \
              sizeof(rows) / sizeof((rows)[0]))

/* Returns a character for each communication of the rank: 'x' if it is alone, otherwise '.'. The
   string is valid until the next call. */
static const char *alone(const syn__pt_rank *r) {
    static char text[64];
    for (size_t i = 0; i < r->n_comms && i < 63; i++) text[i] = r->comms[i].alone ? 'x' : '.';
    text[r->n_comms] = '\0';
    return text;
}

static uint64_t count(const set *s, syn_pytorch_anomaly kind) {
    return s->notes[kind].count;
}

/* ---- Groups ---- */

/* Ranks 0 and 1 have a group "3", and ranks 2 and 3 have another group of that name. "solo" has one
   rank. No trace lists the ranks of "lone", but its size is 4 and four ranks have a group of that
   name, so these are its ranks. Only two ranks have "big", whose size is 9, so its ranks stay
   unknown. */
static void test_groups(void) {
    set s = {0};
    const group_row low[] = {
        {"unused", 2, 2, {0, 1}}, {"3", 2, 2, {0, 1}}, {"solo", 1, 1, {0}}, {"lone", 4, 0, {0}}};
    const group_row high[] = {{"3", 2, 2, {2, 3}}, {"lone", 0, 0, {0}}, {"big", 9, 0, {0}}};
    const row low_rows[] = {COLL(0, 8, 3), COLL(0, 4, 1), COLL(0, 4, 2)};
    const row high_rows[] = {COLL(0, 8, 1), COLL(0, 4, 0)};
    RANK(&s, 0, 0, low, low_rows);
    RANK(&s, 1, 1, low, low_rows);
    RANK(&s, 2, 3, high, high_rows);
    RANK(&s, 3, 2, high, high_rows);
    CHECK_OK(syn__pt_set_agree(s.ranks, 4, s.notes, &s.err), s.err);
    CHECK_INT(s.ranks[0].groups[3].id, 1); /* ids follow the order of first use */
    CHECK_INT(s.ranks[0].groups[1].id, 2);
    CHECK_INT(s.ranks[2].groups[0].id, 3);
    CHECK_INT(s.ranks[3].groups[0].id, 3);
    CHECK_INT(s.ranks[2].groups[1].id, 1);
    CHECK_INT(s.ranks[0].groups[0].id, 4);
    CHECK_INT(s.ranks[1].groups[0].id, 4);
    CHECK(s.ranks[0].groups[2].id > 3);
    CHECK_INT(s.ranks[2].groups[1].n_ranks, 4);
    CHECK_INT(s.ranks[2].groups[1].ranks[1], 1);
    CHECK_INT(s.ranks[2].groups[1].ranks[3], 3);
    CHECK_INT(s.ranks[2].groups[2].n_ranks, 0);
    CHECK_STR(alone(&s.ranks[0]), "..x");
    CHECK_STR(alone(&s.ranks[2]), "..");
    CHECK_INT(count(&s, SYN_PYTORCH_ANOMALY_COMM_UNMATCHED), 0);
    syn_sink *sink;
    CHECK_OK(syn_sink_open_memory(&sink, &s.err), s.err);
    syn__pt_write_groups(s.ranks, 4, sink);
    CHECK_STR(
        syn_sink_data(sink, NULL),
        "{\n  \"1\": [0, 1, 2, 3],\n  \"2\": [0, 1],\n  \"3\": [2, 3],\n  \"4\": [0, 1]\n}\n");
    CHECK_OK(syn_sink_close(sink, true, &s.err), s.err);
    free_set(&s);
}

/* Rank 1's trace does not list the ranks of its group, so it gets the list of rank 0's trace, which
   contains rank 1. Rank 3 is in neither of the two lists, so the ranks of its group stay
   unknown. */
static void test_known_elsewhere(void) {
    set s = {0};
    const group_row a[] = {{"x", 2, 2, {1, 0}}}, b[] = {{"x", 2, 0, {0}}},
                    c[] = {{"x", 2, 2, {2, 5}}};
    const row rows[] = {COLL(0, 8, 0)};
    RANK(&s, 0, 0, a, rows);
    RANK(&s, 1, 1, b, rows);
    RANK(&s, 2, 2, c, rows);
    RANK(&s, 3, 3, b, rows);
    CHECK_OK(syn__pt_set_agree(s.ranks, 4, s.notes, &s.err), s.err);
    CHECK_INT(s.ranks[1].groups[0].n_ranks, 2);
    CHECK_INT(s.ranks[1].groups[0].ranks[0], 1);
    CHECK_INT(s.ranks[1].groups[0].id, s.ranks[0].groups[0].id);
    CHECK_INT(s.ranks[3].groups[0].n_ranks, 0);
    CHECK(s.ranks[2].groups[0].id != s.ranks[0].groups[0].id);
    free_set(&s);
}

static void test_no_groups(void) {
    set s = {0};
    syn_sink *sink;
    make_rank(&s, 0, -1, NULL, 0, NULL, 0);
    CHECK_OK(syn__pt_set_agree(s.ranks, 1, s.notes, &s.err), s.err);
    CHECK_OK(syn_sink_open_memory(&sink, &s.err), s.err);
    syn__pt_write_groups(s.ranks, 1, sink);
    CHECK_STR(syn_sink_data(sink, NULL), "{}\n");
    CHECK_OK(syn_sink_close(sink, true, &s.err), s.err);
    free_set(&s);
}

/* ---- Collectives ---- */

static const group_row pair[] = {{"0", 2, 2, {0, 1}}};

/* Rank 1's trace begins one call earlier and ends one call later than rank 0's. Only these two
   calls remain without a partner. */
static void test_shifted(void) {
    set s = {0};
    const row a[] = {COLL(0, 8, 0), COLL(2, 16, 0), COLL(0, 8, 0)};
    const row b[] = {COLL(5, 4, 0), COLL(0, 8, 0), COLL(2, 16, 0), COLL(0, 8, 0), COLL(0, 4, 0)};
    RANK(&s, 0, 0, pair, a);
    RANK(&s, 1, 1, pair, b);
    CHECK_OK(syn__pt_set_agree(s.ranks, 2, s.notes, &s.err), s.err);
    CHECK_STR(alone(&s.ranks[0]), "...");
    CHECK_STR(alone(&s.ranks[1]), "x...x");
    CHECK_INT(count(&s, SYN_PYTORCH_ANOMALY_COMM_UNMATCHED), 2);
    CHECK_INT(count(&s, SYN_PYTORCH_ANOMALY_COMM_DIFFERS) +
                  count(&s, SYN_PYTORCH_ANOMALY_SIZE_DIFFERS),
              0);
    free_set(&s);
}

/* All calls are equal, so only their sequence numbers show which of them match. Calls with the same
   number are matched in order. */
static void test_sequence(void) {
    set s = {0};
    const row a[] = {SEQ(0, 8, 0, 5), SEQ(0, 8, 0, 6), SEQ(0, 8, 0, 7), SEQ(0, 8, 0, 7)};
    const row b[] = {SEQ(0, 8, 0, 6), SEQ(0, 8, 0, 7), SEQ(0, 8, 0, 7), SEQ(0, 8, 0, 8)};
    RANK(&s, 0, 0, pair, a);
    RANK(&s, 1, 1, pair, b);
    CHECK_OK(syn__pt_set_agree(s.ranks, 2, s.notes, &s.err), s.err);
    CHECK_STR(alone(&s.ranks[0]), "x...");
    CHECK_STR(alone(&s.ranks[1]), "...x");
    CHECK_INT(count(&s, SYN_PYTORCH_ANOMALY_COMM_UNMATCHED), 2);
    free_set(&s);
    /* If two ranks have no sequence number in common, their calls are matched in order. */
    memset(&s, 0, sizeof s);
    const row c[] = {SEQ(0, 8, 0, 5), SEQ(2, 8, 0, 6)};
    const row d[] = {SEQ(0, 8, 0, 105), SEQ(2, 8, 0, 106)};
    RANK(&s, 0, 0, pair, c);
    RANK(&s, 1, 1, pair, d);
    CHECK_OK(syn__pt_set_agree(s.ranks, 2, s.notes, &s.err), s.err);
    CHECK_STR(alone(&s.ranks[0]), "..");
    CHECK_STR(alone(&s.ranks[1]), "..");
    free_set(&s);
}

/* If the sizes of a collective differ, all ranks get the largest. If the kinds differ, the
   collective is alone on all ranks. */
static void test_differences(void) {
    set s = {0};
    const group_row all[] = {{"0", 3, 3, {0, 1, 2}}};
    const row a[] = {COLL(0, 8, 0), COLL(4, 100, 0), COLL(1, 8, 0)};
    const row b[] = {COLL(0, 8, 0), COLL(4, 300, 0), COLL(2, 8, 0)};
    const row c[] = {COLL(0, 8, 0), COLL(4, 100, 0), COLL(1, 8, 0)};
    RANK(&s, 0, 0, all, a);
    RANK(&s, 1, 1, all, b);
    RANK(&s, 2, 2, all, c);
    CHECK_OK(syn__pt_set_agree(s.ranks, 3, s.notes, &s.err), s.err);
    for (int i = 0; i < 3; i++) {
        CHECK_STR(alone(&s.ranks[i]), "..x");
        CHECK_INT(s.ranks[i].comms[1].bytes, 300);
    }
    CHECK_INT(count(&s, SYN_PYTORCH_ANOMALY_SIZE_DIFFERS), 1);
    CHECK_INT(count(&s, SYN_PYTORCH_ANOMALY_COMM_DIFFERS), 1);
    free_set(&s);
}

/* Rank 2 recorded no collective of group "0", so those of the other ranks are alone. Rank 7, in
   group "far", is not in the set: it is removed from the list, and the collective of rank 0 is
   alone. The collectives without a group count as collectives of all ranks, and match. */
static void test_absent(void) {
    set s = {0};
    const group_row groups[] = {{"0", 3, 3, {0, 1, 2}}, {"far", 2, 2, {0, 7}}};
    const row a[] = {COLL(0, 8, 0), COLL(0, 8, 1), COLL(0, 8, -1)};
    const row b[] = {COLL(0, 8, 0), COLL(0, 8, -1)};
    const row c[] = {COLL(0, 8, -1)};
    RANK(&s, 0, 0, groups, a);
    RANK(&s, 1, 1, groups, b);
    RANK(&s, 2, 2, groups, c);
    CHECK_OK(syn__pt_set_agree(s.ranks, 3, s.notes, &s.err), s.err);
    CHECK_STR(alone(&s.ranks[0]), "xx.");
    CHECK_INT(s.ranks[0].groups[1].n_ranks, 1);
    CHECK_STR(alone(&s.ranks[1]), "x.");
    CHECK_STR(alone(&s.ranks[2]), ".");
    CHECK_INT(count(&s, SYN_PYTORCH_ANOMALY_COMM_UNMATCHED), 2);
    free_set(&s);
}

/* If a kernel runs a batch of calls, the ops of the further calls have the kernel's time but the
   highest indices. Calls are therefore ordered by time, not by index. */
static void test_times(void) {
    set s = {0};
    const row a[] = {COLL(0, 8, 0), COLL(2, 8, 0), COLL(1, 8, 0)};
    const row b[] = {COLL(0, 8, 0), COLL(1, 8, 0), COLL(2, 8, 0)};
    const int64_t at[] = {10, 30, 20};
    RANK(&s, 0, 0, pair, a);
    RANK(&s, 1, 1, pair, b);
    for (int i = 0; i < 3; i++) s.ranks[0].ops[i].start_ns = at[i];
    CHECK_OK(syn__pt_set_agree(s.ranks, 2, s.notes, &s.err), s.err);
    CHECK_STR(alone(&s.ranks[0]), "...");
    CHECK_INT(count(&s, SYN_PYTORCH_ANOMALY_COMM_DIFFERS), 0);
    free_set(&s);
}

/* A call without a time comes right after the calls that the program made before it. */
static void test_times_lost(void) {
    set s = {0};
    const row a[] = {COLL(0, 8, 0), COLL(2, 8, 0), COLL(1, 8, 0), COLL(7, 8, 0)};
    RANK(&s, 0, 0, pair, a);
    RANK(&s, 1, 1, pair, a);
    s.ranks[1].ops[0].start_ns = 100;
    s.ranks[1].ops[2].start_ns = 200;
    CHECK_OK(syn__pt_set_agree(s.ranks, 2, s.notes, &s.err), s.err);
    CHECK_STR(alone(&s.ranks[0]), "....");
    CHECK_STR(alone(&s.ranks[1]), "....");
    CHECK_INT(count(&s, SYN_PYTORCH_ANOMALY_COMM_DIFFERS), 0);
    free_set(&s);
}

/* Makes the communications of a rank kernels. Each array has an element for each communication: its
   track, the time of its launch, and its start. */
static void make_kernels(syn__pt_rank *r, const uint32_t *tracks, const int64_t *launched,
                         const int64_t *begun) {
    r->n_tracks = 2;
    r->device.n_events = r->n_comms;
    r->device.events = (syn__pt_event *)syn_calloc(r->n_comms, sizeof *r->device.events);
    for (uint32_t i = 0; i < r->n_comms; i++) {
        r->device.events[i].flags = SYN__PT_EVENT_TS;
        r->device.events[i].ts_ns = launched[i];
        r->ops[i].kind = SYN_PYTORCH_OP_KERNEL;
        r->ops[i].track = tracks[i];
        r->ops[i].launch = i;
        r->ops[i].start_ns = begun[i];
    }
}

/* Kernels on two streams can begin in any order, so they are matched in launch order. */
static void test_launches(void) {
    set s = {0};
    const row rows[] = {COLL(0, 8, 0), COLL(2, 8, 0), COLL(1, 8, 0)};
    const uint32_t tracks[] = {0, 1, 0}, one_track[] = {0, 0, 0};
    const int64_t launched[] = {1, 2, 3}, begun[] = {10, 20, 30}, late[] = {25, 20, 30};
    RANK(&s, 0, 0, pair, rows);
    RANK(&s, 1, 1, pair, rows);
    make_kernels(&s.ranks[0], tracks, launched, begun);
    make_kernels(&s.ranks[1], tracks, launched, late);
    CHECK_OK(syn__pt_set_agree(s.ranks, 2, s.notes, &s.err), s.err);
    CHECK_STR(alone(&s.ranks[0]), "...");
    CHECK_STR(alone(&s.ranks[1]), "...");
    CHECK_INT(count(&s, SYN_PYTORCH_ANOMALY_COMM_DIFFERS), 0);
    /* Kernels on one stream are ordered by their start. */
    for (int same = 0; same < 2; same++) {
        uint32_t *order;
        for (int i = 0; i < 3; i++) s.ranks[1].ops[i].track = same ? one_track[i] : tracks[i];
        CHECK_OK(syn__pt_launch_order(&s.ranks[1], late, &order, &s.err), s.err);
        CHECK_INT(order[0], same);
        CHECK_INT(order[1], !same);
        CHECK_INT(order[2], 2);
        syn_free(order);
    }
    /* Once ops have ids, the collectives of one group are ordered by id. */
    uint32_t ids[] = {2, 1, 3}, *order;
    s.ranks[1].ids = ids;
    s.ranks[1].ops[1].track = 1;
    CHECK_OK(syn__pt_launch_order(&s.ranks[1], NULL, &order, &s.err), s.err);
    CHECK_INT(order[0], 1);
    CHECK_INT(order[1], 0);
    syn_free(order);
    s.ranks[1].ids = NULL;
    free_set(&s);
}

/* ---- Deadlocks ---- */

static const group_row two_groups[] = {{"x", 2, 2, {0, 1}}, {"y", 2, 2, {0, 1}}};

/* The first call of group "y" comes after the calls of group "x" on rank 0, but before them on rank
   1. It is removed, and no other, because its positions on the two ranks differ most. */
static void test_deadlock(void) {
    set s = {0};
    const row a[] = {COLL(0, 8, 0), COLL(0, 8, 0), COLL(0, 8, 0), COLL(0, 4, 1), COLL(2, 4, 1)};
    const row b[] = {COLL(0, 4, 1), COLL(0, 8, 0), COLL(0, 8, 0), COLL(0, 8, 0), COLL(2, 4, 1)};
    RANK(&s, 0, 0, two_groups, a);
    RANK(&s, 1, 1, two_groups, b);
    CHECK_OK(syn__pt_set_agree(s.ranks, 2, s.notes, &s.err), s.err);
    CHECK_STR(alone(&s.ranks[0]), "...x.");
    CHECK_STR(alone(&s.ranks[1]), "x....");
    CHECK_INT(count(&s, SYN_PYTORCH_ANOMALY_COMM_DEADLOCK), 1);
    free_set(&s);
}

/* Each rank calls receive before send. This is a deadlock only if the send depends on the receive
   (`waits`); then one of the two messages is removed. */
static void test_deadlock_of_messages(void) {
    for (int waits = 0; waits < 2; waits++) {
        set s = {0};
        const row a[] = {RECV(1, 8), SEND(1, 8)}, b[] = {RECV(0, 8), SEND(0, 8)};
        make_rank(&s, 0, 0, NULL, 0, a, 2);
        make_rank(&s, 1, 1, NULL, 0, b, 2);
        for (int i = 0; i < 2 && waits; i++) {
            syn__pt_rank *r = &s.ranks[i];
            r->first_dep = (uint32_t *)syn_calloc(4, sizeof *r->first_dep);
            r->deps = (syn__pt_dep *)syn_calloc(1, sizeof *r->deps);
            r->first_dep[2] = 1;
            r->n_deps = 1;
        }
        CHECK_OK(syn__pt_set_agree(s.ranks, 2, s.notes, &s.err), s.err);
        CHECK_INT(count(&s, SYN_PYTORCH_ANOMALY_COMM_DEADLOCK), waits);
        int n = 0;
        for (int i = 0; i < 4; i++) n += s.ranks[i / 2].comms[i % 2].alone;
        CHECK_INT(n, 2 * waits);
        CHECK_INT(s.ranks[0].comms[0].alone, s.ranks[1].comms[1].alone);
        free_set(&s);
    }
}

/* ---- Messages ---- */

static void test_messages(void) {
    set s = {0};
    const row a[] = {SEND(1, 10), RECV(1, 20), SEND(1, 30), SEND(1, 40),
                     SEND(0, 5),  SEND(2, 1),  RECV(-1, 3)};
    const row b[] = {RECV(0, 10), SEND(0, 20), RECV(0, 40), RECV(2, 6), RECV(2, 7)};
    const row c[] = {SEND(1, 7), SEND(9, 2)};
    make_rank(&s, 0, 0, NULL, 0, a, sizeof a / sizeof a[0]);
    make_rank(&s, 1, 1, NULL, 0, b, sizeof b / sizeof b[0]);
    make_rank(&s, 2, 2, NULL, 0, c, sizeof c / sizeof c[0]);
    CHECK_OK(syn__pt_set_agree(s.ranks, 3, s.notes, &s.err), s.err);
    CHECK_STR(alone(&s.ranks[0]), "..x.xxx");
    CHECK_STR(alone(&s.ranks[1]), "...x.");
    CHECK_STR(alone(&s.ranks[2]), ".x"); /* rank 9 is not in the set */
    CHECK_INT(count(&s, SYN_PYTORCH_ANOMALY_MESSAGE_UNMATCHED), 4);
    const syn__pt_comm *x = s.ranks[0].comms, *y = s.ranks[1].comms;
    CHECK_INT(x[0].tag, y[0].tag);
    CHECK_INT(x[3].tag, y[2].tag);
    CHECK_INT(x[1].tag, y[1].tag);
    CHECK_INT(y[4].tag, s.ranks[2].comms[0].tag);
    CHECK(x[0].tag != x[2].tag && x[0].tag != x[3].tag && x[2].tag != x[3].tag);
    free_set(&s);
}

/* The tags of the program match messages that were received in another order than they were sent.
   If the sizes of a send and its receive differ, both get the larger. */
static void test_tags(void) {
    set s = {0};
    const row a[] = {{5, -1, 10, -1, -1, 1, 8}, {5, -1, 10, -1, -1, 1, 9}};
    const row b[] = {{6, -1, 10, -1, -1, 0, 9}, {6, -1, 12, -1, -1, 0, 8}};
    make_rank(&s, 0, 0, NULL, 0, a, 2);
    make_rank(&s, 1, 1, NULL, 0, b, 2);
    CHECK_OK(syn__pt_set_agree(s.ranks, 2, s.notes, &s.err), s.err);
    CHECK_INT(s.ranks[0].comms[0].tag, s.ranks[1].comms[1].tag);
    CHECK_INT(s.ranks[0].comms[1].tag, s.ranks[1].comms[0].tag);
    CHECK(s.ranks[0].comms[0].tag != s.ranks[0].comms[1].tag);
    CHECK_INT(s.ranks[0].comms[0].bytes, 12);
    CHECK_INT(count(&s, SYN_PYTORCH_ANOMALY_SIZE_DIFFERS), 1);
    free_set(&s);
}

/* A single rank has no other rank to be compared with. Its messages get tags that count up for each
   pair of source and destination. */
static void test_one_rank(void) {
    set s = {0};
    const row a[] = {COLL(0, 8, 0), SEND(1, 10), SEND(2, 10), RECV(1, 5), SEND(1, 10), RECV(-1, 5)};
    RANK(&s, 0, 0, pair, a);
    CHECK_OK(syn__pt_set_agree(s.ranks, 1, s.notes, &s.err), s.err);
    CHECK_STR(alone(&s.ranks[0]), "......");
    static const int tags[] = {0, 0, 0, 0, 1, 0};
    for (int i = 0; i < 6; i++) CHECK_INT(s.ranks[0].comms[i].tag, tags[i]);
    CHECK_INT(s.ranks[0].groups[0].id, 1);
    for (int i = 0; i < SYN_PYTORCH_ANOMALIES; i++) CHECK_INT(s.notes[i].count, 0);
    free_set(&s);
}

static void test_out_of_memory(void) {
    syn_status status = SYN_E_NOMEM;
    for (uint64_t n = 0; status == SYN_E_NOMEM && n < 1000; n++) {
        set s = {0};
        const group_row groups[] = {{"0", 2, 2, {0, 1}}, {"lone", 2, 0, {0}}};
        const row a[] = {COLL(0, 8, 0), SEND(1, 10), COLL(0, 8, 1), COLL(0, 4, 0)};
        const row b[] = {COLL(0, 8, 0), RECV(0, 10), COLL(0, 4, 0), COLL(0, 8, 1)};
        RANK(&s, 0, 0, groups, a);
        RANK(&s, 1, 1, groups, b);
        syn_memory_fail_after(n);
        status = syn__pt_set_agree(s.ranks, 2, s.notes, &s.err);
        syn_memory_fail_after(SYN_MEMORY_NEVER);
        CHECK(status == SYN_OK || (status == SYN_E_NOMEM && s.err.text[0] != '\0'));
        free_set(&s);
    }
    CHECK_INT(status, SYN_OK);
}

/* ---- A real trace set: four gloo processes (tests/reference/make_pt_gloo.py) ---- */

static syn_status read_gloo(set *s, int rank) {
    const syn_pytorch_options options = {0};
    const char *host = reference_path("pt_gloo/host.%d.json.gz", rank);
    const char *device = reference_path("pt_gloo/device.%d.json.gz", rank);
    syn__pt_rank *r = &s->ranks[rank];
    SYN_TRY(syn__pt_rank_read(r, host, device, &options, s->notes, &s->err));
    SYN_TRY(syn__pt_match(r, &options, s->notes, &s->err));
    return syn__pt_find_comms(r, s->notes, &s->err);
}

/* The collectives of the script, which are the same on all four ranks: CollectiveCommType, and
   number of elements times element size. */
static const struct {
    int collective;
    int64_t bytes;
} gloo_calls[] = {
    {0, 1000 * 4},
    {0, 1001 * 2},
    {5, 1002 * 8},
    {1, 1003 * 8},
    {2, 1004 * 4},
    {2, 1005 * 4},
    {3, 1006 * 4},
    {4, 4 * 1007 * 4},
    {7, 4 * 1008 * 4},
    {7, 4 * 1009 * 4},
    {6, 4 * 1010 * 4},
    {6, 4 * 1011 * 4},
    {6, 10 * 4},
    {9, 1},
    {0, 300 * 4},
    /* DistributedDataParallel communicates the number of parameters, their shapes and strides, the
       parameters, and the gradients. */
    {2, 8},
    {5, 6 * 8},
    {5, (16 * 8 + 8) * 4},
    {0, (16 * 8 + 8) * 4},
};

static void check_gloo_collectives(const syn__pt_rank *r) {
    const size_t n = sizeof gloo_calls / sizeof gloo_calls[0];
    size_t at = 0;
    for (size_t i = 0; i < r->n_comms; i++) {
        const syn__pt_comm *c = &r->comms[i];
        if (c->type != SYN__ET_COMM_COLL_NODE) continue;
        CHECK(at < n);
        CHECK_MSG(c->collective == gloo_calls[at].collective, "rank %d call %zu", r->rank, at);
        CHECK_MSG(c->bytes == gloo_calls[at].bytes, "rank %d call %zu: %lld", r->rank, at,
                  (long long)c->bytes);
        CHECK(!c->alone);
        at++;
    }
    CHECK_INT(at, n);
}

static const syn__pt_comm *message(const syn__pt_rank *r, int type, int64_t bytes) {
    for (size_t i = 0; i < r->n_comms; i++) {
        if ((int)r->comms[i].type == type && r->comms[i].bytes == bytes) return &r->comms[i];
    }
    return NULL;
}

static void test_gloo(void) {
    set s = {0};
#ifndef SYN_HAVE_ZLIB
    SKIP("built without zlib");
#endif
    for (int i = 0; i < 4; i++) CHECK_OK(read_gloo(&s, i), s.err);
    CHECK_OK(syn__pt_set_agree(s.ranks, 4, s.notes, &s.err), s.err);
    for (int i = 0; i < 4; i++) {
        CHECK_INT(s.ranks[i].rank, i);
        CHECK_INT(s.ranks[i].world_size, 4);
        check_gloo_collectives(&s.ranks[i]);
        /* In a ring, each rank sends to the next rank. */
        const syn__pt_comm *send = message(&s.ranks[i], 5, 1014 * 4);
        const syn__pt_comm *recv = message(&s.ranks[(i + 1) % 4], 6, 1014 * 4);
        CHECK(send != NULL && recv != NULL && !send->alone && !recv->alone);
        CHECK_INT(send->peer, (i + 1) % 4);
        CHECK_INT(recv->peer, i);
        CHECK_INT(send->tag, recv->tag);
    }
    /* Two messages cannot be matched. The peers of the first are numbered within the group of ranks
       0 and 3, which gloo's traces do not name. The second is received from an unspecified rank. */
    CHECK(message(&s.ranks[0], 5, 1013 * 4)->alone && message(&s.ranks[3], 6, 1013 * 4)->alone);
    CHECK(message(&s.ranks[0], 5, 28)->alone && message(&s.ranks[1], 6, 28)->alone);
    CHECK_INT(count(&s, SYN_PYTORCH_ANOMALY_MESSAGE_UNMATCHED), 3);
    CHECK_INT(count(&s, SYN_PYTORCH_ANOMALY_PEER_UNKNOWN), 1);
    CHECK_INT(count(&s, SYN_PYTORCH_ANOMALY_SIZE_DIFFERS), 0);
    CHECK_INT(count(&s, SYN_PYTORCH_ANOMALY_COMM_UNMATCHED) +
                  count(&s, SYN_PYTORCH_ANOMALY_COMM_DIFFERS),
              0);
    CHECK_INT(s.ranks[0].n_groups, 3);
    CHECK_INT(s.ranks[3].groups[2].id, s.ranks[0].groups[2].id);
    CHECK(s.ranks[3].groups[1].id != s.ranks[0].groups[1].id);
    CHECK_INT(s.ranks[3].groups[1].ranks[0], 2);
    free_set(&s);
}

static const test_case cases[] = {
    {"groups", test_groups},
    {"told_elsewhere", test_known_elsewhere},
    {"no_groups", test_no_groups},
    {"shifted", test_shifted},
    {"sequence", test_sequence},
    {"differences", test_differences},
    {"absent", test_absent},
    {"times", test_times},
    {"times_lost", test_times_lost},
    {"launches", test_launches},
    {"deadlock", test_deadlock},
    {"deadlock_of_messages", test_deadlock_of_messages},
    {"messages", test_messages},
    {"tags", test_tags},
    {"one_rank", test_one_rank},
    {"out_of_memory", test_out_of_memory},
    {"gloo", test_gloo},
};

TEST_MAIN(cases)
