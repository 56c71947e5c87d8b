/* Tests the validator with large files, invalid calls and too little memory, and its result as
   JSON. */
#include "export/validate.h"

#include "syntorch/base/json.h"
#include "syntorch/base/memory.h"
#include "tests/support/et_set.h"
#include "tests/support/test.h"

/* A file of `n` compute nodes. The callback gives the dependencies of each node. */
static syn__buf many(uint64_t n, size_t (*deps)(uint64_t id, uint64_t *out)) {
    syn__buf out = {0}, message = {0};
    const syn__et_meta meta = {.version = {"1.0.0", 5}};
    const syn__et_attr attrs[] = {set_int("num_ops", SYN__ET_INT64, 1000000),
                                  set_int("tensor_size", SYN__ET_UINT64, 4096)};
    syn__et_put_meta(&message, &meta);
    set_put(&out, &message);
    for (uint64_t id = 1; id <= n; id++) {
        uint64_t list[8];
        const syn__et_node node = {.id = id,
                                   .name = {"n", 1},
                                   .type = SYN__ET_COMP_NODE,
                                   .data = list,
                                   .n_data = deps(id, list),
                                   .attrs = attrs,
                                   .n_attrs = 2};
        message.bytes = 0;
        syn__et_put_node(&message, &node);
        set_put(&out, &message);
    }
    syn__buf_free(&message);
    return out;
}

static syn_status validate_one(const syn__buf *file, int mode, syn_validation *out,
                               syn_error *err) {
    const syn_validate_options how = {.any_node = mode == ANY_NODE};
    syn_validator *v;
    SYN_TRY(syn_validator_open(&v, &how, 1, err));
    const syn_status status = syn_validator_add(v, 0, file->data, file->bytes, err);
    const syn_status closed = syn_validator_close(v, status == SYN_OK ? out : NULL, err);
    return status == SYN_OK ? closed : status;
}

static size_t chain(uint64_t id, uint64_t *out) {
    out[0] = id - 1;
    return id > 1;
}
static size_t ring(uint64_t id, uint64_t *out) {
    out[0] = id > 1 ? id - 1 : 200000;
    return 1;
}
static size_t none(uint64_t id, uint64_t *out) {
    (void)id;
    (void)out;
    return 0;
}
static size_t absent(uint64_t id, uint64_t *out) {
    out[0] = id + 1000;
    return 1;
}

static void check_many(uint64_t n, size_t (*deps)(uint64_t, uint64_t *), int kind, uint64_t count,
                       size_t kept, const char *text) {
    syn_error err = {0};
    syn_validation v = {0};
    syn__buf file = many(n, deps);
    const syn_status status = validate_one(&file, SIMULATOR, &v, &err);
    const bool ok = kind < 0 ? v.n_problems + v.n_warnings == 0
                             : v.counts[kind] == count && v.n_findings == kept &&
                                   strstr(v.findings[0].text, text) != NULL;
    syn__buf_free(&file);
    syn_validation_free(&v);
    CHECK_OK(status, err);
    CHECK_MSG(ok, "%s", text);
}

static void long_chain(void) {
    check_many(200000, chain, -1, 0, 0, "");
}
static void long_cycle(void) {
    check_many(200000, ring, SYN_FINDING_CYCLE, 1, 1,
               "200000 nodes depend on each other: 1 <- 200000 <- 199999 <- 199998 <- 199997 <- "
               "199996 <- 199995 <- 199994 <- ... <- 1; 200000 nodes can never run");
}
static void wide_frontier(void) {
    check_many(16385, none, SYN_FINDING_FRONTIER, 1, 1, "up to 16385 nodes are ready at once");
    check_many(16384, none, -1, 0, 0, "");
}
static void kept_in_part(void) {
    check_many(150, absent, SYN_FINDING_DANGLING, 150, SYN_MAX_FINDINGS, "depends on node 1001");
}

/* Validates a file with two chains of collectives, one of odd and one of even ids. `group_of` gives
   the group of each node. */
static syn_status two_chains(uint64_t n, uint64_t (*group_of)(uint64_t id), syn_validation *out,
                             syn_error *err) {
    syn__buf file = {0}, message = {0};
    const syn__et_meta meta = {.version = {"1.0.0", 5}};
    syn__et_put_meta(&message, &meta);
    set_put(&file, &message);
    for (uint64_t id = 1; id <= n; id++) {
        char name[16];
        const uint64_t dep = id - 2;
        snprintf(name, sizeof name, "%u", (unsigned)group_of(id));
        const syn__et_attr attrs[] = {set_int("comm_type", SYN__ET_INT64, 0),
                                      set_int("comm_size", SYN__ET_INT64, 64),
                                      set_text("pg_name", name)};
        const syn__et_node node = {.id = id,
                                   .name = {"n", 1},
                                   .type = SYN__ET_COMM_COLL_NODE,
                                   .data = &dep,
                                   .n_data = id > 2,
                                   .attrs = attrs,
                                   .n_attrs = 3};
        message.bytes = 0;
        syn__et_put_node(&message, &node);
        set_put(&file, &message);
    }
    const syn_status status = validate_one(&file, ANY_NODE, out, err);
    syn__buf_free(&file);
    syn__buf_free(&message);
    return status;
}

