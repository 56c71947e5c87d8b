/* Tests identical ranks that have other groups, peers, tags and shards: meshes of tensor, data and
   pipeline parallelism keep one rank per stage, reading such a file gives the same graph, and the
   times of the ranks that remain are those of the full graph. */
#include "tests/support/exported.h"
#include "tests/support/graphs.h"
#include "tests/support/test.h"

#define MOST 256 /* ranks */

/* A rank's number is t + tp (d + dp s), and its groups are numbered tp, dp, pp. */
typedef struct mesh {
    int tp, dp, pp;
    bool ring;      /* the last stage sends to the first */
    bool by_data;   /* the sizes of buckets differ between data-parallel ranks, as with ZeRO */
    int slow;       /* the rank whose first op takes longer; -1: none */
    int odd;        /* the rank whose second collective of tp is one of dp; -1: none */
    bool own_tags;  /* the tags of messages contain the data-parallel index */
    bool own_shard; /* one sharded tensor belongs to tp, the other one to dp */
    bool only_dp;   /* with own_shard: both belong to dp */
} mesh;

static const mesh plain = {.tp = 1, .dp = 1, .pp = 1, .slow = -1, .odd = -1};

typedef struct place {
    int t, d, s, rank;
} place;

static int rank_at(const mesh *m, int t, int d, int s) {
    return t + m->tp * (d + m->dp * s);
}

static uint32_t tp_group(const mesh *m, const place *p) {
    return 1 + (uint32_t)(p->d + m->dp * p->s);
}
static uint32_t dp_group(const mesh *m, const place *p) {
    return 1 + (uint32_t)(m->dp * m->pp + p->t + m->tp * p->s);
}
static uint32_t pp_group(const mesh *m, const place *p) {
    return 1 + (uint32_t)(m->dp * m->pp + m->tp * m->pp + p->t + m->tp * p->d);
}

static void add_group(syn_graph *g, uint32_t id, const char *kind, int first, int step, int n) {
    int32_t ranks[MOST];
    char name[32];
    syn_error err = {0};
    for (int i = 0; i < n; i++) ranks[i] = first + step * i;
    snprintf(name, sizeof name, "%s%u", kind, id);
    const syn_graph_group group = {id, name, ranks, (uint32_t)n};
    NEED_OK(syn_graph_add_group(g, &group, &err), err);
}

static void add_groups(syn_graph *g, const mesh *m) {
    for (int s = 0; s < m->pp; s++)
        for (int d = 0; d < m->dp; d++) {
            const place p = {0, d, s, 0};
            add_group(g, tp_group(m, &p), "tp", rank_at(m, 0, d, s), 1, m->tp);
        }
    for (int s = 0; s < m->pp; s++)
        for (int t = 0; t < m->tp; t++) {
            const place p = {t, 0, s, 0};
            add_group(g, dp_group(m, &p), "dp", rank_at(m, t, 0, s), m->tp, m->dp);
        }
    for (int d = 0; d < m->dp; d++)
        for (int t = 0; t < m->tp; t++) {
            const place p = {t, d, 0, 0};
            add_group(g, pp_group(m, &p), "pp", rank_at(m, t, d, 0), m->tp * m->dp, m->pp);
        }
}

static void add(syn_graph *g, const place *p, syn_node node) {
    const uint32_t i = g->ranks[p->rank].n_nodes;
    const syn_dep dep = {i - 1, SYN_DEP_CONTROL};
    syn_error err = {0};
    node.id = i + 1;
    node.deps = &dep;
    node.n_deps = i > 0;
    NEED_OK(syn_graph_add_node(g, (uint32_t)p->rank, &node, &err), err);
}

/* Groups of one rank do not communicate. */
static void collective(syn_graph *g, const place *p, const char *op, uint32_t group, int index,
                       int root, int bytes) {
    if (syn_graph_group_by_id(g, group)->n_ranks == 1) return;
    syn_node n = plain_node(0, op);
    n.kind = SYN_NODE_COLLECTIVE;
    n.comm = root >= 0 ? SYN_COMM_BROADCAST : SYN_COMM_ALL_REDUCE;
    n.reduce = root >= 0 ? -1 : SYN_REDUCE_SUM;
    n.group = group;
    n.root = root;
    n.comm_index = (uint32_t)index;
    n.comm_bytes = (uint64_t)bytes;
    n.stream = 1;
    n.predicted_ns = 2;
    add(g, p, n);
}

