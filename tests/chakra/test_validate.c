/* Tests the validator with a trace set of two ranks that has no findings, and with one edit of it
   for each check. The message of each kind of finding says how simulators react to it. */
#include "export/validate.h"

#include <inttypes.h>

#include "tests/support/et_set.h"
#include "tests/support/test.h"

/* ---- Edits: one each; `n` has rank 0's nodes, whose ids are their indices plus one ---- */

static void cut(et_set *s, set_node *n) {
    (void)n;
    s->cut_bytes = 1;
}
static void long_length(et_set *s, set_node *n) {
    (void)n;
    s->tail = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    s->tail_bytes = 11;
}
static void no_meta(et_set *s, set_node *n) {
    (void)n;
    s->no_meta = true;
}
static void bad_wire(et_set *s, set_node *n) {
    (void)n;
    s->tail = "\x01\x0f";
    s->tail_bytes = 2;
}
static void bad_text(et_set *s, set_node *n) {
    (void)s;
    n[0].name = "a\xff";
    n[0].n_data = 0;
}
static void no_nodes(et_set *s, set_node *n) {
    (void)n;
    s->n[0] = s->n[1] = 0;
}
static void same_id(et_set *s, set_node *n) {
    (void)n;
    set_node *more = set_comp(s, 0);
    more->id = 3;
    more->n_data = 0;
}
static void dangling(et_set *s, set_node *n) {
    (void)s;
    n[5].ctrl[n[5].n_ctrl++] = 99;
}
static void itself(et_set *s, set_node *n) {
    (void)s;
    n[5].ctrl[n[5].n_ctrl++] = 6;
}
static void cycle(et_set *s, set_node *n) {
    (void)s;
    n[2].ctrl[n[2].n_ctrl++] = 6;
}
static void no_value(et_set *s, set_node *n) {
    (void)s;
    set_attr(&n[0], "note")->field = SYN__ET_NONE;
}
static void not_integer(et_set *s, set_node *n) {
    (void)s;
    *set_attr(&n[0], "comm_src") = set_text("comm_src", "1");
}
static void group_not_text(et_set *s, set_node *n) {
    (void)n;
    for (int r = 0; r < 2; r++) *set_attr(&s->nodes[r][7], "pg_name") = set_int("pg_name", 7, 2);
}
static void dims_not_list(et_set *s, set_node *n) {
    (void)s;
    set_value(&n[6], "involved_dim", 1);
}
static void twice(et_set *s, set_node *n) {
    (void)s;
    n[0].attrs[n[0].n_attrs++] = set_int("num_ops", SYN__ET_INT64, 1000000);
}
static void memory_node(et_set *s, set_node *n) {
    (void)n;
    set_comp(s, 0)->type = SYN__ET_MEM_LOAD_NODE;
}
static void new_type(et_set *s, set_node *n) {
    (void)n;
    set_comp(s, 0)->type = 8;
}
static void cpu_compute(et_set *s, set_node *n) {
    (void)s;
    set_value(&n[2], "is_cpu_op", 1);
}
static void cpu_communication(et_set *s, set_node *n) {
    (void)s;
    set_value(&n[6], "is_cpu_op", 1);
}
static void no_ops(et_set *s, set_node *n) {
    (void)s;
    set_value(&n[2], "num_ops", 0);
}
static void ops_not_given(et_set *s, set_node *n) {
    (void)s;
    set_drop(&n[2], "num_ops");
}
static void no_bytes(et_set *s, set_node *n) {
    (void)s;
    set_value(&n[2], "tensor_size", 0);
}
static void negative_bytes(et_set *s, set_node *n) {
    (void)s;
    *set_attr(&n[2], "tensor_size") = set_int("tensor_size", SYN__ET_INT64, -1);
}
static void huge(et_set *s, set_node *n) {
    (void)s;
    set_attr(&n[2], "tensor_size")->bits = UINT64_C(1) << 63;
}
static void small_root(et_set *s, set_node *n) {
    (void)s;
    set_value(&n[0], "tensor_size", 3349);
    set_value(&n[0], "num_ops", 899999);
}
static void both(et_set *s, const char *name, int64_t value) {
    for (int r = 0; r < 2; r++) set_value(&s->nodes[r][6], name, value);
}
static void new_collective(et_set *s, set_node *n) {
    (void)n;
    both(s, "comm_type", 10);
}
static void no_collective(et_set *s, set_node *n) {
    (void)n;
    for (int r = 0; r < 2; r++) set_drop(&s->nodes[r][6], "comm_type");
}
static void barrier(et_set *s, set_node *n) {
    (void)n;
    both(s, "comm_type", 9);
}
static void nothing_sent(et_set *s, set_node *n) {
    (void)n;
    both(s, "comm_size", 0);
}
static void size_not_given(et_set *s, set_node *n) {
    (void)n;
    for (int r = 0; r < 2; r++) set_drop(&s->nodes[r][6], "comm_size");
}
static void empty_message(et_set *s, set_node *n) {
    (void)n;
    for (int r = 0; r < 2; r++) set_value(&s->nodes[r][4], "comm_size", 0);
}
static void to_itself(et_set *s, set_node *n) {
    (void)s;
    set_value(&n[4], "comm_dst", 0);
}
static void from_another(et_set *s, set_node *n) {
    (void)s;
    set_value(&n[4], "comm_src", 5);
}
static void beyond_world(et_set *s, set_node *n) {
    (void)s;
    set_value(&n[4], "comm_dst", 2);
}
static void negative_tag(et_set *s, set_node *n) {
    (void)n;
    for (int r = 0; r < 2; r++) set_value(&s->nodes[r][4], "comm_tag", -1);
}
static void no_tag(et_set *s, set_node *n) {
    (void)n;
    for (int r = 0; r < 2; r++) set_drop(&s->nodes[r][4], "comm_tag");
}
#define GROUPS(name, text)                     \
    static void name(et_set *s, set_node *n) { \
        (void)n;                               \
        s->groups = text;                      \
    }
