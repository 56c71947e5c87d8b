/* Tests the file of profile astra-sim as a whole: metadata, names of nodes, costs of kernels,
   messages, and ranks with nothing to simulate. test_pt_sim.c tests delays and dependencies one by
   one. This file compares the dependencies of random ranks with a transitive closure, and checks
   that a large rank does not get too many dependencies. */
#include "tests/support/test.h"

#include "export/chakra/wire/et_node.h"
#include "export/pytorch/write/pt_write.h"
#include "tests/support/pt_written.h"
#include "tests/support/random.h"

static char text[1 << 16];

/* ---- Metadata and names ---- */

/* Writes the rank and sets `out` to the metadata of the file: version, attributes with their
   values, and the documentation of each attribute. `out` is empty on failure. */
static void meta_text(const hand *h, const char *version, char *out, size_t cap, syn_error *err) {
    syn_pytorch_options options = {0};
    syn__et_decoder decoder = {0};
    syn__et_meta meta = {.n_attrs = 0};
    syn__str rest, message = {"", 0};
    syn_sink *sink;
    out[0] = '\0';
    options.version = version;
    if (syn_sink_open_memory(&sink, err) != SYN_OK) return;
    if (syn__pt_write_sim(&h->rank, options.version, sink, NULL, err) == SYN_OK) {
        rest.text = syn_sink_data(sink, &rest.bytes);
        if (written_message(&rest, &message) &&
            syn__et_decode_meta(&decoder, message, &meta) == 0) {
            size_t n =
                (size_t)snprintf(out, cap, "%.*s:", (int)meta.version.bytes, meta.version.text);
            for (size_t i = 0; i < meta.n_attrs; i++) {
                char one[256];
                written_attr(&meta.attrs[i], one, sizeof one);
                n += (size_t)snprintf(out + n, cap - n, " %s%.*s", one,
                                      (int)meta.attrs[i].doc.bytes, meta.attrs[i].doc.text);
            }
        }
    }
    syn__et_decoder_free(&decoder);
    (void)syn_sink_close(sink, false, err);
}

static void test_metadata(void) {
    int32_t all[] = {0, 1, 2, 3}, own[] = {2, 3}, others[] = {0, 1}, self[] = {2};
    syn__pt_group groups[] = {{"0", "default_pg", all, 4, 4, 2}, {"1", "dp", others, 2, 2, 3},
                              {"2", "", own, 2, 2, 1},           {"3", "self", self, 1, 1, 4},
                              {"4", "", NULL, 0, 2, 5},          {"0", "again", all, 4, 4, 2}};
    const hand_op rows[] = {{"K", KERNEL, 2, 0, 1 US, .deps = NULL}};
    syn_error err = {0};
    hand h;
    hand_make(&h, rows, 1);
    h.rank.rank = 2;
    h.rank.world_size = 4;
    h.rank.groups = groups;
    h.rank.n_groups = 6;
    h.rank.host.schema = syn__str_of("\"1.1.1-chakra.\\u0030.0.4\"");
    meta_text(&h, "syntorch 9", text, sizeof text, &err);
    CHECK_OK(err.code, err);
    CHECK_STR(text, "1.0.0: rank=2:int64_val world_size=4:int64_val program='syntorch 9' "
                    "source='pytorch' profile='astra-sim' schema='1.1.1-chakra.0.0.4' "
                    "pg.1=0:int32_list2 pg.2=0:int32_listdefault_pg");
    h.rank.rank = h.rank.world_size = -1;
    h.rank.n_groups = 0;
    h.rank.host.schema = (syn__str){"", 0};
    meta_text(&h, NULL, text, sizeof text, &err);
    CHECK_STR(text, "1.0.0: rank=0:int64_val source='pytorch' profile='astra-sim'");
    hand_free(&h);
}

