/* Converts real traces (shared data) to profile astra-sim. The numbers of nodes are compared with
   the numbers of events in the traces, and replayed times with measured times. The trace set is
   checked by etcheck.py, a program that is not part of this repository. */
#include "tests/support/files.h"
#include "tests/support/test.h"

#include "export/chakra/wire/et_node.h"
#include "export/pytorch/comm/pt_comm.h"
#include "export/pytorch/deps/pt_deps.h"
#include "export/pytorch/match/pt_match.h"
#include "export/pytorch/rank/pt_rank.h"
#include "export/pytorch/set/pt_set.h"
#include "export/pytorch/sim/pt_replay.h"
#include "export/pytorch/write/pt_write.h"
#include "syntorch/base/memory.h"
#include "tests/support/pt_written.h"

static syn_error error;

/* Runs all steps of the conversion that concern one rank. */
static syn_status prepare(syn__pt_rank *rank, const char *set, syn_pytorch_note *notes) {
    const syn_pytorch_options options = {0};
    const char *host = shared_path("pytorch-traces/%s/host.0.json.gz", set);
    const char *device = shared_path("pytorch-traces/%s/device.0.json.gz", set);
    SYN_TRY(syn__pt_rank_read(rank, host, device, &options, notes, &error));
    SYN_TRY(syn__pt_match(rank, &options, notes, &error));
    SYN_TRY(syn__pt_find_comms(rank, notes, &error));
    SYN_TRY(syn__pt_connect(rank, &options, &error));
    return syn__pt_order(rank, notes, &error);
}

/* Turns rank 0 into its partner, rank 1, which calls the same collectives, receives what rank 0
   sends, and sends what rank 0 receives. */
static void turn_around(syn__pt_rank *rank) {
    rank->rank = 1;
    for (size_t i = 0; i < rank->n_comms; i++) {
        syn__pt_comm *c = &rank->comms[i];
        if (c->type == SYN__ET_COMM_COLL_NODE) continue;
        c->type =
            c->type == SYN__ET_COMM_SEND_NODE ? SYN__ET_COMM_RECV_NODE : SYN__ET_COMM_SEND_NODE;
        c->peer = 0;
    }
}

static syn_status write_set(const syn__pt_rank *ranks) {
    const syn_pytorch_options options = {0};
    syn_sink *sink;
    for (int i = 0; i < 2; i++) {
        SYN_TRY(syn_sink_open_file(&sink, in_folder(i == 0 ? "t.0.et" : "t.1.et"), &error));
        const syn_status status = syn__pt_write_sim(&ranks[i], options.version, sink, NULL, &error);
        SYN_TRY(syn_sink_close(sink, status == SYN_OK, &error));
        SYN_TRY(status);
    }
    SYN_TRY(syn_sink_open_file(&sink, in_folder("t.comm_group.json"), &error));
    syn__pt_write_groups(ranks, 2, sink);
    return syn_sink_close(sink, true, &error);
}

/* Sums over the nodes of the file of rank 0. */
typedef struct totals {
    uint64_t nodes, delays, comms, compute_us;
} totals;

static syn_status count(totals *t) {
    syn__et_decoder decoder = {0};
    syn__et_node node;
    syn__str rest, message;
    char *data = file_bytes(in_folder("t.0.et"), &rest.bytes);
    *t = (totals){0, 0, 0, 0};
    rest.text = data;
    (void)written_message(&rest, &message);
    while (written_message(&rest, &message) &&
           syn__et_decode_node(&decoder, message, &node) == SYN_OK) {
        t->nodes++;
        t->delays += syn__str_is(node.name, "host delay");
        t->comms += node.type != SYN__ET_COMP_NODE;
        if (node.type == SYN__ET_COMP_NODE) t->compute_us += node.duration_micros;
    }
    syn__et_decoder_free(&decoder);
    free(data);
    return SYN_OK;
}

/* Checks the trace set with etcheck.py and returns its exit status. If it fails, prints its
   output. */
static int etcheck(void) {
    char command[1200];
    snprintf(command, sizeof command, "/usr/bin/python3 %s/etcheck.py %s > %s",
             getenv("SYN_SHARED_TOOLS"), in_folder("t"), in_folder("said"));
    const int status = system(command);
    if (status != 0) fputs(file_text(in_folder("said")), stderr);
    return status;
}

static syn_status convert(const char *set, totals *t, syn_pytorch_replay *replayed) {
    syn_pytorch_note notes[SYN_PYTORCH_ANOMALIES] = {{0}};
    syn__pt_rank ranks[2];
    memset(ranks, 0, sizeof ranks);
    error = (syn_error){0};
    syn_status status = prepare(&ranks[0], set, notes);
    if (status == SYN_OK) status = prepare(&ranks[1], set, notes);
    if (status == SYN_OK) {
        turn_around(&ranks[1]);
        status = syn__pt_set_agree(ranks, 2, notes, &error);
    }
    if (status == SYN_OK) status = write_set(ranks);
    if (status == SYN_OK) status = count(t);
    if (status == SYN_OK) status = syn__pt_replay_sim(&ranks[0], replayed, &error);
    syn_free(replayed->rows);
    syn__pt_rank_free(&ranks[0]);
    syn__pt_rank_free(&ranks[1]);
    return status;
}

/* device: the number of kernels, copies and memory sets in the trace; comms: how many of them
   communicate. */
static void check(const char *set, uint64_t device, uint64_t comms) {
    syn_pytorch_replay replayed = {0};
    totals t;
#ifndef SYN_HAVE_ZLIB
    SKIP("built without zlib");
#endif
    if (!have_shared_data()) SKIP("SYN_SHARED_DATA is not set");
    CHECK_OK(convert(set, &t, &replayed), error);
    CHECK_INT(t.nodes - t.delays, device);
    CHECK_INT(t.comms, comms);
    /* The compute slot, delays included, is busy for about the measured time. */
    CHECK_NEAR((double)t.compute_us, (double)replayed.measured_ns / 1e3,
               0.1 * (double)replayed.measured_ns / 1e3);
    CHECK_NEAR((double)replayed.replayed_ns, (double)replayed.measured_ns,
               0.01 * (double)replayed.measured_ns);
    if (getenv("SYN_SHARED_TOOLS") == NULL) SKIP("SYN_SHARED_TOOLS is not set");
    CHECK_INT(etcheck(), 0);
}

static void resnet(void) {
    check("resnet_2gpu_rank0", 2700 + 960 + 114, 21);
}

static void all_features(void) {
    check("synth_allfeatures", 66 + 3, 24);
}

static const test_case cases[] = {{"resnet", resnet}, {"all_features", all_features}};

TEST_MAIN(cases)
