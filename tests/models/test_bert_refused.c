/* Tests the errors of BERT: invalid inputs, missing heads, and too little memory. */
#include "tests/support/small_models.h"
#include "tests/support/test.h"

static syn_tensor input(syn_ctx *ctx, syn_dtype dtype, int rank, int64_t a, int64_t b, int64_t c) {
    const syn_spec spec = {(int32_t)dtype, rank, {a, b, c}};
    return syn_input(ctx, "x", &spec, NULL);
}

static syn_tensor bad_call(syn_ctx *ctx, syn_model *bert, int which) {
    const syn_tensor none = {0}, tokens = input(ctx, SYN_I32, 2, 2, 5, 0);
    const syn_tensor hidden = input(ctx, SYN_F32, 3, 2, 5, 32),
                     at = input(ctx, SYN_I32, 1, 2, 0, 0);
    switch (which) {
    case 0:
        return syn_bert_forward(bert, input(ctx, SYN_I32, 2, 1, 25, 0), none, none);
    case 1:
        return syn_bert_forward(bert, input(ctx, SYN_F32, 2, 2, 5, 0), none, none);
    case 2:
        return syn_bert_forward(bert, input(ctx, SYN_I32, 1, 5, 0, 0), none, none);
    case 3:
        return syn_bert_forward(bert, none, none, none);
    case 4:
        return syn_bert_forward(bert, tokens, input(ctx, SYN_I32, 2, 2, 4, 0), none);
    case 5:
        return syn_bert_forward(bert, tokens, none, input(ctx, SYN_I32, 2, 2, 5, 0));
    case 6:
        return syn_bert_forward(bert, tokens, none, input(ctx, SYN_F32, 2, 1, 5, 0));
    case 7:
        return syn_bert_pooled(bert, input(ctx, SYN_F32, 3, 2, 5, 31));
    case 8:
        return syn_bert_pooled(bert, none);
    case 9:
        return syn_bert_mlm(bert, input(ctx, SYN_F32, 2, 5, 32, 0), at);
    case 10:
        return syn_bert_mlm(bert, hidden, input(ctx, SYN_I32, 2, 1, 2, 0));
    case 11:
        return syn_bert_mlm(bert, hidden, input(ctx, SYN_I32, 1, 0, 0, 0));
    case 12:
        return syn_bert_nsp(bert, input(ctx, SYN_F32, 3, 2, 32, 32));
    case 13:
        return syn_bert_forward(bert, input(ctx, SYN_I32, 2, 0, 5, 0), none, none);
    default:
        return syn_bert_forward(bert, input(ctx, SYN_I32, 2, 2, 0, 0), none, none);
    }
}

static void wrong_inputs_are_refused(void) {
    static const char *const says[] = {
        "25 tokens exceed the 24 positions of small",
        "tokens must be i32 (batch, tokens), not f32",
        "tokens must be i32 (batch, tokens), not i32",
        "tokens must be i32 (batch, tokens), not f32",
        "token types must be i32",
        "the padding mask must be f32",
        "the padding mask must be f32",
        "'pooler' needs f32 (batch, tokens, 32)",
        "'pooler' needs",
        "'MLM' needs f32 (batch, tokens, 32)",
        "positions must be i32 (number of positions)",
        "positions must be i32 (number of positions)",
        "'NSP' needs f32 (batch, 32)",
        "tokens must be i32 (batch, tokens)",
        "tokens must be i32 (batch, tokens)",
    };
    for (int which = 0; which < (int)(sizeof says / sizeof says[0]); which++)
        for (int device = 0; device < 2; device++) {
            syn_error err = {0};
            const syn_model_options how = {.heads = ALL_HEADS};
            syn_model *bert =
                model_alone(device ? SYN_DEVICE_META : SYN_DEVICE_CPU, &small_bert, &how);
            syn_ctx *ctx = syn_model_ctx(bert);
            const syn_tensor t = bad_call(ctx, bert, which);
            /* After a failure, calls have no effect. */
            const size_t rows = syn_ctx_trace(ctx)->n_nodes;
            (void)bad_call(ctx, bert, which);
            const bool still = syn_ctx_trace(ctx)->n_nodes == rows;
            (void)model_end(bert, &err);
            CHECK_INT(t.id, 0);
            CHECK_MSG(err.code == SYN_E_SHAPE, "case %d: status %d, %s", which, (int)err.code,
                      err.text);
            CHECK_HAS(err.text, says[which]);
            CHECK(still);
        }
}

