/* Fuzz target for model configurations and hardware files. Every input is read as both. Each reader
   must either reject it with a message, or accept it with numbers for which sizes and times cannot
   overflow. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "models/config.h"
#include "syntorch/base/utf8.h"
#include "syntorch/hardware/hardware.h"

#define EXPECT(cond)          \
    do {                      \
        if (!(cond)) abort(); \
    } while (0)

static void expect_sentence(syn_status status, const syn_error *err) {
    EXPECT(status == SYN_E_FORMAT && err->code == status);
    EXPECT(strncmp(err->text, "in.json:", 8) == 0 && syn_utf8_valid(err->text, strlen(err->text)));
}

static void fuzz_model(const char *json, size_t bytes) {
    syn_model_config c;
    syn_error err = {0};
    const syn_status status = syn_model_config_parse(&c, "in.json", json, bytes, &err);
    if (status != SYN_OK) {
        expect_sentence(status, &err);
        return;
    }
    const int64_t limit = INT64_MAX / 2;
    EXPECT(memchr(c.name, '\0', sizeof c.name) != NULL && c.name[0] != '\0');
    EXPECT(c.n_embd % c.n_head == 0 && c.end.n_ids >= 0 && c.end.n_ids <= SYN_MAX_STOP_IDS);
    for (int i = 0; i < c.end.n_ids; i++) EXPECT(c.end.ids[i] >= 0 && c.end.ids[i] < c.vocab_size);
    EXPECT(c.end.fill >= 0 && c.end.fill < c.vocab_size);
    EXPECT(c.pad_id >= -1 && c.pad_id < c.vocab_size);
    EXPECT(c.family != &syn_bert_family || c.n_types > 0);
    for (unsigned heads = 0; heads < 8; heads++) {
        const int64_t params = syn_model_config_params(&c, heads);
        EXPECT(params > 0 && params <= limit / 16);
    }
    EXPECT(2 * c.n_layer <= limit / 4 / c.n_positions / c.n_embd); /* elements of the KV cache */
    EXPECT(syn_model_padded_vocab(&c, 8, 128) >= c.vocab_size);
    EXPECT(syn_model_config_check(&c, 1, &err) == SYN_OK);
}

static void fuzz_hardware(const char *json, size_t bytes) {
    static const int32_t ranks[] = {0, 1, 2000000};
    const syn_graph_group group = {.id = 1, .name = "g", .ranks = ranks, .n_ranks = 3};
    syn_hardware hw;
    syn_error err = {0};
    const syn_status status = syn_hardware_parse(&hw, "in.json", json, bytes, &err);
    if (status != SYN_OK) {
        expect_sentence(status, &err);
        return;
    }
    EXPECT(memchr(hw.name, '\0', sizeof hw.name) != NULL && hw.name[0] != '\0');
    syn_node node = {.op = "linear", .category = SYN_CATEGORY_MATMUL};
    node.flops = node.bytes_read = node.bytes_written = node.comm_bytes = UINT64_MAX;
    node.comm = SYN_COMM_ALL_REDUCE;
    node.dtype = SYN_BF16;
    node.extents = (syn_extents){
        .batch = INT64_MAX, .rows = INT64_MAX, .columns = INT64_MAX, .inner = INT64_MAX};
    for (int kind = 0; kind < SYN_NODE_KIND_COUNT; kind++) {
        node.kind = (syn_node_kind)kind;
        const double ns = syn_hardware_predict_ns(&hw, &node, &group, 0);
        EXPECT(isfinite(ns) && ns >= 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_model((const char *)data, size);
    fuzz_hardware((const char *)data, size);
    return 0;
}