GROUPS(key_zero, "{\"1\": [0, 1], \"2\": [1, 0], \"0\": [0, 1]}")
GROUPS(key_text, "{\"1\": [0, 1], \"2\": [1, 0], \"tp\": [0, 1]}")
GROUPS(member_twice, "{\"1\": [0, 1], \"2\": [1, 0], \"3\": [0, 1, 0]}")
GROUPS(member_beyond, "{\"1\": [0, 1], \"2\": [1, 0], \"3\": [0, 2]}")
GROUPS(listed_twice, "{\"1\": [0, 1], \"2\": [1, 0], \"2\": [1, 0]}")
GROUPS(not_json, "{\"1\": [0, 1], \"2\": [1, 0],}")
GROUPS(not_a_list, "{\"1\": [0, 1], \"2\": [1, 0], \"3\": 1}")
GROUPS(id_500, "{\"1\": [0, 1], \"2\": [1, 0], \"500\": [0, 1]}")
GROUPS(id_499, "{\"1\": [0, 1], \"2\": [1, 0], \"499\": [0]}")
GROUPS(not_listed, "{\"1\": [0, 1]}")
GROUPS(one_rank, "{\"1\": [0, 1], \"2\": [0]}")
GROUPS(not_member, "{\"1\": [0, 1], \"2\": []}")