static void message(syn_graph *g, const place *p, const mesh *m, int step) {
    const int other = (p->s + step + m->pp) % m->pp;
    const bool send = step > 0;
    if (!m->ring && other != p->s + step) return;
    syn_node n = plain_node(0, send ? "send" : "recv");
    n.kind = send ? SYN_NODE_SEND : SYN_NODE_RECV;
    n.comm = send ? SYN_COMM_SEND : SYN_COMM_RECV;
    n.peer = rank_at(m, p->t, p->d, other);
    n.tag = 7 + (m->own_tags ? p->d : 0);
    n.stream = syn_message_stream(n.peer, send);
    n.comm_bytes = 16;
    n.predicted_ns = 1;
    add(g, p, n);
}

static void add_tensors(syn_graph *g, const mesh *m, const place *p) {
    const syn_shard of_dp = SYN_SHARD(0, 1, p->d, m->dp);
    syn_graph_tensor weight = {.name = "weight",
                               .spec = {SYN_F32, 2, {4, 8}},
                               .flags = SYN_TENSOR_PARAM,
                               .producer = SYN_NO_NODE,
                               .shard = SYN_SHARD(1, 1, p->t, m->tp)};
    syn_error err = {0};
    if (m->tp == 1) weight.shard = (syn_shard){0};
    if (m->only_dp) weight.shard = of_dp;
    syn_graph_tensor state = weight;
    state.name = "state";
    state.base = 1;
    if (m->own_shard) state.shard = of_dp;
    NEED_OK(syn_graph_add_tensor(g, (uint32_t)p->rank, &weight, &err), err);
    NEED_OK(syn_graph_add_tensor(g, (uint32_t)p->rank, &state, &err), err);
}

static void add_rank(syn_graph *g, const mesh *m, int t, int d, int s) {
    const place p = {t, d, s, rank_at(m, t, d, s)};
    const syn_attribute row = {"first_row", SYN_VALUE_I64, 100 * t, 0, NULL};
    const bool odd = p.rank == m->odd;
    syn_node look = plain_node(0, "look");
    look.attributes = &row;
    look.n_attributes = 1;
    look.flops = m->ring ? 1 : (uint64_t)s + 1;
    look.predicted_ns = 10 + (m->ring ? 0 : s) + (p.rank == m->slow ? 90 : 0);
    add_tensors(g, m, &p);
    add(g, &p, look);
    if (!m->ring) message(g, &p, m, -1);
    collective(g, &p, "sum", tp_group(m, &p), 0, -1, 64);
    message(g, &p, m, 1);
    if (m->ring) message(g, &p, m, -1);
    collective(g, &p, "grads", dp_group(m, &p), 0, -1, 8 + (m->by_data ? d : 0));
    collective(g, &p, "sum", odd ? dp_group(m, &p) : tp_group(m, &p), 1, -1, 64);
    collective(g, &p, "loss", pp_group(m, &p), 0, rank_at(m, t, d, m->pp - 1), 4);
}

static syn_graph *graph_of(const mesh *m) {
    const int n = m->tp * m->dp * m->pp;
    int32_t ranks[MOST];
    syn_error err = {0};
    syn_graph *g = NULL;
    for (int i = 0; i < n; i++) ranks[i] = i;
    NEED_OK(syn_graph_new(&g, ranks, (uint32_t)n, n, &err), err);
    add_groups(g, m);
    for (int s = 0; s < m->pp; s++)
        for (int d = 0; d < m->dp; d++)
            for (int t = 0; t < m->tp; t++) add_rank(g, m, t, d, s);
    NEED_OK(syn_graph_verify(g, &err), err);
    return g;
}

static int count(const char *text, const char *part) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++) n++;
    return n;
}

/* Checks the times of the ranks that a timeline with identical ranks shows: each of its events of
   ops is in the full timeline. */
