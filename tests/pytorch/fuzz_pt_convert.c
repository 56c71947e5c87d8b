/* Fuzz target: the whole conversion of one or two ranks. The input consists of up to four files,
   each ended by a NUL: the host and the device trace of one rank, then those of another. An empty
   part stands for a missing file. Checks that every op depends only on earlier ops, and that
   writing succeeds or sets an error message. The targets fuzz_pt_host.c and fuzz_pt_device.c check
   the readers alone. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "export/pytorch/comm/pt_comm.h"
#include "export/pytorch/deps/pt_deps.h"
#include "export/pytorch/match/pt_match.h"
#include "export/pytorch/rank/pt_rank.h"
#include "export/pytorch/set/pt_set.h"
#include "export/pytorch/write/pt_write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool cond) {
    if (!cond) abort();
}

/* The part of the input that has not been read yet. */
typedef struct rest {
    const char *text;
    size_t bytes;
} rest;

/* Opens the next part unless it is empty. Returns false if memory runs out. */
static bool open_part(rest *r, syn__file_text *input, const char *name) {
    const char *end = r->bytes > 0 ? memchr(r->text, 0, r->bytes) : NULL;
    const size_t bytes = end ? (size_t)(end - r->text) : r->bytes;
    const syn_status s =
        bytes > 0 ? syn__file_text_memory(input, name, r->text, bytes, NULL) : SYN_OK;
    const size_t taken = bytes + (end != NULL);
    r->text += taken;
    r->bytes -= taken;
    return s == SYN_OK;
}

static syn_status read_rank(rest *r, syn__pt_rank *rank, const syn_pytorch_options *options,
                            syn_pytorch_note *notes, syn_error *err) {
    if (!open_part(r, &rank->host_input, "host") || !open_part(r, &rank->device_input, "device"))
        return SYN_E_NOMEM;
    if (!rank->host_input.data && !rank->device_input.data) return SYN_E_INVALID;
    SYN_TRY(syn__pt_rank_load(rank, options, notes, err));
    SYN_TRY(syn__pt_match(rank, options, notes, err));
    SYN_TRY(syn__pt_find_comms(rank, notes, err));
    SYN_TRY(syn__pt_connect(rank, options, err));
    return syn__pt_order(rank, notes, err);
}

static void check_order(const syn__pt_rank *r) {
    for (size_t op = 0; op < r->n_ops; op++)
        for (size_t d = r->first_dep[op]; d < r->first_dep[op + 1]; d++)
            need(r->ids[r->deps[d].from] < r->ids[op]);
}

static void write_both(const syn__pt_rank *r, const syn_pytorch_options *options) {
    for (int sim = 0; sim < 2; sim++) {
        syn_sink *sink = NULL;
        syn_error err = {0};
        if (syn_sink_open_memory(&sink, NULL) != SYN_OK) return;
        const syn_status s = sim ? syn__pt_write_sim(r, options->version, sink, NULL, &err)
                                 : syn__pt_write_full(r, options->version, sink, &err);
        need(s == SYN_OK || err.text[0] != '\0');
        (void)syn_sink_close(sink, false, NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 1 << 15) return 0;
    syn__pt_rank ranks[2] = {{0}};
    syn_pytorch_options options = {0};
    syn_pytorch_note notes[SYN_PYTORCH_ANOMALIES] = {{0}};
    syn_error err = {0};
    rest r = {(const char *)data, size};
    size_t n = 0;
    syn_status s = SYN_OK;
    options.trim = size % 2 == 1;
    while (n < 2 && s == SYN_OK && (n == 0 || r.bytes > 0)) {
        s = read_rank(&r, &ranks[n], &options, notes, &err);
        if (s == SYN_OK) ranks[n].rank = (int32_t)n;
        n++;
    }
    if (s == SYN_OK) {
        for (size_t i = 0; i < n; i++) check_order(&ranks[i]);
        s = syn__pt_set_agree(ranks, n, notes, &err);
        for (size_t i = 0; i < n && s == SYN_OK; i++) write_both(&ranks[i], &options);
    }
    for (size_t i = 0; i < n; i++) syn__pt_rank_free(&ranks[i]);
    return 0;
}
