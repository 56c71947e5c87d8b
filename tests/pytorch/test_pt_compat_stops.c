/* Tests compatible mode on input on which the reference tools abort or never terminate: it fails
   with a message that contains their error. Deep chains of ops, on which the reference tools run
   out of stack, are converted. */
#include "tests/support/pt_compat_set.h"

#define TEXT_BYTES 16384

#define ATTRS(rf)                                                                \
    "\"inputs\":{\"values\":[],\"shapes\":[],\"types\":[]},"                     \
    "\"outputs\":{\"values\":[],\"shapes\":[],\"types\":[]},"                    \
    "\"attrs\":[{\"name\":\"rf_id\",\"value\":" #rf                              \
    "},{\"name\":\"fw_parent\",\"value\":0},{\"name\":\"seq_id\",\"value\":-1}," \
    "{\"name\":\"scope\",\"value\":0},{\"name\":\"tid\",\"value\":1},"           \
    "{\"name\":\"fw_tid\",\"value\":0},{\"name\":\"op_schema\",\"value\":\"\"}]"
#define NODE(id, name, parent, rf) \
    "{\"id\":" #id ",\"name\":\"" name "\",\"ctrl_deps\":" #parent "," ATTRS(rf) "}"
#define PROCESS NODE(1, "[pytorch|profiler|execution_trace|process]", 1, 0)
#define ROOT    "[pytorch|profiler|execution_trace|thread]"
#define THREAD  NODE(2, "[pytorch|profiler|execution_trace|thread]", 1, 0)
#define OPS     PROCESS "," THREAD "," NODE(3, "aten::add", 2, 1)
#define HOST(schema, nodes)                                                                \
    "{\"schema\":\"" schema "\",\"pid\":7,\"time\":\"t\",\"start_ts\":1,\"nodes\":[" nodes \
    "],\"finish_ts\":2}"
#define KNOWN "1.1.0-chakra.0.0.4"

#define EVENT(cat, name, ts, dur, args)                                             \
    "{\"ph\":\"X\",\"cat\":\"" cat "\",\"name\":\"" name "\",\"tid\":5,\"ts\":" #ts \
    ",\"dur\":" #dur ",\"args\":{" args "}}"
#define STEP   EVENT("user_annotation", "ProfilerStep#1", 0, 900, "")
#define ADD    EVENT("cpu_op", "aten::add", 10, 50, "\"External id\":1,\"Record function id\":1")
#define LAUNCH EVENT("cuda_runtime", "cudaLaunchKernel", 20, 5, "\"correlation\":9")
#define KERNEL(name) \
    EVENT("kernel", name, 30, 40, "\"External id\":1,\"correlation\":9,\"stream\":7")
#define DEVICE(events) "{\"traceEvents\":[" events "]}"
#define USUAL          STEP "," ADD "," LAUNCH "," KERNEL("k")

/* Links and converts. Returns the error message, or "" on success. device NULL: no device trace. */
static const char *sentence(const char *host, const char *device) {
    static char text[sizeof((syn_error *)NULL)->text];
    compat_set s;
    text[0] = '\0';
    syn_sink *et = NULL;
    if (compat_text(&s, host, device) == SYN_OK) et = compat_write(&s, false);
    if (et == NULL) snprintf(text, sizeof text, "%s", s.err.text);
    else (void)syn_sink_close(et, false, NULL);
    if (et == NULL && s.err.code != SYN_E_FORMAT) snprintf(text, sizeof text, "not FORMAT");
    compat_free(&s);
    return text;
}

static void usual_set_passes(void) {
    CHECK_STR(sentence(HOST(KNOWN, OPS), DEVICE(USUAL)), "");
    CHECK_STR(sentence(HOST(KNOWN, OPS), NULL), "");
}