static void test_names(void) {
    /* Escapes in names are decoded, and invalid UTF-8 is replaced. The attribute `op` has the name
       of the host op that launched the kernel. */
    const hand_op rows[] = {
        {"aten::\\u00e9", HOST, 0, 0, 1 US, .deps = NULL},
        {"k<\\\"a\\\">\xFF \\ud800", KERNEL, 2, 0, 1 US, .deps = "0L", .parent = 1}};
    syn_error err = {0};
    hand h;
    hand_make(&h, rows, 2);
    CHECK_OK(written(&h.rank, true, text, sizeof text, &err), err);
    hand_free(&h);
    CHECK_HAS(text, "1 k<\"a\">? \xEF\xBF\xBD 0+1 is_cpu_op");
    CHECK_HAS(text, "op='aten::\xC3\xA9' stream=7");
}

static void test_nothing(void) {
    /* A rank that has only host ops without times is rejected. If they have times, their time is
       written as a delay. */
    const hand_op rows[] = {{"a", HOST, 0, SYN__PT_NO_NS, SYN__PT_NO_NS, .deps = NULL}};
    syn_error err = {0};
    hand h;
    hand_make(&h, rows, 1);
    h.rank.host_input.name = "host.0.json";
    CHECK_INT(written(&h.rank, false, text, sizeof text, &err), SYN_E_INVALID);
    CHECK_HAS(err.text, "host.0.json: the trace has no device work, communication");
    h.ops[0].start_ns = 5 US;
    h.ops[0].wall_ns = 7 US;
    CHECK_OK(written(&h.rank, false, text, sizeof text, &err), err);
    hand_free(&h);
    CHECK_STR(text, "1 host delay 5+7");
}

static void test_counts(void) {
    /* The rank has a kernel after a delay of 1 us, a collective after a delay of 2 us, a barrier, a
       reduce (which is written as computation), a send and a receive. */
    int32_t both[] = {0, 1};
    syn__pt_group group = {"0", "", both, 2, 2, 1};
    syn__pt_comm comms[] = {
        {.op = 2, .type = SYN__ET_COMM_COLL_NODE, .bytes = 1, .group = 0},
        {.op = 3, .type = SYN__ET_COMM_COLL_NODE, .collective = 9, .bytes = 1, .group = 0},
        {.op = 4, .type = SYN__ET_COMM_COLL_NODE, .collective = 1, .bytes = 1, .group = 0},
        {.op = 5, .type = SYN__ET_COMM_SEND_NODE, .bytes = 1, .peer = 1},
        {.op = 6, .type = SYN__ET_COMM_RECV_NODE, .bytes = 1, .peer = 1}};
    const hand_op rows[] = {{"a", HOST, 0, 0, 1 US, .deps = NULL},
                            {"K", KERNEL, 2, 1 US, 1 US, .deps = "0L"},
                            {"C", KERNEL, 3, 4 US, 1 US, .deps = "0L", .comm = 1},
                            {"B", KERNEL, 3, 5 US, 0, .deps = "2S", .comm = 2},
                            {"R", KERNEL, 3, 5 US, 1 US, .deps = "3S", .comm = 3},
                            {"S", KERNEL, 3, 6 US, 1 US, .deps = "4S", .comm = 4},
                            {"V", KERNEL, 3, 6 US, 1 US, .deps = "5S", .comm = 5}};
    const syn_pytorch_options options = {0};
    syn_pytorch_simulated w = {0};
    syn_error err = {0};
    syn_sink *sink;
    hand h;
    hand_make(&h, rows, 7);
    h.rank.comms = comms;
    h.rank.n_comms = 5;
    h.rank.groups = &group;
    h.rank.n_groups = 1;
    CHECK_OK(syn_sink_open_memory(&sink, &err), err);
    const syn_status status = syn__pt_write_sim(&h.rank, options.version, sink, &w, &err);
    (void)syn_sink_close(sink, false, NULL);
    hand_free(&h);
    CHECK_OK(status, err);
    CHECK_INT(w.nodes, 7);
    CHECK_INT(w.compute, 1);
    CHECK_INT(w.delays, 2);
    CHECK_INT(w.delay_us, 3);
    CHECK_INT(w.stand_ins, 1);
    CHECK_INT(w.collectives, 1);
    CHECK_INT(w.messages, 2);
    CHECK_INT(w.dropped_barriers, 1);
}