static void other_type(et_set *s, set_node *n) {
    (void)s;
    set_value(&n[7], "comm_type", 2);
}
static void one_without_size(et_set *s, set_node *n) {
    (void)s;
    set_drop(&n[7], "comm_size");
}
static void least_size(et_set *s, set_node *n) {
    (void)s;
    set_value(&n[7], "comm_size", INT64_MIN);
}
static void near_without_size(et_set *s, set_node *n) {
    (void)s;
    set_drop(&n[4], "comm_size");
}
static void long_duration(et_set *s, set_node *n) {
    (void)s;
    n[1].micros = UINT64_C(1) << 63;
    n[2].micros = INT64_MAX / 1000;
}
static void wide_tag(et_set *s, set_node *n) {
    (void)n;
    for (int r = 0; r < 2; r++)
        *set_attr(&s->nodes[r][4], "comm_tag") =
            set_int("comm_tag", SYN__ET_INT64, INT64_C(1) << 31);
}
static void wide_peer(et_set *s, set_node *n) {
    (void)s;
    *set_attr(&n[4], "comm_dst") = set_int("comm_dst", SYN__ET_INT64, INT64_C(1) << 40);
}
static void other_size(et_set *s, set_node *n) {
    (void)s;
    set_value(&n[7], "comm_size", 65);
}
static void one_more(et_set *s, set_node *n) {
    (void)n;
    set_coll(s, 1, "1", 0, 64);
}
static void no_order(et_set *s, set_node *n) {
    (void)s;
    n[2].data[0] = 1;
}
/* Node 2, which has the smallest id in group 1, now depends on node 4. */
static void reversed(et_set *s, set_node *n) {
    (void)s;
    n[2].data[0] = n[3].data[0] = 1;
    n[1].data[0] = 4;
    n[4].data[0] = 2;
}
/* Node 4 depends on node 2 by way of node 1, whose id is smaller than both. */
static void way_round(et_set *s, set_node *n) {
    (void)s;
    n[0].id = 3;
    n[2].id = 1;
    n[1].data[0] = 3;
    n[3].data[0] = 1;
}
static void other_tag(et_set *s, set_node *n) {
    (void)s;
    set_value(&n[4], "comm_tag", 4);
}
static void other_bytes(et_set *s, set_node *n) {
    (void)s;
    set_value(&n[4], "comm_size", 17);
}
static void not_received(et_set *s, set_node *n) {
    (void)n;
    set_message(s, 0, true, 9, 16);
}
static void same_key(et_set *s, set_node *n) {
    (void)n;
    for (int r = 0; r < 2; r++) set_message(s, r, r == 0, 3, 16);
}
/* Rank 1 calls group 2 before the last call of group 1. On both ranks, dependencies enforce the
   order. */
static void crossed(et_set *s, set_node *n) {
    (void)n;
    set_coll(s, 0, "1", 0, 64);
    set_coll(s, 0, "2", 0, 64);
    set_coll(s, 1, "2", 0, 64);
    set_coll(s, 1, "1", 0, 64);
}
/* The same with broadcasts as one group's calls. A broadcast does not wait for other ranks. */
static void crossed_broadcast(et_set *s, set_node *n) {
    crossed(s, n);
    set_value(&n[8], "comm_type", 5);
    set_value(&s->nodes[1][9], "comm_type", 5);
}
/* On rank 0 both calls are ready together, and the one with the smaller id starts first. On rank 1,
   one call depends on the other. */
static void least_first(et_set *s, set_node *n) {
    (void)n;
    for (int r = 0; r < 2; r++) {
        set_coll(s, r, "1", 2, 64);
        set_coll(s, r, "2", 2, 64)->data[0] = r == 0 ? 8 : 9;
    }
}
/* Rank 0 sends after a collective, but rank 1 receives before it joins this collective. */
static void late_send(et_set *s, set_node *n) {
    (void)n;
    set_coll(s, 0, "1", 0, 64);
    set_message(s, 0, true, 9, 16);
    set_message(s, 1, false, 9, 16);
    set_coll(s, 1, "1", 0, 64);
}
static void nothing(et_set *s, set_node *n) {
    (void)s;
    (void)n;
}