static uint64_t by_chain(uint64_t id) {
    return id % 2;
}
static uint64_t far_apart(uint64_t id) {
    return id % 4000;
}

/* The order of two groups is checked completely. */
static void two_groups(void) {
    syn_error err = {0};
    syn_validation v = {0};
    CHECK_OK(two_chains(20000, by_chain, &v, &err), err);
    CHECK_INT(v.n_problems + v.n_warnings, 0);
    syn_validation_free(&v);
}

/* To check everything between the calls of each pair of groups, the validator would need quadratic
   time. It therefore gives up and reports the order as unknown. */
static void many_groups(void) {
    syn_error err = {0};
    syn_validation v = {0};
    CHECK_OK(two_chains(8000, far_apart, &v, &err), err);
    CHECK_INT(v.n_problems, 0);
    CHECK_INT(v.counts[SYN_FINDING_ORDER_OPEN], 1);
    syn_validation_free(&v);
}

/* ---- JSON, memory ---- */

static void json_form(void) {
    syn_error err = {0};
    syn_validation v;
    syn_sink *sink;
    size_t bytes;
    et_set s = set_clean();
    s.nodes[0][5].ctrl[s.nodes[0][5].n_ctrl++] = 99;
    CHECK_OK(validate(&s, SIMULATOR, &v, &err), err);
    CHECK_OK(syn_sink_open_memory(&sink, &err), err);
    syn_validation_json(&v, sink);
    const char *text = syn_sink_data(sink, &bytes);
    CHECK_HAS(text, "\"kind\": \"dangling-dependency\", \"problem\": true, \"count\": 1");
    CHECK_HAS(text, "{\"rank\": 0, \"node\": 6, \"offset\": ");
    CHECK_HAS(text, "\"problems\": 1, \"warnings\": 0");
    syn_json json;
    syn_json_init(&json, "result", text, bytes, &err);
    while (syn_json_next(&json) != SYN_JSON_END && json.type != SYN_JSON_ERROR) {
    }
    CHECK_INT(json.type, SYN_JSON_END);
    syn_json_free(&json);
    CHECK_OK(syn_sink_close(sink, false, &err), err);
    syn_validation_free(&v);
}

/* Each allocation fails once. Each failure must give a message, and neither a leak nor a
   verdict. */
static void no_memory(void) {
    et_set s = set_clean();
    s.nodes[0][5].ctrl[s.nodes[0][5].n_ctrl++] = 99;
    et_set good = set_clean();
    for (int which = 0; which < 2; which++) {
        for (uint64_t n = 0; n < 400; n++) {
            syn_error err = {0};
            syn_validation v;
            syn_memory_fail_after(n);
            const syn_status status = validate(which == 0 ? &s : &good, SIMULATOR, &v, &err);
            syn_memory_fail_after(SYN_MEMORY_NEVER);
            const uint64_t problems = v.n_problems;
            syn_validation_free(&v);
            if (status == SYN_OK && problems == (which == 0)) break;
            /* If memory runs out while the test writes its file, the file is truncated, so other
               findings are allowed. */
            CHECK(n < 399);
            CHECK(status == SYN_OK || status == SYN_E_NOMEM);
        }
    }
}

static void wrong_calls(void) {
    const syn_validate_options how = {0};
    syn_error err = {0};
    syn_validator *v;
    CHECK_OK(syn_validator_open(&v, &how, 2, &err), err);
    CHECK_OK(syn_validator_add(v, 1, "", 0, &err), err);
    CHECK_INT(syn_validator_add(v, 0, "", 0, &err), SYN_E_INVALID);
    err = (syn_error){0};
    CHECK_INT(syn_validator_add(v, 2, "", 0, &err), SYN_E_INVALID);
    CHECK_INT(syn_validator_close(v, NULL, NULL), SYN_OK);
}

static const test_case cases[] = {
    {"long_chain", long_chain},     {"long_cycle", long_cycle}, {"wide_frontier", wide_frontier},
    {"kept_in_part", kept_in_part}, {"two_groups", two_groups}, {"many_groups", many_groups},
    {"json_form", json_form},       {"no_memory", no_memory},   {"wrong_calls", wrong_calls},
};

TEST_MAIN(cases)