/* A model has only the parameters of those heads that it was created with, and other heads give
   errors. */
static void heads_are_made_on_demand(void) {
    for (unsigned heads = 0; heads < 8; heads++) {
        syn_status s[3];
        int64_t params = 0;
        const syn_model_options how = {.heads = heads};
        for (int i = 0; i < 3; i++) {
            syn_error err = {0};
            syn_model *bert = model_alone(SYN_DEVICE_META, &small_bert, &how);
            syn_ctx *ctx = syn_model_ctx(bert);
            const syn_tensor hidden = input(ctx, SYN_F32, 3, 2, 5, 32);
            if (i == 0) syn_bert_pooled(bert, hidden);
            if (i == 1) syn_bert_mlm(bert, hidden, SYN_BERT_ALL);
            if (i == 2) syn_bert_nsp(bert, input(ctx, SYN_F32, 2, 2, 32, 0));
            params = 0;
            for (size_t k = 0; k < syn_ctx_param_count(ctx); k++)
                params += syn_spec_elems(syn_tensor_spec(ctx, syn_ctx_param(ctx, k).tensor));
            s[i] = model_end(bert, &err);
            if (s[i] != SYN_OK) CHECK_HAS(err.text, "small was created without");
        }
        CHECK_INT(s[0], heads & (SYN_BERT_POOLER | SYN_BERT_NSP) ? SYN_OK : SYN_E_INVALID);
        CHECK_INT(s[1], heads & SYN_BERT_MLM ? SYN_OK : SYN_E_INVALID);
        CHECK_INT(s[2], heads & SYN_BERT_NSP ? SYN_OK : SYN_E_INVALID);
        CHECK_INT(params, syn_model_config_params(&small_bert, heads));
    }
}

/* Creates the model and runs both paths of the encoder and all heads. */
static syn_status whole_run(void *fused, syn_error *err) {
    syn_ctx *ctx = NULL;
    syn_model *bert = NULL;
    const syn_model_options how = {.heads = ALL_HEADS, .fused_attention = *(bool *)fused};
    SYN_TRY(syn_ctx_new(&ctx, SYN_DEVICE_CPU, NULL, err));
    syn_status s = syn_model_new(&bert, ctx, &small_bert, &how, err);
    if (s == SYN_OK) {
        const syn_tensor ids = input(ctx, SYN_I32, 2, 2, 3, 0);
        const syn_tensor at = input(ctx, SYN_I32, 1, 4, 0, 0);
        syn_tensor x = syn_bert_forward(bert, ids, ids, input(ctx, SYN_F32, 2, 2, 3, 0));
        (void)syn_bert_nsp(bert, syn_bert_pooled(bert, x));
        (void)syn_bert_mlm(bert, x, at);
        s = syn_ctx_check(ctx, err);
    }
    syn_model_free(bert);
    syn_ctx_free(ctx);
    return s;
}

static void survives_allocation_failures(void) {
    bool unfused = false, fused = true;
    CHECK(test_without_memory(whole_run, &fused) > 40);
    CHECK(test_without_memory(whole_run, &unfused) > 40);
}

static const test_case cases[] = {
    {"wrong_inputs_are_refused", wrong_inputs_are_refused},
    {"heads_are_made_on_demand", heads_are_made_on_demand},
    {"survives_allocation_failures", survives_allocation_failures},
};

TEST_MAIN(cases)
