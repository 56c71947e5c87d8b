/* Tests export/pytorch.h as a C program uses it: converts the PyTorch traces of examples/pytorch
   and of tests/reference with several options, and checks which inputs are rejected. The expected
   counts were taken from the JSON of the traces. In compatible mode, the expected files were
   written by the reference tools (chakra_trace_link and chakra_converter). */
#include "export/pytorch.h"
#include "export/validate.h"
#include "tests/support/files.h"
#include "tests/support/pt_calls_json.h"
#include "tests/support/test.h"

static syn_pytorch_report report;
static syn_error err;

/* Copies a path. The last 16 copies stay valid, which is enough for one test case. */
static const char *keep(const char *path) {
    static char kept[16][512];
    static size_t n;
    if (path == NULL) return NULL;
    char *out = kept[n++ % 16];
    out[0] = '\0';
    strncat(out, path, sizeof *kept - 1);
    return out;
}

static syn_pytorch_source pair(const char *host, const char *device) {
    return (syn_pytorch_source){.host = keep(host), .device = keep(device)};
}

/* The traces of one rank in examples/pytorch. */
static syn_pytorch_source example(int rank) {
    return pair(source_path("examples/pytorch/host.%d.json", rank),
                source_path("examples/pytorch/device.%d.json", rank));
}

/* Traces with kernels, of rank 0 of 2 (tests/reference/make_pytorch_fixture.py). */
static syn_pytorch_source fixture(void) {
    return pair(reference_path("pytorch/host.0.json"), reference_path("pytorch/device.0.json"));
}

static syn_status convert(const syn_pytorch_source *sources, size_t n, const char *name,
                          const syn_pytorch_options *options) {
    syn_pytorch_report_free(&report);
    err = (syn_error){0};
    return syn_pytorch_convert(&report, sources, n, in_folder(name), options, &err);
}

static size_t size_of(const char *path) {
    size_t bytes = 0;
    free(file_bytes(path, &bytes));
    return bytes;
}

static bool same_files(const char *a, const char *b) {
    size_t n_a = 0, n_b = 0;
    char *x = file_bytes(a, &n_a), *y = file_bytes(b, &n_b);
    const bool same = x && y && n_a == n_b && memcmp(x, y, n_a) == 0;
    free(x);
    free(y);
    return same;
}

/* The number of problems that the validator finds in a trace or trace set; -1: it failed. */
static long long problems(const char *path, const syn_validate_options *how) {
    syn_validation v;
    const syn_status s = syn_validate(&v, &path, 1, how, &err);
    const long long n = s == SYN_OK ? (long long)v.n_problems : -1;
    syn_validation_free(&v);
    return n;
}

/* ---- Conversions ---- */

