/* Tests what models with context parallelism refuse, and the positions of a rank's tokens. What
   they compute is tested with the ops (test_ops_context) and with the program
   (test_pretrain_context). */
#include "comm/comm.h"
#include "models/bert.h"
#include "models/causal.h"
#include "models/context_parallel.h"
#include "tests/support/test.h"

enum { RANKS = 4 };

static const char
    gpt[] = "{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_embd\": 32, \"n_head\": 4, "
            "\"n_positions\": 64, \"vocab_size\": 99}",
    mistral[] = "{\"model_type\": \"mistral\", \"num_hidden_layers\": 1, \"hidden_size\": 32, "
                "\"num_attention_heads\": 8, \"num_key_value_heads\": 2, "
                "\"intermediate_size\": 48, \"vocab_size\": 99, \"sliding_window\": 8}",
    bert[] = "{\"model_type\": \"bert\", \"num_hidden_layers\": 1, \"hidden_size\": 32, "
             "\"num_attention_heads\": 4, \"intermediate_size\": 64, "
             "\"max_position_embeddings\": 64, \"vocab_size\": 99}";

/* A model on rank 1 of a cp group. */
typedef struct model {
    syn_comm *comm;
    syn_group *cp;
    syn_ctx *ctx;
    syn_model *m;
} model;

static void close_model(model *x) {
    syn_model_free(x->m);
    syn_ctx_free(x->ctx);
    syn_comm_close(x->comm);
}

/* Creates the model. how->cp_a2a and cp_p2p: not NULL for the cp group. */
static syn_status open_model(model *x, const char *json, syn_model_options how, syn_error *err) {
    const int32_t ranks[RANKS] = {0, 1, 2, 3};
    syn_model_config c;
    *x = (model){.comm = NULL};
    SYN_TRY(syn_model_config_parse(&c, "config.json", json, strlen(json), err));
    SYN_TRY(syn_comm_fake_new(&x->comm, 1, RANKS, err));
    SYN_TRY(syn_comm_open_group(x->comm, 1, "cp0", ranks, RANKS, &x->cp, err));
    SYN_TRY(syn_ctx_new(&x->ctx, SYN_DEVICE_META, x->comm, err));
    how.cp = x->cp;
    if (how.cp_a2a) how.cp_a2a = x->cp;
    if (how.cp_p2p) how.cp_p2p = x->cp;
    how.heads = SYN_BERT_MLM;
    return syn_model_new(&x->m, x->ctx, &c, &how, err);
}

static const syn_group some;
#define RING .cp_p2p = &some, .fused_attention = true

static void models_that_are_refused(void) {
    const struct {
        const char *json;
        syn_model_options how;
        const char *says;
    } bad[] = {
        {gpt, {.fused_attention = true}, "context parallelism needs cp_a2a, cp_p2p or both"},
        {gpt, {.cp_p2p = &some}, "a ring or all-gathers of keys and values need fused attention"},
        {gpt, {RING, .recompute = SYN_RECOMPUTE_OP}, "cannot save the outputs of single ops"},
        {mistral, {RING}, "a sliding window of 8 tokens needs cp_comm a2a"},
        {mistral,
         {.cp_a2a = &some},
         "all-to-alls of 4 ranks (cp_comm) cannot divide the 2 key/value"},
        {bert, {RING}, "context parallelism (cp) needs a causal model, and this is a BERT"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        model x;
        syn_error err = {0};
        CHECK(open_model(&x, bad[i].json, bad[i].how, &err) != SYN_OK);
        CHECK_HAS(err.text, bad[i].says);
        close_model(&x);
    }
}

static syn_tensor zeros(syn_ctx *ctx, syn_dtype dtype, int64_t b, int64_t t) {
    const syn_spec spec = {(int32_t)dtype, 2, {b, t}};
    return syn_input(ctx, "zeros", &spec, NULL);
}

/* Trains one pass of t tokens, with a mask or dropout. Returns the error message. */
static const char *trained(model *x, int64_t t, bool mask, double dropout) {
    const syn_model_dropout how = {.residual = dropout};
    static char text[512];
    syn_error err = {0};
    NEED_OK(open_model(x, gpt, (syn_model_options){RING}, &err), err);
    syn_model_set_dropout(x->m, &how);
    const syn_tensor ids = zeros(x->ctx, SYN_I32, 2, t);
    syn_causal_loss_masked(x->m, ids, mask ? zeros(x->ctx, SYN_F32, 2, t) : SYN_NO_MASK, ids,
                           SYN_MEAN);
    snprintf(text, sizeof text, "%s", syn_ctx_error(x->ctx)->text);
    close_model(x);
    return text;
}

static void passes_that_are_refused(void) {
    model x;
    syn_error err = {0};
    CHECK_STR(trained(&x, 16, false, 0), "");
    CHECK_HAS(trained(&x, 15, false, 0), "so its 15 tokens must be even");
    CHECK_HAS(trained(&x, 18, false, 0), "72 tokens exceed the 64 positions");
    CHECK_HAS(trained(&x, 16, true, 0), "context parallelism does not support masks");
    CHECK_HAS(trained(&x, 16, false, 0.1), "context parallelism does not support dropout");
    CHECK_OK(open_model(&x, gpt, (syn_model_options){RING}, &err), err);
    CHECK(syn_causal_begin(x.m, 1, 16, &err) == SYN_E_UNSUPPORTED);
    CHECK_HAS(err.text, "context parallelism (cp) is only for training");
    close_model(&x);
}

/* Rank 1 of 4 has the pieces 1 and 6 of 8. */
static void positions_of_pieces(void) {
    static const int32_t want[6] = {3, 4, 5, 18, 19, 20};
    const int32_t ranks[RANKS] = {0, 1, 2, 3};
    const syn_group cp = {.ranks = ranks, .size = RANKS, .index = 1};
    syn_ctx *ctx;
    syn_error err = {0};
    int32_t got[6];
    CHECK_OK(syn_ctx_new(&ctx, SYN_DEVICE_CPU, NULL, &err), err);
    syn_model m = {.ctx = ctx, .options = {.cp = &cp}};
    const syn_tensor positions = syn__cp_positions(&m, 6);
    CHECK_INT(syn_tensor_read(ctx, positions, got, sizeof got), SYN_OK);
    for (int i = 0; i < 6; i++) CHECK_INT(got[i], want[i]);
    syn_ctx_free(ctx);
}

static const test_case cases[] = {
    {"models_that_are_refused", models_that_are_refused},
    {"passes_that_are_refused", passes_that_are_refused},
    {"positions_of_pieces", positions_of_pieces},
};
TEST_MAIN(cases)