/* ---- Messages ---- */

static void test_messages(void) {
    syn__pt_comm comms[] = {
        {.op = 0, .type = SYN__ET_COMM_SEND_NODE, .bytes = 5, .peer = 1, .tag = 9},
        {.op = 1, .type = SYN__ET_COMM_RECV_NODE, .bytes = 0, .peer = 1, .tag = 0},
        {.op = 2, .type = SYN__ET_COMM_RECV_NODE, .bytes = 1, .peer = -1},
        {.op = 3, .type = SYN__ET_COMM_SEND_NODE, .bytes = 1, .peer = 0},
        {.op = 4, .type = SYN__ET_COMM_SEND_NODE, .bytes = 1, .peer = 2},
        {.op = 5, .type = SYN__ET_COMM_SEND_NODE, .bytes = 1, .peer = 1, .tag = -1},
        {.op = 6, .type = SYN__ET_COMM_SEND_NODE, .bytes = 1, .peer = 1, .alone = true}};
    hand_op rows[7];
    for (int i = 0; i < 7; i++)
        rows[i] = (hand_op){.name = "M", .kind = HOST, .track = 0, .wall = 0, .comm = i + 1};
    syn_error err = {0};
    hand h;
    hand_make(&h, rows, 7);
    h.rank.comms = comms;
    h.rank.n_comms = 7;
    CHECK_OK(written(&h.rank, true, text, sizeof text, &err), err);
    hand_free(&h);
#define NO_TENSORS " inputs=0:string_list outputs=0:string_list |"
#define ENDS(src, dst, tag) \
    " comm_src=" src ":int32_val comm_dst=" dst ":int32_val comm_tag=" tag ":int32_val"
    CHECK_HAS(text, "1 M 0+0 is_cpu_op=0:bool_val" ENDS("0", "1",
                                                        "9") " comm_size=5:int64_val" NO_TENSORS);
    CHECK_HAS(text, "2 M 0+0 1T is_cpu_op=0:bool_val" ENDS(
                        "1", "0", "0") " comm_size=1:int64_val clamped=1:bool_val" NO_TENSORS);
    CHECK_HAS(text, "not_simulated='a message with an unknown peer' comm_kind='recv'");
    CHECK_HAS(text, "not_simulated='a message to its own rank' comm_kind='send'");
    CHECK_HAS(text, "not_simulated='a message whose peer is outside the world'");
    CHECK_HAS(text, "not_simulated='a message without a tag'");
    CHECK_HAS(text, "not_simulated='a message that the other rank lacks' comm_kind='send'");
}

/* ---- Costs ---- */

/* A host node: the product of (3, 5) and (5, 7), which has 2 * 3 * 5 * 7 = 210 flops and
   (15 + 35 + 21) * 4 = 284 bytes. */
#define MM                                                                                    \
    "{\"id\": 4, \"inputs\": {\"values\": [[1,2,0,15,4,\"cuda:0\"],[3,4,0,35,4,\"cuda:0\"]]," \
    "\"shapes\": [[3,5],[5,7]],\"types\": [\"Tensor(float)\",\"Tensor(float)\"]}, "           \
    "\"outputs\": {\"values\": [[5,6,0,21,4,\"cuda:0\"]],\"shapes\": [[3,7]],"                \
    "\"types\": [\"Tensor(float)\"]}}"

#define SIZE(ops, bytes, clamped) \
    "is_cpu_op=0:bool_val num_ops=" #ops ":int64_val tensor_size=" #bytes ":uint64_val" clamped
#define CLAMPED " clamped=1:bool_val"