/* The model has 9,352 gradients of 4 bytes, summed in a single all-reduce (docs/pytorch.md). */
static void the_example_is_a_set(void) {
    const syn_pytorch_source ranks[] = {example(0), example(1)};
    const syn_validate_options any = {.any_node = true};
    CHECK_OK(convert(ranks, 2, "out/trace", NULL), err);
    CHECK_INT(count_entries(in_folder("out")), 3);
    CHECK_INT(problems(in_folder("out/trace"), &any), 0);
    CHECK_STR(file_text(in_folder("out/trace.comm_group.json")), "{\n  \"1\": [0, 1]\n}\n");
    CHECK_INT(report.n_anomalies, 0);
    CHECK_INT(report.n_ranks, 2);
    CHECK_INT(report.in_bytes, size_of(ranks[0].host) + size_of(ranks[0].device) +
                                   size_of(ranks[1].host) + size_of(ranks[1].device));
    CHECK_INT(report.out_bytes,
              size_of(in_folder("out/trace.0.et")) + size_of(in_folder("out/trace.1.et")));
    for (int i = 0; i < 2; i++) {
        const syn_pytorch_rank_report *r = &report.ranks[i];
        CHECK_INT(r->rank, i);
        CHECK_STR(r->host, ranks[i].host);
        CHECK_STR(r->device, ranks[i].device);
        /* gloo:all_reduce ended after the observer was stopped, so it is not among the 151 nodes of
           the host trace, but it is kept. */
        CHECK_INT(r->n_nodes, 152);
        CHECK_INT(r->in[SYN_PYTORCH_OP_HOST] + r->in[SYN_PYTORCH_OP_METADATA], 152);
        CHECK_INT(r->out[SYN_PYTORCH_OP_HOST], r->in[SYN_PYTORCH_OP_HOST]);
        CHECK_INT(r->matches.host_nodes, 151);
        CHECK_INT(r->n_comms[SYN_COMM_ALL_REDUCE], 1);
        CHECK_INT(r->comm_bytes, 9352 * 4);
        CHECK_INT(r->n_groups, 1);
        CHECK_INT(r->matches.cpu_events_kept, 1);
        /* There is no hint about missing device work, because all tensors are on the CPU. */
        CHECK_INT(r->hints, 1u << SYN_PYTORCH_HINT_UNRECORDED_OPS);
        CHECK_INT(r->n_dropped, 0);
        CHECK_INT(r->replay.n_rows, 0);
    }
}

static void a_simulators_set(void) {
    const syn_pytorch_source ranks[] = {example(0), example(1)};
    const syn_pytorch_options options = {.profile = SYN_PYTORCH_ASTRA_SIM, .version = "tests 1"};
    const syn_validate_options all = {0};
    CHECK_OK(convert(ranks, 2, "trace", &options), err);
    CHECK_INT(problems(in_folder("trace"), &all), 0);
    for (int i = 0; i < 2; i++) {
        const syn_pytorch_rank_report *r = &report.ranks[i];
        CHECK_INT(r->simulated.nodes, r->n_nodes);
        CHECK_INT(r->simulated.collectives, 1);
        CHECK_INT(r->simulated.nodes, r->simulated.delays + 1);
    }
}

/* The fixture has 16 kernels, 4 copies and 2 memory sets. */
static void one_rank_with_kernels(void) {
    const syn_pytorch_source rank = fixture();
    syn_pytorch_options options = {.replay = true};
    const syn_validate_options single = {.single = true};
    CHECK_OK(convert(&rank, 1, "a.0.et", &options), err);
    const syn_pytorch_rank_report *r = report.ranks;
    CHECK_INT(problems(in_folder("a.0.et"), &single), 0);
    CHECK(path_exists(in_folder("a.comm_group.json")));
    CHECK_INT(r->in[SYN_PYTORCH_OP_KERNEL], 16);
    CHECK_INT(r->out[SYN_PYTORCH_OP_KERNEL], 16);
    CHECK_INT(r->out[SYN_PYTORCH_OP_MEMCPY], 4);
    CHECK_INT(r->out[SYN_PYTORCH_OP_MEMSET], 2);
    CHECK_INT(r->n_nodes, 58 + 16 + 4 + 2);
    CHECK_INT(r->matches.device_correlation, 22);
    CHECK_INT(r->n_comms[SYN_COMM_SEND] + r->n_comms[SYN_COMM_RECV], 4);
    CHECK_INT(r->n_edges[SYN_PYTORCH_EDGE_LAUNCH], 22);
    CHECK(r->n_edges[SYN_PYTORCH_EDGE_SYNC] > 0);
    uint64_t n_ops = 0;
    for (size_t i = 0; i < r->replay.n_rows; i++) n_ops += r->replay.rows[i].n_ops;
    CHECK_INT(n_ops, r->n_nodes);
    CHECK(strncmp(r->replay.rows[0].name, "thread ", 7) == 0);
    options.profile = SYN_PYTORCH_ASTRA_SIM;
    CHECK_OK(convert(&rank, 1, "s.0.et", &options), err);
    r = report.ranks;
    const syn_pytorch_simulated *s = &r->simulated;
    CHECK_INT(s->nodes, s->compute + s->delays + s->stand_ins + s->collectives + s->messages);
    CHECK_INT(s->compute + s->collectives + s->messages, 16 + 4 + 2);
    CHECK_INT(r->replay.n_rows, 2);
    CHECK_STR(r->replay.rows[0].name, "compute");
    CHECK_STR(r->replay.rows[1].name, "communication");
    CHECK_INT(r->replay.rows[1].n_ops, s->collectives + s->messages);
}