static void linker_refuses_host(void) {
    static const char *const rows[][2] = {
        {HOST("1.1.1-chakra.1.0.0", OPS), "No corresponding node creation function found for "
                                          "schema version \"1.1.1-chakra.1.0.0\""},
        {HOST(KNOWN, THREAD), "KeyError: 1"},
        {HOST(KNOWN, OPS ",{\"id\":4,\"name\":\"x\",\"ctrl_deps\":2}"), "KeyError: 'inputs'"},
        {HOST(KNOWN, OPS ",{\"id\":4,\"name\":\"x\"," ATTRS(1) "}"), "KeyError: 'ctrl_deps'"},
        {HOST("1.1.1-chakra.0.0.4", OPS), "KeyError: 'strides'"},
        {HOST(KNOWN, OPS ",{\"id\":4,\"name\":\"x\",\"ctrl_deps\":2,\"inputs\":{},\"outputs\":{},"
                         "\"attrs\":[{\"name\":\"rf_id\",\"value\":3}]}"),
         "not enough values to unpack"},
        {HOST(KNOWN, OPS "," NODE(4, "a", 5, 0) "," NODE(5, "b", 4, 0)), "never terminates"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        CHECK_HAS(sentence(rows[i][0], DEVICE(USUAL)), rows[i][1]);
    /* PARAM, which the reference linker uses, stops its search for ancestors at a DataLoader, so
       this cycle is no error. */
    CHECK_STR(sentence(HOST(KNOWN, OPS "," NODE(4, "DataLoader", 5, 0) "," NODE(5, "b", 4, 0)),
                       DEVICE(USUAL)),
              "");
}

static void linker_refuses_device(void) {
    static const char *const rows[][2] = {
        {STEP "," ADD "," LAUNCH "," KERNEL("k") "," LAUNCH, "Duplicate correlation ID 9 found"},
        {ADD "," LAUNCH "," KERNEL("k"), "ProfilerStep"},
        {STEP "," ADD "," KERNEL("k"), "KeyError: 'cuda_runtime'"},
        {STEP "," ADD "," LAUNCH, "'NoneType' object is not subscriptable"},
        /* At this time, doubles are 0.25 apart, so the end is rounded to 0.25 after the start
           although the duration is 0.2. */
        {USUAL "," EVENT("cpu_op", "a", 1700000000005275.5, 0.2,
                         "") "," EVENT("cpu_op", "b", 1700000000005275.5, 0.2, ""),
         "Exclusive duration calculation error"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char device[TEXT_BYTES];
        snprintf(device, sizeof device, DEVICE("%s"), rows[i][0]);
        CHECK_HAS(sentence(HOST(KNOWN, OPS), device), rows[i][1]);
    }
}

static void converter_refuses(void) {
    static const char *const rows[][2] = {
        {HOST("1.0.4-chakra.0.0.4", OPS), "Unsupported schema version"},
        {HOST(KNOWN, OPS "," NODE(4, "x", 2, 9223372036854775808)), "out of range"},
        {HOST(KNOWN, OPS
              ",{\"id\":4,\"name\":\"x\",\"ctrl_deps\":2,\"inter_thread_dep\":99," ATTRS(0) "}"),
         "KeyError: 99"},
        {HOST(KNOWN, PROCESS "," THREAD ",{\"id\":3,\"name\":\"x\",\"ctrl_deps\":2,"
                             "\"inter_thread_dep\":4," ATTRS(0) "}," NODE(4, "y", 2, 0)),
         "Cyclic dependency detected"},
        {HOST(KNOWN,
              OPS ",{\"id\":4,\"name\":\"x\",\"ctrl_deps\":2,\"exclusive_dur\":-1.5," ATTRS(0) "}"),
         "exclusive_dur"},
        {HOST(KNOWN, OPS ",{\"id\":4,\"name\":\"ncclDevKernel_SendRecv\",\"cat\":\"kernel\","
                         "\"ctrl_deps\":77," ATTRS(0) "}"),
         ""}, /* dropped without an error, because its caller does not exist */
        {HOST(KNOWN, OPS ",{\"id\":4,\"name\":\"x\",\"ctrl_deps\":2,\"inputs\":{},\"outputs\":{},"
                         "\"attrs\":[]}"),
         "KeyError"},
        {"{\"schema\":\"" KNOWN "\",\"time\":\"t\",\"start_ts\":1,\"nodes\":[" OPS
         "],\"finish_ts\":2}",
         "KeyError: 'pid'"},
        {"{\"schema\":\"" KNOWN "\",\"pid\":\"7\",\"time\":\"t\",\"start_ts\":1,\"nodes\":[" OPS
         "],\"finish_ts\":2}",
         "TypeError"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        CHECK_HAS(sentence(rows[i][0], NULL), rows[i][1]);
    CHECK_HAS(sentence(HOST(KNOWN, OPS),
                       DEVICE(STEP "," ADD "," LAUNCH "," KERNEL("ncclDevKernel_Reduce_Sum"))),
              "does not correspond to a recognized collective");
}

static void tensors_must_be_tensors(void) {
    static const char *const inputs[] = {"\"values\":[\"<UNKNOWN>\"],\"types\":[\"Tensor(float)\"]",
                                         "\"values\":[[1,2,0,4]],\"types\":[\"Tensor(float)\"]",
                                         ("\"values\":[[[1,2,0,4,4],3]],\"types\":["
                                          "\"GenericList[Tensor(float),Int]\"]")};
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
        char host[TEXT_BYTES], node[TEXT_BYTES / 4];
        const char *old = "\"inputs\":{\"values\":[],\"shapes\":[],\"types\":[]}";
        const char *rest = &ATTRS(1)[strlen(old)];
        CHECK(memcmp(ATTRS(1), old, strlen(old)) == 0);
        snprintf(node, sizeof node,
                 "{\"id\":3,\"name\":\"nccl:all_reduce\",\"ctrl_deps\":2,\"inputs\":{%s,"
                 "\"shapes\":[]}%s}",
                 inputs[i], rest);
        snprintf(host, sizeof host, HOST(KNOWN, PROCESS "," THREAD ",%s"), node);
        CHECK_HAS(
            sentence(host, DEVICE(STEP "," ADD "," LAUNCH "," KERNEL("ncclDevKernel_AllReduce"))),
            i == 2 ? "" : "TypeError");
    }
}

/* ---- Depth ---- */

static void append(syn__buf *buf, const char *text) {
    syn__buf_put(buf, text, strlen(text));
}

/* A host trace in which n ops call each other in a chain. down: callers have higher ids than the
   ops that they call, and come later in the file. The caller frees the text (syn_free). */
static char *chain(size_t n, bool down, const char *name) {
    syn__buf buf = {0};
    char text[1024];
    append(&buf,
           "{\"schema\":\"" KNOWN "\",\"pid\":7,\"time\":\"t\",\"start_ts\":1,\"nodes\":[" PROCESS);
    for (size_t i = 0; i < n; i++) {
        const size_t id = down ? n + 1 - i : i + 2;
        const size_t parent = i == 0 ? 1 : down ? id + 1 : id - 1;
        snprintf(text, sizeof text, ",{\"id\":%zu,\"name\":\"%s\",\"ctrl_deps\":%zu," ATTRS(0) "}",
                 id, i == 0 ? ROOT : name, parent);
        append(&buf, text);
    }
    append(&buf, "],\"finish_ts\":2}");
    syn__buf_put(&buf, "", 1);
    return buf.data;
}

static void deep_chains(void) {
    for (int down = 0; down < 2; down++) {
        compat_set s;
        size_t bytes = 0;
        char *host = chain(200000, down != 0, "op");
        CHECK(host != NULL);
        CHECK_OK(compat_text(&s, host, DEVICE(USUAL)), s.err);
        CHECK_INT(s.merged.n_nodes, 200001);
        syn_sink *et = compat_write(&s, false);
        CHECK_OK(et == NULL, s.err);
        CHECK(syn_sink_data(et, &bytes) != NULL && bytes > 200000 * 100);
        (void)syn_sink_close(et, false, NULL);
        compat_free(&s);
        syn_free(host);
    }
}

/* 100,000 nested thread nodes. If the subtree of each were walked separately, the time would be
   quadratic. */
static void nested_threads(void) {
    char *host = chain(100000, true, ROOT);
    CHECK(host != NULL);
    CHECK_STR(sentence(host, NULL), "");
    syn_free(host);
}

static void memory_out(void) {
    for (uint64_t n = 0; n < 400; n += n < 60 ? 1 : 13) {
        compat_set s;
        syn_memory_fail_after(n);
        syn_sink *et = NULL;
        const syn_status read = compat_text(&s, HOST(KNOWN, OPS), DEVICE(USUAL));
        if (read == SYN_OK) et = compat_write(&s, false);
        syn_memory_fail_after(SYN_MEMORY_NEVER);
        if (et == NULL) CHECK_MSG(s.err.code == SYN_E_NOMEM, "%d %s", (int)s.err.code, s.err.text);
        if (et != NULL) (void)syn_sink_close(et, false, NULL);
        compat_free(&s);
        CHECK(n > 0 || et == NULL);
        CHECK(n < 380 || et != NULL);
    }
}

static const test_case cases[] = {
    {"usual_set_passes", usual_set_passes},
    {"linker_refuses_host", linker_refuses_host},
    {"linker_refuses_device", linker_refuses_device},
    {"converter_refuses", converter_refuses},
    {"tensors_must_be_tensors", tensors_must_be_tensors},
    {"deep_chains", deep_chains},
    {"nested_threads", nested_threads},
    {"memory_out", memory_out},
};

TEST_MAIN(cases)