/* An edit, and the only finding that it must cause. */
static const struct edit {
    const char *name;
    void (*make)(et_set *s, set_node *n);
    int mode;
    int kind; /* -1: no finding */
    uint64_t count;
    int64_t node; /* node of the first finding; -1: none */
    const char *text;
} edits[] = {
    {"nothing", nothing, SIMULATOR, -1, 0, -1, ""},
    {"nothing, any node", nothing, ANY_NODE, -1, 0, -1, ""},
    {"nothing, single", nothing, SINGLE, -1, 0, -1, ""},
    {"cut", cut, SIMULATOR, SYN_FINDING_FRAME, 1, -1, "ends inside a message"},
    {"length", long_length, SIMULATOR, SYN_FINDING_FRAME, 1, -1, "longer than 64 bits"},
    {"no metadata", no_meta, SIMULATOR, SYN_FINDING_META, 2, -1, "is a node"},
    {"wire type", bad_wire, SIMULATOR, SYN_FINDING_MESSAGE, 1, -1, "unknown wire type"},
    {"no nodes", no_nodes, SIMULATOR, SYN_FINDING_NO_NODES, 2, -1, "no nodes"},
    {"id", same_id, SIMULATOR, SYN_FINDING_ID, 1, 3, "the id 3 too"},
    {"dangling", dangling, SIMULATOR, SYN_FINDING_DANGLING, 1, 6, "node 99, which is not"},
    {"self", itself, SIMULATOR, SYN_FINDING_SELF, 1, 6, "depends on itself"},
    {"cycle", cycle, SIMULATOR, SYN_FINDING_CYCLE, 1, 3,
     "4 nodes depend on each other: 3 <- 6 <- 5 <- 4 <- 3; 6 nodes can never run"},
    {"no value", no_value, SIMULATOR, SYN_FINDING_NO_VALUE, 1, 1, "note has no value"},
    {"not integer", not_integer, ANY_NODE, SYN_FINDING_MEMBER, 1, 1, "comm_src is string_val"},
    {"group not text", group_not_text, ANY_NODE, SYN_FINDING_MEMBER, 2, 8, "pg_name is int32_val"},
    {"dims", dims_not_list, SIMULATOR, SYN_FINDING_MEMBER, 1, 7, "int64_val, not bool_list"},
    {"twice", twice, SIMULATOR, SYN_FINDING_TWICE, 1, 1, "num_ops appears twice"},
    {"memory", memory_node, SIMULATOR, SYN_FINDING_NODE_TYPE, 1, 9, "its type is 2"},
    {"memory, any", memory_node, ANY_NODE, -1, 0, -1, ""},
    {"new type", new_type, SIMULATOR, SYN_FINDING_NODE_TYPE, 1, 9, "its type is 8"},
    {"new type, any", new_type, ANY_NODE, SYN_FINDING_NEW_TYPE, 1, 9, "its type is 8"},
    {"cpu", cpu_compute, SIMULATOR, SYN_FINDING_CPU_NODE, 1, 3, "is_cpu_op is 1"},
    {"cpu, any", cpu_compute, ANY_NODE, -1, 0, -1, ""},
    {"cpu comm", cpu_communication, SIMULATOR, SYN_FINDING_CPU_NODE, 1, 7, "communicates"},
    {"ops", no_ops, SIMULATOR, SYN_FINDING_COST, 1, 3, "num_ops is 0"},
    {"ops, any", no_ops, ANY_NODE, -1, 0, -1, ""},
    {"ops absent", ops_not_given, SIMULATOR, SYN_FINDING_COST, 1, 3, "num_ops is not given"},
    {"bytes", no_bytes, SIMULATOR, SYN_FINDING_COST, 1, 3, "tensor_size is 0"},
    {"negative", negative_bytes, SIMULATOR, SYN_FINDING_COST, 1, 3, "tensor_size is -1"},
    {"huge", huge, SIMULATOR, -1, 0, -1, ""},
    {"root", small_root, SIMULATOR, SYN_FINDING_SMALL_ROOT, 1, 1, "tensor_size is 3349"},
    {"comm type", new_collective, SIMULATOR, SYN_FINDING_COMM_TYPE, 2, 7, "comm_type is 10"},
    {"no comm type", no_collective, ANY_NODE, SYN_FINDING_COMM_TYPE, 2, 7, "is not given"},
    {"barrier", barrier, SIMULATOR, SYN_FINDING_COMM_KIND, 2, 7, "BARRIER is not simulated"},
    {"barrier, any", barrier, ANY_NODE, -1, 0, -1, ""},
    {"size", nothing_sent, SIMULATOR, SYN_FINDING_COMM_SIZE, 2, 7, "comm_size is 0"},
    {"size, single", nothing_sent, SINGLE, SYN_FINDING_COMM_SIZE, 1, 7, "comm_size is 0"},
    {"no size", size_not_given, ANY_NODE, SYN_FINDING_COMM_SIZE, 2, 7, "is not given"},
    {"empty", empty_message, SIMULATOR, SYN_FINDING_COMM_SIZE, 2, 5, "comm_size is 0"},
    {"itself", to_itself, SINGLE, SYN_FINDING_PEER, 1, 5, "send from 0 to 0, tag 3"},
    {"another", from_another, SINGLE, SYN_FINDING_PEER, 1, 5, "send from 5 to 1"},
    {"negative tag", negative_tag, SIMULATOR, SYN_FINDING_PEER, 2, 5, ", tag -1"},
    {"no tag", no_tag, SIMULATOR, SYN_FINDING_PEER, 2, 5, ", tag none"},
    {"key 0", key_zero, SIMULATOR, SYN_FINDING_GROUPS, 1, -1, "key '0' is not an integer above 0"},
    {"key tp", key_text, ANY_NODE, SYN_FINDING_GROUPS, 1, -1, "key 'tp'"},
    {"member twice", member_twice, SIMULATOR, SYN_FINDING_GROUPS, 1, -1, "the member 0 twice"},
    {"beyond", member_beyond, SIMULATOR, SYN_FINDING_GROUPS, 1, -1, "member 2, but there are 2"},
    {"listed twice", listed_twice, SIMULATOR, SYN_FINDING_GROUPS, 1, -1, "group 2 appears twice"},
    {"not json", not_json, SIMULATOR, SYN_FINDING_GROUPS, 1, -1, "groups:1:"},
    {"not a list", not_a_list, SIMULATOR, SYN_FINDING_GROUPS, 1, -1, "groups:1:"},
    {"id 500", id_500, SIMULATOR, SYN_FINDING_GROUP_ID, 1, -1, "500 must be below 500"},
    {"id 499", id_499, SIMULATOR, -1, 0, -1, ""},
    {"not listed", not_listed, SIMULATOR, SYN_FINDING_GROUP, 2, 8, "group 2 is not in the group"},
    {"not listed, any", not_listed, ANY_NODE, -1, 0, -1, ""},
    {"one rank", one_rank, SIMULATOR, SYN_FINDING_GROUP, 2, 8, "group 2 has only one rank"},
    {"no member", not_member, SIMULATOR, SYN_FINDING_GROUP, 2, 8, "rank 0 is not in its group 2"},
    {"type", other_type, SIMULATOR, SYN_FINDING_SEQUENCE, 1, 8,
     "group 2, collective 0: ALL_GATHER of 64 bytes, but rank 1's node 8 is ALL_REDUCE of 64"},
    {"long", long_duration, SIMULATOR, SYN_FINDING_RANGE, 1, 2,
     "duration_micros is 9223372036854775808"},
    {"long, any", long_duration, ANY_NODE, SYN_FINDING_RANGE, 1, 2, "duration_micros"},
    {"wide tag", wide_tag, SIMULATOR, SYN_FINDING_RANGE, 2, 5, "comm_tag is 2147483648"},
    {"wide peer", wide_peer, SINGLE, SYN_FINDING_RANGE, 1, 5, "comm_dst is 1099511627776"},
    {"bytes differ", other_size, ANY_NODE, SYN_FINDING_SEQUENCE, 1, 8, "ALL_REDUCE of 65 bytes"},
    {"one more", one_more, SIMULATOR, SYN_FINDING_SEQUENCE, 1, -1,
     "group 1: 3 collectives, but rank 0 has 2; rank 1's node 9 is the first"},
    {"no order", no_order, SIMULATOR, SYN_FINDING_ORDER, 1, 4, "the collectives 2 and 4"},
    {"no order, any", no_order, ANY_NODE, SYN_FINDING_ORDER, 1, 4, "group 1"},
    {"no order, single", no_order, SINGLE, -1, 0, -1, ""},
    {"reversed", reversed, SIMULATOR, SYN_FINDING_ORDER, 1, 4, "the collectives 2 and 4"},
    {"way round", way_round, SIMULATOR, -1, 0, -1, ""},
    {"tag", other_tag, SIMULATOR, SYN_FINDING_MESSAGES, 2, 5, "tag 3, 16 bytes: 0 sends, 1 rec"},
    {"message bytes", other_bytes, ANY_NODE, SYN_FINDING_MESSAGES, 2, 5,
     "node 5 of rank 0 differs in size: 17 bytes"},
    {"not received", not_received, SIMULATOR, SYN_FINDING_MESSAGES, 1, 9, "1 sends, 0 receives"},
    {"same key", same_key, SIMULATOR, SYN_FINDING_KEY, 1, 5, "2 sends, 2 receives"},
    {"crossed", crossed, SIMULATOR, SYN_FINDING_DEADLOCK, 1, -1,
     "4 of 20 nodes never run: rank 0 waits in collective 9 (group 1) for rank 1; rank 1 waits in "
     "collective 9 (group 2) for rank 0"},
    {"crossed broadcast", crossed_broadcast, SIMULATOR, -1, 0, -1, ""},
    {"least first", least_first, SIMULATOR, -1, 0, -1, ""},
    {"crossed, any", crossed, ANY_NODE, -1, 0, -1, ""},
    {"late send", late_send, SIMULATOR, SYN_FINDING_DEADLOCK, 1, -1,
     "4 of 20 nodes never run: rank 0 waits in collective 9 (group 1) for rank 1; rank 1 waits in "
     "receive 9 (tag 9) for rank 0"},
};

