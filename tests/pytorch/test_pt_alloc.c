/* Tests conversions in which memory runs out, at each allocation in turn, in default and in
   compatible mode. Each failure must return an error message and free all memory; the sanitizer run
   checks for leaks. The file also tests truncated host traces: all nodes that are complete before
   the cut must be read. */
#include "export/pytorch/comm/pt_comm.h"
#include "export/pytorch/compat/pt_compat.h"
#include "export/pytorch/deps/pt_deps.h"
#include "export/pytorch/match/pt_match.h"
#include "export/pytorch/rank/pt_rank.h"
#include "export/pytorch/set/pt_set.h"
#include "export/pytorch/sim/pt_replay.h"
#include "export/pytorch/write/pt_merge_rank.h"
#include "export/pytorch/write/pt_write.h"
#include "syntorch/base/memory.h"
#include "tests/support/files.h"
#include "tests/support/test.h"

static syn_status convert(syn_sink *sink, syn_error *err) {
    static const syn_pytorch_options options = {0};
    syn__pt_rank rank;
    syn_pytorch_note notes[SYN_PYTORCH_ANOMALIES] = {{0}};
    syn_pytorch_replay replayed = {0};
    syn__pt_merged_list merged = {0};
    syn_status s =
        syn__pt_rank_read(&rank, reference_path("pt_compat/messages_host.json"),
                          reference_path("pt_compat/messages_device.json"), &options, notes, err);
    if (s == SYN_OK) s = syn__pt_match(&rank, &options, notes, err);
    if (s == SYN_OK) s = syn__pt_find_comms(&rank, notes, err);
    if (s == SYN_OK) s = syn__pt_connect(&rank, &options, err);
    if (s == SYN_OK) s = syn__pt_order(&rank, notes, err);
    if (s == SYN_OK) s = syn__pt_set_agree(&rank, 1, notes, err);
    if (s == SYN_OK) s = syn__pt_write_full(&rank, options.version, sink, err);
    if (s == SYN_OK) s = syn__pt_write_sim(&rank, options.version, sink, NULL, err);
    if (s == SYN_OK) s = syn__pt_replay(&rank, &replayed, err);
    if (s == SYN_OK) s = syn__pt_merge_rank(&rank, &merged, err);
    if (s == SYN_OK) s = syn__pt_write_linked(&rank.host, &rank.device, &merged, sink, err);
    syn__pt_merged_free(&merged);
    syn_free(replayed.rows);
    syn__pt_rank_free(&rank);
    return s;
}

static syn_status convert_compat(syn_sink *sink, syn_error *err) {
    syn__file_text host_input = {0}, device_input = {0};
    syn__pt_host host = {0};
    syn__pt_device device = {0};
    syn__pt_merged_list merged = {0};
    syn_status s =
        syn__file_text_open(&host_input, reference_path("pt_compat/messages_host.json"), 0, err);
    if (s == SYN_OK)
        s = syn__file_text_open(&device_input, reference_path("pt_compat/messages_device.json"), 0,
                                err);
    if (s == SYN_OK) s = syn__pt_host_read(&host, &host_input, (syn_pytorch_object){0}, NULL, err);
    if (s == SYN_OK) s = syn__pt_device_read(&device, &device_input, NULL, err);
    if (s == SYN_OK) s = syn__pt_compat_link(&host, &device, &merged, err);
    if (s == SYN_OK) s = syn__pt_write_linked(&host, &device, &merged, sink, err);
    if (s == SYN_OK) s = syn__pt_compat_convert(&host, &device, &merged, sink, err);
    syn__pt_merged_free(&merged);
    syn__pt_host_free(&host);
    syn__pt_device_free(&device);
    syn__file_text_close(&host_input);
    syn__file_text_close(&device_input);
    return s;
}

/* The conversion to run. */
typedef struct mode {
    syn_status (*run)(syn_sink *, syn_error *);
} mode;

static syn_status into_memory(void *arg, syn_error *err) {
    const mode *m = arg;
    syn_sink *sink;
    SYN_TRY(syn_sink_open_memory(&sink, err));
    const syn_status status = m->run(sink, err);
    const syn_status closed = syn_sink_close(sink, false, err);
    return status != SYN_OK ? status : closed;
}

static void default_mode(void) {
    mode m = {convert};
    CHECK(test_without_memory(into_memory, &m) > 30);
}

static void compatible_mode(void) {
    mode m = {convert_compat};
    CHECK(test_without_memory(into_memory, &m) > 30);
}

/* The number of elements of "nodes" that end within the first `cut` bytes, counted by the depth of
   brackets outside of strings. */
static size_t complete_before(const char *text, size_t cut) {
    size_t depth = 0, n = 0;
    bool quoted = false;
    for (size_t i = 0; i < cut; i++) {
        if (quoted && text[i] == '\\') i++;
        else if (text[i] == '"') quoted = !quoted;
        else if (!quoted && (text[i] == '{' || text[i] == '[')) depth++;
        else if (!quoted && (text[i] == '}' || text[i] == ']')) n += --depth == 2 && text[i] == '}';
    }
    return n;
}

static void cut_anywhere(void) {
    syn__file_text whole;
    syn_error err = {0};
    CHECK_OK(syn__file_text_open(&whole, reference_path("pt_compat/messages_host.json"), 0, &err),
             err);
    const size_t behind = (size_t)(strstr(whole.data, "\"finish_ts\"") - whole.data);
    for (size_t cut = 1; cut < behind; cut += 37) {
        syn__file_text part;
        syn__pt_host host;
        syn_pytorch_note notes[SYN_PYTORCH_ANOMALIES] = {{0}};
        const size_t complete = complete_before(whole.data, cut);
        CHECK_OK(syn__file_text_memory(&part, "cut.json", whole.data, cut, &err), err);
        const syn_status s = syn__pt_host_read(&host, &part, (syn_pytorch_object){0}, notes, NULL);
        CHECK_MSG(host.n_nodes == complete, "cut at %zu: %zu nodes, not %zu", cut, host.n_nodes,
                  complete);
        CHECK((s == SYN_OK) == (complete > 0));
        if (s == SYN_OK) CHECK_INT(notes[SYN_PYTORCH_ANOMALY_TRUNCATED].count, 1);
        syn__pt_host_free(&host);
        syn__file_text_close(&part);
    }
    syn__file_text_close(&whole);
}

static const test_case cases[] = {
    {"default_mode", default_mode},
    {"compatible_mode", compatible_mode},
    {"cut_anywhere", cut_anywhere},
};

TEST_MAIN(cases)