static void real_ranks_in_archives(void) {
#ifndef SYN_HAVE_ZLIB
    SKIP("the fixture is packed and this build has no zlib");
#else
    const syn_pytorch_options sim = {.profile = SYN_PYTORCH_ASTRA_SIM};
    const syn_validate_options any = {.any_node = true}, all = {0};
    static const char *const folders[] = {"pt_gloo", "pt_ddp/torch-2.4", "pt_ddp/torch-2.15"};
    for (size_t k = 0; k < 3; k++) {
        const size_t n = k == 0 ? 4 : 2;
        syn_pytorch_source ranks[4];
        for (int i = 0; i < (int)n; i++)
            ranks[i] = pair(reference_path("%s/host.%d.json.gz", folders[k], i),
                            reference_path("%s/device.%d.json.gz", folders[k], i));
        CHECK_OK(convert(ranks, n, "full", NULL), err);
        CHECK_INT(problems(in_folder("full"), &any), 0);
        CHECK_OK(convert(ranks, n, "sim", &sim), err);
        CHECK_INT(problems(in_folder("sim"), &all), 0);
        CHECK_INT(report.notes[SYN_PYTORCH_ANOMALY_COMM_DEADLOCK].count, 0);
        clear_folder();
    }
#endif
}

/* A kernel that carries four messages counts as one kernel. It has a node for each message, and the
   report counts three of them as further ops. */
static void kernels_of_several_calls(void) {
    traces *t = begin_traces();
    host_op(t, 10, 2, 1, "train", "", "", "");
    for (int i = 0; i < 4; i++)
        send_recv(t, 11 + 2 * i, i % 2 ? "c10d::send" : "c10d::recv_",
                  i % 2 ? RECORD_INPUTS(TENSOR("5", "4"), "send", "0", "0", "1", "4")
                        : RECORD_INPUTS(TENSOR("7", "4"), "recv", "2", "0", "1", "4"));
    host_op(t, 19, 10, 1, "nccl:coalesced", "", "", "");
    kernel(t, 19, "ncclDevKernel_SendRecv", "");
    const syn_pytorch_source rank = pair(put_host(t, "h.json"), put_device(t, "d.json"));
    CHECK_OK(convert(&rank, 1, "t.0.et", NULL), err);
    CHECK_INT(report.ranks->in[SYN_PYTORCH_OP_KERNEL], 1);
    CHECK_INT(report.ranks->out[SYN_PYTORCH_OP_KERNEL], 1);
    CHECK_INT(report.ranks->n_further, 3);
    CHECK_INT(report.ranks->n_comms[SYN_COMM_SEND], 2);
    CHECK_INT(report.ranks->n_comms[SYN_COMM_RECV], 2);
    end_traces(t);
}

/* ---- Options ---- */

static void edges_that_are_not_wanted(void) {
    const syn_pytorch_source rank = fixture();
    const syn_pytorch_options options = {.without = ~0u};
    CHECK_OK(convert(&rank, 1, "t.0.et", &options), err);
    for (int k = 0; k < SYN_PYTORCH_EDGE_CLASSES; k++) {
        const bool always = k == SYN_PYTORCH_EDGE_CALL || k == SYN_PYTORCH_EDGE_PROGRAM;
        CHECK_MSG((report.ranks->n_edges[k] > 0) == always, "%s",
                  syn_pytorch_edge_name((syn_pytorch_edge_class)k));
    }
}