static void test_dominating(void) {
    /* The longest kernel that an op launched gets the costs of the op; among equally long kernels,
       the first. Copies and memory sets have their own bytes. A node without dependencies has at
       least 4096 bytes. */
    const hand_op rows[] = {
        {"aten::mm", HOST, 0, 0, 1 US, .deps = NULL, .text = MM},
        {"K0", KERNEL, 2, 1 US, 1 US, .deps = "0L", .parent = 1},
        {"K1", KERNEL, 2, 2 US, 3 US, .deps = "1S", .parent = 1},
        {"K2", KERNEL, 2, 5 US, 3 US, .deps = "2S", .parent = 1},
        {"M", SYN_PYTORCH_OP_MEMCPY, 2, 8 US, 9 US, .deps = "3S", .parent = 1,
         .text = "{\"ph\": \"X\", \"args\": {\"stream\": 7, \"bytes\": 1000}}"},
        {"Z", SYN_PYTORCH_OP_MEMSET, 2, 17 US, 1 US, .deps = "4S",
         .text = "{\"args\": {\"bytes\": 77}}"},
        {"N", SYN_PYTORCH_OP_MEMCPY, 2, 18 US, 1 US, .deps = "5S", .text = "{\"args\": null}"}};
    syn_error err = {0};
    hand h;
    hand_make(&h, rows, 7);
    CHECK_OK(written(&h.rank, true, text, sizeof text, &err), err);
    CHECK_HAS(text, "K0 1+1 1L " SIZE(1, 1, CLAMPED));
    CHECK_HAS(text, "K1 2+3 2S " SIZE(210, 284, " op"));
    CHECK_HAS(text, "K2 5+3 3S " SIZE(1, 1, CLAMPED));
    CHECK_HAS(text, "M 8+9 4S " SIZE(1, 2000, CLAMPED));
    CHECK_HAS(text, "Z 17+1 5S " SIZE(1, 77, CLAMPED));
    CHECK_HAS(text, "N 18+1 6S " SIZE(1, 1, CLAMPED));
    h.ops[1].start_ns = 0; /* now no delay precedes K0, so it depends on no node */
    h.ops[1].wall_ns = 9 US;
    CHECK_OK(written(&h.rank, true, text, sizeof text, &err), err);
    hand_free(&h);
    CHECK_HAS(text, "1 K0 0+9 " SIZE(210, 4096, CLAMPED));
}

static void test_huge(void) {
    /* 2 * 2^62 * 4 flops exceed an int64, so the largest int64 is written. */
    const hand_op rows[] = {
        {"aten::mm", HOST, 0, 0, 1 US, .deps = NULL,
         .text = "{\"inputs\": {\"shapes\": [[2147483648,2147483648],[2147483648,4]]}, "
                 "\"outputs\": {\"shapes\": []}}"},
        {"K", KERNEL, 2, 0, 1 US, .deps = "0L", .parent = 1}};
    syn_error err = {0};
    hand h;
    hand_make(&h, rows, 2);
    CHECK_OK(written(&h.rank, true, text, sizeof text, &err), err);
    hand_free(&h);
    CHECK_HAS(text, "num_ops=9223372036854775807:int64_val");
}

static void test_unknown_group(void) {
    /* A collective without a group gets the group of all four ranks, if that group is known and has
       an id: groups[2]. */
    int32_t all[] = {0, 1, 2, 3};
    syn__pt_group groups[] = {
        {"0", "", all, 2, 2, 1}, {"1", "", all, 4, 4, 0}, {"2", "", all, 4, 4, 3}};
    syn__pt_comm comm = {.type = SYN__ET_COMM_COLL_NODE, .bytes = 1, .group = SYN__PT_NONE};
    const hand_op rows[] = {{"C", KERNEL, 2, 0, 1 US, .deps = NULL, .comm = 1}};
    syn_error err = {0};
    hand h;
    hand_make(&h, rows, 1);
    h.rank.comms = &comm;
    h.rank.n_comms = 1;
    h.rank.groups = groups;
    h.rank.n_groups = 3;
    h.rank.world_size = 4;
    CHECK_OK(written(&h.rank, true, text, sizeof text, &err), err);
    CHECK_HAS(text, "comm_size=1:int64_val pg_name='3' pg_desc='2'");
    h.rank.n_groups = 2;
    CHECK_OK(written(&h.rank, true, text, sizeof text, &err), err);
    CHECK_HAS(text, "comm_size=1:int64_val stream");
    groups[1] = (syn__pt_group){"1", "", NULL, 0, 2, 2}; /* two unknown ranks of the four */
    comm.group = 1;
    CHECK_OK(written(&h.rank, true, text, sizeof text, &err), err);
    CHECK_HAS(text, "not_simulated='a group with unknown ranks'");
    hand_free(&h);
}