static bool as_expected(const struct edit *e, const syn_validation *v, char *why, size_t capacity) {
    const uint64_t all = v->n_problems + v->n_warnings;
    const char *first = v->n_findings == 0 ? "nothing" : v->findings[0].text;
    snprintf(why, capacity, "%s: %" PRIu64 " findings, first: %s (%s)", e->name, all, first,
             v->n_findings == 0 ? "" : syn_finding_name(v->findings[0].kind));
    if (e->kind < 0) return all == 0 && v->n_findings == 0;
    if (v->n_findings == 0) return false;
    const syn_finding *f = &v->findings[0];
    const bool problem = syn_finding_is_problem(f->kind);
    return all == e->count && v->counts[e->kind] == e->count && v->n_findings == all &&
           (problem ? v->n_problems : v->n_warnings) == all && f->has_node == (e->node >= 0) &&
           (e->node < 0 || f->node == (uint64_t)e->node) && strstr(f->text, e->text) != NULL;
}

static void every_edit(void) {
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        syn_error err = {0};
        syn_validation v;
        char why[700];
        et_set s = set_clean();
        edits[i].make(&s, s.nodes[0]);
        CHECK_OK(validate(&s, edits[i].mode, &v, &err), err);
        const bool ok = as_expected(&edits[i], &v, why, sizeof why), executed = v.executed;
        const bool runs = edits[i].mode == SIMULATOR && v.n_problems == 0;
        syn_validation_free(&v);
        CHECK_MSG(ok, "%s", why);
        CHECK_MSG(executed == runs, "%s: executed is %d", edits[i].name, executed);
    }
}

