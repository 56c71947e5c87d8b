/* Implements small_training.h with the library's optimizer and buckets. */
#include "tests/support/small_training.h"

#include "syntorch/gradient.h"

syn_tensor small_training_loss(syn_model *m, int64_t texts) {
    syn_ctx *ctx = syn_model_ctx(m);
    const syn_spec spec = {SYN_I32, 2, {texts, TRAINED_TOKENS}}, one = {SYN_F32, 0, {0}};
    const float share = 1.0f / (TRAINED_TEXTS * TRAINED_TOKENS);
    int32_t ids[TRAINED_TEXTS * TRAINED_TOKENS];
    for (int i = 0; i < TRAINED_TEXTS * TRAINED_TOKENS; i++)
        ids[i] = (i * 37 + syn_ctx_rank(ctx)) % 100;
    const syn_tensor tokens = syn_input(ctx, "tokens", &spec, ids);
    const syn_tensor targets = syn_input(ctx, "targets", &spec, ids);
    const syn_tensor weight = syn_input(ctx, "weight", &one, &share);
    if (syn_model_is_causal(syn_model_get_config(m)))
        return syn_causal_loss(m, tokens, targets, weight);
    const syn_tensor hidden = syn_bert_forward(m, tokens, SYN_BERT_NO_TYPES, SYN_NO_MASK);
    return syn_bert_mlm_loss(m, hidden, targets, weight);
}

typedef struct learner {
    syn_model *model;
    syn_mesh mesh;
    syn_data_parallel *parallel;
    syn_optimizer *optimizer;
    /* Set after the creation of the tensors that live across steps; each step releases the rest. */
    syn_mark mark;
} learner;

static syn_status step(const small_training *t, const learner *l, int number, syn_error *err) {
    syn_ctx *ctx = syn_model_ctx(l->model);
    const int64_t texts = TRAINED_TEXTS / l->mesh.size[SYN_AXIS_DP];
    syn_tensor loss = {0};
    for (int i = 0; i < t->micro; i++) {
        loss = small_training_loss(l->model, texts);
        if (t->around_backward) t->around_backward(ctx, number, false);
        syn_data_parallel_sync(l->parallel, i == t->micro - 1);
        syn_backward(ctx, loss);
        if (t->around_backward) t->around_backward(ctx, number, true);
    }
    SYN_TRY(syn_data_parallel_check(l->parallel, err));
    SYN_TRY(syn_optimizer_step(l->optimizer, 0.001, err));
    float *to = t->losses && syn_ctx_rank(ctx) == 0 ? &t->losses[number] : NULL;
    if (to && syn_tensor_read(ctx, loss, to, sizeof *to) != SYN_OK) return syn_ctx_check(ctx, err);
    if (t->forget) syn_forget(ctx, l->mark, NULL, 0);
    else syn_release(ctx, l->mark, NULL, 0);
    syn_next_step(ctx);
    return syn_ctx_check(ctx, err);
}

syn_status small_training_rank(syn_comm *comm, void *arg, syn_error *err) {
    small_training *t = arg;
    learner l = {0};
    syn_ctx *ctx = NULL;
    SYN_TRY(syn_mesh_open(&l.mesh, comm, &t->shape, err));
    const syn_model_options options = {.tp = l.mesh.group[SYN_AXIS_TP],
                                       .heads = SYN_BERT_MLM,
                                       .recompute = t->recompute,
                                       .dtype = t->dtype,
                                       .fused_attention = t->fused,
                                       .sp = t->sp};
    const syn_optimizer_options how = {.max_grad_norm = 1, .tp = options.tp};
    SYN_TRY(syn_ctx_new(&ctx, t->device, comm, err));
    syn_ctx_set_overlap(ctx, true);
    syn_status s = syn_model_new(&l.model, ctx, t->config, &options, err);
    if (s == SYN_OK)
        s = syn_data_parallel_new(
            &l.parallel, ctx, &(syn_data_parallel_options){.dp = l.mesh.group[SYN_AXIS_DP]}, err);
    if (s == SYN_OK) s = syn_optimizer_new(&l.optimizer, ctx, &how, err);
    l.mark = syn_ctx_mark(ctx);
    for (int i = 0; i < t->steps && s == SYN_OK; i++) s = step(t, &l, i, err);
    if (s == SYN_OK) s = syn_ctx_sync(ctx);
    if (s == SYN_OK) s = syn_trace_verify(syn_ctx_trace(ctx), err);
    t->hash[comm->rank] = syn_trace_hash(syn_ctx_trace(ctx));
    t->peak[comm->rank] = syn_ctx_peak_bytes(ctx);
    syn_ctx_peak_parts(ctx, t->parts[comm->rank]);
    syn_optimizer_free(l.optimizer);
    syn_data_parallel_free(l.parallel);
    syn_model_free(l.model);
    if (t->keep) t->ctx[comm->rank] = ctx;
    else syn_ctx_free(ctx);
    return s;
}

int small_training_ranks(const small_training *t) {
    return t->shape.tp * t->shape.dp;
}