/* ---- Random ranks ---- */

#define N 40

/* reach_ops[i][j]: op j must begin after op i has ended, according to the rank. reach_nodes: the
   same according to the written file. */
static bool reach_ops[N][N], reach_nodes[N][N];

static void close_over(bool reach[N][N]) {
    for (int k = 0; k < N; k++)
        for (int i = 0; i < N; i++)
            for (int j = 0; reach[i][k] && j < N; j++) reach[i][j] = reach[i][j] || reach[k][j];
}

static void make_random(hand_op *rows, char (*deps)[64], char (*names)[16], uint64_t *seed) {
    for (int i = 0; i < N; i++) {
        const bool device = random_u32(seed) % 2 == 0;
        size_t n = 0;
        deps[i][0] = '\0';
        for (unsigned k = random_u32(seed) % 4; k > 0 && i > 0; k--)
            n += (size_t)snprintf(deps[i] + n, 64 - n, "%s%u%c", n != 0 ? " " : "",
                                  random_u32(seed) % (unsigned)i, "CPLSYGT"[random_u32(seed) % 7]);
        snprintf(names[i], 16, "%d", i);
        rows[i] = (hand_op){.name = names[i],
                            .kind = device ? KERNEL : HOST,
                            .track = device ? 2 + random_u32(seed) % 3 : random_u32(seed) % 2,
                            .start = (int64_t)i * 1000 + random_u32(seed) % 9000,
                            .wall = random_u32(seed) % 4000,
                            .deps = deps[i]};
    }
}

/* Sets reach_ops from the dependencies of the ops and from their order in each stream. */
static void reach_of_rows(const hand *h) {
    memset(reach_ops, 0, sizeof reach_ops);
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t k = h->first_dep[i]; k < h->first_dep[i + 1]; k++)
            reach_ops[h->deps[k].from][i] = true;
        for (uint32_t k = 0; k < i; k++)
            if (h->ops[i].track >= 2 && h->ops[k].track == h->ops[i].track) reach_ops[k][i] = true;
    }
    close_over(reach_ops);
}

/* Sets reach_nodes from the written nodes, whose names are the numbers of their ops. The
   dependencies of a delay belong to the node after it. Returns false if ids do not count up from 1,
   or if a node depends on a node whose id is not smaller. */
static bool reach_of_text(void) {
    int row_of[2 * N + 2];
    uint64_t id = 0;
    memset(reach_nodes, 0, sizeof reach_nodes);
    for (char *p = text; p != NULL && *p != '\0';) {
        if (strtoull(p, &p, 10) != ++id || id > 2 * N) return false;
        row_of[id] = strncmp(p, " host", 5) == 0 ? -1 : atoi(p);
        p = strchr(p, '+') + 1;
        (void)strtoull(p, &p, 10);
        while (p[0] == ' ' && p[1] != '|') {
            const uint64_t from = strtoull(p, &p, 10);
            while (*p >= 'A') p++;
            if (from == 0 || from >= id) return false;
            if (row_of[id] == -1) row_of[id] = -2; /* a delay: see the second pass */
            if (row_of[id] >= 0 && row_of[from] >= 0) reach_nodes[row_of[from]][row_of[id]] = true;
        }
        p = *p == ' ' ? p + 3 : NULL;
    }
    /* Second pass: adds the dependencies of each delay to the node after it, which is known now. */
    id = 0;
    for (char *p = text; p != NULL && *p != '\0';) {
        id = strtoull(p, &p, 10);
        p = strchr(p, '+') + 1;
        (void)strtoull(p, &p, 10);
        while (p[0] == ' ' && p[1] != '|') {
            const uint64_t from = strtoull(p, &p, 10);
            while (*p >= 'A') p++;
            if (row_of[id] < 0) reach_nodes[row_of[from]][row_of[id + 1]] = true;
        }
        p = *p == ' ' ? p + 3 : NULL;
    }
    close_over(reach_nodes);
    return true;
}