#define NODE(id)      "{\"id\": " id ", \"name\": \"op\", \"ctrl_deps\": 1, \"attrs\": []}"
#define OBJECT(nodes) "{\"schema\": \"1.1.1-chakra.0.0.4\", \"nodes\": [" nodes "]}"

static void one_object_of_several(void) {
    const syn_pytorch_source rank =
        pair(put_text("h.json", OBJECT(NODE("2")) OBJECT(NODE("2") "," NODE("3"))), NULL);
    const struct {
        syn_pytorch_object object;
        int nodes;
    } rows[] = {{{SYN_PYTORCH_LAST_OBJECT, 0}, 2},
                {{SYN_PYTORCH_ALL_OBJECTS, 0}, 3},
                {{SYN_PYTORCH_ONE_OBJECT, 0}, 1},
                {{SYN_PYTORCH_ONE_OBJECT, 1}, 2}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const syn_pytorch_options options = {.object = rows[i].object};
        CHECK_OK(convert(&rank, 1, "t.0.et", &options), err);
        CHECK_INT(report.ranks->matches.host_nodes, rows[i].nodes);
    }
    const syn_pytorch_options none = {.object = {SYN_PYTORCH_ONE_OBJECT, 2}};
    CHECK_INT(convert(&rank, 1, "t.0.et", &none), SYN_E_INVALID);
}

static void same_ids(void) {
    const syn_pytorch_source rank = pair(put_text("h.json", OBJECT(NODE("2") "," NODE("2"))), NULL);
    syn_pytorch_options options = {0};
    CHECK_OK(convert(&rank, 1, "t.0.et", &options), err);
    CHECK_INT(report.notes[SYN_PYTORCH_ANOMALY_DUPLICATE_ID].count, 1);
    options.same_ids = SYN_PYTORCH_NONE_KEEPS;
    CHECK_INT(convert(&rank, 1, "t.0.et", &options), SYN_E_FORMAT);
}

/* What the progress callback received: the arguments of the last call. forward: `done` never
   decreased. */
typedef struct steps {
    int64_t last, of;
    bool forward;
} steps;

static void note_step(void *user, int64_t done, int64_t of) {
    steps *s = user;
    s->forward = s->forward && done >= s->last;
    s->last = done;
    s->of = of;
}

static void progress_is_reported(void) {
    const syn_pytorch_source ranks[] = {example(0), example(1)};
    for (int fails = 0; fails < 2; fails++) {
        steps s = {.forward = true};
        const syn_pytorch_options options = {.progress = note_step, .user = &s};
        CHECK((convert(ranks, fails ? 1 : 2, fails ? "none/t.et" : "t", &options) == SYN_OK) ==
              !fails);
        CHECK(s.forward && s.of > 0);
        CHECK_INT(s.last, s.of);
    }
}

static void the_rank_is_given(void) {
    const int32_t third = 3;
    syn_pytorch_source rank = example(0);
    const syn_pytorch_options options = {.is_set = true};
    rank.rank = &third;
    CHECK_OK(convert(&rank, 1, "t", &options), err);
    CHECK(path_exists(in_folder("t.3.et")));
    CHECK_INT(report.ranks->rank, 3);
    CHECK_INT(report.notes[SYN_PYTORCH_ANOMALY_RANK_DIFFERS].count, 1);
}

