/* Fills in [MASK]s on one rank. Separate from inference_fill.c, which prepares the input and prints
   the results. */
#include <math.h>

#include "models/bert.h"
#include "models/score.h"
#include "syntorch/base/clock.h"
#include "syntorch/base/memory.h"
#include "tools/inference/inference_fill.h"
#include "tools/progress.h"

/* Allocates rank 0's results. */
static syn_status alloc_results(inference *run, syn_error *err) {
    filling *work = run->work;
    size_t n, logits;
    if (!syn_mul_size((size_t)work->n_masks, (size_t)work->n_top, &n) ||
        !syn_mul_size((size_t)work->n_masks, (size_t)run->config.vocab_size, &logits))
        n = logits = SIZE_MAX / 8;
    work->top = syn_calloc(n, sizeof *work->top);
    work->best = syn_calloc(n, sizeof *work->best);
    if (run->args->save_logits && !inference_all_logits(run->args))
        work->logits = syn_calloc(logits, sizeof *work->logits);
    else logits = 0;
    if (work->top && work->best && (work->logits || logits == 0)) return SYN_OK;
    return SYN_FAIL_NOMEM(err, (2 * n + logits) * 4, "results");
}

/* Stores rank 0's results of n masks, beginning with mask `first`. got: logits, probabilities,
   token ids. */
static syn_status keep_results(inference *run, syn_ctx *ctx, int64_t first, int64_t n,
                               const syn_tensor got[3], syn_error *err) {
    filling *work = run->work;
    const int64_t v = run->config.vocab_size;
    const size_t elems = (size_t)(n * work->n_top);
    float *top = work->top + first * work->n_top;
    SYN_TRY(syn_tensor_read_f32(ctx, got[1], top, elems));
    SYN_TRY(
        syn_tensor_read(ctx, got[2], work->best + first * work->n_top, elems * sizeof *work->best));
    for (size_t i = 0; i < elems; i++)
        if (!isfinite(top[i]))
            return SYN_FAIL(err, SYN_E_INVALID, "the model's predictions are NaN or infinite");
    if (!work->logits) return SYN_OK;
    return syn_tensor_read_f32(ctx, got[0], work->logits + first * v, (size_t)(n * v));
}

/* Predicts n masks, beginning with mask `first`. The first position in `hidden` is position `begin`
   of the batch. */
static syn_status predict(inference *run, syn_model *model, syn_tensor hidden, int64_t begin,
                          int64_t first, int64_t n, syn_error *err) {
    const filling *work = run->work;
    syn_ctx *ctx = syn_model_ctx(model);
    const syn_spec places = {SYN_I32, 1, {n}};
    int32_t *masks = syn_malloc((size_t)n * sizeof *masks);
    if (!masks) return SYN_FAIL_NOMEM(err, (size_t)n * sizeof *masks, "positions");
    for (int64_t i = 0; i < n; i++) masks[i] = work->masks[first + i] - (int32_t)begin;
    const syn_tensor at = syn_input(ctx, "mask_positions", &places, masks);
    syn_free(masks);
    syn_tensor got[3] = {syn_bert_mlm(model, hidden, at)};
    syn_push_scope(ctx, "predict");
    const syn_tensor wide =
        syn_cast(ctx, got[0], SYN_F32); /* so that all printed digits are correct */
    got[1] = syn_top_k(ctx, syn_softmax(ctx, wide), work->n_top, &got[2]);
    syn_pop_scope(ctx);
    SYN_TRY(syn_ctx_check(ctx, err));
    if (syn_ctx_rank(ctx) != 0 || !syn_ctx_has_data(ctx)) return SYN_OK;
    return keep_results(run, ctx, first, n, got, err);
}

/* Predicts all masks, beginning with mask *next, that are before position `end` of the batch.
   Advances *next. Computes the logits of a limited number of masks at a time. */
static syn_status predict_all(inference *run, syn_model *model, syn_tensor hidden, int64_t begin,
                              int64_t end, int64_t *next, syn_error *err) {
    const filling *work = run->work;
    syn_ctx *ctx = syn_model_ctx(model);
    const int64_t most = syn_logits_rows(model, true);
    for (;;) {
        int64_t n = 0;
        while (n < most && *next + n < work->n_masks && work->masks[*next + n] < end) n++;
        if (n == 0) return SYN_OK;
        const syn_mark mark = syn_ctx_mark(ctx);
        SYN_TRY(predict(run, model, hidden, begin, *next, n, err));
        syn_release(ctx, mark, NULL, 0);
        *next += n;
    }
}

/* Runs n prompts, beginning with prompt `first`. scores NULL: only fills in masks. */
static syn_status run_piece(inference *run, syn_model *model, const inference_scoring *scores,
                            int64_t first, int64_t n, int64_t *next, syn_error *err) {
    const filling *work = run->work;
    syn_ctx *ctx = syn_model_ctx(model);
    const int64_t length = run->prompt_tokens, begin = first * length;
    const syn_spec tokens = {SYN_I32, 2, {n, length}}, mask_spec = {SYN_F32, 2, {n, length}};
    const syn_tensor ids = syn_input(ctx, "tokens", &tokens, work->ids + begin);
    const syn_tensor padding =
        work->padding ? syn_input(ctx, "padding_mask", &mask_spec, work->padding + begin)
                      : SYN_NO_MASK;
    const syn_tensor hidden = syn_bert_forward(model, ids, SYN_BERT_NO_TYPES, padding);
    SYN_TRY(predict_all(run, model, hidden, begin, begin + n * length, next, err));
    SYN_TRY(syn_ctx_check(ctx, err));
    return scores ? inference_scoring_put(scores, hidden, first, n, err) : SYN_OK;
}

/* Runs all prompts. If one forward pass is enough, the recorded rows are kept. */
static syn_status run_pieces(inference *run, syn_model *model, const inference_scoring *scores,
                             bool progress_shown, syn_error *err) {
    syn_ctx *ctx = syn_model_ctx(model);
    const int64_t at_once = inference_texts_at_once(run);
    progress texts = {.what = "running", .unit = "prompts", .quiet = !progress_shown};
    int64_t next = 0;
    progress_step(&texts, 0, run->batch);
    for (int64_t first = 0, n; first < run->batch; first += n) {
        const syn_mark from = syn_ctx_mark(ctx);
        n = run->batch - first < at_once ? run->batch - first : at_once;
        SYN_TRY(run_piece(run, model, scores, first, n, &next, err));
        if (n < run->batch) SYN_TRY(inference_end_piece(run, ctx, from, err));
        progress_step(&texts, first + n, run->batch);
    }
    return SYN_OK;
}

syn_status inference_fill_rank(inference *run, const inference_rank *self, syn_error *err) {
    filling *work = run->work;
    syn_model *model = self->model;
    const syn_ctx *ctx = syn_model_ctx(model);
    const bool keeps = syn_ctx_rank(ctx) == 0 && syn_ctx_has_data(ctx);
    inference_scoring scores = {.run = run, .model = model, .padding = work->n_padding};
    if (keeps && work->n_masks > 0) SYN_TRY(alloc_results(run, err));
    const int64_t start = (int64_t)syn__clock_ns();
    syn_status s = SYN_OK;
    if (inference_scores(run->args)) {
        s = inference_scoring_begin(&scores, err);
        if (s == SYN_OK) s = run_pieces(run, model, &scores, self->shows_progress, err);
        s = inference_scoring_end(&scores, s, err);
    } else {
        s = run_pieces(run, model, NULL, self->shows_progress, err);
    }
    if (keeps) work->forward_ns = (int64_t)syn__clock_ns() - start;
    return s;
}