/* Between device ops, the written nodes must imply exactly the dependencies that the rank has. */
static void test_random(void) {
    static hand h;
    static char deps[N][64], names[N][16];
    hand_op rows[N];
    uint64_t seed = 1;
    for (int round = 0; round < 2000; round++) {
        syn_error err = {0};
        const uint64_t before = seed;
        make_random(rows, deps, names, &seed);
        hand_make(&h, rows, N);
        const syn_status status = written(&h.rank, false, text, sizeof text, &err);
        hand_free(&h);
        CHECK_OK(status, err);
        reach_of_rows(&h);
        CHECK_MSG(reach_of_text(), "seed %llu: %s", (unsigned long long)before, text);
        for (int i = 0; i < N; i++) {
            for (int j = 0; j < N; j++) {
                if (rows[i].kind == HOST || rows[j].kind == HOST) continue;
                CHECK_MSG(reach_ops[i][j] == reach_nodes[i][j], "seed %llu: %d before %d: %s",
                          (unsigned long long)before, i, j, text);
            }
        }
    }
}

/* ---- Large ranks ---- */

#define LARGE   200000
#define STREAMS 16

/* Makes 200,000 host ops. Each launches one kernel, on the 16 streams alternately. Every tenth host
   op first waits for all streams. */
static void make_large(syn__pt_rank *r) {
    for (uint32_t i = 0; i < LARGE; i++) {
        const bool waits = i % 10 == 0 && i >= STREAMS;
        syn__pt_op *host = &r->ops[2 * i], *kernel = host + 1;
        *host = (syn__pt_op){.host = SYN__PT_NONE,
                             .event = SYN__PT_NONE,
                             .parent = SYN__PT_NONE,
                             .comm = SYN__PT_NONE,
                             .start_ns = i * 1000,
                             .launch = SYN__PT_NONE};
        *kernel = *host;
        kernel->kind = KERNEL;
        kernel->track = 1 + i % STREAMS;
        kernel->wall_ns = 1000;
        r->first_dep[2 * i] = (uint32_t)r->n_deps;
        if (i > 0) r->deps[r->n_deps++] = (syn__pt_dep){2 * i - 2, SYN_PYTORCH_EDGE_PROGRAM};
        for (uint32_t k = 1; waits && k <= STREAMS; k++)
            r->deps[r->n_deps++] = (syn__pt_dep){2 * (i - k) + 1, SYN_PYTORCH_EDGE_SYNC};
        r->first_dep[2 * i + 1] = (uint32_t)r->n_deps;
        r->deps[r->n_deps++] = (syn__pt_dep){2 * i, SYN_PYTORCH_EDGE_LAUNCH};
        r->order[2 * i] = 2 * i;
        r->order[2 * i + 1] = 2 * i + 1;
    }
    r->n_ops = 2 * LARGE;
    r->first_dep[2 * LARGE] = (uint32_t)r->n_deps;
}

/* Returns the number of dependencies in a file, and sets *nodes to its number of nodes. */
static uint64_t count_deps(const char *data, size_t bytes, uint64_t *nodes) {
    syn__str rest = {data, bytes}, message;
    syn__et_decoder decoder = {0};
    syn__et_node node;
    uint64_t deps = 0;
    *nodes = 0;
    written_message(&rest, &message);
    while (written_message(&rest, &message)) {
        if (syn__et_decode_node(&decoder, message, &node) != SYN_OK) break;
        deps += node.n_data;
        ++*nodes;
    }
    syn__et_decoder_free(&decoder);
    return deps;
}