/* The expected files were written by the reference tools. */
static void compatible_mode(void) {
    static const char *const names[] = {"edges", "messages", "shared", "threads"};
    const syn_pytorch_options options = {.compat = true};
    for (size_t i = 0; i < 4; i++) {
        const syn_pytorch_source rank = pair(reference_path("pt_compat/%s_host.json", names[i]),
                                             reference_path("pt_compat/%s_device.json", names[i]));
        const syn_pytorch_source host = {.host = rank.host};
        CHECK_OK(convert(&rank, 1, "linked.et", &options), err);
        CHECK(
            same_files(in_folder("linked.et"), reference_path("pt_compat/%s_linked.et", names[i])));
        CHECK(report.ranks->n_nodes > 0);
        CHECK_INT(report.out_bytes, size_of(in_folder("linked.et")));
        CHECK_OK(convert(&host, 1, "host.et", &options), err);
        CHECK(same_files(in_folder("host.et"), reference_path("pt_compat/%s_host.et", names[i])));
    }
}

static void linked_and_read_again(void) {
    const syn_pytorch_source rank = fixture();
    syn_pytorch_report_free(&report);
    CHECK_OK(syn_pytorch_link(&report, &rank, in_folder("linked.json"), NULL, &err), err);
    const uint64_t n = report.ranks->n_nodes;
    const syn_pytorch_source linked = pair(in_folder("linked.json"), NULL);
    CHECK_INT(n, 58 + 22);
    CHECK_OK(convert(&linked, 1, "t.0.et", NULL), err);
    CHECK_INT(report.ranks->n_nodes, n);
    CHECK_INT(report.ranks->out[SYN_PYTORCH_OP_KERNEL], 16);
}

/* ---- Inputs that are rejected, and the files that exist afterwards ---- */

/* Converts, which must fail with status `want` and a message that contains `why`, and must leave no
   new file in the folder. */
static void refused(const syn_pytorch_source *sources, size_t n, const char *output,
                    const syn_pytorch_options *options, syn_status want, const char *why) {
    const int before = count_entries(in_folder(""));
    CHECK_INT(convert(sources, n, output, options), want);
    CHECK_HAS(err.text, why);
    CHECK_INT(count_entries(in_folder("")), before);
}

static void refusals(void) {
    static const int32_t zero = 0;
    const syn_pytorch_source first = example(0), kineto = {.device = first.device};
    const syn_pytorch_source both[] = {first, example(1)}, nothing = {0};
    const syn_pytorch_source twice[] = {first, {both[1].host, both[1].device, &zero, false}};
    const syn_pytorch_options compat = {.compat = true}, trim = {.trim = true};
    const syn_pytorch_options few = {.profile = SYN_PYTORCH_ASTRA_SIM,
                                     .without = 1u << SYN_PYTORCH_EDGE_STREAM};
    refused(NULL, 0, "t", NULL, SYN_E_INVALID, "no trace");
    refused(&nothing, 1, "t", NULL, SYN_E_INVALID, "neither");
    refused(both, 2, "t", &compat, SYN_E_INVALID, "one rank");
    refused(&kineto, 1, "t", &compat, SYN_E_INVALID, "host trace");
    refused(&kineto, 1, "t", &trim, SYN_E_INVALID, "both");
    refused(both, 2, "t", &few, SYN_E_INVALID, "all classes");
    refused(twice, 2, "t", NULL, SYN_E_INVALID, "both rank 0");
    const syn_pytorch_source absent = pair(in_folder("absent.json"), NULL);
    refused(&absent, 1, "t", NULL, SYN_E_IO, "absent.json");
    const syn_pytorch_source empty = pair(put_text("empty.json", "{}"), NULL);
    refused(&empty, 1, "t", NULL, SYN_E_FORMAT, "empty.json");
}

/* A source is recognized under another path, too. If a trace set fails at its second rank, the file
   of the first rank is removed. */