/* For edits with several consequences: checks all kinds of findings, in order. */
static void check_kinds(const char *name, et_set *s, const char *want) {
    syn_error err = {0};
    syn_validation v;
    char got[512] = "";
    CHECK_OK(validate(s, SIMULATOR, &v, &err), err);
    for (size_t i = 0; i < v.n_findings; i++) {
        if (i > 0 && v.findings[i].kind == v.findings[i - 1].kind) continue;
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", *got ? " " : "",
                 syn_finding_name(v.findings[i].kind));
    }
    syn_validation_free(&v);
    CHECK_MSG(strcmp(got, want) == 0, "%s: got %s, want %s", name, got, want);
}

static void what_follows(void) {
    et_set s = set_clean();
    bad_text(&s, s.nodes[0]);
    check_kinds("text", &s, "utf8 dangling-dependency");
    s = set_clean();
    s.tail = "";
    s.tail_bytes = 1; /* a length of 0 bytes */
    check_kinds("empty", &s, "empty-message node-type");
    s = set_clean();
    beyond_world(&s, s.nodes[0]);
    check_kinds("beyond", &s, "peer send-receive-mismatch");
    s = set_clean();
    s.no_meta = true;
    s.n[0] = s.n[1] = 0;
    check_kinds("no bytes", &s, "metadata no-nodes");
    s = set_clean();
    *set_attr(&s.nodes[0][6], "comm_size") = set_int("comm_size", SYN__ET_DOUBLE, 0);
    check_kinds("double", &s, "attribute-type comm-size collective-mismatch");
}