static void test_large(void) {
    static syn__pt_track tracks[STREAMS + 1];
    const syn_pytorch_options options = {0};
    syn_error err = {0};
    syn_sink *sink;
    size_t bytes;
    uint64_t nodes = 0;
    for (int i = 1; i <= STREAMS; i++) tracks[i].device = true;
    syn__pt_rank r = {.tracks = tracks, .n_tracks = STREAMS + 1, .world_size = 1};
    r.ops = calloc(2 * LARGE, sizeof *r.ops);
    r.deps = calloc(6 * LARGE, sizeof *r.deps);
    r.first_dep = calloc(2 * LARGE + 1, sizeof *r.first_dep);
    r.order = calloc(2 * LARGE, sizeof *r.order);
    CHECK(r.ops != NULL && r.deps != NULL && r.first_dep != NULL && r.order != NULL);
    make_large(&r);
    CHECK_OK(syn_sink_open_memory(&sink, &err), err);
    const syn_status status = syn__pt_write_sim(&r, options.version, sink, NULL, &err);
    const char *data = syn_sink_data(sink, &bytes);
    const uint64_t deps = data != NULL ? count_deps(data, bytes, &nodes) : 0;
    CHECK_OK(syn_sink_close(sink, status == SYN_OK, &err), err);
    free(r.ops);
    free(r.deps);
    free(r.first_dep);
    free(r.order);
    CHECK_OK(status, err);
    CHECK_INT(nodes, LARGE);
    /* Each node has one dependency on the previous node of its stream. After each of the 19,998
       waits, the next ten kernels may also depend on the other 15 streams. */
    CHECK_MSG(deps <= LARGE + 150u * (LARGE / 10), "%llu", (unsigned long long)deps);
}

/* ---- Memory ---- */

static syn_status write_sim(void *rank, syn_error *err) {
    const syn_pytorch_options options = {0};
    syn_sink *sink;
    SYN_TRY(syn_sink_open_memory(&sink, err));
    const syn_status status = syn__pt_write_sim(rank, options.version, sink, NULL, err);
    const syn_status closed = syn_sink_close(sink, false, err);
    return status != SYN_OK ? status : closed;
}

static void test_memory(void) {
    int32_t both[] = {0, 1};
    syn__pt_group group = {"0", "", both, 2, 2, 1};
    syn__pt_comm comms[] = {{.op = 3, .type = SYN__ET_COMM_COLL_NODE, .bytes = 1, .group = 0},
                            {.op = 4, .type = SYN__ET_COMM_COLL_NODE, .bytes = 1, .group = 0}};
    const hand_op rows[] = {{"K", KERNEL, 3, 0, 1 US, .deps = NULL},
                            {"aten::mm", HOST, 0, 1 US, 1 US, .deps = "0Y", .text = MM},
                            {"K1", KERNEL, 2, 5 US, 1 US, .deps = "1L", .parent = 2},
                            {"C1", KERNEL, 4, 6 US, 1 US, .deps = "2Y", .comm = 1},
                            {"C2", KERNEL, 3, 9 US, 1 US, .deps = "0S", .comm = 2}};
    hand h;
    hand_make(&h, rows, 5);
    h.rank.comms = comms;
    h.rank.n_comms = 2;
    h.rank.groups = &group;
    h.rank.n_groups = 1;
    CHECK(test_without_memory(write_sim, &h.rank) > 20);
    hand_free(&h);
}

static const test_case cases[] = {
    {"metadata", test_metadata}, {"names", test_names},
    {"nothing", test_nothing},   {"counts", test_counts},
    {"messages", test_messages}, {"dominating", test_dominating},
    {"huge", test_huge},         {"unknown_group", test_unknown_group},
    {"random", test_random},     {"large", test_large},
    {"memory", test_memory}};
TEST_MAIN(cases)