static void no_source_is_written_over(void) {
    const char *text = OBJECT(NODE("2"));
    const syn_pytorch_source rank = pair(put_text("t.0.et", text), NULL);
    const syn_pytorch_source ranks[] = {pair(source_path("examples/pytorch/host.0.json"), NULL),
                                        pair(put_text("set.1.et", text), NULL)};
    refused(&rank, 1, "./t.0.et", NULL, SYN_E_INVALID, "never overwritten");
    refused(ranks, 2, "set", NULL, SYN_E_INVALID, "never overwritten");
    CHECK(!path_exists(in_folder("set.0.et")));
    CHECK_STR(file_text(in_folder("set.1.et")), text);
    syn_pytorch_report_free(&report);
    CHECK_INT(syn_pytorch_link(&report, &rank, in_folder("t.0.et"), NULL, &err), SYN_E_INVALID);
}

/* The report says where the first anomaly of a kind was. It has its own copy of the file name,
   because the caller may free the name before it reads the report. */
static void anomalies_have_a_place(void) {
    const char *text = OBJECT(NODE("2") "," NODE("NaN"));
    char *name = strdup(put_text("h.json", text));
    const syn_pytorch_source rank = {.host = name};
    const syn_pytorch_options strict = {.strict = true};
    refused(&rank, 1, "t.et", &strict, SYN_E_FORMAT, "anomalies");
    CHECK(report.n_anomalies > 0);
    CHECK_OK(convert(&rank, 1, "t.et", NULL), err);
    memset(name, 'x', strlen(name));
    free(name);
    const syn_pytorch_note *note = &report.notes[SYN_PYTORCH_ANOMALY_BARE_WORD];
    CHECK_INT(note->count, 1);
    CHECK_INT(note->at, strstr(text, "NaN") - text);
    CHECK_STR(note->file, in_folder("h.json"));
    CHECK_STR(syn_pytorch_anomaly_name(SYN_PYTORCH_ANOMALY_BARE_WORD), "bare-word");
}

/* If ranks are converted one by one, each writes the group file. The report says if that replaced
   other groups. */
static void groups_of_ranks_one_by_one(void) {
    const syn_pytorch_source rank = example(0);
    CHECK_OK(convert(&rank, 1, "t.0.et", NULL), err);
    CHECK(!report.groups_replaced);
    CHECK_OK(convert(&rank, 1, "t.0.et", NULL), err);
    CHECK(!report.groups_replaced);
    put_text("t.comm_group.json", "{\"1\": [0, 1, 2]}\n");
    CHECK_OK(convert(&rank, 1, "t.0.et", NULL), err);
    CHECK(report.groups_replaced);
}

static syn_status convert_all(void *options, syn_error *error) {
    const syn_pytorch_source ranks[] = {fixture(), example(1)};
    syn_pytorch_report own;
    const syn_status s = syn_pytorch_convert(&own, ranks, 2, in_folder("t"), options, error);
    syn_pytorch_report_free(&own);
    return s;
}

static void out_of_memory(void) {
    syn_pytorch_options options = {.replay = true};
    CHECK(test_without_memory(convert_all, &options) > 100);
    options.profile = SYN_PYTORCH_ASTRA_SIM;
    CHECK(test_without_memory(convert_all, &options) > 100);
}

static const test_case cases[] = {
    {"the_example_is_a_set", the_example_is_a_set},
    {"a_simulators_set", a_simulators_set},
    {"one_rank_with_kernels", one_rank_with_kernels},
    {"real_ranks_in_archives", real_ranks_in_archives},
    {"kernels_of_several_calls", kernels_of_several_calls},
    {"edges_that_are_not_wanted", edges_that_are_not_wanted},
    {"one_object_of_several", one_object_of_several},
    {"same_ids", same_ids},
    {"progress_is_reported", progress_is_reported},
    {"the_rank_is_given", the_rank_is_given},
    {"compatible_mode", compatible_mode},
    {"linked_and_read_again", linked_and_read_again},
    {"refusals", refusals},
    {"no_source_is_written_over", no_source_is_written_over},
    {"anomalies_have_a_place", anomalies_have_a_place},
    {"groups_of_ranks_one_by_one", groups_of_ranks_one_by_one},
    {"out_of_memory", out_of_memory},
};
TEST_MAIN(cases)