static void check_times(const syn_graph *g) {
    char *once = export_copies(&syn_export_chrome, g, SYN_COPIES_ONCE);
    char *full = export_copies(&syn_export_chrome, g, SYN_COPIES_FULL);
    int n = 0;
    for (char *line = strtok(once, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        if (strstr(line, "\"ph\":\"X\"") == NULL) continue;
        line[strlen(line) - 1] = '\0'; /* a comma or a bracket follows */
        CHECK_MSG(strstr(full, line) != NULL, "%s is not in the full timeline", line);
        n++;
    }
    CHECK(n > 0);
    free(once);
    free(full);
}

/* Pictures of communication draw ranks that do the same in one column. They find the same columns
   by themselves as from the identical ranks. */
static void check_picture(const syn_graph *g) {
    syn_export_options options = {.comm_graph = true, .copies = SYN_COPIES_ONCE};
    syn_copied_ranks *copies = NULL;
    syn_error err = {0};
    char *alone = export_text(&syn_export_dot, g, &options);
    NEED_OK(syn_copies_find(&copies, g, &options, &err), err);
    options.known_copies = copies;
    char *known = export_text(&syn_export_dot, g, &options);
    CHECK_STR(known, alone);
    free(alone);
    free(known);
    syn_copies_free(copies);
}

/* Checks that n_copies ranks are stored as references, that the file with them has these parts, and
   that nothing is lost. */
static void check_copies(const mesh *m, int n_copies, const char *const parts[3]) {
    static const syn_exporter *const all[] = {&syn_export_json, &syn_export_graphml,
                                              &syn_export_chrome, &syn_export_chakra,
                                              &syn_export_html};
    syn_graph *g = graph_of(m);
    char *once = export_copies(&syn_export_json, g, SYN_COPIES_ONCE);
    CHECK_INT(count(once, "\"of\":"), n_copies);
    for (int i = 0; i < 3 && parts != NULL && parts[i] != NULL; i++) CHECK_HAS(once, parts[i]);
    syn_graph *again = read_json(once);
    const char *difference = graph_difference(g, again);
    CHECK_MSG(difference == NULL, "%s differs", difference);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (!can_export(all[i])) continue;
        for (syn_copies how = SYN_COPIES_FULL; how <= SYN_COPIES_ONCE; how++) {
            char *a = export_copies(all[i], g, how), *b = export_copies(all[i], again, how);
            CHECK_MSG(strcmp(a, b) == 0, "%s differs", all[i]->name);
            free(a);
            free(b);
        }
    }
    check_times(g);
    check_picture(g);
    free(once);
    syn_graph_free(again);
    syn_graph_free(g);
}

/* ---- Meshes ---- */

static void one_rank_of_each_stage(void) {
    const int sizes[][3] = {{4, 2, 1}, {1, 4, 1}, {4, 1, 1}, {2, 2, 2},
                            {4, 1, 2}, {1, 3, 2}, {3, 2, 4}, {2, 2, 1}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        mesh m = plain;
        m.tp = sizes[i][0];
        m.dp = sizes[i][1];
        m.pp = sizes[i][2];
        check_copies(&m, m.tp * m.dp * m.pp - m.pp, NULL);
    }
}

/* Rank 7 of tp 2, dp 2, pp 2 is at (1, 1, 1), rank 4 at (0, 0, 1), and rank 2 at (0, 1, 0). The
   groups of tp are 1 to 4, those of dp 5 to 8, and those of pp 9 to 12. Shards of tp follow from
   the groups of tp. */
static void what_differs(void) {
    static const char *const renamed[3] = {
        "\"format_version\":3",
        "{\"rank\":7,\"of\":4,\"groups\":{\"3\":4,\"7\":8,\"9\":12},\"peers\":{\"0\":3},\"nodes\":["
        "\n"
        "{\"id\":\"r7.o1\",\"attributes\":{\"first_row\":100}}]}",
        "{\"rank\":2,\"of\":0,\"groups\":{\"1\":2,\"9\":11},\"peers\":{\"4\":6},\"nodes\":[]}"};
    /* Older versions can read a file without renamed ranks. */
    static const char *const same_names[3] = {"\"format_version\":2",
                                              "{\"rank\":1,\"of\":0,\"nodes\":[\n"};
    mesh m = plain;
    m.tp = m.dp = m.pp = 2;
    check_copies(&m, 6, renamed);
    m.dp = m.pp = 1;
    check_copies(&m, 1, same_names);
}