/* ---- Positions ---- */

static void offsets(void) {
    syn_error err = {0};
    syn_validation v;
    et_set s = set_clean();
    dangling(&s, &s.nodes[0][2]); /* the dependency is in the last node */
    s.n[0] = 7;
    syn__buf before = set_bytes(&s, 0);
    s.n[0] = 8;
    CHECK_OK(validate(&s, SIMULATOR, &v, &err), err);
    CHECK_INT(v.n_findings, 1);
    CHECK(v.findings[0].has_offset);
    CHECK_INT(v.findings[0].node, 8);
    /* The offset is after the message's length. */
    CHECK_INT(v.findings[0].offset, before.bytes + 1);
    CHECK_INT(v.findings[0].rank, 0);
    syn__buf_free(&before);
    syn_validation_free(&v);
}

static void counts(void) {
    syn_error err = {0};
    syn_validation v;
    et_set s = set_clean();
    CHECK_OK(validate(&s, SIMULATOR, &v, &err), err);
    CHECK_INT(v.n_files, 2);
    CHECK_INT(v.n_nodes, 16);
    CHECK_INT(v.n_deps, 14);
    CHECK_INT(v.n_collectives, 8);
    CHECK_INT(v.n_sends, 1);
    CHECK_INT(v.n_recvs, 1);
    CHECK(v.across && v.executed);
    syn_validation_free(&v);
}

/* A missing value must be reported as missing. The smallest integer must not be mistaken for a
   missing value. */
static void missing_numbers(void) {
    static const struct {
        void (*make)(et_set *s, set_node *n);
        const char *text;
        bool least;
    } made[] = {
        {one_without_size, "ALL_REDUCE without comm_size, but rank 1", false},
        {least_size, "comm_size is -9223372036854775807", true},
        {near_without_size, "differs in size: (none) bytes", false},
        {size_not_given, "comm_size is not given", false},
    };
    for (size_t m = 0; m < sizeof made / sizeof made[0]; m++) {
        syn_error err = {0};
        syn_validation v;
        bool found = false;
        et_set s = set_clean();
        made[m].make(&s, s.nodes[0]);
        CHECK_OK(validate(&s, ANY_NODE, &v, &err), err);
        for (size_t i = 0; i < v.n_findings; i++) {
            found = found || strstr(v.findings[i].text, made[m].text) != NULL;
            CHECK_MSG(made[m].least || !strstr(v.findings[i].text, "9223372036854775808"), "%s",
                      v.findings[i].text);
        }
        CHECK_MSG(found, "%s: %s", made[m].text, v.n_findings ? v.findings[0].text : "nothing");
        syn_validation_free(&v);
    }
}

static const test_case cases[] = {
    {"missing_numbers", missing_numbers},
    {"every_edit", every_edit},
    {"what_follows", what_follows},
    {"offsets", offsets},
    {"counts", counts},
};

TEST_MAIN(cases)