static void tags(void) {
    static const char *const parts[3] = {"\"peers\":{\"2\":3},\"tags\":{\"7\":8},",
                                         "\"peers\":{\"0\":1},\"tags\":{\"7\":8},"};
    mesh m = plain;
    m.dp = m.pp = 2;
    m.own_tags = true;
    check_copies(&m, 2, parts);
}

/* With as many tensor-parallel as data-parallel ranks, the groups do not say which of the two a
   shard belongs to. The first group is one of tp. */
static void shards(void) {
    static const char *const parts[3] = {
        "{\"rank\":1,\"of\":0,\"groups\":{\"3\":4},\"tensors\":{\"1\":0},",
        "{\"rank\":2,\"of\":0,\"groups\":{\"1\":2},\"tensors\":{\"1\":1},",
        "{\"rank\":3,\"of\":0,\"groups\":{\"1\":2,\"3\":4},\"nodes\":"};
    mesh m = plain;
    m.tp = m.dp = 2;
    m.own_shard = true;
    check_copies(&m, 3, parts);
}

/* The same if most shards belong to dp. */
static void shards_of_the_other_group(void) {
    static const char *const parts[3] = {
        "{\"rank\":1,\"of\":0,\"groups\":{\"3\":4},\"shards\":{\"0/2\":0},\"nodes\":",
        "{\"rank\":2,\"of\":0,\"groups\":{\"1\":2},\"shards\":{\"0/2\":1},\"nodes\":",
        "{\"rank\":3,\"of\":0,\"groups\":{\"1\":2,\"3\":4},\"nodes\":"};
    mesh m = plain;
    m.tp = m.dp = 2;
    m.own_shard = m.only_dp = true;
    check_copies(&m, 3, parts);
}

/* More kinds of ranks than 64: each data-parallel rank of each stage differs from the others. */
static void many_kinds(void) {
    mesh m = plain;
    m.tp = 2;
    m.dp = 5;
    m.pp = 16;
    m.by_data = true;
    check_copies(&m, 80, NULL);
}

/* ---- Ranks that are not identical ---- */

/* Ranks are identical only if their peers are: rank 4 in the last stage is slow, so the first rank
   of its pipeline is of another kind than those of the other pipelines. */
static void peers_of_other_kinds(void) {
    static const char *const parts[3] = {"{\"rank\":2,\"of\":0,", "{\"rank\":5,\"of\":3,"};
    mesh m = plain;
    m.dp = 3;
    m.pp = 2;
    m.slow = 4;
    check_copies(&m, 2, parts);
}

/* In a ring of equal ranks, rank 0 alone would wait for messages from a rank that is not shown. */
static void rings(void) {
    mesh m = plain;
    m.pp = 4;
    m.ring = true;
    check_copies(&m, 0, NULL);
}

/* Rank 3 sums over its group of dp where the others sum over their group of tp again, so the group
   of tp would have two new names. */
static void two_new_names(void) {
    mesh m = plain;
    m.tp = m.dp = 2;
    m.odd = 3;
    check_copies(&m, 0, NULL);
}

/* ---- Memory ---- */

static void out_of_memory(void) {
    static const syn_exporter *const all[] = {&syn_export_json, &syn_export_html,
                                              &syn_export_chakra};
    mesh m = plain;
    m.tp = m.dp = m.pp = 2;
    m.own_shard = true;
    syn_graph *g = graph_of(&m);
    copies_without_memory(g, all, sizeof all / sizeof all[0]);
    syn_graph_free(g);
}

static const test_case cases[] = {
    {"one_rank_of_each_stage", one_rank_of_each_stage},
    {"what_differs", what_differs},
    {"tags", tags},
    {"shards", shards},
    {"shards_of_the_other_group", shards_of_the_other_group},
    {"many_kinds", many_kinds},
    {"peers_of_other_kinds", peers_of_other_kinds},
    {"rings", rings},
    {"two_new_names", two_new_names},
    {"out_of_memory", out_of_memory},
};
TEST_MAIN(cases)
